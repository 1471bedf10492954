"""Which tasks there are, by the names of `--task`."""

from collections.abc import Callable

from keras_bert.tasks.delimited import csv_task
from keras_bert.training.task import Task

TASKS: dict[str, Callable[..., Task]] = {"csv": csv_task}


def create_task(name: str, **arguments: object) -> Task:
    """Returns a task.

    Args:
        name: one of `TASKS`.
        **arguments: those of its function.

    Raises:
        ValueError: there is no such task.
    """
    if name not in TASKS:
        raise ValueError(f"there is no task {name!r}: choose one of {', '.join(sorted(TASKS))}")
    return TASKS[name](**arguments)
