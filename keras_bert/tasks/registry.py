"""Which tasks there are, by the names of `--task`."""

import importlib
import inspect
from typing import Any

from keras_bert.training.task import Task

# Name -> module and function; imported when asked for.
_TASKS = {
    "csv": ("delimited", "csv_task"),
    "conll": ("conll", "conll_task"),
    "conll2003": ("conll", "conll2003_task"),
    "choice": ("choice_files", "choice_task"),
    "swag": ("choice_files", "swag_task"),
    "squad": ("squad", "squad_task"),
    "squad2": ("squad", "squad2_task"),
}
TASKS = tuple(_TASKS)


def create_task(name: str, **arguments: Any) -> Task:
    """Returns a task.

    Args:
        name: one of `TASKS`.
        **arguments: those of its function.

    Raises:
        ValueError: there is no such task, or it takes no such argument.
    """
    if name not in _TASKS:
        raise ValueError(f"there is no task {name!r}: choose one of {', '.join(TASKS)}")
    module, function_name = _TASKS[name]
    function = getattr(importlib.import_module(f"keras_bert.tasks.{module}"), function_name)
    known = inspect.signature(function).parameters
    for argument in arguments:
        if argument not in known:
            raise ValueError(
                f"the task {name!r} has no {argument}: leave it out "
                f"(it takes {', '.join(known) or 'nothing'})"
            )
    return function(**arguments)
