"""run_finetuning, predict, visualize_attributions and export_saved_model as commands."""

import json
import signal
from pathlib import Path

import pytest

from keras_bert import FinetuningOptions
from keras_bert.finetuning import search
from tests import command_process
from tests.docs import documents
from tests.signatures.tiny_models import write_model
from tests.tools.test_faults import run_tools

REPOSITORY = Path(__file__).parents[2]


def call(tool, **arguments):
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    return command_process.run([REPOSITORY / "tools" / f"{tool}.py", *flags])


REQUIRED = ("--data=data", "--init_from=bert", "--model_dir=run")
# Of the tasks, by the name of the flag and of the argument.
EVERY_ARGUMENT = {
    **dict(text_column="a", text_pair_column="b", label_column="c", scheme="BIO"),
    **dict(label_feature="d", window_pooling="mean", features_from="last", word_index=1),
    **dict(label_index=-2, doc_stride=3, max_windows=4, max_query_length=5, max_answer_length=6),
    **dict(max_target_length=7, beam_size=8, iterations=9, length_candidates=10, lstm_width=11),
    **dict(projection_dim=12, query_length=13),
    **dict(source_column="e", target_column="f", decoder="random", decoding="mask_predict"),
    **dict(length_penalty=0.5, document_context=True, labels=["no", "yes"]),
}


def given(*flags):
    """Returns the values of the flags of run_finetuning, and the names of the tool."""
    values, names = documents.loaded("run_finetuning")
    values.unparse_flags()
    values(["run_finetuning", *REQUIRED, *flags])
    return values.flag_values_dict(), names


def as_flag(name, value):
    return f"--{name}={','.join(value) if isinstance(value, list) else value}"


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ([], {}),
        (["--regression"], {"label_type": "regression"}),
        (["--multi_label"], {"label_type": "multi_label"}),
        (["--nodocument_context", "--word_index=0"], {"document_context": False, "word_index": 0}),
        ([as_flag(*item) for item in EVERY_ARGUMENT.items()], EVERY_ARGUMENT),
    ],
)
def test_what_flags_say_of_a_task_arrives_there(flags, arguments):
    values, names = given(*flags)
    assert names["_task_arguments"](values) == arguments


def test_a_text_has_one_kind_of_labels():
    values, names = given("--regression", "--multi_label")
    with pytest.raises(ValueError, match="--regression and --multi_label exclude each other"):
        names["_task_arguments"](values)


@pytest.mark.parametrize(
    ("flags", "weights"),
    [
        ([], None),
        (["--class_weights=balanced"], "balanced"),
        (["--class_weights=1,2.5"], (1.0, 2.5)),
    ],
)
def test_class_weights_are_a_word_or_numbers(flags, weights):
    values, names = given(*flags)
    assert names["_class_weights"](values["class_weights"]) == weights


def test_class_weights_that_are_neither_are_refused():
    values, names = given("--class_weights=1,much")
    with pytest.raises(ValueError, match="class_weights is '1,much': give 'balanced' or one"):
        names["_class_weights"](values["class_weights"])


def test_what_is_searched_is_what_the_flags_say(sentiment_folder, tmp_path, monkeypatch):
    # Nothing is trained: all that the tool does itself is done before it calls this.
    asked = []
    monkeypatch.setattr(search, "search", lambda *arguments: asked.extend(arguments))
    with pytest.raises(SystemExit) as end:
        documents.call(
            "run_finetuning",
            *(f"--data={sentiment_folder}", "--init_from=bert", f"--model_dir={tmp_path}"),
            *("--class_weights=1,2.5", "--grid=learning_rate=2e-5,5e-5;epochs=2", "--seeds=3"),
            *("--labels=pos,neg", "--patience=2", "--init_layers=0,2", "--strategy=cpu"),
        )
    assert end.value.code == 128 + signal.SIGTERM  # what no result means
    task, data, init_from, model_dir, options, seeds, grid = asked
    assert task.name == "csv" and data.labels == ("pos", "neg")
    assert (init_from, model_dir, seeds) == ("bert", str(tmp_path), 3)
    assert options == FinetuningOptions(
        class_weights=(1.0, 2.5), patience=2, init_layers=("0", "2"), strategy="cpu"
    )
    assert grid == {"learning_rate": (2e-5, 5e-5), "epochs": (2,)}


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
    texts, long = "--input=new.csv", [f"--model_dir={model_folder('windows')}"]
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
        "explain over": ["predict.py", *one, texts, "--output=no.csv", "--explain=./no.csv"],
        "no server": ["predict.py", *one, texts, "--output=no.csv", "--timeout=5"],
        "no table": ["predict.py", *one, texts, "--output=no.json"],
        "explain table": ["predict.py", *one, texts, "--output=no.csv", "--explain=no.html"],
        "explain two": ["predict.py", *both, texts, "--output=no.csv", "--explain=no.jsonl"],
        "explain into a folder": ["predict.py", *one, texts, "--output=no.csv", "--explain=."],
        "explain windows": ["predict.py", *long, texts, "--output=no.csv", "--explain=no.jsonl"],
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
    assert 'Explained: <b dir="auto">good</b>' in (folder / "why.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("explain over", "--explain is ./no.csv, the same file as no.csv: choose another name"),
        ("no server", "--timeout is for --server: leave it out"),
        ("no table", "--output=no.json does not end in .csv: rename it"),
        ("explain table", "--explain=no.html does not end in .jsonl: rename it"),
        ("explain two", "--explain explains one model, but --model_dir names 2"),
        ("explain into a folder", "--explain is ., which is a folder: name a file in it"),
        ("explain windows", "the model pools windows of long texts, whose words cannot be"),
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
    assert not list(runs[1].glob("no.*"))  # before the work
