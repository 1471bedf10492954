"""The numbers of a ModernBERT, which shares less with BERT than the other families do.

              BERT                       ModernBERT (arXiv:2412.13663)
positions     a table, added to words    angles by which queries and keys are turned
attention     all see all                so in every third block; a window in the others
norms         behind each half           before each half, and one at the end; no offsets
feed-forward  dense, gelu, dense         with a gate beside the gelu
dense layers  with biases                without
heads         a pooler on [CLS], or a    one dense layer, gelu and norm in front of every
              transform of its own       output layer: of [CLS] or the mean, and of tokens
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from keras_bert.config import CONFIG_CLASSES, MOST_DROPOUT, BertConfig, Dialect, is_number

Pooling = Literal["cls", "mean"]

# Keys of its files that change no output: training, programs, and what its code never reads.
_PASSED_OVER = frozenset(
    "deterministic_flash_attn initializer_cutoff_factor layer_norm_eps position_embedding_type"
    " reference_compile repad_logits_with_grad sparse_pred_ignore_index sparse_prediction".split()
)
# Keys of forms that no published model has otherwise.
_FORMS: Mapping[str, Any] = {
    "attention_bias": False,
    "causal_mask": False,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "decoder_bias": True,
    "is_causal": False,
    "mlp_bias": False,
    "norm_bias": False,
}
# Sequences of up to so many windows are attended to as a table of all pairs, longer ones in blocks.
WHOLE_WINDOWS = 8
_FULL, _SLIDING = "full_attention", "sliding_attention"
_THETAS = {_FULL: "global_rope_theta", _SLIDING: "local_rope_theta"}
_EVERY = "global_attn_every_n_layers"


@dataclasses.dataclass(frozen=True)
class ModernBertConfig(BertConfig):
    """The numbers of a ModernBERT (Warner et al. 2024).

    Attributes:
        intermediate_size: width of the feed-forward layer behind the gate, I.
        hidden_dropout_prob: dropout between gate and output of a feed-forward layer; transformers
            calls it `mlp_dropout`.
        attention_probs_dropout_prob: dropout on attention probabilities and behind the attention.
        embedding_dropout: dropout behind the embeddings.
        max_position_embeddings: the longest sequence in pieces; there is no table of positions.
        type_vocab_size: 0, there are no segment embeddings; `segment_ids` are not looked at.
        classifier_dropout: dropout before a task's output layer.
        attention_window: how far a position sees to each side in most blocks, in pieces. Hugging
            Face's files say both sides together, `local_attention`: 128 where this says 64.
        global_attention_every: of so many blocks the first sees all; 1 makes all of them do so.
        global_rope_theta: base of the angles where all see all.
        local_rope_theta: base of the angles in a window.
        classifier_pooling: what the pooler reads: "cls", the state of [CLS], or "mean", that of all
            pieces.
        left_to_right: always False.

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> ModernBertConfig.from_name("modernbert_base").num_hidden_layers
        22
    """

    model_type: ClassVar[str] = "modernbert"
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        # The two of the paper, and a tiny one to try things out.
        "tiny": {
            **{"num_hidden_layers": 4, "hidden_size": 128},
            **{"num_attention_heads": 2, "intermediate_size": 192},
        },
        "base": {
            **{"num_hidden_layers": 22, "hidden_size": 768},
            **{"num_attention_heads": 12, "intermediate_size": 1152},
        },
        "large": {
            **{"num_hidden_layers": 28, "hidden_size": 1024},
            **{"num_attention_heads": 16, "intermediate_size": 2624},
        },
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {
        "attention_dropout": "attention_probs_dropout_prob",
        "hidden_activation": "hidden_act",
        "local_attention": "attention_window",
        "mlp_dropout": "hidden_dropout_prob",
        "norm_eps": "layer_norm_eps",
        _EVERY: "global_attention_every",
    }
    has_segments: ClassVar[bool] = False
    has_segment_table: ClassVar[bool] = False
    has_position_table: ClassVar[bool] = False
    has_biases: ClassVar[bool] = False
    is_pre_norm: ClassVar[bool] = True
    has_gates: ClassVar[bool] = True
    reads_tokens_through_pooler: ClassVar[bool] = True
    pooler_act: ClassVar[str] = "gelu"

    vocab_size: int = 50368
    num_hidden_layers: int = 22
    intermediate_size: int = 1152
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 8192
    type_vocab_size: int = 0
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 50283
    classifier_dropout: float | None = 0.0
    embedding_dropout: float = 0.0
    attention_window: int = 64
    global_attention_every: int = 3
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    classifier_pooling: Pooling = "cls"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("attention_window", "global_attention_every"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}: it must be an integer of at least 1")
        for name in _THETAS.values():
            value = getattr(self, name)
            if not is_number(value) or not value > 0:
                raise ValueError(f"{name} is {value!r}: it must be a number above 0")
        dropout = self.embedding_dropout
        if not is_number(dropout) or not 0 <= dropout <= MOST_DROPOUT:
            raise ValueError(
                f"embedding_dropout is {dropout!r}: it must be a probability from 0 to 255/256"
            )
        if self.classifier_pooling not in get_args(Pooling):
            raise ValueError(
                f"classifier_pooling is {self.classifier_pooling!r}: choose one of "
                f"{', '.join(get_args(Pooling))}"
            )
        check_even_heads(self)
        if self.left_to_right:
            raise ValueError("left_to_right is True: attention in a window has no such form")

    def window_of(self, index: int) -> int:
        """Returns how far positions see in block `index`, counted from 0; 0: all of them."""
        return self.attention_window if index % self.global_attention_every else 0

    def theta_of(self, index: int) -> float:
        """Returns the base of the angles in block `index`, counted from 0."""
        return self.local_rope_theta if self.window_of(index) else self.global_rope_theta

    def attention_pairs(self, length: int) -> int:
        """Returns how many pairs of positions attention computes, the mean over the blocks."""
        window, layers = self.attention_window, self.num_hidden_layers
        everywhere = -(-layers // self.global_attention_every)  # blocks in which all see all
        # Whole blocks of as many positions as the window, each with its neighbours.
        near = -(-length // window) * window * 3 * window
        if length <= WHOLE_WINDOWS * window:
            near = length**2
        return (everywhere * length**2 + (layers - everywhere) * near) // layers

    @property
    def has_local_attention(self) -> bool:
        """Whether positions of some blocks see those near by alone."""
        return self.global_attention_every > 1

    @property
    def summary(self) -> Literal["first", "last", "mean"]:
        """What the pooler reads: the state of the first piece or the mean of all."""
        return "mean" if self.classifier_pooling == "mean" else "first"

    @property
    def transform_act(self) -> str:
        """Activation of the masked language model head, whatever that of the layers is."""
        return self.pooler_act

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of transformers under the names of our fields.

        Raises:
            ValueError: the model has a form that is not supported.
        """
        known = {key: value for key, value in values.items() if key not in _PASSED_OVER}
        for key, form in _FORMS.items():
            value = known.pop(key, form)
            if value != form:
                raise ValueError(
                    f"{key} is {value!r}: only {form!r} is supported, as in published models"
                )
        # transformers 5 names each block's attention, and puts the angles into a table.
        types, angles = known.pop("layer_types", None), known.pop("rope_parameters", None)
        if types is not None:
            if not isinstance(types, list):
                raise ValueError(
                    f"layer_types is {types!r}: it must be a list with the attention of each block"
                )
            every = known.setdefault(_EVERY, _distance_of_full(types))
            if not isinstance(every, int) or every < 1:
                raise ValueError(f"{_EVERY} is {every!r}: it must be an integer of at least 1")
            if types != [_SLIDING if i % every else _FULL for i in range(len(types))]:
                raise ValueError(
                    f"layer_types is {types}: only models whose attention is full in every n-th "
                    "block, the first among them, are supported"
                )
        if not isinstance(angles or {}, Mapping):
            raise ValueError(
                f"rope_parameters is {angles!r}: it must be an object with {' and '.join(_THETAS)}"
            )
        for kind, key in _THETAS.items():
            angle = (angles or {}).get(kind) or {}
            if not isinstance(angle, Mapping):
                raise ValueError(
                    f"rope_parameters[{kind!r}] is {angle!r}: it must be an object with rope_theta"
                )
            if angle.get("rope_type", "default") != "default":
                raise ValueError(
                    f"rope_parameters[{kind!r}] is {angle}: only the rope_type 'default' is "
                    "supported"
                )
            if "rope_theta" in angle:
                known[key] = angle["rope_theta"]
        ours = super().in_our_names(known)
        if ours.get("pad_token_id", 0) is None:  # masks say what is padding, so any id will do
            ours["pad_token_id"] = 0
        both_sides = ours.setdefault("attention_window", 2 * cls.attention_window)
        if not isinstance(both_sides, int) or both_sides < 2 or both_sides % 2:
            raise ValueError(
                f"local_attention is {both_sides!r}: it must be an even number of pieces"
            )
        return ours | {"attention_window": both_sides // 2, "type_vocab_size": 0}

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            values["local_attention"] *= 2
            values["classifier_dropout"] = self.output_dropout_prob
            del values["type_vocab_size"]
        return values


def check_even_heads(config: BertConfig) -> None:
    """Refuses heads whose halves cannot be the two coordinates of points that are turned."""
    if config.head_size % 2:
        raise ValueError(
            f"hidden_size {config.hidden_size} and num_attention_heads "
            f"{config.num_attention_heads} make heads {config.head_size} wide: choose an even "
            "width, whose halves are turned as coordinates of points"
        )


def _distance_of_full(types: list[str]) -> int:
    """Returns how many blocks lie from one with full attention to the next."""
    places = [index for index, kind in enumerate(types) if kind == _FULL]
    return places[1] - places[0] if len(places) > 1 else max(len(types), 1)


CONFIG_CLASSES[ModernBertConfig.model_type] = ModernBertConfig
