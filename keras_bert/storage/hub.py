"""Names like `hf://org/name`: a model folder on the Hugging Face Hub, read and written.

`hf://org/name/folder` is a folder inside of a repository, which is read alone.
"""

import os
import re
from pathlib import Path
from typing import Any

SCHEME = "hf://"

CARD_FILE = "README.md"

# Everything a model and its tokenizer need, and no weights of other frameworks. Folders of
# sentence-transformers keep parts of a model one level deeper.
_FILES = [
    *("*.json", "vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "spm.model"),
    *("*.safetensors", "0_*/vocab.txt", "0_*/vocab.json", "0_*/merges.txt", "0_*/*.model"),
    *("*_Dense/pytorch_model.bin", "sparse_linear.pt", "colbert_linear.pt"),
]
# Where there are no safetensors: PyTorch's own files, and those of the other formats.
_OTHER_FILES = [
    *("pytorch_model*.bin", "0_*/pytorch_model*.bin"),
    *("model.weights.h5", "bert_model.ckpt.*", "adapter_model.bin"),
]


def local_folder(name: str | os.PathLike) -> Path:
    """Returns a folder as it is, and downloads `hf://org/name` into the Hub's cache.

    Args:
        name: a folder, or "hf://" and the name of a repository, or of a folder in it.

    Raises:
        ValueError: the extra `hub` is not installed, or the repository cannot be fetched.
    """
    name = _spelled(name)
    if not name.startswith(SCHEME):
        return Path(name)
    repository, inner = _parts(name)
    library = _library(name)
    try:
        folder = _download(library, repository, inner, _FILES)
        if not [*folder.glob("*.safetensors"), *folder.glob("0_*/*.safetensors")]:
            folder = _download(library, repository, inner, _FILES + _OTHER_FILES)
    except Exception as error:  # the client raises many kinds: network, name, permission, disk
        reason = " ".join(str(error).split())  # which the client writes in several lines
        raise ValueError(f"{name} cannot be fetched: {reason}") from None
    if inner and not folder.is_dir():
        raise ValueError(f"{name} cannot be fetched: {repository} has no folder {inner}")
    return folder


def missing_folder(name: str | os.PathLike) -> FileNotFoundError:
    """Returns the error of a model folder that is not there; the name may be one on the Hub."""
    name = os.fspath(name)
    hint = ""
    if re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name) and not Path(name).parent.is_dir():
        hint = f"; a model on the Hugging Face Hub is given as {SCHEME}{name}"
    elif re.fullmatch(r"[\w-][\w.-]*", name) and not Path(name).exists():
        hint = (
            f"; a model on the Hugging Face Hub is given as {SCHEME}org/name, for example "
            f"{SCHEME}google-bert/bert-base-uncased"
        )
    return FileNotFoundError(f"{name} is not a folder: give the folder of a model{hint}")


def is_hub_name(name: str | os.PathLike) -> bool:
    """Whether a name is that of a repository on the Hub."""
    return _spelled(name).startswith(SCHEME)


def _spelled(name: str | os.PathLike) -> str:
    # `Path("hf://org/name")` makes one slash of two.
    return re.sub("^hf:/(?!/)", SCHEME, os.fspath(name))


def check_can_push(name: str) -> None:
    """Checks, before the minutes that a conversion may take, that somebody is logged in.

    Args:
        name: `hf://org/name`.

    Raises:
        ValueError: the name is none, the extra `hub` is not installed, nobody is logged in, the
            token is refused or the Hub does not answer.
    """
    if not re.fullmatch(rf"{SCHEME}[\w.-]+/[\w.-]+", name):
        raise ValueError(f"{name} is no name of a repository: expected {SCHEME}org/name")
    library = _library(name)
    if library.get_token() is None:
        raise ValueError(
            f"{name} cannot be written: nobody is logged in to the Hugging Face Hub; run "
            "`hf auth login` or set HF_TOKEN to a token that may write"
        )
    _asked(name, library, lambda: library.HfApi().whoami())


def push(folder: str | os.PathLike, name: str, private: bool = True) -> tuple[str, bool]:
    """Uploads a folder as one commit; the repository is made where there is none.

    Files of the repository that the folder does not have stay, and so does a model card
    (`README.md`) that is there already.

    Args:
        folder: the files.
        name: `hf://org/name`.
        private: whether a new repository is seen by its owners alone; one that exists stays as it
            is.

    Returns:
        The URL of the repository, and whether its own model card was kept.

    Raises:
        ValueError: the Hub refuses it or does not answer; the sentence says why.
    """
    library = _library(name)
    repository = name.removeprefix(SCHEME)
    hub = library.HfApi()
    paths = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }

    def upload() -> tuple[str, bool]:
        url = hub.create_repo(repository, private=private, exist_ok=True)
        keeps_card = CARD_FILE in paths and hub.file_exists(repository, CARD_FILE)
        additions = [
            library.CommitOperationAdd(path_in_repo, path)
            for path_in_repo, path in paths.items()
            if not (keeps_card and path_in_repo == CARD_FILE)
        ]
        # One commit: whoever reads meanwhile sees all of the model or none of it.
        hub.create_commit(repository, additions, commit_message="Upload the model")
        return str(url), keeps_card

    return _asked(name, library, upload)


def _library(name: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise ValueError(
            f"{name} needs the package huggingface_hub: pip install huggingface_hub"
        ) from None
    return huggingface_hub


def _asked(name: str, library: Any, request: Any) -> Any:
    """Returns what a request to the Hub returns; a failure becomes one sentence."""
    from huggingface_hub.errors import HfHubHTTPError

    namespace = name.removeprefix(SCHEME).partition("/")[0]
    reasons = {
        401: "the token is not valid: run `hf auth login` or set HF_TOKEN to another",
        403: f"the token may not write to {namespace}: give a namespace of yours, or a token with "
        "the permission to write",
        404: f"there is no user or organization {namespace}, or it is hidden from this token",
    }
    try:
        return request()
    except HfHubHTTPError as error:
        status = error.response.status_code
        why = reasons.get(status, f"the Hub answers {status}: {error.server_message or error}")
    except Exception as error:  # the client raises many kinds: network, time, disk
        why = f"{library.constants.ENDPOINT} gives no usable answer: {error}"
    raise ValueError(f"{name} cannot be written: {why}")


def _parts(name: str) -> tuple[str, str]:
    """Returns a repository and the folder in it, "" for all of it."""
    owner, _, rest = name.removeprefix(SCHEME).partition("/")
    repository, _, inner = rest.strip("/").partition("/")
    if ".." in inner.split("/"):
        raise ValueError(f"{name} leads out of its repository: name a folder in it")
    return f"{owner}/{repository}".rstrip("/"), inner


def _download(hub: Any, repository: str, inner: str, files: list[str]) -> Path:
    patterns = [f"{inner}/{pattern}" for pattern in files] if inner else files
    return Path(hub.snapshot_download(repository, allow_patterns=patterns)) / inner
