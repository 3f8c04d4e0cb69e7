"""Functions of the module (`tx.exp`, ...) called as machine code (`fastpath/emit/function_entries.py`), without a Python frame.

Such a function is a `PatchableFunction` object. The interpreter calls the C function whose address (`vectorcall`) the object holds, and
the fast path overwrites this address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from .._utils.patchable import PatchableFunction

# Offsets in a type object, in bytes: `tp_vectorcall_offset` and `tp_flags`; and the flag Py_TPFLAGS_HAVE_VECTORCALL.
_TP_VECTORCALL_OFFSET, TP_FLAGS_OFFSET, _HAVE_VECTORCALL_FLAG = 56, 168, 1 << 11
ENTRY_KINDS = ("unary", "binary", "ternary", "replay", "convert")  # kinds of functions, each with a generated entry point


def get_entry_symbol(kind: str) -> str:
    """Return the symbol of the generated entry point, the code that the interpreter calls, for functions of the kind `kind` in
    `ENTRY_KINDS`.
    """
    return f"function_{kind}"


def _view_word(x: object, byte_offset: int) -> ctypes.c_ssize_t:
    """Return the 64-bit word `byte_offset` bytes into the object `x`, as a writable view of its memory."""
    return ctypes.c_ssize_t.from_address(id(x) + byte_offset)


def _do_nothing() -> None:
    """Do nothing. `_find_vectorcall_offset` wraps this function into callable objects, and inspects their memory; it is never called."""


def _find_vectorcall_offset() -> int:
    """Return the offset, in bytes, of the `vectorcall` address in a `PatchableFunction` object.

    Raise LookupError if the types state another offset or lack the flag for such calls, or if two probes hold different addresses.
    """
    offset = _view_word(PatchableFunction, _TP_VECTORCALL_OFFSET).value
    partial_probe, patchable_probe = partial(_do_nothing), PatchableFunction(_do_nothing)
    is_consistent = 0 < offset <= partial.__basicsize__ - 8 and offset == _view_word(partial, _TP_VECTORCALL_OFFSET).value
    has_flag = (
        all([_view_word(cls, TP_FLAGS_OFFSET).value == cls.__flags__ for cls in (partial, PatchableFunction)])
        and partial.__flags__ & _HAVE_VECTORCALL_FLAG
    )
    if (
        not is_consistent
        or not has_flag
        or not _view_word(partial_probe, offset).value
        or _view_word(partial_probe, offset).value != _view_word(patchable_probe, offset).value
    ):
        raise LookupError("the vectorcall address of a function is not at the offset that its type states")
    return offset


class VectorcallSwitch:
    """A switch between generated code and the interpreter's original code for calls of the module's functions.

    `library` maps the symbols of the entry points to their addresses.
    """

    def __init__(self, library: Mapping[str, Any]) -> None:
        self._entry_offset = _find_vectorcall_offset()
        self._original_address = _view_word(PatchableFunction(_do_nothing), self._entry_offset).value
        self._entry_addresses = {name: library[get_entry_symbol(name)] for name in ENTRY_KINDS}
        # For each function changed so far, the word with its `vectorcall` address
        self._entry_words: dict[PatchableFunction, ctypes.c_ssize_t] = {}
        # Before CPython 3.12 a subclass does not inherit this flag
        _view_word(PatchableFunction, TP_FLAGS_OFFSET).value |= _HAVE_VECTORCALL_FLAG

    def redirect(self, function: PatchableFunction) -> None:
        """Have the interpreter call `function` by the generated entry point for its kind (`routine_name`) from now on, until a removal step
        runs.
        """
        self._get_entry_word(function).value = self._entry_addresses[function.routine_name]

    def get_install_steps(self, functions: Iterable[PatchableFunction]) -> list[Callable[[], object]]:
        """Return a list of C functions without arguments, one for each of `functions`. Calling them redirects `functions` to the generated
        code.
        """
        return [
            partial(setattr, self._get_entry_word(function), "value", self._entry_addresses[function.routine_name])
            for function in list(functions)
        ]

    def get_removal_steps(self) -> list[Callable[[], object]]:
        """Return a list of C functions without arguments. Calling them restores the original `vectorcall` address of each function changed
        so far.
        """
        return [partial(setattr, word, "value", self._original_address) for word in list(self._entry_words.values())]

    def _get_entry_word(self, function: PatchableFunction) -> ctypes.c_ssize_t:
        """Return the word of `function` with its `vectorcall` address, and note the function as changed."""
        word = self._entry_words.get(function)
        return self._entry_words.setdefault(function, _view_word(function, self._entry_offset)) if word is None else word
