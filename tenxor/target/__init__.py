"""Descriptions of machines: a `Target` is a value, passed to all code that plans loops or emits code. Tests pass other machines.

`Target.of_host` describes the present machine; no other code inspects it. The constants by which loops are planned stand here in
groups, each with its unit and its reason. They choose between ways to the same bits: block sizes, what is cached, what threads share.
Constants that decide the bits of results stand with the loops that they decide (`lowering/`, `codegen/llvm/reduction_states.py`): these
may depend on no cache and no number of threads; of a target they depend on the length of its vectors alone.

Constants that follow from cache sizes were measured best on machines with at least the caches of `Caches()`. They shrink with smaller
caches. They do not grow with larger ones, which are mostly shared.
"""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from functools import cache

from .._utils.cache_registry import register
from .._utils.process import FolderPath, get_allowed_cpus, read_text
from .._utils.records import NamedTuple

CODEGEN_FEATURES = frozenset(("avx2", "avx512f", "f16c", "neon"))  # processor features that choose between ways to emit code
MANY_REGISTER_COUNT = 32  # vector registers from which the tiles of contractions are twice as high
# Bytes of a second cache from which the last cache is distant. A Xeon with 2 MiB takes 31 to 37 ns for a dependent read from the last cache
MIN_DISTANT_L2_BYTES = 1 << 21

NATIVE_CPU = "native"  # stands for the CPU of the present machine; LLVM is asked for its name at compile time


class Processor(NamedTuple):
    """A machine in the words of LLVM; the texts are empty where only LLVM IR is wanted, for no machine in particular."""

    triple: str = ""
    cpu: str = ""
    attributes: str = ""  # "+avx2,-avx512f": differences from the features of the CPU
    calling_convention: str = ""  # the calling convention of kernels, written before the return type
    has_prefetch: bool = True  # whether prefetch instructions exist
    can_align_stack: bool = True  # whether a function may align its stack to cache lines

    @property
    def architecture(self) -> str:
        """The instruction set family, as LLVM names it."""
        name = self.triple.partition("-")[0]
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)


UNKNOWN_PROCESSOR = Processor()


class Caches(NamedTuple):
    """Sizes, in bytes, of the caches that a thread uses: the first-level data cache, the second level, the last level, and a cache line."""

    l1_bytes: int = 1 << 15
    l2_bytes: int = 1 << 19
    last_level_bytes: int = 1 << 25
    line_bytes: int = 64

    @property
    def has_distant_last_level(self) -> bool:
        """True if a read from the last cache takes much longer than one from the second: such processors have a large second cache."""
        return self.l2_bytes >= MIN_DISTANT_L2_BYTES

    def limit_to_measured(self) -> Caches:
        """Return the sizes rounded down to powers of two, at most those of the machines on which the constants here were measured: the
        defaults of `Caches`. `line_bytes` stays.
        """
        limits = Caches()
        l1_bytes, l2_bytes, last_level_bytes = map(
            min, (self.l1_bytes, self.l2_bytes, self.last_level_bytes), (limits.l1_bytes, limits.l2_bytes, limits.last_level_bytes)
        )
        return self._replace(
            l1_bytes=_floor_power_of_2(l1_bytes), l2_bytes=_floor_power_of_2(l2_bytes), last_level_bytes=_floor_power_of_2(last_level_bytes)
        )


# The units of the cache sizes in `Settings`: the largest divisors in `SinglePass.of` and `Blocks.of`.
_L2_UNIT_BYTES, _LAST_LEVEL_UNIT_BYTES = 64, 8


class Settings(NamedTuple):
    """The properties of a machine, apart from its instructions, on which plans depend: two cache sizes, the number of threads, and whether
    the last cache is distant (`Caches.has_distant_last_level`).

    The sizes are those of the second and the last cache after `Caches.limit_to_measured`, in units of `_L2_UNIT_BYTES` and
    `_LAST_LEVEL_UNIT_BYTES` bytes.
    """

    l2_units: int
    last_level_units: int
    threads: int
    has_distant_last_level: int


def _floor_power_of_2(size: int) -> int:
    """Return the largest power of two that is at most `size`, and at least 1."""
    return 1 << max(size, 1).bit_length() - 1


class AddressSpace(NamedTuple):
    """The kind of memory of operands and tables: its name, and LLVM's number of the address space (0: pointers do not tell).

    With another address space, kernels use load instructions for this kind, and need not find it out at each access.
    """

    kind: str = "host"
    llvm_number: int = 0


class Tile(NamedTuple):
    """The register tile of a contraction, MR x NR: `mr` has the rows of whole tiles and then of lower tiles for the remainder, and `nr` is
    the number of vectors of columns.
    """

    mr: tuple[int, ...]
    nr: int


class Costs(NamedTuple):
    """Thresholds of work, in additions of one element."""

    min_buffered_value: int = 10  # least cost of a value, computed in a reduction, for a row buffer from which a later loop reads it again
    min_buffered_invariant: int = 3  # least cost of a loop-invariant value for a row buffer over the columns of a block
    max_cheap_element: int = 8  # maximal cost of an element for 4 vectors per iteration: the loop overhead would be as large as the work
    # Maximal cost of an element for 2 vectors per iteration, and of its longest chain of operations for a single vector
    max_moderate_element: int = 24
    max_long_chain: int = 64  # maximal cost of the longest chain of operations for 2 vectors per iteration
    strided_load: int = 25  # cost of a strided load, element by element
    indexed_load: int = 12  # cost of an indexed load: 2 vectors per iteration wait less for memory
    max_register_epilogue: int = 4  # maximal cost of the operations on a result of a contraction that are done in registers
    contraction_step_ratio: int = 8  # steps of a contraction in the time of one step elsewhere, as each element is reused from registers


class Fusing(NamedTuple):
    """Limits of fusion: when a node is inlined into its readers rather than stored."""

    max_reads: int = 4  # maximal number of reads in one kernel; a node with more reads is stored
    max_repeated_for_load: int = 4  # additions per element that may be repeated for a larger result: a load costs as much
    max_constant_operations: int = 2  # operations in a constant that is faster to compute than to load
    max_repeated_for_reads: int = 64  # additions that may be repeated for several reads in one kernel
    max_repeated_in_passes: int = 32  # additions per element that the passes of one kernel may repeat together
    max_reductions: int = 8  # reductions in one kernel, each with loops of its own: LLVM takes 0.1 s for these, 2 s for 50
    min_shared_results: int = 16  # results below which threads cannot share a reduction
    min_shared_elements: int = 1 << 18  # elements read, about the work that is worth sharing among threads
    # Additions in an expanded kernel: in one of twice the length, each takes LLVM up to 1.5 times as long
    max_expanded_additions: int = 512
    read_store_ratio: int = 32  # ratio of elements read to elements stored from which storing costs nothing in comparison
    max_results: int = 4  # results of one kernel
    max_streams: int = 12  # arrays that one kernel reads and writes: processors prefetch a few more streams


class Loops(NamedTuple):
    """Sizes of loops through memory."""

    loads_per_address: int = 4  # scalar loads from a base address before the address is advanced
    block_columns: int = 4096  # columns in a block: their states, of 4 bytes, fill half of the first cache
    max_short_row_columns: int = 256  # columns of a matrix up to which whole rows are read, in memory order
    reread_block_columns: int = 256  # columns in a block read more than once, which should stay in a cache
    jammed_rows: int = 4  # rows reduced at a time (unroll and jam): their states, and those of their chunks, fit 32 registers
    # Bytes of a row from which several rows are read at a time: memory delivers several streams faster than one
    min_streamed_row_bytes: int = 1 << 13
    # `min_streamed_row_bytes` for long vectors: such processors read one stream fastest, unless rows are this far apart
    min_wide_row_bytes: int = 1 << 18
    # Bytes of a row from which it and the vector combined with every row evict each other from the first cache
    min_long_row_bytes: int = 1 << 14
    max_row_buffer_elements: int = 1 << 14  # elements of a row buffer; the buffer is on the stack, which is small in some threads
    max_row_buffer_bytes: int = 1 << 19  # bytes of all row buffers of a kernel
    # Elements along a side of a tile through which transposed memory is read, while its lines stay in a cache
    transpose_tile_side: int = 64
    max_transpose_tiles: int = 2  # tiles of transposed memory in one kernel: they are on the stack
    # Elements along a side of a block transposed in registers: 16 are 20 % faster, but take LLVM over twice as long
    register_transpose_side: int = 8
    min_masked_itemsize: int = 4  # bytes of the smallest elements that are stored under a mask: processors have masks for these
    min_adjacent_scatter: int = 4  # adjacent elements from which a scatter is vectorized

    @staticmethod
    def of(caches: Caches) -> Loops:
        """Return the sizes for `caches`: blocks of columns, and rows, by the first cache. All other fields have the defaults."""
        first_bytes = caches.l1_bytes
        return Loops(
            block_columns=first_bytes // 8,
            max_short_row_columns=first_bytes // 128,
            reread_block_columns=first_bytes // 128,
            min_long_row_bytes=first_bytes // 2,
        )


class SinglePass(NamedTuple):
    """Limits of single-pass fusion, in which a matrix is read once for two contractions (`lowering/fuse_single_pass.py`). It pays if a
    second read is expensive.
    """

    min_matrix_bytes: int = 1 << 24  # bytes of a matrix from which fusion pays, as no cache holds it until the second contraction
    min_short_rows_bytes: int = 1 << 21  # bytes of a matrix with short rows from which fusion pays, as the second cache does not hold it
    short_row_bytes: tuple[int, int] = (1 << 9, 1 << 11)  # bytes of a short row, at least and at most
    max_row_bytes: int = 1 << 15  # maximal bytes of any row: a few rows, and one row of results, stay in the second cache
    max_columns: int = 1 << 13  # maximal columns: their states are on the stack

    @staticmethod
    def of(caches: Caches) -> SinglePass:
        """Return the limits for `caches`, by the second and the last cache. All other fields have the defaults."""
        l2_bytes, last_level_bytes = caches.l2_bytes, caches.last_level_bytes
        return SinglePass(
            min_matrix_bytes=last_level_bytes // 2,
            min_short_rows_bytes=4 * l2_bytes,
            max_row_bytes=l2_bytes // 16,
            max_columns=l2_bytes // 64,
        )

    def is_worthwhile(self, nbytes: int, row: int) -> bool:
        """Return whether single-pass fusion pays for a matrix of `nbytes` bytes with rows of `row` bytes.

        Fusion pays for rows of at most `max_row_bytes`, if the matrix has `min_matrix_bytes` or more, or short rows (`has_short_rows`).
        """
        if row > self.max_row_bytes:
            return False
        return nbytes >= self.min_matrix_bytes or self.has_short_rows(nbytes, row)

    def has_short_rows(self, nbytes: int, row: int) -> bool:
        """Return whether a matrix of `nbytes` bytes has short rows, of `row` bytes each, and is too large for the second cache.

        The limits are in the class: `short_row_bytes`, both ends included, and `min_short_rows_bytes`.
        """
        return nbytes >= self.min_short_rows_bytes and self.short_row_bytes[0] <= row <= self.short_row_bytes[1]


class Streams(NamedTuple):
    """Limits for non-temporal stores, which bypass the caches, so that large results do not evict other data; and for prefetching rows."""

    min_result_bytes: int = 1 << 23  # bytes of a result from which stores may be non-temporal
    min_touched_bytes: int = 1 << 25  # bytes touched by a kernel from which no cache holds them
    min_vector_bytes: int = 32  # bytes of the shortest vector with a non-temporal store: half a cache line
    # Bytes of a reduced row, at least and at most, for which the next row is prefetched
    prefetched_row_bytes: tuple[int, int] = (1 << 7, 1 << 12)

    @staticmethod
    def of(caches: Caches) -> Streams:
        """Return the limits for `caches`, by the last cache: larger data bypass the caches. All other fields have the defaults."""
        return Streams(min_result_bytes=caches.last_level_bytes // 4, min_touched_bytes=caches.last_level_bytes)


class Blocks(NamedTuple):
    """Sizes for contractions: which operands are packed, and the blocks of rows and columns."""

    max_direct_rows: int = 40  # maximal number of rows for which columns are not packed: packing would be half of the work
    max_direct_columns: int = 96  # maximal number of columns for which rows are not packed
    max_direct_bytes: int = 1 << 18  # maximal bytes of columns left unpacked for up to `max_direct_extent` rows: half of the second cache
    # Maximal rows to read unpacked columns, and columns to read unpacked rows: for more, packed memory is better
    max_direct_extent: int = 400
    max_l1_column_bytes: int = 1 << 14  # maximal bytes of columns left unpacked for any number of rows: the first cache holds them
    set_conflict_bytes: int = 1 << 12  # bytes; unpacked rows must not be a multiple of this apart: they would share a few sets of a cache
    # Maximal steps whose distance is a multiple of `set_conflict_bytes` / 4: the lines of more evict each other from the first cache
    max_conflicting_steps: int = 32
    max_unpacked_lines: int = 128  # maximal steps, each in another cache line, for which rows that no cache holds are not packed
    max_unpacked_bytes: int = 1 << 24  # maximal bytes of a batch of unpacked contractions: beyond, packing reads memory in order
    # Bytes of a batch from which the next contraction, of at most `l2_working_bytes` bytes, is prefetched: no near cache holds it
    min_prefetch_batch_bytes: int = 1 << 21
    # Least bytes of the columns of a prefetched contraction: processors prefetch memory read in order by themselves
    min_prefetch_panel_bytes: int = 1 << 12
    block_rows: tuple[int, int] = (48, 240)  # rows in a block (MC), at least and at most: multiples of every MR
    block_columns: tuple[int, int] = (64, 4096)  # columns in a block (NC), at least and at most: whole vectors
    packed_row_bytes: int = 1 << 22  # bytes of packed rows, which should stay in the last cache beside those of another thread
    packed_column_bytes: int = 1 << 23  # bytes of packed columns, which all rows of a block are multiplied with
    fixed_row_bytes: int = 1 << 24  # bytes of rows that are the same for all iterations of the outer loops
    # Bytes of results computed row by row, at least and at most: too many for the second cache
    row_order_result_bytes: tuple[int, int] = (1 << 20, 1 << 25)
    min_result_row_bytes: int = 1 << 11  # least bytes of a row of results computed row by row
    min_mirrored_steps: int = 32  # steps from which half of a symmetric result is faster to copy than to compute
    # Chunks (`match_contraction.STEPS_PER_CHUNK` steps) beyond which the loop over chunks is outside the panels: more do not fit a near
    # cache
    max_inner_chunks: int = 2
    # Ratio of steps to rows or columns beyond which this loop is outside even if the states do not fit a near cache
    min_step_ratio: int = 2
    l2_working_bytes: int = 1 << 19  # bytes of data in frequent use for a while, which stay in the second cache
    panels_per_pack: int = 4  # panels packed at a time, so that memory is read in longer runs
    min_loops_per_thread: int = 4  # iterations of the outer loops per thread below which threads share the rows or the columns instead
    # 1 to prefetch packed columns, else 0: without a prefetch, tiles wait for columns in a distant last cache
    prefetches_panels: int = 0

    @staticmethod
    def of(caches: Caches) -> Blocks:
        """Return the sizes of blocks for the cache sizes `caches`. Fields that do not depend on a cache have the defaults."""
        l1_bytes, l2_bytes, last_level_bytes = caches.l1_bytes, caches.l2_bytes, caches.last_level_bytes
        return Blocks(
            max_direct_bytes=l2_bytes // 2,
            max_l1_column_bytes=l1_bytes // 2,
            set_conflict_bytes=l1_bytes // 8,
            max_unpacked_lines=l1_bytes // (4 * caches.line_bytes),
            max_unpacked_bytes=last_level_bytes // 2,
            min_prefetch_batch_bytes=4 * l2_bytes,
            packed_row_bytes=last_level_bytes // 8,
            packed_column_bytes=last_level_bytes // 4,
            fixed_row_bytes=last_level_bytes // 2,
            row_order_result_bytes=(2 * l2_bytes, last_level_bytes),
            l2_working_bytes=l2_bytes,
        )


class ThreadLimits(NamedTuple):
    """Limits of launches and threads. Work is counted in additions of one element."""

    max_gil_held_work: int = 1 << 16  # work below which a kernel keeps the GIL: releasing it takes as long
    min_shared_work: int = 1 << 20  # work from which threads share a kernel: a barrier takes microseconds
    # Work from which threads that are polling share a kernel: without Python their meeting takes two microseconds
    min_polled_work: int = 1 << 19
    max_unshared_contraction: int = 3 << 20  # work up to which a contraction is done before Python could wake the worker threads
    first_slice_work: int = 1 << 24  # work until Python handles signals the first time: about 10 ms, 100 ms for expensive elements
    max_slice_growth: int = 4  # maximal growth of this work from one such time to the next
    slice_seconds: float = 0.08  # seconds between two such times, estimated from the last interval
    contraction_slice_work: int = 1 << 28  # work of a piece of a contraction between two such times
    # Ratio by which packing contractions may run longer between such times: each piece packs its operands anew
    packing_slice_ratio: int = 32
    # Work of an update in place that signals cannot interrupt, as lost data cannot be recomputed: under a second
    max_uninterrupted_work: int = 1 << 32
    min_donated_bytes: int = 1 << 20  # bytes from which an unreferenced operand donates its memory to the result; the test takes time
    chunks_per_thread: int = 4  # pieces of a loop per thread, so that a slow thread delays little
    max_polls: int = 8000  # polls of a thread for work before it sleeps: about 0.1 ms
    row_grain: int = 24  # rows of a contraction that two threads should not share: whole tiles
    step_grain: int = 64  # vectorized iterations, or columns, that two threads should not share: whole cache lines of single bytes
    min_block_columns: int = 512  # least columns of a block that a thread takes, unless the block is narrower
    min_shared_scatter: int = 1 << 18  # values of a scatter from which threads share blocks of adjacent elements
    min_scatter_block: int = 32  # least adjacent elements in a block of a scatter


class Target(NamedTuple):
    """A machine for which loops are planned and code is emitted: its vectors, instructions, caches and threads, and the constants for
    these.

    Vectors have `vector_bytes` bytes (0: none, and everything is computed element by element), and the processor has `register_count`
    vector registers. `features` are the processor features that the emitter asks for, by LLVM's names. Wide vectors imply no instructions:
    those of AVX-512 are used if it is among the features.
    """

    vector_bytes: int
    features: frozenset[str] = frozenset()
    register_count: int = 16
    processor: Processor = UNKNOWN_PROCESSOR
    caches: Caches = Caches()
    address_space: AddressSpace = AddressSpace()
    page_bytes: int = 1 << 12  # bytes; the scratch memory of each thread is a multiple of it
    threads: int = 1  # threads that share loops
    costs: Costs = Costs()
    fusing: Fusing = Fusing()
    loops: Loops = Loops()
    single_pass: SinglePass = SinglePass()
    streams: Streams = Streams()
    blocks: Blocks = Blocks()
    thread_limits: ThreadLimits = ThreadLimits()

    @staticmethod
    def of_host(features: Set[str], processor: Processor = UNKNOWN_PROCESSOR) -> Target:
        """Return the present machine with `features` and one thread: the widest vectors among them, and blocks for its caches.

        Only the features in `CODEGEN_FEATURES` are kept. `processor` is the machine in the words of LLVM.
        """
        nbytes = 64 if "avx512f" in features else 32 if "avx2" in features else 16
        registers = MANY_REGISTER_COUNT if not features.isdisjoint(("avx512f", "neon")) else 16
        target = Target(nbytes, frozenset(features & CODEGEN_FEATURES), registers, processor, page_bytes=get_host_page_bytes())
        return target.with_caches(get_host_caches())

    def with_caches(self, caches: Caches) -> Target:
        """Return the machine with `caches`, and the constants for them: `loops`, `streams`, `blocks` and `single_pass` are replaced."""
        return self._planned_for(caches.limit_to_measured(), int(caches.has_distant_last_level))._replace(caches=caches)

    def _planned_for(self, tuned: Caches, has_distant_last_level: int) -> Target:
        """Return the machine with the constants that follow from the cache sizes `tuned`, for a distant last cache (1) or a near one (0).

        `caches` stays.
        """
        prefetches_panels = has_distant_last_level if self.has_feature("avx512f") else 0
        blocks = Blocks.of(tuned)._replace(prefetches_panels=prefetches_panels)
        return self._replace(loops=Loops.of(tuned), streams=Streams.of(tuned), blocks=blocks, single_pass=SinglePass.of(tuned))

    def with_threads(self, threads: int) -> Target:
        """Return the machine with `threads` threads; the machine itself if it has as many."""
        return self if threads == self.threads else self._replace(threads=threads)

    @property
    def settings(self) -> Settings:
        """The properties, apart from the instructions, by which plans for such machines differ."""
        tuned = self.caches.limit_to_measured()
        units = tuned.l2_bytes // _L2_UNIT_BYTES, tuned.last_level_bytes // _LAST_LEVEL_UNIT_BYTES
        return Settings(*units, self.threads, int(self.caches.has_distant_last_level))

    def with_settings(self, settings: Settings) -> Target:
        """Return the machine with the number of threads in `settings`, and the constants for the cache sizes in `settings`; `caches` stays.

        The first-level cache is the machine's own. The constants are also those for a distant last cache, if `settings` has one.
        For the machine's own settings the result equals the machine, unless its constants were changed.
        """
        tuned = self.caches.limit_to_measured()._replace(
            l2_bytes=settings.l2_units * _L2_UNIT_BYTES, last_level_bytes=settings.last_level_units * _LAST_LEVEL_UNIT_BYTES
        )
        return self._planned_for(tuned, settings.has_distant_last_level)._replace(threads=settings.threads)

    def has_feature(self, feature: str) -> bool:
        """Return whether the processor has the instructions named `feature`, one of `CODEGEN_FEATURES`."""
        return feature in self.features

    def lane_count(self, itemsize: int) -> int:
        """Return the number of elements of `itemsize` bytes in a vector, at least 2; 1 without vectors."""
        return max(2, self.vector_bytes // itemsize) if self.vector_bytes else 1

    def count_contraction_scratch(
        self, blocks: tuple[int, int], depth: int, state_bytes: Sequence[int], nbytes: tuple[int, int], *, steps_first: bool
    ) -> int:
        """Return the bytes of scratch memory for waiting states and packed blocks, including padding that back ends may leave.

        `blocks` are the rows and the columns of a block, and `state_bytes` the bytes of each component of a state. `depth` steps are packed
        at a time. `nbytes` are the bytes per index and step of each side, 0 if it is not packed. With `steps_first`, the states of all
        columns of the block wait, otherwise the states of the columns of one tile.
        """
        tile = self.contraction_tile(len(state_bytes))
        tile_columns = tile.nr * self.lane_count(max(state_bytes))
        rows, columns = blocks[0] + tile.mr[0], blocks[1] + tile_columns
        waiting_bytes = (columns if steps_first else tile_columns) * sum(state_bytes)
        steps = depth + self.loops.register_transpose_side
        return rows * waiting_bytes + (rows * nbytes[0] + columns * nbytes[1]) * steps + 8 * self.caches.line_bytes

    def contraction_tile(self, states: int) -> Tile:
        """Return the register tile of a contraction with `states` accumulators per result, with room for a vector or two of each step.

        A sum has a single accumulator; argmax, for example, has a value and a position.
        """
        if self.register_count >= MANY_REGISTER_COUNT:
            return Tile((12, 4), 2) if states == 1 else Tile((6, 3), 2)
        return Tile((6, 4), 2) if states == 1 else Tile((4, 2), 1)

    @property
    def has_cheap_half_vectors(self) -> bool:
        """True if vectors of half the length may take half the time."""
        return self.vector_bytes >= 64

    @property
    def short_row_states(self) -> int:
        """The largest number of vectors in an iteration of a loop along a short row of accumulators: half of the registers.

        Rows are best read whole, but the other half of the registers holds sums of the next rows.
        """
        return self.register_count // 2

    @property
    def min_shared_vector_row(self) -> int:
        """Bytes of a row from which several rows are best reduced at a time with a vector that is the same for all rows. With vectors of
        less than 64 bytes it is 0: even a short row by itself waits for its own additions.
        """
        return self.loops.min_long_row_bytes if self.vector_bytes >= 64 else 0

    @property
    def min_streamed_row_bytes(self) -> int:
        """Bytes of a row from which several rows in memory are best reduced at a time: one row alone does not use its full speed."""
        return self.loops.min_wide_row_bytes if self.vector_bytes >= 64 else self.loops.min_streamed_row_bytes

    @property
    def has_cheap_masked_store(self) -> bool:
        """True if a masked store costs no more than a plain one. It takes a dozen cycles on processors without mask registers (AMD's with
        AVX2), and a branch for each lane on those without masks.
        """
        return self.has_feature("avx512f")

    @property
    def lacks_int64_to_float(self) -> bool:
        """True if no instruction converts a vector of 64-bit integers to floats."""
        return not (self.has_feature("avx512f") or self.has_feature("neon"))

    @property
    def identity(self) -> str:
        """A text that two targets share if they get the same code for the same loops, on any number of threads."""
        return _identity(self)


@register("texts of targets", "the text that identifies a machine, by target")
@cache  # computing the text takes longer than the lookups for which it is the key
def _identity(target: Target) -> str:
    """Return the text of `Target.identity` for `target`."""
    return f"{' '.join(sorted(target.features))} {target._replace(features=frozenset(), threads=1)}"


# --- the present machine ----------------------------------------------------------------------------------------------

CPU_FOLDER = "/sys/devices/system/cpu"
SYSCONF_LEVELS = ("SC_LEVEL1_DCACHE_SIZE", "SC_LEVEL2_CACHE_SIZE", "SC_LEVEL3_CACHE_SIZE")


def get_host_page_bytes() -> int:
    """Return the bytes of a page of memory; 4096 if the system does not tell."""
    return _sysconf("SC_PAGE_SIZE") or 1 << 12


def get_host_caches(system: FolderPath = CPU_FOLDER) -> Caches:
    """Return the caches of the lowest CPU allowed to this process, as Linux lists them in the folder `system`, else as `sysconf` tells.

    Without either the sizes are those of `Caches()`. If only some levels are known, the others are as large as those below them.
    """
    sizes, line = _read_cache_sizes(system)
    l1_bytes, l2_bytes, last_level_bytes = (sizes.get(level) or _sysconf(name) for level, name in enumerate(SYSCONF_LEVELS, start=1))
    defaults = Caches(line_bytes=line or _sysconf("SC_LEVEL1_DCACHE_LINESIZE") or Caches().line_bytes)
    l1_bytes = l1_bytes or defaults.l1_bytes
    if not (l2_bytes or last_level_bytes):
        return defaults._replace(l1_bytes=l1_bytes)
    l2_bytes = l2_bytes or l1_bytes
    return defaults._replace(l1_bytes=l1_bytes, l2_bytes=l2_bytes, last_level_bytes=max(l2_bytes, last_level_bytes))


def _read_cache_sizes(system: FolderPath) -> tuple[dict[int, int], int]:
    """Return the bytes of the data caches that Linux lists in the folder `system`, by level from 1, and the bytes of a line; {} and 0
    without a list.
    """
    sizes: dict[int, int] = {}
    line = 0
    caches = f"{system}/cpu{min(get_allowed_cpus())}/cache"
    try:
        folders = sorted(name for name in os.listdir(caches) if name.startswith("index"))
    except OSError:
        folders = []
    for index in folders:
        try:
            kind, level, size = (read_text(f"{caches}/{index}/{name}").strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                sizes[int(level)] = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1:], 0)
                line = int(read_text(f"{caches}/{index}/coherency_line_size"))
        except (OSError, ValueError):
            continue
    return sizes, line


def _sysconf(name: str) -> int:
    """Return the value of `name` in `os.sysconf`, which is not negative, or 0 if the system does not tell."""
    try:
        return max(os.sysconf(name), 0)
    except (AttributeError, OSError, ValueError):
        return 0
