"""Settings of a pretraining run."""

import dataclasses
import os

from keras_bert.choices import (
    MaskingStrategy,
    ObjectiveName,
    OptimizerName,
    Precision,
    ScheduleName,
    layer_names,
)
from keras_bert.counts import take_numbers

# The paper's 10,000 of 1,000,000 steps (section A.2).
_WARMUP_PROPORTION = 0.01


@dataclasses.dataclass(frozen=True)
class PretrainingOptions:
    """Settings of a pretraining run; the defaults are the paper's (section A.2).

    Attributes:
        data_dir: folder of records to train on; or those of several languages,
            "en=FOLDER,de=FOLDER".
        model_dir: the run folder; a run that is there is resumed.
        eval_data_dir: folder of held-out records to evaluate on, if there are any; or of several
            languages, each of which gets figures of its own.
        language_alpha: exponent of the rates at which the languages of `data_dir` are drawn: n
            examples of a language weigh n to this power, from 0 (all alike) to 1 (by size).
        train_steps: the step at which the run ends.
        schedule_steps: the step at which the learning rate reaches its end, where another run
            with other data goes on from this one; None for `train_steps`.
        batch_size: sequences per step over all replicas.
        learning_rate: the peak of the learning rate.
        warmup_steps: steps until the peak; None for one in a hundred of the schedule's steps, at
            least one, as are the paper's 10,000 of 1,000,000. With a time budget its ratio to
            `train_steps` is that of the warmup to the time; None for one in a hundred.
        objective: "masked"; "left_to_right": the next piece is predicted by a model that sees what
            stands before it, the baseline of the paper; "electra": a discriminator tells which
            tokens a generator replaced; "distillation": a model learns from a larger one.
        masking: what is hidden as one: a piece ("token"), a word ("whole_word") or a run of up to
            three words ("ngram").
        masked_lm_prob: rate of the pieces that are chosen to be predicted.
        mask_token_rate: rate of the chosen pieces that become [MASK].
        random_token_rate: rate of the chosen pieces that become a random one; the rest stays.
        max_predictions_per_seq: most masked positions of a sequence; None gives room for
            `masked_lm_prob` of the longest sequence.
        accumulation_steps: micro-batches per step and replica.
        steps_per_loop: steps per host call; 0 lets the code find what takes about two seconds.
            With a time budget the most: a call lasts a hundredth of it at most.
        checkpoint_steps: steps between checkpoints.
        eval_steps: steps between evaluations; 0 evaluates at the end only.
        keep_checkpoints: how many checkpoints stay.
        preset_steps: steps between model folders that stay, `kept_presets/step_1000` and so on, for
            fine-tuning from points on the way; 0 for none.
        max_skipped_steps: steps in a row that may be skipped because the loss or a gradient is not
            finite; one more ends the run.
        time_budget: seconds of training after which the run ends with a learning rate of zero,
            instead of after `train_steps`; None for no budget.
        init_from: what to start from: a model folder, whose weights are taken, or the folder of
            another run, which this one goes on with (weights, moments and step); None starts
            afresh.
        init_layers: layers of the model folder `init_from` that the model starts with, counted from
            0, or "uniform" for every n-th of them; empty for all.
        teacher: model folder to distill from, with objective "distillation"; None for none.
        teacher_layers: layers of the teacher, counted from 0, that the layers of the model learn
            from; empty for TinyBERT's uniform map, whose last is the last.
        distillation_temperature: by what logits of both models are divided for soft targets.
        soft_target_weight: weight of the divergence from the teacher's predictions.
        masked_lm_weight: weight of the masked LM loss in distillation.
        cosine_weight: weight of 1 minus the cosine of the last hidden states.
        hidden_state_weight: weight of the squared error of hidden states, summed over layers.
        attention_weight: weight of the squared error of attention scores, summed over layers.
        embedding_weight: weight of the squared error of the embeddings.
        next_sentence: whether the next sentence loss counts; it never does where the records have
            no sentence pairs.
        peak_tflops: operations per second in 10^12 that all devices together could make, to show
            how much of it is used; None looks the device up.
        remat: whether encoder blocks are computed again in the backward pass, to save memory.
        mixed_precision: number format of the computation: "float32", "bfloat16", "float16", or
            "auto" for bfloat16 where the hardware is fast in it. A run goes on in the one that it
            began with.
        optimizer: "adamw", or "lamb" for batches of many thousands.
        schedule: what follows the warmup: "linear", "polynomial", "cosine", "constant" or
            "warmup_stable_decay". A time budget has the linear one only.
        weight_decay_rate: weight decay of the optimizer.
        beta_2: decay of the second moment of the optimizer. RoBERTa's 0.98 follows large batches
            sooner.
        bias_correction: whether Adam corrects its moments for their zero start. The original does
            not, and its 10,000 steps of warmup hide what that does: without correction the first
            updates are up to 6.6 times too large (at step 12), which a run of a few thousand steps
            may not recover from. LAMB always corrects them.
        seed: seed of masks, order, dropout and initial weights.
        ignore_config_keys: unknown keys of the config of the model and of `init_from` to pass over.
            See `BertConfig.from_dict`.
    """

    data_dir: str
    model_dir: str
    eval_data_dir: str | None = None
    language_alpha: float = 1.0
    train_steps: int = 1_000_000
    schedule_steps: int | None = None
    batch_size: int = 256
    learning_rate: float = 1e-4
    warmup_steps: int | None = None
    objective: ObjectiveName = "masked"
    masking: MaskingStrategy = "token"
    masked_lm_prob: float = 0.15
    mask_token_rate: float = 0.8
    random_token_rate: float = 0.1
    max_predictions_per_seq: int | None = None
    accumulation_steps: int = 1
    steps_per_loop: int = 0
    checkpoint_steps: int = 1000
    eval_steps: int = 0
    keep_checkpoints: int = 3
    preset_steps: int = 0
    max_skipped_steps: int = 10
    time_budget: float | None = None
    init_from: str | None = None
    init_layers: tuple[str, ...] = ()
    teacher: str | None = None
    teacher_layers: tuple[str, ...] = ()
    distillation_temperature: float = 2.0
    soft_target_weight: float = 5.0
    masked_lm_weight: float = 2.0
    cosine_weight: float = 1.0
    hidden_state_weight: float = 0.0
    attention_weight: float = 0.0
    embedding_weight: float = 0.0
    next_sentence: bool = True
    peak_tflops: float | None = None
    remat: bool = False
    mixed_precision: Precision = "auto"
    optimizer: OptimizerName = "adamw"
    schedule: ScheduleName = "linear"
    weight_decay_rate: float = 0.01
    beta_2: float = 0.999
    bias_correction: bool = False
    seed: int = 0
    ignore_config_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # As run.json takes them, also where they were given as numbers and paths of `pathlib`.
        take_numbers(self)
        for name in ("init_layers", "teacher_layers"):
            object.__setattr__(self, name, layer_names(getattr(self, name)))
        for name in ("data_dir", "model_dir", "eval_data_dir", "init_from", "teacher"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, os.fspath(getattr(self, name)))

    @property
    def scheduled_steps(self) -> int:
        """The step at which the learning rate reaches its end, without a time budget."""
        return self.schedule_steps or self.train_steps

    @property
    def scheduled_warmup_steps(self) -> int:
        """Steps until the peak, without a time budget."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return max(1, round(_WARMUP_PROPORTION * self.scheduled_steps))

    @property
    def warmup_proportion(self) -> float:
        """Proportion of the time budget until the peak of the learning rate."""
        if self.warmup_steps is not None:
            return self.warmup_steps / self.train_steps
        return _WARMUP_PROPORTION


# What is for objective "distillation" alone, with the defaults.
DISTILLATION_OPTIONS = {
    field.name: field.default
    for field in dataclasses.fields(PretrainingOptions)
    if field.name.startswith(("teacher", "distillation_")) or field.name.endswith("_weight")
}
