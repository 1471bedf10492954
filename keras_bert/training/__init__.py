"""Strategies, optimizers, schedules, losses, metrics, and the pretraining and fine-tuning runs."""
