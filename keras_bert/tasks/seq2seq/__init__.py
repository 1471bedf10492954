"""Text to text: an encoder and a decoder learn to write a target for a source."""
