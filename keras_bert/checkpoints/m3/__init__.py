"""Folders of BGE-M3: one encoder, and vectors of three kinds."""
