"""Texts of some size from Debian packages, and the novels of the sample data; needs apt-get."""

import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import packages

_SAMPLE_DATA = Path(__file__).resolve().parents[1] / "tools" / "sample_data"


def dictionary() -> list[str]:
    """Returns Webster's dictionary of 1913 with additions (gcide) as one text."""
    folder = packages.debian_package("dict-gcide")
    return [_read(folder / "usr/share/dictd/gcide.dict.dz")]


def kernel_manual() -> list[str]:
    """Returns the pages of the manual of Linux 6.1."""
    folder = packages.debian_package("linux-doc-6.1")
    return [_read(path) for path in sorted(folder.rglob("*.rst.gz"))]


def novels() -> list[str]:
    """Returns the novels of the sample data as one text, a blank line between chapters."""
    return [_read(_SAMPLE_DATA / "austen.txt.gz")]


# Name to what returns the parts of the text.
TEXTS: Mapping[str, Callable[[], Sequence[str]]] = {
    "dictionary": dictionary,
    "kernel_manual": kernel_manual,
    "novels": novels,
}


def _read(path: Path) -> str:
    # Bytes that are not UTF-8 are left out.
    return gzip.decompress(path.read_bytes()).decode("utf-8", "ignore")
