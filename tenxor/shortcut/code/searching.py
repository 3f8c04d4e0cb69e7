"""Binary search in sorted arrays, and linear interpolation, as bytecode programs (`programs.py`) ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...backend.llvm.builder import Module, Value, intrinsic, select
from ...backend.llvm.types import DOUBLE, FLOAT, I1, I8, I64, POINTER, Type, vector
from ...dtypes import DType, float64
from ...host.orders import SEARCHED
from ..objects import BYTES, Objects
from ..programs import DIGITIZE, INTERPOLATE, SEARCH
from .function import Function
from .looping import WAYS, lying, result_at
from .ordering import KINDS

SIDE_BY_SIDE = 8  # values searched for together, to hide the latency of loads and compares
LANES, VECTORS = 8, 4  # lanes and vectors of values compared with each element of a short sorted array
MOST_FEW = 64  # elements of a sorted array up to which comparing with each is fastest
LOOKED_AT = 1 << 17  # points of a line; their order is checked at each call, and up to here that is faster than a call of NumPy
_LIE = [("sorted", POINTER), ("size", I64), ("between", I64), ("wanted", POINTER), ("count", I64), ("apart", I64), ("to", POINTER)]
_HEIGHTS = [("heights", POINTER), ("beside", I64), ("has_left", I64), ("left", DOUBLE), ("has_right", I64), ("right", DOUBLE)]


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    given = [(name, POINTER) for name in ("program", "nodes", "starts", "found")]
    for dtype in SEARCHED:
        if dtype.is_float:
            _numbers(Function(module, objects, f"numbers_{dtype}", _LIE[:3], I64), dtype)
        for right in (False, True):
            _search_few(Function(module, objects, _name("few", dtype, right), _LIE, I1), dtype, right)
            _search_many(Function(module, objects, _name("many", dtype, right), _LIE, I1), dtype, right)
        _search(Function(module, objects, f"search_{dtype}", [*_LIE, ("right", I64)], I64, exported=True), dtype)
        _ascends(Function(module, objects, f"ascends_{dtype}", _LIE[:3], I1), dtype)
    _search_any(Function(module, objects, WAYS[SEARCH], given, I1))
    _digitize(Function(module, objects, WAYS[DIGITIZE], given, I1))
    _interpolate(Function(module, objects, "interpolate", [*_LIE, *_HEIGHTS], I64, exported=True))
    _interpolate_any(Function(module, objects, WAYS[INTERPOLATE], given, I1))


def _name(how: str, dtype: DType, right: bool) -> str:
    """Return the name of the emitted search function; `how` is "few" or "many", the length of the sorted array."""
    return f"search_{how}_{dtype}_{'right' if right else 'left'}"


def _kind(dtype: DType) -> tuple[Type, str]:
    """Return the LLVM type of a dtype and the first letter of its ordered comparison predicates."""
    return KINDS[dtype.name], {"float": "o", "int": "s", "uint": "u"}[dtype.kind]


def _search(f: Function, dtype: DType) -> None:
    """Emit `search_DTYPE(sorted, size, between, wanted, count, apart, to, right)`: write the insertion position in a sorted array of each
    of `count` wanted values to `to`, as `searchsorted` does; return 1.

    `between` and `apart` are the strides of the two arrays in bytes. NaN sorts last. With `right`, a position is after equal elements,
    otherwise before them.
    """
    *lie, right = f.arguments
    ordered, size, between, _, _, apart, _ = lie
    kind, _ = _kind(dtype)
    last = ordered.at((size - 1) * between, I8).load(kind)
    few = (size <= MOST_FEW) & apart.equals(kind.bytes)
    if dtype.is_float:
        few = few & ~last.is_nan()

    def go(is_right: bool) -> Value:
        by_few, by_many = (partial(f.call, _name(how, dtype, is_right), I1, lie) for how in ("few", "many"))
        return f.choose(few, lambda: [by_few()], lambda: [by_many()])[0].cast("zext", I64)

    f.when_giving(right.differs(0), lambda: go(True))
    f.give(go(False))


def _search_few(f: Function, dtype: DType, right: bool) -> None:
    """Emit `search_few_DTYPE_SIDE`, the search in a short sorted array without NaN for contiguous wanted values; return true.

    The arguments are those of `search_DTYPE`, and SIDE is "right" if `right`, else "left". Each value is compared with each element.

    A wanted value that is not comparable is NaN, and gets the last position.
    """
    ordered, size, between, wanted, count, _, to = f.arguments
    kind, _ = _kind(dtype)
    predicate = {"float": "u", "int": "s", "uint": "u"}[dtype.kind] + ("le" if right else "lt")
    counts = vector(I64, LANES)

    def find(k: Value, vectors: int, lanes: int) -> None:
        every = [wanted.at(k + j * LANES, kind).load(vector(kind, lanes)) for j in range(vectors)]

        def compare(j: Value, before: Sequence[Value]) -> Sequence[Value]:
            x = ordered.at(j * between, I8).load(kind)
            x = x.splat(lanes) if lanes else x
            return [n + x.compare(predicate, y).cast("zext", I64) for n, y in zip(before, every, strict=True)]

        zeros = [f.zeros(counts) if lanes else f.number(0) for _ in every]
        for j, n in enumerate(f.folded(size, zeros, compare)):
            to.at(k + j * LANES, I64).store(n)

    step = LANES * VECTORS
    whole = count >> step.bit_length() - 1
    f.each(whole, lambda k: find(k * step, VECTORS, LANES))
    begun = whole * step
    some = (count - begun) >> LANES.bit_length() - 1
    f.each(some, lambda k: find(begun + k * LANES, 1, LANES))
    done = begun + some * LANES
    f.each(count - done, lambda k: find(done + k, 1, 0))
    f.give(f.constant(I1, True))


def _search_many(f: Function, dtype: DType, right: bool) -> None:
    """Emit `search_many_DTYPE_SIDE`: a uniform binary search for each wanted value, with the arguments of `search_DTYPE`. A mask skips half
    of the rest: LLVM would turn a select into a branch, which is often mispredicted. (D. Knuth, The Art of Computer Programming, volume 3,
    6.2.1: uniform binary search.)
    """
    ordered, size, between, wanted, count, apart, to = f.arguments
    kind, letter = _kind(dtype)

    def passed(at: Value, y: Value) -> Value:
        """Emit a 64-bit 1 if `y` belongs after the sorted element `at`, else 0."""
        return ordered.at(at * between, I8).load(kind).compare(letter + ("le" if right else "lt"), y).cast("zext", I64)

    def find(k: Value, many: int) -> None:
        """Emit a search for `many` values together, from number `k` on, and the store of their positions."""
        every = [wanted.at((k + j) * apart, I8).load(kind) for j in range(many)]

        def halve(now: Sequence[Value]) -> Sequence[Value]:
            left, *begins = now
            half = left.shifted_right(1)
            found = [at + (half & (f.number(0) - passed(at + half - 1, y))) for at, y in zip(begins, every, strict=True)]
            return [left - half, *found]

        _, *begins = f.changing([size, *[f.number(0) for _ in every]], lambda now: now[0] > 1, halve)
        for j, (last, y) in enumerate(zip(begins, every, strict=True)):
            place = to.at(k + j, I64)
            place.store(last + passed(last, y))
            if dtype.is_float:
                end = size if right else None
                f.rarely(y.is_nan(), lambda place=place, end=end: place.store(_numbers_of(f, dtype) if end is None else end))  # type: ignore[misc]

    whole = count >> SIDE_BY_SIDE.bit_length() - 1
    f.each(whole, lambda k: find(k * SIDE_BY_SIDE, SIDE_BY_SIDE))
    f.each(count - whole * SIDE_BY_SIDE, lambda k: find(whole * SIDE_BY_SIDE + k, 1))
    f.give(f.constant(I1, True))


def _numbers_of(f: Function, dtype: DType) -> Value:
    """Emit a call for the number of elements that are not NaN in the sorted array, given by the first three arguments of the function."""
    return f.call(f"numbers_{dtype}", I64, f.arguments[:3])


def _numbers(f: Function, dtype: DType) -> None:
    """Emit `numbers_DTYPE(sorted, size, between)`: return how many of `size` sorted floats, `between` bytes apart, are not NaN.

    NaN sorts last.
    """
    ordered, size, between = f.arguments

    def is_number(at: Value) -> Value:
        return ~ordered.at(at * between, I8).load(KINDS[dtype.name]).is_nan()

    def halve(now: Sequence[Value]) -> Sequence[Value]:
        left, at = now
        half = left.shifted_right(1)
        return [left - half, select(is_number(at + half - 1), at + half, at)]

    _, last = f.changing([size, f.number(0)], lambda now: now[0] > 1, halve)
    f.give(last + is_number(last).cast("zext", I64))


def _ascends(f: Function, dtype: DType) -> None:
    """Emit `ascends_DTYPE(sorted, size, between)`: return whether `size` elements, `between` bytes apart, ascend, without NaN.

    Equal neighbours are allowed.
    """
    ordered, size, between = f.arguments
    kind, letter = _kind(dtype)
    count = size - 1

    def rises(k: Value) -> Value:
        one, other = (ordered.at((k + j) * between, I8).load(kind) for j in range(2))
        return one.compare(f"{letter}le", other)

    def some(k: Value, before: Value) -> Value:
        first = ordered.at(k * LANES, kind)
        one, other = (first.at(j, kind).load(vector(kind, LANES)) for j in range(2))
        return before & one.compare(f"{letter}le", other)

    whole = f.selected(between.equals(kind.bytes), count >> LANES.bit_length() - 1, f.number(0))
    all_ = f.fold(whole, f.constant(vector(I1, LANES), True), some)
    rest = intrinsic("vector.reduce.and", all_, result=I1, suffix=all_.type.mangled)
    if dtype.is_float:
        rest = rest & ~ordered.at(count * between, I8).load(kind).is_nan() & ~ordered.load(kind).is_nan()
    f.give(f.fold(count - whole * LANES, rest, lambda k, before: before & rises(whole * LANES + k)))


def _search_any(f: Function) -> None:
    """Emit `search(program, nodes, starts, found)`: run a search program, for the dtype that it names; return success.

    `nodes` and `starts` are the operands' nodes and byte offsets, and `found` is the tuple with the tensor for the positions.
    """
    program, _, _, found = f.arguments
    number, right = f.word(program, 8), f.word(program, 16)
    given = [*lying(f, (24, 56)), result_at(f, found, 0), right]
    for k, dtype in enumerate(SEARCHED):
        f.when_giving(number.equals(k), lambda dtype=dtype: f.call(f"search_{dtype}", I64, given).differs(0))  # type: ignore[misc]
    f.decline()


def _digitize(f: Function) -> None:
    """Emit `digitize(program, nodes, starts, found)`: run a program to search in edges, and write the positions; return success.

    Descending edges are searched from the end. For unsorted edges return false.
    """
    program, _, _, found = f.arguments
    number, right = f.word(program, 8), f.word(program, 16)
    edges, size, between, *wanted = lying(f, (24, 56))
    to = result_at(f, found, 0)
    back = [edges.at((size - 1) * between, I8), size, f.number(0) - between]
    for k, dtype in enumerate(SEARCHED):

        def of_dtype(dtype: DType = dtype) -> None:
            def search(lie: Sequence[Value]) -> Value:
                return f.call(f"search_{dtype}", I64, [*lie, *wanted, to, right]).differs(0)

            f.when_giving(f.call(f"ascends_{dtype}", I1, [edges, size, between]), lambda: search([edges, size, between]))
            f.require(f.call(f"ascends_{dtype}", I1, back))
            f.require(search(back))
            f.each(wanted[1], lambda j: to.at(j, I64).store(size - to.at(j, I64).load(I64)))

        f.when(number.equals(k), of_dtype)
    f.give(f.constant(I1, True))


def _interpolate(f: Function) -> None:
    """Emit `interpolate(points, size, between, wanted, count, apart, to, heights, beside, has_left, left, has_right, right)`: write to `to`
    the heights at `count` wanted places of a line through `size` points, by the same steps as NumPy (`arr_interp`); return 1.

    `between`, `apart` and `beside` are strides in bytes. `left` and `right` are the heights outside of the points, if given. The function
    returns 0 unless the points ascend and are at least two.
    """
    points, size, between, wanted, count, apart, to, heights, beside, has_left, left, has_right, right = f.arguments
    f.require(size > 1)
    f.require(f.call(f"ascends_{float64}", I1, [points, size, between]))
    # the positions are written into the memory of the result, which has as many bytes for each
    f.call(f"search_{float64}", I64, [*f.arguments[:7], f.number(1)])

    def height(k: Value) -> Value:
        return heights.at(k * beside, I8).load(DOUBLE)

    def point(k: Value) -> Value:
        return points.at(k * between, I8).load(DOUBLE)

    before = select(has_left.differs(0), left, height(f.number(0)))
    after = select(has_right.differs(0), right, height(size - 1))
    end = point(size - 1)

    def one(k: Value) -> None:
        x, place = wanted.at(k * apart, I8).load(DOUBLE), to.at(k, I64).load(I64)
        at, result = place - 1, to.at(k, DOUBLE)

        def within() -> None:
            x0, x1, y0, y1 = point(at), point(place), height(at), height(place)
            slope = (y1 - y0) / (x1 - x0)
            found = slope * (x - x0) + y0
            result.store(select(x.equals(x0), y0, found))

            def infinite() -> None:
                """Recompute from the right point: one of the two heights may be infinite."""
                other = slope * (x - x1) + y1
                result.store(select(other.is_nan() & y0.equals(y1), y0, other))

            f.rarely(found.is_nan() & x.differs(x0), infinite)

        def outside() -> None:
            last = select(x.equals(end), height(size - 1), after)
            result.store(select(x.is_nan(), x, select(place.equals(0), before, last)))

        inside = (place > 0) & (place < size)
        f.only_if(inside, within)
        f.rarely(~inside, outside)

    f.each(count, one)
    f.give(f.number(1))


def _interpolate_any(f: Function) -> None:
    """Emit `interpolate_any(program, nodes, starts, found)`: run an interpolation program, and write the heights; return success."""
    program, _, _, found = f.arguments
    has_left, left, has_right, right = (f.word(program, 8 * k) for k in range(1, 5))
    memory = f.made(f.call("PyBytes_FromStringAndSize", POINTER, [f.nothing(), f.word(program, 40)]))
    (x, count, apart), (points, size, between), (heights, _, beside) = (_doubles(f, 48 + 48 * k, memory) for k in range(3))
    f.require(size < count * 16 + LOOKED_AT)
    lie = [points, size, between, x, count, apart, result_at(f, found, 0)]
    given = [*lie, heights, beside, has_left, left.as_float(), has_right, right.as_float()]
    f.require(f.call("interpolate", I64, given).differs(0))
    f.let_go(memory)
    f.give(f.constant(I1, True))


def _doubles(f: Function, first: int, memory: Value) -> list[Value]:
    """Emit the address, length and stride in bytes of a float64 operand, described from byte `first` of the program on.

    A float32 operand is first converted into `memory`, a bytes object.
    """
    program, *_ = f.arguments
    start, count, step = lying(f, (first,))
    is_single, at = f.word(program, first + 32), f.word(program, first + 40)

    def widened() -> list[Value]:
        to = f.at(memory, BYTES).at(at, I8)
        f.each(count, lambda k: to.at(k, DOUBLE).store(start.at(k * step, I8).load(FLOAT).to_double()))
        return [to, f.number(8)]

    place, between = f.choose(is_single.differs(0), widened, lambda: [start, step])
    return [place, count, between]
