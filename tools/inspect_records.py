"""Shows what pretraining records hold: counts, fill rate, labels, lengths, pieces, examples.

    python tools/inspect_records.py --input=records/train --count=3

--input is a folder that create_pretraining_data.py made, or files of masked records of
create_pretraining_data.py of google-research/bert; these need --vocab. A folder in a bucket
(gs://...) is copied to the local disk, as for training.
"""

import os
import sys
from collections.abc import Sequence

from absl import flags

from keras_bert import command_line

flags.DEFINE_list("input", None, "Folder of records, or files or globs of masked records.")
flags.DEFINE_string(
    "vocab", None, "vocab.txt, or a folder of a tokenizer; that of the records if unset."
)
flags.DEFINE_integer("count", 3, "How many examples to show.", lower_bound=0)
flags.mark_flags_as_required(["input"])


def main(_: Sequence[str]) -> None:
    """Reads the flags and prints the report."""
    from keras_bert import Vocabulary
    from keras_bert.data.records.inspection import decoded_examples, describe, measure
    from keras_bert.data.records.record_set import PretrainingData
    from keras_bert.pretraining.inputs import damage_named
    from keras_bert.storage.remote_folders import local_copy, local_files
    from keras_bert.text.tokenizer_config import TOKENIZER_FILES
    from keras_bert.text.tokenizer_files import read_tokenizer_files

    data = PretrainingData(_source(flags.FLAGS.input))
    vocab = flags.FLAGS.vocab
    if vocab is None:  # of a bucket the tokenizer's files alone, not all records beside them
        vocab = local_files(os.path.dirname(data.paths[0]) or ".", TOKENIZER_FILES)
    vocab = local_copy(vocab)
    is_folder = os.path.isdir(vocab)
    vocabulary = (
        read_tokenizer_files(vocab).vocabulary if is_folder else Vocabulary.from_file(vocab)
    )
    data.check_vocabulary(vocabulary)
    with damage_named(data):
        for line in describe(data, measure(data, vocabulary), vocabulary):
            print(line)
        for text in decoded_examples(data, vocabulary, flags.FLAGS.count, sys.stdout.isatty()):
            print(f"\n{text}")


def _source(inputs: list[str]) -> str | list[str]:
    """Returns the folder, or the files and globs; those of a bucket are read where they are."""
    import tensorflow as tf

    from keras_bert.storage.remote_folders import local_copy

    if len(inputs) > 1:
        return inputs
    return local_copy(inputs[0]) if tf.io.gfile.isdir(inputs[0]) else inputs[0]


if __name__ == "__main__":
    command_line.run(main)
