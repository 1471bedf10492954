"""Checkpoints of Google, Hugging Face and Model Garden as {variable path: array}, both ways.

Each dialect is one table of names, read in both directions. A reader that needs TensorFlow imports
it when it is called.
"""
