"""Integrated gradients beside those that PyTorch takes of the same model of transformers."""

import numpy as np
import pytest

from keras_bert.text.vocabulary import SPECIAL_TOKENS
from keras_bert.visualize.attributions.view import Explainer
from tests.signatures.tiny_models import PIECES

pytestmark = pytest.mark.oracle
POINTS = 400


def classifier(outputs):
    return outputs.logits[:, 1]


def tagger(outputs):
    return outputs.logits[:, 2, 1]


def answer(outputs):
    return outputs.start_logits[:, 4] + outputs.end_logits[:, 5]


def masked_word(outputs):
    return outputs.logits[:, 2, len(SPECIAL_TOKENS)]


# Class of transformers, what is asked of ours, and the same logit of theirs.
KINDS = {
    "BertForSequenceClassification": (("film abc x",), {"target": 1}, classifier),
    "BertForTokenClassification": (
        ("film abc x",),
        {"target": 1, "position": "abc"},
        tagger,
    ),
    "BertForQuestionAnswering": (("film a", "the x y"), {"target": "the x"}, answer),
    "BertForMaskedLM": (("film [MASK] x abc",), {"target": "a"}, masked_word),
}


@pytest.mark.parametrize("name", KINDS)
def test_scores_are_those_of_pytorch(name, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    texts, arguments, logit = KINDS[name]
    torch.manual_seed(3)
    tokens = [*SPECIAL_TOKENS, *PIECES]
    config = transformers.BertConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
        initializer_range=0.4,
        num_labels=2,
    )
    model = getattr(transformers, name)(config).eval()
    model.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")

    view = Explainer(tmp_path)(*texts, **arguments, tolerance=1e-4)

    ids = torch.tensor([[tokens.index(token.piece) for token in view.tokens]])
    segments = torch.tensor([[token.segment for token in view.tokens]])
    special = torch.tensor([[token.is_special for token in view.tokens]])
    table = model.get_input_embeddings().weight.detach()
    whole, baseline = table[ids], table[torch.where(special, ids, tokens.index("[MASK]"))]
    steps = (torch.arange(POINTS) + 0.5)[:, None, None] / POINTS  # midpoints, not Gauss's
    points = (baseline + steps * (whole - baseline)).requires_grad_()
    found = logit(model(inputs_embeds=points, token_type_ids=segments.expand(POINTS, -1)))
    [gradients] = torch.autograd.grad(found.sum(), points)
    expected = ((whole - baseline) * gradients.mean(dim=0)).sum(dim=-1)[0].numpy()

    # The sums of 400 midpoints and of Gauss's points differ in the fourth digit.
    np.testing.assert_allclose(view.scores, expected, rtol=2e-3, atol=2e-3)
    assert np.abs(expected).max() > 0.05
