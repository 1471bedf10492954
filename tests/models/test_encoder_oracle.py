"""Activations against transformers' BertModel with the same random weights."""

import numpy as np
import pytest

from keras_bert import BertEncoder
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize(
    ("activation", "their_name"),
    [("gelu", "gelu"), ("gelu_tanh", "gelu_new"), ("relu", "relu"), ("silu", "silu")],
)
def test_activations_equal_transformers(activation, their_name, tmp_path):
    import torch
    import transformers

    torch.manual_seed(0)
    theirs = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=57,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=48,
            max_position_embeddings=20,
            type_vocab_size=3,
            hidden_act=their_name,
            layer_norm_eps=1e-6,
            initializer_range=0.3,
            attn_implementation="eager",
        )
    ).eval()
    theirs.save_pretrained(tmp_path)
    encoder = BertEncoder.from_preset(
        tmp_path, output_hidden_states=True, output_attention_probs=True
    )
    assert encoder.config.hidden_act == activation
    assert encoder.config.layer_norm_eps == 1e-6

    random = np.random.default_rng(1)
    ids, segments = random.integers(0, 57, (3, 17)), random.integers(0, 3, (3, 17))
    mask = (np.arange(17) < np.array([[17], [9], [1]])).astype(int)
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            token_type_ids=torch.tensor(segments),
            output_hidden_states=True,
            output_attentions=True,
        )
    outputs = encoder({"input_ids": ids, "input_mask": mask, "segment_ids": segments})
    np.testing.assert_allclose(outputs["pooled_output"], expected.pooler_output, **ORACLE)
    # What stands at padding positions is of no meaning, and not the same in both.
    real = mask[..., None] == 1
    for ours, hidden in zip(outputs["hidden_states"], expected.hidden_states, strict=True):
        np.testing.assert_allclose(ours * real, hidden.numpy() * real, **ORACLE)
    for ours, probs in zip(outputs["attention_probs"], expected.attentions, strict=True):
        rows = real[:, None]
        np.testing.assert_allclose(ours * rows, probs.numpy() * rows, **ORACLE)
