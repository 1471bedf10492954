"""BertConfig: every number of a BERT, read from Google's and Hugging Face's files as they are."""

import dataclasses
import functools
import importlib
import json
import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from keras_bert import config_keys
from keras_bert.counts import plain_number

Dialect = Literal["keras_bert", "google", "hf"]

CONFIG_FILES = ("config.json", "bert_config.json")
POSITION_INITIALIZERS = ("normal", "sinusoids", "neighbors")
# Of heads that start by looking at one distance.
LEAST_HEAD_SIZE = 16
# The largest rate that masks of bytes can tell from 1, see layers/dropout.py.
MOST_DROPOUT = 255 / 256
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu", "tanh")


def size_fields(layers: int, width: int) -> dict[str, int]:
    """Returns the fields of a named size: heads of 64, feed-forward layers of four widths."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
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


ERNIE = "ernie"
# Keys of its files: the rows of a table of tasks, of which the first is read, and whether it is
# there, which the weights tell.
_TASK_TYPES = ("task_type_vocab_size", "use_task_id")


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The numbers that define a BERT encoder (Devlin et al. 2018, arXiv:1810.04805).

    Numbers may be NumPy's; they are kept as Python's.

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
            "sinusoids" (Vaswani et al. 2017, section 3.5), from which a small model finds
            neighbouring words much sooner, or "neighbors": sinusoids, and heads of the first block
            that look most at the words at one distance each from the first step on (after Zheng et
            al. 2024, arXiv:2404.01139). Nothing depends on it once a model is trained.
        model_type: of the class, not a field: which encoder its configs belong to. A variant of the
            encoder has a subclass with further fields and a name of its own here; files keep the
            name, see `keras_bert.models.registry.register_encoder`. So have the families that came
            after BERT, see `keras_bert.family_configs`.
        named_sizes: of the class: the fields of each size that `from_name` knows.
        hugging_face_names: of the class: key in a config file of transformers -> field, where the
            two differ; None where transformers has no such model.
        hugging_face_types: of the class, not of those derived from it: other model types of
            transformers that are read as it. An ERNIE is a BERT to whose words a vector is added
            that says of which task of its pretraining a text is, always the first.
        google_fields: of the class: fields in a config file of Google's beside those of BERT; None
            where its file has another form or there is none.
        has_segments: of the class: whether `segment_ids` are looked at.
        has_segment_table: of the class: whether there are segment embeddings.
        may_lack_segment_table: of the class: whether there are none where type_vocab_size is 0.
        has_position_table: of the class: whether there are position embeddings.
        has_biases: of the class: whether dense layers have a bias and norms an offset; the output
            layers of heads have one in any case.
        unbiased_layers: of the class: dense layers of a block that have no bias where others do.
        is_pre_norm: of the class: whether norms stand before each half of a block, so that one
            more ends the last block.
        has_embedding_norm: of the class: whether a norm ends the embeddings, behind which the first
            attention of such blocks has none of its own.
        has_norm_offsets: of the class: whether norms have an offset beside their scale.
        has_gates: of the class: whether feed-forward layers have a gate beside the activation.
        has_masked_lm_transform: of the class: whether the masked language model head has a dense
            layer, an activation and a norm before its product with the words, and a bias behind it.
        reads_tokens_through_pooler: of the class: whether the pooler also stands between the
            encoder and the output layers of tokens.
        pooler_act: of the class: the activation of the pooler.
        masked_lm_act: of the class: the activation of the masked language model head, whatever that
            of the layers is; None for the same.

    Raises:
        ValueError: a value is out of its range; the sentence names the field.

    Example:
        >>> BertConfig.from_name("bert_base").hidden_size
        768
    """

    model_type: ClassVar[str] = "bert"
    # The two models of the paper and four small ones of Turc et al. 2019 (arXiv:1908.08962).
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "tiny": size_fields(2, 128),
        "mini": size_fields(4, 256),
        "small": size_fields(4, 512),
        "medium": size_fields(8, 512),
        "base": size_fields(12, 768),
        "large": size_fields(24, 1024),
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {}
    hugging_face_types: ClassVar[tuple[str, ...]] = (ERNIE,)
    google_fields: ClassVar[tuple[str, ...] | None] = ()
    has_segments: ClassVar[bool] = True
    has_segment_table: ClassVar[bool] = True
    may_lack_segment_table: ClassVar[bool] = False
    has_position_table: ClassVar[bool] = True
    has_biases: ClassVar[bool] = True
    unbiased_layers: ClassVar[tuple[str, ...]] = ()
    is_pre_norm: ClassVar[bool] = False
    has_embedding_norm: ClassVar[bool] = True
    has_norm_offsets: ClassVar[bool] = True
    has_gates: ClassVar[bool] = False
    has_masked_lm_transform: ClassVar[bool] = True
    reads_tokens_through_pooler: ClassVar[bool] = False
    pooler_act: ClassVar[str] = "tanh"
    masked_lm_act: ClassVar[str | None] = None

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

    def __init_subclass__(cls) -> None:
        # Of a variant transformers knows nothing unless its class says so.
        if "hugging_face_names" not in vars(cls):
            cls.hugging_face_names = None
        if "google_fields" not in vars(cls):
            cls.google_fields = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, plain_number(getattr(self, field.name)))
        for name in _POSITIVE_INTEGERS:
            value = getattr(self, name)
            if name == "type_vocab_size" and not self.has_segment_table:
                if value != 0 or isinstance(value, bool):
                    raise ValueError(
                        f"{name} is {value!r}: {self.model_type} has no segments, so 0"
                    )
                continue
            least = 0 if name == "type_vocab_size" and self.may_lack_segment_table else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}: it must be an integer of at least {least}")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            value = getattr(self, name)
            if value is None and name == "classifier_dropout":
                continue
            if not is_number(value) or not 0 <= value <= MOST_DROPOUT:
                raise ValueError(f"{name} is {value!r}: it must be a probability from 0 to 255/256")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not divisible by num_attention_heads "
                f"{self.num_attention_heads}: choose a number of heads that divides it"
            )
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(
                f"hidden_act {self.hidden_act!r} is unknown: choose one of {', '.join(ACTIVATIONS)}"
            )
        padding = self.pad_token_id
        is_id = isinstance(padding, int) and not isinstance(padding, bool)
        if not is_id or not 0 <= padding < self.vocab_size:
            raise ValueError(
                f"pad_token_id {padding!r} is not an id of a vocabulary of "
                f"{self.vocab_size} entries: give the id of [PAD]"
            )
        if not isinstance(self.left_to_right, bool):
            raise ValueError(f"left_to_right is {self.left_to_right!r}: it must be true or false")
        if self.position_initializer not in POSITION_INITIALIZERS:
            raise ValueError(
                f"position_initializer is {self.position_initializer!r}: choose one of "
                f"{', '.join(POSITION_INITIALIZERS)}"
            )
        if self.position_initializer != "normal" and not self.has_position_table:
            raise ValueError(
                f"position_initializer is {self.position_initializer!r}: {self.model_type} has no "
                "table of positions, leave it out"
            )
        if self.position_initializer == "neighbors":
            if self.projects_embeddings:
                raise ValueError(
                    'position_initializer is "neighbors", but a dense layer leads from the '
                    'embeddings to the blocks and mixes the positions: choose "sinusoids"'
                )
            if self.head_size < LEAST_HEAD_SIZE:
                raise ValueError(
                    f'position_initializer is "neighbors", but heads are {self.head_size} wide, '
                    f"too narrow to tell distances apart: choose fewer heads, of {LEAST_HEAD_SIZE} "
                    'or more each, or "sinusoids"'
                )
        for name in ("initializer_range", "layer_norm_eps"):
            value = getattr(self, name)
            if not is_number(value) or not value > 0:
                raise ValueError(f"{name} is {value!r}: it must be a number above 0")

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.block_width // self.num_attention_heads

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and of values; where they are fewer, several heads of queries share one."""
        return self.num_attention_heads

    @property
    def ties_words(self) -> bool:
        """Whether masked words are scored with the word embeddings, not a matrix of their own."""
        return True

    @property
    def pools_late(self) -> bool:
        """Whether the pooler reads each piece, and the mean is that of what it returns."""
        return False

    @property
    def takes_pairs(self) -> bool:
        """Whether it can read a pair of texts: by two segments, or by [SEP] where it has none."""
        return not self.has_segments or self.type_vocab_size >= 2

    @property
    def embedding_width(self) -> int:
        """Width of word, position and segment embeddings, E; in BERT that of the encoder."""
        return self.hidden_size

    @property
    def block_width(self) -> int:
        """Width inside of a block; in BERT that of the encoder."""
        return self.hidden_size

    @property
    def num_feedforward_networks(self) -> int:
        """Feed-forward networks of a block, one behind the other."""
        return 1

    @property
    def position_width(self) -> int:
        """Width of position and segment embeddings: E, but H where words are led there first."""
        return self.embedding_width

    @property
    def output_width(self) -> int:
        """Width of the vectors that the masked language model head compares with words."""
        return self.embedding_width

    @property
    def further_output_width(self) -> int:
        """Columns that this head has beside the word embeddings."""
        return self.output_width - self.embedding_width

    @property
    def has_pooler(self) -> bool:
        """Whether a layer stands between the summary of a sequence and `pooled_output`."""
        return True

    @property
    def projects_embeddings(self) -> bool:
        """Whether a dense layer leads from the embeddings to the blocks."""
        return self.embedding_width != self.hidden_size

    @property
    def first_position(self) -> int:
        """Row of the position table that the first piece of a text takes; none before it is used.

        The table has `first_position + max_position_embeddings` rows.
        """
        return 0

    @property
    def summary(self) -> Literal["first", "last", "mean"]:
        """What the pooler reads: the state of the first or the last piece, or the mean of all."""
        return "last" if self.left_to_right else "first"

    @property
    def projects_global_attention(self) -> bool:
        """Whether global positions of local attention have a query, key and value of their own."""
        return False

    def attention_pairs(self, length: int) -> int:
        """Returns how many pairs of positions the attention of a block computes.

        Args:
            length: pieces of the sequence, padding included.
        """
        return length * length

    @property
    def has_local_attention(self) -> bool:
        """Whether positions see some of the others alone, in some blocks at least."""
        return False

    @property
    def distance_buckets(self) -> int:
        """Rows of a table of distances that attention reads; 0 where there is none."""
        return 0

    @property
    def distance_vectors(self) -> int:
        """Rows of a table with a vector for each distance; 0 where there is none."""
        return 0

    @property
    def farthest_distance(self) -> int:
        """The distance from which on all have one vector; 0 where there is no table of them."""
        return 0

    @property
    def distance_products(self) -> int:
        """How often a block compares its positions with vectors of distances."""
        return 0

    @property
    def shares_attention(self) -> bool:
        """Whether all blocks attend with one set of parameters, the norm behind it among them."""
        return False

    @property
    def shares_feed_forward(self) -> bool:
        """Whether all blocks have one feed-forward layer, the norm behind it among it."""
        return False

    @property
    def hugging_face_type(self) -> str:
        """The model type in files of transformers."""
        return self.model_type

    @property
    def transform_act(self) -> str:
        """Activation of the masked language model head."""
        return self.masked_lm_act or self.hidden_act

    @property
    def output_dropout_prob(self) -> float:
        """Dropout before a task's output layer."""
        if self.classifier_dropout is None:
            return self.hidden_dropout_prob
        return self.classifier_dropout

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def lengthened(self, max_position_embeddings: int) -> Self:
        """Returns a copy for longer texts, which means the same for those that fitted before."""
        return self.replace(max_position_embeddings=max_position_embeddings)

    @classmethod
    def from_name(cls, name: str, **changes: Any) -> Self:
        """Returns a named size: `bert_tiny` (or `tiny`), mini, small, medium, base, large.

        Sizes of other families begin with their name: `electra_small`, `distilbert_base`,
        `albert_base`, `roberta_base`; or have one of their own, as `distilroberta_base` has.

        Args:
            name: the size.
            **changes: fields that differ from the named size, such as `vocab_size=8000`.

        Raises:
            ValueError: the name is unknown.
        """
        sizes: dict[str, tuple[type[Self], Mapping[str, int | float]]] = {
            # "base" is a size of its family, "distilroberta_base" a name of its own, and
            # "mobilebert" both.
            size if "_" in size or size == family else f"{family}_{size}": (one, fields)
            for family, one in config_classes(cls).items()
            for size, fields in one.named_sizes.items()
        }
        asked = name.replace("-", "_")
        # "tiny" and "bert_tiny" mean that size of the class that is asked.
        of_class = f"{cls.model_type}_{asked.removeprefix('bert_')}"
        found = sizes.get(asked) or sizes.get(of_class)
        if found is None:
            raise ValueError(f"{name!r} is not a named size: choose one of {', '.join(sizes)}")
        config_class, fields = found
        return config_class(**(dict(fields) | changes))

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
            ignore_config_keys: unknown keys to pass over; one string holds them with commas, as
                the flag does. Keys that are known to change the mathematics are refused all the
                same.

        Raises:
            ValueError: keys are unknown (near valid ones are named) or have refused values.
        """
        config_class: type[Self] = cls
        model_type = values.get("model_type", cls.model_type)
        if dialect != "google" and model_type != cls.model_type:
            classes = _classes_by_file_type(cls) if dialect == "hf" else config_classes(cls)
            if not isinstance(model_type, str) or model_type not in classes:
                raise ValueError(
                    f"model_type is {model_type!r}: expected one of {', '.join(classes)}; an "
                    "encoder of your own must be registered first "
                    "(keras_bert.models.registry.register_encoder)"
                )
            config_class = classes[model_type]
        if dialect == "hf":
            if model_type == "xlm-roberta" and values.get("position_embedding_type") == "rotary":
                config_class = config_classes(cls).get("jina_embeddings_v3", config_class)
            values = config_class.in_our_names(values)
        if dialect == "google" and not _MARKS_OF_MOBILEBERT.isdisjoint(values):
            config_class = config_classes(cls).get("mobilebert", cls)
            values = config_class.in_google_names(values)
        defaults = _defaults(config_class)
        config_keys.check(values, defaults, dialect != "keras_bert", ignore_config_keys)
        known = {key: values[key] for key in values if key in defaults}
        if dialect == "hf" and known.get("pad_token_id", 0) is None:
            del known["pad_token_id"]  # transformers computes the same with it and without it
        if isinstance(act := known.get("hidden_act"), str):
            known["hidden_act"] = _ACTIVATIONS_READ[dialect].get(act, act)
        return config_class(**known)

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names and with the activation name of a dialect.

        Raises:
            ValueError: the dialect cannot say what this config says.
        """
        values = dataclasses.asdict(self)
        values["hidden_act"] = _ACTIVATIONS_WRITTEN[dialect].get(self.hidden_act, self.hidden_act)
        if self.model_type != BertConfig.model_type:
            names = {"google": self.google_fields, "hf": self.hugging_face_names}
            if dialect in names and names[dialect] is None:
                others = "" if self.hugging_face_names is None else "hf or "
                raise ValueError(
                    f"model_type is {self.model_type!r}: this format keeps no such encoder; choose "
                    f"{others}keras, which is our own"
                )
            values["model_type"] = self.model_type
        if dialect == "hf":
            # Rows of the table, of which the first are never used.
            values["max_position_embeddings"] += self.first_position
        if dialect != "keras_bert" and values.pop("left_to_right"):
            raise ValueError(
                "left_to_right is True: only our own format keeps a left-to-right model"
            )
        # Left out where it is the paper's, which files of before this field do not name.
        if dialect != "keras_bert" or self.position_initializer == "normal":
            del values["position_initializer"]
        if dialect == "google":
            values = {key: values[key] for key in (*_GOOGLE_FIELDS, *(self.google_fields or ()))}
        if dialect == "hf":
            theirs = {field: key for key, field in (self.hugging_face_names or {}).items()}
            values = {theirs.get(field, field): value for field, value in values.items()}
        return values

    @classmethod
    def in_google_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of Google's, and what its code takes besides."""
        return dict(values)

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of transformers under the names of our fields."""
        ours: dict[str, Any] = {}
        for key, value in values.items():
            if values.get("model_type") == ERNIE and key in _TASK_TYPES:
                continue
            field = (cls.hugging_face_names or {}).get(key, key)
            if ours.setdefault(field, value) != value:
                raise ValueError(
                    f"{key} is {value!r}, and {field}, which says the same, is {ours[field]!r}"
                )
        return ours

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
            values = type(config).in_our_names(values) if dialect == "hf" else values
            _tell_passed_over(path, config_keys.check(values, defaults, True, ignore_config_keys))
        return config


# One of these is in every file that transformers wrote; it has named the model type since 2.3.
_MARKS_OF_TRANSFORMERS = frozenset(
    "architectures finetuning_task model_type output_past pruned_heads torchscript"
    " transformers_version".split()
)
# Fields that no file of another program has: `to_dict` writes the first into all of our own, and
# who writes a config by hand may write the second.
_MARKS_OF_OURS = frozenset(("left_to_right", "shared_parameters"))
# Class of the config by the `model_type` in a file; `keras_bert.family_configs` and
# `register_encoder` add to it.
CONFIG_CLASSES: dict[str, type[BertConfig]] = {BertConfig.model_type: BertConfig}
_MODULES_OF_CLASSES = (
    *("family_configs", "modernbert_config", "deberta_config", "rotary_configs"),
    "mobilebert_config",
)
# Keys by which a file of Google's, which names no model type, is that of a MobileBERT.
_MARKS_OF_MOBILEBERT = frozenset(("intra_bottleneck_size", "trigram_input", "use_bottleneck"))
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


_AnyConfig = TypeVar("_AnyConfig", bound=BertConfig)


def config_classes(base: type[_AnyConfig]) -> dict[str, type[_AnyConfig]]:
    """Returns the known classes that are `base` or derived from it, by their model type."""
    # They add their classes, in an order that depends on who imports one of them first.
    for name in _MODULES_OF_CLASSES:
        importlib.import_module(f"keras_bert.{name}")
    modules = [__name__, *(f"keras_bert.{name}" for name in _MODULES_OF_CLASSES)]

    def place(item: tuple[str, type[BertConfig]]) -> int:
        module = item[1].__module__
        return modules.index(module) if module in modules else len(modules)  # from outside: last

    ordered = sorted(CONFIG_CLASSES.items(), key=place)
    return {name: found for name, found in ordered if issubclass(found, base)}


def _classes_by_file_type(base: type[_AnyConfig]) -> dict[str, type[_AnyConfig]]:
    """Returns `config_classes` by every model type that files of transformers have for them."""
    classes = config_classes(base)
    return classes | {
        kind: one for one in classes.values() for kind in vars(one).get("hugging_face_types", ())
    }


def _defaults(config_class: type[BertConfig]) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(config_class)}


def is_number(value: Any) -> bool:
    """Whether a value of a config file is a finite number; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= sys.float_info.max  # neither is Infinity nor NaN


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
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
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
    if model_type == config_keys.ENCODER_DECODER_TYPE:  # the encoder of an EncoderDecoderModel
        values = values.get("encoder")  # type: ignore[assignment]  # judged in the next line
        if not isinstance(values, dict) or values.get("model_type", "bert") != "bert":
            found = values.get("model_type") if isinstance(values, dict) else values
            raise ValueError(
                f"the encoder's model_type is {found!r}: of two models only two BERTs are supported"
            )
        return values, "hf"
    classes = _classes_by_file_type(BertConfig)
    if not isinstance(model_type, str) or model_type not in classes:
        of_others = [name for name, one in classes.items() if one.hugging_face_names is not None]
        raise ValueError(
            f"model_type is {model_type!r}: {', '.join(map(repr, of_others))} are supported; "
            "the checkpoint belongs to another architecture"
        )
    if classes[model_type].hugging_face_names is None:
        return values, "keras_bert"  # a variant of ours; files of others hold no such type
    if not _MARKS_OF_OURS.isdisjoint(values):
        return values, "keras_bert"
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
