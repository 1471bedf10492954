"""The notebooks of colab/ and what they use: names of keras_bert, keywords, commands, flags."""

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import nbformat

from tests.docs.documents import ROOT, Snippet

FOLDER = ROOT / "colab"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
# A tool's command, its continued lines joined; `{PYTHON} -m keras_bert` in the text of a cell.
_COMMAND = re.compile(r"(?:(?<![\w/.-])keras-bert|-m keras_bert) (\w+ .*)")


@functools.cache
def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def cells(name: str, kind: str) -> list[str]:
    """Returns the sources of the cells of a kind, "code" or "markdown"."""
    return [cell.source for cell in read(name).cells if cell.cell_type == kind]


def commands(name: str) -> list[Snippet]:
    """Returns what cells of code give to the tools of this project; variables of Bash are 1."""
    found = []
    for number, source in enumerate(cells(name, "code"), start=1):
        joined = re.sub(r"^#.*$|\\{1,2}\n\s*", "", source, flags=re.M)  # two in Python's strings
        shown = [f"keras-bert {command}" for command in _COMMAND.findall(joined)]
        shown = [re.sub(r"\$\w+", "1", command) for command in shown]
        found += [Snippet(f"{name}, cell of code", number, "bash", command) for command in shown]
    return found


def trees(name: str) -> list[ast.Module]:
    """Returns the cells of Python, and programs in their strings; what is for Bash is left out."""
    sources = [source for source in cells(name, "code") if not source.startswith("%%")]
    python = [re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.M) for source in sources]
    parsed = [ast.parse(source) for source in python]
    strings = [
        node.value
        for tree in parsed
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return parsed + [ast.parse(text) for text in strings if text.startswith("\nfrom keras_bert")]


def imported(name: str) -> dict[str, Any]:
    """Returns what a notebook imports of this project: local name -> object.

    Raises:
        AttributeError: there is no such name.
        ModuleNotFoundError: there is no such module.
    """
    found = {}
    for node in _walk(name):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "keras_bert":
            module = importlib.import_module(node.module)
            for alias in node.names:
                found[alias.asname or alias.name] = getattr(module, alias.name)
    return found


def unknown_keywords(name: str) -> list[str]:
    """Returns the keywords in calls of imported names that these do not take."""
    objects, wrong = imported(name), []
    for node in _walk(name):
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


def _walk(name: str) -> Iterator[ast.AST]:
    for tree in trees(name):
        yield from ast.walk(tree)
