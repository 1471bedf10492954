import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.data.creation_options import CreationOptions
from keras_bert.data.example_packing import choose_packs
from keras_bert.data.manifest import Manifest
from keras_bert.data.pretraining_data import PretrainingData
from keras_bert.data.pretraining_examples import PlannedExample
from keras_bert.data.pretraining_pipeline import (
    evaluation_batches,
    stored_batches,
    training_batches,
)
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def short_documents(novels, tmp_path_factory):
    """The novels with a document for each one to nine paragraphs, as web pages or answers are."""
    draw = random.Random(0)
    paragraphs = novels.read_text(encoding="utf-8").split("\n")
    lines = []
    while paragraphs:
        count = draw.randint(1, 9)
        lines += [*paragraphs[:count], ""]
        paragraphs = paragraphs[count:]
    path = tmp_path_factory.mktemp("short") / "short.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def packed(make_records, short_documents):
    return make_records(
        inputs=(str(short_documents),), sentence_task="none", pack=True, max_seq_length=512
    )


def read(folder):
    batches = list(stored_batches(PretrainingData(folder), 500).as_numpy_iterator())
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def documents_of(rows):
    """Yields the pieces and positions of each document of each sequence."""
    for ids, packs, positions in zip(
        rows["input_ids"], rows["pack_ids"], rows["position_ids"], strict=True
    ):
        for number in range(1, packs.max() + 1):
            yield ids[packs == number].tolist(), positions[packs == number].tolist()


def test_documents_lie_one_behind_the_other_each_with_positions_from_0(packed, vocab):
    rows, vocabulary = read(packed), Vocabulary.from_file(vocab)
    np.testing.assert_array_equal(rows["pack_ids"] > 0, rows["input_mask"] > 0)
    steps = np.diff(rows["pack_ids"], axis=1)[rows["input_mask"][:, 1:] > 0]
    assert set(steps.tolist()) == {0, 1}
    for ids, positions in documents_of(rows):
        assert positions == list(range(len(ids)))
        assert ids[0] == vocabulary.cls_id and ids[-1] == vocabulary.sep_id
        assert vocabulary.cls_id not in ids[1:] and vocabulary.sep_id not in ids[:-1]
    assert not rows["segment_ids"].any()
    assert not rows["next_sentence_labels"].any()


def test_packing_loses_nothing_and_leaves_almost_no_padding(packed, make_records, short_documents):
    single = make_records(
        inputs=(str(short_documents),), sentence_task="none", max_seq_length=512, num_shards=1
    )
    rows = read(single)
    alone = sorted(
        ids[: mask.sum()].tolist()
        for ids, mask in zip(rows["input_ids"], rows["input_mask"], strict=True)
    )
    assert sorted(ids for ids, _ in documents_of(read(packed))) == alone
    manifest = Manifest.read(packed)
    assert manifest.packed and manifest.sentence_task == "none"
    assert manifest.fill_rate >= 0.97 > 0.6 > Manifest.read(single).fill_rate
    assert manifest.tokens == sum(map(len, alone))


def test_batches_hold_what_a_packed_model_takes(packed, vocab):
    data = PretrainingData(packed)
    masking = MaskedLanguageModelMasking(Vocabulary.from_file(vocab), 77)
    for batches in (training_batches(data, masking, 4, 0), evaluation_batches(data, masking, 4, 0)):
        spec = batches.element_spec
        for name in ("pack_ids", "position_ids"):
            assert (spec[name].shape.as_list(), spec[name].dtype) == ([4, 512], tf.int32)
        batch = next(iter(batches))
        ends = tf.reduce_max(batch["pack_ids"], axis=1)
        assert (ends.numpy() > 1).any()
        # Every document of a sequence takes part in the masking.
        hidden = tf.gather(batch["pack_ids"], batch["masked_lm_positions"], batch_dims=1)
        assert len(np.unique(hidden.numpy()[batch["masked_lm_weights"].numpy() > 0])) > 1


def test_the_bytes_follow_from_the_seed(packed, make_records, short_documents):
    again = make_records(
        inputs=(str(short_documents),), sentence_task="none", pack=True, max_seq_length=512
    )
    for path in packed.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(0, 5))
def test_each_example_is_packed_once_and_none_overflows(sizes, seed):
    plans = [PlannedExample(n * 100, n * 100 + size, 0, 0, 0) for n, size in enumerate(sizes)]
    packs = choose_packs(plans, 32, random.Random(seed))
    assert sorted(plan for pack in packs for plan in pack) == plans
    used = [sum(plan.a_end - plan.a_start + 2 for plan in pack) for pack in packs]
    assert max(used) <= 32
    # Best fit never opens a sequence while another has room: at most one is less than half full.
    assert sum(size <= 16 for size in used) <= 1


def test_packing_needs_examples_without_a_label():
    with pytest.raises(ValueError, match="sentence_task is 'nsp', whose label .* leave out --pack"):
        CreationOptions(inputs=("a",), vocab="b", output_dir="c", pack=True)
