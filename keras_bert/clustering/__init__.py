"""What is in many texts: near-duplicates, clusters, and words that name these."""
