"""The kernels of a plan, lowered. Those that do the same, as in a long chain or for many roots, are lowered once."""

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
MAX_KNOWN, MAX_BYTES = 1 << 10, 1 << 22  # kernels that were lowered, and what their tables take
BROUGHT = 10  # bytes of elements to which a number is added while one is read from a cache, or written there


class Reads(NamedTuple):
    """What a kernel is given: the numbers of cells, scalars and offsets, each with when it was met."""

    cells: dict[int, int]
    scalars: dict[int, int]
    offsets: dict[int, int]


class Lowered(NamedTuple):
    """A kernel, as long as something else has it, with its arguments for the first that was alike; the cells that this read only where it
    is written, with elements of as many bytes; and all that it read.
    """

    kernel: ref[Compiled]
    arguments: Arguments
    aligned: Sequence[int]
    reads: Reads


class Known(Remembered[Lowered]):
    """What was lowered before, for one target: many plans have the same kernels."""

    __slots__ = ("target",)

    def __init__(self, target: Target) -> None:
        super().__init__(MAX_KNOWN, MAX_BYTES)
        self.target = target


class Lowering:
    """Lowers nodes of one plan, `kernels` that read each other and what is in memory, by their numbers."""

    def __init__(self, kernels: Set[Node], known: Known, number_of: dict[Node, int], scalars: dict[int, int]) -> None:
        self.kernels, self.known, self.number_of, self.scalars = kernels, known, number_of, scalars
        self.found: dict[Node, tuple[Lowered, Reads]] = {}

    def call(self, node: Node, beside: Mapping[Node, int] = _ALONE) -> Call:
        """The call that computes a node; and what is `beside` it, in other cells than it has."""
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
        """The cells that a node which was lowered reads only where it is written, and with elements of as many bytes."""
        first, reads = self.found[node]
        cells = dict(zip(first.reads.cells, reads.cells, strict=True))
        return [cells[k] for k in first.aligned]

    def pattern(self, root: Node, beside: Mapping[Node, int]) -> tuple[object, Reads]:
        """What two kernels share that do the same, on other memory, numbers and offsets; and which these are."""
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
        """Append to the key what there is to know of a node that is computed, of which all sources were met."""
        key.append(node.recipe)
        for source in node.sources:
            key.append(met[source] if type(source) is Node else (_order(reads.scalars, self.scalars[id(source)]),))
        for k, offset in enumerate(node.offsets):
            read = node.sources[k] if k < len(node.sources) else None  # the last may be the target's
            if read is None or (type(read) is Node and read.buffer is not None):  # there are stand-ins for these
                at, more = given(offset)
                key.append((_order(reads.offsets, at), more))
            else:
                key.append(offset)


def call_of(kernel: Kernel, binding: Binding, number_of: Mapping[Node, int], scalars: Mapping[int, int]) -> Call:
    """The call of a kernel, which is compiled if it is not there."""
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
    """What an element takes: to read it and write it 2, to reduce it 1. Vectors compute many at once, but fewer of wide ones; a product's
    steps are counted as they are.
    """
    computing = sum(map(work, expressions(kernel.body)))
    if kernel.product is not None:
        return 2 + computing
    return (1 if kernel.accumulators else 2) + computing * max(o.dtype.itemsize for o in kernel.operands) // BROUGHT


def _order(met: dict[int, int], number: int) -> int:
    """When a number was met: as the how manieth; -1, which stands for none, is never met."""
    return met.setdefault(number, len(met)) if number >= 0 else -1


def _for_others(first: Lowered, reads: Reads) -> Arguments:
    """The arguments of a kernel that is alike, which reads these."""
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
