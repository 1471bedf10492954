"""What a small model, the student, can learn from a large one, the teacher: losses and layers.

    teacher (frozen, no dropout)      student
    logits / T --softmax--+           logits / T --softmax--+   soft targets, KL * T^2
    hidden states         +--- [B, S] losses of each token -+   cosine, mean squared error
    scores of attention --+           scores of attention --+   mean squared error

    DistilBERT (Sanh et al. 2019, arXiv:1910.01108): soft targets, cosine of the last hidden states
    TinyBERT (Jiao et al. 2020, arXiv:1909.10351): hidden states and attention scores of each layer,
    embeddings, soft targets

All arithmetic is in float32, whatever the models compute in. No gradient goes to the teacher.

Shapes: B sequences, S positions, H width, A heads, C classes.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from keras import ops

from keras_bert.config import BertConfig
from keras_bert.layers.self_attention import split_heads
from keras_bert.models.encoder import BertEncoder

# Names of the losses that compare hidden states and scores, in options and metrics.
COSINE, HIDDEN_STATE, ATTENTION, EMBEDDING = "cosine", "hidden_state", "attention", "embedding"
IMITATION = (COSINE, HIDDEN_STATE, ATTENTION, EMBEDDING)

_SMALLEST_NORM = 1e-12  # squared, of a hidden state; one of zeros has the cosine 0


class LayerStates(NamedTuple):
    """What the layers of an encoder made of a batch.

    Attributes:
        encoder: the encoder.
        hidden_states: [B, S, H] each: what goes into the first block, then what each returns.
    """

    encoder: BertEncoder
    hidden_states: Sequence[Any]


def soft_target_losses(student: Any, teacher: Any, temperature: float) -> Any:
    """Returns T^2 times the Kullback-Leibler divergence of the student from the teacher, [...].

    Hinton et al. 2015, arXiv:1503.02531: T^2 keeps the size of the gradient where T changes.

    Args:
        student: logits [..., C].
        teacher: logits [..., C].
        temperature: T, by which both are divided before the softmax.
    """
    expected = ops.log_softmax(_fixed(teacher) / temperature)  # [..., C]
    found = ops.log_softmax(_float32(student) / temperature)  # [..., C]
    return ops.sum(ops.exp(expected) * (expected - found), axis=-1) * temperature**2


def soft_label_losses(student: Any, teacher: Any, temperature: float) -> Any:
    """The same for several labels at once, each a choice of two; the mean over labels, [...]."""
    expected, found = _fixed(teacher) / temperature, _float32(student) / temperature  # [..., C]
    yes = ops.sigmoid(expected)
    divergence = yes * (ops.log_sigmoid(expected) - ops.log_sigmoid(found))
    divergence += (1 - yes) * (ops.log_sigmoid(-expected) - ops.log_sigmoid(-found))
    return ops.mean(divergence, axis=-1) * temperature**2


def squared_error(student: Any, teacher: Any) -> Any:
    """Returns the mean squared difference over the last axis: [..., H] to [...]."""
    return ops.mean(ops.square(_float32(student) - _fixed(teacher)), axis=-1)


def cosine_losses(student: Any, teacher: Any) -> Any:
    """Returns 1 - cosine of vectors [..., H]: [...]."""
    student, teacher = _float32(student), _fixed(teacher)
    norms = ops.sum(ops.square(student), axis=-1) * ops.sum(ops.square(teacher), axis=-1)
    return 1 - ops.sum(student * teacher, axis=-1) * ops.rsqrt(ops.maximum(norms, _SMALLEST_NORM))


def attention_losses(student: Any, teacher: Any, visible: Any) -> Any:
    """Returns the mean squared difference of attention scores before the softmax, for each query.

    Args:
        student: scores [B, A, S, S].
        teacher: scores [B, A, S, S].
        visible: 1 for keys that count: [B, S], or [B, S, S] with a row per query.

    Returns:
        float32 [B, S], the mean over heads and visible keys.
    """
    keys = _float32(visible)
    keys = keys[:, None] if len(keys.shape) == 2 else keys  # [B, 1 or S, S]
    squared = ops.mean(ops.square(_float32(student) - _fixed(teacher)), axis=1)  # [B, S, S]
    return ops.sum(squared * keys, axis=-1) / ops.maximum(ops.sum(keys, axis=-1), 1.0)


def attention_scores(states: LayerStates, index: int) -> Any:
    """Returns the scores of a block's attention before the softmax, [B, A, S, S].

    They are computed once more from what goes into the block: a graph computes equal things once.
    """
    block = states.encoder.encoder_blocks()[index]
    attention = block.attention
    hidden = block.attention_input(states.hidden_states[index])  # [B, S, H]
    projected = attention.project(hidden)  # [B, S, 3H]
    query, key, _ = split_heads(projected, attention.num_attention_heads)  # [B, A, S, D]
    return attention.scores(query, key)


def imitation_losses(
    names: Collection[str],
    student: LayerStates,
    teacher: LayerStates,
    layers: Sequence[int],
    visible: Any,
    project: Callable[[Any], Any] = lambda states: states,
    project_embeddings: Callable[[Any], Any] = lambda states: states,
) -> dict[str, Any]:
    """Returns the losses of each token under some of the names `IMITATION`, float32 [B, S].

    Those of hidden states and attention are sums over the student's layers (Jiao et al. 2020,
    equation 6).

    Args:
        names: of the losses; for others nothing is computed.
        student: its layers on a batch.
        teacher: its layers on the same batch.
        layers: the block of the teacher for each block of the student: `layer_map`.
        visible: 1 for positions that may be seen: [B, S], or [B, S, S] with a row per query.
        project: takes hidden states of the student to the teacher's width.
        project_embeddings: the same for embeddings.
    """
    losses = {}
    if COSINE in names:
        last = project(student.hidden_states[-1])
        losses[COSINE] = cosine_losses(last, teacher.hidden_states[-1])
    if HIDDEN_STATE in names:
        losses[HIDDEN_STATE] = sum(
            squared_error(project(student.hidden_states[own + 1]), teacher.hidden_states[his + 1])
            for own, his in enumerate(layers)
        )
    if ATTENTION in names:
        losses[ATTENTION] = sum(
            attention_losses(
                attention_scores(student, own), attention_scores(teacher, his), visible
            )
            for own, his in enumerate(layers)
        )
    if EMBEDDING in names:
        embeddings = project_embeddings(student.hidden_states[0])
        losses[EMBEDDING] = squared_error(embeddings, teacher.hidden_states[0])
    return losses


def layer_map(
    student: BertConfig, teacher: BertConfig, chosen: Collection[str] = ()
) -> tuple[int, ...]:
    """Returns which block of the teacher each block of the student learns from, from 0 up.

    Args:
        student: config of the student, M blocks.
        teacher: config of the teacher, N blocks.
        chosen: the option `teacher_layers`; empty for TinyBERT's g(m) = m * N / M, counted from 1:
            of 12 blocks for 4 these are 2, 5, 8, 11 counted from 0.

    Raises:
        ValueError: there is not one for each block, or the teacher has no such block.
    """
    own, his = student.num_hidden_layers, teacher.num_hidden_layers
    if not chosen:
        return tuple((index + 1) * his // own - 1 for index in range(own)) if own <= his else ()
    try:
        layers = tuple(int(index) for index in chosen)
    except ValueError:
        layers = ()
    if len(layers) != own or not all(0 <= index < his for index in layers):
        raise ValueError(
            f"teacher_layers is {','.join(chosen)}: give {own} numbers from 0 to {his - 1}, a "
            "layer of the teacher for each layer of the student"
        )
    return layers


def check_imitation(
    names: Collection[str],
    student: BertConfig,
    teacher: BertConfig,
    chosen: Collection[str],
    projected: bool,
) -> tuple[int, ...]:
    """Makes sure that a student can imitate the layers of a teacher; returns `layer_map`.

    Args:
        names: of the losses.
        student: config of the student.
        teacher: config of the teacher.
        chosen: the option `teacher_layers`.
        projected: whether widths may differ.

    Raises:
        ValueError: it cannot.
    """
    layers = layer_map(student, teacher, chosen)
    if not layers and (HIDDEN_STATE in names or ATTENTION in names):
        raise ValueError(
            f"the student has {student.num_hidden_layers} layers and the teacher "
            f"{teacher.num_hidden_layers}: name the teacher's layer for each with "
            "--teacher_layers, or leave out --hidden_state_weight and --attention_weight"
        )
    for who, config in (("student", student), ("teacher", teacher)):
        if ATTENTION in names and config.has_local_attention:
            raise ValueError(
                f"the {who} is a {config.model_type}, whose positions see those near by: there are "
                "no attention scores of all pairs to compare; leave out --attention_weight"
            )
    if ATTENTION in names and student.num_attention_heads != teacher.num_attention_heads:
        raise ValueError(
            f"num_attention_heads is {student.num_attention_heads} and the teacher's "
            f"{teacher.num_attention_heads}: attention is compared head by head; give the student "
            "as many, or leave out --attention_weight"
        )
    if not projected and set(names) - {ATTENTION} and student.hidden_size != teacher.hidden_size:
        raise ValueError(
            f"hidden_size is {student.hidden_size} and the teacher's {teacher.hidden_size}: hidden "
            "states of fine-tuned models are compared as they are; leave out --hidden_state_weight"
        )
    return layers


def _float32(values: Any) -> Any:
    return ops.cast(values, "float32")


def _fixed(values: Any) -> Any:
    # What the teacher says is data.
    return ops.stop_gradient(_float32(values))
