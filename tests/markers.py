"""Marks on parameters of tests."""

from collections.abc import Container, Iterable

import pytest


def some_fast(names: Iterable[str], fast: Container[str]) -> list:
    """Parameters of which only `fast` belong to the fast suite."""
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in names]
