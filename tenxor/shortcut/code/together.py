"""Many tensors put together: what is in memory without gaps, and elements that are known, are copied in one go."""

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
    """Write the functions."""
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
    """Call a function with a tuple, an address and so many numbers; for Python, to which it says whether that was done."""
    _, args, _ = f.arguments
    pieces, *given = (args.at(k, POINTER).load(POINTER) for k in range(2 + numbers))
    address, *others = (f.integer(x) for x in given)
    done = f.call(function, I1, [pieces, address.cast("inttoptr", POINTER), *others])
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    f.give(f.truth(done))


def _is_number(f: Function, storage: Value) -> Value:
    """Whether a storage is an element that is known, of which nobody asked for more."""
    return f.both(f.is_a(storage, "Element"), lambda: ~f.is_the(f.get(storage, "Element._number"), "None"))


def _is_there(f: Function) -> None:
    """Whether the content of a storage is in memory, or a number, and no derivative asks how it was made: none, or none now."""
    (storage,) = f.arguments
    f.when_giving(_is_number(f, storage), lambda: f.constant(I1, True))
    f.require(f.either(f.is_a(storage, "Storage"), lambda: f.is_a(storage, "Element")))
    node = f.get(storage, "Storage.node")
    f.refuse(f.is_null(node))
    f.refuse(f.is_the(f.get(node, "Node.buffer"), "None"))
    f.give(f.either(f.is_the(f.get(node, "Node.past"), "None"), lambda: ~tracks(f)))


def _specs(f: Function) -> None:
    """Write the address of the spec of each of many tensors in memory into the first column of the table."""
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
    """Copy tensors that have the specs in the table, each in so many rows, which are `stride` bytes apart where they go. The other
    columns of the table say where that begins, how many bytes each row has, and how many an element.
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
    """The same for tensors of one spec, with rows of `width` bytes, of which those of one tensor follow those of the other."""
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
    """Copy one tensor."""
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
