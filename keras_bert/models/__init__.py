"""The encoder and its heads as functional Keras models."""
