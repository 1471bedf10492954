"""How to learn from a few texts a class. Imports no TensorFlow: flags are made of it."""

import dataclasses
import math

from keras_bert.choices import PairSampling, Precision, TokenPooling, check_choice
from keras_bert.counts import LARGEST_SEED, check_count, check_number, needed_count, take_numbers


@dataclasses.dataclass(frozen=True)
class FewShotOptions:
    """How to learn from a few texts a class; the defaults are those of the package setfit.

    Attributes:
        sampling: which pairs of texts are learned from, see `labeled_pairs`.
        num_iterations: so many pairs of each kind for every text, in place of sampling; None leaves
            it to that.
        epochs: passes over the pairs.
        batch_size: pairs per step; texts per call of the model behind it.
        learning_rate: the peak of the learning rate of the encoder.
        max_seq_length: the most positions of a row; None takes 128, or the model's positions where
            they are fewer.
        pooling: how vectors of tokens become that of a text, "mean", "cls" or "max"; None takes
            what the model folder says, else the mean.
        c: how much a text counts in the logistic regression beside the penalty on its kernel.
        seed: of the pairs and their order, and of dropout.
        mixed_precision: number format in which the encoder learns, see `FinetuningOptions`.

    Raises:
        ValueError: a value is out of its range.
    """

    sampling: PairSampling = "oversampling"
    num_iterations: int | None = None
    epochs: int = 1
    batch_size: int = 16
    learning_rate: float = 2e-5
    max_seq_length: int | None = None
    pooling: TokenPooling | None = None
    c: float = 1.0
    seed: int = 0
    mixed_precision: Precision = "auto"

    def __post_init__(self) -> None:
        take_numbers(self)
        check_choice("sampling", self.sampling, PairSampling)
        if self.pooling is not None:
            check_choice("pooling", self.pooling, TokenPooling)
        check_choice("mixed_precision", self.mixed_precision, Precision)
        check_count("num_iterations", self.num_iterations)
        check_count("max_seq_length", self.max_seq_length)
        needed_count("epochs", self.epochs)
        needed_count("batch_size", self.batch_size)
        needed_count("seed", self.seed, 0, LARGEST_SEED)
        for name in ("learning_rate", "c"):
            if not 0 < check_number(name, getattr(self, name)) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be above 0 and finite")
