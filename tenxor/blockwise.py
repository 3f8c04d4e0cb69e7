"""Nodes that are computed block by block: one plan for all blocks that are alike, run again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple, Protocol

from .dtypes import DType, boolean
from .layout import Layout
from .memory import Buffer, allocate
from .node import EMPTY, STORE, Node, Scalar, data
from .pattern import Pattern, given, pattern_of
from .rewrite.blocks import Blocks

_NOTHING = allocate(0)


class Step(Protocol):
    """What a step of a plan does."""

    node: int

    def run(self, pattern: Pattern, others: Set[int]) -> None: ...
    def fill(self, node: Node, out: Buffer, pattern: Pattern) -> None: ...


class Plan(Protocol):
    """The steps that compute some nodes, and what nodes they need beside those of the pattern."""

    more: list[tuple[tuple[int, ...], DType]]

    @property
    def steps(self) -> Sequence[Step]: ...
    @property
    def table_bytes(self) -> int: ...


class _Body(NamedTuple):
    """The plan of some blocks; its nodes, given by their numbers outside or made anew; and its numbers, by theirs outside."""

    plan: Plan
    nodes: list[int | tuple[tuple[int, ...], DType]]
    given: frozenset[int]  # those that are given
    scalars: list[int]


class Blockwise:
    """Each block: what computes it, and its offsets, as bytes and which of those outside comes to them."""

    __slots__ = ("blocks", "bodies")

    def __init__(
        self,
        node: Node,
        number_of: dict[Node, int],
        scalars: list[Scalar],
        make_plan: Callable[[Pattern], Plan],
    ) -> None:
        self.blocks: list[tuple[_Body, list[tuple[int, int]]]] = []
        self.bodies: dict[object, _Body] = {}
        numbers = [number_of[s] for s in node.sources if type(s) is Node]
        sources, out = _stand_ins(node)
        outside = dict(zip(sources, numbers, strict=True)) | {out: -1}
        place_of = {id(s): k for k, s in enumerate(scalars)}
        assert isinstance(node.op, Blocks)
        for k in range(node.op.count):
            pattern = pattern_of([_root(node.op, sources, out, k)])
            key = (pattern.key, *[outside.get(n) for n in pattern.nodes], *[place_of[id(s)] for s in pattern.scalars])
            body = self.bodies.get(key)
            if body is None:
                plan = make_plan(pattern)
                nodes = [outside.get(n, (n.shape, n.dtype)) for n in pattern.nodes]
                known = frozenset([j for j, n in enumerate(nodes) if type(n) is int])
                body = _Body(plan, [*nodes, *plan.more], known, [place_of[id(s)] for s in pattern.scalars])
                self.bodies[key] = body
            self.blocks.append((body, _offsets(pattern)))

    def run(self, out: Buffer, pattern: Pattern) -> None:
        """Compute all blocks of a node whose memory is `out`."""
        whole = data(out, (0,), boolean)
        for body, places in self.blocks:
            nodes = [
                Node(EMPTY, *n) if type(n) is tuple else pattern.nodes[n] if n >= 0 else whole  # type: ignore[index,operator]
                for n in body.nodes
            ]
            scalars = [pattern.scalars[k] for k in body.scalars]
            offsets = [pattern.offsets[at] + more for more, at in places]
            inner = Pattern((), [], nodes, scalars, offsets, {})
            *steps, last = body.plan.steps
            for step in steps:
                step.run(inner, body.given)
            last.fill(nodes[last.node], out, inner)


def first_block(node: Node) -> Node:
    """What writes the first block of a node that is computed in blocks, to look at."""
    assert isinstance(node.op, Blocks)
    return _root(node.op, *_stand_ins(node), 0)


def _stand_ins(node: Node) -> tuple[list[Node], Node]:
    """Nodes in memory, without any, like those that a node reads, and like itself."""
    sources = [data(_NOTHING, s.shape, s.dtype) for s in node.sources if type(s) is Node]
    return sources, data(_NOTHING, (node.size,), node.dtype)


def _root(blocks: Blocks, sources: list[Node], out: Node, k: int) -> Node:
    """The write of block `k`."""
    value, target = blocks.block(sources, k)
    layouts = (Layout.contiguous(out.shape), Layout.contiguous(value.shape))
    return Node(STORE, out.shape, out.dtype, (out, value), layouts, target)


def _offsets(pattern: Pattern) -> list[tuple[int, int]]:
    """A block's offsets by those outside: how many bytes more than which of them."""
    found = [(0, -1)] * len(pattern.offsets)
    for place, k in pattern.offset_of.items():
        if type(place) is tuple:
            number, offset = place
            at, more = given(offset)
            found[k] = (more * pattern.nodes[number].dtype.itemsize, at)
        else:
            found[k] = (pattern.offsets[k], -1)
    return found
