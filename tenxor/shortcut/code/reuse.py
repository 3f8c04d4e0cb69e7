"""Free lists for small objects: a deallocated object of the classes `REUSED` is kept, and becomes the next new object of the same class.

CPython's own allocation and deallocation take as long as the rest of an operation. So an emitted function replaces the deallocator of each
class (`tp_dealloc`). Like CPython, this function untracks the object in the collector, clears the weak references and drops the slots. Then
it keeps the memory, with empty slots. For an instance of a subclass, the interpreter has already done its own part and expects the memory
to be freed.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I64, POINTER, VOID
from ..objects import REFERENCES, REUSED, UNSEEN, Objects
from .function import Function

KEPT = 2048  # objects of each class


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    for cls in REUSED:
        module.variable(f"dead_{cls}", f"internal global [{1 + KEPT} x i64] zeroinitializer, align 64")
        _new(Function(module, objects, f"new_{cls}", []), cls)
        _dies(Function(module, objects, f"{cls}_dies", [("x", POINTER)], VOID, exported=True), cls)
    for cls in UNSEEN:
        if cls not in REUSED:
            f = Function(module, objects, f"new_{cls}", [])
            f.give(f.allocated(cls))


def _kept(f: Function, cls: str) -> tuple[Value, Value]:
    """Return the addresses of the length and of the items of a class's free list."""
    place = f.define(POINTER, f'getelementptr i64, ptr @dead_{cls}, i64 0')
    return place, place.at(1, I64)


def _new(f: Function, cls: str) -> None:
    """Emit `new_CLASS()`: return an object with empty slots, from the free list or newly allocated."""
    place, kept = _kept(f, cls)
    count = place.load(I64)
    f.when_giving(count.equals(0), lambda: f.allocated(cls))
    x = kept.at(count - 1, I64).load(POINTER)
    place.store(count - 1)
    f.at(x, REFERENCES).store(f.number(1))
    f.own(f.the(cls))
    if cls not in UNSEEN:
        f.call("PyObject_GC_Track", VOID, [x])
    f.give(x)


def _dies(f: Function, cls: str) -> None:
    """Emit `CLASS_dies(x)`: deallocate an object after its last reference is gone, or put it on the free list."""
    (x,) = f.arguments
    f.call("PyObject_GC_UnTrack", VOID, [x])
    if f.objects.weakly(cls):
        weakly = f.at(x, f.objects.weakly(cls)).load(POINTER)
        f.when(~f.is_null(weakly), lambda: f.call("PyObject_ClearWeakRefs", VOID, [x]))
    for slot in f.objects.slots_of(cls):
        place = f.at(x, slot)
        had = place.load(POINTER)
        place.store(f.nothing())
        f.when(~f.is_null(had), lambda had=had: f.drop(had))  # type: ignore[misc]
    place, kept = _kept(f, cls)
    count = place.load(I64)  # read late: dropping the slots may have deallocated more objects of the class

    def keep() -> list[Value]:
        kept.at(count, I64).store(x)
        place.store(count + 1)
        return []

    def give_back() -> list[Value]:
        f.call("PyObject_GC_Del", VOID, [x])
        return []

    kind = f.type_of(x)
    f.choose(f.both(f.is_the(kind, cls), lambda: count < KEPT), keep, give_back)
    f.drop(kind)  # only live objects refer to their type
    f.do("ret void")
