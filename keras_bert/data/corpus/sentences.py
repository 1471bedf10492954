"""Splits prose into sentences by rules: European scripts, CJK, and the stops of some others."""

import re
from collections.abc import Iterator

from keras_bert.text.wordpiece.unicode_table import is_assigned

# A "sentence" without an end (a table, a text without punctuation) is cut at this length, so that
# it can be worked on like any other. Prose rarely has sentences of more than 400 pieces.
MAX_SENTENCE_CHARACTERS = 2000

# A stop, the quotes and brackets that close behind it, and the white space after. Ideographic stops
# need no white space. French puts a space before », German opens with it. A run of stops is tried
# as a whole and from its beginning only: a row of dots takes linear, not quadratic time.
_CANDIDATE = re.compile(
    r"""(?<![.!?…])[.!?…]++(?:["'”’)\]]|\s?»(?=\s|$))*\s+"""
    r"""|[。！？｡]+["'”’」』）》)]*\s*"""
    r"""|(?<![।॥؟۔])[।॥؟۔]++["'”’»)\]]*\s+"""
)
_IDEOGRAPHIC_STOPS = "。！？｡"
_OPENING = "\"'“‘„«(-[¿¡—–*_"

# Abbreviations that stand before a name or a number, so that a capital after them says nothing.
# What may well end a sentence ("etc.", "Esq.", "a.m.") is not among them.
_ABBREVIATIONS = frozenset(
    # English
    "mr mrs ms messrs dr prof rev hon capt col gen lt sgt maj cmdr adm gov sen rep pres st mt ft"
    " vs viz cf fig figs vol vols ch chap pp ed eds trans e.g i.e approx dept univ"
    " jan feb mar apr jun jul aug sept sep oct nov dec"
    # French, Spanish, Italian, Portuguese
    " mme mlle mm sra srta sig sigg dott ing avv exmo"
    # German, Dutch
    " hr fr frl nr bzw z.b d.h u.a o.ä vgl bd str dhr mevr".split()
)
_ABBREVIATIONS_BEFORE_NUMBERS = frozenset("no nos art sec p para".split())
_LONGEST_LAST_WORD = 20  # more than any abbreviation or numbering has
_WORD_BREAK = re.compile(r"[\s(\[\"'“‘„«—–-]")
_NUMBERING = re.compile(r"\(?(?:\d{1,3}|[ivxlc]{1,6}|[a-z])", re.IGNORECASE)


def split_sentences(text: str) -> list[str]:
    """Splits a paragraph into its sentences; nothing but white space between them is lost.

    A sentence ends at a full stop, question or exclamation mark that is followed by something other
    than a lower-case letter. Closing quotes and brackets stay with their sentence. A full stop
    after an abbreviation ("Mr."), an initial ("J.") or a leading number ("3.") is no end. A
    sentence longer than `MAX_SENTENCE_CHARACTERS` is cut at white space.

    Args:
        text: one paragraph. A text that is one sentence comes back as it is.

    Returns:
        The sentences, without white space around them; none is empty.

    Example:
        >>> split_sentences('"Mr. Dashwood!" cried she. He left (at once.) Why?')
        ['"Mr. Dashwood!" cried she.', 'He left (at once.)', 'Why?']
    """
    text = text.strip()
    sentences: list[str] = []
    start = 0
    for candidate in _CANDIDATE.finditer(text):
        if _ends_sentence(text, start, candidate):
            sentences += _limited(text[start : candidate.end()].rstrip())
            start = candidate.end()
    return [*sentences, *_limited(text[start:])]


def with_spaces(text: str, sentences: list[str]) -> list[str]:
    """Puts a space before each sentence that white space divides from the one before it.

    Args:
        text: the paragraph.
        sentences: its sentences, from `split_sentences`.

    Example:
        >>> with_spaces("He left.  She came.", ["He left.", "She came."])
        ['He left.', ' She came.']
    """
    spaced = sentences[:1]
    end = text.find(sentences[0]) + len(sentences[0]) if sentences else 0
    for sentence in sentences[1:]:
        # Nothing but white space lies between: the search ends at once.
        start = text.find(sentence, end)
        spaced.append(" " + sentence if start > end else sentence)
        end = start + len(sentence)
    return spaced


def _ends_sentence(text: str, start: int, candidate: re.Match[str]) -> bool:
    stop = text[candidate.start()]
    if candidate.end() == len(text) or stop in _IDEOGRAPHIC_STOPS:
        return True
    following = text[candidate.end()]
    if following in _OPENING:
        following = text[candidate.end() : candidate.end() + 8].lstrip(_OPENING)[:1]
    # `is_assigned`: the same sentences on every Python, whatever Unicode it has.
    if following.islower() and is_assigned(following):
        return False
    # A long sentence is not copied at each of its stops.
    before = text[max(start, candidate.start() - _LONGEST_LAST_WORD) : candidate.start()]
    return stop != "." or not _is_abbreviation(before, following, candidate)


def _is_abbreviation(before: str, following: str, candidate: re.Match[str]) -> bool:
    """Whether the full stop after `before`, the end of the sentence so far, belongs to a word."""
    if candidate.group().rstrip() != ".":
        return False  # an ellipsis, or a closing quote behind the stop
    word = _WORD_BREAK.split(before)[-1]
    if len(word) == 1 and word.isupper() and word != "I":
        return True
    if word.lower() in _ABBREVIATIONS:
        return True
    is_number = following.isdigit() and is_assigned(following)
    if is_number and word.lower() in _ABBREVIATIONS_BEFORE_NUMBERS:
        return True
    return _NUMBERING.fullmatch(before) is not None and is_assigned(before)


def _limited(sentence: str) -> Iterator[str]:
    while len(sentence) > MAX_SENTENCE_CHARACTERS:
        cut = sentence.rfind(" ", 1, MAX_SENTENCE_CHARACTERS)
        cut = MAX_SENTENCE_CHARACTERS if cut < 0 else cut
        yield sentence[:cut].rstrip()
        sentence = sentence[cut:].lstrip()
    if sentence:
        yield sentence
