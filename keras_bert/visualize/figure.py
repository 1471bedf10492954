"""Figures without a display, where matplotlib is installed."""

import os
from pathlib import Path
from typing import Any

from keras_bert.storage.files import atomic_file
from keras_bert.storage.paths import check_output

_PICTURES = (".png", ".svg")
# Longer labels would leave no room for what they stand beside: their middle is left out.
_MOST_CHARACTERS = 32
_FIRST_CHARACTERS = 20


def new_figure(width: float, height: float) -> Any:
    """Returns an empty matplotlib figure.

    Args:
        width: width of the picture in inches.
        height: height of the picture in inches.

    Raises:
        ValueError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("drawing needs matplotlib: pip install matplotlib") from None
    return Figure(figsize=(width, height), layout="constrained")


def check_picture(path: str | os.PathLike) -> None:
    """Checks the name of a picture before the work.

    Raises:
        ValueError: it ends otherwise than .png or .svg, it is a folder or no path of this machine,
            or matplotlib is not installed.
    """
    if Path(path).suffix not in _PICTURES:
        raise ValueError(f"{os.fspath(path)} does not end with .png or .svg: give one of them")
    check_output(path, name="the picture")
    new_figure(1, 1)


def save_figure(figure: Any, path: str | os.PathLike, dpi: int) -> None:
    """Writes a figure in the format of its name, whole or not at all.

    Args:
        figure: of `new_figure`.
        path: the .png or .svg to write; its folder is created when missing.
        dpi: pixels per inch of a .png.
    """
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format=Path(path).suffix[1:], dpi=dpi)


def plain(text: str) -> str:
    """Returns a text that matplotlib writes as it stands; between two "$" it would set a formula.

    Labels of classes and pieces of texts come from users: a formula that cannot be read would end
    the picture, one that can be would say something else.
    """
    return text.replace("$", r"\$")


def short_label(text: str) -> str:
    """Returns a text of a user as one short line: of a long one the beginning and the end."""
    line = " ".join(text.split())
    if len(line) > _MOST_CHARACTERS:
        rest = _MOST_CHARACTERS - _FIRST_CHARACTERS - 1
        line = f"{line[:_FIRST_CHARACTERS]}…{line[-rest:]}"
    return plain(line)
