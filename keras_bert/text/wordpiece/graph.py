"""From strings to the ids of word pieces: the graphs that equal tokenizers share.

    strings [N] --PlainText.matches--> plain? --yes--> PlainText: words and pieces in one op
                                         |no
                                     Normalizer --> find_words --> WordPiece
                                     characters     words          pieces

Both ways give the same ids; the second is also the one that knows where pieces come from. Between
its stages everything is flat: one list of characters for the batch and row splits beside it, which
say where each text (and each word) begins and ends. "Ab c!" "d", lower-cased:

    characters  a b c ! d        word splits  0 2 3 4 5        text splits  0 3 4

Shapes: N texts, T normalized characters, K characters of words, W words, all of all texts.
"""

import tensorflow as tf

from keras_bert.text.base_tokenizer import Pieces, shared, traced
from keras_bert.text.spelled_tokens import SpelledToken, check_spellings
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece.longest_match import WordPiece, matchable_tokens, unicode_table
from keras_bert.text.wordpiece.normalization import Normalizer
from keras_bert.text.wordpiece.plain_text import PlainText
from keras_bert.text.wordpiece.settings import Settings
from keras_bert.text.wordpiece.words import Words, find_words


class WordPieceGraph(tf.Module):
    """What a `BertTokenizer` computes, traced once for all that are equal.

    Args:
        vocabulary: the word pieces and their ids.
        settings: how texts are treated.

    Attributes:
        pieces: string [N] -> ids, int32 [N, pieces].
        pieces_with_offsets: string [N] -> ids, start, end, each int32 [N, pieces].

    Raises:
        ValueError: a piece of the vocabulary is longer than 255 bytes, or none is one of a word.
    """

    def __init__(self, vocabulary: Vocabulary, settings: Settings):
        super().__init__(name="wordpiece_graph")
        lowercase, strip_accents, split_cjk, keep_special_tokens, max_characters = settings
        tables = unicode_table.normalization_tables(
            lowercase, lowercase if strip_accents is None else strip_accents, split_cjk
        )
        tokens = matchable_tokens(vocabulary)
        special_tokens = vocabulary.special_tokens if keep_special_tokens else ()
        check_spellings([SpelledToken(token) for token in special_tokens])
        first = "".join({token[0] for token in special_tokens})  # "[", of MPNet "<" as well
        self._plain_text = PlainText(tokens, lowercase, tables, first, max_characters)
        self._normalizer = Normalizer(tables, special_tokens)
        self._wordpiece = WordPiece(vocabulary, tokens, keep_special_tokens, max_characters)
        self.pieces = traced(self._pieces)
        self.pieces_with_offsets = traced(self._pieces_with_offsets)

    def _pieces(self, texts: tf.Tensor) -> tf.RaggedTensor:
        plain = self._plain_text.matches(texts)  # bool [N]

        def mixed() -> tf.RaggedTensor:
            fast = self._plain_text(tf.boolean_mask(texts, plain))  # [plain texts, pieces]
            # W words of the other texts
            words = find_words(self._normalizer(tf.boolean_mask(texts, ~plain)))
            both = tf.concat([fast, _per_text(words, self._wordpiece(words))], axis=0)
            # The index of each text in `both`: plain ones first, each kind in its own order.
            # Plain 0 1 1 0: order 1 2 0 3, whose inverse 2 0 1 3 tells where each text went.
            rank = tf.argsort(tf.argsort(tf.cast(~plain, tf.int32), stable=True))
            return tf.gather(both, rank)

        return tf.cond(tf.reduce_all(plain), lambda: self._plain_text(texts), mixed)

    def _pieces_with_offsets(self, texts: tf.Tensor) -> Pieces:
        normalized = self._normalizer(texts, with_sources=True)
        sources = normalized.sources
        assert sources is not None
        words = find_words(normalized)
        pieces = self._wordpiece(words)  # [W, pieces]
        ids = _per_text(words, pieces)  # [N, pieces]
        # The pieces tile the words: counting their characters leads from one to the next.
        # [pieces of all texts]: 4 3 for play ##ing
        lengths = self._wordpiece.lengths(words, pieces)
        ends = tf.cumsum(lengths)  # 4 7, in the K characters
        starts = tf.gather(words.positions, ends - lengths)  # 0 4, in the T characters
        lasts = tf.gather(words.positions, ends - 1)  # 3 6: the last character of each piece
        # Positions count over the batch; those of a text count from its own start.
        row_starts = tf.gather(sources.row_starts, ids.value_rowids())
        first = tf.gather(sources.first, starts) - row_starts
        end = tf.gather(sources.end, lasts) - row_starts
        return (
            ids,
            ids.with_values(tf.cast(first, tf.int32)),
            ids.with_values(tf.cast(end, tf.int32)),
        )


wordpiece_graph = shared(WordPieceGraph)


def _per_text(words: Words, pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    # Where the words of a text begin and end, and where the pieces of these words do: [N + 1].
    splits = tf.gather(pieces.row_splits, words.row_splits)
    return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)
