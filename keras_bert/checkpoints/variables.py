"""The variables of every model: path and shape, without building it."""

from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints.model_classes import MODEL_CLASSES
from keras_bert.config import BertConfig

Shapes = dict[str, tuple[int, ...]]

POOLER = ("pooler/kernel", "pooler/bias")


def variable_shapes(config: BertConfig, architecture: str, head: Mapping[str, Any]) -> Shapes:
    """Returns the shape of every weight of a model by its path.

    Args:
        config: the encoder's numbers.
        architecture: name of the model class, such as "BertClassifier".
        head: arguments of the head; `num_classes` is read where the class has it.
    """
    # Embeddings, blocks and pooler.
    width = config.hidden_size
    shapes = {
        "word_embeddings/embeddings": (config.vocab_size, width),
        "embeddings/position_embeddings": (config.max_position_embeddings, width),
        "embeddings/segment_embeddings": (config.type_vocab_size, width),
        **_norm("embeddings/layer_norm", width),
    }
    for index in range(config.num_hidden_layers):
        layer = f"layer_{index}"
        shapes |= _dense(f"{layer}/attention/query_key_value", width, 3 * width)
        shapes |= _dense(f"{layer}/attention/output", width, width)
        shapes |= _norm(f"{layer}/attention_norm", width)
        shapes |= _dense(f"{layer}/intermediate", width, config.intermediate_size)
        shapes |= _dense(f"{layer}/output", config.intermediate_size, width)
        shapes |= _norm(f"{layer}/feed_forward_norm", width)
    shapes |= _dense("pooler", width, width)
    # The head.
    variables = MODEL_CLASSES[architecture].head_variables
    if variables is None:
        raise ValueError(f"no format but our own has the head of {architecture}")
    sizes = vars(config) | dict(head)
    return shapes | {
        path: tuple(size if isinstance(size, int) else sizes[size] for size in shape)
        for path, shape in variables.items()
    }


def _dense(path: str, inputs: int, outputs: int) -> Shapes:
    return {f"{path}/kernel": (inputs, outputs), f"{path}/bias": (outputs,)}


def _norm(path: str, width: int) -> Shapes:
    return {f"{path}/gamma": (width,), f"{path}/beta": (width,)}
