"""Records of several languages: rates, order, masks, resuming, several pipelines."""

import itertools

import numpy as np
import pytest

from keras_bert.data.creation.create import create_pretraining_data
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.records import group_sampling, pipeline
from keras_bert.data.records.pipeline import evaluation_batches, training_batches
from keras_bert.data.records.record_groups import RecordGroups
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.text.languages.smoothing import named_paths, smoothed_rates
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.markers import some_fast

# Each language has a word of its own, told from the others by its id: 5, 6, 7.
SIZES = {"de": 300, "en": 1000, "fi": 30}
BATCH = 20


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    folder = tmp_path_factory.mktemp("languages")
    letters = [chr(ord("a") + i) for i in range(20)]
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *SIZES, *letters])
    BertTokenizer(vocabulary).save(folder)
    random = np.random.default_rng(0)
    found = {}
    for name, size in SIZES.items():
        # One sentence of 6 pieces a document: one example each.
        texts = (f"{name} {' '.join(random.choice(letters, 5))}" for _ in range(size))
        (folder / f"{name}.txt").write_text("\n\n".join(texts))
        options = CreationOptions(
            inputs=(str(folder / f"{name}.txt"),),
            vocab=str(folder / "vocab.txt"),
            output_dir=str(folder / name),
            max_seq_length=8,
            dupe_factor=1,
            short_seq_prob=0.0,
            sentence_task="none",
            num_shards=2,
        )
        create_pretraining_data(options)
        found[name] = PretrainingData(folder / name)
    assert {name: group.num_examples for name, group in found.items()} == SIZES
    return found


@pytest.fixture(scope="module")
def masking(groups):
    vocabulary = Vocabulary.from_file(groups["en"].folder / "vocab.txt")
    return MaskedLanguageModelMasking(vocabulary, 2)


def take(dataset, count):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def rows_of(batches):
    """The sequences before masking, as tuples."""
    rows = []
    for batch in batches:
        ids = batch["input_ids"].copy()
        row, slot = np.nonzero(batch["masked_lm_weights"])
        ids[row, batch["masked_lm_positions"][row, slot]] = batch["masked_lm_ids"][row, slot]
        rows += map(tuple, ids.tolist())
    return rows


def languages_of(batches):
    return [list(SIZES)[row[1] - 5] for row in rows_of(batches)]


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_rates_are_the_formula_worked_out_by_hand():
    assert smoothed_rates({"a": 16, "b": 1}, 0.5) == {"a": 0.8, "b": 0.2}  # 4 : 1
    assert smoothed_rates({"a": 27, "b": 8}, 1 / 3) == pytest.approx({"a": 0.6, "b": 0.4})  # 3 : 2
    assert smoothed_rates({"a": 3, "b": 1}, 1.0) == {"a": 0.75, "b": 0.25}
    assert smoothed_rates({"a": 99, "b": 1}, 0.0) == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize("alpha", some_fast([1.0, 0.7, 0.3], (0.3,)))
def test_examples_are_drawn_at_the_smoothed_rates(groups, masking, alpha, monkeypatch):
    monkeypatch.setattr(group_sampling, "_BLOCK_BITS", 10)
    monkeypatch.setattr(group_sampling, "_EXAMPLES_PER_BLOCK", 1 << 10)
    data = RecordGroups(groups, alpha)
    powers = {name: size**alpha for name, size in SIZES.items()}
    expected = {name: power / sum(powers.values()) for name, power in powers.items()}
    # Two blocks: each rate holds to an example, the largest to three.
    drawn = languages_of(take(training_batches(data, masking, 128, seed=3), 16))
    for name, rate in expected.items():
        assert abs(drawn.count(name) - 2048 * rate) < (3 if name == "en" else 1)
    # In random order, so that a part of a block has them too.
    half = drawn[:512]
    assert abs(half.count("de") - 512 * expected["de"]) < 40


def test_every_example_of_a_language_comes_once_in_its_own_epochs(groups, masking):
    data = RecordGroups(groups, 0.3)
    # 4,400 rows, of which 2,150 are of the largest.
    rows = rows_of(take(training_batches(data, masking, BATCH, seed=3), 220))
    for name, size in SIZES.items():
        found = [row for row in rows if row[1] == 5 + list(SIZES).index(name)]
        stored = rows_of(take(evaluation_batches(groups[name], masking, size, 0), 1))
        for epoch in range(len(found) // size):
            assert sorted(found[epoch * size : (epoch + 1) * size]) == sorted(stored)
        assert len(found) >= 2 * size
        assert found[:size] != found[size : 2 * size]
    assert sum(row[1] == 7 for row in rows) > 2 * SIZES["fi"]


def test_resuming_is_skipping(groups, masking, monkeypatch):
    # Blocks of 168, 72 and 64 examples: "en" and "de" are in later ones.
    of_record = groups["en"].num_bytes / SIZES["en"]  # and of any other
    monkeypatch.setattr(pipeline, "_BYTES_PER_BLOCK", 256 * of_record)
    monkeypatch.setattr(pipeline, "_FEWEST_RECORDS_PER_BLOCK", 64)
    monkeypatch.setattr(group_sampling, "_BLOCK_BITS", 10)
    monkeypatch.setattr(group_sampling, "_EXAMPLES_PER_BLOCK", 1 << 10)
    data = RecordGroups(groups, 0.7)
    stream = take(training_batches(data, masking, BATCH, seed=3), 60)  # a block has 51.2
    for first in (1, 50, 52):
        resumed = training_batches(data, masking, BATCH, seed=3, first_batch=first)
        assert_equal(take(resumed, 4), stream[first : first + 4])


@pytest.mark.slow
def test_replicas_and_pipelines_share_the_same_global_batches(groups, masking):
    data = RecordGroups(groups, 0.7)
    stream = take(training_batches(data, masking, 20, seed=3), 8)
    pipelines = [
        take(training_batches(data, masking, 5, 3, 3, number, 2, 2), 8) for number in range(2)
    ]
    for step in range(4):
        parts = [part for found in pipelines for part in found[2 * step : 2 * step + 2]]
        whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        assert_equal([whole], [stream[3 + step]])


@pytest.mark.slow
def test_order_follows_from_the_seed_and_not_from_the_order_of_names(groups, masking):
    turned = dict(reversed(groups.items()))
    one, same, other = (
        take(training_batches(RecordGroups(given, 0.5), masking, BATCH, seed), 3)
        for given, seed in ((groups, 3), (turned, 3), (groups, 4))
    )
    assert_equal(same, one)
    assert languages_of(other) != languages_of(one)


def test_many_groups_with_tiny_rates_keep_their_quotas():
    rates = [0.9, *[0.1 / 255] * 255]
    sampling = group_sampling.GroupSampling(rates, seed=1)
    position = 3 * 65_536
    counts = sampling.counts_before(position)
    # floor(196,608 * 0.1 / 255) = 77 of each small one, the rest of the large one.
    assert counts == [position - 255 * 77, *[77] * 255]
    drawn = list(itertools.islice(sampling.groups(position - 10).as_numpy_iterator(), 10))
    before = sampling.counts_before(position - 10)
    assert (np.bincount(drawn, minlength=256) + before).tolist() == counts


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_an_alpha_out_of_range_is_refused(groups, alpha):
    with pytest.raises(ValueError, match=rf"language_alpha is {alpha}: it must be from 0"):
        RecordGroups(groups, alpha)


def test_groups_that_do_not_go_together_are_refused(groups, records):
    with pytest.raises(ValueError, match="de have sentence_task 'none' and those of xx 'nsp'"):
        RecordGroups(groups | {"xx": PretrainingData(records)})
    with pytest.raises(ValueError, match="at most 256"):
        RecordGroups({f"l{i}": groups["fi"] for i in range(257)})
    other = Vocabulary([*SPECIAL_TOKENS, "a"])
    with pytest.raises(ValueError, match="were made with another vocabulary"):
        RecordGroups(groups).check_vocabulary(other)


def test_names_of_paths():
    assert named_paths(["runs/a", "b"], "data_dir") == {}
    assert named_paths(["./a=b/c"], "data_dir") == {}
    found = named_paths(["en=x/*.txt", "de=y", "en=z=1"], "input")
    assert found == {"de": ["y"], "en": ["x/*.txt", "z=1"]}
    assert list(found) == ["de", "en"]
    with pytest.raises(ValueError, match="--input names some languages, but 'z' has no name"):
        named_paths(["en=x", "z"], "input")
