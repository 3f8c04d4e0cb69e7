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
TURNS = 1 << 10  # iterations of a repeated plan whose arguments are packed at a time
apart, helping = LateModule("tenxor.apart"), LateModule("tenxor.backend.helpers")  # imported with the first long launch
repeating = LateModule("tenxor.backend.llvm.repeating")
GO_ON, STOP = bytes(8), b"\1" * 8  # the values of the stop flag, behind the sizes of a kernel that listens


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
        made = compiler()
        if made.target.threads != num_threads():
            made.target = made.target.shared_by(num_threads())
        return made.target

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
        made = compiler().shipped
        return None if made is None else made.plan(text)

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
        time, first = max(1, sum([x.time for x in bound])), self.target.sharing.first
        if len(bound) < len(launches) or time > first:  # the launches are shown, or an iteration is long
            super().repeat(launches, places, scalars, offsets, turns)
            return
        threads, pieces = num_threads(), [x.piece() for x in bound]
        page, code = self.target.page, compiler().repeating()
        most = -(-max([x.scratch for x in bound], default=0) // page) * page
        scratch = allocate(most * threads, "scan") if most else None
        own = (0, 0) if scratch is None else (scratch.address, most)
        for begin in range(0, turns, TURNS):
            some = min(turns - begin, TURNS)
            blocks = [x.blocks(k, places, scalars, offsets, begin, some, own) for x, (_, k) in zip(bound, launches, strict=True)]
            alone, shared = _rows(bound, blocks, [0] * len(bound)), _rows(bound, blocks, pieces)
            for turn in range(0, some, first // time):  # Python may handle signals after each part
                end = min(turn + first // time, some)
                with helping.helpers() if any(pieces) else nullcontext() as helped:
                    # A signal handler may have raised the number of threads; then the scratch memory does not suffice.
                    if helped is None or helped.many >= threads:
                        code(alone, len(bound), turn, end, 0, 0, 0)
                    else:
                        code(shared, len(bound), turn, end, *helped)

    def listing(self, kernel: Kernel) -> str:
        return compiler().assembly(kernel)


def _rows(bound: Sequence[_Bound], blocks: Sequence[Array], pieces: Sequence[int]) -> bytes:
    """Return the packed records of kernels for the machine code that runs them in turn (`repeating.py`)."""
    each = zip(bound, blocks, pieces, strict=True)
    rows = [(x.code.address, x.split, its.ctypes.data, its.shape[1] * 8, piece) for x, its, piece in each]
    return struct.pack(f"={len(rows) * repeating.WORDS}q", *[word for row in rows for word in row])


class _Bound:
    """A kernel with the packed arguments for a set of shapes. A launch fills in only the addresses and the scalars."""

    __slots__ = (
        "at",
        "brief",
        "code",
        "end",
        "flagged",
        "grain",
        "in_order",
        "itemsize",
        "looked_up",
        "more",
        "pack",
        "scalars",
        "scratch",
        "sizes",
        "sources",
        "split",
        "tables",
        "target",
        "time",
        "told",
        "uneven",
        "work",
    )

    def __init__(self, code: MachineCode, arguments: Arguments) -> None:
        kernel = code.facts
        codes = "".join("d" if d.kind == "float" else "Q" if d.kind == "uint" else "q" for d in kernel.scalars)
        self.looked_up = [t.offsets for t in arguments.tables]  # keeps the memory of the tables alive
        tables = [offsets.ctypes.data for offsets in self.looked_up]
        self.code, self.flagged = code, kernel.flagged
        self.tables = struct.pack(f"={len(tables)}q", *tables)
        self.sizes = struct.pack(f"={len(arguments.sizes)}q", *arguments.sizes) + GO_ON * kernel.listens
        before = f"={len(kernel.itemsizes)}q{len(self.tables)}s{codes}"
        self.pack = struct.Struct(f"{before}{len(self.sizes)}s").pack
        self.told = struct.calcsize(before) + 8 * len(arguments.sizes)  # the offset of the stop flag, in bytes
        itemsizes = kernel.itemsizes
        self.at, more = arguments.out
        self.more, self.itemsize = more * itemsizes[0], itemsizes[0]
        sources = zip(arguments.sources, itemsizes[1:], strict=False)
        self.sources = [(k, at, more * n, n) for (k, at, more), n in sources]
        self.scalars = arguments.scalars
        self.end = Integer(arguments.split)
        self.split, self.work, self.scratch = arguments.split, arguments.work, arguments.scratch
        self.target = target = compiler().target
        self.brief = self.work < target.sharing.hold_lock
        self.grain = kernel.least  # 0 if no loop runs in chunks
        self.in_order = kernel.shared < 0
        self.time = self.work if kernel.product is None else self.work // target.costs.product
        self.uneven = 2 if kernel.product is not None and kernel.product.twins else 1  # with symmetric results, the first rows take longest

    def launch(self, out: Buffer, given: Given, once: Once | None = None) -> bool:
        """Run the kernel, and return whether it met an index out of range; see `interface.Launch`."""
        nodes, offsets = given.nodes, given.offsets
        words: list[object] = [out.address + self.more + offsets[self.at] * self.itemsize]
        for k, at, more, itemsize in self.sources:
            words.append(nodes[k].buffer.address + more + offsets[at] * itemsize)
        flag = None
        if self.flagged:
            flag = Integer()
            words.append(ctypes.addressof(flag))
        words.append(self.tables)
        for k, imag in self.scalars:
            value = given.scalars[k].value
            words.append(value.imag if imag else value.real)
        block = self.pack(*words, self.sizes)
        threads = num_threads() if self.scratch or not self.brief else 1
        scratch = None
        if self.scratch:
            page = self.target.page
            size = -(-self.scratch // page) * page
            scratch = allocate(size * threads, self.code.kernel.name)
            block += struct.pack("=2q", scratch.address, size)
        if once is None and self.brief:
            self.code.call(block, ZERO, self.end, ZERO)
        elif once is None:
            self.much(block, threads)
        elif self.brief:
            only_once(partial(self.code.call, block, ZERO, self.end, ZERO), once)
        else:
            self.in_place(block, once, threads, [nodes[k].buffer for k, *_ in self.sources], (out, flag, scratch))
        return flag is not None and flag.value != 0

    def piece(self) -> int:
        """Return how many iterations of the loop a thread takes at once, if threads share the loop; else 0."""
        threads = num_threads()
        if threads == 1 or not self.grain:
            return 0
        _, grain, alone = self.shares(threads)
        return 0 if alone or self.split <= grain else helping.piece_of(self.split, grain, self.target.sharing)

    def blocks(
        self,
        out: int,
        places: Sequence[Place | None],
        scalars: list[Scalar],
        offsets: list[int],
        begin: int,
        turns: int,
        scratch: tuple[int, int],
    ) -> Array:
        """Return the packed arguments of `turns` iterations from `begin` on, a row of 64-bit words for each iteration.

        `out` is the number of the place to fill. `scratch` is the address of the scratch memory, and its bytes per thread.
        """
        words: list[object] = []
        moving: list[tuple[int, Array]] = []
        for k, at, more, itemsize in [(out, self.at, self.more, self.itemsize), *self.sources]:
            place = places[k]
            assert place is not None
            address = place.buffer.address + more + offsets[at] * itemsize
            if len(place.starts) == 1:
                words.append(address + int(place.starts[0]))
            else:
                words.append(0)
                moving.append((len(words) - 1, place.starts[begin : begin + turns] + address))
        words.append(self.tables)
        words += [scalars[k].value.imag if imag else scalars[k].value.real for k, imag in self.scalars]
        block = self.pack(*words, self.sizes)
        if self.scratch:
            block += struct.pack("=2q", *scratch)
        found = np.empty((turns, len(block) // 8), np.int64)
        found[:] = np.frombuffer(block, np.int64)
        for column, addresses in moving:
            found[:, column] = addresses
        return found

    def shares(self, threads: int) -> tuple[int, int, bool]:
        """Return how `threads` threads share the loop: the time in additions, the grain of the chunks, and whether a thread runs alone."""
        work, grain, sharing = self.work, self.grain or 1, self.target.sharing
        alone = work < sharing.share or self.in_order
        if self.scratch:  # each chunk packs its operands anew
            work //= sharing.longer
            pieces = threads * self.uneven * (work // sharing.slice + 1)
            grain *= -(-self.split // (grain * pieces))
        return min(work, self.time), grain, alone  # a product takes a fraction of its work, whether it packs or not

    def much(self, packed: bytes, threads: int) -> None:
        """Run the kernel with the GIL released, on `threads` threads if the work is large. `packed` are the arguments."""
        sharing = self.target.sharing
        work, grain, alone = self.shares(threads)
        block: Block = packed
        stop = None
        if self.code.facts.listens:
            block = ctypes.create_string_buffer(packed, len(packed))
            stop = partial(ctypes.memmove, ctypes.addressof(block) + self.told, STOP, len(STOP))
        is_short = work < min(self.code.moment or sharing.first, sharing.first)
        if self.grain and not (is_short and (alone or threads == 1)):
            helping.share(self.code, block, self.split, work, grain, sharing, stop, alone=alone, threads=threads)
        elif stop is not None and work > sharing.first:
            apart.stoppable(partial(self.code.call_free, block, 0, self.split, 0), stop)
        else:
            self.code.call_free(block, 0, self.split, 0)

    def in_place(self, packed: bytes, once: Once, threads: int, read: list[Buffer], held: object) -> None:
        """Run a kernel that overwrites memory it reads, with the GIL released, on `threads` threads if the work is large.

        If the run is interrupted, the rest of the loop keeps the memory it needs alive: the buffers `read`, and `held`.
        """
        work, grain, alone = self.shares(threads)
        if any(buffer.pins for buffer in read):
            work = 0  # externally shared memory is read in one slice, as others may change it
        left, sharing = helping.Left((self, read, held)), self.target.sharing
        rest = partial(helping.share, self.code, packed, self.split, work, grain, sharing, alone=alone, left=left, threads=threads)
        if once.begun(rest):
            rest()
