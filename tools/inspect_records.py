"""Shows what pretraining records hold: counts, fill rate, labels, lengths, pieces, examples.

    python tools/inspect_records.py --input=records/train --count=3

--input is a folder that create_pretraining_data.py made, or files of masked records of
create_pretraining_data.py of google-research/bert; these need --vocab.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from keras_bert import command_line

flags.DEFINE_list("input", None, "Folder of records, or files or globs of masked records.")
flags.DEFINE_string("vocab", None, "vocab.txt; the one in the folder if unset.")
flags.DEFINE_integer("count", 3, "How many examples to show.", lower_bound=0)
flags.mark_flags_as_required(["input"])


def main(_: Sequence[str]) -> None:
    """Reads the flags and prints the report."""
    from keras_bert.data.inspection import decoded_examples, describe, measure
    from keras_bert.data.pretraining_data import PretrainingData
    from keras_bert.text.vocabulary import FILE_NAME, Vocabulary

    inputs = flags.FLAGS.input
    data = PretrainingData(inputs[0] if len(inputs) == 1 else inputs)
    vocabulary = Vocabulary.from_file(flags.FLAGS.vocab or Path(data.folder) / FILE_NAME)
    data.check_vocabulary(vocabulary)
    for line in describe(data, measure(data, vocabulary), vocabulary):
        print(line)
    for text in decoded_examples(data, vocabulary, flags.FLAGS.count, sys.stdout.isatty()):
        print(f"\n{text}")


if __name__ == "__main__":
    command_line.run(main)
