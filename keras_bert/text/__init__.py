"""Text: vocabularies, the exact WordPiece tokenizer, packing and masking, in TensorFlow ops."""
