"""Hugging Face's format: `config.json` and `model.safetensors` or `pytorch_model.bin`.

`hugging_face_families.py` has the names of the tensors. Encoders saved alone lack the prefix
"bert."; files converted from TensorFlow in 2018 and 2019 spell the parameters of a norm gamma and
beta.
"""

import dataclasses
import functools
import json
import os
import re
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints import name_table, torch_state
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.hugging_face_families import (
    DEBERTA,
    DROPPED,
    FAMILIES,
    NEWER_HEAD,
    Family,
)
from keras_bert.checkpoints.hugging_face_heads import find_head, placeholder_labels
from keras_bert.checkpoints.jina import task_adapters
from keras_bert.checkpoints.model_classes import ENCODER, MASKED_LM, PRETRAINER
from keras_bert.checkpoints.multi_vector_modules import PROJECTION, is_stanford_class
from keras_bert.checkpoints.name_table import Leftovers, Row, Tensors
from keras_bert.checkpoints.variables import POOLER, variable_shapes
from keras_bert.config import BertConfig, find_config_file, read_json
from keras_bert.family_configs import LongformerConfig

CONFIG_FILE = "config.json"
_TASKS = "embeddings.task_type_embeddings.weight"  # of an ERNIE
# Unless `global_attention_mask` is given: modeling_longformer.py, forward of each class.
_GLOBAL_POSITIONS_THERE = {
    "BertMaskedLM": "none",
    "BertTokenClassifier": "none",
    "BertSpanLabeler": "all of the question",
    "BertMultipleChoice": "all of the choice",
}


@dataclasses.dataclass(frozen=True)
class Source:
    """A model in the words of transformers, before its tensors become variables.

    Attributes:
        config: the encoder's numbers.
        values: the config as transformers has it; its class, labels and ties are read here.
        config_file: where `values` stand, for messages.
        tensors: under the names that transformers has, as far as files agree on them.
        dropped: names of tensors that are to be left behind, with the reason.
    """

    config: BertConfig
    values: Mapping[str, Any]
    config_file: Path
    tensors: Tensors
    dropped: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def family(self) -> Family:
        """The names of the family, in the form that these tensors have."""
        return FAMILIES[self.config.hugging_face_type].of_file(self.tensors.shapes)

    def spelled(self, name: str) -> str:
        """Returns a name of the family's rows as these tensors spell it."""
        has_prefix, has_gamma, has_newer_head = self._spelling
        if not has_prefix:
            name = name.removeprefix(self.family.prefix)
        if has_newer_head:
            name = NEWER_HEAD.get(name, name)
        if has_gamma:
            name = re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", name)
            name = re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)
        return name

    @functools.cached_property
    def _spelling(self) -> tuple[bool, bool, bool]:
        names = self.tensors.shapes
        return (
            any(name.startswith(self.family.prefix) for name in names),
            any(name.endswith("LayerNorm.gamma") for name in names),
            self.family is DEBERTA and self.values.get("legacy") is False,
        )


def open_folder(
    folder: str | os.PathLike,
    ignore_config_keys: Collection[str] = (),
    adapter: str | None = None,
) -> Source:
    """Opens a folder with a config file and weights in one file or in shards.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.
        adapter: the task whose adapter is added to the weights, see `task_adapters`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, or there is no such adapter.
    """
    config = BertConfig.from_file(folder, "hf", ignore_config_keys)
    config_file = find_config_file(folder)
    values = read_json(config_file)
    tensors = task_adapters.with_adapter(torch_state.read(folder), values, adapter)
    source = Source(config, values, config_file, tensors)
    family = source.family
    if values.get("tie_word_embeddings") is not False and config.ties_words:
        tensors = _under_usual_names(tensors, family)
    tensors = _with_task_row(_with_absent_biases(tensors, family))
    return dataclasses.replace(source, tensors=tensors)


def read(
    folder: str | os.PathLike,
    ignore_config_keys: Collection[str] = (),
    adapter: str | None = None,
) -> Checkpoint:
    """Reads a folder with a config file and weights in one file or in shards.

    Args:
        folder: the folder. A pooler is optional, as `transformers` leaves it out of some models.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.
        adapter: the task whose adapter is added to the weights, see `task_adapters`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: tensors are missing, left over or misshapen; the sentence names them.
    """
    return as_checkpoint(open_folder(folder, ignore_config_keys, adapter))


def as_checkpoint(source: Source) -> Checkpoint:
    """Returns a model of transformers as named arrays of ours.

    Raises:
        ValueError: tensors are missing, left over or misshapen; the sentence names them.
    """
    config, values, tensors, family = source.config, source.values, source.tensors, source.family
    kept = {name: shape for name, shape in tensors.shapes.items() if name not in source.dropped}
    architecture, head = find_head(
        dataclasses.replace(tensors, shapes=kept), values, family, source.config_file
    )
    if isinstance(config, LongformerConfig) and "global_tokens" not in values:
        _tell_global_positions(tensors.source, architecture)
    idle = dict(family.idle.get(architecture, {}))
    if is_stanford_class(values):
        idle[re.escape(PROJECTION)] = "ColBERT's projection of tokens, no part of the encoder"
    idle |= {re.escape(name): reason for name, reason in source.dropped.items()}
    variables, report = name_table.to_variables(
        tensors,
        [
            Row(row.ours, tuple(map(source.spelled, row.theirs)), row.form)
            for row in _rows(family, architecture, config)
        ],
        variable_shapes(config, architecture, head),
        config,
        Leftovers({**DROPPED, **task_adapters.IDLE, **idle}, family.copies),
        optional=POOLER,
    )
    # Why the masked language model's output matrix is not the word embedding, if so.
    found = Checkpoint(config, architecture, head, variables, report)
    untied = None
    if found.predicts_words and config.ties_words:
        decoder = next(iter(family.copies))
        untied = name_table.differing_copy(tensors, variables, family.copies)
        if values.get("tie_word_embeddings") is False and decoder not in tensors.shapes:
            untied = (
                f"{tensors.source}: tie_word_embeddings is false, and there is no {decoder} that "
                "would show that it is the word embedding"
            )
    return dataclasses.replace(found, untied=untied)


def writable(checkpoint: Checkpoint) -> Checkpoint:
    """Returns what `write` takes: a masked language model where a family has no pretraining class.

    RoBERTa, DistilBERT, ModernBERT and GTE, for instance, have no next sentence head there.
    """
    family = FAMILIES.get(checkpoint.config.hugging_face_type)  # None: `write` refuses it
    if family is None or checkpoint.architecture != PRETRAINER or PRETRAINER in family.heads:
        return checkpoint
    variables = {
        path: value
        for path, value in checkpoint.variables.items()
        if not path.startswith("next_sentence/")
    }
    return dataclasses.replace(checkpoint, architecture=MASKED_LM, variables=variables)


def write(checkpoint: Checkpoint, folder: str | os.PathLike) -> None:
    """Writes `config.json` and `model.safetensors` into a folder that exists.

    Raises:
        ValueError: transformers has no such head, or the config file no place for a config value.
    """
    values, tensors = to_theirs(checkpoint)
    torch_state.write(tensors, folder)
    write_config(values, folder)


def write_config(values: Mapping[str, Any], folder: str | os.PathLike) -> None:
    """Writes `config.json` into a folder that exists."""
    content = json.dumps(values, indent=2, sort_keys=True)
    (Path(folder) / CONFIG_FILE).write_text(content + "\n", encoding="utf-8")


def as_source(checkpoint: Checkpoint, folder: str | os.PathLike) -> Source:
    """Returns named arrays of ours as a model of transformers.

    Args:
        checkpoint: the weights.
        folder: where they were read, for messages.

    Raises:
        ValueError: see `write`.
    """
    values, tensors = to_theirs(checkpoint)
    shapes = {name: value.shape for name, value in tensors.items()}
    path = Path(folder)
    opened = Tensors(str(path), shapes, tensors.__getitem__)
    return Source(checkpoint.config, values, path / CONFIG_FILE, opened)


def to_theirs(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the values of `config.json` and the tensors of a model.

    Raises:
        ValueError: see `write`.
    """
    config = checkpoint.config
    # The fields of the config in Hugging Face's words; a variant of the user's own has none.
    values = config.to_dict("hf")
    family = FAMILIES[config.hugging_face_type]
    rows = rows_of(checkpoint)
    named = {row.ours for row in rows}
    variables = {
        path: value
        for path, value in checkpoint.variables.items()
        # Some families have a pooler in some heads only.
        if path in named or path not in POOLER
    }
    tensors = name_table.to_tensors(variables, rows, config)
    values |= {
        "model_type": config.hugging_face_type,
        "architectures": [family.model_class(checkpoint.architecture)],
    }
    if "num_classes" in checkpoint.head:
        num_classes = checkpoint.head["num_classes"]
        labels = checkpoint.head.get("labels") or placeholder_labels(num_classes)
        values["id2label"] = {str(index): label for index, label in enumerate(labels)}
        values["label2id"] = {label: index for index, label in enumerate(labels)}
        if problem_type := checkpoint.head.get("problem_type"):
            values["problem_type"] = problem_type
        elif num_classes == 1:
            values["problem_type"] = "regression"
    return values, tensors


def rows_of(checkpoint: Checkpoint) -> list[Row]:
    """Returns the names in transformers of all variables that its model of this class has.

    Raises:
        ValueError: transformers has no such head.
    """
    family = FAMILIES[checkpoint.config.hugging_face_type]
    if checkpoint.architecture not in family.heads:
        raise ValueError(
            f"transformers has no {family.class_name} with a head like that of "
            f"{checkpoint.architecture}: open the folder by from_preset of BertEncoder, "
            "save_to_preset and convert that; or choose another format"
        )
    rows = _rows(family, checkpoint.architecture, checkpoint.config)
    if checkpoint.architecture != ENCODER:
        return rows
    # transformers saves its BertModel without prefix.
    prefix = family.prefix
    return [
        Row(row.ours, tuple(name.removeprefix(prefix) for name in row.theirs), row.form)
        for row in rows
    ]


def _rows(family: Family, architecture: str, config: BertConfig) -> list[Row]:
    rows = [*family.encoder, *family.heads[architecture]]
    return name_table.expand(rows, config)


def _under_usual_names(tensors: Tensors, family: Family) -> Tensors:
    """Returns tensors of which those that are tied have the name that a row asks for.

    Files hold a tied pair once, and some that others wrote hold it under the name of the copy.
    """
    names = {row.ours: row.theirs[0] for row in [*family.encoder, *family.heads[MASKED_LM]]}
    copy_of = {
        names[path]: copy
        for copy, path in family.copies.items()
        if copy in tensors.shapes and names[path] not in tensors.shapes
    }
    usual = {copy: name for name, copy in copy_of.items()}
    return dataclasses.replace(
        tensors,
        shapes={usual.get(name, name): shape for name, shape in tensors.shapes.items()},
        read=lambda name: tensors.read(copy_of.get(name, name)),
    )


def _with_absent_biases(tensors: Tensors, family: Family) -> Tensors:
    """Returns tensors with zeros for the biases of a layer that a file has without them."""
    if next(iter(family.absent.values()), None) not in tensors.shapes:
        return tensors
    zeros = {
        name: np.zeros(tensors.shapes[like][:1], np.float32)
        for name, like in family.absent.items()
        if name not in tensors.shapes and like in tensors.shapes
    }
    return dataclasses.replace(
        tensors,
        shapes={**tensors.shapes, **{name: value.shape for name, value in zeros.items()}},
        read=lambda name: zeros[name] if name in zeros else tensors.read(name),
    )


def _with_task_row(tensors: Tensors) -> Tensors:
    """Returns tensors in which the first task of an ERNIE is part of both segments.

    transformers adds it to every word where no task is given (modeling_ernie.py, ErnieEmbeddings).
    """
    tasks = next((name for name in tensors.shapes if name.endswith(_TASKS)), None)
    if tasks is None:
        return tensors
    segments = tasks.replace(_TASKS, "embeddings.token_type_embeddings.weight")

    def read(name: str) -> np.ndarray:
        value = tensors.read(name)
        if name != segments:
            return value
        return value.astype(np.float32) + tensors.read(tasks)[:1].astype(np.float32)  # [2, H]

    shapes = {name: shape for name, shape in tensors.shapes.items() if name != tasks}
    return dataclasses.replace(tensors, shapes=shapes, read=read)


def _tell_global_positions(source: str, architecture: str) -> None:
    """Warns where a head of transformers has other global positions than the first alone."""
    if others := _GLOBAL_POSITIONS_THERE.get(architecture):
        warnings.warn(
            f"{source}: the first position is global here; such a head of transformers has {others}"
            ": fine-tune it, or set global_tokens (with_local_attention)",
            stacklevel=2,
        )
