"""Names in docs/coming_from.md: ours exist, and those of the other libraries, where installed."""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import keras_bert
from keras_bert import features
from tests.docs.documents import ROOT, read

DOCUMENT = "docs/coming_from.md"
SECTIONS = {
    part.partition("\n")[0]: re.findall(r"^\| (.*?) \| (.*) \|$", part, re.M)[1:]
    for part in read(DOCUMENT).split("\n## ")[1:]
}
# A name or an attribute of one, with the arguments that it takes: keywords here, names there.
NAME = re.compile(r"([A-Za-z_][\w.]*?)(?:\((.*)\))?")
# Keys of batches and outputs, which are no names of Python.
KEYS = {value for name, value in vars(features).items() if name.isupper()} | {
    *("sequence_output", "pooled_output", "likely_labels"),
}
FIELDS = {field.name for field in dataclasses.fields(keras_bert.BertConfig)}
METHODS = {"model.fit", "dataset.map"}  # of Keras and tf.data


def spans(column):
    return [
        (section, text)
        for section, rows in SECTIONS.items()
        for row in rows
        for text in re.findall(r"`([^`]+)`", row[column].replace("\\|", "|"))
    ]


def test_every_name_of_ours_exists():
    wrong = []
    for _, text in spans(1):
        if "--" in text or text in KEYS | METHODS or text.startswith("hf://"):
            continue  # flags: test_documents.py
        if text.startswith("tools/"):
            assert (ROOT / text).is_file(), text
        elif not _resolves(keras_bert, text):
            wrong.append(text)
    assert wrong == []


def test_the_tables_were_read():
    assert list(SECTIONS) == [
        "google-research/bert",
        "Hugging Face transformers",
        "KerasHub",
        "TensorFlow Model Garden",
    ]
    assert min(len(rows) for rows in SECTIONS.values()) >= 10
    assert not _resolves(keras_bert, "BertConfig(num_layers=12)")
    assert not _resolves(keras_bert, "BertConfiguration")


def _resolves(module, text):
    """Whether `Name.attribute(keyword=value)` is there and takes the keywords."""
    found = NAME.fullmatch(text)
    if not found:
        return False
    target = module
    for part in found[1].split("."):
        if not hasattr(target, part):
            return False
        target = getattr(target, part)
    given = re.findall(r"(?:^|, )(\w+)=", found[2] or "")
    taken = inspect.signature(target).parameters if given else {}
    return set(given) <= set(taken)


# Name of the table -> the module that has it.
OF_SENTENCE_TRANSFORMERS = {
    "SentenceTransformer": "",
    "SentenceTransformer.encode": "",
    "SentenceTransformer.encode_query": "",
    "SentenceTransformer.encode_document": "",
    "StaticEmbedding": ".sentence_transformer.modules",
    "MatryoshkaLoss": ".sentence_transformer.losses",
    "MultipleNegativesRankingLoss": ".sentence_transformer.losses",
    "CosineSimilarityLoss": ".sentence_transformer.losses",
    "InformationRetrievalEvaluator": ".sentence_transformer.evaluation",
    "util.semantic_search": ".util",
    "util.paraphrase_mining": ".util",
    "util.community_detection": ".util",
    "CrossEncoder": "",
    "mine_hard_negatives": ".util",
    "SparseEncoder": "",
    "SparseEncoder.encode_query": "",
    "SparseEncoder.decode": "",
    "SpladeLoss": ".sparse_encoder.losses",
    "SparseMultipleNegativesRankingLoss": ".sparse_encoder.losses",
    "SparseInformationRetrievalEvaluator": ".sparse_encoder.evaluation",
    "MultiVectorEncoder": "",
    "MultiVectorEncoder.encode_query": "",
    "MultiVectorEncoder.encode_document": "",
    "MultiVectorEncoder.similarity": "",
    "MultiVectorMultipleNegativesRankingLoss": ".multi_vector_encoder.losses",
    "MultiVectorDistillKLDivLoss": ".multi_vector_encoder.losses",
}

OF_MODEL2VEC = ("StaticModel",)
OF_GLINER = ("GLiNER", "UniEncoderSpanGLiNER", "flat_ner", "multi_label")
OF_PEFT = ("PeftModel",)


@pytest.mark.oracle
def test_names_of_gliner_exist():
    import gliner.model

    names = [
        text
        for section, text in spans(0)
        if section == "Hugging Face transformers" and text.partition(".")[0] in OF_GLINER
    ]
    taken = inspect.signature(gliner.model.UniEncoderSpanGLiNER.inference).parameters
    assert len(names) == 7
    assert all(_resolves(gliner.model, name) or name in taken for name in names)


@pytest.mark.oracle
def test_names_of_model2vec_exist():
    import model2vec

    names = [text for _, text in spans(0) if text.partition(".")[0] in OF_MODEL2VEC]
    assert len(names) == 2
    assert all(_resolves(model2vec, name) for name in names)


@pytest.mark.oracle
def test_names_of_peft_exist():
    import peft

    names = [text for _, text in spans(0) if text.partition(".")[0] in OF_PEFT]
    assert len(names) == 2
    assert all(_resolves(peft, name) for name in names)


@pytest.mark.oracle
def test_names_of_transformers_exist():
    import transformers

    known = {"last_hidden_state", "pooler_output", "hidden_states"}  # of what models return
    classes = [transformers.BertForSequenceClassification, transformers.BertTokenizerFast]
    parameters = {
        *inspect.signature(transformers.PreTrainedTokenizerBase.__call__).parameters,
        *inspect.signature(transformers.BertModel.forward).parameters,
        *inspect.signature(transformers.PreTrainedConfig.__init__).parameters,
        *transformers.BertConfig(num_labels=3).to_dict(),
        "num_labels",
    }
    problems = {"multi_label_classification", "regression"}
    for _, text in (pair for pair in spans(0) if pair[0] == "Hugging Face transformers"):
        name, arguments = NAME.fullmatch(text).groups()
        if name.partition(".")[0] in OF_GLINER + OF_MODEL2VEC + OF_PEFT:
            continue
        if name == "pipeline":
            assert arguments.strip('"') in transformers.pipelines.SUPPORTED_TASKS
        elif name in OF_SENTENCE_TRANSFORMERS:
            module = importlib.import_module(
                f"sentence_transformers{OF_SENTENCE_TRANSFORMERS[name]}"
            )
            assert _resolves(module, name.removeprefix("util.")), name
            if arguments:
                taken = inspect.signature(getattr(module, name)).parameters
                assert arguments in taken, text
        elif any(_resolves(owner, name) for owner in (transformers, *classes)):
            if arguments:
                taken = inspect.signature(getattr(transformers, name)).parameters
                assert arguments in taken, text
        else:
            assert name in known | parameters | problems, text


@pytest.mark.oracle
def test_names_of_keras_hub_exist():
    import keras_hub

    inputs = {"token_ids", "padding_mask", "segment_ids", "backbone.trainable = False"}
    places = (keras_hub.models, keras_hub.tokenizers, keras_hub.layers)
    for _, text in (pair for pair in spans(0) if pair[0] == "KerasHub"):
        if text in inputs:
            continue
        name, arguments = NAME.fullmatch(text).groups()
        owner = next((place for place in places if _resolves(place, name)), None)
        assert owner, text
        if arguments and '"' not in arguments:
            taken = inspect.signature(getattr(owner, name)).parameters
            assert set(arguments.split(", ")) <= set(taken), text


@pytest.mark.oracle
def test_names_of_model_garden_exist():
    official = Path(importlib.util.find_spec("official").submodule_search_locations[0])
    sources = [
        path
        for folder in ("nlp", "modeling", "common", "core")
        for path in (official / folder).rglob("*.py")
        if not path.name.endswith("_test.py")
    ]
    text = "\n".join(path.read_text("utf-8") for path in sources)
    classes = {
        node.name: node
        for path in sources
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    for _, name in (pair for pair in spans(0) if pair[0] == "TensorFlow Model Garden"):
        if name.startswith("official/"):
            assert (official.parent / name).is_file(), name
            continue
        path, arguments = re.fullmatch(r"([\w./]+)(?:\((.*)\))?", name).groups()
        last = path.split(".")[-1]
        if path.startswith("tfm.nlp.") or arguments:
            assert last in classes, name
            body = ast.unparse(classes[last])
            assert all(re.search(rf"\b{word}\b", body) for word in (arguments or last).split(", "))
        else:
            assert re.search(rf"\b{re.escape(last)}\b", text), name
