"""Run nodes that are computed block by block (`rewrite.blocks.Blocks`), so intermediate results exist for a single block at a time.

Blocks of equal structure share a plan, the body. The body runs once per block, on the offsets of the block.
"""

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

_EMPTY_BUFFER = allocate(0)


class _Body(NamedTuple):
    """The plan for the blocks of a common structure, and the mapping of its slots and scalars to the enclosing plan, the outer one.

    For each slot of the body, `slots` has the outer slot number, -1 for the whole result, or None for a slot of the body alone. `scalars`
    has the outer number of each scalar.
    """

    plan: Plan
    slots: list[int | None]
    scalars: list[int]
    outer_slots: frozenset[int]  # slots with an outer number: treated as externally referenced, so the body never reuses their memory


def _make_body(plan: Plan, slots: list[int | None], scalars: list[int]) -> _Body:
    return _Body(plan, slots, scalars, frozenset([j for j, outer in enumerate(slots) if outer is not None]))


class Blockwise:
    """The kernel call of a node that is computed block by block.

    For each block, `blocks` has the index of its body in `bodies`, and its offsets. An offset is a pair: the number of an offset of the
    enclosing plan, or -1 for none, and the elements to add. `needs` are the outer slots read by the blocks, and `work` is the work of the
    whole node in additions, about. `flagged` is true if a kernel checks indices or exponents, and so may fail.
    """

    __slots__ = ("blocks", "bodies", "flagged", "needs", "work")

    def __init__(
        self, bodies: list[_Body], blocks: list[tuple[int, list[tuple[int, int]]]], needs: list[int], work: int, flagged: bool
    ) -> None:
        self.bodies, self.blocks, self.needs, self.work, self.flagged = bodies, blocks, needs, work, flagged

    def in_words(self, of_plan: Callable[[Plan], Any]) -> tuple[Any, ...] | None:
        """Return the fields in serialisable form: lists, numbers, and the results of `of_plan` for the plans.

        Return None if `of_plan` returns None for a plan, which then cannot be serialised.
        """
        plans = [of_plan(body.plan) for body in self.bodies]
        if any([words is None for words in plans]):
            return None
        bodies = [(words, body.slots, body.scalars) for words, body in zip(plans, self.bodies, strict=True)]
        return bodies, self.blocks, self.needs, self.work, self.flagged

    @property
    def tables(self) -> Sequence[Table]:
        """The offset tables of the kernels."""
        steps = [step for body in self.bodies for step in body.plan.steps]
        return [t for step in steps if step.filling is not None for t in step.filling.tables]

    def run(self, out: Buffer, outer: Given, once: Once | None = None) -> bool:
        """Compute every block into `out`, the memory of the result. Return True if a kernel met an index out of range or a negative
        exponent.

        `outer` holds the slots, scalars and offsets of the enclosing plan. `once` must be None: blocks never write over their operands.
        """
        result_slot = Cell(out)
        for body_index, offsets in self.blocks:
            body = self.bodies[body_index]
            slots: list[Any] = [Cell() if k is None else outer.nodes[k] if k >= 0 else result_slot for k in body.slots]
            slots += [Cell() for _ in range(body.plan.more)]
            scalars = [outer.scalars[k] for k in body.scalars]
            inner = Pattern(None, [], slots, scalars, [outer.offsets[index] + addend for index, addend in offsets], 0)
            *steps, last_step = body.plan.steps
            try:
                for step in steps:
                    step.run(inner, body.outer_slots)
                last_step.fill(slots[last_step.number], out, inner)
            except MetOutOfRange:
                return True
        assert once is None
        return False


def in_blocks(node: Node, slot_of: dict[Node, int], scalars: dict[int, int], make_plan: Callable[[Pattern], Plan]) -> Blockwise:
    """Return the kernel call for `node`, whose operation is a `Blocks`. Call `make_plan` for the first block of each structure.

    `slot_of` maps each node to its slot, and `scalars` maps the `id` of each scalar to its number.
    """
    blocks, bodies, body_index_of = list[tuple[int, list[tuple[int, int]]]](), list[_Body](), dict[object, int]()
    needs = [slot_of[s] for s in node.sources if type(s) is Node]
    sources, out = _make_placeholders(node)
    outer_slot_of = dict(zip(sources, needs, strict=True)) | {out: -1}
    assert isinstance(node.op, Blocks)
    for k in range(node.op.count):
        pattern = pattern_of([_make_block_store(node.op, sources, out, k)])
        slots = [outer_slot_of.get(n) for n in pattern.nodes]
        scalar_numbers = [scalars[id(s)] for s in pattern.scalars]
        body_index = body_index_of.setdefault((pattern.key, *slots, *scalar_numbers), len(bodies))
        if body_index == len(bodies):
            bodies.append(_make_body(make_plan(pattern), slots, scalar_numbers))
        blocks.append((body_index, [given(offset) for offset in pattern.offsets]))
    calls_of_bodies = [[step.filling for step in body.plan.steps if step.filling is not None] for body in bodies]
    work_of_bodies = [sum([call.work for call in calls]) for calls in calls_of_bodies]
    flagged = any([call.flagged for calls in calls_of_bodies for call in calls])
    return Blockwise(bodies, blocks, needs, sum([work_of_bodies[body_index] for body_index, _ in blocks]), flagged)


def of_words(words: tuple[Any, ...], plan_of: Callable[[Any], Plan | None]) -> Blockwise | None:
    """Return the `Blockwise` serialised by `in_words`. `plan_of` decodes a plan; if it returns None for any plan, return None."""
    bodies, *fields = words
    plans = [plan_of(plan) for plan, *_ in bodies]
    decoded_bodies = [_make_body(plan, slots, scalars) for plan, (_, slots, scalars) in zip(plans, bodies, strict=True) if plan is not None]
    return Blockwise(decoded_bodies, *fields) if len(decoded_bodies) == len(bodies) else None


def first_block(node: Node) -> Node:
    """Return the node that writes the first block of `node`, whose operation is a `Blocks`. Display code shows its kernel; nothing is
    computed.
    """
    assert isinstance(node.op, Blocks)
    return _make_block_store(node.op, *_make_placeholders(node), 0)


def _make_placeholders(node: Node) -> tuple[list[Node], Node]:
    """Return placeholders for the sources of `node` and for its flat result: data nodes with an empty buffer."""
    sources = [data(_EMPTY_BUFFER, s.shape, s.dtype) for s in node.sources if type(s) is Node]
    return sources, data(_EMPTY_BUFFER, (node.size,), node.dtype)


def _make_block_store(blocks: Blocks, sources: list[Node], out: Node, k: int) -> Node:
    """Return the store of block `k` into `out`, the placeholder of the flat result."""
    value, target = blocks.block(sources, k)
    layouts = (Layout.contiguous(out.shape), Layout.contiguous(value.shape))
    return Node.of(STORE, out.shape, out.dtype, (out, value), layouts, target)
