"""Horizontal fusion: kernels with several results, for example the state of an optimizer and the new value of the parameter.

Elementwise kernels of one shape may run in a common loop. Then common operands are read once, and a result used by another kernel of the
group stays in a register. Each result is stored, and has the same bits as alone.
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
    """Facts about a kernel: the place in the order, the sources (in memory or from other kernels), the loops, the reads and the length.

    A kernel that is not purely elementwise stays alone. Then `loops` is None, and only `sources` is known.
    """

    place: int
    sources: frozenset[Node]
    loops: Layout | None = None
    reads: frozenset[tuple[Node, Layout]] = frozenset()
    length: int = 0


def together(kernels: Sequence[Node], target: Target) -> dict[Node, tuple[Node, ...]]:
    """Map the last kernel of each group to fuse to the earlier kernels of the group, in order.

    `kernels` are given in an order in which they can run. The order stays valid if each group is moved back to its last kernel: no kernel
    in between reads a result of the group, or overwrites an operand.
    """
    every = set(kernels)
    known = {node: _seen(node, place, every) for place, node in enumerate(kernels)}
    read_first: dict[Node, int] = {}  # the place of the first reader of each kernel
    for its in known.values():
        for source in its.sources & every:
            read_first.setdefault(source, its.place)
    found: dict[Node, tuple[Node, ...]] = {}
    ends: dict[tuple[object, ...], Node] = {}  # the last kernel of each open group, by the common loops and element size
    for node, its in known.items():
        if writes(node.op):
            ends.clear()
        if its.loops is None or node.size * node.dtype.itemsize >= target.sharing.in_place:
            continue  # a large result is best written into the memory of an operand no longer needed
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
    """Return whether kernel `node` should join a group.

    The kernel must share a read with the group at an equal index map, or read a result of the group in the same loops. It must read no
    result of the group at another index map. The fused kernel must stay short, with few enough memory streams for the hardware prefetcher.
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
    """Return the facts about the kernel of `root`, given its place in the order and the set of kernels."""
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
    """Yield the sources that an elementwise kernel reads, with the index map of each read."""
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
