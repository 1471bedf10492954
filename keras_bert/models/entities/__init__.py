"""Entities of any kinds: spans of words against labels that the input names."""
