"""The masks of whole corpora against those of the graph, which tests of their own have checked."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.choices import MaskingStrategy
from keras_bert.text.byte_level.byte_alphabet import BYTE_CHARACTERS
from keras_bert.text.corpus_masking import CorpusMasking
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

STRATEGIES = get_args(MaskingStrategy)
PIECES = [*SPECIAL_TOKENS, *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")]
VOCABULARY = Vocabulary(PIECES)


def draw_batch(seed, batch, length, special_share):
    """Sequences of random pieces and lengths; special ones stand anywhere."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, length + 1, batch)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    ordinary = draw.integers(len(SPECIAL_TOKENS), len(PIECES), (batch, length))
    special = draw.integers(0, len(SPECIAL_TOKENS), (batch, length))
    ids = np.where(draw.random((batch, length)) < special_share, special, ordinary)
    seeds = draw.integers(-(1 << 62), 1 << 62, (batch, 3))
    return (ids * mask).astype(np.int32), mask, seeds


def check(batch, **options):
    expected = MaskedLanguageModelMasking(VOCABULARY, **options)(*batch)
    found = CorpusMasking(VOCABULARY, **options)(*batch)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == values.dtype.as_numpy_dtype, name
        np.testing.assert_array_equal(found[name], values.numpy(), err_msg=name)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_masks_are_those_of_the_graph(strategy):
    for special_share in (0.0, 0.1, 0.9):
        batch = draw_batch(1, 100, 128, special_share)
        check(batch, max_predictions_per_seq=20, strategy=strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(1, 6),
    st.sampled_from([1, 2, 3, 8, 17]),
    st.sampled_from([1, 2, 5, 30]),
    st.sampled_from([0.01, 0.15, 0.5, 1.0]),
    st.sampled_from([(0.8, 0.1), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.3, 0.7)]),
)
def test_any_shapes_and_shares(strategy, seed, batch, length, predictions, prob, shares):
    check(
        draw_batch(seed, batch, length, 0.2),
        max_predictions_per_seq=predictions,
        masked_lm_prob=prob,
        mask_token_rate=shares[0],
        random_token_rate=shares[1],
        strategy=strategy,
    )


# An ideograph as one piece of either kind, and as three pieces of a byte each.
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("mark", "size"), [("▁", 1), ("Ġ", 1), ("Ġ", 3)])
def test_chinese_is_hidden_at_the_rate_that_is_asked_for(mark, size, strategy):
    characters = [chr(code) for code in range(0x4E00, 0x4E00 + 126 // size)]
    if mark == "Ġ":
        characters = ["".join(BYTE_CHARACTERS[b] for b in c.encode()) for c in characters]
    pieces = list("".join(characters)) if size == 3 else characters
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *dict.fromkeys(pieces)], word_mark=mark)
    row = [vocabulary.id_of(token) for token in ("[CLS]", *pieces, "[SEP]")]
    batch = np.tile(np.array(row, np.int32), (50, 1)), np.ones((50, 128), np.int32)
    seeds = np.arange(50)[:, None]
    for kind in (CorpusMasking, MaskedLanguageModelMasking):
        masked = kind(vocabulary, 30, strategy=strategy)(*batch, seeds)
        chosen = np.asarray(masked["masked_lm_weights"]).sum(axis=1)
        # 15 % of 128 are 19; a character of three pieces that does not fit is left out.
        assert ((chosen > 19 - size) & (chosen <= 19)).all()


def test_a_vocabulary_without_ordinary_pieces_is_refused():
    with pytest.raises(ValueError, match="special tokens only: there is nothing to mask"):
        CorpusMasking(Vocabulary(SPECIAL_TOKENS), 5)
    with pytest.raises(ValueError, match="masked_lm_prob is 2: it must be above 0 and at most 1"):
        CorpusMasking(VOCABULARY, 5, masked_lm_prob=2)
