"""generate_text and rerank_texts as commands."""

import csv
import json

import pytest

from keras_bert import SentenceScorer, TextGenerator, rerank
from tests.tools.test_faults import run_tools

pytestmark = pytest.mark.slow
GENERATE = ["generate_text.py", "--model=model", "--sweeps=2", "--batch_size=4"]
RERANK = ["rerank_texts.py", "--init_from=model", "--output=ranked.tsv"]
BLANKS = ["the [MASK] film", "[MASK] [MASK]"]
CANDIDATES = [("1", "the film", "-1"), ("2", "x", "0"), ("1", 'film, "the"', "-20")]
# Words of several pieces, in lists that the columns before theirs do not tell.
TYPED = [
    {"group": 1, "text": "", "score": -1.5, "meta": {"a": [1, None]}, "n": None},
    {"group": 1, "text": "the film", "score": 2, "extra": "\u00e9"},
]
LISTS = [("b", "the abc film"), ("a", "x"), ("b", "film"), ("a", "abcdef xyz"), ("b", "abcdef")]


@pytest.fixture(scope="module")
def ran(model_folder, tmp_path_factory):
    """The folder in which all commands were run, and what they printed by name."""
    folder = tmp_path_factory.mktemp("generation")
    (folder / "model").symlink_to(model_folder("masked_lm"))
    (folder / "blanks.txt").write_text("\n".join([BLANKS[0], "", BLANKS[1]]), encoding="utf-8")
    with open(folder / "blanks.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *enumerate(BLANKS)])
    (folder / "empty.txt").write_text("\n", encoding="utf-8")
    for name, last in (("candidates", "-20"), ("broken", "high"), ("infinite", "-inf")):
        with open(folder / f"{name}.tsv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t")
            writer.writerow(["group", "text", "score"])
            writer.writerows([*CANDIDATES[:2], (*CANDIDATES[2][:2], last)])
    with open(folder / "lists.tsv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["group", "text", "list", "candidate"])
        writer.writerows([("1", "the", *row) for row in LISTS])
    (folder / "typed.jsonl").write_text("\n".join(map(json.dumps, TYPED)), encoding="utf-8")
    (folder / "texts.jsonl").write_text('{"group": 1, "text": ["the", "film"]}', encoding="utf-8")
    commands = {
        "new": [*GENERATE, "--num_samples=3", "--length=5", "--output=new.txt"],
        "blanks": [
            *(*GENERATE, "--input=blanks.txt", "--num_samples=2", "--seed=5"),
            "--output=filled/blanks.jsonl",
        ],
        "table": [*GENERATE, "--input=blanks.csv", "--seed=5", "--output=table.txt"],
        "anneal": [*GENERATE, "--prompt=the film", "--length=2", "--method=annealing"],
        "csv": [*GENERATE, "--prompt=[MASK]", "--method=metropolis_hastings", "--output=one.csv"],
        "suffix": [*GENERATE, "--output=new.pdf"],
        "over input": [*GENERATE, "--input=blanks.txt", "--output=./blanks.txt"],
        "both": [*GENERATE, "--input=blanks.txt", "--prompt=x"],
        "empty": [*GENERATE, "--input=empty.txt"],
        "no mask": [*GENERATE, "--prompt=the film"],
        "length": [*GENERATE, "--prompt=[MASK]", "--length=2"],
        "alias": ["generate_text.py", "--init_from=model", "--prompt=the film"],
        "top_k": [*GENERATE, "--method=annealing", "--top_k=5"],
        "rerank": [*RERANK, "--input=candidates.tsv", "--score_column=score", "--weight=0.5"],
        "rerank lists": [
            *("rerank_texts.py", "--init_from=model", "--output=lists.jsonl"),
            *("--input=lists.tsv", "--group_column=list", "--text_column=candidate"),
            *("--per_piece", "--within_word"),
        ],
        "rerank json": [
            *("rerank_texts.py", "--model=model", "--input=typed.jsonl"),
            "--output=typed_ranked.jsonl",
        ],
        "lines": [*GENERATE, "--prompt=a [MASK]\nb [MASK]", "--output=lines.txt"],
        "line end": [*GENERATE, "--prompt=a [MASK]\r\n", "--output=lines.txt"],
        "rerank over": [
            *("rerank_texts.py", "--init_from=model"),
            *("--input=lists.tsv", "--output=lists.tsv"),
        ],
        "broken": [*RERANK, "--input=broken.tsv", "--score_column=score"],
        "infinite": [*RERANK, "--input=infinite.tsv", "--score_column=score"],
        "column": [*RERANK, "--input=candidates.tsv", "--text_column=sentence"],
        "texts in a list": [*RERANK, "--input=texts.jsonl"],
    }
    runs = run_tools([{"command": command} for command in commands.values()], folder)
    return folder, dict(zip(commands, runs, strict=True))


def test_texts_are_those_of_python(ran, model_folder):
    folder, runs = ran
    from keras_bert import GenerationOptions

    generator = TextGenerator.from_preset(model_folder("masked_lm"), GenerationOptions(sweeps=2))
    new = [text.text for text in generator.generate(count=3, length=5)]
    assert (folder / "new.txt").read_text(encoding="utf-8").splitlines() == new
    assert "3 texts: new.txt" in runs["new"]["printed"]
    assert "sampling: " in runs["new"]["printed"]  # progress
    rows = [
        json.loads(line)
        for line in (folder / "filled" / "blanks.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    samples = [text for found in generator.infill(BLANKS, 2, seed=5) for text in found]
    assert [row["text"] for row in rows] == [text.text for text in samples]
    for row, text in zip(rows, samples, strict=True):
        assert row["log_likelihood"] == pytest.approx(text.log_likelihood, abs=1e-4)
        assert (row["seed"], row["sample"], row["pieces"]) == (
            *(text.seed, text.sample),
            len(text.pieces),
        )
        assert row["acceptance_rate"] is None
    assert runs["table"]["status"] == 0, runs["table"]["printed"]
    found = (folder / "table.txt").read_text(encoding="utf-8").splitlines()
    assert found == [text.text for [text] in generator.infill(BLANKS, 1, seed=5)]


def test_other_methods(ran):
    folder, runs = ran
    assert runs["anneal"]["status"] == 0, runs["anneal"]["printed"]
    assert "  the film" in runs["anneal"]["printed"]
    with open(folder / "one.csv", encoding="utf-8", newline="") as file:
        [row] = csv.DictReader(file)
    assert float(row["acceptance_rate"]) == 1.0  # a text of one piece: the proposal is the target
    assert "accepted: 100.0 % of the proposals" in runs["csv"]["printed"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("suffix", "--output=new.pdf is not one of .txt, .csv, .jsonl: rename it"),
        ("over input", "--output is blanks.txt, the same file as blanks.txt: choose another"),
        ("rerank over", "--output is lists.tsv, the same file as lists.tsv: choose another"),
        ("both", "--prompt and --input are both given"),
        ("empty", "empty.txt holds no text"),
        ("no mask", "'the film' has no [MASK]: put it where pieces are missing"),
        ("alias", "'the film' has no [MASK]: put it where pieces are missing"),
        ("length", "--length=2 is for texts without [MASK]"),
        ("top_k", "top_k is for gibbs: annealing is exact only"),
        ("lines", "--output=lines.txt has a text a line, but 'a [MASK]\\nb [MASK]' has line ends"),
        ("line end", "--output=lines.txt has a text a line, but 'a [MASK]\\r\\n' has line ends"),
        ("texts in a list", "texts.jsonl, line 1: text is a list: give each of its texts a row"),
        ("broken", "broken.tsv, line 4: the score 'high' is no number"),
        ("infinite", "infinite.tsv, line 4: the score '-inf' is no number"),
        ("column", "there is no column 'sentence' among 'group', 'text', 'score'"),
    ],
)
def test_bad_input_ends_in_a_sentence(ran, name, sentence):
    assert ran[1][name]["status"] == 1
    assert f"error: {sentence}" in ran[1][name]["printed"] or sentence in ran[1][name]["printed"]
    assert "Traceback" not in ran[1][name]["printed"]


def test_candidates_are_ranked(ran, model_folder):
    folder, runs = ran
    assert "3 candidates, 2 lists: ranked.tsv" in runs["rerank"]["printed"]
    with open(folder / "ranked.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    scorer = SentenceScorer.from_preset(model_folder("masked_lm"))
    scores = {
        score.text: score.log_likelihood for score in scorer(text for _, text, _ in CANDIDATES)
    }
    assert [(row["group"], row["rank"]) for row in rows] == [("1", "1"), ("1", "2"), ("2", "1")]
    for row in rows:
        assert float(row["log_likelihood"]) == pytest.approx(scores[row["text"]], abs=1e-4)
        expected = float(row["score"]) + 0.5 * scores[row["text"]]
        assert float(row["rerank_score"]) == pytest.approx(expected, abs=1e-4)
    assert float(rows[0]["rerank_score"]) >= float(rows[1]["rerank_score"])


def test_json_lines_stay_what_they_are(ran):
    folder, runs = ran
    assert runs["rerank json"]["status"] == 0, runs["rerank json"]["printed"]
    lines = (folder / "typed_ranked.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    added = [[row.pop(name) for name in ("rank", "rerank_score", "log_likelihood")] for row in rows]
    assert sorted(rows, key=lambda row: row["text"]) == sorted(TYPED, key=lambda row: row["text"])
    assert [rank for rank, *_ in added] == [1, 2]
    assert isinstance(added[0][1], float)
    assert added[1][1] is None  # a text without pieces


def test_candidates_are_ranked_as_the_flags_say(ran, model_folder):
    folder, runs = ran
    assert runs["rerank lists"]["status"] == 0, runs["rerank lists"]["printed"]
    lines = (folder / "lists.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    names = ("b", "a")  # as they come in the table
    lists = [[text for name, text in LISTS if name == own] for own in names]
    scorer = SentenceScorer.from_preset(model_folder("masked_lm"), within_word=True)
    expected = [
        (name, rank, candidate)
        for name, ranked in zip(names, rerank(lists, scorer, per_piece=True), strict=True)
        for rank, candidate in enumerate(ranked, start=1)
    ]
    assert [(row["list"], row["rank"], row["candidate"]) for row in found] == [
        (name, rank, candidate.text) for name, rank, candidate in expected
    ]
    for row, (_, _, candidate) in zip(found, expected, strict=True):
        assert float(row["rerank_score"]) == pytest.approx(candidate.score, abs=1e-4)
        assert float(row["log_likelihood"]) == pytest.approx(candidate.log_likelihood, abs=1e-4)
