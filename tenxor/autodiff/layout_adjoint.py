"""The adjoint of a read through a layout: each element of the content receives the sum of the cotangents of its positions in the layout.
The content of a node is the node's elements in row-major order. A term (`DeferredTerm`) is an elementwise operation on node views, without
a node yet.

Cotangents of a content are added up as they arrive. A cotangent of the whole content is a tensor; a partial cotangent is written into a
region of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from .._utils.records import NamedTuple
from ..dtypes import DType, int64
from ..graph.node import EMPTY, STORE, Node, intern_scatter, make_data_node
from ..layout import Layout
from ..memory.buffer import allocate
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from .node_view import DeferredTerm, NodeView, Operand, Shape, add_views, apply_scatter, apply_store, full_view

_MULTIPLY = OPS["multiply"]
MAX_SEPARATE_WRITES = 64  # positions that share one element; up to here each is added by a separate write, above by a scatter
_GRADIENT_SCATTER = intern_scatter("gradient", REDUCTIONS["sum_in_width"], (0,), True)


class PartialCotangent(NamedTuple):
    """A partial cotangent of a content: `values` belong to the elements read through `layout`; every other element has the cotangent 0.

    `values` has the shape of `layout`. `is_injective` is True if the layout is injective. Otherwise several positions may share an element,
    and their values add up.
    """

    values: NodeView
    layout: Layout
    is_injective: bool


Cotangent = NodeView | PartialCotangent


def get_values(cotangent: Cotangent) -> NodeView:
    """Return the values of `cotangent`: the cotangent itself if it is whole (`NodeView`), the field `values` if it is partial
    (`PartialCotangent`).
    """
    return cotangent if isinstance(cotangent, NodeView) else cotangent.values


def apply_adjoint(layout: Layout, term: DeferredTerm, size: int) -> Cotangent:
    """Return the cotangent of the content of a node with `size` elements, given the cotangent `term` of the elements read through `layout`.

    The result is whole, or partial (`PartialCotangent`) if `layout` leaves out elements, or repeats them other than by broadcasting. `term`
    has the shape of `layout`. A whole cotangent may have another shape than the node, with the elements in the same order. New nodes are
    pending.
    """
    if layout.offset == 0 and layout.size == size and layout.is_contiguous():
        return term.to_view()
    axes = layout.axes()
    long_axes = [k for k, axis in enumerate(axes) if axis.size != 1]
    broadcast_axes = [k for k in long_axes if axes[k].stride == 0 and axes[k].table is None]
    kept_axes = [k for k in long_axes if k not in broadcast_axes]
    if layout.base is None and layout.tables is None:  # The sums get the memory order of the elements.
        kept_axes.sort(key=lambda k: -abs(layout.strides[k]))
    if layout.base is None and layout.tables is None and term.op in (None, _MULTIPLY):
        gathered = _slide_windows(layout, term, kept_axes) or _slide_in_phases(layout, term, kept_axes)
        if gathered is not None:
            return apply_adjoint(*gathered, size)
    order = (*kept_axes, *broadcast_axes)
    back = layout.arranged(order, tuple([layout.shape[k] for k in order])).adjoint(size)
    values = term.select_axes(order).sum_trailing(len(kept_axes))
    if back.kind == "view":
        return values.view_through(back.layout)
    return PartialCotangent(values, back.layout, back.kind == "store")


def _slide_windows(layout: Layout, term: DeferredTerm, kept_axes: Sequence[int]) -> tuple[Layout, DeferredTerm] | None:
    """Return a layout and a term with the same adjoint as `layout` and `term`, gathered by element instead of by window; or None.

    `layout` must have strides only, and `term` be a single operand or a product of two. `kept_axes` are the axes of `layout` without the
    broadcast axes. A window axis and a position axis are a pair if their positive strides are equal; the pairs are rewritten together.
    Return None without a pair, or if an axis is in two pairs as window and as position. Return None also for a number as operand, and for
    an operand read through tables or a view chain. Along each window axis, an operand must need padding, or the result is None.

    In units of the stride, window `y` reads element `y + k` at position `k`. So element `p` gets the sum over `k` of the contributions of
    window `p - k` at position `k`. Beyond the first and last window the term is 0. A product of two operands stays a single product: the
    gradient of a convolution is a convolution.
    """
    axes = sorted([(layout.strides[k], layout.shape[k], k) for k in kept_axes if layout.strides[k] > 0])
    pairs = {y: (k, extent - 1) for (step, extent, k), (next_step, _, y) in pairwise(axes) if step == next_step}
    if not pairs or any(k in pairs for k, _ in pairs.values()):
        return None
    shape = tuple([n + pairs[axis][1] if axis in pairs else n for axis, n in enumerate(layout.shape)])
    operands: list[Operand] = []
    ends: set[int] = set()  # the window axes along which an operand is padded with zeros
    for x in term.operands:
        if not isinstance(x, NodeView) or x.layout.base is not None or x.layout.tables is not None:
            return None
        steps = x.layout.strides
        padding = {y: padding for y, (k, padding) in pairs.items() if steps[y] not in (0, steps[k])}
        padded = _pad_with_zeros(x, {y: (n, n) for y, n in padding.items()}) if padding else x
        ends |= padding.keys()
        start, strides = padded.layout.offset, list(padded.layout.strides)
        for y, (k, _) in pairs.items():
            start += padding.get(y, 0) * strides[y]
            strides[k] -= strides[y]
        operands.append(NodeView(padded.node, Layout(shape, tuple(strides), start)))
    if ends != pairs.keys():
        return None
    position_axes = [k for k, _ in pairs.values()]
    result_steps = tuple([0 if axis in position_axes else step for axis, step in enumerate(layout.strides)])
    return Layout(shape, result_steps, layout.offset), DeferredTerm(term.op, operands, shape, term.dtype)


def _slide_in_phases(layout: Layout, term: DeferredTerm, kept_axes: Sequence[int]) -> tuple[Layout, DeferredTerm] | None:
    """Return a layout and a term with the same adjoint as `layout` and `term`, for overlapping windows at a distance of `s > 1` positions.

    `layout` must have strides only, and `term` be a single operand or a product of two. `kept_axes` are the axes of `layout` without the
    broadcast axes. Positions `k`, `k + s`, `k + 2 s`, ... of the windows read the same elements as windows at distance 1. So the positions
    split into `s` phases, each with every `s`-th position of a window. Elements `r`, `r + s`, `r + 2 s`, ... get the contributions of phase
    `r`. Return None without such windows, and if an operand varies with window and position. Return None also where `_slide_windows` or
    `_merge_phases` returns None.
    """
    shape, steps = layout.shape, layout.strides
    phase_counts: dict[int, int] = {}  # for each axis of positions, the position at which the next window begins
    for k in kept_axes:
        wider = [(steps[y] // steps[k], y) for y in kept_axes if steps[y] > steps[k] > 0 and not steps[y] % steps[k]]
        if wider and min(wider)[0] < shape[k]:
            phase_counts[k], y = min(wider)
            if any(isinstance(x, NodeView) and x.layout.strides[y] and x.layout.strides[k] for x in term.operands):
                return None  # The operand varies with window and position, so phases would save nothing.
    # The number of zero positions to add, so that phases have equal length.
    missing_counts = {k: -shape[k] % s for k, s in phase_counts.items()}
    operands: list[Operand] = []
    filled: set[int] = set()
    for x in term.operands:
        if not phase_counts or not isinstance(x, NodeView) or x.layout.base is not None or x.layout.tables is not None:
            return None
        padding = {k: (0, n) for k, n in missing_counts.items() if n and x.layout.strides[k]}
        filled |= padding.keys()
        padded = _pad_with_zeros(x, padding) if padding else x
        operands.append(NodeView(padded.node, _split_phases(padded.layout, phase_counts)))
    if any(n and k not in filled for k, n in missing_counts.items()):
        return None
    layout = _split_phases(layout, phase_counts)
    long_axes = [k for k, n in enumerate(layout.shape) if n != 1]
    gathered = _slide_windows(layout, DeferredTerm(term.op, operands, layout.shape, term.dtype), long_axes)
    if gathered is None:
        return None
    layout, term = gathered
    order = sorted([k for k in long_axes if layout.strides[k]], key=lambda k: -layout.strides[k])
    broadcast_axes = [k for k in long_axes if not layout.strides[k]]
    # The product is computed with each phase axis moved in front of the axis next to it, an image for each phase. Only the result is
    # permuted, so that phases interleave.
    phases = [k for k in order if layout.strides[k] in [steps[axis] for axis in phase_counts]]
    first = order.index(phases[0]) - 1
    product_order = [*order[:first], *phases, *[k for k in order[first:] if k not in phases]]
    values = (
        term.select_axes((*product_order, *broadcast_axes))
        .sum_trailing(len(product_order))
        .map_layout(lambda layout: layout.permute([product_order.index(k) for k in order]))
    )
    layout = layout.arranged(order, tuple([layout.shape[k] for k in order]))
    return _merge_phases(layout, values, [(steps[k], phase_counts[k], n) for k, n in missing_counts.items() if n])


def _merge_phases(layout: Layout, values: NodeView, ends: Sequence[tuple[int, int, int]]) -> tuple[Layout, DeferredTerm] | None:
    """Return the layout and the term after axes split into phases are merged, and the padding dropped. Return None if two axes to merge are
    not adjacent.

    `values` is the cotangent read through `layout`, which must have strides only. Each of `ends` gives the stride of a phase axis, the
    number of phases, and the number of padded elements to drop at the end. With `ends`, the values are copied. Without `ends`, nothing is
    merged.
    """
    if ends:  # A copy makes the two axes mergeable.
        empty = NodeView(Node.of(EMPTY, (layout.size,), values.dtype))
        values = apply_store(empty, Layout.contiguous(layout.shape), values).reshape(layout.shape)
    for step, phases, count in ends:
        sizes, steps = list(layout.shape), list(layout.strides)
        axis = steps.index(step)
        if steps[axis - 1 : axis] != [step * phases] or sizes[axis] != phases:
            return None
        sizes[axis - 1 : axis + 1] = [sizes[axis - 1] * phases]
        del steps[axis - 1]
        inner = (*(slice(None),) * (axis - 1), slice(0, sizes[axis - 1] - count))
        values = values.reshape(tuple(sizes)).map_layout(lambda layout, inner=inner: layout.index(inner))  # type: ignore[misc]
        layout = Layout(values.shape, tuple(steps), layout.offset)
    return layout, DeferredTerm.of(values)


def _split_phases(layout: Layout, phase_counts: Mapping[int, int]) -> Layout:
    """Return `layout` with some axes split in two: the index within the phase, and the phase. `layout` must have strides only.

    `phase_counts` maps an axis to its number of phases. The extent within a phase is rounded up, so the result may read beyond the axis.
    """
    sizes, steps = list(layout.shape), list(layout.strides)
    for k in sorted(phase_counts, reverse=True):
        s = phase_counts[k]
        sizes[k : k + 1] = [-(-sizes[k] // s), s]
        steps[k : k + 1] = [s * steps[k], steps[k]]
    return Layout(tuple(sizes), tuple(steps), layout.offset)


def _pad_with_zeros(x: NodeView, padding: Mapping[int, tuple[int, int]]) -> NodeView:
    """Return a pending copy of `x` with zeros before and after the elements. `padding` maps an axis to both counts; an axis without an
    entry is not padded.

    Axes of stride 0 stay broadcast, and must not be in `padding`. `x` must have strides only.
    """
    steps, shape = x.layout.strides, x.shape
    content = x.map_layout(lambda layout: layout.index(tuple([slice(None) if step else slice(0, 1) for step in steps])))
    ends = [padding.get(axis, (0, 0)) for axis in range(len(shape))]
    sizes = tuple([n + low + high for n, (low, high) in zip(content.shape, ends, strict=True)])
    zeros = full_view(0, sizes, x.dtype)
    inner = zeros.layout.index(tuple([slice(low, low + n) for n, (low, _) in zip(content.shape, ends, strict=True)]))
    padded = apply_store(zeros, inner, content).reshape(sizes)
    full_shape = [size if step else n for size, step, n in zip(sizes, steps, shape, strict=True)]
    return padded.map_layout(lambda layout: layout.expand(full_shape))


def sum_cotangents(cotangents: Sequence[Cotangent], shape: Shape, dtype: DType) -> NodeView:
    """Return the sum, in the shape `shape`, of `cotangents`, whole or partial, of a node's content. The content has this size and `dtype`.

    Without cotangents the sum is 0. A single whole cotangent is only reshaped; otherwise the result is pending. Partial cotangents without
    overlap are stored over zeros, and further ones are added to the sum so far.
    """
    result: NodeView | None = None
    for cotangent in cotangents:
        if isinstance(cotangent, NodeView):
            result = cotangent.reshape(shape) if result is None else add_views(result, cotangent.reshape(shape))
    placed = [cotangent for cotangent in cotangents if isinstance(cotangent, PartialCotangent) and cotangent.layout.size]
    size = prod(shape)
    fresh, overlapping = list[PartialCotangent](), list[PartialCotangent]()  # parts stored over zeros, and parts added to earlier values
    for cotangent in placed:
        is_fresh = result is None and cotangent.is_injective and all(cotangent.layout.disjoint(earlier.layout) for earlier in fresh)
        (fresh if is_fresh else overlapping).append(cotangent)
    if result is None:
        covered = sum([cotangent.layout.size for cotangent in fresh]) == size
        result = NodeView(Node.of(EMPTY, (size,), dtype)) if covered else full_view(0, (size,), dtype)
    for cotangent in fresh:
        result = apply_store(result, cotangent.layout, cotangent.values)
    for cotangent in overlapping:
        result = _add_partial(result, cotangent)
    return result.reshape(shape)


def slice_cotangent(node: Node, start: int, size: int) -> NodeView:
    """Return a view of `size` elements of `node`, a sum of cotangents, from element `start` on, as one axis.

    If the sum is pending and was stored from several values, view the stored value with these elements. If no store touches them, view the
    content before the stores. So no copy is made, and a zero stays recognizable.
    """
    while node.buffer is None and node.op is STORE:
        old, value = node.sources
        target, layout = node.target, node.layouts[1]
        assert type(old) is Node and type(value) is Node and target is not None and layout is not None
        reach = target.range()
        if reach is None or reach[1] < start or reach[0] >= start + size:
            node = old
        elif target.is_contiguous() and reach[0] <= start and start + size <= reach[1] + 1 and layout.is_contiguous():
            node, start = value, layout.offset + start - reach[0]
        elif target.is_contiguous() and reach == (start, start + size - 1):
            return NodeView(value, layout).reshape((size,))
        else:
            break
    return NodeView(node, Layout.contiguous((size,), start))


def sum_by_source(indexed_cotangents: Iterable[tuple[int, Cotangent]], like: Any) -> dict[int, NodeView]:
    """Return the cotangent of the content of each source, by index: the sum of its cotangents in `indexed_cotangents`, pairs (index,
    cotangent).

    `like[k]` has the shape and dtype of source k. A source without a pair has no entry. Sums have the shape of the source.
    """
    cotangents: dict[int, list[Cotangent]] = {}
    for k, cotangent in indexed_cotangents:
        cotangents.setdefault(k, []).append(cotangent)
    return {k: sum_cotangents(summands, like[k].shape, like[k].dtype) for k, summands in cotangents.items()}


def make_root(node: Node, layout: Layout, g: NodeView) -> tuple[Node, NodeView]:
    """Return a root of a backward pass: the pair of `node` and the cotangent of the whole content, in the shape of `node`.

    `g` is the cotangent of the elements that `layout` reads from `node`, in the shape of `layout`. Elements that `layout` leaves out have
    the cotangent 0.
    """
    return node, sum_cotangents([apply_adjoint(layout, DeferredTerm.of(g), node.size)], node.shape, g.dtype)


def _add_partial(result: NodeView, cotangent: PartialCotangent) -> NodeView:
    """Return the sum of the whole cotangent `result` and the partial cotangent `cotangent`, as a new 1-d view."""
    values, layout = cotangent.values, cotangent.layout
    for key in _find_injective_cuts(layout) if not cotangent.is_injective else [()]:
        if key is None:
            return _scatter_sum(result, cotangent)
        region, region_values = layout.index(key), values.map_layout(lambda x, key=key: x.index(key))  # type: ignore[misc]
        result = apply_store(result, region, add_views(result.reshape((result.layout.size,)).view_through(region), region_values))
    return result


def _find_injective_cuts(layout: Layout) -> list[tuple[int | slice, ...] | None]:
    """Return index keys that cut `layout` into at most `MAX_SEPARATE_WRITES` parts, each injective: no part has an element twice.

    A key has an index for each cut axis, and a full slice for the rest; the parts lack the cut axes. The shortest axes are cut first.
    Return `[None]` if more parts are needed, or if `layout` is a view chain or has offset tables.
    """
    if layout.base is not None or layout.tables is not None:
        return [None]
    cut: list[int] = []
    for axis in sorted(range(layout.ndim), key=lambda k: layout.shape[k]):
        cut.append(axis)
        if prod([layout.shape[k] for k in cut]) > MAX_SEPARATE_WRITES:
            return [None]
        remainder = layout.index(tuple([0 if k in cut else slice(None) for k in range(layout.ndim)]))
        if remainder.is_injective():
            break
    positions = np.ndindex(*[layout.shape[k] for k in cut])
    return [tuple([position[cut.index(k)] if k in cut else slice(None) for k in range(layout.ndim)]) for position in positions]


def _scatter_sum(result: NodeView, cotangent: PartialCotangent) -> NodeView:
    """Return the sum of the whole cotangent `result` and the partial cotangent `cotangent`, as a new 1-d view of a pending node.

    A single scatter adds the values, with a table of the position of each value in `result`. The table, an int64 for each value, is made at
    once.
    """
    offsets = np.ascontiguousarray(cotangent.layout.offsets().ravel())
    count, size = offsets.size, result.layout.size
    buffer = allocate(offsets.nbytes, "gradient", (count,), int64)
    buffer.typed_view(int64)[:count] = offsets
    indices = NodeView(make_data_node(buffer, (count,), int64))
    values = NodeView(cotangent.values.node, cotangent.values.layout.reshape((count,)))
    return apply_scatter(_GRADIENT_SCATTER, result, Layout((count, size), (0, 1)), values, [indices])
