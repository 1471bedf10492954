"""The names that options choose from, where several rooms share them.

Flags of tools offer the same names, so nothing is imported here: `--help` shall not wait for
TensorFlow. The comment names where a choice is implemented.
"""

from collections.abc import Iterable
from typing import Any, Literal, get_args

# Bytes of a text file that are not UTF-8: an error, or U+FFFD (data/corpus/).
DecodingErrors = Literal["strict", "replace"]
# What the two segments of an example are labelled for: next sentence, order (data/records/).
SentenceTask = Literal["nsp", "sop", "none"]
# What masking hides as one: a piece, a word, a run of words (text/masking.py).
MaskingStrategy = Literal["token", "whole_word", "ngram"]
# What finds the words of Chinese and Japanese (text/languages/word_boundaries.py).
WordSegmenter = Literal["jieba", "fugashi"]
# Hidden states as features, table 7 of the paper (models/layer_features.py).
LayerStrategy = Literal[
    "concat_last_4", "sum_last_4", "sum_all", "last", "second_to_last", "embeddings"
]
# How vectors of the windows of a long text become one (layers/pooling.py).
WindowPoolingChoice = Literal["mean", "max", "attention"]
# How vectors of the tokens of a text become one that is trained (layers/pooling.py).
TokenPooling = Literal["mean", "cls", "max"]
# Which pairs of labeled texts are learned from (tasks/classification/few_shot.py).
PairSampling = Literal["oversampling", "undersampling", "unique"]
# How scores of words become weights of a sparse vector (layers/pooling.py).
SparseActivation = Literal["relu", "log1p_relu"]
# What gets a vector of its own (tasks/feature_extraction/extraction.py).
FeatureLevel = Literal["piece", "word", "text"]
# How texts get places on a map (visualize/clusters/page.py).
Projection = Literal["pca", "tsne"]
# How a table of positions gets longer (models/surgery/position_extension.py).
PositionExtension = Literal["copy", "interpolate"]
# Formats of model folders that are written (models/conversion/convert.py).
TargetFormat = Literal["keras", "google", "hf", "garden", "gliner"]
WeightsDtype = Literal["float32", "bfloat16", "float16"]  # of the files of such a folder
StrategyName = Literal["auto", "tpu", "mirrored", "multi_worker", "cpu"]  # training/strategy.py
Precision = Literal["auto", "float32", "bfloat16", "float16"]  # training/precision.py
OptimizerName = Literal["adamw", "lamb"]  # training/optimizer.py
ScheduleName = Literal[  # training/schedules.py
    "linear", "polynomial", "cosine", "constant", "warmup_stable_decay"
]
ObjectiveName = Literal[  # pretraining/objectives/registry.py
    "masked", "left_to_right", "electra", "distillation"
]


def check_choice(name: str, value: str, choices: Any) -> None:
    """Checks the value of an option.

    Args:
        name: of the option, for the error.
        value: what was given.
        choices: the `Literal` of the names that it may be.

    Raises:
        ValueError: it is none of them.
    """
    if value not in get_args(choices):
        raise ValueError(f"{name} is {value!r}: choose one of {', '.join(get_args(choices))}")


def layer_names(given: str | Iterable[str | int]) -> tuple[str, ...]:
    """Returns an option that names layers in the form that its flag has.

    Args:
        given: numbers or names of layers, or what the flag says: "0,2" as (0, 2) is ("0", "2").
    """
    names = given.split(",") if isinstance(given, str) and given else given
    return tuple(map(str, names))
