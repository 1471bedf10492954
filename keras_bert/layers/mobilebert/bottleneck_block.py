"""MobileBERT's block, which has a width of its own between two dense layers, and its attention.

    hidden --+-- bottleneck --+-------------------------(+)-- norm --> feed-forward networks --+
    [.., H]  |                |                          |             [.., W]                 |
             |   [.., W]      +-- value ... or from hidden, below                              |
             +-- bottleneck of the attention -- query, key -- attend --+       [.., W]         |
             +-------------------------- value ---------------^                                |
             |                                                                                 |
             +--------------------------(+)-- dense, dropout <---------------------------------+
                                         |
                                       norm --> hidden [.., H]

Inside stand several feed-forward networks, each with a residual and a norm of its own, as
attention and feed-forward layers of equal width would leave too few parameters to the latter
(Sun et al. 2020, arXiv:2004.02984, section 3.2). Without a bottleneck W is H, and the block is
BERT's with more than one feed-forward network.

Shapes: B sequences, S positions, H width of the encoder, W width inside of a block, I width of a
feed-forward network, A heads, D = W / A.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.layers.activations import activation_function
from keras_bert.layers.dense import Dense
from keras_bert.layers.encoder_block import EncoderBlock
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.mobilebert.no_norm import create_norm
from keras_bert.layers.mobilebert.trigram_embeddings import FIXED_EPSILON
from keras_bert.layers.self_attention import SelfAttention


@keras.saving.register_keras_serializable("keras_bert")
class Bottleneck(keras.layers.Layer):
    """A dense layer into a block, and a norm behind it.

    Args:
        units: outputs, W.
        initializer_range: standard deviation of the truncated normal initializer.
        layer_norm_eps: epsilon of the norm.
        normalization_type: "no_norm" or "layer_norm".
    """

    def __init__(
        self,
        units: int,
        initializer_range: float = 0.02,
        layer_norm_eps: float = 1e-12,
        normalization_type: str = "no_norm",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.normalization_type = normalization_type
        self.dense = Dense(
            units,
            kernel_initializer=truncated_normal(initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.norm = create_norm(normalization_type, layer_norm_eps, self.dtype_policy, "norm")

    def build(self, hidden_shape: Any) -> None:
        """Makes both layers for hidden states [..., H]."""
        self.dense.build(hidden_shape)  # [H, W]
        self.norm.build((*hidden_shape[:-1], self.units))

    def call(self, hidden: Any) -> Any:
        """Returns [..., W] of hidden states [..., H]."""
        return self.norm(self.dense(hidden))

    def compute_output_spec(self, hidden: Any) -> keras.KerasTensor:
        """Gives the symbolic shape of `call`."""
        return keras.KerasTensor((*hidden.shape[:-1], self.units), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "units": self.units,
            "initializer_range": self.initializer_range,
            "layer_norm_eps": self.layer_norm_eps,
            "normalization_type": self.normalization_type,
        }


@keras.saving.register_keras_serializable("keras_bert")
class FeedForwardNetwork(keras.layers.Layer):
    """One of the feed-forward networks inside of a block but the last: residual and norm.

    Args:
        intermediate_size: width inside, I.
        hidden_act: name of the activation, as in `BertConfig`.
        initializer_range: standard deviation of the truncated normal initializer.
        layer_norm_eps: epsilon of the norm.
        normalization_type: "no_norm" or "layer_norm".
    """

    def __init__(
        self,
        intermediate_size: int,
        hidden_act: str = "relu",
        initializer_range: float = 0.02,
        layer_norm_eps: float = 1e-12,
        normalization_type: str = "no_norm",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.intermediate_size = intermediate_size
        self.hidden_act = hidden_act
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.normalization_type = normalization_type
        self.activation = activation_function(hidden_act)
        self.norm = create_norm(normalization_type, layer_norm_eps, self.dtype_policy, "norm")

    def _dense(self, units: int, name: str) -> keras.layers.Dense:
        return Dense(
            units,
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, hidden_shape: Any) -> None:
        """Makes all layers for states [..., W]."""
        self.intermediate = self._dense(self.intermediate_size, "intermediate")  # [W, I]
        self.intermediate.build(hidden_shape)
        self.output_dense = self._dense(hidden_shape[-1], "output")  # [I, W]
        self.output_dense.build((*hidden_shape[:-1], self.intermediate_size))
        self.norm.build(hidden_shape)

    def call(self, hidden: Any, training: bool = False) -> Any:
        """Returns states [..., W] of states [..., W]."""
        inner = self.activation(self.intermediate(hidden), training)  # [..., I]
        return self.norm(hidden + self.output_dense(inner), training=training)

    def compute_output_spec(self, hidden: Any, training: bool = False) -> keras.KerasTensor:
        """Gives the symbolic shape of `call`."""
        return keras.KerasTensor(hidden.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "intermediate_size": self.intermediate_size,
            "hidden_act": self.hidden_act,
            "initializer_range": self.initializer_range,
            "layer_norm_eps": self.layer_norm_eps,
            "normalization_type": self.normalization_type,
        }


@keras.saving.register_keras_serializable("keras_bert")
class BottleneckSelfAttention(SelfAttention):
    """Self-attention of another width than what it reads, whose query and key may share a layer.

    Args:
        num_attention_heads: heads, A; divides the width W.
        width: width of all heads together and of the output, W.
        shares_bottleneck: whether query and key read a bottleneck of hidden states, and the value
            these themselves; else all three read what is given.
        layer_norm_eps: epsilon of the norm of the bottleneck.
        normalization_type: "no_norm" or "layer_norm", of the bottleneck.
        **arguments: the other arguments of `SelfAttention`.
    """

    # Made on building, where query and key share a bottleneck.
    query_key: keras.layers.Dense
    value: keras.layers.Dense

    def __init__(
        self,
        num_attention_heads: int,
        width: int = 128,
        shares_bottleneck: bool = True,
        layer_norm_eps: float = 1e-12,
        normalization_type: str = "no_norm",
        **arguments: Any,
    ):
        super().__init__(num_attention_heads, **arguments)
        self.width = width
        self.shares_bottleneck = shares_bottleneck
        self.layer_norm_eps = layer_norm_eps
        self.normalization_type = normalization_type

    def build(self, hidden_shape: Any, input_mask_shape: Any = None) -> None:
        """Makes all projections for states [B, S, H] or [B, S, W]."""
        self.head_size = self.width // self.num_attention_heads
        inside = (*hidden_shape[:-1], self.width)
        if self.shares_bottleneck:
            self.bottleneck = Bottleneck(
                self.width,
                self.initializer_range,
                self.layer_norm_eps,
                self.normalization_type,
                dtype=self.dtype_policy,
                name="bottleneck",
            )
            self.bottleneck.build(hidden_shape)  # [H, W]
            self.query_key = self._dense(2 * self.width, "query_key")  # [W, 2W]
            self.query_key.build(inside)
            self.value = self._dense(self.width, "value")  # [H, W]
            self.value.build(hidden_shape)
        else:
            self.query_key_value = self._dense(3 * self.width, "query_key_value")
            self.query_key_value.build(hidden_shape)  # [H or W, 3W]
        self.output_dense = self._dense(self.width, "output")  # [W, W]
        self.output_dense.build(inside)

    def project(self, hidden: Any) -> Any:
        """Returns query, key and value side by side, [..., 3W], of what is given, [..., H or W]."""
        if not self.shares_bottleneck:
            return super().project(hidden)
        query_key = self.query_key(self.bottleneck(hidden))  # [..., 2W]
        return ops.concatenate([query_key, self.value(hidden)], axis=-1)

    def compute_output_spec(self, hidden: Any, *arguments: Any, **named: Any) -> Any:
        """Gives the symbolic shapes of `call`."""
        inside = keras.KerasTensor((*hidden.shape[:-1], self.width), dtype=hidden.dtype)
        return super().compute_output_spec(inside, *arguments, **named)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "width": self.width,
            "shares_bottleneck": self.shares_bottleneck,
            "layer_norm_eps": self.layer_norm_eps,
            "normalization_type": self.normalization_type,
        }


@keras.saving.register_keras_serializable("keras_bert")
class BottleneckEncoderBlock(EncoderBlock):
    """A block with a width of its own and several feed-forward networks.

    What its first half hands on is a pair: the states outside of the block [..., H] and inside
    [..., W].

    Args:
        *arguments: those of `EncoderBlock`.
        block_width: width inside, W.
        use_bottleneck: whether dense layers lead in and out; else W is H.
        attention_input: what attention reads: "bottleneck", the states inside; "shared_bottleneck",
            see `BottleneckSelfAttention`; or "hidden", the states outside.
        num_feedforward_networks: feed-forward networks, one behind the other.
        normalization_type: "no_norm" or "layer_norm"; that behind the last feed-forward network has
            the epsilon 1e-5.
        **keywords: further ones of `EncoderBlock`.
    """

    def __init__(
        self,
        *arguments: Any,
        block_width: int = 128,
        use_bottleneck: bool = True,
        attention_input: str = "shared_bottleneck",
        num_feedforward_networks: int = 4,
        normalization_type: str = "no_norm",
        **keywords: Any,
    ):
        # First: the constructor of the block makes the attention.
        self.block_width = block_width
        self.use_bottleneck = use_bottleneck
        self.reads = attention_input
        self.num_feedforward_networks = num_feedforward_networks
        self.normalization_type = normalization_type
        super().__init__(*arguments, **keywords)

    def create_attention(self) -> SelfAttention:
        """Returns the attention layer."""
        plain = super().create_attention().get_config()
        return BottleneckSelfAttention.from_config(
            plain
            | {
                "width": self.block_width,
                "shares_bottleneck": self.reads == "shared_bottleneck",
                "layer_norm_eps": self.layer_norm_eps,
                "normalization_type": self.normalization_type,
            }
        )

    def _norm(self, name: str) -> Any:
        epsilon = FIXED_EPSILON if name == "feed_forward_norm" else self.layer_norm_eps
        return create_norm(self.normalization_type, epsilon, self.dtype_policy, name)

    def build(self, hidden_shape: Any, input_mask_shape: Any = None) -> None:
        """Makes all sub-layers for hidden states [B, S, H]."""
        inside = (*hidden_shape[:-1], self.block_width)
        if self.use_bottleneck:
            self.input_bottleneck = Bottleneck(
                self.block_width,
                self.initializer_range,
                self.layer_norm_eps,
                self.normalization_type,
                dtype=self.dtype_policy,
                name="input_bottleneck",
            )
            self.input_bottleneck.build(hidden_shape)  # [H, W]
        self.attention.build(inside if self.reads == "bottleneck" else hidden_shape)
        self.attention_norm = self._norm("attention_norm")
        self.attention_norm.build(inside)
        self.feed_forward_networks = [
            FeedForwardNetwork(
                self.intermediate_size,
                self.hidden_act,
                self.initializer_range,
                self.layer_norm_eps,
                self.normalization_type,
                dtype=self.dtype_policy,
                name=f"feed_forward_{index}",
            )
            for index in range(self.num_feedforward_networks - 1)
        ]
        for network in self.feed_forward_networks:
            network.build(inside)
        self.intermediate = self._dense(self.intermediate_size, "intermediate")  # [W, I]
        self.intermediate.build(inside)
        self.output_dense = self._dense(self.block_width, "output")  # [I, W]
        self.output_dense.build((*inside[:-1], self.intermediate_size))
        self.feed_forward_norm = self._norm("feed_forward_norm")
        self.feed_forward_norm.build(inside)
        if self.use_bottleneck:
            self.output_bottleneck = self._dense(hidden_shape[-1], "output_bottleneck")
            self.output_bottleneck.build(inside)  # [W, H]
            self.output_norm = self._norm("output_norm")
            self.output_norm.build(hidden_shape)

    def attention_input(self, hidden: Any, training: bool = False) -> Any:
        """Returns what the attention reads of hidden states [..., H]: these, or [..., W]."""
        return self.input_bottleneck(hidden) if self.reads == "bottleneck" else hidden

    def joined(self, hidden: Any, read: Any, attended: Any, training: bool = False) -> Any:
        """Returns hidden states [..., H] and, inside, what joins them with their attention.

        Args:
            hidden: [..., H].
            read: what the attention read of them, [..., H or W].
            attended: [..., W].
            training: whether dropout is on.
        """
        inside = read  # [..., W], where attention reads that or there is no bottleneck
        if self.use_bottleneck and self.reads != "bottleneck":
            inside = self.input_bottleneck(hidden)
        if not self.use_bottleneck:
            attended = self.attention_dropout(attended, training=training)
        return hidden, self.attention_norm(inside + attended, training=training)

    def feed_forward_half(self, hidden: Any, training: bool = False) -> Any:
        """Returns hidden states [..., H] of the pair that `joined` returned."""
        hidden, inside = hidden  # [..., H] and [..., W]
        for network in self.feed_forward_networks:
            inside = network(inside, training=training)  # [..., W]
        if not self.use_bottleneck:
            return super().feed_forward_half(inside, training)
        found = self.output_dense(self.inner(inside, training))  # [..., W]
        inside = self.feed_forward_norm(inside + found, training=training)
        found = self.output_bottleneck(inside)  # [..., H]
        found = self.feed_forward_dropout(found, training=training)
        return self.output_norm(hidden + found, training=training)

    def compute_output_spec(self, hidden: Any, *arguments: Any, **named: Any) -> Any:
        """Gives the symbolic shapes of `call`."""
        found = self.attention.compute_output_spec(hidden, *arguments, **named)
        attended, *probs = found if isinstance(found, tuple) else (found,)
        shape = (*attended.shape[:-1], hidden.shape[-1])
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (output, *probs) if probs else output

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "block_width": self.block_width,
            "use_bottleneck": self.use_bottleneck,
            "attention_input": self.reads,
            "num_feedforward_networks": self.num_feedforward_networks,
            "normalization_type": self.normalization_type,
        }
