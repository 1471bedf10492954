"""BertEncoder: the Transformer of the paper, pre-trained once and used by every head.

    input_ids, segment_ids --> embeddings --> layer_0 --> ... --> layer_{L-1} --> sequence_output
    [B, S]                     [B, S, H]                              |           [B, S, H]
    input_mask [B, S] ------ what layers may see                      +-- pooler --> pooled_output
                                                                                     [B, H]

Its parts are made by methods, which a variant of the encoder replaces: see
`keras_bert.models.registry`.
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

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
    last_position,
    last_real_position,
    left_to_right_mask,
    mean_of_real_positions,
    within_documents,
)
from keras_bert.layers.dense import Dense
from keras_bert.layers.embeddings import EmbeddingPostprocessor, WordEmbedding
from keras_bert.layers.encoder_block import EncoderBlock
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.self_attention import SelfAttention, states_at
from keras_bert.models import preset, registry


@registry.register_encoder(BertConfig)
class BertEncoder(preset.PresetModel):
    """The BERT encoder (Devlin et al. 2018): a dict of three inputs in, a dict of outputs out.

    Inputs, int32 [B, S] each: `input_ids`, `input_mask` (1 for real pieces), `segment_ids`.
    Outputs: `sequence_output` [B, S, H]; `pooled_output` [B, H] (dense and tanh on [CLS], or on
    the last piece where attention goes from left to right and [CLS] sees nothing else; a family may
    have another pooler, or one of the mean); on
    request `hidden_states`, a list of L+1 [B, S, H], embeddings first; and `attention_probs`, a
    list of L [B, A, S, S] in float32.

    A packed encoder has two inputs more, int32 [B, S] each, for sequences of several documents:
    `pack_ids`, the number of a piece's document from 1 up, and `position_ids`, its position in that
    document. A document gets the outputs that it gets alone; pieces attend to nothing outside it.
    The weights are the same. `pooled_output` is that of the first document (of the last from left
    to right).

    A head that reads a few positions says which: `encoder(inputs, output_positions=positions)`, of
    int32 [B, P], gives their `sequence_output` [B, P, H], and `pooled_output` as always. The last
    block then computes nothing at other positions but query, key and value. They are the numbers of
    `encoder(inputs)` but for rounding, as its input is the same and no other layer follows.
    `pooled(inputs)` does this for `pooled_output` alone. `narrows_last_block = False` turns it off.

    Paths of variables begin with the names of its layers ("layer_0/intermediate/kernel"), whatever
    the encoder is called: files of other formats, optimizers and checkpoints know them so. Where a
    model holds two encoders, all but the one that presets keep are made in a name scope:

        with keras.name_scope("generator"):  # generator/layer_0/intermediate/kernel
            generator = create_encoder(small, name="generator")
        discriminator = create_encoder(config)  # layer_0/intermediate/kernel

    Without it both would have equal paths, which checkpoints and presets refuse.

    Args:
        config: the numbers, a `BertConfig` or its dict.
        output_hidden_states: whether to return the output of every layer.
        output_attention_probs: whether to return the attention probabilities of every layer.
        packed: whether sequences hold several documents.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy such as "mixed_bfloat16"; None takes the global one.
        shared_embeddings: an encoder whose embeddings this one uses, too; made by the model that
            holds both, as ELECTRA's is.

    Example:
        >>> encoder = BertEncoder(BertConfig.from_name("bert_tiny"))
        >>> encoder.count_params()
        4385920
    """

    word_embeddings: WordEmbedding
    embeddings_projection: keras.layers.Dense | None

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any],
        output_hidden_states: bool = False,
        output_attention_probs: bool = False,
        packed: bool = False,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_encoder",
        shared_embeddings: "BertEncoder | None" = None,
        **kwargs: Any,
    ):
        config = as_config(config)
        registry.check_class(type(self), config)
        # "mixed_bfloat16": variables in float32, products in bfloat16; layers and heads share it.
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        # === Layers ===
        if shared_embeddings is None:
            # A layer of its own, which the masked language model calls once more.
            word_embeddings = WordEmbedding(
                config.vocab_size,
                config.embedding_width,
                config.initializer_range,
                dtype=policy,
                name="word_embeddings",
            )
            embeddings = self.create_embeddings(config, seed, policy)
        else:
            word_embeddings = shared_embeddings.word_embeddings
            embeddings = shared_embeddings.get_layer("embeddings")
        # Where the embeddings have a width of their own, E, a dense layer leads to H.
        projection = None
        if config.projects_embeddings:
            projection = Dense(
                config.hidden_size,
                kernel_initializer=truncated_normal(config.initializer_range),
                dtype=policy,
                name="embeddings_projection",
            )
        blocks = [
            self.create_block(config, index, seed, policy)
            for index in range(config.num_hidden_layers)
        ]
        self.share_parameters(config, embeddings, blocks)
        pooler = self.create_pooler(config, policy)

        _check_starts(type(self).__name__, config, embeddings, blocks[0])

        # === Functional model ===
        inputs = encoder_inputs(packed)  # int32 [B, S] each
        hidden = _embedded(inputs, word_embeddings, embeddings, projection)  # [B, S, H]
        visible = _visible(config, inputs)  # [B, S] or [B, S, S]
        hidden_states, attention_probs = [hidden], []  # embeddings first
        for block in blocks:
            hidden = block(hidden, visible, return_probs=output_attention_probs)  # [B, S, H]
            if output_attention_probs:
                hidden, probs = hidden  # and [B, A, S, S]
                attention_probs.append(probs)
            hidden_states.append(hidden)
        pooled_output = _pooled(config, pooler, hidden, inputs[INPUT_MASK])  # [B, H]
        outputs = {"sequence_output": hidden, "pooled_output": pooled_output}  # [B, S, H], [B, H]
        if output_hidden_states:
            outputs["hidden_states"] = hidden_states  # L + 1 of [B, S, H]
        if output_attention_probs:
            outputs["attention_probs"] = attention_probs  # L of [B, A, S, S]
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)

        # === Config ===
        self.config = config
        self.output_hidden_states = output_hidden_states
        self.output_attention_probs = output_attention_probs
        self.packed = packed
        self.seed = seed
        self.policy = policy
        self.narrows_last_block = True
        self.word_embeddings = word_embeddings
        self.embeddings_projection = projection

    @staticmethod
    def create_embeddings(config: Any, seed: int | None, dtype: Any) -> EmbeddingPostprocessor:
        """Returns the layer named "embeddings": what happens to word embeddings before the blocks.

        That of a variant is an `EmbeddingPostprocessor` with another `embed`, made with all of
        these arguments: what is left out takes its default, not the config's value.

        Args:
            config: the numbers of the encoder.
            seed: seed of its dropouts; None draws one.
            dtype: a Keras dtype policy.
        """
        return EmbeddingPostprocessor(
            config.max_position_embeddings,
            config.type_vocab_size,
            config.hidden_dropout_prob,
            config.initializer_range,
            config.layer_norm_eps,
            seed=seed,
            position_initializer=config.position_initializer,
            first_position=config.first_position,
            reads_segments=config.has_segments,
            has_positions=config.has_position_table,
            has_norm=config.has_embedding_norm,
            dtype=dtype,
            name="embeddings",
        )

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}", counted from 0 up; see `create_embeddings`.

        A block of a variant is an `EncoderBlock` with other halves or another attention. Only
        `SelfAttention.attend` may look from one position to another. The first block is made with
        `attention_initializer=first_attention(config)`.
        """
        return EncoderBlock(
            config.num_attention_heads,
            config.intermediate_size,
            config.hidden_act,
            config.hidden_dropout_prob,
            config.attention_probs_dropout_prob,
            config.initializer_range,
            config.layer_norm_eps,
            # The embeddings have the seed itself: the same seed twice would drop the same units.
            seed=None if seed is None else seed + index + 1,
            attention_initializer=first_attention(config) if index == 0 else "normal",
            dtype=dtype,
            name=f"layer_{index}",
        )

    @staticmethod
    def create_pooler(config: Any, dtype: Any) -> keras.layers.Layer:
        """Returns the layer named "pooler", from [..., H] to [..., H]; see `create_embeddings`."""
        return keras.layers.Dense(
            config.hidden_size,
            activation=config.pooler_act,
            kernel_initializer=truncated_normal(config.initializer_range),
            dtype=dtype,
            name="pooler",
        )

    @staticmethod
    def share_parameters(
        config: Any, embeddings: EmbeddingPostprocessor, blocks: list[EncoderBlock]
    ) -> None:
        """Gives layers that are not built yet those parameters of others that they compute with.

        Args:
            config: the numbers of the encoder.
            embeddings: what `create_embeddings` returned.
            blocks: what `create_block` returned, in their order.
        """
        if config.shares_attention or config.shares_feed_forward:
            # ALBERT: the variables are those of layer_0; every block keeps dropouts of its own.
            blocks[0].build((None, None, config.hidden_size))
            for block in blocks[1:]:
                block.share_parameters(
                    blocks[0], config.shares_attention, config.shares_feed_forward
                )

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool | None = None,
        mask: Any = None,
        output_positions: Any = None,
    ) -> dict[str, Any]:
        """Returns the outputs, with `sequence_output` at all positions or at some, see the class.

        Args:
            inputs: by name, int32 [B, S] each.
            training: whether dropout is on; None asks the layer that calls this one.
            mask: Keras' own, which is not read.
            output_positions: int32 [B, P], or None for all positions.
        """
        if output_positions is not None and self._narrows():
            return self._call_at(output_positions, inputs, training)
        outputs = super().call(inputs, training=training, mask=mask)
        if output_positions is not None:
            states = states_at(outputs["sequence_output"], output_positions)  # [B, P, H]
            outputs = {**outputs, "sequence_output": states}
        return outputs

    def _call_at(
        self, output_positions: Any, inputs: Mapping[str, Any], training: bool | None
    ) -> dict[str, Any]:
        """Returns outputs, the last block computed at positions [B, P] and the pooler's alone."""
        inputs = {
            name: ops.convert_to_tensor(inputs[name], tensor.dtype)
            for name, tensor in self.input.items()
        }
        embeddings = self.get_layer("embeddings")
        hidden = _embedded(  # [B, S, H]
            inputs, self.word_embeddings, embeddings, self.embeddings_projection, training
        )
        visible = _visible(self.config, inputs)  # [B, S] or [B, S, S]
        *blocks, last = self.encoder_blocks()
        for block in blocks:
            hidden = block(hidden, visible, training=training)  # [B, S, H]
        # What the pooler reads, then what is asked for: [B, 1 + P].
        summary = _summary_position(self.config, inputs)
        positions = ops.concatenate([summary, ops.cast(output_positions, "int32")], axis=1)
        # [B, 1 + P, H]
        hidden = last(hidden, visible, training=training, query_positions=positions)
        pooled_output = self.get_layer("pooler")(hidden[:, 0])  # [B, H]
        return {"sequence_output": hidden[:, 1:], "pooled_output": pooled_output}

    def pooled(self, inputs: Mapping[str, Any]) -> Any:
        """Returns `pooled_output` [B, H] of inputs, symbolic or not, int32 [B, S] each."""
        nothing = inputs[INPUT_IDS][:, :0]  # [B, 0]
        return self(inputs, output_positions=nothing)["pooled_output"]

    def compute_output_spec(
        self, inputs: Mapping[str, Any], output_positions: Any = None, **arguments: Any
    ) -> dict[str, Any]:
        """Gives the symbolic shapes of `call`."""
        outputs = super().compute_output_spec(inputs, **arguments)
        if output_positions is None:
            return outputs
        states = outputs["sequence_output"]
        shape = (*output_positions.shape, states.shape[-1])  # [B, P, H]
        return {**outputs, "sequence_output": keras.KerasTensor(shape, dtype=states.dtype)}

    def _narrows(self) -> bool:
        """Tells whether the last block can be computed at some positions and gives all outputs."""
        return (
            self.narrows_last_block
            and not (self.output_hidden_states or self.output_attention_probs)
            and narrows(self.config, self.encoder_blocks()[-1])
        )

    def encoder_blocks(self) -> list[EncoderBlock]:
        """Returns the blocks in the order in which they are applied."""
        return [self.get_layer(f"layer_{i}") for i in range(self.config.num_hidden_layers)]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, and which layers are frozen."""
        # Not the functional graph that Keras would write: the constructor makes it again.
        return {
            "config": self.config.to_dict(),
            "output_hidden_states": self.output_hidden_states,
            "output_attention_probs": self.output_attention_probs,
            "packed": self.packed,
            "seed": self.seed,
            "dtype": self.policy.name,
            "name": self.name,
            **self.trainable_config(),
        }


def _check_starts(
    name: str, config: BertConfig, embeddings: EmbeddingPostprocessor, first_block: EncoderBlock
) -> None:
    """Refuses parts of a variant that start in another way than its config says."""
    first = getattr(first_block.attention, "attention_initializer", "normal")
    if first != first_attention(config):
        raise ValueError(
            f"position_initializer is {config.position_initializer!r}, but the attention of "
            f"the first block of {name} starts as {first!r}: make it with "
            "attention_initializer=keras_bert.models.encoder.first_attention(config), which "
            "its create_block gives to the block and the block to its attention"
        )
    table = getattr(embeddings, "position_initializer", "normal")
    if first != "normal" and table != config.position_initializer:
        raise ValueError(
            f"position_initializer is {config.position_initializer!r}, but the embeddings of "
            f"{name} start as {table!r}: make them with "
            "position_initializer=config.position_initializer"
        )


def _embedded(
    inputs: Mapping[str, Any],
    word_embeddings: WordEmbedding,
    embeddings: EmbeddingPostprocessor,
    projection: keras.layers.Dense | None,
    training: bool | None = None,
) -> Any:
    """Returns what the first block reads, [B, S, H], of inputs [B, S]."""
    words = word_embeddings(inputs[INPUT_IDS])  # [B, S, E], in BERT E = H
    hidden = embeddings(
        words, inputs[SEGMENT_IDS], inputs.get(POSITION_IDS), training=training
    )  # [B, S, E]
    return hidden if projection is None else projection(hidden)  # [B, S, H]


def _visible(config: BertConfig, inputs: Mapping[str, Any]) -> Any:
    """Returns which positions a layer may look at, of inputs [B, S].

    That is [B, S] for all queries alike, or a row for each query, [B, S queries, S keys].
    """
    mask = inputs[INPUT_MASK]
    visible = left_to_right_mask(mask) if config.left_to_right else mask  # [B, S] or [B, S, S]
    if PACK_IDS in inputs:
        visible = within_documents(visible, inputs[PACK_IDS])  # [B, S, S]
    return visible


def _pooled(config: BertConfig, pooler: keras.layers.Layer, hidden: Any, mask: Any) -> Any:
    """Returns the pooled output [B, H] of hidden states [B, S, H] and their mask [B, S]."""
    if config.summary == "mean":
        if config.pools_late:
            return mean_of_real_positions(pooler(hidden), mask)
        return pooler(mean_of_real_positions(hidden, mask))
    # From left to right only the last piece has seen the whole sequence.
    is_last = config.summary == "last"
    return pooler(last_real_position(hidden, mask) if is_last else hidden[:, 0])


def _summary_position(config: BertConfig, inputs: Mapping[str, Any]) -> Any:
    """Returns the position that the pooler reads, int32 [B, 1], of inputs [B, S]."""
    if config.summary == "last":
        return last_position(inputs[INPUT_MASK])
    return 0 * inputs[INPUT_IDS][:, :1]


def first_attention(config: BertConfig) -> str:
    """Returns the `attention_initializer` of the first block, where positions arrive unmixed."""
    if config.position_initializer != "neighbors":
        return "normal"
    return "previous" if config.left_to_right else "neighbors"


def narrows(config: BertConfig, last_block: EncoderBlock) -> bool:
    """Tells whether an encoder can compute its last block at some positions alone."""
    # Layers with a `call` of their own know nothing of positions.
    knows_positions = (
        type(last_block).call is EncoderBlock.call
        and type(last_block.attention).call is SelfAttention.call
    )
    return knows_positions and config.summary != "mean"


def create_encoder(config: BertConfig | Mapping[str, Any], **arguments: Any) -> BertEncoder:
    """Returns the encoder that a config describes: `BertEncoder` or a registered variant of it.

    Args:
        config: the numbers, a config or its dict.
        **arguments: those of `BertEncoder` other than `config`.

    Raises:
        ValueError: it is no config, or of an encoder that is not registered.
    """
    config = as_config(config)
    return registry.encoder_class(config)(config, **arguments)


def as_encoder(
    config: BertConfig | Mapping[str, Any] | BertEncoder,
    packed: bool = False,
    seed: int | None = None,
    dtype: Any = None,
) -> BertEncoder:
    """Returns the encoder for a head: the one that is given, or that of a config.

    Args:
        config: an encoder, or the numbers of one.
        packed: as in `BertEncoder`, like `seed` and `dtype`.
        seed: seed of all dropouts of a new encoder; None draws one.
        dtype: Keras dtype policy of a new encoder; None takes the global one.

    Raises:
        ValueError: an encoder is given and its arguments besides, which it has already; or its
            class is not the one that is registered for its config.
    """
    if not isinstance(config, BertEncoder):
        return create_encoder(config, packed=packed, seed=seed, dtype=dtype)
    if packed or seed is not None or dtype is not None:
        raise ValueError(
            f"packed, seed and dtype belong to the encoder {config.name}, which has them: leave "
            "them out beside it"
        )
    registry.check_registered(type(config), config.config)
    return config


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
        # The length S is left open: one model serves rows of every length.
        feature.name: keras.Input((None,), dtype=feature.dtype, name=feature.name)
        for feature in features
    }
