"""The likeliest sequence, piece by piece: greedy search and beam search, in graph.

Both ask a function for the logits of the next piece, and keep its caches of fixed length. All
shapes are static but the number of texts, and the loop is one `while`: it compiles for a TPU. It
ends when no text can get a better answer, at the latest after T pieces.

Beam search keeps the K likeliest beginnings of a text ("alive") and the K best of the sequences
that came to an end ("finished"). A step with K = 2 and the pieces a, b and the end $:

    alive      step: all continuations, the 2K = 4 likeliest      alive after     finished
    a  -0.9    aa -1.2   a$ -1.5   ba -1.8   bb -2.9              aa -1.2         a$ -1.5 / lp(2)
    b  -1.1                                                       ba -1.8

As each beginning has one end, K of 2K continuations go on. An end counts where it is among the K
likeliest, as in fairseq and transformers. Sequences of T pieces count as they are.

Scores: log P(Y) / lp(Y) with lp(Y) = ((5 + |Y|) / 6) ^ alpha (Wu et al. 2016, arXiv:1609.08144,
section 7), |Y| the number of pieces with the end. Without a length penalty (alpha = 0) the score is
the log probability. A larger alpha prefers longer sequences.

Shapes: B texts, K beams, T pieces at most, V entries of the vocabulary.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_bert.counts import check_number, needed_count

# The log probability of what is not there; finite, so that sums and quotients stay numbers.
NEVER = -1e9

Cache = list[Any]
# Pieces int32 [B, K], their position from 0 (int32 scalar), caches whose first axis is B * K ->
# logits of the next piece float32 [B, K, V], caches.
Step = Callable[[Any, Any, Cache], tuple[Any, Cache]]


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """How a sequence is searched for.

    Attributes:
        max_target_length: the most pieces, the end among them, T.
        beam_size: beginnings that are kept, K; 1 is greedy search, which takes the likeliest piece.
        length_penalty: alpha, see above. Beam size and penalty are by default those of Vaswani et
            al. 2017, section 6.1.
        suppressed_ids: pieces that are not generated; None leaves out padding and start of the
            model. Where beams are more than the sequences without them, the last ones may hold
            some, with scores below -1e8.

    Raises:
        ValueError: a number is out of its range.
    """

    max_target_length: int = 64
    beam_size: int = 4
    length_penalty: float = 0.6
    suppressed_ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name, least in (("max_target_length", 2), ("beam_size", 1)):
            needed_count(name, getattr(self, name), least)
        # Of NumPy's numbers Keras takes the dtype; the field is frozen.
        penalty = check_number("length_penalty", self.length_penalty)
        object.__setattr__(self, "length_penalty", penalty)
        if not 0 <= self.length_penalty < math.inf:
            raise ValueError(
                f"length_penalty is {self.length_penalty}: it must be 0 (none) or above"
            )


class Sequences(NamedTuple):
    """What was found.

    Attributes:
        ids: int32 [B, K, T], the best first: pieces, the end, padding.
        scores: float32 [B, K]; NaN where the model answered with what is no number.
    """

    ids: Any
    scores: Any

    @classmethod
    def of_no_texts(cls, count: int, length: int) -> "Sequences":
        """Returns those of a batch that is known to be empty, which cannot be searched eagerly.

        Args:
            count: sequences of each text, K.
            length: pieces of each, T.
        """
        return cls(ops.zeros((0, count, length), "int32"), ops.zeros((0, count), "float32"))


def search(
    step: Step,
    cache: Cache,
    batch: Any,
    start_id: int,
    end_id: int,
    pad_id: int,
    options: SearchOptions,
) -> Sequences:
    """Returns the best sequences, [B, K, T]: greedy where K is 1, else by beam search.

    Args:
        step: gives the logits of the next piece.
        cache: empty caches for B * K rows and T positions.
        batch: the number of texts, B, an integer or an integer scalar.
        start_id: what stands before the first piece.
        end_id: what ends a sequence.
        pad_id: what stands behind the end.
        options: length, beams and penalty.
    """

    def log_probabilities(ids: Any, position: Any, cache: Cache) -> tuple[Any, Cache]:
        logits, cache = step(ids, position, cache)  # [B, K, V]
        logits = ops.cast(logits, "float32")
        if options.suppressed_ids:
            never = np.zeros(logits.shape[-1], np.float32)  # [V]
            never[list(options.suppressed_ids)] = NEVER
            logits = logits + never
        return ops.log_softmax(logits), cache

    find = greedy_search if options.beam_size == 1 else beam_search
    return find(log_probabilities, cache, batch, start_id, end_id, pad_id, options)


def greedy_search(
    step: Step,
    cache: Cache,
    batch: Any,
    start_id: int,
    end_id: int,
    pad_id: int,
    options: SearchOptions,
) -> Sequences:
    """Takes the likeliest piece at every step; `step` gives log probabilities; see `search`."""
    length = options.max_target_length
    places = ops.arange(length, dtype="int32")  # [T]

    def goes_on(
        position: Any, ids: Any, last: Any, total: Any, pieces: Any, done: Any, *_: Any
    ) -> Any:
        return ops.logical_and(position < length, ops.logical_not(ops.all(done)))

    def body(
        position: Any, ids: Any, last: Any, total: Any, pieces: Any, done: Any, *cache: Any
    ) -> tuple[Any, ...]:
        log_probs, kept = step(last, position, list(cache))  # [B, 1, V]
        best = ops.cast(ops.argmax(log_probs, axis=-1), "int32")  # [B, 1]
        total = total + ops.where(done, 0.0, ops.max(log_probs, axis=-1))  # [B, 1]
        pieces = pieces + ops.where(done, 0.0, 1.0)  # [B, 1]
        best = ops.where(done, pad_id, best)
        ids = ops.where(ops.equal(places, position), best[..., None], ids)  # [B, 1, T]
        done = ops.logical_or(done, ops.equal(best, end_id))
        return (position + 1, ids, best, total, pieces, done, *kept)

    one = ops.zeros((batch, 1), dtype="int32")  # [B, 1]
    state = (
        ops.convert_to_tensor(0, "int32"),
        ops.zeros((batch, 1, length), dtype="int32") + pad_id,
        one + start_id,
        ops.cast(one, "float32"),
        ops.cast(one, "float32"),
        ops.cast(one, "bool"),
        *cache,
    )
    _, ids, _, total, pieces, *_ = ops.while_loop(goes_on, body, state)
    return Sequences(ids, total / _length_penalty(pieces, options.length_penalty))


def beam_search(
    step: Step,
    cache: Cache,
    batch: Any,
    start_id: int,
    end_id: int,
    pad_id: int,
    options: SearchOptions,
) -> Sequences:
    """Searches with K beams; `step` gives log probabilities; see `search`."""
    beams, length, alpha = options.beam_size, options.max_target_length, options.length_penalty
    places = ops.arange(length, dtype="int32")  # [T]
    # The number of a text's first row among all B * K: [B, 1].
    ones = ops.zeros((batch, 1), dtype="int32") + 1
    first_row = (ops.cumsum(ones, axis=0) - 1) * beams
    longest = _length_penalty(ops.convert_to_tensor(length, "float32"), alpha)

    def goes_on(
        position: Any, ids: Any, last: Any, total: Any, ended: Any, scores: Any, *_: Any
    ) -> Any:
        # Log probabilities fall and penalties grow with every piece: the best that may become of a
        # beginning is its own log probability by the penalty of the longest sequence.
        attainable = ops.max(total, axis=1) / longest  # [B]
        may_improve = ops.any(attainable > ops.min(scores, axis=1))
        return ops.logical_and(position < length, may_improve)

    def body(
        position: Any,
        ids: Any,
        last: Any,
        total: Any,
        ended: Any,
        scores: Any,
        doubt: Any,
        *cache: Any,
    ) -> tuple[Any, ...]:
        log_probs, kept = step(last, position, list(cache))  # [B, K, V]
        vocabulary = log_probs.shape[-1]
        # Log probabilities are all NaN where one is.
        some = log_probs[..., 0]  # [B, K]
        lost = ops.any(ops.not_equal(some, some), axis=1, keepdims=True)  # [B, 1]
        doubt = ops.where(lost, math.nan, doubt)
        # 1. The 2K likeliest continuations, [B, 2K] each, the likeliest first.
        continued = ops.reshape(total[..., None] + log_probs, (-1, beams * vocabulary))
        likely, index = ops.top_k(continued, 2 * beams)
        index = ops.cast(index, "int32")
        rows, pieces = first_row + index // vocabulary, index % vocabulary
        found = ops.take(ops.reshape(ids, (-1, length)), rows, axis=0)  # [B, 2K, T]
        found = ops.where(ops.equal(places, position), pieces[..., None], found)
        # 2. Those that end: the K best of them and of those that ended before.
        is_end = ops.equal(pieces, end_id)
        counts = ops.logical_and(is_end, ops.arange(2 * beams) < beams)
        counts = ops.logical_and(counts, likely > NEVER / 2)
        penalty = _length_penalty(ops.cast(position + 1, "float32"), alpha)
        ended, scores = best_sequences(
            beams, (ended, scores), (found, ops.where(counts, likely / penalty, 2 * NEVER))
        )
        # 3. Those that go on: the K likeliest, with the caches of the beginnings they continue.
        total, chosen = ops.top_k(ops.where(is_end, 2 * NEVER, likely), beams)  # [B, K] each
        ids, last, rows = (_chosen(values, chosen) for values in (found, pieces, rows))
        flat = ops.reshape(rows, (-1,))  # [B * K]
        kept = [ops.take(values, flat, axis=0) for values in kept]
        return (position + 1, ids, last, total, ended, scores, doubt, *kept)

    # One beginning is there, the empty one; the other K - 1 are less likely than all it becomes.
    start = ops.cast(ones, "float32") * 0.0 + ops.where(ops.arange(beams) < 1, 0.0, NEVER)
    nothing = ops.zeros((batch, beams, length), dtype="int32") + pad_id  # [B, K, T]
    state = (
        ops.convert_to_tensor(0, "int32"),
        nothing,
        ops.zeros((batch, beams), dtype="int32") + start_id,
        start,  # [B, K]
        nothing,
        ops.zeros((batch, beams), dtype="float32") + 2 * NEVER,
        ops.cast(ones, "float32") * 0.0,  # NaN where a step had no numbers to go by, [B, 1]
        *cache,
    )
    _, ids, _, total, ended, scores, doubt, *_ = ops.while_loop(goes_on, body, state)
    # Sequences that are as long as may be count without an end. Where the search stopped earlier,
    # they are no better than what was found.
    ids, scores = best_sequences(beams, (ended, scores), (ids, total / longest))
    return Sequences(ids, scores + doubt)


def _length_penalty(pieces: Any, alpha: float) -> Any:
    """Returns ((5 + |Y|) / 6) ^ alpha for numbers of pieces, float32."""
    return ops.power((5.0 + pieces) / 6.0, alpha)


def best_sequences(count: int, *parts: tuple[Any, Any]) -> tuple[Any, Any]:
    """Returns the best sequences [B, count, T] of several parts, and their scores [B, count]."""
    ids = ops.concatenate([ids for ids, _ in parts], axis=1)
    scores, chosen = ops.top_k(ops.concatenate([scores for _, scores in parts], axis=1), count)
    return _chosen(ids, chosen), scores


def _chosen(values: Any, chosen: Any) -> Any:
    """Returns entries of the second axis: values [B, N, ...] and chosen [B, M] give [B, M, ...]."""
    index = ops.cast(chosen, "int32")
    candidates = values.shape[1]
    # As one list of B * N entries: `take` keeps the static shape, and any N and rank will do.
    first = (ops.cumsum(ops.ones_like(index[:, :1]), axis=0) - 1) * candidates  # [B, 1]
    flat = ops.reshape(values, (-1, *values.shape[2:]))  # [B * N, ...]
    return ops.take(flat, first + index, axis=0)
