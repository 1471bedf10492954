"""TF Serving's gRPC interface over a SavedModel, for load tests where its binary cannot be had.

    python benchmarks/prediction_server.py EXPORT_DIR/VERSION MODEL_NAME

It loads the SavedModel with tensorflow and tensorflow_text alone, replays the warm-up file inside
it through the same code, and prints the port of the loopback that it then listens on. Needs the
extra serving.
"""

import sys
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers its operations)
from tensorflow_serving.apis import (
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)

_LARGEST_MESSAGE = 1 << 30
# As TF Serving's num_batch_threads for two cores: more requests at a time, or more threads that
# take turns, only take memory. The others wait.
_THREADS = 2


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers Predict with the signatures of a SavedModel.

    Args:
        folder: the SavedModel.
        name: under which the model is served.
    """

    def __init__(self, folder: str, name: str):
        self._model = tf.saved_model.load(folder)
        self._name = name

    def Predict(self, request: Any, context: Any) -> Any:  # noqa: N802  (gRPC's name)
        """Runs one signature."""
        if request.model_spec.name != self._name:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no model {request.model_spec.name!r}")
        serve = self._model.signatures[request.model_spec.signature_name or "serving_default"]
        inputs = {
            name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()
        }
        try:
            outputs = serve(**inputs)
        except tf.errors.InvalidArgumentError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
        response = predict_pb2.PredictResponse()
        for name, value in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
        return response

    def replay(self, warmup: Path) -> int:
        """Answers the requests of a warm-up file; returns their number."""
        count = 0
        for record in tf.data.TFRecordDataset(str(warmup)):
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            self.Predict(log.predict_log.request, None)
            count += 1
        return count


def main() -> None:
    """Serves until it is ended."""
    folder, name = sys.argv[1:]
    service = PredictionService(folder, name)
    count = service.replay(Path(folder) / "assets.extra" / "tf_serving_warmup_requests")
    sizes = [(f"grpc.max_{way}_message_length", _LARGEST_MESSAGE) for way in ("send", "receive")]
    server = grpc.server(futures.ThreadPoolExecutor(_THREADS), options=sizes)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"{count} warm-up requests replayed; listening on port {port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
