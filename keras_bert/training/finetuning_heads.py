"""The kinds of heads by their names in `task.json`."""

import importlib
from pathlib import Path
from typing import Any

from keras_bert.training.finetuning_head import FinetuningHead

# Kind -> module and class; imported when a folder names it.
_HEADS = {
    "text": ("text_head", "TextHead"),
    "span": ("span_head", "SpanHead"),
    "tag": ("tag_head", "TagHead"),
    "choice": ("choice_head", "ChoiceHead"),
}


def head_settings(head: FinetuningHead) -> dict[str, Any]:
    """Returns what `task.json` holds of a head: its kind and its settings."""
    return {"kind": head.kind, **head.settings()}


def head_from_settings(settings: dict[str, Any], path: Path) -> FinetuningHead:
    """Makes a head again from what `head_settings` returned.

    Args:
        settings: kind and settings.
        path: the file that holds them; named by errors.

    Raises:
        ValueError: there is no such kind, or it does not have these settings.
    """
    settings = dict(settings)
    kind = settings.pop("kind", None)
    if kind not in _HEADS:
        raise ValueError(
            f"{path} names the kind of head {kind!r}; expected one of {', '.join(_HEADS)}: "
            "fine-tune the model anew"
        )
    module, name = _HEADS[kind]
    head = getattr(importlib.import_module(f"keras_bert.training.{module}"), name)
    try:
        return head(**settings)
    except TypeError as error:
        raise ValueError(f"{path}, {kind} head: {error}: fine-tune the model anew") from None
