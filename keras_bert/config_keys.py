"""Keys of config files that are no number of the encoder: passed over, refused or unknown.

Files of other programs hold much beside the numbers of a BERT. Each key there is one of four kinds:
a field of `BertConfig`; another name of a field, which must agree with it; a key that would change
the arithmetic, refused unless it says "off"; a key that is known to change nothing. Any other key
is refused too, since nobody here knows what it does.
"""

import difflib
import reprlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

# What transformers and Google's releases wrote into files from the start; our own files may hold
# these, too.
_BOOKKEEPING = frozenset(
    # Hugging Face: where the file comes from, labels, generation.
    "_name_or_path architectures attn_implementation _attn_implementation"
    " bos_token_id cls_token_id dtype eos_token_id finetuning_task gradient_checkpointing id2label"
    " label2id mask_token_id max_length model_type name_or_path num_labels output_attentions"
    " output_hidden_states output_past problem_type return_dict sep_token_id task_specific_params"
    " torch_dtype torchscript transformers_version unk_token_id use_cache"
    " chunk_size_feed_forward cross_attention_hidden_size"
    " tokenizer_class attn_config _commit_hash"
    # Google's multilingual and Chinese releases carry these, and no code of theirs reads them.
    " directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers"
    " pooler_size_per_head pooler_type".split()
)
_HARMLESS_IN_FILES_OF_OTHERS = frozenset(
    # transformers: settings of the program, all versions (configuration_utils.py).
    "_attn_implementation_autoset _attn_implementation_internal _experts_implementation"
    " _experts_implementation_internal _num_labels _output_attentions base_model_pp_plan"
    " base_model_tp_plan experts_implementation is_composition"
    " keys_to_ignore_at_inference model_max_length output_scores return_dict_in_generate"
    " tf_legacy_loss tie_encoder_decoder tie_word_embeddings tokenizer_file tokenizer_name"
    " transformers_weights use_bfloat16 use_return_dict xla_device"
    # transformers: generation of text, which an encoder does not do (GenerationConfig).
    " assistant_early_exit bad_words_ids begin_suppress_tokens constraints decoder_start_token_id"
    " diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size"
    " encoder_repetition_penalty eos_token_ids epsilon_cutoff eta_cutoff"
    " exponential_decay_length_penalty force_words_ids forced_bos_token_id forced_decoder_ids"
    " forced_eos_token_id guidance_scale length_penalty low_memory max_new_tokens max_time"
    " min_length min_new_tokens min_p no_repeat_ngram_size num_beam_groups num_beams"
    " num_return_sequences penalty_alpha prefix remove_invalid_values renormalize_logits"
    " repetition_penalty sequence_bias suppress_tokens temperature top_k top_p typical_p"
    # transformers: the summary of heads that BERT does not have.
    " summary_activation summary_first_dropout summary_last_dropout summary_proj_to_labels"
    " summary_type summary_use_proj"
    # transformers: DistilBERT's start values of its positions, and a dropout of one head.
    " qa_dropout sinusoidal_pos_embds tie_weights_"
    # ALBERT's released configs; no code of its authors or of transformers reads these.
    " down_scale_factor gap_size layers_to_keep net_structure_type num_memory_blocks"
    # Exports: ONNX, transformers.js, OpenVINO, AWS Neuron.
    " export_model_type neuron onnx transformers.js_config use_io_binding"
    # Megatron and NVIDIA: precision of their training, files, tasks of a multi-task run.
    " apply_query_key_layer_scaling attention_softmax_in_fp32 bf16 fp16 fp32_embedding"
    " fp32_layernorm fp32_residual_connection fp32_tokentypes lower_case masked_softmax_fusion"
    " num_tasks output_all_encoded_layers params_dtype vocab_file"
    # sentence-transformers, deepset's FARM, PaddleNLP, TinyBERT's distillation.
    " language name sbert_ce_default_activation_function sentence_transformers"
    " paddlenlp_version fuse dropout cell output_intermediate pre_trained structure training"
    # Training scripts that wrote their own settings along.
    " Word2vec_path author base_model batch_size best_metric class_weights"
    " data_dir date description device do_lower_case dropout_prob epoch epochs eval_batch_size"
    " framework gamma global_step gradient_accumulation_steps label_list label_names"
    " label_smoothing labels languages learning_rate license local_rank logging_steps loss"
    " loss_type max_grad_norm"
    " max_len max_seq_len max_seq_length method metric mlm_probability model_name"
    " model_name_or_path n_gpu num_classes num_epochs num_train_epochs optimizer output_dir"
    " pretrained_model_name_or_path save_steps scheduler seed tags task task_name threshold"
    " train_batch_size url version warmup_proportion warmup_ratio warmup_steps weight_decay".split()
)
# The model itself is read from these, so that a notice of what is passed over leaves them out.
_READ = frozenset(
    "architectures id2label label2id model_type problem_type tie_word_embeddings".split()
)

# `model_type` of a file with two configs, `encoder` and `decoder`.
ENCODER_DECODER_TYPE = "encoder-decoder"

# Other names of fields: harmless where they agree, another architecture where they do not.
_SECOND_NAMES = {
    "emb_size": "hidden_size",
    "embedding_size": "hidden_size",
    "layer_norm_epsilon": "layer_norm_eps",
    "layernorm_epsilon": "layer_norm_eps",
}

# Keys that change the arithmetic unless they are off: false, null, 0, empty, or a value below.
_CROSS_ATTENTION = "the model attends to the outputs of another encoder (cross attention)"
_DECODER = "the model is a decoder, this BERT only encodes"
_POSITIONS = "this BERT supports only 'absolute' positions, added to the embeddings"
_NORM_FIRST = "the model normalizes before each sub-layer, BERT after it"
_IMAGES = "the model reads images or another second input"
_SHARED = "layers share weights or differ from each other"
_REASONS = {
    "add_cross_attention": _CROSS_ATTENTION,
    "cross_attention_freq": _CROSS_ATTENTION,
    "encoder_hidden_size": _CROSS_ATTENTION,
    "encoder_width": _CROSS_ATTENTION,
    "fusion_layer": _CROSS_ATTENTION,
    "num_query_tokens": _CROSS_ATTENTION,
    "is_decoder": _DECODER,
    "is_encoder_decoder": _DECODER,
    "alibi": _POSITIONS,
    "alibi_starting_size": _POSITIONS,
    "position_embedding_type": _POSITIONS,
    "relative_attention": _POSITIONS,
    "rope_parameters": _POSITIONS,
    "rope_scaling": _POSITIONS,
    "rope_theta": _POSITIONS,
    "rotary_emb_fraction": _POSITIONS,
    "use_alibi": _POSITIONS,
    "use_relative_position": _POSITIONS,
    "use_rotary": _POSITIONS,
    "ln_type": _NORM_FIRST,
    "norm_first": _NORM_FIRST,
    "pre_layer_norm": _NORM_FIRST,
    "pre_ln": _NORM_FIRST,
    "pre_norm": _NORM_FIRST,
    "prenorm": _NORM_FIRST,
    "bi_hidden_size": _IMAGES,
    "img_feature_dim": _IMAGES,
    "img_feature_type": _IMAGES,
    "v_feature_size": _IMAGES,
    "v_hidden_size": _IMAGES,
    "visual_embedding_dim": _IMAGES,
    "inner_group_num": _SHARED,
    "num_hidden_groups": _SHARED,
    "per_layer_config": _SHARED,
    "adapters": "the model has adapters between its layers: merge them first",
    "auto_map": "the model is computed by code of its own, which is not run here",
    "feed_forward_type": "the feed-forward layers are not BERT's two dense layers",
    "pool_act": "the pooler's activation is tanh",
    "num_experts": "the feed-forward layers are mixtures of experts",
    "pruned_heads": "attention heads are missing from some layers",
    "quantization_config": "the weights are quantized: give the ones that they were made of",
}
_OFF_BESIDES = {
    "feed_forward_type": ("original",),
    "ln_type": ("postln",),
    "pool_act": ("tanh",),
    "position_embedding_type": ("absolute",),
}
# Those of them that our own files may hold, as the files of transformers did from the start.
_REFUSED_IN_OUR_FILES = frozenset(
    "add_cross_attention is_decoder is_encoder_decoder position_embedding_type pruned_heads"
    " tie_word_embeddings".split()
)


def check(
    values: Mapping[str, Any],
    defaults: Mapping[str, Any],
    of_others: bool,
    ignored: Collection[str] = (),
) -> tuple[str, ...]:
    """Sorts the keys of a config file and refuses those that may change the result.

    Args:
        values: the file's content.
        defaults: the fields of `BertConfig` with their defaults.
        of_others: whether the file is another program's; what our user writes is judged strictly.
        ignored: unknown keys that the caller wants passed over; also as one string, with commas.

    Returns:
        The keys that were passed over, in the order of the file.

    Raises:
        ValueError: keys change the arithmetic or are unknown; the sentence names all of them. Or
            `ignored` are no names.
    """
    if isinstance(ignored, str):
        ignored = [name.strip() for name in ignored.split(",")]
    elif not isinstance(ignored, Iterable):
        raise ValueError(
            f"ignore_config_keys is {ignored!r}: give a list of names, or leave it out"
        )
    if fields := sorted(defaults.keys() & set(ignored)):
        raise ValueError(
            f"ignore_config_keys names {', '.join(fields)}, a number of the model: only keys that "
            "this BERT does not know can be ignored"
        )
    refused: dict[str, list[str]] = {}  # keys by reason
    # The keys that `_reason` judges: those that it lets through are off.
    judged = {"embedding_size", *_REFUSED_IN_OUR_FILES}
    if of_others:
        judged = _REASONS.keys() | _SECOND_NAMES.keys()
    unknown, passed_over = [], []
    for key in values:
        if key in defaults:
            continue
        if reason := _reason(key, values, defaults, of_others):
            refused.setdefault(reason, []).append(key)
        elif key in {*ignored, *_BOOKKEEPING, *(_HARMLESS_IN_FILES_OF_OTHERS if of_others else ())}:
            passed_over.append(key)
        elif key not in judged:
            unknown.append(key)
    if refused:
        told = [
            f"{', '.join(f'{key} is {reprlib.repr(values[key])}' for key in keys)}: {reason}"
            for reason, keys in refused.items()
        ]
        raise ValueError(
            f"{'; '.join(told)}. The checkpoint belongs to another architecture, and these keys "
            "cannot be ignored"
        )
    if unknown:
        raise ValueError(_unknown(unknown, values, defaults, of_others))
    return tuple(key for key in passed_over if key not in _READ)


def _reason(
    key: str, values: Mapping[str, Any], defaults: Mapping[str, Any], of_others: bool
) -> str | None:
    """Returns why a key with its value belongs to another architecture, None if it does not."""
    value = values[key]
    if key == "tie_word_embeddings" and not of_others and value not in (True, None):
        return "this BERT scores words with their own embeddings (supports only True)"
    if field := _SECOND_NAMES.get(key):
        expected = values.get(field, defaults[field])
        if value not in (expected, None):
            return f"it must equal {field}, which is {expected}"
    if key in _REASONS and not (_is_off(value) or value in _OFF_BESIDES.get(key, ())):
        return _REASONS[key]
    return None


def _is_off(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_off, value.values()))
    return value in (None, False, 0, "", [])


def _unknown(
    keys: list[str], values: Mapping[str, Any], defaults: Mapping[str, Any], of_others: bool
) -> str:
    """Returns a sentence about all unknown keys; one suggests a field that the file lacks."""
    lacking = sorted(defaults.keys() - values.keys())
    told = []
    for key in keys:
        nearest = difflib.get_close_matches(key, lacking, n=1, cutoff=0.75)
        told.append(f"{key!r}" + (f": did you mean {nearest[0]!r}?" if nearest else ""))
    sentence = f"unknown config key{'s' if len(keys) > 1 else ''} {', '.join(told)}"
    if of_others:
        what = "it does not change" if len(keys) == 1 else "they do not change"
        end = "" if sentence.endswith("?") else "."
        return (
            f"{sentence}{end} If {what} what the encoder computes, go on with "
            f"--ignore_config_keys={','.join(keys)} (in Python the argument ignore_config_keys)"
        )
    if sentence.endswith("?"):
        return sentence
    return f"{sentence}: the valid keys are {', '.join(sorted(defaults))}"
