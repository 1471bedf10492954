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
from keras_bert.finetuning.collapse import one_answer
from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.finetuning.head import FinetuningHead
from keras_bert.models.seq2seq.decoder import DECODER_INPUT_IDS
from keras_bert.models.seq2seq.encoder_decoder import BertEncoderDecoder, DecoderStart
from keras_bert.models.seq2seq.sequence_search import SearchOptions
from keras_bert.progress import Progress
from keras_bert.tasks.seq2seq.answer_table import COLUMNS, text_row
from keras_bert.tasks.seq2seq.metrics import GeneratedText
from keras_bert.tasks.seq2seq.rows import EncodedPairs, labels_of, tokenized_text, written_text
from keras_bert.tasks.tagging.head import TagCrossentropy
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.tokenizer import BertTokenizer

SOURCE, TARGET = "source", "target"

# Names of what a batch is answered with.
_LOSS, _RIGHT, _PIECES = "loss", "right", "pieces"
_IDS, _SCORE = "generated_ids", "score"


@dataclasses.dataclass(frozen=True)
class SourceTarget:
    """A text to read and the text to write for it.

    Attributes:
        source: the text to read.
        target: the text to write; None where it is not known.
    """

    source: str
    target: str | None = None


@dataclasses.dataclass(frozen=True)
class Seq2SeqHead(FinetuningHead):
    """An encoder and a decoder (Rothe et al. 2020, arXiv:1907.12461).

    Training is teacher forcing. Epochs are measured by it, too; texts are generated once, from the
    best epoch. Predictions are a `GeneratedText` for each example.

    Attributes:
        decoder: how the decoder starts: "bert2bert", "bertshare" or "random"; see
            `BertEncoderDecoder`.
        max_target_length: the most pieces of a target, its end among them.
        beam_size: beams of the search; 1 is greedy search.
        length_penalty: alpha of Wu et al. 2016, see `keras_bert.models.seq2seq.sequence_search`.
        start_token_id: the id of [CLS], which the tokenizer tells (`for_tokenizer`).
        end_token_id: the id of [SEP].
        pad_token_id: the id of [PAD] in the vocabulary; that of the config may be another.
        suppressed_ids: the ids of [PAD], [CLS] and [MASK], which are no text.
        vocabulary_size: the number of pieces. Rows of the word embeddings behind them, which bring
            the table to a multiple of 8, are no text either.

    Raises:
        ValueError: a number is out of its range.
    """

    kind: ClassVar[str] = "seq2seq"
    model_class: ClassVar[type] = BertEncoderDecoder
    joins_members = False  # each step of the search asks for the word before
    learns_from_teacher: ClassVar[bool] = False

    decoder: DecoderStart = "bert2bert"
    max_target_length: int = 64
    beam_size: int = 4
    length_penalty: float = 0.6
    start_token_id: int | None = None
    end_token_id: int | None = None
    pad_token_id: int | None = None
    suppressed_ids: tuple[int, ...] = ()
    vocabulary_size: int | None = None

    def __post_init__(self) -> None:
        check_choice("decoder", self.decoder, DecoderStart)
        self.search_options()  # refuses what is out of range

    def search_options(self, rows: int = 0) -> SearchOptions:
        """Returns how texts are searched for.

        Args:
            rows: of the model's word embeddings, V.
        """
        padded = range(rows if self.vocabulary_size is None else self.vocabulary_size, rows)
        return SearchOptions(
            self.max_target_length,
            self.beam_size,
            self.length_penalty,
            (*self.suppressed_ids, *padded),
        )

    @classmethod
    def of_foreign(cls, arguments: Mapping[str, Any]) -> Self:
        """Returns the head of an `EncoderDecoderModel`; its folder does not tell the search."""
        known = ("decoder", "start_token_id", "end_token_id")
        return cls(**{name: arguments[name] for name in known if arguments.get(name) is not None})

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
            suppressed_ids=(vocabulary.pad_id, vocabulary.cls_id, vocabulary.mask_id),
            vocabulary_size=len(vocabulary),
        )

    def model_arguments(self) -> dict[str, Any]:
        """Returns how the decoder starts and the ids of start and end."""
        return {
            "decoder": self.decoder,
            "start_token_id": self.start_token_id,
            "end_token_id": self.end_token_id,
        }

    def check_positions(self, positions: int) -> None:
        """Refuses targets that are longer than the decoder."""
        if self.max_target_length > positions:
            raise ValueError(
                f"max_target_length is {self.max_target_length} but the model has {positions} "
                f"positions (max_position_embeddings): use at most {positions}"
            )

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
        with Progress(len(examples), "text", description) as progress:
            return EncodedPairs(
                tokenizer,
                [example.source for example in examples],
                [example.target or "" for example in examples],
                max_seq_length,
                self.max_target_length,
                progress.update,
            )

    def loss(self, label_smoothing: float = 0.0) -> TagCrossentropy:
        """Returns the cross-entropy of pieces, a mean over all of the global batch."""
        return TagCrossentropy(label_smoothing, name="token_crossentropy")

    def answering(self, model: Any, final: bool) -> Callable[[dict[str, tf.Tensor]], Any]:
        """Returns what counts right pieces, sums losses and, in the end, generates texts."""
        options = self.search_options(model.config.vocab_size)
        self.check_positions(model.config.max_position_embeddings)
        loss = self.loss()
        # What the rows are padded with.
        pad_id = model.config.pad_token_id if self.pad_token_id is None else self.pad_token_id
        end_id = model.end_token_id

        def answer(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            labels = labels_of(inputs[DECODER_INPUT_IDS], pad_id, end_id)  # [B, T]
            encoded = model.encoder(
                {name: inputs[name] for name in model.encoder.input}, training=False
            )["sequence_output"]  # [B, S, H]
            mask = inputs["input_mask"]
            hidden = model.decoder(  # [B, T, H]
                {
                    DECODER_INPUT_IDS: inputs[DECODER_INPUT_IDS],
                    "encoder_output": encoded,
                    "encoder_mask": mask,
                },
                training=False,
            )
            logits = model.output_logits(hidden)  # [B, T, V]
            counted = loss.counted(labels)  # [B, T]
            right = tf.cast(tf.argmax(logits, axis=-1, output_type=tf.int32) == labels, tf.float32)
            found = {
                _LOSS: tf.reduce_sum(loss.call(labels, logits) * counted, axis=1),  # [B]
                _RIGHT: tf.reduce_sum(right * counted, axis=1),
                _PIECES: tf.reduce_sum(counted, axis=1),
            }
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
        counts = zip(outputs[_RIGHT], outputs[_PIECES], outputs[_LOSS], strict=True)
        return [
            GeneratedText(text, score, target, int(right), int(pieces), float(loss))
            for text, score, target, (right, pieces, loss) in zip(
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
