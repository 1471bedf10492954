"""SavedModels of BERT in TF-Hub's form, as TF-Hub and Kaggle publish them.

Model Garden's official/nlp/tools/export_tfhub_lib.py writes them: `variables/` with the encoder
(and perhaps the masked LM head) under the names of its layers, `assets/vocab.txt` and
`do_lower_case`, but no config. Sizes and heads follow from the shapes of the variables; activation
and epsilon are read from the graph. Model Garden's "gelu" is the tanh form and its epsilon
1e-12. Dropout rates, which the graph of inference lacks, are taken as those of the paper, 0.1.

Our own exporter in this form (`keras_bert.serving.formats.tf_hub`) adds its config as an asset.
"""

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert.checkpoints import name_table, tensorflow_file
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.model_garden import HEADS_FIRST, PROJECTIONS
from keras_bert.checkpoints.name_table import Leftovers, Row, Tensors, same
from keras_bert.checkpoints.tensorflow_file import ObjectGraph
from keras_bert.checkpoints.variables import variable_shapes
from keras_bert.config import CONFIG_FILES, BertConfig

MODEL_FILE = "saved_model.pb"
ASSETS = "assets"
# Objects of a SavedModel: the last two are our own exporter's.
VOCABULARY, LOWERCASE = "vocab_file", "do_lower_case"
CONFIG, WEIGHTS = "config_file", "named_weights"

_WORDS = "word_embeddings/embeddings"
_LAYER = "transformer/layer_{layer}"
_QUERY = "transformer/layer_0/self_attention/query/kernel"


_ENCODER = [
    Row("word_embeddings/embeddings", (_WORDS,)),
    Row("embeddings/position_embeddings", ("position_embedding/embeddings",)),
    Row("embeddings/segment_embeddings", ("type_embeddings/embeddings",)),
    *same("embeddings/layer_norm", "embeddings/layer_norm", "gamma", "beta"),
    *(
        Row(
            f"layer_{{layer}}/attention/query_key_value/{name}",
            tuple(f"{_LAYER}/self_attention/{part}/{name}" for part in ("query", "key", "value")),
            PROJECTIONS,
        )
        for name in ("kernel", "bias")
    ),
    Row(
        "layer_{layer}/attention/output/kernel",
        (f"{_LAYER}/self_attention/attention_output/kernel",),
        HEADS_FIRST,
    ),
    *same("layer_{layer}/attention/output", f"{_LAYER}/self_attention/attention_output", "bias"),
    *same("layer_{layer}/attention_norm", f"{_LAYER}/self_attention_layer_norm", "gamma", "beta"),
    *same("layer_{layer}/intermediate", f"{_LAYER}/intermediate", "kernel", "bias"),
    *same("layer_{layer}/output", f"{_LAYER}/output", "kernel", "bias"),
    *same("layer_{layer}/feed_forward_norm", f"{_LAYER}/output_layer_norm", "gamma", "beta"),
    *same("pooler", "pooler_transform", "kernel", "bias"),
]
_MASKED_LM = [
    *same("masked_lm_transform/dense", "cls/predictions/transform/dense", "kernel", "bias"),
    *same("masked_lm_transform/layer_norm", "cls/predictions/transform/LayerNorm", "gamma", "beta"),
    Row("masked_lm_bias/bias", ("cls/predictions/output_bias/bias",)),
]
_LEFTOVERS = Leftovers({rf"{LOWERCASE}/.*": "a setting of the tokenizer"})
_OUR_LEFTOVERS = Leftovers(
    {
        **_LEFTOVERS.dropped,
        r"variables/.*": "state of a dropout",
        r"save_counter/.*": "counter of checkpoints",
    }
)


class _Graph(NamedTuple):
    """What is read of the file with the graph.

    Attributes:
        objects: names of what the root object holds.
        assets: file names in assets/ of those of them that are files.
        nodes: every operation of every function.
    """

    objects: frozenset[str]
    assets: dict[str, str]
    nodes: list[Any]


def is_saved_model(folder: str | os.PathLike) -> bool:
    """Whether a folder is a SavedModel and nothing else that could be opened."""
    folder = Path(folder)
    has_config = any((folder / name).is_file() for name in CONFIG_FILES)
    return (folder / MODEL_FILE).is_file() and not has_config


def read(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> Checkpoint:
    """Reads the weights of a SavedModel in TF-Hub's form.

    Args:
        folder: holds `saved_model.pb` and `variables/`.
        ignore_config_keys: unknown keys of our own exporter's config to pass over; TF-Hub's have
            no config.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: it is another kind of SavedModel, or a file is damaged.
    """
    folder = Path(folder)
    graph = _read_graph(folder)
    objects = ObjectGraph(tensorflow_file.find_prefix(folder / "variables"))
    leftovers = _LEFTOVERS
    if CONFIG in graph.assets and objects.has(WEIGHTS):
        leftovers = _OUR_LEFTOVERS
        path = folder / ASSETS / graph.assets[CONFIG]
        config = BertConfig.from_file(path, ignore_config_keys=ignore_config_keys)
        shapes = variable_shapes(config, "BertEncoder", {})
        rows = [Row(path, (f"{WEIGHTS}/{path}",)) for path in shapes]
        tensors = objects.tensors([name for row in rows for name in row.theirs])
        architecture = "BertEncoder"
    else:
        tensors = _without_prefixes(objects.named_tensors())
        missing = [name for name in (_WORDS, _QUERY) if name not in tensors.shapes]
        if missing:
            if "bert_pack_inputs" in graph.objects or "tokenize" in graph.objects:
                remedy = "it turns texts into ids: give the folder of the encoder beside it"
            elif "serving_signatures" in graph.objects:
                remedy = "it is an export for serving: give the model folder that it was made from"
            else:
                remedy = "only BERT encoders in the form of Model Garden's export_tfhub are read"
            raise ValueError(
                f"{folder} is a SavedModel, but not of a BERT encoder: it has no variable "
                f"{missing[0]}; {remedy}"
            )
        config = _config(folder, graph, tensors)
        has_head = _MASKED_LM[-1].theirs[0] in tensors.shapes
        architecture = "BertMaskedLM" if has_head else "BertEncoder"
        head_rows = _MASKED_LM if has_head else []
        rows = name_table.expand([*_ENCODER, *head_rows], config)
        shapes = variable_shapes(config, architecture, {})
    variables, report = name_table.to_variables(tensors, rows, shapes, config, leftovers)
    return Checkpoint(config, architecture, {}, variables, report)


def vocabulary_file(folder: str | os.PathLike) -> tuple[Path, bool | None]:
    """Returns the vocabulary of a SavedModel in TF-Hub's form, and whether it is uncased.

    Raises:
        FileNotFoundError: it has none (`sp_model_file` is a vocabulary of SentencePiece).
    """
    folder = Path(folder)
    graph = _read_graph(folder)
    if VOCABULARY not in graph.assets:
        raise FileNotFoundError(f"{folder} is a SavedModel without a {VOCABULARY}")
    lowercase = None
    if LOWERCASE in graph.objects:
        objects = ObjectGraph(tensorflow_file.find_prefix(folder / "variables"))
        lowercase = bool(objects.tensors([LOWERCASE]).read(LOWERCASE))
    return folder / ASSETS / graph.assets[VOCABULARY], lowercase


def _read_graph(folder: Path) -> _Graph:
    # Part of the TensorFlow wheel, and the only description of the format there is.
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    path = folder / MODEL_FILE
    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{path} is no readable SavedModel: {error}") from None
    if not model.meta_graphs or not model.meta_graphs[0].object_graph_def.nodes:
        raise ValueError(f"{path} is a SavedModel without objects, as TensorFlow 1 wrote them")
    meta = model.meta_graphs[0]
    nodes = meta.object_graph_def.nodes
    children = {child.local_name: nodes[child.node_id] for child in nodes[0].children}
    files = [Path(asset.filename).name for asset in meta.asset_file_def]
    assets = {
        name: files[node.asset.asset_file_def_index]
        for name, node in children.items()
        if node.WhichOneof("kind") == "asset"
    }
    functions = meta.graph_def.library.function
    operations = [node for function in functions for node in function.node_def]
    return _Graph(frozenset(children), assets, operations)


def _without_prefixes(tensors: Tensors) -> Tensors:
    """Drops what stands before the names of layers, such as "bert/" or "bert_encoder_1/"."""
    known = {name for row in (*_ENCODER, *_MASKED_LM) for name in row.theirs}
    names: dict[str, str] = {}
    for name in tensors.shapes:
        parts = name.split("/")
        tails = ["/".join(parts[index:]) for index in range(len(parts))]
        general = [re.sub(r"^transformer/layer_\d+/", f"{_LAYER}/", tail) for tail in tails]
        short = next((t for t, g in zip(tails, general, strict=True) if g in known), name)
        names[name if short in names else short] = name
    shapes = {short: tensors.shapes[name] for short, name in names.items()}
    return Tensors(tensors.source, shapes, lambda short: tensors.read(names[short]))


def _config(folder: Path, graph: _Graph, tensors: Tensors) -> BertConfig:
    """Returns the config that the shapes of the variables and the graph say."""

    def shape(name: str, rank: int) -> tuple[int, ...]:
        found = tensors.shapes.get(name, ())
        if len(found) != rank:
            raise ValueError(
                f"{tensors.source}: {name} has the shape {list(found)}: expected {rank} dimensions"
            )
        return found

    layers = {
        int(found[1])
        for name in tensors.shapes
        if (found := re.match(r"transformer/layer_(\d+)/", name))
    }
    vocab_size, width = shape(_WORDS, 2)
    _, heads, head_size = shape(_QUERY, 3)
    if heads * head_size != width:
        raise ValueError(
            f"{tensors.source}: {heads} heads of {head_size} do not make the width {width}: it "
            "belongs to another architecture"
        )
    metadata = folder / "keras_metadata.pb"
    if metadata.is_file() and b'"norm_first": true' in metadata.read_bytes():
        raise ValueError(
            f"{metadata} says norm_first: layer norms before attention are another architecture"
        )
    epsilons = {value for name, value in _constants(graph) if name.endswith("/batchnorm/add/y")}
    epsilons |= {
        node.attr["epsilon"].f for node in graph.nodes if node.op.startswith("FusedBatchNorm")
    }
    if len(epsilons) != 1:
        raise ValueError(
            f"{folder / MODEL_FILE}: layer norms have the epsilons {sorted(epsilons)}: expected one"
        )
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=len(layers),
        num_attention_heads=heads,
        intermediate_size=shape("transformer/layer_0/intermediate/kernel", 2)[1],
        hidden_act=_activation(folder, graph),
        max_position_embeddings=shape("position_embedding/embeddings", 2)[0],
        type_vocab_size=shape("type_embeddings/embeddings", 2)[0],
        layer_norm_eps=float(f"{epsilons.pop():.6g}"),  # 1e-12, not its neighbour in float32
    )


def _activation(folder: Path, graph: _Graph) -> str:
    """Tells the activation by the operations that nothing else in a BERT has."""
    operations = {node.op for node in graph.nodes}
    found = {
        name
        for name, signs in {
            "gelu": {"Erf", "Erfc"},
            "relu": {"Relu"},
            "silu": {"Sigmoid"},
        }.items()
        if signs & operations
    }
    # 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    if any(np.isclose(value, 0.044715, rtol=1e-6) for _, value in _constants(graph)):
        found.add("gelu_tanh")
    if not found and any(
        node.op == "Tanh" and "/activation" in f"/{node.name}" for node in graph.nodes
    ):
        found.add("tanh")
    if len(found) != 1:
        raise ValueError(
            f"{folder / MODEL_FILE}: the activation cannot be told from its operations (found "
            f"{', '.join(sorted(found)) or 'none'}): it belongs to another architecture"
        )
    return found.pop()


def _constants(graph: _Graph) -> Iterator[tuple[str, float]]:
    """Yields name and value of every float that stands alone."""
    import tensorflow as tf

    for node in graph.nodes:
        if node.op == "Const":
            tensor = node.attr["value"].tensor
            if tensor.dtype == tf.float32.as_datatype_enum and not tensor.tensor_shape.dim:
                yield node.name, float(tf.make_ndarray(tensor))
