"""The initializers of BERT: one for all kernels and tables, and another for positions by choice."""

from typing import Any

import keras
import numpy as np

# Wavelengths of the sinusoids go from 2 pi positions to nearly a thousand times as many.
_LONGEST = 1000.0


def truncated_normal(initializer_range: float) -> keras.initializers.Initializer:
    """Returns the normal initializer cut at two standard deviations, as the original uses it."""
    return keras.initializers.TruncatedNormal(stddev=initializer_range)


@keras.saving.register_keras_serializable("keras_bert")
class Sinusoids(keras.initializers.Initializer):
    """Sines and cosines of the position (Vaswani et al. 2017, section 3.5), to start a table with.

    Row p is sin(p w_0), ..., sin(p w_n), cos(p w_0), ..., cos(p w_n); the frequencies w fall from 1
    towards 1 / 1000 in equal ratios. The row of a position at a fixed distance is then a rotation
    of it, so that attention to a neighbour is one linear map away, where random rows must be
    learned one by one.

    Args:
        initializer_range: root mean square of the entries.
    """

    def __init__(self, initializer_range: float):
        self.initializer_range = initializer_range

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        """Returns the table [positions, width]; where the width is odd the last cosine is cut."""
        positions, width = shape
        waves = -(-width // 2)
        frequencies = _LONGEST ** -(np.arange(waves) / waves)  # [width / 2]
        angles = np.arange(positions)[:, None] * frequencies  # [positions, width / 2]
        table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :width]
        # The mean square of a sine is 1/2.
        return keras.ops.convert_to_tensor(
            table * self.initializer_range * np.sqrt(2), dtype or keras.config.floatx()
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {"initializer_range": self.initializer_range}


def position_initializer(name: str, initializer_range: float) -> keras.initializers.Initializer:
    """Returns the initializer that `BertConfig.position_initializer` names."""
    return {"normal": truncated_normal, "sinusoids": Sinusoids}[name](initializer_range)
