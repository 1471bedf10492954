"""What a user adds without touching the package: a task in one file, a kind of task in one row."""

import csv
import dataclasses
import math
import sys
import textwrap
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier
from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.head import FinetuningHead
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.task import Task, TaskData
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.base import SignatureFamily, string_vector
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.classification.delimited import read_texts_to_predict
from keras_bert.tasks.classification.head import LabeledTexts, TextHead
from keras_bert.tasks.kinds import KINDS, TaskKind
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.registry import create_task
from tests import command_process
from tests.conftest import sentiment_rows
from tests.tolerances import FORMULA, REORDERED, approx

REPOSITORY = Path(__file__).parents[2]

# Lines such as "+ a fine film", a file for each split.
OWN_TASK = """
    from pathlib import Path

    import numpy as np

    from keras_bert.finetuning.metrics import accuracy
    from keras_bert.finetuning.task import Task, TaskData
    from keras_bert.tasks.classification.head import LabeledTexts, TextHead

    SIGNS = "-+"


    def read(folder):
        splits = {}
        for path in Path(folder).glob("*.signs"):
            lines = path.read_text(encoding="utf-8").splitlines()
            labels = np.array([SIGNS.index(line[0]) for line in lines], np.int32)
            splits[path.stem] = LabeledTexts([line[2:] for line in lines], labels=labels)
        return TaskData(splits, ("bad", "good"))


    def signs(label_type="class"):
        return Task("signs", TextHead(label_type), read, {"accuracy": accuracy}, {"epochs": 3})


    def no_task():
        return {}


    a_number = 3
"""
SIGN_OF = {"neg": "-", "pos": "+"}
NEW = ["a good book", "the film was very bad", "it was nice and fine"]


@pytest.fixture
def own_module(tmp_path):
    """The folder of own_tasks.py."""
    (tmp_path / "own_tasks.py").write_text(textwrap.dedent(OWN_TASK))
    yield tmp_path
    sys.modules.pop("own_tasks", None)


def write_new_texts(path):
    path.write_text("\n".join(["text", *NEW]) + "\n")
    return path


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def served(folder):
    family = open_signatures(folder, ExportOptions())
    return {name: value.numpy() for name, value in family.answer(text=tf.constant(NEW)).items()}


@pytest.mark.slow
def test_a_task_in_one_file_is_learned_predicted_and_served(own_module, pretrained_folder):
    data, run = own_module / "data", own_module / "run"
    data.mkdir()
    for seed, (split, count) in enumerate({"train": 512, "validation": 64}.items()):
        lines = [f"{SIGN_OF[label]} {text}" for text, label in sentiment_rows(count, seed)]
        (data / f"{split}.signs").write_text("\n".join(lines))
    command = [REPOSITORY / "tools" / "run_finetuning.py"]
    command += ["--task=own_tasks:signs", "--data=data", "--model_dir=run"]
    command += [f"--init_from={pretrained_folder}", "--learning_rate=3e-3", "--batch_size=16"]
    command += ["--mixed_precision=float32", "--max_seq_length=16"]
    done = command_process.run(command, own_module)
    assert done.returncode == 0, done.stderr[-2000:]
    [measured] = [line.split() for line in done.stdout.splitlines() if " accuracy " in line]
    assert measured[0] == "validation" and float(measured[2]) > 0.9

    # The module is not needed again: task.json names the kind.
    assert predict_file(run, write_new_texts(own_module / "new.csv"), run / "answers.csv") == 3
    predicted = rows_of(run / "answers.csv")
    assert [row["predicted_label"] for row in predicted] == ["good", "bad", "good"]
    answers = served(run)
    assert answers["label"].tolist() == [b"good", b"bad", b"good"]
    scores = [[float(row["score_bad"]), float(row["score_good"])] for row in predicted]
    np.testing.assert_allclose(answers["scores"], scores, **REORDERED)


def test_flags_are_arguments_of_the_function(own_module, monkeypatch):
    monkeypatch.syspath_prepend(own_module)
    assert create_task("own_tasks:signs", label_type="multi_label").head == TextHead("multi_label")
    with pytest.raises(ValueError, match="has no scheme: leave it out .it takes label_type"):
        create_task("own_tasks:signs", scheme="BIO")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("own_taks:signs", "Python finds no module 'own_taks': start the tool in the folder"),
        ("own_tasks.more:signs", "Python finds no module 'own_tasks.more'"),
        ("own_tasks:sings", "own_tasks has no function 'sings': define it there"),
        ("own_tasks:a_number", "own_tasks has no function 'a_number': define it there"),
        ("own_tasks:no_task", "no_task returns a dict: it must return a keras_bert"),
    ],
)
def test_what_is_no_task_is_refused_in_one_sentence(own_module, monkeypatch, name, sentence):
    monkeypatch.syspath_prepend(own_module)
    with pytest.raises(ValueError, match=sentence):
        create_task(name)


def test_a_module_that_lacks_another_says_which(own_module, monkeypatch):
    monkeypatch.syspath_prepend(own_module)
    (own_module / "own_tasks.py").write_text("import not_installed_here\n")
    with pytest.raises(ModuleNotFoundError, match="not_installed_here"):
        create_task("own_tasks:signs")


def test_labels_may_be_lists():
    """Whatever is done with the labels of a run, up to the pictures at its end."""
    head = TextHead(labels=("bad", "good"))
    predictions = np.array([[0.1, 0.9], [0.8, 0.2], [0.7, 0.3]])
    for labels in ([1, 0, 1], [True, False, True]):
        examples = LabeledTexts(["a", "b", "c"], labels=labels)
        assert head.class_indices(examples).dtype == np.int32
        assert head.chance_loss(examples) == approx(math.log(3) - 2 / 3 * math.log(2), FORMULA)
        # Rows are what is right: one "bad" found, one "good" found and one taken for "bad".
        assert head.confusion(predictions, head.references(examples)).tolist() == [[1, 0], [1, 1]]
        assert head.collapse(predictions, head.references(examples)) is None
    several = LabeledTexts(["a", "b"], labels=[[0, 1], [1, 1]])
    assert TextHead("multi_label").references(several).mean(axis=0).tolist() == [0.5, 1.0]
    number = LabeledTexts(["a", "b"], labels=[0.5, 2])
    assert TextHead("regression").references(number).dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"labels": [0]}, "there are 2 texts but 1 labels: give one for each text"),
        ({"text_pairs": ["c"]}, "there are 2 texts but 1 text_pairs: give one for each text"),
        ({"labels": ["x", "y"]}, "the labels are .* such as .*'x'.*: give indices of classes"),
    ],
)
def test_labels_that_do_not_belong_to_their_texts_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        LabeledTexts(["a", "b"], **arguments)


@pytest.mark.parametrize("label_type", ["class", "multi_label"])
@pytest.mark.parametrize("labels", [(), ("liked",)])
def test_classes_are_learned_from_two_at_least(pretrained_folder, tmp_path, label_type, labels):
    known = [0, 1] if label_type == "class" else [[0], [1]]
    data = TaskData({"train": LabeledTexts(["a", "b"], labels=known)}, labels)
    task = Task("liked", TextHead(label_type), lambda _: data, {})
    with pytest.raises(ValueError, match=r"names the labels \[.*\], but .* at least two: name all"):
        finetune(task, data, pretrained_folder, tmp_path / "run")


@dataclasses.dataclass(frozen=True)
class ChanceHead(FinetuningHead):
    """A kind that the package does not have: the probability of one event, a number."""

    kind = "chance"
    model_class = BertClassifier

    def model_arguments(self):
        return {"num_classes": 1}

    def encode(self, tokenizer, examples, max_seq_length, description):
        return TextHead().encode(tokenizer, examples, max_seq_length, description)

    def loss(self, label_smoothing=0.0):
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def needs_segments(self, examples):
        return False

    def predictions(self, outputs, encoded, examples):
        return 1 / (1 + np.exp(-outputs[:, 0]))

    def references(self, examples):
        return None if examples.labels is None else examples.labels[:, 0]

    def example_table(self, examples):
        return ["text"], [list(texts) for texts in examples]

    def answer_columns(self):
        return ["chance"]

    def answer_rows(self, prediction, example):
        return [[f"{prediction:.6g}"]]


class ChanceSignatures(SignatureFamily):
    sample = {"text": "One text."}

    def __init__(self, description, *arguments):
        super().__init__(*arguments)

    def string_inputs(self):
        return {"text": string_vector("text")}

    def answer(self, text):
        logits = self.model.get_layer("classifier")(
            self.encoder.pooled_output(self.preprocess(text))
        )
        return {"chance": tf.sigmoid(logits)[:, 0]}


@pytest.mark.slow
def test_a_kind_of_task_is_a_row(pretrained_folder, tmp_path, monkeypatch):
    row = TaskKind("chances", ChanceHead, ChanceSignatures, read_texts_to_predict)
    monkeypatch.setitem(KINDS, "chance", row)
    splits = {}
    for seed, (split, count) in enumerate({"train": 512, "validation": 64}.items()):
        texts, labels = zip(*sentiment_rows(count, seed), strict=True)
        events = np.array([[label == "pos"] for label in labels], np.float32)
        splits[split] = LabeledTexts(texts, labels=events)
    data = TaskData(splits, text_columns={"text": "text"})
    hits = {"hits": lambda found, told: float(np.mean((found > 0.5) == (told > 0.5)))}
    task = Task("events", ChanceHead(), lambda _: data, hits)
    options = FinetuningOptions(
        epochs=3, batch_size=16, learning_rate=3e-3, mixed_precision="float32"
    )
    result = finetune(task, data, pretrained_folder, tmp_path / "run", options)
    assert result.validation["hits"] > 0.9
    answers = tmp_path / "answers.csv"
    assert predict_file(tmp_path / "run", write_new_texts(tmp_path / "new.csv"), answers) == 3
    chances = [float(row["chance"]) for row in rows_of(answers)]
    assert [chance > 0.5 for chance in chances] == [True, False, True]
    np.testing.assert_allclose(served(tmp_path / "run")["chance"], chances, **REORDERED)
