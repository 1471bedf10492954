"""Marks on parameters of tests."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def some_fast(names: Iterable[Any], fast: Container[Any]) -> list:
    """Parameters of which only `fast` belong to the fast suite."""
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in names]


def some_slow(names: Iterable[Any], slow: Container[Any]) -> list:
    """Parameters of which only `slow` belong to the slow suite, the others to the long one."""
    marks = {True: pytest.mark.slow, False: pytest.mark.long}
    return [pytest.param(name, marks=marks[name in slow]) for name in names]


def some_long(names: Iterable[Any], others: Container[Any]) -> list:
    """Parameters of which all but `others` belong to the long suite."""
    return [pytest.param(name, marks=() if name in others else pytest.mark.long) for name in names]
