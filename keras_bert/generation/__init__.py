"""Text from a masked language model: Gibbs sampling, Metropolis-Hastings, annealing, reranking."""
