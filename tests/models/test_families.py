"""The families in the house of BERT: presets, files of Keras, serving, fine-tuning."""

import json
import math
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    AlbertConfig,
    AlbertEncoder,
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertMaskedLM,
    BertPreprocessor,
    BertReplacedTokenDetector,
    BertTokenizer,
    DebertaV2Config,
    DebertaV2Encoder,
    DistilBertConfig,
    DistilBertEncoder,
    ElectraConfig,
    ElectraEncoder,
    EuroBertConfig,
    EuroBertEncoder,
    FinetuningOptions,
    GteConfig,
    GteEncoder,
    JinaEmbeddingsV3Config,
    JinaEmbeddingsV3Encoder,
    LongformerConfig,
    LongformerEncoder,
    MegatronBertConfig,
    MegatronBertEncoder,
    MobileBertConfig,
    MobileBertEncoder,
    ModernBertConfig,
    ModernBertEncoder,
    MPNetConfig,
    MPNetEncoder,
    NomicBertConfig,
    NomicBertEncoder,
    RobertaConfig,
    RobertaEncoder,
    Vocabulary,
    create_encoder,
    create_optimizer,
    export_saved_model,
    extend_positions,
    finetune,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints.variables import variable_shapes
from keras_bert.finetuning.model_preparation import layer_rates
from keras_bert.layers.self_attention import split_heads
from keras_bert.models import preset
from keras_bert.models.surgery.layer_selection import select_layers
from keras_bert.signatures.unpadded_encoder import UnpaddedEncoder
from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from tests.conftest import WORDS, sentiment_rows, write_csv
from tests.markers import some_slow
from tests.tolerances import BFLOAT16, REORDERED

NUMBERS = {
    "vocab_size": 31,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
    "initializer_range": 0.3,
}
CONFIGS = {
    "distilbert": DistilBertConfig(**NUMBERS),
    "electra": ElectraConfig(**NUMBERS, embedding_size=6),
    "albert": AlbertConfig(**NUMBERS, embedding_size=6, shared_parameters="attention"),
    "roberta": RobertaConfig(**NUMBERS),
    # Distances of 2 and more to each side share buckets.
    "mpnet": MPNetConfig(**NUMBERS, relative_attention_num_buckets=8),
    # Rows of 8 positions are more than three windows.
    "longformer": LongformerConfig(**NUMBERS, attention_window=2),
    # So they are in its second block.
    "modernbert": ModernBertConfig(
        **NUMBERS, pad_token_id=0, attention_window=2, global_attention_every=2
    ),
    # Distances of 2 and more to each side share rows.
    "deberta-v2": DebertaV2Config(**NUMBERS, position_buckets=4),
    "nomic_bert": NomicBertConfig(**NUMBERS),
    "gte": GteConfig(**NUMBERS, rope_factor=1.5),
    "jina_embeddings_v3": JinaEmbeddingsV3Config(**NUMBERS),
    "mobilebert": MobileBertConfig(
        **NUMBERS, embedding_size=6, intra_bottleneck_size=8, num_feedforward_networks=2
    ),
    "megatron-bert": MegatronBertConfig(**NUMBERS),
    # Both heads share keys and values.
    "eurobert": EuroBertConfig(**NUMBERS, pad_token_id=0, num_key_value_heads=1),
}
ENCODERS = {
    "distilbert": DistilBertEncoder,
    "electra": ElectraEncoder,
    "albert": AlbertEncoder,
    "roberta": RobertaEncoder,
    "mpnet": MPNetEncoder,
    "longformer": LongformerEncoder,
    "modernbert": ModernBertEncoder,
    "deberta-v2": DebertaV2Encoder,
    "nomic_bert": NomicBertEncoder,
    "gte": GteEncoder,
    "jina_embeddings_v3": JinaEmbeddingsV3Encoder,
    "mobilebert": MobileBertEncoder,
    "megatron-bert": MegatronBertEncoder,
    "eurobert": EuroBertEncoder,
}
BATCH = {
    "input_ids": np.random.default_rng(0).integers(5, 31, (3, 8)).astype(np.int32),
    "input_mask": np.tri(8, dtype=np.int32)[[7, 4, 2]],
    "segment_ids": np.tile([0, 0, 0, 0, 1, 1, 1, 1], (3, 1)).astype(np.int32),
}

families = pytest.mark.parametrize("family", CONFIGS)


@families
def test_a_folder_of_any_head_brings_the_family_along(family, tmp_path):
    model = BertMaskedLM(CONFIGS[family], seed=1)
    model.save_to_preset(tmp_path)
    encoder = BertEncoder.from_preset(tmp_path)
    assert type(encoder) is ENCODERS[family]
    assert encoder.config == CONFIGS[family]
    np.testing.assert_array_equal(
        encoder(BATCH)["sequence_output"], model.encoder(BATCH)["sequence_output"]
    )
    other = ENCODERS["electra" if family == "distilbert" else "distilbert"]
    with pytest.raises(ValueError, match=f"describes a {ENCODERS[family].__name__}"):
        other.from_preset(tmp_path)
    BertEncoder(BertConfig(**NUMBERS)).save_to_preset(tmp_path / "bert")
    with pytest.raises(ValueError, match="a BertEncoder .*: open it as BertEncoder"):
        ENCODERS[family].from_preset(tmp_path / "bert")


@families
def test_a_keras_file_comes_back(family, tmp_path):
    head = BertReplacedTokenDetector if family == "electra" else BertClassifier
    arguments = {} if family == "electra" else {"num_classes": 3}
    model = head(CONFIGS[family], **arguments, seed=1)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(BATCH), model(BATCH))


@families
def test_serving_computes_the_same(family):
    encoder = create_encoder(CONFIGS[family], seed=1)
    expected = encoder(BATCH)
    served = UnpaddedEncoder(encoder, tokens_per_chunk=7)
    batch = {name: tf.constant(value) for name, value in BATCH.items()}
    np.testing.assert_allclose(served.pooled_output(batch), expected["pooled_output"], **REORDERED)
    rows = served.sequence_output(batch)
    for row, length in enumerate([8, 5, 3]):
        np.testing.assert_allclose(
            rows[row], expected["sequence_output"][row, :length], **REORDERED
        )


KERNELS_OF_ONEDNN = """
import sys
import numpy as np
import tensorflow as tf
from keras_bert.signatures.unpadded_encoder import UnpaddedEncoder
from tests.models.test_families import BATCH, CONFIGS, create_encoder
from tests.signatures.test_unpadded_encoder import without_onednn

tf.config.optimizer.set_experimental_options({"remapping": sys.argv[1] == "on"})
batch = {name: tf.constant(value) for name, value in BATCH.items()}
spec = [{name: tf.TensorSpec((None, None), tf.int32) for name in batch}]
draw = np.random.default_rng(0)
# Without remapping, one of each norm and attention.
norms = ("mpnet", "modernbert", "deberta-v2", "mobilebert", "eurobert")
for family, config in CONFIGS.items():
    if sys.argv[1] == "off" and family not in norms:
        continue
    exact = create_encoder(config, seed=1)
    encoder = create_encoder(config, seed=1, dtype="bfloat16")
    encoder.set_weights(exact.get_weights())
    plain = UnpaddedEncoder(encoder, 7)
    served = UnpaddedEncoder(encoder, 7, onednn=True)
    for name in ("sequence_output", "pooled_output"):
        expected = getattr(UnpaddedEncoder(exact, 7), name)(batch)
        answer = tf.function(getattr(served, name), input_signature=spec)
        if without_onednn(answer, batch):
            continue
        found = [getattr(plain, name)(batch), answer(batch)]
        if name == "sequence_output":
            expected, found = expected.values, [rows.values for rows in found]
        off = [np.abs(np.float32(values) - expected).mean() for values in found]
        assert off[1] < 1.5 * off[0] + 1e-3, (family, name, off)
        for _ in range(30):  # rows of all lengths, and so chunks of all sizes
            mask = (np.arange(8) < draw.integers(1, 9, (draw.integers(1, 12), 1))).astype(np.int32)
            answer({"input_ids": 5 * mask, "input_mask": mask, "segment_ids": 0 * mask})
"""


# Where TensorFlow does not put a layer norm in its place, oneDNN's norm of pictures writes beyond
# its arrays, but for sizes that its blocks divide: then the process is killed, here or later.
@pytest.mark.slow
@pytest.mark.half_precision
@pytest.mark.parametrize("remapping", ["on", "off"])
def test_kernels_of_onednn_serve_every_family(remapping):
    command = [sys.executable, "-c", KERNELS_OF_ONEDNN, remapping]
    subprocess.run(command, check=True, env={**os.environ, "MALLOC_CHECK_": "3"})


@pytest.mark.parametrize(
    "family",
    [
        *("distilbert", "roberta", "mpnet", "modernbert", "deberta-v2", "gte", "eurobert"),
        "jina_embeddings_v3",
    ],
)
def test_segments_are_not_looked_at(family):
    encoder = create_encoder(CONFIGS[family], seed=1)
    other = BATCH | {"segment_ids": 1 - BATCH["segment_ids"]}
    expected = encoder(BATCH)["sequence_output"]
    np.testing.assert_array_equal(encoder(other)["sequence_output"], expected)
    tables = [weight for weight in encoder.weights if "segment" in weight.path]
    assert len(tables) == (family in ("roberta", "gte", "jina_embeddings_v3"))
    for table in tables:  # one row, which every piece gets
        assert table.shape == (1, 16)
        table.assign_add(np.random.default_rng(0).normal(size=(1, 16)))
        assert np.abs(encoder(BATCH)["sequence_output"] - expected).min() > 0


def test_roberta_counts_positions_from_behind_that_of_the_padding():
    encoder = RobertaEncoder(CONFIGS["roberta"].replace(pad_token_id=3), seed=1)
    table = next(weight for weight in encoder.weights if "position" in weight.path)
    assert table.shape == (4 + 12, 16)
    expected = encoder(BATCH)["sequence_output"]
    values = table.numpy()
    values[:4] = 9  # rows that no piece has
    table.assign(values)
    np.testing.assert_array_equal(encoder(BATCH)["sequence_output"], expected)
    values[4] += np.arange(16)  # that of the first piece
    table.assign(values)
    assert np.abs(encoder(BATCH)["sequence_output"] - expected).max() > 1e-3
    # Twelve positions are the model's, whatever the table has; a thirteenth is refused.
    long = {name: np.tile(value, (1, 2))[:, :13] for name, value in BATCH.items()}
    assert encoder({name: value[:, :12] for name, value in long.items()})
    with pytest.raises(ValueError, match="13 pieces is longer than the model's 12 positions"):
        encoder(long)


# A MobileBERT reads a word with the one behind it, which padding may be.
@pytest.mark.parametrize("family", [name for name in CONFIGS if name != "mobilebert"])
def test_what_stands_in_padding_changes_nothing(family):
    encoder = create_encoder(CONFIGS[family], seed=1)
    mask = BATCH["input_mask"] == 1
    ids = np.where(mask, BATCH["input_ids"], [[0], [1], [3]])
    expected, found = (encoder(batch) for batch in (BATCH, BATCH | {"input_ids": ids}))
    for name in ("sequence_output", "pooled_output"):
        rows = mask if name == "sequence_output" else ...
        np.testing.assert_array_equal(
            np.asarray(found[name])[rows], np.asarray(expected[name])[rows]
        )


# Attention in windows has no place for a mask of all pairs.
@pytest.mark.parametrize("family", [name for name in CONFIGS if name != "longformer"])
def test_packed_documents_have_the_activations_that_they_have_alone(family):
    encoder = create_encoder(CONFIGS[family], seed=1)
    packed = create_encoder(CONFIGS[family], packed=True)
    packed.set_weights(encoder.get_weights())
    first, second = BATCH["input_ids"][0, :5], BATCH["input_ids"][1, :3]
    segments = np.zeros((1, 8), np.int32)
    found = packed(
        {
            "input_ids": np.concatenate([first, second])[None],
            "input_mask": np.ones((1, 8), np.int32),
            "segment_ids": segments,
            "pack_ids": np.array([[1] * 5 + [2] * 3], np.int32),
            "position_ids": np.array([[0, 1, 2, 3, 4, 0, 1, 2]], np.int32),
        }
    )["sequence_output"][0]
    for part, ids in ((found[:5], first), (found[5:], second)):
        alone = {"input_ids": ids[None], "input_mask": np.ones_like(ids)[None]}
        alone["segment_ids"] = segments[:, : len(ids)]
        np.testing.assert_allclose(part, encoder(alone)["sequence_output"][0], **REORDERED)


@pytest.mark.half_precision
@pytest.mark.parametrize(
    "family", ["albert", "roberta", "mpnet", "modernbert", "deberta-v2", "gte", "eurobert"]
)
def test_bfloat16_computes_about_the_same(family):
    encoder = create_encoder(CONFIGS[family], seed=1)
    half = create_encoder(CONFIGS[family], dtype="mixed_bfloat16")
    half.set_weights(encoder.get_weights())
    found = half(BATCH)["sequence_output"]
    assert found.dtype == tf.bfloat16
    np.testing.assert_allclose(
        tf.cast(found, tf.float32), encoder(BATCH)["sequence_output"], **BFLOAT16
    )


@pytest.mark.parametrize("shared", ["all", "attention", "feed_forward"])
def test_shared_parameters_get_the_sum_of_the_gradients(shared):
    """Against layers of their own that hold equal values."""
    config = CONFIGS["albert"].replace(shared_parameters=shared, num_hidden_layers=3)
    encoder = AlbertEncoder(config, seed=1)
    apart = AlbertEncoder(config.replace(shared_parameters="none"), seed=1)
    values = {weight.path: weight.numpy() for weight in encoder.weights}

    def of_all(path):  # layer_2/output/kernel -> layer_0/output/kernel, where that is shared
        return path if path in values else f"layer_0/{path.partition('/')[2]}"

    for weight in apart.weights:
        weight.assign(values[of_all(weight.path)])
    gradients = []
    for one in (encoder, apart):
        variables = one.trainable_variables
        with tf.GradientTape() as tape:
            outputs = one(BATCH)
            loss = sum(tf.reduce_sum(output**3) for output in outputs.values())
        found = tape.gradient(loss, [variable.value for variable in variables])
        gradients.append(
            {v.path: tf.convert_to_tensor(g) for v, g in zip(variables, found, strict=True)}
        )
    sums = dict.fromkeys(values, 0.0)
    for path, gradient in gradients[1].items():
        sums[of_all(path)] += gradient
    assert gradients[0].keys() == sums.keys()
    assert len(sums) < len(gradients[1])
    for path, gradient in gradients[0].items():
        scale = np.abs(sums[path]).max() + 1e-30
        np.testing.assert_allclose(gradient / scale, sums[path] / scale, **REORDERED, err_msg=path)


@pytest.mark.parametrize("shared", ["all", "attention", "feed_forward", "none"])
def test_variables_of_layers_that_share_are_told_and_have_a_rate(shared):
    config = CONFIGS["albert"].replace(shared_parameters=shared)
    encoder = AlbertEncoder(config, seed=1)
    shapes = {weight.path: tuple(weight.shape) for weight in encoder.weights}
    assert shapes == variable_shapes(config, "BertEncoder", {})
    # By hand: attention of 4 x 16 x 17 and its norm, feed-forward 16 x 25 + 24 x 17 and its norm.
    attention, feed_forward = 4 * 16 * 17 + 32, 24 * 17 + 16 * 25 + 32
    one = {"attention": attention, "feed_forward": feed_forward, "none": 0}
    layers = 2 * (attention + feed_forward) - one.get(shared, attention + feed_forward)
    others = (31 + 12 + 2 + 2) * 6 + 7 * 16 + 16 * 17
    assert encoder.count_params() == layers + others
    # A pattern that matches no variable is refused.
    create_optimizer(rate_scales=layer_rates(config, 0.5)).build(encoder.trainable_variables)


@families
def test_the_activation_of_the_pooler_is_the_familys(family):
    encoder = create_encoder(CONFIGS[family], seed=1)
    outputs = encoder(BATCH)
    pooler = encoder.get_layer("pooler")
    states = outputs["sequence_output"]
    first = states[:, 0]
    if family == "eurobert":  # on each piece, and then the mean
        found = tf.nn.gelu(states @ pooler.kernel + pooler.bias)
        expected = [
            found[row, :length].numpy().mean(axis=0) for row, length in enumerate([8, 5, 3])
        ]
    elif family == "modernbert":  # no bias, and a norm without an offset
        values = tf.nn.gelu(first @ pooler.dense.kernel).numpy()
        values -= values.mean(axis=-1, keepdims=True)
        expected = values / np.sqrt((values**2).mean(axis=-1, keepdims=True) + 1e-5)
    else:
        functions = {"distilbert": tf.nn.relu, "electra": tf.nn.gelu, "deberta-v2": tf.nn.gelu}
        function = functions.get(family, tf.nn.tanh)
        expected = function(first @ pooler.kernel + pooler.bias)
    np.testing.assert_allclose(outputs["pooled_output"], expected, **REORDERED)


@pytest.mark.parametrize(
    ("family", "format"),
    [
        *(("distilbert", "google"), ("distilbert", "garden"), ("electra", "garden")),
        *(("mpnet", "google"), ("modernbert", "google"), ("modernbert", "garden")),
        *(("deberta-v2", "google"), ("nomic_bert", "google"), ("gte", "garden")),
        *(("mobilebert", "garden"), ("megatron-bert", "google")),
        *(("eurobert", "google"), ("jina_embeddings_v3", "garden")),
    ],
)
def test_other_formats_refuse_it(family, format, tmp_path):
    checkpoint = preset.as_checkpoint(create_encoder(CONFIGS[family]))
    with pytest.raises(ValueError, match=f"model_type is '{family}'"):
        checkpoints.write(checkpoint, tmp_path, format)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # By hand, and a pooler besides: 30,522 words and 512 positions of 768, a norm, six blocks
        # of 4 x 768 x 769 + 769 x 3072 + 3073 x 768 + 4 x 768 = 7,087,872.
        ("distilbert_base", 31_034 * 768 + 2 * 768 + 6 * 7_087_872 + 768 * 769),
        # Words, positions and segments of 128, a norm, a projection, twelve blocks of
        # 4 x 256 x 257 + 257 x 1024 + 1025 x 256 + 4 x 256 = 789,760.
        ("electra_small", 31_036 * 128 + 2 * 128 + 129 * 256 + 12 * 789_760 + 256 * 257),
        # 30,000 words; one block for all layers.
        ("albert_base", 30_514 * 128 + 2 * 128 + 129 * 768 + 7_087_872 + 768 * 769),
    ],
)
def test_named_sizes(name, parameters):
    assert create_encoder(BertConfig.from_name(name)).count_params() == parameters


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # As transformers counts `AlbertModel`, `RobertaModel` and `MPNetModel` of the published
        # configs.
        ("albert_base", 11_683_584),
        ("albert_large", 17_683_968),
        ("albert_xlarge", 58_724_864),
        ("albert_xxlarge", 222_595_584),
        ("roberta_base", 124_645_632),
        ("roberta-large", 355_359_744),
        ("distilroberta-base", 82_118_400),
        ("mpnet-base", 109_486_464),
        # `ModernBertModel`, and the layer before its heads, which is the pooler here.
        ("modernbert_base", 149_014_272 + 768 * 768 + 768),
        ("modernbert-large", 394_781_696 + 1024 * 1024 + 1024),
        # `DebertaV2Model`, and the pooler, which is a part of its heads there.
        ("deberta_v3_small", 141_304_320 + 769 * 768),
        ("mdeberta-v3-base", 278_218_752 + 769 * 768),
        # `NomicBertModel` and `GteModel`, and the pooler, which they have with a classifier.
        ("nomic_bert_base", 136_731_648 + 769 * 768),
        ("gte_base", 136_776_192 + 769 * 768),
        ("gte-large", 434_137_088 + 1025 * 1024),
        ("gte_multilingual_base", 305_368_320 + 769 * 768),
        # `JinaEmbeddingsV3Model`.
        ("jina_embeddings_v3", 559_364_096),
        # `MobileBertModel`, which has no layer behind [CLS] either.
        ("mobilebert", 24_581_888),
        ("mobilebert_tiny", 15_485_696),
        ("megatron_bert_345m", 333_640_704),
        # `EuroBertModel`, likewise.
        ("eurobert_210m", 211_766_016 + 769 * 768),
        ("eurobert_610m", 607_874_688 + 1153 * 1152),
        ("eurobert_2.1b", 2_107_590_912 + 2305 * 2304),
    ],
)
def test_named_sizes_of_other_libraries(name, parameters):
    shapes = variable_shapes(BertConfig.from_name(name), "BertEncoder", {})
    assert sum(map(math.prod, shapes.values())) == parameters


def test_unknown_sizes_are_told_with_all_names():
    with pytest.raises(ValueError, match="'electra_tiny' is not a named size: choose one of bert_"):
        BertConfig.from_name("electra_tiny")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"embedding_size": 0}, "embedding_size is 0: it must be an integer of at least 1"),
        ({"generator_size": 1.5}, "generator_size is 1.5: it must be above 0 and at most 1"),
        ({"generator_size": "0.25"}, "generator_size is '0.25': it must be above 0"),
    ],
)
def test_numbers_out_of_range_are_told(fields, message):
    with pytest.raises(ValueError, match=message):
        ElectraConfig(**NUMBERS, **fields)


def test_what_files_of_others_hold_besides():
    # Of Maltehb/-l-ctra-danish-electra-small-cased: transformers does not read it.
    config = BertConfig.from_dict({"model_type": "electra", "generator_size": "0.25"}, "hf")
    assert config == ElectraConfig()
    # Of a file that is written by hand as the recipe says, whose model_type is all that it names.
    config = BertConfig.from_dict({"model_type": "electra", "generator_size": 0.5}, "hf")
    assert config == ElectraConfig(generator_size=0.5)
    # What transformers' DistilBERT does not read, and its own default of one dropout.
    values = {"model_type": "distilbert", "dim": 24, "type_vocab_size": 2, "layer_norm_eps": 0.1}
    config = BertConfig.from_dict(values, "hf")
    assert config == DistilBertConfig(hidden_size=24, classifier_dropout=0.2)
    with pytest.raises(ValueError, match="hidden_size is 36, and hidden_size, .* is 24"):
        BertConfig.from_dict(values | {"hidden_size": 36}, "hf")


def test_what_files_of_albert_and_roberta_hold_besides(tmp_path):
    values = {"model_type": "albert", "num_hidden_groups": 1, "inner_group_num": 1}
    numbers = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
    # Of albert-base-v2: nobody reads these.
    idle = {"down_scale_factor": 1, "gap_size": 0, "net_structure_type": 0, "num_memory_blocks": 0}
    assert BertConfig.from_dict(values | numbers | idle, "hf") == AlbertConfig()
    assert BertConfig.from_dict(values, "hf").num_attention_heads == 64  # their own default
    for key in ("num_hidden_groups", "inner_group_num"):
        with pytest.raises(ValueError, match=f"{key} is 2: groups of layers with parameters"):
            BertConfig.from_dict(values | {key: 2}, "hf")
    # 514 rows there, of which two are never used.
    values = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    for kind in ("roberta", "xlm-roberta", "camembert"):
        config = BertConfig.from_dict(values | {"model_type": kind}, "hf")
        assert config == RobertaConfig(hugging_face_type=kind)
        assert config.to_dict("hf").items() >= (values | {"model_type": kind}).items()
        # In a file of our own it is the 512 that can be used.
        (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
        assert BertConfig.from_file(tmp_path) == config
    assert RobertaConfig().max_position_embeddings == 512


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AlbertConfig(shared_parameters="some"), "shared_parameters is 'some': choose one"),
        (lambda: AlbertConfig(embedding_size=0), "embedding_size is 0"),
        (
            lambda: AlbertConfig(shared_parameters="none").to_dict("hf"),
            "shared_parameters is 'none': the files of transformers keep an ALBERT whose layers",
        ),
        (lambda: RobertaConfig(hugging_face_type="bert"), "hugging_face_type is 'bert': choose"),
        (
            lambda: RobertaConfig.from_dict({"max_position_embeddings": 2}, "hf"),
            "max_position_embeddings is 2 and pad_token_id 1: positions begin behind",
        ),
        (
            lambda: LongformerConfig.from_dict({"num_hidden_layers": "2"}, "hf"),
            "num_hidden_layers is '2': it must be an integer of at least 1",
        ),
        (
            lambda: MPNetConfig(type_vocab_size=False),
            "type_vocab_size is False: mpnet has no segments, so 0",
        ),
        (
            lambda: MPNetConfig(relative_attention_num_buckets=7),
            "relative_attention_num_buckets is 7: it must be even, from 4 to 256",
        ),
        (
            lambda: MPNetConfig(pad_token_id=0).to_dict("hf"),
            "pad_token_id is 0: transformers' MPNet has 1 in its code, whatever its config says; "
            "save such a model",
        ),
        (
            lambda: MPNetConfig.from_dict({"relative_attention_num_buckets": 64}, "hf"),
            "relative_attention_num_buckets is 64: transformers' MPNet has 32 in its code",
        ),
    ],
)
def test_what_a_family_cannot_be_is_told(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("family", ["distilbert", "mpnet", "modernbert", "deberta-v2"])
def test_segments_of_families_without_them_are_refused(family):
    with pytest.raises(ValueError, match=f"type_vocab_size is 2: {family} has no segments"):
        CONFIGS[family].replace(type_vocab_size=2)


@pytest.mark.half_precision
@pytest.mark.parametrize("family", ["mpnet", "deberta-v2"])
def test_distances_are_served_with_weights_in_bfloat16(family):
    """What is added to the scores is float32, whatever the dtype of the table."""
    encoder = create_encoder(CONFIGS[family], seed=1)
    half = create_encoder(CONFIGS[family], dtype="bfloat16")
    half.set_weights(encoder.get_weights())
    found = tf.cast(half(BATCH)["sequence_output"], tf.float32)
    np.testing.assert_allclose(found, encoder(BATCH)["sequence_output"], **BFLOAT16)


def test_all_blocks_of_an_mpnet_read_one_table_of_distances():
    encoder = create_encoder(CONFIGS["mpnet"], seed=1)
    expected = encoder(BATCH)["sequence_output"]
    [table] = [weight for weight in encoder.weights if "relative" in weight.path]
    assert table.shape == (8, 2)  # [buckets, heads]
    # The same number for all distances of a head changes no probability; another for one does.
    table.assign_add([[3.0, -2.0]] * 8)
    np.testing.assert_allclose(encoder(BATCH)["sequence_output"], expected, **REORDERED)
    table.assign_add([[1.0, 0.0]] + [[0.0, 0.0]] * 7)
    assert np.abs(encoder(BATCH)["sequence_output"] - expected).max() > 1e-3
    # What the attention of a teacher is learned from is what it attends with.
    whole = create_encoder(CONFIGS["mpnet"], output_attention_probs=True)
    whole.set_weights(encoder.get_weights())
    attention, hidden = encoder.encoder_blocks()[0].attention, encoder.get_layer("embeddings")
    inputs = hidden(encoder.word_embeddings(BATCH["input_ids"][:1]), BATCH["segment_ids"][:1])
    query, key, _ = split_heads(attention.project(inputs), 2)
    first = {name: value[:1] for name, value in BATCH.items()}  # a row without padding
    np.testing.assert_allclose(
        tf.nn.softmax(attention.scores(query, key)),
        whole(first)["attention_probs"][0],
        **REORDERED,
    )
    # Blocks of a layer selection keep it: it stands with the embeddings.
    checkpoint = select_layers(preset.as_checkpoint(encoder), [1])
    np.testing.assert_array_equal(checkpoint.variables[table.path], table)


def test_all_blocks_of_a_deberta_read_one_table_of_distances():
    """By hand, each pair of positions by itself: a score is the sum of three products."""
    config = CONFIGS["deberta-v2"]
    encoder = create_encoder(config, output_attention_probs=True, seed=1)
    for weight in encoder.weights:  # zeros would hide that one is left out
        weight.assign_add(np.random.default_rng(0).normal(0, 0.1, weight.shape))
    first = {name: value[:1] for name, value in BATCH.items()}  # a row without padding
    probs = encoder(first)["attention_probs"]
    table, gamma, beta = (v.numpy() for v in encoder.weights if "relative_positions" in v.path)
    assert table.shape == (8, 16)  # [rows, width]
    centered = table - table.mean(axis=1, keepdims=True)
    vectors = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-7) * gamma + beta
    hidden = encoder.get_layer("embeddings")(
        encoder.word_embeddings(first["input_ids"]), first["segment_ids"]
    )
    for block, found in zip(encoder.encoder_blocks(), probs, strict=True):
        kernel, bias = (value.numpy() for value in block.attention.query_key_value.weights)
        of_words = np.split(hidden.numpy()[0] @ kernel + bias, 3, axis=1)  # [S, H] each
        of_distances = np.split(vectors @ kernel + bias, 3, axis=1)  # [8, H] each
        for head in (0, 1):
            query, key = (part[:, 8 * head :][:, :8] for part in of_words[:2])
            their_query, their_key = (part[:, 8 * head :][:, :8] for part in of_distances[:2])
            # Rows of distances -11 to 11, by hand: 4 + the bucket, of which two are exact to a
            # side, and of those from 3 on ceil(log(d / 2) / log(11 / 2)) is 1.
            row = {0: 4, 1: 5, 2: 6} | dict.fromkeys(range(3, 12), 7)
            row |= {-1: 3, -2: 2} | dict.fromkeys(range(-11, -2), 1)
            scores = np.array(
                [
                    [
                        query[i] @ key[j]
                        + query[i] @ their_key[row[i - j]]
                        + key[j] @ their_query[row[i - j]]
                        for j in range(8)
                    ]
                    for i in range(8)
                ]
            )
            np.testing.assert_allclose(
                found[0, head], tf.nn.softmax(scores / np.sqrt(3 * 8)), **REORDERED
            )
        hidden = block(hidden, first["input_mask"])
    # Blocks of a layer selection keep it: it stands with the embeddings.
    checkpoint = select_layers(preset.as_checkpoint(encoder), [1])
    np.testing.assert_array_equal(
        checkpoint.variables["embeddings/relative_positions/embeddings"], table
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position_buckets": 5}, "position_buckets is 5: it must be even, or 0 for one row"),
        ({"position_buckets": 2.0}, "position_buckets is 2.0: it must be an integer"),
        ({"max_relative_positions": 0}, "max_relative_positions is 0: it must be at least 1, or"),
        ({"max_relative_positions": 3}, "position_buckets is 4, and 2 of them .* is 3: give fewer"),
        ({"pos_att_type": "p2p"}, "pos_att_type is 'p2p': choose one of p2c|c2p, p2c, c2p"),
    ],
)
def test_numbers_of_a_deberta_out_of_range_are_told(changes, message):
    with pytest.raises(ValueError, match=message):
        CONFIGS["deberta-v2"].replace(**changes)


# https://huggingface.co/microsoft/deberta-v3-base, config.json.
V3_BASE = {
    "model_type": "deberta-v2",
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "layer_norm_eps": 1e-7,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "type_vocab_size": 0,
    "vocab_size": 128100,
}


@pytest.mark.parametrize("buckets", [0, 4])
def test_a_deberta_reads_longer_texts_with_the_distances_that_it_knows(buckets):
    encoder = create_encoder(CONFIGS["deberta-v2"].replace(position_buckets=buckets), seed=1)
    longer = extend_positions(encoder, 40)
    assert longer.config.max_position_embeddings == 40
    assert longer.config.distance_vectors == encoder.config.distance_vectors
    np.testing.assert_array_equal(
        longer(BATCH)["sequence_output"], encoder(BATCH)["sequence_output"]
    )
    long = {name: np.tile(value, (1, 4)) for name, value in BATCH.items()}
    assert np.isfinite(longer(long)["sequence_output"]).all()
    with pytest.raises(ValueError, match="32 pieces is longer than the model's 12 positions"):
        encoder(long)


def test_published_configs_of_deberta():
    config = BertConfig.from_dict(V3_BASE, "hf")
    assert config == DebertaV2Config.from_name("deberta_v3_base")
    assert config == DebertaV2Config()
    named = {"pooler_hidden_size": 768, "pooler_dropout": 0, "pooler_hidden_act": "gelu"}
    named |= {"attention_head_size": 64, "embedding_size": 768, "pos_att_type": ["c2p", "p2c"]}
    assert BertConfig.from_dict(V3_BASE | named | {"legacy": True}, "hf") == config
    small = BertConfig.from_dict(V3_BASE | {"cls_dropout": 0.0, "position_buckets": -1}, "hf")
    assert (small.classifier_dropout, small.position_buckets) == (0.0, 0)
    assert small.distance_vectors == 2 * 512
    assert DebertaV2Config.from_name("deberta-v3-tiny").hidden_size == 128


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relative_attention": False}, "relative_attention is False: only True is supported"),
        ({"share_att_key": None}, "share_att_key is False, as the file does not name it: only"),
        ({"position_biased_input": True}, "position_biased_input is True: only False is"),
        ({"norm_rel_ebd": "none"}, "norm_rel_ebd is 'none': only 'layer_norm' is supported"),
        ({"type_vocab_size": 2}, "type_vocab_size is 2: only 0 is supported"),
        ({"conv_kernel_size": 3}, "conv_kernel_size is 3: a convolution beside the first block"),
        ({"pooler_hidden_act": "tanh"}, "pooler_hidden_act is 'tanh': only 'gelu' is supported"),
        ({"pooler_hidden_size": 5}, "pooler_hidden_size is 5: only that of hidden_size, 768, is"),
        ({"pooler_dropout": 0.1}, "pooler_dropout is 0.1: only 0 is supported; it changes train"),
        ({"attention_head_size": 32}, "attention_head_size is 32: only heads that divide hidden"),
        ({"embedding_size": 128}, "embedding_size is 128: it must equal hidden_size, which is 768"),
        (
            {"pos_att_type": "p2p|c2p"},
            r"pos_att_type is 'p2p\|c2p': choose one of p2c|c2p, p2c, c2p",
        ),
        ({"pos_att_type": []}, r"pos_att_type is \[\]: a DeBERTa whose attention knows no dist"),
        ({"position_buckets": "256"}, "position_buckets is '256': it must be an integer"),
    ],
)
def test_what_a_deberta_cannot_be_is_told(changes, message):
    values = {key: value for key, value in (V3_BASE | changes).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        BertConfig.from_dict(values, "hf")


@families
def test_no_variable_starts_with_the_numbers_of_another(family):
    model = BertReplacedTokenDetector(CONFIGS[family])
    drawn = {}
    for weight in model.weights:
        numbers = np.array(weight).ravel()
        if numbers.std() > 0:  # neither a bias nor a scale
            # Whatever the deviation: equal draws are proportional.
            start = tuple(np.round(numbers[:8] / numbers[0], 3))
            assert drawn.setdefault(start, weight.path) == weight.path
    assert len(drawn) > 10


@pytest.mark.parametrize("family", ["mpnet", "deberta-v2"])
def test_a_frozen_block_leaves_the_table_of_distances_alone(family):
    encoder = create_encoder(CONFIGS[family])
    encoder.encoder_blocks()[0].trainable = False
    assert {weight.path.split("/")[0] for weight in encoder.non_trainable_weights} == {"layer_0"}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(BATCH)["sequence_output"] ** 3)
    [table] = [v for v in encoder.trainable_variables if "relative_positions/emb" in v.path]
    assert tape.gradient(loss, table.value) is not None
    encoder.get_layer("embeddings").trainable = False
    assert not table.trainable


@pytest.mark.parametrize("family", some_slow(CONFIGS, ("electra", "roberta")))
def test_it_is_finetuned_on_pairs_and_answers_from_strings(family, tmp_path):
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *WORDS])
    config = CONFIGS[family].replace(vocab_size=len(vocabulary), max_position_embeddings=32)
    create_encoder(config, seed=1).save_to_preset(tmp_path / "start", BertTokenizer(vocabulary))
    for seed, (name, count) in enumerate({"train": 300, "dev": 30, "test": 30}.items()):
        rows = [("a film", text, label) for text, label in sentiment_rows(count, seed)]
        write_csv(tmp_path / "pairs" / f"{name}.csv", ["text", "text_pair", "label"], rows)
    task, run = csv_task(), tmp_path / "run"
    options = FinetuningOptions(
        epochs=2, batch_size=32, learning_rate=3e-3, mixed_precision="float32"
    )
    finetune(task, task.read(tmp_path / "pairs"), tmp_path / "start", run, options)
    model = BertClassifier.from_preset(run, dtype="float32")
    assert type(model.encoder) is ENCODERS[family]
    texts = ["a good film", "bad", "it was very sad and the book was awful", ""]
    pairs = ["a film", "the book", "", "good"]
    served = tf.saved_model.load(export_saved_model(run, tmp_path / "export"))
    found = served.signatures["serving_default"](
        text=tf.constant(texts), text_pair=tf.constant(pairs)
    )
    preprocess = BertPreprocessor(BertTokenizer.from_preset(run), max_seq_length=16)
    expected = keras.ops.softmax(model(preprocess((texts, pairs)), training=False))
    np.testing.assert_allclose(found["scores"], expected, **REORDERED)


def test_layers_that_share_parameters_cannot_be_chosen_from():
    checkpoint = preset.as_checkpoint(create_encoder(CONFIGS["albert"]))
    with pytest.raises(ValueError, match="those of an ALBERT share their parameters: leave it out"):
        select_layers(checkpoint, [1])


def test_a_megatron_bert_of_some_layers_keeps_the_norm_behind_the_last():
    """By hand: the blocks that are left, then that norm; the first reads what the words give."""
    encoder = create_encoder(CONFIGS["megatron-bert"].replace(num_hidden_layers=3), seed=1)
    for weight in encoder.weights:  # ones and zeros would hide that a norm is lost
        weight.assign_add(np.random.default_rng(0).normal(0, 0.1, weight.shape))
    smaller = preset.from_checkpoint(
        BertEncoder, select_layers(preset.as_checkpoint(encoder), [2, 0]), {}
    )
    hidden = encoder.get_layer("embeddings")(
        encoder.word_embeddings(BATCH["input_ids"]), BATCH["segment_ids"]
    )
    first, _, last = encoder.encoder_blocks()
    for block in (last, first):
        block.is_last = False
        hidden = block(hidden, BATCH["input_mask"])
    expected = last.final_norm(hidden)
    np.testing.assert_allclose(smaller(BATCH)["sequence_output"], expected, **REORDERED)
