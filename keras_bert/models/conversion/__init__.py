"""Model folders from one format to another, with a report of how alike both are."""
