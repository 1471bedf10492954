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
    folders = (_PACKAGE / "tools", _PACKAGE.parent / "tools")
    folder = next(filter(Path.is_dir, folders), folders[0])
    tools = {path.stem: path for path in sorted(folder.glob("*.py"))}
    if not tools:
        sys.exit(f"error: there are no tools in {_PACKAGE} or beside it: install the package anew")
    if len(sys.argv) < 2 or sys.argv[1] in _HELP:
        print("usage: keras-bert TOOL [flags]; `keras-bert TOOL --help` shows the flags of one\n")
        width = max(map(len, tools))
        for name, path in tools.items():
            # Read, not imported: a list should not wait for TensorFlow.
            described = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            print(f"  {name:{width}}  {described.partition(chr(10))[0]}")
        return
    name = sys.argv[1]
    if name not in tools:
        near = difflib.get_close_matches(name, tools, n=1, cutoff=0.5)
        remedy = f"did you mean {near[0]}?" if near else "`keras-bert --help` lists them"
        sys.exit(f"error: {name!r} is no tool of keras-bert: {remedy}")
    sys.argv = [str(tools[name]), *sys.argv[2:]]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
