"""Several languages in one model: names, shares of the text, and words without spaces."""
