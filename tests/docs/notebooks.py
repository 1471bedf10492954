"""The notebooks of colab/: their cells, and the programs and commands in them."""

import ast
import functools
import re

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
