"""Which encoder and which index suit a model folder: by the kind of vectors that it makes.

BM25 has no folder, and is known by its name.
"""

import dataclasses
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from keras_bert.checkpoints.m3.folder import is_m3_folder
from keras_bert.checkpoints.multi_vector_modules import is_multi_vector_folder
from keras_bert.checkpoints.sparse_modules import is_sparse_folder
from keras_bert.retrieval.bm25_index import Bm25, Bm25Index
from keras_bert.retrieval.cross_encoder import CrossEncoder
from keras_bert.retrieval.m3_encoder import WEIGHTS, M3Encoder
from keras_bert.retrieval.m3_index import M3Index
from keras_bert.retrieval.multi_vector_encoder import MultiVectorEncoder
from keras_bert.retrieval.multi_vector_index import MultiVectorIndex
from keras_bert.retrieval.reranker import Reranker
from keras_bert.retrieval.searched_texts import SearchedTexts
from keras_bert.retrieval.sentence_encoder import SentenceEncoder
from keras_bert.retrieval.sparse_encoder import SparseEncoder
from keras_bert.retrieval.sparse_index import SparseTextIndex
from keras_bert.retrieval.text_index import TextIndex
from keras_bert.storage import hub


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A kind of vectors.

    Attributes:
        name: what messages call its vectors.
        is_in: whether a local folder makes such vectors.
        open: opens what makes the vectors, from the folder and settings.
        index: searches among them.
        settings: arguments of the encoder, without the folder.
    """

    name: str
    is_in: Callable[[Path], bool]
    open: Callable[..., Any]
    index: type[SearchedTexts]
    settings: tuple[str, ...]


# In place of a folder: search by words. A folder of this name is ./bm25.
BM25 = "bm25"

_LENGTH, _PROMPTS = "max_seq_length", ("query_prompt", "document_prompt")
# The first that a folder makes counts; dense vectors come of any encoder.
_KINDS = (
    _Kind(
        "sparse vectors",
        is_sparse_folder,
        SparseEncoder.from_preset,
        SparseTextIndex,
        ("max_active_dims", _LENGTH, *_PROMPTS),
    ),
    _Kind(
        "token vectors",
        is_multi_vector_folder,
        MultiVectorEncoder.from_preset,
        MultiVectorIndex,
        (_LENGTH, *_PROMPTS),
    ),
    _Kind(
        "dense vectors",
        Path.is_dir,
        SentenceEncoder.from_preset,
        TextIndex,
        ("pooling", "normalize", "truncate_dim", _LENGTH, *_PROMPTS),
    ),
)
# Asks a folder of BGE-M3 for all that it makes; without it, it makes dense vectors.
_WEIGHTS = "m3_weights"


def _open_m3(
    folder: str | os.PathLike, m3_weights: Sequence[float], max_seq_length: int | None = None
) -> M3Encoder:
    return M3Encoder.from_preset(folder, max_seq_length, m3_weights)


_M3 = _Kind("vectors of three kinds", is_m3_folder, _open_m3, M3Index, (_WEIGHTS, _LENGTH))


def search_classes(
    folder: str | os.PathLike, settings: Collection[str] = ()
) -> tuple[Callable[..., Any], type[SearchedTexts]]:
    """Returns what opens the encoder of a model folder, and the class of an index that suits it.

    Args:
        folder: the folder, or `hf://org/name`; or "bm25", which needs no model.
        settings: names of arguments that the encoder will be given. With "m3_weights" a folder of
            BGE-M3 is searched by three kinds of vectors, else by dense ones alone.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: one of these is for vectors of another kind, `modules.json` in the folder is
            damaged, or the repository cannot be fetched.
    """
    if folder == BM25:
        for name in settings:
            raise ValueError(f"{name} is for a model, and {BM25} has none: leave it out")
        return lambda _: Bm25(), Bm25Index
    local = hub.local_folder(folder)
    if not local.is_dir():
        raise hub.missing_folder(local)
    kind = next(kind for kind in _KINDS if kind.is_in(local))
    if _WEIGHTS in settings:
        if not is_m3_folder(local):
            raise ValueError(
                f"{_WEIGHTS} is for BGE-M3, and {folder} makes {kind.name} alone: leave it out"
            )
        kind = _M3
    for name in settings:
        if name not in kind.settings:
            others = " or ".join(other.name for other in _KINDS if name in other.settings)
            found = f"{_WEIGHTS} asks for" if kind is _M3 else f"{folder} makes"
            raise ValueError(f"{name} is for {others}, and {found} {kind.name}: leave it out")
    return kind.open, kind.index


def open_reranker(
    folder: str | os.PathLike, label: str | None = None, weights: Sequence[float] | None = None
) -> Reranker:
    """Opens a model that scores pairs of query and text: a cross-encoder, ColBERT or BGE-M3.

    Args:
        folder: the folder, or `hf://org/name`.
        label: see `CrossEncoder`.
        weights: see `M3Encoder`; None takes those that it has where nobody says.

    Raises:
        FileNotFoundError: it is no model folder.
        ValueError: it scores no pairs, has no classes of which `label` could be one, or no three
            scores that could have `weights`.
    """
    local = hub.local_folder(folder)
    is_multi_vector, is_m3 = is_multi_vector_folder(local), is_m3_folder(local)
    if label is not None and (is_multi_vector or is_m3):
        raise ValueError(
            f"label is {label!r}, but {folder} makes token vectors and has no classes: leave it out"
        )
    if is_m3 and not is_multi_vector:
        return M3Encoder.from_preset(folder, weights=WEIGHTS if weights is None else weights)
    if weights is not None:
        raise ValueError(
            f"weights are {weights!r}, but {folder} is no BGE-M3 and has one score: leave them out"
        )
    if is_multi_vector:
        return MultiVectorEncoder.from_preset(folder)
    return CrossEncoder.from_preset(folder, label=label)
