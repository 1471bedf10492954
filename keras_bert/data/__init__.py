"""Data: corpora, pretraining examples, TFRecords with a manifest, and the pipeline that reads them."""
