"""Names like `hf://org/name`: a model folder on the Hugging Face Hub, downloaded once."""

import os
from pathlib import Path

SCHEME = "hf://"

# Everything a model and its tokenizer need, and no weights of other frameworks.
_FILES = ["*.json", "vocab.txt", "*.safetensors"]
_BIN_FILES = ["pytorch_model*.bin"]


def local_folder(name: str | os.PathLike) -> Path:
    """Returns a folder as it is, and downloads `hf://org/name` into the Hub's cache.

    Args:
        name: a folder, or "hf://" and the name of a repository.

    Raises:
        ValueError: the extra `hub` is not installed, or the repository cannot be fetched.
    """
    name = os.fspath(name)
    if not name.startswith(SCHEME):
        return Path(name)
    repository = name.removeprefix(SCHEME)
    try:
        import huggingface_hub
    except ImportError:
        raise ValueError(
            f"{name} needs the package huggingface_hub: pip install 'keras-bert-tpu[hub]'"
        ) from None
    try:
        folder = _download(huggingface_hub, repository, _FILES)
        if not list(folder.glob("*.safetensors")):
            folder = _download(huggingface_hub, repository, _FILES + _BIN_FILES)
    except Exception as error:  # the client raises many kinds: network, name, permission, disk
        raise ValueError(f"{name} cannot be fetched: {error}") from None
    return folder


def _download(hub: object, repository: str, files: list[str]) -> Path:
    return Path(hub.snapshot_download(repository, allow_patterns=files))
