"""Hugging Face's format: `config.json` and `model.safetensors` or `pytorch_model.bin`.

The names are those of `transformers`, models/bert/modeling_bert.py. A `Linear` there keeps its
weight as [outputs, inputs]. Encoders saved alone lack the prefix "bert."; files converted from
TensorFlow in 2018 and 2019 spell the parameters of a norm gamma and beta.
"""

import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from keras_bert.checkpoints import name_table, torch_state
from keras_bert.checkpoints.checkpoint import PROBLEM_TYPES, Checkpoint
from keras_bert.checkpoints.model_classes import ENCODER, MODEL_CLASSES
from keras_bert.checkpoints.name_table import (
    SAME,
    THIRDS,
    THIRDS_TRANSPOSED,
    TRANSPOSED,
    Leftovers,
    Row,
    Tensors,
)
from keras_bert.checkpoints.variables import POOLER, variable_shapes
from keras_bert.config import BertConfig, find_config_file, read_json

CONFIG_FILE = "config.json"

_PREFIX = "bert."
_LAYER = "bert.encoder.layer.{layer}"


def _dense(ours: str, theirs: str) -> list[Row]:
    return [
        Row(f"{ours}/kernel", (f"{theirs}.weight",), TRANSPOSED),
        Row(f"{ours}/bias", (f"{theirs}.bias",)),
    ]


def _norm(ours: str, theirs: str) -> list[Row]:
    return [
        Row(f"{ours}/gamma", (f"{theirs}.LayerNorm.weight",)),
        Row(f"{ours}/beta", (f"{theirs}.LayerNorm.bias",)),
    ]


_ENCODER = [
    Row("word_embeddings/embeddings", ("bert.embeddings.word_embeddings.weight",)),
    Row("embeddings/position_embeddings", ("bert.embeddings.position_embeddings.weight",)),
    Row("embeddings/segment_embeddings", ("bert.embeddings.token_type_embeddings.weight",)),
    *_norm("embeddings/layer_norm", "bert.embeddings"),
    *(
        Row(
            f"layer_{{layer}}/attention/query_key_value/{ours}",
            tuple(f"{_LAYER}.attention.self.{part}.{theirs}" for part in ("query", "key", "value")),
            form,
        )
        for ours, theirs, form in (
            ("kernel", "weight", THIRDS_TRANSPOSED),
            ("bias", "bias", THIRDS),
        )
    ),
    *_dense("layer_{layer}/attention/output", f"{_LAYER}.attention.output.dense"),
    *_norm("layer_{layer}/attention_norm", f"{_LAYER}.attention.output"),
    *_dense("layer_{layer}/intermediate", f"{_LAYER}.intermediate.dense"),
    *_dense("layer_{layer}/output", f"{_LAYER}.output.dense"),
    *_norm("layer_{layer}/feed_forward_norm", f"{_LAYER}.output"),
    *_dense("pooler", "bert.pooler.dense"),
]
_MASKED_LM = [
    *_dense("masked_lm_transform/dense", "cls.predictions.transform.dense"),
    *_norm("masked_lm_transform/layer_norm", "cls.predictions.transform"),
    Row("masked_lm_bias/bias", ("cls.predictions.bias",), SAME),
]
_HEADS = {
    "BertEncoder": [],
    "BertMaskedLM": _MASKED_LM,
    "BertPretrainer": [*_MASKED_LM, *_dense("next_sentence", "cls.seq_relationship")],
    "BertClassifier": _dense("classifier", "classifier"),
    "BertTokenClassifier": _dense("classifier", "classifier"),
    "BertMultipleChoice": _dense("classifier", "classifier"),
    "BertSpanLabeler": _dense("span", "qa_outputs"),
}
# All three call their output layer "classifier": the config says which of them it is.
_CLASSIFIERS = ("BertClassifier", "BertTokenClassifier", "BertMultipleChoice")
_COPIES = {
    "cls.predictions.decoder.weight": "word_embeddings/embeddings",
    "cls.predictions.decoder.bias": "masked_lm_bias/bias",
}
_LEFTOVERS = Leftovers(
    dropped={
        r"(bert\.)?embeddings\.(position_ids|token_type_ids)": "constant numbers, not weights",
        # https://pypi.org/project/antiberty
        r"cls\.(species|chain|graft)\.(weight|bias)": "an extra output layer of AntiBERTy",
        # huawei-noah/Pretrained-Language-Model, TinyBERT/transformer/modeling.py
        r"fit_dense\.(weight|bias)": "a layer that only TinyBERT's distillation used",
    },
    copies=_COPIES,
)


def read(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> Checkpoint:
    """Reads a folder with a config file and weights in one file or in shards.

    Args:
        folder: the folder. A pooler is optional, as `transformers` leaves it out of some models.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: tensors are missing, left over or misshapen; the sentence names them.
    """
    config = BertConfig.from_file(folder, "hf", ignore_config_keys)
    values = read_json(find_config_file(folder))
    tensors = torch_state.read(folder)
    architecture, head = _architecture(tensors, values)
    # The rows with the names as this file spells them.
    has_prefix = any(name.startswith(_PREFIX) for name in tensors.shapes)
    has_gamma = any(name.endswith("LayerNorm.gamma") for name in tensors.shapes)

    def spelled(name: str) -> str:
        if not has_prefix:
            name = name.removeprefix(_PREFIX)
        if has_gamma:
            name = re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", name)
            name = re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)
        return name

    variables, report = name_table.to_variables(
        tensors,
        [
            Row(row.ours, tuple(map(spelled, row.theirs)), row.form)
            for row in _rows(architecture, config)
        ],
        variable_shapes(config, architecture, head),
        config,
        _LEFTOVERS,
        optional=POOLER,
    )
    # Why the masked language model's output matrix is not the word embedding, if so.
    untied = None
    if "masked_lm_bias/bias" in variables:
        decoder = next(iter(_COPIES))
        untied = name_table.differing_copy(tensors, variables, _COPIES)
        if values.get("tie_word_embeddings") is False and decoder not in tensors.shapes:
            untied = (
                f"{tensors.source}: tie_word_embeddings is false, and there is no {decoder} that "
                "would show that it is the word embedding"
            )
    return Checkpoint(config, architecture, head, variables, report, untied)


def write(checkpoint: Checkpoint, folder: str | os.PathLike) -> None:
    """Writes `config.json` and `model.safetensors` into a folder that exists.

    Raises:
        ValueError: transformers has no such head, or the config file no place for a config value.
    """
    if checkpoint.architecture not in _HEADS:
        raise ValueError(
            f"transformers has no head like that of {checkpoint.architecture}: "
            "convert the encoder alone, or choose another format"
        )
    config = checkpoint.config
    rows = _rows(checkpoint.architecture, config)
    tensors = name_table.to_tensors(checkpoint.variables, rows, config)
    if checkpoint.architecture == ENCODER:  # transformers saves its BertModel without prefix
        tensors = {name.removeprefix(_PREFIX): value for name, value in tensors.items()}
    # The fields of the config in Hugging Face's words.
    values = checkpoint.config.to_dict("hf") | {
        "model_type": "bert",
        "architectures": [MODEL_CLASSES[checkpoint.architecture].hugging_face],
    }
    if "num_classes" in checkpoint.head:
        num_classes = checkpoint.head["num_classes"]
        labels = checkpoint.head.get("labels") or _placeholder_labels(num_classes)
        values["id2label"] = {str(index): label for index, label in enumerate(labels)}
        values["label2id"] = {label: index for index, label in enumerate(labels)}
        if problem_type := checkpoint.head.get("problem_type"):
            values["problem_type"] = problem_type
        elif num_classes == 1:
            values["problem_type"] = "regression"
    content = json.dumps(values, indent=2, sort_keys=True)
    torch_state.write(tensors, folder)
    (Path(folder) / CONFIG_FILE).write_text(content + "\n", encoding="utf-8")


def _rows(architecture: str, config: BertConfig) -> list[Row]:
    return name_table.expand([*_ENCODER, *_HEADS[architecture]], config.num_hidden_layers)


def _architecture(tensors: Tensors, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if "classifier.weight" in tensors.shapes:
        named = values.get("architectures") or []
        found = [name for name in _CLASSIFIERS if MODEL_CLASSES[name].hugging_face in named]
        if not found:
            raise ValueError(
                f"{tensors.source} holds classifier.weight, but the config's architectures {named} "
                "do not say of what: expected BertForSequenceClassification, "
                "BertForTokenClassification or BertForMultipleChoice"
            )
        if found[0] == "BertMultipleChoice":
            return found[0], {}
        num_classes, labels = tensors.shapes["classifier.weight"][0], None
        if names := values.get("id2label"):
            if sorted(map(int, names)) != list(range(num_classes)):
                raise ValueError(
                    f"{tensors.source}: classifier.weight has {num_classes} rows, but the config's "
                    f"id2label names the classes {', '.join(names)}"
                )
            labels = [names[str(index)] for index in range(num_classes)]
            if labels == _placeholder_labels(num_classes):
                labels = None  # what transformers writes when nobody named the classes
        head: dict[str, Any] = {"num_classes": num_classes, "labels": labels}
        if found[0] == "BertClassifier" and values.get("problem_type") in PROBLEM_TYPES:
            head["problem_type"] = values["problem_type"]
        return found[0], head
    if "qa_outputs.weight" in tensors.shapes:
        return "BertSpanLabeler", {}
    if "cls.predictions.bias" not in tensors.shapes:
        return "BertEncoder", {}
    if "cls.seq_relationship.weight" in tensors.shapes:
        return "BertPretrainer", {}
    return "BertMaskedLM", {}


def _placeholder_labels(num_classes: int) -> list[str]:
    return [f"LABEL_{index}" for index in range(num_classes)]
