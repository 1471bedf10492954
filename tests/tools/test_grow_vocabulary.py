"""grow_vocabulary as a command: words taken from texts, words of a list, and what is refused."""

import json
import shutil

import keras
import numpy as np
import pytest

from keras_bert import (
    BertConfig,
    BertEncoder,
    BertSparseEmbedder,
    BertTokenizer,
    SparseEncoder,
    Vocabulary,
    load_tokenizer,
    train_byte_level_bpe,
)
from keras_bert.checkpoints import sentence_modules
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from tests.conftest import WORDS
from tests.signatures.tiny_models import write_model
from tests.tolerances import FORMULA, REORDERED
from tests.tools.test_faults import run_tools

pytestmark = pytest.mark.slow
MODULES = {"Transformer": "", "Pooling": "1_Pooling"}
GROW = ["grow_vocabulary.py", "--model=model"]
# With "good", "bad", "book" and "##book" in the vocabulary: 12, 12 and 9 words of two pieces.
TEXT = "a goodbook and a badbook\n" * 12 + "a bookbook\n" * 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which all commands were run, and what they printed by name."""
    folder = tmp_path_factory.mktemp("grow")
    # 23 pieces in a table of 24 rows, as models with padded embeddings have them.
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "[unused1]", *WORDS, "##book"])
    config = BertConfig(
        vocab_size=24,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
    )
    encoder = BertEncoder(config)
    encoder.save_to_preset(folder / "model", BertTokenizer(vocabulary))
    shutil.copytree(folder / "model", folder / "sentences")
    modules = [{"type": f"sentence_transformers.models.{name}"} for name in MODULES]
    for module, path in zip(modules, MODULES.values(), strict=True):
        module |= {"idx": 0, "name": "0", "path": path}
    (folder / "sentences" / "modules.json").write_text(json.dumps(modules))
    (folder / "sentences" / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}
    (folder / "sentences" / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    keras.utils.set_random_seed(5)
    sparse = BertSparseEmbedder(config.replace(initializer_range=0.5))
    sparse.save_to_preset(folder / "sparse", BertTokenizer(vocabulary))
    train_byte_level_bpe([TEXT], 300).save(folder / "bytes")
    (folder / "texts.txt").write_text(TEXT, encoding="utf-8")
    lines = [json.dumps({"text": "badbad", "body": line}) + "\n" for line in TEXT.splitlines()]
    (folder / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "words.txt").write_text("GoodBook\n\nbook\n", encoding="utf-8")
    (folder / "known.txt").write_text("good\nBook\n", encoding="utf-8")
    (folder / "pair.txt").write_text("good book\n", encoding="utf-8")
    (folder / "taken").mkdir()
    write_model(folder / "tuned", "pairs")
    pair = '{"text": "a good book", "text_pair": "a film"}\n'
    (folder / "pairs.jsonl").write_text(pair, encoding="utf-8")
    (folder / "new.txt").write_text("zeppelin\n", encoding="utf-8")
    commands = {
        "texts": [*GROW, "--input=texts.txt", "--min_pieces=2", "--output=from_texts"],
        "field": [
            *(*GROW, "--input=texts.jsonl", "--text_field=body", "--min_pieces=2"),
            "--output=from_field",
        ],
        "list": [
            "grow_vocabulary.py",
            "--init_from=sentences",
            "--words=words.txt",
            "--output=list",
        ],
        "again": [
            *("grow_vocabulary.py", "--model=list", "--input=texts.txt", "--min_pieces=2"),
            *("--min_frequency=1", "--new_words=1", "--output=again"),
        ],
        "sparse": ["grow_vocabulary.py", "--model=sparse", "--words=words.txt", "--output=words"],
        "tuned": ["grow_vocabulary.py", "--model=tuned", "--words=new.txt", "--output=tuned_grown"],
        **{
            f"predict {name}": [
                *("predict.py", f"--model_dir={name}", "--input=pairs.jsonl"),
                f"--output={name}.csv",
            ]
            for name in ("tuned", "tuned_grown")
        },
        "none": [*GROW, "--input=texts.txt", "--output=none"],
        "known": [*GROW, "--words=known.txt", "--output=none"],
        "pair": [*GROW, "--words=pair.txt", "--output=none"],
        "both": [*GROW, "--words=words.txt", "--input=texts.txt", "--output=none"],
        "neither": [*GROW, "--output=none"],
        "count": [*GROW, "--words=words.txt", "--new_words=5", "--output=none"],
        "taken": [*GROW, "--words=words.txt", "--output=taken"],
        "no file": [*GROW, "--words=no.txt", "--output=none"],
        "bytes": ["grow_vocabulary.py", "--model=bytes", "--words=words.txt", "--output=none"],
    }
    runs = run_tools([{"command": command} for command in commands.values()], folder)
    return folder, dict(zip(commands, runs, strict=True))


def test_words_of_texts_become_pieces_that_start_at_the_mean(folder):
    path, ran = folder
    assert ran["texts"]["status"] == 0, ran["texts"]["printed"]
    tokenizer, before = load_tokenizer(path / "from_texts"), load_tokenizer(path / "model")
    # bookbook occurs 9 times, and --min_frequency is 10; equally frequent ones by the alphabet.
    # The first takes the slot, and the other stands behind the end.
    tokens = [*before.vocabulary.tokens, "goodbook"]
    tokens[tokens.index("[unused1]")] = "badbook"
    assert tokenizer.vocabulary.tokens == tuple(tokens)
    old, grown = (
        BertEncoder.from_preset(path / name).word_embeddings.weights[0].numpy()
        for name in ("model", "from_texts")
    )
    assert len(grown) == len(old) == 24
    expected = old.copy()
    for token, place in (("bad", tokens.index("badbook")), ("good", tokens.index("goodbook"))):
        expected[place] = (old[tokens.index(token)] + old[tokens.index("##book")]) / 2
    np.testing.assert_allclose(grown, expected, **FORMULA)
    printed = ran["texts"]["printed"]
    assert "new words: 2, of them in [unused] slots: 1: badbook, goodbook\n" in printed
    # 12 x 5 + 9 x 2 = 78 words; 33 of them have two pieces before, and 9 after.
    assert "before: 1.423 pieces per word" in printed
    assert "after:  1.115 pieces per word" in printed
    assert "from_texts: BertEncoder, 24 pieces\n" in printed


def test_texts_are_those_of_the_named_field(folder):
    path, ran = folder
    assert ran["field"]["status"] == 0, ran["field"]["printed"]
    grown, expected = (load_tokenizer(path / name) for name in ("from_field", "from_texts"))
    assert grown.vocabulary == expected.vocabulary
    assert "before: 1.423 pieces per word" in ran["field"]["printed"]


def test_a_list_is_normalized_and_a_grown_folder_grows_again(folder):
    path, ran = folder
    assert ran["list"]["status"] == 0, ran["list"]["printed"]
    words = load_tokenizer(path / "list").vocabulary
    assert len(words) == 23 and "goodbook" in words
    assert "new words: 1, of them in [unused] slots: 1: goodbook\n" in ran["list"]["printed"]
    assert "before:" not in ran["list"]["printed"]  # there are no texts to tell it of
    assert ran["again"]["status"] == 0, ran["again"]["printed"]
    assert load_tokenizer(path / "again").vocabulary.tokens[-1] == "badbook"
    assert BertEncoder.from_preset(path / "again").config.vocab_size == 24


def test_what_stands_behind_a_sentence_encoder_comes_along(folder):
    path, ran = folder
    for name in ("list", "again"):
        assert f"{name}: BertEncoder, " in ran[name]["printed"]
        assert "with modules.json and what it lists" in ran[name]["printed"]
        assert sentence_modules.read(path / name).pooling == ("mean",)


def test_a_sparse_encoder_stays_one(folder):
    path, ran = folder
    assert "words: BertMaskedLM, " in ran["sparse"]["printed"]
    assert "with modules.json and what it lists" in ran["sparse"]["printed"]
    # Texts without the new word keep the weights of the words that were there.
    old, new = (load_tokenizer(path / name).vocabulary.tokens for name in ("sparse", "words"))
    same = [place for place, token in enumerate(old) if new[place] == token]
    assert len(same) == len(old) - 1 and {"goodbook"} <= {*new}
    before, after = (
        SparseEncoder.from_preset(path / name).encode(["a good film"]).to_dense()
        for name in ("sparse", "words")
    )
    assert np.count_nonzero(before[:, same]) > 2
    np.testing.assert_allclose(after[:, same], before[:, same], **REORDERED)


def test_a_fine_tuned_model_stays_one(folder):
    path, ran = folder
    assert ran["tuned"]["printed"].rstrip().endswith(", with task.json")
    # Texts without the new word are answered as before.
    before, after = (
        (path / f"{name}.csv").read_text(encoding="utf-8") for name in ("tuned", "tuned_grown")
    )
    assert before.count("\n") == 2 and before == after


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
        ("no file", "no.txt does not exist: give a file with a word a line"),
        ("bytes", "bytes has a ByteLevelBpeTokenizer, whose pieces follow from merges"),
    ],
)
def test_what_cannot_grow_is_told_and_nothing_is_written(folder, name, message):
    path, ran = folder
    assert ran[name]["status"] == 1
    assert message in ran[name]["printed"]
    assert not (path / "none").exists()
    assert not list((path / "taken").iterdir())
