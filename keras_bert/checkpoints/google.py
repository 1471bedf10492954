"""Google's format: a TensorFlow 1 checkpoint, of a BERT, a MobileBERT or an ELECTRA.

A BERT comes with `bert_config.json`. Its names are those of the graph in google-research/bert:
modeling.py for the encoder, run_pretraining.py, run_classifier.py and run_squad.py for the heads.

A MobileBERT comes with such a config file, too, which has further fields. The names are those of
google-research/google-research, mobilebert/modeling.py and mobilebert/run_pretraining.py.

An ELECTRA comes without a config file: the shapes tell the numbers, and heads are 64 wide as in all
that were released. A `config.json` of transformers beside it, which many of others' have, is read.
The names are those of google-research/electra, model/modeling.py and run_pretraining.py. The
discriminator is read, its generator left behind.
"""

import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from keras_bert.checkpoints import google_config, name_table, tensorflow_file
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.hugging_face_families import MOBILEBERT_DENSE, MOBILEBERT_NORMS
from keras_bert.checkpoints.name_table import (
    HALVES,
    PARTS,
    TRANSPOSED,
    Leftovers,
    Row,
    Tensors,
    same,
)
from keras_bert.checkpoints.variables import POOLER, variable_shapes
from keras_bert.config import BertConfig
from keras_bert.family_configs import ElectraConfig
from keras_bert.mobilebert_config import MobileBertConfig

CHECKPOINT_PREFIX = "bert_model.ckpt"
_CONFIG_FILE = "config.json"  # of transformers


def _encoder(scope: str) -> list[Row]:
    embeddings, layer = f"{scope}/embeddings", f"{scope}/encoder/layer_{{layer}}"
    return [
        Row("word_embeddings/embeddings", (f"{embeddings}/word_embeddings",)),
        Row("embeddings/position_embeddings", (f"{embeddings}/position_embeddings",)),
        Row("embeddings/segment_embeddings", (f"{embeddings}/token_type_embeddings",)),
        *same("embeddings/layer_norm", f"{embeddings}/LayerNorm", "gamma", "beta"),
        *(
            Row(
                f"layer_{{layer}}/attention/query_key_value/{name}",
                tuple(
                    f"{layer}/attention/self/{part}/{name}" for part in ("query", "key", "value")
                ),
                PARTS,
            )
            for name in ("kernel", "bias")
        ),
        *same(
            "layer_{layer}/attention/output", f"{layer}/attention/output/dense", "kernel", "bias"
        ),
        *same(
            "layer_{layer}/attention_norm", f"{layer}/attention/output/LayerNorm", "gamma", "beta"
        ),
        *same("layer_{layer}/intermediate", f"{layer}/intermediate/dense", "kernel", "bias"),
        *same("layer_{layer}/output", f"{layer}/output/dense", "kernel", "bias"),
        *same("layer_{layer}/feed_forward_norm", f"{layer}/output/LayerNorm", "gamma", "beta"),
    ]


_BERT = [*_encoder("bert"), *same("pooler", "bert/pooler/dense", "kernel", "bias")]
_ELECTRA = [
    *_encoder("electra"),
    *same("embeddings_projection", "electra/embeddings_project", "kernel", "bias"),
]


def _mobilebert(normalization_type: str) -> list[Row]:
    """Returns the rows of the encoder of a MobileBERT, whose norms are named by what they are."""
    norm = "FakeLayerNorm" if normalization_type == "no_norm" else "LayerNorm"
    ours, layer = "layer_{layer}/", "bert/encoder/layer_{layer}/"
    return [
        *(row for row in _BERT if not row.ours.startswith((ours, "embeddings/layer_norm"))),
        *same(
            *("embeddings/transformation", "bert/embeddings/embedding_transformation"),
            *("kernel", "bias"),
        ),
        *same("embeddings/layer_norm", f"bert/embeddings/{norm}", "gamma", "beta"),
        *(row for row in _BERT if "query_key_value" in row.ours),
        *(
            Row(
                f"{ours}attention/query_key/{name}",
                tuple(f"{layer}attention/self/{part}/{name}" for part in ("query", "key")),
                HALVES,
            )
            for name in ("kernel", "bias")
        ),
        *(
            row
            for names, kinds in (
                (MOBILEBERT_DENSE, ("kernel", "bias")),
                (MOBILEBERT_NORMS, ("gamma", "beta")),
            )
            for name, path in names.items()
            for row in same(
                ours + name,
                layer + path.replace("ffn/", "ffn_layer_").replace("LayerNorm", norm),
                *kinds,
            )
        ),
    ]


_DETECTOR = "discriminator_predictions"
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


_BERT_HEADS = {
    "BertEncoder": [],
    "BertMaskedLM": _MASKED_LM,
    "BertPretrainer": [*_MASKED_LM, *_output("next_sentence", "cls/seq_relationship/")],
    "BertClassifier": _output("classifier", ""),
    "BertSpanLabeler": _output("span", "cls/squad/"),
}
_ELECTRA_HEADS = {
    "BertEncoder": [],
    "BertReplacedTokenDetector": [
        *same("replaced_token/dense", f"{_DETECTOR}/dense", "kernel", "bias"),
        *same("replaced_token/prediction", f"{_DETECTOR}/dense_1", "kernel", "bias"),
    ],
}
_FURTHER_COLUMNS = Row("masked_lm_columns/embeddings", ("cls/predictions/extra_output_weights",))
_MOBILEBERT_HEADS = {
    name: [*rows, _FURTHER_COLUMNS] if rows[: len(_MASKED_LM)] == _MASKED_LM else rows
    for name, rows in _BERT_HEADS.items()
}
# By the model type of the config: rows of the encoder, and of each head that has names.
_FAMILIES = {
    "bert": (_BERT, _BERT_HEADS),
    "electra": (_ELECTRA, _ELECTRA_HEADS),
    "mobilebert": (_mobilebert("no_norm"), _MOBILEBERT_HEADS),
}
_LEFTOVERS = Leftovers(
    {
        r".*/(adam_m|adam_v|Adam|Adam_1|lamb_m|lamb_v)": "state of the optimizer",
        r"global_step": "counter of the training run",
        r"(beta1_power|beta2_power|loss_scale|good_steps)": "state of the optimizer",
        r"generator(_predictions)?/.*": "the generator, which only pretraining uses",
        r"teacher/.*": "the teacher of a MobileBERT, which only its distillation uses",
    }
)
_HEAD_WIDTH = 64  # of attention, in every ELECTRA that was released


def read(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> Checkpoint:
    """Reads a folder with one TensorFlow 1 checkpoint and, of a BERT, a config file.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: tensors are missing, left over or misshapen; the sentence names them.
    """
    tensors = tensorflow_file.read_flat(tensorflow_file.find_prefix(folder))
    config = _config(folder, tensors, ignore_config_keys)
    architecture, head = _architecture(tensors)
    variables, report = name_table.to_variables(
        tensors,
        _rows(architecture, config),
        variable_shapes(config, architecture, head),
        config,
        _LEFTOVERS,
        optional=POOLER,  # missing where a head of transformers was converted
    )
    return Checkpoint(config, architecture, head, variables, report)


def read_config(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> BertConfig:
    """Returns the numbers of the model in a folder; see `read`."""
    tensors = tensorflow_file.read_flat(tensorflow_file.find_prefix(folder))
    return _config(folder, tensors, ignore_config_keys)


def write(checkpoint: Checkpoint, folder: str | os.PathLike) -> None:
    """Writes the config and the checkpoint into a folder that exists.

    An ELECTRA gets transformers' `config.json`, as Google has no file for it, and no pooler: that
    belongs to heads which have no names here.

    Raises:
        ValueError: Google's format has no names for the head, or no place for a config value.
    """
    config = checkpoint.config
    _, heads = _FAMILIES.get(config.model_type, _FAMILIES["bert"])
    if checkpoint.architecture not in heads:
        raise ValueError(
            f"Google's format has no names for the head of {checkpoint.architecture}: "
            "convert the encoder alone, or choose another format"
        )
    variables = checkpoint.variables
    if config.model_type == "electra":
        values = config.to_dict("hf") | {"model_type": "electra"}
        (Path(folder) / _CONFIG_FILE).write_text(
            json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8"
        )
        variables = {path: value for path, value in variables.items() if path not in POOLER}
    else:
        google_config.write(config, folder)
    tensors = name_table.to_tensors(variables, _rows(checkpoint.architecture, config), config)
    tensorflow_file.write_flat(tensors, Path(folder) / CHECKPOINT_PREFIX)


def _rows(architecture: str, config: BertConfig) -> list[Row]:
    encoder, heads = _FAMILIES[config.model_type]
    if isinstance(config, MobileBertConfig):
        encoder = _mobilebert(config.normalization_type)
    return name_table.expand([*encoder, *heads[architecture]], config)


def _config(
    folder: str | os.PathLike, tensors: Tensors, ignore_config_keys: Collection[str]
) -> BertConfig:
    shapes = tensors.shapes
    if "electra/embeddings/word_embeddings" not in shapes:
        return google_config.read(folder, ignore_config_keys)
    if (Path(folder) / _CONFIG_FILE).exists():
        config = BertConfig.from_file(Path(folder) / _CONFIG_FILE, "hf", ignore_config_keys)
        if config.model_type != "electra":
            raise ValueError(
                f"{folder}: the checkpoint is an ELECTRA's, but {_CONFIG_FILE} a "
                f"{config.model_type}'s: give the config that belongs to it, or none"
            )
        return config
    # Every number but the probabilities, in which all released models are alike.
    of_layers = re.compile(r"electra/encoder/layer_\d+/output/dense/bias")
    num_layers = sum(bool(of_layers.fullmatch(name)) for name in shapes)
    try:
        vocab_size, embedding_size = shapes["electra/embeddings/word_embeddings"]
        inner_size, hidden_size = shapes["electra/encoder/layer_0/output/dense/kernel"]
        return ElectraConfig(
            vocab_size=vocab_size,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            num_hidden_layers=num_layers,
            num_attention_heads=max(1, hidden_size // _HEAD_WIDTH),
            intermediate_size=inner_size,
            max_position_embeddings=shapes["electra/embeddings/position_embeddings"][0],
            type_vocab_size=shapes["electra/embeddings/token_type_embeddings"][0],
        )
    except KeyError as error:
        raise ValueError(
            f"{tensors.source} does not hold {error}, from which the numbers of an ELECTRA follow"
        ) from None


def _architecture(tensors: Tensors) -> tuple[str, dict[str, Any]]:
    shapes = tensors.shapes
    if f"{_DETECTOR}/dense/kernel" in shapes:
        return "BertReplacedTokenDetector", {}
    if "output_weights" in shapes:
        return "BertClassifier", {"num_classes": shapes["output_weights"][0], "labels": None}
    if "cls/squad/output_weights" in shapes:
        return "BertSpanLabeler", {}
    if "cls/seq_relationship/output_weights" in shapes:
        return "BertPretrainer", {}
    if "cls/predictions/output_bias" in shapes:
        return "BertMaskedLM", {}
    return "BertEncoder", {}
