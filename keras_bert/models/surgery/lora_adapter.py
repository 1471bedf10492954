"""What a model learned by LoRA, written as an adapter that PEFT opens on the same base."""

import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.checkpoints.peft import writing
from keras_bert.models import preset, registry
from keras_bert.storage.files import atomic_folder
from keras_bert.storage.paths import check_local

_A, _B = "lora_kernel_a", "lora_kernel_b"


def save_lora_adapter(
    model: Any,
    folder: str | os.PathLike,
    base: str | os.PathLike | None = None,
    tokenizer: Any = None,
) -> None:
    """Writes the low-rank matrices of a model as a folder of PEFT, a few per cent of its size.

    `peft.PeftModel.from_pretrained` opens it on the model of transformers that the training began
    with, and `from_preset` of any class here by itself. Pooler and head are in it whole. Query, key
    and value, one layer here, share A there. `config.json` beside it has the labels.

    Args:
        model: what `enable_lora` was called for, the encoder or a model with a head. Of one whose
            head has no weights, such as a `BertSentenceEmbedder`, it is the encoder.
        folder: the folder to write; one that exists is replaced.
        base: the model folder that the training began with, or `hf://org/name`, as which the
            adapter names it; None leaves the name out.
        tokenizer: the model's tokenizer; its files are written too.

    Raises:
        ValueError: the model has no such matrices, transformers has no model like it, its output
            layer is tied to the words, or the folder is none of this machine.

    Example:
        enable_lora(model.encoder, rank=8)
        model.compile(...)
        model.fit(...)
        save_lora_adapter(model, "runs/reviews_adapter", base="hf://google-bert/bert-base-uncased")
    """
    check_local("folder", folder)
    preset.check_model(model)
    if not _lora_layers(model):
        raise ValueError(
            f"{model.name} has no low-rank matrices: call enable_lora of its encoder and train it"
        )
    if reason := hindrance(model):
        raise ValueError(f"{reason}: write the whole model with save_to_preset")
    model = _saved_model(model)
    checkpoint, trained = preset.as_checkpoint(model), _trained(model)
    if tokenizer is not None:
        tokenizer.vocabulary.check_size(model.config.vocab_size)
    with atomic_folder(folder) as temporary:
        named = None if base is None else os.fspath(base)
        writing.write(checkpoint, trained, Path(temporary), named)
        if tokenizer is not None:
            tokenizer.save(temporary)


def hindrance(model: Any) -> str | None:
    """Returns why PEFT has no place for what a model learned by LoRA, None where it has."""
    saved = _saved_model(model)
    architecture = registry.architecture_of(type(saved))
    return writing.hindrance(saved.config, architecture, saved.head_config())


def _saved_model(model: Any) -> Any:
    """Returns the encoder of a model whose head has no weights."""
    encoder = getattr(model, "encoder", model)
    return encoder if len(encoder.weights) == len(model.weights) else model


def _lora_layers(model: Any) -> list[keras.layers.Dense]:
    layers = model._flatten_layers()
    return [one for one in layers if isinstance(one, keras.layers.Dense) and one.lora_enabled]


def _trained(model: Any) -> writing.TrainedMatrices:
    by_path = {
        path: ops.convert_to_numpy(variable.value).astype(np.float32)
        for path, variable in preset.variables_by_path(model, model.weights).items()
        if path.endswith((_A, _B))
    }
    matrices = {
        path.removesuffix(f"/{_A}"): (value, by_path[path.removesuffix(_A) + _B])
        for path, value in by_path.items()
        if path.endswith(_A)
    }
    layer = _lora_layers(model)[0]
    pooler = getattr(model, "encoder", model).get_layer("pooler")
    return writing.TrainedMatrices(
        matrices, layer.lora_rank, layer.lora_alpha, bool(pooler.trainable_weights)
    )
