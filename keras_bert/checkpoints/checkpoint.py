"""What every reader returns and every writer takes: a model as named arrays."""

import dataclasses
from typing import Any

import numpy as np

from keras_bert.checkpoints.model_classes import WORD_PREDICTORS
from keras_bert.checkpoints.variables import OUTPUT_EMBEDDINGS
from keras_bert.config import BertConfig

# What the logits of a classifier mean, in the words of transformers.
PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")


@dataclasses.dataclass(frozen=True)
class MappingReport:
    """What became of every tensor of a checkpoint.

    Attributes:
        mapped: names of the tensors read, by the variable path they went to.
        dropped: names of tensors left behind, with the reason.
        new: variable paths that the checkpoint does not hold.
    """

    mapped: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    dropped: dict[str, str] = dataclasses.field(default_factory=dict)
    new: tuple[str, ...] = ()

    @property
    def tensors_mapped(self) -> int:
        """Number of tensors that went into a variable."""
        return sum(len(names) for names in self.mapped.values())

    @property
    def tensors_read(self) -> int:
        """Number of tensors that the checkpoint holds."""
        return self.tensors_mapped + len(self.dropped)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A model without code: its numbers, which head it has, and its weights.

    Attributes:
        config: the encoder's numbers.
        architecture: name of the model class, such as "BertMaskedLM".
        head: arguments of the head: `num_classes` and `labels` of the classifiers, `problem_type`
            of those of texts, otherwise empty.
        variables: float32 arrays by variable path.
        report: where they came from.
        untied: why the masked language model head cannot be built, None if it can: its output
            matrix is not the word embedding. The encoder is sound all the same.
    """

    config: BertConfig
    architecture: str
    head: dict[str, Any]
    variables: dict[str, np.ndarray]
    report: MappingReport = MappingReport()
    untied: str | None = None

    @property
    def predicts_words(self) -> bool:
        """Whether it holds a trained head that predicts words."""
        if self.architecture not in WORD_PREDICTORS:
            return False
        if self.config.has_masked_lm_transform:
            return "masked_lm_bias/bias" in self.variables
        return self.config.ties_words or OUTPUT_EMBEDDINGS in self.variables

    def check_masked_lm(self) -> None:
        """Makes sure that the masked language model head can be built.

        Raises:
            ValueError: it is untied.
        """
        if self.untied:
            raise ValueError(
                f"{self.untied}; this BERT ties the two. The encoder can be used alone: "
                "BertEncoder.from_preset(folder).save_to_preset(new_folder)"
            )
