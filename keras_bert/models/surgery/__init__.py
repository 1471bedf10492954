"""Models made from others: some of the layers, more words, more positions, local attention."""
