"""Transforms along one axis or several, by NumPy on our memory, and the checks of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..api.concatenation import concat
from ..api.creation import asarray, zeros
from ..api.fourier_vjps import OPPOSITE_NORMS
from ..api.host_calls import call_host_op, call_on_copies
from ..dtypes import complex_dtype_of
from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..layout.coords import validate_int
from ..linalg.arguments import as_lapack_dtype
from ..tensor import Tensor
from ..tensor.argument_parsing import normalize_axis, parse_ints
from ..tensor.core import check_element_count

Sizes = Sequence[int] | None
Axes = int | Sequence[int] | None
Array = np.ndarray[Any, Any]
MAX_COMBINED_SIZE = 1 << 9  # elements; below, a single call of NumPy for several axes is faster than a call for each
MAX_COMBINED_REAL_SIZE = 1 << 14  # elements; the limit for real input, converted to complex
MIN_MIRRORED_SIZE = 1 << 9  # elements of a real axis; from here on computing half and mirroring is faster than a complex transform


def check_real(op: str, x: Any) -> Tensor:
    """Return `x` as a tensor of float32 or float64: bfloat16 and float16 become float32, integers float64.

    Raise DTypeError, beginning with `op`, for complex `x`.
    """
    tensor = as_lapack_dtype(asarray(x))
    if tensor.dtype.is_complex:
        complex_name = op.replace("ihfft", "ifft").replace("rfft", "fft")
        raise DTypeError(f"{op}: x is {tensor.dtype}; it must be real; use tx.fft.{complex_name}, or tx.real(x)")
    return tensor


def check_norm(norm: str | None) -> str:
    """Return the valid `norm`, "backward" for None. Raise ArgumentError for an unknown one."""
    if norm is not None and not (isinstance(norm, str) and norm in OPPOSITE_NORMS):
        raise ArgumentError(f"fft: norm must be 'backward', 'ortho' or 'forward', not {describe_value(norm)}")
    return norm or "backward"


def transform_axis(x: Tensor, name: str, n: int | None, axis: int, norm: str | None) -> Tensor:
    """Return a transform of `x` along a single axis, as a new tensor. `name` is a function of NumPy: "fft", "ifft", "rfft" or "irfft".

    `x` has a dtype of LAPACK (32 or 64 bits for each part), real for "rfft". `n` is the size of the transform, by default the size of the
    axis, or for "irfft" of the result. Raise ShapeError for a size below 1, AxisError, and ArgumentError for an unknown `norm`.
    """
    norm = check_norm(norm)
    axis_number = normalize_axis(name, axis, x.ndim)
    size = x.shape[axis_number]
    full_size = 2 * (size - 1) if name == "irfft" else size
    n = full_size if n is None else validate_int(name, "n", n)
    if n < 1:
        raise ShapeError(f"{name}: axis {axis_number} of shape {x.shape} gives {n} elements to transform; there must be 1 or more")
    check_element_count(name, (n,))
    if name in ("fft", "ifft") and not x.dtype.is_complex:
        if n >= MIN_MIRRORED_SIZE:
            return _transform_by_rfft(x, name, n, axis_number, norm)
        return _transform_one_axis(x.astype(complex_dtype_of(x.dtype)), name, n, axis_number, norm)
    if not size:  # NumPy's irfft reads the first element, so an empty axis is padded with a zero
        x = concat([x, zeros([1 if k == axis_number else m for k, m in enumerate(x.shape)], dtype=x.dtype)], axis=axis_number)
    result_size = n // 2 + 1 if name == "rfft" else n
    (result,) = call_host_op(name, x.moveaxis(axis_number, -1), sizes={"k": result_size}, n=n, norm=norm)
    return result.moveaxis(-1, axis_number)


def _transform_by_rfft(x: Tensor, name: str, n: int, axis: int, norm: str) -> Tensor:
    """Return the transform `name`, "fft" or "ifft", of the real numbers `x` along `axis`, computed by `rfft`.

    The second half is the conjugate of the first, reversed. `n` and `norm` are as in `fft`.
    """
    half = _transform_one_axis(x, "rfft", n, axis, norm if name == "fft" else OPPOSITE_NORMS[norm]).moveaxis(axis, -1)
    second_half = half[..., 1 : (n + 1) // 2].flip(-1)
    halves = [half, second_half.conj()] if name == "fft" else [half.conj(), second_half]
    return concat(halves, axis=-1).moveaxis(-1, axis)


@memoized_call
def _transform_one_axis(x: Tensor, name: str, n: int | None, axis: int, norm: str | None) -> Tensor:
    """Return the result of `transform_axis`. The fast path records and replays each call, so each axis of a transform."""
    return transform_axis(x, name, n, axis, norm)


def transform_axes(name: str, x: Tensor, s: Sizes, axes: Axes, norm: str | None) -> Tensor:
    """Return the transforms `name`, "fft" or "ifft", of `x` along several axes, as a new complex tensor.

    `s` has the size of each transform, and `axes` the axes; the arguments and errors are as in `fftn`.
    """
    sizes, axis_list = resolve_sizes(x, s, axes)
    check_norm(norm)
    return (
        apply_transforms(x, [(name, size, axis) for size, axis in zip(sizes[::-1], axis_list[::-1], strict=True)], norm)
        if axis_list
        else x + 0j
    )


def apply_transforms(x: Tensor, steps: Sequence[tuple[str, int, int]], norm: str | None) -> Tensor:
    """Return `x` after one or several transforms in order, as a new tensor. A step is the name, the size `n` and the axis of a transform.

    Small transforms are done together by NumPy on a copy, so that they are a single call for the fast path.
    """
    sizes, axis_set = [size for _, size, _ in steps], {axis for *_, axis in steps}
    max_size = MAX_COMBINED_SIZE if x.dtype.is_complex or steps[0][0] == "rfft" else MAX_COMBINED_REAL_SIZE
    if x.size and len(steps) == len(axis_set) > 1 and 0 < min(sizes) <= max(sizes) < max_size:
        combined = call_on_copies(partial(_transform_combined, tuple(steps), check_norm(norm)), x, max_elements=max_size)
        if combined is not None:
            return combined[0]
    along = _transform_one_axis if len(steps) > 1 else transform_axis
    for name, size, axis in steps:
        x = along(x, name, size, axis, norm)
    return x


def _transform_combined(steps: Sequence[tuple[str, int, int]], norm: str, x: Array) -> list[Array]:
    """Return a list of one array: `x` after several transforms, by NumPy alone. A step is the name, size and axis of a transform."""
    with np.errstate(all="ignore"):
        for name, size, axis in steps:
            x = getattr(np.fft, name)(x, size, axis, norm)
    return [np.ascontiguousarray(x)]


def resolve_sizes(x: Tensor, s: Sizes, axes: Axes, halved: bool = False) -> tuple[list[int], list[int]]:
    """Return the size `n` of each transform, and the transformed axes of `x` counted from the start. `s` and `axes` are as in `fftn`.

    With `halved`, the last axis has a result of `rfft`, and the default size is the size before `rfft`. Raise ArgumentError for a wrong
    number of sizes, and AxisError for a missing axis; sizes are not checked.
    """
    requested = None if s is None else parse_ints("fftn", "s", (s,))
    if axes is None:
        count = x.ndim if requested is None else len(requested)
        if count > x.ndim:
            raise ArgumentError(f"fftn: s has {count} sizes; it must have at most {x.ndim}, one for each axis of shape {x.shape}")
        axis_list = list(range(x.ndim - count, x.ndim))
    else:
        axis_list = [normalize_axis("fftn", a, x.ndim) for a in parse_ints("fftn", "axes", (axes,))]
    full_sizes = [x.shape[a] for a in axis_list]
    if halved and full_sizes:
        full_sizes[-1] = 2 * (full_sizes[-1] - 1)
    if requested is None:
        return full_sizes, axis_list
    if len(requested) != len(axis_list):
        raise ArgumentError(f"fftn: s has {len(requested)} sizes for {len(axis_list)} axes; it must have one for each")
    return [full_size if n == -1 else n for n, full_size in zip(requested, full_sizes, strict=True)], axis_list
