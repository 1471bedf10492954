"""LiteRT, ONNX and int8. Oracle: the Keras model in float32 on the same ids."""

import collections
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoderDecoder, load_tokenizer
from keras_bert.checkpoints import hugging_face
from keras_bert.models import preset
from keras_bert.serving.formats.litert_onnx import export_litert, export_onnx
from keras_bert.serving.formats.onnx_graph import OPSET, finish_onnx
from keras_bert.serving.formats.tf_hub import export_hub_form
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from tests.markers import some_long, some_slow
from tests.signatures.tiny_models import TAGS, ask, random_texts, tiny_config
from tests.tolerances import CONVERTED, INT8_LOGITS

HEADS = ("classes", "tags", "spans", "choices", "masked_lm", "encoder")


def ids_and_answers(folder, rows=3, length=11):
    """Random ids, the last positions padding, and what Keras says of them."""
    family = open_signatures(folder, ExportOptions())
    draw = np.random.default_rng(7)
    shape = {2: (rows, length), 3: (rows, 2, length)}
    inputs = {
        name: draw.integers(0, 2, shape[spec.shape.rank], np.int32)
        for name, spec in family.id_inputs().items()
    }
    inputs["input_ids"] = draw.integers(5, 60, inputs["input_ids"].shape, np.int32)
    inputs["input_mask"][..., : length - 3], inputs["input_mask"][..., length - 3 :] = 1, 0
    if "masked_lm_positions" in inputs:
        inputs["masked_lm_positions"] = draw.integers(0, length, (rows, 2), np.int32)
    return inputs, {k: v.numpy() for k, v in family.ids(**_tensors(inputs)).items()}


def _tensors(inputs):
    return {name: tf.constant(values) for name, values in inputs.items()}


# Each converts a model.
@pytest.mark.parametrize("name", some_slow(HEADS, ("tags", "masked_lm")))
@pytest.mark.parametrize(("dtype", "close"), [("float32", CONVERTED), ("int8", INT8_LOGITS)])
def test_litert_says_what_keras_says(name, dtype, close, model_folder, tmp_path):
    inputs, expected = ids_and_answers(model_folder(name))
    folder = export_litert(model_folder(name), tmp_path / "small", dtype)
    runner = tf.lite.Interpreter(str(folder / "model.tflite")).get_signature_runner("serve_ids")
    found = runner(**inputs)
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        np.testing.assert_allclose(found[output], values, **close)
        if dtype == "int8":
            assert np.corrcoef(found[output].ravel(), values.ravel())[0, 1] > 0.98


# Several outputs, as spans have, are named by `finish_onnx`.
@pytest.mark.oracle  # tf2onnx, onnxruntime
@pytest.mark.parametrize("name", some_long(HEADS, ("tags", "spans", "masked_lm")))
def test_onnx_says_what_keras_says(name, model_folder, tmp_path):
    import onnx
    import onnxruntime

    inputs, expected = ids_and_answers(model_folder(name))
    folder = export_onnx(model_folder(name), tmp_path / "small")
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, inputs), strict=True))
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        np.testing.assert_allclose(found[output], values, **CONVERTED)
    # Engines know a norm and a gelu as wholes: two norms and a gelu a layer, a norm of the
    # embeddings, and one of each in a masked language model's head.
    nodes = onnx.load(folder / "model.onnx").graph.node
    operations = collections.Counter(node.op_type for node in nodes)
    layers, heads = tiny_config().num_hidden_layers, int(name == "masked_lm")
    assert operations["LayerNormalization"] == 2 * layers + 1 + heads
    assert operations["Erf"] == layers + heads
    assert operations.keys().isdisjoint(["Sqrt", "Reciprocal", "Erfc", "Neg"])


@pytest.mark.oracle  # tf2onnx, onnxruntime
def test_onnx_in_8_bits_says_nearly_what_keras_says(model_folder, tmp_path, capfd, caplog):
    import onnx
    import onnxruntime

    inputs, expected = ids_and_answers(model_folder("classes"))
    path = export_onnx(model_folder("classes"), tmp_path / "small", "int8") / "model.onnx"
    [found] = onnxruntime.InferenceSession(path).run(["logits"], inputs)
    np.testing.assert_allclose(found, expected["logits"], **INT8_LOGITS)
    assert not np.allclose(found, expected["logits"], **CONVERTED)
    # Four matrices a layer, those of pooler, classes and segments (a product with rows of one 1);
    # seven bits, so that two neighbours' products fit into 16.
    kept = [onnx.numpy_helper.to_array(item) for item in onnx.load(path).graph.initializer]
    matrices = [values for values in kept if values.ndim == 2 and values.dtype == np.int8]
    assert len(matrices) == 4 * tiny_config().num_hidden_layers + 3
    assert 60 < max(np.abs(values.astype(int)).max() for values in matrices) <= 64
    assert [values.dtype for values in kept if values.shape[:1] == (tiny_config().vocab_size,)] == [
        np.uint8
    ]
    assert "pre-processing" not in capfd.readouterr().err + caplog.text
    assert [file.name for file in path.parent.glob("model*")] == ["model.onnx"]


def norm_in_pieces(axis, offset):
    """A norm of [2, 3, 4] as tf2onnx writes it: x * s + (offset - mean * s)."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0)
    constants = {"epsilon": np.float32(0.5), "scale": draw.normal(size=(1, 1, 4)), "offset": offset}
    steps = [
        ("ReduceMean", ["x"], "mean"),
        ("Neg", ["mean"], "minus"),
        ("Sub", ["x", "mean"], "centred"),
        ("Mul", ["centred", "centred"], "squares"),
        ("ReduceMean", ["squares"], "variance"),
        ("Add", ["variance", "epsilon"], "more"),
        ("Sqrt", ["more"], "root"),
        ("Reciprocal", ["root"], "inverse"),
        ("Mul", ["inverse", "scale"], "s"),
        ("Mul", ["x", "s"], "scaled"),
        ("Mul", ["minus", "s"], "moved"),
        ("Add", ["moved", "offset"], "rest"),
        ("Add", ["scaled", "moved" if offset is None else "rest"], "y"),
    ]
    axes = {"ReduceMean": {"axes": [axis]}}
    nodes = [
        helper.make_node(operation, inputs, [made], made, **axes.get(operation, {}))
        for operation, inputs, made in steps
        if made != "rest" or offset is not None
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3, 4]) for n in "xy"]
    stored = [
        numpy_helper.from_array(np.asarray(value, np.float32), name)
        for name, value in constants.items()
        if value is not None
    ]
    graph = helper.make_graph(nodes, "norm", values[:1], values[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])


@pytest.mark.oracle  # the evaluator of onnx, of both files
@pytest.mark.parametrize(
    ("axis", "offset", "is_layer_norm"),
    [
        (2, np.arange(4.0).reshape(1, 1, 4), True),
        (-1, None, True),  # as of ModernBERT
        (1, np.arange(4.0).reshape(1, 1, 4), False),
        (2, np.arange(12.0).reshape(1, 3, 4), False),
        (2, np.float32(2.0), False),
    ],
)
def test_norms_of_the_last_axis_become_one_operation(axis, offset, is_layer_norm, tmp_path):
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = norm_in_pieces(axis, offset)
    x = {"x": np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)}
    [expected] = ReferenceEvaluator(model).run(None, x)
    onnx.save(model, tmp_path / "model.onnx")
    finish_onnx(tmp_path / "model.onnx", ["logits"])
    finished = onnx.load(tmp_path / "model.onnx")
    operations = [node.op_type for node in finished.graph.node]
    assert (operations == ["LayerNormalization"]) == is_layer_norm
    [found] = ReferenceEvaluator(finished).run(["logits"], x)
    np.testing.assert_allclose(found, expected, **CONVERTED)


@pytest.mark.oracle  # onnx
def test_what_the_branch_of_a_condition_reads_stays_in_the_file(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    def value(name, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, [2])

    # y = 2 x if c else -2 x, and nothing outside of the branches reads 2 x.
    branches = {
        f"{branch}_branch": helper.make_graph(
            [helper.make_node(operation, ["twice"], [branch])], branch, [], [value(branch)]
        )
        for branch, operation in (("then", "Identity"), ("else", "Neg"))
    }
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("Neg", ["x"], ["unused"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph(nodes, "graph", [value("x"), condition], [value("y")])
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    finish_onnx(tmp_path / "model.onnx", ["logits"])
    model = onnx.load(tmp_path / "model.onnx")
    assert [node.op_type for node in model.graph.node] == ["Add", "If"]
    (found,) = onnx.reference.ReferenceEvaluator(model).run(
        ["logits"], {"x": np.float32([1, 3]), "c": np.bool_(False)}
    )
    assert found.tolist() == [-2, -6]


@pytest.mark.oracle  # onnx
def test_operations_that_onnx_lacks_are_told(tmp_path):
    import onnx

    values = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1]) for n in "xy"]
    node = onnx.helper.make_node("Unheard", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "graph", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="ONNX .* Unheard.*: serve it as a SavedModel"):
        finish_onnx(tmp_path / "model.onnx", ["logits"])


def test_onnx_files_hold_no_search(model_folder, tmp_path):
    model = BertEncoderDecoder(tiny_config(), start_token_id=2, end_token_id=3)
    model.save_to_preset(tmp_path / "model", load_tokenizer(model_folder("encoder")))
    with pytest.raises(ValueError, match="BertEncoderDecoder writes texts in a loop, which ONNX"):
        export_onnx(tmp_path / "model", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_int8_without_its_package_is_told(model_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime.quantization", None)
    with pytest.raises(ValueError, match=r"ONNX in int8 needs the package onnxruntime \(.*\): pip"):
        export_onnx(model_folder("encoder"), tmp_path / "onnx", "int8")
    assert not (tmp_path / "onnx").exists()


@pytest.mark.slow  # a process of its own
def test_a_missing_package_is_told(model_folder, tmp_path):
    # As in an environment without it: Python finds None where it would find the package.
    code = (
        "import sys; sys.modules['tf2onnx'] = None\n"
        "from keras_bert.serving.formats.litert_onnx import export_onnx\n"
        "try:\n    export_onnx(*sys.argv[1:])\nexcept ValueError as error:\n    print(error)"
    )
    command = [sys.executable, "-c", code, model_folder("encoder"), tmp_path / "onnx"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert re.fullmatch(
        r"ONNX needs the package tf2onnx \(.*\): pip install tf2onnx\n",
        done.stdout,
    )
    assert not (tmp_path / "onnx").exists()


@pytest.mark.slow
def test_the_vocabulary_and_labels_lie_beside_the_model(model_folder, tmp_path):
    folder = export_litert(model_folder("tags"), tmp_path / "small")
    assert {path.name for path in folder.iterdir()} == {
        *("model.tflite", "vocab.txt", "tokenizer_config.json", "labels.json")
    }
    assert json.loads((folder / "labels.json").read_text()) == list(TAGS)


@pytest.mark.parametrize("name", some_slow(["classes", "spans", "masked_lm"], ("classes",)))
@pytest.mark.parametrize(("dtype", "close"), [("int8", 0.95), ("int8_onednn", 0.98)])
def test_int8_signatures_are_close_to_float32(name, dtype, close, model_folder):
    family = open_signatures(model_folder(name), ExportOptions(dtype))
    kernels = [w for w in family.model.weights if w.path.endswith("kernel") and w.dtype == "int8"]
    assert len(kernels) >= 2 * 4
    texts = random_texts(12, seed=8)
    request = {"text": texts}
    if name == "spans":
        request = {"question": texts[::-1], "context": texts}
    if name == "masked_lm":
        request = {"text": [f"{text} [MASK]" for text in texts]}
    found = family.answer(**{k: tf.constant(v) for k, v in request.items()})
    expected = ask(model_folder(name), **request)
    output = {"classes": "scores", "spans": "null_score", "masked_lm": "probabilities"}[name]
    ours, theirs = found[output].numpy().ravel(), expected[output].ravel()
    assert not np.array_equal(ours, theirs)
    assert np.corrcoef(ours, theirs)[0, 1] > close


def test_what_there_is_is_not_replaced(model_folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for export in (export_litert, export_onnx):
        with pytest.raises(FileExistsError, match="exists already: give another --export_dir"):
            export(model_folder("classes"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_small_files_have_no_bfloat16(model_folder, tmp_path):
    with pytest.raises(ValueError, match="'bfloat16': LiteRT files are float32 or int8"):
        export_litert(model_folder("classes"), tmp_path / "small", "bfloat16")
    with pytest.raises(ValueError, match="'bfloat16': ONNX files are float32 or int8"):
        export_onnx(model_folder("classes"), tmp_path / "small", "bfloat16")


@pytest.mark.slow
def test_unknown_keys_of_the_config_are_passed_over_by_name(model_folder, tmp_path):
    folder = tmp_path / "hf"
    folder.mkdir()
    hugging_face.write(preset.read_checkpoint(model_folder("encoder")), folder)
    shutil.copy(model_folder("encoder") / "vocab.txt", folder)
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(values | {"colour": "red"}), encoding="utf-8")
    for export in (export_litert, export_onnx, export_hub_form):
        with pytest.raises(ValueError, match="unknown config key 'colour'"):
            export(folder, tmp_path / "small")
        target = tmp_path / export.__name__
        if export is not export_onnx:  # which takes ten seconds, and is told by the same function
            assert export(folder, target, ignore_config_keys=["colour"]).is_dir()
