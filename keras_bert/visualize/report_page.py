"""Reports that are one HTML page without scripts: of a run, of a vocabulary, of a model's size."""

import abc
import html
import os
from collections.abc import Iterable, Sequence

from keras_bert.visualize import html_page

_FRAME_HEIGHT = 640  # of a page in a notebook, in pixels


class Report(abc.ABC):
    """What a notebook shows as a page, and `save` writes as one.

    Attributes:
        title: what the window and screen readers call it.
    """

    title: str

    @abc.abstractmethod
    def html(self) -> str:
        """Returns the page: one HTML text that needs no other file and no network."""

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page, whole or not at all.

        Args:
            path: the .html to write; its folder is created when missing.

        Raises:
            ValueError: the name ends otherwise.
        """
        html_page.save(path, self.html())

    def _repr_html_(self) -> str:
        return html_page.frame(self.html(), html.escape(self.title), _FRAME_HEIGHT)


def page(title: str, heading: str, sections: Iterable[str]) -> str:
    """Returns a page of sections, with the styles in it.

    Args:
        title: of the window, as text.
        heading: the first line, as text.
        sections: HTML; empty ones are left out.
    """
    parts = {
        "TITLE": html.escape(title),
        "STYLE": html_page.resource(__package__, "report.css"),
        "HEADING": html.escape(heading),
        "SECTIONS": "\n".join(filter(None, sections)),
    }
    return html_page.fill(html_page.resource(__package__, "report.html"), parts)


def section(heading: str, *content: str) -> str:
    """Returns a section with a heading; nothing where it has no content."""
    inside = "\n".join(filter(None, content))
    if not inside:
        return ""
    return f"<section>\n<h2>{html.escape(heading)}</h2>\n{inside}\n</section>"


def columns(blocks: Sequence[str], kind: str = "columns") -> str:
    """Returns blocks side by side where the window is wide enough.

    Args:
        blocks: HTML; empty ones are left out.
        kind: "columns", or "columns wide" for blocks that need more width than a chart.
    """
    shown = [block for block in blocks if block]
    return f'<div class="{kind}">\n' + "\n".join(shown) + "\n</div>" if shown else ""


def paragraph(words: str, kind: str = "") -> str:
    """Returns a paragraph of plain text, of a kind: "note" or "warning"."""
    kind = f' class="{kind}"' if kind else ""
    return f"<p{kind}>{html.escape(words)}</p>"
