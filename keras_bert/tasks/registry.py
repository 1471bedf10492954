"""Which tasks there are, by the names of `--task`."""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.finetuning.task import Task
from keras_bert.tasks.classification.glue import GLUE, glue_task

# Name -> module and function; imported when asked for.
_TASKS = {
    "csv": ("classification.delimited", "csv_task"),
    "conll": ("tagging.conll", "conll_task"),
    "conll2003": ("tagging.conll", "conll2003_task"),
    "choice": ("multiple_choice.choice_files", "choice_task"),
    "swag": ("multiple_choice.choice_files", "swag_task"),
    "squad": ("question_answering.squad", "squad_task"),
    "squad2": ("question_answering.squad", "squad2_task"),
}
TASKS = tuple(sorted((*_TASKS, *GLUE)))


def create_task(name: str, **arguments: Any) -> Task:
    """Returns a task.

    Args:
        name: one of `TASKS`.
        **arguments: those of its function.

    Raises:
        ValueError: there is no such task, or it takes no such argument.
    """
    if name in GLUE:
        _check_arguments(name, arguments, ())
        return glue_task(name)
    if name not in _TASKS:
        raise ValueError(f"there is no task {name!r}: choose one of {', '.join(TASKS)}")
    module, function_name = _TASKS[name]
    function = getattr(importlib.import_module(f"keras_bert.tasks.{module}"), function_name)
    _check_arguments(name, arguments, tuple(inspect.signature(function).parameters))
    return function(**arguments)


def _check_arguments(name: str, arguments: Mapping[str, Any], known: Sequence[str]) -> None:
    for argument in arguments:
        if argument not in known:
            raise ValueError(
                f"the task {name!r} has no {argument}: leave it out "
                f"(it takes {', '.join(known) or 'nothing'})"
            )
