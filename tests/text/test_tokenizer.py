import json
import re
from pathlib import Path

import numpy as np
import original_tokenization_oracle as oracle
import pytest
import tensorflow as tf

from keras_bert.text.framing import MPNET_TOKENS, ROBERTA_FRAMING
from keras_bert.text.preprocessor import BertPreprocessor
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece.files import WordPieceFiles

GOLDEN = Path(__file__).parents[1] / "golden"
GOLDEN_VOCABULARY = GOLDEN / "vocab_uncased.txt"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def golden_lines():
    content = (GOLDEN / "tokenization.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in content.split("\n") if line]


def make(*tokens, **settings):
    return BertTokenizer(Vocabulary([*SPECIAL, *tokens]), **settings)


def pieces(tokenizer, text):
    return [tokenizer.vocabulary.tokens[i] for i in tokenizer([text]).to_list()[0]]


def spans(tokenizer, text):
    ids, starts, ends = tokenizer.tokenize_with_offsets([text])
    assert ids.to_list() == tokenizer([text]).to_list()
    return [
        text[start:end] for start, end in zip(starts.to_list()[0], ends.to_list()[0], strict=True)
    ]


@pytest.mark.parametrize("kind", ["uncased", "cased"])
def test_golden_lines_of_the_original(kind):
    tokenizer = BertTokenizer.from_vocab(GOLDEN_VOCABULARY, lowercase=kind == "uncased")
    lines = golden_lines()
    got = tokenizer([line["text"] for line in lines]).to_list()
    assert len(lines) == 440
    assert [ids == line[kind] for ids, line in zip(got, lines, strict=True)] == [True] * 440


@pytest.mark.parametrize("kind", ["uncased", "cased"])
def test_golden_lines_one_by_one(kind):
    # Alone, a text is either plain or not; in a batch both kinds are mixed.
    tokenizer = BertTokenizer.from_vocab(GOLDEN_VOCABULARY, lowercase=kind == "uncased")
    for line in golden_lines()[::4]:
        assert tokenizer([line["text"]]).to_list() == [line[kind]]


def test_equal_tokenizers_have_one_graph():
    # Tracing takes longer than all else about a tokenizer.
    first, second = (make("Ab", "ab", "a", "##b") for _ in range(2))
    assert set(first.submodules) == set(second.submodules)
    others = [first.with_settings(lowercase=False), make("a", "##b")]
    for other in others:
        assert other.submodules[0] not in first.submodules
    assert [pieces(t, "Ab") for t in (first, second, *others)] == [["ab"]] * 2 + [
        ["Ab"],
        ["a", "##b"],
    ]


def test_result_is_ragged_int32_in_the_order_of_the_texts():
    tokenizer = make("a", "b", "é", lowercase=False)
    ids = tokenizer(["b é", "", "a b a", "é", "a"])
    assert isinstance(ids, tf.RaggedTensor) and ids.dtype == tf.int32
    assert ids.to_list() == [[6, 7], [], [5, 6, 5], [7], [5]]
    assert tokenizer([]).to_list() == []
    assert tokenizer(np.array(["a", "b"])).to_list() == [[5], [6]]
    assert tokenizer(np.array([b"a", b"b"], object)).to_list() == [[5], [6]]


def test_greedy_longest_match():
    tokenizer = make("un", "##aff", "##able", "##a", "una", "##ffable")
    assert pieces(tokenizer, "unaffable") == ["una", "##ffable"]
    # The longest first match leads nowhere: the original does not try a shorter one.
    assert pieces(make("un", "##aff", "una"), "unaff") == ["[UNK]"]


@pytest.mark.parametrize("letter", ["a", "é", "𐐨"])
def test_words_over_200_characters_are_unknown(letter):
    tokenizer = make(letter, f"##{letter}", ".", lowercase=False)
    assert pieces(tokenizer, letter * 200) == [letter] + [f"##{letter}"] * 199
    assert pieces(tokenizer, letter * 201) == ["[UNK]"]
    # The limit is one of words after the split at punctuation, not of what the text spaces out.
    text = f"{letter * 150}.{letter * 150} {letter * 201}.{letter}"
    expected = oracle.tokenize(text, tokenizer.vocabulary.tokens, lowercase=False)
    assert pieces(tokenizer, text) == expected
    assert spans(tokenizer, text)[-3:] == [letter * 201, ".", letter]


def test_characters_are_counted_after_normalization():
    accented = "e\u0301" * 200
    assert pieces(make("e", "##e"), accented) == ["e"] + ["##e"] * 199
    cased = make("e", "##e", "##\u0301", lowercase=False)
    assert pieces(cased, accented) == ["[UNK]"]
    syllables = "한" * 67  # three letters each: 201
    assert pieces(make("ᄒ", "##ᄒ", "##ᅡ", "##ᆫ"), syllables) == ["[UNK]"]


@pytest.mark.parametrize("token", ["##", "####", "##[", "#", "##a b", "a.b", "[x]", "\ufffd"])
def test_vocabulary_entries_that_no_word_can_hold_change_nothing(token):
    vocabulary = [*SPECIAL, token, "a", "##a", ".", "["]
    tokenizer = BertTokenizer(Vocabulary(vocabulary))
    for text in (
        "##",
        "#",
        "##a",
        "a##a",
        "a b",
        "a.b",
        "[x]",
        "\ufffd",
        "a\ufffda",
        "é[x]",
        "a #é",
    ):
        assert pieces(tokenizer, text) == oracle.tokenize(text, vocabulary)


def test_special_tokens_are_plain_text_by_default():
    tokenizer = make("[", "]", "mask", "pad")
    assert pieces(tokenizer, "[MASK] [PAD]") == ["[", "mask", "]", "[", "pad", "]"]


def test_special_tokens_can_be_kept():
    tokenizer = make("[", "]", "mask", "a", "##a", "σ", keep_special_tokens=True)
    assert pieces(tokenizer, "a[MASK]a [SEP][CLS]") == ["a", "[MASK]", "a", "[SEP]", "[CLS]"]
    assert pieces(tokenizer, "[mask] [MASK [[UNK]]") == [
        "[",
        "mask",
        "]",
        "[",
        "mask",
        "[",
        "[UNK]",
        "]",
    ]
    assert spans(tokenizer, "é[MASK] ä[PAD]a") == ["é", "[MASK]", "ä", "[PAD]", "a"]
    # A kept token ends the text before it: the sigma is the last letter of its word.
    greek = make("a", "##σ", "##ς", keep_special_tokens=True)
    assert pieces(greek, "aΣ[MASK]a aΣ[MAS") == [
        "a",
        "##ς",
        "[MASK]",
        "a",
        "a",
        "##ς",
        "[UNK]",
        "[UNK]",
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["e", "##x", "中", "文"]),
        ({"strip_accents": False}, ["é", "##x", "中", "文"]),
        ({"lowercase": False}, ["É", "##X", "中", "文"]),
        ({"lowercase": False, "strip_accents": True}, ["E", "##X", "中", "文"]),
        ({"split_cjk": False}, ["e", "##x", "##中文"]),
        ({"split_cjk": False, "lowercase": False}, ["É", "##X", "##中文"]),
    ],
)
def test_each_setting_does_its_own(settings, expected):
    tokenizer = make("É", "é", "E", "e", "##x", "##X", "##中文", "中", "文", **settings)
    assert pieces(tokenizer, "ÉX中文") == expected


def test_bytes_that_are_not_utf8_are_removed():
    tokenizer = make("a", "##b", "c")
    texts = [b"a\xffb", b"\xc3 c", b"a\xed\xa0\x80b", b"a\xf8\x88\x80\x80\x80b", b"\xe2\x82"]
    assert tokenizer(texts).to_list() == [
        tokenizer([text.decode("utf-8", "ignore")]).to_list()[0] for text in texts
    ]
    assert tokenizer(texts).to_list()[:2] == [[5, 6], [7]]


def test_offsets_point_into_the_original_text():
    tokenizer = make("cafe", "##s", "中", "!", "i", "##i")
    text = " Cafe\u0301S\u200b中\x00!  İİ…"
    assert spans(tokenizer, text) == ["Cafe\u0301", "S", "中", "!", "İ", "İ", "…"]


def test_offsets_of_unknown_words_cover_the_word():
    assert spans(make("a"), "xyz\u0301\u0301, ẍẍ a") == ["xyz\u0301\u0301", ",", "ẍẍ", "a"]


def test_offsets_count_characters_not_bytes():
    tokenizer = make("a")
    _, starts, ends = tokenizer.tokenize_with_offsets(["“𝄞” a", "a"])
    assert starts.to_list() == [[0, 1, 2, 4], [0]]
    assert ends.to_list() == [[1, 2, 3, 5], [1]]
    assert starts.dtype == ends.dtype == tf.int32


def test_words_are_tokenized_by_themselves():
    tokenizer = make("play", "##ing", "!", "'", "s")
    words = tf.ragged.constant([["playing", "!"], [], ["Plays", "it's", "\u200b"]])
    assert tokenizer.tokenize_words(words).to_list() == [
        [[5, 6], [7]],
        [],
        [[1], [1, 8, 9], []],
    ]
    assert tokenizer.tokenize_words([["s", "!"]]).to_list() == [[[9], [7]]]
    assert tokenizer.tokenize_words(words.to_list()).to_list()[1:] == [[], [[1], [1, 8, 9], []]]
    assert tokenizer.tokenize_words([]).to_list() == []
    assert tokenizer.tokenize_words([tf.constant(["s", "!"])]).to_list() == [[[9], [7]]]
    with pytest.raises(ValueError, match="expected a list of lists of string .*None"):
        tokenizer.tokenize_words([["s", None]])


def test_detokenize():
    tokenizer = make("play", "##ing", "!", "é")
    ids = tf.ragged.constant([[5, 6, 7], [], [8, 0, 0]], tf.int32)
    assert [text.decode() for text in tokenizer.detokenize(ids).numpy()] == ["playing !", "", "é"]
    assert tokenizer.detokenize([[5, 6], [7]]).numpy().tolist() == [b"playing", b"!"]
    in_graph = tf.function(lambda ids: tokenizer.detokenize([ids, ids]))
    assert in_graph(tf.constant([5, 6])).numpy().tolist() == [b"playing"] * 2
    for one in (9, -1):
        with pytest.raises(ValueError, match=f"^{one} is no id of a piece: the .* from 0 to 8$"):
            tokenizer.detokenize([[5, one]])


def test_pieces_of_new_tokens():
    tokenizer = make("co", "##vid", "[unused0]", "x")
    grown = tokenizer.vocabulary.add_tokens(["covid", "covidx", "x"])
    assert tokenizer.pieces_of_new_tokens(grown) == {7: (5, 6), 9: (1,)}
    assert tokenizer.pieces_of_new_tokens(tokenizer.vocabulary) == {}


@pytest.mark.parametrize("token", ["Covid", "co-vid", "a b"])
def test_new_tokens_that_could_never_be_produced(token):
    tokenizer = make("co")
    with pytest.raises(ValueError, match=f"the new token '{token}' can never be produced"):
        tokenizer.pieces_of_new_tokens(tokenizer.vocabulary.add_tokens([token]))


@pytest.mark.parametrize("texts", [[1, 2], [[1.5]], "text", [["a"], ["b"]]])
def test_other_than_a_list_of_strings(texts):
    with pytest.raises(ValueError, match=r"takes a list of strings, but got a tensor of"):
        make("a")(texts)


@pytest.mark.parametrize("texts", [["a", None], ["a", 1], ["a \ud83d b"], None, iter(["a"])])
def test_a_list_that_is_none_of_strings(texts):
    kind = type(texts).__name__
    with pytest.raises(ValueError, match=f"takes a list of strings, but got {kind} that is none"):
        make("a")(texts)


def test_a_piece_that_is_too_long():
    with pytest.raises(ValueError, match="takes 300 bytes, but a piece can have 255 at most"):
        make("x" * 300)
    assert pieces(make("x" * 200), "x" * 200) == ["x" * 200]


def test_save_and_from_preset(tmp_path):
    settings = {
        "lowercase": False,
        "strip_accents": True,
        "split_cjk": False,
        "keep_special_tokens": True,
        "max_input_chars_per_word": 7,
    }
    tokenizer = make("é", "e", **settings)
    tokenizer.save(tmp_path / "preset")
    again = BertTokenizer.from_preset(tmp_path / "preset")
    assert again.vocabulary == tokenizer.vocabulary
    assert again.settings == settings
    stored = json.loads((tmp_path / "preset" / "tokenizer_config.json").read_text())
    assert stored["do_lower_case"] is False and stored["tokenize_chinese_chars"] is False
    assert stored["strip_accents"] is True and stored["tokenizer_class"] == "BertTokenizer"


@pytest.mark.parametrize(("token", "lowercase"), [("Paris", False), ("paris", True), ("É", True)])
def test_a_folder_without_settings_is_cased_if_its_vocabulary_has_capitals(
    tmp_path, token, lowercase
):
    Vocabulary([*SPECIAL, "[unused1]", token]).save(tmp_path / "vocab.txt")
    assert BertTokenizer.from_preset(tmp_path).settings["lowercase"] is lowercase
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "x": 1}')
    assert BertTokenizer.from_preset(tmp_path).settings["lowercase"] is False
    assert BertTokenizer.from_preset(tmp_path, lowercase=True).settings["lowercase"] is True


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "tokenizer_config.json is not JSON"),
        ("[]", "holds a JSON list; an object is expected"),
        ('{"do_lower_case": "no"}', "do_lower_case is 'no'; it must be true or false"),
        (
            '{"max_input_chars_per_word": 0}',
            "tokenizer_config.json: max_input_chars_per_word is 0: it must be at least 1",
        ),
    ],
)
def test_bad_settings(tmp_path, content, sentence):
    Vocabulary(SPECIAL).save(tmp_path / "vocab.txt")
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        BertTokenizer.from_preset(tmp_path)


def test_a_folder_without_a_vocabulary(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no vocabulary at"):
        BertTokenizer.from_preset(tmp_path)


BERT_STEP = {"type": "BertNormalizer"}
BERT_SPLIT = {"type": "BertPreTokenizer"}


def write_tokenizer_json(
    folder, ids, normalizer=BERT_STEP, added=(), model="WordPiece", pre_tokenizer=BERT_SPLIT
):
    stored = {
        "added_tokens": list(added),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "model": {"type": model, "continuing_subword_prefix": "##", "vocab": ids},
    }
    (folder / "tokenizer.json").write_text(json.dumps(stored))


def test_a_folder_with_tokenizer_json_alone(tmp_path):
    # What transformers 5 writes: no vocab.txt.
    ids = {token: place for place, token in enumerate([*SPECIAL, "É", "##x"])}
    added = [{"id": 7, "content": "new", "single_word": True}, {"id": 4, "content": "[MASK]"}]
    normalizer = {"type": "BertNormalizer", "lowercase": True, "handle_chinese_chars": False}
    write_tokenizer_json(tmp_path, ids, normalizer, added)
    tokenizer = BertTokenizer.from_preset(tmp_path)
    assert tokenizer.vocabulary.tokens == (*SPECIAL, "É", "##x", "new")
    assert tokenizer.settings["lowercase"] is True and tokenizer.settings["split_cjk"] is False
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert BertTokenizer.from_preset(tmp_path)(["Éx new"]).to_list() == [[5, 6, 7]]


def test_googles_chinese_vocabulary(tmp_path):
    # Of it, with ids of their own: a line separator, and <S>, whose capital makes nothing cased.
    pieces = [*SPECIAL, "<S>", "<T>", "\u2028", "##\u2028", "b", "##ert", "中"]
    expected = [[9, 10, 11]]
    Vocabulary([piece.strip() or piece for piece in pieces]).save(tmp_path / "vocab.txt")
    assert BertTokenizer.from_preset(tmp_path)(["BERT\u2028中"]).to_list() == expected
    (tmp_path / "json").mkdir()
    write_tokenizer_json(tmp_path / "json", {piece: place for place, piece in enumerate(pieces)})
    tokenizer = BertTokenizer.from_preset(tmp_path / "json")
    assert tokenizer(["BERT\u2028中"]).to_list() == expected
    tokenizer.save(tmp_path / "again")
    assert BertTokenizer.from_preset(tmp_path / "again").vocabulary == tokenizer.vocabulary


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


LOWERCASE = {"type": "Lowercase"}


@pytest.mark.parametrize(
    ("normalizer", "config", "lowercase", "strips"),
    [
        (BERT_STEP, {}, False, None),  # as a vocabulary with capitals says
        ({**BERT_STEP, "lowercase": True, "strip_accents": False}, {}, True, False),
        ({**BERT_STEP, "lowercase": True}, {"do_lower_case": False}, False, None),
        # What sentence-transformers writes for `do_lower_case`: accents stay as they were.
        (sequence(LOWERCASE, {**BERT_STEP, "lowercase": False}), {}, True, False),
        (sequence(LOWERCASE, {**BERT_STEP, "lowercase": True}), {}, True, True),
        (sequence(LOWERCASE, BERT_STEP), {"do_lower_case": False}, True, False),
    ],
)
def test_settings_of_a_tokenizer_json(normalizer, config, lowercase, strips, tmp_path):
    Vocabulary([*SPECIAL, "A"]).save(tmp_path / "vocab.txt")
    write_tokenizer_json(tmp_path, {}, normalizer)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    settings = BertTokenizer.from_preset(tmp_path).settings
    assert (settings["lowercase"], settings["strip_accents"]) == (lowercase, strips)


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ({"pre_tokenizer": {"type": "Whitespace"}}, "by BertNormalizer and splits by Whitespace"),
        ({"pre_tokenizer": None}, "by BertNormalizer and splits by None"),
        ({"normalizer": {"type": "NFC"}}, "normalizes by NFC and splits"),
        ({"normalizer": LOWERCASE}, "normalizes by Lowercase and splits"),
        ({"normalizer": None}, "normalizes by None and splits"),
        ({"normalizer": sequence({"type": "NFC"}, BERT_STEP)}, "by NFC, BertNormalizer and"),
        ({"normalizer": {**BERT_STEP, "clean_text": False}}, "clean_text is false"),
    ],
)
def test_a_tokenizer_json_with_other_steps_is_refused(steps, sentence, tmp_path):
    ids = {token: place for place, token in enumerate([*SPECIAL, "a"])}
    write_tokenizer_json(tmp_path, ids, **steps)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        BertTokenizer.from_preset(tmp_path)


@pytest.mark.parametrize(
    ("ids", "model", "sentence"),
    [
        ({"[PAD]": 0, "a": 2}, "WordPiece", "'a' has the id 2, but 1 is the next free one"),
        ({"a": 0}, "BPE", "holds a BPE model with the prefix '##'; BERT's is WordPiece"),
        ({"a": 0}, "WordPiece", "lacks the special tokens"),
    ],
)
def test_bad_tokenizer_json(tmp_path, ids, model, sentence):
    write_tokenizer_json(tmp_path, ids, model=model)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        BertTokenizer.from_preset(tmp_path)


@pytest.mark.oracle
def test_the_longest_word_of_a_tokenizer_json(tmp_path):
    """Oracle: the Rust library, on words around its limit, which counts normalized characters."""
    import tokenizers
    from tokenizers.models import WordPiece

    ids = {token: place for place, token in enumerate([*SPECIAL, "a", "##a", "e", "##e", "中"])}
    rust = tokenizers.Tokenizer(WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=9))
    rust.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    rust.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    rust.save(str(tmp_path / "tokenizer.json"))
    texts = ["a" * 9, "A" * 10, "é" * 9, "É" * 10, "a" * 9 + " " + "e" * 10 + " a", "中" * 12]
    expected = [rust.encode(text).ids for text in texts]
    assert [len(row) for row in expected] == [9, 1, 9, 1, 11, 12]
    tokenizer = BertTokenizer.from_preset(tmp_path)
    assert tokenizer(texts).to_list() == expected
    assert tokenizer([*texts, "ß"]).to_list()[:-1] == expected
    tokenizer.save(tmp_path / "saved")
    files = WordPieceFiles.read(tmp_path / "saved")
    found, sizes = files.texts_to_ids()(texts)
    assert found.tolist() == sum(expected, []) and sizes.tolist() == list(map(len, expected))


def test_a_vocabulary_without_words_is_refused():
    sentence = "has 5 entries and no piece of a word among them: is the file cut short"
    with pytest.raises(ValueError, match=sentence):
        make()


def test_word_pieces_of_an_mpnet_are_framed_and_spelled_as_roberta():
    pieces = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "[PAD]",
        "[UNK]",
        "[MASK]",
        "a",
        "##b",
        "<",
        "<mask>",
    ]
    vocabulary = Vocabulary(pieces, MPNET_TOKENS, framing=ROBERTA_FRAMING)
    tokenizer = BertTokenizer(vocabulary, keep_special_tokens=True)
    # "[MASK]" is text here: [UNK] for "[", "mask" and "]"; "s" is none of the vocabulary's either.
    texts = ["ab<mask>a", "[MASK]", "< s>", "</s>[UNK]"]
    assert tokenizer(texts).to_list() == [[7, 8, 10, 7], [5, 5, 5], [9, 5, 5], [2, 5]]
    _, starts, ends = tokenizer.tokenize_with_offsets(["ab <mask> a"])
    assert (starts.to_list(), ends.to_list()) == ([[0, 1, 3, 10]], [[1, 2, 9, 11]])
    plain = tokenizer.with_settings(keep_special_tokens=False)
    assert plain(["<mask>"]).to_list() == [[9, 5, 5]]
    inputs = BertPreprocessor(tokenizer, max_seq_length=8)((["a", "ab"], ["ab", "a"]))
    expected = [[0, 7, 2, 2, 7, 8, 2, 1], [0, 7, 8, 2, 2, 7, 2, 1]]
    assert inputs["input_ids"].numpy().tolist() == expected
    assert not inputs["segment_ids"].numpy().any()
    assert BertTokenizer.from_config(tokenizer.get_config()).vocabulary == vocabulary
