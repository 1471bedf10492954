"""What an export is asked for."""

import dataclasses
from typing import Literal

ServingDtype = Literal["float32", "bfloat16", "int8"]
DTYPES: tuple[ServingDtype, ...] = ("float32", "bfloat16", "int8")


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Settings of an export.

    Attributes:
        dtype: of weights and arithmetic. bfloat16 halves the file and is faster on processors that
            have it; scores move in the third digit. int8 is Keras's quantization of the dense
            layers: a smaller file, but slower. What signatures return is float32 always.
        max_seq_length: the most positions of a row, longer texts are cut (long contexts of
            questions and long texts of a tagger are read in several rows); None takes what the
            model was trained with, for pretrained models all its positions.
        max_batch: the most examples of a request; None sets no limit.
        max_text_bytes: the most bytes of a text; None sets no limit.
        top_k: how many guesses a masked language model gives for each mask.

    Raises:
        ValueError: the dtype is unknown or a number is below 1.
    """

    dtype: ServingDtype = "float32"
    max_seq_length: int | None = None
    max_batch: int | None = None
    max_text_bytes: int | None = None
    top_k: int = 5

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}: choose one of {', '.join(DTYPES)}")
        for name in ("max_batch", "max_text_bytes", "top_k"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: it must be at least 1")
