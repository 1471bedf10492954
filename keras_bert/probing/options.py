"""How to probe."""

import dataclasses
import math
from collections.abc import Iterable

from keras_bert.counts import LARGEST_SEED, check_count, needed_count, take_numbers

# Of the probes: as many words as matrix products like.
DEFAULT_BATCH = 512
_SHORTEST = 3  # a word between two special tokens


@dataclasses.dataclass(frozen=True)
class ProbingOptions:
    """How to probe the layers of an encoder.

    Attributes:
        max_train_words: the most words to learn from; whole sentences are drawn until they are so
            many.
        max_eval_words: the most words to choose by, and again to measure on.
        max_seq_length: the most positions of a row; a longer sentence takes several rows. None
            takes 128, or the model's positions where they are fewer.
        batch_size: rows per call of the encoder.
        probe_batch_size: words, or spans, per step of the probes; None takes 512, or fewer where
            there are few words, so that an epoch has 32 steps.
        learning_rate: the first learning rate of the linear probes; each halves its own where its
            loss on development data does not fall.
        max_epochs: the most passes over the words; probes stop before.
        weight_decays: the weight decays of the linear probes to choose from by development loss:
            factors of half the squared weights beside the mean loss.
        edge_probe: train the edge probe, too, with its mix of layers.
        projection_size: width of the edge probe.
        random_weights: probe the same encoder with random weights, too.
        seed: seed of the drawn sentences, the control task, the random weights, the order and the
            fresh weights of the edge probe.

    Raises:
        ValueError: a value is out of its range.
    """

    max_train_words: int = 50_000
    max_eval_words: int = 20_000
    max_seq_length: int | None = None
    batch_size: int = 32
    probe_batch_size: int | None = None
    learning_rate: float = 5e-3
    max_epochs: int = 40
    weight_decays: tuple[float, ...] = (1e-5, 1e-4, 1e-3)
    edge_probe: bool = True
    projection_size: int = 256
    random_weights: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        given = self.weight_decays
        try:
            # The words of a flag are numbers, too, but no letters of one string.
            decays = () if isinstance(given, str) else tuple(map(float, given))
        except (TypeError, ValueError):
            decays = ()
        if not decays or not all(0 <= decay < math.inf for decay in decays):
            is_several = isinstance(given, Iterable) and not isinstance(given, str)
            shown = ", ".join(map(str, given)) if is_several else given
            raise ValueError(
                f"weight_decays are {shown or 'none'}: give numbers of 0 or more, for example "
                "1e-5,1e-3"
            )
        object.__setattr__(self, "weight_decays", decays)
        take_numbers(self)
        for name in (
            *("max_train_words", "max_eval_words", "batch_size"),
            *("max_epochs", "projection_size"),
        ):
            needed_count(name, getattr(self, name))
        check_count("probe_batch_size", self.probe_batch_size)
        check_count("max_seq_length", self.max_seq_length, _SHORTEST)
        needed_count("seed", self.seed, 0, LARGEST_SEED)
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(
                f"learning_rate is {self.learning_rate}: it must be above 0 and finite"
            )
