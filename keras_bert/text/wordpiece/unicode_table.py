"""What happens to each code point on its way to a word, as tables that a graph can look up.

The original tokenization.py cleans a text, sets CJK ideographs apart, splits at white space,
lower-cases, decomposes (NFD), strips accents and splits at punctuation. Character by character all
of this is one function of the code point (capital sigma and the order of marks apart, which depend
on their neighbours), so it is worked out here once, for the settings of one tokenizer.

A *packed* value describes one character of the normalized text: its code point in the low bits and
the flags below. No TensorFlow here.
"""

import dataclasses
import functools
from pathlib import Path

import numpy as np

PATH = Path(__file__).with_name("unicode_table.npz")

# What a character is (array `kind` of the file).
LETTER, REMOVED, SPACE, PUNCTUATION = range(4)
# How str.lower sees a character next to a capital sigma (array `case` of the file).
CASE_IGNORABLE, CASED, CASELESS = range(3)

# Fields of a packed value.
CODE_POINT_BITS = (1 << 21) - 1
IS_SPACE = 1 << 21  # separates words
IS_ALONE = 1 << 22  # a word of its own: punctuation, CJK ideographs, special tokens
IS_CONTEXTUAL = 1 << 23  # its final form depends on its neighbours
COUNT_SHIFT = 24  # how many characters it becomes: 0 to 7
COUNT_BITS = 7 << COUNT_SHIFT
COUNT_ONE = 1 << COUNT_SHIFT
IS_SEQUENCE = 1 << 27  # the low bits are an index into `sequences`
IS_STRIPPED_MARK = 1 << 28  # a combining mark that is dropped

# Fields of a context value.
CASE_BITS = 3
COMBINING_SHIFT = 2
COMBINING_BITS = 255 << COMBINING_SHIFT
STOPS_REORDERING = 1 << 10

CAPITAL_SIGMA, FINAL_SIGMA = 0x3A3, 0x3C2
PAGE_BITS = 8
# Private values above Unicode that stand for special tokens found in the text.
FIRST_SPECIAL = 0x110000

_TABLE_SIZE = FIRST_SPECIAL + (1 << PAGE_BITS)

# What the original counts as punctuation and Unicode does not.
_ASCII_SYMBOLS = "$+<=>^`|~"

# The blocks that the original calls Chinese characters (_is_chinese_char).
_CJK_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@dataclasses.dataclass(frozen=True)
class PagedTable:
    """An int32 value for every code point; equal pages of 256 code points are stored once.

    Attributes:
        pages: int32, where in `entries` the page of a code point begins.
        entries: int32, the pages one after the other.
    """

    pages: np.ndarray
    entries: np.ndarray

    @classmethod
    def from_values(cls, values: np.ndarray) -> "PagedTable":
        """Compresses an int32 array with one value for each code point."""
        pages = values.astype(np.int32).reshape(-1, 1 << PAGE_BITS)
        # 4353 pages of 256 code points, most of them equal to another: 153 are stored when uncased.
        distinct: dict[bytes, int] = {}
        numbers = [distinct.setdefault(page.tobytes(), len(distinct)) for page in pages]
        starts = np.array(numbers, np.int32) << PAGE_BITS  # [pages]
        return cls(starts, np.frombuffer(b"".join(distinct), np.int32))

    def __getitem__(self, code_point: int) -> int:
        """Returns the value of one code point."""
        return int(self.of(code_point))

    def of(self, code_points: int | np.ndarray) -> np.ndarray:
        """Returns the values of code points, int32 of their shape."""
        starts = self.pages[code_points >> PAGE_BITS]
        return self.entries[starts + (code_points & ((1 << PAGE_BITS) - 1))]


@dataclasses.dataclass(frozen=True)
class NormalizationTables:
    """Everything a graph needs to normalize text.

    Attributes:
        lowercase: whether it lower-cases.
        strip_accents: whether it decomposes and drops combining marks.
        offsets: what to add to a code point to get its packed value. (Differences, because most
            code points stay what they are: their pages become equal.)
        contexts: case and combining class of each code point, for the few that need them.
        sequences: int32, packed values of the characters that become more than one.
    """

    lowercase: bool
    strip_accents: bool
    offsets: PagedTable
    contexts: PagedTable
    sequences: np.ndarray


@functools.lru_cache(maxsize=8)
def normalization_tables(
    lowercase: bool, strip_accents: bool, split_cjk: bool
) -> NormalizationTables:
    """Works the tables out for the settings of one tokenizer.

    Args:
        lowercase: lower-case as str.lower does.
        strip_accents: decompose (NFD) and drop combining marks (category Mn).
        split_cjk: every CJK ideograph is a word of its own.
    """
    facts = _facts()
    # Packed values before lower-casing and decomposition.
    packed = np.arange(_TABLE_SIZE) | COUNT_ONE
    packed[facts.kind == REMOVED] &= ~COUNT_BITS
    packed[facts.kind == SPACE] |= IS_SPACE
    packed[facts.kind == PUNCTUATION] |= IS_ALONE
    packed[FIRST_SPECIAL:] |= IS_ALONE
    if split_cjk:
        for first, last in _CJK_RANGES:
            packed[first : last + 1] |= IS_ALONE
    sequences: list[int] = []
    for code_point, characters in _replacements(facts, lowercase, strip_accents).items():
        if facts.kind[code_point] in (LETTER, PUNCTUATION):
            # An ideograph that decomposes to another stays a word of its own.
            is_cjk = any(first <= code_point <= last for first, last in _CJK_RANGES)
            inherited = int(packed[code_point]) & IS_ALONE if is_cjk else 0
            values = [_pack(facts, c, strip_accents) | inherited for c in characters]
            if len(values) > 1:  # a range of `sequences`
                start = len(sequences)
                sequences += values
                values = [start | IS_SEQUENCE | (len(values) << COUNT_SHIFT)]
            packed[code_point] = values[0] if values else 0
    if lowercase:
        packed[CAPITAL_SIGMA] |= IS_CONTEXTUAL
    if strip_accents:
        only_marks = facts.mark & (packed & COUNT_BITS == 0)
        packed[only_marks] |= IS_STRIPPED_MARK
    # Removed characters are gone before the text is lower-cased: nothing sees them.
    case = np.where(facts.kind == REMOVED, CASE_IGNORABLE, facts.case)
    contexts = case | (facts.combining << COMBINING_SHIFT)
    # A mark of class 0 separates the marks around it, although it is stripped itself. (What only
    # decomposes to such a mark keeps another character of class 0, which separates as well.)
    contexts[facts.mark & (facts.combining == 0)] |= STOPS_REORDERING
    contexts[FIRST_SPECIAL:] = CASELESS
    return NormalizationTables(
        lowercase=lowercase,
        strip_accents=strip_accents,
        offsets=PagedTable.from_values(packed - np.arange(_TABLE_SIZE)),
        contexts=PagedTable.from_values(contexts),
        sequences=np.array(sequences or [0], np.int32),
    )


def is_letter(character: str) -> bool:
    """Whether the character can stand inside a word: it neither splits it nor is removed."""
    return bool(_facts().kind[ord(character)] == LETTER)


def is_punctuation(character: str) -> bool:
    """Whether Unicode 14 counts the character as punctuation; "$" and "+" are symbols there."""
    return bool(_facts().kind[ord(character)] == PUNCTUATION) and character not in _ASCII_SYMBOLS


def is_assigned(text: str) -> bool:
    """Whether Unicode 14 knows every character: `str` of a later Python says more of the others."""
    return text.isascii() or bool(_facts().assigned[[ord(c) for c in text]].all())


class _Facts:
    """The shipped arrays, spread out to one value for each code point."""

    def __init__(self):
        with np.load(PATH) as arrays:
            self.kind = _spread(arrays, "kind")
            self.mark = _spread(arrays, "mark").astype(bool)
            self.combining = _spread(arrays, "combining")
            self.case = _spread(arrays, "case")
            self.assigned = _spread(arrays, "assigned").astype(bool)
            self.lower = _dictionary(arrays, "lower")
            self.decomposition = _dictionary(arrays, "decomposition")


@functools.lru_cache(maxsize=1)
def _facts() -> _Facts:
    return _Facts()


def _spread(arrays: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    starts = arrays[f"{name}_starts"]
    lengths = np.diff(starts, append=FIRST_SPECIAL)  # [runs]: values are stored once a run
    values = np.repeat(arrays[f"{name}_values"], lengths).astype(np.int64)
    return np.pad(values, (0, _TABLE_SIZE - FIRST_SPECIAL))


def _dictionary(arrays: np.lib.npyio.NpzFile, name: str) -> dict[int, tuple[int, ...]]:
    values = arrays[f"{name}_values"].tolist()
    ends = np.cumsum(arrays[f"{name}_lengths"].astype(np.int64)).tolist()
    starts = [0, *ends[:-1]]
    keys = arrays[f"{name}_keys"].tolist()
    return {
        key: tuple(values[start:end]) for key, start, end in zip(keys, starts, ends, strict=True)
    }


def _replacements(
    facts: _Facts, lowercase: bool, strip_accents: bool
) -> dict[int, tuple[int, ...]]:
    """Maps each code point that changes to the characters it becomes."""
    lowered = dict(facts.lower) if lowercase else {}
    if not strip_accents:
        return lowered
    marks = np.flatnonzero(facts.mark).tolist()
    changing = {*lowered, *facts.decomposition, *marks}
    # Spacing marks with a combining class stay, but need the flag that `_pack` sets.
    changing.update(np.flatnonzero(facts.combining).tolist())
    replacements = {}
    for code_point in changing:
        characters = lowered.get(code_point, (code_point,))
        decomposed = [d for c in characters for d in facts.decomposition.get(c, (c,))]
        replacements[code_point] = tuple(d for d in decomposed if not facts.mark[d])
    return replacements


def _pack(facts: _Facts, code_point: int, strip_accents: bool) -> int:
    packed = code_point | COUNT_ONE
    if facts.kind[code_point] == PUNCTUATION:
        packed |= IS_ALONE
    if facts.kind[code_point] == SPACE:
        packed |= IS_SPACE
    # Only marks that outlive the stripping (spacing ones) can still stand in the wrong order.
    if strip_accents and facts.combining[code_point]:
        packed |= IS_CONTEXTUAL
    return packed
