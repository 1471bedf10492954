"""Batches of tokenized texts: nothing lost, nothing doubled, little padding."""

import numpy as np
import pytest

from keras_bert import BertPreprocessor, BertTokenizer
from keras_bert.training.encoded_texts import EncodedTexts

# Text number i has i % 19 words and is told apart by nothing else, so its label carries its number.
TEXTS = [" ".join(["good"] * (i % 19)) for i in range(200)]
NUMBERS = np.arange(200, dtype=np.int32)


@pytest.fixture(scope="module")
def preprocessor(pretrained_folder):
    tokenizer = BertTokenizer.from_preset(pretrained_folder)
    return BertPreprocessor(tokenizer, max_seq_length=20, pad_to="longest")


@pytest.fixture(scope="module")
def encoded(preprocessor):
    return EncodedTexts(preprocessor, TEXTS)


def epoch(batches):
    return [(inputs["input_mask"].numpy(), labels.numpy()) for inputs, labels in batches]


def test_every_text_comes_once_an_epoch_with_its_own_label(encoded):
    read = epoch(encoded.training_batches(NUMBERS, 8, seed=3))
    assert len(read) == 25
    numbers = np.concatenate([labels for _, labels in read])
    assert sorted(numbers) == list(range(200))
    lengths = np.concatenate([mask.sum(axis=1) for mask, _ in read])
    np.testing.assert_array_equal(lengths, numbers % 19 + 2)  # [CLS] and [SEP]


def test_epochs_differ_and_follow_from_the_seed(encoded):
    def orders(seed):
        batches = encoded.training_batches(NUMBERS, 8, seed)
        return [np.concatenate([n for _, n in epoch(batches)]).tolist() for _ in range(2)]

    first, second = orders(3)
    assert first != second
    assert [first, second] == orders(3)
    assert first != orders(4)[0]


def test_rows_are_padded_to_a_multiple_of_eight_at_most_to_the_maximum(encoded):
    for mask, _ in epoch(encoded.training_batches(NUMBERS, 8, seed=3)):
        longest = mask.sum(axis=1).max()
        assert mask.shape[1] == min(-(-longest // 8) * 8, 20)


def test_sorting_saves_padding(encoded):
    real = sum(i % 19 + 2 for i in range(200))
    padded = sum(mask.size for mask, _ in epoch(encoded.training_batches(NUMBERS, 8, seed=3)))
    # Padded to the maximum it would be 200 * 20 = 4000 positions for 2162 pieces.
    assert padded < 1.4 * real


def test_inference_comes_back_in_the_order_of_the_texts(encoded):
    batches, places = encoded.inference_batches(7)
    lengths = np.concatenate([inputs["input_mask"].numpy().sum(axis=1) for inputs in batches])
    np.testing.assert_array_equal(lengths[places], NUMBERS % 19 + 2)


def test_pairs_have_two_segments(preprocessor):
    encoded = EncodedTexts(preprocessor, ["good film"], ["bad"])
    ((inputs, _),) = encoded.training_batches(np.zeros(1, np.int32), 4, seed=0)
    # [CLS] good film [SEP] bad [SEP], padded to 8
    assert inputs["segment_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1, 0, 0]]
    assert inputs["input_mask"].numpy().tolist() == [[1, 1, 1, 1, 1, 1, 0, 0]]
