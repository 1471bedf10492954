"""What figures of held-out records are compared with."""

import math

import pytest
import tensorflow as tf

from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel


def test_baselines_by_hand():
    batch = {
        "input_ids": tf.constant([[2, 9, 4, 9, 3], [2, 7, 9, 3, 0]]),
        "masked_lm_positions": tf.constant([[1, 2, 3], [1, 2, 0]]),
        "masked_lm_ids": tf.constant([[4, 4, 5], [6, 4, 0]]),
        "masked_lm_weights": tf.constant([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]),
    }
    found = MaskedLanguageModel().baselines([batch, batch], vocab_size=10)
    # Of ten pieces, six are 4, two are 5 and two are 6; at two of ten positions 4 stands unchanged.
    entropy = -(0.6 * math.log(0.6) + 2 * 0.2 * math.log(0.2))
    assert found == pytest.approx(
        {
            "most_frequent_piece_accuracy": 0.6,
            "masked_lm_loss_without_context": 0.8 * entropy,
        }
    )
