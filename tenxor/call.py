"""Calls: kernels with their arguments, of which only the addresses and the numbers are filled in at each run."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from .backend.llvm.compiler import Compiled, compiler
from .backend.threads import num_threads, share, share_unbroken
from .dtypes import DType, int64
from .kernel.ir import Kernel, expressions, work
from .kernel.lower import FLAG, Binding
from .layout import Table
from .memory import Buffer, allocate
from .node import Node, Scalar
from .pattern import Pattern, given
from .target import Target

_LEVEL = os.environ.get("TENXOR_DEBUG", "")
DEBUG = int(_LEVEL) if _LEVEL.isdigit() else 0
assert FLAG.buffer is not None
FLAGGED = FLAG.buffer.typed(int64)  # its first element tells that a kernel was given an index out of range


def _in_bytes(offset: int, dtype: DType) -> tuple[int, int]:
    """An offset found with stand-ins: the bytes of it that are known, and which of the pattern's offsets comes to them."""
    at, more = given(offset)
    return more * dtype.itemsize, at


@dataclass(slots=True)
class Call:
    """A kernel with its arguments: only the addresses and numbers are filled in at each run."""

    kernel: Kernel
    target: Target
    compiled: Compiled
    head: struct.Struct  # addresses, tables, numbers
    out_offset: tuple[int, int]  # bytes to add to its address, and which of the pattern's offsets
    sources: list[tuple[int, int, int]]  # node, and the same two
    tables: list[Table]
    flagged: bool  # whether it looks up indices, which may be out of range
    addresses: list[int]  # of the flag, and of the tables
    numbers: list[tuple[int, bool]]  # among the scalars, and whether the imaginary part is meant
    slots: bytes
    split: int
    grain: int  # steps of the shared loop that a thread takes at least, or 0 if threads share none
    work: int
    brief: bool  # whether it keeps Python's lock
    scratch: int  # bytes for each thread

    @staticmethod
    def of(
        node: Node,
        kernel: Kernel,
        binding: Binding,
        target: Target,
        number_of: dict[Node, int],
        scalars: list[Scalar],
    ) -> Call:
        operands = [(n, *_in_bytes(offset, (n or node).dtype)) for n, offset in binding.operands]
        codes = "".join("d" if d.kind == "float" else "Q" if d.kind == "uint" else "q" for d in kernel.numbers)
        places = {id(s): k for k, s in enumerate(scalars)}
        cost = 2 + sum(map(work, expressions(kernel.body)))
        flagged = operands[-1][0] is FLAG
        return Call(
            kernel,
            target,
            compiler().get(kernel),
            struct.Struct(f"={len(operands) + len(binding.tables)}q{codes}"),
            operands[0][1:],
            [(number_of[n], more, at) for n, more, at in operands[1:] if n is not None and n is not FLAG],
            binding.tables,
            flagged,
            [*[FLAGGED.ctypes.data] * flagged, *(int(t.offsets.ctypes.data) for t in binding.tables)],
            [(places[id(s)], imag) for s, imag in binding.numbers],
            struct.pack(f"={len(binding.slots)}q", *binding.slots),
            binding.split,
            kernel.grain(target.sharing) if kernel.shared >= 0 else 0,
            binding.work * cost,
            binding.work * cost < target.sharing.hold_lock,
            binding.scratch,
        )

    def run(self, out: Buffer, pattern: Pattern, then: Callable[[], object] | None = None) -> None:
        """Fill `out`; with `then`, in one go that ends with calling it, which no signal can break."""
        nodes, scalars, offsets = pattern.nodes, pattern.scalars, pattern.offsets
        more, at = self.out_offset
        words: list[int | float] = [out.address + more + offsets[at]]
        for k, more, at in self.sources:
            words.append(nodes[k].buffer.address + more + offsets[at])  # type: ignore[union-attr]
        if self.addresses:
            words += self.addresses
        for k, imag in self.numbers:
            value = scalars[k].value
            words.append(value.imag if imag else value.real)
        args = self.head.pack(*words) + self.slots
        if self.scratch:
            page = self.target.page
            size = -(-self.scratch // page) * page
            scratch = allocate(size * num_threads(), self.kernel.name)
            args += struct.pack("=2q", scratch.address, size)
        if DEBUG:
            self.shown(args, then)
        elif then is not None:
            self.execute(args, then)
        elif self.brief:
            self.compiled.call(args, 0, self.split, 0)
        else:
            self.execute(args)

    def execute(self, args: bytes, then: Callable[[], object] | None = None) -> None:
        """Run with Python's lock released, on several threads if it is much."""
        work, grain, sharing = self.work, self.grain or 1, self.target.sharing
        alone = work < sharing.share or not self.grain
        if self.scratch:  # each piece packs anew what it reads
            work //= sharing.longer
            grain *= -(-self.split // (num_threads() * grain * (work // sharing.slice + 1)))
        if then is not None:
            share_unbroken(self.compiled, args, self.split, grain, sharing, then, alone=alone)
        elif self.grain:
            share(self.compiled, args, self.split, work, grain, sharing, alone=alone)
        else:
            self.compiled.call_free(args, 0, self.split, 0)

    def shown(self, args: bytes, then: Callable[[], object] | None) -> None:
        """Run, and say so: `TENXOR_DEBUG` 1 for names and times, 2 for the loop IR too, 3 for the assembly."""
        if DEBUG >= 3:
            print(compiler().assembly(self.kernel), file=sys.stderr)
        if DEBUG >= 2:
            print(self.kernel, file=sys.stderr)
        start = time.perf_counter()
        self.execute(args, then)
        spent = (time.perf_counter() - start) * 1e6
        print(f"tenxor: {self.kernel.name} [{self.compiled.origin}] {spent:.1f} us", file=sys.stderr)
