"""Statistics of heads, by hand and by loops over single weights; sentences and files."""

import csv
import dataclasses
import json
import math

import keras
import numpy as np
import pytest

from keras_bert import BertEncoder, head_statistics, plot_head_statistics, show_attention
from keras_bert.text.framing import ROBERTA_FRAMING, ROBERTA_TOKENS
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.visualize.attention.head_places import place_sums, sentences_with_means
from keras_bert.visualize.attention.head_statistics import STATISTICS
from tests.signatures.tiny_models import tiny_config
from tests.tolerances import FORMULA, REORDERED
from tests.visualize.attention_models import tiny_encoder, tiny_tokenizer

# "abc" is the pieces a ##b ##c; texts of different lengths share batches.
TEXTS = ["The abc film, x, abc.", "film", "", "a b a b a " * 6, "the film the", "\u200b"]


@pytest.fixture(scope="module")
def encoder():
    return tiny_encoder(num_hidden_layers=2, num_attention_heads=2)


@pytest.fixture(scope="module")
def statistics(encoder):
    return head_statistics(encoder, TEXTS, tokenizer=tiny_tokenizer(), batch_size=3)


def words_of(pieces):
    """The word of each token, as the tuple of its pieces, and where it begins."""
    starts = [at for at, piece in enumerate(pieces) if not piece.startswith("##")]
    bounds = [*starts, len(pieces)]
    found = {}
    for start, end in zip(bounds, bounds[1:], strict=False):
        for at in range(start, end):
            found[at] = (start, tuple(pieces[start:end]))
    return found


# Also says that padding never counts: here is none.
def weights_one_by_one(encoder, texts):
    """The statistics of Clark et al. in plain Python, a text at a time, without padding."""
    layers, heads = encoder.config.num_hidden_layers, encoder.config.num_attention_heads
    tokenizer = tiny_tokenizer()
    sums = {name: np.zeros((layers, heads)) for name in STATISTICS}
    tokens = read = 0
    within = np.zeros((layers, heads))
    logarithms = 0.0
    for text in texts:
        view = show_attention(encoder, text, tokenizer=tokenizer)
        pieces = [token.piece for token in view.tokens]
        if len(pieces) == 2:
            continue
        read += 1
        tokens += len(pieces)
        logarithms += len(pieces) * math.log(len(pieces))
        words = words_of(pieces)
        special = {0, len(pieces) - 1}
        for layer, head in np.ndindex(layers, heads):
            one = {name: 0.0 for name in STATISTICS}
            for i, row in enumerate(view.probabilities[layer, head].tolist()):
                one["largest"] += max(row)
                for j, p in enumerate(row):
                    one["previous"] += p * (j == i - 1)
                    one["next"] += p * (j == i + 1)
                    one["same"] += p * (j == i)
                    one["cls"] += p * (j == 0)
                    one["sep"] += p * (j == len(pieces) - 1)
                    one["punctuation"] += p * (pieces[j] in ".,")
                    one["entropy"] -= p * math.log(p)
                    if i == 0:
                        one["cls_entropy"] -= p * math.log(p)
                    if i == j == len(pieces) - 1:
                        one["sep_to_sep"] += p
                    (start, word), (other_start, other) = words[i], words[j]
                    if i not in special and word == other and start != other_start:
                        one["same_word"] += p
                    if i not in special and j not in special:
                        one["distance"] += p * abs(i - j)
                        within[layer, head] += p
            for name, value in one.items():
                sums[name][layer, head] += value
    of_texts = ("cls_entropy", "sep_to_sep")
    means = {name: sums[name] / (read if name in of_texts else tokens) for name in STATISTICS}
    means["distance"] = sums["distance"] / within
    return means, read, tokens, logarithms / tokens


def test_every_statistic_is_what_single_weights_say(encoder, statistics):
    means, texts, tokens, uniform = weights_one_by_one(encoder, TEXTS)
    assert (statistics.texts, statistics.tokens) == (texts, tokens) == (4, 54)
    assert statistics.uniform_entropy == pytest.approx(uniform)
    assert list(statistics.values) == list(STATISTICS)
    for name, values in statistics.values.items():
        assert values.dtype == np.float64
        np.testing.assert_allclose(values, means[name], err_msg=name, **REORDERED)
    # Heads differ, and words do occur twice: nothing above is empty.
    assert all(np.ptp(values) > 0 for values in statistics.values.values())


def test_by_hand():
    # [CLS] a ##b . a ##b [SEP]; all look at the token before, [CLS] at itself.
    pieces = "[CLS] a ##b . a ##b [SEP]".split()
    before = np.eye(7, k=-1, dtype=np.float32)
    before[0, 0] = 1
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "a", "##b", "."])
    sums = place_sums(before, pieces, vocabulary)
    # To [CLS]: from itself and from the first piece. To ".": from the piece behind it.
    expected = {"previous": 6, "next": 0, "same": 1, "cls": 2, "sep": 0, "same_word": 0}
    assert sums == pytest.approx(expected | {"punctuation": 1})
    alike = np.full((7, 7), 1 / 7)
    # Four pieces lie in a word that is there twice; each sees the two pieces of the other one.
    expected = {"previous": 6, "next": 6, "same": 7, "cls": 7, "sep": 7, "same_word": 8}
    expected["punctuation"] = 7
    found = place_sums(alike, pieces, vocabulary)
    assert found == pytest.approx({k: v / 7 for k, v in expected.items()})


def test_places_of_a_byte_level_vocabulary():
    vocabulary = Vocabulary(
        [*ROBERTA_TOKENS, "ca", "t", "Ġca", "Ġ,", "Ġ", "ðŁĺ", "Ģ", "ģ"],
        ROBERTA_TOKENS,
        "Ġ",
        ROBERTA_FRAMING,
    )
    # "cat , cat": the first word of a text has no mark; a space alone is no punctuation.
    pieces = "<s> ca t Ġ, Ġca t Ġ </s>".split()
    found = place_sums(np.full((8, 8), 1 / 8), pieces, vocabulary)
    # Each of the four pieces of "cat" sees the two of the other one.
    expected = {"previous": 7, "next": 7, "same": 8, "cls": 8, "sep": 8, "same_word": 8}
    expected["punctuation"] = 8
    assert found == pytest.approx({k: v / 8 for k, v in expected.items()})
    # Two characters whose bytes are pieces: they differ, though neither piece is a character.
    pieces = "<s> Ġ ðŁĺ Ģ Ġ ðŁĺ ģ </s>".split()
    assert place_sums(np.full((8, 8), 1 / 8), pieces, vocabulary)["same_word"] == 0


def test_a_sentence_names_where_most_weight_goes():
    pieces = ["[CLS]", *"abcdefghijkl", "[SEP]"]
    before = np.eye(14, k=-1)
    before[0, 0] = 1
    both = np.stack([before, np.full((14, 14), 1 / 14)])[None]
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *"abcdefghijkl"])
    found = sentences_with_means(both, pieces, vocabulary)
    assert found[0][0] == "Layer 0, head 0: 93\u00a0% of all weight goes to the token before"
    assert found[1][1] == "Mean of all layers, head 1: spread widely"
    assert found[0][2].startswith("Layer 0, mean of all heads: 50\u00a0% of all weight goes to the")


def test_a_head_that_looks_at_the_token_before_is_remarkable(encoder, tmp_path):
    # Keys and queries that meet in positions alone: the query of a position is the key of the
    # one before it. Layer 0 has one head, whose scores are large.
    config = tiny_config(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=16
    )
    planted = BertEncoder(config)
    weights = {variable.path: variable for variable in planted.variables}
    positions = np.eye(16, 32, dtype=np.float32)
    for path, value in {
        "word_embeddings/embeddings": 0.0,
        "embeddings/segment_embeddings": 0.0,
        "embeddings/position_embeddings": positions,
        "layer_0/attention/query_key_value/bias": 0.0,
    }.items():
        weights[path].assign(np.broadcast_to(value, weights[path].shape))
    kernel = weights["layer_0/attention/query_key_value/kernel"]
    shifted = np.roll(np.eye(32), -1, axis=1)  # position i -> i - 1
    joined = np.concatenate([shifted * 9, np.eye(32) * 9, np.eye(32)], axis=1)
    kernel.assign(joined.reshape(kernel.shape))
    found = head_statistics(planted, ["a b c d e f g h"], tokenizer=tiny_tokenizer())
    # Of ten tokens nine have one before them.
    assert found.values["previous"][0, 0] > 0.88
    assert found.values["entropy"][0, 0] < 0.3
    assert found.values["distance"][0, 0] == pytest.approx(1, abs=0.01)
    [sentence] = found.sentences()
    assert sentence == "Layer 0, head 0: 90\u00a0% of all weight goes to the token before"
    assert found.sentences(least=0.95) == []
    # Who asks for smaller shares is told where they go.
    even = dataclasses.replace(found, values={n: 0 * v for n, v in found.values.items()})
    even.values["sep"][0, 0] = 0.125
    assert even.sentences(least=0.1) == ["Layer 0, head 0: 12\u00a0% of all weight goes to [SEP]"]


def test_long_texts_are_cut(encoder):
    found = head_statistics(
        encoder, ["film the " * 90, "x"], tokenizer=tiny_tokenizer(), max_seq_length=10
    )
    assert (found.texts, found.tokens, found.cut_texts) == (2, 13, 1)


@pytest.mark.slow
def test_half_precision_and_packed_models_are_read_in_float32(encoder, statistics):
    keras.utils.set_random_seed(0)
    other = type(encoder).from_config(
        encoder.get_config() | {"dtype": "mixed_bfloat16", "packed": True}
    )
    other.set_weights(encoder.get_weights())
    found = head_statistics(other, TEXTS, tokenizer=tiny_tokenizer(), batch_size=3)
    for name, values in statistics.values.items():
        np.testing.assert_allclose(found.values[name], values, **REORDERED)


def test_files(statistics, tmp_path):
    statistics.save(tmp_path / "new")
    with open(tmp_path / "new" / "heads.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["layer"], row["head"]) for row in rows] == [
        ("0", "0"),
        ("0", "1"),
        ("1", "0"),
        ("1", "1"),
    ]
    written = [float(row["entropy"]) for row in rows]
    np.testing.assert_allclose(written, statistics.values["entropy"].ravel(), rtol=1e-5)
    found = json.loads((tmp_path / "new" / "heads.json").read_text(encoding="utf-8"))
    assert found["heads"][3]["sep"] == statistics.values["sep"][1, 1]
    assert found["remarkable"] == statistics.sentences()
    assert found["uniform_entropy"] == pytest.approx(statistics.uniform_entropy, rel=1e-6)


@pytest.mark.slow
def test_a_picture(statistics, tmp_path):
    plot_head_statistics(statistics, tmp_path / "heads.svg")
    picture = (tmp_path / "heads.svg").read_text(encoding="utf-8")
    # The name of the dashed line, too, also of a model of few layers.
    assert "entropy of each head, nats" in picture and "<!-- all tokens alike -->" in picture
    with pytest.raises(ValueError, match=r"heads.gif does not end with .png or .svg"):
        plot_head_statistics(statistics, tmp_path / "heads.gif")


@pytest.mark.parametrize(
    ("texts", "options", "sentence"),
    [
        (["", "\u200b"], {}, "no text has a piece that the model reads"),
        ([], {}, "no text has a piece that the model reads"),
        (["a", 3], {}, "a text is a int: give strings"),
        ("a b", {}, "texts is one string"),
        (["a"], {"max_seq_length": 2}, "max_seq_length is 2: it must be above 2 and at most 160"),
        (["a"], {"max_seq_length": 161}, "it must be above 2 and at most 160"),
        (["a"], {"batch_size": 0}, "batch_size is 0: it must be at least 1"),
        (["a"], {"max_seq_length": 12.5}, "max_seq_length is 12.5: it must be a whole number"),
    ],
)
def test_bad_input(texts, options, sentence, encoder):
    with pytest.raises(ValueError, match=sentence):
        head_statistics(encoder, texts, tokenizer=tiny_tokenizer(), **options)


def test_uniform_entropy_is_the_most(statistics):
    most = statistics.uniform_entropy * (1 + FORMULA["rtol"])
    assert (statistics.values["entropy"] <= most).all()
