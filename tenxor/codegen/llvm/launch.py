"""The LLVM back end: kernels are machine code that runs on this processor, on several threads if the work is large."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._utils.lazy import LazyModule
from ...errors import NotCompiled
from ...graph.node import Scalar
from ...memory.buffer import Array, Buffer, allocate
from ...target import Target
from ..interface import (
    BufferWindow,
    Compiled,
    HostBackend,
    KernelArguments,
    KernelFacts,
    Launch,
    LaunchValues,
    ResumableLaunch,
    run_only_once,
)
from ..threads.thread_count import num_threads
from . import kernel_disk_cache
from .compiler import ArgumentBlock, Integer, MachineCode, compiler, count_compilations

if TYPE_CHECKING:
    from ...lowering.ir import Kernel

ZERO_INT64 = Integer(0)
MAX_PACKED_ITERATIONS = 1 << 10  # iterations of a repeated plan whose arguments are packed at a time
# Both are imported with the first long launch
interruptible, worker_pool = LazyModule("tenxor._utils.interruptible"), LazyModule("tenxor.codegen.threads.worker_pool")
launch_loop = LazyModule("tenxor.codegen.llvm.launch_loop")
RUN_FLAG, STOP_FLAG = bytes(8), b"\1" * 8  # the values of the stop flag, behind the sizes of a kernel that listens


class LlvmBackend(HostBackend):
    """The back end that compiles kernels by LLVM for this machine, and launches the code on the host's memory."""

    name = "llvm"

    @property
    def kernels(self) -> Mapping[Any, MachineCode]:
        return {kernel: code for kernel, code in compiler().kernels.live_kernels.items() if not isinstance(kernel, KernelFacts)}

    def kernel_count(self) -> int:
        return len(compiler().kernels)

    def drop_recent_kernels(self) -> None:
        compiler().kernels.drop_recent()

    def count_compilations(self) -> tuple[int, int]:
        return count_compilations()

    @property
    def target(self) -> Target:
        current = compiler()
        if current.target.threads != num_threads():
            current.target = current.target.with_threads(num_threads())
        return current.target

    def compile(self, kernel: Kernel) -> MachineCode:
        return compiler().get(kernel)

    def get_facts(self, compiled: Compiled) -> KernelFacts | None:
        assert isinstance(compiled, MachineCode)
        return compiled.facts if compiled.facts.text_hash else None  # code that runs another kernel cannot be found by a hash

    def find_compiled(self, facts: KernelFacts) -> MachineCode | None:
        try:
            return compiler().get(facts)
        except NotCompiled:
            return None

    def run_on_rows(self, compiled: Compiled, *, has_scratch: bool) -> tuple[MachineCode, int]:
        assert isinstance(compiled, MachineCode)
        return compiler().run_on_rows(compiled, has_scratch=has_scratch), compiled.address

    def read_shipped(self, text: str) -> bytes | None:
        objects = compiler().shipped_objects
        return None if objects is None else objects.read_plan(text)

    def read_stored(self, text: str) -> bytes | None:
        key = compiler().make_plan_key(text, self.target)
        return kernel_disk_cache.read(key) if key else None

    def write_stored(self, text: str, content: bytes) -> None:
        key = compiler().make_plan_key(text, self.target)
        if key:
            kernel_disk_cache.write(key, content)

    def bind(self, compiled: Compiled, arguments: KernelArguments) -> Launch:
        assert isinstance(compiled, MachineCode)
        return _BoundKernel(compiled, arguments).launch

    def repeat(
        self,
        launches: Sequence[tuple[Launch, int]],
        windows: Sequence[BufferWindow | None],
        scalars: list[Scalar],
        offsets: list[int],
        iterations: int,
    ) -> None:
        """Launch a sequence of kernels `iterations` times in machine code, without Python in between; see `Backend.repeat`.

        If launches are shown (`TENXOR_DEBUG`), or an iteration takes long, each launch is a call from Python.
        """
        bound = [x for launch, _ in launches if isinstance(x := getattr(launch, "__self__", None), _BoundKernel)]
        cost, slice_cost = max(1, sum([x.cost for x in bound])), self.target.thread_limits.first_slice_work
        if len(bound) < len(launches) or cost > slice_cost:  # the launches are shown, or an iteration is long
            super().repeat(launches, windows, scalars, offsets, iterations)
            return
        threads, chunk_sizes = num_threads(), [x.choose_chunk_size() for x in bound]
        page, code = self.target.page_bytes, compiler().load_launch_loop()
        scratch_bytes = -(-max([x.scratch_bytes for x in bound], default=0) // page) * page
        scratch = allocate(scratch_bytes * threads, "scan") if scratch_bytes else None
        scratch_area = (0, 0) if scratch is None else (scratch.address, scratch_bytes)
        for begin in range(0, iterations, MAX_PACKED_ITERATIONS):
            count = min(iterations - begin, MAX_PACKED_ITERATIONS)
            blocks = [
                x.pack_iterations(k, windows, scalars, offsets, begin, count, scratch_area)
                for x, (_, k) in zip(bound, launches, strict=True)
            ]
            alone_records, shared_records = _pack_records(bound, blocks, [0] * len(bound)), _pack_records(bound, blocks, chunk_sizes)
            for iteration in range(0, count, slice_cost // cost):  # Python may handle signals after each part
                end = min(iteration + slice_cost // cost, count)
                with worker_pool.reserve_workers() if any(chunk_sizes) else nullcontext() as workers:
                    # A signal handler may have raised the number of threads; then the scratch memory does not suffice.
                    if workers is None or workers.worker_count >= threads:
                        code(alone_records, len(bound), iteration, end, 0, 0, 0)
                    else:
                        code(shared_records, len(bound), iteration, end, *workers)

    def listing(self, kernel: Kernel) -> str:
        return compiler().assembly(kernel)


def _pack_records(bound: Sequence[_BoundKernel], blocks: Sequence[Array], chunk_sizes: Sequence[int]) -> bytes:
    """Return the packed records of kernels for the machine code that runs them in turn (`launch_loop.py`).

    `blocks` holds the packed arguments of each kernel, a row for each iteration. `chunk_sizes` holds for each kernel how many iterations of
    the loop a thread takes at once, or 0 for the calling thread alone.
    """
    triples = zip(bound, blocks, chunk_sizes, strict=True)
    rows = [(x.code.address, x.split_extent, block.ctypes.data, block.shape[1] * 8, chunk_size) for x, block, chunk_size in triples]
    return struct.pack(f"={len(rows) * launch_loop.RECORD_WORDS}q", *[word for row in rows for word in row])


class _BoundKernel:
    """A kernel with the packed arguments for a set of shapes. A launch fills in only the addresses and the scalars."""

    __slots__ = (
        "out_offset_index",
        "holds_gil",
        "code",
        "split_end",
        "flagged",
        "grain",
        "is_sequential",
        "itemsize",
        "table_arrays",
        "out_displacement",
        "pack_arguments",
        "scalars",
        "scratch_bytes",
        "packed_sizes",
        "sources",
        "split_extent",
        "packed_tables",
        "target",
        "cost",
        "stop_flag_offset",
        "imbalance",
        "work",
    )

    def __init__(self, code: MachineCode, arguments: KernelArguments) -> None:
        kernel = code.facts
        codes = "".join("d" if d.kind == "float" else "Q" if d.kind == "uint" else "q" for d in kernel.scalar_dtypes)
        self.table_arrays = [t.offsets for t in arguments.tables]  # keeps the memory of the tables alive
        tables = [offsets.ctypes.data for offsets in self.table_arrays]
        self.code, self.flagged = code, kernel.can_fail
        self.packed_tables = struct.pack(f"={len(tables)}q", *tables)
        self.packed_sizes = struct.pack(f"={len(arguments.sizes)}q", *arguments.sizes) + RUN_FLAG * kernel.is_interruptible
        head_format = f"={len(kernel.itemsizes)}q{len(self.packed_tables)}s{codes}"
        self.pack_arguments = struct.Struct(f"{head_format}{len(self.packed_sizes)}s").pack
        self.stop_flag_offset = struct.calcsize(head_format) + 8 * len(arguments.sizes)  # the offset of the stop flag, in bytes
        itemsizes = kernel.itemsizes
        self.out_offset_index, displacement = arguments.out
        self.out_displacement, self.itemsize = displacement * itemsizes[0], itemsizes[0]
        sources = zip(arguments.sources, itemsizes[1:], strict=False)
        self.sources = [(k, offset_index, displacement * n, n) for (k, offset_index, displacement), n in sources]
        self.scalars = arguments.scalars
        self.split_end = Integer(arguments.split_extent)
        self.split_extent, self.work, self.scratch_bytes = arguments.split_extent, arguments.work, arguments.scratch_bytes
        self.target = target = compiler().target
        self.holds_gil = self.work < target.thread_limits.max_gil_held_work
        self.grain = kernel.min_grain  # 0 if no loop runs in chunks
        self.is_sequential = kernel.shared_axis < 0
        self.cost = self.work if kernel.contraction is None else self.work // target.costs.contraction_step_ratio
        # With symmetric results, the first rows take longest.
        self.imbalance = 2 if kernel.contraction is not None and kernel.contraction.symmetric_pairs else 1

    def launch(self, out: Buffer, given: LaunchValues, once: ResumableLaunch | None = None) -> bool:
        """Run the kernel with results in `out`, and return whether the kernel met an index out of range; see `interface.Launch`."""
        nodes, offsets = given.nodes, given.offsets
        words: list[object] = [out.address + self.out_displacement + offsets[self.out_offset_index] * self.itemsize]
        for k, offset_index, displacement, itemsize in self.sources:
            words.append(nodes[k].buffer.address + displacement + offsets[offset_index] * itemsize)
        flag = None
        if self.flagged:
            flag = Integer()
            words.append(ctypes.addressof(flag))
        words.append(self.packed_tables)
        for k, imag in self.scalars:
            value = given.scalars[k].value
            words.append(value.imag if imag else value.real)
        words.append(self.packed_sizes)
        block = self.pack_arguments(*words)
        threads = num_threads() if self.scratch_bytes or not self.holds_gil else 1
        scratch = None
        if self.scratch_bytes:
            page = self.target.page_bytes
            size = -(-self.scratch_bytes // page) * page
            scratch = allocate(size * threads, self.code.kernel.name)
            block += struct.pack("=2q", scratch.address, size)
        if once is None and self.holds_gil:
            self.code.call_with_gil(block, ZERO_INT64, self.split_end, ZERO_INT64)
        elif once is None:
            self.run_without_gil(block, threads)
        elif self.holds_gil:
            run_only_once(partial(self.code.call_with_gil, block, ZERO_INT64, self.split_end, ZERO_INT64), once)
        else:
            self.run_in_place(block, once, threads, [nodes[k].buffer for k, *_ in self.sources], (out, flag, scratch))
        return flag is not None and flag.value != 0

    def choose_chunk_size(self) -> int:
        """Return how many iterations of the split loop a thread takes at once; 0 if the calling thread runs the whole loop alone."""
        threads = num_threads()
        if threads == 1 or not self.grain:
            return 0
        _, grain, alone = self.plan_sharing(threads)
        return (
            0
            if alone or self.split_extent <= grain
            else worker_pool.compute_chunk_size(self.split_extent, grain, self.target.thread_limits)
        )

    def pack_iterations(
        self,
        output_number: int,
        windows: Sequence[BufferWindow | None],
        scalars: list[Scalar],
        offsets: list[int],
        begin: int,
        count: int,
        scratch: tuple[int, int],
    ) -> Array:
        """Return the packed arguments of `count` iterations from `begin` on, a row of 64-bit words for each iteration.

        `output_number` is the index in `windows` of the result. `scratch` is the address of the scratch memory, and the bytes of a thread.
        The other arguments are those of `Backend.repeat`.
        """
        words: list[object] = []
        moving: list[tuple[int, Array]] = []
        for k, offset_index, displacement, itemsize in [
            (output_number, self.out_offset_index, self.out_displacement, self.itemsize),
            *self.sources,
        ]:
            memory = windows[k]
            assert memory is not None
            address = memory.buffer.address + displacement + offsets[offset_index] * itemsize
            if len(memory.starts) == 1:
                words.append(address + int(memory.starts[0]))
            else:
                words.append(0)
                moving.append((len(words) - 1, memory.starts[begin : begin + count] + address))
        words.append(self.packed_tables)
        words += [scalars[k].value.imag if imag else scalars[k].value.real for k, imag in self.scalars]
        block = self.pack_arguments(*words, self.packed_sizes)
        if self.scratch_bytes:
            block += struct.pack("=2q", *scratch)
        rows = np.empty((count, len(block) // 8), np.int64)
        rows[:] = np.frombuffer(block, np.int64)
        for column, addresses in moving:
            rows[:, column] = addresses
        return rows

    def plan_sharing(self, threads: int) -> tuple[int, int, bool]:
        """Return how `threads` threads share the split loop: its time in additions, the grain of chunks, and whether one thread runs alone.

        The grain is a number of iterations.
        """
        work, grain, sharing = self.work, self.grain or 1, self.target.thread_limits
        alone = work < sharing.min_shared_work or self.is_sequential
        if self.scratch_bytes:  # each chunk packs its operands anew
            work //= sharing.packing_slice_ratio
            pieces = threads * self.imbalance * (work // sharing.contraction_slice_work + 1)
            grain *= -(-self.split_extent // (grain * pieces))
        return min(work, self.cost), grain, alone  # a product takes a fraction of its work, whether it packs or not

    def run_without_gil(self, packed: bytes, threads: int) -> None:
        """Run the kernel with the GIL released, on `threads` threads if the work is large. `packed` are the packed arguments."""
        sharing = self.target.thread_limits
        work, grain, alone = self.plan_sharing(threads)
        block: ArgumentBlock = packed
        stop = None
        if self.code.facts.is_interruptible:
            block = ctypes.create_string_buffer(packed, len(packed))
            stop = partial(ctypes.memmove, ctypes.addressof(block) + self.stop_flag_offset, STOP_FLAG, len(STOP_FLAG))
        is_short = work < min(self.code.slice_work or sharing.first_slice_work, sharing.first_slice_work)
        if self.grain and not (is_short and (alone or threads == 1)):
            worker_pool.parallel_for(
                self.code, block, self.split_extent, work, grain, sharing, stop, single_threaded=alone, thread_limit=threads
            )
        elif stop is not None and work > sharing.first_slice_work:
            interruptible.run_interruptible(partial(self.code.call_without_gil, block, 0, self.split_extent, 0), stop)
        else:
            self.code.call_without_gil(block, 0, self.split_extent, 0)

    def run_in_place(self, packed: bytes, once: ResumableLaunch, threads: int, read_buffers: list[Buffer], held: object) -> None:
        """Run a kernel that overwrites memory it reads, with the GIL released, on `threads` threads if the work is large.

        `packed` are the packed arguments, and `once` keeps the launch from running twice. If the run is interrupted, a later call runs the
        rest of the loop. Until then, the memory that the rest needs stays alive: `read_buffers`, the buffers of the sources, and `held`.
        """
        work, grain, alone = self.plan_sharing(threads)
        if any(buffer.externally_shared for buffer in read_buffers):
            work = 0  # externally shared memory is read in one slice, since another library may change it between slices
        left, sharing = worker_pool.LoopProgress((self, read_buffers, held)), self.target.thread_limits
        run_rest = partial(
            worker_pool.parallel_for,
            self.code,
            packed,
            self.split_extent,
            work,
            grain,
            sharing,
            single_threaded=alone,
            resumed=left,
            thread_limit=threads,
        )
        if once.register_rest(run_rest):
            run_rest()
