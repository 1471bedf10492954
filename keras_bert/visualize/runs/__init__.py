"""The report of a training run, or of two side by side."""
