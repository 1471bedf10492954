"""Folders of GLiNER: entities of kinds that are named when a text is read."""
