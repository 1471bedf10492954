"""The masked language model head, before and after the product with the tied word embeddings.

    sequence output --pick--> [B, P, H] --dense, gelu, norm--> [B, P, H]
    [B, S, H]                                                      |
    logits <--bias-- [B, P, V] <------- word embeddings^T ---------+

The product with the word embeddings is `WordEmbedding` called with `reverse=True`; this module
holds the layers on both sides of it. Where what is compared is wider than the word embeddings, as
in MobileBERT, further columns of every word stand beside them (`FurtherColumns`). EuroBERT has the
product alone: `PickedStates` stands before it, and a bias that adds nothing behind it.

A sequence with fewer than P predictions fills up with position 0, whose loss has the weight 0.

Shapes: B sequences, S positions, P predicted positions of a sequence, H width, V vocabulary.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.layers.activations import activation_function
from keras_bert.layers.dense import Dense, add_bias
from keras_bert.layers.embeddings import products_with_rows
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.layer_norm import LayerNormalization
from keras_bert.layers.self_attention import states_at


@keras.saving.register_keras_serializable("keras_bert")
class MaskedLanguageModelTransform(keras.layers.Layer):
    """Picks the predicted positions, then dense, activation and norm (paper section 3.1, task 1).

    Only the P predicted positions of a sequence are transformed: the vocabulary product that
    follows is the most expensive of a small model, and the other positions have no target.

    Args:
        hidden_act: name of the activation, as in `BertConfig`.
        initializer_range: standard deviation of the truncated normal initializer.
        layer_norm_eps: epsilon of the norm.
        units: width of what is compared with words, E where these are as wide; None where it is
            that of the encoder, H.
        use_bias: whether the dense layer has a bias, and the norm an offset.
    """

    def __init__(
        self,
        hidden_act: str = "gelu",
        initializer_range: float = 0.02,
        layer_norm_eps: float = 1e-12,
        units: int | None = None,
        use_bias: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias
        self.hidden_act = hidden_act
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.activation = activation_function(hidden_act)
        self.layer_norm = LayerNormalization(
            epsilon=layer_norm_eps, center=use_bias, dtype=self.dtype_policy, name="layer_norm"
        )

    def build(self, sequence_output_shape: Any, positions_shape: Any = None) -> None:
        """Makes the dense layer and the norm for sequence outputs [B, S, H]."""
        units = self.units or sequence_output_shape[-1]
        self.dense = Dense(  # [H, E]
            units,
            use_bias=self.use_bias,
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.dense.build(sequence_output_shape)
        self.layer_norm.build((*sequence_output_shape[:-1], units))

    def call(self, sequence_output: Any, positions: Any = None, training: bool = False) -> Any:
        """Returns [B, P, E] for sequence output [B, S, H] and positions [B, P].

        None for the positions takes all of them, as a decoder does: [B, S, E].
        """
        picked = sequence_output
        if positions is not None:
            picked = states_at(sequence_output, positions)  # [B, P, H]
        transformed = self.activation(self.dense(picked), training)  # [B, P, E]
        return self.layer_norm(transformed, training=training)

    def compute_output_spec(
        self, sequence_output: Any, positions: Any = None, training: bool = False
    ) -> keras.KerasTensor:
        """Gives the symbolic shape of `call`."""
        *rows, width = sequence_output.shape
        places = rows if positions is None else positions.shape
        shape = (*places, self.units or width)  # [B, P, E]
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "hidden_act": self.hidden_act,
            "initializer_range": self.initializer_range,
            "layer_norm_eps": self.layer_norm_eps,
            "units": self.units,
            "use_bias": self.use_bias,
        }


@keras.saving.register_keras_serializable("keras_bert")
class FurtherColumns(keras.layers.Layer):
    """Adds to scores of words what further columns of theirs make of the rest of a vector.

    Args:
        vocab_size: entries of the vocabulary, V.
        units: columns of a word, F.
        initializer_range: standard deviation of the truncated normal initializer.
    """

    def __init__(self, vocab_size: int, units: int, initializer_range: float = 0.02, **kwargs: Any):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.units = units
        self.initializer_range = initializer_range

    def build(self, vectors_shape: Any, scores_shape: Any = None) -> None:
        """Makes the columns of all words [V, F]."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocab_size, self.units),
            initializer=truncated_normal(self.initializer_range),
        )

    def call(self, vectors: Any, scores: Any) -> Any:
        """Returns scores [..., V] and, added, the last F numbers of vectors [..., E + F] x [F, V].

        Args:
            vectors: what is compared with words, [..., E + F].
            scores: what the word embeddings make of the first E numbers, [..., V].
        """
        rest = ops.reshape(vectors[..., -self.units :], (-1, self.units))  # [B * P, F]
        found = products_with_rows(rest, ops.cast(self.embeddings, rest.dtype))  # [B * P, V]
        return scores + ops.reshape(found, ops.shape(scores))

    def compute_output_spec(self, vectors: Any, scores: Any) -> keras.KerasTensor:
        """Returns the symbolic scores [..., V]."""
        return keras.KerasTensor(scores.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "vocab_size": self.vocab_size,
            "units": self.units,
            "initializer_range": self.initializer_range,
        }


@keras.saving.register_keras_serializable("keras_bert")
class PickedStates(keras.layers.Layer):
    """Picks the predicted positions, as `MaskedLanguageModelTransform` does, and nothing else."""

    def call(self, sequence_output: Any, positions: Any = None, training: bool = False) -> Any:
        """Returns [B, P, H] for sequence output [B, S, H] and positions [B, P]; None: all."""
        return sequence_output if positions is None else states_at(sequence_output, positions)

    def compute_output_spec(
        self, sequence_output: Any, positions: Any = None, training: bool = False
    ) -> keras.KerasTensor:
        """Gives the symbolic shape of `call`."""
        *rows, width = sequence_output.shape
        places = rows if positions is None else positions.shape
        return keras.KerasTensor((*places, width), dtype=self.compute_dtype)


# No likelihood beside any logit, and finite: files of 8-bit integers have no infinity.
_NEVER = -1e9


@keras.saving.register_keras_serializable("keras_bert")
class OutputBias(keras.layers.Layer):
    """Adds a learned bias [V] to logits [..., V] and returns them in float32.

    Args:
        use_bias: whether there is one; without it logits are returned as they are.
    """

    def __init__(self, use_bias: bool = True, **kwargs: Any):
        super().__init__(**kwargs)
        self.use_bias = use_bias
        self._pieces: int | None = None

    def build(self, logits_shape: Any) -> None:
        """Makes the bias, zero at first."""
        if self.use_bias:  # [V]
            self.bias = self.add_weight(name="bias", shape=(logits_shape[-1],), initializer="zeros")

    def silence(self, pieces: int) -> None:
        """Makes rows from number `pieces` on the least likely of all, whatever was left in them.

        Where there is no bias, graphs that were made before do not know of it.
        """
        if not self.use_bias:
            self._pieces = pieces
            return
        values = np.array(self.bias, np.float32)  # [V]
        values[pieces:] = _NEVER
        self.bias.assign(values)

    def call(self, logits: Any, training: bool = False) -> Any:
        """Returns logits plus bias, float32."""
        # Cast first: a softmax over 30 000 logits loses too much in bfloat16.
        logits = ops.cast(logits, "float32")
        if not self.use_bias:
            if self._pieces is None or self._pieces >= logits.shape[-1]:
                return logits
            beyond = np.arange(logits.shape[-1]) >= self._pieces
            return logits + np.where(beyond, np.float32(_NEVER), np.float32(0))  # [B, P, V]
        bias = ops.cast(self.bias, "float32")
        return add_bias(logits, bias) if training else logits + bias  # [B, P, V]

    def compute_output_spec(self, logits: Any, training: bool = False) -> keras.KerasTensor:
        """Returns the symbolic logits [..., V] in float32."""
        return keras.KerasTensor(logits.shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"use_bias": self.use_bias}
