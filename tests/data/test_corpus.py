import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from keras_bert.data.corpus import reading as corpus_module
from keras_bert.data.corpus import text_files
from keras_bert.data.corpus.documents import MAX_DOCUMENT_CHARACTERS
from keras_bert.data.corpus.reading import Corpus, read_documents
from keras_bert.storage.paths import find_files

ROOT = Path(__file__).parents[2]
COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


def write(path, content):
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(COMPRESS.get(path.suffix.lower(), bytes)(content))
    return str(path)


def write_parquet(path, texts, column="text", **changes):
    table = pa.table({"id": range(len(texts)), column: texts})
    pq.write_table(table, path, **changes)
    return str(path)


TWO_DOCUMENTS = "One. Two.\nThree.\n\n\n  \nFour.\r\n"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a", "a.bz2", "a.txt.xz", "a.txt.zst"])
def test_blank_lines_divide_documents_and_paragraphs_are_split(tmp_path, name):
    path = write(tmp_path / name, TWO_DOCUMENTS)
    assert list(read_documents([path])) == [["One.", "Two.", "Three."], ["Four."]]


@pytest.mark.parametrize("end", ["\r", "\r\n", "\r\r\n"])
@pytest.mark.parametrize("block", [1, 2, 7, 1 << 20])
def test_lines_end_as_on_any_system(tmp_path, monkeypatch, end, block):
    """Also where a block ends between CR and LF."""
    monkeypatch.setattr(text_files, "_BLOCK_BYTES", block)
    path = write(tmp_path / "a.txt", end.join(["One", "is.", "", "", "Two.", "Ä.", ""]))
    assert list(Corpus([path]).paragraphs()) == ["One", "is.", "Two.", "Ä."]
    assert list(read_documents([path])) == [["One", "is."], ["Two.", "Ä."]]
    path = write(tmp_path / "a.jsonl", json.dumps({"text": end.join(["One", "is.", "", "Two."])}))
    assert list(read_documents([path])) == [["One", "is.", "Two."]]


def test_a_large_file_of_lines_that_end_in_cr_alone(tmp_path):
    lines = [f"Sentence {n * n}." for n in range(200_000)]
    documents = list(Corpus([write(tmp_path / "a.txt", "\r".join(lines))]))
    assert [line for document in documents for line in document.paragraphs] == lines


@pytest.mark.parametrize("name", ["a.TXT.GZ", "a.Gz", "a.ZST"])
def test_the_case_of_an_ending_says_nothing(tmp_path, name):
    path = write(tmp_path / name, TWO_DOCUMENTS)
    assert list(read_documents([path])) == [["One.", "Two.", "Three."], ["Four."]]


@pytest.mark.parametrize(
    "name",
    [
        *("a.jsonl", "a.jsonl.gz", "a.JSONL", "a.ndjson", "a.json.gz"),
        *("a.jsonl.zst", "a.jsonl.bz2", "a.ndjson.xz"),
    ],
)
def test_json_lines_hold_a_document_each(tmp_path, name):
    records = [{"id": 1, "text": "One. Two.\n\nThree."}, {"id": 2, "text": "Four."}]
    path = write(tmp_path / name, "\n".join(map(json.dumps, records)) + "\n\n")
    assert list(read_documents([path])) == [["One.", "Two.", "Three."], ["Four."]]


def test_the_text_field_has_a_name(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"body": "One."}')
    assert list(read_documents([path], text_field="body")) == [["One."]]
    with pytest.raises(ValueError, match=r"a\.jsonl, line 1 .*'text'.*body.*--text_field"):
        list(read_documents([path]))


@pytest.mark.parametrize("name", ["part-00000", "a.jsonlines", "a.txt.gz"])
def test_json_lines_under_the_name_of_a_text_are_refused(tmp_path, name):
    lines = '\ufeff\n{"body": "One.", "n": 1}\n{"body": "Two.", "n": 2}\n'
    corpus = Corpus([write(tmp_path / name, lines)], text_field="body")
    with pytest.raises(ValueError, match=r"begins with a JSON object whose field 'body' .*\.jsonl"):
        list(corpus)
    # Not every brace is one of JSON, and not every object holds the text.
    for text in ('{"body": "One."', '{"n": 1}', '{"body": 1}', "{One.}"):
        path = write(tmp_path / name, text + "\nTwo.")
        assert list(read_documents([path], "body")) == [[text, "Two."]]


def test_a_field_that_holds_no_text_is_there(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "One."}\n{"text": null}')
    with pytest.raises(ValueError, match=r"line 2 has null in field 'text', not a text: remove"):
        list(read_documents([path]))


@pytest.mark.parametrize(
    "line",
    ["{", '["text"]', '{"text": 3}', '{"text": "a", "n": ' + "9" * 5000 + "}", "[" * 100_000],
    ids=["cut", "list", "number", "digits", "nested"],
)
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


def test_a_file_is_read_once_whatever_its_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.txt", "One.")
    (tmp_path / "link.txt").symlink_to("a.txt")
    names = ["./a.txt", "a.txt", tmp_path / "a.txt", "link.txt"]
    assert [one.name for one in Corpus(names).sources] == ["./a.txt"]
    assert find_files(names) == find_files(["./?*.txt"]) == ["./a.txt"]
    assert list(read_documents(names)) == list(read_documents("a.txt")) == [["One."]]
    assert Corpus(tmp_path / "a.txt").total_bytes == 4


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


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "TGZ", "tar.bz2", "tar.xz", "tar.zst"])
def test_an_archive_is_refused(tmp_path, ending):
    path = write(tmp_path / f"corpus.{ending}", "One.")
    with pytest.raises(ValueError, match=rf"corpus\.{ending} is an archive of files: unpack it"):
        Corpus([path])


@pytest.mark.parametrize("ending", ["csv", "TSV", "csv.gz", "tsv.zst"])
def test_a_table_is_refused(tmp_path, ending):
    path = write(tmp_path / f"corpus.{ending}", "text,label\nOne.,1\n")
    with pytest.raises(ValueError, match=rf"corpus\.{ending} is a table, .*: write its texts as"):
        Corpus([path])


def test_the_byte_in_a_gz_is_that_of_its_content(tmp_path):
    path = write(tmp_path / "a.txt.gz", b"fine\n" * 1000 + b"\xff")
    with pytest.raises(ValueError, match=r"a\.txt\.gz is not UTF-8 at byte 5000 of its content: "):
        list(Corpus([path]))


@pytest.mark.parametrize("ending", ["", *COMPRESS])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path, ending):
    path = write(tmp_path / f"a.jsonl{ending}", '\ufeff{"text": "One."}\n{"text": "Two."}')
    assert list(Corpus([path]).paragraphs()) == ["One.", "Two."]
    path = write(tmp_path / f"a.txt{ending}", "\ufeffOne.\n\ufeffTwo.")
    # Only the first is one: elsewhere the same character joins what stands beside it.
    assert list(Corpus([path]).paragraphs()) == ["One.", "\ufeffTwo."]
    # But a line of nothing else is blank: a file was joined that begins with a blank line.
    path = write(tmp_path / f"b.txt{ending}", "One.\n\ufeff\nTwo.")
    assert list(read_documents([path])) == [["One."], ["Two."]]
    # A text of JSON is one document, whatever its lines are.
    path = write(tmp_path / f"b.jsonl{ending}", json.dumps({"text": "One.\n\ufeff\nTwo."}))
    assert list(read_documents([path])) == [["One.", "Two."]]


# The bytes that are overwritten lie in the middle: each format has a checksum, or cannot go on.
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"not compressed",
        lambda data: data[: len(data) // 2] + bytes(8) + data[len(data) // 2 + 8 :],
    ],
)
@pytest.mark.parametrize("ending", COMPRESS)
def test_a_damaged_compressed_file_is_named(tmp_path, ending, damage):
    content = "".join(f"Sentence {n * n}.\n" for n in range(1000)).encode()
    whole = COMPRESS[ending](content)
    if ending == ".zst":
        whole = zstandard.ZstdCompressor(write_checksum=True).compress(content)
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(damage(whole))
    if ending == ".gz" and not damage(whole):  # to gzip, no member is no content
        assert list(Corpus([path])) == []
        return
    with pytest.raises(ValueError, match=rf"a\.txt{ending} is damaged or cut off \(.*copy or"):
        list(Corpus([path]))


def test_parts_of_a_compressed_file_follow_each_other(tmp_path):
    """As of `cat`, and of compressors that work on several cores."""
    for ending, compress in COMPRESS.items():
        path = tmp_path / f"a.txt{ending}"
        path.write_bytes(compress(b"One. ") + compress(b"") + compress(b"Two.\n\nThree."))
        assert list(read_documents([path])) == [["One.", "Two."], ["Three."]], ending


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary("int32", "string")],
)
@pytest.mark.parametrize("rows", [2, 1000])
def test_a_row_of_a_parquet_file_is_a_document(tmp_path, kind, rows):
    texts = [f"One {n}. Two.\n\nThree." for n in range(rows)]
    path = write_parquet(tmp_path / "a.parquet", pa.array(texts).cast(kind), row_group_size=300)
    corpus = Corpus([path])
    expected = [[f"One {n}.", "Two.", "Three."] for n in range(rows)]
    assert list(read_documents([path])) == expected
    assert [document.number for document in corpus] == list(range(rows))
    assert corpus.bytes_read == corpus.total_bytes == os.path.getsize(path)
    write(tmp_path / "a.jsonl", "\n".join(json.dumps({"text": text}) for text in texts))
    assert list(corpus.paragraphs()) == list(Corpus([tmp_path / "a.jsonl"]).paragraphs())


def test_a_parquet_file_without_its_text_is_refused_before_it_is_read(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", ["One."], column="body")
    assert list(read_documents([path], text_field="body")) == [["One."]]
    with pytest.raises(ValueError, match=r"a.parquet has no column 'text' \(its .*: id, body\)"):
        Corpus([path])
    with pytest.raises(ValueError, match=r"column 'id' of .*a.parquet holds int64, not text"):
        Corpus([path], text_field="id")
    path = write_parquet(tmp_path / "b.parquet", ["One.", None])
    with pytest.raises(ValueError, match=r"b.parquet, row 1 has no text in column 'text'"):
        list(Corpus([path]))
    raw = pa.array([b"fine", b"bad \xff byte"], pa.binary()).view(pa.string())
    path = write_parquet(tmp_path / "c.parquet", raw)
    with pytest.raises(ValueError, match=r"c.parquet, row 1 is not UTF-8 at byte 4 of 'text'"):
        list(Corpus([path]))
    assert list(read_documents([path], errors="replace")) == [["fine"], ["bad \ufffd byte"]]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-3],
        lambda data: data[: len(data) // 2],
        lambda data: data[: len(data) // 2] + bytes(40) + data[len(data) // 2 + 40 :],
    ],
)
def test_a_damaged_parquet_file_is_named(tmp_path, damage):
    path = tmp_path / "a.parquet"
    write_parquet(path, [f"Sentence {n * n}." for n in range(1000)], write_page_checksum=True)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a.parquet is damaged or no Parquet file \(\w"):
        list(Corpus([path]))


def test_compressed_files_come_from_remote_storage_too(tmp_path):
    import tensorflow as tf

    write(tmp_path / "a.txt.zst", TWO_DOCUMENTS)
    write_parquet(tmp_path / "b.parquet", ["Five."])
    for name in ("a.txt.zst", "b.parquet"):
        tf.io.gfile.copy(str(tmp_path / name), f"ram://{name}", overwrite=True)
    remote = Corpus(["ram://a.txt.zst", "ram://b.parquet"])
    local = Corpus([tmp_path / "a.txt.zst", tmp_path / "b.parquet"])
    assert list(remote) == list(local)
    assert [source.fingerprint() for source in remote.sources] == [
        source.fingerprint() for source in local.sources
    ]


@pytest.mark.slow
def test_memory_does_not_grow_with_a_compressed_file(tmp_path):
    """48 MB of text, in the Parquet file one group of rows, and a file of equal bytes."""
    line = " ".join(f"word{n * n}" for n in range(100)) + ".\n\n"
    copies = 48_000_000 // len(line)
    for ending, compress in COMPRESS.items():
        for name, count in (("small", 1), ("large", copies)):
            (tmp_path / f"{name}.txt{ending}").write_bytes(compress(line.encode() * count))
    write_parquet(tmp_path / "small.parquet", [line])
    write_parquet(tmp_path / "large.parquet", [f"{n} {line}" for n in range(copies)])
    (tmp_path / "blank.txt.zst").write_bytes(zstandard.compress(b" " * 100_000_000))
    program = (
        "import resource, sys\nfrom keras_bert.data.corpus.reading import Corpus\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "count = lambda name: sum(1 for _ in Corpus([name]))\n"
        "endings = sys.argv[1:]\n"
        "for ending in endings: count(f'small{ending}')\n"
        "before = peak()\n"
        f"for ending in endings: assert count(f'large{{ending}}') == {copies}, ending\n"
        "count('blank.txt.zst')\n"
        "print(peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *(f".txt{ending}" for ending in COMPRESS), ".parquet"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        # One arena of memory, whatever threads the machine's cores are given.
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        | {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 24_000  # KiB


def test_a_library_that_is_not_installed_is_asked_for(tmp_path):
    write(tmp_path / "a.jsonl.zst", "{}")
    write_parquet(tmp_path / "b.parquet", ["One."])
    program = (
        "import sys\n"
        "sys.modules |= {'zstandard': None, 'pyarrow': None}\n"  # as if they were not installed
        "from keras_bert.data.corpus.reading import Corpus\n"
        "for path in sys.argv[1:]:\n"
        "    try: Corpus([path])\n"
        "    except ValueError as error: print(error)\n"
    )
    paths = [str(tmp_path / "a.jsonl.zst"), str(tmp_path / "b.parquet")]
    done = subprocess.run(
        [sys.executable, "-c", program, *paths],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.splitlines() == [
        f"{path} is read with the package {library}, which is not installed: pip install {library}"
        for path, library in zip(paths, ("zstandard", "pyarrow"), strict=True)
    ], done.stderr


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


def test_a_name_that_is_not_utf8_is_no_obstacle(tmp_path):
    path = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"caf\xe9.txt"))
    write(Path(path), "One.")
    assert list(read_documents([path])) == [["One."]]
    assert Corpus([path]).fingerprint()


def test_the_fingerprint_changes_with_a_file(tmp_path):
    path = write(tmp_path / "a.txt", "One.")
    before = Corpus([path]).fingerprint()
    assert Corpus([path]).fingerprint() == before
    write(tmp_path / "a.txt", "Two.")
    assert Corpus([path]).fingerprint() != before
