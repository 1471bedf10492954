"""TensorFlow Model Garden's format: `bert_config.json` and an object checkpoint of TensorFlow 2.

A path names the edges from object to object in official/nlp/modeling: networks/bert_encoder.py and
models/bert_pretrainer.py, bert_classifier.py, bert_token_classifier.py, bert_span_labeler.py.
`BertEncoder` (functional) and `BertEncoderV2` give their sub-layers the same attributes.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints import google_config, name_table, tensorflow_file
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.name_table import Form, Leftovers, Row, same
from keras_bert.checkpoints.tensorflow_file import ObjectGraph
from keras_bert.checkpoints.variables import POOLER, variable_shapes
from keras_bert.config import BertConfig

CHECKPOINT_PREFIX = "bert_model.ckpt"

# Where the encoder may lie: `tf.train.Checkpoint(encoder=...)`, the models around it,
# `tf.train.Checkpoint(model=encoder)`.
_ENCODER_PATHS = ("encoder", "model/encoder_network", "model/_network", "model")
_LAYER = "encoder/_transformer_layers/{layer}"
_ATTENTION = f"{_LAYER}/_attention_layer"


def _heads(array: np.ndarray, config: BertConfig) -> np.ndarray:
    """Splits the last axis [H] in two: heads, and positions within a head."""
    return array.reshape(*array.shape[:-1], config.num_attention_heads, config.head_size)


# Query, key and value kernels [H, A, D] and biases [A, D].
PROJECTIONS = Form(
    lambda ours, config: [_heads(third, config) for third in np.split(ours, 3, axis=-1)],
    lambda theirs, config: np.concatenate(
        [part.reshape(*part.shape[:-2], config.hidden_size) for part in theirs], axis=-1
    ),
)
# The output kernel [A, D, H].
HEADS_FIRST = Form(
    lambda ours, config: [_heads(ours.T, config).transpose(1, 2, 0)],
    lambda theirs, config: theirs[0].reshape(config.hidden_size, config.hidden_size),
)


_ENCODER = [
    Row("word_embeddings/embeddings", ("encoder/_embedding_layer/embeddings",)),
    Row("embeddings/position_embeddings", ("encoder/_position_embedding_layer/embeddings",)),
    Row("embeddings/segment_embeddings", ("encoder/_type_embedding_layer/embeddings",)),
    *same("embeddings/layer_norm", "encoder/_embedding_norm_layer", "gamma", "beta"),
    *(
        Row(
            f"layer_{{layer}}/attention/query_key_value/{name}",
            tuple(f"{_ATTENTION}/_{part}_dense/{name}" for part in ("query", "key", "value")),
            PROJECTIONS,
        )
        for name in ("kernel", "bias")
    ),
    Row(
        "layer_{layer}/attention/output/kernel",
        (f"{_ATTENTION}/_output_dense/kernel",),
        HEADS_FIRST,
    ),
    *same("layer_{layer}/attention/output", f"{_ATTENTION}/_output_dense", "bias"),
    *same("layer_{layer}/attention_norm", f"{_LAYER}/_attention_layer_norm", "gamma", "beta"),
    *same("layer_{layer}/intermediate", f"{_LAYER}/_intermediate_dense", "kernel", "bias"),
    *same("layer_{layer}/output", f"{_LAYER}/_output_dense", "kernel", "bias"),
    *same("layer_{layer}/feed_forward_norm", f"{_LAYER}/_output_layer_norm", "gamma", "beta"),
]
_POOLER = same("pooler", "encoder/_pooler_layer", "kernel", "bias")
_MASKED_LM = [
    *same("masked_lm_transform/dense", "masked_lm/dense", "kernel", "bias"),
    *same("masked_lm_transform/layer_norm", "masked_lm/layer_norm", "gamma", "beta"),
    # One attribute whose name holds a slash.
    Row("masked_lm_bias/bias", ("masked_lm/output_bias|bias",)),
]
_NEXT_SENTENCE = "model/classification_heads/0"
_HEADS = {
    "BertEncoder": _POOLER,
    "BertMaskedLM": [*_POOLER, *_MASKED_LM],
    # The next sentence head of BertPretrainerV2 has a pooler of its own; the encoder's is idle.
    "BertPretrainer": [
        *same("pooler", f"{_NEXT_SENTENCE}/dense", "kernel", "bias"),
        *_MASKED_LM,
        *same("next_sentence", f"{_NEXT_SENTENCE}/out_proj", "kernel", "bias"),
    ],
    "BertClassifier": [
        *_POOLER,
        *same("classifier", "model/classifier/out_proj", "kernel", "bias"),
    ],
    "BertTokenClassifier": [
        *_POOLER,
        *same("classifier", "model/classifier", "kernel", "bias"),
    ],
    "BertSpanLabeler": [
        *_POOLER,
        *same("span", "model/span_labeling/layer_with_weights-0", "kernel", "bias"),
    ],
}
# Other paths to the same objects, as `checkpoint_items` and the models' attributes have them.
_TIED = {"masked_lm/embedding_table": "encoder/_embedding_layer/embeddings"}
_ALIASES = {
    "BertEncoder": {},
    "BertMaskedLM": {**_TIED, "model/encoder_network": "encoder", "model/masked_lm": "masked_lm"},
    "BertPretrainer": {
        **_TIED,
        "next_sentence.pooler_dense": f"{_NEXT_SENTENCE}/dense",
        "model/encoder_network": "encoder",
        "model/masked_lm": "masked_lm",
    },
    "BertClassifier": {"model/_network": "encoder"},
    "BertTokenClassifier": {"model/_network": "encoder"},
    "BertSpanLabeler": {"model/_network": "encoder"},
}
_LEFTOVERS = Leftovers(
    {
        r"save_counter/.*": "counter of checkpoints",
        r"(global_step|(model/)?optimizer)/.*": "state of the training run",
        r".*/\.OPTIMIZER_SLOT/.*": "state of the optimizer",
        r".*/OBJECT_CONFIG_JSON": "settings of a Keras object",
    }
)
_IDLE_POOLER = {r"encoder/_pooler_layer/.*": "idle: the next sentence head has its own pooler"}


def read(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> Checkpoint:
    """Reads a folder with `bert_config.json` and one object checkpoint.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: tensors are missing, left over or misshapen; the sentence names them.
    """
    config = google_config.read(folder, ignore_config_keys)
    graph = ObjectGraph(tensorflow_file.find_prefix(folder))
    architecture, head = _architecture(graph)
    # What Keras calls the sub-layers of `BertEncoder` where its attributes were not tracked.
    order = [
        "_embedding_layer",
        "_position_embedding_layer",
        "_type_embedding_layer",
        "_embedding_norm_layer",
        *(f"_transformer_layers/{layer}" for layer in range(config.num_hidden_layers)),
        "_pooler_layer",
    ]
    functional = {name: f"layer_with_weights-{index}" for index, name in enumerate(order)}
    encoder = encoder_path(graph)

    def spelled(path: str) -> str:
        if path.startswith("masked_lm/") and not graph.has("masked_lm"):
            return f"model/{path}"
        if not path.startswith("encoder/"):
            return path
        rest = path.removeprefix("encoder/")
        attribute = next(name for name in functional if f"{rest}/".startswith(f"{name}/"))
        numbered = f"{encoder}/{functional[attribute]}"
        if graph.has(numbered) and not graph.has(f"{encoder}/{attribute}"):
            return numbered + rest.removeprefix(attribute)
        return f"{encoder}/{rest}"

    # The rows with the paths as this checkpoint has them.
    rows = [
        Row(row.ours, tuple(map(spelled, row.theirs)), row.form)
        for row in _rows(architecture, config)
    ]
    idle = _IDLE_POOLER if architecture == "BertPretrainer" else {}
    variables, report = name_table.to_variables(
        graph.tensors([name for row in rows for name in row.theirs]),
        rows,
        variable_shapes(config, architecture, head),
        config,
        Leftovers({**_LEFTOVERS.dropped, **idle}),
        optional=POOLER,  # missing where a head of transformers was converted
    )
    return Checkpoint(config, architecture, head, variables, report)


def write(checkpoint: Checkpoint, folder: str | os.PathLike) -> None:
    """Writes the two files into a folder that exists.

    The encoder restores into `tf.train.Checkpoint(encoder=BertEncoderV2(...))`, models with a head
    into `tf.train.Checkpoint(model=...)`.

    Raises:
        ValueError: Model Garden has no such head, or the config file no place for a config value.
    """
    if checkpoint.architecture not in _HEADS:
        raise ValueError(
            f"Model Garden has no head like that of {checkpoint.architecture}: "
            "convert the encoder alone, or choose another format"
        )
    config = checkpoint.config
    if config.google_fields:  # a family whose file Google has, and no encoder of Model Garden
        raise ValueError(
            f"model_type is {config.model_type!r}: this format keeps no such encoder; choose "
            "google, hf or keras, which is our own"
        )
    google_config.write(config, folder)
    rows = _rows(checkpoint.architecture, config)
    tensors = name_table.to_tensors(checkpoint.variables, rows, config)
    if checkpoint.architecture == "BertPretrainer":
        # The encoder alone, restored from here, needs a pooler too: with variables of its own,
        # since TensorFlow restores one stored object into one object only.
        tensors |= {
            row.theirs[0]: checkpoint.variables[row.ours]
            for row in _POOLER
            if row.ours in checkpoint.variables
        }
    aliases = _ALIASES[checkpoint.architecture]
    tensorflow_file.write_object_graph(tensors, aliases, Path(folder) / CHECKPOINT_PREFIX)


def encoder_path(graph: ObjectGraph) -> str:
    """Returns the path of edges that leads to the encoder of a checkpoint."""
    for path in _ENCODER_PATHS:
        if graph.has(f"{path}/_transformer_layers") or graph.has(f"{path}/layer_with_weights-4"):
            return path
    return _ENCODER_PATHS[0]  # the names of what is missing are then those of the usual path


def _rows(architecture: str, config: BertConfig) -> list[Row]:
    return name_table.expand([*_ENCODER, *_HEADS[architecture]], config)


def _architecture(graph: ObjectGraph) -> tuple[str, dict[str, Any]]:
    if classes := graph.shape_of("model/classifier/out_proj/bias"):
        return "BertClassifier", {"num_classes": classes[0], "labels": None}
    if classes := graph.shape_of("model/classifier/bias"):
        return "BertTokenClassifier", {"num_classes": classes[0], "labels": None}
    if graph.shape_of("model/span_labeling/layer_with_weights-0/bias"):
        return "BertSpanLabeler", {}
    if graph.shape_of(f"{_NEXT_SENTENCE}/out_proj/bias"):
        return "BertPretrainer", {}
    if graph.has("masked_lm") or graph.has("model/masked_lm"):
        return "BertMaskedLM", {}
    return "BertEncoder", {}
