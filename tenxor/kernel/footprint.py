"""Whether a kernel would be a product, seen from the index maps of what it reads: a draft without expressions, and its loops.

What is found is what the schedule will find (`cpu/products.py`), as both ask `pair_of`, and of the same loops.
"""

from __future__ import annotations

from collections.abc import Set
from math import prod

from ..dtypes import int64
from ..layout import Layout
from ..node import POSITION, Gather, Node, stores
from ..ops import Op
from ..ops.complexes.reductions import split
from ..ops.expr import zero
from ..ops.reductions import Reduction
from .arrange import arranged
from .drafted import Accessed, Chosen, Draft, Loops, ReductionLoop
from .ir import Accumulator
from .pairs import LEAST, Moves, can_be_product, pair_of
from .reads import further_shape, loops_of, outermost, source_index_maps, whole
from .refine import refine


def may_be_product(node: Node) -> bool:
    """Whether a reduction might be a product, as far as can be seen at once: neighbouring axes may yet become one, and one that
    turns may be cut in two.
    """
    m, n, k = LEAST
    if prod(node.shape) < m * n or prod(further_shape(node)) < k:
        return False
    return sum(size > 1 for size in node.shape) > 1 or _reads_chains(node)


def _reads_chains(node: Node) -> bool:
    """Whether something in a reduction's recipe is read through a chain of views."""
    stack, seen = [(node, whole(node))], set()
    while stack:
        for read in source_index_maps(*stack.pop()):
            source, index_map = read
            if index_map.base is not None:
                return True
            follows = isinstance(source.op, Op) or (isinstance(source.op, Gather) and index_map.tables is None)  # else it is computed first
            if source.buffer is None and follows and read not in seen:
                seen.add(read)
                stack.append(read)
    return False


def is_product(root: Node, kernels: Set[Node]) -> bool:
    """Whether the kernel that computes `root`, reading the results of other `kernels`, would be a product."""
    footprint = _Footprint(root, kernels)
    if not footprint.follow() or not footprint.d.reductions:
        return False
    d = footprint.d
    refine(d)
    (f,), loops = d.reductions, arranged(d)
    if not set(loops.space) <= set(f.around):
        return False
    position_of = {k: at for at, k in enumerate(footprint.taken)}
    steps = [w.steps for w in loops.walks]
    moves = Moves(
        loops.space,
        loops.reduced[f.axes],
        loops.extents,
        [steps[k] for k in footprint.taken],
        [its for k, its in enumerate(steps) if k not in position_of],
        [[position_of[k], *(position_of[i] for i in footprint.indices_of(k))] for k in footprint.taken],
    )
    return pair_of(moves, max(s.itemsize for s in d.accumulators[0].states)) is not None


def _are_alike(node: Node, other: Node) -> bool:
    """Whether two nodes are made alike of the same memory, and so are one value."""
    stack, seen = [(node, other)], set()
    while stack:
        pair = a, b = stack.pop()
        if a is b or pair in seen:
            continue
        seen.add(pair)
        if type(a) is not Node or type(b) is not Node or a.buffer is not None or b.buffer is not None:
            return False
        if a.recipe is not b.recipe or a.offsets != b.offsets:
            return False
        stack.extend(zip(a.sources, b.sources, strict=True))  # type: ignore[arg-type]  # numbers are compared, too
    return True


class _Footprint:
    """What a kernel with one reduction reads, and where."""

    def __init__(self, root: Node, kernels: Set[Node]) -> None:
        self.d = Draft(root)
        self.kernels = kernels
        self.taken: list[int] = []  # the accesses of the reduction, by number
        # By axis that no loop runs through: the accesses of the values that say the index.
        self.said_by: dict[int, list[int]] = {}
        self.reduction: tuple[Node, Layout] | None = None  # where it is read

    def follow(self) -> bool:
        """Follow recipes down to what is in memory; False if that finds more than one reduction, or one that is no product."""
        d, root = self.d, self.d.root
        start, index_map = root, whole(root)
        if stores(root.op):
            source, layout = root.sources[1], root.layouts[1]
            if type(source) is not Node or root.target is None or layout is None:
                return False
            start, index_map, written = source, layout, root.target
        elif isinstance(root.op, (Op, Reduction, Gather)):
            index_map = written = loops_of(root)
        else:
            return False
        d.space = d.new_axes(index_map.shape)
        d.out = Accessed(None, written, d.space)
        stack: list[tuple[Node, Layout, Loops, bool, Loops]] = [(start, index_map, d.space, False, ())]
        seen = set()
        while stack:
            read = stack.pop()
            if read in seen:
                continue
            seen.add(read)
            node, index_map, loops, in_reduction, says = read
            if (node is not root and (node.buffer is not None or node in self.kernels)) or node.op is POSITION:
                self.leaf(node, index_map, loops, in_reduction, says)
                continue
            further: Loops = ()
            if isinstance(node.op, Reduction):
                index_map = outermost(index_map)
                loops = loops[: len(index_map.shape)]
                if in_reduction or not self.begin(node, node.op, index_map, loops):
                    return False
                further, in_reduction = d.reductions[0].axes, True
            elif isinstance(node.op, Gather):
                further = d.new_axes(further_shape(node))
                self.said_by |= {axis: [] for axis in further}
                d.chosen |= {axis: Chosen(axis, zero(int64)) for axis in further}
            elif not isinstance(node.op, Op):
                return False
            chosen = isinstance(node.op, Gather)
            for k, (source, where) in enumerate(source_index_maps(node, index_map)):
                index = chosen and k > 0
                inside = loops if index else loops + further
                stack.append((source, where, inside, in_reduction, (*says, further[k - 1]) if index else says))
        return True

    def begin(self, node: Node, op: Reduction, index_map: Layout, around: Loops) -> bool:
        """Begin with a reduction; False if it is no product, or not the only one."""
        d, dtype = self.d, node.sources[0].dtype
        op = split(op, dtype)
        if self.reduction is None and can_be_product(op):
            self.reduction = node, index_map
            d.accumulators.append(Accumulator(op, op.states(dtype)))
            d.reductions.append(ReductionLoop(around, d.new_axes(further_shape(node)), 0, ()))
        return self.reduction is not None and self.reduction[1] == index_map and _are_alike(self.reduction[0], node)

    def leaf(self, node: Node, index_map: Layout, loops: Loops, in_reduction: bool, says: Loops) -> None:
        k = len(self.d.accessed)
        self.d.accessed.append(Accessed(None if node.op is POSITION else node, index_map, loops))
        if in_reduction:
            self.taken.append(k)
        for axis in says:
            self.said_by[axis].append(k)

    def indices_of(self, k: int) -> list[int]:
        """The accesses of the values that say indices of a read."""
        return [index for axis in self.d.accessed[k].loops for index in self.said_by.get(axis, ())]
