"""The notebooks of colab/: what they name exists, and in their small setting they run.

They share a folder, as they do where their reader runs them.
"""

import csv
import importlib.util
import inspect
import json
import math
import os
import re
import subprocess
import sys
import unittest.mock

import nbformat
import pytest
from nbclient import NotebookClient

from keras_bert.tasks.feature_extraction.feature_files import read_features
from keras_bert.tasks.question_answering.squad_files import read_squad
from tests.docs import notebooks
from tests.docs.documents import ROOT, complaint, flags_of, headings, tools
from tests.docs.notebooks import NAMES
from tests.docs.python_names import imported, unknown_keywords

SECONDS = 900  # of a cell, on a processor that others use too


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_stored_clean(name):
    notebook = notebooks.read(name)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell for cell in code if cell.outputs or cell.execution_count] == []
    assert notebook.cells[0].source.startswith(f"# {name.partition('_')[0]}. ")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_notebook_uses_exists(name):
    programs = notebooks.trees(name)
    assert imported(programs)
    assert unknown_keywords(programs) == []


def test_every_command_is_one_that_its_tool_takes():
    commands = [command for name in NAMES for command in notebooks.commands(name)]
    assert len({command.tool for command in commands}) >= 8
    assert [f"{c}: {reason}" for c in commands if (reason := complaint(c))] == []


def test_flags_and_links_in_texts_exist():
    flags = {flag for tool in tools() for flag in flags_of(tool)} | {"help"}
    wrong = []
    for name in NAMES:
        text = "\n".join(notebooks.cells(name, "markdown"))
        spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
        named = [flag for span in spans for flag in re.findall(r"(?<![\w-])--(\w+)", span)]
        wrong += [f"{name}: --{flag}" for flag in named if flag not in flags]
        for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            file = (notebooks.FOLDER / path).resolve()
            if not file.is_file():
                wrong.append(f"{name}: {target}")
            elif anchor and anchor not in headings(str(file.relative_to(ROOT))):
                wrong.append(f"{name}: {target}")
    assert wrong == []


def test_the_check_finds_wrong_names(monkeypatch):
    def cell(source):
        monkeypatch.setattr(notebooks, "cells", lambda name, kind: [source])

    cell("from keras_bert import FinetuningOptions\nFinetuningOptions(epoch=1)")
    assert unknown_keywords(notebooks.trees("a")) == ["FinetuningOptions(epoch=)"]
    cell("from keras_bert import BertTagger")
    with pytest.raises(AttributeError, match="BertTagger"):
        imported(notebooks.trees("a"))
    cell("!keras-bert build_vocab --input=a \\\n  --size=3")
    assert "Unknown command line flag" in complaint(notebooks.commands("a")[0])


@pytest.mark.parametrize(("number", "least"), [(0, 8), (1, 5)])
def test_cells_that_notebooks_share_are_equal(number, least):
    """The setup, and the model to start from: as good as one place for each."""
    begin = ("import importlib.util\n", "START = str(CLONE")[number]
    found = [
        source
        for name in NAMES
        for source in notebooks.cells(name, "code")
        if source.startswith(begin)
    ]
    assert len(found) >= least
    assert len(set(found)) == 1


@pytest.mark.parametrize("is_cloned", [False, True])
def test_the_setup_goes_on_where_an_install_broke_off(is_cloned, tmp_path, monkeypatch):
    commands = []
    # The package is not there at first, and is after the install.
    found = iter([None, importlib.util.find_spec("keras_bert")])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: next(found))
    monkeypatch.setattr(importlib, "import_module", unittest.mock.MagicMock())
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("PATH", "TF_CPP_MIN_LOG_LEVEL"):  # the cell sets them
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.chdir(tmp_path)
    clone = tmp_path / "keras_bert_clone"
    if is_cloned:
        clone.mkdir()
        (clone / "setup.cfg").touch()
    exec(compile(notebooks.trees(NAMES[0])[0], "setup", "exec"), {})
    assert [command[:2] for command in commands] == [
        *([] if is_cloned else [["git", "clone"]]),
        [sys.executable, "-m"],
    ]
    assert commands[-1][-1] == f"{clone}[viz]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("colab")


@pytest.fixture
def executed(folder, monkeypatch):
    """Returns a function: a notebook's outputs, as printed text and a list of pictures."""
    monkeypatch.setenv("KERAS_BERT_SMALL", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def execute(name):
        # Without the cache: execution writes outputs into what it is given.
        notebook = nbformat.read(notebooks.FOLDER / f"{name}.ipynb", as_version=4)
        resources = {"metadata": {"path": str(folder)}}
        NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", resources=resources
        ).execute()
        outputs = [output for cell in notebook.cells for output in getattr(cell, "outputs", ())]
        text = "".join(output.text for output in outputs if output.output_type == "stream")
        pictures = [output for output in outputs if "image/png" in output.get("data", {})]
        return text, pictures

    return execute


def _metrics(folder):
    return json.loads((folder / "metrics.json").read_text())["metrics"]["test"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
class TestTheNotebooksRun:
    """Each asks for the files and numbers that its reader is promised.

    Six of them are run before a release. Two learn other tasks in the way of those that stay, one
    takes the road from texts to a model, as the quickstart's test does; tests/tasks, tests/serving,
    tests/retrieval, tests/probing and tests/visualize ask for what those about features, insides
    and search call.
    """

    def test_classifier(self, executed, folder):
        text, pictures = executed("1_classifier")
        assert len(pictures) == 2
        assert _metrics(folder / "output/classifier")["accuracy"] > 0.6  # of two classes alike
        assert (folder / "output/served/translations/1/saved_model.pb").is_file()
        with open(folder / "output/answers.csv", encoding="utf-8", newline="") as file:
            assert len(list(csv.DictReader(file))) == 600
        # What the SavedModel says in a process of its own.
        assert re.search(r"\[b'(1611|today)' b'(1611|today)'\]", text)

    @pytest.mark.long
    def test_pretraining(self, executed, folder):
        text, pictures = executed("2_pretraining")
        assert len(pictures) == 1
        run = folder / "output/pretraining/run"
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        [held_out] = [line["masked_lm_loss"] for line in lines if line["split"] == "eval"]
        assert held_out < math.log(6000)  # of guessing any piece
        assert (run / "preset" / "vocab.txt").is_file()
        assert re.search(r"love \.\n    (\S+ \d+\.\d%(  )?){5}\n", text)

    @pytest.mark.long
    def test_question_answering(self, executed, folder):
        text, pictures = executed("3_question_answering")
        assert len(pictures) == 1
        assert (
            _metrics(folder / "output/question_answering")["f1"] > 0.05
        )  # of a span at random: 0.003
        assert len(read_squad(folder / "output/questions/train.json")) == 300
        assert re.search(r"who kept silent\?\n( +\d+\.\d%  \S.*\n){4}", text)
        assert (folder / "output/served/questions/1/saved_model.pb").is_file()

    @pytest.mark.long
    def test_tagging(self, executed, folder):
        text, pictures = executed("4_tagging")
        assert len(pictures) == 1
        assert _metrics(folder / "output/tagger")["f1"] > 0.3  # saying O everywhere: 0
        [restored] = re.findall(r"^the next morning.*$", text, re.M | re.I)
        assert restored.lower().startswith("the next morning mr. darcy called on elizabeth")

    @pytest.mark.long
    def test_features(self, executed, folder):
        text, pictures = executed("5_features")
        assert len(pictures) == 1
        found, chance = re.search(r"found: (\d+)% \(chance ([\d.]+)%\)", text).groups()
        assert float(found) > 10 * float(chance)
        vectors = (folder / "output/projector/vectors.tsv").read_text().splitlines()
        metadata = (folder / "output/projector/metadata.tsv").read_text().splitlines()
        assert len(metadata) == 1 + len(vectors)
        assert {len(line.split("\t")) for line in metadata} == {2}
        features = list(read_features(folder / "output/features.npz"))
        assert len(features) == 20
        assert features[0].values.shape[1] == 4 * 128
        assert (folder / "output/texts.png").read_bytes().startswith(b"\x89PNG")
        texts = (folder / "output/texts_projector/metadata.tsv").read_text().splitlines()
        assert len(texts) == 21

    @pytest.mark.long
    def test_inside(self, executed):
        text, pictures = executed("6_inside")
        assert len(pictures) == 5
        assert "tools/sample_model: 4 tags; " in text
        assert "most frequent tag of the word" in text
        assert len(re.findall(r"^    (?:\S+ \d+\.\d%(?:  )?){6}$", text, re.M)) == 4
        assert len(re.findall(r"^ +-\d+\.\d  the \S+ of the function is \S+ as", text, re.M)) == 4
        shares = float(re.search(r"the shares add up to (\S+)", text)[1])
        difference = float(re.search(r"difference of the logits: (\S+)", text)[1])
        assert shares == pytest.approx(difference, rel=0.01, abs=0.002)

    def test_serving(self, executed, folder):
        text, _ = executed("7_serving")
        assert re.search(r"docker run .*tensorflow/serving", text)
        assert "REST: (2, 256)" in text
        difference = re.search(r"gRPC: (?:differs by at most (\S+)|.* is not installed)", text)[1]
        assert float(difference or 0) < 1e-5
        cosines = dict(re.findall(r"(float32|int8): cosine with Keras (\S+)", text))
        assert float(cosines["float32"]) > 0.9999
        assert float(cosines["int8"]) > 0.95

    def test_tpu(self, executed, folder):
        text, _ = executed("8_tpu")
        assert (folder / "output/tpu/records/manifest.json").is_file()
        assert "NO TPU HERE" in text
        assert "tensorflow-tpu==2.20.0 libtpu==0.0.17" in text
        assert len(re.findall("^not run, because", text, re.M)) == 2
        assert not (folder / "output/tpu/venv").exists()  # 3 GB

    @pytest.mark.long
    def test_search(self, executed, folder):
        text, pictures = executed("9_search")
        assert len(pictures) == 3
        found = re.findall(r"^(.+): nDCG of whole verses (\S+)%, of six words (\S+)%$", text, re.M)
        ndcg = {name: (float(whole), float(six)) for name, whole, six in found}
        assert len(ndcg) == 6
        # The runs' own reports measure whole verses, too; theirs are vectors in bfloat16.
        for name, run in (("vectors, trained", "vectors"), ("vectors of tokens", "tokens")):
            report = _metrics(folder / f"output/search/{run}")["ndcg_at_10"]
            assert ndcg[name][0] == pytest.approx(100 * report, abs=0.5)
        assert ndcg["vectors, not trained"][0] + 2 < ndcg["vectors, trained"][0]
        words, tokens = ndcg["words (BM25)"], ndcg["vectors of tokens"]
        assert min(words[0], tokens[0]) > 98
        for one in (words, tokens):  # whole verses are easier, and one vector loses more than these
            assert ndcg["vectors, trained"][1] + 20 < one[1] < one[0] - 3
        fused = ndcg["tokens and words"]
        assert fused[1] > max(words[1], tokens[1]) - 0.5  # above both; processors round otherwise
        assert ndcg["tokens, words and trained vectors"][1] < fused[1] - 3
        # BM25 puts another text before the right one, and finds no word that no text has.
        right = "Be diligent to come to me soon,"
        firsts = re.findall(r"^Do thy diligence .*:\n +(\S+)  (.*)$", text, re.M)
        assert len(firsts) == 5
        assert firsts[0][1] != right
        assert re.search(r"^raiment\n(?! )", text, re.M)
        # By vectors it is found, and the SavedModels give the scores of the indexes.
        cosines, scores = (
            [float(score) for score in re.search(rf"^{name} +\[(.*)\]$", text, re.M)[1].split()]
            for name in ("cosines", "scores")
        )
        for (score, first), served in zip(firsts[2:4], (cosines, scores), strict=True):
            assert first == right
            assert served[1] == max(served) == pytest.approx(float(score), abs=0.02)


def test_every_notebook_is_run():
    asked = inspect.getsource(TestTheNotebooksRun)
    assert re.findall(r'executed\("(\w+)"\)', asked) == NAMES
