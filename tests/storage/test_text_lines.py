"""Reading texts: expected values are read off the content by hand."""

import gzip
import re

import pytest

from keras_bert.storage.text_lines import read_texts

JSON_LINES = '{"text": "short", "body": "the wanted"}\n{"text": "", "body": "other"}\n'


@pytest.mark.parametrize(
    ("name", "content", "column", "expected"),
    [
        ("a.txt", "one\n\ntwo, three\n", "text", ["one", "", "two, three"]),
        ("a.csv", 'id,body\n1,"a, b"\n2,c\n', "body", ["a, b", "c"]),
        ("a.jsonl", JSON_LINES, "text", ["short", ""]),
        ("a.jsonl", JSON_LINES, "body", ["the wanted", "other"]),
        ("a.jsonl.gz", JSON_LINES, "text", ["short", ""]),
        ("a.JSONL.GZ", JSON_LINES, "text", ["short", ""]),
    ],
)
def test_texts_of_a_file(name, content, column, expected, tmp_path):
    written = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(written) if name[-2:].lower() == "gz" else written)
    assert read_texts(tmp_path / name, column) == expected


@pytest.mark.parametrize(
    ("name", "column", "sentence"),
    [
        ("a.csv.gz", "text", "a.csv.gz is a packed table: unpack it first"),
        ("a.tsv.gz", "text", "a packed table: unpack it first"),
        ("a.jsonl", "title", "there is no column 'title' among 'text', 'body': name the column"),
        ("a.txt", "body", "a.txt is no .csv, .tsv or .jsonl, so it has no column 'body'"),
        ("a.jsonl.gz", "body", "is no .csv, .tsv or .jsonl, so it has no column 'body'"),
    ],
)
def test_what_has_no_such_texts_is_refused(name, column, sentence, tmp_path):
    (tmp_path / name).write_text(JSON_LINES)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_texts(tmp_path / name, column)
