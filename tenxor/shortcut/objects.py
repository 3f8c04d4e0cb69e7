"""What machine code knows of the interpreter: where objects of our classes have their slots, and where some objects are.

Where a slot lies is asked of its descriptor, and proved when the short way is made (`proof.py`). Which objects there are goes by
a table, `@objects`, that is filled in when the code is linked: so the code is the same in every process.
"""

from __future__ import annotations

import ctypes
import threading
from types import MemberDescriptorType

from ..dtypes import DType
from ..memory import Buffer
from ..node import Node, Recipe, Scalar
from ..pool import Pool
from ..spec import Made, Spec
from ..storage import Element, Storage
from ..tensor import Tensor

CLASSES = (DType, Buffer, Node, Recipe, Scalar, Pool, Made, Spec, Storage, Element, Tensor)
REFERENCES, TYPE, SIZE, ITEMS, BYTES = 0, 8, 16, 24, 32  # of objects; of tuples and bytes; of tuples; of bytes
MEMBER, OFFSET = 40, 16  # where a descriptor of a slot has what describes it, and where that has the offset


def slots_of(cls: type) -> dict[str, int]:
    """Where the instances of a class have their slots, in bytes."""
    found = {}
    for base in reversed(cls.__mro__):
        for name, slot in vars(base).items():
            if isinstance(slot, MemberDescriptorType):
                member = ctypes.c_void_p.from_address(id(slot) + MEMBER).value
                assert member is not None
                found[name] = ctypes.c_ssize_t.from_address(member + OFFSET).value
    return found


def owner_of_lock() -> int:
    """Where a lock says which thread has it, in bytes; it says 0 if none has."""
    one = threading.RLock()
    words = (ctypes.c_int64 * (one.__sizeof__() // 8)).from_address(id(one))
    free = list(words)
    with one:
        held = list(words)
    places = [k for k, (a, b) in enumerate(zip(free, held, strict=True)) if a == 0 and b == threading.get_ident()]
    if len(places) != 1 or list(words) != free:
        raise LookupError("a lock does not say who has it")
    return 8 * places[0]


class Objects:
    """Objects by name, numbered as they are asked for; and the slots of our classes."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._slots = {cls.__name__: slots_of(cls) for cls in CLASSES}
        self._slots["RLock"] = {"owner": owner_of_lock()}

    def number_of(self, name: str) -> int:
        """The place of an object in the table."""
        return self.names.setdefault(name, len(self.names))

    def offset_of(self, slot: str) -> int:
        """Where instances have a slot, "Class.name", in bytes."""
        cls, name = slot.split(".")
        return self._slots[cls][name]
