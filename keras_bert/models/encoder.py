"""BertEncoder: the Transformer of the paper, pre-trained once and used by every head."""

from collections.abc import Collection, Mapping
from typing import Any, Self

import keras

from keras_bert.config import BertConfig
from keras_bert.features import (
    ENCODER_FEATURES,
    INPUT_IDS,
    INPUT_MASK,
    PACK_IDS,
    PACKING_FEATURES,
    POSITION_IDS,
    SEGMENT_IDS,
)
from keras_bert.layers.attention_masks import (
    last_real_position,
    left_to_right_mask,
    within_documents,
)
from keras_bert.layers.embeddings import EmbeddingPostprocessor, WordEmbedding
from keras_bert.layers.encoder_block import EncoderBlock
from keras_bert.layers.initializer import truncated_normal
from keras_bert.models import preset


@keras.saving.register_keras_serializable("keras_bert")
class BertEncoder(keras.Model):
    """The BERT encoder (Devlin et al. 2018): a dict of three inputs in, a dict of outputs out.

    Inputs, int32 [B, S] each: `input_ids`, `input_mask` (1 for real pieces), `segment_ids`.
    Outputs: `sequence_output` [B, S, H]; `pooled_output` [B, H] (dense and tanh on [CLS], or on
    the last piece where attention goes from left to right and [CLS] sees nothing else); on
    request `hidden_states`, a list of L+1 [B, S, H], embeddings first; and `attention_probs`, a
    list of L [B, A, S, S] in float32.

    A packed encoder has two inputs more, int32 [B, S] each, for sequences of several documents:
    `pack_ids`, the number of a piece's document from 1 up, and `position_ids`, its position in that
    document. A document gets the outputs that it gets alone; pieces attend to nothing outside it.
    The weights are the same. `pooled_output` is that of the first document.

    Args:
        config: the numbers, a `BertConfig` or its dict.
        output_hidden_states: whether to return the output of every layer.
        output_attention_probs: whether to return the attention probabilities of every layer.
        packed: whether sequences hold several documents.
        seed: of all dropouts; None draws one.
        dtype: a Keras dtype policy such as "mixed_bfloat16"; None takes the global one.

    Example:
        >>> encoder = BertEncoder(BertConfig.from_name("bert_tiny"))
        >>> encoder.count_params()
        4385920
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any],
        output_hidden_states: bool = False,
        output_attention_probs: bool = False,
        packed: bool = False,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_encoder",
        **kwargs: Any,
    ):
        config = as_config(config)
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        # === Layers ===
        word_embeddings = WordEmbedding(
            config.vocab_size,
            config.hidden_size,
            config.initializer_range,
            dtype=policy,
            name="word_embeddings",
        )
        postprocessor = EmbeddingPostprocessor(
            config.max_position_embeddings,
            config.type_vocab_size,
            config.hidden_dropout_prob,
            config.initializer_range,
            config.layer_norm_eps,
            seed=seed,
            dtype=policy,
            name="embeddings",
        )
        blocks = [
            _encoder_block(config, index, seed, policy) for index in range(config.num_hidden_layers)
        ]
        pooler = keras.layers.Dense(
            config.hidden_size,
            activation="tanh",
            kernel_initializer=truncated_normal(config.initializer_range),
            dtype=policy,
            name="pooler",
        )

        # === Functional model ===
        inputs = encoder_inputs(packed)
        hidden = postprocessor(  # [B, S, H]
            word_embeddings(inputs[INPUT_IDS]), inputs[SEGMENT_IDS], inputs.get(POSITION_IDS)
        )
        mask = inputs[INPUT_MASK]
        visible = left_to_right_mask(mask) if config.left_to_right else mask
        if packed:
            visible = within_documents(visible, inputs[PACK_IDS])
        hidden_states, attention_probs = [hidden], []
        for block in blocks:
            hidden = block(hidden, visible, return_probs=output_attention_probs)
            if output_attention_probs:
                hidden, probs = hidden
                attention_probs.append(probs)
            hidden_states.append(hidden)
        summary = last_real_position(hidden, mask) if config.left_to_right else hidden[:, 0]
        outputs = {"sequence_output": hidden, "pooled_output": pooler(summary)}
        if output_hidden_states:
            outputs["hidden_states"] = hidden_states
        if output_attention_probs:
            outputs["attention_probs"] = attention_probs
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)

        # === Config ===
        self.config = config
        self.output_hidden_states = output_hidden_states
        self.output_attention_probs = output_attention_probs
        self.packed = packed
        self.seed = seed
        self.policy = policy
        self.word_embeddings = word_embeddings

    @classmethod
    def from_preset(
        cls, folder: str, ignore_config_keys: Collection[str] = (), **arguments: Any
    ) -> Self:
        """Opens the encoder of a model folder; see `keras_bert.models.preset.load`."""
        return preset.load(cls, folder, arguments, ignore_config_keys)

    def save_to_preset(self, folder: str, tokenizer: Any = None) -> None:
        """Writes a model folder; see `keras_bert.models.preset.save`."""
        preset.save(self, folder, tokenizer)

    def head_config(self) -> dict[str, Any]:
        """Returns what a preset keeps beside the config: nothing."""
        return {}

    def get_config(self) -> dict[str, Any]:
        """Keeps every argument."""
        return {
            "config": self.config.to_dict(),
            "output_hidden_states": self.output_hidden_states,
            "output_attention_probs": self.output_attention_probs,
            "packed": self.packed,
            "seed": self.seed,
            "dtype": self.policy.name,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Rebuilds the encoder from `get_config`."""
        return cls(**config)


def as_config(config: BertConfig | Mapping[str, Any]) -> BertConfig:
    """Returns a `BertConfig` as it is and a dict of its fields as one.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(config, BertConfig):
        return config
    if isinstance(config, Mapping):
        return BertConfig.from_dict(config)
    raise ValueError(
        f"config is a {type(config).__name__}: give a BertConfig, "
        'for example BertConfig.from_name("bert_base")'
    )


def encoder_inputs(packed: bool = False) -> dict[str, keras.KerasTensor]:
    """Returns the symbolic inputs of the encoder, [B, S] each."""
    features = ENCODER_FEATURES + PACKING_FEATURES if packed else ENCODER_FEATURES
    return {
        feature.name: keras.Input((None,), dtype=feature.dtype, name=feature.name)
        for feature in features
    }


def _encoder_block(config: BertConfig, index: int, seed: int | None, policy: Any) -> EncoderBlock:
    return EncoderBlock(
        config.num_attention_heads,
        config.intermediate_size,
        config.hidden_act,
        config.hidden_dropout_prob,
        config.attention_probs_dropout_prob,
        config.initializer_range,
        config.layer_norm_eps,
        seed=None if seed is None else seed + index + 1,
        dtype=policy,
        name=f"layer_{index}",
    )
