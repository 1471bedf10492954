"""Models whose output is a vector of a text: dense ones, and sparse ones of the vocabulary."""
