"""Which tasks there are, by the names of `--task`."""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_bert.finetuning.task import Task
from keras_bert.tasks.classification.glue import GLUE, glue_task

# Name -> module and function; imported when asked for.
_TASKS = {
    "csv": ("classification.delimited", "csv_task"),
    "conll": ("tagging.conll", "conll_task"),
    "conll2003": ("tagging.conll", "conll2003_task"),
    "gliner": ("entity_recognition.entity_files", "gliner_task"),
    "choice": ("multiple_choice.choice_files", "choice_task"),
    "swag": ("multiple_choice.choice_files", "swag_task"),
    "reranking": ("multiple_choice.ranking_files", "reranking_task"),
    "retrieval": ("sentence_embedding.embedding_files", "retrieval_task"),
    "seq2seq": ("seq2seq.pair_files", "seq2seq_task"),
    "sparse_retrieval": ("sentence_embedding.sparse_task", "sparse_retrieval_task"),
    "multi_vector_retrieval": (
        "sentence_embedding.multi_vector_task",
        "multi_vector_retrieval_task",
    ),
    "similarity": ("sentence_embedding.embedding_files", "similarity_task"),
    "squad": ("question_answering.squad", "squad_task"),
    "squad2": ("question_answering.squad", "squad2_task"),
}
TASKS = tuple(sorted((*_TASKS, *GLUE)))


def create_task(name: str, **arguments: Any) -> Task:
    """Returns a task.

    Args:
        name: one of `TASKS`, or "module:function" for a function that returns a `Task`, in a module
            that Python finds.
        **arguments: those of its function.

    Raises:
        ValueError: there is no such task, or it takes no such argument.
    """
    if ":" in name:
        return _own_task(name, arguments)
    if name in GLUE:
        _check_arguments(name, arguments, ())
        return glue_task(name)
    if name not in _TASKS:
        raise ValueError(f"there is no task {name!r}: choose one of {', '.join(TASKS)}")
    module, function_name = _TASKS[name]
    function = getattr(importlib.import_module(f"keras_bert.tasks.{module}"), function_name)
    return _call(name, function, arguments)


def _own_task(name: str, arguments: Mapping[str, Any]) -> Task:
    """Returns the task that a function outside the package makes."""
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # by an import in the module
        raise ValueError(
            f"the task {name!r}: Python finds no module {error.name!r}: start the tool in the "
            "folder of the module, or install it"
        ) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ValueError(
            f"the task {name!r}: {module_name} has no function {function_name!r}: define it there; "
            "it returns a Task"
        )
    task = _call(name, function, arguments)
    if not isinstance(task, Task):
        raise ValueError(
            f"the task {name!r}: {function_name} returns a {type(task).__name__}: it must return a "
            "keras_bert.finetuning.task.Task"
        )
    return task


def _call(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    _check_arguments(name, arguments, tuple(inspect.signature(function).parameters))
    return function(**arguments)


def _check_arguments(name: str, arguments: Mapping[str, Any], known: Sequence[str]) -> None:
    for argument in arguments:
        if argument not in known:
            raise ValueError(
                f"the task {name!r} has no {argument}: leave it out "
                f"(it takes {', '.join(known) or 'nothing'})"
            )
