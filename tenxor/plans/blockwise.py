"""Nodes that are computed block by block: one plan, a body, for all blocks that are alike, run again and again."""

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
    scalars: list[int]
    outside: frozenset[int]  # the cells that are known outside


def _body(plan: Plan, cells: list[int | None], scalars: list[int]) -> _Body:
    return _Body(plan, cells, scalars, frozenset([j for j, outer in enumerate(cells) if outer is not None]))


class Blockwise:
    """Each block: by which of the bodies it is computed, and its offsets, each as which of those outside and how many elements more.

    As a whole it `needs` cells, and has so much `work`; it is `flagged` if it looks up indices.
    """

    __slots__ = ("blocks", "bodies", "flagged", "needs", "work")

    def __init__(
        self, bodies: list[_Body], blocks: list[tuple[int, list[tuple[int, int]]]], needs: list[int], work: int, flagged: bool
    ) -> None:
        self.bodies, self.blocks, self.needs, self.work, self.flagged = bodies, blocks, needs, work, flagged

    def in_words(self, of_plan: Callable[[Plan], Any]) -> tuple[Any, ...] | None:
        """All of it, in nothing but lists, numbers, and what `of_plan` makes of plans; None if it makes None of one."""
        plans = [of_plan(body.plan) for body in self.bodies]
        if any([words is None for words in plans]):
            return None
        bodies = [(words, body.cells, body.scalars) for words, body in zip(plans, self.bodies, strict=True)]
        return bodies, self.blocks, self.needs, self.work, self.flagged

    @property
    def tables(self) -> Sequence[Table]:
        """The tables of all kernels."""
        steps = [step for body in self.bodies for step in body.plan.steps]
        return [t for step in steps if step.filling is not None for t in step.filling.tables]

    def run(self, out: Buffer, outer: Given, once: Once | None = None) -> bool:
        """Compute all blocks of a cell whose memory is `out`."""
        whole = Cell(out)
        for number, places in self.blocks:
            body = self.bodies[number]
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


def in_blocks(node: Node, number_of: dict[Node, int], scalars: dict[int, int], make_plan: Callable[[Pattern], Plan]) -> Blockwise:
    """How a node is computed block by block."""
    blocks, bodies, numbers = list[tuple[int, list[tuple[int, int]]]](), list[_Body](), dict[object, int]()
    needs = [number_of[s] for s in node.sources if type(s) is Node]
    sources, out = _stand_ins(node)
    outside = dict(zip(sources, needs, strict=True)) | {out: -1}
    assert isinstance(node.op, Blocks)
    for k in range(node.op.count):
        pattern = pattern_of([_root(node.op, sources, out, k)])
        cells = [outside.get(n) for n in pattern.nodes]
        own = [scalars[id(s)] for s in pattern.scalars]
        number = numbers.setdefault((pattern.key, *cells, *own), len(bodies))
        if number == len(bodies):
            bodies.append(_body(make_plan(pattern), cells, own))
        blocks.append((number, [given(offset) for offset in pattern.offsets]))
    fillings = [[step.filling for step in body.plan.steps if step.filling is not None] for body in bodies]
    works = [sum([filling.work for filling in its]) for its in fillings]
    flagged = any([filling.flagged for its in fillings for filling in its])
    return Blockwise(bodies, blocks, needs, sum([works[number] for number, _ in blocks]), flagged)


def of_words(words: tuple[Any, ...], plan_of: Callable[[Any], Plan | None]) -> Blockwise | None:
    """What these words say, if all its plans are there."""
    bodies, *rest = words
    plans = [plan_of(plan) for plan, *_ in bodies]
    its = [_body(plan, cells, scalars) for plan, (_, cells, scalars) in zip(plans, bodies, strict=True) if plan is not None]
    return Blockwise(its, *rest) if len(its) == len(bodies) else None


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
