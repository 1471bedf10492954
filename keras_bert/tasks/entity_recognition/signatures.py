"""Signatures that find entities: texts and the labels to look for in, entities out.

    text [N] --words--> windows [R] with the labels of their text --encoder--> scores [R, W, K, L]
        --above the threshold, in the window that shows them best--> spans --greedy--> entities

Shapes: N texts, D words of all texts, L labels of the text that has most, R windows of all texts,
W words of a window, K words of the widest entity, F spans of all texts, E entities of the text that
has most, H width of the encoder.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import tensorflow as tf

from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.finetuning.task import TaskDescription
from keras_bert.models.entities.entity_matcher import (
    LABEL_POSITIONS,
    NO_POSITION,
    SCORES_LAYER,
    WORD_POSITIONS,
)
from keras_bert.signatures.base import SignatureFamily, Tensors, string_vector, with_a_column
from keras_bert.signatures.code_points import CodePoints, code_points, valid_text
from keras_bert.signatures.windows import WordWindows, word_windows
from keras_bert.tasks.entity_recognition.head import EntityHead
from keras_bert.tasks.entity_recognition.rows import (
    SPECIAL_TOKENS,
    Markers,
    Prompts,
    cut_words,
    join_rows,
    make_prompts,
    row_inputs,
)
from keras_bert.tasks.entity_recognition.spans import (
    counting_spans,
    selected,
)
from keras_bert.tasks.entity_recognition.words import SplitWords, split_words
from keras_bert.tasks.named_labels import LABELS, SERVE_THRESHOLD, THRESHOLD
from keras_bert.text.preprocessor import TEXT

# Windows whose spans are scored at a time: each has K vectors of 4 H numbers for a word.
_WINDOWS_AT_A_TIME = 8


class FoundEntities(NamedTuple):
    """Entities of a batch, those of a text together, by their first word; [F] each.

    Attributes:
        texts: int64, the text.
        texts_of: string, as they stand in the text.
        labels: string.
        starts: int32, first character.
        ends: int32, behind the last character.
        scores: float32, probabilities.
    """

    texts: tf.Tensor
    texts_of: tf.Tensor
    labels: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor


class EntitySignatures(SignatureFamily):
    """`text`, string [N], of any length, and `labels`, string [N, L] -> entities of these labels.

    `entities`, string [N, E], as they stand in the text; `labels`, string [N, E]; `starts` and
    `ends`, int32 [N, E], their characters (code points); `scores`, float32 [N, E], probabilities
    above that of the head, mostly one half. No two of them overlap. Texts with fewer of them have
    empty strings, -1 and 0 at the end. Blank labels are none, so that rows may differ in number.

    `serve_threshold` also takes `threshold`, float32 [N]: the probability above which a span is an
    entity. `serve_ids` takes rows of ids with the positions of words and labels, and returns the
    `logits` of the model.

    Args:
        description: the task.
        *arguments: see `SignatureFamily`.
    """

    sample: Mapping[str, Any] = {TEXT: "One text.", LABELS: ["person", "place"]}
    has_portable_ids = False  # both converters stumble over LSTMs of any length

    def __init__(self, description: TaskDescription, *arguments: Any):
        super().__init__(*arguments)
        self._head = cast(EntityHead, description.head)  # the one that `KINDS` has beside this
        self.labels = description.labels
        self._markers = Markers(self.model.entity_token_id, self.model.separator_token_id)
        self._scores = self.model.get_layer(SCORES_LAYER)

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the text and the labels."""
        return {
            TEXT: string_vector(TEXT),
            LABELS: tf.TensorSpec([None, None], tf.string, name=LABELS),
        }

    def more_answers(self) -> dict[str, Callable[..., Tensors]]:
        """Returns `serve_threshold`."""
        return {SERVE_THRESHOLD: self._answer_above}

    def more_inputs(self) -> dict[str, dict[str, tf.TensorSpec]]:
        """Returns text, labels and threshold."""
        threshold = tf.TensorSpec([None], tf.float32, name=THRESHOLD)
        return {SERVE_THRESHOLD: {**self.string_inputs(), THRESHOLD: threshold}}

    def id_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the encoder's inputs, int32 [N, S], and positions int32 [N, W] and [N, L]."""
        positions = {
            name: tf.TensorSpec([None, None], tf.int32, name=name)
            for name in (WORD_POSITIONS, LABEL_POSITIONS)
        }
        return {**super().id_inputs(), **positions}

    def answer(self, text: tf.Tensor, labels: tf.Tensor) -> Tensors:
        """Returns entities above the threshold of the head."""
        threshold = tf.fill([tf.size(text)], tf.constant(self._head.threshold, tf.float32))
        return self._answer_above(text=text, labels=labels, threshold=threshold)

    def _answer_above(self, text: tf.Tensor, labels: tf.Tensor, threshold: tf.Tensor) -> Tensors:
        found = self.find(text, labels, threshold, flat=True, multi_label=False)
        texts = tf.size(text, tf.int64)

        # [F] -> [N, E]
        def by_text(values: tf.Tensor, padding: Any) -> tf.Tensor:
            ragged = tf.RaggedTensor.from_value_rowids(values, found.texts, texts, validate=False)
            return ragged.to_tensor(padding)

        return {
            "entities": by_text(found.texts_of, ""),
            "labels": by_text(found.labels, ""),
            "starts": by_text(found.starts, -1),
            "ends": by_text(found.ends, -1),
            "scores": by_text(found.scores, 0.0),
        }

    def find(
        self,
        text: tf.Tensor,
        labels: tf.Tensor,
        threshold: tf.Tensor,
        flat: tf.Tensor | bool,
        multi_label: tf.Tensor | bool,
    ) -> FoundEntities:
        """Returns the entities of all texts.

        Args:
            text: string [N].
            labels: string [N, L]; blank ones are none.
            threshold: float32 [N], probability above which a span is an entity.
            flat: whether no two entities of a text overlap; else one may lie inside another.
            multi_label: whether an entity may have several labels.
        """
        characters = code_points(text)
        words = split_words(characters)
        prompts = self._prompts(labels)
        windows, scores = self._scored(characters, words, prompts)
        # [R, W, K, L]
        probabilities = tf.sigmoid(scores)
        above = probabilities > tf.gather(threshold, windows.texts)[:, None, None, None]
        above |= tf.math.is_nan(probabilities)  # which shall be seen
        counts = counting_spans(windows, self.model.max_width)  # [R, W, K]
        place = tf.where(above & counts[..., None])  # [F, 4]
        score = tf.gather_nd(probabilities, place)
        window, start, width, label = tf.unstack(place, num=4, axis=1)
        first = tf.gather(windows.first, window) + start  # words of all texts
        # As they stand in the text: among equal scores the first is taken.
        order = tf.argsort(first * self.model.max_width + width, stable=True)
        window, first, width, label, score = (
            tf.gather(part, order) for part in (window, first, width, label, score)
        )
        rows = tf.gather(windows.texts, window)
        kept = selected(rows, first, first + width, score, flat, multi_label)
        rows, first, width, label, score = (
            tf.gather(part, kept) for part in (rows, first, width, label, score)
        )
        start, end = tf.gather(words.starts, first), tf.gather(words.ends, first + width)
        names = tf.gather_nd(valid_text(labels), tf.stack([rows, label], axis=1))
        return FoundEntities(rows, characters.slices(rows, start, end), names, start, end, score)

    @property
    def label_room(self) -> int:
        """The most pieces of all labels of a text with their markers, beside one of a word."""
        return self.max_seq_length - SPECIAL_TOKENS - 2  # <<SEP>> and the word

    def _prompts(self, labels: tf.Tensor) -> Prompts:
        """Returns what stands before the words of each text."""
        there = tf.not_equal(tf.strings.strip(labels), "")  # [N, L]
        distinct, number = tf.unique(tf.reshape(labels, [-1]), out_idx=tf.int64)
        index = tf.where(there, tf.reshape(number, tf.shape(labels)), -1)
        pieces = self.tokenizer(distinct).with_row_splits_dtype(tf.int64)
        return make_prompts(pieces, index, self._markers)

    def _scored(
        self, characters: CodePoints, words: SplitWords, prompts: Prompts
    ) -> tuple[WordWindows, tf.Tensor]:
        """Returns all windows and the scores of their spans, float32 [R, W, K, L]."""
        room = self.max_seq_length - SPECIAL_TOKENS - prompts.ids.row_lengths()  # [N]
        check = tf.debugging.assert_greater_equal(
            tf.reduce_min(tf.concat([room, [1]], axis=0)),
            tf.constant(1, tf.int64),
            "the labels of a text leave no room for a word: send fewer or shorter labels",
        )
        with tf.control_dependencies([] if check is None else [check]):  # None outside of graphs
            room = tf.identity(room)
        # Words are texts of their own, cut to a row.
        pieces = self.tokenizer(characters.slices(words.rows, words.starts, words.ends))
        pieces = pieces.with_row_splits_dtype(tf.int64)  # [D, pieces]
        pieces = cut_words(pieces, tf.gather(room, words.rows))
        windows = word_windows(
            words.rows, pieces.row_splits, room, self.model.max_words, self.model.max_width
        )
        index = tf.ragged.range(windows.first, windows.last).with_row_splits_dtype(tf.int64)
        by_word = tf.gather(pieces, index)  # [R, words, pieces]
        of_windows = Prompts(
            tf.gather(prompts.ids, windows.texts),
            tf.gather(prompts.label_positions, windows.texts),
        )
        vocabulary = self.tokenizer.vocabulary
        ids, positions = join_rows(
            of_windows, by_word.merge_dims(1, 2), by_word.row_lengths(axis=2), vocabulary
        )
        inputs = row_inputs(ids, positions, of_windows.label_positions, vocabulary.pad_id)
        encoder_inputs = {name: inputs[name] for name in (INPUT_IDS, INPUT_MASK, SEGMENT_IDS)}
        states = self.encoder.sequence_output(with_a_column(encoder_inputs))  # [R, tokens, H]
        return windows, self._span_scores(states, inputs[WORD_POSITIONS], inputs[LABEL_POSITIONS])

    def _span_scores(
        self, states: tf.RaggedTensor, word_positions: tf.Tensor, label_positions: tf.Tensor
    ) -> tf.Tensor:
        """Returns the scores of all windows, a few at a time: float32 [R, W, K, L]."""
        windows, words = tf.unstack(tf.shape(word_positions))
        # One column at least, and one chunk: of no texts there is nothing to loop over.
        chunks = tf.maximum(1, -(-windows // _WINDOWS_AT_A_TIME))
        rows = chunks * _WINDOWS_AT_A_TIME - windows

        def padded(positions: tf.Tensor) -> tf.Tensor:
            missing = tf.maximum(0, 1 - tf.shape(positions)[1])
            return tf.pad(positions, [[0, rows], [0, missing]], constant_values=NO_POSITION)

        of_words, of_labels = padded(word_positions), padded(label_positions)
        # One vector more, of zeros, for what is nowhere.
        nowhere = tf.shape(states.values)[0]
        values = tf.pad(states.values, [[0, 1], [0, 0]])
        origin = tf.pad(tf.cast(states.row_starts(), tf.int32), [[0, rows]])[:, None]
        positions = tf.concat([of_words, of_labels], axis=1)
        place = tf.where(positions > 0, origin + positions, nowhere)  # [rows, W + L]

        def step(chunk: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            part = slice(chunk * _WINDOWS_AT_A_TIME, (chunk + 1) * _WINDOWS_AT_A_TIME)
            states = tf.gather(values, place[part])
            scores = self._scores(states, of_words[part], of_labels[part], training=False)
            return chunk + 1, found.write(chunk, scores)

        found = tf.TensorArray(tf.float32, chunks, infer_shape=False)
        _, found = tf.while_loop(
            lambda chunk, _: chunk < chunks, step, [0, found], parallel_iterations=1
        )
        scores = found.concat()[:windows, :words, :, : tf.shape(label_positions)[1]]
        shape = [None, None, self.model.max_width, None]
        return tf.ensure_shape(scores, shape)
