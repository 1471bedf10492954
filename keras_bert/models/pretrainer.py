"""BertPretrainer: both objectives of the paper on one encoder."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.config import BertConfig
from keras_bert.features import MASKED_LM_POSITIONS
from keras_bert.models.encoder import BertEncoder, as_encoder
from keras_bert.models.masked_lm import masked_lm_inputs, masked_lm_logits
from keras_bert.models.task_model import TaskModel, output_layer


@keras.saving.register_keras_serializable("keras_bert")
class BertPretrainer(TaskModel):
    """Masked language model and next sentence prediction (paper section 3.1).

    Inputs: those of the encoder and `masked_lm_positions` [B, P]. Outputs, float32: `mlm_logits`
    [B, P, V] and `nsp_logits` [B, 2], where class 0 is "the second segment follows the first".

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
        name: str = "bert_pretrainer",
        **kwargs: Any,
    ):
        encoder = as_encoder(config, packed=packed, seed=seed, dtype=dtype)
        inputs = masked_lm_inputs(encoder.packed)  # [B, S] each, and positions [B, P]
        # sequence_output [B, P, H] for the words, pooled_output [B, H] for the pair
        encoded = encoder(
            {name: inputs[name] for name in encoder.input},
            output_positions=inputs[MASKED_LM_POSITIONS],
        )
        next_sentence = output_layer(encoder, 2, "next_sentence")
        outputs = {
            # [B, P, V]: for the P predicted positions only, not for all S.
            "mlm_logits": masked_lm_logits(encoder, encoded["sequence_output"]),
            "nsp_logits": next_sentence(encoded["pooled_output"]),  # [B, 2]
        }
        super().__init__(encoder, inputs=inputs, outputs=outputs, name=name, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"packed": self.encoder.packed}
