"""`keras-bert TOOL`, from a wheel that is installed where no clone is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
TOOLS = sorted(path.stem for path in (ROOT / "tools").glob("*.py"))
TEXT = "\n\n".join(
    "\n".join(f"The {noun} number {n} is here. It was there before!" for n in range(20))
    for noun in ("house", "garden", "river", "hill")
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that the wheel was installed into; the clone is left as it was."""
    folder = tmp_path_factory.mktemp("wheel")
    source, site = folder / "source", folder / "site"
    clutter = shutil.ignore_patterns("__pycache__")
    for part in ("keras_bert", "tools"):
        shutil.copytree(ROOT / part, source / part, ignore=clutter)
    for part in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, source)
    for command in (
        # No isolation: setuptools is here, and the test needs no network.
        ["wheel", "--no-build-isolation", "--wheel-dir", folder, source],
        ["install", "--target", site, "--no-index", "--find-links", folder, "keras-bert-tpu"],
    ):
        command = [sys.executable, "-m", "pip", *command, "--quiet", "--no-deps"]
        subprocess.run(list(map(str, command)), check=True)
    shutil.rmtree(source)
    return site


@pytest.fixture
def keras_bert(installed, tmp_path):
    """Runs the console script outside of the clone."""

    def run(*arguments, status=0):
        done = subprocess.run(
            [sys.executable, installed / "bin" / "keras-bert", *arguments],
            # Before the clone, which the environment of the tests has installed as editable.
            env=os.environ | {"PYTHONPATH": str(installed)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    return run


def test_from_text_to_records_without_a_clone(keras_bert, tmp_path):
    (tmp_path / "books.txt").write_text(TEXT, encoding="utf-8")
    keras_bert("build_vocab", "--input=books.txt", "--output=vocab/vocab.txt", "--vocab_size=150")
    keras_bert(
        "create_pretraining_data",
        *("--input=books.txt", "--vocab=vocab/vocab.txt", "--output_dir=records"),
        *("--max_seq_length=32", "--num_workers=2"),  # workers are started by the script's path
    )
    shown = keras_bert("inspect_records", "--input=records", "--count=1")
    assert "fill rate" in shown and "[CLS]" in shown


def test_the_overview_names_every_tool(keras_bert):
    listed = [line.split()[0] for line in keras_bert("--help").splitlines()[2:]]
    assert listed == TOOLS
    assert keras_bert() == keras_bert("--help")


def test_help_of_a_tool_shows_its_flags_and_how_it_was_started(keras_bert):
    shown = keras_bert("build_vocab", "--help", status=1)  # absl's status of every help
    assert "--limit_alphabet" in shown
    assert "keras-bert build_vocab --input='books/*.txt'" in shown
    assert "python tools/" not in shown


def test_errors_are_one_sentence(keras_bert):
    assert keras_bert("build-vocab", status=1) == (
        "error: 'build-vocab' is no tool of keras-bert: did you mean build_vocab?\n"
    )
    assert "clone of the repository" in keras_bert("quickstart", status=1)
    missing = keras_bert("build_vocab", "--input=none.txt", "--output=vocab.txt", status=1)
    assert missing.startswith("error: ") and missing.count("\n") == 1


def test_the_package_can_be_run_as_a_module():
    command = [sys.executable, "-m", "keras_bert"]
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, cwd=ROOT)
    assert shown.returncode == 0 and "run_pretraining" in shown.stdout
    refused = subprocess.run([*command, "run_pretrainig"], capture_output=True, text=True, cwd=ROOT)
    assert refused.returncode == 1 and "did you mean run_pretraining?" in refused.stderr
