"""ELECTRA's objective: what is drawn, what is learned, what is kept, and that it resumes."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertReplacedTokenDetector,
    BertTokenizer,
    CreationOptions,
    ElectraConfig,
    ElectraEncoder,
    create_optimizer,
    create_pretraining_data,
)
from keras_bert.layers.replaced_token import TokenReplacement, scattered
from keras_bert.models.electra_pretrainer import ElectraPretrainer
from keras_bert.pretraining.objectives.electra import Electra
from keras_bert.pretraining.step import PretrainingStep
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.strategy import create_strategy
from tests.pretraining.pretraining_runs import metrics_of, run_pretraining, tiny_config
from tests.tolerances import REORDERED_UPDATES


def electra_config(**changes):
    numbers = tiny_config(hidden_size=32, num_attention_heads=4)
    fields = {"embedding_size": 12, "generator_size": 0.25}
    return ElectraConfig(**(dataclasses.asdict(numbers) | fields | changes))


def batch_of(rows, length=10, predictions=3, vocab_size=23):
    """A batch with padding, and in its last row a prediction that only fills up."""
    random = np.random.default_rng(0)
    ids = random.integers(5, vocab_size, (rows, length)).astype(np.int32)
    mask = np.ones((rows, length), np.int32)
    mask[-1, 7:] = 0
    positions = np.stack([random.permutation(7)[:predictions] for _ in range(rows)]).astype(
        np.int32
    )
    weights = np.ones((rows, predictions), np.float32)
    positions[-1, -1], weights[-1, -1] = 0, 0.0
    positions[-1, :-1] = [2, 4]
    answers = np.take_along_axis(ids, positions, axis=1)
    masked = ids.copy()
    for row, column in zip(*np.nonzero(weights), strict=True):
        masked[row, positions[row, column]] = 4
    return {
        "input_ids": masked,
        "input_mask": mask,
        "segment_ids": np.zeros_like(ids),
        "masked_lm_positions": positions,
        "masked_lm_ids": answers,
        "masked_lm_weights": weights,
    }


class TestTokenReplacement:
    def test_guesses_come_where_pieces_are_hidden(self):
        # Logits that leave no choice: piece 7 in the first place, 9 in the second.
        logits = np.full((1, 3, 12), -1e4, np.float32)
        logits[0, [0, 1, 2], [7, 9, 11]] = 1e4
        ids, drawn = TokenReplacement(seed=1)(
            np.array([[2, 4, 5, 4, 3]]), logits, np.array([[1, 3, 0]]), np.array([[1.0, 1.0, 0.0]])
        )
        assert ids.numpy().tolist() == [[2, 7, 5, 9, 3]]  # the third prediction only fills up
        assert drawn.numpy().tolist() == [[7, 9, 11]]

    def test_pieces_are_drawn_with_their_probabilities(self):
        probabilities = np.array([0.5, 0.3, 0.15, 0.05])
        logits = np.broadcast_to(np.log(probabilities), (200, 100, 4)).astype(np.float32)
        place = np.zeros((200, 100), np.int32)
        _, drawn = TokenReplacement(seed=1)(
            np.zeros((200, 5), np.int32), logits, place, np.ones((200, 100)), training=True
        )
        counts = np.bincount(drawn.numpy().ravel(), minlength=4)
        # Four standard deviations of a share of 20,000 draws.
        deviation = np.sqrt(probabilities * (1 - probabilities) / 20_000)
        assert np.all(np.abs(counts / 20_000 - probabilities) < 4 * deviation)

    def test_draws_differ_in_training_and_not_in_evaluation(self):
        layer = TokenReplacement(seed=1)
        logits = np.zeros((2, 3, 50), np.float32)
        arguments = (np.zeros((2, 9), np.int32), logits, np.array([[0, 1, 2]] * 2), np.ones((2, 3)))
        training, again = (layer(*arguments, training=True)[1].numpy() for _ in range(2))
        assert (training != again).any()
        still, same = (layer(*arguments, training=False)[1].numpy() for _ in range(2))
        np.testing.assert_array_equal(still, same)

    def test_large_ids_are_put_exactly(self):
        put, values = scattered(np.array([[250_001, 3]]), np.array([[2, 0]]), np.ones((1, 2)), 4)
        assert values.numpy().tolist() == [[3, 0, 250_001, 0]]
        assert put.numpy().tolist() == [[True, False, True, False]]


def test_embeddings_are_shared_and_the_rest_is_not():
    config = electra_config()
    model = ElectraPretrainer(config, seed=0)
    paths = {weight.path for weight in model.trainable_variables}
    assert len(paths) == len(model.trainable_variables)
    own = {path.removeprefix("generator/") for path in paths if path.startswith("generator/")}
    assert not [path for path in own if path.startswith(("word_embeddings", "embeddings/"))]
    assert {"embeddings_projection/kernel", "layer_0/intermediate/kernel"} <= own & paths
    shapes = {weight.path: tuple(weight.shape) for weight in model.trainable_variables}
    assert shapes["word_embeddings/embeddings"] == (23, 12)
    assert shapes["generator/embeddings_projection/kernel"] == (12, 8)
    assert shapes["generator/layer_0/intermediate/kernel"] == (8, 16)
    assert shapes["generator/masked_lm_transform/dense/kernel"] == (8, 12)
    again = ElectraPretrainer.from_config(model.get_config())
    assert [tuple(w.shape) for w in again.weights] == [tuple(w.shape) for w in model.weights]


def test_losses_and_labels_by_hand():
    config = electra_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    keras.utils.set_random_seed(2)
    model, objective, batch = ElectraPretrainer(config, seed=0), Electra(), batch_of(3)
    sums = objective.sums(model, {k: tf.constant(v) for k, v in batch.items()}, training=False)
    outputs = {
        name: value.numpy()
        for name, value in model({n: batch[n] for n in model.input}, training=False).items()
    }
    # What the discriminator was asked, place by place.
    labels = np.zeros(batch["input_ids"].shape)
    for row in range(3):
        for column in range(3):
            if batch["masked_lm_weights"][row, column]:
                drawn = outputs["drawn_ids"][row, column]
                place = batch["masked_lm_positions"][row, column]
                labels[row, place] = drawn != batch["masked_lm_ids"][row, column]
    logits, mask = outputs["replaced_logits"].astype(np.float64), batch["input_mask"]
    losses = np.log1p(np.exp(logits)) - labels * logits
    np.testing.assert_allclose(sums["replaced_token"].loss, np.sum(losses * mask), rtol=1e-5)
    assert float(sums["replaced_token"].weight) == mask.sum() == 27
    assert float(sums["replaced_token"].correct) == np.sum((logits > 0) * mask == labels * mask) - 3
    assert float(sums["found"].weight) == labels.sum() > 0
    metrics = objective.metrics(sums)
    assert metrics["replaced_token_rate"] == pytest.approx(labels.sum() / 27)
    # Of saying 0 everywhere.
    assert metrics["never_replaced_accuracy"] == pytest.approx(np.sum((labels == 0) * mask) / 27)
    assert float(sums["masked_lm"].weight) == 8


@pytest.mark.slow
def test_a_run_learns_resumes_and_keeps_the_discriminator(corpus, tmp_path, monkeypatch, capfd):
    changes = {"objective": "electra", "eval_data_dir": str(corpus / "records")}
    changes |= {
        "train_steps": 20,
        "checkpoint_steps": 10,
        "learning_rate": 5e-3,
        "steps_per_loop": 2,
    }
    metrics = run_pretraining(corpus, tmp_path / "whole", config=electra_config(), **changes)
    assert {"masked_lm_loss", "replaced_token_loss", "replaced_token_recall"} <= metrics.keys()
    shown = capfd.readouterr().err  # the progress bar, which has no room for baselines
    assert "replaced_token_accuracy=" in shown and "never_replaced_accuracy=" not in shown
    assert 0.02 < metrics["replaced_token_rate"] < 0.15
    losses = [line["loss"] for line in metrics_of(tmp_path / "whole", "train")]
    assert losses[-1] < 0.75 * losses[0]

    save = TrainingCheckpoint.save

    def stop_after_save(self):
        save(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingCheckpoint, "save", stop_after_save)
    with pytest.raises(KeyboardInterrupt):
        run_pretraining(corpus, tmp_path / "run", config=electra_config(), **changes)
    monkeypatch.undo()
    resumed = run_pretraining(corpus, tmp_path / "run", config=electra_config(), **changes)
    assert resumed == metrics
    kept = [
        BertReplacedTokenDetector.from_preset(tmp_path / name / "preset")
        for name in ("whole", "run")
    ]
    assert isinstance(kept[0].encoder, ElectraEncoder)
    for left, right in zip(*(model.weights for model in kept), strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy(), err_msg=left.path)
    BertClassifier.from_preset(tmp_path / "run" / "preset", num_classes=2)


@pytest.mark.slow
def test_it_starts_from_a_bert_or_a_discriminator(corpus, tmp_path, capsys):
    bert = BertEncoder(tiny_config(), seed=1)
    tokenizer = BertTokenizer.from_preset(corpus)
    bert.save_to_preset(tmp_path / "bert", tokenizer)
    changes = {"objective": "electra", "train_steps": 3, "learning_rate": 1e-9}
    source = tmp_path / "bert"
    for name in ("first", "second"):
        folder = tmp_path / name
        run_pretraining(corpus, folder, init_from=str(source), config=tiny_config(), **changes)
        assert "holds no generator" in capsys.readouterr().err
        kept = BertReplacedTokenDetector.from_preset(folder / "preset")
        for left, right in zip(bert.weights, kept.encoder.weights, strict=True):
            np.testing.assert_allclose(left, right, atol=1e-6, err_msg=left.path)
        source = folder / "preset"


@pytest.mark.slow
def test_packed_sequences_train_with_recomputed_blocks_as_without(corpus, tmp_path):
    packed = tmp_path / "packed"
    create_pretraining_data(
        CreationOptions(
            inputs=(str(corpus / "text.txt"),),
            vocab=str(corpus / "vocab.txt"),
            output_dir=str(packed),
            max_seq_length=24,
            dupe_factor=1,
            sentence_task="none",
            pack=True,
        )
    )
    config = electra_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    changes = {"objective": "electra", "config": config, "train_steps": 5, "data_dir": str(packed)}
    for name, remat in (("plain", False), ("remat", True)):
        run_pretraining(corpus, tmp_path / name, remat=remat, **changes)
    plain, remat = (
        BertReplacedTokenDetector.from_preset(tmp_path / name / "preset")
        for name in ("plain", "remat")
    )
    assert not plain.encoder.packed
    for left, right in zip(plain.weights, remat.weights, strict=True):
        np.testing.assert_allclose(left, right, **REORDERED_UPDATES, err_msg=left.path)


@pytest.mark.slow
@pytest.mark.half_precision
@pytest.mark.parametrize("precision", ["bfloat16", pytest.param("float16", marks=pytest.mark.long)])
def test_it_learns_in_half_precision(precision, corpus, tmp_path):
    run_pretraining(
        corpus,
        tmp_path / "run",
        config=electra_config(),
        objective="electra",
        train_steps=30,
        mixed_precision=precision,
        steps_per_loop=2,
    )
    losses = [line["loss"] for line in metrics_of(tmp_path / "run", "train")]
    assert losses[-1] < losses[0]


def test_a_pooler_that_no_loss_reaches_stays_as_it_was():
    model = ElectraPretrainer(electra_config(), seed=0)
    assert not [weight for weight in model.trainable_variables if "pooler" in weight.path]


def test_a_bert_config_becomes_an_electras():
    config = Electra().model_config(tiny_config())
    assert isinstance(config, ElectraConfig)
    assert config.embedding_size == config.hidden_size == 32
    assert config.generator.hidden_size == 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "accumulation_steps"),
    [pytest.param("cpu", 2, marks=pytest.mark.long), ("mirrored", 1)],
)
def test_replicas_and_micro_batches_make_one_batch(name, accumulation_steps):
    """The generator leaves no choice here: draws differ from replica to replica by design."""
    whole, parts = (_updated("cpu", 1), _updated(name, accumulation_steps))
    for path, value in whole.items():
        np.testing.assert_allclose(parts[path], value, **REORDERED_UPDATES, err_msg=path)


def _updated(name, accumulation_steps):
    """Returns the weights after one step on the same four rows."""
    strategy, batch = create_strategy(name), batch_of(4)
    assert strategy.num_replicas_in_sync == (2 if name == "mirrored" else 1)
    with strategy.scope():
        keras.utils.set_random_seed(5)
        config = electra_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        model = ElectraPretrainer(config, seed=0)
        bias = np.zeros(config.vocab_size, np.float32)
        bias[9] = 1e4
        model.get_layer("masked_lm_bias").bias.assign(bias)
        optimizer = create_optimizer(1e-3, 10, warmup_steps=1)
        optimizer.build(model.trainable_variables)
        step = PretrainingStep(model, optimizer, Electra(), 0, accumulation_steps)
    rows = 4 // strategy.num_replicas_in_sync

    def part(context):
        first = context.replica_id_in_sync_group * rows
        return {key: tf.constant(value[first : first + rows]) for key, value in batch.items()}

    parts = strategy.experimental_distribute_values_from_function(part)
    tf.function(lambda parts: strategy.run(step, args=(parts,)))(parts)
    return {weight.path: weight.numpy() for weight in model.trainable_variables}
