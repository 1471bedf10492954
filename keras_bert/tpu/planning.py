"""Lowers, compiles and reports: what `tools/plan_tpu.py` prints.

Needs the environment that `make tpu-plan-env` makes: tensorflow-tpu, jax and one libtpu for both.
"""

import concurrent.futures
import dataclasses
import math
import multiprocessing
from collections.abc import Iterator

import keras_bert.tpu.environment  # noqa: F401  # isort: skip
from keras_bert.pretraining.objectives.registry import objective_named
from keras_bert.pretraining.pretrain import load_config
from keras_bert.tpu.compilation import (
    OutOfMemoryError,
    TpuProgram,
    compile_for_tpu,
)
from keras_bert.tpu.lowering import LoweredStep, StepOptions, lower_step, step_objective
from keras_bert.tpu.options import PlanOptions
from keras_bert.tpu.plan import (
    GIB,
    chip_of,
    estimate,
    largest_batch,
    num_chips,
)


def plan(options: PlanOptions) -> Iterator[str]:
    """Yields the lines of the plan as they become known.

    Raises:
        ValueError: the options do not fit each other, or the step cannot run on a TPU.
        FileNotFoundError: there is no such model.
    """
    # 1. What one chip does in a step.
    step = _step_options(options)
    yield (
        f"{options.model}, {options.max_seq_length} pieces, {options.batch_size} sequences a step, "
        f"{step.batch_size} on each of {num_chips(options.topology)} chips of {options.topology}"
    )
    # 2. Does it compile for the chip, and what does it take?
    capacity = chip_of(options.topology).memory
    try:
        program = compile_step(step, options.topology)
    except OutOfMemoryError as error:
        yield f"does not fit into the {capacity / GIB:.0f} GiB of a chip: {error}"
    else:
        yield from _figures(options, step, program, capacity)
    # 3. How far the batch could grow: a compilation for each guess.
    if options.largest_batch:
        # Memory is what one micro-batch takes, so the search goes over its size.
        parts = step.accumulation_steps

        def memory_of(micro_batch_size: int) -> int | None:
            whole = micro_batch_size * step.accumulation_steps
            try:
                program = compile_step(
                    dataclasses.replace(step, batch_size=whole), options.topology
                )
            except OutOfMemoryError:
                return None
            return program.memory

        largest = parts * largest_batch(memory_of, capacity, step.batch_size // parts)
        yield (
            f"largest batch: {largest} on each chip, {largest * num_chips(options.topology)} in all"
        )


def compile_step(step: StepOptions, topology: str) -> TpuProgram:
    """Lowers and compiles one replica's step.

    Raises:
        OutOfMemoryError: it needs more memory than the chip has.
        ValueError: it cannot run on a TPU, or there is no such topology.
    """
    lowered = lower_in_a_process(step)
    return compile_for_tpu(lowered.hlo, lowered.num_variables, topology)


def lower_in_a_process(step: StepOptions) -> LoweredStep:
    """Lowers a step in a process that takes the weights of the traced model with it when it ends.

    The compiler needs the memory.

    Raises:
        ValueError: it cannot run on a TPU.
    """
    # Spawned, not forked: a fork of a process with TensorFlow in it may hang.
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(lower_step, step).result()


def least_flops(step: StepOptions) -> int:
    """Returns the operations that the model needs for one step of one replica."""
    flops = step_objective(step).flops(
        step.config, step.batch_size, step.max_seq_length, step.max_predictions_per_seq
    )
    assert flops is not None
    return flops


def _step_options(options: PlanOptions) -> StepOptions:
    config = objective_named(options.objective).model_config(load_config(options.model, None))
    if (options.teacher is None) == (options.objective == "distillation"):
        raise ValueError(
            f"objective is {options.objective!r} and teacher is {options.teacher!r}: distillation, "
            "and nothing else, has a teacher; name its size or config.json"
        )
    teacher = None if options.teacher is None else load_config(options.teacher, None)
    if options.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"max_seq_length {options.max_seq_length} is more than the model's "
            f"{config.max_position_embeddings} positions (max_position_embeddings): give less"
        )
    chip_of(options.topology)
    parts = num_chips(options.topology) * options.accumulation_steps
    if options.batch_size % parts:
        raise ValueError(
            f"batch_size {options.batch_size} is not divisible by {parts} (chips times "
            "accumulation_steps): choose a multiple"
        )
    return StepOptions(
        config,
        options.batch_size // num_chips(options.topology),
        options.max_seq_length,
        options.max_predictions_per_seq or math.ceil(0.15 * options.max_seq_length),
        options.optimizer,
        options.mixed_precision,
        options.accumulation_steps,
        options.remat,
        num_chips(options.topology),
        options.objective,
        teacher,
    )


def _figures(
    options: PlanOptions, step: StepOptions, program: TpuProgram, capacity: int
) -> Iterator[str]:
    least = least_flops(step)
    result = estimate(
        least, options.topology, options.steps, options.utilisation, options.price_per_hour
    )
    yield "no host transfer, no string operation, no dynamic shape"
    yield (
        f"HBM in use: {program.memory / GIB:.2f} of {capacity / GIB:.0f} GiB on each chip, "
        f"{program.variables / GIB:.2f} of it variables"
    )
    # The compiler counts the body of a loop once, and micro-batches are rounds of a loop.
    parts = step.accumulation_steps
    counted = "a step" if parts == 1 else "a micro-batch and the update"
    yield (
        f"operations: {program.flops / 1e12:.3f} TFLOP {counted} on each chip, "
        f"{program.flops / (least / parts):.3f} times the analytic minimum of "
        f"{least / parts / 1e12:.3f}"
    )
    yield (
        f"sum over {num_chips(options.topology)} chips: {program.summed / GIB:.3f} GiB a step, "
        "gradients in float32"
    )
    yield (
        f"time: {result.days:.1f} days for {options.steps:,} steps of "
        f"{result.seconds_per_step * 1000:.3g} ms, if the model uses {options.utilisation:.0%} of "
        "the chips' peak (an assumption, the sum over chips included)"
    )
    if result.cost is not None:
        yield f"cost: {result.cost:,.0f} at {options.price_per_hour} per chip and hour"
