"""Pretraining examples: made of sentences, packed, written to TFRecords and read again."""
