"""A folder of transformers, tokenizer and weights, opened by one call and asked with strings.

Oracle: transformers' own tokenizer and model of the same folder. The vocabularies are learned from
the golden texts; for SentencePiece the ids are those of the sentencepiece library, framed here.
"""

import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    AlbertEncoder,
    BertEncoder,
    BertTokenizer,
    ExportOptions,
    MPNetEncoder,
    RobertaEncoder,
    Vocabulary,
    export_saved_model,
    load_encoder,
    load_model,
    load_preprocessor,
    load_tokenizer,
)
from keras_bert.text.framing import SpecialTokens
from keras_bert.text.tokenizer_files import read_tokenizer_files
from tests.markers import some_long
from tests.text.family_tokenizers import (
    byte_level_files,
    golden_texts,
    mpnet_files,
    sentencepiece_files,
)
from tests.text.modernbert_tokenizer import all_ids, modernbert_json, write_modernbert
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

LENGTH = 24
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "initializer_range": 0.4,
}
FAMILIES = ["roberta", "albert", "xlm-roberta", "mpnet", "deberta-v2"]
# Those with [CLS] and [SEP], and whose tokenizers give segments.
LIKE_BERT = ("albert", "deberta-v2")


def their_model(family, vocab_size, **changes):
    """A classifier with random weights and no zero biases."""
    import torch
    import transformers

    torch.manual_seed(0)
    fields = SIZES | {"vocab_size": vocab_size, "num_labels": 3}
    if family == "mpnet":
        fields |= {"max_position_embeddings": 66}
    elif family in ("roberta", "xlm-roberta", "camembert"):
        fields |= {"max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1}
    else:
        fields["max_position_embeddings"] = 64
    if family == "albert":
        fields |= {"embedding_size": 8, "classifier_dropout_prob": 0}
    names = {"bert": "Bert", "roberta": "Roberta", "albert": "Albert", "xlm-roberta": "XLMRoberta"}
    names |= {
        "camembert": "Camembert",
        "mpnet": "MPNet",
        "modernbert": "ModernBert",
        "deberta-v2": "DebertaV2",
    }
    if family == "deberta-v2":  # as version 3 is published, and rows longer than the exact buckets
        fields |= {"relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm"}
        fields |= {"share_att_key": True, "pos_att_type": "p2c|c2p", "position_biased_input": False}
        fields["vocab_size"] += 99  # rows without a piece
    name = names[family]
    config = transformers.AutoConfig.for_model(family, **(fields | changes))
    model = getattr(transformers, f"{name}ForSequenceClassification")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def framed(family, pieces, pair_pieces, vocabulary):
    """Rows as the papers frame them: ids, mask and segments of LENGTH."""
    first, last = ("[CLS]", "[SEP]") if family in LIKE_BERT else ("<s>", "</s>")
    begin, end = vocabulary.tokens.index(first), vocabulary.tokens.index(last)
    row = [begin, *pieces, end]
    segments = [0] * len(row)
    if pair_pieces is not None:
        more = [*([] if family in LIKE_BERT else [end]), *pair_pieces, end]
        row, segments = row + more, segments + [1] * len(more)
    padding = LENGTH - len(row)
    assert padding >= 0
    return (
        row + [vocabulary.pad_id] * padding,
        [1] * len(row) + [0] * padding,
        (segments if family in LIKE_BERT else [0] * len(row)) + [0] * padding,
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Returns a function: the folder of a family, and transformers' model in it."""
    made = {}

    def folder(family):
        if family not in made:
            path = tmp_path_factory.mktemp(family)
            if family == "roberta":
                files = byte_level_files()
            elif family == "mpnet":
                files = mpnet_files()
            else:
                schemes = {"xlm-roberta": "xlm_roberta", "deberta-v2": "deberta"}
                files = sentencepiece_files(schemes.get(family, family))
            model = their_model(family, len(files.vocabulary))
            model.save_pretrained(path)
            files.save(path)
            made[family] = path, model, files
        return made[family]

    return folder


def pieces_of(family, files, texts):
    """Ids of the pieces by the library that owns the tokenizer."""
    if family == "roberta":
        import transformers

        tokens = {token: index for index, token in enumerate(files.vocabulary.tokens)}
        merges = [tuple(merge) for merge in files.merges]
        tokenizer = transformers.RobertaTokenizer(vocab=tokens, merges=merges)
        return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    if family == "mpnet":
        tokenizer = _their_mpnet_tokenizer(files)
        return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=files.model)
    if family == "xlm-roberta":
        return [[i + 1 if i else 3 for i in processor.encode(text)] for text in texts]
    if family == "deberta-v2":
        return [processor.encode(text) for text in texts]
    return [processor.encode(text.lower()) for text in texts]


def _their_mpnet_tokenizer(files):
    import transformers

    ids = {token: index for index, token in enumerate(files.vocabulary.tokens)}
    return transformers.MPNetTokenizer(vocab=ids)


def short_texts():
    """Texts of plain letters, which every preparation leaves alone, and few pieces."""
    words = [
        word
        for text in golden_texts()
        for word in text.split()
        if word.isascii() and word.isalpha() and word.islower() and len(word) > 2
    ]
    return [" ".join(words[start : start + 2]) for start in range(0, 12, 2)]


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_strings_get_the_logits_of_transformers(family, pairs, folders):
    import torch

    path, theirs, files = folders(family)
    texts, others = short_texts(), short_texts()[::-1]
    pieces = pieces_of(family, files, texts)
    pair_pieces = pieces_of(family, files, others) if pairs else [None] * len(texts)
    rows = [
        framed(family, own, pair, files.vocabulary)
        for own, pair in zip(pieces, pair_pieces, strict=True)
    ]
    ids, mask, segments = (np.array(part) for part in zip(*rows, strict=True))
    with torch.no_grad():
        inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
        if family != "mpnet":  # has no such input
            inputs["token_type_ids"] = torch.tensor(segments)
        expected = theirs(**inputs).logits.numpy()
    preprocess = load_preprocessor(path, max_seq_length=LENGTH)
    features = preprocess((tf.constant(texts), tf.constant(others)) if pairs else texts)
    longest = int(mask.sum(axis=1).max())  # rows are padded to that
    np.testing.assert_array_equal(features["input_ids"], ids[:, :longest])
    np.testing.assert_array_equal(features["input_mask"], mask[:, :longest])
    model = load_model(path)
    np.testing.assert_allclose(model(features), expected, **ORACLE)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_export_answers_as_the_model(family, folders, tmp_path):
    path, _, _ = folders(family)
    texts = short_texts()
    logits = load_model(path)(load_preprocessor(path, max_seq_length=LENGTH)(texts))
    served = tf.saved_model.load(str(export_saved_model(path, tmp_path / "served")))
    answers = served.signatures["serving_default"](text=tf.constant(texts))
    expected = tf.nn.softmax(logits, axis=-1)
    np.testing.assert_allclose(answers["scores"], expected, rtol=1e-4, atol=1e-5)


def test_classes_of_other_families_refuse_a_folder(folders):
    path, _, _ = folders("roberta")
    assert isinstance(load_encoder(path), RobertaEncoder)
    assert isinstance(BertEncoder.from_preset(path), RobertaEncoder)
    with pytest.raises(ValueError, match="RobertaEncoder"):
        AlbertEncoder.from_preset(path)
    assert type(load_tokenizer(path)).__name__ == "ByteLevelBpeTokenizer"
    path, _, _ = folders("mpnet")
    assert isinstance(load_encoder(path), MPNetEncoder)
    with pytest.raises(ValueError, match="MPNetEncoder"):
        RobertaEncoder.from_preset(path)


def test_a_tokenizer_of_mpnet_goes_there_and_back(tmp_path):
    """Strings in which special tokens are spelled out, those of BERT as well, and pairs."""
    import transformers

    files = mpnet_files()
    theirs = _their_mpnet_tokenizer(files)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_tokenizer(tmp_path / "theirs", keep_special_tokens=True)
    assert ours.vocabulary == files.vocabulary
    parts = "the of and ing a b <mask> <s> </s> <pad> [UNK] [MASK] < > [ ] / mask . , !".split()
    draw = random.Random(0)
    texts = ["".join(draw.choices([*parts, " ", "  "], k=draw.randint(0, 12))) for _ in range(1000)]
    expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in texts]
    assert ours(texts).to_list() == expected
    ids, sizes = read_tokenizer_files(tmp_path / "theirs").texts_to_ids()(texts)
    plain = load_tokenizer(tmp_path / "theirs")(texts)
    assert ids.tolist() == plain.values.numpy().tolist()
    assert sizes.tolist() == plain.row_lengths().numpy().tolist()
    # Offsets, in a text whose accent is stripped.
    text = "the cafe\u0301 <mask> of"
    found = [part.to_list()[0] for part in ours.tokenize_with_offsets([text])]
    their_offsets = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
    assert found[0] == their_offsets["input_ids"]
    assert [*zip(*found[1:], strict=True)][-2:] == their_offsets["offset_mapping"][-2:]
    # Written again, transformers reads it with the same rows.
    ours.save(tmp_path / "ours")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert type(again).__name__ == "MPNetTokenizer"
    assert again("the of", "and")["input_ids"] == theirs("the of", "and")["input_ids"]


def test_word_pieces_have_the_special_tokens_and_settings_that_their_files_name(tmp_path):
    """Oracle: transformers, which opens the same two folders."""
    import json

    import transformers

    tokens = [*"[PAD] [UNK] [CLS] [SEP] [MASK] [unused0] <e> begin the cafe The".split()]
    roles = {"cls_token": "[unused0]", "sep_token": "<e>", "mask_token": "begin"}
    texts, others = ["the begin Café", "<e> zz"], ["The", "[unused0] [CLS]"]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    stored = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **roles}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stored))

    def check(folder):
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
        preprocess = load_preprocessor(folder, max_seq_length=64, keep_special_tokens=True)
        for inputs in ((texts,), (texts, others)):
            expected = theirs(*inputs, padding=True)["input_ids"]
            found = preprocess(tuple(map(tf.constant, inputs)) if len(inputs) > 1 else texts)
            np.testing.assert_array_equal(found["input_ids"], expected)

    check(tmp_path)
    load_tokenizer(tmp_path).save(tmp_path / "saved")
    check(tmp_path / "saved")
    # A general class: tokenizer.json says how texts are treated, whatever stands beside it.
    theirs = transformers.BertTokenizer(
        {token: index for index, token in enumerate(tokens)}, do_lower_case=False
    )
    theirs.save_pretrained(tmp_path / "general")
    stored = json.loads((tmp_path / "general" / "tokenizer_config.json").read_text())
    stored |= {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True}
    (tmp_path / "general" / "tokenizer_config.json").write_text(json.dumps(stored))
    check(tmp_path / "general")
    with pytest.raises(ValueError, match="'xx' is empty, holds white space or one of"):
        vocabulary = Vocabulary([*tokens, "xx"], SpecialTokens(mask="xx"))
        BertTokenizer(vocabulary, keep_special_tokens=True)


def test_masks_in_texts_are_those_of_transformers(folders):
    """As a tokenizer that is saved here opens there: with the blanks around a mask."""
    import transformers

    for family in ("roberta", "xlm-roberta", "albert", "deberta-v2", "mpnet"):
        path, _, files = folders(family)
        mask = files.vocabulary.special_tokens.mask
        texts = [f"of {mask} the", f"of{mask}the", f"of  {mask}  the", f" {mask}"]
        theirs = transformers.AutoTokenizer.from_pretrained(path)
        expected = theirs(texts, add_special_tokens=False)["input_ids"]
        ours = load_tokenizer(path, keep_special_tokens=True)
        assert ours(texts).to_list() == expected, family


@pytest.mark.parametrize("pairs", some_long([False, True], [True]))
def test_strings_get_the_logits_of_a_modernbert_and_of_its_export(pairs, tmp_path):
    """Code, accents behind their letters and long white space, by their own tokenizer and model."""
    import torch
    import transformers

    path = write_modernbert(tmp_path)
    size = len(all_ids(modernbert_json()))
    changes = {"pad_token_id": all_ids(modernbert_json())["[PAD]"], "local_attention": 6}
    theirs = their_model("modernbert", size, **changes, classifier_pooling="mean")
    theirs.save_pretrained(path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    texts = [
        "She left  the room.",
        "def left(room):\n    return room",
        "cafe\u0301 [unused1]\t!",
        "",
    ]
    both = (texts, texts[::-1]) if pairs else (texts,)
    encoded = tokenizer(*both, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = theirs(**encoded).logits.numpy()
    preprocess = load_preprocessor(path, max_seq_length=64)
    features = preprocess(tuple(map(tf.constant, both)) if pairs else texts)
    np.testing.assert_array_equal(features["input_ids"], encoded["input_ids"])
    np.testing.assert_array_equal(features["input_mask"], encoded["attention_mask"])
    model = load_model(path)
    np.testing.assert_allclose(model(features), expected, **ORACLE)
    served = tf.saved_model.load(
        str(export_saved_model(path, tmp_path / "served", options=ExportOptions(text_pair=pairs)))
    )
    names = ("text", "text_pair")
    request = {name: tf.constant(part) for name, part in zip(names, both, strict=False)}
    answers = served.signatures["serving_default"](**request)
    np.testing.assert_allclose(answers["scores"], tf.nn.softmax(expected), **ORACLE)
