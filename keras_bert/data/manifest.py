"""`manifest.json`: what a folder of records holds and how it was made."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Self

from keras_bert.config import read_json
from keras_bert.files import atomic_file

FILE_NAME = "manifest.json"
_FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Shard:
    """One TFRecord file: name in the folder, number of examples, size in bytes."""

    name: str
    examples: int
    size: int


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Counts, settings and vocabulary of a folder of pretraining records.

    Attributes:
        settings: what `create_pretraining_data` was told.
        max_seq_length: the longest example in pieces.
        sentence_task: "nsp" or "none".
        vocabulary_sha256: hash of the vocabulary the ids belong to.
        vocab_size: its number of entries.
        documents: documents of the corpus.
        examples: examples in all shards.
        tokens: real pieces in all examples.
        positive_labels: examples whose next sentence label is 1.
        shards: the files.
    """

    settings: dict[str, Any]
    max_seq_length: int
    sentence_task: str
    vocabulary_sha256: str
    vocab_size: int
    documents: int
    examples: int
    tokens: int
    positive_labels: int
    shards: tuple[Shard, ...]

    @property
    def fill_rate(self) -> float:
        """Share of real pieces after padding to `max_seq_length`."""
        return self.tokens / max(self.examples * self.max_seq_length, 1)

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the manifest whole or not at all."""
        content = {"format_version": _FORMAT_VERSION, **dataclasses.asdict(self)}
        content["fill_rate"] = round(self.fill_rate, 4)
        with atomic_file(Path(folder) / FILE_NAME) as path:
            path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: str | os.PathLike) -> Self:
        """Reads the manifest of a folder of records.

        Raises:
            FileNotFoundError: the folder does not exist or has no manifest.
            ValueError: the manifest is damaged or of another version.
        """
        path = Path(folder) / FILE_NAME
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder} holds no {FILE_NAME}: give a folder that create_pretraining_data.py "
                "finished"
            )
        content = read_json(path)
        if content.get("format_version") != _FORMAT_VERSION:
            raise ValueError(
                f"{path} has format_version {content.get('format_version')!r}, this version reads "
                f"{_FORMAT_VERSION}: make the records again"
            )
        try:
            content = {field.name: content[field.name] for field in dataclasses.fields(cls)}
            content["shards"] = tuple(Shard(**shard) for shard in content["shards"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is incomplete ({error}): make the records again") from None
        return cls(**content)
