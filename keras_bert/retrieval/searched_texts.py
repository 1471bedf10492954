"""What every index of texts does, whatever the vectors are: build, search, save, load.

    texts --encoder--> vectors of N texts --compared with those of queries--> scores [Q, N] --> hits

A subclass makes the vectors, compares them and writes their files.

Shapes: N texts, Q queries.
"""

import abc
import json
import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from keras_bert.counts import needed_count
from keras_bert.progress import Progress
from keras_bert.storage.files import atomic_folder
from keras_bert.storage.paths import check_folder, check_replaceable
from keras_bert.storage.text_lines import check_several, check_strings

TEXTS_FILE, INDEX_FILE = "texts.jsonl", "index.json"
# What encoders are known by; the first that one has counts, as BGE-M3's has several.
_KNOWN_BY = ("weights", "token_width", "vocab_size", "width", "k1")
# In the file of an index of several searches: how many they are.
PARTS = "searches"

# What reading a damaged index raises.
_DAMAGED = (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile)

# Texts between two moves of the progress line.
_TEXTS_PER_PART = 2048
# Scores that are in memory at a time.
_SCORES_PER_BLOCK = 1 << 26
# Texts that are encoded again when an index is opened, and by how much a number of their vectors
# may differ, as a part of the longest one, where the same model makes them on another machine.
_TEXTS_COMPARED = 8
_LONG_TEXTS_COMPARED = 4
_SAME_MODEL = 1e-3


class Hit(NamedTuple):
    """A text that was found.

    Attributes:
        number: its place among the texts, from 0.
        score: cosine of its vector and that of the query, from -1 to 1; their product, where the
            vectors are sparse or the model's similarity is "dot"; the sum over the tokens of the
            query (MaxSim), where each token has a vector; the mean of these three of BGE-M3; what
            BM25, a sum of ranks or a `CrossEncoder` gave it.
        text: the text.
    """

    number: int
    score: float
    text: str


def check_index_folder(folder: str | os.PathLike, own: Collection[str], what: str) -> None:
    """Checks that an index may be written into a folder: nothing else is in it.

    Args:
        folder: the folder; it may be missing.
        own: names of the files beside `INDEX_FILE` that such an index has.
        what: what errors call it.

    Raises:
        ValueError: it is no folder of this machine, or one that holds something else.
    """
    check_folder("folder", folder)
    path = Path(folder)
    names = {one.name for one in path.iterdir()} if path.exists() else set()
    # Others write an index.json, too: the folder is replaced as a whole.
    if names and (INDEX_FILE not in names or names - {INDEX_FILE, *own}):
        raise ValueError(f"{path} holds something else than {what}: choose another folder")
    check_replaceable(folder)


def read_index_file(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns what the file of an index says of it.

    Raises:
        FileNotFoundError: the folder holds no index.
        ValueError: the file is damaged.
    """
    path = Path(folder)
    if not (path / INDEX_FILE).is_file():
        raise FileNotFoundError(f"{path} holds no {INDEX_FILE}: build the index first")
    try:
        stored = json.loads((path / INDEX_FILE).read_text(encoding="utf-8"))
        if not isinstance(stored, dict):
            raise TypeError(f"{INDEX_FILE} holds no object")
    except _DAMAGED as error:
        raise ValueError(f"{path} holds a damaged index ({error}): build it anew") from None
    return stored


class SearchedTexts(abc.ABC):
    """N texts that can be searched, with a vector for each.

    Args:
        encoder: makes vectors of queries; the one that made those of the texts.
        texts: N texts.
        vectors: those of the texts.

    Attributes:
        texts: see above.
        vectors: see above.

    Raises:
        ValueError: one string was given in place of a list, or a text is none.
    """

    # What encodes, and the attribute of `_KNOWN_BY` by which it is known.
    encoder_is: ClassVar[str]
    encoder_has: ClassVar[str]
    # What vectors depend on, for messages.
    made_with: ClassVar[str] = (
        "pooling, prompt, truncate_dim, m3_weights, max_active_dims or max_seq_length"
    )
    # The file of the vectors in the folder of an index.
    vectors_file: ClassVar[str]
    # Texts that score so much, or less, have nothing to do with a query and are not found.
    found_above: ClassVar[float] = -np.inf

    def __init__(self, encoder: Any, texts: Sequence[str], vectors: Any):
        self.texts = check_strings(texts)
        self._check_encoder(encoder)
        self.vectors = vectors
        self._encoder = encoder
        # [N]: where each text stands first. Vectors and products of equal texts may differ in the
        # last digit, by their place in a batch.
        first: dict[str, int] = {}
        places = [first.setdefault(text, place) for place, text in enumerate(self.texts)]
        self._first = np.array(places, np.int64)
        self._is_first = self._first == np.arange(len(self))  # [N]
        self._is_blank = np.array([not text.strip() for text in self.texts], bool)  # [N]

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def build(cls, encoder: Any, texts: Sequence[str], batch_size: int = 64) -> Self:
        """Makes the vectors of all texts, by `encoder.encode_document`.

        Args:
            encoder: turns texts into vectors.
            texts: N texts.
            batch_size: texts of a call of the model.

        Raises:
            ValueError: one string was given in place of a list, or a text is none.
        """
        texts = check_strings(texts)
        cls._check_encoder(encoder)
        # A prompt or a similarity that cannot be reproduced is refused before the work.
        parts = [cls._comparable(encoder, encoder.encode_query([]))]
        parts += cls._encoded(encoder, texts, batch_size, _TEXTS_PER_PART)
        return cls(encoder, texts, cls._joined(parts))

    @staticmethod
    def _encoded(
        encoder: Any, texts: Sequence[str], batch_size: int, texts_per_part: int
    ) -> Iterator[Any]:
        """Yields the vectors of texts, so many at a time, and tells how far it is."""
        with Progress(len(texts), "text", "encoding") as progress:
            for start in range(0, len(texts), texts_per_part):
                part = texts[start : start + texts_per_part]
                yield encoder.encode_document(part, batch_size)
                progress.update(len(part))

    def search(self, queries: Sequence[str], top_k: int = 10) -> list[list[Hit]]:
        """Returns the nearest texts of each query, the best first; empty texts are not found.

        Args:
            queries: Q queries.
            top_k: how many texts at most.

        Raises:
            ValueError: one string was given in place of a list, or `top_k` is below 1.
        """
        return self.nearest(self.query_vectors(queries), top_k)

    def query_vectors(self, queries: Sequence[str]) -> Any:
        """Returns vectors whose products with those of the texts are scores, of Q queries.

        They are those of `encoder.encode_query`.

        Raises:
            ValueError: one string was given in place of a list.
        """
        check_several(queries)
        return self._comparable(self._encoder, self._encoder.encode_query(queries))

    def nearest(self, vectors: Any, top_k: int = 10) -> list[list[Hit]]:
        """Returns the texts whose products with each of Q vectors are largest, the best first.

        Those that are empty, or blanks alone, are left out.

        Args:
            vectors: as `query_vectors` makes them.
            top_k: how many texts at most.

        Raises:
            ValueError: `top_k` is below 1, or the vectors have another form or width, or are not
                finite.
        """
        needed_count("top_k", top_k)
        return self._ranked(self._checked(vectors), top_k, lambda part: self._scores(part, top_k))

    def _ranked(
        self, vectors: Any, top_k: int, scores_of_part: Callable[[Any], np.ndarray]
    ) -> list[list[Hit]]:
        """Returns the best texts of each of Q vectors by scores float32 [part, N] of some."""
        block = max(1, _SCORES_PER_BLOCK // max(1, len(self)))
        found = []
        for start in range(0, len(vectors), block):
            scores = scores_of_part(vectors[start : start + block])  # [block, N]
            found += [self._hits(row, top_k) for row in scores]
        return found

    @property
    @abc.abstractmethod
    def numbers_each(self) -> str:
        """What a vector is made of, for users."""

    @abc.abstractmethod
    def scores_of(self, vectors: Any, numbers: Sequence[int]) -> np.ndarray:
        """Returns the score of each vector with one text, float32 [Q].

        Args:
            vectors: of Q queries, as `query_vectors` makes them.
            numbers: the place of a text for each.
        """

    def save(self, folder: str | os.PathLike) -> None:
        """Writes texts and vectors into a folder, whole or not at all.

        Args:
            folder: a new one, or one of an earlier index, which is replaced.

        Raises:
            ValueError: the folder holds something else, or is not local.
        """
        self.check_folder(folder)
        with atomic_folder(folder) as part:
            self._write_vectors(part)
            with open(part / TEXTS_FILE, "w", encoding="utf-8") as file:
                for text in self.texts:
                    file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            content = {"texts": len(self), **self._made_by(self._encoder)}
            (part / INDEX_FILE).write_text(json.dumps(content) + "\n", encoding="utf-8")

    @classmethod
    def check_folder(cls, folder: str | os.PathLike) -> None:
        """Checks before the work that an index may be written.

        Raises:
            ValueError: it is no folder of this machine, or one that holds something else.
        """
        check_index_folder(folder, {TEXTS_FILE, cls.vectors_file}, "an index")

    @classmethod
    def load(cls, folder: str | os.PathLike, encoder: Any) -> Self:
        """Opens what `save` wrote.

        Args:
            folder: the folder.
            encoder: the one that made its vectors.

        Raises:
            FileNotFoundError: the folder holds no index.
            ValueError: another model made the vectors, or a file is damaged.
        """
        cls._check_encoder(encoder)
        path, stored = Path(folder), read_index_file(folder)
        if PARTS in stored:
            raise ValueError(
                f"{path} is an index of {stored[PARTS]} searches: open it with all of them, or "
                "build another"
            )
        try:
            is_same = cls._stored_by(stored) == cls._made_by(encoder)
            vectors = cls._read_vectors(path) if is_same else ()
            with open(path / TEXTS_FILE, encoding="utf-8") as file:
                texts = check_strings(json.loads(line)["text"] for line in file)
        except _DAMAGED as error:
            raise ValueError(f"{path} holds a damaged index ({error}): build it anew") from None
        if is_same:
            index = cls(encoder, texts, *vectors)
            is_same = index._was_made_by(encoder)
        if not is_same:
            raise ValueError(
                f"{path} was made by another model, or with another {cls.made_with}, so its "
                "vectors are not those of this one: give the same, or build the index anew"
            )
        return index

    def _was_made_by(self, encoder: Any) -> bool:
        """Whether an encoder makes the vectors of some of the texts that stand there."""
        if not len(self):
            return True  # nothing to compare
        spread = np.linspace(0, len(self) - 1, _TEXTS_COMPARED).astype(int)
        # Long texts tell what cuts them: a max_seq_length.
        long_ones = np.argsort([len(text) for text in self.texts])[-_LONG_TEXTS_COMPARED:]
        places = np.unique([*spread, *long_ones])
        made = encoder.encode_document([self.texts[place] for place in places])
        return self._holds(self._comparable(encoder, made), places)

    @abc.abstractmethod
    def _holds(self, vectors: Any, places: np.ndarray) -> bool:
        """Whether vectors of the texts at some places, at least one, are those of the index."""

    @staticmethod
    def _are_same(found: np.ndarray, held: np.ndarray, tolerance: float = _SAME_MODEL) -> bool:
        """Whether one model made whole vectors [texts, numbers] on two machines."""
        longest = max(1.0, float(np.linalg.norm(found, axis=-1).max()))
        return bool(np.abs(found - held).max() < tolerance * longest)

    def _hits(self, scores: np.ndarray, top_k: int) -> list[Hit]:
        scores = scores[self._first]  # [N]: equal texts have equal scores
        scores = np.where(self._is_blank | (scores <= self.found_above), -np.inf, scores)
        count = min(top_k, int(np.count_nonzero(scores > -np.inf)))
        # All that are as good as the last of the best ones, in their order; of equal ones the first
        # goes before.
        least = np.partition(scores, -count)[-count] if count else np.inf
        best = np.flatnonzero(scores >= least)
        best = best[np.lexsort((best, -scores[best]))][:count]
        return [Hit(int(one), float(scores[one]), self.texts[one]) for one in best]

    @classmethod
    def _check_encoder(cls, encoder: Any) -> None:
        known_by = next((name for name in _KNOWN_BY if hasattr(encoder, name)), None)
        if isinstance(encoder, type) or known_by != cls.encoder_has:
            raise ValueError(
                f"the encoder is a {type(encoder).__name__}: a {cls.__name__} takes "
                f"{cls.encoder_is}"
            )

    @staticmethod
    @abc.abstractmethod
    def _comparable(encoder: Any, vectors: Any) -> Any:
        """Returns what an encoder made as vectors whose products are the scores."""

    @staticmethod
    @abc.abstractmethod
    def _joined(parts: Sequence[Any]) -> Any:
        """Returns the vectors of all parts, one behind the other."""

    @abc.abstractmethod
    def _checked(self, vectors: Any) -> Any:
        """Returns vectors of queries; refuses those of another form or width."""

    @abc.abstractmethod
    def _scores(self, vectors: Any, top_k: int) -> np.ndarray:
        """Returns the products of Q vectors with those of the texts, float32 [Q, N].

        Of equal texts the first one's count. Where not all texts are compared those far from the
        `top_k` nearest have -inf.
        """

    @classmethod
    def _made_by(cls, encoder: Any) -> dict[str, Any]:
        """Returns what tells the vectors of an encoder from those of others, for the file."""
        return {cls.encoder_has: getattr(encoder, cls.encoder_has)}

    @classmethod
    def _stored_by(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the same as the file has it, or what vectors of another kind say."""
        return {name: value for name, value in content.items() if name != "texts"}

    def _check_count(self, vectors: Any) -> None:
        if len(vectors) != len(self.texts):
            raise ValueError(
                f"there are vectors of {len(vectors):,} texts and {len(self.texts):,} texts: build "
                "the index anew"
            )

    @abc.abstractmethod
    def _write_vectors(self, folder: Path) -> None:
        """Writes the file of the vectors."""

    @classmethod
    @abc.abstractmethod
    def _read_vectors(cls, folder: Path) -> tuple[Any, ...]:
        """Reads that file; returns what the class takes behind encoder and texts."""
