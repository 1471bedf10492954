"""Low-rank matrices of a model of ours as an adapter of PEFT: `folder.py` reads it back."""

import dataclasses
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints import hugging_face, name_table, torch_state
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.hugging_face_families import FAMILIES
from keras_bert.checkpoints.model_classes import (
    ENCODER,
    MODEL_CLASSES,
    TOKEN_LABELERS,
    WORD_PREDICTORS,
)
from keras_bert.checkpoints.peft.folder import PREFIX, WEIGHT_FILES
from keras_bert.checkpoints.peft.settings import BASE_KEY, CONFIG_FILE, TASKS
from keras_bert.checkpoints.variables import POOLER
from keras_bert.config import BertConfig
from keras_bert.storage import hub
from keras_bert.storage.files import write_json

# A [I, r] and B [r, O] of a dense layer, by its path.
LowRank = Mapping[str, tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class TrainedMatrices:
    """What a model learned beside the matrices of its base.

    Attributes:
        matrices: A [I, r] and B [r, O] of each dense layer, float32.
        rank: r.
        alpha: what B is scaled with, times r.
        trains_pooler: whether the pooler learned, too.
    """

    matrices: LowRank
    rank: int
    alpha: float
    trains_pooler: bool


def hindrance(config: BertConfig, architecture: str, head: Mapping[str, Any]) -> str | None:
    """Returns why a model cannot be an adapter, None where it can.

    Args:
        config: the encoder's numbers.
        architecture: name of the model class.
        head: arguments of the head.
    """
    family = FAMILIES.get(config.hugging_face_type)
    if family is None:
        return f"transformers has no models of {type(config).__name__}"
    if architecture in WORD_PREDICTORS:
        return f"the output layer of a {architecture} is tied to the words of its base"
    pooling = head.get("pooling")
    if architecture not in family.heads or pooling:
        how = f" that pools tokens ({pooling})" if pooling else ""
        return f"transformers has no {family.class_name} with a head like {architecture}{how}"
    return None


def write(
    checkpoint: Checkpoint, trained: TrainedMatrices, folder: Path, base: str | None = None
) -> None:
    """Writes `adapter_config.json`, the tensors, and the model's `config.json` beside them.

    Layers that are one here and several in transformers share A there, and each has its columns of
    B. Pooler and head are written whole (`modules_to_save`).

    Args:
        checkpoint: the sums W + alpha / r A B, of a model without `hindrance`.
        trained: what they were made of.
        folder: a folder that exists.
        base: the model folder that the training began with, or `hf://org/name`; None leaves the
            name of the base out.
    """
    config, family = checkpoint.config, FAMILIES[checkpoint.config.hugging_face_type]
    rows = {row.ours: row for row in hugging_face.rows_of(checkpoint)}
    tensors: dict[str, np.ndarray] = {}
    layers = []
    for path, (a, b) in trained.matrices.items():
        row = rows[f"{path}/kernel"]
        # The columns of B belong to the parts as those of the kernel do.
        for name, part in zip(row.theirs, row.form.to_theirs(b, config), strict=True):
            layer = name.removesuffix(".weight")
            layers.append(layer)
            tensors[f"{PREFIX}{layer}.lora_A.weight"] = np.ascontiguousarray(a.T)  # [r, I]
            tensors[f"{PREFIX}{layer}.lora_B.weight"] = np.ascontiguousarray(part)  # [O, r]
    encoder = {row.ours for row in name_table.expand(family.encoder, config)} | {*POOLER}
    written = {path for path in checkpoint.variables if path not in encoder}
    prefix = "" if checkpoint.architecture == ENCODER else family.prefix
    for path in rows.keys() & {*POOLER} if _reads_pooler(checkpoint) else ():
        # One that is a part of the head there is saved with it.
        if trained.trains_pooler or not rows[path].theirs[0].startswith(prefix):
            written.add(path)
    whole = {path: checkpoint.variables[path] for path in sorted(written)}
    modules = set()
    for name, value in name_table.to_tensors(whole, [*rows.values()], config).items():
        tensors[f"{PREFIX}{name}"] = value
        modules.add(_module(name, prefix))
    torch_state.write(tensors, folder, WEIGHT_FILES[0])
    values, _ = hugging_face.to_theirs(checkpoint)
    hugging_face.write_config(values, folder)  # its labels, for which PEFT has no place
    write_json(folder / CONFIG_FILE, _settings(checkpoint, trained, layers, modules, base))


def _reads_pooler(checkpoint: Checkpoint) -> bool:
    architecture = checkpoint.architecture
    through = checkpoint.config.reads_tokens_through_pooler and architecture in TOKEN_LABELERS
    return through or MODEL_CLASSES[architecture].uses_pooler


def _module(name: str, prefix: str) -> str:
    """Returns what PEFT is told to save for a tensor.

    That is all of a head: PEFT adds `classifier` by itself, which may not lie around another.
    """
    module = name.rpartition(".")[0]
    in_encoder = not prefix or name.startswith(prefix)
    return module if in_encoder else module.partition(".")[0]


def _settings(
    checkpoint: Checkpoint,
    trained: TrainedMatrices,
    layers: Collection[str],
    modules: Collection[str],
    base: str | None,
) -> dict[str, Any]:
    architecture = checkpoint.architecture
    task = next((task for task, name in TASKS.items() if name == architecture), None)
    mapping = None
    if task is None:
        family = FAMILIES[checkpoint.config.hugging_face_type]
        mapping = {
            "base_model_class": family.model_class(architecture),
            "parent_library": "transformers",
        }
    alpha = trained.alpha
    return {
        "peft_type": "LORA",
        "task_type": task,
        "auto_mapping": mapping,
        BASE_KEY: None if base is None else _named(base),
        "revision": None,
        "r": trained.rank,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "lora_dropout": 0.0,
        "use_rslora": False,
        "rank_pattern": {},
        "alpha_pattern": {},
        "target_modules": sorted(layers),
        "modules_to_save": sorted(modules) or None,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "inference_mode": True,
    }


def _named(base: str) -> str:
    """Returns a base as PEFT names it: a repository without `hf://`, a folder from anywhere."""
    if not hub.is_hub_name(base):
        return os.path.abspath(base)
    bare = base.removeprefix(hub.SCHEME)
    return bare if bare.count("/") < 2 else base
