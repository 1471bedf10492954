"""Learns the word pieces of a corpus.

    python tools/build_vocab.py --input='books/*.txt' --output=vocab/vocab.txt --vocab_size=8000

Writes vocab.txt and, beside it, tokenizer_config.json with the treatment of case. Tells how well
the vocabulary covers the files of --held_out, or else the beginning of the corpus.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from absl import flags

from keras_bert import Vocabulary, command_line
from keras_bert.choices import DecodingErrors
from keras_bert.text.vocabulary import FILE_NAME

if TYPE_CHECKING:
    from keras_bert.text.coverage import Coverage

flags.DEFINE_list("input", None, "Files, globs (.txt, .jsonl, .parquet, compressed), tfds:name.")
flags.DEFINE_string("output", None, "The vocab.txt to write.")
flags.DEFINE_integer("vocab_size", 30522, "Number of entries.")
flags.DEFINE_bool("lowercase", True, "Lower-case the text and strip accents.")
flags.DEFINE_integer("min_frequency", 2, "How often a pair must occur to become one piece.")
flags.DEFINE_integer("unused_slots", 0, "Number of [unusedN] entries.", lower_bound=0)
flags.DEFINE_integer("limit_alphabet", 1000, "Distinct characters to keep; thousands for CJK.")
flags.DEFINE_string("text_field", "text", "Field or column that holds the text.")
flags.DEFINE_enum(
    "errors", "strict", get_args(DecodingErrors), "What to do with bytes not in UTF-8."
)
flags.DEFINE_list("held_out", None, "Files or globs that the report is about; not learned from.")
flags.mark_flags_as_required(["input", "output"])

_SAMPLE_PARAGRAPHS = 5000


def main(_: Sequence[str]) -> None:
    """Reads the flags, learns, writes, and tells what the vocabulary covers."""
    from keras_bert import train_vocabulary
    from keras_bert.data.corpus.reading import Corpus
    from keras_bert.progress import Progress

    values = flags.FLAGS
    output = Path(values.output)
    if output.name != FILE_NAME:
        raise ValueError(f"--output is {output}: name the file {FILE_NAME}, which models look for")
    if output.exists():
        raise FileExistsError(
            f"{output} exists, and models and records may depend on it: choose another --output, "
            "or remove it first"
        )
    corpus = Corpus(values.input, values.text_field, values.errors)
    held_out = None
    if values.held_out:  # a wrong path is told before hours of training
        held_out = Corpus(values.held_out, values.text_field, values.errors)
    # The corpus is read twice: once for its characters, once for its words.
    with Progress(2 * corpus.total_bytes, "B", "reading the corpus") as progress:
        vocabulary = train_vocabulary(
            corpus.paragraphs(progress),
            values.vocab_size,
            values.lowercase,
            values.min_frequency,
            values.unused_slots,
            values.limit_alphabet,
        )
    sample: Iterable[str] = itertools.islice(corpus.paragraphs(), _SAMPLE_PARAGRAPHS)
    place = f"on the first {_SAMPLE_PARAGRAPHS:,} paragraphs of the corpus"
    if held_out:
        sample, place = held_out.paragraphs(), f"on {', '.join(held_out.paths)}"
    coverage = _save_and_measure(vocabulary, output.parent, sample)
    print(f"{output}: {len(vocabulary):,} entries")
    if len(vocabulary) < values.vocab_size:
        print(f"note: the corpus holds no more that occur {values.min_frequency} times")
    print(f"{place} ({coverage.words:,} words): {coverage}")


def _save_and_measure(vocabulary: Vocabulary, folder: Path, sample: Iterable[str]) -> Coverage:
    from keras_bert.text import tokenizer_config
    from keras_bert.text.corpus_tokenizer import CorpusTokenizer
    from keras_bert.text.coverage import measure_coverage

    settings = tokenizer_config.Settings(lowercase=flags.FLAGS.lowercase)
    vocabulary.save(folder / FILE_NAME)
    tokenizer_config.write(folder, settings)
    return measure_coverage(CorpusTokenizer(vocabulary, settings), sample)


if __name__ == "__main__":
    command_line.run(main)
