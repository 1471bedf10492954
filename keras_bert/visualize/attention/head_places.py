"""Where attention heads look in one text: sums of statistics, and a sentence on each head.

Statistics are those of Clark et al. (2019, "What Does BERT Look At?"): every token of a text counts
as one that looks, [CLS] and [SEP] among them.

Shapes: L layers, A heads, S tokens.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.text.vocabulary import CLS, SEP, Vocabulary
from keras_bert.text.wordpiece.unicode_table import is_punctuation

# Name of a statistic -> where a head looks, in a sentence. Its values are fractions of all weight;
# the token before may be punctuation, too, so that they need not sum to 1. [CLS] and [SEP] are
# roles: families spell these tokens in different ways.
PLACES: Mapping[str, str] = {
    "previous": "the token before",
    "next": "the token behind",
    "same": "the token itself",
    "cls": CLS,
    "sep": SEP,
    "same_word": "the same word elsewhere",
    "punctuation": "punctuation",
}
# Below it a head looks nowhere in particular.
_LEAST_SHARE = 0.25


def place_sums(
    probabilities: np.ndarray, pieces: Sequence[str], vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Returns the weight that goes to each of `PLACES`, summed over the tokens of a text.

    Args:
        probabilities: [..., S, S], from a token to a token.
        pieces: S entries of the vocabulary, [CLS] and [SEP] among them.
        vocabulary: that of the model; it knows which pieces are special and which begin a word.

    Returns:
        float64 [...] by name, from 0 to S.
    """
    pieces = list(pieces)
    received = probabilities.sum(axis=-2, dtype=np.float64)  # [..., S], by the token looked at
    columns = {
        "cls": [piece == vocabulary.special_tokens.cls for piece in pieces],
        "sep": [piece == vocabulary.special_tokens.sep for piece in pieces],
        "punctuation": [_is_punctuation(vocabulary.spelled(piece)) for piece in pieces],
    }
    sums = {
        name: _diagonal(probabilities, offset)
        for name, offset in (("previous", -1), ("next", 1), ("same", 0))
    }
    for name, chosen in columns.items():
        sums[name] = received[..., np.array(chosen, bool)].sum(axis=-1)
    elsewhere = _same_word_elsewhere(pieces, vocabulary)
    sums["same_word"] = (
        probabilities[..., elsewhere].sum(axis=-1, dtype=np.float64)
        if elsewhere.any()
        else np.zeros(probabilities.shape[:-2])
    )
    return {name: sums[name] for name in PLACES}


def sentence(name: str, shares: Mapping[str, float], least: float = _LEAST_SHARE) -> str:
    """Returns where a head looks most: "Layer 2, head 3: 79 % of all weight goes to [SEP]".

    Args:
        name: of the head.
        shares: the fraction of its weight that goes to each of `PLACES`.
        least: below it a head looks nowhere in particular.
    """
    place = max(PLACES, key=lambda place: shares[place])
    if shares[place] < least:
        return f"{name}: spread widely"
    return f"{name}: {100 * shares[place]:.0f}\u00a0% of all weight goes to {PLACES[place]}"


def sentences_with_means(
    probabilities: np.ndarray, pieces: Sequence[str], vocabulary: Vocabulary
) -> list[list[str]]:
    """Returns a sentence on each head, and on means of layers and heads.

    Args:
        probabilities: [L, A, S, S].
        pieces: S entries of the vocabulary.
        vocabulary: that of the model.

    Returns:
        L + 1 lists of A + 1 sentences; the last ones are of the mean over all layers, or heads.
    """
    layers, heads = probabilities.shape[:2]
    with_means = {}
    for place, sums in place_sums(probabilities, pieces, vocabulary).items():
        shares = sums / len(pieces)  # [L, A]
        shares = np.concatenate([shares, shares.mean(axis=0, keepdims=True)], axis=0)
        shares = np.concatenate([shares, shares.mean(axis=1, keepdims=True)], axis=1)
        with_means[place] = shares  # [L + 1, A + 1]
    layer_names = [*(f"Layer {layer}" for layer in range(layers)), "Mean of all layers"]
    head_names = [*(f"head {head}" for head in range(heads)), "mean of all heads"]
    return [
        [
            sentence(
                f"{layer_name}, {head_name}",
                {place: float(shares[layer, head]) for place, shares in with_means.items()},
            )
            for head, head_name in enumerate(head_names)
        ]
        for layer, layer_name in enumerate(layer_names)
    ]


def _diagonal(probabilities: np.ndarray, offset: int) -> np.ndarray:
    found = np.diagonal(probabilities, offset, axis1=-2, axis2=-1)
    return found.sum(axis=-1, dtype=np.float64)


def _is_punctuation(spelled: str) -> bool:
    return bool(spelled) and all(map(is_punctuation, spelled))


def _same_word_elsewhere(pieces: Sequence[str], vocabulary: Vocabulary) -> np.ndarray:
    """Returns bool [S, S]: whether two tokens lie in different words of the same pieces."""
    edges = vocabulary.special_tokens.cls, vocabulary.special_tokens.sep
    words: list[list[str]] = []
    word_of_token = []
    for piece in pieces:
        # Without its mark: the first word of a text has none in byte-level vocabularies. Not as it
        # is spelled: bytes that are no whole character would all be alike.
        body = piece.removeprefix(vocabulary.word_mark)
        if vocabulary.continues_word(piece) and words and words[-1][0] not in edges:
            words[-1].append(body)
        else:
            words.append([body])
        word_of_token.append(len(words) - 1)
    kinds: dict[tuple[str, ...], int] = {}
    # [CLS] and [SEP] have places of their own.
    kind_of_word = [
        -1 - number if word[0] in edges else kinds.setdefault(tuple(word), len(kinds))
        for number, word in enumerate(words)
    ]
    word = np.array(word_of_token)
    kind = np.array(kind_of_word)[word]
    return (kind[:, None] == kind) & (word[:, None] != word)
