"""The backward pass through an iteration of a scan loop (`scan_body.py`), traced: from cotangents of the iteration's results to cotangents
of the inputs. The trace becomes a program (`NodeProgram`), whose values are numbered: the inputs first, then the created nodes. Carried
values go from iteration to iteration; captured values are equal in every iteration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from .._utils.records import NamedTuple
from ..graph.node import PLACEHOLDER, Node, Recipe, use_tape_mode
from ..layout import Layout
from ..ops import OPS, Op
from ..ops.expanded_cost import compute_expanded_cost
from .combine_matmuls import is_worth_combining
from .node_view import SUM, NodeView
from .reverse import compute_at_boundary
from .scan_body import NO_TRACED_NODES, NodeProgram, ScanBody, collect_between, is_affine, make_output_node
from .tape import TapeNode, get_tape_node

_ADD = OPS["add"]
MAX_RECOMPUTED_COST = 6  # additions; up to this cost an element is recomputed, not kept


class ProductCotangent(NamedTuple):
    """A captured value's cotangent, computed as a single product or sum over the iterations.

    `operand_numbers` are the numbers of the operand values. `product_recipe` and `offsets` are the recipe and offsets of the product;
    `product_recipe` is None for a sum. `sum_recipe` is the recipe of the sum, and the cotangent is the sum's result seen through
    `layout`.
    """

    operand_numbers: tuple[int, ...]
    product_recipe: Recipe | None
    offsets: tuple[int, ...]
    sum_recipe: Recipe
    layout: Layout


class AccumulatedCotangent(NamedTuple):
    """A captured value's cotangent that is accumulated by iteration: the value numbers of the sum so far, `sum_so_far`, and of the next
    sum, `next_sum`.
    """

    sum_so_far: int
    next_sum: int


class BackwardProgram:
    """The traced backward pass of an iteration. If `is_complete` is False, the pass cannot run by iteration, and `trace_backward` returns
    None.

    The inputs of `program` begin with the iteration's nodes in `forward_nodes`. Next come the cotangents of the new carried values and of
    the output elements, then the sums so far. `residuals` lists the residuals: the values of the iteration to stack besides inputs and
    results.

    `carry_cotangents` and `x_cotangents` are the value numbers of the cotangents of carried values and sequence elements, None for 0.
    `captured_cotangents` maps the index of a captured value to the description of its cotangent; 0 has no entry. `stacked_values` are the
    value numbers to be read by products over the iterations.
    """

    def __init__(self, body: ScanBody, wanted_xs: Sequence[bool]) -> None:
        """Trace the backward pass of `body` to the carried and captured values, and to the sequences with True in `wanted_xs`.

        The tape must be that of the trace of `body`. No value is computed.
        """
        results = [*body.next_carries, *body.ys]
        gs = [Node.of(PLACEHOLDER, node.shape, node.dtype) for node in results]
        carry_tape_nodes = [get_tape_node(node) for node in body.carries]
        x_tape_nodes = [get_tape_node(node) if yes else None for node, yes in zip(body.xs, wanted_xs, strict=True)]
        captured_tape_nodes = [get_tape_node(node) for node in body.traced_nodes.captured]
        wanted = {tape_node for tape_node in (*carry_tape_nodes, *x_tape_nodes, *captured_tape_nodes) if tape_node is not None}
        roots = [(node, NodeView(g)) for node, g in zip(results, gs, strict=True) if get_tape_node(node) is not None]
        cotangents = compute_at_boundary(roots, wanted, wanted)

        fixed = {*body.carries, *body.xs, *gs, *results}  # values that are in memory before the iteration's backward pass
        carry_roots: list[Node] = []

        def root_of(tape_node: TapeNode | None, distinct_from: Iterable[Node] = ()) -> Node | None:
            return (
                make_output_node(cotangents[tape_node], {*fixed, *distinct_from})
                if tape_node is not None and tape_node in cotangents
                else None
            )

        carries: list[Node | None] = []
        for tape_node in carry_tape_nodes:
            carries.append(root_of(tape_node, carry_roots))
            carry_roots += [node for node in carries[-1:] if node is not None]
        xs = [root_of(tape_node, carry_roots) for tape_node in x_tape_nodes]
        products: dict[int, NodeView] = {}
        sums: dict[int, tuple[Node, Node]] = {}
        captured_cotangents = {
            k: cotangents[tape_node] for k, tape_node in enumerate(captured_tape_nodes) if tape_node is not None and tape_node in cotangents
        }
        product_operands = {s for g in captured_cotangents.values() if _is_sum_of_products(g.node) for s in g.node.sources[0].sources}  # type: ignore[union-attr]
        for k, g in captured_cotangents.items():
            layout_key = g.node.recipe.layout_keys[0] if g.node.op is SUM else None
            if _is_sum_of_products(g.node) or (
                layout_key is not None and is_affine(layout_key.layout) and g.node.sources[0] in product_operands
            ):
                products[k] = g
                continue
            so_far, layout = Node.of(PLACEHOLDER, g.shape, g.dtype), Layout.contiguous(g.shape)
            sums[k] = so_far, Node.of(_ADD, g.shape, g.dtype, (so_far, g.node), (layout, g.layout))
        operands = [s for g in products.values() for s in _operands(g.node)]
        ends = [*carry_roots, *[x for x in xs if x is not None], *[next_sum for _, next_sum in sums.values()], *operands]
        self.residuals = _choose_residuals(body, ends, {*fixed, *[sum_so_far for sum_so_far, _ in sums.values()]})
        available = {*body.carries, *body.xs, *results, *self.residuals, *body.traced_nodes.captured}
        stacked: dict[Node, Node] = {}
        for node in operands:
            if node not in available and node not in stacked and (node.is_traced or node.buffer is None):
                stacked[node] = node if node in xs else make_output_node(NodeView(node), {*fixed, *carry_roots})
        inputs = list(dict.fromkeys([*available, *gs, *[sum_so_far for sum_so_far, _ in sums.values()]]))
        all_roots = list(dict.fromkeys([*ends[: len(ends) - len(operands)], *stacked.values()]))
        traced_nodes = collect_between(all_roots, inputs)
        self.is_complete = traced_nodes is not None
        traced_nodes = traced_nodes or NO_TRACED_NODES
        used_nodes = {s for node in traced_nodes.order for s in node.sources}.union(operands)
        outside = [s for s in operands if s not in available and s not in stacked]
        # The nodes of the iteration that the backward pass reads.
        self.forward_nodes: list[Node] = [
            *[node for node in available if node in used_nodes],
            *dict.fromkeys([*traced_nodes.captured, *outside]),
        ]
        program = self.program = NodeProgram([*self.forward_nodes, *gs, *[sum_so_far for sum_so_far, _ in sums.values()]], traced_nodes)
        number = program.value_numbers
        self.carry_cotangents = [None if node is None else number[node] for node in carries]
        self.x_cotangents = [None if node is None else number[node] for node in xs]
        self.stacked_values = [number[node] for node in dict.fromkeys(stacked.values())]
        self.captured_cotangents: dict[int, ProductCotangent | AccumulatedCotangent] = {
            k: AccumulatedCotangent(number[sum_so_far], number[next_sum]) for k, (sum_so_far, next_sum) in sums.items()
        }
        for k, g in products.items():
            read = tuple([number[stacked.get(s, s)] for s in _operands(g.node)])
            (product,) = g.node.sources
            assert type(product) is Node
            product_recipe, offsets = (product.recipe, product.offsets) if _is_sum_of_products(g.node) else (None, g.node.offsets)
            self.captured_cotangents[k] = ProductCotangent(read, product_recipe, offsets, g.node.recipe, g.layout)

    def drop_nodes(self) -> None:
        """Drop the references to traced nodes, so that they can be freed: `forward_nodes` and `residuals` are empty afterwards."""
        self.program.value_numbers = {}
        self.forward_nodes, self.residuals = [], []


def trace_backward(body: ScanBody, wanted_xs: Sequence[bool]) -> BackwardProgram | None:
    """Return the traced backward pass of the iteration `body`, or None if it cannot run by iteration.

    The pass leads to the carried values, the captured values, and the sequences with True in `wanted_xs`; inputs off the tape are left out.
    The result is None if the pass reads the result of an operation outside kernels, or a placeholder besides the inputs of the pass.
    """
    with use_tape_mode(None):
        traced = BackwardProgram(body, wanted_xs)
    return traced if traced.is_complete else None


def _operands(total: Node) -> list[Node]:
    """Return the operands of `total`, a sum to be computed once over all iterations: two factors for a sum of products, else one
    operand.
    """
    (product,) = total.sources
    assert type(product) is Node
    return list(product.sources) if _is_sum_of_products(total) else [product]  # type: ignore[arg-type]


def _is_sum_of_products(node: Node) -> bool:
    """Return whether `node`, a cotangent, is a pending sum of products whose operands are smaller than the result, so that keeping them is
    cheaper.

    The sum must depend on an argument of the traced function, and read the whole product; the product must have two nodes as operands
    (`is_worth_combining`).
    """
    if node.recipe.op is not SUM or not node.is_traced:
        return False
    (product,) = node.sources
    if type(product) is not Node or node.offsets != (0,) or not all([type(s) is Node for s in product.sources]):
        return False
    return is_worth_combining(node.recipe, product.recipe)


def _is_costly(node: Node) -> bool:
    """Return whether the value of `node` is costly to recompute, and so kept by the forward pass.

    An elementwise operation is costly above `MAX_RECOMPUTED_COST` additions per element, if the value has no more bytes than the distinct
    operands together. Other operations are always costly.
    """
    if type(node.op) is not Op:
        return True
    sources = {s for s in node.sources if type(s) is Node}
    return compute_expanded_cost(node.op, node.recipe.dtypes) > MAX_RECOMPUTED_COST and node.recipe.nbytes <= sum(
        [s.recipe.nbytes for s in sources]
    )


def _choose_residuals(body: ScanBody, ends: Sequence[Node], fixed: Collection[Node]) -> list[Node]:
    """Return the values of the iteration `body` to keep for the backward pass to the nodes `ends`: values that are costly to recompute
    (`_is_costly`). Each is listed once, and is a node of the trace.

    The nodes `fixed` are in memory anyway, and are not listed. If the only reader of such a value is an elementwise operation of the same
    shape, the reader's result is kept instead. A value read by the backward pass itself is always kept.
    """
    iteration_nodes = set(body.traced_nodes.order)
    readers: dict[Node, list[Node]] = {}
    for node in body.traced_nodes.order:
        for s in dict.fromkeys(node.sources):
            readers.setdefault(s, []).append(node)  # type: ignore[arg-type]
    costly: dict[Node, None] = {}
    visited: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False) for node in ends]  # a node, and whether a node of the iteration reads it
    read: set[Node] = set()
    while stack:
        node, is_inner = stack.pop()
        if not is_inner:
            read.add(node)
        if node in visited or node in fixed or node.buffer is not None or not node.is_traced:
            continue
        visited.add(node)
        if node in iteration_nodes and _is_costly(node):
            costly[node] = None
        else:
            stack += [(s, node in iteration_nodes) for s in node.sources if type(s) is Node]
    residuals: dict[Node, None] = {}
    for node in costly:
        while len(node_readers := readers.get(node, [])) == 1 and node not in read and node not in fixed:
            (reader,) = node_readers
            if type(reader.op) is not Op or reader.recipe.nbytes != node.recipe.nbytes or reader.shape != node.shape:
                break
            node = reader
        if node not in fixed:
            residuals[node] = None
    return list(residuals)
