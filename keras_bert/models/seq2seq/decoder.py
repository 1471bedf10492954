"""BertDecoder: BERT's Transformer with attention to an encoder, from left to right or both ways.

    decoder_input_ids --> embeddings --> layer_0 --> ... --> layer_{L-1} --> hidden [B, T, H]
    [B, T]                                  |                     |
                                 encoder_output [B, S, H], encoder_mask [B, S]

Shapes: B texts, K beams of each, T positions of the decoder, S positions of the encoder, H width,
A heads, D = H / A width of a head.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_bert.layers.attention_masks import left_to_right_mask
from keras_bert.layers.decoder_block import DecoderBlock, KeysAndValues
from keras_bert.layers.embeddings import WordEmbedding
from keras_bert.layers.self_attention import score_bias
from keras_bert.models.encoder import BertEncoder, first_attention

DECODER_INPUT_IDS = "decoder_input_ids"
# Of a decoder that sees both ways: 1 for real pieces.
DECODER_INPUT_MASK = "decoder_input_mask"

# Far from the seeds of the encoder and of its blocks, which are counted up from the model's.
_SEED_OFFSET = 15485863


class Memory(NamedTuple):
    """What every step of a generation reads of the encoder's output.

    Attributes:
        layers: keys and values of each block, [B, A, S, D] each.
        bias: float32 [B, 1, 1, S], added to scores of attention.
    """

    layers: list[KeysAndValues]
    bias: Any


class BertDecoder(keras.Model):
    """A decoder of the form of an encoder; made by `BertEncoderDecoder`, in a name scope.

    Inputs: `decoder_input_ids` int32 [B, T]; `encoder_output` [B, S, H]; `encoder_mask` int32
    [B, S]. Output: hidden states [B, T, H]. A position sees itself and what stands before it, so
    that padding at the end of a row needs no mask. If `causal` is false, it sees all real pieces;
    then `decoder_input_mask` int32 [B, T] is an input, too.

    Args:
        encoder: the encoder that it attends to; its numbers, dtype and seed are those of the
            decoder.
        shares_weights: whether embeddings and blocks compute with the encoder's own weights, all
            but the cross-attention (BERTshare).
        causal: whether a position sees nothing behind itself.
    """

    word_embeddings: WordEmbedding

    def __init__(
        self,
        encoder: BertEncoder,
        shares_weights: bool = False,
        causal: bool = True,
        name: str = "decoder",
    ):
        config, policy = encoder.config, encoder.policy
        seed = None if encoder.seed is None else encoder.seed + _SEED_OFFSET
        # === Layers ===
        if shares_weights:
            word_embeddings, embeddings = encoder.word_embeddings, encoder.get_layer("embeddings")
        else:
            word_embeddings = WordEmbedding(
                config.vocab_size,
                config.hidden_size,
                config.initializer_range,
                dtype=policy,
                name="word_embeddings",
            )
            embeddings = encoder.create_embeddings(config, seed, policy)
        start = first_attention(config.replace(left_to_right=causal))
        blocks = [
            DecoderBlock(
                config.num_attention_heads,
                config.intermediate_size,
                config.hidden_act,
                config.hidden_dropout_prob,
                config.attention_probs_dropout_prob,
                config.initializer_range,
                config.layer_norm_eps,
                seed=None if seed is None else seed + index + 1,
                attention_initializer=start if index == 0 else "normal",
                dtype=policy,
                name=f"layer_{index}",
            )
            for index in range(config.num_hidden_layers)
        ]
        if shares_weights:
            for block, other in zip(blocks, encoder.encoder_blocks(), strict=True):
                block.share_parameters(other)
        # === Functional model ===
        ids = keras.Input((None,), dtype="int32", name=DECODER_INPUT_IDS)  # [B, T]
        encoder_output = keras.Input(  # [B, S, H]
            (None, config.hidden_size), dtype=policy.compute_dtype, name="encoder_output"
        )
        encoder_mask = keras.Input((None,), dtype="int32", name="encoder_mask")  # [B, S]
        # All pieces are of segment 0, as in the decoders of transformers.
        hidden = embeddings(word_embeddings(ids), ops.zeros_like(ids))  # [B, T, H]
        inputs = {
            DECODER_INPUT_IDS: ids,
            "encoder_output": encoder_output,
            "encoder_mask": encoder_mask,
        }
        if causal:
            visible = left_to_right_mask(ops.ones_like(ids))  # [B, T, T]
        else:
            visible = keras.Input((None,), dtype="int32", name=DECODER_INPUT_MASK)  # [B, T]
            inputs[DECODER_INPUT_MASK] = visible
        for block in blocks:
            hidden = block(hidden, visible, encoder_output, encoder_mask)  # [B, T, H]
        super().__init__(inputs=inputs, outputs=hidden, name=name)
        # === Config ===
        self.config = config
        self.policy = policy
        self.shares_weights = shares_weights
        self.word_embeddings = word_embeddings
        self.embeddings = embeddings

    def decoder_blocks(self) -> list[DecoderBlock]:
        """Returns the blocks in the order in which they are applied."""
        return [self.get_layer(f"layer_{i}") for i in range(self.config.num_hidden_layers)]

    def memory(self, encoder_output: Any, encoder_mask: Any) -> Memory:
        """Returns what all steps read of an encoder's output [B, S, H] and its mask [B, S]."""
        blocks = self.decoder_blocks()
        layers = [
            KeysAndValues(*block.cross_attention.keys_and_values(encoder_output))
            for block in blocks
        ]
        return Memory(layers, score_bias(encoder_mask))

    def empty_cache(self, rows: Any, length: int) -> list[KeysAndValues]:
        """Returns a cache without positions, [rows, A, T, D] each, for each block.

        Args:
            rows: texts times beams, an integer or an integer scalar.
            length: the most positions, T.
        """
        shape = (rows, self.config.num_attention_heads, length, self.config.head_size)
        empty = ops.zeros(shape, dtype=self.policy.compute_dtype)
        return [KeysAndValues(empty, empty)] * self.config.num_hidden_layers

    def step(
        self, ids: Any, position: Any, cache: list[KeysAndValues], memory: Memory
    ) -> tuple[Any, list[KeysAndValues]]:
        """Returns hidden states of one position, [B, K, H], and the cache with it.

        Args:
            ids: the pieces at the position, int32 [B, K].
            position: from 0, an int32 scalar.
            cache: of the positions before it.
            memory: what `memory` returned.
        """
        positions = ops.zeros_like(ids) + position  # [B, K]
        hidden = self.embeddings.embed(  # [B, K, H]
            self.word_embeddings(ids), ops.zeros_like(ids), positions
        )
        after = []
        for block, before, layer in zip(self.decoder_blocks(), cache, memory.layers, strict=True):
            hidden, kept = block.step(hidden, position, before, layer, memory.bias)
            after.append(kept)
        return hidden, after

    def look_again(self, ids: Any, visible: Any, memory: Memory) -> Any:
        """Returns hidden states of K rows of each text, [B, K, T, H]; each position sees all.

        Args:
            ids: int32 [B, K, T], K and T static.
            visible: 1 for real pieces, int32 [B, K, T].
            memory: what `memory` returned.
        """
        _, rows, length = ids.shape
        flat = ops.reshape(ids, (-1, length))  # [B * K, T]
        hidden = self.embeddings(  # [B * K, T, H]
            self.word_embeddings(flat), ops.zeros_like(flat), training=False
        )
        hidden = ops.reshape(hidden, (-1, rows, length, self.config.hidden_size))  # [B, K, T, H]
        for block, layer in zip(self.decoder_blocks(), memory.layers, strict=True):
            hidden = block.look_again(hidden, visible, layer, memory.bias)
        return hidden
