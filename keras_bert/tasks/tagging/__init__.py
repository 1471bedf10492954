"""A tag for each word of a sentence: named entities, parts of speech."""
