"""Attention of a text: the numbers, the page that holds them, the pictures."""

import html
import math
import re
import warnings
from html.parser import HTMLParser

import keras
import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
    FinetunedModel,
    show_attention,
)
from keras_bert.models.bilstm_tagger import BertBiLSTMTagger
from keras_bert.tasks.opened_encoder import open_encoder
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.visualize.attention.page import attention_page
from keras_bert.visualize.attention.probabilities import Attention, join_pieces, read_attention
from keras_bert.visualize.model_input import Token
from tests.tolerances import FORMULA, REORDERED
from tests.visualize.attention_models import (
    LONG,
    PAIR,
    TEXT,
    page_data,
    tiny_encoder,
    tiny_tokenizer,
)

# TEXT and PAIR as the model reads them.
PIECES = "[CLS] the a ##b ##c film , x [SEP] film d ##e the [SEP]".split()
SEGMENTS = [0] * 9 + [1] * 5
WORDS = ["[CLS]", "The", "abc", "film", ",", "x", "[SEP]", "film", "de", "the", "[SEP]"]
WORD_OF = [0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10]


@pytest.fixture(scope="module")
def encoder():
    return tiny_encoder()


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def view(encoder, tokenizer):
    return show_attention(encoder, TEXT, PAIR, tokenizer=tokenizer)


def attention_by_hand(encoder, ids, segments):
    """Attention probabilities [L, A, S, S] as the papers write them, in NumPy and float64."""
    weights = {weight.path: np.array(weight, np.float64) for weight in encoder.weights}
    config = encoder.config
    heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads

    def dense(name, x):
        return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    def norm(name, x):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + config.layer_norm_eps)
        return scaled * weights[f"{name}/gamma"] + weights[f"{name}/beta"]

    x = weights["word_embeddings/embeddings"][ids]
    x = x + weights["embeddings/position_embeddings"][: len(ids)]
    x = norm("embeddings/layer_norm", x + weights["embeddings/segment_embeddings"][segments])
    found = []
    for layer in range(config.num_hidden_layers):
        name = f"layer_{layer}"
        query, key, value = (
            part.reshape(len(ids), heads, size).transpose(1, 0, 2)
            for part in np.split(dense(f"{name}/attention/query_key_value", x), 3, axis=-1)
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(size)
        if config.left_to_right:
            scores = np.where(np.tri(len(ids), dtype=bool), scores, -np.inf)
        exponents = np.exp(scores - scores.max(-1, keepdims=True))
        probabilities = exponents / exponents.sum(-1, keepdims=True)
        found.append(probabilities)
        context = (probabilities @ value).transpose(1, 0, 2).reshape(len(ids), -1)
        x = norm(f"{name}/attention_norm", x + dense(f"{name}/attention/output", context))
        inner = dense(f"{name}/intermediate", x)
        inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        x = norm(f"{name}/feed_forward_norm", x + dense(f"{name}/output", inner))
    return np.stack(found)


@pytest.mark.parametrize("left_to_right", [False, True])
def test_probabilities_are_those_worked_out_in_numpy(left_to_right, tokenizer):
    encoder = tiny_encoder(left_to_right=left_to_right)
    view = show_attention(encoder, TEXT, PAIR, tokenizer=tokenizer)
    ids = [tokenizer.vocabulary.id_of(token.piece) for token in view.tokens]
    expected = attention_by_hand(encoder, ids, [token.segment for token in view.tokens])
    assert view.probabilities.dtype == np.float32
    np.testing.assert_allclose(view.probabilities, expected, **REORDERED)
    # Heads differ, or a mix-up of them would not be seen.
    assert np.abs(expected[0, 0] - expected[0, 1]).max() > 0.05


def test_tokens_tell_what_of_the_text_they_are(view):
    assert [token.piece for token in view.tokens] == PIECES
    assert [token.segment for token in view.tokens] == SEGMENTS
    assert [token.word for token in view.tokens] == WORD_OF
    assert [token.text for token in view.tokens][1:6] == ["The", "a", "b", "c", "film"]
    assert view.words == tuple(WORDS)
    special = [at for at, token in enumerate(view.tokens) if token.is_special]
    assert special == [0, 8, 13]
    assert repr(view) == "AttentionView(14 tokens, 3 layers, 4 heads)"


HEADS = {
    BertPretrainer: {},
    BertMaskedLM: {},
    BertClassifier: {"num_classes": 2},
    BertTokenClassifier: {"num_classes": 3},
    BertSpanLabeler: {},
    BertMultipleChoice: {},
}


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.__name__)
def test_every_head_shows_the_attention_of_its_encoder(head, encoder, tokenizer, view):
    model = head(encoder, **HEADS[head])
    found = show_attention(model, TEXT, PAIR, tokenizer=tokenizer)
    np.testing.assert_array_equal(found.probabilities, view.probabilities)


def test_folders_and_encoders_made_otherwise_show_the_same(encoder, tokenizer, view, tmp_path):
    BertClassifier(encoder, num_classes=2).save_to_preset(tmp_path / "preset", tokenizer)
    folder = show_attention(tmp_path / "preset", TEXT, PAIR)
    np.testing.assert_array_equal(folder.probabilities, view.probabilities)
    assert f"{tmp_path.name}/preset" in folder.html()
    assert str(tmp_path) not in folder.html()
    tagger = BertBiLSTMTagger(encoder.config, 3, features_from="last", lstm_width=8)
    with keras.name_scope("second"):
        packed = BertEncoder(encoder.config, packed=True)
    for model in (tagger, packed):
        getattr(model, "encoder", model).set_weights(encoder.get_weights())
        found = show_attention(model, TEXT, PAIR, tokenizer=tokenizer)
        np.testing.assert_array_equal(found.probabilities, view.probabilities)


def test_a_finetuned_model_brings_its_tokenizer(model_folder):
    model = FinetunedModel.load(model_folder("pairs"))
    found = show_attention(model, TEXT, PAIR)
    assert [token.piece for token in found.tokens] == PIECES
    folder = show_attention(model_folder("pairs"), TEXT, PAIR)
    np.testing.assert_array_equal(found.probabilities, folder.probabilities)


def test_a_folder_reads_masks_in_a_text(model_folder):
    view = show_attention(model_folder("masked_lm"), "the [MASK] film")
    assert [token.piece for token in view.tokens] == "[CLS] the [MASK] film [SEP]".split()


def test_joined_pieces_by_hand():
    # Two words: pieces 0 and 1, piece 2.
    matrix = np.array([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.125, 0.25, 0.625]])
    joined = join_pieces(matrix, [0, 0, 1])
    np.testing.assert_allclose(joined, [[0.625, 0.375], [0.375, 0.625]], **FORMULA)


@pytest.mark.parametrize("text_pair", [None, PAIR])
def test_a_text_that_is_too_long_is_cut_as_the_preprocessor_cuts_it(text_pair, tokenizer):
    from keras_bert import BertPreprocessor

    encoder = tiny_encoder(max_position_embeddings=12)
    view = show_attention(encoder, LONG, text_pair, tokenizer=tokenizer)
    texts = [LONG] if text_pair is None else ([LONG], [text_pair])
    expected = BertPreprocessor(tokenizer, 12)(texts)
    ids = [tokenizer.vocabulary.id_of(token.piece) for token in view.tokens]
    np.testing.assert_array_equal(expected["input_ids"][0], ids)
    pieces = sum(map(len, tokenizer([LONG, text_pair or ""]).to_list()))
    assert view.cut_pieces == pieces - (10 if text_pair is None else 9)
    assert page_data(view.html())["cutPieces"] == view.cut_pieces


def test_the_page_holds_the_probabilities_in_bytes(view):
    data = page_data(view.html())
    assert data["pieces"] == PIECES
    assert (data["words"], data["wordOf"]) == (WORDS, WORD_OF)
    assert data["segments"] == SEGMENTS
    exact = view.probabilities
    error = np.abs(data["probabilities"][..., :-1] - exact)
    # What the module says of the rounding, and a rest for that of float32.
    assert (error <= np.sqrt(exact) / 255 + 1 / 510**2 + 1e-6).all()
    assert (data["probabilities"][..., -1] == 0).all()


def test_a_part_of_the_tokens_and_what_goes_to_the_others(encoder, tokenizer):
    view = show_attention(encoder, TEXT, PAIR, tokenizer=tokenizer, start=3, max_tokens=5)
    assert (view.start, view.end, len(view.tokens)) == (3, 8, 14)
    data = page_data(view.html())
    assert data["pieces"] == PIECES[3:8]
    # The first piece is the second of its word, which stands there as a whole.
    assert (data["words"], data["wordOf"]) == (["abc", "film", ",", "x"], [0, 0, 1, 2, 3])
    assert (data["start"], data["total"]) == (3, 14)
    shown = view.probabilities[:, :, 3:8, 3:8]
    np.testing.assert_allclose(data["probabilities"][..., :-1], shown, rtol=0, atol=0.004)
    rest = 1 - shown.sum(axis=-1)
    np.testing.assert_allclose(data["probabilities"][..., -1], rest, rtol=0, atol=0.004)


def test_a_head_that_looks_beyond_the_page_is_described_by_the_whole_text(view):
    # All tokens look at the last [SEP], which the page of the first five does not hold.
    weights = np.zeros((1, 1, len(PIECES), len(PIECES)), np.float32)
    weights[..., -1] = 1
    attention = view._attention._replace(probabilities=weights)
    sentences = page_data(attention_page(attention, "made", 0, 5))["sentences"]
    assert sentences[0][0] == "Layer 0, head 0: 100\u00a0% of all weight goes to [SEP]"


@pytest.mark.parametrize(
    ("text", "text_pair", "expected"),
    [
        ("\u05d0\u05d1 film", None, ["rtl"]),  # Hebrew
        ("film \u05d0\u05d1", None, ["ltr"]),
        # Digits and signs have no direction of their own, Arabic letters have.
        ("x y", "1 . (\u0627\u0644", ["ltr", "rtl"]),
        ("", None, ["ltr"]),
    ],
)
def test_each_text_has_the_direction_of_its_first_letter(
    text, text_pair, expected, encoder, tokenizer
):
    view = show_attention(encoder, text, text_pair, tokenizer=tokenizer)
    assert page_data(view.html())["directions"] == expected


class Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_a_text_cannot_break_the_page(encoder):
    text = 'x </script><img src="http://x.org"> <!-- {{SCRIPT}} & \\u003c " \u2028 film'
    read = read_attention(*open_encoder(encoder, "attention_probs", tiny_tokenizer()), text)
    # The tokenizer takes "</script>" apart; the name of a model is no text of a tokenizer.
    name = "</script><img>{{DATA}}"
    page = attention_page(read, name, 0, len(read.tokens))
    parser = Elements()
    parser.feed(page)
    tags = [tag for tag, _ in parser.found]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert "".join(page_data(page)["words"][1:-1]) == "".join(text.split())
    assert page_data(page)["model"] == name
    assert f"Attention of {html.escape(name)}</title>" in page


def test_the_page_needs_nothing_from_elsewhere(view):
    page = view.html()
    parser = Elements()
    parser.feed(page)
    assert not [found for found in parser.found if {"src", "href"} & set(found[1])]
    assert set(re.findall(r"https?://[\w./]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page


def test_a_notebook_gets_the_page_in_a_frame(view):
    parser = Elements()
    parser.feed(view._repr_html_())
    [(tag, attributes)] = parser.found
    assert tag == "iframe"
    assert attributes["srcdoc"] == view.html()
    assert html.escape("<html") in view._repr_html_()


def test_the_size_of_a_page_of_base_size_at_128_tokens():
    # Bytes of random weights cannot be packed: no text of any model takes more.
    random = np.random.default_rng(0)
    weights = random.uniform(size=(12, 12, 128, 128)).astype(np.float32) ** 4
    weights /= weights.sum(axis=-1, keepdims=True)
    tokens = tuple(Token(f"piece{i}", f"piece{i}", 0, i, False) for i in range(128))
    words = tuple(token.text for token in tokens)
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *words])
    page = attention_page(Attention(tokens, words, weights, 0, vocabulary), "bert", 0, 128)
    assert 2_000_000 < len(page.encode()) < 3_300_000


def test_the_page_is_written_whole_under_its_name(view, tmp_path):
    path = tmp_path / "new" / "attention.html"
    view.save(path)
    assert path.read_text(encoding="utf-8") == view.html()
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(ValueError, match=r"attention.txt does not end with .html"):
        view.save(tmp_path / "attention.txt")
    assert not (tmp_path / "attention.txt").exists()


def svg_texts(path):
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


def test_heat_maps_name_what_they_show(encoder, tokenizer, tmp_path):
    view = show_attention(encoder, "abc $film$ $x", tokenizer=tokenizer)
    view.save_heat_map(tmp_path / "one.svg", layer=1, head=2)
    texts = svg_texts(tmp_path / "one.svg")
    pieces = "[CLS] a ##b ##c $ film $ $ x [SEP]".split()
    assert texts[: len(pieces)] == pieces
    assert "layer 1, head 2" in texts
    view.save_heat_map(tmp_path / "words.svg", layer=1, head=2, join_words=True)
    assert svg_texts(tmp_path / "words.svg")[:3] == ["[CLS]", "abc", "$"]
    view.save_heat_map(tmp_path / "all.svg")
    titles = [text for text in svg_texts(tmp_path / "all.svg") if text.startswith("layer")]
    assert titles == [f"layer {layer}, head {head}" for layer in range(3) for head in range(4)]
    # A long word leaves room for the matrix, which matplotlib warns of otherwise.
    long = show_attention(encoder, f"film {'ab' * 50} x", tokenizer=tokenizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        long.save_heat_map(tmp_path / "long.svg", layer=1, head=2, join_words=True)
    assert f"{'ab' * 10}…{'b' + 'ab' * 5}" in svg_texts(tmp_path / "long.svg")
    view.save_heat_map(tmp_path / "one.png", layer=0, head=0)
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_a_heat_map_that_cannot_be_is_refused(view, tmp_path):
    with pytest.raises(ValueError, match="layer is 3: the model has 3, counted from 0"):
        view.save_heat_map(tmp_path / "x.png", layer=3)
    with pytest.raises(ValueError, match="head is -1: it must be 0 or more"):
        view.save_heat_map(tmp_path / "x.png", head=-1)
    with pytest.raises(ValueError, match=r"x.jpg does not end with .png or .svg"):
        view.save_heat_map(tmp_path / "x.jpg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"tokenizer": None}, "there is no tokenizer for the BertEncoder: give tokenizer="),
        ({"model": 5}, "the model is a int: give a model folder, a BertEncoder"),
        ({"text": ["a"]}, "text is a list: give one string"),
        ({"text_pair": 3}, "text_pair is a int: give one string"),
        ({"start": 14}, "start is 14 but the text has 14 tokens for the model: give 0 to 13"),
        ({"start": -1}, "start is -1: it must be 0 or more"),
        ({"start": 0.5}, "start is 0.5: it must be a whole number"),
        ({"max_tokens": 0}, "max_tokens is 0: it must be at least 1"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(arguments, reason, encoder, tokenizer):
    given = {"model": encoder, "text": TEXT, "text_pair": PAIR, "tokenizer": tokenizer} | arguments
    with pytest.raises(ValueError, match=reason):
        show_attention(given.pop("model"), given.pop("text"), given.pop("text_pair"), **given)


def test_a_model_of_one_segment_has_no_pairs(tokenizer):
    encoder = tiny_encoder(type_vocab_size=1)
    assert len(show_attention(encoder, TEXT, tokenizer=tokenizer).tokens) == 9
    with pytest.raises(ValueError, match="type_vocab_size is 1: it needs 2 segments"):
        show_attention(encoder, TEXT, PAIR, tokenizer=tokenizer)


def test_another_vocabulary_is_refused(tokenizer):
    with pytest.raises(ValueError, match="config.vocab_size is 7"):
        show_attention(tiny_encoder(vocab_size=7), TEXT, tokenizer=tokenizer)
