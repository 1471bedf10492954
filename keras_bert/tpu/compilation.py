"""Compiles a lowered program for a TPU that is not there, with the TPU's own compiler.

Needs `jax` and `libtpu`; no TensorFlow. The public API of JAX compiles JAX functions only, so this
uses what that is made of: the versions are pinned in constraints-tpu-plan.txt.
"""

import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import _jax, xla_client
from jax._src.lib.mlir import ir
from jax.experimental import topologies

# Instructions that stop the program for the host.
_HOST_TRANSFER = re.compile(r"\s(infeed|outfeed|send|recv)\(|is_host_transfer=true")
# A size that is known only when the program runs is written "<=" and its bound.
_DYNAMIC_SHAPE = re.compile(r"\w+\[[^\]]*<=\d+[^\]]*\]")
# "%sum = (f32[768]{0:T(1024)}, bf16[8,128]{1,0}) all-reduce(%a, %b), ..."
_ALL_REDUCE = re.compile(r"= (?P<result>.*?) all-reduce(-start)?\(")
_ARRAY = re.compile(r"\b(pred|[a-z]+(\d+))\[([\d,]*)\]")


class TpuProgram(NamedTuple):
    """A program that the compiler accepted for one chip, with its own figures.

    Attributes:
        topology: for what it was compiled, such as "v5e:2x2".
        num_replicas: how many devices the topology has; each runs the program.
        memory: bytes of HBM in use at the peak: variables, batch, and what comes and goes.
        variables: the part of `memory` that stays from step to step.
        flops: operations of one run.
        summed: bytes that all replicas add up over the links between the chips, in one run.
    """

    topology: str
    num_replicas: int
    memory: int
    variables: int
    flops: float
    summed: int


class OutOfMemoryError(ValueError):
    """The compiler found no way to run the program in the memory of the chip."""


def compile_for_tpu(hlo: bytes, num_variables: int, topology: str) -> TpuProgram:
    """Compiles a program for the devices of a topology, each a replica, and checks the result.

    Args:
        hlo: the serialized program.
        num_variables: how many of its first parameters are updated in place by its first results.
        topology: such as "v5e:2x2", "v4:2x2x1" or "v6e:2x2".

    Raises:
        OutOfMemoryError: the program needs more memory than the chip has.
        ValueError: there is no such topology, or the program talks to the host or has a shape that
            is not fixed.
    """
    devices = _devices(topology)
    replicas = np.arange(len(devices))[:, None]  # [replicas, partitions of each]
    # Each device a replica with the whole model: none is cut over devices.
    options = compiler.get_compile_options(
        num_replicas=len(devices), num_partitions=1, device_assignment=replicas
    )
    # The same program in the form that the compiler takes (StableHLO), its variables in place.
    module = _module(hlo, num_variables)
    try:
        executable = devices[0].client.compile(
            module, xla_client.DeviceList(tuple(devices)), options
        )
    except _jax.XlaRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise OutOfMemoryError(str(error).splitlines()[0]) from None
    # What the compiler made of it, after all its fusions.
    text = executable.hlo_modules()[0].to_string()
    check_program(text)
    memory, cost = executable.get_compiled_memory_stats(), executable.cost_analysis()
    # Arguments whose place a result takes are in both numbers, and are taken out once.
    whole = memory.argument_size_in_bytes + memory.output_size_in_bytes
    whole += memory.temp_size_in_bytes + memory.generated_code_size_in_bytes
    return TpuProgram(
        topology,
        len(devices),
        whole - memory.alias_size_in_bytes,
        memory.alias_size_in_bytes,
        cost["flops"],
        bytes_summed(text),
    )


def check_program(text: str) -> None:
    """Refuses a compiled program that a TPU could not run at full speed.

    Args:
        text: the program as HLO.

    Raises:
        ValueError: it talks to the host, or has a shape that is not fixed.
    """
    for what, pattern in (("a host transfer", _HOST_TRANSFER), ("a dynamic shape", _DYNAMIC_SHAPE)):
        for line in text.splitlines():
            if pattern.search(line):
                raise ValueError(
                    f"the compiled step holds {what}: {line.strip()[:200]!r}; "
                    "find the operation by its op_name and move it out of the step"
                )


def _devices(topology: str) -> Any:
    # The two cores of a v4 or v5p chip work as one device; for v4 that has to be said.
    arguments = {"chip_config_name": "megacore"} if topology.startswith("v4:") else {}
    try:
        return topologies.get_topology_desc(topology, "tpu", **arguments).devices
    except _jax.XlaRuntimeError as error:
        if "INVALID_ARGUMENT" not in str(error):
            raise
        raise ValueError(
            f"topology {topology!r} is unknown to libtpu ({str(error).splitlines()[0]}): "
            "give one such as v5e:2x2, v4:2x2x1 or v6e:2x2"
        ) from None


def _module(hlo: bytes, num_variables: int) -> bytes:
    text = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(hlo))
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        # What MLIR's types tell of any operation; a function has a name and arguments besides.
        operations: Iterable[Any] = module.body.operations
        functions = {op.attributes["sym_name"].value: op for op in operations}
        main = functions["main"]  # its first arguments are the variables, then comes the batch
        number = ir.IntegerType.get_signless(32)
        # As in a TensorFlow program, a variable's new value takes the place of the old one.
        main.arg_attrs = ir.ArrayAttr.get(
            [
                ir.DictAttr.get(
                    {"tf.aliasing_output": ir.IntegerAttr.get(number, i)}
                    if i < num_variables
                    else {}
                )
                for i in range(len(main.arguments))
            ]
        )
        return mlir.module_to_bytecode(module)


def bytes_summed(text: str) -> int:
    """Returns the bytes of the results of all all-reduce instructions of a program in HLO.

    An all-reduce that starts and ends in two instructions counts once, where it starts.
    """
    total = 0
    for line in text.splitlines():
        found = _ALL_REDUCE.search(line)
        if found:
            # "f32[768]" -> ("f32", "32", "768"); "bf16[8,128]" -> ("bf16", "16", "8,128")
            for kind, bits, sides in _ARRAY.findall(found["result"]):
                numbers = math.prod(int(side) for side in sides.split(",") if side)
                total += numbers * (1 if kind == "pred" else int(bits) // 8)
    return total
