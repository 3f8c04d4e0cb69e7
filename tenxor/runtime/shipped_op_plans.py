"""Plans for single operations by kernels shipped with the package: no planner and no compiler. A shipped kernel computes a vector from
vectors with a step of 1, with any step, or with a single element, and from numbers. A step is the distance of neighbouring elements, in
elements. A kernel of a reduction, or of a sum of products, also has a step for each operand along the reduced elements. A kernel of a
gather or of a scatter has an extent and a step for each indexed axis. For operands with further axes, machine code runs the kernel on each
row (`codegen/llvm/strided_rows.py`). The axes of an operation are described by `OperandAxes`, after neighbouring axes are merged.

So a few kernels for each operation and its dtypes serve every layout without offset tables. Each operation rounds its result once, and sums
add in the planner's order, so the values equal those of the planner's kernel to the bit.
"""

from __future__ import annotations

import marshal
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import counts, register
from .._utils.lazy import LazyFunctions
from .._utils.records import NamedTuple
from ..codegen import backend
from ..codegen.interface import Compiled, KernelArguments
from ..dtypes import DType
from ..graph.node import EMPTY, REINTERPRET, Gather, Node, Recipe, Scatter, is_store, is_write
from ..graph.reduced_sources import find_summed_product, has_memory_order
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction
from .graph_signature import GraphSignature
from .kernel_call import SingleKernelCall, find_kernel
from .operand_axes import NUMBER, OperandAxes, is_served, merge_axes
from .plan_execution import Plan, PlanStep

# Bytes of a result, or of the elements that a store writes: larger ones may reuse the memory of an operand, or bypass the caches
MAX_RESULT_BYTES = 1 << 20
# A shipped kernel may take this much longer than a compiled one: a row costs a call, and an element a load by a step that is not known
MAX_EXTRA_NS, ROW_NS, STRIDED_ELEMENT_NS = 20_000, 8, 1
LARGE_BYTES_PER_NS = 100  # bytes of a large result for each nanosecond to save by a compiled kernel
# In `ShippedKernel.sizes`: the number of results, the number of elements reduced for a result or in a row, two constants, the number of
# rows, reduced or of a matrix product, and of the rows in a block
EXTENT, REDUCED_EXTENT, ONE, ZERO, ROW_COUNT, BLOCK_ROWS = -1, -2, -3, -4, -5, -6
# In `ShippedKernel.sizes`: the first of the numbers for steps along the reduced elements, from row to row, and along indexed axes, and for
# the extents of these axes
REDUCED_STEP, ROW_STEP, INDEXED_STEP, INDEXED_EXTENT = 8, 16, 24, 32
find_reduction_order = LazyFunctions("tenxor.lowering.reduction_order").find_reduction_order
SUMS = REDUCTIONS["sum"], REDUCTIONS["sum_in_width"]
_matches: BoundedCache[Any] = register("shipped kernels", "the kernel for an operation and the merged axes, or (), by recipe")(
    BoundedCache(1 << 12)
)


class ShippedKernel(NamedTuple):
    """The entry of a kernel in the package. `facts` serialises the facts about the kernel (`find_kernel`).

    The kernel takes sizes: extents, steps and constants. `sizes` has the meaning of each. A meaning is one of the negative constants above,
    an index into the strides of the innermost axis, or a constant plus an index. `REDUCED_STEP` stands for the strides along the reduced
    elements, and `ROW_STEP` for the strides from row to row. `INDEXED_STEP` and `INDEXED_EXTENT` stand for the strides and extents of
    indexed axes. For each parameter in memory, `operands` has the index of its operand in the order of `OperandAxes`. `work` is the work
    per element, in additions. `packed_sides` is the number of operands that a kernel of a matrix product packs: 1 for the columns, 2 for
    both.
    """

    facts: tuple[Any, ...]
    sizes: tuple[int, ...]
    operands: tuple[int, ...]
    work: int
    packed_sides: int = 0


def find_shipped_op_plan(signature: GraphSignature, nodes: Sequence[Node] = (), *, by_rows: bool = False) -> Plan | None:
    """Return the plan for `signature`, the signature of a single operation, or of a sum of a product.

    Return None for other graphs, if no kernel is shipped, or if a compiled kernel would be much faster (`MAX_EXTRA_NS`). Only with
    `by_rows`, a kernel may run on each row of several axes: a generic plan for them is faster. With `nodes`, make the plan of these
    placeholders instead of the nodes of `signature`; they have symbolic sizes for dims.
    """
    nodes = nodes or signature.nodes
    if _has_no_kernel(signature):
        return _build_plan_without_kernel(nodes)
    match = _find_kernel_of(signature, nodes)
    if match is None or match[2] > MAX_EXTRA_NS or (len(match[1].extents) > match[1].inner_count and not by_rows):
        return None
    return _find_plan(nodes, *match[:2])


def find_temporary_plan(signature: GraphSignature, *, is_rewritten: bool = False) -> tuple[Plan, int] | None:
    """Return a plan for `signature` by a shipped kernel, and the nanoseconds that a compiled kernel would save in each run; None on a miss.

    `signature` is that of a single operation, or of a sum of a product. With `is_rewritten` it is a piece of a graph that the planner has
    rewritten. Unlike in `find_shipped_op_plan`, the kernel may be much slower than a compiled one: unfused plans use the plan for a while.
    """
    if _has_no_kernel(signature):
        return _build_plan_without_kernel(signature.nodes), 0
    match = _find_kernel_of(signature, signature.nodes, is_rewritten=is_rewritten)
    plan = None if match is None else _find_plan(signature.nodes, *match[:2])
    return None if match is None or plan is None else (plan, match[2])


def _has_no_kernel(signature: GraphSignature) -> bool:
    """Return whether `signature` is a single operation without a kernel: memory with undefined content, or bytes as another dtype."""
    return signature.pending_count == 1 and signature.nodes[-1].op in (EMPTY, REINTERPRET)


def _build_plan_without_kernel(nodes: Sequence[Node]) -> Plan:
    """Return the plan with a single step for the last of `nodes`: allocate its memory, or take the memory of its source."""
    node, slot = nodes[-1], len(nodes) - 1
    step = PlanStep(slot, node.shape, node.dtype, node.recipe.nbytes, node.op, slot)
    if node.op is REINTERPRET:
        step.reinterpreted_slot = nodes.index(node.sources[0])
        step.input_slots.add(step.reinterpreted_slot)
    return Plan(backend().target, [step], [], [], [], [], [], 0)


def _get_product(nodes: Sequence[Node]) -> Node | None:
    """Return the pending product that the last of `nodes` sums, or None if there is no such product.

    Both factors must be nodes in memory, not numbers. The sum must read the product from offset 0, and the product must not be stored
    itself (`is_stored`).
    """
    node = nodes[-1]
    product = node.sources[0] if node.op in SUMS else None
    if type(product) is not Node or product.op is not OPS["multiply"]:
        return None
    is_inlined = not (product.is_stored or any(node.offsets)) and all([type(s) is Node and s.buffer is not None for s in product.sources])
    return product if is_inlined else None


Match = tuple[ShippedKernel, OperandAxes, int]  # a kernel, the axes of an operation, and by how many ns a compiled kernel would be faster


def _find_kernel_of(signature: GraphSignature, nodes: Sequence[Node], *, is_rewritten: bool = False) -> Match | None:
    """Return the shipped kernel with the planner's bits for `signature`, or for `nodes` in place of its nodes; None without one.

    The result also has the axes of the operation, and the nanoseconds that a compiled kernel would save in each run. With `is_rewritten`,
    the planner has rewritten the graph already, so reductions are accepted that it would rewrite. Results are cached by recipe.
    """
    node = nodes[-1]
    product = _get_product(nodes) if signature.pending_count > 1 and len(signature.root_slots) == 1 else None
    if (signature.pending_count > 1 and product is None) or (is_write(node.op) and node.sources[0] in node.sources[1:]):
        return None  # several kernels, or a write of values that are read from the overwritten memory
    key = node.recipe, None if product is None else product.recipe, is_rewritten
    match = _matches.get(key)
    if match is None:
        match = _match(*key[:2], _merge_axes_of(node, product), is_rewritten=is_rewritten) or ()
        _matches.put(key, match)
    return match or None


def _merge_axes_of(node: Node, product: Node | None) -> OperandAxes | None:
    """Return the axes of the operation `node`, or of the sum `node` of `product`; None for an operation not supported by `merge_axes`.

    Reduced elements are joined in the order of the planner's kernels.
    """
    return merge_axes(node.recipe, None if product is None else product.recipe, partial(find_reduction_order, node))


def encode_op_key(recipe: Recipe, kinds: Sequence[str], product: Recipe | None = None) -> str:
    """Return the key in the package of the kernel for an operation with `recipe`, or for the sum `recipe` of `product`.

    `kinds` has the kind of each operand (`OperandAxes.list_kinds`).
    """
    op, operand_start = recipe.op, int(is_write(recipe.op))  # the overwritten source is no operand
    name: object = op
    if is_store(op):  # a store copies its second source, and a number to store is cast
        name = OPS["cast" if NUMBER in kinds[0] else "positive"]
    elif type(op) is Gather:
        name = op.kind
    elif type(op) is Scatter:
        name = f"{op.kind} {op.reduction}"
    elif type(op) is Op and op.formula_digest:
        name = f"{op} {op.formula_digest.hex()}"
    operands = [f"{dtype}{kind}" for dtype, kind in zip((product or recipe).dtypes[operand_start:], kinds, strict=True)]
    # "sum" and "sum_in_width" of products share a kernel if the dtypes are equal
    return " ".join(
        ("operation", str(name), str(recipe.dtype), *operands) if product is None else ("product", str(recipe.dtype), *operands)
    )


def list_op_keys(signature: GraphSignature) -> list[str]:
    """Return the keys of the kernels for `signature`, a single operation on vectors or a sum of a product, fastest first.

    The builder of the package compiles the kernels. The list is empty for other graphs, and where the planner's kernel differs from a
    kernel for vectors.
    """
    node, product = signature.nodes[-1], _get_product(signature.nodes) if signature.pending_count > 1 else None
    product_recipe = None if product is None else product.recipe
    if signature.pending_count > 1 and product is None:
        return []
    axes = _merge_axes_of(node, product)
    if axes is None or (axes.reduced and not is_served(node.recipe, axes)) or len(axes.extents) > axes.inner_count:
        return []
    return [encode_op_key(node.recipe, kinds, product_recipe) for kinds in axes.list_kinds(node.recipe, product_recipe)]


def serialize_op_kernel(signature: GraphSignature, plan: Plan) -> tuple[str, bytes, Plan] | None:
    """Return the data to ship for `signature`, an operation on vectors planned as `plan`: the key, the content, and the plan rebuilt.

    Return None if the kernel cannot serve other sizes. Extents and steps must be numbers that identify them: no two may be equal. The
    builder of the package calls this function, and must check that the rebuilt plan equals `plan`.
    """
    node, call, keys = signature.nodes[-1], plan.steps[-1].kernel_call, list_op_keys(signature)
    if not keys or not isinstance(call, SingleKernelCall) or call.tables:
        return None
    product = _get_product(signature.nodes) if signature.pending_count > 1 else None
    axes = _merge_axes_of(node, product)
    arguments, words = call.arguments, call.serialize()
    if words is None or axes is None or arguments.split_extent != axes.extents[-1]:
        return None
    named_sizes = [(axes.extents[0], EXTENT), *[(step, k) for k, step in enumerate(axes.strides[0])]]
    if axes.reduced:
        named_sizes += [(axes.reduced[0], REDUCED_EXTENT), *[(step, REDUCED_STEP + k) for k, step in enumerate(axes.reduced[1:])]]
    if axes.rows:
        named_sizes += [(axes.rows[0], ROW_COUNT), *[(step, ROW_STEP + k) for k, step in enumerate(axes.rows[1:])]]
    for k, (size, step) in enumerate(axes.indexed):
        named_sizes += [(size, INDEXED_EXTENT + k), (step, INDEXED_STEP + k)]
    if axes.is_matrix_product:
        named_sizes += [(axes.extents[1], ROW_COUNT), (_count_block_rows(axes), BLOCK_ROWS)]
        named_sizes += [(step, ROW_STEP + k) for k, step in enumerate(axes.strides[1][1:], 1)]
    named_sizes = [(size, meaning) for size, meaning in named_sizes if size not in (0, 1)]
    meanings = dict(named_sizes) | {0: ZERO, 1: ONE}
    if len({size for size, _ in named_sizes}) < len(named_sizes):
        return None  # a size does not identify its meaning
    reader = product or node
    slots = [signature.nodes.index(source) if type(source := reader.sources[k]) is Node else -1 for k in _list_operands(reader, axes)]
    operands = tuple([slots.index(slot) for slot, *_ in arguments.sources])
    if len({*operands}) < len(slots) - slots.count(-1) or not set(arguments.sizes) <= meanings.keys():
        return None
    sizes = tuple([meanings[size] for size in arguments.sizes])
    packed_sides = next((k for k in range(3) if _count_scratch(axes, node.dtype, k) == arguments.scratch_bytes), 0)
    entry = ShippedKernel(words[0], sizes, operands, arguments.work // _count_visits(axes), packed_sides)
    return keys[0], marshal_portably(tuple(entry)), _build_plan(signature.nodes, call.compiled, entry, axes)


def _list_operands(reader: Node, axes: OperandAxes) -> list[int]:
    """Return the positions of the operands of `reader` among its sources, in the order of `axes`, the axes of the operation.

    The overwritten source of a store or a scatter is no operand.
    """
    positions = list(range(is_write(reader.op), len(reader.sources)))
    return positions[::-1] if axes.is_swapped else positions


def _count_visits(axes: OperandAxes) -> int:
    """Return the number of elements that a kernel for `axes` visits: the results, and the elements reduced for them.

    The steps of a matrix product count less (`contraction_step_ratio`).
    """
    results = math.prod(axes.extents)
    if axes.is_matrix_product:
        return results + results * axes.reduced[0] // backend().target.costs.contraction_step_ratio
    return results * (axes.reduced_count + (not axes.is_scan) if axes.reduced else 1)


def _count_block_rows(axes: OperandAxes) -> int:
    """Return the number of rows in a block, the rows computed together in a matrix product, for `axes` on the present machine."""
    return min(axes.extents[1], backend().target.blocks.block_rows[1])


def _count_scratch(axes: OperandAxes, dtype: DType, packed_sides: int) -> int:
    """Return the bytes of scratch memory for a matrix product of `dtype` on `axes`; `packed_sides` is that of `ShippedKernel`."""
    if not (packed_sides and axes.is_matrix_product):
        return 0
    state_bytes = (dtype.part.itemsize,) * (1 + dtype.is_complex)
    nbytes = dtype.itemsize * (packed_sides > 1), dtype.itemsize
    blocks = _count_block_rows(axes), axes.extents[0]
    return backend().target.count_contraction_scratch(blocks, axes.reduced[0], state_bytes, nbytes, steps_first=False)


def marshal_portably(value: Any) -> bytes:
    """Return `value`, made of constants, tuples and lists, as bytes: equal bytes for equal values, readable by every interpreter.

    Marshal formats above 2 encode repeated references to an object in a shorter form, so the bytes would depend on object identity.
    """
    return marshal.dumps(value, 2)


def _match(recipe: Recipe, product: Recipe | None, axes: OperandAxes | None, *, is_rewritten: bool) -> Match | None:
    """Return the result of `_find_kernel_of` for an operation on `axes`, computed anew; None without a kernel.

    `recipe` is the operation, or a sum of `product`, the recipe of a product or None. For `is_rewritten` see `_find_kernel_of`.
    """
    if axes is None or not recipe.nbytes or 0 in axes.extents:
        return None
    target, size, unserved_ns = backend().target, _count_visits(axes), 0
    if axes.reduced and not is_served(recipe, axes):  # the planner would rewrite the reduction
        is_free = isinstance(recipe.op, Reduction) and recipe.op.is_order_free(recipe.dtypes[0])
        if axes.is_matrix_product or axes.is_scan or not (is_rewritten or is_free):
            return None
        unserved_ns = MAX_EXTRA_NS + size * STRIDED_ELEMENT_NS
    rows = math.prod(axes.extents[axes.inner_count :]) if len(axes.extents) > axes.inner_count else 0
    max_bytes = min(target.streams.min_result_bytes, target.thread_limits.min_donated_bytes, MAX_RESULT_BYTES)
    nbytes = math.prod(axes.extents) * recipe.dtype.itemsize
    large_ns = MAX_EXTRA_NS + nbytes // LARGE_BYTES_PER_NS if nbytes >= max_bytes else 0
    kinds = axes.list_kinds(recipe, product)
    for candidate in kinds:
        extra_ns = rows * ROW_NS + large_ns + unserved_ns + (0 if candidate == kinds[0] else size * STRIDED_ELEMENT_NS)
        content = backend().read_shipped(encode_op_key(recipe, candidate, product))
        if content is not None:
            return ShippedKernel(*marshal.loads(content)), axes, extra_ns
    return None


def _find_plan(nodes: Sequence[Node], kernel: ShippedKernel, axes: OperandAxes) -> Plan | None:
    """Return the plan of `kernel` for the last of `nodes`, an operation on `axes` or the sum of a product; None if the code is missing.

    `nodes` are the nodes of a signature, in topological order.
    """
    compiled = find_kernel(kernel.facts)
    counts["plans_shipped"] += compiled is not None
    return None if compiled is None else _build_plan(nodes, compiled, kernel, axes)


def _build_plan(nodes: Sequence[Node], compiled: Compiled, kernel: ShippedKernel, axes: OperandAxes) -> Plan:
    """Return the plan with a single step: `compiled` computes the last of `nodes`, an operation on `axes` or the sum of a product.

    `kernel` is the entry of the kernel, and `compiled` the code. With more axes than the kernel has, machine code runs the kernel on each
    row.
    """
    node, last_slot = nodes[-1], len(nodes) - 1
    reader = (_get_product(nodes) if axes.reduced else None) or node
    inlined_slots = [] if reader is node else [nodes.index(reader)]
    first_offset = sum([len(n.offsets) for n in nodes[: nodes.index(reader)] if n.buffer is None])
    sources, scalars = list[tuple[int, int, int]](), list[tuple[int, bool]]()
    positions = _list_operands(reader, axes)
    for position in [positions[k] for k in kernel.operands]:
        sources.append((nodes.index(reader.sources[position]), first_offset + position, 0))
    numbers = [dtype for source, dtype in zip(reader.sources, reader.recipe.dtypes, strict=True) if type(source) is not Node]
    for number, dtype in enumerate(numbers):
        scalars += [(number, False), (number, True)] if dtype.is_complex else [(number, False)]
    inner_count = axes.inner_count
    outer_extents, outer_strides = axes.extents[inner_count:], axes.strides[inner_count:]
    sizes = [_get_size(meaning, axes) for meaning in kernel.sizes]
    split_extent = axes.extents[inner_count - 1]
    work = kernel.work * _count_visits(axes)
    if outer_extents:
        compiled, address = backend().run_on_rows(compiled, has_scratch=kernel.packed_sides > 0, is_ordered=type(node.op) is Scatter)
        sizes = [address, split_extent, len(sizes), *sizes, len(outer_extents)]
        split_extent = math.prod(outer_extents)
        work += split_extent * ROW_NS
        itemsizes = compiled.kernel.itemsizes
        for count, strides in zip(outer_extents, outer_strides, strict=True):
            # a kernel that can fail has the address of a flag for its last operand
            moves = [strides[0], *[strides[1 + k] for k in kernel.operands]] + [0] * compiled.kernel.can_fail
            sizes += (count, *[move * itemsize for move, itemsize in zip(moves, itemsizes, strict=True)])
    is_full = type(node.op) is Op and not sources  # a number in each element
    step = PlanStep(last_slot, node.shape, node.dtype, node.recipe.nbytes, "full" if is_full else node.op, last_slot)
    step.input_slots.update(k for k, *_ in sources)
    out = -1 if node.recipe.target is None else len(node.offsets) - 1
    scratch = _count_scratch(axes, node.dtype, kernel.packed_sides)
    step.kernel_call = SingleKernelCall(compiled, KernelArguments((out, 0), sources, scalars, (), sizes, split_extent, work, scratch))
    # To store a product would change a sum that follows the factors
    expensive_slots = [] if find_summed_product(node) is reader and not has_memory_order(reader) else list(inlined_slots)
    watched_slots = list(expensive_slots)
    if is_write(node.op):
        old_slot = nodes.index(node.sources[0])
        step.overwritten_slot, step.donor_candidates = old_slot, (old_slot,)
        step.donors, watched_slots = ((old_slot, frozenset((old_slot,))),), [old_slot]
        step.input_slots.add(old_slot)
        if type(node.op) is Scatter:
            step.is_unrepeatable = True
            if not node.op.is_checked:  # a copy is overwritten, as the old content would be lost in a failure
                step.donor_candidates, step.donors, watched_slots = (), (), []
    counts_by_slot = [1 for _ in watched_slots]
    return Plan(backend().target, [step], inlined_slots, expensive_slots, [], watched_slots, counts_by_slot, 0)


def _get_size(meaning: int, axes: OperandAxes) -> int:
    """Return the size with the meaning `meaning`, an item of `ShippedKernel.sizes`, for `axes`."""
    if meaning >= INDEXED_STEP:
        size, step = axes.indexed[meaning % REDUCED_STEP]
        return size if meaning >= INDEXED_EXTENT else step
    if meaning >= 0:
        strides = (
            (axes.rows[1:] or axes.strides[1]) if meaning >= ROW_STEP else axes.reduced[1:] if meaning >= REDUCED_STEP else axes.strides[0]
        )
        return strides[meaning % REDUCED_STEP]
    if meaning in (ONE, ZERO):
        return int(meaning == ONE)
    if meaning == BLOCK_ROWS:
        return _count_block_rows(axes)
    if meaning == ROW_COUNT:
        return axes.rows[0] if axes.rows else axes.extents[1]
    return axes.extents[0] if meaning == EXTENT else axes.reduced[0]
