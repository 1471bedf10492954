"""Search in several ways at once: the ranks that a text has in each of them are added up.

    query --search by vectors--> 1. C  2. A  3. F      1/(60+1) for C, 1/(60+2) for A, ...
          --search by words----> 1. A  2. D  3. C      1/(60+1) for A, 1/(60+2) for D, ...
                                 added up: A, C, D, F

Scores of different searches cannot be compared, ranks can: what several find near the top goes
first (reciprocal rank fusion, Cormack et al. 2009).
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from keras_bert.counts import needed_count
from keras_bert.retrieval.m3_index import M3Index
from keras_bert.retrieval.multi_vector_index import MultiVectorIndex
from keras_bert.retrieval.searched_texts import (
    INDEX_FILE,
    PARTS,
    Hit,
    SearchedTexts,
    check_index_folder,
    read_index_file,
)
from keras_bert.storage.files import atomic_folder
from keras_bert.storage.text_lines import check_strings

# Texts of each search whose ranks count, and what is added to ranks where nobody says.
_DEPTH, _RANK_CONSTANT = 100, 60
_STORED_CONSTANT = "rank_constant"
# Those that may keep vectors of tokens in a few bits.
_WITH_BITS = (MultiVectorIndex, M3Index)


class FusedIndex:
    """Texts that can be searched in several ways at once, as by their words and by vectors.

    Args:
        indexes: at least two of the same texts: `TextIndex`, `SparseTextIndex`, `MultiVectorIndex`,
            `M3Index` and `Bm25Index`.
        rank_constant: what is added to each rank; with more of it the first ranks count less.

    Attributes:
        texts: the texts, N.

    Raises:
        ValueError: there are fewer than two, one is no such index, their texts differ, or
            `rank_constant` is below 1.

    Example:
        index = FusedIndex([TextIndex.build(encoder, manual), Bm25Index.build(Bm25(), manual)])
        found = index.search(["How do I lock a mutex?"], top_k=3)
    """

    def __init__(self, indexes: Sequence[SearchedTexts], rank_constant: int = _RANK_CONSTANT):
        self._rank_constant = needed_count("rank_constant", rank_constant)
        if isinstance(indexes, SearchedTexts):
            raise ValueError(f"indexes is one {type(indexes).__name__}: give a list of two or more")
        indexes = [*indexes]
        if len(indexes) < 2:
            counted = "is 1 index" if indexes else "are 0 indexes"
            raise ValueError(f"there {counted}: give two of the same texts, or more")
        for place, index in enumerate(indexes):
            if not isinstance(index, SearchedTexts):
                raise ValueError(
                    f"index {place} (counted from 0) is a {type(index).__name__}: give a TextIndex,"
                    " a SparseTextIndex, a MultiVectorIndex, an M3Index or a Bm25Index"
                )
            if index.texts != indexes[0].texts:
                raise ValueError(
                    f"index {place} does not hold the texts of index 0: build all of the same texts"
                )
        self.texts = indexes[0].texts
        self._indexes = indexes

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def numbers_each(self) -> str:
        """What vectors are made of, for users."""
        return ", ".join(index.numbers_each for index in self._indexes)

    def search(self, queries: Sequence[str], top_k: int = 10) -> list[list[Hit]]:
        """Returns the texts of each query that have the best ranks, the best first.

        The score of a text is the sum of 1 / (`rank_constant` + its rank) over the searches that
        have it among their 100 nearest (`top_k`, if that is more).

        Args:
            queries: Q queries.
            top_k: how many texts at most.

        Raises:
            ValueError: one string was given in place of a list, or `top_k` is below 1.
        """
        needed_count("top_k", top_k)
        queries = check_strings(queries)
        found = [index.search(queries, max(top_k, _DEPTH)) for index in self._indexes]
        fused = []
        for rankings in zip(*found, strict=True):
            scores: dict[int, float] = {}
            for hits in rankings:
                for rank, hit in enumerate(hits, start=1):
                    added = 1 / (self._rank_constant + rank)
                    scores[hit.number] = scores.get(hit.number, 0.0) + added
            # Of equal ones the first goes before.
            best = sorted(scores, key=lambda number: (-scores[number], number))[:top_k]
            fused.append([Hit(one, scores[one], self.texts[one]) for one in best])
        return fused

    def save(self, folder: str | os.PathLike) -> None:
        """Writes all indexes into a folder, whole or not at all: `0`, `1` and so on.

        Args:
            folder: a new one, or one of an earlier index of several searches, which is replaced.

        Raises:
            ValueError: the folder holds something else, or is not local.
        """
        self.check_folder(folder)
        with atomic_folder(folder) as part:
            for place, index in enumerate(self._indexes):
                index.save(part / str(place))
            content = {
                "texts": len(self),
                PARTS: len(self._indexes),
                _STORED_CONSTANT: self._rank_constant,
            }
            (part / INDEX_FILE).write_text(json.dumps(content) + "\n", encoding="utf-8")

    @classmethod
    def check_folder(cls, folder: str | os.PathLike) -> None:
        """Checks before the work that an index may be written.

        Raises:
            ValueError: it is no folder of this machine, or one that holds something else.
        """
        # Names of parts that could be there: no more than all names.
        names = map(str, range(len([*Path(folder).iterdir()]))) if Path(folder).is_dir() else ()
        check_index_folder(folder, {*names}, "an index of several searches")

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike,
        parts: Sequence[tuple[type[SearchedTexts], Any]],
        rank_constant: int | None = None,
    ) -> Self:
        """Opens what `save` wrote.

        Args:
            folder: the folder.
            parts: the class of each index and the encoder that made it, in their order.
            rank_constant: see the class; None takes that of the index that was saved.

        Raises:
            FileNotFoundError: the folder holds no index.
            ValueError: it is one of another number of searches, another model made the vectors of
                one, or a file is damaged.
        """
        path, stored = Path(folder), read_index_file(folder)
        count = stored.get(PARTS, 1)
        if rank_constant is None:
            rank_constant = stored.get(_STORED_CONSTANT, _RANK_CONSTANT)
        if count != len(parts):
            raise ValueError(
                f"{path} is an index of {count} search{'es' if count != 1 else ''}, and "
                f"{len(parts)} are asked for: give those that it was made with, or build it anew"
            )
        return cls(
            [each.load(path / str(place), encoder) for place, (each, encoder) in enumerate(parts)],
            rank_constant,
        )


def check_bits(bits: int | None, classes: Sequence[type[SearchedTexts]]) -> None:
    """Checks before the work that some index takes a number of bits.

    Args:
        bits: see `build_index`.
        classes: of the indexes that are to be built.

    Raises:
        ValueError: `bits` is given, and no search is by vectors of tokens.
    """
    if bits is not None and not any(issubclass(each, _WITH_BITS) for each in classes):
        raise ValueError(f"bits is {bits}, and is for vectors of tokens: leave it out")


def build_index(
    texts: Sequence[str],
    parts: Sequence[tuple[type[SearchedTexts], Any]],
    batch_size: int = 64,
    bits: int | None = None,
) -> SearchedTexts | FusedIndex:
    """Builds the index of one search or of several.

    Args:
        texts: N texts.
        parts: the class of each index and the encoder that makes it.
        batch_size: texts of a call of a model.
        bits: of vectors of tokens, see `MultiVectorIndex.build`.

    Raises:
        ValueError: see `SearchedTexts.build` and `check_bits`.
    """
    check_bits(bits, [each for each, _ in parts])
    indexes = [
        each.build(encoder, texts, batch_size, bits)
        if issubclass(each, _WITH_BITS)
        else each.build(encoder, texts, batch_size)
        for each, encoder in parts
    ]
    return FusedIndex(indexes) if len(indexes) > 1 else indexes[0]


def open_index(
    folder: str | os.PathLike, parts: Sequence[tuple[type[SearchedTexts], Any]]
) -> SearchedTexts | FusedIndex:
    """Opens the index of one search or of several, as `build_index` made it.

    Args:
        folder: the folder.
        parts: the class of each index and the encoder that made it, in their order.

    Raises:
        FileNotFoundError: the folder holds no index.
        ValueError: see `FusedIndex.load`.
    """
    if len(parts) > 1:
        return FusedIndex.load(folder, parts)
    index_class, encoder = parts[0]
    return index_class.load(folder, encoder)
