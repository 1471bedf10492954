"""Corpus to records on one machine: bounded memory, all cores, the same bytes for a seed."""

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert.data.corpus.reading import Corpus
from keras_bert.data.creation import units
from keras_bert.data.creation.job_folder import FOLDER_NAME, JobFolder
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.creation.unit_pool import process_units
from keras_bert.data.creation.units import MaskingSettings, Unit, UnitCounts, UnitSettings
from keras_bert.data.records import manifest as manifest_module
from keras_bert.data.records.manifest import Manifest, Shard
from keras_bert.progress import Progress
from keras_bert.text import tokenizer_config
from keras_bert.text import vocabulary as vocabulary_module
from keras_bert.text.vocabulary import Vocabulary


def create_pretraining_data(options: CreationOptions) -> Manifest:
    """Makes a folder of records, vocabulary, tokenizer settings and manifest from a corpus.

    A job that was killed or interrupted goes on where it was when it is started again, and ends
    with the same bytes; only the units that were under way are done again.

    Args:
        options: everything there is to say.

    Returns:
        The manifest.

    Raises:
        FileExistsError: `output_dir` holds finished records, or a job that was told something else.
        FileNotFoundError: an input or the vocabulary does not exist.
        ValueError: the corpus cannot be read, is empty or too short for one example.
    """
    output = Path(options.output_dir)
    finished = finished_before(output, options)
    if finished:
        return finished
    corpus = Corpus(options.inputs, options.text_field, options.errors)
    settings = unit_settings(options)
    with JobFolder(output, _job(options, settings, corpus), options.num_shards) as job:
        _process(corpus, settings, job, options)
        check_counts(job.state.counts, job.state.documents, corpus)
        settings.vocabulary.save(job.folder / vocabulary_module.FILE_NAME)
        tokenizer_config.write(job.folder, settings.tokenizer_settings)
        state = job.state
        manifest = make_manifest(options, settings, state.counts, state.documents, job.shards())
        manifest.write(job.folder)
        job.finish([vocabulary_module.FILE_NAME, tokenizer_config.FILE_NAME])
    return manifest


def finished_before(output: Path, options: CreationOptions) -> Manifest | None:
    """Returns the manifest of this same job if it was killed after its last file, before its end.

    Raises:
        FileExistsError: the folder holds other finished records, or is a file.
        ValueError: the folder is an address of remote storage.
    """
    if "://" in options.output_dir:
        raise ValueError(
            f"--output_dir {options.output_dir} is an address: write to a local folder and copy it"
        )
    if output.exists() and not output.is_dir():
        raise FileExistsError(f"{output} is a file: choose another --output_dir")
    if not (output / manifest_module.FILE_NAME).exists():
        return None
    leftover = output / FOLDER_NAME
    if leftover.exists():
        manifest = Manifest.read(output)
        if manifest.settings == _as_json(recorded_settings(options)):
            shutil.rmtree(leftover)
            return manifest
    raise FileExistsError(
        f"{output} holds finished records already: remove the folder or choose another --output_dir"
    )


def unit_settings(options: CreationOptions) -> UnitSettings:
    """Returns what every unit is worked on with; reads the vocabulary."""
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
        options.cross_documents,
        options.pack,
        _masking_settings(options),
    )


def _masking_settings(options: CreationOptions) -> MaskingSettings | None:
    if not options.static_masking:
        return None
    return MaskingSettings(
        options.predictions_per_seq,
        options.masked_lm_prob,
        options.mask_token_rate,
        options.random_token_rate,
        options.masking,
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


def _job(options: CreationOptions, settings: UnitSettings, corpus: Corpus) -> dict[str, Any]:
    """Returns all that the records follow from; what is another in a job makes it another job."""
    return recorded_settings(options) | {
        "vocabulary": settings.vocabulary.sha256,
        "tokenizer": settings.tokenizer_settings._asdict(),
        "files of the corpus": corpus.fingerprint(),
    }


def recorded_settings(options: CreationOptions) -> dict[str, Any]:
    """Returns the options without those that do not change the records.

    Equal records come with equal manifests.
    """
    return {
        name: value
        for name, value in dataclasses.asdict(options).items()
        if name not in ("output_dir", "num_workers")
    }


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(values))


def _process(
    corpus: Corpus, settings: UnitSettings, job: JobFolder, options: CreationOptions
) -> None:
    """Works on all units that are still to be done."""
    state = job.state
    with Progress(corpus.total_bytes, "B", "creating examples", state.position) as progress:
        progress.write(plan(corpus, options, f"{options.num_workers} worker(s)"))
        if job.changed:
            progress.write(f"what was read before is compared ({'; '.join(job.changed)})")
            job.check_text(units.divide(corpus))
        if state.units:
            progress.write(
                f"going on after {state.units} unit(s), {state.position / 1e6:.1f} MB: "
                f"{state.counts.examples} examples are there"
            )
        left = _units_left(corpus, job)
        # Closed here: workers that outlive an interruption would be ended by Python as it ends
        # itself, with a traceback behind our last word.
        with contextlib.closing(
            process_units(left, settings, job.folder, options.num_workers)
        ) as results:
            for unit, result in results:
                position = job.state.position
                job.append(unit, result)
                progress.update(unit.end_position - position, examples=job.state.counts.examples)


def _units_left(corpus: Corpus, job: JobFolder) -> Iterator[Unit]:
    state = job.state
    for unit in units.divide(corpus, state.group):
        if state.is_before(unit):
            yield unit


def plan(corpus: Corpus, options: CreationOptions, workers: str) -> str:
    """Returns a line that tells what is about to be made, and by whom."""
    number = max(1, round(corpus.text_bytes / units.UNIT_CHARACTERS))
    kind = "packed " if options.pack else "cross-document " if options.cross_documents else ""
    masks = f"{options.masking} masks stored, " if options.static_masking else ""
    return (
        f"plan: {kind}{options.sentence_task} examples of up to {options.max_seq_length} pieces "
        f"from {len(corpus.paths)} file(s), {corpus.total_bytes / 1e6:.1f} MB, about {number} "
        f"unit(s), {masks}dupe factor {options.dupe_factor} -> {options.num_shards} shard(s) in "
        f"{options.output_dir}, {workers}"
    )


def check_counts(counts: UnitCounts, documents: int, corpus: Corpus) -> None:
    """Raises ValueError when the corpus gave no example."""
    names = ", ".join(corpus.paths[:3]) + (", ..." if len(corpus.paths) > 3 else "")
    if not counts.corpus_tokens:
        raise ValueError(f"the corpus is empty: no text in {names}; check --input")
    if not counts.examples:
        raise ValueError(
            f"the corpus ({counts.sentences} sentence(s) in {documents} document(s), {names}) is "
            "too short for one example: give more text, with blank lines between documents"
        )


def make_manifest(
    options: CreationOptions,
    settings: UnitSettings,
    counts: UnitCounts,
    documents: int,
    shards: tuple[Shard, ...],
) -> Manifest:
    """Returns the manifest of a job whose units are all done."""
    return Manifest(
        settings=recorded_settings(options),
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
        truncated_examples=counts.truncated_examples,
        truncated_tokens=counts.truncated_tokens,
        packed=options.pack,
        max_predictions_per_seq=options.predictions_per_seq if options.static_masking else None,
    )
