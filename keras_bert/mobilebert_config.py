"""The numbers of a MobileBERT, whose blocks are narrow inside (Sun et al. 2020, arXiv:2004.02984).

                BERT                        MobileBERT
words           as wide as the encoder      narrow; each with its two neighbours, then dense
blocks          as wide as the encoder      a dense layer leads into a narrow block, one out of it
feed-forward    one                         several behind each other
norms           layer norm                  a scale and an offset for each number, no statistics
[CLS]           dense, tanh                 as it is

The paper's tables 1 and 2 have the sizes. Its teacher, IB-BERT, is the other way round: blocks that
are wider inside, layer norms, and attention that reads the states outside of them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from keras_bert.choices import check_choice
from keras_bert.config import CONFIG_CLASSES, BertConfig, Dialect

NormalizationType = Literal["no_norm", "layer_norm"]
# What query and key read, and what the value reads.
AttentionInput = Literal["bottleneck", "shared_bottleneck", "hidden"]
# What google-research/mobilebert, modeling.py, takes where a file names none, other than we do.
_GOOGLE_THERE: Mapping[str, Any] = {
    **{"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
    **{"intermediate_size": 3072, "hidden_act": "gelu", "hidden_dropout_prob": 0.1},
    **{"trigram_input": False, "use_bottleneck": False, "key_query_shared_bottleneck": False},
    **{"num_feedforward_networks": 1, "normalization_type": "layer_norm"},
    "classifier_activation": True,
}
_SWITCHES = (
    *("trigram_input", "use_bottleneck", "use_bottleneck_attention"),
    *("key_query_shared_bottleneck", "classifier_activation"),
)


@dataclasses.dataclass(frozen=True)
class MobileBertConfig(BertConfig):
    """The numbers of a MobileBERT (Sun et al. 2020), or of the IB-BERT that teaches one.

    Attributes:
        hidden_size: width of the states between blocks, H.
        intermediate_size: width inside of each feed-forward network.
        hidden_dropout_prob: dropout behind the embeddings and where a block leads back to H.
        embedding_size: width of the word embeddings, E.
        trigram_input: whether a word is read with the one before and the one behind it.
        use_bottleneck: whether blocks have a width of their own.
        intra_bottleneck_size: that width, W.
        use_bottleneck_attention: whether attention reads what goes into the block, [..., W].
        key_query_shared_bottleneck: whether, else, query and key read a second dense layer, and the
            value the states outside of the block; without either switch all three read these.
        num_feedforward_networks: feed-forward networks of a block, one behind the other.
        normalization_type: "no_norm" or "layer_norm"; the head of masked words has a layer norm in
            any case. Of layer norms those of the embeddings and of the last feed-forward network
            have the epsilon 1e-5, as in transformers, the others `layer_norm_eps`.
        classifier_activation: whether a dense layer with tanh reads [CLS]; else nothing does.
        left_to_right: always False.

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> MobileBertConfig.from_name("mobilebert").num_feedforward_networks
        4
    """

    model_type: ClassVar[str] = "mobilebert"
    # google-research/mobilebert, config/: F-4_OPT, F-2_tiny_OPT, and the teacher.
    named_sizes: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mobilebert": {"classifier_activation": False},
        "mobilebert_tiny": {
            **{"classifier_activation": False, "num_feedforward_networks": 2},
            **{"use_bottleneck_attention": True, "key_query_shared_bottleneck": False},
        },
        "ib_bert_large": {
            **{"intra_bottleneck_size": 1024, "intermediate_size": 4096, "hidden_act": "gelu_tanh"},
            **{"hidden_dropout_prob": 0.1, "key_query_shared_bottleneck": False},
            **{"num_feedforward_networks": 1, "normalization_type": "layer_norm"},
        },
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {}
    google_fields: ClassVar[tuple[str, ...] | None] = (
        *("embedding_size", "trigram_input", "use_bottleneck", "intra_bottleneck_size"),
        *("use_bottleneck_attention", "key_query_shared_bottleneck"),
        *("num_feedforward_networks", "normalization_type", "classifier_activation"),
    )

    hidden_size: int = 512
    num_hidden_layers: int = 24
    num_attention_heads: int = 4
    intermediate_size: int = 512
    hidden_act: str = "relu"
    hidden_dropout_prob: float = 0.0
    embedding_size: int = 128
    trigram_input: bool = True
    use_bottleneck: bool = True
    intra_bottleneck_size: int = 128
    use_bottleneck_attention: bool = False
    key_query_shared_bottleneck: bool = True
    num_feedforward_networks: int = 4
    normalization_type: NormalizationType = "no_norm"
    classifier_activation: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("embedding_size", "intra_bottleneck_size", "num_feedforward_networks"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}: it must be an integer of at least 1")
        for name in _SWITCHES:
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ValueError(f"{name} is {value!r}: it must be true or false")
        check_choice("normalization_type", self.normalization_type, NormalizationType)
        if self.block_width % self.num_attention_heads:
            raise ValueError(
                f"intra_bottleneck_size {self.block_width} is not divisible by num_attention_heads "
                f"{self.num_attention_heads}: choose a number of heads that divides it"
            )
        if self.embedding_size > self.hidden_size:
            raise ValueError(
                f"embedding_size {self.embedding_size} is larger than hidden_size "
                f"{self.hidden_size}: the head of masked words adds columns to the word "
                "embeddings up to hidden_size, so give at most as many"
            )
        if self.left_to_right:
            raise ValueError(
                "left_to_right is True: a MobileBERT reads a word with the one behind it, leave it "
                "out"
            )
        if self.position_initializer == "neighbors":
            raise ValueError(
                'position_initializer is "neighbors", but a bottleneck leads to the first '
                'attention and mixes the positions: choose "sinusoids"'
            )

    @property
    def block_width(self) -> int:
        """Width inside of a block, W."""
        return self.intra_bottleneck_size if self.use_bottleneck else self.hidden_size

    @property
    def attention_input(self) -> AttentionInput:
        """What attention reads: what goes into the block, a second such layer, or hidden states."""
        if not self.use_bottleneck:
            return "hidden"
        if self.use_bottleneck_attention:
            return "bottleneck"
        return "shared_bottleneck" if self.key_query_shared_bottleneck else "hidden"

    @property
    def embedding_width(self) -> int:
        """Width of the word embeddings, E."""
        return self.embedding_size

    @property
    def projects_embeddings(self) -> bool:
        """Whether a dense layer stands behind the embeddings: no, theirs stands inside of them."""
        return False

    @property
    def transforms_words(self) -> bool:
        """Whether a dense layer leads from words to H, before positions are added."""
        return self.trigram_input or self.embedding_size != self.hidden_size

    @property
    def position_width(self) -> int:
        """Width of position and segment embeddings: H."""
        return self.hidden_size

    @property
    def output_width(self) -> int:
        """Width of the vectors that the head of masked words compares with words: H."""
        return self.hidden_size

    @property
    def has_pooler(self) -> bool:
        """Whether a dense layer reads [CLS]."""
        return self.classifier_activation

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of transformers under the names of our fields.

        Raises:
            ValueError: `true_hidden_size`, which follows from others, is another number.
        """
        ours = super().in_our_names(values)
        inside = ours.get("use_bottleneck", cls.use_bottleneck)
        field = "intra_bottleneck_size" if inside else "hidden_size"
        width = ours.get(field, getattr(cls, field))
        if ours.pop("true_hidden_size", width) != width:
            raise ValueError(
                f"true_hidden_size is {values['true_hidden_size']!r}: it must equal {field}, which "
                f"is {width!r}; take it out of the file"
            )
        return ours

    @classmethod
    def in_google_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of Google's, and what its code takes besides."""
        ours = {**_GOOGLE_THERE, **values}
        width = ours["hidden_size"]
        return {"embedding_size": width, "intra_bottleneck_size": width} | ours

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            inside = self.use_bottleneck and self.attention_input == "hidden"
            if inside and self.intra_bottleneck_size != self.hidden_size:
                raise ValueError(
                    "use_bottleneck_attention and key_query_shared_bottleneck are False and "
                    f"intra_bottleneck_size is {self.intra_bottleneck_size}: transformers' "
                    "attention cannot read hidden states of another width; save such a model in "
                    "our own format"
                )
            # A second bottleneck beside the first would be there and read by nothing.
            values["key_query_shared_bottleneck"] = self.attention_input == "shared_bottleneck"
        return values


CONFIG_CLASSES[MobileBertConfig.model_type] = MobileBertConfig
