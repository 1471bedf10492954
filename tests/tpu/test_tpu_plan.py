import dataclasses
import importlib.util
import re
from pathlib import Path

import pytest

from keras_bert import BertConfig, BertPretrainer
from keras_bert.tpu.options import PlanOptions
from keras_bert.tpu.plan import chip_of, estimate, largest_batch, num_chips
from keras_bert.training.flops import pretraining_flops
from tests import command_process


def test_operations_follow_from_the_weights():
    # Six operations per weight and token (Kaplan et al. 2020, section 2.1), each weight counted
    # where it is used, and attention's products of queries and keys and of probabilities and
    # values: an oracle that never looks at a layer. The last block has queries, keys and values
    # everywhere, and all else at the predicted positions and [CLS].
    config = BertConfig.from_name("bert_mini", vocab_size=2000)
    model = BertPretrainer(config)
    matrices = {v.path: v.shape for v in model.trainable_variables if v.path.endswith("kernel")}
    batch, length, predictions = 4, 64, 10
    uses = {"pooler": batch, "next_sentence": batch, "masked_lm": batch * predictions}
    last = ("layer_3/attention/output", "layer_3/intermediate", "layer_3/output")
    uses |= dict.fromkeys(last, batch * (1 + predictions))
    total = 6 * config.vocab_size * config.hidden_size * batch * predictions  # tied output
    for path, shape in matrices.items():
        count = next((n for name, n in uses.items() if name in path), batch * length)
        total += 6 * shape[0] * shape[1] * count
    queries = (config.num_hidden_layers - 1) * length + 1 + predictions
    attention = 2 * config.hidden_size * queries * length * batch
    assert pretraining_flops(config, batch, length, predictions) == total + 6 * attention


def test_operations_of_bert_base_by_hand():
    # 12 blocks x 7,077,888 weights x 128 tokens, 12 x 2 x 768 x 128 x 128 for attention,
    # 20 x 768 x (768 + 30522) for words, 768 x 770 for the pair; times 6. Without the 107 tokens
    # of the last block that nothing reads: 9 x 768 x 768 weights, 2 x 768 x 128 for attention.
    config = BertConfig.from_name("bert_base")
    assert config.vocab_size == 30522
    unread = 568_000_512 + 21_037_056
    by_hand = 6 * (10_871_635_968 + 301_989_888 + 480_614_400 + 591_360 - unread)
    assert pretraining_flops(config, 1, 128, 20) == by_hand
    # Twice the layers, twice their share.
    deeper = dataclasses.replace(config, num_hidden_layers=24)
    extra = pretraining_flops(deeper, 1, 128, 20) - by_hand
    assert extra == 6 * (10_871_635_968 + 301_989_888)


def test_time_and_cost_by_hand():
    # 98.5 TFLOP on a chip of 197 TFLOP/s at half its peak: one second a step; 86,400 steps are a
    # day, on four chips 96 chip hours.
    result = estimate(98.5e12, "v5e:2x2", 86_400, utilisation=0.5, price_per_hour=1.2)
    assert result.seconds_per_step == pytest.approx(1.0)
    assert result.days == pytest.approx(1.0)
    assert result.cost == pytest.approx(115.2)
    assert estimate(98.5e12, "v5e:2x2", 86_400, 0.5).cost is None


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ({"steps": 0}, "steps is 0: it must be at least 1"),
        ({"utilisation": 1.5}, "utilisation is 1.5: give a rate above 0, at most 1"),
        ({"price_per_hour": -1.0}, "price_per_hour is -1.0: it must be 0 or more"),
        ({"price_per_hour": float("nan")}, "price_per_hour is nan: it must be 0 or more"),
    ],
)
def test_an_estimate_of_nothing_is_refused(numbers, sentence):
    with pytest.raises(ValueError, match=sentence):
        estimate(**{"flops": 1e12, "topology": "v5e:2x2", "steps": 9, "utilisation": 0.5} | numbers)
    with pytest.raises(ValueError, match=sentence):
        PlanOptions(**numbers)


@pytest.mark.parametrize("topology", ["v5e", "v9:2x2", "2x2"])
def test_an_unknown_chip_is_refused(topology):
    with pytest.raises(ValueError, match="topology is .*v5e:2x2"):
        chip_of(topology)


def test_chips_of_a_slice():
    assert (num_chips("v5e:2x2"), num_chips("v4:4x4x8")) == (4, 128)
    with pytest.raises(ValueError, match="must look like 2x2"):
        num_chips("v5e:two")


@pytest.mark.parametrize("first", [1, 8, 32, 256, 4096])
@pytest.mark.parametrize(("fixed", "each"), [(100, 1), (100, 7), (0, 40), (990, 9)])
def test_the_largest_batch_is_found(first, fixed, each):
    tried = []

    def memory_of(batch):
        tried.append(batch)
        memory = fixed + each * batch
        return memory if memory <= 1000 else None

    best = largest_batch(memory_of, 1000, first)
    largest = (1000 - fixed) // each
    assert best <= largest < best + max(8 if best >= 8 else 1, best // 8) + 1
    assert len(tried) <= 16
    assert best < 8 or best % 8 == 0 or best == first


def test_no_batch_fits():
    assert largest_batch(lambda batch: None, 1000, 64) == 0


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        pytest.param(
            "--model=bert_tiny",
            r"error: libtpu is not installed, .* environment that `make tpu-plan-env` makes",
            marks=pytest.mark.skipif(
                importlib.util.find_spec("libtpu") is not None, reason="libtpu is installed"
            ),
        ),
        ("--accumulation_steps=0", "error: accumulation_steps is 0: it must be at least 1"),
    ],
)
def test_a_plan_that_cannot_be_made_ends_with_one_sentence(flag, sentence):
    done = command_process.run([Path(__file__).parents[2] / "tools" / "plan_tpu.py", flag])
    assert done.returncode == 1
    assert re.fullmatch(sentence + ".*", done.stderr.splitlines()[-1]), done.stderr
    assert "Traceback" not in done.stderr
