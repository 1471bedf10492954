"""Texts that find texts: encoders of each kind of vectors, indexes of them, what orders anew."""
