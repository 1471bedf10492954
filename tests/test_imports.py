"""Imports go one way, the core needs no TensorFlow, and every tool explains itself."""

import ast
import configparser
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoints.model_classes import MODEL_CLASSES
from keras_bert.models.registry import model_class
from tests.tolerances import ORACLE

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "keras_bert"

# As in docs/design.md: a part imports only from parts that stand before it (or from itself).
PARTS = (
    *(
        "version",
        "choices",
        "counts",
        "features",
        "config_keys",
        "config",
        "family_configs",
        "modernbert_config",
        "deberta_config",
        "rotary_configs",
        "mobilebert_config",
        "progress",
    ),
    "storage",
    "command_line",
    "__main__",
    "checkpoints",
    "layers",
    "models",
    "text",
    "data",
    "training",
    "pretraining",
    "finetuning",
    "signatures",
    "tasks",
    "probing",
    "generation",
    "serving",
    "zero_shot",
    "entity_recognizer",
    "retrieval",
    "clustering",
    "tpu",
    "visualize",
)
RANK = {name: index for index, name in enumerate(PARTS)}
WITHOUT_TENSORFLOW = PARTS[: PARTS.index("text")]


def _source_files():
    """All modules of the package, except its front door, which names parts of every folder."""
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def test_no_folder_has_more_than_twenty_modules():
    folders = {path.parent for path in _source_files()}
    sizes = {folder: len({*folder.glob("*.py")} - {folder / "__init__.py"}) for folder in folders}
    assert {str(folder): size for folder, size in sizes.items() if size > 20} == {}


def _module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_modules(tree, package):
    """Every name imported anywhere in a file, absolute: `from a import b` gives a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _wrong_imports(module, package, source):
    """Imports of one file that go against the order."""
    part = module.split(".")[1]
    for name in _imported_modules(ast.parse(source), package):
        first, _, rest = name.partition(".")
        if first == "keras_bert" and RANK.get(rest.split(".")[0], len(RANK)) > RANK[part]:
            yield f"{module} imports {name}"


def _imports_when_loaded(node):
    """Import statements that run when the module is loaded: not those inside functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imports_when_loaded(child)


def _loads_tensorflow(source):
    found = ast.Module(body=list(_imports_when_loaded(ast.parse(source))), type_ignores=[])
    return any(
        name.split(".")[0].startswith(("tensorflow", "tf_keras"))
        for name in _imported_modules(found, "")
    )


def _start_python(*arguments, **environment):
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run_python(*arguments, **environment):
    process = _start_python(*arguments, **environment)
    _, errors = process.communicate()
    assert process.returncode == 0, errors


def test_every_part_of_the_package_has_its_place_in_the_order():
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in _source_files()}
    assert parts <= set(RANK)


def test_a_folder_with_modules_is_a_package():
    # A folder without __init__.py is missing from an installed package.
    folders = {path.parent for path in _source_files()}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_setup_cfg_lists_every_package():
    # A package that is not in the list is missing from a wheel, and only there.
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = setup["options"]["packages"].split()
    found = {_module_name(path.parent / "__init__.py") for path in _source_files()}
    assert sorted(listed) == sorted({*found, "keras_bert.tools"})


def test_no_folder_imports_against_the_order():
    wrong = [
        line
        for path in _source_files()
        for line in _wrong_imports(
            _module_name(path),
            _module_name(path.parent / "__init__.py"),
            path.read_text(encoding="utf-8"),
        )
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "is_wrong"),
    [
        ("from keras_bert.layers import embeddings", False),
        ("from keras_bert.config import BertConfig", False),
        ("from . import encoder", False),
        ("from ..layers import embeddings", False),
        ("import tensorflow.data", False),
        ("import keras_bert.pretraining.step", True),
        ("from keras_bert import data", True),
        ("from ..text import masking", True),
        ("from .. import tasks", True),
        ("def later():\n    from keras_bert.training import losses", True),
        # The front door leads to every folder, so nothing inside may use it.
        ("import keras_bert", True),
        ("from keras_bert import BertTokenizer", True),
    ],
)
def test_the_check_finds_imports_of_every_form(source, is_wrong):
    found = list(_wrong_imports("keras_bert.models.encoder", "keras_bert.models", source))
    assert bool(found) == is_wrong


def test_the_core_imports_no_tensorflow_when_loaded():
    wrong = [
        _module_name(path)
        for path in _source_files()
        if _module_name(path).split(".")[1] in WITHOUT_TENSORFLOW
        and _loads_tensorflow(path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "loads"),
    [
        ("import tensorflow as tf", True),
        ("from tensorflow import data", True),
        ("import tensorflow_text", True),
        ("try:\n    import tensorflow\nexcept ImportError:\n    pass", True),
        ("def read():\n    import tensorflow", False),
        ("import keras", False),
    ],
)
def test_the_check_tells_loading_from_calling(source, loads):
    assert _loads_tensorflow(source) == loads


def test_every_public_name_leads_to_what_it_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    # What a type checker sees, name by name, is what the lazy table opens.
    seen = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == sorted(set(keras_bert.__all__) - {"__version__"})
    for name, module in seen.items():
        assert getattr(keras_bert, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="no attribute 'BertEncoders'"):
        keras_bert.BertEncoders  # noqa: B018


def test_every_class_that_a_folder_may_name_is_found():
    """Their modules are named in strings, which no other check reads."""
    assert {name: model_class(name).__name__ for name in MODEL_CLASSES} == {
        name: name for name in MODEL_CLASSES
    }


# None in sys.modules makes every import of that name fail, as if it were not installed.
ENCODE_WITHOUT_TENSORFLOW = """
import importlib, sys
folder, *modules = sys.argv[1:]
for absent in ("tensorflow", "tensorflow_text", "tf_keras"):
    sys.modules[absent] = None
for module in modules:
    importlib.import_module(module)
import keras, numpy
from keras_bert import BertEncoder
batch = dict(numpy.load(folder + "/batch.npz"))
output = BertEncoder.from_preset(folder)(batch)
numpy.savez(folder + "/output.npz", **{k: keras.ops.convert_to_numpy(v) for k, v in output.items()})
"""


@pytest.mark.oracle  # for torch and jax
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_without_tensorflow_an_encoder_says_the_same(backend, pretrained_folder, tmp_path):
    from keras_bert import BertEncoder

    folder = shutil.copytree(pretrained_folder, tmp_path / "model")
    ids = np.array([[2, 7, 9, 3, 0], [2, 8, 3, 10, 3]], "int32")
    segments = np.array([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]], "int32")
    batch = {"input_ids": ids, "input_mask": np.minimum(ids, 1), "segment_ids": segments}
    np.savez(folder / "batch.npz", **batch)
    modules = [
        name
        for name in map(_module_name, _source_files())
        if name.split(".")[1] in WITHOUT_TENSORFLOW
    ]
    _run_python("-c", ENCODE_WITHOUT_TENSORFLOW, str(folder), *modules, KERAS_BACKEND=backend)
    expected = BertEncoder.from_preset(folder)(batch)
    with np.load(folder / "output.npz") as output:
        assert set(output) == {"sequence_output", "pooled_output"}
        for name in output:
            np.testing.assert_allclose(output[name], expected[name], **ORACLE)


@pytest.mark.slow
def test_every_tool_explains_itself():
    tools = sorted((ROOT / "tools").glob("*.py"))
    assert tools
    running = {tool: _start_python(str(tool), "--help") for tool in tools}
    for tool, process in running.items():
        shown, errors = process.communicate()
        docstring = ast.get_docstring(ast.parse(tool.read_text(encoding="utf-8")))
        assert docstring, f"{tool.name} has no docstring"
        assert docstring.splitlines()[0] in shown, f"{tool.name}: {errors}"
        assert f"python tools/{tool.name}" in shown, f"{tool.name} --help shows no example command"
