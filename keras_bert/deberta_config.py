"""The numbers of a DeBERTa of version 2 or 3, whose attention knows distances and no positions.

                BERT                        DeBERTa (arXiv:2006.03654, arXiv:2111.09543)
positions       a table, added to words     a vector for each distance, in all blocks
scores          query and key               the same, and each of them with a distance
segments        added to words              none; ids of pairs are told apart by [SEP] alone
[CLS]           dense, tanh                 dense, gelu, in heads
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from keras_bert.config import CONFIG_CLASSES, BertConfig, Dialect

# The parts of a score that know distances, in the order of published files.
_KINDS = ("p2c|c2p", "p2c", "c2p")
# What transformers takes where a file names none, other than we do: version 2, xlarge.
_THERE = {
    **{"hidden_size": 1536, "num_hidden_layers": 24, "num_attention_heads": 24},
    "intermediate_size": 6144,
}
# Keys that say which form of attention a model has: what a file without them means to
# transformers, and the only form that is supported, which all published models have.
_FORMS: Mapping[str, tuple[Any, Any]] = {
    "relative_attention": (False, True),
    "position_biased_input": (True, False),
    "share_att_key": (False, True),
    "norm_rel_ebd": ("none", "layer_norm"),
    "pooler_hidden_act": ("gelu", "gelu"),
    "type_vocab_size": (0, 0),
}
# Of a convolution beside the first block, without which the others say nothing.
_CONVOLUTION = ("conv_kernel_size", "conv_act", "conv_groups")
# Written by transformers: the form of a head, which tensors tell as well.
_PASSED_OVER = frozenset(("legacy", "z_steps"))


@dataclasses.dataclass(frozen=True)
class DebertaV2Config(BertConfig):
    """The numbers of a DeBERTa of version 2 or 3 (He et al. 2020, 2021).

    Attributes:
        max_position_embeddings: the longest sequence in pieces; there is no table of positions.
        type_vocab_size: 0, there are no segment embeddings; `segment_ids` are not looked at.
        classifier_dropout: dropout before a task's output layer; transformers calls it
            `cls_dropout`.
        position_buckets: rows for distances to one side, half of them of one distance each, farther
            ones wider and wider: even. 0: as many rows as `max_relative_positions`.
        max_relative_positions: from here on all distances to a side share its last row; -1 takes
            `max_position_embeddings`.
        pos_att_type: which parts of a score know distances: "p2c|c2p", "c2p" (a query and the
            distance) or "p2c" (a key and the distance).

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> DebertaV2Config.from_name("deberta_v3_small").num_hidden_layers
        6
    """

    model_type: ClassVar[str] = "deberta-v2"
    # As published, and a tiny one to try things out.
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        f"{family}_{size}": {
            **{"num_hidden_layers": layers, "hidden_size": width},
            **{"num_attention_heads": width // 64, "intermediate_size": 4 * width},
            "vocab_size": vocab_size,
        }
        for family, size, layers, width, vocab_size in (
            ("deberta_v3", "tiny", 2, 128, 128_100),
            ("deberta_v3", "xsmall", 12, 384, 128_100),
            ("deberta_v3", "small", 6, 768, 128_100),
            ("deberta_v3", "base", 12, 768, 128_100),
            ("deberta_v3", "large", 24, 1024, 128_100),
            ("mdeberta_v3", "base", 12, 768, 251_000),
        )
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {"cls_dropout": "classifier_dropout"}
    has_segments: ClassVar[bool] = False
    has_segment_table: ClassVar[bool] = False
    has_position_table: ClassVar[bool] = False
    pooler_act: ClassVar[str] = "gelu"

    vocab_size: int = 128_100
    type_vocab_size: int = 0
    layer_norm_eps: float = 1e-7
    position_buckets: int = 256
    max_relative_positions: int = -1
    pos_att_type: str = "p2c|c2p"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("position_buckets", "max_relative_positions"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} is {value!r}: it must be an integer")
        buckets, most = self.position_buckets, self.max_relative_positions
        if buckets < 0 or buckets % 2:
            raise ValueError(
                f"position_buckets is {buckets}: it must be even, or 0 for one row a distance"
            )
        if most != -1 and most < 1:
            raise ValueError(
                f"max_relative_positions is {most}: it must be at least 1, or -1 for "
                "max_position_embeddings"
            )
        if buckets and self.farthest_distance <= buckets // 2 + 1:
            raise ValueError(
                f"position_buckets is {buckets}, and {buckets // 2} of them to a side hold one "
                f"distance each, but max_relative_positions is {self.farthest_distance}: give "
                "fewer buckets or a larger distance"
            )
        if self.pos_att_type not in _KINDS:
            raise ValueError(
                f"pos_att_type is {self.pos_att_type!r}: choose one of {', '.join(_KINDS)}"
            )

    @property
    def farthest_distance(self) -> int:
        """The distance from which on all to a side share its last row."""
        if self.max_relative_positions == -1:
            return self.max_position_embeddings
        return self.max_relative_positions

    @property
    def distance_vectors(self) -> int:
        """Rows of the table with a vector for each distance."""
        return 2 * (self.position_buckets or self.farthest_distance)

    @property
    def distance_products(self) -> int:
        """How often a block compares its positions with vectors of distances."""
        return len(self.pos_att_type.split("|"))

    def lengthened(self, max_position_embeddings: int) -> Self:
        """Returns a copy for longer texts, whose distances have the rows that they had before."""
        return self.replace(
            max_position_embeddings=max_position_embeddings,
            max_relative_positions=self.farthest_distance,
        )

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of transformers under the names of our fields.

        Raises:
            ValueError: the model has a form that is not supported.
        """
        known = {key: value for key, value in values.items() if key not in _PASSED_OVER}
        for key, (there, form) in _FORMS.items():
            value = known.pop(key, there)
            if value != form:
                missing = "" if key in values else ", as the file does not name it"
                raise ValueError(
                    f"{key} is {value!r}{missing}: only {form!r} is supported, as in published "
                    "models of versions 2 and 3; fine-tune one of those"
                )
        convolution = {key: known.pop(key) for key in _CONVOLUTION if key in known}
        if kernel := convolution.get("conv_kernel_size"):
            raise ValueError(
                f"conv_kernel_size is {kernel!r}: a convolution beside the first block, as "
                "deberta-v2-xlarge and -xxlarge have it, is not supported; take a DeBERTa of "
                "version 3"
            )
        ours = super().in_our_names(_THERE | known)
        ours["pos_att_type"] = _as_kind(ours.get("pos_att_type"))
        # Both are off there where they are below 1.
        for key, off in (("position_buckets", 0), ("max_relative_positions", -1)):
            value = ours.get(key, -1)
            ours[key] = off if isinstance(value, int) and value < 1 else value
        width, heads = ours["hidden_size"], ours["num_attention_heads"]
        if ours.pop("pooler_hidden_size", None) not in (None, width):
            raise ValueError(
                f"pooler_hidden_size is {values['pooler_hidden_size']!r}: only that of hidden_size,"
                f" {width!r}, is supported"
            )
        size = ours.pop("attention_head_size", None)
        if isinstance(size, int) and isinstance(heads, int) and size * heads != width:
            raise ValueError(
                f"attention_head_size is {size}: only heads that divide hidden_size {width} among "
                f"num_attention_heads {heads} are supported"
            )
        if ours.pop("pooler_dropout", 0):
            raise ValueError(
                f"pooler_dropout is {values['pooler_dropout']!r}: only 0 is supported; it changes "
                "training alone, so set it to 0 in the file to go on without"
            )
        return ours | {"type_vocab_size": 0}

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            values |= {key: form for key, (_, form) in _FORMS.items()}
            values["pos_att_type"] = self.pos_att_type.split("|")
            values["position_buckets"] = self.position_buckets or -1
            if values["cls_dropout"] is None:  # hidden_dropout_prob there, too
                del values["cls_dropout"]
        return values


def _as_kind(value: Any) -> Any:
    """Returns a `pos_att_type` of a file as ours; what is none as it is.

    Raises:
        ValueError: no part knows distances.
    """
    parts = value.lower().split("|") if isinstance(value, str) else value
    if not parts:
        raise ValueError(
            f"pos_att_type is {value!r}: a DeBERTa whose attention knows no distances is not "
            "supported; published models have p2c|c2p"
        )
    if isinstance(parts, list) and all(isinstance(part, str) for part in parts):
        # A file may name them in any order; what is none of them the config refuses.
        return "|".join(sorted({part.strip() for part in parts}, reverse=True))
    return value


CONFIG_CLASSES[DebertaV2Config.model_type] = DebertaV2Config
