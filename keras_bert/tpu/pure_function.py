"""A traced TensorFlow function without variables: their values go in, their new values come out.

TensorFlow lowers a function for a device that is not there only if it touches no variable. A
training step does little else, so the operations that were traced are run once more, in their
order, with a tensor in place of each variable:

    traced                              run once more, with state = [value of w]
    h = Read(w);   y = h * x            h = state[0];  y = h * x
    AssignSub(w, y)                     state[0] = state[0] - y

Branches and loops get the state as further arguments and return it as further results.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf


class PureFunction(NamedTuple):
    """A function of tensors only, to be called inside a `tf.function`.

    Attributes:
        function: takes the values of `variables` and then the arguments; returns the new values
            of `variables` and then the results, in one flat list.
        variables: what the original reads and writes, in the order of their values.
        signature: a `tf.TensorSpec` for every argument of `function`.
    """

    function: Callable[..., list[tf.Tensor]]
    variables: list[tf.Variable]
    signature: list[tf.TensorSpec]


def pure_function(concrete: Any, variables: Sequence[tf.Variable]) -> PureFunction:
    """Returns a concrete function in terms of the values of its variables.

    Args:
        concrete: what `tf.function(...).get_concrete_function(...)` returns.
        variables: all that it may read and write, and more.
    """
    # A captured resource is a variable, any other captured tensor a constant.
    by_handle = {id(variable.handle): variable for variable in variables}
    captured = [outer for outer, _ in concrete.graph.captures]
    used = [by_handle[id(outer)] for outer in captured if outer.dtype == tf.resource]

    def function(*values: tf.Tensor) -> list[tf.Tensor]:
        # values = [value of each variable..., each argument...]
        state, arguments = list(values[: len(used)]), list(values[len(used) :])
        references = map(_Reference, range(len(used)))
        # Inputs of the graph are the arguments, then what was captured, in this order.
        for outer in captured:
            is_variable = outer.dtype == tf.resource
            arguments.append(next(references) if is_variable else tf.constant(outer.numpy()))
        results = _Replay(state).run(concrete.graph, arguments)
        return [*state, *results]

    inputs = concrete.inputs[: len(concrete.inputs) - len(captured)]
    signature = [tf.TensorSpec(x.shape, x.dtype) for x in [*used, *inputs]]
    return PureFunction(function, used, signature)


class _Reference(NamedTuple):
    """Stands for a variable: its index in the state."""

    slot: int


class _Replay:
    """Runs the operations of a graph once more, with a list of tensors for the variables.

    A graph lists its operations in the order in which they were traced, which is the order of the
    program; that is all that reads and writes need to come out right.
    """

    def __init__(self, state: list[tf.Tensor]):
        self._state = state

    def run(self, graph: Any, arguments: Sequence[Any]) -> list[Any]:
        """Returns the graph's outputs for its inputs; the state holds the new values."""
        # graph tensor -> its value now
        values = dict(zip(map(id, graph.inputs), arguments, strict=True))
        for operation in graph.get_operations():
            # Inputs have their values already; the order of a NoOp is kept by the list itself.
            if operation.type in ("Placeholder", "NoOp"):
                continue
            inputs = [values[id(tensor)] for tensor in operation.inputs]
            for tensor, value in zip(operation.outputs, self._do(operation, inputs), strict=True):
                values[id(tensor)] = value
        return [values[id(tensor)] for tensor in graph.outputs]

    def _do(self, operation: tf.Operation, inputs: list[Any]) -> Sequence[Any]:
        # A call, a branch or a loop: its own graph is run once more in the same way.
        if operation.type in _CALLS:
            return _CALLS[operation.type](self, operation, inputs)
        # No variable among its inputs: the same operation on today's tensors.
        if not any(isinstance(value, _Reference) for value in inputs):
            graph = tf.compat.v1.get_default_graph()
            attributes = dict(operation.node_def.attr)
            dtypes = [tensor.dtype for tensor in operation.outputs]
            return graph.create_op(operation.type, inputs, dtypes, attrs=attributes).outputs
        if operation.type not in _ON_VARIABLES:
            raise ValueError(
                f"{operation.type} ({operation.name}) works on a variable in a way that cannot be "
                f"written with tensors yet: add it to {__name__}"
            )
        return _ON_VARIABLES[operation.type](self._state, operation, *inputs)

    def _call(self, operation: tf.Operation, inputs: list[Any]) -> list[Any]:
        return self.run(_called_graph(operation, "f"), inputs)

    def _if(self, operation: tf.Operation, inputs: list[Any]) -> list[Any]:
        def branch(name: str) -> Callable[[], list[Any]]:
            def run() -> list[Any]:
                state = list(self._state)  # a branch may write what the other does not
                graph = _called_graph(operation, name)
                return [*_Replay(state).run(graph, inputs[1:]), *state]

            return run

        # Both give results and state in one list, as many of each in either branch.
        results = tf.cond(inputs[0], branch("then_branch"), branch("else_branch"))
        return self._keep_state(results, len(operation.outputs))

    def _while(self, operation: tf.Operation, inputs: list[Any]) -> list[Any]:
        condition, body = (_called_graph(operation, name) for name in ("cond", "body"))
        # References stay what they are in every round: only tensors go round, and the state.
        # inputs: counter, batch, <w>, sum -> moving: 0, 1, 3
        moving = [i for i, value in enumerate(inputs) if not isinstance(value, _Reference)]

        # Puts the references back between the tensors of a round; the state behind is cut off.
        def whole(values: Sequence[Any]) -> list[Any]:
            loop = dict(zip(moving, values, strict=False))
            return [loop.get(i, value) for i, value in enumerate(inputs)]

        def goes_on(*values: tf.Tensor) -> tf.Tensor:
            return _Replay(list(values[len(moving) :])).run(condition, whole(values))[0]

        def once(*values: tf.Tensor) -> list[tf.Tensor]:
            state = list(values[len(moving) :])
            results = _Replay(state).run(body, whole(values))
            return [*(results[i] for i in moving), *state]

        start = [*(inputs[i] for i in moving), *self._state]
        results = self._keep_state(tf.while_loop(goes_on, once, start), len(moving))
        return whole(results)

    def _keep_state(self, results: Sequence[Any], count: int) -> list[Any]:
        # In place: the callers of this replay hold the same list.
        self._state[:] = results[count:]
        return list(results[:count])


_CALLS: dict[str, Callable[[_Replay, tf.Operation, list[Any]], list[Any]]] = {
    "PartitionedCall": _Replay._call,
    "StatefulPartitionedCall": _Replay._call,
    "If": _Replay._if,
    "StatelessIf": _Replay._if,
    "While": _Replay._while,
    "StatelessWhile": _Replay._while,
}


def _called_graph(operation: tf.Operation, attribute: str) -> Any:
    return operation.graph._get_function(operation.get_attr(attribute).name).graph


# New value of a variable from its old one and the operation's other input.
_WRITTEN: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "AssignVariableOp": lambda old, value: value,
    "AssignAddVariableOp": operator.add,
    "AssignSubVariableOp": operator.sub,
}


def _assign(
    state: list[tf.Tensor], operation: tf.Operation, variable: _Reference, value: tf.Tensor
) -> Sequence[tf.Tensor]:
    state[variable.slot] = _WRITTEN[operation.type](state[variable.slot], value)
    return []


def _apply_adam(
    state: list[tf.Tensor],
    _: tf.Operation,
    variable: _Reference,
    first: _Reference,
    second: _Reference,
    *numbers: tf.Tensor,
) -> Sequence[tf.Tensor]:
    # The formula of TensorFlow's own XLA kernel (tf2xla/kernels/training_ops.cc).
    power_1, power_2, rate, beta_1, beta_2, epsilon, gradient = numbers
    m, v = state[first.slot], state[second.slot]
    state[first.slot] = m = m + (gradient - m) * (1.0 - beta_1)
    state[second.slot] = v = v + (tf.square(gradient) - v) * (1.0 - beta_2)
    rate = rate * tf.sqrt(1.0 - power_2) / (1.0 - power_1)  # corrects the bias of both moments
    state[variable.slot] -= rate * m / (tf.sqrt(v) + epsilon)
    return []


# Each takes the state, the operation and its inputs.
_ON_VARIABLES: dict[str, Callable[..., Sequence[tf.Tensor]]] = {
    "ReadVariableOp": lambda state, _, variable: [state[variable.slot]],
    **dict.fromkeys(_WRITTEN, _assign),
    "ResourceApplyAdam": _apply_adam,
}
