"""What the masked language model hides as one. No TensorFlow here: options name it."""

from typing import Literal

MaskingStrategy = Literal["token", "whole_word", "ngram"]
STRATEGIES = ("token", "whole_word", "ngram")


def check_shares(
    max_predictions_per_seq: int, masked_lm_prob: float, mask_share: float, random_share: float
) -> None:
    """Raises ValueError unless the numbers of a masking are in their ranges."""
    if max_predictions_per_seq < 1:
        raise ValueError(
            f"max_predictions_per_seq is {max_predictions_per_seq}: it must be at least 1"
        )
    if not 0 < masked_lm_prob <= 1:
        raise ValueError(f"masked_lm_prob is {masked_lm_prob}: it must be above 0 and at most 1")
    if min(mask_share, random_share) < 0 or mask_share + random_share > 1:
        raise ValueError(
            f"mask_share {mask_share} and random_share {random_share} must be shares of one whole"
        )
