"""Words to word pieces: greedy longest match first.

tf.text's FastWordpieceTokenizer finds the pieces. It is told what it would do otherwise than the
original: a word that is too long is replaced by one that has no pieces, pieces that no word can
hold get another spelling, and private characters of special tokens get their ids afterwards.

Shapes: W words, K characters of all of them.
"""

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.base_tokenizer import shared
from keras_bert.text.vocabulary import CONTINUATION_PREFIX, UNKNOWN, Vocabulary
from keras_bert.text.wordpiece import unicode_table
from keras_bert.text.wordpiece.words import Words

# tf.text counts bytes.
_MAX_BYTES_PER_CHARACTER = 4
# tf.text keeps the length of a piece in one byte.
_MAX_BYTES_PER_PIECE = 255
# The length in `_lengths` of a piece that always is a word: [UNK] and the other special tokens.
_WHOLE_WORD = 0


class WordPiece(tf.Module):
    """Turns words into the ids of word pieces.

    Args:
        vocabulary: the word pieces and their ids.
        tokens: the same, as `matchable_tokens` gives them.
        keep_special_tokens: whether words may be the private characters of special tokens.
        max_characters: a longer word is [UNK].
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        tokens: list[str],
        keep_special_tokens: bool,
        max_characters: int,
    ):
        super().__init__(name="wordpiece")
        self._keep_special_tokens = keep_special_tokens
        self._max_characters = max_characters
        max_bytes = _MAX_BYTES_PER_CHARACTER * max_characters
        self._unknown_word = "x" * (max_bytes + 1)
        self._tokenizer = fast_wordpiece_tokenizer(tokens, max_bytes, splits_words=False)
        with tf.init_scope():
            self._lengths = tf.constant(_lengths(vocabulary))
            self._special_ids = tf.constant(vocabulary.special_ids, tf.int32)

    def __call__(self, words: Words) -> tf.RaggedTensor:
        """Returns the ids of the pieces of each word, int32 [W, pieces]."""
        # [W, characters]
        characters = tf.RaggedTensor.from_row_splits(words.characters, words.splits, validate=False)
        texts = tf.strings.unicode_encode(characters, "UTF-8")  # [W]
        # A word that is too long becomes one without pieces; the usual branch copies no words.
        too_long = words.splits[1:] - words.splits[:-1] > self._max_characters
        words_to_match = tf.cond(
            tf.reduce_any(too_long),
            lambda: tf.where(too_long, self._unknown_word, texts),
            lambda: texts,
        )
        pieces = self._tokenizer.tokenize(words_to_match)  # [W, pieces]
        # Special tokens get their ids: each is a word of one private character, so one piece.
        if not self._keep_special_tokens:
            return pieces
        first = tf.gather(words.characters, words.splits[:-1])  # [W]
        special = tf.where(first >= unicode_table.FIRST_SPECIAL)  # [special words, 1]
        ids = tf.gather(
            self._special_ids, tf.gather_nd(first, special) - unicode_table.FIRST_SPECIAL
        )
        # the first piece of each, [special words, 1]
        targets = tf.gather(pieces.row_splits, special)
        return pieces.with_values(tf.tensor_scatter_nd_update(pieces.values, targets, ids))

    def lengths(self, words: Words, pieces: tf.RaggedTensor) -> tf.Tensor:
        """Returns how many characters each piece stands for, int64 [pieces of all words]."""
        lengths = tf.gather(self._lengths, pieces.values)  # [pieces of all words]
        # [UNK] stands for its whole word, however long: [W] -> [pieces of all words].
        word_lengths = tf.gather(words.splits[1:] - words.splits[:-1], pieces.value_rowids())
        return tf.where(tf.equal(lengths, _WHOLE_WORD), word_lengths, lengths)


def fast_wordpiece_tokenizer(
    tokens: list[str], max_bytes_per_word: int, splits_words: bool
) -> tf_text.FastWordpieceTokenizer:
    """Makes tf.text's tokenizer; that of the same tokens a second time is free.

    Args:
        tokens: the vocabulary, as `matchable_tokens` gives it.
        max_bytes_per_word: a longer word is [UNK].
        splits_words: split texts into words at spaces and punctuation; otherwise each is a word.
    """
    return _tokenizer(tuple(tokens), max_bytes_per_word, splits_words)


@shared
def _tokenizer(
    tokens: tuple[str, ...], max_bytes_per_word: int, splits_words: bool
) -> tf_text.FastWordpieceTokenizer:
    return tf_text.FastWordpieceTokenizer(
        list(tokens),
        max_bytes_per_word=max_bytes_per_word,
        unknown_token=UNKNOWN,
        no_pretokenization=not splits_words,
        token_out_type=tf.int32,
    )


def matchable_tokens(vocabulary: Vocabulary) -> list[str]:
    """Replaces the pieces that no word can hold, because tf.text gives some a meaning ("##").

    Raises:
        ValueError: a piece is longer than 255 bytes, or no piece is one of a word.
    """
    found = []
    some = False
    for index, token in enumerate(vocabulary.tokens):
        body = token.removeprefix(CONTINUATION_PREFIX)
        if len(body.encode()) > _MAX_BYTES_PER_PIECE:
            raise ValueError(
                f"the vocabulary's piece {token[:20]!r}... takes {len(body.encode())} bytes, but a "
                f"piece can have {_MAX_BYTES_PER_PIECE} at most: shorten it"
            )
        letters = len(body) > 1 and all(map(unicode_table.is_letter, body))
        if index == vocabulary.unk_id:
            found.append(UNKNOWN)  # however the vocabulary spells it
            continue
        matchable = len(body) == 1 or letters
        found.append(token if matchable else f"[{index}]")
        some |= matchable
    if not some:
        raise ValueError(
            f"the vocabulary has {len(found)} entries and no piece of a word among them: is the "
            "file cut short?"
        )
    return found


def _lengths(vocabulary: Vocabulary) -> np.ndarray:
    lengths = [len(token.removeprefix(CONTINUATION_PREFIX)) for token in vocabulary.tokens]
    for index in vocabulary.special_ids:
        lengths[index] = _WHOLE_WORD
    return np.array(lengths, np.int64)
