"""A unit of documents to serialized examples: what a worker of the data creation does."""

import hashlib
import os
import random

import numpy as np

from keras_bert.data.corpus.documents import Document, document_sentences
from keras_bert.data.creation.units import Unit, UnitCounts, UnitResult, UnitSettings
from keras_bert.data.records.encoding import encode_examples
from keras_bert.data.records.examples import (
    Examples,
    PlannedExample,
    TokenizedDocuments,
    assemble_examples,
    plan_examples,
    separate_documents,
)
from keras_bert.data.records.packing import choose_packs, join_packs
from keras_bert.data.records.static_masks import StaticMasking
from keras_bert.data.records.writing import RECORD_FRAME_BYTES, write_records
from keras_bert.text.corpus_tokenizer import CorpusTokenizer


class UnitProcessor:
    """Turns units into files of records.

    Args:
        settings: what every unit is worked on with.
    """

    def __init__(self, settings: UnitSettings):
        self._settings = settings
        self._tokenize_texts = CorpusTokenizer(settings.vocabulary, settings.tokenizer_settings)
        self._masking = settings.masking and StaticMasking(
            settings.vocabulary, settings.max_seq_length, settings.masking
        )

    def process(self, unit: Unit, path: str | os.PathLike) -> UnitResult:
        """Writes the records of a unit to a file, those of the first shard first.

        Args:
            unit: the documents.
            path: the file to write; it belongs to this unit alone.
        """
        shards, counts = self.make_records(unit)
        write_records(path, [record for shard in shards for record in shard])
        sizes = [sum(map(len, shard)) + RECORD_FRAME_BYTES * len(shard) for shard in shards]
        return UnitResult(counts, [len(shard) for shard in shards], sizes)

    def make_records(self, unit: Unit) -> tuple[list[list[bytes]], UnitCounts]:
        """Returns the records of a unit for each shard, and their counts."""
        documents = self._tokenize(unit.documents)
        records: list[bytes] = []
        counts = self._count_documents(documents)
        if self._settings.cross_documents:
            documents = separate_documents(documents, self._settings.vocabulary.sep_id)
        for dupe in range(self._settings.dupe_factor):
            encoded, dupe_counts = self._records_of_copy(documents, unit.identity, dupe)
            records += encoded
            counts = counts.plus(dupe_counts)
        # Dealt like cards, and each unit begins with another shard.
        shards, first = self._settings.num_shards, unit.group + unit.number
        return [records[(shard - first) % shards :: shards] for shard in range(shards)], counts

    def _tokenize(self, documents: list[Document]) -> TokenizedDocuments:
        texts = [document_sentences(document) for document in documents]
        ids, sizes = self._tokenize_texts(text for sentences in texts for text in sentences)
        ends = np.cumsum([0, *map(len, texts)])
        # Sentences without a piece (control characters alone) and documents without a sentence
        # are left out.
        kept = sizes > 0
        kept_before = np.concatenate([[0], np.cumsum(kept)])[ends]
        filled = np.diff(kept_before) > 0
        return TokenizedDocuments(
            ids,
            np.concatenate([[0], np.cumsum(sizes[kept])]).tolist(),
            [0, *kept_before[1:][filled].tolist()],
            [documents[index].number for index in np.flatnonzero(filled)],
        )

    def _records_of_copy(
        self, documents: TokenizedDocuments, unit: int, dupe: int
    ) -> tuple[list[bytes], UnitCounts]:
        settings = self._settings
        rng = random.Random(_derived_seed(settings.seed, unit, dupe))
        plans = plan_examples(
            documents,
            settings.max_seq_length,
            settings.short_seq_prob,
            settings.sentence_task,
            rng,
            settings.cross_documents,
        )
        if not plans:
            return [], UnitCounts()
        examples = self._assemble(documents, plans, rng)
        if self._masking:
            records = self._masking.encode(examples, (settings.seed, unit, dupe))
        else:
            records = encode_examples(examples)
        return records, _count_examples(examples, plans)

    def _assemble(
        self, documents: TokenizedDocuments, plans: list[PlannedExample], rng: random.Random
    ) -> Examples:
        vocabulary = self._settings.vocabulary
        if not self._settings.pack:
            return assemble_examples(documents, plans, vocabulary.cls_id, vocabulary.sep_id)
        starts, longest = documents.sentence_starts, self._settings.max_seq_length
        packs = choose_packs(plans, starts, longest, rng)
        plans = [plan for pack in packs for plan in pack]
        singles = assemble_examples(documents, plans, vocabulary.cls_id, vocabulary.sep_id)
        return join_packs(singles, [len(pack) for pack in packs])

    def _count_documents(self, documents: TokenizedDocuments) -> UnitCounts:
        unknown = documents.ids == self._settings.vocabulary.unk_id
        return UnitCounts(
            sentences=len(documents.sentence_starts) - 1,
            corpus_tokens=len(documents.ids),
            unknown_tokens=int(np.count_nonzero(unknown)),
            lone_document_units=int(len(set(documents.document_numbers)) == 1),
        )


def _count_examples(examples: Examples, plans: list[PlannedExample]) -> UnitCounts:
    number, labels_1 = len(examples.splits) - 1, int(examples.next_sentence_labels.sum())
    truncated = [plan.truncated for plan in plans if plan.truncated]
    return UnitCounts(
        examples=number,
        tokens=len(examples.input_ids),
        labels_0=number - labels_1,
        labels_1=labels_1,
        truncated_examples=len(truncated),
        truncated_tokens=sum(truncated),
    )


def _derived_seed(*numbers: int) -> int:
    text = "/".join(map(str, numbers))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
