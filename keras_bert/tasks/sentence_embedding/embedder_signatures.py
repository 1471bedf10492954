"""What signatures share of models that read each text as a row of its own.

Shapes: N texts, S positions of a row.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from keras_bert.signatures.base import SignatureFamily, Tensors, string_vector, with_a_column
from keras_bert.text.preprocessor import TEXT


class EmbedderSignatures(SignatureFamily):
    """One `text`, string [N]; and rows [N, S] for a model whose inputs are [B, R, S].

    Attributes:
        ids_output: what `serve_ids` calls the model's output.
    """

    sample: Mapping[str, Any] = {TEXT: "One text."}
    ids_output: ClassVar[str]

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the one text."""
        return {TEXT: string_vector(TEXT)}

    def ids(self, **inputs: tf.Tensor) -> Tensors:
        """Returns what the model makes of each row, float32 [N, ...]."""
        rows = {name: values[:, None] for name, values in with_a_column(inputs).items()}
        return {self.ids_output: self.model(rows, training=False)[:, 0]}  # of [N, 1, ...]

    def ids_model(self) -> keras.Model:
        """Returns a model of rows [N, S], whose output has the name of that of `ids`."""
        inputs = {
            name: keras.Input((None,), dtype=spec.dtype.name, name=name)
            for name, spec in self.id_inputs().items()
        }
        rows = {name: ops.expand_dims(values, 1) for name, values in inputs.items()}
        vectors = ops.squeeze(self.model(rows), 1)  # [N, 1, ...] -> [N, ...]
        return keras.Model(inputs, {self.ids_output: vectors})
