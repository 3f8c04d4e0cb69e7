"""Emitters for indexing by arrays of indices: the check of indices in memory, and the replay of a recorded, pending gather."""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I8, I64, POINTER, Type
from ..moves import INDICES
from ..objects import BYTES, Objects
from .function import Function
from .picking import WIDTHS
from .read import address_of
from .record import asked

# Byte offsets of the fields of an index array in a launch record: the number of its dtype, its element count (0: do not check), the bytes
# of an element, the stride in bytes, and the size of the indexed axis.
DTYPE, COUNT, ITEM, STEP, EXTENT, EACH = (8 * k for k in range(6))


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    for dtype in INDICES:
        lie = [("start", POINTER), ("count", I64), ("between", I64), ("size", I64)]
        _fit(Function(module, objects, f"{dtype}_fit", lie, I1), WIDTHS[dtype.itemsize], "zext" if dtype.kind == "uint" else "sext")
    _looked_at(Function(module, objects, "looked_at", [("key", POINTER), ("program", POINTER)], I1))
    _gathered(Function(module, objects, "gathered", [("x", POINTER), ("parts", POINTER), ("count", I64)]))


def _fit(f: Function, kind: Type, extend: str) -> None:
    """Emit `<dtype>_fit(start, count, between, size)`: return whether `count` indices are in range for an axis of `size` elements.

    `kind` is the LLVM type of the indices, and `extend` the instruction that extends them to 64 bits ("zext" or "sext"). `between` is the
    stride of the indices in bytes. Negative indices count from the end.
    """
    start, count, between, size = f.arguments

    def one(k: Value) -> None:
        index = start.at(k * between, I8).load(kind)
        index = index if kind is I64 else index.cast(extend, I64)
        f.require(f.both(index < size, lambda: index + size >= 0))

    f.each(count, one)
    f.give(f.constant(I1, True))


def _looked_at(f: Function) -> None:
    """Emit `looked_at(key, program)`: return whether the indices in the tensor `key` are in range.

    `program` is the address of the five words that describe the indices (`DTYPE` to `EXTENT`). The function returns true for a pending
    tensor: the gather checks its indices.
    """
    key, program = f.arguments
    node = f.get(f.get(key, "Tensor.storage"), "Storage.node")
    buffer = f.get(node, "Node.buffer")
    f.when_giving(f.is_the(buffer, "None"), lambda: f.constant(I1, True))
    start = address_of(f, buffer).at(f.integer(f.get(key, "Tensor.offset")) * f.word(program, ITEM), I8)
    given = [start, f.word(program, COUNT), f.word(program, STEP), f.word(program, EXTENT)]
    for number, dtype in enumerate(INDICES):
        f.when_giving(f.word(program, DTYPE).equals(number), lambda dtype=dtype: f.call(f"{dtype}_fit", I1, given))  # type: ignore[misc]
    f.decline()


def _gathered(f: Function) -> None:
    """Emit `gathered(x, parts, count)`: return `x[parts]`, a pending gather by the template recorded for such parts; return null without
    one, or without an array.
    """
    x, parts, count = f.arguments
    made = f.made(f.call("made_for", POINTER, [x, parts, count, f.nothing(), f.the("'__getitem__'")]))
    at = f.local(POINTER, f.at(f.get(made, "Made.frame"), BYTES))
    tensors = f.local(I64, f.number(1))

    def look(k: Value) -> None:
        part = parts.at(k, POINTER).load(POINTER)

        def at_indices() -> None:
            asked(f, part, "offset")
            f.require(f.is_a(f.get(part, "Tensor.storage"), "Storage"))
            f.require(f.call("looked_at", I1, [part, at.load(POINTER)]))
            at.store(f.at(at.load(POINTER), EACH))
            tensors.store(tensors.load(I64) + 1)

        f.when(f.is_a(part, "Tensor"), at_indices)

    f.each(count, look)
    f.require(tensors.load(I64) > 1)
    found = f.call("made_of", POINTER, [x, parts, count, tensors.load(I64), made])
    f.let_go(made)
    f.give(found)
