"""Plans pretraining on TPUs without a TPU: memory, operations, the batch that fits, time and cost.

    .venv-tpu-plan/bin/python tools/plan_tpu.py --model=bert_base --max_seq_length=128 \
        --batch_size=256 --topology=v5e:2x2 --price_per_hour=1.2

It takes the step that run_pretraining.py runs, lowers it with tensorflow-tpu and compiles it with
the TPU's own compiler. `make tpu-plan-env` makes the environment; docs/tpu.md explains the figures.
"""

from collections.abc import Sequence

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("model", "bert_base", "Named size (bert_tiny to bert_large) or config.json.")
flags.DEFINE_integer("max_seq_length", 128, "Pieces per sequence.")
flags.DEFINE_integer(
    "max_predictions_per_seq", None, "Most masked positions; room for 15 % if unset."
)
flags.DEFINE_integer("batch_size", 256, "Sequences per step over all chips.")
flags.DEFINE_string("topology", "v5e:2x2", "Kind of chip and shape: v5e:2x2, v4:2x2x1, v6e:2x2.")
flags.DEFINE_enum("optimizer", "adamw", ["adamw", "lamb"], "As in run_pretraining.py.")
flags.DEFINE_enum("mixed_precision", "bfloat16", ["bfloat16", "float32"], "Number format.")
flags.DEFINE_integer("accumulation_steps", 1, "Micro-batches per step and chip.")
flags.DEFINE_bool("remat", False, "Compute encoder blocks twice to save memory.")
flags.DEFINE_bool("largest_batch", True, "Search it: a few more compilations of minutes each.")
flags.DEFINE_integer("steps", 1_000_000, "Steps of the run.")
flags.DEFINE_float("price_per_hour", None, "Of one chip, in any currency.")
flags.DEFINE_float("utilisation", 0.4, "Share of the chips' peak that the model is assumed to use.")


def main(_: Sequence[str]) -> None:
    """Reads the flags, compiles and prints the plan."""
    from keras_bert.tpu.planning import PlanOptions, plan

    values = flags.FLAGS.flag_values_dict()
    options = PlanOptions(**{name: values[name] for name in PlanOptions._fields})
    for line in plan(options):
        print(line, flush=True)


if __name__ == "__main__":
    command_line.run(main)
