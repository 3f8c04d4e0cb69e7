"""Movement of axes and elements as functions. Each returns a view, which shares its argument's elements without a copy."""

from __future__ import annotations

from collections.abc import Sequence

from .._utils.aliases import argument_aliases
from ..errors import ArgumentError
from ..graph.spec import memoized_call
from ..layout import broadcast_shapes as _broadcast_shapes
from ..layout.coords import validate_shape
from ..tensor import Tensor
from ..tensor.argument_parsing import Axes, check_flag, parse_ints
from ..tensor.core import Operand
from .creation import asarray

__all__ = ["broadcast_arrays", "broadcast_shapes", "broadcast_to", "diagonal", "expand_dims", "flatten", "flip", "matrix_transpose"]
__all__ += ["moveaxis", "movedim", "permute", "permute_dims", "ravel", "reshape", "squeeze", "swapaxes", "transpose", "unflatten"]
__all__ += ["unsqueeze", "windows"]


# --- the order of axes ------------------------------------------------------------------------------------------------


@memoized_call
@argument_aliases
def permute_dims(x: Operand, /, axes: Sequence[int] = (), *, dims: Sequence[int] | None = None) -> Tensor:
    """Return a view with the axes in another order.

    Parameters
    ----------
    x : Tensor
    axes : Sequence[int]
        Every axis once; axis `k` of the view is axis `axes[k]` of `x`. PyTorch's `dims` is an alias.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    AxisError
        Unless `axes` names every axis once.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.permute_dims(tx.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return asarray(x).permute(axes)


permute = permute_dims


def transpose(x: Operand, /, axes: Sequence[int] | None = None, *others: int) -> Tensor:
    """Return a view with all axes reversed, or in the given order, as in NumPy.

    Parameters
    ----------
    x : Tensor
    axes : Sequence[int], optional
        Every axis once, in the order of the view; None reverses all.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    AxisError
        Unless `axes` names every axis once.
    ArgumentError
        If axes are separate arguments: PyTorch's `transpose` swaps two; here `swapaxes` does.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.transpose(tx.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    if others:
        all_axes = (axes, *others)
        swap = f"; to swap two use tx.swapaxes(x, {axes}, {others[0]})" if len(all_axes) == 2 else ""
        raise ArgumentError(f"transpose: takes all axes in their order, as one tuple; write tx.transpose(x, {all_axes}){swap}")
    return asarray(x).transpose(axes)


def matrix_transpose(x: Operand, /) -> Tensor:
    """Return a view with the last two axes swapped.

    Parameters
    ----------
    x : Tensor
        Matrices of shape (..., m, n).

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    AxisError
        If `x` has fewer than two axes.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.matrix_transpose(tx.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    return asarray(x).mT


def moveaxis(x: Operand, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Return a view with some axes moved to new positions, and the other axes in their order.

    Parameters
    ----------
    x : Tensor
    source : int or Sequence[int]
        The axes to move.
    destination : int or Sequence[int]
        Their positions in the view, as many as there are axes to move.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    AxisError
        If an axis does not exist, if an axis is named twice, or if the number of positions is wrong.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.moveaxis(tx.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    return asarray(x).moveaxis(source, destination)


movedim = moveaxis


def swapaxes(x: Operand, axis1: int, axis2: int, /) -> Tensor:
    """Return a view with two axes swapped.

    Parameters
    ----------
    x : Tensor
    axis1, axis2 : int
        The axes to swap; negative ones count from the end.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    AxisError
        If an axis does not exist.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.swapaxes(tx.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    return asarray(x).swapaxes(axis1, axis2)


@memoized_call
@argument_aliases
def flip(x: Operand, /, axis: Axes = None, *, dim: Axes = None, dims: Axes = None) -> Tensor:
    """Return a view with some axes reversed.

    Parameters
    ----------
    x : Tensor
    axis : int or tuple of int, optional
        The axes to reverse; None for all. PyTorch's `dim` and `dims` are aliases.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    AxisError
        If an axis does not exist or is named twice.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.flip(tx.arange(3)).tolist()
    [2, 1, 0]
    """
    return asarray(x).flip(axis)


# --- the shape --------------------------------------------------------------------------------------------------------


@argument_aliases
def reshape(x: Operand, /, shape: int | Sequence[int], order: str = "C", *, copy: bool | None = None) -> Tensor:
    """Return a view of the elements in another shape, or a new tensor with `copy=True`.

    Parameters
    ----------
    x : Tensor
    shape : int or Sequence[int]
        The new sizes. One size may be -1 and follows from the other sizes.
    order : {"C", "F", "A"}, default "C"
        With "C", elements are read and placed in row-major order. With "F", in column-major order, where the first axis varies fastest.
        With "A", in column-major order if they are stored so in memory.
    copy : bool, optional
        True returns a new tensor. Every tensor can be viewed in every shape of as many elements, so `copy=False` and None mean the same.

    Returns
    -------
    Tensor
        View of `x`, or with `copy=True` a new tensor.

    Raises
    ------
    ShapeError
        If the sizes do not multiply to the number of elements.
    ArgumentError
        If `order` is another value.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.reshape(tx.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    view = asarray(x).reshape(shape, order=order)
    return view.copy() if copy is not None and check_flag("copy", copy) else view


def ravel(x: Operand, /, order: str = "C") -> Tensor:
    """Return a view with one axis. Unlike NumPy's `ravel`, this never copies.

    Parameters
    ----------
    x : Tensor
    order : {"C", "F", "A"}, default "C"
        The order of the elements: row-major, column-major, or column-major if they are stored so in memory, as in `reshape`.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    ArgumentError
        If `order` is another value.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.ravel(tx.asarray([[1, 2], [3, 4]]).T).tolist()
    [1, 3, 2, 4]
    """
    return asarray(x).ravel(order)


@memoized_call
@argument_aliases
def flatten(x: Operand, /, start: int = 0, end: int = -1, *, start_dim: int | None = None, end_dim: int | None = None) -> Tensor:
    """Return a view with the axes from `start` to `end`, both included, merged into one.

    Parameters
    ----------
    x : Tensor
        Any dtype. A 0-d tensor gets one axis of size 1.
    start, end : int, default 0 and -1
        The first and the last axis to merge. PyTorch's `start_dim` and `end_dim` are aliases.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    AxisError
        If an axis does not exist.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.flatten(tx.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    return asarray(x).flatten(start, end)


@argument_aliases
def unflatten(x: Operand, axis: int, sizes: Sequence[int], /) -> Tensor:
    """Return a view with one axis split into several.

    Parameters
    ----------
    x : Tensor
    axis : int
        The axis to split.
    sizes : Sequence[int]
        The sizes of the new axes. One size may be -1.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    ShapeError
        Unless `sizes` multiply to the size of the axis.
    AxisError
        If the axis does not exist.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.unflatten(tx.zeros((2, 12)), 1, (3, -1)).shape
    (2, 3, 4)
    """
    return asarray(x).unflatten(axis, sizes)


@memoized_call
@argument_aliases
def squeeze(x: Operand, /, axis: Axes = None, *, dim: Axes = None) -> Tensor:
    """Return a view without some axes of size 1.

    Parameters
    ----------
    x : Tensor
    axis : int or tuple of int, optional
        The axes to remove; None for all axes of size 1. PyTorch's `dim` is an alias.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    ShapeError
        If an axis has another size than 1.
    AxisError
        If an axis does not exist or is named twice.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.squeeze(tx.zeros((2, 1, 3)), 1).shape
    (2, 3)
    """
    return asarray(x).squeeze(axis)


@memoized_call
@argument_aliases
def expand_dims(x: Operand, /, axis: int | tuple[int, ...] = 0, *, dim: int | None = None) -> Tensor:
    """Return a view with new axes of size 1.

    Parameters
    ----------
    x : Tensor
    axis : int or tuple of int, default 0
        The positions of the new axes in the result. PyTorch's `dim` is an alias.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    AxisError
        If a position is invalid or named twice.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.expand_dims(tx.zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    return asarray(x).expand_dims(axis)


@argument_aliases
def unsqueeze(x: Operand, /, dim: int) -> Tensor:
    """Return a view with a new axis of size 1, as `expand_dims` does. (PyTorch's name.)

    Parameters
    ----------
    x : Tensor
    dim : int
        The position of the new axis in the result; negative ones count from the end.

    Returns
    -------
    Tensor
        View of `x`.

    Raises
    ------
    AxisError
        If the position is invalid.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.unsqueeze(tx.zeros((2, 3)), -1).shape
    (2, 3, 1)
    """
    return asarray(x).expand_dims(dim)


# --- more and fewer elements ------------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """Return the common shape of a broadcast of several shapes.

    Parameters
    ----------
    *shapes : int or Sequence[int]
        The shapes, aligned at the last axis. Sizes of an axis must be equal or 1. An int is the shape of a 1-D tensor.

    Returns
    -------
    tuple of int
        The common shape.

    Raises
    ------
    ShapeError
        If sizes of an axis are neither equal nor 1, or if a size is negative.
    ArgumentError
        If the shapes are in one list: write `tx.broadcast_shapes(*shapes)`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.broadcast_shapes((5, 1, 3), (7, 1, 4, 3))
    (7, 5, 4, 3)
    """
    if len(shapes) == 1 and isinstance(shapes[0], (list, tuple)) and any(isinstance(shape, (list, tuple)) for shape in shapes[0]):
        raise ArgumentError(f"broadcast_shapes: takes shapes one by one, not {shapes[0]!r}; write tx.broadcast_shapes(*shapes)")
    return _broadcast_shapes(*[validate_shape(parse_ints("broadcast_shapes", "a shape", (shape,))) for shape in shapes])


@argument_aliases
def broadcast_to(x: Operand, /, shape: Sequence[int]) -> Tensor:
    """Return a view broadcast to a shape.

    Parameters
    ----------
    x : Tensor
    shape : Sequence[int]
        The sizes of the view. Axes of `x` are aligned at the last one. Only axes of size 1 and new leading axes repeat elements.

    Returns
    -------
    Tensor
        A view. If elements repeat, only a single number can be written to the view.

    Raises
    ------
    ShapeError
        If an axis does not fit; the error names the axis.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.broadcast_to(tx.arange(3), (2, 3)).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    return asarray(x).expand(shape)


def broadcast_arrays(*arrays: Operand) -> tuple[Tensor, ...]:
    """Return views of several tensors, broadcast to their common shape, as a tuple.

    Parameters
    ----------
    *arrays : Tensor
        Tensors of any dtypes, whose shapes broadcast.

    Returns
    -------
    tuple of Tensor
        A view of each tensor, in order. If elements repeat, only a single number can be written to the view.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tenxor as tx
    >>> [t.shape for t in tx.broadcast_arrays(tx.zeros(3), tx.zeros((2, 1)))]
    [(2, 3), (2, 3)]
    """
    tensors = [asarray(t) for t in arrays]
    shape = _broadcast_shapes(*(t.shape for t in tensors))
    return tuple([t.expand(shape) for t in tensors])


@memoized_call
@argument_aliases
def diagonal(x: Operand, /, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dim1: int | None = None, dim2: int | None = None) -> Tensor:
    """Return a view of a diagonal, as the last axis.

    Parameters
    ----------
    x : Tensor
        Any dtype, with two axes or more.
    offset : int, default 0
        The view has the elements whose index along `axis2` is that along `axis1` plus `offset`.
    axis1, axis2 : int, default 0 and 1
        The axes of the matrices whose diagonals are taken. PyTorch's `dim1` and `dim2` are aliases.

    Returns
    -------
    Tensor
        View of `x`, with the diagonal as the last axis.

    Raises
    ------
    AxisError
        If an axis does not exist, or if both axes are one.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.diagonal(tx.arange(6).reshape(2, 3), 1).tolist()
    [1, 5]
    """
    return asarray(x).diagonal(offset, axis1, axis2)


def windows(x: Operand, /, axis: int, size: int, step: int = 1, dilation: int = 1) -> Tensor:
    """Return a view of all windows along an axis. The axis counts the windows; a new last axis runs over their elements.

    Parameters
    ----------
    x : Tensor
    axis : int
        The axis along which the windows lie.
    size : int
        The number of elements of a window.
    step : int, default 1
        The distance between the beginnings of neighbouring windows, in elements.
    dilation : int, default 1
        The distance between neighbouring elements of a window, in elements of `x`.

    Returns
    -------
    Tensor
        A view. Where windows overlap, a write of several values raises ReadOnlyError; a single number may be written.

    Raises
    ------
    ShapeError
        If a window is longer than the axis.
    ArgumentError
        If `size`, `step` or `dilation` is below 1.
    AxisError
        If the axis does not exist.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.windows(tx.arange(6), 0, 3, step=2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    return asarray(x).windows(axis, size, step, dilation)
