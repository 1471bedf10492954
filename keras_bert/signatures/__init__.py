"""What the signatures of every kind of task share: strings in, answers out, in one graph."""
