"""ELECTRA's layers: what its discriminator reads, and what it says of it.

    the   chef  [MASK] the   [MASK]        input_ids, masked
                 |            |            logits of the generator, [B, P, V]
                ate          meal          one piece drawn for each place
    the   chef  ate    the   meal          what is read; "cooked" was replaced, "meal" was not
     |     |     |      |     |            sequence output, [B, S, H]
     |     |     |      |     |            dense, gelu, dense
    -3.1  -2.2  1.7   -4.0  -0.6           logits [B, S]: was it in the text, or put there?

Shapes: B sequences, S positions, P predicted positions of a sequence, H width, V vocabulary.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.layers.activations import activation_function
from keras_bert.layers.dense import Dense
from keras_bert.layers.initializer import truncated_normal

# Of the pieces that are drawn where the model is measured: the same in every evaluation.
_EVALUATION_SEED = 1


@keras.saving.register_keras_serializable("keras_bert")
class TokenReplacement(keras.layers.Layer):
    """Draws a piece for every hidden place and puts it there (Clark et al. 2020, section 2).

    A piece is drawn with its softmax probability, as the largest of logits plus Gumbel noise. No
    gradient goes back to the generator: the discriminator's loss does not train it.

    Args:
        seed: seed of the draws in training; None draws one. Elsewhere they are always the same.
    """

    def __init__(self, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(
        self, input_ids: Any, logits: Any, positions: Any, weights: Any, training: bool = False
    ) -> tuple[Any, Any]:
        """Returns the ids with the drawn pieces, int32 [B, S], and those pieces, int32 [B, P].

        Args:
            input_ids: int32 [B, S], with pieces hidden.
            logits: float32 [B, P, V] of the generator.
            positions: int32 [B, P], where pieces are hidden.
            weights: float [B, P]; 0 for what only fills up, where nothing is put.
            training: whether the draws differ from call to call.
        """
        logits = ops.cast(ops.stop_gradient(logits), "float32")
        noise = keras.random.uniform(
            ops.shape(logits),
            # Away from 0 and 1, where the double logarithm ends.
            minval=1e-9,
            maxval=1.0 - 1e-7,
            dtype="float32",
            seed=self.seed_generator if training else _EVALUATION_SEED,
        )
        # [B, P, V] -> [B, P]
        drawn = ops.argmax(logits - ops.log(-ops.log(noise)), axis=-1)
        replaced, ids = scattered(drawn, positions, weights, ops.shape(input_ids)[1])
        return ops.where(replaced, ids, input_ids), ops.cast(drawn, "int32")

    def compute_output_spec(
        self, input_ids: Any, logits: Any, positions: Any, weights: Any, training: bool = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Returns the symbolic ids [B, S] and drawn pieces [B, P]."""
        return (
            keras.KerasTensor(input_ids.shape, dtype="int32"),
            keras.KerasTensor(positions.shape, dtype="int32"),
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"seed": self.seed}


def scattered(values: Any, positions: Any, weights: Any, length: Any) -> tuple[Any, Any]:
    """Puts values where they belong in their rows.

    A product with one-hot rows, whose shapes are static on every device; float32 holds all ids.

    Args:
        values: integers [B, P], below 2 ** 24.
        positions: int32 [B, P], all different where the weight is not 0.
        weights: float [B, P]; 0 for what is put nowhere.
        length: S.

    Returns:
        Where something was put, boolean [B, S], and the values there, int32 [B, S]; 0 elsewhere.
    """
    counts = ops.cast(ops.cast(weights, "float32") > 0, "float32")  # [B, P]
    rows = ops.one_hot(positions, length, dtype="float32") * counts[..., None]  # [B, P, S]
    put = ops.sum(rows, axis=1) > 0  # [B, S]
    # Exact: in every column at most one product is not 0.
    placed = ops.sum(rows * ops.cast(values, "float32")[..., None], axis=1)  # [B, S]
    return put, ops.cast(ops.round(placed), "int32")


@keras.saving.register_keras_serializable("keras_bert")
class ReplacedTokenDetection(keras.layers.Layer):
    """Scores every position: above 0 where its token seems replaced (ELECTRA paper section 2).

    Args:
        hidden_act: name of the activation, as in `BertConfig`.
        initializer_range: standard deviation of the truncated normal initializer.
    """

    def __init__(self, hidden_act: str = "gelu", initializer_range: float = 0.02, **kwargs: Any):
        super().__init__(**kwargs)
        self.hidden_act = hidden_act
        self.initializer_range = initializer_range
        self.activation = activation_function(hidden_act)

    def build(self, sequence_output_shape: Any) -> None:
        """Makes both dense layers for sequence outputs [B, S, H]."""
        width = sequence_output_shape[-1]
        self.dense = Dense(  # [H, H]
            width,
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.dense.build(sequence_output_shape)
        # In float32: a sigmoid of a bfloat16 logit would lose digits.
        self.prediction = keras.layers.Dense(  # [H, 1]
            1,
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype="float32",
            name="prediction",
        )
        self.prediction.build(sequence_output_shape)

    def call(self, sequence_output: Any, training: bool = False) -> Any:
        """Returns logits [B, S] in float32 for sequence output [B, S, H]."""
        transformed = self.activation(self.dense(sequence_output), training)  # [B, S, H]
        return ops.squeeze(self.prediction(transformed), axis=-1)  # [B, S, 1] -> [B, S]

    def compute_output_spec(self, sequence_output: Any, training: bool = False) -> Any:
        """Returns the symbolic logits [B, S] in float32."""
        return keras.KerasTensor(sequence_output.shape[:-1], dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "hidden_act": self.hidden_act,
            "initializer_range": self.initializer_range,
        }
