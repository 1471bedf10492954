"""Folders of PEFT's LoRA adapters: read as the model that base and adapter make together.

    adapter_config.json         the base, the task, the scale of the sums
    adapter_model.safetensors   base_model.model.<layer>.lora_A.weight [r, I], lora_B.weight [O, r]

    W [O, I] of the base  +  alpha / r  B [O, r] A [r, I]  -->  W of the model

The sums are made in float32 of tensors under the names of transformers, before the tables of names
read them: so they are the same for every family. Biases and whole layers that an adapter holds,
such as a head (`modules_to_save`), stand in place of those of the base. The matrices of an
embedding table [N, H] are `lora_embedding_A` [r, N] and `lora_embedding_B` [H, r].
"""

import dataclasses
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints import hugging_face, name_table, torch_state
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.encoder_decoder import is_encoder_decoder
from keras_bert.checkpoints.gliner.settings import is_gliner_folder
from keras_bert.checkpoints.hugging_face import Source
from keras_bert.checkpoints.hugging_face_families import FAMILIES
from keras_bert.checkpoints.hugging_face_heads import OUTPUTS, find_head
from keras_bert.checkpoints.model_classes import ENCODER, WORD_PREDICTORS
from keras_bert.checkpoints.name_table import Row, Tensors, read_float32
from keras_bert.checkpoints.peft.settings import (
    BASE_KEY,
    TASKS,
    LoraSettings,
    base_folder,
)
from keras_bert.checkpoints.sentence_modules import encoder_source
from keras_bert.checkpoints.variables import POOLER, variable_shapes
from keras_bert.config import read_json

# safetensors first, since it holds nothing but tensors.
WEIGHT_FILES = ("adapter_model.safetensors", "adapter_model.bin")
# What PEFT's model has before the names of the base.
PREFIX = "base_model.model."
# A and B of a layer, of an embedding table, and a bias of B.
_LAYER_PARTS = ("lora_A.weight", "lora_B.weight")
_TABLE_PARTS = ("lora_embedding_A", "lora_embedding_B")
_BIAS = "lora_B.bias"
_MATRICES = re.compile(
    rf"(.+)\.({'|'.join(map(re.escape, (*_LAYER_PARTS, *_TABLE_PARTS, _BIAS)))})"
)
_OTHER_BASE = f"give the base that the adapter was trained on ({BASE_KEY})"
_WORDS = "word_embeddings/embeddings"
_LABEL_KEYS = ("id2label", "label2id", "problem_type")
_NAMES_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class _Adapter:
    """The tensors of an adapter, apart by what is done with them.

    Attributes:
        settings: how sums are scaled.
        tensors: of the file.
        matrices: names in the file of the matrices of a layer, by the layer and what they are.
        whole: names in the file of what stands in place of the base's, by that tensor's name.
    """

    settings: LoraSettings
    tensors: Tensors
    matrices: Mapping[str, Mapping[str, str]]
    whole: Mapping[str, str]

    @classmethod
    def open(cls, folder: Path, ignore_config_keys: Collection[str]) -> "_Adapter":
        settings = LoraSettings.read(folder, ignore_config_keys)
        tensors = torch_state.read_file(weights_file(folder))
        matrices: dict[str, dict[str, str]] = {}
        whole = {}
        for name in sorted(tensors.shapes):
            plain = name.removeprefix(PREFIX)
            if ".original_module." in plain:  # for which `modules_to_save` stands
                continue
            plain = plain.replace(".modules_to_save.", ".")
            if match := _MATRICES.fullmatch(plain):
                matrices.setdefault(match[1], {})[match[2]] = name
            else:
                whole[plain.replace(".base_layer.", ".")] = name
        return cls(settings, tensors, matrices, whole)

    def read(self, name: str) -> np.ndarray:
        return read_float32(self.tensors, name)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.tensors.shapes[name])


@dataclasses.dataclass(frozen=True)
class _Sum:
    """What is added to a tensor of the base.

    Attributes:
        name: a tensor of the file that it is made of, for messages.
        shape: that of the sum.
        compute: returns it, float32.
    """

    name: str
    shape: tuple[int, ...]
    compute: Callable[[], np.ndarray]


@dataclasses.dataclass(frozen=True)
class _Change:
    """What becomes of a tensor of the base.

    Attributes:
        shape: its shape afterwards.
        in_file: what stands in its place, as the adapter calls it; None where it stays.
        added: what is added to either, if anything is.
    """

    shape: tuple[int, ...]
    in_file: str | None
    added: _Sum | None


def weights_file(folder: str | os.PathLike) -> Path:
    """Returns the file with the tensors of an adapter.

    Raises:
        FileNotFoundError: there is none.
    """
    for name in WEIGHT_FILES:
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    raise FileNotFoundError(f"{folder} holds none of {', '.join(WEIGHT_FILES)}")


def read(
    folder: str | os.PathLike,
    read_base: Callable[[Path], Checkpoint],
    ignore_config_keys: Collection[str] = (),
    base: str | os.PathLike | None = None,
) -> Checkpoint:
    """Reads an adapter and its base as one model.

    Args:
        folder: holds `adapter_config.json`.
        read_base: reads the base where it is no folder of transformers.
        ignore_config_keys: unknown keys of either config to pass over.
        base: a folder, or `hf://org/name`, in place of the base that the adapter names.

    Raises:
        FileNotFoundError: the adapter has no tensors, or the base is no model folder.
        ValueError: it is no LoRA, or one that is not such a sum; or it does not fit the base.
    """
    folder = Path(folder)
    adapter = _Adapter.open(folder, ignore_config_keys)
    local = Path(encoder_source(base_folder(folder, base)))
    is_theirs = torch_state.find(local) and not (
        is_gliner_folder(local) or is_encoder_decoder(local)
    )
    untied = None
    if is_theirs:
        source = hugging_face.open_folder(local, ignore_config_keys)
    else:
        source, untied = _converted(read_base(local), adapter, local)
    if is_theirs and source.family is not FAMILIES[source.config.hugging_face_type]:
        # The code that was published beside such a model has other layers than transformers.
        targets = _Targets(source)
        if any(targets.find(f"{layer}.weight") is None for layer in adapter.matrices):
            source, untied = _converted(hugging_face.as_checkpoint(source), adapter, local)
    found = hugging_face.as_checkpoint(_merged(source, adapter, folder))
    return dataclasses.replace(found, untied=found.untied or untied)


def _converted(base: Checkpoint, adapter: _Adapter, folder: Path) -> tuple[Source, str | None]:
    """Returns a model of any format in the words of transformers, and why it is untied if so."""
    family = FAMILIES.get(base.config.hugging_face_type)
    if family is None:
        raise ValueError(
            f"{adapter.settings.file} has the base {folder} with a {type(base.config).__name__}, "
            "of which transformers has no models: name the base that the adapter was trained on"
        )
    base = hugging_face.writable(base)
    if base.architecture not in family.heads:  # the head of the base is left behind
        shapes = variable_shapes(base.config, ENCODER, {})
        encoder = {path: value for path, value in base.variables.items() if path in shapes}
        base = dataclasses.replace(base, architecture=ENCODER, head={}, variables=encoder)
    return hugging_face.as_source(base, folder), base.untied


class _Targets:
    """The names that tensors of an adapter have in its base.

    An adapter of `BertModel` has no prefix, one of a class with a head has; a base may be either.
    """

    def __init__(self, source: Source):
        family = source.family
        self.source = source
        self._encoder = self._names(family.encoder)
        of_heads = [row for rows in family.heads.values() for row in rows]
        self._heads, self._rows = self._names(of_heads), [*family.encoder, *of_heads]
        self._known = self._encoder | self._heads
        pooler = self._names(row for row in self._rows if row.ours in POOLER)
        # As the base calls them.
        self.pooler = set(map(source.spelled, pooler))
        self.encoder = set(map(source.spelled, self._encoder))

    def find(self, name: str) -> str | None:
        """Returns what the base calls a tensor, None where it is none of this family's."""
        family = self.source.family
        for one in (name, family.prefix + name):
            if one in self._known:
                return self.source.spelled(one)
        return name if name in self.source.tensors.shapes or name in family.copies else None

    def held(self, name: str) -> str:
        """Returns the name under which a tensor lies in the base, which holds a tied pair once."""
        family = self.source.family
        if name in self.source.tensors.shapes or name not in family.copies:
            return name
        original = next(row for row in self._rows if row.ours == family.copies[name])
        return self.source.spelled(original.theirs[0])

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Returns the shape of a tensor of the base, None where it has none."""
        shape = self.source.tensors.shapes.get(self.held(name))
        return None if shape is None else tuple(shape)

    def of_other_heads(self, architecture: str) -> set[str]:
        """Returns what the base calls the tensors of all heads but one."""
        own = self._encoder | self._names(self.source.family.heads[architecture])
        return set(map(self.source.spelled, self._heads - own))

    def _names(self, rows: Iterable[Row]) -> set[str]:
        expanded = name_table.expand(rows, self.source.config)
        return {name for row in expanded for name in row.theirs}


def _merged(source: Source, adapter: _Adapter, folder: Path) -> Source:
    """Returns the base with what the adapter changes."""
    targets, family = _Targets(source), source.family
    changes = _changes(adapter, targets)
    architecture = adapter.settings.architecture(family)
    values, dropped = dict(source.values), {}
    if architecture is not None:
        _check_head(adapter, targets, changes, architecture)
        values["architectures"] = [family.model_class(architecture)]
        reason = "of a head that the model of the adapter does not have"
        dropped = dict.fromkeys(targets.of_other_heads(architecture), reason)
    elif fresh := [name for name in changes if targets.shape(name) is None]:
        raise ValueError(
            f"{adapter.settings.file} does not tell of which head {_shown(fresh)} are: write the "
            f"task_type there ({', '.join(TASKS)})"
        )
    values, config_file = _with_labels(values, source.config_file, changes, folder)
    shapes = {**source.tensors.shapes, **{name: one.shape for name, one in changes.items()}}
    [words] = (source.spelled(row.theirs[0]) for row in family.encoder if row.ours == _WORDS)
    if words in changes and _scores_words(source, architecture):
        # PEFT changes what is read, and not the table that words are scored with.
        for name, path in family.copies.items():
            if path == _WORDS and name not in shapes:
                shapes[name] = source.tensors.shapes[words]

    def read_tensor(name: str) -> np.ndarray:
        change, held = changes.get(name), targets.held(name)
        if change is None:
            return source.tensors.read(held)
        in_file = change.in_file
        value = read_float32(source.tensors, held) if in_file is None else adapter.read(in_file)
        return value if change.added is None else value + change.added.compute()

    text = f"{adapter.tensors.source} on {source.tensors.source}"
    return Source(source.config, values, config_file, Tensors(text, shapes, read_tensor), dropped)


def _changes(adapter: _Adapter, targets: _Targets) -> dict[str, _Change]:
    """Returns what becomes of each tensor that the adapter changes, as the base calls it.

    Raises:
        ValueError: a tensor of the adapter fits nothing in the base, or has another shape.
    """
    found = {name: (targets.find(name), in_file) for name, in_file in adapter.whole.items()}
    lost = [in_file for target, in_file in found.values() if target is None]
    in_place = {target: in_file for target, in_file in found.values() if target is not None}
    sums: dict[str, _Sum] = {}
    for layer, parts in adapter.matrices.items():
        new = {f"{layer}.weight": _product(adapter, layer, parts)}
        if _BIAS in parts:
            new[f"{layer}.bias"] = _bias(adapter, layer, parts[_BIAS])
        for name, addend in new.items():
            target = targets.find(name)
            if target is not None and (target in in_place or targets.shape(target)):
                sums[target] = addend
            elif target not in targets.pooler:  # which starts fresh where the base has none
                lost.append(addend.name)
    where = targets.source.tensors.source
    if lost or not (in_place or sums):
        what = f"{_shown(lost)}, which fit nothing" if lost else "no tensor that fits anything"
        raise ValueError(f"{adapter.tensors.source} holds {what} in {where}: {_OTHER_BASE}")
    return {
        name: _change(adapter, targets, name, in_place.get(name), sums.get(name))
        for name in dict.fromkeys([*in_place, *sums])
    }


def _change(
    adapter: _Adapter, targets: _Targets, name: str, in_file: str | None, added: _Sum | None
) -> _Change:
    """Returns what becomes of one tensor, which keeps its shape; see `_Change`."""
    there = targets.shape(name) or ()
    shape = there if in_file is None else adapter.shape(in_file)
    # A head may have other classes than that of the base, and a pooler may be new.
    expected = there if there and name in targets.encoder else shape
    of_file = [] if in_file is None else [(in_file, shape)]
    if added is not None:
        of_file.append((added.name, added.shape))
    for wrong, its in of_file:
        if its != expected:
            raise ValueError(
                f"{adapter.tensors.source}: {wrong} makes {list(its)}, but {name} of "
                f"{targets.source.tensors.source} is {list(expected)}: {_OTHER_BASE}"
            )
    return _Change(shape, in_file, added)


def _product(adapter: _Adapter, layer: str, parts: Mapping[str, str]) -> _Sum:
    """Returns scale B A of a layer, [O, I]; of an embedding table its transpose, [N, H]."""
    is_table = _TABLE_PARTS[0] in parts
    pair = _TABLE_PARTS if is_table else _LAYER_PARTS
    for part in pair:
        if part not in parts:
            raise ValueError(
                f"{adapter.tensors.source} holds {_shown([*parts.values()])} without a {part}: "
                "the file is damaged; fetch it again"
            )
    a, b = (parts[part] for part in pair)
    of_a, of_b, rank = adapter.shape(a), adapter.shape(b), adapter.settings.rank_of(layer)
    if len(of_a) != 2 or len(of_b) != 2 or of_a[0] != rank or of_b[1] != rank:
        raise ValueError(
            f"{adapter.tensors.source}: {a} is {list(of_a)} and {b} {list(of_b)}, but the rank of "
            f"{layer} is {rank} by {adapter.settings.file}: take both files from one adapter"
        )
    shape = (of_a[1], of_b[0]) if is_table else (of_b[0], of_a[1])

    def compute() -> np.ndarray:
        product = adapter.read(b) @ adapter.read(a)  # [O, I] or [H, N]
        product = product * np.float32(adapter.settings.scale_of(layer))
        return product.T if is_table else product

    return _Sum(b, shape, compute)


def _bias(adapter: _Adapter, layer: str, name: str) -> _Sum:
    """Returns the bias of B, scaled, [O]."""
    scale = np.float32(adapter.settings.scale_of(layer))
    return _Sum(name, adapter.shape(name), lambda: scale * adapter.read(name))


def _check_head(
    adapter: _Adapter, targets: _Targets, changes: Mapping[str, _Change], architecture: str
) -> None:
    """Refuses a head that transformers does not have, or that would be random."""
    source, file = targets.source, adapter.settings.file
    if architecture not in source.family.heads:
        raise ValueError(
            f"{file} is for a head like that of {architecture}, which transformers does not have "
            f"of a {source.family.class_name}: {_OTHER_BASE}"
        )
    if architecture in WORD_PREDICTORS:  # which the base has, or nobody
        return
    names = {
        source.spelled(name)
        for row in source.family.heads[architecture]
        if row.ours not in POOLER
        for name in row.theirs
    }
    if missing := sorted(name for name in names - changes.keys() if targets.shape(name) is None):
        raise ValueError(
            f"{file} is for a {source.family.model_class(architecture)}, but neither the adapter "
            f"nor its base {source.tensors.source} holds {_shown(missing)}: train it with "
            "modules_to_save, or write the task_type FEATURE_EXTRACTION there, for the encoder "
            "alone"
        )


def _with_labels(
    values: dict[str, Any], config_file: Path, changes: Mapping[str, _Change], folder: Path
) -> tuple[dict[str, Any], Path]:
    """Returns the config with what it says of the classes of the model, and the file of that.

    A `config.json` beside the adapter says it, else the base's, where its classes are as many.
    """
    classes = next((changes[name].shape[0] for name in OUTPUTS if name in changes), None)
    if classes is None:
        return values, config_file
    beside = folder / hugging_face.CONFIG_FILE
    told = read_json(beside) if beside.is_file() else {}
    names = values.get("id2label")
    if "id2label" in told or (isinstance(names, dict) and len(names) != classes):
        values = {key: value for key, value in values.items() if key not in _LABEL_KEYS}
    if "id2label" in told:
        values |= {key: told[key] for key in _LABEL_KEYS if key in told}
        config_file = beside
    return values, config_file


def _scores_words(source: Source, architecture: str | None) -> bool:
    """Whether the model scores words with the table that it reads them from."""
    if not source.config.ties_words:
        return False
    if architecture is None:
        architecture, _ = find_head(
            source.tensors, source.values, source.family, source.config_file
        )
    return architecture in WORD_PREDICTORS


def _shown(names: Collection[str]) -> str:
    shown = ", ".join([*names][:_NAMES_SHOWN])
    return f"{shown} and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else shown
