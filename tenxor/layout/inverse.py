"""Inverses and adjoints of layouts: maps from the elements of a storage back to the positions that read them. A layout maps positions to
storage offsets, in elements.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np

from .._utils.records import NamedTuple
from ..errors import ArgumentError

Layout = TypeVar("Layout", bound=Any)  # a type variable, as this module stands below `Layout`


class Adjoint(NamedTuple, Generic[Layout]):
    """The adjoint of reading through a layout: how values, one per position, are added up in the elements that the positions read.

    First the values are summed over the axes `summed`, along which the layout repeats. `layout` has the remaining axes, and `kind` says how
    the sums reach the storage. "view": the storage is the sums, in row-major order, read through `layout`. "store": the sums are written
    through `layout` to zeros. "accumulate": the sums are added through `layout` to zeros, as several positions share an element.
    """

    summed: tuple[int, ...]
    kind: str
    layout: Layout


def invert_layout(layout: Layout) -> Layout:
    """Return the inverse of `layout`: a 1-d layout whose element `k` is the flat index of the position with offset `k`.

    Raise ArgumentError unless `layout` reaches each offset from 0 to `layout.size - 1` once.
    """
    if not _is_bijection(layout, layout.size):
        raise ArgumentError(
            f"inverse: {layout} of {layout.size} elements has no inverse: not each of the offsets from 0 to {layout.size - 1} is"
            " reached once; use its adjoint, which sums the values of each offset"
        )
    result: Layout = _invert(layout)
    return result


def _invert(layout: Any) -> Any:
    """Return the inverse of the bijective `layout`: a 1-d layout of as many elements. The offsets must be those from 0 to `layout.size -
    1`.
    """
    base = layout.base
    if base is not None and base.size == layout.size:  # every view of the chain is a bijection
        head = type(layout)(layout.shape, layout.strides, layout.offset, layout.tables)
        return _invert(base).over(_invert(head))
    flat_shape = (layout.size,)
    if base is not None or layout.tables is not None:
        offsets = layout.offsets().ravel()
        flat_indices = np.empty_like(offsets)
        flat_indices[offsets] = np.arange(layout.size)
        return layout.gathered(flat_indices).reshape(flat_shape)
    # The strides of an affine bijection are those of a contiguous layout, permuted and with other signs.
    order = sorted(range(layout.ndim), key=lambda axis: -abs(layout.strides[axis]))
    flipped_axes = [axis for axis, stride in enumerate(layout.strides) if stride < 0]
    return layout.contiguous(layout.shape).flip(flipped_axes).permute(order).reshape(flat_shape)


def build_adjoint(layout: Layout, size: int) -> Adjoint[Layout]:
    """Return how to add values, one per position of `layout`, into a storage of `size` elements, as an `Adjoint`.

    Each element of the storage becomes the sum of the values at the positions that read the element, or 0.
    """
    if layout.size == 0:
        return Adjoint((), "store", layout)
    axes = layout.axes()
    summed = tuple([k for k, axis in enumerate(axes) if axis.size != 1 and axis.stride == 0 and axis.table is None])
    kept_axes = [k for k in range(len(axes)) if k not in summed]
    unrepeated = layout.arranged(kept_axes, tuple([axes[k].size for k in kept_axes])) if summed else layout
    if unrepeated.size == size and _is_bijection(unrepeated, size):
        return Adjoint(summed, "view", _invert(unrepeated))
    return Adjoint(summed, "store" if unrepeated.is_injective() else "accumulate", unrepeated)


def _is_bijection(layout: Layout, size: int) -> bool:
    """Return whether `layout` reaches each offset from 0 to `size` - 1 once, or has no elements. `size` must be the size of `layout`."""
    reach = layout.range()
    return reach is None or (reach == (0, size - 1) and layout.is_injective())
