"""The order in which a reduction adds: a function of the reduction alone, the same in every kernel.

The order follows the layout of the source, as if the source were in memory. A sum of products follows both factors. Neither the kernel
around the reduction, nor fused operations, nor the strides of their operands change the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.lazy import LazyFunctions
from ..graph.node import Node
from ..graph.reduced_sources import find_summed_product
from ..graph.reduction_limits import MAX_SHORT_ITERATIONS, MIN_ROW_BYTES
from ..layout import Layout
from ..ops.reductions import Reduction
from .access_strides import AccessStrides, Loops, ReductionOrder, merge_axes, order_reduction
from .index_maps import add_inner_axes, get_inner_shape, make_identity_map

split_reads = LazyFunctions("tenxor.lowering.split_loops").split_reads  # imported with the first chain of views
_orders: BoundedCache[ReductionOrder] = register("orders of reductions", "the order of a reduction, by its recipe and a summed product's")(
    BoundedCache(1 << 12)
)


def find_reduction_order(node: Node) -> ReductionOrder:
    """Return the order in which the reduction `node` adds in every kernel. Orders of cacheable recipes without offsets are cached.

    The order follows the layout of the source, and for a sum of products the layouts of the factors; a number is no factor. A sum of
    products is added like the sum of a stored product if both orders walk the axes alike. Also, the sum must have a single result, or a
    factor be as large as the product.
    """
    layout, product = node.layouts[0], find_summed_product(node)
    assert layout is not None
    reader = product or node
    factor_layouts = () if product is None or None in product.layouts else product.layouts  # a number is no factor
    key = None if any(reader.offsets) or layout.offset or reader.recipe.is_uncacheable else (node.recipe, reader.recipe)
    order = None if key is None else _orders.get(key)
    if order is None:
        source_map = add_inner_axes(make_identity_map(node), get_inner_shape(node)).over(layout)
        order = _derive_order(node, [source_map])
        if factor_layouts:
            by_factors = _derive_order(node, [source_map.over(x) for x in factor_layouts if x is not None])._replace(follows_factors=True)
            has_full_factor = node.size == 1 or any([type(s) is Node and s.size == reader.size for s in reader.sources])
            is_like_stored = sum(order.groups, ()) == sum(by_factors.groups, ()) and order.is_sequential == by_factors.is_sequential
            is_like_stored = is_like_stored or (node.size == 1 and bool(by_factors.split_extents))
            order = order if has_full_factor and is_like_stored else by_factors
        if key is not None:
            _orders.put(key, order)
    return order


def _derive_order(node: Node, index_maps: Sequence[Layout]) -> ReductionOrder:
    """Return the order in which the reduction `node` adds operands in memory.

    `index_maps` are the index maps of the operands: layouts over the axes of the results, and then the reduced axes. View chains split the
    loops where the chains wrap around.
    """
    reduction, space_count = node.op, len(node.shape)
    assert isinstance(reduction, Reduction)
    extents = [*node.shape, *get_inner_shape(node)]
    space, axes = tuple(range(space_count)), tuple(range(space_count, len(extents)))
    if any([index_map.base is not None for index_map in index_maps]):
        extents, space, axes, walks, is_split = split_reads(node, index_maps)
    else:
        walks, is_split = [AccessStrides.from_layout(index_map, space + axes, extents) for index_map in index_maps], False
    split_extents = tuple([extents[a] for a in axes]) if is_split else ()
    ordered = tuple([a for a in axes if extents[a] != 1])
    if reduction.append is None:
        ordered = order_reduction(ordered, walks)
    is_sequential = _is_sequential(reduction, space, ordered, walks, extents)
    groups, group = list[Loops](), list[int]()
    row_bytes = [prod([extents[a] for a in ordered[k:]]) * node.sources[0].dtype.itemsize for k in range(len(ordered))]
    rows = {k for k in range(1, len(ordered)) if len(walks) == 1 and row_bytes[k] >= MIN_ROW_BYTES}
    merged = merge_axes(ordered, walks, extents, rows)
    for axis in ordered:
        group.append(axes.index(axis))
        if axis in merged:
            groups.append(tuple(group))
            group = []
    return ReductionOrder(tuple(groups), split_extents, is_sequential, False)


def _is_sequential(reduction: Reduction, space: Loops, axes: Loops, walks: Sequence[AccessStrides], extents: Sequence[int]) -> bool:
    """Return whether a reduction inside the loops `space` takes elements in sequence, with a single state, so that lanes are left to these
    loops.

    `axes` are the reduced axes of several indices, in order, `walks` the strides of the reads, and `extents` the extents by axis number. A
    reduction without `combine` gives True. A reduction to a single result gives False. Otherwise the answer is True for at most
    `MAX_SHORT_ITERATIONS` elements per result. The answer is also True where neighbouring results read neighbouring elements, but the
    elements of a result are far apart.
    """
    if not axes or reduction.combine is None:
        return True
    last_loop = next((a for a in reversed(space) if extents[a] != 1), None)
    if last_loop is None:
        return False
    if prod([extents[a] for a in axes]) <= MAX_SHORT_ITERATIONS:
        return True
    last_walks = [w for w in walks if last_loop in w.steps and any([a in w.steps for a in axes])]
    is_near_last, is_near_inner = [any([w.has_near_step(axis) for w in last_walks]) for axis in (last_loop, axes[-1])]
    return is_near_last and not is_near_inner
