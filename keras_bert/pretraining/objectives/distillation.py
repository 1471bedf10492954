"""Distillation: a small model learns what a large one says of masked pieces and of their layers."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
from keras import ops

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.config import BertConfig
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.features import (
    EXAMPLE_WEIGHTS,
    INPUT_MASK,
    MASKED_LM_IDS,
    MASKED_LM_WEIGHTS,
    PACK_IDS,
)
from keras_bert.layers.attention_masks import within_documents
from keras_bert.models import preset
from keras_bert.models.distilled_masked_lm import DistilledMaskedLM
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.masked_lm import BertMaskedLM, head_layers
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel, perplexity
from keras_bert.pretraining.objectives.objective import (
    Batch,
    Objective,
    WeightedSums,
    classification_sums,
)
from keras_bert.pretraining.options import DISTILLATION_OPTIONS, PretrainingOptions
from keras_bert.storage.remote_folders import local_copy
from keras_bert.text.tokenizer_files import read_tokenizer_files
from keras_bert.training.distillation import (
    ATTENTION,
    COSINE,
    EMBEDDING,
    HIDDEN_STATE,
    IMITATION,
    LayerStates,
    check_imitation,
    imitation_losses,
    soft_target_losses,
)
from keras_bert.training.flops import encoder_flops, masked_lm_flops
from keras_bert.training.losses import best_classes

_MASKED_LM = "masked_lm"
_SOFT_TARGET = "soft_target"
_OF_HEAD = (_SOFT_TARGET, _MASKED_LM)
# The losses whose gradients go through the whole encoder. Scores of attention come before the
# values and the feed-forward part of their block, and embeddings before all blocks.
_OF_ALL_BLOCKS = {*_OF_HEAD, COSINE, HIDDEN_STATE}


class Teacher:
    """A frozen model without dropout: what it returns has no gradient.

    A plain object, so that Keras does not count its weights among those of the student: they are in
    no checkpoint, have no moments and no seeds.
    """

    def __init__(self, model: DistilledMaskedLM):
        model.trainable = False
        self.model = model

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """Returns `mlm_logits` [B, P, V] and `hidden_states`, [B, S, H] each."""
        outputs = self.model({name: batch[name] for name in self.model.input}, training=False)
        return tf.nest.map_structure(tf.stop_gradient, outputs)


@dataclasses.dataclass(frozen=True)
class Distillation(MaskedLanguageModel):
    """Trains a student on the soft targets, hidden states and attention of a teacher.

    loss = soft_target_weight  * KL from the teacher * T^2, a mean over masked positions
         + masked_lm_weight    * cross-entropy with the hidden piece, the same mean
         + cosine_weight       * 1 - cosine of the last hidden states, a mean over real tokens
         + hidden_state_weight * squared error of hidden states, the same mean, summed over layers
         + attention_weight    * squared error of attention scores, the same
         + embedding_weight    * squared error of the embeddings, the same mean

    The defaults are DistilBERT's (Sanh et al. 2019, arXiv:1910.01108, section 3; 5, 2 and 1 in its
    released settings), but that soft targets count at masked positions alone; the last three losses
    are TinyBERT's (Jiao et al. 2020, arXiv:1909.10351, section 3.1). A loss of weight 0 is not
    computed. There is no sentence task; labels of the records are not looked at. A preset keeps the
    student with its masked LM head, or the encoder alone where nothing trains the head.

    Args:
        sentence_task: not used.
        settings: of the run: `teacher`, temperature, weights, `teacher_layers`.
        teacher: config of a teacher with fresh weights, to plan a run; None opens the folder
            `settings.teacher`.
    """

    sentence_task: str = "none"
    settings: PretrainingOptions = dataclasses.field(
        default_factory=lambda: PretrainingOptions("", "", objective="distillation")
    )
    teacher: BertConfig | None = None

    name = "distillation"

    @property
    def plateaus(self) -> Mapping[str, str]:
        """That of the masked LM loss, where it is computed."""
        return super().plateaus if _MASKED_LM in self.scales else {}

    @property
    def scales(self) -> Mapping[str, float]:
        """The losses whose weight is not 0."""
        weights = {
            name: getattr(self.settings, f"{name}_weight") for name in (*_OF_HEAD, *IMITATION)
        }
        return {name: float(weight) for name, weight in weights.items() if weight}

    def check(self, options: PretrainingOptions, data: PretrainingData) -> None:
        """Refuses a run without a teacher, or one whose teacher knows other pieces."""
        super().check(options, data)
        if not options.teacher:
            raise ValueError(
                "objective distillation learns from a teacher: give its model folder with --teacher"
            )
        for name in DISTILLATION_OPTIONS:
            value = getattr(options, name)
            if name.endswith("_weight") and not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}: it must be a number of 0 or more")
        if not 0 < options.distillation_temperature < math.inf:
            raise ValueError(
                f"distillation_temperature is {options.distillation_temperature}: it must be above "
                "0"
            )
        usual = DISTILLATION_OPTIONS["distillation_temperature"]
        if _SOFT_TARGET not in self.scales and options.distillation_temperature != usual:
            raise ValueError(
                f"distillation_temperature is {options.distillation_temperature}, but the "
                "teacher's answers have no part in the loss: soft_target_weight is 0; raise it, or "
                "leave distillation_temperature out"
            )
        if options.teacher_layers and not {HIDDEN_STATE, ATTENTION} & self.scales.keys():
            raise ValueError(
                f"teacher_layers is {','.join(options.teacher_layers)}, but no layers are "
                "compared: give hidden_state_weight or attention_weight"
            )
        if not self.scales.keys() - {_MASKED_LM}:
            raise ValueError(
                "all weights of losses that the teacher has a part in are 0: raise one, or take "
                "--objective=masked"
            )
        if not self.scales.keys() & _OF_ALL_BLOCKS:
            raise ValueError(
                "soft_target_weight, masked_lm_weight, cosine_weight and hidden_state_weight are "
                "all 0: no other loss reaches the end of the last block, which weight decay alone "
                "would wear down; raise one of them"
            )
        self.check_held_out(data)
        try:
            found = read_tokenizer_files(local_copy(options.teacher))
        except FileNotFoundError:  # weights alone: nobody can tell
            return
        own = read_tokenizer_files(data.folder)
        # Pieces alone do not make a byte-level vocabulary, and a model of SentencePiece has scores.
        made_of = [
            (
                type(one),
                one.vocabulary.sha256,
                getattr(one, "merges", ()),
                getattr(one, "model", b""),
            )
            for one in (found, own)
        ]
        if made_of[0] != made_of[1]:
            raise ValueError(
                f"the teacher {options.teacher} has another vocabulary (sha256 "
                f"{found.vocabulary.sha256[:12]}...) than the records (sha256 "
                f"{own.vocabulary.sha256[:12]}...): make the records with the tokenizer's files of "
                "the teacher's folder"
            )

    def check_held_out(self, data: PretrainingData) -> None:
        """Refuses records, to learn from or to be measured on, that the teacher cannot read."""
        positions = self._teacher_config().max_position_embeddings
        if data.max_seq_length > positions:
            raise ValueError(
                f"the records in {data.folder} are up to {data.max_seq_length} pieces long but the "
                f"teacher {self.settings.teacher} has {positions} positions: make shorter records"
            )

    def create_model(
        self, config: BertConfig, arguments: Mapping[str, Any], source: Checkpoint | None = None
    ) -> DistilledMaskedLM:
        """Returns the student; its attribute `teacher` is the frozen `Teacher`.

        Raises:
            ValueError: the two do not fit each other, or the teacher predicts no words.
        """
        found = self._teacher_config()
        self._check_configs(config, found)
        names, folder = self.scales.keys(), self.settings.teacher
        # Widths that differ meet in a learned projection.
        projected: list[str] = []
        if config.hidden_size != found.hidden_size:
            projected += ["hidden_state"] if {COSINE, HIDDEN_STATE} & names else []
            projected += ["embedding"] if EMBEDDING in names else []
        given = {**arguments, "projected": tuple(projected), "projected_size": found.hidden_size}
        if source is None:
            model = DistilledMaskedLM(config, **given)
        else:
            source.check_masked_lm()
            model = preset.from_checkpoint(DistilledMaskedLM, source, given)
        if not set(_OF_HEAD) & names:
            for layer in head_layers(config):
                model.get_layer(layer).trainable = False  # no loss reaches it
        of_teacher = {key: arguments[key] for key in ("packed", "dtype") if key in arguments}
        if self.teacher is not None:
            teacher = DistilledMaskedLM(found, seed=0, name="teacher", **of_teacher)
        else:
            checkpoint = preset.read_checkpoint(
                local_copy(str(folder)), self.settings.ignore_config_keys
            )
            if _SOFT_TARGET in names:
                checkpoint.check_masked_lm()
                if not checkpoint.predicts_words:
                    raise ValueError(
                        f"the teacher {folder} is a {checkpoint.architecture}, which predicts no "
                        "words: give one with a masked LM head, or --soft_target_weight=0"
                    )
            teacher = preset.from_checkpoint(
                DistilledMaskedLM, checkpoint, {**of_teacher, "name": "teacher"}
            )
            print(f"teacher: {teacher.encoder.count_params():,} parameters of {folder}", flush=True)
        model.teacher = Teacher(teacher)
        return model

    def counts(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the numbers of predictions and of real tokens."""
        predictions = tf.reduce_sum(batch[MASKED_LM_WEIGHTS])  # [B, P] -> []
        tokens = tf.reduce_sum(tf.cast(batch[INPUT_MASK], tf.float32))  # [B, S] -> []
        return {name: predictions if name in _OF_HEAD else tokens for name in self.scales}

    def sums(self, model: Any, batch: Batch, training: bool) -> dict[str, WeightedSums]:
        """Sums the losses of both kinds: at masked positions, and of real tokens."""
        names = self.scales.keys()
        outputs = model({name: batch[name] for name in model.input}, training=training)
        expected = model.teacher(batch)
        logits, weights = outputs["mlm_logits"], batch[MASKED_LM_WEIGHTS]  # [B, P, V], [B, P]
        sums = {}
        if _SOFT_TARGET in names:
            told = expected["mlm_logits"]  # [B, P, V]
            losses = soft_target_losses(logits, told, self.settings.distillation_temperature)
            # [B, P]: where both find the same piece the likeliest
            agree = ops.cast(ops.equal(best_classes(logits), best_classes(told)), "float32")
            sums[_SOFT_TARGET] = WeightedSums(
                ops.sum(losses * weights), ops.sum(agree * weights), ops.sum(weights)
            )
        if _MASKED_LM in names:
            sums[_MASKED_LM] = classification_sums(logits, batch[MASKED_LM_IDS], weights)
        mask = ops.cast(batch[INPUT_MASK], "float32")  # [B, S]
        if EXAMPLE_WEIGHTS in batch:
            mask = mask * batch[EXAMPLE_WEIGHTS][:, None]  # 0 for rows that fill up
        visible = batch[INPUT_MASK]  # [B, S], or [B, S, S] where rows hold several documents
        if PACK_IDS in model.input:
            visible = within_documents(visible, batch[PACK_IDS])
        losses = imitation_losses(  # [B, S] each
            names,
            LayerStates(model.encoder, outputs["hidden_states"]),
            LayerStates(model.teacher.model.encoder, expected["hidden_states"]),
            self._layers(model.config, model.teacher.model.config),
            visible,
            model.projections.get("hidden_state", lambda states: states),
            model.projections.get("embedding", lambda states: states),
        )
        for name, values in losses.items():
            sums[name] = WeightedSums(ops.sum(values * mask), ops.zeros(()), ops.sum(mask))
        return sums

    def metrics(self, sums: Mapping[str, WeightedSums]) -> dict[str, float]:
        """Adds the perplexity; `soft_target_accuracy` is how often both find the same piece."""
        metrics = Objective.metrics(self, sums)
        for name in self.scales.keys() & set(IMITATION):
            del metrics[f"{name}_accuracy"]
        if _MASKED_LM in self.scales:
            metrics["perplexity"] = perplexity(metrics[f"{_MASKED_LM}_loss"])
        return metrics

    def baselines(self, batches: Iterable[Batch], vocab_size: int) -> dict[str, float]:
        """Returns that of the masked language model, where it is trained."""
        return super().baselines(batches, vocab_size) if _MASKED_LM in self.scales else {}

    def flops(
        self,
        config: BertConfig,
        batch_size: int,
        max_seq_length: int,
        max_predictions_per_seq: int,
    ) -> int:
        """Returns those of a step of the student and of a forward pass of the teacher."""
        found, predictions = self._teacher_config(), batch_size * max_predictions_per_seq
        student = encoder_flops(config, batch_size, max_seq_length)
        teacher = encoder_flops(found, batch_size, max_seq_length)
        if set(_OF_HEAD) & self.scales.keys():
            student += masked_lm_flops(config, predictions)
        if _SOFT_TARGET in self.scales:
            teacher += masked_lm_flops(found, predictions)
        return 3 * student + teacher

    def preset_model(self, model: Any) -> Any:
        """Returns the student without projections; the encoder alone where no loss has its head."""
        kept = BertMaskedLM if set(_OF_HEAD) & self.scales.keys() else BertEncoder
        return preset.from_checkpoint(kept, preset.as_checkpoint(model), {"dtype": "float32"})

    def _teacher_config(self) -> BertConfig:
        if self.teacher is not None:
            return self.teacher
        settings = self.settings
        return preset.read_config(local_copy(str(settings.teacher)), settings.ignore_config_keys)

    def _layers(self, config: BertConfig, teacher: BertConfig) -> tuple[int, ...]:
        """Returns the block of the teacher for each of the student; refuses what does not fit."""
        names = self.scales.keys() & set(IMITATION)
        return check_imitation(names, config, teacher, self.settings.teacher_layers, projected=True)

    def _check_configs(self, config: BertConfig, teacher: BertConfig) -> None:
        self._layers(config, teacher)
        if teacher.left_to_right:
            raise ValueError(
                f"the teacher {self.settings.teacher} reads from left to right and sees no masked "
                "word's right side: give one that was pretrained with masked words"
            )
        if teacher.vocab_size != config.vocab_size:
            raise ValueError(
                f"vocab_size is {config.vocab_size} and the teacher's {teacher.vocab_size}: soft "
                "targets need the same pieces; give the student as many"
            )
