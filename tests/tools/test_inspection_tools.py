"""visualize_attention, score_text and fill_mask --every_word as commands."""

import csv
import gzip
import re

import pytest

from keras_bert import BertMaskedLM, BertTokenizer, SentenceScorer, guess_every_word, show_attention
from tests.tools.test_faults import run_tools
from tests.visualize.attention_models import page_data

pytestmark = pytest.mark.slow
# Enough for more than one chunk of rows of 16 batches.
TEXTS = ["the film", "", 'ab, "c"', "x film " * 9, *["the film ."] * 30]
SCORE = ["score_text.py", "--init_from=model", "--batch_size=4"]
SHOW = ["visualize_attention.py", "--model_dir=model", "--text=the abc film"]


@pytest.fixture(scope="module")
def model(model_folder):
    return model_folder("masked_lm")


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    """A folder in which all commands were run, and what they printed by name."""
    folder = tmp_path_factory.mktemp("inspection")
    (folder / "model").symlink_to(model)
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    (folder / "broken.txt").write_bytes(b"the film\n" * 200 + b"\xff\n")
    (folder / "taken.png").mkdir()
    (folder / "empty.txt").write_text("", encoding="utf-8")
    with gzip.open(folder / "texts.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write('{"text": "the film"}\n{"text": "x"}\n')
    (folder / "texts.csv").write_text('label,text\n1,the film\n0,"x, film"\n', encoding="utf-8")
    (folder / "kept.csv").write_text("from before\n", encoding="utf-8")
    commands = {
        "score": [*SCORE, "--input=texts.txt", "--output=new/scores.csv"],
        "within": [*SCORE, "--input=texts.txt", "--output=within.csv", "--within_word"],
        "gz": [*SCORE, "--input=texts.jsonl.gz", "--output=gz.csv"],
        "table": [*SCORE, "--input=texts.csv", "--output=table.csv"],
        "another ending": [*SCORE, "--input=texts.txt", "--output=scores.json"],
        "empty": [*SCORE, "--input=empty.txt", "--output=empty.csv"],
        "broken": [*SCORE, "--input=broken.txt", "--output=kept.csv"],
        "over input": [*SCORE, "--input=texts.txt", "--output=./texts.txt"],
        "absent": [*SCORE, "--input=no.txt", "--output=kept.csv"],
        "page": SHOW,
        "pair": [
            *(*SHOW, "--text_pair=film x", "--output=pair.html", "--png=one.svg"),
            *("--layer=1", "--head=0", "--join_words", "--start=1", "--max_tokens=3"),
        ],
        # Told before the work: nothing is written.
        "no page": [*SHOW, "--output=no.txt", "--png=no.png"],
        "no folder": [*SHOW, "--output=no.html", "--png=taken.png"],
        "not drawn": [*SHOW, "--output=no.html", "--layer=1"],
        "no layer": [*SHOW, "--output=no.html", "--png=no.png", "--layer=2"],
        "no word": ["fill_mask.py", "--init_from=model", "--every_word", "--text= "],
        "no table": [
            *("augment_data.py", "--init_from=model", "--data=texts.csv", "--output=more.json")
        ],
        "alias": ["fill_mask.py", "--model=model", "--text=the abc"],
        "every word": ["fill_mask.py", "--init_from=model", "--every_word", "--text=a bc"],
    }
    runs = run_tools([{"command": command} for command in commands.values()], folder)
    return folder, dict(zip(commands, runs, strict=True))


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("name", "within"), [("new/scores.csv", False), ("within.csv", True)])
def test_a_row_for_each_sentence(name, within, folder, model):
    found = rows(folder[0] / name)
    scorer = SentenceScorer.from_preset(model, within_word=within, batch_size=4)
    scores = list(scorer(TEXTS))
    assert list(found[0]) == ["text", "score", "pieces", "perplexity", "unknown_pieces"]
    assert [row["text"] for row in found] == TEXTS
    for row, score in zip(found, scores, strict=True):
        assert float(row["score"]) == pytest.approx(score.log_likelihood, abs=1e-4)
        assert int(row["pieces"]) == len(score.pieces)
        assert int(row["unknown_pieces"]) == row["text"].count('"')  # no piece of the vocabulary
    assert (found[1]["score"], found[1]["perplexity"]) == ("0.000000", "")
    assert float(found[0]["perplexity"]) == pytest.approx(scores[0].perplexity, rel=1e-4)


def test_what_scoring_prints(folder):
    printed = folder[1]["score"]["printed"]
    assert folder[1]["score"]["status"] == 0, printed
    found = rows(folder[0] / "new" / "scores.csv")
    total, pieces = sum(float(r["score"]) for r in found), sum(int(r["pieces"]) for r in found)
    assert f"34 sentences, {pieces} pieces: new/scores.csv" in printed
    perplexity = float(re.search(r"pseudo-perplexity of the file: (\S+)", printed)[1])
    assert perplexity == pytest.approx(2.718281828 ** (-total / pieces), rel=1e-4)
    assert "scoring: " in printed  # progress


def test_other_files_of_sentences(folder):
    assert [row["text"] for row in rows(folder[0] / "gz.csv")] == ["the film", "x"]
    assert [row["text"] for row in rows(folder[0] / "table.csv")] == ["the film", "x, film"]
    assert rows(folder[0] / "empty.csv") == []
    assert "0 sentences, 0 pieces: empty.csv" in folder[1]["empty"]["printed"]


def test_bad_input_ends_in_a_sentence_and_writes_nothing(folder):
    for name, sentence in {
        "broken": "error: broken.txt, line 201 is not UTF-8: convert the file to UTF-8",
        "over input": "--output is ./texts.txt, the same file as texts.txt: choose another name",
        "another ending": "error: --output=scores.json does not end in .csv: rename it",
        "no word": "error: text is ' ', which holds no word: give one with words",
        "no table": "error: --output=more.json does not end in .csv: rename it",
        "alias": "error: 'the abc' holds no [MASK]: put it where a word is missing",
        "absent": "error: no.txt does not exist: give a file with a text a line",
    }.items():
        assert folder[1][name]["status"] == 1
        assert sentence in folder[1][name]["printed"]
    assert (folder[0] / "kept.csv").read_text(encoding="utf-8") == "from before\n"


def test_a_page_and_a_picture(folder, model):
    ran = folder[1]
    assert "tokens 1 to 7 of 7: attention.html" in ran["page"]["printed"]
    page = (folder[0] / "attention.html").read_text(encoding="utf-8")
    name = re.search("<title>.*</title>", page)[0]
    expected = show_attention(model, "the abc film").html()
    assert page_data(page)["pieces"] == page_data(expected)["pieces"]
    assert name == "<title>Attention of model</title>"
    assert "tokens 2 to 4 of 10: pair.html" in ran["pair"]["printed"]
    texts = re.findall(r"<!-- (.*?) -->", (folder[0] / "one.svg").read_text(encoding="utf-8"))
    assert texts[:2] == ["the", "abc"]
    for name, sentence in {
        "no layer": "error: layer is 2: the model has 2, counted from 0",
        "no page": "error: no.txt does not end with .html: the page is one; --png writes .png and",
        "no folder": "error: the picture is taken.png, which is a folder: name a file in it",
        "not drawn": "error: --layer is for --png: give that, too, or leave it out",
    }.items():
        assert ran[name]["status"] == 1
        assert sentence in ran[name]["printed"]
    assert not list(folder[0].glob("no.*"))


def test_every_word_is_printed(folder, model):
    lines = folder[1]["every word"]["printed"].splitlines()
    lines = lines[lines.index("a bc") + 1 :]
    words = guess_every_word(
        BertMaskedLM.from_preset(model), BertTokenizer.from_preset(model), "a bc"
    )
    pieces = [piece for word in words for piece in word.pieces]
    assert len(lines) == len(pieces) == 3
    for line, piece in zip(lines, pieces, strict=True):
        found = re.match(r"    (\S+) +([\d.]+) %  rank (\d+) +(\S+) ([\d.]+) %", line)
        assert found.groups() == (
            piece.piece,
            f"{100 * piece.probability:.1f}",
            str(piece.rank),
            piece.guesses[0].piece,
            f"{100 * piece.guesses[0].probability:.1f}",
        )
