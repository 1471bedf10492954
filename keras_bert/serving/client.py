"""A small client of TF Serving: REST with nothing but Python, or gRPC.

    >>> client = RestClient("localhost:8501", "reviews")             # doctest: +SKIP
    >>> client.predict({"text": ["A film.", "Another."]})["label"]   # doctest: +SKIP
    ['pos', 'neg']

gRPC needs the extra `serving` (tensorflow-serving-api), imported when it is used.
"""

import base64
import http.client
import json
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

GRPC_SCHEME = "grpc://"
REST_SCHEME = "http://"
# Of a gRPC message: its default of 4 MB is less than one long text may be.
_LARGEST_MESSAGE = 1 << 30

Inputs = Mapping[str, Sequence[Any]]


class ServerError(ValueError):
    """The server was reached and refused, in its own words."""


class Client(Protocol):
    """What both clients do."""

    def predict(self, inputs: Inputs, signature: str = "serving_default") -> dict[str, list]:
        """Returns the outputs of a signature by name.

        Args:
            inputs: values by name, as many of each and at least one; strings, bytes or numbers, or
                lists of them.
            signature: name of one of the model's signatures.

        Raises:
            ValueError: there are no values, not as many of each, or some of another type.
            ConnectionError: there is no server.
            TimeoutError: there is one, but no answer in time.
            ServerError: it refused.
        """
        ...


class RestClient:
    """Talks to TF Serving's REST interface (port 8501); threads may share it.

    Args:
        server: host:port.
        model: name of the served model.
        version: which of its versions; None takes the newest.
        timeout: seconds.

    Raises:
        ValueError: the server is not host:port, or the timeout not above 0.
    """

    def __init__(self, server: str, model: str, version: int | None = None, timeout: float = 60.0):
        _check_timeout(timeout)
        self._server = _checked_address(server.removeprefix(REST_SCHEME).rstrip("/"))
        part = "" if version is None else f"/versions/{version}"
        # /v1/models/reviews:predict, or /v1/models/reviews/versions/2:predict
        self._path = f"/v1/models/{urllib.parse.quote(model, safe='')}{part}:predict"
        self._timeout = timeout

    def predict(self, inputs: Inputs, signature: str = "serving_default") -> dict[str, list]:
        """See `Client`."""
        _check_counts(inputs)
        # By column -> by row: REST wants a dictionary for each example.
        rows = [dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)]
        request = {"signature_name": signature, "instances": rows}
        body = json.dumps(request, default=_as_json).encode()
        connection = http.client.HTTPConnection(self._server, timeout=self._timeout)
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        except TimeoutError:
            raise _too_late(f"http://{self._server}", self._timeout) from None
        except (ConnectionResetError, http.client.IncompleteRead):
            raise ConnectionError(
                f"http://{self._server} broke the connection off before it had answered: is TF "
                "Serving still running there, and is this its REST port?"
            ) from None
        except http.client.HTTPException:
            raise ConnectionError(
                f"http://{self._server} does not answer in HTTP: give the REST port, or if it is "
                f"the gRPC port give {GRPC_SCHEME}{self._server}"
            ) from None
        except OSError as error:
            raise ConnectionError(
                f"http://{self._server} does not answer ({error}): is TF Serving running there, "
                "and is this its REST port?"
            ) from None
        finally:
            connection.close()
        try:
            answer = json.loads(content)
        except ValueError:
            raise ServerError(
                f"{self._server} does not answer in JSON: is this TF Serving's REST port?"
            ) from None
        # {"predictions": [...]}, or {"error": "..."} with a status that is not 200
        if not isinstance(answer, dict):
            answer = {"error": answer}
        if response.status != http.client.OK or "predictions" not in answer:
            raise ServerError(f"{self._server}{self._path}: {answer.get('error', answer)}")
        predictions = answer["predictions"]
        if not isinstance(predictions, list) or len(predictions) != len(rows):
            raise ServerError(
                f"{self._server}{self._path}: {len(rows)} inputs were not answered one by one: is "
                "this a model of the package?"
            )
        if not predictions or not isinstance(predictions[0], dict):
            # A signature with one output is answered without its name.
            return {"": predictions}
        # By row -> by column again.
        return {name: [row[name] for row in predictions] for name in predictions[0]}


class GrpcClient:
    """Talks to TF Serving's gRPC interface (port 8500); threads may share it.

    Args:
        server: host:port.
        model: name of the served model.
        version: which of its versions; None takes the newest.
        timeout: seconds.

    Raises:
        ValueError: the server is not host:port, the timeout not above 0, or the extra `serving` is
            not installed.
    """

    def __init__(self, server: str, model: str, version: int | None = None, timeout: float = 60.0):
        _check_timeout(timeout)
        try:
            import grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise ValueError(
                f"gRPC needs the package tensorflow-serving-api ({error}): pip install it, or "
                "give the server's REST port as host:port"
            ) from None
        self._server = _checked_address(server.removeprefix(GRPC_SCHEME).rstrip("/"))
        sizes = [
            (f"grpc.max_{way}_message_length", _LARGEST_MESSAGE) for way in ("send", "receive")
        ]
        channel = grpc.insecure_channel(self._server, options=sizes)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self._model, self._version, self._timeout = model, version, timeout

    def predict(self, inputs: Inputs, signature: str = "serving_default") -> dict[str, list]:
        """See `Client`."""
        import grpc
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        _check_counts(inputs)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = self._model
        request.model_spec.signature_name = signature
        if self._version is not None:
            request.model_spec.version.value = self._version
        # By column, as they are: gRPC takes a tensor [N, ...] for each input. Whole numbers are
        # token ids, int32, but for the seeds of `generate`.
        for name, values in inputs.items():
            dtype = tf.int64 if name == "seed" else None
            request.inputs[name].CopyFrom(tf.make_tensor_proto(values, dtype))
        try:
            response = self._stub.Predict(request, self._timeout)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                raise ConnectionError(
                    f"{GRPC_SCHEME}{self._server} does not answer ({error.details()}): is TF "
                    "Serving running there, and is this its gRPC port?"
                ) from None
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise _too_late(f"{GRPC_SCHEME}{self._server}", self._timeout) from None
            raise ServerError(f"{self._server}: {error.code().name}: {error.details()}") from None
        arrays = {name: tf.make_ndarray(value) for name, value in response.outputs.items()}
        # As nested lists, bytes as text.
        return {
            name: _decoded(array.tolist()) if array.dtype == object else array.tolist()
            for name, array in arrays.items()
        }


def connect(server: str, model: str, version: int | None = None, timeout: float = 60.0) -> Client:
    """Returns the client that an address asks for.

    Args:
        server: host:port or http://host:port for REST, grpc://host:port for gRPC.
        model: name of the served model.
        version: which of its versions; None takes the newest.
        timeout: seconds.

    Raises:
        ValueError: it is none of these, or gRPC is not installed.
    """
    kind = GrpcClient if server.startswith(GRPC_SCHEME) else RestClient
    return kind(server, model, version, timeout)


def _checked_address(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or "/" in address or not port.isdecimal():
        raise ValueError(
            f"server is {address!r}: expected host:port (REST, port 8501 of TF Serving) or "
            "grpc://host:port (port 8500)"
        )
    return address


def _too_late(server: str, timeout: float) -> TimeoutError:
    return TimeoutError(
        f"{server} gave no answer within {timeout:g} seconds: send fewer examples at a time "
        "(--batch_size) or give a longer timeout"
    )


def _check_timeout(timeout: float) -> None:
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout}: give seconds, above 0")


def _check_counts(inputs: Inputs) -> None:
    for name, values in inputs.items():
        if isinstance(values, str | bytes):
            raise ValueError(f"{name} is one string, not a list of values: give [{name}]")
    counts = {name: len(values) for name, values in inputs.items()}
    if not counts or 0 in counts.values():
        raise ValueError("the request is empty: give at least one value of each input")
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise ValueError(f"the request holds {shown}: give as many of each")


def _as_json(value: Any) -> Any:
    """Returns what JSON has in place of bytes and of NumPy's arrays and numbers."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode("ascii")}
    if hasattr(value, "tolist"):
        return value.tolist()
    raise ValueError(
        f"the request holds a {type(value).__name__}: give strings, bytes, numbers or lists of them"
    )


def _decoded(value: Any) -> Any:
    # TensorFlow's strings are bytes; lists may be nested, as of the entities of several texts.
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    return value.decode("utf-8", errors="replace")
