"""BertMultiVectorEmbedder: texts as vectors of their tokens, for late interaction (ColBERT).

    [B, R, S] --flatten--> [B * R, S] --encoder--> [B * R, S, H] --projection--> [B * R, S, D]
                                                                                      |
                       vectors [B, R, S, D] <--unflatten-- zeros at padding <-- length 1

R texts belong together, as those of `BertSentenceEmbedder` do. They meet only in the loss: each
token of a query looks for the token of a text that is most like it.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from keras_bert.checkpoints import multi_vector_modules
from keras_bert.checkpoints.multi_vector_modules import MultiVectorModules
from keras_bert.config import BertConfig
from keras_bert.counts import check_count
from keras_bert.features import INPUT_MASK
from keras_bert.layers.dense import Dense
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.pooling import UnitTokens
from keras_bert.models.embedders.sentence_embedder import UnflattenVectors
from keras_bert.models.encoder import BertEncoder, as_encoder
from keras_bert.models.multiple_choice import inputs_of_rows
from keras_bert.models.task_model import TaskModel
from keras_bert.storage import hub

# Numbers of a vector where nobody says how many; that of the paper.
_USUAL_DIM = 128


@keras.saving.register_keras_serializable("keras_bert")
class BertMultiVectorEmbedder(TaskModel):
    """A vector for each token of texts that belong together (ColBERT, arXiv:2004.12832).

    Inputs: those of the encoder, [B, R, S] each. Output: vectors of length 1, float32 [B, R, S, D],
    zeros at padding. The score of a query and a text is the sum over the tokens of the query of the
    largest product with a token of the text (MaxSim).

    Its model folder is that of the encoder and, beside it, `modules.json` with what it lists: the
    projection, as sentence-transformers writes it. `MultiVectorEncoder`, exports and conversions
    read it.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself.
        projection_dim: numbers of a vector, D; None takes 128, or the width of the encoder where
            that is less.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Attributes:
        projection_dim: see above.
        has_trained_projection: whether the projection came from a folder; a fresh one is random.

    Raises:
        ValueError: `projection_dim` is below 1.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        projection_dim: int | None = None,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_multi_vector_embedder",
        **kwargs: Any,
    ):
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        dim = check_count("projection_dim", projection_dim)
        if dim is None:
            dim = min(_USUAL_DIM, encoder.config.hidden_size)
        inputs, flat = inputs_of_rows()  # [B, R, S] and [B * R, S]
        states = encoder(flat)["sequence_output"]  # [B * R, S, H]
        project = Dense(
            dim,
            use_bias=False,
            kernel_initializer=truncated_normal(encoder.config.initializer_range),
            dtype=encoder.policy,
            name="projection",
        )
        unit = UnitTokens(dtype="float32", name="unit_tokens")
        vectors = unit(project(states), flat[INPUT_MASK])  # [B * R, S, D]
        vectors = UnflattenVectors(dtype="float32", name="vectors")(vectors, inputs[INPUT_MASK])
        super().__init__(encoder, inputs=inputs, outputs=vectors, name=name, **kwargs)
        self.projection_dim = dim
        self.has_trained_projection = False

    @classmethod
    def from_preset(
        cls, folder: str, ignore_config_keys: Collection[str] = (), **arguments: Any
    ) -> Self:
        """Opens a model folder; see `keras_bert.models.preset.load`.

        Args:
            folder: a folder of any format, also one of a ColBERT model.
            ignore_config_keys: unknown keys of the config to pass over.
            **arguments: arguments of the constructor other than `config`. A `projection_dim` that
                is left out is that of the folder where it has a projection.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: a file is damaged, something in the folder cannot be reproduced, or its
                projection has another width than the encoder, or other than is asked for.
        """
        local = hub.local_folder(folder)
        if not multi_vector_modules.is_multi_vector_folder(local):
            return super().from_preset(folder, ignore_config_keys, **arguments)
        kernel = multi_vector_modules.read(local).projection  # [H, D]
        if arguments.get("projection_dim") is None:
            arguments["projection_dim"] = kernel.shape[1]
        inner = os.fspath(multi_vector_modules.model_folder(local))
        model = super().from_preset(inner, ignore_config_keys, **arguments)
        model.assign_projection(kernel)
        return model

    def assign_projection(self, kernel: np.ndarray) -> None:
        """Sets the projection to one that was trained.

        Args:
            kernel: [H, D].

        Raises:
            ValueError: it has another shape.
        """
        own = self.get_layer("projection").kernel
        if tuple(kernel.shape) != tuple(own.shape):
            raise ValueError(
                f"the projection of the folder has the shape {list(kernel.shape)}, but the model "
                f"takes {list(own.shape)}: leave out projection_dim, or start from an encoder "
                "without a projection"
            )
        own.assign(kernel)
        self.has_trained_projection = True

    def save_to_preset(self, folder: str, tokenizer: Any = None) -> None:
        """Writes the encoder as a model folder, and the projection beside it.

        Args:
            folder: the folder; other files in it stay.
            tokenizer: the model's tokenizer; its files are written too.

        Raises:
            ValueError: the tokenizer's vocabulary is not of the config's size.
        """
        self.encoder.save_to_preset(folder, tokenizer)
        kernel = np.asarray(self.get_layer("projection").kernel.value, np.float32)
        multi_vector_modules.write(Path(folder), MultiVectorModules(kernel))

    def head_config(self) -> dict[str, Any]:
        """Returns the numbers of a vector."""
        return {"projection_dim": self.projection_dim}
