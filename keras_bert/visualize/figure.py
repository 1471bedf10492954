"""Figures without a display, where matplotlib is installed."""

from typing import Any


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


def plain(text: str) -> str:
    """Returns a text that matplotlib writes as it stands; between two "$" it would set a formula.

    Labels of classes and pieces of texts come from users: a formula that cannot be read would end
    the picture, one that can be would say something else.
    """
    return text.replace("$", r"\$")
