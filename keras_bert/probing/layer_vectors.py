"""The vectors that a frozen encoder has for words in all of its layers.

A word is represented by its first piece, as taggers do. Shapes: W words, L layers, H hidden size.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.models.encoder import BertEncoder
from keras_bert.progress import Progress
from keras_bert.tasks.tagging.rows import encode_sentences
from keras_bert.tasks.tagging.sentences import TaggedSentence
from keras_bert.text.base_tokenizer import Tokenizer

# What the vectors of a split may take in memory, in bytes; larger ones are in a file.
_MOST_IN_MEMORY = 1 << 30
_LARGEST = float(np.finfo(np.float16).max)


class LayerVectors(NamedTuple):
    """The words of a split that have a piece.

    Attributes:
        values: float16 [L+1, W, H], embeddings first; in memory, or mapped from a file.
        words: int64 [W], the index of each among all words of the split.
    """

    values: np.ndarray
    words: np.ndarray


def hidden_state_function(encoder: BertEncoder) -> Callable[[Any, Any], tf.Tensor]:
    """Returns what gives float32 [L+1, N, H], the vectors at N positions of a batch.

    Args:
        encoder: made with `output_hidden_states`.
    """
    rows = {name: tf.TensorSpec([None, None], tf.int32) for name in encoder.input}

    # One trace for batches of every shape.
    @tf.function(input_signature=[rows, tf.TensorSpec([None, 2], tf.int64)])
    def states_at(inputs: Any, positions: tf.Tensor) -> tf.Tensor:
        # positions [N, 2]: row, position
        states = encoder(inputs, training=False)["hidden_states"]  # L + 1 of [B, S, H]
        return tf.stack([tf.gather_nd(state, positions) for state in states])

    return states_at


def layer_vectors(
    states_at: Callable[[Any, Any], tf.Tensor],
    tokenizer: Tokenizer,
    sentences: Sequence[TaggedSentence],
    shape: tuple[int, int],
    max_seq_length: int,
    batch_size: int,
    description: str,
    folder: str | os.PathLike,
) -> LayerVectors:
    """Computes all layers of all words in one pass.

    Args:
        states_at: of `hidden_state_function`.
        tokenizer: that of the encoder.
        sentences: the split; one that is too long is read in windows that overlap by half.
        shape: L+1 and H.
        max_seq_length: the most positions of a row.
        batch_size: rows per call of the encoder.
        description: what the progress line says.
        folder: where the file is, if there is one.

    Raises:
        ValueError: no word has a piece, or a number is none that float16 holds.
    """
    unlabeled = [sentence._replace(tags=None) for sentence in sentences]
    encoded = encode_sentences(tokenizer, unlabeled, (), max_seq_length, False, description)
    count = len(encoded.words)
    if not count:
        raise ValueError(
            f"{description}: no word has a piece that the model reads: check the column of the "
            "words with --word_index"
        )
    size = (shape[0], count, shape[1])
    if 2 * int(np.prod(size, dtype=np.int64)) <= _MOST_IN_MEMORY:
        values = np.empty(size, np.float16)
    else:
        path = Path(folder) / f"{description}.npy".replace(" ", "_")
        values = np.lib.format.open_memmap(path, "w+", np.float16, size)
    # Word by word: its row and its position there, from its index among the pieces of all rows.
    starts = np.cumsum(encoded.row_lengths) - encoded.row_lengths
    row_of_word = np.searchsorted(starts, encoded.positions, side="right") - 1  # [W]
    place = encoded.positions - starts[row_of_word]
    first_word = np.searchsorted(row_of_word, np.arange(len(encoded) + 1))  # words by row
    order = np.argsort(encoded.row_lengths, kind="stable")  # like lengths waste little padding
    with Progress(count, "word", description) as progress:
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            inputs, _ = encoded.examples(tf.constant(rows), tf.constant(rows))
            stretches = [np.arange(first_word[row], first_word[row + 1]) for row in rows]
            chosen = np.concatenate(stretches)  # words of these rows
            in_batch = np.repeat(np.arange(len(rows)), [len(part) for part in stretches])
            found = states_at(inputs, tf.constant(np.stack([in_batch, place[chosen]], axis=1)))
            states = found.numpy()  # [L + 1, N, H]
            largest = np.abs(states).max(axis=(1, 2), initial=0)  # of each layer; NaN if any is
            for layer in np.flatnonzero(~(largest <= _LARGEST)):
                raise ValueError(
                    f"layer {layer} of the encoder (0 for the embeddings) has a number of "
                    f"{largest[layer]}, beyond {_LARGEST:,.0f}: its weights are damaged"
                )
            values[:, chosen] = states
            progress.update(len(chosen))
    return LayerVectors(values, encoded.words)
