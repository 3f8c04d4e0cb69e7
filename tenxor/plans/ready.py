"""Plans that came with the package: of one operation, element by element, on what lies without gaps.

Such plans differ in nothing but a number of elements, in the kernel, and in how much work that has with each of them. So a first result
of elementwise operations waits for neither a compiler nor what makes plans. Whoever makes the package compares each with what is planned
(`shipping.py`).
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

MANY = 16  # operations that are computed one after the other, at most: each takes half a millisecond
MOST = 1 << 20  # bytes of a result: what is larger may be written over an operand, or past the caches


def plan_of(pattern: Pattern, nodes: Sequence[Node] = ()) -> Plan | None:
    """The plan for a pattern of one operation, if there is one with its kernel; or for other `nodes` in place of its own, whose sizes may
    be numbers that remember what is asked of them.
    """
    if pattern.pending > 1:
        return None
    nodes = nodes or pattern.nodes
    known = _known(nodes[-1], text_of(nodes[-1]))
    code = None if known is None else found(known[0])
    return None if code is None or known is None else _plan(nodes, code, known[1])


def texts_of(nodes: Iterable[Node]) -> tuple[str, ...] | None:
    """What the plans of pending nodes are known by, each computed after what it reads; None unless there is one for each."""
    texts = []
    for node in nodes:
        text = text_of(node)
        if text is None or _known(node, text) is None:
            return None
        texts.append(text)
    return tuple(texts)


def written(pattern: Pattern, plan: Plan) -> tuple[str, bytes, Plan] | None:
    """What is to be shipped for a pattern that has been planned: the text that it is known by, the content, and what that would give, which
    should be the same plan. None if it is not of this kind.
    """
    node = pattern.nodes[-1]
    text = text_of(node) if pattern.pending == 1 else None
    call = None if text is None else plan.steps[-1].filling
    if text is None or not isinstance(call, Call):
        return None
    words, each = call.in_words(), call.arguments.work // node.size
    return None if words is None else (text, packed((words[0], each)), _plan(pattern.nodes, call.compiled, each))


def packed(words: Any) -> bytes:
    """Return words as they are shipped: equal bytes for equal words, which any interpreter reads.

    Later versions of the format than 2 write a second reference to one object shorter, so bytes depend on which equal objects are one.
    """
    return marshal.dumps(words, 2)


def text_of(node: Node) -> str | None:
    """What the plan for a pending node is known by: its operation, dtypes, and which of its sources are one or numbers; None if it is no
    such operation.
    """
    recipe = node.recipe
    name = str(recipe.op)
    is_one = OPS.get(name) is recipe.op and recipe.keeps_order and recipe.target is None and not any(d.is_complex for d in recipe.dtypes)
    if not is_one or recipe.size < 2 or recipe.nbytes >= MOST or recipe.dtype.is_complex:
        return None
    reads: dict[tuple[Any, int], int] = {}
    words = [f"ready {name} {recipe.dtype}"]
    for source, form, offset, dtype in zip(node.sources, recipe.forms, node.offsets, recipe.dtypes, strict=True):
        if form is not None and form.is_single:
            return None
        words.append(f"{dtype} {None if form is None else reads.setdefault((source, offset), len(reads))}")
    return " ".join(words) if reads else None


def _known(node: Node, text: str | None) -> tuple[Any, int] | None:
    """The words for the kernel of a node that is known by a text, and the work with each element."""
    target = backend().target
    if text is None or node.recipe.nbytes >= min(target.streams.result, target.sharing.in_place):
        return None
    content = backend().shipped(text)
    return None if content is None else marshal.loads(content)


def _plan(nodes: Sequence[Node], code: Compiled, each: int) -> Plan:
    node, last = nodes[-1], len(nodes) - 1
    reads: dict[tuple[Any, int], tuple[int, int, int]] = {}
    scalars = 0
    for at, (source, offset) in enumerate(zip(node.sources, node.offsets, strict=True)):
        if type(source) is Node:
            reads.setdefault((source, offset), (nodes.index(source), at, 0))
        else:
            scalars += 1
    step = Step(last, node.shape, node.dtype, node.recipe.nbytes, node.op, last)
    sources = list(reads.values())
    step.needs.update(k for k, *_ in sources)
    size = node.size
    step.filling = Call(code, Arguments((-1, 0), sources, [(k, False) for k in range(scalars)], (), [size], size, each * size, 0))
    return Plan(backend().target, [step], [], [], [], [], [], 0)
