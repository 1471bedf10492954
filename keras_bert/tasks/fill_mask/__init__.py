"""Guesses for [MASK] in a text."""
