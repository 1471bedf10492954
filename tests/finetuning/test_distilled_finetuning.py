"""Fine-tuning with a teacher: losses by hand, unlabeled rows, resume, what is refused."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import AlbertConfig, AlbertEncoder, BertTokenizer
from keras_bert.finetuning.distillation import DistillationLoss
from keras_bert.finetuning.encoded_rows import NO_LOGIT
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.task import TaskData
from keras_bert.tasks.classification.head import LabeledTexts
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.training.losses import SmoothedCrossentropy
from tests.finetuning.test_finetuning_resume import assert_same, run, run_until, text_data, texts
from tests.tolerances import FORMULA


def softmax(values):
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_the_loss_of_classes_by_hand():
    """The second row has no label; the third logit is of a choice that is not there."""
    student = np.array([[1.0, -1.0, 3.0], [0.5, 2.0, 9.0]], np.float32)
    teacher = np.array([[2.0, 0.0, NO_LOGIT], [-1.0, 1.0, NO_LOGIT]], np.float32)
    targets = {"labels": np.array([1, 0]), "known": np.array([1.0, 0.0], np.float32)}
    loss = DistillationLoss(SmoothedCrossentropy(), "classes", alpha=0.7, temperature=2.0)
    found = loss.call({**targets, "logits": tf.constant(teacher)}, tf.constant(student))
    told, own = softmax(teacher[:, :2] / 2), softmax(student[:, :2] / 2)
    soft = 4 * (told * np.log(told / own)).sum(axis=-1)
    hard = -np.log(softmax(student))[0, 1]
    expected = [0.3 * hard + 0.7 * soft[0], 0.7 * soft[1]]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_losses_of_labels_and_numbers_by_hand():
    student, teacher = np.array([[1.0, -2.0]], np.float32), np.array([[3.0, 0.5]], np.float32)
    targets = {"labels": np.zeros([1, 2]), "known": np.ones(1), "logits": teacher}
    told, own = (1 / (1 + np.exp(-values / 2)) for values in (teacher, student))
    divergence = told * np.log(told / own) + (1 - told) * np.log((1 - told) / (1 - own))
    loss = DistillationLoss(keras.losses.BinaryCrossentropy(from_logits=True), "labels", 1.0, 2.0)
    np.testing.assert_allclose(loss.call(targets, student), [4 * divergence.mean()], rtol=1e-5)
    loss = DistillationLoss(keras.losses.MeanSquaredError(), "number", 1.0, 2.0)
    targets["logits"] = np.array([[3.0]], np.float32)
    np.testing.assert_allclose(loss.call(targets, np.array([[1.0]])), [4.0], **FORMULA)


def with_unlabeled(count):
    """Eight labeled texts, all that no teacher has said."""
    labeled = texts(8)
    splits = {**text_data().splits, "train": labeled, "test": texts(64, 3)}
    splits["unlabeled"] = LabeledTexts(texts(count, 17).texts)
    return TaskData(splits, ("neg", "pos"), {"text": "text"})


@pytest.mark.slow
def test_a_student_learns_from_unlabeled_texts(pretrained_folder, sentiment_run, tmp_path):
    teacher, _ = sentiment_run
    result = run(
        pretrained_folder,
        tmp_path / "student",
        data=with_unlabeled(500),
        teacher=str(teacher),
        distillation_alpha=0.9,
        epochs=4,
    )
    assert result.test["accuracy"] > 0.9
    # The weights of the student alone are kept.
    assert len(FinetunedModel.load(tmp_path / "student").model.weights) == len(
        FinetunedModel.load(teacher).model.weights
    )


@pytest.mark.slow
def test_a_stopped_run_with_hidden_states_ends_the_same(
    pretrained_folder, sentiment_run, tmp_path, monkeypatch
):
    changes = {"teacher": str(sentiment_run[0]), "hidden_state_weight": 1.0}
    changes |= {"attention_weight": 0.5, "epochs": 2, "checkpoint_steps": 3}
    data = with_unlabeled(16)
    run(pretrained_folder, tmp_path / "whole", data=data, **changes)
    run_until(monkeypatch, 4, pretrained_folder, tmp_path / "run", data=data, **changes)
    run(pretrained_folder, tmp_path / "run", data=data, **changes)
    assert_same(tmp_path / "whole", tmp_path / "run", rtol=0, atol=0)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"labels": ["neg", "fine"]}, "labels neg, fine and the data neg, pos"),
        ({"head": {"kind": "span"}}, "kind 'span' and the task one of 'text'"),
        ({"head": {"kind": "text", "label_type": "multi_label"}}, "logits of labels .* of classes"),
    ],
)
def test_another_task_is_refused(pretrained_folder, sentiment_run, tmp_path, change, what):
    teacher = tmp_path / "teacher"
    shutil.copytree(sentiment_run[0], teacher)
    content = json.loads((teacher / "task.json").read_text())
    (teacher / "task.json").write_text(json.dumps(content | change))
    with pytest.raises(ValueError, match=what):
        run(pretrained_folder, tmp_path / "run", teacher=str(teacher))


def test_what_makes_no_sense_is_refused(pretrained_folder, tmp_path):
    with pytest.raises(ValueError, match="8 unlabeled examples, .* --teacher"):
        run(pretrained_folder, tmp_path / "run", data=with_unlabeled(8))
    with pytest.raises(FileNotFoundError, match="--teacher is the --model_dir"):
        run(pretrained_folder, tmp_path / "run", teacher=str(pretrained_folder))
    with pytest.raises(ValueError, match="attention_weight is 1.0, but there is no teacher"):
        FinetuningOptions(attention_weight=1.0)
    with pytest.raises(ValueError, match="distillation_alpha is 1.5"):
        FinetuningOptions(teacher="a", distillation_alpha=1.5)
    with pytest.raises(ValueError, match="the teacher a has no part in the loss"):
        FinetuningOptions(teacher="a", distillation_alpha=0.0)
    with pytest.raises(ValueError, match="teacher_layers is 1, but no layers are compared"):
        FinetuningOptions(teacher="a", teacher_layers=("1",))
    with pytest.raises(ValueError, match="init_layers is 3: .* has 1 layers"):
        run(pretrained_folder, tmp_path / "run", init_layers=("3",))
    vocabulary = BertTokenizer.from_preset(pretrained_folder).vocabulary
    config = AlbertConfig(
        vocab_size=len(vocabulary),
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    AlbertEncoder(config).save_to_preset(tmp_path / "albert", BertTokenizer(vocabulary))
    with pytest.raises(ValueError, match="those of an ALBERT share their parameters"):
        run(tmp_path / "albert", tmp_path / "run", init_layers=("0",))
