"""run_finetuning, predict, visualize_attributions and export_saved_model as commands."""

import json
from pathlib import Path

import pytest

from tests import command_process
from tests.signatures.tiny_models import write_model
from tests.tools.test_faults import run_tools

REPOSITORY = Path(__file__).parents[2]


def call(tool, **arguments):
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    return command_process.run([REPOSITORY / "tools" / f"{tool}.py", *flags])


@pytest.mark.slow
def test_the_road_from_labeled_texts_to_a_saved_model(
    pretrained_folder, sentiment_folder, tmp_path
):
    run = call(
        "run_finetuning",
        task="csv",
        data=sentiment_folder,
        init_from=pretrained_folder,
        model_dir=tmp_path / "run",
        epochs=4,
        batch_size=16,
        learning_rate=3e-3,
        max_seq_length=32,
        mixed_precision="float32",
        seed=1,
    )
    assert run.returncode == 0, run.stderr
    table = [line.split() for line in run.stdout.splitlines()]
    accuracies = {row[0]: float(row[2]) for row in table if row[1:2] == ["accuracy"]}
    assert accuracies.keys() == {"validation", "test"}
    assert accuracies["test"] > 0.9

    answers = tmp_path / "answers.csv"
    predicted = call(
        "predict", model_dir=tmp_path / "run", input=sentiment_folder / "test.csv", output=answers
    )
    assert predicted.returncode == 0, predicted.stderr
    header, *rows = [line.split(",") for line in answers.read_text().splitlines()]
    assert header == ["text", "label", "predicted_label", "score_neg", "score_pos"]
    hits = [row[1] == row[2] for row in rows]
    assert sum(hits) / len(hits) == pytest.approx(accuracies["test"], abs=5e-5)

    exported = call("export_saved_model", model_dir=tmp_path / "run", export_dir=tmp_path / "out")
    assert exported.returncode == 0, exported.stderr
    assert exported.stdout.strip() == str(tmp_path / "out" / "1")
    assert (tmp_path / "out" / "1" / "saved_model.pb").is_file()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"task": "colla"}, "error: there is no task 'colla': choose one of ax, "),
        ({"label_column": "gold"}, "there is no column 'gold' among 'text', 'label'"),
    ],
)
def test_bad_input_ends_in_one_sentence(
    pretrained_folder, sentiment_folder, tmp_path, changes, sentence
):
    arguments = {
        "data": sentiment_folder,
        "init_from": pretrained_folder,
        "model_dir": tmp_path / "run",
    }
    run = call("run_finetuning", **{**arguments, **changes})
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ") and sentence in last
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def runs(model_folder, tmp_path_factory):
    """What commands did on one model and on two, by the commands' names, and their folder."""
    folder = tmp_path_factory.mktemp("runs")
    first, second = model_folder("classes"), write_model(folder / "b,c", "classes", seed=1)
    (folder / "new.csv").write_text("text\nthe film\n")
    one, both = [f"--model_dir={first}"], [f"--model_dir={first}", f"--model_dir={second}"]
    texts = "--input=new.csv"
    export = ["export_saved_model.py", *both, "--export_dir=served"]
    glue = ["run_glue.py", "--data=glue", "--init_from=bert", "--model_dir=runs"]
    commands = {
        "predict": ["predict.py", *both, texts, "--output=out.csv"],
        "export": export,
        "explain": ["predict.py", *one, texts, "--output=one.csv", "--explain=why.jsonl"],
        "attributions": [
            *("visualize_attributions.py", *one, "--text=the film", "--target=good"),
            "--output=why.html",
        ],
        "explain two": ["predict.py", *both, texts, "--output=no.csv", "--explain=no.jsonl"],
        "export two for ONNX": [*export, "--format=onnx"],
        "a rate and a grid": [*glue, "--learning_rate=2e-5"],
        "epochs and a grid": ["run_finetuning.py", *glue[1:], "--epochs=10", "--grid=paper"],
        "no task": glue,
    }
    done = run_tools([{"command": command} for command in commands.values()], folder)
    return dict(zip(commands, done, strict=True)), folder


@pytest.mark.slow
def test_several_models_are_one(runs):
    done, folder = runs
    assert done["predict"]["status"] == 0, done["predict"]["printed"]
    assert (folder / "out.csv").read_text().startswith("text,predicted_label,score_bad,")
    assert done["export"]["status"] == 0, done["export"]["printed"]
    assert (folder / "served" / "1" / "saved_model.pb").is_file()
    assert "an ensemble of 2 models" in done["export"]["printed"]


@pytest.mark.slow
def test_answers_are_explained_in_a_file_and_a_page(runs):
    done, folder = runs
    assert done["explain"]["status"] == 0, done["explain"]["printed"]
    [line] = (folder / "why.jsonl").read_text().splitlines()
    assert json.loads(line)["target"] in ("bad", "fine", "good")
    assert done["attributions"]["status"] == 0, done["attributions"]["printed"]
    assert "why.html: good, 4 words, the sum of the scores is " in done["attributions"]["printed"]
    assert "Explained: <b>good</b>" in (folder / "why.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("explain two", "--explain explains one model, but --model_dir names 2"),
        ("export two for ONNX", "--format=onnx takes one model, but --model_dir names 2"),
        ("a rate and a grid", "both give learning_rate"),
        ("epochs and a grid", "--epochs and --grid=paper both give epochs: leave out the first"),
        ("no task", "glue holds none of the folders MNLI, QQP"),
    ],
)
def test_what_takes_one_model_or_a_folder_says_so(name, sentence, runs):
    done = runs[0][name]
    assert done["status"] == 1
    last = done["printed"].strip().splitlines()[-1]
    assert last.startswith("error: ") and sentence in last
