"""What orders anew the texts that a search found: a model that scores pairs of query and text."""

import abc
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.counts import check_count
from keras_bert.retrieval.searched_texts import Hit
from keras_bert.storage.text_lines import check_strings


def check_found(
    queries: Sequence[str], found: Sequence[Sequence[Hit]]
) -> tuple[list[str], list[list[Hit]]]:
    """Returns queries and what a search found for each of them, as lists.

    Raises:
        ValueError: the queries are one string, there are more or fewer of them than lists, or what
            was found is no list of hits.
    """
    queries, found = check_strings(queries), list(found)
    if any(isinstance(hits, Hit) for hits in found):
        raise ValueError("found is one list of hits: give a list of them for each query")
    several = [list(hits) for hits in found]
    other = next((hit for hits in several for hit in hits if not isinstance(hit, Hit)), None)
    if other is not None:
        raise ValueError(
            f"found has a {type(other).__name__} where a Hit belongs: give what "
            "TextIndex.search returned, or score texts by `scores`"
        )
    if len(queries) != len(several):
        raise ValueError(
            f"there are {len(queries):,} queries and {len(several):,} lists of texts: give the "
            "queries that were searched for"
        )
    return queries, several


class _Groups(NamedTuple):
    """Pairs of query and text by their queries.

    Attributes:
        queries: the different queries.
        texts: the different texts.
        pairs: for each query the places of its pairs, and the numbers of the texts in these.
    """

    queries: list[str]
    texts: list[str]
    pairs: list[tuple[list[int], list[int]]]


class Reranker(abc.ABC):
    """Scores texts against the queries beside them; a subclass says how."""

    @abc.abstractmethod
    def scores(
        self, queries: Sequence[str], texts: Sequence[str], batch_size: int = 64
    ) -> np.ndarray:
        """Returns how well each text answers the query beside it, float32 [N]; higher is better.

        Args:
            queries: N queries; one that has several texts is repeated.
            texts: N texts.
            batch_size: of a call of the model.
        """

    def rerank(
        self,
        queries: Sequence[str],
        found: Sequence[Sequence[Hit]],
        top_k: int | None = None,
        batch_size: int = 64,
    ) -> list[list[Hit]]:
        """Returns what a search found in the order of this model's scores, the best first.

        Args:
            queries: Q queries.
            found: what `TextIndex.search` returned for each.
            top_k: how many texts of each query stay; None keeps all.
            batch_size: pairs of a call of the model.

        Returns:
            The same hits with this model's scores; equal ones stay in the order they had. As in a
            search, texts of which the model reads nothing are left out (those of a ColBERT model
            all of whose pieces are on its skiplist: their score is -inf).

        Raises:
            ValueError: see `scores`; or `top_k` is below 1.
        """
        check_count("top_k", top_k)
        queries, found = check_found(queries, found)
        repeated = [query for query, hits in zip(queries, found, strict=True) for _ in hits]
        texts = [hit.text for hits in found for hit in hits]
        scores = iter(self.scores(repeated, texts, batch_size).tolist())
        scored = [[hit._replace(score=next(scores)) for hit in hits] for hits in found]
        scored = [[hit for hit in hits if hit.score > -math.inf] for hits in scored]
        return [sorted(hits, key=lambda hit: -hit.score)[:top_k] for hits in scored]

    @staticmethod
    def _pairs(queries: Sequence[str], texts: Sequence[str]) -> tuple[list[str], list[str]]:
        """Returns queries and texts; refuses what is no list, or not as many of both."""
        queries, texts = check_strings(queries), check_strings(texts)
        if len(queries) != len(texts):
            raise ValueError(
                f"there are {len(queries):,} queries and {len(texts):,} texts: give a query for "
                "each text"
            )
        return queries, texts

    @staticmethod
    def _grouped(queries: Sequence[str], texts: Sequence[str]) -> _Groups:
        """Returns pairs of query and text by their queries, so that each text is encoded once."""
        asked, held = (
            {text: n for n, text in enumerate(dict.fromkeys(several))}
            for several in (queries, texts)
        )
        places_of: list[list[int]] = [[] for _ in asked]
        for place, query in enumerate(queries):
            places_of[asked[query]].append(place)
        pairs = [(places, [held[texts[place]] for place in places]) for places in places_of]
        return _Groups([*asked], [*held], pairs)
