"""Google's format: `bert_config.json` and `bert_model.ckpt.*`, a TensorFlow 1 checkpoint.

The names are those of the graph in google-research/bert: modeling.py for the encoder,
run_pretraining.py, run_classifier.py and run_squad.py for the heads.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from keras_bert.checkpoints import google_config, name_table, tensorflow_file
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.name_table import (
    THIRDS,
    TRANSPOSED,
    Leftovers,
    Row,
    Tensors,
    same,
)
from keras_bert.checkpoints.variables import variable_shapes
from keras_bert.config import BertConfig

CHECKPOINT_PREFIX = "bert_model.ckpt"

_LAYER = "bert/encoder/layer_{layer}"


_ENCODER = [
    Row("word_embeddings/embeddings", ("bert/embeddings/word_embeddings",)),
    Row("embeddings/position_embeddings", ("bert/embeddings/position_embeddings",)),
    Row("embeddings/segment_embeddings", ("bert/embeddings/token_type_embeddings",)),
    *same("embeddings/layer_norm", "bert/embeddings/LayerNorm", "gamma", "beta"),
    *(
        Row(
            f"layer_{{layer}}/attention/query_key_value/{name}",
            tuple(f"{_LAYER}/attention/self/{part}/{name}" for part in ("query", "key", "value")),
            THIRDS,
        )
        for name in ("kernel", "bias")
    ),
    *same("layer_{layer}/attention/output", f"{_LAYER}/attention/output/dense", "kernel", "bias"),
    *same("layer_{layer}/attention_norm", f"{_LAYER}/attention/output/LayerNorm", "gamma", "beta"),
    *same("layer_{layer}/intermediate", f"{_LAYER}/intermediate/dense", "kernel", "bias"),
    *same("layer_{layer}/output", f"{_LAYER}/output/dense", "kernel", "bias"),
    *same("layer_{layer}/feed_forward_norm", f"{_LAYER}/output/LayerNorm", "gamma", "beta"),
    *same("pooler", "bert/pooler/dense", "kernel", "bias"),
]
_MASKED_LM = [
    *same("masked_lm_transform/dense", "cls/predictions/transform/dense", "kernel", "bias"),
    *same("masked_lm_transform/layer_norm", "cls/predictions/transform/LayerNorm", "gamma", "beta"),
    Row("masked_lm_bias/bias", ("cls/predictions/output_bias",)),
]


def _output(ours: str, scope: str) -> list[Row]:
    return [
        Row(f"{ours}/kernel", (f"{scope}output_weights",), TRANSPOSED),
        Row(f"{ours}/bias", (f"{scope}output_bias",)),
    ]


_HEADS = {
    "BertEncoder": [],
    "BertMaskedLM": _MASKED_LM,
    "BertPretrainer": [*_MASKED_LM, *_output("next_sentence", "cls/seq_relationship/")],
    "BertClassifier": _output("classifier", ""),
    "BertSpanLabeler": _output("span", "cls/squad/"),
}
_LEFTOVERS = Leftovers(
    {
        r".*/(adam_m|adam_v|Adam|Adam_1|lamb_m|lamb_v)": "state of the optimizer",
        r"global_step": "counter of the training run",
        r"(beta1_power|beta2_power|loss_scale|good_steps)": "state of the optimizer",
    }
)


def read(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> Checkpoint:
    """Reads a folder with a config file and one TensorFlow 1 checkpoint.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: tensors are missing, left over or misshapen; the sentence names them.
    """
    config = google_config.read(folder, ignore_config_keys)
    tensors = tensorflow_file.read_flat(tensorflow_file.find_prefix(folder))
    architecture, head = _architecture(tensors)
    variables, report = name_table.to_variables(
        tensors,
        _rows(architecture, config),
        variable_shapes(config, architecture, head),
        config,
        _LEFTOVERS,
    )
    return Checkpoint(config, architecture, head, variables, report)


def write(checkpoint: Checkpoint, folder: str | os.PathLike) -> None:
    """Writes the two files of a release into a folder that exists.

    Raises:
        ValueError: Google's format has no names for the head, or no place for a config value.
    """
    if checkpoint.architecture not in _HEADS:
        raise ValueError(
            f"Google's format has no names for the head of {checkpoint.architecture}: "
            "convert the encoder alone, or choose another format"
        )
    config = checkpoint.config
    google_config.write(config, folder)
    tensors = name_table.to_tensors(
        checkpoint.variables, _rows(checkpoint.architecture, config), config
    )
    tensorflow_file.write_flat(tensors, Path(folder) / CHECKPOINT_PREFIX)


def _rows(architecture: str, config: BertConfig) -> list[Row]:
    return name_table.expand([*_ENCODER, *_HEADS[architecture]], config.num_hidden_layers)


def _architecture(tensors: Tensors) -> tuple[str, dict[str, Any]]:
    shapes = tensors.shapes
    if "output_weights" in shapes:
        return "BertClassifier", {"num_classes": shapes["output_weights"][0], "labels": None}
    if "cls/squad/output_weights" in shapes:
        return "BertSpanLabeler", {}
    if "cls/seq_relationship/output_weights" in shapes:
        return "BertPretrainer", {}
    if "cls/predictions/output_bias" in shapes:
        return "BertMaskedLM", {}
    return "BertEncoder", {}
