"""Which encoder and which index suit a model folder: by the kind of vectors that it makes.

BM25 has no folder, and is known by its name.
"""

import dataclasses
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from keras_bert.checkpoints.multi_vector_modules import is_multi_vector_folder
from keras_bert.checkpoints.sparse_modules import is_sparse_folder
from keras_bert.retrieval.bm25_index import Bm25, Bm25Index
from keras_bert.retrieval.cross_encoder import CrossEncoder
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
        name: what messages call it.
        is_in: whether a local folder makes such vectors.
        open: opens what makes the vectors, from the folder and settings.
        index: searches among them.
        own_settings: arguments of the encoder that other kinds do not have.
    """

    name: str
    is_in: Callable[[Path], bool]
    open: Callable[..., Any]
    index: type[SearchedTexts]
    own_settings: tuple[str, ...]


# In place of a folder: search by words. A folder of this name is ./bm25.
BM25 = "bm25"

# The first that a folder makes counts; dense vectors come of any encoder.
_KINDS = (
    _Kind(
        "sparse", is_sparse_folder, SparseEncoder.from_preset, SparseTextIndex, ("max_active_dims",)
    ),
    _Kind("token", is_multi_vector_folder, MultiVectorEncoder.from_preset, MultiVectorIndex, ()),
    _Kind(
        "dense",
        Path.is_dir,
        SentenceEncoder.from_preset,
        TextIndex,
        ("pooling", "normalize", "truncate_dim"),
    ),
)


def search_classes(
    folder: str | os.PathLike, settings: Collection[str] = ()
) -> tuple[Callable[..., Any], type[SearchedTexts]]:
    """Returns what opens the encoder of a model folder, and the class of an index that suits it.

    Args:
        folder: the folder, or `hf://org/name`; or "bm25", which needs no model.
        settings: names of arguments that the encoder will be given.

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
    for other in _KINDS:
        for name in other.own_settings:
            if name in settings and other is not kind:
                raise ValueError(
                    f"{name} is for {other.name} vectors, and {folder} makes {kind.name} ones: "
                    "leave it out"
                )
    return kind.open, kind.index


def open_reranker(folder: str | os.PathLike, label: str | None = None) -> Reranker:
    """Opens a model that scores pairs of query and text: a cross-encoder, or vectors of tokens.

    Args:
        folder: the folder, or `hf://org/name`.
        label: see `CrossEncoder`.

    Raises:
        FileNotFoundError: it is no model folder.
        ValueError: it scores no pairs, or has no classes of which `label` could be one.
    """
    if not is_multi_vector_folder(hub.local_folder(folder)):
        return CrossEncoder.from_preset(folder, label=label)
    if label is not None:
        raise ValueError(
            f"label is {label!r}, but {folder} makes token vectors and has no classes: leave it out"
        )
    return MultiVectorEncoder.from_preset(folder)
