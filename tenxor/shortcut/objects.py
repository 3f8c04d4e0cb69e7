"""What machine code knows of the interpreter: where objects have what, and where some objects are.

What can be found by looking is: a slot lies where an object turns up that was put into it. What is taken for granted beyond that is
proved when the short way is made (`proof.py`). Which objects there are goes by a table, `@objects`, that is filled in when the code
is linked: so the code is the same in every process.
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

REUSED = ("Tensor", "Storage", "Element", "Node", "Buffer", "Past", "Scalar")  # classes of which dead objects are used again
# Of these the collector need not know: what they refer to does not lead back to them, or is parted from them when they are forgotten. Else
# a stream of new sizes would have it look at everything again and again.
UNSEEN = ("Scalar", "Recipe", "Made", "Spec")
CLASSES = (
    *(DType, Op, Buffer, Node, Recipe, Scalar, Pool, Made, Spec, Storage, Element, Tensor, Cell, Past, Known),
    *(Rule, FrameRule, Form, Layout, Selected),
)


def words_of(x: object, size: int) -> list[int]:
    """The 64-bit words that an object of so many bytes is made of."""
    return list((ctypes.c_int64 * (size // 8)).from_address(id(x)))


def place_of(value: int, words: list[int], what: str) -> int:
    """Where a value is among words, in bytes; LookupError unless it is there just once."""
    if words.count(value) != 1:
        raise LookupError(f"{what} is not where it is looked for")
    return 8 * words.index(value)


def slots_of(cls: type) -> dict[str, int]:
    """Where the instances of a class have their slots, in bytes."""
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
    marker = object()
    items = (marker, None)
    return place_of(id(marker), words_of(items, tuple.__basicsize__ + 16), "the first item of a tuple")


def owner_of_lock() -> int:
    """Where a lock says which thread has it, in bytes; it says 0 if none has."""
    one = threading.RLock()
    size = one.__sizeof__()
    free = words_of(one, size)
    with one:
        place = place_of(threading.get_ident(), words_of(one, size), "who has a lock")
    if words_of(one, size) != free or free[place // 8] != 0:
        raise LookupError("a free lock does not say so")
    return place


def slots_of_function() -> dict[str, int]:
    """Where a function in whose place machine code is called has what that looks at, in bytes."""
    marker = object()
    one = Frameless(lambda: None)
    one.subject = marker
    words = words_of(one, Frameless.__basicsize__)
    return {name: place_of(id(x), words, f"a function's {name}") for name, x in (("func", one.func), ("subject", marker))}


# Of integers: how many digits there are stands where a tuple has its size, until CPython 3.11 below 0 for those below 0, then times 8 and
# with a sign beside, 2 for those below 0 and 1 for 0. Each digit has 30 bits.
SIGNED_SIZE = sys.version_info < (3, 12)
DIGITS, DIGIT, TWO_DIGITS = 24, 30, 2 if SIGNED_SIZE else 16
# Of every object; of tuples and bytes; of tuples; of bytes; of slices; of floats.
REFERENCES, TYPE, SIZE, ITEMS, BYTES, SLICE, VALUE = 0, 8, 16, _items_of_tuple(), bytes.__basicsize__ - 1, 16, 16


class Objects:
    """Objects by name, which are numbered in their order; and the slots of our classes."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = {name: k for k, name in enumerate(names)}
        self._slots = {cls.__name__: slots_of(cls) for cls in CLASSES}
        self._weakly = {cls.__name__: cls.__weakrefoffset__ for cls in CLASSES}
        self._slots["RLock"] = {"owner": owner_of_lock()}
        self._slots["Frameless"] = slots_of_function()

    def number_of(self, name: str) -> int:
        """The place of an object in the table."""
        return self.names[name]

    def offset_of(self, slot: str) -> int:
        """Where instances have a slot, "Class.name", in bytes."""
        cls, name = slot.split(".")
        return self._slots[cls][name]

    def slots_of(self, cls: str) -> list[int]:
        """Where instances have all their slots, in bytes."""
        return sorted(self._slots[cls].values())

    def weakly(self, cls: str) -> int:
        """Where instances have those who refer to them weakly, in bytes; 0 if nobody can."""
        return self._weakly[cls]

    @property
    def identity(self) -> str:
        """All that code depends on, but for its own text."""
        return f"{sys.version} {REFERENCES, TYPE, SIZE, ITEMS, BYTES} {self._slots} {self._weakly} {list(self.names)}"
