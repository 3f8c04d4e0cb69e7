"""What becomes of small objects of ours when they die: some of each class are kept, and used again.

Python's own way to make an object and to let it go takes as long as all else that an operation does. So machine code stands in the place of
what the interpreter calls when the last reference to one has gone (`tp_dealloc`). It does the same: it has the collector forget the object,
tells those who refer to it weakly, and lets go of what is in its slots. Then it keeps the memory, with all slots empty, for the next one.
Of a subclass the interpreter has done its part before, and expects that the memory is given back.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I64, POINTER, VOID
from ..objects import REFERENCES, REUSED, UNSEEN, Objects
from .function import Function

KEPT = 2048  # of each class


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    for cls in REUSED:
        module.variable(f"dead_{cls}", f"internal global [{1 + KEPT} x i64] zeroinitializer, align 64")
        _new(Function(module, objects, f"new_{cls}", []), cls)
        _dies(Function(module, objects, f"{cls}_dies", [("x", POINTER)], VOID, exported=True), cls)
    for cls in UNSEEN:
        if cls not in REUSED:
            f = Function(module, objects, f"new_{cls}", [])
            f.give(f.allocated(cls))


def _kept(f: Function, cls: str) -> tuple[Value, Value]:
    """Where it is said how many are kept, and the places for them."""
    place = f.define(POINTER, f'getelementptr i64, ptr @dead_{cls}, i64 0')
    return place, place.at(1, I64)


def _new(f: Function, cls: str) -> None:
    """A new object, all of whose slots are empty."""
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
    """The last reference to an object has gone."""
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
    count = place.load(I64)  # only now, as whatever died may have had others die

    def keep() -> list[Value]:
        kept.at(count, I64).store(x)
        place.store(count + 1)
        return []

    def give_back() -> list[Value]:
        f.call("PyObject_GC_Del", VOID, [x])
        return []

    kind = f.type_of(x)
    f.choose(f.both(f.is_the(kind, cls), lambda: count < KEPT), keep, give_back)
    f.drop(kind)  # which only those that live refer to
    f.do("ret void")
