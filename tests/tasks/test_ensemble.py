"""Several fine-tuned models as one.

Oracle: NumPy. `together` joins what the separate Keras models say of the same rows; the oracle of
served answers (tests/signatures/live_models.py) makes answers of that, row by row.
"""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import FinetunedEnsemble, Question, Seq2SeqHead, TaggedSentence
from keras_bert.finetuning.task import TaskDescription
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.serving.served_folder import open_ensemble
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.multiple_choice.head import ChoiceExample
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.question_answering.head import SpanHead
from tests.markers import some_slow
from tests.signatures.live_models import answers_of, live_model, request_of, softmax
from tests.signatures.tiny_models import PIECES, SPAN, write_model
from tests.tolerances import REORDERED


@pytest.fixture(scope="module")
def member(made_once):
    """Returns a function: the folder of a model like one of `MODELS`, written once."""

    def folder(name, which, **changes):
        seed = sum(map(ord, which))
        return made_once(
            f"members/{name}-{which}", lambda path: write_model(path, name, seed, **changes)
        )

    return folder


@pytest.fixture(scope="module")
def members(member):
    """Returns a function: the folders of two models like one of `MODELS`."""

    def folders(name):
        if name != "spans_or_none":
            return [member(name, "a"), member(name, "b")]
        # Thresholds of null scores add up to that of the oracle, -3.
        heads = [SpanHead(True, null_threshold=threshold, **SPAN) for threshold in (-1.0, -2.0)]
        return [member(name, "a", head=heads[0]), member(name, "b", head=heads[1])]

    return folders


def together(name, models):
    """The logits of an ensemble: mean probabilities (or numbers), and sums for spans."""

    def model(batch):
        said = [model(batch) for model in models]
        if isinstance(said[0], dict):
            return {key: sum(np.float64(logits[key]) for logits in said) for key in said[0]}
        said = [np.float64(np.float32(logits)) for logits in said]
        if name == "number":
            return np.mean(said, axis=0)
        if name == "several":
            odds = 1 / np.mean([1 / (1 + np.exp(-logits)) for logits in said], axis=0) - 1
            return -np.log(odds)
        return np.log(np.mean([softmax(logits) for logits in said], axis=0))

    return model


def expected_of(name, folders, request):
    models, tokenizers = zip(*(live_model(folder, name) for folder in folders), strict=True)
    return answers_of(name, together(name, models), tokenizers[0], **request)


def some(name, count=6):
    return {key: values[:count] for key, values in request_of(name).items()}


def served(folders, request, **options):
    # Not traced, which takes longer than to answer: the exports below are.
    family = open_ensemble(folders, ExportOptions(**options))
    found = family.answer(**{key: tf.constant(values) for key, values in request.items()})
    return {key: values.numpy() for key, values in found.items()}


def compare(found, expected):
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        if values.dtype.kind == "U":
            assert found[output].astype("S").tolist() == np.char.encode(values, "utf-8").tolist()
        else:
            np.testing.assert_allclose(found[output], values, **REORDERED, err_msg=output)


def live(ensemble, name, request):
    """What the ensemble says in Python, under the names of the signature's outputs."""
    if name == "choices":
        rows = zip(request["context"], request["choices"], strict=True)
        examples = [ChoiceExample(text, tuple(filter(None, row)) or ("a",)) for text, row in rows]
        return {"scores": ensemble.predict_examples(examples)}
    if name == "plain_tags":
        texts = [text.split() for text in request["text"]]
        found = ensemble.predict_examples([TaggedSentence(words) for words in texts if words])
        return {
            "labels": [tag for prediction in found for tag in prediction.tags],
            "scores": [score for prediction in found for score in prediction.scores],
        }
    if name == "spans_or_none":
        pairs = enumerate(zip(request["question"], request["context"], strict=True))
        found = ensemble.predict_examples([Question(str(i), *pair) for i, pair in pairs])
        return {
            "answer": [one.answer.text for one in found],
            "score": [one.answer.probability for one in found],
            "null_score": [one.null_score for one in found],
        }
    found = ensemble.predict(request["text"], request.get("text_pair"))
    return {"score" if name == "number" else "scores": found}


def flat(name, values):
    return np.concatenate(values) if name == "choices" else np.asarray(values)


@pytest.mark.parametrize(
    "name",
    [
        "several",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("number", "choices", "plain_tags")
        ),
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("classes", "pairs", "spans_or_none")  # the last is also exported, below
        ),
    ],
)
def test_an_ensemble_says_what_its_members_say_together(name, members):
    folders, request = members(name), some(name)
    expected = expected_of(name, folders, request)
    compare(served(folders, request), expected)
    # In Python entries that fill a row are not there.
    if name == "choices":
        expected = {"scores": [row[row > 0] if row.any() else [1.0] for row in expected["scores"]]}
    if name == "plain_tags":
        expected = {key: values[expected["labels"] != ""] for key, values in expected.items()}
    ensemble = FinetunedEnsemble.load(folders)
    alone = live(ensemble.members[0], name, request)
    for output, values in live(ensemble, name, request).items():
        found, wanted = flat(name, values), flat(name, expected[output])
        if wanted.dtype.kind == "U":
            assert found.tolist() == wanted.tolist()
        else:
            np.testing.assert_allclose(found, wanted, **REORDERED, err_msg=output)
            assert not np.allclose(found, flat(name, alone[output]), atol=1e-3)


@pytest.mark.slow
def test_members_may_order_their_labels_and_their_vocabularies_otherwise(member):
    one = member("classes", "a")
    labels = ("good", "bad", "fine")
    other = member("classes", "c", labels=labels, pieces=PIECES[::-1])
    request = some("classes")
    scores = [
        answers_of("classes", *live_model(folder, "classes"), **request)["scores"]
        for folder in (one, other)
    ]
    # The oracle names columns bad, fine, good; those of the other are good, bad, fine.
    expected = (scores[0] + scores[1][:, [1, 2, 0]]) / 2
    ensemble = FinetunedEnsemble.load([one, other])
    assert ensemble.description.labels == ("bad", "fine", "good")
    np.testing.assert_allclose(ensemble.predict(request["text"]), expected, **REORDERED)
    found = served([one, other], request)
    np.testing.assert_allclose(found["scores"], expected, **REORDERED)
    assert found["labels"][0].tolist() == [b"bad", b"fine", b"good"]


def test_a_file_is_predicted_by_several_models(members, tmp_path):
    folders = members("classes")
    source, target = tmp_path / "new.csv", tmp_path / "out.csv"
    source.write_text("text\nthe film\nab (e)\n")
    assert predict_file(folders, source, target) == 2
    header, *rows = [line.split(",") for line in target.read_text().splitlines()]
    assert header == ["text", "predicted_label", "score_bad", "score_fine", "score_good"]
    request = {"text": ["the film", "ab (e)"]}
    expected = expected_of("classes", folders, request)
    assert [row[1] for row in rows] == expected["label"].tolist()
    scores = [[float(score) for score in row[2:]] for row in rows]
    np.testing.assert_allclose(scores, expected["scores"], **REORDERED)


def refused(folders, sentence, **options):
    with pytest.raises(ValueError, match=sentence) as caught:
        open_ensemble(folders, ExportOptions(), **options)
    assert "\n" not in str(caught.value)


def test_models_that_do_not_fit_each_other_are_refused(member, members, tmp_path):
    classes, spans = members("classes")[0], members("spans_or_none")[0]
    refused([classes, classes], "is given twice: an ensemble counts a model once")
    refused([classes, spans], "has a span head but .* a text head: an ensemble has models of one")
    refused([classes, members("several")[0]], "label_type multi_label but .* has class: members")
    other = member("classes", "d", labels=("bad", "fine", "great"))
    refused([classes, other], "has the labels bad, fine, great but .* needs equal ones")
    strided = SpanHead(True, **{**SPAN, "doc_stride": 6})
    other = member("spans_or_none", "e", head=strided)
    refused([spans, other], "has doc_stride 6 but .* has 5: members of an ensemble must agree in")
    other = member("spans_or_none", "f", pieces=PIECES[::-1])
    refused([spans, other], "another vocabulary, .*: models that answer questions in an ensemble")
    refused([classes, member("classes", "b")], "--head=encoder is for one model", head="encoder")
    with pytest.raises(ValueError, match="at least one folder"):
        FinetunedEnsemble.load([])
    # A folder by itself is one member, not its letters.
    alone = FinetunedEnsemble.load(classes)
    assert len(alone.members) == 1
    with pytest.raises(ValueError, match="batch_size is 0: it must be at least 1"):
        alone.predict(["a film"], batch_size=0)
    for name in "ab":
        (tmp_path / name).mkdir()
        TaskDescription("seq2seq", Seq2SeqHead(), {}, 16).save(tmp_path / name)
    refused(
        [tmp_path / "a", tmp_path / "b"], "a has a seq2seq head, and models of that kind do not"
    )


@pytest.mark.slow  # three graphs
def test_members_that_read_windows_answer_together(members):
    folders, request = members("windows"), some("windows")
    alone = [served([folder], request)["scores"] for folder in folders]
    expected = np.mean(alone, axis=0)
    np.testing.assert_allclose(served(folders, request)["scores"], expected, **REORDERED)
    found = FinetunedEnsemble.load(folders).predict(request["text"])
    np.testing.assert_allclose(found, expected, **REORDERED)


def test_ids_of_padded_choices_count_nothing(members):
    family = open_ensemble(members("choices"), ExportOptions())
    # Rows as they are served, with a choice of padding behind the last of each example.
    texts = [f"choice {number}" for number in range(3)]
    rows = {key: value.numpy() for key, value in family.preprocess((["a film"] * 3, texts)).items()}
    one = {key: value[None] for key, value in rows.items()}
    padded = {key: np.pad(value, [(0, 0), (0, 2), (0, 0)]) for key, value in one.items()}
    plain, found = family.ids(**one)["logits"], family.ids(**padded)["logits"]
    np.testing.assert_allclose(found[:, :3], plain, **REORDERED)
    assert np.all(np.isneginf(found[:, 3:]))


@pytest.mark.slow  # traces all signatures
def test_members_of_different_vocabularies_are_served_without_ids(member):
    folders = [member("classes", "a"), member("classes", "g", pieces=PIECES[::-1])]
    # Ids of one vocabulary mean nothing to the other.
    functions = open_ensemble(folders, ExportOptions()).functions()
    assert functions.keys() == {"serving_default", "serve_examples"}


@pytest.mark.parametrize("name", some_slow(["pairs", "spans_or_none"], ("spans_or_none",)))
def test_an_export_says_what_the_graph_says_here(name, members, tmp_path):
    folders, request = members(name), some(name)
    export = export_saved_model(folders, tmp_path / "served")
    loaded = tf.saved_model.load(export)
    single = tf.saved_model.load(export_saved_model(folders[0], tmp_path / "single"))
    assert set(loaded.signatures) == set(single.signatures)
    texts = {key: tf.constant(values) for key, values in request.items()}
    found = loaded.signatures["serving_default"](**texts)
    # The graph is optimized, operations that run one by one are not.
    found = {key: np.array(values) for key, values in found.items()}
    compare(found, expected_of(name, folders, request))
    ids = {name: tf.ones([2, 9], tf.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    logits = loaded.signatures["serve_ids"](**ids)
    said = [live_model(folder, name)[0](ids) for folder in folders]
    if name == "pairs":
        shares = np.mean([softmax(np.float32(part)) for part in said], axis=0)
        np.testing.assert_allclose(softmax(logits["logits"].numpy()), shares, **REORDERED)
    else:
        for output, values in logits.items():
            np.testing.assert_allclose(values, said[0][output] + said[1][output], **REORDERED)
