"""Shows what a folder of pretraining records holds.

    python tools/inspect_records.py --input=records/train --count=3

Prints the manifest's counts, percentiles of length, and decoded examples with one draw of masks.
"""

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("input", None, "Folder of records.")
flags.DEFINE_string("vocab", None, "vocab.txt, when it is not the one in the folder.")
flags.DEFINE_integer("count", 3, "How many examples to show.")
flags.mark_flags_as_required(["input"])

_SAMPLE = 10_000


def main(_: list[str]) -> None:
    """Reads the flags and prints the report."""
    from keras_bert.data.inspection import describe, show_examples
    from keras_bert.data.pretraining_pipeline import PretrainingData
    from keras_bert.text.vocabulary import Vocabulary

    options = flags.FLAGS
    data = PretrainingData(options.input)
    vocabulary = Vocabulary.from_file(options.vocab or f"{options.input}/vocab.txt")
    data.check_vocabulary(vocabulary)
    for line in describe(data, vocabulary, _SAMPLE):
        print(line)
    for text in show_examples(data, vocabulary, options.count):
        print("\n" + text)


if __name__ == "__main__":
    command_line.run(main)
