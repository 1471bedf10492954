r"""Makes more training texts: words replaced by what a masked language model puts in their place.

    python tools/augment_data.py --model=bert --data=reviews/train.csv \
        --output=reviews/unlabeled.csv --candidates=15 --copies=20

The copies have no labels, because a replaced word may change what a text says. A teacher answers
them: run_finetuning.py --teacher learns from unlabeled.csv beside train.csv.
"""

from collections.abc import Sequence

from absl import flags

from keras_bert import AugmentationOptions, command_line

flags.DEFINE_string("model", None, "Model folder with a masked LM head.")
flags.DEFINE_alias("init_from", "model")
flags.DEFINE_string("data", None, "Table of texts: CSV, TSV or JSON lines.")
flags.DEFINE_string("output", None, "Table to write: .csv.")
flags.DEFINE_list("text_columns", [], "Columns to change; unset: text and text_pair, if any.")
flags.DEFINE_string("label_column", "label", "Column of the label, which is left out.")
flags.DEFINE_bool("keep_labels", False, "Give each copy the label of its text.")
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
command_line.define_flags(AugmentationOptions)
flags.mark_flags_as_required(["model", "data", "output"])


def main(_: Sequence[str]) -> None:
    """Reads the flags and writes the table."""
    from keras_bert import augment_file
    from keras_bert.storage.paths import check_ending

    values = flags.FLAGS
    check_ending("--output", values.output, ".csv")
    written = augment_file(
        values.model,
        values.data,
        values.output,
        command_line.options_from_flags(AugmentationOptions),
        values.text_columns,
        values.label_column,
        values.keep_labels,
        values.ignore_config_keys,
    )
    print(f"{written:,} rows: {values.output}")


if __name__ == "__main__":
    command_line.run(main)
