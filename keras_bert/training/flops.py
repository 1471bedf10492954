"""How many floating-point operations BERT needs: the analytic minimum, part by part.

A product of [M, K] and [K, N] takes 2MKN, and twice that again in the backward pass, once for the
gradient of either factor. Everything else (norms, softmax, dropout, the optimizer) is a few per
cent of that and left out, as in the usual definition of model FLOP utilisation. So are look-ups in
tables of embeddings, however a device makes them. Of the last block only what is read counts, as
nothing else is computed: see `BertEncoder`.
"""

from collections.abc import Mapping

from keras_bert.checkpoints.model_classes import ENCODER, MODEL_CLASSES, TOKEN_LABELERS
from keras_bert.checkpoints.variables import OUTPUT_EMBEDDINGS, variable_shapes
from keras_bert.choices import TokenPooling
from keras_bert.config import BertConfig
from keras_bert.mobilebert_config import MobileBertConfig
from keras_bert.models import registry
from keras_bert.models.encoder import narrows

EMBEDDING_PROJECTION = "embeddings, projection"
BOTTLENECKS = "bottlenecks"
PROJECTIONS = "attention, projections"
SCORES = "attention, scores and context"
FEED_FORWARD = "feed-forward"
POOLER = "pooler"
HEAD = "head"

_BACKWARD = 2  # products of the backward pass for each of the forward pass


def forward_flops(
    config: BertConfig,
    architecture: str,
    head_shapes: Mapping[str, tuple[int, ...]],
    batch_size: int,
    max_seq_length: int,
    max_predictions_per_seq: int = 0,
    pooling: TokenPooling | None = None,
) -> dict[str, int]:
    """Returns the operations of all matrix products of a forward pass, by part of the model.

    Args:
        config: the model's numbers.
        architecture: name of the model class, such as "BertPretrainer".
        head_shapes: shapes of the head's variables by path.
        batch_size: sequences, B.
        max_seq_length: pieces per sequence, padding included, S.
        max_predictions_per_seq: predicted positions per sequence, P.
        pooling: how a classifier pools vectors of tokens; None for the pooled output.
    """
    row = MODEL_CLASSES[architecture]
    tokens, predictions = batch_size * max_seq_length, batch_size * max_predictions_per_seq
    head = 0
    for path, shape in head_shapes.items():
        if len(shape) == 2 and path != OUTPUT_EMBEDDINGS:  # which is counted as words below
            if path.startswith("masked_lm_"):
                applied = predictions
            else:  # once a sequence, or for each of its positions
                pooled = row.uses_pooler or path.startswith("next_sentence")
                applied = batch_size if pooled else tokens
            head += 2 * applied * shape[0] * shape[1]
    if row.predicts_words:  # the word embeddings once more, or a table like them
        head += 2 * predictions * config.embedding_width * config.vocab_size
    uses_pooler = row.uses_pooler and pooling is None
    summaries = batch_size if uses_pooler else 0
    if config.reads_tokens_through_pooler and architecture in TOKEN_LABELERS:
        summaries = tokens
    if uses_pooler and config.pools_late:
        summaries = tokens
    pooler = 2 * summaries * config.hidden_size**2 if config.has_pooler else 0
    reads_few = architecture != ENCODER and (uses_pooler or row.predicts_words)
    read = 1 + max_predictions_per_seq if row.predicts_words else 1
    if pooling == "cls":  # beside the summary, which the encoder computes in any case
        reads_few, read = True, 2
    parts = _encoder_parts(config, batch_size, max_seq_length, read if reads_few else None)
    return {**parts, POOLER: pooler, HEAD: head}


def _encoder_parts(
    config: BertConfig, batch_size: int, max_seq_length: int, read: int | None = None
) -> dict[str, int]:
    """Returns the operations of the forward pass of all blocks and what stands before them.

    Args:
        config: the model's numbers.
        batch_size: sequences, B.
        max_seq_length: pieces per sequence, S.
        read: positions of a sequence that are read of the last block, that of the summary among
            them; None: all.
    """
    hidden, embedding, layers = config.hidden_size, config.embedding_width, config.num_hidden_layers
    inside = config.block_width
    tokens = batch_size * max_seq_length
    # Query, key, value and output, and the first three once more for global positions.
    columns = (7 if config.projects_global_attention else 4) * inside
    columns -= 2 * (config.num_attention_heads - config.key_value_heads) * config.head_size
    feed_forward = (3 if config.has_gates else 2) * config.num_feedforward_networks
    # DeBERTa: query and key of each distance, and products with them.
    distances = 2 * max_seq_length - 1 if config.distance_products else 0
    pairs = 2 * batch_size * config.attention_pairs(max_seq_length)
    pairs += config.distance_products * tokens * distances
    unread = unasked = 0  # tokens of the last block
    if read is not None:
        block = registry.encoder_class(config).create_block(config, layers - 1, 0, "float32")
        if narrows(config, block):
            unread = tokens - batch_size * read
            # Where queries know their distances by their place among all, all ask.
            unasked = unread if block.attention.asks_alone else 0
    projected = layers * (tokens * columns + 2 * distances * inside) - unread * inside
    projections = projected * inside
    bottlenecks = words = 0
    if config.projects_embeddings:
        words = embedding
    if isinstance(config, MobileBertConfig):
        words = config.transforms_words * (3 if config.trigram_input else 1) * embedding
        everywhere = layers * tokens
        # What reads states of another width than W has more or fewer rows.
        wide = {"hidden": 3, "shared_bottleneck": 1, "bottleneck": 0}[config.attention_input]
        projections += everywhere * wide * (hidden - inside) * inside
        if config.use_bottleneck:
            # Into a block, everywhere if the attention reads that; that of query and key; and out.
            into = everywhere - unread * (config.attention_input != "bottleneck")
            shared = everywhere * (config.attention_input == "shared_bottleneck")
            bottlenecks = (into + shared + everywhere - unread) * hidden * inside
    attended = layers * pairs - 2 * unasked * max_seq_length
    inner = feed_forward * inside * config.intermediate_size
    return {
        EMBEDDING_PROJECTION: 2 * tokens * words * hidden,
        BOTTLENECKS: 2 * bottlenecks,
        PROJECTIONS: 2 * projections,
        SCORES: 2 * attended * inside,
        FEED_FORWARD: 2 * (layers * tokens - unread) * inner,
    }


def encoder_flops(
    config: BertConfig, batch_size: int, max_seq_length: int, predictions: int | None = None
) -> int:
    """Returns the operations of the forward pass of an encoder without its pooler.

    Args:
        config: the model's numbers.
        batch_size: sequences, B.
        max_seq_length: pieces per sequence, padding included, S.
        predictions: positions of a sequence that a head predicts; None where it reads all.
    """
    read = None if predictions is None else 1 + predictions
    return sum(_encoder_parts(config, batch_size, max_seq_length, read).values())


def masked_lm_flops(config: BertConfig, predictions: int) -> int:
    """Returns the operations of the forward pass of the masked LM head: transform, vocabulary.

    Args:
        config: the model's numbers.
        predictions: predicted positions of all sequences.
    """
    transform = config.hidden_size if config.has_masked_lm_transform else 0
    return 2 * predictions * config.output_width * (transform + config.vocab_size)


def training_flops(forward: Mapping[str, int], encoder_learns: bool = True) -> dict[str, int]:
    """Returns the operations of a training step, forward and backward, by part of the model.

    Args:
        forward: what `forward_flops` returned.
        encoder_learns: whether gradients go on into the encoder.
    """
    return {
        part: flops * (1 + (_BACKWARD if encoder_learns or part == HEAD else 0))
        for part, flops in forward.items()
    }


def pretraining_flops(
    config: BertConfig, batch_size: int, max_seq_length: int, max_predictions_per_seq: int
) -> int:
    """Returns the operations of all matrix products of one step, forward and backward.

    Args:
        config: the model's numbers.
        batch_size: sequences per step, B.
        max_seq_length: pieces per sequence, padding included, S.
        max_predictions_per_seq: predicted positions per sequence, P.
    """
    architecture = "BertPretrainer"
    encoder, whole = (variable_shapes(config, name, {}) for name in ("BertEncoder", architecture))
    head = {path: shape for path, shape in whole.items() if path not in encoder}
    forward = forward_flops(
        config, architecture, head, batch_size, max_seq_length, max_predictions_per_seq
    )
    return sum(training_flops(forward).values())
