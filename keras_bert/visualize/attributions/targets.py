"""Which logit is explained: a class, the tag of a word, an answer's span, a choice, a masked word.

A target is two indices into the outputs of a model, and a name. Where nobody names one it is what
the model itself answers.

    model                    logits                 indices
    classifier               [B, C]                 class
    multiple choice          [B, 1]
    tagger                   [B, S, C]              position, class
    span                     2 of [B, S], added     start, end
    masked language model    [B, 1, V]              piece
"""

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.features import MASKED_LM_POSITIONS
from keras_bert.models.bilstm_tagger import BertBiLSTMTagger
from keras_bert.models.classifier import BertClassifier
from keras_bert.models.masked_lm import BertMaskedLM
from keras_bert.models.multiple_choice import BertMultipleChoice
from keras_bert.models.span_labeler import BertSpanLabeler
from keras_bert.models.token_classifier import BertTokenClassifier
from keras_bert.tasks.tagging.entities import OUTSIDE
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.visualize.model_input import ModelInput, Token

# An answer has at most so many pieces, as in the original.
_MOST_ANSWER_PIECES = 30


class Target(NamedTuple):
    """A logit that is explained.

    Attributes:
        name: what it is called, such as "positive" or "[MASK] = dog".
        indices: where it is in the outputs; what is not needed is 0.
    """

    name: str
    indices: tuple[int, int]


def pick(outputs: Any, indices: tf.Tensor) -> tf.Tensor:
    """Returns the logits [K] of a target from a model's outputs for K rows.

    Args:
        outputs: of any of the models above.
        indices: int32 [2].
    """
    if isinstance(outputs, Mapping):
        starts, ends = outputs["start_logits"], outputs["end_logits"]  # [K, S]
        return tf.gather(starts, indices[0], axis=1) + tf.gather(ends, indices[1], axis=1)
    if len(outputs.shape) == 3:
        return tf.gather(tf.gather(outputs, indices[0], axis=1), indices[1], axis=1)
    return tf.gather(outputs, indices[0], axis=1)


class Question(NamedTuple):
    """What is asked about a text.

    Attributes:
        target: a label or its index; an answer, or its first and last code point in the context
            and the one behind; a piece; None takes what the model answers.
        position: of a tagger, the word (its index among `words`, or itself); of a masked language
            model, which [MASK], from 0; None takes what the model is surest of, or the first.
        labels: names of the logits, where there are classes.
    """

    target: str | int | tuple[int, int] | None
    position: str | int | None
    labels: Sequence[str]


def model_inputs(model: Any, read: ModelInput, position: str | int | None) -> dict[str, tf.Tensor]:
    """Returns what the model takes for a text: the encoder's features, as its head wants them.

    Raises:
        ValueError: a masked language model is asked about a [MASK] that is not there.
    """
    if isinstance(model, BertMultipleChoice):
        # [1, 1, S]: one choice, scored without the others.
        return {name: tensor[:, None] for name, tensor in read.features.items()}
    if isinstance(model, BertMaskedLM):
        masks = [i for i, token in enumerate(read.tokens) if token.piece == read.mask]
        if not masks:
            raise ValueError(f"the text holds no {read.mask}: put it where a word is missing")
        number = 0 if position is None else _as_index(position)
        if number is None or not 0 <= number < len(masks):
            raise ValueError(
                f"position is {position!r} but the text has {len(masks)} {read.mask}: number them "
                "from 0"
            )
        return {**read.features, MASKED_LM_POSITIONS: tf.constant([[masks[number]]], tf.int32)}
    return dict(read.features)


def find_target(
    model: Any, outputs: Any, read: ModelInput, question: Question, vocabulary: Vocabulary
) -> Target:
    """Returns the logit that is explained.

    Args:
        model: one of the package's models with a head.
        outputs: what it says of the text, a batch of one.
        read: the text.
        question: what is asked.
        vocabulary: that of the model.

    Raises:
        ValueError: the model has no head that could be explained, or there is no such target.
    """
    if isinstance(model, BertMaskedLM):
        return _piece_target(outputs, question, vocabulary)
    if isinstance(model, BertTokenClassifier | BertBiLSTMTagger):
        return _tag_target(outputs, read, question)
    if question.position is not None:
        raise ValueError(
            f"position is {question.position!r}, but a {type(model).__name__} gives one answer for "
            "the whole text: leave it out"
        )
    if isinstance(model, BertSpanLabeler):
        return _span_target(outputs, read, question)
    if isinstance(model, BertMultipleChoice):
        if len(read.texts) < 2:
            raise ValueError("text_pair is missing: give the context as text, one choice as pair")
        _check_no_target(question, "one choice has one score")
        return Target("score of the choice", (0, 0))
    if isinstance(model, BertClassifier):
        return _class_target(model, outputs, question)
    raise _unexplained(model)


def _unexplained(model: Any) -> ValueError:
    return ValueError(
        f"the model is a {type(model).__name__}, which gives no answer that could be explained: "
        "give a model that was fine-tuned to give one, or a masked language model and a text with "
        "[MASK]"
    )


def _check_no_target(question: Question, why: str) -> None:
    if question.target is not None:
        raise ValueError(f"target is {question.target!r}, but {why}: leave it out")


def _as_index(value: object) -> int | None:
    """Returns the number that a value is, or that a flag has written; None for others."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return None
    return int(value)


def _class_target(model: BertClassifier, logits: Any, question: Question) -> Target:
    row = logits.numpy()[0]  # [C]
    if len(row) == 1 and model.problem_type in (None, "regression"):
        _check_no_target(question, "the model gives one number")
        return Target("the number", (0, 0))
    index = int(row.argmax()) if question.target is None else _label_index(question)
    return Target(question.labels[index], (index, 0))


def _label_index(question: Question) -> int:
    if question.target in question.labels:
        return list(question.labels).index(str(question.target))
    index = _as_index(question.target)
    if index is not None and 0 <= index < len(question.labels):
        return index
    raise ValueError(
        f"target is {question.target!r}: choose one of {', '.join(question.labels)}, or its index"
    )


def _tag_target(logits: Any, read: ModelInput, question: Question) -> Target:
    row = logits.numpy()[0]  # [S, C]
    # The first piece of a word carries its tag.
    first_of_word: dict[int, int] = {}
    for index, token in enumerate(read.tokens):
        if not token.is_special:
            first_of_word.setdefault(token.word, index)
    if not first_of_word:
        raise ValueError("the text has no word that could be tagged")
    word = _word(read.words, first_of_word, question.position)
    if word is None:
        # The surest entity, or the surest tag where there is none.
        outside = list(question.labels).index(OUTSIDE) if OUTSIDE in question.labels else -1
        probabilities = tf.nn.softmax(row).numpy()
        word = max(
            first_of_word,
            key=lambda word: (
                row[first_of_word[word]].argmax() != outside,
                probabilities[first_of_word[word]].max(),
            ),
        )
    position = first_of_word[word]
    index = int(row[position].argmax()) if question.target is None else _label_index(question)
    name = f"{question.labels[index]} for {read.words[word]!r}"
    return Target(name, (position, index))


def _word(
    words: Sequence[str], first_of_word: Mapping[int, int], position: str | int | None
) -> int | None:
    """Returns the index of the word that is asked about; None where nobody asks."""
    if position is None:
        return None
    named = [word for word in first_of_word if words[word] == position]
    named = named or [word for word in first_of_word if word == _as_index(position)]
    if not named:
        known = ", ".join(words[word] for word in first_of_word)
        raise ValueError(f"position is {position!r}: give one of the words {known}, or its index")
    return named[0]


def _span_target(outputs: Mapping[str, Any], read: ModelInput, question: Question) -> Target:
    tokens = read.tokens
    # Pieces of the second text, the context.
    context = [i for i, token in enumerate(tokens) if token.segment == 1 and not token.is_special]
    if not context:
        raise ValueError(
            "text_pair is missing or empty: give the question as text, its context as pair"
        )
    first = context[0]
    if question.target is None:
        starts, ends = (outputs[name].numpy()[0] for name in ("start_logits", "end_logits"))
        scores = starts[context][:, None] + ends[context][None]  # [start, end]
        size = len(context)
        possible = np.triu(np.ones([size, size], bool)) & ~np.triu(
            np.ones([size, size], bool), _MOST_ANSWER_PIECES
        )
        best = int(np.where(possible, scores, -np.inf).argmax())
        start, end = best // size + first, best % size + first
    else:
        start, end = _tokens_of_answer(tokens, context, question.target, read.texts[1])
    name = " ".join(token.text for token in tokens[start : end + 1])
    return Target(f"the answer {name!r}", (start, end))


def _tokens_of_answer(
    tokens: Sequence[Token], context: Sequence[int], answer: Any, text: str
) -> tuple[int, int]:
    """Returns the first and the last token of an answer, given by its words or code points."""
    if isinstance(answer, tuple):
        spans = [answer]
    else:
        wanted = str(answer).strip()
        starts = [at for at in range(len(text)) if wanted and text.startswith(wanted, at)]
        spans = [(start, start + len(wanted)) for start in starts]
    for start, end in spans:
        inside = [i for i in context if tokens[i].start < end and tokens[i].end > start]
        # Of whole tokens: "he" does not stand in "the".
        if inside and tokens[inside[0]].start >= start and tokens[inside[-1]].end <= end:
            return inside[0], inside[-1]
    raise ValueError(
        f"target is {answer!r}, which does not stand in the part of the context that the model "
        "reads, as whole words: copy it from there"
    )


def _piece_target(logits: Any, question: Question, vocabulary: Vocabulary) -> Target:
    if question.target is None:
        # Rows without a piece, of embeddings padded to a multiple of 8, are no guess.
        index = int(logits.numpy()[0, 0, : len(vocabulary)].argmax())
    elif question.target in vocabulary:
        index = vocabulary.id_of(str(question.target))
    else:
        raise ValueError(
            f"target is {question.target!r}, which is no piece of the vocabulary: give one piece, "
            "such as a short word in lower case"
        )
    return Target(f"{vocabulary.special_tokens.mask} = {vocabulary.tokens[index]}", (0, index))
