"""Flags that are made from a dataclass of options, and the options of the flags again."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keras_bert import CreationOptions, ExportOptions, FinetuningOptions, PretrainingOptions
from keras_bert.tpu.options import PlanOptions
from tests import command_process
from tests.docs.documents import flags_of

ROOT = Path(__file__).parents[1]
OPTIONS = {
    "create_pretraining_data": CreationOptions,
    "export_saved_model": ExportOptions,
    "plan_tpu": PlanOptions,
    "run_finetuning": FinetuningOptions,
    "run_pretraining": PretrainingOptions,
}
TOOL = '''"""Bakes."""
import dataclasses
from typing import Literal

from keras_bert import command_line

@dataclasses.dataclass(frozen=True)
class Cake:
    """What to bake.

    Attributes:
        name: what it is called, e.g. for
            the card (1.5 lines). This is not shown.
        size: width in cm; None measures the tin.
        heat: of the oven.
        kind: what it is.
        glaze: what covers it.
        fruits: what is in it.
        parts: "equal", or the weights.
        sweet: whether there is sugar.
        vegan: whether there are no eggs.
        layers: the tool says it.

    Raises:
        ValueError: it is too hot.
    """

    name: str
    size: int | None = None
    heat: float = 0.5
    kind: Literal["cake", "tart"] = "tart"
    glaze: Literal["jam", "icing"] | None = None
    fruits: tuple[str, ...] = ("apple", "plum")
    parts: str | tuple[float, ...] | None = None
    sweet: bool = True
    vegan: bool | None = None
    layers: int = 1

    def __post_init__(self):
        if self.heat > 1:
            raise ValueError(f"heat is {self.heat}: it must be at most 1")

command_line.define_flags(Cake, without=["layers"])
command_line.run(lambda _: print(command_line.options_from_flags(Cake, layers=2)))
'''


@pytest.fixture
def bake(tmp_path):
    """Runs a tool with options of every kind."""
    script = tmp_path / "bake.py"
    script.write_text(TOOL)

    def run(*arguments):
        return subprocess.run(
            [sys.executable, script, *arguments],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )

    return run


def test_a_character_that_the_terminal_lacks_is_written_as_its_code(tmp_path):
    script = tmp_path / "tea.py"
    script.write_text(
        "from keras_bert import command_line\ncommand_line.run(lambda _: print('caf\\xe9'))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, script], capture_output=True, env=environment)
    assert (done.returncode, done.stdout) == (0, b"caf\\xe9\n")


def test_a_bucket_out_of_reach_is_told_in_one_line(tmp_path):
    """As TensorFlow tells it of an address without a network."""
    script = tmp_path / "reach.py"
    script.write_text(
        "import tensorflow as tf\n"
        "from keras_bert import command_line\n"
        "text = 'Error executing an HTTP request: libcurl code 6\\n\\t when reading gs://b/x'\n"
        "def main(_):\n"
        "    raise tf.errors.FailedPreconditionError(None, None, text)\n"
        "command_line.run(main)\n"
    )
    done = command_process.run([script])
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "error: Error executing an HTTP request: libcurl code 6 when reading gs://b/x: check the "
        "address, the network and your rights"
    )


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (
            ["--name=x"],
            "name='x', size=None, heat=0.5, kind='tart', glaze=None, fruits=('apple', 'plum'), "
            "parts=None, sweet=True, vegan=None",
        ),
        (
            [
                *("--name=1", "--size=20", "--heat=1", "--kind=cake", "--glaze=jam", "--fruits="),
                *("--parts=1,2", "--nosweet", "--novegan"),
            ],
            "name='1', size=20, heat=1.0, kind='cake', glaze='jam', fruits=(), "
            "parts=('1', '2'), sweet=False, vegan=False",
        ),
    ],
)
def test_options_are_what_the_flags_say(bake, arguments, options):
    assert bake(*arguments).stdout == f"Cake({options}, layers=2)\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Flag --name must have a value"),
        (["--name=x", "--kind=pie"], "flag --kind=pie: value should be one of <cake|tart>"),
        (["--name=x", "--glaze=pie"], "flag --glaze=pie: value should be one of <jam|icing>"),
        (["--name=x", "--size=1.5"], "flag --size=1.5: invalid literal for int()"),
        (["--name=x", "--heat=warm"], "flag --heat=warm: could not convert string to float"),
        (["--name=x", "--layers=3"], "Unknown command line flag 'layers'"),
        (["--name=x", "--heat=2"], "error: heat is 2.0: it must be at most 1"),
    ],
)
def test_a_wrong_value_names_its_flag(bake, arguments, sentence):
    done = bake(*arguments)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_help_is_the_first_sentence_of_the_docstring(bake):
    shown = " ".join(bake("--help").stdout.split())
    assert "--name: What it is called, e.g. for the card (1.5 lines). --parts:" in shown
    assert "--size: Width in cm; unset measures the tin. (an integer)" in shown
    assert "--kind: <cake|tart>: What it is. (default: 'tart')" in shown
    assert "layers" not in shown and "too hot" not in shown


@pytest.mark.parametrize("tool", OPTIONS)
def test_the_flags_of_a_tool_are_its_options(tool):
    values = flags_of(tool)
    for field in dataclasses.fields(OPTIONS[tool]):
        if field.name == "inputs":
            continue  # --input
        flag = values[field.name]
        if field.default is dataclasses.MISSING:
            assert flag.default is None and flag.validators, f"--{field.name} is not required"
        else:
            default = tuple(flag.default) if isinstance(flag.default, list) else flag.default
            assert default == field.default, f"--{field.name}"
        assert flag.help.endswith("."), f"--{field.name} has no help"


@pytest.mark.parametrize("redirection", ["", "2>&-"])
def test_tensorflow_is_loaded_without_its_remarks(redirection):
    # 2.21 writes some whatever TF_CPP_MIN_LOG_LEVEL says, 2.20 none.
    script = (
        "import os\n"
        "from keras_bert import command_line\n"
        "def main(_):\n"
        "    import tensorflow\n"
        "    os.write(1, tensorflow.__name__.encode())\n"
        "command_line.run(main)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        f"'{sys.executable}' -c \"$SCRIPT\" {redirection}",
        capture_output=True,
        cwd=ROOT,
        env={**environment, "SCRIPT": script},
        shell=True,
    )
    assert (done.stdout, done.returncode) == (b"tensorflow", 0)
    # What a machine with a GPU or another Python may have to say is none of this.
    assert b"I0000" not in done.stderr and b"InitializeLog" not in done.stderr


def test_flags_of_tools_wait_for_no_framework():
    script = (
        "import sys\n"
        "from tests.docs.documents import flags_of, tools\n"
        "for tool in tools():\n"
        "    flags_of(tool)\n"
        "print({'tensorflow', 'keras', 'jax'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == "set()\n"
