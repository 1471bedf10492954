"""Adapters of PEFT: low-rank matrices beside the layers of a model of transformers."""
