"""Every layer keeps every constructor argument in `get_config` and computes the same from it."""

import inspect

import keras
import numpy as np
import pytest

from keras_bert.layers.cross_attention import CrossAttention
from keras_bert.layers.decoder_block import DecoderBlock
from keras_bert.layers.disentangled_attention import (
    DisentangledEmbeddings,
    DisentangledEncoderBlock,
    DisentangledSelfAttention,
)
from keras_bert.layers.embeddings import EmbeddingPostprocessor, WordEmbedding
from keras_bert.layers.encoder_block import EncoderBlock, PreNormEncoderBlock
from keras_bert.layers.layer_norm import RMSNormalization
from keras_bert.layers.local_attention import LocalEncoderBlock, LocalSelfAttention
from keras_bert.layers.masked_lm import (
    FurtherColumns,
    MaskedLanguageModelTransform,
    OutputBias,
    PickedStates,
)
from keras_bert.layers.mobilebert.bottleneck_block import (
    Bottleneck,
    BottleneckEncoderBlock,
    BottleneckSelfAttention,
    FeedForwardNetwork,
)
from keras_bert.layers.mobilebert.no_norm import NoNorm
from keras_bert.layers.mobilebert.trigram_embeddings import TrigramEmbeddings
from keras_bert.layers.pooling import WindowPooling
from keras_bert.layers.replaced_token import ReplacedTokenDetection
from keras_bert.layers.rotary_attention import (
    RotaryBertBlock,
    RotaryPostNormBlock,
    RotaryRMSNormBlock,
)
from keras_bert.layers.self_attention import SelfAttention
from keras_bert.models.multiple_choice import FlattenChoices, UnflattenChoices

_HIDDEN = np.random.default_rng(0).normal(size=(2, 5, 32)).astype("float32")
_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "int32")
_IDS = np.array([[1, 2, 0, 1, 2], [0, 0, 1, 1, 2]], "int32")

# Layer, arguments (none of them the default), inputs of a call.
_CASES = [
    (WordEmbedding, {"vocab_size": 3, "hidden_size": 8, "initializer_range": 0.5}, (_IDS,)),
    (
        EmbeddingPostprocessor,
        {
            "max_position_embeddings": 6,
            "type_vocab_size": 3,
            "dropout_rate": 0.2,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "position_initializer": "sinusoids",
            "first_position": 2,
            "reads_segments": False,
            "has_positions": False,
            "has_norm": False,
        },
        (_HIDDEN, _IDS),
    ),
    (
        SelfAttention,
        {
            "num_attention_heads": 2,
            "dropout_rate": 0.3,
            "initializer_range": 0.5,
            "seed": 4,
            "attention_initializer": "neighbors",
        },
        (_HIDDEN, _MASK),
    ),
    (
        EncoderBlock,
        {
            "num_attention_heads": 2,
            "intermediate_size": 12,
            "hidden_act": "relu",
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.3,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "attention_initializer": "neighbors",
        },
        (_HIDDEN, _MASK),
    ),
    (
        PreNormEncoderBlock,
        {
            "num_attention_heads": 2,
            "intermediate_size": 12,
            "hidden_act": "relu",
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.3,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "attention_initializer": "neighbors",
            "is_first": True,
            "is_last": True,
        },
        (_HIDDEN, _MASK),
    ),
    (
        LocalSelfAttention,
        {
            "num_attention_heads": 2,
            "attention_window": 2,
            "global_tokens": 0,
            "global_projections": True,
            "dropout_rate": 0.3,
            "initializer_range": 0.5,
            "seed": 4,
            "attention_initializer": "neighbors",
        },
        (_HIDDEN, _MASK),
    ),
    (
        LocalEncoderBlock,
        {
            "num_attention_heads": 2,
            "intermediate_size": 12,
            "hidden_act": "relu",
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.3,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "attention_initializer": "neighbors",
            "attention_window": 2,
            "global_tokens": 0,
            "global_projections": True,
        },
        (_HIDDEN, _MASK),
    ),
    (
        DisentangledSelfAttention,
        {
            "num_attention_heads": 2,
            "dropout_rate": 0.3,
            "initializer_range": 0.5,
            "seed": 4,
            "attention_initializer": "neighbors",
            "position_buckets": 4,
            "max_relative_positions": 8,
            "pos_att_type": "c2p",
            "distance_dropout_rate": 0.2,
            "layer_norm_eps": 1e-3,
        },
        (_HIDDEN, _MASK),
    ),
    (
        DisentangledEncoderBlock,
        {
            "num_attention_heads": 2,
            "intermediate_size": 12,
            "hidden_act": "relu",
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.3,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "attention_initializer": "neighbors",
            "position_buckets": 4,
            "max_relative_positions": 8,
            "pos_att_type": "p2c",
        },
        (_HIDDEN, _MASK),
    ),
    (
        DisentangledEmbeddings,
        {
            "max_position_embeddings": 6,
            "type_vocab_size": 3,
            "dropout_rate": 0.2,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "position_initializer": "sinusoids",
            "first_position": 2,
            "reads_segments": False,
            "has_positions": False,
            "has_norm": False,
            "position_buckets": 4,
            "max_relative_positions": 8,
        },
        (_HIDDEN, _IDS),
    ),
    (
        RotaryBertBlock,
        {
            "num_attention_heads": 2,
            "intermediate_size": 12,
            "hidden_act": "silu",
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.3,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "attention_initializer": "neighbors",
            "rope_theta": 50.0,
            "rope_factor": 3.0,
        },
        (_HIDDEN, _MASK),
    ),
    (
        RotaryPostNormBlock,
        {
            "num_attention_heads": 2,
            "intermediate_size": 12,
            "hidden_act": "silu",
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.3,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "attention_initializer": "neighbors",
            "rope_theta": 50.0,
            "rope_factor": 3.0,
            "use_bias": True,
            "gate_dropout_prob": 0.4,
        },
        (_HIDDEN, _MASK),
    ),
    (
        RotaryRMSNormBlock,
        {
            **{"num_attention_heads": 2, "intermediate_size": 12, "hidden_act": "silu"},
            **{"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3},
            **{"initializer_range": 0.5, "layer_norm_eps": 1e-3, "seed": 4},
            **{"attention_initializer": "neighbors", "attention_window": 2, "rope_theta": 50.0},
            **{"output_initializer_range": 0.4, "is_first": True, "is_last": True},
            **{"rope_factor": 3.0, "num_key_value_heads": 2},
        },
        (_HIDDEN, _MASK),
    ),
    (
        BottleneckSelfAttention,
        {
            "num_attention_heads": 2,
            "width": 6,
            "shares_bottleneck": False,
            "layer_norm_eps": 1e-3,
            "normalization_type": "layer_norm",
            "dropout_rate": 0.3,
            "initializer_range": 0.5,
            "seed": 4,
            "attention_initializer": "neighbors",
        },
        (_HIDDEN, _MASK),
    ),
    (
        BottleneckEncoderBlock,
        {
            "num_attention_heads": 2,
            "intermediate_size": 12,
            "hidden_act": "silu",
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.3,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "attention_initializer": "neighbors",
            "block_width": 32,
            "use_bottleneck": False,
            "attention_input": "hidden",
            "num_feedforward_networks": 2,
            "normalization_type": "layer_norm",
        },
        (_HIDDEN, _MASK),
    ),
    (
        Bottleneck,
        {
            **{"units": 6, "initializer_range": 0.5, "layer_norm_eps": 1e-3},
            "normalization_type": "layer_norm",
        },
        (_HIDDEN,),
    ),
    (
        FeedForwardNetwork,
        {
            **{"intermediate_size": 6, "hidden_act": "silu", "initializer_range": 0.5},
            **{"layer_norm_eps": 1e-3, "normalization_type": "layer_norm"},
        },
        (_HIDDEN,),
    ),
    (
        TrigramEmbeddings,
        {
            "max_position_embeddings": 6,
            "type_vocab_size": 3,
            "dropout_rate": 0.2,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "position_initializer": "sinusoids",
            "first_position": 2,
            "reads_segments": False,
            "has_positions": False,
            "has_norm": False,
            "hidden_size": 32,
            "trigram_input": False,
            "transforms_words": False,
            "normalization_type": "layer_norm",
        },
        (_HIDDEN, _IDS),
    ),
    (NoNorm, {}, (_HIDDEN,)),
    (
        FurtherColumns,
        {"vocab_size": 3, "units": 4, "initializer_range": 0.5},
        (_HIDDEN, _HIDDEN[..., :3]),
    ),
    (
        CrossAttention,
        {
            "num_attention_heads": 2,
            "dropout_rate": 0.3,
            "initializer_range": 0.5,
            "seed": 4,
        },
        (_HIDDEN, _HIDDEN[:, :3], _MASK[:, :3]),
    ),
    (
        DecoderBlock,
        {
            "num_attention_heads": 2,
            "intermediate_size": 12,
            "hidden_act": "relu",
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.3,
            "initializer_range": 0.5,
            "layer_norm_eps": 1e-3,
            "seed": 4,
            "attention_initializer": "neighbors",
        },
        (_HIDDEN, np.ones((2, 5, 5), "int32"), _HIDDEN[:, :3], _MASK[:, :3]),
    ),
    (
        MaskedLanguageModelTransform,
        {
            **{"hidden_act": "silu", "initializer_range": 0.5, "layer_norm_eps": 1e-3},
            **{"units": 5, "use_bias": False},
        },
        (_HIDDEN, np.array([[0, 3], [2, 2]], "int32")),
    ),
    (ReplacedTokenDetection, {"hidden_act": "silu", "initializer_range": 0.5}, (_HIDDEN,)),
    (OutputBias, {"use_bias": False}, (_HIDDEN,)),
    (PickedStates, {}, (_HIDDEN, _IDS)),
    (RMSNormalization, {"epsilon": 1e-3}, (_HIDDEN,)),
    (FlattenChoices, {}, (_HIDDEN,)),
    (
        WindowPooling,
        {"pooling": "attention", "initializer_range": 0.5},
        (_HIDDEN, _MASK[:, :, None]),
    ),
    (UnflattenChoices, {}, (np.arange(10, dtype="float32")[:, None], _HIDDEN)),
]


def _own_arguments(layer_class):
    """Those of a class, and of its bases where these get the rest of them: `**arguments`."""
    parameters = inspect.signature(layer_class.__init__).parameters
    inherited = {*inspect.signature(keras.layers.Layer.__init__).parameters, "args", "kwargs"}
    rest = {name for name, one in parameters.items() if one.kind is one.VAR_KEYWORD} - {"kwargs"}
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {name for name, one in parameters.items() if one.kind not in variable}
    bases = layer_class.__bases__ if rest else ()
    return named.union(*map(_own_arguments, bases)) - inherited


@pytest.mark.parametrize(
    ("layer_class", "arguments", "inputs"), _CASES, ids=[case[0].__name__ for case in _CASES]
)
def test_config_keeps_every_argument(layer_class, arguments, inputs):
    assert set(arguments) == _own_arguments(layer_class), "the case must set every argument"
    layer = layer_class(**arguments, name="named", dtype="mixed_bfloat16")
    config = layer.get_config()
    assert {key: config[key] for key in arguments} == arguments
    again = layer_class.from_config(config)
    assert again.get_config() == config
    assert (again.name, again.dtype_policy.name) == ("named", "mixed_bfloat16")


@pytest.mark.parametrize(
    ("layer_class", "arguments", "inputs"), _CASES, ids=[case[0].__name__ for case in _CASES]
)
def test_layer_rebuilt_from_its_config_computes_the_same(layer_class, arguments, inputs):
    layer = layer_class(**arguments)
    expected = keras.ops.convert_to_numpy(layer(*inputs))
    again = layer_class.from_config(layer.get_config())
    again(*inputs)
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(again(*inputs)), expected)


def test_too_long_a_sequence_is_refused():
    layer = EmbeddingPostprocessor(max_position_embeddings=4, type_vocab_size=2)
    with pytest.raises(ValueError, match="5 pieces is longer than the model's 4 positions"):
        layer(_HIDDEN, _IDS)
