"""Fine-tuned models of other libraries, whose folders do not tell all that an export wants to know.

Oracle: the same weights as a run of ours, whose task.json tells it.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertTokenizer
from keras_bert.checkpoints import hugging_face
from keras_bert.finetuning.task import TASK_FILE, TaskDescription
from keras_bert.models import preset
from keras_bert.models.conversion.convert import convert
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.question_answering.head import SpanHead
from tests.signatures.tiny_models import ask, random_texts, write_model
from tests.tolerances import REORDERED


@pytest.fixture
def foreign_folder(model_folder, tmp_path):
    """Returns a function: the folder of one of `MODELS` as Hugging Face has it."""

    def folder(source):
        target = tmp_path / "foreign"
        target.mkdir()
        hugging_face.write(preset.read_checkpoint(source), target)
        BertTokenizer.from_preset(source).save(target)
        return target

    return folder


def answer(family, **texts):
    return family.answer(**{name: tf.constant(values) for name, values in texts.items()})


def test_a_classifier_takes_pairs_where_one_says_so(model_folder, foreign_folder):
    folder, texts = foreign_folder(model_folder("pairs")), random_texts(9, seed=1)
    family = open_signatures(folder, ExportOptions(text_pair=True))
    found = answer(family, text=texts, text_pair=texts[::-1])
    expected = ask(model_folder("pairs"), text=texts, text_pair=texts[::-1])
    np.testing.assert_allclose(found["scores"], expected["scores"], **REORDERED)
    assert found["label"].numpy().tolist() == expected["label"].tolist()


@pytest.mark.slow  # two exports
def test_the_export_tells_what_it_takes_and_why(model_folder, foreign_folder, tmp_path, capsys):
    export_saved_model(foreign_folder(model_folder("pairs")), tmp_path / "served")
    told = capsys.readouterr().err
    assert "serving_default takes text: the folder does not tell" in told
    assert "export it with --text_pair" in told
    capsys.readouterr()
    export_saved_model(model_folder("pairs"), tmp_path / "served")
    assert "serving_default takes text, text_pair: as in training" in capsys.readouterr().err


@pytest.mark.slow
def test_questions_have_no_answer_above_the_stated_threshold(foreign_folder, tmp_path):
    run = write_model(tmp_path / "run", "spans_or_none", max_position_embeddings=128)
    threshold = -1.6  # of half of these questions the null score is above it
    head = SpanHead(has_unanswerable=True, null_threshold=threshold)
    TaskDescription("squad2", head, {}, 128).save(run)
    texts = random_texts(30, seed=1)
    request = {"question": texts[::-1], "context": texts}
    expected = ask(run, **request)
    folder = foreign_folder(run)
    stated = answer(open_signatures(folder, ExportOptions(null_threshold=threshold)), **request)
    for name in ("answer", "start", "end"):
        np.testing.assert_array_equal(stated[name].numpy(), expected[name])
    np.testing.assert_allclose(stated["null_score"], expected["null_score"], **REORDERED)
    family = open_signatures(folder, ExportOptions())
    assert "stores no threshold" in family.reason and "--null_threshold" in family.reason
    always = answer(family, **request)["answer"].numpy()
    none = [not text for text in expected["answer"]]
    assert 3 < sum(none) < len(texts) - 3
    assert sum(not text for text in always) < sum(none)


@pytest.mark.slow
def test_several_labels_are_known_by_the_config(model_folder, foreign_folder, tmp_path):
    folder, texts = foreign_folder(model_folder("several")), random_texts(9, seed=1)
    config = json.loads((folder / "config.json").read_text())
    config["problem_type"] = "multi_label_classification"
    (folder / "config.json").write_text(json.dumps(config))
    converted = tmp_path / "converted"
    converted.mkdir()
    convert(folder, converted, "keras")
    BertTokenizer.from_preset(folder).save(converted)
    expected = ask(model_folder("several"), text=texts)
    for source in (folder, converted):
        found = answer(open_signatures(source, ExportOptions()), text=texts)
        np.testing.assert_allclose(found["scores"], expected["scores"], **REORDERED)
        assert found["likely_labels"].numpy().tolist() == expected["likely_labels"].tolist()


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("classes", {"text_pair": True}, "was trained on text alone: leave out --text_pair"),
        ("pairs", {"text_pair": False}, "was trained on pairs: leave out --text_pair"),
        ("spans", {"text_pair": True}, "--text_pair is for classifiers and regressions"),
        ("encoder", {"text_pair": True}, "--text_pair is for classifiers and regressions"),
        ("classes", {"null_threshold": 0.0}, "--null_threshold is for models that answer"),
        ("masked_lm", {"null_threshold": 0.0}, "--null_threshold is for models that answer"),
        ("classes", {"max_choices": 4}, "--max_choices is for multiple choice: leave it out"),
        ("encoder", {"max_choices": 4}, "--max_choices is for multiple choice: leave it out"),
        ("spans", {"null_threshold": float("nan")}, "null_threshold is nan: it must be a number"),
        ("spans", {"max_seq_length": "24"}, "max_seq_length is '24': it must be a whole number"),
    ],
)
def test_what_cannot_be_stated_is_refused(name, options, sentence, model_folder):
    with pytest.raises(ValueError, match=sentence):
        open_signatures(model_folder(name), ExportOptions(**options))


def test_models_of_one_segment_take_no_pairs(tmp_path):
    folder = write_model(tmp_path / "model", "pairs", type_vocab_size=1)
    (folder / TASK_FILE).unlink()
    with pytest.raises(ValueError, match="the model knows one segment only: leave out --text_pair"):
        open_signatures(folder, ExportOptions(text_pair=True))
