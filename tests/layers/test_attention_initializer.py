"""Heads that start by looking at one distance each."""

import itertools
import math

import numpy as np
import pytest

from keras_bert import BertConfig, BertEncoder
from keras_bert.family_configs import (
    DistilBertConfig,
    ElectraConfig,
    LocalBertConfig,
    LongformerConfig,
)
from keras_bert.layers.embeddings import EmbeddingPostprocessor
from keras_bert.layers.encoder_block import EncoderBlock
from keras_bert.layers.initializer import Neighbors, Sinusoids
from keras_bert.models.encoder import create_encoder
from keras_bert.models.seq2seq.decoder import BertDecoder

SETTINGS = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 8,
    "max_position_embeddings": 48,
    "initializer_range": 0.05,
    "position_initializer": "neighbors",
}
CONFIG = BertConfig(**SETTINGS)
# Away from the ends, where every distance has a place.
INNER = np.arange(8, 40)


def kernel_of(block):
    return np.asarray(block.attention.query_key_value.kernel)


def mean_attention(config, block=0):
    """Of random pieces, by heads: rates at the distances from -8 to 8, [A, 17]."""
    encoder = create_encoder(config, output_attention_probs=True)
    ids = np.random.default_rng(0).integers(0, 1000, size=(16, 48))
    inputs = {name: np.zeros_like(ids) for name in encoder.input}
    inputs |= {"input_ids": ids, "input_mask": np.ones_like(ids)}
    probs = np.asarray(encoder(inputs)["attention_probs"][block])  # [B, A, S, S]
    mean = probs.mean(axis=0)
    return np.stack([mean[:, INNER, INNER + t].mean(axis=1) for t in range(-8, 9)], axis=1)


def test_scores_of_positions_are_the_formula():
    width, size = 64, 16  # 32 frequencies; those of a head: eight of the first sixteen
    # Sines and cosines themselves.
    table = np.asarray(Sinusoids(math.sqrt(1 / 2), quickest=2.8)((40, width)))
    kernel = np.asarray(Neighbors(1e-9, 4, size)((width, 3 * width)))
    query, key, value = (table @ part for part in np.split(kernel, 3, axis=1))
    # From 2.8 to 1/1000 in 32 equal ratios; 0, 15/7, 30/7, ..., 15 rounded.
    frequencies = [2.8 / 2800 ** (wave / 32) for wave in (0, 2, 4, 6, 9, 11, 13, 15)]
    for head, distance in enumerate((-1, 1, -2, 2)):
        columns = slice(head * size, (head + 1) * size)
        common = sum(math.cos(distance * w) for w in frequencies) / 8
        peak = 8 * (1 - common**2)
        for here, there in itertools.product((3, 20, 39), range(40)):
            t = there - here
            agreement = sum(
                math.cos((t - distance) * w) - common * math.cos(t * w) for w in frequencies
            )
            # A mean square of 1/3 makes a pair of sine and cosine 2/3: a score of 2 at the peak.
            score = query[here, columns] @ key[there, columns] / math.sqrt(size) * (2 / 3)
            assert score == pytest.approx(2.0 * agreement / peak, abs=1e-4)
    assert np.abs(value).max() < 1e-6


@pytest.mark.parametrize(
    "config, distances",
    [
        (CONFIG, (-1, 1, -2, 2)),
        (CONFIG.replace(num_attention_heads=1), (-1,)),
        (CONFIG.replace(num_attention_heads=8), (-1, 1, -2, 2, -3, 3, -4, 4)),
        (CONFIG.replace(left_to_right=True), (-1, -2, -3, -4)),
        (DistilBertConfig(**SETTINGS, type_vocab_size=0), (-1, 1, -2, 2)),
    ],
)
def test_each_head_looks_most_at_its_distance(config, distances):
    rates = mean_attention(config)  # evenly it would be 1/48
    assert tuple(rates.argmax(axis=1) - 8) == distances
    assert (rates.max(axis=1) > 3 / 48).all()  # narrow heads look less sharply
    assert (rates[:, 8] < 2 / 48).all()  # at the position itself


def test_later_blocks_start_at_random():
    first, second = map(kernel_of, BertEncoder(CONFIG).encoder_blocks())
    assert np.abs(first).max() > 0.5
    assert np.abs(second).max() < 0.12  # cut at two standard deviations, of a normal of 0.05


@pytest.mark.parametrize("kind, projected", [(LocalBertConfig, 4), (LongformerConfig, 8)])
def test_heads_of_local_attention_but_not_of_global_positions(kind, projected):
    extra = {"type_vocab_size": 1} if kind is LongformerConfig else {}
    encoder = create_encoder(kind(**{**SETTINGS, "attention_window": 4} | extra))
    parts = kernel_of(encoder.encoder_blocks()[0]).reshape(128, 3, projected, 32)
    largest = np.abs(parts).max(axis=(0, 3))  # [3, P]
    assert (largest[:2, :4] > 0.5).all()
    assert (largest[:2, 4:] < 0.12).all()
    assert (largest[2] < 0.12).all()


def test_a_decoder_looks_back():
    decoder = BertDecoder(BertEncoder(CONFIG))
    table = np.asarray(decoder.get_layer("embeddings").position_embeddings)  # [48, 128]
    query, key = np.split(table @ kernel_of(decoder.get_layer("layer_0"))[:, :256], 2, axis=1)
    scores = query[20, :32] @ key[:, :32].T  # of the first head
    assert scores.argmax() == 19
    assert np.abs(kernel_of(decoder.get_layer("layer_1"))).max() < 0.12


def test_the_generator_of_electra_shares_only_the_table():
    config = ElectraConfig(**SETTINGS, embedding_size=128, generator_size=0.25)
    assert config.generator.position_initializer == "normal"
    with pytest.raises(ValueError, match="a dense layer leads from the embeddings to the blocks"):
        config.replace(embedding_size=64)


def test_heads_that_are_too_narrow():
    with pytest.raises(ValueError, match="heads are 8 wide, too narrow to tell distances apart"):
        CONFIG.replace(num_attention_heads=16)


class ForgetfulBlock(BertEncoder):
    @staticmethod
    def create_block(config, index, seed, dtype):
        return EncoderBlock(4, 8, dtype=dtype, name=f"layer_{index}")


class ForgetfulEmbeddings(BertEncoder):
    @staticmethod
    def create_embeddings(config, seed, dtype):
        return EmbeddingPostprocessor(48, 2, dtype=dtype, name="embeddings")


@pytest.mark.parametrize(
    "kind, sentence",
    [
        (
            ForgetfulBlock,
            "first block of ForgetfulBlock starts as 'normal': make it with",
        ),
        (
            ForgetfulEmbeddings,
            "of ForgetfulEmbeddings start as 'normal': make them with",
        ),
    ],
)
def test_an_encoder_that_knows_nothing_of_it(kind, sentence):
    with pytest.raises(ValueError, match=sentence):
        kind(CONFIG)
    kind(CONFIG.replace(position_initializer="normal"))


def test_layers_of_ones_own():
    hidden = np.zeros((1, 3, 32), "float32")
    with pytest.raises(ValueError, match="is 'neighbours': choose one of normal, neighbors, prev"):
        EncoderBlock(2, 8, attention_initializer="neighbours")(hidden, np.ones((1, 3)))
    with pytest.raises(ValueError, match="head_size is 8: too narrow to tell distances apart"):
        EncoderBlock(4, 8, attention_initializer="neighbors")(hidden, np.ones((1, 3)))


def test_files_of_others_do_not_name_it_and_ours_do():
    assert BertConfig.from_dict(CONFIG.to_dict()) == CONFIG
    for dialect in ("hf", "google"):
        assert "position_initializer" not in CONFIG.to_dict(dialect)


def test_initializers_from_their_configs():
    for initializer in (Neighbors(0.5, 2, 16, causal=True), Sinusoids(0.5, quickest=2.0)):
        again = type(initializer).from_config(initializer.get_config())
        assert again.get_config() == initializer.get_config()
    assert Neighbors(0.5, 2, 16, causal=True).get_config()["causal"]
    assert Sinusoids(0.5, quickest=2.0).get_config()["quickest"] == 2.0
