import random
from collections import Counter
from itertools import accumulate, chain, pairwise

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.records.examples import PlannedExample
from keras_bert.data.records.manifest import Manifest
from keras_bert.data.records.packing import choose_packs
from keras_bert.data.records.pipeline import (
    evaluation_batches,
    stored_batches,
    training_batches,
)
from keras_bert.data.records.record_set import PretrainingData
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
    alone = [
        ids[1 : mask.sum() - 1].tolist()
        for ids, mask in zip(rows["input_ids"], rows["input_mask"], strict=True)
    ]
    parts = [ids[1:-1] for ids, _ in documents_of(read(packed))]
    # Some examples are taken apart: each part is a run of one of them, and every piece is there.
    text = "|".join(as_text(ids) for ids in alone)
    assert all(as_text(ids) in text for ids in parts)
    assert Counter(chain(*parts)) == Counter(chain(*alone))
    whole = sum((Counter(map(tuple, parts)) & Counter(map(tuple, alone))).values())
    assert whole > 0.9 * len(alone)
    manifest = Manifest.read(packed)
    assert manifest.packed and manifest.sentence_task == "none"
    assert manifest.fill_rate >= 0.985 > 0.6 > Manifest.read(single).fill_rate
    assert manifest.tokens == manifest.corpus_tokens + 2 * len(parts)


def as_text(ids):
    return f" {' '.join(map(str, ids))} "


def test_documents_of_many_sequences_leave_almost_no_padding_either(make_records):
    """The chapters of the novels: an example ends where the next sentence would be too long."""
    manifest = Manifest.read(make_records(sentence_task="none", pack=True, max_seq_length=512))
    assert manifest.fill_rate >= 0.985


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
@given(
    st.lists(
        st.lists(st.integers(1, 20), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) <= 30),
        min_size=1,
        max_size=60,
    ),
    st.integers(0, 5),
)
def test_no_piece_is_lost_or_doubled_and_no_sentence_is_cut(examples, seed):
    """Examples follow each other without a gap, as those of two neighbouring documents do."""
    starts = [0, *accumulate(size for sizes in examples for size in sizes)]
    bounds = [0, *accumulate(map(sum, examples))]
    plans = [PlannedExample(a, b, b, b, 0) for a, b in pairwise(bounds)]
    packs = choose_packs(plans, starts, 32, random.Random(seed))
    parts = sorted(plan for pack in packs for plan in pack)
    ends = [0, *(part.a_end for part in parts)]
    assert ends[:-1] == [part.a_start for part in parts] and ends[-1] == bounds[-1]
    # Parts lie inside one example and end where its sentences do.
    assert set(bounds) <= set(ends) <= set(starts)
    used = [sum(plan.a_end - plan.a_start + 2 for plan in pack) for pack in packs]
    assert max(used) <= 32
    # Best fit never opens a sequence while another has room: at most one is less than half full.
    assert sum(size <= 16 for size in used) <= 1


def test_sentences_of_one_sequence_fill_the_others():
    """By hand: of 20, sequences of 12 and 14 have room for 8 and 6; [CLS] and [SEP] take 2."""
    bounds = [0, 10, 22, 31]
    plans = [PlannedExample(a, b, b, b, 0) for a, b in pairwise(bounds)]

    def packed(starts):
        packs = choose_packs(plans, starts, 20, random.Random(0))
        return sorted(sorted((plan.a_start, plan.a_end) for plan in pack) for pack in packs)

    # What follows an example in the text is not joined to it: it may be another document's.
    assert packed([0, 10, 22, 26, 31]) == [[(0, 10), (26, 31)], [(10, 22), (22, 26)]]
    # A sentence that fits nowhere: what saves no sequence is not done.
    assert packed([0, 10, 22, 24, 31]) == [[(0, 10)], [(10, 22)], [(22, 31)]]


def test_packing_needs_examples_without_a_label():
    with pytest.raises(ValueError, match="sentence_task is 'nsp', whose label .* leave out --pack"):
        CreationOptions(inputs=("a",), vocab="b", output_dir="c", pack=True)
