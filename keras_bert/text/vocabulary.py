"""The list of word pieces of a model: which string has which id. No TensorFlow here."""

import functools
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from keras_bert.storage import files

PAD = "[PAD]"
UNKNOWN = "[UNK]"
CLS = "[CLS]"
SEP = "[SEP]"
MASK = "[MASK]"
SPECIAL_TOKENS = (PAD, UNKNOWN, CLS, SEP, MASK)
CONTINUATION_PREFIX = "##"
# A longer word is [UNK]; tokenization.py of google-research/bert: max_input_chars_per_word.
MAX_CHARACTERS_PER_WORD = 200
FILE_NAME = "vocab.txt"

# NVIDIA pads to multiples of 8, others to 64 or 128, Megatron to 128 for each of its GPUs.
_PADDED_TO = (8, 16, 32, 64, 128, 256, 512, 1024)
_UNUSED_SLOT = re.compile(r"\[unused\d+\]")


class Vocabulary:
    """An immutable list of distinct word pieces; the id of a piece is its index in the list.

    Args:
        tokens: the pieces in the order of their ids. Pieces that continue a word start with "##".

    Raises:
        ValueError: an entry is blank, appears twice or cannot be stored on one line of vocab.txt,
            or one of [PAD], [UNK], [CLS], [SEP], [MASK] is missing.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
        >>> vocabulary.id_of("##ing")
        6
    """

    def __init__(self, tokens: Sequence[str]):
        self._tokens = tuple(tokens)
        _check_tokens(self._tokens, "the vocabulary")
        self._ids = {token: index for index, token in enumerate(self._tokens)}

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> "Vocabulary":
        r"""Reads a vocab.txt: one piece a line, UTF-8.

        Lines end with "\n" and are stripped of white space, as in tokenization.py of
        google-research/bert; "\r\n" is therefore fine.

        Args:
            path: the file.

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
            lines = content.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise ValueError(
                f"{path}, line {line} is not UTF-8 (byte {error.start} of the file): "
                "convert the file to UTF-8"
            ) from None
        if lines[-1] == "":
            lines.pop()  # what follows the last line's end is not a line
        tokens = [line.strip() for line in lines]
        _check_tokens(tokens, str(path))
        return cls(tokens)

    @property
    def tokens(self) -> tuple[str, ...]:
        """All pieces in the order of their ids."""
        return self._tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._tokens == other._tokens

    def __hash__(self) -> int:
        return hash(self._tokens)

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
        """Id of [PAD]."""
        return self._ids[PAD]

    @property
    def unk_id(self) -> int:
        """Id of [UNK]."""
        return self._ids[UNKNOWN]

    @property
    def cls_id(self) -> int:
        """Id of [CLS]."""
        return self._ids[CLS]

    @property
    def sep_id(self) -> int:
        """Id of [SEP]."""
        return self._ids[SEP]

    @property
    def mask_id(self) -> int:
        """Id of [MASK]."""
        return self._ids[MASK]

    @property
    def special_ids(self) -> tuple[int, ...]:
        """Ids of [PAD], [UNK], [CLS], [SEP], [MASK], in this order."""
        return tuple(self._ids[token] for token in SPECIAL_TOKENS)

    @functools.cached_property
    def continuation_mask(self) -> np.ndarray:
        """Bool [V]: which pieces continue a word (start with "##")."""
        return np.array([token.startswith(CONTINUATION_PREFIX) for token in self._tokens])

    @functools.cached_property
    def sha256(self) -> str:
        """SHA-256 of the file that `save` writes, in hexadecimal."""
        return hashlib.sha256(self._file_bytes()).hexdigest()

    def save(self, path: str | os.PathLike) -> None:
        """Writes the pieces to `path`, one a line."""
        with files.atomic_file(path) as temporary:
            temporary.write_bytes(self._file_bytes())

    def _file_bytes(self) -> bytes:
        return "".join(f"{token}\n" for token in self._tokens).encode()

    def add_tokens(self, tokens: Iterable[str]) -> "Vocabulary":
        """Returns a vocabulary with further pieces; no existing piece changes its id.

        New pieces take the [unusedN] slots first, in the order of their ids, and are appended
        when there is none left. Pieces that are there already are kept as they are.

        Args:
            tokens: the pieces to add.
        """
        grown = list(self._tokens)
        slots = (i for i, token in enumerate(self._tokens) if _UNUSED_SLOT.fullmatch(token))
        for token in dict.fromkeys(tokens):
            if token in self._ids:
                continue
            slot = next(slots, None)
            if slot is None:
                grown.append(token)
            else:
                grown[slot] = token
        return Vocabulary(grown)

    def check_size(self, config_vocab_size: int) -> None:
        """Makes sure that the model's embedding table has one row for each piece.

        The rows may be padded to a multiple of 8, 16, ... or 1024, as for faster matrix products;
        any other number of rows is a sign of another vocabulary.

        Args:
            config_vocab_size: `vocab_size` of the model's config.

        Raises:
            ValueError: there is another number of rows.
        """
        padded = {-len(self) // multiple * -multiple for multiple in _PADDED_TO}
        if config_vocab_size not in (len(self), *padded):
            raise ValueError(
                f"{FILE_NAME} has {len(self)} entries but config.vocab_size is "
                f"{config_vocab_size}: pass the vocabulary the checkpoint was trained with"
            )


def _check_tokens(tokens: Sequence[str], source: str) -> None:
    first_line: dict[str, int] = {}
    for line, token in enumerate(tokens, start=1):
        if not token:
            raise ValueError(f"{source}: line {line} is blank; every line must hold one piece")
        if token in first_line:
            raise ValueError(
                f"{source}: {token!r} is on line {first_line[token]} and again on line {line}; "
                "every piece must be there once"
            )
        if token != token.strip() or "\n" in token:
            raise ValueError(
                f"{source}: {token!r} (line {line}) begins or ends with white space or spans "
                "lines, which a file of one piece a line cannot hold; remove the white space"
            )
        first_line[token] = line
    missing = [token for token in SPECIAL_TOKENS if token not in first_line]
    if missing:
        raise ValueError(
            f"{source} ({len(tokens)} entries) lacks the special tokens {', '.join(missing)}: "
            "add a line for each of them"
        )
