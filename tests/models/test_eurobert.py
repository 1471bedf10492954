"""EuroBERT: what its heads read, words scored by a table of their own, keys that heads share."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertMaskedLM,
    BertSparseEmbedder,
    EuroBertConfig,
    create_encoder,
    grow_vocabulary,
)
from keras_bert.checkpoints.variables import variable_shapes
from keras_bert.models import preset
from keras_bert.models.surgery.layer_selection import check_same_widths, select_layers
from keras_bert.signatures.unpadded_encoder import UnpaddedEncoder
from keras_bert.tasks.sentence_embedding.sparse_head import SparseEmbeddingHead
from tests.tolerances import REORDERED

CONFIG = EuroBertConfig(
    vocab_size=31,
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=24,
    max_position_embeddings=12,
    initializer_range=0.3,
    pad_token_id=0,
)
BATCH = {
    "input_ids": np.random.default_rng(0).integers(5, 31, (3, 8)).astype(np.int32),
    "input_mask": np.tri(8, dtype=np.int32)[[7, 4, 2]],
    "segment_ids": np.zeros((3, 8), np.int32),
}
POSITIONS = {"masked_lm_positions": np.array([[1, 3], [0, 4], [2, 0]], np.int32)}


def perturbed(model):
    draw = np.random.default_rng(1)
    model.set_weights([w + draw.normal(0, 0.1, w.shape) for w in model.get_weights()])
    return model


@pytest.mark.parametrize("tied", [False, True])
def test_masked_words_are_scored_by_a_matrix_alone(tied):
    config = CONFIG.replace(tie_word_embeddings=tied)
    model = perturbed(BertMaskedLM(config, seed=1))
    weights = {weight.path: weight.numpy() for weight in model.weights}
    expected = variable_shapes(config, "BertMaskedLM", {})
    assert {path: value.shape for path, value in weights.items()} == expected
    own = "output_embeddings/embeddings"
    assert (own in weights) == (not tied)
    table = weights["word_embeddings/embeddings" if tied else own]
    states = model.encoder(BATCH)["sequence_output"].numpy()
    picked = states[np.arange(3)[:, None], POSITIONS["masked_lm_positions"]]
    logits = model(BATCH | POSITIONS)
    np.testing.assert_allclose(logits, picked @ table.T, **REORDERED)
    # Rows without a piece are never the likeliest, in what is computed from then on.
    bias = model.get_layer("masked_lm_bias")
    bias.silence(20)
    shown = bias(logits).numpy()
    np.testing.assert_array_equal(shown[..., :20], logits[..., :20])
    assert shown[..., 20:].max() < -1e8
    # A word that is added starts as the mean of its pieces, in either table.
    grown = grow_vocabulary(model, {31: (6, 7)}, 32)
    for path in {"word_embeddings/embeddings", own} & weights.keys():
        value = next(w.numpy() for w in grown.weights if w.path == path)
        np.testing.assert_array_equal(value[:31], weights[path])
        np.testing.assert_allclose(value[31], weights[path][[6, 7]].mean(axis=0), **REORDERED)


def test_what_a_text_is_pooled_from(tmp_path):
    """By hand; also as served, without padding, and in a model folder that keeps it."""
    encoder = perturbed(create_encoder(CONFIG, seed=1))
    states = encoder(BATCH)["sequence_output"]
    pooler = encoder.get_layer("pooler")
    lengths = (8, 5, 3)

    def dense(values):
        return tf.nn.gelu(values @ pooler.kernel + pooler.bias).numpy()

    means = np.stack([states[i, :n].numpy().mean(axis=0) for i, n in enumerate(lengths)])
    expected = {
        "bos": dense(states[:, 0]),
        "mean": dense(means),
        "late": np.stack([dense(states[i, :n]).mean(axis=0) for i, n in enumerate(lengths)]),
    }
    for pooling, wanted in expected.items():
        other = create_encoder(CONFIG.replace(classifier_pooling=pooling))
        other.set_weights(encoder.get_weights())
        np.testing.assert_allclose(other(BATCH)["pooled_output"], wanted, **REORDERED)
        np.testing.assert_allclose(other.pooled(BATCH), wanted, **REORDERED)
        batch = {name: tf.constant(value) for name, value in BATCH.items()}
        served = UnpaddedEncoder(other, tokens_per_chunk=7)
        np.testing.assert_allclose(served.pooled_output(batch), wanted, **REORDERED)
    model = BertClassifier(other, num_classes=2)
    model.save_to_preset(tmp_path)
    again = BertClassifier.from_preset(tmp_path)
    assert again.config.classifier_pooling == "late"
    np.testing.assert_array_equal(again(BATCH), model(BATCH))


def test_some_of_its_layers_keep_the_norm_at_the_end():
    encoder = perturbed(create_encoder(CONFIG, seed=1))
    taken = select_layers(preset.as_checkpoint(encoder), [1, 0])
    smaller = preset.from_checkpoint(type(encoder), taken, {})
    hidden = encoder.word_embeddings(BATCH["input_ids"])
    blocks = encoder.encoder_blocks()
    for block in (blocks[1], blocks[0]):  # none of which is the last
        hidden = block(hidden, BATCH["input_mask"])
    expected = blocks[2].final_norm(hidden)
    for name, changes in {
        "key_value_heads": {"num_key_value_heads": None},
        "ties_words": {"tie_word_embeddings": True},
        "rope_theta": {"rope_theta": 99.0},
    }.items():
        with pytest.raises(ValueError, match=f"as they are, but its {name} is "):
            check_same_widths(CONFIG, CONFIG.replace(num_hidden_layers=1, **changes), "folder")
    real = BATCH["input_mask"] == 1
    np.testing.assert_allclose(smaller(BATCH)["sequence_output"][real], expected[real], **REORDERED)


def test_sparse_vectors_have_no_bias_to_shift(tmp_path):
    model = perturbed(BertSparseEmbedder(CONFIG, seed=1))
    rows = {name: value[:, None] for name, value in BATCH.items()}  # [B, R, S]
    model.save_to_preset(tmp_path)
    np.testing.assert_array_equal(BertSparseEmbedder.from_preset(tmp_path)(rows), model(rows))
    before = model.get_weights()
    SparseEmbeddingHead().prepare(model, None)  # nothing is looked at
    for value, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, other)
    with pytest.raises(ValueError, match="initial_active_dims is 5, but the model .* has no bias"):
        SparseEmbeddingHead(initial_active_dims=5).prepare(model, None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_key_value_heads": 3}, "is 3: it must divide num_attention_heads 4, or be None"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0: it must divide"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1: it must be true or false"),
        ({"classifier_pooling": "cls"}, "choose one of bos, mean, late"),
        ({"left_to_right": True}, "left_to_right is True: a EuroBERT sees to both sides"),
        ({"type_vocab_size": 2}, "type_vocab_size is 2: eurobert has no segments, so 0"),
    ],
)
def test_numbers_out_of_range_are_told(fields, message):
    with pytest.raises(ValueError, match=message):
        CONFIG.replace(**fields)
