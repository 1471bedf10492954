"""A chunk of documents to serialized examples: what a worker of the data creation does."""

import hashlib
import random
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from keras_bert.data.corpus.documents import document_sentences
from keras_bert.data.creation.chunks import Chunk
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.records.encoding import encode_examples
from keras_bert.data.records.examples import (
    Examples,
    TokenizedDocuments,
    assemble_examples,
    count_lone_sentences,
    plan_examples,
    separate_documents,
)
from keras_bert.data.records.manifest import Shard, shard_name
from keras_bert.data.records.packing import choose_packs, join_packs
from keras_bert.data.records.static_masks import StaticMasking
from keras_bert.data.records.writing import RECORD_FRAME_BYTES, write_records
from keras_bert.storage import hub
from keras_bert.text.corpus_masking import CorpusMasking
from keras_bert.text.languages.word_boundaries import WordBoundaries
from keras_bert.text.tokenizer_config import MERGES, VOCABULARY_FILES
from keras_bert.text.tokenizer_files import TokenizerFiles, read_named_file, read_tokenizer_files
from keras_bert.text.vocabulary import BYTE_LEVEL_SPACE, Vocabulary
from keras_bert.text.wordpiece.files import WordPieceFiles
from keras_bert.text.wordpiece.settings import Settings, is_cased


class ChunkSettings(NamedTuple):
    """What every chunk is worked on with.

    Attributes:
        options: what the job was told.
        tokenizer: vocabulary and settings.
    """

    options: CreationOptions
    tokenizer: TokenizerFiles

    @property
    def vocabulary(self) -> Vocabulary:
        """The pieces."""
        return self.tokenizer.vocabulary

    @classmethod
    def of(cls, options: CreationOptions) -> Self:
        """Reads the vocabulary that the options name.

        Raises:
            FileNotFoundError: it does not exist.
            ValueError: it is damaged or cannot be fetched, or the segmenter is not installed or not
                for it.
        """
        # Fetched here, once: workers get the vocabulary, not its name.
        path = hub.local_folder(options.vocab)
        if path.is_dir():
            settings = cls(options, read_tokenizer_files(path))
        elif path.name in (*VOCABULARY_FILES, MERGES):
            settings = cls(options, read_named_file(path))
        else:
            vocabulary = Vocabulary.from_file(path)
            lowercase = not is_cased(vocabulary)
            files = WordPieceFiles(vocabulary, Settings(lowercase))
            settings = cls(options, files)
        settings.word_boundaries()  # told before there is work, not by a worker
        return settings

    def word_boundaries(self) -> WordBoundaries | None:
        """Returns what finds words, if the options name a segmenter.

        Raises:
            ValueError: it is not installed, or the tokenizer is no WordPiece.
        """
        segmenter = self.options.word_segmenter
        if segmenter is None:
            return None
        if not isinstance(self.tokenizer, WordPieceFiles):
            raise ValueError(
                f"word_segmenter is {segmenter!r}, but {self.options.vocab} is no WordPiece "
                "vocabulary: leave it out, or give a vocab.txt"
            )
        return WordBoundaries(self.vocabulary, self.tokenizer.settings, segmenter)


class ChunkCounts(NamedTuple):
    """Sums over chunks; two of them can be added with `plus`."""

    chunks: int = 0
    examples: int = 0
    tokens: int = 0
    labels_0: int = 0
    labels_1: int = 0
    documents: int = 0
    sentences: int = 0
    corpus_tokens: int = 0
    unknown_tokens: int = 0
    lone_document_chunks: int = 0
    truncated_examples: int = 0
    truncated_tokens: int = 0
    unused_sentences: int = 0
    unused_tokens: int = 0

    def plus(self, other: "ChunkCounts") -> "ChunkCounts":
        """Returns the sum of both."""
        return ChunkCounts(*map(sum, zip(self, other, strict=True)))


class ChunkResult(NamedTuple):
    """What became of a chunk.

    Attributes:
        path: the file of its records, those of the first shard first.
        counts: the numbers of the chunk.
        shards: how many records and bytes in the file belong to each shard.
    """

    path: Path
    counts: ChunkCounts
    shards: tuple[Shard, ...]


class ChunkProcessor:
    """Turns chunks into files of records.

    Args:
        settings: what every chunk is worked on with.
    """

    def __init__(self, settings: ChunkSettings):
        self._options, self._vocabulary = settings.options, settings.vocabulary
        self._tokenize_texts = settings.tokenizer.texts_to_ids()
        self._word_boundaries = settings.word_boundaries()
        options = self._options
        self._masking = options.static_masking and StaticMasking(
            CorpusMasking(
                self._vocabulary,
                options.predictions_per_seq,
                options.masked_lm_prob,
                options.mask_token_rate,
                options.random_token_rate,
                options.masking,
            ),
            options.max_seq_length,
            self._vocabulary.pad_id,
        )

    def process(self, chunk: Chunk, folder: Path) -> ChunkResult:
        """Writes the records of a chunk to a file of its own in a folder."""
        path = folder / f"chunk-{chunk.group}-{chunk.number}"
        shards, counts = self.make_records(chunk)
        write_records(path, [record for shard in shards for record in shard])
        parts = tuple(
            Shard(
                shard_name(index, len(shards)),
                len(shard),
                sum(map(len, shard)) + RECORD_FRAME_BYTES * len(shard),
            )
            for index, shard in enumerate(shards)
        )
        return ChunkResult(path, counts, parts)

    def make_records(self, chunk: Chunk) -> tuple[list[list[bytes]], ChunkCounts]:
        """Returns the records of a chunk for each shard, and their counts."""
        # The space before a word is part of a byte-level piece: without it the first word of a
        # sentence would be spelled in other pieces than in its paragraph. Other families make the
        # same pieces with and without.
        keep_spaces = self._vocabulary.word_mark == BYTE_LEVEL_SPACE
        texts = [document_sentences(document, keep_spaces) for document in chunk.documents]
        ids, sizes = self._tokenize_texts(text for sentences in texts for text in sentences)
        continues = None  # int32 [pieces]
        if self._word_boundaries:
            flat = [text for sentences in texts for text in sentences]
            continues = self._word_boundaries(flat, ids, sizes)
        ends = np.cumsum([0, *map(len, texts)])
        # Sentences without a piece (control characters alone) and documents without a sentence
        # are left out.
        kept = sizes > 0
        kept_before = np.concatenate([[0], np.cumsum(kept)])[ends]
        filled = np.diff(kept_before) > 0
        documents = TokenizedDocuments(
            ids,
            np.concatenate([[0], np.cumsum(sizes[kept])]).tolist(),
            [0, *kept_before[1:][filled].tolist()],
            [chunk.documents[index].number for index in np.flatnonzero(filled)],
        )
        unknown = np.count_nonzero(documents.ids == self._vocabulary.unk_id)
        unused = count_lone_sentences(documents) if self._options.sentence_task == "sop" else (0, 0)
        counts = ChunkCounts(
            chunks=1,
            documents=chunk.new_documents,
            sentences=len(documents.sentence_starts) - 1,
            corpus_tokens=len(documents.ids),
            unknown_tokens=int(unknown),
            lone_document_chunks=int(len(set(documents.document_numbers)) == 1),
            unused_sentences=unused[0],
            unused_tokens=unused[1],
        )
        if self._options.cross_documents:
            if continues is not None:
                continues = separate_documents(documents._replace(ids=continues), 0).ids
            documents = separate_documents(documents, self._vocabulary.sep_id)
        records: list[bytes] = []
        for copy in range(self._options.dupe_factor):
            encoded, copy_counts = self._records_of_copy(documents, continues, chunk.identity, copy)
            records += encoded
            counts = counts.plus(copy_counts)
        # Dealt like cards, and each chunk begins with another shard.
        shards, first = self._options.num_shards, chunk.group + chunk.number
        return [records[(shard - first) % shards :: shards] for shard in range(shards)], counts

    def _records_of_copy(
        self,
        documents: TokenizedDocuments,
        continues: np.ndarray | None,
        chunk: int,
        copy: int,
    ) -> tuple[list[bytes], ChunkCounts]:
        """Cuts and pairs the documents once, and encodes what they give."""
        options = self._options
        counters = options.seed, chunk, copy
        hashed = hashlib.sha256("/".join(map(str, counters)).encode()).digest()
        rng = random.Random(int.from_bytes(hashed[:8]))
        plans = plan_examples(
            documents,
            options.max_seq_length,
            options.short_seq_prob,
            options.sentence_task,
            rng,
            options.cross_documents,
            self._vocabulary.framing,
            vary_cuts=copy > 0,
        )
        if not plans:
            return [], ChunkCounts()
        vocabulary, in_order, pack_sizes = self._vocabulary, plans, None
        if options.pack:
            packs = choose_packs(plans, documents.sentence_starts, options.max_seq_length, rng)
            in_order = [plan for pack in packs for plan in pack]
            pack_sizes = [len(pack) for pack in packs]

        def assembled(of: TokenizedDocuments, cls_id: int, sep_id: int) -> Examples:
            examples = assemble_examples(of, in_order, cls_id, sep_id, vocabulary.framing)
            return join_packs(examples, pack_sizes) if pack_sizes else examples

        examples = assembled(documents, vocabulary.cls_id, vocabulary.sep_id)
        if continues is not None:
            # Laid out as the pieces are; special tokens begin a word.
            laid_out = assembled(documents._replace(ids=continues), 0, 0)
            examples = examples._replace(word_continuations=laid_out.input_ids)
        number, labels_1 = len(examples.splits) - 1, int(examples.next_sentence_labels.sum())
        truncated = [plan.truncated for plan in plans if plan.truncated]
        counts = ChunkCounts(
            examples=number,
            tokens=len(examples.input_ids),
            labels_0=number - labels_1,
            labels_1=labels_1,
            truncated_examples=len(truncated),
            truncated_tokens=sum(truncated),
        )
        if self._masking:
            return self._masking.encode(examples, counters), counts
        return encode_examples(examples), counts
