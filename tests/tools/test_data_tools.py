import json
from pathlib import Path

import pytest

from keras_bert import Vocabulary
from keras_bert.data.records.manifest import Manifest
from tests import command_process
from tests.docs.documents import call

TOOLS = Path(__file__).parents[2] / "tools"
TEXT = "\n\n".join(
    "\n".join(f"The {noun} number {n} is here. It was there before!" for n in range(20))
    for noun in ("house", "garden", "river", "hill")
)


def run(tool, **flags):
    """Runs a tool; returns its exit status, standard output and standard error."""
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    done = command_process.run([TOOLS / f"{tool}.py", *arguments], TOOLS.parent)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    """A folder with a corpus, its vocabulary and its records; and what the tools printed."""
    folder = tmp_path_factory.mktemp("road")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    printed = {}
    for tool, flags in {
        "build_vocab": {
            "input": folder / "*.txt",
            "output": folder / "vocab.txt",
            "vocab_size": 150,
        },
        "create_pretraining_data": {
            "input": folder / "text.txt",
            "vocab": folder / "vocab.txt",
            "output_dir": folder / "records",
            "max_seq_length": 32,
            "num_shards": 2,
            "dupe_factor": 2,
        },
        "inspect_records": {"input": folder / "records", "count": 2},
    }.items():
        status, output, error = run(tool, **flags)
        assert status == 0, error
        printed[tool] = output, error
    return folder, printed


def test_build_vocab_tells_what_the_vocabulary_covers(road):
    folder, printed = road
    tokens = (folder / "vocab.txt").read_text().split("\n")
    assert tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert "house" in tokens
    output, _ = printed["build_vocab"]
    assert f"{len(tokens) - 1} entries" in output
    # Every word of the text occurs often enough to be one piece, digits and stops too.
    assert "note: the corpus holds no more that occur 2 times" in output
    assert (
        "on the first 5,000 paragraphs of the corpus (960 words): 1.000 pieces per word" in output
    )
    assert "0.000 % of the words [UNK], 100.0 % one piece; " in output


def test_build_vocab_reports_on_a_held_out_file(road, tmp_path):
    folder, _ = road
    (tmp_path / "held_out.txt").write_text("The house houser \u4e00 here.\nbefore\n")
    status, output, error = run(
        "build_vocab",
        input=folder / "text.txt",
        output=tmp_path / "vocab.txt",
        vocab_size=150,
        held_out=tmp_path / "held_out.txt",
    )
    assert status == 0, error
    # the | house | house ##r | [UNK] | here | . | before
    assert "held_out.txt (7 words): 1.143 pieces per word, 14.286 % of the words [UNK]" in output
    assert "71.4 % one piece; 7 of " in output


def test_build_vocab_reports_on_each_language(tmp_path):
    (tmp_path / "en.txt").write_text("the cat\n" * 50)
    (tmp_path / "is.txt").write_text("og og\n")
    flags = {
        "input": f"is={tmp_path}/is.txt,en={tmp_path}/en.txt",
        "output": tmp_path / "vocab.txt",
        "vocab_size": 60,
        "min_frequency": 20,
    }
    # 100 words and 2: shares of 10 and 1.4, so that "og" counts for 14 of 114 words, or for 100.
    status, output, error = run("build_vocab", **flags, language_alpha=0.0)
    assert status == 0, error
    assert "en, on the first 5,000 paragraphs of the corpus (100 words): 1.000 pieces" in output
    assert "is, on the first 5,000 paragraphs of the corpus (2 words): 1.000 pieces" in output
    flags["output"] = tmp_path / "other" / "vocab.txt"
    flags["held_out"] = f"is={tmp_path}/is.txt"
    status, output, error = run("build_vocab", **flags, language_alpha=0.5)
    assert status == 0, error
    assert "is.txt (2 words): 2.000 pieces per word" in output
    assert "en, on" not in output


def test_create_pretraining_data_plans_and_sums_up(road):
    folder, printed = road
    output, error = printed["create_pretraining_data"]
    assert "plan: nsp examples of up to 32 pieces from 1 file(s)" in error
    assert "creating examples: " in error
    assert "from 4 documents" in output and "(0 [UNK])" in output
    assert (folder / "records" / "manifest.json").is_file()


def test_texts_are_those_of_the_named_field(road, tmp_path, capsys):
    """A corpus whose field of the usual name holds other words."""
    folder, _ = road
    documents = TEXT.split("\n\n")
    lines = [json.dumps({"text": "wrong wrong words", "body": body}) for body in documents]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    texts = [f"--input={tmp_path / 'corpus.jsonl'}", "--text_field=body"]
    vocab = folder / "vocab.txt"

    made = tmp_path / "made" / "vocab.txt"
    held_out = f"--held_out={tmp_path / 'corpus.jsonl'}"
    call("build_vocab", *texts, f"--output={made}", "--vocab_size=150", held_out)
    assert Vocabulary.from_file(made) == Vocabulary.from_file(vocab)
    assert "corpus.jsonl (960 words): 1.000 pieces per word" in capsys.readouterr().out

    call(
        *("create_pretraining_data", *texts, f"--vocab={vocab}", "--max_seq_length=32"),
        *("--num_shards=2", "--dupe_factor=2", f"--output_dir={tmp_path / 'records'}"),
    )
    found, expected = (Manifest.read(path / "records") for path in (tmp_path, folder))
    assert (found.documents, found.corpus_tokens, found.unknown_tokens) == (4, 960, 0)
    assert found.shards == expected.shards

    call("inspect_vocabulary", *texts, f"--vocab={vocab}", f"--output={tmp_path / 'page.html'}")
    assert "960 words" in capsys.readouterr().out


def test_inspect_records_shows_counts_and_text(road):
    _, printed = road
    output, _ = printed["inspect_records"]
    assert "label 0 " in output and ": b is from another document" in output
    assert "fill rate" in output and "50 %: " in output
    assert output.count("[CLS]") == 2
    assert "masks         none stored" in output


def test_inspect_records_shows_stored_masks(tmp_path):
    from keras_bert.data.records.writing import write_records
    from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
    from tests.data.test_records import masked_example

    write_records(tmp_path / "masked.tfrecord", [masked_example()])
    Vocabulary([*SPECIAL_TOKENS, "five", "six", "seven"]).save(tmp_path / "vocab.txt")
    status, output, error = run("inspect_records", input=tmp_path / "masked.tfrecord")
    assert status == 0, error
    assert "[CLS] five {[MASK]|seven} [SEP]\n  (4 pieces, label 1: b is from another" in output
    assert "masks         25.00 % of the pieces, stored" in output


def test_inspect_records_in_the_folder_itself(road, monkeypatch, capsys):
    folder, printed = road
    monkeypatch.chdir(folder / "records")
    call("inspect_records", "--input=.", "--count=2")
    assert capsys.readouterr().out == printed["inspect_records"][0]


@pytest.mark.slow
def test_inspect_records_reads_what_is_in_a_bucket(road):
    """TensorFlow's file system in memory stands for it; it ends with its process."""
    folder, printed = road
    program = f"""
import pathlib, runpy, sys
import tensorflow as tf
tf.io.gfile.makedirs("ram://bucket/records")
for path in pathlib.Path({str(folder / "records")!r}).iterdir():
    tf.io.gfile.copy(str(path), f"ram://bucket/records/{{path.name}}")
sys.argv = ["inspect_records.py", "--input=ram://bucket/records", "--count=2"]
runpy.run_path({str(TOOLS / "inspect_records.py")!r}, run_name="__main__")
"""
    done = command_process.run(["-c", program])
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed["inspect_records"][0]


def test_a_vocabulary_that_is_there_is_not_replaced(road):
    folder, _ = road
    before = (folder / "vocab.txt").read_bytes()
    status, _, error = run("build_vocab", input=folder / "text.txt", output=folder / "vocab.txt")
    assert status == 1
    assert "vocab.txt exists, and models and records may depend on it: choose another" in error
    assert (folder / "vocab.txt").read_bytes() == before


@pytest.mark.parametrize(
    ("tool", "flags", "sentence"),
    [
        (
            "build_vocab",
            {"input": "absent/*.txt", "output": "vocab.txt"},
            "error: no file matches --input 'absent/*.txt': check the path",
        ),
        (
            "build_vocab",
            {"input": "README.md", "output": "v/vocab.txt", "language_alpha": 0.5},
            "error: language_alpha is 0.5, but --input names no languages: write NAME=PATH",
        ),
        (
            "build_vocab",
            {"input": "en=README.md,setup.cfg", "output": "v/vocab.txt"},
            "error: --input names some languages, but 'setup.cfg' has no name",
        ),
        (
            "create_pretraining_data",
            {"input": "absent.txt", "vocab": "vocab.txt", "output_dir": "out"},
            "error: no file matches --input 'absent.txt': check the path",
        ),
        (
            "create_pretraining_data",
            {"input": "README.md", "vocab": "vocab.txt", "output_dir": "o", "max_seq_length": 4},
            "error: max_seq_length is 4: it must be at least 8",
        ),
        (
            "create_pretraining_data",
            {
                "input": "README.md",
                "vocab": "v.txt",
                "output_dir": "o",
                "runner": "beam",
                "num_workers": 2,
            },
            "error: num_workers is 2, but the workers of --runner=beam are Beam's: put its own",
        ),
        ("inspect_records", {"input": "absent"}, "error: there are no records at absent: give"),
    ],
)
def test_bad_input_ends_with_one_sentence(tool, flags, sentence):
    status, _, error = run(tool, **flags)
    assert status == 1
    assert sentence in error
    assert "Traceback" not in error


def test_a_corpus_that_is_not_there_leaves_no_folder(tmp_path):
    output = tmp_path / "new" / "vocab.txt"
    status, _, error = run("build_vocab", input=tmp_path / "absent.txt", output=output)
    assert status == 1 and "absent.txt" in error
    assert [*tmp_path.iterdir()] == []


def test_an_output_of_another_name_is_refused(road):
    folder, _ = road
    status, _, error = run("build_vocab", input=folder / "text.txt", output=folder / "pieces.txt")
    assert status == 1
    assert "name the file vocab.txt, which models look for" in error
