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

_NO_EXTRA_SLOTS: Mapping[Node, int] = {}
MAX_LOWERED, MAX_TABLE_BYTES = 1 << 10, 1 << 22  # limits of the cache: lowered kernels, and bytes of their offset tables
BYTES_PER_ADDITION = 10  # bytes of elements per addition in the time of a load from a cache, or of a store to a cache


class Reads(NamedTuple):
    """The slots, scalars and offsets used by a kernel: each number is mapped to its rank in the order of first use, starting at 0."""

    slots: dict[int, int]
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
        super().__init__(MAX_LOWERED, MAX_TABLE_BYTES)
        self.target = target


class Lowering:
    """Lowers the kernels of a plan. Each node in `kernels` gets memory; a kernel reads such nodes and nodes in memory, by their slots.

    `slot_of` maps nodes to slots, and `scalars` maps the `id` of each scalar to its number. `lowered` collects the lowered nodes.
    """

    def __init__(self, kernels: Set[Node], cache: Known, slot_of: dict[Node, int], scalars: dict[int, int]) -> None:
        self.kernels, self.known, self.slot_of, self.scalars = kernels, cache, slot_of, scalars
        self.lowered: dict[Node, tuple[Lowered, Reads]] = {}

    def call(self, node: Node, extra_slots: Mapping[Node, int] = _NO_EXTRA_SLOTS) -> Call:
        """Return the kernel call for `node`. The same kernel also computes the nodes of `extra_slots`, which maps each of them to a slot.
        """
        key, reads = self.pattern(node, extra_slots)
        lowered = self.known.get(key)
        compiled = None if lowered is None else lowered.kernel()
        if lowered is None or compiled is None:
            kernel, binding = lower(node, self.kernels, self.known.target, tuple(extra_slots))
            call = make_call(
                kernel,
                binding,
                ChainMap(extra_slots, self.slot_of) if extra_slots else self.slot_of,  # type: ignore[arg-type]
                self.scalars,
            )
            aligned_slots = [self.slot_of[n] for n in binding.nest.aligned() if n.dtype.itemsize == node.dtype.itemsize]
            lowered = Lowered(ref(call.compiled), call.arguments, aligned_slots, reads)
            self.known.keep(key, lowered, call.table_bytes)
        else:
            call = Call(compiled, _adapt_arguments(lowered, reads))
        self.lowered[node] = lowered, reads
        return call

    def aligned(self, node: Node) -> list[int]:
        """Return the slots whose elements the kernel of `node` reads only just before it writes the same element of the result.

        Only slots with elements of as many bytes as the result are returned. `call` must have lowered the node before.
        """
        lowered, reads = self.lowered[node]
        slot_of = dict(zip(lowered.reads.slots, reads.slots, strict=True))
        return [slot_of[k] for k in lowered.aligned]

    def pattern(self, root: Node, extra_slots: Mapping[Node, int]) -> tuple[object, Reads]:
        """Return a cache key for the kernel of `root` and the nodes of `extra_slots`, and the slots, scalars and offsets used by the
        kernel. The key is equal for kernels with the same function on different slots, scalars and offsets.
        """
        key: list[object] = [len(extra_slots)]
        reads = Reads({slot: k for k, slot in enumerate(extra_slots.values())}, {}, {})
        rank_of: dict[Node, int] = {}
        stack = [root, *reversed([*extra_slots])]
        while stack:
            node = stack[-1]
            if node in rank_of:
                stack.pop()
                continue
            if node is not root and node not in extra_slots and (node.buffer is not None or node in self.kernels):
                _assign_rank(reads.slots, self.slot_of[node])
                key.append(node.recipe.done)
            elif missing := [s for s in node.sources if type(s) is Node and s not in rank_of]:
                stack.append(missing[0])
                continue
            else:
                self.append_to_key(node, key, reads, rank_of)
            rank_of[stack.pop()] = len(rank_of)
        return tuple(key), reads

    def append_to_key(self, node: Node, key: list[object], reads: Reads, rank_of: dict[Node, int]) -> None:
        """Append the recipe and the sources of a node to `key`, and add the scalars and offsets of the node to `reads`.

        `rank_of` maps each source to its rank in the key.
        """
        key.append(node.recipe)
        for source in node.sources:
            key.append(rank_of[source] if type(source) is Node else (_assign_rank(reads.scalars, self.scalars[id(source)]),))
        for k, offset in enumerate(node.offsets):
            operand = node.sources[k] if k < len(node.sources) else None  # the last offset may be of the target
            if operand is None or (type(operand) is Node and operand.buffer is not None):  # an offset into memory is a placeholder
                index, addend = given(offset)
                key.append((_assign_rank(reads.offsets, index), addend))
            else:
                key.append(offset)


def make_call(kernel: Kernel, binding: Binding, slot_of: Mapping[Node, int], scalars: Mapping[int, int]) -> Call:
    """Return the call of a kernel, and compile the kernel unless it is cached.

    `binding` has the operands. `slot_of` maps nodes to slots, and `scalars` maps the `id` of each scalar to its number.
    """
    (_, out), *operands = binding.operands
    sources = [(slot_of[n], *given(offset)) for n, offset in operands if n is not None]
    cost = _work_per_element(kernel)
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


def _work_per_element(kernel: Kernel) -> int:
    """Return the work per element in additions: 2 for a load and a store, 1 for a reduction step, and the computation.

    A vector holds several elements, but fewer wide ones, so the computation counts by element size. The steps of a product count as they
    are.
    """
    additions = sum(map(work, expressions(kernel.body)))
    if kernel.product is not None:
        return 2 + additions
    return (1 if kernel.accumulators else 2) + additions * max(o.dtype.itemsize for o in kernel.operands) // BYTES_PER_ADDITION


def _assign_rank(rank_of: dict[int, int], number: int) -> int:
    """Return the rank of `number` in the order of first use, recorded in `rank_of`. Return -1 for -1, which stands for "no offset"."""
    return rank_of.setdefault(number, len(rank_of)) if number >= 0 else -1


def _adapt_arguments(lowered: Lowered, reads: Reads) -> Arguments:
    """Return the arguments for a kernel of the same structure as `lowered`, with the slots, scalars and offsets of `reads`."""
    slots, scalars, offsets = (dict(zip(old, new, strict=True)) for old, new in zip(lowered.reads, reads, strict=True))
    arguments = lowered.arguments
    return Arguments(
        (offsets.get(arguments.out[0], -1), arguments.out[1]),
        [(slots[k], offsets.get(index, -1), addend) for k, index, addend in arguments.sources],
        [(scalars[k], imag) for k, imag in arguments.scalars],
        arguments.tables,
        arguments.sizes,
        arguments.split,
        arguments.work,
        arguments.scratch,
    )
