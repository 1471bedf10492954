"""Reading tables: expected values are read off the bytes by hand."""

import pytest

from keras_bert.storage.tables import read_table


def table(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path)


def rows(read):
    return [(row.line, row.values) for row in read.rows]


def test_csv_keeps_quotes_separators_and_line_ends_inside_fields(tmp_path):
    read = table(
        tmp_path,
        "a.csv",
        '\ufefftext,label\r\n"He said ""no"", twice",1\r\n\r\n"two\nlines",0\r\nlast,1',
    )
    assert read.columns == ("text", "label")
    assert rows(read) == [
        (2, {"text": 'He said "no", twice', "label": "1"}),
        (4, {"text": "two\nlines", "label": "0"}),
        (6, {"text": "last", "label": "1"}),
    ]


def test_tsv_keeps_quoted_tabs_and_bare_commas(tmp_path):
    read = table(tmp_path, "a.tsv", 'text\tlabel\n"a\tb"\tx\none, two\ty\n"c\nd"\tz\n')
    assert rows(read) == [
        (2, {"text": "a\tb", "label": "x"}),
        (3, {"text": "one, two", "label": "y"}),
        (4, {"text": "c\nd", "label": "z"}),
    ]


def test_jsonl_keeps_strings_and_writes_other_values_as_json(tmp_path):
    read = table(
        tmp_path,
        "a.jsonl",
        '\ufeff{"text": "line\u2028inside", "label": 1}\n'
        "\n"
        '{"text": "é", "label": true, "x": null}\n',
    )
    assert read.columns == ("text", "label", "x")
    assert rows(read) == [
        (1, {"text": "line\u2028inside", "label": "1"}),
        (3, {"text": "é", "label": "true", "x": ""}),
    ]


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "[1, NaN]"])
def test_jsonl_with_a_number_that_is_none_of_json_is_refused(tmp_path, value):
    content = '{"text": "NaN", "label": 1}\n{"text": "b", "label": ' + value + "}\n"
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: label is .*(nan|inf).*: write null"):
        table(tmp_path, "a.jsonl", content)


@pytest.mark.parametrize(
    ("name", "header", "sentence"),
    [
        ("a.csv", "text;label", "among 'text;label': ';' seems .*: write commas, which .csv has"),
        ("a.csv", "text\tlabel", r"'\\t' seems to separate them: write commas"),
        ("a.tsv", "text,label", "',' seems to separate them: write tabs, which .tsv has"),
        ("a.csv", "text", "among 'text': name it"),
        ("a.csv", '"text, cleaned"', "among 'text, cleaned': name it"),
    ],
)
def test_a_header_with_another_separator_is_told(name, header, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        table(tmp_path, name, f"{header}\n{header}\n").column("label", "name it")


def test_half_a_surrogate_pair_is_no_character(tmp_path):
    read = table(tmp_path, "a.jsonl", '{"text": "ok \\ud83d", "label": "\\ud83d\\ude00"}\n')
    assert rows(read) == [(1, {"text": "ok \ufffd", "label": "\U0001f600"})]


def test_fields_longer_than_pythons_default_limit_are_read(tmp_path):
    read = table(tmp_path, "a.csv", "text\n" + "x" * 200_000 + "\n")
    assert len(read.rows[0].values["text"]) == 200_000


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", "", "a.csv has no rows"),
        ("a.csv", "text,label\n", "a.csv has no rows"),
        ("a.jsonl", "\n\n", "a.jsonl has no rows"),
        ("a.csv", b"text\nfine\n\xff\n", "a.csv, line 3 is not UTF-8"),
        ("a.csv", "text,label\na,1\nb\n", "a.csv, line 3 has 1 columns but the header names 2"),
        (
            "a.tsv",
            "a\tb\n1\t2\t3\n",
            r"a.tsv, line 2 has 3 columns but the header names 2 \('a', 'b'\)",
        ),
        (
            "a.csv",
            "text;label\ngood, fine;1\n",
            r"line 2 has 2 columns .* names 1 \('text;label'\): ';' seems to separate them",
        ),
        ("a.csv", 'text,label\n"open,1\nb,2\n', "a.csv, line 2: .*must itself be quoted"),
        ("a.csv", 'text,label\nx,0\n"a" b,1\n', "a.csv, line 3: .*must itself be quoted"),
        # A quotation that one row opens and another closes, the text before or after the label.
        (
            "a.tsv",
            'text\tlabel\na\t1\n"Hi\t0\nb"\t1\n',
            "a.tsv, line 3: .*swallowed a row.*doubled",
        ),
        ("a.tsv", 'label\ttext\r1\t"Hi\r0\tb"\r', "a.tsv, line 2: .*swallowed a row.*doubled"),
        ("a.csv", "text,text\na,b\n", "a.csv, line 1: the column 'text' is named twice"),
        (
            "a.jsonl",
            '{"text": "a"}\n{"text": "a", "text": "b"}\n',
            "a.jsonl, line 2: the field 'text' is named twice: rename",
        ),
        ("a.jsonl", '{"text": "a"}\n{"text"\n', "a.jsonl, line 2 is not valid JSON"),
        ("a.jsonl", '{"n": ' + "9" * 5000 + "}", "a.jsonl, line 1 is not valid JSON: Exceeds the"),
        ("a.jsonl", "[" * 100_000, "a.jsonl, line 1 is not valid JSON: maximum recursion"),
        ("a.jsonl", "[1]\n", "a.jsonl, line 1 holds a list: expected a JSON object"),
        (
            "a.txt",
            "text\n",
            r"a.txt is not one of .csv, .tsv, .jsonl: write a table, such as a .csv",
        ),
        ("a.CSV", "text\na\n", r"a.CSV is not one of .csv, .tsv, .jsonl: write its ending .csv$"),
        ("a.json", "[]", r"a.json is not one of .csv, .tsv, .jsonl: write a JSON object a line"),
        ("a.csv.gz", "", r"a.csv.gz is not one of .csv, .tsv, .jsonl: unpack it first"),
    ],
)
def test_damaged_files_are_refused_with_their_line(tmp_path, name, content, sentence):
    with pytest.raises(ValueError, match=sentence):
        table(tmp_path, name, content)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone.csv does not exist"):
        read_table(tmp_path / "gone.csv")
    with pytest.raises(ValueError, match=r" is a folder: give a file of .csv, .tsv, .jsonl"):
        read_table(tmp_path)
