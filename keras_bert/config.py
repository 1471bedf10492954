"""BertConfig: every number of a BERT, read from Google's and Hugging Face's files as they are."""

import dataclasses
import functools
import json
import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from keras_bert import config_keys

Dialect = Literal["keras_bert", "google", "hf"]

CONFIG_FILES = ("config.json", "bert_config.json")
POSITION_INITIALIZERS = ("normal", "sinusoids")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu", "tanh")

# Layers and width of the two models of the paper and of four small ones of Turc et al. 2019
# (arXiv:1908.08962). Each has heads of 64 and an intermediate size of four times the width.
_SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}

# Names that mean another activation in another dialect's file; every other name means itself.
# google-research/bert computes the tanh form under the name "gelu" (modeling.py, `gelu`).
_ACTIVATIONS_READ = {
    "keras_bert": {},
    "google": {"gelu": "gelu_tanh", "gelu_erf": "gelu"},
    "hf": {
        "gelu_fast": "gelu_tanh",
        "gelu_new": "gelu_tanh",
        "gelu_python": "gelu",
        "gelu_pytorch_tanh": "gelu_tanh",
        "swish": "silu",
    },
}
_ACTIVATIONS_WRITTEN = {
    "keras_bert": {},
    "google": {"gelu_tanh": "gelu", "gelu": "gelu_erf"},
    "hf": {"gelu_tanh": "gelu_new"},
}


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The numbers that define a BERT encoder (Devlin et al. 2018, arXiv:1810.04805).

    Attributes:
        vocab_size: entries of the vocabulary, V.
        hidden_size: width of the encoder, H.
        num_hidden_layers: encoder blocks, L.
        num_attention_heads: attention heads per block, A; divides H.
        intermediate_size: width of the feed-forward layer.
        hidden_act: the exact function: "gelu" (erf), "gelu_tanh", "relu", "silu" or "tanh".
        hidden_dropout_prob: dropout after the embeddings and after every sub-layer.
        attention_probs_dropout_prob: dropout on attention probabilities.
        max_position_embeddings: the longest sequence in pieces.
        type_vocab_size: number of segments.
        initializer_range: standard deviation of the truncated normal initializer.
        layer_norm_eps: epsilon of every layer normalization.
        pad_token_id: id of [PAD].
        classifier_dropout: dropout before a task's output layer; None follows hidden_dropout_prob.
        left_to_right: whether a position sees only what stands before it: the baseline that the
            paper compares with (section 5.1). Other formats cannot say so.
        position_initializer: what the learned position table starts as: "normal", as in the paper,
            or "sinusoids" (Vaswani et al. 2017, section 3.5), from which a small model finds
            neighbouring words much sooner. Nothing depends on it once a model is trained.
        model_type: of the class, not a field: which encoder its configs belong to. A variant of the
            encoder has a subclass with further fields and a name of its own here; files keep the
            name, see `keras_bert.models.registry.register_encoder`.

    Raises:
        ValueError: a value is out of its range; the sentence names the field.

    Example:
        >>> BertConfig.from_name("bert_base").hidden_size
        768
    """

    model_type: ClassVar[str] = "bert"

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    classifier_dropout: float | None = None
    left_to_right: bool = False
    position_initializer: str = "normal"

    def __post_init__(self) -> None:
        for name in _POSITIVE_INTEGERS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}: it must be an integer of at least 1")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            value = getattr(self, name)
            if value is None and name == "classifier_dropout":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
                raise ValueError(
                    f"{name} is {value!r}: it must be a probability from 0 up to below 1"
                )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not divisible by num_attention_heads "
                f"{self.num_attention_heads}: choose a number of heads that divides it"
            )
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(
                f"hidden_act {self.hidden_act!r} is unknown: choose one of {', '.join(ACTIVATIONS)}"
            )
        if not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id {self.pad_token_id} is not an id of a vocabulary of "
                f"{self.vocab_size} entries: give the id of [PAD]"
            )
        if not isinstance(self.left_to_right, bool):
            raise ValueError(f"left_to_right is {self.left_to_right!r}: it must be true or false")
        if self.position_initializer not in POSITION_INITIALIZERS:
            raise ValueError(
                f"position_initializer is {self.position_initializer!r}: choose one of "
                f"{', '.join(POSITION_INITIALIZERS)}"
            )
        for name in ("initializer_range", "layer_norm_eps"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be above 0")

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def output_dropout_prob(self) -> float:
        """Dropout before a task's output layer."""
        if self.classifier_dropout is None:
            return self.hidden_dropout_prob
        return self.classifier_dropout

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def from_name(cls, name: str, **changes: Any) -> Self:
        """Returns a named size: `bert_tiny` (or `tiny`), mini, small, medium, base, large.

        Args:
            name: the size.
            **changes: fields that differ from the named size, such as `vocab_size=8000`.

        Raises:
            ValueError: the name is unknown.
        """
        size = name.removeprefix("bert_").removeprefix("bert-")
        if size not in _SIZES:
            raise ValueError(
                f"{name!r} is not a named size: choose one of "
                f"{', '.join('bert_' + known for known in _SIZES)}"
            )
        layers, width = _SIZES[size]
        fields = {
            "num_hidden_layers": layers,
            "hidden_size": width,
            "num_attention_heads": width // 64,
            "intermediate_size": 4 * width,
        }
        return cls(**(fields | changes))

    @classmethod
    def from_dict(
        cls,
        values: Mapping[str, Any],
        dialect: Dialect = "keras_bert",
        ignore_config_keys: Collection[str] = (),
    ) -> Self:
        """Builds a config from the fields of a config file.

        Args:
            values: the file's content. Keys that say nothing about the encoder (labels, versions)
                are passed over; keys that would change its mathematics must hold BERT's value. In
                a file of ours `model_type` names the class to build.
            dialect: whose file it is; "gelu" means the tanh form in Google's. Files of others may
                hold many more keys that are known to change nothing.
            ignore_config_keys: unknown keys to pass over. Keys that are known to change the
                mathematics are refused all the same.

        Raises:
            ValueError: keys are unknown (near valid ones are named) or have refused values.
        """
        config_class: type[Self] = cls
        if dialect == "keras_bert" and values.get("model_type", cls.model_type) != cls.model_type:
            model_type = values["model_type"]
            classes = {
                name: found for name, found in CONFIG_CLASSES.items() if issubclass(found, cls)
            }
            if model_type not in classes:
                raise ValueError(
                    f"model_type is {model_type!r}: expected one of {', '.join(classes)}; an "
                    "encoder of your own must be registered first "
                    "(keras_bert.models.registry.register_encoder)"
                )
            config_class = classes[model_type]
        defaults = _defaults(config_class)
        config_keys.check(values, defaults, dialect != "keras_bert", ignore_config_keys)
        known = {key: values[key] for key in values if key in defaults}
        if dialect == "hf" and known.get("pad_token_id", 0) is None:
            del known["pad_token_id"]  # transformers computes the same with it and without it
        if "hidden_act" in known:
            known["hidden_act"] = _ACTIVATIONS_READ[dialect].get(
                known["hidden_act"], known["hidden_act"]
            )
        return config_class(**known)

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names and with the activation name of a dialect.

        Raises:
            ValueError: the dialect cannot say what this config says.
        """
        values = dataclasses.asdict(self)
        values["hidden_act"] = _ACTIVATIONS_WRITTEN[dialect].get(self.hidden_act, self.hidden_act)
        if self.model_type != BertConfig.model_type:
            if dialect != "keras_bert":
                raise ValueError(
                    f"model_type is {self.model_type!r}: only our own format keeps such an encoder"
                )
            values["model_type"] = self.model_type
        if dialect != "keras_bert" and values.pop("left_to_right"):
            raise ValueError(
                "left_to_right is True: only our own format keeps a left-to-right model"
            )
        # Left out where it is the paper's, which files of before this field do not name.
        if dialect != "keras_bert" or self.position_initializer == "normal":
            del values["position_initializer"]
        if dialect == "google":
            values = {key: values[key] for key in _GOOGLE_FIELDS}
        return values

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike,
        unmarked: Dialect | None = None,
        ignore_config_keys: Collection[str] = (),
    ) -> Self:
        """Reads `config.json` or `bert_config.json`; the dialect follows from the content.

        One line on stderr names the keys of another program's file that are passed over.

        Args:
            path: the file, or the folder that holds it.
            unmarked: dialect of a file whose content does not tell, where the weights beside it do;
                by default a `bert_config.json` is Google's and a `config.json` ours.
            ignore_config_keys: unknown keys to pass over, see `from_dict`.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is not JSON or not a BERT's; the sentence names the file.
        """
        path = find_config_file(path)
        content = read_json(path)
        try:
            values, dialect = _config_and_dialect(
                content, unmarked or ("google" if path.name == "bert_config.json" else "keras_bert")
            )
            config = cls.from_dict(values, dialect, ignore_config_keys)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from None
        if dialect != "keras_bert":
            defaults = _defaults(type(config))
            _tell_passed_over(path, config_keys.check(values, defaults, True, ignore_config_keys))
        return config


# One of these is in every file that transformers wrote; it has named the model type since 2.3.
_MARKS_OF_TRANSFORMERS = frozenset(
    "architectures finetuning_task model_type output_past pruned_heads torchscript"
    " transformers_version".split()
)
# Class of the config by the `model_type` in a file of ours; `register_encoder` adds to it.
CONFIG_CLASSES: dict[str, type[BertConfig]] = {BertConfig.model_type: BertConfig}
_POSITIVE_INTEGERS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
_GOOGLE_FIELDS = (
    "attention_probs_dropout_prob",
    "hidden_act",
    "hidden_dropout_prob",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)


def _defaults(config_class: type[BertConfig]) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(config_class)}


def find_config_file(path: str | os.PathLike) -> Path:
    """Returns the config file that `path` is or holds.

    Raises:
        FileNotFoundError: there is none.
    """
    path = Path(path)
    if path.is_dir():
        for name in CONFIG_FILES:
            if (path / name).is_file():
                return path / name
        raise FileNotFoundError(
            f"{path} holds neither {' nor '.join(CONFIG_FILES)}: give the folder of a model"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give a config file or a model's folder")
    return path


def read_json(path: str | os.PathLike) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        ValueError: the file is not a JSON object; the sentence names it.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds a {type(values).__name__}, expected a JSON object")
    return values


def _config_and_dialect(
    values: dict[str, Any], unmarked: Dialect
) -> tuple[dict[str, Any], Dialect]:
    if isinstance(values.get("config"), dict):  # our preset: architecture, config, head
        return values["config"], "keras_bert"
    model_type = values.get("model_type", "bert")
    if model_type in CONFIG_CLASSES and model_type != "bert":
        return values, "keras_bert"  # a variant of ours; files of others hold no such type
    if model_type != "bert":
        raise ValueError(
            f"model_type is {model_type!r}: only 'bert' is supported; "
            "the checkpoint belongs to another architecture"
        )
    if not _MARKS_OF_TRANSFORMERS.isdisjoint(values):
        return values, "hf"
    return values, unmarked


@functools.cache  # a folder is often opened more than once: model, tokenizer, conversion
def _tell_passed_over(path: Path, keys: tuple[str, ...]) -> None:
    if keys:
        print(
            f"{path}: passed over, as they do not change the encoder: {', '.join(keys)}",
            file=sys.stderr,
        )
