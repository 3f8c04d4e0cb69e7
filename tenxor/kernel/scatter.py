"""The loops of scatters (writes at computed indices) and the order of the loops.

Each element takes its values in row-major order, on any number of threads. Loops whose iterations may write the same element keep their
order and run on one thread. Loops whose iterations always write distinct elements are outermost, and threads share them. A loop along
consecutive elements of memory is an exception: it is innermost, with lanes. If threads can share no other loop, each takes blocks of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..dtypes import DType
from ..layout import Layout
from ..node import Scatter
from ..ops.complexes.pairs import converted
from ..ops.complexes.reductions import split
from ..ops.expr import Arg, Expr, Pair, call
from ..ops.reductions import Reduction
from ..target import Target
from .arrange import Arranged, merged, ordered, walks_of
from .drafted import Draft
from .ir import Accumulate, For
from .nest import Nest, Nesting, looped, parts_of


def scattered(d: Draft, target: Target) -> Nest:
    """Return the nest of a scatter, with the loops outermost first.

    Loops whose iterations may write the same element are not parallel, and lanes run along the last loop. If threads can share nothing but
    the last loop, they share blocks of it in an additional outermost loop.
    """
    assert d.out is not None
    walks, extents = walks_of(d), list(d.extents)
    out = walks[-1]
    meeting_axes = meeting(d.out.index_map, len(d.space))
    free_axes = [a for k, a in enumerate(d.space) if k not in meeting_axes and extents[a] != 1]
    ordered_axes = tuple([a for k, a in enumerate(d.space) if k in meeting_axes and extents[a] != 1])
    has_unit_axis = out.base is None and any(out.is_unit(a) and extents[a] >= target.loops.beside for a in free_axes)
    inner = tuple([a for a in free_axes if has_unit_axis and out.is_unit(a)][:1])
    outer = ordered(tuple([a for a in free_axes if a not in inner]), [out])
    space = merged((*outer, *ordered_axes, *inner), walks, extents, {len(outer), len(outer) + len(ordered_axes)})
    nesting = Nesting(d, Arranged(extents, walks, space, {}, frozenset()))
    body = looped(tuple([nesting.axis_of[a] for a in space]), (_accumulate(nesting),))
    shared_size, step_count = (prod([extents[a] for a in space if a in axes]) for axes in (outer, space))
    if inner and ordered_axes and shared_size < target.threads and step_count >= target.sharing.scattered:
        block = _choose_block(extents[inner[0]], target)
        body = (For(nesting.axis_of[space[-1]], body, block),) if block else body
    return nesting.made(body, tuple([a for a in space if a not in ordered_axes]), lanes=space[-1:])


def _choose_block(extent: int, target: Target) -> int:
    """Return the number of neighbours in the block for a thread, a doubling of the minimal block; 0 with too few neighbours to share."""
    block = target.sharing.scattered_block
    while block * target.threads < extent:
        block *= 2
    return block if block < extent else 0


def meeting(target: Layout, loops: int) -> set[int]:
    """Return the axes, among the first `loops` axes of a layout, along which two positions may be the same element.

    The remaining axes are indexed by values, so every index along them is possible. Positions that differ along an axis not returned are
    distinct elements.
    """
    axes = target.axes()
    meeting_axes = {k for k, axis in enumerate(axes[:loops]) if axis.size > 1 and _repeats(axis.stride, axis.table)}
    distinct = target.oindex(
        [_first_occurrences(axis.table) if k in meeting_axes else None for k, axis in enumerate(axes)], keepdims=True
    )
    return meeting_axes if distinct.is_injective() else set(range(loops))


def _repeats(stride: int, table: object) -> bool:
    """Return whether an axis with this stride or table reaches an element twice."""
    offsets = getattr(table, "offsets", None)
    return stride == 0 if offsets is None else len(np.unique(offsets)) < len(offsets)


def _first_occurrences(table: object) -> object:
    """Return the positions along an axis of the first occurrence of each offset."""
    offsets = getattr(table, "offsets", None)
    return 0 if offsets is None else np.unique(offsets, return_index=True)[1]


def _accumulate(nesting: Nesting) -> Accumulate:
    """Return the only write of a scatter."""
    d = nesting.d
    assert isinstance(d.root.op, Scatter)
    indices = tuple([d.chosen[axis] for axis in nesting.out.loops if axis in d.chosen])
    return Accumulate(*nesting.result(), indices, parts_of(nesting.value), build_update(d.root.op.reduction, d.root.dtype))


def build_update(reduction: Reduction | None, dtype: DType) -> tuple[Expr, ...]:
    """Return the components of an element after the element has taken a value, as expressions over `Arg`s.

    The arguments are the components of the old element, then the components of the value. With `reduction` None, the value replaces the
    element.
    """
    part_dtypes = (dtype.part,) * (2 if dtype.is_complex else 1)
    old_parts, new_parts = ([Arg(begin + k, p) for k, p in enumerate(part_dtypes)] for begin in (0, len(part_dtypes)))
    if reduction is None:
        return tuple(new_parts)
    if reduction.between is not None and dtype.is_float:
        return (call(reduction.between, old_parts[0], new_parts[0]),)
    r = split(reduction, dtype)
    states = r.states(dtype)
    assert r.combine is not None, f"{r} says no way to join two states"
    left, right = (r.lift(x, x, states) for x in (_join_parts(old_parts, dtype), _join_parts(new_parts, dtype)))
    state = r.combine(left, right)
    return parts_of(converted(r.finish(state, dtype) if r.finish else state[-1], dtype))


def _join_parts(components: Sequence[Expr], dtype: DType) -> Expr:
    """Return components as one value: a pair for a complex dtype."""
    return Pair(components[0], components[1], dtype) if dtype.is_complex else components[0]
