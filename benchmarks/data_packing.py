"""Packing: how much of the sequences of 512 holds pieces, with `--pack` and without it.

Each text is a file (plain, .gz or .dz) with blank lines between documents, or a folder, of which
each .rst.gz is a document. A vocabulary of 16,000 is learned from each; --sentence_task=none.

    python benchmarks/data_packing.py --text=tools/sample_data/austen.txt.gz,folder
"""

import gzip
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from keras_bert.data.corpus import Corpus
from keras_bert.data.creation import create_pretraining_data
from keras_bert.data.creation_options import CreationOptions
from keras_bert.data.manifest import Manifest
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary_training import train_vocabulary

_TEXT = flags.DEFINE_list("text", None, "Files and folders of text.", required=True)
_MOST_CHARACTERS = 30_000_000


def main(_: Sequence[str]) -> None:
    """Makes the records of each text twice and prints a row of the table."""
    print("| | documents | pieces in one | alone | packed | sequences |\n|---|---|---|---|---|---|")
    for text in map(Path, _TEXT.value):
        with tempfile.TemporaryDirectory() as folder:
            corpus = (_write_documents if text.is_dir() else _write_text)(text, Path(folder))
            vocabulary = train_vocabulary(Corpus([corpus]).paragraphs(), 16_000)
            BertTokenizer(vocabulary).save(folder)
            alone, packed = (_make_records(corpus, Path(folder), pack) for pack in (False, True))
        pieces = packed.corpus_tokens / packed.documents
        print(
            f"| {text.name} | {packed.documents:,} | {pieces:,.0f} "
            f"| {100 * alone.fill_rate:.1f} % | {100 * packed.fill_rate:.1f} % "
            f"| {alone.examples:,} become {packed.examples:,} |",
            flush=True,
        )


def _write_text(path: Path, folder: Path) -> Path:
    corpus = folder / "corpus.txt"
    corpus.write_text(_read(path)[:_MOST_CHARACTERS], encoding="utf-8")
    return corpus


def _write_documents(source: Path, folder: Path) -> Path:
    corpus = folder / "corpus.jsonl"
    lines = (json.dumps({"text": _read(path)}) + "\n" for path in sorted(source.rglob("*.rst.gz")))
    corpus.write_text("".join(lines), encoding="utf-8")
    return corpus


def _read(path: Path) -> str:
    opened = gzip.open(path) if path.suffix in (".gz", ".dz") else open(path, "rb")
    with opened as file:
        return file.read().decode("utf-8", "ignore")  # bytes that are not UTF-8 are left out


def _make_records(corpus: Path, folder: Path, pack: bool) -> Manifest:
    return create_pretraining_data(
        CreationOptions(
            inputs=(str(corpus),),
            vocab=str(folder),
            output_dir=str(folder / f"records-{pack}"),
            max_seq_length=512,
            dupe_factor=1,
            sentence_task="none",
            pack=pack,
        )
    )


if __name__ == "__main__":
    app.run(main)
