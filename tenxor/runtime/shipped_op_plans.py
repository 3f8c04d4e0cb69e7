"""Plans for single elementwise operations by kernels shipped with the package: no planner and no compiler.

A shipped kernel computes a vector from vectors with a step of 1, with any step, or with a single element, and from numbers. For operands
with several axes, machine code runs the kernel on each row (`codegen/llvm/strided_rows.py`). So a few kernels for each operation and
its dtypes serve every layout without offset tables. Each operation rounds its result once, so the values equal those of a fused kernel to
the bit.
"""

from __future__ import annotations

import marshal
import math
from collections.abc import Sequence
from typing import Any

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import counts, register
from .._utils.records import NamedTuple
from ..codegen import backend
from ..codegen.interface import Compiled, KernelArguments
from ..graph.node import Node, Recipe, is_store
from ..ops import OPS
from .graph_signature import GraphSignature
from .kernel_call import SingleKernelCall, find_kernel
from .plan_execution import Plan, PlanStep

MAX_RESULT_BYTES = 1 << 20  # bytes of a result: larger results may reuse the memory of an operand, or bypass the caches
# A shipped kernel may take this much longer than a compiled one: a row costs a call, and an element a load by a step that is not known
MAX_EXTRA_NS, ROW_NS, STRIDED_ELEMENT_NS = 20_000, 8, 1
VECTOR, STRIDED, ELEMENT, NUMBER = "v", "s", "e", "n"  # kinds of operands: steps of 1, of any size, and of 0; and Python numbers
MAX_AXES = 9  # of an operation, after axes are merged: a row, and `strided_rows.MAX_OUTER_AXES`
EXTENT = -1  # in `ShippedKernel.sizes`: the number of elements
_matches: BoundedCache[Any] = register("shipped kernels", "the kernel for an operation and the merged axes, or (), by recipe")(
    BoundedCache(1 << 12)
)


class ShippedKernel(NamedTuple):
    """The entry of a kernel in the package. `facts` serialises the facts about the kernel (`find_kernel`).

    `sizes` has the meaning of each size: `EXTENT`, or the number of an operand for its step in elements. `work` is the work per element,
    in additions.
    """

    facts: tuple[Any, ...]
    sizes: tuple[int, ...]
    work: int


class OperandAxes(NamedTuple):
    """The axes of an operation after neighbours are merged where possible: `extents`, innermost first, and `strides` in elements.

    `strides` has an entry for each axis, with the stride of the result and then of each operand, 0 for a number. There is at least one
    axis.
    """

    extents: list[int]
    strides: list[tuple[int, ...]]

    def describe_operands(self, recipe: Recipe) -> tuple[str, ...]:
        """Return the kind of each operand of `recipe` along the innermost axis: `VECTOR`, `STRIDED`, `ELEMENT` or `NUMBER`."""
        keys = recipe.layout_keys[-len(self.strides[0]) + 1 :]
        return tuple(
            [
                NUMBER if key is None else VECTOR if step == 1 else ELEMENT if step == 0 else STRIDED
                for key, step in zip(keys, self.strides[0][1:], strict=True)
            ]
        )


def find_shipped_op_plan(signature: GraphSignature, nodes: Sequence[Node] = (), *, by_rows: bool = False) -> Plan | None:
    """Return the plan for `signature`, the signature of a single operation.

    Return None for several operations, if no kernel is shipped, or if a compiled kernel would be much faster (`MAX_EXTRA_NS`). Only with
    `by_rows`, a kernel may run on each row of several axes: a generic plan for them is faster.

    With `nodes`, make the plan of them instead of the nodes of `signature`: placeholders with symbolic sizes for dims.
    """
    if signature.pending_count > 1:
        return None
    nodes = nodes or signature.nodes
    node = nodes[-1]
    if is_store(node.op) and node.sources[0] in node.sources[1:]:
        return None  # the values to write are read from the overwritten memory
    match = find_shipped_kernel(node.recipe)
    compiled = None if match is None else find_kernel(match[0].facts)
    if compiled is None or match is None or (len(match[1].extents) > 1 and not by_rows):
        return None
    counts["plans_shipped"] += 1
    return _build_plan(nodes, compiled, *match)


def find_shipped_kernel(recipe: Recipe) -> tuple[ShippedKernel, OperandAxes] | None:
    """Return the shipped kernel for `recipe`, and the axes of the operation; None without a kernel that is fast enough. Cached."""
    match = _matches.get(recipe)
    if match is None:
        match = _match(recipe) or ()
        _matches.put(recipe, match)
    return match or None


def encode_op_key(recipe: Recipe, kinds: Sequence[str]) -> str:
    """Return the key of the kernel for an operation with `recipe` on operands of the given `kinds`."""
    operand_start = 1 if is_store(recipe.op) else 0  # a store copies its second source, and a number to store is cast
    name = recipe.op if not is_store(recipe.op) else OPS["cast" if NUMBER in kinds else "positive"]
    operands = [f"{dtype}{kind}" for dtype, kind in zip(recipe.dtypes[operand_start:], kinds, strict=True)]
    return " ".join(("operation", str(name), str(recipe.dtype), *operands))


def merge_axes(recipe: Recipe) -> OperandAxes | None:
    """Return the axes of an elementwise operation from the op table, or of a store of values of the same dtype.

    Return None for other operations, and for complex values. A layout may have neither offset tables nor a chain of views.
    """
    is_write = is_store(recipe.op)
    if not (is_write or (OPS.get(str(recipe.op)) is recipe.op and recipe.target is None)):
        return None
    keys = (recipe.target, *recipe.layout_keys[1:]) if is_write else recipe.layout_keys
    if any(dtype.is_complex for dtype in (recipe.dtype, *recipe.dtypes)) or any(
        key is not None and (key.layout.tables is not None or key.layout.base is not None) for key in keys
    ):
        return None
    target = recipe.target.layout if is_write and recipe.target is not None else None
    if is_write and (target is None or recipe.dtypes[1] is not recipe.dtype or not target.is_injective()):
        return None
    operands = [None if key is None else key.layout for key in recipe.layout_keys[is_write:]]
    extents, strides, result_stride = list[int](), list[tuple[int, ...]](), 1
    for axis, extent in reversed(list(enumerate(recipe.shape if target is None else target.shape))):
        if extent == 1:
            continue
        step = result_stride if target is None else target.strides[axis]
        steps = (step, *[0 if layout is None else layout.strides[axis] for layout in operands])
        if extents and steps == tuple([inner * extents[-1] for inner in strides[-1]]):
            extents[-1] *= extent
        else:
            extents.append(extent)
            strides.append(steps)
        result_stride *= extent
    if len(extents) > MAX_AXES or (extents and strides[0][0] != 1):
        return None  # the shipped kernels write vectors with a step of 1
    return OperandAxes(extents or [1], strides or [(1, *[0 if layout is None else 1 for layout in operands])])


def serialize_op_kernel(signature: GraphSignature, plan: Plan) -> tuple[str, bytes, Plan] | None:
    """Return the data to ship for `signature`, an operation on vectors planned as `plan`: the key, the content, and the plan rebuilt.

    Return None if the kernel cannot serve other sizes. Extents and steps must be numbers that identify them: no two may be equal. The
    caller must check that the rebuilt plan equals `plan`.
    """
    node, call = signature.nodes[-1], plan.steps[-1].kernel_call
    axes = merge_axes(node.recipe) if signature.pending_count == 1 else None
    if axes is None or len(axes.extents) > 1 or not isinstance(call, SingleKernelCall) or call.can_fail or call.tables:
        return None
    arguments, words, (extent,) = call.arguments, call.serialize(), axes.extents
    meanings = {extent: EXTENT} | {step: k for k, step in enumerate(axes.strides[0][1:]) if step not in (0, 1)}
    operands = [position for _, position, _ in arguments.sources]
    in_order = operands == [k for k, key in enumerate(node.recipe.layout_keys) if key is not None]
    is_general = in_order and set(arguments.sizes) <= meanings.keys() and arguments.split_extent == extent and not arguments.scratch_bytes
    if words is None or not is_general:
        return None
    entry = ShippedKernel(words[0], tuple([meanings[size] for size in arguments.sizes]), arguments.work // extent)
    key = encode_op_key(node.recipe, axes.describe_operands(node.recipe))
    return key, marshal_portably(tuple(entry)), _build_plan(signature.nodes, call.compiled, entry, axes)


def marshal_portably(value: Any) -> bytes:
    """Return `value`, made of constants, tuples and lists, as bytes: equal bytes for equal values, readable by every interpreter.

    Marshal formats above 2 encode repeated references to an object in a shorter form, so the bytes would depend on object identity.
    """
    return marshal.dumps(value, 2)


def _match(recipe: Recipe) -> tuple[ShippedKernel, OperandAxes] | None:
    """Return the result of `find_shipped_kernel`, computed anew."""
    target = backend().target
    max_bytes = min(target.streams.min_result_bytes, target.thread_limits.min_donated_bytes, MAX_RESULT_BYTES)
    axes = merge_axes(recipe) if 0 < recipe.nbytes < max_bytes else None
    if axes is None or 0 in axes.extents:
        return None
    size = math.prod(axes.extents)
    kinds = axes.describe_operands(recipe)
    any_steps = tuple([kind if kind == NUMBER else STRIDED for kind in kinds])
    for candidate in dict.fromkeys((kinds, any_steps)):
        rows = size // axes.extents[0] if len(axes.extents) > 1 else 0
        extra_ns = rows * ROW_NS + (0 if candidate == kinds else size * STRIDED_ELEMENT_NS)
        content = backend().read_shipped(encode_op_key(recipe, candidate)) if extra_ns <= MAX_EXTRA_NS else None
        if content is not None:
            return ShippedKernel(*marshal.loads(content)), axes
    return None


def _build_plan(nodes: Sequence[Node], compiled: Compiled, kernel: ShippedKernel, axes: OperandAxes) -> Plan:
    """Return the plan with a single step: `compiled` computes the last of `nodes`, an operation on the nodes before it."""
    node, last_slot = nodes[-1], len(nodes) - 1
    is_write = is_store(node.op)
    sources, scalars = list[tuple[int, int, int]](), list[tuple[int, bool]]()
    for position, source in enumerate(node.sources):
        if type(source) is not Node:
            scalars.append((len(scalars), False))
        elif position or not is_write:
            sources.append((nodes.index(source), position, 0))
    extent, *outer_extents = axes.extents
    steps, *outer_strides = axes.strides
    sizes = [extent if k == EXTENT else steps[1 + k] for k in kernel.sizes]
    split_extent = extent
    work = kernel.work * extent * math.prod(outer_extents)
    if outer_extents:
        compiled, address = backend().run_on_rows(compiled)
        split_extent = math.prod(outer_extents)
        work += split_extent * ROW_NS
        sizes = [address, extent, len(sizes), *sizes, len(outer_extents)]
        itemsizes = compiled.kernel.itemsizes
        in_memory = [0, *[1 + k for k, source in enumerate(node.sources[is_write:]) if type(source) is Node]]
        for count, strides in zip(outer_extents, outer_strides, strict=True):
            sizes += (count, *[strides[k] * itemsize for k, itemsize in zip(in_memory, itemsizes, strict=True)])
    is_full = not sources and not is_write  # a number in each element
    step = PlanStep(last_slot, node.shape, node.dtype, node.recipe.nbytes, "full" if is_full else node.op, last_slot)
    step.input_slots.update(k for k, *_ in sources)
    out = len(node.offsets) - 1 if is_write else -1
    step.kernel_call = SingleKernelCall(compiled, KernelArguments((out, 0), sources, scalars, (), sizes, split_extent, work, 0))
    watched_slots = list[int]()
    if is_write:
        old_slot = nodes.index(node.sources[0])
        step.overwritten_slot, step.donor_candidates = old_slot, (old_slot,)
        step.donors, watched_slots = ((old_slot, frozenset((old_slot,))),), [old_slot]
        step.input_slots.add(old_slot)
    return Plan(backend().target, [step], [], [], [], watched_slots, [1 for _ in watched_slots], 0)
