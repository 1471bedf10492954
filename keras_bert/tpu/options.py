"""Settings of the planning of pretraining on TPUs."""

import dataclasses
from typing import Literal

from keras_bert.choices import OptimizerName
from keras_bert.counts import check_count
from keras_bert.tpu.plan import check_run


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """Settings of a plan.

    Attributes:
        model: named size (bert_tiny to bert_large, albert_base, roberta_base) or config.json.
        objective: what is learned.
        teacher: named size or config.json of the teacher, with objective "distillation".
        max_seq_length: pieces per sequence.
        max_predictions_per_seq: most masked positions of a sequence; None gives room for 15 %.
        batch_size: sequences per step over all chips.
        topology: kind of chip and shape, as v5e:2x2, v4:2x2x1 or v6e:2x2.
        optimizer: optimizer of the run.
        mixed_precision: number format of the run.
        accumulation_steps: micro-batches per step and chip.
        remat: whether encoder blocks are computed again in the backward pass, to save memory.
        largest_batch: whether the largest batch that fits is searched: a few more compilations of
            minutes each.
        steps: steps of the run.
        price_per_hour: of one chip, in any currency; None leaves the cost out.
        utilisation: rate of the chips' peak that the model is assumed to use.

    Raises:
        ValueError: a value is out of its range.
    """

    model: str = "bert_base"
    objective: Literal["masked", "electra", "distillation"] = "masked"
    teacher: str | None = None
    max_seq_length: int = 128
    max_predictions_per_seq: int | None = None
    batch_size: int = 256
    topology: str = "v5e:2x2"
    optimizer: OptimizerName = "adamw"
    mixed_precision: Literal["bfloat16", "float32"] = "bfloat16"
    accumulation_steps: int = 1
    remat: bool = False
    largest_batch: bool = True
    steps: int = 1_000_000
    price_per_hour: float | None = None
    utilisation: float = 0.4

    def __post_init__(self) -> None:
        for name in (
            *("accumulation_steps", "batch_size", "max_seq_length", "max_predictions_per_seq"),
            "steps",
        ):
            check_count(name, getattr(self, name))
        check_run(self.steps, self.utilisation, self.price_per_hour)
