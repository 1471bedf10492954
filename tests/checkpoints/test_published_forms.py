"""Configs of NomicBERT, GTE, Jina's and EuroBERT in the form of published code: what opens."""

import pytest

from keras_bert import (
    BertConfig,
    EuroBertConfig,
    GteConfig,
    JinaEmbeddingsV3Config,
    NomicBertConfig,
    RobertaConfig,
)

# Of nomic-ai/nomic-embed-text-v1, as far as it says something of the model.
NOMIC = {
    "model_type": "nomic_bert",
    "architectures": ["NomicBertModel"],
    "activation_function": "swiglu",
    "attn_pdrop": 0.0,
    "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
    "bos_token_id": None,
    "causal": False,
    "dense_seq_output": True,
    "embd_pdrop": 0.0,
    "fused_bias_fc": True,
    "fused_dropout_add_ln": True,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "n_embd": 768,
    "n_head": 12,
    "n_inner": 3072,
    "n_layer": 12,
    "n_positions": 8192,
    "pad_vocab_size_multiple": 64,
    "parallel_block": False,
    "parallel_block_tied_norm": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "reorder_and_upcast_attn": False,
    "resid_pdrop": 0.0,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": 2,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "summary_activation": None,
    "summary_first_dropout": 0.0,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "torch_dtype": "float32",
    "type_vocab_size": 2,
    "use_cache": True,
    "use_flash_attn": True,
    "use_rms_norm": False,
    "use_xentropy": True,
    "vocab_size": 30528,
}
# Of jinaai/jina-embeddings-v3.
JINA = {
    "_name_or_path": "jinaai/jina-embeddings-v3",
    "architectures": ["XLMRobertaModel"],
    "attention_probs_dropout_prob": 0.1,
    "auto_map": {"AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLM"},
    "bos_token_id": 0,
    "classifier_dropout": None,
    "emb_pooler": None,
    "eos_token_id": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 1024,
    "initializer_range": 0.02,
    "intermediate_size": 4096,
    "layer_norm_eps": 1e-05,
    "load_trained_adapters": True,
    "lora_adaptations": ["retrieval.query", "retrieval.passage", "separation"],
    "lora_alpha": 1,
    "lora_dropout_p": 0.0,
    "lora_main_params_trainable": False,
    "lora_rank": 4,
    "matryoshka_dimensions": [32, 64, 128, 256, 512, 768, 1024],
    "max_position_embeddings": 8194,
    "model_type": "xlm-roberta",
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "output_past": True,
    "pad_token_id": 1,
    "position_embedding_type": "rotary",
    "rotary_emb_base": 20000.0,
    "task_instructions": {"separation": ""},
    "torch_dtype": "bfloat16",
    "transformers_version": "4.44.0",
    "truncate_dim": None,
    "type_vocab_size": 1,
    "use_cache": False,
    "use_flash_attn": True,
    "vocab_size": 250002,
}
# Of Alibaba-NLP/gte-large-en-v1.5.
GTE = {
    "model_type": "new",
    "architectures": ["NewModel"],
    "attention_probs_dropout_prob": 0.0,
    "auto_map": {"AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel"},
    "classifier_dropout": None,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 1024,
    "initializer_range": 0.02,
    "intermediate_size": 4096,
    "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm",
    "logn_attention_clip1": False,
    "logn_attention_scale": False,
    "max_position_embeddings": 8192,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "pack_qkv": True,
    "pad_token_id": 0,
    "position_embedding_type": "rope",
    "rope_scaling": {"factor": 2.0, "type": "ntk"},
    "rope_theta": 500000,
    "torch_dtype": "float32",
    "type_vocab_size": 0,
    "unpad_inputs": False,
    "use_memory_efficient_attention": False,
    "vocab_size": 30528,
}


# Of EuroBERT/EuroBERT-610m.
EUROBERT = {
    "architectures": ["EuroBertForMaskedLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "auto_map": {"AutoModel": "modeling_eurobert.EuroBertModel"},
    "bos_token": "<|begin_of_text|>",
    "bos_token_id": 128000,
    "eos_token": "<|end_of_text|>",
    "eos_token_id": 128001,
    "hidden_act": "silu",
    "hidden_dropout": 0.0,
    "hidden_size": 1152,
    "initializer_range": 0.02,
    "intermediate_size": 4096,
    "is_decoder": False,
    "mask_token": "<|mask|>",
    "mask_token_id": 128002,
    "max_position_embeddings": 8192,
    "model_type": "eurobert",
    "num_attention_heads": 18,
    "num_hidden_layers": 26,
    "num_key_value_heads": 6,
    "pad_token": "<|end_of_text|>",
    "pad_token_id": 128001,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 250000,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "transformers_version": "4.40.0.dev0",
    "vocab_size": 128256,
}


def read(values):
    return BertConfig.from_dict(values, "hf")


def test_a_nomic_config_is_read():
    base = BertConfig.from_name("nomic_bert_base")
    # Version 1: longer texts would have angles that depend on the batch, so there are 2,048.
    assert read(NOMIC) == base
    # Version 1.5, as first published and as it is today, in both forms at once.
    later = NOMIC | {"rotary_scaling_factor": None}
    assert read(later) == base.replace(max_position_embeddings=8192)
    today = later | {
        **{"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
        **{"intermediate_size": 3072, "max_position_embeddings": 2048, "head_dim": 64},
        **{"layer_norm_eps": 1e-12, "hidden_act": "silu"},
        **{"rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}},
    }
    assert read(today) == base
    # Written as transformers has it, and read again.
    written = base.to_dict("hf")
    assert written["rope_parameters"] == {"rope_type": "default", "rope_theta": 1000.0}
    assert "n_embd" not in written and read(written) == base
    assert read(later | {"n_inner": None, "n_embd": 384, "n_head": 6}).intermediate_size == 4 * 384
    unnamed = {key: later[key] for key in later if key not in ("rotary_emb_base", "n_positions")}
    assert read(unnamed) == base.replace(rope_theta=10_000.0)
    # A file by hand that says little is one of transformers.
    assert read({"model_type": "nomic_bert", "hidden_size": 384, "num_attention_heads": 6}) == (
        NomicBertConfig(hidden_size=384, num_attention_heads=6)
    )
    # Newer files name what a mixture of experts would have.
    idle = {"moe_every_n_layers": 0, "num_experts": 8, "moe_top_k": 1, "ffn_div": 1.0}
    assert read(later | idle | {"position_embedding_type": "rotary"}) == read(later)


def test_a_config_of_jina_embeddings_is_read():
    expected = BertConfig.from_name("jina_embeddings_v3")
    assert read(JINA) == JinaEmbeddingsV3Config() == expected
    assert read({"model_type": "jina_embeddings_v3"}) == expected  # as transformers has it
    assert read(expected.to_dict("hf")) == expected
    # The base of the angles that its code takes where a file names none.
    assert read({k: v for k, v in JINA.items() if k != "rotary_emb_base"}).rope_theta == 10_000
    # An XLM-RoBERTa is one as before.
    values = {"model_type": "xlm-roberta", "position_embedding_type": "absolute"}
    assert type(read(values)) is RobertaConfig


def test_a_gte_config_is_read():
    large = BertConfig.from_name("gte_large")
    assert read(GTE) == large
    # By hand: bases multiplied by 2, and all of 32 speeds divided by 2 to the power of 2 / 64.
    assert large.rope_theta == 1e6 and large.rope_factor == 2 ** (1 / 32)
    base = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
    base |= {"num_hidden_layers": 12}
    assert read(GTE | base) == BertConfig.from_name("gte_base")
    multilingual = {"vocab_size": 250048, "type_vocab_size": 1, "pad_token_id": 1}
    multilingual |= {"rope_scaling": None, "rope_theta": 20000, "unpad_inputs": "false"}
    expected = BertConfig.from_name("gte_multilingual_base")
    assert read(GTE | base | multilingual) == expected
    # snowflake-arctic-embed-m-v2.0 calls itself as transformers does.
    assert read(GTE | base | multilingual | {"model_type": "gte"}) == expected
    # What published code takes where a file says nothing, and what transformers takes.
    least = read({"model_type": "new"})
    assert (least.rope_theta, least.max_position_embeddings, least.pad_token_id) == (
        10_000,
        2048,
        0,
    )
    assert read({"model_type": "gte"}) == GteConfig()
    assert read(GTE | {"pad_token_id": None}).pad_token_id == 0
    written = large.to_dict("hf")
    angles = {"rope_type": "linear", "rope_theta": 1e6, "factor": 2 ** (1 / 32)}
    assert written["rope_parameters"] == angles and read(written) == large


def test_a_eurobert_config_is_read():
    middle = BertConfig.from_name("eurobert_610m")
    assert read(EUROBERT) == middle
    # A fine-tuned one of the same code, and one of transformers.
    later = EUROBERT | {"head_dim": 64, "mlp_bias": False, "use_cache": False}
    assert read(later | {"clf_pooling": "bos"}) == middle.replace(classifier_pooling="bos")
    written = middle.to_dict("hf")
    assert written["rope_parameters"] == {"rope_type": "default", "rope_theta": 250_000.0}
    assert written["num_key_value_heads"] == 6 and read(written) == middle
    small = {"num_key_value_heads": 12, "hidden_size": 768, "num_attention_heads": 12}
    small |= {"intermediate_size": 3072, "num_hidden_layers": 12}
    expected = BertConfig.from_name("eurobert_210m", num_key_value_heads=12)
    assert read(EUROBERT | small) == expected
    assert expected.to_dict("hf") == BertConfig.from_name("eurobert_210m").to_dict("hf")
    # What either code takes where a file says nothing.
    least = read({"model_type": "eurobert"})
    assert least == EuroBertConfig(rope_theta=10_000.0)
    assert (least.key_value_heads, least.ties_words, least.classifier_pooling) == (
        12,
        False,
        "late",
    )
    # A file of ours that ties words says so.
    tied = middle.replace(tie_word_embeddings=True)
    assert BertConfig.from_dict(tied.to_dict()) == read(tied.to_dict("hf")) == tied


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            EUROBERT | {"mlp_bias": True},
            "mlp_bias is True: only False is supported, as in EuroBERT",
        ),
        (EUROBERT | {"attention_bias": True}, "attention_bias is True: only False is supported"),
        (EUROBERT | {"head_dim": 128}, "head_dim is 128: only heads that divide hidden_size 1152"),
        (
            EUROBERT | {"num_key_value_heads": 4},
            "num_key_value_heads is 4: it must divide num_atte",
        ),
        (
            EUROBERT | {"clf_pooling": "cls"},
            "classifier_pooling is 'cls': choose one of bos, mean,",
        ),
        (
            EUROBERT | {"clf_pooling": "bos", "classifier_pooling": "late"},
            "clf_pooling is 'bos', and classifier_pooling, which says the same, is 'late'",
        ),
        (
            EUROBERT | {"rope_scaling": {"type": "ntk", "factor": 2.0}},
            "only the rope types default and linear are supported, without",
        ),
        (
            EUROBERT | {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
            "only the rope types default and linear are supported, without",
        ),
        (
            NOMIC | {"prenorm": True},
            "prenorm is True: only False is supported, as in nomic-bert-20",
        ),
        (NOMIC | {"use_rms_norm": True}, "use_rms_norm is True: only False is supported"),
        (NOMIC | {"rotary_emb_fraction": 0.5}, "rotary_emb_fraction is 0.5: only 1.0 is supported"),
        (NOMIC | {"rotary_emb_interleaved": True}, "rotary_emb_interleaved is True: only False"),
        (
            NOMIC | {"activation_function": "gelu"},
            "activation_function is 'gelu': only 'swiglu' is",
        ),
        (NOMIC | {"qkv_proj_bias": True}, "qkv_proj_bias is True: only False is supported, as in"),
        (
            {"model_type": "nomic_bert", "n_embd": 64},
            "is 'gelu_new', as the file does not name it:",
        ),
        (NOMIC | {"moe_every_n_layers": 2}, "moe_every_n_layers is 2: mixtures of experts, as"),
        (NOMIC | {"num_experts": 8}, "num_experts is 8: the feed-forward layers are mixtures of"),
        (
            NOMIC | {"hidden_size": 384},
            "n_embd is 768, and hidden_size, which says the same, is 384",
        ),
        (
            NOMIC | {"embd_pdrop": 0.1},
            "resid_pdrop is 0.0, and hidden_dropout_prob, which says the",
        ),
        (
            NOMIC | {"rope_parameters": {"rope_type": "default", "rope_theta": 10.0}},
            "rope_parameters has the rope_theta 10.0, and the key beside it that says the same 100",
        ),
        (NOMIC | {"head_dim": 32}, "head_dim is 32: only heads that divide hidden_size 768 among"),
        (NOMIC | {"attn_width": 3}, "unknown config key 'attn_width'"),
        (JINA | {"truncate_dim": 64}, "truncate_dim is 64: only None is supported, as in jina-emb"),
        (JINA | {"position_embedding_type": "alibi"}, "position_embedding_type is 'alibi'"),
        (GTE | {"layer_norm_type": "rms_norm"}, "layer_norm_type is 'rms_norm': only 'layer_norm'"),
        (
            GTE | {"logn_attention_scale": True},
            "logn_attention_scale is True: only False is support",
        ),
        (
            GTE | {"position_embedding_type": "absolute"},
            "is 'absolute': only 'rope' is supported, as",
        ),
        (
            GTE | {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "only the rope types default, linear and ntk are supported.*length of a text are not",
        ),
        (
            GTE | {"rope_scaling": {"type": "ntk", "factor": 2.0, "mixed_b": 0.6}},
            "only the rope types default, linear and ntk are supported, without mixed_b",
        ),
        (
            GTE | {"rope_scaling": {"type": "ntk"}},
            "rope_scaling has the factor None: it must be a n",
        ),
        (
            GTE | {"rope_scaling": 2},
            "rope_scaling is 2: it must be an object with rope_type and its",
        ),
        (
            {"model_type": "gte", "rope_parameters": {"partial_rotary_factor": 0.5}},
            "with all of a head turned",
        ),
        (GTE | {"rope_theta": "big"}, "rope_scaling has the rope_theta 'big': it must be a number"),
        (
            GTE | {"type_vocab_size": 2},
            "type_vocab_size is 2: a GTE has no segments, or one of all",
        ),
        (
            GTE | {"type_vocab_size": -1},
            "type_vocab_size is -1: it must be an integer of at least 0",
        ),
        (
            GTE | {"num_attention_heads": 1024},
            "make heads 1 wide: choose an even width, whose halves",
        ),
    ],
)
def test_other_forms_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        read(values)


@pytest.mark.parametrize("name", ["rope_theta", "rope_factor"])
@pytest.mark.parametrize("value", [0, -1.0, "1", float("inf"), True])
def test_angles_are_numbers_above_zero(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value!r}: it must be a number above 0"):
        NomicBertConfig(**{name: value})
