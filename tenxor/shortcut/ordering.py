"""Rows of tensors put in order, and places found among what is in order, as a program (`programs.py`) says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..backend.llvm.builder import Module, Value, intrinsic
from ..backend.llvm.types import DOUBLE, FLOAT, I1, I8, I32, I64, POINTER, Type, vector
from ..dtypes import DType
from ..host.orders import SEARCHED
from .boxes import FROM, PIECE
from .function import Function
from .looping import WAYS, operand_at, result_at
from .objects import BYTES, Objects
from .programs import ARGSORT, BEST, SEARCH, SORT

LANES = 8  # of floats that are looked at side by side
_FLOATS = (DOUBLE, FLOAT)
_KINDS = {"float64": DOUBLE, "float32": FLOAT, "int64": I64, "uint64": I64, "int32": I32, "uint32": I32}


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    given = [(name, POINTER) for name in ("program", "nodes", "starts", "found")]
    for kind in _FLOATS:
        _is_odd(Function(module, objects, f"is_odd_{kind.text}", [("start", POINTER), ("count", I64)], I1), kind)
    _sort(Function(module, objects, WAYS[SORT], given, I1))
    _sort_places(Function(module, objects, WAYS[ARGSORT], given, I1))
    lie = [("sorted", POINTER), ("size", I64), ("between", I64), ("wanted", POINTER), ("count", I64), ("apart", I64), ("to", POINTER)]
    for dtype in SEARCHED:
        if dtype.is_float:
            _numbers(Function(module, objects, f"numbers_{dtype}", lie[:3], I64), dtype)
        _search(Function(module, objects, f"search_{dtype}", [*lie, ("right", I1)], I1), dtype)
        rows = [("row", POINTER), ("size", I64), ("between", I64), ("values", POINTER), ("places", POINTER), ("count", I64), ("most", I64)]
        for largest in (False, True):
            _best(Function(module, objects, _name_of_best(dtype, largest), rows, I1), dtype, largest)
    _best_of_any(Function(module, objects, WAYS[BEST], given, I1))
    _search_any(Function(module, objects, WAYS[SEARCH], given, I1))


def _is_odd(f: Function, kind: Type) -> None:
    """Whether there is NaN among some floats, or a zero below 0."""
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
    """Copy rows to where they are to be, and sort each there."""
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
    """Sort the places of the elements of rows, which are copied first where they lie apart."""
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


def _copy(f: Function, nodes: Value, starts: Value, box: Value, to: Value) -> None:
    """Copy the elements of an operand."""
    f.call("copy_box", I1, [operand_at(f, nodes, starts, f.word(box, PIECE), f.word(box, FROM)), to, box])


def _call(f: Function, function: Value, given: Sequence[Value]) -> None:
    """Call a function of NumPy's that sorts, without an array; what had no memory for that is left to Python."""
    arguments = ", ".join([*map(repr, given), "ptr null"])
    f.require(f.define(I32, f"call i32 {function.text}({arguments})").equals(0))


def _search(f: Function, dtype: DType) -> None:
    """Before which of some sorted numbers others belong, or after which of those that are equal; NaN comes after all numbers.

    Half of what is left is passed over by a choice, not a branch, so that nothing is foreseen wrongly. (D. Knuth, The Art of Computer
    Programming, volume 3, 6.2.1: uniform binary search.)
    """
    ordered, size, between, wanted, count, apart, to, right = f.arguments
    kind = _KINDS[dtype.name]
    left_of, not_right_of = {"float": ("olt", "ole"), "int": ("slt", "sle"), "uint": ("ult", "ule")}[dtype.kind]

    def put_nan(place: Value, is_right: bool) -> None:
        place.store(size if is_right else f.call(f"numbers_{dtype}", I64, [ordered, size, between]))

    def find(k: Value, many: int, is_right: bool) -> None:
        """The places of some neighbours, side by side, as each waits for memory and for itself."""
        every = [wanted.at((k + j) * apart, I8).load(kind) for j in range(many)]
        begins, left = [f.local(I64, f.number(0)) for _ in every], f.local(I64, size)

        def passed(at: Value, y: Value) -> Value:
            """1 where the place of `y` is after a sorted one, else 0."""
            x = ordered.at(at * between, I8).load(kind)
            return x.compare(not_right_of if is_right else left_of, y).cast("zext", I64)

        def halve() -> None:
            half = left.load(I64).shifted_right(1)
            for begin, y in zip(begins, every, strict=True):
                before = begin.load(I64)
                begin.store(before + (half & (f.number(0) - passed(before + half - 1, y))))
            left.store(left.load(I64) - half)

        f.as_long_as(lambda: left.load(I64) > 1, halve)
        for j, (begin, y) in enumerate(zip(begins, every, strict=True)):
            last = begin.load(I64)
            to.at(k + j, I64).store(last + passed(last, y))
            if dtype.is_float:
                f.rarely(y.is_nan(), partial(put_nan, to.at(k + j, I64), is_right))

    def all_of_them(is_right: bool) -> None:
        whole = count >> 2
        f.each(whole, lambda k: find(k << 2, 4, is_right))
        f.each(count - (whole << 2), lambda k: find((whole << 2) + k, 1, is_right))

    f.when(right, lambda: all_of_them(True))
    f.when(~right, lambda: all_of_them(False))
    f.give(f.constant(I1, True))


def _numbers(f: Function, dtype: DType) -> None:
    """How many of some sorted floats are numbers: NaN comes after them."""
    ordered, size, between = f.arguments
    begin, left = f.local(I64, f.number(0)), f.local(I64, size)

    def is_number(at: Value) -> Value:
        return (~ordered.at(at * between, I8).load(_KINDS[dtype.name]).is_nan()).cast("zext", I64)

    def halve() -> None:
        half, before = left.load(I64).shifted_right(1), begin.load(I64)
        begin.store(before + half * is_number(before + half - 1))
        left.store(left.load(I64) - half)

    f.as_long_as(lambda: left.load(I64) > 1, halve)
    last = begin.load(I64)
    f.give(last + is_number(last))


def _search_any(f: Function) -> None:
    """The same for the dtype of a program."""
    program, nodes, starts, found = f.arguments
    number, right = f.word(program, 8), f.word(program, 16)
    lie: list[Value] = []
    for first in (24, 56):
        which, start, count, step = (f.word(program, first + 8 * k) for k in range(4))
        lie += (operand_at(f, nodes, starts, which, start), count, step)
    given = [*lie, result_at(f, found, 0), right.differs(0)]
    for k, dtype in enumerate(SEARCHED):
        f.when_giving(number.equals(k), lambda dtype=dtype: f.call(f"search_{dtype}", I1, given))  # type: ignore[misc]
    f.decline()


def _name_of_best(dtype: DType, largest: bool) -> str:
    return f"{'largest' if largest else 'smallest'}_{dtype}"


def _best(f: Function, dtype: DType, largest: bool) -> None:
    """The best of a row, in order, and their places; it declines where more than `most` of them would be moved on the way.

    Each is put where it belongs among the best of those before it. What is no better than the last of those is passed over, some at a time.
    """
    row, size, between, values, places, count, most = f.arguments
    kind, moved = _KINDS[dtype.name], f.local(I64, f.number(0))
    greater, less = ("ugt", "ult") if dtype.kind in ("float", "uint") else ("sgt", "slt")

    def is_better(x: Value, y: Value) -> Value:
        found = x.compare(greater if largest else less, y)
        return found & ~(y if largest else x).is_nan() if dtype.is_float else found

    def put(x: Value, k: Value, last: Value) -> None:
        """Put an element among so many."""
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
    """The best of each row, for the dtype of a program."""
    program, nodes, starts, found = f.arguments
    number, largest, which, start, rows, step, n, between, count, most = (f.word(program, 8 * k) for k in range(1, 11))
    first, values, places = operand_at(f, nodes, starts, which, start), result_at(f, found, 0), result_at(f, found, 1)
    for k, dtype in enumerate(SEARCHED):
        for j in range(2):

            def row(i: Value, dtype: DType = dtype, j: int = j) -> None:
                to = [values.at(i * count, _KINDS[dtype.name]), places.at(i * count, I64)]
                f.require(f.call(_name_of_best(dtype, j == 1), I1, [first.at(i * step, I8), n, between, *to, count, most]))

            f.when(number.equals(k) & largest.equals(j), lambda row=row: f.each(rows, row))  # type: ignore[misc]
    f.give(f.constant(I1, True))
