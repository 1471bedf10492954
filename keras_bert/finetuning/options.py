"""How to fine-tune."""

import dataclasses
import math
import numbers
import os
from collections.abc import Iterable, Mapping
from typing import Any

from keras_bert.choices import Precision, StrategyName, layer_names
from keras_bert.counts import LARGEST_SEED, check_count, take_numbers

DEFAULTS: Mapping[str, Any] = {
    "epochs": 3,
    "batch_size": 32,
    "learning_rate": 3e-5,
    "max_seq_length": 128,
}
# How many times as fast low-rank matrices learn as the weights that they stand beside: see LoRA in
# docs/fine-tuning.md.
LORA_RATE = 10
_IMITATED = ("hidden_state_weight", "attention_weight")
# What a run that was stopped may change when it goes on: neither the model nor the data nor the
# schedule depend on it.
FREE_OPTIONS = ("accumulation_steps", "remat", "strategy", "checkpoint_steps")


@dataclasses.dataclass(frozen=True)
class FinetuningOptions:
    """How to fine-tune; the defaults lie in the range of the paper (section A.3).

    Attributes:
        epochs: passes over the training data; None takes the task's own default.
        batch_size: examples per step; None takes the task's own default.
        learning_rate: the peak of the learning rate; None takes the task's own default, with
            `lora_rank` ten times that.
        max_seq_length: the most positions of a row; None takes the task's default, or the model's
            positions where they are fewer.
        warmup_proportion: proportion of the steps until the peak.
        bias_correction: correct the moments of Adam for their zero start. Without it the first
            steps are up to 6.6 times too long, and small sets collapse (Mosbach et al. 2020,
            arXiv:2006.04884).
        layer_decay: each layer learns so many times as fast as the one above it; 1 for all alike.
        reinitialized_layers: how many of the uppermost encoder blocks start fresh, with the pooler
            (Zhang et al. 2020, arXiv:2006.05987); 0 keeps all.
        freeze_encoder: train the pooler and the head only.
        lora_rank: train matrices of this rank beside the dense layers of the encoder's blocks in
            place of the encoder (LoRA, Hu et al. 2021, arXiv:2106.09685), with pooler and head;
            None trains all.
        lora_alpha: alpha / rank is what their products are scaled by; None for the rank itself.
        class_weights: "balanced", weights inverse to the frequency of the classes, or the weights
            themselves in the order of the labels; None counts all examples alike.
        label_smoothing: the fraction of the target that is spread over all classes.
        patience: stop after so many epochs without a better validation metric or, where it is
            equal, a lower loss; None goes on.
        init_layers: layers of the given model that the one to train has, counted from 0; empty for
            all. DistilBERT starts with every other one.
        teacher: folder of a finished fine-tuning run on the same task to learn from; None for none.
        distillation_alpha: weight of the teacher's answers in the loss; the labels have the rest.
        distillation_temperature: by what logits of both models are divided for soft targets.
        hidden_state_weight: weight of the squared error of hidden states, summed over layers.
        attention_weight: weight of the squared error of attention scores, summed over layers.
        teacher_layers: layers of the teacher, counted from 0, that those of the model learn from;
            empty for every n-th, whose last is the last.
        from_scratch: take configuration and vocabulary of the given model, not its weights.
        mixed_precision: number format of the computation: "float32", "bfloat16", "float16", or
            "auto" for bfloat16 where the hardware is fast in it. A run goes on in the one that it
            began with.
        accumulation_steps: micro-batches into which each replica cuts its batch, to save memory.
        remat: compute encoder blocks again in the backward pass, to save memory.
        strategy: where it runs: "tpu", "mirrored", "multi_worker", "cpu", or "auto" for the GPUs if
            there are any, else the processor.
        checkpoint_steps: steps between the checkpoints that a run which is stopped goes on from;
            0 for as many as take five minutes.
        seed: seed of fresh weights, order and dropout; the first one of several runs.
        ignore_config_keys: unknown keys of the given model's config to pass over. See
            `BertConfig.from_dict`.

    Raises:
        ValueError: a value is out of its range.
    """

    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    max_seq_length: int | None = None
    warmup_proportion: float = 0.1
    bias_correction: bool = True
    layer_decay: float = 1.0
    reinitialized_layers: int = 0
    freeze_encoder: bool = False
    lora_rank: int | None = None
    lora_alpha: float | None = None
    class_weights: str | tuple[float, ...] | None = None
    label_smoothing: float = 0.0
    patience: int | None = None
    init_layers: tuple[str, ...] = ()
    teacher: str | None = None
    distillation_alpha: float = 0.5
    distillation_temperature: float = 2.0
    hidden_state_weight: float = 0.0
    attention_weight: float = 0.0
    teacher_layers: tuple[str, ...] = ()
    from_scratch: bool = False
    mixed_precision: Precision = "auto"
    accumulation_steps: int = 1
    remat: bool = False
    strategy: StrategyName = "auto"
    checkpoint_steps: int = 0
    seed: int = 0
    ignore_config_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        take_numbers(self)
        counts = {
            **dict.fromkeys(("epochs", "batch_size", "patience", "accumulation_steps"), 1),
            "lora_rank": 1,
            **dict.fromkeys(("checkpoint_steps", "reinitialized_layers"), 0),
        }
        for name, least in counts.items():
            # An `int`, as run.json takes it.
            object.__setattr__(self, name, check_count(name, getattr(self, name), least))
        object.__setattr__(self, "seed", check_count("seed", self.seed, 0, LARGEST_SEED))
        for name in ("init_layers", "teacher_layers"):
            object.__setattr__(self, name, layer_names(getattr(self, name)))
        if self.batch_size is not None and self.accumulation_steps > self.batch_size:
            raise ValueError(
                f"accumulation_steps is {self.accumulation_steps} and batch_size is "
                f"{self.batch_size}: each micro-batch needs an example, so cut it into fewer"
            )
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise ValueError(
                f"learning_rate is {self.learning_rate}: it must be above 0 and finite"
            )
        for name in ("warmup_proportion", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: it must be a number from 0 up to below 1"
                )
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay is {self.layer_decay}: it must be above 0, at most 1")
        if self.freeze_encoder and self.about_the_encoder:
            raise ValueError(
                f"a frozen encoder learns nothing: leave out {' and '.join(self.about_the_encoder)}"
            )
        self._check_lora()
        weights = self.class_weights
        if isinstance(weights, str) or not isinstance(weights, Iterable):
            if weights not in (None, "balanced"):
                raise ValueError(
                    f"class_weights is {weights!r}: give 'balanced' or one number for each label"
                )
        else:
            weights = tuple(weights)  # of a list, too
            if not all(isinstance(w, numbers.Real) and 0 < w < math.inf for w in weights):
                raise ValueError(f"class_weights are {weights}: they must be numbers above 0")
            # Of NumPy's numbers JSON takes few.
            object.__setattr__(self, "class_weights", tuple(map(float, weights)))
        self._check_teacher()
        for name in ("init_layers", "reinitialized_layers"):
            if self.from_scratch and getattr(self, name):
                raise ValueError(f"from_scratch takes no weights: leave out {name}")

    def _check_lora(self) -> None:
        if self.lora_rank is not None:
            for name in ("reinitialized_layers", "from_scratch"):
                if getattr(self, name):
                    raise ValueError(
                        f"lora_rank is {self.lora_rank}, by which a pretrained encoder learns: "
                        f"leave out {name}"
                    )
        if self.lora_alpha is not None:
            if self.lora_rank is None:
                raise ValueError(
                    f"lora_alpha is {self.lora_alpha}, but there is no lora_rank: give one, or "
                    "leave it out"
                )
            if not 0 < self.lora_alpha < math.inf:
                raise ValueError(f"lora_alpha is {self.lora_alpha}: it must be above 0 and finite")

    def _check_teacher(self) -> None:
        if not 0 <= self.distillation_alpha <= 1:
            raise ValueError(
                f"distillation_alpha is {self.distillation_alpha}: it must be from 0 to 1"
            )
        if not 0 < self.distillation_temperature < math.inf:
            raise ValueError(
                f"distillation_temperature is {self.distillation_temperature}: it must be above 0"
            )
        for name in _IMITATED:
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be 0 or more")
        if self.teacher is not None:
            object.__setattr__(self, "teacher", os.fspath(self.teacher))
        if self.teacher is None:
            for name, default in OF_TEACHER.items():
                if getattr(self, name) != default:
                    raise ValueError(
                        f"{name} is {getattr(self, name)!r}, but there is no teacher: leave it "
                        "out, or name one with --teacher"
                    )
        elif not self.teacher:
            raise ValueError(
                "teacher is '': name the folder of a finished run, or leave --teacher out"
            )
        elif not self.distillation_alpha and not self.imitated:
            raise ValueError(
                f"the teacher {self.teacher} has no part in the loss: distillation_alpha is 0, and "
                "so are hidden_state_weight and attention_weight; raise one, or leave it out"
            )
        if self.teacher_layers and not self.imitated:
            raise ValueError(
                f"teacher_layers is {','.join(self.teacher_layers)}, but no layers are compared: "
                "give hidden_state_weight or attention_weight"
            )
        if self.teacher is not None and self.distillation_alpha == 1 and self.label_smoothing:
            raise ValueError(
                f"label_smoothing is {self.label_smoothing}, but labels have no part in the loss: "
                "distillation_alpha is 1; lower it, or leave label_smoothing out"
            )
        usual = OF_TEACHER["distillation_temperature"]
        if not self.distillation_alpha and self.distillation_temperature != usual:
            raise ValueError(
                f"distillation_temperature is {self.distillation_temperature}, but the teacher's "
                "answers have no part in the loss: distillation_alpha is 0; raise it, or leave "
                "distillation_temperature out"
            )

    @property
    def about_the_encoder(self) -> list[str]:
        """The options that say how the encoder learns, as far as they are not at their defaults."""
        names = ("layer_decay", "reinitialized_layers", "lora_rank", *_IMITATED)
        defaults = {field.name: field.default for field in dataclasses.fields(FinetuningOptions)}
        return [name for name in names if getattr(self, name) != defaults[name]]

    @property
    def imitated(self) -> dict[str, float]:
        """The weights of what is compared layer by layer, by name, as far as they are not 0."""
        weights = {"hidden_state": self.hidden_state_weight, "attention": self.attention_weight}
        return {name: weight for name, weight in weights.items() if weight}

    def resolved(self, task_defaults: Mapping[str, Any]) -> "ResolvedOptions":
        """Returns the options with the task's defaults, then the general ones, for each None."""
        defaults = {name: task_defaults.get(name, value) for name, value in DEFAULTS.items()}
        if self.lora_rank is not None:
            defaults["learning_rate"] *= LORA_RATE
        missing = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        given = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(FinetuningOptions)
        }
        return ResolvedOptions(**given | missing)


# What needs a teacher, with the defaults.
OF_TEACHER: Mapping[str, Any] = {
    field.name: field.default
    for field in dataclasses.fields(FinetuningOptions)
    if field.name.startswith(("distillation_", "teacher_")) or field.name in _IMITATED
}


@dataclasses.dataclass(frozen=True)
class ResolvedOptions(FinetuningOptions):
    """Options that leave nothing to the task: what `FinetuningOptions.resolved` returns."""

    # Without defaults, those of `FinetuningOptions` being None.
    epochs: int = dataclasses.field()
    batch_size: int = dataclasses.field()
    learning_rate: float = dataclasses.field()
    max_seq_length: int = dataclasses.field()
