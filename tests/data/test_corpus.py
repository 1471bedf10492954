import gzip
import json

import pytest

from keras_bert.data import corpus as corpus_module
from keras_bert.data.corpus import Corpus, read_documents
from keras_bert.data.documents import MAX_DOCUMENT_CHARACTERS


def write(path, content):
    content = content.encode() if isinstance(content, str) else content
    if path.suffix == ".gz":
        content = gzip.compress(content)
    path.write_bytes(content)
    return str(path)


TWO_DOCUMENTS = "One. Two.\nThree.\n\n\n  \nFour.\r\n"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a"])
def test_blank_lines_divide_documents_and_paragraphs_are_split(tmp_path, name):
    path = write(tmp_path / name, TWO_DOCUMENTS)
    assert list(read_documents([path])) == [["One.", "Two.", "Three."], ["Four."]]


@pytest.mark.parametrize("name", ["a.TXT.GZ", "a.Gz"])
def test_the_case_of_an_ending_says_nothing(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(TWO_DOCUMENTS.encode()))
    assert list(read_documents([path])) == [["One.", "Two.", "Three."], ["Four."]]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.JSONL", "a.ndjson", "a.json.gz"])
def test_json_lines_hold_a_document_each(tmp_path, name):
    records = [{"id": 1, "text": "One. Two.\n\nThree."}, {"id": 2, "text": "Four."}]
    path = write(tmp_path / name, "\n".join(map(json.dumps, records)) + "\n\n")
    assert list(read_documents([path])) == [["One.", "Two.", "Three."], ["Four."]]


def test_the_text_field_has_a_name(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"body": "One."}')
    assert list(read_documents([path], text_field="body")) == [["One."]]
    with pytest.raises(ValueError, match=r"a\.jsonl, line 1 .*'text'.*body.*--text_field"):
        list(read_documents([path]))


@pytest.mark.parametrize("line", ["{", '["text"]', '{"text": 3}'])
def test_a_line_that_is_no_json_object_is_named(tmp_path, line):
    path = write(tmp_path / "a.jsonl", '{"text": "fine"}\n' + line)
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2 "):
        list(read_documents([path]))


@pytest.mark.parametrize(
    "content", ['[{"text": "a"}]', ' \n[\n{"text": "a"}\n]', "[" + " " * (2 << 20)]
)
def test_an_array_of_documents_is_refused_before_it_is_read(tmp_path, content):
    path = write(tmp_path / "a.json", content)
    with pytest.raises(ValueError, match=r"a\.json is one array: write each document .* a line of"):
        list(Corpus([path]))


def test_json_of_several_lines_is_refused(tmp_path):
    path = write(tmp_path / "a.json", '{\n  "text": "a"\n}\n')
    with pytest.raises(
        ValueError, match=r"a\.json, line 1 is not JSON .*each line must be an object"
    ):
        list(Corpus([path]))


def test_half_a_surrogate_pair_does_not_travel_on(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "a\\ud800b"}')
    assert list(read_documents([path])) == [["a\ufffdb"]]


def test_documents_end_with_their_file_and_globs_are_sorted(tmp_path):
    for name in ("b.txt", "a.txt"):
        write(tmp_path / name, f"{name} first\n{name} second")
    expected = [["a.txt first", "a.txt second"], ["b.txt first", "b.txt second"]]
    assert list(read_documents([tmp_path / "*.txt"])) == expected
    assert list(read_documents([tmp_path / "a.txt", f"{tmp_path}/?.txt"])) == expected


def test_a_file_with_brackets_in_its_name_is_no_glob(tmp_path):
    assert list(read_documents([write(tmp_path / "a[1].txt", "One.")])) == [["One."]]


def test_a_corpus_can_be_read_again_and_counts_bytes(tmp_path):
    corpus = Corpus([write(tmp_path / "a.txt.gz", TWO_DOCUMENTS), write(tmp_path / "b.txt", "B.")])
    first = list(corpus)
    assert corpus.bytes_read == corpus.total_bytes == (tmp_path / "a.txt.gz").stat().st_size + 2
    assert list(corpus) == first
    assert list(corpus.paragraphs()) == ["One. Two.", "Three.", "Four.", "B."]


def test_no_file_and_folders_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file matches --input '.*/\*\.txt'"):
        Corpus([tmp_path / "*.txt"])
    with pytest.raises(ValueError, match=r"is a folder: give its files"):
        Corpus([tmp_path])
    with pytest.raises(ValueError, match="--input is empty"):
        Corpus([])


# The second case lies behind the first block that is read.
@pytest.mark.parametrize("before", [b"fine\n", "ä\n".encode() * 700_000])
def test_bytes_that_are_not_utf8_are_named_or_replaced(tmp_path, before):
    path = write(tmp_path / "a.txt", before + b"bad \xff byte")
    with pytest.raises(
        ValueError, match=rf"a\.txt is not UTF-8 at byte {len(before) + 4}: .*--err"
    ):
        list(Corpus([path]))
    assert list(Corpus([path], errors="replace"))[-1].paragraphs[-1] == "bad \ufffd byte"


def test_the_byte_in_a_gz_is_that_of_its_content(tmp_path):
    path = write(tmp_path / "a.txt.gz", b"fine\n" * 1000 + b"\xff")
    with pytest.raises(ValueError, match=r"a\.txt\.gz is not UTF-8 at byte 5000 of its content: "):
        list(Corpus([path]))


def test_a_byte_order_mark_is_no_part_of_json(tmp_path):
    path = write(tmp_path / "a.jsonl", '\ufeff{"text": "One."}\n{"text": "Two."}')
    assert list(Corpus([path]).paragraphs()) == ["One.", "Two."]


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"not gzip"])
def test_a_damaged_gz_is_named(tmp_path, damage):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(damage(gzip.compress(TWO_DOCUMENTS.encode() * 100)))
    with pytest.raises(ValueError, match=r"a\.txt\.gz is damaged or cut off"):
        list(Corpus([path]))


def test_large_documents_come_in_parts_that_share_a_number(tmp_path):
    lines = ["x" * 999] * 2500
    text = "small\n\n" + "\n".join(lines) + "\n\nlast"
    documents = list(Corpus([write(tmp_path / "a.txt", text)]))
    parts = documents[1:-1]
    assert len(parts) == 3
    assert len({part.number for part in parts}) == 1
    assert documents[0].number < parts[0].number < documents[-1].number
    assert [line for part in parts for line in part.paragraphs] == lines
    for part in parts:
        assert sum(map(len, part.paragraphs)) < MAX_DOCUMENT_CHARACTERS + 1000


@pytest.mark.parametrize("word", ["word ", "äöü", "\N{GRINNING FACE}"])
def test_ten_megabytes_without_a_newline_lose_nothing(tmp_path, word):
    text = word * (10_000_000 // len(word.encode()))
    documents = list(Corpus([write(tmp_path / "a.txt", text)]))
    assert len(documents) > 1
    assert len({document.number for document in documents}) == 1
    paragraphs = [part for document in documents for part in document.paragraphs]
    assert "".join(paragraphs).replace(" ", "") == text.replace(" ", "")
    if word == "word ":
        assert " ".join(paragraphs) == text.strip()
    assert max(map(len, paragraphs)) <= 2 << 20


def test_a_json_text_without_a_newline_is_cut_too(tmp_path):
    text = "word " * 500_000
    path = write(tmp_path / "a.jsonl", json.dumps({"text": text}) + '\n{"text": "end"}')
    documents = list(Corpus([path]))
    assert len({document.number for document in documents[:-1]}) == 1
    assert max(sum(map(len, d.paragraphs)) for d in documents) <= 1.1 * MAX_DOCUMENT_CHARACTERS
    assert " ".join(p for d in documents for p in d.paragraphs) == text + "end"


def test_groups_are_runs_of_files_of_a_size(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "GROUP_BYTES", 10)
    paths = [write(tmp_path / f"{n}.txt", "x" * size) for n, size in enumerate((4, 7, 30, 9, 1))]
    groups = Corpus(paths).groups()
    assert [group.paths for group in groups] == [paths[:2], paths[2:3], paths[3:]]
    assert [document for group in groups for document in group.paragraphs()] == list(
        Corpus(paths).paragraphs()
    )


def test_the_fingerprint_changes_with_a_file(tmp_path):
    path = write(tmp_path / "a.txt", "One.")
    before = Corpus([path]).fingerprint()
    assert Corpus([path]).fingerprint() == before
    write(tmp_path / "a.txt", "Two.")
    assert Corpus([path]).fingerprint() != before
