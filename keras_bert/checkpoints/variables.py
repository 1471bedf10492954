"""The variables of every model: path and shape, without building it."""

from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints.model_classes import ENCODER_DECODER, MODEL_CLASSES
from keras_bert.config import BertConfig
from keras_bert.mobilebert_config import MobileBertConfig

Shapes = dict[str, tuple[int, ...]]

# Of every family: a dense layer, or a dense layer and a norm without biases.
POOLER = ("pooler/kernel", "pooler/bias", "pooler/dense/kernel", "pooler/layer_norm/gamma")
_BIASES = ("/bias", "/beta")
# The matrix of a masked language model that scores words, where it is not the word embedding.
OUTPUT_EMBEDDINGS = "output_embeddings/embeddings"


def variable_shapes(config: BertConfig, architecture: str, head: Mapping[str, Any]) -> Shapes:
    """Returns the shape of every weight of a model by its path.

    Args:
        config: the encoder's numbers.
        architecture: name of the model class, such as "BertClassifier".
        head: arguments of the head; `num_classes` is read where the class has it, and `decoder` and
            `decoding` of an encoder with a decoder.
    """
    # Embeddings, blocks and pooler.
    width, embedding = config.hidden_size, config.embedding_width
    shapes: Shapes = {
        "word_embeddings/embeddings": (config.vocab_size, embedding),
        "embeddings/position_embeddings": (
            config.first_position + config.max_position_embeddings,
            config.position_width,
        ),
        "embeddings/segment_embeddings": (config.type_vocab_size, config.position_width),
        **_norm("embeddings/layer_norm", config.position_width),
    }
    if isinstance(config, MobileBertConfig) and config.transforms_words:
        words = 3 if config.trigram_input else 1
        shapes |= _dense("embeddings/transformation", words * embedding, width)
    if not config.has_embedding_norm:
        shapes = {path: shape for path, shape in shapes.items() if "layer_norm" not in path}
    if not config.has_position_table:
        del shapes["embeddings/position_embeddings"]
    if not config.type_vocab_size:
        del shapes["embeddings/segment_embeddings"]
    if config.distance_buckets:
        table = (config.distance_buckets, config.num_attention_heads)
        shapes["embeddings/relative_positions/embeddings"] = table
    if config.distance_vectors:
        vectors = "embeddings/relative_positions"
        shapes[f"{vectors}/embeddings"] = (config.distance_vectors, width)
        shapes |= _norm(f"{vectors}/layer_norm", width)
    if config.projects_embeddings:
        shapes |= _dense("embeddings_projection", embedding, width)
    for index in range(config.num_hidden_layers):
        layer = f"layer_{index}"
        if isinstance(config, MobileBertConfig):
            shapes |= _bottleneck_block(layer, config)
            continue
        # What all layers share has the name of the first.
        if not (index and config.shares_attention):
            columns = (6 if config.projects_global_attention else 3) * width
            columns -= 2 * config.head_size * (config.num_attention_heads - config.key_value_heads)
            shapes |= _dense(f"{layer}/attention/query_key_value", width, columns)
            shapes |= _dense(f"{layer}/attention/output", width, width)
            if index or not (config.is_pre_norm and config.has_embedding_norm):
                shapes |= _norm(f"{layer}/attention_norm", width)
        if not (index and config.shares_feed_forward):
            gates = 2 if config.has_gates else 1
            shapes |= _dense(f"{layer}/intermediate", width, gates * config.intermediate_size)
            shapes |= _dense(f"{layer}/output", config.intermediate_size, width)
            shapes |= _norm(f"{layer}/feed_forward_norm", width)
        for name in config.unbiased_layers:
            shapes.pop(f"{layer}/{name}/bias", None)
    if config.is_pre_norm:
        shapes |= _norm(f"layer_{config.num_hidden_layers - 1}/final_norm", width)
    if architecture == ENCODER_DECODER:
        # All that the encoder has, unless it is the encoder's own, and the cross-attention.
        shared = head.get("decoder") == "bertshare"
        copies = {} if shared else {f"decoder/{path}": shape for path, shape in shapes.items()}
        shapes |= copies
        for index in range(config.num_hidden_layers):
            layer = f"decoder/layer_{index}"
            for name in ("query", "key", "value", "output"):
                shapes |= _dense(f"{layer}/cross_attention/{name}", width, width)
            shapes |= _norm(f"{layer}/cross_attention_norm", width)
        if head.get("decoding") == "mask_predict":
            shapes |= _dense("length", width, head["max_target_length"] - 1)
    if config.reads_tokens_through_pooler:
        shapes |= _dense("pooler/dense", width, width) | _norm("pooler/layer_norm", width)
    elif config.has_pooler:
        shapes |= _dense("pooler", width, width)
    # The head.
    variables = MODEL_CLASSES[architecture].head_variables
    if variables is None:
        raise ValueError(f"no format but our own has the head of {architecture}")

    def number(size: str | int) -> int:
        if isinstance(size, int):
            return size
        return head[size] if size in head else getattr(config, size)

    of_head = {path: tuple(map(number, shape)) for path, shape in variables.items()}
    of_head = {path: shape for path, shape in of_head.items() if 0 not in shape}
    if not config.has_masked_lm_transform:
        of_head = {path: of_head[path] for path in of_head if not path.startswith("masked_lm_")}
    if MODEL_CLASSES[architecture].predicts_words and not config.ties_words:
        of_head[OUTPUT_EMBEDDINGS] = (config.vocab_size, embedding)
    if not config.has_norm_offsets:
        shapes = {path: shape for path, shape in shapes.items() if not path.endswith("/beta")}
    if config.has_biases:
        return shapes | of_head
    # The encoder and the transform of masked words have none, other layers of a head do.
    return {
        path: shape
        for path, shape in (shapes | of_head).items()
        if not path.endswith(_BIASES)
        or (path in of_head and not path.startswith("masked_lm_transform/"))
    }


def _bottleneck_block(layer: str, config: MobileBertConfig) -> Shapes:
    """Returns the shapes of a block of MobileBERT."""
    width, inside, inner = config.hidden_size, config.block_width, config.intermediate_size
    shapes: Shapes = {}
    bottlenecks = {"input_bottleneck": config.use_bottleneck}
    bottlenecks["attention/bottleneck"] = config.attention_input == "shared_bottleneck"
    for name, is_there in bottlenecks.items():
        if is_there:
            shapes |= _dense(f"{layer}/{name}/dense", width, inside)
            shapes |= _norm(f"{layer}/{name}/norm", inside)
    if config.attention_input == "shared_bottleneck":
        shapes |= _dense(f"{layer}/attention/query_key", inside, 2 * inside)
        shapes |= _dense(f"{layer}/attention/value", width, inside)
    else:
        read = inside if config.attention_input == "bottleneck" else width
        shapes |= _dense(f"{layer}/attention/query_key_value", read, 3 * inside)
    shapes |= _dense(f"{layer}/attention/output", inside, inside)
    shapes |= _norm(f"{layer}/attention_norm", inside)
    for index in range(config.num_feedforward_networks - 1):
        network = f"{layer}/feed_forward_{index}"
        shapes |= _dense(f"{network}/intermediate", inside, inner)
        shapes |= _dense(f"{network}/output", inner, inside) | _norm(f"{network}/norm", inside)
    shapes |= _dense(f"{layer}/intermediate", inside, inner)
    shapes |= _dense(f"{layer}/output", inner, inside)
    shapes |= _norm(f"{layer}/feed_forward_norm", inside)
    if config.use_bottleneck:
        shapes |= _dense(f"{layer}/output_bottleneck", inside, width)
        shapes |= _norm(f"{layer}/output_norm", width)
    return shapes


def _dense(path: str, inputs: int, outputs: int) -> Shapes:
    return {f"{path}/kernel": (inputs, outputs), f"{path}/bias": (outputs,)}


def _norm(path: str, width: int) -> Shapes:
    return {f"{path}/gamma": (width,), f"{path}/beta": (width,)}
