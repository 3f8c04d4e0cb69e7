"""Decisions about loops: which axes merge, in which order they run, and along which lanes run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..layout import Layout, Table
from ..node import Node, writes
from .columns import STEPS
from .drafted import Access, Draft, Folding, Loops
from .ir import surface, walk

Step = int | Table
# These decide along which axis lanes run, and so in which order a fold adds: they are the same on all machines.
NEAR = (-1, 2, 3, 4)  # steps of reads in which whole vectors, or a few, hold all that the lanes need
BRIEF = 4  # steps of a fold over pairs, up to which lanes are never given to them
SHORT = 4  # indices of the last axis from which lanes run along that with a brief fold, though another may be longer


@dataclass(slots=True)
class Walk:
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


def aligned(d: Draft, walks: Sequence[Walk]) -> list[Node]:
    """The nodes read only where the result is written, if that is all of it, each element once."""
    if d.scan is not None or writes(d.root.op):
        return []
    out = walks[-1]
    found: dict[Node, bool] = {}
    for place, its in zip(d.places, walks[:-1], strict=True):
        same = (its.steps, its.base, place.loops) == (out.steps, out.base, d.space)  # in as many elements, from the same one
        if place.node is not None and place.node.size == d.root.size:
            found[place.node] = same and found.get(place.node, True)
    return [node for node, same in found.items() if same]


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
        return sum(abs(s) for w in walks if isinstance(s := w.steps.get(axis, 0), int))

    return tuple(sorted(axes, key=reach, reverse=True))


def longest_last(axes: Loops, extents: Sequence[int], enough: int) -> Loops:
    """The axes with the longest one last, if that which is last has less than `enough` indices, and the longest twice that."""
    longest = max(axes, key=lambda a: extents[a], default=0)
    if not axes or extents[axes[-1]] >= enough or extents[longest] < 2 * enough:
        return axes
    return (*(a for a in axes if a != longest), longest)


def tile(d: Draft, space: Loops, walks: Sequence[Walk]) -> tuple[int, int] | None:
    """The axis along which something that is read lies, if it is not the last, and the last one.

    Running through both in small blocks, each piece of memory is read whole while it is in the cache, though the result
    is written along the other axis.
    """
    if d.foldings or d.scan is not None or len(space) < 2:
        return None
    for along in space[:-1]:
        if any(crosses(w, (along, space[-1])) and d.chosen.keys().isdisjoint(w.steps) for w in walks[:-1]):
            return along, space[-1]
    return None


def crosses(walk: Walk, tile: tuple[int, int]) -> bool:
    """Whether an access walks memory along the first of two axes, and across it along the second."""
    step = walk.steps.get(tile[1], 0)
    return walk.base is None and walk.is_unit(tile[0]) and isinstance(step, int) and step not in (0, 1)


def sequential(d: Draft, f: Folding, axes: Loops, walks: Sequence[Walk]) -> bool:
    """Whether a fold takes its elements one by one, and lanes are left to the loops around it.

    It does where its elements lie apart, but those of neighbouring results lie next to one another; and where it is brief and
    over pairs. The fold and what it reads decide, and not the kernel that it is part of, so its bits are the same in all
    of them.
    """
    if not axes or d.folds[f.fold].reduction.combine is None:
        return True
    if f.last is None:
        return False
    accesses = {e for v in f.values for e in surface(v) if isinstance(e, Access)}
    reads = [walks[e.index] for e in accesses if _moves(e, axes, walks)]  # the others are read once
    if is_brief(d, f, axes) and _over_pairs(f, reads):
        return True
    beside, inside = [sum(w.is_unit(axis) + w.is_near(axis) for w in reads) for axis in (f.last, axes[-1])]
    return 0 < beside >= inside


def _over_pairs(f: Folding, reads: Sequence[Walk]) -> bool:
    """Whether neighbouring results share some of what they read, and others the rest, as in a product of matrices."""
    shared = [w for w in reads if f.last not in w.steps]
    return 0 < len(shared) < len(reads) and any(a in w.steps for w in shared for a in f.around)


def is_brief(d: Draft, f: Folding, axes: Loops) -> bool:
    """Whether a fold has few steps."""
    return prod(d.extents[a] for a in axes) <= BRIEF


def _moves(access: Access, axes: Loops, walks: Sequence[Walk]) -> bool:
    """Whether an access, or an index that it is read at, moves along any of the axes."""
    steps = [walks[e.index].steps for e in walk(access) if isinstance(e, Access)]
    return any(axis in each for each in steps for axis in axes)


def lanes(d: Draft, space: Loops, reduced: dict[Loops, Loops], alone: set[int], walks: Sequence[Walk]) -> set[int]:
    """The axes along which lanes run: never one inside another. `alone` are the folds that are sequential.

    The last independent axis has lanes, unless folds that run inside it need them for themselves.
    """
    last = space[-1] if space else None
    if d.scan is not None:
        unit = last is not None and any(w.is_near(last) for w in walks[:-1])
        return {last} if last is not None and unit else set()
    across = [f for f in d.foldings if f.fold not in alone]
    before = {f.around[-1] for f in d.foldings if f.around}
    if not across and len(before) == 1 and last not in before and walks[-1].is_unit(*before):
        return before  # columns: what is done with their results runs along rows, too
    vector: set[int] = set()
    if last is not None and not any(last in f.around for f in across):
        vector.add(last)
    for f in across:
        axis = reduced[f.axes][-1]
        nested = any(axis in g.around for g in d.foldings)
        if not nested and not any(g.axes == f.axes and g.fold in alone for g in d.foldings):
            vector.add(axis)
    return vector


def column(d: Draft, space: Loops, reduced: dict[Loops, Loops], vector: set[int]) -> int | None:
    """The independent axis with lanes, if there are long loops of folds inside it."""
    for axis in space:
        inside = [reduced.get(f.axes, f.axes) for f in d.foldings if axis in f.around]
        if axis in vector and max((prod(d.extents[a] for a in axes) for axes in inside), default=0) > STEPS:
            return axis
    return None
