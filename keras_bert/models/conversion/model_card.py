"""The model card of a converted model: what is known of it, and how to open it."""

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.model_classes import MODEL_CLASSES
from keras_bert.choices import TargetFormat

_FORMATS = {
    "keras": "keras_bert (`config.json`, `model.weights.h5`)",
    "google": "google-research/bert (`bert_config.json`, `bert_model.ckpt.*`)",
    "hf": "transformers (`config.json`, `model.safetensors`)",
    "garden": "TensorFlow Model Garden (`bert_config.json`, `bert_model.ckpt.*`)",
    "gliner": "gliner (`gliner_config.json`, `model.safetensors`)",
}
_NUMBERS = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "attention heads": "num_attention_heads",
    "feed-forward width": "intermediate_size",
    "activation": "hidden_act",
    "positions": "max_position_embeddings",
    "vocabulary": "vocab_size",
    "attention window, to each side": "attention_window",
    "global positions, from the first on": "global_tokens",
}


def model_card(
    checkpoint: Checkpoint, format: TargetFormat, name: str, base: str | None, tokenizer: str
) -> str:
    """Returns the text of a `README.md` for the Hugging Face Hub.

    What is not known, the licence for one, is left out.

    Args:
        checkpoint: the model.
        format: format of its files.
        name: of the repository, such as "org/name".
        base: the repository that it was converted from, if that is known.
        tokenizer: a description of it.
    """
    header = ["library_name: transformers"] if format == "hf" else []
    if pipeline := MODEL_CLASSES[checkpoint.architecture].pipeline:
        header.append(f"pipeline_tag: {pipeline}")
    if base is not None:
        header.append(f"base_model: {base}")
    header += ["tags:", f"- {checkpoint.config.hugging_face_type}", "- keras-bert-tpu"]
    numbers = checkpoint.config.to_dict()
    rows = {title: numbers[field] for title, field in _NUMBERS.items() if field in numbers}
    rows |= {"tokenizer": tokenizer, "format": f"that of {_FORMATS[format]}"}
    if labels := checkpoint.head.get("labels"):
        rows["labels"] = ", ".join(str(label) for label in labels)
    return "\n".join(
        [
            *("---", *header, "---", "", f"# {name}", ""),
            f"A model of the type {checkpoint.config.hugging_face_type} ({checkpoint.architecture})"
            + (f", converted from [{base}](https://huggingface.co/{base})." if base else "."),
            *("", "| | |", "|---|---|"),
            *(f"| {title} | {value} |" for title, value in rows.items()),
            *("", "## How to load it", "", "```python"),
            f"from keras_bert import {checkpoint.architecture}, load_tokenizer",
            "",
            f'model = {checkpoint.architecture}.from_preset("hf://{name}")',
            f'tokenizer = load_tokenizer("hf://{name}")',
            "```",
            "",
        ]
    )
