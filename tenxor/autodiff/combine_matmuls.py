"""Sums of cotangents that are matrix products, computed as a single product: for instance the gradient of a weight read by every step of a
sequence. A matrix product is a pending sum node over a pending product node. Two products are similar if their recipes and views are equal.

The sum over steps `t` of `sum_k left_t[i, k] * right_t[j, k]` is a single sum over `t` and `k`. The operands of the steps are concatenated.
This moves less memory than writing, and reading again, a whole result for each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from .._utils.cache_registry import register
from ..graph.node import EMPTY, Node, Recipe, Scalar
from ..layout import Layout, memory_order
from ..ops import OPS
from .layout_adjoint import Cotangent
from .node_view import SUM, DeferredTerm, NodeView, apply_store
from .replay import replay_or_record

_MULTIPLY = OPS["multiply"]
MAX_SEPARATE_MATMULS = 4  # similar products; up to this number they are added separately


def combine_matmuls(cotangents: Sequence[Cotangent]) -> Sequence[Cotangent]:
    """Return cotangents of one content with the same sum as `cotangents`: similar matrix products are combined into a single product.

    `MAX_SEPARATE_MATMULS` or fewer cotangents are returned unchanged, as the given object. Groups of so few similar products stay separate.
    The order may change.
    """
    if len(cotangents) <= MAX_SEPARATE_MATMULS:
        return cotangents
    products_by_kind: dict[object, list[NodeView]] = {}
    result: list[Cotangent] = []
    for cotangent in cotangents:
        key = _matmul_key(cotangent)
        if key is not None and isinstance(cotangent, NodeView):
            products_by_kind.setdefault(key, []).append(cotangent)
        else:
            result.append(cotangent)
    for key, products in products_by_kind.items():
        result += products if len(products) <= MAX_SEPARATE_MATMULS else [_merge_matmuls(key, products)]
    return result


def _matmul_key(cotangent: Cotangent) -> object:
    """Return a hashable key of the matrix product `cotangent`: products with equal keys can be combined. Return None for a cotangent that
    is computed already or no matrix product, or if combining does not pay (`is_worth_combining`).
    """
    if not isinstance(cotangent, NodeView) or cotangent.node.recipe.op is not SUM:
        return None
    (product,) = cotangent.node.sources
    if type(product) is not Node or cotangent.node.offsets != (0,) or not is_worth_combining(cotangent.node.recipe, product.recipe):
        return None
    return cotangent.node.recipe, product.recipe, cotangent.layout.layout_key, cotangent.layout.offset


@register("combined products", "whether products with a common operand are computed as one, by recipes")
@lru_cache(1 << 10)
def is_worth_combining(sum_recipe: Recipe, product_recipe: Recipe) -> bool:
    """Return whether the sum with `sum_recipe` over the product with `product_recipe` can and should be combined with similar sums.

    The sum must read the product as a whole, in order, and the product must have two operands without view chains and offset tables.
    Together the operands must have fewer elements, broadcast axes left out, than the sum's result.
    """
    (read,) = sum_recipe.layout_keys
    layouts = [layout_key.layout for layout_key in product_recipe.layout_keys if layout_key is not None]
    if product_recipe.op is not _MULTIPLY or len(layouts) != 2 or read is None or read.layout != Layout.contiguous(product_recipe.shape):
        return False
    is_plain = not any(x.base is not None or x.tables is not None for x in layouts)
    return is_plain and sum(_drop_repetitions(x).size for x in layouts) < sum_recipe.size


def _drop_repetitions(layout: Layout) -> Layout:
    """Return `layout` without repetitions: axes of stride 0 get size 1. `layout` must have no offset tables."""
    return layout.index(tuple([slice(None) if step else slice(0, 1) for step in layout.strides]))


def _merge_matmuls(kind: object, summands: Sequence[NodeView]) -> NodeView:
    """Return the sum of the matrix products `summands` as a single product, in the shape of a summand. `kind` is their common key
    (`_matmul_key`).

    The nodes are replayed from a recording if the same layouts occurred before.
    """
    products = [node for summand in summands for node in summand.node.sources if type(node) is Node]
    sources = [x for product in products for x in product.sources]
    shapes = [x.recipe.shape if type(x) is Node else None for x in sources]

    def make(inputs: Sequence[Node | Scalar]) -> list[tuple[int, Cotangent]]:
        read = [NodeView(x, y) for x, y in zip(inputs, [y for p in products for y in p.layouts], strict=True)]  # type: ignore[arg-type]
        sum_shape = summands[0].node.shape
        shape = (*sum_shape, len(summands), *products[0].shape[len(sum_shape) :])
        operands = [_stack_views(read[k::2], shape, len(sum_shape)) for k in range(2)]
        product_sum = DeferredTerm(_MULTIPLY, operands, shape, products[0].dtype).sum_trailing(len(sum_shape))
        return [(0, product_sum.reshape((product_sum.layout.size,)).view_through(summands[0].layout))]

    ((_, result),) = replay_or_record((kind, *[p.offsets for p in products], *shapes), sources, make)
    assert isinstance(result, NodeView)
    return result


def _stack_views(views: Sequence[NodeView], shape: Sequence[int], axis: int) -> NodeView:
    """Return a view of the shape `shape` with `views`, affine views of equal shape, stacked along a new axis at position `axis`.

    The elements are copied into a new pending node, each once: axes of stride 0 stay broadcast.
    """
    compact_views = [x.map_layout(_drop_repetitions) for x in views]
    order = memory_order([compact_views[0].layout]) or range(len(compact_views[0].shape))
    sizes = tuple([compact_views[0].shape[k] for k in order])
    stack_layout, stacked = Layout.contiguous((len(views), *sizes)), NodeView(Node.of(EMPTY, (len(views) * prod(sizes),), views[0].dtype))
    for k, x in enumerate(compact_views):
        stacked = apply_store(stacked, stack_layout.index((k,)), x.map_layout(lambda layout: layout.permute(order)))
    back = [1 + list(order).index(k) for k in range(len(sizes))]
    back.insert(axis, 0)
    return stacked.view_through(stack_layout.permute(back).expand(tuple(shape)))
