"""Which positions may see which others.

A mask is 1 where a position may be seen. [B, S] is enough where all queries see the same, as in
BERT; where each sees something else it is [B, S, S] with a row per query. Three real pieces and one
of padding, from left to right; and two documents of two pieces each in one sequence:

    left_to_right_mask     within_documents
    sees  0 1 2 3          sees  0 1 2 3
      0   1 0 0 0            0   1 1 0 0
      1   1 1 0 0            1   1 1 0 0
      2   1 1 1 0            2   0 0 1 1
      3   1 1 1 0            3   0 0 1 1

Shapes: B sequences, S positions, H width.
"""

from typing import Any

from keras import ops


def left_to_right_mask(input_mask: Any) -> Any:
    """Returns a mask in which every position sees itself and what stands before it.

    Args:
        input_mask: integers [B, S], 1 for real pieces.

    Returns:
        [B, S, S], a row per query, of the same dtype.
    """
    positions = ops.cumsum(ops.ones_like(input_mask), axis=1)  # [B, S]: 1, 2, 3 ...
    # [B, S, 1] against [B, 1, S]: queries down, keys across.
    is_before = ops.expand_dims(positions, 2) >= ops.expand_dims(positions, 1)  # [B, S, S]
    # Padding is seen by nobody: [B, S, S] x [B, 1, S].
    return ops.cast(is_before, input_mask.dtype) * ops.expand_dims(input_mask, 1)


def last_real_position(hidden: Any, input_mask: Any) -> Any:
    """Returns the hidden states [B, H] of the last real piece of every sequence.

    Args:
        hidden: [B, S, H].
        input_mask: integers [B, S], 1 for real pieces, which come first.
    """
    last = ops.expand_dims(last_position(input_mask), -1)  # [B, 1, 1]
    picked = ops.take_along_axis(hidden, last, axis=1)  # [B, 1, H]
    return ops.squeeze(picked, axis=1)


def last_position(input_mask: Any) -> Any:
    """Returns where the last real piece of every sequence stands, [B, 1], of a mask [B, S]."""
    # A sequence of padding alone has no last piece; its first position stands in.
    return ops.maximum(ops.sum(input_mask, axis=1, keepdims=True) - 1, 0)


def within_documents(visible: Any, pack_ids: Any) -> Any:
    """Restricts what positions see to their own document.

    Args:
        visible: int32, 1 for positions that may be seen: [B, S], or [B, S, S] with a row per query.
        pack_ids: int32 [B, S], the number of each position's document.

    Returns:
        int32 [B, S, S].
    """
    same = ops.equal(ops.expand_dims(pack_ids, 2), ops.expand_dims(pack_ids, 1))  # [B, S, S]
    if len(visible.shape) == 2:
        visible = ops.expand_dims(visible, 1)  # [B, 1, S]
    return ops.cast(same, "int32") * ops.cast(visible, "int32")  # [B, S, S]


def mean_of_real_positions(hidden: Any, input_mask: Any) -> Any:
    """Returns the mean of the hidden states of all real pieces, [B, H], computed in float32.

    Args:
        hidden: [B, S, H].
        input_mask: integers [B, S], 1 for real pieces; a sequence without any gives zeros.
    """
    real = ops.expand_dims(ops.cast(input_mask, "float32"), -1)  # [B, S, 1]
    total = ops.sum(ops.cast(hidden, "float32") * real, axis=1)  # [B, H]
    return ops.cast(total / ops.maximum(ops.sum(real, axis=1), 1.0), hidden.dtype)
