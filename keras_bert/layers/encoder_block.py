"""One block of the encoder: self-attention and feed-forward, each with residual and post-norm."""

from typing import Any

import keras

from keras_bert.layers.activations import activation_function
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.self_attention import SelfAttention


@keras.saving.register_keras_serializable("keras_bert")
class EncoderBlock(keras.layers.Layer):
    """A post-layer-norm Transformer block (Vaswani et al. 2017; BERT paper section 3).

    Args:
        num_attention_heads: heads, A; divides the width H.
        intermediate_size: width of the feed-forward layer.
        hidden_act: name of the feed-forward activation, as in `BertConfig`.
        hidden_dropout_prob: dropout after each of the two sub-layers.
        attention_probs_dropout_prob: dropout on attention probabilities.
        initializer_range: standard deviation of the truncated normal initializer.
        layer_norm_eps: epsilon of both norms.
        seed: of the dropouts.
    """

    def __init__(
        self,
        num_attention_heads: int,
        intermediate_size: int,
        hidden_act: str = "gelu",
        hidden_dropout_prob: float = 0.1,
        attention_probs_dropout_prob: float = 0.1,
        initializer_range: float = 0.02,
        layer_norm_eps: float = 1e-12,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.hidden_act = hidden_act
        self.hidden_dropout_prob = hidden_dropout_prob
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.seed = seed
        self.activation = activation_function(hidden_act)
        self.attention = SelfAttention(
            num_attention_heads,
            attention_probs_dropout_prob,
            initializer_range,
            seed=_derived(seed, 1),
            dtype=self.dtype_policy,
            name="attention",
        )
        self.attention_norm = self._norm("attention_norm")
        self.feed_forward_norm = self._norm("feed_forward_norm")
        self.attention_dropout = self._dropout("attention_dropout", 2)
        self.feed_forward_dropout = self._dropout("feed_forward_dropout", 3)

    def _norm(self, name: str) -> keras.layers.LayerNormalization:
        return keras.layers.LayerNormalization(
            epsilon=self.layer_norm_eps, dtype=self.dtype_policy, name=name
        )

    def _dropout(self, name: str, stream: int) -> keras.layers.Dropout:
        return keras.layers.Dropout(
            self.hidden_dropout_prob,
            seed=_derived(self.seed, stream),
            dtype=self.dtype_policy,
            name=name,
        )

    def _dense(self, units: int, name: str) -> keras.layers.Dense:
        return keras.layers.Dense(
            units,
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, hidden_shape: Any, input_mask_shape: Any = None) -> None:
        """Makes all sub-layers for hidden states [B, S, H]."""
        self.attention.build(hidden_shape)
        self.attention_norm.build(hidden_shape)
        self.intermediate = self._dense(self.intermediate_size, "intermediate")
        self.intermediate.build(hidden_shape)
        self.output_dense = self._dense(hidden_shape[-1], "output")
        self.output_dense.build((*hidden_shape[:-1], self.intermediate_size))
        self.feed_forward_norm.build(hidden_shape)

    def call(
        self, hidden: Any, input_mask: Any, training: bool = False, return_probs: bool = False
    ) -> Any:
        """Transforms hidden states [B, S, H]; arguments and results as in `SelfAttention`."""
        attended, probs = self.attention(hidden, input_mask, training=training, return_probs=True)
        attended = self.attention_dropout(attended, training=training)
        hidden = self.attention_norm(hidden + attended)
        transformed = self.output_dense(self.activation(self.intermediate(hidden)))
        transformed = self.feed_forward_dropout(transformed, training=training)
        hidden = self.feed_forward_norm(hidden + transformed)
        return (hidden, probs) if return_probs else hidden

    def compute_output_spec(
        self, hidden: Any, input_mask: Any, training: bool = False, return_probs: bool = False
    ) -> Any:
        """Gives the symbolic shapes of `call`."""
        return self.attention.compute_output_spec(hidden, input_mask, training, return_probs)

    def get_config(self) -> dict[str, Any]:
        """Keeps every argument."""
        return super().get_config() | {
            "num_attention_heads": self.num_attention_heads,
            "intermediate_size": self.intermediate_size,
            "hidden_act": self.hidden_act,
            "hidden_dropout_prob": self.hidden_dropout_prob,
            "attention_probs_dropout_prob": self.attention_probs_dropout_prob,
            "initializer_range": self.initializer_range,
            "layer_norm_eps": self.layer_norm_eps,
            "seed": self.seed,
        }


def _derived(seed: int | None, stream: int) -> int | None:
    """One seed per dropout: the same seed twice would drop the same units twice."""
    return None if seed is None else (seed * 1009 + stream) % (2**31)
