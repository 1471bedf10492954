"""Fine-tunes a model on every task of GLUE that a folder holds, and writes the benchmark's table.

    python tools/run_glue.py --data=glue_data --init_from=bert --model_dir=runs/glue

--data holds the folders as they are published: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI
and diagnostic. Each task takes the best of the paper's learning rates on its development data (3
epochs, batches of 32). The folder it writes holds glue.md and glue.json, a model folder for each
task, and in submission/ what gluebenchmark.com takes.

The same command goes on with what was stopped and does no finished task again; SIGTERM saves first
and ends with exit status 143.
"""

import dataclasses
import signal
import sys
from collections.abc import Sequence

from absl import flags

from keras_bert import FinetuningOptions, command_line
from keras_bert.finetuning.options import OF_TEACHER

flags.DEFINE_string("data", None, "Folder that holds CoLA, SST-2 and so on, as published.")
flags.DEFINE_string("init_from", None, "Model folder that all tasks start from.")
flags.DEFINE_string("model_dir", None, "Folder to write: a table, and a model folder for each.")
flags.DEFINE_list("tasks", [], "Tasks to do: mnli,qqp,qnli,sst2,cola,stsb,mrpc,rte,wnli; all.")
flags.DEFINE_integer("seeds", 1, "Runs with different seeds at each point of the grid.")
flags.DEFINE_string(
    "grid",
    "learning_rate=5e-5,4e-5,3e-5,2e-5",
    "Options to search, as of run_finetuning.py; empty: none.",
)
# What belongs to the labels of one task.
_OF_ONE_TASK = ("class_weights", "teacher", *OF_TEACHER)
command_line.define_flags(FinetuningOptions, without=_OF_ONE_TASK)
flags.mark_flags_as_required(["data", "init_from", "model_dir"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, fine-tunes and prints the table."""
    from keras_bert import run_glue
    from keras_bert.finetuning.search import parse_grid
    from keras_bert.training.cluster import is_chief
    from keras_bert.training.strategy import create_strategy
    from keras_bert.visualize.finetuning_report import write_report

    values = flags.FLAGS
    grid = parse_grid(values.grid, command_line.given_flags()) if values.grid else None
    options = command_line.options_from_flags(
        FinetuningOptions,
        **{
            field.name: field.default
            for field in dataclasses.fields(FinetuningOptions)
            if field.name in _OF_ONE_TASK
        },
    )
    result = run_glue(
        values.data,
        values.init_from,
        values.model_dir,
        options,
        values.seeds,
        grid,
        values.tasks,
        lambda folder, task, data, runs, source: write_report(
            folder, task, runs, str(source), data
        ),
    )
    if result is None:
        sys.exit(128 + signal.SIGTERM)  # as of any process that it ended: this run is not done
    if not is_chief(create_strategy(options.strategy)):
        return
    print(result.table())
    print(f"table: {values.model_dir}/glue.md")


if __name__ == "__main__":
    command_line.run(main)
