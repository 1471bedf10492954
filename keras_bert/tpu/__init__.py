"""What a training run takes on TPUs, found without one."""
