"""A pretrained BERT or RoBERTa with attention in a sliding window in place of full attention."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.config import BertConfig
from keras_bert.family_configs import LocalBertConfig, LongformerConfig, RobertaConfig
from keras_bert.models import registry
from keras_bert.models.preset import check_model
from keras_bert.models.surgery.lora import merged_lora

# Family -> that with local attention.
_LOCAL: dict[str, type[LocalBertConfig] | type[LongformerConfig]] = {
    BertConfig.model_type: LocalBertConfig,
    LocalBertConfig.model_type: LocalBertConfig,
    RobertaConfig.model_type: LongformerConfig,
    LongformerConfig.model_type: LongformerConfig,
}


def with_local_attention(
    model: Any, attention_window: int = 256, global_tokens: int | None = None
) -> Any:
    """Returns a copy of a BERT or RoBERTa whose attention is local; all weights are copied.

    A RoBERTa becomes a Longformer, whose projections of global positions begin as copies of the
    others (Beltagy et al. 2020, section 5). It takes texts no longer than before:
    `extend_positions` gives it a longer table. What it says of a text that the window covers is
    what the model says.

    Args:
        model: any of the package's models on a `BertEncoder` or `RobertaEncoder`; it is left alone.
        attention_window: how far a position sees to each side, in pieces.
        global_tokens: so many first positions see all and are seen by all; the first is [CLS]. None
            keeps those of a model whose attention is local already, and takes 1 for others.

    Raises:
        ValueError: the encoder is one of another family, the model is packed, or a folder.

    Example:
        model = extend_positions(load_model("bert"), 4096)
        model = with_local_attention(model, attention_window=256)
        model.save_to_preset("bert_local", load_tokenizer("bert"))
    """
    check_model(model)
    local = _local_config(model.config, attention_window, global_tokens)
    # A head stays what it is; an encoder becomes that of the config.
    is_encoder = registry.is_encoder_class(type(model))
    local_class = registry.encoder_class(local) if is_encoder else type(model)
    copy = local_class.from_config({**model.get_config(), "config": local.to_dict()})
    # The same layers in the same order.
    with merged_lora(model) as weights:
        for source, target in zip(weights, copy.weights, strict=True):
            value = source.value
            if source.shape != target.shape:  # with further columns for global positions
                value = _with_global_columns(keras.ops.convert_to_numpy(value))
            target.assign(value)
    return copy


def localize_checkpoint(
    checkpoint: Checkpoint, attention_window: int, global_tokens: int | None = None
) -> Checkpoint:
    """Returns a checkpoint with local attention; see `with_local_attention`."""
    local = _local_config(checkpoint.config, attention_window, global_tokens)
    variables = dict(checkpoint.variables)
    if local.projects_global_attention and not checkpoint.config.projects_global_attention:
        for path, value in checkpoint.variables.items():
            if "/attention/query_key_value/" in path:
                variables[path] = _with_global_columns(value)
    return dataclasses.replace(checkpoint, config=local, variables=variables)


def _local_config(
    config: BertConfig, attention_window: int, global_tokens: int | None = None
) -> LocalBertConfig | LongformerConfig:
    if config.model_type not in _LOCAL:
        raise ValueError(
            f"the encoder is of the family {config.model_type!r}: local attention is there for "
            "BERT and RoBERTa, and a ModernBERT has windows of its own; leave out attention_window"
        )
    if global_tokens is None:
        global_tokens = getattr(config, "global_tokens", 1)
    local_class = _LOCAL[config.model_type]
    # What both classes know, but what the file of the other calls itself.
    names = {field.name for field in dataclasses.fields(local_class)} - {"hugging_face_type"}
    numbers: dict[str, Any] = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.name in names
    }
    return local_class(
        **numbers | {"attention_window": attention_window, "global_tokens": global_tokens}
    )


def _with_global_columns(values: np.ndarray) -> np.ndarray:
    """Returns a projection [..., 3H] as [..., 6H]: query, key and value each twice."""
    parts = np.split(values, 3, axis=-1)
    return np.concatenate([copy for part in parts for copy in (part, part)], axis=-1)
