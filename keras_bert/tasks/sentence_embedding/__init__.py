"""Texts as vectors that are trained: search for what answers a text, similarity of two."""
