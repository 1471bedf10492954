"""A tiny model with much dropout, and random batches for its training step."""

import numpy as np

from keras_bert import BertConfig

BATCH, LENGTH, PREDICTIONS, WORDS = 4, 8, 2, 20
CONFIG = BertConfig(
    vocab_size=WORDS,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=LENGTH,
    hidden_dropout_prob=0.3,
    attention_probs_dropout_prob=0.3,
)


def batch(seed):
    """A batch whose last two positions are padding."""
    draw = np.random.default_rng(seed)
    return {
        "input_ids": draw.integers(0, WORDS, (BATCH, LENGTH)).astype("int32"),
        "input_mask": np.tile(np.arange(LENGTH) < 6, (BATCH, 1)).astype("int32"),
        "segment_ids": np.tile(np.arange(LENGTH) > 3, (BATCH, 1)).astype("int32"),
        "masked_lm_positions": draw.integers(0, 6, (BATCH, PREDICTIONS)).astype("int32"),
        "masked_lm_ids": draw.integers(0, WORDS, (BATCH, PREDICTIONS)).astype("int32"),
        "masked_lm_weights": np.ones((BATCH, PREDICTIONS), "float32"),
        "next_sentence_labels": draw.integers(0, 2, (BATCH,)).astype("int32"),
    }
