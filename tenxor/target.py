"""What a machine is: a value, which is given to whoever plans loops or makes code. Tests give others than the present machine.

`Target.of_host` describes the present one; nobody else reads it. The numbers that loops are planned by stand here in groups,
each with its unit and its reason. They choose between ways to the same bits: how large a block is, what is kept, who shares
what. What decides the bits of results stands with the loops that it decides (`kernel/`, `llvm/reductions.py`), as these may depend on
no cache and no number of threads; of a target they depend on the length of its vectors alone.

Numbers that follow from caches are what was measured best on machines with at least the caches of `Caches()`. They shrink with
smaller ones, and do not grow with larger ones, which are mostly shared.
"""

from __future__ import annotations

import os
from collections.abc import Set
from functools import cache

from .records import NamedTuple
from .system import Folder, may_run_on, said

ASKED_FOR = frozenset(("avx2", "avx512f", "f16c", "neon"))  # features that code looks at
MANY_REGISTERS = 32  # from which tiles of products are twice as high


NATIVE = "native"  # the CPU of the present machine, whichever that is: LLVM is asked when something is compiled for it


class Processor(NamedTuple):
    """What LLVM is told of a machine, in its own words; nothing, where only the text for it is wanted."""

    triple: str = ""
    cpu: str = ""
    attributes: str = ""  # "+avx2,-avx512f": what differs from what the CPU is said to have
    calling: str = ""  # the calling convention of kernels, before the type that they return
    prefetches: bool = True  # whether lines of caches can be asked for
    aligns_stack: bool = True  # whether a function may ask for a stack that begins at whole lines

    @property
    def architecture(self) -> str:
        """The family of instructions, as LLVM names it."""
        name = self.triple.partition("-")[0]
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)


UNKNOWN = Processor()


class Caches(NamedTuple):
    """Sizes in bytes, of those that a thread sees: the nearest one of data, the second, the last, and a line of them."""

    first: int = 1 << 15
    second: int = 1 << 19
    last: int = 1 << 25
    line: int = 64

    def tuned(self) -> Caches:
        """Powers of two, not above those of the machines that the numbers here were found on."""
        most = Caches()
        first, second, last = map(min, (self.first, self.second, self.last), (most.first, most.second, most.last))
        return self._replace(first=_power(first), second=_power(second), last=_power(last))


_SECOND, _LAST = 64, 8  # bytes, by which numbers that follow from the second cache, and from the last, are not divided further


class Settings(NamedTuple):
    """What plans ask of a machine beside its instructions: the tuned sizes of its second cache and its last, so many times these bytes,
    and the threads.
    """

    second: int
    last: int
    threads: int


def _power(size: int) -> int:
    """The largest power of two that is not above a size."""
    return 1 << max(size, 1).bit_length() - 1


class Memory(NamedTuple):
    """The kind of memory that operands and tables lie in: its name, and LLVM's number of the address space (0: pointers do not tell).

    Where pointers tell, kernels load by instructions for that kind, and need not find out each time.
    """

    kind: str = "host"
    space: int = 0


class Tile(NamedTuple):
    """The register tile of a product, MR x NR: `mr` rows (first of whole tiles, then of lower ones for what is left), and the columns
    in `nr` vectors.
    """

    mr: tuple[int, ...]
    nr: int


class Costs(NamedTuple):
    """Work in additions of one element, up to or from which something is done."""

    kept: int = 10  # from which what a reduction computes is kept for the loop that needs it again
    kept_row: int = 3  # and what is the same for all steps of a loop, for the columns of a block
    cheap: int = 8  # of an element, up to which a step takes four vectors: its loop would cost as much as the work
    moderate: int = 24  # and up to which it takes two
    apart: int = 25  # loading the elements of a vector one by one
    indexed: int = 12  # and where indices say: two vectors of them at once wait less for memory
    direct: int = 4  # with a result of a product, up to which it is done straight from the registers
    product: int = 8  # steps of a product in the time of one elsewhere: registers serve each element many times


class Fusing(NamedTuple):
    """What is inlined, rather than stored."""

    places: int = 4  # of one kernel, at more of which a node is stored once instead
    cheap: int = 4  # additions for each element, that may be repeated for a larger result: a load costs as much
    trivial: int = 2  # operations in a constant that is sooner computed than loaded
    repeatable: int = 64  # additions that may be repeated at a few places of one kernel
    few_results: int = 16  # of a reduction: too few to share them among threads
    much: int = 1 << 18  # elements that are read: about the work that is worth sharing
    longest: int = 512  # additions in a kernel, written out: twice as long, and each takes LLVM up to half as long again
    far_more: int = 32  # times as many elements read as stored, from which storing costs nothing beside
    results: int = 4  # of one kernel
    streams: int = 12  # that it reads and writes: processors follow a few more through memory


class Loops(NamedTuple):
    """Loops through memory: how much at a time."""

    singly: int = 4  # elements loaded one by one from one place in memory, before the place is moved on
    columns: int = 4096  # in a block: their states, of four bytes, fill half of the nearest cache
    short_rows: int = 256  # columns in a block where there are no more: whole rows are read one after the other
    narrow: int = 256  # columns in a block that is read more than once: it should stay in some cache
    abreast: int = 4  # rows that are reduced at a time: their states, and those of their chunks, are in 32 registers
    streamed: int = 1 << 13  # bytes of a row from which some are read at a time: memory answers several streams sooner than one
    apart: int = 1 << 18  # the same where vectors are long: such processors read one stream fastest, until rows are so far apart
    long_rows: int = 1 << 14  # bytes of a row from which it and what all rows are taken with push each other out of the nearest cache
    row: int = 1 << 14  # elements of a row that is kept: it lies on the stack, and some threads have small ones
    rows: int = 1 << 19  # bytes of all rows that a kernel keeps there
    side: int = 64  # elements along a tile through which memory is read across: its lines are used up while they are near
    tiles: int = 2  # in one kernel: they lie on the stack
    square: int = 8  # elements along what is transposed in registers: 16 are a fifth faster, and take LLVM more than twice as long
    masked: int = 4  # bytes of the least elements that are worth storing under a mask: processors have masks for these
    beside: int = 4  # neighbours that a scatter writes from which they are worth lanes

    @staticmethod
    def of(caches: Caches) -> Loops:
        """Blocks of columns, and rows, as the nearest cache allows."""
        near = caches.first
        return Loops(columns=near // 8, short_rows=near // 128, narrow=near // 128, long_rows=near // 2)


class Passes(NamedTuple):
    """A matrix that is read once for two products (`kernel/once.py`): it pays by what reading it again would cost."""

    large: int = 1 << 24  # bytes of a matrix from which it is read once, as no cache holds it till the second product
    least: int = 1 << 21  # and from which that is so where its rows are short, as no near cache does
    short: tuple[int, int] = (1 << 9, 1 << 11)  # bytes of such rows, at least and at most
    row: int = 1 << 15  # bytes of any row at most: a few rows, and one of results, stay in the second cache
    columns: int = 1 << 13  # in a row at most: their states lie on the stack

    @staticmethod
    def of(caches: Caches) -> Passes:
        """As the second cache allows, and the last."""
        second, last = caches.second, caches.last
        return Passes(large=last // 2, least=4 * second, row=second // 16, columns=second // 64)

    def pays(self, nbytes: int, row: int) -> bool:
        """Whether a matrix of so many bytes, with rows of so many, is best read once."""
        if row > self.row:
            return False
        return nbytes >= self.large or self.of_short_rows(nbytes, row)

    def of_short_rows(self, nbytes: int, row: int) -> bool:
        """Whether so many bytes, which lie in rows of so many, are short rows that no near cache holds."""
        return nbytes >= self.least and self.short[0] <= row <= self.short[1]


class Streams(NamedTuple):
    """Results that would only drive other things out of the caches, and are written past them."""

    result: int = 1 << 23  # bytes of a result from which it may be
    touched: int = 1 << 25  # and of all that its kernel touches: no cache holds that
    vector: int = 32  # bytes of the least vector that is worth it: it is half a line
    rows: tuple[int, int] = (1 << 7, 1 << 12)  # of a row that is reduced, from which to which the next is asked for meanwhile

    @staticmethod
    def of(caches: Caches) -> Streams:
        """Past the last cache goes what does not fit into it."""
        return Streams(result=caches.last // 4, touched=caches.last)


class Blocks(NamedTuple):
    """Products: what is packed, and in which blocks of rows and columns."""

    direct_rows: int = 40  # up to which columns are read where they lie: packing would be half of the work
    direct_columns: int = 96  # and rows
    direct: int = 1 << 18  # bytes of all columns, up to which they are read where they lie, too: half of the second cache
    few: int = 400  # rows that need such columns, or columns that need any rows: for more it is better in one piece
    nearest: int = 1 << 14  # bytes of all columns that are read where they lie for any number of rows: the nearest cache holds them
    apart: int = 1 << 12  # bytes, but such rows should not be a multiple of that apart: they would share a few places of a cache
    places: int = 32  # lines of the nearest cache that are a multiple of a quarter of that apart: more steps push each other out of it
    lines: int = 128  # steps, each in a line of its own, up to which rows that no cache holds are read where they lie
    touched: int = 1 << 24  # bytes of all such products: beyond, memory is read in order, and packing does that if the next is too large
    ahead: int = 1 << 21  # and from which the next is asked for meanwhile, as no near cache holds it; it may have `near` bytes
    page: int = 1 << 12  # if its columns have so many bytes, and are no single panel: what is in order processors find by themselves
    rows: tuple[int, int] = (48, 240)  # in a block (MC), at least and at most: multiples of every MR
    columns: tuple[int, int] = (64, 4096)  # and columns (NC): whole vectors of them
    left: int = 1 << 22  # bytes of packed rows, which should stay in the last cache with those of another thread
    right: int = 1 << 23  # bytes of packed columns, which all rows of a block are taken with
    fixed: int = 1 << 24  # bytes of rows that are the same for all outer loops
    along: tuple[int, int] = (1 << 20, 1 << 25)  # bytes of results that are written row by row, as the second cache does not hold them
    row: int = 1 << 11  # bytes of such a row, at least
    mirrored: int = 32  # steps from which half of symmetric results is sooner copied than computed
    chunks: int = 2  # of some hundred steps, beyond which they go around all panels: what is packed for all of them is in no near cache
    longer: int = 2  # times as many steps as rows or columns, beyond which they do even if the states of all are in no near cache
    near: int = 1 << 19  # bytes of what is needed again and again for a while: it stays in the second cache
    panels: int = 4  # packed at once: memory is read in longer pieces
    loops: int = 4  # steps of outer loops for each thread, up to which they share the rows, or the columns, instead

    @staticmethod
    def of(caches: Caches) -> Blocks:
        """Blocks as the caches allow."""
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
    """Calls and threads; work is counted in additions of one element."""

    hold_lock: int = 1 << 16  # below which a kernel keeps Python's lock: to give it back takes as long
    share: int = 1 << 20  # from which threads share a kernel: they need some microseconds to meet
    awake: int = 1 << 19  # and from which those do that poll for work: to call them without Python takes two
    alone: int = 3 << 20  # up to which a product is done before Python has asked helpers
    first: int = 1 << 24  # after which Python may listen to signals: a hundredth of a second, a tenth where each element costs much
    growth: int = 4  # times as much is done until the next time, at the most
    moment: float = 0.08  # seconds until then, as far as is known from the last time
    slice: int = 1 << 28  # work of a piece of a product
    longer: int = 32  # times as long may products run until then: each piece packs anew what it reads
    unbroken: int = 1 << 32  # which no signal can end, where what is lost cannot be computed again: less than a second
    in_place: int = 1 << 20  # bytes from which an operand that dies donates its memory to the result; finding out takes time
    pieces: int = 4  # of a loop for each thread, so that a slow one holds up little
    polls: int = 8000  # of a thread for work before it sleeps: about a tenth of a millisecond
    rows: int = 24  # of a product that no two threads should share: whole tiles
    steps: int = 64  # with lanes, or columns, that no two threads should share: whole lines of single bytes
    longest: int = 512  # columns that a thread takes at least of a block of them
    scattered: int = 1 << 18  # values of a scatter from which threads share blocks of neighbours
    scattered_block: int = 32  # neighbours in such a block, at least


class Target(NamedTuple):
    """Vectors of `vector_bytes` bytes (0: there are none, and all is computed element by element), so many `registers` of them, and
    instructions: the `features` of the processor that code asks for, by LLVM's names.

    Wide vectors promise no instructions of their own: those of AVX-512 are used where it is named among the features.
    """

    vector_bytes: int
    features: frozenset[str] = frozenset()
    registers: int = 16
    processor: Processor = UNKNOWN
    caches: Caches = Caches()
    memory: Memory = Memory()
    page: int = 1 << 12  # bytes, of which each thread's scratch memory takes a multiple
    threads: int = 1  # that share loops
    costs: Costs = Costs()
    fusing: Fusing = Fusing()
    loops: Loops = Loops()
    passes: Passes = Passes()
    streams: Streams = Streams()
    blocks: Blocks = Blocks()
    sharing: Sharing = Sharing()

    @staticmethod
    def of_host(features: Set[str], processor: Processor = UNKNOWN) -> Target:
        """The present machine, with these features and one thread: the widest vectors among them, and blocks for its caches."""
        nbytes = 64 if "avx512f" in features else 32 if "avx2" in features else 16
        registers = MANY_REGISTERS if not features.isdisjoint(("avx512f", "neon")) else 16
        made = Target(nbytes, frozenset(features & ASKED_FOR), registers, processor, page=page_of_host())
        return made.with_caches(caches_of_host())

    def with_caches(self, caches: Caches) -> Target:
        """The machine with other caches, and the blocks that these allow."""
        return self._planned_for(caches.tuned())._replace(caches=caches)

    def _planned_for(self, tuned: Caches) -> Target:
        made = Loops.of(tuned), Streams.of(tuned), Blocks.of(tuned)
        return self._replace(loops=made[0], streams=made[1], blocks=made[2], passes=Passes.of(tuned))

    def shared_by(self, threads: int) -> Target:
        """The machine with so many threads."""
        return self if threads == self.threads else self._replace(threads=threads)

    @property
    def settings(self) -> Settings:
        """What such machines differ in, of all that loops are planned by."""
        tuned = self.caches.tuned()
        return Settings(tuned.second // _SECOND, tuned.last // _LAST, self.threads)

    def with_settings(self, its: Settings) -> Target:
        """Such a machine, as far as loops are planned: what it is, itself, where these are its own settings."""
        tuned = self.caches.tuned()._replace(second=its.second * _SECOND, last=its.last * _LAST)
        return self._planned_for(tuned)._replace(threads=its.threads)

    def has(self, feature: str) -> bool:
        """Whether the processor has the instructions of this name."""
        return feature in self.features

    def lanes(self, itemsize: int) -> int:
        """How many elements of so many bytes a vector holds; 1 where there are no vectors."""
        return max(2, self.vector_bytes // itemsize) if self.vector_bytes else 1

    def tile(self, states: int) -> Tile:
        """The register tile of a product whose reduction has so many states, beside a vector or two of each step."""
        if self.registers >= MANY_REGISTERS:
            return Tile((12, 4), 2) if states == 1 else Tile((6, 3), 2)
        return Tile((6, 4), 2) if states == 1 else Tile((4, 2), 1)

    @property
    def halves(self) -> bool:
        """Whether vectors of half the length may take half the time."""
        return self.vector_bytes >= 64

    @property
    def states_abreast(self) -> int:
        """Vectors in a step through a short row that is reduced into states: it is best read whole, but half of the registers have a sum
        of the next few rows each.
        """
        return self.registers // 2

    @property
    def with_the_same(self) -> int:
        """Bytes of a row from which some are best reduced at a time with what is the same for all rows. Where vectors are short, a row
        alone waits for its own additions, however short it is.
        """
        return self.loops.long_rows if self.vector_bytes >= 64 else 0

    @property
    def streamed(self) -> int:
        """Bytes of a row from which some are best reduced at a time, as they come from memory."""
        return self.loops.apart if self.vector_bytes >= 64 else self.loops.streamed

    @property
    def stores_under_masks(self) -> bool:
        """Whether it costs nothing to store a vector under a mask: it takes processors a dozen cycles where masks are no registers of
        their own (AMD's with AVX2), and a branch for each lane where there are none.
        """
        return self.has("avx512f")

    @property
    def takes_longs_apart(self) -> bool:
        """Whether no instruction makes floats of a vector of 64-bit integers."""
        return not (self.has("avx512f") or self.has("neon"))

    @property
    def identity(self) -> str:
        """Text that two targets share if they get the same code for the same loops, on however many threads."""
        return _identity(self)


@cache  # as it takes longer than to ask for what is known by it
def _identity(target: Target) -> str:
    return f"{' '.join(sorted(target.features))} {target._replace(features=frozenset(), threads=1)}"


# --- the present machine ----------------------------------------------------------------------------------------------

SYSTEM = "/sys/devices/system/cpu"
LEVELS = ("SC_LEVEL1_DCACHE_SIZE", "SC_LEVEL2_CACHE_SIZE", "SC_LEVEL3_CACHE_SIZE")


def page_of_host() -> int:
    """The bytes of a page of memory; 4096 where the system does not say."""
    return _asked("SC_PAGE_SIZE") or 1 << 12


def caches_of_host(system: Folder = SYSTEM) -> Caches:
    """The caches of the CPU that this process runs on, as Linux lists them in `/sys`, else as `sysconf` tells.

    What neither says is as in `Caches()`; but where only some levels are known, the others are as large as those below them.
    """
    sizes, line = _listed(system)
    first, second, last = (sizes.get(level) or _asked(name) for level, name in enumerate(LEVELS, start=1))
    usual = Caches(line=line or _asked("SC_LEVEL1_DCACHE_LINESIZE") or Caches().line)
    first = first or usual.first
    if not (second or last):
        return usual._replace(first=first)
    second = second or first
    return usual._replace(first=first, second=second, last=max(second, last))


def _listed(system: Folder) -> tuple[dict[int, int], int]:
    """The sizes, by level, of the caches for data that Linux lists, and the bytes of a line; empty and 0 where it lists none."""
    sizes: dict[int, int] = {}
    line = 0
    caches = f"{system}/cpu{min(may_run_on())}/cache"
    try:
        listed = sorted(name for name in os.listdir(caches) if name.startswith("index"))
    except OSError:
        listed = []
    for index in listed:
        try:
            kind, level, size = (said(f"{caches}/{index}/{name}").strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                sizes[int(level)] = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1:], 0)
                line = int(said(f"{caches}/{index}/coherency_line_size"))
        except (OSError, ValueError):
            continue
    return sizes, line


def _asked(name: str) -> int:
    """What `sysconf` says under a name, or 0."""
    try:
        return max(os.sysconf(name), 0)
    except (AttributeError, OSError, ValueError):
        return 0
