"""Plans: the kernels that compute some pending nodes, with all their arguments but the memory and the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from functools import partial

from .backend.threads import num_threads
from .blockwise import Blockwise, first_block
from .call import FLAGGED, Call
from .dtypes import DType, boolean
from .errors import TraceError
from .kernel.fuse import constants, fuse, pending, weights
from .kernel.ir import Kernel
from .kernel.lower import lower
from .memory import Buffer, allocate
from .node import EMPTY, PLACEHOLDER, REINTERPRET, Node, Scalar, Scatter, data, writes
from .ops import OPS, Op
from .ownership import held, sole
from .pattern import Pattern, stand_ins
from .rewrite import rewritten
from .rewrite.blocks import Blocks

IN_PLACE = 1 << 20  # bytes from which a result takes over the memory of an operand that dies; finding out takes time
UNBROKEN = 1 << 32  # work, in additions, up to which it does so, as signals cannot end such a kernel: less than a second
_WITHOUT_KERNEL = (EMPTY, REINTERPRET)
_NOBODY: frozenset[int] = frozenset()
_DONE = data(allocate(0), (0,), boolean)  # stands in the list of nodes for one that is not needed any more


class Plan:
    """Steps in their order, and what is asked about the nodes before: who else can read those with the numbers `watched`,
    which recipes refer to `reads` times each.

    The nodes `inlined` are computed in passing, or not at all. Of these, those that are `costly` are stored the next time if
    others can read them, and so may ask for them again. The nodes `more`, of these shapes and dtypes, are the plan's own:
    they are numbered after those of the pattern.
    """

    __slots__ = ("costly", "inlined", "more", "reads", "steps", "watched")

    def __init__(
        self,
        steps: list[Step],
        inlined: list[int],
        costly: list[int],
        watched: list[int],
        reads: list[int],
        more: list[tuple[tuple[int, ...], DType]],
    ) -> None:
        self.steps, self.inlined, self.costly, self.watched, self.reads = steps, inlined, costly, watched, reads
        self.more = more

    @property
    def table_bytes(self) -> int:
        """The memory that its gathered axes take."""
        own = sum(t.offsets.nbytes for step in self.steps if step.call is not None for t in step.call.tables)
        inner = [body.plan for step in self.steps if step.blocks is not None for body in step.blocks.bodies.values()]
        return own + sum(plan.table_bytes for plan in inner)

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
        if self.more:
            nodes += [Node(EMPTY, shape, dtype) for shape, dtype in self.more]
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
    instead, now, kernels = _fused(order, roots)
    number_of |= {other: number_of[node] for node, other in instead.items()}
    more = [node for node in now if node not in number_of]
    number_of |= {node: k for k, node in enumerate(more, len(nodes))}
    stored, free = set(kernels), constants(order, weights(order))
    missing = [n for n in order if instead.get(n, n) not in stored]
    inlined = {number_of[n] for n in missing}
    costly = [number_of[n] for n in missing if n not in free]
    parts = _parts(now, stored, number_of, len(nodes)) if more else {}
    wholes = [parts.get(node, number_of[node]) for node in kernels]
    steps = [
        _make_step(node, stored, number_of, pattern.scalars, whole, nodes[whole])
        for node, whole in zip(kernels, wholes, strict=True)
    ]
    _plan_memory(steps, _readers(order, inlined, number_of))
    watched = sorted({k for step in steps for _, readers in step.givers for k in readers}.union(costly))
    read = Counter(number_of[source] for n in order for source in n.sources if type(source) is Node)
    return Plan(
        steps, sorted(inlined), costly, watched, [read[k] for k in watched], [(node.shape, node.dtype) for node in more]
    )


def _fused(order: list[Node], roots: Sequence[Node]) -> tuple[dict[Node, Node], list[Node], list[Node]]:
    """What stands for some nodes of the order in which they were written, the order that this gives, and the kernels in it."""
    instead = rewritten(order)
    if instead:
        roots = [instead.get(root, root) for root in roots]
        order = pending(roots)
    return instead, order, fuse(order, roots)


def _parts(order: list[Node], kernels: set[Node], number_of: dict[Node, int], count: int) -> dict[Node, int]:
    """By each node of a plan's own: the number of a kernel, among `count` nodes of the pattern, that needs it."""
    found: dict[Node, int] = {}
    for node in reversed(order):
        own = number_of[node]
        whole = own if own < count and node in kernels else found.get(node)
        for source in node.sources:
            if type(source) is Node and whole is not None:
                found.setdefault(source, whole)
    return {node: k for node, k in found.items() if number_of[node] >= count}


def _make_step(
    node: Node, kernels: set[Node], number_of: dict[Node, int], scalars: list[Scalar], whole: int, asked: Node
) -> Step:
    place, nbytes = number_of[node], node.size * node.dtype.itemsize
    name = "full" if asked.op is OPS["cast"] and type(asked.sources[0]) is Scalar else asked.op
    step = Step(place, nbytes, name, whole)
    if writes(node.op) or node.op is REINTERPRET:
        source = number_of[node.sources[0]]  # type: ignore[index]
        step.needs.add(source)
        if writes(node.op):
            step.over, step.may_take = source, (source,)
    if node.op in _WITHOUT_KERNEL or node.size == 0:
        return step
    if isinstance(node.op, Blocks):
        step.blocks = Blockwise(node, number_of, scalars, make_plan)
        step.needs.update(number_of[source] for source in node.sources if type(source) is Node)
        return step
    kernel, binding = lower(node, kernels, num_threads())
    call = step.call = Call.of(node, kernel, binding, number_of, scalars)
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
        step.givers = tuple([(k, readers.get(k, _NOBODY)) for k in step.may_take if k not in later])
        later |= step.needs


class Step:
    """Gives node number `node` its `nbytes` of memory and fills it, by a `call` or by `blocks`, unless it has no content.

    A write goes over node `over`. The result may take over the memory of the first of `givers` that nobody else can read:
    neither the node nor one of those beside it. It needs the memory of the nodes `needs`, and no later step that of the nodes
    `last`. `name` is what an error says, and node `whole` is what the user asked for of which this is a part, or it itself.
    """

    __slots__ = ("blocks", "call", "givers", "last", "may_take", "name", "nbytes", "needs", "node", "over", "whole")

    def __init__(self, node: int, nbytes: int, name: object, whole: int) -> None:
        self.node, self.nbytes, self.name, self.whole = node, nbytes, name, whole
        self.call: Call | None = None
        self.blocks: Blockwise | None = None
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
        if self.blocks is not None:
            self.blocks.run(out, pattern)
        if self.call is None:
            return
        if self.call.flagged:
            FLAGGED[0] = 0
        once = type(node.op) is Scatter and self.over is not None and out is pattern.nodes[self.over].buffer
        self.call.run(out, pattern, partial(setattr, node, "buffer", out) if once else None)
        if self.call.flagged and FLAGGED[0]:
            from .indices import out_of_range  # which needs to compute

            raise out_of_range(pattern.nodes[self.whole])


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
    """The kernels that would compute the nodes, in order; None where memory is only handed out. Computes nothing.

    Of what is computed in blocks these are the kernels of the first.
    """
    wanted = [node for node in roots if node.buffer is None]
    _, _, kernels = _fused(pending(wanted), wanted)
    every, found = set(kernels), []
    for node in kernels:
        if isinstance(node.op, Blocks):
            found += planned([first_block(node)])
            continue
        nothing = node.op in _WITHOUT_KERNEL or node.size == 0
        found.append((node, None if nothing else lower(node, every, num_threads())[0]))
    return found
