"""Copies of texts with words replaced by a masked language model."""

import csv

import keras
import numpy as np
import pytest

from keras_bert import BertConfig, BertMaskedLM, BertTokenizer, augment_file
from keras_bert.tasks.fill_mask.augmentation import TextAugmenter
from keras_bert.tasks.fill_mask.augmentation_options import AugmentationOptions
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.conftest import WORDS, write_csv
from tests.docs.documents import call

OPTIONS = AugmentationOptions(copies=6, candidates=3)
TEXTS = ("The film was great!", "12 , 34", "a book and unwatchable film")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *WORDS, *"un ##watch ##able ! , 12 34".split()])
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        initializer_range=0.5,
    )
    keras.utils.set_random_seed(3)
    folder = tmp_path_factory.mktemp("model")
    BertMaskedLM(config).save_to_preset(folder, BertTokenizer(vocabulary))
    return folder


def guesses(folder, pieces, place, word, count):
    """The likeliest whole words where one piece is masked, asked of the model itself."""
    model, vocabulary = BertMaskedLM.from_preset(folder), BertTokenizer.from_preset(folder)
    tokens = list(vocabulary.vocabulary.tokens)
    ids = np.array([[tokens.index(piece) for piece in ("[CLS]", *pieces, "[SEP]")]], np.int32)
    logits = model(
        {
            "input_ids": ids,
            "input_mask": np.ones_like(ids),
            "segment_ids": np.zeros_like(ids),
            "masked_lm_positions": np.array([[place + 1]], np.int32),
        }
    )
    order = np.argsort(-logits.numpy()[0, 0])
    words = [tokens[index] for index in order if tokens[index] in (*WORDS, "un")]
    return [found for found in words if found != word][:count]


def test_words_become_what_the_model_puts_there(folder):
    augment = TextAugmenter.from_preset(folder, AugmentationOptions(copies=200, candidates=3))
    copies = list(augment(TEXTS))
    assert copies[1] == []  # nothing in it is a word
    # A word of three pieces is hidden by one mask, and replaced whole.
    seen = {copy.split()[3] for copy in copies[2]}
    pieces = ["a", "book", "and", "[MASK]", "film"]
    assert seen == {"unwatchable", *guesses(folder, pieces, 3, "unwatchable", 3)}
    seen = {copy.split()[1] for copy in copies[0]}
    assert seen == {"film", *guesses(folder, ["the", "[MASK]", "was", "great", "!"], 1, "film", 3)}
    assert all(copy.endswith("!") and copy != TEXTS[0] for copy in copies[0])
    assert len(set(copies[0])) == len(copies[0])


def test_words_of_a_row_are_hidden_together(folder):
    options = AugmentationOptions(copies=200, candidates=3, masking_rate=0.5)
    augment = TextAugmenter.from_preset(folder, options)
    # Every second word of 20 is hidden; 14 have room in a row, which asks for those of 7 words. Its
    # middle is that of what it asks for, as far as the text goes: (words, the first of the row).
    asked = [((0, 2, 4, 6), 0), ((8, 10, 12), 3), ((14, 16, 18), 6)]
    asked += [((1, 3, 5, 7), 0), ((9, 11, 13), 4), ((15, 17, 19), 6)]
    words = [WORDS[index * index % len(WORDS)] for index in range(20)]
    (long, short) = augment([" ".join(words), TEXTS[0]])
    for indices, begin in asked:
        for index in indices:
            row = [w if (at - index) % 2 else "[MASK]" for at, w in enumerate(words)]
            best = guesses(folder, row[begin : begin + 14], index - begin, words[index], 3)
            assert {copy.split()[index] for copy in long} == {words[index], *best}
    row = ["the", "[MASK]", "was", "[MASK]", "!"]
    assert {copy.split()[1] for copy in short} == {"film", *guesses(folder, row, 1, "film", 3)}
    # A word of three pieces takes one place beside other masks, too.
    [copies] = augment([TEXTS[2]])
    row = ["a", "[MASK]", "and", "[MASK]", "film"]
    best = guesses(folder, row, 3, "unwatchable", 3)
    assert {copy.split()[3] for copy in copies} == {"unwatchable", *best}
    # The text alone decides, not the one before it.
    alone = augment([TEXTS[0]])
    assert {copy.split()[1] for copy in next(alone)} == {copy.split()[1] for copy in short}


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_so_many_words_become_others(folder, rate):
    words = [WORDS[index * index % len(WORDS)] for index in range(40)]
    words[0] = words[0].title()  # also the same word in small letters is none of its candidates
    # All words of the vocabulary are candidates, and one is drawn for each of 40 x 50 words.
    options = AugmentationOptions(copies=50, candidates=30, replacement_rate=rate)
    [copies] = TextAugmenter.from_preset(folder, options)([" ".join(words)])
    assert len(copies) == 50
    changed = [
        new.lower() != old.lower()
        for copy in copies
        for new, old in zip(copy.split(), words, strict=True)
    ]
    deviation = (rate * (1 - rate) / 2000) ** 0.5
    assert np.mean(changed) == pytest.approx(rate, rel=0, abs=5 * deviation)


def test_another_seed_makes_other_copies(folder):
    model, tokenizer = BertMaskedLM.from_preset(folder), BertTokenizer.from_preset(folder)
    first, again, other = (
        list(TextAugmenter(model, tokenizer, AugmentationOptions(seed=seed))(TEXTS))
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first[0] != other[0] and first[2] != other[2]


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_both_texts_of_a_pair_change_and_each_in_its_own_way(folder, tmp_path):
    text = " ".join(WORDS)
    write_csv(tmp_path / "train.csv", ["text", "text_pair", "label"], [(text, text, "n")] * 3)
    augment_file(folder, tmp_path / "train.csv", tmp_path / "unlabeled.csv", OPTIONS)
    rows = rows_of(tmp_path / "unlabeled.csv")
    assert len(rows) == 3 * OPTIONS.copies
    assert all(len({text, row["text"], row["text_pair"]}) == 3 for row in rows)


def test_the_flags_of_the_tool_arrive(folder, tmp_path):
    table = tmp_path / "train.csv"
    header = ["text", "second", "third", "gold"]
    write_csv(table, header, [(text, text, text, "n") for text in TEXTS])
    flags = [f"--model={folder}", f"--data={table}", "--text_columns=second,third"]
    flags += ["--label_column=gold", "--copies=4", "--replacement_rate=0.9", "--seed=5"]
    call("augment_data", *flags, f"--output={tmp_path / 'all.csv'}", "--keep_labels")
    call("augment_data", *flags, f"--output={tmp_path / 'texts.csv'}")
    options = AugmentationOptions(copies=4, replacement_rate=0.9, seed=5)
    columns = ("second", "third")
    augment_file(folder, table, tmp_path / "here.csv", options, columns, keep_labels=True)
    rows = rows_of(tmp_path / "all.csv")
    assert rows == rows_of(tmp_path / "here.csv")
    assert list(rows[0]) == header and {row["gold"] for row in rows} == {"n"}
    assert {row["text"] for row in rows} == {TEXTS[0], TEXTS[2]}  # the first column stays
    assert rows_of(tmp_path / "texts.csv") == [
        {name: row[name] for name in header if name != "gold"} for row in rows
    ]


def test_a_table_is_written_whole_and_the_same_each_time(folder, tmp_path):
    write_csv(
        tmp_path / "train.csv", ["id", "text", "label"], zip("123", TEXTS, "nnp", strict=True)
    )
    count = augment_file(folder, tmp_path / "train.csv", tmp_path / "unlabeled.csv", OPTIONS)
    rows = rows_of(tmp_path / "unlabeled.csv")
    assert len(rows) == count and rows[0].keys() == {"id", "text"}
    assert {row["id"] for row in rows} == {"1", "3"}
    augment_file(folder, tmp_path / "train.csv", tmp_path / "again.csv", OPTIONS, keep_labels=True)
    again = rows_of(tmp_path / "again.csv")
    assert [row["text"] for row in again] == [row["text"] for row in rows]
    assert {(row["id"], row["label"]) for row in again} == {("1", "n"), ("3", "p")}


def test_a_job_that_dies_leaves_nothing(folder, tmp_path, monkeypatch):
    write_csv(tmp_path / "train.csv", ["text", "label"], zip(TEXTS, "nnp", strict=True))
    monkeypatch.setattr(TextAugmenter, "_copies", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        augment_file(folder, tmp_path / "train.csv", tmp_path / "unlabeled.csv", OPTIONS)
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]


def test_what_cannot_be_done_is_refused(folder, pretrained_folder, tmp_path):
    with pytest.raises(ValueError, match="read letter by letter"):
        TextAugmenter.from_preset(folder)("the film")
    table = tmp_path / "train.csv"
    write_csv(table, ["text", "label"], zip(TEXTS, "nnp", strict=True))
    with pytest.raises(ValueError, match="predicts no masked words"):
        augment_file(pretrained_folder, table, tmp_path / "out.csv")
    with pytest.raises(ValueError, match="the same file as .*train.csv: choose another"):
        augment_file(folder, table, table)
    with pytest.raises(ValueError, match="no column 'gold' .*: name the right one with --label_co"):
        augment_file(folder, table, tmp_path / "out.csv", label_column="gold")
    with pytest.raises(ValueError, match="'text' is among the texts to change and is that of the"):
        augment_file(folder, table, tmp_path / "out.csv", label_column="text")
    with pytest.raises(ValueError, match="text_columns is the string 'text', .*: give a list of"):
        augment_file(folder, table, tmp_path / "out.csv", text_columns="text")
    with pytest.raises(ValueError, match=r"end in \.csv"):
        augment_file(folder, table, tmp_path / "out.json")
    with pytest.raises(ValueError, match="copies is 0"):
        AugmentationOptions(copies=0)
    with pytest.raises(ValueError, match=r"masking_rate is 0\.9: it must be from 0"):
        AugmentationOptions(masking_rate=0.9)
