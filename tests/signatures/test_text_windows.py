"""Which pieces of a text fall into which window; expected rows are written out by hand."""

import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor, BertTokenizer, Vocabulary
from keras_bert.signatures.text_windows import TextWindows
from keras_bert.text.vocabulary import SPECIAL_TOKENS

LETTERS = "abcdefghijk"
TOKENIZER = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *LETTERS]))
TEXTS = [" ".join(letters) for letters in ("abcdefg", "", "abcd", "abcde", LETTERS)]


def rows(windows, texts=TEXTS):
    """The windows of each text as strings, without [CLS] and [SEP], which are checked."""
    vocabulary = TOKENIZER.vocabulary
    ids, segments = windows.rows(TOKENIZER(texts), vocabulary)
    assert not tf.reduce_any(segments.flat_values != 0)
    assert segments.nested_row_lengths()[1].numpy().tolist() == (
        ids.nested_row_lengths()[1].numpy().tolist()
    )
    found = []
    for text in ids.to_list():
        assert {(row[0], row[-1]) for row in text} == {(vocabulary.cls_id, vocabulary.sep_id)}
        found.append(["".join(vocabulary.tokens[i] for i in row[1:-1]) for row in text])
    return found


def test_windows_hold_these_pieces():
    # Room for 4 pieces. The next window begins 3 pieces later, or, by default, half a window.
    assert rows(TextWindows(6, doc_stride=3)) == [
        ["abcd", "defg"],
        [""],
        ["abcd"],
        ["abcd", "de"],
        ["abcd", "defg", "ghij", "jk"],
    ]
    assert rows(TextWindows(6))[0] == ["abcd", "cdef", "efg"]
    assert rows(TextWindows(7))[0] == ["abcde", "defg"]  # half of 5 pieces: 3
    assert rows(TextWindows(6, doc_stride=4))[4] == ["abcd", "efgh", "ijk"]
    limited = TextWindows(6, doc_stride=3, max_windows=2)
    assert rows(limited)[4] == ["abcd", "defg"]
    assert limited.reach == len("abcdefg")
    assert rows(limited, []) == []


def test_a_graph_cuts_alike():
    windows = TextWindows(6, doc_stride=3, max_windows=3)
    cut = tf.function(
        lambda texts: windows.rows(TOKENIZER(texts), TOKENIZER.vocabulary)[0],
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    eager = windows.rows(TOKENIZER(TEXTS), TOKENIZER.vocabulary)[0]
    assert cut(tf.constant(TEXTS)).to_list() == eager.to_list()


def test_a_text_that_fits_is_the_row_of_the_preprocessor():
    ids, _ = TextWindows(6).rows(TOKENIZER(["a b c d", "", "c"]), TOKENIZER.vocabulary)
    packed = BertPreprocessor(TOKENIZER, 6)(["a b c d", "", "c"])["input_ids"]
    assert ids.row_lengths().numpy().tolist() == [1, 1, 1]
    assert ids.values.to_tensor(0, [None, 6]).numpy().tolist() == packed.numpy().tolist()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"doc_stride": 5}, "doc_stride is 5 but a window .* holds 4 pieces.*give at most 4"),
        ({"doc_stride": 0}, "doc_stride is 0: it must be at least 1"),
        ({"max_windows": 0}, "max_windows is 0: it must be at least 1"),
        ({"max_seq_length": 2}, "max_seq_length is 2: it must be at least 3"),
    ],
)
def test_settings_that_lose_pieces_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        TextWindows(**{"max_seq_length": 6} | arguments)
