"""Hugging Face's `EncoderDecoderModel` of two BERTs: `config.json` with two configs, one file.

    config.json        model_type "encoder-decoder", encoder {...}, decoder {...}, start and end
    model.safetensors  encoder.* (a BertModel), decoder.* (a BertLMHeadModel with cross-attention)

The names are those of `transformers`, models/encoder_decoder and models/bert. Encoder and decoder
have the same numbers here. Where `tie_encoder_decoder` says that both are one set of weights
(BERTshare), the file may hold them once, under either name, or twice: transformers 4 leaves out
the encoder's in safetensors. They are written twice, as transformers 5 has no such ties any more.
"""

import dataclasses
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints import name_table, torch_state
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.hugging_face import CONFIG_FILE
from keras_bert.checkpoints.hugging_face_families import (
    BERT_MASKED_LM,
    DROPPED,
    dense_rows,
    encoder_rows,
    norm_rows,
)
from keras_bert.checkpoints.model_classes import ENCODER_DECODER
from keras_bert.checkpoints.name_table import Leftovers, Row, Tensors
from keras_bert.checkpoints.variables import POOLER, variable_shapes
from keras_bert.config import BertConfig, find_config_file, read_json
from keras_bert.config_keys import ENCODER_DECODER_TYPE

# What the names of both begin with; behind it they are the same.
_ENCODER, _DECODER = "encoder.", "decoder.bert."
_TIED = "tie_encoder_decoder"
_START, _END, _PAD = "decoder_start_token_id", "eos_token_id", "pad_token_id"
_COPIES = {
    "decoder.cls.predictions.decoder.weight": "decoder/word_embeddings/embeddings",
    "decoder.cls.predictions.decoder.bias": "masked_lm_bias/bias",
}
# What makes a BERT a decoder; of the encoder they must be off.
_OF_DECODERS = ("is_decoder", "add_cross_attention", "cross_attention_hidden_size")


def is_encoder_decoder(folder: str | os.PathLike) -> bool:
    """Whether the config of a folder of transformers is one of two configs."""
    return read_json(find_config_file(folder)).get("model_type") == ENCODER_DECODER_TYPE


def read(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> Checkpoint:
    """Reads a folder with a config file and weights in one file or in shards.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the configs to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: encoder or decoder is no BERT, they differ in their numbers, or tensors are
            missing, left over or misshapen.
    """
    config = BertConfig.from_file(folder, "hf", ignore_config_keys)
    path = find_config_file(folder)
    values = read_json(path)
    _check_decoder(path, values.get("decoder"), config, ignore_config_keys)
    shared = bool(values.get(_TIED))
    head = {
        "decoder": "bertshare" if shared else "bert2bert",
        "start_token_id": values.get(_START),
        "end_token_id": _first(values.get(_END, values["decoder"].get(_END))),
    }
    # All of both as two sets of weights; what is shared is compared and left out afterwards.
    tensors = torch_state.read(folder)
    rows = name_table.expand(_rows(), config)
    shapes = variable_shapes(config, ENCODER_DECODER, {})
    own = set(variable_shapes(config, ENCODER_DECODER, head))
    if shared:
        # What the file holds once is read as the encoder's, whichever name it has. What it holds
        # twice is read twice, to be compared.
        rows = [
            dataclasses.replace(row, theirs=tuple(_held(name, tensors) for name in row.theirs))
            for row in rows
        ]
        claimed = {name for row in rows if row.ours in own for name in row.theirs}
        rows = [row for row in rows if row.ours in own or not claimed.issuperset(row.theirs)]
        shapes = {path: shapes[path] for path in (row.ours for row in rows)}
    variables, report = name_table.to_variables(
        tensors,
        rows,
        shapes,
        config,
        Leftovers(DROPPED, _COPIES),
        optional=POOLER,
    )
    if shared:
        for copy in [copy for copy in variables if copy not in own]:
            original = copy.removeprefix("decoder/")
            if not np.array_equal(variables[copy], variables[original]):
                raise ValueError(
                    f"{tensors.source}: {_TIED} is true, but {', '.join(report.mapped[copy])} "
                    f"differs from {', '.join(report.mapped[original])}: set it to false in the "
                    "config for a decoder with weights of its own"
                )
            del variables[copy]
        dropped = {
            name: "equal to the encoder's"
            for path, names in report.mapped.items()
            if path not in variables
            for name in names
            if name not in claimed
        }
        mapped = {path: names for path, names in report.mapped.items() if path in variables}
        report = dataclasses.replace(report, mapped=mapped, dropped=report.dropped | dropped)
    tied = {
        name: path.removeprefix("decoder/") if shared else path for name, path in _COPIES.items()
    }
    untied = name_table.differing_copy(tensors, variables, tied)
    if untied:
        raise ValueError(
            f"{untied}: the output layer of this decoder is tied to its word embeddings; an untied "
            "one is not supported"
        )
    return Checkpoint(config, ENCODER_DECODER, head, variables, report)


def write(checkpoint: Checkpoint, folder: str | os.PathLike) -> None:
    """Writes `config.json` and `model.safetensors` into a folder that exists.

    Raises:
        ValueError: the config file has no place for a value, or the model is a conditional masked
            language model.
    """
    config, head = checkpoint.config, checkpoint.head
    if head.get("decoding") == "mask_predict":
        raise ValueError(
            "the model is decoded by Mask-Predict, which transformers does not have: keep it in "
            "the Keras format"
        )
    shared = head.get("decoder") == "bertshare"
    variables = dict(checkpoint.variables)
    if shared:
        for path in variable_shapes(config, ENCODER_DECODER, {}):
            if (original := path.removeprefix("decoder/")) in checkpoint.variables:
                variables.setdefault(path, checkpoint.variables[original])
    rows = name_table.expand(_rows(), config)
    tensors = name_table.to_tensors(variables, rows, config)
    of_bert = {**config.to_dict("hf"), "model_type": config.hugging_face_type}
    start, end = head.get("start_token_id"), head.get("end_token_id")
    values: dict[str, Any] = {
        "model_type": ENCODER_DECODER_TYPE,
        "architectures": ["EncoderDecoderModel"],
        "is_encoder_decoder": True,
        "encoder": {**of_bert, "architectures": ["BertModel"]},
        "decoder": {
            **of_bert,
            "architectures": ["BertLMHeadModel"],
            "is_decoder": True,
            "add_cross_attention": True,
        },
        _PAD: config.pad_token_id,
    }
    if start is not None:
        values[_START] = start
    if end is not None:
        values[_END] = end
    if shared:
        values[_TIED] = True
    torch_state.write(tensors, folder)
    content = json.dumps(values, indent=2, sort_keys=True)
    (Path(folder) / CONFIG_FILE).write_text(content + "\n", encoding="utf-8")


def _held(name: str, tensors: Tensors) -> str:
    """Returns the name of a tied tensor, or that of its twin where the file holds it alone."""
    for prefix, other in ((_ENCODER, _DECODER), (_DECODER, _ENCODER)):
        twin = other + name.removeprefix(prefix)
        if name.startswith(prefix) and name not in tensors.shapes and twin in tensors.shapes:
            return twin
    return name


def _first(ids: Any) -> Any:
    """Returns the first of several ids of an end, as files of transformers may list them."""
    return ids[0] if isinstance(ids, list) and ids else ids


def _check_decoder(
    path: Path, values: Any, encoder: BertConfig, ignore_config_keys: Collection[str]
) -> None:
    """Refuses a decoder that is no BERT, or of other numbers than the encoder."""
    if not isinstance(values, Mapping) or values.get("model_type", "bert") != "bert":
        found = values.get("model_type") if isinstance(values, Mapping) else values
        raise ValueError(
            f"{path}: the decoder's model_type is {found!r}: only a BERT is supported as decoder"
        )
    for key in ("is_decoder", "add_cross_attention"):
        if not values.get(key):
            raise ValueError(
                f"{path}: {key} of the decoder is {values.get(key)!r}: it must be true for a "
                "decoder that attends to its encoder"
            )
    if values.get("cross_attention_hidden_size") not in (None, encoder.hidden_size):
        raise ValueError(
            f"{path}: cross_attention_hidden_size is {values['cross_attention_hidden_size']}: only "
            f"the encoder's hidden_size, {encoder.hidden_size}, is supported"
        )
    try:
        decoder = BertConfig.from_dict(
            {key: value for key, value in values.items() if key not in _OF_DECODERS},
            "hf",
            ignore_config_keys,
        )
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}, decoder: {error}") from None
    for field in dataclasses.fields(encoder):
        ours, theirs = getattr(encoder, field.name), getattr(decoder, field.name)
        if ours != theirs:
            raise ValueError(
                f"{path}: {field.name} of the encoder is {ours!r} and of the decoder {theirs!r}: "
                "only a decoder of the encoder's numbers is supported"
            )


def _rows() -> list[Row]:
    """Returns the rows of `EncoderDecoderModel` of two BERTs."""
    layer, ours = "decoder.bert.encoder.layer.{layer}.crossattention", "decoder/layer_{layer}"
    return [
        *encoder_rows("encoder."),
        *dense_rows("pooler", "encoder.pooler.dense"),
        *(
            dataclasses.replace(row, ours=f"decoder/{row.ours}")
            for row in encoder_rows("decoder.bert.")
        ),
        *dense_rows(f"{ours}/cross_attention/query", f"{layer}.self.query"),
        *dense_rows(f"{ours}/cross_attention/key", f"{layer}.self.key"),
        *dense_rows(f"{ours}/cross_attention/value", f"{layer}.self.value"),
        *dense_rows(f"{ours}/cross_attention/output", f"{layer}.output.dense"),
        *norm_rows(f"{ours}/cross_attention_norm", f"{layer}.output.LayerNorm"),
        *(
            dataclasses.replace(row, theirs=tuple(f"decoder.{name}" for name in row.theirs))
            for row in BERT_MASKED_LM
        ),
    ]
