"""The seam behind which a family of models splits text into pieces.

What the rest of the package asks of a tokenizer is here; what it asks of pieces (special tokens by
role, which pieces begin a word, how rows are framed) is in the tokenizer's `vocabulary`.
"""

import abc
import functools
import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Self, TypeVar

import tensorflow as tf

from keras_bert.text.vocabulary import Vocabulary

Pieces = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]
_Result = TypeVar("_Result")
_Graph = TypeVar("_Graph")


class Tokenizer(tf.Module, abc.ABC):
    """Splits text into the pieces of a vocabulary, in graph.

    All of it is TensorFlow ops: it works eagerly, in tf.data, in tf.function and in a SavedModel.
    `BertTokenizer`, `ByteLevelBpeTokenizer` and `SentencePieceTokenizer` are what there is;
    `load_tokenizer` opens the one that a folder holds.

    Attributes:
        keep_special_tokens: whether a special token that a text spells out is read as that token.
    """

    keep_special_tokens: bool
    # Set by constructors: string [N] -> ids; and -> ids, start, end; each int32 [N, pieces].
    _tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
    _tokenize_with_offsets: Callable[[tf.Tensor], Pieces]

    @property
    @abc.abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The pieces and their ids, special tokens by role, and the framing of rows."""

    @property
    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """The arguments it was made with, except the vocabulary and what belongs to it."""

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Returns all that it takes to make it anew, in types that JSON knows."""

    @abc.abstractmethod
    def with_settings(self, **settings: Any) -> Self:
        """Returns a tokenizer of the same vocabulary with other settings in place of some."""

    @abc.abstractmethod
    def save(self, folder: str | os.PathLike) -> None:
        """Writes the files from which this library and Hugging Face's open it again."""

    @abc.abstractmethod
    def detokenize(self, ids: tf.RaggedTensor | tf.Tensor | Sequence[Sequence[int]]) -> tf.Tensor:
        """Joins pieces to text.

        Args:
            ids: integers [N, pieces]. Padding is left out.

        Returns:
            string [N].

        Raises:
            ValueError: one of them is no id of the vocabulary; in a graph TensorFlow tells.
        """

    def __call__(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Returns the ids of the pieces of each text.

        Args:
            texts: string [N].

        Returns:
            int32 [N, pieces], without the special tokens of a row.
        """
        return self._tokenize(_as_strings(texts))

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Returns the ids of the pieces of each text, as a call does."""
        return self(texts)

    def tokenize_with_offsets(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """Returns the ids of the pieces and where in the original text each of them stands.

        Positions count code points, as Python's strings do, so `text[start:end]` is what became
        the piece. Where one character became several pieces, each stands for the whole of it.

        Args:
            texts: string [N].

        Returns:
            ids, start, end: each int32 [N, pieces].
        """
        return self._tokenize_with_offsets(_as_strings(texts))

    def tokenize_words(
        self, words: tf.RaggedTensor | tf.Tensor | Sequence[Sequence[str]]
    ) -> tf.RaggedTensor:
        """Tokenizes each word by itself, for labels that are given per word.

        Args:
            words: string [N, words], a tensor or lists.

        Returns:
            int32 [N, words, pieces]; no pieces for a word of removed characters alone.
        """
        words = as_ragged(words, tf.string)
        pieces = self._tokenize_listed_words(words)  # [words of all texts, pieces]
        return words.with_flat_values(pieces.with_row_splits_dtype(words.row_splits.dtype))

    def _tokenize_listed_words(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        return self(words.flat_values)


def traced(function: Callable[[tf.Tensor], _Result]) -> Callable[[tf.Tensor], _Result]:
    """Makes one graph of a function of strings [N].

    What comes back is no `tf.function` to look at: SavedModels hold each of those that a module
    has as an attribute, whether anything served calls it or not.
    """
    graph = tf.function(
        function, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    return lambda texts: graph(texts)


def shared(make: Callable[..., _Graph]) -> Callable[..., _Graph]:
    """Returns what makes graphs, but gives the one it has made where the arguments are equal.

    A folder is often opened more than once, and tracing takes longer than all else about opening
    it. The last eight are kept.

    Args:
        make: a class or function whose arguments can be hashed.
    """
    cached = functools.lru_cache(maxsize=8)(make)

    def made(*arguments: Hashable) -> _Graph:
        with tf.init_scope():
            # What is made in a graph of TensorFlow 1 is of no use elsewhere.
            return (cached if tf.executing_eagerly() else make)(*arguments)

    return made


def _as_strings(texts: tf.Tensor | Sequence[str]) -> tf.Tensor:
    # A list without a dtype.
    is_empty = not tf.is_tensor(texts) and hasattr(texts, "__len__") and len(texts) == 0
    try:
        texts = tf.convert_to_tensor(texts, tf.string if is_empty else None)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the tokenizer takes a list of strings, but got {type(texts).__name__} that is none "
            f"({error}): check for None, mixed types and halves of surrogate pairs"
        ) from None
    if texts.dtype != tf.string or texts.shape.rank not in (None, 1):
        raise ValueError(
            f"the tokenizer takes a list of strings, but got a tensor of {texts.dtype.name} with "
            f"shape {texts.shape}: pass strings of shape [N]"
        )
    return texts


def piece_ids(
    ids: tf.RaggedTensor | tf.Tensor | Sequence[Sequence[int]], vocabulary: Vocabulary
) -> tf.RaggedTensor:
    """Returns ids of pieces as one tensor, [N, pieces].

    Args:
        ids: integers [N, pieces], a tensor or lists.
        vocabulary: whose ids they are.

    Raises:
        ValueError: they are no rows of integers, or one is no id; in a graph nothing is looked at.
    """
    ids = as_ragged(ids, tf.int32)
    if tf.executing_eagerly():
        values = ids.flat_values.numpy()
        outside = values[(values < 0) | (values >= len(vocabulary))]
        if outside.size:
            raise ValueError(
                f"{outside[0]} is no id of a piece: the vocabulary has {len(vocabulary):,} pieces, "
                f"so ids are from 0 to {len(vocabulary) - 1}"
            )
    return ids


def as_ragged(
    rows: tf.RaggedTensor | tf.Tensor | Sequence[Sequence[Any]], dtype: tf.DType
) -> tf.RaggedTensor:
    """Returns rows of any lengths as one tensor.

    Args:
        rows: [N, values], a tensor or lists.
        dtype: of the values of lists.

    Raises:
        ValueError: they are no rows of such values.
    """
    if isinstance(rows, tf.RaggedTensor):
        return rows
    if tf.is_tensor(rows) or hasattr(rows, "__array__"):
        return tf.RaggedTensor.from_tensor(rows)
    if any(map(tf.is_tensor, tf.nest.flatten(rows))):
        return tf.RaggedTensor.from_tensor(tf.convert_to_tensor(rows))
    try:
        return tf.ragged.constant(rows, dtype, ragged_rank=1)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"expected a list of lists of {dtype.name} ({error}): check for None and mixed types"
        ) from None
