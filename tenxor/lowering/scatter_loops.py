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
from ..graph.node import Scatter
from ..layout import Layout
from ..ops.complex.component_reductions import split_complex_states
from ..ops.complex.split_formulas import convert
from ..ops.expr import Arg, ComplexPair, Expr, call
from ..ops.reductions import Reduction
from ..target import Target
from .access_strides import merge_axes, sort_by_stride
from .ir import Accumulate, For
from .kernel_draft import KernelDraft
from .loop_nest import LoopNest, LoopNestBuilder, list_components, wrap_in_loops
from .order_loops import OrderedLoops, list_access_strides


def build_scatter_nest(d: KernelDraft, target: Target) -> LoopNest:
    """Return the loop nest of the scatter in the draft `d`, already scheduled for `target`.

    Loops whose iterations may write the same element are not parallel, and lanes run along the last loop. If threads can share nothing but
    the last loop, they share blocks of it in an additional outermost loop.
    """
    assert d.output is not None
    walks, extents = list_access_strides(d), list(d.extents)
    out = walks[-1]
    meeting_axes = find_colliding_axes(d.output.index_map, len(d.space))
    free_axes = [a for k, a in enumerate(d.space) if k not in meeting_axes and extents[a] != 1]
    ordered_axes = tuple([a for k, a in enumerate(d.space) if k in meeting_axes and extents[a] != 1])
    has_unit_axis = out.base is None and any(out.has_unit_step(a) and extents[a] >= target.loops.min_adjacent_scatter for a in free_axes)
    inner = tuple([a for a in free_axes if has_unit_axis and out.has_unit_step(a)][:1])
    outer = sort_by_stride(tuple([a for a in free_axes if a not in inner]), [out])
    space = merge_axes((*outer, *ordered_axes, *inner), walks, extents, {len(outer), len(outer) + len(ordered_axes)})
    nesting = LoopNestBuilder(d, OrderedLoops(extents, walks, space, {}, frozenset()))
    body = wrap_in_loops(tuple([nesting.axis_of[a] for a in space]), (_build_accumulate(nesting),))
    shared_size, step_count = (prod([extents[a] for a in space if a in axes]) for axes in (outer, space))
    if inner and ordered_axes and shared_size < target.threads and step_count >= target.thread_limits.min_shared_scatter:
        block = _choose_block(extents[inner[0]], target)
        body = (For(nesting.axis_of[space[-1]], body, block),) if block else body
    return nesting.assemble_nest(body, tuple([a for a in space if a not in ordered_axes]), lanes=space[-1:])


def _choose_block(extent: int, target: Target) -> int:
    """Return how many iterations of a loop a thread takes at once, for a loop with `extent` iterations. Return 0 to run it undivided.

    The block begins at `ThreadLimits.min_scatter_block` iterations, and is doubled until the target has a thread for each block. The
    result is 0 if one block then takes all iterations.
    """
    block = target.thread_limits.min_scatter_block
    while block * target.threads < extent:
        block *= 2
    return block if block < extent else 0


def find_colliding_axes(target: Layout, loops: int) -> set[int]:
    """Return the axes, among the first `loops` axes of the layout `target`, along which two positions may be the same element; a set of
    numbers.

    `target` is the index map of a scatter's write. Positions that differ along an axis not returned are distinct elements. If this cannot
    be shown, all of the first `loops` axes are returned. The axes of `target` after them are indexed by values, so every index along them
    is possible.
    """
    axes = target.axes()
    meeting_axes = {k for k, axis in enumerate(axes[:loops]) if axis.size > 1 and _repeats(axis.stride, axis.table)}
    distinct = target.oindex([_first_occurrences(axis.table) if k in meeting_axes else None for k, axis in enumerate(axes)], keepdims=True)
    return meeting_axes if distinct.is_injective() else set(range(loops))


def _repeats(stride: int, table: object) -> bool:
    """Return whether an axis with this `stride`, or with the offset table `table` (`Table`) unless it is None, reaches an element twice."""
    offsets = getattr(table, "offsets", None)
    return stride == 0 if offsets is None else len(np.unique(offsets)) < len(offsets)


def _first_occurrences(table: object) -> object:
    """Return the positions along an axis of the first occurrence of each offset in `table` (`Table`), as an array. For None, return 0.

    Without a table, an axis repeats elements only with stride 0, and the first index reaches the single element.
    """
    offsets = getattr(table, "offsets", None)
    return 0 if offsets is None else np.unique(offsets, return_index=True)[1]


def _build_accumulate(nesting: LoopNestBuilder) -> Accumulate:
    """Return the statement that does the only write of a scatter. The operand of the result is added to the builder `nesting`."""
    d = nesting.d
    assert isinstance(d.root.op, Scatter)
    indices = tuple([d.indices[axis] for axis in nesting.output.loops if axis in d.indices])
    return Accumulate(*nesting.add_result(), indices, list_components(nesting.value), build_update(d.root.op.reduction, d.root.dtype))


def build_update(reduction: Reduction | None, dtype: DType) -> tuple[Expr, ...]:
    """Return the value of an element after a write to it, as expressions over `Arg`s: one expression per component of `dtype`.

    The arguments are the components of the old element, then the components of the written value. With `reduction` None, the value replaces
    the element; otherwise `reduction` combines both: each is lifted, and the combined state is finished and converted to `dtype`. A
    reduction without `combine` raises AssertionError.
    """
    part_dtypes = (dtype.part,) * (2 if dtype.is_complex else 1)
    old_parts, new_parts = ([Arg(begin + k, p) for k, p in enumerate(part_dtypes)] for begin in (0, len(part_dtypes)))
    if reduction is None:
        return tuple(new_parts)
    if reduction.binary_op_name is not None and dtype.is_float:
        return (call(reduction.binary_op_name, old_parts[0], new_parts[0]),)
    r = split_complex_states(reduction, dtype)
    states = r.state_dtypes(dtype)
    assert r.combine is not None, f"{r} says no way to join two states"
    left, right = (r.lift(x, x, states) for x in (_join_components(old_parts, dtype), _join_components(new_parts, dtype)))
    state = r.combine(left, right)
    return list_components(convert(r.finish(state, dtype) if r.finish else state[-1], dtype))


def _join_components(components: Sequence[Expr], dtype: DType) -> Expr:
    """Return `components` as one value: a pair for a complex dtype, or the component of a real dtype."""
    return ComplexPair(components[0], components[1], dtype) if dtype.is_complex else components[0]
