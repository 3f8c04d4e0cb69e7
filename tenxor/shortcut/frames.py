"""Frames: how one small kernel is run, written down so that machine code can do it without Python.

A frame is a row of 64-bit integers: where the kernel is, the extent of its shared loop, and how many arguments it takes; then, for each
of these, five more: what it is, of which source, beginning at which of the node's offsets, of elements of how many bytes, and so many
bytes further on.
"""

from __future__ import annotations

import struct
from typing import Any

from ..backend.llvm.compiler import compiler
from ..node import DATA, Node
from ..plans.call import Call
from ..plans.general import plan_for
from ..plans.pattern import of_one
from ..plans.steps import Plan
from .blocks import LARGEST

LITERAL, RESULT, MEMORY, FLOAT, SIGNED, UNSIGNED = range(6)
HEAD, EACH = 3, 5  # integers
MOST = 48  # arguments
NEVER = b""  # what is not run by a frame
_plans: dict[Any, Plan] = {}  # those that have the kernels of frames in memory, by recipe


def frame_of(node: Node) -> bytes:
    """The frame of a pending node's recipe, if all that it reads is in memory; nothing if there is none."""
    recipe = node.recipe
    if recipe.frame is None:
        if not all([type(s) is not Node or s.buffer is not None for s in node.sources]):
            return NEVER
        plan = _plan_of(node)
        found = NEVER if plan is None else _written(node, plan)
        if found:
            _plans[recipe] = plan  # type: ignore[assignment]
        recipe.frame = found
    return recipe.frame


def forget() -> None:
    """Forget all frames, and with them the kernels that nothing else has."""
    while _plans:
        recipe, _ = _plans.popitem()
        recipe.frame = None


def _plan_of(node: Node) -> Plan | None:
    """The plan that computes a node of sources in memory, no two of which are one."""
    recipe = node.recipe
    if recipe.nbytes > LARGEST or not recipe.size or recipe.passing or recipe.target is not None or recipe.op is DATA:
        return None
    apart = tuple([Node(s.recipe, buffer=s.buffer) if type(s) is Node else s for s in node.sources])
    pattern = of_one(Node(recipe, apart, node.offsets))
    assert pattern is not None
    return plan_for(pattern)


def _written(node: Node, plan: Plan) -> bytes:
    """The frame by which a plan runs; nothing if it is more than one small kernel."""
    call = plan.steps[0].filling if len(plan.steps) == 1 else None
    if not isinstance(call, Call) or call.flagged or plan.more:
        return NEVER
    own, kernel = call.arguments, call.compiled.kernel
    if own.tables or own.scratch or own.work >= compiler().target.sharing.hold_lock or any([imag for _, imag in own.scalars]):
        return NEVER
    memory = [k for k, s in enumerate(node.sources) if type(s) is Node]
    numbers = [k for k, s in enumerate(node.sources) if type(s) is not Node]
    itemsizes = [operand.dtype.itemsize for operand in kernel.operands]
    at, more = own.out
    if at >= 0:
        return NEVER
    rows = [(RESULT, 0, 0, 0, more * itemsizes[0])]
    for (k, at, more), itemsize in zip(own.sources, itemsizes[1:], strict=True):
        rows.append((MEMORY, memory[k], at, itemsize, more * itemsize))
    for (k, _), dtype in zip(own.scalars, kernel.scalars, strict=True):
        rows.append(({"float": FLOAT, "uint": UNSIGNED}.get(dtype.kind, SIGNED), numbers[k], 0, 0, 0))
    rows += [(LITERAL, 0, 0, 0, size) for size in own.sizes]
    if len(rows) > MOST:
        return NEVER
    words = [call.compiled.address, own.split, len(rows), *[word for row in rows for word in row]]  # type: ignore[attr-defined]
    return struct.pack(f"={len(words)}q", *words)
