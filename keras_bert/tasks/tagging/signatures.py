"""Signatures of taggers: running text in, entities or tagged words out.

The graph does what `tasks.tagging.windows` and `entities` do with Python lists, and tests hold both
against each other. Shapes: N texts, D words of all texts, W windows of all texts, E
entries (entities or words) of the text that has most, C labels, F entries of all texts.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import tensorflow as tf

from keras_bert.finetuning.task import TaskDescription
from keras_bert.models.task_model import read_tokens
from keras_bert.models.token_classifier import BertTokenClassifier
from keras_bert.signatures.base import (
    SignatureFamily,
    Tensors,
    string_vector,
    with_a_column,
)
from keras_bert.signatures.code_points import code_points
from keras_bert.signatures.windows import has_most_context, spread, word_windows
from keras_bert.tasks.tagging.entities import OUTSIDE, entities
from keras_bert.tasks.tagging.head import TagHead
from keras_bert.tasks.tagging.text_words import TextWords, join_words, without_white_space
from keras_bert.text.packing import join_pieces, pad_rows
from keras_bert.text.preprocessor import TEXT

# [CLS] and [SEP].
_SPECIAL_TOKENS = 2


class _Tagged(NamedTuple):
    """The class int64 and the score float32 of each word, [D] each."""

    classes: tf.Tensor
    scores: tf.Tensor


class TagSignatures(SignatureFamily):
    """`text` of any length, string [N] -> entities, or words where tags are plain ones.

    `entities` (or `words`), string [N, E], as they stand in the text; `labels`, string [N, E];
    `starts` and `ends`, int32 [N, E], their characters (code points); `scores`, float32 [N, E], the
    probability of the label, for entities that of the least certain word. Texts with fewer of them
    have empty strings, -1 and 0 at the end.

    Args:
        description: the task.
        *arguments: see `SignatureFamily`.
    """

    sample: Mapping[str, Any] = {TEXT: "One text."}
    joins_members = True

    def __init__(self, description: TaskDescription, *arguments: Any):
        super().__init__(*arguments)
        self.labels = description.labels
        # The head that `KINDS` has beside this.
        self._tags_entities = cast(TagHead, description.head).tags_entities

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the one text."""
        return {TEXT: string_vector(TEXT)}

    def answer(self, text: tf.Tensor) -> Tensors:
        """Returns entities or words."""
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(text)  # [N, pieces] each
        characters = code_points(text)
        ids, starts, ends = without_white_space(ids, starts, ends, characters)
        words = join_words(starts, ends, characters)
        tagged = self._tag(words, ids.values, tf.size(text, tf.int64))
        if self._tags_entities:
            name, (first, last, label, score) = "entities", self._entities(words, tagged)
        else:
            # Every word is an entry: F = D.
            first = last = tf.range(tf.size(words.rows, tf.int64))
            label = tf.gather(tf.constant(self.labels), tagged.classes)
            name, score = "words", tagged.scores
        rows = tf.gather(words.rows, first)  # [F], the text of each entry
        start, end = tf.gather(words.starts, first), tf.gather(words.ends, last)

        # [F] -> [N, E]
        def by_text(values: tf.Tensor, padding: Any) -> tf.Tensor:
            ragged = tf.RaggedTensor.from_value_rowids(
                values, rows, tf.size(text, tf.int64), validate=False
            )
            return ragged.to_tensor(padding)

        return {
            name: by_text(characters.slices(rows, start, end), ""),
            "labels": by_text(label, ""),
            "starts": by_text(start, -1),
            "ends": by_text(end, -1),
            "scores": by_text(score, 0.0),
        }

    def _tag(self, words: TextWords, pieces: tf.Tensor, texts: tf.Tensor) -> _Tagged:
        room = self.max_seq_length - _SPECIAL_TOKENS
        # A word longer than a row keeps the pieces that fit.
        lengths = tf.minimum(words.pieces, room)  # [D]
        _, kept = spread(words.first_piece, lengths)
        edges = tf.concat([[tf.constant(0, tf.int64)], tf.cumsum(lengths)], axis=0)  # [D + 1]
        of_texts = tf.fill([texts], tf.constant(room, tf.int64))  # [N]
        _, first, last = word_windows(words.rows, edges, of_texts)  # words, [W] each
        # From words to pieces: [W, pieces], first as indices into `kept`, then as ids.
        part = tf.ragged.range(tf.gather(edges, first), tf.gather(edges, last))
        ids = tf.gather(tf.gather(pieces, kept), part.with_row_splits_dtype(tf.int64))
        # [W, tokens, C]: with [CLS] and [SEP], without padding.
        vocabulary = self.tokenizer.vocabulary
        rows, segment_ids = join_pieces(ids, None, vocabulary)
        inputs = with_a_column(pad_rows(rows, segment_ids, vocabulary))
        # Each word of each window is an entry; a word in several windows takes the tag of the one
        # that shows it with most context.
        window, word = spread(first, last - first)
        begin, end = tf.gather(edges, word), tf.gather(edges, word + 1)
        left = begin - tf.gather(edges, tf.gather(first, window))
        right = tf.gather(edges, tf.gather(last, window)) - end
        counts = has_most_context(
            tf.minimum(left, right), window, word, tf.size(words.rows, tf.int64)
        )
        # Windows go forward: those that count are in the order of the words.
        # The tag of a word is that of its first piece; 1 for [CLS].
        position = tf.gather(rows.row_starts(), window) + 1 + left
        position = tf.boolean_mask(position, counts)  # [D]
        # Members of an ensemble read the same windows.
        logits = [member._logits(inputs, rows.row_lengths()) for member in self.members]
        own = self.joined([tf.gather(values, position) for values in logits])  # [D, C]
        return _Tagged(tf.argmax(own, axis=-1), tf.reduce_max(tf.nn.softmax(own), axis=-1))

    def _logits(self, inputs: Tensors, lengths: tf.Tensor) -> tf.Tensor:
        """Returns the logits of the real tokens of all rows, [tokens of all rows, C]."""
        if isinstance(self.model, BertTokenClassifier):
            states = self.encoder.sequence_output(inputs)  # [W, tokens, H]
            read = read_tokens(self.model.encoder, states.values)
            return self.model.get_layer("classifier")(read)
        # A BiLSTM reads rows as a whole: [W, S, C], cut to the tokens of each.
        padded = self.model(inputs, training=False)
        return tf.RaggedTensor.from_tensor(padded, lengths).values

    def _entities(self, words: TextWords, tagged: _Tagged) -> tuple[tf.Tensor, ...]:
        """Returns first and last word, label and score of each entity."""
        # Tables by class, [C]: B-PER -> type PER, letter B; O -> no entity.
        kinds = [(*entities([label]), None)[0] for label in self.labels]
        types = [kind.type if kind else OUTSIDE for kind in kinds]
        known = sorted(set(types))
        letters = np.array([label[:1] for label in self.labels])

        # [C] -> [D]: what a table says of the class of each word.
        def of(values: Any) -> tf.Tensor:
            return tf.gather(tf.constant(values), tagged.classes)

        type_ = of([known.index(name) for name in types])
        inside, goes_on = of(letters != OUTSIDE), of(np.isin(letters, ["I", "E"]))
        open_ = of(np.isin(letters, ["B", "I"]))
        same = tf.equal(type_[1:], type_[:-1]) & tf.equal(words.rows[1:], words.rows[:-1])
        # Whether a word goes on with the entity of the one before: B-PER I-PER O B-PER -> 0 1 0 0.
        joined = tf.concat([[False], goes_on[1:] & open_[:-1] & same], axis=0)[: tf.size(type_)]
        begins = inside & ~joined
        position = tf.where(inside)[:, 0]  # words of entities
        # Begins 1 0 0 1 at words 0 1 3 4: entities 0 0 0 1.
        entity = tf.gather(tf.cumsum(tf.cast(begins, tf.int64)) - 1, position)
        count = tf.reduce_sum(tf.cast(begins, tf.int64))
        first = tf.math.unsorted_segment_min(position, entity, count)  # [F]
        last = tf.math.unsorted_segment_max(position, entity, count)
        score = tf.math.unsorted_segment_min(tf.gather(tagged.scores, position), entity, count)
        return first, last, tf.gather(tf.constant(known), tf.gather(type_, first)), score
