"""Makes pretraining records: corpus in, shards and a manifest out, the same for any workers."""

import collections
import dataclasses
import hashlib
import itertools
import multiprocessing
import os
import random
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.data.corpus import Document, read_documents
from keras_bert.data.manifest import Manifest, Shard
from keras_bert.data.pretraining_examples import TokenizedDocument, next_sentence_pairs
from keras_bert.data.records import ExampleEncoder
from keras_bert.files import atomic_folder
from keras_bert.progress import Progress
from keras_bert.text.tokenizer import BertTokenizer

# Documents are worked on in units of about this many characters. A unit is what a worker gets at
# once and where "another document" is drawn from, so it must hold many documents of usual size.
_UNIT_CHARACTERS = 1 << 20


@dataclasses.dataclass(frozen=True)
class CreationOptions:
    """How records are made.

    Attributes:
        max_seq_length: the longest example in pieces, special ones included.
        dupe_factor: passes over the corpus, each with other cuts and pairs.
        short_seq_prob: how often a document is cut to a shorter target length.
        num_shards: files.
        num_workers: processes; 1 works in this one.
        seed: of all randomness.
        text_field: name of the text field of JSON lines.
        errors: "strict" or "replace", for bytes that are not UTF-8.
    """

    max_seq_length: int = 128
    dupe_factor: int = 10
    short_seq_prob: float = 0.1
    num_shards: int = 10
    num_workers: int = 1
    seed: int = 12345
    text_field: str = "text"
    errors: str = "strict"

    def __post_init__(self) -> None:
        if self.max_seq_length < 5:
            raise ValueError(
                f"max_seq_length is {self.max_seq_length}: a pair with [CLS] and two [SEP] needs "
                "at least 5 pieces"
            )
        for name in ("dupe_factor", "num_shards", "num_workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob is {self.short_seq_prob}: it must be from 0 to 1")


class UnitResult(NamedTuple):
    """The examples of one unit of documents."""

    examples: list[bytes]
    tokens: int
    positive_labels: int
    documents: int
    characters: int


def create_pretraining_data(
    paths: Iterable[str],
    tokenizer: BertTokenizer,
    output_dir: str | os.PathLike,
    options: CreationOptions,
) -> Manifest:
    """Writes a folder of records: `*.tfrecord`, `manifest.json`, the vocabulary and its settings.

    The folder appears when all of it is done. The same corpus, seed and options give the same
    bytes whatever the number of workers.

    Args:
        paths: corpus files.
        tokenizer: makes the ids.
        output_dir: the folder to write.
        options: everything else.

    Raises:
        FileExistsError: the folder holds records already.
        ValueError: the corpus is empty or has a single document.
    """
    output_dir = Path(output_dir)
    if output_dir.exists() and any(output_dir.iterdir()):
        raise FileExistsError(
            f"{output_dir} is not empty: remove it or choose another --output_dir"
        )
    total = sum(os.path.getsize(path) for path in paths if "://" not in path)
    compressed = any(path.endswith(".gz") for path in paths)
    units = _units(read_documents(paths, options.text_field, options.errors))
    with (
        atomic_folder(output_dir) as folder,
        Progress(None if compressed else total, "B", "creating records") as progress,
    ):
        tokenizer.save(folder)
        results = _work(units, tokenizer, options)
        manifest = _write(results, folder, tokenizer, options, progress)
        manifest.save(folder)
    return manifest


def _units(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Groups documents; no unit has a single one, unless the corpus has."""
    pending: list[Document] = []
    unit: list[Document] = []
    characters = 0
    for document in documents:
        if len(unit) > 1 and characters > _UNIT_CHARACTERS:
            if pending:
                yield pending
            pending, unit, characters = unit, [], 0
        unit.append(document)
        characters += sum(map(len, document))
    if len(unit) == 1:
        pending, unit = pending + unit, []
    if pending:
        yield pending
    if unit:
        yield unit


def _work(
    units: Iterable[list[Document]], tokenizer: BertTokenizer, options: CreationOptions
) -> Iterator[UnitResult]:
    """Yields the results of units in their order, a bounded number of units in the air."""
    if options.num_workers == 1:
        for index, unit in enumerate(units):
            yield examples_of_unit(unit, index, tokenizer, options)
        return
    arguments = (tokenizer.vocabulary, tokenizer.settings, options)
    with ProcessPoolExecutor(
        options.num_workers, multiprocessing.get_context("spawn"), _start_worker, arguments
    ) as pool:
        waiting: collections.deque[Future] = collections.deque()
        for index, unit in enumerate(units):
            waiting.append(pool.submit(_work_on_unit, unit, index))
            if len(waiting) > 2 * options.num_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


_worker: dict[str, Any] = {}


def _start_worker(vocabulary: Any, settings: dict[str, Any], options: CreationOptions) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _worker.update(tokenizer=BertTokenizer(vocabulary, **settings), options=options)


def _work_on_unit(unit: list[Document], index: int) -> UnitResult:
    return examples_of_unit(unit, index, _worker["tokenizer"], _worker["options"])


def examples_of_unit(
    unit: list[Document], index: int, tokenizer: BertTokenizer, options: CreationOptions
) -> UnitResult:
    """Returns all examples of a unit of documents, shuffled within each pass.

    Args:
        unit: at least two documents.
        index: the unit's number, from which its randomness is derived.
        tokenizer: makes the ids.
        options: how.

    Raises:
        ValueError: the unit has a single document.
    """
    vocabulary = tokenizer.vocabulary
    encoder = ExampleEncoder(len(vocabulary), vocabulary.cls_id, vocabulary.sep_id)
    documents = _tokenize(unit, tokenizer)
    if len(documents) < 2:
        raise ValueError(
            "the corpus has a single document, but a random next sentence comes from another one: "
            "part documents by blank lines"
        )
    examples: list[bytes] = []
    tokens = positive_labels = 0
    for dupe in range(options.dupe_factor):
        rng = random.Random(_seed(options.seed, index, dupe))
        encoded = []
        for pair in next_sentence_pairs(
            documents, options.max_seq_length, options.short_seq_prob, rng
        ):
            encoded.append(encoder.encode(pair.first, pair.second, int(pair.is_random)))
            tokens += len(pair.first) + len(pair.second) + 3
            positive_labels += pair.is_random
        rng.shuffle(encoded)
        examples += encoded
    characters = sum(len(sentence.encode()) for sentence in itertools.chain.from_iterable(unit))
    return UnitResult(examples, tokens, positive_labels, len(documents), characters)


def _tokenize(unit: list[Document], tokenizer: BertTokenizer) -> list[TokenizedDocument]:
    """Tokenizes all sentences of a unit at once; what has no piece is left out."""
    ids = tokenizer(list(itertools.chain.from_iterable(unit)))
    pieces, ends = ids.flat_values.numpy(), ids.row_splits.numpy()
    documents, sentence = [], 0
    for document in unit:
        splits = ends[sentence : sentence + len(document) + 1]
        sentence += len(document)
        document_ends = np.unique(splits - splits[0])[1:].tolist()
        if document_ends:
            documents.append(TokenizedDocument(pieces[splits[0] : splits[-1]], document_ends))
    return documents


def _seed(*numbers: int) -> int:
    # A hash instead of a sum: neighbouring units and passes must not share random numbers.
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "big")


def _write(
    results: Iterable[UnitResult],
    folder: Path,
    tokenizer: BertTokenizer,
    options: CreationOptions,
    progress: Progress,
) -> Manifest:
    """Deals the examples out to the shards in turn and describes what was written."""
    names = [_shard_name(index, options.num_shards) for index in range(options.num_shards)]
    writers = [tf.io.TFRecordWriter(str(folder / name)) for name in names]
    counts = [0] * options.num_shards
    examples = tokens = positive_labels = documents = 0
    for result in results:
        for example in result.examples:
            shard = examples % options.num_shards
            writers[shard].write(example)
            counts[shard] += 1
            examples += 1
        tokens += result.tokens
        positive_labels += result.positive_labels
        documents += result.documents
        progress.update(result.characters, documents=documents, examples=examples)
    for writer in writers:
        writer.close()
    return Manifest(
        settings=_settings(tokenizer, options),
        max_seq_length=options.max_seq_length,
        sentence_task="nsp",
        vocabulary_sha256=tokenizer.vocabulary.sha256,
        vocab_size=len(tokenizer.vocabulary),
        documents=documents,
        examples=examples,
        tokens=tokens,
        positive_labels=positive_labels,
        shards=tuple(
            Shard(name, count, (folder / name).stat().st_size)
            for name, count in zip(names, counts, strict=True)
        ),
    )


def _settings(tokenizer: BertTokenizer, options: CreationOptions) -> dict[str, Any]:
    # The number of workers is left out: it does not change a byte.
    settings = dataclasses.asdict(options) | {"tokenizer": tokenizer.settings}
    del settings["num_workers"]
    return settings


def _shard_name(index: int, count: int) -> str:
    return f"examples-{index:05d}-of-{count:05d}.tfrecord"
