"""Mask-Predict: a text in a fixed number of passes over all of its pieces, in graph.

Ghazvininejad et al. 2019 (arXiv:1904.09324). A decoder that sees both ways predicts all pieces at
once from [MASK]s, then hides the pieces that it is least sure of and predicts them again. A text of
N = 5 pieces in T = 3 iterations; n = N (T - t) / T of them, rounded down, are hidden before
iteration t, those with the least log probability, the first of equal ones:

    t = 0, n = 5   [CLS] [M] [M] [M] [M] [M] [SEP]   ->  it  was  was  bad  film
                                                        -.1  -.9  -1.2 -.8  -.2
    t = 1, n = 3   [CLS] it  [M] [M] [M] film [SEP]  ->      was  a    bad
                                                             -.2  -.3  -.6
    t = 2, n = 1   [CLS] it  was a  [M] film [SEP]   ->                good
                                                                       -.1

A piece that is not hidden keeps itself and its log probability. N is not known: the K likeliest
lengths are tried side by side, and the candidate with the best mean of the log probabilities of its
pieces is the answer (sections 3.1 and 3.3 of the paper).

All shapes are static but the number of texts and the length of sources, and the passes are one
`while`: it compiles for a TPU.

Shapes: B texts, K lengths of each, M pieces at most, W = M + 2 positions with [CLS] and [SEP],
H width, V entries of the vocabulary.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_bert.counts import needed_count
from keras_bert.models.seq2seq.sequence_search import NEVER, Sequences, best_sequences

# Ids and mask of rows, int32 [B, K, W] each -> hidden states [B, K, W, H].
Read = Callable[[Any, Any], Any]
# Hidden states [B, W, H] -> logits float32 [B, W, V].
Logits = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class MaskPredictOptions:
    """How a text is written by Mask-Predict.

    Attributes:
        iterations: passes over the text, T in the paper.
        length_candidates: likeliest lengths that are tried, K.
        suppressed_ids: further pieces that are not written; padding, start, end and mask never are.

    Raises:
        ValueError: a number is out of its range.
    """

    iterations: int = 10
    length_candidates: int = 5
    suppressed_ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("iterations", "length_candidates"):
            needed_count(name, getattr(self, name))


def mask_predict(
    read: Read,
    logits: Logits,
    length_logits: Any,
    start_id: int,
    end_id: int,
    pad_id: int,
    mask_id: int,
    options: MaskPredictOptions,
) -> Sequences:
    """Returns the K candidates of each text, the best first: int32 [B, K, M + 1] with the end.

    Args:
        read: gives hidden states for rows of pieces and masks.
        logits: gives the logits of pieces for hidden states.
        length_logits: of 1 to M pieces, [B, M]. M is at least K.
        start_id: what stands before the pieces.
        end_id: what stands behind them.
        pad_id: what stands behind the end.
        mask_id: what hides a piece.
        options: iterations, candidates and what is not written.

    Returns:
        Their scores are means of the log probabilities of the pieces, each at the iteration that
        wrote it last.
    """
    iterations, candidates = options.iterations, options.length_candidates
    positions = length_logits.shape[-1] + 2
    _, likely = ops.top_k(ops.cast(length_logits, "float32"), candidates)
    lengths = ops.cast(likely, "int32") + 1  # [B, K]
    places = ops.arange(positions, dtype="int32")  # [W]
    last = lengths[..., None]  # [B, K, 1]
    is_piece = ops.logical_and(places >= 1, places <= last)  # [B, K, W]
    visible = ops.cast(places <= last + 1, "int32")
    frame = ops.where(  # [CLS] . . . [SEP] [PAD]
        ops.equal(places, 0), start_id, ops.where(ops.equal(places, last + 1), end_id, pad_id)
    )

    def predicted(states: Any) -> tuple[Any, Any]:
        """Returns the likeliest pieces of [B, W, H] and their log probabilities, [B, W] each."""
        scores = ops.cast(logits(states), "float32")  # [B, W, V]
        if options.suppressed_ids:
            never = np.zeros(scores.shape[-1], np.float32)  # [V]
            never[list(options.suppressed_ids)] = NEVER
            scores = scores + never
        best = ops.cast(ops.argmax(scores, axis=-1), "int32")
        return best, ops.max(scores, axis=-1) - ops.logsumexp(scores, axis=-1)

    def body(iteration: Any, pieces: Any, log_probs: Any) -> tuple[Any, Any, Any]:
        count = lengths * (iterations - iteration) // iterations  # [B, K]; at first all
        hidden = least_likely(log_probs, is_piece, count)  # [B, K, W]
        shown = ops.where(is_piece, ops.where(hidden, mask_id, pieces), frame)
        states = read(shown, visible)  # [B, K, W, H]
        # A map, so that no tensor holds the logits of all candidates, [B, K, W, V].
        found, sure = ops.map(predicted, ops.moveaxis(states, 1, 0))  # [K, B, W] each
        pieces = ops.where(hidden, ops.moveaxis(found, 0, 1), pieces)
        log_probs = ops.where(hidden, ops.moveaxis(sure, 0, 1), log_probs)
        return iteration + 1, pieces, log_probs

    state = (ops.convert_to_tensor(0, "int32"), frame, ops.cast(frame, "float32") * 0.0)
    _, pieces, log_probs = ops.while_loop(lambda iteration, *_: iteration < iterations, body, state)
    # [B, K]
    scores = ops.sum(ops.where(is_piece, log_probs, 0.0), axis=-1) / ops.cast(lengths, "float32")
    ids = ops.where(is_piece, pieces, frame)[..., 1:]  # [B, K, M + 1]
    return Sequences(*best_sequences(candidates, (ids, scores)))


def least_likely(log_probs: Any, is_piece: Any, count: Any) -> Any:
    """Returns which pieces are the `count` least likely ones, bool [B, K, W].

    Args:
        log_probs: float32 [B, K, W].
        is_piece: which positions count, bool [B, K, W].
        count: how many to name, int32 [B, K].
    """
    places = ops.arange(log_probs.shape[-1], dtype="int32")
    # The rank of a piece is the number of pieces before it: less likely, or as likely and further
    # left. One row and column a position, [B, K, W, W]; small beside the logits, and static.
    own, other = log_probs[..., :, None], log_probs[..., None, :]
    tied = ops.logical_and(ops.equal(other, own), places[None, :] < places[:, None])
    before = ops.logical_and(ops.logical_or(other < own, tied), is_piece[..., None, :])
    rank = ops.sum(ops.cast(before, "int32"), axis=-1)  # [B, K, W]
    return ops.logical_and(is_piece, rank < count[..., None])
