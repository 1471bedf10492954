"""What stands in a vocabulary: kinds of entries, scripts, lengths, what no text produces."""

import collections
import functools
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keras_bert.text.vocabulary import CONTINUATION_PREFIX, UNUSED_SLOT, Vocabulary
from keras_bert.text.wordpiece.normalized_characters import CharacterForms
from keras_bert.text.wordpiece.settings import Settings

SPECIAL = "special tokens"
UNUSED = "[unused] slots"
WORDS = "words and beginnings"
CHARACTERS = "single characters"
CONTINUATIONS = "continuations (##)"
CONTINUED_CHARACTERS = "continuations of one character (##)"
KINDS = (WORDS, CONTINUATIONS, CHARACTERS, CONTINUED_CHARACTERS, SPECIAL, UNUSED)

NORMALIZED = "the tokenizer writes it otherwise"
SPLIT = "the tokenizer splits it"
SPACE = "it holds white space"
LONG = "it is longer than {} characters"
EMPTY = "nothing stands behind its ##"

MIXED, DIGITS, SIGNS = "several scripts", "digits", "punctuation and symbols"
# First words of Unicode names that are no script: what is told of the letter in place of them.
_WIDTHS = ("FULLWIDTH", "HALFWIDTH")
_SCRIPTS_OF_NAMES = {
    "CJK": "Han",
    "COMBINING": "combining marks",
    "MODIFIER": "modifier letters",
    "MATHEMATICAL": "mathematical letters",
    "SCRIPT": "mathematical letters",
    "DOUBLE": "mathematical letters",
    "BLACK": "mathematical letters",
    "SUPERSCRIPT": "Latin",
    "SUBSCRIPT": "Latin",
    "FEMININE": "Latin",
    "MASCULINE": "Latin",
    "MICRO": "Greek",
    "IDEOGRAPHIC": "Han",
    "KANGXI": "Han",
}


class Unreachable(NamedTuple):
    """An entry that no text produces.

    Attributes:
        token: the entry.
        reason: why.
        becomes: what the tokenizer makes of it, words separated by spaces.
    """

    token: str
    reason: str
    becomes: str


class VocabularyContents(NamedTuple):
    """What stands in a vocabulary.

    Attributes:
        kinds: how many entries are of each kind, in the order of `KINDS`.
        scripts: how many entries (special tokens and slots left out) are of each script, the
            commonest first.
        lengths: how many words and beginnings (special tokens and slots left out) have so many
            characters.
        continuation_lengths: the same of continuations, without "##".
        longest: the longest entries, special tokens and slots left out.
        unreachable: entries that no text produces, in the order of their ids. Special tokens and
            slots are not among them: no text shall.
    """

    kinds: Mapping[str, int]
    scripts: Mapping[str, int]
    lengths: Mapping[int, int]
    continuation_lengths: Mapping[int, int]
    longest: tuple[str, ...]
    unreachable: tuple[Unreachable, ...]


def describe_vocabulary(
    vocabulary: Vocabulary, settings: Settings, longest: int = 40
) -> VocabularyContents:
    """Sorts the entries of a vocabulary by kind, script and length, and finds dead ones.

    Args:
        vocabulary: the entries.
        settings: how the tokenizer treats text; decides what it can produce.
        longest: how many of the longest entries to name.
    """
    special = vocabulary.special_tokens
    kind_of_tokens = {token: kind_of(token, special) for token in vocabulary.tokens}
    kinds = collections.Counter(kind_of_tokens.values())
    entries = [t for t, kind in kind_of_tokens.items() if kind not in (SPECIAL, UNUSED)]
    bodies = {token: token.removeprefix(CONTINUATION_PREFIX) for token in entries}
    lengths: collections.Counter[int] = collections.Counter()
    continuation_lengths: collections.Counter[int] = collections.Counter()
    for token, body in bodies.items():
        counted = lengths if token == body else continuation_lengths
        counted[len(body)] += 1
    forms, limit = CharacterForms(settings), settings.max_input_chars_per_word
    return VocabularyContents(
        kinds={kind: kinds[kind] for kind in KINDS},
        scripts=dict(collections.Counter(map(script_of, bodies.values())).most_common()),
        lengths=dict(sorted(lengths.items())),
        continuation_lengths=dict(sorted(continuation_lengths.items())),
        longest=tuple(sorted(entries, key=lambda token: -len(bodies[token]))[:longest]),
        unreachable=tuple(
            found for token in entries if (found := _unreachable(token, forms, limit)) is not None
        ),
    )


def kind_of(token: str, special_tokens: Sequence[str]) -> str:
    """Returns the kind of an entry, one of `KINDS`."""
    if token in special_tokens:
        return SPECIAL
    if UNUSED_SLOT.fullmatch(token):
        return UNUSED
    if token.startswith(CONTINUATION_PREFIX) and token != CONTINUATION_PREFIX:
        return CONTINUATIONS if len(token) > 3 else CONTINUED_CHARACTERS
    return WORDS if len(token) > 1 else CHARACTERS


def script_of(body: str) -> str:
    """Returns the script of the letters of an entry without its "##".

    It is the first word of the letters' Unicode names ("LATIN SMALL LETTER A"); entries without
    letters are digits, or punctuation and symbols.
    """
    scripts = {_script(character) for character in body}
    # An accent, a digit or a sign belongs to the letters beside it, a sign to the digits.
    others = (_SCRIPTS_OF_NAMES["COMBINING"], DIGITS, SIGNS)
    letters = scripts.difference(others)
    if letters:
        return letters.pop() if len(letters) == 1 else MIXED
    return next((other for other in others if other in scripts), SIGNS)


@functools.cache
def _script(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] == "N":
        return DIGITS
    if category[0] not in "LM":
        return SIGNS
    first, *rest = unicodedata.name(character, "UNNAMED").replace("-", " ").split()
    if first in _WIDTHS and rest:
        first = rest[0]
    return _SCRIPTS_OF_NAMES.get(first, first.capitalize())


def _unreachable(token: str, forms: CharacterForms, max_characters: int) -> Unreachable | None:
    """Returns why no text produces an entry; None where one may.

    What the tokenizer writes it writes so again: an entry that it changes is never written.
    """
    body = token.removeprefix(CONTINUATION_PREFIX)
    words = forms.normalized(body).split()
    becomes = " ".join(words)
    if not body:
        reason = EMPTY
    elif any(character.isspace() for character in body):
        reason = SPACE
    elif len(body) > max_characters:
        reason = LONG.format(max_characters)
    elif len(words) > 1 or (token != body and forms.normalized(body) != body == becomes):
        reason = SPLIT  # "a.b"; or a sign that is a word by itself, so that nothing continues in it
    elif becomes != body:
        reason = NORMALIZED
    else:
        return None
    return Unreachable(token, reason, becomes)
