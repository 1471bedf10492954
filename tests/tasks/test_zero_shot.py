"""Zero-shot classification. Oracle: what `BertClassifier` says of each pair, and arithmetic."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertTokenizer,
    CrossEncoder,
    ExportOptions,
    ZeroShotClassifier,
    ZeroShotResult,
    connect,
    export_saved_model,
)
from keras_bert.serving.client import ServerError
from keras_bert.serving.graph_operations import graph_operations
from keras_bert.serving.remote_prediction import predict_labels_remotely
from keras_bert.serving.served_folder import open_ensemble, open_signatures
from keras_bert.tasks.named_labels import CandidateLabels, EntityLabels
from keras_bert.zero_shot import classify_file
from tests import command_process
from tests.serving import model_server
from tests.serving.fresh_process import as_text, ask_fresh_process
from tests.serving.test_serving_kit import OPS_LIB, listed_operations, tensorflow_operations
from tests.signatures.tiny_models import MAX_SEQ_LENGTH, random_texts, write_model
from tests.tolerances import REORDERED

TOOLS = Path(__file__).parents[2] / "tools"
INFERENCE = ("neutral", "Contradicts", "ENTAILED")
TWO = ("entailment", "not_entailment")
TEXTS = ["", "the film", "the film d's " * 9, *random_texts(4, seed=6, longest=9)[1:]]
LABELS = ["a film", "sport, x", "z"]
TEMPLATE = "d: {}!"
SERVER = ("--server=127.0.0.1:1", "--served_model=nli")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("nli") / "three", "pairs", labels=INFERENCE)


@pytest.fixture(scope="module")
def classifier(folder):
    return ZeroShotClassifier.from_preset(folder)


def pair_logits(folder, text, hypothesis):
    """What the model says of one pair, of which the text alone is cut."""
    tokenizer = BertTokenizer.from_preset(folder)
    text, hypothesis = tokenizer([text, hypothesis]).to_list()
    tokens = tokenizer.vocabulary
    text = text[: MAX_SEQ_LENGTH - 3 - len(hypothesis)]
    ids = [tokens.cls_id, *text, tokens.sep_id, *hypothesis, tokens.sep_id]
    segments = [0] * (len(text) + 2) + [1] * (len(hypothesis) + 1)
    rows = {"input_ids": ids, "input_mask": [1] * len(ids), "segment_ids": segments}
    model = BertClassifier.from_preset(folder, dtype="float32")
    return model({name: np.array([row], np.int32) for name, row in rows.items()}).numpy()[0]


@pytest.fixture(scope="module")
def expected(folder):
    """Odds of contradiction and of entailment by hand, float64 [N, L] each."""
    said = [TEMPLATE.replace("{}", label) for label in LABELS]
    logits = np.array([[pair_logits(folder, text, one) for one in said] for text in TEXTS])
    odds = np.exp(logits.astype(np.float64))  # [N, L, 3]
    return odds[..., 1], odds[..., 2]


def test_one_of_the_labels_has_the_softmax_of_entailment(classifier, expected):
    _, entailed = expected
    scores = entailed / entailed.sum(axis=1, keepdims=True)
    found = classifier.classify(TEXTS, LABELS, TEMPLATE, batch_size=4)
    assert found.labels == tuple(LABELS) and found.scores.dtype == np.float32
    np.testing.assert_allclose(found.scores, scores, **REORDERED)
    assert np.ptp(scores, axis=0).min() > 0.1
    assert found.best_labels == [LABELS[place] for place in scores.argmax(axis=1)]
    assert len({*found.best_labels}) > 1


def test_several_labels_and_a_single_one_have_entailment_against_contradiction(
    classifier, expected
):
    contradicted, entailed = expected
    scores = entailed / (entailed + contradicted)
    found = classifier.classify(TEXTS, LABELS, TEMPLATE, multi_label=True)
    np.testing.assert_allclose(found.scores, scores, **REORDERED)
    for threshold in (0.5, 0.9):
        likely = [[LABELS[i] for i in np.flatnonzero(row > threshold)] for row in scores]
        assert found.likely_labels(threshold) == likely
        assert len({*map(len, likely)}) > 1
    assert found.likely_labels() == found.likely_labels(0.5)
    alone = classifier.classify(TEXTS, LABELS[1:2], TEMPLATE)
    np.testing.assert_allclose(alone.scores, scores[:, 1:2], **REORDERED)


def test_of_two_classes_the_other_one_contradicts(tmp_path):
    folder = write_model(tmp_path / "two", "pairs", labels=TWO)
    entailed, not_entailed = pair_logits(folder, "the film", "This example is z.")
    classifier = ZeroShotClassifier.from_preset(folder)
    [[found]] = classifier.classify(["the film"], ["z"]).scores  # by the usual template
    assert found == pytest.approx(1 / (1 + np.exp(not_entailed - entailed)), abs=1e-5)
    # A folder of another library does not tell that it reads pairs.
    (folder / "task.json").unlink()
    [[again]] = ZeroShotClassifier.from_preset(folder).classify(["the film"], ["z"]).scores
    assert again == found


def test_rows_are_as_long_as_asked_for(folder):
    short = ZeroShotClassifier.from_preset(folder, max_seq_length=12)
    # 12 positions have room for 9 pieces: of the text 3, though it is the longer one.
    [[found]] = short.classify(["the film " * 9], ["film"], "the b {} d e f").scores
    _, against, entailed = pair_logits(folder, "the film the", "the b film d e f")
    assert found == pytest.approx(1 / (1 + np.exp(against - entailed)), abs=1e-5)
    _, against, entailed = pair_logits(folder, "the film the film the", "the b film d")
    assert abs(found - 1 / (1 + np.exp(against - entailed))) > 1e-3
    # At least one.
    assert short.classify(["the"], ["b " * 8], "{}").scores.shape == (1, 1)
    with pytest.raises(ValueError, match="the label 'b b b b b b b b b ' has 9 pieces, and a row "):
        short.classify(["the"], ["d", "b " * 9], "{}")


def test_equal_texts_have_equal_scores_and_none_have_none(classifier):
    found = classifier.classify(["the", *TEXTS, "the"], LABELS, TEMPLATE, batch_size=3).scores
    np.testing.assert_allclose(found[0], found[-1], **REORDERED)
    none = classifier.classify([], LABELS, TEMPLATE)
    assert none.scores.shape == (0, 3) and none.best_labels == [] == none.likely_labels()


def test_a_result_tells_the_first_of_equal_labels():
    result = ZeroShotResult(("a", "b", "c"), np.array([[0.2, 0.4, 0.4], [0.5, 0.5, 0]], "float32"))
    assert result.best_labels == ["b", "a"] and result.likely_labels(0.3) == [
        ["b", "c"],
        ["a", "b"],
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("the film", LABELS), "texts is one string, which would be read letter by letter"),
        ((["the", 3], LABELS), r"text 1 \(counted from 0\) is a int: give strings"),
        ((TEXTS, "film, z"), "labels is the string 'film, z', which would be read letter by"),
        ((TEXTS, []), "there are no labels to classify by: give at least one"),
        ((TEXTS, ["a", " "]), r"label 1 \(counted from 0\) is blank: name it, or leave it out"),
        ((TEXTS, ["a", "b", "a"]), "the label 'a' is there twice: name each once"),
        ((TEXTS, ["a", None]), r"label 1 \(counted from 0\) is a NoneType: give strings"),
        ((TEXTS, LABELS, "It is {}.", "false"), "multi_label is 'false': give True or False"),
        ((TEXTS, LABELS, "It is."), "template is 'It is.': it must have one {}, where the label"),
        ((TEXTS, LABELS, "{} or {}"), "template is '{} or {}': it must have one {}"),
        ((TEXTS, LABELS, "{x} is {}"), "template is '{x} is {}': it must have one {}, .* no other"),
        ((TEXTS, LABELS, None), "hypothesis_template is a NoneType: give a string"),
        ((TEXTS, LABELS, "{}", False, 0), "batch_size is 0: it must be at least 1"),
        ((TEXTS, ["x" * 99]), "x' has 113 pieces, and a row of 24 positions has room for 21, with"),
    ],
)
def test_bad_arguments_are_refused(arguments, sentence, classifier):
    with pytest.raises(ValueError, match=sentence):
        classifier.classify(*arguments)


@pytest.mark.parametrize(
    ("name", "labels", "sentence"),
    [
        ("pairs", ("no", "yes"), "has the labels no, yes, but .* begins with 'entail' and, of thr"),
        ("pairs", ("entailment", "neutral", "other"), "one that begins with 'contradict': give"),
        ("pairs", ("entail", "entailed", "contradiction"), "has the labels entail, entailed, con"),
        ("classes", INFERENCE, "has the labels neutral, Contradicts, ENTAILED, but"),
        (
            "encoder",
            None,
            "the model has no labels, but classification without training asks a mod",
        ),
    ],
)
def test_another_model_is_refused(name, labels, sentence, tmp_path):
    folder = write_model(tmp_path / name, name, labels=labels)
    with pytest.raises(ValueError, match=sentence):
        ZeroShotClassifier.from_preset(folder)
    if name != "encoder":
        assert "serve_zero_shot" not in open_signatures(folder, ExportOptions()).more_answers()
    with pytest.raises(ValueError, match="--hypothesis_template is for .*: leave it out"):
        open_signatures(folder, ExportOptions(hypothesis_template="{}"))


def test_a_folder_is_opened_by_from_preset_alone():
    with pytest.raises(ValueError, match="the model has no labels, but classification without"):
        ZeroShotClassifier("runs/mnli")


def test_a_model_that_knows_one_segment_only_is_refused(tmp_path):
    folder = write_model(tmp_path / "one", "classes", labels=INFERENCE, type_vocab_size=1)
    (folder / "task.json").unlink()
    for pairs in (ZeroShotClassifier, CrossEncoder):
        with pytest.raises(ValueError, match="one segment only, so it does not read pairs of text"):
            pairs.from_preset(folder)
    assert open_signatures(folder, ExportOptions()).more_answers() == {}


def test_an_ensemble_is_refused(folder, tmp_path):
    other = write_model(tmp_path / "other", "pairs", labels=INFERENCE, seed=1)
    family = open_ensemble([folder, other], ExportOptions())
    assert family.more_answers() == {}
    with pytest.raises(ValueError, match="not scored by an ensemble: give one of its models"):
        ZeroShotClassifier(family)
    with pytest.raises(ValueError, match="--max_labels is for one model, not for an ensemble"):
        open_ensemble([folder, other], ExportOptions(max_labels=3))


@pytest.fixture(scope="module")
def export(folder, tmp_path_factory):
    options = ExportOptions(hypothesis_template=TEMPLATE, max_labels=4, max_text_bytes=200)
    return export_saved_model(folder, tmp_path_factory.mktemp("served") / "nli", options=options)


@pytest.fixture(scope="module")
def served(export):
    loaded = tf.saved_model.load(str(export))
    yield loaded.signatures["serve_zero_shot"]


def ask(served, text, labels):
    answer = served(text=tf.constant(text, tf.string), labels=tf.constant(labels, tf.string))
    return {name: value.numpy() for name, value in answer.items()}


def test_what_is_served_is_what_classify_says(served, classifier):
    answer = ask(served, TEXTS, [LABELS] * len(TEXTS))
    assert {*answer} == {"label", "scores", "multi_label_scores"}
    found = classifier.classify(TEXTS, LABELS, TEMPLATE)
    np.testing.assert_allclose(answer["scores"], found.scores, **REORDERED)
    assert [label.decode() for label in answer["label"]] == found.best_labels
    each = classifier.classify(TEXTS, LABELS, TEMPLATE, multi_label=True)
    np.testing.assert_allclose(answer["multi_label_scores"], each.scores, **REORDERED)


def test_the_graph_uses_only_what_a_stock_server_links(export):
    used = graph_operations(export)
    assert used == listed_operations("inference")
    assert used - tensorflow_operations() <= OPS_LIB


@pytest.mark.slow
def test_a_fresh_process_says_the_same_to_the_last_bit(export, served, tmp_path):
    request = {"text": TEXTS, "labels": [LABELS] * len(TEXTS)}
    [answer] = ask_fresh_process(tmp_path, [(export, "serve_zero_shot", request)])
    here = ask(served, **request)
    assert {*answer} == {*here}
    for name, values in here.items():
        np.testing.assert_array_equal(answer[name], as_text(values))


def test_each_text_has_labels_of_its_own(served, classifier):
    rows = [["z", "a film", ""], ["", " ", "sport"], [" ", "", ""], ["b", " ", "the"]]
    texts = ["the film", "the film d's " * 9, "ab", "b.c."]
    answer = ask(served, texts, rows)
    for number, (text, row) in enumerate(zip(texts, rows, strict=True)):
        there = np.array([bool(label.strip()) for label in row])
        scores = np.zeros([3], np.float32)
        if there.any():
            labels = [label for label in row if label.strip()]
            found = classifier.classify([text], labels, TEMPLATE)
            scores[there] = found.scores[0]
            assert answer["label"][number].decode() == found.best_labels[0]
        np.testing.assert_allclose(answer["scores"][number], scores, **REORDERED)
        assert ((answer["multi_label_scores"][number] > 0) == there).all()
    assert answer["label"][2] == b""


@pytest.fixture(scope="module")
def address(export):
    """host:port of a server of all signatures, of the model "nli"."""
    find = model_server.saved_models({"nli": export.parent})
    with model_server.rest_server(find) as port:
        yield f"127.0.0.1:{port}"


def test_a_client_asks_for_it_by_its_name(address, classifier):
    client = connect(address, "nli")
    rows = {"text": TEXTS[1:3], "labels": [["z", "a film"], ["a film", "z"]]}
    answer = client.predict(rows, signature="serve_zero_shot")
    with pytest.raises(ValueError, match="labels, value 1 .* fill shorter rows up"):
        client.predict({"text": ["a", "b"], "labels": [["c", "d"], ["c"]]}, "serve_zero_shot")
    with pytest.raises(ValueError, match="labels, value 0 .* is 3: give strings"):
        client.predict({"text": ["a"], "labels": [3]}, "serve_zero_shot")
    first, second = classifier.classify(TEXTS[1:3], ["z", "a film"], TEMPLATE).scores
    np.testing.assert_allclose(answer["scores"], [first, second[::-1]], **REORDERED)
    assert answer["label"] == [["z", "a film"][first.argmax()], ["z", "a film"][second.argmax()]]


@pytest.mark.parametrize(("texts", "labels"), [(0, 2), (2, 0), (0, 0)])
def test_a_request_may_hold_no_texts_or_no_labels(served, texts, labels):
    answer = ask(served, ["a"] * texts, np.full([texts, labels], b"b").astype(object))
    assert answer["scores"].shape == answer["multi_label_scores"].shape == (texts, labels)
    assert answer["label"].tolist() == [b""] * texts


@pytest.mark.parametrize(
    ("texts", "labels", "sentence"),
    [
        (["a"], [["b"], ["c"]], "every text needs its labels: the request holds different numbers"),
        (["a"], [["b"] * 5], "an example has more than 4 labels: send fewer of each example"),
        (["a"], [["b" * 201]], "a labels is longer than 200 bytes"),
        (["a"], [["b", "x" * 50]], "the hypothesis of a label leaves no room for the text: send"),
    ],
)
def test_guards_hold_for_labels_too(texts, labels, sentence, served):
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        ask(served, texts, labels)


def test_a_folder_of_another_library_is_served_without_being_told_that_it_reads_pairs(
    folder, tmp_path, capsys
):
    foreign = shutil.copytree(folder, tmp_path / "foreign")
    (foreign / "task.json").unlink()
    family = open_signatures(foreign, ExportOptions(hypothesis_template="{}"))
    assert {*family.string_inputs()} == {"text"} and "does not tell" in family.reason
    assert {*family.more_answers()} == {"serve_zero_shot"}
    assert open_signatures(foreign, ExportOptions(text_pair=False)).more_answers() == {}
    pairs = open_signatures(foreign, ExportOptions(text_pair=True))
    assert pairs.reason == "as you state" and "serve_zero_shot" in pairs.more_answers()


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check_server(address, multi_label, path, live, columns=None):
    """A server writes the file that was written of the folder."""
    named, there = CandidateLabels(LABELS, multi_label), live.with_name("there.csv")
    client = connect(address, "nli")
    assert predict_labels_remotely(client, named, path, there, 3, columns) == len(TEXTS)
    renamed = {column: name for name, column in (columns or {}).items()}
    for ours, theirs in zip(read(there), read(live), strict=True):
        assert [renamed.get(name, name) for name in ours] == [*theirs]
        for (name, value), expected in zip(ours.items(), theirs.values(), strict=True):
            if name.startswith("score_"):  # six digits
                np.testing.assert_allclose(float(value), float(expected), **REORDERED)
            else:
                assert value == expected


def test_a_file_gets_the_columns_of_a_classifier(folder, classifier, address, tmp_path):
    table = tmp_path / "new.tsv"
    table.write_text("id\ttext\n" + "".join(f"{i}\t{text}\n" for i, text in enumerate(TEXTS)))
    assert classify_file(folder, table, tmp_path / "one.csv", LABELS, TEMPLATE) == len(TEXTS)
    rows = read(tmp_path / "one.csv")
    check_server(address, False, table, tmp_path / "one.csv")
    table.write_text(table.read_text().replace("text", "body", 1))
    check_server(address, False, table, tmp_path / "one.csv", {"text": "body"})
    names = [f"score_{label}" for label in LABELS]
    assert [*rows[0]] == ["id", "text", "predicted_label", *names]
    found = classifier.classify(TEXTS, LABELS, TEMPLATE)
    assert [row["predicted_label"] for row in rows] == found.best_labels
    scores = [[float(row[name]) for name in names] for row in rows]
    np.testing.assert_allclose(scores, found.scores, rtol=1e-5, atol=1e-5)  # six digits
    lines = tmp_path / "new.txt"
    lines.write_text("".join(f"{text}\n" for text in TEXTS))
    classify_file(folder, lines, tmp_path / "all.csv", LABELS, TEMPLATE, multi_label=True)
    rows = read(tmp_path / "all.csv")
    check_server(address, True, lines, tmp_path / "all.csv")
    likely = classifier.classify(TEXTS, LABELS, TEMPLATE, multi_label=True).likely_labels()
    assert [row["predicted_labels"] for row in rows] == ["|".join(labels) for labels in likely]
    assert [*rows[0]] == ["text", "predicted_labels", *names]


def test_a_server_that_cannot_tell_is_refused_in_one_sentence(address, tmp_path):
    (tmp_path / "new.txt").write_text("the film\nab\n")
    files = (tmp_path / "new.txt", tmp_path / "out.csv")
    for named, model, sentence in (
        # Another kind of model.
        (EntityLabels(["a"]), "nli", '"serve_threshold" not found in signature def: labels of ent'),
        (CandidateLabels(["a", "b"]), "no", r"Servable not found for request: Latest\(no\)$"),
        (CandidateLabels([*"abcde"]), "nli", "an example has more than 4 labels: send fewer of"),
        (CandidateLabels(["a", "x" * 50]), "nli", "the hypothesis of a label leaves no room for"),
    ):
        with pytest.raises(ServerError, match=sentence):
            predict_labels_remotely(connect(address, model), named, *files, 8)
    named = CandidateLabels(["a", "b"])
    with pytest.raises(ValueError, match="no column is sent as 'labels' where labels are named"):
        predict_labels_remotely(connect(address, "nli"), named, *files, 8, {"labels": "text"})
    with pytest.raises(ValueError, match="no column 'body' among 'text': name one that is there"):
        predict_labels_remotely(connect(address, "nli"), named, *files, 8, {"text": "body"})
    assert [path.name for path in tmp_path.iterdir()] == ["new.txt"]


def test_files_are_refused_before_a_model_is_opened_or_a_server_asked(tmp_path):
    table = tmp_path / "new.csv"
    table.write_text("text,score_a\nthe film,1\n")

    def refused(sentence, labels, multi_label=False, input_path=table, output="out.csv"):
        files = (input_path, tmp_path / output)
        with pytest.raises(ValueError, match=sentence):
            classify_file("no model", *files, labels, "{}", multi_label)
        with pytest.raises(ValueError, match=sentence):
            predict_labels_remotely(None, CandidateLabels(labels, multi_label), *files, 8)

    refused("has a column 'score_a', which the predictions add: rename it", ["a", "b"])
    refused("'a' is the only label, which every text would get: give more", ["a"])
    refused("has the label 'a|b', but '|' separates", ["a|b", "c"], multi_label=True)
    refused("there are no labels", [])
    other = tmp_path / "other.csv"
    other.write_text("body\nthe film\n")
    refused("no column 'text' among 'body': rename", ["a", "b"], input_path=other)
    refused("output is .*, the same file as .*new.csv: choose", ["a", "b"], output="new.csv")
    (tmp_path / "new.json").write_text("[]")
    refused("new.json is not one of .csv", ["a", "b"], input_path=tmp_path / "new.json")


def predict(folder, *arguments):
    return command_process.run([TOOLS / "predict.py", *arguments], folder)


@pytest.mark.slow
def test_the_command(folder, classifier, address, tmp_path):
    (tmp_path / "new.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    files = (f"--model_dir={folder}", "--input=new.txt", "--output=out.csv")
    labels = ('--candidate_labels=a film, "sport, x"', "--candidate_labels=z")
    done = predict(tmp_path, *files, *labels, f"--hypothesis_template={TEMPLATE}", "--multi_label")
    assert done.returncode == 0, done.stderr[-2000:]
    found = classifier.classify(TEXTS, LABELS, TEMPLATE, multi_label=True)
    rows = read(tmp_path / "out.csv")
    assert [row["predicted_labels"] for row in rows] == [
        "|".join(labels) for labels in found.likely_labels()
    ]
    assert [*rows[0]][2:] == [f"score_{label}" for label in LABELS]
    # The same of a server.
    there = (f"--server={address}", "--served_model=nli", "--input=new.txt", "--output=there.csv")
    done = predict(tmp_path, *there, *labels, "--multi_label")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == f"{len(TEXTS)} predictions: there.csv\n"
    for ours, theirs in zip(read(tmp_path / "there.csv"), rows, strict=True):
        assert [*ours] == [*theirs] and ours["predicted_labels"] == theirs["predicted_labels"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--multi_label"], "--multi_label is for --candidate_labels and --labels: give one of th"),
        (["--threshold=0.3"], "--threshold is for --labels: give that, too, or leave it out"),
        (["--labels=a", "--candidate_labels=b"], "--labels does not go with --candidate_labels: "),
        (["--labels=a", "--iterations=2"], "--iterations does not go with --labels: leave one of"),
        (["--hypothesis_template={}"], "--hypothesis_template is for --candidate_labels: give"),
        (["--candidate_labels=a,b", "--explain=x.jsonl"], "--explain does not go with --candidate"),
        (["--candidate_labels=a,b", "--iterations=2"], "--iterations does not go with --candidate"),
        (["--candidate_labels=a,b", "--model_dir=other"], "but --model_dir names 2: give one of"),
        (['--candidate_labels=a,"b'], "separate labels by commas, with double quotes around a"),
        (["--candidate_labels=a,,b"], "label 1 (counted from 0) is blank: name it, or leave"),
        (
            [*SERVER, "--candidate_labels=a,b", "--hypothesis_template={}"],
            "--hypothesis_template is",
        ),
        (
            [*SERVER, "--labels=a", "--nested"],
            "--nested is not in the graph that a server runs, who",
        ),
        ([*SERVER, "--labels=a", "--multi_label"], "--multi_label is not in the graph that a serv"),
        ([*SERVER, "--labels="], "there are no labels"),
        ([*SERVER, "--candidate_labels=a,b"], "http://127.0.0.1:1 does not answer ("),
    ],
)
def test_the_command_refuses_in_one_sentence(arguments, sentence, tmp_path):
    (tmp_path / "new.txt").write_text("the film\n")
    files = ("--input=new.txt", "--output=out.csv")
    model = () if arguments[0] in SERVER else ("--model_dir=none",)
    done = predict(tmp_path, *model, *files, *arguments)
    assert done.returncode == 1 and sentence in done.stderr
