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
FEW = 4  # similar products; up to this number they are added separately


def combined(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the cotangents `parts`, with similar products combined into a single product."""
    if len(parts) <= FEW:
        return parts
    alike: dict[object, list[Seen]] = {}
    others: list[Part] = []
    for part in parts:
        key = _kind_of(part)
        if key is not None and isinstance(part, Seen):
            alike.setdefault(key, []).append(part)
        else:
            others.append(part)
    for key, its in alike.items():
        others += its if len(its) <= FEW else [_as_one(key, its)]
    return others


def _kind_of(part: Part) -> object:
    """Return a key, equal for products that can be combined, or None if combining does not apply or does not pay."""
    if not isinstance(part, Seen) or part.node.recipe.op is not SUM:
        return None
    (product,) = part.node.sources
    if type(product) is not Node or part.node.offsets != (0,) or not is_worth_while(part.node.recipe, product.recipe):
        return None
    return part.node.recipe, product.recipe, part.layout.form, part.layout.offset


@lru_cache(1 << 10)
def is_worth_while(total: Recipe, product: Recipe) -> bool:
    """Return whether `total` is a sum over a product of two operands that together are smaller than the sum's result."""
    (read,) = total.forms
    layouts = [form.layout for form in product.forms if form is not None]
    if product.op is not _MULTIPLY or len(layouts) != 2 or read is None or read.layout != Layout.contiguous(product.shape):
        return False
    is_plain = not any(x.base is not None or x.tables is not None for x in layouts)
    return is_plain and sum(_alone(x).size for x in layouts) < total.size


def _alone(layout: Layout) -> Layout:
    """Return a layout without repetitions: broadcast axes get size 1."""
    return layout.index(tuple([slice(None) if step else slice(0, 1) for step in layout.strides]))


def _as_one(kind: object, parts: Sequence[Seen]) -> Seen:
    """Return the sum of similar products as a single product. The nodes are replayed if the same layouts occurred before."""
    products = [node for part in parts for node in part.node.sources if type(node) is Node]
    sources = [x for product in products for x in product.sources]
    shapes = [x.recipe.shape if type(x) is Node else None for x in sources]

    def make(given: Sequence[Node | Scalar]) -> list[tuple[int, Part]]:
        read = [Seen(x, y) for x, y in zip(given, [y for p in products for y in p.layouts], strict=True)]  # type: ignore[arg-type]
        kept = parts[0].node.shape
        shape = (*kept, len(parts), *products[0].shape[len(kept) :])
        operands = [_side_by_side(read[k::2], shape, len(kept)) for k in range(2)]
        found = Term(_MULTIPLY, operands, shape, products[0].dtype).summed(len(kept))
        return [(0, found.reshaped((found.layout.size,)).through(parts[0].layout))]

    ((_, found),) = made_again((kind, *[p.offsets for p in products], *shapes), sources, make)
    assert isinstance(found, Seen)
    return found


def _side_by_side(each: Sequence[Seen], shape: Sequence[int], axis: int) -> Seen:
    """Return a view of the given shape in which the views `each` are stacked along the new axis `axis`. Broadcast axes are not copied."""
    alone = [x.moved(_alone) for x in each]
    order = memory_order([alone[0].layout]) or range(len(alone[0].shape))
    sizes = tuple([alone[0].shape[k] for k in order])
    whole, found = Layout.contiguous((len(each), *sizes)), Seen(Node.of(EMPTY, (len(each) * prod(sizes),), each[0].dtype))
    for k, x in enumerate(alone):
        found = stored(found, whole.index((k,)), x.moved(lambda own: own.permute(order)))
    back = [1 + list(order).index(k) for k in range(len(sizes))]
    back.insert(axis, 0)
    return found.through(whole.permute(back).expand(tuple(shape)))
