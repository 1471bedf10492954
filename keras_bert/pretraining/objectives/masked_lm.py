"""Masked language model, and the sentence task of the records: BERT's own objective."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.config import BertConfig
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.features import (
    EXAMPLE_WEIGHTS,
    INPUT_IDS,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
    NEXT_SENTENCE_LABELS,
)
from keras_bert.models import preset
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.pretraining.objectives.objective import (
    Batch,
    Objective,
    Targets,
    WeightedSums,
    classification_sums,
)
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.masking_strategy import masking_options, predictions_per_sequence
from keras_bert.training.flops import pretraining_flops

_MASKED_LM = "masked_lm"
_NEXT_SENTENCE = "next_sentence"  # also of sentence order: both have two classes and one head
_WITHOUT_CONTEXT = "masked_lm_loss_without_context"
_LARGEST_EXPONENT = 50.0  # a perplexity of e^50 says "diverged" as well as infinity does


@dataclasses.dataclass(frozen=True)
class MaskedLanguageModel(Objective):
    """Trains a `BertPretrainer` to guess hidden pieces and how two segments are related.

    Devlin et al. 2018, section 3.1; loss = masked LM loss + sentence loss.

    Args:
        sentence_task: "nsp" or "sop", as the records are labelled; "none" leaves the sentence loss
            out, and its head as it was.
    """

    sentence_task: str = "nsp"

    name = "masked"

    @property
    def plateaus(self) -> Mapping[str, str]:
        """The masked LM loss, which frequencies of pieces alone do not bring below a bound."""
        return {f"{_MASKED_LM}_loss": _WITHOUT_CONTEXT}

    @property
    def not_decayed(self) -> tuple[str, ...]:
        """The layers of the sentence loss, where there is none."""
        return () if _NEXT_SENTENCE in self.scales else ("^(pooler|next_sentence)/",)

    @property
    def scales(self) -> Mapping[str, float]:
        """Both losses count alike."""
        names = (_MASKED_LM,) if self.sentence_task == "none" else (_MASKED_LM, _NEXT_SENTENCE)
        return dict.fromkeys(names, 1.0)

    def check(self, options: PretrainingOptions, data: PretrainingData) -> None:
        """Refuses options about masks for records that come with theirs."""
        for name, value in masking_options(options).items():
            if data.max_predictions_per_seq is not None:
                raise ValueError(
                    f"{name} is {value!r}, but the records in {data.folder} come with their masks: "
                    "leave it out, or make records without --static_masking, whose masks are drawn "
                    "when they are read"
                )

    def model_config(self, config: BertConfig) -> BertConfig:
        """Returns the config of an encoder that sees both sides of a position."""
        return config.replace(left_to_right=False)

    def targets(
        self, options: PretrainingOptions, tokenizer: Tokenizer, data: PretrainingData
    ) -> Targets:
        """Returns what draws masks, anew in every epoch."""
        return MaskedLanguageModelMasking(
            tokenizer.vocabulary,
            predictions_per_sequence(
                options.max_predictions_per_seq, options.masked_lm_prob, data.max_seq_length
            ),
            masked_lm_prob=options.masked_lm_prob,
            mask_token_rate=options.mask_token_rate,
            random_token_rate=options.random_token_rate,
            strategy=options.masking,
        )

    def create_model(
        self, config: BertConfig, arguments: Mapping[str, Any], source: Checkpoint | None = None
    ) -> BertPretrainer:
        """Returns the model with both heads, also where one is not trained."""
        if source is None:
            return BertPretrainer(config, **arguments)
        return preset.from_checkpoint(BertPretrainer, source, dict(arguments))

    def counts(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the numbers of predictions and of examples."""
        counts = {
            _MASKED_LM: tf.reduce_sum(batch[MASKED_LM_WEIGHTS]),  # [B, P] -> []
            _NEXT_SENTENCE: tf.cast(tf.size(batch[NEXT_SENTENCE_LABELS]), tf.float32),  # [B] -> []
        }
        return {name: counts[name] for name in self.scales}

    def sums(self, model: Any, batch: Batch, training: bool) -> dict[str, WeightedSums]:
        """Sums the losses, hits and weights of both tasks."""
        # mlm_logits [B, P, V] and nsp_logits [B, 2].
        outputs = model({name: batch[name] for name in model.input}, training=training)
        sums = {
            # [B, P, V] logits, [B, P] pieces and weights
            _MASKED_LM: classification_sums(
                outputs["mlm_logits"], batch[MASKED_LM_IDS], batch[MASKED_LM_WEIGHTS]
            )
        }
        if _NEXT_SENTENCE in self.scales:
            labels = batch[NEXT_SENTENCE_LABELS]  # [B]
            # [B]; 0 for rows that fill up
            weights = batch.get(EXAMPLE_WEIGHTS, tf.ones_like(labels, tf.float32))
            # [B, 2] and [B]
            sums[_NEXT_SENTENCE] = classification_sums(outputs["nsp_logits"], labels, weights)
        return sums

    def metrics(self, sums: Mapping[str, WeightedSums]) -> dict[str, float]:
        """Adds the perplexity of the masked language model."""
        metrics = super().metrics(sums)
        return metrics | {"perplexity": perplexity(metrics[f"{_MASKED_LM}_loss"])}

    def baselines(self, batches: Iterable[Batch], vocab_size: int) -> dict[str, float]:
        """Returns what can be reached without context.

        `most_frequent_piece_accuracy` is that of always guessing the piece that is hidden most
        often: no constant guess can do better. `masked_lm_loss_without_context` is the entropy of
        the chosen pieces in nats, times the share of them that do not stand there unchanged. A
        model that knows how frequent pieces are and looks at nothing but the piece that stands in
        the place stays above it: it would need to know which ones are unchanged.
        """
        counts, unchanged = np.zeros(vocab_size), 0.0
        for batch in batches:
            weights = batch[MASKED_LM_WEIGHTS].numpy()  # [B, P]
            ids = batch[MASKED_LM_IDS].numpy()  # [B, P]
            # [B, S] at [B, P] -> [B, P]
            shown = tf.gather(batch[INPUT_IDS], batch[MASKED_LM_POSITIONS], batch_dims=1).numpy()
            counts += np.bincount(ids.ravel(), weights.ravel(), minlength=vocab_size)  # [V]
            unchanged += float((weights * (shown == ids)).sum())
        total = max(counts.sum(), 1.0)
        rates = counts[counts > 0] / total
        entropy = -float((rates * np.log(rates)).sum())
        return {
            "most_frequent_piece_accuracy": float(counts.max() / total),
            _WITHOUT_CONTEXT: (1.0 - unchanged / total) * entropy,
        }

    def flops(
        self,
        config: BertConfig,
        batch_size: int,
        max_seq_length: int,
        max_predictions_per_seq: int,
    ) -> int:
        """Returns the operations of encoder and both heads."""
        return pretraining_flops(config, batch_size, max_seq_length, max_predictions_per_seq)


def perplexity(loss: float) -> float:
    """Returns e to the power of a mean loss in nats, up to a bound that says "diverged"."""
    return math.exp(min(loss, _LARGEST_EXPONENT))
