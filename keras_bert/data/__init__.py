"""From corpus files to TFRecords and from TFRecords to batches."""
