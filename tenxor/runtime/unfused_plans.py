"""Plans of single operations by prebuilt kernels, to compute a graph node by node until a plan for the whole is due. A graph is made of
pending nodes: recipes (an operation with shape, dtypes and layouts) on sources. Each operation rounds its result once, fused or not, so the
values are the same to the bit. A piece is the part of a graph for a single kernel, mostly a single node. A sum and its product are a piece.
So are a reduction and the elementwise operations below, if the reduction alone would add in another order. A contraction is a kernel for a
matrix product, with a special order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from types import NoneType

from .._utils.lazy import LazyFunctions
from .._utils.records import NamedTuple
from ..codegen import backend
from ..codegen.interface import KernelArguments
from ..graph.node import EMPTY, POSITION, REINTERPRET, Gather, Node, Scalar, Scan, is_read_from_memory, is_write
from ..graph.reduced_sources import find_summed_product, has_memory_order
from ..graph.reduction_limits import MIN_CONTRACTION_SIZES
from ..layout import Layout
from ..memory.buffer import META_BUFFER
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction
from ..rewrite.blockwise_op import MAX_UNBLOCKED_BYTES
from ..target import Fusing
from .deferral import defer_plan, estimate_cost, estimate_gain
from .graph_signature import GraphSignature, capture_in_python, decode_offset, iter_scalars, make_placeholders
from .kernel_call import SingleKernelCall
from .operand_axes import is_matrix_product_in_every_kernel, is_product_of_copies
from .plan_execution import Plan, PlanStep
from .plan_memory import SlotRoles, assemble_plan
from .shipped_op_plans import find_temporary_plan

rewrite_graph = LazyFunctions("tenxor.rewrite.rewrite_passes").rewrite_graph  # imported with the first rewritten reduction
MAX_UNFUSED_NODES = 1 << 10
MIN_COST_RATIO = 1.5  # minimal cost of a plan for the whole, by the cost of the missing plans for pieces, to compile pieces alone
MAX_UNFUSED_BYTES = 1 << 26  # bytes of a result: larger temporary results may need too much memory
SUM, MAX, MULTIPLY, EXP = REDUCTIONS["sum"], REDUCTIONS["max"], OPS["multiply"], OPS["exp"]


class Piece(NamedTuple):
    """The node `node` of a graph, with the nodes `fused` for the same kernel: the product under a sum, or elementwise operations.

    The plan of the piece numbers slots, offsets and scalars by the signature of the piece. For each, `slots`, `offsets` and `scalars` have
    the number in the graph. An offset is a pair of a number and an addend (`KernelArguments`).
    """

    node: Node
    fused: Sequence[Node]
    slots: Sequence[int]
    offsets: Sequence[tuple[int, int]]
    scalars: Sequence[int]

    def make_key(self) -> object:
        """Return a hashable key, equal for pieces with the same plan: a pair of recipes, or the key of the piece's signature."""
        if _has_own_reads(self.node, self.fused):
            return self.node.recipe, (self.fused[0] if self.fused else self.node).recipe
        return self.capture().key

    def capture(self) -> GraphSignature:
        """Return the signature of the piece, with stand-ins for the sources: data nodes without memory."""
        return capture_in_python([_clone_piece(self.node, self.fused)[self.node]])


def list_pieces(signature: GraphSignature, *, is_rewritten: bool = False) -> list[Piece]:
    """Return the pieces of the graph of `signature`, in order; an empty list to plan the graph as a whole.

    With `is_rewritten`, return the pieces of the graph after the planner's rewriting. Chains of views are read through copies
    (`_copy_chained_operands`). Added nodes have slots behind the nodes of the signature.
    """
    nodes = make_placeholders(signature)
    roots, slot_of = [nodes[k] for k in signature.root_slots], {node: k for k, node in enumerate(nodes)}
    if is_rewritten:
        replacement_of = rewrite_graph([node for node in nodes if node.buffer is None], roots)
        slot_of |= {replacement: slot_of[node] for node, replacement in replacement_of.items()}
        roots = [replacement_of.get(root, root) for root in roots]
    copied = _copy_chained_operands(roots)
    slot_of |= {replacement: slot_of[node] for node, replacement in copied.items() if node in slot_of}
    roots = [copied.get(root, root) for root in roots]
    scalar_numbers = {id(scalar): k for k, scalar in enumerate(iter_scalars(nodes))}
    slot_count, pieces = len(nodes), list[Piece]()
    for node, fused in _order_pieces(roots):
        if _has_own_reads(node, fused):
            piece_nodes = [source for source in (fused or (node,))[0].sources if type(source) is Node] + [*fused, node]
        else:
            clone_of = _clone_piece(node, fused)
            node_of = {clone: n for n, clone in clone_of.items()}
            piece_nodes = [node_of[clone] for clone in capture_in_python([clone_of[node]]).nodes]
        for n in piece_nodes:
            if n not in slot_of:
                slot_of[n] = slot_count
                slot_count += 1
        readers = [*fused, node] if len(fused) < 2 else [n for n in piece_nodes if n is node or n in fused]
        offsets = [decode_offset(offset) for n in readers for offset in n.offsets]
        scalars = [scalar_numbers[id(source)] for n in readers for source in n.sources if type(source) is not Node]
        pieces.append(Piece(node, fused, [slot_of[n] for n in piece_nodes], [*offsets, (-1, 0)], scalars))
    return pieces


def _copy_chained_operands(roots: Sequence[Node]) -> dict[Node, Node]:
    """Map the nodes of a graph that read a chain of two views, and their readers, to new nodes that read copies.

    A chain of views is a composition that no single layout expresses; the inner view is copied. `roots` are the requested nodes of the
    graph. Elementwise operations are replaced, and those sums of products that are matrix products either way, adding the steps in order.
    """
    order, replacements = _list_pending(roots), dict[Node, Node]()
    chained = {node for node in order if isinstance(node.op, Op) and any([key and key.layout.base for key in node.recipe.layout_keys])}
    if not chained:
        return replacements
    sums = [(node, product) for node in order if (product := find_summed_product(node))]
    sum_of = {product: node for node, product in sums}
    chained -= {product for product, count in Counter([product for _, product in sums]).items() if count > 1}
    for node in order:
        sources, layouts = [replacements.get(s, s) if type(s) is Node else s for s in node.sources], list(node.layouts)
        for k, (source, layout) in enumerate(zip(sources, node.layouts, strict=True)):
            if type(source) is not Node or layout is None or node not in chained:
                continue
            view, may_copy = layout.base, node not in sum_of or is_product_of_copies(sum_of[node].recipe, node.recipe, k)
            if view is not None and view.base is None and may_copy:
                sources[k] = Node.of(OPS["positive"], view.shape, source.dtype, (source,), (view,))
                layouts[k] = Layout(layout.shape, layout.strides, layout.offset, layout.tables)
        if layouts != list(node.layouts):
            replacements[node] = Node.of(node.op, node.shape, node.dtype, tuple(sources), tuple(layouts))
        elif any([s is not old for s, old in zip(sources, node.sources, strict=True)]):
            replacements[node] = Node(node.recipe, tuple(sources), node.offsets)
        if node in replacements:
            replacements[node].is_stored = node.is_stored
    return replacements


def _list_pending(roots: Iterable[Node], is_included: Callable[[Node], bool] = lambda node: True) -> list[Node]:
    """Return the pending nodes below and among `roots` for which `is_included` returns True, sources first.

    Nodes excluded by `is_included` are left out, and so are nodes with excluded readers alone.
    """
    order, visited, stack = list[Node](), set[Node](), [(root, False) for root in roots]
    while stack:
        node, is_last_visit = stack.pop()
        if is_last_visit:
            order.append(node)
        elif node not in visited and node.buffer is None and is_included(node):
            visited.add(node)
            stack += [(node, True), *[(source, False) for source in node.sources if type(source) is Node]]
    return order


def _has_own_reads(node: Node, fused: Sequence[Node]) -> bool:
    """Return whether a piece has a stand-in for each read of a source, even for two reads of the same node.

    `node` and `fused` are the nodes of the piece (`Piece`). So `x * x` and `x * y` share a plan. A write must know whether the kernel reads
    the overwritten memory.
    """
    return len(fused) < 2 and not is_write(node.op)


def _clone_piece(node: Node, fused: Sequence[Node]) -> dict[Node, Node]:
    """Return a dict from the nodes of the piece of `node` and `fused`, and from their sources, to new nodes.

    The new sources are stand-ins: data nodes without memory.
    """
    clone_of, has_own_reads = dict[Node, Node](), _has_own_reads(node, fused)
    for n in (*fused, node):
        sources = list[Node | Scalar]()
        for source in n.sources:
            if type(source) is Node:
                if source not in clone_of or (has_own_reads and source not in fused):
                    clone_of[source] = Node(source.recipe.data_recipe, buffer=META_BUFFER)  # type: ignore[arg-type]
                source = clone_of[source]
            sources.append(source)
        clone_of[n] = Node(n.recipe, tuple(sources), n.offsets)
    return clone_of


def _order_pieces(roots: Sequence[Node]) -> list[tuple[Node, Sequence[Node]]]:
    """Return the nodes of the pieces of a graph, in order: each a pair of the node to compute, and the nodes fused with it.

    `roots` are the requested nodes of the graph. The list is empty to plan the graph as a whole: a large graph, possible attention, or a
    graph with a node that is not standalone (`_is_standalone`).
    """
    order, visited = list[tuple[Node, Sequence[Node]]](), set[Node]()
    stack: list[tuple[Node, Sequence[Node] | None]] = [(root, None) for root in reversed(roots)]
    exponentials = list[Node]()
    while stack:
        node, fused = stack.pop()
        if fused is not None:
            order.append((node, fused))
            continue
        if node in visited or node.buffer is not None:
            continue
        visited.add(node)
        product = find_summed_product(node)
        reader = product or node
        if len(visited) > MAX_UNFUSED_NODES or not _is_standalone(node, reader):
            return []
        if node.op is EXP and node.recipe.nbytes > MAX_UNBLOCKED_BYTES:
            exponentials.append(node)
        fused = () if product is None else (product,)
        if isinstance(node.op, Reduction) and not has_fused_order(node, reader):
            fused = _list_elementwise(node)
        stack.append((node, fused))
        sources = [s for n in (node, *fused) for s in n.sources if type(s) is Node and s not in fused]
        # the source with the largest graph comes first, so that few results wait for their readers
        stack += [(source, None) for source in sorted(sources, key=lambda source: source.graph_node_count)]
    return [] if any(map(_reads_product, exponentials)) else order  # may be attention, rewritten as a whole


def _list_elementwise(reduction: Node) -> list[Node]:
    """Return the pending elementwise nodes and gathers under `reduction`, in topological order."""
    sources = [source for source in reduction.sources if type(source) is Node]
    return _list_pending(sources, lambda node: isinstance(node.op, (Op, Gather)) or node.op is POSITION)


def make_unfused_plan(
    signature: GraphSignature,
    find_plan: Callable[[GraphSignature], tuple[Plan, int] | None],
    make_plan: Callable[[GraphSignature], Plan],
) -> Plan | None:
    """Return a plan for `signature` that computes piece after piece, with the bits of a plan for the whole.

    `get_plan` calls this function if no source has a plan. `find_plan` returns a plan for the signature of a piece without compiling, and
    the nanoseconds that a compiled kernel would save in each run, or None. `make_plan` compiles missing plans. Return None to plan the
    graph as a whole: without pieces, or if the missing kernels cost nearly as much. Also return None if the plan for the whole would be due
    at once.
    """
    nodes, steps, expensive = signature.nodes, list[PlanStep](), set[int]()
    pieces, keys, matches = _match_pieces(list_pieces(signature), find_plan)
    if any([matches[key] is None and isinstance(piece.node.op, Reduction) for key, piece in zip(keys, pieces, strict=True)]):
        # the planner may rewrite a reduction without a kernel
        rewritten = _match_pieces(list_pieces(signature, is_rewritten=True), partial(find_temporary_plan, is_rewritten=True))
        if rewritten[0] and None not in rewritten[2].values():
            pieces, keys, matches = rewritten
    piece_of = dict(zip(keys, pieces, strict=True))
    missing = [key for key, match in matches.items() if match is None]
    pending = [node for node in nodes if node.buffer is None]
    cost_ns = estimate_cost(pending)
    if MIN_COST_RATIO * sum([estimate_cost([*piece_of[key].fused, piece_of[key].node]) for key in missing]) > cost_ns or not pieces:
        return None
    matches |= {key: (make_plan(piece_of[key].capture()), 0) for key in missing}
    slot_count, gain_ns = max(len(nodes), *[k + 1 for piece in pieces for k in piece.slots]), 0
    moved_slots = dict[int, int]()  # of products to leave pending: a later sum reads the factors
    for key, piece in zip(keys, pieces, strict=True):
        plan, extra_ns = matches[key]  # type: ignore[misc]
        if not all([type(step.kernel_call) in (SingleKernelCall, NoneType) for step in plan.steps]):
            return None
        slot = piece.slots[-1]
        if slot not in signature.root_slots:
            gain_ns += estimate_gain(piece.node)
            if slot < len(nodes) and _reorders_sum(nodes[slot]):
                moved_slots[slot] = slot_count
                slot_count += 1
        gain_ns += extra_ns
        slots = [moved_slots.get(k, k) for k in piece.slots] + [*range(slot_count, slot_count + plan.additional_slot_count)]
        slot_count += plan.additional_slot_count
        steps += [_renumber(step, slots, piece) for step in plan.steps]
        expensive.update([piece.slots[k] for k in plan.expensive_slots])
    stored = {step.result_slot for step in steps}
    slot_of = {node: k for k, node in enumerate(nodes)}
    inlined = [slot_of[node] for node in pending if slot_of[node] not in stored]
    roles = SlotRoles(inlined, [k for k in inlined if k in expensive])
    plan = assemble_plan(backend().target, steps, pending, slot_of, (len(nodes), slot_count), roles)
    plan.deferral = defer_plan(pending, gain_ns, cost_ns)
    return None if plan.deferral.charge_run() else plan


Matches = dict[object, tuple[Plan, int] | None]


def _match_pieces(
    pieces: list[Piece], find_plan: Callable[[GraphSignature], tuple[Plan, int] | None]
) -> tuple[list[Piece], list[object], Matches]:
    """Return a triple: `pieces`, the list of their keys, and a dict from each key to the result of `find_plan`, called once for a key."""
    keys = [piece.make_key() for piece in pieces]
    return pieces, keys, {key: find_plan(piece.capture()) for key, piece in dict(zip(keys, pieces, strict=True)).items()}


def _renumber(step: PlanStep, slots: Sequence[int], piece: Piece) -> PlanStep:
    """Return `step`, a step of a plan for `piece`, as a step of the plan for the graph.

    `slots` has the slot in the graph for each slot of the piece's plan. Offsets and scalars are renumbered as `piece` says.
    """
    call = step.kernel_call
    if isinstance(call, SingleKernelCall):
        arguments, offsets = call.arguments, piece.offsets
        number, addend = arguments.out
        sources = [(slots[k], offsets[n][0], offsets[n][1] + addend) for k, n, addend in arguments.sources]
        scalars = [(piece.scalars[k], imag) for k, imag in arguments.scalars]
        new_arguments = KernelArguments((offsets[number][0], offsets[number][1] + addend), sources, scalars, *arguments[3:])
        call = SingleKernelCall(call.compiled, new_arguments)
    new_step = step.with_dims(step.shape, step.nbytes, call)
    new_step.result_slot, new_step.user_slot = slots[step.result_slot], piece.slots[-1]
    if step.overwritten_slot is not None:
        new_step.overwritten_slot = slots[step.overwritten_slot]
    if step.reinterpreted_slot is not None:
        new_step.reinterpreted_slot = slots[step.reinterpreted_slot]
    other_reads = {slots[k] for k in step.input_slots.difference(step.donor_candidates)}  # a node may have a stand-in for each read
    new_step.donor_candidates = tuple(dict.fromkeys([slots[k] for k in step.donor_candidates if slots[k] not in other_reads]))
    new_step.input_slots = {slots[k] for k in step.input_slots}
    return new_step


def _reorders_sum(node: Node) -> bool:
    """Return whether a later sum of the product `node` would add in another order from the stored product than from the factors."""
    sizes = {source.size for source in node.sources if type(source) is Node}
    return node.op is MULTIPLY and not (node.recipe.keeps_order and sizes <= {1, node.size})


def _reads_product(node: Node) -> bool:
    """Return whether `node` is computed from a pending product by elementwise operations and maxima alone, as in attention."""
    stack, visited = list(node.sources), set[Node]()
    while stack:
        source = stack.pop()
        if type(source) is Node and source.buffer is None and source not in visited:
            visited.add(source)
            if find_summed_product(source) is not None:
                return True
            if isinstance(source.op, Op) or source.op is MAX:
                stack += source.sources
    return False


def _is_standalone(node: Node, reader: Node) -> bool:
    """Return whether `node` can be computed by a kernel of its own, before the nodes that read it.

    The result must be at most `MAX_UNFUSED_BYTES` bytes and not empty. The operation must be elementwise, a reduction, a `Scan`, a
    `Gather`, a write, `POSITION`, `EMPTY` or `REINTERPRET`. `reader` is the product that the sum `node` reads, or `node` itself if there is
    none. The recipes of both must be cacheable. A sum must read its product from offset 0. If the order of its terms decides its bits,
    fused factors must not change the order. So it must be a contraction with fused and with stored factors, or with neither
    (`_has_fused_factors`).
    """
    recipe, op = node.recipe, node.op
    if not 0 < recipe.nbytes <= MAX_UNFUSED_BYTES or recipe.is_uncacheable or reader.recipe.is_uncacheable:
        return False
    if isinstance(op, Reduction):
        return reader is node or (not any(node.offsets) and (op.is_order_free(recipe.dtypes[0]) or _has_fused_factors(node, reader)))
    return isinstance(op, Op) or op in (POSITION, EMPTY, REINTERPRET) or is_write(op) or type(op) in (Scan, Gather)


def has_fused_order(node: Node, reader: Node) -> bool:
    """Return whether the reduction `node` adds in the same order by itself as in the fused kernel.

    `reader` is the node whose sources are read: `node`, or the product under a sum. The order belongs to the reduction
    (`lowering/reduction_order.py`), but a contraction has its own, and needs operands that different loops read. Sources made of scalars
    alone are read in no order, but both kernels mostly read such sources from memory (`lowering/fuse.py`).
    """
    op = node.op
    if isinstance(op, Reduction) and op.is_order_free(node.recipe.dtypes[0]):
        return True
    if reader is not node and not _has_fused_factors(node, reader):
        return False
    for source in reader.sources:
        if type(source) is Node:
            order = has_memory_order(source)
            is_full_sum = node.size == 1 and reader is node and source.size == node.layouts[0].size  # type: ignore[union-attr]
            # an operand of a contraction depends on rows or on columns
            is_operand = reader is node and _has_contraction_sizes(node) and not _has_full_operand(source)
            if (order is False and is_operand) or (order is None and not (is_full_sum or is_read_from_memory(source, reader))):
                return False
    return True


def _has_contraction_sizes(node: Node) -> bool:
    """Return whether the reduction `node` has enough results and steps for a contraction."""
    rows, columns, steps = MIN_CONTRACTION_SIZES
    return node.size >= rows * columns and node.layouts[0].size >= steps * node.size  # type: ignore[union-attr]


def _has_fused_factors(node: Node, product: Node) -> bool:
    """Return whether fused factors leave the order of a sum of products as with stored factors: a contraction in both cases, or in neither.

    `node` is the sum of `product`. The answer False may be wrong.
    """
    if not _has_contraction_sizes(node):
        return True
    factors = [(source, layout) for source, layout in zip(product.sources, product.layouts, strict=True) if type(source) is Node and layout]
    is_full = [_has_full_operand(source) for source, _ in factors]
    if len(factors) == 1:
        return is_full[0]
    in_memory = [_is_read_as_stored(source, product) for source, _ in factors]
    if all(in_memory) or sum([n != 1 for n in node.shape]) < 2:
        return True
    if any([full and source.size == product.size and _is_one_to_one(x) for full, (source, x) in zip(is_full, factors, strict=True)]):
        return True  # a factor that depends on rows and on columns
    if not all(is_full):
        return False
    has_unit_rows = [_has_unit_rows(source) for source, _ in factors]
    return is_matrix_product_in_every_kernel(node.recipe, product.recipe, in_memory, has_unit_rows)


def _is_read_as_stored(source: Node, product: Node) -> bool:
    """Return whether a kernel that sums `product` adds in the same order with the factor `source` fused or stored.

    Either the kernel runs through the factor in the order of memory, or the kernel reads the stored factor. Kernels mostly read a factor
    made of scalars and positions alone from memory (`lowering/fuse.py`).
    """
    if _is_stored_alone(source) or has_memory_order(source):
        return True
    reads_memory = any([_is_stored_alone(s) for n in _list_pending([source]) for s in (n, *n.sources) if type(s) is Node])
    return not reads_memory and is_read_from_memory(source, product)


def _is_stored_alone(source: Node) -> bool:
    """Return whether `source` is in memory, or the result of a kernel of its own: a reduction, a running reduction, or a write."""
    return source.buffer is not None or isinstance(source.op, Reduction) or is_write(source.op) or type(source.op) is Scan


def _has_unit_rows(source: Node) -> bool:
    """Return whether all operands of `source`, through elementwise operations, have steps of 1 or 0 along the last axis of `source`."""
    if _is_stored_alone(source) or not isinstance(source.op, Op):
        return _is_stored_alone(source)
    layouts = [layout for layout in source.layouts if layout is not None]
    return all([x.base is None and x.tables is None and x.strides[-1:] in ((), (0,), (1,)) for x in layouts]) and all(
        [_has_unit_rows(s) for s, x in zip(source.sources, source.layouts, strict=True) if type(s) is Node and x and x.strides[-1:] == (1,)]
    )


def _has_full_operand(source: Node) -> bool:
    """Return whether an operand in memory has an element of its own for each element of `source`, through elementwise operations alone.

    The data and the indices of a gather together may do so.
    """
    stack, visited = [source], set[Node]()
    while stack:
        node = stack.pop()
        if _is_stored_alone(node):
            return True
        if node in visited:
            continue
        visited.add(node)
        if type(node.op) is Gather and all([type(s) is Node and _is_stored_alone(s) for s in node.sources]):
            layouts = [layout for layout in node.layouts if layout is not None and layout.base is None]
            if all([n == 1 or any([layout.strides[axis] for layout in layouts]) for axis, n in enumerate(node.shape)]):
                return True
        elif isinstance(node.op, Op):
            pairs = zip(node.sources, node.layouts, strict=True)
            stack += [s for s, layout in pairs if type(s) is Node and layout is not None and _is_one_to_one(layout)]
    return False


def _is_one_to_one(layout: Layout) -> bool:
    """Return whether `layout` reads a single view and repeats no element along an axis."""
    return layout.base is None and all([stride or n == 1 for n, stride in zip(layout.shape, layout.strides, strict=True)])


def find_reordered_ids(nodes: Sequence[Node]) -> set[int]:
    """Return the `id`s of the pending nodes whose bits may change if they are computed unfused.

    `nodes` come in topological order, and only the last nodes have readers outside. A node counts if it is, or depends on, a reduction that
    may add in another order by itself. The sum of a product with a second reader counts, too, if memory has another order: the product may
    be stored first.
    """
    reader_counts = Counter([id(s) for node in nodes for s in node.sources])
    reordered_ids: set[int] = set()
    for node in nodes:
        if node.buffer is not None:
            continue
        product = find_summed_product(node)
        is_reordered = isinstance(node.op, Reduction) and not has_fused_order(node, product or node)
        if product and reader_counts[id(product)] > 1:
            is_reordered = is_reordered or not has_memory_order(product)
        if is_reordered or any([id(s) in reordered_ids for s in node.sources]):
            reordered_ids.add(id(node))
    return reordered_ids


def find_expensive_nodes(inlined: Iterable[Node], fusing: Fusing, candidates: Set[Node] | None = None) -> list[Node]:
    """Return the nodes of `inlined` too expensive to repeat, in the same order.

    A node is too expensive above `fusing.max_repeated_for_reads` additions per element, cheap operations not counted. `inlined` is in
    topological order. The cost of a node includes the inlined nodes below. With `candidates`, return only nodes of `candidates`; these will
    be stored, so they add nothing to the cost of their readers.
    """
    expensive_nodes: list[Node] = []
    cost: dict[Node, int] = {}
    for node in inlined:
        if type(node.op) is Op:
            own_cost = node.op.cost if node.op.cost > fusing.max_repeated_for_load else 0
            cost[node] = own_cost + sum([cost.get(s, 0) for s in node.sources if type(s) is Node])
            if cost[node] > fusing.max_repeated_for_reads and (candidates is None or node in candidates):
                expensive_nodes.append(node)
                if candidates is not None:
                    cost[node] = 0
    return expensive_nodes
