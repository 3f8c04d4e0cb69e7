"""Transposed copies of small operands shared by the results of a short reduction.

An example is a few centres compared with many points, coordinate by coordinate. Neighbouring results read such an operand with a large
stride. With the copy, a vector is loaded at once.
"""

from __future__ import annotations

from ..layout import Layout
from ..node import Node
from .making import Term, made_at, renewed, times_read, turned

TIMES = 64  # minimal number of reads of each element for which a copy pays
ROW = 4  # maximal number of neighbouring results without lanes along them


def with_shared_turned(made: list[Node], source: Node, through: Layout, kept: int) -> Term:
    """Return an operand of a reduction over every axis except the first `kept`, with shared operands copied, and the layout for reading it.

    New nodes are appended to `made`. Return `source` and `through` themselves if there is nothing to copy.
    """
    anew: list[Node] = []
    made_at(anew, source, through)
    copies: dict[Term, Term] = {}
    instead: dict[Node, Node] = {}
    copied: list[Node] = []
    for node in anew:
        now = renewed(node, instead)
        reads = list(zip(now.sources, now.layouts, strict=True))
        for k, (s, seen) in enumerate(reads):
            if type(s) is Node and seen is not None and _is_shared(seen, kept):
                if (s, seen) not in copies:
                    copies[s, seen] = turned(copied, s, seen, kept)
                reads[k] = copies[s, seen]
        if copies:
            sources, layouts = zip(*reads, strict=True)
            now = Node.of(node.op, node.shape, node.dtype, sources, layouts)
        instead[node] = now
    if not copies:
        return source, through
    made += [*copied, *instead.values()]
    return made[-1], Layout.contiguous(through.shape)


def _is_shared(seen: Layout, kept: int) -> bool:
    """Return whether many results read the same elements, with a larger stride between neighbouring results than inside a result."""
    if seen.base is not None or seen.tables is not None or not kept or seen.shape[kept - 1] <= ROW:
        return False
    steps = [abs(step) for n, step in zip(seen.shape[kept:], seen.strides[kept:], strict=True) if n > 1 and step]
    return bool(steps) and abs(seen.strides[kept - 1]) > min(steps) and times_read(seen, kept) >= TIMES
