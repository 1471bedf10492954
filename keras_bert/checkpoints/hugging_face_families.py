"""What transformers calls the tensors of each family: one table of rows for each.

The names are those of `transformers`, models/bert/modeling_bert.py and its like. A `Linear` there
keeps its weight as [outputs, inputs].
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self

from keras_bert.checkpoints.model_classes import MODEL_CLASSES
from keras_bert.checkpoints.name_table import (
    GATE_FIRST_TRANSPOSED,
    HALVES,
    HALVES_TRANSPOSED,
    PARTS,
    PARTS_TRANSPOSED,
    SAME,
    TRANSPOSED,
    Row,
)
from keras_bert.checkpoints.variables import OUTPUT_EMBEDDINGS

_QUERY_KEY_VALUE = ("query", "key", "value")


def dense_rows(ours: str, theirs: str) -> list[Row]:
    """Returns the rows of a dense layer, a `Linear` there."""
    return [
        Row(f"{ours}/kernel", (f"{theirs}.weight",), TRANSPOSED),
        Row(f"{ours}/bias", (f"{theirs}.bias",)),
    ]


def norm_rows(ours: str, theirs: str) -> list[Row]:
    """Returns the rows of a layer norm."""
    return [
        Row(f"{ours}/gamma", (f"{theirs}.weight",)),
        Row(f"{ours}/beta", (f"{theirs}.bias",)),
    ]


def _attention(layer: str, parts: Collection[str], ours: str = "layer_{layer}") -> list[Row]:
    """Returns the rows of a projection, which holds `parts` side by side."""
    return [
        Row(
            f"{ours}/attention/query_key_value/{name}",
            tuple(f"{layer}.{part}.{theirs}" for part in parts),
            form,
        )
        for name, theirs, form in (
            ("kernel", "weight", PARTS_TRANSPOSED),
            ("bias", "bias", PARTS),
        )
    ]


def _embeddings(embeddings: str) -> list[Row]:
    return [
        Row("word_embeddings/embeddings", (f"{embeddings}.word_embeddings.weight",)),
        Row("embeddings/position_embeddings", (f"{embeddings}.position_embeddings.weight",)),
        Row("embeddings/segment_embeddings", (f"{embeddings}.token_type_embeddings.weight",)),
        *norm_rows("embeddings/layer_norm", f"{embeddings}.LayerNorm"),
    ]


def encoder_rows(prefix: str, attention: Collection[str] = _QUERY_KEY_VALUE) -> list[Row]:
    """Returns the rows of BERT and of those that share its code, as `ElectraModel` does."""
    layer = f"{prefix}encoder.layer.{{layer}}"
    return [
        *_embeddings(f"{prefix}embeddings"),
        *_attention(f"{layer}.attention.self", attention),
        *dense_rows("layer_{layer}/attention/output", f"{layer}.attention.output.dense"),
        *norm_rows("layer_{layer}/attention_norm", f"{layer}.attention.output.LayerNorm"),
        *dense_rows("layer_{layer}/intermediate", f"{layer}.intermediate.dense"),
        *dense_rows("layer_{layer}/output", f"{layer}.output.dense"),
        *norm_rows("layer_{layer}/feed_forward_norm", f"{layer}.output.LayerNorm"),
    ]


@dataclasses.dataclass(frozen=True)
class Family:
    """How transformers names the models of a family.

    Attributes:
        class_name: what stands before "Model" and "ForMaskedLM".
        prefix: before the tensors of the encoder, where there is a head.
        encoder: the encoder's rows.
        heads: rows of each head that the family has there, by our name of it.
        copies: see `Leftovers`.
        classes: names of classes that the rule (`MODEL_CLASSES`, with `class_name` in place of
            "Bert") does not give.
        idle: tensors that a head may hold beside its own, by our name of the head; see `Leftovers`.
        other_prefixes: those that files of others have in place of `prefix`.
        other_class_names: those that files of others have in place of `class_name`.
        absent: biases that some files leave out where others have zeros -> a tensor with as many
            rows; the first of these tells that there is the layer.
        published: the names of models whose code was published beside them, where they are others.
        mark: how a tensor that only files of that form have ends.
    """

    class_name: str
    prefix: str
    encoder: list[Row]
    heads: Mapping[str, list[Row]]
    copies: Mapping[str, str]
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    idle: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    other_prefixes: tuple[str, ...] = ()
    other_class_names: tuple[str, ...] = ()
    absent: Mapping[str, str] = dataclasses.field(default_factory=dict)
    published: "Family | None" = None
    mark: str = ""

    def of_file(self, names: Iterable[str]) -> "Family":
        """Returns the family with the names of tensors that a file has, whose tensors these are."""
        names = list(names)
        if self.published and any(name.endswith(self.published.mark) for name in names):
            return self.published.of_file(names)
        for prefix in self.other_prefixes:
            if any(name.startswith(prefix) for name in names):
                return self._with_prefix(prefix)
        return self

    def _with_prefix(self, prefix: str) -> Self:
        def spelled(name: str) -> str:
            begins = name.startswith(self.prefix)
            return prefix + name.removeprefix(self.prefix) if begins else name

        def rows(of: Iterable[Row]) -> list[Row]:
            return [Row(row.ours, tuple(map(spelled, row.theirs)), row.form) for row in of]

        return dataclasses.replace(
            self,
            prefix=prefix,
            encoder=rows(self.encoder),
            heads={head: rows(of) for head, of in self.heads.items()},
            absent={name: spelled(like) for name, like in self.absent.items()},
        )

    def model_classes(self, architecture: str) -> tuple[str, ...]:
        """Returns all names that files have for it, that of `model_class` first."""
        usual = self.model_class(architecture)
        others = [usual.replace(self.class_name, name, 1) for name in self.other_class_names]
        return usual, *others

    def model_class(self, architecture: str) -> str:
        """Returns the name there of a model of this family with a head of ours."""
        if architecture in self.classes:
            return self.classes[architecture]
        name = MODEL_CLASSES[architecture].hugging_face or ""
        return name.replace("Bert", self.class_name, 1)


BERT_MASKED_LM = [
    *dense_rows("masked_lm_transform/dense", "cls.predictions.transform.dense"),
    *norm_rows("masked_lm_transform/layer_norm", "cls.predictions.transform.LayerNorm"),
    Row("masked_lm_bias/bias", ("cls.predictions.bias",), SAME),
]
_BERT_POOLER = dense_rows("pooler", "bert.pooler.dense")
_CLASSIFIER = dense_rows("classifier", "classifier")
_SPAN = dense_rows("span", "qa_outputs")
BERT = Family(
    "Bert",
    "bert.",
    [*encoder_rows("bert."), *_BERT_POOLER],
    {
        "BertEncoder": [],
        "BertMaskedLM": BERT_MASKED_LM,
        "BertPretrainer": [*BERT_MASKED_LM, *dense_rows("next_sentence", "cls.seq_relationship")],
        "BertClassifier": _CLASSIFIER,
        "BertTokenClassifier": _CLASSIFIER,
        "BertMultipleChoice": _CLASSIFIER,
        "BertSpanLabeler": _SPAN,
    },
    {
        "cls.predictions.decoder.weight": "word_embeddings/embeddings",
        "cls.predictions.decoder.bias": "masked_lm_bias/bias",
    },
)
_DISTILBERT_LAYER = "distilbert.transformer.layer.{layer}"
_DISTILBERT_POOLER = dense_rows("pooler", "pre_classifier")  # a part of two heads
_DISTILBERT = Family(
    "DistilBert",
    "distilbert.",
    [
        Row("word_embeddings/embeddings", ("distilbert.embeddings.word_embeddings.weight",)),
        Row(
            "embeddings/position_embeddings", ("distilbert.embeddings.position_embeddings.weight",)
        ),
        *norm_rows("embeddings/layer_norm", "distilbert.embeddings.LayerNorm"),
        *_attention(f"{_DISTILBERT_LAYER}.attention", ("q_lin", "k_lin", "v_lin")),
        *dense_rows("layer_{layer}/attention/output", f"{_DISTILBERT_LAYER}.attention.out_lin"),
        *norm_rows("layer_{layer}/attention_norm", f"{_DISTILBERT_LAYER}.sa_layer_norm"),
        *dense_rows("layer_{layer}/intermediate", f"{_DISTILBERT_LAYER}.ffn.lin1"),
        *dense_rows("layer_{layer}/output", f"{_DISTILBERT_LAYER}.ffn.lin2"),
        *norm_rows("layer_{layer}/feed_forward_norm", f"{_DISTILBERT_LAYER}.output_layer_norm"),
    ],
    {
        "BertEncoder": [],
        "BertMaskedLM": [
            *dense_rows("masked_lm_transform/dense", "vocab_transform"),
            *norm_rows("masked_lm_transform/layer_norm", "vocab_layer_norm"),
            Row("masked_lm_bias/bias", ("vocab_projector.bias",), SAME),
        ],
        "BertClassifier": [*_DISTILBERT_POOLER, *_CLASSIFIER],
        "BertTokenClassifier": _CLASSIFIER,
        "BertMultipleChoice": [*_DISTILBERT_POOLER, *_CLASSIFIER],
        "BertSpanLabeler": _SPAN,
    },
    {"vocab_projector.weight": "word_embeddings/embeddings"},
)
ELECTRA = Family(
    "Electra",
    "electra.",
    [*encoder_rows("electra."), *dense_rows("embeddings_projection", "electra.embeddings_project")],
    {
        "BertEncoder": [],
        "BertMaskedLM": [  # the generator
            *dense_rows("masked_lm_transform/dense", "generator_predictions.dense"),
            *norm_rows("masked_lm_transform/layer_norm", "generator_predictions.LayerNorm"),
            Row("masked_lm_bias/bias", ("generator_lm_head.bias",), SAME),
        ],
        "BertReplacedTokenDetector": [  # the discriminator
            *dense_rows("replaced_token/dense", "discriminator_predictions.dense"),
            *dense_rows("replaced_token/prediction", "discriminator_predictions.dense_prediction"),
        ],
        "BertClassifier": [
            *dense_rows("pooler", "classifier.dense"),
            *dense_rows("classifier", "classifier.out_proj"),
        ],
        "BertTokenClassifier": _CLASSIFIER,
        "BertMultipleChoice": [*dense_rows("pooler", "sequence_summary.summary"), *_CLASSIFIER],
        "BertSpanLabeler": _SPAN,
    },
    {"generator_lm_head.weight": "word_embeddings/embeddings"},
    {"BertReplacedTokenDetector": "ElectraForPreTraining"},
)
_ALBERT_LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0"
_ALBERT_MASKED_LM = [
    *dense_rows("masked_lm_transform/dense", "predictions.dense"),
    *norm_rows("masked_lm_transform/layer_norm", "predictions.LayerNorm"),
    Row("masked_lm_bias/bias", ("predictions.bias",), SAME),
]
_ALBERT = Family(
    "Albert",
    "albert.",
    [
        *_embeddings("albert.embeddings"),
        *dense_rows("embeddings_projection", "albert.encoder.embedding_hidden_mapping_in"),
        # One set of parameters, which all layers share.
        *_attention(f"{_ALBERT_LAYER}.attention", _QUERY_KEY_VALUE, "layer_0"),
        *dense_rows("layer_0/attention/output", f"{_ALBERT_LAYER}.attention.dense"),
        *norm_rows("layer_0/attention_norm", f"{_ALBERT_LAYER}.attention.LayerNorm"),
        *dense_rows("layer_0/intermediate", f"{_ALBERT_LAYER}.ffn"),
        *dense_rows("layer_0/output", f"{_ALBERT_LAYER}.ffn_output"),
        *norm_rows("layer_0/feed_forward_norm", f"{_ALBERT_LAYER}.full_layer_layer_norm"),
        *dense_rows("pooler", "albert.pooler"),
    ],
    {
        "BertEncoder": [],
        "BertMaskedLM": _ALBERT_MASKED_LM,
        "BertPretrainer": [
            *_ALBERT_MASKED_LM,
            *dense_rows("next_sentence", "sop_classifier.classifier"),
        ],
        "BertClassifier": _CLASSIFIER,
        "BertTokenClassifier": _CLASSIFIER,
        "BertMultipleChoice": _CLASSIFIER,
        "BertSpanLabeler": _SPAN,
    },
    {
        "predictions.decoder.weight": "word_embeddings/embeddings",
        "predictions.decoder.bias": "masked_lm_bias/bias",
    },
)


def _roberta(class_name: str, prefix: str = "roberta.", encoder: list[Row] | None = None) -> Family:
    """Returns the rows of RoBERTa, whose heads the families named below have, too."""
    pooler = dense_rows("pooler", f"{prefix}pooler.dense")
    idle = rf"{re.escape(prefix)}pooler\.dense\.(weight|bias)"
    return Family(
        class_name,
        prefix,
        encoder or encoder_rows(prefix),
        {
            "BertEncoder": pooler,
            "BertMaskedLM": [
                *pooler,
                *dense_rows("masked_lm_transform/dense", "lm_head.dense"),
                *norm_rows("masked_lm_transform/layer_norm", "lm_head.layer_norm"),
                Row("masked_lm_bias/bias", ("lm_head.bias",), SAME),
            ],
            "BertClassifier": [
                *dense_rows("pooler", "classifier.dense"),
                *dense_rows("classifier", "classifier.out_proj"),
            ],
            "BertTokenClassifier": [*pooler, *_CLASSIFIER],
            "BertMultipleChoice": [*pooler, *_CLASSIFIER],
            "BertSpanLabeler": [*pooler, *_SPAN],
        },
        {
            "lm_head.decoder.weight": "word_embeddings/embeddings",
            "lm_head.decoder.bias": "masked_lm_bias/bias",
        },
        idle={"BertClassifier": {idle: "idle: the classifier has its own dense layer"}},
    )


def _jina(layer: str, names: Mapping[str, str], attention: list[Row]) -> list[Row]:
    """Returns the encoder's rows of Jina Embeddings v3: XLM-RoBERTa's without positions.

    Args:
        layer: what stands before the tensors of a block.
        names: our name of a layer -> its name there.
        attention: rows of query, key and value.
    """
    return [
        Row("word_embeddings/embeddings", ("roberta.embeddings.word_embeddings.weight",)),
        Row("embeddings/segment_embeddings", ("roberta.embeddings.token_type_embeddings.weight",)),
        *norm_rows("embeddings/layer_norm", f"roberta.{names['embedding_norm']}"),
        *attention,
        *dense_rows("layer_{layer}/attention/output", f"{layer}.{names['attended']}"),
        *norm_rows("layer_{layer}/attention_norm", f"{layer}.{names['attention_norm']}"),
        *dense_rows("layer_{layer}/intermediate", f"{layer}.mlp.fc1"),
        *dense_rows("layer_{layer}/output", f"{layer}.mlp.fc2"),
        *norm_rows("layer_{layer}/feed_forward_norm", f"{layer}.{names['feed_forward_norm']}"),
    ]


_JINA_LAYER = "roberta.layers.{layer}"
_JINA = _roberta(
    "JinaEmbeddingsV3",
    encoder=_jina(
        _JINA_LAYER,
        {
            "embedding_norm": "embeddings.LayerNorm",
            "attended": "self_attn.o_proj",
            "attention_norm": "post_attention_layernorm",
            "feed_forward_norm": "post_mlp_layernorm",
        },
        _attention(f"{_JINA_LAYER}.self_attn", ("q_proj", "k_proj", "v_proj")),
    ),
)
_JINA = dataclasses.replace(
    _JINA, heads={name: rows for name, rows in _JINA.heads.items() if "Choice" not in name}
)
_JINA_LAYER = "roberta.encoder.layers.{layer}"
_JINA = dataclasses.replace(
    _JINA,
    published=dataclasses.replace(
        _JINA,
        encoder=_jina(
            _JINA_LAYER,
            {
                "embedding_norm": "emb_ln",
                "attended": "mixer.out_proj",
                "attention_norm": "norm1",
                "feed_forward_norm": "norm2",
            },
            [
                Row(
                    "layer_{layer}/attention/query_key_value/kernel",
                    (f"{_JINA_LAYER}.mixer.Wqkv.weight",),
                    TRANSPOSED,
                ),
                Row(
                    "layer_{layer}/attention/query_key_value/bias",
                    (f"{_JINA_LAYER}.mixer.Wqkv.bias",),
                ),
            ],
        ),
        mark=".mixer.Wqkv.weight",
    ),
)
# Each with that of global positions behind it.
_GLOBAL_PARTS = tuple(name + end for name in _QUERY_KEY_VALUE for end in ("", "_global"))
_MPNET_LAYER = "mpnet.encoder.layer.{layer}"
_MPNET = [
    *(row for row in _embeddings("mpnet.embeddings") if "segment" not in row.ours),
    Row(
        "embeddings/relative_positions/embeddings",
        ("mpnet.encoder.relative_attention_bias.weight",),
    ),
    *_attention(f"{_MPNET_LAYER}.attention.attn", ("q", "k", "v")),
    *dense_rows("layer_{layer}/attention/output", f"{_MPNET_LAYER}.attention.attn.o"),
    *norm_rows("layer_{layer}/attention_norm", f"{_MPNET_LAYER}.attention.LayerNorm"),
    *dense_rows("layer_{layer}/intermediate", f"{_MPNET_LAYER}.intermediate.dense"),
    *dense_rows("layer_{layer}/output", f"{_MPNET_LAYER}.output.dense"),
    *norm_rows("layer_{layer}/feed_forward_norm", f"{_MPNET_LAYER}.output.LayerNorm"),
]
_MODERNBERT_HEAD = [
    Row("pooler/dense/kernel", ("head.dense.weight",), TRANSPOSED),
    Row("pooler/layer_norm/gamma", ("head.norm.weight",)),
]
_MODERNBERT = Family(
    "ModernBert",
    "model.",
    [
        Row("word_embeddings/embeddings", ("model.embeddings.tok_embeddings.weight",)),
        *(
            Row(f"{ours}/gamma", (f"model.{theirs}.weight",))
            for ours, theirs in (
                ("embeddings/layer_norm", "embeddings.norm"),
                ("layer_{layer}/attention_norm", "layers.{layer}.attn_norm"),
                ("layer_{layer}/feed_forward_norm", "layers.{layer}.mlp_norm"),
                ("layer_{layer}/final_norm", "final_norm"),  # of the last one
            )
        ),
        *(
            Row(
                f"layer_{{layer}}/{ours}/kernel",
                (f"model.layers.{{layer}}.{theirs}.weight",),
                TRANSPOSED,
            )
            for ours, theirs in (
                ("attention/query_key_value", "attn.Wqkv"),
                ("attention/output", "attn.Wo"),
                ("intermediate", "mlp.Wi"),
                ("output", "mlp.Wo"),
            )
        ),
    ],
    {
        "BertEncoder": [],
        "BertMaskedLM": [
            Row("masked_lm_transform/dense/kernel", ("head.dense.weight",), TRANSPOSED),
            Row("masked_lm_transform/layer_norm/gamma", ("head.norm.weight",)),
            Row("masked_lm_bias/bias", ("decoder.bias",), SAME),
        ],
        "BertClassifier": [*_MODERNBERT_HEAD, *_CLASSIFIER],
        "BertTokenClassifier": [*_MODERNBERT_HEAD, *_CLASSIFIER],
        "BertMultipleChoice": [*_MODERNBERT_HEAD, *_CLASSIFIER],
        "BertSpanLabeler": [*_MODERNBERT_HEAD, *dense_rows("span", "classifier")],
    },
    {"decoder.weight": "word_embeddings/embeddings"},
)
_DEBERTA_LAYER = "deberta.encoder.layer.{layer}"
_DEBERTA_POOLER = dense_rows("pooler", "pooler.dense")  # a part of two heads
DEBERTA = Family(
    "DebertaV2",
    "deberta.",
    [
        Row("word_embeddings/embeddings", ("deberta.embeddings.word_embeddings.weight",)),
        *norm_rows("embeddings/layer_norm", "deberta.embeddings.LayerNorm"),
        Row("embeddings/relative_positions/embeddings", ("deberta.encoder.rel_embeddings.weight",)),
        *norm_rows("embeddings/relative_positions/layer_norm", "deberta.encoder.LayerNorm"),
        *_attention(f"{_DEBERTA_LAYER}.attention.self", ("query_proj", "key_proj", "value_proj")),
        *dense_rows("layer_{layer}/attention/output", f"{_DEBERTA_LAYER}.attention.output.dense"),
        *norm_rows("layer_{layer}/attention_norm", f"{_DEBERTA_LAYER}.attention.output.LayerNorm"),
        *dense_rows("layer_{layer}/intermediate", f"{_DEBERTA_LAYER}.intermediate.dense"),
        *dense_rows("layer_{layer}/output", f"{_DEBERTA_LAYER}.output.dense"),
        *norm_rows("layer_{layer}/feed_forward_norm", f"{_DEBERTA_LAYER}.output.LayerNorm"),
    ],
    {
        "BertEncoder": [],
        "BertMaskedLM": BERT_MASKED_LM,
        "BertClassifier": [*_DEBERTA_POOLER, *_CLASSIFIER],
        "BertTokenClassifier": _CLASSIFIER,
        "BertMultipleChoice": [*_DEBERTA_POOLER, *_CLASSIFIER],
        "BertSpanLabeler": _SPAN,
    },
    {
        "cls.predictions.decoder.weight": "word_embeddings/embeddings",
        "cls.predictions.decoder.bias": "masked_lm_bias/bias",
    },
    idle=dict.fromkeys(
        (
            "BertEncoder",
            "BertClassifier",
            "BertTokenClassifier",
            "BertMultipleChoice",
            "BertSpanLabeler",
            "BertMaskedLM",
        ),
        {
            # Version 3 was pretrained as ELECTRA was; its files hold both heads.
            r"(lm|mask)_predictions\..*": "idle: a head of the pretraining",
            r"(deberta\.)?embeddings\.position_embeddings\..*": "idle: nothing adds positions",
        },
    ),
)


def _rotary_family(
    class_name: str, prefix: str, masked_lm: list[Row], copies: Mapping[str, str]
) -> Family:
    """Returns the names in transformers of NomicBERT and GTE; `masked_lm` has those of one head."""
    layer = f"{prefix}layers.{{layer}}"
    halves = tuple(f"{layer}.mlp.{half}_proj.weight" for half in ("gate", "up"))
    return Family(
        class_name,
        prefix,
        [
            *(row for row in _embeddings(f"{prefix}embeddings") if "position" not in row.ours),
            *_attention(f"{layer}.self_attn", ("q_proj", "k_proj", "v_proj")),
            *dense_rows("layer_{layer}/attention/output", f"{layer}.self_attn.o_proj"),
            *norm_rows("layer_{layer}/attention_norm", f"{layer}.post_attention_layernorm"),
            Row("layer_{layer}/intermediate/kernel", halves, HALVES_TRANSPOSED),
            *dense_rows("layer_{layer}/output", f"{layer}.mlp.down_proj"),
            *norm_rows("layer_{layer}/feed_forward_norm", f"{layer}.post_mlp_layernorm"),
            *dense_rows("pooler", f"{prefix}pooler.dense"),  # of a classifier
        ],
        {
            "BertEncoder": [],
            "BertMaskedLM": masked_lm,
            "BertClassifier": _CLASSIFIER,
            "BertTokenClassifier": _CLASSIFIER,
        },
        copies,
    )


def _as_published(family: Family, encoder: list[Row], **changes: Any) -> Family:
    """Returns a family whose files may have the form of the code beside published models.

    Args:
        family: the names in transformers, which saves tensors under those of published code, too.
        encoder: rows with the names of published code, but for those of the pooler.
        **changes: fields of `Family` in which such files differ.
    """
    pooler = [row for row in family.encoder if row.ours.startswith("pooler/")]
    heads = {**family.heads, "BertMultipleChoice": _CLASSIFIER, "BertSpanLabeler": _SPAN}
    published = dataclasses.replace(
        family, encoder=[*encoder, *pooler], heads=heads | changes.pop("heads", {}), **changes
    )
    return dataclasses.replace(family, published=published)


_NOMIC = _rotary_family(
    "NomicBert",
    "nomic_bert.",
    [
        *dense_rows("masked_lm_transform/dense", "cls.predictions.transform.dense"),
        *norm_rows("masked_lm_transform/layer_norm", "cls.predictions.transform.layer_norm"),
        Row("masked_lm_bias/bias", ("cls.predictions.bias",), SAME),
    ],
    {
        "cls.predictions.decoder.weight": "word_embeddings/embeddings",
        "cls.predictions.decoder.bias": "masked_lm_bias/bias",
    },
)
_NOMIC_LAYER = "nomic_bert.encoder.layers.{layer}"
_NOMIC = _as_published(
    _NOMIC,
    [
        *(row for row in _NOMIC.encoder if "embeddings.weight" in row.theirs[0]),
        *norm_rows("embeddings/layer_norm", "nomic_bert.emb_ln"),
        Row(
            "layer_{layer}/attention/query_key_value/kernel",
            (f"{_NOMIC_LAYER}.attn.Wqkv.weight",),
            TRANSPOSED,
        ),
        *dense_rows("layer_{layer}/attention/output", f"{_NOMIC_LAYER}.attn.out_proj"),
        *norm_rows("layer_{layer}/attention_norm", f"{_NOMIC_LAYER}.norm1"),
        Row(
            "layer_{layer}/intermediate/kernel",
            (f"{_NOMIC_LAYER}.mlp.fc12.weight", f"{_NOMIC_LAYER}.mlp.fc11.weight"),
            HALVES_TRANSPOSED,
        ),
        *dense_rows("layer_{layer}/output", f"{_NOMIC_LAYER}.mlp.fc2"),
        *norm_rows("layer_{layer}/feed_forward_norm", f"{_NOMIC_LAYER}.norm2"),
    ],
    mark=".attn.Wqkv.weight",
    other_prefixes=("bert.",),
    # Without `mlp_fc1_bias` its head of masked words has none either.
    absent={
        "cls.predictions.transform.dense.bias": "cls.predictions.transform.dense.weight",
        "cls.predictions.bias": "nomic_bert.embeddings.word_embeddings.weight",
    },
)


def _gte_masked_lm(norm: str) -> list[Row]:
    return [
        *dense_rows("masked_lm_transform/dense", "lm_head.dense"),
        *norm_rows("masked_lm_transform/layer_norm", f"lm_head.{norm}"),
        Row("masked_lm_bias/bias", ("lm_head.decoder.bias",), SAME),
    ]


_GTE = _rotary_family(
    "Gte",
    "gte.",
    _gte_masked_lm("layer_norm"),
    {"lm_head.decoder.weight": "word_embeddings/embeddings"},
)
_GTE_LAYER = "gte.encoder.layer.{layer}"
_GTE = _as_published(
    _GTE,
    [
        *(row for row in _GTE.encoder if row.ours.startswith(("word_embeddings", "embeddings"))),
        Row(
            "layer_{layer}/attention/query_key_value/kernel",
            (f"{_GTE_LAYER}.attention.qkv_proj.weight",),
            TRANSPOSED,
        ),
        Row(
            "layer_{layer}/attention/query_key_value/bias",
            (f"{_GTE_LAYER}.attention.qkv_proj.bias",),
        ),
        *dense_rows("layer_{layer}/attention/output", f"{_GTE_LAYER}.attention.o_proj"),
        *norm_rows("layer_{layer}/attention_norm", f"{_GTE_LAYER}.attn_ln"),
        Row(
            "layer_{layer}/intermediate/kernel",
            (f"{_GTE_LAYER}.mlp.up_gate_proj.weight",),
            GATE_FIRST_TRANSPOSED,
        ),
        *dense_rows("layer_{layer}/output", f"{_GTE_LAYER}.mlp.down_proj"),
        *norm_rows("layer_{layer}/feed_forward_norm", f"{_GTE_LAYER}.mlp_ln"),
    ],
    mark=".attention.qkv_proj.weight",
    other_prefixes=("new.",),
    other_class_names=("New",),
    heads={"BertMaskedLM": _gte_masked_lm("norm")},
)
# Dense layers and norms of a block of MobileBERT; Google's code has them in the same order, see
# `google.py`.
MOBILEBERT_DENSE = {
    "input_bottleneck/dense": "bottleneck/input/dense",
    "attention/bottleneck/dense": "bottleneck/attention/dense",
    "attention/value": "attention/self/value",
    "attention/output": "attention/output/dense",
    "feed_forward_{network}/intermediate": "ffn/{network}/intermediate/dense",
    "feed_forward_{network}/output": "ffn/{network}/output/dense",
    "intermediate": "intermediate/dense",
    "output": "output/dense",
    "output_bottleneck": "output/bottleneck/dense",
}
MOBILEBERT_NORMS = {
    "input_bottleneck/norm": "bottleneck/input/LayerNorm",
    "attention/bottleneck/norm": "bottleneck/attention/LayerNorm",
    "attention_norm": "attention/output/LayerNorm",
    "feed_forward_{network}/norm": "ffn/{network}/output/LayerNorm",
    "feed_forward_norm": "output/LayerNorm",
    "output_norm": "output/bottleneck/LayerNorm",
}


def _mobilebert_encoder() -> list[Row]:
    layer, ours = "mobilebert.encoder.layer.{layer}", "layer_{layer}"
    dense, norms = (
        {f"{ours}/{name}": f"{layer}.{path.replace('/', '.')}" for name, path in of.items()}
        for of in (MOBILEBERT_DENSE, MOBILEBERT_NORMS)
    )
    dense["embeddings/transformation"] = "mobilebert.embeddings.embedding_transformation"
    dense["pooler"] = "mobilebert.pooler.dense"
    query_key = [
        Row(
            f"{ours}/attention/query_key/{name}",
            tuple(f"{layer}.attention.self.{part}.{theirs}" for part in ("query", "key")),
            form,
        )
        for name, theirs, form in (
            ("kernel", "weight", HALVES_TRANSPOSED),
            ("bias", "bias", HALVES),
        )
    ]
    return [
        *_embeddings("mobilebert.embeddings"),
        # One or the other, as the attention reads.
        *_attention(f"{layer}.attention.self", _QUERY_KEY_VALUE),
        *query_key,
        *(row for ours, theirs in dense.items() for row in dense_rows(ours, theirs)),
        *(row for ours, theirs in norms.items() for row in norm_rows(ours, theirs)),
    ]


_MOBILEBERT_MASKED_LM = [
    *BERT_MASKED_LM,
    Row("masked_lm_columns/embeddings", ("cls.predictions.dense.weight",), TRANSPOSED),
]
_MOBILEBERT = dataclasses.replace(
    BERT,
    class_name="MobileBert",
    prefix="mobilebert.",
    encoder=_mobilebert_encoder(),
    heads={
        **BERT.heads,
        "BertMaskedLM": _MOBILEBERT_MASKED_LM,
        "BertPretrainer": [
            *_MOBILEBERT_MASKED_LM,
            *dense_rows("next_sentence", "cls.seq_relationship"),
        ],
    },
    # What the code of transformers makes in any case, whether it is read or not.
    idle=dict.fromkeys(
        BERT.heads,
        {
            r"(mobilebert\.)?embeddings\.embedding_transformation\..*": "idle: words are as wide",
            r"(mobilebert\.)?encoder\.layer\.\d+\.bottleneck\.attention\..*": (
                "idle: attention reads what goes into the block"
            ),
            r"cls\.predictions\.dense\.weight": "idle: it has no columns",
        },
    ),
)
_MEGATRON_LAYER = "bert.encoder.layer.{layer}"
_MEGATRON = dataclasses.replace(
    BERT,
    class_name="MegatronBert",
    encoder=[
        *(row for row in BERT.encoder if "norm" not in row.ours),
        *norm_rows("layer_{layer}/attention_norm", f"{_MEGATRON_LAYER}.attention.ln"),
        *norm_rows("layer_{layer}/feed_forward_norm", f"{_MEGATRON_LAYER}.ln"),
        *norm_rows("layer_{layer}/final_norm", "bert.encoder.ln"),  # of the last one
    ],
)
_EUROBERT_LAYER = "model.layers.{layer}"
_EUROBERT = Family(
    "EuroBert",
    "model.",
    [
        Row("word_embeddings/embeddings", ("model.embed_tokens.weight",)),
        *_attention(f"{_EUROBERT_LAYER}.self_attn", ("q_proj", "k_proj", "v_proj")),
        *dense_rows("layer_{layer}/attention/output", f"{_EUROBERT_LAYER}.self_attn.o_proj"),
        Row(
            "layer_{layer}/intermediate/kernel",
            tuple(f"{_EUROBERT_LAYER}.mlp.{half}_proj.weight" for half in ("gate", "up")),
            HALVES_TRANSPOSED,
        ),
        *dense_rows("layer_{layer}/output", f"{_EUROBERT_LAYER}.mlp.down_proj"),
        *(
            Row(f"layer_{{layer}}/{ours}/gamma", (f"model.{theirs}.weight",))
            for ours, theirs in (
                ("attention_norm", "layers.{layer}.input_layernorm"),
                ("feed_forward_norm", "layers.{layer}.post_attention_layernorm"),
                ("final_norm", "norm"),  # of the last one
            )
        ),
    ],
    {
        "BertEncoder": [],
        # Where it is not the word embedding.
        "BertMaskedLM": [Row(OUTPUT_EMBEDDINGS, ("lm_head.weight",))],
        "BertClassifier": [*dense_rows("pooler", "dense"), *_CLASSIFIER],
        "BertTokenClassifier": _CLASSIFIER,
    },
    {"lm_head.weight": "word_embeddings/embeddings"},
)
# The code beside published models called that layer so at first.
_EUROBERT = dataclasses.replace(
    _EUROBERT,
    published=dataclasses.replace(
        _EUROBERT,
        heads={
            **_EUROBERT.heads,
            "BertClassifier": [
                *dense_rows("pooler", "dense"),
                *dense_rows("classifier", "out_proj"),
            ],
        },
        mark="out_proj.weight",
    ),
)
# Where a file says `legacy: false`, its masked language model has other names.
NEWER_HEAD = {
    name: re.sub(r"cls\.predictions\.(transform\.)?", "lm_predictions.lm_head.", name)
    for row in BERT_MASKED_LM
    for name in row.theirs
}
# By the model type in their files.
FAMILIES = {
    # An ERNIE is read as a BERT.
    "bert": dataclasses.replace(BERT, other_prefixes=("ernie.",), other_class_names=("Ernie",)),
    "distilbert": _DISTILBERT,
    "electra": ELECTRA,
    "albert": _ALBERT,
    "roberta": _roberta("Roberta"),
    "xlm-roberta": _roberta("XLMRoberta"),
    "camembert": _roberta("Camembert"),
    "longformer": _roberta("Longformer", "longformer.", encoder_rows("longformer.", _GLOBAL_PARTS)),
    "mpnet": _roberta("MPNet", "mpnet.", _MPNET),
    "modernbert": _MODERNBERT,
    "deberta-v2": DEBERTA,
    "nomic_bert": _NOMIC,
    "gte": _GTE,
    "jina_embeddings_v3": _JINA,
    "mobilebert": _MOBILEBERT,
    "megatron-bert": _MEGATRON,
    "eurobert": _EUROBERT,
}
DROPPED = {
    r"(\w+\.)*rotary_emb\.(original_)?inv_freq": "constant numbers, not weights",
    r"(\w+\.)*embeddings\.(position_ids|token_type_ids)": "constant numbers, not weights",
    # https://pypi.org/project/antiberty
    r"cls\.(species|chain|graft)\.(weight|bias)": "an extra output layer of AntiBERTy",
    # huawei-noah/Pretrained-Language-Model, TinyBERT/transformer/modeling.py
    r"fit_dense\.(weight|bias)": "a layer that only TinyBERT's distillation used",
}
