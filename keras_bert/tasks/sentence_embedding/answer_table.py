"""The column of a similarity in a table. Imports no TensorFlow."""

from keras_bert.storage.tables import number_text

COLUMNS = ("similarity",)


def similarity_row(similarity: float) -> list[str]:
    """Returns the fields of `COLUMNS`: how alike two texts are.

    Dense vectors give the cosine, sparse ones their product, those of tokens the sum of the largest
    products (MaxSim).
    """
    return [number_text(similarity)]
