"""Sums of cotangents that are matrix products, computed as a single product: for instance the gradient of a weight read by every step of a
sequence.

The sum over steps `t` of `sum_k left_t[i, k] * right_t[j, k]` is a single sum over `t` and `k`. The operands of the steps are concatenated.
This moves less memory than writing, and reading again, a whole result for each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from ..layout import Layout, memory_order
from ..node import EMPTY, Node, Recipe, Scalar
from ..ops import OPS
from .adjoint import Part
from .again import made_again
from .seen import SUM, Seen, Term, stored

_MULTIPLY = OPS["multiply"]
MAX_SEPARATE_PRODUCTS = 4  # similar products; up to this number they are added separately


def combined(cotangents: Sequence[Part]) -> Sequence[Part]:
    """Return cotangents of one content with the same sum as `cotangents`: similar matrix products are combined into a single product."""
    if len(cotangents) <= MAX_SEPARATE_PRODUCTS:
        return cotangents
    products_by_kind: dict[object, list[Seen]] = {}
    result: list[Part] = []
    for cotangent in cotangents:
        key = _product_key(cotangent)
        if key is not None and isinstance(cotangent, Seen):
            products_by_kind.setdefault(key, []).append(cotangent)
        else:
            result.append(cotangent)
    for key, products in products_by_kind.items():
        result += products if len(products) <= MAX_SEPARATE_PRODUCTS else [_combine_products(key, products)]
    return result


def _product_key(cotangent: Part) -> object:
    """Return a key, equal for cotangents that are matrix products and can be combined; None if combining does not apply or does not pay."""
    if not isinstance(cotangent, Seen) or cotangent.node.recipe.op is not SUM:
        return None
    (product,) = cotangent.node.sources
    if type(product) is not Node or cotangent.node.offsets != (0,) or not is_worth_while(cotangent.node.recipe, product.recipe):
        return None
    return cotangent.node.recipe, product.recipe, cotangent.layout.form, cotangent.layout.offset


@lru_cache(1 << 10)
def is_worth_while(total: Recipe, product: Recipe) -> bool:
    """Return whether `total` is a sum over a product of two operands that together are smaller than the sum's result."""
    (read,) = total.forms
    layouts = [form.layout for form in product.forms if form is not None]
    if product.op is not _MULTIPLY or len(layouts) != 2 or read is None or read.layout != Layout.contiguous(product.shape):
        return False
    is_plain = not any(x.base is not None or x.tables is not None for x in layouts)
    return is_plain and sum(_drop_repetitions(x).size for x in layouts) < total.size


def _drop_repetitions(layout: Layout) -> Layout:
    """Return a layout without repetitions: broadcast axes get size 1."""
    return layout.index(tuple([slice(None) if step else slice(0, 1) for step in layout.strides]))


def _combine_products(kind: object, summands: Sequence[Seen]) -> Seen:
    """Return the sum of similar matrix products `summands` as a single product. `kind` is their common key (`_product_key`).

    The nodes are replayed from a recording if the same layouts occurred before.
    """
    products = [node for summand in summands for node in summand.node.sources if type(node) is Node]
    sources = [x for product in products for x in product.sources]
    shapes = [x.recipe.shape if type(x) is Node else None for x in sources]

    def make(inputs: Sequence[Node | Scalar]) -> list[tuple[int, Part]]:
        read = [Seen(x, y) for x, y in zip(inputs, [y for p in products for y in p.layouts], strict=True)]  # type: ignore[arg-type]
        sum_shape = summands[0].node.shape
        shape = (*sum_shape, len(summands), *products[0].shape[len(sum_shape) :])
        operands = [_stack_views(read[k::2], shape, len(sum_shape)) for k in range(2)]
        product_sum = Term(_MULTIPLY, operands, shape, products[0].dtype).summed(len(sum_shape))
        return [(0, product_sum.reshaped((product_sum.layout.size,)).through(summands[0].layout))]

    ((_, result),) = made_again((kind, *[p.offsets for p in products], *shapes), sources, make)
    assert isinstance(result, Seen)
    return result


def _stack_views(views: Sequence[Seen], shape: Sequence[int], axis: int) -> Seen:
    """Return a view of the given shape in which `views` are stacked along the new axis `axis`. Broadcast axes are not copied."""
    compact_views = [x.moved(_drop_repetitions) for x in views]
    order = memory_order([compact_views[0].layout]) or range(len(compact_views[0].shape))
    sizes = tuple([compact_views[0].shape[k] for k in order])
    stack_layout, stacked = Layout.contiguous((len(views), *sizes)), Seen(Node.of(EMPTY, (len(views) * prod(sizes),), views[0].dtype))
    for k, x in enumerate(compact_views):
        stacked = stored(stacked, stack_layout.index((k,)), x.moved(lambda layout: layout.permute(order)))
    back = [1 + list(order).index(k) for k in range(len(sizes))]
    back.insert(axis, 0)
    return stacked.through(stack_layout.permute(back).expand(tuple(shape)))
