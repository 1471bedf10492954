"""Environment variables with which TensorFlow starts where libtpu is but no TPU.

To be imported before TensorFlow, which reads them while it loads.
"""

import os

_VARIABLES = {
    # libtpu asks Google Cloud which machine it runs on, and waits minutes for the answer.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    # It refuses a second process, for the sake of a TPU that is not there.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "JAX_PLATFORMS": "cpu",
}

for _name, _value in _VARIABLES.items():
    os.environ.setdefault(_name, _value)
