"""Exports any model folder as a SavedModel that takes strings and gives answers.

    python tools/export_saved_model.py --model_dir=runs/reviews --export_dir=served/reviews

What loads it needs tensorflow and tensorflow_text only (imported for its operations); beside the
version the folder holds what TF Serving wants and a README with the commands. docs/serving.md tells
names and shapes of all signatures and the other formats. Several --model_dir are an ensemble, which
is served as one model.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from absl import flags, logging

from keras_bert import ExportOptions, command_line
from keras_bert.signatures.options import Head

# Not a list: commas stand in names of folders, such as those of a grid.
flags.DEFINE_multi_string(
    "model_dir",
    None,
    "Folder of a run of run_finetuning.py, or of any model; several runs are an ensemble.",
)
flags.DEFINE_string("export_dir", None, "Folder to write <version>/saved_model.pb into.")
flags.DEFINE_integer("version", None, "Number of the version; unset: the next one.")
flags.DEFINE_enum("head", "auto", get_args(Head), "What to serve; auto: what the folder holds.")
command_line.define_flags(ExportOptions)
flags.DEFINE_enum(
    "format",
    "serving",
    ["serving", "tfhub", "litert", "onnx"],
    "tfhub: SavedModels preprocess/ and encoder/ with the interface of TF-Hub's BERT; litert and "
    "onnx: model.tflite or model.onnx, which take token ids.",
)
flags.mark_flags_as_required(["model_dir", "export_dir"])

_SERVING_FLAGS = ("version", "head", *(field.name for field in dataclasses.fields(ExportOptions)))
_FLAGS_OF_FORMAT = {
    "serving": _SERVING_FLAGS,
    "tfhub": ("max_seq_length", "ignore_config_keys"),
    "litert": ("dtype", "head", "ignore_config_keys"),
    "onnx": ("dtype", "head", "ignore_config_keys"),
}


def main(_: Sequence[str]) -> None:
    """Reads the flags and exports."""
    values = flags.FLAGS
    for name in _SERVING_FLAGS:
        if values[name].present and name not in _FLAGS_OF_FORMAT[values.format]:
            raise ValueError(f"--format={values.format} takes no --{name}: leave it out")
    # TensorFlow lists every tensor that it renames.
    logging.set_verbosity(logging.WARNING)
    print(_export(values))


def _export(values: flags.FlagValues) -> Path:
    from keras_bert import export_saved_model
    from keras_bert.serving.formats.litert_onnx import export_litert, export_onnx
    from keras_bert.serving.formats.tf_hub import export_hub_form
    from keras_bert.storage.paths import check_local

    check_local("export_dir", values.export_dir)
    several = len(values.model_dir) > 1
    if several and values.format != "serving":
        raise ValueError(
            f"--format={values.format} takes one model, but --model_dir names "
            f"{len(values.model_dir)}: give one, or leave out --format"
        )
    folders, ignored = (values.model_dir[0], values.export_dir), values.ignore_config_keys or ()
    if values.format == "tfhub":
        return export_hub_form(*folders, values.max_seq_length, ignored)
    if values.format == "litert":
        return export_litert(*folders, values.dtype, values.head, ignored)
    if values.format == "onnx":
        return export_onnx(*folders, values.dtype, values.head, ignored)
    options = command_line.options_from_flags(ExportOptions)
    model_dir = values.model_dir if several else values.model_dir[0]
    return export_saved_model(model_dir, values.export_dir, values.version, options, values.head)


if __name__ == "__main__":
    command_line.run(main)
