"""Search by words, by the formula of BM25 worked out by hand, and by several searches at once."""

import csv
import json
import math
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from keras_bert import (
    Bm25,
    Bm25Index,
    FusedIndex,
    SentenceEncoder,
    TextIndex,
    mine_negatives,
)
from tests import command_process
from tests.signatures.tiny_models import random_texts

REPOSITORY = Path(__file__).parents[2]
MANUAL = [
    "A lock, a key!",
    "the key",
    "Locks are slow; a lock is not.",
    "  ",
    "the key",
    "das Größte",
]


@pytest.fixture(scope="module")
def index():
    return Bm25Index.build(Bm25(), MANUAL)


def test_scores_are_those_of_the_formula():
    index = Bm25Index.build(Bm25(k1=1.2, b=0.75), ["a b", "a a c", "d"])
    # Two of three texts have a, one has c; they have 2, 3 and 1 words, 2 in the mean.
    rarity_a, rarity_c = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    first = rarity_a * 1 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2))
    longer = 1.2 * (0.25 + 0.75 * 3 / 2)
    second_a, second_c = rarity_a * 2 / (2 + longer), rarity_c * 1 / (1 + longer)
    (hits,) = index.search(["c a"])
    assert [hit.number for hit in hits] == [1, 0]  # what shares no word is not found
    np.testing.assert_allclose([hit.score for hit in hits], [second_a + second_c, first], rtol=1e-6)
    # A word that the query has twice counts twice, one that no text has does not.
    (hits,) = index.search(["a unknown a"])
    np.testing.assert_allclose([hit.score for hit in hits], [2 * second_a, 2 * first], rtol=1e-6)
    np.testing.assert_allclose(
        index.scores_of(index.query_vectors(["c", "a"]), [1, 0]), [second_c, first], rtol=1e-6
    )


def test_settings_change_what_counts():
    texts = ["a b c d", "a a a a", "A"]
    (hits,) = Bm25Index.build(Bm25(k1=0), texts).search(["a"])
    assert len({hit.score for hit in hits}) == 1  # whether a text has it
    (hits,) = Bm25Index.build(Bm25(b=0), texts).search(["a"])
    assert hits[0].number == 1 and hits[1].score == hits[2].score  # however long it is
    (hits,) = Bm25Index.build(Bm25(lowercase=False), texts).search(["A"])
    assert [hit.number for hit in hits] == [2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't lock x_y twice!", ["don", "t", "lock", "x", "y", "twice"]),
        ("Größe, Zoë  ½ €5 😀", ["große", "zoe", "½", "€5", "😀"]),
        ("北京 is far。", ["北", "京", "is", "far"]),
        ("ΟΔΟΣ\u00a0ﬁne\u200b-…", ["οδος", "ﬁne"]),
        ("?!", []),
    ],
)
def test_words_are_those_of_the_tokenizer_without_punctuation(text, words):
    assert Bm25().words(text) == words


def test_case_and_accents_may_matter():
    assert Bm25(lowercase=False).words("Zoë's Film") == ["Zoë", "s", "Film"]


def test_blank_texts_and_equal_ones(index):
    (hits,) = index.search(["the key"])
    assert [hit.number for hit in hits] == [1, 4, 0]
    assert hits[0].score == hits[1].score > hits[2].score
    assert index.search(["", "?", "zebra"]) == [[], [], []]
    assert index.search([]) == []
    assert index.search([b"GROSSTE", "grosste"])[0] == []  # \u00df is no ss
    assert [hit.text for hit in index.search([b"GR\xc3\xb6\xc3\x9fTE"])[0]] == ["das Größte"]
    nothing = Bm25Index.build(Bm25(), [])
    assert nothing.search(["a"]) == [[]] and len(nothing) == 0
    assert Bm25Index.build(Bm25(), ["", "!"]).search(["!"]) == [[]]
    assert index.numbers_each == "2.7 words each in the mean"  # 16 for 6 texts


def test_an_index_opens_as_it_was(index, tmp_path):
    index.save(tmp_path / "index")
    opened = Bm25Index.load(tmp_path / "index", Bm25())
    queries = ["a lock", "größte", "slow key"]
    assert opened.search(queries) == index.search(queries)
    assert opened.words == index.words
    for other in (Bm25(k1=0.9), Bm25(b=0.5), Bm25(lowercase=False)):
        with pytest.raises(ValueError, match="or with another k1, b or lowercase, so its vectors"):
            Bm25Index.load(tmp_path / "index", other)
    with pytest.raises(ValueError, match="the encoder is a str: a Bm25Index takes a Bm25"):
        Bm25Index.load(tmp_path / "index", "bm25")
    with np.load(tmp_path / "index" / "vectors.npz") as stored:
        arrays = dict(stored)
    np.savez(tmp_path / "index" / "vectors.npz", **(arrays | {"words": arrays["words"][:9]}))
    with pytest.raises(ValueError, match=r"holds a damaged index .* words for .*: build it anew"):
        Bm25Index.load(tmp_path / "index", Bm25())
    with open(tmp_path / "index" / "vectors.npz", "r+b") as file:
        file.truncate(100)
    with pytest.raises(ValueError, match=r"holds a damaged index .*: build it anew"):
        Bm25Index.load(tmp_path / "index", Bm25())
    Bm25Index.build(Bm25(), []).save(tmp_path / "index")  # replaces it
    assert Bm25Index.load(tmp_path / "index", Bm25()).search(["a"]) == [[]]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Bm25(k1=-1), "k1 is -1: it must be 0 or above"),
        (lambda: Bm25(k1=math.nan), "k1 is nan: it must be"),
        (lambda: Bm25(k1=math.inf), "k1 is inf: it must be 0 or above, and finite"),
        (lambda: Bm25(lowercase="no"), "lowercase is the string 'no': give True or False"),
        (lambda: Bm25(lowercase=None), "lowercase is None: give True or False"),
        (lambda: Bm25Index.build(Bm25, ["a"]), "the encoder is a type: a Bm25Index takes a Bm25"),
        (lambda: Bm25(b=1.5), "b is 1.5: it must be from 0 to 1"),
        (
            lambda: Bm25Index.build(Bm25(), "one text"),
            "is one string, which would be read letter by letter",
        ),
        (lambda: Bm25Index.build(None, ["a"]), "the encoder is a NoneType: a Bm25Index takes a"),
        (
            lambda: Bm25Index.build(Bm25(), ["a"]).search("a"),
            "is one string, which would be read letter by letter",
        ),
        (lambda: Bm25Index.build(Bm25(), ["a"]).search(["a"], 0), "top_k is 0"),
    ],
)
def test_mistakes_are_told(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_settings_may_be_numbers_of_numpy(tmp_path):
    Bm25Index.build(Bm25(k1=np.float32(1.5)), MANUAL).save(tmp_path / "index")
    assert len(Bm25Index.load(tmp_path / "index", Bm25(k1=1.5))) == len(MANUAL)


def test_words_find_wrong_answers():
    texts = ["lock the key", "lock the door", "lock", "a door"]
    index = Bm25Index.build(Bm25(), texts)
    found = mine_negatives(index, ["lock the key"], ["lock the door"], relative_margin=-1)
    assert found == [["lock"]]  # neither the query itself nor what shares no word


def ranks_added(rankings, constant):
    """The sum of 1 / (constant + rank) of each text, exactly."""
    scores = {}
    for hits in rankings:
        for rank, hit in enumerate(hits, start=1):
            scores[hit.number] = scores.get(hit.number, 0) + Fraction(1, constant + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def test_ranks_are_added_up(monkeypatch):
    texts = ["x a b c d e", "X X", "x y", "y"]
    long_ones, short_ones = Bm25(b=0), Bm25(lowercase=False)
    indexes = [Bm25Index.build(one, texts) for one in (long_ones, short_ones)]
    rankings = [[hit.number for hit in index.search(["x"])[0]] for index in indexes]
    assert rankings == [[1, 0, 2], [2, 0]]
    fused = FusedIndex(indexes, rank_constant=10)
    (hits,) = fused.search(["x"])
    assert [hit.number for hit in hits] == [2, 0, 1]
    np.testing.assert_allclose(
        [hit.score for hit in hits], [1 / 13 + 1 / 11, 1 / 12 + 1 / 12, 1 / 11], rtol=1e-12
    )
    assert [hit.text for hit in hits] == ["x y", "x a b c d e", "X X"]
    assert fused.search((query for query in ("x", "none")), top_k=1) == [hits[:1], []]
    assert len(fused) == 4 and fused.texts == texts
    monkeypatch.setattr("keras_bert.retrieval.fused_index._DEPTH", 1)
    assert [hit.number for hit in fused.search(["x"], top_k=3)[0]] == [2, 0, 1]
    # Of the nearest one of each; 0 is second in both.
    assert [hit.number for hit in fused.search(["x"], top_k=1)[0]] == [1]


def test_words_and_vectors_search_together(model_folder, tmp_path):
    texts = [*dict.fromkeys(random_texts(30, seed=3, longest=12))][1:]
    encoder = SentenceEncoder.from_preset(model_folder("encoder"), pooling="mean")
    parts = [TextIndex.build(encoder, texts), Bm25Index.build(Bm25(), texts)]
    queries = ["the film", texts[7]]
    fused = FusedIndex(parts, rank_constant=7)
    found = fused.search(queries, top_k=5)
    for row, hits in enumerate(found):
        expected = ranks_added([part.search(queries, 100)[row] for part in parts], 7)[:5]
        assert [hit.number for hit in hits] == [number for number, _ in expected]
        np.testing.assert_allclose([hit.score for hit in hits], [float(s) for _, s in expected])
    assert found[1][0].number == 7
    fused.save(tmp_path / "index")
    kinds = [(TextIndex, encoder), (Bm25Index, Bm25())]
    assert FusedIndex.load(tmp_path / "index", kinds).search(queries, top_k=5) == found
    usual = FusedIndex.load(tmp_path / "index", kinds, rank_constant=60)
    assert usual.search(queries, top_k=5) == FusedIndex(parts).search(queries, top_k=5)
    fused.save(tmp_path / "index")  # replaces it
    with pytest.raises(ValueError, match="is an index of 2 searches: open it with all of them"):
        TextIndex.load(tmp_path / "index", encoder)
    with pytest.raises(ValueError, match="is an index of 2 searches, and 3 are asked for"):
        FusedIndex.load(tmp_path / "index", [(TextIndex, encoder)] * 3)
    with pytest.raises(ValueError, match="holds something else than an index"):
        parts[0].save(tmp_path / "index")
    with pytest.raises(ValueError, match="was made by another model"):
        FusedIndex.load(tmp_path / "index", [(TextIndex, encoder), (Bm25Index, Bm25(b=0))])
    parts[1].save(tmp_path / "words")
    with pytest.raises(ValueError, match="was made by another model, or with another pooling"):
        TextIndex.load(tmp_path / "words", encoder)
    with pytest.raises(ValueError, match="holds something else than an index of several searches"):
        fused.save(tmp_path / "words")
    with pytest.raises(ValueError, match="is an index of 1 search, and 2 are asked for"):
        FusedIndex.load(tmp_path / "words", [(TextIndex, encoder), (Bm25Index, Bm25())])
    with pytest.raises(FileNotFoundError, match="holds no index.json: build the index first"):
        FusedIndex.load(tmp_path, [(TextIndex, encoder), (Bm25Index, Bm25())])
    (tmp_path / "index" / "index.json").write_text("[]")
    with pytest.raises(ValueError, match="holds a damaged index"):
        FusedIndex.load(tmp_path / "index", [(TextIndex, encoder), (Bm25Index, Bm25())])


def test_an_index_of_several_searches_refuses_other_texts():
    one, other = (Bm25Index.build(Bm25(), texts) for texts in (["a"], ["b"]))
    with pytest.raises(ValueError, match="there is 1 index: give two of the same texts, or more"):
        FusedIndex([one])
    with pytest.raises(ValueError, match="there are 0 indexes"):
        FusedIndex([])
    with pytest.raises(ValueError, match="indexes is one Bm25Index: give a list of two or more"):
        FusedIndex(one)
    with pytest.raises(
        ValueError, match=r"index 1 \(counted from 0\) is a FusedIndex: give a Text"
    ):
        FusedIndex([one, FusedIndex([one, one])])
    with pytest.raises(ValueError, match="index 1 does not hold the texts of index 0"):
        FusedIndex([one, other])
    with pytest.raises(ValueError, match="rank_constant is 0"):
        FusedIndex([one, one], rank_constant=0)
    with pytest.raises(ValueError, match="index is a FusedIndex, which has no scores of single"):
        mine_negatives(FusedIndex([one, one]), ["a"], ["a"])
    with pytest.raises(ValueError, match="is one string, which would be read letter by letter"):
        FusedIndex([one, one]).search("a")


def run_tool(name, folder, *arguments):
    return command_process.run([REPOSITORY / "tools" / name, *arguments], folder)


@pytest.mark.slow
def test_the_commands_search_by_words(index, model_folder, tmp_path):
    shutil.copytree(model_folder("encoder"), tmp_path / "model")
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in MANUAL))

    def found(*arguments):
        done = run_tool(
            "search_texts.py", tmp_path, "--query=lock", "--output=found.csv", *arguments
        )
        assert done.returncode == 0, done.stderr[-2000:]
        with open(tmp_path / "found.csv", newline="") as file:
            return [(int(row["number"]), float(row["score"])) for row in csv.DictReader(file)]

    expected = [
        (hit.number, pytest.approx(hit.score, abs=1e-6)) for hit in index.search(["lock"])[0]
    ]
    assert found("--init_from=bm25", "--input=texts.jsonl", "--index=words") == expected
    assert found("--init_from=bm25", "--index=words") == expected
    both = ("--init_from=model", "--pooling=mean", "--fuse_with=bm25", "--index=both", "--top_k=6")
    made = found(*both, "--input=texts.jsonl")
    encoder = SentenceEncoder.from_preset(tmp_path / "model", pooling="mean")
    fused = FusedIndex([TextIndex.build(encoder, MANUAL), index]).search(["lock"], 6)[0]
    assert made == [(hit.number, pytest.approx(hit.score, abs=1e-6)) for hit in fused]
    assert found(*both) == made
    (tmp_path / "pairs.csv").write_text(
        "text,positive\nlock,a key\nkey,the lock\nslow,a slow key\n"
    )
    mined = ("--init_from=bm25", "--input=pairs.csv", "--output=mined.csv", "--relative_margin=-1")
    done = run_tool("mine_negatives.py", tmp_path, *mined)
    assert done.returncode == 0, done.stderr[-2000:]
    with open(tmp_path / "mined.csv", newline="") as file:
        rows = [(row["text"], row["negative0"], row["negative1"]) for row in csv.DictReader(file)]
    assert rows == [("lock", "the lock", ""), ("key", "a key", "a slow key")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--pooling=mean"], "pooling is for a model, and bm25 has none: leave it out"),
        (["--fuse_with=bm25"], "--fuse_with=bm25 is named twice: name each search once"),
        (["--fuse_with=nowhere"], "nowhere"),
        (["--index_bits=2"], "bits is 2, and is for vectors of tokens: leave it out"),
        (["--fuse_with=texts.txt"], "texts.txt"),
        (
            ["--index=words", "--index_bits=2"],
            "--index_bits is for a new index, and --index=words is there already: leave out",
        ),
    ],
)
def test_the_command_refuses_in_one_sentence(arguments, sentence, tmp_path):
    (tmp_path / "texts.txt").write_text("a\n")
    Bm25Index.build(Bm25(), ["a"]).save(tmp_path / "words")
    done = run_tool(
        "search_texts.py",
        tmp_path,
        *("--init_from=bm25", "--input=texts.txt", "--query=a", *arguments),
    )
    assert done.returncode != 0 and sentence in done.stderr and "Traceback" not in done.stderr
