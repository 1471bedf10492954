"""Lamb against algorithm 2 of arXiv:1904.00962, written out in NumPy."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import create_optimizer
from keras_bert.training.lamb import Lamb
from keras_bert.training.strategy import create_strategy
from tests.tolerances import FORMULA

PATHS = ["dense/kernel", "dense/bias", "layer_norm/gamma", "layer_norm/beta"]
FUSED_PATHS = [
    "layer_0/attention/query_key_value/kernel",
    "layer_0/attention/query_key_value/bias",
    "layer_0/attention/output/kernel",
]
EXCLUDED = {"dense/bias", "layer_norm/gamma", "layer_norm/beta"}


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


def _oracle(
    weights,
    gradients,
    rates,
    decay=0.01,
    clip=1.0,
    excluded=EXCLUDED,
    paths=PATHS,
    beta_1=0.9,
    beta_2=0.999,
):
    """Algorithm 2 in float64, one list of gradients a step."""
    weights = [w.astype("float64") for w in weights]
    m = [np.zeros_like(w) for w in weights]
    v = [np.zeros_like(w) for w in weights]
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        norm = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in gradient))
        scale = clip / max(norm, clip) if clip else 1.0
        for i, w in enumerate(weights):
            g = gradient[i].astype("float64") * scale
            m[i] = beta_1 * m[i] + (1 - beta_1) * g
            v[i] = beta_2 * v[i] + (1 - beta_2) * g * g
            update = m[i] / (1 - beta_1**step) / (np.sqrt(v[i] / (1 - beta_2**step)) + 1e-6)
            if paths[i] not in excluded:
                update = update + decay * w
                weight_norm, update_norm = np.linalg.norm(w), np.linalg.norm(update)
                if weight_norm and update_norm:
                    update = update * weight_norm / update_norm
            weights[i] = w - rate * update
    return weights


def _apply(optimizer, variables, gradients):
    for gradient in gradients:
        optimizer.apply([tf.constant(g) for g in gradient], variables)
    return [v.numpy() for v in variables]


def _assert_equal(values, expected):
    for path, value, right in zip(PATHS, values, expected, strict=True):
        np.testing.assert_allclose(value, right, **FORMULA, err_msg=path)


@pytest.mark.parametrize("clip", [1.0, None])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_ten_steps_equal_the_paper(decay, clip):
    start, gradients = _random(0), [_random(seed) for seed in range(1, 11)]
    optimizer = Lamb(0.01, weight_decay_rate=decay, global_clipnorm=clip)
    values = _apply(optimizer, _variables(start), gradients)
    _assert_equal(values, _oracle(start, gradients, [0.01] * 10, decay, clip))


@pytest.mark.parametrize("without", ["beta_1", "beta_2"])
def test_without_a_moment_the_last_gradient_stands_for_it(without):
    start, gradients = _random(0), [_random(seed) for seed in range(1, 4)]
    betas = {"beta_1": 0.9, "beta_2": 0.999, without: 0.0}
    values = _apply(Lamb(0.01, **betas), _variables(start), gradients)
    _assert_equal(values, _oracle(start, gradients, [0.01] * 3, **betas))


def test_exclusions_go_by_path():
    start, gradients = _random(0), [_random(seed) for seed in range(1, 11)]
    optimizer = Lamb(0.01, weight_decay_rate=0.3, not_decayed=("^layer_norm/gamma$",))
    values = _apply(optimizer, _variables(start), gradients)
    expected = _oracle(start, gradients, [0.01] * 10, 0.3, excluded={"layer_norm/gamma"})
    _assert_equal(values, expected)


@pytest.mark.parametrize(
    ("layer", "widths", "rows"),
    [
        ("query_key_value", [4] * 3, 4),
        ("query_key_value", [4] * 6, 4),  # of a Longformer
        ("query_key_value", [4, 2, 2], 4),  # heads share keys and values
        ("query_key_value", [4, 1, 1], 4),
        ("query_key", [4] * 2, 4),  # of a MobileBERT, and its teacher's
        ("query_key_value", [4] * 3, 2),
    ],
)
def test_query_key_and_value_side_by_side_move_as_matrices_of_their_own(layer, widths, rows):
    # The weights of each have another size.
    draw = np.random.default_rng(3)
    sizes = [*zip(3.0 ** np.arange(len(widths)), widths, strict=True)]
    matrices = [(size * draw.normal(size=(rows, width))).astype("float32") for size, width in sizes]
    biases = [(size * draw.normal(size=width)).astype("float32") for size, width in sizes]
    pieces = [matrices, biases, [draw.normal(size=(4, 4)).astype("float32")]]
    gradients = [
        [[draw.normal(size=one.shape).astype("float32") for one in kind] for kind in pieces]
        for _ in range(5)
    ]
    variables = []
    paths = [path.replace("query_key_value", layer) for path in FUSED_PATHS]
    for path, kind in zip(paths, pieces, strict=True):
        *layers, name = path.split("/")
        with contextlib.ExitStack() as scopes:
            for scope in layers:
                scopes.enter_context(keras.name_scope(scope))
            variables.append(keras.Variable(np.concatenate(kind, axis=-1), name=name))
    assert [variable.path for variable in variables] == paths
    optimizer = Lamb(0.01, weight_decay_rate=0.3, not_decayed=())
    values = _apply(
        optimizer,
        variables,
        [[np.concatenate(kind, axis=-1) for kind in gradient] for gradient in gradients],
    )
    apart = sum(pieces, [])
    expected = _oracle(
        apart, [sum(g, []) for g in gradients], [0.01] * 5, 0.3, paths=[""] * len(apart)
    )
    ends = np.cumsum(widths)[:-1]
    found = sum((np.split(value, ends, axis=-1) for value in values[:2]), [])
    for index, value in enumerate([*found, values[2]]):
        np.testing.assert_allclose(value, expected[index], **FORMULA, err_msg=str(index))


def test_updates_follow_the_schedule():
    start, gradients = _random(0), [_random(seed) for seed in range(1, 6)]
    optimizer = create_optimizer(0.1, train_steps=5, warmup_steps=2, optimizer="lamb")
    values = _apply(optimizer, _variables(start), gradients)
    _assert_equal(values, _oracle(start, gradients, [0.0, 0.05, 0.06, 0.04, 0.02]))


def test_weights_of_zero_and_updates_of_zero_have_a_trust_ratio_of_one():
    start = [np.zeros_like(w) for w in _random(0)]
    still = [np.zeros_like(w) for w in start]
    gradients = [still, _random(1), _random(2)]
    values = _apply(Lamb(0.01), _variables(start), gradients)
    _assert_equal(values, _oracle(start, gradients, [0.01] * 3))
    assert np.abs(values[0]).min() > 1e-3


def test_gradients_of_replicas_are_summed_before_clipping():
    # Two replicas with different gradients make the step of one replica with their sum.
    start, gradients = _random(0), [_random(seed) for seed in range(1, 11)]
    others = [_random(seed) for seed in range(11, 21)]
    strategy = create_strategy("mirrored")
    with strategy.scope():
        variables = _variables(start)
        optimizer = Lamb(0.01)
        optimizer.build(variables)

    @tf.function
    def step(first, second):
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            pairs = zip(first, second, strict=True)
            optimizer.apply([tf.where(index == 0, a, b) for a, b in pairs], variables)

        strategy.run(replica)

    for first, second in zip(gradients, others, strict=True):
        step([tf.constant(g) for g in first], [tf.constant(g) for g in second])
    if len(tf.config.list_physical_devices("GPU")) == 1:
        pytest.skip("a single GPU is one replica")
    assert strategy.num_replicas_in_sync == 2
    pairs = zip(gradients, others, strict=True)
    sums = [[a + b for a, b in zip(*pair, strict=True)] for pair in pairs]
    expected = _oracle(start, sums, [0.01] * 10)
    for path, variable, right in zip(PATHS, variables, expected, strict=True):
        for copy in strategy.experimental_local_results(variable.value):
            np.testing.assert_allclose(copy.numpy(), right, **FORMULA, err_msg=path)


def test_sparse_gradients_decay_the_moments_of_untouched_rows():
    start = _random(0)
    dense = [np.zeros_like(w) for w in start]
    dense[0][1] = 0.75
    sparse = tf.IndexedSlices(
        tf.constant([[0.5] * 4, [0.25] * 4]), tf.constant([1, 1]), tf.constant([3, 4])
    )
    variables = _variables(start)
    optimizer = Lamb(0.01)
    for _ in range(3):
        optimizer.apply([sparse, *map(tf.constant, dense[1:])], variables)
    expected = _oracle(start, [dense] * 3, [0.01] * 3)
    _assert_equal([v.numpy() for v in variables], expected)


def test_a_pattern_that_matches_nothing_is_refused():
    optimizer = Lamb(0.01, not_decayed=("LayerNorm",))
    with pytest.raises(ValueError, match="'LayerNorm' of not_decayed matches none of 4 variables"):
        optimizer.build(_variables(_random(0)))


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match="optimizer is 'adam': choose one of adamw, lamb"):
        create_optimizer(optimizer="adam")


def test_get_config_keeps_every_argument():
    arguments = {
        "weight_decay_rate": 0.1,
        "beta_1": 0.8,
        "beta_2": 0.99,
        "epsilon": 1e-5,
        "global_clipnorm": 2.0,
        "not_decayed": ["bias$"],
    }
    optimizer = Lamb(0.02, **arguments)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    config = copy.get_config()
    assert type(copy) is Lamb
    assert config == optimizer.get_config()
    assert {name: config[name] for name in arguments} == arguments
