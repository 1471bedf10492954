"""How likely a masked language model finds a text: pseudo-log-likelihood and pseudo-perplexity.

A masked language model gives no probability to a text as a whole. What stands in for it is the sum
of the log-probabilities of its pieces, each of them masked while all others are seen (Salazar et
al. 2020, "Masked Language Model Scoring", section 2). With one mask, a piece in the middle of a
rare word is all but given by the others of that word; `within_word` masks the pieces behind it, too
(Kauf and Ivanova 2023, "A Better Way to Do Masked Language Model Scoring", PLL-word-l2r):

    pieces          the   doc   ##tor   ##s
    for "##tor"     the   doc   [MASK]  ##s       Salazar et al.
                    the   doc   [MASK]  [MASK]    within_word
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.models.masked_lm import BertMaskedLM, load_masked_lm
from keras_bert.storage.text_lines import check_several
from keras_bert.tasks.fill_mask.masked_rows import MaskedRow, MaskedRows
from keras_bert.tasks.tagging.windows import windows
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.framing import ALBERT_TOKENS, BERT_TOKENS
from keras_bert.text.loading import load_tokenizer

# Texts are sorted by length within so many batches of rows.
_BATCHES_PER_CHUNK = 16
_UNKNOWN = (BERT_TOKENS.unk, ALBERT_TOKENS.unk)


class TextScore(NamedTuple):
    """How likely a model finds a text.

    Attributes:
        text: the text.
        pieces: its N pieces.
        log_probabilities: float32 [N], of each piece where it is masked; natural logarithms.
    """

    text: str
    pieces: tuple[str, ...]
    log_probabilities: np.ndarray

    @property
    def log_likelihood(self) -> float:
        """The pseudo-log-likelihood: the sum over the pieces, 0 for a text without any."""
        return float(np.sum(self.log_probabilities, dtype=np.float64))

    @property
    def perplexity(self) -> float:
        """The pseudo-perplexity exp(-log_likelihood / N), not a number for a text without pieces.

        That of several texts is `exp(-sum of log_likelihood / sum of N)`.
        """
        count = len(self.pieces)
        return float(np.exp(-self.log_likelihood / count)) if count else float("nan")

    @property
    def unknown_pieces(self) -> int:
        """How many of the pieces are [UNK], whose probability says nothing of the word."""
        return sum(piece in _UNKNOWN for piece in self.pieces)


class SentenceScorer:
    """Scores texts by the pseudo-log-likelihood of a masked language model.

    A text of N pieces takes N rows. One that is too long for the model is read in windows that
    overlap by half; each piece is scored in the window where it has most context.

    Args:
        model: the masked language model.
        tokenizer: its tokenizer.
        within_word: mask the later pieces of a word along with each piece of it (Kauf and Ivanova
            2023); otherwise one piece at a time (Salazar et al. 2020).
        batch_size: rows per call of the model.

    Raises:
        ValueError: the model predicts no masked words, or the vocabulary is another's.

    Example:
        scorer = SentenceScorer.from_preset("runs/mini/preset")
        [score] = scorer(["The doctor was late ."])
        print(score.log_likelihood, score.perplexity)
    """

    def __init__(
        self,
        model: BertMaskedLM,
        tokenizer: Tokenizer,
        within_word: bool = False,
        batch_size: int = 32,
    ):
        self._ask = MaskedRows(model, tokenizer, batch_size)
        self._tokenizer = tokenizer
        self._within_word = within_word
        self._pieces_per_chunk = _BATCHES_PER_CHUNK * batch_size

    @classmethod
    def from_preset(
        cls,
        folder: str | os.PathLike,
        ignore_config_keys: Collection[str] = (),
        **arguments: Any,
    ) -> "SentenceScorer":
        """Opens a model folder of any format, in float32.

        Args:
            folder: the folder.
            ignore_config_keys: unknown keys of its config to pass over, see `BertConfig.from_dict`.
            **arguments: those of `SentenceScorer` but the first two.
        """
        model = load_masked_lm(folder, ignore_config_keys, dtype="float32")
        return cls(model, load_tokenizer(folder), **arguments)

    def __call__(self, texts: Iterable[str]) -> Iterator[TextScore]:
        """Yields the score of each text in order; memory holds a few batches, or one text.

        Raises:
            ValueError: `texts` is one string.
        """
        check_several(texts)
        return self._score(texts)

    def _score(self, texts: Iterable[str]) -> Iterator[TextScore]:
        chunk: list[tuple[str, np.ndarray]] = []
        pieces = 0
        for text in texts:
            ids = self._tokenizer([text]).values.numpy()  # int32 [N]
            chunk.append((text, ids))
            pieces += max(1, len(ids))  # texts without pieces take room, too
            if pieces >= self._pieces_per_chunk:
                yield from self._scores(chunk)
                chunk, pieces = [], 0
        yield from self._scores(chunk)

    def _scores(self, texts: Sequence[tuple[str, np.ndarray]]) -> Iterator[TextScore]:
        rows = [row for _, ids in texts for row in self._rows(ids)]
        answers = iter(self._ask(rows))
        tokens = self._tokenizer.vocabulary.tokens
        for text, ids in texts:
            # A row for each piece, in the order of the pieces.
            logs = [next(answers).log_probabilities[0] for _ in ids]
            yield TextScore(text, tuple(tokens[i] for i in ids), np.array(logs, np.float32))

    def _rows(self, ids: np.ndarray) -> Iterator[MaskedRow]:
        continues = self._tokenizer.vocabulary.continuation_mask[ids]  # bool [N]
        if not len(ids):
            return
        for window in windows([1] * len(ids), self._ask.room):
            seen = ids[window.start : window.end]
            for index in range(window.first - window.start, window.last - window.start):
                last = index + 1
                while self._within_word and last < len(seen) and continues[window.start + last]:
                    last += 1
                yield MaskedRow(seen, range(index, last), [index])
