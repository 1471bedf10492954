"""The client. Oracle: the graph that the server runs, asked directly."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_bert.serving.client import RestClient, ServerError, connect
from tests.serving.rest_server import rest_server
from tests.signatures.tiny_models import ask, random_texts


def test_answers_come_by_name(model_folder):
    texts = random_texts(5, seed=1)
    expected = ask(model_folder("classes"), text=texts)
    with rest_server(model_folder("classes")) as address:
        found = connect(f"http://{address}/", "tiny").predict({"text": texts})
    assert found["label"] == [label.decode() for label in expected["label"]]
    np.testing.assert_array_equal(np.float32(found["scores"]), expected["scores"])
    assert found["labels"] == [["bad", "fine", "good"]] * 6


def test_bytes_and_arrays_are_sent_as_json_has_them(model_folder):
    texts = ["the film", b"caf\xc3\xa9 \xff film"]
    expected = ask(model_folder("classes"), text=texts)
    with rest_server(model_folder("classes")) as address:
        client = RestClient(address, "tiny")
        for asked in (texts, np.array([b"the film", texts[1]])):
            found = client.predict({"text": asked})
            np.testing.assert_array_equal(np.float32(found["scores"]), expected["scores"])
    assert json.loads(sent_by({"text": ["a\ud800"]}))["instances"] == [{"text": "a\ufffd"}]
    # By hand: base64 of three bytes is four characters.
    request = {"examples": [b"\x00\x01\x02"], "seed": np.arange(1), "input_ids": np.ones([1, 2])}
    sent = json.loads(sent_by(request))["instances"]
    assert sent == [{"examples": {"b64": "AAEC"}, "seed": 0, "input_ids": [1.0, 1.0]}]


def sent_by(request):
    """The body that a server reads, which then hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        client = RestClient(f"127.0.0.1:{server.getsockname()[1]}", "tiny")
        asking = threads.submit(client.predict, request)
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as read:
            lengths = [line for line in iter(read.readline, b"\r\n") if b"Length" in line]
            body = read.read(int(lengths[0].split(b":")[1]))
        with pytest.raises(ConnectionError):
            asking.result()
    return body


def test_the_only_output_has_no_name(model_folder):
    with rest_server(model_folder("number")) as address:
        found = connect(address, "tiny").predict({"text": ["the film"]})
    expected = ask(model_folder("number"), text=["the film"])["score"]
    np.testing.assert_array_equal(np.float32(found[""]), expected)


def test_threads_share_a_client(model_folder):
    texts = random_texts(40, seed=3)
    expected = [label.decode() for label in ask(model_folder("classes"), text=texts)["label"]]
    with rest_server(model_folder("classes")) as address, ThreadPoolExecutor(8) as threads:
        client = RestClient(address, "tiny")
        found = threads.map(lambda text: client.predict({"text": [text]})["label"][0], texts)
        assert list(found) == expected


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({}, "the request is empty"),
        ({"text": []}, "the request is empty"),
        ({"text": ["a"], "text_pair": ["b", "c"]}, "1 of text, 2 of text_pair: give as many"),
        ({"text": "a film"}, r"text is one string, not a list of values: give \[text\]"),
        (["a film"], r"inputs is a list: give values by name, such as \{'text': \[...\]\}"),
        ({"text": 3}, "text is a int: give a list of values"),
        ({"text": ["a", {"b"}]}, r"text, value 1 \(counted from 0\), is {'b'}: give strings$"),
        ({"text": [None]}, "text, value 0 .*, is None: give strings$"),
        ({"text": ["a", 1]}, "text, value 1 .*, is 1: give strings$"),
        ({"own": [None]}, "own, value 0 .*, is None: give strings, bytes, numbers or lists of"),
        ({"own": ["a", 1]}, "own, value 1 .*, is a number and value 0 is a string: a server takes"),
        (
            {"input_ids": [[2, 3], [2]]},
            "input_ids, value 1 .* of 1 x a number and value 0 is .* 2 x",
        ),
        ({"seed": np.array([1.5])}, "seed holds 1.5: give a whole number for each row"),
        ({"seed": [True]}, "seed holds True: give a whole number"),
        ({"choices": [[["a"], ["b", "c"]]]}, "choices, value 0 .*: give parts of one form"),
    ],
)
@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", pytest.param("grpc://127.0.0.1:1", marks=pytest.mark.oracle)]
)
def test_requests_without_sense_are_not_sent(address, inputs, sentence):
    with pytest.raises(ValueError, match=sentence):
        connect(address, "tiny").predict(inputs)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf")])
def test_timeouts_are_checked(timeout):
    with pytest.raises(ValueError, match="timeout is .*: give seconds, above 0 and at most 2,592,"):
        connect("127.0.0.1:1", "tiny", timeout=timeout)
    for other in (None, "60"):
        with pytest.raises(ValueError, match=f"timeout is {other!r}: it must be a number"):
            connect("127.0.0.1:1", "tiny", timeout=other)


@pytest.mark.parametrize("version", [-1, "latest", True])
def test_versions_are_checked(version):
    with pytest.raises(ValueError, match=f"version is {version!r}: it must be .*0 or more"):
        connect("127.0.0.1:1", "tiny", version=version)


ADDRESSES = ("", "localhost", "https://host:1", "host:port", "host:1/v1", "a b:1", "host:65537")


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_are_checked(address):
    with pytest.raises(ValueError, match="expected host:port"):
        connect(address, "tiny")


def test_a_refusal_is_told_in_the_servers_words(model_folder):
    sentence = "/v1/models/an%2Fother:predict: Servable not found for request: an/other"
    with rest_server(model_folder("classes")) as address:
        with pytest.raises(ServerError, match=sentence):
            connect(address, "an/other").predict({"text": ["a"]})


def test_no_server_is_told():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="is TF Serving running there"):
            connect(address, "tiny").predict({"text": ["a"]})


@pytest.mark.parametrize(
    ("reply", "error", "sentence"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", ServerError, "answer in JSON"),
        # Killed inside of an answer: half of it has come.
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel",
            ConnectionError,
            "broke .* off before",
        ),
        (
            b'HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{"predictions": [1, 2]}',
            ServerError,
            "1 inputs were not answered one by one",
        ),
        (b"\x00\x01\x02\r\n\r\n", ConnectionError, "answer in HTTP: .* give grpc://"),
        (
            None,
            TimeoutError,
            "within 0.5 seconds: send fewer .* or give a longer timeout",
        ),
    ],
)
def test_other_servers_are_told(reply, error, sentence):
    with (
        answering(reply) as address,
        pytest.raises(error, match=sentence),
    ):
        # A busy machine answers late.
        RestClient(address, "tiny", timeout=60 if reply else 0.5).predict({"text": ["a"]})


def test_bytes_that_are_no_text_come_back_as_over_grpc():
    answer = b'{"predictions": [{"entities": ["caf\xe9", "film"]}]}'
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer)
    with answering(reply) as address:
        found = RestClient(address, "tiny").predict({"text": [b"caf\xe9 film"]})
    assert found == {"entities": [["caf\ufffd", "film"]]}


@contextlib.contextmanager
def answering(reply):
    """Yields the address of a server that gives a request these bytes, or nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                if reply:
                    connection.sendall(reply)
                else:
                    done.wait(10)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        done.set()
        thread.join()


def test_rest_needs_no_tensorflow():
    code = "import sys, keras_bert.serving.client; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@contextlib.contextmanager
def grpc_server(answer):
    """Yields the port of a server that gives every request, in bytes, the same answer."""
    import grpc

    handler = grpc.unary_unary_rpc_method_handler(answer)
    service = grpc.method_handlers_generic_handler(
        "tensorflow.serving.PredictionService", {"Predict": handler}
    )
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


@pytest.mark.oracle  # tensorflow-serving-api
@pytest.mark.parametrize(
    ("name", "error", "sentence"),
    [
        (
            None,
            TimeoutError,
            "within 0.5 seconds: send fewer .* or give a longer timeout",
        ),
        ("UNAVAILABLE", ConnectionError, r"does not answer \(gone\): is TF Serving running there"),
        ("NOT_FOUND", ServerError, "NOT_FOUND: gone"),
    ],
)
def test_grpc_tells_what_rest_tells(name, error, sentence):
    import grpc

    hold = threading.Event()

    def refuse(_, context):
        if name is None:
            hold.wait(10)
            return b""
        context.abort(grpc.StatusCode[name], "gone")

    with grpc_server(refuse) as port:
        client = connect(f"grpc://127.0.0.1:{port}", "tiny", timeout=60 if name else 0.5)
        with pytest.raises(error, match=f"127.0.0.1:{port}.*{sentence}"):
            client.predict({"text": ["a"]})
        hold.set()


@pytest.mark.oracle  # tensorflow-serving-api
def test_grpc_sends_whole_numbers_as_signatures_take_them():
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    found = {}

    def note(request, _):
        inputs = predict_pb2.PredictRequest.FromString(request).inputs
        found.update({name: tf.as_dtype(value.dtype) for name, value in inputs.items()})
        return predict_pb2.PredictResponse().SerializeToString()

    # TF Serving casts nothing that comes over gRPC: ids are int32, the seeds of "generate" int64.
    with grpc_server(note) as port:
        client = connect(f"grpc://127.0.0.1:{port}", "tiny")
        asked = {"input_ids": [[2, 5]], "seed": [1], "text": ["\ud800"], "own": np.ones([1, 2])}
        client.predict(asked, "generate")
    expected = {"input_ids": tf.int32, "seed": tf.int64, "text": tf.string, "own": tf.float64}
    assert found == expected
