"""Movement of axes and elements as functions. Each returns a view, which shares its argument's elements without a copy."""

from __future__ import annotations

from collections.abc import Sequence

from ..creation import asarray
from ..errors import ArgumentError
from ..keywords import spelled
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import Axes, ints, truth
from ..tensor.core import Operand, broadcast
from .into import as_called

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "diagonal",
    "expand_dims",
    "flatten",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "movedim",
    "permute",
    "permute_dims",
    "ravel",
    "reshape",
    "split",
    "squeeze",
    "swapaxes",
    "transpose",
    "unbind",
    "unflatten",
    "unsqueeze",
    "unstack",
    "windows",
]


# --- the order of axes ------------------------------------------------------------------------------------------------


@called_again
@spelled
def permute_dims(x: Operand, /, axes: Sequence[int] = (), *, dims: Sequence[int] | None = None) -> Tensor:
    """Return a view whose axis `k` is axis `axes[k]` of `x`. Raise AxisError unless `axes` names every axis once.

    >>> import tenxor as tx
    >>> tx.permute_dims(tx.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return asarray(x).permute(axes)


permute = permute_dims


def transpose(x: Operand, /, axes: Sequence[int] | None = None, *others: int) -> Tensor:
    """Return a view with all axes reversed, or in the given order, as in NumPy.

    Raise ArgumentError for two axes as separate arguments: PyTorch's `transpose` swaps them.

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
    """Return a view with the last two axes swapped. Raise AxisError if there are fewer.

    >>> import tenxor as tx
    >>> tx.matrix_transpose(tx.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    return asarray(x).mT


def moveaxis(x: Operand, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Return a view with some axes moved to new positions, and the other axes in their order.

    Raise AxisError for a missing axis, an axis named twice, or a wrong number of positions.

    >>> import tenxor as tx
    >>> tx.moveaxis(tx.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    return asarray(x).moveaxis(source, destination)


movedim = moveaxis


def swapaxes(x: Operand, axis1: int, axis2: int, /) -> Tensor:
    """Return a view with two axes swapped. Raise AxisError for a missing axis.

    >>> import tenxor as tx
    >>> tx.swapaxes(tx.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    return asarray(x).swapaxes(axis1, axis2)


@called_again
@spelled
def flip(x: Operand, /, axis: Axes = None, *, dim: Axes = None, dims: Axes = None) -> Tensor:
    """Return a view with some axes reversed, or all axes for None. Raise AxisError for a missing axis.

    >>> import tenxor as tx
    >>> tx.flip(tx.arange(3)).tolist()
    [2, 1, 0]
    """
    return asarray(x).flip(axis)


# --- the shape --------------------------------------------------------------------------------------------------------


@spelled
def reshape(x: Operand, /, shape: int | Sequence[int], order: str = "C", *, copy: bool | None = None) -> Tensor:
    """Return a view of the elements in row-major order in another shape, or a new tensor with `copy=True`. One size may be -1.

    Every tensor can be viewed in every shape of as many elements, so `copy=False` and None mean the same. With `order="F"`, elements are
    read and placed in column-major order, where the first axis varies fastest; with "A", in column-major order if they are stored so in
    memory. Raise ShapeError if the sizes do not multiply to the number of elements.

    >>> import tenxor as tx
    >>> tx.reshape(tx.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    view = asarray(x).reshape(shape, order=order)
    return view.copy() if copy is not None and truth("reshape", "copy", copy) else view


def ravel(x: Operand, /, order: str = "C") -> Tensor:
    """Return a view with one axis, in row-major order, or in column-major order with `order="F"`, as in `reshape`.

    >>> import tenxor as tx
    >>> tx.ravel(tx.asarray([[1, 2], [3, 4]]).T).tolist()
    [1, 3, 2, 4]
    """
    return asarray(x).ravel(order)


@called_again
@spelled
def flatten(
    x: Operand, /, start: int = 0, end: int = -1, *, start_dim: int | None = None, end_dim: int | None = None
) -> Tensor:
    """Return a view with the axes from `start` to `end`, both included, merged into one. Raise AxisError for a missing axis.

    >>> import tenxor as tx
    >>> tx.flatten(tx.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    return asarray(x).flatten(start, end)


@spelled
def unflatten(x: Operand, axis: int, sizes: Sequence[int], /) -> Tensor:
    """Return a view with one axis split into several; one size may be -1. Raise ShapeError unless they multiply to the size of the axis.

    >>> import tenxor as tx
    >>> tx.unflatten(tx.zeros((2, 12)), 1, (3, -1)).shape
    (2, 3, 4)
    """
    return asarray(x).unflatten(axis, sizes)


@called_again
@spelled
def squeeze(x: Operand, /, axis: Axes = None, *, dim: Axes = None) -> Tensor:
    """Return a view without the given axes of size 1, or without all axes of size 1 for None. Raise ShapeError for an axis of another size.

    >>> import tenxor as tx
    >>> tx.squeeze(tx.zeros((2, 1, 3)), 1).shape
    (2, 3)
    """
    return asarray(x).squeeze(axis)


@called_again
@spelled
def expand_dims(x: Operand, /, axis: int | tuple[int, ...] = 0, *, dim: int | None = None) -> Tensor:
    """Return a view with new axes of size 1 at the given positions of the result. Raise AxisError for an invalid position.

    >>> import tenxor as tx
    >>> tx.expand_dims(tx.zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    return asarray(x).expand_dims(axis)


@spelled
def unsqueeze(x: Operand, /, dim: int) -> Tensor:
    """Return a view with a new axis of size 1 at position `dim` of the result, as `expand_dims` does.

    >>> import tenxor as tx
    >>> tx.unsqueeze(tx.zeros((2, 3)), -1).shape
    (2, 3, 1)
    """
    return as_called("unsqueeze", "expand_dims", asarray(x).expand_dims, dim)


# --- more and fewer elements ------------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """Return the common shape of the broadcast: shapes are aligned at the last axis, and sizes must be equal or 1. Raise ShapeError.

    >>> import tenxor as tx
    >>> tx.broadcast_shapes((5, 1, 3), (7, 1, 4, 3))
    (7, 5, 4, 3)
    """
    if len(shapes) == 1 and isinstance(shapes[0], (list, tuple)) and any(isinstance(shape, (list, tuple)) for shape in shapes[0]):
        raise ArgumentError(f"broadcast_shapes: takes shapes one by one, not {shapes[0]!r}; write tx.broadcast_shapes(*shapes)")
    return broadcast("broadcast_shapes", *(ints("broadcast_shapes", (shape,)) for shape in shapes))


@spelled
def broadcast_to(x: Operand, /, shape: Sequence[int]) -> Tensor:
    """Return a view broadcast to a shape. If elements repeat, only a single number can be written to the view.

    Raise a ShapeError that names the axis that does not fit.

    >>> import tenxor as tx
    >>> tx.broadcast_to(tx.arange(3), (2, 3)).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    return asarray(x).expand(shape)


def broadcast_arrays(*arrays: Operand) -> tuple[Tensor, ...]:
    """Return views of all the tensors, broadcast to their common shape. Raise ShapeError if they have none.

    >>> import tenxor as tx
    >>> [t.shape for t in tx.broadcast_arrays(tx.zeros(3), tx.zeros((2, 1)))]
    [(2, 3), (2, 3)]
    """
    tensors = [asarray(t) for t in arrays]
    shape = broadcast("broadcast_arrays", *(t.shape for t in tensors))
    return tuple([t.expand(shape) for t in tensors])


@called_again
@spelled
def diagonal(
    x: Operand, /, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dim1: int | None = None, dim2: int | None = None
) -> Tensor:
    """Return a view of a diagonal: the elements whose index along `axis2` is that along `axis1` plus `offset`, as the last axis.

    >>> import tenxor as tx
    >>> tx.diagonal(tx.arange(6).reshape(2, 3), 1).tolist()
    [1, 5]
    """
    return asarray(x).diagonal(offset, axis1, axis2)


def windows(x: Operand, /, axis: int, size: int, step: int = 1, dilation: int = 1) -> Tensor:
    """Return a view of all windows of `size` elements along an axis. The axis counts the windows; a new last axis runs over their elements.

    Neighbouring windows start `step` elements apart; the elements of a window lie `dilation` apart. The view is read-only where windows
    overlap. Raise ShapeError for a window longer than the axis.

    >>> import tenxor as tx
    >>> tx.windows(tx.arange(6), 0, 3, step=2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    return asarray(x).windows(axis, size, step, dilation)


@called_again
@spelled
def unstack(x: Operand, /, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """Return a tuple of the slices at each index of an axis, the inverse of `stack`. They are views; of a 1-D tensor they are new 0-d
    tensors.

    Raise AxisError for a missing axis.

    >>> import tenxor as tx
    >>> [t.tolist() for t in tx.unstack(tx.asarray([[1, 2], [3, 4]]), axis=1)]
    [[1, 3], [2, 4]]
    """
    return asarray(x).unbind(axis)


unbind = unstack


@called_again
@spelled
def split(
    x: Operand, sections: int | Sequence[int], /, axis: int = 0, *, dim: int | None = None
) -> tuple[Tensor, ...]:
    """Return a tuple of views that divide an axis into a number of equal parts, or at the given indices, as in NumPy.

    Raise ShapeError if the axis does not divide into equal parts.

    >>> import tenxor as tx
    >>> [t.tolist() for t in tx.split(tx.arange(6), 2)], [t.tolist() for t in tx.split(tx.arange(4), [1, 3])]
    ([[0, 1, 2], [3, 4, 5]], [[0], [1, 2], [3]])
    """
    return asarray(x).split(sections, axis)
