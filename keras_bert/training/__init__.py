"""What both training loops share: optimizers, schedules, strategies, precision, run folders."""
