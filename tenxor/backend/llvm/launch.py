"""The LLVM back end: kernels are machine code that runs on this processor, on several threads if the work is large."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import NotAtHand
from ...late import LateModule
from ...memory import Array, Buffer, allocate
from ...node import Scalar
from ...target import Target
from ..interface import Arguments, Compiled, Facts, Given, Launch, Once, OnHost, Place, only_once
from ..threads import num_threads
from . import cache
from .compiler import Block, Integer, MachineCode, compiler, counts

if TYPE_CHECKING:
    from ...kernel.ir import Kernel

ZERO = Integer(0)
MAX_PACKED_ITERATIONS = 1 << 10  # iterations of a repeated plan whose arguments are packed at a time
apart, helping = LateModule("tenxor.apart"), LateModule("tenxor.backend.helpers")  # imported with the first long launch
repeating = LateModule("tenxor.backend.llvm.repeating")
RUN_FLAG, STOP_FLAG = bytes(8), b"\1" * 8  # the values of the stop flag, behind the sizes of a kernel that listens


class Native(OnHost):
    """LLVM, for the machine that this process runs on. Operands are addresses in the host's memory."""

    name = "llvm"

    @property
    def kernels(self) -> Mapping[Any, MachineCode]:
        return {kernel: code for kernel, code in compiler().kernels.alive.items() if not isinstance(kernel, Facts)}

    def kernel_count(self) -> int:
        return len(compiler().kernels)

    def counts(self) -> tuple[int, int]:
        return counts()

    @property
    def target(self) -> Target:
        current = compiler()
        if current.target.threads != num_threads():
            current.target = current.target.shared_by(num_threads())
        return current.target

    def hurry(self, may_decline: bool) -> None:
        compiler().hurries = may_decline

    def compile(self, kernel: Kernel) -> MachineCode:
        return compiler().get(kernel)

    def facts(self, compiled: Compiled) -> Facts:
        assert isinstance(compiled, MachineCode)
        return compiled.facts

    def find(self, facts: Facts) -> MachineCode | None:
        try:
            return compiler().get(facts)
        except NotAtHand:
            return None

    def shipped(self, text: str) -> bytes | None:
        objects = compiler().shipped
        return None if objects is None else objects.plan(text)

    def read(self, text: str) -> bytes | None:
        key = compiler().plan_key(text, self.target)
        return cache.read(key) if key else None

    def write(self, text: str, content: bytes) -> None:
        key = compiler().plan_key(text, self.target)
        if key:
            cache.write(key, content)

    def bind(self, compiled: Compiled, arguments: Arguments) -> Launch:
        assert isinstance(compiled, MachineCode)
        return _Bound(compiled, arguments).launch

    def repeat(
        self, launches: Sequence[tuple[Launch, int]], places: Sequence[Place | None], scalars: list[Scalar], offsets: list[int], turns: int
    ) -> None:
        """Launch a sequence of kernels `turns` times in machine code, without Python in between; see `Backend.repeat`.

        If launches are shown (`TENXOR_DEBUG`), or an iteration takes long, each launch is a call from Python.
        """
        bound = [x for launch, _ in launches if isinstance(x := getattr(launch, "__self__", None), _Bound)]
        cost, slice_cost = max(1, sum([x.cost for x in bound])), self.target.sharing.first
        if len(bound) < len(launches) or cost > slice_cost:  # the launches are shown, or an iteration is long
            super().repeat(launches, places, scalars, offsets, turns)
            return
        threads, chunk_sizes = num_threads(), [x.chunk_size() for x in bound]
        page, code = self.target.page, compiler().repeating()
        scratch_bytes = -(-max([x.scratch for x in bound], default=0) // page) * page
        scratch = allocate(scratch_bytes * threads, "scan") if scratch_bytes else None
        scratch_area = (0, 0) if scratch is None else (scratch.address, scratch_bytes)
        for begin in range(0, turns, MAX_PACKED_ITERATIONS):
            count = min(turns - begin, MAX_PACKED_ITERATIONS)
            blocks = [
                x.pack_iterations(k, places, scalars, offsets, begin, count, scratch_area)
                for x, (_, k) in zip(bound, launches, strict=True)
            ]
            alone_records, shared_records = _pack_records(bound, blocks, [0] * len(bound)), _pack_records(bound, blocks, chunk_sizes)
            for iteration in range(0, count, slice_cost // cost):  # Python may handle signals after each part
                end = min(iteration + slice_cost // cost, count)
                with helping.helpers() if any(chunk_sizes) else nullcontext() as workers:
                    # A signal handler may have raised the number of threads; then the scratch memory does not suffice.
                    if workers is None or workers.many >= threads:
                        code(alone_records, len(bound), iteration, end, 0, 0, 0)
                    else:
                        code(shared_records, len(bound), iteration, end, *workers)

    def listing(self, kernel: Kernel) -> str:
        return compiler().assembly(kernel)


def _pack_records(bound: Sequence[_Bound], blocks: Sequence[Array], chunk_sizes: Sequence[int]) -> bytes:
    """Return the packed records of kernels for the machine code that runs them in turn (`repeating.py`)."""
    triples = zip(bound, blocks, chunk_sizes, strict=True)
    rows = [(x.code.address, x.split, block.ctypes.data, block.shape[1] * 8, chunk_size) for x, block, chunk_size in triples]
    return struct.pack(f"={len(rows) * repeating.WORDS}q", *[word for row in rows for word in row])


class _Bound:
    """A kernel with the packed arguments for a set of shapes. A launch fills in only the addresses and the scalars."""

    __slots__ = (
        "out_offset_index",
        "is_brief",
        "code",
        "end",
        "flagged",
        "grain",
        "is_sequential",
        "itemsize",
        "table_arrays",
        "out_displacement",
        "pack",
        "scalars",
        "scratch",
        "sizes",
        "sources",
        "split",
        "tables",
        "target",
        "cost",
        "stop_flag_offset",
        "imbalance",
        "work",
    )

    def __init__(self, code: MachineCode, arguments: Arguments) -> None:
        kernel = code.facts
        codes = "".join("d" if d.kind == "float" else "Q" if d.kind == "uint" else "q" for d in kernel.scalars)
        self.table_arrays = [t.offsets for t in arguments.tables]  # keeps the memory of the tables alive
        tables = [offsets.ctypes.data for offsets in self.table_arrays]
        self.code, self.flagged = code, kernel.flagged
        self.tables = struct.pack(f"={len(tables)}q", *tables)
        self.sizes = struct.pack(f"={len(arguments.sizes)}q", *arguments.sizes) + RUN_FLAG * kernel.listens
        head_format = f"={len(kernel.itemsizes)}q{len(self.tables)}s{codes}"
        self.pack = struct.Struct(f"{head_format}{len(self.sizes)}s").pack
        self.stop_flag_offset = struct.calcsize(head_format) + 8 * len(arguments.sizes)  # the offset of the stop flag, in bytes
        itemsizes = kernel.itemsizes
        self.out_offset_index, displacement = arguments.out
        self.out_displacement, self.itemsize = displacement * itemsizes[0], itemsizes[0]
        sources = zip(arguments.sources, itemsizes[1:], strict=False)
        self.sources = [(k, offset_index, displacement * n, n) for (k, offset_index, displacement), n in sources]
        self.scalars = arguments.scalars
        self.end = Integer(arguments.split)
        self.split, self.work, self.scratch = arguments.split, arguments.work, arguments.scratch
        self.target = target = compiler().target
        self.is_brief = self.work < target.sharing.hold_lock
        self.grain = kernel.least  # 0 if no loop runs in chunks
        self.is_sequential = kernel.shared < 0
        self.cost = self.work if kernel.product is None else self.work // target.costs.product
        # With symmetric results, the first rows take longest.
        self.imbalance = 2 if kernel.product is not None and kernel.product.twins else 1

    def launch(self, out: Buffer, given: Given, once: Once | None = None) -> bool:
        """Run the kernel, and return whether it met an index out of range; see `interface.Launch`."""
        nodes, offsets = given.nodes, given.offsets
        words: list[object] = [out.address + self.out_displacement + offsets[self.out_offset_index] * self.itemsize]
        for k, offset_index, displacement, itemsize in self.sources:
            words.append(nodes[k].buffer.address + displacement + offsets[offset_index] * itemsize)
        flag = None
        if self.flagged:
            flag = Integer()
            words.append(ctypes.addressof(flag))
        words.append(self.tables)
        for k, imag in self.scalars:
            value = given.scalars[k].value
            words.append(value.imag if imag else value.real)
        block = self.pack(*words, self.sizes)
        threads = num_threads() if self.scratch or not self.is_brief else 1
        scratch = None
        if self.scratch:
            page = self.target.page
            size = -(-self.scratch // page) * page
            scratch = allocate(size * threads, self.code.kernel.name)
            block += struct.pack("=2q", scratch.address, size)
        if once is None and self.is_brief:
            self.code.call(block, ZERO, self.end, ZERO)
        elif once is None:
            self.run_released(block, threads)
        elif self.is_brief:
            only_once(partial(self.code.call, block, ZERO, self.end, ZERO), once)
        else:
            self.run_in_place(block, once, threads, [nodes[k].buffer for k, *_ in self.sources], (out, flag, scratch))
        return flag is not None and flag.value != 0

    def chunk_size(self) -> int:
        """Return how many iterations of the loop a thread takes at once, if threads share the loop; else 0."""
        threads = num_threads()
        if threads == 1 or not self.grain:
            return 0
        _, grain, alone = self.plan_sharing(threads)
        return 0 if alone or self.split <= grain else helping.piece_of(self.split, grain, self.target.sharing)

    def pack_iterations(
        self,
        out: int,
        places: Sequence[Place | None],
        scalars: list[Scalar],
        offsets: list[int],
        begin: int,
        count: int,
        scratch: tuple[int, int],
    ) -> Array:
        """Return the packed arguments of `count` iterations from `begin` on, a row of 64-bit words for each iteration.

        `out` is the number of the place to fill. `scratch` is the address of the scratch memory, and its bytes per thread.
        """
        words: list[object] = []
        moving: list[tuple[int, Array]] = []
        for k, offset_index, displacement, itemsize in [(out, self.out_offset_index, self.out_displacement, self.itemsize), *self.sources]:
            memory = places[k]
            assert memory is not None
            address = memory.buffer.address + displacement + offsets[offset_index] * itemsize
            if len(memory.starts) == 1:
                words.append(address + int(memory.starts[0]))
            else:
                words.append(0)
                moving.append((len(words) - 1, memory.starts[begin : begin + count] + address))
        words.append(self.tables)
        words += [scalars[k].value.imag if imag else scalars[k].value.real for k, imag in self.scalars]
        block = self.pack(*words, self.sizes)
        if self.scratch:
            block += struct.pack("=2q", *scratch)
        rows = np.empty((count, len(block) // 8), np.int64)
        rows[:] = np.frombuffer(block, np.int64)
        for column, addresses in moving:
            rows[:, column] = addresses
        return rows

    def plan_sharing(self, threads: int) -> tuple[int, int, bool]:
        """Return how `threads` threads share the loop: the time in additions, the grain of the chunks, and whether a thread runs alone."""
        work, grain, sharing = self.work, self.grain or 1, self.target.sharing
        alone = work < sharing.share or self.is_sequential
        if self.scratch:  # each chunk packs its operands anew
            work //= sharing.longer
            pieces = threads * self.imbalance * (work // sharing.slice + 1)
            grain *= -(-self.split // (grain * pieces))
        return min(work, self.cost), grain, alone  # a product takes a fraction of its work, whether it packs or not

    def run_released(self, packed: bytes, threads: int) -> None:
        """Run the kernel with the GIL released, on `threads` threads if the work is large. `packed` are the arguments."""
        sharing = self.target.sharing
        work, grain, alone = self.plan_sharing(threads)
        block: Block = packed
        stop = None
        if self.code.facts.listens:
            block = ctypes.create_string_buffer(packed, len(packed))
            stop = partial(ctypes.memmove, ctypes.addressof(block) + self.stop_flag_offset, STOP_FLAG, len(STOP_FLAG))
        is_short = work < min(self.code.moment or sharing.first, sharing.first)
        if self.grain and not (is_short and (alone or threads == 1)):
            helping.share(self.code, block, self.split, work, grain, sharing, stop, alone=alone, threads=threads)
        elif stop is not None and work > sharing.first:
            apart.stoppable(partial(self.code.call_free, block, 0, self.split, 0), stop)
        else:
            self.code.call_free(block, 0, self.split, 0)

    def run_in_place(self, packed: bytes, once: Once, threads: int, read_buffers: list[Buffer], held: object) -> None:
        """Run a kernel that overwrites memory it reads, with the GIL released, on `threads` threads if the work is large.

        If the run is interrupted, the rest of the loop keeps the memory it needs alive: `read_buffers` and `held`.
        """
        work, grain, alone = self.plan_sharing(threads)
        if any(buffer.pins for buffer in read_buffers):
            work = 0  # externally shared memory is read in one slice, as others may change it
        left, sharing = helping.Left((self, read_buffers, held)), self.target.sharing
        run_rest = partial(helping.share, self.code, packed, self.split, work, grain, sharing, alone=alone, left=left, threads=threads)
        if once.begun(run_rest):
            run_rest()
