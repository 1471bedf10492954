"""The list of word pieces of a model: which string has which id. No TensorFlow here."""

import functools
import hashlib
import os
import re
import string
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from keras_bert.counts import padded_counts
from keras_bert.storage import files
from keras_bert.storage.text_lines import check_listed
from keras_bert.text.byte_level.byte_alphabet import token_bytes
from keras_bert.text.framing import BERT_FRAMING, BERT_TOKENS, Framing, SpecialTokens, between

PAD = "[PAD]"
UNKNOWN = "[UNK]"
CLS = "[CLS]"
SEP = "[SEP]"
MASK = "[MASK]"
SPECIAL_TOKENS = (PAD, UNKNOWN, CLS, SEP, MASK)
CONTINUATION_PREFIX: Literal["##"] = "##"
# A longer word is [UNK]; tokenization.py of google-research/bert: max_input_chars_per_word.
MAX_CHARACTERS_PER_WORD = 200
FILE_NAME = "vocab.txt"
# What tells pieces that begin a word from those that continue one: "##" stands before the latter,
# "Ġ" (a space in byte-level vocabularies) and "▁" (one in SentencePiece's) before the former.
WordMark = Literal["##", "Ġ", "▁"]
BYTE_LEVEL_SPACE: WordMark = "Ġ"
SENTENCEPIECE_SPACE: WordMark = "▁"

# Scripts that put no space between words, so that no "Ġ" or "▁" tells where one begins.
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # ideographs
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d"  # kana
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46"  # letters of Thai, without marks above and below them
    "\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf"  # of Lao
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066"  # of Burmese
    "\u106e-\u1070\u1075-\u1081\u108e"
    "\u1780-\u17b3\u17d7\u17dc]"  # of Khmer
)
# How UTF-8 begins characters of these scripts, for byte-level pieces that hold a part of one.
_UNSPACED_BYTES = (
    *(bytes([lead]) for lead in range(0xE3, 0xEA)),  # U+3000 to U+9FFF
    *(bytes([0xE0, second]) for second in range(0xB8, 0xBC)),  # Thai and Lao
    *(bytes([0xE1, second]) for second in (0x80, 0x81, 0x82, 0x9E, 0x9F)),  # Burmese and Khmer
    *(bytes([0xF0, second]) for second in range(0xA0, 0xC0)),  # U+20000 to U+3FFFF
)

# Multilingual-MiniLM has 35 rows without a piece, dbmdz's Italian BERT 1,000.
_MOST_UNUSED = 1024
UNUSED_SLOT = re.compile(r"\[unused\d+\]")


class Vocabulary:
    """An immutable list of distinct pieces; the id of a piece is its index in the list.

    It also knows what a family of models means by its pieces: which of them are special tokens, in
    what role, which begin a word, and how rows of one text or two are framed.

    Args:
        tokens: the pieces in the order of their ids.
        special_tokens: the special tokens by role; BERT's are [PAD], [UNK], [CLS], [SEP], [MASK].
        word_mark: "##" before pieces that continue a word (WordPiece); "Ġ" or "▁" before pieces
            that begin one (byte-level BPE, SentencePiece).
        framing: how rows are made.

    Raises:
        ValueError: an entry appears twice, or a special token is missing; with "##" also where one
            is blank or cannot be stored on one line of vocab.txt.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
        >>> vocabulary.id_of("##ing")
        6
    """

    def __init__(
        self,
        tokens: Sequence[str],
        special_tokens: SpecialTokens = BERT_TOKENS,
        word_mark: WordMark = CONTINUATION_PREFIX,
        framing: Framing = BERT_FRAMING,
    ):
        if word_mark not in get_args(WordMark):
            raise ValueError(
                f"word_mark is {word_mark!r}: it must be one of {', '.join(get_args(WordMark))}"
            )
        check_listed(tokens, "tokens", "the list of all pieces")
        self._tokens = tuple(tokens)
        self.special_tokens = SpecialTokens(*special_tokens)
        self.word_mark = word_mark
        self.framing = Framing(*framing)
        _check_tokens(self._tokens, "the vocabulary", self.special_tokens, word_mark)
        self._ids = {token: index for index, token in enumerate(self._tokens)}

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike,
        special_tokens: SpecialTokens = BERT_TOKENS,
        framing: Framing = BERT_FRAMING,
    ) -> "Vocabulary":
        r"""Reads a vocab.txt: one piece a line, UTF-8 with or without a byte order mark.

        Lines end with "\n" and are stripped of white space, as in tokenization.py of
        google-research/bert; "\r\n" is therefore fine. A piece that is nothing but white space of
        another kind, as U+2028 in Google's Chinese vocabulary, stays: it is found in no text.

        Args:
            path: the file.
            special_tokens: by role.
            framing: how rows are made.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is not UTF-8 or its lines are not a vocabulary; names the line.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"there is no vocabulary at {path}: pass the path of a {FILE_NAME}"
            )
        content = path.read_bytes()
        try:
            lines = content.decode("utf-8-sig").split("\n")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise ValueError(
                f"{path}, line {line} is not UTF-8 (byte {error.start} of the file): "
                "convert the file to UTF-8"
            ) from None
        if lines[-1] == "":
            lines.pop()  # what follows the last line's end is not a line
        tokens = [piece_of_line(line) for line in lines]
        _check_tokens(tokens, str(path), special_tokens, CONTINUATION_PREFIX)
        return cls(tokens, special_tokens, framing=framing)

    @property
    def tokens(self) -> tuple[str, ...]:
        """All pieces in the order of their ids."""
        return self._tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple:
        return self._tokens, self.special_tokens, self.word_mark, self.framing

    def id_of(self, token: str) -> int:
        """Returns the id of a piece.

        Raises:
            ValueError: the vocabulary has no such piece.
        """
        if token not in self._ids:
            raise ValueError(f"the vocabulary of {len(self)} entries has no entry {token!r}")
        return self._ids[token]

    @property
    def pad_id(self) -> int:
        """Id of [PAD] or <pad>."""
        return self._ids[self.special_tokens.pad]

    @property
    def unk_id(self) -> int:
        """Id of [UNK] or <unk>."""
        return self._ids[self.special_tokens.unk]

    @property
    def cls_id(self) -> int:
        """Id of [CLS] or <s>, which begins a row."""
        return self._ids[self.special_tokens.cls]

    @property
    def sep_id(self) -> int:
        """Id of [SEP] or </s>, which ends a text."""
        return self._ids[self.special_tokens.sep]

    @property
    def between_ids(self) -> tuple[int, ...]:
        """Ids of what stands between two texts of a row."""
        return tuple(map(self.id_of, between(self.framing, self.special_tokens)))

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Ids of what ends a row: that of [SEP] or </s>, or none."""
        return (self.sep_id,) if self.framing.ends else ()

    @property
    def mask_id(self) -> int:
        """Id of [MASK] or <mask>."""
        return self._ids[self.special_tokens.mask]

    @property
    def special_ids(self) -> tuple[int, ...]:
        """Ids of the special tokens in the order pad, unk, cls, sep, mask."""
        return tuple(self._ids[token] for token in self.special_tokens)

    @functools.cached_property
    def continuation_mask(self) -> np.ndarray:
        """Bool [V]: which pieces continue a word, wherever they stand behind another piece.

        Without "##" these are all that have no mark of a space, as in fairseq, but for pieces of
        scripts without spaces, in which a whole sentence would be one word.
        """
        # An added token of spaces, which is spelled with them, begins a word as "Ġ" does.
        marks = (self.word_mark, " ") if self.word_mark == BYTE_LEVEL_SPACE else self.word_mark
        marked = np.array([token.startswith(marks) for token in self._tokens])
        if self.word_mark == CONTINUATION_PREFIX:
            return marked
        marked |= np.array([self._is_unspaced(token) for token in self._tokens])
        marked[list(self.special_ids)] = True
        return ~marked

    def _is_unspaced(self, token: str) -> bool:
        """Whether a piece holds a letter of a script without spaces, or begins with a part of one.

        Of a byte-level vocabulary a piece may be a part of a character: the part that begins it
        counts, the others go on with it.
        """
        own = token_bytes(token) if self.word_mark == BYTE_LEVEL_SPACE else None
        if own is not None:
            try:
                token = own.decode("utf-8")
            except UnicodeDecodeError:
                return own.startswith(_UNSPACED_BYTES)
        return _UNSPACED.search(token) is not None

    def continues_word(self, token: str) -> bool:
        """Whether a piece continues the word of the piece before it, if there is one."""
        return bool(self.continuation_mask[self._ids[token]])

    def spelled(self, token: str) -> str:
        """Returns what a piece says without its mark: "##ing" -> "ing", "Ġthe" -> "the".

        Bytes of a byte-level piece that are no whole character come out as U+FFFD.
        """
        if token in self.special_tokens:
            return token
        body = token.removeprefix(self.word_mark)
        if self.word_mark == BYTE_LEVEL_SPACE:
            own = token_bytes(body)
            return body if own is None else own.decode("utf-8", "replace")
        return body

    @functools.cached_property
    def sha256(self) -> str:
        """SHA-256 of the file that `save` writes, in hexadecimal."""
        return hashlib.sha256(self._file_bytes()).hexdigest()

    def save(self, path: str | os.PathLike) -> None:
        """Writes the pieces to `path`, one a line."""
        with files.atomic_file(path) as temporary:
            temporary.write_bytes(self._file_bytes())

    @property
    def _name(self) -> str:
        return FILE_NAME if self.word_mark == CONTINUATION_PREFIX else "the vocabulary"

    def _file_bytes(self) -> bytes:
        return "".join(f"{token}\n" for token in self._tokens).encode()

    def add_tokens(self, tokens: Iterable[str], kept: Collection[str] = ()) -> "Vocabulary":
        """Returns a vocabulary with further pieces; no existing piece changes its id.

        New pieces take the [unusedN] slots first, in the order of their ids, and are appended
        when there is none left. Pieces that are there already are kept as they are.

        Args:
            tokens: the pieces to add.
            kept: slots that mean something to the model, and are no room for others.

        Raises:
            ValueError: `tokens` is one string, or a piece is none that the vocabulary can hold.
        """
        if isinstance(tokens, str):
            raise ValueError(
                f"tokens is the string {tokens!r}, which would be added letter by letter: give "
                f"[{tokens!r}]"
            )
        check_listed(tokens, "tokens", "a list of pieces")
        grown = list(self._tokens)
        slots = (
            i
            for i, token in enumerate(self._tokens)
            if UNUSED_SLOT.fullmatch(token) and token not in kept
        )
        for token in dict.fromkeys(tokens):
            if token in self._ids:
                continue
            slot = next(slots, None)
            if slot is None:
                grown.append(token)
            else:
                grown[slot] = token
        return Vocabulary(grown, self.special_tokens, self.word_mark, self.framing)

    def check_size(self, config_vocab_size: int) -> None:
        """Makes sure that the model's embedding table has one row for each piece.

        The rows may be padded to a multiple of 8, 16, ... or 1024, as for faster matrix products.
        Other rows without a piece are told where they are few (at most 1,024 and one for twenty
        pieces), as in Multilingual-MiniLM; more are a sign of another vocabulary.

        Args:
            config_vocab_size: `vocab_size` of the model's config.

        Raises:
            ValueError: there are fewer rows, or many more.
        """
        if config_vocab_size in (len(self), *padded_counts(len(self))):
            return
        sizes = f"{self._name} has {len(self)} entries but config.vocab_size is {config_vocab_size}"
        unused = config_vocab_size - len(self)
        if not 0 < unused <= min(_MOST_UNUSED, len(self) // 20):
            raise ValueError(f"{sizes}: pass the vocabulary the checkpoint was trained with")
        _tell(
            f"{sizes}: {unused} rows have no piece; make sure that it is the vocabulary the "
            "checkpoint was trained with"
        )


def piece_of_line(line: str) -> str:
    """Returns the piece that a line of a vocab.txt holds: see `Vocabulary.from_file`."""
    return line.strip() or line.strip(string.whitespace)


@functools.cache  # a folder is often opened more than once
def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _check_tokens(
    tokens: Sequence[str], source: str, special_tokens: SpecialTokens, word_mark: WordMark
) -> None:
    # Other vocabularies are no files of lines, and may hold what a line cannot.
    in_lines = word_mark == CONTINUATION_PREFIX
    first_line: dict[str, int] = {}
    for line, token in enumerate(tokens, start=1):
        if in_lines and not token:
            raise ValueError(f"{source}: line {line} is blank; every line must hold one piece")
        if token in first_line:
            raise ValueError(
                f"{source}: {token!r} is on line {first_line[token]} and again on line {line}; "
                "every piece must be there once"
            )
        if in_lines and (token != piece_of_line(token) or "\n" in token):
            raise ValueError(
                f"{source}: {token!r} (line {line}) begins or ends with white space or spans "
                "lines, which a file of one piece a line cannot hold; remove the white space"
            )
        first_line[token] = line
    missing = [token for token in special_tokens if token not in first_line]
    if missing:
        raise ValueError(
            f"{source} ({len(tokens)} entries) lacks the special tokens {', '.join(missing)}: "
            "add a line for each of them"
        )
