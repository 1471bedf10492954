"""Shows how large a model is: parameters, operations and memory of its parts.

    python tools/inspect_model.py --model=bert_base --max_seq_length=512 --batch_size=16
    python tools/inspect_model.py --model=runs/mini/preset --output=size.html

--model is a named size (bert_tiny, albert_base, ...) or a config.json, counted with both heads of
pretraining, or a model folder of any format, counted with its own. plan_tpu.py compiles a step for
a TPU and tells what it really takes there.
"""

from collections.abc import Sequence

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("model", None, "Named size, config.json or model folder of any format.")
flags.DEFINE_integer("max_seq_length", 128, "Pieces per sequence.")
flags.DEFINE_integer("batch_size", 32, "Sequences per training step.")
flags.DEFINE_string("output", None, "HTML file to write as well.")
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["model"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, prints the tables and writes the page."""
    from keras_bert import inspect_model
    from keras_bert.visualize import html_page

    values = flags.FLAGS
    if values.output:
        html_page.check_name(values.output)
    report = inspect_model(
        values.model, values.max_seq_length, values.batch_size, values.ignore_config_keys
    )
    if values.output:
        report.save(values.output)
    for line in report.lines():
        print(line)


if __name__ == "__main__":
    command_line.run(main)
