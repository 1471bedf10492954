"""Requests as TF Serving's warm-up file wants them: records of serialized PredictionLog messages.

    PredictionLog { predict_log { request { model_spec { name, signature_name },
                                            inputs { key: "text", value: TensorProto } } } }

The messages are few and small, so their bytes are written here instead of asking for the package
tensorflow-serving-api. Field numbers are those of tensorflow_serving/apis: prediction_log.proto,
predict.proto and model.proto.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

_LENGTH_DELIMITED = 2  # wire type of strings, bytes and messages

_LOG_PREDICT_LOG = 6
_PREDICT_LOG_REQUEST = 1
_REQUEST_MODEL_SPEC = 1
_REQUEST_INPUTS = 2
_SPEC_NAME = 1
_SPEC_SIGNATURE = 3
_ENTRY_KEY = 1
_ENTRY_VALUE = 2


def predict_request(model: str, signature: str, inputs: Mapping[str, Any]) -> bytes:
    """Returns a serialized PredictRequest.

    Args:
        model: name of the served model.
        signature: name of the signature.
        inputs: strings, nested lists of them, or arrays by their names.
    """
    spec = _field(_SPEC_NAME, model.encode()) + _field(_SPEC_SIGNATURE, signature.encode())
    message = _field(_REQUEST_MODEL_SPEC, spec)
    for name, value in sorted(inputs.items()):
        tensor = tf.make_tensor_proto(value).SerializeToString()
        entry = _field(_ENTRY_KEY, name.encode()) + _field(_ENTRY_VALUE, tensor)
        message += _field(_REQUEST_INPUTS, entry)
    return message


def write_warmup(path: Path, requests: list[bytes]) -> None:
    """Writes serialized PredictRequests as a TFRecord file of PredictionLogs."""
    path.parent.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(path)) as file:
        for request in requests:
            file.write(_field(_LOG_PREDICT_LOG, _field(_PREDICT_LOG_REQUEST, request)))


def _field(number: int, content: bytes) -> bytes:
    # A field is its number and wire type, the length of its content, the content.
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    # Seven bits a byte, the low ones first, the top bit set on all but the last: 300 is ac 02.
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])
