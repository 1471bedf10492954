"""What a run without a checkpoint of its own starts from: another run, a model, or nothing."""

from typing import Any

import tensorflow as tf

from keras_bert.config import BertConfig, read_json
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.storage import hub
from keras_bert.storage.remote_folders import local_copy
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import Vocabulary


def is_run(init_from: str | None) -> bool:
    """Returns whether a place to start from is a run, which this one would go on with."""
    if init_from is None or init_from.startswith(hub.SCHEME):
        return False
    return tf.io.gfile.exists(f"{init_from}/run.json")


def check_source(config: BertConfig, options: PretrainingOptions, vocabulary: Vocabulary) -> None:
    """Makes sure, before anything is built, that a run can start from `init_from`.

    Args:
        config: the model's numbers.
        options: what the run is told.
        vocabulary: that of the records.

    Raises:
        FileNotFoundError: there is nothing.
        ValueError: it has another vocabulary; or it is a run with another configuration,
            optimizer or loss scale.
    """
    source = options.init_from
    if source is None:
        return
    if not is_run(source):
        _check_vocabulary(source, _sha256_of_model(source), vocabulary)
        return
    settings = read_json(local_copy(f"{source}/run.json"))
    _check_vocabulary(source, settings["vocabulary_sha256"], vocabulary)
    check_config(source, settings["config"], config)
    optimizer = settings["options"]["optimizer"]
    precision = settings["options"]["mixed_precision"]
    if (precision == "float16") != (options.mixed_precision == "float16"):
        raise ValueError(
            f"the run in {source} computed in {precision}, but mixed_precision is "
            f"{options.mixed_precision!r}: float16 has a loss scale, and neither goes on from the "
            "other; take only the weights, with "
            f"--init_from={source}/preset"
        )
    if optimizer != options.optimizer:
        raise ValueError(
            f"the run in {source} holds the moments of {optimizer}, but optimizer is "
            f"{options.optimizer!r}: take {optimizer} too, or only its weights, with "
            f"--init_from={source}/preset"
        )


def check_config(source: str, found: dict[str, Any], config: BertConfig) -> None:
    """Makes sure that a model is of a configuration, but for its dropout.

    Raises:
        ValueError: it is not; the sentence names a difference.
    """
    wanted = config.to_dict()
    for name in sorted(wanted.keys() | found.keys()):
        if "dropout" not in name and wanted.get(name) != found.get(name):
            folder = f"{source}/preset" if is_run(source) else source
            raise ValueError(
                f"{source} holds a model of another configuration than --model ({name} "
                f"{found.get(name)!r}, not {wanted.get(name)!r}): give its own, "
                f"--model={folder}/config.json"
            )


def _sha256_of_model(folder: str) -> str | None:
    local = hub.local_folder(local_copy(folder))
    if not local.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: give the folder of a model or a run")
    try:
        return BertTokenizer.from_preset(local).vocabulary.sha256
    except FileNotFoundError:  # weights alone: nobody can tell
        return None


def _check_vocabulary(source: str, sha256: str | None, vocabulary: Vocabulary) -> None:
    if sha256 not in (None, vocabulary.sha256):
        raise ValueError(
            f"{source} was trained with another vocabulary (sha256 {sha256[:12]}...) than the "
            f"records were made with (sha256 {vocabulary.sha256[:12]}...): its embeddings would "
            "belong to other pieces; make the records again with its vocab.txt"
        )
