"""Nodes that are computed block by block: one plan for all blocks that are alike, run again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..backend.interface import Given, Once
from ..errors import MetOutOfRange
from ..layout import Layout, Table
from ..memory import Buffer, allocate
from ..node import STORE, Node, data
from ..records import NamedTuple
from ..rewrite.blocks import Blocks
from .pattern import Pattern, given, pattern_of
from .steps import Cell, Plan

_NOTHING = allocate(0)


class _Body(NamedTuple):
    """The plan of some blocks; its cells, by their numbers outside or None for those of its own; and its numbers, by theirs."""

    plan: Plan
    cells: list[int | None]
    outside: frozenset[int]  # the cells that are known outside
    scalars: list[int]


class Blockwise:
    """Each block: what computes it, and its offsets, each as which of those outside and how many elements more."""

    __slots__ = ("blocks", "bodies", "flagged", "needs", "work")

    def __init__(
        self,
        node: Node,
        number_of: dict[Node, int],
        scalars: dict[int, int],
        make_plan: Callable[[Pattern], Plan],
    ) -> None:
        self.blocks: list[tuple[_Body, list[tuple[int, int]]]] = []
        self.bodies: dict[object, _Body] = {}
        self.needs = [number_of[s] for s in node.sources if type(s) is Node]
        sources, out = _stand_ins(node)
        outside = dict(zip(sources, self.needs, strict=True)) | {out: -1}
        assert isinstance(node.op, Blocks)
        for k in range(node.op.count):
            pattern = pattern_of([_root(node.op, sources, out, k)])
            cells = [outside.get(n) for n in pattern.nodes]
            numbers = [scalars[id(s)] for s in pattern.scalars]
            key = pattern.key, *cells, *numbers
            body = self.bodies.get(key)
            if body is None:
                known = frozenset([j for j, outer in enumerate(cells) if outer is not None])
                body = self.bodies[key] = _Body(make_plan(pattern), cells, known, numbers)
            self.blocks.append((body, [given(offset) for offset in pattern.offsets]))
        steps = [step for body, _ in self.blocks for step in body.plan.steps if step.filling is not None]
        self.work = sum(step.filling.work for step in steps if step.filling is not None)
        self.flagged = any(step.filling is not None and step.filling.flagged for step in steps)

    @property
    def tables(self) -> Sequence[Table]:
        """The tables of all kernels."""
        steps = [step for body in self.bodies.values() for step in body.plan.steps]
        return [t for step in steps if step.filling is not None for t in step.filling.tables]

    def run(self, out: Buffer, outer: Given, once: Once | None = None) -> bool:
        """Compute all blocks of a cell whose memory is `out`."""
        whole = Cell(out)
        for body, places in self.blocks:
            cells: list[Any] = [Cell() if k is None else outer.nodes[k] if k >= 0 else whole for k in body.cells]
            cells += [Cell() for _ in range(body.plan.more)]
            scalars = [outer.scalars[k] for k in body.scalars]
            inner = Pattern(None, [], cells, scalars, [outer.offsets[at] + more for at, more in places], 0)
            *steps, last = body.plan.steps
            try:
                for step in steps:
                    step.run(inner, body.outside)
                last.fill(cells[last.number], out, inner)
            except MetOutOfRange:
                return True
        assert once is None
        return False


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
    return Node.of(STORE, out.shape, out.dtype, (out, value), layouts, target)
