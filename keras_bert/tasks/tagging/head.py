"""A tag for each word of a sentence: named entities, parts of speech (paper section 5.3)."""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.counts import check_count
from keras_bert.finetuning.collapse import chance_loss, one_answer
from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.finetuning.head import FinetuningHead, place_of
from keras_bert.finetuning.metrics import confusion_matrix
from keras_bert.models.bilstm_tagger import BertBiLSTMTagger
from keras_bert.models.token_classifier import BertTokenClassifier
from keras_bert.tasks.tagging.answer_table import WORD_COLUMNS, span_columns, span_row, word_row
from keras_bert.tasks.tagging.entities import OUTSIDE, are_entity_tags, entities
from keras_bert.tasks.tagging.rows import encode_sentences
from keras_bert.tasks.tagging.sentences import WORD, TaggedSentence
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.training.losses import SmoothedCrossentropy


class TagPrediction(NamedTuple):
    """What is predicted for a sentence.

    Attributes:
        tags: one for each word.
        scores: float32 [words], the probability of each tag; 0 for words of removed characters
            alone, which the model does not see.
    """

    tags: tuple[str, ...]
    scores: np.ndarray


@dataclasses.dataclass(frozen=True)
class TagHead(FinetuningHead):
    """Tagging of words: the first piece of each word carries its tag.

    Splits are sequences of `TaggedSentence`, predictions `TagPrediction`s. Words without a piece
    are O where tags tell entities; else they have the first label.

    Attributes:
        document_context: fill each row with what stands before and after in the document.
        features_from: None to fine-tune the encoder; one of
            `keras_bert.choices.LayerStrategy` for a BiLSTM on frozen features.
        lstm_width: units of the BiLSTM in each direction.
        plain: whether every tag is its word's own, also where all look like those of entities.

    Raises:
        ValueError: the BiLSTM has no units.
    """

    kind: ClassVar[str] = "tag"
    example_class: ClassVar[type | None] = TaggedSentence
    example_form: ClassVar[str] = "TaggedSentence(words)"
    per_position: ClassVar[bool] = True
    # A BiLSTM may stand beside a fine-tuned encoder.
    member_fields: ClassVar[tuple[str, ...]] = ("features_from", "lstm_width")

    document_context: bool = False
    features_from: str | None = None
    lstm_width: int = 768
    plain: bool = False

    def __post_init__(self) -> None:
        check_count("lstm_width", self.lstm_width)

    @property
    def model_class(self) -> type:  # type: ignore[override]
        """The Keras model: a linear layer on the encoder, or a BiLSTM."""
        return BertTokenClassifier if self.features_from is None else BertBiLSTMTagger

    @property
    def tags_entities(self) -> bool:
        """Whether the tags tell entities, rather than something of each word."""
        return not self.plain and are_entity_tags(self.labels)

    def model_arguments(self) -> dict[str, Any]:
        """Returns the number of tags, their names and what the BiLSTM wants."""
        arguments = {"num_classes": len(self.labels), "labels": list(self.labels)}
        if self.features_from is None:
            return arguments
        return arguments | {"features_from": self.features_from, "lstm_width": self.lstm_width}

    def with_labels(self, labels: Sequence[str]) -> Self:
        """Returns the head for data with these tags.

        Raises:
            ValueError: there are fewer than two.
        """
        if len(labels) < 2:
            raise ValueError(
                f"the data names the tags {list(labels)}, but tags are learned from at least two: "
                "name all in TaskData(labels=...)"
            )
        return super().with_labels(labels)

    def check_labels(self, examples: Sequence[TaggedSentence], split: str) -> None:
        """Refuses tags that are none of the labels, and fewer or more of them than words."""
        known = frozenset(self.labels)
        for number, sentence in enumerate(examples):
            tags = sentence.tags or ()
            if len(tags) != len(sentence.words):
                raise ValueError(
                    f"{place_of(split, number)} has {len(sentence.words)} words but {len(tags)} "
                    "tags: give one for each word"
                )
            unknown = next((tag for tag in tags if tag not in known), None)
            if unknown is not None:
                raise ValueError(
                    f"{place_of(split, number)} has the tag {unknown!r}, which is none of the "
                    f"{len(known)} labels ({', '.join(self.labels)}): name all tags in "
                    "TaskData(labels=...)"
                )

    def needs_segments(self, examples: Any) -> bool:
        """Never: a row is one text."""
        return False

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[TaggedSentence],
        max_seq_length: int,
        description: str,
    ) -> EncodedRows:
        """Tokenizes word by word; a sentence that is too long takes several rows."""
        return encode_sentences(
            tokenizer, examples, self.labels, max_seq_length, self.document_context, description
        )

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Returns the cross-entropy of the words' first pieces."""
        return TagCrossentropy(label_smoothing)

    def predictions(
        self,
        outputs: Sequence[np.ndarray],
        encoded: Any,
        examples: Sequence[TaggedSentence],
    ) -> list[TagPrediction]:
        """Turns logits into a tag for every word; sequences that break BIO stay as they are."""
        words = sum(len(sentence.words) for sentence in examples)
        # Tags of words without a piece stay as they are here.
        in_none = self.tags_entities and OUTSIDE in self.labels
        classes = np.full(words, self.labels.index(OUTSIDE) if in_none else 0, np.int64)
        scores = np.zeros(words, np.float32)
        logits = np.concatenate(list(outputs))[encoded.positions]  # [words with pieces, C]
        classes[encoded.words] = logits.argmax(axis=-1)
        scores[encoded.words] = tf.nn.softmax(logits).numpy().max(axis=-1)
        found, start = [], 0
        for sentence in examples:
            end = start + len(sentence.words)
            tags = tuple(self.labels[index] for index in classes[start:end])
            found.append(TagPrediction(tags, scores[start:end]))
            start = end
        return found

    def references(self, examples: Sequence[TaggedSentence]) -> list[tuple[str, ...]] | None:
        """Returns the tags of each sentence."""
        tags = [sentence.tags for sentence in examples if sentence.tags is not None]
        return tags if len(tags) == len(examples) else None

    def collapse(
        self,
        predictions: Sequence[TagPrediction],
        references: Sequence[Sequence[str]],
    ) -> str | None:
        """Names the one tag that is predicted for all words."""
        return one_answer(
            [tag for prediction in predictions for tag in prediction.tags],
            [tag for tags in references for tag in tags],
        )

    def confusion(
        self,
        predictions: Sequence[TagPrediction],
        references: Sequence[Sequence[str]],
    ) -> np.ndarray:
        """Counts words by their tag and the predicted one."""
        index = {label: i for i, label in enumerate(self.labels)}
        told = [index[tag] for tags in references for tag in tags]
        found = [index[tag] for prediction in predictions for tag in prediction.tags]
        return confusion_matrix(np.array(told), np.array(found), len(self.labels))

    def chance_loss(
        self,
        examples: Sequence[TaggedSentence],
        label_smoothing: float = 0.0,
    ) -> float:
        """Returns the entropy of the tags."""
        counts = collections.Counter(tag for sentence in examples for tag in sentence.tags or ())
        return chance_loss(np.array([counts[label] for label in self.labels]), label_smoothing)

    def answer_columns(self) -> list[str]:
        """Returns the columns of an entity, or of a word where labels are plain ones."""
        if self.tags_entities:
            return span_columns("entity", "first_word", "last_word")
        return list(WORD_COLUMNS)

    def answer_rows(self, prediction: TagPrediction, example: TaggedSentence) -> list[list[str]]:
        """Returns a row for each entity, or for each word; words are numbered from 1.

        The score of an entity is that of its least certain word.
        """
        if self.tags_entities:
            found = []
            for entity in entities(prediction.tags):
                words = slice(entity.first, entity.last + 1)
                text, score = " ".join(example.words[words]), prediction.scores[words].min()
                found.append(span_row(text, entity.type, entity.first + 1, entity.last + 1, score))
            return found
        rows = zip(example.words, prediction.tags, prediction.scores, strict=True)
        return [word_row(number, *fields) for number, fields in enumerate(rows, start=1)]

    def example_table(
        self, examples: Sequence[TaggedSentence]
    ) -> tuple[list[str], list[list[str]]]:
        """Returns the numbers of the sentences, from 1."""
        return ["sentence"], [[str(number)] for number in range(1, len(examples) + 1)]

    def without_labels(self, examples: Sequence[TaggedSentence]) -> list[TaggedSentence]:
        """Returns the sentences without their tags, which may be none of the model's."""
        return [sentence._replace(tags=None) for sentence in examples]

    def default_columns(self, examples: Any) -> dict[str, str]:
        """Returns the first column of a file, for the words."""
        return {WORD: "0"}


@keras.saving.register_keras_serializable("keras_bert")
class TagCrossentropy(SmoothedCrossentropy):
    """Cross-entropy of logits [B, S, C] and tags [B, S], below 0 where a piece carries none.

    It is the mean over the labeled pieces of the global batch, so that neither the number of
    replicas nor how full their rows are changes what a piece counts. Weights [B] make it a weighted
    mean over the pieces of each row.
    """

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Returns the mean, a float32 scalar."""
        weights = self.counted(y_true)
        if sample_weight is not None:
            sample_weight = ops.reshape(ops.cast(sample_weight, "float32"), [-1, 1])
            weights = weights * sample_weight
        losses = self.call(y_true, y_pred)
        total = ops.sum(weights)
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            # Gradients are summed over replicas, so each divides by what all of them have.
            total = context.all_reduce(tf.distribute.ReduceOp.SUM, total)
        # No labeled piece, no loss.
        return ops.sum(losses * weights) / ops.maximum(total, 1e-12)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each piece, [B, S]; that of one without a tag means nothing."""
        return super().call(ops.maximum(ops.cast(y_true, "int32"), 0), y_pred)

    def counted(self, y_true: Any) -> Any:
        """Returns float32 [B, S]: 1 where a piece carries a tag, else 0."""
        return ops.cast(ops.convert_to_tensor(y_true, "int32") >= 0, "float32")
