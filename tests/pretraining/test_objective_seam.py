"""An objective that the package does not know is trained, resumed and kept, without touching it.

It is a small relative of ELECTRA's: masked language model, and for every piece whether it is one
of those that were chosen to be hidden.
"""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertMaskedLM, create_optimizer
from keras_bert.features import (
    EXAMPLE_WEIGHTS,
    INPUT_MASK,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
)
from keras_bert.models import preset
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.masked_lm import masked_lm_inputs, masked_lm_logits
from keras_bert.models.task_model import TaskModel, output_layer
from keras_bert.pretraining.objectives.objective import Objective, classification_sums
from keras_bert.pretraining.pretrain import pretrain
from keras_bert.pretraining.step import PretrainingStep
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.strategy import create_strategy
from keras_bert.visualize.pretraining_report import write_pretraining_report
from tests.pretraining.pretraining_runs import metrics_of, run_options, tiny_config, without_dropout
from tests.tolerances import FORMULA, REORDERED, REORDERED_UPDATES, approx

SCALE = 5.0


class HiddenPieceModel(TaskModel):
    def __init__(self, config, **arguments):
        encoder = BertEncoder(config, **arguments)
        inputs = masked_lm_inputs()
        encoded = encoder({name: inputs[name] for name in encoder.input})["sequence_output"]
        outputs = {
            "mlm_logits": masked_lm_logits(encoder, encoded, inputs[MASKED_LM_POSITIONS]),
            "hidden_logits": output_layer(encoder, 2, "hidden_piece")(encoded),
        }
        super().__init__(encoder, inputs=inputs, outputs=outputs)


@dataclasses.dataclass(frozen=True)
class HiddenPieces(Objective):
    name = "hidden_pieces"
    scales = {"masked_lm": 1.0, "hidden_piece": SCALE}

    def targets(self, options, tokenizer, data):
        return MaskedLanguageModelMasking(tokenizer.vocabulary, 4)

    def create_model(self, config, arguments, source=None):
        assert source is None
        return HiddenPieceModel(config, seed=arguments["seed"], dtype=arguments["dtype"])

    def counts(self, batch):
        return {
            "masked_lm": tf.reduce_sum(batch[MASKED_LM_WEIGHTS]),
            "hidden_piece": tf.reduce_sum(tf.cast(batch[INPUT_MASK], tf.float32)),
        }

    def sums(self, model, batch, training):
        outputs = model({name: batch[name] for name in model.input}, training=training)
        weights = batch[MASKED_LM_WEIGHTS]
        mask = tf.cast(batch[INPUT_MASK], tf.float32)
        if EXAMPLE_WEIGHTS in batch:
            mask *= batch[EXAMPLE_WEIGHTS][:, None]
        return {
            "masked_lm": classification_sums(outputs["mlm_logits"], batch[MASKED_LM_IDS], weights),
            "hidden_piece": classification_sums(outputs["hidden_logits"], _hidden(batch), mask),
        }

    def preset_model(self, model):
        return preset.from_checkpoint(BertMaskedLM, preset.as_checkpoint(model), {})


def _hidden(batch):
    """Returns which pieces were chosen, int32 [B, S]."""
    length = batch[INPUT_MASK].shape[1]
    chosen = tf.one_hot(batch[MASKED_LM_POSITIONS], length) * batch[MASKED_LM_WEIGHTS][..., None]
    return tf.cast(tf.reduce_max(chosen, axis=1), tf.int32)  # [B, P, S] -> [B, S]


def _run(corpus, model_dir, objective=None, **changes):
    records = str(corpus / "records")
    fields = {"train_steps": 10, "checkpoint_steps": 5, "peak_tflops": 1.0}
    options = run_options(records, model_dir, eval_data_dir=records, **(fields | changes))
    return pretrain(tiny_config(), options, create_strategy("cpu"), objective or HiddenPieces())


def _checkpoint(folder):
    reader = tf.train.load_checkpoint(str(folder / "checkpoints" / "step-10"))
    names = [name for name in reader.get_variable_to_shape_map() if "/.ATTRIBUTES/" in name]
    clocks = ("seconds", "save_counter")
    return {n: reader.get_tensor(n) for n in names if not any(clock in n for clock in clocks)}


@pytest.mark.slow
def test_an_objective_of_ones_own_is_trained_resumed_and_kept(
    corpus,
    tmp_path,
    monkeypatch,
):
    metrics = _run(corpus, tmp_path / "whole")
    save = TrainingCheckpoint.save

    def stop_after_save(self):
        save(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingCheckpoint, "save", stop_after_save)
    with pytest.raises(KeyboardInterrupt):
        _run(corpus, tmp_path / "stopped")
    monkeypatch.undo()
    assert not (tmp_path / "stopped" / "preset").exists()

    assert _run(corpus, tmp_path / "stopped") == metrics
    whole, stopped = _checkpoint(tmp_path / "whole"), _checkpoint(tmp_path / "stopped")
    assert any("hidden_piece" in name for name in whole)
    assert whole.keys() == stopped.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(value, stopped[name], err_msg=name)

    # What is measured follows from the names, on held-out records as in training.
    losses = {f"{name}_{what}" for name in HiddenPieces.scales for what in ("loss", "accuracy")}
    assert set(metrics) == {"loss"} | losses
    total = metrics["masked_lm_loss"] + SCALE * metrics["hidden_piece_loss"]
    assert metrics["loss"] == approx(total, FORMULA)
    line = metrics_of(tmp_path / "whole", "train")[-1]
    assert losses <= set(line) and "model_flop_utilization" not in line  # it told no operations
    report = write_pretraining_report(tmp_path / "whole").read_text()
    assert "| hidden piece accuracy |" in report
    assert (tmp_path / "whole" / "learning_curves.png").exists()

    # The preset is an ordinary model without the head that was thrown away.
    kept = BertMaskedLM.from_preset(tmp_path / "whole" / "preset")
    weights = [v for v in kept.weights if "seed_generator" not in v.path]
    assert not any("hidden_piece" in variable.path for variable in weights)
    for variable in weights:
        name = variable.path.replace("/", "..")  # TensorFlow writes a dot as two
        trained = whole[f"model/{name}/.ATTRIBUTES/VARIABLE_VALUE"]
        np.testing.assert_array_equal(variable.numpy(), trained, err_msg=variable.path)

    # The run knows whose it is.
    assert json.loads((tmp_path / "whole" / "run.json").read_text())["options"]["objective"] == (
        "hidden_pieces"
    )
    options = run_options(str(corpus / "records"), tmp_path / "whole", train_steps=10)
    with pytest.raises(ValueError, match="objective='hidden_pieces', now it is 'masked'"):
        pretrain(tiny_config(), options, create_strategy("cpu"))


def _batch():
    random = np.random.default_rng(1)
    rows, length, predictions = 8, 12, 3
    weights = (np.arange(predictions) < random.integers(1, 4, (rows, 1))).astype("float32")
    lengths = random.integers(6, length + 1, (rows, 1))
    return {
        "input_ids": random.integers(5, 23, (rows, length)).astype("int32"),
        "input_mask": (np.arange(length) < lengths).astype("int32"),
        "segment_ids": np.zeros((rows, length), "int32"),
        "masked_lm_positions": np.tile([1, 3, 5], (rows, 1)).astype("int32"),
        "masked_lm_ids": random.integers(5, 23, (rows, predictions)).astype("int32"),
        "masked_lm_weights": weights,
    }


@pytest.mark.parametrize("accumulation_steps", [pytest.param(1, marks=pytest.mark.long), 2])
def test_the_update_is_that_of_the_scaled_losses_each_by_its_own_count(accumulation_steps):
    batch = {name: tf.constant(value) for name, value in _batch().items()}

    def fresh():
        keras.utils.set_random_seed(4)
        model = HiddenPieceModel(without_dropout())
        optimizer = create_optimizer(1e-2, train_steps=10, warmup_steps=0, schedule="constant")
        optimizer.build(model.trainable_variables)
        return model, optimizer

    expected, optimizer = fresh()
    with tf.GradientTape() as tape:
        outputs = expected({name: batch[name] for name in expected.input})
        entropies = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs[name])
            for name, labels in (
                ("mlm_logits", batch["masked_lm_ids"]),
                ("hidden_logits", _hidden(batch)),
            )
        ]
        weights = batch["masked_lm_weights"], tf.cast(batch["input_mask"], tf.float32)
        first, second = (
            tf.reduce_sum(entropy * weight) / tf.reduce_sum(weight)
            for entropy, weight in zip(entropies, weights, strict=True)
        )
        loss = first + SCALE * second
    variables = [variable.value for variable in expected.trainable_variables]
    gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
    optimizer.apply(gradients, expected.trainable_variables)

    model, optimizer = fresh()
    step = PretrainingStep(
        model, optimizer, HiddenPieces(), seed=0, accumulation_steps=accumulation_steps
    )
    result = tf.function(step)(batch)
    assert float(result.loss) == approx(float(loss), REORDERED)
    for ours, theirs in zip(model.trainable_variables, expected.trainable_variables, strict=True):
        np.testing.assert_allclose(
            ours.numpy(), theirs.numpy(), **REORDERED_UPDATES, err_msg=ours.path
        )
