"""Multilingual BERT, XLM-R, CamemBERT and Multilingual-MiniLM as published, in thirteen scripts.

Oracle: transformers' model of the same folder; ids are those of its BertTokenizerFast and its
CamembertTokenizer, and of XLM-R's tokenizer those of the sentencepiece library in fairseq's order.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from keras_bert import load_model, load_preprocessor, train_sentencepiece
from keras_bert.models.preset import read_config
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from tests import command_process
from tests.checkpoints.test_family_folders_oracle import their_model
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

# Latin with and without marks, Greek, Cyrillic, Georgian, Armenian, Hebrew, Arabic, Persian,
# Devanagari, Tamil, Thai, Chinese, Japanese and Korean.
TEXTS = [
    *("The packages are free.", "Über Größe läßt sich streiten.", "Việt Nam có nhiều gói phần mềm"),
    *("Το σύστημα είναι ελεύθερο.", "Пакеты свободны, Ёлка!", "პროგრამა თავისუფალია"),
    *("Ծրագիրը ազատ է։", "התוכנה היא חופשית", "البرنامج حُرّ،", "نرم‌افزار آزاد است"),
    *(
        "सॉफ़्टवेयर मुक्त है।",
        "மென்பொருள் இலவசம்",
        "ซอฟต์แวร์เสรี",
        "自由软件，很好",
        "自由なソフト",
        "자유 소프트웨어",
    ),
]
LENGTH = 64
TOOL = Path(__file__).parents[2] / "tools" / "convert_checkpoint.py"


def multilingual_bert(folder):
    """A cased BERT; returns it and the ids of all texts. Accents stay, ideographs stand apart."""
    import transformers

    letters = sorted({letter for text in TEXTS for letter in text if not letter.isspace()})
    # Without a few letters, so that some words are unknown; and two that only whole words have.
    pieces = [*letters[::2], *letters[1::4], *(f"##{letter}" for letter in letters), "Über", "자유"]
    tokens = [*SPECIAL_TOKENS, *pieces]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    tokenizer = transformers.BertTokenizerFast(
        vocab={token: index for index, token in enumerate(tokens)}, do_lower_case=False
    )
    ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    assert sum(tokenizer.unk_token_id in row for row in ids) > 3
    tokenizer.save_pretrained(folder)
    return their_model("bert", len(tokens)), ids


def xlm_roberta_tokenizer(folder, **stored):
    """Writes XLM-R's tokenizer; returns the number of its pieces and the ids of all texts."""
    import sentencepiece

    files = train_sentencepiece(TEXTS * 20, 400, "xlm_roberta")
    (folder / "sentencepiece.bpe.model").write_bytes(files.model)
    (folder / "tokenizer_config.json").write_text(json.dumps(stored))
    processor = sentencepiece.SentencePieceProcessor(model_proto=files.model)
    # <s> is 0, </s> 2, <unk> 3; the piece i of the model is i + 1.
    ids = [[0, *(i + 1 if i else 3 for i in processor.encode(text)), 2] for text in TEXTS]
    return len(files.vocabulary), ids


def xlm_roberta(folder):
    """An XLM-R; returns it and the ids of all texts."""
    vocab_size, ids = xlm_roberta_tokenizer(folder, tokenizer_class="XLMRobertaTokenizer")
    return their_model("xlm-roberta", vocab_size), ids


def camembert(folder):
    """A CamemBERT with transformers' own tokenizer, which leaves tokenizer.json alone."""
    import transformers
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(train_sentencepiece(TEXTS * 20, 400, "xlm_roberta").model)
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    first = [(name, 0.0) for name in ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>")]
    vocab = [*first, ("<unk>NOTUSED", -100.0), *pieces[1:], ("<mask>", 0.0)]
    table = proto.normalizer_spec.precompiled_charsmap
    tokenizer = transformers.CamembertTokenizer(vocab=vocab, _spm_precompiled_charsmap=table)
    tokenizer.save_pretrained(folder)
    assert not (folder / "sentencepiece.bpe.model").exists()
    return their_model("camembert", len(vocab)), [tokenizer(text)["input_ids"] for text in TEXTS]


def multilingual_minilm(folder):
    """A BERT with XLM-R's tokenizer, as Multilingual-MiniLM and multilingual-e5-small.

    The published ones have 250,037 rows for 250,002 pieces.
    """
    # paraphrase-multilingual-MiniLM says so, but XLM-R's tokenizer keeps upper case.
    stored = {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True}
    vocab_size, ids = xlm_roberta_tokenizer(folder, **stored)
    return their_model("bert", vocab_size + 9), ids


@pytest.mark.parametrize("make", [multilingual_bert, xlm_roberta, camembert, multilingual_minilm])
def test_it_reads_every_script_and_goes_back(make, tmp_path):
    import safetensors.numpy
    import torch

    source = tmp_path / "source"
    source.mkdir()
    theirs, ids = make(source)
    theirs.save_pretrained(source)
    rows = [torch.tensor([row]) for row in ids]
    with torch.no_grad():
        expected = np.concatenate([theirs(input_ids=row).logits.numpy() for row in rows])

    ours, back = tmp_path / "ours", tmp_path / "back"
    for origin, target, written_as in ((source, ours, "keras"), (ours, back, "hf")):
        flags = [f"--from={origin}", f"--to={target}", f"--format={written_as}"]
        done = command_process.run([TOOL, *flags])
        assert done.returncode == 0, done.stderr
    for folder in (source, ours, back):
        load_tokenizer(folder).vocabulary.check_size(read_config(folder).vocab_size)
        features = load_preprocessor(folder, max_seq_length=LENGTH)(TEXTS)
        lengths = features["input_mask"].numpy().sum(axis=1)
        read = [
            row[:length].tolist()
            for row, length in zip(features["input_ids"].numpy(), lengths, strict=True)
        ]
        assert read == ids
        np.testing.assert_allclose(load_model(folder)(features), expected, **ORACLE)
    written, first = (
        safetensors.numpy.load_file(path / "model.safetensors") for path in (back, source)
    )
    for name, values in first.items():
        np.testing.assert_array_equal(written[name], values, err_msg=name)
