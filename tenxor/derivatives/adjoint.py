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
from ..node import EMPTY, Node, data, scatter
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
        slid = _slid(layout, term, kept)
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
        own = _padded(x, more) if more else x
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


def _padded(x: Seen, more: Mapping[int, int]) -> Seen:
    """Its elements with so many zeros before and after them along some axes."""
    steps, shape = x.layout.strides, x.shape
    own = x.moved(lambda its: its.index(tuple([slice(None) if step else slice(0, 1) for step in steps])))
    sizes = tuple([n + 2 * more.get(axis, 0) for axis, n in enumerate(own.shape)])
    zeros = of_number(0, sizes, x.dtype)
    inner = zeros.layout.index(tuple([slice(more.get(axis, 0), more.get(axis, 0) + n) for axis, n in enumerate(own.shape)]))
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
    if found is None:
        found = of_number(0, (size,), dtype) if not _cover(placed, size) else Seen(Node.of(EMPTY, (size,), dtype))
        done: list[Layout] | None = []
    else:
        done = None  # there is something everywhere
    for part in placed:
        fresh = done is not None and part.apart and all(part.layout.disjoint(other) for other in done)
        found = stored(found, part.layout, part.values) if fresh else _accumulated(found, part)
        if done is not None:
            done.append(part.layout)
    return found.reshaped(shape)


def totals(pulled: Iterable[tuple[int, Part]], like: Any) -> dict[int, Seen]:
    """By the number of each source that something was given for, the cotangent of its content, of which `like` has the shape and dtype."""
    parts: dict[int, list[Part]] = {}
    for k, part in pulled:
        parts.setdefault(k, []).append(part)
    return {k: total(its, like[k].shape, like[k].dtype) for k, its in parts.items()}


def root(node: Node, layout: Layout, g: Seen) -> tuple[Node, Seen]:
    """A node with the cotangent of its content, given that of what a layout reads of it."""
    return node, total([adjoint(layout, Term.of(g), node.size)], node.shape, g.dtype)


def _cover(placed: Sequence[Placed], size: int) -> bool:
    """Whether each element belongs to just one of them."""
    if sum([part.layout.size for part in placed]) != size or not all(part.apart for part in placed):
        return False
    return all(part.layout.disjoint(other.layout) for k, part in enumerate(placed) for other in placed[:k])


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
