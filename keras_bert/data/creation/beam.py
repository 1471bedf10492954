"""Corpus to records on Apache Beam, for a corpus that outgrows one machine: the same bytes.

Groups of files become chunks, chunks become records, and the records of a shard are brought
together and put into the order of the corpus. A shard is sorted in the memory of one worker: choose
`num_shards` so that it takes no more than some hundred MB.
"""

import os
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions

from keras_bert.data.corpus.reading import Corpus
from keras_bert.data.creation.chunk_processing import ChunkCounts, ChunkProcessor, ChunkSettings
from keras_bert.data.creation.chunks import Chunk, divide_group
from keras_bert.data.creation.create import check_nothing_there, plan, write_rest
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.records import manifest as manifest_module
from keras_bert.data.records.manifest import Manifest, Shard, shard_name
from keras_bert.data.records.writing import frame_records
from keras_bert.storage import files
from keras_bert.storage.paths import is_remote

# The key of counts beside the numbers of shards. Keys are integers: the hash of others, which some
# runners bring them together by, differs between processes.
_COUNTS = -1


def create_pretraining_data_with_beam(
    options: CreationOptions, pipeline_arguments: Sequence[str] = ()
) -> Manifest:
    """Makes what `create_pretraining_data` makes, byte for byte, with a Beam pipeline.

    Args:
        options: everything there is to say; `num_workers` is left to Beam, and `output_dir` may be
            an address such as gs://bucket/folder that all workers can write to.
        pipeline_arguments: Beam's own options, such as "--runner=DataflowRunner".

    Returns:
        The manifest.

    Raises:
        FileExistsError: `output_dir` holds records, finished or not, or the files of another
            tokenizer.
        FileNotFoundError: an input or the vocabulary does not exist.
        ValueError: the corpus is empty or too short for one example.
    """
    output = options.output_dir
    if tf.io.gfile.exists(os.path.join(output, manifest_module.FILE_NAME)):
        raise FileExistsError(
            f"{output} holds finished records already: remove the folder or choose another "
            "--output_dir"
        )
    corpus = Corpus(options.inputs, options.text_field, options.errors)
    settings = ChunkSettings.of(options)
    check_nothing_there(output, settings.tokenizer)
    print(plan(corpus, options, "Apache Beam"), file=sys.stderr, flush=True)
    tf.io.gfile.makedirs(output)
    with beam.Pipeline(options=PipelineOptions(list(pipeline_arguments))) as pipeline:
        _build(pipeline, corpus, settings)
    if not tf.io.gfile.exists(os.path.join(output, manifest_module.FILE_NAME)):
        for index in range(options.num_shards):
            tf.io.gfile.remove(os.path.join(output, shard_name(index, options.num_shards)))
        raise ValueError(
            f"the corpus ({', '.join(corpus.paths[:3])}) is empty or too short for one example: "
            "give more text, with blank lines between documents"
        )
    with tempfile.TemporaryDirectory() as folder:
        name = manifest_module.FILE_NAME
        tf.io.gfile.copy(os.path.join(output, name), os.path.join(folder, name))
        return Manifest.read(folder)


def _build(pipeline: beam.Pipeline, corpus: Corpus, settings: ChunkSettings) -> None:
    """Puts the pipeline together from what every runner has: no side inputs, no tagged outputs."""
    output, num_shards = settings.options.output_dir, settings.options.num_shards
    groups = [(number, group.sources) for number, group in enumerate(corpus.groups())]
    records = (
        pipeline
        | "Groups of files" >> beam.Create(groups)
        | "Spread groups" >> beam.Reshuffle()
        | "Divide" >> beam.FlatMapTuple(_chunks)
        | "Spread chunks" >> beam.Reshuffle()
        | "Make records" >> beam.ParDo(_MakeRecords(settings))
    )
    # A shard without records is a file, too, and no chunks have counts.
    keys = [*range(num_shards), _COUNTS]
    empty = pipeline | "All shards" >> beam.Create([(key, None) for key in keys])
    _ = (
        (records, empty)
        | beam.Flatten()
        | "By shard" >> beam.GroupByKey()
        | "Write shards" >> beam.Map(_write_shard, output, num_shards)
        | "Together" >> beam.GroupByKey()
        | "Write manifest" >> beam.Map(_write_rest, settings)
    )


def _chunks(group: int, sources: Sequence[Any]) -> Iterator[Chunk]:
    return divide_group(Corpus.of(sources), group)


class _MakeRecords(beam.DoFn):
    """Makes the records of a chunk, those of each shard under its number, and its counts."""

    def __init__(self, settings: ChunkSettings):
        self._settings = settings

    def setup(self) -> None:
        self._processor = ChunkProcessor(self._settings)

    def process(self, chunk: Chunk) -> Iterator[Any]:
        shards, counts = self._processor.make_records(chunk)
        for key, made in [*enumerate(shards), (_COUNTS, counts)]:
            if made:
                yield key, (chunk.identity, made)


def _write_shard(
    grouped: tuple[int, Iterable[Any]], output: str, num_shards: int
) -> tuple[int, Any]:
    """Writes a shard, or adds up the counts; all results have one key, to be brought together."""
    key, parts = grouped
    # In the order of the corpus, which is that of the chunks' identities.
    made = [part for _, part in sorted(filter(None, parts), key=lambda part: part[0])]
    if key == _COUNTS:
        return 0, ChunkCounts(*(sum(column) for column in zip(ChunkCounts(), *made, strict=True)))
    records = [record for part in made for record in part]
    name, content = shard_name(key, num_shards), frame_records(records)
    _write_whole(os.path.join(output, name), content)
    return 0, Shard(name, len(records), len(content))


def _write_whole(path: str, content: bytes) -> None:
    """Writes a file under another name first: a worker may be killed, or replaced while it runs."""
    temporary = f"{path}.{uuid.uuid4().hex}"
    with tf.io.gfile.GFile(temporary, "wb") as file:
        file.write(content)
    if not is_remote(path):
        files.flush([temporary])
    tf.io.gfile.rename(temporary, path, overwrite=True)
    if not is_remote(path):
        files.flush([os.path.dirname(path)])


def _write_rest(grouped: tuple[int, Iterable[Any]], settings: ChunkSettings) -> None:
    """Writes vocabulary, settings of the tokenizer and, last, the manifest; nothing for nothing."""
    results = list(grouped[1])
    (counts,) = (result for result in results if not isinstance(result, Shard))
    if not counts.examples:
        return
    shards = sorted(
        (result for result in results if isinstance(result, Shard)), key=lambda shard: shard.name
    )
    with tempfile.TemporaryDirectory() as folder:
        write_rest(folder, settings, counts, shards)
        for name in (*settings.tokenizer.file_names(), manifest_module.FILE_NAME):
            content = Path(folder, name).read_bytes()
            _write_whole(os.path.join(settings.options.output_dir, name), content)
