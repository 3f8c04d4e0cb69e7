"""Resampling of images, sounds and volumes to other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, isfinite
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..layout.interruptible_chunks import iterate_chunks
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, parse_ints
from .creation import asarray
from .output_arguments import cast_to

__all__ = ["interpolate"]

Taps = list[Any]  # index and weight arrays in turn: for each new position an element, and its share
_CUBIC_COEFFICIENT = -0.75  # the usual parameter of cubic convolution
_MAX_SPATIAL_NDIM = 3
_SPATIAL_NDIM_OF_MODE = {"linear": None, "bilinear": 2, "trilinear": 3, "cubic": None, "bicubic": 2, "nearest": None, "nearest-exact": None}


def interpolate(
    x: Tensor,
    /,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:
    """Return `x` resampled along its spatial axes, as a new tensor.

    Parameters
    ----------
    x : Tensor
        (N, C, L), (N, C, H, W) or (N, C, D, H, W). Elements must be floats or complex; the "nearest" modes accept all dtypes.
    size : int or Sequence[int], optional
        The new sizes, in elements: one number, or one for each spatial axis.
    scale_factor : float or Sequence[float], optional
        In place of `size`: the new sizes are `scale_factor` times the old sizes, rounded down.
    mode : str, default "nearest"
        One of:

        - "nearest": the element that contains the beginning of the new one
        - "nearest-exact": the element that contains the middle of the new one
        - "linear", also called "bilinear" and "trilinear": interpolated between two elements along each axis
        - "cubic", also called "bicubic": interpolated between four elements along each axis
    align_corners : bool, default False
        If True, the middles of the first and last elements stay in place; otherwise their outer edges do. The "nearest" modes allow only
        False.

    Returns
    -------
    Tensor
        New tensor of the dtype of `x`. The first two axes keep their sizes.

    Raises
    ------
    ShapeError
        If `x` has no spatial axis, more than three, or no elements.
    ArgumentError
        If `size` and `scale_factor` are both given or both missing, or if an argument is out of range.
    DTypeError
        If the mode needs floats and `x` has none.

    References
    ----------
    PyTorch's `interpolate`; R. Keys, "Cubic convolution interpolation", 1981, with a = -0.75.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.asarray([[[0.0, 10.0, 20.0]]])
    >>> tx.interpolate(x, 6).tolist(), tx.interpolate(x, 5, mode="linear", align_corners=True).tolist()
    ([[[0.0, 0.0, 10.0, 10.0, 20.0, 20.0]]], [[[0.0, 5.0, 10.0, 15.0, 20.0]]])
    """
    x = asarray(x)
    space = x.ndim - 2
    if not 1 <= space <= _MAX_SPATIAL_NDIM:
        raise ShapeError(f"interpolate: x has shape {x.shape}; it must be (N, C, L), (N, C, H, W) or (N, C, D, H, W)")
    if not isinstance(mode, str) or mode not in _SPATIAL_NDIM_OF_MODE:
        raise ArgumentError(f"interpolate: mode must be one of {', '.join(map(repr, _SPATIAL_NDIM_OF_MODE))}, not {mode!r}")
    if (_SPATIAL_NDIM_OF_MODE[mode] or space) != space:
        raise ArgumentError(
            f"interpolate: mode {mode!r} is for {_SPATIAL_NDIM_OF_MODE[mode]} spatial axes, and x of shape {x.shape} has {space}; use"
            " 'linear' or 'cubic'"
        )
    aligns_corners = check_flag("align_corners", align_corners)
    is_nearest = mode.startswith("nearest")
    if is_nearest and aligns_corners:
        raise ArgumentError(f"interpolate: mode {mode!r} does not take align_corners=True; leave it out")
    if not (is_nearest or x.dtype.is_float or x.dtype.is_complex):
        raise DTypeError(f"interpolate: mode {mode!r} takes floats, not {x.dtype}; use x.astype(tx.float64)")
    sizes, steps = _new_sizes(x.shape[2:], size, scale_factor)
    if 0 in x.shape[2:]:
        raise ShapeError(f"interpolate: x has shape {x.shape}; its spatial axes must have at least one element")
    result = x if is_nearest else cast_to(x, x.dtype.compute_dtype)
    for axis, (length, step) in enumerate(zip(sizes, steps, strict=True), start=2):
        if is_nearest:
            (indices,) = _compute_in_chunks(length, _nearest_indices, x.shape[axis], step, 0.5 if mode == "nearest-exact" else 0.0)
            result = result.take(asarray(indices), axis=axis)
        elif length != x.shape[axis] or step != 1.0:
            taps = _TAPS["cubic" if mode.endswith("cubic") else "linear"]
            result = _blend(result, axis, _compute_in_chunks(length, taps, length, x.shape[axis], step, aligns_corners))
    return result.copy() if result is x else cast_to(result, x.dtype)


def _new_sizes(space: tuple[int, ...], size: Any, scale_factor: Any) -> tuple[tuple[int, ...], list[float]]:
    """Return the new size of each spatial axis, and the number of old elements per new element.

    `space` are the old sizes. Either `size` or `scale_factor` is given, one number or one for each axis. Raise ArgumentError for invalid
    numbers.
    """
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate: give a size or a scale_factor, one of the two")
    if scale_factor is None:
        sizes = parse_ints("interpolate", "size", (size,))
        sizes = sizes * len(space) if len(sizes) == 1 else sizes
        if len(sizes) != len(space) or min(sizes) < 1:
            raise ArgumentError(
                f"interpolate: size is {describe_value(size)}; it must be 1 or more, or such a number for each of {len(space)} axes"
            )
        return sizes, [n / length for n, length in zip(space, sizes, strict=True)]
    factors = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * len(space)
    if len(factors) != len(space) or not all(isinstance(f, (int, float)) and isfinite(f) and f > 0 for f in factors):
        raise ArgumentError(
            f"interpolate: scale_factor is {describe_value(scale_factor)}; it must be finite and above 0, or such a number for each of"
            f" {len(space)} axes"
        )
    sizes = tuple([floor(n * f) for n, f in zip(space, factors, strict=True)])
    if min(sizes) < 1:
        raise ArgumentError(
            f"interpolate: scale_factor {describe_value(scale_factor)} makes an axis of the sizes {space} empty; each size times its factor"
            " must be at least 1"
        )
    return sizes, [1.0 / f for f in factors]


def _clip_to_indices(positions: Any, size: int) -> Any:
    """Round `positions` down to int64 indices, limited to 0 to `size` - 1."""
    return np.clip(np.floor(positions), 0, size - 1).astype(np.int64)


def _nearest_indices(k: Any, size: int, step: float, start: float) -> list[Any]:
    """Return a list with one array: the index of the nearest of `size` old elements for each new element in `k`.

    `step` is the number of old elements per new element, and `start`, 0 or 0.5, the point of a new element that counts.
    """
    return [_clip_to_indices((k + start) * step, size)]


def _compute_in_chunks(length: int, compute: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
    """Return the list of arrays `compute(k, *arguments)`, where the array `k` has the new positions from 0 to `length` - 1.

    The arrays are computed in chunks, between which Python can handle signals.
    """
    arrays: list[Any] = []
    for (key,) in iterate_chunks((length,)):
        for k, chunk in enumerate(compute(np.arange(key.start, min(key.stop, length)), *arguments)):
            if len(chunk) == length:
                arrays.append(chunk)
                continue
            if not key.start:
                arrays.append(np.empty(length, chunk.dtype))
            arrays[k][key] = chunk
    return arrays


def _middle_coordinates(k: Any, length: int, size: int, step: float, corners: bool) -> Any:
    """Return the coordinates of the middles of new elements `k`, in units of old elements: 0 is the middle of the first old element.

    `size` old elements become `length` new ones. With `corners`, the middles of the first elements coincide, and so do the middles of the
    last. Otherwise a new element spans `step` old ones.
    """
    if corners:
        return k * ((size - 1) / (length - 1) if length > 1 else 0.0)
    return (k + 0.5) * step - 0.5


def _linear_taps(k: Any, length: int, size: int, step: float, corners: bool) -> Taps:
    """Return the indices and weights that interpolate new elements `k` from two old neighbours each: index, weight, index, weight.

    The arguments are as in `_middle_coordinates`.
    """
    coordinates = np.maximum(_middle_coordinates(k, length, size, step, corners), 0.0)
    lower_index = _clip_to_indices(coordinates, size)
    weight = np.clip(coordinates - lower_index, 0.0, 1.0)
    return [lower_index, 1.0 - weight, np.minimum(lower_index + 1, size - 1), weight]


def _cubic_taps(k: Any, length: int, size: int, step: float, corners: bool) -> Taps:
    """Return the indices and weights that interpolate new elements `k` from four old neighbours each, as a list of eight arrays.

    Each array of indices is followed by the array of the weights.

    The arguments are as in `_middle_coordinates`.
    """
    coordinates = _middle_coordinates(k, length, size, step, corners)
    lower_index = np.floor(coordinates)
    t, a = coordinates - lower_index, _CUBIC_COEFFICIENT

    def near_weight(d: Any) -> Any:  # distances up to 1
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far_weight(d: Any) -> Any:  # distances from 1 to 2
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = [far_weight(t + 1), near_weight(t), near_weight(1 - t), far_weight(2 - t)]
    return [tap for j, weight in enumerate(weights) for tap in (_clip_to_indices(lower_index + j - 1, size), weight)]


_TAPS: dict[str, Callable[[Any, int, int, float, bool], Taps]] = {"linear": _linear_taps, "cubic": _cubic_taps}


def _blend(x: Tensor, axis: int, taps: Taps) -> Tensor:
    """Return a new tensor of weighted sums of elements of `x` along `axis`. `taps` has index and weight arrays in turn."""
    weight_shape = (-1, *(1,) * (x.ndim - 1 - axis))
    blended: Any = 0.0
    for indices, weight in zip(taps[::2], taps[1::2], strict=True):
        blended = blended + x.take(asarray(indices), axis=axis) * asarray(weight, dtype=x.dtype.part).reshape(weight_shape)
    result: Tensor = blended
    return result
