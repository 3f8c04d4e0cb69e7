"""Plans shipped with the package for a single elementwise operation on contiguous operands.

Such plans of an operation differ only in the number of elements. So the first results of elementwise operations need neither the compiler
nor the planner. The build of the package compares each shipped plan with the plan made by the planner (`aot/build.py`).
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Sequence
from typing import Any

from .._utils.cache_registry import counts
from ..codegen import backend
from ..codegen.interface import Compiled, KernelArguments
from ..graph.node import Node
from ..ops import OPS
from .graph_signature import GraphSignature
from .kernel_call import SingleKernelCall, find_kernel
from .plan_execution import Plan, PlanStep

MAX_UNFUSED_NODES = 16  # operations computed one after another, at most: each takes half a millisecond
MAX_RESULT_BYTES = 1 << 20  # bytes of a result: larger results may reuse the memory of an operand, or bypass the caches


def find_shipped_op_plan(signature: GraphSignature, nodes: Sequence[Node] = ()) -> Plan | None:
    """Return the plan for `signature`, the signature of a single operation.

    Return None for several operations, or if the plan or the kernel is not shipped.

    With `nodes`, make the plan of them instead of the nodes of `signature`: placeholders with symbolic sizes for dims.
    """
    if signature.pending_count > 1:
        return None
    nodes = nodes or signature.nodes
    shipped = _find_shipped(nodes[-1], encode_op_key(nodes[-1]))
    compiled = None if shipped is None else find_kernel(shipped[0])
    if compiled is None or shipped is None:
        return None
    counts["plans_shipped"] += 1
    return _build_plan(nodes, compiled, shipped[1])


def encode_op_keys(nodes: Iterable[Node]) -> tuple[str, ...] | None:
    """Return the keys of the shipped plans for `nodes`, pending nodes to be computed one by one in the given order; None if a plan is
    missing.
    """
    texts = []
    for node in nodes:
        text = encode_op_key(node)
        if text is None or _find_shipped(node, text) is None:
            return None
        texts.append(text)
    return tuple(texts)


def serialize_op_plan(signature: GraphSignature, plan: Plan) -> tuple[str, bytes, Plan] | None:
    """Return the data to ship for `signature`, planned as `plan`: the key, the content, and the plan rebuilt from the content.

    Return None if such plans are not shipped (see `encode_op_key`), or if the kernel cannot be serialised. The caller must check that the
    rebuilt plan equals `plan`.
    """
    node = signature.nodes[-1]
    text = encode_op_key(node) if signature.pending_count == 1 else None
    call = None if text is None else plan.steps[-1].kernel_call
    if text is None or not isinstance(call, SingleKernelCall):
        return None
    words, unit_work = call.serialize(), call.arguments.work // node.size
    return (
        None if words is None else (text, marshal_portably((words[0], unit_work)), _build_plan(signature.nodes, call.compiled, unit_work))
    )


def marshal_portably(value: Any) -> bytes:
    """Return `value`, made of constants, tuples and lists, as bytes: equal bytes for equal values, readable by every interpreter.

    Marshal formats above 2 encode repeated references to an object in a shorter form, so the bytes would depend on object identity.
    """
    return marshal.dumps(value, 2)


def encode_op_key(node: Node) -> str | None:
    """Return the key of the shipped plan for `node`, a pending node; None for nodes without such plans.

    Plans are shipped for operations of the op table, elementwise and of real dtypes, on contiguous operands. The result must have two
    elements or more and less than `MAX_RESULT_BYTES` bytes. The operands must include a tensor, and none may be a broadcast scalar. The key
    has the operation, the dtypes, the equalities among the sources, and the scalars.
    """
    recipe = node.recipe
    name = str(recipe.op)
    is_elementwise = (
        OPS.get(name) is recipe.op and recipe.keeps_order and recipe.target is None and not any(d.is_complex for d in recipe.dtypes)
    )
    if not is_elementwise or recipe.size < 2 or recipe.nbytes >= MAX_RESULT_BYTES or recipe.dtype.is_complex:
        return None
    reads: dict[tuple[Any, int], int] = {}
    words = [f"ready {name} {recipe.dtype}"]
    for source, layout_key, offset, dtype in zip(node.sources, recipe.layout_keys, node.offsets, recipe.dtypes, strict=True):
        if layout_key is not None and layout_key.is_broadcast_scalar:
            return None
        words.append(f"{dtype} {None if layout_key is None else reads.setdefault((source, offset), len(reads))}")
    return " ".join(words) if reads else None


def _find_shipped(node: Node, text: str | None) -> tuple[Any, int] | None:
    """Return the serialised kernel for the key `text` of `node`, and the work per element in additions.

    Return None if `text` is None, if no plan is shipped, or if the result of `node` is too large.
    """
    target = backend().target
    if text is None or node.recipe.nbytes >= min(target.streams.min_result_bytes, target.thread_limits.min_donated_bytes):
        return None
    content = backend().read_shipped(text)
    return None if content is None else marshal.loads(content)


def _build_plan(nodes: Sequence[Node], compiled: Compiled, unit_work: int) -> Plan:
    """Return the plan with a single step: `compiled` computes the last of `nodes`, an elementwise operation on the nodes before it.

    `unit_work` is the work per element, in additions.
    """
    node, last_slot = nodes[-1], len(nodes) - 1
    reads: dict[tuple[Any, int], tuple[int, int, int]] = {}
    scalars = 0
    for position, (source, offset) in enumerate(zip(node.sources, node.offsets, strict=True)):
        if type(source) is Node:
            reads.setdefault((source, offset), (nodes.index(source), position, 0))
        else:
            scalars += 1
    step = PlanStep(last_slot, node.shape, node.dtype, node.recipe.nbytes, node.op, last_slot)
    sources = list(reads.values())
    step.input_slots.update(k for k, *_ in sources)
    size = node.size
    step.kernel_call = SingleKernelCall(
        compiled, KernelArguments((-1, 0), sources, [(k, False) for k in range(scalars)], (), [size], size, unit_work * size, 0)
    )
    return Plan(backend().target, [step], [], [], [], [], [], 0)
