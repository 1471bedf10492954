"""The training step as a program for a TPU, made without a TPU.

    StepOptions --> model, optimizer, PretrainingStep    as in a run
                --> concrete function of one replica     every operation has a TPU version?
                --> pure function                        variables as arguments and results
                --> HLO, serialized                      by TensorFlow's own bridge

Needs `tensorflow-tpu` in place of `tensorflow`: it brings the TPU versions of all operations.
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.framework import kernels

from keras_bert.choices import ObjectiveName, OptimizerName, Precision
from keras_bert.config import BertConfig
from keras_bert.features import PRETRAINING_FEATURES
from keras_bert.layers.one_loop import graph_of_accelerator
from keras_bert.pretraining.objectives.distillation import Distillation
from keras_bert.pretraining.objectives.objective import Objective
from keras_bert.pretraining.objectives.registry import objective_named
from keras_bert.pretraining.step import PretrainingStep
from keras_bert.tpu.pure_function import PureFunction, pure_function
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.precision import dtype_policy
from keras_bert.training.rematerialization import rematerialize

_TPU = "XLA_TPU_JIT"  # what TensorFlow calls a TPU when it compiles for one
# Arguments and results; they are part of every function and computed by nothing.
_NOT_COMPUTED = {"Placeholder", "NoOp", "_Arg", "_Retval"}


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """One replica's training step, in numbers.

    Attributes:
        config: the model's numbers.
        batch_size: sequences of one replica.
        max_seq_length: pieces of a sequence.
        max_predictions_per_seq: masked positions of a sequence.
        optimizer: "adamw" or "lamb".
        mixed_precision: "bfloat16" or "float32".
        accumulation_steps: micro-batches into which the batch is cut.
        remat: whether encoder blocks are computed again in the backward pass.
        num_chips: replicas of the step, over which gradients and counts are summed.
        objective: what is learned; the config is one that its `model_config` returned.
        teacher: numbers of the teacher of a distillation; None for other objectives.
    """

    config: BertConfig
    batch_size: int
    max_seq_length: int
    max_predictions_per_seq: int
    optimizer: OptimizerName = "adamw"
    mixed_precision: Precision = "bfloat16"
    accumulation_steps: int = 1
    remat: bool = False
    num_chips: int = 1
    objective: ObjectiveName = "masked"
    teacher: BertConfig | None = None


def step_objective(options: StepOptions) -> Objective:
    """Returns the objective of a step; that of distillation has a teacher with fresh weights."""
    if options.objective == "distillation":
        return Distillation(teacher=options.teacher)
    return objective_named(options.objective)


class _ChipsInSync(tf.distribute.ReplicaContext):
    """Replica 0 of several chips that are not there: its sums are those of `TPUStrategy`."""

    def __init__(self, num_chips: int):
        super().__init__(tf.distribute.get_strategy(), 0)
        self._groups = [list(range(num_chips))]  # one group of all chips: [[0, 1, 2, 3]]

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Adds up tensors of any shape over all chips; see `tf.distribute.ReplicaContext`."""
        if reduce_op != tf.distribute.ReduceOp.SUM:
            raise NotImplementedError(f"{reduce_op} over chips: the step only sums")
        return tf.nest.map_structure(
            lambda part: tf.raw_ops.CrossReplicaSum(input=part, group_assignment=self._groups),
            value,
        )


class LoweredStep(NamedTuple):
    """A training step that was lowered for TPU.

    Attributes:
        hlo: the serialized program. Its first `num_variables` parameters and results are the old
            and new values of the same variables.
        num_variables: see `hlo`.
    """

    hlo: bytes
    num_variables: int


def lower_step(options: StepOptions) -> LoweredStep:
    """Lowers the step that `tools/run_pretraining.py` runs on each replica.

    Raises:
        ValueError: an operation of the step has no TPU version.
    """
    pure = pure_step(options)
    compiled = tf.function(pure.function, jit_compile=True)
    # Lowered, not compiled: that takes the TPU compiler, see `compilation`.
    make_hlo = compiled.experimental_get_compiler_ir(*pure.signature)
    return LoweredStep(make_hlo("hlo_serialized", platform_name="TPU"), len(pure.variables))


def pure_step(options: StepOptions) -> PureFunction:
    """Returns the step as a function of its variables' values and a batch.

    Raises:
        ValueError: an operation of the step has no TPU version.
    """
    # As `pretrain` makes them, and nothing of them is trained: only the graph is wanted.
    objective = step_objective(options)
    model = objective.create_model(
        options.config, {"seed": 0, "dtype": dtype_policy(options.mixed_precision)}
    )
    if options.remat:
        rematerialize(model.encoder)
    optimizer = create_optimizer(optimizer=options.optimizer)
    optimizer.build(model.trainable_variables)
    step = PretrainingStep(
        model, optimizer, objective, seed=0, accumulation_steps=options.accumulation_steps
    )

    def on_one_chip(batch: dict[str, tf.Tensor]) -> Any:
        with graph_of_accelerator():
            if options.num_chips == 1:
                return step(batch)
            # Each chip runs the same program; the sums in it name all of them.
            with _ChipsInSync(options.num_chips):
                return step(batch)

    # All shapes are static: input_ids ("B", "S") -> [32, 512], masked_lm_ids ("B", "P") -> [32, 76]
    sizes = {
        "B": options.batch_size,
        "S": options.max_seq_length,
        "P": options.max_predictions_per_seq,
    }
    concrete = tf.function(on_one_chip).get_concrete_function(
        {
            feature.name: tf.TensorSpec([sizes[axis] for axis in feature.axes], feature.dtype)
            for feature in PRETRAINING_FEATURES
        }
    )
    # Before the minutes of the compiler, whose message would name no operation of ours.
    check_operations(concrete.graph.as_graph_def())
    variables = [*model.variables, *optimizer.variables]
    if options.teacher is not None:
        variables += model.teacher.model.variables  # read and not written
    return pure_function(concrete, [variable.value for variable in variables])


def check_operations(graph: Any) -> None:
    """Refuses a graph in which something cannot run on a TPU.

    Args:
        graph: a `GraphDef`.

    Raises:
        ValueError: an operation has no TPU version: it works on strings, or on the host.
    """
    # TensorFlow lists its TPU kernels from the first time that it compiles something for a TPU.
    nothing = tf.function(lambda x: x, jit_compile=True)
    nothing.experimental_get_compiler_ir(tf.TensorSpec(()))("hlo", platform_name="TPU")
    # Branches, loops and calls have their operations in functions of the library.
    functions = [node for function in graph.library.function for node in function.node_def]
    for node in [*graph.node, *functions]:
        registered = kernels.get_registered_kernels_for_op(node.op).kernel
        has_kernel = any(kernel.device_type == _TPU for kernel in registered)
        if node.op not in _NOT_COMPUTED and not has_kernel:
            raise ValueError(
                f"the step holds {node.op} ({node.name}), which has no TPU version: "
                "do that before the batch is made, in tf.data"
            )
