"""Concatenation of many tensors: contiguous data in memory and known scalars are copied in one call."""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I8, I64, POINTER
from ...tensor.copying import COLUMNS
from ..objects import SIZE, Objects
from .follow import tracks
from .function import Function
from .read import address_of
from .record import asked


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    called = [("self", POINTER), ("args", POINTER), ("count", I64)]
    pieces = [("pieces", POINTER), ("table", POINTER)]
    _is_there(Function(module, objects, "is_there", [("storage", POINTER)], I1))
    _specs(Function(module, objects, "specs_into", pieces, I1))
    _copied(Function(module, objects, "copied_from", [*pieces, ("rows", I64), ("stride", I64)], I1))
    alike = [(name, I64) for name in ("width", "itemsize", "rows", "stride")]
    _copied_alike(Function(module, objects, "copied_alike", [("pieces", POINTER), ("to", POINTER), *alike], I1))
    _for_python(Function(module, objects, "specs_of", called, exported=True), "specs_into", 0)
    _for_python(Function(module, objects, "copy_pieces", called, exported=True), "copied_from", 2)
    _for_python(Function(module, objects, "copy_alike", called, exported=True), "copied_alike", 4)


def _for_python(f: Function, function: str, numbers: int) -> None:
    """Emit an entry for Python: call a function with a tuple, an address and `numbers` integers, and return its truth value as a bool."""
    _, args, _ = f.arguments
    pieces, *given = (args.at(k, POINTER).load(POINTER) for k in range(2 + numbers))
    address, *others = (f.integer(x) for x in given)
    done = f.call(function, I1, [pieces, address.cast("inttoptr", POINTER), *others])
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    f.give(f.truth(done))


def _is_number(f: Function, storage: Value) -> Value:
    """Emit a test whether a storage holds a known scalar and no node."""
    return f.both(f.is_a(storage, "Element"), lambda: ~f.is_the(f.get(storage, "Element._number"), "None"))


def _is_there(f: Function) -> None:
    """Emit `is_there(storage)`: return whether the content is in memory or a known scalar, and no tape has to record the copy."""
    (storage,) = f.arguments
    f.when_giving(_is_number(f, storage), lambda: f.constant(I1, True))
    f.require(f.either(f.is_a(storage, "Storage"), lambda: f.is_a(storage, "Element")))
    node = f.get(storage, "Storage.node")
    f.refuse(f.is_null(node))
    f.refuse(f.is_the(f.get(node, "Node.buffer"), "None"))
    f.give(f.either(f.is_the(f.get(node, "Node.past"), "None"), lambda: ~tracks(f)))


def _specs(f: Function) -> None:
    """Emit `specs_into(pieces, table)`: write the address of each tensor's spec into the first column of a table.

    The function returns false unless each piece is a tensor for which `is_there` holds.
    """
    pieces, table = f.arguments

    def one(k: Value) -> None:
        x = f.item(pieces, k)
        f.require(f.is_a(x, "Tensor"))
        f.require(f.call("is_there", I1, [f.get(x, "Tensor.storage")]))
        spec, _ = asked(f, x, "spec"), asked(f, x, "offset")
        table.at(k, I64).store(spec)

    f.each(f.word(pieces, SIZE), one)
    f.give(f.constant(I1, True))


def _copied(f: Function) -> None:
    """Emit `copied_from(pieces, table, rows, stride)`: copy tensors, each in `rows` rows that are `stride` bytes apart in the destination.

    The columns of the table are the spec, the destination, the bytes of a row, and the bytes of an element. The function returns false if a
    tensor's spec has changed.
    """
    pieces, table, rows, stride = f.arguments
    count = f.word(pieces, SIZE)

    def one(k: Value) -> None:
        x = f.item(pieces, k)
        spec, to, width, itemsize = (table.at(k + count * n, I64) for n in range(COLUMNS))
        f.require(f.get(x, "Tensor.spec").equals(spec.load(POINTER)))
        _copy(f, x, to.load(POINTER), width.load(I64), itemsize.load(I64), rows, stride)

    f.each(count, one)
    f.give(f.constant(I1, True))


def _copied_alike(f: Function) -> None:
    """Emit `copied_alike(pieces, to, width, itemsize, rows, stride)`: copy tensors of one spec to the address `to`, each in `rows` rows of
    `width` bytes that are `stride` bytes apart there.

    The function returns false if the specs differ. In each row of the destination, the tensors' rows stand side by side.
    """
    pieces, to, width, itemsize, rows, stride = f.arguments
    spec = f.get(f.item(pieces, 0), "Tensor.spec")
    f.refuse(f.is_null(spec))

    def one(k: Value) -> None:
        x = f.item(pieces, k)
        f.require(f.is_a(x, "Tensor"))
        f.require(f.get(x, "Tensor.spec").equals(spec))
        f.refuse(f.is_null(f.get(x, "Tensor.offset")))
        _copy(f, x, to.at(k * width, I8), width, itemsize, rows, stride)

    f.each(f.word(pieces, SIZE), one)
    f.give(f.constant(I1, True))


def _copy(f: Function, x: Value, to: Value, width: Value, itemsize: Value, rows: Value, stride: Value) -> None:
    """Emit the copy of one tensor, in memory or a known scalar, to the address `to`: `rows` rows of `width` bytes, `stride` bytes apart."""
    storage = f.get(x, "Tensor.storage")

    def a_number() -> list[Value]:
        dtype, number = f.get(x, "Tensor.dtype"), f.get(storage, "Element._number")
        f.require(f.get(storage, "Element._dtype").equals(dtype))
        f.require(f.call("put_number", I1, [to, dtype, f.number(0), number]))
        return []

    def memory() -> list[Value]:
        f.require(f.call("is_there", I1, [storage]))
        offset = f.integer(f.get(x, "Tensor.offset")) * itemsize
        source = address_of(f, f.get(f.get(storage, "Storage.node"), "Node.buffer")).at(offset, I8)
        f.each(rows, lambda n: f.call("memcpy", POINTER, [to.at(n * stride, I8), source.at(n * width, I8), width]))
        return []

    f.choose(_is_number(f, storage), a_number, memory)
