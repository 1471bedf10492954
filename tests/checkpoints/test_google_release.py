"""A checkpoint as Google released them, written here without any code of ours.

Names and shapes are those that `tf.train.list_variables` shows of uncased_L-12_H-768_A-12, with the
optimizer's slots of a pretraining run besides. Oracle: the arithmetic of google-research/bert
(modeling.py, run_pretraining.py) in NumPy, float64.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, BertPretrainer
from keras_bert.models.conversion.convert import convert
from tests.tolerances import ORACLE

# No two sizes alike but those that are alike in every BERT: attention is [H, H].
VOCAB, WIDTH, LAYERS, HEADS, INNER, POSITIONS, SEGMENTS = 19, 12, 2, 3, 14, 11, 2
CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": WIDTH,
    "initializer_range": 0.02,
    "intermediate_size": INNER,
    "max_position_embeddings": POSITIONS,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "type_vocab_size": SEGMENTS,
    "vocab_size": VOCAB,
}


def released_shapes():
    shapes = {
        "bert/embeddings/LayerNorm/beta": [WIDTH],
        "bert/embeddings/LayerNorm/gamma": [WIDTH],
        "bert/embeddings/position_embeddings": [POSITIONS, WIDTH],
        "bert/embeddings/token_type_embeddings": [SEGMENTS, WIDTH],
        "bert/embeddings/word_embeddings": [VOCAB, WIDTH],
        "bert/pooler/dense/bias": [WIDTH],
        "bert/pooler/dense/kernel": [WIDTH, WIDTH],
        "cls/predictions/output_bias": [VOCAB],
        "cls/predictions/transform/LayerNorm/beta": [WIDTH],
        "cls/predictions/transform/LayerNorm/gamma": [WIDTH],
        "cls/predictions/transform/dense/bias": [WIDTH],
        "cls/predictions/transform/dense/kernel": [WIDTH, WIDTH],
        "cls/seq_relationship/output_bias": [2],
        "cls/seq_relationship/output_weights": [2, WIDTH],
    }
    for layer in range(LAYERS):
        shapes |= {
            f"bert/encoder/layer_{layer}/{name}": shape
            for name, shape in {
                "attention/output/LayerNorm/beta": [WIDTH],
                "attention/output/LayerNorm/gamma": [WIDTH],
                "attention/output/dense/bias": [WIDTH],
                "attention/output/dense/kernel": [WIDTH, WIDTH],
                "attention/self/key/bias": [WIDTH],
                "attention/self/key/kernel": [WIDTH, WIDTH],
                "attention/self/query/bias": [WIDTH],
                "attention/self/query/kernel": [WIDTH, WIDTH],
                "attention/self/value/bias": [WIDTH],
                "attention/self/value/kernel": [WIDTH, WIDTH],
                "intermediate/dense/bias": [INNER],
                "intermediate/dense/kernel": [WIDTH, INNER],
                "output/LayerNorm/beta": [WIDTH],
                "output/LayerNorm/gamma": [WIDTH],
                "output/dense/bias": [WIDTH],
                "output/dense/kernel": [INNER, WIDTH],
            }.items()
        }
    return shapes


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A folder with bert_config.json and bert_model.ckpt.*, and the weights in it."""
    folder = tmp_path_factory.mktemp("release")
    random = np.random.default_rng(0)
    weights = {
        name: random.normal(0, 0.4, shape).astype("float32")
        for name, shape in released_shapes().items()
    }
    slots = {
        f"{name}/{slot}": random.normal(size=value.shape).astype("float32")
        for name, value in weights.items()
        for slot in ("adam_m", "adam_v")
    }
    stored = weights | slots | {"global_step": np.int64(1_000_000)}
    tf.raw_ops.SaveV2(
        prefix=str(folder / "bert_model.ckpt"),
        tensor_names=list(stored),
        shape_and_slices=[""] * len(stored),
        tensors=[tf.constant(value) for value in stored.values()],
    )
    (folder / "bert_config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return folder, weights


def features():
    random = np.random.default_rng(1)
    return {
        "input_ids": random.integers(0, VOCAB, (2, 9)),
        "input_mask": np.array([[1] * 9, [1] * 5 + [0] * 4]),
        "segment_ids": random.integers(0, SEGMENTS, (2, 9)),
        "masked_lm_positions": np.array([[1, 7], [4, 2]]),
    }


def gelu(x):
    return x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def forward(weights, batch):
    """Returns sequence output, pooled output and the logits of both objectives."""
    weights = {name: value.astype("float64") for name, value in weights.items()}

    def dense(x, scope):
        return x @ weights[f"{scope}/kernel"] + weights[f"{scope}/bias"]

    def norm(x, scope):
        centered = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-12)
        return centered / deviation * weights[f"{scope}/gamma"] + weights[f"{scope}/beta"]

    def heads(x):  # [B, S, H] -> [B, A, S, D]
        return x.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)

    rows, length = batch["input_ids"].shape
    words = weights["bert/embeddings/word_embeddings"]
    x = words[batch["input_ids"]]
    x = x + weights["bert/embeddings/token_type_embeddings"][batch["segment_ids"]]
    x = norm(
        x + weights["bert/embeddings/position_embeddings"][:length], "bert/embeddings/LayerNorm"
    )
    hidden = (1 - batch["input_mask"])[:, None, None, :] * -10000.0
    for layer in range(LAYERS):
        scope = f"bert/encoder/layer_{layer}"
        query, key, value = (
            heads(dense(x, f"{scope}/attention/self/{part}")) for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(WIDTH // HEADS) + hidden
        context = (softmax(scores) @ value).transpose(0, 2, 1, 3).reshape(rows, length, WIDTH)
        attended = dense(context, f"{scope}/attention/output/dense")
        x = norm(x + attended, f"{scope}/attention/output/LayerNorm")
        inner = gelu(dense(x, f"{scope}/intermediate/dense"))
        x = norm(x + dense(inner, f"{scope}/output/dense"), f"{scope}/output/LayerNorm")
    pooled = np.tanh(dense(x[:, 0], "bert/pooler/dense"))
    chosen = x[np.arange(rows)[:, None], batch["masked_lm_positions"]]
    chosen = gelu(dense(chosen, "cls/predictions/transform/dense"))
    chosen = norm(chosen, "cls/predictions/transform/LayerNorm")
    mlm_logits = chosen @ words.T + weights["cls/predictions/output_bias"]
    nsp_logits = pooled @ weights["cls/seq_relationship/output_weights"].T
    return x, pooled, mlm_logits, nsp_logits + weights["cls/seq_relationship/output_bias"]


def test_from_preset_computes_what_the_original_does(release):
    folder, weights = release
    batch = features()
    sequence, pooled, mlm_logits, nsp_logits = forward(weights, batch)
    found = BertPretrainer.from_preset(folder)(batch)
    np.testing.assert_allclose(found["mlm_logits"], mlm_logits, **ORACLE)
    np.testing.assert_allclose(found["nsp_logits"], nsp_logits, **ORACLE)
    encoder = BertEncoder.from_preset(folder)
    found = encoder({name: batch[name] for name in ("input_ids", "input_mask", "segment_ids")})
    np.testing.assert_allclose(found["sequence_output"], sequence, **ORACLE)
    np.testing.assert_allclose(found["pooled_output"], pooled, **ORACLE)


def test_it_converts_without_the_state_of_the_optimizer(release, tmp_path):
    folder, weights = release
    report = convert(folder, tmp_path, "keras")
    read = report.checkpoint.report
    assert read.tensors_mapped == len(weights)
    assert len(read.dropped) == 2 * len(weights) + 1  # adam_m, adam_v; global_step
    assert set(read.dropped) == {
        "global_step",
        *(f"{name}/{slot}" for name in weights for slot in ("adam_m", "adam_v")),
    }
    batch = features()
    found = BertPretrainer.from_preset(tmp_path)(batch)
    _, _, mlm_logits, nsp_logits = forward(weights, batch)
    np.testing.assert_allclose(found["mlm_logits"], mlm_logits, **ORACLE)
    np.testing.assert_allclose(found["nsp_logits"], nsp_logits, **ORACLE)
