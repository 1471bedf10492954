"""BertSparseEmbedder: texts as weights of words, by the masked language model head (SPLADE).

    [B, R, S] --flatten--> [B * R, S] --encoder, masked LM head--> scores [B * R, S, V]
                                                                          |
    vectors [B, R, V] <--unflatten-- log(1 + max(0, x)) <--bias-- largest over tokens [B * R, V]

The score of a piece at a token says how well it would stand there, so a text has a weight for the
words in it and for those that would fit, and none for all others. R texts belong together, as those
of `BertSentenceEmbedder` do.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self, cast

import keras

from keras_bert.checkpoints import sparse_modules
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.choices import SparseActivation
from keras_bert.config import BertConfig
from keras_bert.features import INPUT_MASK
from keras_bert.layers.pooling import MaxOverTokens, SparseWeights
from keras_bert.models import preset
from keras_bert.models.embedders.sentence_embedder import UnflattenVectors, check_keeps_case
from keras_bert.models.encoder import BertEncoder, as_encoder
from keras_bert.models.masked_lm import (
    BertMaskedLM,
    check_predicts_words,
    head_layers,
    masked_lm_scores,
    output_bias,
)
from keras_bert.models.multiple_choice import inputs_of_rows
from keras_bert.models.task_model import TaskModel
from keras_bert.storage import hub


@keras.saving.register_keras_serializable("keras_bert")
class BertSparseEmbedder(TaskModel):
    """Sparse vectors of texts that belong together (SPLADE v2, arXiv:2109.10086).

    Inputs: those of the encoder, [B, R, S] each. Output: weights of 0 and above of all pieces of
    the vocabulary, float32 [B, R, V]; zeros where a row is all padding.

    Its model folder is that of a `BertMaskedLM` and, beside it, `modules.json` with what it lists,
    as sentence-transformers writes it. `SparseEncoder`, exports and conversions read it.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself.
        activation: "relu" or "log1p_relu": how scores become weights, see `SparseWeights`.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Raises:
        ValueError: the activation is another one, or the model reads from left to right.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        activation: SparseActivation = "relu",
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_sparse_embedder",
        **kwargs: Any,
    ):
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        if encoder.config.left_to_right:
            raise ValueError(
                "the model reads from left to right, so its scores are of the next piece, not of "
                "the words of a text: give a model that was pretrained with masked words"
            )
        inputs, flat = inputs_of_rows()  # [B, R, S] and [B * R, S]
        scores = masked_lm_scores(encoder, encoder(flat)["sequence_output"])  # [B * R, S, V]
        largest = MaxOverTokens(dtype=encoder.policy, name="largest_scores")(
            scores, flat[INPUT_MASK]
        )  # [B * R, V]
        # The bias of a piece is the same at all tokens, so it is added to the largest alone.
        weigh = SparseWeights(activation, dtype="float32", name="sparse_weights")
        vectors = weigh(output_bias(encoder)(largest))  # [B * R, V]
        vectors = UnflattenVectors(dtype="float32", name="vectors")(vectors, inputs[INPUT_MASK])
        super().__init__(encoder, inputs=inputs, outputs=vectors, name=name, **kwargs)
        self.activation = activation

    @classmethod
    def from_preset(
        cls, folder: str, ignore_config_keys: Collection[str] = (), **arguments: Any
    ) -> Self:
        """Opens a model folder with a masked language model head; see `preset.load`.

        Args:
            folder: a folder of any format, also of a `SparseEncoder` of sentence-transformers.
            ignore_config_keys: unknown keys of the config to pass over.
            **arguments: arguments of the constructor other than `config`. An `activation` that is
                left out is what `modules.json` of the folder says, and "relu" without such a file.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: a file is damaged, the folder has no masked language model head, or
                something behind it that is not trained here.
        """
        local = hub.local_folder(folder)
        arguments["activation"] = trained_activation(local, arguments.get("activation"))
        checkpoint = preset.read_checkpoint(sparse_modules.model_folder(local), ignore_config_keys)
        check_predicts_words(folder, checkpoint)
        return cast(Self, preset.from_checkpoint(cls, checkpoint, arguments))

    def save_to_preset(self, folder: str, tokenizer: Any = None) -> None:
        """Writes a `BertMaskedLM` as a model folder, and beside it how scores become weights.

        Args:
            folder: the folder; other files in it stay.
            tokenizer: the model's tokenizer; its files are written too.

        Raises:
            ValueError: the tokenizer's vocabulary is not of the config's size.
        """
        words = BertMaskedLM(self.encoder)
        for name in head_layers(self.config):
            for own, mine in zip(
                words.get_layer(name).weights, self.get_layer(name).weights, strict=True
            ):
                own.assign(mine.value)
        words.save_to_preset(folder, tokenizer)
        sparse_modules.write(Path(folder), self.activation, self.config.vocab_size)

    def initial_variables(self, checkpoint: Checkpoint) -> Mapping[str, Any]:
        """Returns what variables start as: the checkpoint's own."""
        return checkpoint.variables

    def head_config(self) -> dict[str, Any]:
        """Returns the activation."""
        return {"activation": self.activation}


def trained_activation(
    folder: str | os.PathLike, given: SparseActivation | None = None
) -> SparseActivation:
    """Returns how scores become weights: as is given, or as a folder says, or by a ReLU.

    Args:
        folder: a local folder.
        given: the activation that was asked for; then what the folder has behind its model is not
            looked at.

    Raises:
        ValueError: texts are lower-cased before the tokenizer; or, where none is given, the folder
            has something else for queries, or cannot be reproduced.
    """
    if not sparse_modules.is_sparse_folder(folder):
        return given or "relu"
    check_keeps_case(folder)
    if given is not None:
        return given
    modules = sparse_modules.read(folder)
    if modules.query_weights is not None:
        raise ValueError(
            f"{folder} has fixed weights for the words of queries, which are not trained here: "
            "give activation to train its model of texts for queries, too"
        )
    return modules.activation
