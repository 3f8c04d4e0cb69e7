"""The choice and the order of a kernel's loops, independent of the machine. The argument `walks` holds the strides of accesses; in
functions that also take a draft, it is the list of `list_access_strides`. A draft is a kernel under construction, with its reads, writes
and reductions.

Axes of size 1 are dropped. Adjacent axes are merged where every access can walk them as one, and the rest are ordered by memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .._utils.records import NamedTuple
from ..graph.node import Node
from ..graph.reduced_sources import find_summed_product, is_order_free
from ..graph.reduction_limits import MAX_SHORT_ITERATIONS
from .access_strides import AccessStrides, Loops, merge_axes, sort_by_stride
from .kernel_draft import KernelDraft, ReductionLoop, list_accesses


class OrderedLoops(NamedTuple):
    """The loops of a draft, and the strides of each access along the loops, with the strides of the result last.

    `extents` has the number of indices by axis number, after merging. `space` are the independent loops. `reduction_axes` maps the axes of
    a reduction in the draft to its axes after ordering and merging. `sequential_accumulators` holds the accumulators whose reductions take
    elements sequentially: only loops around them may be vectorized.
    """

    extents: list[int]
    strides: list[AccessStrides]
    space: Loops
    reduction_axes: dict[Loops, Loops]
    sequential_accumulators: frozenset[int]


def list_access_strides(d: KernelDraft) -> list[AccessStrides]:
    """Return the strides of each access of the draft `d` along the axes of `d`, in elements. The strides of the result come last.

    `d.output` must not be None.
    """
    assert d.output is not None
    return [AccessStrides.from_layout(p.index_map, p.loops, d.extents) for p in [*d.accesses, d.output]]


def order_loops(d: KernelDraft) -> OrderedLoops:
    """Return the loops of the draft `d`, ordered and merged, and the strides of the accesses along these loops. The draft is not changed.

    Independent loops are ordered by memory, unless a reduction or scan runs inside one of them. The loops of each reduction are in the
    reduction's own order (`KernelDraft.orders`).
    """
    walks, extents = list_access_strides(d), list(d.extents)
    space = tuple([a for a in d.space if extents[a] != 1])
    boundaries = _find_boundaries(d, space)
    if boundaries <= {0} and d.scan_axis is None:  # otherwise the reductions decide the order of the outer loops
        space = sort_by_stride(space, walks[-1:])
    reduced: dict[Loops, Loops] = {}
    for f in d.reductions:
        if f.axes not in reduced and f.axes != (d.scan_axis,):
            groups = _list_groups(d, f)
            axes = tuple([a for group in groups for a in group])
            ends = {sum([len(group) for group in groups[:k]]) for k in range(1, len(groups))}
            reduced[f.axes] = merge_axes(axes, walks, extents, ends | _find_boundaries(d, axes))
    in_order = frozenset([f.accumulator for f in d.reductions if f.accumulator not in d.orders or d.orders[f.accumulator].is_sequential])
    return OrderedLoops(extents, walks, merge_axes(space, walks, extents, boundaries), reduced, in_order)


def _list_groups(d: KernelDraft, f: ReductionLoop) -> list[Loops]:
    """Return the axes of the reduction `f` in its order, in groups that form single loops if the accesses of the draft `d` allow it.

    Where the draft cannot have this order, each axis is a group, in the order of the draft: view chains split the axes in another way, or
    another reduction runs between the loops.
    """
    order, axes = d.orders[f.accumulator], tuple([a for a in f.axes if d.extents[a] != 1])
    groups = [tuple([f.axes[k] for k in group]) for group in order.groups if max(group) < len(f.axes)]
    is_split_alike = not order.split_extents or order.split_extents == tuple([d.extents[a] for a in f.axes])
    ordered = tuple([a for group in groups for a in group])
    if not is_split_alike or sorted(ordered) != sorted(axes) or (ordered != axes and not _find_boundaries(d, axes) <= {0, len(axes)}):
        return [(a,) for a in axes]
    return groups


def _find_boundaries(d: KernelDraft, axes: Loops) -> set[int]:
    """Return the depths in loops over `axes` at which a reduction of the draft `d` runs, as a set of integers.

    Depth 0 is outside of the loops, and depth `len(axes)` inside the innermost. Loops on two sides of a depth must not be merged.
    """
    return {sum(a in axes for a in f.outer_loops) for f in d.reductions}


def move_longest_last(axes: Loops, extents: Sequence[int], min_extent: int) -> Loops:
    """Return `axes` with the longest axis moved to the end, so that it becomes the innermost loop; or `axes` itself if the move does not
    pay.

    The move pays if the last axis has fewer than `min_extent` indices, and the longest at least `2 * min_extent`. `extents` are by axis
    number. Of equally long axes, the first is moved.
    """
    longest = max(axes, key=lambda a: extents[a], default=0)
    if not axes or extents[axes[-1]] >= min_extent or extents[longest] < 2 * min_extent:
        return axes
    return (*(a for a in axes if a != longest), longest)


def _list_inner_reductions(d: KernelDraft, f: ReductionLoop) -> list[ReductionLoop]:
    """Return the reductions of the draft `d` that run inside at least one of the loops of the reduction `f`."""
    return [g for g in d.reductions if not set(f.axes).isdisjoint(g.outer_loops)]


def find_unfusable(d: KernelDraft) -> set[Node]:
    """Return the nodes to store so that each reduction of the draft `d` adds in the same order as in a kernel of its own.

    For a reduction without others inside its loops: store its operands if the draft cannot walk its axes in this order. Do nothing if all
    reductions over these axes are exact in any order. For a reduction with an inner reduction inside its loops:

    - Store the inner reduction if the draft cannot walk the axes of the outer one in their order.
    - Also store the inner reduction if it runs inside the innermost loop of the outer one, which would lose its lanes. But where
      `_may_reorder` is false, store the operands of the outer reduction instead. Store nothing for a sequential inner reduction of at most
      `MAX_SHORT_ITERATIONS` terms.
    """
    loops, walks = order_loops(d), list_access_strides(d)
    unfused: set[Node] = set()
    for f in d.reductions:
        axes, inner_loops = loops.reduction_axes.get(f.axes, ()), _list_inner_reductions(d, f)
        if not axes:
            continue
        order = d.orders[f.accumulator]
        is_reordered = axes != tuple([f.axes[group[-1]] for group in order.groups if group[-1] < len(f.axes)])
        takes_lanes = not order.is_sequential
        sharing = [node for g in d.reductions if g.axes == f.axes for node in d.reduction_nodes[g.accumulator]]
        if not inner_loops and is_reordered and not all(map(is_order_free, sharing)):
            nodes = d.reduction_nodes[f.accumulator]
            readers = [(find_summed_product(node) if order.follows_factors else None) or node for node in nodes]
            unfused.update([source for reader in readers for source in reader.sources if type(source) is Node])
        for g in inner_loops:
            is_brief = g.accumulator in loops.sequential_accumulators and prod([d.extents[a] for a in g.axes]) <= MAX_SHORT_ITERATIONS
            if is_reordered or (takes_lanes and axes[-1] in g.outer_loops and not is_brief):
                unfused.update(d.reduction_nodes[g.accumulator] if is_reordered or _may_reorder(d, f, walks) else _list_added_nodes(d, f))
    return unfused


def _may_reorder(d: KernelDraft, f: ReductionLoop, walks: Sequence[AccessStrides]) -> bool:
    """Return whether the loops of the reduction `f` of the draft `d` might have another order if its operands were stored in memory first.

    This is so if `f` has several loops, or if an operand is read along several loops, of `f` or around it. `walks` holds the strides of
    each access of the draft.
    """
    return len(f.axes) > 1 or any(len(walks[e.index].steps) > 1 for e in list_accesses(f.values))


def _list_added_nodes(d: KernelDraft, f: ReductionLoop) -> list[Node]:
    """Return the operands of the reduction `f` of the draft `d`: the sources, without scalars, of the nodes that `f` computes."""
    return [source for node in d.reduction_nodes[f.accumulator] for source in node.sources if type(source) is Node]
