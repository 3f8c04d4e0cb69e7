"""The strides of accesses along loops, and the orders of loops that follow from these strides alone. An access is a read or write of an
operand inside nested loops, through a layout. Loops are given by their axis numbers, which index a list of extents.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._utils.records import NamedTuple
from ..graph.reduction_limits import NEAR_STEPS
from ..layout import Layout, Table

Loops = tuple[int, ...]  # the axes of nested loops, outermost first
Step = int | Table


class AccessStrides(NamedTuple):
    """The strides of an access along loops: `steps` maps the number of a loop axis to the distance in elements between two iterations.

    A step is an integer, or a table with the offset of each index. Axes of extent 1, and axes along which the access does not move, are
    left out. `offset` is the element of the first iteration, in elements. `base` is the rest of a view chain, or None for a single view.
    With a `base`, steps and `offset` count flat indices of `base`.
    """

    steps: dict[int, Step]
    offset: int
    base: Layout | None

    @staticmethod
    def from_layout(layout: Layout, loops: Sequence[int], extents: Sequence[int]) -> AccessStrides:
        """Return the strides of an access through `layout`, whose axes are walked by the loops `loops`, one for each, in this order.

        `extents` gives the number of indices of each axis, by axis number. `steps` is a new dict, which `merge_axes` may change.
        """
        tables = layout.tables or (None,) * len(layout.shape)
        steps: dict[int, Step] = {}
        for axis, stride, table in zip(loops, layout.strides, tables, strict=True):
            if extents[axis] != 1:
                if table is not None:
                    steps[axis] = table
                elif stride:
                    steps[axis] = stride
        return AccessStrides(steps, layout.offset, layout.base)

    def has_near_step(self, axis: int) -> bool:
        """Return whether the step along `axis`, an axis number, is 1 or another small step (`NEAR_STEPS`), forwards or backwards.

        A missing axis, and an axis with a table, give False.
        """
        step = self.steps.get(axis, 0)
        return not isinstance(step, Table) and (abs(step) == 1 or abs(step) in NEAR_STEPS)

    def has_unit_step(self, axis: int) -> bool:
        """Return whether the step along `axis`, an axis number, is exactly 1; a missing axis, and an axis with a table, give False.

        Neighbouring iterations then reach neighbouring elements, of `base` if there is one, in increasing order.
        """
        return self.steps.get(axis) == 1


class ReductionOrder(NamedTuple):
    """The order in which a reduction adds: `groups` of its axes, outermost first, each walked as a single loop, without axes of size 1.

    Axes are numbered from 0, the outermost axis of the reduction. If view chains split them, `split_extents` has the extents of the parts,
    and the parts are numbered. Lanes run along the last group, or along loops around the reduction if it takes its elements in sequence, in
    a single state (`is_sequential`). If `follows_factors`, the order follows the memory of the factors of a summed product.
    """

    groups: tuple[Loops, ...]
    split_extents: tuple[int, ...]
    is_sequential: bool
    follows_factors: bool


def merge_axes(axes: Loops, walks: Sequence[AccessStrides], extents: list[int], boundaries: set[int]) -> Loops:
    """Return `axes`, the loops outermost first, with neighbours merged where every access walks both as a single axis.

    A merged axis keeps the inner number. `walks` (the strides of each access) and `extents` (the number of indices, by axis number) are
    changed in place: a merged axis has the product of the extents. Axes on two sides of a boundary are not merged: for each number k in
    `boundaries`, further statements run inside the k outermost axes.
    """
    merged_axes: list[int] = []
    for k, inner in enumerate(axes):
        if merged_axes and k not in boundaries and _can_merge(merged_axes[-1], inner, walks, extents):
            outer = merged_axes.pop()
            extents[inner] *= extents[outer]
            for w in walks:
                w.steps.pop(outer, None)
        merged_axes.append(inner)
    return tuple(merged_axes)


def _can_merge(outer: int, inner: int, walks: Sequence[AccessStrides], extents: Sequence[int]) -> bool:
    """Return whether each access moves along axis `outer` exactly as far as along a full loop over axis `inner`.

    `walks` are the strides of the accesses; an access with a table along either axis gives False. `extents` are the extents by axis number.
    """
    for w in walks:
        a, b = w.steps.get(outer, 0), w.steps.get(inner, 0)
        if isinstance(a, Table) or isinstance(b, Table) or a != extents[inner] * b:
            return False
    return True


def sort_by_stride(axes: Loops, walks: Sequence[AccessStrides]) -> Loops:
    """Return `axes` by decreasing stride, so that the innermost loop moves the least in memory. The stride of an axis is summed over
    `walks`.

    `walks` are the strides of the accesses to consider. The sum has absolute values; steps given by tables count as 0. Axes of equal sums
    keep their order.
    """

    def sum_strides(axis: int) -> int:
        return sum(abs(s) for w in walks if not isinstance(s := w.steps.get(axis, 0), Table))

    return tuple(sorted(axes, key=sum_strides, reverse=True))


def order_reduction(axes: Loops, walks: Sequence[AccessStrides]) -> Loops:
    """Return the axes of a reduction by decreasing stride, summed over the accesses `walks` that move along several of the axes.

    Accesses along a single axis are ignored. So `column * (row - other)` is added in the same order as `column * row`.
    """
    return sort_by_stride(axes, [w for w in walks if sum([a in w.steps for a in axes]) > 1])
