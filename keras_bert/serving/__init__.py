"""Exports: SavedModels, what TF Serving wants beside them, other formats, and a client."""
