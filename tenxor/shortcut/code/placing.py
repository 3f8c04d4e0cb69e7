"""Writes at a mask or at indices along the first axis (`x[key] = value`): a value is rows, a single row for each index, or a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I8, I64, POINTER
from ...dtypes import float64, int64
from ..moves import ITEM, KIND, MASK, WIDTH, WRITABLE
from ..objects import BYTES, SIZE, Objects
from .blocks import data_of
from .function import Function
from .later import is_written_where
from .picking import content_of_key, found_picked, mask_of, places_for, start_of
from .record import ask_all
from .specs import nbytes_of
from .write import compute_storage, number_for, own_memory


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    for name, adds in (("set_picked", False), ("add_picked", True)):
        _set_picked(Function(module, objects, name, [(name, POINTER) for name in ("x", "key", "value")]), adds)


def _set_picked(f: Function, adds: bool) -> None:
    """Emit `set_picked(x, key, value)` for `x[key] = value`, or `add_picked` (`adds`), which accumulates rows at indices.

    `value` is as many rows as the key selects, a single row, or a number. The function returns None, or null to leave the work to the
    fallback.
    """
    x, key, value = f.arguments
    made = found_picked(f, x, key, pending=adds)
    ask_all(f, value)
    frame = f.get(made, "Made.frame")
    program = f.at(frame, BYTES)
    f.require(f.word(program, WRITABLE).differs(0))
    storage = f.hold(f.get(x, "Tensor.storage"))
    f.require(f.is_a(storage, "Storage"))
    if not adds:
        held = list(f._held)

        def done() -> Value:
            f.let_go(storage, made)
            return f.own(f.the("None"))

        f.when_giving(is_written_where(f, x, key, value, frame), done)
        f._held[:] = held
    asked = content_of_key(f, key, f.the("None"))
    dtype, width = f.get(x, "Tensor.dtype"), f.word(program, WIDTH)
    if adds:
        f.require(f.is_the(dtype, float64.name) | f.is_the(dtype, int64.name))
        f.require(f.word(program, KIND).differs(MASK))

    def of_tensor() -> Value:
        f.require(f.get(value, "Tensor.dtype").equals(dtype))
        return f.made(f.call("content", POINTER, [value, f.constant(I1, True)]))

    def of_rows() -> list[Value]:
        f.refuse(f.get(value, "Tensor.storage").equals(storage))
        node = of_tensor()
        f.keeps(node)
        return [node, start_of(f, value, f.get(node, "Node.buffer"), program), width]

    def one_row(source: Value, put: Callable[[Value], object]) -> list[Value]:
        """Emit the allocation of a row, filled by the code of `put`, and the release of `source`. Return block, address and distance 0."""
        row = f.made(f.call("lend", POINTER, [width]))
        start = data_of(f, row)
        put(start)
        f.let_go(source)
        f.keeps(row)
        return [row, start, f.number(0)]

    def of_row() -> list[Value]:
        """Emit a copy of the row, since it may be among the written rows."""
        node = of_tensor()
        first = start_of(f, value, f.get(node, "Node.buffer"), program)
        return one_row(node, lambda start: f.call("memcpy", POINTER, [start, first, width]))

    def of_number() -> list[Value]:
        number = number_for(f, value, dtype)

        def put(start: Value) -> None:
            f.require(f.call("put_number", I1, [start, dtype, f.number(0), number]))
            _fill(f, start, f.word(program, ITEM), width)

        return one_row(number, put)

    is_tensor = f.is_a(value, "Tensor")
    several = f.both(is_tensor, lambda: f.get(f.get(value, "Tensor.spec"), "Spec.size").differs(f.the("1")))
    is_row = f.both(several, lambda: _is_row(f, x, key, value, program))
    source, near, along = f.choose(several, lambda: f.choose(is_row, of_row, of_rows), of_number)
    f.holding(source)
    block = places_for(f, program)
    places = data_of(f, block)
    count = f.call("select_rows", I64, [key, asked, frame, places])
    f.require(count > 0)

    def are_as_many() -> None:
        rows = f.made(f.call("of_rows", POINTER, [made, count]))
        f.require(f.get(rows, "Made.spec").equals(f.get(value, "Tensor.spec")))
        f.let_go(rows)

    f.when(f.both(several, lambda: ~is_row), are_as_many)
    compute_storage(f, storage)
    buffer = own_memory(f, storage, asked, dtype)
    rows = [near, start_of(f, x, buffer, program), places, mask_of(f, key, asked, program), frame, count, along]
    f.call(*("add_rows", I1, [*rows, dtype]) if adds else ("write_rows", I1, rows))
    f.let_go(block, source, asked, storage, made)
    f.give(f.own(f.the("None")))


def _is_row(f: Function, x: Value, key: Value, value: Value, program: Value) -> Value:
    """Emit a test whether `value` is a contiguous vector with the layout of each row that the key selects from `x`.

    `program` is the address of the copy descriptor of the rows.
    """

    def ndim(y: Value) -> Value:
        return f.word(f.get(f.get(y, "Tensor.spec"), "Spec.shape"), SIZE)

    spec, is_mask = f.get(value, "Tensor.spec"), f.word(program, KIND).equals(MASK)
    (axes,) = f.choose(is_mask, lambda: [ndim(key)], lambda: [f.number(1)])
    is_vector = f.both(ndim(value).equals(1), lambda: ndim(x).equals(axes + 1))
    lies_so = f.both(is_vector, lambda: f.is_the(f.get(spec, "Spec.gapless"), "True"))
    return f.both(lies_so, lambda: nbytes_of(f, spec).equals(f.word(program, WIDTH)))


def _fill(f: Function, start: Value, item: Value, width: Value) -> None:
    """Emit code to repeat the first `item` bytes at `start` over a row of `width` bytes."""

    def double(now: Sequence[Value]) -> list[Value]:
        (filled,) = now
        more = f.selected(filled < width - filled, filled, width - filled)
        f.call("memcpy", POINTER, [start.at(filled, I8), start, more])
        return [filled + more]

    f.changing([item], lambda now: now[0] < width, double)
