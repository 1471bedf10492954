"""SentencePiece inside the graph: model files, ALBERT's preparation, `SentencePieceTokenizer`."""
