"""Which answer is selected, against the functions that transformers 4 took from run_squad.py."""

import ast
import collections
import json
import math
import types

import numpy as np
import pytest
from published_packages import fetch

from keras_bert.tasks.question_answering.answer_selection import SelectionSettings, select_answer
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.tasks.question_answering.windows import Pieces, Window, best_windows, window_bounds
from tests.tolerances import FORMULA, approx

# Plain lower-case words, for which the oracle's way back to the text is exact.
WORDS = [f"w{letter}" for letter in "abcdefghijkl"]
QUERY = ["which", "one"]
HEAD = ["[CLS]", *QUERY, "[SEP]"]


def functions(path, wanted, **names):
    """Functions of a published file, without the package around it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kept = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    names |= {"collections": collections, "json": json, "math": math}
    exec(compile(ast.Module(kept, []), str(path), "exec"), names)
    return types.SimpleNamespace(**names)


class PlainTokenizer:
    """Stands for both tokenizers of the oracle: words are pieces."""

    def __init__(self, **settings):
        pass

    def tokenize(self, text):
        return text.split()

    def convert_tokens_to_string(self, tokens):
        return " ".join(tokens)


class Case:
    """A context of words in windows with random logits, for both sides."""

    def __init__(self, draw):
        count, room = draw.integers(1, 30), draw.integers(2, 12)
        self.words = draw.choice(WORDS, count).tolist()
        ends = np.cumsum([len(word) + 1 for word in self.words]) - 1
        starts = ends - [len(word) for word in self.words]
        self.pieces = Pieces(np.arange(count), starts, ends)
        self.bounds = window_bounds(count, room, int(draw.integers(1, room + 1)))
        best = best_windows(self.bounds, count)
        self.windows = [
            Window(0, start, len(HEAD), is_best)
            for (start, _), is_best in zip(self.bounds, best, strict=True)
        ]
        self.starts, self.ends = (
            [self._logits(draw, length) for _, length in self.bounds] for _ in range(2)
        )

    def _logits(self, draw, length):
        values = draw.normal(size=len(HEAD) + length + 1).astype(np.float32)
        values[0] += draw.choice([-2, 2])  # [CLS] among the best in about half of the cases
        return values

    def theirs(self, oracle, n_best_size, longest, has_unanswerable, threshold, folder):
        features = [
            types.SimpleNamespace(
                example_index=0,
                unique_id=index,
                tokens=[*HEAD, *self.words[start : start + length], "[SEP]"],
                token_to_orig_map={len(HEAD) + i: start + i for i in range(length)},
                token_is_max_context={
                    len(HEAD) + i: oracle.windows._check_is_max_context(
                        [types.SimpleNamespace(start=s, length=n) for s, n in self.bounds],
                        index,
                        start + i,
                    )
                    for i in range(length)
                },
            )
            for index, (start, length) in enumerate(self.bounds)
        ]
        results = [
            types.SimpleNamespace(unique_id=i, start_logits=s.tolist(), end_logits=e.tolist())
            for i, (s, e) in enumerate(zip(self.starts, self.ends, strict=True))
        ]
        example = types.SimpleNamespace(qas_id="q", doc_tokens=self.words)
        files = [str(folder / name) for name in ("answers", "n_best", "null_odds")]
        answers = oracle.selection.compute_predictions_logits(
            [example],
            features,
            results,
            n_best_size,
            longest,
            True,
            *files,
            False,
            has_unanswerable,
            threshold,
            PlainTokenizer(),
        )
        odds = json.load(open(files[2]))["q"] if has_unanswerable else None
        return answers["q"], json.load(open(files[1]))["q"], odds


@pytest.fixture(scope="module")
def oracle():
    folder = fetch("transformers==4.57.1") / "transformers" / "data"
    logger = types.SimpleNamespace(info=lambda text: None)
    return types.SimpleNamespace(
        selection=functions(
            folder / "metrics" / "squad_metrics.py",
            {
                "get_final_text",
                "_get_best_indexes",
                "_compute_softmax",
                "compute_predictions_logits",
            },
            BasicTokenizer=PlainTokenizer,
            logger=logger,
        ),
        windows=functions(folder / "processors" / "squad.py", {"_check_is_max_context"}),
    )


@pytest.mark.oracle
@pytest.mark.parametrize("has_unanswerable", [False, True])
def test_the_same_answers_are_selected(oracle, has_unanswerable, tmp_path):
    draw = np.random.default_rng(int(has_unanswerable))
    compared = silent = 0
    for _ in range(1500):
        case = Case(draw)
        size, longest = int(draw.integers(1, 21)), int(draw.integers(1, 9))
        question = Question("q", " ".join(QUERY), " ".join(case.words))
        settings = SelectionSettings(size, longest, has_unanswerable, 0.25)
        found = select_answer(question, case.pieces, case.windows, case.starts, case.ends, settings)
        if not found.best_span.text:
            continue  # no span at all, where the oracle answers "empty" or fails
        answer, n_best, odds = case.theirs(oracle, size, longest, has_unanswerable, 0.25, tmp_path)
        compared += 1
        silent += answer == ""
        assert found.answer.text == answer
        # "No answer" takes none of our places, but sometimes one of theirs.
        ours = [candidate for candidate in found.n_best if candidate.text]
        told = [entry for entry in n_best if entry["text"]]
        assert [candidate.text for candidate in ours[: len(told)]] == [e["text"] for e in told]
        assert len(ours) - len(told) in ((0, 1) if has_unanswerable else (0,))
        for candidate, entry in zip(ours, told, strict=False):
            assert candidate.score == pytest.approx(entry["start_logit"] + entry["end_logit"])
        if len(ours) == len(told):
            probabilities = [candidate.probability for candidate in ours]
            assert probabilities == pytest.approx([entry["probability"] for entry in told])
        if has_unanswerable:
            assert found.null_score == approx(odds, FORMULA)
    assert compared > 1000
    assert not has_unanswerable or 100 < silent < compared - 100
