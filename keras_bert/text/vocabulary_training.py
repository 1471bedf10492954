"""Learns the word pieces of a corpus with the WordPiece trainer of Hugging Face's `tokenizers`."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from keras_bert.text.vocabulary import (
    CLS,
    CONTINUATION_PREFIX,
    MASK,
    PAD,
    SEP,
    UNKNOWN,
    Vocabulary,
)


def train_vocabulary(
    texts: Iterable[str],
    vocab_size: int,
    lowercase: bool = True,
    min_frequency: int = 2,
    unused_slots: int = 0,
    limit_alphabet: int = 1000,
) -> Vocabulary:
    """Learns a vocabulary; the same texts give the same vocabulary in every process.

    Text is cleaned, lower-cased and split into words as in tokenization.py of
    google-research/bert. The order is Google's: [PAD], [unused1] and so on, [UNK], [CLS], [SEP],
    [MASK], then single characters, then longer pieces, the most useful first.

    Args:
        texts: paragraphs or sentences. They are read twice; an iterator, which can be read only
            once, is kept in memory.
        vocab_size: number of entries. Fewer come back where the texts do not hold enough pieces of
            `min_frequency`.
        lowercase: lower-case and strip accents (an "uncased" vocabulary).
        min_frequency: how often a pair of pieces must occur to become one piece.
        unused_slots: number of [unusedN] entries, to be given a meaning later.
        limit_alphabet: number of distinct characters to keep, the most frequent first; words with
            another character are [UNK]. Raise it to some thousands for CJK.

    Raises:
        ValueError: `min_frequency` or `limit_alphabet` is below 1, the texts hold no word, or
            `vocab_size` has no room for the single characters.
    """
    for name, value in (("min_frequency", min_frequency), ("limit_alphabet", limit_alphabet)):
        if value < 1:
            raise ValueError(f"{name} is {value}: it must be at least 1")
    special = [PAD, *(f"[unused{n + 1}]" for n in range(unused_slots)), UNKNOWN, CLS, SEP, MASK]
    texts = list(texts) if iter(texts) is texts else texts
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=lowercase,
        lowercase=lowercase,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    alphabet, continuations = _characters(texts, tokenizer, limit_alphabet)
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
    tokenizer.train_from_iterator(texts, trainer)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    return Vocabulary(sorted(ids, key=ids.__getitem__))


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
    normalized: Counter[str] = Counter()
    for character, count in counts.items():
        for part in tokenizer.normalizer.normalize_str(character):
            normalized[part] += count
    found = [piece for piece in pieces if len(piece) == 1]
    found.sort(key=lambda character: (-normalized[character], character))
    alphabet = sorted(found[:limit])
    return alphabet, [c for c in alphabet if CONTINUATION_PREFIX + c in pieces]
