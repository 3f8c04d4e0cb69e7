"""Horizontal fusion: kernels with several results, for example the state of an optimizer and the new value of the parameter. A kernel is
named by its root, the node that it stores. An index map is a layout over the loops around a read, whose values are flat indices of the
node.

Elementwise kernels of one shape may run in a common loop. Then common operands are read once, and a result used by another kernel of the
group stays in a register. Each result is stored, and has the same bits as alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from .._utils.records import NamedTuple
from ..graph.node import POSITION, Node, is_write
from ..layout import Layout
from ..ops import Op
from ..ops.expanded_cost import compute_expanded_cost
from ..target import Fusing, Target
from .index_maps import can_fail, get_root_index_map, source_index_maps


class _KernelFacts(NamedTuple):
    """Facts about a kernel: the position in the order of kernels, the sources (in memory or from another kernel), loops, reads and length.

    `loops` is the index map of the root, and `reads` holds each source read with its index map. The length is the cost of an element, in
    additions. A kernel that is not purely elementwise, can fail, or has no elements stays alone. Then `loops` is None, and `reads` and
    `length` are not filled.
    """

    position: int
    sources: frozenset[Node]
    loops: Layout | None = None
    reads: frozenset[tuple[Node, Layout]] = frozenset()
    length: int = 0


def group_fusible_kernels(kernels: Sequence[Node], target: Target) -> dict[Node, tuple[Node, ...]]:
    """Map the last kernel of each group to fuse to the earlier kernels of the group, in order. Kernels that stay alone are not in the map.

    `kernels` are given in an order in which they can run. The order stays valid if each group is moved back to its last kernel: no kernel
    in between reads a result of the group, or overwrites an operand. A kernel with a large result stays alone, to reuse memory of an
    operand. `target` has the limits.
    """
    kernel_set = set(kernels)
    facts_of = {node: _collect_facts(node, position, kernel_set) for position, node in enumerate(kernels)}
    first_readers: dict[Node, int] = {}  # the place of the first reader of each kernel
    for facts in facts_of.values():
        for source in facts.sources & kernel_set:
            first_readers.setdefault(source, facts.position)
    groups: dict[Node, tuple[Node, ...]] = {}
    open_groups: dict[tuple[object, ...], Node] = {}  # the last kernel of each open group, by the common loops and element size
    for node, facts in facts_of.items():
        if is_write(node.op):
            open_groups.clear()
        if facts.loops is None or node.size * node.dtype.itemsize >= target.thread_limits.min_donated_bytes:
            continue  # a large result is best written into the memory of an operand no longer needed
        group_key = facts.loops, node.dtype.itemsize, node.dtype.is_complex
        group_end = open_groups.get(group_key)
        open_groups[group_key] = node
        if group_end is not None:
            group = (*groups.get(group_end, ()), group_end)
            is_movable = all(first_readers.get(member, facts.position) >= facts.position for member in group)
            if is_movable and _is_worth_joining(group, node, facts_of, target.fusing):
                groups.pop(group_end, None)
                groups[node] = group
    return groups


def _is_worth_joining(group: Sequence[Node], node: Node, facts_of: dict[Node, _KernelFacts], fusing: Fusing) -> bool:
    """Return whether kernel `node` should join the kernels `group`; `facts_of` has the facts about each kernel.

    The kernel must share a read with the group at an equal index map, or read a result of the group in the same loops. It must read no
    result of the group at another index map. The fused kernel must stay within limits of `fusing`: of additions, of results, and of memory
    streams for the hardware prefetcher.
    """
    facts = facts_of[node]
    group_reads = frozenset().union(*[facts_of[member].reads for member in group])
    if any(source in group and index_map != facts.loops for source, index_map in facts.reads):
        return False
    is_shared = any(read in group_reads or read[0] in group for read in facts.reads)
    streams = {source for source, _ in group_reads | facts.reads}.union(group)
    is_short = facts.length + sum([facts_of[member].length for member in group]) <= fusing.max_expanded_additions
    return is_shared and is_short and len(group) < fusing.max_results and len(streams) < fusing.max_streams


def _collect_facts(root: Node, position: int, kernels: Set[Node]) -> _KernelFacts:
    """Return the facts about the kernel with the root `root`. `position` is the kernel's position in the order, and `kernels` are the roots
    of all kernels.

    A kernel must stay alone if not purely elementwise, without elements, or with errors to report. Then `loops` of the result is None.
    """
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
        return _KernelFacts(position, frozenset(sources))
    loops = get_root_index_map(root)
    reads = frozenset(_list_reads(root, loops, sources))
    return _KernelFacts(
        position,
        frozenset(sources),
        loops,
        reads,
        sum([compute_expanded_cost(n.op, n.recipe.dtypes) for n in computed if type(n.op) is Op]),
    )


def _list_reads(root: Node, loops: Layout, sources: Set[Node]) -> Iterator[tuple[Node, Layout]]:
    """Yield a pair (source, index map) for each read of a node of `sources` by the elementwise kernel of `root`.

    `loops` is the index map of the root. A source read at several index maps is yielded with each. A pair may come twice, as for `x * x`.
    """
    stack = source_index_maps(root, loops)
    visited = set(stack)
    while stack:
        node, index_map = stack.pop()
        if node in sources:
            yield node, index_map
        else:
            new_reads = [read for read in source_index_maps(node, index_map) if read not in visited]
            visited.update(new_reads)
            stack += new_reads
