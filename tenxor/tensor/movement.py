"""Movement: methods that return views. A view shares the elements, and nothing is copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any, Self

from ..dtypes import DType, shown_integer
from ..errors import ArgumentError, AxisError, DTypeError, ReadOnlyError, ShapeError, described
from ..keywords import spelled
from ..layout import Layout
from ..node import Node, Scalar
from ..ops import OPS
from ..realize import glance
from .arguments import Axes, axis_of, check_parts, ints, one_of
from .core import Core, Key
from .exchange import Exchange

MAX_POSITIONS = (1 << 63) - 1  # positions of one view; kernels count them in 64 bits


class Movement(Exchange):
    """The view methods of `Tensor`. Each raises ShapeError or AxisError that names the operation, the shape and the axis."""

    __slots__ = ()

    @property
    def T(self) -> Self:
        """A view with the axes reversed.

        >>> import tenxor as tx
        >>> tx.asarray([[1, 2, 3], [4, 5, 6]]).T.tolist()
        [[1, 4], [2, 5], [3, 6]]
        """
        glance()
        return self._view(self.layout.transpose())

    @property
    def mT(self) -> Self:
        """A view with the last two axes swapped."""
        if self.layout.ndim < 2:
            raise AxisError(f"mT: shape {self.layout.shape} has {self.layout.ndim} axes; a matrix has at least 2")
        return self._view(self.layout.swapaxes(-2, -1))

    def permute(self, *axes: int | Sequence[int], dims: Sequence[int] | None = None) -> Self:
        """Return a view whose axis `k` is this tensor's axis `axes[k]`. `axes` (or `dims`, by name) must name each axis once.

        >>> import tenxor as tx
        >>> tx.arange(8).reshape(2, 2, 2).permute(1, 2, 0).flatten().tolist()
        [0, 4, 1, 5, 2, 6, 3, 7]
        """
        if dims is not None:
            if axes:
                raise ArgumentError("permute: axes and dims are two names of one argument; give only axes")
            axes = (dims,)
        return self._view(self.layout.permute(ints("permute", axes)))

    permute_dims = permute

    def transpose(self, *axes: int | Sequence[int] | None) -> Self:
        """Return a view with the axes reversed, or in the given order, as in NumPy. To swap two axes, use swapaxes."""
        if not axes or (len(axes) == 1 and axes[0] is None):
            return self.T
        order = ints("transpose", axes)
        if len(order) == 2 and self.layout.ndim > 2:
            raise AxisError(
                f"transpose: {order} is not an order of {self.layout.ndim} axes; swapaxes{order} swaps two, as PyTorch's transpose"
            )
        return self._view(self.layout.permute(order))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Return a view with two axes swapped."""
        return self._view(self.layout.swapaxes(axis1, axis2))

    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Return a view with some axes moved to new positions; the remaining axes keep their order."""
        return self._view(self.layout.moveaxis(source, destination))

    movedim = moveaxis

    def reshape(self, *shape: int | Sequence[int], order: str = "C") -> Self:
        """Return a view of the same elements in another shape, in row-major order. One size may be -1. Never copies.

        With `order="F"`, elements are read and placed in column-major order; with "A" if they are stored so.

        >>> import tenxor as tx
        >>> t = tx.arange(6).reshape(2, 3)
        >>> t.T.reshape(6)[1] = -7
        >>> t.tolist()
        [[0, 1, 2], [-7, 4, 5]]
        """
        glance()
        layout = self.layout.reshape(ints("reshape", shape))
        if _is_column_major("reshape", self.layout, order):
            layout = _reverse_axes(_reverse_axes(self.layout).reshape(layout.shape[::-1]))
        return self._view(layout)

    @spelled
    def flatten(
        self,
        start: int = 0,
        end: int = -1,
        *,
        start_dim: int | None = None,
        end_dim: int | None = None,
    ) -> Self:
        """Return a view with the axes from `start` to `end`, both included, merged into one.

        >>> import tenxor as tx
        >>> tx.zeros((3, 4, 5)).flatten(1, 2).shape
        (3, 20)
        """
        if isinstance(start, str):  # NumPy's order
            raise ArgumentError(f"flatten: takes the first and the last axis, not the order {start!r}; write x.ravel({start!r}), a view")
        return self._view(self.layout.flatten(start, end))

    def ravel(self, order: str = "C") -> Self:
        """Return a view with one axis, in row-major order; in column-major order for "F", and for "A" if the elements are stored so."""
        if _is_column_major("ravel", self.layout, order):
            return self._view(_reverse_axes(self.layout)).ravel()
        return self._view(self.layout.reshape((-1,) if self.layout.size else (0,)))

    def unflatten(self, axis: int, sizes: Sequence[int]) -> Self:
        """Return a view with one axis split into several. One size may be -1.

        >>> import tenxor as tx
        >>> tx.zeros((3, 20)).unflatten(1, (-1, 5)).shape
        (3, 4, 5)
        """
        return self._view(self.layout.unflatten(axis, ints("unflatten", (sizes,))))

    @spelled
    def squeeze(self, axis: Axes = None, *, dim: Axes = None) -> Self:
        """Return a view without the given axes of size 1, or without all axes of size 1 for None."""
        return self._view(self.layout.squeeze(axis))

    @spelled
    def expand_dims(self, axis: int | tuple[int, ...] = 0, *, dim: int | None = None) -> Self:
        """Return a view with new axes of size 1 at the positions `axis` of the result."""
        return self._view(
            self.layout.expand_dims(axis)
        )

    unsqueeze = expand_dims

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Return a view broadcast to a shape; -1 keeps a size.

        If an element repeats, only a single number can be assigned, and accumulating methods like `index_add_` can write.

        >>> import tenxor as tx
        >>> tx.arange(3).expand(2, 3).strides
        (0, 1)
        """
        return self._view(_check_countable("expand", self.layout.expand(ints("expand", shape))))

    broadcast_to = expand

    def expand_as(self, other: Core) -> Self:
        """Return a view broadcast to another tensor's shape. Writes are limited as for `expand`."""
        if not isinstance(other, Core):
            raise DTypeError(f"expand_as: the other is a tensor, not {described(other)}; use expand(shape)")
        return self.expand(other.layout.shape)

    @spelled
    def flip(self, axis: Axes = None, *, dim: Axes = None, dims: Axes = None) -> Self:
        """Return a view with the given axes reversed; None means every axis."""
        return self._view(self.layout.flip(axis))

    @spelled
    def diagonal(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dim1: int | None = None, dim2: int | None = None
    ) -> Self:
        """Return a view of the elements where the index of `axis2` exceeds the index of `axis1` by `offset`. The diagonal is the last axis.

        >>> import tenxor as tx
        >>> t = tx.zeros((2, 2)); t.diagonal()[...] = 1; t.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        return self._view(self.layout.diagonal(offset, axis1, axis2))

    def windows(self, axis: int, size: int, step: int = 1, dilation: int = 1) -> Self:
        """Return a view of the windows of `size` elements along an axis. This axis counts the windows, and a new last axis runs within
        each.

        >>> import tenxor as tx
        >>> tx.arange(5).windows(0, 3).tolist()
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        return self._view(_check_countable("windows", self.layout.windows(axis, size, step, dilation)))

    unfold = windows

    def take_view(self, *key: Key, keepdims: bool = False) -> Self:
        """Return the view `oindex[key]`. With `keepdims`, an int leaves an axis of size 1."""
        return self._view(self.layout.oindex(key[0] if len(key) == 1 and isinstance(key[0], tuple) else key, keepdims))

    @spelled
    def split(self, sections: int | Sequence[int], axis: int = 0, *, dim: int | None = None) -> tuple[Self, ...]:
        """Return views that divide an axis: into so many equal parts, or at the given indices, as in NumPy's split."""
        layout = self.layout
        axis = axis_of("split", axis, layout.ndim)
        size = layout.shape[axis]
        if isinstance(sections, int):
            check_parts("split", sections, size)
            if sections < 1 or size % sections:
                raise ShapeError(
                    f"split: axis {axis} of size {size} does not divide into {sections} equal parts; give the indices to split at"
                )
            ends: Iterable[int] = [size // sections * k for k in range(1, sections)]
        else:
            ends = ints("split", (sections,))
        leading = (slice(None),) * axis
        bounds = pairwise(chain((0,), ends, (size,)))
        return tuple(self._view(layout.index((*leading, slice(a, b)))) for a, b in bounds)

    @property
    def real(self) -> Self:
        """The real parts: a writable view. For a real dtype, a view of the tensor itself. `tx.real` returns a new tensor.

        >>> import tenxor as tx
        >>> t = tx.asarray([1 + 2j, 3 - 4j])
        >>> t.real[1] = 7
        >>> t.tolist()
        [(1+2j), (7-4j)]
        """
        return self._view_component(0) if self.dtype.is_complex else self._view(self.layout)

    @real.setter
    def real(self, values: Any) -> None:
        """Write the real parts, as `x.real[...] = values` does. So `x.real += 1` works as in NumPy and PyTorch."""
        _write_component(self.real, values)

    @property
    def imag(self) -> Self:
        """The imaginary parts: a writable view. For a real dtype, read-only zeros. `tx.imag` returns a new tensor.

        >>> import tenxor as tx
        >>> tx.asarray([1 + 2j, 3 - 4j]).imag.tolist()
        [2.0, -4.0]
        """
        if self.dtype.is_complex:
            return self._view_component(1)
        zero = self._of(Node.of(OPS["cast"], (), self.dtype, (Scalar(0, self.dtype),), (None,)))
        return zero._view(zero.layout.expand(self.layout.shape))

    @imag.setter
    def imag(self, values: Any) -> None:
        """Write the imaginary parts, as `x.imag[...] = values` does. Raise ReadOnlyError for a real dtype."""
        if not self.dtype.is_complex:
            raise ReadOnlyError(f"imag: {self.dtype} has no imaginary parts to write; use x.astype(tx.complex128) first")
        _write_component(self.imag, values)

    def _view_component(self, component: int) -> Self:
        """Return a view of the real (0) or imaginary (1) part of each complex element."""
        count = self.storage.nbytes // self.dtype.itemsize
        return self.__class__(self.storage, self.layout.over(Layout((count,), (2,), component)), self.dtype.part)


def _is_column_major(op: str, layout: Layout, order: str) -> bool:
    """Return whether an `order` argument means column-major order for a layout."""
    order = one_of(op, "order", order, "C", "F", "A")
    return order == "F" or (order == "A" and not layout.is_contiguous() and _reverse_axes(layout).is_contiguous())


def _reverse_axes(layout: Layout) -> Layout:
    """Return a layout with its axes reversed."""
    return layout.permute(range(layout.ndim)[::-1])


def _check_countable(op: str, layout: Layout) -> Layout:
    """Return a layout with repeated elements. Raise ShapeError if its positions cannot be counted in 64 bits."""
    if layout.size > MAX_POSITIONS:
        raise ShapeError(
            f"{op}: a view of shape {layout.shape} would have {shown_integer(layout.size)} positions, more than can be counted in"
            " 64 bits; repeat elements along fewer axes"
        )
    return layout


def resized(layout: Layout, old: DType, new: DType) -> Layout:
    """Return the layout of the same bytes as elements of another dtype. Raise ShapeError if this is impossible."""
    if old.itemsize == new.itemsize:
        return layout
    # without elements there is no distance between them
    if layout.size == 0 and layout.ndim and layout.shape[-1] * old.itemsize % new.itemsize == 0:
        return Layout.contiguous((*layout.shape[:-1], layout.shape[-1] * old.itemsize // new.itemsize))
    if (
        layout.base is not None
        or layout.tables is not None
        or layout.ndim == 0
        or (layout.strides[-1] != 1 and layout.shape[-1] > 1)
    ):
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


def _write_component(component: Any, values: Any) -> None:
    """Write values into a part of complex numbers, unless the values are this view itself: then `x.real += 1` has written them already."""
    if not (isinstance(values, Core) and values.storage is component.storage and values.layout == component.layout):
        component[...] = values
