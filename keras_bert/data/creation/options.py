"""Settings of the creation of pretraining data."""

import dataclasses
import os

from keras_bert.choices import (
    DecodingErrors,
    MaskingStrategy,
    SentenceTask,
    WordSegmenter,
    check_choice,
)
from keras_bert.counts import check_count, take_numbers
from keras_bert.storage.paths import check_written_out
from keras_bert.storage.text_lines import check_listed
from keras_bert.text.masking_strategy import check_rates, masking_options, predictions_per_sequence

_SHORTEST_MAX_SEQ_LENGTH = 8
_LARGEST_SEED = 2**63 - 1  # masks follow from 64 bits


@dataclasses.dataclass(frozen=True)
class CreationOptions:
    """Settings of the creation of pretraining data.

    Attributes:
        inputs: paths or globs of the corpus, or a single one, see
            `keras_bert.data.corpus.reading.Corpus`; a file that is named twice is read once.
        vocab: a vocab.txt, whose tokenizer_config.json beside it is honoured, or the folder of any
            tokenizer, which may be `hf://org/name`; in a file of another name capital letters
            decide between cased and uncased.
        output_dir: folder of the records; must not hold finished records.
        max_seq_length: the longest example in pieces, special tokens counted.
        dupe_factor: how many times each document is made into examples, each time cut and paired
            differently. Masks are drawn when records are read and need no copies.
        seed: where all randomness comes from.
        num_shards: number of files.
        num_workers: number of processes; 1 works in this one. The records are the same.
        sentence_task: what segments are paired for: the next sentence ("nsp"), their order ("sop"),
            or not at all ("none").
        cross_documents: whether an example goes on in the next document, behind a [SEP]; only for
            `sentence_task` "none". The end of a chunk, about a million characters, ends it too.
        pack: whether several short documents share a sequence; only for `sentence_task` "none",
            whose examples hold one document each.
        static_masking: whether masks are drawn now and stored in the schema of google-research/bert
            instead of being drawn anew whenever a record is read.
        masking: what static masks hide as one: a piece ("token"), a word ("whole_word") or a run of
            up to three words ("ngram").
        max_predictions_per_seq: most masked positions of a sequence, for static masks; None gives
            room for `masked_lm_prob` of `max_seq_length`.
        masked_lm_prob: rate of the pieces that are chosen, for static masks.
        mask_token_rate: rate of the chosen pieces that become [MASK], for static masks.
        random_token_rate: rate of the chosen pieces that become a random piece, for static masks.
        word_segmenter: what finds the words of Chinese ("jieba") or Japanese ("fugashi"), whose
            pieces whole word masking then hides together; the pieces stay the same. None leaves
            every Chinese character a word. WordPiece only.
        short_seq_prob: probability with which a document is cut into shorter examples.
        text_field: field of JSON lines, or column of Parquet files, that holds the text.
        errors: "strict", or "replace" to read bytes that are not UTF-8 as U+FFFD.

    Raises:
        ValueError: a number is out of its range, or `output_dir` is empty or begins with "~".
    """

    inputs: tuple[str, ...]
    vocab: str
    output_dir: str
    max_seq_length: int = 128
    dupe_factor: int = 10
    seed: int = 12345
    num_shards: int = 8
    num_workers: int = 1
    sentence_task: SentenceTask = "nsp"
    cross_documents: bool = False
    pack: bool = False
    static_masking: bool = False
    masking: MaskingStrategy = "token"
    max_predictions_per_seq: int | None = None
    masked_lm_prob: float = 0.15
    mask_token_rate: float = 0.8
    random_token_rate: float = 0.1
    word_segmenter: WordSegmenter | None = None
    short_seq_prob: float = 0.1
    text_field: str = "text"
    errors: DecodingErrors = "strict"

    def __post_init__(self) -> None:
        if isinstance(self.inputs, str | os.PathLike):  # its letters would be paths
            object.__setattr__(self, "inputs", (self.inputs,))
        check_listed(self.inputs, "inputs", "paths or globs")
        # As the manifest takes them, also where they were given as paths of `pathlib`.
        object.__setattr__(self, "inputs", tuple(map(os.fspath, self.inputs)))
        for name in ("vocab", "output_dir"):
            object.__setattr__(self, name, os.fspath(getattr(self, name)))
        check_written_out("output_dir", self.output_dir)
        take_numbers(self)
        for name in ("dupe_factor", "num_shards", "num_workers"):
            check_count(name, getattr(self, name))
        check_count("max_seq_length", self.max_seq_length, 0)
        if self.max_seq_length < _SHORTEST_MAX_SEQ_LENGTH:
            raise ValueError(
                f"max_seq_length is {self.max_seq_length}: it must be at least "
                f"{_SHORTEST_MAX_SEQ_LENGTH}, because special tokens take up to 3 of it"
            )
        check_count("seed", self.seed, 0, _LARGEST_SEED)
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob is {self.short_seq_prob}: it must be from 0 to 1")
        check_choice("sentence_task", self.sentence_task, SentenceTask)
        if self.cross_documents and self.sentence_task != "none":
            raise ValueError(
                f"sentence_task is {self.sentence_task!r}, whose label says how two segments are "
                "related: an example can go on in the next document with --sentence_task=none "
                "only; leave out --cross_documents"
            )
        if self.cross_documents and self.pack:
            raise ValueError(
                "pack keeps the attention inside each document and cross_documents lets it cross "
                "them: leave out --pack or --cross_documents"
            )
        if self.pack and self.sentence_task != "none":
            raise ValueError(
                f"sentence_task is {self.sentence_task!r}, whose label belongs to a sequence as a "
                "whole: several documents can share one with --sentence_task=none only; leave out "
                "--pack"
            )
        if self.pack and self.static_masking:
            raise ValueError(
                "static_masking writes the schema of google-research/bert, which has no pack_ids: "
                "leave out --pack or --static_masking"
            )
        if self.word_segmenter is not None:
            check_choice("word_segmenter", self.word_segmenter, WordSegmenter)
            if self.static_masking and self.masking == "token":
                raise ValueError(
                    f"word_segmenter is {self.word_segmenter!r}, but masking is 'token', which "
                    "hides pieces one by one: leave it out, or add --masking=whole_word"
                )
        if self.static_masking:
            check_choice("masking", self.masking, MaskingStrategy)
            check_rates(
                self.predictions_per_seq,
                self.masked_lm_prob,
                self.mask_token_rate,
                self.random_token_rate,
            )
            if self.predictions_per_seq > self.max_seq_length:
                raise ValueError(
                    f"max_predictions_per_seq is {self.predictions_per_seq}: it must be at most "
                    f"max_seq_length, {self.max_seq_length}"
                )
        else:
            # Options that would be without effect.
            for name, value in masking_options(self).items():
                raise ValueError(
                    f"{name} is {value!r}, but masks are drawn when the records are read: "
                    "tell run_pretraining.py, or store masks with --static_masking"
                )

    @property
    def predictions_per_seq(self) -> int:
        """The most masked positions of a sequence."""
        return predictions_per_sequence(
            self.max_predictions_per_seq, self.masked_lm_prob, self.max_seq_length
        )
