"""Movement: methods that return views. A view shares the elements, and nothing is copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any, Self

from .._utils.aliases import argument_aliases
from .._utils.lazy import LazyModule
from ..dtypes import format_integer
from ..errors import ArgumentError, AxisError, DTypeError, ReadOnlyError, ShapeError, describe_value
from ..graph.node import Node, Scalar
from ..layout import Layout
from ..ops import OPS
from .argument_parsing import Axes, check_choice, check_flag, check_section_count, normalize_axis, parse_ints
from .core import IndexKey, TensorBase

reinterpretation = LazyModule("tenxor.tensor.reinterpretation")
MAX_VIEW_ELEMENTS = (1 << 63) - 1  # positions of one view; kernels count them in 64 bits


class ViewMethods(TensorBase):
    """The view methods of `Tensor`. Each raises ShapeError or AxisError that names the operation, the shape and the axis."""

    __slots__ = ()

    @property
    def T(self) -> Self:
        """View with the axes reversed.

        >>> import tenxor as tx
        >>> tx.asarray([[1, 2, 3], [4, 5, 6]]).T.tolist()
        [[1, 4], [2, 5], [3, 6]]
        """
        return self._view(self.layout.transpose())

    @property
    def mT(self) -> Self:
        """View with the last two axes swapped. Raise AxisError for fewer than two axes.

        >>> import tenxor as tx
        >>> tx.zeros((2, 3, 4)).mT.shape
        (2, 4, 3)
        """
        if self.layout.ndim < 2:
            raise AxisError(f"mT: shape {self.layout.shape} has {self.layout.ndim} axes; it must have at least 2, those of a matrix")
        return self._view(self.layout.swapaxes(-2, -1))

    def permute(self, *axes: int | Sequence[int], dims: Sequence[int] | None = None) -> Self:
        """Return a view whose axis `k` is this tensor's axis `axes[k]`.

        Parameters
        ----------
        *axes : int or Sequence[int]
            Each axis once. `dims` is another name for them.

        Returns
        -------
        Tensor
            View.

        Raises
        ------
        AxisError
            Unless `axes` names each axis once.
        ArgumentError
            If both `axes` and `dims` are given.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.arange(8).reshape(2, 2, 2).permute(1, 2, 0).flatten().tolist()
        [0, 4, 1, 5, 2, 6, 3, 7]
        """
        if dims is not None:
            if axes:
                raise ArgumentError(
                    f"permute: dims is given besides the axes {describe_value(axes)}; give them once, as x.permute(1, 0) or"
                    " x.permute(dims=(1, 0))"
                )
            axes = (dims,)
        return self._view(self.layout.permute(parse_ints("permute", "axes", axes)))

    permute_dims = permute

    def transpose(self, *axes: int | Sequence[int] | None) -> Self:
        """Return a view with the axes reversed, or in the given order, as in NumPy.

        To swap two axes, use `swapaxes`.

        Parameters
        ----------
        *axes : int or Sequence[int], optional
            Each axis once. Without them the axes are reversed.

        Returns
        -------
        Tensor
            View.

        Raises
        ------
        AxisError
            Unless `axes` names each axis once.
        """
        if not axes or (len(axes) == 1 and axes[0] is None):
            return self.T
        order = parse_ints("transpose", "axes", axes)
        if len(order) == 2 and self.layout.ndim > 2:
            raise AxisError(
                f"transpose: {order} is not an order of {self.layout.ndim} axes; swapaxes{order} swaps two, as PyTorch's transpose"
            )
        return self._view(self.layout.permute(order))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Return a view with two axes swapped.

        Parameters
        ----------
        axis1, axis2 : int
            Negative axes count from the end.

        Raises
        ------
        AxisError
            If an axis does not exist.
        """
        return self._view(self.layout.swapaxes(axis1, axis2))

    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Return a view with some axes moved to new positions.

        Parameters
        ----------
        source : int or Sequence[int]
            The axes that move. The remaining axes keep their order.
        destination : int or Sequence[int]
            The new position of each.

        Returns
        -------
        Tensor
            View.

        Raises
        ------
        AxisError
            If an axis does not exist or is named twice, or if the two lengths differ.
        """
        return self._view(self.layout.moveaxis(source, destination))

    movedim = moveaxis

    def reshape(self, *shape: int | Sequence[int], order: str = "C") -> Self:
        """Return a view of the same elements in another shape.

        Parameters
        ----------
        *shape : int or Sequence[int]
            The sizes. One of them may be -1.
        order : {"C", "F", "A"}, default "C"
            "C" reads and places elements in row-major order, and "F" in column-major order. "A" is "F" if they are stored so, and "C"
            otherwise.

        Returns
        -------
        Tensor
            View. Elements are never copied.

        Raises
        ------
        ShapeError
            If the shape has another number of elements, or more than one -1.
        ArgumentError
            If `order` is unknown.

        Examples
        --------
        >>> import tenxor as tx
        >>> t = tx.arange(6).reshape(2, 3)
        >>> t.T.reshape(6)[1] = -7
        >>> t.tolist()
        [[0, 1, 2], [-7, 4, 5]]
        """
        layout = self.layout.reshape(parse_ints("reshape", "shape", shape))
        if _is_column_major("reshape", self.layout, order):
            layout = _reverse_axes(_reverse_axes(self.layout).reshape(layout.shape[::-1]))
        return self._view(layout)

    @argument_aliases
    def flatten(
        self,
        start: int = 0,
        end: int = -1,
        *,
        start_dim: int | None = None,
        end_dim: int | None = None,
    ) -> Self:
        """Return a view with the axes from `start` to `end` merged into one.

        Parameters
        ----------
        start : int, default 0
            The first merged axis.
        end : int, default -1
            The last merged axis, included.

        Returns
        -------
        Tensor
            View.

        Raises
        ------
        AxisError
            If an axis does not exist, or `start` comes after `end`.
        ArgumentError
            For NumPy's argument `order`; use `ravel`.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.zeros((3, 4, 5)).flatten(1, 2).shape
        (3, 20)
        """
        if isinstance(start, str):  # NumPy's order
            raise ArgumentError(f"flatten: takes the first and the last axis, not the order {start!r}; write x.ravel({start!r}), a view")
        return self._view(self.layout.flatten(start, end))

    def ravel(self, order: str = "C") -> Self:
        """Return a view with one axis.

        Parameters
        ----------
        order : {"C", "F", "A"}, default "C"
            "C" is row-major order, and "F" column-major order. "A" is "F" if the elements are stored so, and "C" otherwise.

        Returns
        -------
        Tensor
            View. Elements are never copied.

        Raises
        ------
        ArgumentError
            If `order` is unknown.
        """
        if _is_column_major("ravel", self.layout, order):
            return self._view(_reverse_axes(self.layout)).ravel()
        return self._view(self.layout.reshape((-1,) if self.layout.size else (0,)))

    def unflatten(self, axis: int, sizes: Sequence[int]) -> Self:
        """Return a view with one axis split into several.

        Parameters
        ----------
        axis : int
        sizes : Sequence[int]
            The sizes of the new axes. One of them may be -1.

        Returns
        -------
        Tensor
            View.

        Raises
        ------
        ShapeError
            If the product of the sizes is not the size of the axis.
        AxisError
            If the axis does not exist.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.zeros((3, 20)).unflatten(1, (-1, 5)).shape
        (3, 4, 5)
        """
        return self._view(self.layout.unflatten(axis, parse_ints("unflatten", "sizes", (sizes,))))

    @argument_aliases
    def squeeze(self, axis: Axes = None, *, dim: Axes = None) -> Self:
        """Return a view without axes of size 1.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to leave out. None leaves out every axis of size 1. PyTorch's `dim` is an alias.

        Returns
        -------
        Tensor
            View.

        Raises
        ------
        ShapeError
            If a given axis has another size.
        AxisError
            If an axis does not exist.
        """
        return self._view(self.layout.squeeze(axis))

    @argument_aliases
    def expand_dims(self, axis: int | tuple[int, ...] = 0, *, dim: int | None = None) -> Self:
        """Return a view with new axes of size 1.

        Parameters
        ----------
        axis : int or tuple of int, default 0
            The positions of the new axes in the result. PyTorch's `dim` is an alias.

        Returns
        -------
        Tensor
            View.

        Raises
        ------
        AxisError
            If the result has no such axis.
        """
        return self._view(self.layout.expand_dims(axis))

    unsqueeze = expand_dims

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Return a view broadcast to a shape.

        Parameters
        ----------
        *shape : int or Sequence[int]
            The sizes. -1 keeps a size.

        Returns
        -------
        Tensor
            View. If an element repeats, only a single number can be assigned, and accumulating methods like `index_add_` can write.

        Raises
        ------
        ShapeError
            If this tensor does not broadcast to the shape.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.arange(3).expand(2, 3).strides
        (0, 1)
        """
        return self._view(_check_view_size("expand", self.layout.expand(parse_ints("expand", "shape", shape))))

    broadcast_to = expand

    def expand_as(self, other: TensorBase) -> Self:
        """Return a view broadcast to the shape of another tensor. Writes are limited as for `expand`.

        Parameters
        ----------
        other : Tensor
            Any dtype. Only the shape is read.

        Raises
        ------
        ShapeError, DTypeError
            If this tensor does not broadcast, or if `other` is no tensor.
        """
        if not isinstance(other, TensorBase):
            raise DTypeError(f"expand_as: the other must be a tensor, not {describe_value(other)}; use expand(shape)")
        return self.expand(other.layout.shape)

    @argument_aliases
    def flip(self, axis: Axes = None, *, dim: Axes = None, dims: Axes = None) -> Self:
        """Return a view with axes reversed.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The reversed axes. None means every axis. PyTorch's `dim` and `dims` are aliases.

        Returns
        -------
        Tensor
            View.

        Raises
        ------
        AxisError
            If an axis does not exist.
        """
        return self._view(self.layout.flip(axis))

    @argument_aliases
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dim1: int | None = None, dim2: int | None = None) -> Self:
        """Return a view of a diagonal over two axes.

        Parameters
        ----------
        offset : int, default 0
            On the diagonal, the index of `axis2` exceeds the index of `axis1` by `offset`.
        axis1 : int, default 0
        axis2 : int, default 1

        Returns
        -------
        Tensor
            View. The diagonal is the last axis.

        Raises
        ------
        AxisError
            If an axis does not exist, or both axes are the same.

        Examples
        --------
        >>> import tenxor as tx
        >>> t = tx.zeros((2, 2)); t.diagonal()[...] = 1; t.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        return self._view(self.layout.diagonal(offset, axis1, axis2))

    def windows(self, axis: int, size: int, step: int = 1, dilation: int = 1) -> Self:
        """Return a view of the windows of `size` elements along an axis.

        Parameters
        ----------
        axis : int
        size : int
            Elements of a window.
        step : int, default 1
            Distance of neighbouring windows, in elements.
        dilation : int, default 1
            Distance of neighbouring elements of a window, in elements.

        Returns
        -------
        Tensor
            View. The axis counts the windows, and a new last axis runs within each.

        Raises
        ------
        ShapeError
            If the axis is shorter than a window.
        ArgumentError
            If `size`, `step` or `dilation` is less than 1.
        AxisError
            If the axis does not exist.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.arange(5).windows(0, 3).tolist()
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        return self._view(_check_view_size("windows", self.layout.windows(axis, size, step, dilation)))

    unfold = windows

    def take_view(self, *key: IndexKey, keepdims: bool = False) -> Self:
        """Return the view `oindex[key]`.

        Parameters
        ----------
        *key : int, slice, None, Ellipsis, or sequence of int or bool
            An item for each axis, applied independently, or one tuple of items. None stands for the whole axis.
        keepdims : bool, default False
            If True, an int leaves an axis of size 1.

        Raises
        ------
        IndexOutOfRange, BadIndex
            For a wrong key.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.arange(6).reshape(2, 3).take_view(1, slice(2), keepdims=True).tolist()
        [[3, 4]]
        """
        items = key[0] if len(key) == 1 and isinstance(key[0], tuple) else key
        return self._view(self.layout.oindex(items, check_flag("keepdims", keepdims)))

    @argument_aliases
    def split(self, sections: int | Sequence[int], axis: int = 0, *, dim: int | None = None) -> tuple[Self, ...]:
        """Return views that divide an axis.

        Parameters
        ----------
        sections : int or Sequence[int]
            The number of equal parts, or the indices at which to split, as in NumPy's `split`.
        axis : int, default 0
            PyTorch's `dim` is an alias.

        Returns
        -------
        tuple of Tensor
            Views.

        Raises
        ------
        ShapeError
            If the axis does not divide into equal parts.
        AxisError
            If the axis does not exist.
        ArgumentError
            If indices are no integers, or if nearly all of many parts would be empty.

        Examples
        --------
        >>> import tenxor as tx
        >>> [x.tolist() for x in tx.arange(5).split([1, 3])]
        [[0], [1, 2], [3, 4]]
        """
        layout = self.layout
        axis = normalize_axis("split", axis, layout.ndim)
        size = layout.shape[axis]
        if isinstance(sections, int):
            check_section_count("split", sections, size)
            if sections < 1 or size % sections:
                raise ShapeError(
                    f"split: axis {axis} of size {size} does not divide into {sections} equal parts; give the indices to split at"
                )
            ends: Iterable[int] = [size // sections * k for k in range(1, sections)]
        else:
            ends = parse_ints("split", "sections", (sections,))
        leading = (slice(None),) * axis
        bounds = pairwise(chain((0,), ends, (size,)))
        return tuple(self._view(layout.index((*leading, slice(a, b)))) for a, b in bounds)

    @property
    def real(self) -> Self:
        """Real parts: a writable view. For a real dtype, a view of the tensor itself.

        The property can be set: this writes the values. `tx.real` returns a new tensor.

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
        reinterpretation.write_component(self.real, values)

    @property
    def imag(self) -> Self:
        """Imaginary parts: a writable view. For a real dtype, a view that repeats a single zero, to which no array may be written.

        The property can be set: this writes the values, and raises ReadOnlyError for a real dtype. `tx.imag` returns a new tensor.

        >>> import tenxor as tx
        >>> tx.asarray([1 + 2j, 3 - 4j]).imag.tolist()
        [2.0, -4.0]
        """
        if self.dtype.is_complex:
            return self._view_component(1)
        zero = self._from_node(Node.of(OPS["cast"], (), self.dtype, (Scalar(0, self.dtype),), (None,)))
        return zero._view(zero.layout.expand(self.layout.shape))

    @imag.setter
    def imag(self, values: Any) -> None:
        """Write the imaginary parts, as `x.imag[...] = values` does. Raise ReadOnlyError for a real dtype."""
        if not self.dtype.is_complex:
            raise ReadOnlyError(f"imag: {self.dtype} has no imaginary parts to write; use x.astype(tx.complex128) first")
        reinterpretation.write_component(self.imag, values)

    def _view_component(self, component: int) -> Self:
        """Return a writable view of the real (0) or imaginary (1) part of each complex element. The dtype must be complex."""
        count = self.storage.nbytes // self.dtype.itemsize
        return self.__class__(self.storage, self.layout.over(Layout((count,), (2,), component)), self.dtype.part)


def _is_column_major(op: str, layout: Layout, order: str) -> bool:
    """Return whether `order`, an argument of the method `op`, means column-major order: "F", or "A" for a layout contiguous only so."""
    order = check_choice(op, "order", order, "C", "F", "A")
    return order == "F" or (order == "A" and not layout.is_contiguous() and _reverse_axes(layout).is_contiguous())


def _reverse_axes(layout: Layout) -> Layout:
    """Return a layout with its axes reversed."""
    return layout.permute(range(layout.ndim)[::-1])


def _check_view_size(op: str, layout: Layout) -> Layout:
    """Return `layout`, a layout with repeated elements, unchanged. Raise ShapeError if its positions cannot be counted in 64 bits."""
    if layout.size > MAX_VIEW_ELEMENTS:
        raise ShapeError(
            f"{op}: a view of shape {layout.shape} would have {format_integer(layout.size)} positions, more than can be counted in"
            " 64 bits; repeat elements along fewer axes"
        )
    return layout
