"""How long it takes until a program can begin: imports, ours and those of the peers.

    make benchmark NAME=startup_speed

Each line is a process of its own, from its start to its end; sides take turns.
"""

import statistics
import sys
from collections.abc import Sequence

from absl import app, flags
from measured_process import run_measured

_RUNS = flags.DEFINE_integer("runs", 5, "Runs of each side.", lower_bound=1)

_OURS = (
    "from keras_bert import BertClassifier, BertPreprocessor, BertTokenizer, create_optimizer, "
    "export_saved_model, finetune"
)
SIDES = {
    "keras_bert, no name of it": "import keras_bert",
    "tensorflow": "import tensorflow",
    "tensorflow and tensorflow_text": "import tensorflow, tensorflow_text",
    "keras_bert, models to serving": f"import tensorflow, tensorflow_text; {_OURS}",
    "transformers": "import torch; from transformers import BertModel, BertTokenizerFast",
    "keras_hub": "import keras_hub; keras_hub.models.BertTextClassifier",
}


def main(_: Sequence[str]) -> None:
    """Prints a row for each side."""
    costs = {
        name: [run_measured([sys.executable, "-c", code], TF_CPP_MIN_LOG_LEVEL="3")]
        for name, code in SIDES.items()  # once before, so that files are in memory
    }
    for found in costs.values():
        found.clear()
    for _ in range(_RUNS.value):
        for name, code in SIDES.items():
            command = [sys.executable, "-c", code]
            costs[name].append(run_measured(command, TF_CPP_MIN_LOG_LEVEL="3"))
    print("| imported | s | of the processors, s | memory, MB |\n|---|---|---|---|")
    for name, found in costs.items():
        seconds = statistics.median(cost.seconds for cost in found)
        busy = statistics.median(cost.cpu_seconds for cost in found)
        peak = statistics.median(cost.peak_bytes for cost in found)
        print(f"| {name} | {seconds:.2f} | {busy:.2f} | {peak / 1e6:,.0f} |")


if __name__ == "__main__":
    app.run(main)
