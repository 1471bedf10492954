"""The encoder for serving: all dense layers on real tokens alone, padding only inside attention.

A batch as it comes mixes lengths, and padding all of it to the longest row spends most of the time
on padding. Here rows are sorted by length and go through the encoder in chunks of about equally
many real tokens: large enough that matrix products are fast, small enough that what a layer makes
of a chunk stays in the processor's cache, and memory is the same for any number of rows.
Embeddings, dense layers and norms work on the list of a chunk's tokens. Only attention needs rows;
one gather puts query, key and value of every head there, one takes the context back. Where only the
summary of each row is asked for, no other token asks in the last block's attention. Two rows of 3
and 2 tokens, a to e, through one block:

    tokens [T=5, H]:  a b c d e                       tokens again:  a b c d e
         |  project (each token alone)                     ^  project_output, both halves
         v                                                 |
    rows of heads [3, G=2, A, S=3, D]:  a b c --attend--> context [G, A, S, D]:  a b c
                                        d e .                                    d e .

The arithmetic is that of the encoder's own layers, step for step: see `SelfAttention` and
`EncoderBlock`. This module only moves tokens into rows and back, so a variant of the encoder with
layers of its own is served as it was trained.

Shapes: N rows, G rows of a chunk, S positions, T real tokens of a chunk, H width, A heads,
D = H / A; P heads of query, key and value, A but where global positions have further ones.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.layers.attention_masks import left_to_right_mask
from keras_bert.layers.embeddings import EmbeddingPostprocessor
from keras_bert.layers.encoder_block import EncoderBlock, states_of
from keras_bert.layers.onednn_kernels import ALIGNED_TOKENS, check_onednn, onednn_kernels
from keras_bert.layers.self_attention import SelfAttention, score_bias
from keras_bert.models.encoder import BertEncoder

# Tokens of a chunk, the last row of which may reach beyond. Of 256, 512, 1024 and 2048 the fastest
# for batches of 32 reviews on two cores of an AMD EPYC; 1024 takes 10 % longer.
TOKENS_PER_CHUNK = 512
# Rows of a chunk lie between two of these lengths.
_LEVELS = (4, 16, 64, 256, 1024)
# Chunks whose operations may run beside each other: one for each thread between operations keeps
# all at work; memory is the price.
_CHUNKS_AT_A_TIME = 16


class _Chunk(NamedTuple):
    """Where the tokens of a chunk stand.

    Attributes:
        ids: int32 [T].
        segment_ids: int32 [T].
        rows: int32 [G, S + 1], the ids in rows with what stands behind the longest, or [G, S] where
            nothing does.
        positions: int32 [T], their positions in the rows.
        cells: int32 [T], where they stand in the padded rows, flattened [G * S].
        token_of_cell: int32 [G, S], the token in each cell, for padding the one before it.
        score_bias: float32 [G, 1, 1 or S, S], added to attention scores.
        summary: int32 [G], the token that speaks for its row.
        summary_bias: float32 [G, 1, 1, S], added to its scores: it sees all of its row.
    """

    ids: tf.Tensor
    segment_ids: tf.Tensor
    rows: tf.Tensor
    positions: tf.Tensor
    cells: tf.Tensor
    token_of_cell: tf.Tensor
    score_bias: tf.Tensor
    summary: tf.Tensor
    summary_bias: tf.Tensor


class UnpaddedEncoder:
    """Runs a `BertEncoder` without padding; it works on the encoder's own layers and weights.

    Args:
        encoder: the trained encoder whose layers and weights are used.
        tokens_per_chunk: real tokens that go through a layer at once.
        onednn: whether norms and softmaxes in bfloat16 are `onednn_kernels`.
        full_length: positions of a row that leaves no room for padding. Where words are read with
            those beside them, as in MobileBERT, all shorter rows are read as if padding followed
            them, also the longest of a batch, whose answer would depend on the others otherwise.
            None: rows end where they end.

    Raises:
        ValueError: a layer overrides `call`, which is not run here: answers would be wrong.
    """

    def __init__(
        self,
        encoder: BertEncoder,
        tokens_per_chunk: int = TOKENS_PER_CHUNK,
        onednn: bool = False,
        full_length: int | None = None,
    ):
        _check_layers(encoder)
        self._config = encoder.config
        self._word_embeddings = encoder.word_embeddings
        self._embeddings = encoder.get_layer("embeddings")
        self._projection = encoder.embeddings_projection
        self._blocks = encoder.encoder_blocks()
        self._pooler = encoder.get_layer("pooler")
        self._tokens_per_chunk = tokens_per_chunk
        self._onednn = onednn
        self._full_length = full_length
        self._dtype = tf.as_dtype(encoder.policy.compute_dtype)

    def pooled_output(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns what the encoder calls by this name, [N, H].

        Args:
            inputs: of the encoder, int32 [N, S]; real tokens first in every row, at least one.
        """
        if self._config.summary == "mean":
            return self.pooled_from(self.sequence_output(inputs))
        summaries, order, _ = self._in_chunks(inputs, summaries_only=True)
        return self._pooler(tf.gather(summaries, tf.argsort(order)))  # [N, H], as they came

    def sequence_output(self, inputs: Mapping[str, tf.Tensor]) -> tf.RaggedTensor:
        """Returns the last layer for the real tokens, [N, tokens, H]; see `pooled_output`."""
        states, order, lengths = self._in_chunks(inputs, summaries_only=False)
        # The argsort of an order is its inverse: rows go back to where they came from.
        rows = tf.RaggedTensor.from_row_lengths(states, tf.cast(lengths, tf.int64), validate=False)
        return tf.gather(rows, tf.argsort(order))

    def pooled_from(self, sequence_output: tf.RaggedTensor) -> tf.Tensor:
        """Returns the pooled output [N, H] of what `sequence_output` returned."""
        if self._config.summary == "mean":
            late = self._config.pools_late
            if late:
                sequence_output = sequence_output.with_values(self._pooler(sequence_output.values))
            means = tf.reduce_mean(tf.cast(sequence_output, tf.float32), axis=1)  # [N, H]
            means = tf.cast(means, self._dtype)
            return means if late else self._pooler(means)
        edges = sequence_output.row_splits  # [N + 1]: where rows begin and end in the list
        summary = edges[1:] - 1 if self._config.summary == "last" else edges[:-1]  # [N]
        return self._pooler(tf.gather(sequence_output.values, summary))  # [N, H]

    def _in_chunks(
        self, inputs: Mapping[str, tf.Tensor], summaries_only: bool
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns states in the order of lengths, that order [N], and the sorted lengths [N]."""
        lengths = tf.reduce_sum(inputs[INPUT_MASK], axis=-1)  # [N]
        if self._onednn:
            lengths = check_onednn(lengths)
        # The longest first: the memory that the first groups need is the most that any need.
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        # [N, S] each, and [N], now in the order of lengths.
        ids, segments = (tf.gather(inputs[name], order) for name in (INPUT_IDS, SEGMENT_IDS))
        lengths = tf.gather(lengths, order)
        if self._embeddings.reads_neighbors and self._full_length is not None:
            room = tf.clip_by_value(self._full_length - tf.shape(ids)[1], 0, 1)
            ids = tf.pad(ids, [[0, 0], [0, room]], constant_values=self._config.pad_token_id)
        # Lengths 9 4 4 3 2 and 16 tokens a chunk: rows begin at tokens 0 9 13 17 20, which makes
        # chunks of 3 and 2 rows. A row of another level than the one before it begins a chunk too:
        # beside rows of 4 times its length and more, most of attention would be padding.
        starts = tf.cumsum(lengths, exclusive=True)  # [N]
        level = tf.reduce_sum(tf.cast(lengths[:, None] >= _LEVELS, tf.int32), axis=1)  # [N]
        # Both parts grow from row to row, so rows of equal numbers are neighbours.
        number = starts // self._tokens_per_chunk * (len(_LEVELS) + 1) - level  # [N]
        sizes = tf.unique_with_counts(number).count  # [chunks], none of them 0
        edges = tf.concat([[0], tf.cumsum(sizes)], 0)  # [chunks + 1]
        chunks = tf.size(sizes)
        found = tf.TensorArray(
            self._dtype,
            chunks,
            infer_shape=False,
            element_shape=[None, self._config.hidden_size],
        )

        def body(index: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            part = slice(edges[index], edges[index + 1])
            chunk = self._chunk(ids[part], segments[part], lengths[part])
            with onednn_kernels(self._onednn):
                words = self._words(chunk)  # [T, E]
                hidden = self._embeddings.embed(words, chunk.segment_ids, chunk.positions)
                if self._projection is not None:
                    hidden = self._projection(hidden)  # [T, E] -> [T, H]
                for block in self._blocks if not summaries_only else self._blocks[:-1]:
                    hidden = _apply(block, hidden, chunk)  # [T, H]
            if self._onednn and not summaries_only:
                hidden = hidden[: tf.reduce_sum(lengths[part])]  # without those that fill up
            # For a token of each row a kernel costs more than its steps: it wakes all threads.
            if summaries_only:
                # Nothing reads the last layer at the other tokens.
                hidden = _apply(self._blocks[-1], hidden, chunk, summaries_only=True)  # [G, H]
            return index + 1, found.write(index, hidden)

        _, found = tf.while_loop(
            lambda index, _: index < chunks,
            body,
            [0, found],
            parallel_iterations=_CHUNKS_AT_A_TIME,
        )
        return found.concat(), order, lengths  # [N or all real tokens, H], [N], [N]

    def _words(self, chunk: _Chunk) -> tf.Tensor:
        """Returns what the embeddings layer reads of the tokens of a chunk, [T, E]."""
        if not self._embeddings.reads_neighbors:
            return self._word_embeddings(chunk.ids)
        # In rows, where words have neighbours; the last of the longest row has one where it is
        # followed by padding.
        words = self._embeddings.in_context(self._word_embeddings(chunk.rows))  # [G, S + 1, E]
        length = tf.shape(chunk.token_of_cell)[1]  # S
        places = tf.stack([chunk.cells // length, chunk.positions], axis=1)  # [T, 2]
        return tf.gather_nd(words, places)

    def _chunk(self, ids: tf.Tensor, segments: tf.Tensor, lengths: tf.Tensor) -> _Chunk:
        # Lengths 3 and 2: mask 111 110, cells 0 1 2 3 4, token of each cell 0 1 2 3 4 4, ends 3 5.
        size, longest = tf.size(lengths), lengths[0]
        mask = tf.sequence_mask(lengths, longest)  # [G, S]
        cells = tf.cast(tf.where(tf.reshape(mask, [-1]))[:, 0], tf.int32)  # [T]
        if self._onednn:
            # The last token once more, as often as its kernels want; nothing reads these.
            more = -tf.size(cells) % ALIGNED_TOKENS
            cells = tf.concat([cells, tf.repeat(cells[-1:], more)], axis=0)
        token = tf.cumsum(tf.cast(tf.reshape(mask, [-1]), tf.int32)) - 1  # [G * S]
        visible = tf.cast(mask, tf.int32)
        bias = summary_bias = score_bias(visible)  # [G, 1, 1, S]
        if self._config.left_to_right:
            bias = score_bias(left_to_right_mask(visible))  # [G, 1, S, S]
        ends = tf.cumsum(lengths)  # [G]

        def real(values: tf.Tensor) -> tf.Tensor:
            # [G, S] -> [G * S] -> [T]
            return tf.gather(tf.reshape(values[:, :longest], [-1]), cells)

        return _Chunk(
            ids=real(ids),
            segment_ids=real(segments),
            rows=ids[:, : longest + 1],
            positions=cells % longest,
            cells=cells,
            token_of_cell=tf.reshape(token, [size, longest]),
            score_bias=bias,
            summary=ends - 1 if self._config.summary == "last" else ends - lengths,
            summary_bias=summary_bias,
        )


def _check_layers(encoder: BertEncoder) -> None:
    embeddings = encoder.get_layer("embeddings")
    steps: list[tuple[Any, Any, str]] = [(embeddings, EmbeddingPostprocessor, "embed")]
    for block in encoder.encoder_blocks():
        steps += [
            (block, EncoderBlock, "attention_input, attention_half or feed_forward_half"),
            (block.attention, SelfAttention, "project, attend or project_output"),
        ]
    for layer, base, instead in steps:
        if getattr(type(layer), "call", None) is not base.call:
            raise ValueError(
                f"{type(layer).__name__} overrides call, which serving does not run: override "
                f"{instead} of {base.__name__}, which training and serving share"
            )


def _apply(
    block: EncoderBlock, hidden: tf.Tensor, chunk: _Chunk, summaries_only: bool = False
) -> tf.Tensor:
    """Returns the output of a block at every token, [T, H], or at the summaries alone, [G, H]."""
    attention = block.attention
    projected, heads, size = (
        *(attention.projected_heads, attention.num_attention_heads),  # P, A
        attention.head_size,
    )
    read = block.attention_input(hidden)  # [T, H]
    parts = tf.reshape(attention.project(read), [-1, size])  # [T, 3 P D] -> [T * 3 * P, D]
    # Part p (query, key, value) of head a of token t is row (3 t + p) P + a: [3, G, P, S].
    part = tf.range(3)[:, None, None, None] * projected + tf.range(projected)[:, None]
    rows = chunk.token_of_cell[:, None] * (3 * projected) + part  # [3, G, P, S]
    if summaries_only:
        kept = chunk.summary  # [G]
        read, hidden = states_of(read, hidden, lambda states: tf.gather(states, kept))  # [G, H]
    if summaries_only and attention.asks_alone:
        asking = kept[:, None, None] * (3 * projected) + part[0]  # [G, P, 1]
        query = tf.gather(parts, asking)  # [G, A, 1, D]
        key, value = tf.unstack(tf.gather(parts, rows[1:]))  # [G, A, S, D] each
        context, _ = attention.attend(query, key, value, chunk.summary_bias)  # [G, A, 1, D]
    else:
        query, key, value = tf.unstack(tf.gather(parts, rows))  # [G, P, S, D] each
        context, _ = attention.attend(query, key, value, chunk.score_bias)  # [G, A, S, D]
        # Head a of position s in row g is row (g A + a) S + s: [T, A], and [T, A, D] of them.
        cells = tf.gather(chunk.cells, kept) if summaries_only else chunk.cells  # each g S + s
        length = tf.shape(context)[2]
        rows = ((cells // length)[:, None] * heads + tf.range(heads)) * length
        rows += (cells % length)[:, None]
        context = tf.gather(tf.reshape(context, [-1, size]), rows)
    attended = attention.project_output(tf.reshape(context, [-1, heads * size]))  # [T or G, H]
    hidden = block.joined(hidden, read, attended)  # [T or G, H]
    return block.feed_forward_half(hidden)
