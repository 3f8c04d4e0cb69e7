"""The adjoint of a read through a layout: each element of the content receives the sum of the cotangents of its positions in the layout.

Cotangents of a content are added up as they arrive. A cotangent of the whole content is a tensor; a partial cotangent is written into a
region of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ..dtypes import DType, int64
from ..layout import Layout
from ..memory import allocate
from ..node import EMPTY, STORE, Node, data, scatter
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from ..records import NamedTuple
from .seen import Operand, Seen, Shape, Term, added, of_number, scattered, stored

_MULTIPLY = OPS["multiply"]
FEW = 64  # positions that share one element; up to here each is added by a separate write, above by a scatter
_ADDING = scatter("gradient", REDUCTIONS["sum_in_width"], (0,), True)


class Placed(NamedTuple):
    """A partial cotangent: `values` belong to the elements read through `layout`, and every other element has the cotangent 0.

    `apart` is True if the layout is injective. Otherwise several positions share an element, and their values add up.
    """

    values: Seen
    layout: Layout
    apart: bool


Part = Seen | Placed


def seen_of(part: Part) -> Seen:
    """Return the values of a whole or partial cotangent."""
    return part if isinstance(part, Seen) else part.values


def adjoint(layout: Layout, term: Term, size: int) -> Part:
    """Return the cotangent of a content of `size` elements, given the cotangent `term` of the elements read through `layout`."""
    if layout.offset == 0 and layout.size == size and layout.is_contiguous():
        return term.seen()
    axes = layout.axes()
    live = [k for k, axis in enumerate(axes) if axis.size != 1]
    dead = [k for k in live if axes[k].stride == 0 and axes[k].table is None]
    kept = [k for k in live if k not in dead]
    if layout.base is None and layout.tables is None:  # The sums get the memory order of the elements.
        kept.sort(key=lambda k: -abs(layout.strides[k]))
    if layout.base is None and layout.tables is None and term.op in (None, _MULTIPLY):
        slid = _slid(layout, term, kept) or _slid_in_phases(layout, term, kept)
        if slid is not None:
            return adjoint(*slid, size)
    order = (*kept, *dead)
    back = layout.arranged(order, tuple([layout.shape[k] for k in order])).adjoint(size)
    values = term.arranged(order).summed(len(kept))
    if back.how == "view":
        return values.through(back.layout)
    return Placed(values, back.layout, back.how == "store")


def _slid(layout: Layout, term: Term, kept: Sequence[int]) -> tuple[Layout, Term] | None:
    """Return the layout and the term of overlapping windows, gathered by element instead of by window. Return None if the layout is no such
    case.

    Each window must be shifted by one element from the window before. Window `y` reads element `y + k` at position `k`. So element `p` gets
    the sum over `k` of the contributions of window `p - k` at position `k`. Beyond the first and last window the term is 0. If the term is
    a product of two operands, the result is again a single product: the gradient of a convolution is a convolution.
    """
    axes = sorted([(layout.strides[k], layout.shape[k], k) for k in kept if layout.strides[k] > 0])
    pairs = {y: (k, places - 1) for (step, places, k), (other, _, y) in pairwise(axes) if step == other}
    if not pairs or any(k in pairs for k, _ in pairs.values()):
        return None
    shape = tuple([n + pairs[axis][1] if axis in pairs else n for axis, n in enumerate(layout.shape)])
    operands: list[Operand] = []
    ends: set[int] = set()  # the window axes along which an operand is padded with zeros
    for x in term.operands:
        if not isinstance(x, Seen) or x.layout.base is not None or x.layout.tables is not None:
            return None
        steps = x.layout.strides
        more = {y: more for y, (k, more) in pairs.items() if steps[y] not in (0, steps[k])}
        own = _padded(x, {y: (n, n) for y, n in more.items()}) if more else x
        ends |= more.keys()
        start, strides = own.layout.offset, list(own.layout.strides)
        for y, (k, _) in pairs.items():
            start += more.get(y, 0) * strides[y]
            strides[k] -= strides[y]
        operands.append(Seen(own.node, Layout(shape, tuple(strides), start)))
    if ends != pairs.keys():
        return None
    places = [k for k, _ in pairs.values()]
    own_steps = tuple([0 if axis in places else step for axis, step in enumerate(layout.strides)])
    return Layout(shape, own_steps, layout.offset), Term(term.op, operands, shape, term.dtype)


def _slid_in_phases(layout: Layout, term: Term, kept: Sequence[int]) -> tuple[Layout, Term] | None:
    """Return the layout and the term of overlapping windows at a distance of `s > 1` elements, gathered by element. Return None if the
    layout is no such case.

    Positions `k`, `k + s`, `k + 2 s`, ... of the windows read the same elements as windows at distance 1. So the positions split into `s`
    phases, each with every `s`-th position of a window. Elements `r`, `r + s`, `r + 2 s`, ... get the contributions of phase `r`.
    """
    shape, steps = layout.shape, layout.strides
    apart: dict[int, int] = {}  # for each axis of positions, the position at which the next window begins
    for k in kept:
        wider = [(steps[y] // steps[k], y) for y in kept if steps[y] > steps[k] > 0 and not steps[y] % steps[k]]
        if wider and min(wider)[0] < shape[k]:
            apart[k], y = min(wider)
            if any(isinstance(x, Seen) and x.layout.strides[y] and x.layout.strides[k] for x in term.operands):
                return None  # The operand varies with window and position, so phases would save nothing.
    short = {k: -shape[k] % s for k, s in apart.items()}  # the number of zero positions to add, so that phases have equal length
    operands: list[Operand] = []
    filled: set[int] = set()
    for x in term.operands:
        if not apart or not isinstance(x, Seen) or x.layout.base is not None or x.layout.tables is not None:
            return None
        more = {k: (0, n) for k, n in short.items() if n and x.layout.strides[k]}
        filled |= more.keys()
        own = _padded(x, more) if more else x
        operands.append(Seen(own.node, _phased(own.layout, apart)))
    if any(n and k not in filled for k, n in short.items()):
        return None
    layout = _phased(layout, apart)
    live = [k for k, n in enumerate(layout.shape) if n != 1]
    slid = _slid(layout, Term(term.op, operands, layout.shape, term.dtype), live)
    if slid is None:
        return None
    layout, term = slid
    order = sorted([k for k in live if layout.strides[k]], key=lambda k: -layout.strides[k])
    dead = [k for k in live if not layout.strides[k]]
    # The product is computed with each phase axis moved in front of the axis next to it, an image for each phase. Only the result is
    # permuted, so that phases interleave.
    phases = [k for k in order if layout.strides[k] in [steps[own] for own in apart]]
    first = order.index(phases[0]) - 1
    made = [*order[:first], *phases, *[k for k in order[first:] if k not in phases]]
    values = term.arranged((*made, *dead)).summed(len(made)).moved(lambda its: its.permute([made.index(k) for k in order]))
    layout = layout.arranged(order, tuple([layout.shape[k] for k in order]))
    return _without_ends(layout, values, [(steps[k], apart[k], n) for k, n in short.items() if n])


def _without_ends(layout: Layout, values: Seen, ends: Sequence[tuple[int, int, int]]) -> tuple[Layout, Term] | None:
    """Merge axes split into phases, and drop the padding. Each of `ends` gives the stride of a phase axis, the number of phases, and the
    number of padded elements to drop at the end. Return None if the axes are not adjacent.
    """
    if ends:  # A copy makes the two axes mergeable.
        empty = Seen(Node.of(EMPTY, (layout.size,), values.dtype))
        values = stored(empty, Layout.contiguous(layout.shape), values).reshaped(layout.shape)
    for step, phases, count in ends:
        sizes, steps = list(layout.shape), list(layout.strides)
        axis = steps.index(step)
        if steps[axis - 1 : axis] != [step * phases] or sizes[axis] != phases:
            return None
        sizes[axis - 1 : axis + 1] = [sizes[axis - 1] * phases]
        del steps[axis - 1]
        inner = (*(slice(None),) * (axis - 1), slice(0, sizes[axis - 1] - count))
        values = values.reshaped(tuple(sizes)).moved(lambda its, inner=inner: its.index(inner))  # type: ignore[misc]
        layout = Layout(values.shape, tuple(steps), layout.offset)
    return layout, Term.of(values)


def _phased(layout: Layout, apart: Mapping[int, int]) -> Layout:
    """Split some axes of positions in two: the index within the phase, and the phase. `apart` maps an axis to its number of phases. The
    extent within a phase is rounded up.
    """
    sizes, steps = list(layout.shape), list(layout.strides)
    for k in sorted(apart, reverse=True):
        s = apart[k]
        sizes[k : k + 1] = [-(-sizes[k] // s), s]
        steps[k : k + 1] = [s * steps[k], steps[k]]
    return Layout(tuple(sizes), tuple(steps), layout.offset)


def _padded(x: Seen, more: Mapping[int, tuple[int, int]]) -> Seen:
    """Return `x` with zeros before and after its elements. `more` maps an axis to both counts."""
    steps, shape = x.layout.strides, x.shape
    own = x.moved(lambda its: its.index(tuple([slice(None) if step else slice(0, 1) for step in steps])))
    ends = [more.get(axis, (0, 0)) for axis in range(len(shape))]
    sizes = tuple([n + before + after for n, (before, after) in zip(own.shape, ends, strict=True)])
    zeros = of_number(0, sizes, x.dtype)
    inner = zeros.layout.index(tuple([slice(before, before + n) for n, (before, _) in zip(own.shape, ends, strict=True)]))
    found = stored(zeros, inner, own).reshaped(sizes)
    every = [size if step else n for size, step, n in zip(sizes, steps, shape, strict=True)]
    return found.moved(lambda its: its.expand(every))


def total(parts: Sequence[Part], shape: Shape, dtype: DType) -> Seen:
    """Return the sum of the cotangents `parts` of one content, in its shape."""
    found: Seen | None = None
    for part in parts:
        if isinstance(part, Seen):
            found = part.reshaped(shape) if found is None else added(found, part.reshaped(shape))
    placed = [part for part in parts if isinstance(part, Placed) and part.layout.size]
    size = prod(shape)
    fresh, others = list[Placed](), list[Placed]()  # parts stored over zeros, and parts added to earlier values
    for part in placed:
        is_fresh = found is None and part.apart and all(part.layout.disjoint(other.layout) for other in fresh)
        (fresh if is_fresh else others).append(part)
    if found is None:
        covered = sum([part.layout.size for part in fresh]) == size
        found = Seen(Node.of(EMPTY, (size,), dtype)) if covered else of_number(0, (size,), dtype)
    for part in fresh:
        found = stored(found, part.layout, part.values)
    for part in others:
        found = _accumulated(found, part)
    return found.reshaped(shape)


def part_at(node: Node, start: int, size: int) -> Seen:
    """Return `size` elements of a sum of cotangents, from element `start` on, as one axis.

    If the sum was stored from several values, return the stored value with these elements, or the content before the stores if no store
    touches them. So no copy is made, and a zero stays recognizable.
    """
    while node.buffer is None and node.op is STORE:
        old, value = node.sources
        target, layout = node.target, node.layouts[1]
        assert type(old) is Node and type(value) is Node and target is not None and layout is not None
        reach = target.range()
        if reach is None or reach[1] < start or reach[0] >= start + size:
            node = old
        elif target.is_contiguous() and reach[0] <= start and start + size <= reach[1] + 1 and layout.is_contiguous():
            node, start = value, layout.offset + start - reach[0]
        elif target.is_contiguous() and reach == (start, start + size - 1):
            return Seen(value, layout).reshaped((size,))
        else:
            break
    return Seen(node, Layout.contiguous((size,), start))


def totals(pulled: Iterable[tuple[int, Part]], like: Any) -> dict[int, Seen]:
    """Return the cotangent of the content of each source, by index: the sum of the cotangents `pulled`. `like[k]` has the shape and dtype
    of source k.
    """
    parts: dict[int, list[Part]] = {}
    for k, part in pulled:
        parts.setdefault(k, []).append(part)
    return {k: total(its, like[k].shape, like[k].dtype) for k, its in parts.items()}


def root(node: Node, layout: Layout, g: Seen) -> tuple[Node, Seen]:
    """Return `node` with the cotangent of the node's content, given the cotangent `g` of the elements read through `layout`."""
    return node, total([adjoint(layout, Term.of(g), node.size)], node.shape, g.dtype)


def _accumulated(found: Seen, part: Placed) -> Seen:
    """Return `found` with a partial cotangent added."""
    values, layout = part.values, part.layout
    for at in _apart(layout) if not part.apart else [()]:
        if at is None:
            return _scattered(found, part)
        own, its = layout.index(at), values.moved(lambda x, at=at: x.index(at))  # type: ignore[misc]
        found = stored(found, own, added(found.reshaped((found.layout.size,)).through(own), its))
    return found


def _apart(layout: Layout) -> list[tuple[int | slice, ...] | None]:
    """Return index keys that cut a layout into at most `FEW` parts, each of them injective, or `[None]` if no such keys are found."""
    if layout.base is not None or layout.tables is not None:
        return [None]
    cut: list[int] = []
    for axis in sorted(range(layout.ndim), key=lambda k: layout.shape[k]):
        cut.append(axis)
        if prod([layout.shape[k] for k in cut]) > FEW:
            return [None]
        rest = layout.index(tuple([0 if k in cut else slice(None) for k in range(layout.ndim)]))
        if rest.is_injective():
            break
    places = np.ndindex(*[layout.shape[k] for k in cut])
    return [tuple([place[cut.index(k)] if k in cut else slice(None) for k in range(layout.ndim)]) for place in places]


def _scattered(found: Seen, part: Placed) -> Seen:
    """Return `found` with a partial cotangent added by one scatter, with a table of the target element of each value."""
    offsets = np.ascontiguousarray(part.layout.offsets().ravel())
    count, size = offsets.size, found.layout.size
    buffer = allocate(offsets.nbytes, "gradient", (count,), int64)
    buffer.typed(int64)[:count] = offsets
    indices = Seen(data(buffer, (count,), int64))
    values = Seen(part.values.node, part.values.layout.reshape((count,)))
    return scattered(_ADDING, found, Layout((count, size), (0, 1)), values, [indices])
