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


# A file of another program, in the form that transformers gave it.
_THEIRS = {"model_type": "bert", "hidden_size": 24, "num_attention_heads": 2}


def test_what_is_passed_over_is_told_in_one_line(tmp_path, capsys):
    values = _THEIRS | {
        "_num_labels": 9,
        "language": "english",
        "layernorm_epsilon": 1e-12,
        "num_beams": 4,
        "chunk_size_feed_forward": 7,
        "emb_size": 24,
        "id2label": {"0": "O"},
        "fp32_layernorm": True,
    }
    path = _write(tmp_path, "config.json", values)
    for _ in range(2):  # a folder that is opened twice tells it once
        assert BertConfig.from_file(path).hidden_size == 24
    passed_over = "_num_labels, language, num_beams, chunk_size_feed_forward, fp32_layernorm"
    told = capsys.readouterr()
    assert told.err == f"{path}: passed over, as they do not change the encoder: {passed_over}\n"
    assert told.out == ""
    _write(tmp_path, "bert_config.json", {"hidden_size": 768, "vocab_size": 30522})
    BertConfig.from_file(tmp_path / "bert_config.json")
    assert capsys.readouterr().err == ""


def test_unknown_keys_of_others_are_named_at_once_and_can_be_ignored(tmp_path, capsys):
    values = _THEIRS | {"num_hiden_layers": 3, "colour": "red", "shape": [1, 2]}
    path = _write(tmp_path, "config.json", values)
    with pytest.raises(ValueError) as error:
        BertConfig.from_file(path)
    assert str(error.value) == (
        f"{path}: unknown config keys 'num_hiden_layers': did you mean 'num_hidden_layers'?, "
        "'colour', 'shape'. If they do not change what the encoder computes, go on with "
        "--ignore_config_keys=num_hiden_layers,colour,shape (in Python the argument "
        "ignore_config_keys)"
    )
    with pytest.raises(ValueError, match="unknown config key 'shape'. If it does not change"):
        BertConfig.from_file(path, ignore_config_keys=["num_hiden_layers", "colour"])
    ignored = ["num_hiden_layers", "colour", "shape"]
    assert BertConfig.from_file(path, ignore_config_keys=ignored).num_hidden_layers == 12
    assert "num_hiden_layers, colour, shape" in capsys.readouterr().err
    assert BertConfig.from_dict(values, "hf", ", ".join(ignored)).hidden_size == 24
    # A string is names with commas, not what a name may be a part of.
    with pytest.raises(ValueError, match="unknown config key 'shape'"):
        BertConfig.from_dict(values, "hf", ",".join([*ignored[:2], "shapes"]))
    with pytest.raises(ValueError, match="ignore_config_keys is None: give a list of names"):
        BertConfig.from_dict(values, "hf", None)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"add_cross_attention": True}, "add_cross_attention is True: the model attends to"),
        ({"is_decoder": True, "colour": 1}, "is_decoder is True: the model is a decoder"),
        ({"position_embedding_type": "relative_key_query"}, "supports only 'absolute' positions"),
        ({"fusion_layer": 6, "encoder_width": 9}, "fusion_layer is 6, encoder_width is 9: the mo"),
        ({"pre_layer_norm": True}, "pre_layer_norm is True: the model normalizes before"),
        ({"auto_map": {"AutoModel": "x.Y"}}, "auto_map is {'AutoModel': 'x.Y'}: the model is comp"),
        ({"quantization_config": {"bits": 8}}, "quantization_config is .*weights are quantized"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads is .*heads are missing"),
        ({"emb_size": 12}, "emb_size is 12: it must equal hidden_size, which is 24"),
        ({"embedding_size": 128}, "embedding_size is 128: it must equal hidden_size, which is 24"),
        ({"layernorm_epsilon": 1e-5}, "layernorm_epsilon is 1e-05: it must equal layer_norm_eps"),
    ],
)
def test_what_changes_the_arithmetic_is_refused_and_cannot_be_ignored(values, sentence):
    for ignored in ([], list(values)):
        with pytest.raises(ValueError, match=f"{sentence}.*cannot be ignored"):
            BertConfig.from_dict(_THEIRS | values, "hf", ignored)
    off = {key: None for key in values if key != "colour"}
    assert BertConfig.from_dict(_THEIRS | off, "hf").hidden_size == 24


def test_numbers_of_the_model_cannot_be_ignored():
    with pytest.raises(ValueError, match="ignore_config_keys names hidden_size, a number of the"):
        BertConfig.from_dict(_THEIRS, "hf", ["hidden_size"])


@pytest.mark.parametrize("key", ["language", "num_beams", "fp16", "emb_size", "fusion_layer"])
def test_what_our_user_writes_is_judged_strictly(key, tmp_path):
    value = {"emb_size": 24, "fusion_layer": None}.get(key, 1)
    path = _write(tmp_path, "config.json", {"hidden_size": 24, key: value})
    with pytest.raises(ValueError, match=f"unknown config key '{key}': the valid keys are"):
        BertConfig.from_file(path)
    _write(tmp_path, "config.json", _THEIRS | {key: value})
    BertConfig.from_file(path)
    with pytest.raises(ValueError, match="tie_word_embeddings is False"):
        BertConfig.from_dict({"tie_word_embeddings": False})


@pytest.mark.parametrize(
    ("dialect", "written", "meant"),
    [  # google-research/bert modeling.py computes gelu with tanh; transformers' "gelu" is erf
        ("google", "gelu", "gelu_tanh"),
        ("hf", "gelu", "gelu"),
        ("hf", "gelu_new", "gelu_tanh"),
        ("google", "relu", "relu"),
        ("hf", "silu", "silu"),
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


def test_other_spellings_of_transformers():
    for written, meant in (("gelu_python", "gelu"), ("gelu_fast", "gelu_tanh"), ("swish", "silu")):
        values = {"hidden_act": written, "pad_token_id": None}
        assert BertConfig.from_dict(values, "hf") == BertConfig(hidden_act=meant)


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
        ({"layer_norm_eps": 0}, "layer_norm_eps is 0: it must be a number above 0"),
        ({"layer_norm_eps": 10**400}, "000: it must be a number above 0"),  # no float holds it
        ({"pad_token_id": None}, "pad_token_id None is not an id"),
        ({"pad_token_id": True}, "pad_token_id True is not an id"),
        ({"model_type": ["bert"]}, r"model_type is \['bert'\]: expected one of bert"),
        ({"position_embedding_type": "relative_key"}, "supports only 'absolute'"),
        ({"is_decoder": True}, "is_decoder is True"),
    ],
)
def test_bad_values_are_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        BertConfig.from_dict(values)


@pytest.mark.parametrize("name", ["config.json", "bert_config.json"])
@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("layer_norm_eps", '"1e-12"', "is '1e-12': it must be a number above 0"),
        ("layer_norm_eps", "true", "is True: it must be a number above 0"),
        ("layer_norm_eps", "NaN", "is nan: it must be a number above 0"),
        ("initializer_range", "null", "is None: it must be a number above 0"),
        ("initializer_range", "Infinity", "is inf: it must be a number above 0"),
        ("hidden_dropout_prob", "false", "is False: it must be a probability"),
        ("hidden_act", '["gelu"]', "['gelu'] is unknown: choose one of gelu, "),
    ],
)
def test_values_of_another_kind_are_refused_with_file_and_field(name, field, value, told, tmp_path):
    path = tmp_path / name
    path.write_text(f'{{"{field}": {value}}}', encoding="utf-8")
    with pytest.raises(ValueError) as error:
        BertConfig.from_file(path)
    assert str(error.value).startswith(f"{path}: {field} {told}")


def test_bad_files_are_refused_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds neither config.json nor bert_config.json"):
        BertConfig.from_file(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere.json does not exist"):
        BertConfig.from_file(tmp_path / "nowhere.json")
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="config.json is not valid JSON"):
        BertConfig.from_file(tmp_path)
    _write(tmp_path, "config.json", {"model_type": "deberta"})
    with pytest.raises(
        ValueError,
        match="config.json: model_type is 'deberta'.*'electra', .*'camembert', 'new' are supported",
    ):
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
