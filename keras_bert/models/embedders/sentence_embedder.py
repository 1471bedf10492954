"""BertSentenceEmbedder: texts as vectors whose products say how alike they are.

    [B, R, S] --flatten--> [B * R, S] --encoder, pooling, length 1--> [B * R, H]
                                                                          |
                       vectors [B, R, H] <-------------unflatten----------+

R texts belong together: a question, its answer and perhaps a wrong answer; two sentences. The same
encoder reads each of them by itself, and they meet only in the loss.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self, cast, get_args

import keras
from keras import ops

from keras_bert.checkpoints import sentence_modules
from keras_bert.checkpoints.m3 import folder as m3
from keras_bert.checkpoints.static_embeddings.folders import check_has_encoder
from keras_bert.choices import TokenPooling
from keras_bert.config import BertConfig
from keras_bert.features import INPUT_MASK
from keras_bert.models.encoder import BertEncoder, as_encoder
from keras_bert.models.multiple_choice import inputs_of_rows
from keras_bert.models.task_model import TaskModel, sentence_vectors
from keras_bert.storage import hub


@keras.saving.register_keras_serializable("keras_bert")
class BertSentenceEmbedder(TaskModel):
    """Vectors of length 1 of texts that belong together (Sentence-BERT, arXiv:1908.10084).

    Inputs: those of the encoder, [B, R, S] each. Output: vectors, float32 [B, R, H], zeros where a
    row is all padding.

    Its model folder is that of the encoder and, beside it, `modules.json` with what it lists: the
    pooling, as sentence-transformers writes it. `SentenceEncoder`, exports and conversions read it.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself.
        pooling: "mean", "cls" or "max": how tokens become one vector.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Raises:
        ValueError: the pooling is another one, or that of a piece that sees nothing of the text.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        pooling: TokenPooling = "mean",
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_sentence_embedder",
        **kwargs: Any,
    ):
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        inputs, flat = inputs_of_rows()  # [B, R, S] and [B * R, S]
        vectors = sentence_vectors(encoder, flat, pooling)  # [B * R, H]
        vectors = UnflattenVectors(dtype="float32", name="vectors")(vectors, inputs[INPUT_MASK])
        super().__init__(encoder, inputs=inputs, outputs=vectors, name=name, **kwargs)
        self.pooling = pooling

    @classmethod
    def from_preset(
        cls, folder: str, ignore_config_keys: Collection[str] = (), **arguments: Any
    ) -> Self:
        """Opens a model folder; see `keras_bert.models.preset.load`.

        Args:
            folder: a folder of any format, also one of sentence-transformers.
            ignore_config_keys: unknown keys of the config to pass over.
            **arguments: arguments of the constructor other than `config`. A `pooling` that is left
                out is what `modules.json` of the folder says, and "mean" without such a file.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: a file is damaged, the folder lower-cases texts before its tokenizer, or,
                where no pooling is given, it has more behind its own than a norm.
        """
        local = hub.local_folder(folder)
        arguments["pooling"] = trained_pooling(local, arguments.get("pooling"))
        inner = os.fspath(sentence_modules.encoder_folder(local))
        return super().from_preset(inner, ignore_config_keys, **arguments)

    def save_to_preset(self, folder: str, tokenizer: Any = None) -> None:
        """Writes the encoder as a model folder, and the pooling beside it.

        Args:
            folder: the folder; other files in it stay.
            tokenizer: the model's tokenizer; its files are written too.

        Raises:
            ValueError: the tokenizer's vocabulary is not of the config's size.
        """
        self.encoder.save_to_preset(folder, tokenizer)
        sentence_modules.write(Path(folder), self.pooling, self.config.hidden_size)

    def head_config(self) -> dict[str, Any]:
        """Returns the pooling."""
        return {"pooling": self.pooling}


def check_keeps_case(folder: str | os.PathLike) -> None:
    """Refuses a folder of sentence-transformers whose texts become lower case, whatever is trained.

    Args:
        folder: a local folder.

    Raises:
        ValueError: texts are lower-cased before the tokenizer.
    """
    modules = sentence_modules.modules_folder(folder)
    if sentence_modules.lowercases(Path(sentence_modules.encoder_source(modules))):
        raise ValueError(
            f"{folder} lower-cases texts before the tokenizer (do_lower_case), which training "
            "does not: lower-case them yourself and take that out of its settings"
        )


def trained_pooling(
    folder: str | os.PathLike, given: TokenPooling | None = None, any_prompt: bool = False
) -> TokenPooling:
    """Returns the pooling that is trained: what is given, or that of a folder, or the mean.

    Args:
        folder: a local folder.
        given: the pooling that was asked for; then what the folder has behind its encoder is not
            looked at.
        any_prompt: whether the caller puts the prompt of every text before texts, as it must.

    Raises:
        ValueError: texts are lower-cased before the tokenizer, or there is no encoder; or, where
            none is given, there is more than a pooling and a norm, or several poolings.
    """
    check_has_encoder(folder)
    if not sentence_modules.is_sentence_folder(folder):
        stored = m3.DENSE.pooling[0] if m3.is_m3_folder(folder) else "mean"
        return given or cast(TokenPooling, stored)
    check_keeps_case(folder)
    if given is not None:
        return given
    modules = sentence_modules.read(folder)
    if any(isinstance(step, sentence_modules.Dense) for step in modules.steps):
        raise ValueError(
            f"{folder} has a Dense module behind the pooling, which is not trained here: give "
            "pooling to train its encoder without it"
        )
    if not modules.include_prompt and (modules.query_prompt or modules.document_prompt):
        raise ValueError(
            f"{folder} leaves the tokens of prompts out of the pooling, which is not trained here: "
            "give pooling to train its encoder with them in it"
        )
    prompt = "" if any_prompt else modules.prompt
    if prompt:
        raise ValueError(
            f"{folder} changes texts before the tokenizer (the prompt {prompt!r}), which training "
            "does not: change them yourself and take that out of its settings, or give pooling"
        )
    [pooling, *others] = modules.pooling
    if others or pooling not in get_args(TokenPooling):
        raise ValueError(
            f"{folder} has the pooling {'+'.join(modules.pooling)}: "
            f"{', '.join(get_args(TokenPooling))} can be trained; give pooling to take one of them"
        )
    return cast(TokenPooling, pooling)


@keras.saving.register_keras_serializable("keras_bert")
class UnflattenVectors(keras.layers.Layer):
    """Separates batch and rows again: [B * R, ..., H] to [B, R, ..., H]."""

    def call(self, vectors: Any, like: Any) -> Any:
        """Returns the vectors in the first two axes of `like` [B, R, S]."""
        first, between = ops.shape(like)[:2], ops.shape(vectors)[1:-1]
        return ops.reshape(vectors, (*first, *between, vectors.shape[-1]))  # [B, R, ..., H]

    def compute_output_spec(self, vectors: Any, like: Any) -> keras.KerasTensor:
        """Gives the symbolic shape."""
        return keras.KerasTensor((*like.shape[:2], *vectors.shape[1:]), dtype=vectors.dtype)
