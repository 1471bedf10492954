"""StaticEmbedder: texts as vectors by one table, a row for each piece, without an encoder's layers.

    [B, R, S] --flatten--> [N, S] --look up--> [N, S, W] --mean, length 1--> [N, W] --> [B, R, W]

What is trained is the table, as sentence-transformers trains its `StaticEmbedding`. N is B * R, the
texts of all examples; V pieces of the vocabulary, W numbers of a row. All of it is in float32:
there is no product of matrices that fewer bits would speed up, and a mean would lose digits.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_bert.checkpoints.sentence_modules import Dense
from keras_bert.checkpoints.static_embeddings import folders
from keras_bert.config import read_json
from keras_bert.counts import needed_count
from keras_bert.features import INPUT_IDS, INPUT_MASK
from keras_bert.layers.embeddings import WordEmbedding
from keras_bert.layers.pooling import SentencePooling
from keras_bert.models.embedders.sentence_embedder import UnflattenVectors
from keras_bert.models.encoder import encoder_inputs
from keras_bert.models.multiple_choice import inputs_of_rows
from keras_bert.models.preset import PresetModel
from keras_bert.storage import hub


@dataclasses.dataclass(frozen=True)
class StaticEmbeddingConfig:
    """What a table of static embeddings is made and written with.

    Attributes:
        vocab_size: pieces of the vocabulary, V.
        hidden_size: numbers of a vector, W.
        tokenizer: content of the tokenizer.json that is written beside the table.
        model2vec: whether the form of its folder is that of Model2Vec, else that of
            sentence-transformers.

    Raises:
        ValueError: a number is not above 0.
    """

    vocab_size: int
    hidden_size: int
    tokenizer: Mapping[str, Any] = dataclasses.field(repr=False)
    model2vec: bool = False

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size"):
            object.__setattr__(self, name, needed_count(name, getattr(self, name)))


@keras.saving.register_keras_serializable("keras_bert")
class StaticEmbeddingEncoder(PresetModel):
    """The mean of the rows of a table that the pieces of a text have, made of length 1.

    Inputs: those of every encoder, int32 [N, S] each; `segment_ids` are not looked at. Output:
    float32 [N, W], zeros for a text without pieces.

    Args:
        config: the numbers, a `StaticEmbeddingConfig` or its dict.
    """

    def __init__(
        self,
        config: StaticEmbeddingConfig | Mapping[str, Any],
        name: str = "static_embedding_encoder",
        **kwargs: Any,
    ):
        config = _as_config(config)
        # A fresh row is drawn as torch.nn.EmbeddingBag draws it, but for what is cut off at two
        # standard deviations.
        table = WordEmbedding(
            config.vocab_size,
            config.hidden_size,
            initializer_range=1.0,
            dtype="float32",
            name="word_embeddings",
        )
        pool = SentencePooling("mean", dtype="float32", name="sentence_pooling")
        inputs = encoder_inputs()  # [N, S] each
        vectors = pool(table(inputs[INPUT_IDS]), inputs[INPUT_MASK])  # [N, W]
        super().__init__(inputs=inputs, outputs=vectors, name=name, **kwargs)
        self.config = config
        self.policy = table.dtype_policy
        self.word_embeddings = table

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, and which layers are frozen."""
        config = dataclasses.asdict(self.config)
        return {"config": config, "name": self.name, **self.trainable_config()}


@keras.saving.register_keras_serializable("keras_bert")
class StaticEmbedder(PresetModel):
    """Vectors of length 1 of texts that belong together, by a table of static embeddings.

    Inputs: int32 [B, R, S] each, those of the encoder for R texts of an example. Output: vectors,
    float32 [B, R, W].

    Its model folder is one of static embeddings, which `SentenceEncoder` and exports open: that of
    Model2Vec or that of sentence-transformers, as its config says.

    Args:
        config: the numbers, a `StaticEmbeddingConfig` or its dict.
        seed: taken as other models take it: nothing is dropped.
        dtype: the same: all is computed in float32.
    """

    # As sentence-transformers trains: rows that a batch does not have keep their size. Gradients of
    # single rows in large batches are so small that the optimizer's usual 1e-6 would drown them.
    optimizer_arguments: ClassVar[Mapping[str, float]] = {"weight_decay_rate": 0.0, "epsilon": 1e-8}

    def __init__(
        self,
        config: StaticEmbeddingConfig | Mapping[str, Any],
        seed: int | None = None,
        dtype: Any = None,
        name: str = "static_embedder",
        **kwargs: Any,
    ):
        del seed, dtype
        encoder = StaticEmbeddingEncoder(config)
        inputs, flat = inputs_of_rows()  # [B, R, S] and [B * R, S]
        vectors = encoder(flat)  # [B * R, W]
        vectors = UnflattenVectors(dtype="float32", name="vectors")(vectors, inputs[INPUT_MASK])
        super().__init__(inputs=inputs, outputs=vectors, name=name, **kwargs)
        self.encoder = encoder
        self.config = encoder.config

    @classmethod
    def from_preset(
        cls, folder: str, ignore_config_keys: Collection[str] = (), **arguments: Any
    ) -> Self:
        """Opens a folder of static embeddings, of either form; the table becomes float32.

        Args:
            folder: the folder, or `hf://org/name`.
            ignore_config_keys: taken as other models take it: such folders have no config of ours.
            **arguments: arguments of the constructor other than `config`.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: it is no such folder, a file is damaged, or there is more behind the mean
                than a norm.
        """
        del ignore_config_keys
        table = read_trainable(folder)
        model = cls(static_config(table), **arguments)
        model.encoder.word_embeddings.embeddings.assign(table.vectors.astype(np.float32))
        return model

    def save_to_preset(self, folder: str, tokenizer: Any = None) -> None:
        """Writes the table, its tokenizer.json and what stands behind the mean.

        Args:
            folder: the folder; other files in it stay.
            tokenizer: taken as other models take it: the config has the file that is written.
        """
        del tokenizer
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        vectors = keras.ops.convert_to_numpy(self.encoder.word_embeddings.embeddings.value)
        folders.write(path, vectors, self.config.tokenizer, True, self.config.model2vec)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, and which layers are frozen."""
        config = dataclasses.asdict(self.config)
        return {"config": config, "name": self.name, **self.trainable_config()}


def read_trainable(folder: str | os.PathLike) -> folders.StaticTable:
    """Reads a folder of static embeddings to train it.

    Args:
        folder: the folder, or `hf://org/name`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: it is no such folder, a file is damaged, or there is more behind the mean than a
            norm.
    """
    local = hub.local_folder(folder)
    if not folders.is_static_folder(local):
        raise ValueError(
            f"{folder} is no folder of static embeddings: give one of Model2Vec, or of "
            f"{folders.STATIC_EMBEDDING} of sentence-transformers"
        )
    table = folders.read(local)
    if any(isinstance(step, Dense) for step in table.modules.steps):
        raise ValueError(
            f"{folder} has a Dense module behind the mean, which is not trained here: take it out "
            "of modules.json to train the table without it"
        )
    return table


def static_config(table: folders.StaticTable, width: int | None = None) -> StaticEmbeddingConfig:
    """Returns the config of a table that was read.

    Args:
        table: what `read_trainable` returned.
        width: numbers of a vector; None takes those of the table.
    """
    size, there = table.vectors.shape
    tokenizer = read_json(table.tokenizer_folder / folders.TOKENIZER_FILE)
    return StaticEmbeddingConfig(size, width or there, tokenizer, table.is_model2vec)


def _as_config(config: StaticEmbeddingConfig | Mapping[str, Any]) -> StaticEmbeddingConfig:
    return config if isinstance(config, StaticEmbeddingConfig) else StaticEmbeddingConfig(**config)
