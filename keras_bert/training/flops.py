"""How many floating-point operations BERT needs: the analytic minimum of a pretraining step."""

from keras_bert.config import BertConfig


def pretraining_flops(
    config: BertConfig, batch_size: int, max_seq_length: int, max_predictions_per_seq: int
) -> int:
    """Returns the operations of all matrix products of one step, forward and backward.

    A product of [M, K] and [K, N] takes 2MKN, and twice that again in the backward pass, once for
    the gradient of either factor. Everything else (norms, softmax, dropout, the optimizer) is a few
    per cent of that and left out, as in the usual definition of model FLOP utilisation.

    Args:
        config: the model's numbers.
        batch_size: sequences per step, B.
        max_seq_length: pieces per sequence, padding included, S.
        max_predictions_per_seq: predicted positions per sequence, P.
    """
    hidden = config.hidden_size
    tokens, predictions = batch_size * max_seq_length, batch_size * max_predictions_per_seq
    block = 2 * tokens * hidden * (4 * hidden + 2 * config.intermediate_size)  # projections
    block += 2 * 2 * tokens * max_seq_length * hidden  # scores and context of the attention
    # transform, then vocabulary
    masked_lm = 2 * predictions * hidden * (hidden + config.vocab_size)
    next_sentence = 2 * batch_size * hidden * (hidden + 2)  # pooler, then two classes
    return 3 * (config.num_hidden_layers * block + masked_lm + next_sentence)
