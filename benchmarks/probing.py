"""What the layers of a small pretrained BERT know of parts of speech: the Brown corpus, probed.

    make benchmark NAME=probing ARGS='--output=runs/probing'

The numbers and the picture of docs/inspection.md.
"""

import tempfile
from pathlib import Path

import brown
import packages
from absl import app, flags

from keras_bert import ProbingOptions, create_task, plot_probes, probe_layers

_OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)
_TEXTS = flags.DEFINE_integer("texts", 60, "Texts of about 2,200 words to draw sentences from.")
_WORDS = flags.DEFINE_integer("words", 20_000, "Words to learn from; half as many to measure on.")


def main(_: list[str]) -> None:
    """Probes, writes probe.json and pictures, and prints the table."""
    with tempfile.TemporaryDirectory() as folder:
        brown.write(Path(folder), _TEXTS.value)
        data = create_task("conll", label_index=1, scheme="plain").read(folder)
    options = ProbingOptions(max_train_words=_WORDS.value, max_eval_words=_WORDS.value // 2)
    result = probe_layers(packages.minilm(), data, options)
    output = Path(_OUTPUT.value)
    result.save(output / "probe.json")
    for name in ("probe.png", "probe.svg"):
        plot_probes(result, output / name)
    print(result.table())


if __name__ == "__main__":
    app.run(main)
