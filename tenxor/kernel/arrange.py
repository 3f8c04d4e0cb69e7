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
    boundaries = _boundaries(d, space)
    if boundaries <= {0} and d.scan is None:  # otherwise the reductions decide the order of the outer loops
        space = ordered(space, walks[-1:])
    following = {f.axes for f in d.reductions if d.accumulators[f.accumulator].reduction.follow is not None}
    reduced: dict[Loops, Loops] = {}
    for f in d.reductions:
        if f.axes not in reduced and f.axes != (d.scan,):
            axes = tuple([a for a in f.axes if extents[a] != 1])
            if f.axes not in following and _boundaries(d, axes) <= {0, len(axes)}:
                axes = _ordered_to_add(axes, walks[:-1])
            reduced[f.axes] = axes
    in_order = frozenset([f.accumulator for f in d.reductions if _takes_in_order(d, f, reduced.get(f.axes, ()), walks)])
    reduced = {own: merged(axes, walks, extents, _boundaries(d, axes)) for own, axes in reduced.items()}
    return Arranged(extents, walks, merged(space, walks, extents, boundaries), reduced, in_order)


def ways(d: Draft) -> dict[int, tuple[object, ...]]:
    """Return a key for each reduction that shares loops. Reductions with equal keys would run alike in separate kernels.

    A key holds whether the reduction takes elements in order, the order of the loops, and the loops left after merging.
    """
    shared = Counter(f.axes for f in d.reductions)
    together = [f for f in d.reductions if shared[f.axes] > 1]
    walks = walks_of(d) if together else []  # seldom needed
    found: dict[int, tuple[object, ...]] = {}
    for f in together:
        axes, left = _alone(d, f, walks)
        if axes:
            found[f.accumulator] = _takes_in_order(d, f, axes, walks), *[f.axes.index(a) for a in (*axes, *left)]
    return found


def _alone(d: Draft, f: ReductionLoop, walks: Sequence[Walk]) -> tuple[Loops, Loops]:
    """Return the axes of a reduction in the order for a separate kernel with its operands in memory, and the axes left after merging."""
    axes = tuple([a for a in f.axes if d.extents[a] != 1])
    own = [walks[e.index] for e in accesses(f.values)]
    own = [w._replace(steps=dict(w.steps)) for w in own] + _results(d, f, walks)  # copies, because `merged` changes them in place
    if d.accumulators[f.accumulator].reduction.follow is None:
        axes = _ordered_to_add(axes, own)
    return axes, merged(axes, own, list(d.extents), set())


def _boundaries(d: Draft, axes: Loops) -> set[int]:
    """Return the positions among the axes, counted from the outermost, at which a reduction runs."""
    return {sum(a in axes for a in f.around) for f in d.reductions}


def merged(axes: Loops, walks: Sequence[Walk], extents: list[int], boundaries: set[int]) -> Loops:
    """Return the axes, with neighbours merged where every access walks them as a single axis.

    `walks` and `extents` are changed in place to match. Axes on two sides of a boundary are not merged. A boundary is a number of outermost
    axes inside which further statements run.
    """
    done: list[int] = []
    for k, inner in enumerate(axes):
        if done and k not in boundaries and _join(done[-1], inner, walks, extents):
            outer = done.pop()
            extents[inner] *= extents[outer]
            for w in walks:
                w.steps.pop(outer, None)
        done.append(inner)
    return tuple(done)


def _join(outer: int, inner: int, walks: Sequence[Walk], extents: Sequence[int]) -> bool:
    """Return whether every walk moves along `outer` exactly as far as along a full loop over `inner`."""
    for w in walks:
        a, b = w.steps.get(outer, 0), w.steps.get(inner, 0)
        if isinstance(a, Table) or isinstance(b, Table) or a != extents[inner] * b:
            return False
    return True


def ordered(axes: Loops, walks: Sequence[Walk]) -> Loops:
    """Return the axes by decreasing stride, so that the innermost loop walks memory with the smallest stride."""

    def reach(axis: int) -> int:
        return sum(abs(s) for w in walks if not isinstance(s := w.steps.get(axis, 0), Table))

    return tuple(sorted(axes, key=reach, reverse=True))


def _ordered_to_add(axes: Loops, walks: Sequence[Walk]) -> Loops:
    """Return the axes of a reduction in order, ignoring accesses with a single axis.

    So `column * (row - other)` is added in the same order as `column * row`.
    """
    return ordered(axes, [w for w in walks if sum([a in w.steps for a in axes]) > 1])


def longest_last(axes: Loops, extents: Sequence[int], enough: int) -> Loops:
    """Return the axes with the longest one last, if the last has fewer than `enough` indices and the longest at least twice as many."""
    longest = max(axes, key=lambda a: extents[a], default=0)
    if not axes or extents[axes[-1]] >= enough or extents[longest] < 2 * enough:
        return axes
    return (*(a for a in axes if a != longest), longest)


def _takes_in_order(d: Draft, f: ReductionLoop, axes: Loops, walks: Sequence[Walk]) -> bool:
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
    reads = [walks[e.index] for e in accesses if _moves(e, axes, walks)]  # other operands are loop-invariant
    if prod(d.extents[a] for a in axes) <= BRIEF and _over_pairs(f, reads):
        return True
    own = [w for w in reads + _results(d, f, walks) if f.last in w.steps]  # a value shared by neighbours is loaded once for all lanes
    beside, inside = [any(w.is_near(axis) for w in own) for axis in (f.last, axes[-1])]
    return beside and not inside


def _results(d: Draft, f: ReductionLoop, walks: Sequence[Walk]) -> list[Walk]:
    """Return the walks by which a reduction would read the results of inner reductions stored in memory."""
    used = {e.accumulator for v in f.values for e in surface(v) if isinstance(e, Result)}
    found: list[Walk] = []
    for g in [g for g in _inside(d, f) if g.accumulator in used]:
        step, steps = 1, dict[int, Step]()
        needed = _moving(d, g.values, walks)
        for axis in reversed([a for a in g.around if a in needed]):
            steps[axis] = step
            step *= d.extents[axis]
        found.append(Walk(steps, 0, None))
    return found


def _moving(d: Draft, values: Sequence[Expr], walks: Sequence[Walk]) -> set[int]:
    """Return the axes on which the values depend, directly or through the results of reductions."""
    found: set[int] = set()
    stack, seen = list(values), set[int]()
    while stack:
        for e in walk(stack.pop()):
            if isinstance(e, Access):
                found.update(walks[e.index].steps)
            elif isinstance(e, Result) and e.accumulator not in seen:
                seen.add(e.accumulator)
                stack += d.reductions[e.accumulator].values
    return found


def _inside(d: Draft, f: ReductionLoop) -> list[ReductionLoop]:
    """Return the reductions inside some of the loops of reduction `f`."""
    return [g for g in d.reductions if not set(f.axes).isdisjoint(g.around)]


def better_apart(d: Draft) -> set[Node]:
    """Return the nodes to store because a reduction with inner reductions would otherwise add in another order than alone.

    An inner reduction may need the lanes of the outer one, or reorder the loops. An inner reduction in the innermost loop is also stored,
    unless it is short.
    """
    loops, walks = arranged(d), walks_of(d)
    found: set[Node] = set()
    for f in d.reductions:
        axes, inside = loops.reduced.get(f.axes, ()), _inside(d, f)
        if not axes or not inside:
            continue
        turned, takes_lanes = _alone(d, f, walks)[1] != axes, f.accumulator not in loops.in_order
        for g in inside:
            brief = g.accumulator in loops.in_order and prod([d.extents[a] for a in g.axes]) <= BRIEF
            if turned or (takes_lanes and axes[-1] in g.around and not brief):
                found.update(d.reduced[g.accumulator] if turned or _may_turn(d, f, walks) else _elements(d, f))
    return found


def _may_turn(d: Draft, f: ReductionLoop, walks: Sequence[Walk]) -> bool:
    """Return whether a reduction might order its loops differently with operands in memory: with several loops, or reads along several."""
    return len(f.axes) > 1 or any(len(walks[e.index].steps) > 1 for e in accesses(f.values))


def _elements(d: Draft, f: ReductionLoop) -> list[Node]:
    """Return the nodes that a reduction adds."""
    return [source for node in d.reduced[f.accumulator] for source in node.sources if type(source) is Node]


def _over_pairs(f: ReductionLoop, reads: Sequence[Walk]) -> bool:
    """Return whether neighbouring results share some operands of a reduction, but not all of them, as in a matrix product."""
    shared = [w for w in reads if f.last not in w.steps]
    return 0 < len(shared) < len(reads) and any(a in w.steps for w in shared for a in f.around)


def _moves(access: Access, axes: Loops, walks: Sequence[Walk]) -> bool:
    """Return whether an access, or the index of an access, moves along at least one of the axes."""
    steps = [walks[e.index].steps for e in walk(access) if isinstance(e, Access)]
    return any(axis in each for each in steps for axis in axes)
