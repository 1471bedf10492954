"""Blocks of NomicBERT, GTE, Jina's and EuroBERT by hand: angles, gates, norms, what is dropped."""

import keras
import numpy as np
import pytest

from keras_bert import (
    EuroBertConfig,
    GteConfig,
    JinaEmbeddingsV3Config,
    NomicBertConfig,
    create_encoder,
)
from keras_bert.layers.rotary_attention import RotaryPostNormBlock
from tests.tolerances import REORDERED

NUMBERS = {
    "vocab_size": 31,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "initializer_range": 0.3,
    "rope_theta": 50.0,
}
CONFIGS = {
    "nomic_bert": NomicBertConfig(**NUMBERS),
    "gte": GteConfig(**NUMBERS, pad_token_id=0, rope_factor=3.0),
    "jina": JinaEmbeddingsV3Config(**NUMBERS, layer_norm_eps=1e-12),
}
families = pytest.mark.parametrize("family", CONFIGS)


def batch(ids, mask=None):
    ids = np.asarray(ids, np.int32)
    mask = np.ones_like(ids) if mask is None else np.asarray(mask, np.int32)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


def states(encoder, inputs):
    return keras.ops.convert_to_numpy(encoder(inputs)["sequence_output"])


def perturbed(encoder):
    """Zero biases and scales of 1 would hide that one is lost."""
    draw = np.random.default_rng(2)
    encoder.set_weights([w + draw.normal(0, 0.1, w.shape) for w in encoder.get_weights()])
    return encoder


def norm(values, weights):
    gamma, beta = weights
    centered = values - values.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-12) * gamma + beta


def turned(vectors, theta, factor):
    """Rows [S, D] as complex numbers times powers of one unit number each."""
    half = vectors.shape[1] // 2
    points = vectors[:, :half] + 1j * vectors[:, half:]
    speeds = theta ** (-2.0 * np.arange(half) / vectors.shape[1]) / factor
    points = points * np.exp(1j * np.outer(np.arange(len(vectors)), speeds))
    return np.concatenate([points.real, points.imag], axis=1)


@families
def test_an_encoder_by_hand(family):
    config = CONFIGS[family]
    encoder = perturbed(create_encoder(config, seed=1, dtype="float32"))
    ids = np.random.default_rng(0).integers(0, 31, 9)
    values = {w.path: keras.ops.convert_to_numpy(w).astype(np.float64) for w in encoder.weights}
    hidden = values["word_embeddings/embeddings"][ids]
    hidden = hidden + values["embeddings/segment_embeddings"][0]

    def weights(path):
        return [values[f"{path}/{name}"] for name in ("gamma", "beta")]

    def dense(inputs, path):
        return inputs @ values[f"{path}/kernel"] + values.get(f"{path}/bias", 0)

    hidden = norm(hidden, weights("embeddings/layer_norm"))
    for layer in ("layer_0", "layer_1"):
        parts = np.split(dense(hidden, f"{layer}/attention/query_key_value"), 3, axis=1)
        contexts = []
        for head in (slice(0, 8), slice(8, 16)):
            query, key = (turned(p[:, head], 50.0, config.rope_factor) for p in parts[:2])
            scores = np.exp(query @ key.T / np.sqrt(8))
            contexts.append(scores / scores.sum(axis=1, keepdims=True) @ parts[2][:, head])
        attended = dense(np.concatenate(contexts, axis=1), f"{layer}/attention/output")
        hidden = norm(hidden + attended, weights(f"{layer}/attention_norm"))
        inner, gate = dense(hidden, f"{layer}/intermediate"), 1.0
        if family != "jina":
            inner, gate = np.split(inner, 2, axis=1)
        if family == "nomic_bert":
            inner = inner / (1 + np.exp(-inner))
        else:
            inner = keras.ops.convert_to_numpy(keras.ops.gelu(inner, approximate=False))
        found = dense(inner * gate, f"{layer}/output")
        hidden = norm(hidden + found, weights(f"{layer}/feed_forward_norm"))
    np.testing.assert_allclose(states(encoder, batch([ids]))[0], hidden, **REORDERED)
    # Which layers have a bias, besides norms and the pooler.
    biased = {path.partition("layer_0/")[2] for path in values if path.endswith("/bias")} - {""}
    some = {f"{name}/bias" for name in ("attention/query_key_value", "attention/output", "output")}
    expected = {"nomic_bert": set(), "gte": some, "jina": some | {"intermediate/bias"}}
    assert biased == expected[family]


def test_a_eurobert_by_hand():
    """Six heads of queries, of which three each share keys and values; root mean squares."""
    config = EuroBertConfig(
        **(NUMBERS | {"hidden_size": 24, "num_attention_heads": 6}),
        **{"pad_token_id": 0, "num_key_value_heads": 2, "rope_factor": 3.0},
    )
    encoder = perturbed(create_encoder(config, seed=1, dtype="float32"))
    ids = np.random.default_rng(0).integers(0, 31, 9)
    values = {w.path: keras.ops.convert_to_numpy(w).astype(np.float64) for w in encoder.weights}
    assert values["layer_0/attention/query_key_value/kernel"].shape == (24, 24 + 2 * 8)
    assert {path for path in values if path.endswith(("bias", "beta"))} == {"pooler/bias"}

    def scaled(states, path):
        squares = (states**2).mean(axis=-1, keepdims=True)
        return states / np.sqrt(squares + 1e-5) * values[f"{path}/gamma"]

    hidden = values["word_embeddings/embeddings"][ids]
    for layer in ("layer_0", "layer_1"):
        read = scaled(hidden, f"{layer}/attention_norm")
        projected = read @ values[f"{layer}/attention/query_key_value/kernel"]
        heads = projected.reshape(9, 10, 4)
        contexts = []
        for head in range(6):
            shared = 6 + head // 3
            query, key = (turned(heads[:, place], 50.0, 3.0) for place in (head, shared))
            scores = np.exp(query @ key.T / 2)
            contexts.append(scores / scores.sum(axis=1, keepdims=True) @ heads[:, shared + 2])
        attended = np.concatenate(contexts, axis=1) @ values[f"{layer}/attention/output/kernel"]
        hidden = hidden + attended
        read = scaled(hidden, f"{layer}/feed_forward_norm")
        inner, gate = np.split(read @ values[f"{layer}/intermediate/kernel"], 2, axis=1)
        inner = inner / (1 + np.exp(-inner)) * gate
        hidden = hidden + inner @ values[f"{layer}/output/kernel"]
    hidden = scaled(hidden, "layer_1/final_norm")
    np.testing.assert_allclose(states(encoder, batch([ids]))[0], hidden, **REORDERED)


@families
def test_only_distances_count(family):
    """A text further to the right, behind positions that it does not see, gets the same states."""
    encoder = perturbed(create_encoder(CONFIGS[family], seed=1))
    ids = np.random.default_rng(0).integers(5, 31, (1, 8))
    moved = np.concatenate([np.full((1, 9), 7), ids], axis=1)
    mask = np.concatenate([np.zeros((1, 9)), np.ones((1, 8))], axis=1)
    expected = states(encoder, batch(ids))
    np.testing.assert_allclose(states(encoder, batch(moved, mask))[:, 9:], expected, **REORDERED)
    turned_around = states(encoder, batch(ids[:, ::-1]))[:, ::-1]
    assert np.abs(turned_around - expected).max() > 1e-2


@families
def test_from_left_to_right_a_prefix_says_what_it_says_alone(family):
    config = CONFIGS[family].replace(left_to_right=True)
    encoder = perturbed(create_encoder(config, seed=1))
    ids = np.random.default_rng(0).integers(5, 31, (2, 10))
    whole, alone = states(encoder, batch(ids)), states(encoder, batch(ids[:, :4]))
    np.testing.assert_allclose(whole[:, :4], alone, **REORDERED)
    with pytest.raises(ValueError, match="left_to_right is True: only our own format keeps"):
        config.to_dict("hf")


def test_what_the_gate_lets_through_is_dropped_by_a_rate_of_its_own():
    hidden = np.random.default_rng(0).normal(size=(1, 50, 16)).astype(np.float32)
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    for gate_rate in (0.0, 0.5):
        block = RotaryPostNormBlock(2, 24, **rates, gate_dropout_prob=gate_rate, seed=3)
        block(hidden, np.ones((1, 50), np.int32))
        kept, found = (
            keras.ops.convert_to_numpy(block.inner(hidden[0], training=training))
            for training in (False, True)
        )
        dropped = found == 0
        assert abs(dropped.mean() - gate_rate) < 0.05
        np.testing.assert_allclose(found[~dropped], kept[~dropped] / (1 - gate_rate), **REORDERED)
    # Of a GTE it is that of the hidden states, a NomicBERT has none (transformers, GteMLP).
    for config, expected in ((NomicBertConfig, 0.0), (GteConfig, 0.3)):
        encoder = create_encoder(config(**NUMBERS, hidden_dropout_prob=0.3))
        assert encoder.encoder_blocks()[0].gate_dropout_prob == expected
