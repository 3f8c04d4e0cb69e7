"""Run nodes that are computed block by block (`rewrite.blockwise_op.BlockwiseOp`), so intermediate results exist for a single block. A plan
has kernels to read and fill numbered slots, the holders of buffers. Blocks of equal structure share a plan, the body. The body runs once
per block, on the offsets of the block. The whole node is a single step of the plan for the graph, the enclosing or outer plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._utils.records import NamedTuple
from ..codegen.interface import LaunchValues, ResumableLaunch
from ..errors import BadValueInKernel
from ..graph.node import STORE, Node, make_data_node
from ..layout import Layout, Table
from ..memory.buffer import Buffer, allocate
from ..rewrite.blockwise_op import BlockwiseOp
from .graph_signature import GraphSignature, capture_by_traversal, decode_offset
from .plan_execution import BufferSlot, Plan

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
    """Return the body for a node computed block by block, where `plan` computes a block. For `slots` and `scalars` see `_Body`."""
    return _Body(plan, slots, scalars, frozenset([j for j, outer in enumerate(slots) if outer is not None]))


class BlockwiseCall:
    """The kernel call of a node that is computed block by block.

    For each block, `blocks` has the index of its body in `bodies`, and its offsets. An offset is a pair: the number of an offset of the
    enclosing plan, or -1 for none, and the elements to add. `input_slots` are the outer slots read by the blocks, and `work` is the
    approximate work of the whole node, in additions. `can_fail` is true if a kernel checks indices or exponents, and so may fail.
    """

    __slots__ = ("blocks", "bodies", "can_fail", "input_slots", "work")

    def __init__(
        self, bodies: list[_Body], blocks: list[tuple[int, list[tuple[int, int]]]], input_slots: list[int], work: int, can_fail: bool
    ) -> None:
        self.bodies, self.blocks, self.input_slots, self.work, self.can_fail = bodies, blocks, input_slots, work, can_fail

    def serialize(self, serialize_plan: Callable[[Plan], Any]) -> tuple[Any, ...] | None:
        """Return the fields in serialisable form: lists, numbers, and the results of `serialize_plan` for the plans.

        Return None if `serialize_plan` returns None for a plan, which then cannot be serialised.
        """
        plans = [serialize_plan(body.plan) for body in self.bodies]
        if any([words is None for words in plans]):
            return None
        bodies = [(words, body.slots, body.scalars) for words, body in zip(plans, self.bodies, strict=True)]
        return bodies, self.blocks, self.input_slots, self.work, self.can_fail

    @property
    def tables(self) -> Sequence[Table]:
        """The offset tables of the kernels in every body. An axis without a constant step is read through an offset table."""
        steps = [step for body in self.bodies for step in body.plan.steps]
        return [t for step in steps if step.kernel_call is not None for t in step.kernel_call.tables]

    def run(self, out: Buffer, outer: LaunchValues, in_place_launch: ResumableLaunch | None = None) -> bool:
        """Compute every block into `out`, the memory of the result. The step of the outer plan calls this method.

        Return True if a kernel met an index out of range or a negative exponent, and False otherwise. `outer` holds the slots, scalars and
        offsets of the enclosing plan. `in_place_launch` must be None: blocks never write over their operands.
        """
        result_slot = BufferSlot(out)
        for body_index, offsets in self.blocks:
            body = self.bodies[body_index]
            slots: list[Any] = [BufferSlot() if k is None else outer.nodes[k] if k >= 0 else result_slot for k in body.slots]
            slots += [BufferSlot() for _ in range(body.plan.additional_slot_count)]
            scalars = [outer.scalars[k] for k in body.scalars]
            inner = GraphSignature(None, [], slots, scalars, [outer.offsets[index] + addend for index, addend in offsets], 0)
            *steps, last_step = body.plan.steps
            try:
                for step in steps:
                    step.run(inner, body.outer_slots)
                last_step.fill(slots[last_step.result_slot], out, inner)
            except BadValueInKernel:
                return True
        assert in_place_launch is None
        return False


def make_blockwise_call(
    node: Node, slot_of: dict[Node, int], scalars: dict[int, int], make_plan: Callable[[GraphSignature], Plan]
) -> BlockwiseCall:
    """Return the kernel call for `node`, a node with a `BlockwiseOp`.

    `slot_of` maps each node to its slot, and `scalars` maps the `id` of each scalar to its number. `make_plan` makes the plan for a
    signature, once for the first block of each structure.
    """
    blocks, bodies, body_index_of = list[tuple[int, list[tuple[int, int]]]](), list[_Body](), dict[object, int]()
    input_slots = [slot_of[s] for s in node.sources if type(s) is Node]
    sources, out = _make_placeholders(node)
    outer_slot_of = dict(zip(sources, input_slots, strict=True)) | {out: -1}
    assert isinstance(node.op, BlockwiseOp)
    for k in range(node.op.block_count):
        signature = capture_by_traversal([_make_block_store(node.op, sources, out, k)])
        slots = [outer_slot_of.get(n) for n in signature.nodes]
        scalar_numbers = [scalars[id(s)] for s in signature.scalars]
        body_index = body_index_of.setdefault((signature.key, *slots, *scalar_numbers), len(bodies))
        if body_index == len(bodies):
            bodies.append(_make_body(make_plan(signature), slots, scalar_numbers))
        blocks.append((body_index, [decode_offset(offset) for offset in signature.offsets]))
    calls_of_bodies = [[step.kernel_call for step in body.plan.steps if step.kernel_call is not None] for body in bodies]
    work_of_bodies = [sum([call.work for call in calls]) for calls in calls_of_bodies]
    flagged = any([call.can_fail for calls in calls_of_bodies for call in calls])
    return BlockwiseCall(bodies, blocks, input_slots, sum([work_of_bodies[body_index] for body_index, _ in blocks]), flagged)


def deserialize_call(content: tuple[Any, ...], deserialize_plan: Callable[[Any], Plan | None]) -> BlockwiseCall | None:
    """Return the call serialised by `BlockwiseCall.serialize`, whose result is `content`.

    `deserialize_plan` decodes a plan. Return None if `deserialize_plan` returns None for a plan, as for a missing kernel.
    """
    bodies, *fields = content
    plans = [deserialize_plan(plan) for plan, *_ in bodies]
    decoded_bodies = [_make_body(plan, slots, scalars) for plan, (_, slots, scalars) in zip(plans, bodies, strict=True) if plan is not None]
    return BlockwiseCall(decoded_bodies, *fields) if len(decoded_bodies) == len(bodies) else None


def make_first_block(node: Node) -> Node:
    """Return the node to write the first block of `node`, whose operation is a `BlockwiseOp`. Nothing is computed.

    Display code shows the kernel of this block.
    """
    assert isinstance(node.op, BlockwiseOp)
    return _make_block_store(node.op, *_make_placeholders(node), 0)


def _make_placeholders(node: Node) -> tuple[list[Node], Node]:
    """Return a list of placeholders for the source nodes of `node`, and a placeholder for its flat result.

    The placeholders are data nodes with an empty buffer.
    """
    sources = [make_data_node(_EMPTY_BUFFER, s.shape, s.dtype) for s in node.sources if type(s) is Node]
    return sources, make_data_node(_EMPTY_BUFFER, (node.size,), node.dtype)


def _make_block_store(blocks: BlockwiseOp, sources: list[Node], out: Node, k: int) -> Node:
    """Return the store of block `k` of `blocks` into `out`, the placeholder of the flat result.

    `sources` are the nodes to read, in the order of the sources of the whole node.
    """
    value, target = blocks.make_block(sources, k)
    layouts = (Layout.contiguous(out.shape), Layout.contiguous(value.shape))
    return Node.of(STORE, out.shape, out.dtype, (out, value), layouts, target)
