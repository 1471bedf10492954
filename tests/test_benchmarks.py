"""The benchmarks: each has a command, documents give commands that exist, make knows them."""

import ast
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
TREES = {path.stem: ast.parse(path.read_text("utf-8")) for path in FOLDER.glob("*.py")}
# Those that are run; the others are their parts.
NAMES = {
    name
    for name, tree in TREES.items()
    if any(ast.unparse(node) == "app.run(main)" for node in ast.walk(tree))
}
DOCUMENTS = [ROOT / "README.md", FOLDER / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"make benchmark NAME=(\w+)(?:[\s\\]+ARGS='([^']*)')?")


def _flags(name):
    return {
        node.args[0].value
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("flags.DEFINE_")
    }


def _defines(module, name):
    """Whether a module of the package has a name at its top level, read without running it."""
    path = ROOT.joinpath(*module.split("."))
    if path.is_dir():
        return (path / f"{name}.py").is_file() or f'"{name}"' in (path / "__init__.py").read_text()
    found = set()
    for node in ast.parse(path.with_suffix(".py").read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found.update(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.asname or alias.name for alias in node.names)
    return name in found


def test_every_benchmark_tells_its_command_and_is_in_the_readme():
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert {name for name, _ in COMMAND.findall(readme)} == NAMES
    for name in NAMES:
        assert name in {found for found, _ in COMMAND.findall(ast.get_docstring(TREES[name]))}


def test_commands_of_documents_give_flags_that_exist():
    texts = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in DOCUMENTS}
    texts |= {name: ast.get_docstring(TREES[name]) for name in NAMES}
    for where, text in texts.items():
        assert "python benchmarks/" not in text, f"{where}: make benchmark is the one way in"
        for name, arguments in COMMAND.findall(text):
            given = {part.split("=")[0].removeprefix("--") for part in shlex.split(arguments)}
            assert given <= _flags(name), f"{where}: {name} has no {given - _flags(name)}"


def test_what_benchmarks_import_from_the_package_exists():
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "keras_bert":
                for alias in node.names:
                    assert _defines(node.module, alias.name), f"{name}: {ast.unparse(node)}"


@pytest.mark.parametrize("arguments", [["NAME=spped"], []])
def test_make_lists_the_benchmarks_where_the_name_is_none_of_them(arguments):
    done = subprocess.run(
        ["make", "benchmark", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
    )
    assert done.returncode != 0
    (line,) = done.stdout.splitlines()
    found = re.fullmatch(r"error: NAME is '(.*)': expected one of (.*)", line)
    assert found[1] == "".join(arguments).removeprefix("NAME=")
    assert set(found[2].split()) == NAMES


def test_the_memory_table_of_the_faq_is_what_its_command_prints():
    script = """
import memory_table as m
from keras_bert import BertConfig
# The weights of bert_base_uncased; a block of 1 x 128 tokens, H 768, I 3072, 12 heads, bfloat16:
# 128 (2 (7680 + 6144) + 4 * 3072 + 8 * 12 * 128)
assert m.weights(BertConfig()) == 109_482_240
assert m.block_bytes(BertConfig(), 128, 2) == 6_684_672
m.app.run(m.main)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(FOLDER), str(ROOT)])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in (ROOT / "docs" / "faq.md").read_text("utf-8")


def test_sides_that_are_none_are_named_before_a_process_starts():
    done = subprocess.run(
        [sys.executable, FOLDER / "training_speed.py", "--sides=ours,theirs"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1
    assert "choose from ours, Hugging Face, Hugging Face compiled, KerasHub, Model G" in done.stderr
    assert "Traceback" not in done.stderr


def test_memory_is_judged_by_the_second_half():
    # The second half rises by 2 MB in each second; the first fell.
    samples = [(0, 900.0), (1, 500.0), (2, 700.0), (3, 102.0), (4, 104.0), (5, 106.0)]
    script = f"import serving_load; print(serving_load.growth({samples}))"
    paths = os.pathsep.join([str(FOLDER), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
        check=True,
    )
    assert float(done.stdout) == pytest.approx(120)


def test_scores_are_measured_once_and_outlast_a_process_that_was_killed_as_it_wrote(tmp_path):
    path = tmp_path / "scores.jsonl"
    script = """
import pathlib, sys
from score_file import ScoreFile
scores = ScoreFile(pathlib.Path(sys.argv[1]))
print(scores.find(recipe="bert", seed=0))
scores.add({"pairs": 0.5}, recipe="bert", seed=0)
scores.path.write_text(scores.path.read_text() + '{"recipe": "bert", "se')
scores.add({"pairs": 0.25}, recipe="bert", seed=1)
scores.add({"pairs": 0.75}, recipe="bert", seed=0)
print(scores.find(recipe="bert", seed=0), scores.find(recipe="bert", seed=1))
print(scores.find(recipe="albert", seed=0))
print(scores.measured(["pairs"], lambda: 1 / 0, recipe="bert", seed=0))
print(scores.measured(["pairs", "names"], lambda: {"pairs": 0, "names": 1}, recipe="bert", seed=0))
print(scores.measured(["names"], lambda: 1 / 0, recipe="bert", seed=0))
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "None",
        "{'pairs': 0.75} {'pairs': 0.25}",
        "None",
        "{'pairs': 0.75}",  # from the file
        "{'pairs': 0, 'names': 1}",  # measured anew: the file had no names
        "{'pairs': 0, 'names': 1}",  # from the file
    ]
    assert len(path.read_text().splitlines()) == 5


def test_a_finished_run_of_another_recipe_is_refused(tmp_path):
    script = """
import json, pathlib, sys
from small_pretraining import SmallPretraining
from keras_bert import BertConfig
folder = pathlib.Path(sys.argv[1])
config = BertConfig.from_name("bert_tiny", position_initializer="sinusoids")
run = folder / "base"
run.mkdir()
(run / "report.md").touch()
options = {"train_steps": 30, "batch_size": 32, "learning_rate": 1e-3, "seed": 1}
made = {"config": config.to_dict(), "options": options | {"init_from": "elsewhere"}}
(run / "run.json").write_text(json.dumps(made))
stages = SmallPretraining(folder, 64, 30, 1e-3, ())
assert stages.pretrain("base", config, seed=1, eval_steps=7, init_from=folder) == run
for changed, flags in (
    (config, {"seed": 2}),
    (config, {"seed": 1, "train_steps": 31}),
    (config, {"seed": 1, "learning_rate": 2e-3}),
    (config.replace(position_initializer="normal"), {"seed": 1}),
    (config.replace(hidden_size=256), {"seed": 1}),
):
    try:
        stages.pretrain("base", changed, **flags)
    except SystemExit as error:
        print(error)
options["objective"] = "left_to_right"
made = {"config": config.replace(left_to_right=True).to_dict(), "options": options}
(run / "run.json").write_text(json.dumps(made))
assert stages.pretrain("base", config, "none", seed=1, objective="left_to_right") == run
(folder / "text" / "train").mkdir(parents=True)
(folder / "text" / "train" / "git-doc.txt").touch()
try:
    stages.prepare()
except SystemExit as error:
    print(error)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    paths = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=FOLDER, capture_output=True, text=True, check=True, env=paths
    )
    said = [
        line.removeprefix(f"{tmp_path / 'base'} was made with ")
        for line in done.stdout.splitlines()
    ]
    assert [line.partition(" is asked for")[0] for line in said] == [
        "seed 1, and 2",
        "train_steps 30, and 31",
        "learning_rate 0.001, and 0.002",
        "position_initializer sinusoids, and None",
        "hidden_size 128, and 256",
        f"{tmp_path / 'text'} has the text of 1 package(s), and that of 18",
    ]


_BUDGET = {"general_steps": 4000, "field_steps": 2000, "field_rate": 5e-4, "labels": 400}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, row, known",
    [
        (
            "own_domain",
            "| general text, then mails | 1.250 | 25.0 (12.5 to 37.5) | 75.0 (62.5 to 87.5) |",
            {"key": "way", "rows": ["general", "control", "mails", "added", "own", "fresh"]}
            | _BUDGET,
        ),
        ("ablations", "| left to right, no NSP | 1.25 (1.25 to 1.25) |", {"key": "run"}),
    ],
)
def test_tables_of_runs_of_another_machine(tmp_path, name, row, known):
    rows = known.get("rows") or [*_variants(), "fresh", "features"]
    key = known["key"]
    known = {name: value for name, value in known.items() if name not in ("rows", "key")}
    known |= {"start": "neighbors"} | ({"steps": 3000} if key == "run" else {})
    names = ["spam_400", "names", "pairs", "names_embeddings", "names_second_to_last"]
    names += [f"names_{one}" for one in ("last", "sum_last_4", "concat_last_4", "sum_all")]
    names += ["masked_lm_accuracy", "sentence_accuracy"]
    lines = []
    for seed in (0, 1):
        scores = dict.fromkeys(names, 0.625 + seed / 4) | {"masked_lm_loss": 1.25}
        scores |= {"accuracy": 0.125 + seed / 4, "pieces_per_word": 1.25}
        lines += [{key: way, "seed": seed, **known, "scores": scores} for way in rows]
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run(
        [sys.executable, f"{name}.py", f"--folder={tmp_path / 'runs'}", f"--scores={path}"]
        + ["--seeds=2"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert row in done.stdout
    assert len(path.read_text().splitlines()) == len(lines)
    # Nothing was fetched or made but the picture.
    assert {file.name for file in (tmp_path / "runs").glob("*")} <= {"ablations.png"}


@pytest.mark.slow
def test_a_search_of_shorter_texts_is_another_one(tmp_path):
    """Of a model that learned nothing, too."""
    metrics = ("ndcg", "mrr", "accuracy", "recall", "map")
    names = [f"test_{metric}_at_{count}" for metric in metrics for count in (1, 3, 5, 10, 100)]
    lines = [
        {"run": "as it is", "start": "start", "max_seq_length": length, "data": tmp_path.name}
        | {"seed": 0, "scores": dict.fromkeys(names, score)}
        for length, score in ((24, 0.5), (6, 0.25))
    ]
    (tmp_path / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run(
        [sys.executable, "search.py", f"--output={tmp_path}", f"--data={tmp_path}"]
        + ["--init_from=start", "--runs=as it is", "--max_seq_length=24"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == "| as it is | 50.0 | 50.0 | 50.0 |\n", done.stderr


def _variants():
    """Returns the names of the runs of ablations, read from its source."""
    for node in TREES["ablations"].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_VARIANTS":
            return [key.value for key in node.value.keys]
    raise AssertionError("ablations.py has no _VARIANTS")


@pytest.mark.oracle  # needs tensorflow-serving-api
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_load_whose_server_dies_fails():
    load = subprocess.Popen(
        [sys.executable, FOLDER / "serving_load.py", "--clients=4", "--seconds=60"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    for line in load.stdout:
        if "listening" in line:
            break
    children = Path(f"/proc/{load.pid}/task/{load.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    printed, _ = load.communicate()
    assert load.returncode == 1, printed
    assert "error: 1 times: the server ended with status -9" in printed
