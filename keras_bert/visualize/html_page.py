"""Pages that are one HTML file: filled from a template, written whole, framed in a notebook."""

import html
import importlib.resources
import os
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from keras_bert.storage.files import atomic_file
from keras_bert.storage.paths import check_output


def resource(package: str, name: str) -> str:
    """Returns the text of a file that lies beside the modules of a package."""
    return importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")


def fill(template: str, parts: Mapping[str, str]) -> str:
    """Returns a template with each {{NAME}} replaced by the part of that name.

    Each once, so that braces in a part stay what they are.
    """
    before, *rest = template.split("{{")
    return before + "".join(
        parts[name] + after for name, after in (part.split("}}", 1) for part in rest)
    )


def direction(text: str) -> str:
    """Returns "rtl" where the first strong character is Hebrew, Arabic and the like, or "ltr".

    This is what browsers do for `dir="auto"` (UAX #9, rules P2 and P3), for elements in which they
    would find no character, or that of a label.
    """
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in ("L", "R", "AL"):
            return "ltr" if kind == "L" else "rtl"
    return "ltr"


def save(path: str | os.PathLike, page: str, others: str = "") -> None:
    """Writes a page, whole or not at all.

    Args:
        path: the .html to write; its folder is created when missing.
        page: the HTML.
        others: what the error says of other endings.

    Raises:
        ValueError: the name ends otherwise.
    """
    check_name(path, others)
    with atomic_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def check_name(path: str | os.PathLike, others: str = "") -> None:
    """Refuses a name under which no page can be written, before the page is made.

    Args:
        path: the file.
        others: what the error says of other endings.

    Raises:
        ValueError: it does not end with .html, is a folder, or no path of this machine.
    """
    if Path(path).suffix not in (".html", ".htm"):
        raise ValueError(f"{path} does not end with .html: the page is one{others}")
    check_output(path, name="the page")


def frame(page: str, title: str, height: int) -> str:
    """Returns a page for the cell of a notebook; neither can disturb the other.

    Args:
        page: the HTML.
        title: what screen readers call it.
        height: in pixels.
    """
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="{title}" '
        f'style="width:100%;height:{height}px;border:0"></iframe>'
    )
