"""Fine-tuning with a teacher: losses by hand, unlabeled rows, resume, what is refused."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    AlbertConfig,
    AlbertEncoder,
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertTokenizer,
    create_optimizer,
)
from keras_bert.finetuning.distillation import Imitation, distilled_losses
from keras_bert.finetuning.encoded_rows import NO_LOGIT
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.step import FinetuningStep
from keras_bert.finetuning.task import TaskData
from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.tasks.classification.head import LabeledTexts, TextHead
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.multiple_choice.head import ChoiceHead
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.tasks.tagging.head import TagHead
from keras_bert.tasks.tagging.sentences import TaggedSentence
from tests.finetuning.test_finetuning_resume import (
    KINDS,
    assert_same,
    operations_of_a_step,
    prepared,
    run,
    run_until,
    text_data,
    texts,
)
from tests.markers import some_fast
from tests.pretraining.pretraining_runs import without_dropout as still_config
from tests.pretraining.test_distilled_pretraining import assert_layers_are_taken, scores_of
from tests.pretraining.test_electra import batch_of
from tests.signatures.tiny_models import write_model
from tests.tolerances import FORMULA, ORACLE, REORDERED, approx


def softmax(values):
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def soft_targets(student, teacher):
    """The divergence from the teacher at T = 3, times T^2, of each row of logits."""
    told, own = softmax(teacher / 3), softmax(student / 3)
    return 9 * (told * np.log(told / own)).sum(axis=-1)


def losses_of(head, alpha=0.7):
    options = FinetuningOptions(teacher="a", distillation_alpha=alpha, distillation_temperature=3.0)
    return distilled_losses(head, head.loss(), options)


def targets_of(labels, teacher, known):
    return {"labels": np.array(labels), "known": np.array(known, np.float32), "logits": teacher}


def test_the_loss_of_classes_by_hand():
    """The second row has no label; the third logit is of a choice that is not there."""
    student = np.array([[1.0, -1.0, 3.0], [0.5, 2.0, 9.0]], np.float32)
    teacher = np.array([[2.0, 0.0, NO_LOGIT], [-1.0, 1.0, NO_LOGIT]], np.float32)
    soft = soft_targets(student[:, :2], teacher[:, :2])
    hard = -np.log(softmax(student))[0, 1]
    found = losses_of(TextHead()).call(targets_of([1, 0], teacher, [1, 0]), tf.constant(student))
    np.testing.assert_allclose(found, [0.3 * hard + 0.7 * soft[0], 0.7 * soft[1]], rtol=1e-5)
    # Targets of choices are 1, 0 and -1: the label, too, is one of two.
    hard = -np.log(softmax(student[:, :2]))[0, 1]
    targets = targets_of([[0, 1, -1], [1, 0, -1]], teacher, [1, 0])
    found = losses_of(ChoiceHead()).call(targets, tf.constant(student))
    np.testing.assert_allclose(found, [0.3 * hard + 0.7 * soft[0], 0.7 * soft[1]], rtol=1e-5)


def test_the_losses_of_labels_and_numbers_by_hand():
    student, teacher = np.array([[1.0, -2.0]], np.float32), np.array([[3.0, 0.5]], np.float32)
    told, own = (1 / (1 + np.exp(-values / 3)) for values in (teacher, student))
    divergence = told * np.log(told / own) + (1 - told) * np.log((1 - told) / (1 - own))
    hard = -np.log([1 / (1 + np.exp(-1.0)), 1 / (1 + np.exp(-2.0))]).mean()
    found = losses_of(TextHead("multi_label")).call(
        targets_of([[1.0, 0.0]], teacher, [1]), tf.constant(student)
    )
    expected = 0.3 * hard + 0.7 * 9 * divergence.mean()
    np.testing.assert_allclose(found, [expected], rtol=1e-5)
    # (1 - 0.5)^2 = 0.25 from the label and (1 - 3)^2 = 4 from the teacher, at any temperature.
    targets = targets_of([0.5], np.array([[3.0]], np.float32), [1])
    found = losses_of(TextHead("regression")).call(targets, tf.constant([[1.0]]))
    np.testing.assert_allclose(found, [0.3 * 0.25 + 0.7 * 4.0], **FORMULA)


def test_the_losses_of_tags_and_spans_by_hand():
    draw = np.random.default_rng(3)
    student, teacher = draw.normal(size=(2, 2, 3, 4)).astype(np.float32)  # [B, S, C] each
    loss = losses_of(TagHead())
    tags = [[2, -1, 0], [0, -1, -1]]  # a piece inside a word, and padding
    targets = targets_of(tags, teacher, [1, 0])
    np.testing.assert_array_equal(loss.counted(targets), [[1, 0, 1], [1, 0, 0]])
    soft, hard = soft_targets(student, teacher), -np.log(softmax(student))
    found = loss.call(targets, tf.constant(student)).numpy()
    np.testing.assert_allclose(
        [found[0, 0], found[0, 2], found[1, 0]],
        [
            0.3 * hard[0, 0, 2] + 0.7 * soft[0, 0],
            0.3 * hard[0, 2, 0] + 0.7 * soft[0, 2],
            0.7 * soft[1, 0],
        ],
        rtol=1e-5,
    )
    # Of starts and ends apart, each over the positions of a row.
    losses = losses_of(SpanHead())
    assert losses.keys() == {"start_logits", "end_logits"}
    for index, (name, one) in enumerate(losses.items()):
        own, told = student[:, index], teacher[:, index]  # [B, S]
        found = one.call(targets_of([1, 0], told, [1, 0]), tf.constant(own))
        soft, hard = soft_targets(own, told), -np.log(softmax(own))[0, 1]
        expected = [0.3 * hard + 0.7 * soft[0], 0.7 * soft[1]]
        np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("accumulation_steps", [1, 2])
def test_hidden_states_and_attention_in_a_step_by_hand(accumulation_steps):
    """Two layers learn from the last of three and from the first; a row of weight 0 fills up."""
    numbers = {"vocab_size": 23, "initializer_range": 0.3}
    model, teacher = (
        BertClassifier(still_config(**numbers, num_hidden_layers=count), num_classes=2)
        for count in (2, 3)
    )
    batch, labels = batch_of(4), np.array([1, 0, 0, 1])
    weights = np.array([1.0, 3.0, 0.0, 2.0], np.float32)
    inputs = {name: tf.constant(batch[name]) for name in model.input}
    hard = -np.log(softmax(model(inputs).numpy()))[np.arange(4), labels]
    encoders, states = [], []
    for one in (model, teacher):
        encoders.append(BertEncoder(one.config, output_hidden_states=True))
        encoders[-1].set_weights(one.encoder.get_weights())
        found = encoders[-1](inputs)["hidden_states"]
        states.append([values.numpy().astype(np.float64) for values in found])
    mask = batch["input_mask"]
    of_tokens = 0.0
    for layer, of_teacher in enumerate((2, 0)):
        difference = states[0][layer + 1] - states[1][of_teacher + 1]
        of_tokens += 0.5 * (difference**2).mean(axis=-1)
        ours, his = (
            scores_of(encoder, values, index, 2)
            for encoder, values, index in zip(encoders, states, (layer, of_teacher), strict=True)
        )
        of_keys = ((ours - his) ** 2).mean(axis=1) * mask[:, None]
        of_tokens += 0.25 * of_keys.sum(axis=-1) / mask.sum(axis=-1)[:, None]
    # Of the tokens of the three real rows, the last of which has seven.
    expected = (hard * weights).sum() / 3 + (of_tokens * mask * weights[:, None]).sum() / 27

    optimizer = create_optimizer(1e-3, 10, warmup_steps=0)
    optimizer.build(model.trainable_variables)
    options = FinetuningOptions(
        teacher="a",
        hidden_state_weight=0.5,
        attention_weight=0.25,
        teacher_layers=("2", "0"),
    )
    step = FinetuningStep(
        model,
        optimizer,
        TextHead().loss(),
        seed=0,
        accumulation_steps=accumulation_steps,
        imitation=Imitation(model, teacher, options),
    )
    found = step((inputs, tf.constant(labels), tf.constant(weights)))
    np.testing.assert_allclose(found["loss"], expected, rtol=ORACLE["rtol"])


def test_the_teacher_runs_in_each_step_where_layers_are_compared(
    pretrained_folder, sentiment_run, tmp_path, monkeypatch
):
    def softmaxes(weight):
        changes = {"teacher": str(sentiment_run[0]), "hidden_state_weight": weight}
        student = prepared(monkeypatch, pretrained_folder, tmp_path / str(weight), **changes)
        return operations_of_a_step(student)["Softmax"]

    assert softmaxes(0.0) == 1  # both have one block
    assert softmaxes(1.0) == 2


def test_a_student_starts_from_layers_of_a_model(pretrained_folder, tmp_path, monkeypatch):
    config = BertConfig.from_file(pretrained_folder).replace(num_hidden_layers=3)
    encoder, start = BertEncoder(config), tmp_path / "three"
    encoder.save_to_preset(start, BertTokenizer.from_preset(pretrained_folder))
    run = prepared(monkeypatch, start, tmp_path / "run", init_layers=("2", "0"))
    student = run.model.encoder
    assert student.config == config.replace(num_hidden_layers=2)
    assert_layers_are_taken(student, encoder, (2, 0))


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


# How each kind of head is trained, as in the runs that are cut into pieces.
HEADS = {
    "classes": (csv_task, texts, ("neg", "pos")),
    "several": KINDS["labels"],
    "number": KINDS["number"],
    "tags": KINDS["tags"],
    "spans": KINDS["span"],
    "choices": KINDS["choice"],
}


def without_labels(split):
    if isinstance(split, LabeledTexts):
        return dataclasses.replace(split, labels=None)
    if isinstance(split[0], TaggedSentence):
        return [sentence._replace(tags=None) for sentence in split]
    name = "answers" if isinstance(split[0], Question) else "label"
    return [dataclasses.replace(example, **{name: None}) for example in split]


def with_classes_reversed(folder, copy):
    """Writes the same model with its classes in another order, weights and names."""
    shutil.copytree(folder, copy)
    opened = FinetunedModel.load(folder)
    for weight in opened.model.get_layer("classifier").weights:
        weight.assign(weight.numpy()[..., ::-1])
    opened.model.save_to_preset(copy, opened.tokenizer)
    content = json.loads((copy / "task.json").read_text())
    content["labels"].reverse()
    (copy / "task.json").write_text(json.dumps(content))
    return copy


@pytest.mark.parametrize("kind", some_fast(HEADS, ("tags",)))
def test_a_student_that_is_its_teacher_has_the_loss_of_labels_alone(kind, tmp_path):
    """Were answers of other rows or positions compared, they would add to it."""
    make_task, make_split, labels = HEADS[kind]
    task, known = make_task(), make_split(9, 0)
    known = known if isinstance(known, LabeledTexts) else list(known)
    model = write_model(
        tmp_path / "teacher",
        kind,
        labels=labels,
        head=task.head,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    teacher = with_classes_reversed(model, tmp_path / "reversed") if labels else model
    # The same rows once more without labels: half of the rows, and of the pieces that count.
    splits = {"train": known, "validation": known, "unlabeled": without_labels(known)}
    result = run(
        model,
        tmp_path / "student",
        task,
        TaskData(splits, labels, {"text": "text"}),
        teacher=str(teacher),
        distillation_alpha=0.25,
        epochs=1,
        batch_size=64,
        max_seq_length=24,
        learning_rate=1e-12,
    )
    expected = 0.5 * 0.75 * result.validation["loss"]
    assert expected > 0.1
    assert result.epochs[0]["train_loss"] == approx(expected, REORDERED)


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
        (
            {"text_columns": {"text": "a", "text_pair": "b"}},
            "reads pairs of texts and the data has",
        ),
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
    with pytest.raises(ValueError, match="label_smoothing is 0.3, but labels have no part in the"):
        FinetuningOptions(teacher="a", distillation_alpha=1.0, label_smoothing=0.3)
    with pytest.raises(ValueError, match="temperature is 7.0, but the teacher's answers have no"):
        FinetuningOptions(
            teacher="a",
            distillation_alpha=0.0,
            distillation_temperature=7.0,
            hidden_state_weight=1.0,
        )
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
