"""Which kernels become one that has several results, as what an optimiser keeps of a parameter and the parameter's new value.

Elementwise kernels of one shape may run in one loop: what more than one of them reads is read once, and what one computes for another is
in a register then. Each result is stored, and has the bits that it has alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from ..layout import Layout
from ..node import POSITION, Node, writes
from ..ops import Op
from ..ops.lengths import length
from ..records import NamedTuple
from ..target import Fusing, Target
from .reads import can_fail, loops_of, source_index_maps


class _Kernel(NamedTuple):
    """What one kernel is, at a place of their order: its loops, what it reads that is in memory or another kernel's, where, and how long it
    is. Where more is computed in it than one element after the other, it is to stay alone: then only the nodes that it reads are known.
    """

    place: int
    sources: frozenset[Node]
    loops: Layout | None = None
    reads: frozenset[tuple[Node, Layout]] = frozenset()
    length: int = 0


def together(kernels: Sequence[Node], target: Target) -> dict[Node, tuple[Node, ...]]:
    """By the last of some kernels that become one: the others, in their order. Kernels are given in an order in which they can run, and can
    with each of the others moved back to the last: nothing before that reads it, and nothing writes over what it reads.
    """
    every = set(kernels)
    known = {node: _seen(node, place, every) for place, node in enumerate(kernels)}
    read_first: dict[Node, int] = {}  # the place of the first kernel that reads another
    for its in known.values():
        for source in its.sources & every:
            read_first.setdefault(source, its.place)
    found: dict[Node, tuple[Node, ...]] = {}
    ends: dict[tuple[object, ...], Node] = {}  # the last of the group that may grow, by what its kernels have in common
    for node, its in known.items():
        if writes(node.op):
            ends.clear()
        if its.loops is None or node.size * node.dtype.itemsize >= target.sharing.in_place:
            continue  # what is large is best written over an operand that dies
        alike = its.loops, node.dtype.itemsize, node.dtype.is_complex
        last = ends.get(alike)
        ends[alike] = node
        if last is not None:
            group = (*found.get(last, ()), last)
            at_hand = all(read_first.get(other, its.place) >= its.place for other in group)
            if at_hand and _pays(group, node, known, target.fusing):
                found.pop(last, None)
                found[node] = group
    return found


def _pays(group: Sequence[Node], node: Node, known: dict[Node, _Kernel], fusing: Fusing) -> bool:
    """Whether one more kernel should join a group: it reads something that they read, or compute, at the same places, and nothing of what
    they compute at others; and all of them are no more than a processor follows at once.
    """
    own = known[node]
    before = frozenset().union(*[known[other].reads for other in group])
    if any(source in group and where != own.loops for source, where in own.reads):
        return False
    shared = any(read in before or read[0] in group for read in own.reads)
    streams = {source for source, _ in before | own.reads}.union(group)
    short = own.length + sum([known[other].length for other in group]) <= fusing.longest
    return shared and short and len(group) < fusing.results and len(streams) < fusing.streams


def _seen(root: Node, place: int, kernels: Set[Node]) -> _Kernel:
    """What there is to know of a kernel."""
    sources: set[Node] = set()
    computed: dict[Node, None] = {root: None}
    stack = [root]
    while stack:
        for source in stack.pop().sources:
            if type(source) is not Node or source in computed:
                continue
            if source.buffer is not None or source in kernels:
                sources.add(source)
            else:
                computed[source] = None
                stack.append(source)
    if not root.size or not all([node.op is POSITION or (type(node.op) is Op and not can_fail(node)) for node in computed]):
        return _Kernel(place, frozenset(sources))
    loops = loops_of(root)
    reads = frozenset(_reads(root, loops, sources))
    return _Kernel(place, frozenset(sources), loops, reads, sum([length(n.op, n.recipe.dtypes) for n in computed if type(n.op) is Op]))


def _reads(root: Node, loops: Layout, sources: Set[Node]) -> Iterator[tuple[Node, Layout]]:
    """Where an elementwise kernel reads its sources."""
    stack = source_index_maps(root, loops)
    seen = set(stack)
    while stack:
        node, where = stack.pop()
        if node in sources:
            yield node, where
        else:
            new = [read for read in source_index_maps(node, where) if read not in seen]
            seen.update(new)
            stack += new
