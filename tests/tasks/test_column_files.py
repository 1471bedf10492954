"""Column files: what they mean, and one sentence with the line for what is broken."""

import sys
from pathlib import Path

import pytest

from keras_bert.finetuning.task import TaskDescription
from keras_bert.tasks.tagging.column_files import (
    WordColumns,
    read_columns,
    read_sentences,
    split_words,
)
from keras_bert.tasks.tagging.conll import (
    conll2003_task,
    conll_task,
    read_sentences_to_predict,
)
from keras_bert.tasks.tagging.head import TagHead
from keras_bert.tasks.tagging.sentences import TaggedSentence

# In the form of the files of CoNLL-2003: word, part of speech, chunk, entity in IOB1.
CONLL = """-DOCSTART- -X- -X- O

Rita NNP I-NP I-PER
Lee NNP I-NP I-PER
saw VBD I-VP O
Oslo NNP I-NP I-LOC
. . O O

-DOCSTART- -X- -X- O

Bonn NNP I-NP I-LOC
Oslo NNP I-NP B-LOC
"""
FIRST = ("Rita", "Lee", "saw", "Oslo", ".")


@pytest.fixture
def write(tmp_path):
    def written(content, name="train.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def test_conll_2003(write):
    first, second = read_columns(write(CONLL))
    assert first == TaggedSentence(FIRST, ("I-PER", "I-PER", "O", "I-LOC", "O"), 1, 3)
    assert second == TaggedSentence(("Bonn", "Oslo"), ("I-LOC", "B-LOC"), 2, 11)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(" ", "\t"),
        lambda text: text.replace(" ", "   "),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n\n", "\n \n"),
    ],
)
def test_byte_order_mark_line_ends_tabs_and_blank_lines(write, change):
    assert read_columns(write(change(CONLL))) == read_columns(write(CONLL, "plain.txt"))


def test_other_columns_and_words_with_spaces(write):
    path = write("1\tNew York\tX\n2\tis\tY\n\n1\tbig\tX\n", "train.tsv")
    first, second = read_columns(path, WordColumns(word=1, label=2))
    assert first == TaggedSentence(("New York", "is"), ("X", "Y"), 0, 1)
    assert second == TaggedSentence(("big",), ("X",), 0, 4)


def test_blanks_beside_a_tab_are_of_no_tag_and_no_word(write, tmp_path):
    write("New York \tB-LOC \nis\t O\n\nRome\tB-LOC\n", "train.tsv")
    data = conll_task().read(tmp_path)
    # Without its blank "B-LOC " is the "B-LOC" of the other sentence, not of a type of its own.
    assert data.labels == ("O", "B-LOC", "I-LOC")
    assert [s.words for s in data.splits["train"]] == [("New York", "is"), ("Rome",)]


def test_a_no_break_space_is_part_of_a_word(write):
    (sentence,) = read_columns(write("10\u00a0000  O\n\u00a0 O\n euros\tO \n"))
    assert sentence.words == ("10\u00a0000", "\u00a0", "euros")
    assert sentence.tags == ("O", "O", "O")


def test_a_document_start_ends_the_sentence_before(write):
    sentences = read_columns(write("a O\n-DOCSTART- O\nb O\n"))
    assert [(s.words, s.document) for s in sentences] == [(("a",), 0), (("b",), 1)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "has no words"),
        ("\n\n-DOCSTART- O\n", "has no words"),
        ("a O\nb X O\n", "line 2 has 3 columns but line 1 has 2"),
        ("a O\n\nb\n", "line 3 has 1 columns but line 1 has 2"),
        ("a\tO\nb\t\n", "line 2: the word or its label is empty"),
        ("a\n\nb\n", "line 1 has 1 columns, and word and label would be the same"),
        (b"a O\n\xe9 O\n", "line 2 is not UTF-8"),
        ("a B-X\rb O\r\rc O\r", "line 1 has a carriage return that no line feed follows"),
        ("a O\r\nb O\r\r\n", "line 2 has a carriage return"),
    ],
)
def test_broken_files(write, content, sentence):
    path = write(content)
    with pytest.raises(ValueError, match=f"^{path}.* ?{sentence}"):
        read_columns(path)


def test_missing_columns_and_files(write, tmp_path):
    with pytest.raises(ValueError, match="line 1 has 2 columns.* index 2: .*--label_index"):
        read_columns(write("a O\n"), WordColumns(0, 2))
    with pytest.raises(ValueError, match="line 1 has 2 columns.* index -3: .*--word_index"):
        read_columns(write("a O\n"), WordColumns(-3, 1))
    with pytest.raises(FileNotFoundError, match=r"none\.txt does not exist"):
        read_columns(tmp_path / "none.txt")
    with pytest.raises(ValueError, match="is a folder: give a file of words and labels"):
        read_columns(tmp_path)


def test_words_to_be_tagged(write):
    assert read_sentences(write(CONLL))[0] == TaggedSentence(FIRST, None, 1, 3)
    assert [s.words for s in read_sentences(write("a\nb\n\nc\n"))] == [("a", "b"), ("c",)]
    # Lines of text: never columns without a blank line, whatever their numbers of words.
    text = read_sentences(write("Rita Lee\nis in Oslo.\n"))
    assert [s.words for s in text] == [("Rita", "Lee"), ("is", "in", "Oslo", ".")]
    text = read_sentences(write("Rita Lee\n\nis in Oslo.\n"))
    assert [s.line for s in text] == [1, 3]
    tabs = read_sentences(write("New York\tNNP\n\nis\tVBZ\n"))
    assert [s.words for s in tabs] == [("New York",), ("is",)]
    upper = read_sentences(write("Rita is in Oslo\n", "NEW.TXT"))
    assert [s.words for s in upper] == [("Rita", "is", "in", "Oslo")]
    with pytest.raises(ValueError, match="no words"):
        read_sentences(write(" \n"))


@pytest.mark.parametrize("name", ["new.conll", "new.txt"])
def test_words_alone_are_tagged_by_a_model_of_another_column(write, name):
    found = read_sentences(write("Rita\nsleeps\n\nBob\n", name), WordColumns(1, 0))
    assert [sentence.words for sentence in found] == [("Rita", "sleeps"), ("Bob",)]
    # predict.py has no flag for a column.
    expected = "has 2 columns, so there is none of index 2: give the columns that the model was"
    with pytest.raises(ValueError, match=expected):
        read_sentences(write("O Rita\n\nO Bob\n", "two.conll"), WordColumns(2, 0))


def test_a_word_counted_from_the_end_is_found_without_the_labels(write, tmp_path):
    write("1 Rita B-PER\n2 sleeps O\n")
    data = conll_task(word_index=-2).read(tmp_path)
    assert data.text_columns == {"word": "1"}
    description = TaskDescription("conll", TagHead(), data.text_columns, 8)
    found = read_sentences_to_predict(write("1 Bob\n2 runs\n", "new.conll"), description)
    assert found.examples[0].words == ("Bob", "runs")


@pytest.mark.parametrize("name", ["new.csv", "new.jsonl", "new.JSON"])
def test_tables_and_json_hold_no_words(write, name):
    # Read as columns, the first word would be '{"text":'.
    with pytest.raises(ValueError, match=rf"{name} is no file of words: write a sentence a line"):
        read_sentences(write('{"text": "Rita sleeps"}\n', name))


def test_a_text_file_whose_lines_end_in_tags_holds_columns(write):
    found = read_sentences(write("Rita B-PER\nsleeps O\n\nBob S-PER\n", "test.txt"))
    assert [sentence.words for sentence in found] == [("Rita", "sleeps"), ("Bob",)]


def test_sentences_of_equally_many_words_are_not_taken_for_columns(write):
    text = "Rita lives in Oslo .\n\nBob works in Rome .\n"
    with pytest.raises(
        ValueError, match=r"train\.txt may hold .* 5 columns .*\.conll .*blank lines"
    ):
        read_sentences(write(text))
    # Both remedies of the sentence.
    lines = read_sentences(write(text.replace("\n\n", "\n")))
    assert [len(s.words) for s in lines] == [5, 5]
    assert [s.words for s in read_sentences(write(text, "a.conll"))] == [("Rita",), ("Bob",)]
    with pytest.raises(ValueError, match="line 3 has 2 columns but line 2 has 1"):
        read_sentences(write("-DOCSTART-\na\nb c\n"))


def test_punctuation_around_words_is_split_off():
    words = list(split_words("(“Zoë’s” U.S.-based friend…) — no"))
    assert words == ["(", "“", "Zoë’s", "”", "U.S.-based", "friend", "…", ")", "—", "no"]
    # Symbols stay. Python 3.12 knows the last character as punctuation, Python 3.11 does not.
    assert list(split_words("$5 §a| b\U00011b00")) == ["$5", "§", "a|", "b\U00011b00"]


def test_the_task_reads_all_splits_in_bio(write, tmp_path, capsys):
    write(CONLL)
    write("Rita I-PER\nLee I-PER\n", "dev.conll")
    write("Bonn\n", "test.txt")
    data = conll2003_task().read(tmp_path)
    assert data.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert [s.tags for s in data.splits["train"]] == [
        ("B-PER", "I-PER", "O", "B-LOC", "O"),
        ("B-LOC", "B-LOC"),
    ]
    assert data.splits["validation"][0].tags == ("B-PER", "I-PER")
    assert data.splits["test"] == [TaggedSentence(("Bonn",), None, 0, 1)]
    assert "entities in IOB1" in capsys.readouterr().out


def test_plain_labels_by_frequency(write, tmp_path):
    write(CONLL)
    task = conll_task(label_index=1, scheme="plain")
    data = task.read(tmp_path)
    assert data.labels == ("NNP", ".", "VBD")
    assert list(task.metrics) == ["accuracy"]
    assert data.splits["train"][0].tags == ("NNP", "NNP", "VBD", "NNP", ".")


@pytest.mark.parametrize(
    ("dev", "arguments", "sentence"),
    [
        ("a O\nb I-ORG\n", {}, r"dev.txt, line 2: the label 'B-ORG' is not in the training data"),
        ("a O\nb NN\n", {}, r"dev.txt, line 2: the label 'NN' is none of the scheme IOB1"),
        ("a O\n", {"scheme": "BIO", "label_index": 1}, r"train.txt, line 3: the label 'NNP'"),
        ("a O\n", {"label_index": 1}, r"train.txt, line 3: the label 'NNP' .*--scheme=plain"),
        ("a O\n", {"labels": ["PER"]}, r"train.txt, line 6: the label 'B-LOC' is not among"),
        ("a XX\n", {"scheme": "plain"}, r"dev.txt, line 1: the label 'XX' is not in the training"),
        ("a O\n", {"label_feature": "pos"}, "label_feature is 'pos', but .* is no TFDS set: name"),
        ("a O\n", {"labels": ["PER", "LOC", "PER"]}, "labels has PER twice: name each once"),
        ("a O\n", {"labels": "PER"}, "labels is the string 'PER', which would be read letter by"),
        ("a O\n", {"lstm_width": 8}, "lstm_width is 8, but there is no BiLSTM: name the layers"),
        ("a O\n", {"features_from": "last", "lstm_width": 0}, "lstm_width is 0: it must be at"),
    ],
)
def test_what_does_not_fit(write, tmp_path, dev, arguments, sentence):
    write(CONLL)
    write(dev, "dev.txt")
    with pytest.raises(ValueError, match=sentence):
        conll_task(**arguments).read(tmp_path)


def test_nothing_to_learn(write, tmp_path):
    write("a O\nb O\n")
    with pytest.raises(ValueError, match="train.txt, line 1 and all others have the label O"):
        conll_task().read(tmp_path)
    with pytest.raises(ValueError, match="at least two different"):
        conll_task(scheme="plain").read(tmp_path)
    with pytest.raises(ValueError, match="the scheme is 'IOB'"):
        conll_task(scheme="IOB")


@pytest.mark.oracle
def test_published_excerpts(tmp_path):
    # CoNLL-2003 and CoNLL-2000 as the package allennlp carries them for its own tests.
    sys.path.insert(0, str(Path(__file__).parents[1] / "checkpoints"))
    from published_packages import fetch

    folder = fetch("allennlp==0.9.0") / "allennlp" / "tests" / "fixtures" / "data"
    (tmp_path / "train.txt").write_bytes((folder / "conll2003.txt").read_bytes())
    data = conll2003_task(document_context=True).read(tmp_path)
    first, second = data.splits["train"]
    assert first.words == ("U.N.", "official", "Ekeus", "heads", "for", "Baghdad", ".")
    assert first.tags == ("B-ORG", "O", "B-PER", "O", "O", "B-LOC", "O")
    assert (first.document, second.document) == (1, 2)

    (tmp_path / "train.txt").write_bytes((folder / "conll2000.txt").read_bytes())
    data = conll_task().read(tmp_path)
    assert data.splits["train"][0].words[:4] == ("Confidence", "in", "the", "pound")
    assert data.splits["train"][0].tags[:4] == ("B-NP", "B-PP", "B-NP", "I-NP")
