"""Descriptions of machines: a `Target` is a value, passed to all code that plans loops or emits code. Tests pass other machines.

`Target.of_host` describes the present machine; no other code inspects it. The constants by which loops are planned stand here in groups,
each with its unit and its reason. They choose between ways to the same bits: block sizes, what is cached, what threads share. Constants
that decide the bits of results stand with the loops that they decide (`kernel/`, `llvm/reductions.py`): these may depend on no cache and no
number of threads; of a target they depend on the length of its vectors alone.

Constants that follow from cache sizes were measured best on machines with at least the caches of `Caches()`. They shrink with smaller
caches. They do not grow with larger ones, which are mostly shared.
"""

from __future__ import annotations

import os
from collections.abc import Set
from functools import cache

from .records import NamedTuple
from .system import Folder, may_run_on, said

ASKED_FOR = frozenset(("avx2", "avx512f", "f16c", "neon"))  # processor features that choose between ways to emit code
MANY_REGISTERS = 32  # vector registers from which the tiles of contractions are twice as high


NATIVE = "native"  # stands for the CPU of the present machine; LLVM is asked for its name at compile time


class Processor(NamedTuple):
    """A machine in the words of LLVM; all empty where only the text of the code is wanted."""

    triple: str = ""
    cpu: str = ""
    attributes: str = ""  # "+avx2,-avx512f": differences from the features of the CPU
    calling: str = ""  # the calling convention of kernels, written before the return type
    prefetches: bool = True  # whether prefetch instructions exist
    aligns_stack: bool = True  # whether a function may align its stack to cache lines

    @property
    def architecture(self) -> str:
        """The instruction set family, as LLVM names it."""
        name = self.triple.partition("-")[0]
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)


UNKNOWN = Processor()


class Caches(NamedTuple):
    """Sizes, in bytes, of the caches that a thread uses: the first-level data cache, the second level, the last level, and a cache line."""

    first: int = 1 << 15
    second: int = 1 << 19
    last: int = 1 << 25
    line: int = 64

    def tuned(self) -> Caches:
        """Return the sizes rounded down to powers of two, at most those of the machines on which the constants here were measured."""
        limits = Caches()
        first, second, last = map(min, (self.first, self.second, self.last), (limits.first, limits.second, limits.last))
        return self._replace(first=_floor_power_of_2(first), second=_floor_power_of_2(second), last=_floor_power_of_2(last))


# The units of the cache sizes in `Settings`: the largest divisors in `Passes.of` and `Blocks.of`.
_SECOND_UNIT_BYTES, _LAST_UNIT_BYTES = 64, 8


class Settings(NamedTuple):
    """The properties of a machine, apart from its instructions, on which plans depend: the tuned sizes of the second and the last cache, in
    units of `_SECOND_UNIT_BYTES` and `_LAST_UNIT_BYTES` bytes, and the number of threads.
    """

    second: int
    last: int
    threads: int


def _floor_power_of_2(size: int) -> int:
    """Return the largest power of two that is at most `size`, and at least 1."""
    return 1 << max(size, 1).bit_length() - 1


class Memory(NamedTuple):
    """The kind of memory of operands and tables: its name, and LLVM's number of the address space (0: pointers do not tell).

    With another address space, kernels use load instructions for this kind, and need not find it out at each access.
    """

    kind: str = "host"
    space: int = 0


class Tile(NamedTuple):
    """The register tile of a contraction, MR x NR: `mr` has the rows of whole tiles and then of lower tiles for the remainder, and `nr` is
    the number of vectors of columns.
    """

    mr: tuple[int, ...]
    nr: int


class Costs(NamedTuple):
    """Thresholds of work, in additions of one element."""

    kept: int = 10  # least cost of a value, computed in a reduction, for a row buffer from which a later loop reads it again
    kept_row: int = 3  # least cost of a loop-invariant value for a row buffer over the columns of a block
    cheap: int = 8  # maximal cost of an element for 4 vectors per iteration: the loop overhead would be as large as the work
    moderate: int = 24  # maximal cost of an element for 2 vectors per iteration
    apart: int = 25  # cost of a strided load, element by element
    indexed: int = 12  # cost of an indexed load: 2 vectors per iteration wait less for memory
    direct: int = 4  # maximal cost of the operations on a result of a contraction that are done in registers
    product: int = 8  # steps of a contraction in the time of one step elsewhere, as each element is reused from registers


class Fusing(NamedTuple):
    """Limits of fusion: when a node is inlined into its readers rather than stored."""

    places: int = 4  # maximal number of reads in one kernel; a node with more reads is stored
    cheap: int = 4  # additions per element that may be repeated for a larger result: a load costs as much
    trivial: int = 2  # operations in a constant that is faster to compute than to load
    repeatable: int = 64  # additions that may be repeated for several reads in one kernel
    few_results: int = 16  # results of a reduction below which threads cannot share it
    much: int = 1 << 18  # elements read, about the work that is worth sharing among threads
    longest: int = 512  # additions in an expanded kernel: in one of twice the length, each takes LLVM up to 1.5 times as long
    far_more: int = 32  # ratio of elements read to elements stored from which storing costs nothing in comparison
    results: int = 4  # results of one kernel
    streams: int = 12  # arrays that one kernel reads and writes: processors prefetch a few more streams


class Loops(NamedTuple):
    """Sizes of loops through memory."""

    singly: int = 4  # elements loaded one by one relative to one address, before the address is advanced
    columns: int = 4096  # columns in a block: their states, of 4 bytes, fill half of the first cache
    short_rows: int = 256  # columns of a matrix read as one block: whole rows are read one after the other
    narrow: int = 256  # columns in a block read more than once, which should stay in a cache
    abreast: int = 4  # rows reduced at a time (unroll and jam): their states, and those of their chunks, fit 32 registers
    streamed: int = 1 << 13  # bytes of a row from which several rows are read at a time: memory delivers several streams faster than one
    apart: int = 1 << 18  # `streamed` for long vectors: such processors read one stream fastest, unless rows are this far apart
    long_rows: int = 1 << 14  # bytes of a row from which it and the vector combined with every row evict each other from the first cache
    row: int = 1 << 14  # elements of a row buffer: it is on the stack, which is small in some threads
    rows: int = 1 << 19  # bytes of all row buffers of a kernel
    side: int = 64  # elements along a side of a tile through which transposed memory is read, while its lines stay in a cache
    tiles: int = 2  # tiles of transposed memory in one kernel: they are on the stack
    square: int = 8  # elements along a side of a block transposed in registers: 16 are 20 % faster, but take LLVM over twice as long
    masked: int = 4  # bytes of the smallest elements that are stored under a mask: processors have masks for these
    beside: int = 4  # adjacent elements written by a scatter from which it is vectorized

    @staticmethod
    def of(caches: Caches) -> Loops:
        """Return the sizes for the given caches: blocks of columns, and rows, by the first cache."""
        first_bytes = caches.first
        return Loops(columns=first_bytes // 8, short_rows=first_bytes // 128, narrow=first_bytes // 128, long_rows=first_bytes // 2)


class Passes(NamedTuple):
    """Limits of single-pass fusion, in which a matrix is read once for two contractions (`kernel/once.py`). It pays if a second read is
    expensive.
    """

    large: int = 1 << 24  # bytes of a matrix from which fusion pays, as no cache holds it until the second contraction
    least: int = 1 << 21  # bytes of a matrix with short rows from which fusion pays, as the second cache does not hold it
    short: tuple[int, int] = (1 << 9, 1 << 11)  # bytes of a short row, at least and at most
    row: int = 1 << 15  # maximal bytes of any row: a few rows, and one row of results, stay in the second cache
    columns: int = 1 << 13  # maximal columns: their states are on the stack

    @staticmethod
    def of(caches: Caches) -> Passes:
        """Return the limits for the given caches, by the second and the last one."""
        second, last = caches.second, caches.last
        return Passes(large=last // 2, least=4 * second, row=second // 16, columns=second // 64)

    def pays(self, nbytes: int, row: int) -> bool:
        """Return whether single-pass fusion pays for a matrix of `nbytes` bytes with rows of `row` bytes."""
        if row > self.row:
            return False
        return nbytes >= self.large or self.of_short_rows(nbytes, row)

    def of_short_rows(self, nbytes: int, row: int) -> bool:
        """Return whether a matrix of `nbytes` bytes has short rows, of `row` bytes, and is too large for the second cache."""
        return nbytes >= self.least and self.short[0] <= row <= self.short[1]


class Streams(NamedTuple):
    """Limits for non-temporal stores, which bypass the caches, so that large results do not evict other data; and for prefetching rows."""

    result: int = 1 << 23  # bytes of a result from which its stores may be non-temporal
    touched: int = 1 << 25  # bytes touched by a kernel from which no cache holds them
    vector: int = 32  # bytes of the shortest vector with a non-temporal store: half a cache line
    rows: tuple[int, int] = (1 << 7, 1 << 12)  # bytes of a reduced row, at least and at most, for which the next row is prefetched

    @staticmethod
    def of(caches: Caches) -> Streams:
        """Return the limits for the given caches: data bypass the last cache if they do not fit into it."""
        return Streams(result=caches.last // 4, touched=caches.last)


class Blocks(NamedTuple):
    """Sizes for contractions: which operands are packed, and the blocks of rows and columns."""

    direct_rows: int = 40  # maximal number of rows for which columns are not packed: packing would be half of the work
    direct_columns: int = 96  # maximal number of columns for which rows are not packed
    direct: int = 1 << 18  # maximal bytes of columns left unpacked for up to `few` rows: half of the second cache
    few: int = 400  # maximal rows to read unpacked columns, and columns to read unpacked rows: for more, packed memory is better
    nearest: int = 1 << 14  # maximal bytes of columns left unpacked for any number of rows: the first cache holds them
    apart: int = 1 << 12  # bytes; unpacked rows must not be a multiple of this apart: they would share a few sets of a cache
    places: int = 32  # maximal steps whose distance is a multiple of `apart` / 4: the lines of more evict each other from the first cache
    lines: int = 128  # maximal steps, each in another cache line, for which rows that no cache holds are not packed
    touched: int = 1 << 24  # maximal bytes of a batch of unpacked contractions: beyond, packing reads memory in order
    ahead: int = 1 << 21  # bytes of a batch from which the next contraction, of at most `near` bytes, is prefetched: no near cache holds it
    page: int = 1 << 12  # least bytes of the columns of a prefetched contraction: processors prefetch memory read in order by themselves
    rows: tuple[int, int] = (48, 240)  # rows in a block (MC), at least and at most: multiples of every MR
    columns: tuple[int, int] = (64, 4096)  # columns in a block (NC), at least and at most: whole vectors
    left: int = 1 << 22  # bytes of packed rows, which should stay in the last cache beside those of another thread
    right: int = 1 << 23  # bytes of packed columns, which all rows of a block are multiplied with
    fixed: int = 1 << 24  # bytes of rows that are the same for all iterations of the outer loops
    along: tuple[int, int] = (1 << 20, 1 << 25)  # bytes of results computed row by row, at least and at most: too many for the second cache
    row: int = 1 << 11  # least bytes of a row of results computed row by row
    mirrored: int = 32  # steps from which half of a symmetric result is faster to copy than to compute
    chunks: int = 2  # chunks (`pairs.AT_ONCE` steps) beyond which the loop over chunks is outside the panels: more do not fit a near cache
    longer: int = 2  # ratio of steps to rows or columns beyond which this loop is outside even if the states do not fit a near cache
    near: int = 1 << 19  # bytes of data in frequent use for a while, which stay in the second cache
    panels: int = 4  # panels packed at a time, so that memory is read in longer runs
    loops: int = 4  # iterations of the outer loops per thread below which threads share the rows or the columns instead

    @staticmethod
    def of(caches: Caches) -> Blocks:
        """Return the sizes for the given caches."""
        first, second, last = caches.first, caches.second, caches.last
        return Blocks(
            direct=second // 2,
            nearest=first // 2,
            apart=first // 8,
            lines=first // (4 * caches.line),
            touched=last // 2,
            ahead=4 * second,
            left=last // 8,
            right=last // 4,
            fixed=last // 2,
            along=(2 * second, last),
            near=second,
        )


class Sharing(NamedTuple):
    """Limits of launches and threads. Work is counted in additions of one element."""

    hold_lock: int = 1 << 16  # work below which a kernel keeps the GIL: releasing it takes as long
    share: int = 1 << 20  # work from which threads share a kernel: their meeting takes some microseconds
    awake: int = 1 << 19  # work from which threads that are polling share a kernel: without Python their meeting takes two microseconds
    alone: int = 3 << 20  # work up to which a contraction is done before Python could wake the worker threads
    first: int = 1 << 24  # work until Python handles signals the first time: about 10 ms, 100 ms for expensive elements
    growth: int = 4  # maximal growth of this work from one such time to the next
    moment: float = 0.08  # seconds between two such times, estimated from the last interval
    slice: int = 1 << 28  # work of a piece of a contraction between two such times
    longer: int = 32  # ratio by which packing contractions may run longer between such times: each piece packs its operands anew
    unbroken: int = 1 << 32  # work of an update in place that signals cannot interrupt, as lost data cannot be recomputed: under a second
    in_place: int = 1 << 20  # bytes from which an unreferenced operand donates its memory to the result; the test takes time
    pieces: int = 4  # pieces of a loop per thread, so that a slow thread delays little
    polls: int = 8000  # polls of a thread for work before it sleeps: about 0.1 ms
    rows: int = 24  # rows of a contraction that two threads should not share: whole tiles
    steps: int = 64  # vectorized iterations, or columns, that two threads should not share: whole cache lines of single bytes
    longest: int = 512  # least columns of a block that a thread takes, unless the block is narrower
    scattered: int = 1 << 18  # values of a scatter from which threads share blocks of adjacent elements
    scattered_block: int = 32  # least adjacent elements in a block of a scatter


class Target(NamedTuple):
    """A machine for which loops are planned and code is emitted: its vectors, instructions, caches and threads, and the constants for
    these.

    Vectors have `vector_bytes` bytes (0: none, and everything is computed element by element), and there are `registers` of them.
    `features` are the processor features that the emitter asks for, by LLVM's names. Wide vectors imply no instructions: those of AVX-512
    are used if it is among the features.
    """

    vector_bytes: int
    features: frozenset[str] = frozenset()
    registers: int = 16
    processor: Processor = UNKNOWN
    caches: Caches = Caches()
    memory: Memory = Memory()
    page: int = 1 << 12  # bytes; the scratch memory of each thread is a multiple of it
    threads: int = 1  # threads that share loops
    costs: Costs = Costs()
    fusing: Fusing = Fusing()
    loops: Loops = Loops()
    passes: Passes = Passes()
    streams: Streams = Streams()
    blocks: Blocks = Blocks()
    sharing: Sharing = Sharing()

    @staticmethod
    def of_host(features: Set[str], processor: Processor = UNKNOWN) -> Target:
        """Return the present machine with these features and one thread: the widest vectors among them, and blocks for its caches."""
        nbytes = 64 if "avx512f" in features else 32 if "avx2" in features else 16
        registers = MANY_REGISTERS if not features.isdisjoint(("avx512f", "neon")) else 16
        target = Target(nbytes, frozenset(features & ASKED_FOR), registers, processor, page=page_of_host())
        return target.with_caches(caches_of_host())

    def with_caches(self, caches: Caches) -> Target:
        """Return the machine with other caches, and the constants for these."""
        return self._planned_for(caches.tuned())._replace(caches=caches)

    def _planned_for(self, tuned: Caches) -> Target:
        groups = Loops.of(tuned), Streams.of(tuned), Blocks.of(tuned)
        return self._replace(loops=groups[0], streams=groups[1], blocks=groups[2], passes=Passes.of(tuned))

    def shared_by(self, threads: int) -> Target:
        """Return the machine with another number of threads."""
        return self if threads == self.threads else self._replace(threads=threads)

    @property
    def settings(self) -> Settings:
        """The properties, apart from the instructions, by which plans for such machines differ."""
        tuned = self.caches.tuned()
        return Settings(tuned.second // _SECOND_UNIT_BYTES, tuned.last // _LAST_UNIT_BYTES, self.threads)

    def with_settings(self, settings: Settings) -> Target:
        """Return the machine with these settings, as far as plans depend on it; the machine itself if the settings are its own."""
        tuned = self.caches.tuned()._replace(second=settings.second * _SECOND_UNIT_BYTES, last=settings.last * _LAST_UNIT_BYTES)
        return self._planned_for(tuned)._replace(threads=settings.threads)

    def has(self, feature: str) -> bool:
        """Return whether the processor has the instructions of this name."""
        return feature in self.features

    def lanes(self, itemsize: int) -> int:
        """Return the number of elements of `itemsize` bytes in a vector; 1 without vectors."""
        return max(2, self.vector_bytes // itemsize) if self.vector_bytes else 1

    def tile(self, states: int) -> Tile:
        """Return the register tile of a contraction whose reduction has `states` scalars in its state, with room for a vector or two of
        each step.
        """
        if self.registers >= MANY_REGISTERS:
            return Tile((12, 4), 2) if states == 1 else Tile((6, 3), 2)
        return Tile((6, 4), 2) if states == 1 else Tile((4, 2), 1)

    @property
    def halves(self) -> bool:
        """True if vectors of half the length may take half the time."""
        return self.vector_bytes >= 64

    @property
    def states_abreast(self) -> int:
        """Vectors per iteration for a short row that is reduced into states. Rows are best read whole, but half of the registers hold sums
        of the next rows.
        """
        return self.registers // 2

    @property
    def with_the_same(self) -> int:
        """Bytes of a row from which several rows are best reduced at a time with a vector that is the same for all rows. With short vectors
        it is 0: even a short row by itself waits for its own additions.
        """
        return self.loops.long_rows if self.vector_bytes >= 64 else 0

    @property
    def streamed(self) -> int:
        """Bytes of a row from which several rows are best reduced at a time, as they come from memory."""
        return self.loops.apart if self.vector_bytes >= 64 else self.loops.streamed

    @property
    def stores_under_masks(self) -> bool:
        """True if a masked store costs no more than a plain one. It takes a dozen cycles on processors without mask registers (AMD's with
        AVX2), and a branch for each lane on those without masks.
        """
        return self.has("avx512f")

    @property
    def takes_longs_apart(self) -> bool:
        """True if no instruction converts a vector of 64-bit integers to floats."""
        return not (self.has("avx512f") or self.has("neon"))

    @property
    def identity(self) -> str:
        """A text that two targets share if they get the same code for the same loops, on any number of threads."""
        return _identity(self)


@cache  # computing the text takes longer than the lookups for which it is the key
def _identity(target: Target) -> str:
    return f"{' '.join(sorted(target.features))} {target._replace(features=frozenset(), threads=1)}"


# --- the present machine ----------------------------------------------------------------------------------------------

CPU_FOLDER = "/sys/devices/system/cpu"
SYSCONF_LEVELS = ("SC_LEVEL1_DCACHE_SIZE", "SC_LEVEL2_CACHE_SIZE", "SC_LEVEL3_CACHE_SIZE")


def page_of_host() -> int:
    """Return the bytes of a page of memory; 4096 if the system does not tell."""
    return _sysconf("SC_PAGE_SIZE") or 1 << 12


def caches_of_host(system: Folder = CPU_FOLDER) -> Caches:
    """Return the caches of the CPU that this process runs on, as Linux lists them in `/sys`, else as `sysconf` tells.

    Without either the sizes are those of `Caches()`. If only some levels are known, the others are as large as those below them.
    """
    sizes, line = _read_cache_sizes(system)
    first, second, last = (sizes.get(level) or _sysconf(name) for level, name in enumerate(SYSCONF_LEVELS, start=1))
    defaults = Caches(line=line or _sysconf("SC_LEVEL1_DCACHE_LINESIZE") or Caches().line)
    first = first or defaults.first
    if not (second or last):
        return defaults._replace(first=first)
    second = second or first
    return defaults._replace(first=first, second=second, last=max(second, last))


def _read_cache_sizes(system: Folder) -> tuple[dict[int, int], int]:
    """Return the sizes, by level, of the data caches that Linux lists, and the bytes of a line; {} and 0 without a list."""
    sizes: dict[int, int] = {}
    line = 0
    caches = f"{system}/cpu{min(may_run_on())}/cache"
    try:
        folders = sorted(name for name in os.listdir(caches) if name.startswith("index"))
    except OSError:
        folders = []
    for index in folders:
        try:
            kind, level, size = (said(f"{caches}/{index}/{name}").strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                sizes[int(level)] = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1:], 0)
                line = int(said(f"{caches}/{index}/coherency_line_size"))
        except (OSError, ValueError):
            continue
    return sizes, line


def _sysconf(name: str) -> int:
    """Return the value of a `sysconf` name, or 0."""
    try:
        return max(os.sysconf(name), 0)
    except (AttributeError, OSError, ValueError):
        return 0
