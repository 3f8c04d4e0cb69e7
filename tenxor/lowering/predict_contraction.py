"""The test whether a kernel would be a contraction, from the index maps of its reads alone: a draft without expressions, and its loops. A
contraction is a generalized matrix product. An index map is a layout over the loops around a read, with flat indices as values.

The scheduler (`lowering/cpu/schedule_contraction.py`) comes to the same result, because both call `match_contraction` with the same loops.
"""

from __future__ import annotations

from collections.abc import Set
from math import prod

from ..dtypes import int64
from ..graph.node import POSITION, Gather, Node, is_store
from ..graph.reduction_limits import MIN_CONTRACTION_SIZES
from ..layout import Layout
from ..ops import Op
from ..ops.complex.component_reductions import split_complex_states
from ..ops.expr import zero
from ..ops.reductions import Reduction
from .access_strides import Loops
from .index_maps import get_inner_shape, get_root_index_map, hoist_index_map, make_identity_map, source_index_maps
from .ir import Accumulator
from .kernel_draft import DraftAccess, DraftIndex, KernelDraft, ReductionLoop
from .match_contraction import ReductionStrides, can_be_contraction, match_contraction
from .order_loops import order_loops
from .reduction_order import find_reduction_order
from .split_loops import split_loops

Read = tuple[Node, Layout]  # a node with the index map of the read


def has_contraction_sizes(node: Node) -> bool:
    """Return whether `node` is a reduction with as many results and steps as a contraction needs, by the product of rows and columns in
    `MIN_CONTRACTION_SIZES`.
    """
    m, n, k = MIN_CONTRACTION_SIZES
    return isinstance(node.op, Reduction) and prod(node.shape) >= m * n and prod(get_inner_shape(node)) >= k


def may_be_contraction(node: Node, kernels: Set[Node], chainless_reads: set[Read]) -> bool:
    """Return False if the kernel of `node` is certainly no contraction, by a quick test of necessary conditions; otherwise True.

    The nodes `kernels` are in memory. The test allows for later merges of axes, and for an axis split where a view chain wraps around. The
    test adds reads without a view chain below to `chainless_reads`, so calls with the same set follow each read once.
    """
    return has_contraction_sizes(node) and (sum(size > 1 for size in node.shape) > 1 or _reads_chains(node, kernels, chainless_reads))


def _reads_chains(node: Node, kernels: Set[Node], chainless_reads: set[Read]) -> bool:
    """Return whether a node below the reduction `node` is read through a view chain in the kernel of the reduction.

    The nodes `kernels` are in memory. Reads in `chainless_reads` are skipped. If the answer is False, the visited reads are added to
    `chainless_reads`.
    """
    stack, visited = [(node, make_identity_map(node))], set[Read]()
    while stack:
        for read in source_index_maps(*stack.pop()):
            source, index_map = read
            if index_map.base is not None:
                return True
            is_traversed = isinstance(source.op, Op) or (isinstance(source.op, Gather) and index_map.tables is None)  # or computed first
            if source.buffer is None and source not in kernels and is_traversed and read not in visited and read not in chainless_reads:
                visited.add(read)
                stack.append(read)
    chainless_reads |= visited
    return False


def is_contraction(root: Node, kernels: Set[Node]) -> bool:
    """Return whether the kernel of the pending node `root` would be a contraction, given the nodes `kernels` whose results are in memory.

    The kernel must have a single reduction, inside all independent loops of several indices. Nodes that are neither in memory nor in
    `kernels` count as inlined.
    """
    footprint = _ContractionReads(root, kernels)
    if not footprint.collect() or not footprint.d.reductions:
        return False
    d = footprint.d
    split_loops(d)
    (f,), loops = d.reductions, order_loops(d)
    if not set(loops.space) <= set(f.outer_loops):
        return False
    position_of = {k: position for position, k in enumerate(footprint.reduced_accesses)}
    steps = [w.steps for w in loops.strides]
    moves = ReductionStrides(
        loops.space,
        loops.reduction_axes[f.axes],
        loops.extents,
        [steps[k] for k in footprint.reduced_accesses],
        [walk_steps for k, walk_steps in enumerate(steps) if k not in position_of],
        [[position_of[k], *(position_of[i] for i in footprint.list_index_accesses(k))] for k in footprint.reduced_accesses],
    )
    return match_contraction(moves, max(s.itemsize for s in d.accumulators[0].state_dtypes)) is not None


def _are_equal(left: Node, right: Node) -> bool:
    """Return whether the nodes `left` and `right` have equal recipes over the same memory, and so are one value."""
    stack, visited = [(left, right)], set()
    while stack:
        pair = a, b = stack.pop()
        if a is b or pair in visited:
            continue
        visited.add(pair)
        if type(a) is not Node or type(b) is not Node or a.buffer is not None or b.buffer is not None:
            return False
        if a.recipe is not b.recipe or a.offsets != b.offsets:
            return False
        stack.extend(zip(a.sources, b.sources, strict=True))  # type: ignore[arg-type]  # scalars are compared too
    return True


class _ContractionReads:
    """The reads of a possible contraction, a kernel with a single reduction, with their index maps. `collect` fills the draft `d` with the
    reads.

    The kernel computes `root`, and reads the results of the nodes `kernels` from memory. `loops` in the methods are draft axes, outermost
    first.
    """

    def __init__(self, root: Node, kernels: Set[Node]) -> None:
        self.d = KernelDraft(root)
        self.kernels = kernels
        self.reduced_accesses: list[int] = []  # the numbers of the accesses of the reduction
        # For each indexed axis (an axis without a loop): the accesses from which the index is computed.
        self.index_reads: dict[int, list[int]] = {}
        self.reduction: tuple[Node, Layout] | None = None  # with the index map of the read

    def collect(self) -> bool:
        """Follow recipes from the root down to memory, and fill the draft. Return whether the kernel can be a contraction so far.

        Return False, with the draft unfinished, with different or nested reductions, a reduction of another form, or an operation such as a
        scan.
        """
        d, root = self.d, self.d.root
        start, index_map = root, make_identity_map(root)
        if is_store(root.op):
            source, layout = root.sources[1], root.layouts[1]
            if type(source) is not Node or root.target is None or layout is None:
                return False
            start, index_map, written = source, layout, root.target
        elif isinstance(root.op, (Op, Reduction, Gather)):
            index_map = written = get_root_index_map(root)
        else:
            return False
        d.space = d.add_axes(index_map.shape)
        d.output = DraftAccess(None, written, d.space)
        stack: list[tuple[Node, Layout, Loops, bool, Loops]] = [(start, index_map, d.space, False, ())]
        visited = set()
        while stack:
            read = stack.pop()
            if read in visited:
                continue
            visited.add(read)
            node, index_map, loops, in_reduction, index_axes = read
            if (node is not root and (node.buffer is not None or node in self.kernels)) or node.op is POSITION:
                self.add_access(node, index_map, loops, in_reduction, index_axes)
                continue
            inner_axes: Loops = ()
            if isinstance(node.op, Reduction):
                index_map = hoist_index_map(index_map)
                loops = loops[: len(index_map.shape)]
                if in_reduction or not self.add_reduction(node, node.op, index_map, loops):
                    return False
                inner_axes, in_reduction = d.reductions[0].axes, True
            elif isinstance(node.op, Gather):
                inner_axes = d.add_axes(get_inner_shape(node))
                self.index_reads |= {axis: [] for axis in inner_axes}
                d.indices |= {axis: DraftIndex(axis, zero(int64)) for axis in inner_axes}
            elif not isinstance(node.op, Op):
                return False
            is_gather = isinstance(node.op, Gather)
            for k, (source, source_map) in enumerate(source_index_maps(node, index_map)):
                is_index = is_gather and k > 0
                source_loops = loops if is_index else loops + inner_axes
                stack.append((source, source_map, source_loops, in_reduction, (*index_axes, inner_axes[k - 1]) if is_index else index_axes))
        return True

    def add_reduction(self, node: Node, op: Reduction, index_map: Layout, outer_loops: Loops) -> bool:
        """Record the reduction `node` with the operation `op`, read at `index_map` inside `outer_loops`. Return whether that is possible.

        Return False if the reduction cannot be a contraction, or if a different reduction, or an equal one at another index map, was
        recorded before.
        """
        d, dtype = self.d, node.sources[0].dtype
        op = split_complex_states(op, dtype)
        if self.reduction is None and can_be_contraction(op):
            self.reduction = node, index_map
            d.accumulators.append(Accumulator(op, op.state_dtypes(dtype)))
            d.orders[0] = find_reduction_order(node)
            d.reductions.append(ReductionLoop(outer_loops, d.add_axes(get_inner_shape(node)), 0, ()))
        return self.reduction is not None and self.reduction[1] == index_map and _are_equal(self.reduction[0], node)

    def add_access(self, node: Node, index_map: Layout, loops: Loops, in_reduction: bool, index_axes: Loops) -> None:
        """Add an access to the memory of `node`, or to a position, at the elements that `index_map` selects inside `loops`.

        `in_reduction` tells whether the reduction takes the element. `index_axes` are the axes whose index is computed from the element.
        """
        k = len(self.d.accesses)
        self.d.accesses.append(DraftAccess(None if node.op is POSITION else node, index_map, loops))
        if in_reduction:
            self.reduced_accesses.append(k)
        for axis in index_axes:
            self.index_reads[axis].append(k)

    def list_index_accesses(self, k: int) -> list[int]:
        """Return the numbers of the accesses from which the indices of access `k` are computed; empty without indexed axes."""
        return [index for axis in self.d.accesses[k].loops for index in self.index_reads.get(axis, ())]
