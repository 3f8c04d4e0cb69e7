"""Functions of the module (`tx.exp`, ...) called as machine code (`code/functions.py`), without a Python frame.

Such a function is a `Frameless` object. The interpreter calls the C function whose address (`vectorcall`) the object holds, and the fast
path overwrites this address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ..frameless import Frameless

# Offsets in a type object, in bytes: `tp_vectorcall_offset` and `tp_flags`; and the flag Py_TPFLAGS_HAVE_VECTORCALL.
_CALLED_BY, TP_FLAGS_OFFSET, _HAS = 56, 168, 1 << 11
KINDS = ("unary", "binary", "ternary", "again")  # kinds of functions, each with a generated entry point


def symbol_of(kind: str) -> str:
    """Return the symbol of the generated entry point for a kind of functions, which is one of `KINDS`."""
    return f"function_{kind}"


def _word(x: object, place: int) -> ctypes.c_ssize_t:
    """Return the 64-bit word `place` bytes into an object, as a writable view of its memory."""
    return ctypes.c_ssize_t.from_address(id(x) + place)


def _nothing() -> None:
    """Do nothing. Callable objects built on this function are inspected for the offset of their `vectorcall` address."""


def _place() -> int:
    """Return the offset, in bytes, of the `vectorcall` address in a `Frameless` object.

    Raise LookupError if the types state another offset or lack the flag for such calls, or if two probes hold different addresses.
    """
    place = _word(Frameless, _CALLED_BY).value
    like, other = partial(_nothing), Frameless(_nothing)
    there = 0 < place <= partial.__basicsize__ - 8 and place == _word(partial, _CALLED_BY).value
    flagged = all([_word(cls, TP_FLAGS_OFFSET).value == cls.__flags__ for cls in (partial, Frameless)]) and partial.__flags__ & _HAS
    if not there or not flagged or not _word(like, place).value or _word(like, place).value != _word(other, place).value:
        raise LookupError("what calls a function is not where it is looked for")
    return place


class Calling:
    """A switch between generated code and the interpreter's original code for calls of the module's functions.

    `library` maps the symbols of the entry points to their addresses.
    """

    def __init__(self, library: Mapping[str, Any]) -> None:
        self._place = _place()
        self._before = _word(Frameless(_nothing), self._place).value
        self._by = {name: library[symbol_of(name)] for name in KINDS}
        self._words: dict[Frameless, ctypes.c_ssize_t] = {}  # for each function changed so far, the word with its `vectorcall` address
        _word(Frameless, TP_FLAGS_OFFSET).value |= _HAS  # before CPython 3.12 a subclass does not inherit this flag

    def stand_in(self, function: Frameless) -> None:
        """Have `function` called by the generated code from now on."""
        self._word_of(function).value = self._by[function.machine]

    def standing_in(self, functions: Iterable[Frameless]) -> list[Callable[[], object]]:
        """Return C functions without arguments, one for each of `functions`; calling them redirects `functions` to generated code."""
        return [partial(setattr, self._word_of(function), "value", self._by[function.machine]) for function in list(functions)]

    def leaving(self) -> list[Callable[[], object]]:
        """Return C functions without arguments; calling them restores the original `vectorcall` address of each function changed so far."""
        return [partial(setattr, word, "value", self._before) for word in list(self._words.values())]

    def _word_of(self, function: Frameless) -> ctypes.c_ssize_t:
        """Return the word of `function` with its `vectorcall` address, and note the function as changed."""
        word = self._words.get(function)
        return self._words.setdefault(function, _word(function, self._place)) if word is None else word
