"""Questions about a text whose answer is a span of it."""

import dataclasses
from typing import NamedTuple

import numpy as np

from keras_bert.storage.text_lines import check_parts, check_string

QUESTION, CONTEXT = "question", "context"  # columns of files, inputs of signatures

_SHOWN = 40  # characters of an answer in a message


class Answer(NamedTuple):
    """A right answer: its text, and where in the context it starts, in characters."""

    text: str
    start: int

    def check(self, context: str, place: str) -> None:
        """Refuses an answer that is not where it says.

        Args:
            context: the text that it is a part of.
            place: what the sentence calls its question.

        Raises:
            ValueError: something else stands there, or the answer is empty.
        """
        text, start = self
        if not isinstance(start, int | np.integer) or isinstance(start, bool):
            raise ValueError(
                f"{place}: the answer {text[:_SHOWN]!r} starts at {start!r}, expected a number of "
                "characters (answer_start in a file)"
            )
        found = context[max(start, 0) : max(start, 0) + len(text)]
        if start < 0 or found != text or not text:
            elsewhere = context.find(text) if text else -1
            hint = f"; it stands at {elsewhere}" if elsewhere >= 0 else ""
            raise ValueError(
                f"{place}: the answer {text[:_SHOWN]!r} is not at character {start} of its "
                f"context, where {found[:_SHOWN]!r} stands{hint}: fix its start (answer_start in "
                "a file; characters, not bytes)"
            )


@dataclasses.dataclass(frozen=True)
class Question:
    """A question and the text to find its answer in.

    Attributes:
        id: unique in its file.
        question: what is asked.
        context: the text.
        answers: the right answers, as several people gave them; none where the context does not
            hold one, None where they are not known.
        aliases: other spellings of the right answer, which need not stand in the context; they
            count when answers are measured.

    Raises:
        ValueError: question, context or an alias is no string, the aliases are one string, or an
            answer is no `Answer`.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Frozen.
        for name in ("question", "context"):
            object.__setattr__(self, name, check_string(getattr(self, name), f"the {name}"))
        object.__setattr__(self, "aliases", check_parts(self.aliases, "aliases", "alias"))
        if self.answers is None:
            return
        if isinstance(self.answers, Answer):
            raise ValueError("answers is one Answer: give a list, also of one")
        for number, answer in enumerate(self.answers):
            if not isinstance(answer, Answer):
                raise ValueError(
                    f"answer {number} (counted from 0) is a {type(answer).__name__}: give "
                    "Answer(text, start), with the character of the context that it starts at"
                )
        object.__setattr__(self, "answers", tuple(self.answers))

    @property
    def right_texts(self) -> tuple[str, ...]:
        """All that counts as the right answer; empty where there is none, or it is not known."""
        return (*(answer.text for answer in self.answers or ()), *self.aliases)


class Candidate(NamedTuple):
    """A span that may be the answer.

    Attributes:
        text: as it stands in the context; empty for "there is no answer".
        start: first character in the context; -1 for no answer.
        end: behind the last character; -1 for no answer.
        score: sum of both logits.
        probability: among the candidates of its question.
    """

    text: str
    start: int
    end: int
    score: float
    probability: float


@dataclasses.dataclass(frozen=True)
class AnsweredQuestion:
    """The prediction for a question.

    Attributes:
        answer: what is answered; may be the empty one.
        best_span: the best answer that is not empty, whatever is answered; empty only where the
            context holds no piece.
        null_score: how much likelier "there is no answer" is than `best_span`: the difference of
            their scores. Above the threshold of the head the answer is empty.
        n_best: the likeliest candidates, the best first.
    """

    answer: Candidate
    best_span: Candidate
    null_score: float
    n_best: tuple[Candidate, ...]
