"""Numbers that masks in the graph and masks of whole corpora share. No TensorFlow here."""

import numpy as np

# The generator SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
# (2014), with the constants of Vigna's public domain version.
INCREMENT = np.uint64(0x9E3779B97F4A7C15)
MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

KEY_BITS = 31  # of a non-negative int32, which tf.math.top_k sorts
UNIFORM_BITS = 24  # what float32 holds exactly

# Random bits of their own: the order of pieces and words takes the indices below 2 ** 32.
REPLACEMENTS = 1 << 32
RUN_LENGTHS = 2 << 32

# A run of n words is drawn with a probability in proportion to 1 / n, n up to 3 (ALBERT,
# arXiv:1909.11942, section 4.1): the sums of the first weights.
RUN_WEIGHTS = np.cumsum([1.0, 1 / 2, 1 / 3]).astype(np.float32)
