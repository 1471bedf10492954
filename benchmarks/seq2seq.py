"""Verses of the King James Version put into the words of the World English Bible.

Fine-tunes an encoder and a decoder from each of the starts (bert2bert, bertshare, random) on the
sample data and compares the texts they write for whole books that were held out with copying the
source. BLEU and chrF are sacrebleu's, of texts as the tokenizer writes them.

    make benchmark NAME=seq2seq ARGS='--model_dir=runs/verses'
    make benchmark NAME=seq2seq ARGS='--model_dir=runs/try --limit=64 --epochs=1 --starts=bertshare'
"""

import csv
import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path

import packages
from absl import app, flags

from keras_bert import FinetuningOptions, create_task, finetune, load_tokenizer
from keras_bert.tasks.seq2seq.metrics import GeneratedText, bleu, chrf
from keras_bert.tasks.seq2seq.rows import tokenized_text

_SAMPLE_DATA = Path(__file__).resolve().parents[1] / "tools" / "sample_data"
_HELD_OUT = {"dev": ("Galatians", "James"), "test": ("John", "Hebrews")}

_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder of the runs.", required=True)
_INIT_FROM = flags.DEFINE_string("init_from", None, "BERT to start from; unset: the small package.")
_STARTS = flags.DEFINE_list("starts", ["bert2bert", "bertshare", "random"], "Decoders to compare.")
_LIMIT = flags.DEFINE_integer("limit", None, "Verses of each split, evenly spread; unset: all.")
_EPOCHS = flags.DEFINE_integer("epochs", 10, "Passes over the verses.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Verses of a step.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
_LENGTH = flags.DEFINE_integer("length", 64, "Most pieces of a verse.")
_BEAM_SIZE = flags.DEFINE_integer("beam_size", 4, "Beams of the search.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the runs.")


def write_verses(folder: Path, limit: int | None) -> Path:
    """Writes train.tsv, dev.tsv and test.tsv with columns source and target.

    Args:
        folder: the folder.
        limit: the most verses of a split, evenly spread over it; None for all.
    """
    with gzip.open(_SAMPLE_DATA / "bible_verse_pairs.tsv.gz", "rt", encoding="utf-8") as file:
        verses = iter([line.rstrip("\n").split("\t") for line in file])
    splits: dict[str, list[list[str]]] = {"train": [], "dev": [], "test": []}
    with open(_SAMPLE_DATA / "bible_chapters.tsv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            split = next((s for s, books in _HELD_OUT.items() if row["book"] in books), "train")
            splits[split] += itertools.islice(verses, int(row["verses"]))
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in splits.items():
        every = -(-len(pairs) // limit) if limit else 1
        with open(folder / f"{split}.tsv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t")
            writer.writerow(["source", "target"])
            writer.writerows([text.removeprefix("¶ ") for text in pair] for pair in pairs[::every])
    return folder


def main(_: Sequence[str]) -> None:
    """Fine-tunes from each start and prints a table."""
    folder = Path(_MODEL_DIR.value)
    data_folder = write_verses(folder / "data", _LIMIT.value)
    init_from = _INIT_FROM.value or packages.minilm()
    tokenizer = load_tokenizer(init_from)
    options = FinetuningOptions(
        epochs=_EPOCHS.value,
        batch_size=_BATCH_SIZE.value,
        learning_rate=_LEARNING_RATE.value,
        max_seq_length=_LENGTH.value,
        seed=_SEED.value,
    )
    print(f"{'start':12}{'token accuracy':>16}{'chrF':>8}{'BLEU':>8}{'seconds':>10}", flush=True)
    for start in ["copy", *_STARTS.value]:
        task = create_task(
            "seq2seq",
            decoder="bert2bert" if start == "copy" else start,
            max_target_length=_LENGTH.value,
            beam_size=_BEAM_SIZE.value,
        )
        data = task.read(data_folder)
        if start == "copy":
            pairs = data.splits["test"]
            copied = tokenized_text(tokenizer, [pair.source for pair in pairs])
            targets = tokenized_text(tokenizer, [pair.target for pair in pairs])
            found = [
                GeneratedText(text, 0.0, target, 0, 1, 0.0)
                for text, target in zip(copied, targets, strict=True)
            ]
            print(f"{'copy':12}{'-':>16}{chrf(found, None):8.2f}{bleu(found, None):8.2f}{'-':>10}")
            continue
        result = finetune(task, data, init_from, folder / start, options)
        assert result is not None
        test = result.metrics["test"]
        print(
            f"{start:12}{test['token_accuracy']:16.4f}{test['chrf']:8.2f}{test['bleu']:8.2f}"
            f"{result.seconds:10.0f}",
            flush=True,
        )


if __name__ == "__main__":
    app.run(main)
