"""The one schema: names, dtypes and shapes of everything that travels from disk to server.

A TFRecord feature, a batch key, a model input and a serving signature share one name, so nothing is
renamed on the way. The names are those of google-research/bert.

Shapes use: B batch, S sequence length, P predictions per sequence.
"""

from typing import NamedTuple

INPUT_IDS = "input_ids"
INPUT_MASK = "input_mask"
SEGMENT_IDS = "segment_ids"
MASKED_LM_POSITIONS = "masked_lm_positions"
MASKED_LM_IDS = "masked_lm_ids"
MASKED_LM_WEIGHTS = "masked_lm_weights"
NEXT_SENTENCE_LABELS = "next_sentence_labels"
EXAMPLE_WEIGHTS = "example_weights"
PACK_IDS = "pack_ids"
POSITION_IDS = "position_ids"
# Of records whose words a segmenter found, [B, S]: 1 where a piece goes on with the word before it,
# 0 where it begins one, -1 where nobody told. Masks follow from it; no model sees it.
WORD_CONTINUATIONS = "word_continuations"


class Feature(NamedTuple):
    """One named tensor: its axes (letters of the module docstring) and its dtype."""

    name: str
    axes: str
    dtype: str


ENCODER_FEATURES = (
    Feature(INPUT_IDS, "BS", "int32"),
    Feature(INPUT_MASK, "BS", "int32"),
    Feature(SEGMENT_IDS, "BS", "int32"),
)
# Of sequences that hold several documents: which document a piece belongs to, from 1 up and 0 for
# padding, and its position in that document.
PACKING_FEATURES = (
    Feature(PACK_IDS, "BS", "int32"),
    Feature(POSITION_IDS, "BS", "int32"),
)
MASKED_LM_FEATURES = (
    Feature(MASKED_LM_POSITIONS, "BP", "int32"),
    Feature(MASKED_LM_IDS, "BP", "int32"),
    Feature(MASKED_LM_WEIGHTS, "BP", "float32"),
)
PRETRAINING_FEATURES = (
    *ENCODER_FEATURES,
    *MASKED_LM_FEATURES,
    Feature(NEXT_SENTENCE_LABELS, "B", "int32"),
)
