"""The csv task: folders of small files, expected values read off by hand."""

import shutil

import numpy as np
import pytest
from published_packages import fetch

from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.tasks.classification.head import TextHead
from keras_bert.tasks.registry import create_task


def folder(tmp_path, **files):
    for name, content in files.items():
        stem, extension = name.rsplit("_", 1)
        (tmp_path / f"{stem}.{extension}").write_text(content, encoding="utf-8")
    return tmp_path


def test_labels_are_those_of_the_train_file_sorted(tmp_path):
    data = csv_task().read(
        folder(
            tmp_path,
            train_csv="text,label\none,z\ntwo,a\nthree,m\nfour,z\n",
            dev_tsv="label\ttext\nm\tfive\n",
            test_jsonl='{"text": "six", "label": "a"}\n',
        )
    )
    assert data.labels == ("a", "m", "z")
    assert data.text_columns == {"text": "text"}
    assert list(data.splits["train"].texts) == ["one", "two", "three", "four"]
    assert data.splits["train"].text_pairs is None
    np.testing.assert_array_equal(data.splits["train"].labels, [2, 0, 1, 2])
    assert list(data.splits["validation"].texts) == ["five"]
    np.testing.assert_array_equal(data.splits["validation"].labels, [1])
    assert list(data.splits["test"].texts) == ["six"]
    np.testing.assert_array_equal(data.splits["test"].labels, [0])


def test_whole_numbers_are_labels_in_their_order(tmp_path):
    rows = "".join(f"a,{label}\n" for label in (10, 2, -3, 0, 11, 1, -20, 2))
    data = csv_task().read(folder(tmp_path, train_csv=f"text,label\n{rows}"))
    assert data.labels == ("-20", "-3", "0", "1", "2", "10", "11")
    np.testing.assert_array_equal(data.splits["train"].labels, [5, 4, 1, 2, 6, 3, 0, 4])
    mixed = csv_task().read(folder(tmp_path, train_csv="text,label\na,10\nb,2\nc,two\n"))
    assert mixed.labels == ("10", "2", "two")


@pytest.mark.parametrize("name", ["validation", "dev", "valid", "val"])
def test_validation_data_has_any_of_its_usual_names(tmp_path, name):
    files = {"train_csv": TRAIN, f"{name}_csv": TRAIN}
    assert list(csv_task().read(folder(tmp_path, **files)).splits) == ["train", "validation"]


def test_given_labels_keep_their_order(tmp_path):
    content = "text,label\none,z\ntwo,a\n"
    data = csv_task(labels=["z", " never seen ", "a"]).read(folder(tmp_path, train_csv=content))
    assert data.labels == ("z", "never seen", "a")
    np.testing.assert_array_equal(data.splits["train"].labels, [0, 2])


def test_a_text_pair_column_is_used_where_there_is_one(tmp_path):
    content = "text,text_pair,label\na,b,1\nc,d,0\n"
    data = csv_task().read(folder(tmp_path, train_csv=content, validation_csv=content))
    assert list(data.splits["train"].text_pairs) == ["b", "d"]
    assert list(data.splits["validation"].text_pairs) == ["b", "d"]
    assert "test" not in data.splits


def test_columns_of_other_names(tmp_path):
    content = "id,s1,s2,gold\n7,a,b,1\n8,c,d,0\n"
    task = csv_task("s1", "s2", "gold")
    data = task.read(folder(tmp_path, train_csv=content))
    assert data.text_columns == {"text": "s1", "text_pair": "s2"}
    assert (list(data.splits["train"].texts), list(data.splits["train"].text_pairs)) == (
        ["a", "c"],
        ["b", "d"],
    )


@pytest.mark.parametrize(
    ("name", "columns", "sentence"),
    [
        ("csv", {"text_column": "label"}, "text_column and label_column are both 'label': name a"),
        ("csv", {"text_pair_column": "text"}, "text_column and text_pair_column are both 'text'"),
        ("csv", {"text_pair_column": "label"}, "text_pair_column and label_column are both"),
        ("retrieval", {"positive_column": "text"}, "text_column and positive_column are both"),
        ("sparse_retrieval", {"positive_column": "text"}, "text_column and positive_column are b"),
        ("multi_vector_retrieval", {"positive_column": "text"}, "positive_column are both 'text'"),
        ("similarity", {"score_column": "text"}, "text_column and score_column are both 'text'"),
        ("reranking", {"text_column": "positive"}, "text_column and positive_column are both"),
    ],
)
def test_one_column_is_not_two_things(name, columns, sentence):
    with pytest.raises(ValueError, match=sentence):
        create_task(name, **columns)


def test_the_usual_name_of_a_second_text_may_be_that_of_another_column(tmp_path):
    files = folder(tmp_path, train_csv="text,text_pair\none,a\ntwo,b\n")
    assert csv_task(label_column="text_pair").read(files).text_columns == {"text": "text"}


def test_regression_reads_numbers(tmp_path):
    data = csv_task(label_type="regression").read(
        folder(tmp_path, train_csv="text,label\na,1.5\nb,-2e1\n")
    )
    assert data.labels == ()
    assert data.splits["train"].labels.dtype == np.float32
    np.testing.assert_array_equal(data.splits["train"].labels, [1.5, -20.0])


def test_blanks_around_a_label_make_no_other_class(tmp_path):
    data = csv_task().read(folder(tmp_path, train_csv="text,label\na,x\nb, y\nc,x \n"))
    assert data.labels == ("x", "y")
    np.testing.assert_array_equal(data.splits["train"].labels, [0, 1, 0])


TRAIN = "text,label\na,x\nb,y\n"


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (
            {"train_csv": TRAIN, "dev_csv": "text,label\na,x\nb,q\n"},
            r"dev.csv, line 3: the label 'q' is not one of 'x', 'y'",
        ),
        ({"train_csv": "text,label\na,x\nb, \n"}, "train.csv, line 3: the label is empty"),
        (
            {"train_csv": "body,label\na,x\nb,y\n"},
            "train.csv: there is no column 'text' among 'body', 'label': .*--text_column",
        ),
        (
            {"train_csv": "text,y\na,x\nb,y\n"},
            "train.csv: there is no column 'label' among 'text', 'y': .*--label_column",
        ),
        (
            {"train_csv": "text,text_pair,label\na,b,x\nc,d,y\n", "test_csv": TRAIN},
            "test.csv: there is no column 'text_pair'.*--text_pair_column",
        ),
        (
            {"train_jsonl": '{"text": "a", "label": {"x": 1}}\n{"text": "b", "label": {}}\n'},
            r'train.jsonl, line 1: label is a JSON object, \{"x": 1\}: give what is meant of it in',
        ),
        (
            {"train_jsonl": '{"text": "a", "label": "x"}\n{"text": {"a": 1}, "label": "y"}\n'},
            r'train.jsonl, line 2: text is a JSON object, \{"a": 1\}: give what is meant of it in',
        ),
        (
            {"train_jsonl": '{"text": "a", "label": ["x"]}\n{"text": "b", "label": "y"}\n'},
            "train.jsonl, line 1: label is a list: give one label, or learn several with --multi_",
        ),
        (
            {"train_jsonl": '{"text": "a", "label": 1}\n{"label": 0}\n'},
            "train.jsonl, line 2: there is no 'text' among 'label'",
        ),
        (
            {"train_jsonl": '{"text": "a", "label": "x"}\n{"text": ["b"], "label": "y"}\n'},
            "train.jsonl, line 2: text is a list: give each of its texts a row",
        ),
        (
            {"train_jsonl": '{"text": "a", "label": "x"}\n{"text": "b", "label": NaN}\n'},
            "train.jsonl, line 2: label is nan, which is no number of JSON: write null",
        ),
        ({"train_csv": "text,label\na,x\nb,x\n"}, "train.csv: every label is 'x'"),
        ({"train_csv": TRAIN, "train_tsv": "t"}, "train.csv and train.tsv, both train data"),
        (
            {"train_csv": TRAIN, "dev_csv": TRAIN, "validation_csv": TRAIN},
            "validation.csv and dev.csv, both validation data",
        ),
    ],
)
def test_data_that_is_no_task_is_refused(tmp_path, files, sentence):
    with pytest.raises(ValueError, match=sentence):
        csv_task().read(folder(tmp_path, **files))


@pytest.mark.parametrize("label", ["many", "nan", "inf", "1e39"])
def test_regression_refuses_what_is_not_a_number(tmp_path, label):
    with pytest.raises(ValueError, match=f"train.csv, line 3: the label '{label}' is not a number"):
        csv_task(label_type="regression").read(
            folder(tmp_path, train_csv=f"text,label\na,1\nb,{label}\n")
        )


def test_folders_without_training_data_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no train.csv or train.tsv or train.jsonl"):
        csv_task().read(folder(tmp_path, dev_csv=TRAIN))
    with pytest.raises(FileNotFoundError, match="gone is not a folder"):
        csv_task().read(tmp_path / "gone")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"labels": ["a"]}, "at least two different ones"),
        ({"labels": ["a", "b", "a"]}, "at least two different ones"),
        ({"labels": ["a", "b", " a"]}, "at least two different ones"),
        ({"labels": [0, 1]}, r"^label 0 \(counted from 0\) is a int: give strings$"),
        ({"labels": 5}, "^labels is 5: give a list of labels"),
        ({"labels": "ab"}, "^labels is the string 'ab', which would be read letter by letter"),
        ({"labels": ["a", "b"], "label_type": "regression"}, "a regression has no labels"),
    ],
)
def test_label_lists_that_make_no_sense_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        csv_task(**arguments)


def test_several_labels_are_no_json_object(tmp_path):
    files = folder(tmp_path, train_jsonl='{"text": "a", "label": {"x": 1}}\n')
    with pytest.raises(ValueError, match="line 1: label is a JSON object"):
        csv_task(label_type="multi_label").read(files)


def test_several_labels_may_be_a_json_list(tmp_path):
    rows = ['{"text": "a", "label": ["y", "x"]}', '{"text": "b", "label": []}']
    (tmp_path / "train.jsonl").write_text("\n".join([*rows, '{"text": "c", "label": "x|z"}']))
    data = csv_task(label_type="multi_label").read(tmp_path)
    assert data.labels == ("x", "y", "z")
    assert data.splits["train"].labels.tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 1]]


def test_several_labels_have_no_separator_in_their_names(tmp_path):
    rows = ['{"text": "a", "label": ["x"]}', '{"text": "b", "label": ["y", "x|y"]}']
    (tmp_path / "train.jsonl").write_text("\n".join(rows))
    sentence = r"the label 'x\|y', but '\|' separates the labels of a text: give it another name"
    with pytest.raises(ValueError, match=rf"train\.jsonl, line 2 has {sentence}"):
        csv_task(label_type="multi_label").read(tmp_path)
    with pytest.raises(ValueError, match=f"--labels has {sentence}"):
        csv_task(label_type="multi_label", labels=["x", "x|y"])
    with pytest.raises(ValueError, match=f"the data has {sentence}"):
        TextHead("multi_label").with_labels(["x", "x|y"])
    # One label of a text stands alone.
    (tmp_path / "train.jsonl").unlink()
    one = csv_task(labels=["x", "x|y"]).read(folder(tmp_path, train_csv="text,label\na,x|y\nb,x\n"))
    assert one.splits["train"].labels.tolist() == [1, 0]


def test_several_labels_may_be_a_json_list_of_numbers(tmp_path):
    rows = ['{"text": "a", "label": [10, 4]}', '{"text": "b", "label": [4]}']
    (tmp_path / "train.jsonl").write_text("\n".join([*rows, '{"text": "c", "label": 10}']))
    data = csv_task(label_type="multi_label").read(tmp_path)
    assert data.labels == ("4", "10")
    assert data.splits["train"].labels.tolist() == [[1, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize("name", ["train", "dev"])
@pytest.mark.parametrize("labels", ["['x', 'y']", " [x, y] ", '["x", true]', "[x|y]", "[true]"])
def test_what_is_not_quite_a_json_list_is_no_label(tmp_path, name, labels):
    files = {"train_tsv": "text\tlabel\na\tx\nb\ty\n"}
    files[f"{name}_tsv"] = f"text\tlabel\na\tx|y\nb\t{labels}\n"
    with pytest.raises(ValueError, match=rf"{name}.tsv, line 3: .*expected a JSON list of strings"):
        csv_task(label_type="multi_label").read(folder(tmp_path, **files))


def test_names_may_stand_in_brackets(tmp_path):
    files = folder(tmp_path, train_tsv="text\tlabel\na\t[joy]|[anger]\nb\t[joy]\n")
    data = csv_task(label_type="multi_label").read(files)
    assert data.labels == ("[anger]", "[joy]")
    assert data.splits["train"].labels.tolist() == [[1, 1], [0, 1]]


def test_an_unknown_task_is_refused_with_the_list():
    with pytest.raises(
        ValueError, match="there is no task 'sts-b': choose one of ax, choice, cola"
    ):
        create_task("sts-b")


@pytest.mark.oracle
def test_a_folder_of_snli_is_a_task(tmp_path):
    source = fetch("allennlp==0.9.0") / "allennlp/tests/fixtures/data/snli.jsonl"
    shutil.copy(source, tmp_path / "train.jsonl")
    data = csv_task("sentence1", "sentence2", "gold_label").read(tmp_path)
    train = data.splits["train"]
    assert data.labels == ("contradiction", "entailment", "neutral")
    assert train.texts[0] == "A person on a horse jumps over a broken down airplane."
    assert train.text_pairs[0] == "A person is training his horse for a competition."
    assert train.labels.tolist() == [2, 0, 1]
