"""manifest.json: what a folder of records holds and how it was made."""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any, Self

from keras_bert.storage import files

FILE_NAME = "manifest.json"
FORMAT_VERSION = 1


def shard_name(index: int, number: int) -> str:
    """Returns the name of a file of records among so many."""
    return f"examples-{index:05}-of-{number:05}.tfrecord"


def is_shard_name(name: str) -> bool:
    """Tells whether a file is called as `shard_name` calls one."""
    return re.fullmatch(r"examples-\d{5,}-of-\d{5,}\.tfrecord", name) is not None


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of records: its name in the folder, its number of examples, its size in bytes."""

    name: str
    examples: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a folder of records holds.

    Attributes:
        settings: the options that the records were made with.
        vocabulary_sha256: SHA-256 of the vocabulary's pieces, one a line.
        vocab_size: number of its entries.
        lowercase: whether the text was lower-cased.
        max_seq_length: the longest sequence that the records can hold, in pieces.
        sentence_task: "nsp", "sop" or "none".
        shards: the files.
        examples: number of examples.
        tokens: number of pieces in them, [CLS] and [SEP] counted.
        fill_rate: fraction of examples times max_seq_length that is pieces, not padding.
        label_counts: number of examples with next_sentence_labels 0 and 1.
        documents: number of documents read.
        sentences: number of sentences read.
        corpus_tokens: number of pieces of the text.
        unknown_tokens: how many of those are [UNK].
        lone_document_units: chunks that held a single document, so that no segment of
            another document was at hand.
        truncated_examples: examples that lost pieces, because their pair was too long.
        truncated_tokens: pieces that they lost.
        unused_sentences: sentences that no example of "sop" holds, because they are documents of
            their own.
        unused_tokens: pieces of these.
        packed: whether sequences hold several documents, told apart by `pack_ids`.
        max_predictions_per_seq: of records with stored masks; None where masks are drawn when the
            records are read.
        word_segmenter: what found the words, of records that keep them; else None.
        format_version: version of this file's layout.
    """

    settings: dict[str, Any]
    vocabulary_sha256: str
    vocab_size: int
    lowercase: bool
    max_seq_length: int
    sentence_task: str
    shards: tuple[Shard, ...]
    examples: int
    tokens: int
    fill_rate: float
    label_counts: tuple[int, int]
    documents: int
    sentences: int
    corpus_tokens: int
    unknown_tokens: int
    lone_document_units: int
    truncated_examples: int = 0
    truncated_tokens: int = 0
    unused_sentences: int = 0
    unused_tokens: int = 0
    packed: bool = False
    max_predictions_per_seq: int | None = None
    word_segmenter: str | None = None
    format_version: int = FORMAT_VERSION

    @classmethod
    def read(cls, folder: str | os.PathLike) -> Self:
        """Reads the manifest of a folder.

        Raises:
            FileNotFoundError: the folder has none.
            ValueError: it is damaged or of another version.
        """
        path = Path(folder) / FILE_NAME
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder} holds no {FILE_NAME}: give a folder that create_pretraining_data.py "
                "finished, or name the files of masked records one by one"
            )
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            version = values["format_version"]
            if version == FORMAT_VERSION:
                values["shards"] = tuple(Shard(**shard) for shard in values["shards"])
                values["label_counts"] = tuple(values["label_counts"])
                return cls(**values)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path} is damaged ({error}): make the records again") from None
        raise ValueError(
            f"{path} has format_version {version}, this library reads {FORMAT_VERSION}: make the "
            "records again"
        )

    def write(self, folder: str | os.PathLike) -> None:
        """Writes the manifest into a folder."""
        files.write_json(Path(folder) / FILE_NAME, dataclasses.asdict(self))
