"""How well spans of words and labels go together: GLiNER's layers behind the encoder.

    states of words [B, W, H]                         states of labels [B, T, H]
       |  projection H -> D, where they differ             |  projection
       |  bidirectional LSTMs over the words               |
    start_1, start_2      end_1, end_2                label_1, label_2
       D -> 4D -> D          D -> 4D -> D                  D -> 4D -> D
       |  word i             |  word i + k                 |
       +--- relu of both side by side ---+                 |
                   span_1, span_2                          |
                   2D -> 4D -> D                           |
                        +--------- product ----------------+
                              scores [B, W, K, T]

Span (i, k) has the words i to i + k. Two products are taken apart, which gives the same sums:

    span_1 of (start, end) = start A + end B      A and B for each word, in place of each span
    (span_2 hidden) . label = hidden . (span_2^T label)     no vector of a span is ever made

The second saves where labels are fewer than numbers of a vector, T < D.

Shapes: B rows, W words, K words of the widest span, T labels, H width of the encoder, D width here.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.counts import needed_count
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.initializer import Orthogonal

# The score of a span or a label that is not there: its probability is 0, and it is finite.
NO_SCORE = -1e9
# Far from the seeds of the encoder: its own and one for each of its blocks, counted up from it.
_SEED = 7919


class _Weights(keras.layers.Layer):
    """The weights of a dense layer whose product is taken apart.

    It is no `Dense`, so that exports in 8 bits leave its numbers as they are.

    Args:
        units: numbers that come out.
    """

    def __init__(self, units: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape: Any) -> None:
        """Makes the weights for [..., F]."""
        self.kernel = self.add_weight(
            shape=(input_shape[-1], self.units), initializer="glorot_uniform", name="kernel"
        )
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")
        self.built = True


@keras.saving.register_keras_serializable("keras_bert")
class SpanLabelScores(keras.layers.Layer):
    """Scores of spans and labels (Zaratiana et al. 2023, arXiv:2311.08526, section 3).

    Args:
        hidden_size: width of the vectors of words, spans and labels, D.
        max_width: the most words of a span, K.
        num_rnn_layers: bidirectional LSTMs on the words; 0 for none.
        dropout: fraction of the units inside the projections that are dropped in training.
        seed: seed of the dropouts; None draws one.

    Raises:
        ValueError: a number is below its least, or the width is odd and there are LSTMs, whose two
            directions have half of it each.
    """

    def __init__(
        self,
        hidden_size: int,
        max_width: int = 12,
        num_rnn_layers: int = 1,
        dropout: float = 0.4,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.hidden_size = needed_count("span_hidden_size", hidden_size)
        self.max_width = needed_count("max_width", max_width)
        self.num_rnn_layers = needed_count("num_rnn_layers", num_rnn_layers, 0)
        self.dropout = dropout
        self.seed = seed
        if num_rnn_layers and hidden_size % 2:
            raise ValueError(
                f"span_hidden_size is {hidden_size}, but each direction of an LSTM has half of it: "
                "give an even number, or num_rnn_layers 0"
            )
        policy = self.dtype_policy
        self.projection: keras.layers.Dense | None = None  # until the width of the encoder is known
        self.recurrent = [
            keras.layers.Bidirectional(
                keras.layers.LSTM(
                    hidden_size // 2,
                    recurrent_initializer=Orthogonal(),
                    return_sequences=True,
                    dtype=policy,
                    name="lstm",
                ),
                dtype=policy,
                name=f"bilstm_{index}",
            )
            for index in range(num_rnn_layers)
        ]

        def dense(units: int, name: str, activation: str | None = None) -> keras.layers.Dense:
            return keras.layers.Dense(units, activation, dtype=policy, name=name)

        self.first = {
            name: dense(4 * hidden_size, f"{name}_1", "relu") for name in ("start", "end", "label")
        }
        self.second = {name: dense(hidden_size, f"{name}_2") for name in self.first}
        self.span_1 = _Weights(4 * hidden_size, dtype=policy, name="span_1")
        self.span_2 = _Weights(hidden_size, dtype=policy, name="span_2")
        self.dropouts = {
            name: Dropout(
                dropout,
                seed=None if seed is None else seed + _SEED + index,
                dtype=policy,
                name=f"{name}_dropout",
            )
            for index, name in enumerate(("start", "end", "span", "label"))
        }

    def build(self, states_shape: Any, *_: Any) -> None:
        """Makes the weights for states [B, W + T, H]."""
        width = self.hidden_size
        if states_shape[-1] != width:
            self.projection = keras.layers.Dense(width, dtype=self.dtype_policy, name="projection")
            self.projection.build((None, None, states_shape[-1]))
        for layer in self.recurrent:
            layer.build((None, None, width))
        for name in self.first:
            self.first[name].build((None, None, width))
            self.second[name].build((None, None, 4 * width))
        self.span_1.build((None, None, 2 * width))
        self.span_2.build((None, None, 4 * width))
        self.built = True

    def call(
        self,
        states: Any,
        word_positions: Any,
        label_positions: Any,
        training: bool | None = None,
    ) -> Any:
        """Returns scores, float32 [B, W, K, T]; `NO_SCORE` where there is no span or no label.

        Args:
            states: [B, W + T, H], those of the words and behind them those of the labels.
            word_positions: int32 [B, W]: below 0 where there is no word, 0 for a word without
                pieces, whose vector is 0.
            label_positions: int32 [B, T]: 1 and above where there is a label.
            training: whether dropout is on.
        """
        words = ops.shape(word_positions)[1]
        if self.projection is not None:
            states = self.projection(states)  # [B, W + T, D]
        hidden, labels = states[:, :words], states[:, words:]  # [B, W, D], [B, T, D]
        has_pieces = ops.expand_dims(word_positions > 0, -1)
        hidden = ops.where(has_pieces, hidden, ops.cast(0, hidden.dtype))
        is_word = word_positions >= 0  # [B, W]
        for layer in self.recurrent:
            hidden = layer(hidden, mask=is_word)  # [B, W, D]
        start = ops.relu(self._projected("start", hidden, training))  # [B, W, D]
        end = ops.relu(self._projected("end", hidden, training))
        kernel = ops.cast(self.span_1.kernel, start.dtype)  # [2 D, 4 D]
        start = ops.matmul(start, kernel[: self.hidden_size])  # [B, W, 4 D]
        end = ops.matmul(end, kernel[self.hidden_size :])
        end = end + ops.cast(self.span_1.bias, end.dtype)
        spans = ops.relu(ops.expand_dims(start, 2) + self._ends(end))  # [B, W, K, 4 D]
        spans = self.dropouts["span"](spans, training=training)
        asked = ops.cast(self._projected("label", labels, training), "float32")  # [B, T, D]
        # In float32: a sum of thousands of numbers in bfloat16 would lose digits.
        kernel = ops.cast(self.span_2.kernel, "float32")  # [4 D, D]
        folded = ops.matmul(asked, ops.transpose(kernel))  # [B, T, 4 D]
        bias = ops.matmul(asked, ops.cast(self.span_2.bias, "float32")[:, None])  # [B, T, 1]
        batch = ops.shape(spans)[0]
        flat = ops.reshape(spans, (batch, words * self.max_width, 4 * self.hidden_size))
        scores = ops.matmul(ops.cast(flat, "float32"), ops.transpose(folded, (0, 2, 1)))
        scores = scores + ops.transpose(bias, (0, 2, 1))  # [B, W K, T]
        types = ops.shape(label_positions)[1]
        scores = ops.reshape(scores, (batch, words, self.max_width, types))
        is_span = ops.expand_dims(is_word, -1) & self._ends(is_word[..., None])[..., 0]  # [B, W, K]
        there = ops.expand_dims(is_span, -1) & (label_positions > 0)[:, None, None, :]
        return ops.where(there, scores, NO_SCORE)

    def compute_output_spec(
        self, states: Any, word_positions: Any, label_positions: Any, training: bool | None = None
    ) -> keras.KerasTensor:
        """Gives the symbolic shape of `call`."""
        (batch, words), types = word_positions.shape, label_positions.shape[1]
        return keras.KerasTensor((batch, words, self.max_width, types), "float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "hidden_size": self.hidden_size,
            "max_width": self.max_width,
            "num_rnn_layers": self.num_rnn_layers,
            "dropout": self.dropout,
            "seed": self.seed,
        }

    def _projected(self, name: str, values: Any, training: bool | None) -> Any:
        """Returns [B, n, D] through two layers."""
        inner = self.first[name](values)  # [B, n, 4 D]
        return self.second[name](self.dropouts[name](inner, training=training))

    def _ends(self, values: Any) -> Any:
        """Returns for each word what stands at it and at the next K - 1: [B, W, F], [B, W, K, F].

        Behind the last word stands zero.
        """
        # Words a b c, K = 2: a b, b c, c 0.
        words = ops.shape(values)[1]
        padded = ops.pad(values, ((0, 0), (0, self.max_width - 1), (0, 0)))
        shifted = [padded[:, width : width + words] for width in range(self.max_width)]
        return ops.stack(shifted, axis=2)
