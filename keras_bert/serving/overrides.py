"""What a user overrides of a fine-tuned model, which the folders of other libraries do not tell."""

from keras_bert.config import BertConfig
from keras_bert.finetuning.task import TaskDescription
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.kinds import KINDS, kind_of


def with_overrides(
    description: TaskDescription, options: ExportOptions, config: BertConfig
) -> TaskDescription:
    """Returns a task with what the options override in it.

    Args:
        description: the task; without a name where the model is of another library.
        options: settings of the export.
        config: the numbers of the model.

    Raises:
        ValueError: the options contradict it, or are of another head.
    """
    check_overrides(description, options)
    kind = kind_of(description)
    if kind.override is None or kind.override_value(options) is None:
        return description
    return kind.override(description, options, config)


def check_overrides(description: TaskDescription | None, options: ExportOptions) -> None:
    """Checks that the options override nothing of another head.

    Args:
        description: the task; None for encoders and masked language models.
        options: settings of the export.

    Raises:
        ValueError: they do.
    """
    for name, kind in KINDS.items():
        of_this_kind = description is not None and description.head.kind == name
        if kind.override_value(options) is not None and not of_this_kind:
            raise ValueError(f"--{kind.export_option} is for {kind.models}: leave it out")


def reason(description: TaskDescription, options: ExportOptions) -> str:
    """Returns why a model is served the way it is, and what to override if that is wrong."""
    kind = kind_of(description)
    if kind.override is not None and kind.override_value(options) is not None:
        return "as you state"
    return "as in training" if description.task else kind.untold
