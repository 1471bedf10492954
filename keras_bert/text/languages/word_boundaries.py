"""Where words of Chinese and Japanese begin, for masks that hide whole words. No TensorFlow here.

BERT makes a word of every Chinese character, and one of any run of kana. A segmenter tells which of
these pieces form a word; the pieces themselves stay as they are:

    text          我喜欢北京。        words of the segmenter: 我 喜欢 北京
    pieces        我 喜 欢 北 京 。
    continuation   0  0  1  0  1  0

Only runs of Chinese characters and kana are given to the segmenter. Elsewhere a word goes on with
the pieces that have "##", as always. Whole word masking of Chinese BERT: Cui et al.,
arXiv:1906.08101.
"""

import importlib
import logging
import re
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert.choices import WordSegmenter, check_choice
from keras_bert.text.corpus_tokenizer import CorpusTokenizer
from keras_bert.text.vocabulary import CONTINUATION_PREFIX, Vocabulary
from keras_bert.text.wordpiece.normalized_characters import CharacterForms
from keras_bert.text.wordpiece.settings import Settings

# Chinese characters as in tokenization.py of google-research/bert, the marks of repetition that
# stand for one, hiragana, katakana, and katakana of half width.
_RUN = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf"
    "\U0002f800-\U0002fa1f\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f]+"
)
_ELSEWHERE, _INSIDE, _WORD_START, _RUN_START = range(4)
_MAX_REMEMBERED = 100_000  # runs whose words are remembered, some ten MB
# Segmenter -> the packages that it needs.
_PACKAGES = {"jieba": ("jieba",), "fugashi": ("fugashi", "unidic_lite")}


def load_segmenter(name: WordSegmenter) -> Callable[[str], list[str]]:
    """Returns a function that cuts a text without spaces into words.

    Args:
        name: "jieba" for Chinese, "fugashi" (MeCab, with the dictionary unidic-lite) for Japanese.

    Raises:
        ValueError: the name is unknown, or a package is not installed.
    """
    check_choice("word_segmenter", name, WordSegmenter)
    for package in _PACKAGES[name]:
        try:
            importlib.import_module(package)
        except ImportError:
            needed = " ".join(_PACKAGES[name]).replace("_", "-")
            raise ValueError(
                f"word_segmenter is {name!r}, which needs a package that is not installed: "
                f"pip install {needed}"
            ) from None
    if name == "jieba":
        import jieba

        jieba.setLogLevel(logging.WARNING)  # it tells how it loads its dictionary
        return jieba.lcut
    import fugashi

    tagger = fugashi.Tagger("-O wakati")
    return lambda text: tagger.parse(text).split()


class WordBoundaries:
    """Tells of the pieces of a `CorpusTokenizer` which go on with the word before them.

    Args:
        vocabulary: the pieces.
        settings: how text is treated.
        segmenter: "jieba" or "fugashi", see `load_segmenter`.

    Raises:
        ValueError: the segmenter is unknown or not installed.
    """

    def __init__(self, vocabulary: Vocabulary, settings: Settings, segmenter: WordSegmenter):
        self._segment = load_segmenter(segmenter)
        self._tokens = vocabulary.tokens
        self._continuation_mask = vocabulary.continuation_mask
        self._unk_id = vocabulary.unk_id
        self._spelled_ids = set(vocabulary.special_ids) if settings.keep_special_tokens else set()
        self._tokenizer = CorpusTokenizer(vocabulary, settings)
        self._forms = CharacterForms(settings)
        self._starts_of: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str], ids: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Returns which pieces go on with the word before them.

        Args:
            texts: N strings.
            ids: what the tokenizer made of them, int32 [pieces].
            sizes: how many pieces each text has, int64 [N].

        Returns:
            int32 [pieces], 1 for a piece that goes on with a word, 0 for one that begins one.
        """
        continues = self._continuation_mask[ids]  # bool [pieces]
        end = 0
        for text, size in zip(texts, sizes.tolist(), strict=True):
            start, end = end, end + size
            if size and _RUN.search(text):
                kinds = self._kinds(text)[self._first_characters(text, ids[start:end])]  # [size]
                part = continues[start:end]
                part[kinds == _INSIDE] = True
                part[kinds == _WORD_START] = False
        return continues.astype(np.int32)

    def _kinds(self, text: str) -> np.ndarray:
        """Returns what stands at each character of a text, int64 [characters]."""
        kinds = np.full(len(text), _ELSEWHERE)
        for run in _RUN.finditer(text):
            kinds[run.start() : run.end()] = _INSIDE
            kinds[[run.start() + start for start in self._word_starts(run[0])]] = _WORD_START
            # Behind a letter the run may go on with a word: the "##" of its piece decides.
            kinds[run.start()] = _RUN_START
        return kinds

    def _word_starts(self, run: str) -> list[int]:
        starts = self._starts_of.get(run)
        if starts is None:
            starts, position = [], 0
            for word in self._segment(run):
                position = run.index(word, position)
                starts.append(position)
                position += len(word)
            if len(self._starts_of) >= _MAX_REMEMBERED:
                self._starts_of.clear()
            self._starts_of[run] = starts
        return starts

    def _first_characters(self, text: str, ids: np.ndarray) -> np.ndarray:
        """Returns at which character of the text each piece begins, int64 [pieces]."""
        # Pieces are counted off on the normalized words: in "Ab cd" piece "cd" begins at 2 of 4.
        words = self._tokenizer.words(text)
        normalized = "".join(words)
        ends = np.cumsum(list(map(len, words)))
        starts, position = [], 0
        for piece in ids.tolist():
            starts.append(position)
            token = self._tokens[piece]
            if piece in self._spelled_ids and normalized[position:].lower().startswith(
                token.lower()
            ):
                position += len(token)
            elif piece == self._unk_id:  # a whole word
                position = int(ends[np.searchsorted(ends, position, "right")])
            else:
                position += len(token.removeprefix(CONTINUATION_PREFIX))
        # Of each normalized character, the character of the text that it comes from.
        origins = np.repeat(np.arange(len(text)), self._forms.solid_counts(text))
        return origins[starts]
