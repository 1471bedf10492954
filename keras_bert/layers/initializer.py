"""The one initializer of BERT, for kernels and tables, those of heads included."""

import keras


def truncated_normal(initializer_range: float) -> keras.initializers.Initializer:
    """Returns the normal initializer cut at two standard deviations, as the original uses it."""
    return keras.initializers.TruncatedNormal(stddev=initializer_range)
