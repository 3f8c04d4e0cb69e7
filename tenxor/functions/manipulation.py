"""Movement as functions: each gives a view, which shares the elements of its argument."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import AxisError
from ..layout import broadcast_shapes as broadcast_shapes
from ..tensor import Tensor
from ..tensor.arguments import Axes

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
    "permute",
    "permute_dims",
    "ravel",
    "reshape",
    "split",
    "squeeze",
    "swapaxes",
    "unflatten",
    "unsqueeze",
    "unstack",
    "windows",
]


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """View whose axis `k` is axis `axes[k]` of `x`; `axes` must name every axis once.

    >>> import tenxor as tx
    >>> tx.permute_dims(tx.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return x.permute(tuple(axes))


permute = permute_dims


def matrix_transpose(x: Tensor, /) -> Tensor:
    """View with the last two axes swapped."""
    return x.mT


def reshape(x: Tensor, /, shape: Sequence[int] | int, *, copy: bool | None = None) -> Tensor:
    """View of the same elements, in row-major order, in another shape; one size may be -1. With `copy=True` a new
    tensor.
    """
    view = x.reshape(shape)
    return view.copy() if copy else view


def squeeze(x: Tensor, /, axis: Axes = None) -> Tensor:
    """View without the given axes of size 1, or without all of them for None."""
    return x.squeeze(axis)


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """View with new axes of size 1 at these places of the result."""
    return x.expand_dims(axis)


unsqueeze = expand_dims


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """View with some axes moved to new places, the others in their order."""
    return x.moveaxis(source, destination)


def swapaxes(x: Tensor, axis1: int, axis2: int, /) -> Tensor:
    """View with two axes swapped."""
    return x.swapaxes(axis1, axis2)


def flip(x: Tensor, /, *, axis: Axes = None) -> Tensor:
    """View with some axes reversed, or all of them for None."""
    return x.flip(axis)


def flatten(x: Tensor, /, start: int = 0, end: int = -1) -> Tensor:
    """View with the axes from `start` to `end`, both included, merged into one."""
    return x.flatten(start, end)


def ravel(x: Tensor, /) -> Tensor:
    """View with one axis, in row-major order."""
    return x.ravel()


def unflatten(x: Tensor, axis: int, sizes: Sequence[int], /) -> Tensor:
    """View with one axis split into several; one size may be -1."""
    return x.unflatten(axis, sizes)


def diagonal(x: Tensor, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """View of the elements where the indices of two axes are `offset` apart; the diagonal is its last axis."""
    return x.diagonal(offset, axis1, axis2)


def windows(x: Tensor, /, axis: int, size: int, step: int = 1, dilation: int = 1) -> Tensor:
    """View of all windows of `size` elements along an axis, which counts them; a new last axis is inside them."""
    return x.windows(axis, size, step, dilation)


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """Read-only view broadcast to a shape."""
    return x.expand(tuple(shape))


def broadcast_arrays(*tensors: Tensor) -> list[Tensor]:
    """Views of all the tensors, broadcast to their common shape.

    >>> import tenxor as tx
    >>> [t.shape for t in tx.broadcast_arrays(tx.zeros(3), tx.zeros((2, 1)))]
    [(2, 3), (2, 3)]
    """
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return [t.expand(shape) for t in tensors]


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The views along an axis, one for each of its indices."""
    if not x.shape:
        raise AxisError("unstack: a 0-d tensor has no axis to take apart")
    return x.unbind(axis)


def split(x: Tensor, sections: int | Sequence[int], /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Views that divide an axis: into so many equal parts, or at the given indices."""
    return x.split(sections, axis)
