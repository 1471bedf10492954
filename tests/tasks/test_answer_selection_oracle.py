"""Which answer is selected, against the functions that transformers 4 took from run_squad.py."""

import ast
import collections
import json
import math
import types

import numpy as np
import pytest
from published_packages import fetch

from keras_bert import BertTokenizer
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.tasks import span_oracle
from tests.tolerances import FORMULA, approx

# Plain lower-case words, for which the oracle's way back to the text is exact.
WORDS = [f"w{letter}" for letter in "abcdefghijkl"]
QUERY = ["which", "one"]
HEAD = ["[CLS]", *QUERY, "[SEP]"]
TOKENIZER = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *QUERY, *WORDS]))


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

    def __init__(self, draw, room, stride):
        count = draw.integers(1, 30)
        self.words = draw.choice(WORDS, count).tolist()
        self.question = Question("q", " ".join(QUERY), " ".join(self.words))
        self.bounds = span_oracle.window_bounds(count, room, stride)
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
@pytest.mark.parametrize("has_unanswerable", [pytest.param(False, marks=pytest.mark.long), True])
def test_the_same_answers_are_selected(oracle, has_unanswerable, tmp_path):
    draw = np.random.default_rng(int(has_unanswerable))
    compared = silent = 0
    for _ in range(30):
        room, size, longest = draw.integers([2, 1, 1], [12, 21, 9]).tolist()
        stride = int(draw.integers(1, room + 1))
        head = SpanHead(has_unanswerable, stride, len(QUERY), longest, size, 0.25)
        cases = [Case(draw, room, stride) for _ in range(50)]
        for case, found in zip(cases, ours(head, room, cases), strict=True):
            same, is_silent = check(case, found, oracle, head, tmp_path)
            compared += same
            silent += is_silent
    assert compared > 1000
    assert not has_unanswerable or 50 < silent < compared - 50


def ours(head, room, cases):
    """The answers of a head to all cases from their logits."""
    questions = [case.question for case in cases]
    encoded = head.encode(TOKENIZER, questions, len(HEAD) + room + 1, "tokenizing")
    outputs = {
        "start_logits": [row for case in cases for row in case.starts],
        "end_logits": [row for case in cases for row in case.ends],
    }
    return head.predictions(outputs, encoded, questions)


def check(case, found, oracle, head, folder):
    """Compares the answers to a case; returns whether there is one, and whether it is empty."""
    if not found.best_span.text:
        return False, False  # no span at all, where the oracle answers "empty" or fails
    has_unanswerable = head.has_unanswerable
    answer, n_best, odds = case.theirs(
        oracle, head.n_best_size, head.max_answer_length, has_unanswerable, 0.25, folder
    )
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
    return True, answer == ""
