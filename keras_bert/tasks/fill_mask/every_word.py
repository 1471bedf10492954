"""What a model would put in place of each word of a text."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from keras_bert.models.masked_lm import BertMaskedLM
from keras_bert.tasks.fill_mask.guesses import Guess
from keras_bert.tasks.fill_mask.masked_rows import MaskedRow, MaskedRows
from keras_bert.tasks.tagging.windows import windows
from keras_bert.text.base_tokenizer import Tokenizer


class MaskedPiece(NamedTuple):
    """A piece of a word and what the model expects where the word is masked.

    Attributes:
        piece: the piece that stands there.
        probability: how likely the model finds it.
        rank: its place among all pieces by probability, from 1 up.
        guesses: the likeliest pieces, the first of them most.
    """

    piece: str
    probability: float
    rank: int
    guesses: tuple[Guess, ...]


class MaskedWord(NamedTuple):
    """A word of a text, `text[start:end]`, and what the model expects in its place.

    Attributes:
        word: the word as it stands in the text.
        start: where it begins, in code points.
        end: where it ends.
        pieces: its pieces; all of them were masked at once.
    """

    word: str
    start: int
    end: int
    pieces: tuple[MaskedPiece, ...]


def guess_every_word(
    model: BertMaskedLM, tokenizer: Tokenizer, text: str, top: int = 5, batch_size: int = 32
) -> list[MaskedWord]:
    """Masks each word of a text in turn and returns what the model would put there.

    All pieces of a word are masked at once, each by a [MASK] of its own. Punctuation marks are
    words. A text that is too long for the model is read in windows that overlap by half; each word
    is masked in the window where it has most context.

    Args:
        model: the masked language model.
        tokenizer: its tokenizer.
        text: the text.
        top: how many guesses for each piece.
        batch_size: rows per call of the model.

    Raises:
        ValueError: the model predicts no masked words, or the vocabulary is another's.

    Example:
        for word in guess_every_word(model, tokenizer, "The doctor was late ."):
            print(word.word, [guess.piece for guess in word.pieces[0].guesses])
    """
    ask = MaskedRows(model, tokenizer, batch_size, top)
    vocabulary = tokenizer.vocabulary
    ids, starts, ends = (part.values.numpy() for part in tokenizer.tokenize_with_offsets([text]))
    # A word begins at the first piece of the text and wherever a piece continues none.
    begins = ~vocabulary.continuation_mask[ids]  # bool [N]
    begins[:1] = True
    bounds = [*np.flatnonzero(begins).tolist(), len(ids)]
    spans = list(pairwise(bounds))  # first piece and the one behind the last, of each word
    rows = []
    for window in windows([end - start for start, end in spans], ask.room) if spans else []:
        offset = spans[window.start][0]
        seen = ids[offset : spans[window.end - 1][1]][: ask.room]
        for start, end in spans[window.first : window.last]:
            # A word that is longer than a row is cut.
            hidden = range(start - offset, min(end - offset, len(seen)))
            rows.append(MaskedRow(seen, hidden, hidden))
    words = []
    for (start, end), row, answer in zip(spans, rows, ask(rows), strict=True):
        pieces = []
        for at, index in enumerate(row.asked):
            best = zip(answer.guesses[at], answer.guess_probabilities[at], strict=True)
            pieces.append(
                MaskedPiece(
                    vocabulary.tokens[row.ids[index]],
                    float(np.exp(answer.log_probabilities[at])),
                    int(answer.ranks[at]),
                    tuple(Guess(vocabulary.tokens[i], float(p)) for i, p in best),
                )
            )
        first, last = int(starts[start]), int(ends[end - 1])
        words.append(MaskedWord(text[first:last], first, last, tuple(pieces)))
    return words
