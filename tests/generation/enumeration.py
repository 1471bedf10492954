"""A vocabulary of four words, so that every text of a few blanks can be enumerated: the oracle.

Of the package it uses the Keras model alone; distributions, energies and the kernels of the chains
are written here once more, in NumPy and float64. States are the words in two blanks of
"w0 [MASK] [MASK] w3", 16 of them; the fixed words are part of every energy.
"""

import itertools

import keras
import numpy as np

from keras_bert import BertConfig, BertMaskedLM, BertTokenizer, Vocabulary
from keras_bert.text.vocabulary import SPECIAL_TOKENS

WORDS = ("good", "bad", "film", "book")
PROMPT = "good [MASK] [MASK] book"
TOKENS = [*SPECIAL_TOKENS, "[unused0]", *WORDS]
FIRST = len(SPECIAL_TOKENS) + 1  # id of the first word
STATES = list(itertools.product(range(4), repeat=2))
MASK_ID = TOKENS.index("[MASK]")


def tiny_model():
    """A model that would rather say special tokens than words.

    Of this seed the blanks depend on each other: after a sweep, Gibbs sampling is far from
    exp(-energy), with a total variation of 0.2 to 0.4.
    """
    keras.utils.set_random_seed(6)
    model = BertMaskedLM(
        BertConfig(
            vocab_size=16,  # padded to a multiple of 8
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=16,
            initializer_range=0.4,
        ),
        dtype="float32",
    )
    bias = model.get_layer("masked_lm_bias").bias
    values = np.array(bias)
    values[:FIRST] += 9.0
    values[len(TOKENS) :] += 9.0
    bias.assign(values)
    return model, BertTokenizer(Vocabulary(TOKENS), keep_special_tokens=True)


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def logits_at(model, rows, columns):
    """Logits [R, V] of `rows`, pieces without [CLS] and [SEP], at one column of each."""
    ids = np.array([[2, *row, 3] for row in rows], np.int32)
    inputs = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
        "masked_lm_positions": np.array(columns, np.int32)[:, None] + 1,
    }
    return np.float64(model(inputs))[:, 0, : len(TOKENS)]


def row_of(state):
    """Pieces of a state; None is a mask."""
    inner = [MASK_ID if word is None else FIRST + word for word in state]
    return [FIRST, *inner, FIRST + 3]


class Enumeration:
    """The exact distributions of a model over the 16 states."""

    def __init__(self, model):
        # Logits [2, 5, 5, V] in each blank where the two hold a word, or (4) a mask.
        words = (*range(4), None)
        states = list(itertools.product(words, words))
        rows = [row_of(state) for state in states] * 2
        logits = logits_at(model, rows, [1] * 25 + [2] * 25)
        self._logits = logits.reshape(2, 5, 5, -1)
        # Of the 16 states each piece masked, [16, 4, V], and the pieces, [16, 4].
        rows = np.repeat([row_of(state) for state in STATES], 4, axis=0)
        columns = np.tile(np.arange(4), 16)
        self._pieces = rows[np.arange(64), columns].reshape(16, 4)
        rows[np.arange(64), columns] = MASK_ID
        self._masked = logits_at(model, rows, columns).reshape(16, 4, -1)

    def draws(self, state, blank, temperature=1.0):
        """Probabilities of the four words in a blank of a state, which may hold None."""
        first, second = (4 if word is None else word for word in state)
        return np.exp(log_softmax(self._logits[blank, first, second, FIRST:] / temperature))

    def likeliest(self):
        """The likeliest of all pieces in the blanks of all states, masked or not."""
        return set(self._logits.argmax(axis=-1).ravel().tolist())

    def terms(self, energy):
        """What each of the four pieces adds to the energy of each state, [16, 4]."""
        values = log_softmax(self._masked) if energy == "normalized" else self._masked
        return -np.take_along_axis(values, self._pieces[..., None], axis=-1)[..., 0]

    def target(self, energy, temperature):
        """Probabilities of the states in proportion to exp(-energy / temperature)."""
        return np.exp(log_softmax(-self.terms(energy).sum(axis=1) / temperature))

    def kernel(self, blank, energy, temperature):
        """Probabilities [16, 16] of a Metropolis-Hastings step, and of its acceptance [16]."""
        energies = self.terms(energy).sum(axis=1)
        moves, accepted = np.zeros([16, 16]), np.zeros(16)
        for at, state in enumerate(STATES):
            masked = list(state)
            masked[blank] = None
            q = self.draws(masked, blank, temperature)
            for word in range(4):
                new = list(state)
                new[blank] = word
                to = STATES.index(tuple(new))
                odds = np.exp((energies[at] - energies[to]) / temperature)
                alpha = min(1.0, odds * q[state[blank]] / q[word])
                accepted[at] += q[word] * alpha
                moves[at, to] += q[word] * alpha
                moves[at, at] += q[word] * (1 - alpha)
        return moves, accepted


def counts_of(samples):
    """How often each state is among samples, [16]."""
    found = np.zeros(16)
    for sample in samples:
        assert (sample.pieces[0], sample.pieces[3]) == ("good", "book")
        found[STATES.index(tuple(WORDS.index(piece) for piece in sample.pieces[1:3]))] += 1
    return found


def chi_square(counts, probabilities):
    """Pearson's statistic over cells of 5 or more expected; rarer ones are one cell together."""
    expected = probabilities * counts.sum()
    rare = expected < 5
    cells = [(counts[i], expected[i]) for i in np.flatnonzero(~rare)]
    cells.append((counts[rare].sum(), max(expected[rare].sum(), 1e-9)))
    return sum((found - wanted) ** 2 / wanted for found, wanted in cells if wanted > 1)
