"""From the positions of a view back to the elements that it reads: each takes the sum of the cotangents of all positions that read it.

Cotangents of a content are added up as they come. Those of all of it are tensors; those of a part are written into their place.
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
FEW = 64  # positions that meet at one element, up to which each is added by a write of its own
_ADDING = scatter("gradient", REDUCTIONS["sum_in_width"], (0,), True)


class Placed(NamedTuple):
    """Cotangents of those elements that a layout reads, all others being 0. Through one that is not `apart`, positions share elements."""

    values: Seen
    layout: Layout
    apart: bool


Part = Seen | Placed


def seen_of(part: Part) -> Seen:
    """The values of a part, wherever they belong."""
    return part if isinstance(part, Seen) else part.values


def adjoint(layout: Layout, term: Term, size: int) -> Part:
    """The cotangent of a content of `size` elements of which that of what a layout reads is given."""
    if layout.offset == 0 and layout.size == size and layout.is_contiguous():
        return term.seen()
    axes = layout.axes()
    live = [k for k, axis in enumerate(axes) if axis.size != 1]
    dead = [k for k in live if axes[k].stride == 0 and axes[k].table is None]
    kept = [k for k in live if k not in dead]
    if layout.base is None and layout.tables is None:  # so the sums lie in memory as the elements do
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
    """The same where windows overlap, each a step of one element from the one before, from the elements' side: what window `y`
    sees at place `k` is element `y + k`, so element `p` takes what windows `p - k` give it, for all `k`, and beyond the first and
    last window there is 0.

    Of a product of two this is one product again: the gradient of a convolution is a convolution.
    """
    axes = sorted([(layout.strides[k], layout.shape[k], k) for k in kept if layout.strides[k] > 0])
    pairs = {y: (k, places - 1) for (step, places, k), (other, _, y) in pairwise(axes) if step == other}
    if not pairs or any(k in pairs for k, _ in pairs.values()):
        return None
    shape = tuple([n + pairs[axis][1] if axis in pairs else n for axis, n in enumerate(layout.shape)])
    operands: list[Operand] = []
    ends: set[int] = set()  # the axes beyond whose ends something is 0
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
    """The same where windows overlap that are several elements apart, say `s`: places `k`, `k + s`, `k + 2 s`, ... of windows see the same
    elements, as windows do that are a step apart. So there are `s` such phases, each with every `s`-th place of a window, and
    elements `r`, `r + s`, `r + 2 s`, ... take what phase `r` gives.
    """
    shape, steps = layout.shape, layout.strides
    apart: dict[int, int] = {}  # by the axis of places: the first that the next window sees, too
    for k in kept:
        wider = [(steps[y] // steps[k], y) for y in kept if steps[y] > steps[k] > 0 and not steps[y] % steps[k]]
        if wider and min(wider)[0] < shape[k]:
            apart[k], y = min(wider)
            if any(isinstance(x, Seen) and x.layout.strides[y] and x.layout.strides[k] for x in term.operands):
                return None  # no product of windows with places: phases would save nothing
    short = {k: -shape[k] % s for k, s in apart.items()}  # places more, for as many in each phase, which are 0
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
    # The product is one of results of so many kinds, each an image, and only what comes of it lies phase by phase.
    phases = [k for k in order if layout.strides[k] in [steps[own] for own in apart]]
    first = order.index(phases[0]) - 1
    made = [*order[:first], *phases, *[k for k in order[first:] if k not in phases]]
    values = term.arranged((*made, *dead)).summed(len(made)).moved(lambda its: its.permute([made.index(k) for k in order]))
    layout = layout.arranged(order, tuple([layout.shape[k] for k in order]))
    return _without_ends(layout, values, [(steps[k], apart[k], n) for k, n in short.items() if n])


def _without_ends(layout: Layout, values: Seen, ends: Sequence[tuple[int, int, int]]) -> tuple[Layout, Term] | None:
    """The same without the last elements, so many of them, along axes that are cut into phases, so many of them, with this step."""
    if ends:  # copied, so that two axes are one again
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
    """A layout with some axes of places, as many as there are phases or more, as two: the number within the phase, and the phase."""
    sizes, steps = list(layout.shape), list(layout.strides)
    for k in sorted(apart, reverse=True):
        s = apart[k]
        sizes[k : k + 1] = [-(-sizes[k] // s), s]
        steps[k : k + 1] = [s * steps[k], steps[k]]
    return Layout(tuple(sizes), tuple(steps), layout.offset)


def _padded(x: Seen, more: Mapping[int, tuple[int, int]]) -> Seen:
    """Its elements with so many zeros before and after them along some axes."""
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
    """The sum of cotangents of one content, in its shape."""
    found: Seen | None = None
    for part in parts:
        if isinstance(part, Seen):
            found = part.reshaped(shape) if found is None else added(found, part.reshaped(shape))
    placed = [part for part in parts if isinstance(part, Placed) and part.layout.size]
    size = prod(shape)
    fresh, others = list[Placed](), list[Placed]()  # those where nothing was before, and those where something is by then
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
    """Some elements of a total, in one axis: the very part of which they were made if they lie in one, and what it begins with, as where
    that is 0, if they lie in none.
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
    """By the number of each source that something was given for, the cotangent of its content, of which `like` has the shape and dtype."""
    parts: dict[int, list[Part]] = {}
    for k, part in pulled:
        parts.setdefault(k, []).append(part)
    return {k: total(its, like[k].shape, like[k].dtype) for k, its in parts.items()}


def root(node: Node, layout: Layout, g: Seen) -> tuple[Node, Seen]:
    """A node with the cotangent of its content, given that of what a layout reads of it."""
    return node, total([adjoint(layout, Term.of(g), node.size)], node.shape, g.dtype)


def _accumulated(found: Seen, part: Placed) -> Seen:
    """What is there with values added to it through a layout."""
    values, layout = part.values, part.layout
    for at in _apart(layout) if not part.apart else [()]:
        if at is None:
            return _scattered(found, part)
        own, its = layout.index(at), values.moved(lambda x, at=at: x.index(at))  # type: ignore[misc]
        found = stored(found, own, added(found.reshaped((found.layout.size,)).through(own), its))
    return found


def _apart(layout: Layout) -> list[tuple[int | slice, ...] | None]:
    """Keys that cut a layout into few parts in which no two positions share an element; None if there are no such."""
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
    """The same by a table of where each value goes."""
    offsets = np.ascontiguousarray(part.layout.offsets().ravel())
    count, size = offsets.size, found.layout.size
    buffer = allocate(offsets.nbytes, "gradient", (count,), int64)
    buffer.typed(int64)[:count] = offsets
    indices = Seen(data(buffer, (count,), int64))
    values = Seen(part.values.node, part.values.layout.reshape((count,)))
    return scattered(_ADDING, found, Layout((count, size), (0, 1)), values, [indices])
