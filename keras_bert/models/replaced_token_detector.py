"""BertReplacedTokenDetector: tells of every token whether it was replaced (ELECTRA)."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.config import BertConfig
from keras_bert.layers.replaced_token import ReplacedTokenDetection
from keras_bert.models.encoder import BertEncoder, as_encoder, encoder_inputs
from keras_bert.models.task_model import TaskModel


@keras.saving.register_keras_serializable("keras_bert")
class BertReplacedTokenDetector(TaskModel):
    """The discriminator of ELECTRA (Clark et al. 2020, arXiv:2003.10555, section 2).

    Inputs: those of the encoder. Output: logits [B, S], float32; above 0 where the token seems to
    come from a generator and not from the text. Padding is scored, too, and means nothing.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself, which then may serve
            several heads.
        packed: whether sequences hold several documents, see `BertEncoder`.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        packed: bool = False,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_replaced_token_detector",
        **kwargs: Any,
    ):
        encoder = as_encoder(config, packed=packed, seed=seed, dtype=dtype)
        inputs = encoder_inputs(encoder.packed)  # int32 [B, S] each
        head = ReplacedTokenDetection(
            encoder.config.hidden_act,
            encoder.config.initializer_range,
            dtype=encoder.policy,
            name="replaced_token",
        )
        logits = head(encoder(inputs)["sequence_output"])  # [B, S]
        super().__init__(encoder, inputs=inputs, outputs=logits, name=name, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"packed": self.encoder.packed}
