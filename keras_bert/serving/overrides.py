"""What a user states of a fine-tuned model, because the folders of other libraries do not tell."""

import dataclasses

from keras_bert.config import BertConfig
from keras_bert.finetuning.task import TaskDescription
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.classification.head import TextHead
from keras_bert.tasks.multiple_choice.head import ChoiceHead
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.text.preprocessor import TEXT, TEXT_PAIR

_PAIRS_UNKNOWN = (
    "the folder does not tell whether the model was trained on pairs; if it was, export it with "
    "--text_pair"
)
_THRESHOLD_UNKNOWN = (
    "the folder stores no threshold above which a question has no answer, so every question gets "
    "one; if the model was trained with such questions (SQuAD 2.0), export it with "
    "--null_threshold=0"
)


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
    if options.text_pair is not None:
        description = _with_pairs(description, options.text_pair, config)
    if options.null_threshold is not None:
        head = dataclasses.replace(
            description.head, has_unanswerable=True, null_threshold=options.null_threshold
        )
        description = dataclasses.replace(description, head=head)
    return description


def check_statable(description: TaskDescription | None, options: ExportOptions) -> None:
    """Checks that the options state nothing of another head.

    Args:
        description: the task; None for encoders and masked language models.
        options: of the export.

    Raises:
        ValueError: they do.
    """
    head = description and description.head
    if options.text_pair is not None and not isinstance(head, TextHead):
        raise ValueError("--text_pair is for classifiers and regressions: leave it out")
    if options.null_threshold is not None and not isinstance(head, SpanHead):
        raise ValueError("--null_threshold is for models that answer questions: leave it out")
    if options.max_choices is not None and not isinstance(head, ChoiceHead):
        raise ValueError("--max_choices is for multiple choice: leave it out")


def reason(description: TaskDescription, options: ExportOptions) -> str:
    """Returns why a model is served the way it is, and what to state if that is wrong."""
    if options.text_pair is not None or options.null_threshold is not None:
        return "as you state"
    if description.task:
        return "as in training"
    if isinstance(description.head, TextHead):
        return _PAIRS_UNKNOWN
    if isinstance(description.head, SpanHead):
        return _THRESHOLD_UNKNOWN
    return "as the head asks"


def _with_pairs(
    description: TaskDescription, text_pair: bool, config: BertConfig
) -> TaskDescription:
    if description.task and text_pair != description.takes_pairs:
        kind = "pairs" if description.takes_pairs else "text alone"
        raise ValueError(f"the model was trained on {kind}: leave out --text_pair")
    if text_pair and config.type_vocab_size < 2:
        raise ValueError("the model knows one segment only: leave out --text_pair")
    names = (TEXT, TEXT_PAIR) if text_pair else (TEXT,)
    return dataclasses.replace(description, text_columns={name: name for name in names})
