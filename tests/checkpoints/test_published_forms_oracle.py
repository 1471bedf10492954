"""NomicBERT, GTE, Jina's and EuroBERT as they are published: in the form of the code beside them.

Oracle: transformers' models and sentence-transformers, whose own form has other keys; both forms
hold the same tensors here. Angles that transformers has no type for are worked out by hand.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import keras_bert
from keras_bert import CrossEncoder, ExportOptions, SentenceEncoder, export_saved_model
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models.conversion.convert import convert
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from tests import command_process
from tests.checkpoints.test_families_oracle import (
    LABELS,
    assert_close,
    features,
    our_outputs,
    their_model,
    their_outputs,
)
from tests.signatures.tiny_models import PIECES, random_texts
from tests.text.family_tokenizers import sentencepiece_files
from tests.text.llama_tokenizer import write_llama
from tests.tolerances import ORACLE

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore:the checkpoint has no pooler"),
]

TOOL = Path(__file__).parents[2] / "tools" / "convert_checkpoint.py"
# Keys of nomic-ai/nomic-embed-text-v1 whose values are the same in every model here.
NOMIC_KEYS = {
    "activation_function": "swiglu",
    "attn_pdrop": 0.0,
    "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
    "causal": False,
    "dense_seq_output": True,
    "embd_pdrop": 0.0,
    "fused_bias_fc": True,
    "fused_dropout_add_ln": True,
    "max_trained_positions": 2048,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "pad_vocab_size_multiple": 64,
    "parallel_block": False,
    "parallel_block_tied_norm": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "reorder_and_upcast_attn": False,
    "resid_pdrop": 0.0,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "summary_first_dropout": 0.0,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "use_flash_attn": True,
    "use_rms_norm": False,
    "use_xentropy": True,
}
# Of Alibaba-NLP/gte-multilingual-base.
GTE_KEYS = {
    "auto_map": {"AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel"},
    "layer_norm_type": "layer_norm",
    "logn_attention_clip1": False,
    "logn_attention_scale": False,
    "pack_qkv": True,
    "position_embedding_type": "rope",
    "rope_scaling": None,
    "unpad_inputs": "false",
    "use_memory_efficient_attention": "false",
}


def publish(model, folder, prefix, **changes):
    """Writes a model of transformers in the published form, its encoder's tensors behind a prefix.

    transformers itself saves tensors under their published names, but for that prefix.
    """
    model.save_pretrained(folder)
    file, config = folder / "model.safetensors", model.config
    own = f"{model.base_model_prefix}."
    tensors = load_file(file)
    heads = [name for name in tensors if name.startswith(("cls.", "lm_head.", "classifier."))]
    tensors = {
        name if name in heads else prefix + name.removeprefix(own): value
        for name, value in tensors.items()
    }
    save_file(tensors, file, metadata={"format": "pt"})
    kind = type(model).__name__
    values = {
        "initializer_range": config.initializer_range,
        "type_vocab_size": config.type_vocab_size,
        "vocab_size": config.vocab_size,
        "id2label": {str(index): label for index, label in config.id2label.items()},
    }
    if own == "nomic_bert.":
        values |= NOMIC_KEYS | {
            "model_type": "nomic_bert",
            "architectures": [kind.replace("ForMaskedLM", "ForPreTraining")],
            "n_embd": config.hidden_size,
            "n_head": config.num_attention_heads,
            "n_inner": config.intermediate_size,
            "n_layer": config.num_hidden_layers,
            "n_positions": config.max_position_embeddings,
            "layer_norm_epsilon": config.layer_norm_eps,
            "rotary_emb_base": config.rope_parameters["rope_theta"],
        }
    else:
        values |= GTE_KEYS | {
            "model_type": "new",
            "architectures": [kind.replace("Gte", "New")],
            "rope_theta": config.rope_parameters["rope_theta"],
        }
        names = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers")
        names += ("max_position_embeddings", "layer_norm_eps", "hidden_act", "pad_token_id")
        values |= {name: getattr(config, name) for name in names}
    (folder / "config.json").write_text(json.dumps(values | changes))


@pytest.mark.parametrize(
    ("name", "ours", "prefix"),
    [
        ("NomicBertModel", "BertEncoder", ""),  # as nomic-embed-text-v1.5
        ("NomicBertForMaskedLM", "BertMaskedLM", "bert."),  # as nomic-bert-2048
        ("NomicBertForSequenceClassification", "BertClassifier", "bert."),
        ("GteModel", "BertEncoder", ""),
        ("GteModel", "BertEncoder", "new."),  # as gte-base-en-v1.5
        ("GteForMaskedLM", "BertMaskedLM", "new."),
        ("GteForTokenClassification", "BertTokenClassifier", "new."),  # as gte-multilingual-base
    ],
)
def test_both_forms_say_the_same(name, ours, prefix, tmp_path):
    import torch

    model = their_model(name, rope_parameters={"rope_type": "default", "rope_theta": 70.0})
    if name == "NomicBertForMaskedLM":  # whose own code makes the head without biases
        with torch.no_grad():
            for bias in (model.cls.predictions.bias, model.cls.predictions.transform.dense.bias):
                bias.zero_()
    publish(model, tmp_path, prefix)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    if name == "NomicBertForMaskedLM":
        for bias in ("transform.dense.bias", "bias", "decoder.bias"):
            tensors.pop(f"cls.predictions.{bias}", None)
    elif ours == "BertEncoder":  # what some files hold besides
        tensors[f"{prefix}embeddings.rotary_emb.inv_freq"] = np.zeros(2, np.float32)
    save_file(tensors, file, metadata={"format": "pt"})
    batch = features(ours, model.config.type_vocab_size)
    expected = their_outputs(model, ours, batch)
    found = getattr(keras_bert, ours).from_preset(tmp_path)
    assert_close(our_outputs(found, ours, batch), expected, batch)
    if "Classification" in name:
        assert found.labels == LABELS
    # Converted, with transformers as the witness of both folders.
    for target, format in (("ours", "keras"), ("theirs", "hf")):
        (tmp_path / target).mkdir()
        report = convert(tmp_path, tmp_path / target, format)
        assert "transformers" in str(report) and report.difference < 1e-5
    again, loading = type(model).from_pretrained(tmp_path / "theirs", output_loading_info=True)
    assert {key: value for key, value in loading.items() if value} == {}
    assert_close(their_outputs(again.eval(), ours, batch), expected, batch)


@pytest.mark.parametrize("ours", ["BertMultipleChoice", "BertSpanLabeler"])
def test_heads_that_published_code_alone_has(ours, tmp_path):
    """As a classifier of one class, or of the pieces, by the names of new-impl/modeling.py."""
    import torch

    if ours == "BertMultipleChoice":
        name, other = "GteForSequenceClassification", "NewForMultipleChoice"
    else:
        name, other = "GteForTokenClassification", "NewForQuestionAnswering"
    model = their_model(name, hidden_dropout_prob=0.0)
    model.classifier = torch.nn.Linear(12, 1 if ours == "BertMultipleChoice" else 2)
    publish(model, tmp_path, "new.", architectures=[other])
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    if ours == "BertSpanLabeler":
        for end in ("weight", "bias"):
            tensors[f"qa_outputs.{end}"] = tensors.pop(f"classifier.{end}")
    save_file(tensors, file, metadata={"format": "pt"})
    batch = features(ours, 1)
    found = our_outputs(getattr(keras_bert, ours).from_preset(tmp_path), ours, batch)
    rows = {key: value.reshape(-1, 7) for key, value in batch.items()}
    logits = their_outputs(model, "BertClassifier", rows)["logits"]
    if ours == "BertMultipleChoice":
        expected = {"logits": logits.reshape(2, 4)}
    else:
        expected = {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
    assert_close(found, expected, batch)
    with pytest.raises(
        ValueError, match=f"transformers has no Gte with a head like that of {ours}"
    ):
        checkpoints.write(checkpoints.read(tmp_path), tmp_path / "hf", "hf")


def test_a_fixed_ntk_scaling_is_worked_out(tmp_path):
    """As in gte-base-en-v1.5; by hand, of new-impl/modeling.py and vLLM's like: 4-wide heads."""
    import torch
    import transformers

    model = their_model("GteModel", type_vocab_size=0, max_position_embeddings=40)
    # Base times factor, and every speed divided by the factor to the power of 2 / D.
    speeds = torch.tensor([1.0, (70.0 * 3) ** -0.5]) / 3**0.5
    model.rotary_emb.inv_freq.copy_(speeds)
    scaling = {"rope_theta": 70.0, "rope_scaling": {"type": "ntk", "factor": 3.0}}
    publish(model, tmp_path, "", **scaling)
    ids = np.random.default_rng(0).integers(0, 31, (2, 40))
    batch = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    expected = their_outputs(model, "BertEncoder", batch)
    encoder = keras_bert.load_encoder(tmp_path)
    assert_close(our_outputs(encoder, "BertEncoder", batch), expected, batch)
    # transformers has no such type, but an interpolation with the same angles, which is written.
    (tmp_path / "theirs").mkdir()
    assert convert(tmp_path, tmp_path / "theirs", "hf").difference < 1e-5
    again = transformers.AutoModel.from_pretrained(tmp_path / "theirs").eval()
    assert again.config.rope_parameters["rope_type"] == "linear"
    assert_close(their_outputs(again, "BertEncoder", batch), expected, batch)


def test_a_nomic_folder_makes_the_vectors_of_sentence_transformers(tmp_path):
    """Laid out as nomic-ai/nomic-embed-text-v1: mean pooling, prompts, short vectors, 2,048."""
    from sentence_transformers import SentenceTransformer, models

    tokenizer = keras_bert.BertTokenizer(keras_bert.Vocabulary([*SPECIAL_TOKENS, *PIECES]))
    # More rows than pieces, as the published table is padded to a multiple of 64.
    size = len(tokenizer.vocabulary.tokens) + 6
    model = their_model("NomicBertModel", vocab_size=size, max_position_embeddings=32)
    model.save_pretrained(tmp_path / "encoder")
    tokenizer.save(tmp_path / "encoder")
    prompts = {"query": "the film: ", "document": "a bad book: "}
    first = models.Transformer(str(tmp_path / "encoder"), max_seq_length=32)
    folder = tmp_path / "nomic"
    modules = [first, models.Pooling(12, pooling_mode="mean")]
    SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save(str(folder))
    texts = [*random_texts(6, seed=3, longest=12), "the film " * 40, ""]
    theirs = SentenceTransformer(str(folder), device="cpu", truncate_dim=6)
    asked = {"normalize_embeddings": True}
    expected = [theirs.encode(texts, **asked), theirs.encode_query(texts, **asked)]
    # Angles beyond 2,048 positions would depend on the batch; there are 32 before them here.
    publish(
        model,
        folder,
        "",
        **{"n_positions": 8192, "max_trained_positions": 32, "rotary_scaling_factor": 2},
    )
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8192}')
    options = {"truncate_dim": 6, "normalize": True}
    ours = SentenceEncoder.from_preset(folder, **options)
    for found, wanted in zip((ours.encode(texts), ours.encode_query(texts)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, **ORACLE)
    served = tf.saved_model.load(
        str(export_saved_model(folder, tmp_path / "export", options=ExportOptions(**options)))
    )
    answer = served.signatures["serving_default"](text=tf.constant(texts))
    np.testing.assert_allclose(answer["sentence_embedding"], expected[0], **ORACLE)


def test_a_multilingual_gte_makes_the_vectors_of_sentence_transformers(tmp_path):
    """Laid out as gte-multilingual-base: XLM-R's pieces, [CLS], norm, and an idle head of tokens.

    The head weighs the pieces for a search by words; the vectors are the encoder's alone.
    """
    from sentence_transformers import SentenceTransformer, models

    files = sentencepiece_files("xlm_roberta")
    changes = {"vocab_size": len(files.vocabulary), "max_position_embeddings": 64}
    model = their_model("GteForTokenClassification", **changes, pad_token_id=1)
    model.gte.save_pretrained(tmp_path / "encoder")
    files.save(tmp_path / "encoder")
    first = models.Transformer(str(tmp_path / "encoder"), max_seq_length=48)
    modules = [first, models.Pooling(12, pooling_mode="cls"), models.Normalize()]
    folder = tmp_path / "gte"
    SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    texts = ["the home of the film", "of", "and it is", "it is what it is " * 30]
    expected = SentenceTransformer(str(folder), device="cpu").encode(texts)
    assert not (folder / "sentencepiece.bpe.model").exists()  # tokenizer.json alone, as published
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 48}')
    publish(model, folder, "new.", architectures=["NewModel", "NewForTokenClassification"])
    ours = SentenceEncoder.from_preset(folder)
    np.testing.assert_allclose(ours.encode(texts), expected, **ORACLE)
    served = tf.saved_model.load(str(export_saved_model(folder, tmp_path / "export")))
    answer = served.signatures["serving_default"](text=tf.constant(texts))
    np.testing.assert_allclose(answer["sentence_embedding"], expected, **ORACLE)
    assert keras_bert.load_tokenizer(folder).vocabulary.pad_id == 1


def test_a_multilingual_reranker_scores_pairs(tmp_path):
    """Laid out as gte-multilingual-reranker-base: one number for a pair, a pooler on [CLS]."""
    import torch
    import transformers

    files = sentencepiece_files("xlm_roberta")
    changes = {"vocab_size": len(files.vocabulary), "max_position_embeddings": 64}
    model = their_model(
        "GteForSequenceClassification", **changes, pad_token_id=1, hidden_dropout_prob=0.0
    )
    model.config.id2label = {0: "LABEL_0"}
    model.classifier = torch.nn.Linear(12, 1)
    files.save(tmp_path)
    publish(model, tmp_path, "new.")
    queries, passages = ["the home", "what is it"], ["a film of the home", "it is"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        tmp_path, config=transformers.XLMRobertaConfig()
    )
    inputs = tokenizer(queries, passages, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model(**inputs).logits[:, 0].numpy()
    found = CrossEncoder.from_preset(tmp_path).scores(queries, passages)
    np.testing.assert_allclose(found, expected, **ORACLE)


# Keys of EuroBERT/EuroBERT-210m whose values are the same in every model here.
EUROBERT_KEYS = {
    "auto_map": {"AutoModel": "modeling_eurobert.EuroBertModel"},
    "attention_bias": False,
    "bos_token": "<|begin_of_text|>",
    "hidden_dropout": 0.0,
    "is_decoder": False,
    "mask_token": "<|mask|>",
    "model_type": "eurobert",
    "pretraining_tp": 1,
    "rope_scaling": None,
    "rope_theta": 70,
}


@pytest.mark.parametrize("pooling", ["bos", "mean", "late"])
def test_a_eurobert_answers_from_strings(pooling, tmp_path):
    """Laid out by the code of March 2025, whose output layer was called out_proj."""
    import torch
    import transformers

    tokenizer = keras_bert.load_tokenizer(write_llama(tmp_path))
    name = "EuroBertForSequenceClassification"
    model = their_model(
        name,
        vocab_size=len(tokenizer.vocabulary),
        max_position_embeddings=32,
        rope_parameters={"rope_type": "default", "rope_theta": 70.0},
        classifier_pooling=pooling,
    )
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    for key in ("rope_parameters", "classifier_pooling", "mlp_bias"):
        del values[key]
    values |= EUROBERT_KEYS | {"clf_pooling": pooling}
    (tmp_path / "config.json").write_text(json.dumps(values))
    file = tmp_path / "model.safetensors"
    tensors = {
        key.replace("classifier.", "out_proj."): value for key, value in load_file(file).items()
    }
    save_file(tensors, file, metadata={"format": "pt"})
    texts = ["it's the end, they're leaving", "the room", "12345 left!\n\n the end" * 2]
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    with torch.no_grad():
        expected = model(**theirs(texts, padding=True, return_tensors="pt")).logits.numpy()
    found = keras_bert.load_model(tmp_path)
    inputs = keras_bert.load_preprocessor(tmp_path, max_seq_length=32)(texts)
    np.testing.assert_allclose(found(inputs), expected, **ORACLE)
    assert found.labels == LABELS and found.config.classifier_pooling == pooling
    # Converted, with transformers as the witness, and served from strings.
    (tmp_path / "theirs").mkdir()
    report = convert(tmp_path, tmp_path / "theirs", "hf")
    assert "transformers" in str(report) and report.difference < 1e-5
    again, loading = type(model).from_pretrained(tmp_path / "theirs", output_loading_info=True)
    assert {key: value for key, value in loading.items() if value} == {}
    with torch.no_grad():
        logits = again.eval()(**theirs(texts, padding=True, return_tensors="pt")).logits.numpy()
    np.testing.assert_allclose(logits, expected, **ORACLE)
    if pooling == "late":
        served = tf.saved_model.load(str(export_saved_model(tmp_path, tmp_path / "export")))
        answer = served.signatures["serving_default"](text=tf.constant(texts))
        scores = torch.softmax(torch.tensor(expected), dim=-1).numpy()
        np.testing.assert_allclose(answer["scores"], scores, **ORACLE)


@pytest.mark.parametrize("held", [True, False])
def test_tied_words_of_a_eurobert(held, tmp_path):
    """The file holds the tied matrix once, or twice: nothing but the class tells of the head."""
    import torch

    model = their_model("EuroBertForMaskedLM", tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    assert "lm_head.weight" not in tensors
    if held:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    save_file(tensors, file, metadata={"format": "pt"})
    batch = features("BertMaskedLM", 1)
    expected = their_outputs(model, "BertMaskedLM", batch)
    found = keras_bert.load_model(tmp_path)
    assert_close(our_outputs(found, "BertMaskedLM", batch), expected, batch)
    (tmp_path / "theirs").mkdir()
    checkpoints.write(checkpoints.read(tmp_path), tmp_path / "theirs", "hf")
    again = type(model).from_pretrained(tmp_path / "theirs").eval()
    assert torch.equal(again.lm_head.weight, model.model.embed_tokens.weight)
    assert_close(their_outputs(again, "BertMaskedLM", batch), expected, batch)
    if held:  # another matrix than the one that it should be
        tensors["lm_head.weight"] += 1
        save_file(tensors, file, metadata={"format": "pt"})
        with pytest.raises(ValueError, match="lm_head.weight differs from word_embeddings"):
            keras_bert.BertMaskedLM.from_preset(tmp_path)
        assert keras_bert.load_encoder(tmp_path).config == found.config


def test_a_eurobert_makes_the_vectors_of_sentence_transformers(tmp_path):
    """Mean pooling over rows that begin with a token and end without one."""
    from sentence_transformers import SentenceTransformer, models

    (tmp_path / "encoder").mkdir()
    tokenizer = keras_bert.load_tokenizer(write_llama(tmp_path / "encoder"))
    size = len(tokenizer.vocabulary)
    their_model("EuroBertModel", vocab_size=size, max_position_embeddings=32).save_pretrained(
        tmp_path / "encoder"
    )
    first = models.Transformer(str(tmp_path / "encoder"), max_seq_length=32)
    modules = [first, models.Pooling(24, pooling_mode="mean"), models.Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "vectors"))
    texts = ["it's the end", "the room was left " * 20, "12345\n\n"]
    expected = SentenceTransformer(str(tmp_path / "vectors"), device="cpu").encode(texts)
    found = SentenceEncoder.from_preset(tmp_path / "vectors").encode(texts)
    np.testing.assert_allclose(found, expected, **ORACLE)


# Of jinaai/jina-embeddings-v3, with three of its five tasks and matrices of rank 2.
JINA_TASKS = {"retrieval.query": "the home: ", "retrieval.passage": "what is it ", "separation": ""}
JINA_KEYS = {
    "architectures": ["XLMRobertaModel"],
    "auto_map": {"AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLM"},
    "emb_pooler": None,
    "load_trained_adapters": True,
    "lora_adaptations": list(JINA_TASKS),
    "lora_alpha": 1,
    "lora_dropout_p": 0.0,
    "lora_main_params_trainable": False,
    "lora_rank": 2,
    "matryoshka_dimensions": [4, 12],
    "model_type": "xlm-roberta",
    "position_embedding_type": "rotary",
    "rotary_emb_base": 70.0,
    "task_instructions": JINA_TASKS,
    "truncate_dim": None,
    "use_flash_attn": True,
}


def publish_with_adapters(model, folder):
    """Writes a model of transformers as Jina's is published; returns what each task adds to it.

    By modeling_lora.py beside the published weights: W + alpha / r B A, of embeddings A B.
    """
    draw = np.random.default_rng(5)
    model.save_pretrained(folder)
    file = folder / "model.safetensors"
    published, added = {}, {}
    for name, value in load_file(file).items():
        place = f"roberta.{name}"
        if value.ndim == 1:
            published[place] = value
            continue
        rows, columns = value.shape
        is_table = "embeddings" in name
        shapes = ((3, rows, 2), (3, 2, columns)) if is_table else ((3, 2, columns), (3, rows, 2))
        a, b = (draw.normal(0, 0.5, shape).astype(np.float32) for shape in shapes)
        before = place.removesuffix("weight") + "parametrizations.weight"
        published |= {f"{before}.original": value, f"{before}.0.lora_A": a, f"{before}.0.lora_B": b}
        added[name] = np.stack(
            [(x @ y if is_table else y @ x) / 2 for x, y in zip(a, b, strict=True)]
        )
    save_file(published, file, metadata={"format": "pt"})
    config = model.config
    names = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers")
    names += ("vocab_size", "max_position_embeddings", "type_vocab_size", "layer_norm_eps")
    values = {name: getattr(config, name) for name in names}
    (folder / "config.json").write_text(json.dumps(JINA_KEYS | values))
    return added


def test_tasks_of_jina_embeddings_make_the_vectors_of_sentence_transformers(tmp_path):
    """Laid out as jina-embeddings-v3: a module of its own that chooses the adapter of a task.

    Oracle: transformers' JinaEmbeddingsV3Model with the sums in its weights.
    """
    from sentence_transformers import SentenceTransformer, models

    files = sentencepiece_files("xlm_roberta")
    changes = {"vocab_size": len(files.vocabulary), "max_position_embeddings": 64}
    changes |= {"rope_parameters": {"rope_type": "default", "rope_theta": 70.0}}
    model = their_model("JinaEmbeddingsV3Model", **changes)
    folder, theirs = tmp_path / "jina", tmp_path / "theirs"
    modules = []

    def save(target):
        model.save_pretrained(tmp_path / "encoder")
        files.save(tmp_path / "encoder")
        first = models.Transformer(str(tmp_path / "encoder"), max_seq_length=48)
        modules[:] = [first, models.Pooling(12, pooling_mode="mean"), models.Normalize()]
        SentenceTransformer(modules=modules, device="cpu").save(str(target))

    save(folder)
    added = publish_with_adapters(model, folder)
    entries = json.loads((folder / "modules.json").read_text())
    entries[0]["type"] = "custom_st.Transformer"
    (folder / "modules.json").write_text(json.dumps(entries))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 48}')
    texts = ["the home of the film", "of", "and it is", "it is what it is " * 30]
    expected = SentenceTransformer(modules=modules, device="cpu").encode(texts)
    np.testing.assert_allclose(
        SentenceEncoder.from_preset(folder).encode(texts), expected, **ORACLE
    )
    (tmp_path / "plain").mkdir()
    report = convert(folder, tmp_path / "plain", "hf")  # transformers is the witness
    assert report.difference < 1e-5 and "transformers" in str(report)
    assert "lora_A: of the adapters of tasks" in str(report)

    name = "retrieval.passage"
    save(theirs)
    file = next(theirs.glob("**/model.safetensors"))
    sums = load_file(file)
    assert {key for key, value in sums.items() if value.ndim == 2} == added.keys()
    for key, value in added.items():
        sums[key] += value[1]
    save_file(sums, file, metadata={"format": "pt"})
    expected = SentenceTransformer(str(theirs), device="cpu").encode(
        [JINA_TASKS[name] + text for text in texts]
    )
    for format in ("hf", "keras"):
        flags = [f"--from={folder}", f"--to={tmp_path / format}", f"--format={format}"]
        done = command_process.run([TOOL, *flags, f"--adapter={name}"])
        assert done.returncode == 0, done.stderr
        assert "'what is it ' stands before texts" in done.stdout
        found = SentenceEncoder.from_preset(tmp_path / format).encode(texts)
        np.testing.assert_allclose(found, expected, **ORACLE)
    again = SentenceTransformer(str(tmp_path / "hf"), device="cpu").encode(texts)
    np.testing.assert_allclose(again, expected, **ORACLE)
    with pytest.raises(ValueError, match="adapter is 'query': choose one of retrieval.query, ret"):
        convert(folder, tmp_path / "plain", "hf", adapter="query")
    for other in ("hf", "keras"):
        with pytest.raises(ValueError, match=f"{other}.* holds no adapters of tasks, as jina"):
            convert(tmp_path / other, tmp_path / "plain", "hf", adapter=name)
