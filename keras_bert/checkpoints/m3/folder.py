"""The two linear layers that a folder of BGE-M3 has beside its encoder.

M3-Embedding (Chen et al. 2024, arXiv:2402.03216) makes of the last layer, H wide:

    sparse_linear.pt     weight [1, H], bias [1]     the weight of the piece at a token
    colbert_linear.pt    weight [D, H], bias [D]     the vector of a token

The dense vector of a text needs none: it is the state of the first token, of length 1.
"""

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np

from keras_bert.checkpoints import torch_file
from keras_bert.checkpoints.sentence_modules import Normalize, SentenceModules

LEXICAL_FILE, TOKEN_FILE = "sparse_linear.pt", "colbert_linear.pt"
# How sentences become vectors, where a folder has no `modules.json` that says it.
DENSE = SentenceModules(pooling=("cls",), steps=(Normalize(),))


@dataclasses.dataclass(frozen=True, eq=False)
class M3Layers:
    """The linear layers beside an encoder of width H.

    Attributes:
        lexical_kernel: float32 [H, 1].
        lexical_bias: float32 [1].
        token_kernel: float32 [H, D].
        token_bias: float32 [D].
    """

    lexical_kernel: np.ndarray
    lexical_bias: np.ndarray
    token_kernel: np.ndarray
    token_bias: np.ndarray


def is_m3_folder(folder: str | os.PathLike) -> bool:
    """Whether a folder holds both files."""
    return all((Path(folder) / name).is_file() for name in (LEXICAL_FILE, TOKEN_FILE))


def read(folder: str | os.PathLike, hidden_size: int) -> M3Layers:
    """Reads both files.

    Args:
        folder: the folder, a local one.
        hidden_size: width of its encoder, H.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, has other tensors or shapes, or a number is not finite.
    """
    folder = Path(folder)
    return M3Layers(
        *_linear(folder / LEXICAL_FILE, hidden_size, 1), *_linear(folder / TOKEN_FILE, hidden_size)
    )


def copy(source: str | os.PathLike, target: str | os.PathLike) -> None:
    """Copies both files to where the encoder was written, in any format."""
    for name in (LEXICAL_FILE, TOKEN_FILE):
        shutil.copyfile(Path(source) / name, Path(target) / name)


def _linear(file: Path, inputs: int, outputs: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Returns the kernel [inputs, outputs] and the bias [outputs] of a file, float32."""
    tensors = torch_file.read(file)
    shapes = dict(tensors.shapes)
    if outputs is None:
        outputs = next(iter(shapes.get("weight", ())), 0)
    if shapes != {"weight": (outputs, inputs), "bias": (outputs,)} or not outputs:
        wanted = outputs or "D"
        raise ValueError(
            f"{file} holds {shapes}: expected weight [{wanted}, {inputs}] and bias [{wanted}], "
            f"since the encoder is {inputs} wide: take all files from one model"
        )
    weight, bias = (tensors.read(name).astype(np.float32) for name in ("weight", "bias"))
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise ValueError(f"{file} has a number that is not finite: fetch it again")
    return weight.T, bias
