"""Lines of programs. Most come again in other programs, so they are compiled once."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import NamedTuple


class Line(NamedTuple):
    """One line of a program, as text and compiled."""

    text: str
    code: CodeType


@lru_cache(1 << 15)
def line(text: str) -> Line:
    """A statement."""
    return Line(text, compile(text, text, "exec"))


@lru_cache(1 << 15)
def compiled(text: str) -> CodeType:
    """An expression."""
    return compile(text, text, "eval")
