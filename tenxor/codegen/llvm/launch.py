"""The LLVM back end: kernels are machine code that runs on this processor, on several threads if the work is large.

A launch packs its arguments into 64-bit words (`_BoundKernel`), and calls the code with the GIL, without it, or on several threads.
"""

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
    RepeatedLaunches,
    ResumableLaunch,
    run_only_once,
)
from ..threads.thread_count import num_threads
from . import kernel_disk_cache
from .compiler import ArgumentBlock, Integer, MachineCode, compiler, count_compilations

if TYPE_CHECKING:
    from ...lowering.ir import Kernel

ZERO_INT64 = Integer(0)
MAX_KEPT_ARGUMENT_BYTES = 1 << 17  # bytes of packed arguments that a repeated plan keeps; longer loops pack them anew
MAX_PACKED_ITERATIONS = 1 << 10  # iterations of a repeated plan whose arguments are packed at a time
# Both are imported with the first long launch
interruptible, worker_pool = LazyModule("tenxor._utils.interruptible"), LazyModule("tenxor.codegen.threads.worker_pool")
launch_loop = LazyModule("tenxor.codegen.llvm.launch_loop")
RUN_FLAG, STOP_FLAG = bytes(8), b"\1" * 8  # the values of the stop flag, behind the sizes of an interruptible kernel


class LlvmBackend(HostBackend):
    """The back end that compiles kernels by LLVM for this machine, and launches the code on the host's memory.

    `Backend` describes the methods. `compiler()` holds the kernels.
    """

    name = "llvm"

    @property
    def kernels(self) -> Mapping[Any, MachineCode]:
        """The kernels in memory, each with its machine code, without code that was found by facts alone (`find_compiled`)."""
        return {kernel: code for kernel, code in compiler().kernels.live_kernels.items() if not isinstance(kernel, KernelFacts)}

    def kernel_count(self) -> int:
        """Return the number of kernels in memory, including code found by facts alone."""
        return len(compiler().kernels)

    def drop_recent_kernels(self) -> None:
        """Drop the references to recently requested kernels, so that kernels without further references are unloaded."""
        compiler().kernels.drop_recent()

    def count_compilations(self) -> tuple[int, int]:
        """Return two counts: the kernels compiled by this process, and the kernels loaded from the package or from disk."""
        return count_compilations()

    @property
    def target(self) -> Target:
        """This machine, with the present number of threads."""
        return _get_target()

    def compile(self, kernel: Kernel) -> MachineCode:
        """Return the machine code of `kernel`: from memory, from the package, from disk, or compiled now."""
        return compiler().get(kernel)

    def get_facts(self, compiled: Compiled) -> KernelFacts | None:
        """Return the facts by which `find_compiled` finds the code of `compiled`; None for a result of `run_on_rows`."""
        assert isinstance(compiled, MachineCode)
        return compiled.facts if compiled.facts.text_hash else None  # code that runs another kernel cannot be found by a hash

    def find_compiled(self, facts: KernelFacts) -> MachineCode | None:
        """Return the code with the hash in `facts`, from memory, from the package or from disk; None for missing code."""
        try:
            return compiler().get(facts)
        except NotCompiled:
            return None

    def run_on_rows(self, compiled: Compiled, *, has_scratch: bool, is_ordered: bool) -> tuple[MachineCode, int]:
        """Return new code that runs `compiled` on each row of its operands, and the address of the code of `compiled`.

        See `Backend.run_on_rows`.
        """
        assert isinstance(compiled, MachineCode)
        return compiler().run_on_rows(compiled, has_scratch=has_scratch, is_ordered=is_ordered), compiled.address

    def read_shipped(self, text: str) -> bytes | None:
        """Return the data in the package, for this machine, for the plan with the key `text`; None without data."""
        objects = compiler().shipped_objects
        return None if objects is None else objects.read_plan(text)

    def read_stored(self, text: str) -> bytes | None:
        """Return the data in the disk cache under the key `text`, for this machine and number of threads; None without data."""
        key = compiler().make_plan_key(text, self.target)
        return kernel_disk_cache.read(key) if key else None

    def write_stored(self, text: str, content: bytes) -> None:
        """Write `content` to the disk cache under the key `text`, for this machine and number of threads; ignore a failing disk."""
        key = compiler().make_plan_key(text, self.target)
        if key:
            kernel_disk_cache.write(key, content)

    def bind(self, compiled: Compiled, arguments: KernelArguments) -> Launch:
        """Return a function that launches the machine code `compiled` with `arguments`, which are packed now (`_BoundKernel.launch`)."""
        assert isinstance(compiled, MachineCode)
        return _BoundKernel(compiled, arguments).launch

    @property
    def repeated_launches(self) -> type[RepeatedLaunches]:
        """The class of sequences of kernels that machine code launches many times."""
        return _LaunchLoop

    def listing(self, kernel: Kernel) -> str:
        """Return the assembly of `kernel` for this machine, as text."""
        return compiler().compile_assembly(kernel)


def _get_target() -> Target:
    """Return this machine as kernels are compiled for it, with the current number of threads."""
    current = compiler()
    if current.target.threads != num_threads():
        current.target = current.target.with_threads(num_threads())
    return current.target


class _LaunchLoop(RepeatedLaunches):
    """A sequence of kernels that machine code launches `iterations` times, without Python in between. A scan runs so.

    The arguments are those of `RepeatedLaunches`. If launches are shown (`TENXOR_DEBUG`), or an iteration takes long, each launch is a call
    from Python. `run` packs the arguments of at most `MAX_PACKED_ITERATIONS` iterations at a time.
    """

    def __init__(
        self,
        launches: Sequence[tuple[Launch, int]],
        windows: Sequence[BufferWindow | None],
        scalars: list[Scalar],
        offsets: list[int],
        iterations: int,
    ) -> None:
        super().__init__(launches, windows, scalars, offsets, iterations)
        self.kernels = [x for launch, _ in launches if isinstance(x := getattr(launch, "__self__", None), _BoundKernel)]
        self._cost = max(1, sum([x.cost for x in self.kernels]))
        page = _get_target().page_bytes
        self.scratch_bytes = -(-max([x.scratch_bytes for x in self.kernels], default=0) // page) * page  # of each thread
        # The arguments of all iterations, kept for the next run unless they are large. They are missing during a run, as a signal handler
        # may run the loop, too.
        self._arguments: _PackedArguments | None = None

    def run(self, buffers: Sequence[Buffer]) -> None:
        """Run all iterations on the memory `buffers`, on several threads if the work of a kernel is large.

        The results are in the memory when the call returns. Python handles signals after every part of the iterations.
        """
        kernels, slice_cost = self.kernels, _get_target().thread_limits.first_slice_work
        if not kernels or len(kernels) < len(self.launches) or self._cost > slice_cost:  # the launches are shown, or an iteration is long
            super().run(buffers)
            return
        threads = num_threads()
        chunk_sizes = [] if threads == 1 else [x.choose_chunk_size() for x in kernels]
        is_shared, code = any(chunk_sizes), compiler().load_launch_loop()
        scratch = [allocate(self.scratch_bytes * threads, "scan")] if self.scratch_bytes else []
        addresses = np.array([*[buffer.address for buffer in buffers], *[buffer.address for buffer in scratch], 0], np.int64)
        for begin in range(0, self.iterations, MAX_PACKED_ITERATIONS):
            count = min(self.iterations - begin, MAX_PACKED_ITERATIONS)
            arguments, self._arguments = self._arguments, None
            arguments = arguments or _PackedArguments(self, begin, count, len(buffers))
            arguments.set_addresses(addresses)
            alone_records = arguments.alone_records
            shared_records = arguments.pack_records(chunk_sizes) if is_shared else alone_records
            for iteration in range(0, count, slice_cost // self._cost):  # Python may handle signals after each part
                end = min(iteration + slice_cost // self._cost, count)
                with worker_pool.reserve_workers() if is_shared else nullcontext() as workers:
                    # A signal handler may have raised the number of threads; then the scratch memory does not suffice.
                    if workers is None or workers.worker_count >= threads:
                        code(alone_records, len(kernels), iteration, end, 0, 0, 0)
                    else:
                        code(shared_records, len(kernels), iteration, end, *workers)
            if arguments.nbytes <= MAX_KEPT_ARGUMENT_BYTES and count == self.iterations:
                self._arguments = arguments


class _PackedArguments:
    """The packed arguments of the kernels of `loop` in `count` iterations from `begin` on, as a matrix of 64-bit words.

    A row has the arguments of an iteration: those of each kernel, one after the other. An address is relative to the begin of its buffer
    until `set_addresses` is called. `buffer_count` is the number of the caller's buffers, and so the index of the scratch memory behind
    them. `alone_records` are the records of the kernels (`pack_records`) for the calling thread alone.
    """

    def __init__(self, loop: _LaunchLoop, begin: int, count: int, buffer_count: int) -> None:
        words_of_kernels: list[Array] = []
        buffer_indices: list[int] = []  # of each word that is an address; -1 for another word
        self._kernels, self._word_starts = loop.kernels, list[int]()  # the first word of each kernel
        for kernel, (_, output_number) in zip(loop.kernels, loop.launches, strict=True):
            self._word_starts.append(len(buffer_indices))
            block, memory_windows = kernel.pack_without_addresses(output_number, loop)
            kernel_words = np.empty((count, len(block)), np.int64)
            kernel_words[:] = block
            kernel_indices = [-1] * len(block)
            for column, window in enumerate(memory_windows):
                kernel_words[:, column] += window.starts if len(window.starts) == 1 else window.starts[begin : begin + count]
                kernel_indices[column] = window.buffer_index
            if kernel.scratch_bytes:
                kernel_indices[-2] = buffer_count
            words_of_kernels.append(kernel_words)
            buffer_indices += kernel_indices
        self._relative_words, self._buffer_indices = np.concatenate(words_of_kernels, axis=1), np.array(buffer_indices)
        self._words, self.nbytes = np.empty_like(self._relative_words), self._relative_words.nbytes
        self.alone_records = self.pack_records([0] * len(loop.kernels))

    def set_addresses(self, addresses: Array) -> None:
        """Complete the packed arguments for a run: add the address of its buffer to each word that is an address.

        `addresses` has the address of each buffer, and of the scratch memory if there is any. The last item is 0, for words that are no
        address.
        """
        np.add(self._relative_words, addresses[self._buffer_indices], out=self._words)

    def pack_records(self, chunk_sizes: Sequence[int]) -> bytes:
        """Return the packed records of the kernels for the machine code that runs them in turn; `build_launch_loop_ir` describes a record.

        `chunk_sizes` holds for each kernel how many iterations of its split loop a thread takes at once, or 0 for the calling thread alone.
        """
        address, row_bytes = self._words.ctypes.data, self._words.shape[1] * 8
        rows = [
            (x.code.address, x.split_extent, address + start * 8, row_bytes, chunk_size)
            for x, start, chunk_size in zip(self._kernels, self._word_starts, chunk_sizes, strict=True)
        ]
        return struct.pack(f"={len(rows) * launch_loop.RECORD_WORDS}q", *[word for row in rows for word in row])


class _BoundKernel:
    """A kernel with the packed arguments for a set of shapes, as `LlvmBackend.bind` makes it. A launch adds only addresses and scalars.

    `code` is the compiled kernel. The method `launch` is the function that `bind` returns.
    """

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

    def launch(self, out: Buffer, launch_values: LaunchValues, in_place_launch: ResumableLaunch | None = None) -> bool:
        """Run the kernel with results in `out`, and return whether the kernel met an index out of range or a negative exponent.

        `launch_values` has the memory of the sources, the scalars and the offsets (`LaunchValues`). With `in_place_launch`, the launch must
        not run twice. It is marked as done as soon as the kernel has run, or continued after an interrupt (`ResumableLaunch`).
        """
        nodes, offsets = launch_values.nodes, launch_values.offsets
        words: list[object] = [out.address + self.out_displacement + offsets[self.out_offset_index] * self.itemsize]
        for k, offset_index, displacement, itemsize in self.sources:
            words.append(nodes[k].buffer.address + displacement + offsets[offset_index] * itemsize)
        flag = None
        if self.flagged:
            flag = Integer()
            words.append(ctypes.addressof(flag))
        words.append(self.packed_tables)
        for k, imag in self.scalars:
            value = launch_values.scalars[k].value
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
        if in_place_launch is None and self.holds_gil:
            self.code.call_with_gil(block, ZERO_INT64, self.split_end, ZERO_INT64)
        elif in_place_launch is None:
            self.run_without_gil(block, threads)
        elif self.holds_gil:
            run_only_once(partial(self.code.call_with_gil, block, ZERO_INT64, self.split_end, ZERO_INT64), in_place_launch)
        else:
            self.run_in_place(block, in_place_launch, threads, [nodes[k].buffer for k, *_ in self.sources], (out, flag, scratch))
        return flag is not None and flag.value != 0

    def choose_chunk_size(self) -> int:
        """Return how many iterations of the split loop a thread takes at once in a repeated launch (`_LaunchLoop`).

        Return 0 if the calling thread runs the whole loop alone.
        """
        threads = num_threads()
        if threads == 1 or not self.grain:
            return 0
        _, grain, alone = self.plan_sharing(threads)
        return (
            0
            if alone or self.split_extent <= grain
            else worker_pool.compute_chunk_size(self.split_extent, grain, self.target.thread_limits)
        )

    def pack_without_addresses(self, output_number: int, loop: _LaunchLoop) -> tuple[Array, list[BufferWindow]]:
        """Return the packed arguments in an iteration of `loop`, as an int64 array, and the memory that each of the first words addresses.

        Item k of the list is the memory of word k, a displacement in bytes from the begin of this memory. The other words are complete, but
        for the address of the scratch memory, which is 0. `output_number` is the index in `loop.windows` of the result.
        """
        words: list[object] = []
        memory_windows: list[BufferWindow] = []
        for k, offset_index, displacement, itemsize in [
            (output_number, self.out_offset_index, self.out_displacement, self.itemsize),
            *self.sources,
        ]:
            memory = loop.windows[k]
            assert memory is not None
            words.append(displacement + loop.offsets[offset_index] * itemsize)
            memory_windows.append(memory)
        words.append(self.packed_tables)
        words += [loop.scalars[k].value.imag if imag else loop.scalars[k].value.real for k, imag in self.scalars]
        block = self.pack_arguments(*words, self.packed_sizes)
        if self.scratch_bytes:
            block += struct.pack("=2q", 0, loop.scratch_bytes)
        return np.frombuffer(block, np.int64), memory_windows

    def plan_sharing(self, threads: int) -> tuple[int, int, bool]:
        """Return how a launch on `threads` threads runs the split loop, as a triple for `worker_pool.parallel_for`.

        The items are the work of the loop in additions, the grain of its chunks in iterations, and whether the calling thread runs alone.
        The work measures the time of all threads together. The grain is larger for a kernel with scratch memory: each chunk packs its
        operands anew. The calling thread runs alone for less work than `min_shared_work`, or if no loop of the kernel may be shared.
        """
        work, grain, sharing = self.work, self.grain or 1, self.target.thread_limits
        alone = work < sharing.min_shared_work or self.is_sequential
        if self.scratch_bytes:  # each chunk packs its operands anew
            work //= sharing.packing_slice_ratio
            pieces = threads * self.imbalance * (work // sharing.contraction_slice_work + 1)
            grain *= -(-self.split_extent // (grain * pieces))
        return min(work, self.cost), grain, alone  # a product takes a fraction of its work, whether it packs or not

    def run_without_gil(self, packed: bytes, threads: int) -> None:
        """Run the kernel on the packed arguments `packed` with the GIL released, on up to `threads` threads if the work is large.

        `plan_sharing` decides about the threads. If the kernel is interruptible or its loop is split, signal handlers can interrupt long
        work.
        """
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

    def run_in_place(
        self, packed: bytes, in_place_launch: ResumableLaunch, threads: int, read_buffers: list[Buffer], kept_alive: object
    ) -> None:
        """Run a kernel that overwrites memory it reads, with the GIL released, on up to `threads` threads if the work is large.

        `packed` are the packed arguments, and `in_place_launch` keeps the launch from running twice. If the run is interrupted, the
        function that `in_place_launch` has registered runs the rest of the loop. Until then, the memory that the rest needs stays alive.
        `read_buffers` are the buffers of the sources; `kept_alive` refers to the result, the flag and the scratch memory.
        """
        work, grain, alone = self.plan_sharing(threads)
        if any(buffer.externally_shared for buffer in read_buffers):
            work = 0  # externally shared memory is read in one slice, since another library may change it between slices
        left, sharing = worker_pool.LoopProgress((self, read_buffers, kept_alive)), self.target.thread_limits
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
        if in_place_launch.register_rest(run_rest):
            run_rest()
