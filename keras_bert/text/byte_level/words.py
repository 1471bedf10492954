r"""Texts to the words that pieces are made of: GPT-2's regular expression without an engine for it.

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

What begins a word follows from a few neighbours of a character, so all texts are split at once:

    it's  ok!     words "it" "'s" " " " ok" "!"

- A letter, digit or other sign begins one where its class differs from that before it. A single
  space before it belongs to it; other white space does not.
- White space begins one after anything else, and its last character where something follows.
- An apostrophe that begins a word takes s, t, m, d, re, ve or ll behind it along; what follows
  begins a word.

RE2, the engine of TensorFlow, has no look-ahead, and a Unicode of its own. That of Llama 3 is in
`llama_words.py`.

Shapes: N texts, C code points of all of them, K characters of words, W words, all of all texts.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from keras_bert.text.byte_level import character_classes as classes
from keras_bert.text.byte_level.composition import Composer
from keras_bert.text.spelled_tokens import (
    FIRST_SPECIAL,
    Characters,
    SpelledToken,
    find_spelled_tokens,
    without_spelled_tokens,
)

_SPACE, _APOSTROPHE = ord(" "), ord("'")
_ONE_LETTER = "stmd"
_TWO_LETTERS = (("r", "e"), ("v", "e"), ("l", "l"))


# Code points, their classes and where words begin in any case -> where words begin, [K] each.
WordStarts: TypeAlias = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


class Words(NamedTuple):
    """The words of a batch of texts.

    Attributes:
        texts: string [W], UTF-8.
        special: int32 [W], the number of a token that was found, -1 for words.
        splits: int64 [W + 1], where the characters of each word begin and end.
        row_splits: int64 [N + 1], where the words of each text do.
        characters: [K] each; what was put in front of a text stands for its first character.
        row_starts: int64 [N], the first code point of each text, over all texts.
    """

    texts: tf.Tensor
    special: tf.Tensor
    splits: tf.Tensor
    row_splits: tf.Tensor
    characters: Characters
    row_starts: tf.Tensor


class WordSplitter(tf.Module):
    """Splits texts into words.

    Args:
        add_prefix_space: put a space before a text, or what follows a token that is found in one,
            that begins with none.
        tokens: tokens that are found in texts and stay whole.
        composes: whether texts are brought into NFC, after `tokens` have been found.
        normalized_tokens: tokens that are found after that. They are numbered after the others.
        word_starts: tells where words begin: GPT-2's way, or another.
    """

    def __init__(
        self,
        add_prefix_space: bool,
        tokens: Sequence[SpelledToken] = (),
        composes: bool = False,
        normalized_tokens: Sequence[SpelledToken] = (),
        word_starts: WordStarts | None = None,
    ):
        super().__init__(name="word_splitter")
        self._add_prefix_space = add_prefix_space
        self._tokens, self._normalized_tokens = tuple(tokens), tuple(normalized_tokens)
        self._composer = Composer() if composes else None
        self._word_starts = word_starts or gpt2_word_starts
        pages, entries = classes.paged_classes()
        with tf.init_scope():  # all traces share them
            self._pages, self._entries = tf.constant(pages), tf.constant(entries)

    def __call__(self, texts: tf.Tensor) -> Words:
        """Returns the words of texts, string [N]."""
        decoded = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")  # [N, code points]
        characters = without_spelled_tokens(decoded)
        if self._tokens:
            is_space = tf.equal(self._classes(decoded.values), classes.SPACE)
            characters = find_spelled_tokens(characters, self._tokens, is_space)
        if self._composer is not None:
            characters = self._composer(characters)
        if self._normalized_tokens:
            characters = find_spelled_tokens(
                characters, self._normalized_tokens, first_number=len(self._tokens)
            )
        kinds = self._classes(characters.code_points)  # [K]
        # Each text, each token that was found and what follows one is split by itself.
        is_special = tf.equal(kinds, classes.SPECIAL_TOKEN)
        begins = tf.not_equal(characters.rows, _before(characters.rows, -1))
        begins |= is_special | _before(is_special, False)
        if self._add_prefix_space:
            characters, begins = _with_spaces(characters, begins, is_special)
            kinds = self._classes(characters.code_points)
        starts = self._word_starts(characters.code_points, kinds, begins)  # bool [K]
        first = tf.where(starts)[:, 0]  # [W]
        size = tf.size(starts, tf.int64)
        splits = tf.concat([first, [size]], axis=0)
        letters = tf.gather(characters.code_points, first)
        special = tf.maximum(letters - FIRST_SPECIAL, -1)
        ragged = tf.RaggedTensor.from_row_splits(characters.code_points, splits, validate=False)
        # Words before each text: 0 at its first character.
        counts = tf.concat([[0], tf.cumsum(tf.cast(starts, tf.int64))], axis=0)  # [K + 1]
        texts_before = tf.range(decoded.nrows() + 1)
        row_splits = tf.gather(counts, tf.searchsorted(characters.rows, texts_before))
        strings = tf.strings.unicode_encode(ragged, "UTF-8")  # of tokens U+FFFD
        return Words(strings, special, splits, row_splits, characters, decoded.row_starts())

    def _classes(self, code_points: tf.Tensor) -> tf.Tensor:
        code_points = tf.minimum(code_points, FIRST_SPECIAL)
        # 0x1F600 lies in page 0x1F6 at 0x00; a page begins at a multiple of 256, so | is +.
        pages = tf.gather(self._pages, tf.bitwise.right_shift(code_points, classes.PAGE_BITS))
        return tf.gather(self._entries, pages | (code_points & ((1 << classes.PAGE_BITS) - 1)))


def _with_spaces(
    characters: Characters, begins: tf.Tensor, is_special: tf.Tensor
) -> tuple[Characters, tf.Tensor]:
    """Puts a space before every beginning that has none; the space stands for what follows it."""
    lacking = begins & ~is_special & tf.not_equal(characters.code_points, _SPACE)  # bool [K]
    # a ' ' b, of which the first lacks one: 0 0 1 2.
    source = tf.repeat(tf.range(tf.size(lacking)), 1 + tf.cast(lacking, tf.int32))
    is_first = tf.not_equal(source, _before(source, -1))
    code_points, rows, first, end = (tf.gather(part, source) for part in characters)
    code_points = tf.where(is_first & tf.gather(lacking, source), _SPACE, code_points)
    return Characters(code_points, rows, first, end), tf.gather(begins, source) & is_first


def gpt2_word_starts(code_points: tf.Tensor, kinds: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
    """Tells at which characters words begin, bool [K].

    Args:
        code_points: int32 [K].
        kinds: int32 [K], their classes.
        begins: bool [K], where a word begins in any case, and nothing before it counts.
    """
    is_space = tf.equal(kinds, classes.SPACE)
    after_blank = tf.equal(_before(code_points, 0), _SPACE)
    after_space = _before(is_space, False)
    differs = tf.not_equal(kinds, _before(kinds, -1))
    # Something that is no white space follows, in the same text.
    followed = ~_after(is_space, True) & ~_after(begins, True)
    starts = begins | tf.where(
        is_space, ~after_space | followed, tf.where(after_space, ~after_blank, differs)
    )
    # The one or two letters of a contraction, in the same text.
    quote = starts & tf.equal(code_points, _APOSTROPHE) & ~_after(begins, True)
    next_one = _after(code_points, 0)
    next_two = tf.where(_after(_after(begins, True), True), 0, _after(next_one, 0))
    one, two = tf.zeros_like(quote), tf.zeros_like(quote)
    for letter in _ONE_LETTER:
        one |= quote & tf.equal(next_one, ord(letter))
    for first, second in _TWO_LETTERS:
        two |= quote & tf.equal(next_one, ord(first)) & tf.equal(next_two, ord(second))
    starts &= ~_before(one | two, False)
    behind = _before(_before(one, False), False)
    behind |= _before(_before(_before(two, False), False), False)
    return starts | behind


def _before(values: tf.Tensor, default: int | bool) -> tf.Tensor:
    """Returns what stands before each position: [K] -> [K]."""
    edge = tf.constant([default], values.dtype)
    return tf.concat([edge, values], axis=0)[: tf.size(values)]


def _after(values: tf.Tensor, default: int | bool) -> tf.Tensor:
    """Returns what stands behind each position: [K] -> [K]."""
    edge = tf.constant([default], values.dtype)
    return tf.concat([values, edge], axis=0)[1:][: tf.size(values)]
