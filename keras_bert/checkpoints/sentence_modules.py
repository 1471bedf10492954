"""What follows the encoder in a folder of sentence-transformers: pooling, projections, norm.

`modules.json` lists the modules in order; each has a folder of its own with its settings. The names
of keys are those that sentence-transformers writes, from its first releases to 6.
"""

import dataclasses
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints import sentence_prompts, torch_state
from keras_bert.checkpoints.peft.settings import base_folder, is_adapter_folder, is_of_encoder
from keras_bert.config import read_json
from keras_bert.storage import hub
from keras_bert.storage.files import write_json

MODULES_FILE = "modules.json"
TRANSFORMER_FILE = "sentence_bert_config.json"
POOLING_MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")

_PACKAGE = "sentence_transformers."
_CONFIG_FILE = "config.json"
_TOKENIZER_FILE = "tokenizer_config.json"
_MODELS = f"{_PACKAGE}models."
_POOLING_FOLDER, _NORM_FOLDER = "1_Pooling", "2_Normalize"
# What the module with the encoder is called, in folders of 2019 too.
_TRANSFORMERS = ("Transformer", "BERT")
# Of jina-embeddings-v3, in a file beside its weights: a Transformer that chooses an adapter. Files
# of others have the same name and do something else.
_WITH_ADAPTERS = "custom_st.Transformer"
# Of a sparse encoder, before sentence-transformers 5.4.
_OF_WORDS = "MLMTransformer"
# A table in place of an encoder.
STATIC_EMBEDDING = "StaticEmbedding"
# What has a model for texts to be found, and something else for queries, and where it says so.
ROUTER, ROUTER_FILE = "Router", "router_config.json"
# Keys of before 2025 -> mode, in the order in which sentence-transformers joins several.
_MODE_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")
_EMBEDDING = "sentence_embedding"
_NO_LIMIT = 10**9
_TASK = "feature-extraction"
# Arguments for encoder and tokenizer, and those of them that leave float32 arithmetic as it is.
_ARGUMENT_KEYS = (
    *("model_args", "model_kwargs", "config_args", "config_kwargs"),
    *("tokenizer_args", "processor_kwargs", "processing_kwargs"),
)
_KNOWN_ARGUMENTS = {
    *("torch_dtype", "dtype", "attn_implementation", "add_pooling_layer"),
    *("model_max_length", "trust_remote_code"),
}


@dataclasses.dataclass(frozen=True)
class Dense:
    """A linear layer on a sentence's vector.

    Attributes:
        kernel: float32 [inputs, outputs].
        bias: float32 [outputs], None without.
        activation: name of the class in `torch.nn`, such as "Tanh".
    """

    kernel: np.ndarray
    bias: np.ndarray | None
    activation: str


@dataclasses.dataclass(frozen=True)
class Normalize:
    """Division by the Euclidean length."""


@dataclasses.dataclass(frozen=True)
class SentenceModules:
    """How a sentence becomes a vector.

    Attributes:
        pooling: how tokens become one vector: some of `POOLING_MODES`, whose vectors are joined, or
            "pooler" alone, the encoder's pooled output.
        steps: what happens to the vector after that, in order.
        max_seq_length: the most positions of a row; None takes those of the encoder.
        lowercase: whether texts are lower-cased first, whatever the tokenizer does.
        prompt: stands before every text that is given no other.
        prompts: what can be asked for in its place, by name.
        query_prompt: stands before texts to search with.
        document_prompt: stands before texts to be found.
        include_prompt: whether the tokens of a prompt are pooled with those of the text.
        truncate_dim: only so many numbers are kept, before a norm that ends the steps; None keeps
            all.
        similarity: how vectors are compared, such as "cosine" or "dot".
    """

    pooling: tuple[str, ...]
    steps: tuple[Dense | Normalize, ...] = ()
    max_seq_length: int | None = None
    lowercase: bool = False
    prompt: str = ""
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    query_prompt: str = ""
    document_prompt: str = ""
    include_prompt: bool = True
    truncate_dim: int | None = None
    similarity: str = sentence_prompts.COSINE

    @property
    def tells_texts_apart(self) -> bool:
        """Whether texts of a search are read in another way than texts that are given no prompt."""
        return {self.query_prompt, self.document_prompt} != {self.prompt}

    def width(self, hidden_size: int) -> int:
        """Returns the width of the vectors of an encoder of this width.

        Raises:
            ValueError: a linear layer takes another width than comes to it, or more numbers are to
                be kept than there are.
        """
        width = hidden_size * len(self.pooling)
        for step in self.steps:
            if isinstance(step, Dense):
                if step.kernel.shape[0] != width:
                    raise ValueError(
                        f"pooling {'+'.join(self.pooling)} gives vectors of width {width}, but the "
                        f"Dense module of the folder takes {step.kernel.shape[0]}: use the pooling "
                        "that the model was trained with"
                    )
                width = step.kernel.shape[1]
        if self.truncate_dim is None:
            return width
        if self.truncate_dim > width:
            raise ValueError(
                f"truncate_dim is {self.truncate_dim}, but the vectors have {width} numbers: give "
                "fewer, or leave it out"
            )
        return self.truncate_dim


def is_sentence_folder(folder: str | os.PathLike) -> bool:
    """Whether a folder is one of sentence-transformers that makes one vector of a sentence.

    Its classifiers of pairs and its sparse encoders have a `modules.json` without Pooling.

    Raises:
        ValueError: `modules.json` is damaged.
    """
    file = modules_folder(folder) / MODULES_FILE
    return file.is_file() and any(kind.endswith(".Pooling") for kind, _ in module_entries(file))


def modules_folder(folder: str | os.PathLike) -> Path:
    """Returns where the modules behind an encoder are listed: in its folder, or in its base's.

    An adapter of PEFT that was trained without a head is encoded with as its base is, where it
    lists no modules of its own.

    Raises:
        FileNotFoundError: the base is no folder.
        ValueError: the adapter is damaged, or its base cannot be fetched.
    """
    folder = Path(folder)
    if (folder / MODULES_FILE).is_file() or not is_adapter_folder(folder):
        return folder
    return base_folder(folder) if is_of_encoder(folder) else folder


def encoder_folder(folder: str | os.PathLike) -> Path:
    """Returns where the encoder of a folder lies: in it, or in a folder such as 0_Transformer.

    Raises:
        ValueError: `modules.json` is damaged or does not begin with a Transformer.
    """
    folder = Path(folder)
    if not is_sentence_folder(folder) or modules_folder(folder) != folder:
        return folder
    return folder / module_list(folder)[0][1]


def encoder_source(source: str | os.PathLike) -> str:
    """Returns where the encoder of a model is opened from: its folder, or one such as 0_BERT in it.

    A table of static embeddings counts as one. What stands behind it is not looked at, and a
    damaged `modules.json` says nothing.

    Args:
        source: a model folder, or `hf://org/name`.

    Raises:
        ValueError: the repository cannot be fetched.
    """
    folder = hub.local_folder(source)
    try:
        kind, path = module_entries(folder / MODULES_FILE)[0]
    except (FileNotFoundError, NotADirectoryError, ValueError, IndexError):
        return os.fspath(source)
    name = kind.removeprefix(_PACKAGE).rpartition(".")[2]
    first = (*_TRANSFORMERS, _OF_WORDS, STATIC_EMBEDDING)
    if kind.startswith(_PACKAGE) and name == ROUTER and (folder / ROUTER_FILE).is_file():
        # The model of texts to be found.
        routes = read_json(folder / ROUTER_FILE).get("structure") or {}
        path = next(iter(routes.get("document") or [""]))
        name = first[0]
    inner = kind.startswith(_PACKAGE) and name in first and _is_inside(path)
    return os.fspath(folder / path if inner and Path(path).parts else source)


def read(folder: str | os.PathLike) -> SentenceModules:
    """Reads all modules of a folder behind the encoder, and how texts are prepared.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, or a module or a setting cannot be reproduced; the sentence
            names it.
    """
    folder = modules_folder(folder)
    (_, encoder_path), *rest = module_list(folder)
    if not rest or rest[0][0] != "Pooling":
        found = rest[0][0] if rest else "nothing"
        raise ValueError(
            f"{folder / MODULES_FILE} has {found} behind the Transformer: expected Pooling"
        )
    steps = read_steps(folder, rest[1:], "Transformer, Pooling, and then")
    prompts = sentence_prompts.read(folder)
    pooling, include_prompt = _pooling(folder / rest[0][1] / _CONFIG_FILE, prompts.default)
    max_seq_length, lowercase = text_settings(folder / encoder_path, _TASK)
    return SentenceModules(
        pooling,
        steps,
        max_seq_length,
        lowercase,
        prompts.default,
        prompts.by_name,
        prompts.query,
        prompts.document,
        include_prompt,
        similarity=prompts.similarity,
    )


def read_steps(
    folder: Path, modules: Sequence[tuple[str, str]], before: str
) -> tuple[Dense | Normalize, ...]:
    """Reads the modules that work on the vector of a sentence.

    Args:
        folder: holds `modules.json`.
        modules: name and folder of each, see `module_list`.
        before: what is expected in front of them, for the error.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, or a module or a setting cannot be reproduced.
    """
    steps: list[Dense | Normalize] = []
    for name, path in modules:
        if name == "Dense":
            steps.append(_dense(folder / path))
        elif name == "Normalize":
            _check_inputs(folder / path / _CONFIG_FILE)
            steps.append(Normalize())
        elif name != "Dropout":  # which does nothing outside training
            raise ValueError(
                f"{folder / MODULES_FILE} lists the module {name}, which cannot be reproduced: "
                f"expected {before} Dense, Normalize or Dropout"
            )
    return tuple(steps)


def write(folder: Path, pooling: str, width: int) -> None:
    """Writes `modules.json`, the pooling and a norm beside an encoder.

    Args:
        folder: holds the encoder.
        pooling: one of `POOLING_MODES`.
        width: numbers of a vector.
    """
    modules = ("", _POOLING_FOLDER, _NORM_FOLDER)
    entries = [
        {"idx": number, "name": str(number), "path": path, "type": f"{_MODELS}{kind}"}
        for number, (path, kind) in enumerate(
            zip(modules, (_TRANSFORMERS[0], "Pooling", "Normalize"), strict=True)
        )
    ]
    # Under the keys that all releases of sentence-transformers read.
    settings = {"word_embedding_dimension": width}
    settings |= {key: mode == pooling for key, mode in _MODE_KEYS.items()}
    for path in modules[1:]:
        (folder / path).mkdir(exist_ok=True)
    write_json(folder / _POOLING_FOLDER / _CONFIG_FILE, settings)
    write_json(folder / MODULES_FILE, entries)


def write_length(folder: Path, max_seq_length: int) -> None:
    """Writes how long a row is at most.

    Args:
        folder: holds the encoder.
        max_seq_length: the most positions of a row.
    """
    content = {"max_seq_length": max_seq_length, "do_lower_case": False}
    write_json(folder / TRANSFORMER_FILE, content)


def copy(source: str | os.PathLike, target: str | os.PathLike) -> None:
    """Copies everything behind the encoder from one folder of sentence-transformers to another.

    Args:
        source: has the encoder in it, or in a folder of its own such as 0_Transformer.
        target: holds the encoder, in any format; not in a folder of its own.

    Raises:
        ValueError: a file is damaged, or something in it cannot be reproduced.
    """
    source, target = modules_folder(source), Path(target)
    modules = read(source)
    for _, path in module_list(source)[1:]:
        if Path(path).parts and (source / path).is_dir():  # some modules have no settings
            shutil.copytree(source / path, target / path)
    entries = json.loads((source / MODULES_FILE).read_text(encoding="utf-8"))
    first = {**entries[0], "path": ""}
    if first["type"] == _WITH_ADAPTERS:  # of which the target has none
        first["type"] = f"{_MODELS}{_TRANSFORMERS[0]}"
    write_json(target / MODULES_FILE, [first, *entries[1:]])
    if (source / sentence_prompts.MODEL_FILE).is_file():
        name = sentence_prompts.MODEL_FILE
        shutil.copyfile(source / name, target / name)
    # Said here, wherever the source said it.
    settings = {"max_seq_length": modules.max_seq_length, "do_lower_case": modules.lowercase}
    write_json(target / TRANSFORMER_FILE, settings)


def module_entries(file: Path) -> list[tuple[str, str]]:
    """Returns class and folder of each module, as `modules.json` has them.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged.
    """
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        found = [(entry["type"], entry["path"]) for entry in entries]
        if not all(isinstance(value, str) for pair in found for value in pair):
            raise TypeError("type and path must be strings")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is no list of modules with type and path ({error!r})") from None
    return found


def _is_inside(path: str) -> bool:
    """Whether a path stays in its folder: names of files in a download must not lead out of it."""
    return not Path(path).is_absolute() and ".." not in Path(path).parts


def module_list(
    folder: Path,
    first: Sequence[str] = _TRANSFORMERS,
    what: str = "encoder of sentences",
    others: Sequence[str] = (),
) -> list[tuple[str, str]]:
    """Returns name and folder of each module.

    Args:
        folder: holds `modules.json`.
        first: what the module with the encoder is called.
        what: what the folder is then.
        others: classes outside sentence-transformers that are known, with their modules.

    Raises:
        ValueError: the file is damaged, lists code of others, or begins with another module.
    """
    file = folder / MODULES_FILE
    found = []
    for kind, path in module_entries(file):
        if not _is_inside(path):
            raise ValueError(f"{file} has the path {path!r}: expected a folder inside {folder}")
        name = kind.rpartition(".")[2]
        is_known = kind in others or kind.startswith(_PACKAGE)
        if not is_known and not (kind == _WITH_ADAPTERS and _has_task_adapters(folder / path)):
            raise ValueError(
                f"{file} lists {kind}, code that is not part of sentence-transformers: it cannot "
                "be reproduced"
            )
        found.append((name, path))
    if not found or found[0][0] not in first:
        raise ValueError(f"{file} does not begin with a {first[0]}: it is no {what}")
    return found


def _has_task_adapters(folder: Path) -> bool:
    """Whether a folder holds the encoder of jina-embeddings-v3 as it is published."""
    file = folder / _CONFIG_FILE
    return file.is_file() and bool(read_json(file).get("lora_adaptations"))


def _pooling(file: Path, prompt: str) -> tuple[tuple[str, ...], bool]:
    """Returns the modes, and whether the tokens of a prompt are pooled, too."""
    values = read_json(file)
    named = values.get("pooling_mode")
    if named is None:
        found = [mode for key, mode in _MODE_KEYS.items() if values.get(key)]
        named = found or ["mean"]  # what sentence-transformers takes where nothing is said
    modes = [named] if isinstance(named, str) else named
    if not isinstance(modes, list) or not modes or any(m not in POOLING_MODES for m in modes):
        raise ValueError(
            f"{file}: pooling_mode is {named!r}: expected one or several of "
            f"{', '.join(POOLING_MODES)}"
        )
    include_prompt = values.get("include_prompt") is not False
    if prompt and not include_prompt:
        raise ValueError(
            f"{file}: include_prompt is false and the folder has a default prompt: leaving out the "
            "tokens of a prompt cannot be reproduced"
        )
    return tuple(modes), include_prompt


def _dense(folder: Path) -> Dense:
    file = folder / _CONFIG_FILE
    values = _check_inputs(file)
    if values.get("use_residual"):
        raise ValueError(f"{file}: use_residual is true, which cannot be reproduced")
    # "torch.nn.modules.activation.Tanh"; sentence-transformers takes Tanh where nothing is said.
    function = values.get("activation_function") or "torch.nn.modules.activation.Tanh"
    activation = function.rpartition(".")[2]
    if not function.startswith("torch.nn.") or activation not in _ACTIVATIONS:
        raise ValueError(
            f"{file}: activation_function is {function}: expected one of torch.nn's "
            f"{', '.join(_ACTIVATIONS)}"
        )
    tensors = torch_state.read(folder)
    inputs, outputs = values.get("in_features"), values.get("out_features")
    expected: dict[str, tuple[Any, ...]] = {"linear.weight": (outputs, inputs)}
    if values.get("bias", True):
        expected["linear.bias"] = (outputs,)
    if dict(tensors.shapes) != expected:
        raise ValueError(f"{tensors.source} holds {dict(tensors.shapes)}: expected {expected}")
    arrays = {name: tensors.read(name).astype(np.float32) for name in expected}
    return Dense(arrays["linear.weight"].T.copy(), arrays.get("linear.bias"), activation)


def _check_inputs(file: Path) -> dict[str, Any]:
    """Returns the settings of a module that works on the vector of the sentence."""
    values = read_json(file) if file.is_file() else {}
    for key in ("module_input_name", "module_output_name"):
        if values.get(key) not in (None, _EMBEDDING):
            raise ValueError(
                f"{file}: {key} is {values[key]!r}, which cannot be reproduced: expected "
                f"{_EMBEDDING!r}"
            )
    return values


def text_settings(folder: Path, task: str) -> tuple[int | None, bool]:
    """Returns the length of rows and whether texts are lower-cased.

    Args:
        folder: that of the module with the encoder.
        task: what its `transformer_task` must be, where it is stated.

    Raises:
        ValueError: a setting cannot be reproduced.
    """
    file = folder / TRANSFORMER_FILE
    values, arguments = _transformer_values(folder)
    unknown = sorted(arguments.keys() - _KNOWN_ARGUMENTS)
    if values.get("transformer_task", task) != task:
        unknown.append("transformer_task")
    if unknown:
        raise ValueError(f"{file} sets {', '.join(unknown)}, which cannot be reproduced")
    return row_length(folder), lowercases(folder)


def lowercases(folder: Path) -> bool:
    """Returns whether sentence-transformers lower-cases texts before the tokenizer of a folder.

    Args:
        folder: that of the module with the encoder.
    """
    return bool(_transformer_values(folder)[0].get("do_lower_case"))


def _transformer_values(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns what the file of a Transformer module says, and its arguments of all kinds."""
    file = folder / TRANSFORMER_FILE
    values = read_json(file) if file.is_file() else {}
    arguments = {
        name: value for key in _ARGUMENT_KEYS for name, value in (values.get(key) or {}).items()
    }
    return values, arguments


def row_length(folder: Path) -> int | None:
    """Returns the most positions of a row that a folder of sentence-transformers states.

    None where it states none, or says so by a number such as 1e30.

    Raises:
        ValueError: it is no number above 0.
    """
    file = folder / TRANSFORMER_FILE
    values, arguments = _transformer_values(folder)
    length = arguments.get("model_max_length", values.get("max_seq_length"))
    if length is None and (folder / _TOKENIZER_FILE).is_file():
        # Where releases from 5 on keep it.
        file = folder / _TOKENIZER_FILE
        length = read_json(file).get("model_max_length")
    if length is None:
        return None
    if type(length) not in (int, float) or not length >= 1:  # nor is NaN
        raise ValueError(f"{file}: the length of rows is {length!r}: expected a number above 0")
    # transformers writes 1e30, which its tokenizers would take for a length.
    return None if length >= _NO_LIMIT else int(length)
