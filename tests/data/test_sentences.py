import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.data.corpus.sentences import MAX_SENTENCE_CHARACTERS, split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["Mr. and Mrs. Dashwood went to Norland.", "They stayed."],
        ['"What is it?" cried she.', '"Nothing!"', "He left."],
        ["He wrote to J. K. Smith in vol. 3 of 1811.", "Nobody read it."],
        ["(It was late.)", "So he slept."],
        ["It cost 3.50 pounds at no. 7 or so...", "Then more!?", "Yes."],
        ["Is it so?", "“Quite so.”", "‘Indeed.’", "[Exit.]"],
        ["3. The third point ends here.", "The fourth does not."],
        ["Das ist z.B. Herr Dr. Müller.", "Er kommt.", "Änderungen folgen."],
        ["¿Qué pasa?", "¡Nada!", "Bueno."],
        ["Il arrive.", "« Bonjour ! » dit-il.", "Élise part."],
        ["Война и мир.", "Мир и война."],
    ],
)
def test_splits_where_a_reader_would(sentences):
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.parametrize(
    "sentences",
    [["今天很好。", "明天呢？", "「再见！」", "走了"], ["これは本です。", "はい。"]],
)
def test_ideographic_stops_need_no_space(sentences):
    assert split_sentences("".join(sentences)) == sentences


def test_stops_of_other_scripts():
    assert split_sentences("यह एक है। वह दो है।") == ["यह एक है।", "वह दो है।"]
    assert split_sentences("هل هذا؟ نعم هذا.") == ["هل هذا؟", "نعم هذا."]


@pytest.mark.parametrize(
    "sentences",
    [["So it is.", "\U0001e030 is."], ["See no.", "\U00011f51 of it."], ["\U00011f51.", "So."]],
)
def test_letters_and_digits_newer_than_unicode_14_say_nothing(sentences):
    # Python 3.12 knows them, Python 3.11 does not.
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.parametrize(
    "text", ["no stop at all", "One sentence.", "...", "She said ok. and left"]
)
def test_one_sentence_stays_as_it_is(text):
    assert split_sentences(text) == [text]


@pytest.mark.parametrize("text", ["", "  \t "])
def test_nothing_has_no_sentence(text):
    assert split_sentences(text) == []


def test_endless_text_is_cut_at_white_space():
    words = "word " * 1000
    pieces = split_sentences(words)
    assert len(pieces) == 3
    assert max(map(len, pieces)) <= MAX_SENTENCE_CHARACTERS
    assert " ".join(pieces) == words.strip()


def test_one_endless_word_is_cut_at_the_limit():
    assert [len(piece) for piece in split_sentences("x" * 4500)] == [2000, 2000, 500]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("word", ["Mr. ", "J. "])
def test_a_row_of_abbreviations_takes_linear_time(word):
    text = word * 300_000  # half a minute, were the whole sentence copied at each of them
    assert "".join(split_sentences(text)).count(".") == 300_000


@given(st.text(alphabet="ab AB.!?\"') \n。　1") | st.text())
def test_nothing_but_white_space_is_lost(text):
    pieces = split_sentences(text)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(piece == piece.strip() and piece for piece in pieces)


@pytest.mark.parametrize("stop", [".", "।"])
def test_a_row_of_stops_takes_linear_time(stop):
    assert len(split_sentences(stop * 100_000 + "x")) == 51  # minutes, were each stop tried anew
