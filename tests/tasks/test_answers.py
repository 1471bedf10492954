"""Answers and their scores. Oracles: by hand; the official scorers of SQuAD."""

import ast
import collections
import dataclasses
import math
import random
import types

import numpy as np
import pytest
from published_packages import fetch

from keras_bert import BertTokenizer
from keras_bert.tasks.question_answering import metrics, windows
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.questions import (
    Answer,
    AnsweredQuestion,
    Candidate,
    Question,
)
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.tasks import span_oracle
from tests.tolerances import FORMULA, approx

COLORS = ["red", "green", "blue"]
TOKENIZER = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, "which", "one", *COLORS]))
QUESTION = Question("q", "which one", "red green blue", ())


def logits(cls, *pieces):
    """Of the row [CLS] which one [SEP] red green blue [SEP]."""
    return np.array([cls, -9, -9, -9, *pieces, -9], np.float32)


def select(starts, ends, question=QUESTION, max_seq_length=32, **changes):
    head = SpanHead(**{"has_unanswerable": True, "max_query_length": 2} | changes)
    encoded = head.encode(TOKENIZER, [question], max_seq_length, "tokenizing")
    assert encoded.row_lengths.tolist() == [len(row) for row in starts]
    outputs = {"start_logits": starts, "end_logits": ends}
    [found] = head.predictions(outputs, encoded, [question])
    return found


def test_the_best_span_wins():
    found = select([logits(0, 1, 5, 0)], [logits(0, 9, 1, 4)])
    # 5 + 4: "green blue"; a start behind its end (5 + 9) is no span; "red" has 1 + 9 = 10.
    assert found.answer[:4] == ("red", 0, 3, 10.0)
    assert found.n_best[1][:4] == ("green blue", 4, 14, 9.0)
    assert found.null_score == 0 + 0 - 10


def test_probabilities_are_a_softmax_over_the_candidates():
    found = select([logits(0, 2, 1, 0)], [logits(0, 2, 1, 0)], max_answer_length=1)
    # "red" 4, "green" 2, "blue" 0, no answer 0.
    odds = [math.exp(score) for score in (4, 2, 0, 0)]
    for candidate, odd in zip(found.n_best, odds, strict=True):
        assert candidate.probability == approx(odd / sum(odds), FORMULA)


def test_no_answer_is_taken_above_the_threshold():
    starts, ends = [logits(3, 2, 0, 0)], [logits(3, 2, 0, 0)]
    found = select(starts, ends)
    assert found.answer[:3] == ("", -1, -1) and found.null_score == 2.0
    assert found.best_span.text == "red"
    assert select(starts, ends, null_threshold=2.0).answer.text == "red"
    assert select(starts, ends, has_unanswerable=False).answer.text == "red"


def test_an_answer_longer_than_allowed_is_none():
    starts, ends = [logits(0, 9, 1, 1)], [logits(0, 1, 1, 9)]
    assert select(starts, ends).answer.text == "red green blue"
    # Of at most two pieces: "green blue" 1 + 9 and "blue" 1 + 9, "red" 9 + 1, "red green" 9 + 1.
    assert select(starts, ends, max_answer_length=2).answer.score == 10.0


def test_a_piece_counts_only_in_its_best_window_and_null_is_the_least_of_all():
    # Windows "red green" and "green blue". "green" starts with 50 in the second one, but both show
    # it with no context on its poorer side, and the first one wins.
    starts, ends = ([logits(5, 0, 0), logits(1, 50, 2)], [logits(5, 0, 0), logits(1, 0, 2)])
    found = select(starts, ends, max_seq_length=7, doc_stride=1)
    assert found.answer[:4] == ("blue", 10, 14, 4.0)
    assert found.null_score == 2.0 - 4.0


def test_a_text_that_stands_twice_is_one_candidate_with_its_best_score():
    question = Question("q", "which one", "red blue red", ())
    found = select([logits(0, 1, 0, 3)], [logits(0, 1, 0, 3)], question, max_answer_length=1)
    told = [candidate[:4] for candidate in found.n_best]
    # The empty answer stands behind a span of the same score.
    assert told == [("red", 9, 12, 6.0), ("blue", 4, 8, 0.0), ("", -1, -1, 0.0)]


def test_a_context_without_pieces_gives_no_answer_and_no_crash():
    empty = Question("q", "which one", "", ())
    found = select([logits(0)], [logits(0)], empty, has_unanswerable=False)
    assert found.answer == found.best_span == ("", -1, -1, 0.0, 1.0)
    assert found.null_score == 0.0


def random_question(draw):
    context = " ".join(draw.choice([*COLORS, "RED", "gr\u00e9en", "\u65e5"], draw.integers(0, 40)))
    return Question("q", " ".join(draw.choice(COLORS, draw.integers(0, 4))), context)


@pytest.mark.parametrize("has_unanswerable", [False, True])
def test_random_logits_give_the_answers_of_the_loops(has_unanswerable, monkeypatch):
    if has_unanswerable:  # long contexts, of which few are worked on at a time
        monkeypatch.setattr(windows, "_CHARACTERS_PER_CHUNK", 300)
    draw = np.random.default_rng(int(has_unanswerable))
    for _ in range(1 if has_unanswerable else 4):
        head = SpanHead(has_unanswerable, *draw.integers(1, [9, 9, 21, 21]).tolist(), -1.0)
        longest = head.max_query_length + 3 + int(draw.integers(1, 20))
        # More than one call makes windows of; some share a context.
        count = 120 if has_unanswerable else 200
        questions = [random_question(draw) for _ in range(count)]
        again = [draw.choice(questions) for _ in range(count // 2)]
        questions += [dataclasses.replace(question, id="r") for question in again]
        encoded = head.encode(TOKENIZER, questions, longest, "tokenizing")
        assert len(encoded.chunks) > (50 if has_unanswerable else 1)
        # Few different values, so that scores are often equal.
        starts, ends = (
            [draw.integers(-4, 4, n).astype(np.float32) for n in encoded.row_lengths] for _ in "se"
        )
        outputs = {"start_logits": starts, "end_logits": ends}
        found = head.predictions(outputs, encoded, questions)
        told = span_oracle.answers(TOKENIZER, head, longest, questions, starts, ends)
        for answer, expected in zip(found, told, strict=True):
            n_best = [candidate[:4] for candidate in answer.n_best]
            assert n_best == [candidate[:4] for candidate in expected.n_best]
            for one, two in zip(answer.n_best, expected.n_best, strict=True):
                assert one.probability == approx(two.probability, FORMULA)
            assert answer.answer[:4] == expected.answer[:4]
            assert answer.best_span[:4] == expected.best_span[:4]
            assert answer.null_score == expected.null_score
        assert len({answer.answer.text for answer in found}) > 5


def answered(text, null_score=-1.0, best=None):
    candidate = Candidate(text, 0, len(text), 0.0, 1.0)
    span = candidate if best is None else Candidate(best, 0, len(best), 0.0, 1.0)
    return AnsweredQuestion(candidate, span, null_score, (candidate,))


def asked(*answers):
    return Question("q", "?", "", tuple(Answer(text, 0) for text in answers))


def test_scores_by_hand():
    assert metrics.normalize_answer(" The  Cat, (an Act)! ") == "cat act"
    assert metrics.answer_exact_match("the cat.", "Cat") == 1.0
    # Two of three words right, two of two found: 2 * 2 / (3 + 2).
    assert metrics.answer_f1("big black cat", "the black cat") == pytest.approx(0.8)
    assert metrics.answer_f1("", "the") == 1.0  # nothing but an article is no word
    assert metrics.answer_f1("cat", "") == 0.0
    predictions = [answered("black cat"), answered("")]
    questions = [asked("cat", "black cat"), asked()]
    assert metrics.exact_match(predictions, questions) == 1.0
    assert metrics.f1([answered("cat"), answered("dog")], questions) == 0.5
    assert metrics.has_answer_f1(predictions, questions) == 1.0
    assert metrics.no_answer_accuracy([answered("x"), answered("x")], questions) == 0.0


def test_the_threshold_by_hand():
    questions = [asked("cat"), asked(), asked("dog"), asked()]
    predictions = [
        answered("cat", -4.0),
        answered("x", -1.0),
        answered("dog", 0.5),
        answered("y", 2.0),
    ]
    # Answering up to -4: 1 + 2 silent = 3. Up to -1: 2. Up to 0.5: 3. The first best counts.
    assert metrics.best_null_threshold(predictions, questions) == -4.0
    questions[1] = asked("x")
    assert metrics.best_null_threshold(predictions, questions) == 0.5
    assert metrics.best_null_threshold([answered("x", 3.0)], [asked()]) == 0.0


def test_a_threshold_below_all_scores_where_silence_is_best():
    # The null scores are differences of logits: 0 would let both be answered.
    predictions = [answered("x", -3.0), answered("y", -2.0)]
    assert metrics.best_null_threshold(predictions, [asked(), asked("cat")]) < -3.0


def test_questions_of_one_null_score_are_answered_together_or_not_at_all():
    # By hand: silence is right for two of four. A threshold of -3 would answer all, one of them
    # right; as the first of them adds a point, the official scorer stops there.
    predictions = [answered("cat", -3.0)] * 4
    questions = [asked("cat"), asked("dog"), asked(), asked()]
    assert metrics.best_null_threshold(predictions, questions) < -3.0
    # Of two that are right with the same score both are answered, of a third above them none.
    questions = [asked("cat"), asked("cat"), asked()]
    predictions = [answered("cat", -1.0), answered("cat", -1.0), answered("x", 2.0)]
    assert metrics.best_null_threshold(predictions, questions) == -1.0


def test_no_threshold_is_better_than_the_best():
    """Oracle: the F1 of every threshold that there is, by trying all of them."""
    draw = random.Random(3)
    for _ in range(200):
        size = draw.randint(1, 8)
        questions = [
            asked(*draw.choices(["cat", "dog"], k=draw.randint(0, 1))) for _ in range(size)
        ]
        scores = [float(draw.randint(-3, 3)) for _ in range(size)]  # many are equal
        predictions = [answered(draw.choice(["cat", "dog"]), score) for score in scores]

        def reached(threshold, questions=questions, predictions=predictions):
            told = [
                dataclasses.replace(p, answer=answered("").answer)
                if p.null_score > threshold
                else p
                for p in predictions
            ]
            return metrics.f1(told, questions)

        found = metrics.best_null_threshold(predictions, questions)
        assert reached(found) == pytest.approx(max(map(reached, [-9.0, *scores])))


WORDS = "the a an cat dog, black. big! (red) it's 12 naïve 日本 - cat cat".split()


def oracle_functions(path):
    """The functions of a published scorer, without the package around it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kept = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.Import)]
    names = {"Counter": collections.Counter}
    exec(compile(ast.Module(kept, []), str(path), "exec"), names)
    return types.SimpleNamespace(**names)


def random_text(draw):
    return " ".join(draw.choices(WORDS, k=draw.randint(0, 5)))


@pytest.mark.oracle
def test_thousands_of_cases_equal_the_official_scorer_of_squad_1():
    # allennlp carries the official script.
    oracle = oracle_functions(fetch("allennlp==0.9.0") / "allennlp/tools/squad_eval.py")
    draw = random.Random(0)
    for _ in range(100):
        questions = [
            asked(*(random_text(draw) for _ in range(draw.randint(1, 3)))) for _ in range(50)
        ]
        predictions = [answered(random_text(draw)) for _ in questions]
        entries = [
            {"id": index, "answers": [{"text": answer.text} for answer in question.answers]}
            for index, question in enumerate(questions)
        ]
        texts = {index: p.answer.text for index, p in enumerate(predictions)}
        expected = oracle.evaluate([{"paragraphs": [{"qas": entries}]}], texts)
        exact = metrics.squad1_exact_match(predictions, questions)
        assert 100 * exact == pytest.approx(expected["exact_match"])
        f1 = metrics.squad1_f1(predictions, questions)
        assert 100 * f1 == pytest.approx(expected["f1"])


def test_version_1_counts_right_answers_without_words():
    questions = [asked("The", "cat")]
    assert metrics.squad1_exact_match([answered("a")], questions) == 1.0
    assert metrics.squad1_f1([answered("a")], questions) == 0.0
    assert metrics.squad1_f1([answered("a cat")], questions) == 1.0
    # Version 2.0 leaves "The" out where there is another answer.
    assert metrics.exact_match([answered("a")], questions) == 0.0


def test_version_1_finds_nothing_right_where_there_is_no_answer():
    # By hand: one of two is right, with all of its words; the other has no right answer.
    questions, predictions = [asked("cat"), asked()], [answered("a cat"), answered("cat")]
    assert metrics.squad1_exact_match(predictions, questions) == 0.5
    assert metrics.squad1_f1(predictions, questions) == 0.5


@pytest.mark.oracle
def test_thousands_of_cases_equal_the_official_scorer_of_squad_2():
    # transformers 4 carries the official script's functions.
    oracle = oracle_functions(
        fetch("transformers==4.57.1") / "transformers/data/metrics/squad_metrics.py"
    )
    draw = random.Random(1)
    for _ in range(80):
        questions = [
            asked(*(random_text(draw) for _ in range(draw.randint(0, 3)))) for _ in range(60)
        ]
        scores = draw.sample(range(1000), 60)
        predictions = [answered(random_text(draw), float(score) - 500) for score in scores]
        examples = [
            types.SimpleNamespace(
                qas_id=str(index), answers=[{"text": a.text} for a in question.answers]
            )
            for index, question in enumerate(questions)
        ]
        texts = {str(i): p.answer.text for i, p in enumerate(predictions)}
        exact, f1 = oracle.get_raw_scores(examples, texts)
        expected = oracle.make_eval_dict(exact, f1)
        ours = metrics.exact_match(predictions, questions)
        assert 100 * ours == pytest.approx(expected["exact"])
        assert 100 * metrics.f1(predictions, questions) == pytest.approx(expected["f1"])

        right = {
            str(i): metrics.right_answers(question) != [""] for i, question in enumerate(questions)
        }
        null_scores = {str(i): p.null_score for i, p in enumerate(predictions)}
        best, threshold = oracle.find_best_thresh(texts, f1, null_scores, right)
        found = metrics.best_null_threshold(predictions, questions)
        if best == 100.0 * sum(not flag for flag in right.values()) / len(right):
            assert found < min(null_scores.values())  # no answer at all is best
        else:
            assert found == threshold
        parts = {
            flag: [key for key, has_answer in right.items() if has_answer == flag]
            for flag in (True, False)
        }
        has = oracle.make_eval_dict(exact, f1, parts[True])["f1"]
        no = oracle.make_eval_dict(exact, f1, parts[False])["f1"]
        assert 100 * metrics.has_answer_f1(predictions, questions) == pytest.approx(has)
        assert 100 * metrics.no_answer_accuracy(predictions, questions) == pytest.approx(no)


def test_f1_of_many_random_answers_equals_a_slow_count():
    # The definition again with sets of words taken one by one.
    draw = random.Random(1)

    def slow(predicted, right):
        left, count = right.copy(), 0
        for word in predicted:
            if word in left:
                left.remove(word)
                count += 1
        if not predicted or not right:
            return float(predicted == right)
        if not count:
            return 0.0
        precision, recall = count / len(predicted), count / len(right)
        return 2 * precision * recall / (precision + recall)

    for _ in range(3000):
        one, two = (draw.choices(["cat", "dog", "red", "blue"], k=draw.randint(0, 5)) for _ in "ab")
        found = metrics.answer_f1(" ".join(one), " ".join(two))
        assert found == pytest.approx(slow(one, two))
