"""Operations against those that TensorFlow counts in the graph; memory and peaks by hand."""

import math

import pytest
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import (
    convert_variables_to_constants_v2_as_graph,
)

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertMaskedLM,
    BertTokenClassifier,
    inspect_model,
)
from keras_bert.training.devices import peak_tflops
from keras_bert.training.flops import training_flops
from keras_bert.training.memory import training_memory
from tests.markers import some_fast
from tests.signatures.tiny_models import MODELS, tiny_config

BATCH, LENGTH, CHOICES = 2, 12, 3


def counted(model, shape, predictions):
    """Operations of the matrix products of a forward pass, as TensorFlow's profiler counts them."""
    specs = {
        name: tf.TensorSpec(
            [BATCH, predictions] if name == "masked_lm_positions" else shape, tf.int32
        )
        for name in model.input
    }
    forward = tf.function(lambda batch: model(batch, training=False))
    frozen, _ = convert_variables_to_constants_v2_as_graph(forward.get_concrete_function(specs))
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    found = tf.compat.v1.profiler.profile(frozen.graph, cmd="op", options=options)
    by_kind = {}
    while found.children:
        (found,) = found.children
        by_kind[found.name] = found.float_ops
    return sum(by_kind.get(kind, 0) for kind in ("MatMul", "BatchMatMulV2"))


@pytest.mark.parametrize(
    "name",
    some_fast(
        ("classes", "plain_tags", "spans", "choices", "encoder", "masked_lm", "pretrainer"),
        ("plain_tags", "choices", "pretrainer"),
    ),
)
def test_products_are_those_that_tensorflow_counts(name):
    model_class, head, labels = MODELS[name]
    arguments = {} if head is None else head.with_labels(labels).model_arguments()
    model = model_class(tiny_config(), **arguments)
    report = inspect_model(model, LENGTH, BATCH)
    shape = [BATCH, CHOICES, LENGTH] if name == "choices" else [BATCH, LENGTH]
    sequences = math.prod(shape[:-1])
    # The segments are looked up as a product with a table of 2 x 16: no part of the model's own.
    segments = 2 * sequences * LENGTH * 2 * 16
    found = counted(model, shape, report.predictions) - segments
    expected = sequences * sum(report.forward_flops.values())
    assert found == expected
    assert report.step_flops == training_flops(
        {part: BATCH * flops for part, flops in report.forward_flops.items()}
    )


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_products_of_a_classifier_of_pooled_vectors_are_those_that_tensorflow_counts(pooling):
    model = BertClassifier(tiny_config(), num_classes=3, pooling=pooling)
    report = inspect_model(model, LENGTH, BATCH)
    found = counted(model, [BATCH, LENGTH], 0) - 2 * BATCH * LENGTH * 2 * 16  # of the segments
    assert found == BATCH * sum(report.forward_flops.values())


def test_products_of_a_modernbert_are_those_that_tensorflow_counts():
    """Gates, a pooler that every token goes through, a window of all pairs and one in blocks."""
    numbers = {"model_type": "modernbert", "pad_token_id": 0, "global_attention_every": 2}
    for window in (1, 2):
        config = tiny_config(**numbers, attention_window=window)
        model = BertTokenClassifier(config, num_classes=3)
        report = inspect_model(model, LENGTH, BATCH)
        assert counted(model, [BATCH, LENGTH], 0) == BATCH * sum(report.forward_flops.values())


@pytest.mark.parametrize("family", ["nomic_bert", "gte", "jina_embeddings_v3"])
def test_products_with_angles_in_blocks_with_norms_behind_are_those_that_tensorflow_counts(family):
    segments = {} if family == "nomic_bert" else {"type_vocab_size": 1}
    model = BertMaskedLM(tiny_config(model_type=family, **segments))
    report = inspect_model(model, LENGTH, BATCH)
    # The look-up of segments, which the others do without a product.
    found = counted(model, [BATCH, LENGTH], report.predictions)
    found -= 0 if segments else 2 * BATCH * LENGTH * 2 * 16
    assert found == BATCH * sum(report.forward_flops.values())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param(
            {"use_bottleneck_attention": True, "classifier_activation": False},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"key_query_shared_bottleneck": False, "num_feedforward_networks": 1},
            marks=pytest.mark.slow,
        ),
        pytest.param({"use_bottleneck": False, "trigram_input": False}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_products_of_a_mobilebert_are_those_that_tensorflow_counts(changes):
    numbers = {"embedding_size": 6, "intra_bottleneck_size": 8, "num_feedforward_networks": 3}
    config = tiny_config(model_type="mobilebert", **numbers | changes)
    for model in (BertMaskedLM(config), BertClassifier(config, num_classes=3)):
        report = inspect_model(model, LENGTH, BATCH)
        found = counted(model, [BATCH, LENGTH], report.predictions)
        found -= 2 * BATCH * LENGTH * 2 * 16  # the look-up of segments
        assert found == BATCH * sum(report.forward_flops.values())
    assert sum(report.parameters.values()) == model.count_params()
    assert "other" not in report.parameters or not report.parameters["other"]


def test_products_of_a_eurobert_are_those_that_tensorflow_counts():
    """Narrow keys and values, a pooler that every piece goes through, and no transform of words."""
    numbers = {"model_type": "eurobert", "type_vocab_size": 0, "num_key_value_heads": 1}
    config = tiny_config(**numbers, pad_token_id=0)
    for model in (BertMaskedLM(config), BertClassifier(config, num_classes=3)):
        report = inspect_model(model, LENGTH, BATCH)
        found = counted(model, [BATCH, LENGTH], report.predictions)
        assert found == BATCH * sum(report.forward_flops.values())


@pytest.mark.parametrize("parts", ["p2c|c2p", "c2p"])
def test_products_of_a_deberta_are_those_that_tensorflow_counts(parts):
    """Of one sequence, as queries and keys of distances are computed once for a batch."""
    config = tiny_config(model_type="deberta-v2", position_buckets=4, pos_att_type=parts)
    model = BertTokenClassifier(config, num_classes=3)
    report = inspect_model(model, LENGTH, 1)
    assert counted(model, [1, LENGTH], 0) == sum(report.forward_flops.values())


def test_a_frozen_encoder_has_no_backward_pass():
    model_class, head, labels = MODELS["bilstm"]
    model = model_class(tiny_config(), **head.with_labels(labels).model_arguments())
    report = inspect_model(model, LENGTH, 1)
    # Two layers, each in two directions: 4 gates of width 8 from the input and the state; 7 tags.
    by_hand = 2 * LENGTH * (2 * 32 * (16 + 8) + 2 * 32 * (16 + 8) + 16 * 7)
    assert report.forward_flops["head"] == by_hand
    assert report.step_flops["head"] == 3 * by_hand
    projections = 2 * 2 * LENGTH * 4 * 16 * 16
    assert report.step_flops["attention, projections"] == projections
    memory = report.step_memory["float32"]
    assert memory["activations"] == 0
    assert memory["gradients"] == 4 * report.parameters["head"] < memory["weights"]


def test_memory_by_hand():
    config = BertConfig(
        vocab_size=100,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=20,
    )
    found = training_memory(config, 1000, 900, 4, 10, 2, bytes_per_number=2)
    # A layer: 40 tokens of 2 x (10 x 8 + 2 x 20) bytes, 40 x 10 pairs of 2 heads with 4 + 2 x 2.
    assert found == {
        "weights": 4000,
        "gradients": 3600,
        "moments of the optimizer": 7200,
        "activations": 3 * (40 * 240 + 400 * 2 * 8),
        "logits of the vocabulary": 2 * 4 * 4 * 2 * 100,
    }


def test_it_is_near_what_a_compiler_needs():
    """What libtpu needs for bert_base on a v5e in bfloat16, in GiB: the table of docs/tpu.md."""
    for length, batch, compiled in ((128, 64, 5.00), (512, 16, 6.58)):
        memory = inspect_model("bert_base", length, batch).step_memory["bfloat16"]
        assert compiled < sum(memory.values()) / 2**30 < 1.4 * compiled


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H200", 989),
        ("NVIDIA H200 NVL", 835),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("Tesla T4", None),
    ],
)
def test_a_card_of_a_gpu_has_a_peak_of_its_own(monkeypatch, name, tflops):
    """Names as NVIDIA's driver tells them; half of what its data sheets say of sparse products."""
    gpu = tf.config.LogicalDevice("/device:GPU:0", "GPU")
    there = {"GPU": [gpu]}
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: there.get(kind, []))
    monkeypatch.setattr(tf.config, "list_physical_devices", there.get)
    details = {"device_name": name}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: details)
    assert peak_tflops(tf.distribute.get_strategy()) == tflops
