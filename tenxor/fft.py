"""Fourier transforms: the extension `fft` of the Python array API standard 2025.12, and NumPy's for two axes.

The transforms are NumPy's, on our memory, axis by axis. For long rows of real numbers, half of the result is computed and the rest is
mirrored. The precision is that of the input: float32 and complex64 in 32 bits, float64 and complex128 in 64. Integers and bools become
float64. float16 and bfloat16 are converted to float32, and results stay in 32 bits: no narrower complex dtype exists.

`norm` says which transforms divide by the number of elements `n`: with "backward" the inverse transforms, with "forward" the forward
transforms, and with "ortho" both divide by sqrt(n). `n` (or `s`, a size for each axis) crops the axis to `n` elements, or pads the axis
with zeros. With `out` the result is written into this tensor, which is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .creation import asarray, positions, zeros
from .dtypes import DEFAULT_FLOAT, DTypeLike, complex_of
from .dtypes import dtype as dtype_of
from .errors import ArgumentError, DTypeError, ShapeError, described
from .functions.hosted import BACKWARD, at_once, hosted
from .functions.into import into
from .functions.joining import concat, roll
from .functions.kinds import check
from .functions.transforms import COTANGENTS, TURNED
from .keywords import spelled
from .late import public_dir, public_getattr
from .layout.coords import checked_int
from .linalg.arguments import computed
from .ops import OPS
from .spec import called_again
from .tensor import Tensor
from .tensor.arguments import axes_of, axis_of, ints
from .tensor.core import Operand, check_count

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
__dir__ = public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = public_getattr(globals())

Sizes = Sequence[int] | None
Axes = int | Sequence[int] | None
Array = np.ndarray[Any, Any]
_LAST_TWO = (-2, -1)
MAX_COMBINED_SIZE = 1 << 9  # elements; below, a single call of NumPy for several axes is faster than a call for each
MAX_COMBINED_REAL_SIZE = 1 << 14  # elements; the limit for real input, converted to complex
MIN_MIRRORED_SIZE = 1 << 9  # elements of a real axis; from here on computing half and mirroring is faster than a complex transform


# --- along one axis ---------------------------------------------------------------------------------------------------


@called_again
@spelled
def fft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the discrete Fourier transform along an axis, cropped or padded to `n` elements, as a new complex tensor.

    Raises AxisError, ShapeError for no elements, and ArgumentError. (Array API 2025.12, `fft.fft`.)

    >>> import tenxor as tx
    >>> tx.fft.fft(tx.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
    [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """
    return into("fft", out, _transform_axis(computed(asarray(x)), "fft", n, axis, norm))


@called_again
@spelled
def ifft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of `fft` along an axis, as a new complex tensor.

    Raises AxisError, ShapeError for no elements, and ArgumentError. (Array API 2025.12, `fft.ifft`.)

    >>> import tenxor as tx
    >>> tx.fft.ifft(tx.asarray([10.0, -2 + 2j, -2.0, -2 - 2j])).tolist()
    [(1+0j), (2+0j), (3+0j), (4+0j)]
    """
    return into("ifft", out, _transform_axis(computed(asarray(x)), "ifft", n, axis, norm))


@called_again
@spelled
def rfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the first `n // 2 + 1` elements of the Fourier transform of real numbers, as a new complex tensor. The remaining elements are
    their conjugates.

    Raises DTypeError for complex numbers, AxisError, ShapeError for no elements, and ArgumentError. (Array API 2025.12, `fft.rfft`.)

    >>> import tenxor as tx
    >>> tx.fft.rfft(tx.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
    [(10+0j), (-2+2j), (-2+0j)]
    """
    return into("rfft", out, _transform_axis(_check_real("rfft", x), "rfft", n, axis, norm))


@called_again
@spelled
def irfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of `rfft`, `n` elements along the axis, as a new real tensor. The default of `n` is even: twice (the size less 1).

    The imaginary part of the first element, and of the last for an even `n`, is ignored. Raises AxisError, ShapeError for no elements, and
    ArgumentError. (Array API 2025.12, `fft.irfft`.)

    >>> import tenxor as tx
    >>> tx.fft.irfft(tx.asarray([10.0, -2 + 2j, -2.0])).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return into("irfft", out, _transform_axis(computed(asarray(x)), "irfft", n, axis, norm))


@called_again
@spelled
def hfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the Fourier transform of a Hermitian signal, given by its first half, as a new real tensor of `n` elements along the axis.

    The default of `n` is twice (the size less 1). Raises AxisError, ShapeError for no elements, and ArgumentError. (Array API 2025.12,
    `fft.hfft`.)

    >>> import tenxor as tx
    >>> tx.fft.hfft(tx.asarray([1.0, 2.0, 3.0])).tolist()
    [8.0, -2.0, 0.0, -2.0]
    """
    return into("hfft", out, _transform_axis(computed(asarray(x)).conj(), "irfft", n, axis, TURNED[_check_norm("hfft", norm)], "hfft"))


@called_again
@spelled
def ihfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of `hfft`, the first `n // 2 + 1` elements, as a new complex tensor.

    Raises DTypeError for complex numbers, AxisError, ShapeError for no elements, and ArgumentError. (Array API 2025.12, `fft.ihfft`.)

    >>> import tenxor as tx
    >>> tx.fft.ihfft(tx.asarray([8.0, -2.0, 0.0, -2.0])).tolist()
    [(1-0j), (2-0j), (3-0j)]
    """
    result: Tensor = _transform_axis(_check_real("ihfft", x), "rfft", n, axis, TURNED[_check_norm("ihfft", norm)], "ihfft").conj()
    return into("ihfft", out, result)


# --- along several axes -----------------------------------------------------------------------------------------------


@called_again
@spelled
def fftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return the Fourier transform along several axes, as a new complex tensor. The default is every axis, or the last `len(s)` axes.

    A size of -1 leaves an axis unchanged. Raises AxisError, ShapeError and ArgumentError. (Array API 2025.12, `fft.fftn`.)

    >>> import tenxor as tx
    >>> tx.fft.fftn(tx.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return into("fftn", out, _transform_axes("fftn", "fft", computed(asarray(x)), s, axes, norm))


@called_again
@spelled
def ifftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of `fftn`, as a new complex tensor. The arguments are those of `fftn`.

    Raises AxisError, ShapeError and ArgumentError. (Array API 2025.12, `fft.ifftn`.)

    >>> import tenxor as tx
    >>> tx.fft.ifftn(tx.asarray([[10.0, -2.0], [-4.0, 0.0]])).tolist()
    [[(1+0j), (2+0j)], [(3+0j), (4+0j)]]
    """
    return into("ifftn", out, _transform_axes("ifftn", "ifft", computed(asarray(x)), s, axes, norm))


@called_again
@spelled
def rfftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return the Fourier transform of real numbers along several axes, as a new complex tensor: `rfft` along the last axis, then `fftn`
    along the others.

    Raises DTypeError for complex numbers, AxisError, ShapeError and ArgumentError. (Array API 2025.12, `fft.rfftn`.)

    >>> import tenxor as tx
    >>> tx.fft.rfftn(tx.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    x = _check_real("rfftn", x)
    sizes, axis_list = _resolve_sizes("rfftn", x, s, axes)
    if not axis_list:
        raise ArgumentError("rfftn: give at least one axis, the one that is halved")
    names = ["rfft"] + ["fft"] * (len(axis_list) - 1)  # in the order of fftn, as an axis may be named twice
    return into("rfftn", out, _apply_transforms("rfftn", x, list(zip(names, sizes[::-1], axis_list[::-1], strict=True)), norm))


@called_again
@spelled
def irfftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return the inverse of `rfftn`, as a new real tensor. `s` is the shape of the result along the axes; by default it is twice (the size
    less 1) along the last axis, and unchanged along the others.

    Raises AxisError, ShapeError and ArgumentError. (Array API 2025.12, `fft.irfftn`.)

    >>> import tenxor as tx
    >>> tx.fft.irfftn(tx.asarray([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    spectrum = computed(asarray(x))
    sizes, axis_list = _resolve_sizes("irfftn", spectrum, s, axes, halved=True)
    if not axis_list:
        raise ArgumentError("irfftn: give at least one axis, the one that was halved")
    names = ["ifft"] * (len(axis_list) - 1) + ["irfft"]
    return into("irfftn", out, _apply_transforms("irfftn", spectrum, list(zip(names, sizes, axis_list, strict=True)), norm))


@spelled
def fft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return `fftn` along two axes, by default the last two, as a new complex tensor.

    >>> import tenxor as tx
    >>> tx.fft.fft2(tx.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return fftn(x, s, axes, norm, out=out)


@spelled
def ifft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return `ifftn` along two axes, by default the last two, as a new complex tensor.

    >>> import tenxor as tx
    >>> tx.fft.ifft2(tx.asarray([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return ifftn(x, s, axes, norm, out=out)


@spelled
def rfft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return `rfftn` along two axes, by default the last two, as a new complex tensor.

    >>> import tenxor as tx
    >>> tx.fft.rfft2(tx.ones((2, 3))).shape
    (2, 2)
    """
    return rfftn(x, s, axes, norm, out=out)


@spelled
def irfft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """Return `irfftn` along two axes, by default the last two, as a new real tensor.

    >>> import tenxor as tx
    >>> tx.fft.irfft2(tx.asarray([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return irfftn(x, s, axes, norm, out=out)


# --- frequencies ------------------------------------------------------------------------------------------------------


def fftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the frequencies of the `n` elements of `fft`, for samples with distance `d`, as a new 1-D tensor. The dtype defaults to
    float64.

    Raises ArgumentError for `n` below 1. (Array API 2025.12, `fft.fftfreq`.)

    >>> import tenxor as tx
    >>> tx.fft.fftfreq(5, d=0.2).tolist()
    [0.0, 1.0, 2.0, -2.0, -1.0]
    """
    count = _check_sample_count("fftfreq", n)
    k = positions((count,))
    signed = Tensor._compute(OPS["where"], k > (count - 1) // 2, k - count, k)
    return _scale_frequencies("fftfreq", signed, count, d, dtype, device)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the frequencies of the elements of `rfft` of `n` samples with distance `d`, as a new 1-D tensor. The dtype defaults to
    float64.

    Raises ArgumentError for `n` below 1. (Array API 2025.12, `fft.rfftfreq`.)

    >>> import tenxor as tx
    >>> tx.fft.rfftfreq(5, d=0.2).tolist()
    [0.0, 1.0, 2.0]
    """
    count = _check_sample_count("rfftfreq", n)
    return _scale_frequencies("rfftfreq", positions((count // 2 + 1,)), count, d, dtype, device)


def _check_sample_count(op: str, n: int) -> int:
    count = checked_int(op, "n", n)
    if count < 1:
        raise ArgumentError(f"{op}: n is {count}; it must be 1 or more")
    return count


def _scale_frequencies(op: str, k: Tensor, count: int, d: float, dtype: object, device: str | None) -> Tensor:
    float_dtype = DEFAULT_FLOAT if dtype is None else dtype_of(dtype)
    if not float_dtype.is_float:
        raise DTypeError(f"{op}: frequencies are real floats, not {float_dtype}")
    check(op, "d, the time between samples,", d, "float")
    if not d:
        raise ArgumentError(f"{op}: samples that are {d} apart have no frequencies")
    return asarray((k.astype(DEFAULT_FLOAT) / (count * float(d))).astype(float_dtype), device=device)


@spelled
def fftshift(x: Operand, /, axes: Axes = None, *, dim: Axes = None) -> Tensor:
    """Return a new tensor: `x` with the frequency 0, which `fft` puts first, moved to the middle of the axes, by default of every axis.
    Raises AxisError. (Array API 2025.12, `fft.fftshift`.)

    >>> import tenxor as tx
    >>> tx.fft.fftshift(tx.asarray([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _shift("fftshift", x, axes, 0)


@spelled
def ifftshift(x: Operand, /, axes: Axes = None, *, dim: Axes = None) -> Tensor:
    """Return a new tensor: the inverse of `fftshift`. Raises AxisError. (Array API 2025.12, `fft.ifftshift`.)

    >>> import tenxor as tx
    >>> tx.fft.ifftshift(tx.asarray([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    return _shift("ifftshift", x, axes, 1)


def _shift(op: str, x: Operand, axes: Axes, back: int) -> Tensor:
    x = asarray(x)
    axis_list = axes_of(op, None if axes is None else ints(op, (axes,)), x.ndim)
    shifts = tuple([-(x.shape[a] // 2) if back else x.shape[a] // 2 for a in axis_list])
    return roll(x, shifts, axis_list) if axis_list else x.copy()


# --- shared helpers ---------------------------------------------------------------------------------------------------


def _check_real(op: str, x: Any) -> Tensor:
    tensor = computed(asarray(x))
    if tensor.dtype.is_complex:
        complex_name = op.replace("ihfft", "ifft").replace("rfft", "fft")
        raise DTypeError(f"{op}: takes real numbers, not {tensor.dtype}; use {complex_name}, or tx.real(x)")
    return tensor


def _check_norm(op: str, norm: str | None) -> str:
    if norm is not None and not (isinstance(norm, str) and norm in TURNED):
        raise ArgumentError(f"{op}: norm is 'backward', 'ortho' or 'forward', not {described(norm)}")
    return norm or "backward"


def _transform_axis(x: Tensor, name: str, n: int | None, axis: int, norm: str | None, op: str | None = None) -> Tensor:
    """Return a transform along a single axis. `name` is the transform and `op` the public function, for errors."""
    op = op or name
    norm = _check_norm(op, norm)
    axis_number = axis_of(op, axis, x.ndim)
    size = x.shape[axis_number]
    full_size = 2 * (size - 1) if name == "irfft" else size
    n = full_size if n is None else checked_int(op, "n", n)
    if n < 1:
        raise ShapeError(f"{op}: axis {axis_number} of shape {x.shape} gives {n} elements to transform; there must be 1 or more")
    check_count(op, (n,))
    if name in ("fft", "ifft") and not x.dtype.is_complex:
        if n >= MIN_MIRRORED_SIZE:
            return _transform_by_rfft(x, name, n, axis_number, norm, op)
        return _transform_one_axis(x.astype(complex_of(x.dtype)), name, n, axis_number, norm, op)
    if not size:  # pad an empty axis with one zero here, as NumPy's irfft reads the first element
        x = concat([x, zeros([1 if k == axis_number else m for k, m in enumerate(x.shape)], dtype=x.dtype)], axis=axis_number)
    result_size = n // 2 + 1 if name == "rfft" else n
    (result,) = hosted(name, x.moveaxis(axis_number, -1), sizes={"k": result_size}, n=n, norm=norm)
    return result.moveaxis(-1, axis_number)


def _transform_by_rfft(x: Tensor, name: str, n: int, axis: int, norm: str, op: str) -> Tensor:
    """Return the transform of real numbers by `rfft`: the second half is the conjugate of the first, reversed."""
    half = _transform_one_axis(x, "rfft", n, axis, norm if name == "fft" else TURNED[norm], op).moveaxis(axis, -1)
    second_half = half[..., 1 : (n + 1) // 2].flip(-1)
    halves = [half, second_half.conj()] if name == "fft" else [half.conj(), second_half]
    return concat(halves, axis=-1).moveaxis(-1, axis)


@called_again
def _transform_one_axis(x: Tensor, name: str, n: int | None, axis: int, norm: str | None, op: str) -> Tensor:
    """Return a transform along a single axis. This is a separate function, so that the fast path records and replays each axis."""
    return _transform_axis(x, name, n, axis, norm, op)


def _transform_axes(op: str, name: str, x: Tensor, s: Sizes, axes: Axes, norm: str | None) -> Tensor:
    sizes, axis_list = _resolve_sizes(op, x, s, axes)
    _check_norm(op, norm)
    return (
        _apply_transforms(op, x, [(name, size, axis) for size, axis in zip(sizes[::-1], axis_list[::-1], strict=True)], norm)
        if axis_list
        else x + 0j
    )


def _apply_transforms(op: str, x: Tensor, steps: Sequence[tuple[str, int, int]], norm: str | None) -> Tensor:
    """Apply transforms in order; a step is a name, a size and an axis."""
    sizes, axis_set = [size for _, size, _ in steps], {axis for *_, axis in steps}
    max_size = MAX_COMBINED_SIZE if x.dtype.is_complex or steps[0][0] == "rfft" else MAX_COMBINED_REAL_SIZE
    if len(steps) == len(axis_set) > 1 and 0 < min(sizes) <= max(sizes) < max_size:
        combined = at_once(partial(_transform_combined, tuple(steps), _check_norm(op, norm)), x, few=max_size)
        if combined is not None:
            return combined[0]
    along = _transform_one_axis if len(steps) > 1 else _transform_axis
    for name, size, axis in steps:
        x = along(x, name, size, axis, norm, op)
    return x


def _transform_combined(steps: Sequence[tuple[str, int, int]], norm: str, x: Array) -> list[Array]:
    """Apply transforms to a small array by NumPy alone, in order; a step is a name, a size and an axis."""
    with np.errstate(all="ignore"):
        for name, size, axis in steps:
            x = getattr(np.fft, name)(x, size, axis, norm)
    return [np.ascontiguousarray(x)]


def _resolve_sizes(op: str, x: Tensor, s: Sizes, axes: Axes, halved: bool = False) -> tuple[list[int], list[int]]:
    """Return the size of each transformed axis, and the axes. With `halved`, the last axis has the result of `rfft`, and gets the size
    before.
    """
    requested = None if s is None else ints(op, (s,))
    if axes is None:
        count = x.ndim if requested is None else len(requested)
        if count > x.ndim:
            raise ArgumentError(f"{op}: s has {count} sizes, and shape {x.shape} has {x.ndim} axes")
        axis_list = list(range(x.ndim - count, x.ndim))
    else:
        axis_list = [axis_of(op, a, x.ndim) for a in ints(op, (axes,))]
    full_sizes = [x.shape[a] for a in axis_list]
    if halved and full_sizes:
        full_sizes[-1] = 2 * (full_sizes[-1] - 1)
    if requested is None:
        return full_sizes, axis_list
    if len(requested) != len(axis_list):
        raise ArgumentError(f"{op}: s has {len(requested)} sizes for {len(axis_list)} axes; it has one for each")
    return [full_size if n == -1 else n for n, full_size in zip(requested, full_sizes, strict=True)], axis_list


BACKWARD.update(COTANGENTS)
