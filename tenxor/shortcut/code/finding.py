"""Emitters for `bincount` and `unique`: the sizes of the results are known only when the values are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...backend.llvm.builder import Module, Value, intrinsic, select
from ...backend.llvm.types import DOUBLE, FLOAT, I1, I8, I16, I32, I64, POINTER, Type, int_type, vector
from ...dtypes import DType
from ...host.counts import ALL, COUNTED, COUNTS, INVERSE
from ..boxes import FROM, PIECE
from ..limits import IN_ORDER, LARGEST
from ..objects import BYTES, ITEMS, Objects
from ..programs import BINCOUNT
from .function import Function
from .looping import given_back, lying, operand_at, read_operands, result_at

LANES = 8  # of the vectors in which elements are compared
UNROLLED = 4  # iterations of a counting loop
_WIDTHS = (8, 16, 32, 64)  # bits of elements that are compared
KINDS = (I8, I16, I32, I64, FLOAT, DOUBLE)  # types of sorted elements, compared as numbers in vectors: NaN differs from NaN


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    for dtype in COUNTED:
        lie = [("start", POINTER), ("count", I64), ("apart", I64)]
        _range(Function(module, objects, f"range_{dtype}", [*lie, ("ends", POINTER)], I1), dtype)
        _count(Function(module, objects, f"count_{dtype}", [*lie, ("to", POINTER)], I1), dtype)
        _weigh(Function(module, objects, f"weigh_{dtype}", [*lie, ("weights", POINTER), ("beside", I64), ("to", POINTER)], I1), dtype)
    for name, kind in zip(IN_ORDER, KINDS, strict=True):
        in_order, to = [("start", POINTER), ("count", I64)], ("to", POINTER)
        _distinct_in_order(Function(module, objects, f"distinct_{name}", in_order, I64, exported=True), kind)
        _put_in_order(Function(module, objects, f"put_{name}", [*in_order, to], I64, exported=True), kind)
    for bits in _WIDTHS:
        runs = [(name, POINTER) for name in ("start", "places", "values", "indices", "inverse", "counts")]
        _distinct(Function(module, objects, f"runs_{bits}", [*runs[:2], ("count", I64)], I64), bits)
        _put_runs(Function(module, objects, f"put_runs_{bits}", [*runs, ("count", I64)], I1), bits)
    given = [(name, POINTER) for name in ("program", "nodes", "starts", "tables")]
    _of_size(Function(module, objects, "of_size", [("table", POINTER), ("size", I64)]))
    _bincount(Function(module, objects, "bincount", given))
    _unique(Function(module, objects, "unique", given))
    arguments = [("x", POINTER), ("args", POINTER), ("given", I64), ("tensors", I64), ("made", POINTER)]
    _found(Function(module, objects, "made_found", arguments))


def _found(f: Function) -> None:
    """Emit `made_found(x, args, given, tensors, made)`: return the result of a recorded call of `bincount` or `unique`.

    `made` is the template of the call. `args` is the address of the `given` arguments after `x`; `tensors` counts the tensors with `x`.
    """
    x, args, given, tensors, made = f.arguments
    program, tables = f.at(f.get(made, "Made.loop"), BYTES), f.get(made, "Made.parts")
    nodes, starts = read_operands(f, x, args, given, tensors)
    ask = [partial(f.call, name, POINTER, [program, nodes, starts, tables]) for name in ("bincount", "unique")]
    (found,) = f.choose(f.word(program, 0).equals(BINCOUNT), lambda: [ask[0]()], lambda: [ask[1]()])
    f.made(found)
    f.let_go(nodes)
    f.give(given_back(f, made, found))


def _of_size(f: Function) -> None:
    """Emit `of_size(table, size)`: return a new 1-d tensor in memory; `table` maps the size to the template with its recipe and spec."""
    table, size = f.arguments
    key = f.as_object(size)
    made = f.made(f.call("PyObject_GetItem", POINTER, [table, key]))
    found = f.made(f.call("new_blank", POINTER, [f.get(made, "Made.recipe"), f.get(made, "Made.spec")]))
    f.let_go(key, made)
    f.keeps(found)
    f.give(found)


def _tensors(f: Function, tables: Value, sizes: Sequence[Value]) -> Value:
    """Emit the creation of a tuple of 1-d tensors of these sizes, which is held (see `Function.hold`). Item k of `tables` maps sizes to
    templates of tensor k.
    """
    found = f.made(f.call("PyTuple_New", POINTER, [f.number(len(sizes))]))
    for k, size in enumerate(sizes):
        one = f.made(f.call("of_size", POINTER, [f.item(tables, k), size]))
        f.at(found, ITEMS).at(k, POINTER).store(one)
        f.keeps(one)
    return found


# --- bincount ---------------------------------------------------------------------------------------------------------


def _integer_at(f: Function, dtype: DType, place: Value) -> Value:
    """Emit the load of an integer of a dtype, extended to 64 bits."""
    kind = int_type(dtype.bits)
    found = place.load(kind)
    return found if kind is I64 else found.cast("sext" if dtype.kind == "int" else "zext", I64)


def _range(f: Function, dtype: DType) -> None:
    """Emit `range_<dtype>(start, count, apart, ends)`: store the minimum and the maximum of `count` >= 1 integers as two words at `ends`.

    `apart` is the stride of the integers in bytes. The function returns true.
    """
    start, count, apart, ends = f.arguments
    kind, letter = int_type(dtype.bits), "s" if dtype.kind == "int" else "u"
    first = start.load(kind)
    whole = f.selected(apart.equals(kind.bytes), count >> LANES.bit_length() - 1, f.number(0))

    def extreme(name: str, x: Value, y: Value) -> Value:
        return intrinsic(f"{letter}{name}", x, y)

    def some(k: Value, before: Sequence[Value]) -> Sequence[Value]:
        x = start.at(k * LANES, kind).load(vector(kind, LANES))
        return [extreme(name, y, x) for name, y in zip(("min", "max"), before, strict=True)]

    def one(k: Value, before: Sequence[Value]) -> Sequence[Value]:
        x = start.at((whole * LANES + k) * apart, I8).load(kind)
        return [extreme(name, y, x) for name, y in zip(("min", "max"), before, strict=True)]

    many = f.folded(whole, [first.splat(LANES)] * 2, some)
    joined = [
        intrinsic(f"vector.reduce.{letter}{name}", x, result=kind, suffix=x.type.mangled)
        for name, x in zip(("min", "max"), many, strict=True)
    ]
    for k, x in enumerate(f.folded(count - whole * LANES, joined, one)):
        ends.at(k, I64).store(x if kind is I64 else x.cast("sext" if letter == "s" else "zext", I64))
    f.give(f.constant(I1, True))


def _count(f: Function, dtype: DType) -> None:
    """Emit `count_<dtype>(start, count, apart, to)`: add 1 to `to[i]`, an array of int64, for each of `count` integers i.

    `apart` is the stride of the integers in bytes. The function returns true.
    """
    start, count, apart, to = f.arguments

    def one(at: Value, _: Value) -> None:
        place = to.at(_integer_at(f, dtype, at), I64)
        place.store(place.load(I64) + 1)

    _each_of(f, dtype, start, count, apart, one, f.constant(I1, True))


def _weigh(f: Function, dtype: DType) -> None:
    """Emit `weigh_<dtype>(start, count, apart, weights, beside, to)`: add the weight of each of `count` integers i to `to[i]`, in order.

    `to` is an array of float64. `apart` and `beside` are the strides in bytes of the integers and the weights. The function returns true.
    """
    start, count, apart, weights, beside, to = f.arguments

    def one(at: Value, weight: Value) -> None:
        place = to.at(_integer_at(f, dtype, at), DOUBLE)
        place.store(place.load(DOUBLE) + weight.load(DOUBLE))

    _each_of(f, dtype, start, count, apart, one, beside.equals(8), weights, beside)


def _each_of(
    f: Function,
    dtype: DType,
    start: Value,
    count: Value,
    apart: Value,
    one: Callable[[Value, Value], None],
    are_neighbours: Value,
    weights: Value | None = None,
    beside: Value | None = None,
) -> None:
    """Emit a loop that calls `one(address of integer, address of weight)`, unrolled where integers, and weights if any, are contiguous.

    There are `count` integers of `dtype`, beginning at `start`.
    `apart` and `beside` are the strides in bytes of integers and weights, and `are_neighbours` tells whether the weights are contiguous;
    without weights (None), the second address has no meaning. The function being emitted returns true.
    """
    kind, other = int_type(dtype.bits), start if weights is None else weights
    whole = f.selected(apart.equals(kind.bytes) & are_neighbours, count >> UNROLLED.bit_length() - 1, f.number(0))

    def some(k: Value) -> None:
        first, second = start.at(k * UNROLLED, kind), other.at(k * UNROLLED, I64)
        for j in range(UNROLLED):
            one(first.at(j, kind), second.at(j, I64))

    def another(k: Value) -> None:
        at = k + whole * UNROLLED
        one(start.at(at * apart, I8), other.at(at * (apart if beside is None else beside), I8))

    f.each(whole, some)
    f.each(count - whole * UNROLLED, another)
    f.give(f.constant(I1, True))


def _bincount(f: Function) -> None:
    """Emit `bincount(program, nodes, starts, tables)`: return the counts of the integers, or the sums of their weights; return null for
    negative integers and results beyond small memory.
    """
    program, _, _, tables = f.arguments
    number, least, weighed = (f.word(program, 8 * k) for k in range(1, 4))
    lie = lying(f, (32,))
    ends = f.local(vector(I64, 2))
    for k, dtype in enumerate(COUNTED):
        f.when(number.equals(k), lambda dtype=dtype: f.call(f"range_{dtype}", I1, [*lie, ends]))  # type: ignore[misc]
    low, high = ends.load(I64), ends.at(1, I64).load(I64)
    f.require(low >= 0)
    f.require(high < LARGEST // 8)
    size = select(high < least, least, high + 1)
    f.require(size <= LARGEST // 8)
    found = _tensors(f, tables, [size])
    to = result_at(f, found, 0)
    f.each(size, lambda k: to.at(k, I64).store(f.number(0)))
    for k, dtype in enumerate(COUNTED):

        def of_dtype(dtype: DType = dtype) -> None:
            def weigh() -> Sequence[Value]:
                weights, _, beside = lying(f, (64,))
                return [f.call(f"weigh_{dtype}", I1, [*lie, weights, beside, to])]

            f.choose(weighed.differs(0), weigh, lambda: [f.call(f"count_{dtype}", I1, [*lie, to])])

        f.when(number.equals(k), of_dtype)
    f.keeps(found)
    f.give(found)


# --- unique -----------------------------------------------------------------------------------------------------------


def _at(f: Function, kind: Type, places: Value | None, k: Value) -> tuple[Value, Value]:
    """Emit the load of element `k` in sorted order. Return the element and its position in memory.

    `places` is the address of the permutation that sorts the elements, or None if they are stored in order. The elements begin at the first
    argument of the function being emitted.
    """
    start = f.arguments[0]
    at = k if places is None else places.at(k, I64).load(I64)
    return start.at(at, kind).load(kind), at


def _differ(start: Value, kind: Type, k: Value, lanes: int) -> tuple[Value, Value]:
    """Emit the load of `lanes` elements (0: a scalar) of the array at `start`, from position `k` >= 1 on. Return these, and whether each
    differs from the element before it.
    """
    x, before = (start.at(k - j, kind).load(vector(kind, lanes)) for j in (0, 1))
    return x, x.differs(before)


def _distinct_in_order(f: Function, kind: Type) -> None:
    """Emit `distinct_<type>(start, count)`: return the number of distinct values among `count` >= 1 sorted elements."""
    start, count = f.arguments
    whole = (count - 1) >> LANES.bit_length() - 1

    def some(k: Value, found: Value) -> Value:
        return found + _differ(start, kind, k * LANES + 1, LANES)[1].cast("zext", I64)

    many = f.fold(whole, f.zeros(vector(I64, LANES)), some)
    found = intrinsic("vector.reduce.add", many, result=I64, suffix=many.type.mangled) + 1
    done = whole * LANES + 1
    f.give(f.fold(count - done, found, lambda k, found: found + _differ(start, kind, done + k, 0)[1].cast("zext", I64)))


def _put_in_order(f: Function, kind: Type) -> None:
    """Emit `put_<type>(start, count, to)`: store the distinct values among `count` >= 1 sorted elements at `to`; return their number."""
    start, count, to = f.arguments
    whole = (count - 1) >> LANES.bit_length() - 1

    def put(x: Value, differs: Value, last: Value, kept: Value) -> list[Value]:
        last, kept = last + differs.cast("zext", I64), select(differs, x, kept)
        to.at(last, kind).store(kept)  # without a new value, the last one again: of zeros of both signs the first stays
        return [last, kept]

    def some(k: Value, before: Sequence[Value]) -> Sequence[Value]:
        x, differ = _differ(start, kind, k * LANES + 1, LANES)
        bits = differ.bitcast(int_type(LANES))

        def all_differ() -> Sequence[Value]:
            to.at(before[0] + 1, kind).store(x)
            return [before[0] + LANES, x.lane(LANES - 1)]

        def some_differ() -> Sequence[Value]:
            now = before
            for j in range(LANES):
                now = put(x.lane(j), differ.lane(j), *now)
            return now

        return f.choose(bits.equals(-1), all_differ, lambda: f.choose(bits.equals(0), lambda: before, some_differ))

    first, done = start.load(kind), whole * LANES + 1
    to.store(first)
    now = f.folded(whole, [f.number(0), first], some)
    now = f.folded(count - done, now, lambda k, before: put(*_differ(start, kind, done + k, 0), *before))
    f.give(now[0] + 1)


def _distinct(f: Function, bits: int) -> None:
    """Emit `runs_<bits>(start, places, count)`: return the number of runs of equal elements among `count` >= 1 elements at `start`.

    They are read in the order of the permutation `places`, or as they stand if `places` is null.
    """
    start, places, count = f.arguments
    kind = int_type(bits)

    f.when_giving(f.is_null(places), lambda: f.call(f"distinct_{kind.text}", I64, [start, count]))
    first, _ = _at(f, kind, places, f.number(0))

    def one(k: Value, before: Sequence[Value]) -> Sequence[Value]:
        x, _ = _at(f, kind, places, k + 1)
        return [before[0] + x.differs(before[1]).cast("zext", I64), x]

    f.give(f.folded(count - 1, [f.number(1), first], one)[0])


def _put_runs(f: Function, bits: int) -> None:
    """Emit `put_runs_<bits>(start, places, values, indices, inverse, counts, count)`: store the value of each run of equal elements, among
    `count` elements at `start`, at `values`, and return true.

    Other outputs are stored unless null: the position of the first element of each run (`indices`), the run of each element (`inverse`),
    and the length of each run (`counts`). `indices` and `inverse` need the permutation `places`.
    """
    start, places, values, indices, inverse, counts, count = f.arguments
    kind = int_type(bits)
    is_all = f.is_null(places) & f.is_null(counts)
    f.when_giving(is_all, lambda: f.call(f"put_{kind.text}", I64, [start, count, values]).differs(0))

    def put(order: Value | None) -> Sequence[Value]:
        first, _ = _at(f, kind, order, f.number(0))
        is_counted, all_ = ~f.is_null(counts), ~f.is_null(indices)

        def one(k: Value, before: Sequence[Value]) -> Sequence[Value]:
            run, last, begun, place = before
            x, at = _at(f, kind, order, k)
            is_new = x.differs(last)
            run = run + is_new.cast("zext", I64)
            begun, place = select(is_new, k, begun), select(is_new, at, place)
            values.at(run, kind).store(x)
            f.only_if(is_counted, lambda: counts.at(run, I64).store(k - begun + 1))
            if order is not None:
                inverse.at(at, I64).store(run)
                f.only_if(all_, lambda: indices.at(run, I64).store(place))
            return [run, x, begun, place]

        begin = f.number(0) if order is None else order.load(I64)
        f.folded(count, [f.number(0), first, f.number(0), begin], one)
        return [f.constant(I1, True)]

    f.give(f.choose(f.is_null(places), lambda: put(None), lambda: put(places))[0])


def _unique(f: Function) -> None:
    """Emit `unique(program, nodes, starts, tables)`: return the distinct values and the other wanted outputs; return null if an element is
    NaN or a negative zero.

    A copy of the elements, or a permutation of it if positions are wanted, is sorted by a C function of NumPy.
    """
    program, nodes, starts, tables = f.arguments
    bits, looked_at, sort, argsort, wanted, n, item = (f.word(program, 8 * k) for k in range(1, 8))
    box = f.at(program, 8 * 8)
    by_places = wanted >= INVERSE
    room = n * item + f.selected(by_places, n * 8 + 8, f.number(0))
    memory = f.made(f.call("PyBytes_FromStringAndSize", POINTER, [f.nothing(), room]))
    start = f.at(memory, BYTES)
    f.call("copy_box", I1, [operand_at(f, nodes, starts, f.word(box, PIECE), f.word(box, FROM)), start, box])
    for k, kind in enumerate((DOUBLE, FLOAT)):
        f.when(looked_at.equals(k + 1), lambda kind=kind: f.refuse(f.call(f"is_odd_{kind.text}", I1, [start, n])))  # type: ignore[misc]
    behind = start.at(n * item, I8)
    odd = behind.cast("ptrtoint", I64) & 7
    places = f.selected(by_places, behind.at((f.number(8) - odd) & 7, I8), f.nothing())

    def sorted_places() -> Sequence[Value]:
        f.each(n, lambda k: places.at(k, I64).store(k))
        function = argsort.cast("inttoptr", POINTER)
        return [f.define(I32, f"call i32 {function.text}({start!r}, {places!r}, {n!r}, ptr null)")]

    def sorted_elements() -> Sequence[Value]:
        function = sort.cast("inttoptr", POINTER)
        return [f.define(I32, f"call i32 {function.text}({start!r}, {n!r}, ptr null)")]

    f.require(f.choose(by_places, sorted_places, sorted_elements)[0].equals(0))
    size = f.local(I64, f.number(0))
    for width in _WIDTHS:
        count = lambda width=width: size.store(f.call(f"runs_{width}", I64, [start, places, n]))  # noqa: E731
        f.when(bits.equals(width), count)
    runs = size.load(I64)
    sizes = {0: [runs], COUNTS: [runs, runs], INVERSE: [runs, n], ALL: [runs, runs, n, runs]}
    roles = {0: [0], COUNTS: [0, 3], INVERSE: [0, 2], ALL: [0, 1, 2, 3]}
    for want, its in sizes.items():

        def put(want: int = want, its: Sequence[Value] = its) -> Value:
            found = _tensors(f, tables, its)
            to = [f.nothing()] * 4
            for k, role in enumerate(roles[want]):
                to[role] = result_at(f, found, k)
            for width in _WIDTHS:
                go = lambda width=width: f.call(f"put_runs_{width}", I1, [start, places, *to, n])  # noqa: E731
                f.when(bits.equals(width), go)
            held = list(f._held)
            f.keeps(found)
            f.let_go(memory)
            f._held[:] = [x for x in held if x is not found]
            return found

        f.when_giving(wanted.equals(want), put)
    f.decline()
