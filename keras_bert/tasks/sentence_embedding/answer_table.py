"""The column of a similarity in a table. Imports no TensorFlow."""

from keras_bert.storage.tables import number_text

COLUMNS = ("similarity",)


def similarity_row(similarity: float) -> list[str]:
    """Returns the fields of `COLUMNS`: the cosine of two texts, from -1 to 1."""
    return [number_text(similarity)]
