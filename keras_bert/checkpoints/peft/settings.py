"""What `adapter_config.json` says: which base, which head, how the matrices are scaled.

The keys are those of `peft.LoraConfig`. A LoRA of one of PEFT's other forms computes something
else, so every key is known here or refused.
"""

import dataclasses
import math
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from keras_bert.checkpoints.hugging_face_families import Family
from keras_bert.checkpoints.model_classes import ENCODER, MODEL_CLASSES
from keras_bert.config import read_json
from keras_bert.storage import hub

CONFIG_FILE = "adapter_config.json"
BASE_KEY = "base_model_name_or_path"

# Our class by the task that PEFT names.
TASKS = {
    "SEQ_CLS": "BertClassifier",
    "TOKEN_CLS": "BertTokenClassifier",
    "QUESTION_ANS": "BertSpanLabeler",
    "FEATURE_EXTRACTION": ENCODER,
}
_MERGE = "merge it in PEFT with merge_and_unload, and save that model"
# Starts of A and B that leave the base as it is.
_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")
# Keys that are used here, and keys that say how it was trained, loaded or named.
_USED = (
    *("peft_type", BASE_KEY, "revision", "task_type", "auto_mapping", "r", "lora_alpha"),
    *("use_rslora", "rank_pattern", "alpha_pattern", "init_lora_weights"),
)
_NEUTRAL = (
    *("inference_mode", "lora_dropout", "peft_version", "runtime_config", "velora_config"),
    # Which layers: the tensors of the file say it.
    *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
    *("modules_to_save", "bias", "lora_bias"),
    # Of weights that lie transposed, which no model of the families has; PEFT turns it off.
    "fan_in_fan_out",
    # What belongs to one start of A and B.
    *("loftq_config", "eva_config", "corda_config", "lora_ga_config"),
    # Of a form that its own key turns on, and of training in parts.
    *("qalora_group_size", "megatron_core"),
)
_REASONS = {
    "use_dora": "DoRA also learns the lengths of columns",
    "layer_replication": "layers are repeated",
    "trainable_token_indices": "rows of the embeddings were trained beside it",
    "use_qalora": "inputs are pooled before A",
    "alora_invocation_tokens": "only pieces behind some tokens are changed",
}


@dataclasses.dataclass(frozen=True)
class LoraSettings:
    """How the matrices of an adapter are added to a base.

    Attributes:
        file: where this stands.
        rank: columns of B and rows of A.
        alpha: alpha of the scale alpha / rank.
        rank_pattern: ranks of single layers, by a regular expression of the end of their names.
        alpha_pattern: the same for alpha.
        rank_stabilized: whether the scale is alpha / sqrt(rank), arXiv:2312.03732.
        task: what PEFT calls the task, None where it is none of its own.
        model_class: name in transformers of the class that was trained, where there is no task.
    """

    file: Path
    rank: int
    alpha: float
    rank_pattern: Mapping[str, int]
    alpha_pattern: Mapping[str, float]
    rank_stabilized: bool
    task: str | None
    model_class: str | None

    @classmethod
    def read(
        cls, folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()
    ) -> "LoraSettings":
        """Reads the file of a folder.

        Args:
            folder: holds `adapter_config.json`.
            ignore_config_keys: unknown keys to pass over.

        Raises:
            ValueError: it is damaged, no LoRA, or one that is not the sum W + scale B A.
        """
        file = Path(folder) / CONFIG_FILE
        values = read_json(file)
        if values.get("peft_type") != "LORA":
            raise ValueError(
                f"{file} has the peft_type {values.get('peft_type')!r}: only LORA is read; "
                "where PEFT can, merge it there with merge_and_unload, and save that model"
            )
        for key, value in values.items():
            if not value or key in (*_USED, *_NEUTRAL, *ignore_config_keys):
                continue
            why = f" ({_REASONS[key]})" if key in _REASONS else ""
            raise ValueError(f"{file}: {key} is {value!r}{why}, which is not read: {_MERGE}")
        start = values.get("init_lora_weights")
        if not (start in _STARTS or str(start).lower() == "true"):
            raise ValueError(
                f"{file}: init_lora_weights is {start!r}, which changes the base before the "
                f"training: {_MERGE}, or save it with path_initial_model_for_weight_conversion"
            )
        return cls(
            file,
            _number(file, "r", values.get("r", 8), whole=True),
            _number(file, "lora_alpha", values.get("lora_alpha", 8)),
            _pattern(file, values, "rank_pattern", whole=True),
            _pattern(file, values, "alpha_pattern"),
            bool(values.get("use_rslora")),
            values.get("task_type"),
            _model_class(values),
        )

    def rank_of(self, module: str) -> int:
        """Returns the rank of a layer, by its name in the model that was trained."""
        return self._by_pattern(self.rank_pattern, module, self.rank)

    def scale_of(self, module: str) -> float:
        """Returns what B A of a layer is multiplied with."""
        alpha = self._by_pattern(self.alpha_pattern, module, self.alpha)
        rank = self.rank_of(module)
        return alpha / (math.sqrt(rank) if self.rank_stabilized else rank)

    def architecture(self, family: Family) -> str | None:
        """Returns our name of the class that was trained, None where the file does not tell it."""
        if self.task in TASKS:
            return TASKS[self.task]
        return next(
            (
                name
                for name in MODEL_CLASSES
                if name in family.heads and self.model_class in family.model_classes(name)
            ),
            None,
        )

    def _by_pattern(self, patterns: Mapping[str, Any], module: str, default: Any) -> Any:
        for pattern, value in patterns.items():
            if re.match(rf"(.*\.)?({pattern})$", module):
                return value
        return default


def is_adapter_folder(folder: str | os.PathLike) -> bool:
    """Whether a folder holds an adapter of PEFT."""
    return (Path(folder) / CONFIG_FILE).is_file()


def is_of_encoder(folder: str | os.PathLike) -> bool:
    """Whether an adapter was trained without a head, as far as its config tells.

    Raises:
        ValueError: the file is damaged.
    """
    values = read_json(Path(folder) / CONFIG_FILE)
    task, named = values.get("task_type"), _model_class(values)
    return task == "FEATURE_EXTRACTION" or (
        task is None and (named is None or named.endswith("Model"))
    )


def base_folder(folder: str | os.PathLike, base: str | os.PathLike | None = None) -> Path:
    """Returns the local folder of the base of an adapter; one on the Hub is downloaded.

    Args:
        folder: holds `adapter_config.json`, which names the base: a folder beside it, from here or
            absolute, `hf://org/name`, or a bare name on the Hub, as PEFT writes it.
        base: another base in place of that.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: the file names none, or the repository cannot be fetched; or the base is an
            adapter itself.
    """
    file = Path(folder) / CONFIG_FILE
    found = hub.local_folder(base) if base is not None else _named_base(file)
    if not found.is_dir():
        raise hub.missing_folder(found)
    if is_adapter_folder(found):
        raise ValueError(
            f"{file} has the base {found}, which holds an adapter itself: convert that to a "
            "plain model (convert_checkpoint.py), and name the result as the base"
        )
    return found


def _named_base(file: Path) -> Path:
    values = read_json(file)
    name, revision = values.get(BASE_KEY), values.get("revision")
    remedy = f"write the folder of the base there ({BASE_KEY}), or give base to load_model"
    if not isinstance(name, str) or not name:
        raise ValueError(f"{file} names no base: {remedy}")
    for place in (file.parent / name, Path(name)):
        if place.is_dir():
            return place
    bare = name if hub.is_hub_name(name) else f"{hub.SCHEME}{name}"
    if not re.fullmatch(rf"{hub.SCHEME}[\w-][\w.-]*(/[\w-][\w.-]*)*", bare):
        raise FileNotFoundError(f"{file} names the base {name}, which is no folder here: {remedy}")
    if revision not in (None, "", "main"):
        raise ValueError(
            f"{file} names the revision {revision!r} of {name}, and only the newest is fetched: "
            f"download that one and {remedy}"
        )
    try:
        return hub.local_folder(bare)
    except ValueError as error:
        raise ValueError(
            f"{file} names the base {name}, which is no folder here, and {error}; {remedy}"
        ) from None


def _model_class(values: Mapping[str, Any]) -> str | None:
    """Returns the class that PEFT notes where there is no task of its own."""
    mapping = values.get("auto_mapping")
    named = mapping.get("base_model_class") if isinstance(mapping, dict) else None
    return named if isinstance(named, str) else None


def _number(file: Path, key: str, value: Any, whole: bool = False) -> Any:
    kinds = (int,) if whole else (int, float)
    if type(value) not in kinds or not 0 < value < math.inf:
        kind = "a whole number" if whole else "a number"
        raise ValueError(f"{file}: {key} is {value!r}: expected {kind} above 0")
    return value


def _pattern(
    file: Path, values: Mapping[str, Any], key: str, whole: bool = False
) -> dict[str, Any]:
    patterns = values.get(key) or {}
    if not isinstance(patterns, dict):
        raise ValueError(f"{file}: {key} is {patterns!r}: expected numbers by names of layers")
    for pattern, value in patterns.items():
        _number(file, f"{key} of {pattern!r}", value, whole)
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(
                f"{file}: {key} has {pattern!r}, which is no regular expression: {error}"
            ) from None
    return patterns
