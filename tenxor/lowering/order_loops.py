"""The choice and the order of a kernel's loops, independent of the machine.

Axes of size 1 are dropped. Adjacent axes are merged where every access can walk them as one, and the rest are ordered by memory. The
argument `walks` holds the strides of accesses. In functions that also take a draft, it is the list of `list_access_strides`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from .._utils.records import NamedTuple
from ..graph.node import Node
from ..layout import Layout, Table
from ..ops.expr import Expr, walk_unvisited
from .ir import Result, walk, walk_outside_indices
from .kernel_draft import Access, KernelDraft, Loops, ReductionLoop, list_accesses

Step = int | Table
# These constants decide the order in which a reduction adds, and so the bits: they must be equal on every machine.
NEAR_STEPS = (-1, 2, 3, 4)  # small steps: a few whole vectors hold the elements for the lanes
MAX_SHORT_ITERATIONS = 4  # iterations of a short contraction, which is never vectorized along the summed axis


class AccessStrides(NamedTuple):
    """The strides of an access along loops: `steps` per axis, in elements. Axes along which the access does not move are left out.

    A step is an integer, or a table with the offset of each index. `base` is the rest of a view chain, or None for a single view.
    """

    steps: dict[int, Step]
    offset: int
    base: Layout | None

    @staticmethod
    def from_layout(layout: Layout, loops: Sequence[int], extents: Sequence[int]) -> AccessStrides:
        """Return the strides of an access through `layout`, whose axes are walked by the loops `loops`, in this order.

        `extents` gives the number of indices of each axis, by axis number.
        """
        tables = layout.tables or (None,) * len(layout.shape)
        steps: dict[int, Step] = {}
        for axis, stride, table in zip(loops, layout.strides, tables, strict=True):
            if extents[axis] != 1:
                if table is not None:
                    steps[axis] = table
                elif stride:
                    steps[axis] = stride
        return AccessStrides(steps, layout.offset, layout.base)

    def has_near_step(self, axis: int) -> bool:
        """Return whether the step along `axis` is 1 or one of the small steps `NEAR_STEPS`."""
        step = self.steps.get(axis)
        return step == 1 or step in NEAR_STEPS

    def has_unit_step(self, axis: int) -> bool:
        """Return whether neighbours along `axis` are neighbours in memory, in increasing order."""
        return self.steps.get(axis) == 1


class OrderedLoops(NamedTuple):
    """The loops of a draft, and the strides of each access along the loops, with the strides of the result last.

    `space` are the independent loops. `reduction_axes` maps the axes of a reduction in the draft to its axes after ordering and merging.
    `sequential_accumulators` holds the accumulators whose reductions take elements sequentially: only loops around them may be vectorized.
    """

    extents: list[int]
    strides: list[AccessStrides]
    space: Loops
    reduction_axes: dict[Loops, Loops]
    sequential_accumulators: frozenset[int]


def list_access_strides(d: KernelDraft) -> list[AccessStrides]:
    """Return the strides of each access of a draft, with the strides of the result last."""
    assert d.output is not None
    return [AccessStrides.from_layout(p.index_map, p.loops, d.extents) for p in [*d.accesses, d.output]]


def order_loops(d: KernelDraft) -> OrderedLoops:
    """Return the loops of a draft, ordered by memory and merged, and the strides of its accesses along them."""
    walks, extents = list_access_strides(d), list(d.extents)
    space = tuple([a for a in d.space if extents[a] != 1])
    boundaries = _find_boundaries(d, space)
    if boundaries <= {0} and d.scan_axis is None:  # otherwise the reductions decide the order of the outer loops
        space = sort_by_stride(space, walks[-1:])
    following_axes = {f.axes for f in d.reductions if d.accumulators[f.accumulator].reduction.append is not None}
    reduced: dict[Loops, Loops] = {}
    for f in d.reductions:
        if f.axes not in reduced and f.axes != (d.scan_axis,):
            axes = tuple([a for a in f.axes if extents[a] != 1])
            if f.axes not in following_axes and _find_boundaries(d, axes) <= {0, len(axes)}:
                axes = _order_reduction(axes, walks[:-1])
            reduced[f.axes] = axes
    in_order = frozenset([f.accumulator for f in d.reductions if _is_sequential(d, f, reduced.get(f.axes, ()), walks)])
    reduced = {original_axes: merge_axes(axes, walks, extents, _find_boundaries(d, axes)) for original_axes, axes in reduced.items()}
    return OrderedLoops(extents, walks, merge_axes(space, walks, extents, boundaries), reduced, in_order)


def compute_loop_keys(d: KernelDraft) -> dict[int, tuple[object, ...]]:
    """Return a key for each reduction that shares loops, by accumulator. Reductions with equal keys would run alike in separate kernels.

    A key holds whether the reduction takes elements in order, the order of the loops, and the loops left after merging. A reduction along
    axes of size 1 only has no key.
    """
    axes_use = Counter(f.axes for f in d.reductions)
    sharing = [f for f in d.reductions if axes_use[f.axes] > 1]
    walks = list_access_strides(d) if sharing else []  # seldom needed
    loop_keys: dict[int, tuple[object, ...]] = {}
    for f in sharing:
        axes, merged_axes = _order_standalone(d, f, walks)
        if axes:
            loop_keys[f.accumulator] = _is_sequential(d, f, axes, walks), *[f.axes.index(a) for a in (*axes, *merged_axes)]
    return loop_keys


def _order_standalone(d: KernelDraft, f: ReductionLoop, walks: Sequence[AccessStrides]) -> tuple[Loops, Loops]:
    """Return the axes of a reduction in the order for a separate kernel with its operands in memory, and the axes left after merging.

    `f` is the reduction. `walks` holds the strides of each access of the draft, and stays unchanged.
    """
    axes = tuple([a for a in f.axes if d.extents[a] != 1])
    operand_walks = [walks[e.index] for e in list_accesses(f.values)]
    # copies, because `merge_axes` changes them in place
    operand_walks = [w._replace(steps=dict(w.steps)) for w in operand_walks] + _list_result_strides(d, f, walks)
    if d.accumulators[f.accumulator].reduction.append is None:
        axes = _order_reduction(axes, operand_walks)
    return axes, merge_axes(axes, operand_walks, list(d.extents), set())


def _find_boundaries(d: KernelDraft, axes: Loops) -> set[int]:
    """Return the depths in loops over `axes` at which a reduction runs: 0 outside of the loops, `len(axes)` inside the innermost."""
    return {sum(a in axes for a in f.outer_loops) for f in d.reductions}


def merge_axes(axes: Loops, walks: Sequence[AccessStrides], extents: list[int], boundaries: set[int]) -> Loops:
    """Return the axes, with neighbours merged where every access walks them as a single axis, numbered like the inner axis.

    `walks` and `extents` are changed in place to match. `axes` lists the loops, outermost first. Axes on two sides of a boundary are not
    merged. A boundary is a number of outermost axes inside which further statements run.
    """
    merged_axes: list[int] = []
    for k, inner in enumerate(axes):
        if merged_axes and k not in boundaries and _can_merge(merged_axes[-1], inner, walks, extents):
            outer = merged_axes.pop()
            extents[inner] *= extents[outer]
            for w in walks:
                w.steps.pop(outer, None)
        merged_axes.append(inner)
    return tuple(merged_axes)


def _can_merge(outer: int, inner: int, walks: Sequence[AccessStrides], extents: Sequence[int]) -> bool:
    """Return whether every walk moves along axis `outer` exactly as far as along a full loop over axis `inner`.

    Walks with a table along one of the axes never do. `extents` are the extents by axis number.
    """
    for w in walks:
        a, b = w.steps.get(outer, 0), w.steps.get(inner, 0)
        if isinstance(a, Table) or isinstance(b, Table) or a != extents[inner] * b:
            return False
    return True


def sort_by_stride(axes: Loops, walks: Sequence[AccessStrides]) -> Loops:
    """Return the axes by decreasing stride, summed over `walks`, so that the innermost loop moves the least in memory.

    Steps given by tables count as 0. Axes of equal sums keep their order.
    """

    def sum_strides(axis: int) -> int:
        return sum(abs(s) for w in walks if not isinstance(s := w.steps.get(axis, 0), Table))

    return tuple(sorted(axes, key=sum_strides, reverse=True))


def _order_reduction(axes: Loops, walks: Sequence[AccessStrides]) -> Loops:
    """Return the axes of a reduction by decreasing stride, ignoring `walks` that move along a single one of the axes.

    So `column * (row - other)` is added in the same order as `column * row`.
    """
    return sort_by_stride(axes, [w for w in walks if sum([a in w.steps for a in axes]) > 1])


def move_longest_last(axes: Loops, extents: Sequence[int], min_extent: int) -> Loops:
    """Return `axes` with the longest axis moved to the end, or unchanged if this does not pay.

    It pays if the last axis has fewer than `min_extent` indices, and the longest at least `2 * min_extent`. `extents` are by axis number.
    """
    longest = max(axes, key=lambda a: extents[a], default=0)
    if not axes or extents[axes[-1]] >= min_extent or extents[longest] < 2 * min_extent:
        return axes
    return (*(a for a in axes if a != longest), longest)


def _is_sequential(d: KernelDraft, f: ReductionLoop, axes: Loops, walks: Sequence[AccessStrides]) -> bool:
    """Return whether the reduction `f` takes elements sequentially, in a single state, so that lanes are left to outer loops.

    `axes` are its axes of more than one index, in order, and `walks` holds the strides of each access of the draft. The answer is True
    where the elements of a result are far apart in memory but neighbouring results read contiguous elements, and for a short contraction. A
    reduction without `combine` always takes elements in order. Only the reduction and its operands decide, not the kernel around them, so
    the bits are the same in every kernel.
    """
    if not axes or d.accumulators[f.accumulator].reduction.combine is None:
        return True
    if f.last_loop is None:
        return False
    accesses = {e for v in f.values for e in walk_outside_indices(v) if isinstance(e, Access)}
    moving_walks = [walks[e.index] for e in accesses if _moves_along(e, axes, walks)]  # other operands are loop-invariant
    if prod(d.extents[a] for a in axes) <= MAX_SHORT_ITERATIONS and _has_shared_operands(f, moving_walks):
        return True
    # a value shared by neighbours is loaded once for all lanes
    last_walks = [w for w in moving_walks + _list_result_strides(d, f, walks) if f.last_loop in w.steps]
    is_near_last, is_near_inner = [any(w.has_near_step(axis) for w in last_walks) for axis in (f.last_loop, axes[-1])]
    return is_near_last and not is_near_inner


def _list_result_strides(d: KernelDraft, f: ReductionLoop, walks: Sequence[AccessStrides]) -> list[AccessStrides]:
    """Return the strides by which the reduction `f` would read the results of inner reductions, if these were stored in memory.

    `walks` holds the strides of each access of the draft.
    """
    result_walks: list[AccessStrides] = []
    inner_loops = _list_inner_loops(d, f)
    if not inner_loops:
        return result_walks
    used_accumulators = {e.accumulator for v in f.values for e in walk_outside_indices(v) if isinstance(e, Result)}
    for g in [g for g in inner_loops if g.accumulator in used_accumulators]:
        step, steps = 1, dict[int, Step]()
        moving_axes = _collect_moving_axes(d, g.values, walks)
        for axis in reversed([a for a in g.outer_loops if a in moving_axes]):
            steps[axis] = step
            step *= d.extents[axis]
        result_walks.append(AccessStrides(steps, 0, None))
    return result_walks


def _collect_moving_axes(d: KernelDraft, values: Sequence[Expr], walks: Sequence[AccessStrides]) -> set[int]:
    """Return the axes on which the expressions `values` depend, directly or through the results of reductions.

    `walks` holds the strides of each access of the draft.
    """
    moving_axes: set[int] = set()
    stack, visited = list(values), dict[Expr, None]()
    while stack:
        for e in walk_unvisited(stack.pop(), visited):
            visited[e] = None
            if isinstance(e, Access):
                moving_axes.update(walks[e.index].steps)
            elif isinstance(e, Result):
                stack += d.reductions[e.accumulator].values
    return moving_axes


def _list_inner_loops(d: KernelDraft, f: ReductionLoop) -> list[ReductionLoop]:
    """Return the reductions inside some of the loops of reduction `f`."""
    return [g for g in d.reductions if not set(f.axes).isdisjoint(g.outer_loops)]


def find_unfusable(d: KernelDraft) -> set[Node]:
    """Return the nodes to store because a reduction with inner reductions would otherwise add in another order than alone.

    An inner reduction may need the lanes of the outer one, or reorder the loops. An inner reduction in the innermost loop is also stored,
    unless it is short. The set is empty if the draft has no such pair.
    """
    loops, walks = order_loops(d), list_access_strides(d)
    unfused: set[Node] = set()
    for f in d.reductions:
        axes, inner_loops = loops.reduction_axes.get(f.axes, ()), _list_inner_loops(d, f)
        if not axes or not inner_loops:
            continue
        is_reordered, takes_lanes = _order_standalone(d, f, walks)[1] != axes, f.accumulator not in loops.sequential_accumulators
        for g in inner_loops:
            is_brief = g.accumulator in loops.sequential_accumulators and prod([d.extents[a] for a in g.axes]) <= MAX_SHORT_ITERATIONS
            if is_reordered or (takes_lanes and axes[-1] in g.outer_loops and not is_brief):
                unfused.update(d.reduction_nodes[g.accumulator] if is_reordered or _may_reorder(d, f, walks) else _list_added_nodes(d, f))
    return unfused


def _may_reorder(d: KernelDraft, f: ReductionLoop, walks: Sequence[AccessStrides]) -> bool:
    """Return whether the reduction `f` might order its loops differently with operands in memory.

    This is so with several loops, or if an operand is read along several loops. `walks` holds the strides of each access of the draft.
    """
    return len(f.axes) > 1 or any(len(walks[e.index].steps) > 1 for e in list_accesses(f.values))


def _list_added_nodes(d: KernelDraft, f: ReductionLoop) -> list[Node]:
    """Return the operands of the reduction `f`: the sources of the nodes that `f` computes."""
    return [source for node in d.reduction_nodes[f.accumulator] for source in node.sources if type(source) is Node]


def _has_shared_operands(f: ReductionLoop, reads: Sequence[AccessStrides]) -> bool:
    """Return whether neighbouring results of `f` share some of its `reads`, but not all of them, as in a matrix product.

    `reads` are the strides of its operands. One of the shared operands must move along another loop around the reduction.
    """
    shared_walks = [w for w in reads if f.last_loop not in w.steps]
    return 0 < len(shared_walks) < len(reads) and any(a in w.steps for w in shared_walks for a in f.outer_loops)


def _moves_along(access: Access, axes: Loops, walks: Sequence[AccessStrides]) -> bool:
    """Return whether `access`, or an index computed for it, moves along at least one of `axes`.

    `walks` holds the strides of each access of the draft.
    """
    all_steps = [walks[e.index].steps for e in walk(access) if isinstance(e, Access)]
    return any(axis in access_steps for access_steps in all_steps for axis in axes)
