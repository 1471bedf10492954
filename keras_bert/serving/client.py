"""A small client of TF Serving: REST with nothing but Python, or gRPC.

    >>> client = RestClient("localhost:8501", "reviews")             # doctest: +SKIP
    >>> client.predict({"text": ["A film.", "Another."]})["label"]   # doctest: +SKIP
    ['pos', 'neg']

gRPC needs the extra `serving` (tensorflow-serving-api), imported when it is used.
"""

import base64
import http.client
import json
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from keras_bert.counts import check_count, check_number
from keras_bert.storage.surrogates import without_lone_surrogates

GRPC_SCHEME = "grpc://"
REST_SCHEME = "http://"
# Of a gRPC message: its default of 4 MB is less than one long text may be.
_LARGEST_MESSAGE = 1 << 30
_LARGEST_PORT = 65535
# A month, in seconds.
_LONGEST_TIMEOUT = 30 * 24 * 60 * 60
# Inputs of the package's signatures that are strings.
_STRINGS = (
    *("text", "text_pair", "labels", "question", "context", "choices", "source", "examples"),
)

# Of the signature "generate", int64.
_SEED = "seed"

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
            ValueError: there are no values, not as many of each, some of another type, or of one
                input some of another form than others.
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
        ValueError: the server is not host:port, the version no whole number, or the timeout not
            above 0 or more than a month.
    """

    def __init__(self, server: str, model: str, version: int | None = None, timeout: float = 60.0):
        _check_timeout(timeout)
        check_count("version", version, least=0)
        self._server = _checked_address(server.removeprefix(REST_SCHEME).rstrip("/"))
        part = "" if version is None else f"/versions/{version}"
        # /v1/models/reviews:predict, or /v1/models/reviews/versions/2:predict
        self._path = f"/v1/models/{urllib.parse.quote(model, safe='')}{part}:predict"
        self._timeout = timeout

    def predict(self, inputs: Inputs, signature: str = "serving_default") -> dict[str, list]:
        """See `Client`."""
        sent = _checked(inputs)
        # By column -> by row: REST wants a dictionary for each example.
        rows = [dict(zip(sent, row, strict=True)) for row in zip(*sent.values(), strict=True)]
        request = {"signature_name": signature, "instances": rows}
        body = json.dumps(request, default=_base64).encode()
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
            # Texts that were sent as bytes come back as they are; as over gRPC.
            answer = json.loads(content.decode("utf-8", errors="replace"))
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
        ValueError: the server is not host:port, the version no whole number, the timeout not above
            0 or more than a month, or the extra `serving` is not installed.
    """

    def __init__(self, server: str, model: str, version: int | None = None, timeout: float = 60.0):
        _check_timeout(timeout)
        check_count("version", version, least=0)
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

        sent = _checked(inputs)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = self._model
        request.model_spec.signature_name = signature
        if self._version is not None:
            request.model_spec.version.value = self._version
        # By column: gRPC takes a tensor [N, ...] for each input. Whole numbers in lists are token
        # ids, int32, but for the seeds of `generate`; arrays of numbers have types of their own.
        for name, values in sent.items():
            given = inputs[name] if _is_numbers(inputs[name]) else values
            dtype = tf.int64 if name == _SEED else None
            request.inputs[name].CopyFrom(tf.make_tensor_proto(given, dtype))
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
    is_host = re.fullmatch(r"[^\s/\x00-\x1f\x7f]+", host)
    # Sockets take a larger port modulo 65,536: another server's.
    if not is_host or not port.isdecimal() or int(port) > _LARGEST_PORT:
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
    # Sockets take no more than the clock of the machine has.
    if not 0 < check_number("timeout", timeout) <= _LONGEST_TIMEOUT:
        raise ValueError(
            f"timeout is {timeout}: give seconds, above 0 and at most {_LONGEST_TIMEOUT:,}"
        )


def _checked(inputs: Inputs) -> dict[str, list]:
    """Returns the values of each input as nested lists that a server can be sent."""
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"inputs is a {type(inputs).__name__}: give values by name, such as {{'text': [...]}}"
        )
    found: dict[str, list] = {}
    for name, values in inputs.items():
        if isinstance(values, str | bytes):
            raise ValueError(f"{name} is one string, not a list of values: give [{name}]")
        found[name] = _as_lists(values)
        if not isinstance(found[name], list):
            raise ValueError(f"{name} is a {type(values).__name__}: give a list of values")
    counts = {name: len(values) for name, values in found.items()}
    if not counts or 0 in counts.values():
        raise ValueError("the request is empty: give at least one value of each input")
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise ValueError(f"the request holds {shown}: give as many of each")
    for seed in found.get(_SEED, ()):
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise ValueError(f"{_SEED} holds {repr(seed)[:60]}: give a whole number for each row")
    for name, values in found.items():
        if _is_numbers(inputs[name]) and name not in _STRINGS:
            continue  # by its type
        forms = [
            _form(value, f"{name}, value {number} (counted from 0),", name in _STRINGS)
            for number, value in enumerate(values)
        ]
        for number, form in enumerate(forms):
            if form != forms[0]:
                raise ValueError(
                    f"{name}, value {number} (counted from 0), is {form} and value 0 is "
                    f"{forms[0]}: a server takes values of one form; fill shorter rows up"
                )
    return found


def _is_numbers(values: Any) -> bool:
    """Tells whether values are an array of numbers, which all have one form."""
    return getattr(getattr(values, "dtype", None), "kind", None) in (*"biuf",)


def _as_lists(value: Any) -> Any:
    """Returns arrays, tensors and tuples as lists, and halves of surrogate pairs as U+FFFD."""
    if isinstance(value, str):
        return without_lone_surrogates(value)  # of strings of NumPy, too
    for method in ("numpy", "tolist"):  # of tensors, then of arrays and numbers
        if hasattr(value, method):
            return _as_lists(getattr(value, method)())
    return [_as_lists(part) for part in value] if isinstance(value, list | tuple) else value


def _form(value: Any, place: str, is_text: bool) -> str:
    """Returns what a value is in words: "a string", or "a list of 3 x a number".

    Raises:
        ValueError: it is neither strings nor numbers, or a list of several forms.
    """
    if isinstance(value, list):
        parts = list(dict.fromkeys(_form(part, place, is_text) for part in value))
        if len(parts) > 1:
            raise ValueError(f"{place} holds {parts[0]} and {parts[1]}: give parts of one form")
        return f"a list of {len(value)} x {parts[0]}" if parts else "an empty list"
    if isinstance(value, str | bytes):
        return "a string"
    if isinstance(value, int | float) and not is_text:
        return "a number"
    wanted = "strings" if is_text else "strings, bytes, numbers or lists of them"
    raise ValueError(f"{place} is {repr(value)[:60]}: give {wanted}")


def _base64(value: bytes) -> Any:
    """Returns what JSON has in place of bytes."""
    return {"b64": base64.b64encode(value).decode("ascii")}


def _decoded(value: Any) -> Any:
    # TensorFlow's strings are bytes; lists may be nested, as of the entities of several texts.
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    return value.decode("utf-8", errors="replace")
