"""Finds what a reader may type from the documents: commands and Python blocks, in their order."""

import functools
import itertools
import re
import runpy
import shlex
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from absl import flags

ROOT = Path(__file__).parents[2]
# What begins a command where a document shows it within a sentence or a table.
PROGRAMS = (
    *("python", "python3.11", "keras-bert", "make", "pip", "docker", "gcloud", "curl", "source"),
    *("tensorboard", ".venv/bin/python", ".venv/bin/pip", ".venv-tpu-plan/bin/python", "until"),
)
PLACEHOLDER = "TOOL"  # any of ours
# A fenced block, or a span of code within a line.
_CODE = re.compile(r"^```(\w*)\n(.*?)^```$|(?<!`)(`+)(?!`)([^\n]+?)(?<!`)\3(?!`)", re.M | re.S)

_TOOL = re.compile(r"^(?:until )?(?:\S*python tools/(\w+)\.py|keras-bert (\w+))(?!\S)")


class Snippet(NamedTuple):
    """A command (of one line, continued lines joined) or a block of Python."""

    document: str
    line: int
    language: str  # "bash" or "python"
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {self.text}"

    @property
    def tool(self) -> str | None:
        """The tool of ours that a command starts."""
        found = _TOOL.search(self.text) if self.language == "bash" else None
        return found and (found[1] or found[2])

    @property
    def arguments(self) -> list[str]:
        """What a command gives to its tool; what the shell would put in is a word in its place."""
        text = self.text[_TOOL.search(self.text).end() :]
        while (
            replaced := re.sub(r"\$\([^()]*\)", "replaced", text)
        ) != text:  # the innermost first
            text = replaced
        return shlex.split(text, comments=True)


def documents() -> list[str]:
    """All Markdown files for readers, relative to the root."""
    folders = (".", "docs", "docs/recipes", "docs/api", "tools", "tools/sample_data")
    folders += ("tools/sample_model", "benchmarks", "colab")
    found = (path for folder in folders for path in sorted((ROOT / folder).glob("*.md")))
    return [str(path.relative_to(ROOT)) for path in found]


@functools.cache
def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def snippets(document: str) -> list[Snippet]:
    """What a document shows to be typed; a block without a language may be what a tool prints."""
    text, found = read(document), []
    for code in _CODE.finditer(text):
        language, block, _, span = code.groups()
        line = text.count("\n", 0, code.start()) + 1
        if language == "python":
            found.append(Snippet(document, line, "python", block))
        elif block is not None and language in ("", "bash"):
            for start, command in _commands(block):
                if language or _is_command(command):
                    found.append(Snippet(document, line + 1 + start, "bash", command))
        elif span is not None and _is_command(span):
            found.append(Snippet(document, line, "bash", span))
    return found


def _is_command(text: str) -> bool:
    program, _, rest = text.partition(" ")
    return program in PROGRAMS and bool(rest.strip()) and PLACEHOLDER not in rest


def _commands(block: str) -> list[tuple[int, str]]:
    """Returns each command of a block with the number of lines before it."""
    commands, start, text = [], 0, ""
    for number, line in enumerate(block.splitlines()):
        start = start if text else number
        text += line.removesuffix("\\") + (" " if line.endswith("\\") else "")
        if not line.endswith("\\"):
            if text.strip() and not text.lstrip().startswith("#"):
                commands.append((start, " ".join(text.split()) if "\\" in block else text.strip()))
            text = ""
    return commands


def spans(document: str) -> list[tuple[int, str]]:
    """Returns the line and the text of each span of code within a line."""
    text = read(document)
    return [
        (text.count("\n", 0, code.start()) + 1, code[4])
        for code in _CODE.finditer(text)
        if code[4] is not None
    ]


def headings(document: str) -> set[str]:
    """Returns the anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", read(document), flags=re.M | re.S), re.M
    )
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def flags_of(tool: str) -> flags.FlagValues:
    """Returns the flags that a tool defines."""
    return loaded(tool)[0]


@functools.cache
def loaded(tool: str) -> tuple[flags.FlagValues, dict[str, Any]]:
    """Returns the flags that a tool defines, and its names; its `main` is not called."""
    own = flags.FlagValues()
    # Every tool of this process would define its flags in the one flags.FLAGS.
    defining = [name for name in dir(flags) if name.startswith(("DEFINE_", "mark_flag"))]
    bound = {name: functools.partial(getattr(flags, name), flag_values=own) for name in defining}
    with mock.patch.multiple(flags, **bound):
        names = runpy.run_path(str(ROOT / "tools" / f"{tool}.py"), run_name="a_tool")
    return own, names


def call(tool: str, *arguments: str) -> None:
    """Does what a tool does with these flags, in this process; errors are those of the library."""
    own, names = loaded(tool)
    own.unparse_flags()  # of the last call
    own([tool, *arguments])
    with mock.patch.object(flags, "FLAGS", own):
        names["main"]([tool])


def tools() -> list[str]:
    return sorted(path.stem for path in (ROOT / "tools").glob("*.py"))


def complaint(snippet: Snippet) -> str | None:
    """Returns what is wrong with the arguments of a command of a tool."""
    if snippet.tool not in tools():
        return f"there is no tool {snippet.tool}"
    values = flags_of(snippet.tool)
    ends = (
        "...",
        "...;",
        "&&",
        "|",
        *(["--"] if snippet.tool == "create_pretraining_data" else []),
    )
    given = list(itertools.takewhile(lambda word: word not in ends, snippet.arguments))
    elided = any(word.startswith("...") for word in snippet.arguments)
    values.unparse_flags()
    try:
        rest = values(["a tool", *given])
    except flags.Error as error:
        return None if elided and "must have a value" in str(error) else str(error)
    return f"{rest[1]!r} belongs to no flag" if len(rest) > 1 else None
