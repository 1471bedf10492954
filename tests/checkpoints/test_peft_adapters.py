"""Folders of PEFT, made by hand: sums by NumPy; PEFT itself is asked in `test_peft_oracle.py`."""

import json
import math

import numpy as np
import pytest
from safetensors.numpy import save_file

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertMaskedLM,
    enable_lora,
    load_encoder,
    load_model,
    load_tokenizer,
    save_lora_adapter,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints import sentence_modules
from keras_bert.models import preset
from keras_bert.models.document_classifier import BertDocumentClassifier
from tests.tolerances import FORMULA

CONFIG = BertConfig(
    vocab_size=9,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
)
PREFIX = "base_model.model."
LAYER = f"{PREFIX}bert.encoder.layer.0."
QUERY = f"{LAYER}attention.self.query"
SETTINGS = {
    "peft_type": "LORA",
    "task_type": "SEQ_CLS",
    "base_model_name_or_path": "../base",
    "r": 2,
    "lora_alpha": 6,
    "target_modules": ["query"],
}
DRAW = np.random.default_rng(0)


def drawn(*shape):
    return DRAW.normal(size=shape).astype(np.float32)


def pair(layer, inputs=8, outputs=8, rank=2):
    return {
        f"{layer}.lora_A.weight": drawn(rank, inputs),
        f"{layer}.lora_B.weight": drawn(outputs, rank),
    }


HEAD = {f"{PREFIX}classifier.weight": drawn(3, 8), f"{PREFIX}classifier.bias": drawn(3)}
TENSORS = {**pair(QUERY), **HEAD}


def write_adapter(folder, tensors=TENSORS, **settings):
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(SETTINGS | settings))
    save_file(dict(tensors), folder / "adapter_model.safetensors")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder of transformers with BERT's masked language model, and its tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "base"
    folder.mkdir()
    checkpoints.write(preset.as_checkpoint(BertMaskedLM(CONFIG, seed=0)), folder, "hf")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##d"]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return folder


def weights(model):
    return {weight.path: weight.numpy() for weight in model.weights}


def read(folder, **arguments):
    """The variables of a folder, without the time that a model takes."""
    return preset.read_checkpoint(folder, **arguments).variables


def test_an_adapter_opens_as_the_sum_with_its_base(base):
    table = f"{PREFIX}bert.embeddings.word_embeddings"
    output = f"{LAYER}output.dense"
    ranks = {"query": 3, "layer.0.output.dense": 4}
    tensors = {
        **pair(QUERY, rank=3),
        **pair(f"{LAYER}attention.self.value"),
        **pair(output, 12, 8, rank=4),
        f"{output}.lora_B.bias": drawn(8),
        # As PEFT names the biases that it trains along, of layers with A and B and of others.
        f"{QUERY}.base_layer.bias": drawn(8),
        f"{LAYER}intermediate.dense.bias": drawn(12),
        f"{table}.lora_embedding_A": drawn(2, 9),
        f"{table}.lora_embedding_B": drawn(8, 2),
        **HEAD,
        f"{PREFIX}classifier.original_module.bias": drawn(3),
        f"{PREFIX}classifier.modules_to_save.bias": HEAD[f"{PREFIX}classifier.bias"],
    }
    folder = write_adapter(
        base.parent / "adapter",
        tensors,
        use_rslora=True,
        rank_pattern=ranks,
        alpha_pattern={r"0\.output\.dense": 5},
        fan_in_fan_out=True,  # which PEFT turns off beside a Linear
        init_lora_weights="gaussian",
    )
    before = weights(load_encoder(base))

    def added(layer, alpha, rank):  # B A, turned as ours are
        a, b = (tensors[f"{layer}.lora_{name}.weight"].astype(float) for name in "AB")
        return alpha / math.sqrt(rank) * (b @ a).T

    expected = dict(before)
    kernel = before["layer_0/attention/query_key_value/kernel"].astype(float)
    kernel[:, :8] += added(QUERY, 6, 3)
    kernel[:, 16:] += added(f"{LAYER}attention.self.value", 6, 2)
    expected["layer_0/attention/query_key_value/kernel"] = kernel
    expected["layer_0/output/kernel"] = before["layer_0/output/kernel"] + added(output, 5, 4)
    expected["layer_0/output/bias"] = (
        before["layer_0/output/bias"] + 5 / math.sqrt(4) * tensors[f"{output}.lora_B.bias"]
    )
    bias = before["layer_0/attention/query_key_value/bias"].copy()
    bias[:8] = tensors[f"{QUERY}.base_layer.bias"]
    expected["layer_0/attention/query_key_value/bias"] = bias
    expected["layer_0/intermediate/bias"] = tensors[f"{LAYER}intermediate.dense.bias"]
    a, b = (tensors[f"{table}.lora_embedding_{name}"].astype(float) for name in "AB")
    words = "word_embeddings/embeddings"
    expected[words] = before[words] + 6 / math.sqrt(2) * (b @ a).T
    expected["classifier/kernel"] = HEAD[f"{PREFIX}classifier.weight"].T
    expected["classifier/bias"] = HEAD[f"{PREFIX}classifier.bias"]

    model = load_model(folder)
    assert type(model) is BertClassifier
    assert (model.num_classes, model.labels) == (3, None)
    found = weights(model)
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, **FORMULA, err_msg=path)
    report = preset.read_checkpoint(folder).report
    assert (
        "head that the model of the adapter does not have" in report.dropped["cls.predictions.bias"]
    )
    # What else asks a folder.
    assert preset.read_config(folder) == model.config
    assert load_tokenizer(folder).vocabulary.tokens[5:] == ("a", "b", "c", "##d")
    assert preset.weights_digest(folder) != preset.weights_digest(base)


def test_an_adapter_and_its_base_are_named_in_any_form(base, tmp_path):
    """With a prefix or without, beside or elsewhere, ours or theirs."""
    of_encoder = {"task_type": "FEATURE_EXTRACTION"}
    expected = read(write_adapter(base.parent / "with_head", **of_encoder))
    kernel = "layer_0/attention/query_key_value/kernel"
    assert not np.allclose(expected[kernel], read(base)[kernel])
    bare = {name.replace("model.bert.", "model."): value for name, value in TENSORS.items()}
    model = load_encoder(base)
    ours, alone = tmp_path / "ours", tmp_path / "alone"
    model.save_to_preset(ours)
    alone.mkdir()
    checkpoints.write(preset.as_checkpoint(model), alone, "hf")  # without a prefix
    for index, (tensors, named) in enumerate(
        [(bare, str(base)), (TENSORS, str(alone)), (bare, str(alone)), (TENSORS, str(ours))]
    ):
        settings = {**of_encoder, "base_model_name_or_path": named}
        found = read(write_adapter(tmp_path / f"adapter_{index}", tensors, **settings))
        for path, value in expected.items():
            np.testing.assert_array_equal(found[path], value, path)
    # A head that transformers does not have is left behind.
    BertDocumentClassifier(model, num_classes=2).save_to_preset(tmp_path / "long")
    settings = {**of_encoder, "base_model_name_or_path": str(tmp_path / "long")}
    assert read(write_adapter(tmp_path / "of_long", **settings)).keys() == expected.keys()
    # The base that is given goes before the one that is named.
    lost = write_adapter(tmp_path / "lost", base_model_name_or_path="")
    with pytest.raises(ValueError, match="names no base: write the folder of the base there"):
        load_model(lost)
    assert load_model(lost, base=alone).num_classes == 3
    assert load_encoder(lost, base=ours).config == CONFIG
    with pytest.raises(ValueError, match="base is .*, but .* holds a whole model"):
        load_model(base, base=alone)


def test_labels_are_those_beside_the_adapter_or_of_the_base(base, tmp_path):
    def opened(folder):
        return preset.read_checkpoint(folder).head.get("labels")

    model = BertClassifier(CONFIG, num_classes=3, labels=["no", "maybe", "yes"])
    (tmp_path / "base").mkdir()
    checkpoints.write(preset.as_checkpoint(model), tmp_path / "base", "hf")
    assert opened(write_adapter(tmp_path / "same")) == ["no", "maybe", "yes"]
    # The head of the base is enough, and another number of classes has no names.
    assert opened(write_adapter(tmp_path / "plain", pair(QUERY))) == ["no", "maybe", "yes"]
    two = {f"{PREFIX}classifier.weight": drawn(2, 8), f"{PREFIX}classifier.bias": drawn(2)}
    folder = write_adapter(tmp_path / "two", {**pair(QUERY), **two})
    assert opened(folder) is None
    beside = {"id2label": {"0": "cat", "1": "dog"}, "problem_type": "multi_label_classification"}
    (folder / "config.json").write_text(json.dumps(beside))
    assert opened(folder) == ["cat", "dog"]
    assert preset.read_checkpoint(folder).head["problem_type"] == "multi_label_classification"
    # Tags, by what PEFT notes where there is no task.
    mapping = {"base_model_class": "BertForTokenClassification", "parent_library": "transformers"}
    folder = write_adapter(tmp_path / "tags", task_type=None, auto_mapping=mapping)
    assert preset.read_checkpoint(folder).architecture == "BertTokenClassifier"


def test_vectors_are_made_as_those_of_the_base(base, tmp_path):
    folder = tmp_path / "base"
    folder.mkdir()
    checkpoints.write(preset.as_checkpoint(BertEncoder(CONFIG)), folder, "hf")
    sentence_modules.write(folder, "cls", 8)
    adapter = write_adapter(tmp_path / "adapter", pair(QUERY), task_type="FEATURE_EXTRACTION")
    assert sentence_modules.is_sentence_folder(adapter)
    assert sentence_modules.read(adapter).pooling == ("cls",)
    assert sentence_modules.encoder_folder(adapter) == adapter
    assert not sentence_modules.is_sentence_folder(write_adapter(tmp_path / "classes"))


def test_words_that_are_read_otherwise_than_scored_are_told(base):
    table = f"{PREFIX}bert.embeddings.word_embeddings"
    tensors = {f"{table}.lora_embedding_A": drawn(2, 9), f"{table}.lora_embedding_B": drawn(8, 2)}
    words = write_adapter(base.parent / "words", tensors, task_type=None)
    decoder = pair(f"{PREFIX}cls.predictions.decoder", outputs=9)
    for folder in (words, write_adapter(base.parent / "decoder", decoder, task_type=None)):
        with pytest.raises(ValueError, match="cls.predictions.decoder.weight differs from word_"):
            load_model(folder)
    path = "word_embeddings/embeddings"
    assert not np.allclose(weights(load_encoder(words))[path], read(base)[path])


REFUSED = {
    "dora": ({"use_dora": True}, "use_dora is True .DoRA also learns .*merge_and_unload"),
    "peft_type": ({"peft_type": "IA3"}, "has the peft_type 'IA3': only LORA is read"),
    "replication": ({"layer_replication": [[0, 1]]}, "layer_replication is .*layers are repeated"),
    "tokens": ({"trainable_token_indices": [3]}, r"indices is \[3\] \(rows of the embeddings"),
    "unknown": ({"use_new_form": True}, "use_new_form is True, which is not read: merge it"),
    "start": ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa', which changes the"),
    "rank": ({"r": 3}, r"lora_A.weight is \[2, 8\] and .*the rank of bert.encoder.layer.0.attent"),
    "number": ({"r": 2.5}, "r is 2.5: expected a whole number above 0"),
    "alpha": ({"alpha_pattern": {"query": "x"}}, "alpha_pattern of 'query' is 'x': expected a num"),
    "pattern": ({"rank_pattern": {"(": 2}}, r"rank_pattern has '\(', which is no regular"),
    "revision": ({"base_model_name_or_path": "a/b", "revision": "x"}, "names the revision 'x' of"),
    "nowhere": ({"base_model_name_or_path": "/nowhere/at all"}, "the base /nowhere/at all, which"),
    "itself": ({"base_model_name_or_path": "."}, "which holds an adapter itself: convert that"),
    "no task": ({"task_type": None}, "does not tell of which head classifier.* are: write the"),
    "no such head": (
        {"task_type": None, "auto_mapping": {"base_model_class": "BertForNextSentencePrediction"}},
        "does not tell of which head classifier",
    ),
    "head": ({"task_type": "QUESTION_ANS"}, "neither the adapter nor its base .* holds qa_outputs"),
}
MISFITS = {
    "nothing": ({}, "holds no tensor that fits anything in"),
    "name": (pair(f"{PREFIX}bert.encoder.layer.2.output.dense"), "layer.2.*which fit nothing in"),
    "delta": ({f"{QUERY}.token_adapter.trainable_tokens_delta": drawn(2, 8)}, "which fit nothing"),
    "shape": (
        pair(f"{LAYER}output.dense"),
        r"lora_B.weight makes \[8, 8\], but .* is \[8, 12\]: give the base",
    ),
    "words": (
        {f"{PREFIX}bert.embeddings.word_embeddings.weight": drawn(11, 8), **pair(QUERY)},
        r"word_embeddings.weight makes \[11, 8\], but .* is \[9, 8\]",
    ),
    "half": ({f"{QUERY}.lora_A.weight": drawn(2, 8)}, "without a lora_B.weight: the file is dam"),
}


@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_sum_is_refused(base, settings, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_model(write_adapter(base.parent / "refused", **settings))


@pytest.mark.parametrize(("tensors", "message"), MISFITS.values(), ids=MISFITS)
def test_tensors_that_do_not_fit_are_named(base, tensors, message):
    folder = write_adapter(base.parent / "misfit", tensors, task_type="FEATURE_EXTRACTION")
    with pytest.raises(ValueError, match=message):
        load_model(folder)


def test_what_is_no_adapter_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="bert_encoder has no low-rank matrices: call enable_lora"):
        save_lora_adapter(BertEncoder(CONFIG), tmp_path / "a")
    for model, message in (
        (BertMaskedLM(CONFIG), "of a BertMaskedLM is tied to the words of its base: write the who"),
        (BertClassifier(CONFIG, num_classes=2, pooling="mean"), r"that pools tokens \(mean\): wri"),
        (BertDocumentClassifier(CONFIG, num_classes=2), "no Bert with a head like BertDocumentCla"),
    ):
        enable_lora(model.encoder, rank=2)
        with pytest.raises(ValueError, match=message):
            save_lora_adapter(model, tmp_path / "a")
    assert not any(tmp_path.iterdir())
