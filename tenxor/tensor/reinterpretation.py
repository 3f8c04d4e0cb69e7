"""Memory seen as elements of another dtype: layouts for `view`, and writes to the parts of complex numbers."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType
from ..errors import ShapeError
from ..layout import Layout
from .core import TensorBase


def reinterpreted_layout(layout: Layout, old: DType, new: DType) -> Layout:
    """Return the layout of the same bytes as elements of the dtype `new`; `layout` is that of elements of `old`.

    Only the last axis changes its size. Raise ShapeError if elements of different size are not next to one another along this axis, or do
    not divide into elements of `new`.
    """
    if old.itemsize == new.itemsize:
        return layout
    # without elements there is no distance between them
    if layout.size == 0 and layout.ndim and layout.shape[-1] * old.itemsize % new.itemsize == 0:
        return Layout.contiguous((*layout.shape[:-1], layout.shape[-1] * old.itemsize // new.itemsize))
    if layout.base is not None or layout.tables is not None or layout.ndim == 0 or (layout.strides[-1] != 1 and layout.shape[-1] > 1):
        raise ShapeError(
            f"view: {old} as {new} of another size needs elements next to one another along the last axis; this view of shape"
            f" {layout.shape} has none; take a copy() first"
        )
    wide, narrow = max(old.itemsize, new.itemsize), min(old.itemsize, new.itemsize)
    ratio = wide // narrow
    leading_strides, last_size = layout.strides[:-1], layout.shape[-1]
    if new.itemsize < old.itemsize:
        return Layout((*layout.shape[:-1], last_size * ratio), (*(s * ratio for s in leading_strides), 1), layout.offset * ratio)
    if any(n % ratio for n in (*leading_strides, last_size, layout.offset)):
        raise ShapeError(
            f"view: {old} as {new} joins {ratio} elements to one: the last axis ({last_size}), the strides {layout.strides} and the offset"
            f" {layout.offset} must be multiples of {ratio}"
        )
    return Layout((*layout.shape[:-1], last_size // ratio), (*(s // ratio for s in leading_strides), 1), layout.offset // ratio)


def write_component(component: Any, values: Any) -> None:
    """Write values into a part of complex numbers, a view. If the values are this view itself, do nothing: `x.real += 1` has written them
    already.
    """
    if not (isinstance(values, TensorBase) and values.storage is component.storage and values.layout == component.layout):
        component[...] = values
