"""The command `keras-bert TOOL ...`: the tools of the repository, for whom the package suffices.

The tools are the scripts of the folder tools/. An installed package holds them as keras_bert/tools
(see setup.cfg); in a clone they lie beside keras_bert/. Both are run as `python tools/TOOL.py`
would run them.
"""

import ast
import difflib
import runpy
import sys
from pathlib import Path

_PACKAGE = Path(__file__).parent
_HELP = ("--help", "-h", "help")


def main() -> None:
    """Runs the tool that the first argument names, or lists all of them."""
    tools = _tools()
    if not tools:
        sys.exit(f"error: there are no tools in {_PACKAGE} or beside it: install the package anew")
    if len(sys.argv) < 2 or sys.argv[1] in _HELP:
        print(_overview(tools))
        return
    name = sys.argv[1]
    if name not in tools:
        near = difflib.get_close_matches(name, tools, n=1, cutoff=0.5)
        remedy = f"did you mean {near[0]}?" if near else "`keras-bert --help` lists them"
        sys.exit(f"error: {name!r} is no tool of keras-bert: {remedy}")
    sys.argv = [str(tools[name]), *sys.argv[2:]]
    runpy.run_path(sys.argv[0], run_name="__main__")


def _tools() -> dict[str, Path]:
    """Returns the path of each tool by its name."""
    for folder in (_PACKAGE / "tools", _PACKAGE.parent / "tools"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.py"))}
    return {}


def _overview(tools: dict[str, Path]) -> str:
    # Read, not imported: a list should not wait for TensorFlow.
    described = {
        name: (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]
        for name, path in tools.items()
    }
    width = max(map(len, tools))
    return "\n".join(
        [
            "usage: keras-bert TOOL [flags]; `keras-bert TOOL --help` shows the flags of one",
            "",
            *(f"  {name:{width}}  {sentence}" for name, sentence in described.items()),
        ]
    )


if __name__ == "__main__":
    main()
