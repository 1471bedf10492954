"""The pieces of work that a corpus is divided into."""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from keras_bert.choices import MaskingStrategy, SentenceTask
from keras_bert.data.corpus.documents import MAX_DOCUMENT_CHARACTERS, Document
from keras_bert.data.corpus.reading import Corpus
from keras_bert.text import tokenizer_config
from keras_bert.text.vocabulary import Vocabulary

# Large enough for a choice of other documents to draw from and small enough for many workers.
UNIT_CHARACTERS = 1_000_000
# A unit with parts of one document only goes on until here, looking for another document.
_LONE_DOCUMENT_CHARACTERS = 4 * MAX_DOCUMENT_CHARACTERS


class Unit(NamedTuple):
    """Consecutive documents that are worked on together.

    Attributes:
        group: place of its group of files in the corpus.
        number: place among the units of the group.
        documents: the documents, or parts of large ones.
        new_documents: how many of them no earlier unit held a part of.
        end_position: bytes of the corpus that were read when the unit was complete.
    """

    group: int
    number: int
    documents: list[Document]
    new_documents: int
    end_position: int

    @property
    def identity(self) -> int:
        """A number that no other unit of the corpus has."""
        return (self.group << 32) + self.number

    def digest(self, before: str) -> str:
        """Returns a hash of all that its records follow from, and of the units before it.

        Args:
            before: the digest of the unit before; "" for the first.
        """
        parts = [before, str(self.identity), str(self.new_documents)]
        for document in self.documents:
            # No paragraph is empty or holds a line's end, so that no two units have one text.
            parts += ["", str(document.number), *document.paragraphs]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


class MaskingSettings(NamedTuple):
    """How masks are drawn; the arguments of `keras_bert.text.masking`."""

    max_predictions_per_seq: int
    masked_lm_prob: float
    mask_token_rate: float
    random_token_rate: float
    strategy: MaskingStrategy


class UnitSettings(NamedTuple):
    """What every unit is worked on with.

    Attributes:
        vocabulary: the pieces.
        tokenizer_settings: how text is treated.
        max_seq_length: the longest example in pieces.
        short_seq_prob: probability of shorter examples.
        sentence_task: "nsp", "sop" or "none".
        dupe_factor: how many times each document is made into examples.
        seed: where all randomness comes from.
        num_shards: number of files of the whole job.
        cross_documents: whether an example goes on in the next document.
        pack: whether several documents share a sequence.
        masking: how masks are drawn; None when they are drawn as the records are read.
    """

    vocabulary: Vocabulary
    tokenizer_settings: tokenizer_config.Settings
    max_seq_length: int
    short_seq_prob: float
    sentence_task: SentenceTask
    dupe_factor: int
    seed: int
    num_shards: int
    cross_documents: bool
    pack: bool
    masking: MaskingSettings | None


class UnitCounts(NamedTuple):
    """Sums over units; two of them can be added with `plus`."""

    examples: int = 0
    tokens: int = 0
    labels_0: int = 0
    labels_1: int = 0
    sentences: int = 0
    corpus_tokens: int = 0
    unknown_tokens: int = 0
    lone_document_units: int = 0
    truncated_examples: int = 0
    truncated_tokens: int = 0

    def plus(self, other: "UnitCounts") -> "UnitCounts":
        """Returns the sum of both."""
        return UnitCounts(*(mine + yours for mine, yours in zip(self, other, strict=True)))


class UnitResult(NamedTuple):
    """What became of a unit.

    Attributes:
        counts: the numbers of the unit.
        shard_examples: number of records for each shard.
        shard_bytes: number of bytes of these in the unit's file, which holds shard after shard.
    """

    counts: UnitCounts
    shard_examples: list[int]
    shard_bytes: list[int]


def divide(corpus: Corpus, first_group: int = 0) -> Iterator[Unit]:
    """Groups consecutive documents into units of about `UNIT_CHARACTERS`.

    A unit holds at least two documents wherever the group of files and the bound on memory allow
    it. The units of a group follow from its files alone.

    Args:
        corpus: the corpus.
        first_group: the group of files to begin with; those before are not read.
    """
    position = 0
    for group, files in enumerate(corpus.groups()):
        if group >= first_group:
            yield from divide_group(files, group, position)
        position += files.total_bytes


def divide_group(files: Corpus, group: int, position: int = 0) -> Iterator[Unit]:
    """Divides one group of files into units.

    Args:
        files: the group, from `Corpus.groups`.
        group: its place.
        position: bytes of the corpus before it.
    """
    last_document = -1
    for number, (documents, read) in enumerate(_runs(files)):
        numbers = {document.number for document in documents}
        yield Unit(group, number, documents, len(numbers - {last_document}), position + read)
        last_document = documents[-1].number


def _runs(corpus: Corpus) -> Iterator[tuple[list[Document], int]]:
    held: tuple[list[Document], int] | None = None
    documents: list[Document] = []
    size = 0
    for document in corpus:
        documents.append(document)
        size += sum(map(len, document.paragraphs))
        if size >= (_LONE_DOCUMENT_CHARACTERS if _is_lone(documents) else UNIT_CHARACTERS):
            if held:
                yield held
            held = documents, corpus.bytes_read
            documents, size = [], 0
    # A small rest joins the unit before it.
    if held and (_is_lone(documents) or size < UNIT_CHARACTERS // 2):
        held = held[0] + documents, corpus.bytes_read
        documents = []
    if held:
        yield held
    if documents:
        yield documents, corpus.bytes_read


def _is_lone(documents: list[Document]) -> bool:
    return not documents or documents[0].number == documents[-1].number
