"""Pretraining: options, the step, the loop around it, and what it measures."""
