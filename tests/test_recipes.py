"""What recipes must say, and what must fit within them; tests/docs runs their commands."""

import re
from pathlib import Path

from tests.docs.documents import snippets

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))


def test_every_recipe_has_hardware_and_an_expectation():
    recipes = [recipe for recipe in RECIPES if recipe.name != "README.md"]
    assert len(recipes) == 10
    index = (ROOT / "docs" / "recipes" / "README.md").read_text()
    for recipe in recipes:
        text = recipe.read_text()
        assert "**Hardware**" in text and "**Expected**" in text, recipe.name
        assert f"({recipe.name})" in index


def test_phases_and_warmups_fit_each_other():
    # The second phase of a pair goes on from the first: same schedule, a later end.
    for recipe in ("paper.md", "lamb.md"):
        first, second = (
            dict(re.findall(r"--(\w+)=(\S+)", snippet.text))
            for snippet in snippets(f"docs/recipes/{recipe}")
            if snippet.tool == "run_pretraining"
        )
        assert second["init_from"] == first["model_dir"]
        assert first["schedule_steps"] == second["train_steps"]
        assert int(first["train_steps"]) == 0.9 * int(second["train_steps"])
        for name in ("batch_size", "learning_rate", "warmup_steps", "optimizer", "model"):
            assert first.get(name) == second.get(name)
