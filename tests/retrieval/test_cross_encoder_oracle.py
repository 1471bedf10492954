"""Scores of pairs: those of `CrossEncoder.predict`, from its own folders and from ours."""

import numpy as np
import pytest

from keras_bert import BertTokenizer, CrossEncoder
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.markers import some_long
from tests.signatures.tiny_models import MAX_SEQ_LENGTH, PIECES, random_texts
from tests.text.family_tokenizers import byte_level_files
from tests.tolerances import ORACLE
from tests.tools.test_convert_checkpoint import convert

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


def logits_of_theirs(folder, **arguments):
    import sentence_transformers
    import torch

    model = sentence_transformers.CrossEncoder(str(folder), device="cpu", **arguments)
    return np.array(model.predict(PAIRS, activation_fn=torch.nn.Identity()))


@pytest.mark.parametrize(
    ("num_labels", "saved"),
    [
        (1, {}),
        (1, {"max_length": 16}),
        (2, {"prompts": {"ask": "film: ", "no": "!"}, "default_prompt_name": "ask"}),
    ],
)
def test_their_folders(num_labels, saved, tmp_path):
    import sentence_transformers

    folder = published(tmp_path / "published", num_labels)
    model = sentence_transformers.CrossEncoder(str(folder), device="cpu", **saved)
    model.save_pretrained(str(tmp_path / "saved"))
    expected = logits_of_theirs(tmp_path / "saved")
    if num_labels == 2:
        expected = expected[:, 1] - expected[:, 0]
    assert np.ptp(expected) > 0.5
    for path in (tmp_path / "saved", *([] if saved else [folder])):
        found = CrossEncoder.from_preset(path).scores(*map(list, zip(*PAIRS, strict=True)))
        np.testing.assert_allclose(found, expected, **ORACLE)


def test_our_choices_as_theirs(model_folder, tmp_path):
    """As sentence-transformers gives them if it is told nothing."""
    import sentence_transformers

    folder = model_folder("choices")
    done = convert(**{"from": folder, "to": tmp_path / "theirs", "format": "hf"})
    assert done.returncode == 0, done.stderr
    model = sentence_transformers.CrossEncoder(str(tmp_path / "theirs"), device="cpu")
    expected = np.array(model.predict(PAIRS))
    assert np.abs(expected).max() > 1  # no probabilities
    found = CrossEncoder.from_preset(folder).scores(*map(list, zip(*PAIRS, strict=True)))
    np.testing.assert_allclose(found, expected, **ORACLE)


@pytest.mark.parametrize("family", some_long(["electra", "distilbert", "roberta"], ["roberta"]))
def test_their_folders_of_other_families(family, tmp_path):
    """Their heads differ: one layer more, a gelu, no pooler; RoBERTa has a tokenizer of its own."""
    import torch
    import transformers

    torch.manual_seed(4)
    if family == "roberta":
        files = byte_level_files()
        files.save(tmp_path)
        sizes = {"vocab_size": len(files.vocabulary), "type_vocab_size": 1, "pad_token_id": 1}
        sizes["max_position_embeddings"] = MAX_SEQ_LENGTH + 2
    else:
        tokenizer = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *PIECES]))
        tokenizer.save(tmp_path)
        sizes = {"vocab_size": len(tokenizer.vocabulary)}
        sizes["max_position_embeddings"] = MAX_SEQ_LENGTH
    if family == "distilbert":
        sizes |= {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    else:
        sizes |= {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
        sizes |= {"intermediate_size": 32}
    if family == "electra":
        sizes["embedding_size"] = 8
    config = transformers.AutoConfig.for_model(family, **sizes, initializer_range=0.3, num_labels=1)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    model.save_pretrained(tmp_path)
    # RoBERTa's two unused positions are more than they know of.
    expected = logits_of_theirs(tmp_path, max_length=MAX_SEQ_LENGTH)
    assert np.ptp(expected) > 0.5
    found = CrossEncoder.from_preset(tmp_path).scores(*map(list, zip(*PAIRS, strict=True)))
    np.testing.assert_allclose(found, expected, **ORACLE)
