"""Search by the words of the texts themselves (BM25), without a model.

    texts --words--> how often each is in each text --saturated, rare words first--> weights
    query --words--> how often each is in the query ---------------> products with these texts alone

The score of a text is a sum over the words of the query (Robertson and Zaragoza 2009, "The
Probabilistic Relevance Framework: BM25 and Beyond"), as Lucene adds it up since its version 8:

    log(1 + (N - n + 0.5) / (n + 0.5)) * f / (f + k1 * (1 - b + b * length / mean length))

where n of the N texts have the word, and this text, of so many words, has it f times.

Shapes: N texts, Q queries, V different words, T pairs of a text and one of its words.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_bert.counts import check_number, check_switch, take_numbers
from keras_bert.progress import Progress
from keras_bert.retrieval.sparse_index import SparseTextIndex
from keras_bert.storage.text_lines import check_strings
from keras_bert.tasks.sentence_embedding.sparse_vectors import SparseVectors
from keras_bert.text.wordpiece.normalized_characters import CharacterForms
from keras_bert.text.wordpiece.settings import Settings
from keras_bert.text.wordpiece.unicode_table import is_punctuation


@dataclasses.dataclass(frozen=True)
class Bm25:
    """What BM25 takes for a word, and how much a word counts.

    Words are those of BERT's tokenizer before it makes pieces of them: separated by white space and
    punctuation, each Chinese character one of its own; punctuation is none. None is left out as
    too frequent, and endings stay, so that it fits any language with spaces between words.

    Attributes:
        k1: how far more of the same word counts more, finite; 0 asks only whether a text has it.
        b: how far long texts must have a word more often, from 0 to 1.
        lowercase: whether case and accents do not matter.

    Raises:
        ValueError: `k1` is below 0 or not finite, `b` is not from 0 to 1, or `lowercase` no bool.
    """

    k1: float = 1.2
    b: float = 0.75
    lowercase: bool = True

    def __post_init__(self) -> None:
        take_numbers(self)
        if not 0 <= check_number("k1", self.k1) < math.inf:  # nor is NaN
            raise ValueError(f"k1 is {self.k1}: it must be 0 or above, and finite")
        if not 0 <= check_number("b", self.b) <= 1:
            raise ValueError(f"b is {self.b}: it must be from 0 to 1")
        check_switch("lowercase", self.lowercase)

    @cached_property
    def _forms(self) -> CharacterForms:
        return CharacterForms(Settings(lowercase=self.lowercase))

    def words(self, text: str) -> list[str]:
        """Returns the words of a text in their order."""
        return [
            word
            for word in self._forms.normalized(text).split()
            if len(word) > 1 or not is_punctuation(word)
        ]


class Bm25Index(SparseTextIndex):
    """Texts that can be searched by their words.

    Args:
        encoder: what a word is, and how much it counts.
        texts: N texts.
        vectors: the weights of their words, N sparse vectors.
        words: the V words that the numbers in these vectors stand for.

    Attributes:
        texts: see above.
        vectors: see above.
        words: see above.

    Raises:
        ValueError: one string was given in place of a list, or a text is none, or the vectors are
            not as many as the texts or of another number of words.

    Example:
        index = Bm25Index.build(Bm25(), manual)
        for hit in index.search(["How do I lock a mutex?"], top_k=3)[0]:
            print(f"{hit.score:.1f} {hit.text}")
    """

    encoder_is, encoder_has = "a Bm25", "k1"
    made_with = "k1, b or lowercase"
    _SETTINGS = tuple(field.name for field in dataclasses.fields(Bm25))

    def __init__(
        self, encoder: Bm25, texts: Sequence[str], vectors: SparseVectors, words: Sequence[str]
    ):
        self.words = check_strings(words)
        self._numbers = {word: number for number, word in enumerate(self.words)}
        super().__init__(encoder, texts, vectors)

    @classmethod
    def build(cls, encoder: Bm25, texts: Sequence[str], batch_size: int = 64) -> Self:
        """Counts the words of all texts.

        Args:
            encoder: what a word is, and how much it counts.
            texts: N texts.
            batch_size: not used, as there is no model.

        Raises:
            ValueError: one string was given in place of a list, or a text is none.
        """
        texts = check_strings(texts)
        cls._check_encoder(encoder)
        numbers: dict[str, int] = {}
        found: list[int] = []  # T numbers of words, those of each text behind the other
        counted: list[int] = []  # and how often the text has each
        active = np.zeros(len(texts), np.int64)  # [N]: different words of a text
        with Progress(len(texts), "text", "counting words") as progress:
            for row, text in enumerate(texts):
                counts = Counter(encoder.words(text))
                found += [numbers.setdefault(word, len(numbers)) for word in counts]
                counted += counts.values()
                active[row] = len(counts)
                progress.update(1)
        ids, frequencies = np.array(found, np.int32), np.array(counted, np.float64)  # [T]
        rows = np.repeat(np.arange(len(texts)), active)  # [T]
        lengths = np.bincount(rows, frequencies, len(texts))  # [N]
        relative = lengths / max(1e-9, lengths.mean()) if len(texts) else lengths
        having = np.bincount(ids, minlength=len(numbers))  # [V]
        rarity = np.log1p((len(texts) - having + 0.5) / (having + 0.5))  # [V]
        damped = encoder.k1 * (1 - encoder.b + encoder.b * relative)  # [N]
        weights = rarity[ids] * frequencies / (frequencies + damped[rows])  # [T]
        order = np.lexsort((ids, -weights.astype(np.float32), rows))
        splits = np.concatenate([[0], np.cumsum(active)])
        vectors = SparseVectors(splits, ids[order], weights[order], len(numbers))
        return cls(encoder, texts, vectors, [*numbers])

    def query_vectors(self, queries: Sequence[str]) -> SparseVectors:
        """Returns how often each query has each word of the texts, Q sparse vectors.

        Raises:
            ValueError: one string was given in place of a list.
        """
        splits, ids, weights = [0], [], []
        for query in check_strings(queries):
            counts = Counter(self._encoder.words(query))
            for word, count in counts.most_common():  # the largest first
                if word in self._numbers:
                    ids.append(self._numbers[word])
                    weights.append(count)
            splits.append(len(ids))
        return SparseVectors(np.array(splits), np.array(ids), np.array(weights), len(self._numbers))

    @property
    def _vocab_size(self) -> int:
        return len(self._numbers)

    @classmethod
    def _made_by(cls, encoder: Bm25) -> dict[str, Any]:
        return {name: getattr(encoder, name) for name in cls._SETTINGS}

    def _was_made_by(self, encoder: Bm25) -> bool:
        return True  # the settings tell, and the weights depend on all texts

    def _write_vectors(self, folder: Path) -> None:
        # Words hold no white space.
        words = np.frombuffer("\n".join(self.words).encode(), np.uint8)
        np.savez(folder / self.vectors_file, words=words, **self._arrays())

    @classmethod
    def _read_vectors(cls, folder: Path) -> tuple[SparseVectors, list[str]]:
        (vectors,) = super()._read_vectors(folder)
        with np.load(folder / cls.vectors_file) as arrays:
            joined = arrays["words"].tobytes().decode()
        words = joined.split("\n") if joined else []
        if len(words) != vectors.vocab_size:
            raise ValueError(f"{len(words):,} words for {vectors.vocab_size:,} numbers of a vector")
        return vectors, words
