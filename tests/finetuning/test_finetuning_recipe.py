"""The options of fine-tuning, each shown by what it changes in the written model."""

import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from keras_bert import (
    AlbertConfig,
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertTokenizer,
    load_tokenizer,
)
from keras_bert.finetuning.collapse import no_better_than_chance
from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.model_preparation import finetuning_optimizer, layer_rates
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.result import FinetuningResult
from keras_bert.finetuning.search import Run, SearchResult, parse_grid, search
from keras_bert.finetuning.task import TaskData
from keras_bert.models.preset import read_checkpoint
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.tasks.classification.head import LabeledTexts, TextHead
from keras_bert.tasks.question_answering.head import SpanHead
from tests.tolerances import FORMULA, approx

SHORT = {"epochs": 1, "batch_size": 8, "mixed_precision": "float32", "learning_rate": 1e-3}
TEXTS = ["good", "bad", "fine", "sad"] * 8


def two_classes(**changes):
    texts = LabeledTexts(TEXTS, None, np.arange(32, dtype=np.int32) % 2)
    splits = {"train": texts, "validation": texts, **changes}
    return TaskData(splits, ("no", "yes"), {"text": "text"})


def weights(folder):
    return {weight.path: weight.numpy() for weight in BertClassifier.from_preset(folder).weights}


def start_weights(folder):
    return {weight.path: weight.numpy() for weight in BertEncoder.from_preset(folder).weights}


def moved(folder, start):
    after = weights(folder)
    return {path: float(np.abs(after[path] - value).max()) for path, value in start.items()}


def run(pretrained_folder, folder, data=None, **options):
    options = FinetuningOptions(**{**SHORT, **options})
    return finetune(csv_task(), data or two_classes(), pretrained_folder, folder, options)


def test_a_frozen_encoder_stays_and_pooler_and_head_learn(pretrained_folder, tmp_path):
    run(pretrained_folder, tmp_path, freeze_encoder=True)
    changes = moved(tmp_path, start_weights(pretrained_folder))
    assert {path for path, change in changes.items() if change > 0} == {
        "pooler/kernel",
        "pooler/bias",
    }
    assert np.abs(weights(tmp_path)["classifier/bias"]).max() > 0


def test_lora_adds_matrices_of_its_rank_to_the_dense_layers(pretrained_folder, tmp_path):
    run(pretrained_folder, tmp_path, lora_rank=2, learning_rate=1e-2)
    start, after = start_weights(pretrained_folder), weights(tmp_path)
    for path, value in start.items():
        added = after[path] - value
        if re.fullmatch(r"layer_\d+/.*/kernel", path):
            # W + A B is rounded by 6e-8 of numbers below 1; Adam moves B by 1e-2 a step.
            assert np.linalg.matrix_rank(added, tol=1e-5) == 2, path
        elif path.startswith("pooler/"):
            assert np.abs(added).max() > 0
        else:
            np.testing.assert_array_equal(after[path], value, path)
    assert np.abs(after["classifier/bias"]).max() > 0
    # The same model, with the base that it began with.
    adapter = read_checkpoint(tmp_path / "adapter")
    assert adapter.head["labels"] == ["no", "yes"]
    for path, value in after.items():
        np.testing.assert_allclose(adapter.variables[path], value, **FORMULA, err_msg=path)
    assert load_tokenizer(tmp_path / "adapter").vocabulary == (
        load_tokenizer(pretrained_folder).vocabulary
    )


def test_lower_matrices_learn_slower_with_layer_decay(pretrained_folder, tmp_path):
    run(pretrained_folder, tmp_path, lora_rank=2, layer_decay=1e-3)
    changes = moved(tmp_path, start_weights(pretrained_folder))
    assert 1e-4 < changes["pooler/kernel"] < 4e-3
    # B moves by at most 4e-3 * 1e-3 in its 4 steps, and A B by that times numbers of A below 1.
    assert 0 < changes["layer_0/output/kernel"] < 1e-5
    assert changes["word_embeddings/embeddings"] == 0


def test_lower_layers_learn_slower_with_layer_decay(pretrained_folder, tmp_path):
    run(pretrained_folder, tmp_path, layer_decay=1e-3)
    changes = moved(tmp_path, start_weights(pretrained_folder))
    # Adam moves each weight by about the learning rate a step; 4 steps of at most 1e-3.
    assert 1e-4 < changes["pooler/kernel"] < 4e-3
    assert 0 < changes["layer_0/output/kernel"] < 4e-6
    assert changes["word_embeddings/embeddings"] < 4e-9


def test_the_default_rate_of_lora_is_ten_times_the_tasks():
    def rate(defaults, **options):
        return FinetuningOptions(**options).resolved(defaults).learning_rate

    assert rate({"learning_rate": 2e-5}, lora_rank=4) == pytest.approx(2e-4)
    assert rate({}, lora_rank=4) == pytest.approx(3e-4)
    assert rate({}, lora_rank=4, learning_rate=1e-5) == 1e-5
    assert rate({"learning_rate": 2e-5}) == 2e-5


def test_layer_rates_by_hand():
    embeddings = "^(word_embeddings|embeddings|embeddings_projection)/"
    assert layer_rates(BertConfig(num_hidden_layers=2), 0.5) == {
        "^layer_0/": 0.25,
        "^layer_1/": 0.5,
        embeddings: 0.125,
    }
    # What both layers share learns as the upper one; a pattern without a variable is an error.
    shared = AlbertConfig(num_hidden_layers=2, shared_parameters="attention")
    assert layer_rates(shared, 0.5) == {
        "^layer_0/(attention|attention_norm)/": 0.5,
        "^layer_0/": 0.25,
        "^layer_1/": 0.5,
        embeddings: 0.125,
    }
    assert layer_rates(shared.replace(shared_parameters="all"), 0.5) == {
        "^layer_0/(attention|attention_norm|intermediate|output|feed_forward_norm)/": 0.5,
        embeddings: 0.125,
    }


def test_the_optimizer_has_the_numbers_of_the_options():
    """Ten steps, three of them warmup; what decays counts from the start of the run."""
    config = BertConfig(
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    model = BertClassifier(config, num_classes=2)

    def optimizer(**changes):
        options = FinetuningOptions(learning_rate=2e-3, **changes).resolved({})
        made = finetuning_optimizer(model, options, 10)
        made.build(model.trainable_variables)
        return made

    made = optimizer(warmup_proportion=0.3, bias_correction=False, layer_decay=0.5)
    rates = []
    for step in range(11):
        made.iterations.assign(step)
        rates.append(float(made.learning_rate) / 2e-3)
    by_hand = [0, 1 / 3, 2 / 3, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0]
    np.testing.assert_allclose(rates, by_hand, **FORMULA)
    found = made.get_config()
    assert found["name"] == "bert_adamw"
    assert found["bias_correction"] is False
    assert found["weight_decay_rate"] == 0.01
    assert found["rate_scales"] == layer_rates(config, 0.5)
    usual = optimizer().get_config()
    assert (usual["bias_correction"], usual["rate_scales"]) == (True, {})
    assert found["not_decayed"] == [r"norm/(gamma|beta)$", "bias$"]
    model.encoder.trainable = False
    # A frozen encoder has no layer norm: patterns that match nothing are left out.
    assert optimizer().get_config()["not_decayed"] == ["bias$"]


def test_reinitialized_layers_start_fresh_with_the_pooler(pretrained_folder, tmp_path):
    run(pretrained_folder, tmp_path, reinitialized_layers=1, learning_rate=1e-9)
    changes = moved(tmp_path, start_weights(pretrained_folder))
    assert changes["layer_0/output/kernel"] > 0.01
    assert changes["pooler/kernel"] > 0.01
    assert changes["word_embeddings/embeddings"] < 1e-6
    with pytest.raises(ValueError, match="reinitialized_layers is 2 but the model has 1 layers"):
        run(pretrained_folder, tmp_path / "other", reinitialized_layers=2)


@pytest.mark.parametrize("name", ["init_layers", "reinitialized_layers"])
def test_fresh_weights_are_taken_from_no_layers(name):
    value = {"init_layers": ("0",), "reinitialized_layers": 2}[name]
    with pytest.raises(ValueError, match=f"from_scratch takes no weights: leave out {name}"):
        FinetuningOptions(from_scratch=True, **{name: value})


@pytest.mark.parametrize("given", [(0, 2), [0, 2], np.array([0, 2]), "0,2"], ids=repr)
def test_layers_are_numbers_or_what_the_flag_says(given):
    """By hand: --init_layers=0,2 gives the names "0" and "2"; no layers are no names."""
    for options in (
        FinetuningOptions(init_layers=given),
        PretrainingOptions("", "", init_layers=given),
    ):
        assert options.init_layers == ("0", "2") and options.teacher_layers == ()
    assert PretrainingOptions("", "", teacher_layers=given).teacher_layers == ("0", "2")
    assert FinetuningOptions(init_layers="") == FinetuningOptions()


def test_folders_are_paths_or_their_names():
    """As run.json takes them: JSON has no paths."""
    assert FinetuningOptions(teacher=Path("a/b")) == FinetuningOptions(teacher="a/b")
    names = ("eval_data_dir", "init_from", "teacher")
    folders = {name: Path("a") / name for name in names}
    found = PretrainingOptions(Path("records"), Path("run"), **folders)
    assert found == PretrainingOptions("records", "run", **{name: f"a/{name}" for name in names})


@pytest.mark.parametrize("kind", [tuple, list, np.array])
def test_class_weights_are_numbers_above_0(kind):
    with pytest.raises(ValueError, match="class_weights are .*: they must be numbers above 0"):
        FinetuningOptions(class_weights=kind([1.0, -5.0]))
    assert FinetuningOptions(class_weights=kind([1.0, 5.0])).class_weights == (1.0, 5.0)
    assert json.dumps(FinetuningOptions(class_weights=kind([1, 5])).class_weights) == "[1.0, 5.0]"
    with pytest.raises(ValueError, match="class_weights are .*: they must be numbers above 0"):
        FinetuningOptions(class_weights=kind(["1", "5"]))
    with pytest.raises(ValueError, match="class_weights is 3: give 'balanced' or one number"):
        FinetuningOptions(class_weights=3)


@pytest.mark.slow
def test_class_weights_move_the_predictions(pretrained_folder, tmp_path):
    # Nothing tells the classes apart, so the best a model can do is their weighted frequency.
    labels = np.array([0] * 24 + [1] * 8, np.int32)
    same = LabeledTexts(["film"] * 32, None, labels)
    data = TaskData({"train": same, "test": same}, ("no", "yes"), {"text": "text"})

    def mean_probability(name, **options):
        run(pretrained_folder, tmp_path / name, data, epochs=30, learning_rate=3e-3, **options)
        rows = (tmp_path / name / "predictions_test.csv").read_text().splitlines()
        return float(rows[1].split(",")[-1])

    assert mean_probability("plain") == pytest.approx(0.25, abs=0.08)
    assert mean_probability("balanced", class_weights="balanced") == pytest.approx(0.5, abs=0.08)
    assert mean_probability("given", class_weights=(1.0, 9.0)) == pytest.approx(0.75, abs=0.08)
    with pytest.raises(ValueError, match=r"class_weights has 3 numbers but there are 2 labels"):
        run(pretrained_folder, tmp_path / "x", data, class_weights=(1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("weights", "shown"),
    [((1.0, 9.5), "'no' 1, 'yes' 9.5"), ("balanced", "'no' 0.6667, 'yes' 2")],
)
def test_a_run_tells_which_class_has_which_weight(
    pretrained_folder, tmp_path, capsys, weights, shown
):
    labels = np.array([0] * 24 + [1] * 8, np.int32)  # 32 / (2 x 24) and 32 / (2 x 8)
    data = TaskData({"train": LabeledTexts(TEXTS, None, labels)}, ("no", "yes"), {"text": "text"})
    run(pretrained_folder, tmp_path / "run", data, class_weights=weights)
    assert f"class weights: {shown}\n" in capsys.readouterr().out


def test_label_smoothing_by_hand():
    loss = TextHead().loss(0.2)(np.array([0]), np.array([[math.log(3.0), 0.0]]))
    # Probabilities 0.75 and 0.25; the smoothed target is 0.9 and 0.1.
    assert float(loss) == approx(-0.9 * math.log(0.75) - 0.1 * math.log(0.25), FORMULA)


def test_patience_ends_a_run_that_gets_no_better(pretrained_folder, tmp_path):
    texts = LabeledTexts(TEXTS, None, np.arange(32, dtype=np.int32) % 2)
    wrong = LabeledTexts(TEXTS, None, 1 - texts.labels)
    data = two_classes(validation=wrong)
    result = run(pretrained_folder, tmp_path / "run", data, epochs=10, patience=2)
    assert len(result.epochs) == result.best_epoch + 2 < 10
    unmeasured = TaskData({"train": texts}, ("no", "yes"), {"text": "text"})
    with pytest.raises(ValueError, match="patience is 2 but there is no validation data"):
        run(pretrained_folder, tmp_path / "other", unmeasured, patience=2)


@pytest.mark.slow
def test_several_labels_are_learned_together(pretrained_folder, tmp_path):
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, [256, 2]).astype(np.float32)
    words = [["bad", "good"], ["film", "book"]]
    texts = [" ".join(words[i][int(on)] for i, on in enumerate(row)) for row in labels]
    split = LabeledTexts(texts, None, labels)
    data = TaskData({"train": split, "validation": split}, ("good", "book"), {"text": "text"})
    task = csv_task(label_type="multi_label")
    # Wide enough to find both words in every seed; the other one does in half of them.
    tokenizer = BertTokenizer.from_preset(pretrained_folder)
    config = BertConfig(
        vocab_size=len(tokenizer.vocabulary),
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.1,
    )
    BertEncoder(config, seed=1).save_to_preset(tmp_path / "wide", tokenizer)
    options = FinetuningOptions(**{**SHORT, "epochs": 6, "learning_rate": 1e-3, "seed": 5})
    result = finetune(task, data, tmp_path / "wide", tmp_path, options)
    assert result.validation["micro_f1"] > 0.95
    assert result.validation["macro_f1"] > 0.95
    rows = (tmp_path / "predictions_validation.csv").read_text().splitlines()[1:]
    named = [row.split(",")[1] for row in rows]
    expected = {(0, 0): "", (1, 0): "good", (0, 1): "book", (1, 1): "good|book"}
    hits = [name == expected[tuple(row)] for name, row in zip(named, labels, strict=True)]
    assert np.mean(hits) > 0.95


class TestCollapse:
    """A run that learned nothing says so."""

    def test_a_learning_rate_of_one_is_flagged(self, pretrained_folder, tmp_path):
        result = run(pretrained_folder, tmp_path, epochs=2, learning_rate=1.0)
        assert result.collapsed is not None

    def test_a_normal_run_is_not(self, sentiment_run):
        assert sentiment_run[1].collapsed is None

    def test_a_loss_that_never_left_its_start_is_flagged(self, pretrained_folder, tmp_path):
        result = run(pretrained_folder, tmp_path, learning_rate=1e-9)
        assert "predictions are" in result.collapsed or "no better than the 0.693" in (
            result.collapsed
        )

    def test_labels_that_are_all_alike_are_no_collapse(self):
        one_class = LabeledTexts(["a"] * 3, labels=[1, 1, 1])
        one_number = LabeledTexts(["a"] * 3, labels=[0.1, 0.1, 0.1])
        for head, examples in (
            (TextHead(labels=("no", "yes")), one_class),
            (TextHead("regression"), one_number),
        ):
            chance = head.chance_loss(examples)
            assert chance == 0 and no_better_than_chance(1e-9, chance) is None
        assert "no better than the 0.693" in no_better_than_chance(0.693, math.log(2))

    def test_one_number_is_no_collapse(self):
        head = TextHead(label_type="regression")
        ten, one = np.full(10, 0.5), np.array([0.5])
        assert head.collapse(ten, np.arange(10.0)) == "all predictions are about 0.5"
        assert head.collapse(one, np.array([2.0])) is None
        assert head.collapse(ten, np.full(10, 2.0)) is None

    def test_one_set_of_labels_is_told_by_their_names(self):
        head = TextHead(label_type="multi_label", labels=("food", "price", "staff"))
        right = np.array([[1, 0, 0], [0, 1, 0]])
        told = "all 2 predictions are "
        assert head.collapse(np.zeros((2, 3)), right) == told + "no label"
        assert head.collapse(np.full((2, 3), [0.9, 0.1, 0.8]), right) == told + "food, staff"

    @pytest.mark.slow
    def test_collapsed_seeds_count_in_no_mean(self, pretrained_folder, sentiment_folder, tmp_path):
        task = csv_task()
        data = task.read(sentiment_folder)
        options = FinetuningOptions(
            epochs=3, batch_size=32, learning_rate=3e-3, mixed_precision="float32"
        )
        grid = {"learning_rate": (3e-3, 1.0)}
        result = search(task, data, pretrained_folder, tmp_path, options, seeds=2, grid=grid)
        healthy, lost = result.points()
        assert [run.collapsed is None for run in result.runs] == [True, True, False, False]
        assert result.summary(lost, "test", "accuracy") is None
        scores = [run.result.test["accuracy"] for run in result.runs[:2]]
        summary = result.summary(healthy, "test", "accuracy")
        assert summary.mean == pytest.approx(np.mean(scores))
        assert summary.standard_deviation == pytest.approx(np.std(scores, ddof=1))
        assert summary.best == max(scores)
        # The kept model is the one that is said to be kept, and the folder can be used.
        assert BertClassifier.from_preset(tmp_path).labels == ["neg", "pos"]
        kept = (tmp_path / "runs" / result.best.name / "metrics.json").read_bytes()
        assert (tmp_path / "metrics.json").read_bytes() == kept
        # Again: nothing is trained anew, and what another best run had copied here goes.
        for place in ("runs/old", "."):
            (tmp_path / place).mkdir(exist_ok=True)
            (tmp_path / place / "predictions_old.csv").touch()
        old = json.loads((tmp_path / "results.json").read_text()) | {"best": "old"}
        (tmp_path / "results.json").write_text(json.dumps(old))
        stamp = (tmp_path / "runs" / result.best.name / "model.weights.h5").stat().st_mtime_ns
        search(task, data, pretrained_folder, tmp_path, options, seeds=2, grid=grid)
        again = (tmp_path / "runs" / result.best.name / "model.weights.h5").stat().st_mtime_ns
        assert again == stamp
        assert not (tmp_path / "predictions_old.csv").exists()
        assert (tmp_path / "runs" / "old" / "predictions_old.csv").exists()


def test_grids_are_read():
    assert parse_grid("paper")["learning_rate"] == (5e-5, 3e-5, 2e-5)
    assert parse_grid("learning_rate=2e-5,1e-4;epochs=2") == {
        "learning_rate": (2e-5, 1e-4),
        "epochs": (2,),
    }
    with pytest.raises(ValueError, match="the grid names 'dropout'"):
        parse_grid("dropout=0.1")
    with pytest.raises(ValueError, match="the grid gives epochs the value 'two'"):
        parse_grid("epochs=two")
    with pytest.raises(ValueError, match="the grid names epochs twice"):
        parse_grid("epochs=2;epochs=3")
    with pytest.raises(ValueError, match="the grid gives learning_rate a value twice"):
        parse_grid("learning_rate=2e-5,0.00002")
    assert parse_grid("epochs=2", ["seeds", "learning_rate"]) == {"epochs": (2,)}
    with pytest.raises(ValueError, match="--grid=paper has learning rates of whole models"):
        parse_grid("paper", ["lora_rank"])
    for grid in ("paper", "epochs=2"):
        with pytest.raises(ValueError, match=f"--epochs and --grid={grid} both give epochs"):
            parse_grid(grid, ["seeds", "epochs"])


def test_a_search_is_checked_before_its_first_run(pretrained_folder, tmp_path):
    options = FinetuningOptions(**SHORT)
    arguments = csv_task(), two_classes(), pretrained_folder
    with pytest.raises(ValueError, match="epochs is 0"):
        search(*arguments, tmp_path / "run", options, grid={"epochs": (1, 0)})
    for grid, sentence in (
        ({"rate": (1e-5,)}, "the grid names 'rate': it may hold options that are numbers"),
        ({"seed": (1, 2)}, "the grid names 'seed': .* seeds are counted by `seeds`"),
        ({"epochs": 2}, "the grid gives epochs 2: give a list of numbers"),
        ({"epochs": ("2",)}, r"the grid gives epochs \['2'\]: give numbers"),
        ({"epochs": (2, 2)}, r"the grid gives epochs a value twice \(\[2, 2\]\)"),
    ):
        with pytest.raises(ValueError, match=sentence):
            search(*arguments, tmp_path / "run", options, grid=grid)
    last = dataclasses.replace(options, seed=2**32 - 1)
    with pytest.raises(ValueError, match="seed is 4294967296: it must be from 0 to"):
        search(*arguments, tmp_path / "run", last, seeds=2)
    assert not (tmp_path / "run").exists()
    # A model that is not a search's own is not written over, even the one that is started from.
    before = (pretrained_folder / "model.weights.h5").read_bytes()
    with pytest.raises(ValueError, match="pretrained holds a model that no search wrote"):
        search(*arguments, pretrained_folder, options, seeds=2)
    assert not (pretrained_folder / "runs").exists()
    assert (pretrained_folder / "model.weights.h5").read_bytes() == before


@pytest.mark.slow
def test_a_search_refuses_what_it_could_not_go_on_with_before_its_first_run(
    pretrained_folder, tmp_path
):
    options = FinetuningOptions(**SHORT)
    told = tmp_path / "told"
    told.symlink_to(pretrained_folder)

    def again(changes=None, data=None, start=pretrained_folder, seeds=1, **grid):
        arguments = csv_task(), data or two_classes(), start, tmp_path / "search"
        changed = dataclasses.replace(options, **changes or {})
        return search(*arguments, changed, seeds, grid=grid)

    assert len(again(learning_rate=(1e-3,)).runs) == 1
    first = "runs/learning_rate=0.001,seed=0 holds a run with "
    texts = two_classes().splits["validation"]
    mended = two_classes(validation=dataclasses.replace(texts, labels=1 - texts.labels))
    with pytest.raises(ValueError, match=first + "examples.validation="):
        again(data=mended, learning_rate=(2e-3,))
    # Of the second of two points: nothing is trained before.
    with pytest.raises(ValueError, match=first + "options.label_smoothing=0.0, now it is 0.1"):
        again({"label_smoothing": 0.1}, learning_rate=(2e-3, 1e-3))
    runs = tmp_path / "search" / "runs"
    assert [path.name for path in runs.iterdir()] == ["learning_rate=0.001,seed=0"]
    # Other options under another name, and the same model by another path.
    changes = {"seed": 5, "batch_size": 4, "class_weights": np.array([1, 2])}
    found = again(changes, start=told, epochs=np.array([1]))
    assert json.dumps({run.name: run.point for run in found.runs}) == (
        '{"epochs=1,seed=5": {"epochs": 1}}'  # which results.json takes
    )
    with pytest.raises(ValueError, match="the grid gives an option no value"):
        again(epochs=())


def test_a_run_on_other_data_is_another(sentiment_run, sentiment_folder, pretrained_folder):
    task, folder = csv_task(), sentiment_run[0]
    data = task.read(sentiment_folder)
    options = FinetuningOptions(
        epochs=4, batch_size=16, learning_rate=3e-3, mixed_precision="float32"
    )
    arguments = pretrained_folder, folder, options, True
    assert finetune(task, data, *arguments) == FinetuningResult.finished(folder)
    dev = data.splits["validation"]
    mended = dataclasses.replace(dev, labels=1 - dev.labels)
    with pytest.raises(ValueError, match="holds a run with examples.validation='64, sha256"):
        finetune(task, TaskData({**data.splits, "validation": mended}, data.labels), *arguments)


def metrics(accuracy, error, collapsed=None):
    measured = {"test": {"accuracy": accuracy, "mean_squared_error": error}}
    return FinetuningResult(1, measured, (), {}, collapsed, 1.0, 1.0)


def test_the_best_error_is_the_lowest():
    runs = tuple(Run({}, seed, metrics(seed, 3.0 - seed), None) for seed in range(3))
    result = SearchResult(runs, runs[0])
    assert result.summary({}, "test", "mean_squared_error") == (2.0, 1.0, 2.0, 1.0)
    assert result.summary({}, "test", "accuracy") == (1.0, 1.0, 1.0, 2.0)


def test_a_metric_that_some_runs_lack_is_that_of_the_others():
    """As chrF and BLEU, where sacrebleu was installed between two runs."""
    runs = [Run({}, seed, metrics(0.5, 2.0), None) for seed in range(2)]
    del runs[0].measured.metrics["test"]["accuracy"]
    result = SearchResult(tuple(runs), runs[1])
    assert result.summary({}, "test", "accuracy") == (0.5, 0.0, 0.5, 0.5)
    assert result.summary({}, "test", "f1") is None


def test_runs_of_different_numbers_have_different_folders():
    names = [Run({"learning_rate": 2e-5}, seed, None, None).name for seed in (0, 20240101)]
    assert names == ["learning_rate=2e-05,seed=0", "learning_rate=2e-05,seed=20240101"]
    assert Run({"learning_rate": 1.2345678e-5}, 1, None, None).name == (
        "learning_rate=1.2345678e-05,seed=1"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"layer_decay": 0.0}, "layer_decay is 0.0"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0"),
        ({"patience": 0}, "patience is 0"),
        ({"reinitialized_layers": -1}, "reinitialized_layers is -1: it must be 0 or more"),
        ({"learning_rate": math.inf}, "learning_rate is inf: it must be above 0 and finite"),
        ({"class_weights": "even"}, "class_weights is 'even'"),
        ({"class_weights": (1.0, 0.0)}, "they must be numbers above 0"),
        ({"class_weights": (math.nan, 1.0)}, "they must be numbers above 0"),
        ({"accumulation_steps": 5, "batch_size": 4}, "each micro-batch needs an example"),
        ({"freeze_encoder": True, "layer_decay": 0.9}, "a frozen encoder learns nothing"),
        ({"lora_rank": 0}, "lora_rank is 0: it must be at least 1"),
        (
            {"lora_rank": 4, "freeze_encoder": True},
            "a frozen encoder learns nothing: leave out lora_rank",
        ),
        ({"lora_rank": 4, "reinitialized_layers": 1}, ": leave out reinitialized_layers"),
        ({"lora_rank": 4, "from_scratch": True}, "lora_rank is 4, .*: leave out from_scratch"),
        ({"lora_alpha": 8.0}, "lora_alpha is 8.0, but there is no lora_rank: give one"),
        ({"lora_rank": 4, "lora_alpha": 0.0}, "lora_alpha is 0.0: it must be above 0"),
        (
            {"freeze_encoder": True, "teacher": "a", "hidden_state_weight": 1.0},
            "a frozen encoder learns nothing: leave out hidden_state_weight",
        ),
        ({"teacher": ""}, "teacher is '': name the folder of a finished run"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        FinetuningOptions(**options)


def test_a_regression_has_no_labels_to_smooth(pretrained_folder, tmp_path):
    task = csv_task(label_type="regression")
    split = LabeledTexts(TEXTS, None, np.arange(32, dtype=np.float32))
    data = TaskData({"train": split}, (), {"text": "text"})
    options = FinetuningOptions(**SHORT, label_smoothing=0.1)
    with pytest.raises(ValueError, match="a regression has no classes to smooth"):
        finetune(task, data, pretrained_folder, tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


def test_a_span_has_no_labels_to_smooth():
    with pytest.raises(ValueError, match="a span has no classes to smooth: leave out"):
        SpanHead().loss(label_smoothing=0.1)
    logits = np.array([[math.log(3.0), 0.0]])  # probabilities 0.75 and 0.25
    for loss in SpanHead().loss().values():
        assert float(loss(np.array([0]), logits)) == approx(-math.log(0.75), FORMULA)
