"""The objectives by the name that `--objective` gives them."""

from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.objectives.causal_lm import CausalLanguageModel
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.objectives.objective import Objective
from keras_bert.pretraining.options import PretrainingOptions

# One row an objective. Both take the sentence task that their loss counts.
_CLASSES = {cls.name: cls for cls in (MaskedLanguageModel, CausalLanguageModel)}


def create_objective(options: PretrainingOptions, data: PretrainingData) -> Objective:
    """Returns the objective of a run.

    Args:
        options: `objective` and `next_sentence` are used.
        data: the records, whose sentence task it takes.

    Raises:
        ValueError: there is no such objective.
    """
    if options.objective not in _CLASSES:
        raise ValueError(f"objective is {options.objective!r}: choose one of {', '.join(_CLASSES)}")
    sentence_task = data.sentence_task if options.next_sentence else "none"
    return _CLASSES[options.objective](sentence_task)
