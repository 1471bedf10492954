"""MobileBERT: words with their neighbours, blocks with bottlenecks, Google's files; by hand."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertConfig,
    BertMaskedLM,
    BertPretrainer,
    MobileBertConfig,
    create_encoder,
    grow_vocabulary,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from keras_bert.serving.formats.litert_onnx import export_litert
from keras_bert.signatures.unpadded_encoder import UnpaddedEncoder
from tests.serving.test_small_models import ids_and_answers
from tests.signatures.tiny_models import ask, write_model
from tests.tolerances import CONVERTED, FORMULA, INT8_LOGITS, REORDERED

NUMBERS = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 10,
    "max_position_embeddings": 8,
    "initializer_range": 0.3,
    "embedding_size": 5,
    "intra_bottleneck_size": 6,
    "num_feedforward_networks": 3,
}
IDS = np.array([[7, 9, 11, 13, 0, 0]], np.int32)
BATCH = {
    "input_ids": IDS,
    "input_mask": np.array([[1, 1, 1, 1, 0, 0]], np.int32),
    "segment_ids": np.array([[0, 0, 1, 1, 0, 0]], np.int32),
}


def randomized(model):
    draw = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(draw.normal(0, 0.3, weight.shape))
    return model


def test_a_block_by_hand():
    """Every line of the arithmetic, of the published form, in NumPy."""
    encoder = randomized(create_encoder(MobileBertConfig(**NUMBERS, classifier_activation=False)))
    values = {weight.path: weight.numpy() for weight in encoder.weights}

    def dense(x, name):
        return x @ values[f"{name}/kernel"] + values[f"{name}/bias"]

    def scaled(x, name):
        return x * values[f"{name}/gamma"] + values[f"{name}/beta"]

    words = values["word_embeddings/embeddings"][IDS[0]]  # [6, 5]
    nothing = np.zeros((1, 5))
    following, previous = np.r_[words[1:], nothing], np.r_[nothing, words[:-1]]
    hidden = dense(np.c_[following, words, previous], "embeddings/transformation")
    hidden += values["embeddings/position_embeddings"][:6]
    hidden += values["embeddings/segment_embeddings"][BATCH["segment_ids"][0]]
    hidden = scaled(hidden, "embeddings/layer_norm")  # [6, 12]

    inside = scaled(
        dense(hidden, "layer_0/input_bottleneck/dense"), "layer_0/input_bottleneck/norm"
    )
    shared = "layer_0/attention/bottleneck"
    read = scaled(dense(hidden, f"{shared}/dense"), f"{shared}/norm")
    query, key = np.split(dense(read, "layer_0/attention/query_key"), 2, axis=-1)  # [6, 6] each
    value = dense(hidden, "layer_0/attention/value")
    context = []
    for head in (slice(0, 3), slice(3, 6)):
        scores = query[:, head] @ key[:4, head].T / np.sqrt(3)  # padding is not seen
        probs = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        context.append(probs @ value[:4, head])
    attended = dense(np.concatenate(context, axis=-1), "layer_0/attention/output")
    inside = scaled(inside + attended, "layer_0/attention_norm")
    for network, norm in (
        ("layer_0/feed_forward_0/", "layer_0/feed_forward_0/norm"),
        ("layer_0/feed_forward_1/", "layer_0/feed_forward_1/norm"),
        ("layer_0/", "layer_0/feed_forward_norm"),
    ):
        inner = np.maximum(dense(inside, f"{network}intermediate"), 0)
        inside = scaled(inside + dense(inner, f"{network}output"), norm)
    found = scaled(hidden + dense(inside, "layer_0/output_bottleneck"), "layer_0/output_norm")

    outputs = encoder(BATCH)
    np.testing.assert_allclose(outputs["sequence_output"][0], found, **FORMULA)
    np.testing.assert_allclose(outputs["pooled_output"][0], found[0], **FORMULA)


def test_words_are_scored_with_further_columns_and_new_ones_get_them():
    model = randomized(BertMaskedLM(MobileBertConfig(**NUMBERS)))
    values = {weight.path: weight.numpy() for weight in model.weights}
    positions = np.array([[1, 3]], np.int32)
    logits = model(BATCH | {"masked_lm_positions": positions})[0]
    states = model.encoder(BATCH)["sequence_output"].numpy()[0, [1, 3]]
    dense = "masked_lm_transform/dense"
    inner = np.maximum(states @ values[f"{dense}/kernel"] + values[f"{dense}/bias"], 0)
    centered = inner - inner.mean(axis=-1, keepdims=True)  # a layer norm, whatever others are
    vectors = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-12)
    vectors = vectors * values["masked_lm_transform/layer_norm/gamma"]
    vectors += values["masked_lm_transform/layer_norm/beta"]
    table = np.c_[values["word_embeddings/embeddings"], values["masked_lm_columns/embeddings"]]
    assert table.shape == (31, 12)
    np.testing.assert_allclose(logits, vectors @ table.T + values["masked_lm_bias/bias"], **FORMULA)

    grown = grow_vocabulary(model, {31: (7, 9)}, 32)
    again = grown(BATCH | {"masked_lm_positions": positions})[0]
    np.testing.assert_allclose(again[:, :31], logits, **REORDERED)
    expected = (logits.numpy()[:, 7] + logits.numpy()[:, 9]) / 2
    np.testing.assert_allclose(again[:, 31], expected, **REORDERED)


def test_what_follows_a_text_is_served_as_padding():
    """Answers do not depend on whether another text of the request is longer."""
    encoder = randomized(create_encoder(MobileBertConfig(**NUMBERS)))
    padded = encoder(BATCH)["sequence_output"][0, :4]
    cut = {name: values[:, :4] for name, values in BATCH.items()}
    alone = encoder(cut)["sequence_output"][0]
    assert np.abs(padded - alone).max() > 1e-3  # [PAD] has an embedding
    for rows in (BATCH, cut):
        rows = {name: tf.constant(values) for name, values in rows.items()}
        served = UnpaddedEncoder(encoder, full_length=8).sequence_output(rows)
        np.testing.assert_allclose(served[0], padded, **REORDERED)
    rows = {name: tf.constant(values) for name, values in cut.items()}
    served = UnpaddedEncoder(encoder, full_length=4).sequence_output(rows)  # no room for it
    np.testing.assert_allclose(served[0], alone, **REORDERED)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embedding_size": 0}, "embedding_size is 0: it must be an integer of at least 1"),
        ({"num_feedforward_networks": 1.0}, "num_feedforward_networks is 1.0: it must be an int"),
        ({"trigram_input": 1}, "trigram_input is 1: it must be true or false"),
        ({"normalization_type": "none"}, "normalization_type is 'none': choose one of no_norm, la"),
        ({"intra_bottleneck_size": 7}, "intra_bottleneck_size 7 is not divisible by num_attention"),
        ({"embedding_size": 13}, "embedding_size 13 is larger than hidden_size 12: the head of"),
        ({"left_to_right": True}, "left_to_right is True: a MobileBERT reads a word with the one"),
        (
            {"position_initializer": "neighbors", "intra_bottleneck_size": 32},
            'is "neighbors", but a bottleneck leads to the first attention',
        ),
    ],
    ids=str,
)
def test_numbers_out_of_range_are_told(changes, message):
    with pytest.raises(ValueError, match=message):
        MobileBertConfig(**NUMBERS | changes)


# https://github.com/google-research/google-research, mobilebert/config/, without what BERT has.
PUBLISHED = {
    "mobilebert": {"hidden_act": "relu", "hidden_dropout_prob": 0.0, "intermediate_size": 512}
    | {"intra_bottleneck_size": 128, "key_query_shared_bottleneck": True}
    | {"num_feedforward_networks": 4, "normalization_type": "no_norm"}
    | {"classifier_activation": False},
    "mobilebert_tiny": {"hidden_act": "relu", "hidden_dropout_prob": 0.0, "intermediate_size": 512}
    | {"intra_bottleneck_size": 128, "use_bottleneck_attention": True}
    | {"num_feedforward_networks": 2, "normalization_type": "no_norm"}
    | {"classifier_activation": False},
    "ib_bert_large": {"hidden_act": "gelu", "intermediate_size": 4096}
    | {"hidden_dropout_prob": 0.1, "intra_bottleneck_size": 1024},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs(name, tmp_path):
    shared = {"attention_probs_dropout_prob": 0.1, "hidden_size": 512, "initializer_range": 0.02}
    shared |= {"max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 24}
    shared |= {"type_vocab_size": 2, "vocab_size": 30522, "embedding_size": 128}
    shared |= {"trigram_input": True, "use_bottleneck": True}
    (tmp_path / "bert_config.json").write_text(json.dumps(shared | PUBLISHED[name]))
    config = BertConfig.from_file(tmp_path)
    assert config == MobileBertConfig.from_name(name)
    assert BertConfig.from_dict(config.to_dict("google"), "google") == config
    if name == "ib_bert_large":
        with pytest.raises(ValueError, match="intra_bottleneck_size is 1024: transformers'"):
            config.to_dict("hf")
    else:
        assert BertConfig.from_dict(config.to_dict("hf"), "hf") == config
    values = MobileBertConfig().to_dict("hf") | {"true_hidden_size": 512}
    with pytest.raises(ValueError, match="true_hidden_size is 512: it must equal intra_bottleneck"):
        BertConfig.from_dict(values, "hf")


@pytest.mark.parametrize("normalization_type", ["no_norm", "layer_norm"])
def test_googles_files_there_and_back(normalization_type, tmp_path):
    """The names are those of its code, with layer_0 spelled out by hand."""
    config = MobileBertConfig(**NUMBERS, normalization_type=normalization_type)
    model = randomized(BertPretrainer(config))
    checkpoint = preset.as_checkpoint(model)
    checkpoints.write(checkpoint, tmp_path, "google")
    shapes = dict(tf.train.list_variables(str(tmp_path / "bert_model.ckpt")))
    norm = {"no_norm": "FakeLayerNorm", "layer_norm": "LayerNorm"}[normalization_type]
    layer = "bert/encoder/layer_0"
    dense = {
        "bert/embeddings/embedding_transformation": (15, 12),
        f"{layer}/bottleneck/input/dense": (12, 6),
        f"{layer}/bottleneck/attention/dense": (12, 6),
        f"{layer}/attention/self/query": (6, 6),
        f"{layer}/attention/self/key": (6, 6),
        f"{layer}/attention/self/value": (12, 6),
        f"{layer}/attention/output/dense": (6, 6),
        f"{layer}/ffn_layer_0/intermediate/dense": (6, 10),
        f"{layer}/ffn_layer_0/output/dense": (10, 6),
        f"{layer}/ffn_layer_1/intermediate/dense": (6, 10),
        f"{layer}/ffn_layer_1/output/dense": (10, 6),
        f"{layer}/intermediate/dense": (6, 10),
        f"{layer}/output/dense": (10, 6),
        f"{layer}/output/bottleneck/dense": (6, 12),
        "bert/pooler/dense": (12, 12),
        "cls/predictions/transform/dense": (12, 12),
    }
    norms = {
        f"bert/embeddings/{norm}": 12,
        f"{layer}/bottleneck/input/{norm}": 6,
        f"{layer}/bottleneck/attention/{norm}": 6,
        f"{layer}/attention/output/{norm}": 6,
        f"{layer}/ffn_layer_0/output/{norm}": 6,
        f"{layer}/ffn_layer_1/output/{norm}": 6,
        f"{layer}/output/{norm}": 6,
        f"{layer}/output/bottleneck/{norm}": 12,
        "cls/predictions/transform/LayerNorm": 12,
    }
    expected = {
        "bert/embeddings/word_embeddings": (31, 5),
        "bert/embeddings/position_embeddings": (8, 12),
        "bert/embeddings/token_type_embeddings": (2, 12),
        "cls/predictions/output_bias": (31,),
        "cls/predictions/extra_output_weights": (31, 7),
        "cls/seq_relationship/output_weights": (2, 12),
        "cls/seq_relationship/output_bias": (2,),
    }
    for name, (inputs, units) in dense.items():
        expected |= {f"{name}/kernel": (inputs, units), f"{name}/bias": (units,)}
    for name, width in norms.items():
        expected |= {f"{name}/gamma": (width,), f"{name}/beta": (width,)}
    assert {name: tuple(shape) for name, shape in shapes.items()} == expected
    assert "model_type" not in json.loads((tmp_path / "bert_config.json").read_text())
    again = checkpoints.read(tmp_path)
    assert (again.config, again.architecture) == (config, "BertPretrainer")
    assert again.variables.keys() == checkpoint.variables.keys()
    for path, value in checkpoint.variables.items():
        np.testing.assert_array_equal(again.variables[path], value, err_msg=path)
    reader = tf.train.load_checkpoint(str(tmp_path / "bert_model.ckpt"))
    found = reader.get_tensor("cls/predictions/extra_output_weights")
    np.testing.assert_array_equal(found, checkpoint.variables["masked_lm_columns/embeddings"])


@pytest.mark.slow
def test_files_for_phones_say_what_keras_says(tmp_path):
    numbers = {"model_type": "mobilebert", "embedding_size": 16, "intra_bottleneck_size": 32}
    numbers |= {"hidden_size": 64, "intermediate_size": 64, "num_feedforward_networks": 2}
    write_model(tmp_path / "model", "masked_lm", initializer_range=0.2, **numbers)
    inputs, expected = ids_and_answers(tmp_path / "model")
    sizes = []
    for dtype, close in (("float32", CONVERTED), ("int8", INT8_LOGITS)):
        folder = export_litert(tmp_path / "model", tmp_path / dtype, dtype)
        runner = tf.lite.Interpreter(str(folder / "model.tflite")).get_signature_runner("serve_ids")
        np.testing.assert_allclose(runner(**inputs)["logits"], expected["logits"], **close)
        sizes.append((folder / "model.tflite").stat().st_size)
    assert sizes[1] < sizes[0] / 2
    # Words for gaps, from strings, are those of the whole head.
    found = ask(tmp_path / "model", text=["the [MASK] film", "[MASK]"])
    assert found["probabilities"].shape == (2, 1, 5)
