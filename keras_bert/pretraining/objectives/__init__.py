"""What pretraining can learn: one file an objective, found by name in `registry`."""
