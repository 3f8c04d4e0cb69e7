"""Plans: the kernels that compute some pending nodes, with all their arguments but the memory and the numbers."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import partial

from .backend.llvm.compiler import Compiled, compiler
from .backend.threads import SLICE, num_threads, share, share_unbroken
from .dtypes import DType, boolean, int64
from .errors import TraceError
from .kernel.fuse import constants, fuse, pending, weights
from .kernel.ir import Kernel, expressions, work
from .kernel.lower import FLAG, Binding, lower
from .layout import Table
from .memory import Buffer, allocate
from .node import EMPTY, PLACEHOLDER, REINTERPRET, Node, Scalar, Scatter, data, writes
from .ops import OPS, Op
from .ownership import held, sole
from .pattern import Pattern, given, stand_ins

_LEVEL = os.environ.get("TENXOR_DEBUG", "")
DEBUG = int(_LEVEL) if _LEVEL.isdigit() else 0
HOLD_LOCK = 1 << 16  # work, in additions, below which a kernel keeps Python's lock
SHARE = 1 << 20  # and from which threads share it
IN_PLACE = 1 << 20  # bytes from which a result takes over the memory of an operand that dies; finding out takes time
UNBROKEN = (
    1 << 32
)  # work, in additions, up to which it does so, as signals cannot end such a kernel: less than a second
LONGER = 32  # times as long may products run until signals are heard
PAGE = 1 << 12  # bytes, of which each thread's scratch memory takes a multiple
_WITHOUT_KERNEL = (EMPTY, REINTERPRET)
assert FLAG.buffer is not None
_flag = FLAG.buffer.typed(int64)
_NOBODY: frozenset[int] = frozenset()
_DONE = data(allocate(0), (0,), boolean)  # stands in the list of nodes for one that is not needed any more


class Plan:
    """Steps in their order, and what is asked about the nodes before: who else can read those with the numbers `watched`,
    which recipes refer to `reads` times each.

    The nodes `inlined` are computed in passing. Of these, those that are `costly` are stored the next time if others can
    read them, and so may ask for them again.
    """

    __slots__ = ("costly", "inlined", "reads", "steps", "watched")

    def __init__(
        self, steps: list[Step], inlined: list[int], costly: list[int], watched: list[int], reads: list[int]
    ) -> None:
        self.steps, self.inlined, self.costly, self.watched, self.reads = steps, inlined, costly, watched, reads

    @property
    def table_bytes(self) -> int:
        """The memory that its gathered axes take."""
        return sum(t.offsets.nbytes for step in self.steps if step.call is not None for t in step.call.tables)

    def run(self, pattern: Pattern) -> None:
        """Compute the nodes of a pattern that the plan was made for."""
        nodes = pattern.nodes
        others: Set[int] = _NOBODY
        if self.watched:
            others = held(nodes, self.watched, self.reads)
            if others:
                for k in others.intersection(self.costly):
                    nodes[k].stored = True
            for k in self.inlined:
                nodes[k] = _DONE  # let go of it: what it reads may have no other reader
        for step in self.steps:
            step.run(pattern, others)


def make_plan(pattern: Pattern) -> Plan:
    """The plan that computes what has this pattern."""
    nodes = stand_ins(pattern)
    roots = [nodes[k] for k in pattern.roots]
    order = pending(roots)
    if any(node.op is PLACEHOLDER for node in order):
        raise TraceError(
            "the function being traced needs the value of an element (bool(), int(), float() or item()), and while it is traced"
            " elements have none; choose between values with tx.where(condition, yes, no) instead of `if`, and"
            " use tx functions (tx.sin) instead of math's"
        )
    number_of = {node: k for k, node in enumerate(nodes)}
    kernels = fuse(order, roots)
    stored, free = set(kernels), constants(order, weights(order))
    inlined = {number_of[n] for n in order if n not in stored}
    costly = [number_of[n] for n in order if n not in stored and n not in free]
    steps = [_make_step(node, stored, number_of, pattern.scalars) for node in kernels]
    _plan_memory(steps, _readers(order, inlined, number_of))
    watched = sorted({k for step in steps for _, readers in step.givers for k in readers}.union(costly))
    read = Counter(number_of[source] for n in order for source in n.sources if type(source) is Node)
    return Plan(steps, sorted(inlined), costly, watched, [read[k] for k in watched])


def _make_step(node: Node, kernels: set[Node], number_of: dict[Node, int], scalars: list[Scalar]) -> Step:
    place, nbytes = number_of[node], node.size * node.dtype.itemsize
    name = "full" if node.op is OPS["cast"] and type(node.sources[0]) is Scalar else node.op
    step = Step(place, nbytes, name)
    if writes(node.op) or node.op is REINTERPRET:
        source = number_of[node.sources[0]]  # type: ignore[index]
        step.needs.add(source)
        if writes(node.op):
            step.over, step.may_take = source, (source,)
    if node.op in _WITHOUT_KERNEL or node.size == 0:
        return step
    kernel, binding = lower(node, kernels, num_threads())
    call = step.call = _Call.of(node, kernel, binding, number_of, scalars)
    step.needs.update(k for k, *_ in call.sources)
    if type(node.op) is Scatter and not (node.op.checked and call.work <= UNBROKEN):
        step.may_take = ()  # it may fail, or take so long that a signal should end it, and cannot be done again
    if nbytes >= IN_PLACE and call.work <= UNBROKEN and type(node.op) is Op and not call.flagged:
        step.may_take = tuple([number_of[n] for n in binding.aligned if n.dtype.itemsize == node.dtype.itemsize])
    return step


def _readers(order: list[Node], inlined: set[int], number_of: dict[Node, int]) -> dict[int, frozenset[int]]:
    """By the number of each node: its own, and those of what reads it and is inlined, also by way of others.

    Whoever holds one of them can have it computed again, and so needs the node.
    """
    found: dict[int, frozenset[int]] = {}
    for node in reversed(order):
        own = number_of[node]
        mine = found.get(own, _NOBODY) | {own}
        found[own] = mine
        passed = mine if own in inlined else _NOBODY
        for source in node.sources:
            if type(source) is Node:
                k = number_of[source]
                found[k] = found.get(k, frozenset({k})) | passed
    return found


def _plan_memory(steps: list[Step], readers: dict[int, frozenset[int]]) -> None:
    """Tell each step which nodes it is the last to need: their memory may serve for its result, or those that follow."""
    later: set[int] = set()
    for step in reversed(steps):
        step.last = tuple(step.needs - later) if later else ()  # after the last step all is let go of
        step.givers = tuple([(k, readers[k]) for k in step.may_take if k not in later])
        later |= step.needs


class Step:
    """Gives node number `node` its `nbytes` of memory and fills it, unless it has no content (`call` is None).

    A write goes over node `over`. The result may take over the memory of the first of `givers` that nobody else can read:
    neither the node nor one of those beside it. It needs the memory of the nodes `needs`, and no later step that of the nodes
    `last`. `name` is what an error says.
    """

    __slots__ = ("call", "givers", "last", "may_take", "name", "nbytes", "needs", "node", "over")

    def __init__(self, node: int, nbytes: int, name: object) -> None:
        self.node, self.nbytes, self.name = node, nbytes, name
        self.call: _Call | None = None
        self.over: int | None = None
        self.may_take: tuple[int, ...] = ()
        self.givers: tuple[tuple[int, frozenset[int]], ...] = ()
        self.needs: set[int] = set()
        self.last: tuple[int, ...] = ()

    def run(self, pattern: Pattern, others: Set[int]) -> None:
        """Compute the node and settle it. Others can read the nodes with the numbers `others`."""
        nodes = pattern.nodes
        node = nodes[self.node]
        taken = self.taken(nodes, others) if self.givers else None
        if taken is not None and self.over is None:
            self.in_place(node, pattern, taken)
        else:
            if self.over is not None:
                out = nodes[self.over].buffer if taken is not None else _memory_to_write(nodes[self.over])
            elif node.op is REINTERPRET:
                out = node.sources[0].buffer  # type: ignore[union-attr]
            else:
                out = allocate(self.nbytes, self.name, node.shape, node.dtype)
            assert out is not None
            self.fill(node, out, pattern)
            node.settle(out)
        for k in self.last:
            nodes[k] = _DONE
        if taken is not None:
            nodes[taken] = _DONE  # written over, so nobody reads it; if it kept its memory, the next store would copy

    def taken(self, nodes: list[Node], others: Set[int]) -> int | None:
        """The number of a node whose memory the result takes over, as nobody else can read it any more."""
        for k, readers in self.givers:
            buffer = nodes[k].buffer
            assert buffer is not None
            fits = (self.over is not None or buffer.nbytes == self.nbytes) and not (buffer.pins or buffer.frozen)
            del buffer  # who else holds it is counted
            if fits and readers.isdisjoint(others) and sole(nodes[k]):
                return k
        return None

    def in_place(self, node: Node, pattern: Pattern, taken: int) -> None:
        """Compute the node into the memory of node `taken`.

        The content of that is lost, so there is no way back: the node has its memory as soon as the loop has run.
        """
        out = pattern.nodes[taken].buffer
        assert out is not None and self.call is not None
        self.call.run(out, pattern, partial(setattr, node, "buffer", out))
        node.settle(out)

    def fill(self, node: Node, out: Buffer, pattern: Pattern) -> None:
        """Compute the node's elements. A scatter that writes over memory in place has no way back either."""
        if self.call is None:
            return
        if self.call.flagged:
            _flag[0] = 0
        once = type(node.op) is Scatter and self.over is not None and out is pattern.nodes[self.over].buffer
        self.call.run(out, pattern, partial(setattr, node, "buffer", out) if once else None)
        if self.call.flagged and _flag[0]:
            from .indices import out_of_range  # which needs to compute

            raise out_of_range(node)


def _memory_to_write(old: Node) -> Buffer:
    """The memory that a write goes to where what it overwrites is still needed: a copy, unless that is pinned."""
    buffer = old.buffer
    assert buffer is not None
    if buffer.pins and not buffer.frozen:
        return buffer
    fresh = allocate(buffer.nbytes, "assignment", old.shape, old.dtype)
    fresh.array[: buffer.nbytes] = buffer.array[: buffer.nbytes]
    return fresh


def _in_bytes(offset: int, dtype: DType) -> tuple[int, int]:
    """An offset found with stand-ins: the bytes of it that are known, and which of the pattern's offsets comes to them."""
    at, more = given(offset)
    return more * dtype.itemsize, at


@dataclass(slots=True)
class _Call:
    """A kernel with its arguments: only the addresses and numbers are filled in at each run."""

    kernel: Kernel
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
    scratch: int  # bytes for each thread

    @staticmethod
    def of(node: Node, kernel: Kernel, binding: Binding, number_of: dict[Node, int], scalars: list[Scalar]) -> _Call:
        operands = [(n, *_in_bytes(offset, (n or node).dtype)) for n, offset in binding.operands]
        codes = "".join("d" if d.kind == "float" else "Q" if d.kind == "uint" else "q" for d in kernel.numbers)
        places = {id(s): k for k, s in enumerate(scalars)}
        cost = 2 + sum(map(work, expressions(kernel.body)))
        flagged = operands[-1][0] is FLAG
        return _Call(
            kernel,
            compiler().get(kernel),
            struct.Struct(f"={len(operands) + len(binding.tables)}q{codes}"),
            operands[0][1:],
            [(number_of[n], more, at) for n, more, at in operands[1:] if n is not None and n is not FLAG],
            binding.tables,
            flagged,
            [*[_flag.ctypes.data] * flagged, *(int(t.offsets.ctypes.data) for t in binding.tables)],
            [(places[id(s)], imag) for s, imag in binding.numbers],
            struct.pack(f"={len(binding.slots)}q", *binding.slots),
            binding.split,
            kernel.grain if kernel.shared >= 0 else 0,
            binding.work * cost,
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
            size = -(-self.scratch // PAGE) * PAGE
            scratch = allocate(size * num_threads(), self.kernel.name)
            args += struct.pack("=2q", scratch.address, size)
        if DEBUG:
            self.shown(args, then)
        elif then is not None:
            self.execute(args, then)
        elif self.work < HOLD_LOCK:
            self.compiled.call(args, 0, self.split, 0)
        else:
            self.execute(args)

    def execute(self, args: bytes, then: Callable[[], object] | None = None) -> None:
        """Run with Python's lock released, on several threads if it is much."""
        work, grain, alone = self.work, self.grain or 1, self.work < SHARE or not self.grain
        if self.scratch:  # each piece packs anew what it reads
            work //= LONGER
            grain *= -(-self.split // (num_threads() * grain * (work // SLICE + 1)))
        if then is not None:
            share_unbroken(self.compiled, args, self.split, grain, then, alone=alone)
        elif self.grain:
            share(self.compiled, args, self.split, work, grain, alone=alone)
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


def planned(roots: Sequence[Node]) -> list[tuple[Node, Kernel | None]]:
    """The kernels that would compute the nodes, in order; None where memory is only handed out. Computes nothing."""
    wanted = [node for node in roots if node.buffer is None]
    kernels = fuse(pending(wanted), wanted)
    every, found = set(kernels), []
    for node in kernels:
        nothing = node.op in _WITHOUT_KERNEL or node.size == 0
        found.append((node, None if nothing else lower(node, every, num_threads())[0]))
    return found
