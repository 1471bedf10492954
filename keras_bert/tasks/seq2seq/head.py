"""Text to text: a decoder writes a target for a source, piece by piece.

Shapes: B batch, S positions of the encoder, T positions of the decoder, V vocabulary, L longest
generated text.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

from keras_bert.choices import check_choice
from keras_bert.config import BertConfig
from keras_bert.counts import check_number, needed_count
from keras_bert.finetuning.collapse import one_answer
from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.finetuning.head import FinetuningHead
from keras_bert.models.seq2seq.decoder import DECODER_INPUT_IDS, DECODER_INPUT_MASK
from keras_bert.models.seq2seq.encoder_decoder import (
    DECODER_MASKED,
    LENGTH_LOGITS,
    PIECE_LOGITS,
    BertEncoderDecoder,
    DecoderStart,
    Decoding,
    check_target_positions,
)
from keras_bert.models.seq2seq.mask_predict import MaskPredictOptions
from keras_bert.models.seq2seq.sequence_search import SearchOptions
from keras_bert.progress import Progress
from keras_bert.storage.text_lines import check_string
from keras_bert.tasks.seq2seq.answer_table import COLUMNS, text_row
from keras_bert.tasks.seq2seq.metrics import GeneratedText
from keras_bert.tasks.seq2seq.rows import (
    EncodedMaskedPairs,
    EncodedPairs,
    labels_of,
    masked_labels,
    tokenized_text,
    written_text,
)
from keras_bert.tasks.tagging.head import TagCrossentropy
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.losses import SmoothedCrossentropy, best_classes

SOURCE, TARGET = "source", "target"

# Names of what a batch is answered with.
_LOSS, _RIGHT, _PIECES = "loss", "right", "pieces"
_IDS, _SCORE = "generated_ids", "score"
_LENGTH_RIGHT = "length_right"


@dataclasses.dataclass(frozen=True)
class SourceTarget:
    """A text to read and the text to write for it.

    Attributes:
        source: the text to read.
        target: the text to write; None where it is not known.

    Raises:
        ValueError: one of them is no string.
    """

    source: str
    target: str | None = None

    def __post_init__(self) -> None:
        # As UTF-8 writes them; the fields are frozen.
        object.__setattr__(self, "source", check_string(self.source, SOURCE))
        if self.target is not None:
            object.__setattr__(self, "target", check_string(self.target, TARGET))


@dataclasses.dataclass(frozen=True)
class Seq2SeqHead(FinetuningHead):
    """An encoder and a decoder (Rothe et al. 2020, arXiv:1907.12461).

    Training is teacher forcing, or with Mask-Predict the masked language model of targets and their
    length (Ghazvininejad et al. 2019, arXiv:1904.09324). Epochs are measured by it, too; texts are
    generated once, from the best epoch. Predictions are a `GeneratedText` for each example.

    Attributes:
        decoder: how the decoder starts: "bert2bert", "bertshare" or "random"; see
            `BertEncoderDecoder`.
        max_target_length: the most pieces of a target, its end among them.
        beam_size: beams of the search; 1 is greedy search.
        length_penalty: alpha of Wu et al. 2016, see `keras_bert.models.seq2seq.sequence_search`.
        start_token_id: the id of [CLS], which the tokenizer tells (`for_tokenizer`).
        end_token_id: the id of [SEP].
        pad_token_id: the id of [PAD] in the vocabulary; that of the config may be another.
        decoding: how texts are written: "autoregressive" or "mask_predict", see
            `BertEncoderDecoder`. Beams and penalty are of the first alone, what follows of the
            second.
        iterations: passes over a text.
        length_candidates: likeliest lengths that are tried.
        mask_token_id: the id of [MASK].
        suppressed_ids: the ids of [PAD], [CLS] and [MASK], which are no text.
        vocabulary_size: the number of pieces. Rows of the word embeddings behind them, which bring
            the table to a multiple of 8, are no text either.

    Raises:
        ValueError: a number is out of its range.
    """

    kind: ClassVar[str] = "seq2seq"
    example_class: ClassVar[type | None] = SourceTarget
    example_form: ClassVar[str] = "SourceTarget(source)"
    model_class: ClassVar[type] = BertEncoderDecoder
    joins_members = False  # each step of the search asks for the word before
    learns_from_teacher: ClassVar[bool] = False
    learns_by_lora: ClassVar[bool] = False  # cross-attention starts fresh

    decoder: DecoderStart = "bert2bert"
    max_target_length: int = 64
    beam_size: int = 4
    length_penalty: float = 0.6
    decoding: Decoding = "autoregressive"
    iterations: int = 10
    length_candidates: int = 5
    start_token_id: int | None = None
    end_token_id: int | None = None
    pad_token_id: int | None = None
    mask_token_id: int | None = None
    suppressed_ids: tuple[int, ...] = ()
    vocabulary_size: int | None = None

    def __post_init__(self) -> None:
        check_choice("decoder", self.decoder, DecoderStart)
        check_choice("decoding", self.decoding, Decoding)
        # Kept in task.json, which takes no numbers of NumPy.
        for name in ("max_target_length", "beam_size", "iterations", "length_candidates"):
            least = 2 if name == "max_target_length" else 1
            object.__setattr__(self, name, needed_count(name, getattr(self, name), least))
        penalty = check_number("length_penalty", self.length_penalty)
        object.__setattr__(self, "length_penalty", penalty)
        self.search_options()  # refuses what is out of range
        if self.fills_gaps and self.length_candidates > self.max_target_length - 1:
            raise ValueError(
                f"length_candidates is {self.length_candidates} but a target of at most "
                f"{self.max_target_length} pieces with its end has {self.max_target_length - 1} "
                "lengths: give at most as many"
            )

    @property
    def fills_gaps(self) -> bool:
        """Whether the model is a conditional masked language model."""
        return self.decoding == "mask_predict"

    def with_search(
        self, iterations: int | None = None, length_candidates: int | None = None
    ) -> Self:
        """Returns the head with other settings of Mask-Predict than those of the run.

        Args:
            iterations: None for that of the head.
            length_candidates: None for that of the head.

        Raises:
            ValueError: a number is out of its range, or the model is an autoregressive one.
        """
        settings = {"iterations": iterations, "length_candidates": length_candidates}
        given: dict[str, Any] = {
            name: value for name, value in settings.items() if value is not None
        }
        if given and not self.fills_gaps:
            raise ValueError(
                f"{' and '.join(given)}: the model writes texts piece by piece, as it was trained "
                "without --decoding=mask_predict: leave it out"
            )
        return dataclasses.replace(self, **given)

    def search_options(self, rows: int = 0) -> SearchOptions | MaskPredictOptions:
        """Returns how texts are searched for.

        Args:
            rows: of the model's word embeddings, V.
        """
        padded = range(rows if self.vocabulary_size is None else self.vocabulary_size, rows)
        no_text = (*self.suppressed_ids, *padded)
        if self.fills_gaps:
            return MaskPredictOptions(self.iterations, self.length_candidates, no_text)
        return SearchOptions(self.max_target_length, self.beam_size, self.length_penalty, no_text)

    @classmethod
    def of_foreign(cls, arguments: Mapping[str, Any]) -> Self:
        """Returns the head of a folder without `task.json`, which does not tell the search."""
        known = (
            *("decoder", "start_token_id", "end_token_id"),
            *("decoding", "mask_token_id", "max_target_length"),
        )
        found = {name: arguments[name] for name in known if arguments.get(name) is not None}
        if found.get("decoding") == "mask_predict":
            found["length_candidates"] = default_candidates(found["max_target_length"])
        return cls(**found)

    def for_tokenizer(self, tokenizer: Tokenizer) -> Self:
        """Returns the head with the ids of start and end.

        Raises:
            ValueError: it is no WordPiece tokenizer.
        """
        if not isinstance(tokenizer, BertTokenizer):
            raise ValueError(
                f"the model has a {type(tokenizer).__name__}: text is written with WordPiece "
                "alone; start from a BERT"
            )
        vocabulary = tokenizer.vocabulary
        return dataclasses.replace(
            self,
            start_token_id=vocabulary.cls_id,
            end_token_id=vocabulary.sep_id,
            pad_token_id=vocabulary.pad_id,
            mask_token_id=vocabulary.mask_id,
            suppressed_ids=(vocabulary.pad_id, vocabulary.cls_id, vocabulary.mask_id),
            vocabulary_size=len(vocabulary),
        )

    def model_arguments(self) -> dict[str, Any]:
        """Returns how the decoder starts, the ids of start and end, and what Mask-Predict needs."""
        arguments = {
            "decoder": self.decoder,
            "start_token_id": self.start_token_id,
            "end_token_id": self.end_token_id,
            "decoding": self.decoding,
        }
        if self.fills_gaps:
            arguments |= {
                "mask_token_id": self.mask_token_id,
                "max_target_length": self.max_target_length,
            }
        return arguments

    def check_config(self, config: BertConfig) -> None:
        """Refuses targets that are longer than the decoder."""
        positions = config.max_position_embeddings
        check_target_positions(self.decoding, self.max_target_length, positions)

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[SourceTarget],
        max_seq_length: int,
        description: str,
    ) -> EncodedPairs:
        """Makes rows of sources and targets; an example without a target has an empty one."""
        self.for_tokenizer(tokenizer)
        assert isinstance(tokenizer, BertTokenizer)
        encoded_pairs = EncodedMaskedPairs if self.fills_gaps else EncodedPairs
        with Progress(len(examples), "text", description) as progress:
            return encoded_pairs(
                tokenizer,
                [example.source for example in examples],
                [example.target or "" for example in examples],
                max_seq_length,
                self.max_target_length,
                progress.update,
            )

    def loss(self, label_smoothing: float = 0.0) -> Any:
        """Returns the cross-entropy of pieces, a mean over all of the global batch.

        With Mask-Predict that of hidden pieces, and the cross-entropy of the length, a mean over
        targets, without label smoothing.
        """
        of_pieces = TagCrossentropy(label_smoothing, name="token_crossentropy")
        if not self.fills_gaps:
            return of_pieces
        return {
            PIECE_LOGITS: of_pieces,
            LENGTH_LOGITS: SmoothedCrossentropy(name="length_crossentropy"),
        }

    def answering(self, model: Any, final: bool) -> Callable[[dict[str, tf.Tensor]], Any]:
        """Returns what counts right pieces, sums losses and, in the end, generates texts."""
        options = self.search_options(model.config.vocab_size)
        self.check_config(model.config)
        loss = TagCrossentropy(name="token_crossentropy")
        # What the rows are padded with.
        pad_id = model.config.pad_token_id if self.pad_token_id is None else self.pad_token_id
        end_id = model.end_token_id

        def answer(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            ids = inputs[DECODER_INPUT_IDS]
            if self.fills_gaps:
                labels = masked_labels(ids, inputs[DECODER_MASKED])  # [B, T]
            else:
                labels = labels_of(ids, pad_id, end_id)  # [B, T]
            encoded = model.encoder(
                {name: inputs[name] for name in model.encoder.input}, training=False
            )["sequence_output"]  # [B, S, H]
            mask = inputs["input_mask"]
            hidden = model.decoder(  # [B, T, H]
                {
                    **model.decoder_inputs(inputs),
                    "encoder_output": encoded,
                    "encoder_mask": mask,
                },
                training=False,
            )
            logits = model.output_logits(hidden)  # [B, T, V]
            counted = loss.counted(labels)  # [B, T]
            right = tf.cast(best_classes(logits) == labels, tf.float32)  # [B, T]
            found = {
                _LOSS: tf.reduce_sum(loss.call(labels, logits) * counted, axis=1),  # [B]
                _RIGHT: tf.reduce_sum(right * counted, axis=1),
                _PIECES: tf.reduce_sum(counted, axis=1),
            }
            if self.fills_gaps:
                likeliest = best_classes(model.length_logits(encoded))  # [B]
                pieces = tf.reduce_sum(inputs[DECODER_INPUT_MASK], axis=1) - 2  # [B]
                # A target without any piece teaches that it is short, see `EncodedMaskedPairs`.
                found[_LENGTH_RIGHT] = likeliest + 1 == tf.maximum(pieces, 1)
            if final:
                sequences = model.generate_from(encoded, mask, options)
                found |= {_IDS: sequences.ids[:, 0], _SCORE: sequences.scores[:, 0]}
            return found

        return answer

    def predictions(
        self,
        outputs: Mapping[str, np.ndarray],
        encoded: EncodedRows,
        examples: Sequence[SourceTarget],
    ) -> list[GeneratedText]:
        """Returns what was counted, and generated texts where there are some."""
        assert isinstance(encoded, EncodedPairs)  # what `encode` made
        count = len(examples)
        texts: list[str | None] = [None] * count
        scores: list[float | None] = [None] * count
        targets: list[str | None] = [None] * count
        if _IDS in outputs:
            with tf.device("CPU"):  # strings
                assert self.end_token_id is not None
                written = written_text(encoded.tokenizer, outputs[_IDS], self.end_token_id)
                texts = [text.decode("utf-8", "replace") for text in written.numpy()]
                scores = [float(score) for score in outputs[_SCORE]]
                told = tokenized_text(encoded.tokenizer, [one.target or "" for one in examples])
            targets = [
                text if one.target is not None else None
                for text, one in zip(told, examples, strict=True)
            ]
        lengths: list[bool | None] = [None] * count
        if _LENGTH_RIGHT in outputs:
            lengths = [bool(right) for right in outputs[_LENGTH_RIGHT]]
        counts = zip(outputs[_RIGHT], outputs[_PIECES], outputs[_LOSS], lengths, strict=True)
        return [
            GeneratedText(text, score, target, int(right), int(pieces), float(loss), length)
            for text, score, target, (right, pieces, loss, length) in zip(
                texts, scores, targets, counts, strict=True
            )
        ]

    def references(self, examples: Sequence[SourceTarget]) -> list[str] | None:
        """Returns the targets, where all are known."""
        known = [example.target for example in examples if example.target is not None]
        return known if len(known) == len(examples) else None

    def collapse(
        self, predictions: Sequence[GeneratedText], references: Sequence[str]
    ) -> str | None:
        """Names the one text that is written for all sources."""
        texts = [one.text for one in predictions if one.text is not None]
        return one_answer(texts, references) if texts else None

    def answer_columns(self) -> list[str]:
        """Returns the generated text and its score."""
        return list(COLUMNS)

    def answer_rows(self, prediction: GeneratedText, example: SourceTarget) -> list[list[str]]:
        """Returns one row."""
        assert prediction.text is not None and prediction.score is not None
        return [text_row(prediction.text, prediction.score)]

    def example_table(self, examples: Sequence[SourceTarget]) -> tuple[list[str], list[list[str]]]:
        """Returns sources and targets."""
        return [SOURCE, TARGET], [[one.source, one.target or ""] for one in examples]

    def default_columns(self, examples: Any) -> dict[str, str]:
        """Returns the columns by their own names."""
        return {SOURCE: SOURCE, TARGET: TARGET}

    def needs_segments(self, examples: Any) -> bool:
        """Never: source and target are read by different halves of the model."""
        return False


def default_candidates(max_target_length: int) -> int:
    """Returns how many lengths Mask-Predict tries where nothing is said: 5, or all there are.

    Args:
        max_target_length: the most pieces of a target, its end among them.
    """
    return max(1, min(MaskPredictOptions().length_candidates, max_target_length - 1))
