"""Learns the word pieces of a corpus with the WordPiece trainer of Hugging Face's `tokenizers`."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from keras_bert.counts import check_switch, needed_count
from keras_bert.storage.text_lines import check_several, each_string
from keras_bert.text.languages.smoothing import check_alpha, smoothed_rates
from keras_bert.text.vocabulary import (
    CLS,
    CONTINUATION_PREFIX,
    MASK,
    PAD,
    SEP,
    UNKNOWN,
    Vocabulary,
)
from keras_bert.text.wordpiece.normalized_characters import CharacterForms
from keras_bert.text.wordpiece.settings import Settings

_WORDS_PER_TEXT = 1000  # of the texts that scaled counts are given to the trainer as


def train_vocabulary(
    texts: Iterable[str] | Mapping[str, Iterable[str]],
    vocab_size: int,
    lowercase: bool = True,
    min_frequency: int = 2,
    unused_slots: int = 0,
    limit_alphabet: int = 1000,
    language_alpha: float = 1.0,
) -> Vocabulary:
    """Learns a vocabulary; the same texts give the same vocabulary in every process.

    Text is cleaned, lower-cased and split into words as in tokenization.py of
    google-research/bert. The order is Google's: [PAD], [unused1] and so on, [UNK], [CLS], [SEP],
    [MASK], then single characters, then longer pieces, the most useful first.

    Of several languages the counts of words are scaled, so that each has the share of all words
    that `keras_bert.text.languages.smoothing` gives it: those of the largest stay as they are, and
    the others are raised.

    Args:
        texts: paragraphs or sentences. They are read twice; an iterator, which can be read only
            once, is kept in memory. Or those of each language by its name, which are read once.
        vocab_size: number of entries. Fewer come back where the texts do not hold enough pieces of
            `min_frequency`.
        lowercase: lower-case and strip accents (an "uncased" vocabulary).
        min_frequency: how often a pair of pieces must occur to become one piece.
        unused_slots: number of [unusedN] entries, to be given a meaning later.
        limit_alphabet: number of distinct characters to keep, the most frequent first; words with
            another character are [UNK]. Raise it to some thousands for CJK.
        language_alpha: exponent of the shares of several languages, from 0 (all alike) to 1 (as
            many words as they have).

    Raises:
        ValueError: a language has no word, `language_alpha` is not from 0 to 1 or the texts are of
            one language, texts are a single string or one of them is none, a number is out of its
            range, the texts hold no word, or `vocab_size` has no room for the single characters.
    """
    vocab_size = needed_count("vocab_size", vocab_size)
    check_switch("lowercase", lowercase)
    min_frequency = needed_count("min_frequency", min_frequency)
    unused_slots = needed_count("unused_slots", unused_slots, least=0)
    limit_alphabet = needed_count("limit_alphabet", limit_alphabet)
    if language_alpha != 1.0 and not isinstance(texts, Mapping):
        raise ValueError(
            f"language_alpha is {language_alpha}, but the texts are of one language: give a "
            "dictionary with those of each language by its name"
        )
    check_alpha(language_alpha)
    if isinstance(texts, Mapping) and not texts:
        raise ValueError("texts is a dictionary without a language: give those of one at least")
    for each in texts.values() if isinstance(texts, Mapping) else [texts]:
        check_several(each)
    special = [PAD, *(f"[unused{n + 1}]" for n in range(unused_slots)), UNKNOWN, CLS, SEP, MASK]
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    # Normalized by our own tables, which the tokenizer has, too: characters that are words by
    # themselves stand between spaces.
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    forms = CharacterForms(Settings(lowercase=lowercase))
    if isinstance(texts, Mapping):
        counts = {name: _count_words(_Normalized(each, forms)) for name, each in texts.items()}
        words: Iterable[str] = _Repeated(scaled_counts(counts, language_alpha))
    else:
        words = _Normalized(list(texts) if iter(texts) is texts else texts, forms)
    alphabet, continuations = _characters(words, tokenizer, limit_alphabet)
    start = [*special, *alphabet, *(CONTINUATION_PREFIX + c for c in continuations)]
    if vocab_size < len(start):
        raise ValueError(
            f"vocab_size is {vocab_size}, but {len(special)} special entries and "
            f"{len(start) - len(special)} single characters of the texts alone take {len(start)}: "
            "raise it, or keep fewer characters with --limit_alphabet"
        )
    # The trainer breaks ties between equally frequent pairs by the ids of their characters, and
    # numbers the "##" characters in the order of a hash map, which is another in every process.
    # Giving all characters as "special tokens" fixes their ids.
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=start,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=CONTINUATION_PREFIX,
        show_progress=False,
    )
    tokenizer.train_from_iterator(words, trainer)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    return Vocabulary(sorted(ids, key=ids.__getitem__))


class _Normalized:
    """Texts with white space between their words, as often as they are read."""

    def __init__(self, texts: Iterable[str], forms: CharacterForms):
        self._texts = texts
        self._forms = forms

    def __iter__(self) -> Iterator[str]:
        return map(self._forms.normalized, each_string(self._texts))


def _count_words(texts: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split())
    return counts


def scaled_counts(counts: Mapping[str, Counter[str]], alpha: float) -> Counter[str]:
    """Adds up the counts of words of several languages at smoothed shares.

    The language whose share grows least keeps its counts: the largest. No word is lost.

    Args:
        counts: how often each word occurs in each language, by name.
        alpha: exponent of the shares.

    Returns:
        Counts, rounded.

    Raises:
        ValueError: a language has no word, or `alpha` is not from 0 to 1.

    Example:
        >>> both = {"en": Counter(the=90, a=10), "is": Counter(og=4)}
        >>> scaled_counts(both, 0.5)  # 100 and 4 words, shares 10 : 2, so that 4 become 20
        Counter({'the': 90, 'og': 20, 'a': 10})
    """
    totals = {name: words.total() for name, words in counts.items()}
    rates = smoothed_rates(totals, alpha)
    # n times factor is in proportion to the rate, and the smallest factor is 1.
    factors = {name: rates[name] / total for name, total in totals.items()}
    least = min(factors.values())
    scaled: Counter[str] = Counter()
    for name, words in counts.items():
        for word, count in words.items():
            scaled[word] += round(count * factors[name] / least)
    return scaled


class _Repeated:
    """Texts in which each word occurs as often as it counts: the trainer takes no counts."""

    def __init__(self, counts: Counter[str]):
        self._counts = counts

    def __iter__(self) -> Iterator[str]:
        # In an order that follows from the words alone.
        for word, count in sorted(self._counts.items()):
            whole, rest = divmod(count, _WORDS_PER_TEXT)
            text = " ".join([word] * min(count, _WORDS_PER_TEXT))
            yield from itertools.repeat(text, whole)
            if rest:
                yield text[: rest * (len(word) + 1) - 1]


def _characters(
    texts: Iterable[str], tokenizer: Tokenizer, limit: int
) -> tuple[list[str], list[str]]:
    """Returns the most frequent characters, and those of them that occur inside words.

    A training run that stops before the first merge leaves exactly the characters behind.
    """
    counts: Counter[str] = Counter()
    trainer = trainers.WordPieceTrainer(
        vocab_size=0, continuing_subword_prefix=CONTINUATION_PREFIX, show_progress=False
    )

    def counted() -> Iterator[str]:
        for text in texts:
            counts.update(text)
            yield text

    tokenizer.train_from_iterator(counted(), trainer)
    pieces = tokenizer.get_vocab()
    if not pieces:
        raise ValueError("the texts hold no word to learn a vocabulary from: check --input")
    found = [piece for piece in pieces if len(piece) == 1]
    found.sort(key=lambda character: (-counts[character], character))
    alphabet = sorted(found[:limit])
    return alphabet, [c for c in alphabet if CONTINUATION_PREFIX + c in pieces]
