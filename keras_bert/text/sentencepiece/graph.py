"""From strings to the ids of a SentencePiece model: the graphs that equal tokenizers share.

    strings [N] --> characters --preparation--> texts [T] --tf.text--> pieces --> ids [N, pieces]

The library of SentencePiece runs behind an op of tf.text, on texts that were prepared character by
character, so that its byte offsets lead back to what the user wrote. T is N, or more where special
tokens that are spelled out divide texts.

Shapes: N texts, K characters of all of them, V pieces.
"""

import hashlib

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.python.ops import sentencepiece_tokenizer

from keras_bert.text.base_tokenizer import Pieces, shared, traced
from keras_bert.text.sentencepiece.files import SentencePieceFiles
from keras_bert.text.sentencepiece.model import read_pieces
from keras_bert.text.sentencepiece.preparation import character_forms
from keras_bert.text.spelled_tokens import (
    FIRST_SPECIAL,
    Characters,
    SpelledToken,
    check_spellings,
    find_spelled_tokens,
    without_spelled_tokens,
)
from keras_bert.text.vocabulary import SENTENCEPIECE_SPACE

_QUOTES = (ord("`"), ord("'"))  # two of them stand for a double one
_DOUBLE_QUOTE = ord('"')


class _SharedModel(tf.saved_model.experimental.TrackableResource):
    """The model as a resource that has a name, and so lives as long as the process.

    That of tf.text belongs to a kernel in a cache, which `keras.utils.set_random_seed` clears: the
    tokenizer would lose its model.
    """

    def __init__(self, model: bytes):
        super().__init__()
        self._model = model
        # Equal models share one; others never meet it, in a server of several models neither.
        self._name = f"sentencepiece_{hashlib.sha256(model).hexdigest()}"
        _ = self.resource_handle  # creates it

    def _create_resource(self) -> tf.Tensor:
        operations = sentencepiece_tokenizer.gen_sentencepiece_tokenizer
        return operations.sentencepiece_op(model=self._model, shared_name=self._name)


class SentencePieceGraph(tf.Module):
    """What a `SentencePieceTokenizer` computes, traced once for all that are equal.

    Args:
        files: the model, and how texts are treated.

    Attributes:
        pieces: string [N] -> ids, int32 [N, pieces].
        pieces_with_offsets: string [N] -> ids, start, end, each int32 [N, pieces].
        model: tf.text's tokenizer.
        model_pieces: int32 [V], the piece of the model of each id.
        special_ids: int32, ids of the special tokens.

    Raises:
        ValueError: a special token cannot be found in texts, see `check_spellings`.
    """

    def __init__(self, files: SentencePieceFiles):
        super().__init__(name="sentencepiece_graph")
        self._settings = files.settings
        vocabulary = files.vocabulary
        self._special_tokens = []
        if self._settings.keep_special_tokens:
            mask = vocabulary.special_tokens.mask if self._settings.mask_strips_left else None
            self._special_tokens = [SpelledToken(t, t == mask) for t in vocabulary.special_tokens]
            check_spellings(self._special_tokens)
        with tf.init_scope():
            self.model = tf_text.SentencepieceTokenizer(files.model, out_type=tf.int32)
            self.model._model_resource = _SharedModel(files.model)
            self._ids = tf.constant(files.ids_of_pieces(), tf.int32)
            self.model_pieces = tf.constant(files.pieces_of_ids(), tf.int32)
            blank = [piece == SENTENCEPIECE_SPACE for piece in read_pieces(files.model)]
            self._is_blank = tf.constant(blank)
            # What becomes of characters that change; never empty.
            forms = {-1: ""} | character_forms(
                self._settings.lowercase, self._settings.keep_accents
            )
            changed = sorted(forms)
            self._changed = tf.constant(changed, tf.int32)
            self._forms = tf.constant([forms[c].encode("utf-8", "replace") for c in changed])
            self.special_ids = tf.constant(vocabulary.special_ids, tf.int32)
        self.pieces = traced(self._ids_of)
        self.pieces_with_offsets = traced(self._ids_with_offsets)

    def _ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._ids_with_offsets(texts)[0]

    def _ids_with_offsets(self, texts: tf.Tensor) -> Pieces:
        # 1. Characters, special tokens among them as one each.
        decoded = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")  # [N, code points]
        characters = without_spelled_tokens(decoded)
        if self._special_tokens:
            is_space = _is_white_space(decoded.values)
            characters = find_spelled_tokens(characters, self._special_tokens, is_space)
        prepared, characters = self._prepared(characters)  # string [K], what each becomes
        # 2. Stretches: texts, divided at special tokens, which are stretches of their own.
        code_points, rows, first, end = characters
        size = tf.size(rows, tf.int64)
        is_special = code_points >= FIRST_SPECIAL
        begins = tf.concat([[True], tf.not_equal(rows[1:], rows[:-1])], axis=0)[: tf.size(rows)]
        begins |= is_special | tf.concat([[False], is_special], axis=0)[: tf.size(rows)]
        starts = tf.where(begins)[:, 0]  # [T]
        splits = tf.concat([starts, [size]], axis=0)
        stretches = tf.strings.reduce_join(
            tf.RaggedTensor.from_row_splits(prepared, splits, validate=False), axis=-1
        )
        # 3. Pieces, and where they lie in the bytes of their stretch; a special token is one piece.
        pieces, begin, stop = self.model.tokenize_with_offsets(stretches)
        ids = tf.gather(self._ids, pieces)  # [T, pieces]
        sizes = tf.cast(tf.strings.length(prepared), tf.int64)  # [K], bytes
        edges = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(sizes)], axis=0)  # [K + 1]
        character = tf.repeat(tf.range(tf.size(sizes, tf.int64)), sizes)  # of each byte
        stretch = ids.value_rowids()
        offset = tf.gather(tf.gather(edges, splits), stretch)
        last_byte = tf.maximum(tf.size(character, tf.int64) - 1, 0)
        character = tf.concat([character, [0]], axis=0)
        begin, stop = (tf.cast(part.values, tf.int64) + offset for part in (begin, stop))
        lowest, highest = tf.gather(splits, stretch), tf.gather(splits, stretch + 1) - 1
        left = tf.clip_by_value(tf.gather(character, tf.minimum(begin, last_byte)), lowest, highest)
        right = tf.gather(character, tf.clip_by_value(stop - 1, 0, last_byte))
        right = tf.clip_by_value(right, left, highest)
        # The white space before a word is no part of it, and a piece of it alone is empty.
        white = _is_white_space(code_points)
        solid = tf.where(~white)[:, 0]
        before = tf.cumsum(tf.cast(~white, tf.int64), exclusive=True)
        following = tf.gather(tf.concat([solid, [size]], axis=0), before)  # [K]
        solid_left = tf.gather(following, left)
        is_empty = (solid_left > right) | tf.gather(self._is_blank, pieces.values)
        end_at = tf.gather(end, right)
        start_at = tf.where(is_empty, end_at, tf.gather(first, tf.minimum(solid_left, right)))
        # A blank before the first word was put there; behind others it stands for white space.
        begins_text = tf.equal(begin, stop) & is_empty
        end_at = tf.where(begins_text, tf.gather(first, left), end_at)
        start_at = tf.where(begins_text, end_at, start_at)
        origin = tf.gather(decoded.row_starts(), tf.gather(rows, lowest))
        values = [ids.values, start_at - origin, end_at - origin]
        if self._special_tokens:
            return self._with_special(decoded, characters, starts, ids, values)
        text_of = tf.gather(rows, lowest)
        splits = tf.searchsorted(text_of, tf.range(decoded.nrows() + 1), out_type=tf.int64)
        return _ragged(values, splits)

    def _with_special(
        self,
        decoded: tf.RaggedTensor,
        characters: Characters,
        starts: tf.Tensor,
        ids: tf.RaggedTensor,
        values: list[tf.Tensor],
    ) -> Pieces:
        """Puts the special tokens in their places among the pieces."""
        code_points, rows, first, end = characters
        number = tf.gather(code_points, starts) - FIRST_SPECIAL  # [T]
        places = tf.boolean_mask(tf.range(tf.size(number, tf.int64)), number >= 0)
        at = tf.gather(starts, places)
        origin = tf.gather(decoded.row_starts(), tf.gather(rows, at))
        # A mask that took white space along still begins where it is spelled.
        lengths = [len(token.text) for token in self._special_tokens]
        own = tf.gather(tf.constant(lengths, tf.int64), tf.gather(number, places))
        special = [
            tf.gather(self.special_ids, tf.gather(number, places)),
            tf.gather(end, at) - own - origin,
            tf.gather(end, at) - origin,
        ]
        # In the order of stretches: what a special stretch gave without its spelling is nothing.
        stretch = tf.concat([ids.value_rowids(), places], axis=0)
        order = tf.argsort(stretch, stable=True)
        values = [
            tf.gather(tf.concat([own, tf.cast(more, own.dtype)], axis=0), order)
            for own, more in zip(values, special, strict=True)
        ]
        text_of = tf.gather(rows, tf.gather(starts, tf.gather(stretch, order)))
        splits = tf.searchsorted(text_of, tf.range(decoded.nrows() + 1), out_type=tf.int64)
        return _ragged(values, splits)

    def _prepared(self, characters: Characters) -> tuple[tf.Tensor, Characters]:
        """Returns what becomes of each character, string [K]; nothing of special tokens.

        And the characters; of two quotes the first one stands for both.
        """
        code_points = characters.code_points
        second = tf.zeros_like(code_points, tf.bool)
        if self._settings.scheme == "albert":
            # Two quotes in a row, from the left: ''' is " and '.
            same = tf.equal(code_points[1:], code_points[:-1])
            same &= tf.equal(characters.rows[1:], characters.rows[:-1])
            same &= tf.reduce_any(tf.equal(code_points[1:, None], _QUOTES), axis=1)
            same = tf.concat([same, [False]], axis=0)[: tf.size(code_points)]
            begins = same & ~tf.concat([[False], same], axis=0)[: tf.size(same)]
            index = tf.range(tf.size(same))
            run = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32)) - 1, 0)
            run_starts = tf.pad(tf.boolean_mask(index, begins), [[0, 1]])
            pair = same & tf.equal((index - tf.gather(run_starts, run)) % 2, 0)
            second = tf.concat([[False], pair], axis=0)[: tf.size(pair)]
            code_points = tf.where(pair, _DOUBLE_QUOTE, code_points)
            characters = characters._replace(end=characters.end + tf.cast(pair, tf.int64))
        # Character by character, and each different one once.
        distinct, index = tf.unique(code_points)
        texts = tf.strings.unicode_encode(distinct[:, None], "UTF-8")
        place = tf.minimum(tf.searchsorted(self._changed, distinct), tf.size(self._changed) - 1)
        changes = tf.equal(tf.gather(self._changed, place), distinct)
        texts = tf.where(changes, tf.gather(self._forms, place), texts)
        texts = tf.where(distinct >= FIRST_SPECIAL, "", texts)
        return tf.where(second, "", tf.gather(texts, index)), characters


sentencepiece_graph = shared(SentencePieceGraph)


def _ragged(values: list[tf.Tensor], splits: tf.Tensor) -> Pieces:
    ids, starts, ends = (
        tf.RaggedTensor.from_row_splits(tf.cast(part, tf.int32), splits, validate=False)
        for part in values
    )
    return ids, starts, ends


def _is_white_space(code_points: tf.Tensor) -> tf.Tensor:
    table = np.zeros(0x3001, bool)
    table[[*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)]] = True
    table[[0x2028, 0x2029, 0x202F, 0x205F, 0x3000]] = True
    inside = code_points < len(table)
    return inside & tf.gather(tf.constant(table), tf.where(inside, code_points, 0))
