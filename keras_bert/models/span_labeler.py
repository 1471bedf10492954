"""BertSpanLabeler: where an answer starts and ends."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.config import BertConfig
from keras_bert.models.encoder import BertEncoder, as_encoder, encoder_inputs
from keras_bert.models.task_model import TaskModel, output_layer, read_tokens


@keras.saving.register_keras_serializable("keras_bert")
class BertSpanLabeler(TaskModel):
    """Extractive question answering (paper section 4.2, figure 4 c).

    Inputs: those of the encoder. Outputs, float32: `start_logits` and `end_logits`, [B, S] each.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself, which then may serve
            several heads.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_span_labeler",
        **kwargs: Any,
    ):
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        inputs = encoder_inputs()  # int32 [B, S] each
        # No dropout here: the original has none between the encoder and this head (run_squad.py).
        read = read_tokens(encoder, encoder(inputs)["sequence_output"])  # [B, S, H]
        logits = output_layer(encoder, 2, "span")(read)  # [B, S, 2]
        outputs = {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}  # [B, S] each
        super().__init__(encoder, inputs=inputs, outputs=outputs, name=name, **kwargs)
