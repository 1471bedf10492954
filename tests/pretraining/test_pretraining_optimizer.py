"""A pretraining run takes the optimizer and the schedule that its options name."""

import json

import numpy as np
import pytest

from keras_bert import BertConfig, BertPretrainer
from keras_bert.data.creation.create import CreationOptions, create_pretraining_data
from keras_bert.pretraining.pretrain import PretrainingOptions, pretrain
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.training.strategy import create_strategy
from tests.tolerances import FORMULA

WORDS = "the cat sat on mat".split()
CONFIG = BertConfig(
    vocab_size=len(SPECIAL_TOKENS) + len(WORDS),
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records and a model to start from."""
    folder = tmp_path_factory.mktemp("optimizer")
    document = "the cat sat on the mat\n" * 8
    (folder / "text.txt").write_text("\n".join([document] * 8))
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS]))
    tokenizer.save(folder)
    BertPretrainer(CONFIG, seed=1).save_to_preset(folder / "start", tokenizer)
    create_pretraining_data(
        CreationOptions(
            inputs=(str(folder / "text.txt"),),
            vocab=str(folder / "vocab.txt"),
            output_dir=str(folder / "records"),
            max_seq_length=16,
            num_shards=1,
        )
    )
    return folder


def _pretrain(folder, model_dir, **changes):
    options = PretrainingOptions(
        data_dir=str(folder / "records"),
        model_dir=str(model_dir),
        init_from=str(folder / "start"),
        batch_size=4,
        mixed_precision="float32",
        **changes,
    )
    pretrain(CONFIG, options, create_strategy("cpu"))


def _matrices(preset):
    model = BertPretrainer.from_preset(preset)
    return {v.path: v.numpy() for v in model.trainable_variables if v.path.endswith("kernel")}


def test_a_step_of_lamb_moves_every_matrix_by_the_rate_times_its_norm(folder, tmp_path):
    # That is what the trust ratio is for, whatever the gradient and the decay are.
    _pretrain(folder, tmp_path, optimizer="lamb", learning_rate=0.02, train_steps=1, warmup_steps=0)
    start, end = _matrices(folder / "start"), _matrices(tmp_path / "preset")
    assert len(start) > 6
    for path, value in start.items():
        # Query, key and value lie side by side.
        parts = 3 if "query_key_value" in path else 1
        pairs = zip(np.split(value, parts, axis=1), np.split(end[path], parts, axis=1), strict=True)
        for before, after in pairs:
            moved = np.linalg.norm(after - before) / np.linalg.norm(before)
            assert moved == pytest.approx(0.02, rel=1e-3), path


def test_the_rates_are_those_of_the_schedule(folder, tmp_path):
    _pretrain(
        folder,
        tmp_path,
        schedule="constant",
        learning_rate=0.01,
        train_steps=4,
        warmup_steps=2,
        steps_per_loop=1,
    )
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    rates = [line["learning_rate"] for line in lines if line["split"] == "train"]
    np.testing.assert_allclose(np.array(rates) / 0.01, [0.0, 0.5, 1.0, 1.0], **FORMULA)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"optimizer": "adam"}, "optimizer is 'adam': choose one of adamw, lamb"),
        ({"schedule": "step"}, "schedule is 'step': choose one of linear"),
        (
            {"schedule": "cosine", "time_budget": 5.0},
            "schedule is 'cosine' but a time_budget has the linear one only",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_training(folder, tmp_path, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        _pretrain(folder, tmp_path / "run", train_steps=4, warmup_steps=2, **changes)
    assert not (tmp_path / "run").exists()
