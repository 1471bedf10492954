"""The adapters of Jina Embeddings v3 as it is published: one for each task, in the same file.

Beside each matrix stand low-rank ones, a pair for each task of `lora_adaptations` in the config
file, in that order; what a task reads is the sum (LoRA, arXiv:2106.09685), n tasks, rank r:

    dense layer         W [O, I]   lora_A [n, r, I]   lora_B [n, O, r]   W + alpha / r B A
    embeddings          W [V, H]   lora_A [n, V, r]   lora_B [n, r, H]   W + alpha / r A B

In the file W is `NAME.parametrizations.weight.original`, the others stand behind
`NAME.parametrizations.weight.0.` (jinaai/xlm-roberta-flash-implementation, modeling_lora.py).
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.checkpoints.name_table import Tensors
from keras_bert.config import is_number

_ORIGINAL = ".parametrizations.weight.original"
_LOW_RANK = ".parametrizations.weight.0.lora_"
# Of a tensor that no adapter asks for: see `Leftovers`.
IDLE = {r"(\w+\.)+parametrizations\.weight\.0\.lora_[AB]": "of the adapters of tasks"}


def with_adapter(
    tensors: Tensors, values: Mapping[str, Any], adapter: str | None = None
) -> Tensors:
    """Returns tensors with their usual names, to which the adapter of a task is added.

    Args:
        tensors: those of a folder.
        values: the content of its config file.
        adapter: name of a task; None for the weights that stand beside the adapters.

    Raises:
        ValueError: there is no such adapter, or its matrices do not fit.
    """
    held = {
        f"{name.removesuffix(_ORIGINAL)}.weight": name
        for name in tensors.shapes
        if name.endswith(_ORIGINAL)
    }
    if adapter is not None:
        index, scale = _chosen(adapter, values, tensors.source, bool(held))

    def low_rank(name: str) -> tuple[str, str]:
        before = f"{name.removesuffix('.weight')}{_LOW_RANK}"
        return f"{before}A", f"{before}B"

    def read(name: str) -> np.ndarray:
        weight = tensors.read(held.get(name, name))
        if adapter is None or name not in held:
            return weight
        # [r, I] and [O, r]; of embeddings [V, r] and [r, H].
        a, b = (tensors.read(part)[index].astype(np.float32) for part in low_rank(name))
        left, right = (a, b) if ".embeddings." in f".{name}" else (b, a)
        if (left.shape[0], right.shape[1]) != weight.shape or left.shape[1] != right.shape[0]:
            raise ValueError(
                f"{tensors.source}: the adapter of {name} is {list(left.shape)} by "
                f"{list(right.shape)}, which do not make {list(weight.shape)}: get the file anew"
            )
        return weight.astype(np.float32) + np.float32(scale) * (left @ right)

    used = {part for name in held for part in low_rank(name)} if adapter is not None else set()
    if missing := sorted(used - tensors.shapes.keys()):
        raise ValueError(f"{tensors.source} holds no {missing[0]}: it is damaged, get it anew")
    usual = {name: key for key, name in held.items()}
    shapes = {
        usual.get(name, name): shape for name, shape in tensors.shapes.items() if name not in used
    }
    return dataclasses.replace(tensors, shapes=shapes, read=read)


def prompt(values: Mapping[str, Any], adapter: str) -> str:
    """Returns what stands before texts of a task by the config file, "" where that says nothing."""
    prompts = values.get("task_instructions")
    found = prompts.get(adapter) if isinstance(prompts, Mapping) else None
    return found if isinstance(found, str) else ""


def no_adapters(adapter: str, source: str | os.PathLike) -> ValueError:
    """Returns what is raised where a folder or a file has no adapters of tasks."""
    return ValueError(
        f"adapter is {adapter!r}, but {source} holds no adapters of tasks, as jina-embeddings-v3 "
        "does: leave it out"
    )


def _chosen(
    adapter: str, values: Mapping[str, Any], source: str, has_adapters: bool
) -> tuple[int, float]:
    """Returns the number of an adapter and its scale, alpha / r."""
    names = values.get("lora_adaptations")
    if not has_adapters or not isinstance(names, list):
        raise no_adapters(adapter, source)
    if adapter not in names:
        raise ValueError(f"adapter is {adapter!r}: choose one of {', '.join(map(str, names))}")
    numbers: list[float] = []
    for name in ("lora_alpha", "lora_rank"):
        value: Any = values.get(name)
        if not is_number(value) or not value > 0:
            raise ValueError(f"{name} is {value!r} beside {source}: it must be a number above 0")
        numbers.append(value)
    alpha, rank = numbers
    return names.index(adapter), alpha / rank
