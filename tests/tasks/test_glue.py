"""GLUE: small files written here in the form in which the benchmark distributes its own."""

import types

import numpy as np
import pytest

from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.tasks.classification.glue import GLUE, glue_task
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.registry import TASKS, create_task

MNLI = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2"
)
MNLI_ROW = '0\t31193\t31193n\tslate\t( A )\t( B )\t(ROOT)\t(ROOT)\tHe said "no.\tHe spoke'
STSB = "index\tgenre\tfilename\tyear\told_index\tsentence1\tsentence2"
STSB_ROW = "0\tmain\tMSRvid\t2012test\t0001\tA plane.\tAn air plane."

# Task: files, then texts, pairs and labels of "train", and the splits there are.
FILES = {
    "cola": (
        {
            "train.tsv": 'gj04\t1\t\tThe "sailors rode.\ngj04\t0\t*\tRode sailors the.\n',
            "dev.tsv": "gj04\t1\t\tHe ate.\n",
            "test.tsv": "index\tsentence\n0\tBill left.\n",
        },
        ['The "sailors rode.', "Rode sailors the."],
        None,
        [1, 0],
    ),
    "sst2": (
        {"train.tsv": "sentence\tlabel\nhide it \t0\nwit , only\t1\n"},
        ["hide it ", "wit , only"],
        None,
        [0, 1],
    ),
    "mrpc": (
        {
            "train.tsv": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
            '1\t702876\t702977\tHe said , " yes .\t" Yes , " he said .\r\n',
            "test.tsv": "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tA\tB\n",
        },
        ['He said , " yes .'],
        ['" Yes , " he said .'],
        [1],
    ),
    "qqp": (
        {
            "train.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
            "1\t2\t3\tWhy?\tHow?\t0\nbroken\t0\n4\t5\t6\tWho?\tWho is?\t1\n",
            "test.tsv": "id\tquestion1\tquestion2\n0\tA?\tB?\n",
        },
        ["Why?", "Who?"],
        ["How?", "Who is?"],
        [0, 1],
    ),
    "stsb": (
        {
            "train.tsv": f"{STSB}\tscore\n{STSB_ROW}\t4.750\n{STSB_ROW}\t0\n",
            "test.tsv": f"{STSB}\n{STSB_ROW}\n",
        },
        ["A plane."] * 2,
        ["An air plane."] * 2,
        [4.75, 0.0],
    ),
    "mnli": (
        {
            "train.tsv": f"{MNLI}\tlabel1\tgold_label\n{MNLI_ROW}\tneutral\tneutral\n",
            "dev_matched.tsv": f"{MNLI}\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n"
            f"{MNLI_ROW}\tneutral\tneutral\tentailment\tneutral\tneutral\tcontradiction\n",
            "dev_mismatched.tsv": f"{MNLI}\tlabel1\tgold_label\n{MNLI_ROW}\tx\tentailment\n",
            "test_matched.tsv": f"{MNLI}\n{MNLI_ROW}\n",
            "test_mismatched.tsv": f"{MNLI}\n{MNLI_ROW}\n{MNLI_ROW}\n",
            "diagnostic.tsv": "index\tsentence1\tsentence2\n0\tA cat.\tNo cat.\n",
        },
        ['He said "no.'],
        ["He spoke"],
        [1],
    ),
    "qnli": (
        {"train.tsv": "index\tquestion\tsentence\tlabel\n0\tWhen?\tThen.\tnot_entailment\n"},
        ["When?"],
        ["Then."],
        [1],
    ),
    "rte": (
        {"train.tsv": "index\tsentence1\tsentence2\tlabel\n0\tNo.\tYes.\tentailment\n"},
        ["No."],
        ["Yes."],
        [0],
    ),
    "wnli": (
        {"train.tsv": "index\tsentence1\tsentence2\tlabel\n0\tI stuck it.\tIt stuck.\t1\n"},
        ["I stuck it."],
        ["It stuck."],
        [1],
    ),
}
SPLITS = {
    "train.tsv": "train",
    "dev.tsv": "validation",
    "test.tsv": "test",
    "dev_matched.tsv": "validation",
    "dev_mismatched.tsv": "validation_mismatched",
    "test_matched.tsv": "test",
    "test_mismatched.tsv": "test_mismatched",
    "diagnostic.tsv": "ax",
}


def write(folder, files):
    for name, text in files.items():
        (folder / name).write_bytes(text.encode("utf-8"))
    return folder


def test_all_tasks_of_the_benchmark_are_there():
    assert set(GLUE) == {*FILES, "ax"}
    assert set(GLUE) < set(TASKS)
    assert next(iter(create_task("cola").metrics)) == "matthews_correlation"
    assert list(create_task("stsb").metrics) == ["pearson", "spearman"]
    assert list(create_task("mrpc").metrics) == ["accuracy", "f1"]


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_as_distributed(name, tmp_path):
    files, texts, pairs, labels = FILES[name]
    data = glue_task(name).read(write(tmp_path, files))
    assert set(data.splits) == {SPLITS[file] for file in files}
    train = data.splits["train"]
    assert list(train.texts) == texts
    assert (None if train.text_pairs is None else list(train.text_pairs)) == pairs
    np.testing.assert_array_equal(train.labels, labels)
    for split in ("test", "test_mismatched", "ax"):
        assert split not in data.splits or data.splits[split].labels is None
    if name == "mnli":
        assert data.splits["validation"].labels.tolist() == [2]
        assert data.splits["validation_mismatched"].labels.tolist() == [0]


PARAPHRASES = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"


def test_mrpc_is_read_as_microsoft_distributes_it(tmp_path):
    rows = '1\t7\t8\tHe said "yes.\tYes.\r\n0\t8\t9\tA\tB\r\n1\t9\t7\tC\tD\r\n'
    files = {
        "msr_paraphrase_train.txt": PARAPHRASES + rows,
        "msr_paraphrase_test.txt": PARAPHRASES + "0\t1\t2\tE\tF\r\n",
    }
    data = glue_task("mrpc").read(write(tmp_path, files))
    assert list(data.splits["train"].texts) == ['He said "yes.', "A", "C"]
    assert set(data.splits) == {"train", "test"}
    assert data.splits["test"].labels.tolist() == [0]

    # The ids of both sentences, as GLUE chose its development data. "9 8" is no pair of the file.
    data = glue_task("mrpc").read(write(tmp_path, {"dev_ids.tsv": "8\t9\n9\t8\n"}))
    assert list(data.splits["train"].texts) == ['He said "yes.', "C"]
    assert data.splits["train"].labels.tolist() == [1, 1]
    assert list(data.splits["validation"].text_pairs) == ["B"]
    assert data.splits["validation"].labels.tolist() == [0]

    with pytest.raises(ValueError, match="dev_ids.tsv leaves no validation data in .*train.txt"):
        glue_task("mrpc").read(write(tmp_path, {"dev_ids.tsv": "1\t2\n"}))


def test_lines_that_the_benchmark_itself_broke_are_counted(tmp_path, capsys):
    glue_task("qqp").read(write(tmp_path, FILES["qqp"][0]))
    assert "1 of 3 lines have not 6 columns and are left out; the first is line 3" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("cola", "dev.tsv", "a\t1\t\tOne.\nb\t0\t*\tTwo two.\n"),
        ("cola", "test.tsv", "index\tsentence\n0\tOne.\n1\tTwo two.\n"),
        (
            "qqp",
            "train.tsv",
            "id\tquestion1\tquestion2\tis_duplicate\n0\tOne.\tA\t0\n1\tX\n2\tTwo two.\tB\t1\n",
        ),
        ("sst2", "own.txt", "One.\nTwo two.\n"),  # a text a line
        ("mrpc", "test.txt", "Quality\t#1 String\t#2 String\n1\tOne.\tA\n0\tTwo two.\tB\n"),
    ],
)
def test_every_file_of_a_task_can_be_predicted(name, file, text, tmp_path):
    write(tmp_path, {file: "\ufeff" + text})
    description = types.SimpleNamespace(text_columns=GLUE[name].text_columns)
    found = glue_task(name).read_for_prediction(tmp_path / file, description)
    assert list(found.examples.texts) == ["One.", "Two two."]


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("own.tsv", "id\tlabel\tnotes\ttext\n1\t0\t\tHello.\n", "there is no column 'sentence'"),
        ("own.json", "[]", "own.json is not one of .csv, .tsv, .jsonl: write a JSON object a line"),
        ("own.txt", "", "own.txt has no lines: give a file with a text a line"),
        ("absent.tsv", None, "absent.tsv does not exist: give a file"),
    ],
)
def test_what_is_no_file_of_the_task_is_told(file, text, sentence, tmp_path):
    if text is not None:
        write(tmp_path, {file: text})
    description = types.SimpleNamespace(text_columns=GLUE["cola"].text_columns)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        glue_task("cola").read_for_prediction(tmp_path / file, description)


def test_no_line_of_a_test_is_left_out(tmp_path):
    # The leaderboard counts them.
    files = FILES["qqp"][0] | {"test.tsv": "id\tquestion1\tquestion2\n0\tA?\tB?\n1\tC?\n"}
    with pytest.raises(ValueError, match="test.tsv, line 3 has 2 columns; expected are 3"):
        glue_task("qqp").read(write(tmp_path, files))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("sst2", "sentence\tlabel\na\t2\n", "line 2: the label is '2', expected one of 0, 1"),
        ("sst2", "sentence\tlabel\na\tb\t1\n", "line 2 has 3 columns; expected are 2"),
        ("sst2", "text\tlabel\na\t1\n", "there is no column 'sentence' among 'text', 'label'"),
        ("sst2", "sentence\tlabel\n", "has no rows"),
        ("sst2", "", "has no rows"),
        ("cola", "a\tb\n", "line 1 has 2 columns; expected are 4"),
        ("stsb", f"{STSB}\tscore\n{STSB_ROW}\thigh\n", "line 2: the score is 'high'"),
        ("stsb", f"{STSB}\tscore\n{STSB_ROW}\tnan\n", "line 2: the score is 'nan'"),
    ],
)
def test_broken_files_are_refused(name, text, sentence, tmp_path):
    with pytest.raises(ValueError, match=f"train.tsv.*{sentence}"):
        glue_task(name).read(write(tmp_path, {"train.tsv": text}))


def test_the_diagnostic_set_needs_its_file(tmp_path):
    files = FILES["mnli"][0]
    write(tmp_path, {"train.tsv": files["train.tsv"]})
    with pytest.raises(FileNotFoundError, match="diagnostic.tsv does not exist"):
        create_task("ax").read(tmp_path)
    with pytest.raises(ValueError, match="the task 'cola' has no text_column"):
        create_task("cola", text_column="x")


def test_the_diagnostic_set_is_found_where_it_is_distributed(tmp_path):
    for folder, names in {"MNLI": ["train.tsv"], "diagnostic": ["diagnostic.tsv"]}.items():
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, {name: FILES["mnli"][0][name] for name in names})
    for name in ("ax", "mnli"):
        data = create_task(name).read(tmp_path / "MNLI")
        assert list(data.splits["ax"].texts) == ["A cat."]


@pytest.mark.slow
def test_a_run_writes_the_files_of_the_leaderboard(pretrained_folder, tmp_path):
    files = dict(FILES["mnli"][0])
    header, row = files["train.tsv"].splitlines()
    rows = [row.replace("neutral", label) for label in GLUE["mnli"].labels] * 8
    files["train.tsv"] = "\n".join([header, *rows]) + "\n"
    task = create_task("mnli")
    options = FinetuningOptions(epochs=1, batch_size=8, mixed_precision="float32")
    data = task.read(write(tmp_path, files))
    result = finetune(task, data, pretrained_folder, tmp_path / "run", options)
    assert set(result.metrics) == {"validation", "validation_mismatched"}
    folder = tmp_path / "run" / "submission"
    assert sorted(path.name for path in folder.iterdir()) == ["AX.tsv", "MNLI-m.tsv", "MNLI-mm.tsv"]
    lines = (folder / "MNLI-mm.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    assert [line.split("\t")[0] for line in lines[1:]] == ["0", "1"]
    assert all(line.split("\t")[1] in GLUE["mnli"].labels for line in lines[1:])

    # The same file as input of a prediction: quotes mean nothing in it.
    count = predict_file(tmp_path / "run", tmp_path / "test_mismatched.tsv", tmp_path / "out.csv")
    assert count == 2


def test_similarities_are_written_within_their_range(tmp_path):
    task = create_task("stsb")
    predictions = {"test": np.array([5.3, -0.1, 2.34567], np.float32)}
    (path,) = task.write_submission(tmp_path, None, predictions)
    assert path.name == "STS-B.tsv"
    assert path.read_text() == "index\tprediction\n0\t5.000\n1\t0.000\n2\t2.346\n"
