"""Vectors of a pretrained encoder for pieces, words or texts, without fine-tuning (section 5.3).

Shapes: B batch, S positions, H hidden size, D width of the features (H, or 4H for concat_last_4).
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert.choices import FeatureLevel, check_choice
from keras_bert.counts import check_count, needed_count
from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.layer_features import check_strategy, combine
from keras_bert.storage.text_lines import check_several, check_string
from keras_bert.tasks.opened_encoder import open_encoder
from keras_bert.tasks.tagging.windows import Window, windows
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer

# Texts are sorted by length within so many batches, or so many characters where they are long.
_BATCHES_PER_CHUNK = 16
_CHARACTERS_PER_CHUNK = 1 << 17
# Few distinct lengths mean few traces.
_LENGTH_MULTIPLE = 8
_SPECIAL_TOKENS = 2
_WORD = re.compile(r"\S+")


class TextFeatures(NamedTuple):
    """The vectors of a text, and what each of them stands for: `text[start:end]`.

    Attributes:
        text: the text.
        values: [units, D].
        starts: int32 [units], in code points.
        ends: int32 [units].
        ids: int32 [units], ids of the pieces; None for words and texts.
    """

    text: str
    values: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    ids: np.ndarray | None


class _Pieces(NamedTuple):
    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class _Row(NamedTuple):
    text: int
    window: Window


class FeatureExtractor:
    """Turns texts into vectors of their pieces, of their words, or of each as a whole.

    A text that is too long is read in windows that overlap by half; each piece takes its vector
    from the window where it has most context. Words are what stands between white space; their
    vector is the mean of those of their pieces, zero where all characters were removed. That of a
    text is the mean of all its pieces, [CLS] and [SEP] left out.

    Args:
        encoder: a `BertEncoder`, a model with a head on one, or a `FinetunedModel`; a copy is made
            of an encoder without `output_hidden_states`.
        tokenizer: that of the encoder; None takes that of a `FinetunedModel`.
        layers: one of `keras_bert.choices.LayerStrategy`.
        level: "piece", "word" or "text".
        max_seq_length: the most positions of a row; None takes those of the encoder.
        batch_size: rows per call of the encoder.

    Attributes:
        width: numbers of a vector, D.
        texts: how many texts were read so far.
        units: how many pieces or words they had, or how many texts.
        windowed_texts: how many of them took more than one window.
        empty_words: how many words, or texts, had no pieces.

    Raises:
        ValueError: the encoder has not these layers or not so many positions, or it is none.

    Example:
        extractor = FeatureExtractor.from_preset("runs/mini/preset", layers="sum_last_4")
        [features] = extractor(["Rita lives in Oslo."])
    """

    def __init__(
        self,
        encoder: Any,
        tokenizer: Tokenizer | None = None,
        layers: str = "concat_last_4",
        level: FeatureLevel = "piece",
        max_seq_length: int | None = None,
        batch_size: int = 32,
    ):
        encoder, tokenizer = open_encoder(encoder, "hidden_states", tokenizer)
        positions = encoder.config.max_position_embeddings
        length = check_count("max_seq_length", max_seq_length) or positions
        if not _SPECIAL_TOKENS < length <= positions:
            raise ValueError(
                f"max_seq_length is {length}: it must be above {_SPECIAL_TOKENS} and at most "
                f"{positions}, the positions of the model"
            )
        needed_count("batch_size", batch_size)
        check_choice("level", level, FeatureLevel)
        check_strategy("layers", layers, encoder.config.num_hidden_layers)
        # Cut out of the encoder's graph, so that layers above what is asked for are not computed.
        self._model = keras.Model(encoder.input, combine(encoder.output["hidden_states"], layers))
        self._forward = tf.function(
            lambda inputs: self._model(inputs, training=False), reduce_retracing=True
        )
        self._tokenizer = tokenizer
        self._level = level
        self._max_seq_length = length
        self._batch_size = batch_size
        self.width = self._model.output.shape[-1]
        self.texts = self.units = self.windowed_texts = self.empty_words = 0

    @classmethod
    def from_preset(
        cls,
        folder: str | os.PathLike,
        ignore_config_keys: Collection[str] = (),
        **arguments: Any,
    ) -> "FeatureExtractor":
        """Opens a model folder of any format, in float32.

        Args:
            folder: the folder.
            ignore_config_keys: unknown keys of its config to pass over, see `BertConfig.from_dict`.
            **arguments: those of `FeatureExtractor` but the first two.
        """
        encoder = BertEncoder.from_preset(
            os.fspath(folder), ignore_config_keys, output_hidden_states=True, dtype="float32"
        )
        return cls(encoder, load_tokenizer(folder), **arguments)

    def __call__(self, texts: Iterable[str]) -> Iterator[TextFeatures]:
        """Returns an iterator over the features of each text in order, float32.

        Memory holds the vectors of a few batches, or of one text where it is longer.

        Raises:
            ValueError: one string was given in place of several, or one of them is none.
        """
        check_several(texts)
        return self._each(texts)

    def _each(self, texts: Iterable[str]) -> Iterator[TextFeatures]:
        for chunk in _chunks(texts, _BATCHES_PER_CHUNK * self._batch_size):
            for text, pieces, values in zip(chunk, *self._features(chunk), strict=True):
                self.texts += 1
                yield self._unit_features(text, pieces, values)

    def _features(self, texts: Sequence[str]) -> tuple[list[_Pieces], list[np.ndarray]]:
        tokenized = self._tokenizer.tokenize_with_offsets(texts)
        splits = tokenized[0].row_splits.numpy()[1:-1]
        pieces = [
            _Pieces(*parts)
            for parts in zip(
                *(np.split(part.values.numpy(), splits) for part in tokenized), strict=True
            )
        ]
        values = [np.zeros([len(part.ids), self.width], np.float32) for part in pieces]
        rows = []
        for number, part in enumerate(pieces):
            found = windows([1] * len(part.ids), self._max_seq_length - _SPECIAL_TOKENS)
            rows += [_Row(number, window) for window in found]
            self.windowed_texts += len(found) > 1
        rows.sort(key=lambda row: row.window.end - row.window.start)
        for start in range(0, len(rows), self._batch_size):
            batch = rows[start : start + self._batch_size]
            vocabulary = self._tokenizer.vocabulary
            longest = max(window.end - window.start for _, window in batch) + _SPECIAL_TOKENS
            length = min(-(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE, self._max_seq_length)
            ids = np.full([len(batch), length], vocabulary.pad_id, np.int32)
            mask = np.zeros_like(ids)
            for index, (number, window) in enumerate(batch):
                own = [*pieces[number].ids[window.start : window.end]]
                own = [vocabulary.cls_id, *own, *vocabulary.end_ids]
                ids[index, : len(own)] = own
                mask[index, : len(own)] = 1
            inputs = {INPUT_IDS: ids, INPUT_MASK: mask, SEGMENT_IDS: np.zeros_like(ids)}
            answer = self._forward(
                {name: tf.constant(value) for name, value in inputs.items()}
            ).numpy()
            for (number, window), row in zip(batch, answer, strict=True):
                offset = 1 - window.start  # [CLS] stands before
                values[number][window.first : window.last] = row[
                    window.first + offset : window.last + offset
                ]
        return pieces, values

    def _unit_features(self, text: str, pieces: _Pieces, values: np.ndarray) -> TextFeatures:
        if self._level == "piece":
            self.units += len(pieces.ids)
            return TextFeatures(text, values, pieces.starts, pieces.ends, pieces.ids)
        if self._level == "text":
            spans = [(0, len(text))]
            word = np.zeros(len(pieces.ids), np.int64)  # [pieces]
        else:
            spans = [match.span() for match in _WORD.finditer(text)]
        starts, ends = np.array(spans, np.int32).reshape([-1, 2]).T
        if self._level == "word":
            # The first word that ends behind the beginning of a piece: that of the piece, if they
            # overlap. Some vocabularies have pieces of white space alone, which are of no word.
            word = np.searchsorted(ends, pieces.starts, side="right")
            own = np.append(starts, np.iinfo(np.int32).max)[word] < pieces.ends
            word, values = word[own], values[own]
        counts = np.bincount(word, minlength=len(spans))
        sums = np.zeros([len(spans), self.width], np.float32)
        np.add.at(sums, word, values)
        self.units += len(spans)
        self.empty_words += int(np.sum(counts == 0))
        return TextFeatures(text, sums / np.maximum(counts, 1)[:, None], starts, ends, None)


def _chunks(texts: Iterable[str], count: int) -> Iterator[list[str]]:
    chunk: list[str] = []
    characters = 0
    for number, given in enumerate(texts):
        text = check_string(given, f"text {number} (counted from 0)")
        chunk.append(text)
        characters += len(text)
        if len(chunk) == count or characters > _CHARACTERS_PER_CHUNK:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
