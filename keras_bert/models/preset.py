"""Model folders: ours written and read, those of other libraries read.

Ours holds `config.json`, `model.weights.h5` and the files of a tokenizer: `tokenizer_config.json`
and `vocab.txt`, or those of byte-level BPE or SentencePiece.
"""

import difflib
import inspect
import math
import os
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import h5py
import keras
import numpy as np

from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints import tf_hub
from keras_bert.checkpoints.checkpoint import Checkpoint, MappingReport
from keras_bert.checkpoints.gliner.settings import CONFIG_FILE as GLINER_FILE
from keras_bert.checkpoints.gliner.settings import is_gliner_folder
from keras_bert.checkpoints.jina import task_adapters
from keras_bert.checkpoints.model_classes import MODEL_CLASSES, WORD_PREDICTORS
from keras_bert.checkpoints.peft import folder as peft
from keras_bert.checkpoints.peft.settings import CONFIG_FILE as ADAPTER_FILE
from keras_bert.checkpoints.peft.settings import base_folder, is_adapter_folder
from keras_bert.checkpoints.sentence_modules import encoder_source
from keras_bert.checkpoints.static_embeddings.folders import check_has_encoder
from keras_bert.checkpoints.torch_state import SAFETENSORS_FILE
from keras_bert.checkpoints.variables import POOLER
from keras_bert.config import BertConfig, find_config_file, read_json
from keras_bert.models import registry
from keras_bert.models.surgery.lora import merged_lora
from keras_bert.storage import files, hub
from keras_bert.storage.files import atomic_file, check_room, write_json
from keras_bert.storage.paths import check_local

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.weights.h5"

_TRANSFORM = "masked_lm_transform/"
_POOLER, _SCALE = "pooler/", "layer_norm/gamma"
_DECODER = "decoder/"
# The layer of all heads whose classes have labels.
_CLASSIFIER = "classifier/"
# What transformers calls a class that nobody named.
_PLACEHOLDER = re.compile(r"LABEL_\d+")
_WORD_EMBEDDINGS = "word_embeddings/embeddings"


class PresetModel(keras.Model):
    """A model that is opened from a model folder and written to one.

    Attributes:
        frozen_layers: of the class: the layers that a new model freezes, as `inner_layers` calls
            them.
        optimizer_arguments: of the class: what suits its optimizer better than the defaults.
    """

    frozen_layers: ClassVar[tuple[str, ...]] = ()
    optimizer_arguments: ClassVar[Mapping[str, float]] = {}

    def __init__(self, inputs: Any, outputs: Any, **kwargs: Any):
        self._check_arguments(kwargs)
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        if not kwargs.get("trainable", True):
            for layer in self.layers:  # Keras sets it on the model alone, before it has its layers
                layer.trainable = False

    def _check_arguments(self, others: Mapping[str, Any]) -> None:
        # Keras passes over what it does not know, so that a misspelled argument would do nothing.
        known = [name for name in inspect.signature(type(self)).parameters if name != "kwargs"]
        for name in others.keys() - {"name", "trainable"}:
            near = difflib.get_close_matches(name, known, 1)
            meant = f": did you mean {near[0]}?" if near else ""
            raise TypeError(f"{type(self).__name__} has no argument {name!r}{meant}")

    @classmethod
    def from_preset(
        cls, folder: str, ignore_config_keys: Collection[str] = (), **arguments: Any
    ) -> Self:
        """Opens a model folder as this class; see `keras_bert.models.preset.load`.

        Args:
            folder: a folder written by `save_to_preset`, or one of the other formats. That of a
                variant of the encoder comes back as the variant.
            ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.
            **arguments: arguments of the constructor other than `config`. What is left out comes
                from the folder where it holds the same kind of head.
        """
        return load(cls, folder, arguments, ignore_config_keys)

    def save_to_preset(self, folder: str, tokenizer: Any = None) -> None:
        """Writes a model folder; see `keras_bert.models.preset.save`."""
        save(self, folder, tokenizer)

    def head_config(self) -> dict[str, Any]:
        """Returns the arguments of the head, kept in a preset beside the config."""
        return {}

    @property
    def marker_ids(self) -> tuple[int, ...]:
        """Rows of the word embeddings that the model puts into inputs, and no tokenizer."""
        return ()

    def initial_variables(self, checkpoint: Checkpoint) -> Mapping[str, np.ndarray]:
        """Returns what variables of a fresh model start as, by path: what the checkpoint holds.

        A model whose parts start from the same weights returns them under each of their paths.
        Where a family has the same layers before every output layer, those of masked words and the
        pooler start as each other where a checkpoint has trained one of them, as in transformers.

        Args:
            checkpoint: the weights.
        """
        held = checkpoint.variables
        if not checkpoint.config.reads_tokens_through_pooler:
            return held
        transform, pooler = (
            {path.removeprefix(name): v for path, v in held.items() if path.startswith(name)}
            for name in (_TRANSFORM, _POOLER)
        )
        if registry.architecture_of(type(self)) in WORD_PREDICTORS:
            return {**{_TRANSFORM + end: v for end, v in pooler.items()}, **held}
        # A scale that is 1 everywhere has never been trained.
        is_trained = pooler and bool(np.any(pooler[_SCALE] != 1))
        return {**held, **{_POOLER + end: v for end, v in transform.items() if not is_trained}}

    def trainable_config(self) -> dict[str, Any]:
        """Returns which layers are frozen, for `get_config`; {} where it is those of a new model.

        `trainable` is that of the model. `trainable_layers` has the layers inside that differ from
        what holds them: {"encoder/layer_0": False} is that block with all that is in it.
        """
        config: dict[str, Any] = {} if self.trainable else {"trainable": False}
        flags = {
            path: layer.trainable
            for path, layer, holder in inner_layers(self)
            if layer.trainable != holder.trainable
        }
        if flags != dict.fromkeys(self.frozen_layers, False):
            config["trainable_layers"] = flags
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Rebuilds the model from `get_config`."""
        arguments = dict(config)
        trainable = arguments.pop("trainable", True)
        flags = arguments.pop("trainable_layers", None)
        model = cls(**arguments)
        if not trainable:
            model.trainable = False
        if flags is not None:
            # Outer layers come first: setting one sets all that is in it.
            for path, layer, holder in inner_layers(model):
                layer.trainable = flags.get(path, holder.trainable)
        return model


def inner_layers(
    holder: keras.layers.Layer, prefix: str = ""
) -> Iterator[tuple[str, keras.layers.Layer, keras.layers.Layer]]:
    """Yields path, layer and what holds it for all layers inside a layer, outer ones first.

    A layer of several, as in ALBERT, is yielded for each.

    Args:
        holder: the layer, or a model.
        prefix: what paths begin with.
    """
    encoder = getattr(holder, "encoder", None)
    for layer in holder._flatten_layers(include_self=False, recursive=False):
        # Of a head, whatever name it was given: that of a copy has the usual one.
        path = prefix + ("encoder" if layer is encoder else layer.name)
        yield path, layer, holder
        yield from inner_layers(layer, f"{path}/")


def save(model: Any, folder: str | os.PathLike, tokenizer: Any = None) -> None:
    """Writes a model as a preset folder, each file whole or not at all.

    Args:
        model: one of the package's models.
        folder: the folder; other files in it stay.
        tokenizer: the model's tokenizer; its files are written too.

    Raises:
        ValueError: the folder is none of this machine, or one that another library's model or
            adapter is opened from, the tokenizer's vocabulary is not of the config's size, or the
            model's weights are quantized, which a preset has no place for.
    """
    check_local("folder", folder)
    folder = Path(folder)
    check_opens_as_preset(folder)
    modes = {layer.quantization_mode for layer in model._flatten_layers()} - {None}
    if modes:
        raise ValueError(
            f"the model is quantized ({', '.join(modes)}), and a preset holds weights as they were "
            "trained: save it before quantize(), or export it with int8 weights "
            "(export_saved_model.py --dtype=int8)"
        )
    if tokenizer is not None:
        # Before anything is written: a folder of parts that do not fit is worse than none.
        tokenizer.vocabulary.check_size(model.config.vocab_size)
        tokenizer.save(folder)
    with atomic_file(folder / WEIGHTS_FILE) as path:
        # HDF5 adds up to 4 KiB of names and tree nodes to each variable.
        weights = model.weights
        sizes = (math.prod(weight.shape) * np.dtype(weight.dtype).itemsize for weight in weights)
        check_room(path, sum(sizes) + 4096 * len(weights))
        # Keras writes the optimizer of a compiled model along: two thirds of the file, and no part
        # of what a preset is.
        optimizer = getattr(model, "optimizer", None)
        if optimizer is not None:
            model.optimizer = None
        try:
            with merged_lora(model):
                model.save_weights(path)
        finally:
            if optimizer is not None:
                model.optimizer = optimizer
    # What it takes to build the model again: head, encoder, and the arguments of the head.
    content = {
        "architecture": registry.architecture_of(type(model)),
        "config": model.config.to_dict(),
        "head": model.head_config(),
    }
    write_json(folder / CONFIG_FILE, content)


def check_opens_as_preset(folder: str | os.PathLike) -> None:
    """Refuses a folder that `load` would not open as what `save` has written into it.

    Args:
        folder: where a model is to be written; it may be missing.

    Raises:
        ValueError: it is one of GLiNER, of sentence-transformers or of an adapter, as which it
            would be opened with its old weights.
    """
    inner = Path(encoder_source(folder))
    if is_gliner_folder(folder):
        what = f"of GLiNER ({GLINER_FILE}), as which it is opened"
    elif inner != Path(folder):
        what = f"of sentence-transformers, whose encoder is opened from {inner}"
    elif is_adapter_folder(folder):
        what = f"of an adapter of PEFT ({ADAPTER_FILE}), which is opened with its base"
    else:
        return
    raise ValueError(
        f"{folder} is a folder {what}, not what is written into it: choose another folder"
    )


def load(
    cls: type,
    folder: str | os.PathLike,
    arguments: dict[str, Any],
    ignore_config_keys: Collection[str] = (),
) -> Any:
    """Opens a model folder as a model of class `cls`.

    A folder of the same class and head comes back as it was. Otherwise the encoder is taken over
    whole, parts of the head where name and shape agree, and the rest starts fresh. Classes are
    taken over by the names of their labels: in whatever order they are, and fresh, with a warning,
    where they are not the same. Classes without names, or numbered ones (LABEL_0), count as they
    stand.

    Args:
        cls: the class to build.
        folder: a folder written by `save`, a folder of Google's, Hugging Face's or Model Garden's,
            an adapter of PEFT, a SavedModel of BERT from TF-Hub or Kaggle, or `hf://org/name` for a
            folder on the Hugging Face Hub.
        arguments: arguments of the constructor of `cls` other than `config`.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: the folder is none of these, or a file is missing.
        ValueError: a file in it is damaged, or a head argument is missing.
    """
    folder = hub.local_folder(encoder_source(folder))
    if is_ours(folder):
        source_class, config, head = _read_config(folder, ignore_config_keys, cls)
        # The same class: the file of weights fits as it is. Others go by way of named arrays.
        if registry.class_for(cls, config) is source_class:
            model = _build(source_class, config, _head_arguments(head, arguments))
            if _given(model.head_config()) == _given(head):
                _load_weights(model, folder)
                return model
    return from_checkpoint(cls, read_checkpoint(folder, ignore_config_keys), arguments)


def check_model(model: Any) -> None:
    """Refuses what is none of the package's models, such as the folder of one.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(model, PresetModel):
        raise ValueError(
            f"the model is a {type(model).__name__}: give one of the package's models, such as "
            "load_model of its folder"
        )


def weights_digest(folder: str | os.PathLike) -> str | None:
    """Returns what changes when another model is trained in the same folder.

    None for checkpoints of several files: of these the path must do.
    """
    local = hub.local_folder(encoder_source(folder))
    if is_adapter_folder(local):
        own = files.sha256(peft.weights_file(local))
        return f"{own} on {weights_digest(base_folder(local))}"
    for name in (WEIGHTS_FILE, SAFETENSORS_FILE):
        if (local / name).is_file():
            return files.sha256(local / name)
    return None


def read_config(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> BertConfig:
    """Reads the config of a model folder of any of the formats that `load` opens.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: the folder is none of these, or a file is missing.
        ValueError: the config is damaged or not a BERT's.
    """
    folder = hub.local_folder(encoder_source(folder))
    if is_adapter_folder(folder):
        return read_config(base_folder(folder), ignore_config_keys)
    if is_ours(folder):
        return _read_config(folder, ignore_config_keys)[1]
    return checkpoints.read_config(folder, ignore_config_keys)


def read_head(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns the arguments of the head that a folder of ours keeps; of other formats nothing.

    Args:
        folder: the folder, or `hf://org/name`.

    Raises:
        FileNotFoundError: it is no model folder.
        ValueError: the config is damaged.
    """
    folder = hub.local_folder(encoder_source(folder))
    return _given(read_json(folder / CONFIG_FILE).get("head", {})) if is_ours(folder) else {}


def read_checkpoint(
    folder: str | os.PathLike,
    ignore_config_keys: Collection[str] = (),
    base: str | os.PathLike | None = None,
    adapter: str | None = None,
) -> Checkpoint:
    """Reads the weights of a model folder of any of the formats that `load` opens.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.
        base: of an adapter of PEFT: the model that it is added to, in place of the one it names.
        adapter: the task whose adapter is added, see `checkpoints.folder.read`.

    Raises:
        FileNotFoundError: the folder is none of these, or a file is missing.
        ValueError: a file in it is damaged, or it is no adapter and there is a base.
    """
    folder = hub.local_folder(encoder_source(folder))
    if is_adapter_folder(folder):
        if adapter is not None:
            raise task_adapters.no_adapters(adapter, folder)
        return peft.read(
            folder, lambda path: read_checkpoint(path, ignore_config_keys), ignore_config_keys, base
        )
    if base is not None:
        raise ValueError(
            f"base is {os.fspath(base)}, but {folder} holds a whole model, and no adapter of PEFT "
            f"({ADAPTER_FILE}): leave it out"
        )
    if not is_ours(folder):
        return checkpoints.read(folder, ignore_config_keys, adapter)
    if adapter is not None:
        raise task_adapters.no_adapters(adapter, folder)
    source_class, config, head = _read_config(folder, ignore_config_keys)
    # In float32, whatever the model computed in: a checkpoint holds its variables.
    model = _build(source_class, config, _given(head) | {"dtype": "float32"})
    _load_weights(model, folder)
    return as_checkpoint(model)


def is_ours(folder: str | os.PathLike) -> bool:
    """Whether a folder was written by `save`.

    Raises:
        FileNotFoundError: it is no folder or has no config file.
        ValueError: it holds static embeddings.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise hub.missing_folder(folder)
    check_has_encoder(folder)
    if is_adapter_folder(folder) or tf_hub.is_saved_model(folder) or is_gliner_folder(folder):
        return False
    try:
        config_file = find_config_file(folder)
    except FileNotFoundError:
        # Google's ELECTRA comes without; a BERT that lacks it is refused by its reader.
        if list(folder.glob("*.index")):
            return False
        raise
    return "architecture" in read_json(config_file)


def as_checkpoint(model: Any) -> Checkpoint:
    """Returns a model of the package as named arrays, to be written in another format."""
    with merged_lora(model) as weights:
        variables = {
            path: keras.ops.convert_to_numpy(variable.value).astype("float32")
            for path, variable in variables_by_path(model, weights).items()
        }
    return Checkpoint(
        model.config,
        registry.architecture_of(type(model)),
        model.head_config(),
        variables,
        MappingReport(mapped={path: (path,) for path in variables}),
    )


def from_checkpoint(cls: type, checkpoint: Checkpoint, arguments: dict[str, Any]) -> Any:
    """Builds a model of class `cls` with the weights of a checkpoint; see `load`.

    Args:
        cls: the class to build.
        checkpoint: the weights. A pooler may be missing; one that `cls` needs starts fresh, with a
            warning, and so does what tells classes of other labels.
        arguments: arguments of the constructor of `cls` other than `config`.

    Raises:
        ValueError: a head argument is missing, or a weight of the encoder; or `cls` predicts words
            and the checkpoint does so with an output matrix of its own.
    """
    cls = registry.class_for(cls, checkpoint.config)
    architecture = registry.architecture_of(cls)
    if architecture in WORD_PREDICTORS:
        checkpoint.check_masked_lm()
    # The same head: its labels and number of classes come along.
    if architecture == checkpoint.architecture:
        arguments = _head_arguments(checkpoint.head, arguments)
    # Built with fresh weights first: whatever the checkpoint lacks keeps them.
    model = _build(cls, checkpoint.config, arguments)
    # Set the weights by path; those without a value stay fresh.
    held = model.initial_variables(checkpoint)
    stored, asked = checkpoint.head.get("labels"), model.head_config().get("labels")
    if stored and asked:
        held = _in_order_of_labels(held, stored, asked)
    encoder_paths = variables_by_path(model, getattr(model, "encoder", model).weights)
    fresh, of_other_size = [], False
    for path, variable in variables_by_path(model, model.weights).items():
        value = held.get(path)
        if value is not None and tuple(value.shape) == tuple(variable.shape):
            variable.assign(value)
        elif path in encoder_paths and path not in POOLER:
            raise ValueError(f"the encoder has no variable {path} {variable.shape}")
        elif value is not None and path.startswith(_DECODER):
            raise ValueError(
                f"{path} of the checkpoint is {value.shape} and that of the model {variable.shape}"
            )
        else:
            fresh.append(path)
            of_other_size |= value is not None and path.startswith(_CLASSIFIER)
    if of_other_size:
        held_classes, classes = (
            head.get("num_classes") for head in (checkpoint.head, model.head_config())
        )
        differ = held_classes and classes and held_classes != classes
        why = f"tells {held_classes} classes apart, not {classes}" if differ else "has another head"
        warnings.warn(
            f"the checkpoint {why}: the last layer starts with random weights and must be trained",
            stacklevel=3,
        )
    row = MODEL_CLASSES.get(architecture)
    reads_pooler = row is not None and row.uses_pooler and not model.head_config().get("pooling")
    if reads_pooler and any(path in POOLER for path in fresh):
        warnings.warn(
            f"the checkpoint has no pooler, which {cls.__name__} uses: it starts with random "
            "weights and must be trained",
            stacklevel=3,
        )
    return model


def _in_order_of_labels(
    held: Mapping[str, np.ndarray], stored: Sequence[str], asked: Sequence[str]
) -> Mapping[str, np.ndarray]:
    """Returns weights with the classes of their head in the order asked for, if they are the same.

    Args:
        held: by path; those of the last layer of a classifier [..., C].
        stored: the labels of its C classes.
        asked: those of the model.
    """
    numbered = any(_PLACEHOLDER.fullmatch(str(label)) for label in (*stored, *asked))
    if numbered or list(stored) == list(asked):
        return held
    if len(stored) == len(asked) and set(stored) == set(asked):
        order = [list(stored).index(label) for label in asked]
        return {
            path: value[..., order] if path.startswith(_CLASSIFIER) else value
            for path, value in held.items()
        }
    warnings.warn(
        f"the checkpoint tells the labels {_shortened(stored)} apart, not {_shortened(asked)}: the "
        "last layer starts with random weights and must be trained",
        stacklevel=4,
    )
    return {path: value for path, value in held.items() if not path.startswith(_CLASSIFIER)}


def _shortened(labels: Sequence[str]) -> str:
    return ", ".join(map(str, [*labels[:5], *["..."] * (len(labels) > 5)]))


def variables_by_path(model: Any, variables: Iterable[Any]) -> dict[str, Any]:
    """Returns variables by their paths inside the name scope in which the model was made.

    Raises:
        ValueError: two have the same path, so that one would be lost.
    """
    # The scope is what stands before a name that every encoder has.
    word_embeddings = getattr(model, "encoder", model).word_embeddings.embeddings.path
    # "generator/word_embeddings/embeddings" -> "generator/", which files do not have.
    scope = word_embeddings.removesuffix(_WORD_EMBEDDINGS)
    found: dict[str, Any] = {}
    for variable in variables:
        path = variable.path.removeprefix(scope)
        if path in found:
            raise ValueError(
                f"{model.name} has two variables with the path {path}, of which one would be lost:"
                ' make the second encoder of a model in a scope, `with keras.name_scope("second")`'
            )
        found[path] = variable
    return found


def _head_arguments(head: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the stored arguments of the head under those that the caller gives."""
    stored = _given(head)
    if "num_classes" in stored and arguments.get("labels") is not None:
        # As a new model counts them.
        arguments = {"num_classes": len(arguments["labels"])} | arguments
    if arguments.get("num_classes", stored.get("num_classes")) != stored.get("num_classes"):
        for name in ("labels", "problem_type"):  # they belong to other classes
            stored.pop(name, None)
    return stored | arguments


def _given(head: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in head.items() if value is not None}


def _read_config(
    folder: Path, ignore_config_keys: Collection[str], asked: type | None = None
) -> tuple[type, BertConfig, dict[str, Any]]:
    """Returns class, config and head's arguments; a class of the user's own only if `asked` for."""
    file = folder / CONFIG_FILE
    content = read_json(file)
    architecture = content["architecture"]
    # A class outside the package cannot be found by its name: only its own from_preset knows it.
    if architecture in MODEL_CLASSES:
        model_class = registry.model_class(architecture)
    elif asked is not None and registry.architecture_of(asked) == architecture:
        model_class = asked
    else:
        raise ValueError(
            f"{file} names the architecture {architecture!r}: expected one of "
            f"{', '.join(MODEL_CLASSES)}; open a model of your own class by from_preset of that "
            "class"
        )
    config = BertConfig.from_file(file, ignore_config_keys=ignore_config_keys)
    return registry.class_for(model_class, config), config, content.get("head", {})


def _build(cls: type, config: BertConfig, arguments: dict[str, Any]) -> Any:
    try:
        return cls(config, **arguments)
    except TypeError as error:
        raise ValueError(f"{cls.__name__}.from_preset: {error}") from None


def _load_weights(model: keras.Model, folder: Path) -> None:
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: the model folder is incomplete")
    try:
        # Keras says nothing of weights in the file that the model does not have.
        items: list[tuple[str, Any]] = []
        with h5py.File(path) as file:
            # Groups and data sets in one list; the states of dropouts are no weights.
            file.visititems(lambda name, item: items.append((name, item)))
            stored = sum(
                isinstance(item, h5py.Dataset) and "seed_generator" not in name
                for name, item in items
            )
        if stored != len(model.weights):
            raise ValueError(f"it holds {stored} weights, the model has {len(model.weights)}")
        model.load_weights(path)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"{path} does not fit the config beside it: {error}") from None
