"""Single-pass fusion of two reductions over one matrix, as in `x.T @ (x @ v)`: the matrix is read once for both.

The outer reduction is a sum over rows. An inner reduction along each row, for example a product with a vector, runs just before the sum
takes this row, while a cache holds the row. So does further work on the inner result alone. Each reduction adds in the same order as in a
separate kernel, so the bits are those of two kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set

from ..layout import Layout
from ..node import Node, Scalar
from ..ops import Op
from ..ops.reductions import Reduction
from ..records import NamedTuple
from ..target import Target
from .drafted import Loops
from .lower import drafted
from .nest import nested
from .onepass import one_pass
from .reads import further_shape, outermost, source_index_maps, whole

MOST = 64  # nodes below a sum over rows; a larger graph is not analysed


class _Reads(NamedTuple):
    """The reads of a sum over rows through elementwise operations: the index map of each node, and the readers of each node."""

    maps: dict[Node, Layout]
    readers: dict[Node, list[Node]]


def read_once(order: Sequence[Node], roots: Collection[Node], target: Target) -> dict[Node, Set[Node]]:
    """Map each sum over rows to the nodes that its kernel can compute row by row, because no other node needs them.

    `order` holds the pending nodes, sources first, and `roots` are the nodes whose values are asked for.
    """
    sums = [node for node in order if isinstance(node.op, Reduction) and _is_much(node, target)]
    if len(sums) < 2:
        return {}
    readers = Counter([source for node in order for source in set(node.sources)])
    found = {node: _inside(node, readers, roots, target) for node in sums}
    return {node: inside for node, inside in found.items() if inside}


def in_one_pass(kernels: list[Node], once: Mapping[Node, Set[Node]]) -> tuple[list[Node], set[Node]]:
    """Return the kernels without the nodes that sums over rows compute, and the sums that must become separate kernels for this.

    `once` maps each sum to the nodes to compute inside (`read_once`). A sum is refused if its loops have another form (`onepass.py`).
    """
    every, apart = set(kernels), set[Node]()
    for total, inside in once.items():
        kernel = next((node for node in kernels if total in _computed(node, every)), total)
        if one_pass(nested(drafted(kernel, every - inside))) is not None:
            every -= inside
        elif kernel is not total:
            apart.add(total)
    return [node for node in kernels if node in every], apart


def _computed(kernel: Node, kernels: Set[Node]) -> Set[Node]:
    """Return the nodes that a kernel computes: the root and the inlined nodes."""
    found, stack = {kernel}, [kernel]
    while stack:
        more = [s for s in stack.pop().sources if type(s) is Node and s.buffer is None and s not in kernels and s not in found]
        found.update(more)
        stack += more
    return found


def _is_much(reduction: Node, target: Target) -> bool:
    """Return whether a reduction reads more than a near cache holds."""
    return _bytes_of(reduction) >= min(target.passes.least, target.passes.large)


def _bytes_of(reduction: Node) -> int:
    """Return the number of bytes read by a reduction, counted in the dtype of the result."""
    through = reduction.layouts[0]
    assert through is not None
    return through.size * reduction.dtype.itemsize


def _inside(total: Node, readers: Counter[Node | Scalar], roots: Collection[Node], target: Target) -> Set[Node]:
    """Return the nodes computed from single rows for the sum `total` over rows, and for no other node.

    Return an empty set if there are none, or if a single pass does not pay.
    """
    none: Set[Node] = set()
    kept, rows = _axes(total.shape, 0), _axes(further_shape(total), len(outermost(whole(total)).shape))
    if not kept or len(rows) != 1:
        return none
    column, (row,) = kept[-1], rows
    columns = total.shape[column]
    if not target.passes.pays(_bytes_of(total), columns * total.dtype.itemsize):
        return none
    if target.threads > 1 and columns > target.sharing.longest:
        return none  # enough columns for threads to share: in a single pass, each thread would reduce every row
    reads = _reads_of(total, whole(total))
    if reads is None:
        return none
    of_rows = [n for n, where in reads.maps.items() if where.strides[row] and not where.strides[column] and n.buffer is None]
    results = [n for n in of_rows if isinstance(n.op, Reduction)]
    if len(results) != 1 or not _takes_the_same(results[0], reads, kept, row):
        return none
    found, stack = {results[0]}, [results[0]]
    while stack:
        for reader in reads.readers[stack.pop()]:
            if reader in of_rows and reader not in found:
                found.add(reader)
                stack.append(reader)
    alone = all([not n.stored and n not in roots and readers[n] == len(reads.readers[n]) for n in found])
    return found if alone else none


def _axes(shape: Sequence[int], first: int) -> Loops:
    """Return the axes with more than one index, numbered from `first` on."""
    return tuple([a for a, size in enumerate(shape, first) if size != 1])


def _reads_of(reduction: Node, index_map: Layout) -> _Reads | None:
    """Return the reads of a reduction at an index map, down to memory and to further reductions.

    Return None if a node is read in two ways, through tables or a view chain, or if the nodes are too many.
    """
    found = _Reads({}, {})
    stack = [(reduction, read) for read in source_index_maps(reduction, index_map)]
    while stack:
        reader, (node, where) = stack.pop()
        before = found.maps.get(node)
        if where.base is not None or where.tables is not None or before not in (None, where) or len(found.maps) > MOST:
            return None
        found.maps[node] = where
        its = found.readers.setdefault(node, [])
        if reader not in its:
            its.append(reader)
        if before is None and node.buffer is None and isinstance(node.op, Op):
            stack += [(node, read) for read in source_index_maps(node, where)]
    return found


def _takes_the_same(result: Node, reads: _Reads, kept: Loops, row: int) -> bool:
    """Return whether the reduction `result` along rows takes elements that the sum over rows takes too."""
    at, (*outer, column) = outermost(reads.maps[result]), kept
    steps, own = _axes(further_shape(result), len(at.shape)), _reads_of(result, at)
    if own is None or len(steps) != 1:
        return False
    (step,) = steps
    for node, where in own.maps.items():
        other = reads.maps.get(node)
        if other is not None and where.strides[step] and where.strides[row] and where.offset == other.offset:
            same = where.shape[step] == other.shape[column] and where.strides[step] == other.strides[column]
            if same and not where.strides[column] and all([where.strides[a] == other.strides[a] for a in (*outer, row)]):
                return True
    return False
