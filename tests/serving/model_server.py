"""TF Serving's interfaces over SavedModels: REST and gRPC on the loopback.

    python tests/serving/model_server.py [--grpc] NAME=BASE_PATH ...

loads every version of each model with tensorflow and tensorflow_text alone and prints its ports as
JSON; it ends with its standard input. Written from TF Serving's descriptions of both interfaces
(api_rest.md, prediction_service.proto), because its binary cannot be had everywhere: rows in
`instances`, rows in `predictions`, a single output without its name; the newest version unless the
request names one; the sentences and the kinds of its refusals.
"""

import base64
import contextlib
import json
import re
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Arrays = Mapping[str, Any]
_REST_PATH = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+))?:predict")
_REST_STATUS = {"NOT_FOUND": 404, "INVALID_ARGUMENT": 400}


class Refusal(Exception):
    """A request that is refused: the name of gRPC's code, and the sentence."""

    def __init__(self, code: str, sentence: str):
        super().__init__(sentence)
        self.code = code


class MissingSignature(Refusal):
    """A signature that the model does not have, in gRPC's words; REST has others."""

    def __init__(self, signature: str):
        super().__init__("FAILED_PRECONDITION", f'Serving signature key "{signature}" not found.')
        self.over_rest = Refusal(
            "INVALID_ARGUMENT", f'Serving signature name: "{signature}" not found in signature def'
        )


class Model(NamedTuple):
    """A signature of one version.

    Attributes:
        run: from arrays by name to arrays by name.
        dtypes: of its inputs.
    """

    run: Callable[[Arrays], Arrays]
    dtypes: Mapping[str, Any]


# name, version (None: the newest), signature -> the model; raises Refusal.
Find = Callable[[str, int | None, str], Model]


@contextlib.contextmanager
def rest_server(find: Find) -> Iterator[int]:
    """Yields the port of the REST interface."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):  # noqa: N802  (the base class's name)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                status, answer = 200, {"predictions": _predictions(find, self.path, body)}
            except Refusal as refusal:
                status, answer = _REST_STATUS[refusal.code], {"error": str(refusal)}
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _predictions(find: Find, path: str, body: bytes) -> list[Any]:
    asked = _REST_PATH.fullmatch(path)
    if not asked:
        raise Refusal("INVALID_ARGUMENT", f"Malformed request: POST {path}")
    request = json.loads(body)
    version = asked[2] and int(asked[2])
    name = urllib.parse.unquote(asked[1])
    try:
        model = find(name, version, request.get("signature_name", "serving_default"))
    except MissingSignature as missing:
        raise missing.over_rest from None
    rows = request["instances"]
    names = sorted(rows[0]) if rows else []
    # A name that the model does not know gets a sentence from the model itself.
    inputs = {
        name: np.array([_value(row[name]) for row in rows], model.dtypes.get(name, object))
        for name in names
    }
    outputs = model.run(inputs)
    sizes = {name: len(values) for name, values in outputs.items()}
    if set(sizes.values()) != {len(rows)}:
        raise Refusal("INVALID_ARGUMENT", f"outputs have inconsistent batch sizes: {sizes}")
    columns = {name: _plain(values) for name, values in outputs.items()}
    if len(columns) == 1:
        return next(iter(columns.values()))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _value(value: Any) -> Any:
    """Takes JSON's strings, those in base64 and lists of them as bytes."""
    if isinstance(value, list):
        return [_value(part) for part in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode() if isinstance(value, str) else value


def _plain(values: Any) -> Any:
    """Returns nested lists; strings must be UTF-8, or JSON could not carry them."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    if isinstance(values, list):
        return [_plain(part) for part in values]
    return values.decode() if isinstance(values, bytes) else values


@contextlib.contextmanager
def grpc_server(find: Find) -> Iterator[int]:
    """Yields the port of the gRPC interface; needs tensorflow-serving-api."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802  (gRPC's name)
            spec = request.model_spec
            version = spec.version.value if spec.HasField("version") else None
            try:
                model = find(spec.name, version, spec.signature_name or "serving_default")
                given = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
                outputs = model.run(given)
            except Refusal as refusal:
                context.abort(grpc.StatusCode[refusal.code], str(refusal))
            response = predict_pb2.PredictResponse()
            for name, value in outputs.items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
            return response

    server = grpc.server(ThreadPoolExecutor(4))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def saved_models(base_paths: Mapping[str, str]) -> Find:
    """Loads every version below each base path; its name is a number."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers its operations)

    versions = {
        name: {int(p.name): tf.saved_model.load(str(p)) for p in Path(base).glob("[0-9]*")}
        for name, base in base_paths.items()
    }

    def find(name: str, version: int | None, signature: str) -> Model:
        loaded = versions.get(name, {})
        asked = max(loaded, default=None) if version is None else version
        if asked not in loaded:
            which = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise Refusal("NOT_FOUND", f"Servable not found for request: {which}")
        if signature not in loaded[asked].signatures:
            raise MissingSignature(signature)
        serve = loaded[asked].signatures[signature]
        dtypes = {name: s.dtype for name, s in serve.structured_input_signature[1].items()}

        def run(inputs: Arrays) -> Arrays:
            if inputs.keys() != dtypes.keys():
                raise Refusal(
                    "INVALID_ARGUMENT",
                    f"inputs are {sorted(inputs)}, expected are {sorted(dtypes)}",
                )
            try:
                found = serve(**{key: tf.constant(v, dtypes[key]) for key, v in inputs.items()})
            except tf.errors.InvalidArgumentError as error:
                raise Refusal("INVALID_ARGUMENT", error.message) from None
            return {key: value.numpy() for key, value in found.items()}

        return Model(run, {key: dtype.as_numpy_dtype for key, dtype in dtypes.items()})

    return find


def main() -> None:
    """Serves until standard input ends."""
    with_grpc = "--grpc" in sys.argv
    find = saved_models(dict(a.split("=", 1) for a in sys.argv[1:] if a != "--grpc"))
    # Keras itself is imported by TensorFlow.
    assert not any(name.split(".")[0] == "keras_bert" for name in sys.modules)
    with contextlib.ExitStack() as stack:
        ports = {"rest": stack.enter_context(rest_server(find))}
        if with_grpc:
            ports["grpc"] = stack.enter_context(grpc_server(find))
        print(json.dumps(ports), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
