"""A left-to-right encoder: nothing that comes after a position changes what it says."""

import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertEncoderDecoder,
    BertSentenceEmbedder,
    ExportOptions,
    SentenceEncoder,
)
from keras_bert.serving.served_folder import open_signatures
from tests.signatures.tiny_models import write_model
from tests.tolerances import REORDERED

CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
    left_to_right=True,
)


def _inputs(lengths, size=10):
    random = np.random.default_rng(0)
    mask = (np.arange(size) < np.array(lengths)[:, None]).astype("int32")
    ids = random.integers(5, 50, mask.shape).astype("int32") * mask
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


@pytest.fixture(scope="module")
def encoder():
    return BertEncoder(CONFIG, seed=1, dtype="float32")


@pytest.mark.parametrize("length", [1, 4, 9])
def test_a_prefix_alone_says_what_it_says_in_the_whole(encoder, length):
    inputs = _inputs([10, 10])
    whole = encoder(inputs)["sequence_output"]
    alone = encoder({name: value[:, :length] for name, value in inputs.items()})["sequence_output"]
    np.testing.assert_allclose(whole[:, :length], alone, **REORDERED)


def test_the_whole_past_counts(encoder):
    inputs = _inputs([10])
    changed = {name: value.copy() for name, value in inputs.items()}
    changed["input_ids"][0, 0] = 6 if inputs["input_ids"][0, 0] == 5 else 5
    difference = encoder(inputs)["sequence_output"] - encoder(changed)["sequence_output"]
    assert np.abs(difference).max(axis=-1).min() > 1e-4  # at every position


def test_the_summary_is_that_of_the_last_piece_whatever_the_padding(encoder):
    inputs = _inputs([4, 7])
    pooled = np.array(encoder(inputs)["pooled_output"])
    for row, length in enumerate([4, 7]):
        one = {name: value[row : row + 1, :length] for name, value in inputs.items()}
        np.testing.assert_allclose(encoder(one)["pooled_output"][0], pooled[row], **REORDERED)
    changed = {name: value.copy() for name, value in inputs.items()}
    changed["input_ids"][0, 3] = 5 if inputs["input_ids"][0, 3] != 5 else 6
    assert np.abs(encoder(changed)["pooled_output"][0] - pooled[0]).max() > 1e-3


def test_a_model_folder_keeps_the_direction(encoder, tmp_path):
    encoder.save_to_preset(tmp_path)
    loaded = BertEncoder.from_preset(tmp_path)
    assert loaded.config == CONFIG
    inputs = _inputs([10, 6])
    expected = encoder(inputs)["sequence_output"]
    np.testing.assert_array_equal(loaded(inputs)["sequence_output"], expected)
    assert BertClassifier.from_preset(tmp_path, num_classes=2).config.left_to_right


@pytest.mark.parametrize("dialect", ["google", "hf"])
def test_other_formats_cannot_say_it(dialect):
    with pytest.raises(ValueError, match="left_to_right is True: only our own format"):
        CONFIG.to_dict(dialect)
    assert "left_to_right" not in CONFIG.replace(left_to_right=False).to_dict(dialect)


def test_it_is_true_or_false():
    with pytest.raises(ValueError, match="left_to_right is 1: it must be true or false"):
        CONFIG.replace(left_to_right=1)


def test_what_its_first_piece_cannot_tell_is_not_asked_of_it(tmp_path):
    folder = write_model(tmp_path / "encoder", "encoder", left_to_right=True)
    texts = ["the film", "ab xx", "a very the"]
    for pooling in ("mean", "max", "pooler"):
        vectors = SentenceEncoder.from_preset(folder, pooling=pooling).encode(texts)
        assert np.ptp(vectors, axis=0).max() > 0.1
    # Of [CLS] they were the same for all texts.
    sentence = (
        "pooling is 'cls', but the model reads from left to right, so .*: give 'mean' or 'max'"
    )
    with pytest.raises(ValueError, match=sentence):
        SentenceEncoder.from_preset(folder, pooling="cls")
    with pytest.raises(ValueError, match=sentence):
        open_signatures(folder, ExportOptions(pooling="cls"))
    with pytest.raises(ValueError, match=sentence):
        BertSentenceEmbedder(CONFIG, pooling="cls")
    lengths = dict(decoding="mask_predict", mask_token_id=4, max_target_length=6)
    with pytest.raises(ValueError, match=r"reads the length of a target from \[CLS\], but the enc"):
        BertEncoderDecoder(CONFIG, start_token_id=2, end_token_id=3, **lengths)
