"""The inverse of max pooling: maxima are written back to the positions given by `return_indices`, into zeros."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..api.creation import asarray, zeros
from ..api.sliding_windows import Ints, add_batch_axis, define_for_spatial_axes, parse_per_axis
from ..errors import ArgumentError, BadIndex, ShapeError
from ..tensor import Tensor
from ..tensor.argument_parsing import parse_ints

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]


def _unpool(
    op: str,
    space: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return the maxima `input` written back over the last `space` axes, as a new tensor. This is the body of `max_unpool1d` to `3d`.

    `op` is the name of the function. The further arguments and the errors are those of `max_unpool2d`.
    """
    x, positions = asarray(input), asarray(indices)
    if not positions.dtype.is_integer:
        raise BadIndex(f"{op}: indices must be integers, not {positions.dtype}; max_pool gives them with return_indices=True")
    if positions.shape != x.shape:
        raise ShapeError(f"{op}: input has shape {x.shape} and indices {positions.shape}; they must be equal")
    add_batch_axis(op, x, space)
    kernel = parse_per_axis(op, "kernel_size", kernel_size, space, 1)
    steps = kernel if stride is None else parse_per_axis(op, "stride", stride, space, 1)
    paddings = parse_per_axis(op, "padding", padding, space, 0)
    sizes = tuple([(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[-space:], steps, paddings, kernel, strict=True)])
    if output_size is not None:
        sizes = _check_sizes(op, parse_ints(op, "output_size", (output_size,)), sizes, steps)
    batch_shape = x.shape[:-space]
    flat = zeros((*batch_shape, prod(sizes)), dtype=x.dtype)
    selection, values = flat._select_for_scatter(op, flat.layout, -1, positions.reshape((*batch_shape, -1)), x.reshape((*batch_shape, -1)))
    return flat._scatter_copy(op, selection, values).reshape((*batch_shape, *sizes))


def _check_sizes(op: str, wanted: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> tuple[int, ...]:
    """Return the spatial part of `wanted`, the requested output size, given with or without batch and channels.

    Raise ArgumentError, beginning with `op`, unless each size differs from the default in `sizes` by less than a stride in `steps`.
    """
    space = len(sizes)
    if len(wanted) not in (space, space + 2):
        raise ArgumentError(
            f"{op}: output_size {wanted} has {len(wanted)} numbers; it must have {space}, the spatial sizes, or"
            f" {space + 2} with batch and channels"
        )
    wanted = wanted[-space:]
    for n, size, step in zip(wanted, sizes, steps, strict=True):
        if not size - step < n < size + step:
            raise ArgumentError(f"{op}: output_size {wanted} is not within a stride of the default, {sizes}; strides are {steps}")
    return wanted


@define_for_spatial_axes(1, _unpool)
def max_unpool1d() -> None:
    """Return maxima written back along the last axis of `input`, (N, C, L) or (C, L), as a new tensor with 0 elsewhere.

    Arguments and errors are those of `max_unpool2d`.

    >>> import tenxor as tx
    >>> values, indices = tx.max_pool1d(tx.asarray([[3, 1, 4, 1, 5, 9]]), 2, return_indices=True)
    >>> tx.nn.functional.max_unpool1d(values, indices, 2).tolist()
    [[3, 0, 4, 0, 0, 9]]
    """


@define_for_spatial_axes(2, _unpool)
def max_unpool2d() -> None:
    """Return the maxima of `tx.max_pool2d` written back at their `indices` over the last two axes, as a new tensor with 0 elsewhere.

    `input` and `indices` are (N, C, H, W) or (C, H, W); `kernel_size`, `stride` and `padding` are those of the pooling. The result has
    `(n - 1) * stride - 2 * padding + kernel_size` elements along each spatial axis. `output_size` replaces this default, as several sizes
    are pooled to the same size. Of several maxima for a position the last is kept. Raises ShapeError for unequal shapes, BadIndex for
    indices that are not integers, IndexOutOfRange for indices beyond the result, and ArgumentError for an impossible `output_size`.

    >>> import tenxor as tx
    >>> values, indices = tx.max_pool2d(tx.arange(16).reshape(1, 4, 4), 2, return_indices=True)
    >>> tx.nn.functional.max_unpool2d(values, indices, 2).tolist()
    [[[0, 0, 0, 0], [0, 5, 0, 7], [0, 0, 0, 0], [0, 13, 0, 15]]]
    """


@define_for_spatial_axes(3, _unpool)
def max_unpool3d() -> None:
    """Return maxima written back over the last three axes of `input`, (N, C, D, H, W) or (C, D, H, W), as a new tensor with 0 elsewhere.

    Arguments and errors are those of `max_unpool2d`.

    >>> import tenxor as tx
    >>> values, indices = tx.max_pool3d(tx.arange(8).reshape(1, 2, 2, 2), 2, return_indices=True)
    >>> tx.nn.functional.max_unpool3d(values, indices, 2).tolist()
    [[[[0, 0], [0, 0]], [[0, 0], [0, 7]]]]
    """
