"""Configs of the families that came after BERT: the numbers and switches in which they differ.

    family       embeddings                     [CLS]                     paper
    BERT         words, positions, segments     dense, tanh               arXiv:1810.04805
    DistilBERT   words, positions               dense, ReLU, in heads     arXiv:1910.01108
    ELECTRA      as BERT, of another width,     dense, GELU, in heads     arXiv:2003.10555
                 then projected
    ALBERT       as ELECTRA; all blocks have    dense, tanh               arXiv:1909.11942
                 one set of parameters
    RoBERTa      words, positions from the      dense, tanh, in one head  arXiv:1907.11692
                 padding id + 1, one segment
    MPNet        as RoBERTa, no segments;       dense, tanh, in one head  arXiv:2004.09297
                 attention knows distances
    Longformer   as RoBERTa; attention in a     dense, tanh, in one head  arXiv:2004.05150
                 sliding window
    Megatron-    as BERT without a norm;        dense, tanh               arXiv:1909.08053
    BERT         norms before both halves
    local BERT   as BERT; attention as there    dense, tanh

Field names are BERT's in all families; `hugging_face_names` says where files of transformers have
others. "In heads": transformers makes the dense layer on [CLS] a part of the classifier, so that a
checkpoint of the encoder alone has none. Here it is the encoder's pooler in every family.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from keras_bert.choices import check_choice
from keras_bert.config import CONFIG_CLASSES, BertConfig, Dialect, is_number, size_fields

_EPSILON = 1e-12  # of DistilBERT's norms, which its files do not name
_NOT_READ = ("layer_norm_eps", "type_vocab_size")  # of such a file
SharedParameters = Literal["all", "attention", "feed_forward", "none"]
_GROUPS = ("num_hidden_groups", "inner_group_num")  # of ALBERT's files; one of one is "all"
# What transformers takes where a file names none, other than we do: the largest ALBERT, a RoBERTa
# with the numbers of BERT.
_ALBERT_THERE = {"hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16384}
_ROBERTA_THERE = {"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "type_vocab_size": 2}
# modeling_mpnet.py reads neither: MPNetEmbeddings and MPNetEncoder.compute_position_bias.
_MPNET_THERE = {"pad_token_id": 1, "relative_attention_num_buckets": 32}
_FIXED_THERE = "transformers' MPNet has {} in its code, whatever its config says"
_LONGFORMER_THERE = {"vocab_size": 30522, "attention_window": 512}
# Keys of its published files, and what they say of the form that is supported, the first as usual.
_LONGFORMER_FORMS: dict[str, tuple[Any, ...]] = {
    "attention_mode": ("longformer", "sliding_chunks"),
    "autoregressive": (False,),
    "ignore_attention_mask": (False,),
    "onnx_export": (False, True),
}


@dataclasses.dataclass(frozen=True)
class DistilBertConfig(BertConfig):
    """The numbers of a DistilBERT (Sanh et al. 2019): BERT's layers, half of them, no segments.

    Attributes:
        type_vocab_size: 0, there are no segment embeddings; `segment_ids` are not looked at.

    Example:
        >>> DistilBertConfig.from_name("distilbert_base").num_hidden_layers
        6
    """

    model_type: ClassVar[str] = "distilbert"
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {"base": size_fields(6, 768)}
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {
        "activation": "hidden_act",
        "attention_dropout": "attention_probs_dropout_prob",
        "dim": "hidden_size",
        "dropout": "hidden_dropout_prob",
        "hidden_dim": "intermediate_size",
        "n_heads": "num_attention_heads",
        "n_layers": "num_hidden_layers",
        "seq_classif_dropout": "classifier_dropout",
    }
    has_segments: ClassVar[bool] = False
    has_segment_table: ClassVar[bool] = False
    pooler_act: ClassVar[str] = "relu"

    num_hidden_layers: int = 6
    type_vocab_size: int = 0

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of transformers under the names of our fields."""
        # Fields that DistilBERT does not have there, and what it reads where one is missing.
        known = {key: values[key] for key in values if key not in _NOT_READ}
        return super().in_our_names({"seq_classif_dropout": 0.2} | known)

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            if self.layer_norm_eps != _EPSILON:
                raise ValueError(
                    f"layer_norm_eps is {self.layer_norm_eps}: transformers' DistilBERT has "
                    f"{_EPSILON} in its code; save such a model in our own format"
                )
            del values["layer_norm_eps"], values["type_vocab_size"]
            if values["seq_classif_dropout"] is None:
                values["seq_classif_dropout"] = self.output_dropout_prob
        return values


@dataclasses.dataclass(frozen=True)
class ElectraConfig(BertConfig):
    """The numbers of an ELECTRA, discriminator or generator (Clark et al. 2020).

    Attributes:
        embedding_size: width of the embeddings, E; a dense layer leads to `hidden_size` where the
            two differ.
        generator_size: width, heads and feed-forward width of the generator that pretrains it, as
            a part of its own (paper section 3.2); Hugging Face's files do not keep it.

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> ElectraConfig.from_name("electra_small").embedding_size
        128
    """

    model_type: ClassVar[str] = "electra"
    # google-research/electra, configure_pretraining.py and its released configs.
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "small": {**size_fields(12, 256), "embedding_size": 128, "generator_size": 0.25},
        "base": {**size_fields(12, 768), "embedding_size": 768, "generator_size": 1 / 3},
        "large": {**size_fields(24, 1024), "embedding_size": 1024, "generator_size": 0.25},
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {}
    pooler_act: ClassVar[str] = "gelu"
    masked_lm_act: ClassVar[str | None] = "gelu"

    embedding_size: int = 128
    hidden_size: int = 256
    num_attention_heads: int = 4
    intermediate_size: int = 1024
    generator_size: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_embedding_size(self.embedding_size)
        size = self.generator_size
        if not is_number(size) or not 0 < size <= 1:
            raise ValueError(
                f"generator_size is {self.generator_size!r}: it must be above 0 and at most 1"
            )

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of transformers under the names of our fields."""
        # Some files hold the generator's size from their training as a string; of one written by
        # hand it is taken, though model_type alone makes it look like one of transformers.
        known = dict(values)
        if isinstance(known.get("generator_size"), str):
            del known["generator_size"]
        return super().in_our_names(known)

    @property
    def embedding_width(self) -> int:
        """Width of word, position and segment embeddings, E."""
        return self.embedding_size

    @property
    def generator(self) -> "ElectraConfig":
        """The config of the generator that pretrains this discriminator."""
        # As in google-research/electra, util/training_utils.py: the heads stay 64 wide where they
        # can, and there are as many layers.
        width = max(1, round(self.hidden_size * self.generator_size))
        heads = max(1, round(self.num_attention_heads * self.generator_size))
        heads = next(heads for heads in range(heads, 0, -1) if width % heads == 0)
        return self.replace(
            hidden_size=width,
            num_attention_heads=heads,
            intermediate_size=max(1, round(self.intermediate_size * self.generator_size)),
            # The discriminator's table is shared; a dense layer leads from it to the blocks.
            position_initializer="normal",
        )

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            del values["generator_size"]
        return values


@dataclasses.dataclass(frozen=True)
class AlbertConfig(BertConfig):
    """The numbers of an ALBERT (Lan et al. 2019): blocks that share parameters, narrow embeddings.

    Attributes:
        embedding_size: width of the embeddings, E; a dense layer leads to `hidden_size`, also where
            the two are equal.
        shared_parameters: what all blocks have one set of (paper table 4): "all"; "attention" or
            "feed_forward", each with the norm behind it; or "none". Dropout differs from block to
            block in any case. Hugging Face's files keep "all" alone.

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> AlbertConfig.from_name("albert_base").embedding_size
        128
    """

    model_type: ClassVar[str] = "albert"
    # As released in version 2 (google-research/albert), where heads of xlarge are 128 wide; "tiny"
    # has the numbers of BERT's, to try things out.
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "tiny": {**size_fields(2, 128), "embedding_size": 64},
        "base": size_fields(12, 768),
        "large": size_fields(24, 1024),
        "xlarge": {**size_fields(24, 2048), "num_attention_heads": 16},
        "xxlarge": size_fields(12, 4096),
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {
        "classifier_dropout_prob": "classifier_dropout"
    }

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_act: str = "gelu_tanh"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    classifier_dropout: float | None = 0.1
    shared_parameters: SharedParameters = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_embedding_size(self.embedding_size)
        check_choice("shared_parameters", self.shared_parameters, SharedParameters)

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of transformers under the names of our fields.

        Raises:
            ValueError: layers are in several groups, each with parameters of its own.
        """
        for key in _GROUPS:
            if values.get(key, 1) != 1:
                raise ValueError(
                    f"{key} is {values[key]!r}: groups of layers with parameters of their own are "
                    "not supported; in published models all layers share one set, so 1"
                )
        known = {key: value for key, value in values.items() if key not in _GROUPS}
        return super().in_our_names(_ALBERT_THERE | known)

    @property
    def embedding_width(self) -> int:
        """Width of word, position and segment embeddings, E."""
        return self.embedding_size

    @property
    def projects_embeddings(self) -> bool:
        """Whether a dense layer leads from the embeddings to the blocks: always."""
        return True

    @property
    def shares_attention(self) -> bool:
        """Whether all blocks attend with one set of parameters, the norm behind it among them."""
        return self.shared_parameters in ("all", "attention")

    @property
    def shares_feed_forward(self) -> bool:
        """Whether all blocks have one feed-forward layer, the norm behind it among it."""
        return self.shared_parameters in ("all", "feed_forward")

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            if values.pop("shared_parameters") != "all":
                raise ValueError(
                    f"shared_parameters is {self.shared_parameters!r}: the files of transformers "
                    "keep an ALBERT whose layers share all; save such a model in our own format"
                )
            values |= dict.fromkeys(_GROUPS, 1)
            if values["classifier_dropout_prob"] is None:
                values["classifier_dropout_prob"] = self.output_dropout_prob
        return values


@dataclasses.dataclass(frozen=True)
class RobertaConfig(BertConfig):
    """The numbers of a RoBERTa (Liu et al. 2019), of an XLM-RoBERTa or of a CamemBERT.

    Attributes:
        max_position_embeddings: the longest sequence in pieces, as in all families. The table of
            positions has `pad_token_id + 1` rows before the first that is used, and Hugging Face's
            files say the rows of the table: 514 where this says 512 and the padding id is 1.
        type_vocab_size: rows of the segment table, 1 in published models. `segment_ids` are not
            looked at: the first row is added everywhere, since the tokenizers give no segments.
        hugging_face_type: which of those transformers calls it: "roberta", "xlm-roberta" or
            "camembert". They differ in their vocabularies alone.

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> RobertaConfig.from_name("distilroberta_base").num_hidden_layers
        6
    """

    model_type: ClassVar[str] = "roberta"
    # The paper's, the distilled one of Sanh et al. 2019, and BERT's tiny one to try things out.
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "tiny": size_fields(2, 128),
        "base": size_fields(12, 768),
        "large": size_fields(24, 1024),
        "distilroberta_base": size_fields(6, 768),
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {}
    hugging_face_types: ClassVar[tuple[str, ...]] = ("xlm-roberta", "camembert")
    has_segments: ClassVar[bool] = False
    masked_lm_act: ClassVar[str | None] = "gelu"

    vocab_size: int = 50265
    type_vocab_size: int = 1
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 1
    hugging_face_type: str = "roberta"

    def __post_init__(self) -> None:
        super().__post_init__()
        known = (self.model_type, *self.hugging_face_types)
        if self.hugging_face_type not in known:
            raise ValueError(
                f"hugging_face_type is {self.hugging_face_type!r}: choose one of {', '.join(known)}"
            )

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of transformers under the names of our fields.

        Raises:
            ValueError: the table of positions has none behind that of the padding.
        """
        ours = super().in_our_names(_ROBERTA_THERE | dict(values))
        ours.setdefault("hugging_face_type", values.get("model_type", cls.model_type))
        rows, padding = ours["max_position_embeddings"], ours.get("pad_token_id")
        padding = 1 if padding is None else padding
        if not isinstance(rows, int) or not isinstance(padding, int) or rows <= padding + 1:
            raise ValueError(
                f"max_position_embeddings is {rows!r} and pad_token_id {padding!r}: positions "
                "begin behind that of the padding, so there is none; both must be integers, the "
                "first larger by 2 or more"
            )
        return ours | {"max_position_embeddings": rows - padding - 1}

    @property
    def first_position(self) -> int:
        """Row of the position table that the first piece of a text takes."""
        # fairseq, utils.make_positions: the row of the padding id is that of padding.
        return self.pad_token_id + 1

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            values["model_type"] = values.pop("hugging_face_type")
        return values


@dataclasses.dataclass(frozen=True)
class MPNetConfig(RobertaConfig):
    """The numbers of an MPNet (Song et al. 2020): a RoBERTa whose attention knows distances.

    Attributes:
        type_vocab_size: 0, there are no segment embeddings; `segment_ids` are not looked at.
        relative_attention_num_buckets: buckets of distances that attention tells apart: even, from
            4 to 256; 32 in published models.

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> MPNetConfig.from_name("mpnet_base").vocab_size
        30527
    """

    model_type: ClassVar[str] = "mpnet"
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "tiny": size_fields(2, 128),
        "base": size_fields(12, 768),
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {}
    hugging_face_types: ClassVar[tuple[str, ...]] = ()
    has_segment_table: ClassVar[bool] = False

    vocab_size: int = 30527
    type_vocab_size: int = 0
    hugging_face_type: str = "mpnet"
    relative_attention_num_buckets: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        count = self.relative_attention_num_buckets
        is_count = isinstance(count, int) and not isinstance(count, bool)
        if not is_count or count % 2 or not 4 <= count <= 256:
            raise ValueError(
                f"relative_attention_num_buckets is {count!r}: it must be even, from 4 to 256"
            )

    @property
    def distance_buckets(self) -> int:
        """Rows of the table of distances that attention reads."""
        return self.relative_attention_num_buckets

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of transformers under the names of our fields.

        Raises:
            ValueError: it names another padding id or number of buckets than transformers has.
        """
        ours = super().in_our_names(values)
        for key, known in _MPNET_THERE.items():
            if ours.setdefault(key, known) != known:
                raise ValueError(f"{key} is {ours[key]!r}: {_FIXED_THERE.format(known)}")
        return ours | {"type_vocab_size": 0}

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            for key, known in _MPNET_THERE.items():
                if values[key] != known:
                    raise ValueError(
                        f"{key} is {values[key]!r}: {_FIXED_THERE.format(known)}; save such a "
                        "model in our own format"
                    )
            del values["type_vocab_size"]
            if values["classifier_dropout"] is None:  # no key of theirs
                del values["classifier_dropout"]
        return values


@dataclasses.dataclass(frozen=True)
class MegatronBertConfig(BertConfig):
    """The numbers of a MegatronBERT (Shoeybi et al. 2019): BERT with norms before both halves.

    Example:
        >>> MegatronBertConfig.from_name("megatron_bert_345m").num_hidden_layers
        24
    """

    model_type: ClassVar[str] = "megatron-bert"
    # As published, and BERT's tiny one to try things out.
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "megatron_bert_tiny": size_fields(2, 128),
        "megatron_bert_345m": size_fields(24, 1024),
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {}
    is_pre_norm: ClassVar[bool] = True
    has_embedding_norm: ClassVar[bool] = False

    vocab_size: int = 29056
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf" and values["classifier_dropout"] is None:  # no key of theirs
            del values["classifier_dropout"]
        return values


class _AttentionInWindows:
    """What configs with attention in a sliding window have in common."""

    attention_window: int
    global_tokens: int
    left_to_right: bool

    def _check_window(self) -> None:
        for name, least in (("attention_window", 1), ("global_tokens", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}: it must be an integer of at least {least}")
        if self.left_to_right:
            raise ValueError("left_to_right is True: attention in a window has no such form")

    @property
    def has_local_attention(self) -> bool:
        """Always."""
        return True

    def attention_pairs(self, length: int) -> int:
        """Returns how many pairs of positions attention computes, see `BertConfig`."""
        window, first = self.attention_window, self.global_tokens
        if length <= 3 * window:  # one block
            return length * (length + first) + first * length
        padded = -(-length // window) * window  # whole blocks
        return padded * (3 * window + first) + first * length


@dataclasses.dataclass(frozen=True)
class LongformerConfig(_AttentionInWindows, RobertaConfig):
    """The numbers of a Longformer (Beltagy et al. 2020): a RoBERTa for long texts.

    Attributes:
        attention_window: how far a position sees to each side, in pieces. Hugging Face's files say
            both sides together, for each layer: 512 where this says 256.
        global_tokens: so many first positions see all and are seen by all; the first is <s>. They
            see through projections of their own. transformers has no such number: there it is an
            input, `global_attention_mask`; its classifier takes <s>, which is 1.
        left_to_right: always False.

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> LongformerConfig.from_name("longformer_base").max_position_embeddings
        4096
    """

    model_type: ClassVar[str] = "longformer"
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "tiny": size_fields(2, 128),
        "base": size_fields(12, 768),
        "large": size_fields(24, 1024),
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {}
    hugging_face_types: ClassVar[tuple[str, ...]] = ()

    max_position_embeddings: int = 4096
    hugging_face_type: str = "longformer"
    attention_window: int = 256
    global_tokens: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_window()

    @property
    def projects_global_attention(self) -> bool:
        """Always."""
        return True

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of transformers under the names of our fields.

        Raises:
            ValueError: layers have windows of different widths, or attention is of another form.
        """
        ours = super().in_our_names(_LONGFORMER_THERE | dict(values))
        for key, known in _LONGFORMER_FORMS.items():
            value = ours.pop(key, known[0])
            if value not in known:
                raise ValueError(f"{key} is {value!r}: only {known[0]!r} is supported")
        layers = ours.get("num_hidden_layers", cls.num_hidden_layers)
        if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
            raise ValueError(
                f"num_hidden_layers is {layers!r}: it must be an integer of at least 1"
            )
        dilation = ours.pop("attention_dilation", 1)
        if _of_every_layer(dilation, layers) not in (None, 1):
            raise ValueError(
                f"attention_dilation is {dilation!r}: only 1 is supported in all layers"
            )
        windows = ours["attention_window"]
        width = _of_every_layer(windows, layers)
        if not isinstance(width, int) or width < 2 or width % 2:
            raise ValueError(
                f"attention_window is {windows!r}: it must be one even number of pieces, the same "
                f"in all {layers} layers"
            )
        return ours | {"attention_window": width // 2}

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            values["attention_window"] = [2 * self.attention_window] * self.num_hidden_layers
            if self.global_tokens == 1:  # no key of theirs; another number must not be lost
                del values["global_tokens"]
            if values["classifier_dropout"] is None:  # no key of theirs
                del values["classifier_dropout"]
        return values


def _of_every_layer(value: Any, layers: int) -> Any:
    """Returns what a list with one and the same value for each layer holds; all else as it is."""
    if isinstance(value, list) and len(value) == layers == value.count(value[0]):
        return value[0]
    return value


@dataclasses.dataclass(frozen=True)
class LocalBertConfig(_AttentionInWindows, BertConfig):
    """The numbers of a BERT for long texts: attention in a sliding window (Beltagy et al. 2020).

    Weights and layers are BERT's; transformers has no such model. Its Longformer is a RoBERTa with
    projections of its own for global positions, see `LongformerConfig`.

    Attributes:
        attention_window: how far a position sees to each side, in pieces.
        global_tokens: so many first positions see all and are seen by all; the first is [CLS].
        left_to_right: always False.

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> LocalBertConfig.from_name("local_bert_base").attention_window
        256
    """

    model_type: ClassVar[str] = "local_bert"

    max_position_embeddings: int = 4096
    attention_window: int = 256
    global_tokens: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_window()


def _check_embedding_size(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"embedding_size is {value!r}: it must be an integer of at least 1")


for _config_class in (
    *(DistilBertConfig, ElectraConfig, AlbertConfig, RobertaConfig),
    *(MPNetConfig, LongformerConfig, LocalBertConfig, MegatronBertConfig),
):
    CONFIG_CLASSES[_config_class.model_type] = _config_class
