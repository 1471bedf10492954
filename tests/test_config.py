"""BertConfig: named sizes, both dialects of the file, refusals."""

import json

import pytest

from keras_bert import BertConfig


def _write(folder, name, values):
    path = folder / name
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "layers", "width"),
    [  # Devlin et al. 2018, section 3; Turc et al. 2019, table 1
        ("tiny", 2, 128),
        ("mini", 4, 256),
        ("small", 4, 512),
        ("medium", 8, 512),
        ("base", 12, 768),
        ("large", 24, 1024),
    ],
)
def test_named_sizes(name, layers, width):
    for spelling in (name, f"bert_{name}", f"bert-{name}"):
        config = BertConfig.from_name(spelling)
        assert (config.num_hidden_layers, config.hidden_size) == (layers, width)
        assert config.head_size == 64
        assert config.intermediate_size == 4 * width


def test_named_size_with_changes():
    assert BertConfig.from_name("tiny", vocab_size=99).vocab_size == 99


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="'bert_giant' is not a named size.*bert_base"):
        BertConfig.from_name("bert_giant")


def test_unknown_key_names_the_nearest():
    with pytest.raises(ValueError, match="'hiden_size': did you mean 'hidden_size'"):
        BertConfig.from_dict({"hiden_size": 8})


def test_unknown_key_without_neighbour_lists_all():
    with pytest.raises(ValueError, match="'zzz': the valid keys are attention_probs_dropout_prob"):
        BertConfig.from_dict({"zzz": 8})


@pytest.mark.parametrize(
    ("dialect", "written", "meant"),
    [  # google-research/bert modeling.py computes gelu with tanh; transformers' "gelu" is erf
        ("google", "gelu", "gelu_tanh"),
        ("hf", "gelu", "gelu"),
        ("hf", "gelu_new", "gelu_tanh"),
        ("google", "relu", "relu"),
        ("keras_bert", "gelu", "gelu"),
    ],
)
def test_activation_names_of_the_dialects(dialect, written, meant):
    config = BertConfig.from_dict({"hidden_act": written}, dialect)
    assert config.hidden_act == meant
    assert config.to_dict(dialect)["hidden_act"] == written


@pytest.mark.parametrize("dialect", ["google", "hf", "keras_bert"])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "silu", "tanh"])
def test_every_activation_survives_every_dialect(dialect, activation):
    config = BertConfig(hidden_act=activation)
    read_back = BertConfig.from_dict(config.to_dict(dialect), dialect)
    assert read_back.hidden_act == activation


def test_the_file_tells_the_dialect(tmp_path):
    google = _write(tmp_path, "bert_config.json", {"hidden_act": "gelu", "hidden_size": 24})
    hugging_face = _write(tmp_path, "config.json", {"hidden_act": "gelu", "model_type": "bert"})
    assert BertConfig.from_file(google).hidden_act == "gelu_tanh"
    assert BertConfig.from_file(google).hidden_size == 24
    assert BertConfig.from_file(hugging_face).hidden_act == "gelu"


def test_released_google_files_are_read(tmp_path):
    # The keys of multi_cased_L-12_H-768_A-12/bert_config.json.
    path = _write(
        tmp_path,
        "bert_config.json",
        {
            "attention_probs_dropout_prob": 0.1,
            "directionality": "bidi",
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "hidden_size": 768,
            "initializer_range": 0.02,
            "intermediate_size": 3072,
            "max_position_embeddings": 512,
            "num_attention_heads": 12,
            "num_hidden_layers": 12,
            "pooler_fc_size": 768,
            "pooler_num_attention_heads": 12,
            "pooler_num_fc_layers": 3,
            "pooler_size_per_head": 128,
            "pooler_type": "first_token_transform",
            "type_vocab_size": 2,
            "vocab_size": 119547,
        },
    )
    assert BertConfig.from_file(path) == BertConfig(vocab_size=119547, hidden_act="gelu_tanh")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"hidden_size": 0}, "hidden_size is 0: it must be an integer of at least 1"),
        ({"vocab_size": 1.5}, "vocab_size is 1.5"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"hidden_size": 10, "num_attention_heads": 3}, "10 is not divisible by .* 3"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob is 1.0: it must be a probability"),
        ({"attention_probs_dropout_prob": -0.1}, "attention_probs_dropout_prob is -0.1"),
        ({"hidden_act": "mish"}, "hidden_act 'mish' is unknown: choose one of gelu"),
        ({"pad_token_id": 30522}, "pad_token_id 30522 is not an id"),
        ({"layer_norm_eps": 0}, "layer_norm_eps is 0: it must be above 0"),
        ({"position_embedding_type": "relative_key"}, "supports only 'absolute'"),
        ({"is_decoder": True}, "is_decoder is True"),
    ],
)
def test_bad_values_are_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        BertConfig.from_dict(values)


def test_bad_files_are_refused_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds neither config.json nor bert_config.json"):
        BertConfig.from_file(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere.json does not exist"):
        BertConfig.from_file(tmp_path / "nowhere.json")
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="config.json is not valid JSON"):
        BertConfig.from_file(tmp_path)
    _write(tmp_path, "config.json", {"model_type": "roberta"})
    with pytest.raises(ValueError, match="config.json: model_type is 'roberta'.*only 'bert'"):
        BertConfig.from_file(tmp_path)
    (tmp_path / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="holds a list, expected a JSON object"):
        BertConfig.from_file(tmp_path)


def test_replace_checks_again():
    config = BertConfig.from_name("tiny")
    assert config.replace(vocab_size=7).vocab_size == 7
    with pytest.raises(ValueError, match="vocab_size is -1"):
        config.replace(vocab_size=-1)
    assert config.replace(classifier_dropout=0.3).output_dropout_prob == 0.3
    assert config.output_dropout_prob == 0.1
