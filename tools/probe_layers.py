r"""Tells what can be read off each layer of a frozen encoder, by probes on a tagging task.

    python tools/probe_layers.py --init_from=runs/mini/preset --data=brown --scheme=plain \
        --label_index=1 --output=probes

--data is a folder with train, dev (or validation) and test files of a word and its tag a line, or
tfds:name/config; --scheme=plain is for labels of single words, such as parts of speech. The folder
that it writes holds probe.json with all numbers, probe.png and probe.svg.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from keras_bert import ProbingOptions, command_line

# Arguments of the task; what is not given is left to it.
_TASK_FLAGS = ("word_index", "label_index", "scheme", "labels", "label_feature")

flags.DEFINE_string("init_from", None, "Model folder, of any format.")
flags.DEFINE_string("data", None, "Folder of train, dev and test files, or tfds:name.")
flags.DEFINE_string("output", "probes", "Folder to write.")
flags.DEFINE_string("task", "conll", "conll, conll2003 or module:function for a task of your own.")
flags.DEFINE_integer("word_index", None, "Column of the word, from 0 (unset: 0).")
flags.DEFINE_integer("label_index", None, "Column of the tag; negative from the last (unset: -1).")
flags.DEFINE_string("scheme", None, "BIO, IOB1, BIOES or plain (unset: seen in the tags).")
flags.DEFINE_string(
    "label_feature", None, "Feature of a TFDS set that holds the tags (unset: ner)."
)
flags.DEFINE_list(
    "labels",
    None,
    "Types of entities (PER,LOC) or, of plain tags, all of them; unset: those of the train file.",
)
command_line.define_flags(ProbingOptions)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["init_from", "data"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, probes, writes the files and prints a table."""
    from keras_bert import create_task, plot_probes, probe_layers
    from keras_bert.storage.paths import check_folder

    values = flags.FLAGS.flag_values_dict()
    check_folder("--output", values["output"])
    command_line.check_companions("edge_probe", "projection_size")
    options = command_line.options_from_flags(ProbingOptions)
    if ":" in values["task"]:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    arguments = {name: values[name] for name in _TASK_FLAGS if values[name] is not None}
    data = create_task(values["task"], **arguments).read(values["data"])
    result = probe_layers(
        values["init_from"], data, options, ignore_config_keys=values["ignore_config_keys"]
    )
    folder = Path(values["output"])
    print(result.table())
    result.save(folder / "probe.json")
    try:
        for name in ("probe.png", "probe.svg"):
            plot_probes(result, folder / name)
    except ValueError as error:
        print(f"no picture: {error}", file=sys.stderr)
    print(f"numbers and pictures: {folder}")


if __name__ == "__main__":
    command_line.run(main)
