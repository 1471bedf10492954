"""Texts that belong together, as the tasks read them."""

import dataclasses
import numbers

from keras_bert.counts import check_number
from keras_bert.storage.text_lines import check_strings


@dataclasses.dataclass(frozen=True)
class EmbeddingExample:
    """Texts that belong together.

    Attributes:
        texts: one text alone, which learns to be told from others (SimCSE); or one to search with,
            one that is to be found and any number of wrong ones; or two, with a score.
        score: how alike the two texts are, from 0 to 1; None where that is not what is known.
        teacher_scores: what a cross-encoder says of the first text with each of the others, one for
            each of them; None where it was not asked.

    Raises:
        ValueError: one string stands in place of a tuple, a text is none, there is no text, a score
            is no number, or `score` is out of its range or not that of two texts.
    """

    texts: tuple[str, ...]
    score: float | None = None
    teacher_scores: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.texts, str | bytes):  # ("a text") is no tuple: its letters were texts
            raise ValueError(
                f"texts is the string {self.texts[:60]!r}: give a tuple, also of one: (text,)"
            )
        object.__setattr__(self, "texts", tuple(check_strings(self.texts)))  # frozen
        if not self.texts:
            raise ValueError("an example has no texts: give one at least")
        if self.teacher_scores is not None:  # those of `CrossEncoder.scores` are an array
            if not hasattr(self.teacher_scores, "__iter__"):
                raise ValueError(
                    f"teacher_scores is {self.teacher_scores!r}: give a number for each text but "
                    "the first"
                )
            scores = tuple(check_number("a teacher's score", one) for one in self.teacher_scores)
            object.__setattr__(self, "teacher_scores", scores)
        if self.score is None:
            return
        if len(self.texts) != 2:
            raise ValueError(
                f"an example has the score {self.score} and {len(self.texts)} text(s): a score is "
                "that of two"
            )
        if not isinstance(self.score, numbers.Real) or not 0 <= self.score <= 1:  # nor is NaN
            raise ValueError(
                f"the score is {self.score!r}, but scores are numbers from 0 to 1: divide them by "
                "the largest one"
            )

    def __repr__(self) -> str:
        # What tells data of one run from those of another: the same as before there were scores.
        taught = "" if self.teacher_scores is None else f", teacher_scores={self.teacher_scores!r}"
        return f"EmbeddingExample(texts={self.texts!r}, score={self.score!r}{taught})"
