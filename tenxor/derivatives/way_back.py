"""The backward pass through an iteration of a scan loop (`loop.py`), traced: from cotangents of the iteration's results to cotangents of
the inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..layout import Layout
from ..node import PLACEHOLDER, Node, Recipe, tracked
from ..ops import OPS, Op
from ..ops.lengths import length
from ..past import Past, past_of
from ..records import NamedTuple
from .loop import NONE, Body, Program, between, is_affine, rooted
from .products import is_worth_while
from .reverse import cotangents_at
from .seen import SUM, Seen

_ADD = OPS["add"]
MAX_RECOMPUTED_COST = 6  # additions; up to this cost an element is recomputed, not kept


class Product(NamedTuple):
    """A captured value's cotangent, computed as a single product or sum over the iterations.

    `operands` are the numbers of the operand values. `product` and `offsets` are the recipe and offsets of the product; `product` is None
    for a sum. `total` is the recipe of the sum, and the cotangent is the sum's result seen through `layout`.
    """

    operands: tuple[int, ...]
    product: Recipe | None
    offsets: tuple[int, ...]
    total: Recipe
    layout: Layout


class Sum(NamedTuple):
    """A captured value's cotangent that is accumulated by iteration: the numbers of the sum so far and of the next sum."""

    so_far: int
    more: int


class WayBack:
    """The traced backward pass of an iteration.

    Its inputs are the iteration's nodes in `reads`, then the cotangents of the new carried values and of the output elements, then the sums
    so far. `kept` lists the residuals: the values of the iteration to stack besides inputs and results.

    `carries` and `xs` are the numbers of the cotangents of carried values and sequence elements, None for 0. `stacked` are the numbers of
    values to be read by products over the iterations.
    """

    def __init__(self, body: Body, wanted_xs: Sequence[bool]) -> None:
        """Trace the backward pass of `body` to the carried and captured values, and to the sequences with True in `wanted_xs`."""
        results = [*body.nexts, *body.ys]
        gs = [Node.of(PLACEHOLDER, node.shape, node.dtype) for node in results]
        carry_pasts = [past_of(node) for node in body.carries]
        x_pasts = [past_of(node) if yes else None for node, yes in zip(body.xs, wanted_xs, strict=True)]
        captured_pasts = [past_of(node) for node in body.made.captured]
        wanted = {past for past in (*carry_pasts, *x_pasts, *captured_pasts) if past is not None}
        roots = [(node, Seen(g)) for node, g in zip(results, gs, strict=True) if past_of(node) is not None]
        cotangents = cotangents_at(roots, wanted, wanted)

        fixed = {*body.carries, *body.xs, *gs, *results}  # values that are in memory before the iteration's backward pass
        carry_roots: list[Node] = []

        def root_of(past: Past | None, distinct_from: Iterable[Node] = ()) -> Node | None:
            return rooted(cotangents[past], {*fixed, *distinct_from}) if past is not None and past in cotangents else None

        carries: list[Node | None] = []
        for past in carry_pasts:
            carries.append(root_of(past, carry_roots))
            carry_roots += [node for node in carries[-1:] if node is not None]
        xs = [root_of(past, carry_roots) for past in x_pasts]
        products: dict[int, Seen] = {}
        sums: dict[int, tuple[Node, Node]] = {}
        captured_cotangents = {k: cotangents[past] for k, past in enumerate(captured_pasts) if past is not None and past in cotangents}
        product_operands = {s for g in captured_cotangents.values() if _is_product(g.node) for s in g.node.sources[0].sources}  # type: ignore[union-attr]
        for k, g in captured_cotangents.items():
            form = g.node.recipe.forms[0] if g.node.op is SUM else None
            if _is_product(g.node) or (form is not None and is_affine(form.layout) and g.node.sources[0] in product_operands):
                products[k] = g
                continue
            so_far, layout = Node.of(PLACEHOLDER, g.shape, g.dtype), Layout.contiguous(g.shape)
            sums[k] = so_far, Node.of(_ADD, g.shape, g.dtype, (so_far, g.node), (layout, g.layout))
        operands = [s for g in products.values() for s in _operands(g.node)]
        ends = [*carry_roots, *[x for x in xs if x is not None], *[next_sum for _, next_sum in sums.values()], *operands]
        self.kept = _choose_residuals(body, ends, {*fixed, *[sum_so_far for sum_so_far, _ in sums.values()]})
        available = {*body.carries, *body.xs, *results, *self.kept, *body.made.captured}
        stacked: dict[Node, Node] = {}
        for node in operands:
            if node not in available and node not in stacked and (node.traced or node.buffer is None):
                stacked[node] = node if node in xs else rooted(Seen(node), {*fixed, *carry_roots})
        inputs = list(dict.fromkeys([*available, *gs, *[sum_so_far for sum_so_far, _ in sums.values()]]))
        all_roots = list(dict.fromkeys([*ends[: len(ends) - len(operands)], *stacked.values()]))
        traced_nodes = between(all_roots, inputs)
        self.is_complete = traced_nodes is not None
        traced_nodes = traced_nodes or NONE
        used_nodes = {s for node in traced_nodes.order for s in node.sources}.union(operands)
        outside = [s for s in operands if s not in available and s not in stacked]
        # The nodes of the iteration that the backward pass reads.
        self.reads: list[Node] = [*[node for node in available if node in used_nodes], *dict.fromkeys([*traced_nodes.captured, *outside])]
        program = self.program = Program([*self.reads, *gs, *[sum_so_far for sum_so_far, _ in sums.values()]], traced_nodes)
        number = program.number_of
        self.carries = [None if node is None else number[node] for node in carries]
        self.xs = [None if node is None else number[node] for node in xs]
        self.stacked = [number[node] for node in dict.fromkeys(stacked.values())]
        self.captured: dict[int, Product | Sum] = {
            k: Sum(number[sum_so_far], number[next_sum]) for k, (sum_so_far, next_sum) in sums.items()
        }
        for k, g in products.items():
            read = tuple([number[stacked.get(s, s)] for s in _operands(g.node)])
            (product,) = g.node.sources
            assert type(product) is Node
            product_recipe, offsets = (product.recipe, product.offsets) if _is_product(g.node) else (None, g.node.offsets)
            self.captured[k] = Product(read, product_recipe, offsets, g.node.recipe, g.layout)

    def forget(self) -> None:
        """Drop the nodes of the trace."""
        self.program.number_of = {}
        self.reads, self.kept = [], []


def way_back(body: Body, wanted_xs: Sequence[bool]) -> WayBack | None:
    """Return the traced backward pass of an iteration, or None if it cannot run by iteration.

    The pass leads to the carried values, the captured values, and the sequences with True in `wanted_xs`.
    """
    with tracked(None):
        traced = WayBack(body, wanted_xs)
    return traced if traced.is_complete else None


def _operands(total: Node) -> list[Node]:
    """Return the operands of `total`, a sum to be computed once over all iterations: two factors for a sum of products, else one operand.
    """
    (product,) = total.sources
    assert type(product) is Node
    return list(product.sources) if _is_product(total) else [product]  # type: ignore[arg-type]


def _is_product(node: Node) -> bool:
    """Return whether `node`, a cotangent, is a sum of products whose operands are smaller than the result, so that keeping them is cheaper.
    """
    if node.recipe.op is not SUM or not node.traced:
        return False
    (product,) = node.sources
    if type(product) is not Node or node.offsets != (0,) or not all([type(s) is Node for s in product.sources]):
        return False
    return is_worth_while(node.recipe, product.recipe)


def _is_costly(node: Node) -> bool:
    """Return whether to keep the value of a node: recomputing takes longer than reading, and the value is no larger than the operands
    together. Always true for operations that are not elementwise.
    """
    if type(node.op) is not Op:
        return True
    sources = {s for s in node.sources if type(s) is Node}
    return length(node.op, node.recipe.dtypes) > MAX_RECOMPUTED_COST and node.recipe.nbytes <= sum([s.recipe.nbytes for s in sources])


def _choose_residuals(body: Body, ends: Sequence[Node], fixed: Collection[Node]) -> list[Node]:
    """Return the values of the iteration `body` to keep for the backward pass to the nodes `ends`: those that cost more than a few
    additions per element.

    The nodes `fixed` are in memory anyway, and are not listed. If the only reader of such a value is an elementwise operation of the same
    shape, the reader's result is kept instead.
    """
    iteration_nodes = set(body.made.order)
    readers: dict[Node, list[Node]] = {}
    for node in body.made.order:
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
        if node in visited or node in fixed or node.buffer is not None or not node.traced:
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
