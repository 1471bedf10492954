"""One run that goes on from another; recomputed blocks; options that do not go together."""

import dataclasses
import shutil

import numpy as np
import pytest

from keras_bert import BertPretrainer, BertTokenizer
from keras_bert.data.creation.create import create_pretraining_data
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.records.manifest import Manifest
from keras_bert.data.records.pipeline import stored_batches, training_batches
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.models.surgery.vocabulary_growth import grow_vocabulary
from keras_bert.pretraining.objectives.causal_lm import CausalLanguageModel
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.objectives.registry import create_objective
from keras_bert.pretraining.pretrain import pretrain
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.training.strategy import create_strategy
from tests.markers import some_slow
from tests.pretraining.pretraining_runs import (
    WORDS,
    metrics_of,
    run_options,
    run_pretraining,
    tiny_config,
    weights_of,
    without_dropout,
)
from tests.tolerances import EXACT, REORDERED_UPDATES, UNMOVED

PIECES_WITHIN_WORDS = [f"##{letter}" for letter in sorted(set("".join(WORDS)))]


def _assert_same_weights(left, right, tolerance=EXACT):
    left, right = weights_of(left), weights_of(right)
    for path, value in left.items():
        np.testing.assert_allclose(value, right[path], **tolerance, err_msg=path)


@pytest.mark.slow
def test_two_phases_on_the_same_data_are_one_run(corpus, tmp_path, capsys):
    run_pretraining(corpus, tmp_path / "whole", train_steps=20)
    run_pretraining(corpus, tmp_path / "first", train_steps=12, schedule_steps=20)
    first = str(tmp_path / "first")
    run_pretraining(corpus, tmp_path / "second", train_steps=20, init_from=first)
    assert "resumed at step 12" in capsys.readouterr().out
    _assert_same_weights(tmp_path / "whole", tmp_path / "second")
    assert [line["step"] for line in metrics_of(tmp_path / "second", "train")][0] == 13
    # Once it has a checkpoint of its own, that comes first.
    shutil.rmtree(tmp_path / "first" / "checkpoints")
    run_pretraining(corpus, tmp_path / "second", train_steps=20, init_from=first)
    assert "resumed at step 20" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_folder_gives_its_weights_only(corpus, tmp_path, capsys):
    run_pretraining(corpus, tmp_path / "first", train_steps=4)
    preset = str(tmp_path / "first" / "preset")
    run_pretraining(corpus, tmp_path / "next", train_steps=3, init_from=preset, learning_rate=1e-9)
    assert "from the start" in capsys.readouterr().out.splitlines()[-1]
    _assert_same_weights(tmp_path / "first", tmp_path / "next", UNMOVED)


@pytest.mark.slow
def test_a_vocabulary_of_ones_own_field_goes_on_from_a_model(corpus, tmp_path):
    run_pretraining(corpus, tmp_path / "first", train_steps=4)
    model = BertPretrainer.from_preset(tmp_path / "first" / "preset")
    tokenizer = BertTokenizer.from_preset(tmp_path / "first" / "preset")
    vocabulary = tokenizer.vocabulary.add_tokens(["catdog"])
    pieces = {len(vocabulary) - 1: [vocabulary.id_of("cat"), vocabulary.id_of("dog")]}
    grown = grow_vocabulary(model, pieces, len(vocabulary))
    grown.save_to_preset(tmp_path / "grown", BertTokenizer(vocabulary))
    records = tmp_path / "records"
    shutil.copytree(corpus / "records", records)
    BertTokenizer(vocabulary).save(records)
    manifest = (records / "manifest.json").read_text()
    manifest = manifest.replace(tokenizer.vocabulary.sha256, vocabulary.sha256)
    (records / "manifest.json").write_text(manifest)
    run_pretraining(
        corpus,
        tmp_path / "next",
        data_dir=str(records),
        config=grown.config,
        init_from=str(tmp_path / "grown"),
        train_steps=3,
    )
    after = BertPretrainer.from_preset(tmp_path / "next" / "preset")
    assert after.config.vocab_size == model.config.vocab_size + 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"schedule_steps": 10}, "schedule_steps is 10 and train_steps is 20"),
        ({"schedule_steps": 40, "time_budget": 5.0}, "schedule_steps is 40 .* with a time budget"),
        ({"train_steps": 0}, "train_steps is 0: it must be at least 1"),
        ({"batch_size": 0}, "batch_size is 0: it must be at least 1"),
        ({"accumulation_steps": 0}, "accumulation_steps is 0: it must be at least 1"),
        ({"steps_per_loop": -1}, "steps_per_loop is -1: it must be 0 or more"),
        ({"max_skipped_steps": -1}, "max_skipped_steps is -1: it must be 0 or more"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0: it must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan: it must be above 0"),
        ({"weight_decay_rate": -0.1}, "weight_decay_rate is -0.1: it must be 0 or more"),
        ({"time_budget": float("nan")}, "time_budget is nan: it must be above 0"),
        ({"time_budget": float("inf")}, "time_budget is inf: it must be a finite number"),
        ({"learning_rate": float("inf")}, "learning_rate is inf: it must be a finite number"),
        ({"eval_steps": 5}, "eval_steps is 5, but there are no held-out records"),
    ],
)
def test_options_that_cannot_be_are_refused(corpus, tmp_path, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        run_pretraining(corpus, tmp_path / "run", **changes)
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_run_behind_the_one_it_goes_on_from_is_refused(corpus, tmp_path):
    run_pretraining(corpus, tmp_path / "first", train_steps=4)
    first = str(tmp_path / "first")
    with pytest.raises(ValueError, match="stands at step 4 and train_steps is 3"):
        run_pretraining(corpus, tmp_path / "next", train_steps=3, init_from=first)
    sentence = r"configuration than --model \(hidden_size 32, not 64\): .*config.json"
    with pytest.raises(ValueError, match=sentence):
        config = tiny_config(hidden_size=64)
        run_pretraining(corpus, tmp_path / "next", config=config, init_from=first)
    shutil.rmtree(tmp_path / "first" / "checkpoints")
    with pytest.raises(ValueError, match="has no checkpoint: let it make one"):
        run_pretraining(corpus, tmp_path / "next", init_from=first)


@pytest.mark.slow
def test_recomputed_blocks_train_alike(corpus, tmp_path):
    config = without_dropout(num_hidden_layers=2)
    run_pretraining(corpus, tmp_path / "plain", config=config, train_steps=6)
    run_pretraining(corpus, tmp_path / "remat", config=config, train_steps=6, remat=True)
    _assert_same_weights(tmp_path / "plain", tmp_path / "remat", REORDERED_UPDATES)


def _create(corpus, folder, max_seq_length=24, **changes):
    create_pretraining_data(
        CreationOptions(
            inputs=(str(corpus / "text.txt"),),
            vocab=str(corpus / "vocab.txt"),
            output_dir=str(folder),
            max_seq_length=max_seq_length,
            dupe_factor=1,
            num_shards=1,
            **changes,
        )
    )
    return str(folder)


def test_packed_documents_train_and_leave_an_ordinary_model(corpus, tmp_path):
    packed = _create(corpus, tmp_path / "packed", sentence_task="none", pack=True)
    metrics = run_pretraining(corpus, tmp_path / "run", data_dir=packed, eval_data_dir=packed)
    assert "next_sentence_loss" not in metrics
    assert metrics["masked_lm_loss"] < metrics_of(tmp_path / "run", "train")[0]["masked_lm_loss"]
    assert not BertPretrainer.from_preset(tmp_path / "run" / "preset").encoder.packed


@pytest.fixture(scope="module")
def letters(corpus, tmp_path_factory):
    """Records whose words are cut into letters, so that a word has two to five pieces."""
    folder = tmp_path_factory.mktemp("letters")
    alphabet = sorted(set("".join(WORDS)))
    BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *alphabet, *PIECES_WITHIN_WORDS])).save(folder)
    (folder / "text.txt").write_text((corpus / "text.txt").read_text())
    return _create(folder, folder / "records")


@pytest.mark.parametrize("masking", some_slow(["token", "whole_word", "ngram"], ("whole_word",)))
def test_a_run_hides_words_whole_where_it_is_told_to(letters, tmp_path, masking):
    tokenizer = BertTokenizer.from_preset(letters)
    options = run_options(letters, tmp_path, masking=masking, train_steps=3)
    data = PretrainingData(letters)
    targets = create_objective(options, data).targets(options, tokenizer, data)
    batches = training_batches(data, targets, 64, options.seed)
    batch = next(batches.as_numpy_iterator())
    ids = batch["input_ids"].copy()
    chosen = np.zeros(ids.shape, bool)
    for row in range(len(ids)):
        used = batch["masked_lm_weights"][row] > 0
        positions = batch["masked_lm_positions"][row][used]
        ids[row, positions] = batch["masked_lm_ids"][row][used]
        chosen[row, positions] = True
    continues = np.isin(ids, [tokenizer.vocabulary.id_of(p) for p in PIECES_WITHIN_WORDS])
    # Two neighbours of one word that are not treated alike, over all pairs of such neighbours. (A
    # word that was cut off at its front follows [CLS] or [SEP], which are no part of it.)
    same_word = continues[:, 1:] & (ids[:, :-1] >= len(SPECIAL_TOKENS))
    split = (chosen[:, 1:] != chosen[:, :-1])[same_word]
    if masking == "token":
        assert split.mean() > 0.1  # 2 x 0.15 x 0.85 = 0.255, were there no limit
    else:
        assert not split.any()
    config = tiny_config(vocab_size=len(tokenizer.vocabulary))
    run_pretraining(
        tmp_path, tmp_path, data_dir=letters, config=config, masking=masking, train_steps=3
    )
    assert metrics_of(tmp_path, "train")[-1]["step"] == 3


def test_held_out_records_of_another_kind_are_refused(corpus, tmp_path):
    single = _create(corpus, tmp_path / "single", sentence_task="none")
    packed = _create(corpus, tmp_path / "packed", sentence_task="none", pack=True)
    for eval_data_dir, sentence in [
        (corpus / "records", "were made with sentence_task 'nsp', those in .* with 'none'"),
        (packed, "were made with packed True, those in .* with False"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            run_pretraining(
                corpus, tmp_path / "run", data_dir=single, eval_data_dir=str(eval_data_dir)
            )


def test_held_out_records_of_another_case_are_refused(corpus, tmp_path):
    folder = shutil.copytree(corpus / "records", tmp_path / "cased")
    manifest = Manifest.read(folder)
    dataclasses.replace(manifest, lowercase=not manifest.lowercase).write(folder)
    with pytest.raises(ValueError, match="cased and those in .* one is of lower-cased text and"):
        run_pretraining(corpus, tmp_path / "run", eval_data_dir=str(folder))


class _Predictions:
    """Tells as a metric how many pieces were predicted."""

    def metrics(self, sums):
        return super().metrics(sums) | {"predictions": float(sums["masked_lm"].weight)}


class _Masked(_Predictions, MaskedLanguageModel):
    pass


class _LeftToRight(_Predictions, CausalLanguageModel):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("objective", [_Masked, _LeftToRight])
def test_held_out_records_are_measured_at_their_own_lengths(corpus, tmp_path, objective):
    lengths, folders = {}, {}
    for name, length in [("short", 12), ("long", 30)]:
        folders[name] = _create(corpus, tmp_path / name, max_seq_length=length, short_seq_prob=0.0)
        batches = stored_batches(PretrainingData(folders[name]), 64).as_numpy_iterator()
        lengths[name] = np.concatenate([batch["input_mask"].sum(axis=1) for batch in batches])
    assert lengths["long"].max() == 30
    held_out = ",".join(f"{name}={folder}" for name, folder in folders.items())
    metrics = pretrain(
        tiny_config(),
        run_options(
            folders["short"],
            tmp_path / "run",
            eval_data_dir=held_out,
            train_steps=2,
            warmup_steps=1,
        ),
        create_strategy("cpu"),
        objective(),
    )
    for name, of_rows in lengths.items():
        # 15 % of a row; or every next piece, but [CLS] is none and two [SEP] are not asked for.
        rounded = np.maximum(1, np.round(0.15 * of_rows))
        expected = rounded if objective is _Masked else of_rows - 3
        assert metrics[f"predictions/{name}"] == expected.sum(), name
