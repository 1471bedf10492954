"""Which of several continuations fits."""
