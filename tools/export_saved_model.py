"""Exports a fine-tuned model as a SavedModel that takes strings.

    python tools/export_saved_model.py --model_dir=runs/reviews --export_dir=served/reviews

What loads it needs tensorflow and tensorflow_text only (imported for its operations).
"""

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("model_dir", None, "Folder of a run of run_finetuning.py.")
flags.DEFINE_string("export_dir", None, "Folder to write <version>/saved_model.pb into.")
flags.DEFINE_integer("version", None, "Number of the version; unset: the next one.")
flags.mark_flags_as_required(["model_dir", "export_dir"])


def main(_: list[str]) -> None:
    """Reads the flags and exports."""
    from keras_bert.export.saved_model import export_saved_model

    values = flags.FLAGS
    print(export_saved_model(values.model_dir, values.export_dir, values.version))


if __name__ == "__main__":
    command_line.run(main)
