"""Tables of static embeddings: the folders of Model2Vec and of sentence-transformers."""
