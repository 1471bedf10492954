"""Whole words of a segmenter, from text through records to the masks of training."""

import itertools

import numpy as np
import pytest

from keras_bert import train_byte_level_bpe
from keras_bert.data.creation.create import create_pretraining_data
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.records.manifest import Manifest
from keras_bert.data.records.pipeline import stored_batches, training_batches
from keras_bert.data.records.record_groups import RecordGroups
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.text.languages import word_boundaries
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

# Words of two characters, each with a first and a second one of its own.
WORDS = ["喜欢", "北京", "大学", "天安"]
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *"".join(WORDS), "ab", "##cd", "。"])
FIRST = [VOCABULARY.id_of(word[0]) for word in WORDS]
SECOND = [VOCABULARY.id_of(word[1]) for word in WORDS]


def pairs_of(run):
    return [run[start : start + 2] for start in range(0, len(run), 2)]


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Makes records of a text of such words; returns their folder."""
    monkeypatch.setattr(word_boundaries, "load_segmenter", lambda name: pairs_of)
    BertTokenizer(VOCABULARY).save(tmp_path)
    draw = np.random.default_rng(0)
    # A blank line behind every tenth sentence.
    sentences = (
        "".join(draw.choice(WORDS, 5)) + " abcd。\n" + "\n" * (number % 10 == 9)
        for number in range(400)
    )
    (tmp_path / "text.txt").write_text("".join(sentences), encoding="utf-8")
    numbers = itertools.count()

    def records(**changes):
        options = {
            "inputs": (str(tmp_path / "text.txt"),),
            "vocab": str(tmp_path / "vocab.txt"),
            "max_seq_length": 40,
            "dupe_factor": 1,
            "word_segmenter": "jieba",
            "output_dir": str(tmp_path / f"records{next(numbers)}"),
        }
        create_pretraining_data(CreationOptions(**(options | changes)))
        return options["output_dir"]

    return records


def assert_words_are_whole(batch, ids):
    """Every word is hidden with both of its characters, or not at all, unless it was cut."""
    hidden = np.zeros(ids.shape, bool)
    row, slot = np.nonzero(batch["masked_lm_weights"])
    hidden[row, batch["masked_lm_positions"][row, slot]] = True
    first, second = np.isin(ids, FIRST), np.isin(ids, SECOND)
    pairs = first[:, :-1] & second[:, 1:]
    assert pairs.sum() > 100 and (hidden[:, :-1] & pairs).sum() > 20
    np.testing.assert_array_equal((hidden[:, :-1] & pairs), (hidden[:, 1:] & pairs))


def restored(batch):
    ids = batch["input_ids"].copy()
    row, slot = np.nonzero(batch["masked_lm_weights"])
    ids[row, batch["masked_lm_positions"][row, slot]] = batch["masked_lm_ids"][row, slot]
    return ids


CHANGES = [
    {},
    {"sentence_task": "none", "pack": True},
    {"sentence_task": "none", "cross_documents": True},
]


@pytest.mark.parametrize("changes", CHANGES, ids=["pairs", "packed", "cross documents"])
def test_records_say_which_pieces_go_on_with_a_word(make, changes):
    folder = make(**changes)
    plain = make(word_segmenter=None, **changes)
    assert Manifest.read(folder).word_segmenter == "jieba"
    assert Manifest.read(plain).word_segmenter is None
    batch, expected = (
        next(stored_batches(PretrainingData(made), 1000).as_numpy_iterator())
        for made in (folder, plain)
    )
    # The pieces and everything else are those of records without a segmenter.
    flags = batch.pop("word_continuations")
    assert batch.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(batch[name], values, err_msg=name)
    ids, mask = batch["input_ids"], batch["input_mask"]
    goes_on = np.isin(ids, [*SECOND, VOCABULARY.id_of("##cd")])
    np.testing.assert_array_equal(flags, np.where(mask == 1, goes_on, -1))


@pytest.mark.parametrize("strategy", ["whole_word", "ngram"])
def test_masks_that_are_drawn_in_training_hide_whole_words(make, strategy):
    data = PretrainingData(make())
    masking = MaskedLanguageModelMasking(VOCABULARY, 8, strategy=strategy)
    batch = next(training_batches(data, masking, 50, seed=1).as_numpy_iterator())
    assert "word_continuations" not in batch
    assert_words_are_whole(batch, restored(batch))


def test_stored_masks_hide_whole_words(make):
    folder = make(static_masking=True, masking="whole_word", max_predictions_per_seq=8)
    batch = next(stored_batches(PretrainingData(folder), 1000).as_numpy_iterator())
    assert_words_are_whole(batch, restored(batch))


def test_languages_with_and_without_a_segmenter_go_together(make):
    one = PretrainingData(make())
    other = PretrainingData(make(word_segmenter=None))
    data = RecordGroups({"other": other, "zh": one})
    masking = MaskedLanguageModelMasking(VOCABULARY, 8, strategy="whole_word")
    batch = next(training_batches(data, masking, 100, seed=1).as_numpy_iterator())
    ids, hidden = restored(batch), np.zeros((100, 40), bool)
    row, slot = np.nonzero(batch["masked_lm_weights"])
    hidden[row, batch["masked_lm_positions"][row, slot]] = True
    # Of the records without one, half of a word is hidden here and there; "##cd" goes on in both.
    latin = (ids == VOCABULARY.id_of("ab"))[:, :-1] & (ids == VOCABULARY.id_of("##cd"))[:, 1:]
    assert latin.any()
    np.testing.assert_array_equal(hidden[:, :-1][latin], hidden[:, 1:][latin])
    pairs = np.isin(ids, FIRST)[:, :-1] & np.isin(ids, SECOND)[:, 1:]
    torn = ((hidden[:, :-1] != hidden[:, 1:]) & pairs).any(axis=1)
    assert 20 < torn.sum() < 60  # nearly all rows of one of the two


def test_a_segmenter_without_effect_is_refused(make, tmp_path):
    with pytest.raises(ValueError, match="word_segmenter is 'jieba', but masking is 'token'"):
        make(static_masking=True)
    with pytest.raises(ValueError, match="word_segmenter is 'x': choose one of jieba, fugashi"):
        make(word_segmenter="x")
    train_byte_level_bpe(["abab"] * 3, 262).save(tmp_path / "bpe")
    with pytest.raises(ValueError, match="is no WordPiece vocabulary: leave it out"):
        make(vocab=str(tmp_path / "bpe"))
