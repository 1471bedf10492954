"""Adapters of PEFT both ways: PEFT and transformers open, or wrote, what we read and write."""

import numpy as np
import pytest

from keras_bert import (
    AlbertConfig,
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertMultipleChoice,
    BertSpanLabeler,
    BertTokenClassifier,
    DistilBertConfig,
    GteConfig,
    ModernBertConfig,
    RobertaConfig,
    create_encoder,
    enable_lora,
    load_model,
    save_lora_adapter,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

NUMBERS = {
    "vocab_size": 31,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
}
IDS = np.random.default_rng(0).integers(3, 31, (2, 7))
CLASSES = "AutoModelForSequenceClassification"
TAGS = "AutoModelForTokenClassification"
OF_ROBERTA = {"type_vocab_size": 1, "pad_token_id": 1}
OF_DISTILBERT = {"dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 2}
# The model type, the class whose folder is the base, the class that is trained, LoraConfig.
READ = {
    "rslora": (
        "bert",
        "BertModel",
        CLASSES,
        {"task_type": "SEQ_CLS", "use_rslora": True, "bias": "all", "lora_bias": True},
    ),
    "a base of masked words": (
        "bert",
        "BertForMaskedLM",
        "AutoModel",
        {"task_type": "FEATURE_EXTRACTION", "target_modules": "all-linear"},
    ),
    "embeddings": (
        "bert",
        "BertModel",
        "AutoModel",
        {"target_modules": ["word_embeddings", "key"]},
    ),
    "patterns": (
        "bert",
        "BertModel",
        TAGS,
        {
            "task_type": "TOKEN_CLS",
            "bias": "lora_only",
            "target_modules": ["query", "output.dense"],
            "rank_pattern": {"query": 2, "layer.1.output.dense": 3},
            "alpha_pattern": {"layer.0.*query": 5},
        },
    ),
    "roberta": (
        "roberta",
        "RobertaForMaskedLM",
        CLASSES,
        # Also within the head, which is saved whole with its A and B.
        {"task_type": "SEQ_CLS", "target_modules": ["query", "dense"]},
    ),
    "distilbert": (
        "distilbert",
        "DistilBertForMaskedLM",
        CLASSES,
        {"task_type": "SEQ_CLS", "target_modules": ["q_lin", "v_lin"]},
    ),
    "modernbert": (
        "modernbert",
        "ModernBertForMaskedLM",
        CLASSES,
        {"task_type": "SEQ_CLS", "target_modules": ["Wqkv", "Wi"]},
    ),
    # Whose files have the tensors of published code, with query, key and value in one.
    "gte": ("gte", "GteForMaskedLM", "AutoModel", {"target_modules": ["q_proj", "up_proj"]}),
    # As the tasks of jina-embeddings-v3-hf are published.
    "jina": (
        "jina_embeddings_v3",
        "JinaEmbeddingsV3Model",
        "AutoModel",
        {"target_modules": ["word_embeddings", "q_proj", "fc1"]},
    ),
    "ernie": ("ernie", "ErnieModel", "AutoModel", {"target_modules": ["query", "dense"]}),
}


def their_base(kind, name, folder):
    import torch
    import transformers

    torch.manual_seed(0)
    fields = {"roberta": OF_ROBERTA, "distilbert": OF_DISTILBERT, "modernbert": {"pad_token_id": 0}}
    config = transformers.AutoConfig.for_model(
        kind, **NUMBERS, initializer_range=0.4, **fields.get(kind, {})
    )
    model = getattr(transformers, name)(config)
    move(model.parameters())
    model.save_pretrained(folder)


def move(parameters):
    import torch

    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(torch.randn_like(parameter) * 0.2)


def their_outputs(model, ids=IDS):
    import torch

    ids = torch.tensor(ids)
    with torch.no_grad():
        found = model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids))
    names = ("logits", "start_logits", "end_logits", "last_hidden_state")
    return [found[name].numpy() for name in names if name in found]


def our_outputs(model, ids=IDS):
    zeros = np.zeros_like(ids)
    found = model({"input_ids": ids, "input_mask": zeros + 1, "segment_ids": zeros})
    if not isinstance(found, dict):
        return [found.numpy()]
    names = ("start_logits", "end_logits", "sequence_output")
    return [found[name].numpy() for name in names if name in found]


@pytest.mark.parametrize(("kind", "base", "trained", "settings"), READ.values(), ids=READ)
def test_what_peft_wrote_opens_with_its_answers(tmp_path, kind, base, trained, settings):
    import peft
    import transformers

    their_base(kind, base, tmp_path / "base")
    classes = {"num_labels": 3} if trained in (CLASSES, TAGS) else {}
    model = getattr(transformers, trained).from_pretrained(tmp_path / "base", **classes)
    settings = {"r": 4, "lora_alpha": 6, "target_modules": ["query", "value"]} | settings
    model = peft.get_peft_model(model, peft.LoraConfig(**settings))
    move(parameter for parameter in model.parameters() if parameter.requires_grad)
    model.save_pretrained(tmp_path / "adapter", safe_serialization=kind != "distilbert")
    opened = load_model(tmp_path / "adapter")
    for ours, theirs in zip(our_outputs(opened), their_outputs(model), strict=True):
        np.testing.assert_allclose(ours, theirs, **ORACLE)


WRITTEN = {
    "bert": (BertConfig(**NUMBERS), BertClassifier, CLASSES),
    "roberta": (RobertaConfig(**NUMBERS | OF_ROBERTA), BertClassifier, CLASSES),
    # The dense layer before the head is a module of its own.
    "distilbert": (DistilBertConfig(**NUMBERS), BertMultipleChoice, "AutoModelForMultipleChoice"),
    # Its projections are one layer there, too, and its heads read tokens through the pooler.
    "modernbert": (
        ModernBertConfig(**NUMBERS, pad_token_id=0),
        BertSpanLabeler,
        "AutoModelForQuestionAnswering",
    ),
    # All layers have one set of weights, and of A and B.
    "albert": (AlbertConfig(**NUMBERS, embedding_size=8), BertTokenClassifier, TAGS),
    # Gate and feed-forward layer are one layer here and two there.
    "gte": (GteConfig(**NUMBERS), BertEncoder, "AutoModel"),
}


@pytest.mark.parametrize(("config", "head", "theirs"), WRITTEN.values(), ids=WRITTEN)
def test_peft_opens_what_was_written(tmp_path, config, head, theirs):
    import peft
    import transformers

    draw = np.random.default_rng(0)
    encoder = create_encoder(config, seed=0)
    for weight in encoder.weights:
        weight.assign(weight + draw.normal(size=weight.shape) * 0.2)
    (tmp_path / "base").mkdir()
    checkpoints.write(preset.as_checkpoint(encoder), tmp_path / "base", "hf")
    labels = {"labels": ["a", "b", "c"]} if theirs in (CLASSES, TAGS) else {}
    model = head.from_preset(str(tmp_path / "base"), **labels)
    enable_lora(getattr(model, "encoder", model), rank=3, alpha=6, seed=0)
    for weight in model.trainable_weights:
        weight.assign(weight + draw.normal(size=weight.shape) * 0.2)
    save_lora_adapter(model, tmp_path / "adapter", base=tmp_path / "base")

    # What a head is for stands beside the adapter, as PEFT has no place for it.
    settings = transformers.AutoConfig.from_pretrained(tmp_path / "adapter")
    base = getattr(transformers, theirs).from_pretrained(tmp_path / "base", config=settings)
    opened = peft.PeftModel.from_pretrained(base, tmp_path / "adapter")
    ids = np.stack([IDS, IDS[::-1]], axis=1) if head is BertMultipleChoice else IDS
    for ours, found in zip(our_outputs(model, ids), their_outputs(opened, ids), strict=True):
        np.testing.assert_allclose(found, ours, **ORACLE)
