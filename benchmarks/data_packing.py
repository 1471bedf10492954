"""Packing: how much of the sequences of 512 holds pieces, with `--pack` and without it.

    make benchmark NAME=data_packing

The texts of large_texts.py; a document is a page of the kernel's manual, a paragraph of the
dictionary, a chapter of the novels. A vocabulary of 16,000 is learned from each text;
--sentence_task=none.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import large_texts
from absl import app, flags

from keras_bert import BertTokenizer, CreationOptions, create_pretraining_data, train_vocabulary
from keras_bert.data.corpus.reading import Corpus
from keras_bert.data.records.manifest import Manifest

_TEXTS = flags.DEFINE_multi_enum(
    "texts", list(large_texts.TEXTS), list(large_texts.TEXTS), "What is packed."
)
_MOST_CHARACTERS = 30_000_000


def main(_: Sequence[str]) -> None:
    """Makes the records of each text twice and prints a row of the table."""
    print("| | documents | pieces in one | alone | packed | sequences |\n|---|---|---|---|---|---|")
    for text in _TEXTS.value:
        with tempfile.TemporaryDirectory() as folder:
            corpus = _write(large_texts.TEXTS[text](), Path(folder))
            vocabulary = train_vocabulary(Corpus([corpus]).paragraphs(), 16_000)
            BertTokenizer(vocabulary).save(folder)
            alone, packed = (_make_records(corpus, Path(folder), pack) for pack in (False, True))
        pieces = packed.corpus_tokens / packed.documents
        print(
            f"| {text} | {packed.documents:,} | {pieces:,.0f} "
            f"| {100 * alone.fill_rate:.1f} % | {100 * packed.fill_rate:.1f} % "
            f"| {alone.examples:,} become {packed.examples:,} |",
            flush=True,
        )


def _write(parts: Sequence[str], folder: Path) -> Path:
    """Writes a text: documents, or one part with blank lines between documents."""
    if len(parts) == 1:
        corpus = folder / "corpus.txt"
        corpus.write_text(parts[0][:_MOST_CHARACTERS], encoding="utf-8")
        return corpus
    corpus = folder / "corpus.jsonl"
    lines = (json.dumps({"text": part}) + "\n" for part in parts)
    corpus.write_text("".join(lines), encoding="utf-8")
    return corpus


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
