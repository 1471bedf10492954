"""Words that tell a group of texts from the others: class-based TF-IDF.

    texts of each class --words--> how often each is in it --rare ones elsewhere first--> weights

A word t of class c weighs (Grootendorst 2022, "BERTopic", arXiv:2203.05794)

    tf(t, c) * log(1 + A / f(t))

where tf(t, c) is its part of all words of the class, f(t) how often all classes have it together,
and A how many words a class has in the mean.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from keras_bert.retrieval.bm25_index import Bm25

# A word that is hardly more frequent in a class than elsewhere does not name it, but it may be so
# frequent that it weighs most: by the formula alone "the", "of" and "and" name all clusters of the
# Brown corpus. This is in place of a list of such words, which each language would need its own of.
# With 2 "is", "are", "its" are left there; with 4 words of topics that several clusters share go.
_TIMES_AS_FREQUENT = 3.0


class ClassWord(NamedTuple):
    """A word that is typical of a class.

    Attributes:
        word: in small letters and without accents.
        weight: by class-based TF-IDF.
    """

    word: str
    weight: float


def class_words(classes: Sequence[Sequence[str]], most: int) -> list[list[ClassWord]]:
    """Returns the words of the largest weights of each class, the largest first.

    Words are those of BM25 that have a letter or a digit. Left out are those that are not three
    times as frequent in the class as in the others together, and in a class of several texts those
    that one alone has.

    Args:
        classes: the texts of each class.
        most: how many words of a class, at most.
    """
    counts: list[Counter[str]] = []  # how often each class has each word
    texts_with: list[Counter[str]] = []  # how many texts of each class have it
    splitter = Bm25()
    for texts in classes:
        counts.append(Counter())
        texts_with.append(Counter())
        for text in texts:
            words = [word for word in splitter.words(text) if any(map(str.isalnum, word))]
            counts[-1].update(words)
            texts_with[-1].update({*words})
    totals: Counter[str] = Counter()
    for count in counts:
        totals.update(count)
    everything = totals.total()
    mean = everything / max(1, len(classes))
    found = []
    for texts, count, having in zip(classes, counts, texts_with, strict=True):
        own, others = count.total(), everything - count.total()
        weighed = [
            ClassWord(word, times / own * math.log1p(mean / totals[word]))
            for word, times in count.items()
            if times * others >= _TIMES_AS_FREQUENT * (totals[word] - times) * own
            and having[word] >= min(2, len(texts))
        ]
        found.append(sorted(weighed, key=lambda one: (-one.weight, one.word))[:most])
    return found
