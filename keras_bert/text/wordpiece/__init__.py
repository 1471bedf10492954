"""What is behind the tokenizer: from strings to words, and from words to pieces."""
