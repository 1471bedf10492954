"""Reading texts: expected values are read off the content by hand."""

import gzip
import json
import re

import pytest

from keras_bert.progress import Progress
from keras_bert.storage.text_lines import FileTexts, TextLines, read_texts

JSON_LINES = '{"text": "short", "body": "the wanted"}\n{"text": "", "body": "other"}\n'


@pytest.mark.parametrize(
    ("name", "content", "column", "expected"),
    [
        ("a.txt", "one\n\ntwo, three\n", "text", ["one", "", "two, three"]),
        ("a.csv", 'id,body\n1,"a, b"\n2,c\n', "body", ["a, b", "c"]),
        ("a.tsv", "id\ttext\n1\ta, b\n2\t\n", "text", ["a, b", ""]),
        ("a.jsonl", JSON_LINES, "text", ["short", ""]),
        ("a.jsonl", JSON_LINES, "body", ["the wanted", "other"]),
        ("a.jsonl", '{"text": "a"}\n\n \n{"text": "b"}\n', "text", ["a", "b"]),
        ("a.jsonl.gz", JSON_LINES, "text", ["short", ""]),
        ("a.JSONL.GZ", JSON_LINES, "text", ["short", ""]),
    ],
)
def test_texts_of_a_file(name, content, column, expected, tmp_path):
    written = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(written) if name[-2:].lower() == "gz" else written)
    assert read_texts(tmp_path / name, column) == expected
    if column == "text":
        texts = FileTexts(tmp_path / name)
        told = []
        with Progress(texts.total, texts.unit, "reading") as progress:
            progress.update = told.append
            assert list(texts.watched(progress)) == expected
        assert sum(told) == texts.total


@pytest.mark.parametrize(
    ("name", "column", "sentence"),
    [
        ("a.csv.gz", "text", "a.csv.gz is a packed table: unpack it first"),
        ("a.tsv.gz", "text", "a packed table: unpack it first"),
        ("a.jsonl", "title", "'title' among 'text', 'body', 'several': name the right one"),
        ("b.csv", "text", "name the column of the texts 'text'"),
        ("a.jsonl", "several", "a.jsonl, line 2: several is a list: give each of its texts a row"),
        ("a.txt", "body", "a.txt is no .csv, .tsv or .jsonl, so it has no column 'body'"),
        ("a.jsonl.gz", "body", "is no .csv, .tsv or .jsonl, so it has no column 'body'"),
    ],
)
def test_what_has_no_such_texts_is_refused(name, column, sentence, tmp_path):
    lines = [json.loads(line) for line in JSON_LINES.splitlines()]
    lines[0]["several"], lines[1]["several"] = "a string", ["two", "texts"]
    (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
    if name == "b.csv":
        (tmp_path / name).write_text("title\nNo text.\n")
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_texts(tmp_path / name, column)


def test_line_ends_of_old_macs_are_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one text\rtwo texts\r")
    with pytest.raises(ValueError, match=r"a\.txt, line 1 is all of .*: write line ends as \\n or"):
        read_texts(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_bytes(b"with one\rinside\r\nanother\r")
    assert read_texts(tmp_path / "b.txt") == ["with one\rinside", "another"]


@pytest.mark.parametrize("read", [read_texts, TextLines, FileTexts])
def test_a_folder_or_a_pattern_in_place_of_a_file_is_refused(read, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a\.txt does not exist: give a file with a text"):
        read(tmp_path / "a.txt")
    pattern = r"\*\.txt does not exist: give one file, not a pattern: a file with a text a line"
    with pytest.raises(FileNotFoundError, match=pattern):
        read(tmp_path / "*.txt")
    with pytest.raises(ValueError, match=r" is a folder: give a file with a text a line"):
        read(tmp_path)
