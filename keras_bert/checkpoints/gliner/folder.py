"""A folder of GLiNER, read and written: `gliner_config.json` and the weights.

The encoder lies under token_rep_layer.bert_layer.model, with the names that transformers has for it
alone. Shapes of the head: D width of words, spans and labels (`span_hidden_size`), H that of the
encoder.

    token_rep_layer.projection        H -> D, where they differ
    rnn.lstm                          bidirectional, D -> D
    span_rep_layer.span_rep_layer     project_start, project_end: D -> 4 D -> D
                                      out_project: 2 D -> 4 D -> D
    prompt_rep_layer                  D -> 4 D -> D
"""

import dataclasses
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints import name_table, torch_state
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.gliner.settings import (
    ADDED_TOKENS,
    CONFIG_FILE,
    ENTITY_TOKEN,
    SEPARATOR_TOKEN,
    SPAN_MODE,
    check_marker_ids,
    encoder_folder,
    read_settings,
    rows_with_markers,
)
from keras_bert.checkpoints.hugging_face_families import DROPPED, FAMILIES, dense_rows
from keras_bert.checkpoints.model_classes import ENCODER, ENTITY_MATCHER
from keras_bert.checkpoints.name_table import Form, Leftovers, Row, Tensors
from keras_bert.checkpoints.variables import POOLER, Shapes, variable_shapes
from keras_bert.config import BertConfig
from keras_bert.storage.files import write_json

_ENCODER = "token_rep_layer.bert_layer.model."
_WORDS = "word_embeddings/embeddings"
_SCORES = "entity_scores"
# Two biases there, of which only the sum counts.
_LSTM_BIAS = Form(
    lambda ours, _: [ours, np.zeros_like(ours)], lambda theirs, _: theirs[0] + theirs[1]
)
# Name of ours -> theirs, of the projections of two layers.
_PROJECTIONS = {
    "start": "span_rep_layer.span_rep_layer.project_start",
    "end": "span_rep_layer.span_rep_layer.project_end",
    "span": "span_rep_layer.span_rep_layer.out_project",
    "label": "prompt_rep_layer",
}


def read_config(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> BertConfig:
    """Reads the config of the encoder, with rows for the markers.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the model is another kind of GLiNER, or a file is damaged.
    """
    return _config(Path(folder), torch_state.read(folder), ignore_config_keys)[0]


def _config(
    folder: Path, tensors: Tensors, ignore_config_keys: Collection[str]
) -> tuple[BertConfig, int]:
    """Returns the config, its table padded, and the id of <<ENT>>."""
    settings = read_settings(folder)
    if settings.encoder_config is None:
        config = BertConfig.from_file(encoder_folder(folder), "hf", ignore_config_keys)
    else:
        values = settings.encoder_config
        if not isinstance(values, Mapping):
            raise ValueError(
                f"{folder / CONFIG_FILE}: encoder_config is {values!r}: fetch it again"
            )
        try:
            # As GLiNER takes it.
            values = {"model_type": "deberta-v2", **values}
            config = BertConfig.from_dict(values, "hf", ignore_config_keys)
        except ValueError as error:
            raise ValueError(f"{folder / CONFIG_FILE}, encoder_config: {error}") from None
    family = FAMILIES[config.hugging_face_type]
    theirs = {row.ours: row.theirs[0] for row in family.encoder}[_WORDS]
    table = _ENCODER + theirs.removeprefix(family.prefix)
    if len(tensors.shapes.get(table, ())) != 2:
        raise ValueError(
            f"{tensors.source} has no table {table}, which an encoder of the type "
            f"{config.hugging_face_type} has: take config and weights from one model"
        )
    rows = tensors.shapes[table][0]
    entity = settings.class_token_index
    entity = rows - 2 if entity is None else entity
    if not ADDED_TOKENS - 1 <= entity < rows - 1:
        raise ValueError(
            f"{folder / CONFIG_FILE}: class_token_index is {entity}, but the table of the weights "
            f"has {rows} rows, one of them for {SEPARATOR_TOKEN} behind it: take both files from "
            "one model"
        )
    check_marker_ids(folder, entity)
    return config.replace(vocab_size=max(rows, rows_with_markers(entity - 1))), entity


def read_head(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns the arguments of the `BertEntityMatcher` of a folder beside its config.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the model is another kind of GLiNER, or a file is damaged.
    """
    folder = Path(folder)
    _, entity = _config(folder, torch_state.read(folder), ())
    return read_settings(folder).head(entity)


def read(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> Checkpoint:
    """Reads a folder; see `read_config`.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the model is another kind of GLiNER, or tensors are missing, left over or
            misshapen; the sentence names them.
    """
    folder = Path(folder)
    tensors = torch_state.read(folder)
    config, entity = _config(folder, tensors, ignore_config_keys)
    head = read_settings(folder).head(entity)
    variables, report = name_table.to_variables(
        _with_rows(tensors, config),
        _rows(config, head),
        _shapes(config, head),
        config,
        Leftovers({rf"({_ENCODER})?{pattern}": why for pattern, why in DROPPED.items()}),
        optional=POOLER,
    )
    return Checkpoint(config, ENTITY_MATCHER, head, variables, report)


def writable(checkpoint: Checkpoint) -> Checkpoint:
    """Returns what `write` takes: a table of word embeddings as `read` pads it.

    Raises:
        ValueError: it is another model, or the markers are not the rows behind the pieces.
    """
    if checkpoint.architecture != ENTITY_MATCHER:
        raise ValueError(
            f"the model is a {checkpoint.architecture}, but GLiNER's format holds what scores "
            "spans against labels: give a run of --task=gliner"
        )
    entity, separator = (
        checkpoint.head[name] for name in ("entity_token_id", "separator_token_id")
    )
    if separator != entity + 1:
        raise ValueError(
            f"the model has the ids {entity} and {separator} for {ENTITY_TOKEN} and "
            f"{SEPARATOR_TOKEN}, which GLiNER wants behind each other"
        )
    config = checkpoint.config.replace(vocab_size=rows_with_markers(entity - 1))
    table = checkpoint.variables[_WORDS]
    padded = np.zeros([config.vocab_size, table.shape[1]], table.dtype)
    padded[: separator + 1] = table[: separator + 1]
    variables = {**checkpoint.variables, _WORDS: padded}
    return dataclasses.replace(checkpoint, config=config, variables=variables)


def write(checkpoint: Checkpoint, folder: str | os.PathLike) -> None:
    """Writes `gliner_config.json` and `model.safetensors` into a folder that exists.

    The files of the tokenizer belong beside them, without the markers, which GLiNER adds itself.

    Raises:
        ValueError: it is another model, the markers are not the rows behind the pieces, or the
            config file has no place for a value.
    """
    checkpoint = writable(checkpoint)
    config, head, separator = (
        *(checkpoint.config, checkpoint.head),
        checkpoint.head["separator_token_id"],
    )
    values = config.to_dict("hf")
    # Without the rows that only pad the table.
    config = config.replace(vocab_size=separator + 1)
    variables = dict(checkpoint.variables)
    variables[_WORDS] = variables[_WORDS][: separator + 1]
    rows = _rows(config, head)
    named = {row.ours for row in rows}
    variables = {
        path: value
        for path, value in variables.items()
        if path in named or path not in POOLER  # some families have none there
    }
    tensors = name_table.to_tensors(variables, rows, config)
    torch_state.write(tensors, folder)
    settings = {
        "model_name": config.hugging_face_type,
        "encoder_config": {
            **values,
            "model_type": config.hugging_face_type,
            "vocab_size": config.vocab_size,
        },
        "hidden_size": head.get("span_hidden_size") or config.hidden_size,
        "span_mode": SPAN_MODE,
        "subtoken_pooling": "first",
        "max_width": head["max_width"],
        "max_len": head["max_words"],
        "num_rnn_layers": head["num_rnn_layers"],
        "dropout": head["head_dropout"],
        "words_splitter_type": "whitespace",
        "ent_token": ENTITY_TOKEN,
        "sep_token": SEPARATOR_TOKEN,
        # GLiNER adds the markers to the tokenizer and finds both numbers.
        "class_token_index": -1,
        "vocab_size": -1,
    }
    write_json(Path(folder) / CONFIG_FILE, settings)


def _with_rows(tensors: Tensors, config: BertConfig) -> Tensors:
    """Returns tensors of which the table of words is padded to the rows of the config."""
    family = FAMILIES[config.hugging_face_type]
    theirs = {row.ours: row.theirs[0] for row in family.encoder}[_WORDS]
    name = _ENCODER + theirs.removeprefix(family.prefix)
    rows, width = tensors.shapes[name]

    def read(asked: str) -> np.ndarray:
        value = tensors.read(asked)
        if asked != name:
            return value
        return np.concatenate([value, np.zeros([config.vocab_size - rows, width], value.dtype)])

    shapes = {**tensors.shapes, name: (config.vocab_size, width)}
    return Tensors(tensors.source, shapes, read)


def _rows(config: BertConfig, head: Mapping[str, Any]) -> list[Row]:
    family = FAMILIES[config.hugging_face_type]
    rows = [
        Row(
            row.ours,
            tuple(_ENCODER + name.removeprefix(family.prefix) for name in row.theirs),
            row.form,
        )
        for row in name_table.expand([*family.encoder, *family.heads[ENCODER]], config)
    ]
    rows += dense_rows(f"{_SCORES}/projection", "token_rep_layer.projection")
    for ours, theirs in _PROJECTIONS.items():
        for number, place in ((1, 0), (2, 3)):  # an activation and a dropout are 1 and 2 there
            rows += dense_rows(f"{_SCORES}/{ours}_{number}", f"{theirs}.{place}")
    for layer in range(head["num_rnn_layers"]):
        for direction, suffix in (("forward", ""), ("backward", "_reverse")):
            cell = f"{_SCORES}/bilstm_{layer}/{direction}_lstm/lstm_cell"
            end = f"l{layer}{suffix}"
            rows += [
                Row(f"{cell}/kernel", (f"rnn.lstm.weight_ih_{end}",), name_table.TRANSPOSED),
                Row(
                    f"{cell}/recurrent_kernel",
                    (f"rnn.lstm.weight_hh_{end}",),
                    name_table.TRANSPOSED,
                ),
                Row(
                    f"{cell}/bias",
                    (f"rnn.lstm.bias_ih_{end}", f"rnn.lstm.bias_hh_{end}"),
                    _LSTM_BIAS,
                ),
            ]
    return rows


def _shapes(config: BertConfig, head: Mapping[str, Any]) -> Shapes:
    """Returns the shape of every variable of the model by its path."""
    width = head.get("span_hidden_size") or config.hidden_size  # D
    shapes = variable_shapes(config, ENCODER, {})
    # DeBERTa and others have no pooler there.
    named = {row.ours for row in _rows(config, head)}
    shapes = {path: shape for path, shape in shapes.items() if path in named}
    sizes = {"start": width, "end": width, "span": 2 * width, "label": width}
    layers = {f"{name}_1": (size, 4 * width) for name, size in sizes.items()}
    layers |= {f"{name}_2": (4 * width, width) for name in sizes}
    if width != config.hidden_size:
        layers["projection"] = (config.hidden_size, width)
    for name, (inputs, outputs) in layers.items():
        shapes[f"{_SCORES}/{name}/kernel"] = (inputs, outputs)
        shapes[f"{_SCORES}/{name}/bias"] = (outputs,)
    for layer in range(head["num_rnn_layers"]):
        for direction in ("forward", "backward"):
            cell = f"{_SCORES}/bilstm_{layer}/{direction}_lstm/lstm_cell"
            shapes[f"{cell}/kernel"] = (width, 2 * width)
            shapes[f"{cell}/recurrent_kernel"] = (width // 2, 2 * width)
            shapes[f"{cell}/bias"] = (2 * width,)
    return shapes
