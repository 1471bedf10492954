"""ELECTRA's losses and gradients against PyTorch, on the models of transformers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.models import preset
from keras_bert.models.electra_pretrainer import ElectraPretrainer
from keras_bert.pretraining.objectives.electra import Electra
from tests.pretraining.test_electra import batch_of, electra_config
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

# Paths of ours that both models share -> names of theirs.
SHARED = {
    "word_embeddings/embeddings": "electra.embeddings.word_embeddings.weight",
    "embeddings/position_embeddings": "electra.embeddings.position_embeddings.weight",
    "embeddings/segment_embeddings": "electra.embeddings.token_type_embeddings.weight",
    "embeddings/layer_norm/gamma": "electra.embeddings.LayerNorm.weight",
}
OWN = {
    "generator/embeddings_projection/bias": "electra.embeddings_project.bias",
    "generator/layer_0/intermediate/bias": "electra.encoder.layer.0.intermediate.dense.bias",
}


def test_losses_and_gradients_are_those_of_torch(tmp_path):
    import torch
    import transformers

    config = electra_config(
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.3
    )
    keras.utils.set_random_seed(3)
    model, objective, batch = ElectraPretrainer(config, seed=0), Electra(), batch_of(3)
    tensors = {name: tf.constant(value) for name, value in batch.items()}
    counts = {name: float(count) for name, count in objective.counts(tensors).items()}
    with tf.GradientTape() as tape:
        sums = objective.sums(model, tensors, training=False)
        losses = {name: sums[name].loss / counts[name] for name in counts}
        scales = objective.scales
        loss = sum(scales[name] * losses[name] for name in ("masked_lm", "replaced_token"))
    variables = {weight.path: weight for weight in model.trainable_variables}
    found = dict(
        zip(variables, tape.gradient(loss, [v.value for v in variables.values()]), strict=True)
    )
    drawn = model({n: batch[n] for n in model.input}, training=False)["drawn_ids"].numpy()

    # The same two models in transformers, each with a copy of the shared embeddings.
    checkpoint = preset.as_checkpoint(model)
    embeddings = ("word_embeddings/", "embeddings/")
    generator = {
        path.removeprefix("generator/"): value
        for path, value in checkpoint.variables.items()
        if path.startswith("generator/") or path.startswith(embeddings)
    }
    discriminator = {
        path: value
        for path, value in checkpoint.variables.items()
        if not path.startswith("generator/")
    }
    theirs = []
    for name, architecture, numbers, arrays in (
        ("ElectraForMaskedLM", "BertMaskedLM", config.generator, generator),
        ("ElectraForPreTraining", "BertReplacedTokenDetector", config, discriminator),
    ):
        folder = tmp_path / name
        folder.mkdir()
        checkpoints.write(
            Checkpoint(numbers, architecture, {}, arrays, checkpoint.report), folder, "hf"
        )
        theirs.append(getattr(transformers, name).from_pretrained(folder).eval())
    rows = np.arange(3)[:, None]
    places, weights = batch["masked_lm_positions"], torch.tensor(batch["masked_lm_weights"])
    inputs = {
        "attention_mask": torch.tensor(batch["input_mask"], dtype=torch.long),
        "token_type_ids": torch.tensor(batch["segment_ids"], dtype=torch.long),
    }
    masked = torch.tensor(batch["input_ids"], dtype=torch.long)
    logits = theirs[0](masked, **inputs).logits[rows, places]  # [B, P, V]
    answers = torch.tensor(batch["masked_lm_ids"], dtype=torch.long)
    cross_entropy = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), answers.flatten(), reduction="none"
    ).reshape(weights.shape)
    masked_lm = (cross_entropy * weights).sum() / weights.sum()
    # What was drawn is ours: everything that follows from it is theirs.
    ids, labels = masked.clone(), torch.zeros(masked.shape)
    for row, column in zip(*np.nonzero(batch["masked_lm_weights"]), strict=True):
        place = places[row, column]
        ids[row, place] = int(drawn[row, column])
        labels[row, place] = float(drawn[row, column] != batch["masked_lm_ids"][row, column])
    assert 0 < labels.sum()
    mask = torch.tensor(batch["input_mask"], dtype=torch.float32)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(
        theirs[1](ids, **inputs).logits, labels, reduction="none"
    )
    replaced_token = (entropy * mask).sum() / mask.sum()
    (masked_lm + 50.0 * replaced_token).backward()

    np.testing.assert_allclose(losses["masked_lm"], masked_lm.item(), **ORACLE)
    np.testing.assert_allclose(losses["replaced_token"], replaced_token.item(), **ORACLE)
    gradients = [dict(one.named_parameters()) for one in theirs]
    expected = {
        path: gradients[0][name].grad + gradients[1][name].grad for path, name in SHARED.items()
    } | {path: gradients[0][name].grad for path, name in OWN.items()}
    for path, value in expected.items():
        # Of the size of the largest: 50 times the loss of 27 places goes into each.
        scale = float(value.abs().max())
        np.testing.assert_allclose(
            tf.convert_to_tensor(found[path]) / scale, value / scale, **ORACLE, err_msg=path
        )
