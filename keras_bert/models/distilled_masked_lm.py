"""DistilledMaskedLM: a masked language model that shows its layers, for student and teacher."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.config import BertConfig
from keras_bert.layers.initializer import truncated_normal
from keras_bert.models.encoder import as_config, create_encoder
from keras_bert.models.masked_lm import masked_lm_inputs, masked_lm_logits
from keras_bert.models.task_model import TaskModel


@keras.saving.register_keras_serializable("keras_bert")
class DistilledMaskedLM(TaskModel):
    """A `BertMaskedLM` that also returns its hidden states; what distillation trains.

    Inputs: those of the encoder and `masked_lm_positions` int32 [B, P]. Outputs: `mlm_logits`
    float32 [B, P, V]; `hidden_states`, L + 1 of [B, S, H], embeddings first.

    The projections take hidden states and embeddings to the width of a teacher (Jiao et al. 2020,
    section 3.1). They are learned with the model and are no part of what a preset keeps.

    Attributes:
        projections: layers by what they project, "hidden_state" and "embedding".

    Args:
        config: the numbers, a `BertConfig` or its dict.
        projected: what is projected, of "hidden_state" and "embedding".
        projected_size: the width that projections lead to; None without any.
        packed: whether sequences hold several documents, see `BertEncoder`.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.
    """

    # No loss reaches it, and weight decay alone would wear it down.
    frozen_layers = ("encoder/pooler",)

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any],
        projected: tuple[str, ...] = (),
        projected_size: int | None = None,
        packed: bool = False,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "distilled_masked_lm",
        **kwargs: Any,
    ):
        numbers = as_config(config)
        # === Layers ===
        encoder = create_encoder(
            numbers, output_hidden_states=True, packed=packed, seed=seed, dtype=dtype
        )
        projections = {
            part: keras.layers.Dense(
                projected_size,
                use_bias=False,
                kernel_initializer=truncated_normal(numbers.initializer_range),
                dtype=encoder.policy,
                name=f"{part}_projection",
            )
            for part in projected
        }
        # === Functional model ===
        inputs = masked_lm_inputs(packed)  # [B, S] each, and positions [B, P]
        states = encoder({name: inputs[name] for name in encoder.input})["hidden_states"]
        logits = masked_lm_logits(encoder, states[-1], inputs["masked_lm_positions"])  # [B, P, V]
        outputs = {"mlm_logits": logits, "hidden_states": states}
        super().__init__(encoder, inputs=inputs, outputs=outputs, name=name, **kwargs)
        # Applied by the objective, which knows what to compare.
        for layer in projections.values():
            layer.build((None, None, numbers.hidden_size))
        self.projections = projections
        self._projected, self._projected_size = projected, projected_size

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "projected": self._projected,
            "projected_size": self._projected_size,
            "packed": self.encoder.packed,
        }
