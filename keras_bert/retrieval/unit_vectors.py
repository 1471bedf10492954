"""Vectors of length 1, whose products are cosines."""

import numpy as np

_SMALLEST_LENGTH = np.float32(1e-12)


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors float32 [N, D] with length 1; those of zeros stay as they are."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)  # [N, 1]
    return vectors / np.maximum(lengths, _SMALLEST_LENGTH)
