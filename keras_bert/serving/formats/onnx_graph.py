"""What tf2onnx leaves for others to finish in an ONNX file."""

import os
from collections.abc import Sequence
from pathlib import Path

_ONE = "one"


def finish_onnx(path: str | os.PathLike, output_names: Sequence[str]) -> None:
    """Names the outputs of an ONNX file, and writes what ONNX has no operation for by others.

    That is erfc(x) as 1 - erf(x), and log1p(x) as log(1 + x): Keras computes the exact gelu with
    erfc, and sparse vectors are log1p of scores. tf2onnx passes both on under these names, and no
    engine opens the file. Where erfc is the more exact form, far in the tail, it is so small that
    gelu moves by less than 1e-6; weights of sparse vectors move by less than 1e-7.

    Args:
        path: the file; it is written anew.
        output_names: of the outputs in their order.

    Raises:
        ValueError: ONNX lacks an operation of the file.
    """
    import onnx

    model = onnx.load(os.fspath(path))
    # tf2onnx calls them Identity:0 and so on.
    names = dict(zip((output.name for output in model.graph.output), output_names, strict=True))
    nodes, make_node = [], onnx.helper.make_node
    for node in model.graph.node:
        # Two nodes stand for one: the first has a new name, the second the old one.
        between = f"{node.output[0]}/between" if node.output else ""
        if node.op_type == "Erfc":
            nodes += [
                make_node("Erf", node.input, [between], name=f"{node.name}/erf"),
                make_node("Sub", [_ONE, between], node.output, name=f"{node.name}/rest"),
            ]
        elif node.op_type == "Log1p":
            nodes += [
                make_node("Add", [_ONE, *node.input], [between], name=f"{node.name}/sum"),
                make_node("Log", [between], node.output, name=f"{node.name}/log"),
            ]
        else:
            nodes.append(node)
    # A name is written in three places: the list of outputs, the list of shapes, and the nodes.
    for value in (*model.graph.output, *model.graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in nodes:
        for names_of_node in (node.input, node.output):
            names_of_node[:] = [names.get(name, name) for name in names_of_node]
    # A list of protobuf is not assigned to: it is emptied and filled.
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    # The constant that all of them take.
    one = onnx.helper.make_tensor(_ONE, onnx.TensorProto.FLOAT, [], [1.0])
    model.graph.initializer.append(one)
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        sentence = " ".join(str(error).split())
        raise ValueError(
            f"ONNX cannot hold the model ({sentence}): serve it as a SavedModel"
        ) from None
    Path(path).write_bytes(model.SerializeToString())
