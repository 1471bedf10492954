"""What memory a training step takes, by arithmetic: an estimate before anything is compiled.

Held against the TPU's own compiler (docs/tpu.md, v5e, bfloat16): 5.6 GiB for 5.0 of bert_base with
64 sequences of 128, 9.0 for 6.6 with 16 of 512, where the compiler joins more operations.
"""

from keras_bert.config import BertConfig

WEIGHTS = "weights"
GRADIENTS = "gradients"
MOMENTS = "moments of the optimizer"
ACTIVATIONS = "activations"
LOGITS = "logits of the vocabulary"

_FLOAT32 = 4


def training_memory(
    config: BertConfig,
    parameters: int,
    learned: int,
    batch_size: int,
    max_seq_length: int,
    predictions: int,
    bytes_per_number: int,
    encoder_learns: bool = True,
) -> dict[str, int]:
    """Returns the bytes of a training step by what they hold.

    Weights, gradients and both moments are float32 under every policy. Activations are what the
    blocks keep for the backward pass, see `block_activations`.

    Args:
        config: the model's numbers.
        parameters: how many there are.
        learned: how many of them are trained.
        batch_size: sequences per step, B.
        max_seq_length: pieces per sequence, padding included, S.
        predictions: positions per sequence whose logits over the vocabulary are computed, P.
        bytes_per_number: of activations: 4 in float32, 2 in bfloat16 and float16.
        encoder_learns: whether gradients go on into the encoder.
    """
    block = batch_size * block_activations(config, max_seq_length, bytes_per_number)
    return {
        WEIGHTS: _FLOAT32 * parameters,
        GRADIENTS: _FLOAT32 * learned,
        MOMENTS: 2 * _FLOAT32 * learned,
        ACTIVATIONS: config.num_hidden_layers * block if encoder_learns else 0,
        # float32 under every policy; the logits and their gradient
        LOGITS: 2 * _FLOAT32 * batch_size * predictions * config.vocab_size,
    }


def block_activations(config: BertConfig, max_seq_length: int, bytes_per_number: int) -> int:
    """Returns the bytes that a block keeps of one sequence for the backward pass.

    Per token the inputs of the two norms, of the projections and of the feed-forward layer, query,
    key, value and context (8 H), both sides of the activation function (2 I) and two dropout masks
    (2 H); per pair of tokens and head the probabilities in float32, their dropout mask and what it
    leaves. With masks of one byte and I = 4 H this is the 34 sbh + 5 as^2 b of Korthikanti et al.
    2022 (arXiv:2205.05198, equation 2). Longformer keeps a second query, key and value (3 H).
    Between bottlenecks all of that is W wide, and each feed-forward network of a block counts;
    outside of them is what they read, and the sum behind the last one (2 H).

    Args:
        config: the model's numbers.
        max_seq_length: pieces per sequence, S.
        bytes_per_number: 4 in float32, 2 in bfloat16 and float16.
    """
    widths = 13 if config.projects_global_attention else 10
    # With a gate that is kept, too, and what the output layer reads.
    inner = (4 if config.has_gates else 2) * config.num_feedforward_networks
    widths += 2 * (config.num_feedforward_networks - 1)
    numbers = widths * config.block_width + inner * config.intermediate_size
    if config.block_width != config.hidden_size:
        numbers += 2 * config.hidden_size
    per_token = bytes_per_number * numbers
    per_pair = config.num_attention_heads * (_FLOAT32 + 2 * bytes_per_number)
    return max_seq_length * per_token + config.attention_pairs(max_seq_length) * per_pair
