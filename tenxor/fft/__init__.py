"""Fourier transforms: the extension `fft` of the Python array API standard 2025.12, and NumPy's for two axes.

The transforms are NumPy's, on our memory, axis by axis. For long rows of real numbers, half of the result is computed and the rest is
mirrored. The precision is that of the input: float32 and complex64 in 32 bits, float64 and complex128 in 64. Integers and bools become
float64. float16 and bfloat16 are converted to float32, and results stay in 32 bits: no narrower complex dtype exists.

`fft` describes the arguments `n`, `norm` and `out`, and `fftn` describes `s`, a size for each axis. Helpers name one public function in
errors, and `TenxorError` puts the called function in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.aliases import argument_aliases
from .._utils.lazy import make_public_dir, make_public_getattr
from ..api.argument_validation import check_argument
from ..api.concatenation import concat, roll
from ..api.creation import asarray, make_flat_indices, zeros
from ..api.fourier_vjps import FOURIER_VJPS, OPPOSITE_NORMS
from ..api.host_calls import HOST_VJPS, call_host_op, call_on_copies
from ..api.output_arguments import write_out
from ..dtypes import DEFAULT_FLOAT, DTypeLike, complex_dtype_of
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..layout.coords import validate_int
from ..linalg.arguments import as_lapack_dtype
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import normalize_axes, normalize_axis, parse_ints
from ..tensor.core import Operand, check_element_count

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
__dir__ = make_public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = make_public_getattr(globals())

Sizes = Sequence[int] | None
Axes = int | Sequence[int] | None
Array = np.ndarray[Any, Any]
_LAST_TWO = (-2, -1)
MAX_COMBINED_SIZE = 1 << 9  # elements; below, a single call of NumPy for several axes is faster than a call for each
MAX_COMBINED_REAL_SIZE = 1 << 14  # elements; the limit for real input, converted to complex
MIN_MIRRORED_SIZE = 1 << 9  # elements of a real axis; from here on computing half and mirroring is faster than a complex transform


# --- along one axis ---------------------------------------------------------------------------------------------------


@memoized_call
@argument_aliases
def fft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the discrete Fourier transform along an axis. (Array API 2025.12, `fft.fft`.)

    Parameters
    ----------
    x : Tensor
        Any dtype.
    n : int, optional
        Number of elements, 1 or more, to which the axis is cropped, or padded with zeros. The default is the size of the axis.
    axis : int, default -1
        The axis to transform. PyTorch's `dim` is an alias.
    norm : {"backward", "ortho", "forward"}, default "backward"
        "backward" (or None) divides inverse transforms by `n`, "forward" divides forward transforms, and "ortho" both by `sqrt(n)`.
    out : Tensor, optional
        Receives the result, and is returned.

    Returns
    -------
    Tensor
        New complex tensor, with `n` elements along the axis. With `out`, that tensor.

    Raises
    ------
    AxisError
        If there is no such axis.
    ShapeError
        If there are no elements to transform.
    ArgumentError
        If `n` is no integer, or `norm` is unknown.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.fft.fft(tx.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
    [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """
    return write_out("fft", out, _transform_axis(as_lapack_dtype(asarray(x)), "fft", n, axis, norm))


@memoized_call
@argument_aliases
def ifft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of `fft` along an axis, as a new complex tensor.

    `x` is cropped or padded with zeros to `n` elements along `axis`; by default `n` is the size of the axis. The arguments and errors are
    as in `fft`. (Array API 2025.12, `fft.ifft`.)

    >>> import tenxor as tx
    >>> tx.fft.ifft(tx.asarray([10.0, -2 + 2j, -2.0, -2 - 2j])).tolist()
    [(1+0j), (2+0j), (3+0j), (4+0j)]
    """
    return write_out("ifft", out, _transform_axis(as_lapack_dtype(asarray(x)), "ifft", n, axis, norm))


@memoized_call
@argument_aliases
def rfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the first half of the Fourier transform of real numbers, as a new complex tensor.

    The result has `n // 2 + 1` elements along the axis; the omitted elements are conjugates of these. By default `n` is the size of the
    axis. The arguments and errors are as in `fft`, and DTypeError is raised for complex `x`. (Array API 2025.12, `fft.rfft`.)

    >>> import tenxor as tx
    >>> tx.fft.rfft(tx.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
    [(10+0j), (-2+2j), (-2+0j)]
    """
    return write_out("rfft", out, _transform_axis(_check_real("rfft", x), "rfft", n, axis, norm))


@memoized_call
@argument_aliases
def irfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of `rfft`, as a new real tensor.

    `n` is the number of elements of the result along the axis, by default the even number `2 * (size - 1)`, where `size` is the size in
    `x`. The other arguments and the errors are as in `fft`. The imaginary part of the first element, and of the last for an even `n`, is
    ignored. (Array API 2025.12, `fft.irfft`.)

    >>> import tenxor as tx
    >>> tx.fft.irfft(tx.asarray([10.0, -2 + 2j, -2.0])).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return write_out("irfft", out, _transform_axis(as_lapack_dtype(asarray(x)), "irfft", n, axis, norm))


@memoized_call
@argument_aliases
def hfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the Fourier transform of a Hermitian signal, given by its first half, as a new real tensor.

    `n` is the number of elements of the result along the axis, by default `2 * (size - 1)`, where `size` is the size in `x`. The other
    arguments and the errors are as in `fft`. (Array API 2025.12, `fft.hfft`.)

    >>> import tenxor as tx
    >>> tx.fft.hfft(tx.asarray([1.0, 2.0, 3.0])).tolist()
    [8.0, -2.0, 0.0, -2.0]
    """
    return write_out(
        "hfft",
        out,
        _transform_axis(as_lapack_dtype(asarray(x)).conj(), "irfft", n, axis, OPPOSITE_NORMS[_check_norm(norm)]),
    )


@memoized_call
@argument_aliases
def ihfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of `hfft`, the first `n // 2 + 1` elements, as a new complex tensor.

    By default `n` is the size of the axis. The arguments and errors are as in `fft`, and DTypeError is raised for complex `x`. (Array API
    2025.12, `fft.ihfft`.)

    >>> import tenxor as tx
    >>> tx.fft.ihfft(tx.asarray([8.0, -2.0, 0.0, -2.0])).tolist()
    [(1-0j), (2-0j), (3-0j)]
    """
    result: Tensor = _transform_axis(_check_real("ihfft", x), "rfft", n, axis, OPPOSITE_NORMS[_check_norm(norm)]).conj()
    return write_out("ihfft", out, result)


# --- along several axes -----------------------------------------------------------------------------------------------


@memoized_call
@argument_aliases
def fftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return the Fourier transform along several axes. (Array API 2025.12, `fft.fftn`.)

    Parameters
    ----------
    x : Tensor
        Any dtype.
    s : Sequence[int], optional
        Number of elements for each of `axes`, to which the axis is cropped or padded with zeros. -1 leaves an axis unchanged.
    axes : int or Sequence[int], optional
        The axes to transform, by default every axis, or with `s` the last `len(s)` axes. PyTorch's `dim` is an alias.
    norm : {"backward", "ortho", "forward"}, default "backward"
        As in `fft`, where `n` is the product of the sizes.
    out : Tensor, optional
        Receives the result, and is returned.

    Returns
    -------
    Tensor
        New complex tensor, with `s` elements along the axes. With `out`, that tensor.

    Raises
    ------
    AxisError, ShapeError, ArgumentError
        As in `fft`. ArgumentError also if `s` does not fit the axes.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.fft.fftn(tx.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return write_out("fftn", out, _transform_axes("fft", as_lapack_dtype(asarray(x)), s, axes, norm))


@memoized_call
@argument_aliases
def ifftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of `fftn` along `axes`, by default every axis, as a new complex tensor.

    The arguments and errors are as in `fftn`. (Array API 2025.12, `fft.ifftn`.)

    >>> import tenxor as tx
    >>> tx.fft.ifftn(tx.asarray([[10.0, -2.0], [-4.0, 0.0]])).tolist()
    [[(1+0j), (2+0j)], [(3+0j), (4+0j)]]
    """
    return write_out("ifftn", out, _transform_axes("ifft", as_lapack_dtype(asarray(x)), s, axes, norm))


@memoized_call
@argument_aliases
def rfftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return the Fourier transform of real numbers along several axes, as a new complex tensor.

    The transform is `rfft` along the last of `axes`, then `fftn` along the remaining axes. So the result has `n // 2 + 1` elements along
    the last of `axes`. The arguments and errors are as in `fftn`; also raise DTypeError for complex `x`, and ArgumentError for no axes.
    (Array API 2025.12, `fft.rfftn`.)

    >>> import tenxor as tx
    >>> tx.fft.rfftn(tx.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    x = _check_real("rfftn", x)
    sizes, axis_list = _resolve_sizes(x, s, axes)
    if not axis_list:
        raise ArgumentError("rfftn: give at least one axis, the one that is halved")
    names = ["rfft"] + ["fft"] * (len(axis_list) - 1)  # in the order of fftn, as an axis may be named twice
    return write_out("rfftn", out, _apply_transforms(x, list(zip(names, sizes[::-1], axis_list[::-1], strict=True)), norm))


@memoized_call
@argument_aliases
def irfftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of `rfftn`, as a new real tensor.

    `s` is the shape of the result along `axes`: by default `2 * (size - 1)` along the last of them, and unchanged along the rest. The other
    arguments and the errors are as in `fftn`; also raise ArgumentError for no axes. (Array API 2025.12, `fft.irfftn`.)

    >>> import tenxor as tx
    >>> tx.fft.irfftn(tx.asarray([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    spectrum = as_lapack_dtype(asarray(x))
    sizes, axis_list = _resolve_sizes(spectrum, s, axes, halved=True)
    if not axis_list:
        raise ArgumentError("irfftn: give at least one axis, the one that was halved")
    names = ["ifft"] * (len(axis_list) - 1) + ["irfft"]
    return write_out("irfftn", out, _apply_transforms(spectrum, list(zip(names, sizes, axis_list, strict=True)), norm))


@argument_aliases
def fft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return `fftn` along two axes, by default the last two, as a new complex tensor.

    The arguments and errors are those of `fftn`.

    >>> import tenxor as tx
    >>> tx.fft.fft2(tx.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return fftn(x, s, axes, norm, out=out)


@argument_aliases
def ifft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return `ifftn` along two axes, by default the last two, as a new complex tensor.

    The arguments and errors are those of `fftn`.

    >>> import tenxor as tx
    >>> tx.fft.ifft2(tx.asarray([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return ifftn(x, s, axes, norm, out=out)


@argument_aliases
def rfft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return `rfftn` along two axes, by default the last two, as a new complex tensor.

    The arguments and errors are those of `rfftn`.

    >>> import tenxor as tx
    >>> tx.fft.rfft2(tx.ones((2, 3))).shape
    (2, 2)
    """
    return rfftn(x, s, axes, norm, out=out)


@argument_aliases
def irfft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return `irfftn` along two axes, by default the last two, as a new real tensor.

    The arguments and errors are those of `irfftn`.

    >>> import tenxor as tx
    >>> tx.fft.irfft2(tx.asarray([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return irfftn(x, s, axes, norm, out=out)


# --- frequencies ------------------------------------------------------------------------------------------------------


def fftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the frequencies of the `n` elements of `fft`, as a new 1-D tensor.

    `d` is the distance of the samples, whose inverse is the unit of the result. `dtype` is a real floating-point dtype, by default float64,
    and `device` is "cpu" or None. Raise ArgumentError if `n` is less than 1 or `d` is 0, and DTypeError for another dtype. (Array API
    2025.12, `fft.fftfreq`.)

    >>> import tenxor as tx
    >>> tx.fft.fftfreq(5, d=0.2).tolist()
    [0.0, 1.0, 2.0, -2.0, -1.0]
    """
    count = _check_sample_count(n)
    k = make_flat_indices((count,))
    signed = Tensor._compute(OPS["where"], k > (count - 1) // 2, k - count, k)
    return _make_frequencies(signed, count, d, dtype, device)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the frequencies of the `n // 2 + 1` elements of `rfft` of `n` samples, as a new 1-D tensor.

    `d` is the distance of the samples; `dtype`, `device` and the errors are as in `fftfreq`. (Array API 2025.12, `fft.rfftfreq`.)

    >>> import tenxor as tx
    >>> tx.fft.rfftfreq(5, d=0.2).tolist()
    [0.0, 1.0, 2.0]
    """
    count = _check_sample_count(n)
    return _make_frequencies(make_flat_indices((count // 2 + 1,)), count, d, dtype, device)


def _check_sample_count(n: int) -> int:
    """Return the number of samples `n` as an int. Raise ArgumentError if `n` is less than 1 or no integer."""
    count = validate_int("fftfreq", "n", n)
    if count < 1:
        raise ArgumentError(f"fftfreq: n is {count}; it must be 1 or more")
    return count


def _make_frequencies(k: Tensor, count: int, d: float, dtype: object, device: str | None) -> Tensor:
    """Return `k / (count * d)` in `dtype`, for the numbers `k` of frequencies. The arguments and errors are as in `fftfreq`."""
    float_dtype = DEFAULT_FLOAT if dtype is None else dtype_of(dtype)
    if not float_dtype.is_float:
        raise DTypeError(f"fftfreq: the dtype of frequencies must be a real float, not {float_dtype}")
    check_argument("fftfreq", "d, the time between samples,", d, "float")
    if not d:
        raise ArgumentError(f"fftfreq: d is {d}; the distance of samples must not be 0")
    return asarray((k.astype(DEFAULT_FLOAT) / (count * float(d))).astype(float_dtype), device=device)


@argument_aliases
def fftshift(x: Operand, /, axes: Axes = None, *, dim: Axes = None) -> Tensor:
    """Return a new tensor: `x` with the frequency 0, which `fft` puts first, moved to the middle of the axes.

    `axes` are an int or a sequence of ints, by default every axis. PyTorch's `dim` is an alias. Raise AxisError if an axis does not exist.
    (Array API 2025.12, `fft.fftshift`.)

    >>> import tenxor as tx
    >>> tx.fft.fftshift(tx.asarray([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _roll_axes(x, axes, 0)


@argument_aliases
def ifftshift(x: Operand, /, axes: Axes = None, *, dim: Axes = None) -> Tensor:
    """Return a new tensor: `x` with the frequency 0 moved from the middle of the axes back to the front, the inverse of `fftshift`.

    The arguments and errors are as in `fftshift`. (Array API 2025.12, `fft.ifftshift`.)

    >>> import tenxor as tx
    >>> tx.fft.ifftshift(tx.asarray([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    return _roll_axes(x, axes, 1)


def _roll_axes(x: Operand, axes: Axes, back: int) -> Tensor:
    """Return a new tensor: `x` rolled by half the size of each of `axes`, forward, or backward if `back` is 1."""
    x = asarray(x)
    axis_list = normalize_axes("fftshift", None if axes is None else parse_ints("fftshift", (axes,)), x.ndim)
    shifts = tuple([-(x.shape[a] // 2) if back else x.shape[a] // 2 for a in axis_list])
    return roll(x, shifts, axis_list) if axis_list else x.copy()


# --- shared helpers ---------------------------------------------------------------------------------------------------


def _check_real(op: str, x: Any) -> Tensor:
    """Return `x` as a tensor of float32 or float64. Raise DTypeError, beginning with `op`, for complex `x`."""
    tensor = as_lapack_dtype(asarray(x))
    if tensor.dtype.is_complex:
        complex_name = op.replace("ihfft", "ifft").replace("rfft", "fft")
        raise DTypeError(f"{op}: takes real numbers, not {tensor.dtype}; use {complex_name}, or tx.real(x)")
    return tensor


def _check_norm(norm: str | None) -> str:
    """Return the valid `norm`, "backward" for None. Raise ArgumentError for an unknown one."""
    if norm is not None and not (isinstance(norm, str) and norm in OPPOSITE_NORMS):
        raise ArgumentError(f"fft: norm must be 'backward', 'ortho' or 'forward', not {describe_value(norm)}")
    return norm or "backward"


def _transform_axis(x: Tensor, name: str, n: int | None, axis: int, norm: str | None) -> Tensor:
    """Return a transform of `x` along a single axis, as a new tensor. `name` is a function of NumPy: "fft", "ifft", "rfft" or "irfft".

    `x` has a dtype of LAPACK, real for "rfft". `n` and `norm` are as in `fft`, and for "irfft" `n` is as in `irfft`. Raise their errors.
    """
    norm = _check_norm(norm)
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
    """Return the result of `_transform_axis`. The fast path records and replays each call, so each axis of a transform."""
    return _transform_axis(x, name, n, axis, norm)


def _transform_axes(name: str, x: Tensor, s: Sizes, axes: Axes, norm: str | None) -> Tensor:
    """Return the transforms `name`, "fft" or "ifft", of `x` along several axes. The further arguments and errors are as in `fftn`."""
    sizes, axis_list = _resolve_sizes(x, s, axes)
    _check_norm(norm)
    return (
        _apply_transforms(x, [(name, size, axis) for size, axis in zip(sizes[::-1], axis_list[::-1], strict=True)], norm)
        if axis_list
        else x + 0j
    )


def _apply_transforms(x: Tensor, steps: Sequence[tuple[str, int, int]], norm: str | None) -> Tensor:
    """Return `x` after several transforms in order, as a new tensor. A step is the name, the size `n` and the axis of a transform."""
    sizes, axis_set = [size for _, size, _ in steps], {axis for *_, axis in steps}
    max_size = MAX_COMBINED_SIZE if x.dtype.is_complex or steps[0][0] == "rfft" else MAX_COMBINED_REAL_SIZE
    if x.size and len(steps) == len(axis_set) > 1 and 0 < min(sizes) <= max(sizes) < max_size:
        combined = call_on_copies(partial(_transform_combined, tuple(steps), _check_norm(norm)), x, max_elements=max_size)
        if combined is not None:
            return combined[0]
    along = _transform_one_axis if len(steps) > 1 else _transform_axis
    for name, size, axis in steps:
        x = along(x, name, size, axis, norm)
    return x


def _transform_combined(steps: Sequence[tuple[str, int, int]], norm: str, x: Array) -> list[Array]:
    """Return a list of one array: `x` after several transforms, by NumPy alone. A step is the name, size and axis of a transform."""
    with np.errstate(all="ignore"):
        for name, size, axis in steps:
            x = getattr(np.fft, name)(x, size, axis, norm)
    return [np.ascontiguousarray(x)]


def _resolve_sizes(x: Tensor, s: Sizes, axes: Axes, halved: bool = False) -> tuple[list[int], list[int]]:
    """Return the size `n` of each transform, and the transformed axes of `x` counted from the start. `s` and `axes` are as in `fftn`.

    With `halved`, the last axis has a result of `rfft`, and the default size is the size before `rfft`. Raise the errors of `fftn`.
    """
    requested = None if s is None else parse_ints("fftn", (s,))
    if axes is None:
        count = x.ndim if requested is None else len(requested)
        if count > x.ndim:
            raise ArgumentError(f"fftn: s has {count} sizes; it must have at most {x.ndim}, one for each axis of shape {x.shape}")
        axis_list = list(range(x.ndim - count, x.ndim))
    else:
        axis_list = [normalize_axis("fftn", a, x.ndim) for a in parse_ints("fftn", (axes,))]
    full_sizes = [x.shape[a] for a in axis_list]
    if halved and full_sizes:
        full_sizes[-1] = 2 * (full_sizes[-1] - 1)
    if requested is None:
        return full_sizes, axis_list
    if len(requested) != len(axis_list):
        raise ArgumentError(f"fftn: s has {len(requested)} sizes for {len(axis_list)} axes; it must have one for each")
    return [full_size if n == -1 else n for n, full_size in zip(requested, full_sizes, strict=True)], axis_list


HOST_VJPS.update(FOURIER_VJPS)
