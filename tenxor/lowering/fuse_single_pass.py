"""Single-pass fusion of two reductions over one matrix, as in `x.T @ (x @ v)`: the matrix is read once for both. The outer reduction is a
sum over rows. An inner reduction along each row, for example a product with a vector, runs just before the sum takes this row, while a
cache holds the row. An index map is a layout over the loops around a read; its values are flat indices of the node read.

So does further work on the inner result alone. Each reduction adds in the same order as in a separate kernel, so the bits are those of two
kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set

from .._utils.records import NamedTuple
from ..graph.node import Node, Scalar
from ..layout import Layout
from ..ops import Op
from ..ops.reductions import Reduction
from ..target import Target
from .access_strides import Loops
from .index_maps import get_inner_shape, hoist_index_map, make_identity_map, source_index_maps
from .loop_nest import convert_draft
from .lower import build_split_draft
from .match_single_pass import match_single_pass

MAX_NODES = 64  # nodes below a sum over rows; a larger graph is not analysed


class _RowSumReads(NamedTuple):
    """The reads of a sum over rows through elementwise operations: the index map of each node, and the readers of each node."""

    maps: dict[Node, Layout]
    readers: dict[Node, list[Node]]


def map_row_nodes(order: Sequence[Node], roots: Collection[Node], target: Target) -> dict[Node, Set[Node]]:
    """Map each sum over rows to the nodes that its kernel can compute row by row, because no other node needs them.

    `order` holds the pending nodes, sources first, and `roots` are the nodes whose values are asked for. `target` has the limits on sizes
    and the number of threads. Sums without such nodes are not in the map.
    """
    sums = [node for node in order if isinstance(node.op, Reduction) and _is_large(node, target)]
    if len(sums) < 2:
        return {}
    readers = Counter([source for node in order for source in set(node.sources)])
    row_nodes = {node: _collect_row_nodes(node, readers, roots, target) for node in sums}
    return {node: inner_nodes for node, inner_nodes in row_nodes.items() if inner_nodes}


def fuse_row_nodes(kernels: list[Node], row_nodes: Mapping[Node, Set[Node]]) -> tuple[list[Node], set[Node]]:
    """Return `kernels` without the nodes that sums over rows compute themselves, and a set of sums for which this is not possible yet.

    `kernels` are the roots of all kernels, in order; the list is not changed. `row_nodes` maps each sum to the nodes to compute inside
    (`map_row_nodes`). Where the loops of the sum's kernel have another form than a single pass (`match_single_pass.py`), the nodes stay
    kernels. If the sum is inlined into this kernel, it is in the second result: the caller makes the sum a kernel, and tries again.
    """
    kernel_set, unfused = set(kernels), set[Node]()
    for total, inner_nodes in row_nodes.items():
        kernel = next((node for node in kernels if total in _collect_computed(node, kernel_set)), total)
        if match_single_pass(convert_draft(build_split_draft(kernel, kernel_set - inner_nodes))) is not None:
            kernel_set -= inner_nodes
        elif kernel is not total:
            unfused.add(total)
    return [node for node in kernels if node in kernel_set], unfused


def _collect_computed(kernel: Node, kernels: Set[Node]) -> Set[Node]:
    """Return the nodes computed by the kernel with root `kernel`: the root and the inlined nodes.

    `kernels` are the roots of all kernels.
    """
    computed, stack = {kernel}, [kernel]
    while stack:
        new_sources = [s for s in stack.pop().sources if type(s) is Node and s.buffer is None and s not in kernels and s not in computed]
        computed.update(new_sources)
        stack += new_sources
    return computed


def _is_large(reduction: Node, target: Target) -> bool:
    """Return whether a reduction reads as many bytes as a single pass needs at least: the smaller of two limits of `target.single_pass`."""
    return _count_bytes(reduction) >= min(target.single_pass.min_short_rows_bytes, target.single_pass.min_matrix_bytes)


def _count_bytes(reduction: Node) -> int:
    """Return the bytes of the elements read by a reduction: their number times the item size of the result, whatever dtype memory has."""
    layout = reduction.layouts[0]
    assert layout is not None
    return layout.size * reduction.dtype.itemsize


def _collect_row_nodes(total: Node, readers: Counter[Node | Scalar], roots: Collection[Node], target: Target) -> Set[Node]:
    """Return the pending nodes that the kernel of `total`, a sum over rows, can compute itself, row by row: a reduction along a row, and
    later work on it.

    Only `total` needs the returned nodes. `readers` counts the readers of each node, and `roots` are the nodes whose values are asked for.
    The set is empty without such nodes, and for a matrix too small or with rows too long (`target.single_pass.is_worthwhile`). The set is
    also empty if several threads can share the columns.
    """
    empty: Set[Node] = set()
    result_axes, row_axes = (
        _list_long_axes(total.shape, 0),
        _list_long_axes(get_inner_shape(total), len(hoist_index_map(make_identity_map(total)).shape)),
    )
    if not result_axes or len(row_axes) != 1:
        return empty
    column, (row,) = result_axes[-1], row_axes
    column_count = total.shape[column]
    if not target.single_pass.is_worthwhile(_count_bytes(total), column_count * total.dtype.itemsize):
        return empty
    if target.threads > 1 and column_count > target.thread_limits.min_block_columns:
        return empty  # enough columns for threads to share: in a single pass, each thread would reduce every row
    reads = _collect_reads(total, make_identity_map(total))
    if reads is None:
        return empty
    candidates = [n for n, index_map in reads.maps.items() if index_map.strides[row] and not index_map.strides[column] and n.buffer is None]
    results = [n for n in candidates if isinstance(n.op, Reduction)]
    if len(results) != 1 or not _takes_same_elements(results[0], reads, result_axes, row):
        return empty
    row_nodes, stack = {results[0]}, [results[0]]
    while stack:
        for reader in reads.readers[stack.pop()]:
            if reader in candidates and reader not in row_nodes:
                row_nodes.add(reader)
                stack.append(reader)
    is_exclusive = all([not n.is_stored and n not in roots and readers[n] == len(reads.readers[n]) for n in row_nodes])
    return row_nodes if is_exclusive else empty


def _list_long_axes(shape: Sequence[int], first_axis: int) -> Loops:
    """Return the numbers of the axes of `shape` with a size other than 1, outermost first. Axis k has the number `first_axis` + k."""
    return tuple([a for a, size in enumerate(shape, first_axis) if size != 1])


def _collect_reads(reduction: Node, index_map: Layout) -> _RowSumReads | None:
    """Return the reads of `reduction`, itself read at `index_map`, down to memory and to further reductions.

    Return None if a node is read at two different index maps, through tables or a view chain, or if more than `MAX_NODES` nodes are read.
    """
    reads = _RowSumReads({}, {})
    stack = [(reduction, read) for read in source_index_maps(reduction, index_map)]
    while stack:
        reader, (node, source_map) = stack.pop()
        previous_map = reads.maps.get(node)
        if (
            source_map.base is not None
            or source_map.tables is not None
            or previous_map not in (None, source_map)
            or len(reads.maps) > MAX_NODES
        ):
            return None
        reads.maps[node] = source_map
        node_readers = reads.readers.setdefault(node, [])
        if reader not in node_readers:
            node_readers.append(reader)
        if previous_map is None and node.buffer is None and isinstance(node.op, Op):
            stack += [(node, read) for read in source_index_maps(node, source_map)]
    return reads


def _takes_same_elements(result: Node, reads: _RowSumReads, result_axes: Loops, row: int) -> bool:
    """Return whether the reduction `result` of each row, and the sum over rows, read the same matrix, so that a single pass serves both.

    So they must read a common node, and for each row the same elements of it, in the same order. `reads` are the reads of the sum.
    `result_axes` are the axes of the sum's results, with the columns last, and `row` is the summed axis.
    """
    result_map, (*outer, column) = hoist_index_map(reads.maps[result]), result_axes
    step_axes, row_reads = _list_long_axes(get_inner_shape(result), len(result_map.shape)), _collect_reads(result, result_map)
    if row_reads is None or len(step_axes) != 1:
        return False
    (step,) = step_axes
    for node, row_map in row_reads.maps.items():
        sum_map = reads.maps.get(node)
        if sum_map is not None and row_map.strides[step] and row_map.strides[row] and row_map.offset == sum_map.offset:
            is_same = row_map.shape[step] == sum_map.shape[column] and row_map.strides[step] == sum_map.strides[column]
            if is_same and not row_map.strides[column] and all([row_map.strides[a] == sum_map.strides[a] for a in (*outer, row)]):
                return True
    return False
