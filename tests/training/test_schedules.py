"""The schedules against values worked out by hand: ten steps, peak 1, warmup of 4."""

import keras
import numpy as np
import pytest

from keras_bert import create_optimizer
from keras_bert.training.schedules import (
    WarmupConstant,
    WarmupCosineDecay,
    WarmupLinearDecay,
    WarmupPolynomialDecay,
    WarmupStableDecay,
)
from tests.tolerances import FORMULA

WARMUP = [0.0, 0.25, 0.5, 0.75]
# Each list: steps 4 to 10, where the run ends, and step 25, which is past it.
EXPECTED = {
    # 1 - t / 10
    "linear": [0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.0],
    # sqrt(1 - t / 10)
    "polynomial": [0.774597, 0.707107, 0.632456, 0.547723, 0.447214, 0.316228, 0.0, 0.0],
    # (1 + cos(x)) / 2 for x of 0, 30, 60, ... 180 degrees
    "cosine": [1.0, 0.9330127, 0.75, 0.5, 0.25, 0.0669873, 0.0, 0.0],
    "constant": [1.0] * 8,
    # the decay is the last tenth of the run: step 9 is its first, still at the peak
    "warmup_stable_decay": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0],
}


def _rates(schedule):
    return [float(schedule(step)) for step in [*range(11), 25]]


@pytest.mark.parametrize("name", EXPECTED)
def test_rates_are_those_worked_out_by_hand(name):
    optimizer = create_optimizer(1.0, train_steps=10, warmup_steps=4, schedule=name)
    rates = _rates(optimizer._learning_rate)
    np.testing.assert_allclose(rates, WARMUP + EXPECTED[name], **FORMULA)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_peak_scales_the_rates(name):
    optimizer = create_optimizer(0.02, train_steps=10, warmup_steps=4, schedule=name)
    rates = np.array(_rates(optimizer._learning_rate)) / 0.02
    np.testing.assert_allclose(rates, WARMUP + EXPECTED[name], **FORMULA)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_run_that_is_all_warmup_stays_finite(name):
    optimizer = create_optimizer(1.0, train_steps=4, warmup_steps=4, schedule=name)
    rates = _rates(optimizer._learning_rate)
    assert rates[:4] == WARMUP
    assert np.isfinite(rates).all()


def test_power_two_is_the_square_of_the_linear_decay():
    rates = _rates(WarmupPolynomialDecay(1.0, 10, 4, power=2.0))
    np.testing.assert_allclose(rates[4:11], [0.36, 0.25, 0.16, 0.09, 0.04, 0.01, 0.0], **FORMULA)


def test_the_stable_part_ends_where_the_decay_begins():
    rates = _rates(WarmupStableDecay(1.0, 10, 2, decay_steps=4))
    np.testing.assert_allclose(
        rates, [0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0], **FORMULA
    )


@pytest.mark.parametrize(
    "schedule",
    [
        WarmupLinearDecay(0.1, 10, 4),
        WarmupPolynomialDecay(0.1, 10, 4, power=3.0),
        WarmupCosineDecay(0.1, 10, 4),
        WarmupConstant(0.1, 10, 4),
        WarmupStableDecay(0.1, 10, 4, decay_steps=3),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
def test_get_config_keeps_every_argument(schedule):
    copy = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert type(copy) is type(schedule)
    assert copy.get_config() == schedule.get_config()
    assert _rates(copy) == _rates(schedule)


def test_an_unknown_schedule_is_refused():
    with pytest.raises(ValueError, match="schedule is 'step': choose one of linear, polynomial"):
        create_optimizer(schedule="step")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"warmup_steps": 0.1}, "warmup_steps is 0.1: it must be a whole number, 0 or more"),
        ({"train_steps": "10"}, "train_steps is '10': it must be a whole number, at least 1"),
        ({"learning_rate": float("nan")}, "learning_rate is nan: it must be 0 or above"),
        ({"learning_rate": -1}, "learning_rate is -1: it must be 0 or above"),
        ({"learning_rate": "0.1"}, "learning_rate is '0.1': it must be a number"),
    ],
)
def test_numbers_of_no_schedule_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        create_optimizer(**{"train_steps": 10, "warmup_steps": 4, **arguments})


def test_a_warmup_longer_than_the_run_is_refused():
    with pytest.raises(ValueError, match="warmup_steps is 20 and train_steps is 10"):
        WarmupCosineDecay(1.0, 10, 20)


def test_a_decay_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="decay_steps is 7 but the warmup leaves 6 of 10 steps"):
        WarmupStableDecay(1.0, 10, 4, decay_steps=7)


def test_a_power_that_does_not_decay_is_refused():
    with pytest.raises(ValueError, match="power is 0: it must be above 0"):
        WarmupPolynomialDecay(1.0, 10, 4, power=0)
