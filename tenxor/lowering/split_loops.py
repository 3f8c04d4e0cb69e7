"""Split loops where a view chain wraps around, so that a division at every element becomes a step of a loop. A read through a view chain
divides a flat index into digits, a digit for each axis of the next view.

If a loop is split where a digit wraps around, each of the new loops moves a single digit, and the chain becomes a single view. Reading
`t.T.reshape(-1)` then runs over the rows and columns of `t.T`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.node import Node
from ..layout import Layout, contiguous_strides
from .access_strides import AccessStrides, Loops
from .index_maps import get_inner_shape, make_identity_map
from .kernel_draft import DraftAccess, KernelDraft, ReductionLoop

Splits = dict[int, tuple[int, ...]]  # axis -> extents of its replacements


def split_loops(d: KernelDraft) -> None:
    """Split loops of the draft `d`, in place, wherever this shortens a view chain without lengthening another."""
    assert d.output is not None
    for k in range(len(d.accesses) + 1):
        while get_access(d, k).index_map.base is not None:
            splits = find_splits(d, get_access(d, k))
            if not splits or not apply_splits(d, splits, k):
                break


def split_reads(node: Node, index_maps: Sequence[Layout]) -> tuple[list[int], Loops, Loops, list[AccessStrides], bool]:
    """Return the loops of the reduction `node` in a kernel alone, with operands in memory, split where view chains wrap around.

    `index_maps` are the index maps of the operands, over the axes of the results and then the reduced axes. The first results are the
    extents by axis number, the loops over the node's results, and the loops of the reduction. Then come the strides of the operands, and
    whether the loops of the reduction were split. `reduction_order.py` derives the order of additions from these results.
    """
    d = KernelDraft(node)
    d.space, axes = d.add_axes(node.shape), d.add_axes(get_inner_shape(node))
    d.accesses = [DraftAccess(None, index_map, d.space + axes) for index_map in index_maps]
    d.output = DraftAccess(None, make_identity_map(node), d.space)
    d.reductions = [ReductionLoop(d.space, axes, 0, ())]
    split_loops(d)
    (f,) = d.reductions
    walks = [AccessStrides.from_layout(p.index_map, p.loops, d.extents) for p in d.accesses]
    return d.extents, f.outer_loops, f.axes, walks, f.axes != axes


def get_access(d: KernelDraft, k: int) -> DraftAccess:
    """Return access number `k` of the draft `d`: a read, or for the number after the last read the write of the result."""
    assert d.output is not None
    return d.accesses[k] if k < len(d.accesses) else d.output


def find_splits(d: KernelDraft, p: DraftAccess) -> Splits:
    """Map each loop axis of the access `p` that should be split to the extents of its parts, outermost first. The map is empty if no axis
    should be split.

    `p` is an access of the draft `d` through a view chain. The flat index of a chain has one digit for each axis of the next view. A loop
    is split where a digit wraps around at intervals that divide its extent; the axis of a scan and indexed axes are never split.
    """
    base = p.index_map.base
    assert base is not None
    splits: Splits = {}
    for axis, size, stride in zip(p.loops, p.index_map.shape, p.index_map.strides, strict=True):
        span = size * abs(stride)
        inner_sizes = [
            boundary // abs(stride)
            for boundary in sorted(set(contiguous_strides(base.shape)))
            if 0 < abs(stride) < boundary < span and boundary % stride == 0 and span % boundary == 0
        ]
        if inner_sizes and axis != d.scan_axis and axis not in d.indices:
            part_sizes = [*reversed(inner_sizes), 1]
            sizes = [outer // inner for outer, inner in zip([size, *part_sizes], part_sizes, strict=False)]
            splits[axis] = tuple(sizes)
    return splits


def apply_splits(d: KernelDraft, splits: Splits, k: int) -> bool:
    """Split loops of the draft `d` in place so that the view chain of access `k` gets shorter. Return whether this was done.

    `splits` maps a loop axis to the extents of its parts, outermost first; they multiply to the extent of the axis. Accesses are numbered
    as in `get_access`; the write of the result comes last. Return False, without a change, if this chain gets no shorter or another chain
    gets longer.
    """
    assert d.output is not None
    index_maps = []
    for n, p in enumerate([*d.accesses, d.output]):
        shape = [size for axis in p.loops for size in splits.get(axis, (d.extents[axis],))]
        index_map = p.index_map.reshape(shape)
        if index_map.depth > p.index_map.depth - (n == k):
            return False
        index_maps.append(index_map)
    new_axes = {axis: d.add_axes(sizes) for axis, sizes in splits.items()}

    def replace_axes(loops: tuple[int, ...]) -> tuple[int, ...]:
        """Return `loops` with each split axis replaced by its parts."""
        return tuple([new_axis for axis in loops for new_axis in new_axes.get(axis, (axis,))])

    *d.accesses, d.output = (
        p._replace(index_map=index_map, loops=replace_axes(p.loops))
        for p, index_map in zip([*d.accesses, d.output], index_maps, strict=True)
    )
    d.space = replace_axes(d.space)
    d.reductions = [f._replace(outer_loops=replace_axes(f.outer_loops), axes=replace_axes(f.axes)) for f in d.reductions]
    return True
