"""What a model attends to, as a page and as a picture."""
