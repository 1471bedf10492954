"""grow_vocabulary as a command: words taken from texts, words of a list, and what is refused."""

import numpy as np
import pytest

from keras_bert import BertEncoder, BertTokenizer, grow_vocabulary, load_tokenizer
from tests.tolerances import FORMULA
from tests.tools.test_faults import run_tools

pytestmark = pytest.mark.slow
GROW = ["grow_vocabulary.py", "--model=model"]
# With "good", "bad", "book" and "##book" in the vocabulary: 12, 12 and 9 words of two pieces.
TEXT = "a goodbook and a badbook\n" * 12 + "a bookbook\n" * 9


@pytest.fixture(scope="module")
def folder(pretrained_folder, tmp_path_factory):
    """A folder in which all commands were run, and what they printed by name."""
    folder = tmp_path_factory.mktemp("grow")
    (folder / "texts.txt").write_text(TEXT, encoding="utf-8")
    tokenizer = load_tokenizer(pretrained_folder)
    model = BertEncoder.from_preset(pretrained_folder)
    apart = tokenizer.vocabulary.add_tokens(["##book"])
    book = {apart.id_of("##book"): (apart.id_of("book"),)}
    model = grow_vocabulary(model, book, len(apart))
    model.save_to_preset(folder / "model", BertTokenizer(apart, **tokenizer.settings))
    (folder / "words.txt").write_text("GoodBook\n\nbook\n", encoding="utf-8")
    (folder / "known.txt").write_text("good\nBook\n", encoding="utf-8")
    (folder / "pair.txt").write_text("good book\n", encoding="utf-8")
    (folder / "taken").mkdir()
    commands = {
        "texts": [*GROW, "--input=texts.txt", "--min_pieces=2", "--output=from_texts"],
        "list": [*GROW, "--words=words.txt", "--output=from_list"],
        "again": [
            *("grow_vocabulary.py", "--model=from_list", "--input=texts.txt", "--min_pieces=2"),
            *("--min_frequency=1", "--new_words=1", "--output=again"),
        ],
        "none": [*GROW, "--input=texts.txt", "--output=none"],
        "known": [*GROW, "--words=known.txt", "--output=none"],
        "pair": [*GROW, "--words=pair.txt", "--output=none"],
        "both": [*GROW, "--words=words.txt", "--input=texts.txt", "--output=none"],
        "neither": [*GROW, "--output=none"],
        "count": [*GROW, "--words=words.txt", "--new_words=5", "--output=none"],
        "taken": [*GROW, "--words=words.txt", "--output=taken"],
        "no file": [*GROW, "--words=no.txt", "--output=none"],
    }
    runs = run_tools([{"command": command} for command in commands.values()], folder)
    return folder, dict(zip(commands, runs, strict=True))


def test_words_of_texts_become_pieces_that_start_at_the_mean(folder):
    path, ran = folder
    assert ran["texts"]["status"] == 0, ran["texts"]["printed"]
    tokenizer, before = load_tokenizer(path / "from_texts"), load_tokenizer(path / "model")
    # bookbook occurs 9 times, and --min_frequency is 10; equally frequent ones by the alphabet.
    new = tokenizer.vocabulary.tokens[len(before.vocabulary) :]
    assert new == ("badbook", "goodbook")
    old, grown = (
        BertEncoder.from_preset(path / name).word_embeddings.weights[0].numpy()
        for name in ("model", "from_texts")
    )
    np.testing.assert_array_equal(grown[: len(old)], old)
    mean = (old[before.vocabulary.id_of("bad")] + old[before.vocabulary.id_of("##book")]) / 2
    np.testing.assert_allclose(grown[len(old)], mean, **FORMULA)
    printed = ran["texts"]["printed"]
    assert "2 new words, 0 of them in [unused] slots: badbook, goodbook\n" in printed
    # 12 x 5 + 9 x 2 = 78 words; 33 of them have two pieces before, and 9 after.
    assert "before: 1.423 pieces per word" in printed
    assert "after:  1.115 pieces per word" in printed


def test_a_list_is_normalized_and_a_grown_folder_grows_again(folder):
    path, ran = folder
    assert ran["list"]["status"] == 0, ran["list"]["printed"]
    assert load_tokenizer(path / "from_list").vocabulary.tokens[-1] == "goodbook"
    assert "1 new words, 0 of them in [unused] slots: goodbook\n" in ran["list"]["printed"]
    assert ran["again"]["status"] == 0, ran["again"]["printed"]
    assert load_tokenizer(path / "again").vocabulary.tokens[-2:] == ("goodbook", "badbook")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "no word of texts.txt occurs 10 times and is cut into 3 pieces"),
        ("known", "all 2 words of known.txt are in the vocabulary already"),
        ("pair", "pair.txt, line 1: 'good book' is 2 words to the tokenizer"),
        ("both", "give either --input, texts to take words from, or --words, a list"),
        ("neither", "give either --input, texts to take words from, or --words, a list"),
        ("count", "--new_words is for words that are taken from --input: leave it out"),
        ("taken", "taken exists: give a new folder to --output"),
        ("no file", "no.txt"),
    ],
)
def test_what_cannot_grow_is_told_and_nothing_is_written(folder, name, message):
    path, ran = folder
    assert ran[name]["status"] == 1
    assert message in ran[name]["printed"]
    assert not (path / "none").exists()
    assert not list((path / "taken").iterdir())
