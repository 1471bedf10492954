"""What all models with a head share: an encoder inside, presets, serialization."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import keras

from keras_bert.choices import TokenPooling
from keras_bert.config import BertConfig
from keras_bert.counts import check_count
from keras_bert.features import INPUT_MASK
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.pooling import SentencePooling
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.preset import PresetModel, inner_layers


class TaskModel(PresetModel):
    """A functional model around a `BertEncoder`; subclasses add the head.

    Attributes:
        encoder: the `BertEncoder` inside.
        config: its `BertConfig`.
    """

    def __init__(self, encoder: BertEncoder, inputs: Any, outputs: Any, **kwargs: Any):
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.encoder = encoder
        self.config = encoder.config
        for path, layer, _ in inner_layers(self):
            if path in self.frozen_layers:
                layer.trainable = False

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, and which layers are frozen."""
        return {
            "config": self.config.to_dict(),
            "seed": self.encoder.seed,
            "dtype": self.encoder.policy.name,
            "name": self.name,
            **self.head_config(),
            **self.trainable_config(),
        }


def output_layer(encoder: BertEncoder, units: int, name: str) -> keras.layers.Dense:
    """Returns the dense layer that ends a head; its logits are float32 under every policy."""
    return keras.layers.Dense(
        units,
        kernel_initializer=truncated_normal(encoder.config.initializer_range),
        # The classes are few, so this costs nothing, and a softmax in bfloat16 would lose digits.
        dtype="float32",
        name=name,
    )


def output_dropout(encoder: BertEncoder) -> Dropout:
    """Returns the dropout before the output layer of a fine-tuned head."""
    # Far from the seeds of the encoder: its own and one for each of its blocks, counted up from it.
    seed = None if encoder.seed is None else encoder.seed + 7919
    return Dropout(
        encoder.config.output_dropout_prob, seed=seed, dtype=encoder.policy, name="output_dropout"
    )


def sentence_vectors(encoder: BertEncoder, inputs: Mapping[str, Any], pooling: TokenPooling) -> Any:
    """Returns vectors of length 1 of texts, float32 [B, H], pooled from those of their tokens.

    Args:
        encoder: the encoder.
        inputs: what it reads, int32 [B, S] each.
        pooling: "mean", "cls" or "max"; see `SentencePooling`.

    Raises:
        ValueError: the pooling is another one, or that of a piece that sees nothing of the text.
    """
    check_sees_text(encoder.config, (pooling,))
    # Of the vectors of all tokens, or of the first alone: [B, S or 1, H].
    first = 0 * inputs[INPUT_MASK][:, :1] if pooling == "cls" else None
    states = encoder(inputs, output_positions=first)["sequence_output"]
    pool = SentencePooling(pooling, dtype="float32", name="sentence_pooling")
    return pool(states, inputs[INPUT_MASK])


def check_sees_text(config: BertConfig, pooling: Collection[str]) -> None:
    """Refuses the vector of [CLS] where it stands before all that it could tell of.

    Args:
        config: that of the encoder.
        pooling: how vectors of tokens become one.

    Raises:
        ValueError: the model reads from left to right, and `pooling` takes its first piece.
    """
    if config.left_to_right and "cls" in pooling:
        raise ValueError(
            "pooling is 'cls', but the model reads from left to right, so [CLS] sees nothing of a "
            "text and has the same vector in all: give 'mean' or 'max'"
        )


def read_tokens(encoder: BertEncoder, sequence_output: Any) -> Any:
    """Returns what the output layer of tokens reads, [..., H], of the encoder's [..., H].

    That is the sequence output itself but in families whose pooler stands before every output.
    """
    if encoder.config.reads_tokens_through_pooler:
        return encoder.get_layer("pooler")(sequence_output)
    return sequence_output


def checked_classes(
    num_classes: int | None, labels: Sequence[str] | None
) -> tuple[int, list[str] | None]:
    """Returns the number of classes, of the labels where it is None, and the labels as a list.

    Raises:
        ValueError: neither is given, there is no class, or not one label for each.
    """
    if isinstance(labels, str):
        raise ValueError(f"labels is the string {labels!r}: give a list of names")
    if num_classes is None and labels is None:
        raise ValueError("the classes are not told: give num_classes, or their names as labels")
    count = check_count("num_classes", len(labels or ()) if num_classes is None else num_classes)
    assert count is not None
    if labels is not None and len(labels) != count:
        raise ValueError(
            f"num_classes is {count} but {len(labels)} labels are named: give one label for each "
            "class"
        )
    return count, None if labels is None else list(labels)
