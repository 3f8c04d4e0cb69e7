"""The planner: it chooses the kernels for a pending graph, the order of the steps, and the reuse of memory between them. A node of the
graph is computed by a kernel for the node alone, or inlined in the kernels of readers. A plan step gives memory to a slot, and mostly runs
a kernel. A slot is the number of a buffer in the plan. The signature of the graph lists the nodes, and the slots of the roots, the
requested nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._utils.cache_registry import CacheRecord, add_seconds, counts
from .._utils.lazy import LazyFunctions
from ..codegen import backend
from ..errors import TraceError
from ..graph.node import EMPTY, MAX_STANDALONE_BYTES, PLACEHOLDER, REINTERPRET, UPDATE, Node, Scalar, Scatter, is_write
from ..graph.reduced_sources import find_summed_product, has_memory_order
from ..lowering.fuse import collect_pending, fuse
from ..lowering.graph_facts import compute_weights, find_constants
from ..lowering.ir import Kernel
from ..lowering.lower import lower
from ..ops import OPS, Op
from ..rewrite.blockwise_op import BlockwiseOp
from ..rewrite.rewrite_passes import rewrite_graph
from ..symbolic.symint import peek_value
from ..target import Target
from .graph_signature import GraphSignature, iter_scalars, make_placeholders
from .plan_execution import Plan, PlanStep
from .plan_lowering import MAX_CACHED_TABLE_BYTES, MAX_LOWERED_KERNELS, Lowering, LoweringCache
from .plan_memory import SlotRoles, assemble_plan
from .unfused_plans import find_expensive_nodes, find_reordered_ids

blockwise_call = LazyFunctions("tenxor.runtime.blockwise_call")  # imported on demand: most plans have one or two kernels
order_plan_steps = LazyFunctions("tenxor.runtime.step_order").order_plan_steps
group_fusible_kernels = LazyFunctions("tenxor.lowering.multi_output").group_fusible_kernels  # imported with the first plan of several roots
_OPS_WITHOUT_KERNEL = (EMPTY, REINTERPRET)
_lowering_caches: list[LoweringCache] = []  # the lowered kernels for the target of the last plan
CacheRecord(
    "lowered kernels",
    "the arguments of a kernel, by the structure of its node",
    __name__,
    _lowering_caches.clear,
    lambda: sum(map(len, _lowering_caches)),
    max_entries=MAX_LOWERED_KERNELS,
    count_bytes=lambda: sum([cache.nbytes for cache in _lowering_caches]),
    max_bytes=MAX_CACHED_TABLE_BYTES,
)


@add_seconds("planner_seconds")
def make_plan(signature: GraphSignature) -> Plan:
    """Make the plan for the exact dims of `signature`, and compile its kernels. Dims are shapes, strides and offsets.

    `signature` must be a snapshot (`GraphSignature.snapshot`). Raise TraceError if an argument of a traced function is pending.
    """
    target = backend().target
    cache = next((cache for cache in _lowering_caches if cache.target is target), None)
    if cache is None:
        cache = LoweringCache(target)
        _lowering_caches[:] = [cache]
    return _plan_placeholders(signature, make_placeholders(signature), cache)


@add_seconds("planner_seconds")
def make_symbolic_plan(signature: GraphSignature, nodes: Sequence[Node], target: Target) -> Plan:
    """Make a plan from placeholders with symbolic sizes: the trace of the sizes records each decision of the planner.

    `nodes` are the placeholders for `signature` (see `make_placeholders`). The settings of `target`, the machine, may be symbolic, too. The
    cache of lowered kernels is not used. Raise TypeError if code of the planner cannot handle symbolic sizes.
    """
    return _plan_placeholders(signature, nodes, LoweringCache(target))


def _plan_placeholders(signature: GraphSignature, nodes: Sequence[Node], cache: LoweringCache) -> Plan:
    """Return the plan of `nodes`, the placeholders for `signature`, for the machine of `cache`, and compile the kernels.

    Raise TraceError if an argument of a traced function is pending.
    """
    counts["plans_made"] += 1
    target = cache.target
    roots = [nodes[k] for k in signature.root_slots]
    order = collect_pending(roots)
    if any(node.op is PLACEHOLDER for node in order):
        raise TraceError(
            "the function being traced needs the value of an element (bool(), int(), float() or item()), and while it is traced"
            " elements have none; choose between values with tx.where(condition, yes, no) instead of `if`, and"
            " use tx functions (tx.sin) instead of math's; a tensor from outside that it wrote to has none afterwards, either:"
            " give what is written as a result"
        )
    slot_of = {node: k for k, node in enumerate(nodes)}
    replacement_of, new_order, kernels = _choose_kernels(order, roots, target)
    slot_of |= {replacement: slot_of[node] for node, replacement in replacement_of.items()}
    added_nodes = [node for node in new_order if node not in slot_of]
    slot_of |= {node: k for k, node in enumerate(added_nodes, len(nodes))}
    stored_nodes = set(kernels)
    inlined_nodes = [n for n in order if replacement_of.get(n, n) not in stored_nodes]
    inlined = {slot_of[n] for n in inlined_nodes}
    expensive_slots = [slot_of[n] for n in _find_worth_storing(order, inlined_nodes, target)]
    cheap_to_store_slots = [slot_of[n] for n in _find_expensive(inlined_nodes, [nodes[k] for k in signature.root_slots], nodes, target)]
    user_slot_of = _find_user_slots(new_order, stored_nodes, slot_of, len(nodes)) if added_nodes else {}
    scalars = {id(s): k for k, s in enumerate(iter_scalars(nodes))}
    lowering = Lowering(stored_nodes, cache, slot_of, scalars)
    nbytes = {k: peek_value(node.size) * node.dtype.itemsize for node, k in slot_of.items()}
    groups = (
        group_fusible_kernels(kernels, target) if len(signature.root_slots) > 1 else {}
    )  # the fast path's launch records have one result per kernel
    extra_results = {node for group in groups.values() for node in group}
    slot_count = len(nodes) + len(added_nodes)
    steps = []
    for node in kernels:
        if node in extra_results:
            continue
        extra_slots = {result: k for k, result in enumerate(groups.get(node, ()), slot_count)}
        slot_count += len(extra_slots)
        steps.append(_make_step(node, extra_slots, lowering, slot_of, scalars, user_slot_of.get(node, slot_of[node]), nodes))
    if len(steps) > 2:
        steps = order_plan_steps(steps, nbytes, frozenset(signature.root_slots))
    return assemble_plan(
        target, steps, order, slot_of, (len(nodes), slot_count), SlotRoles(sorted(inlined), expensive_slots, cheap_to_store_slots)
    )


def _choose_kernels(order: list[Node], roots: Sequence[Node], target: Target) -> tuple[dict[Node, Node], list[Node], list[Node]]:
    """Rewrite a graph and choose the kernels. `order` has the pending nodes in topological order, and `roots` are the requested nodes.

    Return a triple. It has the replacement of each rewritten node, as a dict, and the nodes of the new graph in topological order. The last
    item lists the nodes to become kernels on the machine `target`, in an order in which the kernels can run.
    """
    replacement_of = rewrite_graph(order, roots)
    if replacement_of:
        roots = [replacement_of.get(root, root) for root in roots]
        order = collect_pending(roots)
    return replacement_of, order, fuse(order, roots, target)


def _find_worth_storing(order: Sequence[Node], inlined: Sequence[Node], target: Target) -> list[Node]:
    """Return the nodes of `inlined` to store once they are requested again, in the same order.

    Constants that load no faster than `target`, the machine, computes them are left out, unless they are small. Summed products are left
    out if their kernel reads them in another order than memory (`has_memory_order`): a sum of the stored product would round differently.
    `order` has the pending nodes in topological order.
    """
    weights, fusing = compute_weights(order), target.fusing
    constants, products = find_constants(order, weights, fusing), set(map(find_summed_product, order))

    def loads_faster(constant: Node) -> bool:
        """Return whether `constant` loads faster than the machine computes it, or is small."""
        return weights[constant] > fusing.max_constant_operations or constant.recipe.nbytes <= MAX_STANDALONE_BYTES

    return [n for n in inlined if (n not in constants or loads_faster(n)) and not (n in products and not has_memory_order(n))]


def _find_expensive(inlined: Sequence[Node], roots: Sequence[Node], nodes: Sequence[Node], target: Target) -> list[Node]:
    """Return the nodes of `inlined` that are expensive to repeat on `target` and no larger than some node of `roots`, the requested nodes.

    `inlined` is in topological order. `nodes` has all nodes of the signature: the list is empty where storing more of them might change the
    bits of a reduction.
    """
    expensive_nodes = [node for node in find_expensive_nodes(inlined, target.fusing) if any([node.size <= root.size for root in roots])]
    return expensive_nodes if expensive_nodes and not find_reordered_ids(nodes) else []


def _find_user_slots(order: list[Node], kernels: set[Node], slot_of: dict[Node, int], count: int) -> dict[Node, int]:
    """Map each node added by the rewriting to the slot of a kernel that needs the node, for error messages.

    The slot is among the first `count` slots: those of the signature. Error messages name its operation. `order` has the nodes of the
    rewritten graph in topological order, `kernels` the nodes computed by kernels, and `slot_of` maps nodes to slots. Added nodes have slots
    from `count` on.
    """
    user_slot_of: dict[Node, int] = {}
    for node in reversed(order):
        slot = slot_of[node]
        user_slot = slot if slot < count and node in kernels else user_slot_of.get(node)
        for source in node.sources:
            if type(source) is Node and user_slot is not None:
                user_slot_of.setdefault(source, user_slot)
    return {node: k for node, k in user_slot_of.items() if slot_of[node] >= count}


def _make_step(
    node: Node,
    extra_slots: dict[Node, int],
    lowering: Lowering,
    slot_of: dict[Node, int],
    scalars: dict[int, int],
    user_slot: int,
    nodes: Sequence[Node],
) -> PlanStep:
    """Return the plan step for `node`, and for the nodes of `extra_slots`, computed by the same kernel. Choose possible memory donors.

    `extra_slots` maps each of its nodes to an additional slot. `lowering` makes the kernel calls of the plan. `slot_of` maps nodes to
    slots, and `scalars` maps the `id` of each scalar to its number. `user_slot` is the slot named in error messages, an index into `nodes`,
    the nodes of the signature.
    """
    user_node = nodes[user_slot]
    name = "full" if user_node.op is OPS["cast"] and type(user_node.sources[0]) is Scalar else user_node.op
    step = PlanStep(slot_of[node], node.shape, node.dtype, node.size * node.dtype.itemsize, name, user_slot)
    if is_write(node.op) or node.op is REINTERPRET:
        source = slot_of[node.sources[0]]  # type: ignore[index]
        step.input_slots.add(source)
        if is_write(node.op):
            step.overwritten_slot, step.donor_candidates = source, (source,)
        else:
            step.reinterpreted_slot = source
    if node.op in _OPS_WITHOUT_KERNEL or node.size == 0:
        return step
    if isinstance(node.op, BlockwiseOp):
        blocks = step.kernel_call = blockwise_call.make_blockwise_call(node, slot_of, scalars, make_plan)
        step.input_slots.update(blocks.input_slots)
        return step
    call, target = lowering.lower_to_call(node, extra_slots), lowering.cache.target
    step.kernel_call, step.extra_outputs = call, tuple([(k, slot_of[result]) for result, k in extra_slots.items()])
    step.input_slots.update(set(call.input_slots).difference(extra_slots.values()))
    reads_overwritten = step.overwritten_slot in call.input_slots
    step.is_unrepeatable = type(node.op) is Scatter or (node.op is UPDATE and reads_overwritten)
    if is_write(node.op) and node.op is not UPDATE and (reads_overwritten or node.sources[0] in node.sources[1:]):
        step.donor_candidates = ()  # the values to write are read from the overwritten memory, in another order
    arguments, kernel = call.arguments, call.compiled.kernel
    is_splittable = kernel.split_axis >= 0 and not arguments.scratch_bytes  # signals are delivered between two parts
    threads = target.threads if kernel.shared_axis >= 0 else 1
    part_length = kernel.choose_grain(target.thread_limits) * threads if is_splittable else arguments.split_extent
    max_part_work = target.thread_limits.max_uninterrupted_work  # small work asks no second question, so sizes share a generic plan
    is_brief = call.work <= max_part_work or call.work * part_length <= arguments.split_extent * max_part_work
    may_fail = isinstance(node.op, Scatter) and not node.op.is_checked
    if step.is_unrepeatable and (may_fail or not is_brief):
        step.donor_candidates = ()  # the step cannot be repeated, and a long step should be interruptible
    step.is_long = step.is_unrepeatable and call.work > max_part_work
    if extra_slots:  # donors are nodes in memory: no new reference to such a node can arise while the plan runs
        step.donor_candidates = tuple([k for k in lowering.find_aligned_slots(node) if k < len(nodes) and nodes[k].buffer is not None])
    elif step.nbytes >= target.thread_limits.min_donated_bytes and is_brief and type(node.op) is Op and not call.can_fail:
        step.donor_candidates = tuple(lowering.find_aligned_slots(node))
    return step


def preview_kernels(roots: Sequence[Node]) -> list[tuple[Node, Kernel | None]]:
    """Return the nodes that would become kernels to compute `roots`, in order, each with its kernel. Compute nothing.

    Roots in memory are ignored. The kernel is None where memory is only allocated or reinterpreted, or the result has no elements. For a
    node computed block by block, return the kernels of the first block.
    """
    pending_roots = [node for node in roots if node.buffer is None]
    target = backend().target
    _, _, kernels = _choose_kernels(collect_pending(pending_roots), pending_roots, target)
    kernel_set, node_kernels = set(kernels), list[tuple[Node, Kernel | None]]()
    for node in kernels:
        if isinstance(node.op, BlockwiseOp):
            node_kernels += preview_kernels([blockwise_call.make_first_block(node)])
            continue
        has_no_kernel = node.op in _OPS_WITHOUT_KERNEL or node.size == 0
        node_kernels.append((node, None if has_no_kernel else lower(node, kernel_set, target)[0]))
    return node_kernels
