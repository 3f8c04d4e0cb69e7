"""Which loops a kernel has, and in which order: axes of size 1 drop out, the others follow memory, and neighbours that everything
walks as one become one. No machine is thought of yet.
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
# These decide in which order a reduction adds: they are the same on all machines.
NEAR = (-1, 2, 3, 4)  # steps of reads in which whole vectors, or a few, hold all that the lanes need
BRIEF = 4  # steps of a reduction over pairs, up to which lanes are never given to them


class Walk(NamedTuple):
    """How one access moves along the loops: `steps` per axis in elements, axes that do not move it left out."""

    steps: dict[int, Step]
    offset: int
    base: Layout | None

    @staticmethod
    def of(layout: Layout, loops: Sequence[int], extents: Sequence[int]) -> Walk:
        """The walk of a layout whose axes are these loops."""
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
        """Whether neighbours along the axis are no more than a few steps apart in memory."""
        step = self.steps.get(axis)
        return step == 1 or step in NEAR

    def is_unit(self, axis: int) -> bool:
        """Whether neighbours along the axis are neighbours in memory."""
        return self.steps.get(axis) == 1


class Arranged(NamedTuple):
    """The loops of a draft, and how each of its accesses walks along them, that of the result last.

    `reduced` are the axes of reductions, by those that they have in the draft, and `in_order` the reductions that take their elements
    one by one, whoever asks for them.
    """

    extents: list[int]
    walks: list[Walk]
    space: Loops
    reduced: dict[Loops, Loops]
    in_order: frozenset[int]


def walks_of(d: Draft) -> list[Walk]:
    """How each access of a draft walks along its loops, that of the result last."""
    assert d.out is not None
    return [Walk.of(p.index_map, p.loops, d.extents) for p in [*d.accessed, d.out]]


def arranged(d: Draft) -> Arranged:
    """The loops of a draft."""
    walks, extents = walks_of(d), list(d.extents)
    space = tuple([a for a in d.space if extents[a] != 1])
    boundaries = _boundaries(d, space)
    if boundaries <= {0} and d.scan is None:  # else the reductions, and what they read, decide
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
    """How each reduction that has loops together with others would run through them on its own: whether it takes its elements in order,
    in which order its loops are, and which become one.
    """
    shared = Counter(f.axes for f in d.reductions)
    together = [f for f in d.reductions if shared[f.axes] > 1]
    walks = walks_of(d) if together else []  # mostly none are
    found: dict[int, tuple[object, ...]] = {}
    for f in together:
        axes, left = _alone(d, f, walks)
        if axes:
            found[f.accumulator] = _takes_in_order(d, f, axes, walks), *[f.axes.index(a) for a in (*axes, *left)]
    return found


def _alone(d: Draft, f: ReductionLoop, walks: Sequence[Walk]) -> tuple[Loops, Loops]:
    """In which order the axes of a reduction would be, were it alone and all that it reads in memory; and which would be left."""
    axes = tuple([a for a in f.axes if d.extents[a] != 1])
    own = [walks[e.index] for e in accesses(f.values)]
    own = [w._replace(steps=dict(w.steps)) for w in own] + _results(d, f, walks)  # copies, as merging changes them
    if d.accumulators[f.accumulator].reduction.follow is None:
        axes = _ordered_to_add(axes, own)
    return axes, merged(axes, own, list(d.extents), set())


def _boundaries(d: Draft, axes: Loops) -> set[int]:
    """After how many of the outermost of these axes a reduction runs."""
    return {sum(a in axes for a in f.around) for f in d.reductions}


def merged(axes: Loops, walks: Sequence[Walk], extents: list[int], boundaries: set[int]) -> Loops:
    """The axes with neighbours made one where every access walks them as one; changes `walks` and `extents` to match.

    No merge crosses a boundary: a number of outermost axes between which and the rest something else happens.
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
    for w in walks:
        a, b = w.steps.get(outer, 0), w.steps.get(inner, 0)
        if isinstance(a, Table) or isinstance(b, Table) or a != extents[inner] * b:
            return False
    return True


def ordered(axes: Loops, walks: Sequence[Walk]) -> Loops:
    """The axes by falling step, so that the innermost loop walks memory in the smallest steps."""

    def reach(axis: int) -> int:
        return sum(abs(s) for w in walks if not isinstance(s := w.steps.get(axis, 0), Table))

    return tuple(sorted(axes, key=reach, reverse=True))


def _ordered_to_add(axes: Loops, walks: Sequence[Walk]) -> Loops:
    """The axes of a reduction in order. What moves along one alone has no say: `column * (row - other)` is added as `column * row` is."""
    return ordered(axes, [w for w in walks if sum([a in w.steps for a in axes]) > 1])


def longest_last(axes: Loops, extents: Sequence[int], enough: int) -> Loops:
    """The axes with the longest one last, if that which is last has less than `enough` indices, and the longest twice that."""
    longest = max(axes, key=lambda a: extents[a], default=0)
    if not axes or extents[axes[-1]] >= enough or extents[longest] < 2 * enough:
        return axes
    return (*(a for a in axes if a != longest), longest)


def _takes_in_order(d: Draft, f: ReductionLoop, axes: Loops, walks: Sequence[Walk]) -> bool:
    """Whether a reduction takes its elements one by one, and lanes are left to the loops around it.

    It does where its elements lie apart, but those of neighbouring results lie next to one another; and where it is brief and
    over pairs. The reduction and what it reads decide, and not the kernel that it is part of, so its bits are the same in all
    of them.
    """
    if not axes or d.accumulators[f.accumulator].reduction.combine is None:
        return True
    if f.last is None:
        return False
    accesses = {e for v in f.values for e in surface(v) if isinstance(e, Access)}
    reads = [walks[e.index] for e in accesses if _moves(e, axes, walks)]  # the others are read once
    if prod(d.extents[a] for a in axes) <= BRIEF and _over_pairs(f, reads):
        return True
    own = [w for w in reads + _results(d, f, walks) if f.last in w.steps]  # what neighbours share, lanes read at once or not at all
    beside, inside = [any(w.is_near(axis) for w in own) for axis in (f.last, axes[-1])]
    return beside and not inside


def _results(d: Draft, f: ReductionLoop, walks: Sequence[Walk]) -> list[Walk]:
    """How a reduction would read the results of those inside its loops, had they been stored."""
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
    """The axes along which something moves that these values read, also by way of reductions."""
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
    """The reductions inside some of the loops of another."""
    return [g for g in d.reductions if not set(f.axes).isdisjoint(g.around)]


def better_apart(d: Draft) -> set[Node]:
    """What must be in memory lest a reduction add otherwise than alone for those inside its loops: they want the lanes that it takes, or
    have its loops in another order. Others in its innermost loop are better apart, too, unless they are brief.
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
    """Whether a reduction might go another way from memory: it has several loops, or reads along more than one."""
    return len(f.axes) > 1 or any(len(walks[e.index].steps) > 1 for e in accesses(f.values))


def _elements(d: Draft, f: ReductionLoop) -> list[Node]:
    """What a reduction adds."""
    return [source for node in d.reduced[f.accumulator] for source in node.sources if type(source) is Node]


def _over_pairs(f: ReductionLoop, reads: Sequence[Walk]) -> bool:
    """Whether neighbouring results share some of what they read, and others the rest, as in a product of matrices."""
    shared = [w for w in reads if f.last not in w.steps]
    return 0 < len(shared) < len(reads) and any(a in w.steps for w in shared for a in f.around)


def _moves(access: Access, axes: Loops, walks: Sequence[Walk]) -> bool:
    """Whether an access, or an index that it is read at, moves along any of the axes."""
    steps = [walks[e.index].steps for e in walk(access) if isinstance(e, Access)]
    return any(axis in each for each in steps for axis in axes)
