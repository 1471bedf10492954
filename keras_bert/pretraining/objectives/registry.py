"""The objectives by the name that `--objective` gives them."""

from collections.abc import Callable

from keras_bert.choices import ObjectiveName, check_choice
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.objectives.causal_lm import CausalLanguageModel
from keras_bert.pretraining.objectives.distillation import Distillation
from keras_bert.pretraining.objectives.electra import Electra
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.objectives.objective import Objective
from keras_bert.pretraining.options import DISTILLATION_OPTIONS, PretrainingOptions

# One row an objective: what makes it, of the sentence task that the records are labelled for.
_OBJECTIVES: dict[ObjectiveName, Callable[[str], Objective]] = {
    "masked": MaskedLanguageModel,
    "left_to_right": CausalLanguageModel,
    "electra": Electra,
    "distillation": Distillation,
}


def create_objective(options: PretrainingOptions, data: PretrainingData) -> Objective:
    """Returns the objective of a run.

    Args:
        options: `objective` and `next_sentence` are used; distillation takes its own settings.
        data: the records, whose sentence task it takes.

    Raises:
        ValueError: there is no such objective, or an option is for another one.
    """
    if options.objective == "distillation":
        return Distillation(settings=options)
    for name, default in DISTILLATION_OPTIONS.items():
        value = getattr(options, name)
        if value != default:
            raise ValueError(
                f"{name} is {value!r}, but objective {options.objective} has no teacher: leave it "
                "out, or take --objective=distillation"
            )
    return objective_named(
        options.objective, data.sentence_task if options.next_sentence else "none"
    )


def objective_named(name: ObjectiveName, sentence_task: str = "nsp") -> Objective:
    """Returns an objective for records of a sentence task, see `create_objective`."""
    check_choice("objective", name, ObjectiveName)
    return _OBJECTIVES[name](sentence_task)
