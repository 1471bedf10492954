"""ElectraPretrainer: a generator and the discriminator that it teaches, on shared embeddings.

    masked ids --> generator --> logits [B, P, V] --draw--> ids with guesses --> discriminator
       |           (a quarter to    |                       [B, S]               |
       |           half as wide)    +--> masked LM loss               logits [B, S]: was this
       |                                                              token replaced?
       +-- word, position and segment embeddings and their norm are the same in both

What is kept of it is the discriminator. Paths of the generator's variables begin with "generator/".
"""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.config import BertConfig
from keras_bert.family_configs import ElectraConfig
from keras_bert.features import INPUT_IDS, MASKED_LM_POSITIONS, MASKED_LM_WEIGHTS
from keras_bert.layers.replaced_token import ReplacedTokenDetection, TokenReplacement
from keras_bert.models.encoder import as_config
from keras_bert.models.family_encoders import ElectraEncoder
from keras_bert.models.masked_lm import masked_lm_inputs, masked_lm_logits
from keras_bert.models.task_model import TaskModel


@keras.saving.register_keras_serializable("keras_bert")
class ElectraPretrainer(TaskModel):
    """Both models of ELECTRA in one (Clark et al. 2020, arXiv:2003.10555).

    Inputs: those of the encoder, `masked_lm_positions` int32 [B, P] and `masked_lm_weights` float32
    [B, P]. Outputs: `mlm_logits` float32 [B, P, V] of the generator; `drawn_ids` int32 [B, P], the
    pieces that it put in the hidden places; `replaced_logits` float32 [B, S] of the discriminator.

    Attributes:
        encoder: the discriminator's, which a preset keeps.
        generator: the generator's encoder.

    Args:
        config: the numbers of the discriminator, an `ElectraConfig` or its dict; those of the
            generator are its `generator`.
        packed: whether sequences hold several documents, see `BertEncoder`.
        seed: seed of all dropouts and draws; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Raises:
        ValueError: the config is of another family.
    """

    # No loss reaches them, and weight decay alone would wear them down.
    frozen_layers = ("encoder/pooler", "generator/pooler")

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any],
        packed: bool = False,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "electra_pretrainer",
        **kwargs: Any,
    ):
        numbers = as_config(config)
        if not isinstance(numbers, ElectraConfig):
            raise ValueError(
                f"config is a {type(numbers).__name__}: give an ElectraConfig, for example "
                'ElectraConfig.from_name("electra_small")'
            )
        # === Layers ===
        encoder = ElectraEncoder(numbers, packed=packed, seed=seed, dtype=dtype)
        replacement = TokenReplacement(
            None if seed is None else seed + 104729, dtype="float32", name="replacement"
        )
        detection = ReplacedTokenDetection(
            numbers.hidden_act,
            numbers.initializer_range,
            dtype=encoder.policy,
            name="replaced_token",
        )
        # === Functional model ===
        inputs = masked_lm_inputs(packed)  # int32 [B, S] each, and positions [B, P]
        inputs[MASKED_LM_WEIGHTS] = keras.Input((None,), dtype="float32", name=MASKED_LM_WEIGHTS)
        of_encoder = {name: inputs[name] for name in encoder.input}
        # All that is the generator's own is made in its scope, so that no two paths are equal.
        with keras.name_scope("generator"):
            generator = ElectraEncoder(
                numbers.generator,
                packed=packed,
                seed=None if seed is None else seed + 15485863,
                dtype=dtype,
                name="generator",
                shared_embeddings=encoder,
            )
            generated = generator(of_encoder, output_positions=inputs[MASKED_LM_POSITIONS])
            guesses = masked_lm_logits(generator, generated["sequence_output"])  # [B, P, V]
        ids, drawn = replacement(  # [B, S] and [B, P]
            inputs[INPUT_IDS], guesses, inputs[MASKED_LM_POSITIONS], inputs[MASKED_LM_WEIGHTS]
        )
        found = detection(encoder({**of_encoder, INPUT_IDS: ids})["sequence_output"])  # [B, S]
        outputs = {"mlm_logits": guesses, "drawn_ids": drawn, "replaced_logits": found}
        super().__init__(encoder, inputs=inputs, outputs=outputs, name=name, **kwargs)
        self.generator = generator

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"packed": self.encoder.packed}
