"""Batches of tokenized texts: nothing lost, nothing doubled, little padding."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertTokenizer
from keras_bert.tasks.classification.head import LabeledTexts, TextHead

# Text number i has i % 19 words and is told apart by nothing else, so its label carries its number.
TEXTS = [" ".join(["good"] * (i % 19)) for i in range(200)]
NUMBERS = np.arange(200, dtype=np.int32)


@pytest.fixture(scope="module")
def encode(pretrained_folder):
    tokenizer = BertTokenizer.from_preset(pretrained_folder)
    return lambda examples: TextHead().encode(tokenizer, examples, 20, "tokenizing")


@pytest.fixture(scope="module")
def encoded(encode):
    return encode(LabeledTexts(TEXTS, None, NUMBERS))


def epoch(batches, number=0):
    return [
        (inputs["input_mask"].numpy(), labels.numpy())
        for inputs, labels, _ in batches.epoch(number)
    ]


def test_every_text_comes_once_an_epoch_with_its_own_label(encoded):
    read = epoch(encoded.training_batches(8, seed=3))
    assert len(read) == 25
    numbers = np.concatenate([labels for _, labels in read])
    assert sorted(numbers) == list(range(200))
    lengths = np.concatenate([mask.sum(axis=1) for mask, _ in read])
    np.testing.assert_array_equal(lengths, numbers % 19 + 2)  # [CLS] and [SEP]


def test_no_thread_tunes_the_pipelines(encoded):
    # TensorFlow may not wake it when an epoch is over: see prefetching.py. A race cannot be tested.
    pipelines = [encoded.training_batches(8, seed=3).epoch(0), encoded.inference_batches(8)[0]]
    assert [p.options().autotune.enabled for p in pipelines] == [False, False]


def test_epochs_differ_and_follow_from_the_seed(encoded):
    def orders(seed):
        batches = encoded.training_batches(8, seed)
        return [np.concatenate([n for _, n in epoch(batches, i)]).tolist() for i in range(2)]

    first, second = orders(3)
    assert first != second
    assert [first, second] == orders(3)
    assert first != orders(4)[0]


def test_rows_are_padded_to_a_multiple_of_eight_at_most_to_the_maximum(encoded):
    for mask, _ in epoch(encoded.training_batches(8, seed=3)):
        longest = mask.sum(axis=1).max()
        assert mask.shape[1] == min(-(-longest // 8) * 8, 20)


def test_sorting_saves_padding(encoded):
    real = sum(i % 19 + 2 for i in range(200))
    padded = sum(mask.size for mask, _ in epoch(encoded.training_batches(8, seed=3)))
    # Padded to the maximum it would be 200 * 20 = 4000 positions for 2162 pieces.
    assert padded < 1.4 * real


def test_inference_comes_back_in_the_order_of_the_texts(encoded):
    batches, places = encoded.inference_batches(7)
    lengths = np.concatenate([inputs["input_mask"].numpy().sum(axis=1) for inputs, _ in batches])
    np.testing.assert_array_equal(lengths[places], NUMBERS % 19 + 2)


def test_pairs_have_two_segments(encode):
    encoded = encode(LabeledTexts(["good film"], ["bad"], np.zeros(1, np.int32)))
    ((inputs, _, _),) = encoded.training_batches(4, seed=0).epoch(0)
    # [CLS] good film [SEP] bad [SEP], padded to 8
    assert inputs["segment_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1, 0, 0]]
    assert inputs["input_mask"].numpy().tolist() == [[1, 1, 1, 1, 1, 1, 0, 0]]


def test_a_last_batch_is_filled_with_examples_that_do_not_count(encoded):
    weights = np.linspace(1, 2, 200, dtype=np.float32)
    batches = encoded.training_batches(48, seed=3, weights=weights, full_batches=True)
    read = list(batches.epoch(0))
    assert [len(labels) for _, labels, _ in read] == [48] * 5
    numbers = np.concatenate([labels for _, labels, _ in read])
    counted = np.concatenate([weight for _, _, weight in read])
    assert sorted(numbers[counted > 0]) == list(range(200))
    np.testing.assert_array_equal(counted[counted > 0], weights[numbers[counted > 0]])


def test_an_epoch_can_be_entered_at_any_batch_on_any_number_of_replicas(encoded):
    batches = encoded.training_batches(24, seed=3, parts=2)
    whole = list(batches.epoch(2))
    parts = [
        list(batches.epoch(2, 5, tf.distribute.InputContext(2, pipeline, 2)))
        for pipeline in range(2)
    ]
    assert len(whole) == 9
    for one, two in zip(whole[5:], zip(*parts, strict=True), strict=True):
        for value, left, right in zip(*map(tf.nest.flatten, (one, *two)), strict=True):
            np.testing.assert_array_equal(np.concatenate([left, right]), value)


def test_fixed_lengths_are_the_only_lengths(encode):
    encoded = encode(LabeledTexts(TEXTS, None, NUMBERS))
    encoded.fixed_lengths([10, 16, 20])
    shapes = {mask.shape[1] for mask, _ in epoch(encoded.training_batches(8, seed=3))}
    assert shapes == {10, 16, 20}
    longest = [mask.sum(axis=1).max() for mask, _ in epoch(encoded.training_batches(8, seed=3))]
    assert max(longest) == 20
