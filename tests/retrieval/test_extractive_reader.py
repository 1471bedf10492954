"""Answers out of many texts. Oracle: the live head's answers to each text by itself."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_bert import Bm25, Bm25Index, ExtractiveReader
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.question_answering.questions import Question
from tests import command_process
from tests.signatures.tiny_models import random_texts
from tests.tolerances import REORDERED

TOOL = Path(__file__).parents[2] / "tools" / "search_texts.py"
TEXTS = [*dict.fromkeys(random_texts(40, seed=1))]
QUERIES = random_texts(8, seed=3, longest=8)[2:]


@pytest.fixture(scope="module")
def found():
    return Bm25Index.build(Bm25(), TEXTS).search(QUERIES, top_k=8)


@pytest.mark.parametrize("name", ["spans", "spans_or_none"])
def test_each_passage_gives_its_answer_and_logits_order_them(name, found, model_folder):
    folder = model_folder(name)
    answers = ExtractiveReader.from_preset(folder).read(QUERIES, found)
    live = FinetunedModel.load(folder)
    counts = []
    for query, hits, said in zip(QUERIES, found, answers, strict=True):
        alone = live.predict_examples([Question("0", query, hit.text) for hit in hits])
        expected = [
            (
                # Above "no answer" where the model has learned to say so.
                one.best_span.score if name == "spans" else -one.null_score,
                one.answer.text,
                one.answer.start,
                one.answer.end,
                hit,
            )
            for hit, one in zip(hits, alone, strict=True)
            if one.answer.text
        ]
        # Some passages have equal scores: their order is that of last digits.
        by_number = sorted(said, key=lambda one: one.passage.number)
        expected.sort(key=lambda one: one[-1].number)
        np.testing.assert_allclose(
            [one.score for one in by_number], [one[0] for one in expected], **REORDERED
        )
        assert [(one.text, one.start, one.end, one.passage) for one in by_number] == [
            one[1:] for one in expected
        ]
        scores = [one.score for one in said]
        assert scores == sorted(scores, reverse=True)
        assert all(one.passage.text[one.start : one.end] == one.text for one in said)
        counts.append(len(said))
    passages = sum(map(len, found))
    assert sum(counts) > 20
    assert sum(counts) < passages if name == "spans_or_none" else sum(counts) >= passages - 2


def test_few_are_kept_and_nothing_is_read_of_nothing(found, model_folder):
    reader = ExtractiveReader.from_preset(model_folder("spans"))
    every = reader.read(QUERIES, found)
    for said, by_threes in zip(every, reader.read(QUERIES, found, batch_size=3), strict=True):
        np.testing.assert_allclose(
            [one.score for one in by_threes], [one.score for one in said], **REORDERED
        )
    few = reader.read(QUERIES, found, top_k=2)
    assert [[one.text for one in said] for said in few] == [
        [one.text for one in said[:2]] for said in every
    ]
    assert reader.read([], []) == []
    assert reader.read(["who"], [[]]) == [[]]


def test_the_threshold_of_no_answer_may_be_another(found, model_folder):
    folder = model_folder("spans_or_none")
    sure, eager = (
        ExtractiveReader.from_preset(folder, null_threshold=threshold).read(QUERIES, found)
        for threshold in (-1e6, 1e6)
    )
    assert sure == [[]] * len(QUERIES)
    assert sum(map(len, eager)) >= sum(map(len, found)) - 2


def test_the_search_may_have_a_say(found, model_folder):
    reader = ExtractiveReader.from_preset(model_folder("spans"))
    alone = reader.read(QUERIES, found)
    together = reader.read(QUERIES, found, retrieval_weight=0.5)
    for said, weighted in zip(alone, together, strict=True):
        expected = {one.passage.number: one.score + 0.5 * one.passage.score for one in said}
        assert {one.passage.number: one.score for one in weighted} == expected
        assert [one.score for one in weighted] == sorted(expected.values(), reverse=True)
    # With all weight on the search its order is that of the answers.
    first = reader.read(QUERIES, found, top_k=1, retrieval_weight=1e6)
    assert [[one.passage for one in said] for said in first] == [
        sorted((one.passage for one in said), key=lambda hit: -hit.score)[:1] for said in alone
    ]


def test_mistakes_are_told(found, model_folder):
    with pytest.raises(ValueError, match="does not find answers in texts: give one of question"):
        ExtractiveReader.from_preset(model_folder("encoder"))
    reader = ExtractiveReader.from_preset(model_folder("spans"))
    with pytest.raises(ValueError, match="found is one list of hits"):
        reader.read(QUERIES[:1], found[0])
    with pytest.raises(ValueError, match="there are 1 queries and 2 lists of texts"):
        reader.read(QUERIES[:1], found[:2])
    with pytest.raises(ValueError, match="retrieval_weight is nan: it must be a number"):
        reader.read(QUERIES, found, retrieval_weight=float("nan"))
    with pytest.raises(ValueError, match="top_k is 0"):
        reader.read(QUERIES, found, top_k=0)


@pytest.mark.slow
def test_the_command_answers_out_of_texts(model_folder, tmp_path):
    shutil.copytree(model_folder("spans"), tmp_path / "model")
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    (tmp_path / "texts.jsonl").write_text(lines, encoding="utf-8")
    arguments = ("--init_from=bm25", "--input=texts.jsonl", "--read_with=model", "--top_k=5")
    asked = f"--query={QUERIES[0]}"
    done = command_process.run([TOOL, *arguments, asked, "--output=found.csv"], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    with open(tmp_path / "found.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    hits = Bm25Index.build(Bm25(), TEXTS).search(QUERIES[:1], top_k=5)
    (expected,) = ExtractiveReader.from_preset(tmp_path / "model").read(QUERIES[:1], hits)
    assert len(rows) == len(expected) > 2
    for rank, (row, answer) in enumerate(zip(rows, expected, strict=True), start=1):
        assert (row["rank"], row["answer"], row["text"]) == (
            str(rank),
            answer.text,
            answer.passage.text,
        )
        assert (row["number"], row["answer_start"]) == (
            str(answer.passage.number),
            str(answer.start),
        )
        assert float(row["score"]) == pytest.approx(answer.score, abs=1e-4)
    done = command_process.run([TOOL, *arguments, asked], tmp_path)
    assert f"{expected[0].text}  |  " in done.stdout
