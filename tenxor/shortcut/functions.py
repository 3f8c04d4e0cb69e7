"""Functions of the module, called as machine code (`code/functions.py`) with no frame of Python's before it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ..frameless import Frameless

# Where a type says where its instances have what calls them, and its flags, in bytes; and the flag that says that they have.
_CALLED_BY, TP_FLAGS_OFFSET, _HAS = 56, 168, 1 << 11
KINDS = ("unary", "binary", "ternary", "again")  # of functions


def symbol_of(kind: str) -> str:
    """The name of the machine code of a kind of functions."""
    return f"function_{kind}"


def _word(x: object, place: int) -> ctypes.c_ssize_t:
    return ctypes.c_ssize_t.from_address(id(x) + place)


def _nothing() -> None:
    """Any function of Python's."""


def _place() -> int:
    """Where such functions have what calls them, in bytes. LookupError unless types say where, as is believed."""
    place = _word(Frameless, _CALLED_BY).value
    like, other = partial(_nothing), Frameless(_nothing)
    there = 0 < place <= partial.__basicsize__ - 8 and place == _word(partial, _CALLED_BY).value
    flagged = all([_word(cls, TP_FLAGS_OFFSET).value == cls.__flags__ for cls in (partial, Frameless)]) and partial.__flags__ & _HAS
    if not there or not flagged or not _word(like, place).value or _word(like, place).value != _word(other, place).value:
        raise LookupError("what calls a function is not where it is looked for")
    return place


class Calling:
    """Who has functions called by machine code, or as before."""

    def __init__(self, library: Mapping[str, Any]) -> None:
        self._place = _place()
        self._before = _word(Frameless(_nothing), self._place).value
        self._by = {name: library[symbol_of(name)] for name in KINDS}
        self._words: dict[Frameless, ctypes.c_ssize_t] = {}  # of functions that were called by machine code
        _word(Frameless, TP_FLAGS_OFFSET).value |= _HAS  # before CPython 3.12 classes do not get it from those that they are made of

    def stand_in(self, function: Frameless) -> None:
        """Have a function called by machine code."""
        self._word_of(function).value = self._by[function.machine]

    def standing_in(self, functions: Iterable[Frameless]) -> list[Callable[[], object]]:
        """Return C functions that have these functions called by machine code."""
        return [partial(setattr, self._word_of(function), "value", self._by[function.machine]) for function in list(functions)]

    def leaving(self) -> list[Callable[[], object]]:
        """Return C functions that have all functions called as before."""
        return [partial(setattr, word, "value", self._before) for word in list(self._words.values())]

    def _word_of(self, function: Frameless) -> ctypes.c_ssize_t:
        word = self._words.get(function)
        return self._words.setdefault(function, _word(function, self._place)) if word is None else word
