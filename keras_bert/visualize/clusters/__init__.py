"""Clusters of texts as a page: a map, a list of them, near-duplicates."""
