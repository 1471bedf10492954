"""Exact match and F1 of answers, as the official scorers of SQuAD 1.1 and 2.0 define them.

Percentages there, fractions from 0 to 1 here. A question without an answer has the one right answer
"", and only it counts; where there are several right answers the best match counts. Both versions
differ in right answers of which nothing is left but articles and punctuation.
"""

import collections
import functools
import math
import re
import string
from collections.abc import Callable, Sequence

from keras_bert.tasks.question_answering.questions import AnsweredQuestion, Question

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Returns the words of an answer that count.

    Lower case, no ASCII punctuation, no articles, single spaces.
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def answer_exact_match(predicted: str, right: str) -> float:
    """Returns 1 where both are the same words, else 0."""
    return float(normalize_answer(predicted) == normalize_answer(right))


def answer_f1(predicted: str, right: str) -> float:
    """Returns the F1 of the words; where one of both has none, whether the other has none too."""
    words = normalize_answer(predicted).split()
    right_words = normalize_answer(right).split()
    if not words or not right_words:
        return float(words == right_words)
    same = sum((collections.Counter(words) & collections.Counter(right_words)).values())
    return 2.0 * same / (len(words) + len(right_words))


def right_answers(question: Question) -> list[str]:
    """Returns the answers that count: those with a word in them, or "" where there are none."""
    return [text for text in question.right_texts if normalize_answer(text)] or [""]


def best_score(score: Callable[[str, str], float], predicted: str, question: Question) -> float:
    """Returns the best score of an answer against all right answers."""
    return max(score(predicted, right) for right in right_answers(question))


def _mean(
    score: Callable[[str, Question], float],
    predictions: Sequence[AnsweredQuestion],
    references: Sequence[Question],
    chosen: Callable[[Question], bool] = lambda question: True,
) -> float:
    scores = [
        score(answered.answer.text, question)
        for answered, question in zip(predictions, references, strict=True)
        if chosen(question)
    ]
    return sum(scores) / len(scores) if scores else 0.0


_f1 = functools.partial(best_score, answer_f1)


def exact_match(predictions: Sequence[AnsweredQuestion], references: Sequence[Question]) -> float:
    """Returns the fraction of questions that are answered with the words of a right answer."""
    return _mean(functools.partial(best_score, answer_exact_match), predictions, references)


def f1(predictions: Sequence[AnsweredQuestion], references: Sequence[Question]) -> float:
    """Returns the mean F1 of the answers."""
    return _mean(_f1, predictions, references)


def _has_answer(question: Question) -> bool:
    return right_answers(question) != [""]


def has_answer_f1(predictions: Sequence[AnsweredQuestion], references: Sequence[Question]) -> float:
    """Returns the mean F1 over the questions that have an answer; 0 where there are none."""
    return _mean(_f1, predictions, references, _has_answer)


def no_answer_accuracy(
    predictions: Sequence[AnsweredQuestion], references: Sequence[Question]
) -> float:
    """Returns the fraction of unanswerable questions left unanswered; 0 where there are none."""
    return _mean(_f1, predictions, references, lambda question: not _has_answer(question))


def squad1_exact_match(
    predictions: Sequence[AnsweredQuestion], references: Sequence[Question]
) -> float:
    """Returns `exact_match` by version 1.1: a right answer without a word, such as "A", counts.

    A question without an answer, which there is none of in 1.1, counts 0 whatever is answered.
    """
    return _mean(
        lambda predicted, question: max(
            (answer_exact_match(predicted, right) for right in question.right_texts), default=0.0
        ),
        predictions,
        references,
    )


def squad1_f1(predictions: Sequence[AnsweredQuestion], references: Sequence[Question]) -> float:
    """Returns `f1` by version 1.1: where no word is in common it is 0, even if there is no word."""
    return _mean(
        lambda predicted, question: (
            _f1(predicted, question) if normalize_answer(predicted) else 0.0
        ),
        predictions,
        references,
    )


def best_null_threshold(
    predictions: Sequence[AnsweredQuestion], references: Sequence[Question]
) -> float:
    """Returns the null score up to which a question had best be answered, by mean F1.

    It is one of the null scores, as the official scorer of SQuAD 2.0 finds it. Where no question
    had best be answered at all it lies below all of them; that scorer names 0 then, which is below
    its probabilities, but not below a difference of logits. Questions with equal null scores are
    answered together or not at all, which that scorer overlooks.

    Args:
        predictions: of the validation data.
        references: its questions.
    """
    pairs = sorted(zip(predictions, references, strict=True), key=lambda pair: pair[0].null_score)
    score = best = float(sum(not _has_answer(question) for question in references))
    threshold = min(0.0, pairs[0][0].null_score - 1.0)
    following = [*(answered.null_score for answered, _ in pairs[1:]), math.inf]
    for (answered, question), next_score in zip(pairs, following, strict=True):
        # One more question is answered: it gains its F1, or loses the point of a right silence.
        if _has_answer(question):
            score += best_score(answer_f1, answered.best_span.text, question)
        elif answered.best_span.text:
            score -= 1.0
        if score > best and answered.null_score < next_score:
            best, threshold = score, answered.null_score
    return threshold
