"""ELECTRA: a generator fills hidden places in, a discriminator tells which tokens are its own."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.config import BertConfig
from keras_bert.family_configs import ElectraConfig
from keras_bert.features import (
    EXAMPLE_WEIGHTS,
    INPUT_MASK,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
)
from keras_bert.layers.replaced_token import scattered
from keras_bert.models import preset
from keras_bert.models.electra_pretrainer import ElectraPretrainer
from keras_bert.models.replaced_token_detector import BertReplacedTokenDetector
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.objectives.objective import Batch, WeightedSums, classification_sums
from keras_bert.training.flops import encoder_flops, masked_lm_flops

_MASKED_LM = "masked_lm"
_REPLACED_TOKEN = "replaced_token"
_FOUND = "found"  # of the tokens that were replaced; measured, not trained
_REPLACED_TOKEN_WEIGHT = 50.0  # lambda, paper table 6


@dataclasses.dataclass(frozen=True)
class Electra(MaskedLanguageModel):
    """Trains an `ElectraPretrainer` (Clark et al. 2020, arXiv:2003.10555, section 2).

    loss = masked LM loss of the generator, a mean over predictions
         + 50 * cross-entropy of "this token was replaced", a mean over all real tokens

    A place where the generator guesses right counts as not replaced. There is no sentence task;
    labels of the records are not looked at. A run on a `BertConfig` trains an ELECTRA of its
    numbers. A preset keeps the discriminator.

    Args:
        sentence_task: not used.
    """

    sentence_task: str = "none"

    name = "electra"

    @property
    def scales(self) -> Mapping[str, float]:
        """The two losses, and what is only measured."""
        return {_MASKED_LM: 1.0, _REPLACED_TOKEN: _REPLACED_TOKEN_WEIGHT, _FOUND: 0.0}

    def model_config(self, config: BertConfig) -> BertConfig:
        """Returns the discriminator's config, also for the numbers of a BERT.

        Raises:
            ValueError: the config is of a family that cannot be ELECTRA's.
        """
        config = config.replace(left_to_right=False)
        if isinstance(config, ElectraConfig):
            return config
        if type(config) is not BertConfig:
            raise ValueError(
                f"--objective=electra trains an ELECTRA, and the model is a {config.model_type}: "
                "give the config of an ELECTRA or of a BERT"
            )
        return ElectraConfig(**dataclasses.asdict(config), embedding_size=config.hidden_size)

    def create_model(
        self, config: BertConfig, arguments: Mapping[str, Any], source: Checkpoint | None = None
    ) -> Any:
        """Returns generator and discriminator; of a source they take what it holds."""
        if source is None:
            return ElectraPretrainer(config, **arguments)
        print("--init_from holds no generator: it starts with fresh weights", file=sys.stderr)
        return preset.from_checkpoint(ElectraPretrainer, source, dict(arguments))

    def counts(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the numbers of predictions and of real tokens."""
        return {
            _MASKED_LM: tf.reduce_sum(batch[MASKED_LM_WEIGHTS]),  # [B, P] -> []
            _REPLACED_TOKEN: tf.reduce_sum(tf.cast(batch[INPUT_MASK], tf.float32)),  # [B, S] -> []
            _FOUND: tf.ones(()),
        }

    def sums(self, model: Any, batch: Batch, training: bool) -> dict[str, WeightedSums]:
        """Sums the losses, hits and weights of generator and discriminator."""
        outputs = model({name: batch[name] for name in model.input}, training=training)
        ids, weights = batch[MASKED_LM_IDS], batch[MASKED_LM_WEIGHTS]  # [B, P]
        # Another piece than that of the text: [B, P] -> [B, S]
        differs = ops.cast(ops.not_equal(outputs["drawn_ids"], ids), "int32")
        length = ops.shape(batch[INPUT_MASK])[1]
        _, replaced = scattered(differs, batch[MASKED_LM_POSITIONS], weights, length)
        mask = ops.cast(batch[INPUT_MASK], "float32")  # [B, S]
        if EXAMPLE_WEIGHTS in batch:
            mask = mask * batch[EXAMPLE_WEIGHTS][:, None]  # 0 for rows that fill up
        labels = ops.cast(replaced, "float32")  # [B, S]
        logits = outputs["replaced_logits"]  # float32 [B, S]
        losses = keras.ops.binary_crossentropy(labels, logits, from_logits=True)  # [B, S]
        hits = ops.cast(ops.equal(logits > 0, replaced > 0), "float32")  # [B, S]
        return {
            # [B, P, V] logits, [B, P] pieces and weights
            _MASKED_LM: classification_sums(outputs["mlm_logits"], ids, weights),
            _REPLACED_TOKEN: WeightedSums(
                ops.sum(losses * mask), ops.sum(hits * mask), ops.sum(mask)
            ),
            _FOUND: WeightedSums(
                ops.zeros(()), ops.sum(hits * mask * labels), ops.sum(mask * labels)
            ),
        }

    def metrics(self, sums: Mapping[str, WeightedSums]) -> dict[str, float]:
        """Adds how many of the replaced tokens are found, how many are replaced, and a baseline.

        `never_replaced_accuracy` is that of saying of no token that it was replaced, which a
        discriminator learns first. It moves with the generator.
        """
        metrics = super().metrics(sums)
        del metrics["perplexity"], metrics[f"{_FOUND}_loss"]  # of the generator, a means to an end
        metrics["replaced_token_recall"] = metrics.pop(f"{_FOUND}_accuracy")
        tokens = max(float(sums[_REPLACED_TOKEN].weight), 1.0)
        metrics["replaced_token_rate"] = rate = float(sums[_FOUND].weight) / tokens
        metrics["never_replaced_accuracy"] = 1.0 - rate
        return metrics

    def flops(
        self,
        config: BertConfig,
        batch_size: int,
        max_seq_length: int,
        max_predictions_per_seq: int,
    ) -> int:
        """Returns the operations of both encoders and of the generator's vocabulary."""
        assert isinstance(config, ElectraConfig)
        predictions = batch_size * max_predictions_per_seq
        return 3 * (
            encoder_flops(config, batch_size, max_seq_length)
            + encoder_flops(config.generator, batch_size, max_seq_length, max_predictions_per_seq)
            + masked_lm_flops(config.generator, predictions)
            + 2 * batch_size * max_seq_length * config.hidden_size * (config.hidden_size + 1)
        )

    def preset_model(self, model: Any) -> Any:
        """Returns the discriminator with its head."""
        return preset.from_checkpoint(
            BertReplacedTokenDetector, preset.as_checkpoint(model), {"dtype": "float32"}
        )
