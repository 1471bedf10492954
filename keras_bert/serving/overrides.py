"""What a user states of a fine-tuned model, because the folders of other libraries do not tell."""

from keras_bert.config import BertConfig
from keras_bert.finetuning.task import TaskDescription
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.kinds import KINDS, kind_of


def with_stated(
    description: TaskDescription, options: ExportOptions, config: BertConfig
) -> TaskDescription:
    """Returns a task with what the options state of it.

    Args:
        description: the task; without a name where the model is of another library.
        options: of the export.
        config: of the model.

    Raises:
        ValueError: the options contradict it, or are of another head.
    """
    check_statable(description, options)
    kind = kind_of(description)
    if kind.override is None or kind.stated(options) is None:
        return description
    return kind.override(description, options, config)


def check_statable(description: TaskDescription | None, options: ExportOptions) -> None:
    """Checks that the options state nothing of another head.

    Args:
        description: the task; None for encoders and masked language models.
        options: of the export.

    Raises:
        ValueError: they do.
    """
    for name, kind in KINDS.items():
        of_this_kind = description is not None and description.head.kind == name
        if kind.stated(options) is not None and not of_this_kind:
            raise ValueError(f"--{kind.export_option} is for {kind.models}: leave it out")


def reason(description: TaskDescription, options: ExportOptions) -> str:
    """Returns why a model is served the way it is, and what to state if that is wrong."""
    kind = kind_of(description)
    if kind.override is not None and kind.stated(options) is not None:
        return "as you state"
    return "as in training" if description.task else kind.untold
