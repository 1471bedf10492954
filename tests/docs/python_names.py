"""What programs of documents and notebooks use of this project: names and keywords."""

import ast
import importlib
import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def imported(trees: Iterable[ast.AST]) -> dict[str, Any]:
    """Returns what programs import of this project: local name -> object.

    Raises:
        AttributeError: there is no such name.
        ModuleNotFoundError: there is no such module.
    """
    found = {}
    for node in _walk(trees):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "keras_bert":
                    found[alias.asname or alias.name] = importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "keras_bert":
            module = importlib.import_module(node.module)
            for alias in node.names:
                found[alias.asname or alias.name] = getattr(module, alias.name)
    return found


def unknown_keywords(trees: Sequence[ast.AST]) -> list[str]:
    """Returns the keywords in calls of imported names that these do not take."""
    objects, wrong = imported(trees), []
    for node in _walk(trees):
        if not isinstance(node, ast.Call):
            continue
        called = _called(node.func, objects)
        if called is None:
            continue
        parameters = inspect.signature(called).parameters
        if any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values()):
            continue
        given = [keyword.arg for keyword in node.keywords if keyword.arg]
        wrong += [f"{ast.unparse(node.func)}({key}=)" for key in given if key not in parameters]
    return wrong


def _called(function: ast.expr, objects: dict[str, Any]) -> Any:
    """Returns the object of `name(...)` or `name.method(...)`, if it is one of this project."""
    if isinstance(function, ast.Name):
        return objects.get(function.id)
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = objects.get(function.value.id)
        return owner and getattr(owner, function.attr)
    return None


def _walk(trees: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for tree in trees:
        yield from ast.walk(tree)
