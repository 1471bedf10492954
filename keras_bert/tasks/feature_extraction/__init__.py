"""Texts as vectors, of pieces, words or sentences, without fine-tuning."""
