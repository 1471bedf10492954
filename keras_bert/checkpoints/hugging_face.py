"""Hugging Face's format: `config.json` and `model.safetensors` or `pytorch_model.bin`.

The names are those of `transformers`, models/bert/modeling_bert.py. A `Linear` there keeps its
weight as [outputs, inputs]. Encoders saved alone lack the prefix "bert."; files converted from
TensorFlow in 2018 and 2019 spell the parameters of a norm gamma and beta.
"""

import dataclasses
import json
import os
import re
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from keras_bert.checkpoints import name_table, torch_state
from keras_bert.checkpoints.checkpoint import PROBLEM_TYPES, Checkpoint
from keras_bert.checkpoints.model_classes import ENCODER, MASKED_LM, MODEL_CLASSES, PRETRAINER
from keras_bert.checkpoints.name_table import (
    PARTS,
    PARTS_TRANSPOSED,
    SAME,
    TRANSPOSED,
    Leftovers,
    Row,
    Tensors,
)
from keras_bert.checkpoints.variables import POOLER, variable_shapes
from keras_bert.config import BertConfig, find_config_file, read_json
from keras_bert.family_configs import LongformerConfig

CONFIG_FILE = "config.json"
_QUERY_KEY_VALUE = ("query", "key", "value")
# Heads that may call their output layer "classifier": the config says which of them it is.
_CLASSIFIERS = ("BertClassifier", "BertTokenClassifier", "BertMultipleChoice", "BertSpanLabeler")


def _dense(ours: str, theirs: str) -> list[Row]:
    return [
        Row(f"{ours}/kernel", (f"{theirs}.weight",), TRANSPOSED),
        Row(f"{ours}/bias", (f"{theirs}.bias",)),
    ]


def _norm(ours: str, theirs: str) -> list[Row]:
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
        *_norm("embeddings/layer_norm", f"{embeddings}.LayerNorm"),
    ]


def _encoder(prefix: str, attention: Collection[str] = _QUERY_KEY_VALUE) -> list[Row]:
    """Returns the rows of BERT and of those that share its code, as `ElectraModel` does."""
    layer = f"{prefix}encoder.layer.{{layer}}"
    return [
        *_embeddings(f"{prefix}embeddings"),
        *_attention(f"{layer}.attention.self", attention),
        *_dense("layer_{layer}/attention/output", f"{layer}.attention.output.dense"),
        *_norm("layer_{layer}/attention_norm", f"{layer}.attention.output.LayerNorm"),
        *_dense("layer_{layer}/intermediate", f"{layer}.intermediate.dense"),
        *_dense("layer_{layer}/output", f"{layer}.output.dense"),
        *_norm("layer_{layer}/feed_forward_norm", f"{layer}.output.LayerNorm"),
    ]


@dataclasses.dataclass(frozen=True)
class _Family:
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
    """

    class_name: str
    prefix: str
    encoder: list[Row]
    heads: Mapping[str, list[Row]]
    copies: Mapping[str, str]
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    idle: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def model_class(self, architecture: str) -> str:
        if architecture in self.classes:
            return self.classes[architecture]
        name = MODEL_CLASSES[architecture].hugging_face or ""
        return name.replace("Bert", self.class_name, 1)


_BERT_MASKED_LM = [
    *_dense("masked_lm_transform/dense", "cls.predictions.transform.dense"),
    *_norm("masked_lm_transform/layer_norm", "cls.predictions.transform.LayerNorm"),
    Row("masked_lm_bias/bias", ("cls.predictions.bias",), SAME),
]
_BERT_POOLER = _dense("pooler", "bert.pooler.dense")
_CLASSIFIER = _dense("classifier", "classifier")
_SPAN = _dense("span", "qa_outputs")
_BERT = _Family(
    "Bert",
    "bert.",
    [*_encoder("bert."), *_BERT_POOLER],
    {
        "BertEncoder": [],
        "BertMaskedLM": _BERT_MASKED_LM,
        "BertPretrainer": [*_BERT_MASKED_LM, *_dense("next_sentence", "cls.seq_relationship")],
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
_DISTILBERT_POOLER = _dense("pooler", "pre_classifier")  # a part of two heads
_DISTILBERT = _Family(
    "DistilBert",
    "distilbert.",
    [
        Row("word_embeddings/embeddings", ("distilbert.embeddings.word_embeddings.weight",)),
        Row(
            "embeddings/position_embeddings", ("distilbert.embeddings.position_embeddings.weight",)
        ),
        *_norm("embeddings/layer_norm", "distilbert.embeddings.LayerNorm"),
        *_attention(f"{_DISTILBERT_LAYER}.attention", ("q_lin", "k_lin", "v_lin")),
        *_dense("layer_{layer}/attention/output", f"{_DISTILBERT_LAYER}.attention.out_lin"),
        *_norm("layer_{layer}/attention_norm", f"{_DISTILBERT_LAYER}.sa_layer_norm"),
        *_dense("layer_{layer}/intermediate", f"{_DISTILBERT_LAYER}.ffn.lin1"),
        *_dense("layer_{layer}/output", f"{_DISTILBERT_LAYER}.ffn.lin2"),
        *_norm("layer_{layer}/feed_forward_norm", f"{_DISTILBERT_LAYER}.output_layer_norm"),
    ],
    {
        "BertEncoder": [],
        "BertMaskedLM": [
            *_dense("masked_lm_transform/dense", "vocab_transform"),
            *_norm("masked_lm_transform/layer_norm", "vocab_layer_norm"),
            Row("masked_lm_bias/bias", ("vocab_projector.bias",), SAME),
        ],
        "BertClassifier": [*_DISTILBERT_POOLER, *_CLASSIFIER],
        "BertTokenClassifier": _CLASSIFIER,
        "BertMultipleChoice": [*_DISTILBERT_POOLER, *_CLASSIFIER],
        "BertSpanLabeler": _SPAN,
    },
    {"vocab_projector.weight": "word_embeddings/embeddings"},
)
_ELECTRA = _Family(
    "Electra",
    "electra.",
    [*_encoder("electra."), *_dense("embeddings_projection", "electra.embeddings_project")],
    {
        "BertEncoder": [],
        "BertMaskedLM": [  # the generator
            *_dense("masked_lm_transform/dense", "generator_predictions.dense"),
            *_norm("masked_lm_transform/layer_norm", "generator_predictions.LayerNorm"),
            Row("masked_lm_bias/bias", ("generator_lm_head.bias",), SAME),
        ],
        "BertReplacedTokenDetector": [  # the discriminator
            *_dense("replaced_token/dense", "discriminator_predictions.dense"),
            *_dense("replaced_token/prediction", "discriminator_predictions.dense_prediction"),
        ],
        "BertClassifier": [
            *_dense("pooler", "classifier.dense"),
            *_dense("classifier", "classifier.out_proj"),
        ],
        "BertTokenClassifier": _CLASSIFIER,
        "BertMultipleChoice": [*_dense("pooler", "sequence_summary.summary"), *_CLASSIFIER],
        "BertSpanLabeler": _SPAN,
    },
    {"generator_lm_head.weight": "word_embeddings/embeddings"},
    {"BertReplacedTokenDetector": "ElectraForPreTraining"},
)
_ALBERT_LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0"
_ALBERT_MASKED_LM = [
    *_dense("masked_lm_transform/dense", "predictions.dense"),
    *_norm("masked_lm_transform/layer_norm", "predictions.LayerNorm"),
    Row("masked_lm_bias/bias", ("predictions.bias",), SAME),
]
_ALBERT = _Family(
    "Albert",
    "albert.",
    [
        *_embeddings("albert.embeddings"),
        *_dense("embeddings_projection", "albert.encoder.embedding_hidden_mapping_in"),
        # One set of parameters, which all layers share.
        *_attention(f"{_ALBERT_LAYER}.attention", _QUERY_KEY_VALUE, "layer_0"),
        *_dense("layer_0/attention/output", f"{_ALBERT_LAYER}.attention.dense"),
        *_norm("layer_0/attention_norm", f"{_ALBERT_LAYER}.attention.LayerNorm"),
        *_dense("layer_0/intermediate", f"{_ALBERT_LAYER}.ffn"),
        *_dense("layer_0/output", f"{_ALBERT_LAYER}.ffn_output"),
        *_norm("layer_0/feed_forward_norm", f"{_ALBERT_LAYER}.full_layer_layer_norm"),
        *_dense("pooler", "albert.pooler"),
    ],
    {
        "BertEncoder": [],
        "BertMaskedLM": _ALBERT_MASKED_LM,
        "BertPretrainer": [
            *_ALBERT_MASKED_LM,
            *_dense("next_sentence", "sop_classifier.classifier"),
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


def _roberta(
    class_name: str, prefix: str = "roberta.", encoder: list[Row] | None = None
) -> _Family:
    """Returns the rows of RoBERTa, whose heads the families named below have, too."""
    pooler = _dense("pooler", f"{prefix}pooler.dense")
    idle = rf"{re.escape(prefix)}pooler\.dense\.(weight|bias)"
    return _Family(
        class_name,
        prefix,
        encoder or _encoder(prefix),
        {
            "BertEncoder": pooler,
            "BertMaskedLM": [
                *pooler,
                *_dense("masked_lm_transform/dense", "lm_head.dense"),
                *_norm("masked_lm_transform/layer_norm", "lm_head.layer_norm"),
                Row("masked_lm_bias/bias", ("lm_head.bias",), SAME),
            ],
            "BertClassifier": [
                *_dense("pooler", "classifier.dense"),
                *_dense("classifier", "classifier.out_proj"),
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
    *_dense("layer_{layer}/attention/output", f"{_MPNET_LAYER}.attention.attn.o"),
    *_norm("layer_{layer}/attention_norm", f"{_MPNET_LAYER}.attention.LayerNorm"),
    *_dense("layer_{layer}/intermediate", f"{_MPNET_LAYER}.intermediate.dense"),
    *_dense("layer_{layer}/output", f"{_MPNET_LAYER}.output.dense"),
    *_norm("layer_{layer}/feed_forward_norm", f"{_MPNET_LAYER}.output.LayerNorm"),
]
_MODERNBERT_HEAD = [
    Row("pooler/dense/kernel", ("head.dense.weight",), TRANSPOSED),
    Row("pooler/layer_norm/gamma", ("head.norm.weight",)),
]
_MODERNBERT = _Family(
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
        "BertSpanLabeler": [*_MODERNBERT_HEAD, *_dense("span", "classifier")],
    },
    {"decoder.weight": "word_embeddings/embeddings"},
)
_DEBERTA_LAYER = "deberta.encoder.layer.{layer}"
_DEBERTA_POOLER = _dense("pooler", "pooler.dense")  # a part of two heads
_DEBERTA = _Family(
    "DebertaV2",
    "deberta.",
    [
        Row("word_embeddings/embeddings", ("deberta.embeddings.word_embeddings.weight",)),
        *_norm("embeddings/layer_norm", "deberta.embeddings.LayerNorm"),
        Row("embeddings/relative_positions/embeddings", ("deberta.encoder.rel_embeddings.weight",)),
        *_norm("embeddings/relative_positions/layer_norm", "deberta.encoder.LayerNorm"),
        *_attention(f"{_DEBERTA_LAYER}.attention.self", ("query_proj", "key_proj", "value_proj")),
        *_dense("layer_{layer}/attention/output", f"{_DEBERTA_LAYER}.attention.output.dense"),
        *_norm("layer_{layer}/attention_norm", f"{_DEBERTA_LAYER}.attention.output.LayerNorm"),
        *_dense("layer_{layer}/intermediate", f"{_DEBERTA_LAYER}.intermediate.dense"),
        *_dense("layer_{layer}/output", f"{_DEBERTA_LAYER}.output.dense"),
        *_norm("layer_{layer}/feed_forward_norm", f"{_DEBERTA_LAYER}.output.LayerNorm"),
    ],
    {
        "BertEncoder": [],
        "BertMaskedLM": _BERT_MASKED_LM,
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
        ("BertEncoder", *_CLASSIFIERS, "BertMaskedLM"),
        {
            # Version 3 was pretrained as ELECTRA was; its files hold both heads.
            r"(lm|mask)_predictions\..*": "idle: a head of the pretraining",
            r"(deberta\.)?embeddings\.position_embeddings\..*": "idle: nothing adds positions",
        },
    ),
)
# Where a file says `legacy: false`, its masked language model has other names.
_NEWER_HEAD = {
    name: re.sub(r"cls\.predictions\.(transform\.)?", "lm_predictions.lm_head.", name)
    for row in _BERT_MASKED_LM
    for name in row.theirs
}
# By the model type in their files.
_FAMILIES = {
    "bert": _BERT,
    "distilbert": _DISTILBERT,
    "electra": _ELECTRA,
    "albert": _ALBERT,
    "roberta": _roberta("Roberta"),
    "xlm-roberta": _roberta("XLMRoberta"),
    "camembert": _roberta("Camembert"),
    "longformer": _roberta("Longformer", "longformer.", _encoder("longformer.", _GLOBAL_PARTS)),
    "mpnet": _roberta("MPNet", "mpnet.", _MPNET),
    "modernbert": _MODERNBERT,
    "deberta-v2": _DEBERTA,
}
# Unless `global_attention_mask` is given: modeling_longformer.py, forward of each class.
_GLOBAL_POSITIONS_THERE = {
    "BertMaskedLM": "none",
    "BertTokenClassifier": "none",
    "BertSpanLabeler": "all of the question",
    "BertMultipleChoice": "all of the choice",
}
DROPPED = {
    r"(\w+\.)*embeddings\.(position_ids|token_type_ids)": "constant numbers, not weights",
    # https://pypi.org/project/antiberty
    r"cls\.(species|chain|graft)\.(weight|bias)": "an extra output layer of AntiBERTy",
    # huawei-noah/Pretrained-Language-Model, TinyBERT/transformer/modeling.py
    r"fit_dense\.(weight|bias)": "a layer that only TinyBERT's distillation used",
}


def read(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> Checkpoint:
    """Reads a folder with a config file and weights in one file or in shards.

    Args:
        folder: the folder. A pooler is optional, as `transformers` leaves it out of some models.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: tensors are missing, left over or misshapen; the sentence names them.
    """
    config = BertConfig.from_file(folder, "hf", ignore_config_keys)
    config_file = find_config_file(folder)
    values = read_json(config_file)
    tensors = torch_state.read(folder)
    family = _FAMILIES[config.hugging_face_type]
    if values.get("tie_word_embeddings") is not False:
        tensors = _under_usual_names(tensors, family)
    architecture, head = _architecture(tensors, values, family, config_file)
    if isinstance(config, LongformerConfig) and "global_tokens" not in values:
        _tell_global_positions(tensors.source, architecture)
    # The rows with the names as this file spells them.
    has_prefix = any(name.startswith(family.prefix) for name in tensors.shapes)
    has_gamma = any(name.endswith("LayerNorm.gamma") for name in tensors.shapes)
    has_newer_head = family is _DEBERTA and values.get("legacy") is False

    def spelled(name: str) -> str:
        if not has_prefix:
            name = name.removeprefix(family.prefix)
        if has_newer_head:
            name = _NEWER_HEAD.get(name, name)
        if has_gamma:
            name = re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", name)
            name = re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)
        return name

    variables, report = name_table.to_variables(
        tensors,
        [
            Row(row.ours, tuple(map(spelled, row.theirs)), row.form)
            for row in _rows(family, architecture, config)
        ],
        variable_shapes(config, architecture, head),
        config,
        Leftovers({**DROPPED, **family.idle.get(architecture, {})}, family.copies),
        optional=POOLER,
    )
    # Why the masked language model's output matrix is not the word embedding, if so.
    untied = None
    if "masked_lm_bias/bias" in variables:
        decoder = next(iter(family.copies))
        untied = name_table.differing_copy(tensors, variables, family.copies)
        if values.get("tie_word_embeddings") is False and decoder not in tensors.shapes:
            untied = (
                f"{tensors.source}: tie_word_embeddings is false, and there is no {decoder} that "
                "would show that it is the word embedding"
            )
    return Checkpoint(config, architecture, head, variables, report, untied)


def writable(checkpoint: Checkpoint) -> Checkpoint:
    """Returns what `write` takes: a masked language model where a family has no pretraining class.

    RoBERTa, DistilBERT, ModernBERT and DeBERTa, for instance, have no next sentence head there.
    """
    family = _FAMILIES.get(checkpoint.config.hugging_face_type)  # None: `write` refuses it
    if family is None or checkpoint.architecture != PRETRAINER or PRETRAINER in family.heads:
        return checkpoint
    variables = {
        path: value
        for path, value in checkpoint.variables.items()
        if not path.startswith("next_sentence/")
    }
    return dataclasses.replace(checkpoint, architecture=MASKED_LM, variables=variables)


def write(checkpoint: Checkpoint, folder: str | os.PathLike) -> None:
    """Writes `config.json` and `model.safetensors` into a folder that exists.

    Raises:
        ValueError: transformers has no such head, or the config file no place for a config value.
    """
    config = checkpoint.config
    # The fields of the config in Hugging Face's words; a variant of the user's own has none.
    values = config.to_dict("hf")
    family = _FAMILIES[config.hugging_face_type]
    if checkpoint.architecture not in family.heads:
        raise ValueError(
            f"transformers has no {family.class_name} with a head like that of "
            f"{checkpoint.architecture}: open the folder by from_preset of BertEncoder, "
            "save_to_preset and convert that; or choose another format"
        )
    rows = _rows(family, checkpoint.architecture, config)
    named = {row.ours for row in rows}
    variables = {
        path: value
        for path, value in checkpoint.variables.items()
        # Some families have a pooler in some heads only.
        if path in named or path not in POOLER
    }
    tensors = name_table.to_tensors(variables, rows, config)
    if checkpoint.architecture == ENCODER:  # transformers saves its BertModel without prefix
        tensors = {name.removeprefix(family.prefix): value for name, value in tensors.items()}
    values |= {
        "model_type": config.hugging_face_type,
        "architectures": [family.model_class(checkpoint.architecture)],
    }
    if "num_classes" in checkpoint.head:
        num_classes = checkpoint.head["num_classes"]
        labels = checkpoint.head.get("labels") or _placeholder_labels(num_classes)
        values["id2label"] = {str(index): label for index, label in enumerate(labels)}
        values["label2id"] = {label: index for index, label in enumerate(labels)}
        if problem_type := checkpoint.head.get("problem_type"):
            values["problem_type"] = problem_type
        elif num_classes == 1:
            values["problem_type"] = "regression"
    content = json.dumps(values, indent=2, sort_keys=True)
    torch_state.write(tensors, folder)
    (Path(folder) / CONFIG_FILE).write_text(content + "\n", encoding="utf-8")


def encoder_decoder_rows() -> list[Row]:
    """Returns the rows of `EncoderDecoderModel` of two BERTs, see `encoder_decoder.py`."""
    layer, ours = "decoder.bert.encoder.layer.{layer}.crossattention", "decoder/layer_{layer}"
    return [
        *_encoder("encoder."),
        *_dense("pooler", "encoder.pooler.dense"),
        *(
            dataclasses.replace(row, ours=f"decoder/{row.ours}")
            for row in _encoder("decoder.bert.")
        ),
        *_dense(f"{ours}/cross_attention/query", f"{layer}.self.query"),
        *_dense(f"{ours}/cross_attention/key", f"{layer}.self.key"),
        *_dense(f"{ours}/cross_attention/value", f"{layer}.self.value"),
        *_dense(f"{ours}/cross_attention/output", f"{layer}.output.dense"),
        *_norm(f"{ours}/cross_attention_norm", f"{layer}.output.LayerNorm"),
        *(
            dataclasses.replace(row, theirs=tuple(f"decoder.{name}" for name in row.theirs))
            for row in _BERT_MASKED_LM
        ),
    ]


def _rows(family: _Family, architecture: str, config: BertConfig) -> list[Row]:
    rows = [*family.encoder, *family.heads[architecture]]
    return name_table.expand(rows, config.num_hidden_layers)


def _under_usual_names(tensors: Tensors, family: _Family) -> Tensors:
    """Returns tensors of which those that are tied have the name that a row asks for.

    Files hold a tied pair once, and some that others wrote hold it under the name of the copy.
    """
    names = {row.ours: row.theirs[0] for row in [*family.encoder, *family.heads[MASKED_LM]]}
    copy_of = {
        names[path]: copy
        for copy, path in family.copies.items()
        if copy in tensors.shapes and names[path] not in tensors.shapes
    }
    usual = {copy: name for name, copy in copy_of.items()}
    return dataclasses.replace(
        tensors,
        shapes={usual.get(name, name): shape for name, shape in tensors.shapes.items()},
        read=lambda name: tensors.read(copy_of.get(name, name)),
    )


def _architecture(
    tensors: Tensors, values: Mapping[str, Any], family: _Family, config_file: Path
) -> tuple[str, dict[str, Any]]:
    layers = ("classifier.weight", "classifier.out_proj.weight")
    outputs = [name for name in layers if name in tensors.shapes]
    if outputs:
        named = values.get("architectures") or []
        if not isinstance(named, (list, str)):
            raise ValueError(
                f"{config_file}: architectures is {named!r}: it must be a list of names, such as "
                f'["{family.model_class(_CLASSIFIERS[0])}"]'
            )
        classes = {
            name: family.model_class(name)
            for name in _CLASSIFIERS
            if any(output in row.theirs for output in layers for row in family.heads[name])
        }
        found = [name for name, theirs in classes.items() if theirs in named]
        if not found:
            *others, last = classes.values()
            raise ValueError(
                f"{tensors.source} holds {outputs[0]}, but the config's architectures {named} "
                f"do not say of what: expected {', '.join(others)} or {last}"
            )
        if found[0] in ("BertMultipleChoice", "BertSpanLabeler"):
            if found[0] == "BertMultipleChoice" and family is _ELECTRA:
                _check_summary(tensors, values)
            return found[0], {}
        num_classes = tensors.shapes[outputs[0]][0]
        labels: list[str] | None = None
        if names := values.get("id2label"):
            if not isinstance(names, dict) or not all(map(str.isdecimal, names)):
                raise ValueError(
                    f"{config_file}: id2label is {names!r}: it must be an object with the numbers "
                    'of the classes as keys, such as {"0": "bad", "1": "good"}'
                )
            by_number = {int(number): label for number, label in names.items()}
            if sorted(by_number) != list(range(num_classes)):
                raise ValueError(
                    f"{tensors.source}: {outputs[0]} has {num_classes} rows, but the config's "
                    f"id2label names the classes {', '.join(names)}"
                )
            labels = []
            for index in range(num_classes):
                label = by_number[index]
                if not isinstance(label, (str, int, float)):
                    raise ValueError(
                        f"{config_file}: id2label calls class {index} {label!r}: give it a name, "
                        'such as "good"'
                    )
                # Numbers, true and false as the file spells them.
                labels.append(label if isinstance(label, str) else json.dumps(label))
            if labels == _placeholder_labels(num_classes):
                labels = None  # what transformers writes when nobody named the classes
        head: dict[str, Any] = {"num_classes": num_classes, "labels": labels}
        if found[0] == "BertClassifier" and values.get("problem_type") in PROBLEM_TYPES:
            head["problem_type"] = values["problem_type"]
        return found[0], head
    if family is _DEBERTA and values.get("legacy") is False:
        if _NEWER_HEAD["cls.predictions.bias"] in tensors.shapes:
            return MASKED_LM, {}
    # Tensors that only this head has; the first whose are there counts.
    for architecture, names in (
        ("BertSpanLabeler", {"qa_outputs.weight"}),
        ("BertReplacedTokenDetector", {"discriminator_predictions.dense.weight"}),
        ("BertPretrainer", {"cls.predictions.bias", "cls.seq_relationship.weight"}),
        ("BertMaskedLM", {"cls.predictions.bias"}),
        ("BertMaskedLM", {"vocab_projector.bias"}),
        ("BertMaskedLM", {"generator_lm_head.bias"}),
        ("BertPretrainer", {"predictions.bias", "sop_classifier.classifier.weight"}),
        ("BertMaskedLM", {"predictions.bias"}),
        ("BertMaskedLM", {"lm_head.bias"}),
        ("BertMaskedLM", {"head.dense.weight", "decoder.bias"}),
    ):
        if names <= tensors.shapes.keys() and architecture in family.heads:
            return architecture, {}
    return ENCODER, {}


def _tell_global_positions(source: str, architecture: str) -> None:
    """Warns where a head of transformers has other global positions than the first alone."""
    if others := _GLOBAL_POSITIONS_THERE.get(architecture):
        warnings.warn(
            f"{source}: the first position is global here; such a head of transformers has {others}"
            ": fine-tune it, or set global_tokens (with_local_attention)",
            stacklevel=2,
        )


def _check_summary(tensors: Tensors, values: Mapping[str, Any]) -> None:
    """Refuses a summary of choices other than a dense layer with GELU on [CLS], the default."""
    for key, default in (
        ("summary_type", "first"),
        ("summary_use_proj", True),
        ("summary_activation", "gelu"),
    ):
        if values.get(key, default) != default:
            raise ValueError(
                f"{tensors.source}: {key} is {values[key]!r}: only {default!r} is supported in a "
                "multiple choice model of ELECTRA"
            )


def _placeholder_labels(num_classes: int) -> list[str]:
    return [f"LABEL_{index}" for index in range(num_classes)]
