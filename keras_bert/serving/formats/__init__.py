"""Other forms of an exported model: TF-Hub, LiteRT and ONNX."""
