"""The encoder with local attention: BERT where the window covers the text, heads, presets."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertEncoder,
    DistilBertConfig,
    ElectraConfig,
    LocalBertConfig,
    LocalBertEncoder,
    LongformerConfig,
    LongformerEncoder,
    RobertaConfig,
    create_encoder,
    extend_positions,
    inspect_model,
    with_local_attention,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from keras_bert.models.conversion.convert import convert
from keras_bert.signatures.unpadded_encoder import UnpaddedEncoder
from keras_bert.training.distillation import ATTENTION, HIDDEN_STATE, check_imitation
from keras_bert.training.memory import block_activations
from tests.tolerances import REORDERED

SIZE = dict(
    vocab_size=19,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=20,
    initializer_range=0.5,
)


@pytest.fixture(scope="module")
def plain():
    keras.utils.set_random_seed(1)
    return BertEncoder(BertConfig(**SIZE), seed=1)


def features(length=20):
    ids = np.random.default_rng(0).integers(1, 19, (3, length)).astype("int32")
    mask = np.ones_like(ids)
    mask[1, 5:], mask[2, 13:] = 0, 0
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


def test_a_window_over_all_is_bert(plain):
    inputs = features()
    expected = plain(inputs)
    whole = with_local_attention(plain, attention_window=19)(inputs)
    narrow = with_local_attention(plain, attention_window=3)(inputs)
    real = inputs["input_mask"].astype(bool)
    for output, rows in (("sequence_output", real), ("pooled_output", [True] * 3)):
        found, other = np.array(whole[output])[rows], np.array(narrow[output])[rows]
        np.testing.assert_allclose(found, np.array(expected[output])[rows], **REORDERED)
        assert np.abs(found - other).max() > 1e-2
    # Of five pieces a window of 4 leaves none out.
    short = with_local_attention(plain, attention_window=4)(inputs)["sequence_output"]
    np.testing.assert_allclose(short[1, :5], expected["sequence_output"][1, :5], **REORDERED)


def test_it_is_served_without_padding_as_it_is_trained(plain):
    local = with_local_attention(plain, attention_window=3, global_tokens=2)
    inputs = {name: tf.constant(values) for name, values in features().items()}
    served = UnpaddedEncoder(local, tokens_per_chunk=16)
    expected = local(inputs)
    real = np.array(expected["sequence_output"])[np.array(inputs["input_mask"], bool)]
    np.testing.assert_allclose(served.sequence_output(inputs).values, real, **REORDERED)
    pooled = served.pooled_output(inputs)
    np.testing.assert_allclose(pooled, expected["pooled_output"], **REORDERED)


def test_rows_far_shorter_than_the_window_are_served(plain):
    local = with_local_attention(plain, attention_window=256)
    inputs = {name: tf.constant(values[:, :6]) for name, values in features().items()}
    specs = [{name: tf.TensorSpec([None, None], tf.int32, name=name) for name in inputs}]
    encoder = UnpaddedEncoder(local, tokens_per_chunk=8)
    served = tf.function(encoder.sequence_output, input_signature=specs)(inputs)
    expected = np.array(plain(inputs)["sequence_output"])[np.array(inputs["input_mask"], bool)]
    np.testing.assert_allclose(served.values, expected, **REORDERED)


def test_heads_and_presets_take_it(plain, tmp_path):
    model = BertClassifier(BertConfig(**SIZE), num_classes=3)
    local = extend_positions(with_local_attention(model, attention_window=3), 50)
    assert isinstance(local.encoder, LocalBertEncoder)
    local.save_to_preset(tmp_path / "local")
    again = BertClassifier.from_preset(tmp_path / "local")
    assert again.config == LocalBertConfig(
        **SIZE | {"max_position_embeddings": 50}, attention_window=3
    )
    inputs = {name: np.tile(values, 2) for name, values in features().items()}  # 40 positions
    np.testing.assert_array_equal(again(inputs), local(inputs))
    assert isinstance(BertEncoder.from_preset(tmp_path / "local"), LocalBertEncoder)
    (tmp_path / "hf").mkdir()
    with pytest.raises(ValueError, match="model_type is 'local_bert'"):
        checkpoints.write(preset.read_checkpoint(tmp_path / "local"), tmp_path / "hf", "hf")


def test_another_window_keeps_the_global_positions():
    config = LocalBertConfig(**SIZE, attention_window=3, global_tokens=2)
    encoder = create_encoder(config)
    assert with_local_attention(encoder, 5).config == config.replace(attention_window=5)
    assert with_local_attention(encoder, 5, global_tokens=0).config.global_tokens == 0
    assert with_local_attention(create_encoder(BertConfig(**SIZE)), 5).config.global_tokens == 1


@pytest.mark.slow
def test_a_roberta_becomes_a_longformer(tmp_path):
    keras.utils.set_random_seed(2)
    model = BertClassifier(RobertaConfig(**SIZE), num_classes=3, seed=1)
    inputs = features()
    whole = with_local_attention(model, attention_window=19)
    assert whole.config == LongformerConfig(**SIZE, attention_window=19)
    np.testing.assert_allclose(whole(inputs), model(inputs), **REORDERED)
    narrow = with_local_attention(model, attention_window=3)
    assert np.abs(np.array(narrow(inputs)) - np.array(model(inputs))).max() > 1e-2
    encoder = with_local_attention(create_encoder(RobertaConfig(**SIZE)), attention_window=3)
    assert isinstance(encoder, LongformerEncoder)
    # The weights of a converted folder are the same.
    model.save_to_preset(tmp_path / "roberta")
    (tmp_path / "longformer").mkdir()
    report = convert(tmp_path / "roberta", tmp_path / "longformer", "hf", attention_window=3)
    assert "attention:       full -> window 3, 1 global\n" in str(report)
    again = BertClassifier.from_preset(tmp_path / "longformer")
    assert again.config == narrow.config
    np.testing.assert_allclose(again(inputs), narrow(inputs), **REORDERED)


def test_global_projections_are_further_columns():
    """In the last layer they speak for the first position alone."""
    config = LongformerConfig(**SIZE, attention_window=3, global_tokens=1)
    encoder = create_encoder(config, seed=1)
    # 2 layers of kernel [8, 48] in place of [8, 24], with their biases.
    plain_count = create_encoder(RobertaConfig(**SIZE)).count_params()
    assert encoder.count_params() - plain_count == 2 * (8 * 24 + 24)
    inputs = features()
    before = np.array(encoder(inputs)["sequence_output"])
    last = encoder.get_layer("layer_1").attention.query_key_value.kernel
    changed = np.array(last)
    changed[:, 8:16] = changed[:, 24:32] = changed[:, 40:48] = 0.0  # the global ones
    last.assign(changed)
    after = np.array(encoder(inputs)["sequence_output"])
    np.testing.assert_array_equal(after[:, 1:], before[:, 1:])
    assert np.abs(after[:, 0] - before[:, 0]).max() > 1e-2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"attention_window": [4, 8]}, r"attention_window is \[4, 8\]: it must be one even number"),
        ({"attention_window": 5}, "attention_window is 5: it must be one even number"),
        (
            {"attention_dilation": [1, 2]},
            r"attention_dilation is \[1, 2\]: only 1 is supported in all",
        ),
        ({"attention_dilation": 2}, "attention_dilation is 2: only 1 is supported in all layers"),
        ({"attention_window": [4]}, r"attention_window is \[4\]: it must be one even number"),
        ({"attention_window": [[4], [4]]}, r"attention_window is \[\[4\], \[4\]\]: it must be"),
        ({"autoregressive": True}, "autoregressive is True: only False is supported"),
    ],
)
def test_a_longformer_of_another_form_is_refused(changes, sentence):
    published = {
        "model_type": "longformer",
        "attention_mode": "longformer",
        "attention_dilation": [1, 1],
        "attention_window": [4, 4],
        "max_position_embeddings": 22,
        "num_hidden_layers": 2,
    }
    assert BertConfig.from_dict(published, "hf").attention_window == 2
    with pytest.raises(ValueError, match=sentence):
        BertConfig.from_dict(published | changes, "hf")


def test_a_folder_is_converted_and_the_report_says_so(plain, tmp_path):
    plain.save_to_preset(tmp_path / "plain")
    targets = [tmp_path / name for name in ("local", "wider", "refused")]
    for target in targets:
        target.mkdir()
    report = convert(tmp_path / "plain", targets[0], "keras", attention_window=3)
    assert "attention:       full -> window 3, 1 global\n" in str(report)
    report = convert(targets[0], targets[1], "keras", attention_window=5)
    assert "attention:       window 3, 1 global -> window 5, 1 global\n" in str(report)
    assert BertEncoder.from_preset(targets[1]).config.attention_window == 5
    create_encoder(DistilBertConfig(**SIZE, type_vocab_size=0)).save_to_preset(tmp_path / "distil")
    with pytest.raises(ValueError, match="'distilbert': local attention is there for BERT and Ro"):
        convert(tmp_path / "distil", targets[2], "keras", attention_window=3)


def test_operations_and_memory_follow_the_window():
    config = LocalBertConfig(**SIZE, attention_window=4)
    # 14 positions are four blocks of 4, each against 12 keys and [CLS]; [CLS] against 14.
    assert config.attention_pairs(14) == 16 * 13 + 14
    # Up to three windows are one block.
    assert config.attention_pairs(12) == 12 * 13 + 12
    assert config.replace(attention_window=256).attention_pairs(10) == 10 * 11 + 10
    encoder = create_encoder(config)
    report = inspect_model(encoder, 20, 1)
    pairs = 20 * 13 + 20
    assert report.forward_flops["attention, scores and context"] == 2 * 2 * 2 * pairs * 8
    # Query, key and value of [8, 8] once more; three numbers of width 8 more are kept of a token.
    longformer = LongformerConfig(**SIZE, attention_window=4)
    again = inspect_model(create_encoder(longformer), 20, 1)
    name = "attention, projections"
    assert again.forward_flops[name] - report.forward_flops[name] == 2 * 2 * 20 * 3 * 8 * 8
    kept = [block_activations(numbers, 20, 2) for numbers in (config, longformer)]
    assert kept[1] - kept[0] == 20 * 2 * 3 * 8


@pytest.mark.parametrize("who", ["student", "teacher"])
def test_scores_that_it_never_uses_are_not_compared(who):
    pair = {"student": BertConfig(**SIZE), "teacher": BertConfig(**SIZE)}
    pair[who] = LocalBertConfig(**SIZE)
    check = functools.partial(check_imitation, chosen=(), projected=False, **pair)
    assert check({HIDDEN_STATE}) == (0, 1)
    with pytest.raises(ValueError, match=f"the {who} is a local_bert, .* --attention_weight"):
        check({ATTENTION})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LocalBertConfig(attention_window=0), "attention_window is 0: it must be an int"),
        (lambda: LocalBertConfig(global_tokens=-1), "global_tokens is -1: it must be an integer"),
        (lambda: LocalBertConfig(left_to_right=True), "left_to_right is True: attention in a"),
        (lambda: LongformerConfig(attention_window=0), "attention_window is 0: it must be an int"),
        (lambda: local_encoder(packed=True), "packed is True, but attention in a window"),
        (lambda: local_encoder(output_attention_probs=True), "output_attention_probs is True"),
        (
            lambda: with_local_attention(create_encoder(ElectraConfig(**SIZE, embedding_size=8))),
            "the family 'electra': local attention is there for BERT and RoBERTa",
        ),
        (lambda: with_local_attention("runs/bert"), "the model is a str: give one of the package"),
    ],
)
def test_what_it_cannot_do_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def local_encoder(**arguments):
    return create_encoder(LocalBertConfig(**SIZE, attention_window=3), **arguments)
