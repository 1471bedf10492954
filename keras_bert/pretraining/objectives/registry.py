"""The objectives by the name that `--objective` gives them."""

from collections.abc import Callable

from keras_bert.choices import ObjectiveName, check_choice
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.objectives.causal_lm import CausalLanguageModel
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.objectives.objective import Objective
from keras_bert.pretraining.options import PretrainingOptions

# One row an objective: what makes it, of the sentence task that the records are labelled for.
_OBJECTIVES: dict[ObjectiveName, Callable[[str], Objective]] = {
    "masked": MaskedLanguageModel,
    "left_to_right": CausalLanguageModel,
}


def create_objective(options: PretrainingOptions, data: PretrainingData) -> Objective:
    """Returns the objective of a run.

    Args:
        options: `objective` and `next_sentence` are used.
        data: the records, whose sentence task it takes.

    Raises:
        ValueError: there is no such objective.
    """
    check_choice("objective", options.objective, ObjectiveName)
    sentence_task = data.sentence_task if options.next_sentence else "none"
    return _OBJECTIVES[options.objective](sentence_task)
