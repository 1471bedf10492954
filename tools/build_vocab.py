"""Trains a WordPiece vocabulary on a corpus.

    python tools/build_vocab.py --input='books/*.txt' --output=vocab/vocab.txt --vocab_size=8000

Writes vocab.txt and, beside it, tokenizer_config.json with the treatment of case.
"""

import os

from absl import flags

from keras_bert import command_line

flags.DEFINE_list("input", None, "Corpus files: .txt, .jsonl, .gz of them; globs; by commas.")
flags.DEFINE_string("output", None, "The vocab.txt to write.")
flags.DEFINE_integer("vocab_size", 30522, "Entries of the vocabulary.")
flags.DEFINE_bool("lowercase", True, "Lower-case the text and drop accents.")
flags.DEFINE_integer("min_frequency", 2, "How often a pair must occur to become one piece.")
flags.DEFINE_string("text_field", "text", "Name of the text field of .jsonl files.")
flags.DEFINE_enum("errors", "strict", ["strict", "replace"], "What to do with bytes not in UTF-8.")
flags.mark_flags_as_required(["input", "output"])


def main(_: list[str]) -> None:
    """Reads the flags, trains, writes, and tells what the vocabulary covers."""
    from keras_bert.data.corpus import find_files, read_documents
    from keras_bert.progress import Progress
    from keras_bert.text.tokenizer import BertTokenizer
    from keras_bert.text.vocabulary_training import train_vocabulary

    options = flags.FLAGS
    if os.path.basename(options.output) != "vocab.txt":
        raise ValueError(
            f"--output is {options.output!r}: name the file vocab.txt, which models look for"
        )
    paths = find_files(options.input)
    sample: list[str] = []

    def sentences() -> object:
        for document in read_documents(paths, options.text_field, options.errors):
            if len(sample) < 10_000:
                sample.extend(document)
            progress.update(len(document))
            yield from document

    with Progress(None, "sentence", "reading the corpus") as progress:
        vocabulary = train_vocabulary(
            sentences(), options.vocab_size, options.lowercase, options.min_frequency
        )
    tokenizer = BertTokenizer(vocabulary, lowercase=options.lowercase)
    tokenizer.save(os.path.dirname(options.output) or ".")
    ids = tokenizer(sample).flat_values.numpy()
    words = ids[~vocabulary.continuation_mask[ids]]
    print(
        f"{options.output}: {len(vocabulary):,} entries of {options.vocab_size:,} asked for; on "
        f"{len(sample):,} sentences of the corpus {len(ids) / max(len(words), 1):.2f} pieces a "
        f"word, {100 * (ids == vocabulary.unk_id).mean():.3f} % [UNK]"
    )


if __name__ == "__main__":
    command_line.run(main)
