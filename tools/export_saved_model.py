"""Exports any model folder as a SavedModel that takes strings and gives answers.

    python tools/export_saved_model.py --model_dir=runs/reviews --export_dir=served/reviews

What loads it needs tensorflow and tensorflow_text only (imported for its operations); beside the
version the folder holds what TF Serving wants and a README with the commands. docs/serving.md tells
names and shapes of all signatures and the other formats.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags, logging

from keras_bert import command_line

flags.DEFINE_string("model_dir", None, "Folder of a run of run_finetuning.py, or of any model.")
flags.DEFINE_string("export_dir", None, "Folder to write <version>/saved_model.pb into.")
flags.DEFINE_integer("version", None, "Number of the version; unset: the next one.")
flags.DEFINE_enum(
    "head", "auto", ["auto", "encoder", "masked_lm"], "What to serve; auto: what the folder holds."
)
flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16", "int8"], "Of weights and arithmetic.")
flags.DEFINE_integer("max_seq_length", None, "Most pieces of a row; unset: as in training.")
flags.DEFINE_integer("max_batch", None, "Refuse requests of more examples; unset: no limit.")
flags.DEFINE_integer("max_text_bytes", None, "Refuse longer texts; unset: no limit.")
flags.DEFINE_integer(
    "max_choices", None, "Refuse examples of more choices (multiple choice); unset: no limit."
)
flags.DEFINE_integer("top_k", 5, "Guesses for each mask of a masked language model.")
flags.DEFINE_bool(
    "text_pair", None, "A classifier of another library reads pairs of texts; unset: it does not."
)
flags.DEFINE_float(
    "null_threshold",
    None,
    "Null score above which a question has no answer; unset: as in training, none for models of "
    "another library.",
)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.DEFINE_enum(
    "pooling",
    None,
    ["cls", "mean", "max", "pooler"],
    "How an encoder's vectors of tokens become one of the sentence; unset: as the files of "
    "sentence-transformers say.",
)
flags.DEFINE_bool(
    "normalize",
    None,
    "Divide that vector by its length; unset: as the files of sentence-transformers say.",
)
flags.DEFINE_enum(
    "format",
    "serving",
    ["serving", "tfhub", "litert", "onnx"],
    "tfhub: SavedModels preprocess/ and encoder/ with the interface of TF-Hub's BERT; litert and "
    "onnx: model.tflite or model.onnx, which take token ids.",
)
flags.mark_flags_as_required(["model_dir", "export_dir"])

_SERVING_FLAGS = (
    *("version", "head", "dtype", "max_seq_length"),
    *("max_batch", "max_text_bytes", "max_choices", "top_k", "text_pair", "null_threshold"),
    *("ignore_config_keys", "pooling", "normalize"),
)
_FLAGS_OF_FORMAT = {
    "serving": _SERVING_FLAGS,
    "tfhub": ("max_seq_length",),
    "litert": ("dtype", "head"),
    "onnx": ("head",),
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
    from keras_bert.serving.formats.litert_onnx import export_litert, export_onnx
    from keras_bert.serving.formats.tf_hub import export_hub_form
    from keras_bert.serving.saved_model import export_saved_model
    from keras_bert.signatures.options import ExportOptions

    folders = values.model_dir, values.export_dir
    if values.format == "tfhub":
        return export_hub_form(*folders, values.max_seq_length)
    if values.format == "litert":
        return export_litert(*folders, values.dtype, values.head)
    if values.format == "onnx":
        return export_onnx(*folders, values.head)
    names = {field.name for field in dataclasses.fields(ExportOptions)}
    settings: dict[str, Any] = {name: values[name].value for name in names}
    options = ExportOptions(**settings)
    return export_saved_model(*folders, values.version, options, values.head)


if __name__ == "__main__":
    command_line.run(main)
