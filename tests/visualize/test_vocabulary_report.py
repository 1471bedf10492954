"""The vocabulary report: which settings it takes, what it tells."""

import re

import pytest

from keras_bert import BertTokenizer, Vocabulary, inspect_vocabulary
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from keras_bert.text.wordpiece.settings import Settings

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "[unused0]", "film", "##s", "a", "Bad", "<b>", "##!"])


@pytest.fixture
def folder(tmp_path):
    BertTokenizer(VOCABULARY, lowercase=True).save(tmp_path)
    return tmp_path


def test_files_folders_and_vocabularies_are_read_alike(folder):
    """Capitals in it would say "cased", but for tokenizer_config.json beside the file."""
    for vocab in (folder, folder / "vocab.txt"):
        report = inspect_vocabulary(vocab)
        assert report.settings.lowercase
        dead = [entry.token for entry in report.contents.unreachable]
        assert dead == ["Bad", "<b>", "##!"]
        assert report.counts is None
    (folder / "tokenizer_config.json").unlink()
    for vocab in (folder / "vocab.txt", VOCABULARY):
        report = inspect_vocabulary(vocab)
        assert not report.settings.lowercase
        assert [entry.token for entry in report.contents.unreachable] == ["<b>", "##!"]
    assert inspect_vocabulary(VOCABULARY, settings=Settings()).settings.lowercase


def test_duplicates_are_named_by_line(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "a", "film", "a"]))
    with pytest.raises(ValueError, match="'a' is on line 6 and again on line 8"):
        inspect_vocabulary(tmp_path / "vocab.txt")


def test_text_and_page(folder, tmp_path):
    texts = iter(["A film, films & <script>", "good films"])
    report = inspect_vocabulary(folder, texts)
    text = "\n".join(report.lines())
    # a film [,] film##s [&] [<] [script] [>] [good] film##s: ten words of twelve pieces
    assert "the text, 10 words: 1.200 pieces per word, 60.000 % of the words [UNK]" in text
    assert "commonest split words: films (2)" in text
    assert "the tokenizer writes it otherwise: 1, such as Bad" in text
    report.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert (
        '<th scope="row">&lt;b&gt;</th><td>the tokenizer splits it</td><td>&lt; b &gt;</td>' in page
    )
    assert re.search(r"words that stay whole</th><td>20\.00 %", page)
    assert '<th scope="row">films</th><td>film ##s</td><td>2</td>' in page
    assert '<th scope="row">&amp;</th><td>ampersand</td><td>1</td>' in page
    assert "Frequency by rank (Zipf)" in page
    # [PAD], [UNK] aside: 6 special and unused, three dead entries.
    assert "8 of 12 entries (66.7 %)" in page


def test_one_string_is_no_list_of_texts(folder):
    with pytest.raises(ValueError, match="texts is one string"):
        inspect_vocabulary(folder, "some text")
    with pytest.raises(ValueError, match="a text is a NoneType: give strings"):
        inspect_vocabulary(folder, ["some text", None])


def test_texts_without_words(folder):
    report = inspect_vocabulary(folder, ["", " "])
    assert report.counts.coverage.words == 0
    assert "It has no words." in report.html()
    assert list(report.lines())
