"""Data of --task=gliner: GLiNER's JSON and files of columns, and what a run makes of them."""

import csv
import json

import pytest

from keras_bert import FinetuningOptions, create_task, finetune, predict_file
from keras_bert.tasks.entity_recognition.entity_files import read_json_sentences
from keras_bert.tasks.entity_recognition.head import EntityHead

JSON = [
    {"tokenized_text": ["Ada", "of", "New", "York"], "ner": [[0, 0, "person"], [2, 3, "place"]]},
    {"tokenized_text": ["It", "rains"], "ner": [], "ner_labels": ["place"], "source": 3},
    {"tokenized_text": ["the", "film", "ab"], "ner": [[0, 1, "film"]]},
]
COLUMNS = "Ada B-PER\nof O\nNew B-LOC\nYork I-LOC\n\nIt O\nrains O\n"


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        stem, _, ending = name.rpartition("_")
        (folder / f"{stem}.{ending}").write_text(content)
    return folder


def test_json_is_a_list_or_an_object_a_line(tmp_path):
    lines = "\n".join(map(json.dumps, JSON)) + "\n\n"
    whole = write(tmp_path / "a", train_json=json.dumps(JSON), test_jsonl=lines)
    data = create_task("gliner").read(whole)
    assert data.labels == ("film", "person", "place")
    assert data.splits["train"] == data.splits["test"]
    first, second, _ = data.splits["train"]
    assert first.words == ("Ada", "of", "New", "York")
    assert first.entities == ((0, 0, "person"), (2, 3, "place"))
    assert (first.labels, second.entities, second.labels) == (None, (), ("place",))


def test_files_of_columns_say_the_same(tmp_path):
    data = create_task("gliner").read(write(tmp_path / "a", train_conll=COLUMNS))
    first, second = data.splits["train"]
    assert (first.words, first.entities) == (
        ("Ada", "of", "New", "York"),
        ((0, 0, "PER"), (2, 3, "LOC")),
    )
    assert second.entities == () and data.labels == ("LOC", "PER")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", r"data.json is not JSON \(.*\): fix it"),
        ('{"a": 1}', "holds a JSON dict: give a list of sentences, or an object a line in a .jso"),
        ("[]", "has no sentences: give a file with at least one"),
        ('[{"text": "a"}]', r"sentence 0 \(counted from 0\) has no list 'tokenized_text'"),
        ('[{"tokenized_text": ["a"]}]', "has no 'ner': give its entities"),
        ('[{"tokenized_text": [], "ner": []}]', "the sentence has no words"),
        ('[{"tokenized_text": ["a"], "ner": [[0, 1, "x"]]}]', "has the words 0 to 1, but the sen"),
        ('[{"tokenized_text": ["a"], "ner": [[0, 0]]}]', "give its first word, its last word and"),
        ('[{"tokenized_text": ["a"], "ner": [[0, 0, " "]]}]', "of the words 0 to 0 has a blank"),
        (
            '[{"tokenized_text": ["a"], "ner": [[0, 0, "x"]], "ner_labels": ["y"]}]',
            r"the label 'x', which is none of those that are asked for \(y\)",
        ),
    ],
)
def test_damaged_json_is_refused(tmp_path, content, sentence):
    path = tmp_path / "data.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=sentence):
        read_json_sentences(path)


def test_settings_that_do_not_fit_are_refused(tmp_path, model_folder):
    folder = write(tmp_path / "a", train_json=json.dumps(JSON))
    with pytest.raises(ValueError, match="train.json has no columns: leave out --word_index"):
        create_task("gliner", word_index=1).read(folder)
    with pytest.raises(ValueError, match="the scheme is 'plain', which tells no entities"):
        create_task("gliner", scheme="plain")
    with pytest.raises(ValueError, match="label_dropout is 1.5: it must be from 0 to below 1"):
        create_task("gliner", label_dropout=1.5)
    mixed = write(tmp_path / "b", train_json=json.dumps(JSON), test_conll=COLUMNS)
    with pytest.raises(ValueError, match="test.conll has columns, but train.json beside it is J"):
        create_task("gliner").read(mixed)
    head = EntityHead(max_types=1)
    sentences = create_task("gliner").read(folder).splits["train"]
    with pytest.raises(ValueError, match="'test' has 3 labels, more than max_types 1, and example"):
        head.check_labels(sentences, "test")
    with pytest.raises(ValueError, match="the training data has no entities"):
        head.check_labels(sentences[1:2], "train")
    with pytest.raises(ValueError, match="label_smoothing is 0.1, but each span and label is a ye"):
        head.loss(0.1)


@pytest.mark.slow
def test_a_run_measures_what_its_predictions_say(tmp_path, model_folder):
    """Oracle: F1 from predictions_validation.csv, counted here."""
    data = write(tmp_path / "a", train_json=json.dumps(JSON), dev_json=json.dumps(JSON))
    task = create_task("gliner", max_width=2, num_rnn_layers=0)
    options = FinetuningOptions(epochs=1, batch_size=8, max_seq_length=24)
    result = finetune(task, task.read(data), model_folder("encoder"), tmp_path / "run", options)
    with open(tmp_path / "run" / "predictions_validation.csv", newline="") as file:
        found = {
            (int(r["sentence"]) - 1, int(r["first_word"]) - 1, int(r["last_word"]) - 1,
             r["predicted_label"])
            for r in csv.DictReader(file)
        }  # fmt: skip
    there = {(n, *span) for n, one in enumerate(JSON) for span in one["ner"]}
    # tests/tasks/test_entity_recognition.py has entities that are right.
    f1 = 2 * len(found & there) / (len(found) + len(there))
    assert result.metrics["validation"]["f1"] == pytest.approx(f1)
    # The same labels for words without entities: those of the training data.
    (tmp_path / "in.json").write_text(
        json.dumps([{"tokenized_text": one["tokenized_text"]} for one in JSON])
    )
    predict_file(tmp_path / "run", tmp_path / "in.json", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().startswith("sentence,entity,predicted_label,first_w")
