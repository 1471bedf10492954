"""Named entities of any kinds, named when asked: GLiNER."""
