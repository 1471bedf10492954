"""One block of the encoder: self-attention and feed-forward, each with residual and post-norm.

    hidden --+-- attention, dropout --(+)-- norm --+-- dense, gelu, dense, dropout --(+)-- norm -->
             |                         |           |                                  |
             +-------------------------+           +----------------------------------+
                  the attention half                      the feed-forward half

Nothing here but the attention itself looks from one position to another. So the halves take hidden
states of any shape [..., H]: [B, S, H] in training, a list of tokens [T, H] in the unpadded encoder
of serving, which attends in its own way and calls the same halves.

Shapes: B sequences, S positions, H width, I width of the feed-forward layer, A heads.
"""

from collections.abc import Callable
from typing import Any

import keras

from keras_bert.layers.activations import activation_function
from keras_bert.layers.dense import Dense
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.layer_norm import LayerNormalization
from keras_bert.layers.self_attention import SelfAttention, as_rows, as_tokens, states_at


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
        seed: seed of all dropouts of the block; None draws one.
        attention_initializer: what query and key start as, see `SelfAttention`.
    """

    # Made on building, where they are not those of another block.
    attention_norm: LayerNormalization
    feed_forward_norm: LayerNormalization
    intermediate: keras.layers.Dense
    output_dense: keras.layers.Dense

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
        attention_initializer: str = "normal",
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
        self.attention_initializer = attention_initializer
        self.activation = activation_function(hidden_act)
        self.attention = self.create_attention()
        self.attention_dropout = self._dropout("attention_dropout", 2)
        self.feed_forward_dropout = self._dropout("feed_forward_dropout", 3)

    def create_attention(self) -> SelfAttention:
        """Returns the attention layer; a variant of the block may return another."""
        return SelfAttention(
            self.num_attention_heads,
            self.attention_probs_dropout_prob,
            self.initializer_range,
            seed=derived_seed(self.seed, 1),
            attention_initializer=self.attention_initializer,
            dtype=self.dtype_policy,
            name="attention",
        )

    def share_parameters(
        self, other: "EncoderBlock", attention: bool = True, feed_forward: bool = True
    ) -> None:
        """Makes the block compute with dense layers and norms of another one (ALBERT, section 3.1).

        Dropouts stay its own: with those of the other it would drop the same units once more
        wherever their state is set back, as rematerialization does.

        Args:
            other: a block that is built; this one is not yet.
            attention: whether the projections of the attention and the norm behind it are shared.
            feed_forward: whether the feed-forward layer and the norm behind it are shared.
        """
        if attention:
            self.attention.query_key_value = other.attention.query_key_value
            self.attention.output_dense = other.attention.output_dense
            self.attention_norm = other.attention_norm
        if feed_forward:
            self.intermediate = other.intermediate
            self.output_dense = other.output_dense
            self.feed_forward_norm = other.feed_forward_norm

    def _norm(self, name: str) -> LayerNormalization:
        return LayerNormalization(epsilon=self.layer_norm_eps, dtype=self.dtype_policy, name=name)

    def _dropout(self, name: str, stream: int) -> Dropout:
        return Dropout(
            self.hidden_dropout_prob,
            seed=derived_seed(self.seed, stream),
            dtype=self.dtype_policy,
            name=name,
        )

    def _dense(self, units: int, name: str) -> keras.layers.Dense:
        return Dense(
            units,
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )

    @property
    def has_attention_norm(self) -> bool:
        """Whether there is a norm of the attention; one before it may stand in the embeddings."""
        return True

    @property
    def inner_width(self) -> int:
        """Outputs of the first dense layer of the feed-forward layer, I here."""
        return self.intermediate_size

    def build(self, hidden_shape: Any, input_mask_shape: Any = None) -> None:
        """Makes all sub-layers for hidden states [B, S, H]."""
        self.attention.build(hidden_shape)  # [H, 3H] and [H, H]
        if self.has_attention_norm and not hasattr(self, "attention_norm"):
            self.attention_norm = self._norm("attention_norm")
            self.attention_norm.build(hidden_shape)
        if not hasattr(self, "intermediate"):
            self.feed_forward_norm = self._norm("feed_forward_norm")
            self.intermediate = self._dense(self.inner_width, "intermediate")  # [H, I]
            self.intermediate.build(hidden_shape)
            self.output_dense = self._dense(hidden_shape[-1], "output")  # [I, H]
            self.output_dense.build((*hidden_shape[:-1], self.intermediate_size))
            self.feed_forward_norm.build(hidden_shape)

    def call(
        self,
        hidden: Any,
        input_mask: Any,
        training: bool = False,
        return_probs: bool = False,
        query_positions: Any = None,
    ) -> Any:
        """Transforms hidden states [B, S, H]; arguments and results as in `SelfAttention`."""
        # An attention layer with a `call` of its own need not know of positions.
        asking = {} if query_positions is None else {"query_positions": query_positions}
        read = self.attention_input(hidden, training)  # [B, S, H]
        attended = self.attention(
            read,
            input_mask,
            training=training,
            return_probs=return_probs,
            **asking,
        )  # [B, S, H], or that and [B, A, S, S]
        if return_probs:
            attended, probs = attended
        if query_positions is not None:  # [B, Q, H], as is what was attended
            read, hidden = states_of(read, hidden, lambda one: states_at(one, query_positions))
        read, tokens = states_of(read, hidden, as_tokens)  # [B * S, H]
        tokens = self.joined(tokens, read, as_tokens(attended), training)
        tokens = self.feed_forward_half(tokens, training)  # [B * S, H]
        hidden = as_rows(tokens, hidden)  # [B, S, H]
        return (hidden, probs) if return_probs else hidden

    def attention_input(self, hidden: Any, training: bool = False) -> Any:
        """Returns what the attention reads of hidden states [..., H]: here those themselves."""
        return hidden

    def joined(self, hidden: Any, read: Any, attended: Any, training: bool = False) -> Any:
        """Returns what `feed_forward_half` takes; here that of `attention_half`.

        Args:
            hidden: hidden states [..., H].
            read: what the attention read of them, for a variant that computes with it once more.
            attended: what it found, [..., H].
            training: whether dropout is on.
        """
        return self.attention_half(hidden, attended, training)

    def attention_half(self, hidden: Any, attended: Any, training: bool = False) -> Any:
        """Returns hidden states [..., H] joined with what their attention found, [..., H]."""
        attended = self.attention_dropout(attended, training=training)  # [..., H]
        # [..., H]; the norm stands behind the sum (post-norm)
        return self.attention_norm(hidden + attended, training=training)

    def feed_forward_half(self, hidden: Any, training: bool = False) -> Any:
        """Returns hidden states [..., H] after the feed-forward layer, each position alone."""
        transformed = self.output_dense(self.inner(hidden, training))  # [..., H]
        transformed = self.feed_forward_dropout(transformed, training=training)  # [..., H]
        return self.feed_forward_norm(hidden + transformed, training=training)  # [..., H]

    def inner(self, hidden: Any, training: bool = False) -> Any:
        """Returns what the second dense layer of the feed-forward layer reads, [..., I]."""
        return self.activation(self.intermediate(hidden), training)

    def compute_output_spec(self, *arguments: Any, **named: Any) -> Any:
        """Gives the symbolic shapes of `call`, which are those of the attention's."""
        return self.attention.compute_output_spec(*arguments, **named)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "num_attention_heads": self.num_attention_heads,
            "intermediate_size": self.intermediate_size,
            "hidden_act": self.hidden_act,
            "hidden_dropout_prob": self.hidden_dropout_prob,
            "attention_probs_dropout_prob": self.attention_probs_dropout_prob,
            "initializer_range": self.initializer_range,
            "layer_norm_eps": self.layer_norm_eps,
            "seed": self.seed,
            "attention_initializer": self.attention_initializer,
        }


@keras.saving.register_keras_serializable("keras_bert")
class PreNormEncoderBlock(EncoderBlock):
    """BERT's block with the norms before its two halves, as in Megatron-LM (arXiv:1909.08053).

        hidden --+-- norm, attention, dropout --(+)--+-- norm, dense, gelu, dense, dropout --(+)-->
                 |                               |   |                                        |
                 +-------------------------------+   +----------------------------------------+

    Args:
        *arguments: those of `EncoderBlock`.
        is_first: whether the embeddings, which end with a norm, come right before: then the
            attention reads them as they are.
        is_last: whether a norm ends the block, as nothing behind it has one.
        **keywords: further ones of `EncoderBlock`.
    """

    final_norm: LayerNormalization

    def __init__(
        self, *arguments: Any, is_first: bool = False, is_last: bool = False, **keywords: Any
    ):
        super().__init__(*arguments, **keywords)
        self.is_first = is_first
        self.is_last = is_last

    @property
    def has_attention_norm(self) -> bool:
        """Whether there is a norm before the attention."""
        return not self.is_first

    def build(self, hidden_shape: Any, input_mask_shape: Any = None) -> None:
        """Makes all sub-layers for hidden states [B, S, H]."""
        super().build(hidden_shape)
        if self.is_last:
            self.final_norm = self._norm("final_norm")
            self.final_norm.build(hidden_shape)

    def attention_input(self, hidden: Any, training: bool = False) -> Any:
        """Returns what the attention reads, [..., H]: hidden states behind the norm, if any."""
        return hidden if self.is_first else self.attention_norm(hidden, training=training)

    def attention_half(self, hidden: Any, attended: Any, training: bool = False) -> Any:
        """Returns hidden states [..., H] joined with what their attention found, [..., H]."""
        return hidden + self.attention_dropout(attended, training=training)

    def feed_forward_half(self, hidden: Any, training: bool = False) -> Any:
        """Returns hidden states [..., H] after the feed-forward layer, each position alone."""
        inner = self.inner(self.feed_forward_norm(hidden, training=training), training)  # [..., I]
        transformed = self.feed_forward_dropout(self.output_dense(inner), training=training)
        return self.ended(hidden + transformed, training)  # [..., H]

    def ended(self, hidden: Any, training: bool = False) -> Any:
        """Returns hidden states [..., H] behind the norm that ends the last block."""
        return self.final_norm(hidden, training=training) if self.is_last else hidden

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"is_first": self.is_first, "is_last": self.is_last}


def states_of(read: Any, hidden: Any, function: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Returns a function of what the attention reads and of hidden states, once if it is these."""
    found = function(hidden)
    return found if read is hidden else function(read), found


def derived_seed(seed: int | None, stream: int) -> int | None:
    """Returns the seed of one dropout of a block: the same twice would drop the same units twice.

    Args:
        seed: that of the block; None stays None.
        stream: the number of the dropout.
    """
    # Blocks have neighbouring seeds and fewer than 1009 streams each: no two get the same number.
    return None if seed is None else (seed * 1009 + stream) % (2**31)
