"""Operators in machine code (`code/slots.py`), called by the interpreter itself.

For a class of Python's, what stands for `x[key]` or `x += y` in its type looks the method up by name, each time, and calls what it finds
as any function is called: that takes as long as to read an element. So machine code stands there, which calls the method's own. What is
not plain is left to what stood there. If somebody puts another method into the class, the interpreter puts its own function back.

Of `x + y` the interpreter asks first whether the same function stands there for both, and else asks a subclass first. So subclasses
that have no method of their own need ours, too. They get it where the methods say so themselves, as those of C's classes do: there
`__add__` and `__radd__` are wrappers of one function.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

# Where a type has its tables as a number, a sequence and a mapping, and these their entries, in bytes; 0 is the type itself.
TP_AS_NUMBER_OFFSET, _SEQUENCE, _MAPPING = 96, 104, 112
IN_PLACE = {
    **{"iadd": 152, "isub": 160, "imul": 168, "imod": 176, "ilshift": 192, "irshift": 200, "iand": 208, "ixor": 216, "ior": 224},
    **{"ifloordiv": 248, "itruediv": 256},
}
UNARY = {"neg": 48, "pos": 56, "abs": 64, "invert": 80, "int": 128, "float": 144}
BINARY = {
    **{"add": 0, "sub": 8, "mul": 16, "mod": 24, "lshift": 88, "rshift": 96, "and": 104, "xor": 112, "or": 120},
    **{"floordiv": 232, "truediv": 240},
}
COMPARED = ("lt", "le", "eq", "ne", "gt", "ge")  # in the order of C's numbers for them
# By the name of our function: the method that has the interpreter fill the entry, the table, and the place in it.
ENTRIES: dict[str, tuple[str, int, int]] = {
    "slot_getitem": ("__getitem__", _MAPPING, 8),
    "slot_setitem": ("__setitem__", _MAPPING, 16),
    "slot_item": ("__getitem__", _SEQUENCE, 24),
    "slot_bool": ("__bool__", TP_AS_NUMBER_OFFSET, 72),
    "slot_compared": ("__lt__", 0, 200),
    **{f"slot_{name}": (f"__{name}__", TP_AS_NUMBER_OFFSET, place) for name, place in (*UNARY.items(), *IN_PLACE.items())},
}
WRAPPED = {f"__{r}{name}__": f"number_{name}" for name in BINARY for r in ("", "r")}  # the functions of which methods are wrappers
NUMBERS = tuple(dict.fromkeys(WRAPPED.values()))
# Where a wrapper has what it was made of, in bytes, which tells among others how its function is called.
_MADE_OF = 40
BEFORE = {name: k for k, name in enumerate(ENTRIES)}


class _Base(ctypes.Structure):
    """What a wrapper is made of, as C has it."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("place", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("wrapper", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("flags", ctypes.c_int),
        ("known_as", ctypes.c_void_p),
    )


_new_wrapper = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.POINTER(_Base), ctypes.c_void_p)(
    ("PyDescr_NewWrapper", ctypes.pythonapi)
)


def wrapper(cls: type, name: str, function: int, text: str, kept: list[Any]) -> Any:
    """A method that is a wrapper of a function, with a signature and documentation. LookupError unless those of `int` are made as is
    believed: this one is like them.
    """
    like = vars(int)[name]
    if type(like).__basicsize__ != _MADE_OF + 16:
        raise LookupError(f"a wrapper has {type(like).__basicsize__} bytes")
    base = ctypes.POINTER(_Base).from_address(id(like) + _MADE_OF).contents
    if base.name != name.encode() or base.known_as != id(like.__name__):
        raise LookupError(f"what {name} of an integer is made of is not where it is looked for")
    own = _Base(base.name, base.place, base.function, base.wrapper, text.encode(), base.flags, base.known_as)
    kept.append(own)
    return _new_wrapper(cls, ctypes.byref(own), function)


def _place(cls: type, table: int, entry: int) -> ctypes.c_void_p:
    """An entry of a type."""
    at = id(cls)
    if table:
        at = ctypes.c_void_p.from_address(at + table).value or 0
        if not at:
            raise LookupError(f"{cls.__name__} has no table of what it does")
    return ctypes.c_void_p.from_address(at + entry)


class Standing:
    """Who has the interpreter call machine code for a class whose methods it is."""

    def __init__(self, library: Mapping[str, int], cls: type) -> None:
        self._library, self._class = library, cls
        self._entries: list[tuple[ctypes.c_void_p, int]] = []  # with what is to stand there

    def standing_in(self) -> list[Callable[[], object]]:
        """Return C functions that have it called, again whenever methods were put into the class anew; none before they were for the first
        time. LookupError if types are not made as is believed.
        """
        if not self._entries and _place(self._class, TP_AS_NUMBER_OFFSET, BINARY["add"]).value == self._library["number_add"]:
            self._entries = self._proved()
        return [partial(setattr, place, "value", address) for place, address in self._entries]

    def _proved(self) -> list[tuple[ctypes.c_void_p, int]]:
        """The entries. LookupError unless what stands in one is what stands there in any class that has the method, and nothing in one that
        has not; and where methods are wrappers, their function.
        """
        library, cls, found = self._library, self._class, []
        for name, entry in BINARY.items():
            if _place(cls, TP_AS_NUMBER_OFFSET, entry).value != library[f"number_{name}"]:
                raise LookupError(f"what is called for __{name}__ is not what its methods are wrappers of")
        nothing = type("Nothing", (), {"__slots__": ()})
        for name, (method, table, entry) in ENTRIES.items():
            place = _place(cls, table, entry)
            like = _place(type("Like", (), {method: lambda *_: None, "__hash__": None}), table, entry)
            without = _place(nothing, table, entry).value
            if not place.value or place.value != like.value or (without and without == like.value):
                raise LookupError(f"what is called for {method} is not where it is looked for")
            ctypes.c_void_p.from_address(library["stood_there"] + 8 * BEFORE[name]).value = place.value
            found.append((place, library[name]))
        return found
