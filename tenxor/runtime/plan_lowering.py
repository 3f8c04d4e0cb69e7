"""Lower the kernels of a plan: turn each node with a kernel into compiled code and arguments. Kernels of equal structure, as in a long
chain or for many roots, are lowered once. A slot is the number of a buffer in the plan; scalars and offsets have numbers in the graph
signature. Kernels of equal structure differ in slots and numbers alone.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence, Set
from weakref import ref

from .._utils.bounded_cache import BoundedCache
from .._utils.records import NamedTuple
from ..codegen import backend
from ..codegen.interface import Compiled, KernelArguments
from ..graph.node import Node
from ..lowering.ir import Kernel, estimate_cost, iterate_expressions
from ..lowering.lower import lower
from ..lowering.parameterize import KernelBinding
from ..target import Target
from .graph_signature import decode_offset
from .kernel_call import SingleKernelCall

_NO_EXTRA_SLOTS: Mapping[Node, int] = {}
MAX_LOWERED_KERNELS, MAX_CACHED_TABLE_BYTES = 1 << 10, 1 << 22  # limits of the cache: lowered kernels, and bytes of their offset tables
BYTES_PER_ADDITION = 10  # bytes of elements per addition in the time of a load from a cache, or of a store to a cache


class KernelReads(NamedTuple):
    """The numbers of the slots, scalars and offsets used by a kernel. Each dictionary maps a number to its rank by first use, starting at
    0.
    """

    slots: dict[int, int]
    scalars: dict[int, int]
    offsets: dict[int, int]


class LoweredKernel(NamedTuple):
    """A lowered kernel, for reuse by kernels of equal structure.

    `compiled_ref` refers weakly to the compiled kernel. `arguments` and `reads` are those of the first kernel of the structure.
    `aligned_slots` are the slots whose elements this kernel reads only just before it writes the same element of the result, with
    elements of as many bytes.
    """

    compiled_ref: ref[Compiled]
    arguments: KernelArguments
    aligned_slots: Sequence[int]
    reads: KernelReads


class LoweringCache(BoundedCache[LoweredKernel]):
    """A cache of lowered kernels for the machine `target`: many plans share kernels.

    The keys are results of `Lowering.make_cache_key`.
    """

    __slots__ = ("target",)

    def __init__(self, target: Target) -> None:
        super().__init__(MAX_LOWERED_KERNELS, MAX_CACHED_TABLE_BYTES)
        self.target = target


class Lowering:
    """A lowering of the nodes of a plan to kernel calls.

    The nodes in `kernels` get memory; a kernel reads these and nodes in memory by their slots. `cache` has the kernels lowered for plans of
    the same target. `slot_of` maps nodes to slots, and `scalars` maps the `id` of each scalar to its number. `lowered_kernels` collects the
    lowered nodes.
    """

    def __init__(self, kernels: Set[Node], cache: LoweringCache, slot_of: dict[Node, int], scalars: dict[int, int]) -> None:
        self.kernel_nodes, self.cache, self.slot_of, self.scalars = kernels, cache, slot_of, scalars
        self.lowered_kernels: dict[Node, tuple[LoweredKernel, KernelReads]] = {}

    def lower_to_call(self, node: Node, extra_slots: Mapping[Node, int] = _NO_EXTRA_SLOTS) -> SingleKernelCall:
        """Return the kernel call for `node`. The same kernel also computes the nodes of `extra_slots`.

        `extra_slots` maps each of these nodes to a slot. The kernel is compiled unless the cache has an equal kernel.
        """
        key, reads = self.make_cache_key(node, extra_slots)
        lowered = self.cache.get(key)
        compiled = None if lowered is None else lowered.compiled_ref()
        if lowered is None or compiled is None:
            kernel, binding = lower(node, self.kernel_nodes, self.cache.target, tuple(extra_slots))
            call = compile_call(
                kernel,
                binding,
                ChainMap(extra_slots, self.slot_of) if extra_slots else self.slot_of,  # type: ignore[arg-type]
                self.scalars,
            )
            aligned_slots = [self.slot_of[n] for n in binding.nest.list_aligned_nodes() if n.dtype.itemsize == node.dtype.itemsize]
            lowered = LoweredKernel(ref(call.compiled), call.arguments, aligned_slots, reads)
            self.cache.put(key, lowered, call.table_bytes)
        else:
            call = SingleKernelCall(compiled, _adapt_arguments(lowered, reads))
        self.lowered_kernels[node] = lowered, reads
        return call

    def find_aligned_slots(self, node: Node) -> list[int]:
        """Return the slots whose elements the kernel of `node` reads only just before it writes the same element of the result.

        Only slots with elements of as many bytes as the result are returned. `lower_to_call` must have lowered the node before.
        """
        lowered, reads = self.lowered_kernels[node]
        slot_of = dict(zip(lowered.reads.slots, reads.slots, strict=True))
        return [slot_of[k] for k in lowered.aligned_slots]

    def make_cache_key(self, root: Node, extra_slots: Mapping[Node, int]) -> tuple[object, KernelReads]:
        """Return a cache key for the kernel of `root` and the nodes of `extra_slots`, and the slots, scalars and offsets of the kernel.

        `extra_slots` maps further results to slots. The key is equal for kernels with the same function on different slots, scalars and
        offsets.
        """
        key: list[object] = [len(extra_slots)]
        reads = KernelReads({slot: k for k, slot in enumerate(extra_slots.values())}, {}, {})
        rank_of: dict[Node, int] = {}
        stack = [root, *reversed([*extra_slots])]
        while stack:
            node = stack[-1]
            if node in rank_of:
                stack.pop()
                continue
            if node is not root and node not in extra_slots and (node.buffer is not None or node in self.kernel_nodes):
                _assign_rank(reads.slots, self.slot_of[node])
                key.append(node.recipe.data_recipe)
            elif missing := [s for s in node.sources if type(s) is Node and s not in rank_of]:
                stack.append(missing[0])
                continue
            else:
                self.append_to_key(node, key, reads, rank_of)
            rank_of[stack.pop()] = len(rank_of)
        return tuple(key), reads

    def append_to_key(self, node: Node, key: list[object], reads: KernelReads, rank_of: dict[Node, int]) -> None:
        """Append the recipe and the sources of `node` to `key`, and add the scalars and offsets of `node` to `reads`.

        `make_cache_key` calls this method for each node that the kernel computes. `rank_of` maps each source to a number: the position
        among the nodes of the key.
        """
        key.append(node.recipe)
        for source in node.sources:
            key.append(rank_of[source] if type(source) is Node else (_assign_rank(reads.scalars, self.scalars[id(source)]),))
        for k, offset in enumerate(node.offsets):
            operand = node.sources[k] if k < len(node.sources) else None  # the last offset may be of the target
            if operand is None or (type(operand) is Node and operand.buffer is not None):  # an offset into memory is a placeholder
                index, addend = decode_offset(offset)
                key.append((_assign_rank(reads.offsets, index), addend))
            else:
                key.append(offset)


def compile_call(kernel: Kernel, binding: KernelBinding, slot_of: Mapping[Node, int], scalars: Mapping[int, int]) -> SingleKernelCall:
    """Return the call of `kernel`, and compile the kernel unless it is cached.

    `binding` has the operands and sizes of the kernel: the nodes, offsets, scalars and tables. `slot_of` maps nodes to slots, and `scalars`
    maps the `id` of each scalar to its number.
    """
    (_, out), *operands = binding.operands
    sources = [(slot_of[n], *decode_offset(offset)) for n, offset in operands if n is not None]
    cost = _estimate_element_work(kernel)
    arguments = KernelArguments(
        decode_offset(out),
        sources,
        [(scalars[id(s)], imag) for s, imag in binding.scalars],
        binding.tables,
        binding.sizes,
        binding.split_extent,
        binding.work * cost,
        binding.scratch_bytes,
    )
    return SingleKernelCall(backend().compile(kernel), arguments)


def _estimate_element_work(kernel: Kernel) -> int:
    """Return the work of `kernel` per element, in additions: 2 for a load and a store or a step of a contraction, 1 for a step of another
    reduction, and the computation.

    Except in a contraction (`Kernel.contraction`), the additions of the computation are multiplied by the bytes of the widest element, and
    divided by `BYTES_PER_ADDITION`. A vector holds several elements, but fewer wide ones.
    """
    additions = sum(map(estimate_cost, iterate_expressions(kernel.body)))
    if kernel.contraction is not None:
        return 2 + additions
    return (1 if kernel.accumulators else 2) + additions * max(o.dtype.itemsize for o in kernel.operands) // BYTES_PER_ADDITION


def _assign_rank(rank_of: dict[int, int], number: int) -> int:
    """Return the rank of `number` in the order of first use. `rank_of` maps numbers to ranks, and a new number is added.

    Return -1 for -1, which stands for "no offset".
    """
    return rank_of.setdefault(number, len(rank_of)) if number >= 0 else -1


def _adapt_arguments(lowered: LoweredKernel, reads: KernelReads) -> KernelArguments:
    """Return the arguments for a kernel of the same structure as `lowered`, with the slots, scalars and offsets of `reads`. Numbers of
    equal rank correspond; tables, sizes, work and scratch bytes are those of `lowered`.
    """
    slots, scalars, offsets = (dict(zip(old, new, strict=True)) for old, new in zip(lowered.reads, reads, strict=True))
    arguments = lowered.arguments
    return KernelArguments(
        (offsets.get(arguments.out[0], -1), arguments.out[1]),
        [(slots[k], offsets.get(index, -1), addend) for k, index, addend in arguments.sources],
        [(scalars[k], imag) for k, imag in arguments.scalars],
        arguments.tables,
        arguments.sizes,
        arguments.split_extent,
        arguments.work,
        arguments.scratch_bytes,
    )
