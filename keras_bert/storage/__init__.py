"""Files: written whole or not at all, tables, the hub, buckets."""
