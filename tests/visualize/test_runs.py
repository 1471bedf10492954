"""What the report of a run reads from its folder, and what its page tells."""

import json
import re
import shutil

import pytest
import tensorflow as tf

from keras_bert import plot_learning_curves, show_run
from keras_bert.finetuning.metrics import expected_calibration_error
from keras_bert.training.run_folder import HELD_OUT, RunFolder
from keras_bert.visualize import curves
from keras_bert.visualize.figure import new_figure
from keras_bert.visualize.pretraining_report import final_figures
from tests.visualize.run_folders import write_pretraining_run


@pytest.fixture
def pretraining(tmp_path):
    return write_pretraining_run(tmp_path / "runs" / "first")


def test_a_finetuning_run(sentiment_run):
    folder, result = sentiment_run
    report = show_run(folder)
    (run,) = report.runs
    assert (run.kind, run.labels, run.warnings) == ("fine-tuning", ("neg", "pos"), ())
    assert run.figures == result.metrics
    assert run.confusion == result.confusion
    losses = [epoch["train_loss"] for epoch in result.epochs]
    assert run.curves["loss"]["train"] == list(zip((48, 96, 144, 192), losses, strict=True))
    measured = [epoch["validation"]["accuracy"] for epoch in result.epochs]
    assert [value for _, value in run.curves["accuracy"]["validation"]] == measured
    # The bins belong to the confusion matrix: as many predictions, as many of them right.
    for split, bins in run.calibration.items():
        matrix = result.confusion[split]
        assert sum(count for count, _, _ in bins) == sum(map(sum, matrix)) == 64
        right = sum(count * accuracy for count, _, accuracy in bins)
        assert right == pytest.approx(matrix[0][0] + matrix[1][1])
    page = report.html()
    error = expected_calibration_error(run.calibration["test"])
    assert f"test {error:.3f}. It is the mean gap" in page
    assert '<tr><th scope="row">options.batch_size</th><td>16</td></tr>' in page
    assert f"neg predicted as neg: {result.confusion['validation'][0][0]} (" in page
    assert "<script" not in page
    assert report._repr_html_().startswith("<iframe srcdoc=")


def test_a_folder_of_before_calibration_was_kept(sentiment_run, tmp_path):
    folder = shutil.copytree(sentiment_run[0], tmp_path / "old")
    content = json.loads((folder / "metrics.json").read_text())
    del content["calibration"]
    (folder / "metrics.json").write_text(json.dumps(content))
    report = show_run(folder)
    assert report.runs[0].calibration == {}
    assert "Calibration</h2>" not in report.html()


def test_a_run_that_goes_on(sentiment_run, tmp_path):
    folder = tmp_path / "unfinished"
    folder.mkdir()
    for name in ("run.json", "metrics.jsonl"):
        shutil.copy(sentiment_run[0] / name, folder)
    (run,) = show_run(folder).runs
    assert run.warnings == (
        "The run has not ended: there are no final figures, and no predictions.",
    )
    assert run.figures["training, last steps"]["epoch"] == 4
    (folder / "metrics.jsonl").write_text("")
    report = show_run(folder)
    assert report.runs[0].warnings == ("The run has measured nothing yet.",)
    assert "Curves</h2>" not in report.html()


def test_a_pretraining_run(pretraining):
    report = show_run(pretraining)
    (run,) = report.runs
    assert (run.kind, run.seconds) == ("pretraining", 50.0)
    assert run.speed == 400  # the median of those after the first
    assert list(run.curves) == [
        *("masked_lm_loss", "loss", "masked_lm_accuracy", "learning_rate"),
        *("tokens_per_second", "gradient_norm"),
    ]
    assert run.curves["loss"]["eval"] == [(20, 4.0), (40, 3.0), (50, 3.5)]
    assert run.curves["gradient_norm"]["train"][0] == (10, 0.5)
    assert run.figures["held out, best"]["step"] == 40
    assert run.figures["held out, last"]["loss"] == 3.5
    assert run.warnings == ("The run stands at step 50 of 100.",)
    assert run.events == ((12, "step 12 skipped"),)
    page = report.html()
    assert "always the most frequent piece" in page
    assert "step 12 skipped" in page
    assert "training: 5 at step 10" in page  # under the pointer
    assert "--learning_rate=1e-3 &amp;" in page


def test_a_pretraining_run_in_a_bucket(pretraining):
    remote = "ram://bucket/runs/first"
    with pytest.raises(FileNotFoundError, match=f"{remote} holds no run of pretraining: run.json"):
        show_run(remote)
    tf.io.gfile.makedirs(remote)
    for name in ("run.json", "metrics.jsonl", "starts.jsonl"):
        tf.io.gfile.copy(str(pretraining / name), f"{remote}/{name}")
    report = show_run(f"{remote}/")
    local = show_run(pretraining)
    assert report.names == local.names
    assert report.html() == local.html().replace(str(pretraining), remote)


def test_a_loss_that_is_no_number_is_not_the_best(pretraining, capsys):
    lines = [json.loads(line) for line in (pretraining / "metrics.jsonl").open()]
    first = next(line for line in lines if line["split"] == "eval")
    last = lines[-2]
    assert last["split"] == "train"
    for number in (float("nan"), None):  # as earlier versions wrote it, and as it is in JSON
        first["loss"] = first["masked_lm_loss"] = last["gradient_norm"] = number
        (pretraining / "metrics.jsonl").write_text("".join(json.dumps(n) + "\n" for n in lines))
        with (pretraining / "starts.jsonl").open("a") as file:
            file.write('{"step": 5, "time": "now"}\n')  # of another program
        report = show_run(pretraining)
        assert report.runs[0].figures["held out, best"]["step"] == 40
        page = report.html()
        assert '<th scope="row">gradient norm</th><td>nan</td>' in page
    assert "starts.jsonl, line 2 is damaged and left out" in capsys.readouterr().err


def test_the_best_figures_are_those_of_the_last_held_out_records(pretraining):
    run = RunFolder.open(pretraining)
    lines = (pretraining / "metrics.jsonl").read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if json.loads(line)["step"] == 50)
    told = [json.dumps({"split": HELD_OUT, "step": 0, "records": name}) + "\n" for name in "ab"]
    (pretraining / "metrics.jsonl").write_text("".join([told[0], *lines]))
    assert final_figures(run.read_metrics())["held out, best"]["step"] == 40
    (pretraining / "metrics.jsonl").write_text(
        "".join([told[0], *lines[:at], told[1], *lines[at:]])
    )
    assert final_figures(run.read_metrics())["held out, best"]["step"] == 50
    assert show_run(pretraining).runs[0].curves["loss"]["eval"] == [(20, 4.0), (40, 3.0), (50, 3.5)]


def test_two_runs_side_by_side(pretraining, tmp_path):
    other = write_pretraining_run(tmp_path / "runs" / "second", lower=0.5, learning_rate=2e-3)
    report = show_run(pretraining, other)
    assert report.names == ("first", "second")
    page = report.html()
    differing = re.findall(r'<tr class="differs"><th scope="row">(.*?)</th>(.*?)</tr>', page)
    assert differing == [("options.learning_rate", "<td>0.001</td><td>0.002</td>")]
    assert "Settings that are equal (" in page
    # The lower loss is the better one; more tokens per second are.
    last = page[page.index("training, last steps") :]
    assert re.search(r'scope="row">loss</th><td>3</td><td class=best>2\.5</td><td>-0\.5</td>', last)
    assert re.search(r'scope="row">step</th><td>50</td><td>50</td><td>\+0</td>', last)
    assert page.count("always the most frequent piece</span>") == 1
    assert "first, held out: 4 at step 20" in page and "second, held out: 3.5 at step 20" in page


def with_discriminator(folder, levels):
    """Adds held-out figures of ELECTRA's discriminator to a run; its baseline has these levels."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    held_out = [line for line in lines if line["split"] == "eval"]
    for line, level in zip(held_out, levels, strict=True):
        line["replaced_token_loss"] = 0.25
        line["replaced_token_accuracy"] = 0.875
        line["replaced_token_rate"] = 1 - level
        line["never_replaced_accuracy"] = level
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_baseline_that_moves(tmp_path):
    first = with_discriminator(write_pretraining_run(tmp_path / "first"), (0.75, 0.8125, 0.84375))
    second = with_discriminator(write_pretraining_run(tmp_path / "second"), (0.75, 0.75, 0.8125))
    alone, both = show_run(first), show_run(first, second)
    (run,) = alone.runs
    assert run.curves["replaced_token_accuracy"] == {
        "eval": [(20, 0.875), (40, 0.875), (50, 0.875)],
        "baseline": [(20, 0.75), (40, 0.8125), (50, 0.84375)],
    }
    assert "never_replaced_accuracy" not in run.curves  # no picture of its own
    assert alone.html().count("never replaced</span>") == 1
    page = both.html()
    for name in ("first", "second"):  # each run has its own
        assert page.count(f"{name}, never replaced</span>") == 1
    # Less of both is neither better nor worse.
    last = page[page.index("held out, last") :]
    for words in ("replaced token rate", "never replaced accuracy"):
        row = re.search(rf'scope="row">{words}</th>(.*?)</tr>', last.replace("_", " "))
        assert "best" not in row[1]


def test_learning_curves_draw_a_baseline_as_it_moves(tmp_path, monkeypatch):
    folder = with_discriminator(write_pretraining_run(tmp_path / "run"), (0.75, 0.8125, 0.84375))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    figures = []
    monkeypatch.setattr(
        curves, "new_figure", lambda *size: figures.append(new_figure(*size)) or figures[-1]
    )
    plot_learning_curves([line for line in lines if "step" in line], tmp_path / "curves.png")
    drawn = {
        line.get_label(): list(line.get_ydata()) for one in figures[0].axes for line in one.lines
    }
    assert drawn["never replaced"] == [0.75, 0.8125, 0.84375]
    assert drawn["always the most frequent piece"] == [0.125, 0.125]  # from end to end


def test_names_tell_folders_apart(tmp_path, monkeypatch):
    paths = [write_pretraining_run(tmp_path / name / "run") for name in ("a", "b")]
    assert show_run(*paths).names == ("a/run", "b/run")
    # Where a folder is named by a dot, its name stands elsewhere.
    monkeypatch.chdir(paths[0])
    assert show_run(".").names == ("run",)
    assert show_run(".", "../../b/run").names == ("a/run", "b/run")


def test_learning_curves_have_the_format_of_their_name(pretraining, tmp_path):
    metrics = RunFolder.open(pretraining).read_metrics()
    metrics[0]["loss"] = None  # null of the file, as in each baseline
    for line in metrics:
        line |= {name: None for name in line if name.startswith("most_frequent")}
    plot_learning_curves(metrics, tmp_path / "curves.svg")
    assert "<svg" in (tmp_path / "curves.svg").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"curves.pdf does not end with .png or .svg"):
        plot_learning_curves(metrics, tmp_path / "curves.pdf")


def test_what_cannot_be_compared(pretraining, sentiment_run, tmp_path):
    with pytest.raises(ValueError, match="is a run of pretraining and .* one of fine-tuning"):
        show_run(pretraining, sentiment_run[0])
    with pytest.raises(ValueError, match="is the same run as"):
        show_run(pretraining, pretraining.parent / "." / "first")
    with pytest.raises(FileNotFoundError, match="holds no run: run.json is missing"):
        show_run(tmp_path)


def test_runs_of_a_search_are_listed(sentiment_run, tmp_path):
    folder = shutil.copytree(sentiment_run[0], tmp_path / "best")
    metrics = {"validation": {"accuracy": 0.75}, "test": {"accuracy": 0.5}}
    runs = [{"name": "seed=0", "collapsed": None, "metrics": metrics}]
    runs.append({"name": "seed=1", "collapsed": "nan", "metrics": None})
    # A correlation of one number with itself is none: null in the file.
    no_number = {"validation": {"accuracy": None}, "test": {"accuracy": 0.5}}
    runs.append({"name": "seed=2", "collapsed": None, "metrics": no_number})
    (folder / "results.json").write_text(json.dumps({"best": "seed=0", "runs": runs}))
    page = show_run(folder).html()
    assert '<th scope="row">seed=0</th><td>0.75</td><td>0.5</td>' in page
    assert '<th scope="row">seed=1</th><td></td><td></td>' in page
    assert '<th scope="row">seed=2</th><td>nan</td><td>0.5</td>' in page


def test_many_classes_are_a_list_of_mistakes(sentiment_run, tmp_path):
    folder = shutil.copytree(sentiment_run[0], tmp_path / "many")
    labels = [f"class {index}" for index in range(30)]
    task = json.loads((folder / "task.json").read_text())
    (folder / "task.json").write_text(json.dumps(task | {"labels": labels}))
    matrix = [[int(row == column) for column in range(30)] for row in range(30)]
    matrix[3][4], matrix[5][6] = 7, 9
    content = json.loads((folder / "metrics.json").read_text())
    (folder / "metrics.json").write_text(json.dumps(content | {"confusion": {"test": matrix}}))
    page = show_run(folder).html()
    found = re.findall(r'scope="row">(class \d+)</th><td>(class \d+)</td><td>(\d)</td>', page)
    assert found == [("class 5", "class 6", "9"), ("class 3", "class 4", "7")]


def test_the_folder_stays_as_it_is(pretraining):
    before = {path: path.read_bytes() for path in pretraining.rglob("*") if path.is_file()}
    show_run(pretraining).html()
    assert before == {path: path.read_bytes() for path in pretraining.rglob("*") if path.is_file()}
    assert RunFolder.open(pretraining).settings
