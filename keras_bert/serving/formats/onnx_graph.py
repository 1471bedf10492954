"""An ONNX file as engines read it best: what tf2onnx takes apart, and what it leaves to others.

    layer norm    twelve operations          -->  LayerNormalization
    exact gelu    x / 2 * erfc(-x / sqrt 2)  -->  x * (1 + erf(x / sqrt 2)) / 2

ONNX has no erfc, and engines know the second form of gelu as one loop; for a norm in pieces they
go through the hidden states once for each.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# The first version of ONNX' operations that has LayerNormalization (2022).
OPSET = 17


def finish_onnx(path: str | os.PathLike, output_names: Sequence[str]) -> None:
    """Names the outputs of an ONNX file, and writes norms and activations as engines know them.

    Keras computes the exact gelu with erfc, and sparse vectors are log1p of scores. tf2onnx passes
    both on under these names, and no engine opens the file. Where erfc is the more exact form, far
    in the tail, it is so small that gelu moves by less than 1e-6; weights of sparse vectors, by
    log(1 + x), move by less than 1e-7.

    Args:
        path: the file; it is written anew.
        output_names: of the outputs in their order.

    Raises:
        ValueError: ONNX lacks an operation of the file.
    """
    import onnx

    model = onnx.load(os.fspath(path))
    graph = _Graph(model.graph)
    for node in list(model.graph.node):
        graph.write_as_known(node)
    graph.keep_what_outputs_need()
    # tf2onnx calls them Identity:0 and so on.
    outputs = [output.name for output in model.graph.output]
    graph.rename(dict(zip(outputs, output_names, strict=True)))
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        sentence = " ".join(str(error).split())
        raise ValueError(
            f"ONNX cannot hold the model ({sentence}): serve it as a SavedModel"
        ) from None
    Path(path).write_bytes(model.SerializeToString())


class _Graph:
    """The nodes of an ONNX graph by what they make, with the patterns that are written anew."""

    def __init__(self, graph: Any):
        from onnx import numpy_helper

        self.graph = graph
        self.makers = {name: node for node in graph.node for name in node.output}
        self.constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
        self.replaced: dict[str, list[Any]] = {}  # first output of a node: nodes in its place

    def write_as_known(self, node: Any) -> None:
        """Takes note of nodes for the place of this one, where it ends a pattern."""
        nodes: Iterable[Any] | None = None
        if node.op_type == "Add":
            nodes = self._norm(node)
        elif node.op_type == "Mul":
            nodes = self._gelu(node)
        elif node.op_type == "Erfc":
            nodes = self._chain(node, ("Erf", node.input[0]), ("Sub", self._number(1.0), None))
        elif node.op_type == "Log1p":
            nodes = self._chain(node, ("Add", node.input[0], self._number(1.0)), ("Log", None))
        if nodes is not None:
            self.replaced[node.output[0]] = list(nodes)

    def _norm(self, end: Any) -> Iterable[Any] | None:
        """Returns the node of a norm that ends here: x * s + (offset - mean * s), or None.

        s is scale / sqrt(variance + epsilon), mean and variance those of the last axis of x.
        """
        for scaled, rest in self._orders(end, "Mul"):
            offset = None
            moved = self._made(rest, "Mul")
            if moved is None:  # with an offset
                for negative, constant in self._orders(self._made(rest, "Add"), "Mul"):
                    moved, offset = negative, self.constants.get(constant)
                if offset is None:
                    continue
            x, factor = scaled.input
            minus_mean = self._made(moved.input[0], "Neg")
            mean = minus_mean.input[0] if minus_mean else ""
            if mean not in self.makers or moved.input[1] != factor:
                continue
            for deviation, scale_name in self._orders(self._made(factor, "Mul"), "Reciprocal"):
                scale = self.constants.get(scale_name)
                epsilon = self._epsilon(deviation, x, mean)
                if scale is None or epsilon is None or not self._is_mean(mean, x, scale.ndim):
                    continue
                # Of [1, H] or [1, 1, H]: a number for each of the last axis.
                shapes = {scale.shape} | ({offset.shape} if offset is not None else set())
                if shapes != {(*[1] * (scale.ndim - 1), scale.size)}:
                    continue
                numbers = [self._constant(f"{end.name}/scale", scale.reshape(-1))]
                if offset is not None:
                    numbers.append(self._constant(f"{end.name}/offset", offset.reshape(-1)))
                return [_node("LayerNormalization", [x, *numbers], end, axis=-1, epsilon=epsilon)]
        return None

    def _epsilon(self, deviation: Any, x: str, mean: str) -> float | None:
        """Returns what is added to the variance of x in 1 / sqrt(variance + epsilon), or None."""
        root = self._made(deviation.input[0], "Sqrt")
        total = self._made(root.input[0], "Add") if root else None
        if total is None or total.input[1] not in self.constants:
            return None
        epsilon = self.constants[total.input[1]]
        variance, mean_node = self.makers.get(total.input[0]), self.makers[mean]
        if variance is None or epsilon.ndim or variance.op_type != mean_node.op_type:
            return None
        square = self._made(variance.input[0], "Mul")
        centred = self._made(square.input[0], "Sub") if square else None
        if centred is None or square.input[0] != square.input[1]:
            return None
        has_axes_of_mean = variance.attribute == mean_node.attribute
        return float(epsilon) if has_axes_of_mean and [*centred.input] == [x, mean] else None

    def _is_mean(self, name: str, x: str, rank: int) -> bool:
        """Returns whether this is the mean of x over the last of so many axes."""
        node = self.makers.get(name)
        if node is None or node.input[0] != x:
            return False
        if node.op_type == "GlobalAveragePool":  # of all axes behind the second
            return rank == 3
        axes = [list(item.ints) for item in node.attribute if item.name == "axes"]
        return rank > 1 and node.op_type == "ReduceMean" and axes in ([[rank - 1]], [[-1]])

    def _gelu(self, end: Any) -> Iterable[Any] | None:
        """Returns the nodes of an exact gelu that ends here: 0.5 x * erfc(-x / sqrt 2), or None."""
        for tail, halved in self._orders(end, "Erfc"):
            half = self._made(halved, "Mul")
            turned = self._made(tail.input[0], "Mul")
            minus = self._made(turned.input[0], "Neg") if turned else None
            if half is None or minus is None:
                continue
            x = minus.input[0]
            if not (
                self._is_number(half, x, 0.5) and self._is_number(turned, minus.output[0], 0.5**0.5)
            ):
                continue
            return self._chain(
                end,
                ("Div", x, self._number(2**0.5)),
                ("Erf", None),
                ("Add", None, self._number(1.0)),
                ("Mul", x, None),
                ("Mul", None, self._number(0.5)),
            )
        return None

    def _is_number(self, product: Any, x: str, number: float) -> bool:
        """Returns whether a product is that of x and this number."""
        others = [name for name in product.input if name != x]
        value = self.constants.get(others[0]) if len(others) == 1 else None
        return value is not None and value.ndim == 0 and bool(np.isclose(value, number, rtol=1e-6))

    def _made(self, name: str, operation: str) -> Any:
        """Returns the node that makes this, if it is such an operation, else None."""
        node = self.makers.get(name)
        return node if node is not None and node.op_type == operation else None

    def _orders(self, node: Any, operation: str) -> Iterator[tuple[Any, str]]:
        """Yields the maker of an input, where it is such an operation, and the other input."""
        if node is not None:
            for one, other in (node.input, reversed(node.input)):
                maker = self._made(one, operation)
                if maker is not None:
                    yield maker, other

    def _constant(self, name: str, values: Any) -> str:
        """Adds a constant, once, and returns its name."""
        from onnx import numpy_helper

        if name not in self.constants:
            self.constants[name] = values
            self.graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def _number(self, value: float) -> str:
        return self._constant(f"number_{value:.7g}", np.float32(value))

    def _chain(self, end: Any, *steps: tuple[str, *tuple[str | None, ...]]) -> list[Any]:
        """Returns nodes in the place of `end`; None stands for what the step before makes."""
        nodes: list[Any] = []
        for index, (operation, *inputs) in enumerate(steps, 1):
            before = nodes[-1].output[0] if nodes else ""
            read = [before if name is None else name for name in inputs]
            is_last = index == len(steps)
            made = [*end.output] if is_last else [f"{end.output[0]}/{index}"]
            nodes.append(_node(operation, read, end, made, name=f"{end.name}/{index}"))
        return nodes

    def keep_what_outputs_need(self) -> None:
        """Puts nodes in the places of others, and drops what no output depends on any more."""
        nodes = [
            new
            for node in self.graph.node
            for new in self.replaced.get(node.output[0] if node.output else "", [node])
        ]
        needed, kept = {output.name for output in self.graph.output}, []
        for node in reversed(nodes):  # each stands behind what it reads
            if not needed.isdisjoint(node.output):
                needed.update(_reads(node))
                kept.append(node)
        _assign(self.graph.node, reversed(kept))
        made = {name for node in kept for name in node.output}
        _assign(self.graph.value_info, [i for i in self.graph.value_info if i.name in made])
        _assign(self.graph.initializer, [i for i in self.graph.initializer if i.name in needed])

    def rename(self, names: dict[str, str]) -> None:
        """Gives values other names: in the list of outputs, the list of shapes, and the nodes."""
        for value in (*self.graph.output, *self.graph.value_info):
            value.name = names.get(value.name, value.name)
        for node in self.graph.node:
            for names_of_node in (node.input, node.output):
                names_of_node[:] = [names.get(name, name) for name in names_of_node]


def _reads(node: Any) -> Iterator[str]:
    """Yields what a node reads, and what the bodies of a loop or a condition read."""
    yield from node.input
    for item in node.attribute:
        for body in (item.g, *item.graphs):
            for inner in body.node:
                yield from _reads(inner)
            yield from (output.name for output in body.output)


def _node(
    operation: str, inputs: Sequence[str], end: Any, outputs: Sequence[str] = (), **more: Any
) -> Any:
    """Returns a node that makes `outputs`, by default what `end` makes."""
    from onnx import helper

    more.setdefault("name", f"{end.name}/{operation}")
    return helper.make_node(operation, inputs, [*outputs] or [*end.output], **more)


def _assign(items: Any, values: Iterable[Any]) -> None:
    """A list of protobuf is not assigned to: it is emptied and filled."""
    values = list(values)
    del items[:]
    items.extend(values)
