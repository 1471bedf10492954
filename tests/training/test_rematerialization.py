import dataclasses
from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import AlbertConfig, BertPretrainer, LocalBertConfig, create_optimizer
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.step import PretrainingStep
from keras_bert.training.rematerialization import rematerialize
from tests.pretraining.tiny_batches import CONFIG, batch
from tests.tolerances import HALF_PRECISION_TRAINING, REORDERED

ALBERT = AlbertConfig(**dataclasses.asdict(CONFIG), embedding_size=8)  # one block for both layers

# Eight positions are blocks of two.
LOCAL = LocalBertConfig(**dataclasses.asdict(CONFIG), attention_window=2)


def _train(remat, dtype="float32", accumulation_steps=1, steps=3, config=CONFIG):
    """Returns what the steps sum up, losses among it, the weights after them, and the step."""
    keras.utils.set_random_seed(5)
    model = BertPretrainer(config, seed=1, dtype=dtype)
    for _ in range(remat):
        rematerialize(model.encoder)
    optimizer = create_optimizer(1e-2, train_steps=10, warmup_steps=0, bias_correction=True)
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
    sums = [
        step({name: tf.constant(value) for name, value in batch(seed).items()})
        for seed in range(steps)
    ]
    losses = [float(number) for number in tf.nest.flatten(sums)]
    return losses, model.get_weights(), step


def operations_of(concrete):
    """Returns how many operations of each type a traced function has, in its loops, too."""
    graph = concrete.graph.as_graph_def()
    functions = [graph.node, *(function.node_def for function in graph.library.function)]
    return Counter(node.op for nodes in functions for node in nodes)


# With dropout: a second pass under another mask would give other gradients, and steps of 1 % show
# any difference in the weights. bfloat16 rounds what is computed twice in another order.
@pytest.mark.parametrize(
    ("dtype", "accumulation_steps", "config", "tolerance"),
    [
        ("float32", 2, CONFIG, REORDERED),
        pytest.param("float32", 2, ALBERT, REORDERED, marks=pytest.mark.slow),
        pytest.param("float32", 1, LOCAL, REORDERED, marks=pytest.mark.slow),
        pytest.param(
            "mixed_bfloat16", 1, CONFIG, HALF_PRECISION_TRAINING, marks=pytest.mark.half_precision
        ),
    ],
    ids=["float32", "albert", "local", "mixed_bfloat16"],
)
def test_losses_and_updates_stay_as_they_are(dtype, accumulation_steps, config, tolerance):
    losses, weights, _ = _train(False, dtype, accumulation_steps, config=config)
    remat_losses, remat_weights, _ = _train(True, dtype, accumulation_steps, config=config)
    np.testing.assert_allclose(remat_losses, losses, **tolerance)
    for expected, actual in zip(weights, remat_weights, strict=True):
        np.testing.assert_allclose(actual, expected, **tolerance)


def test_blocks_are_computed_twice():
    def attention_softmaxes(remat):
        step = _train(remat, steps=0)[2]
        concrete = step.get_concrete_function(
            {name: tf.constant(value) for name, value in batch(0).items()}
        )
        return operations_of(concrete)["Softmax"]

    assert attention_softmaxes(remat=False) == CONFIG.num_hidden_layers
    # Also where somebody asks for it twice.
    assert attention_softmaxes(remat=2) == 2 * CONFIG.num_hidden_layers


def test_answers_without_training_stay_as_they_are():
    keras.utils.set_random_seed(5)
    model = BertPretrainer(CONFIG, seed=1)
    features = {name: value for name, value in batch(0).items() if name in model.input}
    before = model(features, training=False)["mlm_logits"]
    rematerialize(model.encoder)
    np.testing.assert_array_equal(model(features, training=False)["mlm_logits"], before)
