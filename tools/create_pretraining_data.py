"""Makes pretraining records of a corpus: sentence pairs as TFRecords, not yet masked.

    python tools/create_pretraining_data.py --input='books/*.txt' --vocab=vocab/vocab.txt \
        --output_dir=records/train --max_seq_length=128 --num_workers=2

Masks are drawn when the records are read, so that every epoch sees new ones.
"""

import os

from absl import flags

from keras_bert import command_line

flags.DEFINE_list("input", None, "Corpus files: .txt, .jsonl, .gz of them; globs; by commas.")
flags.DEFINE_string("vocab", None, "vocab.txt; a tokenizer_config.json beside it is honoured.")
flags.DEFINE_string("output_dir", None, "Folder of records to make.")
flags.DEFINE_integer("max_seq_length", 128, "The longest example in pieces.")
flags.DEFINE_integer("dupe_factor", 10, "Passes over the corpus, each cut differently.")
flags.DEFINE_float("short_seq_prob", 0.1, "How often a document is cut to a shorter length.")
flags.DEFINE_integer("num_shards", 10, "Files.")
flags.DEFINE_integer("num_workers", 1, "Processes.")
flags.DEFINE_integer("seed", 12345, "Seed of all randomness.")
flags.DEFINE_string("text_field", "text", "Name of the text field of .jsonl files.")
flags.DEFINE_enum("errors", "strict", ["strict", "replace"], "What to do with bytes not in UTF-8.")
flags.mark_flags_as_required(["input", "vocab", "output_dir"])


def main(_: list[str]) -> None:
    """Reads the flags, makes the records and tells what was made."""
    import dataclasses

    from keras_bert.data.corpus import find_files
    from keras_bert.data.creation import CreationOptions, create_pretraining_data
    from keras_bert.text.tokenizer import BertTokenizer

    values = flags.FLAGS.flag_values_dict()
    names = [field.name for field in dataclasses.fields(CreationOptions)]
    options = CreationOptions(**{name: values[name] for name in names})
    paths = find_files(values["input"])
    tokenizer = BertTokenizer.from_preset(os.path.dirname(values["vocab"]) or ".")
    print(
        f"{len(paths)} file(s), {len(tokenizer.vocabulary):,} pieces, {options.dupe_factor} passes "
        f"-> {options.num_shards} shard(s) in {values['output_dir']}, "
        f"{options.num_workers} worker(s)",
        flush=True,
    )
    manifest = create_pretraining_data(paths, tokenizer, values["output_dir"], options)
    print(
        f"{manifest.examples:,} examples of {manifest.documents:,} documents, "
        f"{manifest.tokens:,} pieces, {100 * manifest.fill_rate:.1f} % of "
        f"{manifest.max_seq_length} filled, "
        f"{100 * manifest.positive_labels / max(manifest.examples, 1):.1f} % random next sentences"
    )


if __name__ == "__main__":
    command_line.run(main)
