"""The layers of BERT, written with `keras.ops` only: they run on every Keras backend."""
