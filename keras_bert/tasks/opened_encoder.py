"""An encoder that gives what is looked at inside it: of a folder, or of a model that is there."""

import os
from collections.abc import Collection
from typing import Any, Literal

from keras_bert.models.encoder import BertEncoder
from keras_bert.models.surgery.lora import plain_weights
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer


def open_encoder(
    model: Any,
    shows: Literal["hidden_states", "attention_probs"],
    tokenizer: Tokenizer | None = None,
    ignore_config_keys: Collection[str] = (),
    keep_special_tokens: bool = False,
    dtype: Any = None,
) -> tuple[BertEncoder, Tokenizer]:
    """Returns an encoder that has an output of all its layers, and its tokenizer.

    Args:
        model: a folder of any format that `BertEncoder.from_preset` opens; or a `BertEncoder`, a
            model with a head, or what has one as `model` (a `FinetunedModel`).
        shows: the output.
        tokenizer: that of the model; None takes that of the folder or of the `FinetunedModel`.
        ignore_config_keys: unknown keys of a folder's config to pass over.
        keep_special_tokens: of a folder's tokenizer: "[MASK]" in a text is the special token.
        dtype: Keras dtype policy; None takes the global one, or that of the model.

    Raises:
        FileNotFoundError: there is no such folder, or a file of it is missing.
        ValueError: it is no such model, there is no tokenizer, or its vocabulary is another's.
    """
    if isinstance(model, str | os.PathLike):
        folder = os.fspath(model)
        outputs: dict[str, Any] = {f"output_{shows}": True}
        encoder = BertEncoder.from_preset(folder, ignore_config_keys, dtype=dtype, **outputs)
        settings = {"keep_special_tokens": True} if keep_special_tokens else {}
        tokenizer = tokenizer or load_tokenizer(model, **settings)
    else:
        tokenizer = tokenizer or getattr(model, "tokenizer", None)
        inner = getattr(model, "model", model)
        encoder = _with_output(getattr(inner, "encoder", inner), f"output_{shows}", dtype)
    if tokenizer is None:
        raise ValueError(
            f"there is no tokenizer for the {type(model).__name__}: give tokenizer=, for example "
            "load_tokenizer of the folder it came from"
        )
    tokenizer.vocabulary.check_size(encoder.config.vocab_size)
    return encoder, tokenizer


def _with_output(encoder: Any, output: str, dtype: Any) -> BertEncoder:
    if not isinstance(encoder, BertEncoder):
        raise ValueError(
            f"the model is a {type(encoder).__name__}: give a model folder, a BertEncoder or a "
            "model with a head on one"
        )
    same_dtype = dtype is None or encoder.policy.name == dtype
    if getattr(encoder, output) and not encoder.packed and same_dtype:
        return encoder
    # A functional model has the outputs that it was made with, so this is a second one. It takes
    # no name scope of the first along; weights go over by order.
    arguments = encoder.get_config() | {output: True, "packed": False}
    if dtype is not None:
        arguments["dtype"] = dtype
    copy = type(encoder).from_config(arguments)
    copy.set_weights(plain_weights(encoder))
    return copy
