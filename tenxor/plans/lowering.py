"""Lower the kernels of a plan. Kernels of equal structure, as in a long chain or for many roots, are lowered once."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence, Set
from weakref import ref

from ..backend import backend
from ..backend.interface import Arguments, Compiled
from ..kernel.bind import Binding
from ..kernel.ir import Kernel, expressions, work
from ..kernel.lower import lower
from ..node import Node
from ..records import NamedTuple
from ..remembered import Remembered
from ..target import Target
from .call import Call
from .pattern import given

_ALONE: Mapping[Node, int] = {}
MAX_KNOWN, MAX_BYTES = 1 << 10, 1 << 22  # limits of the cache: lowered kernels, and bytes of their offset tables
BROUGHT = 10  # bytes of elements per addition in the time of a load from a cache, or of a store to a cache


class Reads(NamedTuple):
    """The slots, scalars and offsets used by a kernel: each number is mapped to its rank in the order of first use, starting at 0."""

    cells: dict[int, int]
    scalars: dict[int, int]
    offsets: dict[int, int]


class Lowered(NamedTuple):
    """A lowered kernel, for reuse by kernels of equal structure.

    `kernel` refers weakly to the compiled kernel. `arguments` and `reads` are those of the first kernel of the structure. `aligned` are the
    slots whose elements this kernel reads only just before it writes the same element of the result, with elements of as many bytes.
    """

    kernel: ref[Compiled]
    arguments: Arguments
    aligned: Sequence[int]
    reads: Reads


class Known(Remembered[Lowered]):
    """A cache of lowered kernels for a target: many plans share kernels."""

    __slots__ = ("target",)

    def __init__(self, target: Target) -> None:
        super().__init__(MAX_KNOWN, MAX_BYTES)
        self.target = target


class Lowering:
    """Lowers the kernels of a plan. Each node in `kernels` gets memory; a kernel reads such nodes and nodes in memory, by their slots.

    `number_of` maps nodes to slots, and `scalars` maps the `id` of each scalar to its number. `found` collects the lowered nodes.
    """

    def __init__(self, kernels: Set[Node], known: Known, number_of: dict[Node, int], scalars: dict[int, int]) -> None:
        self.kernels, self.known, self.number_of, self.scalars = kernels, known, number_of, scalars
        self.found: dict[Node, tuple[Lowered, Reads]] = {}

    def call(self, node: Node, beside: Mapping[Node, int] = _ALONE) -> Call:
        """Return the kernel call for `node`. The same kernel also computes the nodes of `beside`, which maps each of them to a slot."""
        key, reads = self.pattern(node, beside)
        first = self.known.get(key)
        code = None if first is None else first.kernel()
        if first is None or code is None:
            kernel, binding = lower(node, self.kernels, self.known.target, tuple(beside))
            call = call_of(kernel, binding, ChainMap(beside, self.number_of) if beside else self.number_of, self.scalars)  # type: ignore[arg-type]
            cells = [self.number_of[n] for n in binding.nest.aligned() if n.dtype.itemsize == node.dtype.itemsize]
            first = Lowered(ref(call.compiled), call.arguments, cells, reads)
            self.known.keep(key, first, call.table_bytes)
        else:
            call = Call(code, _for_others(first, reads))
        self.found[node] = first, reads
        return call

    def aligned(self, node: Node) -> list[int]:
        """Return the slots whose elements the kernel of `node` reads only just before it writes the same element of the result.

        Only slots with elements of as many bytes as the result are returned. `call` must have lowered the node before.
        """
        first, reads = self.found[node]
        cells = dict(zip(first.reads.cells, reads.cells, strict=True))
        return [cells[k] for k in first.aligned]

    def pattern(self, root: Node, beside: Mapping[Node, int]) -> tuple[object, Reads]:
        """Return a cache key for the kernel of `root` and the nodes of `beside`, and the slots, scalars and offsets used by the kernel.

        The key is equal for kernels with the same function on different slots, scalars and offsets.
        """
        key: list[object] = [len(beside)]
        reads = Reads({cell: k for k, cell in enumerate(beside.values())}, {}, {})
        met: dict[Node, int] = {}
        stack = [root, *reversed([*beside])]
        while stack:
            node = stack[-1]
            if node in met:
                stack.pop()
                continue
            if node is not root and node not in beside and (node.buffer is not None or node in self.kernels):
                _order(reads.cells, self.number_of[node])
                key.append(node.recipe.done)
            elif missing := [s for s in node.sources if type(s) is Node and s not in met]:
                stack.append(missing[0])
                continue
            else:
                self.describe(node, key, reads, met)
            met[stack.pop()] = len(met)
        return tuple(key), reads

    def describe(self, node: Node, key: list[object], reads: Reads, met: dict[Node, int]) -> None:
        """Append the recipe and the sources of a node to `key`, and add the scalars and offsets of the node to `reads`.

        `met` maps each source to its rank in the key.
        """
        key.append(node.recipe)
        for source in node.sources:
            key.append(met[source] if type(source) is Node else (_order(reads.scalars, self.scalars[id(source)]),))
        for k, offset in enumerate(node.offsets):
            read = node.sources[k] if k < len(node.sources) else None  # the last offset may be of the target
            if read is None or (type(read) is Node and read.buffer is not None):  # an offset into memory is a placeholder
                at, more = given(offset)
                key.append((_order(reads.offsets, at), more))
            else:
                key.append(offset)


def call_of(kernel: Kernel, binding: Binding, number_of: Mapping[Node, int], scalars: Mapping[int, int]) -> Call:
    """Return the call of a kernel, and compile the kernel unless it is cached.

    `binding` has the operands. `number_of` maps nodes to slots, and `scalars` maps the `id` of each scalar to its number.
    """
    (_, out), *operands = binding.operands
    sources = [(number_of[n], *given(offset)) for n, offset in operands if n is not None]
    cost = _cost(kernel)
    arguments = Arguments(
        given(out),
        sources,
        [(scalars[id(s)], imag) for s, imag in binding.scalars],
        binding.tables,
        binding.sizes,
        binding.split,
        binding.work * cost,
        binding.scratch,
    )
    return Call(backend().compile(kernel), arguments)


def _cost(kernel: Kernel) -> int:
    """Return the work per element in additions: 2 for a load and a store, 1 for a reduction step, and the computation.

    A vector holds several elements, but fewer wide ones, so the computation counts by element size. The steps of a product count as they
    are.
    """
    computing = sum(map(work, expressions(kernel.body)))
    if kernel.product is not None:
        return 2 + computing
    return (1 if kernel.accumulators else 2) + computing * max(o.dtype.itemsize for o in kernel.operands) // BROUGHT


def _order(met: dict[int, int], number: int) -> int:
    """Return the rank of `number` in the order of first use, recorded in `met`. Return -1 for -1, which stands for "no offset"."""
    return met.setdefault(number, len(met)) if number >= 0 else -1


def _for_others(first: Lowered, reads: Reads) -> Arguments:
    """Return the arguments for a kernel of the same structure as `first`, with the slots, scalars and offsets of `reads`."""
    cells, scalars, offsets = (dict(zip(old, new, strict=True)) for old, new in zip(first.reads, reads, strict=True))
    its = first.arguments
    return Arguments(
        (offsets.get(its.out[0], -1), its.out[1]),
        [(cells[k], offsets.get(at, -1), more) for k, at, more in its.sources],
        [(scalars[k], imag) for k, imag in its.scalars],
        its.tables,
        its.sizes,
        its.split,
        its.work,
        its.scratch,
    )
