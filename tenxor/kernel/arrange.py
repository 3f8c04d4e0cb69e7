"""The choice and the order of a kernel's loops, independent of the machine.

Axes of size 1 are dropped. Adjacent axes are merged where every access can walk them as one, and the rest are ordered by memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from ..layout import Layout, Table
from ..node import Node
from ..ops.expr import Expr
from ..records import NamedTuple
from .drafted import Access, Draft, Loops, ReductionLoop, accesses
from .ir import Result, surface, walk

Step = int | Table
# These constants decide the order in which a reduction adds, and so the bits: they must be equal on every machine.
NEAR = (-1, 2, 3, 4)  # small steps: a few whole vectors hold the elements for the lanes
BRIEF = 4  # iterations of a short contraction, which is never vectorized along the summed axis


class Walk(NamedTuple):
    """The strides of an access along loops: `steps` per axis, in elements. Axes along which the access does not move are left out.

    A step is an integer, or a table with the offset of each index. `base` is the rest of a view chain, or None for a single view.
    """

    steps: dict[int, Step]
    offset: int
    base: Layout | None

    @staticmethod
    def of(layout: Layout, loops: Sequence[int], extents: Sequence[int]) -> Walk:
        """Return the walk of a layout with these loops as axes."""
        tables = layout.tables or (None,) * len(layout.shape)
        steps: dict[int, Step] = {}
        for axis, stride, table in zip(loops, layout.strides, tables, strict=True):
            if extents[axis] != 1:
                if table is not None:
                    steps[axis] = table
                elif stride:
                    steps[axis] = stride
        return Walk(steps, layout.offset, layout.base)

    def is_near(self, axis: int) -> bool:
        """Return whether the step along the axis is 1 or one of the small steps `NEAR`."""
        step = self.steps.get(axis)
        return step == 1 or step in NEAR

    def is_unit(self, axis: int) -> bool:
        """Return whether neighbours along the axis are neighbours in memory."""
        return self.steps.get(axis) == 1


class Arranged(NamedTuple):
    """The loops of a draft, and the walk of each access along the loops, with the walk of the result last.

    `space` are the independent loops. `reduced` maps the axes of a reduction in the draft to its axes after ordering and merging.
    `in_order` holds the accumulators whose reductions take elements sequentially: only loops around them may be vectorized.
    """

    extents: list[int]
    walks: list[Walk]
    space: Loops
    reduced: dict[Loops, Loops]
    in_order: frozenset[int]


def walks_of(d: Draft) -> list[Walk]:
    """Return the walk of each access of a draft, with the walk of the result last."""
    assert d.out is not None
    return [Walk.of(p.index_map, p.loops, d.extents) for p in [*d.accessed, d.out]]


def arranged(d: Draft) -> Arranged:
    """Return the loops of a draft, ordered by memory and merged, and the walks of its accesses."""
    walks, extents = walks_of(d), list(d.extents)
    space = tuple([a for a in d.space if extents[a] != 1])
    boundaries = _find_boundaries(d, space)
    if boundaries <= {0} and d.scan is None:  # otherwise the reductions decide the order of the outer loops
        space = ordered(space, walks[-1:])
    following_axes = {f.axes for f in d.reductions if d.accumulators[f.accumulator].reduction.follow is not None}
    reduced: dict[Loops, Loops] = {}
    for f in d.reductions:
        if f.axes not in reduced and f.axes != (d.scan,):
            axes = tuple([a for a in f.axes if extents[a] != 1])
            if f.axes not in following_axes and _find_boundaries(d, axes) <= {0, len(axes)}:
                axes = _order_reduction(axes, walks[:-1])
            reduced[f.axes] = axes
    in_order = frozenset([f.accumulator for f in d.reductions if _is_sequential(d, f, reduced.get(f.axes, ()), walks)])
    reduced = {original_axes: merged(axes, walks, extents, _find_boundaries(d, axes)) for original_axes, axes in reduced.items()}
    return Arranged(extents, walks, merged(space, walks, extents, boundaries), reduced, in_order)


def ways(d: Draft) -> dict[int, tuple[object, ...]]:
    """Return a key for each reduction that shares loops. Reductions with equal keys would run alike in separate kernels.

    A key holds whether the reduction takes elements in order, the order of the loops, and the loops left after merging.
    """
    axes_use = Counter(f.axes for f in d.reductions)
    sharing = [f for f in d.reductions if axes_use[f.axes] > 1]
    walks = walks_of(d) if sharing else []  # seldom needed
    loop_keys: dict[int, tuple[object, ...]] = {}
    for f in sharing:
        axes, merged_axes = _arrange_alone(d, f, walks)
        if axes:
            loop_keys[f.accumulator] = _is_sequential(d, f, axes, walks), *[f.axes.index(a) for a in (*axes, *merged_axes)]
    return loop_keys


def _arrange_alone(d: Draft, f: ReductionLoop, walks: Sequence[Walk]) -> tuple[Loops, Loops]:
    """Return the axes of a reduction in the order for a separate kernel with its operands in memory, and the axes left after merging."""
    axes = tuple([a for a in f.axes if d.extents[a] != 1])
    operand_walks = [walks[e.index] for e in accesses(f.values)]
    # copies, because `merged` changes them in place
    operand_walks = [w._replace(steps=dict(w.steps)) for w in operand_walks] + _list_result_walks(d, f, walks)
    if d.accumulators[f.accumulator].reduction.follow is None:
        axes = _order_reduction(axes, operand_walks)
    return axes, merged(axes, operand_walks, list(d.extents), set())


def _find_boundaries(d: Draft, axes: Loops) -> set[int]:
    """Return the positions among the axes, counted from the outermost, at which a reduction runs."""
    return {sum(a in axes for a in f.around) for f in d.reductions}


def merged(axes: Loops, walks: Sequence[Walk], extents: list[int], boundaries: set[int]) -> Loops:
    """Return the axes, with neighbours merged where every access walks them as a single axis.

    `walks` and `extents` are changed in place to match. Axes on two sides of a boundary are not merged. A boundary is a number of outermost
    axes inside which further statements run.
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


def _can_merge(outer: int, inner: int, walks: Sequence[Walk], extents: Sequence[int]) -> bool:
    """Return whether every walk moves along `outer` exactly as far as along a full loop over `inner`."""
    for w in walks:
        a, b = w.steps.get(outer, 0), w.steps.get(inner, 0)
        if isinstance(a, Table) or isinstance(b, Table) or a != extents[inner] * b:
            return False
    return True


def ordered(axes: Loops, walks: Sequence[Walk]) -> Loops:
    """Return the axes by decreasing stride, so that the innermost loop walks memory with the smallest stride."""

    def sum_strides(axis: int) -> int:
        return sum(abs(s) for w in walks if not isinstance(s := w.steps.get(axis, 0), Table))

    return tuple(sorted(axes, key=sum_strides, reverse=True))


def _order_reduction(axes: Loops, walks: Sequence[Walk]) -> Loops:
    """Return the axes of a reduction in order, ignoring accesses with a single axis.

    So `column * (row - other)` is added in the same order as `column * row`.
    """
    return ordered(axes, [w for w in walks if sum([a in w.steps for a in axes]) > 1])


def longest_last(axes: Loops, extents: Sequence[int], min_extent: int) -> Loops:
    """Return the axes with the longest one last, if the last has fewer than `min_extent` indices and the longest at least twice as many."""
    longest = max(axes, key=lambda a: extents[a], default=0)
    if not axes or extents[axes[-1]] >= min_extent or extents[longest] < 2 * min_extent:
        return axes
    return (*(a for a in axes if a != longest), longest)


def _is_sequential(d: Draft, f: ReductionLoop, axes: Loops, walks: Sequence[Walk]) -> bool:
    """Return whether a reduction takes elements sequentially, in a single state, so that lanes are left to outer loops.

    This holds where the elements of a result are far apart in memory but neighbouring results read contiguous elements, and for a short
    contraction. A reduction without `combine` always takes elements in order. Only the reduction and its operands decide, not the kernel
    around them, so the bits are the same in every kernel.
    """
    if not axes or d.accumulators[f.accumulator].reduction.combine is None:
        return True
    if f.last is None:
        return False
    accesses = {e for v in f.values for e in surface(v) if isinstance(e, Access)}
    moving_walks = [walks[e.index] for e in accesses if _moves_along(e, axes, walks)]  # other operands are loop-invariant
    if prod(d.extents[a] for a in axes) <= BRIEF and _has_shared_operands(f, moving_walks):
        return True
    # a value shared by neighbours is loaded once for all lanes
    last_walks = [w for w in moving_walks + _list_result_walks(d, f, walks) if f.last in w.steps]
    is_near_last, is_near_inner = [any(w.is_near(axis) for w in last_walks) for axis in (f.last, axes[-1])]
    return is_near_last and not is_near_inner


def _list_result_walks(d: Draft, f: ReductionLoop, walks: Sequence[Walk]) -> list[Walk]:
    """Return the walks by which a reduction would read the results of inner reductions stored in memory."""
    used_accumulators = {e.accumulator for v in f.values for e in surface(v) if isinstance(e, Result)}
    result_walks: list[Walk] = []
    for g in [g for g in _list_inner_loops(d, f) if g.accumulator in used_accumulators]:
        step, steps = 1, dict[int, Step]()
        moving_axes = _collect_moving_axes(d, g.values, walks)
        for axis in reversed([a for a in g.around if a in moving_axes]):
            steps[axis] = step
            step *= d.extents[axis]
        result_walks.append(Walk(steps, 0, None))
    return result_walks


def _collect_moving_axes(d: Draft, values: Sequence[Expr], walks: Sequence[Walk]) -> set[int]:
    """Return the axes on which the values depend, directly or through the results of reductions."""
    moving_axes: set[int] = set()
    stack, visited = list(values), set[int]()
    while stack:
        for e in walk(stack.pop()):
            if isinstance(e, Access):
                moving_axes.update(walks[e.index].steps)
            elif isinstance(e, Result) and e.accumulator not in visited:
                visited.add(e.accumulator)
                stack += d.reductions[e.accumulator].values
    return moving_axes


def _list_inner_loops(d: Draft, f: ReductionLoop) -> list[ReductionLoop]:
    """Return the reductions inside some of the loops of reduction `f`."""
    return [g for g in d.reductions if not set(f.axes).isdisjoint(g.around)]


def better_apart(d: Draft) -> set[Node]:
    """Return the nodes to store because a reduction with inner reductions would otherwise add in another order than alone.

    An inner reduction may need the lanes of the outer one, or reorder the loops. An inner reduction in the innermost loop is also stored,
    unless it is short.
    """
    loops, walks = arranged(d), walks_of(d)
    unfused: set[Node] = set()
    for f in d.reductions:
        axes, inner_loops = loops.reduced.get(f.axes, ()), _list_inner_loops(d, f)
        if not axes or not inner_loops:
            continue
        is_reordered, takes_lanes = _arrange_alone(d, f, walks)[1] != axes, f.accumulator not in loops.in_order
        for g in inner_loops:
            is_brief = g.accumulator in loops.in_order and prod([d.extents[a] for a in g.axes]) <= BRIEF
            if is_reordered or (takes_lanes and axes[-1] in g.around and not is_brief):
                unfused.update(d.reduced[g.accumulator] if is_reordered or _may_reorder(d, f, walks) else _list_added_nodes(d, f))
    return unfused


def _may_reorder(d: Draft, f: ReductionLoop, walks: Sequence[Walk]) -> bool:
    """Return whether a reduction might order its loops differently with operands in memory: with several loops, or reads along several."""
    return len(f.axes) > 1 or any(len(walks[e.index].steps) > 1 for e in accesses(f.values))


def _list_added_nodes(d: Draft, f: ReductionLoop) -> list[Node]:
    """Return the nodes that a reduction adds."""
    return [source for node in d.reduced[f.accumulator] for source in node.sources if type(source) is Node]


def _has_shared_operands(f: ReductionLoop, reads: Sequence[Walk]) -> bool:
    """Return whether neighbouring results share some operands of a reduction, but not all of them, as in a matrix product."""
    shared_walks = [w for w in reads if f.last not in w.steps]
    return 0 < len(shared_walks) < len(reads) and any(a in w.steps for w in shared_walks for a in f.around)


def _moves_along(access: Access, axes: Loops, walks: Sequence[Walk]) -> bool:
    """Return whether an access, or the index of an access, moves along at least one of the axes."""
    all_steps = [walks[e.index].steps for e in walk(access) if isinstance(e, Access)]
    return any(axis in access_steps for access_steps in all_steps for axis in axes)
