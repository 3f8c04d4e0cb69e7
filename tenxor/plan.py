"""Plans: the kernels that compute some pending nodes, with all their arguments but the memory and the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from functools import partial

from .backend.llvm.compiler import compiler
from .backend.threads import num_threads
from .call import FLAGGED, Call
from .dtypes import boolean
from .errors import TraceError
from .kernel.fuse import constants, fuse, pending, weights
from .kernel.ir import Kernel
from .kernel.lower import lower
from .memory import Buffer, allocate
from .node import EMPTY, PLACEHOLDER, REINTERPRET, Node, Scalar, Scatter, data, writes
from .ops import OPS, Op
from .ownership import held, sole
from .pattern import Pattern, stand_ins
from .target import Target

_WITHOUT_KERNEL = (EMPTY, REINTERPRET)
_NOBODY: frozenset[int] = frozenset()
_DONE = data(allocate(0), (0,), boolean)  # stands in the list of nodes for one that is not needed any more


class Plan:
    """Steps in their order, for one target, and what is asked about the nodes before: who else can read those with the numbers `watched`,
    which recipes refer to `reads` times each.

    The nodes `inlined` are computed in passing. Of these, those that are `costly` are stored the next time if others can
    read them, and so may ask for them again.
    """

    __slots__ = ("costly", "inlined", "reads", "steps", "target", "watched")

    def __init__(
        self,
        target: Target,
        steps: list[Step],
        inlined: list[int],
        costly: list[int],
        watched: list[int],
        reads: list[int],
    ) -> None:
        self.target, self.steps, self.inlined, self.costly, self.watched, self.reads = (
            target,
            steps,
            inlined,
            costly,
            watched,
            reads,
        )

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


def _target() -> Target:
    """The present machine, with as many threads as share loops now: another value, once that is changed."""
    made = compiler()
    if made.target.threads != num_threads():
        made.target = made.target.shared_by(num_threads())
    return made.target


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
    target = _target()
    kernels = fuse(order, roots, target)
    stored, free = set(kernels), constants(order, weights(order), target.fusing)
    inlined = {number_of[n] for n in order if n not in stored}
    costly = [number_of[n] for n in order if n not in stored and n not in free]
    steps = [_make_step(node, stored, target, number_of, pattern.scalars) for node in kernels]
    _plan_memory(steps, _readers(order, inlined, number_of))
    watched = sorted({k for step in steps for _, readers in step.givers for k in readers}.union(costly))
    read = Counter(number_of[source] for n in order for source in n.sources if type(source) is Node)
    return Plan(target, steps, sorted(inlined), costly, watched, [read[k] for k in watched])


def _make_step(
    node: Node, kernels: set[Node], target: Target, number_of: dict[Node, int], scalars: list[Scalar]
) -> Step:
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
    kernel, binding = lower(node, kernels, target)
    sharing, call = target.sharing, Call.of(node, kernel, binding, target, number_of, scalars)
    step.call = call
    step.needs.update(k for k, *_ in call.sources)
    if type(node.op) is Scatter and not (node.op.checked and call.work <= sharing.unbroken):
        step.may_take = ()  # it may fail, or take so long that a signal should end it, and cannot be done again
    if nbytes >= sharing.in_place and call.work <= sharing.unbroken and type(node.op) is Op and not call.flagged:
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
        self.call: Call | None = None
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
            FLAGGED[0] = 0
        once = type(node.op) is Scatter and self.over is not None and out is pattern.nodes[self.over].buffer
        self.call.run(out, pattern, partial(setattr, node, "buffer", out) if once else None)
        if self.call.flagged and FLAGGED[0]:
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


def planned(roots: Sequence[Node]) -> list[tuple[Node, Kernel | None]]:
    """The kernels that would compute the nodes, in order; None where memory is only handed out. Computes nothing."""
    wanted = [node for node in roots if node.buffer is None]
    target = _target()
    kernels = fuse(pending(wanted), wanted, target)
    every, found = set(kernels), []
    for node in kernels:
        nothing = node.op in _WITHOUT_KERNEL or node.size == 0
        found.append((node, None if nothing else lower(node, every, target)[0]))
    return found
