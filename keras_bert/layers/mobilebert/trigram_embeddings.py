"""MobileBERT's embeddings: narrow vectors of words, each read beside those of its neighbours.

    words [B, S, E]      a b c d          next, itself, previous, zeros beyond the row:
    in context           ba0 cba... -->   b|a|0   c|b|a   d|c|b   0|d|c        [B, S, 3E]
                                            |       |       |       |
    dense [3E, H], then positions and segments of width H are added, norm, dropout    [B, S, H]

As in the authors' code and in transformers, what stands behind the last piece of a text is read
with it: the embedding of [PAD] where the row goes on, zeros where it ends.

Shapes: B sequences, S positions, E width of the word embeddings, H width of the encoder.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.layers.dense import Dense
from keras_bert.layers.embeddings import EmbeddingPostprocessor
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.mobilebert.no_norm import create_norm

# Epsilon of a layer norm behind the embeddings and behind the last feed-forward network, whatever
# the config says: transformers, modeling_mobilebert.py, gives these two none.
FIXED_EPSILON = 1e-5


@keras.saving.register_keras_serializable("keras_bert")
class TrigramEmbeddings(EmbeddingPostprocessor):
    """Words beside their neighbours, dense, then as BERT's embeddings (MobileBERT, section 3.2).

    Args:
        *arguments: those of `EmbeddingPostprocessor`.
        hidden_size: width of the encoder, H.
        trigram_input: whether a word is read beside its neighbours.
        transforms_words: whether a dense layer leads from words, or three of them, to H.
        normalization_type: "no_norm" or "layer_norm", whose epsilon is 1e-5.
        **keywords: further ones of `EmbeddingPostprocessor`.
    """

    def __init__(
        self,
        *arguments: Any,
        hidden_size: int = 512,
        trigram_input: bool = True,
        transforms_words: bool = True,
        normalization_type: str = "no_norm",
        **keywords: Any,
    ):
        super().__init__(*arguments, **keywords)
        self.hidden_size = hidden_size
        self.trigram_input = trigram_input
        self.transforms_words = transforms_words
        self.normalization_type = normalization_type
        self.layer_norm = create_norm(
            normalization_type, FIXED_EPSILON, self.dtype_policy, "layer_norm"
        )
        self.transformation: keras.layers.Dense | None = None
        if transforms_words:
            self.transformation = Dense(
                hidden_size,
                kernel_initializer=truncated_normal(self.initializer_range),
                dtype=self.dtype_policy,
                name="transformation",
            )

    @property
    def reads_neighbors(self) -> bool:
        """Whether a word is read beside its neighbours."""
        return self.trigram_input

    def build(
        self,
        word_embeddings_shape: Any,
        segment_ids_shape: Any = None,
        position_ids_shape: Any = None,
    ) -> None:
        """Makes the dense layer, the tables and the norm for word embeddings [B, S, E]."""
        *rows, width = word_embeddings_shape
        if self.transformation is not None:
            words = 3 if self.trigram_input else 1
            self.transformation.build((*rows, words * width))  # [3E, H]
        super().build((*rows, self.hidden_size))

    def in_context(self, word_embeddings: Any, position_ids: Any = None) -> Any:
        """Returns words beside their neighbours, the next one first: [B, S, 3E] of [B, S, E].

        Args:
            word_embeddings: [B, S, E].
            position_ids: int32 [B, S] for several texts in a sequence, each of which begins at 0:
                its ends have zeros beside them, as those of the row have. None: one text.
        """
        if not self.trigram_input:
            return word_embeddings
        aside = ((0, 0), (1, 1), (0, 0))
        padded = ops.pad(word_embeddings, aside)  # [B, 1 + S + 1, E]
        following, previous = padded[:, 2:], padded[:, :-2]  # [B, S, E] each
        if position_ids is not None:
            goes_on = ops.cast(position_ids > 0, word_embeddings.dtype)[..., None]  # [B, S, 1]
            previous = previous * goes_on
            following = following * ops.pad(goes_on, ((0, 0), (0, 1), (0, 0)))[:, 1:]
        return ops.concatenate([following, word_embeddings, previous], axis=-1)

    def embed(
        self,
        word_embeddings: Any,
        segment_ids: Any,
        position_ids: Any = None,
        training: bool = False,
    ) -> Any:
        """Returns [..., H] of what `in_context` returned, [..., 3E]; see the base class."""
        hidden = word_embeddings
        if self.transformation is not None:
            hidden = self.transformation(hidden)  # [..., H]
        return super().embed(hidden, segment_ids, position_ids, training)

    def compute_output_spec(
        self, word_embeddings: Any, segment_ids: Any, position_ids: Any = None, **_: Any
    ) -> Any:
        """Returns the symbolic [B, S, H]; checks S as `call` does."""
        self._check_length(word_embeddings.shape[1])
        shape = (*word_embeddings.shape[:-1], self.hidden_size)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "hidden_size": self.hidden_size,
            "trigram_input": self.trigram_input,
            "transforms_words": self.transforms_words,
            "normalization_type": self.normalization_type,
        }
