"""Texts that belong together, as the tasks read them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class EmbeddingExample:
    """Texts that belong together.

    Attributes:
        texts: one text alone, which learns to be told from others (SimCSE); or one to search with,
            one that is to be found and any number of wrong ones; or two, with a score.
        score: how alike the two texts are, from 0 to 1; None where that is not what is known.
    """

    texts: tuple[str, ...]
    score: float | None = None
