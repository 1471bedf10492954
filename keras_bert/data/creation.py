"""Corpus to records on one machine: bounded memory, all cores, the same bytes for a seed."""

import collections
import contextlib
import dataclasses
import multiprocessing
import os
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from keras_bert.data import manifest as manifest_module
from keras_bert.data import units
from keras_bert.data.corpus import Corpus
from keras_bert.data.manifest import Manifest, Shard
from keras_bert.data.pretraining_examples import SENTENCE_TASKS, SentenceTask
from keras_bert.data.units import Unit, UnitCounts, UnitResult, UnitSettings
from keras_bert.progress import Progress
from keras_bert.text import tokenizer_config
from keras_bert.text import vocabulary as vocabulary_module
from keras_bert.text.vocabulary import Vocabulary

_PARTIAL = ".partial"
_UNITS_FOLDER = ".units"
# Units that wait for a worker, so that none is ever idle, for each worker.
_UNITS_AHEAD = 2
_SHORTEST_MAX_SEQ_LENGTH = 8


@dataclasses.dataclass(frozen=True)
class CreationOptions:
    """What the creation of pretraining data is told.

    Attributes:
        inputs: paths or globs of the corpus, see `keras_bert.data.corpus.Corpus`.
        vocab: a vocab.txt, whose tokenizer_config.json beside it is honoured, or a folder of both;
            in a file of another name capital letters decide between cased and uncased.
        output_dir: folder of the records; must not hold finished records.
        max_seq_length: the longest example in pieces, special tokens counted.
        dupe_factor: how many times each document is made into examples, each time cut and paired
            differently. Masks are drawn when records are read and need no copies.
        seed: where all randomness comes from.
        num_shards: number of files.
        num_workers: number of processes; 1 works in this one. The records are the same.
        sentence_task: "nsp", "sop" or "none".
        short_seq_prob: probability with which a document is cut into shorter examples.
        text_field: field of JSON lines that holds the text.
        errors: "strict", or "replace" to read bytes that are not UTF-8 as U+FFFD.

    Raises:
        ValueError: a number is out of its range.
    """

    inputs: tuple[str, ...]
    vocab: str
    output_dir: str
    max_seq_length: int = 128
    dupe_factor: int = 10
    seed: int = 12345
    num_shards: int = 8
    num_workers: int = 1
    sentence_task: SentenceTask = "nsp"
    short_seq_prob: float = 0.1
    text_field: str = "text"
    errors: str = "strict"

    def __post_init__(self) -> None:
        for name in ("dupe_factor", "num_shards", "num_workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if self.max_seq_length < _SHORTEST_MAX_SEQ_LENGTH:
            raise ValueError(
                f"max_seq_length is {self.max_seq_length}: it must be at least "
                f"{_SHORTEST_MAX_SEQ_LENGTH}, because special tokens take up to 3 of it"
            )
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob is {self.short_seq_prob}: it must be from 0 to 1")
        if self.sentence_task not in SENTENCE_TASKS:
            raise ValueError(
                f"sentence_task is {self.sentence_task!r}: choose one of "
                f"{', '.join(SENTENCE_TASKS)}"
            )


def create_pretraining_data(options: CreationOptions) -> Manifest:
    """Makes a folder of records, vocabulary, tokenizer settings and manifest from a corpus.

    The manifest is written last: a folder without one is unfinished.

    Args:
        options: everything there is to say.

    Returns:
        The manifest.

    Raises:
        FileExistsError: `output_dir` holds finished records.
        FileNotFoundError: an input or the vocabulary does not exist.
        ValueError: the corpus cannot be read, is empty or too short for one example.
    """
    output = Path(options.output_dir)
    _check_output(output)
    corpus = Corpus(options.inputs, options.text_field, options.errors)
    settings = _unit_settings(options)
    output.mkdir(parents=True, exist_ok=True)
    with _Shards(output, options.num_shards) as shards:
        counts, documents = _process_units(corpus, settings, shards, options)
        _check_counts(counts, documents, corpus)
        settings.vocabulary.save(output / vocabulary_module.FILE_NAME)
        tokenizer_config.write(output, settings.tokenizer_settings)
        manifest = _manifest(options, settings, counts, documents, shards.finish())
        manifest.write(output)
    return manifest


def _check_output(output: Path) -> None:
    if (output / manifest_module.FILE_NAME).exists():
        raise FileExistsError(
            f"{output} holds finished records already: remove the folder or choose another "
            "--output_dir"
        )
    if output.exists() and not output.is_dir():
        raise FileExistsError(f"{output} is a file: choose another --output_dir")


def _unit_settings(options: CreationOptions) -> UnitSettings:
    vocabulary, tokenizer_settings = _read_vocabulary(options.vocab)
    return UnitSettings(
        vocabulary,
        tokenizer_settings,
        options.max_seq_length,
        options.short_seq_prob,
        options.sentence_task,
        options.dupe_factor,
        options.seed,
        options.num_shards,
    )


def _read_vocabulary(vocab: str) -> tuple[Vocabulary, tokenizer_config.Settings]:
    path = Path(vocab)
    if path.is_dir():
        return tokenizer_config.read(path)
    if path.name == vocabulary_module.FILE_NAME:
        return tokenizer_config.read(path.parent)
    vocabulary = Vocabulary.from_file(path)
    return vocabulary, tokenizer_config.Settings(
        lowercase=not tokenizer_config.is_cased(vocabulary)
    )


def _process_units(
    corpus: Corpus, settings: UnitSettings, shards: "_Shards", options: CreationOptions
) -> tuple[UnitCounts, int]:
    """Works on all units and returns their sums and the number of documents."""
    counts, documents, position = UnitCounts(), 0, 0
    process = _process_here if options.num_workers == 1 else _process_in_pool
    with Progress(corpus.total_bytes, "B", "creating examples") as progress:
        progress.write(_plan(corpus, options))
        results = process(units.divide(corpus), settings, shards.folder, options.num_workers)
        for unit, result in results:
            shards.append(unit, result)
            counts = counts.plus(result.counts)
            documents += unit.new_documents
            progress.update(unit.end_position - position, examples=counts.examples)
            position = unit.end_position
    return counts, documents


def _process_here(
    divided: Iterable[Unit], settings: UnitSettings, folder: Path, _: int
) -> Iterator[tuple[Unit, UnitResult]]:
    from keras_bert.data.unit_processing import UnitProcessor  # loads TensorFlow

    processor = UnitProcessor(settings)
    for unit in divided:
        yield unit, processor.process(unit, _unit_path(folder, unit))


def _process_in_pool(
    divided: Iterable[Unit], settings: UnitSettings, folder: Path, num_workers: int
) -> Iterator[tuple[Unit, UnitResult]]:
    """Yields the results in the order of the units."""
    waiting: collections.deque[tuple[Unit, Future]] = collections.deque()
    # "spawn", because a forked TensorFlow may hang.
    pool = ProcessPoolExecutor(
        num_workers, multiprocessing.get_context("spawn"), _start_worker, (settings,)
    )
    with contextlib.ExitStack() as stack:
        stack.callback(pool.shutdown, cancel_futures=True)
        for unit in divided:
            path = _unit_path(folder, unit)
            waiting.append((unit, pool.submit(_process_in_worker, unit, path)))
            if len(waiting) > num_workers * _UNITS_AHEAD:
                yield _finished(*waiting.popleft())
        while waiting:
            yield _finished(*waiting.popleft())


def _finished(unit: Unit, future: Future) -> tuple[Unit, UnitResult]:
    try:
        return unit, future.result()
    except BrokenProcessPool:
        raise OSError(
            f"a worker process ended without a word at unit {unit.number}; most likely memory ran "
            "out: use fewer --num_workers"
        ) from None


def _start_worker(settings: UnitSettings) -> None:
    """Loads TensorFlow into a worker: one thread, since the workers share the cores, and no GPU."""
    global _worker
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    from keras_bert.data.unit_processing import UnitProcessor

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _worker = UnitProcessor(settings)


_worker: Any = None  # the UnitProcessor of a worker process


def _process_in_worker(unit: Unit, path: str) -> UnitResult:
    return _worker.process(unit, path)


def _unit_path(folder: Path, unit: Unit) -> str:
    return str(folder / f"{unit.number:08}")


class _Shards:
    """The files of records while they grow; they get their names when all are complete.

    Args:
        output: the folder of the records.
        number: how many files.
    """

    def __init__(self, output: Path, number: int):
        self._paths = [
            output / f"examples-{index:05}-of-{number:05}.tfrecord" for index in range(number)
        ]
        self._examples = [0] * number
        self._output = output
        self.folder = output / _UNITS_FOLDER

    def __enter__(self) -> "_Shards":
        self._remove_unfinished()  # of a job that was killed
        self.folder.mkdir()
        for path in self._paths:
            self._partial(path).touch()
        return self

    def __exit__(self, *exception: object) -> None:
        self._remove_unfinished()

    def append(self, unit: Unit, result: UnitResult) -> None:
        """Moves the records of a unit from its file to the ends of the shards."""
        unit_path = Path(_unit_path(self.folder, unit))
        with open(unit_path, "rb") as records:
            for index, size in enumerate(result.shard_bytes):
                if size:
                    with open(self._partial(self._paths[index]), "ab") as shard:
                        shard.write(records.read(size))
                self._examples[index] += result.shard_examples[index]
        unit_path.unlink()

    def finish(self) -> tuple[Shard, ...]:
        """Gives the files their names."""
        for path in self._paths:
            os.replace(self._partial(path), path)
        return tuple(
            Shard(path.name, examples, path.stat().st_size)
            for path, examples in zip(self._paths, self._examples, strict=True)
        )

    def _partial(self, path: Path) -> Path:
        return path.with_name(path.name + _PARTIAL)

    def _remove_unfinished(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for path in self._output.glob(f"examples-*{_PARTIAL}"):
            path.unlink()


def _plan(corpus: Corpus, options: CreationOptions) -> str:
    return (
        f"plan: {options.sentence_task} examples of up to {options.max_seq_length} pieces from "
        f"{len(corpus.paths)} file(s), {corpus.total_bytes / 1e6:.1f} MB, dupe factor "
        f"{options.dupe_factor} -> {options.num_shards} shard(s) in {options.output_dir}, "
        f"{options.num_workers} worker(s)"
    )


def _check_counts(counts: UnitCounts, documents: int, corpus: Corpus) -> None:
    names = ", ".join(corpus.paths[:3]) + (", ..." if len(corpus.paths) > 3 else "")
    if not counts.corpus_tokens:
        raise ValueError(f"the corpus is empty: no text in {names}; check --input")
    if not counts.examples:
        raise ValueError(
            f"the corpus ({counts.sentences} sentence(s) in {documents} document(s), {names}) is "
            "too short for one example: give more text, with blank lines between documents"
        )


def _manifest(
    options: CreationOptions,
    settings: UnitSettings,
    counts: UnitCounts,
    documents: int,
    shards: tuple[Shard, ...],
) -> Manifest:
    return Manifest(
        # What does not change the records is not recorded, so that equal records come with
        # equal manifests.
        settings={
            name: value
            for name, value in dataclasses.asdict(options).items()
            if name not in ("output_dir", "num_workers")
        },
        vocabulary_sha256=settings.vocabulary.sha256,
        vocab_size=len(settings.vocabulary),
        lowercase=settings.tokenizer_settings.lowercase,
        max_seq_length=options.max_seq_length,
        sentence_task=options.sentence_task,
        shards=shards,
        examples=counts.examples,
        tokens=counts.tokens,
        fill_rate=round(counts.tokens / (counts.examples * options.max_seq_length), 6),
        label_counts=(counts.labels_0, counts.labels_1),
        documents=documents,
        sentences=counts.sentences,
        corpus_tokens=counts.corpus_tokens,
        unknown_tokens=counts.unknown_tokens,
        lone_document_units=counts.lone_document_units,
    )
