import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPretrainer, create_optimizer
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.step import PretrainingStep
from keras_bert.tpu.pure_function import pure_function
from tests.pretraining.tiny_batches import CONFIG, batch
from tests.tolerances import REORDERED_MOMENTS


@pytest.mark.parametrize(
    ("optimizer_name", "accumulation_steps"),
    [("adamw", 2), pytest.param("lamb", 1, marks=pytest.mark.long)],
)
def test_a_pure_training_step_does_what_the_step_does(optimizer_name, accumulation_steps):
    keras.utils.set_random_seed(5)
    model = BertPretrainer(CONFIG, seed=1, dtype="float32")
    optimizer = create_optimizer(
        1e-2, train_steps=4, warmup_steps=0, optimizer=optimizer_name, global_clipnorm=0.1
    )
    optimizer.build(model.trainable_variables)
    step = tf.function(
        PretrainingStep(
            model,
            optimizer,
            MaskedLanguageModel(),
            seed=7,
            accumulation_steps=accumulation_steps,
        )
    )
    features = {name: tf.constant(value) for name, value in batch(3).items()}
    concrete = step.get_concrete_function(features)
    step(features)  # so that the moments are not zero when the two are compared
    pure = pure_function(concrete, [v.value for v in [*model.variables, *optimizer.variables]])

    before = [variable.numpy() for variable in pure.variables]
    results = tf.function(pure.function)(*before, *tf.nest.flatten(features))
    sums = step(features)

    assert all(
        variable.dtype == tf.float32 or variable.numpy() != value  # the number of the step
        for variable, value in zip(pure.variables, before, strict=True)
    )
    expected = [*pure.variables, *tf.nest.flatten(sums)]
    for actual, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, **REORDERED_MOMENTS)


def test_branches_loops_and_calls_that_change_variables():
    total, count = tf.Variable(1.0), tf.Variable(0)

    @tf.function
    def add_to_total(amount):
        total.assign_add(amount)

    @tf.function
    def run(limit):
        while total < limit:
            add_to_total(3.0)
            count.assign_add(1)
        if count > 2:
            total.assign_sub(0.5)
        else:
            total.assign(-1.0)
        return total + limit

    pure = pure_function(run.get_concrete_function(tf.TensorSpec(())), [total, count])

    def outcome(start, limit):
        values = {id(total): tf.constant(start), id(count): tf.constant(0)}
        *state, result = tf.function(pure.function)(*(values[id(v)] for v in pure.variables), limit)
        after = dict(zip(map(id, pure.variables), state, strict=True))
        return float(after[id(total)]), int(after[id(count)]), float(result)

    # By hand: 1, 4, 7, 10 and 9.5 after three turns; 8, 11 and -1 after one.
    assert outcome(1.0, tf.constant(9.0)) == (9.5, 3, 18.5)
    assert outcome(8.0, tf.constant(9.0)) == (-1.0, 1, 8.0)
    assert (total.numpy(), count.numpy()) == (1.0, 0)


def test_an_unknown_operation_on_a_variable_is_named():
    table = tf.Variable(tf.zeros((3, 2)))

    @tf.function
    def scatter(row):
        table.scatter_update(tf.IndexedSlices(tf.ones((1, 2)), [row]))

    concrete = scatter.get_concrete_function(tf.TensorSpec((), tf.int32))
    with pytest.raises(ValueError, match="ResourceScatterUpdate .* works on a variable"):
        tf.function(pure_function(concrete, [table]).function)(table.value(), tf.constant(1))
