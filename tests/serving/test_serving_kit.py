"""What lies beside a SavedModel for TF Serving."""

import json
import re
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers its operations)

from keras_bert import AlbertConfig, BertClassifier, load_tokenizer, train_sentencepiece
from keras_bert.serving.graph_operations import TEXT_OPERATIONS, graph_operations
from keras_bert.serving.kit import WARMUP_FILE, warmup_requests, write_kit
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from tests.markers import some_slow
from tests.signatures.tiny_models import EXPORTED, MODELS

# What a stock server links: TensorFlow's own operations and, of tensorflow_text, those of the
# libraries that its file tensorflow_text/BUILD lists under ops_lib.
OPS_LIB = {
    "FastBertNormalize",
    "FastWordpieceTokenizeWithOffsets",
    "NormalizeUTF8",
    "NormalizeUTF8WithOffsetsMap",
    "RegexSplitWithOffsets",
    "SentenceFragments",
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
    "SentencepieceTokenizeWithOffsetsOp",
    "UnicodeScriptTokenizeWithOffsets",
    "WhitespaceTokenizeWithOffsets",
    "WhitespaceTokenizeWithOffsetsV2",
    "WordpieceTokenizeWithOffsets",
}


def tensorflow_operations():
    """Names of the operations of TensorFlow itself: those with a definition in its libraries."""
    return {name for name in dir(tf.raw_ops) if name[:1].isupper()}


PYTHON_OPERATIONS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
# A line for each operation: its name and the kinds of models whose graphs use it.
LIST = Path(__file__).with_name("served_operations.txt")


def listed_operations(name):
    lines = map(str.split, LIST.read_text().splitlines())
    return {operation for operation, *kinds in lines if kinds == ["all"] or name in kinds}


OTHERS = [name for name in MODELS if name != "pairs"]


HALF = [pytest.param(("masked_lm", "bfloat16"), marks=pytest.mark.slow)]


@pytest.mark.parametrize("export", ["pairs", *some_slow(OTHERS, EXPORTED), *HALF])
def test_graphs_use_only_what_a_stock_server_links(export, exported):
    name, *dtype = [export] if isinstance(export, str) else export
    own, used = tensorflow_operations(), graph_operations(exported(name, *dtype))
    assert used == listed_operations(name)  # in either number format
    assert not used & PYTHON_OPERATIONS
    assert "FastWordpieceTokenizeWithOffsets" not in own
    assert used - own <= OPS_LIB & TEXT_OPERATIONS
    assert used & TEXT_OPERATIONS  # the tokenizer is inside


def test_sentencepiece_is_among_what_a_stock_server_links(tmp_path):
    train_sentencepiece(["home is home", "is it home"], 30).save(tmp_path / "vocab")
    tokenizer = load_tokenizer(tmp_path / "vocab")
    config = AlbertConfig(
        vocab_size=len(tokenizer.vocabulary),
        embedding_size=4,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    )
    BertClassifier(config, num_classes=2).save_to_preset(tmp_path / "albert", tokenizer)
    used = graph_operations(export_saved_model(tmp_path / "albert", tmp_path / "served"))
    assert used - tensorflow_operations() == {
        "SentencepieceOp",
        "SentencepieceTokenizeWithOffsetsOp",
    }
    assert used <= tensorflow_operations() | OPS_LIB & TEXT_OPERATIONS
    assert "SentencepieceTokenizeWithOffsetsOp" in (tmp_path / "served" / "README.md").read_text()


def test_python_is_found_inside_loops(tmp_path):
    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def serve(self, value):
            def body(value):
                value = tf.py_function(lambda v: v + 1, [value], tf.float32)
                value = tf.numpy_function(lambda v: v, [value], tf.float32, stateful=False)
                value = tf.numpy_function(lambda v: v, [value], tf.float32)
                return (tf.ensure_shape(value, []),)

            return tf.while_loop(lambda value: value < 3, body, [value])[0]

    tf.saved_model.save(Module(), str(tmp_path))
    assert graph_operations(tmp_path) >= PYTHON_OPERATIONS


@pytest.fixture(scope="module")
def served(model_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit") / "reviews"
    return export_saved_model(model_folder("pairs"), folder, options=ExportOptions(max_batch=8))


def test_the_kit_names_the_model_everywhere(served):
    kit = served.parent
    assert 'name: "reviews"' in (kit / "models.config").read_text()
    assert "/models/reviews" in (kit / "docker-compose.yml").read_text()
    # Not more than the guard lets through: a server counts joined requests together.
    assert "max_batch_size { value: 8 }\n" in (kit / "batching_parameters.txt").read_text()
    readme = (kit / "README.md").read_text()
    assert "docker run" in readme and "FastWordpieceTokenizeWithOffsets" in readme
    body = re.search(r"curl .*/v1/models/reviews:predict -d '(.*)'", readme).group(1)
    assert json.loads(body)["instances"][0].keys() == {"text", "text_pair"}


@pytest.mark.parametrize("dtype", ["bfloat16", "bfloat16_onednn", "int8_onednn"])
def test_weights_are_arranged_once_but_in_float32(dtype, served, model_folder, tmp_path):
    variable = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1"
    kit = served.parent
    assert (
        variable not in (kit / "docker-compose.yml").read_text() + (kit / "README.md").read_text()
    )
    family = open_signatures(model_folder("pairs"), ExportOptions(dtype))
    write_kit(tmp_path, family, served)
    compose = (tmp_path / "docker-compose.yml").read_text()
    assert f"    environment:\n      - {variable}\n    ports:\n" in compose
    assert f" -e {variable} -v " in (tmp_path / "README.md").read_text()


def test_one_thread_for_an_operation_is_an_offer(served):
    # Small models gain, large ones and long texts lose: nothing is set unasked.
    flag = "--tensorflow_intra_op_parallelism=1"
    lines = (served.parent / "docker-compose.yml").read_text().splitlines()
    assert [line.strip() for line in lines if flag in line] == [f"# - {flag}"]
    readme = (served.parent / "README.md").read_text()
    command = re.search(r"docker run (?:.*\\\n)*.*", readme).group()
    assert flag in readme and flag not in command


def test_warm_up_is_what_the_server_replays(served):
    sizes = []
    for name, signature, inputs in requests_of(served / WARMUP_FILE):
        assert (name, signature) == ("reviews", "serving_default")
        assert inputs.keys() == {"text", "text_pair"}
        sizes.append(len(inputs["text"]))
    assert sizes == [1, 8]  # not the 32 that the guard would refuse


@pytest.mark.oracle  # tensorflow-serving-api
def test_warm_up_is_read_by_the_servers_own_protocol(model_folder):
    from tensorflow_serving.apis import predict_pb2

    family = open_signatures(model_folder("choices"), ExportOptions())
    for data, size in zip(warmup_requests(family, "swag"), (1, 8, 32), strict=True):
        request = predict_pb2.PredictRequest.FromString(data)
        assert request.model_spec.name == "swag"
        assert request.model_spec.signature_name == "serving_default"
        assert tf.make_ndarray(request.inputs["choices"]).shape == (size, 2)
        assert request.SerializeToString(deterministic=True) == data


@pytest.mark.slow
def test_samples_pass_the_guard(model_folder, tmp_path):
    # A server that is refused its own warm-up requests does not start.
    options = ExportOptions(max_batch=1, max_text_bytes=5, max_choices=1)
    served = export_saved_model(model_folder("choices"), tmp_path / "1.5", options=options)
    serve = tf.saved_model.load(str(served)).signatures["serving_default"]
    [(_, _, warmup)] = requests_of(served / WARMUP_FILE)
    assert serve(**warmup)["scores"].shape == (1, 1)
    readme = (served.parent / "README.md").read_text()
    (example,) = json.loads(re.search(r":predict -d '(.*)'", readme).group(1))["instances"]
    assert serve(**{k: tf.constant([v]) for k, v in example.items()})["scores"].shape == (1, 1)
    # A name that YAML takes for a number unless it is quoted; JSON's strings are YAML's too.
    compose = (served.parent / "docker-compose.yml").read_text()
    assert json.loads(re.search(r"services:\n  (.*):\n", compose).group(1)) == "1.5"


def requests_of(file):
    """Yields model, signature and inputs of a file of requests, read field by field by hand."""
    for record in tf.data.TFRecordDataset(str(file)):
        # PredictionLog.predict_log (6) -> request (1) -> model_spec (1), inputs (2)
        request = dict(_fields(dict(_fields(record.numpy()))[6]))[1]
        spec = dict(_fields(dict(_fields(request))[1]))
        entries = [dict(_fields(value)) for number, value in _fields(request) if number == 2]
        inputs = {e[1].decode(): tf.constant(tf.make_ndarray(_tensor(e[2]))) for e in entries}
        yield spec[1].decode(), spec[3].decode(), inputs


def _tensor(data):
    proto = tf.make_tensor_proto([""])
    proto.ParseFromString(data)
    return proto


def _fields(data):
    """Yields number and content of the length-delimited fields of a protocol buffer."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        assert tag & 7 == 2
        size, place = _varint(data, place)
        yield tag >> 3, data[place : place + size]
        place += size


def _varint(data, place):
    number = shift = 0
    while True:
        byte = data[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return number, place
