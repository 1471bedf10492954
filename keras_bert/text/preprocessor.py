"""The layer that turns strings into the inputs of a model.

    strings [...] --flatten--> [N] --tokenize--> [N, pieces] --pack--> int32 [N, S] --> [..., S]

Two texts of a pair go the same way side by side and meet in `pack`.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from keras_bert.counts import needed_count
from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.models.preset import read_config
from keras_bert.storage import hub
from keras_bert.text import framing, packing
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer, tokenizer_class

TEXT = "text"
TEXT_PAIR = "text_pair"
_PADDINGS = ("max", "longest")

Strings: TypeAlias = tf.Tensor | Sequence[str] | str


@keras.saving.register_keras_serializable(package="keras_bert")
class BertPreprocessor(keras.layers.Layer):
    """Tokenizes texts or pairs of texts and packs them as [CLS] a [SEP] b [SEP].

    Other families frame texts otherwise, which their tokenizers know: RoBERTa's pairs become
    <s> a </s> </s> b </s>.

    It works eagerly, in `tf.data.Dataset.map`, as a layer of a Keras model and in a SavedModel.
    Its config holds the vocabulary, so a `.keras` file needs nothing beside it.

    Args:
        tokenizer: splits the texts.
        max_seq_length: the most positions a row may have, special tokens included. Longer texts
            are cut; of a pair always the longer text.
        pad_to: "max" pads every row to `max_seq_length` (static shapes, for TPU and XLA),
            "longest" to the longest row of the batch.

    Raises:
        ValueError: `max_seq_length` is no whole number, or has no room for a piece of each text of
            a pair (less than 5, in families with other rows less than 4 or 6), or `pad_to` is
            unknown.

    Example:
        >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "!"]
        >>> preprocess = BertPreprocessor(BertTokenizer(Vocabulary(pieces)), max_seq_length=6)
        >>> preprocess(["Playing!"])["input_ids"].numpy().tolist()
        [[2, 5, 6, 7, 3, 0]]
    """

    def __init__(
        self, tokenizer: Tokenizer, max_seq_length: int, pad_to: str = "max", **kwargs: Any
    ):
        super().__init__(**kwargs)
        special = tokenizer.vocabulary.special_tokens
        _, shortest = framing.rows(tokenizer.vocabulary.framing, special)
        max_seq_length = needed_count("max_seq_length", max_seq_length, least=0)
        if max_seq_length < len(shortest):
            raise ValueError(
                f"max_seq_length is {max_seq_length}; it must be at least {len(shortest)} to "
                f"hold {' '.join(part.lower() if part in 'AB' else part for part in shortest)}"
            )
        if pad_to not in _PADDINGS:
            raise ValueError(f'pad_to is {pad_to!r}; it must be "max" or "longest"')
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.pad_to = pad_to
        self.built = True

    def __call__(
        self, inputs: Strings | tuple[Strings, Strings] | Mapping[str, Strings], **kwargs: Any
    ) -> dict[str, tf.Tensor]:
        """Returns the inputs of a model.

        Args:
            inputs: strings of any shape [...] (one string, a list, an array, a tensor); or a pair
                of such as a tuple or list of two; or a dict of "text" and perhaps "text_pair".
            **kwargs: the arguments of every Keras layer.

        Returns:
            "input_ids", "input_mask" and "segment_ids", each int32 [..., S]. The segments are all 0
            in families that have none.

        Raises:
            ValueError: the inputs are not strings, or the two texts differ in shape.
        """
        # Before Keras sees them: it takes only tensors, and buries our errors in its own.
        texts, pairs = _split_inputs(inputs)
        texts = _as_strings(texts)
        if pairs is None:
            return super().__call__(texts, **kwargs)
        pairs = _as_strings(pairs)
        if not tf.TensorShape(texts.shape).is_compatible_with(pairs.shape):
            raise ValueError(
                f"the texts have shape {texts.shape} but the second texts {pairs.shape}: "
                "every text needs its partner"
            )
        return super().__call__((texts, pairs), **kwargs)

    def call(self, inputs: tf.Tensor | tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns what `__call__` documents, for tensors of strings."""
        texts, pairs = _split_inputs(inputs)  # [...] each, or None
        shape = tf.shape(texts)  # [...]
        if pairs is not None:
            # What a graph with unknown shapes could not tell before it runs.
            check = tf.debugging.assert_equal(
                shape, tf.shape(pairs), "every text needs its partner, but the shapes differ"
            )
            # Copies made after the check (which is no operation outside graphs): else another
            # operation might fail before it, with a message about its own inputs.
            with tf.control_dependencies([] if check is None else [check]):
                texts, pairs = tf.identity(texts), tf.identity(pairs)
        packed = packing.pack(
            self._tokenize(texts),
            None if pairs is None else self._tokenize(pairs),
            self.tokenizer.vocabulary,
            self.max_seq_length,
            pad_to_max=self.pad_to == "max",
        )
        restored = {}
        for name, rows in packed.items():
            # [N, S] -> [..., S]; and the static part of that shape, which the reshape loses.
            values = tf.reshape(rows, tf.concat([shape, tf.shape(rows)[-1:]], axis=0))
            restored[name] = tf.ensure_shape(values, texts.shape.concatenate(rows.shape[-1:]))
        return restored

    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self.tokenizer(tf.reshape(texts, [-1]))  # [...] -> [N] -> [N, pieces]

    def compute_output_spec(self, inputs: Any) -> dict[str, keras.KerasTensor]:
        """Returns the symbolic outputs for symbolic string inputs [...]: int32 [..., S]."""
        texts, _ = _split_inputs(inputs)
        length = self.max_seq_length if self.pad_to == "max" else None  # S, where it is static
        return {
            name: keras.KerasTensor((*texts.shape, length), dtype="int32", name=name)
            for name in (INPUT_IDS, INPUT_MASK, SEGMENT_IDS)
        }

    def get_config(self) -> dict[str, Any]:
        """Returns everything needed to make the layer anew, the vocabulary included."""
        config = super().get_config()
        return config | {
            "tokenizer_class": type(self.tokenizer).__name__,
            "tokenizer": self.tokenizer.get_config(),
            "max_seq_length": self.max_seq_length,
            "pad_to": self.pad_to,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "BertPreprocessor":
        """Makes a layer from what `get_config` returned."""
        # Files of earlier versions hold a BertTokenizer and do not say so.
        kind = tokenizer_class(config.get("tokenizer_class", "BertTokenizer"))
        others = {key: value for key, value in config.items() if key != "tokenizer_class"}
        return cls(**{**others, "tokenizer": kind.from_config(config["tokenizer"])})


def load_preprocessor(
    folder: str | os.PathLike,
    max_seq_length: int | None = None,
    pad_to: str = "longest",
    ignore_config_keys: Collection[str] = (),
    **settings: Any,
) -> BertPreprocessor:
    """Opens the preprocessor of a model folder, of whichever family and format.

    Args:
        folder: the folder, or `hf://org/name` for one on the Hugging Face Hub.
        max_seq_length: the most positions of a row; None takes those of the model.
        pad_to: "longest" row of the batch, or "max".
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.
        **settings: arguments of the tokenizer that replace those of the folder.

    Raises:
        FileNotFoundError: the folder, its vocabulary or its config does not exist.
        ValueError: a file is damaged, or holds a tokenizer that the package does not have.

    Example:
        preprocess = load_preprocessor("runs/mini/preset", max_seq_length=128)
        inputs = preprocess((["a text"], ["its second text"]))
    """
    local = hub.local_folder(folder)
    tokenizer = load_tokenizer(local, **settings)
    if max_seq_length is None:
        max_seq_length = read_config(local, ignore_config_keys).max_position_embeddings
    return BertPreprocessor(tokenizer, max_seq_length, pad_to)


def _split_inputs(inputs: Any) -> tuple[Any, Any]:
    """Takes any form of the inputs apart into texts and second texts (or None)."""
    # A dict names its texts; a tuple is a pair; a list is a batch, unless it holds batches itself:
    # ["a", "b"] are two texts, [["a", "b"], ["c", "d"]] the same two with their second texts.
    if isinstance(inputs, Mapping):
        unknown = set(inputs) - {TEXT, TEXT_PAIR}
        if unknown or TEXT not in inputs:
            raise ValueError(
                f"the preprocessor takes {TEXT!r} and {TEXT_PAIR!r}, but got {sorted(inputs)}: "
                "rename the fields"
            )
        return inputs[TEXT], inputs.get(TEXT_PAIR)
    is_list_of_batches = (
        isinstance(inputs, list) and bool(inputs) and not isinstance(inputs[0], str | bytes)
    )
    if isinstance(inputs, tuple) or is_list_of_batches:
        if len(inputs) not in (1, 2):
            raise ValueError(
                f"the preprocessor takes one text or a pair, but got a tuple of {len(inputs)}: "
                "pass a list for a batch of texts"
            )
        return inputs[0], inputs[1] if len(inputs) == 2 else None
    return inputs, None


def _as_strings(texts: Any) -> tf.Tensor | keras.KerasTensor:
    if isinstance(texts, list) and not texts:
        texts = tf.zeros([0], tf.string)  # TensorFlow would take an empty list for floats
    if not isinstance(texts, keras.KerasTensor):
        try:
            texts = tf.convert_to_tensor(texts)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the preprocessor takes strings, but got {type(texts).__name__} that is no tensor "
                f"of strings ({error}): check for None and mixed types"
            ) from None
    if texts.dtype != "string":
        raise ValueError(
            f"the preprocessor takes strings, but got {tf.as_dtype(texts.dtype).name} of shape "
            f"{texts.shape}: pass the texts themselves"
        )
    return texts
