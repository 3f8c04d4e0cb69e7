"""Plans: the kernels that compute some pending nodes, with all their arguments but the memory and the numbers."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from .backend.llvm.compiler import Compiled, compiler
from .backend.threads import SLICE, num_threads, share, share_unbroken
from .dtypes import boolean, int64
from .errors import TraceError
from .kernel.fuse import constants, fuse, pending
from .kernel.ir import Kernel, expressions, work
from .kernel.lower import FLAG, Binding, lower
from .layout import Table
from .memory import Buffer, allocate
from .node import EMPTY, PLACEHOLDER, REINTERPRET, Node, Scalar, Scatter, data, writes
from .ops import OPS, Op

_LEVEL = os.environ.get("TENXOR_DEBUG", "")
DEBUG = int(_LEVEL) if _LEVEL.isdigit() else 0
HOLD_LOCK = 1 << 16  # work, in additions, below which a kernel keeps Python's lock
SHARE = 1 << 20  # and from which threads share it
SOLE_READ = 3  # further references to a node in passing: the list of nodes, a local one, and getrefcount's argument
SOLE_BUFFER = 3  # references to a buffer that one node holds: the node's, a local one, and getrefcount's argument
SOLE = (
    4  # references to a node that only a store reads: its sources, the list of nodes, and those on the way to counting
)
SOLE_OPERAND = (
    3  # references to an operand besides the recipes': the list of nodes, a local one, and getrefcount's argument
)
IN_PLACE = 1 << 20  # bytes from which a result takes over the memory of an operand that dies; finding out takes time
UNBROKEN = (
    1 << 32
)  # work, in additions, up to which it does so, as signals cannot end such a kernel: less than a second
LONGER = 32  # times as long may products run until signals are heard
PAGE = 1 << 12  # bytes, of which each thread's scratch memory takes a multiple
_WITHOUT_KERNEL = (EMPTY, REINTERPRET)
assert FLAG.buffer is not None
_flag = FLAG.buffer.typed(int64)
_DONE = data(allocate(0), (0,), boolean)  # stands in the list of nodes for one that is not needed any more


class Plan:
    """Steps in their order, and the nodes computed in passing: their numbers, and how often they are read here."""

    __slots__ = ("passing", "steps")

    def __init__(self, steps: list[Step], passing: list[tuple[int, int]]) -> None:
        self.steps, self.passing = steps, passing

    @property
    def table_bytes(self) -> int:
        """The memory that its gathered axes take."""
        return sum(t.offsets.nbytes for step in self.steps if step.call is not None for t in step.call.tables)

    def run(self, nodes: list[Node], scalars: list[Scalar]) -> None:
        """Compute the nodes."""
        for k, readers in self.passing:
            node = nodes[k]
            node.used = sys.getrefcount(node) > readers + SOLE_READ  # somebody else may ask for it again
            nodes[k] = _DONE  # let go of it: what it reads may have no other reader
            del node
        for step in self.steps:
            step.run(nodes, scalars)


def make_plan(nodes: list[Node], scalars: list[Scalar], roots: list[Node]) -> Plan:
    """The plan that computes `roots`; `nodes` and `scalars` are what it may refer to by number."""
    order = pending(roots)
    if any(node.op is PLACEHOLDER for node in order):
        raise TraceError(
            "the function being traced needs the value of an element (bool(), int(), float() or item()), and while it is traced"
            " elements have none; choose between values with tx.where(condition, yes, no) instead of `if`, and"
            " use tx functions (tx.sin) instead of math's"
        )
    number_of = {node: k for k, node in enumerate(nodes)}
    kernels = fuse(order, roots)
    steps = _thrifty([_make_step(node, set(kernels), number_of, scalars) for node in kernels])
    free = constants(order)
    read = Counter(source for n in order for source in n.sources if type(source) is Node)
    passing = [(number_of[n], read[n]) for n in order if n not in kernels and n not in free]
    return Plan(steps, passing)


def _make_step(node: Node, kernels: set[Node], number_of: dict[Node, int], scalars: list[Scalar]) -> Step:
    place, nbytes = number_of[node], node.size * node.dtype.itemsize
    over = number_of[node.sources[0]] if writes(node.op) else None  # type: ignore[index]
    name = "full" if node.op is OPS["cast"] and type(node.sources[0]) is Scalar else node.op
    if node.op in _WITHOUT_KERNEL or node.size == 0:
        return Step(place, nbytes, name, None, over)
    kernel, binding = lower(node, kernels, num_threads())
    call = _Call.of(node, kernel, binding, number_of, scalars)
    if nbytes >= IN_PLACE and call.work <= UNBROKEN and type(node.op) is Op and not call.flagged:
        givers = tuple([number_of[n] for n in binding.aligned if n.dtype.itemsize == node.dtype.itemsize])
        return Thrifty(place, nbytes, name, call, over, givers)
    return Step(place, nbytes, name, call, over)


def _thrifty(steps: list[Step]) -> list[Step]:
    """The steps, each told what it is the last to read, so that its memory serves those that follow."""
    found: list[Step] = steps[-1:]  # after which all is let go of
    later = set(steps[-1].reads())
    for step in reversed(steps[:-1]):
        last = tuple(set(step.reads()) - later)
        givers = step.givers if isinstance(step, Thrifty) else ()
        found.append(Thrifty(step.node, step.nbytes, step.name, step.call, step.over, givers, last) if last else step)
        later.update(last)
    return found[::-1]


class Step:
    """Gives node number `node` its `nbytes` of memory and fills it, unless it has no content (`call` is None).

    A write goes over node `over`. `name` is what an error says.
    """

    __slots__ = ("call", "name", "nbytes", "node", "over")

    def __init__(self, node: int, nbytes: int, name: object, call: _Call | None, over: int | None) -> None:
        self.node, self.nbytes, self.name, self.call, self.over = node, nbytes, name, call, over

    def reads(self) -> list[int]:
        """The nodes whose memory it needs."""
        found = [] if self.call is None else [k for k, _ in self.call.sources]
        return found if self.over is None else [*found, self.over]

    def run(self, nodes: list[Node], scalars: list[Scalar]) -> None:
        """Compute the node and settle it."""
        node = nodes[self.node]
        if writes(node.op):
            out = _memory_to_write(node, self.call)
        elif node.op is REINTERPRET:
            out = node.sources[0].buffer  # type: ignore[union-attr, assignment]
        else:
            out = allocate(self.nbytes, self.name, node.shape, node.dtype)
        if self.call is not None:
            if self.call.flagged:
                _flag[0] = 0
            once = type(node.op) is Scatter and out is node.sources[0].buffer  # type: ignore[union-attr]
            self.call.run(out, nodes, scalars, partial(setattr, node, "buffer", out) if once else None)
            if self.call.flagged and _flag[0]:
                from .indices import out_of_range  # which needs to compute

                raise out_of_range(node)
        node.settle(out)
        if self.over is not None and nodes[self.over].buffer is out:
            nodes[self.over] = (
                _DONE  # written over, so nobody reads it; if it kept its memory, the next store would copy
            )


class Thrifty(Step):
    """A step that lets go of the nodes `last`, which no later one reads.

    If its result is elementwise and large, it takes over the memory of one of the operands `givers` if that dies.
    """

    __slots__ = ("givers", "last")

    def __init__(
        self,
        node: int,
        nbytes: int,
        name: object,
        call: _Call | None,
        over: int | None,
        givers: tuple[int, ...],
        last: tuple[int, ...] = (),
    ) -> None:
        super().__init__(node, nbytes, name, call, over)
        self.givers, self.last = givers, last

    def run(self, nodes: list[Node], scalars: list[Scalar]) -> None:
        """Compute the node and settle it."""
        if not self.in_place(nodes[self.node], nodes, scalars):
            super().run(nodes, scalars)
        for k in self.last:
            nodes[k] = _DONE

    def in_place(self, node: Node, nodes: list[Node], scalars: list[Scalar]) -> bool:
        """Compute the node into the memory of an operand that nobody else can read any more, if there is one."""
        for k in self.givers:
            operand = nodes[k]
            buffer = operand.buffer
            assert buffer is not None and self.call is not None
            if (
                buffer.nbytes == self.nbytes
                and not (buffer.pins or buffer.frozen)
                and sys.getrefcount(buffer) == SOLE_BUFFER
                and sys.getrefcount(operand) == SOLE_OPERAND + _reads(node, operand)
            ):
                # The operand's content is lost, so there is no way back: the node has its memory as soon as the loop has run.
                self.call.run(buffer, nodes, scalars, partial(setattr, node, "buffer", buffer))
                node.settle(buffer)
                nodes[k] = _DONE
                return True
        return False


def _memory_to_write(node: Node, call: _Call | None) -> Buffer:
    """The memory of what is written over if nobody else can read it any more, else a copy.

    It is a copy, too, if a scatter may fail, or take so long that a signal should end it: it cannot be done again.
    """
    old = node.sources[0]
    assert type(old) is Node and old.buffer is not None
    buffer = old.buffer
    sole = sys.getrefcount(old) == SOLE and sys.getrefcount(buffer) == SOLE_BUFFER
    if type(node.op) is Scatter:
        sole = sole and node.op.checked and call is not None and call.work <= UNBROKEN
    if not buffer.frozen and (buffer.pins or sole):
        return buffer
    fresh = allocate(buffer.nbytes, "assignment", old.shape, old.dtype)
    fresh.array[: buffer.nbytes] = buffer.array[: buffer.nbytes]
    return fresh


def _reads(node: Node, operand: Node) -> int:
    """How often a recipe refers to an operand; -1 if others may still compute a part of the recipe for themselves."""
    found = 0
    stack, seen = [node], {node}
    while stack:
        for source in stack.pop().sources:
            if source is operand:
                found += 1
            elif type(source) is Node and source.buffer is None and source not in seen:
                if source.used:
                    return -1
                seen.add(source)
                stack.append(source)
    return found


@dataclass(slots=True)
class _Call:
    """A kernel with its arguments: only the addresses and numbers are filled in at each run."""

    kernel: Kernel
    compiled: Compiled
    head: struct.Struct  # addresses, tables, numbers
    out_offset: int  # bytes
    sources: list[tuple[int, int]]  # node, bytes to add to its address
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
        operands = [(n, offset * (n or node).dtype.itemsize) for n, offset in binding.operands]
        codes = "".join("d" if d.kind == "float" else "Q" if d.kind == "uint" else "q" for d in kernel.numbers)
        places = {id(s): k for k, s in enumerate(scalars)}
        cost = 2 + sum(map(work, expressions(kernel.body)))
        flagged = operands[-1][0] is FLAG
        return _Call(
            kernel,
            compiler().get(kernel),
            struct.Struct(f"={len(operands) + len(binding.tables)}q{codes}"),
            operands[0][1],
            [(number_of[n], at) for n, at in operands[1:] if n is not None and n is not FLAG],
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

    def run(
        self, out: Buffer, nodes: list[Node], scalars: list[Scalar], then: Callable[[], object] | None = None
    ) -> None:
        """Fill `out`; with `then`, in one go that ends with calling it, which no signal can break."""
        words: list[int | float] = [out.address + self.out_offset]
        for k, at in self.sources:
            words.append(nodes[k].buffer.address + at)  # type: ignore[union-attr]
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
