"""The encoders of the families that came after BERT; their configs say in what they differ.

All of it is in `keras_bert.family_configs`: the same layers are made from other numbers, but for
MPNet, DeBERTa, local attention, ModernBERT, EuroBERT, NomicBERT, GTE, Jina Embeddings v3 and
MobileBERT, which have blocks of their own.
"""

from typing import Any

import keras

from keras_bert.deberta_config import DebertaV2Config
from keras_bert.family_configs import (
    AlbertConfig,
    DistilBertConfig,
    ElectraConfig,
    LocalBertConfig,
    LongformerConfig,
    MegatronBertConfig,
    MPNetConfig,
    RobertaConfig,
)
from keras_bert.layers.disentangled_attention import (
    DisentangledEmbeddings,
    DisentangledEncoderBlock,
)
from keras_bert.layers.embeddings import EmbeddingPostprocessor
from keras_bert.layers.encoder_block import EncoderBlock, PreNormEncoderBlock
from keras_bert.layers.local_attention import LocalEncoderBlock
from keras_bert.layers.masked_lm import MaskedLanguageModelTransform
from keras_bert.layers.mobilebert.bottleneck_block import BottleneckEncoderBlock
from keras_bert.layers.mobilebert.trigram_embeddings import TrigramEmbeddings
from keras_bert.layers.relative_attention import RelativeEmbeddings, RelativeEncoderBlock
from keras_bert.layers.rotary_attention import (
    NormalizedEmbeddings,
    RotaryBertBlock,
    RotaryEncoderBlock,
    RotaryPostNormBlock,
    RotaryRMSNormBlock,
    scaled_initializer_range,
)
from keras_bert.mobilebert_config import MobileBertConfig
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.registry import register_encoder
from keras_bert.modernbert_config import ModernBertConfig
from keras_bert.rotary_configs import (
    EuroBertConfig,
    GteConfig,
    JinaEmbeddingsV3Config,
    NomicBertConfig,
)


@register_encoder(DistilBertConfig)
class DistilBertEncoder(BertEncoder):
    """The encoder of DistilBERT (Sanh et al. 2019, arXiv:1910.01108).

    Inputs and outputs are those of `BertEncoder`; `segment_ids` change nothing. Published
    checkpoints have no pooler: `pooled_output` is of random weights until a head is trained.

    Example:
        >>> encoder = DistilBertEncoder(DistilBertConfig.from_name("distilbert_base"))
    """


@register_encoder(ElectraConfig)
class ElectraEncoder(BertEncoder):
    """The encoder of an ELECTRA discriminator or generator (Clark et al. 2020, arXiv:2003.10555).

    Inputs and outputs are those of `BertEncoder`. Published checkpoints have no pooler:
    `pooled_output` is of random weights until a head is trained.

    Example:
        >>> encoder = ElectraEncoder(ElectraConfig.from_name("electra_small"))
    """


@register_encoder(AlbertConfig)
class AlbertEncoder(BertEncoder):
    """The encoder of ALBERT (Lan et al. 2019, arXiv:1909.11942).

    Inputs and outputs are those of `BertEncoder`. Parameters that all blocks share are variables of
    "layer_0"; their gradient is the sum over the blocks.

    Example:
        >>> encoder = AlbertEncoder(AlbertConfig.from_name("albert_base"))
    """


@register_encoder(RobertaConfig)
class RobertaEncoder(BertEncoder):
    """The encoder of RoBERTa, XLM-RoBERTa and CamemBERT (Liu et al. 2019, arXiv:1907.11692).

    Inputs and outputs are those of `BertEncoder`; `segment_ids` change nothing. Positions count
    from 0 as in all families, and what stands in the places of padding changes nothing, whatever
    its id. Some published checkpoints have no pooler.

    Example:
        >>> encoder = RobertaEncoder(RobertaConfig.from_name("roberta_base"))
    """


@register_encoder(MPNetConfig)
class MPNetEncoder(BertEncoder):
    """The encoder of MPNet (Song et al. 2020, arXiv:2004.09297): attention knows distances, too.

    Inputs and outputs are those of `RobertaEncoder`. What its attention adds for each head and
    distance is one table of all blocks, "embeddings/relative_positions/embeddings".

    Example:
        >>> encoder = MPNetEncoder(MPNetConfig.from_name("mpnet_base"))
    """

    @staticmethod
    def create_embeddings(config: Any, seed: int | None, dtype: Any) -> EmbeddingPostprocessor:
        """Returns the layer named "embeddings"; see `BertEncoder.create_embeddings`."""
        settings = BertEncoder.create_embeddings(config, seed, dtype).get_config()
        return RelativeEmbeddings.from_config(
            settings
            | {
                "num_buckets": config.distance_buckets,
                "num_attention_heads": config.num_attention_heads,
            }
        )

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}"; see `BertEncoder.create_block`."""
        settings = BertEncoder.create_block(config, index, seed, dtype).get_config()
        return RelativeEncoderBlock.from_config(settings | {"num_buckets": config.distance_buckets})

    @staticmethod
    def share_parameters(config: Any, embeddings: Any, blocks: list[EncoderBlock]) -> None:
        """Gives all blocks the table of distances that the embeddings hold."""
        for block in blocks:
            # The method, not the layer: what freezes a block leaves the table of all blocks alone.
            block.attention.distance_bias = embeddings.relative_positions.score_bias


@register_encoder(DebertaV2Config)
class DebertaV2Encoder(BertEncoder):
    """The encoder of DeBERTa, versions 2 and 3 (He et al., arXiv:2006.03654, arXiv:2111.09543).

    Inputs and outputs are those of `BertEncoder`; `segment_ids` change nothing. Vectors of the
    distances that its attention knows are one table of all blocks, with a norm behind it,
    "embeddings/relative_positions". Published encoders have a pooler with a head only.

    Example:
        >>> encoder = DebertaV2Encoder(DebertaV2Config.from_name("deberta_v3_small"))
    """

    @staticmethod
    def create_embeddings(config: Any, seed: int | None, dtype: Any) -> EmbeddingPostprocessor:
        """Returns the layer named "embeddings"; see `BertEncoder.create_embeddings`."""
        settings = BertEncoder.create_embeddings(config, seed, dtype).get_config()
        return DisentangledEmbeddings.from_config(
            settings
            | {
                "position_buckets": config.position_buckets,
                "max_relative_positions": config.farthest_distance,
            }
        )

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}"; see `BertEncoder.create_block`."""
        settings = BertEncoder.create_block(config, index, seed, dtype).get_config()
        return DisentangledEncoderBlock.from_config(
            settings
            | {
                "position_buckets": config.position_buckets,
                "max_relative_positions": config.farthest_distance,
                "pos_att_type": config.pos_att_type,
            }
        )

    @staticmethod
    def share_parameters(config: Any, embeddings: Any, blocks: list[EncoderBlock]) -> None:
        """Gives all blocks the table of distances that the embeddings hold."""
        for block in blocks:
            # The method, not the layer: what freezes a block leaves the table of all blocks alone.
            block.attention.distance_states = embeddings.relative_positions.states


@register_encoder(ModernBertConfig)
class ModernBertEncoder(BertEncoder):
    """The encoder of ModernBERT (Warner et al. 2024, arXiv:2412.13663).

    Inputs and outputs are those of `BertEncoder`; `segment_ids` change nothing. The last of the
    `hidden_states` is behind the norm that ends the encoder, as `sequence_output` is.
    `pooled_output` is dense, gelu and norm on [CLS] or on the mean over all pieces, see
    `ModernBertConfig.classifier_pooling`; the same layers stand before the output layers of tokens.
    Published encoders have them with a head only.

    Example:
        >>> encoder = ModernBertEncoder(ModernBertConfig.from_name("modernbert_base"))
    """

    @staticmethod
    def create_embeddings(config: Any, seed: int | None, dtype: Any) -> EmbeddingPostprocessor:
        """Returns the layer named "embeddings"; see `BertEncoder.create_embeddings`."""
        settings = BertEncoder.create_embeddings(config, seed, dtype).get_config()
        return NormalizedEmbeddings.from_config(
            settings | {"dropout_rate": config.embedding_dropout}
        )

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}"; see `BertEncoder.create_block`."""
        settings = BertEncoder.create_block(config, index, seed, dtype).get_config()
        return RotaryEncoderBlock.from_config(
            settings
            | {
                "attention_window": config.window_of(index),
                "rope_theta": config.theta_of(index),
                "output_initializer_range": scaled_initializer_range(
                    config.initializer_range, config.num_hidden_layers
                ),
                "is_first": index == 0,
                "is_last": index == config.num_hidden_layers - 1,
            }
        )

    @staticmethod
    def create_pooler(config: Any, dtype: Any) -> keras.layers.Layer:
        """Returns the layer named "pooler"; see `BertEncoder.create_pooler`."""
        return MaskedLanguageModelTransform(
            config.pooler_act,
            config.initializer_range,
            config.layer_norm_eps,
            use_bias=False,
            dtype=dtype,
            name="pooler",
        )


@register_encoder(EuroBertConfig)
class EuroBertEncoder(BertEncoder):
    """The encoder of EuroBERT (Boizard et al. 2025, arXiv:2503.05500).

    Inputs and outputs are those of `BertEncoder`; `segment_ids` change nothing. The last of the
    `hidden_states` is behind the norm that ends the encoder, as `sequence_output` is.
    `pooled_output` is dense and gelu on the first piece, on the mean or on each piece before the
    mean, see `EuroBertConfig.classifier_pooling`; published encoders have them with a head only.

    Example:
        >>> config = EuroBertConfig.from_name("eurobert_tiny", vocab_size=8000, pad_token_id=0)
        >>> encoder = EuroBertEncoder(config)
    """

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}"; see `BertEncoder.create_block`."""
        settings = BertEncoder.create_block(config, index, seed, dtype).get_config()
        return RotaryRMSNormBlock.from_config(
            settings
            | {
                "rope_theta": config.rope_theta,
                "rope_factor": config.rope_factor,
                "num_key_value_heads": config.num_key_value_heads,
                "output_initializer_range": config.initializer_range,
                "is_last": index == config.num_hidden_layers - 1,
            }
        )


@register_encoder(NomicBertConfig)
class NomicBertEncoder(BertEncoder):
    """The encoder of NomicBERT (Nussbaum et al. 2024, arXiv:2402.01613): of nomic-embed-text.

    Inputs and outputs are those of `BertEncoder`. Published encoders have no pooler:
    `pooled_output` is of random weights until a head is trained; vectors of texts are means.

    Example:
        >>> encoder = NomicBertEncoder(NomicBertConfig.from_name("nomic_bert_base"))
    """

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}"; see `BertEncoder.create_block`."""
        settings = BertEncoder.create_block(config, index, seed, dtype).get_config()
        return RotaryPostNormBlock.from_config(
            settings | {"rope_theta": config.rope_theta, "rope_factor": config.rope_factor}
        )


@register_encoder(GteConfig)
class GteEncoder(BertEncoder):
    """The encoder of a GTE of the second generation (Zhang et al. 2024, arXiv:2407.19669).

    Inputs and outputs are those of `BertEncoder`; `segment_ids` change nothing. Published encoders
    have no pooler: `pooled_output` is of random weights until a head is trained; vectors of texts
    are the states of [CLS].

    Example:
        >>> encoder = GteEncoder(GteConfig.from_name("gte_base"))
    """

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}"; see `BertEncoder.create_block`."""
        settings = BertEncoder.create_block(config, index, seed, dtype).get_config()
        return RotaryPostNormBlock.from_config(
            settings
            | {
                "rope_theta": config.rope_theta,
                "rope_factor": config.rope_factor,
                "use_bias": True,
                "gate_dropout_prob": config.hidden_dropout_prob,
            }
        )


@register_encoder(JinaEmbeddingsV3Config)
class JinaEmbeddingsV3Encoder(BertEncoder):
    """The encoder of Jina Embeddings v3 (Sturua et al. 2024, arXiv:2409.10173).

    Inputs and outputs are those of `BertEncoder`; `segment_ids` change nothing. Vectors of texts
    are means; a task's adapter is added to the weights before they are read.

    Example:
        >>> encoder = JinaEmbeddingsV3Encoder(JinaEmbeddingsV3Config.from_name("tiny"))
    """

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}"; see `BertEncoder.create_block`."""
        settings = BertEncoder.create_block(config, index, seed, dtype).get_config()
        return RotaryBertBlock.from_config(
            settings | {"rope_theta": config.rope_theta, "rope_factor": config.rope_factor}
        )


@register_encoder(MobileBertConfig)
class MobileBertEncoder(BertEncoder):
    """The encoder of MobileBERT (Sun et al. 2020, arXiv:2004.02984), and of the IB-BERT beside it.

    Inputs and outputs are those of `BertEncoder`. `pooled_output` is the state of [CLS] itself
    where `MobileBertConfig.classifier_activation` is False, as in published models. A word is read
    with the one behind it: what stands behind the last piece of a text, padding or nothing, changes
    its state a little, as in transformers.

    Example:
        >>> encoder = MobileBertEncoder(MobileBertConfig.from_name("mobilebert"))
    """

    @staticmethod
    def create_embeddings(config: Any, seed: int | None, dtype: Any) -> EmbeddingPostprocessor:
        """Returns the layer named "embeddings"; see `BertEncoder.create_embeddings`."""
        settings = BertEncoder.create_embeddings(config, seed, dtype).get_config()
        return TrigramEmbeddings.from_config(
            settings
            | {
                "hidden_size": config.hidden_size,
                "trigram_input": config.trigram_input,
                "transforms_words": config.transforms_words,
                "normalization_type": config.normalization_type,
            }
        )

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}"; see `BertEncoder.create_block`."""
        settings = BertEncoder.create_block(config, index, seed, dtype).get_config()
        return BottleneckEncoderBlock.from_config(
            settings
            | {
                "block_width": config.block_width,
                "use_bottleneck": config.use_bottleneck,
                "attention_input": config.attention_input,
                "num_feedforward_networks": config.num_feedforward_networks,
                "normalization_type": config.normalization_type,
            }
        )

    @staticmethod
    def create_pooler(config: Any, dtype: Any) -> keras.layers.Layer:
        """Returns the layer named "pooler"; see `BertEncoder.create_pooler`."""
        if config.has_pooler:
            return BertEncoder.create_pooler(config, dtype)
        return keras.layers.Identity(dtype=dtype, name="pooler")


@register_encoder(MegatronBertConfig)
class MegatronBertEncoder(BertEncoder):
    """The encoder of MegatronBERT (Shoeybi et al. 2019, arXiv:1909.08053): norms come first.

    Inputs and outputs are those of `BertEncoder`. The last of the `hidden_states` is behind the
    norm that ends the encoder, as `sequence_output` is; the embeddings have none.

    Example:
        >>> encoder = MegatronBertEncoder(MegatronBertConfig.from_name("megatron_bert_tiny"))
    """

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}"; see `BertEncoder.create_block`."""
        settings = BertEncoder.create_block(config, index, seed, dtype).get_config()
        is_last = index == config.num_hidden_layers - 1
        return PreNormEncoderBlock.from_config(settings | {"is_last": is_last})


@register_encoder(LocalBertConfig)
class LocalBertEncoder(BertEncoder):
    """BERT with attention in a sliding window, for long texts (Beltagy et al. 2020).

    Inputs and outputs are those of `BertEncoder`, but for attention probabilities, of which there
    is no table of all pairs. Time and memory grow with the length, not with its square. The weights
    are BERT's: `with_local_attention` makes one of a BERT.

    Args:
        config: the numbers, a `LocalBertConfig` or its dict.
        output_hidden_states: as in `BertEncoder`.
        output_attention_probs: must be False.
        packed: must be False: documents of a sequence would need a mask of all pairs.
        **arguments: the other arguments of `BertEncoder`.

    Raises:
        ValueError: attention probabilities or packed sequences are asked for.

    Example:
        >>> encoder = LocalBertEncoder(LocalBertConfig.from_name("local_bert_tiny"))
    """

    def __init__(
        self,
        config: Any,
        output_hidden_states: bool = False,
        output_attention_probs: bool = False,
        packed: bool = False,
        **arguments: Any,
    ):
        asked = {"output_attention_probs": output_attention_probs, "packed": packed}
        for name, value in asked.items():
            if value:
                raise ValueError(
                    f"{name} is True, but attention in a window has no table of all pairs of "
                    "positions: leave it out, or take a model with full attention"
                )
        super().__init__(config, output_hidden_states, **arguments)

    @staticmethod
    def create_block(config: Any, index: int, seed: int | None, dtype: Any) -> EncoderBlock:
        """Returns the block named "layer_{index}"; see `BertEncoder.create_block`."""
        settings = BertEncoder.create_block(config, index, seed, dtype).get_config()
        return LocalEncoderBlock.from_config(
            settings
            | {
                "attention_window": config.attention_window,
                "global_tokens": config.global_tokens,
                "global_projections": config.projects_global_attention,
            }
        )


@register_encoder(LongformerConfig)
class LongformerEncoder(LocalBertEncoder):
    """The encoder of Longformer (Beltagy et al. 2020, arXiv:2004.05150): a RoBERTa for long texts.

    Inputs and outputs are those of `RobertaEncoder`, and what is refused is as in
    `LocalBertEncoder`. `with_local_attention` makes one of a RoBERTa.

    Example:
        >>> encoder = LongformerEncoder(LongformerConfig.from_name("longformer_base"))
    """
