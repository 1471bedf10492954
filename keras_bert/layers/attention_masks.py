"""Which positions may see which others."""

from typing import Any

from keras import ops


def left_to_right_mask(input_mask: Any) -> Any:
    """Returns a mask in which every position sees itself and what stands before it.

    Args:
        input_mask: integers [B, S], 1 for real pieces.

    Returns:
        [B, S, S], a row per query, of the same dtype.
    """
    places = ops.cumsum(ops.ones_like(input_mask), axis=1)
    is_before = ops.expand_dims(places, 2) >= ops.expand_dims(places, 1)  # [B, S, S]
    return ops.cast(is_before, input_mask.dtype) * ops.expand_dims(input_mask, 1)


def last_real_position(hidden: Any, input_mask: Any) -> Any:
    """Returns the hidden states [B, H] of the last real piece of every sequence.

    Args:
        hidden: [B, S, H].
        input_mask: integers [B, S], 1 for real pieces, which come first.
    """
    last = ops.maximum(ops.sum(input_mask, axis=1) - 1, 0)
    return ops.squeeze(ops.take_along_axis(hidden, last[:, None, None], axis=1), axis=1)


def within_documents(visible: Any, pack_ids: Any) -> Any:
    """Restricts what positions see to their own document.

    Args:
        visible: int32, 1 for positions that may be seen: [B, S], or [B, S, S] with a row per query.
        pack_ids: int32 [B, S], the number of each position's document.

    Returns:
        int32 [B, S, S].
    """
    same = ops.equal(ops.expand_dims(pack_ids, 2), ops.expand_dims(pack_ids, 1))
    visible = visible if len(visible.shape) == 3 else ops.expand_dims(visible, 1)
    return ops.cast(same, "int32") * ops.cast(visible, "int32")
