"""Ids of SentencePiece equal those of its library; offsets lead to what became a piece."""

import base64
import dataclasses
import json
import unicodedata

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor, SentencePieceTokenizer, load_tokenizer
from keras_bert.text.sentencepiece.training import train_sentencepiece
from keras_bert.text.tokenizer_files import read_named_file, read_tokenizer_files
from tests.markers import some_fast
from tests.text.family_tokenizers import fuzzed_texts, golden_texts, sentencepiece_files

SCHEMES = ["albert", "xlm_roberta", "deberta"]


def made(scheme, **settings):
    return SentencePieceTokenizer(sentencepiece_files(scheme).model, scheme, **settings)


def check_against_the_library(scheme, texts, keep):
    import sentencepiece

    tokenizer = made(scheme, keep_special_tokens=keep)
    ids, starts, ends = (part.to_list() for part in tokenizer.tokenize_with_offsets(texts))
    for text, start, end in zip(texts, starts, ends, strict=True):
        assert all(0 <= a <= b <= len(text) for a, b in zip(start, end, strict=True)), repr(text)
    # What the workers of data creation use.
    files = sentencepiece_files(scheme)
    settings = files.settings._replace(keep_special_tokens=keep)
    found, sizes = dataclasses.replace(files, settings=settings).texts_to_ids()(texts)
    rows = [row.tolist() for row in np.split(found, np.cumsum(sizes)[:-1])]
    check_rows(texts, ids, rows)
    if scheme != "albert" and not keep:
        processor = sentencepiece.SentencePieceProcessor(model_proto=files.model)
        expected = processor.encode(texts)
        # fairseq's ids: <unk> is 3, pieces are one higher, in CamemBERT four.
        if higher := {"xlm_roberta": 1, "camembert": 4}.get(scheme):
            expected = [[i + higher if i else 3 for i in row] for row in expected]
        check_rows(texts, ids, expected)


def check_rows(texts, ids, expected, most_ties=0):
    """The same pieces in the same order, but for ties.

    A unigram model takes the pieces of the highest sum. Where a word has the same pieces in two
    orders ("/pp" as "/p p" and "p /p"), the sums differ by the rounding of float32, and the version
    of the library inside tf.text may take the other: one text of the 10,400 does so.
    """
    ties = 0
    for text, own, other in zip(texts, ids, expected, strict=True):
        assert sorted(own) == sorted(other), repr(text)
        ties += own != other
    assert ties <= max(most_ties, len(texts) // 1000)


@pytest.mark.parametrize(
    "scheme, keep",
    [
        ("albert", True),
        ("xlm_roberta", False),
        ("camembert", False),
        ("deberta", False),
        ("deberta", True),
        pytest.param("albert", False, marks=pytest.mark.slow),
        pytest.param("xlm_roberta", True, marks=pytest.mark.slow),
        pytest.param("camembert", True, marks=pytest.mark.slow),
    ],
)
def test_ids_of_the_library(scheme, keep):
    check_against_the_library(scheme, golden_texts()[:60] + fuzzed_texts(300), keep)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("keep", [False, True])
def test_thousands_of_strings(scheme, keep):
    check_against_the_library(scheme, golden_texts() + fuzzed_texts(8000, seed=2), keep)


@pytest.mark.oracle
@pytest.mark.slow
def test_alberts_preparation_is_that_of_transformers():
    from tokenizers import normalizers

    from keras_bert.text.sentencepiece.preparation import prepare_text

    # The normalizers of AlbertTokenizer in transformers 5, before the model's own.
    oracle = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
        ]
    )
    # Every character. The library decomposes by an older Unicode than 14, where 380 characters are
    # unassigned or of another category, and lower-cases by a later one.
    everything = (chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000)
    unknown = {
        character
        for character in everything
        if prepare_text(character, "albert", True, False) != oracle.normalize_str(character)
    }
    assert len(unknown) < 450
    for text in golden_texts() + fuzzed_texts(2000)[:2000]:
        text = "".join(character for character in text if character not in unknown)
        assert prepare_text(text, "albert", True, False) == oracle.normalize_str(text), repr(text)


def test_special_tokens_have_the_ids_of_their_families():
    vocabulary = made("xlm_roberta").vocabulary
    assert vocabulary.special_ids == (1, 3, 0, 2, len(vocabulary) - 1)
    # As transformers 4 counts: four entries of fairseq's, then all of the model, from its <unk> on.
    vocabulary = made("camembert").vocabulary
    assert vocabulary.special_ids == (1, 3, 5, 6, len(vocabulary) - 1)
    assert vocabulary.tokens[7:] == made("xlm_roberta").vocabulary.tokens[4:]
    assert made("albert").vocabulary.special_ids == (0, 1, 2, 3, 4)
    vocabulary = made("deberta").vocabulary
    assert vocabulary.special_ids == (0, 3, 1, 2, len(vocabulary) - 1)
    assert vocabulary.tokens[-1] == "[MASK]"


def test_a_seed_does_not_take_the_model_away():
    tokenizer = made("albert")
    expected = tokenizer(["one text"]).to_list()
    keras.utils.set_random_seed(1)
    assert tokenizer(["one text"]).to_list() == expected
    size = len(tokenizer.vocabulary)
    assert tokenizer.detokenize([[size - 1]]).shape == [1]
    with pytest.raises(ValueError, match=f"^{size} is no id of a piece: the vocabulary has"):
        tokenizer.detokenize([[size]])


def test_offsets_by_hand():
    tokenizer = made("albert", keep_special_tokens=True)
    text = "The ``café'' is  [MASK] ½"
    ids, starts, ends = (part.to_list()[0] for part in tokenizer.tokenize_with_offsets([text]))
    spans = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    assert spans[0].startswith("T") and "``" in spans and "''" in spans
    # White space belongs to no piece, and everything else to one.
    covered = {i for start, end in zip(starts, ends, strict=True) for i in range(start, end)}
    assert covered == {i for i, character in enumerate(text) if character != " "}
    assert ids[spans.index("[MASK]")] == tokenizer.vocabulary.mask_id
    assert spans[-1] == "½"  # all of 1, fraction slash and 2 stand for it


@pytest.mark.parametrize("scheme", some_fast(SCHEMES, ("albert", "deberta")))
def test_graphs_folders_and_configs(scheme, tmp_path):
    tokenizer = made(scheme)
    texts = golden_texts()[:10] + fuzzed_texts(20)
    expected = tokenizer(texts).to_list()
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(16).map(tokenizer)
    assert [row for batch in dataset for row in batch.to_list()] == expected
    tokenizer.save(tmp_path)
    opened = load_tokenizer(tmp_path)
    assert isinstance(opened, SentencePieceTokenizer)
    assert opened.settings == tokenizer.settings
    assert set(opened.submodules) == set(tokenizer.submodules)  # equal ones have one graph
    layer = BertPreprocessor(opened, 16)
    again = BertPreprocessor.from_config(layer.get_config())
    assert again(texts)["input_ids"].numpy().tolist() == layer(texts)["input_ids"].numpy().tolist()


def test_what_is_no_model_is_told(tmp_path):
    with pytest.raises(ValueError, match="no SentencePiece model"):
        SentencePieceTokenizer(b"no model")
    with pytest.raises(ValueError, match="the SentencePiece model is a str: give the bytes of the"):
        SentencePieceTokenizer(str(tmp_path / "spiece.model"))
    with pytest.raises(ValueError, match="begins with <pad>, <unk>, .* one of XLM-R's kind with"):
        SentencePieceTokenizer(sentencepiece_files("albert").model, "xlm_roberta")
    with pytest.raises(ValueError, match=r"one of DeBERTa's kind with \[PAD\], \[CLS\], \[SEP\]"):
        SentencePieceTokenizer(sentencepiece_files("albert").model, "deberta")
    sentencepiece_files("deberta").save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text()) | {"split_by_punct": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="split_by_punct is True: to divide texts at"):
        load_tokenizer(tmp_path)
    (tmp_path / "spm.model").unlink()
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "AlbertTokenizer"}')
    with pytest.raises(FileNotFoundError, match="spiece.model"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')
    with pytest.raises(ValueError, match="T5Tokenizer"):
        load_tokenizer(tmp_path)


@pytest.mark.oracle
def test_a_deberta_has_the_ids_of_the_tokenizer_of_transformers(tmp_path):
    """Oracle: what transformers converts spm.model to, as tokenizer.json was published with it.

    Its classes of version 5 leave out how the model normalizes (NFKC); texts that this does not
    change have the same ids there.
    """
    import transformers
    from transformers.convert_slow_tokenizer import DebertaV2Converter

    class Settings:
        vocab_file = tmp_path / "spm.model"
        do_lower_case = True
        split_by_punct = False
        add_prefix_space = True
        convert_tokens_to_ids = staticmethod(["[PAD]", "[CLS]", "[SEP]"].index)

    tokenizer = made("deberta", lowercase=True, keep_special_tokens=True)
    tokenizer.save(tmp_path)
    theirs = DebertaV2Converter(Settings()).converted()
    theirs.add_special_tokens(list(tokenizer.vocabulary.special_tokens))
    # Left out: texts with control and unassigned characters, which its older Unicode treats
    # otherwise, and with U+2581, which stands for a space inside of the model.
    texts = [
        text
        for text in [*golden_texts()[:300], *fuzzed_texts(500), " a  [MASK] b[SEP]c ", "x 12,5 ½"]
        if not any(unicodedata.category(c)[0] == "C" or c in "\u2581\ufffd" for c in text)
    ]
    assert len(texts) > 400
    expected = [theirs.encode(text, add_special_tokens=False).ids for text in texts]
    check_rows(texts, tokenizer(texts).to_list(), expected, most_ties=1)
    pair = BertPreprocessor(tokenizer, 32)((["One text"], ["and another"]))
    framed = theirs.encode("One text", "and another")
    rows = {name: value.numpy()[0, : len(framed.ids)].tolist() for name, value in pair.items()}
    assert (rows["input_ids"], rows["segment_ids"]) == (framed.ids, framed.type_ids)
    assert pair["input_mask"].numpy().sum() == len(framed.ids)
    # The folder that was written opens there with the same special tokens and rows.
    opened = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(opened).__name__ == "DebertaV2Tokenizer"
    assert opened.mask_token_id == tokenizer.vocabulary.mask_id
    found = opened("One text", "and another")
    assert found["input_ids"] == framed.ids
    assert found["token_type_ids"] == framed.type_ids


def test_an_added_mask_has_the_id_behind_the_pieces(tmp_path):
    train_sentencepiece(["home is home", "is it home"], 30, scheme="deberta").save(tmp_path)
    mask = len(load_tokenizer(tmp_path).vocabulary) - 1
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[MASK]": mask}))
    assert load_tokenizer(tmp_path).vocabulary.mask_id == mask
    (tmp_path / "added_tokens.json").write_text('{"[MASK]": 128000}')
    with pytest.raises(ValueError, match=rf"\[MASK\] has the id 128000, but {mask} with the pi"):
        load_tokenizer(tmp_path)


def unigram_json(files, **changes):
    """A tokenizer.json as published ones of XLM-R's kind are, made of a model by the library."""
    import sentencepiece.sentencepiece_model_pb2 as messages

    model = messages.ModelProto.FromString(files.model)
    table = base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    pieces = [[piece.piece, piece.score] for piece in model.pieces[3:]]
    first = [[token, 0.0] for token in ("<s>", "<pad>", "</s>", "<unk>")]
    vocab = [*first, *pieces, ["<mask>", 0.0]]
    row = [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]
    end = {"SpecialToken": {"id": "</s>"}}
    pair = [*row, end, end, {"Sequence": {"id": "B"}}, end]
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True}
    return {
        "added_tokens": [{"id": len(vocab) - 1, "content": "<mask>", "lstrip": True}],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": table},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLIT, metaspace]},
        "post_processor": {"type": "TemplateProcessing", "single": [*row, end], "pair": pair},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab},
    } | changes


SPLIT = {"type": "WhitespaceSplit"}


@pytest.mark.parametrize("named", [True, False])
def test_a_model_is_read_out_of_a_tokenizer_json(named, tmp_path):
    """As gte-multilingual-base is published; the ids are those of the model that it was made of."""
    files = sentencepiece_files("xlm_roberta")
    (tmp_path / "tokenizer.json").write_text(json.dumps(unigram_json(files)))
    kind = {"tokenizer_class": "XLMRobertaTokenizer" if named else "PreTrainedTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(kind))
    texts = golden_texts()[:200] + fuzzed_texts(400, seed=3)
    tokenizer = load_tokenizer(tmp_path)
    expected = SentencePieceTokenizer(files.model, "xlm_roberta")
    assert tokenizer.vocabulary == expected.vocabulary
    assert tokenizer(texts).to_list() == expected(texts).to_list()
    tokenizer.save(tmp_path / "saved")
    again = (tmp_path / "saved" / "sentencepiece.bpe.model").read_bytes()
    import sentencepiece

    left, right = (
        sentencepiece.SentencePieceProcessor(model_proto=model) for model in (again, files.model)
    )
    assert left.encode(texts) == right.encode(texts)
    # The model file counts where both are there, unless the other is named.
    other = train_sentencepiece(["home is home", "is it home"], 30, "xlm_roberta")
    (tmp_path / "sentencepiece.bpe.model").write_bytes(other.model)
    assert read_tokenizer_files(tmp_path).vocabulary == other.vocabulary
    assert read_named_file(tmp_path / "tokenizer.json").vocabulary == expected.vocabulary


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model", {"type": "Unigram", "vocab": [["<s>"]]}, "is damaged: vocab is no list of piec"),
        (
            "model",
            {"type": "Unigram", "unk_id": 3, "vocab": [["<pad>", 0.0], ["a", 1.0]]},
            "the pieces begin with <pad>, a and end with a: those of XLM-R's kind begin with <s>, ",
        ),
        ("pre_tokenizer", SPLIT, "pre_tokenizer is .*: Metaspace with a blank before the text is"),
        ("post_processor", None, "post_processor makes other rows than <s> A </s> and <s> A </s>"),
        ("normalizer", {"type": "NFKC"}, "normalizer has .*'NFKC'.*: a Precompiled table of char"),
        (
            "normalizer",
            {"type": "Precompiled", "precompiled_charsmap": "?"},
            "is damaged: precompiled_charsmap is no base 64",
        ),
        (
            "added_tokens",
            [{"id": 7, "content": "<user>"}],
            "<user>",
        ),
    ],
)
def test_a_tokenizer_json_of_another_kind_is_refused(key, value, message, tmp_path):
    stored = unigram_json(sentencepiece_files("xlm_roberta"), **{key: value})
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizer"}')
    with pytest.raises(ValueError, match=message):
        read_tokenizer_files(tmp_path)
