"""Offsets in the interpreter's objects, and the table of Python objects that the generated code refers to.

Slot offsets are found by experiment: a marker stored in a slot is searched for in the object's memory. Further assumptions are tested when
the fast path is built (`self_test.py`). The generated code refers to objects through a table, `@objects`, which is filled when the code is
linked. So the code is the same in every process, and can be cached.
"""

from __future__ import annotations

import ctypes
import sys
from _thread import RLock, get_ident  # `threading` provides the same, but imports more
from collections.abc import Iterable
from types import MemberDescriptorType

from .._utils.patchable import PatchableFunction
from ..autodiff.tape import TapeNode
from ..dtypes import DType
from ..graph.node import Node, Recipe, Scalar
from ..graph.spec import ChainViewTemplate, InMemoryTemplate, NumpyCallTemplate, RecipeTemplate, ResultTemplate, Spec
from ..graph.storage import ScalarStorage, Storage
from ..layout import Layout, LayoutKey
from ..memory.block_pool import Pool
from ..memory.buffer import Buffer
from ..ops import Op
from ..runtime.plan_execution import BufferSlot
from ..symbolic.guards import GuardedCache
from ..tensor import Tensor
from .sized_template import VARIANTS, SizedRecord, SizedTemplate

REUSED_CLASSES = ("Tensor", "Storage", "ScalarStorage", "Node", "Buffer", "TapeNode", "Scalar")  # dead objects of these classes are reused
# Classes whose instances the garbage collector does not track: they are in no reference cycle, or the cycle is broken when a cache is
# cleared. Otherwise a stream of new sizes would trigger one collection after another.
UNTRACKED_CLASSES = ("Scalar", "Recipe", "Spec", *[cls.__name__ for cls in (*VARIANTS, InMemoryTemplate)])
SLOTTED_CLASSES = (
    *(
        DType,
        Op,
        Buffer,
        Node,
        Recipe,
        Scalar,
        Pool,
        Spec,
        Storage,
        ScalarStorage,
        Tensor,
        BufferSlot,
        TapeNode,
        GuardedCache,
    ),
    *(ResultTemplate, RecipeTemplate, InMemoryTemplate, ChainViewTemplate, NumpyCallTemplate, *VARIANTS),
    *(SizedTemplate, SizedRecord, LayoutKey, Layout),
)


def read_object_words(x: object, size: int) -> list[int]:
    """Return the first `size` bytes of the memory of the Python object `x` as signed 64-bit words. The object must have so many bytes,
    which is not checked.

    Bytes of an incomplete last word are left out.
    """
    return list((ctypes.c_int64 * (size // 8)).from_address(id(x)))


def find_offset(value: int, words: list[int], description: str) -> int:
    """Return the offset, in bytes, of `value` among the 64-bit words `words`; raise LookupError unless `value` occurs exactly once.

    `description` says in the error's text what was searched for.
    """
    if words.count(value) != 1:
        raise LookupError(f"{description} must be in the object exactly once, not {words.count(value)} times")
    return 8 * words.index(value)


def find_slot_offsets(cls: type) -> dict[str, int]:
    """Return the offset in bytes, within an instance of the class `cls`, of each slot of `cls` and its bases, as a dict by name. Raise
    LookupError if a marker stored in a slot is not found exactly once. An instance is made without a call of `__init__`.
    """
    instance: object = object.__new__(cls)
    slots = [(name, slot, object()) for base in cls.__mro__ for name, slot in vars(base).items() if type(slot) is MemberDescriptorType]
    for _, slot, marker in slots:
        slot.__set__(instance, marker)
    words = read_object_words(instance, cls.__basicsize__)
    return {name: find_offset(id(marker), words, f"{cls.__name__}.{name}") for name, _, marker in slots}


def _find_items_offset() -> int:
    """Return the offset, in bytes, of the first item in a tuple object."""
    marker = object()
    items = (marker, None)
    return find_offset(id(marker), read_object_words(items, tuple.__basicsize__ + 16), "the first item of a tuple")


def find_lock_owner_offset() -> int:
    """Return the offset, in bytes, at which an RLock holds the id of the owning thread.

    Raise LookupError unless a free lock holds 0 there.
    """
    lock = RLock()
    size = lock.__sizeof__()
    free = read_object_words(lock, size)
    with lock:
        offset = find_offset(get_ident(), read_object_words(lock, size), "the owner of a lock")
    if read_object_words(lock, size) != free or free[offset // 8] != 0:
        raise LookupError("a free RLock must hold 0 as its owner, before and after it is held")
    return offset


def find_function_offsets() -> dict[str, int]:
    """Return the offsets, in bytes, of the fields `func` and `routine_argument` in a `PatchableFunction` object, as a dict by name. Raise
    LookupError if a field is not found exactly once.
    """
    marker = object()
    function = PatchableFunction(lambda: None)
    function.routine_argument = marker
    words = read_object_words(function, PatchableFunction.__basicsize__)
    return {name: find_offset(id(x), words, f"a function's {name}") for name, x in (("func", function.func), ("routine_argument", marker))}


# Integers hold their digit count where a tuple has its size: up to CPython 3.11 negated for negative numbers, later times 8 plus a code for
# the sign, 2 for negative numbers and 1 for 0. A digit has 30 bits.
HAS_SIGNED_DIGIT_COUNT = sys.version_info < (3, 12)
DIGITS_OFFSET, DIGIT_BITS, TWO_DIGIT_SIZE_WORD = 24, 30, 2 if HAS_SIGNED_DIGIT_COUNT else 16
# Offsets in bytes: in every object the first two; the size of tuples and bytes; the content of tuples, bytes, slices and floats.
REFCOUNT_OFFSET, TYPE_OFFSET, SIZE_OFFSET, TUPLE_ITEMS_OFFSET, BYTES_CONTENT_OFFSET, SLICE_START_OFFSET, FLOAT_VALUE_OFFSET = (
    0,
    8,
    16,
    _find_items_offset(),
    bytes.__basicsize__ - 1,
    16,
    16,
)


class ObjectTable:
    """A table of the Python objects that generated code refers to, numbered (`indices`) in the order of their names `names`.

    The emitters of the code use the names, and the code uses the numbers. The table also has the slot offsets of package classes.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.indices = {name: k for k, name in enumerate(names)}
        self._slot_offsets = {cls.__name__: find_slot_offsets(cls) for cls in SLOTTED_CLASSES}
        self._weakref_offsets = {cls.__name__: cls.__weakrefoffset__ for cls in SLOTTED_CLASSES}
        self._slot_offsets["RLock"] = {"owner": find_lock_owner_offset()}
        self._slot_offsets["PatchableFunction"] = find_function_offsets()

    def get_index(self, name: str) -> int:
        """Return the index of the object named `name` in the table."""
        return self.indices[name]

    def get_slot_offset(self, slot: str) -> int:
        """Return the offset, in bytes, of a slot in an instance of a class. `slot` is given as "Class.name"."""
        cls, name = slot.split(".")
        return self._slot_offsets[cls][name]

    def get_slot_offsets(self, cls: str) -> list[int]:
        """Return the offsets, in bytes, of all slots of the class named `cls`, ascending."""
        return sorted(self._slot_offsets[cls].values())

    def get_weakref_offset(self, cls: str) -> int:
        """Return the offset, in bytes, of the list of weak references in an instance of the class named `cls`.

        The offset is 0 if the class does not support weak references.
        """
        return self._weakref_offsets[cls]

    @property
    def identity(self) -> str:
        """A text with the facts about the interpreter and this table on which the generated code depends, for the cache key of the code."""
        fixed_offsets = REFCOUNT_OFFSET, TYPE_OFFSET, SIZE_OFFSET, TUPLE_ITEMS_OFFSET, BYTES_CONTENT_OFFSET
        return f"{sys.version} {fixed_offsets} {self._slot_offsets} {self._weakref_offsets} {list(self.indices)}"
