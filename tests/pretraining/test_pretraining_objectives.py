"""What a run learns: everything by heart, from left to right, with all masks [MASK]."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPretrainer, BertTokenizer
from keras_bert.data.records.pipeline import evaluation_batches, training_batches
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.features import EXAMPLE_WEIGHTS
from keras_bert.pretraining.objectives.registry import create_objective
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.pretraining.pretraining_runs import (
    WORDS,
    metrics_of,
    run_options,
    run_pretraining,
    tiny_config,
)

SEQUENCES, LENGTH, PREDICTIONS = 32, 16, 3


def _write_masked_records(folder):
    """Random sequences: what is hidden follows from nothing and can only be learned by heart."""
    folder.mkdir()
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *WORDS])
    BertTokenizer(vocabulary).save(folder)
    random = np.random.default_rng(5)
    with tf.io.TFRecordWriter(str(folder / "records.tfrecord")) as writer:
        for _ in range(SEQUENCES):
            ids = random.integers(5, len(vocabulary), LENGTH)
            positions = np.sort(random.choice(LENGTH, PREDICTIONS, replace=False))
            shown = ids.copy()
            shown[positions] = vocabulary.mask_id
            features = {
                "input_ids": shown,
                "input_mask": np.ones(LENGTH, int),
                "segment_ids": np.zeros(LENGTH, int),
                "masked_lm_positions": positions,
                "masked_lm_ids": ids[positions],
                "next_sentence_labels": random.integers(0, 2, 1),
            }
            feature = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
                for name, value in features.items()
            }
            weights = tf.train.FloatList(value=[1.0] * PREDICTIONS)
            feature["masked_lm_weights"] = tf.train.Feature(float_list=weights)
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    return str(folder / "records.tfrecord")


@pytest.mark.slow
def test_one_batch_is_learned_by_heart(tmp_path):
    records = _write_masked_records(tmp_path / "records")
    metrics = run_pretraining(
        tmp_path,
        tmp_path / "run",
        config=tiny_config(
            hidden_size=64,
            num_hidden_layers=2,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ),
        data_dir=records,
        eval_data_dir=records,
        batch_size=SEQUENCES,
        train_steps=250,
        warmup_steps=25,
        learning_rate=3e-3,
        bias_correction=True,
    )
    assert metrics["masked_lm_accuracy"] > 0.99
    assert metrics["next_sentence_accuracy"] > 0.99


@pytest.mark.slow
def test_left_to_right_learns_the_grammar_and_keeps_its_direction(corpus, tmp_path):
    metrics = run_pretraining(
        corpus,
        tmp_path,
        objective="left_to_right",
        next_sentence=False,
        eval_data_dir=str(corpus / "records"),
        train_steps=150,
        warmup_steps=15,
        learning_rate=3e-3,
        bias_correction=True,
    )
    # "the N V P the N": after a noun, verb or preposition the class is certain and its three words
    # are equally likely; each "the" is certain but the first of a sentence, which follows a noun
    # as a verb may. No guess is right more often than (1 + 1/3 + 1/3 + 1/3 + 1 + 1/3) / 6 = 0.56.
    assert 0.45 < metrics["masked_lm_accuracy"] < 0.60
    model = BertPretrainer.from_preset(tmp_path / "preset")
    assert model.config.left_to_right


def test_left_to_right_needs_unmasked_records(tmp_path):
    records = _write_masked_records(tmp_path / "records")
    with pytest.raises(ValueError, match="come with their masks, which objective left_to_right"):
        run_pretraining(
            tmp_path, tmp_path / "run", data_dir=records, objective="left_to_right", batch_size=4
        )


def test_left_to_right_is_not_measured_on_masked_records(corpus, tmp_path):
    held_out = _write_masked_records(tmp_path / "records")
    options = {"objective": "left_to_right", "next_sentence": False, "eval_data_dir": held_out}
    with pytest.raises(ValueError, match="come with their masks, which objective left_to_right"):
        run_pretraining(corpus, tmp_path / "run", **options)


@pytest.mark.slow
def test_how_often_and_what_masks_become_are_options_that_a_run_keeps(corpus, tmp_path):
    def loss(name, **changes):
        # A rate of nearly zero: the first steps measure the fresh model on the data.
        run_pretraining(corpus, tmp_path / name, learning_rate=1e-9, train_steps=2, **changes)
        return metrics_of(tmp_path / name, "train")[-1]["masked_lm_loss"]

    paper = loss("paper")
    assert loss("same", mask_token_rate=0.8, random_token_rate=0.1) == paper
    rates = {"masked_lm_prob": 0.4, "mask_token_rate": 1.0, "random_token_rate": 0.0}
    assert loss("all", **rates) != paper
    told = json.loads((tmp_path / "all" / "run.json").read_text())["options"]
    assert {name: told[name] for name in rates} == rates
    for name, value, now in [("masked_lm_prob", 0.4, 0.15), ("mask_token_rate", 1.0, 0.8)]:
        with pytest.raises(ValueError, match=f"options.{name}={value}, now it is {now}"):
            loss("all", **(rates | {name: now}))


@pytest.mark.parametrize(
    ("chosen_rate", "mask_rate", "random_rate"), [(0.3, 0.5, 0.25), (0.15, 1.0, 0.0)]
)
def test_batches_are_masked_at_the_rates_of_the_run(corpus, chosen_rate, mask_rate, random_rate):
    options = run_options(
        corpus / "records",
        "",
        masked_lm_prob=chosen_rate,
        mask_token_rate=mask_rate,
        random_token_rate=random_rate,
    )
    data = PretrainingData(corpus / "records")
    tokenizer = BertTokenizer.from_preset(corpus)
    masking = create_objective(options, data).targets(options, tokenizer, data)
    room = math.ceil(chosen_rate * 24)
    assert masking.max_predictions_per_seq == room
    evaluated = evaluation_batches(data, masking, 64, seed=1)
    for batches in (training_batches(data, masking, 64, seed=1).take(60), evaluated.take(5)):
        counts = np.zeros(4)  # chosen, [MASK], changed, kept
        for batch in batches.as_numpy_iterator():
            used = batch["masked_lm_weights"] > 0
            lengths = batch["input_mask"].sum(axis=1)
            if EXAMPLE_WEIGHTS in batch:  # copies of the last row fill up the last batch
                used[batch[EXAMPLE_WEIGHTS] == 0] = False
                lengths = lengths[batch[EXAMPLE_WEIGHTS] > 0]
            wanted = np.clip(np.round(lengths * chosen_rate), 1, room)
            np.testing.assert_array_equal(used.sum(axis=1)[: len(wanted)], wanted)
            original = batch["masked_lm_ids"][used]
            ids, positions = batch["input_ids"], batch["masked_lm_positions"]
            shown = np.take_along_axis(ids, positions, axis=1)[used]
            masked = shown == tokenizer.vocabulary.mask_id
            changed = ~masked & (shown != original)
            counts += [len(shown), masked.sum(), changed.sum(), (shown == original).sum()]
        chosen, *found = counts
        assert chosen > 500
        # A random piece is the original in one case of as many as there are pieces.
        same = random_rate / len(WORDS)
        rates = [mask_rate, random_rate - same, 1 - mask_rate - random_rate + same]
        for rate, number in zip(rates, found, strict=True):
            assert abs(number - chosen * rate) <= 5 * math.sqrt(chosen * rate * (1 - rate))


@pytest.mark.parametrize(
    "changes",
    [
        {"masking": "ngram"},
        {"masked_lm_prob": 0.2},
        {"mask_token_rate": 0.7},
        {"random_token_rate": 0.0},
        {"max_predictions_per_seq": 3},
    ],
)
def test_rates_without_effect_are_refused(corpus, tmp_path, changes):
    records = _write_masked_records(tmp_path / "records")
    name, value = next(iter(changes.items()))
    with pytest.raises(ValueError, match=f"{name} is {value!r}, but the records in .* with their"):
        run_pretraining(tmp_path, tmp_path / "run", data_dir=records, batch_size=4, **changes)
    with pytest.raises(ValueError, match=f"{name} is {value!r}, but objective left_to_right"):
        run_pretraining(corpus, tmp_path / "run", objective="left_to_right", **changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"objective": "right_to_left"}, "objective is 'right_to_left': choose one of masked"),
        (
            {"mask_token_rate": 0.9, "random_token_rate": 0.2},
            "mask_token_rate 0.9 and random_token_rate 0.2 are together above 1",
        ),
        ({"masked_lm_prob": 1.5}, "masked_lm_prob is 1.5: it must be above 0 and at most 1"),
        ({"max_predictions_per_seq": 0}, "max_predictions_per_seq is 0: it must be at least 1"),
        (
            {
                **{"objective": "distillation", "teacher": "a_folder", "soft_target_weight": 0.0},
                **{"masked_lm_weight": 0.0, "cosine_weight": 0.0, "attention_weight": 1.0},
            },
            "cosine_weight and hidden_state_weight are all 0: no other loss reaches the end",
        ),
    ],
)
def test_bad_objectives_are_refused(corpus, tmp_path, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        run_pretraining(corpus, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()
