"""visualize_run, inspect_vocabulary, inspect_model and the projector's folder as commands."""

import shutil

import pytest

from keras_bert import BertTokenizer, Vocabulary, inspect_model, inspect_vocabulary, show_run
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from tests.conftest import write_csv
from tests.tools.test_faults import run_tools
from tests.visualize.run_folders import write_pretraining_run

pytestmark = pytest.mark.slow
EXTRACT = ["extract_features.py", "--init_from=model", "--layers=last", "--level=text"]
ROWS = [["the film", "good"], ["a film", "bad"], ["", "good"], ["book", "good"]]


@pytest.fixture(scope="module")
def folder(pretrained_folder, tmp_path_factory):
    """A folder in which all commands were run, and what they printed by name."""
    folder = tmp_path_factory.mktemp("reports")
    shutil.copytree(pretrained_folder, folder / "model")
    write_pretraining_run(folder / "first")
    write_pretraining_run(folder / "second", lower=1.0)
    write_csv(folder / "texts.csv", ["text", "label"], ROWS)
    write_csv(folder / "other.csv", ["sentence"], [["the film"]])
    (folder / "texts.txt").write_text("A film, the films\n", encoding="utf-8")
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "film", "a"])
    BertTokenizer(vocabulary).save(folder / "vocab")
    (folder / "taken").mkdir()
    (folder / "taken" / "notes.txt").write_text("mine")
    commands = {
        "run": ["visualize_run.py", "--model_dir=first", "--output=new/run.html"],
        "runs": [
            *("visualize_run.py", "--model_dir=first", "--compare=second", "--output=runs.html")
        ],
        "no run": ["visualize_run.py", "--model_dir=vocab", "--output=no.html"],
        "vocabulary": [
            *("inspect_vocabulary.py", "--vocab=vocab/vocab.txt", "--input=texts.txt"),
            "--output=vocabulary.html",
        ],
        "no vocabulary": ["inspect_vocabulary.py", "--vocab=no.txt"],
        "model": [
            *("inspect_model.py", "--model=model", "--max_seq_length=16", "--output=model.html")
        ],
        "no model": ["inspect_model.py", "--model=bert_huge"],
        "projector": [*EXTRACT, "--input=texts.csv", "--output=points", "--pca=points.svg"],
        "taken": [*EXTRACT, "--input=texts.csv", "--output=taken"],
        "no column": [*EXTRACT, "--input=other.csv", "--output=no"],
        "no page": [
            "inspect_vocabulary.py",
            "--vocab=vocab",
            "--output=no.html",
            "--errors=replace",
        ],
        "no picture": [*EXTRACT, "--input=texts.csv", "--output=no", "--pca=points.jpg"],
    }
    runs = run_tools([{"command": command} for command in commands.values()], folder)
    return folder, dict(zip(commands, runs, strict=True))


def test_pages_are_those_of_the_library(folder, monkeypatch):
    path, ran = folder
    monkeypatch.chdir(path)  # folders are named as they were given
    assert "runs.html: first and second, 6 curves" in ran["runs"]["printed"]
    page = (path / "runs.html").read_text(encoding="utf-8")
    assert page == show_run("first", "second").html()
    assert (path / "new" / "run.html").is_file()
    report = inspect_vocabulary(path / "vocab", ["A film, the films"])
    for line in report.lines():
        assert line.partition(":")[2] in ran["vocabulary"]["printed"]
    assert (path / "vocabulary.html").is_file()
    printed = ran["model"]["printed"]
    for line in list(inspect_model(path / "model", 16).lines())[1:]:
        assert line in printed
    assert (path / "model.html").is_file()


def test_a_table_becomes_points_with_labels(folder):
    path, ran = folder
    assert ran["projector"]["status"] == 0, ran["projector"]["printed"]
    assert (
        "4 texts, 4 vectors of 32 numbers, one for each text: points"
        in (ran["projector"]["printed"])
    )
    assert "1 texts had no pieces; their vectors are zero" in ran["projector"]["printed"]
    metadata = (path / "points" / "metadata.tsv").read_text().splitlines()
    assert metadata[:4] == [
        "unit\ttext\tlabel",
        "the film\tthe film\tgood",
        "a film\ta film\tbad",
        "(empty)\t(empty)\tgood",
    ]
    vectors = (path / "points" / "vectors.tsv").read_text().splitlines()
    assert set(vectors[2].split("\t")) == {"0"}
    picture = (path / "points.svg").read_text(encoding="utf-8")
    assert "<!-- good (3) -->" in picture and "<!-- 4 of 4 vectors, last -->" in picture


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no run", "error: vocab holds no run: run.json is missing"),
        ("no vocabulary", "error: there is no vocabulary at no.txt"),
        ("no model", "error: 'bert_huge' is not a named size"),
        ("taken", "error: taken is there already and holds no vectors for the projector"),
        ("no column", "there is no column 'text' among"),
        ("no page", "error: --errors is for --input: give that, too, or leave it out"),
        ("no picture", "error: points.jpg does not end with .png or .svg"),
    ],
)
def test_errors_are_one_sentence(name, sentence, folder):
    path, ran = folder
    assert ran[name]["status"] == 1
    assert sentence in ran[name]["printed"]
    assert not (path / "no.html").exists() and not (path / "no").exists()
