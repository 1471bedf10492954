"""Attributions: what each word of a text contributes to an answer."""
