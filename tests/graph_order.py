"""Which operations of a graph wait for a check.

A check that nothing waits for runs at the same time as the rest: where another operation fails on
the same input, chance decides which of the two messages is shown.
"""

import tensorflow as tf


def operations_beside_the_check(function, sentence):
    """Names of operations that read what is given and neither lead to a check nor wait for it.

    Args:
        function: a concrete function.
        sentence: what the check says.
    """
    operations = function.graph.get_operations()  # each behind what it reads
    reads = {op.name: {tensor.op.name for tensor in op.inputs} for op in operations}
    said = {op.name for op in operations if sentence.encode() in constant(op)}
    checks = {op.name for op in operations if op.type == "Assert" and reads[op.name] & said}
    assert checks
    before = set(checks)
    for op in reversed(operations):
        if op.name in before:
            before |= reads[op.name]
    given = function.inputs[: len(function.inputs) - len(function.captured_inputs)]
    reading, waiting = {tensor.op.name for tensor in given}, set(checks)
    for op in operations:
        sources = reads[op.name] | {source.name for source in op.control_inputs}
        for reached in (reading, waiting):
            if sources & reached:
                reached.add(op.name)
    return sorted(reading - before - waiting)


def constant(operation):
    """The string of an operation that holds one."""
    if operation.type != "Const" or operation.outputs[0].dtype != tf.string:
        return b""
    return b" ".join(operation.get_attr("value").string_val)
