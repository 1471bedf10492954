"""One answer for a text or a pair of texts: a class, several classes, or a number."""
