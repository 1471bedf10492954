"""An ELECTRA as Google released it: a TensorFlow 1 checkpoint without a config file.

Names and shapes are those that google-research/electra gives the variables of electra_small, with
its generator and the optimizer's slots. Oracle: ELECTRA of transformers, its tensors filled by
names written here.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert import BertReplacedTokenDetector, ElectraConfig
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from keras_bert.models.conversion.convert import convert
from tests.tolerances import ORACLE

VOCAB, EMBEDDING, WIDTH, LAYERS, INNER, POSITIONS, SEGMENTS = 19, 6, 128, 2, 14, 11, 2
GENERATOR_WIDTH = 8
BATCH = {
    "input_ids": np.random.default_rng(1).integers(0, VOCAB, (2, 9)),
    "input_mask": np.array([[1] * 9, [1] * 5 + [0] * 4]),
    "segment_ids": np.random.default_rng(2).integers(0, SEGMENTS, (2, 9)),
}


def transformer_shapes(scope, width, inner):
    shapes = {
        f"{scope}/embeddings_project/bias": [width],
        f"{scope}/embeddings_project/kernel": [EMBEDDING, width],
    }
    for layer in range(LAYERS):
        for name, inputs, outputs in (
            ("attention/self/query", width, width),
            ("attention/self/key", width, width),
            ("attention/self/value", width, width),
            ("attention/output/dense", width, width),
            ("intermediate/dense", width, inner),
            ("output/dense", inner, width),
        ):
            shapes[f"{scope}/encoder/layer_{layer}/{name}/kernel"] = [inputs, outputs]
            shapes[f"{scope}/encoder/layer_{layer}/{name}/bias"] = [outputs]
        for name in ("attention/output/LayerNorm", "output/LayerNorm"):
            shapes[f"{scope}/encoder/layer_{layer}/{name}/beta"] = [width]
            shapes[f"{scope}/encoder/layer_{layer}/{name}/gamma"] = [width]
    return shapes


DISCRIMINATOR = {
    "electra/embeddings/LayerNorm/beta": [EMBEDDING],
    "electra/embeddings/LayerNorm/gamma": [EMBEDDING],
    "electra/embeddings/position_embeddings": [POSITIONS, EMBEDDING],
    "electra/embeddings/token_type_embeddings": [SEGMENTS, EMBEDDING],
    "electra/embeddings/word_embeddings": [VOCAB, EMBEDDING],
    **transformer_shapes("electra", WIDTH, INNER),
    "discriminator_predictions/dense/bias": [WIDTH],
    "discriminator_predictions/dense/kernel": [WIDTH, WIDTH],
    "discriminator_predictions/dense_1/bias": [1],
    "discriminator_predictions/dense_1/kernel": [WIDTH, 1],
}
GENERATOR = {
    **transformer_shapes("generator", GENERATOR_WIDTH, 4 * GENERATOR_WIDTH),
    "generator_predictions/LayerNorm/beta": [EMBEDDING],
    "generator_predictions/LayerNorm/gamma": [EMBEDDING],
    "generator_predictions/dense/bias": [EMBEDDING],
    "generator_predictions/dense/kernel": [GENERATOR_WIDTH, EMBEDDING],
    "generator_predictions/output_bias": [VOCAB],
}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A folder with electra_tiny.* and vocab.txt, and the weights in it."""
    folder = tmp_path_factory.mktemp("release")
    random = np.random.default_rng(0)
    weights = {
        name: random.normal(0, 0.3, shape).astype("float32")
        for name, shape in (DISCRIMINATOR | GENERATOR).items()
    }
    slots = {
        f"{name}/{slot}": np.zeros_like(value)
        for name, value in weights.items()
        for slot in ("adam_m", "adam_v")
    }
    stored = weights | slots | {"global_step": np.int64(1_000_000)}
    tf.raw_ops.SaveV2(
        prefix=str(folder / "electra_tiny"),
        tensor_names=list(stored),
        shape_and_slices=[""] * len(stored),
        tensors=[tf.constant(value) for value in stored.values()],
    )
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmn"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder, weights


def test_the_numbers_follow_from_the_shapes(release):
    folder, _ = release
    found = preset.read_config(folder)
    assert found == ElectraConfig(
        vocab_size=VOCAB,
        embedding_size=EMBEDDING,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,  # each 64 wide
        intermediate_size=INNER,
        max_position_embeddings=POSITIONS,
        type_vocab_size=SEGMENTS,
    )
    assert type(keras_bert.BertEncoder.from_preset(folder)).__name__ == "ElectraEncoder"


def test_a_config_beside_it_counts(release, tmp_path):
    folder, _ = release
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    values = preset.read_config(folder).replace(num_attention_heads=4).to_dict("hf")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(values | {"model_type": "electra"}), encoding="utf-8")
    assert BertReplacedTokenDetector.from_preset(tmp_path).config.num_attention_heads == 4
    config.write_text(json.dumps({"model_type": "bert"}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"an ELECTRA's, but config\.json a bert's: give the"):
        BertReplacedTokenDetector.from_preset(tmp_path)


def test_it_converts_without_its_generator_and_back(release, tmp_path):
    folder, weights = release
    (tmp_path / "ours").mkdir()
    report = convert(folder, tmp_path / "ours", "keras").checkpoint.report
    assert report.tensors_mapped == len(DISCRIMINATOR)
    generator = {name: reason for name, reason in report.dropped.items() if name in GENERATOR}
    assert generator.keys() == GENERATOR.keys()
    assert set(generator.values()) == {"the generator, which only pretraining uses"}
    (tmp_path / "theirs").mkdir()
    again = convert(tmp_path / "ours", tmp_path / "theirs", "google")
    assert again.left_out == ("pooler/kernel", "pooler/bias")  # of heads that have no names there
    reader = tf.train.load_checkpoint(str(tmp_path / "theirs" / "bert_model.ckpt"))
    assert reader.get_variable_to_shape_map() == DISCRIMINATOR
    for name in DISCRIMINATOR:
        np.testing.assert_array_equal(reader.get_tensor(name), weights[name], name)
    # The file of transformers beside it keeps what shapes do not tell.
    assert preset.read_config(tmp_path / "theirs") == preset.read_config(folder)


def test_a_head_without_names_there_is_refused(tmp_path):
    model = keras_bert.BertClassifier(ElectraConfig(vocab_size=19, num_hidden_layers=1), 2)
    with pytest.raises(ValueError, match="no names for the head of BertClassifier: convert the"):
        checkpoints.write(preset.as_checkpoint(model), tmp_path, "google")


@pytest.mark.oracle
def test_it_computes_what_transformers_does(release):
    import torch
    import transformers

    folder, weights = release
    config = transformers.ElectraConfig(
        vocab_size=VOCAB,
        embedding_size=EMBEDDING,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        intermediate_size=INNER,
        max_position_embeddings=POSITIONS,
    )
    theirs = transformers.ElectraForPreTraining(config).eval()
    filled = set()
    for name, parameter in theirs.named_parameters():
        their_name = name.replace("dense_prediction", "dense_1").replace("layer.", "layer_")
        their_name = their_name.replace(".", "/")
        for ending, named in (
            ("LayerNorm/weight", "LayerNorm/gamma"),
            ("LayerNorm/bias", "LayerNorm/beta"),
            ("embeddings/weight", "embeddings"),
            ("/weight", "/kernel"),
        ):
            if their_name.endswith(ending):
                their_name = their_name.removesuffix(ending) + named
                break
        value = weights[their_name]
        with torch.no_grad():
            parameter.copy_(torch.tensor(value.T if their_name.endswith("kernel") else value))
        filled.add(their_name)
    assert filled == DISCRIMINATOR.keys()
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(BATCH["input_ids"]),
            attention_mask=torch.tensor(BATCH["input_mask"]),
            token_type_ids=torch.tensor(BATCH["segment_ids"]),
        ).logits.numpy()
    found = BertReplacedTokenDetector.from_preset(folder)(BATCH).numpy()
    kept = BATCH["input_mask"] == 1
    np.testing.assert_allclose(found[kept], expected[kept], **ORACLE)
