"""Verses of the King James Version put into the words of the World English Bible.

Fine-tunes an encoder and a decoder from each of the starts (bert2bert, bertshare, random; fresh is
bert2bert with nothing pretrained) on the sample data, and a conditional masked language model from
the first of them, and compares the texts they write for whole books that were held out with copying
the source: by beam search with each number of beams, and by Mask-Predict in several numbers of
iterations. BLEU and chrF are sacrebleu's, of texts as the
tokenizer writes them. Texts per second are those of the search with the encoder, from ids to ids,
the second time that a graph runs.

    make benchmark NAME=seq2seq ARGS='--model_dir=runs/verses'
    make benchmark NAME=seq2seq ARGS='--model_dir=runs/try --limit=64 --epochs=1 --starts=bertshare'
"""

import csv
import dataclasses
import gzip
import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import packages
import tensorflow as tf
from absl import app, flags

from keras_bert import (
    FinetunedModel,
    FinetuningOptions,
    Seq2SeqHead,
    create_task,
    finetune,
    load_preprocessor,
    load_tokenizer,
)
from keras_bert.tasks.seq2seq.metrics import GeneratedText, bleu, chrf
from keras_bert.tasks.seq2seq.rows import tokenized_text, written_text

_SAMPLE_DATA = Path(__file__).resolve().parents[1] / "tools" / "sample_data"
_HELD_OUT = {"dev": ("Galatians", "James"), "test": ("John", "Hebrews")}

_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder of the runs.", required=True)
_INIT_FROM = flags.DEFINE_string("init_from", None, "BERT to start from; unset: the small package.")
_STARTS = flags.DEFINE_list(
    "starts", ["bert2bert", "bertshare", "random", "fresh"], "Starts to compare."
)
_LIMIT = flags.DEFINE_integer("limit", None, "Verses of each split, evenly spread; unset: all.")
_EPOCHS = flags.DEFINE_integer("epochs", 10, "Passes over the verses.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Verses of a step.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
_LENGTH = flags.DEFINE_integer("length", 64, "Most pieces of a verse.")
_BEAM_SIZES = flags.DEFINE_list("beam_sizes", ["4", "1"], "Beams of the search; 1 is greedy.")
_ITERATIONS = flags.DEFINE_list(
    "iterations", ["1", "2", "4", "10"], "Iterations of Mask-Predict; empty: leave it out."
)
_CANDIDATES = flags.DEFINE_integer("length_candidates", 5, "Lengths that Mask-Predict tries.")
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


def measure(folder: Path, head: Seq2SeqHead, pairs: Sequence[Any]) -> tuple[float, float, float]:
    """Writes the texts of a split and returns their chrF and BLEU, and texts per second.

    Args:
        folder: a finished run.
        head: how its texts are written.
        pairs: sources and targets.
    """
    tuned = FinetunedModel.load(folder)
    model, tokenizer = tuned.model, tuned.tokenizer
    preprocess = load_preprocessor(folder, max_seq_length=_LENGTH.value)
    size = _BATCH_SIZE.value
    batches = [
        preprocess([pair.source for pair in pairs[start : start + size]])
        for start in range(0, len(pairs), size)
    ]
    options = head.search_options(model.config.vocab_size)
    generate = tf.function(
        lambda inputs: model.generate(inputs, options), autograph=False
    ).get_concrete_function(
        {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in batches[0]}
    )
    generate(batches[0])
    start = time.perf_counter()
    ids = [generate(batch).ids[:, 0].numpy() for batch in batches]
    seconds = time.perf_counter() - start
    texts = written_text(tokenizer, tf.concat(ids, axis=0), model.end_token_id).numpy()
    targets = tokenized_text(tokenizer, [pair.target for pair in pairs])
    found = [
        GeneratedText(text.decode("utf-8", "replace"), 0.0, target, 0, 1, 0.0)
        for text, target in zip(texts, targets, strict=True)
    ]
    return chrf(found, None), bleu(found, None), len(pairs) / seconds


def row(name: str, *values: str) -> None:
    """Prints a row of the table."""
    print(f"{name:28}" + "".join(f"{value:>16}" for value in values), flush=True)


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
    beams = {"beam_size": int(_BEAM_SIZES.value[0])}
    gaps = {"decoding": "mask_predict", "length_candidates": _CANDIDATES.value}
    runs = [(start, start, beams) for start in _STARTS.value]
    if _ITERATIONS.value:
        runs.append((f"{_STARTS.value[0]}, mask_predict", _STARTS.value[0], gaps))
    row("", "token accuracy", "chrF", "BLEU", "texts per s", "training s")
    for number, (name, start, search) in enumerate(runs):
        is_fresh = start == "fresh"
        decoder = "bert2bert" if is_fresh else start
        task = create_task("seq2seq", decoder=decoder, max_target_length=_LENGTH.value, **search)
        data = task.read(data_folder)
        pairs = data.splits["test"]
        if number == 0:
            copied = tokenized_text(tokenizer, [pair.source for pair in pairs])
            targets = tokenized_text(tokenizer, [pair.target for pair in pairs])
            found = [
                GeneratedText(text, 0.0, target, 0, 1, 0.0)
                for text, target in zip(copied, targets, strict=True)
            ]
            row("copy", "-", f"{chrf(found, None):.2f}", f"{bleu(found, None):.2f}", "-", "-")
        run_folder = folder / name.replace(", ", "_")
        options = dataclasses.replace(options, from_scratch=is_fresh)
        result = finetune(task, data, init_from, run_folder, options, keep_finished=True)
        assert result is not None
        head = FinetunedModel.load(run_folder).description.head
        assert isinstance(head, Seq2SeqHead)
        if head.fills_gaps:
            heads = [
                (f"{name}, {n}", head.with_search(iterations=int(n))) for n in _ITERATIONS.value
            ]
        else:
            heads = [
                (f"{name}, beams: {n}", dataclasses.replace(head, beam_size=int(n)))
                for n in _BEAM_SIZES.value
            ]
        accuracy = f"{result.metrics['test']['token_accuracy']:.4f}"
        for label, searched in heads:
            values = (f"{value:.2f}" for value in measure(run_folder, searched, pairs))
            row(label, accuracy, *values, f"{result.seconds:.0f}")


if __name__ == "__main__":
    app.run(main)
