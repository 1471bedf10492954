"""One way to the model of any folder: what it holds decides."""

import os
from collections.abc import Collection
from typing import Any

from keras_bert.checkpoints.model_classes import ENCODER, MODEL_CLASSES
from keras_bert.checkpoints.sentence_modules import encoder_source
from keras_bert.config import find_config_file, read_json
from keras_bert.models import preset, registry
from keras_bert.models.encoder import BertEncoder
from keras_bert.storage import hub


def load_encoder(
    folder: str | os.PathLike,
    ignore_config_keys: Collection[str] = (),
    base: str | os.PathLike | None = None,
    **arguments: Any,
) -> BertEncoder:
    """Opens the encoder of a model folder, of whichever family and format.

    The encoder of a folder with a head comes without it.

    Args:
        folder: a folder of ours, Google's, Hugging Face's or Model Garden's, an adapter of PEFT, a
            SavedModel of TF-Hub's, or `hf://org/name` for a folder on the Hugging Face Hub.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.
        base: of an adapter: the model that it is added to, in place of the one that it names.
        **arguments: arguments of the encoder, such as `output_hidden_states=True`.

    Raises:
        FileNotFoundError: the folder is none of these, or a file is missing.
        ValueError: a file in it is damaged, or its family is not one of the package's.

    Example:
        encoder = load_encoder("hf://google/electra-small-discriminator")
    """
    if base is not None:
        checkpoint = preset.read_checkpoint(folder, ignore_config_keys, base)
        return preset.from_checkpoint(BertEncoder, checkpoint, arguments)
    return BertEncoder.from_preset(os.fspath(folder), ignore_config_keys, **arguments)


def load_model(
    folder: str | os.PathLike,
    ignore_config_keys: Collection[str] = (),
    base: str | os.PathLike | None = None,
    **arguments: Any,
) -> Any:
    """Opens a model folder of whichever family and format as the model it holds, head included.

    Args:
        folder: see `load_encoder`.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.
        base: see `load_encoder`.
        **arguments: arguments of the model's class other than `config`, in place of the stored.

    Returns:
        An encoder, or a model with a head on one: `BertClassifier`, `BertMaskedLM` and so on.

    Raises:
        FileNotFoundError: the folder is none of these, or a file is missing.
        ValueError: a file in it is damaged; or its family or head is not one of the package's.

    Example:
        model = load_model("runs/reviews")
        preprocess = load_preprocessor("runs/reviews")
        logits = model(preprocess(["a fine film"]))
    """
    local = hub.local_folder(encoder_source(folder))
    if preset.is_ours(local) and base is None:
        architecture = read_json(find_config_file(local))["architecture"]
        if architecture not in MODEL_CLASSES:
            raise ValueError(
                f"{folder} holds a {architecture}, a class of your own: open it by from_preset of "
                "that class"
            )
        return registry.model_class(architecture).from_preset(
            os.fspath(local), ignore_config_keys, **arguments
        )
    checkpoint = preset.read_checkpoint(local, ignore_config_keys, base)
    architecture = checkpoint.architecture
    kind = BertEncoder if architecture == ENCODER else registry.model_class(architecture)
    return preset.from_checkpoint(kind, checkpoint, arguments)
