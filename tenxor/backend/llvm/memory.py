"""Emit loads and stores of vectors: contiguous elements, at given offsets, a few elements apart, or at a constant stride.

An element may have several parts side by side, as complex ones have: its type is then an array. In registers, each part has vectors of its
own. So whole vectors are taken apart after a load, and joined before a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .builder import Value, intrinsic, larger, smaller
from .emitter import Emitter
from .scopes import Parts
from .types import I1, I32, I64, POINTER, VOID, Type, vector
from .values import load_masked, store_masked


def parts_of(element: Type) -> int:
    """Return how many numbers an element has side by side."""
    return element.bytes // element.element.bytes


# --- active lanes -----------------------------------------------------------------------------------------------------


def first_lanes(count: Value, width: int) -> Value:
    """Emit the mask of the first `count` lanes, at most `width`."""
    return count.b.counting(I32, width) < count.cast("trunc", I32).splat(width)


def lanes_before(end: Value, at: Value, vectors: int, width: int) -> Parts:
    """Emit masks for so many vectors from index `at` on: of the lanes before `end`."""
    left = (end - at).cast("trunc", I32)
    return [end.b.counting(I32, width) < (left - u * width).splat(width) for u in range(vectors)]


def mask_of(em: Emitter, width: int) -> Value:
    """Return the mask of the active lanes, with all lanes active by default."""
    mask = None if em.lanes is None else em.lanes.mask
    return em.b.constant(vector(I1, width), True) if mask is None else mask


def masked_or_whole(
    em: Emitter, masked: Callable[[Value], Value | None], whole: Callable[[], Value | None]
) -> Value | None:
    """Emit `masked(mask)` or `whole()` for the active lanes, or a branch between both if only run time tells.

    Return the value, or None if there is none.
    """
    lanes, b = em.lanes, em.b
    assert lanes is not None
    if lanes.left is None:
        return whole() if lanes.mask is None else masked(lanes.mask)
    usual, last, after = (b.block(name) for name in ("whole", "last", "then"))
    b.branch_if(lanes.left >= lanes.width, usual, last, (1 << 20, 1))
    b.cursor.block = usual
    one, usual = whole(), b.cursor.block
    b.branch(after)
    b.cursor.block = last
    other, last = masked(first_lanes(lanes.left, lanes.width)), b.cursor.block
    b.branch(after)
    b.cursor.block = after
    return None if one is None or other is None else b.joined((one, usual), (other, last))


def count_at_work(em: Emitter) -> Value | None:
    """Return how many lanes are active, or more if all are; None if that is unknown, or if masked stores are as good."""
    lanes = em.lanes
    assert lanes is not None
    if em.target.stores_under_masks:
        return None
    return lanes.working if lanes.left is None else lanes.left


def for_parts(mask: Value, parts: int) -> Value:
    """Emit a mask for all parts of each lane."""
    return mask.shuffled([k // parts for k in range(parts * mask.lanes)]) if parts > 1 else mask


# --- contiguous elements ----------------------------------------------------------------------------------------------


def load_vector(em: Emitter, start: Value, index: Value, u: int, element: Type) -> Value:
    """Emit the load of vector number `u` of a step, of contiguous elements, in active lanes only.

    `start` points to index 0, and `index` is that of the step's first element. The parts of an element stay side by side.
    """
    assert em.lanes is not None
    width, parts, count = em.lanes.width, parts_of(element), count_at_work(em)
    place, kind = vector_place(start, index, u * width, element), vector(element.element, parts * width)

    def masked(mask: Value) -> Value:
        if count is not None and parts == 1 and element.bytes < em.target.loops.masked:
            return load_first(place, kind, count)
        return load_masked(place, kind, for_parts(mask, parts))

    found = masked_or_whole(em, masked, lambda: place.load(kind))
    assert found is not None
    return found


def store_vector(
    em: Emitter, start: Value, index: Value, u: int, element: Type, parts: Sequence[Value], streamed: bool
) -> None:
    """Emit the store of vector number `u` of a step, to contiguous elements, in active lanes only, given a vector of each part.

    `start` points to index 0, and `index` is that of the step's first element. A `streamed` store is aligned, and past the cache if the
    vector is long enough.
    """
    assert em.lanes is not None
    width, n, count = em.lanes.width, len(parts), count_at_work(em)
    first = vector_place(start, index, u * width, element)
    places = [first.at(k * width, element.element) if k else first for k in range(n)]
    order = [k // n + width * (k % n) for k in range(n * width)]
    vectors = [parts[0].shuffled(order[k * width :][:width], parts[1]) for k in range(n)] if n > 1 else parts

    def masked(mask: Value) -> None:
        if count is not None:
            for k, (place, x) in enumerate(zip(places, vectors, strict=True)):
                store_first(x, place, count * n - k * width if n > 1 else count)
            return
        for k, (place, x) in enumerate(zip(places, vectors, strict=True)):
            its = mask.shuffled([(k * width + lane) // n for lane in range(width)]) if n > 1 else mask
            store_masked(x, place, its)

    def whole() -> None:
        for place, x in zip(places, vectors, strict=True):
            if streamed and x.type.bytes >= em.target.streams.vector:
                place.store(x, x.type.bytes, em.module.attached("nontemporal", "i32 1"))
            else:
                place.store(x, x.type.bytes if streamed else 0)

    masked_or_whole(em, masked, whole)


def load_first(place: Value, kind: Type, count: Value) -> Value:
    """Emit the load of the first `count` lanes of a vector, with zeros behind, for elements that a processor cannot load under a mask.

    The code loads the whole vector, or half of it, then half of the remaining half, and so on. With a mask, LLVM would test each lane.
    """
    count = larger(smaller(count, kind.lanes), 0)
    found = _load_halves(place, kind.scalar, kind.lanes, count)
    return place.b.choose(count.equals(kind.lanes), lambda: [place.load(kind)], lambda: [found])[0]


def _load_halves(place: Value, element: Type, lanes: int, count: Value) -> Value:
    """Emit a vector of `lanes` lanes with the elements from `count & -lanes` up to `count`, and zeros behind."""
    size, b = lanes // 2, place.b
    if not size:
        return b.zeros(vector(element, 1))
    half, at, behind = vector(element, size), place.at(count & -lanes, element), _load_halves(place, element, size, count)
    every = range(lanes)
    return b.choose(
        (count & size).differs(0), lambda: [at.load(half).shuffled(every, behind)], lambda: [behind.shuffled(every, b.zeros(half))]
    )[0]


def store_first(x: Value, place: Value, count: Value) -> None:
    """Emit the store of the first `count` lanes of a vector: all lanes, or half of them, then half of the remaining half, and so on.

    In a loop these branches are predictable, while a masked store may take a dozen cycles.
    """
    count = larger(smaller(count, x.lanes), 0)
    x.b.only_if(count.equals(x.lanes), lambda: place.store(x))
    _store_halves(x, place, count)


def _store_halves(x: Value, place: Value, count: Value) -> None:
    """Emit the store of the first `count` modulo `x.lanes` lanes of `x`, to the elements from `count & -x.lanes` on."""
    size, to = x.lanes // 2, place.at(count & -x.lanes, x.type.scalar)
    if not size:
        return
    first, second = x.shuffled(range(size)), x.shuffled(range(size, 2 * size))

    def taken() -> list[Value]:
        to.store(first)
        return [second]

    _store_halves(x.b.choose((count & size).differs(0), taken, lambda: [first])[0], place, count)


def vector_place(start: Value, index: Value, further: int, element: Type) -> Value:
    """Emit the pointer to element `index + further`."""
    place = start.at(index, element)
    return place.at(further, element) if further else place


def apart(vectors: Parts, parts: int) -> Parts:
    """Emit vectors of the first parts of elements whose parts lie side by side in `vectors`, followed by vectors of the second parts."""
    if parts == 1:
        return vectors
    return [v.shuffled(range(first, v.lanes, parts)) for first in range(parts) for v in vectors]


# --- any offsets ------------------------------------------------------------------------------------------------------


def gathered(em: Emitter, pointer: Value, offsets: Value, element: Type, part: Type | None = None) -> Value:
    """Emit the load of elements, or of the first part of each, at a scalar offset or a vector of offsets, in active lanes only."""
    part, lanes = part or element, offsets.lanes
    if not lanes:
        return pointer.at(offsets, element).load(part)
    kind = vector(part, lanes)
    places, rest = _places(pointer, offsets, element), em.b.zeros(kind)
    suffix = f"{kind.mangled}.v{lanes}p0"
    return intrinsic("masked.gather", places, mask_of(em, lanes), rest, result=kind, suffix=suffix)


def scattered(em: Emitter, pointer: Value, offsets: Value, element: Type, x: Value) -> None:
    """Emit the store of elements, or of the first part of each, at a vector of offsets, in active lanes only."""
    places, mask = _places(pointer, offsets, element), mask_of(em, offsets.lanes)
    suffix = f"{x.type.mangled}.v{offsets.lanes}p0"
    intrinsic("masked.scatter", x, places, mask, result=VOID, suffix=suffix)


def _places(pointer: Value, offsets: Value, element: Type) -> Value:
    """Emit a vector of pointers."""
    scaled = offsets * element.bytes
    base = pointer.cast("ptrtoint", I64).splat(offsets.lanes)
    return (base + scaled).cast("inttoptr", POINTER)


def load_each(pointer: Value, offsets: Value, element: Type) -> Value:
    """Emit the load of elements at a vector of offsets, lane by lane."""
    found = pointer.b.undefined(vector(element, offsets.lanes))
    for k in range(offsets.lanes):
        found = found.with_lane(k, pointer.at(offsets.lane(k), element).load(element))
    return found


# --- constant strides -------------------------------------------------------------------------------------------------


def load_singly(em: Emitter, place: Value, index: Value, stride: Value, element: Type) -> Parts:
    """Emit the load of elements at a constant stride, lane by lane.

    This is as fast as a gather on some processors, and three times as fast on others.
    """
    lanes = em.lanes
    assert lanes is not None
    if parts_of(element) > 1:
        return _load_pairs_singly(em, place, index, stride, element)
    together = min(em.target.loops.singly, lanes.width)
    steps = [stride * k for k in range(together + 1)]
    at = place.at(index * stride, element)
    found: Parts = []
    for _ in range(lanes.unroll):
        x = em.b.undefined(vector(element, lanes.width))
        for k in range(lanes.width):
            x = x.with_lane(k, at.at(steps[k % together], element).load(element))
            if (k + 1) % together == 0:
                at = at.at(steps[together], element)
        found.append(x)
    return found


def _load_pairs_singly(em: Emitter, place: Value, index: Value, stride: Value, pair: Type) -> Parts:
    """Emit the load of elements of two parts at a constant stride: both parts of an element by one load."""
    lanes = em.lanes
    assert lanes is not None
    at = place.at(index * stride, pair)
    vectors: Parts = []
    for _ in range(lanes.unroll):
        pieces: Parts = []
        for _ in range(lanes.width):
            pieces.append(at.load(vector(pair.element, 2)))
            at = at.at(stride, pair)
        while len(pieces) > 1:
            halves = zip(pieces[0::2], pieces[1::2], strict=True)
            pieces = [one.shuffled(range(2 * one.lanes), other) for one, other in halves]
        vectors += pieces
    return apart(vectors, 2)


# --- a few steps apart ------------------------------------------------------------------------------------------------


def load_near(em: Emitter, place: Value, index: Value, step: int, element: Type) -> Parts:
    """Emit the load of elements `step` apart (a small number), by whole vectors from the first element needed to the last, and no further.

    Under a mask, only the first lanes may be active. Return the vectors of the first parts, then those of the second parts, if any.
    """
    lanes = em.lanes
    assert lanes is not None
    width, count = lanes.width, parts_of(element)
    first = index * step
    span = count * ((width - 1) * abs(step) + 1)  # parts from the first lane's to the last's
    starts = [*range(0, span - width, width), span - width]
    wanted = [count * abs(step) * k for k in (range(width) if step > 0 else range(width - 1, -1, -1))]
    found: list[Parts] = [[] for _ in range(count)]
    for u in range(lanes.unroll):
        lowest = u * width * step + (0 if step > 0 else step * (width - 1))
        at = place.at(first + lowest, element)
        loads = [_near(em, at.at(s, element.element), element, s, step) for s in starts]
        for k, its in enumerate(found):
            its.append(_picked(loads, [_where_in(starts, width, n + k) for n in wanted]))
    return [v for its in found for v in its]


def _near(em: Emitter, place: Value, element: Type, start: int, step: int) -> Value:
    """Emit the load of a vector from the span of elements a few steps apart; it begins `start` parts behind the lowest element.

    Under a mask, only the parts up to the last active lane are loaded.
    """
    lanes = em.lanes
    assert lanes is not None
    width, between = lanes.width, parts_of(element) * abs(step)
    kind = vector(element.element, width)
    if lanes.working is None:
        return place.load(kind)
    working = lanes.working
    if step > 0:
        inside = first_lanes((working - 1) * between + (parts_of(element) - start), width)
    else:
        inside = ~first_lanes(working * -between + (width * between - start), width)
    return load_masked(place, kind, inside)


def _where_in(starts: Sequence[int], width: int, at: int) -> tuple[int, int]:
    """Return the vector that has part number `at`, and the lane. The vectors begin at the parts `starts`."""
    k = min(at // width, len(starts) - 1)
    return k, at - starts[k]


def _picked(vectors: list[Value], lanes: list[tuple[int, int]]) -> Value:
    """Emit a vector of the given lanes of several vectors, each given as `(vector, lane)`."""
    width = len(lanes)
    found, there = vectors[0], [lane if k == 0 else None for k, lane in lanes]
    for n, other in enumerate(vectors[1:] or [vectors[0]], start=1):
        order = [
            width + lane if k == n else (here if n == 1 else at) if here is not None else 0
            for at, ((k, lane), here) in enumerate(zip(lanes, there, strict=True))
        ]
        found = found.shuffled(order, other)
        there = [at if k <= n else None for at, (k, _) in enumerate(lanes)]
    return found


def store_near(
    em: Emitter, place: Value, index: Value, u: int, element: Type, parts: Sequence[Value], step: int
) -> None:
    """Emit the store of vector number `u` of a step, to elements `step` apart (a small number), given a vector of each part.

    The stores are whole vectors under masks: only the elements are written, not the memory between them.
    """
    lanes, b, n = em.lanes, em.b, len(parts)
    assert lanes is not None
    width, between = lanes.width, n * abs(step)
    lowest = (index + (u * width + (width - 1) * (step < 0))) * step
    first = place.at(lowest, element)
    for start in range(0, between * (width - 1) + n, width):
        found = [divmod(at, between) for at in range(start, start + width)]
        taken = [(e if step > 0 else width - 1 - e, k) if k < n else None for e, k in found]
        x = parts[0].shuffled([0 if t is None else t[0] + width * t[1] for t in taken], parts[-1])
        to = first.at(start, element.element)
        if None not in taken and lanes.mask is None:
            to.store(x)
            continue
        inside = b.constants(vector(I1, width), [t is not None for t in taken])
        if lanes.mask is not None:
            inside = inside & lanes.mask.shuffled([0 if t is None else t[0] for t in taken])
        store_masked(x, to, inside)


# --- squares ----------------------------------------------------------------------------------------------------------


def transposed(rows: Sequence[Value], parts: int = 1) -> list[Value]:
    """Emit the columns of a square of vectors, by exchanges of blocks off the diagonal: of 1 element, then of 2, then of 4, and so on.

    An element may have several `parts`, which stay side by side.
    """
    width, block, found = len(rows), 1, list(rows)
    while block < width:
        upper = [n if not n & block else width + n - block for n in range(width)]
        lower = [n + block if not n & block else width + n for n in range(width)]
        upper, lower = ([parts * n + part for n in lanes for part in range(parts)] for lanes in (upper, lower))
        for r in range(width):
            if not r & block:
                one, two = found[r], found[r + block]
                found[r], found[r + block] = one.shuffled(upper, two), one.shuffled(lower, two)
        block *= 2
    return found
