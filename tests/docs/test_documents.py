"""What the documents name is there: files, links, tools, flags and their values.

tests/docs/test_commands.py runs the commands and the blocks.
"""

import ast
import re

import pytest

from tests.docs.documents import (
    PLACEHOLDER,
    ROOT,
    Snippet,
    complaint,
    documents,
    flags_of,
    headings,
    read,
    snippets,
    spans,
    tools,
)
from tests.docs.python_names import imported, unknown_keywords

# Flags of other programs that a sentence names.
FOREIGN_FLAGS = {
    "--enable_batching": "TF Serving",
    "--tensorflow_intra_op_parallelism": "TF Serving",
    "--help": "absl",
    "--sdk_container_image": "Beam on Dataflow",
}


def _python_blocks(document):
    return [snippet for snippet in snippets(document) if snippet.language == "python"]


_DOCUMENTS_WITH_PYTHON = [document for document in documents() if _python_blocks(document)]
_OURS = r"(?:tools|docs|benchmarks|tests|keras_bert)/[\w./-]+\.\w+"


def test_every_command_of_a_tool_is_one_that_it_takes():
    wrong = [
        f"{snippet}: {reason}"
        for document in documents()
        for snippet in snippets(document)
        if snippet.tool and (reason := complaint(snippet))
    ]
    assert wrong == []


@pytest.mark.parametrize("document", _DOCUMENTS_WITH_PYTHON)
def test_what_python_blocks_use_exists(document):
    programs = [ast.parse(block.text) for block in _python_blocks(document)]
    assert imported(programs)
    assert unknown_keywords(programs) == []


def test_every_make_target_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {
        (document, next(word for word in snippet.text.split()[1:] if "=" not in word))
        for document in documents()
        for snippet in snippets(document)
        if snippet.language == "bash" and snippet.text.startswith("make ")
    }
    assert [pair for pair in named if pair[1] not in targets] == []


def test_every_flag_that_a_sentence_names_exists():
    all_flags = {name for tool in tools() for name in _names(tool)}
    wrong, foreign = [], set()
    for document in documents():
        if document.startswith("benchmarks") or document == "CHANGELOG.md":
            continue  # flags of their own; flags that are gone
        commands = {(snippet.line, snippet.text) for snippet in snippets(document)}
        for line, text in spans(document):
            if (line, text) in commands:
                continue
            tool = re.search(r"(\w+)\.py\b", text)
            known = _names(tool[1]) if tool and tool[1] in tools() else all_flags
            for flag in re.findall(r"(?<![\w-])--(\w+)", text):
                if f"--{flag}" in FOREIGN_FLAGS:
                    foreign.add(f"--{flag}")
                elif flag not in known:
                    wrong.append(f"{document}:{line}: --{flag} in {text}")
    assert wrong == []
    assert foreign == set(FOREIGN_FLAGS), "FOREIGN_FLAGS has entries that no document needs"


def _names(tool):
    values = flags_of(tool)
    return {*values, *(f"no{name}" for name in values if values[name].boolean)}


@pytest.mark.parametrize("document", documents())
def test_every_link_and_path_leads_somewhere(document):
    folder, wrong = (ROOT / document).parent, []
    for target in re.findall(r"\]\(([^)\s]+)\)", read(document)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (folder / path).resolve() if path else ROOT / document
        if not file.exists():
            wrong.append(target)
        elif anchor and anchor not in headings(str(file.relative_to(ROOT))):
            wrong.append(target)
    named = [path for _, text in spans(document) for path in re.findall(rf"(?<!\S){_OURS}", text)]
    wrong += [path for path in named if not (ROOT / path).exists() and PLACEHOLDER not in path]
    assert wrong == []


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("python tools/build_vocab.py --input=a --output=b --vocab_size=8000", None),
        ("keras-bert build_vocab --input=a --output=b", None),
        ("python tools/build_vocab.py --input=a ...", None),
        ("python tools/build_vocab.py --input=a", "must have a value"),
        ("python tools/build_vocab.py --input=a --output=b --size=3", "Unknown command line flag"),
        ("python tools/build_vocab.py --input=a --output=b --vocab_size=x", "invalid literal"),
        ("python tools/build_vocab.py --input=a --errors=no ...", "should be one of"),
        ("python tools/build_vocab.py --input=a --output=b c", "belongs to no flag"),
        ("keras-bert make_vocab --input=a", "no tool make_vocab"),
        ("python tools/make_vocab.py --input=a", "no tool make_vocab"),
    ],
)
def test_the_check_finds_wrong_commands(command, reason):
    found = complaint(Snippet("a document", 1, "bash", command))
    assert found is None if reason is None else reason in found


@pytest.mark.parametrize("tool", tools())
def test_help_breaks_its_commands_where_the_file_does(tool):
    source = (ROOT / "tools" / f"{tool}.py").read_text(encoding="utf-8")
    shown = ast.get_docstring(ast.parse(source), clean=False)
    # Without r""" a backslash at the end of a line joins it with the next one.
    assert shown and shown in source
