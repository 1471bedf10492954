"""How good and how different generated texts are: corpus BLEU, self-BLEU, n-grams seen nowhere.

Wang and Cho 2019 (arXiv:1902.04094), section 4, measure quality by the BLEU of all texts against a
corpus (Yu et al. 2017), and diversity by the BLEU of each text against all others (Zhu et al. 2018,
self-BLEU: lower is more diverse) and by the rate of n-grams that are nowhere else. BLEU is that of
Papineni et al. 2002, over a whole corpus: counts of all texts are added before they are divided.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from keras_bert.counts import needed_count
from keras_bert.storage.text_lines import check_listed

Words = Sequence[str]


class _Best(NamedTuple):
    """How often an n-gram is in the text that has it most, which text that is, and the next."""

    most: int
    owner: int
    next_most: int


def corpus_bleu(texts: Iterable[Words], references: Iterable[Words], max_order: int = 4) -> float:
    """Returns the BLEU of texts, all references being those of each text.

    Args:
        texts: words, or pieces, of each text.
        references: those of each text of the corpus.
        max_order: the longest n-grams, 4 for BLEU-4.

    Returns:
        From 0 to 1; 0 where no n-gram of some order matches (there is no smoothing).

    Raises:
        ValueError: there is no text or no reference, one is a string, or `max_order` is below 1.

    Example:
        >>> round(corpus_bleu(["the film was good".split()], ["the film was bad".split()], 2), 4)
        0.7071
    """
    needed_count("max_order", max_order)
    texts, references = _lists_of_words(texts), _lists_of_words(references, "references")
    if not references:
        raise ValueError("there are no references: give the texts of a corpus")
    best = [_best_counts(references, order) for order in range(1, max_order + 1)]
    return _bleu(texts, best, Counter(map(len, references)), own=False)


def self_bleu(texts: Iterable[Words], max_order: int = 4) -> float:
    """Returns the BLEU of texts, the references of each being all others: 1 where all are alike.

    Args:
        texts: words, or pieces, of each text; two or more.
        max_order: the longest n-grams.

    Returns:
        From 0 to 1; lower is more diverse.

    Raises:
        ValueError: there are fewer than two texts, one is a string, or `max_order` is below 1.
    """
    needed_count("max_order", max_order)
    texts = _lists_of_words(texts)
    if len(texts) < 2:
        raise ValueError(f"there are {len(texts)} texts: self-BLEU needs two or more")
    best = [_best_counts(texts, order) for order in range(1, max_order + 1)]
    return _bleu(texts, best, Counter(map(len, texts)), own=True)


def unique_ngram_rate(
    texts: Iterable[Words], order: int, references: Iterable[Words] | None = None
) -> float:
    """Returns the rate of n-grams that are nowhere else, from 0 to 1: higher is more diverse.

    Args:
        texts: words, or pieces, of each text.
        order: the length of the n-grams, n.
        references: texts of a corpus: n-grams are counted that are in none of them; None counts
            those that are once among all n-grams of `texts`.

    Raises:
        ValueError: no text has an n-gram, or one is a string.
    """
    counts: Counter = Counter()
    for text in _lists_of_words(texts):
        counts.update(_ngrams(text, order))
    if not counts:
        raise ValueError(f"no text has {order} words: give longer ones, or a smaller order")
    if references is None:
        unique = sum(count for count in counts.values() if count == 1)
    else:
        corpus = _lists_of_words(references, "references")
        seen = {ngram for text in corpus for ngram in _ngrams(text, order)}
        unique = sum(count for ngram, count in counts.items() if ngram not in seen)
    return unique / counts.total()


def _lists_of_words(texts: Iterable[Words], name: str = "texts") -> list[Words]:
    check_listed(texts, name, "a list with the words of each text")
    found = list(texts)
    for number, text in enumerate(found):
        check_listed(text, f"{name}, text {number} (counted from 0),", "a list of its words")
        if isinstance(text, str | bytes):
            raise ValueError(
                f"the text {text!r} is a string, whose letters would be its words: give a list of "
                "its words, as text.split() does"
            )
    return found


def _ngrams(words: Words, order: int) -> Counter:
    needed_count("order", order)
    return Counter(tuple(words[at : at + order]) for at in range(len(words) - order + 1))


def _best_counts(references: Sequence[Words], order: int) -> dict[tuple, _Best]:
    # With the second best, the most of all texts but one is known without counting them again.
    best: dict[tuple, _Best] = {}
    for owner, words in enumerate(references):
        for ngram, count in _ngrams(words, order).items():
            old = best.get(ngram, _Best(0, -1, 0))
            if count > old.most:
                best[ngram] = _Best(count, owner, old.most)
            else:
                best[ngram] = old._replace(next_most=max(count, old.next_most))
    return best


def _bleu(
    texts: Sequence[Words],
    best: Sequence[dict[tuple, _Best]],
    lengths: Counter[int],
    own: bool,
) -> float:
    """Returns the BLEU; `own` leaves the text itself out of its references.

    `lengths` tells how many references have each length: time and memory grow with the number of
    texts, not with its square.
    """
    if not texts:
        raise ValueError("there are 0 texts: give one or more")
    matches, totals = [0] * len(best), [0] * len(best)
    length = reference_length = 0
    for index, words in enumerate(texts):
        for at, counts in enumerate(best):
            for ngram, count in _ngrams(words, at + 1).items():
                found = counts.get(ngram, _Best(0, -1, 0))
                most = found.next_most if own and found.owner == index else found.most
                matches[at] += min(count, most)
                totals[at] += count
        length += len(words)
        reference_length += _closest(lengths, len(words), own)
    if not all(matches):
        return 0.0
    precision = sum(math.log(m / t) for m, t in zip(matches, totals, strict=True)) / len(best)
    return math.exp(precision + min(0.0, 1 - reference_length / length))


def _closest(lengths: Counter[int], length: int, own: bool) -> int:
    """Returns the reference length closest to that of a text; of two as close the shorter."""
    if lengths[length] > own:  # not that of the text itself alone
        return length
    others = (other for other in lengths if other != length)
    return min(others, key=lambda other: (abs(other - length), other))
