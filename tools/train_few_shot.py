r"""Trains a classifier of texts on 8 to 64 labeled ones of each class (SetFit).

    python tools/train_few_shot.py --data=reviews --init_from=minilm --model_dir=runs/few

--data is a folder with train, validation (or dev, valid, val) and test files (.csv, .tsv or .jsonl)
with the columns "text" and "label"; only the first is needed, and the others are measured only.
--init_from is best an encoder of sentences, such as a folder of sentence-transformers.
--model_dir becomes a model folder that predict.py and export_saved_model.py take, with metrics.json
and predictions; the trained encoder is in its folder "encoder".

The same command goes on from the last checkpoint of a run that was stopped; SIGTERM saves first and
ends with exit status 143.
"""

import signal
import sys
from collections.abc import Sequence

from absl import flags

from keras_bert import FewShotOptions, command_line

flags.DEFINE_string("data", None, "Folder of train and, if any, validation and test files.")
flags.DEFINE_string("init_from", None, "Model folder to start from, best an encoder of sentences.")
flags.DEFINE_string("model_dir", None, "Folder to write: a model folder with metrics.json.")
flags.DEFINE_string("text_column", None, "Column of the text; unset: text.")
flags.DEFINE_string("label_column", None, "Column of the label; unset: label.")
flags.DEFINE_list("labels", None, "All classes, comma-separated; unset: those of the train file.")
command_line.define_flags(FewShotOptions)
flags.mark_flags_as_required(["data", "init_from", "model_dir"])

_TASK_FLAGS = ("text_column", "label_column", "labels")


def main(_: Sequence[str]) -> None:
    """Reads the flags, trains and prints a table of the metrics."""
    from keras_bert import create_task, train_few_shot

    values = flags.FLAGS
    options = command_line.options_from_flags(FewShotOptions)
    given = {name: values[name].value for name in _TASK_FLAGS if values[name].value is not None}
    data = create_task("csv", **given).read(values.data)
    result = train_few_shot(data, values.init_from, values.model_dir, options)
    if result is None:
        sys.exit(128 + signal.SIGTERM)  # as of any process that it ended: this run is not done
    for split, metrics in result.metrics.items():
        for metric, value in metrics.items():
            print(f"{split:24}{metric:24}{value:10.4f}")
    if result.collapsed:
        print(f"collapsed: {result.collapsed}")
    print(f"model folder: {values.model_dir}")


if __name__ == "__main__":
    command_line.run(main)
