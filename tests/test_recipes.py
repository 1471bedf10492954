"""The commands of docs/recipes: tools that exist, flags that they have, values that they take."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
PARSE = (
    "import runpy, sys\n"
    "from absl import flags\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_path(sys.argv[0], run_name='parsed')\n"
    "rest = flags.FLAGS(sys.argv)\n"
    "assert len(rest) == 1, rest\n"
)


def _commands(recipe):
    for block in re.findall(r"```bash\n(.*?)```", recipe.read_text(), re.DOTALL):
        yield from block.replace("\\\n", " ").strip().splitlines()


COMMANDS = [(recipe.name, line) for recipe in RECIPES for line in _commands(recipe)]


def test_every_recipe_has_hardware_and_an_expectation():
    recipes = [recipe for recipe in RECIPES if recipe.name != "README.md"]
    assert len(recipes) == 6
    index = (ROOT / "docs" / "recipes" / "README.md").read_text()
    for recipe in recipes:
        text = recipe.read_text()
        assert "**Hardware**" in text and "**Expected**" in text, recipe.name
        assert f"({recipe.name})" in index


@pytest.mark.parametrize(("recipe", "line"), COMMANDS, ids=range(len(COMMANDS)))
def test_a_command_is_one_that_the_tool_takes(recipe, line):
    python, tool, *arguments = shlex.split(line)
    assert python == "python"
    result = subprocess.run(
        [sys.executable, "-c", PARSE, tool, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, f"{recipe}: {line}\n{result.stderr}"


def test_phases_and_warmups_fit_each_other():
    # The second phase of a pair goes on from the first: same schedule, a later end.
    for recipe in ("paper.md", "lamb.md"):
        first, second = (
            dict(re.findall(r"--(\w+)=(\S+)", line))
            for line in _commands(ROOT / "docs" / "recipes" / recipe)
            if "run_pretraining" in line
        )
        assert second["init_from"] == first["model_dir"]
        assert first["schedule_steps"] == second["train_steps"]
        assert int(first["train_steps"]) == 0.9 * int(second["train_steps"])
        for name in ("batch_size", "learning_rate", "warmup_steps", "optimizer", "model"):
            assert first.get(name) == second.get(name)
