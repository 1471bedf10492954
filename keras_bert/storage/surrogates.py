"""Halves of surrogate pairs, which JSON can write and UTF-8 cannot."""

import re

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def without_lone_surrogates(text: str) -> str:
    """Returns a text of the same length, each half of a pair replaced by U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text)
