"""How training texts are multiplied."""

import dataclasses

from keras_bert.counts import check_count


@dataclasses.dataclass(frozen=True)
class AugmentationOptions:
    """How texts are changed; the defaults are the paper's (TinyBERT, section 4.1).

    Attributes:
        copies: the most copies of a text; copies that are equal are written once.
        candidates: how many of the likeliest words a word is replaced by.
        replacement_rate: probability that a word is replaced.
        masking_rate: share of the words of a text that are hidden at once when candidates are asked
            for, the others in more copies of it; 0: each word alone, as in the paper. With 0.15, as
            the model was pretrained, a text that the model reads whole costs 7 rows.
        batch_size: masked texts per call of the model.
        seed: seed of the draws.

    Raises:
        ValueError: a value is out of its range.
    """

    copies: int = 20
    candidates: int = 15
    replacement_rate: float = 0.4
    masking_rate: float = 0.0
    batch_size: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("copies", "candidates", "batch_size"):
            check_count(name, getattr(self, name))
        if not 0 <= self.masking_rate <= 0.5:
            raise ValueError(
                f"masking_rate is {self.masking_rate}: it must be from 0 (one word at a time) "
                "to 0.5"
            )
        if not 0 < self.replacement_rate <= 1:
            raise ValueError(
                f"replacement_rate is {self.replacement_rate}: it must be above 0 and at most 1"
            )
