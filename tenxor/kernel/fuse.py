"""The choice between kernels and inlining for pending nodes.

A node is inlined, and never stored, where this repeats no costly work. Either a single kernel reads the node, or several kernels reduce
disjoint parts; and the index maps in the kernels' loops must be single views. Every other node becomes a kernel. So does a contraction
(`products.py`), unless the rest of the kernel is elementwise work on the results, including a write into a part of a tensor. Long work is
split into kernels of limited length, because compile time grows faster than length. The choice never changes a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from math import prod

from ..late import Late
from ..layout import Layout
from ..node import EMPTY, POSITION, UPDATE, Gather, Node, Scan, Scatter, is_read_from_memory, stores, writes
from ..ops import OPS, Op
from ..ops.lengths import length
from ..ops.reductions import REDUCTIONS, Reduction
from ..records import NamedTuple
from ..target import Fusing, Target
from .reads import (
    along_last,
    further_shape,
    has_checked_exponents,
    loops_of,
    outermost,
    source_index_maps,
    times_computed,
    whole,
)

once_only = Late("tenxor.kernel.once")  # imported with the first large reduction

MANY = 1 << 20  # operations: the maximal weight; shared nodes count repeatedly, so weights grow exponentially
_SUM, _MULTIPLY = REDUCTIONS["sum"], OPS["multiply"]
_FROM_MEMORY = frozenset(("reinterpret", "blocks"))  # operations that require their sources in memory


class _Read(NamedTuple):
    """A use of a node: the root of the kernel that needs it, and the index map from the loops of the kernel. Along the last `chosen` axes
    of the index map no loop runs: their index is the value of another node.
    """

    kernel: Node
    index_map: Layout
    chosen: int = 0

    @property
    def loops(self) -> int:
        """The number of loops around the read."""
        return len(self.index_map.shape) - self.chosen


class _Known(NamedTuple):
    """Facts about a node apart from its readers: the weight in operations, the cost in additions, whether the node is a `constant` (cheap
    and without reads of memory), and whether only parts of likely contractions read it (`for_products`).
    """

    weight: int
    cost: int
    constant: bool
    for_products: bool


def pending(roots: Sequence[Node]) -> list[Node]:
    """Return the pending nodes below and among `roots`, each after its sources."""
    order: dict[Node, None] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node.buffer is not None or node in order:
            stack.pop()
        elif unseen := [s for s in node.sources if type(s) is Node and s.buffer is None and s not in order]:
            stack.extend(reversed(unseen))
        else:
            order[stack.pop()] = None
    return list(order)


def fuse(order: Sequence[Node], roots: Sequence[Node], target: Target) -> list[Node]:
    """Return the nodes of `order` to compute as kernels, in an order in which they can run. `order` holds pending nodes, sources first."""
    alone, once = set(roots), _read_once(order, roots, target)
    while True:
        found, reads, nested = _fused(order, alone, target.fusing)
        more = _products_apart(found, reads) | _gathers_apart(found, reads) or _nested_apart(found, nested)
        if not more and once:
            found, more = once_only.in_one_pass(found, once)
        if more <= alone:
            return found
        alone |= more


def _read_once(order: Sequence[Node], roots: Sequence[Node], target: Target) -> dict[Node, set[Node]]:
    """Map each sum over rows to the pending nodes only it reads. Its kernel can compute them row by row, so the matrix is read once."""
    if sum([isinstance(node.op, Reduction) for node in order]) < 2:
        return {}
    found: dict[Node, set[Node]] = once_only.read_once(order, roots, target)
    return found


def _products_apart(kernels: Sequence[Node], reads: dict[Node, list[_Read]]) -> set[Node]:
    """Return the nodes to store so that contractions stay kernels: inlined contractions, or else the obstacles to a contraction."""
    every = set(kernels)
    inside: dict[Node, list[Node]] = {}
    for node, its in reads.items():
        if isinstance(node.op, Reduction) and node not in every:
            inside.setdefault(its[0].kernel, []).append(node)
    apart: set[Node] = set()
    if not inside:
        return apart
    from .footprint import is_product, may_be_product  # with the first reduction

    for kernel, reductions in inside.items():
        if _may_be_product(kernel) and not is_product(kernel, every) and is_product(kernel, every | set(reductions)):
            apart.update(reductions)
            continue
        likely = [node for node in reductions if may_be_product(node)]
        ends = type(kernel.op) is Op or stores(kernel.op)
        if likely and not (ends and is_product(kernel, every)):
            products = [node for node in likely if is_product(node, every)]
            others = _others(reductions, products) if ends else set()
            apart |= others if others and is_product(kernel, every | others) else set(products)
    return apart


def _gathers_apart(kernels: Sequence[Node], reads: dict[Node, list[_Read]]) -> set[Node]:
    """Return the inlined gathers that would be computed repeatedly, because no contraction packs them."""
    every = set(kernels)
    found: dict[Node, list[Node]] = {}
    for node, its in reads.items():
        if isinstance(node.op, Gather) and node not in every and _times(its[0]) > node.size:
            found.setdefault(its[0].kernel, []).append(node)
    if not found:
        return set()
    from .footprint import is_product

    return {node for kernel, gathers in found.items() if not is_product(kernel, every) for node in gathers}


def _nested_apart(kernels: Sequence[Node], nested: Set[Node]) -> set[Node]:
    """Return the nodes to store because of reductions in the loops of others, as in the kernels `nested`. Otherwise a reduction would add
    in another order than alone, or take far longer.
    """
    if not nested:
        return set()
    from .arrange import better_apart
    from .lower import drafted

    every = set(kernels)
    return {node for kernel in nested for node in better_apart(drafted(kernel, every))}


def _others(reductions: Sequence[Node], products: Sequence[Node]) -> set[Node]:
    """Return the remaining reductions of a kernel, if storing them lets the kernel end with the last contraction; else an empty set. These
    reductions must not need the contraction's result, and must create no more kernels than storing the contractions.
    """
    others = {node for node in reductions if node is not products[-1]} if products else set()
    many = len(reductions) > len(products) + 1
    return set() if many or any(reaches(node, products[-1]) for node in others) else others


def _fused(order: Sequence[Node], roots: set[Node], fusing: Fusing) -> tuple[list[Node], dict[Node, list[_Read]], set[Node]]:
    """Return the kernels if the nodes in `roots` must be kernels, the reads of each node, and the kernels with reductions in other loops.
    """
    kernels = roots | _apart(order) | _shareable(order, fusing) | _scattered(order) | _of_numbers(order)
    weight = weights(order)
    constant = constants(order, weight, fusing)
    cost = costs(order)
    reads: dict[Node, list[_Read]] = {node: [] for node in order}
    cuts = _Cuts(order, fusing)
    bare: set[Node] = set()  # nodes read by more than parts of likely contractions
    around: dict[Node, int] = {}  # the number of loops around the reductions that a node is part of
    nested: set[Node] = set()
    for node in reversed(order):
        known = _Known(weight[node], cost[node], node in constant, node not in bare)
        ends = node in kernels or _is_scanned(node, reads[node]) or not _is_inlined(node, reads[node], fusing, known)
        if ends or cuts.before(node, reads[node], known):
            kernels.add(node)
            reads[node] = [_Read(node, loops_of(node))]
            around.pop(node, None)
        cuts.take(node, reads[node])
        if (node in kernels or node in bare) and not _may_be_product(node):
            bare.update(source for source in node.sources if type(source) is Node)
        if isinstance(node.op, Reduction):
            nested.update(read.kernel for read in reads[node] if read.loops > around.get(node, read.loops))
            fewest = min(read.loops for read in reads[node])
            around[node] = min(fewest, around.get(node, fewest))
        if node in around:
            fewest = around[node]
            around.update((s, min(fewest, around.get(s, fewest))) for s in node.sources if type(s) is Node)
        for kernel, index_map, chosen in reads[node]:
            for k, (source, where) in enumerate(_reads_of(node, index_map)):
                more = len(further_shape(node)) if isinstance(node.op, Gather) and k == 0 else 0
                if isinstance(source.op, Reduction) and not chosen + more:
                    where = outermost(where)  # computed once, outside of the loops it does not depend on
                read = _Read(kernel, where, chosen + more)
                if source in reads and read not in reads[source]:
                    reads[source].append(read)
    return [node for node in order if node in kernels], reads, nested


def _is_scanned(node: Node, reads: Sequence[_Read]) -> bool:
    """Return whether a node is a reduction read by a scan and would round differently in the scan's loop than alone. Integers, and the
    largest or smallest element, are the same in any order.
    """
    is_the_same = not isinstance(node.op, Reduction) or node.op.name in ("max", "min") or node.dtype.kind in ("int", "uint", "bool")
    return not is_the_same and any([isinstance(read.kernel.op, Scan) for read in reads])


def _may_be_product(node: Node) -> bool:
    if not isinstance(node.op, Reduction):
        return False
    from .footprint import may_be_product

    return may_be_product(node)


def _reads_of(node: Node, index_map: Layout) -> list[tuple[Node, Layout]]:
    """Return the source nodes of a node read at `index_map`, each with its own index map."""
    if writes(node.op):
        old, *others = _nodes(node)
        # The old content is no operand of the loop: `realize` writes into its memory or into a copy.
        # A second reader makes the old content a separate kernel.
        return [(old, whole(old)), *((other, x) for other, x in zip(others, node.layouts[1:], strict=True) if x)]
    if isinstance(node.op, Scan):
        source, through = node.sources[0], node.layouts[0]
        assert type(source) is Node and through is not None
        return [(source, through)]
    if node.op.kind in _FROM_MEMORY:
        return [(source, whole(source)) for source in node.sources if type(source) is Node]
    return source_index_maps(node, index_map)


def _apart(order: Sequence[Node]) -> set[Node]:
    """Return the nodes required in memory: overwritten nodes, values and indices computed from them, and sources of bytes or blocks."""
    found: set[Node] = set()
    readers = Counter([source for node in order for source in set(node.sources)])
    for node in order:
        if writes(node.op):
            old, *others = _nodes(node)
            if readers[old] > 1 and not (node.op is UPDATE and _is_elementwise(others[0])):  # otherwise only this write reads it
                found.update(other for other in others if other.buffer is None and reaches(other, old))
            if old.buffer is None:
                found.add(old)
        elif node.op.kind in _FROM_MEMORY:
            found.update(s for s in node.sources if type(s) is Node and s.buffer is None)
    return found


def _nodes(node: Node) -> list[Node]:
    return [source for source in node.sources if type(source) is Node]


def _shareable(order: Sequence[Node], fusing: Fusing) -> set[Node]:
    """Return the sources of reductions with few results, where reductions below read much per element. Once stored, a source has a separate
    loop for threads to share, and the store is cheap.
    """
    found: set[Node] = set()
    reads: dict[Node, int] = {}  # the number of elements read by the largest reduction below
    for node in order:
        if isinstance(node.op, Op):
            reads[node] = max((reads.get(s, 0) for s in node.sources if type(s) is Node), default=0)
        elif isinstance(node.op, Reduction):
            source = node.sources[0]
            assert type(source) is Node and node.layouts[0] is not None
            reads[node] = node.layouts[0].size
            much = max(fusing.much, fusing.far_more * source.size)
            if node.size < fusing.few_results <= source.size and reads.get(source, 0) >= much:
                found.add(source)
    return found


def _scattered(order: Sequence[Node]) -> set[Node]:
    """Return the gathers of single elements that several nodes read: each element should be fetched from scattered memory only once."""
    found: set[Node] = set()
    readers = Counter(source for node in order for source in set(node.sources))
    for node in order:
        if isinstance(node.op, Gather) and readers[node] > 1:
            first, kept = node.layouts[0], len(node.shape)
            assert first is not None
            rows = kept > 0 and first.base is None and first.tables is None and first.strides[kept - 1] == 1
            if not rows or any(i is not None and i.strides[-1] for i in node.layouts[1:]):
                found.add(node)
    return found


def _of_numbers(order: Sequence[Node]) -> set[Node]:
    """Return the nodes made of scalars alone to store for reductions, or sums of products. No layout would fix the order in which they are
    added; in memory, their order does. A node is stored if it is small, or broadcast by its reader (`is_read_from_memory`).
    """
    found: set[Node] = set()
    of_numbers: set[Node] = set()
    for node in order:
        sources = _nodes(node)
        through = zip(node.sources, node.recipe.forms, strict=False)  # a store has one more source
        if isinstance(node.op, Op) and node.sources and all([form is None or form.is_single or s in of_numbers for s, form in through]):
            of_numbers.add(node)
        if isinstance(node.op, Reduction):
            is_sum_of_products = node.op is _SUM and sources[0].buffer is None and sources[0].op is _MULTIPLY
            reads = sources[0] if is_sum_of_products else node
            some = [s for s in _nodes(reads) if s in of_numbers and s.size > 1]
            found.update(s for s in some if is_read_from_memory(s, reads))
    return found


def _is_elementwise(node: Node) -> bool:
    """Return whether a node is computed from memory by elementwise operations alone."""
    return all([isinstance(n.op, Op) for n in pending([node])])


def reaches(node: Node, goal: Node) -> bool:
    """Return whether a node is `goal`, or reads it directly or through pending nodes."""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if node is goal or goal in node.sources:  # a reader is often near
            return True
        if node not in seen and node.buffer is None:
            seen.add(node)
            stack += [s for s in node.sources if type(s) is Node and s.buffer is None]
    return False


def weights(order: Sequence[Node]) -> dict[Node, int]:
    """Return the number of operations to compute each node anew, at most `MANY`. A source read twice counts twice."""
    found: dict[Node, int] = {}
    for node in order:
        found[node] = min(1 + sum(found.get(s, 0) for s in node.sources if type(s) is Node), MANY)
    return found


def constants(order: Sequence[Node], weight: dict[Node, int], fusing: Fusing) -> set[Node]:
    """Return the nodes that cost nothing to compute again: cheap operations without reads of memory."""
    found: set[Node] = set()
    for node in order:
        cheap = type(node.op) is Op and node.op.cost <= fusing.cheap and weight[node] <= 4 * fusing.cheap
        if node.op is POSITION or (cheap and all(type(s) is not Node or s in found for s in node.sources)):
            found.add(node)
    return found


def narrow(order: Sequence[Node], size_of: Callable[[Node], int]) -> set[Node]:
    """Return the nodes no larger than their sources together, so storing them takes no extra memory. An operation on a broadcast is not
    among them, but its source before the broadcast is.
    """
    least: dict[Node, int] = {}  # the smallest memory that can replace a node
    found: set[Node] = set()
    for node in order:
        own = size_of(node)
        sources = {s for s in node.sources if type(s) is Node}
        below = sum(least.get(s, size_of(s)) for s in sources)
        if own <= below or node.op is EMPTY:
            found.add(node)
        least[node] = min(own, below) if sources else own
    return found


class _Cuts:
    """A limit on the length of kernels. A long kernel ends at a node no larger than memory needed anyway: the kernel's result, or the
    node's sources. From then on the kernel inlines only cheap nodes.
    """

    def __init__(self, order: Sequence[Node], fusing: Fusing) -> None:
        self.fusing = fusing
        self.lengths = {n: length(n.op, n.recipe.dtypes) for n in order if isinstance(n.op, Op)}
        long = sum(self.lengths.values()) > fusing.longest
        self.narrow = narrow(order, lambda node: node.size) if long else set()
        self.long = long
        self.taken: Counter[Node] = Counter()  # length of each kernel so far
        self.ended: set[Node] = set()  # kernels that reached the limit

    def before(self, node: Node, reads: Sequence[_Read], known: _Known) -> bool:
        """Return whether a node becomes a kernel because the kernels reading it would get too long."""
        if not self.long or known.constant or known.cost <= self.fusing.cheap or not isinstance(node.op, Op):
            return False
        kernels = {read.kernel for read in reads}
        more = self.lengths[node]
        full = {k for k in kernels if k in self.ended or self.taken[k] + more > self.fusing.longest}
        if not full or not (node in self.narrow or all(node.size <= k.size for k in kernels)):
            return False
        self.ended |= full
        return True

    def take(self, node: Node, reads: Sequence[_Read]) -> None:
        """Add a node to the length of the kernels around its reads, once for each different read."""
        if self.long:
            for read in reads:
                self.taken[read.kernel] += self.lengths.get(node, 0)


def costs(order: Sequence[Node]) -> dict[Node, int]:
    """Return the approximate cost of an element of each node, in additions, with all elementwise operations below it inlined."""
    found: dict[Node, int] = {}
    for node in order:
        if isinstance(node.op, Op):
            found[node] = node.op.cost + sum(found.get(s, 0) for s in node.sources if type(s) is Node)
        else:
            found[node] = 0  # the result of a reduction, or memory, is only loaded
    return found


def _keeps_its_bits(node: Node, index_map: Layout) -> bool:
    """Return whether a reduction read through an index map can add in the same order as alone, and as fast. This holds if the innermost
    loop around the reduction runs along the last axis of the result.
    """
    if index_map.tables is not None:
        return False
    index_map = outermost(index_map)
    return node.size == 1 or along_last(node.shape, index_map) == len(index_map.shape) - 1


def _times(read: _Read) -> int:
    """Return how often a value is computed for a read."""
    shape = read.index_map.shape
    return prod(shape[: len(shape) - read.chosen]) if read.chosen else times_computed(read.index_map)


def _elements(index_map: Layout) -> int:
    """Return an upper bound for the number of distinct elements that an index map reaches."""
    tables = index_map.tables or (None,) * len(index_map.shape)
    axes = zip(index_map.shape, index_map.strides, tables, strict=True)
    return prod(n for n, step, table in axes if step or table is not None)


def _reduced_in_parts(node: Node, reads: list[_Read]) -> bool:
    """Return whether several kernels each reduce a different part of an elementwise result, so none repeats the work of another."""
    return (
        isinstance(node.op, Op)
        and sum(_elements(r.index_map) for r in reads) <= node.size
        and all(
            isinstance(r.kernel.op, Reduction)
            or (isinstance(r.kernel.op, Op) and r.index_map.shape != loops_of(r.kernel).shape)
            for r in reads
        )
    )


def _is_whole(node: Node, read: _Read) -> bool:
    """Return whether a read computes every element of a node, before anything is overwritten. Only then an index out of range, or a
    negative exponent, is always found, and in time.
    """
    return read.index_map.tables is None and not stores(read.kernel.op) and read.index_map.covers(node.size)


def _is_inlined(node: Node, reads: list[_Read], fusing: Fusing, known: _Known) -> bool:
    """Return whether a node is computed wherever it is read, and never stored."""
    if has_checked_exponents(node) and not all(_is_whole(node, read) for read in reads):
        return False
    return _can_be_inlined(node, reads, known) and (
        _is_free(node, reads, fusing, known) or (not node.stored and _pays(node, reads, fusing, known))
    )


def _can_be_inlined(node: Node, reads: list[_Read], known: _Known) -> bool:
    """Return whether inlining a node is possible: the index maps are single views, and an index given by a value is still checked, because
    memory is read at this index further below. Loops of a scatter compute values one by one, so they take only elementwise nodes and
    constants.
    """
    elementwise, constant = isinstance(node.op, Op), known.constant
    return all(
        read.index_map.base is None
        and (not read.chosen or (elementwise and not constant))
        and (elementwise or constant or type(read.kernel.op) is not Scatter)
        for read in reads
    )


def _is_free(node: Node, reads: list[_Read], fusing: Fusing, known: _Known) -> bool:
    """Return whether computing a node again costs no more than loading it."""
    return known.constant and (known.weight <= fusing.trivial or _most_times(reads) <= node.size)


def _pays(node: Node, reads: list[_Read], fusing: Fusing, known: _Known) -> bool:
    """Return whether inlining repeats little work: nothing, or cheap operations, but no division so often that a store would be cheaper.
    The readers must also be in a single kernel, or in several kernels with disjoint parts of the node.
    """
    alone, together = len(reads) == 1, len({id(read.kernel) for read in reads}) == 1
    repeats = _most_times(reads) > node.size
    if isinstance(node.op, Reduction):
        return alone and not repeats and _keeps_its_bits(node, reads[0].index_map)
    if isinstance(node.op, Gather):
        return alone and (not repeats or known.for_products) and _is_whole(node, reads[0])
    if not isinstance(node.op, Op) or len(reads) > fusing.places or not (alone or known.cost <= fusing.repeatable):
        return False
    if not together:
        repeats = any(_times(read) > _elements(read.index_map) for read in reads)
    often = known.cost >= fusing.cheap and _most_times(reads) >= fusing.far_more * node.size
    cheap = node.op.cost <= fusing.cheap and known.weight <= fusing.cheap and not often
    return (together or _reduced_in_parts(node, reads)) and (cheap or not repeats)


def _most_times(reads: list[_Read]) -> int:
    """Return the largest number of computations of a value for one of the reads."""
    return max(map(_times, reads))
