"""What many results share of a short reduction, and is read across memory for neighbouring ones, is copied first, turned: the few centres,
say, that many points are compared with, coordinate by coordinate. So a vector of it is loaded at once.
"""

from __future__ import annotations

from ..layout import Layout
from ..node import Node
from .making import Term, made_at, renewed, times_read, turned

TIMES = 64  # that each element is read, from which it is worth a copy
ROW = 4  # neighbouring results, beyond which lanes run along them


def with_shared_turned(made: list[Node], source: Node, through: Layout, kept: int) -> Term:
    """What is reduced over all but its first `kept` axes, of such copies, and how it is seen; itself where there is nothing to copy."""
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
    """Whether many results see the same of it, and neighbours what lies further apart than what each of them reduces."""
    if seen.base is not None or seen.tables is not None or not kept or seen.shape[kept - 1] <= ROW:
        return False
    steps = [abs(step) for n, step in zip(seen.shape[kept:], seen.strides[kept:], strict=True) if n > 1 and step]
    return bool(steps) and abs(seen.strides[kept - 1]) > min(steps) and times_read(seen, kept) >= TIMES
