"""Tasks: a folder for each kind, with its readers, head, metrics and signatures."""
