"""Byte-level byte pair encoding inside the graph: `ByteLevelBpeTokenizer` and its steps."""
