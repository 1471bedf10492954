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
from keras_bert.finetuning.metrics import accuracy
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.task import Task, TaskData
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.base import SignatureFamily, string_vector
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.classification.delimited import read_texts_to_predict
from keras_bert.tasks.classification.head import LabeledTexts, TextHead
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.kinds import KINDS, TaskKind
from keras_bert.tasks.multiple_choice.head import ChoiceExample, ChoiceHead
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.questions import Answer, Question
from keras_bert.tasks.registry import create_task
from keras_bert.tasks.tagging.head import TagHead
from keras_bert.tasks.tagging.sentences import TaggedSentence
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
        ({"labels": [[0, 1], [1]]}, "the labels are object such as .*: give indices of classes"),
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


def texts(labels):
    return LabeledTexts(["a film"] * 3, labels=labels)


def tagged(*tags):
    return [TaggedSentence(("a", "film"), ("O", "X")), TaggedSentence(("a", "book"), tags)]


def asked(text, start):
    return [Question("1", "a film", "it was a film", (Answer("a film", 7), Answer(text, start)))]


def chosen(label):
    return [ChoiceExample("a", ("film", "book"), 0), ChoiceExample("it", ("was", "and"), label)]


INDEX = "give the index of a class, a whole number from 0 to 1"


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize(
    ("head", "right", "wrong", "sentence"),
    [
        (TextHead(), texts([0, 1, 1]), texts([0, 1, 2]), f"example 2 .* has the label 2: {INDEX}"),
        (TextHead(), texts([0, 1, 1]), texts([0, -1, 0]), f"example 1 .* the label -1: {INDEX}"),
        (TextHead(), texts([0, 1, 1]), texts([0.0, 1, 1]), f"example 0 .* label 0.0: {INDEX}"),
        (TextHead(), texts([0, 1, 1]), texts([0, 1, 2**32]), "example 2 .* 4294967296.0: give"),
        (TextHead(), texts([0, 1, 1]), texts([[0, 1]] * 3), r"the label \[0.0, 1.0\]: .*_label"),
        (
            TextHead("multi_label"),
            texts([[0, 1]] * 3),
            texts([[0, 1], [0.5, 1], [0, 1]]),
            r"example 1 .* has the label \[0.5, 1.0\]: give a row of 2 zeros and ones",
        ),
        (TextHead("multi_label"), texts([[0, 1]] * 3), texts([0, 1, 1]), "give a row of 2 zeros"),
        (TextHead("multi_label"), texts([[0, 1]] * 3), texts([[1]] * 3), "give a row of 2 zeros"),
        (
            TextHead("regression"),
            texts([1, 2, 3]),
            texts([1, 2, math.nan]),
            "example 2 .* the label nan: give one finite number",
        ),
        (TextHead("regression"), texts([1, 2, 3]), texts([[1]] * 3), "give one finite number"),
        (TagHead(), tagged("O", "X"), tagged("O", "Y"), "example 1 .* the tag 'Y', which is none"),
        (TagHead(), tagged("O", "X"), tagged("O"), "example 1 .* has 2 words but 1 tags: give one"),
        (SpanHead(), asked("film", 9), asked("film", 7), "example 0 .* the answer 'film' is not "),
        (SpanHead(), asked("film", 9), asked("", 7), "the answer '' is not at character 7"),
        (SpanHead(), asked("film", 9), asked("film", 9.0), "the answer 'film' starts at 9.0"),
        (ChoiceHead(), chosen(1), chosen(-1), "example 1 .* has the label -1 and 2 choices: give "),
        (ChoiceHead(), chosen(1), chosen(2), "the index of one, a whole number from 0 to 1"),
        (ChoiceHead(), chosen(1), chosen("1"), "example 1 .* has the label '1' and 2 choices"),
    ],
)
def test_labels_that_are_none_are_refused_before_anything_is_computed(
    pretrained_folder, tmp_path, monkeypatch, split, head, right, wrong, sentence
):
    labels = ("O", "X") if isinstance(head, TagHead) else ("no", "yes")
    if head in (SpanHead(), ChoiceHead(), TextHead("regression")):
        labels = ()
    data = TaskData({"train": right, "test": right} | {split: wrong}, labels)
    task = Task("own", head, None, {"accuracy": accuracy})
    monkeypatch.setattr(type(head), "encode", None)  # it comes to no rows
    with pytest.raises(ValueError, match=f"{sentence}") as told:
        finetune(task, data, pretrained_folder, tmp_path / "run")
    assert f"of the split {split!r}" in str(told.value)
    # A loop of one's own is told the same.
    model = FinetunedModel.from_task(task, data, pretrained_folder)
    with pytest.raises(ValueError, match=f"{sentence}"):
        model.validation_data(data, split=split)


@pytest.mark.parametrize(
    ("head", "labeled", "unlabeled"),
    [
        (TextHead(), texts([0, 1, 1]), texts(None)),
        (ChoiceHead(), chosen(1), chosen(None)),
    ],
)
def test_labels_are_missing_only_where_nothing_needs_them(
    pretrained_folder, tmp_path, head, labeled, unlabeled
):
    labels = ("no", "yes") if isinstance(head, TextHead) else ()
    task = Task("own", head, None, {"size": lambda predictions, _: float(len(predictions))})

    def tuned(folder, **splits):
        options = FinetuningOptions(epochs=1, mixed_precision="float32")
        data = TaskData({"train": labeled} | splits, labels)
        return finetune(task, data, pretrained_folder, tmp_path / folder, options)

    with pytest.raises(ValueError, match="the split 'train' is learned from, but .* no labels"):
        tuned("a", train=unlabeled)
    with pytest.raises(ValueError, match="the split 'validation' chooses the best .* no labels"):
        tuned("b", validation=unlabeled)
    # A test is predicted then, and not measured.
    result = tuned("c", validation=labeled, test=unlabeled)
    assert set(result.metrics) == {"validation"}
    assert (tmp_path / "c" / "predictions_test.csv").is_file()


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
