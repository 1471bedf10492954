"""Multi-head self-attention with one projection for query, key and value.

    hidden --project--> query | key | value --split_heads--> query, key, value   [B, A, S, D] each
    [B, S, H]           [B, S, 3H]                                  |
                                                                  attend
                                                                    |
    output <--project_output-- context <-------merge_heads------ context         [B, A, S, D]
    [B, S, H]                  [B, S, H]

The two projections work on each token alone. Only `attend` looks from one position to another, so
only `attend` needs sequences in rows: the unpadded encoder of serving projects a plain list of
tokens [T, H], puts them in rows of heads for `attend`, and takes them out again.

Shapes: B sequences, S positions, H width, A heads, D = H / A width of a head.
"""

import math
from typing import Any, ClassVar

import keras
from keras import ops

from keras_bert.layers import initializer
from keras_bert.layers.dense import Dense
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.onednn_kernels import masked_softmax, takes_onednn_kernel

# Added to the score of a padding position, as in google-research/bert (modeling.py,
# attention_layer): its probability underflows to zero in float32.
_MASKED_SCORE = -10000.0


@keras.saving.register_keras_serializable("keras_bert")
class SelfAttention(keras.layers.Layer):
    """Scaled dot-product self-attention (Vaswani et al. 2017, section 3.2) with output projection.

    Query, key and value come from a single dense layer whose output columns are, in this order,
    all heads of the query, of the key, of the value.

    Args:
        num_attention_heads: heads, A; divides the width H.
        dropout_rate: dropout on the attention probabilities.
        initializer_range: standard deviation of the truncated normal initializer.
        seed: seed of the dropout; None draws one.
        attention_initializer: what query and key start as: "normal"; "neighbors" or, from left to
            right, "previous" where positions start so, see `BertConfig.position_initializer`.
    """

    # Whether `attend` gives probabilities of all pairs of positions.
    has_table: ClassVar[bool] = True
    # Made on building, where they are not those of another layer.
    query_key_value: keras.layers.Dense
    output_dense: keras.layers.Dense

    def __init__(
        self,
        num_attention_heads: int,
        dropout_rate: float = 0.1,
        initializer_range: float = 0.02,
        seed: int | None = None,
        attention_initializer: str = "normal",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_attention_heads = num_attention_heads
        self.dropout_rate = dropout_rate
        self.initializer_range = initializer_range
        self.seed = seed
        self.attention_initializer = attention_initializer
        self.dropout = Dropout(dropout_rate, seed=seed, dtype=self.dtype_policy, name="dropout")

    @property
    def projected_heads(self) -> int:
        """Heads of query, key and value, P: A, but a variant may attend with more of them."""
        return self.num_attention_heads

    @property
    def key_value_heads(self) -> int:
        """Heads of key and value as they are projected: P, but a variant may share them."""
        return self.projected_heads

    def build(self, hidden_shape: Any, input_mask_shape: Any = None) -> None:
        """Makes both projections for hidden states [B, S, H]."""
        hidden_size = hidden_shape[-1]
        self.head_size = hidden_size // self.num_attention_heads
        if hasattr(self, "query_key_value"):
            return  # of another layer, see `EncoderBlock.share_parameters`
        # One matrix product of [H, 3H] is faster than three of [H, H].
        width = (self.projected_heads + 2 * self.key_value_heads) * self.head_size  # 3 H
        self.query_key_value = self._dense(
            width,
            "query_key_value",
            initializer.attention_initializer(
                self.attention_initializer,
                self.initializer_range,
                self.num_attention_heads,
                self.head_size,
            ),
        )
        self.query_key_value.build(hidden_shape)
        self.output_dense = self._dense(hidden_size, "output")  # [H, H]
        self.output_dense.build(hidden_shape)

    def _dense(
        self, units: int, name: str, start: keras.initializers.Initializer | None = None
    ) -> keras.layers.Dense:
        return Dense(
            units,
            kernel_initializer=start or truncated_normal(self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )

    @property
    def asks_alone(self) -> bool:
        """Whether a query finds the same without those of the other positions beside it.

        A variant with an `attend` or `scores` of its own may read from the shape where a query
        stands.
        """
        kind = type(self)
        return kind.attend is SelfAttention.attend and kind.scores is SelfAttention.scores

    def call(
        self,
        hidden: Any,
        input_mask: Any,
        training: bool = False,
        return_probs: bool = False,
        query_positions: Any = None,
    ) -> Any:
        """Attends within each sequence.

        Args:
            hidden: hidden states [B, S, H].
            input_mask: 1 for positions that may be attended to: [B, S], or [B, S, S] with a row
                per query.
            training: whether dropout is on.
            return_probs: whether to return the probabilities [B, A, S, S] (float32) as well.
            query_positions: int32 [B, Q], the only positions that ask; None: all do.

        Returns:
            [B, S, H], or that and the probabilities before dropout. With query positions
            [B, Q, H].

        Raises:
            ValueError: the layer has no probabilities of all pairs to return, or both are asked
                for.
        """
        if query_positions is not None:
            if return_probs:
                raise ValueError(
                    "return_probs is True beside query_positions: leave out one of them, as "
                    "probabilities are those of all pairs of positions"
                )
            return self._attended_at(query_positions, hidden, input_mask, training)
        projected = as_rows(self.project(as_tokens(hidden)), hidden)  # [B, S, 3H]
        query, key, value = split_heads(projected, self.projected_heads)
        bias = score_bias(input_mask)  # [B, 1, 1 or S, S]
        if return_probs:
            bias = self.bias_of_pairs(bias)
        # [B, A, S, D], [B, A, S, S]
        context, probs = self.attend(query, key, value, bias, training)
        output = self.project_output(as_tokens(merge_heads(context)))  # [B * S, H]
        output = as_rows(output, hidden)  # [B, S, H]
        if not return_probs:
            return output
        if probs is None:
            raise no_table(self)
        return output, probs

    def _attended_at(self, positions: Any, hidden: Any, input_mask: Any, training: bool) -> Any:
        """Returns the output [B, Q, H] at positions [B, Q]."""
        projected = as_rows(self.project(as_tokens(hidden)), hidden)  # [B, S, 3H]
        if self.asks_alone:
            query, key, value = ops.split(projected, 3, axis=-1)  # [B, S, H]
            query = as_heads(states_at(query, positions), self.projected_heads)  # [B, A, Q, D]
            key = as_heads(key, self.projected_heads)  # [B, A, S, D]
            value = as_heads(value, self.projected_heads)  # [B, A, S, D]
            if len(input_mask.shape) == 3:
                input_mask = states_at(input_mask, positions)  # [B, Q, S]
            # [B, A, Q, D] by a bias [B, 1, 1 or Q, S]
            context, _ = self.attend(query, key, value, score_bias(input_mask), training)
            found = merge_heads(context)  # [B, Q, H]
        else:
            query, key, value = split_heads(projected, self.projected_heads)
            context, _ = self.attend(query, key, value, score_bias(input_mask), training)
            found = states_at(merge_heads(context), positions)  # [B, S, H] -> [B, Q, H]
        return as_rows(self.project_output(as_tokens(found)), found)

    def project(self, hidden: Any) -> Any:
        """Returns query, key and value side by side, [..., 3H], of hidden states [..., H].

        With P projected heads it is [..., 3 P D].
        """
        return self.query_key_value(hidden)

    def attend(
        self, query: Any, key: Any, value: Any, bias: Any, training: bool = False
    ) -> tuple[Any, Any]:
        """Returns what each position takes from the others, by how well query and key agree.

        Args:
            query: what each position asks for, by heads: [B, A, S, D].
            key: what each position is found by, [B, A, S, D].
            value: what each position gives, [B, A, S, D].
            bias: what `score_bias` returned, [B, 1, 1 or S, S].
            training: whether dropout is on.

        Returns:
            Context [B, A, S, D], and the probabilities before dropout [B, A, S, S] in float32; a
            layer that does not compute all pairs gives None in their place.
        """
        scores = self.scores(query, key, training)  # [B, A, S, S]
        # Of a bias for each head, such as one of distances, bfloat16 would leave too little.
        if not training and bias.shape[1] == 1 and takes_onednn_kernel(scores):
            probs = masked_softmax(scores, bias)  # [B, A, S, S]
            return ops.matmul(probs, value), ops.cast(probs, "float32")
        # In float32 under every policy: -10000 + score has no digits left in bfloat16.
        scores = ops.cast(scores, "float32") + bias  # [B, A, S, S] + [B, 1, 1 or S, S]
        probs = ops.softmax(scores)  # [B, A, S, S], each row sums to 1
        # [B, A, S, S]
        dropped = self.dropout(ops.cast(probs, self.compute_dtype), training=training)
        return ops.matmul(dropped, value), probs  # [B, A, S, S] x [B, A, S, D] -> [B, A, S, D]

    def bias_of_pairs(self, bias: Any) -> Any:
        """Returns a bias [B, 1, 1 or S, S] in the form for which `attend` computes all pairs."""
        return bias

    def scores(self, query: Any, key: Any, training: bool = False) -> Any:
        """Returns how well each query agrees with each key, before the softmax.

        Args:
            query: [B, A, S, D].
            key: [B, A, S, D].
            training: whether dropout is on, for a variant that drops what it compares with.

        Returns:
            query . key / sqrt(D), [B, A, S, S] in the dtype of the arithmetic.
        """
        # Scaling the query costs S x D products where scaling the scores would cost S x S.
        query = query * ops.cast(1.0 / math.sqrt(self.head_size), query.dtype)  # [B, A, S, D]
        return ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # [B, A, S, S]

    def project_output(self, context: Any) -> Any:
        """Returns [..., H], the heads of context [..., H] mixed with each other."""
        return self.output_dense(context)

    def compute_output_spec(
        self,
        hidden: Any,
        input_mask: Any,
        training: bool = False,
        return_probs: bool = False,
        query_positions: Any = None,
    ) -> Any:
        """Gives the symbolic shapes of `call`, and refuses what it does."""
        if return_probs and not self.has_table:
            raise no_table(self)
        batch, length, width = hidden.shape
        asking = length if query_positions is None else query_positions.shape[1]
        output = keras.KerasTensor((batch, asking, width), dtype=self.compute_dtype)
        if not return_probs:
            return output
        probs_shape = (batch, self.num_attention_heads, length, length)
        return output, keras.KerasTensor(probs_shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "num_attention_heads": self.num_attention_heads,
            "dropout_rate": self.dropout_rate,
            "initializer_range": self.initializer_range,
            "seed": self.seed,
            "attention_initializer": self.attention_initializer,
        }


def no_table(layer: keras.layers.Layer) -> ValueError:
    """Returns what is raised where probabilities of all pairs are asked of a layer without them."""
    return ValueError(
        f"return_probs is True, but {type(layer).__name__} does not compute all pairs of "
        "positions: leave it out, or look at the attention of a BertEncoder"
    )


def as_tokens(hidden: Any) -> Any:
    """Returns hidden states [B, S, H] as a list of tokens [B * S, H].

    What dense layers make of a list is one product, to which TensorFlow joins the bias; of rows it
    makes three operations, and the bias goes through the memory once more.
    """
    return ops.reshape(hidden, (-1, hidden.shape[-1]))


def as_rows(tokens: Any, like: Any) -> Any:
    """Returns a list of tokens [B * S, W] in rows as those of another tensor [B, S, ...]."""
    return ops.reshape(tokens, (*ops.shape(like)[:2], tokens.shape[-1]))


def states_at(hidden: Any, positions: Any) -> Any:
    """Returns what stands at some positions of each sequence: [B, P, W] of [B, S, W].

    Args:
        hidden: [B, S, W].
        positions: integers [B, P]. Of one outside of 0 to S - 1 TensorFlow raises an error on a
            processor; compiled code cannot, and gives NaN.
    """
    batch, length, width = ops.shape(hidden)
    rows = ops.expand_dims(ops.arange(batch, dtype="int32") * length, 1)  # [B, 1]: where they begin
    positions = ops.cast(positions, "int32")
    is_inside = ops.logical_and(positions >= 0, positions < length)  # [B, P]
    # Whole vectors out of a list of tokens. A position outside is one behind the list, in place of
    # which compiled code reads the last of it: no other sequence may answer.
    token = ops.where(is_inside, rows + positions, batch * length)  # [B, P]
    states = ops.take(ops.reshape(hidden, (batch * length, width)), token, axis=0)  # [B, P, W]
    if "float" not in keras.backend.standardize_dtype(hidden.dtype):
        return states
    return ops.where(ops.expand_dims(is_inside, -1), states, ops.cast(math.nan, states.dtype))


def split_heads(projected: Any, num_heads: int) -> list[Any]:
    """Returns query, key and value, [B, A, S, D] each, of what `project` returned, [B, S, 3H]."""
    return [as_heads(part, num_heads) for part in ops.split(projected, 3, axis=-1)]


def as_heads(states: Any, num_heads: int) -> Any:
    """Returns states [B, S, H] by heads, [B, A, S, D]: a head is a batch of matrices of its own."""
    batch, length, width = ops.shape(states)
    heads = ops.reshape(states, (batch, length, num_heads, width // num_heads))
    return ops.transpose(heads, (0, 2, 1, 3))  # [B, S, A, D] -> [B, A, S, D]


def merge_heads(context: Any) -> Any:
    """Returns the heads of each token side by side: [B, A, S, D] becomes [B, S, H]."""
    batch, heads, length, size = ops.shape(context)
    return ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (batch, length, heads * size))


def score_bias(input_mask: Any) -> Any:
    """Returns what is added to attention scores: 0 where a position may be seen, -10000 elsewhere.

    Args:
        input_mask: 1 for positions that may be seen: [B, S], or [B, S, S] with a row per query.

    Returns:
        float32 [B, 1, 1 or S, S], the same for all heads.
    """
    mask = ops.cast(input_mask, "float32")
    # [B, S] -> [B, 1, 1, S]: every query sees the same; [B, S, S] -> [B, 1, S, S].
    axis = 1 if len(mask.shape) == 3 else (1, 2)
    return ops.expand_dims(1.0 - mask, axis) * _MASKED_SCORE
