"""Which pending nodes become kernels, and which are inlined in another.

A node is inlined, and never stored, where that repeats no costly work: all who read it are one kernel, or
reduce other parts of it than one another, and its index maps in the kernels' loops are single views. Everything else is a
kernel of its own, as is a product (`products.py`) unless elementwise work on its results is all that the kernel does
besides: writing them into part of a tensor, too. And long work is cut into kernels of some length, so that the time to
compile it does not grow faster than it does. The choice never changes a value.
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

once_only = Late("tenxor.kernel.once")  # with the first sum over rows of much

MANY = 1 << 20  # operations, beyond which they are not told apart: what is shared counts again and again
_SUM, _MULTIPLY = REDUCTIONS["sum"], OPS["multiply"]
_FROM_MEMORY = frozenset(("reinterpret", "blocks"))  # operations whose sources are in memory


class _Read(NamedTuple):
    """Where a node is needed: the kernel's root, and the index map from its loops. Along the last `chosen` axes of the index map no
    loop runs: their index is some other node's value.
    """

    kernel: Node
    index_map: Layout
    chosen: int = 0

    @property
    def loops(self) -> int:
        """How many loops are around it."""
        return len(self.index_map.shape) - self.chosen


class _Known(NamedTuple):
    """What there is to know of a node before its readers: how many operations it takes, and additions, whether it is a constant, and
    whether none but parts of likely products read it.
    """

    weight: int
    cost: int
    constant: bool
    for_products: bool


def pending(roots: Sequence[Node]) -> list[Node]:
    """The nodes not in memory that `roots` need, each after all that it reads."""
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
    """Of the pending nodes in `order`, those that become kernels, in an order in which they can run."""
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
    """By each sum over rows that may compute what it takes of these, since that is for nothing else: all this."""
    if sum([isinstance(node.op, Reduction) for node in order]) < 2:
        return {}
    found: dict[Node, set[Node]] = once_only.read_once(order, roots, target)
    return found


def _products_apart(kernels: Sequence[Node], reads: dict[Node, list[_Read]]) -> set[Node]:
    """The products inlined by kernels that are none themselves, or else what keeps such a kernel from being one."""
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
    """The inlined gathers that would be computed again and again, as no product packs them."""
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
    """What must be in memory lest a reduction add in another order than alone, or take far longer, for others inside its loops, as some
    `nested` kernels have.
    """
    if not nested:
        return set()
    from .arrange import better_apart
    from .lower import drafted

    every = set(kernels)
    return {node for kernel in nested for node in better_apart(drafted(kernel, every))}


def _others(reductions: Sequence[Node], products: Sequence[Node]) -> set[Node]:
    """The other reductions of a kernel, if it may end with the last product: none of them needs its result, and they are no more
    kernels on their own than they would be with that result in memory.
    """
    others = {node for node in reductions if node is not products[-1]} if products else set()
    many = len(reductions) > len(products) + 1
    return set() if many or any(reaches(node, products[-1]) for node in others) else others


def _fused(order: Sequence[Node], roots: set[Node], fusing: Fusing) -> tuple[list[Node], dict[Node, list[_Read]], set[Node]]:
    """The nodes that become kernels, if those in `roots` must; where each node is read; the kernels with reductions in others' loops."""
    kernels = roots | _apart(order) | _shareable(order, fusing) | _scattered(order) | _of_numbers(order)
    weight = weights(order)
    constant = constants(order, weight, fusing)
    cost = costs(order)
    reads: dict[Node, list[_Read]] = {node: [] for node in order}
    cuts = _Cuts(order, fusing)
    bare: set[Node] = set()  # what is read by others than parts of likely products
    around: dict[Node, int] = {}  # how many loops are around the reductions that a node is part of
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
                    where = outermost(where)  # computed there once, for all loops further in
                read = _Read(kernel, where, chosen + more)
                if source in reads and read not in reads[source]:
                    reads[source].append(read)
    return [node for node in order if node in kernels], reads, nested


def _is_scanned(node: Node, reads: Sequence[_Read]) -> bool:
    """Whether a node is a reduction that a scan takes the results of: in its loop that would add in another order than alone. Integers come
    out the same in any, and so does the largest.
    """
    is_the_same = not isinstance(node.op, Reduction) or node.op.name in ("max", "min") or node.dtype.kind in ("int", "uint", "bool")
    return not is_the_same and any([isinstance(read.kernel.op, Scan) for read in reads])


def _may_be_product(node: Node) -> bool:
    if not isinstance(node.op, Reduction):
        return False
    from .footprint import may_be_product

    return may_be_product(node)


def _reads_of(node: Node, index_map: Layout) -> list[tuple[Node, Layout]]:
    if writes(node.op):
        old, *others = _nodes(node)
        # The old content is no operand of the loop: `realize` writes into its memory or into a copy of it.
        # Two different readers make it a kernel of its own.
        return [(old, whole(old)), *((other, x) for other, x in zip(others, node.layouts[1:], strict=True) if x)]
    if isinstance(node.op, Scan):
        source, through = node.sources[0], node.layouts[0]
        assert type(source) is Node and through is not None
        return [(source, through)]
    if node.op.kind in _FROM_MEMORY:
        return [(source, whole(source)) for source in node.sources if type(source) is Node]
    return source_index_maps(node, index_map)


def _apart(order: Sequence[Node]) -> set[Node]:
    """The nodes that must be in memory: what is written over, values and indices that read this, what bytes or blocks are of."""
    found: set[Node] = set()
    readers = Counter([source for node in order for source in set(node.sources)])
    for node in order:
        if writes(node.op):
            old, *others = _nodes(node)
            if readers[old] > 1 and not (node.op is UPDATE and _is_elementwise(others[0])):  # else this alone reads it
                found.update(other for other in others if other.buffer is None and reaches(other, old))
            if old.buffer is None:
                found.add(old)
        elif node.op.kind in _FROM_MEMORY:
            found.update(s for s in node.sources if type(s) is Node and s.buffer is None)
    return found


def _nodes(node: Node) -> list[Node]:
    return [source for source in node.sources if type(source) is Node]


def _shareable(order: Sequence[Node], fusing: Fusing) -> set[Node]:
    """The nodes that reductions with few results take, where reductions below read much for each of their elements: a loop of their
    own can be shared by threads, and little is stored.
    """
    found: set[Node] = set()
    reads: dict[Node, int] = {}  # how many elements the largest reduction reads
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
    """The gathers of single elements that several nodes read: to fetch them from all over memory once is enough."""
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
    """What reductions read that is made of numbers alone, where nothing else may say in which order they add: so they do as memory lies.
    Not where that is much; but factors of which each is in many of the products that are summed are read as quickly from there as others.
    """
    found: set[Node] = set()
    of_numbers: set[Node] = set()
    for node in order:
        sources = _nodes(node)
        through = zip(node.sources, node.recipe.forms, strict=False)  # of a store there is one more
        if isinstance(node.op, Op) and node.sources and all([form is None or form.is_single or s in of_numbers for s, form in through]):
            of_numbers.add(node)
        if isinstance(node.op, Reduction):
            is_sum_of_products = node.op is _SUM and sources[0].buffer is None and sources[0].op is _MULTIPLY
            reads = sources[0] if is_sum_of_products else node
            some = [s for s in _nodes(reads) if s in of_numbers and s.size > 1]
            found.update(s for s in some if is_read_from_memory(s, reads))
    return found


def _is_elementwise(node: Node) -> bool:
    """Whether all that is computed for a node is."""
    return all([isinstance(n.op, Op) for n in pending([node])])


def reaches(node: Node, goal: Node) -> bool:
    """Whether a node is another, or reads it, or waits for what does."""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if node is goal or goal in node.sources:  # what reads it is often near
            return True
        if node not in seen and node.buffer is None:
            seen.add(node)
            stack += [s for s in node.sources if type(s) is Node and s.buffer is None]
    return False


def weights(order: Sequence[Node]) -> dict[Node, int]:
    """How many operations computing each node anew takes, what it reads twice counted twice; many are as many as any."""
    found: dict[Node, int] = {}
    for node in order:
        found[node] = min(1 + sum(found.get(s, 0) for s in node.sources if type(s) is Node), MANY)
    return found


def constants(order: Sequence[Node], weight: dict[Node, int], fusing: Fusing) -> set[Node]:
    """The nodes that cost nothing to compute again: they read no memory and are not costly."""
    found: set[Node] = set()
    for node in order:
        cheap = type(node.op) is Op and node.op.cost <= fusing.cheap and weight[node] <= 4 * fusing.cheap
        if node.op is POSITION or (cheap and all(type(s) is not Node or s in found for s in node.sources)):
            found.add(node)
    return found


def narrow(order: Sequence[Node], size_of: Callable[[Node], int]) -> set[Node]:
    """The nodes that are no larger than what they are made of: to store them takes no more than what is there. An operation on a
    broadcast is none of them, but what was broadcast is.
    """
    least: dict[Node, int] = {}  # that stands for a node
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
    """Where kernels that would be too long end: at nodes that are no larger than what is stored anyway, the kernel's result or what
    they are made of. Once a kernel has ended somewhere it takes in no more, but for what is cheap.
    """

    def __init__(self, order: Sequence[Node], fusing: Fusing) -> None:
        self.fusing = fusing
        self.lengths = {n: length(n.op, n.recipe.dtypes) for n in order if isinstance(n.op, Op)}
        long = sum(self.lengths.values()) > fusing.longest
        self.narrow = narrow(order, lambda node: node.size) if long else set()
        self.long = long
        self.taken: Counter[Node] = Counter()  # by each kernel
        self.ended: set[Node] = set()  # the kernels

    def before(self, node: Node, reads: Sequence[_Read], known: _Known) -> bool:
        """Whether the kernels that would take a node in end before it."""
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
        """A node is computed in the kernels that read it, once for each way of reading it."""
        if self.long:
            for read in reads:
                self.taken[read.kernel] += self.lengths.get(node, 0)


def costs(order: Sequence[Node]) -> dict[Node, int]:
    """About how many additions one element of each node is worth, with all that is inlined for it alone."""
    found: dict[Node, int] = {}
    for node in order:
        if isinstance(node.op, Op):
            found[node] = node.op.cost + sum(found.get(s, 0) for s in node.sources if type(s) is Node)
        else:
            found[node] = 0  # a reduction, or memory, is there already wherever it is read
    return found


def _keeps_its_bits(node: Node, index_map: Layout) -> bool:
    """Whether a reduction with an index map can be added up as it is on its own, and as fast: the innermost loop that it depends
    on runs along its result's last axis.
    """
    if index_map.tables is not None:
        return False
    index_map = outermost(index_map)
    return node.size == 1 or along_last(node.shape, index_map) == len(index_map.shape) - 1


def _times(read: _Read) -> int:
    """How often a value is computed for a read."""
    shape = read.index_map.shape
    return prod(shape[: len(shape) - read.chosen]) if read.chosen else times_computed(read.index_map)


def _elements(index_map: Layout) -> int:
    """How many elements an index map reaches, at most."""
    tables = index_map.tables or (None,) * len(index_map.shape)
    axes = zip(index_map.shape, index_map.strides, tables, strict=True)
    return prod(n for n, step, table in axes if step or table is not None)


def _reduced_in_parts(node: Node, reads: list[_Read]) -> bool:
    """Whether kernels reduce an elementwise result, each another part of it: none computes what another does."""
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
    """Return whether all elements of a node that can fail are computed, and nothing is overwritten before: so an index out of range, or a
    negative exponent, is found, and found in time, whatever else is asked for.
    """
    return read.index_map.tables is None and not stores(read.kernel.op) and read.index_map.covers(node.size)


def _is_inlined(node: Node, reads: list[_Read], fusing: Fusing, known: _Known) -> bool:
    """Whether a node is computed wherever it is read, and never stored."""
    if has_checked_exponents(node) and not all(_is_whole(node, read) for read in reads):
        return False
    return _can_be_inlined(node, reads, known) and (
        _is_free(node, reads, fusing, known) or (not node.stored and _pays(node, reads, fusing, known))
    )


def _can_be_inlined(node: Node, reads: list[_Read], known: _Known) -> bool:
    """Whether all index maps are single views; and where values say an index, whether memory that is read at it lies somewhere below, so
    that the index is looked at. The loops of a scatter are for values that are looked at, or computed, one by one.
    """
    elementwise, constant = isinstance(node.op, Op), known.constant
    return all(
        read.index_map.base is None
        and (not read.chosen or (elementwise and not constant))
        and (elementwise or constant or type(read.kernel.op) is not Scatter)
        for read in reads
    )


def _is_free(node: Node, reads: list[_Read], fusing: Fusing, known: _Known) -> bool:
    """Whether to compute a node anew costs no more than to load it."""
    return known.constant and (known.weight <= fusing.trivial or _most_times(reads) <= node.size)


def _pays(node: Node, reads: list[_Read], fusing: Fusing, known: _Known) -> bool:
    """Whether what is computed again and again is little: nothing, or something cheap, and if that is a division not so often that to store
    it would cost nothing beside; and it stands in one kernel, or in some that each take another part of it.
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
    return max(map(_times, reads))
