"""Configs as published, tests/golden/configs.jsonl: each opens or is refused for the right reason.

Oracle of what opens: transformers, which reads the same file and holds the same random weights.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertClassifier, BertConfig
from keras_bert.checkpoints import hugging_face
from keras_bert.models import preset
from tests.checkpoints.transformers_models import (
    HEADS,
    our_outputs,
    random_features,
    their_outputs,
)
from tests.tolerances import ORACLE

_LINES = (Path(__file__).parents[1] / "golden" / "configs.jsonl").read_text(encoding="utf-8")
CONFIGS = {line["name"]: line for line in map(json.loads, _LINES.splitlines())}
OPENING = [name for name, line in CONFIGS.items() if line["expect"] == "open"]
_CROSS_ATTENTION = "attends to the outputs of another encoder"
REASONS = {
    "blip2_qformer_paddle": f"add_cross_attention is True.*{_CROSS_ATTENTION}",
    "chem_oscar": "img_feature_dim is 2054.*images or another second input",
    "deepfake_dgm4": f"fusion_layer is 6: .*{_CROSS_ATTENTION}",
    "jina_v2_base_en": "auto_map is .*code of its own.*position_embedding_type is 'alibi'",
    "mlf_bert": "unknown config keys 'add_begin_attention_layer', .*'with_word_level_selfatt",
    "mr_right": f"fusion_layer is 6: .*{_CROSS_ATTENTION}",
    "pyabsa_placeholder": "max_position_embeddings is 0: it must be an integer of at least 1",
    "sa_swin_blip": f"add_cross_attention is True.*{_CROSS_ATTENTION}",
    "singularity": f"fusion_layer is 9: .*{_CROSS_ATTENTION}",
    "t3m_blip": f"add_cross_attention is True.*{_CROSS_ATTENTION}",
    "vilbert_multitask": "bi_hidden_size is 1024, .*images or another second input",
    "wsdms_indivisible": "hidden_size 512 is not divisible by num_attention_heads 12",
    "xvlm_large": f"fusion_layer is 12: .*{_CROSS_ATTENTION}",
}


def write(folder, name, values=None):
    """Writes a config under the name of its file."""
    path = folder / CONFIGS[name]["file"]
    path.write_text(json.dumps(values or CONFIGS[name]["config"]), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", OPENING)
def test_what_a_bert_computes_opens(name, tmp_path):
    values = CONFIGS[name]["config"]
    config = BertConfig.from_file(write(tmp_path, name))
    fields = values.keys() & dataclasses.asdict(config).keys() - {"hidden_act"}
    assert len(fields) >= 8
    assert {key: getattr(config, key) for key in fields} == {key: values[key] for key in fields}


@pytest.mark.parametrize("name", REASONS)
def test_what_it_does_not_compute_is_refused_with_the_reason(name, tmp_path):
    with pytest.raises(ValueError, match=REASONS[name]):
        BertConfig.from_file(write(tmp_path, name))


def test_every_refusal_has_its_reason_here():
    assert sorted(REASONS) == sorted(CONFIGS.keys() - OPENING)


def test_a_classifier_opens_with_its_labels_and_what_they_mean(tmp_path):
    values = CONFIGS["ckip_tiny_chinese"]["config"] | {"num_hidden_layers": 1}
    values |= {"id2label": {"0": "bad", "1": "fine", "2": "good"}, "vocab_size": 40}
    values |= {"problem_type": "multi_label_classification", "sentence_transformers": {"a": 1}}
    config = BertConfig.from_dict(values, "hf")
    model = BertClassifier(config, num_classes=3)
    hugging_face.write(preset.as_checkpoint(model), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    found = BertClassifier.from_preset(tmp_path)
    assert found.labels == ["bad", "fine", "good"]
    assert found.problem_type == "multi_label_classification"
    assert BertClassifier.from_preset(tmp_path, num_classes=2).problem_type is None


def _cut(values):
    """Returns a config of two layers, narrow, with a small vocabulary; all else as it was."""
    width = values["num_attention_heads"] * min(4, values["hidden_size"])
    names = {"hidden_size", "emb_size"} & values.keys()
    return values | {
        **dict.fromkeys(names, width),
        "num_hidden_layers": min(2, values["num_hidden_layers"]),
        "intermediate_size": min(56, values["intermediate_size"]),
        "vocab_size": min(96, values["vocab_size"]),
    }


@pytest.mark.oracle
@pytest.mark.parametrize("name", OPENING)
def test_what_opens_equals_transformers(name, tmp_path):
    import torch
    import transformers

    values = _cut(CONFIGS[name]["config"])
    path = write(tmp_path, name, values)
    architecture = (values.get("architectures") or ["BertModel"])[0]
    if architecture not in HEADS:  # a program's own class around BERT's encoder
        architecture = "BertModel"
    torch.manual_seed(0)
    config = transformers.BertConfig.from_json_file(path)
    config.output_attentions = False  # of some models true, which its own saving refuses today
    theirs = getattr(transformers, architecture)(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    theirs.save_pretrained(tmp_path)
    (tmp_path / "config.json").unlink()
    write(tmp_path, name, values)

    ours = HEADS[architecture].from_preset(tmp_path)
    features = random_features(architecture, config.vocab_size, config.type_vocab_size)
    expected = their_outputs(theirs, architecture, features)
    found = our_outputs(ours, architecture, features)
    assert found.keys() == expected.keys()
    largest = max(np.abs(found[key] - expected[key]).max() for key in expected)
    print(f"{name:32} {architecture:30} opens, largest difference {largest:.1e}")
    for key in expected:
        np.testing.assert_allclose(found[key], expected[key], **ORACLE)
    labels = getattr(ours, "labels", None)
    if labels is not None:
        assert labels == [config.id2label[index] for index in range(config.num_labels)]
