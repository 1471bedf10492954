"""Gradients of distillation against PyTorch, on models of transformers and its own losses."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.models import preset
from tests.pretraining.test_distilled_pretraining import WEIGHTS, pair
from tests.pretraining.test_electra import batch_of
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

# Paths of ours -> names of theirs, of variables that stand before, between and behind the losses.
NAMES = {
    "word_embeddings/embeddings": "bert.embeddings.word_embeddings.weight",
    "embeddings/layer_norm/gamma": "bert.embeddings.LayerNorm.weight",
    "layer_0/intermediate/bias": "bert.encoder.layer.0.intermediate.dense.bias",
    "layer_0/feed_forward_norm/beta": "bert.encoder.layer.0.output.LayerNorm.bias",
    "layer_1/intermediate/bias": "bert.encoder.layer.1.intermediate.dense.bias",
    "layer_1/feed_forward_norm/beta": "bert.encoder.layer.1.output.LayerNorm.bias",
    "masked_lm_transform/dense/bias": "cls.predictions.transform.dense.bias",
}

LAYERS = (2, 0)  # of the teacher, for those of the student


def test_gradients_are_those_of_torch(tmp_path):
    import torch
    import transformers

    objective, model = pair(teacher_layers=tuple(map(str, LAYERS)))
    batch = batch_of(3)
    tensors = {name: tf.constant(value) for name, value in batch.items()}
    counts = objective.counts(tensors)
    with tf.GradientTape() as tape:
        sums = objective.sums(model, tensors, training=False)
        loss = sum(
            scale * sums[name].loss / counts[name] for name, scale in objective.scales.items()
        )
    variables = {weight.path: weight.value for weight in model.trainable_variables}
    found = tape.gradient(loss, variables)

    theirs = []
    for name, one in (("student", model), ("teacher", model.teacher.model)):
        source = preset.as_checkpoint(one)
        folder = tmp_path / name
        folder.mkdir()
        arrays = {path: v for path, v in source.variables.items() if "projection" not in path}
        checkpoints.write(
            Checkpoint(one.config, "BertMaskedLM", {}, arrays, source.report), folder, "hf"
        )
        theirs.append(transformers.BertForMaskedLM.from_pretrained(folder).eval())
    student, teacher = theirs
    projections = {
        name: torch.tensor(layer.kernel.numpy(), requires_grad=True)
        for name, layer in model.projections.items()
    }
    inputs = {
        "input_ids": torch.tensor(batch["input_ids"], dtype=torch.long),
        "attention_mask": torch.tensor(batch["input_mask"], dtype=torch.long),
        "token_type_ids": torch.tensor(batch["segment_ids"], dtype=torch.long),
    }
    own = student(**inputs, output_hidden_states=True)
    with torch.no_grad():
        told = teacher(**inputs, output_hidden_states=True)
        his_scores = [scores(teacher, told.hidden_states, layer) for layer in LAYERS]
    own_scores = [scores(student, own.hidden_states, layer) for layer in range(len(LAYERS))]
    counted = torch.tensor(batch["masked_lm_weights"]) > 0
    rows = torch.arange(3)[:, None]
    places = torch.tensor(batch["masked_lm_positions"], dtype=torch.long)
    ours, expected = (one.logits[rows, places][counted] for one in (own, told))
    real = inputs["attention_mask"] > 0
    functional = torch.nn.functional
    projected = [(states @ projections["hidden_state"])[real] for states in own.hidden_states]
    expected_states = [states[real] for states in told.hidden_states]
    first = (own.hidden_states[0] @ projections["embedding"])[real]
    answers = torch.tensor(batch["masked_lm_ids"], dtype=torch.long)[counted]
    # Rows differ in length: the mean over the keys of each query, then over the queries.
    attention = sum(
        torch.cat(
            [
                ((one - other)[row, :, :length, :length] ** 2).mean(dim=(0, 2))
                for row, length in enumerate(real.sum(-1))
            ]
        ).mean()
        for one, other in zip(own_scores, his_scores, strict=True)
    )
    losses = {
        "soft_target_weight": 9
        * functional.kl_div(
            functional.log_softmax(ours / 3, -1),
            functional.softmax(expected / 3, -1),
            reduction="batchmean",
        ),
        "masked_lm_weight": functional.cross_entropy(ours, answers),
        "cosine_weight": functional.cosine_embedding_loss(
            projected[-1], expected_states[-1], torch.ones(len(first))
        ),
        "hidden_state_weight": sum(
            functional.mse_loss(projected[index + 1], expected_states[layer + 1])
            for index, layer in enumerate(LAYERS)
        ),
        "attention_weight": attention,
        "embedding_weight": functional.mse_loss(first, expected_states[0]),
    }
    total = sum(WEIGHTS[name] * value for name, value in losses.items())
    total.backward()

    np.testing.assert_allclose(loss, total.item(), **ORACLE)
    parameters = dict(student.named_parameters())
    gradients = {path: parameters[name].grad for path, name in NAMES.items()}
    gradients |= {f"{name}_projection/kernel": k.grad for name, k in projections.items()}
    for layer in range(len(LAYERS)):
        kernels = [
            parameters[f"bert.encoder.layer.{layer}.attention.self.{part}.weight"].grad.T
            for part in ("query", "key", "value")
        ]
        gradients[f"layer_{layer}/attention/query_key_value/kernel"] = torch.cat(kernels, dim=1)
    for path, value in gradients.items():
        scale = float(value.abs().max())
        np.testing.assert_allclose(
            tf.convert_to_tensor(found[path]) / scale, value / scale, **ORACLE, err_msg=path
        )


def scores(model, hidden_states, layer):
    """Scores before the softmax, [B, A, S, S], by the layers of transformers."""
    attention = model.bert.encoder.layer[layer].attention.self
    hidden = hidden_states[layer]
    shape = (*hidden.shape[:2], attention.num_attention_heads, -1)
    query, key = (
        projection(hidden).view(shape).transpose(1, 2)
        for projection in (attention.query, attention.key)
    )
    return query @ key.transpose(-1, -2) / attention.attention_head_size**0.5
