"""All tasks of GLUE in one go. Oracle of the averages: the numbers that papers print."""

import dataclasses
import json
import math
import zipfile

import pytest

from keras_bert import FinetuningOptions, GlueResult, run_glue
from keras_bert.tasks.classification.glue_benchmark import FOLDERS, GlueTaskResult
from tests.conftest import sentiment_rows


def result_of(metrics, mismatched=None):
    splits = {"validation": metrics}
    if mismatched is not None:
        splits["validation_mismatched"] = mismatched
    return GlueTaskResult(splits, "learning_rate=5e-05,seed=0", 1000)


# BERT_BASE in table 1 of the paper (arXiv:1810.04805), whose last column is 79.6.
PAPER = GlueResult(
    {
        "mnli": result_of({"accuracy": 0.846}, {"accuracy": 0.834}),
        "qqp": result_of({"accuracy": 0.5, "f1": 0.712}),
        "qnli": result_of({"accuracy": 0.905}),
        "sst2": result_of({"accuracy": 0.935}),
        "cola": result_of({"matthews_correlation": 0.521, "accuracy": 0.7}),
        "stsb": result_of({"pearson": 0.6, "spearman": 0.858}),
        "mrpc": result_of({"accuracy": 0.7, "f1": 0.889}),
        "rte": result_of({"accuracy": 0.664}),
        "wnli": result_of({"accuracy": 0.651}),
    }
)


def test_averages_are_those_of_the_paper_and_of_the_benchmark():
    assert round(100 * PAPER.paper_average(), 1) == 79.6
    # By hand: both sets of MNLI and two metrics of a task are averaged first.
    scores = [0.84, 0.606, 0.905, 0.935, 0.521, 0.729, 0.7945, 0.664]
    assert PAPER.score(["wnli"]) == pytest.approx(sum(scores) / 8)
    assert PAPER.score() == pytest.approx((sum(scores) + 0.651) / 9)
    some = GlueResult({name: PAPER.tasks[name] for name in ("cola", "wnli")})
    assert some.score() == pytest.approx((0.521 + 0.651) / 2)
    assert some.paper_average() is None and GlueResult({}).score() is None


def test_the_table_shows_what_counts_and_what_is_missing():
    lines = PAPER.table().splitlines()
    assert lines[2].startswith("| MNLI | 1,000 | accuracy 84.6 / 83.4 | 84.0 | learning_rate=5e-05")
    assert "| CoLA | 1,000 | matthews correlation 52.1 | 52.1 |" in lines[6]
    assert "| STS-B | 1,000 | pearson 60.0; spearman 85.8 | 72.9 |" in lines[7]
    assert "GLUE score: **73.8**, the mean over 9 of 9" in lines[12]
    assert "Without WNLI: **74.9**" in lines[13] and "paper: **79.6**" in lines[14]
    table = GlueResult({"rte": PAPER.tasks["rte"]}).table()
    assert "| CoLA | | not there | | |" in table
    assert "the mean over 1 of 9 tasks" in table and "table 1 of the paper: **-**" in table


def write(folder, files):
    folder.mkdir(parents=True)
    for name, lines in files.items():
        (folder / name).write_text("".join("\t".join(line) + "\n" for line in lines))


def glue_folder(path):
    """CoLA and MNLI with its diagnostic set as they are published, of a few lines."""
    rows = [(text, "10"[label == "neg"]) for text, label in sentiment_rows(24, 1)]
    marked = [("gj04", label, "" if label == "1" else "*", text) for text, label in rows]
    test = [("index", "sentence"), *((str(i), text) for i, (text, _) in enumerate(rows[:5]))]
    write(path / "CoLA", {"train.tsv": marked[:16], "dev.tsv": marked[16:], "test.tsv": test})
    names = ("index", "promptID", "pairID", "genre", "sentence1_binary_parse")
    names += ("sentence2_binary_parse", "sentence1_parse", "sentence2_parse")
    labels = ("entailment", "neutral", "contradiction")

    def pairs(count, more):
        head = (*names, "sentence1", "sentence2")
        lines = [("0",) * len(names) + (rows[i][0], rows[i + 1][0]) for i in range(count)]
        if not more:
            return [head, *lines]
        return [(*head, "label1", "gold_label")] + [
            (*line, labels[i % 3], labels[i % 3]) for i, line in enumerate(lines)
        ]

    files = {"train.tsv": pairs(18, True), "dev_matched.tsv": pairs(6, True)}
    files |= {"dev_mismatched.tsv": pairs(4, True), "test_matched.tsv": pairs(3, False)}
    write(path / "MNLI", files | {"test_mismatched.tsv": pairs(2, False)})
    diagnostic = [("index", "sentence1", "sentence2"), ("0", "a film", "no film")]
    write(path / "diagnostic", {"diagnostic.tsv": diagnostic})
    return path


OPTIONS = FinetuningOptions(
    epochs=1, batch_size=8, max_seq_length=32, mixed_precision="float32", learning_rate=1e-3
)


@pytest.mark.slow
def test_all_tasks_of_a_folder_are_learned_and_none_twice(pretrained_folder, tmp_path, capsys):
    data = glue_folder(tmp_path / "glue")
    done = []

    def run(tasks=(), grid=None, options=OPTIONS):
        return run_glue(
            data,
            pretrained_folder,
            tmp_path / "runs",
            options,
            grid=grid,
            tasks=tasks,
            report=lambda folder, task, *_: done.append((folder.name, task.name)),
        )

    assert list(run(["cola"]).tasks) == ["cola"]
    assert done == [("CoLA", "cola")]
    result = run()
    assert done == [("CoLA", "cola"), ("MNLI", "mnli")]  # CoLA is finished
    assert list(result.tasks) == ["mnli", "cola"]
    assert len(result.tasks["mnli"].values("accuracy")) == 2
    # What the runs say stands in the table, and in glue.json.
    kept = json.loads((tmp_path / "runs" / "glue.json").read_text())
    for name, folder in (("cola", "CoLA"), ("mnli", "MNLI")):
        said = json.loads((tmp_path / "runs" / folder / "metrics.json").read_text())["metrics"]
        assert result.tasks[name].metrics == kept["tasks"][name]["metrics"] == said
    assert kept["score"] == result.score() and kept["paper_average"] is None
    assert (tmp_path / "runs" / "glue.md").read_text() == result.table()
    # The leaderboard's files: a line of names, then index and prediction.
    sent = {path.name: path.read_text() for path in (tmp_path / "runs/submission").iterdir()}
    assert sorted(sent) == ["AX.tsv", "CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv"]
    head, *lines = [line.split("\t") for line in sent["CoLA.tsv"].splitlines()]
    assert head == ["index", "prediction"] and [line[0] for line in lines] == [*"01234"]
    assert {line[1] for line in lines} <= {"0", "1"}
    assert not (tmp_path / "runs" / "submission.zip").exists()
    assert "also asks for QQP.tsv, QNLI.tsv, SST-2.tsv" in capsys.readouterr().out
    with pytest.raises(ValueError, match="begun with grid.learning_rate=None, now it is"):
        run(grid={"learning_rate": (1e-3,)})
    with pytest.raises(ValueError, match="the task rte is not in .*: choose from mnli, cola"):
        run(["rte"])
    with pytest.raises(ValueError, match="the task csv is no task of GLUE"):
        run(["csv"])
    with pytest.raises(ValueError, match="tasks is the string 'cola', which would be read letter"):
        run("cola")
    with pytest.raises(ValueError, match="^model_dir is .*, which is a file: name a folder$"):
        run_glue(data, pretrained_folder, tmp_path / "runs" / "glue.md", OPTIONS)

    options = dataclasses.replace(OPTIONS, class_weights="balanced")
    with pytest.raises(ValueError, match="class_weights and a teacher belong to the labels of one"):
        run(options=options)

    options = dataclasses.replace(OPTIONS, lora_rank=2)
    with pytest.raises(ValueError, match="the grid has the paper's learning rates, which are th"):
        run_glue(data, pretrained_folder, tmp_path / "lora", options)

    # With the other seven tasks finished the archive is whole.
    for name, folder in FOLDERS.items():
        if name not in kept["tasks"]:
            kept["tasks"][name] = dataclasses.asdict(PAPER.tasks[name])
            (data / folder).mkdir()
            sent_by = tmp_path / "runs" / folder / "submission"
            sent_by.mkdir(parents=True)
            (sent_by / f"{folder}.tsv").write_text("index\tprediction\n")
    # A measure that is no number, such as the correlation with a constant, is null in JSON.
    kept["tasks"]["stsb"]["metrics"]["validation"]["spearman"] = None
    (tmp_path / "runs" / "glue.json").write_text(json.dumps(kept))
    result = run()
    assert list(result.tasks) == list(FOLDERS)
    assert math.isnan(result.tasks["stsb"].metrics["validation"]["spearman"])
    written = json.loads((tmp_path / "runs" / "glue.json").read_text(), parse_constant=pytest.fail)
    assert written["tasks"]["stsb"]["metrics"] == kept["tasks"]["stsb"]["metrics"]
    assert written["score"] is None
    assert len(done) == 2
    (tmp_path / "runs" / "glue.json").write_text("{}")
    with pytest.raises(ValueError, match=r"glue.json is no table of run_glue \(KeyError"):
        run()
    wanted = "AX CoLA MNLI-m MNLI-mm MRPC QNLI QQP RTE SST-2 STS-B WNLI".split()
    with zipfile.ZipFile(tmp_path / "runs" / "submission.zip") as archive:
        assert sorted(archive.namelist()) == [f"{name}.tsv" for name in wanted]
        assert archive.read("CoLA.tsv").decode() == sent["CoLA.tsv"]
