"""Corpus to records on Apache Beam, for a corpus that outgrows one machine: the same bytes.

Groups of files become units, units become records, and the records of a shard are brought together
and put into the order of the corpus. A shard is sorted in the memory of one worker: choose
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

from keras_bert.data.corpus.input_files import is_remote
from keras_bert.data.corpus.reading import Corpus
from keras_bert.data.creation.create import make_manifest, plan, unit_settings
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.creation.unit_processing import UnitProcessor
from keras_bert.data.creation.units import Unit, UnitCounts, UnitSettings, divide_group
from keras_bert.data.records import manifest as manifest_module
from keras_bert.data.records.manifest import Manifest, Shard, shard_name
from keras_bert.data.records.writing import frame_records
from keras_bert.storage import files
from keras_bert.text import tokenizer_config
from keras_bert.text import vocabulary as vocabulary_module

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
        FileExistsError: `output_dir` holds finished records.
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
    settings = unit_settings(options)
    print(plan(corpus, options, "Apache Beam"), file=sys.stderr, flush=True)
    tf.io.gfile.makedirs(output)
    with beam.Pipeline(options=PipelineOptions(list(pipeline_arguments))) as pipeline:
        _build(pipeline, corpus, settings, options)
    if not tf.io.gfile.exists(os.path.join(output, manifest_module.FILE_NAME)):
        for index in range(options.num_shards):
            tf.io.gfile.remove(os.path.join(output, shard_name(index, options.num_shards)))
        raise ValueError(
            f"the corpus ({', '.join(corpus.paths[:3])}) is empty or too short for one example: "
            "give more text, with blank lines between documents"
        )
    return _read_manifest(output)


def _build(
    pipeline: beam.Pipeline, corpus: Corpus, settings: UnitSettings, options: CreationOptions
) -> None:
    """Puts the pipeline together from what every runner has: no side inputs, no tagged outputs."""
    groups = [(number, group.sources) for number, group in enumerate(corpus.groups())]
    records = (
        pipeline
        | "Groups of files" >> beam.Create(groups)
        | "Spread groups" >> beam.Reshuffle()
        | "Divide" >> beam.FlatMapTuple(_units)
        | "Spread units" >> beam.Reshuffle()
        | "Make records" >> beam.ParDo(_MakeRecords(settings))
    )
    # A shard without records is a file, too, and no units have counts.
    keys = [*range(options.num_shards), _COUNTS]
    empty = pipeline | "All shards" >> beam.Create([(key, None) for key in keys])
    _ = (
        (records, empty)
        | beam.Flatten()
        | "By shard" >> beam.GroupByKey()
        | "Write shards" >> beam.Map(_write_shard, options.output_dir, options.num_shards)
        | "Together" >> beam.GroupByKey()
        | "Write manifest" >> beam.Map(_write_rest, options, settings)
    )


def _units(group: int, sources: Sequence[Any]) -> Iterator[Unit]:
    return divide_group(Corpus.of(sources), group)


class _MakeRecords(beam.DoFn):
    """Makes the records of a unit, those of each shard under its number, and its counts."""

    def __init__(self, settings: UnitSettings):
        self._settings = settings

    def setup(self) -> None:
        self._processor = UnitProcessor(self._settings)

    def process(self, unit: Unit) -> Iterator[Any]:
        shards, counts = self._processor.make_records(unit)
        for shard, records in enumerate(shards):
            if records:
                yield shard, ((unit.group, unit.number), records)
        yield _COUNTS, (counts, unit.new_documents)


def _write_shard(
    grouped: tuple[int, Iterable[Any]], output: str, num_shards: int
) -> tuple[int, Any]:
    """Writes a shard, or adds up the counts; all results have one key, to be brought together."""
    shard, parts = grouped
    given = [part for part in parts if part is not None]
    if shard == _COUNTS:
        return 0, _sum_of_counts(given)
    given.sort(key=lambda part: part[0])  # by group and number of the unit
    records = [record for _, of_unit in given for record in of_unit]
    name, content = shard_name(shard, num_shards), frame_records(records)
    _write_whole(os.path.join(output, name), lambda path: _write_bytes(path, content))
    return 0, Shard(name, len(records), len(content))


def _sum_of_counts(parts: Iterable[tuple[UnitCounts, int]]) -> tuple[UnitCounts, int]:
    total, documents = UnitCounts(), 0
    for counts, new_documents in parts:
        total, documents = total.plus(UnitCounts(*counts)), documents + new_documents
    return total, documents


def _write_whole(path: str, write: Any) -> None:
    """Writes a file under another name first: a worker may be killed, or replaced while it runs."""
    temporary = f"{path}.{uuid.uuid4().hex}"
    write(temporary)
    if not is_remote(path):
        files.flush([temporary])
    tf.io.gfile.rename(temporary, path, overwrite=True)
    if not is_remote(path):
        files.flush([os.path.dirname(path)])


def _write_rest(
    grouped: tuple[int, Iterable[Any]], options: CreationOptions, settings: UnitSettings
) -> None:
    """Writes vocabulary, settings of the tokenizer and, last, the manifest; nothing for nothing."""
    results = list(grouped[1])
    ((counts, documents),) = (result for result in results if not isinstance(result, Shard))
    if not counts.examples:
        return
    shards = (result for result in results if isinstance(result, Shard))
    made = tuple(sorted(shards, key=lambda shard: shard.name))
    with tempfile.TemporaryDirectory() as folder:
        settings.vocabulary.save(Path(folder) / vocabulary_module.FILE_NAME)
        tokenizer_config.write(folder, settings.tokenizer_settings)
        make_manifest(options, settings, counts, documents, made).write(folder)
        for name in (
            vocabulary_module.FILE_NAME,
            tokenizer_config.FILE_NAME,
            manifest_module.FILE_NAME,
        ):
            target = os.path.join(options.output_dir, name)
            _write_whole(target, lambda path, name=name: _copy(os.path.join(folder, name), path))


def _write_bytes(path: str, content: bytes) -> None:
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content)


def _copy(source: str, target: str) -> None:
    tf.io.gfile.copy(source, target)


def _read_manifest(output: str) -> Manifest:
    with tempfile.TemporaryDirectory() as folder:
        _copy(
            os.path.join(output, manifest_module.FILE_NAME),
            os.path.join(folder, manifest_module.FILE_NAME),
        )
        return Manifest.read(folder)
