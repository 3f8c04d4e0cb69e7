"""Emit loads and stores of vectors: contiguous elements, at given offsets, a few elements apart, or at a constant stride. The functions run
while a kernel is compiled: they append LLVM IR to the kernel `em`. A `Value` stands for a value at run time.

An element may have several parts side by side, as complex ones have: its type is then an array. In registers, each part has vectors of its
own. So whole vectors are taken apart after a load, and joined before a store.

A step is `em.lanes.unroll` vectors of `em.lanes.width` lanes, numbered by `u`. A row is the elements along the axis of the lanes. The
argument `row_start` points to the element at index 0, and `index` is the index of the first lane of the step. The argument `element` is the
type of an element in memory. Offsets, strides and steps are counted in elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .builder import Value, intrinsic, select_larger, select_smaller
from .dtype_conversions import load_masked, store_masked
from .emitter import Emitter
from .scopes import ValueVectors
from .types import I1, I32, I64, POINTER, VOID, Type, vector


def count_components(element: Type) -> int:
    """Return how many numbers an element of the type `element` has side by side: 2 for a complex element, else 1."""
    return element.bytes // element.element.bytes


# --- active lanes -----------------------------------------------------------------------------------------------------


def mask_first_lanes(count: Value, width: int) -> Value:
    """Emit a mask, a vector of `width` bools, in which the first `count` lanes are true. `count` is a scalar integer.

    No lane is true if `count` <= 0, and every lane from `count` = `width` on.
    """
    return count.builder.iota(I32, width) < count.cast("trunc", I32).splat(width)


def mask_lanes_before(end: Value, index: Value, vectors: int, width: int) -> ValueVectors:
    """Emit masks for the `vectors` vectors of a step, each of `width` lanes. The first lane has the index `index`.

    Return vectors of bools, which are true in the lanes with an index below `end`.
    """
    left = (end - index).cast("trunc", I32)
    return [end.builder.iota(I32, width) < (left - u * width).splat(width) for u in range(vectors)]


def get_active_mask(em: Emitter, width: int) -> Value:
    """Return the mask `em.lanes.mask`, a vector of bools. Without lanes or without a mask, return a constant, `width` times true."""
    mask = None if em.lanes is None else em.lanes.mask
    return em.builder.constant(vector(I1, width), True) if mask is None else mask


def emit_masked_or_full(em: Emitter, masked: Callable[[Value], Value | None], unmasked: Callable[[], Value | None]) -> Value | None:
    """Emit the access to a vector in the active lanes of `em.lanes`, by one of two functions of the caller.

    `unmasked()` emits the access to all lanes, and `masked(mask)` the access to the lanes of the mask alone. If only run time tells whether
    all lanes are active, both are emitted, with a branch. Both return the loaded value, or None for a store. Return the value at run time,
    or None for a store.
    """
    lanes, b = em.lanes, em.builder
    assert lanes is not None
    if lanes.remaining_count is None:
        return unmasked() if lanes.mask is None else masked(lanes.mask)
    whole_block, partial_block, after = (b.block(name) for name in ("whole", "last", "then"))
    b.branch_if(lanes.remaining_count >= lanes.width, whole_block, partial_block, (1 << 20, 1))
    b.cursor.block = whole_block
    whole_value, whole_block = unmasked(), b.cursor.block
    b.branch(after)
    b.cursor.block = partial_block
    partial_value, partial_block = masked(mask_first_lanes(lanes.remaining_count, lanes.width)), b.cursor.block
    b.branch(after)
    b.cursor.block = after
    return None if whole_value is None or partial_value is None else b.merge((whole_value, whole_block), (partial_value, partial_block))


def count_active_lanes(em: Emitter) -> Value | None:
    """Return the number of active lanes, an integer at run time; for a full vector the number may be greater than the lanes.

    Return None if the number is unknown. Also return None if the target has cheap masked stores, as callers then use a mask.
    """
    lanes = em.lanes
    assert lanes is not None
    if em.target.has_cheap_masked_store:
        return None
    return lanes.active_count if lanes.remaining_count is None else lanes.remaining_count


def repeat_mask(mask: Value, component_count: int) -> Value:
    """Emit a mask with `component_count` equal lanes, side by side, for each lane of `mask`: a mask for the parts of complex elements."""
    return mask.shuffle([k // component_count for k in range(component_count * mask.lanes)]) if component_count > 1 else mask


# --- contiguous elements ----------------------------------------------------------------------------------------------


def load_vector(em: Emitter, row_start: Value, index: Value, u: int, element: Type) -> Value:
    """Emit the load of vector number `u` of a step, of contiguous elements, in active lanes; idle lanes are 0.

    `row_start` points to index 0, and `index` is the index of the step's first element. `element` is the type of an element in memory. The
    vector has the lanes of the step, or twice as many for complex elements: both parts stay side by side.
    """
    assert em.lanes is not None
    width, component_count, count = em.lanes.width, count_components(element), count_active_lanes(em)
    pointer, kind = vector_pointer(row_start, index, u * width, element), vector(element.element, component_count * width)

    def load_active(mask: Value) -> Value:
        if count is not None and component_count == 1 and element.bytes < em.target.loops.min_masked_itemsize:
            return load_first_lanes(pointer, kind, count)
        return load_masked(pointer, kind, repeat_mask(mask, component_count))

    loaded = emit_masked_or_full(em, load_active, lambda: pointer.load(kind))
    assert loaded is not None
    return loaded


def store_vector(
    em: Emitter, row_start: Value, index: Value, u: int, element: Type, components: Sequence[Value], is_nontemporal: bool
) -> None:
    """Emit the store of the active lanes of vector number `u` of a step to contiguous elements.

    `components` has the vector, or for complex elements the vectors of the real and the imaginary parts. `element` is the type of an
    element in memory. `row_start` points to index 0, and `index` is the index of the first element of the step. With `is_nontemporal`, the
    address of a full vector must be a multiple of its size. The vector bypasses the caches if it has at least `Streams.min_vector_bytes`
    bytes. Stores of some lanes only are ordinary.
    """
    assert em.lanes is not None
    width, n, count = em.lanes.width, len(components), count_active_lanes(em)
    start_pointer = vector_pointer(row_start, index, u * width, element)
    pointers = [start_pointer.at(k * width, element.element) if k else start_pointer for k in range(n)]
    order = [k // n + width * (k % n) for k in range(n * width)]
    vectors = [components[0].shuffle(order[k * width :][:width], components[1]) for k in range(n)] if n > 1 else components

    def store_active(mask: Value) -> None:
        if count is not None:
            for k, (pointer, x) in enumerate(zip(pointers, vectors, strict=True)):
                store_first_lanes(x, pointer, count * n - k * width if n > 1 else count)
            return
        for k, (pointer, x) in enumerate(zip(pointers, vectors, strict=True)):
            lane_mask = mask.shuffle([(k * width + lane) // n for lane in range(width)]) if n > 1 else mask
            store_masked(x, pointer, lane_mask)

    def store_whole() -> None:
        for pointer, x in zip(pointers, vectors, strict=True):
            if is_nontemporal and x.type.bytes >= em.target.streams.min_vector_bytes:
                pointer.store(x, x.type.bytes, em.module.attach_metadata("nontemporal", "i32 1"))
            else:
                pointer.store(x, x.type.bytes if is_nontemporal else 0)

    emit_masked_or_full(em, store_active, store_whole)


def load_first_lanes(pointer: Value, kind: Type, count: Value) -> Value:
    """Emit the load of the first `count` lanes of a vector of type `kind` from `pointer`. Return the vector, with zeros in the other lanes.

    This is for elements that a processor cannot load under a mask: LLVM would test each lane. The code loads the whole vector, or half of
    it, then half of the remaining half, and so on, by the bits of `count`. A count outside of 0 to `kind.lanes` is limited to this range.
    """
    count = select_larger(select_smaller(count, kind.lanes), 0)
    partial_vector = _load_halves(pointer, kind.scalar, kind.lanes, count)
    return pointer.builder.choose(count.equals(kind.lanes), lambda: [pointer.load(kind)], lambda: [partial_vector])[0]


def _load_halves(start: Value, element: Type, lanes: int, count: Value) -> Value:
    """Emit the load of the elements from index `count & -lanes` up to `count`: the last `count` modulo `lanes` of `count` elements.

    Return a vector of `lanes` lanes, a power of two, with zeros behind these elements. `start` points to element 0, and `element` is the
    type of an element. `load_first_lanes` calls this function, which calls itself for half the lanes.
    """
    size, b = lanes // 2, start.builder
    if not size:
        return b.zeros(vector(element, 1))
    half, pointer, tail = vector(element, size), start.at(count & -lanes, element), _load_halves(start, element, size, count)
    all_lanes = range(lanes)
    return b.choose(
        (count & size).differs(0), lambda: [pointer.load(half).shuffle(all_lanes, tail)], lambda: [tail.shuffle(all_lanes, b.zeros(half))]
    )[0]


def store_first_lanes(x: Value, pointer: Value, count: Value) -> None:
    """Emit the store of the first `count` lanes of the vector `x` to `pointer`, without a mask.

    The code stores all lanes, or half of them, then half of the rest, and so on, by the bits of `count`. In a loop these branches are
    predictable, while a masked store may take a dozen cycles.
    """
    count = select_larger(select_smaller(count, x.lanes), 0)
    x.builder.only_if(count.equals(x.lanes), lambda: pointer.store(x))
    _store_halves(x, pointer, count)


def _store_halves(x: Value, start: Value, count: Value) -> None:
    """Emit the store of the first `count` modulo `x.lanes` lanes of `x`, to the elements from index `count & -x.lanes` on.

    `start` points to element 0. `store_first_lanes` calls this function, which calls itself for half the lanes.
    """
    size, pointer = x.lanes // 2, start.at(count & -x.lanes, x.type.scalar)
    if not size:
        return
    low, high = x.shuffle(range(size)), x.shuffle(range(size, 2 * size))

    def store_low() -> list[Value]:
        pointer.store(low)
        return [high]

    _store_halves(x.builder.choose((count & size).differs(0), store_low, lambda: [low])[0], start, count)


def vector_pointer(row_start: Value, index: Value, offset: int, element: Type) -> Value:
    """Emit the pointer to the element of type `element` at `index + offset`, given the pointer `row_start` to the element at 0."""
    pointer = row_start.at(index, element)
    return pointer.at(offset, element) if offset else pointer


def deinterleave(vectors: ValueVectors, count: int) -> ValueVectors:
    """Emit shuffles that take the parts of elements apart. Return the vectors of the first parts, then those of the second parts, and so
    on.

    Each element in `vectors` has `count` parts side by side. If `count` is 1, return `vectors` unchanged.
    """
    if count == 1:
        return vectors
    return [v.shuffle(range(component, v.lanes, count)) for component in range(count) for v in vectors]


# --- any offsets ------------------------------------------------------------------------------------------------------


def gather_elements(em: Emitter, pointer: Value, offsets: Value, element: Type, component_type: Type | None = None) -> Value:
    """Emit the load of the elements of type `element` at `offsets`, in elements, behind `pointer`.

    Offsets are a scalar or a vector, and so is the result. Active lanes (`em.lanes.mask`) are loaded; idle lanes are 0. With
    `component_type`, the type of a part, only the first part of each element is loaded.
    """
    component_type, lanes = component_type or element, offsets.lanes
    if not lanes:
        return pointer.at(offsets, element).load(component_type)
    kind = vector(component_type, lanes)
    pointers, zeros = _lane_pointers(pointer, offsets, element), em.builder.zeros(kind)
    suffix = f"{kind.mangled}.v{lanes}p0"
    return intrinsic("masked.gather", pointers, get_active_mask(em, lanes), zeros, result=kind, suffix=suffix)


def scatter_elements(em: Emitter, pointer: Value, offsets: Value, element: Type, x: Value) -> None:
    """Emit the store of the active lanes of the vector `x` to the elements at a vector of `offsets`, in elements, behind `pointer`.

    `element` is the type of an element in memory. If it has two parts, `x` is stored to the first part of each element.
    """
    pointers, mask = _lane_pointers(pointer, offsets, element), get_active_mask(em, offsets.lanes)
    suffix = f"{x.type.mangled}.v{offsets.lanes}p0"
    intrinsic("masked.scatter", x, pointers, mask, result=VOID, suffix=suffix)


def _lane_pointers(pointer: Value, offsets: Value, element: Type) -> Value:
    """Emit a vector of pointers to the elements of type `element` at a vector of `offsets`, in elements, behind `pointer`."""
    scaled = offsets * element.bytes
    base = pointer.cast("ptrtoint", I64).splat(offsets.lanes)
    return (base + scaled).cast("inttoptr", POINTER)


def load_lane_by_lane(pointer: Value, offsets: Value, element: Type) -> Value:
    """Emit the load of the elements of type `element` at a vector of `offsets`, in elements, behind `pointer`; return a vector.

    All lanes are loaded, one after the other, also under a mask.
    """
    loaded = pointer.builder.undefined(vector(element, offsets.lanes))
    for k in range(offsets.lanes):
        loaded = loaded.with_lane(k, pointer.at(offsets.lane(k), element).load(element))
    return loaded


# --- constant strides -------------------------------------------------------------------------------------------------


def load_strided(em: Emitter, row_start: Value, index: Value, stride: Value, element: Type) -> ValueVectors:
    """Emit the load of elements of a row at a distance of `stride` elements, lane by lane, for every lane of a step. A mask is not allowed.

    `row_start` points to index 0 of the row, and `index` is the index of the first lane. Return the vectors of the step; for complex
    elements, the vectors of the real parts, then of the imaginary parts. Compared with a gather, this takes between a third of the time and
    the same time, depending on the processor.
    """
    lanes = em.lanes
    assert lanes is not None
    if count_components(element) > 1:
        return _load_strided_pairs(em, row_start, index, stride, element)
    group = min(em.target.loops.loads_per_address, lanes.width)
    steps = [stride * k for k in range(group + 1)]
    pointer = row_start.at(index * stride, element)
    vectors: ValueVectors = []
    for _ in range(lanes.unroll):
        x = em.builder.undefined(vector(element, lanes.width))
        for k in range(lanes.width):
            x = x.with_lane(k, pointer.at(steps[k % group], element).load(element))
            if (k + 1) % group == 0:
                pointer = pointer.at(steps[group], element)
        vectors.append(x)
    return vectors


def _load_strided_pairs(em: Emitter, row_start: Value, index: Value, stride: Value, pair: Type) -> ValueVectors:
    """Emit the load of complex elements at a constant stride: both parts of an element by one load. Return the vectors as `load_strided`
    does.

    `pair` is the type of an element: an array of two parts.
    """
    lanes = em.lanes
    assert lanes is not None
    pointer = row_start.at(index * stride, pair)
    vectors: ValueVectors = []
    for _ in range(lanes.unroll):
        pieces: ValueVectors = []
        for _ in range(lanes.width):
            pieces.append(pointer.load(vector(pair.element, 2)))
            pointer = pointer.at(stride, pair)
        while len(pieces) > 1:
            halves = zip(pieces[0::2], pieces[1::2], strict=True)
            pieces = [low.shuffle(range(2 * low.lanes), high) for low, high in halves]
        vectors += pieces
    return deinterleave(vectors, 2)


# --- a few steps apart ------------------------------------------------------------------------------------------------


def load_small_stride(em: Emitter, row_start: Value, index: Value, step: int, element: Type) -> ValueVectors:
    """Emit the load of the elements of a step that are `step` apart in memory, by whole vectors that are then shuffled.

    `step` is a small number other than 0, and may be negative. `row_start` is the address of index 0 of the row, `index` the index of the
    first element of the step, and `element` its type in memory. Nothing outside of the span of the lanes is read: the last vector
    overlaps the one before. With a mask on `em.lanes`, the active lanes must be the first ones, and only their span is read. Return the
    vectors; for complex elements, those of the real parts, then those of the imaginary parts.
    """
    lanes = em.lanes
    assert lanes is not None
    width, count = lanes.width, count_components(element)
    base = index * step
    span = count * ((width - 1) * abs(step) + 1)  # parts from the first lane's to the last's
    starts = [*range(0, span - width, width), span - width]
    wanted = [count * abs(step) * k for k in (range(width) if step > 0 else range(width - 1, -1, -1))]
    components: list[ValueVectors] = [[] for _ in range(count)]
    for u in range(lanes.unroll):
        lowest = u * width * step + (0 if step > 0 else step * (width - 1))
        pointer = row_start.at(base + lowest, element)
        loads = [_load_span_vector(em, pointer.at(s, element.element), element, s, step) for s in starts]
        for k, vectors in enumerate(components):
            vectors.append(_pick_lanes(loads, [_locate(starts, width, n + k) for n in wanted]))
    return [v for vectors in components for v in vectors]


def _load_span_vector(em: Emitter, pointer: Value, element: Type, start: int, step: int) -> Value:
    """Emit the load of one of the vectors of `load_small_stride`, and return the vector: contiguous parts from `pointer` on.

    A part is a real element, or the real or imaginary component of a complex element. Together, the vectors cover the span of memory from
    the lowest element to the highest. `pointer` is `start` parts above the lowest element. Under a mask, only the parts up to the last
    active lane are loaded. `element` and `step` are those of `load_small_stride`, which then picks the elements `step` apart.
    """
    lanes = em.lanes
    assert lanes is not None
    width, between = lanes.width, count_components(element) * abs(step)
    kind = vector(element.element, width)
    if lanes.active_count is None:
        return pointer.load(kind)
    working = lanes.active_count
    if step > 0:
        inside = mask_first_lanes((working - 1) * between + (count_components(element) - start), width)
    else:
        inside = ~mask_first_lanes(working * -between + (width * between - start), width)
    return load_masked(pointer, kind, inside)


def _locate(starts: Sequence[int], width: int, position: int) -> tuple[int, int]:
    """Return where the vectors of `load_small_stride` have the part at `position`: the number of a vector, and the number of a lane.

    Vector k of `width` lanes has the parts from position `starts[k]` on. Positions count parts from the begin of the first vector.
    """
    k = min(position // width, len(starts) - 1)
    return k, position - starts[k]


def _pick_lanes(vectors: list[Value], lanes: list[tuple[int, int]]) -> Value:
    """Emit shuffles, and return a vector whose lane n is lane `k` of `vectors[m]`, if `lanes[n]` is the pair `(m, k)`."""
    width = len(lanes)
    result, result_lanes = vectors[0], [lane if k == 0 else None for k, lane in lanes]
    for n, source in enumerate(vectors[1:] or [vectors[0]], start=1):
        order = [
            width + lane if k == n else (result_lane if n == 1 else position) if result_lane is not None else 0
            for position, ((k, lane), result_lane) in enumerate(zip(lanes, result_lanes, strict=True))
        ]
        result = result.shuffle(order, source)
        result_lanes = [position if k <= n else None for position, (k, _) in enumerate(lanes)]
    return result


def store_small_stride(em: Emitter, row_start: Value, index: Value, u: int, element: Type, components: Sequence[Value], step: int) -> None:
    """Emit the store of the active lanes of vector number `u` of a step to elements at a distance of `step` elements, a small number.

    `row_start` points to index 0 of the row, and `index` is the index of the step's first element. `components` has the vector, or for
    complex elements the vectors of the real and the imaginary parts. Whole vectors are stored under masks: the memory between the elements
    is not written.
    """
    lanes, b, n = em.lanes, em.builder, len(components)
    assert lanes is not None
    width, between = lanes.width, n * abs(step)
    lowest = (index + (u * width + (width - 1) * (step < 0))) * step
    base = row_start.at(lowest, element)
    for start in range(0, between * (width - 1) + n, width):
        slots = [divmod(offset, between) for offset in range(start, start + width)]
        sources = [(e if step > 0 else width - 1 - e, k) if k < n else None for e, k in slots]
        x = components[0].shuffle([0 if t is None else t[0] + width * t[1] for t in sources], components[-1])
        pointer = base.at(start, element.element)
        if None not in sources and lanes.mask is None:
            pointer.store(x)
            continue
        is_written = b.constants(vector(I1, width), [t is not None for t in sources])
        if lanes.mask is not None:
            is_written = is_written & lanes.mask.shuffle([0 if t is None else t[0] for t in sources])
        store_masked(x, pointer, is_written)


# --- squares ----------------------------------------------------------------------------------------------------------


def transpose(rows: Sequence[Value], component_count: int = 1) -> list[Value]:
    """Emit the transpose of a square of elements in registers: `rows` are n vectors of n elements, with n a power of 2.

    Return the n columns, as vectors. An element has `component_count` lanes, kept side by side: 2 for a complex element. Blocks off the
    diagonal are exchanged: of 1 element, then of 2, then of 4, and so on.
    """
    width, block, vectors = len(rows), 1, list(rows)
    while block < width:
        upper = [n if not n & block else width + n - block for n in range(width)]
        lower = [n + block if not n & block else width + n for n in range(width)]
        upper, lower = (
            [component_count * n + component for n in lanes for component in range(component_count)] for lanes in (upper, lower)
        )
        for r in range(width):
            if not r & block:
                above, below = vectors[r], vectors[r + block]
                vectors[r], vectors[r + block] = above.shuffle(upper, below), above.shuffle(lower, below)
        block *= 2
    return vectors
