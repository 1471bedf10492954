"""Heads that start by looking at neighbours."""

import itertools
import math

import numpy as np
import pytest

from keras_bert import BertConfig, BertEncoder
from keras_bert.family_configs import ElectraConfig
from keras_bert.layers.initializer import Neighbors, Sinusoids

CONFIG = BertConfig(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=8,
    max_position_embeddings=48,
    position_initializer="neighbors",
)
# The distances of its four heads.
DISTANCES = (-1, 1, -2, 2)


def test_scores_of_positions_are_the_formula():
    width, size = 16, 4  # eight frequencies; those of a head: first and last of the quicker half
    heads = width // size
    # Sines and cosines themselves.
    table = np.asarray(Sinusoids(math.sqrt(1 / 2), quickest=2.8)((40, width)))
    kernel = np.asarray(Neighbors(1e-9, size)((width, 3 * width)))
    query, key, value = (table @ part for part in np.split(kernel, 3, axis=1))
    frequencies = [2.8, 2.8 / 2800 ** (3 / 8)]  # from 2.8 to 1/1000 in eight equal ratios
    for head, distance in zip(range(heads), DISTANCES, strict=True):
        columns = slice(head * size, (head + 1) * size)
        own = sum(math.cos(distance * w) for w in frequencies) / 2
        peak = 2 * (1 - own**2)
        for here, there in itertools.product((3, 20, 39), range(40)):
            t = there - here
            agreement = sum(
                math.cos((t - distance) * w) - own * math.cos(t * w) for w in frequencies
            )
            # A third of the mean square of 1 makes a pair of sine and cosine 2/3: a score of 2.
            score = query[here, columns] @ key[there, columns] / math.sqrt(size) * (2 / 3)
            assert score == pytest.approx(2.0 * agreement / peak, abs=1e-4)
    assert np.abs(value).max() < 1e-6


def test_heads_look_at_their_neighbours_and_not_at_themselves():
    encoder = BertEncoder(CONFIG, output_attention_probs=True, seed=0)
    ids = np.random.default_rng(0).integers(0, 1000, size=(16, 48))
    inputs = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
    }
    probs = np.asarray(encoder(inputs)["attention_probs"][0])  # [B, A, S, S]
    mean = probs.mean(axis=0)  # [A, S, S]
    inner = np.arange(8, 40)  # away from the ends, where every distance has a place
    for head, distance in enumerate(DISTANCES):
        # Evenly it would be 1/48.
        assert mean[head, inner, inner + distance].mean() > 4 / 48
        assert mean[head, inner, inner].mean() < 1.5 / 48
        assert mean[head, inner, inner - distance].mean() < 1.5 / 48


@pytest.mark.parametrize("width, heads", [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (6, 2), (10, 1)])
def test_any_width_and_any_heads(width, heads):
    kernel = np.asarray(Neighbors(0.02, width // heads)((width, 3 * width)))
    assert kernel.shape == (width, 3 * width)
    assert np.isfinite(kernel).all()


def test_later_blocks_start_at_random():
    first, second = BertEncoder(CONFIG).encoder_blocks()
    largest = [np.abs(block.attention.query_key_value.kernel).max() for block in (first, second)]
    assert largest[0] > 0.5
    assert largest[1] < 0.05  # cut at two standard deviations of 0.02


def test_embeddings_that_are_projected():
    with pytest.raises(ValueError, match='is "neighbors", but the embeddings are 64 wide and hidd'):
        ElectraConfig(embedding_size=64, hidden_size=128, position_initializer="neighbors")
