"""The numbers of encoders that turn queries and keys: NomicBERT, GTE, Jina's and EuroBERT.

              BERT                      NomicBERT (arXiv:2402.01613)   GTE (arXiv:2407.19669)
positions     a table, added to words   angles by which queries and keys are turned
segments      2                         2                              none, or one of all pieces
feed-forward  dense, gelu, dense        with a gate beside the silu    with a gate beside the gelu
dense layers  with biases               without                        without before the gate
[CLS]         dense, tanh               the same, published with a classifier alone

Norms stand behind each half of a block, as in BERT. The encoder of Jina Embeddings v3
(arXiv:2409.10173) is an XLM-RoBERTa with such angles in place of a table of positions. EuroBERT
(arXiv:2503.05500) is a Llama that sees to both sides: root-mean-square norms before each half and
at the end, no biases, a gate beside the silu, fewer heads of keys and values than of queries, and
masked words that are scored by a matrix alone, mostly one of its own. Models of all of them are
published in the form of the code beside them, whose keys and tensors have other names than those of
transformers, which has had these families since version 5. Either form is read, that of
transformers is written.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from keras_bert.config import CONFIG_CLASSES, BertConfig, Dialect, is_number, size_fields
from keras_bert.modernbert_config import check_even_heads

# Of published code: programs, kernels and training.
_PASSED_OVER = frozenset(
    "add_pooling_layer auto_map dense_seq_output fused_bias_fc fused_dropout_add_ln pack_qkv"
    " pad_vocab_size_multiple reorder_and_upcast_attn unpad_inputs use_flash_attn"
    " use_memory_efficient_attention use_xentropy".split()
)
_DEFAULT, _LINEAR, _NTK = "default", "linear", "ntk"
_ANGLES, _SCALING = "rope_parameters", "rope_scaling"
# Keys of mixtures of experts, where `_EVERY` says that no block has one.
_EVERY = "moe_every_n_layers"
_EXPERTS = frozenset(
    "expert_choice_router ffn_div moe_impl moe_normalize_expert_weights moe_resid_pdrop moe_top_k"
    " num_experts num_shared_experts router_aux_loss_coef".split()
)
# Special tokens by their spelling, which tokenizers know.
_SPELLED_TOKENS = frozenset("bos_token eos_token mask_token pad_token pretraining_tp".split())
# Of Jina Embeddings v3: its adapters, one for each task, and widths of vectors that are as good.
_TASK_ADAPTERS = frozenset(
    "load_trained_adapters lora_adaptations lora_alpha lora_dropout_p lora_main_params_trainable"
    " lora_rank matryoshka_dimensions task_instructions".split()
)
TextPooling = Literal["bos", "mean", "late"]
# Texts of the pretraining of a NomicBERT whose file does not say how long they were, in pieces.
_TRAINED_POSITIONS = 2048
# Numbers of a file in published form that does not name them: those of GPT-2 and of its code, and
# those of GTE's.
_NOMIC_THERE = {"layer_norm_epsilon": 1e-5, "rotary_emb_base": 10_000.0}
_NEW_THERE = {
    **{"vocab_size": 30528, "max_position_embeddings": 2048, "type_vocab_size": 1},
    **{"rope_theta": 10_000.0, "pad_token_id": 0},
}
# Of gte-base-en-v1.5 and gte-large-en-v1.5: a theta of 500,000 and a fixed NTK scaling of 2.
_ENGLISH: Mapping[str, int | float] = {
    **{"vocab_size": 30528, "type_vocab_size": 0, "pad_token_id": 0},
    **{"rope_theta": 1_000_000.0, "rope_factor": 2.0 ** (1 / 32)},
}


@dataclasses.dataclass(frozen=True)
class RotaryBertConfig(BertConfig):
    """What NomicBERT and GTE have in common; see `NomicBertConfig` and `GteConfig`."""

    hugging_face_types: ClassVar[tuple[str, ...]] = ()
    # Of published code: key -> field, the keys of which models have different forms, each with what
    # it means where a file does not name it and the only one supported, and who has that one.
    published_names: ClassVar[Mapping[str, str]] = {}
    published_forms: ClassVar[Mapping[str, tuple[Any, Any]]] = {}
    published_models: ClassVar[str] = ""
    rope_types: ClassVar[tuple[str, ...]] = (_DEFAULT, _LINEAR)
    has_position_table: ClassVar[bool] = False
    has_gates: ClassVar[bool] = True

    rope_theta: float = 10_000.0
    rope_factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rope_theta", "rope_factor"):
            value = getattr(self, name)
            if not is_number(value) or not value > 0:
                raise ValueError(f"{name} is {value!r}: it must be a number above 0")
        check_even_heads(self)

    @classmethod
    def is_published_form(cls, values: Mapping[str, Any]) -> bool:
        """Whether the content of a config file has the form of the code beside published models."""
        theirs = {*cls.published_names, *cls.published_forms, _SCALING}
        return not theirs.isdisjoint(values) or values.get("model_type") in cls.hugging_face_types

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of either form under the names of our fields.

        Raises:
            ValueError: the model has a form that is not supported, or keys contradict each other.
        """
        known = {key: value for key, value in values.items() if key not in _PASSED_OVER}
        # A file that says its angles as transformers does is from after published code.
        is_older = cls.is_published_form(values) and _ANGLES not in values
        for key, (there, form) in cls.published_forms.items():
            value = known.pop(key, there if is_older else form)
            if value != form:
                missing = "" if key in values else ", as the file does not name it"
                raise ValueError(
                    f"{key} is {value!r}{missing}: only {form!r} is supported, as in "
                    f"{cls.published_models}; take one of those"
                )
        for key, field in cls.published_names.items():
            if key in known and known.setdefault(field, known[key]) != known[key]:
                raise ValueError(
                    f"{key} is {known[key]!r}, and {field}, which says the same, is "
                    f"{known[field]!r}"
                )
            known.pop(key, None)
        angles = {key: known.pop(key, None) for key in (_ANGLES, _SCALING)}
        ours = super().in_our_names(known)
        width, heads = (
            ours.get(name, getattr(cls, name)) for name in ("hidden_size", "num_attention_heads")
        )
        size = ours.pop("head_dim", None)
        are_numbers = all(isinstance(number, int) and number > 0 for number in (width, heads))
        if size is not None and are_numbers and size != width / heads:
            raise ValueError(
                f"head_dim is {size!r}: only heads that divide hidden_size {width} among "
                f"num_attention_heads {heads} are supported"
            )
        head_size = width / heads if are_numbers else 1  # else the config refuses them
        for key, value in angles.items():
            beside = ours.get("rope_theta")
            ours |= _angles(key, value, beside, cls.rope_theta, head_size, cls.rope_types)
        return ours

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            theta, factor = values.pop("rope_theta"), values.pop("rope_factor")
            values[_ANGLES] = {"rope_type": _DEFAULT, "rope_theta": theta}
            if factor != 1:
                values[_ANGLES] |= {"rope_type": _LINEAR, "factor": factor}
        return values


def _angles(
    key: str,
    value: Any,
    beside: Any,
    default: float,
    head_size: float,
    supported: tuple[str, ...],
) -> dict[str, Any]:
    """Returns `rope_theta` and `rope_factor` of what a config file says of angles.

    Args:
        key: "rope_parameters" or "rope_scaling".
        value: what the file has there, None for nothing.
        beside: the base that another key of the file says, None without one.
        default: the base of a file that says none.
        head_size: width of a head, D.
        supported: the kinds that the family has.

    Raises:
        ValueError: angles are made in a way that is not supported.
    """
    if not value:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} is {value!r}: it must be an object with rope_type and its numbers")
    kind = value.get("rope_type", value.get("type", _DEFAULT))
    whole = value.get("partial_rotary_factor", 1) in (1, None)
    if kind not in supported or value.get("mixed_b") is not None or not whole:
        *others, last = supported
        raise ValueError(
            f"{key} is {dict(value)}: only the rope types {', '.join(others)} and {last} are "
            "supported, without mixed_b and with all of a head turned; angles that depend on the "
            "length of a text are not"
        )
    theta = value.get("rope_theta", default if beside is None else beside)
    if beside not in (None, theta):
        raise ValueError(
            f"{key} has the rope_theta {theta!r}, and the key beside it that says the same "
            f"{beside!r}"
        )
    factor: Any = 1.0 if kind == _DEFAULT else value.get("factor")
    for name, number in {"rope_theta": theta, "factor": factor}.items():
        if not is_number(number) or not number > 0:
            raise ValueError(f"{key} has the {name} {number!r}: it must be a number above 0")
    if kind == _NTK:
        # GTE's own code, as in vLLM's NTKScalingRotaryEmbedding: the base is multiplied by the
        # factor, the speeds divided by its power of 2 / D, whatever the length of a text.
        theta, factor = theta * factor, factor ** (2 / head_size)
    return {"rope_theta": theta, "rope_factor": factor}


@dataclasses.dataclass(frozen=True)
class NomicBertConfig(RotaryBertConfig):
    """The numbers of a NomicBERT (Nussbaum et al. 2024, arXiv:2402.01613).

    Attributes:
        intermediate_size: width of the feed-forward layer behind the gate, I.
        max_position_embeddings: the longest sequence in pieces; there is no table of positions.
        rope_theta: base of the angles by which queries and keys are turned, the same in all blocks.
        rope_factor: positions are divided by it before they make angles (position interpolation,
            arXiv:2306.15595).

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> NomicBertConfig.from_name("nomic_bert_base").rope_theta
        1000.0
    """

    model_type: ClassVar[str] = "nomic_bert"
    # As published, and BERT's tiny one to try things out.
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "tiny": size_fields(2, 128),
        "base": size_fields(12, 768),
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {}
    unbiased_layers: ClassVar[tuple[str, ...]] = (
        *("attention/query_key_value", "attention/output", "intermediate", "output"),
    )
    # modeling_hf_nomic_bert.py and its config, which is a GPT-2's with further keys.
    published_names: ClassVar[Mapping[str, str]] = {
        "attn_pdrop": "attention_probs_dropout_prob",
        "embd_pdrop": "hidden_dropout_prob",
        "layer_norm_epsilon": "layer_norm_eps",
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_inner": "intermediate_size",
        "n_layer": "num_hidden_layers",
        "resid_pdrop": "hidden_dropout_prob",
        "rotary_emb_base": "rope_theta",
    }
    published_forms: ClassVar[Mapping[str, tuple[Any, Any]]] = {
        "activation_function": ("gelu_new", "swiglu"),
        "causal": (False, False),
        "mlp_fc1_bias": (True, False),
        "mlp_fc2_bias": (True, False),
        "parallel_block": (False, False),
        "parallel_block_tied_norm": (False, False),
        "prenorm": (False, False),
        "qkv_proj_bias": (True, False),
        "rotary_emb_fraction": (0.0, 1.0),
        "rotary_emb_interleaved": (False, False),
        "rotary_emb_scale_base": (None, None),
        "scale_attn_by_inverse_layer_idx": (False, False),
        "scale_attn_weights": (True, True),
        "use_rms_norm": (False, False),
    }
    published_models: ClassVar[str] = "nomic-bert-2048 and nomic-embed-text-v1 and v1.5"

    vocab_size: int = 30528
    hidden_act: str = "silu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 2048
    rope_theta: float = 1000.0

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of either form under the names of our fields.

        Raises:
            ValueError: the model has a form that is not supported, or keys contradict each other.
        """
        known = dict(values)
        known.pop("position_embedding_type", None)  # which neither code reads
        if is_number(every := known.pop(_EVERY, None)):
            if every > 0:
                raise ValueError(
                    f"{_EVERY} is {every}: mixtures of experts, as nomic-embed-text-v2-moe has "
                    f"them, are not supported; take one of {cls.published_models}"
                )
            known = {key: value for key, value in known.items() if key not in _EXPERTS}
        # Beyond the length of its training angles would change with the length of the longest text
        # beside it (`rotary_scaling_factor`); up to there they are the usual ones.
        positions, trained, factor = (
            known.pop(key, None)
            for key in ("n_positions", "max_trained_positions", "rotary_scaling_factor")
        )
        if positions is not None:
            known.setdefault("max_position_embeddings", positions)
        if factor:
            longest = known.get("max_position_embeddings", cls.max_position_embeddings)
            lengths = (longest, trained or _TRAINED_POSITIONS)
            if all(map(is_number, lengths)):
                known["max_position_embeddings"] = min(lengths)
        if cls.is_published_form(values) and _ANGLES not in values:
            for key, there in _NOMIC_THERE.items():
                if key not in known:
                    known.setdefault(cls.published_names[key], there)
        if known.get("n_inner", 0) is None and isinstance(known.get("n_embd"), int):
            known["n_inner"] = 4 * known["n_embd"]
        return super().in_our_names(known)


@dataclasses.dataclass(frozen=True)
class GteConfig(RotaryBertConfig):
    """The numbers of a GTE of the second generation (mGTE, Zhang et al. 2024, arXiv:2407.19669).

    Attributes:
        intermediate_size: width of the feed-forward layer behind the gate, I.
        hidden_dropout_prob: dropout after the embeddings, after every sub-layer, and on what the
            gate lets through.
        max_position_embeddings: the longest sequence in pieces; there is no table of positions.
        type_vocab_size: 0, no segment embeddings, or 1, whose row is added everywhere;
            `segment_ids` are not looked at.
        rope_theta: base of the angles by which queries and keys are turned, the same in all blocks.
        rope_factor: positions are divided by it before they make angles (position interpolation,
            arXiv:2306.15595). The fixed NTK scaling by a factor f of English models is a
            `rope_theta` f times as large and a `rope_factor` of f to the power of 2 / D, D being
            the width of a head.

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> GteConfig.from_name("gte_large").num_hidden_layers
        24
    """

    model_type: ClassVar[str] = "gte"
    # gte-base-en-v1.5, gte-large-en-v1.5 and gte-multilingual-base; a tiny one to try things out.
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "tiny": {**size_fields(2, 128), **_ENGLISH},
        "base": {**size_fields(12, 768), **_ENGLISH},
        "large": {**size_fields(24, 1024), **_ENGLISH},
        "gte_multilingual_base": {**size_fields(12, 768), "rope_theta": 20_000.0},
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {}
    hugging_face_types: ClassVar[tuple[str, ...]] = ("new",)  # that of published files
    has_segments: ClassVar[bool] = False
    masked_lm_act: ClassVar[str | None] = "gelu"
    may_lack_segment_table: ClassVar[bool] = True
    rope_types: ClassVar[tuple[str, ...]] = (_DEFAULT, _LINEAR, _NTK)
    unbiased_layers: ClassVar[tuple[str, ...]] = ("intermediate",)
    published_forms: ClassVar[Mapping[str, tuple[Any, Any]]] = {
        "layer_norm_type": ("layer_norm", "layer_norm"),
        "logn_attention_clip1": (False, False),
        "logn_attention_scale": (False, False),
        "position_embedding_type": ("rope", "rope"),
    }
    published_models: ClassVar[str] = (
        "gte-base-en-v1.5, gte-large-en-v1.5 and gte-multilingual-base"
    )

    vocab_size: int = 250_048
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 8192
    type_vocab_size: int = 1
    pad_token_id: int = 1
    rope_theta: float = 160_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.type_vocab_size > 1:
            raise ValueError(
                f"type_vocab_size is {self.type_vocab_size}: a GTE has no segments, or one of all "
                "pieces, so 0 or 1"
            )

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of either form under the names of our fields.

        Raises:
            ValueError: the model has a form that is not supported, or keys contradict each other.
        """
        known = dict(values)
        if cls.is_published_form(values) and _ANGLES not in values:
            known = _NEW_THERE | known
            if known["pad_token_id"] is None:  # masks say what is padding, so any id will do
                known["pad_token_id"] = 0
        return super().in_our_names(known)


@dataclasses.dataclass(frozen=True)
class JinaEmbeddingsV3Config(RotaryBertConfig):
    """The numbers of Jina Embeddings v3 (Sturua et al. 2024, arXiv:2409.10173).

    Attributes:
        max_position_embeddings: the longest sequence in pieces; there is no table of positions.
        type_vocab_size: rows of the segment table, 1 in published models. `segment_ids` are not
            looked at: the first row is added everywhere.
        rope_theta: base of the angles by which queries and keys are turned, the same in all blocks.
        rope_factor: positions are divided by it before they make angles (position interpolation,
            arXiv:2306.15595).

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> JinaEmbeddingsV3Config.from_name("jina_embeddings_v3").num_hidden_layers
        24
    """

    model_type: ClassVar[str] = "jina_embeddings_v3"
    # As published, and BERT's tiny one to try things out.
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "tiny": size_fields(2, 128),
        "jina_embeddings_v3": size_fields(24, 1024),
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {}
    has_segments: ClassVar[bool] = False
    has_gates: ClassVar[bool] = False
    masked_lm_act: ClassVar[str | None] = "gelu"
    published_names: ClassVar[Mapping[str, str]] = {"rotary_emb_base": "rope_theta"}
    published_forms: ClassVar[Mapping[str, tuple[Any, Any]]] = {
        "emb_pooler": (None, None),
        "position_embedding_type": ("rotary", "rotary"),
        "truncate_dim": (None, None),
    }
    published_models: ClassVar[str] = "jina-embeddings-v3"

    vocab_size: int = 250_002
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    max_position_embeddings: int = 8194
    type_vocab_size: int = 1
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 1
    rope_theta: float = 20_000.0

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of either form under the names of our fields.

        Raises:
            ValueError: the model has a form that is not supported, or keys contradict each other.
        """
        known = {key: value for key, value in values.items() if key not in _TASK_ADAPTERS}
        if cls.is_published_form(values) and _ANGLES not in values:
            known.setdefault("rotary_emb_base", 10_000.0)
        return super().in_our_names(known)


@dataclasses.dataclass(frozen=True)
class EuroBertConfig(RotaryBertConfig):
    """The numbers of a EuroBERT (Boizard et al. 2025, arXiv:2503.05500).

    Attributes:
        intermediate_size: width of the feed-forward layer behind the gate, I.
        hidden_dropout_prob: dropout behind the attention, and between gate and output of a
            feed-forward layer; published models have none.
        max_position_embeddings: the longest sequence in pieces; there is no table of positions.
        type_vocab_size: 0, there are no segment embeddings; `segment_ids` are not looked at.
        layer_norm_eps: epsilon of every root-mean-square norm; transformers calls it
            `rms_norm_eps`.
        rope_theta: base of the angles by which queries and keys are turned, the same in all blocks.
        rope_factor: positions are divided by it before they make angles (position interpolation,
            arXiv:2306.15595).
        num_key_value_heads: heads of keys and of values, each of which as many heads of queries
            share; None for one each.
        tie_word_embeddings: whether masked words are scored with the word embeddings; else by a
            matrix of their own, "output_embeddings/embeddings".
        classifier_pooling: what a text's pooled output is: "bos", the pooler on the first piece;
            "mean", the pooler on the mean of all; or "late", the mean of the pooler on each.

    Raises:
        ValueError: a value is out of its range.

    Example:
        >>> EuroBertConfig.from_name("eurobert_610m").key_value_heads
        6
    """

    model_type: ClassVar[str] = "eurobert"
    # As published (table 1), and a tiny one to try things out.
    named_sizes: ClassVar[Mapping[str, Mapping[str, int | float]]] = {
        "tiny": {**size_fields(2, 128), "num_key_value_heads": 1},
        "210m": size_fields(12, 768),
        "610m": {
            **size_fields(26, 1152),
            **{"intermediate_size": 4096, "num_key_value_heads": 6},
        },
        "2.1b": {
            **size_fields(32, 2304),
            **{"num_attention_heads": 18, "intermediate_size": 6144, "num_key_value_heads": 6},
        },
    }
    hugging_face_names: ClassVar[Mapping[str, str] | None] = {
        "attention_dropout": "attention_probs_dropout_prob",
        "hidden_dropout": "hidden_dropout_prob",
        "rms_norm_eps": "layer_norm_eps",
    }
    has_segments: ClassVar[bool] = False
    has_segment_table: ClassVar[bool] = False
    is_pre_norm: ClassVar[bool] = True
    has_embedding_norm: ClassVar[bool] = False
    has_norm_offsets: ClassVar[bool] = False
    has_masked_lm_transform: ClassVar[bool] = False
    unbiased_layers: ClassVar[tuple[str, ...]] = NomicBertConfig.unbiased_layers
    pooler_act: ClassVar[str] = "gelu"
    published_names: ClassVar[Mapping[str, str]] = {"clf_pooling": "classifier_pooling"}
    published_forms: ClassVar[Mapping[str, tuple[Any, Any]]] = {
        "attention_bias": (False, False),
        "mlp_bias": (False, False),
    }
    published_models: ClassVar[str] = "EuroBERT-210m, EuroBERT-610m and EuroBERT-2.1B"

    vocab_size: int = 128_256
    hidden_act: str = "silu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 8192
    type_vocab_size: int = 0
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 128_001
    rope_theta: float = 250_000.0
    num_key_value_heads: int | None = None
    tie_word_embeddings: bool = False
    classifier_pooling: TextPooling = "late"

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.num_key_value_heads
        if heads is not None:
            is_count = isinstance(heads, int) and not isinstance(heads, bool) and heads > 0
            if not is_count or self.num_attention_heads % heads:
                raise ValueError(
                    f"num_key_value_heads is {heads!r}: it must divide num_attention_heads "
                    f"{self.num_attention_heads}, or be None for as many"
                )
        if not isinstance(self.tie_word_embeddings, bool):
            raise ValueError(
                f"tie_word_embeddings is {self.tie_word_embeddings!r}: it must be true or false"
            )
        if self.classifier_pooling not in get_args(TextPooling):
            raise ValueError(
                f"classifier_pooling is {self.classifier_pooling!r}: choose one of "
                f"{', '.join(get_args(TextPooling))}"
            )
        if self.left_to_right:
            raise ValueError("left_to_right is True: a EuroBERT sees to both sides")

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and of values; where they are fewer, several heads of queries share one."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def ties_words(self) -> bool:
        """Whether masked words are scored with the word embeddings, not a matrix of their own."""
        return self.tie_word_embeddings

    @property
    def summary(self) -> Literal["first", "last", "mean"]:
        """What the pooler reads: the state of the first piece, or those of all."""
        return "first" if self.classifier_pooling == "bos" else "mean"

    @property
    def pools_late(self) -> bool:
        """Whether the pooler reads each piece, and the mean is that of what it returns."""
        return self.classifier_pooling == "late"

    @classmethod
    def in_our_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a config file of either form under the names of our fields.

        Raises:
            ValueError: the model has a form that is not supported, or keys contradict each other.
        """
        known = {key: value for key, value in values.items() if key not in _SPELLED_TOKENS}
        tables = [known[key] for key in (_ANGLES, _SCALING) if isinstance(known.get(key), Mapping)]
        if not any("rope_theta" in table for table in tables):
            known.setdefault("rope_theta", 10_000.0)  # of either code
        if known.get("tie_word_embeddings", False) is None:
            known["tie_word_embeddings"] = False
        if known.get("pad_token_id", 0) is None:  # masks say what is padding, so any id will do
            known["pad_token_id"] = 0
        return super().in_our_names(known)

    def to_dict(self, dialect: Dialect = "keras_bert") -> dict[str, Any]:
        """Returns the fields under the names of a dialect; see `BertConfig.to_dict`."""
        values = super().to_dict(dialect)
        if dialect == "hf":
            values["num_key_value_heads"] = self.key_value_heads
            del values["type_vocab_size"]
        return values


for _config_class in (NomicBertConfig, GteConfig, JinaEmbeddingsV3Config, EuroBertConfig):
    CONFIG_CLASSES[_config_class.model_type] = _config_class
