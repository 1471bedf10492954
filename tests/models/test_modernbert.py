"""ModernBERT: what its blocks and heads do otherwise than those of the other families."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertMaskedLM,
    BertMultipleChoice,
    BertPretrainer,
    BertReplacedTokenDetector,
    BertSpanLabeler,
    BertTokenClassifier,
    ModernBertConfig,
    ModernBertEncoder,
    create_encoder,
    extend_positions,
)
from keras_bert.checkpoints.variables import variable_shapes
from keras_bert.finetuning.model_preparation import leave_out_unread
from keras_bert.models import preset
from keras_bert.models.surgery.layer_selection import select_layers
from keras_bert.signatures.unpadded_encoder import UnpaddedEncoder
from keras_bert.tasks.tagging.head import TagHead
from tests.tolerances import REORDERED

CONFIG = ModernBertConfig(
    vocab_size=31,
    hidden_size=16,
    num_hidden_layers=5,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=40,
    initializer_range=0.3,
    pad_token_id=0,
    attention_window=2,
)
BATCH = {
    "input_ids": np.random.default_rng(0).integers(5, 31, (3, 20)).astype(np.int32),
    "input_mask": np.tri(20, dtype=np.int32)[[19, 12, 4]],
    "segment_ids": np.zeros((3, 20), np.int32),
}


@pytest.mark.parametrize(
    ("head", "arguments"),
    [
        (ModernBertEncoder, {}),
        (BertMaskedLM, {}),
        (BertPretrainer, {}),
        (BertReplacedTokenDetector, {}),
        (BertClassifier, {"num_classes": 3}),
        (BertTokenClassifier, {"num_classes": 3}),
        (BertMultipleChoice, {}),
        (BertSpanLabeler, {}),
    ],
)
def test_all_variables_are_told_without_building_it(head, arguments):
    model = head(CONFIG, **arguments)
    shapes = {weight.path: tuple(weight.shape) for weight in model.weights}
    architecture = "BertEncoder" if head is ModernBertEncoder else head.__name__
    assert shapes == variable_shapes(CONFIG, architecture, arguments)
    # No biases but those of output layers, one norm less at the start, one more at the end.
    biased = {path.split("/")[0] for path in shapes if path.endswith(("bias", "beta"))}
    assert biased <= {"masked_lm_bias", "next_sentence", "classifier", "span", "replaced_token"}
    assert "layer_0/attention_norm/gamma" not in shapes
    assert shapes["layer_4/final_norm/gamma"] == (16,)
    assert shapes["layer_2/intermediate/kernel"] == (16, 48)


def test_kinds_of_attention_come_in_turns():
    kinds = [CONFIG.window_of(index) for index in range(5)]
    assert kinds == [0, 2, 2, 0, 2]
    assert [CONFIG.theta_of(index) for index in range(3)] == [160_000.0, 10_000.0, 10_000.0]
    # By hand: two blocks of all 400 pairs, three of 10 blocks of 2 rows that see 6.
    assert CONFIG.attention_pairs(20) == (2 * 400 + 3 * 120) // 5
    assert CONFIG.attention_pairs(16) == 256  # up to eight windows all pairs are faster


def test_only_distances_count():
    """A text further to the right, behind positions that it does not see, gets the same states."""
    encoder = create_encoder(CONFIG, seed=1)
    ids = BATCH["input_ids"][:1, :8]
    alone = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    moved = {
        "input_ids": np.concatenate([np.full((1, 9), 7, np.int32), ids], axis=1),
        "input_mask": np.concatenate([np.zeros((1, 9), np.int32), np.ones_like(ids)], axis=1),
        "segment_ids": np.zeros((1, 17), np.int32),
    }
    np.testing.assert_allclose(
        encoder(moved)["sequence_output"][:, 9:], encoder(alone)["sequence_output"], **REORDERED
    )


def test_a_sequence_may_be_longer_than_any_before():
    """There is no table of positions: the config alone says how long a text may be."""
    encoder = create_encoder(CONFIG, seed=1)
    longer = extend_positions(encoder, 64)
    assert longer.config == CONFIG.replace(max_position_embeddings=64)
    expected = encoder(BATCH)["sequence_output"]
    np.testing.assert_array_equal(longer(BATCH)["sequence_output"], expected)
    batch = {name: np.tile(value, (1, 3)) for name, value in BATCH.items()}
    with pytest.raises(ValueError, match="60 pieces is longer than the model's 40 positions"):
        encoder(batch)
    assert longer(batch)["sequence_output"].shape == (3, 60, 16)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_serving_summarizes_as_the_model_does(pooling):
    encoder = create_encoder(CONFIG.replace(classifier_pooling=pooling), seed=1)
    expected = encoder(BATCH)
    if pooling == "mean":  # by hand, of the third row
        states = expected["sequence_output"][2, :5]
        by_hand = encoder.get_layer("pooler")(tf.reduce_mean(states, axis=0)[None])
        np.testing.assert_allclose(expected["pooled_output"][2:], by_hand, **REORDERED)
    served = UnpaddedEncoder(encoder, tokens_per_chunk=16)
    batch = {name: tf.constant(value) for name, value in BATCH.items()}
    np.testing.assert_allclose(served.pooled_output(batch), expected["pooled_output"], **REORDERED)
    rows = served.sequence_output(batch)
    np.testing.assert_allclose(served.pooled_from(rows), expected["pooled_output"], **REORDERED)


def test_the_head_of_masked_words_starts_the_others(tmp_path):
    """As in transformers, where the layers before all output layers have one name."""
    model = BertMaskedLM(CONFIG, seed=1)
    model.save_to_preset(tmp_path)
    transform = model.get_layer("masked_lm_transform").get_weights()
    for head, arguments in ((BertClassifier, {"num_classes": 2}), (BertSpanLabeler, {})):
        found = head.from_preset(tmp_path, **arguments).encoder.get_layer("pooler").get_weights()
        for left, right in zip(found, transform, strict=True):
            np.testing.assert_array_equal(left, right)
    again = BertMaskedLM.from_preset(tmp_path)
    for left, right in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_pooler_that_was_trained_is_kept_and_starts_masked_words(tmp_path):
    """As a sentence loss trains it, or a task; a fresh one has scales of 1."""
    model = BertPretrainer(CONFIG, seed=1)
    pooler = model.encoder.get_layer("pooler")
    pooler.layer_norm.gamma.assign_add(np.full(16, 0.1))
    model.save_to_preset(tmp_path / "pretrainer")
    classifier = BertClassifier.from_preset(tmp_path / "pretrainer", num_classes=2)
    classifier.save_to_preset(tmp_path / "classifier")
    words = BertMaskedLM.from_preset(tmp_path / "classifier").get_layer("masked_lm_transform")
    for layer in (classifier.encoder.get_layer("pooler"), words):
        for left, right in zip(layer.get_weights(), pooler.get_weights(), strict=True):
            np.testing.assert_array_equal(left, right)


def test_tokens_are_read_through_the_pooler():
    model = BertTokenClassifier(CONFIG, num_classes=3, seed=1)
    read = model.encoder.get_layer("pooler")(model.encoder(BATCH)["sequence_output"])
    np.testing.assert_allclose(model(BATCH), model.get_layer("classifier")(read), **REORDERED)
    leave_out_unread(model, TagHead(), freeze_encoder=True)
    assert {weight.path for weight in model.trainable_weights} == {
        *("pooler/dense/kernel", "pooler/layer_norm/gamma"),
        *("classifier/kernel", "classifier/bias"),
    }


def test_layers_can_be_taken_where_their_kinds_stay_in_turn():
    encoder = create_encoder(CONFIG, seed=1)
    taken = select_layers(preset.as_checkpoint(encoder), [0, 4, 2])
    smaller = preset.from_checkpoint(ModernBertEncoder, taken, {})
    assert smaller.config == CONFIG.replace(num_hidden_layers=3)
    # By hand: the same blocks one after the other, and the norm that ended the last.
    words = encoder.word_embeddings(BATCH["input_ids"])
    hidden = encoder.get_layer("embeddings")(words, BATCH["segment_ids"])
    blocks = encoder.encoder_blocks()
    final_norm, blocks[4].is_last = blocks[4].final_norm, False
    for index in (0, 4, 2):
        hidden = blocks[index](hidden, BATCH["input_mask"])
    real = BATCH["input_mask"] == 1
    np.testing.assert_allclose(
        smaller(BATCH)["sequence_output"][real], final_norm(hidden)[real], **REORDERED
    )
    with pytest.raises(ValueError, match="puts layer 3 of a ModernBERT in the place 1"):
        select_layers(preset.as_checkpoint(encoder), [0, 3])
    with pytest.raises(ValueError, match="puts layer 3 of a ModernBERT in the place 0"):
        select_layers(preset.as_checkpoint(encoder), [3, 4])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"attention_window": 0}, "attention_window is 0: it must be an integer of at least 1"),
        ({"global_attention_every": 1.5}, "global_attention_every is 1.5: it must be an integer"),
        ({"global_rope_theta": "big"}, "global_rope_theta is 'big': it must be a number above 0"),
        ({"embedding_dropout": 2}, "embedding_dropout is 2: it must be a probability"),
        ({"classifier_pooling": "max"}, "classifier_pooling is 'max': choose one of cls, mean"),
        ({"num_attention_heads": 16}, "make heads 1 wide: choose an even width"),
        ({"left_to_right": True}, "left_to_right is True: attention in a window has no such form"),
        ({"position_initializer": "sinusoids"}, "modernbert has no table of positions"),
    ],
)
def test_numbers_out_of_range_are_told(fields, message):
    with pytest.raises(ValueError, match=message):
        CONFIG.replace(**fields)


# Of answerdotai/ModernBERT-base, as far as it says something of the model.
PUBLISHED = {
    "model_type": "modernbert",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "classifier_dropout": 0.0,
    "classifier_pooling": "mean",
    "decoder_bias": True,
    "deterministic_flash_attn": False,
    "embedding_dropout": 0.0,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "hidden_activation": "gelu",
    "hidden_size": 768,
    "initializer_cutoff_factor": 2.0,
    "initializer_range": 0.02,
    "intermediate_size": 1152,
    "layer_norm_eps": 1e-05,
    "local_attention": 128,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "mlp_dropout": 0.0,
    "norm_bias": False,
    "norm_eps": 1e-05,
    "num_attention_heads": 12,
    "num_hidden_layers": 22,
    "pad_token_id": 50283,
    "position_embedding_type": "absolute",
    "reference_compile": None,
    "repad_logits_with_grad": False,
    "sparse_pred_ignore_index": -100,
    "sparse_prediction": False,
    "tie_word_embeddings": True,
    "vocab_size": 50368,
}


def test_published_files_are_read():
    config = BertConfig.from_dict(PUBLISHED, "hf")
    assert config == BertConfig.from_name("modernbert_base", classifier_pooling="mean")
    # As transformers 5 says the same.
    replaced = ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta")
    values = {key: value for key, value in PUBLISHED.items() if key not in replaced} | {
        "layer_types": (["full_attention", "sliding_attention", "sliding_attention"] * 8)[:22],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 160000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    }
    assert BertConfig.from_dict(values, "hf") == config
    # What others name besides: positions that are not read, and attention that goes both ways.
    others = {"position_embedding_type": "sans_pos", "causal_mask": False, "is_causal": False}
    assert BertConfig.from_dict(values | others, "hf") == config
    assert BertConfig.from_dict(values | {"pad_token_id": None}, "hf").pad_token_id == 0
    written = config.to_dict("hf")
    assert {key: PUBLISHED[key] for key in written if key in PUBLISHED} == written


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"norm_bias": True}, "norm_bias is True: only False is supported, as in published models"),
        ({"local_attention": 7}, "local_attention is 7: it must be an even number of pieces"),
        (
            {"layer_types": ["full_attention", "full_attention", "sliding_attention"]},
            "only models whose attention is full in every n-th block",
        ),
        (
            {"layer_types": ["sliding_attention", "full_attention"]},
            "only models whose attention is full in every n-th block",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}},
            "only the rope_type 'default' is supported",
        ),
        ({"layer_types": 3}, "layer_types is 3: it must be a list with the attention of each"),
        (
            {"layer_types": ["full_attention"], "global_attn_every_n_layers": "3"},
            "global_attn_every_n_layers is '3': it must be an integer of at least 1",
        ),
        ({"rope_parameters": [1]}, r"rope_parameters is \[1\]: it must be an object with full_"),
        (
            {"rope_parameters": {"full_attention": 1e4}},
            r"rope_parameters\['full_attention'\] is 10000.0: it must be an object with rope_theta",
        ),
        ({"global_rope_theta": float("inf")}, "global_rope_theta is inf: it must be a number abo"),
        ({"mlp_width": 3}, "unknown config key 'mlp_width'"),
    ],
)
def test_files_of_other_forms_are_refused(values, message):
    values = {"model_type": "modernbert", **values}
    with pytest.raises(ValueError, match=message):
        BertConfig.from_dict(values, "hf")
