"""A pretrained BERT with attention in a sliding window in place of full attention."""

import dataclasses
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.family_configs import LocalBertConfig
from keras_bert.models import registry


def with_local_attention(
    model: Any, attention_window: int = 256, global_tokens: int | None = None
) -> Any:
    """Returns a copy of a BERT whose attention is local; all weights are copied as they are.

    It takes texts no longer than before: `extend_positions` gives it a longer table. What it says
    of a text that the window covers is what the model says.

    Args:
        model: any of the package's models on a `BertEncoder`; it is left alone.
        attention_window: how far a position sees to each side, in pieces.
        global_tokens: so many first positions see all and are seen by all; the first is [CLS]. None
            keeps those of a model whose attention is local already, and takes 1 for others.

    Raises:
        ValueError: the encoder is one of another family, or the model is packed.

    Example:
        model = extend_positions(load_model("bert"), 4096)
        model = with_local_attention(model, attention_window=256)
        model.save_to_preset("bert_local", load_tokenizer("bert"))
    """
    local = local_config(model.config, attention_window, global_tokens)
    copy = registry.class_for(type(model), local).from_config(
        {**model.get_config(), "config": local.to_dict()}
    )
    # The same layers in the same order.
    for source, target in zip(model.weights, copy.weights, strict=True):
        target.assign(source.value)
    return copy


def local_config(
    config: BertConfig, attention_window: int, global_tokens: int | None = None
) -> LocalBertConfig:
    """Returns the config of a BERT with local attention; see `with_local_attention`."""
    if config.model_type not in (BertConfig.model_type, LocalBertConfig.model_type):
        raise ValueError(
            f"the encoder is of the family {config.model_type!r}: local attention is there for "
            "BERT alone"
        )
    if global_tokens is None:
        global_tokens = config.global_tokens if isinstance(config, LocalBertConfig) else 1
    numbers = {field.name: getattr(config, field.name) for field in dataclasses.fields(BertConfig)}
    return LocalBertConfig(
        **numbers, attention_window=attention_window, global_tokens=global_tokens
    )
