"""Predicts labels (or numbers) for the texts of a file.

    python tools/predict.py --model_dir=runs/reviews --input=new.csv --output=predictions.csv

The output is a CSV: the input's columns, then predicted_label and score_<label> for each label; for
a regression predicted_value.
"""

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("model_dir", None, "Folder of a run of run_finetuning.py.")
flags.DEFINE_string("input", None, "File of texts: .csv, .tsv or .jsonl.")
flags.DEFINE_string("output", None, "CSV file to write.")
flags.DEFINE_integer("batch_size", 32, "Texts per call of the model.", lower_bound=1)
flags.mark_flags_as_required(["model_dir", "input", "output"])


def main(_: list[str]) -> None:
    """Reads the flags and predicts."""
    from keras_bert.tasks.prediction import predict_file

    values = flags.FLAGS
    count = predict_file(values.model_dir, values.input, values.output, values.batch_size)
    print(f"{count:,} predictions: {values.output}")


if __name__ == "__main__":
    command_line.run(main)
