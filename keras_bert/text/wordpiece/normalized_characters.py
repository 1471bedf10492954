"""Normalizes strings in plain Python as `normalization` does batches in the graph: the same tables.

No TensorFlow here.
"""

from collections.abc import Iterator

from keras_bert.text.wordpiece import unicode_table as table
from keras_bert.text.wordpiece.settings import Settings


class CharacterForms(dict[int, str]):
    """What each code point becomes, with spaces around words of one character.

    A table for `str.translate` that is filled as it is used.

    Args:
        settings: how text is treated.
    """

    def __init__(self, settings: Settings):
        super().__init__()
        accents = settings.lowercase if settings.strip_accents is None else settings.strip_accents
        self._tables = table.normalization_tables(settings.lowercase, accents, settings.split_cjk)

    def normalized(self, text: str) -> str:
        """Returns the words of a text with white space between them."""
        try:
            return text.translate(self)
        except _NeedsContextError:
            return "".join(map(_form, self._in_context(text)))

    def solid_counts(self, text: str) -> list[int]:
        """Returns how many characters that are not white space each character becomes."""
        return [
            sum(not packed & table.IS_SPACE for packed in self._packed(ord(character)))
            for character in text
        ]

    def __missing__(self, code_point: int) -> str:
        packed = list(self._packed(code_point))
        # Not kept: what it becomes differs from text to text.
        if any(value & table.IS_CONTEXTUAL for value in packed):
            raise _NeedsContextError
        self[code_point] = "".join(map(_form, packed))
        return self[code_point]

    def _packed(self, code_point: int) -> Iterator[int]:
        """Yields the characters that a code point becomes."""
        packed = code_point + self._tables.offsets[code_point]
        count = (packed & table.COUNT_BITS) // table.COUNT_ONE
        if packed & table.IS_SEQUENCE:
            start = packed & table.CODE_POINT_BITS
            yield from self._tables.sequences[start : start + count].tolist()
        elif count:
            yield packed

    def _in_context(self, text: str) -> list[int]:
        """Returns the characters of a text whose form depends on their neighbours."""
        code_points = list(map(ord, text))
        contexts = [self._tables.contexts[code_point] for code_point in code_points]
        characters: list[int] = []
        stretches: list[int] = []  # no mark moves from one stretch of the text to another
        stops = 0
        for index, code_point in enumerate(code_points):
            stops += bool(contexts[index] & table.STOPS_REORDERING)
            packed = list(self._packed(code_point))
            if self._tables.lowercase and code_point == table.CAPITAL_SIGMA:
                # Whether it ends a word (Unicode 14, table 3-17, Final_Sigma): its neighbours
                # leftwards and rightwards.
                before = _first_solid(contexts, range(index - 1, -1, -1))
                after = _first_solid(contexts, range(index + 1, len(contexts)))
                if before == table.CASED and after != table.CASED:
                    packed = [table.FINAL_SIGMA]
            characters += packed
            stretches += [stops] * len(packed)
        return self._reordered(characters, stretches) if self._tables.strip_accents else characters

    def _reordered(self, characters: list[int], stretches: list[int]) -> list[int]:
        """Sorts runs of marks by combining class (Unicode 14, section 3.11)."""
        classes = [
            self._tables.contexts[character & table.CODE_POINT_BITS] & table.COMBINING_BITS
            for character in characters
        ]
        start, reordered = 0, []
        for end in range(1, len(characters) + 1):
            if (
                end == len(characters)
                or not (classes[end] and classes[end - 1])
                or stretches[end] != stretches[end - 1]
            ):
                run = sorted(range(start, end), key=classes.__getitem__)
                reordered += [characters[index] for index in run]
                start = end
        return reordered


class _NeedsContextError(Exception):
    """A character whose form depends on its neighbours."""


def _form(packed: int) -> str:
    """Returns a normalized character as it stands among words."""
    if packed & table.IS_SPACE:
        return " "
    character = chr(packed & table.CODE_POINT_BITS)
    return f" {character} " if packed & table.IS_ALONE else character


def _first_solid(contexts: list[int], positions: range) -> int:
    """Returns the case of the first character that is not case-ignorable."""
    cases = (contexts[index] & table.CASE_BITS for index in positions)
    return next((case for case in cases if case != table.CASE_IGNORABLE), table.CASELESS)
