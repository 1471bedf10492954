"""Which operations an exported graph needs, and whether a stock server has them.

A SavedModel loads only where every operation of its graphs is linked in. TF Serving's binary has
those of TensorFlow and the ones of tensorflow_text below; an export that needs another would be
refused by the server, so tests compare the two.
"""

import os
from pathlib import Path

from tensorflow.core.protobuf import saved_model_pb2

# The operations of tensorflow_text that TF Serving's own binary links, by the libraries of its
# build file that our graphs could meet. All others there belong to text processing we do not use.
TEXT_OPERATIONS = frozenset(
    {
        "FastBertNormalize",
        "FastWordpieceTokenizeWithOffsets",
        "NormalizeUTF8",
        "RegexSplitWithOffsets",
        "SentencepieceOp",
        "SentencepieceTokenizeOp",
        "SentencepieceTokenizeWithOffsetsOp",
        "UnicodeScriptTokenizeWithOffsets",
        "Utf8Binarize",
        "WhitespaceTokenizeWithOffsets",
        "WhitespaceTokenizeWithOffsetsV2",
        "WordpieceTokenizeWithOffsets",
    }
)


def graph_operations(folder: str | os.PathLike) -> set[str]:
    """Returns the names of all operations of a SavedModel, in its functions too.

    Args:
        folder: holds saved_model.pb.
    """
    model = saved_model_pb2.SavedModel()
    model.ParseFromString((Path(folder) / "saved_model.pb").read_bytes())
    found: set[str] = set()
    for meta_graph in model.meta_graphs:
        graph = meta_graph.graph_def
        found.update(node.op for node in graph.node)
        found.update(node.op for function in graph.library.function for node in function.node_def)
        # A call of a function is a node with the name of the function: no operation of its own.
        found -= {function.signature.name for function in graph.library.function}
    return found
