"""Families of transformers into ours and back, every head and config switch."""

import json

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert import (
    AlbertConfig,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    EuroBertConfig,
    GteConfig,
    JinaEmbeddingsV3Config,
    LongformerConfig,
    MegatronBertConfig,
    MobileBertConfig,
    ModernBertConfig,
    MPNetConfig,
    NomicBertConfig,
    RobertaConfig,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models.conversion.convert import convert
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

LABELS = ["no", "maybe", "yes"]
POSITIONS = np.array([[0, 3, 6], [2, 1, 2]])
DISTILBERT = {
    "vocab_size": 31,
    "dim": 12,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 20,
    "max_position_embeddings": 9,
    "initializer_range": 0.4,
}
ELECTRA = {
    "vocab_size": 31,
    "embedding_size": 8,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
    "initializer_range": 0.4,
}
ALBERT = {**ELECTRA, "num_hidden_layers": 3}
# Positions behind the padding id, 7 of them; XLM-RoBERTa and CamemBERT are the same there.
ROBERTA = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "layer_norm_eps": 1e-5,
    "initializer_range": 0.4,
}
# A window of 2 to each side: 7 positions are more than three of them.
LONGFORMER = {**ROBERTA, "attention_window": 4}
MPNET = {key: value for key, value in ROBERTA.items() if key != "type_vocab_size"}
# The second layer has a window of 2 to each side: 7 positions are more than three of them.
MODERNBERT = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
    "pad_token_id": 0,
    "initializer_range": 0.4,
    "local_attention": 4,
    "global_attn_every_n_layers": 2,
}
# Distances of 2 and more to each side share rows, and rows of 7 positions reach to 6.
DEBERTA = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
    "initializer_range": 0.4,
    "relative_attention": True,
    "position_buckets": 4,
    "max_relative_positions": -1,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
}
NOMIC = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
    "initializer_range": 0.4,
}
GTE = {**NOMIC, "pad_token_id": 0}
JINA = {**NOMIC, "layer_norm_eps": 1e-5}
MOBILEBERT = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
    "initializer_range": 0.2,  # no norm keeps what is large from growing
    "embedding_size": 5,
    "intra_bottleneck_size": 9,
    "num_feedforward_networks": 3,
}
ERNIE = {key: value for key, value in ELECTRA.items() if key != "embedding_size"}
ERNIE["use_task_id"] = True
MEGATRON = {key: value for key, value in ELECTRA.items() if key != "embedding_size"}
EUROBERT = {**GTE, "hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2}
EUROBERT |= {"initializer_range": 0.1}
# What their classes begin with -> numbers, and our config.
FAMILIES = {
    "DistilBert": (DISTILBERT, DistilBertConfig),
    "Electra": (ELECTRA, ElectraConfig),
    "Ernie": (ERNIE, BertConfig),
    "Albert": (ALBERT, AlbertConfig),
    "Roberta": (ROBERTA, RobertaConfig),
    "XLMRoberta": (ROBERTA, RobertaConfig),
    "Camembert": (ROBERTA, RobertaConfig),
    "Longformer": (LONGFORMER, LongformerConfig),
    "MPNet": (MPNET, MPNetConfig),
    "ModernBert": (MODERNBERT, ModernBertConfig),
    "DebertaV2": (DEBERTA, DebertaV2Config),
    "NomicBert": (NOMIC, NomicBertConfig),
    "Gte": (GTE, GteConfig),
    "JinaEmbeddingsV3": (JINA, JinaEmbeddingsV3Config),
    "MobileBert": (MOBILEBERT, MobileBertConfig),
    "MegatronBert": (MEGATRON, MegatronBertConfig),
    "EuroBert": (EUROBERT, EuroBertConfig),
}
# Those that count positions by the padding id there, and one that computes something else for
# padding, which nothing reads: its queries see nothing.
BY_PADDING_ID = ("Roberta", "XLMRoberta", "Camembert", "Longformer", "MPNet", "DebertaV2")
# Their class -> ours, and changes of the config.
CASES = {
    "DistilBertModel": ("BertEncoder", {}),
    "DistilBertForMaskedLM": ("BertMaskedLM", {}),
    "DistilBertForSequenceClassification": ("BertClassifier", {"activation": "relu"}),
    "DistilBertForTokenClassification": ("BertTokenClassifier", {}),
    "DistilBertForMultipleChoice": ("BertMultipleChoice", {"sinusoidal_pos_embds": True}),
    "DistilBertForQuestionAnswering": ("BertSpanLabeler", {}),
    "ElectraModel": ("BertEncoder", {}),
    "ElectraForMaskedLM": ("BertMaskedLM", {"hidden_act": "relu"}),
    "ElectraForPreTraining": ("BertReplacedTokenDetector", {"hidden_act": "relu"}),
    "ElectraForSequenceClassification": ("BertClassifier", {"embedding_size": 12}),
    "ElectraForTokenClassification": ("BertTokenClassifier", {"type_vocab_size": 3}),
    "ElectraForMultipleChoice": ("BertMultipleChoice", {"layer_norm_eps": 1e-3}),
    "ElectraForQuestionAnswering": ("BertSpanLabeler", {"hidden_act": "gelu_new"}),
    "AlbertModel": ("BertEncoder", {}),
    "AlbertForPreTraining": ("BertPretrainer", {"hidden_act": "gelu"}),
    "AlbertForMaskedLM": ("BertMaskedLM", {"hidden_act": "relu"}),
    "AlbertForSequenceClassification": ("BertClassifier", {"embedding_size": 12}),
    "AlbertForTokenClassification": ("BertTokenClassifier", {"type_vocab_size": 3}),
    "AlbertForMultipleChoice": ("BertMultipleChoice", {"layer_norm_eps": 1e-3}),
    "AlbertForQuestionAnswering": ("BertSpanLabeler", {"num_hidden_layers": 1}),
    "RobertaModel": ("BertEncoder", {"layer_norm_eps": 1e-3}),
    "RobertaForMaskedLM": ("BertMaskedLM", {"hidden_act": "relu"}),
    "RobertaForSequenceClassification": ("BertClassifier", {}),
    "RobertaForTokenClassification": (
        "BertTokenClassifier",
        {"pad_token_id": 4, "max_position_embeddings": 12},
    ),
    "RobertaForMultipleChoice": ("BertMultipleChoice", {"type_vocab_size": 2}),
    "RobertaForQuestionAnswering": ("BertSpanLabeler", {"pad_token_id": 0}),
    "XLMRobertaModel": ("BertEncoder", {}),
    "XLMRobertaForSequenceClassification": ("BertClassifier", {}),
    "CamembertForMaskedLM": ("BertMaskedLM", {}),
    "CamembertForTokenClassification": ("BertTokenClassifier", {}),
    "LongformerModel": ("BertEncoder", {"layer_norm_eps": 1e-3}),
    "LongformerForMaskedLM": ("BertMaskedLM", {"hidden_act": "relu"}),
    "LongformerForSequenceClassification": ("BertClassifier", {}),
    "LongformerForTokenClassification": ("BertTokenClassifier", {"type_vocab_size": 2}),
    "LongformerForMultipleChoice": ("BertMultipleChoice", {}),
    "LongformerForQuestionAnswering": ("BertSpanLabeler", {"attention_window": [6, 6]}),
    "MPNetModel": ("BertEncoder", {"layer_norm_eps": 1e-3}),
    "MPNetForMaskedLM": ("BertMaskedLM", {"hidden_act": "relu"}),
    "MPNetForSequenceClassification": ("BertClassifier", {}),
    "MPNetForTokenClassification": ("BertTokenClassifier", {}),
    "MPNetForMultipleChoice": ("BertMultipleChoice", {}),
    "MPNetForQuestionAnswering": ("BertSpanLabeler", {}),
    "ModernBertModel": ("BertEncoder", {"norm_eps": 1e-3}),
    "ModernBertForMaskedLM": ("BertMaskedLM", {"hidden_activation": "relu"}),
    "ModernBertForSequenceClassification": ("BertClassifier", {"classifier_pooling": "mean"}),
    "ModernBertForTokenClassification": (
        "BertTokenClassifier",
        {"global_attn_every_n_layers": 1, "global_rope_theta": 50.0},
    ),
    "ModernBertForMultipleChoice": ("BertMultipleChoice", {}),
    "ModernBertForQuestionAnswering": ("BertSpanLabeler", {"local_rope_theta": 50.0}),
    "DebertaV2Model": ("BertEncoder", {"layer_norm_eps": 1e-3}),
    "DebertaV2ForMaskedLM": ("BertMaskedLM", {"hidden_act": "relu"}),
    "DebertaV2ForSequenceClassification": ("BertClassifier", {"cls_dropout": 0.2}),
    "DebertaV2ForTokenClassification": ("BertTokenClassifier", {"position_buckets": -1}),
    "DebertaV2ForMultipleChoice": ("BertMultipleChoice", {"pos_att_type": ["c2p"]}),
    "DebertaV2ForQuestionAnswering": (
        "BertSpanLabeler",
        {"pos_att_type": ["p2c"], "max_relative_positions": 6},
    ),
    "NomicBertModel": ("BertEncoder", {"layer_norm_eps": 1e-3}),
    "NomicBertForMaskedLM": ("BertMaskedLM", {"hidden_act": "relu"}),
    "NomicBertForSequenceClassification": (
        "BertClassifier",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
    ),
    "NomicBertForTokenClassification": ("BertTokenClassifier", {"type_vocab_size": 3}),
    "GteModel": ("BertEncoder", {"type_vocab_size": 0}),
    "GteForMaskedLM": ("BertMaskedLM", {"hidden_act": "relu"}),
    "GteForSequenceClassification": (
        "BertClassifier",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 50.0, "factor": 3.0}},
    ),
    "GteForTokenClassification": ("BertTokenClassifier", {"layer_norm_eps": 1e-3}),
    "JinaEmbeddingsV3Model": ("BertEncoder", {"layer_norm_eps": 1e-3}),
    "JinaEmbeddingsV3ForMaskedLM": ("BertMaskedLM", {"hidden_act": "relu"}),
    "JinaEmbeddingsV3ForSequenceClassification": (
        "BertClassifier",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 50.0, "factor": 3.0}},
    ),
    "JinaEmbeddingsV3ForTokenClassification": ("BertTokenClassifier", {"type_vocab_size": 2}),
    "JinaEmbeddingsV3ForQuestionAnswering": ("BertSpanLabeler", {}),
    "MegatronBertModel": ("BertEncoder", {"layer_norm_eps": 1e-3}),
    "MegatronBertForPreTraining": ("BertPretrainer", {"hidden_act": "relu"}),
    "MegatronBertForMaskedLM": ("BertMaskedLM", {}),
    "MegatronBertForSequenceClassification": ("BertClassifier", {"num_hidden_layers": 1}),
    "MegatronBertForTokenClassification": ("BertTokenClassifier", {"type_vocab_size": 3}),
    "MegatronBertForMultipleChoice": ("BertMultipleChoice", {}),
    "MegatronBertForQuestionAnswering": ("BertSpanLabeler", {}),
    "MobileBertModel": (
        "BertEncoder",
        {"normalization_type": "layer_norm", "layer_norm_eps": 1e-3},
    ),
    "MobileBertForPreTraining": ("BertPretrainer", {"classifier_activation": False}),
    "MobileBertForMaskedLM": (
        "BertMaskedLM",
        {"use_bottleneck_attention": True, "key_query_shared_bottleneck": False},
    ),
    "MobileBertForSequenceClassification": (
        "BertClassifier",
        {"use_bottleneck": False, "hidden_dropout_prob": 0.1, "trigram_input": False},
    ),
    "MobileBertForTokenClassification": (
        "BertTokenClassifier",
        {"num_feedforward_networks": 1, "type_vocab_size": 3},
    ),
    "MobileBertForMultipleChoice": ("BertMultipleChoice", {"hidden_act": "gelu"}),
    "MobileBertForQuestionAnswering": (
        "BertSpanLabeler",
        {"key_query_shared_bottleneck": False, "intra_bottleneck_size": 12},
    ),
    "EuroBertModel": ("BertEncoder", {"rms_norm_eps": 1e-3}),
    "EuroBertForMaskedLM": ("BertMaskedLM", {"hidden_act": "relu"}),
    "EuroBertForSequenceClassification": (
        "BertClassifier",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 50.0, "factor": 3.0}},
    ),
    "EuroBertForTokenClassification": ("BertTokenClassifier", {"num_key_value_heads": 1}),
}


# Read as a BERT, and written as one.
ERNIES = {
    "ErnieModel": ("BertEncoder", {"max_position_embeddings": 12}),
    "ErnieForMaskedLM": ("BertMaskedLM", {"use_task_id": False}),
    "ErnieForPreTraining": ("BertPretrainer", {"hidden_act": "relu"}),
    "ErnieForSequenceClassification": ("BertClassifier", {"task_type_vocab_size": 4}),
    "ErnieForTokenClassification": ("BertTokenClassifier", {"type_vocab_size": 4}),
    "ErnieForMultipleChoice": ("BertMultipleChoice", {}),
    "ErnieForQuestionAnswering": ("BertSpanLabeler", {}),
}


def their_model(name, **changes):
    import torch
    import transformers

    torch.manual_seed(0)
    family = next(family for family in FAMILIES if name.startswith(family))
    fields = FAMILIES[family][0]
    labels = dict(enumerate(LABELS if "Classification" in name else ("LABEL_0", "LABEL_1")))
    config = getattr(transformers, f"{family}Config")(
        **(fields | changes),
        id2label=labels,
        label2id={label: index for index, label in labels.items()},
    )
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():  # zero biases would hide that one is lost
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def features(ours, segments, padding_id=None):
    shape = (2, 4, 7) if ours == "BertMultipleChoice" else (2, 7)
    random = np.random.default_rng(0)
    mask = np.ones(shape, int)
    mask[-1, ..., 5:] = 0
    ids = random.integers(0, 31, shape)
    if padding_id is not None:  # RoBERTa there counts positions by it
        ids[ids == padding_id] = 30
        ids[mask == 0] = padding_id
    return {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": random.integers(0, max(segments, 1), shape),
    }


def their_inputs(batch, **more):
    import torch

    names = {"input_ids": "input_ids", "attention_mask": "input_mask", **more}
    return {name: torch.tensor(batch[feature]) for name, feature in names.items()}


def their_outputs(model, ours, batch):
    import torch

    with_segments = type(model).__name__.startswith(
        ("Bert", "Ernie", "Electra", "Albert", "NomicBert", "MobileBert", "MegatronBert")
    )
    inputs = their_inputs(batch, **({"token_type_ids": "segment_ids"} if with_segments else {}))
    if type(model).__name__.startswith("Longformer"):  # an input there, of the config here
        inputs["global_attention_mask"] = torch.zeros_like(inputs["input_ids"])
        inputs["global_attention_mask"][..., 0] = 1
    with torch.no_grad():
        out = model(**inputs)
    if ours == "BertEncoder":
        return {"sequence_output": out.last_hidden_state.numpy()}
    if ours == "BertMaskedLM":
        return {"logits": out.logits.numpy()[np.arange(2)[:, None], POSITIONS]}
    if ours == "BertPretrainer":
        picked = out.prediction_logits.numpy()[np.arange(2)[:, None], POSITIONS]
        pairs = out.get("sop_logits", out.get("seq_relationship_logits"))
        return {"mlm_logits": picked, "nsp_logits": pairs.numpy()}
    if ours == "BertSpanLabeler":
        return {"start_logits": out.start_logits.numpy(), "end_logits": out.end_logits.numpy()}
    return {"logits": out.logits.numpy()}


def our_outputs(model, ours, batch):
    if ours in ("BertMaskedLM", "BertPretrainer"):
        batch = batch | {"masked_lm_positions": POSITIONS}
    outputs = model(batch)
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    return {key: np.asarray(value) for key, value in outputs.items()}


def assert_close(found, expected, batch):
    """Compares outputs; those of padding, where the padding id says what is padding, are free."""
    mask = batch["input_mask"]
    for key, value in expected.items():
        free = len(set(batch["input_ids"][mask == 0])) == 1 and value.shape[:2] == mask.shape
        where = mask == 1 if free else ...
        np.testing.assert_allclose(found[key][where], value[where], **ORACLE, err_msg=key)


@pytest.mark.filterwarnings("ignore:the checkpoint has no pooler")
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("MPNetModel", {}),
        ("DebertaV2Model", {"position_buckets": 16, "max_relative_positions": 128}),
        ("DebertaV2Model", {"position_buckets": 6, "max_relative_positions": 40}),
        ("DebertaV2Model", {"position_buckets": 256}),
        ("DebertaV2Model", {"position_buckets": -1, "max_relative_positions": 30}),
        ("DebertaV2Model", {"num_attention_heads": 1}),
    ],
    ids=str,
)
def test_distances_of_every_bucket_are_told(name, changes, tmp_path):
    """Rows of 180 positions reach beyond that from which on distances share the last bucket."""
    model = their_model(name, max_position_embeddings=200, **changes)
    model.save_pretrained(tmp_path)
    random = np.random.default_rng(0)
    batch = {
        "input_ids": random.integers(2, 31, (2, 180)),
        "input_mask": np.ones((2, 180), int),
        "segment_ids": np.zeros((2, 180), int),
    }
    batch["input_mask"][1, 150:] = 0
    batch["input_ids"][1, 150:] = model.config.pad_token_id
    expected = their_outputs(model, "BertEncoder", batch)
    found = our_outputs(keras_bert.load_encoder(tmp_path), "BertEncoder", batch)
    assert_close(found, expected, batch)


@pytest.mark.filterwarnings("ignore:the checkpoint has no pooler")
@pytest.mark.parametrize(
    "name",
    ["ModernBertModel", "NomicBertModel", "GteModel", "JinaEmbeddingsV3Model", "EuroBertModel"],
)
def test_attention_is_theirs(name, tmp_path):
    """Rows of 40 positions, in blocks or as a table of all pairs; some end in padding."""
    import torch

    model = their_model(name, max_position_embeddings=40)
    model.set_attn_implementation("eager")
    model.save_pretrained(tmp_path)
    mask = np.tri(40, dtype=int)[[39, 24, 6]]
    ids = np.random.default_rng(0).integers(0, 31, (3, 40))
    with torch.no_grad():
        theirs = model(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            output_attentions=True,
            output_hidden_states=True,
        )
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    encoder = keras_bert.load_encoder(tmp_path)
    real = mask == 1
    expected = theirs.last_hidden_state.numpy()[real]
    np.testing.assert_allclose(encoder(batch)["sequence_output"][real], expected, **ORACLE)
    whole = keras_bert.create_encoder(
        encoder.config, output_attention_probs=True, output_hidden_states=True
    )
    whole.set_weights(encoder.get_weights())
    found = whole(batch)
    for ours, other in zip(found["hidden_states"], theirs.hidden_states, strict=True):
        np.testing.assert_allclose(ours[real], other.numpy()[real], **ORACLE)
    for ours, other in zip(found["attention_probs"], theirs.attentions, strict=True):
        for row, length in enumerate(mask.sum(axis=1)):
            np.testing.assert_allclose(
                ours[row, :, :length], other.numpy()[row, :, :length], **ORACLE
            )
    if name != "ModernBertModel":
        return
    # By hand: nothing beyond two positions to each side in the second layer.
    far = np.abs(np.subtract.outer(np.arange(40), np.arange(40))) > 2
    assert np.abs(found["attention_probs"][1].numpy()[0, :, far]).max() == 0


@pytest.mark.filterwarnings("ignore:the checkpoint has no pooler")
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ModernBertModel", {}),
        ("DebertaV2Model", {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}),
        ("NomicBertModel", {}),
        ("GteModel", {"hidden_dropout_prob": 0}),
        ("MobileBertModel", {"attention_probs_dropout_prob": 0, "classifier_activation": False}),
        ("MegatronBertModel", {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}),
        ("EuroBertModel", {}),
    ],
)
def test_gradients_are_theirs(name, changes, tmp_path):
    import tensorflow as tf
    import torch

    model = their_model(name, max_position_embeddings=20, **changes)
    model.save_pretrained(tmp_path, save_original_format=False)  # under the names of its parameters
    ids = np.random.default_rng(0).integers(1, 31, (2, 20))  # the padding's has no gradient there
    model(input_ids=torch.tensor(ids))[0].pow(3).sum().backward()
    checkpoint = checkpoints.read(tmp_path)
    encoder = keras_bert.load_encoder(tmp_path)
    batch = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    variables = {
        v.path: v
        for v in encoder.trainable_variables
        if v.path in checkpoint.variables and not v.path.startswith("pooler/")  # no loss reads it
    }
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(batch, training=True)["sequence_output"] ** 3)
    gradients = tape.gradient(loss, [one.value for one in variables.values()])
    theirs = {
        name: parameter.grad.numpy()
        for name, parameter in model.named_parameters()
        if not name.startswith("pooler.")
    }
    mapped = checkpoint.report.mapped
    assert theirs.keys() == {name for path in variables for name in mapped[path]}
    for path, gradient in zip(variables, gradients, strict=True):
        parts = [theirs[name] for name in mapped[path]]
        parts = [part.T for part in parts] if path.endswith("kernel") else parts
        expected = np.concatenate(parts, axis=-1)
        scale = np.abs(expected).max()
        found = tf.convert_to_tensor(gradient) / scale
        np.testing.assert_allclose(found, expected / scale, **ORACLE, err_msg=path)


@pytest.mark.parametrize(
    ("config", "class_name"),
    [
        (RobertaConfig.from_dict(ROBERTA, "hf"), "RobertaForMaskedLM"),
        (
            ModernBertConfig.from_name("modernbert_tiny", vocab_size=31, pad_token_id=0),
            "ModernBertForMaskedLM",
        ),
    ],
    ids=["roberta", "modernbert"],
)
def test_what_pretraining_saved_is_a_masked_language_model_where_there_is_no_other(
    config, class_name, tmp_path
):
    """Oracle: transformers' model of the result; its heads know no next sentence."""
    import transformers

    keras.utils.set_random_seed(0)
    model = keras_bert.BertPretrainer(config, seed=0)
    model.set_weights([np.random.normal(0, 0.3, w.shape) for w in model.get_weights()])
    model.save_to_preset(tmp_path / "ours")
    (tmp_path / "theirs").mkdir()
    report = convert(tmp_path / "ours", tmp_path / "theirs", "hf")
    assert "next_sentence/kernel: left out, the result has no place for it" in str(report)
    again, loading = getattr(transformers, class_name).from_pretrained(
        tmp_path / "theirs", output_loading_info=True
    )
    unused = {name for name in loading.pop("unexpected_keys") if ".pooler." not in name}
    assert not unused and not any(loading.values()), loading
    batch = features("BertMaskedLM", 1, config.pad_token_id)
    expected = their_outputs(again.eval(), "BertMaskedLM", batch)["logits"]
    found = our_outputs(model, "BertPretrainer", batch)["mlm_logits"]
    np.testing.assert_allclose(found, expected, **ORACLE)


@pytest.mark.filterwarnings("ignore:the checkpoint has no pooler")
@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name, tmp_path):
    import transformers

    ours, changes = CASES[name]
    theirs = their_model(name, **changes)
    theirs.save_pretrained(tmp_path / "theirs")
    padding_id = theirs.config.pad_token_id if name.startswith(BY_PADDING_ID) else None
    batch = features(ours, changes.get("type_vocab_size", 2), padding_id)
    expected = their_outputs(theirs, ours, batch)
    outputs = our_outputs(getattr(keras_bert, ours).from_preset(tmp_path / "theirs"), ours, batch)
    assert_close(outputs, expected, batch)

    (tmp_path / "back").mkdir()
    checkpoints.write(checkpoints.read(tmp_path / "theirs"), tmp_path / "back", "hf")
    again, loading = getattr(transformers, name).from_pretrained(
        tmp_path / "back", output_loading_info=True
    )
    assert not any(loading.values()), loading
    written = again.state_dict()
    assert written.keys() == theirs.state_dict().keys()
    for key, value in theirs.state_dict().items():
        np.testing.assert_array_equal(written[key].numpy(), value.numpy(), err_msg=key)
    if "Classification" in name:
        assert again.config.id2label == dict(enumerate(LABELS))


@pytest.mark.parametrize("name", ERNIES)
def test_an_ernie_is_a_bert_with_a_row_more(name, tmp_path):
    """The first row of its table of tasks is part of both segments from then on."""
    import transformers

    ours, changes = ERNIES[name]
    theirs = their_model(name, **changes)
    theirs.save_pretrained(tmp_path / "theirs")
    batch = features(ours, changes.get("type_vocab_size", 2))
    expected = their_outputs(theirs, ours, batch)
    model = getattr(keras_bert, ours).from_preset(tmp_path / "theirs")
    assert type(model.config) is BertConfig
    assert_close(our_outputs(model, ours, batch), expected, batch)
    (tmp_path / "back").mkdir()
    report = convert(tmp_path / "theirs", tmp_path / "back", "hf")
    assert report.difference < 1e-5 and "transformers" in str(report)
    other = getattr(transformers, name.replace("Ernie", "Bert"))
    again, loading = other.from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not any(loading.values()), loading
    assert_close(their_outputs(again.eval(), ours, batch), expected, batch)


@pytest.mark.filterwarnings("ignore:the checkpoint has no pooler")
@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("DistilBertModel", ("pooler/kernel", "pooler/bias")),
        ("ElectraForPreTraining", ("pooler/kernel", "pooler/bias")),
        ("AlbertForPreTraining", ()),
        ("XLMRobertaForMaskedLM", ()),
        ("LongformerForMaskedLM", ()),
        # Fresh: of the layers before the heads a masked language model holds its own alone.
        ("ModernBertForMaskedLM", ("pooler/dense/kernel", "pooler/layer_norm/gamma")),
        ("DebertaV2ForMaskedLM", ("pooler/kernel", "pooler/bias")),
        ("NomicBertForMaskedLM", ()),
        ("GteForMaskedLM", ()),
        ("JinaEmbeddingsV3ForMaskedLM", ()),
        ("MobileBertForPreTraining", ()),
        ("MegatronBertForPreTraining", ()),
        ("EuroBertForMaskedLM", ("pooler/kernel", "pooler/bias")),
    ],
)
def test_conversion_through_our_own_format(name, left_out, tmp_path):
    theirs = their_model(name)
    theirs.save_pretrained(tmp_path / "theirs")
    for folder in ("ours", "back"):
        (tmp_path / folder).mkdir()
    report = convert(tmp_path / "theirs", tmp_path / "ours", "keras")
    assert report.difference < 1e-5
    report = convert(tmp_path / "ours", tmp_path / "back", "hf")
    assert report.difference < 1e-5
    assert report.left_out == left_out
    told = [line for line in str(report).splitlines() if ": left out" in line]
    assert [line.split(":")[0].strip() for line in told] == [*left_out]
    assert BertConfig.from_file(tmp_path / "back") == BertConfig.from_file(tmp_path / "theirs")
    ours = CASES.get(name, ("BertMaskedLM",))[0]
    batch = features(ours, 2, 1 if name.startswith(BY_PADDING_ID) else None)
    expected = their_outputs(theirs, ours, batch)
    outputs = our_outputs(getattr(keras_bert, ours).from_preset(tmp_path / "ours"), ours, batch)
    assert_close(outputs, expected, batch)


@pytest.mark.parametrize(
    ("name", "held", "dropped"),
    [
        (
            "RobertaForMaskedLM",
            "lm_head.decoder.weight",
            "roberta.embeddings.word_embeddings.weight",
        ),
        ("AlbertForMaskedLM", "predictions.decoder.bias", "predictions.bias"),
        ("ModernBertForMaskedLM", "decoder.weight", "model.embeddings.tok_embeddings.weight"),
        (
            "NomicBertForMaskedLM",
            "cls.predictions.decoder.weight",
            "nomic_bert.embeddings.word_embeddings.weight",
        ),
    ],
)
def test_tied_tensors_are_read_under_either_name(name, held, dropped, tmp_path):
    """As some tools write them, and transformers reads them: once, by the name first in order."""
    import transformers
    from safetensors.numpy import load_file, save_file

    their_model(name).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    tensors.pop(held, None)
    save_file(tensors | {held: tensors.pop(dropped)}, file, metadata={"format": "pt"})
    theirs = getattr(transformers, name).from_pretrained(tmp_path).eval()
    padding_id = theirs.config.pad_token_id if name.startswith(BY_PADDING_ID) else None
    batch = features("BertMaskedLM", 2, padding_id)
    expected = their_outputs(theirs, "BertMaskedLM", batch)
    assert_close(
        our_outputs(keras_bert.load_model(tmp_path), "BertMaskedLM", batch), expected, batch
    )


def test_gradients_of_shared_layers_are_theirs(tmp_path):
    import tensorflow as tf

    theirs = their_model("AlbertModel")
    theirs.save_pretrained(tmp_path)
    batch = features("BertEncoder", 2)
    batch["input_mask"][:] = 1
    names = {"input_ids": "input_ids", "token_type_ids": "segment_ids"}
    import torch

    states = theirs(**{key: torch.tensor(batch[ours]) for key, ours in names.items()})[0]
    states.pow(3).sum().backward()
    encoder = keras_bert.AlbertEncoder.from_preset(tmp_path)
    variables = {variable.path: variable for variable in encoder.trainable_variables}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(batch)["sequence_output"] ** 3)
    gradients = dict(
        zip(variables, tape.gradient(loss, [one.value for one in variables.values()]), strict=True)
    )
    layer = theirs.encoder.albert_layer_groups[0].albert_layers[0]
    expected = {
        "layer_0/intermediate/kernel": layer.ffn.weight.grad.T,
        "layer_0/feed_forward_norm/gamma": layer.full_layer_layer_norm.weight.grad,
        "layer_0/attention/output/kernel": layer.attention.dense.weight.grad.T,
        "layer_0/attention_norm/beta": layer.attention.LayerNorm.bias.grad,
        "embeddings_projection/kernel": theirs.encoder.embedding_hidden_mapping_in.weight.grad.T,
    }
    for path, value in expected.items():
        scale = float(value.abs().max())
        np.testing.assert_allclose(
            gradients[path] / scale, value.numpy() / scale, **ORACLE, err_msg=path
        )


def test_a_deberta_with_the_newer_masked_language_model(tmp_path):
    """Its head has other names and the same arithmetic; what is written has the usual ones."""
    import transformers

    model = their_model("DebertaV2ForMaskedLM", legacy=False)
    model.save_pretrained(tmp_path / "theirs")
    batch = features("BertMaskedLM", 1, 0)
    expected = their_outputs(model, "BertMaskedLM", batch)
    ours = keras_bert.BertMaskedLM.from_preset(tmp_path / "theirs")
    assert_close(our_outputs(ours, "BertMaskedLM", batch), expected, batch)
    (tmp_path / "back").mkdir()
    checkpoints.write(checkpoints.read(tmp_path / "theirs"), tmp_path / "back", "hf")
    again = transformers.DebertaV2ForMaskedLM.from_pretrained(tmp_path / "back").eval()
    assert again.config.legacy
    assert_close(their_outputs(again, "BertMaskedLM", batch), expected, batch)


@pytest.mark.filterwarnings("ignore:the checkpoint has no pooler")
def test_a_deberta_as_version_3_was_published(tmp_path):
    """With both heads of its pretraining, which say nothing of masked words, and no class."""
    from safetensors.numpy import load_file, save_file

    model = their_model("DebertaV2ForMaskedLM", legacy=False, pos_att_type="p2c|c2p")
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors |= {f"mask_predictions.{name}.bias": np.zeros(1) for name in ("dense", "classifier")}
    tensors["deberta.embeddings.position_embeddings.weight"] = np.zeros((9, 12))
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text())
    del config["legacy"], config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config | {"pos_att_type": "p2c|c2p"}))
    checkpoint = checkpoints.read(tmp_path)
    assert checkpoint.architecture == "BertEncoder"
    assert set(checkpoint.report.dropped) == {
        name for name in tensors if "_predictions." in name or "position_emb" in name
    }
    batch = features("BertEncoder", 1, 0)
    encoder = keras_bert.load_encoder(tmp_path)
    expected = {"sequence_output": model.deberta(**their_inputs(batch))[0].detach().numpy()}
    assert_close(our_outputs(encoder, "BertEncoder", batch), expected, batch)


def test_an_idle_pooler_beside_the_dense_layer_of_a_classifier(tmp_path):
    """transformers before version 3 wrote both: roberta-large-mnli is such a file."""
    from safetensors.numpy import load_file, save_file

    source = tmp_path / "theirs"
    their_model("RobertaForSequenceClassification").save_pretrained(source)
    file = source / "model.safetensors"
    tensors = load_file(file)
    dense = tensors["classifier.dense.weight"]
    tensors["roberta.pooler.dense.weight"] = dense + 1
    tensors["roberta.pooler.dense.bias"] = dense[0]
    save_file(tensors, file, metadata={"format": "pt"})
    checkpoint = checkpoints.read(source)
    np.testing.assert_array_equal(checkpoint.variables["pooler/kernel"], dense.T)
    assert "idle" in checkpoint.report.dropped["roberta.pooler.dense.weight"]
    # Their encoder runs the idle one: what it makes of it is compared with nothing.
    assert convert(source, tmp_path / "ours", "keras").difference < 1e-5


@pytest.mark.parametrize(
    "changes", [{"summary_activation": "tanh"}, {"summary_type": "last"}], ids=str
)
def test_another_summary_of_choices_is_refused(changes, tmp_path):
    their_model("ElectraForMultipleChoice", **changes).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"summary_\w+ is '\w+': only '\w+' is supported"):
        keras_bert.BertMultipleChoice.from_preset(tmp_path)


def test_a_missing_and_an_unknown_tensor_are_named(tmp_path):
    from safetensors.numpy import load_file, save_file

    their_model("ElectraForPreTraining").save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    tensors["electra.surplus"] = tensors.pop("electra.embeddings_project.bias")
    save_file(tensors, file)
    with pytest.raises(ValueError, match=r"missing: electra\.embeddings_project\.bias \[12\]"):
        keras_bert.ElectraEncoder.from_preset(tmp_path)


@pytest.mark.parametrize("family", FAMILIES)
def test_config_files_say_the_same(family, tmp_path):
    model = their_model(f"{family}Model")
    model.save_pretrained(tmp_path)
    config = BertConfig.from_file(tmp_path)
    assert type(config) is FAMILIES[family][1]
    written = config.to_dict("hf")
    content = json.loads((tmp_path / "config.json").read_text())
    if family == "ModernBert":  # of its two spellings ours is the one that all versions read
        read = type(model.config)(**written).to_dict()
        for key in ("layer_types", "rope_parameters"):
            assert content[key] == read[key]
    if family in ("ModernBert", "EuroBert"):  # which has no dropouts of hidden states and heads
        written = {key: value for key, value in written.items() if key in content}
    assert {key: content[key] for key in written} == written
    assert BertConfig.from_dict(config.to_dict("hf"), "hf") == config
    assert type(config).from_dict(config.to_dict()) == config
    assert (
        keras.saving.deserialize_keras_object(
            keras.saving.serialize_keras_object(keras_bert.create_encoder(config))
        ).config
        == config
    )
