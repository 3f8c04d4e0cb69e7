"""Plans shipped with the package for a single elementwise operation on contiguous operands.

Such plans of an operation differ only in the number of elements. So the first results of elementwise operations need neither the compiler
nor the planner. The build of the package compares each shipped plan with the plan made by the planner (`shipping.py`).
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Sequence
from typing import Any

from ..backend import backend
from ..backend.interface import Arguments, Compiled
from ..node import Node
from ..ops import OPS
from .call import Call, found
from .pattern import Pattern
from .steps import Plan, Step

MANY = 16  # operations computed one after another, at most: each takes half a millisecond
MAX_RESULT_BYTES = 1 << 20  # bytes of a result: larger results may reuse the memory of an operand, or bypass the caches


def plan_of(pattern: Pattern, nodes: Sequence[Node] = ()) -> Plan | None:
    """Return the plan for a pattern of a single operation; None if the plan or the kernel is not shipped.

    With `nodes`, make the plan of them instead of the pattern's nodes: placeholders with symbolic sizes for dims.
    """
    if pattern.pending > 1:
        return None
    nodes = nodes or pattern.nodes
    shipped = _find_shipped(nodes[-1], text_of(nodes[-1]))
    compiled = None if shipped is None else found(shipped[0])
    return None if compiled is None or shipped is None else _build_plan(nodes, compiled, shipped[1])


def texts_of(nodes: Iterable[Node]) -> tuple[str, ...] | None:
    """Return the keys of the shipped plans for pending nodes, each computed by itself in the given order; None if a plan is missing."""
    texts = []
    for node in nodes:
        text = text_of(node)
        if text is None or _find_shipped(node, text) is None:
            return None
        texts.append(text)
    return tuple(texts)


def written(pattern: Pattern, plan: Plan) -> tuple[str, bytes, Plan] | None:
    """Return the data to ship for a planned pattern: the key, the content, and the plan rebuilt from the content.

    Return None if such plans are not shipped (see `text_of`), or if the kernel cannot be serialised. The caller must check that the rebuilt
    plan equals `plan`.
    """
    node = pattern.nodes[-1]
    text = text_of(node) if pattern.pending == 1 else None
    call = None if text is None else plan.steps[-1].filling
    if text is None or not isinstance(call, Call):
        return None
    words, unit_work = call.in_words(), call.arguments.work // node.size
    return None if words is None else (text, packed((words[0], unit_work)), _build_plan(pattern.nodes, call.compiled, unit_work))


def packed(words: Any) -> bytes:
    """Serialise a value for the package: equal bytes for equal values, readable by every interpreter.

    Marshal formats above 2 encode repeated references to an object in a shorter form, so the bytes would depend on object identity.
    """
    return marshal.dumps(words, 2)


def text_of(node: Node) -> str | None:
    """Return the key of the shipped plan for a pending node; None for nodes without such plans.

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
    for source, form, offset, dtype in zip(node.sources, recipe.forms, node.offsets, recipe.dtypes, strict=True):
        if form is not None and form.is_single:
            return None
        words.append(f"{dtype} {None if form is None else reads.setdefault((source, offset), len(reads))}")
    return " ".join(words) if reads else None


def _find_shipped(node: Node, text: str | None) -> tuple[Any, int] | None:
    """Return the serialised kernel for the key `text` and the work per element; None if no plan is shipped, or if the result is too large.
    """
    target = backend().target
    if text is None or node.recipe.nbytes >= min(target.streams.result, target.sharing.in_place):
        return None
    content = backend().shipped(text)
    return None if content is None else marshal.loads(content)


def _build_plan(nodes: Sequence[Node], compiled: Compiled, unit_work: int) -> Plan:
    node, last_slot = nodes[-1], len(nodes) - 1
    reads: dict[tuple[Any, int], tuple[int, int, int]] = {}
    scalars = 0
    for position, (source, offset) in enumerate(zip(node.sources, node.offsets, strict=True)):
        if type(source) is Node:
            reads.setdefault((source, offset), (nodes.index(source), position, 0))
        else:
            scalars += 1
    step = Step(last_slot, node.shape, node.dtype, node.recipe.nbytes, node.op, last_slot)
    sources = list(reads.values())
    step.needs.update(k for k, *_ in sources)
    size = node.size
    step.filling = Call(compiled, Arguments((-1, 0), sources, [(k, False) for k in range(scalars)], (), [size], size, unit_work * size, 0))
    return Plan(backend().target, [step], [], [], [], [], [], 0)
