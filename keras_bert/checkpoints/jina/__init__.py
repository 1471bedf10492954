"""Jina Embeddings v3 as it is published: adapters of tasks beside the weights."""
