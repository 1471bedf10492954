"""BertAdamW against the formulas of the paper's code, written out in NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import create_optimizer
from keras_bert.training.lamb import Lamb
from keras_bert.training.optimizer import BertAdamW
from tests.tolerances import FORMULA

PATHS = ["dense/kernel", "dense/bias", "layer_norm/gamma", "layer_norm/beta"]


def _variables(values):
    variables = []
    for path, value in zip(PATHS, values, strict=True):
        layer, name = path.split("/")
        with keras.name_scope(layer):
            variables.append(keras.Variable(value, name=name))
    assert [v.path for v in variables] == PATHS
    return variables


def _random(seed):
    random = np.random.default_rng(seed)
    return [random.normal(size=s).astype("float32") for s in ((3, 4), (4,), (4,), (4,))]


def _oracle(weights, gradients, rates, decay, clip, corrected=False):
    """AdamWeightDecayOptimizer of google-research/bert in float64, one list of gradients a step."""
    weights = [w.astype("float64") for w in weights]
    m = [np.zeros_like(w) for w in weights]
    v = [np.zeros_like(w) for w in weights]
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        norm = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in gradient))
        scale = clip / max(norm, clip) if clip else 1.0
        for i, w in enumerate(weights):
            g = gradient[i].astype("float64") * scale
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g * g
            first = m[i] / (1 - 0.9**step) if corrected else m[i]
            second = v[i] / (1 - 0.999**step) if corrected else v[i]
            update = first / (np.sqrt(second) + 1e-6)
            if PATHS[i] == "dense/kernel":
                update = update + decay * w
            weights[i] = w - rate * update
    return weights


@pytest.mark.parametrize("corrected", [False, True])
def test_ten_steps_equal_the_original(corrected):
    start, gradients = _random(0), [_random(seed) for seed in range(1, 11)]
    variables = _variables(start)
    optimizer = BertAdamW(0.01, bias_correction=corrected)
    for gradient in gradients:
        optimizer.apply([tf.constant(g) for g in gradient], variables)
    expected = _oracle(start, gradients, [0.01] * 10, decay=0.01, clip=1.0, corrected=corrected)
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, **FORMULA)


def test_the_schedule_is_the_originals():
    # warmup: rate * t / 4; then rate * (1 - t / 10), t from 0 (worked out by hand).
    expected = [0.0, 0.25, 0.5, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    optimizer = create_optimizer(learning_rate=1.0, train_steps=10, warmup_steps=4)
    rates = []
    variables = _variables(_random(0))
    for _ in range(10):
        rates.append(float(optimizer.learning_rate))
        optimizer.apply([tf.constant(g) for g in _random(1)], variables)
    np.testing.assert_allclose(rates, expected, **FORMULA)


def test_updates_follow_the_schedule():
    start, gradients = _random(0), [_random(seed) for seed in range(1, 6)]
    variables = _variables(start)
    optimizer = create_optimizer(0.1, train_steps=5, warmup_steps=2)
    for gradient in gradients:
        optimizer.apply([tf.constant(g) for g in gradient], variables)
    expected = _oracle(start, gradients, [0.0, 0.05, 0.06, 0.04, 0.02], decay=0.01, clip=1.0)
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, **FORMULA)


def test_variables_have_rates_of_their_own():
    start, gradient = _random(0), _random(1)
    variables = _variables(start)
    scales = {"dense/": 0.5, "norm/beta": 0.0}
    optimizer = BertAdamW(0.01, rate_scales=scales)
    optimizer.apply([tf.constant(g) for g in gradient], variables)
    half, whole = (_oracle(start, [gradient], [rate], 0.01, clip=1.0) for rate in (0.005, 0.01))
    expected = [half[0], half[1], whole[2], start[3]]
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, **FORMULA)


def test_sparse_gradients_decay_the_moments_of_untouched_rows():
    start = _random(0)
    dense = [np.zeros_like(w) for w in start]
    dense[0][1] = 0.5
    dense[0][1] += 0.25  # the same row twice: gradients of a piece that occurs twice add up
    sparse = tf.IndexedSlices(
        tf.constant([[0.5] * 4, [0.25] * 4]), tf.constant([1, 1]), tf.constant([3, 4])
    )
    variables = _variables(start)
    optimizer = BertAdamW(0.01, global_clipnorm=None)
    for _ in range(3):
        optimizer.apply([sparse, *map(tf.constant, dense[1:])], variables)
    expected = _oracle(start, [dense] * 3, [0.01] * 3, decay=0.01, clip=None)
    np.testing.assert_allclose(variables[0].numpy(), expected[0], **FORMULA)


def test_a_pattern_that_matches_nothing_is_refused():
    optimizer = BertAdamW(0.01, not_decayed=("LayerNorm",))
    with pytest.raises(ValueError, match="'LayerNorm' of not_decayed matches none of 4 variables"):
        optimizer.build(_variables(_random(0)))


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ({"clipnorm": 1e-3}, "clipnorm is 0.001: these optimizers take global_clipnorm"),
        ({"clipvalue": 1.0}, "clipvalue is 1.0: these optimizers take global_clipnorm"),
        ({"weight_decay": 0.5}, "weight_decay is 0.5: these optimizers take weight_decay_rate"),
        ({"global_clipnorm": -1.0}, "global_clipnorm is -1.0: it must be above 0"),
        ({"global_clipnorm": float("nan")}, "global_clipnorm is nan: it must be above 0"),
        ({"global_clipnorm": float("inf")}, "is inf: .* finite, or None for no clipping"),
        ({"learning_rate": -0.1}, "learning_rate is -0.1: it must be 0 or above"),
        ({"weight_decay_rate": float("nan")}, "weight_decay_rate is nan: it must be 0 or above"),
        ({"weight_decay_rate": "0.1"}, "weight_decay_rate is '0.1': it must be a number"),
        ({"epsilon": 0.0}, "epsilon is 0.0: it must be above 0"),
        ({"not_decayed": "bias$"}, r"not_decayed is the string 'bias\$', .*: give \['bias\$'\]"),
        ({"not_decayed": ["("]}, r"the pattern '\(' of not_decayed is no regular expression"),
        ({"rate_scales": {"head": -1}}, r"rate_scales\['head'\] is -1: it must be 0 or above"),
        ({"beta_2": 0.99999999}, "beta_2 is 0.99999999: .* rounded to float32"),
        ({"beta_1": 1.0}, "beta_1 is 1.0: it must be from 0 to below 1"),
        ({"beta_2": float("nan")}, "beta_2 is nan: it must be from 0 to below 1"),
    ],
)
def test_arguments_that_would_change_the_update_are_refused(argument, sentence):
    for kind in (BertAdamW, Lamb):
        with pytest.raises(ValueError, match=sentence):
            kind(**{"learning_rate": 0.01, **argument})


@pytest.mark.parametrize("kind", [BertAdamW, Lamb])
def test_accumulated_gradients_are_one_update_by_their_mean(kind):
    start, gradients = _random(0), [_random(1), _random(2)]
    options = {"global_clipnorm": None} | ({"bias_correction": True} if kind is BertAdamW else {})
    one, two = _variables(start), _variables(start)
    kind(0.01, **options).apply(
        [tf.constant((a + b) / 2) for a, b in zip(*gradients, strict=True)], one
    )
    optimizer = kind(0.01, gradient_accumulation_steps=2, **options)
    optimizer.build(two)
    step = tf.function(lambda *parts: optimizer.apply(parts, two))
    for gradient in gradients:
        step(*map(tf.constant, gradient))
    for left, right in zip(one, two, strict=True):
        np.testing.assert_allclose(left.numpy(), right.numpy(), **FORMULA)


# A step of BERT-base has 200 variables: each with its own would be thousands of operations more.
@pytest.mark.parametrize(
    ("optimizer", "operation"),
    [(BertAdamW(0.01, bias_correction=True), "Pow"), (Lamb(0.01), "Expm1")],
    ids=["adamw", "lamb"],
)
def test_corrections_are_computed_once_for_all_variables(optimizer, operation):
    variables = _variables(_random(0))
    optimizer.build(variables)
    gradients = [tf.constant(g) for g in _random(1)]

    @tf.function
    def step():
        return optimizer.apply_where_finite(gradients, variables, tf.constant(1.0))

    operations = step.get_concrete_function().graph.get_operations()
    assert [node.type for node in operations].count(operation) == 2  # one for each moment


def test_norms_of_another_name_are_refused_but_no_norms_are_not():
    def after_a_step(*names):
        variables = [keras.Variable(np.ones(3, np.float32), name=name) for name in names]
        BertAdamW(0.1).apply([tf.zeros(3)] * len(names), variables)
        return [variable.numpy()[0] for variable in variables]

    with pytest.raises(ValueError, match="of not_decayed matches none of 2 variables"):
        after_a_step("kernel", "gamma")
    # As of a classifier whose encoder is frozen: 1 - 0.1 * 0.01, and no decay.
    np.testing.assert_allclose(after_a_step("kernel", "bias"), [0.999, 1.0], **FORMULA)


def test_a_warmup_longer_than_the_run_is_refused():
    with pytest.raises(ValueError, match="warmup_steps is 20 and train_steps is 10"):
        create_optimizer(train_steps=10, warmup_steps=20)
    with pytest.raises(ValueError, match="learning_rate is '3e-4': it must be a number"):
        create_optimizer("3e-4", train_steps=10, warmup_steps=2)


def test_get_config_keeps_every_argument():
    optimizer = BertAdamW(
        0.02,
        weight_decay_rate=0.1,
        beta_1=0.8,
        beta_2=0.99,
        epsilon=1e-5,
        bias_correction=True,
        global_clipnorm=2.0,
        not_decayed=("bias$",),
    )
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert copy.get_config() == optimizer.get_config()
    assert (copy.weight_decay_rate, copy.bias_correction, copy.not_decayed) == (
        0.1,
        True,
        ("bias$",),
    )
