"""Corpus to records on one machine: bounded memory, all cores, the same bytes for a seed."""

import contextlib
import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_bert.data.corpus.reading import Corpus
from keras_bert.data.creation.chunk_processing import ChunkCounts, ChunkSettings
from keras_bert.data.creation.chunks import CHUNK_CHARACTERS, divide
from keras_bert.data.creation.job_folder import FOLDER_NAME, open_job
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.creation.workers import check_starts_workers, process_chunks
from keras_bert.data.records import manifest as manifest_module
from keras_bert.data.records.manifest import Manifest, Shard, is_shard_name
from keras_bert.progress import Progress
from keras_bert.storage.paths import check_no_file, gfile, is_remote, open_file
from keras_bert.text.tokenizer_files import TokenizerFiles

# Counted up with every change of what the code makes of the same corpus and options: a job that was
# begun before it is not gone on with, whose records would be of two kinds.
_VERSION = 3


def create_pretraining_data(options: CreationOptions) -> Manifest:
    """Makes a folder of records, vocabulary, tokenizer settings and manifest from a corpus.

    A job that was killed or interrupted goes on where it was when it is started again, and ends
    with the same bytes; only the chunks that were under way are done again.

    Args:
        options: everything there is to say.

    Returns:
        The manifest.

    Raises:
        FileExistsError: `output_dir` holds finished records, files that would be replaced, or a job
            that was told something else.
        FileNotFoundError: an input or the vocabulary does not exist.
        RuntimeError: a script starts workers without `if __name__ == "__main__":`.
        ValueError: the corpus cannot be read, is empty or too short for one example, or
            `output_dir` is an address of remote storage.
    """
    check_starts_workers(options.num_workers)
    output = Path(options.output_dir)
    finished = _finished_before(output, options)
    if finished:
        return finished
    corpus = Corpus(options.inputs, options.text_field, options.errors)
    settings = ChunkSettings.of(options)
    # All that the records follow from; what is another in a job makes it another job.
    told = recorded_settings(options) | {
        "version of the code": _VERSION,
        "vocabulary": settings.vocabulary.sha256,
        "tokenizer": settings.tokenizer.settings._asdict(),
        "files of the corpus": corpus.fingerprint(),
    }
    # A job that was stopped may have moved some of its files to their place.
    if not (output / FOLDER_NAME).exists():
        check_nothing_there(options.output_dir, settings.tokenizer)
    with open_job(output, told, options.num_shards) as job:
        done, counts, workers = job.state.last, job.state.counts, settings.options.num_workers
        with Progress(
            corpus.total_bytes, "B", "creating examples", done.end_position, at_once=True
        ) as progress:
            progress.write(plan(corpus, settings.options, f"{workers} worker(s)"))
            if job.changes:
                progress.write(f"settings changed ({job.changes})")
                job.check_text(divide(corpus))
            if counts.chunks:
                progress.write(
                    f"going on after {counts.chunks} chunk(s), {done.end_position / 1e6:.1f} MB: "
                    f"{counts.examples} examples are there"
                )
            chunks = divide(corpus, first_group=done.group)
            left = (chunk for chunk in chunks if chunk.identity > done.identity)
            # Closed here: workers that outlive an interruption would be ended by Python as it ends
            # itself, with a traceback behind our last word.
            with contextlib.closing(process_chunks(left, settings, job.folder, workers)) as results:
                for chunk, result in results:
                    step = chunk.end_position - job.state.last.end_position
                    job.append(chunk, result)
                    progress.update(step, examples=job.state.counts.examples)
        counts = job.state.counts
        names = ", ".join(corpus.paths[:3]) + (", ..." if len(corpus.paths) > 3 else "")
        if not counts.corpus_tokens:
            raise ValueError(f"the corpus is empty: no text in {names}; check --input")
        if not counts.examples:
            raise ValueError(
                f"the corpus ({counts.sentences} sentence(s) in {counts.documents} document(s), "
                f"{names}) is too short for one example: give more text, with blank lines between "
                "documents"
            )
        manifest = write_rest(job.folder, settings, job.state.counts, job.state.shards)
        job.finish(settings.tokenizer.file_names())
    return manifest


def _finished_before(output: Path, options: CreationOptions) -> Manifest | None:
    """Returns the manifest of this same job if it was killed after its last file, before its end.

    Raises:
        FileExistsError: the folder holds other finished records, or is a file.
        ValueError: the folder is an address of remote storage.
    """
    if "://" in options.output_dir:
        raise ValueError(
            f"--output_dir {options.output_dir} is an address: write to a local folder and copy it"
        )
    check_no_file("output_dir", output)
    if not (output / manifest_module.FILE_NAME).exists():
        return None
    leftover = output / FOLDER_NAME
    if leftover.exists():
        manifest = Manifest.read(output)
        if manifest.settings == json.loads(json.dumps(recorded_settings(options))):
            shutil.rmtree(leftover)
            return manifest
    raise FileExistsError(
        f"{output} holds finished records already: remove the folder or choose another --output_dir"
    )


def check_nothing_there(output: str, tokenizer: TokenizerFiles) -> None:
    """Makes sure that no file is replaced: a model folder would lose its vocabulary.

    Args:
        output: the folder to write, local or remote; it need not be there.
        tokenizer: whose files will be written.

    Raises:
        FileExistsError: there is another tokenizer, or there are records.
    """
    remote = is_remote(output)
    if not (gfile() if remote else os.path).isdir(output):
        return
    there = [name.rstrip("/") for name in (gfile() if remote else os).listdir(output)]
    taken = sorted(filter(is_shard_name, there))
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        for name in filter(set(there).__contains__, tokenizer.file_names()):
            with open_file(os.path.join(output, name)) as file:
                if file.read() != (Path(folder) / name).read_bytes():
                    taken.append(name)
    if taken:
        raise FileExistsError(
            f"{output} holds {taken[0]}, which would be replaced: choose another --output_dir"
        )


def recorded_settings(options: CreationOptions) -> dict[str, Any]:
    """Returns the options without those that do not change the records.

    Equal records come with equal manifests.
    """
    values = dataclasses.asdict(options)
    del values["output_dir"], values["num_workers"]
    return values


def plan(corpus: Corpus, options: CreationOptions, workers: str) -> str:
    """Returns a line that tells what is about to be made, and by whom."""
    number = max(1, round(corpus.text_bytes / CHUNK_CHARACTERS))
    kind = "packed " if options.pack else "cross-document " if options.cross_documents else ""
    masks = f"{options.masking} masks stored, " if options.static_masking else ""
    return (
        f"plan: {kind}{options.sentence_task} examples of up to {options.max_seq_length} pieces "
        f"from {len(corpus.paths)} file(s), {corpus.total_bytes / 1e6:.1f} MB, about {number} "
        f"chunk(s), {masks}dupe factor {options.dupe_factor} -> {options.num_shards} shard(s) in "
        f"{options.output_dir}, {workers}"
    )


def write_rest(
    folder: str | os.PathLike, settings: ChunkSettings, counts: ChunkCounts, shards: Iterable[Shard]
) -> Manifest:
    """Writes vocabulary, settings of the tokenizer and manifest of a job whose chunks are all done.

    Args:
        folder: where to.
        settings: what every chunk was worked on with.
        counts: sums over all chunks.
        shards: the files of records.
    """
    options, vocabulary = settings.options, settings.vocabulary
    settings.tokenizer.save(folder)
    manifest = Manifest(
        settings=recorded_settings(options),
        vocabulary_sha256=vocabulary.sha256,
        vocab_size=len(vocabulary),
        lowercase=settings.tokenizer.lowercase,
        max_seq_length=options.max_seq_length,
        sentence_task=options.sentence_task,
        shards=tuple(shards),
        examples=counts.examples,
        tokens=counts.tokens,
        fill_rate=round(counts.tokens / (counts.examples * options.max_seq_length), 6),
        label_counts=(counts.labels_0, counts.labels_1),
        documents=counts.documents,
        sentences=counts.sentences,
        corpus_tokens=counts.corpus_tokens,
        unknown_tokens=counts.unknown_tokens,
        lone_document_units=counts.lone_document_chunks,
        truncated_examples=counts.truncated_examples,
        truncated_tokens=counts.truncated_tokens,
        unused_sentences=counts.unused_sentences,
        unused_tokens=counts.unused_tokens,
        packed=options.pack,
        max_predictions_per_seq=options.predictions_per_seq if options.static_masking else None,
        word_segmenter=None if options.static_masking else options.word_segmenter,
    )
    manifest.write(folder)
    return manifest
