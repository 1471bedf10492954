"""Distillation: losses against NumPy, what resumes and what is kept, starts from some layers."""

import dataclasses
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertConfig,
    BertEncoder,
    BertMaskedLM,
    BertPretrainer,
    BertTokenizer,
    DebertaV2Config,
    DistilBertConfig,
    GteConfig,
    LocalBertConfig,
    MobileBertConfig,
    ModernBertConfig,
    NomicBertConfig,
    create_encoder,
    create_optimizer,
)
from keras_bert.data.creation.create import CreationOptions, create_pretraining_data
from keras_bert.models import preset
from keras_bert.models.surgery.layer_selection import (
    check_same_widths,
    parsed_layers,
    select_layers,
)
from keras_bert.pretraining.objectives.distillation import Distillation
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.pretraining.pretrain import create_model
from keras_bert.pretraining.step import PretrainingStep
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.distillation import LayerStates, attention_scores, layer_map
from keras_bert.training.strategy import create_strategy
from tests.pretraining.pretraining_runs import (
    metrics_of,
    run_options,
    run_pretraining,
    without_dropout,
)
from tests.pretraining.test_electra import batch_of
from tests.tolerances import ORACLE, REORDERED_UPDATES

WEIGHTS = {
    **{"soft_target_weight": 5.0, "masked_lm_weight": 2.0, "cosine_weight": 1.0},
    **{"hidden_state_weight": 0.5, "attention_weight": 0.25, "embedding_weight": 0.125},
}


def objective_of(teacher, **changes):
    settings = PretrainingOptions("", "", objective="distillation", **WEIGHTS | changes)
    return Distillation(settings=settings, teacher=teacher)


def pair(vocab_size=23, **arguments):
    """A student of two layers and its teacher of four, twice as wide, with large weights; T = 3."""
    numbers = {"vocab_size": vocab_size, "initializer_range": 0.3}
    student = without_dropout(**numbers, num_hidden_layers=2)
    teacher = without_dropout(**numbers, num_hidden_layers=4, hidden_size=64)
    objective = objective_of(teacher, **{"distillation_temperature": 3.0} | arguments)
    keras.utils.set_random_seed(2)
    return objective, objective.create_model(student, {"seed": 0, "dtype": "float32"})


@pytest.fixture(scope="module")
def teacher_folder(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    keras.utils.set_random_seed(9)
    model = BertPretrainer(without_dropout(num_hidden_layers=4, hidden_size=64))
    model.save_to_preset(folder, BertTokenizer.from_preset(corpus))
    return folder


@pytest.fixture(scope="module")
def distilled(corpus, teacher_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("distilled") / "run"
    run = {"objective": "distillation", "teacher": str(teacher_folder), "train_steps": 2}
    run_pretraining(corpus, folder, **run)
    return folder


def scores_of(encoder, states, layer, heads):
    """Attention scores before the softmax, float64 [B, A, S, S], in NumPy."""
    prefix = f"layer_{layer}/attention/query_key_value/"
    weights = {weight.path: weight.numpy().astype(np.float64) for weight in encoder.weights}
    projected = states[layer] @ weights[f"{prefix}kernel"] + weights[f"{prefix}bias"]
    query, key, _ = np.split(projected, 3, axis=-1)
    rows, length, width = query.shape
    query, key = (
        part.reshape(rows, length, heads, width // heads).transpose(0, 2, 1, 3)
        for part in (query, key)
    )
    return query @ key.transpose(0, 1, 3, 2) / np.sqrt(width // heads)


def log_softmax(values):
    values = values - values.max(axis=-1, keepdims=True)
    return values - np.log(np.exp(values).sum(axis=-1, keepdims=True))


# Two layers learn from the second and the last of four, or from those that are named.
@pytest.mark.parametrize(("chosen", "layers"), [((), (1, 3)), (("2", "0"), (2, 0))])
def test_losses_are_those_of_numpy(chosen, layers):
    objective, model = pair(teacher_layers=chosen)
    batch = {name: tf.constant(value) for name, value in batch_of(3).items()}
    found = objective.sums(model, batch, training=False)
    counts = {name: float(count) for name, count in objective.counts(batch).items()}
    assert counts == dict.fromkeys(("soft_target", "masked_lm"), 8) | dict.fromkeys(
        ("cosine", "hidden_state", "attention", "embedding"), 27
    )
    inputs = {name: batch[name] for name in model.input}
    student, teacher = (
        tf.nest.map_structure(
            lambda part: part.numpy().astype(np.float64), one(inputs, training=False)
        )
        for one in (model, model.teacher.model)
    )
    weights, mask = batch["masked_lm_weights"].numpy(), batch["input_mask"].numpy()
    told, own = (log_softmax(one["mlm_logits"] / 3) for one in (teacher, student))
    divergence = (np.exp(told) * (told - own)).sum(-1) * 9
    answers = batch["masked_lm_ids"].numpy()[..., None]
    chosen = np.take_along_axis(log_softmax(student["mlm_logits"]), answers, -1)[..., 0]
    kernels = {name: layer.kernel.numpy() for name, layer in model.projections.items()}
    ours, his = student["hidden_states"], teacher["hidden_states"]
    last = ours[-1] @ kernels["hidden_state"]
    cosine = (last * his[-1]).sum(-1) / (
        np.linalg.norm(last, axis=-1) * np.linalg.norm(his[-1], axis=-1)
    )
    hidden_state, attention = 0.0, 0.0
    for layer, of_teacher in enumerate(layers):
        states = ours[layer + 1] @ kernels["hidden_state"]
        hidden_state += ((states - his[of_teacher + 1]) ** 2).mean(-1)
        difference = scores_of(model.encoder, ours, layer, 2) - scores_of(
            model.teacher.model.encoder, his, of_teacher, 2
        )
        of_keys = (difference**2).mean(1) * mask[:, None]
        attention += of_keys.sum(-1) / mask.sum(-1)[:, None]
    expected = {
        "soft_target": (divergence * weights).sum(),
        "masked_lm": -(chosen * weights).sum(),
        "cosine": ((1 - cosine) * mask).sum(),
        "hidden_state": (hidden_state * mask).sum(),
        "attention": (attention * mask).sum(),
        "embedding": (((ours[0] @ kernels["embedding"] - his[0]) ** 2).mean(-1) * mask).sum(),
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name].loss, value, rtol=ORACLE["rtol"], err_msg=name)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"use_bottleneck_attention": True}, marks=pytest.mark.slow),
        pytest.param({"key_query_shared_bottleneck": False}, marks=pytest.mark.slow),
    ],
)
def test_a_mobilebert_learns_from_the_attention_of_its_teacher(changes):
    """By the probabilities that either returns: softmax has the scores but for one number a row."""
    numbers = dataclasses.asdict(without_dropout(vocab_size=23, num_hidden_layers=2))
    numbers |= {"embedding_size": 6, "initializer_range": 0.3, "hidden_act": "gelu"}
    student = MobileBertConfig(**numbers, intra_bottleneck_size=12, **changes)
    teacher = MobileBertConfig(
        **numbers, intra_bottleneck_size=48, key_query_shared_bottleneck=False
    )
    objective = objective_of(teacher)
    keras.utils.set_random_seed(2)
    model = objective.create_model(student, {"seed": 0, "dtype": "float32"})
    assert not model.projections  # as wide between their blocks
    batch = {name: tf.constant(value) for name, value in batch_of(3).items()}
    found = objective.sums(model, batch, training=False)
    assert all(np.isfinite(part.loss) and part.loss > 0 for part in found.values())
    inputs = {name: batch[name] for name in model.encoder.input}
    whole = create_encoder(student, output_attention_probs=True)
    whole.set_weights(model.encoder.get_weights())
    states = LayerStates(model.encoder, model.encoder(inputs)["hidden_states"])
    mask = batch["input_mask"].numpy()[:, None, None]
    for index, probs in enumerate(whole(inputs)["attention_probs"]):
        scores = attention_scores(states, index).numpy() - 1e4 * (1 - mask)
        np.testing.assert_allclose(tf.nn.softmax(scores), probs, **ORACLE)


def test_the_layers_of_a_teacher_are_tinyberts_or_those_that_are_named():
    def found(own, his, *chosen):
        student, teacher = (without_dropout(num_hidden_layers=count) for count in (own, his))
        return layer_map(student, teacher, chosen)

    assert found(4, 12) == (2, 5, 8, 11)  # Jiao et al. 2020, section 4.1, which counts from 1
    assert found(2, 2) == (0, 1)
    assert found(3, 2) == ()
    assert found(3, 12, "10", "0", "11") == (10, 0, 11)
    for chosen in (("0", "1"), ("0", "1", "12"), ("0", "1", "-1"), ("0", "1", "last")):
        with pytest.raises(ValueError, match="teacher_layers is .*: give 3 numbers from 0 to 11"):
            found(3, 12, *chosen)


def test_only_the_student_has_gradients_and_losses_of_weight_0_are_not_computed():
    objective, model = pair(attention_weight=0.0, masked_lm_weight=0.0)
    assert objective.scales.keys() == {"soft_target", "cosine", "hidden_state", "embedding"}
    assert not [weight for weight in model.trainable_variables if "teacher" in weight.path]
    batch = {name: tf.constant(value) for name, value in batch_of(3).items()}
    teacher = [weight.value for weight in model.teacher.model.weights]
    with tf.GradientTape() as tape:
        tape.watch(teacher)
        sums = objective.sums(model, batch, training=True)
        assert sums.keys() == objective.scales.keys()
        loss = sum(objective.scales[name] * part.loss for name, part in sums.items())
    assert tape.gradient(loss, teacher) == [None] * len(teacher)


@pytest.mark.slow
def test_a_run_learns_resumes_and_keeps_the_student(corpus, teacher_folder, tmp_path, monkeypatch):
    before = (teacher_folder / "model.weights.h5").read_bytes()
    changes = {"objective": "distillation", "teacher": str(teacher_folder), **WEIGHTS}
    changes |= {
        "train_steps": 12,
        "checkpoint_steps": 6,
        "learning_rate": 5e-3,
        "steps_per_loop": 2,
    }
    run_pretraining(corpus, tmp_path / "whole", **changes)
    losses = [line["loss"] for line in metrics_of(tmp_path / "whole", "train")]
    assert losses[-1] < 0.8 * losses[0]
    save = TrainingCheckpoint.save

    def stop_after_save(self):
        save(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(TrainingCheckpoint, "save", stop_after_save)
        run_pretraining(corpus, tmp_path / "run", **changes)
    run_pretraining(corpus, tmp_path / "run", **changes)
    stored = []
    for name in ("whole", "run"):
        path = tf.train.latest_checkpoint(str(tmp_path / name / "checkpoints"))
        names = [key for key, _ in tf.train.list_variables(path) if key.startswith("model/")]
        stored.append({key: tf.train.load_variable(path, key) for key in names})
        kept = BertMaskedLM.from_preset(tmp_path / name / "preset")
        assert kept.config.num_hidden_layers == 1
        assert not [weight for weight in kept.weights if "projection" in weight.path]
    assert stored[0].keys() == stored[1].keys()
    assert any("hidden_state_projection" in key for key in stored[0])
    # The student's 22 variables, head and pooler among them, and the two projections.
    assert len(stored[0]) == len(kept.weights) + 2
    for key, value in stored[0].items():
        np.testing.assert_array_equal(value, stored[1][key], err_msg=key)
    assert (teacher_folder / "model.weights.h5").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"teacher": None}, "--teacher"),
        ({"soft_target_weight": -1.0}, "soft_target_weight is -1"),
        ({"distillation_temperature": 0.0}, "distillation_temperature is 0"),
        ({"soft_target_weight": 0.0, "cosine_weight": 0.0}, "--objective=masked"),
        ({"teacher_layers": ("4",), "hidden_state_weight": 1.0}, "teacher_layers is 4"),
        ({"teacher_layers": ("1",)}, "teacher_layers is 1, but no layers are compared: give"),
        (
            {"soft_target_weight": 0.0, "distillation_temperature": 9.0},
            "distillation_temperature is 9.0, but .* soft_target_weight is 0",
        ),
        ({"objective": "masked"}, "teacher is .* has no teacher"),
        ({"init_layers": ("0",)}, "init_layers is 0: name the model folder"),
        ({"init_layers": ("0",), "init_from": "TEACHER"}, "its hidden_size is 64 .* model's 32"),
        ({"config": {"num_attention_heads": 4}, "attention_weight": 1.0}, "num_attention_heads"),
        # Embeddings may have more rows than there are pieces: both as many.
        ({"config": {"vocab_size": 32}}, "vocab_size is 32 and the teacher's"),
    ],
)
def test_what_does_not_fit_is_refused(corpus, teacher_folder, tmp_path, changes, what):
    changes = {"objective": "distillation", "teacher": str(teacher_folder), **changes}
    if changes.get("init_from"):
        changes["init_from"] = str(teacher_folder)
    config = without_dropout(**changes.pop("config", {}))
    with pytest.raises(ValueError, match=what):
        run_pretraining(corpus, tmp_path / "run", config=config, **changes)


def test_held_out_records_that_the_teacher_cannot_read_are_refused(corpus, tmp_path):
    """Sequences of 16 pieces to learn from, of 24 to be measured on, a teacher of 16 positions."""
    create_pretraining_data(
        CreationOptions(
            inputs=(str(corpus / "text.txt"),),
            vocab=str(corpus / "vocab.txt"),
            output_dir=str(tmp_path / "short"),
            max_seq_length=16,
        )
    )
    teacher = BertPretrainer(without_dropout(max_position_embeddings=16))
    teacher.save_to_preset(tmp_path / "teacher", BertTokenizer.from_preset(corpus))
    with pytest.raises(ValueError, match="records are up to 24 pieces long but the teacher .* 16"):
        run_pretraining(
            corpus,
            tmp_path / "run",
            objective="distillation",
            teacher=str(tmp_path / "teacher"),
            data_dir=tmp_path / "short",
            eval_data_dir=str(corpus / "records"),
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_another_teacher_in_the_same_folder_is_another_run(corpus, teacher_folder, tmp_path):
    shutil.copytree(teacher_folder, tmp_path / "teacher")
    changes = {"objective": "distillation", "teacher": str(tmp_path / "teacher"), "train_steps": 2}
    run_pretraining(corpus, tmp_path / "run", **changes)
    run_pretraining(corpus, tmp_path / "run", **changes)
    teacher = BertMaskedLM.from_preset(tmp_path / "teacher")
    teacher.weights[0].assign(teacher.weights[0] + 1.0)
    teacher.save_to_preset(tmp_path / "teacher", BertTokenizer.from_preset(teacher_folder))
    with pytest.raises(ValueError, match="holds a run with teacher_weights="):
        run_pretraining(corpus, tmp_path / "run", **changes)


def test_layers_are_chosen():
    assert parsed_layers(("uniform",), 12, 6) == (0, 2, 4, 6, 8, 10)
    assert parsed_layers(("0", "11"), 12) == (0, 11)
    for given, wanted in ((("0", "0"), 2), (("12",), 1), (("a",), 1), (("0",), 2)):
        with pytest.raises(ValueError, match="init_layers"):
            parsed_layers(given, 12, wanted)
    with pytest.raises(ValueError, match="how many layers"):
        parsed_layers(("uniform",), 12)


DEBERTA = {"position_buckets": 8, "max_position_embeddings": 32, "num_hidden_layers": 2}


@pytest.mark.parametrize(
    ("kind", "numbers", "changes"),
    [
        (DebertaV2Config, DEBERTA | {"pos_att_type": "c2p"}, {"pos_att_type": "p2c"}),
        (ModernBertConfig, {"num_hidden_layers": 4}, {"global_attention_every": 2}),
        (ModernBertConfig, {"num_hidden_layers": 4}, {"attention_window": 8}),
        (ModernBertConfig, {"num_hidden_layers": 4}, {"global_rope_theta": 99.0}),
        (ModernBertConfig, {"num_hidden_layers": 4}, {"local_rope_theta": 99.0}),
        (NomicBertConfig, {"num_hidden_layers": 4}, {"rope_theta": 99.0}),
        (GteConfig, {"num_hidden_layers": 4}, {"rope_factor": 2.0}),
        (GteConfig, {"num_hidden_layers": 4}, {"type_vocab_size": 0}),
        (MobileBertConfig, {"num_hidden_layers": 4}, {"num_feedforward_networks": 2}),
        (MobileBertConfig, {"num_hidden_layers": 4}, {"normalization_type": "layer_norm"}),
        (LocalBertConfig, {"num_hidden_layers": 4}, {"attention_window": 8}),
        (LocalBertConfig, {"num_hidden_layers": 4}, {"global_tokens": 3}),
        (BertConfig, {"num_hidden_layers": 4}, {"type_vocab_size": 1}),
    ],
    ids=str,
)
def test_layers_keep_what_they_compute(kind, numbers, changes):
    source = kind(**numbers)
    check_same_widths(source, kind(**numbers | {"num_hidden_layers": 1}), "folder")
    [name] = changes
    with pytest.raises(ValueError, match=f"layers of folder as they are, but its {name} is "):
        check_same_widths(source, kind(**numbers | {"num_hidden_layers": 1} | changes), "folder")


@pytest.mark.parametrize(
    ("other", "name"), [(NomicBertConfig, "has_gates"), (GteConfig, "unbiased_layers")]
)
def test_layers_of_another_family_are_no_start(other, name):
    """Of the same widths, and with the angles of the other where it has some."""
    numbers = {"hidden_act": "silu", "vocab_size": 30528, "max_position_embeddings": 2048}
    source = NomicBertConfig(**numbers) if other is GteConfig else BertConfig(**numbers)
    config = other(**numbers, rope_theta=1000.0) if other is GteConfig else other(**numbers)
    with pytest.raises(ValueError, match=f"as they are, but its {name} is "):
        check_same_widths(source, config, "folder")


def test_layers_need_their_segments_only_where_there_are_some():
    check_same_widths(BertConfig(), DistilBertConfig(), "folder")
    with pytest.raises(ValueError, match="its type_vocab_size is 0 and the model's 2"):
        check_same_widths(DistilBertConfig(), BertConfig(num_hidden_layers=3), "folder")


@pytest.mark.parametrize(
    "changes",
    [{"cosine_weight": 0.0}, {"soft_target_weight": 0.0, "masked_lm_weight": 0.0}, {"teacher": 0}],
    ids=str,
)
def test_other_losses_or_a_wider_teacher_take_the_weights_alone(
    distilled, teacher_folder, corpus, tmp_path, changes
):
    run = {"objective": "distillation", "teacher": str(teacher_folder), "train_steps": 4}
    if "teacher" in changes:
        model = BertPretrainer(without_dropout(hidden_size=48))
        model.save_to_preset(tmp_path / "teacher", BertTokenizer.from_preset(corpus))
        changes = {"teacher": str(tmp_path / "teacher")}
    with pytest.raises(ValueError, match=r"has other variables \(.*--init_from=.*/run/preset"):
        run_pretraining(corpus, tmp_path / "run", **run | changes, init_from=str(distilled))
    assert not (tmp_path / "run").exists()


def assert_layers_are_taken(model, source, layers):
    """Compares all weights of two encoders, those of a layer with those of the layer it was."""
    taken = {weight.path: weight.numpy() for weight in source.weights}
    for weight in model.weights:
        path = weight.path
        if found := re.match(r"layer_(\d+)/", path):
            path = f"layer_{layers[int(found[1])]}/{path[found.end() :]}"
        np.testing.assert_array_equal(weight.numpy(), taken[path], err_msg=weight.path)


@pytest.mark.parametrize(("chosen", "layers"), [(("3", "1"), (3, 1)), (("uniform",), (0, 2))])
def test_a_run_starts_from_layers_of_a_folder(teacher_folder, chosen, layers):
    config = without_dropout(num_hidden_layers=2, hidden_size=64)
    options = run_options("", "", init_from=str(teacher_folder), init_layers=chosen)
    model = create_model(MaskedLanguageModel(), config, options, packed=False, restored=False)
    assert_layers_are_taken(model, BertPretrainer.from_preset(teacher_folder), layers)


def test_a_distilbert_starts_from_layers_of_a_bert():
    numbers = {"num_hidden_layers": 3, "initializer_range": 0.3}
    keras.utils.set_random_seed(4)
    bert = BertEncoder(without_dropout(**numbers), output_hidden_states=True)
    config = DistilBertConfig(
        **{
            **{name: value for name, value in vars(bert.config).items()},
            "num_hidden_layers": 2,
            "type_vocab_size": 0,
        }
    )
    source = select_layers(preset.as_checkpoint(bert), (2, 0), config)
    student = preset.from_checkpoint(BertEncoder, source, {})
    batch = {name: batch_of(2)[name] for name in bert.input}
    # Of one segment alone the two have the same embeddings; then come the last block and the first.
    expected = bert(batch)["hidden_states"][0]
    for index in (2, 0):
        expected = bert.encoder_blocks()[index](expected, batch["input_mask"])
    np.testing.assert_allclose(student(batch)["sequence_output"], expected, **ORACLE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "accumulation_steps"),
    [pytest.param("cpu", 2, marks=pytest.mark.long), ("mirrored", 1)],
)
def test_replicas_and_micro_batches_make_one_batch(name, accumulation_steps):
    whole, parts = _updated("cpu", 1), _updated(name, accumulation_steps)
    for path, value in whole.items():
        np.testing.assert_allclose(parts[path], value, **REORDERED_UPDATES, err_msg=path)


def _updated(name, accumulation_steps):
    strategy, batch = create_strategy(name), batch_of(4)
    with strategy.scope():
        objective, model = pair()
        optimizer = create_optimizer(1e-3, 10, warmup_steps=1)
        optimizer.build(model.trainable_variables)
        step = PretrainingStep(model, optimizer, objective, 0, accumulation_steps)
    rows = 4 // strategy.num_replicas_in_sync

    def part(context):
        first = context.replica_id_in_sync_group * rows
        return {key: tf.constant(value[first : first + rows]) for key, value in batch.items()}

    parts = strategy.experimental_distribute_values_from_function(part)
    tf.function(lambda parts: strategy.run(step, args=(parts,)))(parts)
    return {weight.path: weight.numpy() for weight in model.trainable_variables}
