"""`model.fit` on raw strings in tf.data, as Keras users write it, also on two replicas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertPreprocessor, BertTokenizer, create_optimizer
from keras_bert.training.strategy import create_strategy

TEXTS = ["good", "bad", "great", "awful"] * 16
LABELS = [1, 0, 1, 0] * 16


def dataset(preprocess, weights=None, batch_size=16):
    parts = (TEXTS, LABELS) if weights is None else (TEXTS, LABELS, weights)
    rows = tf.data.Dataset.from_tensor_slices(parts).batch(batch_size)
    return rows.map(lambda texts, *rest: (preprocess(texts), *rest))


def compiled(folder, **arguments):
    model = BertClassifier.from_preset(folder, num_classes=2, seed=0, **arguments)
    model.compile(
        optimizer=create_optimizer(3e-3, train_steps=48, warmup_steps=4, bias_correction=True),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        weighted_metrics=[],
    )
    return model


@pytest.mark.parametrize("strategy", ["cpu", pytest.param("mirrored", marks=pytest.mark.long)])
@pytest.mark.slow
def test_raw_strings_are_learned(strategy, pretrained_folder, tmp_path):
    keras.utils.set_random_seed(0)
    preprocess = BertPreprocessor(BertTokenizer.from_preset(pretrained_folder), max_seq_length=16)
    with create_strategy(strategy).scope():
        model = compiled(pretrained_folder)
    seen = []
    callbacks = [
        keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(dict(logs))),
        keras.callbacks.ModelCheckpoint(tmp_path / "best.weights.h5", save_weights_only=True),
        keras.callbacks.EarlyStopping("val_loss", patience=1),
    ]
    data = dataset(preprocess)
    # An epoch sees the data four times: making an iterator of raw strings takes a second.
    model.fit(data.repeat(4), validation_data=data, epochs=3, callbacks=callbacks, verbose=0)
    assert seen[-1]["val_accuracy"] == 1.0
    assert seen[-1]["loss"] < 0.5 * seen[0]["loss"]
    assert (tmp_path / "best.weights.h5").is_file()
    if strategy == "cpu":
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
        batch = preprocess(["good", "awful"])
        np.testing.assert_array_equal(again(batch), model(batch, training=False))


@pytest.mark.slow
def test_examples_of_weight_zero_teach_nothing(pretrained_folder):
    keras.utils.set_random_seed(0)
    preprocess = BertPreprocessor(BertTokenizer.from_preset(pretrained_folder), max_seq_length=16)
    # Labels of every second half are wrong, and do not count.
    wrong = np.arange(64) >= 32
    labels = np.where(wrong, 1 - np.array(LABELS), LABELS)
    weights = np.where(wrong, 0.0, 2.0).astype("float32")
    rows = tf.data.Dataset.from_tensor_slices((TEXTS, labels, weights)).batch(64)
    data = rows.map(lambda texts, label, weight: (preprocess(texts), label, weight))
    model = compiled(pretrained_folder)
    model.fit(data.repeat(40), epochs=1, verbose=0)
    predicted = np.argmax(model.predict(preprocess(TEXTS[:4]), verbose=0), axis=-1)
    assert predicted.tolist() == LABELS[:4]
