r"""Learns the word pieces of a corpus.

    python tools/build_vocab.py --input='books/*.txt' --output=vocab/vocab.txt --vocab_size=8000

Writes vocab.txt and, beside it, tokenizer_config.json with the treatment of case. Tells how well
the vocabulary covers the files of --held_out, or else the beginning of the corpus. Corpora of
several languages have names, and their words count as if there were more of the small ones:

    python tools/build_vocab.py --input='en=en/*.txt,is=is/*.txt' --language_alpha=0.7 \
        --output=vocab/vocab.txt --vocab_size=30000

The other families name their files otherwise:

    python tools/build_vocab.py --type=byte_level_bpe --input='books/*.txt' --output=bpe/vocab.json

also writes merges.txt, for models like RoBERTa; --type=sentencepiece writes spiece.model, for
models like ALBERT, sentencepiece.bpe.model, for XLM-R, or spm.model, for DeBERTa, as --output
says; it needs the extra sentencepiece.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from absl import flags

from keras_bert import command_line
from keras_bert.choices import DecodingErrors
from keras_bert.text.tokenizer_config import (
    MODEL_FILES,
    SENTENCEPIECE_FILES,
    VOCAB_JSON,
    VOCABULARY_FILES,
)
from keras_bert.text.tokenizer_files import TokenizerFiles
from keras_bert.text.vocabulary import FILE_NAME
from keras_bert.text.wordpiece.files import WordPieceFiles
from keras_bert.text.wordpiece.settings import Settings

if TYPE_CHECKING:
    from keras_bert.data.corpus.reading import Corpus

# What each type may be written as.
_FILE_NAMES = {
    "wordpiece": (FILE_NAME,),
    "byte_level_bpe": (VOCAB_JSON,),
    "sentencepiece": MODEL_FILES,
}

# What flags are for that not all have.
_FLAGS_OF_KINDS = {
    "language_alpha": ("wordpiece",),
    "unused_slots": ("wordpiece",),
    "limit_alphabet": ("wordpiece",),
    "lowercase": ("wordpiece", MODEL_FILES[0]),
    "min_frequency": ("wordpiece", "byte_level_bpe"),
    "input_sentence_size": MODEL_FILES,
}

flags.DEFINE_list(
    "input",
    None,
    "Files, globs (.txt, .jsonl, .parquet, compressed), tfds:name; NAME=FILES for languages.",
)
flags.DEFINE_enum("type", "wordpiece", list(_FILE_NAMES), "Kind of the pieces.")
flags.DEFINE_string("output", None, "The vocab.txt to write; other types have other names.")
flags.DEFINE_integer("vocab_size", 30522, "Number of entries.")
flags.DEFINE_bool("lowercase", True, "Lower-case the text and strip accents.")
flags.DEFINE_integer("min_frequency", 2, "How often a pair must occur to become one piece.")
flags.DEFINE_integer("unused_slots", 0, "Number of [unusedN] entries.", lower_bound=0)
flags.DEFINE_integer("limit_alphabet", 1000, "Distinct characters to keep; thousands for CJK.")
flags.DEFINE_integer(
    "input_sentence_size",
    10_000_000,
    "Paragraphs that SentencePiece learns from, drawn at random from a larger corpus.",
    lower_bound=1,
)
flags.DEFINE_float(
    "language_alpha",
    1.0,
    "Exponent of the shares of named languages, 0 (alike) to 1 (by size).",
    lower_bound=0.0,
    upper_bound=1.0,
)
flags.DEFINE_string("text_field", "text", "Field or column that holds the text.")
flags.DEFINE_enum(
    "errors", "strict", get_args(DecodingErrors), "What to do with bytes not in UTF-8."
)
flags.DEFINE_list(
    "held_out", None, "Files or globs, NAME=FILES too, that the report is about; not learned from."
)
flags.mark_flags_as_required(["input", "output"])

_SAMPLE_PARAGRAPHS = 5000
_BATCH = 1000  # texts that the report has in memory


def main(_: Sequence[str]) -> None:
    """Reads the flags, learns, writes, and tells what the vocabulary covers."""
    from keras_bert.storage.files import make_parent
    from keras_bert.text.languages.smoothing import check_alpha_unused

    values = flags.FLAGS
    output = Path(values.output)
    _check_output(values, output)
    corpora = _opened(values, "input")
    if "" in corpora:
        check_alpha_unused(values.language_alpha, "input")
    # A wrong path is told before hours of training.
    held_out = _opened(values, "held_out") if values.held_out else {}
    kind = output.name if values.type == "sentencepiece" else values.type
    for name, kinds in _FLAGS_OF_KINDS.items():
        if values[name].present and kind not in kinds:
            raise ValueError(
                f"--{name} is for {' and '.join(kinds)}, and this makes {kind}: leave it out"
            )
    make_parent(output)  # what cannot be written is told before hours of training, too
    tokenizer = _learned(values, corpora, output)
    tokenizer.save(output.parent)
    entries = len(tokenizer.vocabulary)
    print(f"{output}: {entries:,} entries")
    if entries < values.vocab_size:
        seldom = values.type != "sentencepiece"  # which knows no least number
        often = f" that occur {values.min_frequency} times" if seldom else ""
        print(f"note: the corpus holds no more{often}")
    _report(tokenizer, held_out or corpora, whole=bool(held_out))


def _check_output(values: flags.FlagValues, output: Path) -> None:
    """Refuses a name that models do not look for, and files that are there."""
    from keras_bert.storage.paths import check_local

    check_local("--output", values.output)
    if output.name not in _FILE_NAMES[values.type]:
        names = " or ".join(_FILE_NAMES[values.type])
        raise ValueError(f"--output is {output}: name the file {names}, which models look for")
    # A run that was killed may have left the other files, which are written first.
    for existing in (output, *(output.parent / name for name in VOCABULARY_FILES)):
        if existing.exists():
            raise FileExistsError(
                f"{existing} exists, and models and records may depend on it: choose another "
                "--output, in another folder, or remove it first"
            )


def _opened(values: flags.FlagValues, option: str) -> dict[str, Corpus]:
    """Returns the corpus of each language, or the only one under an empty name."""
    from keras_bert.data.corpus.reading import Corpus
    from keras_bert.text.languages.smoothing import named_paths

    given: list[str] = values[option].value or []
    paths = named_paths(given, option) or {"": given}
    return {n: Corpus(found, values.text_field, values.errors) for n, found in paths.items()}


def _learned(
    values: flags.FlagValues, corpora: Mapping[str, Corpus], output: Path
) -> TokenizerFiles:
    """Learns a vocabulary of the type that is asked for."""
    from keras_bert import train_byte_level_bpe, train_sentencepiece, train_vocabulary
    from keras_bert.progress import Progress
    from keras_bert.text.sentencepiece.training import SentencePieceScheme

    has_languages = "" not in corpora
    # The corpus of a WordPiece is read twice: once for its characters, once for its words. Words
    # of several languages are counted here.
    passes = 2 if values.type == "wordpiece" and not has_languages else 1
    total_bytes = sum(corpus.total_bytes for corpus in corpora.values())
    with Progress(passes * total_bytes, "B", "reading the corpus", at_once=True) as progress:
        texts = {name: corpus.paragraphs(progress) for name, corpus in corpora.items()}
        paragraphs = _Joined(texts.values())
        if values.type == "wordpiece":
            vocabulary = train_vocabulary(
                texts if has_languages else paragraphs,
                values.vocab_size,
                values.lowercase,
                values.min_frequency,
                values.unused_slots,
                values.limit_alphabet,
                values.language_alpha,
            )
            return WordPieceFiles(vocabulary, Settings(lowercase=values.lowercase))
        if values.type == "byte_level_bpe":
            return train_byte_level_bpe(paragraphs, values.vocab_size, values.min_frequency)
        schemes = get_args(SentencePieceScheme)
        scheme = next(name for name in schemes if SENTENCEPIECE_FILES[name] == output.name)
        return train_sentencepiece(
            paragraphs, values.vocab_size, scheme, values.lowercase, values.input_sentence_size
        )


def _report(tokenizer: TokenizerFiles, corpora: Mapping[str, Corpus], whole: bool) -> None:
    """Tells how well a vocabulary covers corpora, the whole of each or its beginning."""
    from keras_bert.text.corpus_tokenizer import CorpusTokenizer
    from keras_bert.text.coverage import measure_coverage

    for name, corpus in corpora.items():
        sample: Iterable[str] = corpus.paragraphs()
        place = f"on {', '.join(corpus.paths)}"
        if not whole:
            sample = itertools.islice(sample, _SAMPLE_PARAGRAPHS)
            place = f"on the first {_SAMPLE_PARAGRAPHS:,} paragraphs of the corpus"
        place = f"{name}, {place}" if name else place
        if isinstance(tokenizer, WordPieceFiles):
            function = CorpusTokenizer(tokenizer.vocabulary, tokenizer.settings)
            coverage = measure_coverage(function, sample)
            print(f"{place} ({coverage.words:,} words): {coverage}")
        else:
            print(f"{place}: {_coverage(tokenizer, sample)}")


class _Joined:
    """Several texts one after the other, to be read as often as needed."""

    def __init__(self, parts: Iterable[Iterable[str]]):
        self._parts = list(parts)

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(self._parts)


def _coverage(tokenizer: TokenizerFiles, sample: Iterable[str]) -> str:
    """Returns how many pieces words take, where words stand between white space."""
    texts_to_ids, texts = tokenizer.texts_to_ids(), iter(sample)
    words = pieces = unknown = 0
    while batch := list(itertools.islice(texts, _BATCH)):
        words += sum(len(text.split()) for text in batch)
        ids, _ = texts_to_ids(batch)
        pieces += len(ids)
        unknown += int((ids == tokenizer.vocabulary.unk_id).sum())
    special = tokenizer.vocabulary.special_tokens.unk
    rate = f"{pieces / max(words, 1):.3f} pieces per word between spaces"
    return f"{rate}, {unknown:,} of {pieces:,} pieces {special}"


if __name__ == "__main__":
    command_line.run(main)
