"""Scores of pairs: those of `CrossEncoder.predict`, from its own folders and from ours."""

import numpy as np
import pytest

from keras_bert import BertTokenizer, CrossEncoder
from keras_bert.checkpoints import hugging_face
from keras_bert.models import preset
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.signatures.tiny_models import MAX_SEQ_LENGTH, PIECES, random_texts
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

# Of a pair that is too long the longer text is cut on both sides. Where both texts have more than
# half of the row, theirs leaves the odd piece to the longer one and BERT's own rule to the first.
QUERIES = ["the film", "ab d's", "!?", "Zo\u00eb", "\u4e2d\u4e2d (e)", ""]
PAIRS = [*zip(QUERIES * 5, random_texts(29, seed=3, longest=60), strict=True)]


def published(folder, num_labels):
    """Writes a cross-encoder as its authors do."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(SPECIAL_TOKENS) + len(PIECES),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=MAX_SEQ_LENGTH,
        initializer_range=0.6,
        num_labels=num_labels,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *PIECES])).save(folder)
    return folder


def logits_of_theirs(folder):
    import sentence_transformers
    import torch

    model = sentence_transformers.CrossEncoder(str(folder), device="cpu")
    return np.array(model.predict(PAIRS, activation_fn=torch.nn.Identity()))


@pytest.mark.parametrize(("num_labels", "max_length"), [(1, None), (1, 16), (2, None)])
def test_their_folders(num_labels, max_length, tmp_path):
    import sentence_transformers

    folder = published(tmp_path / "published", num_labels)
    model = sentence_transformers.CrossEncoder(str(folder), device="cpu", max_length=max_length)
    model.save_pretrained(str(tmp_path / "saved"))
    expected = logits_of_theirs(tmp_path / "saved")
    if num_labels == 2:
        expected = expected[:, 1] - expected[:, 0]
    assert np.ptp(expected) > 0.5
    for path in (tmp_path / "saved", *([folder] if max_length is None else [])):
        found = CrossEncoder.from_preset(path).scores(*map(list, zip(*PAIRS, strict=True)))
        np.testing.assert_allclose(found, expected, **ORACLE)


def test_our_choices_as_theirs(model_folder, tmp_path):
    folder = model_folder("choices")
    (tmp_path / "theirs").mkdir()
    hugging_face.write(preset.read_checkpoint(folder), tmp_path / "theirs")
    BertTokenizer.from_preset(folder).save(tmp_path / "theirs")
    expected = logits_of_theirs(tmp_path / "theirs")
    found = CrossEncoder.from_preset(folder).scores(*map(list, zip(*PAIRS, strict=True)))
    np.testing.assert_allclose(found, expected, **ORACLE)
