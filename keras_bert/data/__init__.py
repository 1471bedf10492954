"""Data: corpora, pretraining examples, TFRecords with a manifest, and how they are read."""
