"""Offsets in the interpreter's objects, and the table of Python objects that the generated code refers to.

Slot offsets are found by experiment: a marker stored in a slot is searched for in the object's memory. Further assumptions are tested when
the fast path is built (`proof.py`). The generated code refers to objects through a table, `@objects`, which is filled when the code is
linked. So the code is the same in every process, and can be cached.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterable
from types import MemberDescriptorType

from ..dtypes import DType
from ..frameless import Frameless
from ..known import Known
from ..layout import Form, Layout
from ..memory import Buffer
from ..node import Node, Recipe, Scalar
from ..ops import Op
from ..past import Past
from ..plans.steps import Cell
from ..pool import Pool
from ..spec import Made, Spec
from ..storage import Element, Storage
from ..tensor import Tensor
from .rule import FrameRule, Rule
from .selected import Selected

REUSED = ("Tensor", "Storage", "Element", "Node", "Buffer", "Past", "Scalar")  # dead objects of these classes are reused
# Classes whose instances the garbage collector does not track: they are in no reference cycle, or the cycle is broken when a cache is
# cleared. Otherwise a stream of new sizes would trigger one collection after another.
UNSEEN = ("Scalar", "Recipe", "Made", "Spec")
CLASSES = (
    *(DType, Op, Buffer, Node, Recipe, Scalar, Pool, Made, Spec, Storage, Element, Tensor, Cell, Past, Known),
    *(Rule, FrameRule, Form, Layout, Selected),
)


def words_of(x: object, size: int) -> list[int]:
    """Return the first `size` bytes of an object as signed 64-bit words."""
    return list((ctypes.c_int64 * (size // 8)).from_address(id(x)))


def place_of(value: int, words: list[int], what: str) -> int:
    """Return the offset, in bytes, of `value` among 64-bit words; raise LookupError unless it occurs exactly once.

    `what` says in the error's text what was searched for.
    """
    if words.count(value) != 1:
        raise LookupError(f"{what} is not where it is looked for")
    return 8 * words.index(value)


def slots_of(cls: type) -> dict[str, int]:
    """Return the offset in bytes, within an instance of the class, of each slot of the class and its bases, by name."""
    found = {}
    for base in cls.__mro__:
        for name, slot in vars(base).items():
            if isinstance(slot, MemberDescriptorType):
                one: object = object.__new__(cls)
                marker = object()
                slot.__set__(one, marker)
                found[name] = place_of(id(marker), words_of(one, cls.__basicsize__), f"{cls.__name__}.{name}")
    return found


def _items_of_tuple() -> int:
    """Return the offset, in bytes, of the first item in a tuple object."""
    marker = object()
    items = (marker, None)
    return place_of(id(marker), words_of(items, tuple.__basicsize__ + 16), "the first item of a tuple")


def owner_of_lock() -> int:
    """Return the offset, in bytes, at which an RLock holds the id of the owning thread. Raise LookupError unless a free lock holds 0 there.
    """
    one = threading.RLock()
    size = one.__sizeof__()
    free = words_of(one, size)
    with one:
        place = place_of(threading.get_ident(), words_of(one, size), "who has a lock")
    if words_of(one, size) != free or free[place // 8] != 0:
        raise LookupError("a free lock does not say so")
    return place


def slots_of_function() -> dict[str, int]:
    """Return the offsets, in bytes, of the fields `func` and `subject` in a `Frameless` object."""
    marker = object()
    one = Frameless(lambda: None)
    one.subject = marker
    words = words_of(one, Frameless.__basicsize__)
    return {name: place_of(id(x), words, f"a function's {name}") for name, x in (("func", one.func), ("subject", marker))}


# Integers hold their digit count where a tuple has its size: up to CPython 3.11 negated for negative numbers, later times 8 plus a code for
# the sign, 2 for negative numbers and 1 for 0. A digit has 30 bits.
SIGNED_SIZE = sys.version_info < (3, 12)
DIGITS, DIGIT, TWO_DIGITS = 24, 30, 2 if SIGNED_SIZE else 16
# Offsets in bytes: in every object the first two; the size of tuples and bytes; the content of tuples, bytes, slices and floats.
REFERENCES, TYPE, SIZE, ITEMS, BYTES, SLICE, VALUE = 0, 8, 16, _items_of_tuple(), bytes.__basicsize__ - 1, 16, 16


class Objects:
    """A table of Python objects by name, numbered in order; and the slot offsets of the package's classes."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = {name: k for k, name in enumerate(names)}
        self._slots = {cls.__name__: slots_of(cls) for cls in CLASSES}
        self._weakly = {cls.__name__: cls.__weakrefoffset__ for cls in CLASSES}
        self._slots["RLock"] = {"owner": owner_of_lock()}
        self._slots["Frameless"] = slots_of_function()

    def number_of(self, name: str) -> int:
        """Return the index of an object in the table."""
        return self.names[name]

    def offset_of(self, slot: str) -> int:
        """Return the offset, in bytes, of a slot given as "Class.name"."""
        cls, name = slot.split(".")
        return self._slots[cls][name]

    def slots_of(self, cls: str) -> list[int]:
        """Return the offsets, in bytes, of all slots of a class, ascending."""
        return sorted(self._slots[cls].values())

    def weakly(self, cls: str) -> int:
        """Return the offset, in bytes, of the list of weak references in an instance; 0 if the class does not support them."""
        return self._weakly[cls]

    @property
    def identity(self) -> str:
        """A text with everything that the generated code depends on besides its own source; it is part of the cache key."""
        return f"{sys.version} {REFERENCES, TYPE, SIZE, ITEMS, BYTES} {self._slots} {self._weakly} {list(self.names)}"
