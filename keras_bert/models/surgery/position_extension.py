"""A longer table of positions for a model that was pretrained with a shorter one.

A table of three rows for seven positions:

    copy           r0 r1 r2 r0 r1 r2 r0
    interpolate    r0 (2 r0 + r1) / 3 (r0 + 2 r1) / 3 r1 (2 r1 + r2) / 3 (r1 + 2 r2) / 3 r2

Copying is how Longformer starts (Beltagy et al. 2020, section 5): what a model knows of neighbours
holds everywhere but where a copy begins, and texts that fitted before are read as before.
Interpolation keeps the order of all positions, but what were neighbours are further apart. After
both the model has to be trained on long texts: the rows are a start.
"""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.choices import PositionExtension, check_choice
from keras_bert.counts import needed_count
from keras_bert.models.preset import check_model
from keras_bert.models.surgery.lora import merged_lora

_POSITIONS = "embeddings/position_embeddings"


def extend_positions(
    model: Any, max_position_embeddings: int, position_extension: PositionExtension = "copy"
) -> Any:
    """Returns a copy of a model that takes longer texts; all other weights are copied as they are.

    Args:
        model: any of the package's models, of any family; it is left alone.
        max_position_embeddings: the longest sequence of the new model in pieces, M'.
        position_extension: "copy" repeats the table from its first position on; "interpolate"
            stretches it, linearly between neighbours, so that first and last row stay ends.

    Raises:
        ValueError: the model is a folder or has as many positions or more, it has no table of
            positions where its family has one, or there is no such extension. Where positions are
            computed, as in ModernBERT, they go on as they were, and so do distances, as in DeBERTa.

    Example:
        model = extend_positions(load_model("bert"), 1024)
        model.save_to_preset("bert_1024", load_tokenizer("bert"))
    """
    check_model(model)
    config = model.config
    max_position_embeddings = _checked(
        config.max_position_embeddings, max_position_embeddings, position_extension
    )
    longer = config.lengthened(max_position_embeddings)
    copy = type(model).from_config({**model.get_config(), "config": longer.to_dict()})
    found = not config.has_position_table
    # The order of the weights is that of the layers and does not depend on the positions.
    with merged_lora(model) as weights:
        for source, target in zip(weights, copy.weights, strict=True):
            value = keras.ops.convert_to_numpy(source.value)
            if source.path.endswith(_POSITIONS):  # behind a name scope, if any
                found = True
                value = _extended(
                    value, config.first_position, max_position_embeddings, position_extension
                )
            target.assign(value)
    if not found:
        raise ValueError(f"{model.name} has no table of positions that could be extended")
    return copy


def extend_checkpoint(
    checkpoint: Checkpoint, max_position_embeddings: int, position_extension: PositionExtension
) -> Checkpoint:
    """Returns a checkpoint for longer texts; see `extend_positions`."""
    config = checkpoint.config
    max_position_embeddings = _checked(
        config.max_position_embeddings, max_position_embeddings, position_extension
    )
    # A decoder has a table of its own, unless it shares the encoder's.
    tables = {
        path: _extended(table, config.first_position, max_position_embeddings, position_extension)
        for path, table in checkpoint.variables.items()
        if path.endswith(_POSITIONS)
    }
    if not tables and config.has_position_table:
        raise ValueError(
            f"the {checkpoint.architecture} has no table of positions that could be extended"
        )
    return dataclasses.replace(
        checkpoint,
        config=config.lengthened(max_position_embeddings),
        variables=checkpoint.variables | tables,
    )


def _checked(old: int, new: int, position_extension: str) -> int:
    """Returns the new number of positions."""
    check_choice("position_extension", position_extension, PositionExtension)
    new = needed_count("max_position_embeddings", new)
    if new <= old:
        raise ValueError(
            f"max_position_embeddings is {new} but the model has {old} positions: a table can only "
            f"grow; give more than {old}"
        )
    return new


def _extended(table: np.ndarray, first: int, positions: int, extension: str) -> np.ndarray:
    """Returns the table [F + M', H] of one [F + M, H].

    Args:
        table: float, its F rows before the first position are kept: RoBERTa's of the padding.
        first: F.
        positions: M'.
        extension: "copy" or "interpolate".
    """
    rows = table[first:]  # [M, H]
    if extension == "copy":
        longer = rows[np.arange(positions) % len(rows)]  # [M', H]
    else:
        # Where new positions lie among the old ones, 0 to M - 1: [M'].
        places = np.linspace(0, len(rows) - 1, positions)
        below = np.floor(places).astype(np.int64)
        above = np.minimum(below + 1, len(rows) - 1)
        share = (places - below)[:, None]  # [M', 1], float64
        longer = (1 - share) * rows[below] + share * rows[above]
    return np.concatenate([table[:first], longer]).astype(table.dtype)
