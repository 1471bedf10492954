"""The unpadded encoder against the Keras model on padded rows, whatever the chunks are."""

import itertools
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder
from keras_bert.layers.encoder_block import EncoderBlock
from keras_bert.layers.onednn_kernels import check_onednn, masked_softmax, norm_of_tokens
from keras_bert.layers.self_attention import SelfAttention
from keras_bert.signatures.unpadded_encoder import UnpaddedEncoder
from tests.tolerances import REORDERED

# A row of every kind of chunk: one that fills a chunk alone, neighbours of 4 times the length and
# of one piece, equal ones. Not in order of length.
LENGTHS = np.array([3, 1, 70, 17, 16, 15, 64, 4, 1, 1, 5, 63, 2, 16])


class DistantAttention(SelfAttention):
    """Sees less of what is farther away, which it reads from where queries and keys stand."""

    def scores(self, query, key, training=False):
        scores = super().scores(query, key, training)  # [B, A, S, S]
        positions = keras.ops.arange(keras.ops.shape(query)[2])
        distances = keras.ops.abs(positions[:, None] - positions)  # [S, S]
        return scores - 0.3 * keras.ops.cast(distances, scores.dtype)


class DistantBlock(EncoderBlock):
    def create_attention(self):
        return DistantAttention(self.num_attention_heads, initializer_range=0.3, name="attention")


class DistantEncoder(BertEncoder):
    @staticmethod
    def create_block(config, index, seed, dtype):
        return DistantBlock(
            config.num_attention_heads, config.intermediate_size, dtype=dtype, name=f"layer_{index}"
        )


@pytest.fixture(
    scope="module",
    params=[(BertEncoder, False), (BertEncoder, True), (DistantEncoder, True)],
    ids=["both ways", "left to right", "left to right by distance"],
)
def encoder(request):
    kind, left_to_right = request.param
    config = BertConfig(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=80,
        initializer_range=0.3,
        left_to_right=left_to_right,
    )
    return kind(config, seed=0)


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(1)
    mask = np.arange(LENGTHS.max()) < LENGTHS[:, None]
    return {
        "input_ids": tf.constant(draw.integers(1, 50, mask.shape) * mask, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.constant(draw.integers(0, 2, mask.shape) * mask, tf.int32),
    }


@pytest.mark.parametrize("tokens_per_chunk", [20, 10_000])
def test_chunks_change_no_answer(tokens_per_chunk, encoder, rows):
    expected = encoder(rows)
    unpadded = UnpaddedEncoder(encoder, tokens_per_chunk)

    pooled = tf.function(unpadded.pooled_output)(rows)
    sequence = tf.function(unpadded.sequence_output)(rows)

    np.testing.assert_allclose(pooled, expected["pooled_output"], **REORDERED)
    np.testing.assert_allclose(unpadded.pooled_from(sequence), pooled, **REORDERED)
    assert sequence.row_lengths().numpy().tolist() == LENGTHS.tolist()
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(
            sequence[row], expected["sequence_output"][row, :length], **REORDERED
        )


def test_a_long_row_does_not_pad_short_ones_to_its_length(monkeypatch):
    config = BertConfig.from_name("bert_tiny", vocab_size=50, max_position_embeddings=400)
    encoder = BertEncoder(config, seed=0)
    lengths = np.array([340] + [2] * 86)
    mask = tf.constant(np.arange(340) < lengths[:, None], tf.int32)
    cells = []
    for block in encoder.encoder_blocks():
        attend = block.attention.attend

        def counted(query, key, *others, attend=attend, **named):
            cells.append(query.shape[0] * query.shape[2] * key.shape[2])
            return attend(query, key, *others, **named)

        monkeypatch.setattr(block.attention, "attend", counted)

    # Run eagerly, so that shapes are known when `attend` is called.
    UnpaddedEncoder(encoder).pooled_output(
        {"input_ids": mask, "input_mask": mask, "segment_ids": tf.zeros_like(mask)}
    )

    # The long row alone, 340 x 340, and 86 of 2 x 2; in the second block one query of each row.
    assert sorted(cells) == [86 * 2, 340, 86 * 2 * 2, 340 * 340]


def without_onednn(function, *inputs):
    """Whether a graph is refused, as it has to be where TensorFlow lacks oneDNN in bfloat16."""
    try:
        function(*inputs)
    except tf.errors.InvalidArgumentError as error:
        assert "TensorFlow does not compute in bfloat16 by oneDNN: export it with" in str(error)
        return True
    return False


@pytest.mark.half_precision
@pytest.mark.parametrize("left_to_right", [False, True])
def test_kernels_of_onednn_move_no_more_than_bfloat16(left_to_right, rows):
    config = BertConfig.from_name("bert_tiny", vocab_size=50, left_to_right=left_to_right)
    exact = BertEncoder(config, seed=0)
    rounded = BertEncoder(config, seed=0, dtype="bfloat16")
    rounded.set_weights(exact.get_weights())
    plain, kernels = (
        tf.function(UnpaddedEncoder(rounded, 20, onednn=onednn).sequence_output)
        for onednn in (False, True)
    )

    def kinds(function):
        graph = function.get_concrete_function(rows).graph.as_graph_def()
        nodes = itertools.chain(graph.node, *(found.node_def for found in graph.library.function))
        return [(node.op, node.attr["T"].type) for node in nodes]

    half, full = tf.bfloat16.as_datatype_enum, tf.float32.as_datatype_enum
    assert ("Softmax", half) not in kinds(plain)
    # Two blocks, the norm of the embeddings, and what the check computes.
    assert kinds(kernels).count(("Softmax", half)) == 3
    assert kinds(kernels).count(("Softmax", full)) == 1
    assert kinds(kernels).count(("FusedBatchNormV3", half)) == 5

    if without_onednn(kernels, rows):
        return
    expected = tf.function(UnpaddedEncoder(exact, 20).sequence_output)(rows).values
    off = [
        np.abs(tf.cast(function(rows).values, tf.float32) - expected).mean()
        for function in (plain, kernels)
    ]
    assert 0 < off[0] < 0.02  # of numbers of the order of 1
    # Rounded elsewhere: which is nearer depends on the weights and the processor.
    assert off[1] < 1.5 * off[0]


@pytest.mark.half_precision
def test_each_kernel_of_onednn_is_the_formula_in_float32_rounded():
    draw = np.random.default_rng(2)
    rounded = {"rtol": 2**-8, "atol": 1e-6}
    tokens = tf.cast(draw.normal(3.0, 2.0, (64, 24)), tf.bfloat16)
    gamma, beta = (tf.constant(draw.normal(size=24), tf.float32) for _ in range(2))
    # Scale and offset are rounded, too, and so is what stands between them.
    x = tf.cast(tokens, tf.float32).numpy()
    hat = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    found = tf.function(norm_of_tokens)(tokens, gamma, beta, 1e-12)
    np.testing.assert_allclose(tf.cast(found, tf.float32), hat * gamma + beta, rtol=0, atol=0.06)
    found = tf.function(norm_of_tokens)(tokens, tf.ones(24), tf.zeros(24), 1e-12)
    np.testing.assert_allclose(tf.cast(found, tf.float32), hat, **rounded)

    if without_onednn(tf.function(check_onednn), tf.constant([1, 2])):
        return
    scores = tf.cast(draw.normal(0, 3, (2, 3, 5, 700)), tf.bfloat16)
    bias = np.zeros((2, 1, 1, 700), np.float32)
    bias[1, ..., 400:] = -10000.0
    found = tf.cast(tf.function(masked_softmax)(scores, bias), tf.float32).numpy()
    powers = np.exp(tf.cast(scores, tf.float32).numpy()) * (bias == 0)
    np.testing.assert_allclose(found, powers / powers.sum(axis=-1, keepdims=True), **rounded)
    assert not found[1, ..., 400:].any()


WITHOUT_ONEDNN = """
import tensorflow as tf
from keras_bert.layers.onednn_kernels import check_onednn
from tests.signatures.test_unpadded_encoder import without_onednn
assert without_onednn(tf.function(check_onednn), tf.constant([1, 2]))
"""


@pytest.mark.slow
def test_kernels_of_onednn_are_refused_without_it():
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}
    subprocess.run([sys.executable, "-c", WITHOUT_ONEDNN], check=True, env=environment)
