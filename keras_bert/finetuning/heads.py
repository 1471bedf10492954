"""The kinds of heads by their names in `task.json`."""

import importlib
from pathlib import Path
from typing import Any

from keras_bert.finetuning.head import FinetuningHead

# Kind -> folder in tasks/ and class; imported when a folder names it.
_HEADS = {
    "text": ("classification", "TextHead"),
    "span": ("question_answering", "SpanHead"),
    "tag": ("tagging", "TagHead"),
    "choice": ("multiple_choice", "ChoiceHead"),
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
    folder, name = _HEADS[kind]
    head = getattr(importlib.import_module(f"keras_bert.tasks.{folder}.head"), name)
    try:
        return head(**settings)
    except TypeError as error:
        raise ValueError(f"{path}, {kind} head: {error}: fine-tune the model anew") from None
