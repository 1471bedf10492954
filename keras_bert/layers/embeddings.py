"""Embeddings: word, position and segment, summed, normalized, dropped out (paper section 3).

    input_ids ----> word_embeddings [V, H] -------+
    0, 1, 2 ... --> position_embeddings [M, H] ---+--> norm --> dropout --> hidden [B, S, H]
    segment_ids --> segment_embeddings [T, H] ----+

The word table is a layer of its own, because the masked language model scores with it once more:
the logit of a piece is the product of a hidden state with the piece's own embedding (tied weights).

Shapes: B sequences, S positions, H width of the embeddings, V entries of the vocabulary,
M positions at most, T segments (`type_vocab_size`), P positions that are predicted.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from keras_bert.layers.dropout import Dropout
from keras_bert.layers.initializer import position_initializer, truncated_normal
from keras_bert.layers.layer_norm import LayerNormalization
from keras_bert.layers.one_loop import with_gradient

# Ids [B, S] and the table [V, H] -> vectors [B, S, H].
Lookup = Callable[[Any, Any], Any]


@keras.saving.register_keras_serializable("keras_bert")
class WordEmbedding(keras.layers.Layer):
    """Looks ids up in a table, or scores hidden states against the same table (tied weights).

    Args:
        vocab_size: entries of the vocabulary, V.
        hidden_size: width of the encoder, H.
        initializer_range: standard deviation of the truncated normal initializer.
    """

    def __init__(
        self, vocab_size: int, hidden_size: int, initializer_range: float = 0.02, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.initializer_range = initializer_range
        self._lookup: Lookup | None = None

    @contextlib.contextmanager
    def replaced_lookup(self, lookup: Lookup) -> Iterator[None]:
        """While it is open, vectors come from a function of the ids and the table.

        So the vectors of an input are reached from outside of a model: to look at points between
        two texts, or to take gradients with respect to them. Not while another thread calls the
        same model.

        Args:
            lookup: takes ids int32 [B, S] and the table [V, H], returns [B, S, H].
        """
        self._lookup, before = lookup, self._lookup
        try:
            yield
        finally:
            self._lookup = before

    def build(self, input_shape: Any) -> None:
        """Makes the table [V, H]."""
        self.embeddings = self.add_weight(  # [V, H]
            name="embeddings",
            shape=(self.vocab_size, self.hidden_size),
            initializer=truncated_normal(self.initializer_range),
            # Rows are looked up as they are kept: of these alone a copy in fewer bits is made, and
            # their gradients add up in the bits of the table.
            autocast=False,
        )

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        """Returns vectors [..., H] of ids [...], or logits [..., V] of vectors when `reverse`."""
        table = ops.convert_to_tensor(self.embeddings)  # [V, H]
        if reverse:
            vectors = ops.reshape(inputs, (-1, self.hidden_size))  # [B, P, H] -> [B * P, H]
            vectors, table = (ops.cast(part, self.compute_dtype) for part in (vectors, table))
            logits = products_with_rows(vectors, table)  # [B * P, V]
            return ops.reshape(logits, (*ops.shape(inputs)[:-1], self.vocab_size))  # [B, P, V]
        if self._lookup is not None:
            return self._lookup(inputs, ops.cast(table, self.compute_dtype))
        vectors = ops.take(table, inputs, axis=0)  # [B, S] -> [B, S, H]
        return ops.cast(vectors, self.compute_dtype)

    def compute_output_spec(self, inputs: Any, reverse: bool = False) -> keras.KerasTensor:
        """Returns [..., H] of dtype `compute_dtype`, or [..., V] when `reverse`."""
        if reverse:
            shape = (*inputs.shape[:-1], self.vocab_size)  # [..., H] -> [..., V]
        else:
            shape = (*inputs.shape, self.hidden_size)  # [...] -> [..., H]
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "initializer_range": self.initializer_range,
        }


def products_with_rows(vectors: Any, table: Any) -> Any:
    """Returns [N, V], the products of vectors [N, H] with the rows of a table [V, H]."""
    if keras.backend.backend() != "tensorflow":
        return ops.matmul(vectors, ops.transpose(table))
    # Read as a tensor: functions with gradients of their own take no variables.
    return _products_without_a_transposed_copy(vectors, ops.copy(table))


@with_gradient
def _products_without_a_transposed_copy(vectors: Any, table: Any) -> tuple[Any, Callable]:
    """The same with the usual gradient written out.

    No product needs the transposed table then, of which TensorFlow would make a copy in every step:
    each `transpose` here is part of its product.
    """

    def gradient(upstream: Any) -> tuple[Any, Any]:  # [N, V]
        return ops.matmul(upstream, table), ops.matmul(ops.transpose(upstream), vectors)

    return ops.matmul(vectors, ops.transpose(table)), gradient


@keras.saving.register_keras_serializable("keras_bert")
class EmbeddingPostprocessor(keras.layers.Layer):
    """Adds learned position and segment embeddings to word embeddings, then norm and dropout.

    The order sum, layer norm, dropout is that of `embedding_postprocessor` in google-research/bert,
    modeling.py.

    Args:
        max_position_embeddings: the longest sequence, M.
        type_vocab_size: number of segments, T; 0 where the family has none.
        dropout_rate: dropout after the norm.
        initializer_range: standard deviation of the truncated normal initializer.
        layer_norm_eps: epsilon of the norm.
        seed: seed of the dropout; None draws one.
        position_initializer: what the position table starts as, see `BertConfig`.
        first_position: row of the table for position 0, F: RoBERTa leaves the rows before it out.
        reads_segments: whether the segment ids count; else every piece is of segment 0.
        has_positions: whether there is a table of positions.
        has_norm: whether there is a norm.
    """

    def __init__(
        self,
        max_position_embeddings: int,
        type_vocab_size: int,
        dropout_rate: float = 0.1,
        initializer_range: float = 0.02,
        layer_norm_eps: float = 1e-12,
        seed: int | None = None,
        position_initializer: str = "normal",
        first_position: int = 0,
        reads_segments: bool = True,
        has_positions: bool = True,
        has_norm: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.dropout_rate = dropout_rate
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.seed = seed
        self.position_initializer = position_initializer
        self.first_position = first_position
        self.reads_segments = reads_segments
        self.has_positions = has_positions
        self.has_norm = has_norm
        self.layer_norm = LayerNormalization(
            epsilon=layer_norm_eps, dtype=self.dtype_policy, name="layer_norm"
        )
        self.dropout = Dropout(dropout_rate, seed=seed, dtype=self.dtype_policy, name="dropout")

    def build(
        self,
        word_embeddings_shape: Any,
        segment_ids_shape: Any = None,
        position_ids_shape: Any = None,
    ) -> None:
        """Makes the tables and the norm for word embeddings [B, S, H]."""
        hidden_size = word_embeddings_shape[-1]
        if self.has_positions:
            # One row for each position [F + M, H]: learned, so there is none for one beyond M.
            self.position_embeddings = self.add_weight(
                name="position_embeddings",
                shape=(self.first_position + self.max_position_embeddings, hidden_size),
                initializer=position_initializer(self.position_initializer, self.initializer_range),
            )
        if self.type_vocab_size:
            self.segment_embeddings = self.add_weight(  # [T, H]
                name="segment_embeddings",
                shape=(self.type_vocab_size, hidden_size),
                initializer=truncated_normal(self.initializer_range),
            )
        if self.has_norm:
            self.layer_norm.build(word_embeddings_shape)  # scale and offset, [H] each

    def call(
        self,
        word_embeddings: Any,
        segment_ids: Any,
        position_ids: Any = None,
        training: bool = False,
    ) -> Any:
        """Returns [B, S, H] for word embeddings [B, S, H] and segment ids [B, S].

        Args:
            word_embeddings: [B, S, H].
            segment_ids: int32 [B, S].
            position_ids: int32 [B, S] for several texts in a sequence; None counts from 0.
            training: whether dropout is on.

        Raises:
            ValueError: S is known and longer than `max_position_embeddings`.
        """
        self._check_length(word_embeddings.shape[1])
        words = self.in_context(word_embeddings, position_ids)
        return self.embed(words, segment_ids, position_ids, training)

    @property
    def reads_neighbors(self) -> bool:
        """Whether `in_context` looks from one position to another."""
        return False

    def in_context(self, word_embeddings: Any, position_ids: Any = None) -> Any:
        """Returns what `embed` reads of words in rows, [B, S, H]: here those themselves.

        A variant that looks at the words beside a word does it here, where they are in rows, and
        says so in `reads_neighbors`.

        Args:
            word_embeddings: [B, S, H].
            position_ids: int32 [B, S] for several texts in a sequence; None for one.
        """
        return word_embeddings

    def embed(
        self,
        word_embeddings: Any,
        segment_ids: Any,
        position_ids: Any = None,
        training: bool = False,
    ) -> Any:
        """Returns what `call` does behind `in_context`, for tokens in any arrangement.

        The unpadded encoder of serving calls it with a list of tokens: [T, H], [T] and [T]. That is
        outside of `call`, where Keras casts no variables to the dtype of the arithmetic.

        Args:
            word_embeddings: [..., H].
            segment_ids: int32 [...].
            position_ids: int32 [...]; None, for [B, S, H] only, counts from 0.
            training: whether dropout is on.
        """
        hidden = word_embeddings
        if self.has_positions:
            hidden = hidden + ops.cast(  # [..., H]
                self._positions(position_ids, ops.shape(hidden)[1]), self.compute_dtype
            )
        if self.type_vocab_size and not self.reads_segments:
            hidden = hidden + ops.cast(self.segment_embeddings[0], self.compute_dtype)  # [..., H]
        elif self.type_vocab_size:
            # A one-hot product: the table has two rows, and its gradient stays dense everywhere.
            one_hot = ops.one_hot(  # [..., 2]
                segment_ids, self.type_vocab_size, dtype=self.compute_dtype
            )
            segment_table = ops.cast(self.segment_embeddings, self.compute_dtype)  # [T, H]
            hidden = hidden + ops.matmul(one_hot, segment_table)  # [..., H]
        hidden = self.layer_norm(hidden) if self.has_norm else hidden  # [..., H]
        return self.dropout(hidden, training=training)  # [..., H]

    def _positions(self, position_ids: Any, length: Any) -> Any:
        """Returns rows of the table, [..., H] of int32 [...], or the first S as [1, S, H]."""
        if position_ids is None:
            # Every sequence counts from 0: the same S rows serve all of them.
            first = self.first_position
            return self.position_embeddings[first : first + length][None]
        table = ops.convert_to_tensor(self.position_embeddings)
        return ops.take(table, position_ids + self.first_position, axis=0)

    def compute_output_spec(
        self, word_embeddings: Any, segment_ids: Any, position_ids: Any = None, **_: Any
    ) -> Any:
        """Returns the symbolic [B, S, H]; checks S as `call` does."""
        self._check_length(word_embeddings.shape[1])
        return keras.KerasTensor(word_embeddings.shape, dtype=self.compute_dtype)

    def _check_length(self, length: int | None) -> None:
        if length is not None and length > self.max_position_embeddings:
            raise ValueError(
                f"a sequence of {length} pieces is longer than the model's "
                f"{self.max_position_embeddings} positions (max_position_embeddings): "
                "give a shorter max_seq_length"
            )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "max_position_embeddings": self.max_position_embeddings,
            "type_vocab_size": self.type_vocab_size,
            "dropout_rate": self.dropout_rate,
            "initializer_range": self.initializer_range,
            "layer_norm_eps": self.layer_norm_eps,
            "seed": self.seed,
            "position_initializer": self.position_initializer,
            "first_position": self.first_position,
            "reads_segments": self.reads_segments,
            "has_positions": self.has_positions,
            "has_norm": self.has_norm,
        }
