"""What TF Serving wants beside a SavedModel: warm-up requests, configuration, how to start it.

    <name>/models.config                   which models it serves, and where they are
    <name>/batching_parameters.txt         how waiting requests are joined to one batch
    <name>/docker-compose.yml, README.md   how to start it and how to ask it
    <name>/1/assets.extra/                 requests that it answers before it takes others

The name of the folder is the name of the model, in all of these files and in URLs. A model of
several choices, of labels that a request names or of ids alone joins requests of equal shape only:
the README says so.
"""

import json
import re
from pathlib import Path

from keras_bert.serving.graph_operations import TEXT_OPERATIONS, graph_operations
from keras_bert.serving.prediction_log import predict_request, write_warmup
from keras_bert.signatures.base import SERVING_DEFAULT, SignatureFamily
from keras_bert.storage.files import atomic_file

WARMUP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
MODELS_FILE = "models.config"
IMAGE = "tensorflow/serving:2.19.1"
# Requests of several sizes, because memory is first taken for each of them.
_WARMUP_BATCHES = (1, 8, 32)

_BATCHING = """\
# Requests that wait are joined to one batch; inside it texts are grouped by length, so that long
# ones do not slow down short ones much. Requests of more examples than max_batch_size are refused.
max_batch_size {{ value: {most} }}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 100 }}
num_batch_threads {{ value: 2 }}
"""
# Examples that are joined to one batch where no limit is asked for.
_JOINED = 32

_MODELS = """\
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
  }}
}}
"""

# oneDNN arranges a weight as its products want it at the first request, not at each: the weights of
# a version never change. In float32 requests become 2 % slower.
_ENVIRONMENT = dict.fromkeys(
    ["bfloat16", "bfloat16_onednn", "int8_onednn"], "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1"
)
# Between operations all threads stay at work on other parts of a batch and on other requests.
_ONE_THREAD = "--tensorflow_intra_op_parallelism=1"
# What the variable does to a graph that is not ours.
_ENVIRONMENT_NOTE = (
    "For this model. A product of two computed matrices with a bias, in another model, would keep "
    "the second matrix of its first request."
)

_COMPOSE = """\
services:
  "{name}":
    image: {image}
{environment}    ports:
      - "8500:8500"  # gRPC
      - "8501:8501"  # REST
    volumes:
      - .:/models/{name}:ro
    command:
      - --model_config_file=/models/{name}/models.config
      - --enable_batching=true
      - --batching_parameters_file=/models/{name}/batching_parameters.txt
      # Small models answer more texts a second so, and one long text later:
      # - {one_thread}
"""

_README = """\
# {name}

A SavedModel for each version. Start TF Serving in this folder:

```bash
docker run --rm -p 8500:8500 -p 8501:8501 {environment}-v "$PWD:/models/{name}:ro" {image} \\
  --model_config_file=/models/{name}/models.config \\
  --enable_batching=true --batching_parameters_file=/models/{name}/batching_parameters.txt
```

or `docker compose up`.{note} Of a small model in a format with bfloat16 or int8, `{one_thread}`
makes more texts a second, and one long text takes longer: try it. Ask it:

```bash
curl -s http://localhost:8501/v1/models/{name}:predict -d '{body}'
```

`curl -s http://localhost:8501/v1/models/{name}/metadata` lists all signatures. With
`--enable_batching` a request holds at most {most} examples, and requests whose inputs differ in a
second axis cannot be joined: give all requests to a model of several choices the same number of
choices (empty strings at the end are none), all to `serve_zero_shot`, where there is one, the same
number of labels (empty ones are none) and all to `serve_ids` the same length, or start without it.
Joined requests are refused together: a client that is refused for what
it did not send should send its request again.

Operations of tensorflow_text that the graph uses, all of them in TF Serving's own binary:
{operations}.
"""


def warmup_requests(family: SignatureFamily, model: str) -> list[bytes]:
    """Returns serialized requests of several sizes for the default signature."""
    sample = family.example()
    most = family.options.max_batch
    return [
        # The same example so many times: what counts is the size of the request.
        predict_request(model, SERVING_DEFAULT, {key: [v] * size for key, v in sample.items()})
        for size in _WARMUP_BATCHES
        if most is None or size <= most
    ]


def add_warmup(version_folder: Path, family: SignatureFamily, model: str) -> None:
    """Writes the requests that TF Serving replays before it takes others."""
    write_warmup(version_folder / WARMUP_FILE, warmup_requests(family, model))


def write_kit(export_dir: Path, family: SignatureFamily, version_folder: Path) -> None:
    """Writes configuration and instructions beside the versions; see the README that it writes.

    Args:
        export_dir: holds the versions; its name is that of the model.
        family: the signatures.
        version_folder: the version just written.
    """
    name = model_name(export_dir)
    used = graph_operations(version_folder) & TEXT_OPERATIONS
    # Joined requests must pass the guard in the graph, which counts their examples together.
    most = family.options.max_batch or _JOINED
    variable = _ENVIRONMENT.get(family.options.dtype)
    environment = (
        f"    # {_ENVIRONMENT_NOTE}\n    environment:\n      - {variable}\n" if variable else ""
    )
    # All follow from the name, the signatures and the operations of the graph just written.
    contents = {
        "batching_parameters.txt": _BATCHING.format(most=most),
        MODELS_FILE: _MODELS.format(name=name),
        "docker-compose.yml": _COMPOSE.format(
            name=name, image=IMAGE, environment=environment, one_thread=_ONE_THREAD
        ),
        "README.md": _README.format(
            name=name,
            image=IMAGE,
            one_thread=_ONE_THREAD,
            environment=f"-e {variable} " if variable else "",
            note=f" `{variable}`: {_ENVIRONMENT_NOTE}" if variable else "",
            most=most,
            body=json.dumps({"instances": [family.example()]}),
            operations=", ".join(sorted(used)),
        ),
    }
    for file, content in contents.items():
        with atomic_file(export_dir / file) as path:
            path.write_text(content, encoding="utf-8")


def model_name(export_dir: Path) -> str:
    """Returns the name under which an export folder is served.

    Raises:
        ValueError: it is none that a URL, a configuration file and Docker all take.
    """
    # Resolved, so that --export_dir=. is served under the name of the folder.
    name = export_dir.resolve().name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(
            f"{export_dir} names the served model {name!r}: give an --export_dir that ends in "
            "ASCII letters, digits, '_', '.' and '-' alone"
        )
    return name
