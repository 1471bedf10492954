"""The numbers of the parameter report are those of the models themselves."""

import json
import re

import pytest

from keras_bert import BertConfig, BertEncoder, BertPretrainer, inspect_model
from tests.markers import some_fast
from tests.signatures.tiny_models import MODELS, tiny_config


def weights_of(model, pattern):
    return sum(w.value.numpy().size for w in model.weights if re.search(pattern, w.path))


@pytest.mark.parametrize("name", some_fast(MODELS, ("bilstm", "choices", "pretrainer")))
def test_parameters_are_those_of_the_model(name):
    model_class, head, labels = MODELS[name]
    arguments = {} if head is None else head.with_labels(labels).model_arguments()
    model = model_class(tiny_config(), **arguments)
    report = inspect_model(model, 8, 1)
    assert sum(report.parameters.values()) == model.count_params()
    for part, pattern in {
        "word embeddings": "^word_embeddings",
        "position embeddings": "position_embeddings",
        "attention, projections": r"^layer_\d/attention/",
        "feed-forward": r"^layer_\d/(intermediate|output)/",
        "norms": r"^(embeddings|layer_\d)/.*norm/(gamma|beta)$",
        "pooler": "^pooler",
        "head": "^(?!word_embeddings|embeddings|layer_|pooler)",
    }.items():
        assert report.parameters.get(part, 0) == weights_of(model, pattern), part
    assert sum(report.layer_parameters.values()) == weights_of(model, "^layer_1/")


def test_layers_that_share_have_one_set_of_parameters_and_operations_of_their_own():
    report, bert = inspect_model("albert_base"), inspect_model("bert_base")
    # One layer for twelve: 4 x 768 x 769, 768 x 3073 + 3072 x 769, and two norms.
    assert report.parameters["attention, projections"] == 4 * 768 * 769
    assert report.parameters["feed-forward"] == 769 * 3072 + 3073 * 768
    assert sum(report.layer_parameters.values()) == 7_087_872
    assert report.config.vocab_size == 30_000
    for part in ("attention, projections", "attention, scores and context", "feed-forward"):
        assert report.forward_flops[part] == bert.forward_flops[part]
    for dtype, parts in report.step_memory.items():
        assert parts["activations"] == bert.step_memory[dtype]["activations"]
    text = "\n".join(report.lines())
    assert "attention, projections (one for 12 layers)" in text
    assert "feed-forward (one for 12 layers)" in text
    assert "feed-forward (12 layers)" in "\n".join(bert.lines())


@pytest.mark.parametrize("name", some_fast(("classes", "bilstm", "masked_lm"), ("classes",)))
def test_a_folder_is_counted_with_its_own_head(name, model_folder):
    report = inspect_model(model_folder(name), 8)
    model = MODELS[name][0].from_preset(model_folder(name))
    assert sum(report.parameters.values()) == model.count_params()
    assert report.architecture == type(model).__name__


def test_names_and_config_files(tmp_path):
    config = tiny_config()
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    report = inspect_model(str(tmp_path / "config.json"), 8)
    assert sum(report.parameters.values()) == BertPretrainer(config).count_params()
    tiny = inspect_model("bert_tiny")
    encoder = BertEncoder(BertConfig.from_name("bert_tiny"))
    assert sum(tiny.parameters.values()) - tiny.parameters["head"] == encoder.count_params()
    # Devlin et al. 2018: 110 and 340 million; modeling.py of google-research/bert counts these.
    assert sum(inspect_model("bert_base").parameters.values()) == 110_106_428
    assert sum(inspect_model("bert_large").parameters.values()) == 336_226_108


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"max_seq_length": 513}, "max_seq_length is 513 but the model has 512 positions"),
        ({"batch_size": 0}, "batch_size is 0: it must be at least 1"),
        ({"max_seq_length": 12.5}, "max_seq_length is 12.5: it must be a whole number"),
        ({"model": "bert_huge"}, "'bert_huge' is not a named size"),
        ({"model": 3}, "the model is a int: give a named size"),
    ],
)
def test_what_cannot_be_counted(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        inspect_model(**({"model": "bert_tiny"} | arguments))


def test_text_and_page_say_the_same(tmp_path):
    report = inspect_model("bert_base", 512, 16)
    lines = list(report.lines())
    rows = {re.split(r"  +", line)[0]: re.split(r"  +", line)[1:] for line in lines if "  " in line}
    assert rows["word embeddings"] == ["23,440,896", "21.29 %", "89.4 MiB", "44.7 MiB"]
    # 4 x 512 x (11 x 512 + 77 + 1) x 768 for a sequence, as the last block has queries at 77
    # predicted positions and [CLS] only; three times that for each of 16 in a step
    assert rows["attention, scores and context"] == [
        *("17.5 MFLOP", "8.98 GFLOP", "9.45 %", "431 GFLOP")
    ]
    assert lines[0].startswith("bert_base: BertPretrainer, 12 layers, 768 wide, 12 heads")
    report.save(tmp_path / "size.html")
    page = (tmp_path / "size.html").read_text(encoding="utf-8")
    for cell in ("110,106,428", "89.4 MiB", "8.98 GFLOP", "431 GFLOP"):
        assert f"<td>{cell}</td>" in page
    assert "<script" not in page
    assert "<title>parameters, feed-forward: 56.7M (51.5 %)</title>" in page
    assert report._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html')
