"""Exports answer whatever bytes they are sent, alone and in batches."""

import random
import subprocess
import sys

import pytest

from tests.markers import some_long, some_slow
from tests.serving import fuzz_process
from tests.serving.fuzz_process import check, random_bytes, request_of
from tests.signatures.tiny_models import EXPORTED, MODELS, ask

ONE_MEGABYTE = 1 << 20
NAMES = ["classes", "tags", "spans_or_none", "choices", "masked_lm", "encoder"]


@pytest.mark.parametrize("name", some_long(NAMES, ("spans_or_none", "masked_lm")))
def test_some_bytes_are_answered(name, model_folder):
    draw = random.Random(1)
    texts = [random_bytes(draw) for _ in range(96)]
    check(ask(model_folder(name), **request_of(name, texts)), texts)


def test_the_text_of_a_choice_is_utf8(model_folder):
    cut = "\u4e2d\0z".encode()[1:]
    answers = ask(model_folder("choices"), context=[b"a"], choices=[[cut, cut]])
    assert answers["choice_text"].tolist() == ["\ufffd\ufffd\0z".encode()]


@pytest.mark.parametrize(
    ("names", "count"),
    [
        pytest.param(EXPORTED, 50, marks=pytest.mark.slow, id="some"),
        pytest.param(MODELS, 10_000, marks=pytest.mark.long, id="all"),
    ],
)
def test_exports_answer_whatever_string_comes(names, count, exported, tmp_path):
    exports = [f"{name}={exported(name)}" for name in names]
    command = [sys.executable, "-I", fuzz_process.__file__, str(count), *exports]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"{name}: {count} answered" for name in names]


@pytest.mark.parametrize(
    "unit", some_slow(["the film ", "x", "\u4e2d", "\0", "\xff", "[MASK]"], ("the film ", "x"))
)
@pytest.mark.parametrize("name", some_slow(NAMES, ("classes", "tags", "spans_or_none")))
def test_a_megabyte_is_answered(name, unit, model_folder):
    data = unit.encode("latin-1") if unit == "\xff" else unit.encode()
    text = data * (ONE_MEGABYTE // len(data))
    # As the context of a question and the text of a tagger it is read to the end.
    check(ask(model_folder(name), **request_of(name, [text, b"a"])), [text, b"a"])
