"""An encoder and a decoder from one BERT: the model, and greedy and beam search."""
