"""Sorting of rows, by values or by positions, and selection of their extreme elements, as bytecode programs (`programs.py`) ask for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.llvm.builder import Module, Value, intrinsic
from ...backend.llvm.types import DOUBLE, FLOAT, I1, I8, I32, I64, POINTER, Type, vector
from ...dtypes import DType
from ...host.orders import SEARCHED
from ..boxes import FROM, PIECE
from ..objects import BYTES, Objects
from ..programs import ARGSORT, BEST, LEXSORT, SORT
from .function import Function
from .looping import WAYS, operand_at, result_at

LANES = 8  # floats examined together
_FLOATS = (DOUBLE, FLOAT)
KINDS = {"float64": DOUBLE, "float32": FLOAT, "int64": I64, "uint64": I64, "int32": I32, "uint32": I32}


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    given = [(name, POINTER) for name in ("program", "nodes", "starts", "found")]
    for kind in _FLOATS:
        _is_odd(Function(module, objects, f"is_odd_{kind.text}", [("start", POINTER), ("count", I64)], I1), kind)
    _sort(Function(module, objects, WAYS[SORT], given, I1))
    _sort_places(Function(module, objects, WAYS[ARGSORT], given, I1))
    _sort_by_keys(Function(module, objects, WAYS[LEXSORT], given, I1))
    for dtype in SEARCHED:
        rows = [("row", POINTER), ("size", I64), ("between", I64), ("values", POINTER), ("places", POINTER), ("count", I64), ("most", I64)]
        for largest in (False, True):
            _best(Function(module, objects, _name_of_best(dtype, largest), rows, I1), dtype, largest)
    _best_of_any(Function(module, objects, WAYS[BEST], given, I1))


def _is_odd(f: Function, kind: Type) -> None:
    """Emit `is_odd_TYPE(start, count)`: return whether NaN or a negative zero is among `count` contiguous floats at `start`."""
    start, count = f.arguments

    def odd_at(k: Value, lanes: int) -> Value:
        x = start.at(k, kind).load(vector(kind, lanes))
        return x.is_nan() | x.as_bits().equals(-(1 << kind.bits - 1))

    whole = count >> LANES.bit_length() - 1
    many = f.fold(whole, f.zeros(vector(I1, LANES)), lambda k, before: before | odd_at(k * LANES, LANES))
    one = intrinsic("vector.reduce.or", many, result=I1, suffix=many.type.mangled)
    rest = f.fold(count - whole * LANES, one, lambda k, before: before | odd_at(whole * LANES + k, 0))
    f.give(rest)


def _sort(f: Function) -> None:
    """Emit `sort_rows(program, nodes, starts, found)`: copy rows to the result, and sort each there; return true.

    `nodes` and `starts` are the operand's node and byte offset, and `found` is the tuple with the result tensor. Rows with NaN or a
    negative zero need the stable function of NumPy if the program keeps their bits; otherwise the function returns false for them.
    """
    program, nodes, starts, found = f.arguments
    stable, quick, rows, n, item, looked_at, keeps = (f.word(program, 8 * k) for k in range(1, 8))
    to = result_at(f, found, 0)
    _copy(f, nodes, starts, f.at(program, 8 * 8), to)
    no, odd = f.constant(I1, False), [lambda kind=kind: [f.call(f"is_odd_{kind.text}", I1, [to, rows * n])] for kind in _FLOATS]
    (is_odd,) = f.choose(looked_at.equals(1), odd[0], lambda: f.choose(looked_at.equals(2), odd[1], lambda: [no]))
    f.refuse(is_odd & keeps.equals(0))
    function = f.selected(is_odd, stable, quick).cast("inttoptr", POINTER)
    f.each(rows, lambda k: _call(f, function, [to.at(k * n * item, I8), n]))
    f.give(f.constant(I1, True))


def _sort_places(f: Function) -> None:
    """Emit `sort_places(program, nodes, starts, found)`: write the positions that sort each row (argsort) into the result; return true.

    `nodes` and `starts` are the operand's node and byte offset, and `found` is the tuple with the result tensor. Rows that are not
    contiguous are copied first.
    """
    program, nodes, starts, found = f.arguments
    stable, rows, n, item, is_direct = (f.word(program, 8 * k) for k in range(1, 6))
    box, to = f.at(program, 6 * 8), result_at(f, found, 0)
    nbytes = f.selected(is_direct.equals(0), rows * n * item, f.number(0))
    memory = f.made(f.call("PyBytes_FromStringAndSize", POINTER, [f.nothing(), nbytes]))

    def copied() -> list[Value]:
        _copy(f, nodes, starts, box, f.at(memory, BYTES))
        return [f.at(memory, BYTES)]

    in_place = lambda: [operand_at(f, nodes, starts, f.word(box, PIECE), f.word(box, FROM))]  # noqa: E731
    (first,) = f.choose(is_direct.equals(0), copied, in_place)
    function = stable.cast("inttoptr", POINTER)

    def row(k: Value) -> None:
        places = to.at(k * n, I64)
        f.each(n, lambda j: places.at(j, I64).store(j))
        _call(f, function, [first.at(k * n * item, I8), places, n])

    f.each(rows, row)
    f.let_go(memory)
    f.give(f.constant(I1, True))


def _sort_by_keys(f: Function) -> None:
    """Emit `sort_by_keys(program, nodes, starts, found)`: write positions sorted by several keys in turn (lexsort); return true.

    `nodes` and `starts` are the keys' nodes and byte offsets, and `found` is the tuple with the result tensor.
    """
    program, nodes, starts, found = f.arguments
    keys, n = f.word(program, 8), f.word(program, 16)
    to = result_at(f, found, 0)
    f.each(n, lambda k: to.at(k, I64).store(k))

    def by_key(k: Value) -> None:
        stable, which, start = (f.at(program, 24).at(k * 3 + j, I64).load(I64) for j in range(3))
        _call(f, stable.cast("inttoptr", POINTER), [operand_at(f, nodes, starts, which, start), to, n])

    f.each(keys, by_key)
    f.give(f.constant(I1, True))


def _copy(f: Function, nodes: Value, starts: Value, box: Value, to: Value) -> None:
    """Emit the copy of an operand's elements to the address `to`. `box` is the address of the copy descriptor (`boxes.py`), and `nodes` and
    `starts` are the operands' nodes and byte offsets.
    """
    f.call("copy_box", I1, [operand_at(f, nodes, starts, f.word(box, PIECE), f.word(box, FROM)), to, box])


def _call(f: Function, function: Value, given: Sequence[Value]) -> None:
    """Emit a call of a sorting function of NumPy with the arguments `given`, and null for the array object.

    The emitted function returns null or 0 if the call runs out of memory.
    """
    arguments = ", ".join([*map(repr, given), "ptr null"])
    f.require(f.define(I32, f"call i32 {function.text}({arguments})").equals(0))


def _name_of_best(dtype: DType, largest: bool) -> str:
    """Return the name of the emitted function that finds the largest, or smallest, elements of a row."""
    return f"{'largest' if largest else 'smallest'}_{dtype}"


def _best(f: Function, dtype: DType, largest: bool) -> None:
    """Emit `largest_DTYPE(row, size, between, values, places, count, most)` or `smallest_DTYPE`: write the `count` extreme elements of a
    row of `size` elements to `values`, the most extreme first, and their positions to `places`.

    `between` is the stride of the row in bytes. Each element is inserted among the best so far. Elements no better than the last of the
    best are skipped, several at a time. The function returns false after more than `most` moves.
    """
    row, size, between, values, places, count, most = f.arguments
    kind, moved = KINDS[dtype.name], f.local(I64, f.number(0))
    greater, less = ("ugt", "ult") if dtype.kind in ("float", "uint") else ("sgt", "slt")

    def is_better(x: Value, y: Value) -> Value:
        found = x.compare(greater if largest else less, y)
        return found & ~(y if largest else x).is_nan() if dtype.is_float else found

    def put(x: Value, k: Value, last: Value) -> None:
        """Emit the insertion of `x`, element `k` of the row, among the first `last` of the best elements."""
        at = f.local(I64, last)
        is_before = lambda: is_better(x, values.at(at.load(I64) - 1, kind).load(kind))  # noqa: E731

        def move() -> None:
            to = at.load(I64)
            for where, its in ((values, kind), (places, I64)):
                where.at(to, its).store(where.at(to - 1, its).load(its))
            at.store(to - 1)

        f.as_long_as(lambda: f.both(at.load(I64) > 0, is_before), move)
        values.at(at.load(I64), kind).store(x)
        places.at(at.load(I64), I64).store(k)
        moved.store(moved.load(I64) + last - at.load(I64))

    def one(k: Value) -> None:
        x = row.at(k * between, I8).load(kind)
        f.rarely(is_better(x, values.at(count - 1, kind).load(kind)), lambda: put(x, k, count - 1))

    def some(k: Value) -> None:
        first = count + k * LANES
        worst, many = values.at(count - 1, kind).load(kind).splat(LANES), row.at(first, kind).load(vector(kind, LANES))
        may_be = many.compare(greater if largest else less, worst)

        def each() -> None:
            f.each(f.number(LANES), lambda j: one(first + j))
            f.require(moved.load(I64) <= most)

        f.rarely(intrinsic("vector.reduce.or", may_be, result=I1, suffix=may_be.type.mangled), each)

    f.each(count, lambda k: put(row.at(k * between, I8).load(kind), k, k))
    rest = size - count
    whole = f.selected(between.equals(kind.bytes), rest >> LANES.bit_length() - 1, f.number(0))
    f.each(whole, some)
    f.each(rest - whole * LANES, lambda k: one(count + whole * LANES + k))
    f.give(moved.load(I64) <= most)


def _best_of_any(f: Function) -> None:
    """Emit `best_of_rows(program, nodes, starts, found)`: write the extreme elements of each row and their positions (topk); return
    success.

    `nodes` and `starts` are the operand's node and byte offset, and `found` is the tuple of the two result tensors.
    """
    program, nodes, starts, found = f.arguments
    number, largest, which, start, rows, step, n, between, count, most = (f.word(program, 8 * k) for k in range(1, 11))
    first, values, places = operand_at(f, nodes, starts, which, start), result_at(f, found, 0), result_at(f, found, 1)
    for k, dtype in enumerate(SEARCHED):
        for j in range(2):

            def row(i: Value, dtype: DType = dtype, j: int = j) -> None:
                to = [values.at(i * count, KINDS[dtype.name]), places.at(i * count, I64)]
                f.require(f.call(_name_of_best(dtype, j == 1), I1, [first.at(i * step, I8), n, between, *to, count, most]))

            f.when(number.equals(k) & largest.equals(j), lambda row=row: f.each(rows, row))  # type: ignore[misc]
    f.give(f.constant(I1, True))
