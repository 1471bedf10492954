"""Fine-tunes a pretrained BERT on a task.

    python tools/run_finetuning.py --task=csv --data=reviews --init_from=runs/mini/preset \
        --model_dir=runs/reviews --epochs=3 --batch_size=32 --learning_rate=3e-5

--data is a folder with train, validation (or dev) and test files in .csv, .tsv or .jsonl.
"""

import dataclasses
from pathlib import Path

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("task", "csv", "What is learned: csv (columns of text and label).")
flags.DEFINE_string("data", None, "Folder with train, validation (or dev) and test files.")
flags.DEFINE_string("init_from", None, "Model folder to start from.")
flags.DEFINE_string("model_dir", None, "Folder to write: a model folder with metrics.json.")
flags.DEFINE_integer("epochs", 3, "Passes over the training data.")
flags.DEFINE_integer("batch_size", 32, "Texts per step.")
flags.DEFINE_float("learning_rate", 3e-5, "Peak learning rate.")
flags.DEFINE_integer(
    "max_seq_length", None, "Most pieces of a text; unset: 128, or the model's positions if fewer."
)
flags.DEFINE_float("warmup_share", 0.1, "Share of the steps until the peak.")
flags.DEFINE_bool("from_scratch", False, "Start from fresh weights in place of the pretrained.")
flags.DEFINE_enum(
    "mixed_precision", "auto", ["auto", "float32", "bfloat16", "float16"], "Number format."
)
flags.DEFINE_integer("seed", 0, "Seed of fresh weights, order and dropout.")
flags.DEFINE_string("text_column", "text", "Column of the text.")
flags.DEFINE_string(
    "text_pair_column", None, "Column of the second text; unset: text_pair, if any."
)
flags.DEFINE_string("label_column", "label", "Column of the label.")
flags.DEFINE_bool("regression", False, "The labels are numbers, not classes.")
flags.DEFINE_list("labels", None, "All classes, comma-separated; unset: those of the train file.")
flags.mark_flags_as_required(["data", "init_from", "model_dir"])


def main(_: list[str]) -> None:
    """Reads the flags, fine-tunes and prints a table of the metrics."""
    from keras_bert.tasks.delimited import Columns
    from keras_bert.tasks.registry import create_task
    from keras_bert.training.finetuning import FinetuningOptions, finetune

    values = flags.FLAGS.flag_values_dict()
    names = [field.name for field in dataclasses.fields(FinetuningOptions)]
    options = FinetuningOptions(**{name: values[name] for name in names})
    columns = Columns(values["text_column"], values["text_pair_column"], values["label_column"])
    label_type = "regression" if values["regression"] else "class"
    task = create_task(
        values["task"], columns=columns, label_type=label_type, labels=values["labels"]
    )
    data = task.read(Path(values["data"]))
    result = finetune(task, data, values["init_from"], values["model_dir"], options)
    print(f"{'split':12}{'metric':24}{'value':>10}")
    for split in ("validation", "test"):
        for metric, value in getattr(result, split).items():
            print(f"{split:12}{metric:24}{value:10.4f}")
    print(
        f"best epoch: {result.best_epoch} of {options.epochs}; {result.seconds:.0f} s of training"
    )
    print(f"model folder: {values['model_dir']}")


if __name__ == "__main__":
    command_line.run(main)
