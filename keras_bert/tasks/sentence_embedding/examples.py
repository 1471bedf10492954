"""Texts that belong together, as the tasks read them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class EmbeddingExample:
    """Texts that belong together.

    Attributes:
        texts: one text alone, which learns to be told from others (SimCSE); or one to search with,
            one that is to be found and any number of wrong ones; or two, with a score.
        score: how alike the two texts are, from 0 to 1; None where that is not what is known.
        teacher_scores: what a cross-encoder says of the first text with each of the others, one for
            each of them; None where it was not asked.
    """

    texts: tuple[str, ...]
    score: float | None = None
    teacher_scores: tuple[float, ...] | None = None

    def __repr__(self) -> str:
        # What tells data of one run from those of another: the same as before there were scores.
        taught = "" if self.teacher_scores is None else f", teacher_scores={self.teacher_scores!r}"
        return f"EmbeddingExample(texts={self.texts!r}, score={self.score!r}{taught})"
