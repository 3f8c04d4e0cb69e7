"""Movement as functions: each gives a view, which shares the elements of its argument and copies none."""

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
    """View whose axis `k` is axis `axes[k]` of `x`. Raises AxisError unless `axes` names every axis once.

    >>> import tenxor as tx
    >>> tx.permute_dims(tx.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return asarray(x).permute(axes)


permute = permute_dims


def transpose(x: Operand, /, axes: Sequence[int] | None = None, *others: int) -> Tensor:
    """View with all axes in reverse, or in the given order, as in NumPy. PyTorch's function of two axes swaps these: ArgumentError.

    >>> import tenxor as tx
    >>> tx.transpose(tx.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    if others:
        given = (axes, *others)
        swap = f"; to swap two use tx.swapaxes(x, {axes}, {others[0]})" if len(given) == 2 else ""
        raise ArgumentError(f"transpose: takes all axes in their order, as one tuple; write tx.transpose(x, {given}){swap}")
    return asarray(x).transpose(axes)


def matrix_transpose(x: Operand, /) -> Tensor:
    """View with the last two axes swapped. Raises AxisError if there are fewer.

    >>> import tenxor as tx
    >>> tx.matrix_transpose(tx.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    return asarray(x).mT


def moveaxis(x: Operand, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """View with some axes moved to new places, the others in their order.

    Raises AxisError for an axis that is not there or named twice, and for another number of places than axes.

    >>> import tenxor as tx
    >>> tx.moveaxis(tx.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    return asarray(x).moveaxis(source, destination)


movedim = moveaxis


def swapaxes(x: Operand, axis1: int, axis2: int, /) -> Tensor:
    """View with two axes swapped. Raises AxisError.

    >>> import tenxor as tx
    >>> tx.swapaxes(tx.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    return asarray(x).swapaxes(axis1, axis2)


@called_again
@spelled
def flip(x: Operand, /, axis: Axes = None, *, dim: Axes = None, dims: Axes = None) -> Tensor:
    """View with some axes reversed, or all of them for None. Raises AxisError.

    >>> import tenxor as tx
    >>> tx.flip(tx.arange(3)).tolist()
    [2, 1, 0]
    """
    return asarray(x).flip(axis)


# --- the shape --------------------------------------------------------------------------------------------------------


@spelled
def reshape(x: Operand, /, shape: int | Sequence[int], order: str = "C", *, copy: bool | None = None) -> Tensor:
    """View of the same elements, in row-major order, in another shape; one size may be -1. With `copy=True` a new tensor.

    Any tensor can be seen in any shape of as many elements, so `copy=False` and None are the same. With `order="F"`
    elements are read, and placed, in column-major order, the first axis running fastest; with "A" if that is how they lie
    in memory. Raises ShapeError if the sizes do not multiply out.

    >>> import tenxor as tx
    >>> tx.reshape(tx.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    view = asarray(x).reshape(shape, order=order)
    return view.copy() if copy is not None and truth("reshape", "copy", copy) else view


def ravel(x: Operand, /, order: str = "C") -> Tensor:
    """View with one axis, in row-major order; with `order="F"` in column-major order, as of `reshape`.

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
    """View with the axes from `start` to `end`, both included, merged into one. Raises AxisError.

    >>> import tenxor as tx
    >>> tx.flatten(tx.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    return asarray(x).flatten(start, end)


@spelled
def unflatten(x: Operand, axis: int, sizes: Sequence[int], /) -> Tensor:
    """View with one axis split into several; one size may be -1. Raises ShapeError if they do not multiply to the axis.

    >>> import tenxor as tx
    >>> tx.unflatten(tx.zeros((2, 12)), 1, (3, -1)).shape
    (2, 3, 4)
    """
    return asarray(x).unflatten(axis, sizes)


@called_again
@spelled
def squeeze(x: Operand, /, axis: Axes = None, *, dim: Axes = None) -> Tensor:
    """View without the given axes, which have size 1, or without all such axes for None. Raises ShapeError for another size.

    >>> import tenxor as tx
    >>> tx.squeeze(tx.zeros((2, 1, 3)), 1).shape
    (2, 3)
    """
    return asarray(x).squeeze(axis)


@called_again
@spelled
def expand_dims(x: Operand, /, axis: int | tuple[int, ...] = 0, *, dim: int | None = None) -> Tensor:
    """View with new axes of size 1, which have the given places in the result. Raises AxisError.

    >>> import tenxor as tx
    >>> tx.expand_dims(tx.zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    return asarray(x).expand_dims(axis)


@spelled
def unsqueeze(x: Operand, /, dim: int) -> Tensor:
    """View with a new axis of size 1 at the place `dim` of the result, as `expand_dims`.

    >>> import tenxor as tx
    >>> tx.unsqueeze(tx.zeros((2, 3)), -1).shape
    (2, 3, 1)
    """
    return as_called("unsqueeze", "expand_dims", asarray(x).expand_dims, dim)


# --- more and fewer elements ------------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape to which all the shapes broadcast: aligned at the last axis, sizes equal or 1. Raises ShapeError.

    >>> import tenxor as tx
    >>> tx.broadcast_shapes((5, 1, 3), (7, 1, 4, 3))
    (7, 5, 4, 3)
    """
    if len(shapes) == 1 and isinstance(shapes[0], (list, tuple)) and any(isinstance(shape, (list, tuple)) for shape in shapes[0]):
        raise ArgumentError(f"broadcast_shapes: takes shapes one by one, not {shapes[0]!r}; write tx.broadcast_shapes(*shapes)")
    return broadcast("broadcast_shapes", *(ints("broadcast_shapes", (shape,)) for shape in shapes))


@spelled
def broadcast_to(x: Operand, /, shape: Sequence[int]) -> Tensor:
    """View broadcast to a shape. Where an element repeats, one number may be written to the view, and nothing else. Raises ShapeError
    that names the axis.

    >>> import tenxor as tx
    >>> tx.broadcast_to(tx.arange(3), (2, 3)).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    return asarray(x).expand(shape)


def broadcast_arrays(*arrays: Operand) -> tuple[Tensor, ...]:
    """Views of all the tensors, broadcast to their common shape. Raises ShapeError if they have none.

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
    """View of the elements where the index along `axis2` is that along `axis1` plus `offset`: the last axis of the result.

    >>> import tenxor as tx
    >>> tx.diagonal(tx.arange(6).reshape(2, 3), 1).tolist()
    [1, 5]
    """
    return asarray(x).diagonal(offset, axis1, axis2)


def windows(x: Operand, /, axis: int, size: int, step: int = 1, dilation: int = 1) -> Tensor:
    """View of all windows of `size` elements along an axis, which counts them; a new last axis runs through each.

    Neighbouring windows start `step` elements apart; the elements of a window lie `dilation` apart. Read-only where
    windows overlap. Raises ShapeError for a window longer than the axis.

    >>> import tenxor as tx
    >>> tx.windows(tx.arange(6), 0, 3, step=2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    return asarray(x).windows(axis, size, step, dilation)


@called_again
@spelled
def unstack(x: Operand, /, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """What stands at each index of an axis, undoing `stack`: views, or for one axis the elements as values. Raises AxisError.

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
    """Views that divide an axis: into so many equal parts, or at the given indices, as in NumPy.

    Raises ShapeError if the axis does not divide into equal parts.

    >>> import tenxor as tx
    >>> [t.tolist() for t in tx.split(tx.arange(6), 2)], [t.tolist() for t in tx.split(tx.arange(4), [1, 3])]
    ([[0, 1, 2], [3, 4, 5]], [[0], [1, 2], [3]])
    """
    return asarray(x).split(sections, axis)
