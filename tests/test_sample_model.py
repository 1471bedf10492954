"""The sample model knows some English, and other libraries open it."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertMaskedLM, BertPreprocessor, BertTokenizer, fill_mask
from tests.tolerances import ORACLE

TOOLS = Path(__file__).parents[1] / "tools"
SAMPLE_MODEL = TOOLS / "sample_model"
HIDDEN = range(5, 60, 7)  # positions: one piece in seven


@pytest.fixture(scope="module")
def model():
    return BertMaskedLM.from_preset(SAMPLE_MODEL, dtype="float32")


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer.from_preset(SAMPLE_MODEL, keep_special_tokens=True)


@pytest.fixture(scope="module")
def inputs(tokenizer):
    """Beginnings of 128 paragraphs of Persuasion, which the model has not read."""
    with gzip.open(TOOLS / "sample_data" / "austen.txt.gz", "rt", encoding="utf-8") as file:
        novel = file.read()
    paragraphs = novel[novel.index("Sir Walter Elliot, of Kellynch Hall") :].split("\n")
    chosen = [paragraph for paragraph in paragraphs if len(paragraph) > 400][:128]
    made = {k: np.array(v) for k, v in BertPreprocessor(tokenizer, 64)(chosen).items()}
    assert made["input_mask"].all()
    return made | {"masked_lm_positions": np.tile(np.array(HIDDEN, np.int32), (len(chosen), 1))}


def test_it_finds_hidden_words(model, tokenizer, inputs):
    hidden = inputs["input_ids"][:, HIDDEN]  # [128, 8]
    ids = inputs["input_ids"].copy()
    ids[:, HIDDEN] = tokenizer.vocabulary.mask_id
    guesses = np.argmax(model(inputs | {"input_ids": ids}), axis=-1)  # [128, 8]
    always = np.bincount(hidden.ravel()).max() / hidden.size  # the most frequent piece
    assert always < 0.1
    assert np.mean(guesses == hidden) > 0.24  # 0.264 measured


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("The [MASK] of the function is returned as a string .", "value"),
        ("There could be [MASK] doubt of it .", "no"),
        ("And Jesus [MASK] unto them , Verily I say unto you .", "said"),
    ],
)
def test_its_guesses_make_sense(model, tokenizer, text, word):
    [guesses] = fill_mask(model, tokenizer, text, top=5)
    assert word in [guess.piece for guess in guesses]


@pytest.mark.oracle
def test_transformers_opens_it(model, inputs):
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    part = {name: values[:4] for name, values in inputs.items()}
    theirs = AutoModelForMaskedLM.from_pretrained(SAMPLE_MODEL, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = theirs(
            input_ids=torch.tensor(part["input_ids"], dtype=torch.long),
            token_type_ids=torch.tensor(part["segment_ids"], dtype=torch.long),
        ).logits.numpy()
    np.testing.assert_allclose(model(part), logits[:, HIDDEN], **ORACLE)
    text = "Naïve readers don't know Kellynch-hall."
    preprocess = BertPreprocessor(BertTokenizer.from_preset(SAMPLE_MODEL), 32, pad_to="longest")
    ids = AutoTokenizer.from_pretrained(SAMPLE_MODEL)(text)["input_ids"]
    assert preprocess([text])["input_ids"].numpy().tolist() == [ids]
