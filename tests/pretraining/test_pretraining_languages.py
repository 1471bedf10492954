"""Pretraining on records of several languages: rates, resuming, figures of each language."""

import math

import numpy as np
import pytest

from keras_bert import BertPretrainer, BertTokenizer
from keras_bert.data.creation.create import CreationOptions, create_pretraining_data
from keras_bert.pretraining.inputs import first_folder
from keras_bert.pretraining.objectives.distillation import Distillation
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.visualize.pretraining_report import write_pretraining_report
from tests.pretraining.pretraining_runs import (
    metrics_of,
    run_pretraining,
    weights_of,
    without_dropout,
)
from tests.tolerances import REORDERED, REORDERED_UPDATES, approx


@pytest.fixture(scope="module")
def languages(corpus, tmp_path_factory):
    """The flag for two languages; "cat" has 600 sentences, "dog" a quarter of them."""
    folder = tmp_path_factory.mktemp("languages")
    documents = (corpus / "text.txt").read_text().split("\n\n")
    for name, count in {"cat": 24, "dog": 6}.items():
        (folder / f"{name}.txt").write_text("\n\n".join(documents[:count]))
        create_pretraining_data(
            CreationOptions(
                inputs=(str(folder / f"{name}.txt"),),
                vocab=str(corpus / "vocab.txt"),
                output_dir=str(folder / name),
                max_seq_length=24,
                dupe_factor=1,
                num_shards=1,
            )
        )
    return f"dog={folder}/dog,cat={folder}/cat"


@pytest.fixture(scope="module")
def whole(corpus, languages, tmp_path_factory):
    """A run of ten steps that was never stopped, and its metrics."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, _run(corpus, languages, folder)


def _run(corpus, languages, folder, strategy="cpu", **changes):
    options = {
        "data_dir": languages,
        "eval_data_dir": languages,
        "language_alpha": 0.3,
        "train_steps": 10,
        "checkpoint_steps": 4,
        "steps_per_loop": 4,
        "config": without_dropout(),
    }
    return run_pretraining(corpus, folder, strategy, **(options | changes))


@pytest.mark.slow
def test_a_resumed_run_draws_what_one_draws_that_was_never_stopped(
    corpus, languages, whole, tmp_path, monkeypatch
):
    save, saves = TrainingCheckpoint.save, []

    def stop_after_second_save(self):
        saves.append(save(self))
        if len(saves) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingCheckpoint, "save", stop_after_second_save)
    with pytest.raises(KeyboardInterrupt):
        _run(corpus, languages, tmp_path)
    monkeypatch.undo()
    _run(corpus, languages, tmp_path)
    expected = weights_of(whole[0])
    for path, value in weights_of(tmp_path).items():
        np.testing.assert_array_equal(value, expected[path], err_msg=path)


@pytest.mark.long
def test_two_replicas_learn_and_measure_what_one_does(corpus, languages, whole, tmp_path):
    metrics = _run(corpus, languages, tmp_path, "mirrored")
    assert metrics == approx(whole[1], REORDERED)
    expected = weights_of(whole[0])
    for path, value in weights_of(tmp_path).items():
        np.testing.assert_allclose(value, expected[path], **REORDERED_UPDATES, err_msg=path)


@pytest.mark.slow
def test_each_language_has_figures_of_its_own(corpus, languages, whole, tmp_path):
    folder, metrics = whole
    (logged,) = metrics_of(folder, "eval")
    assert logged == {"split": "eval", "step": 10, **metrics}
    for name in ("masked_lm_loss", "masked_lm_accuracy", "loss", "most_frequent_piece_accuracy"):
        assert {name, f"{name}/cat", f"{name}/dog"} <= metrics.keys()
    # Which language it is can be told without context: the bound of all is the mean of theirs.
    bounds = [metrics[f"masked_lm_loss_without_context/{name}"] for name in ("cat", "dog")]
    assert min(bounds) < metrics["masked_lm_loss_without_context"] < max(bounds)
    # All together lie between both, and a language alone gives the same as beside another.
    losses = [metrics[f"masked_lm_loss/{name}"] for name in ("cat", "dog")]
    assert min(losses) < metrics["masked_lm_loss"] < max(losses)
    only = languages.split(",")[0]  # dog
    alone = _run(corpus, languages, tmp_path, eval_data_dir=only.removeprefix("dog="))
    for name, value in alone.items():
        assert math.isclose(metrics[f"{name}/dog"], value, rel_tol=1e-6), name
    report = write_pretraining_report(folder).read_text()
    assert "## Held out, by language" in report
    assert "Languages drawn with alpha 0.3" in report
    assert any(line.startswith("| cat | ") for line in report.splitlines())
    assert "/cat" not in report.split("## Starts")[0]


def test_distillation_without_the_masked_lm_loss_has_figures_of_each_language(
    corpus, languages, tmp_path
):
    BertPretrainer(without_dropout()).save_to_preset(
        tmp_path / "teacher", BertTokenizer.from_preset(corpus)
    )
    changes = {"objective": "distillation", "teacher": str(tmp_path / "teacher"), "train_steps": 2}
    metrics = _run(corpus, languages, tmp_path / "run", masked_lm_weight=0.0, **changes)
    names = {"loss", "soft_target_loss", "soft_target_accuracy", "cosine_loss"}
    assert metrics.keys() == {f"{name}{group}" for name in names for group in ("", "/cat", "/dog")}
    assert (tmp_path / "run" / "preset" / "config.json").exists()
    assert Distillation().plateaus == MaskedLanguageModel().plateaus  # with it as always


@pytest.mark.slow
def test_other_languages_or_rates_are_another_run(corpus, languages, whole):
    with pytest.raises(ValueError, match=r"options\.language_alpha=0\.3, now it is 0\.7"):
        _run(corpus, languages, whole[0], language_alpha=0.7)
    renamed = languages.replace("dog=", "xx=")
    with pytest.raises(ValueError, match=r"languages\.dog=\d+, now there is no such setting"):
        _run(corpus, renamed, whole[0])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"language_alpha": 2.0}, "language_alpha is 2.0: it must be from 0"),
        ({"data_dir": "a=x,y"}, "--data_dir names some languages, but 'y' has no name"),
        ({"data_dir": "a=x,a=y"}, "--data_dir names a twice"),
        ({"data_dir": "a=nowhere"}, "there are no records at nowhere"),
    ],
)
def test_languages_that_cannot_be_read_are_refused(corpus, languages, tmp_path, changes, sentence):
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        _run(corpus, changes.pop("data_dir", languages), tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_the_vocabulary_is_read_from_the_first_by_name(languages):
    folders = dict(named.split("=") for named in languages.split(","))
    assert first_folder(languages) == folders["cat"]
    assert first_folder("a/folder") == "a/folder"
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder of records .*a=nowhere"):
        first_folder("a=nowhere")


def test_an_alpha_without_languages_is_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match="language_alpha is 0.3, but --data_dir names no"):
        run_pretraining(corpus, tmp_path / "run", language_alpha=0.3)
