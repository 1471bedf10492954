"""One batch gives one update, however it is spread over replicas and micro-batches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertPretrainer, create_optimizer
from keras_bert.layers import activations, dropout, layer_norm, one_loop
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.objectives.objective import classification_sums
from keras_bert.pretraining.step import PretrainingStep, make_training_loop
from keras_bert.training import losses
from keras_bert.training.precision import DynamicLossScale, dtype_policy
from keras_bert.training.strategy import create_strategy
from tests.markers import some_slow
from tests.tolerances import (
    EXACT,
    FORMULA,
    HALF_PRECISION_LOSS,
    REORDERED,
    REORDERED_UPDATES,
    approx,
)

BATCH, LENGTH, PREDICTIONS, VOCABULARY, STEPS = 8, 12, 4, 40, 5


def _batches():
    """Batches whose examples have very different numbers of predictions."""
    random = np.random.default_rng(0)
    for _ in range(STEPS):
        weights = np.zeros((BATCH, PREDICTIONS), "float32")
        for row in range(BATCH):
            weights[row, : 1 + row * PREDICTIONS // BATCH] = 1.0
        yield {
            "input_ids": random.integers(5, VOCABULARY, (BATCH, LENGTH)).astype("int32"),
            "input_mask": (np.arange(LENGTH) < random.integers(5, LENGTH, (BATCH, 1))).astype(
                "int32"
            ),
            "segment_ids": random.integers(0, 2, (BATCH, LENGTH)).astype("int32"),
            "masked_lm_positions": random.integers(1, 5, (BATCH, PREDICTIONS)).astype("int32"),
            "masked_lm_ids": random.integers(5, VOCABULARY, (BATCH, PREDICTIONS)).astype("int32"),
            "masked_lm_weights": weights,
            "next_sentence_labels": random.integers(0, 2, (BATCH,)).astype("int32"),
        }


def _train(
    strategy,
    accumulation_steps=1,
    dropout=0.0,
    seed=0,
    batches=None,
    precision="float32",
    compiled=False,
    poisoned=(),
):
    """Returns the weights after some steps, the metrics of all, and which made an update."""
    batches = list(batches or _batches())
    for step in poisoned:  # the last example, so that one replica and one micro-batch see it
        batches[step]["masked_lm_weights"][-1, 0] = np.nan
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = BertPretrainer(config, seed=1, dtype=dtype_policy(precision))
        optimizer = create_optimizer(1e-3, 100, warmup_steps=0, schedule="constant")
        optimizer.build(model.trainable_variables)
        loss_scale = DynamicLossScale() if precision == "float16" else None

    def dataset(context):
        whole = {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}
        return tf.data.Dataset.from_tensor_slices(whole).batch(
            context.get_per_replica_batch_size(BATCH), drop_remainder=True
        )

    step = PretrainingStep(
        model,
        optimizer,
        MaskedLanguageModel(),
        seed,
        accumulation_steps=accumulation_steps,
        loss_scale=loss_scale,
        compiled=compiled,
    )
    loop = make_training_loop(step, strategy)
    iterator = iter(strategy.distribute_datasets_from_function(dataset))
    sums, losses, updated = loop(iterator, tf.constant(len(batches)))
    weights = {v.path: v.numpy() for v in model.trainable_variables}
    metrics = MaskedLanguageModel().metrics(sums.by_name) | {
        f"loss_{i}": float(loss) for i, loss in enumerate(losses) if updated[i]
    }
    return weights, metrics, list(updated.numpy())


def _assert_equal(left, right, tolerance):
    assert left.keys() == right.keys()
    for path, value in left.items():
        np.testing.assert_allclose(value, right[path], **tolerance, err_msg=path)


@pytest.fixture(scope="module")
def two_devices():
    strategy = create_strategy("mirrored")
    if len(tf.config.list_physical_devices("GPU")) == 1:
        pytest.skip("a single GPU is one replica")
    assert strategy.num_replicas_in_sync == 2
    return strategy


@pytest.fixture(scope="module")
def one_replica():
    return _train(tf.distribute.get_strategy())


def test_two_replicas_equal_one_with_twice_the_batch(one_replica, two_devices):
    weights, metrics, _ = _train(two_devices)
    _assert_equal(weights, one_replica[0], REORDERED_UPDATES)
    assert metrics == approx(one_replica[1], REORDERED)


@pytest.mark.parametrize("accumulation_steps", [pytest.param(2, marks=pytest.mark.long), 4])
def test_micro_batches_equal_the_whole_batch(one_replica, accumulation_steps):
    weights, metrics, _ = _train(tf.distribute.get_strategy(), accumulation_steps)
    _assert_equal(weights, one_replica[0], REORDERED_UPDATES)
    assert metrics == approx(one_replica[1], REORDERED)


@pytest.mark.long
def test_replicas_with_micro_batches_equal_one_replica(one_replica, two_devices):
    weights, _, _ = _train(two_devices, accumulation_steps=2)
    _assert_equal(weights, one_replica[0], REORDERED_UPDATES)


@pytest.mark.parametrize(
    ("replicas", "accumulation_steps"),
    [pytest.param(1, 1, marks=pytest.mark.long), (2, 2)],
)
def test_a_batch_with_a_nan_is_as_if_it_had_not_been(replicas, accumulation_steps, two_devices):
    strategy = two_devices if replicas == 2 else tf.distribute.get_strategy()
    batches = list(_batches())
    expected, _, _ = _train(tf.distribute.get_strategy(), batches=batches[:2] + batches[3:])
    weights, metrics, updated = _train(strategy, accumulation_steps, poisoned=[2])
    assert updated == [True, True, False, True, True]
    assert all(np.isfinite(value) for value in metrics.values())
    _assert_equal(weights, expected, REORDERED_UPDATES)


@pytest.mark.parametrize("name", ["adamw", "lamb"])
@pytest.mark.parametrize(("gradient", "loss"), [(np.inf, 1.0), (np.nan, 1.0), (2.0, np.nan)])
def test_nothing_changes_where_a_gradient_or_the_loss_is_not_finite(name, gradient, loss):
    weight, bias = keras.Variable([1.0, -2.0], name="kernel"), keras.Variable([3.0], name="bias")
    optimizer = create_optimizer(0.1, 10, 0, optimizer=name, not_decayed=["bias"])
    optimizer.build([weight, bias])
    good = [tf.constant([0.5, 0.25]), tf.constant([0.1])]
    assert optimizer.apply_where_finite(good, [weight, bias], tf.constant(1.0))
    state = [weight, bias, *optimizer.variables]
    before = {variable.path: variable.numpy() for variable in state}
    bad = [tf.constant([0.5, gradient]), tf.constant([0.1])]
    assert not optimizer.apply_where_finite(bad, [weight, bias], tf.constant(loss))
    for variable in state:
        expected = before[variable.path] + (variable.path == optimizer.iterations.path)
        np.testing.assert_array_equal(variable.numpy(), expected, err_msg=variable.path)


def test_an_update_where_finite_is_an_update(two_devices):
    def updated(apply):
        weight = keras.Variable([1.0, -2.0], name="kernel")
        optimizer = create_optimizer(0.1, 10, warmup_steps=0, not_decayed=[])
        optimizer.build([weight])
        apply(optimizer, [tf.constant([3.0, 4.0])], [weight])
        return weight.numpy()

    plain = updated(lambda optimizer, grads, weights: optimizer.apply(grads, weights))
    for scale in (1.0, 1024.0):
        checked = updated(
            lambda optimizer, grads, weights, scale=scale: optimizer.apply_where_finite(
                [grads[0] * scale], weights, tf.constant(1.0), scale
            )
        )
        np.testing.assert_array_equal(plain, checked)


@pytest.mark.half_precision
def test_float16_learns_like_float32(one_replica):
    _, metrics, updated = _train(tf.distribute.get_strategy(), precision="float16")
    assert all(updated)
    assert metrics["loss_4"] == approx(one_replica[1]["loss_4"], HALF_PRECISION_LOSS)


def test_a_loss_scale_is_halved_by_overflow_and_doubled_after_two_thousand_steps():
    scale = DynamicLossScale()
    assert scale.value.numpy() == 2.0**15
    scale.update(tf.constant(False))
    scale.update(tf.constant(False))
    assert scale.value.numpy() == 2.0**13
    for _ in range(1999):
        scale.update(tf.constant(True))
    assert scale.value.numpy() == 2.0**13
    scale.update(tf.constant(True))
    assert (scale.value.numpy(), scale.good_steps.numpy()) == (2.0**14, 0)
    for _ in range(20):
        scale.update(tf.constant(False))
    assert scale.value.numpy() == 1.0


def test_replicas_halve_the_loss_scale_once(two_devices):
    with two_devices.scope():
        scale = DynamicLossScale()
    two_devices.run(tf.function(lambda: scale.update(tf.constant(False))))
    assert scale.value.numpy() == 2.0**14


@pytest.mark.parametrize(
    "replicas_and_parts",
    some_slow([(1, 1), (1, 2), (2, 1), (2, 2)], [(1, 1), (2, 2)]),
    ids=str,
)
def test_a_compiled_step_makes_the_same_update(one_replica, two_devices, replicas_and_parts):
    replicas, accumulation_steps = replicas_and_parts
    # Of one replica the whole step is compiled, of two the part before the sum over them.
    strategy = two_devices if replicas == 2 else tf.distribute.get_strategy()
    weights, metrics, _ = _train(strategy, accumulation_steps, compiled=True)
    _assert_equal(weights, one_replica[0], REORDERED_UPDATES)
    assert metrics == approx(one_replica[1], REORDERED)


@pytest.mark.slow
def test_a_compiled_step_that_is_not_finite_changes_nothing():
    """The poisoned last step is as if it had not been."""
    strategy = tf.distribute.get_strategy()
    expected, _, _ = _train(strategy, batches=list(_batches())[:-1])
    weights, _, updated = _train(strategy, compiled=True, poisoned=[STEPS - 1])
    assert updated == [True] * (STEPS - 1) + [False]
    _assert_equal(weights, expected, REORDERED_UPDATES)


@pytest.mark.slow
def test_layers_in_loops_make_the_same_update(one_replica, two_devices, monkeypatch):
    dropped, _, _ = _train(tf.distribute.get_strategy(), dropout=0.5, seed=1)
    monkeypatch.setattr(one_loop, "LEAST_ELEMENTS", 1)  # these tensors are far below it
    monkeypatch.setattr(one_loop, "_threads", lambda: 1)
    monkeypatch.delenv(one_loop.SWITCH, raising=False)
    answers = []

    def spy(tensor):
        answers.append(one_loop.gains_from_one_loop(tensor))
        return answers[-1]

    for module in (activations, dropout, layer_norm, losses):
        monkeypatch.setattr(module, "gains_from_one_loop", spy)
    monkeypatch.setattr(losses, "_LARGE_VOCABULARY", 1)
    for strategy, accumulation_steps in ((tf.distribute.get_strategy(), 1), (two_devices, 2)):
        weights, _, _ = _train(strategy, accumulation_steps)
        _assert_equal(weights, one_replica[0], REORDERED_UPDATES)
    weights, _, _ = _train(tf.distribute.get_strategy(), dropout=0.5, seed=1)
    _assert_equal(weights, dropped, REORDERED_UPDATES)
    assert answers
    assert all(answers)


@pytest.mark.slow
def test_dropout_follows_from_the_seed():
    strategy = tf.distribute.get_strategy()
    first, _, _ = _train(strategy, dropout=0.5, seed=1)
    again, _, _ = _train(strategy, dropout=0.5, seed=1)
    other, _, _ = _train(strategy, dropout=0.5, seed=2)
    _assert_equal(first, again, EXACT)
    kernel = "layer_0/intermediate/kernel"
    assert np.abs(first[kernel] - other[kernel]).max() > 1e-3


def test_replicas_draw_different_dropout_masks(two_devices):
    # With equal halves and equal masks, two replicas would make the update of one replica on one
    # half; different masks make another one.
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=0.5,
    )
    half = {name: value[:4] for name, value in next(_batches()).items()}

    def losses():
        with two_devices.scope():
            model = BertPretrainer(config, seed=1)
        optimizer = create_optimizer(train_steps=10, warmup_steps=0)
        step = PretrainingStep(model, optimizer, MaskedLanguageModel(), seed=0)

        @tf.function
        def replica_loss():
            counts = {"masked_lm": tf.constant(4.0), "next_sentence": tf.constant(4.0)}
            _, sums = step._gradients(
                {n: tf.constant(v) for n, v in half.items()}, counts, tf.constant(0), 0
            )
            return sums.by_name["masked_lm"].loss

        return two_devices.experimental_local_results(two_devices.run(replica_loss))

    first, second = losses()
    assert abs(float(first) - float(second)) > 1e-3


def test_sums_of_a_classification_by_hand():
    # Two answers over two classes: logits (0, 0) cost log 2 each, class 0 wins the tie.
    sums = classification_sums(
        tf.constant([[0.0, 0.0], [0.0, 0.0], [50.0, 0.0]]),
        tf.constant([0, 1, 0]),
        tf.constant([1.0, 1.0, 0.5]),
    )
    assert float(sums.loss) == approx(2 * np.log(2), FORMULA)
    assert (float(sums.correct), float(sums.weight)) == (1.5, 2.5)
