r"""Plans pretraining on TPUs without a TPU: memory, operations, the batch that fits, time and cost.

    .venv-tpu-plan/bin/python tools/plan_tpu.py --model=bert_base --max_seq_length=128 \
        --batch_size=256 --topology=v5e:2x2 --price_per_hour=1.2

It takes the step that run_pretraining.py runs, lowers it with tensorflow-tpu and compiles it with
the TPU's own compiler. `make tpu-plan-env` makes the environment; docs/tpu.md explains the figures.
"""

import importlib.util
from collections.abc import Sequence

from keras_bert import command_line
from keras_bert.tpu.options import PlanOptions

command_line.define_flags(PlanOptions)


def main(_: Sequence[str]) -> None:
    """Reads the flags, compiles and prints the plan."""
    options = command_line.options_from_flags(PlanOptions)
    for name in ("libtpu", "jax"):
        if importlib.util.find_spec(name) is None:
            raise ValueError(
                f"{name} is not installed, and a plan needs it beside tensorflow-tpu: run it in "
                "the environment that `make tpu-plan-env` makes (constraints-tpu-plan.txt)"
            )

    from keras_bert.tpu.planning import plan

    for line in plan(options):
        print(line, flush=True)


if __name__ == "__main__":
    command_line.run(main)
