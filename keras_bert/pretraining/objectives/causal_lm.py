"""Left-to-right language model: the baseline that the paper compares its own objective with."""

import dataclasses
from collections.abc import Iterable, Mapping

from keras_bert.config import BertConfig
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.objectives.objective import Batch, Targets
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.masking_strategy import masking_options
from keras_bert.text.next_token import NextTokenTargets


@dataclasses.dataclass(frozen=True)
class CausalLanguageModel(MaskedLanguageModel):
    """The same model, heads and losses; every position sees what is before it and guesses the next.

    Devlin et al. 2018, section 5.1, "LTR". Nothing is hidden, and every next piece that is no
    special token is predicted, under the names of the masked language model.
    """

    name = "left_to_right"

    @property
    def plateaus(self) -> Mapping[str, str]:
        """None: a position sees its own piece, which tells much of the next one."""
        return {}

    def check(self, options: PretrainingOptions, data: PretrainingData) -> None:
        """Refuses masked records and options about masks."""
        self.check_held_out(data)
        # Any of them is one too many: the first is named.
        for name, value in masking_options(options).items():
            raise ValueError(
                f"{name} is {value!r}, but objective {self.name} masks nothing: leave it out"
            )

    def check_held_out(self, data: PretrainingData) -> None:
        """Refuses masked records: there is nothing to be foretold of a piece that is hidden."""
        if data.max_predictions_per_seq is not None:
            raise ValueError(
                f"the records in {data.folder} come with their masks, which objective {self.name} "
                "has no use for: give unmasked records"
            )

    def model_config(self, config: BertConfig) -> BertConfig:
        """Returns the config of an encoder that sees nothing after a position."""
        return config.replace(left_to_right=True)

    def targets(
        self, options: PretrainingOptions, tokenizer: Tokenizer, data: PretrainingData
    ) -> Targets:
        """Returns what asks every position for the next piece."""
        return NextTokenTargets(tokenizer.vocabulary, data.max_seq_length)

    def baselines(self, batches: Iterable[Batch], vocab_size: int) -> dict[str, float]:
        """Returns the accuracy of always foretelling the piece that is most frequent."""
        found = super().baselines(batches, vocab_size)
        return {name: value for name, value in found.items() if name.endswith("_accuracy")}
