"""Lists of candidates, the likeliest first: rescoring by a masked language model.

Salazar et al. 2020, "Masked Language Model Scoring" (ACL), section 4: a speech recognizer or a
translator gives several candidates with scores of its own; the pseudo-log-likelihood of a masked
language model is added to them.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from keras_bert.counts import check_number
from keras_bert.storage.text_lines import check_listed, check_strings
from keras_bert.tasks.fill_mask.scoring import SentenceScorer, TextScore


class RankedCandidate(NamedTuple):
    """A candidate of a list.

    Attributes:
        place: its place in the list that was given, from 0 up.
        text: the candidate.
        score: what it is ranked by; higher is better. Minus infinity without pieces.
        log_likelihood: its pseudo-log-likelihood, a sum of natural logarithms; 0 without pieces.
        pieces: how many pieces it has.
    """

    place: int
    text: str
    score: float
    log_likelihood: float
    pieces: int


def rerank(
    lists: Iterable[Sequence[str]],
    scorer: SentenceScorer,
    first_scores: Iterable[Sequence[float]] | None = None,
    weight: float = 1.0,
    per_piece: bool = False,
) -> Iterator[list[RankedCandidate]]:
    """Returns an iterator of each list of candidates in the order of their scores, the best first.

    The score of a candidate is `first_score + weight * log_likelihood`. Equal ones keep their
    order. A candidate without pieces, such as an empty text, has no likelihood: it is the last.

    Args:
        lists: the candidates of each list.
        scorer: gives the pseudo-log-likelihoods.
        first_scores: for each list the scores that its candidates have already, natural logarithms;
            None takes 0 for all.
        weight: of the pseudo-log-likelihood; choose it on development data.
        per_piece: divide the pseudo-log-likelihood by the number of pieces, for candidates of very
            different lengths.

    Raises:
        ValueError: a list has another number of scores than candidates, there are more or fewer
            lists of scores than of candidates, a list is one string or none, or a number is none.

    Example:
        scorer = SentenceScorer.from_preset("runs/mini/preset")
        [ranked] = rerank([["He left room the .", "He left the room ."]], scorer)
        print(ranked[0].text)
    """
    if not math.isfinite(check_number("weight", weight)):
        raise ValueError(f"weight is {weight}: it must be a number")
    check_listed(lists, "lists", "lists of candidates")
    several = [*lists]
    for number, candidates in enumerate(several):
        check_listed(candidates, f"list {number}", "a list of candidates")
    lists = [
        check_strings(candidates, f"list {number}, candidate")
        for number, candidates in enumerate(several)
    ]
    if first_scores is None:
        given = [[0.0] * len(candidates) for candidates in lists]
    else:
        try:
            given = [[float(score) for score in scores] for scores in first_scores]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"first_scores cannot be read ({error}): give a list of numbers for each list of "
                "candidates"
            ) from error
    if len(given) != len(lists):
        raise ValueError(
            f"there are {len(lists)} lists of candidates but {len(given)} of scores: give one for "
            "each"
        )
    for number, (candidates, scores) in enumerate(zip(lists, given, strict=True)):
        if len(candidates) != len(scores) or not all(map(math.isfinite, scores)):
            raise ValueError(
                f"list {number} has {len(candidates)} candidates and the scores {scores}: give a "
                "number for each"
            )
    return _ranked_lists(lists, given, scorer, weight, per_piece)


def _ranked_lists(
    lists: Sequence[Sequence[str]],
    given: list[list[float]],
    scorer: SentenceScorer,
    weight: float,
    per_piece: bool,
) -> Iterator[list[RankedCandidate]]:
    found = scorer(text for candidates in lists for text in candidates)
    for candidates, scores in zip(lists, given, strict=True):
        ranked = [
            _ranked(index, first, next(found), weight, per_piece)
            for index, first in zip(range(len(candidates)), scores, strict=True)
        ]
        yield sorted(ranked, key=lambda candidate: -candidate.score)


def _ranked(
    index: int, first: float, found: TextScore, weight: float, per_piece: bool
) -> RankedCandidate:
    count = len(found.pieces)
    # The sum over no pieces, 0, would be the best of all.
    score = -math.inf
    if count:
        likelihood = found.log_likelihood / count if per_piece else found.log_likelihood
        score = first + weight * likelihood
    return RankedCandidate(index, found.text, score, found.log_likelihood, count)
