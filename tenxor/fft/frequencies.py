"""The frequencies of Fourier transforms, and shifts of the frequency 0 to the middle."""

from __future__ import annotations

from collections.abc import Sequence

from .._utils.aliases import argument_aliases
from ..api.argument_validation import check_argument
from ..api.concatenation import roll
from ..api.creation import asarray, make_flat_indices
from ..dtypes import DEFAULT_FLOAT, DTypeLike
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError
from ..layout.coords import validate_int
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import normalize_axes, parse_ints
from ..tensor.core import Operand

Axes = int | Sequence[int] | None
__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def fftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the frequencies of the `n` elements of `fft`, as a new 1-D tensor. (Array API 2025.12, `fft.fftfreq`.)

    Parameters
    ----------
    n : int
        Number of samples, 1 or more.
    d : float, default 1.0
        Distance of the samples, not 0. The unit of the result is the inverse of the unit of `d`.
    dtype : dtype, default float64
        A real floating-point dtype.
    device : "cpu", optional

    Returns
    -------
    Tensor
        New tensor of shape (n,): the multiples of `1 / (n * d)` by 0, 1, 2, ..., then by the negative numbers up to -1.

    Raises
    ------
    ArgumentError
        If `n` is less than 1 or no integer, if `d` is 0 or no real number, or for another device.
    DTypeError
        If `dtype` is no real floating-point dtype.

    Examples
    --------
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

    (Array API 2025.12, `fft.rfftfreq`.)

    Parameters
    ----------
    n, d, dtype, device
        As in `fftfreq`: the number of samples, their distance, the dtype of the result, and "cpu" or None.

    Returns
    -------
    Tensor
        New tensor of shape (n // 2 + 1,): the multiples of `1 / (n * d)` by 0, 1, 2, ....

    Raises
    ------
    ArgumentError, DTypeError
        As in `fftfreq`.

    Examples
    --------
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
    """Return `k / (count * d)` in `dtype` (None: float64), for the tensor `k` of the numbers of frequencies.

    `count` is the number of samples and `d` their distance in time. Raise DTypeError for a `dtype` that is no float, and ArgumentError for
    a `d` of 0 or another `device` than "cpu".
    """
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

    (Array API 2025.12, `fft.fftshift`.)

    Parameters
    ----------
    x : Tensor
        Any dtype.
    axes : int or Sequence[int], optional
        The axes to shift, by default every axis. PyTorch's `dim` is an alias.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    AxisError
        If an axis does not exist or is named twice.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.fft.fftshift(tx.asarray([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _roll_axes(x, axes, 0)


@argument_aliases
def ifftshift(x: Operand, /, axes: Axes = None, *, dim: Axes = None) -> Tensor:
    """Return a new tensor: `x` with the frequency 0 moved from the middle of the axes back to the front, the inverse of `fftshift`.

    (Array API 2025.12, `fft.ifftshift`.)

    Parameters
    ----------
    x, axes
        As in `fftshift`: any dtype, and the axes to shift, by default every axis.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    AxisError
        As in `fftshift`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.fft.ifftshift(tx.asarray([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    return _roll_axes(x, axes, 1)


def _roll_axes(x: Operand, axes: Axes, back: int) -> Tensor:
    """Return a new tensor: `x` rolled by half the size of each of `axes`, rounded down; forward, or backward if `back` is 1.

    None as `axes` means every axis.
    """
    x = asarray(x)
    axis_list = normalize_axes("fftshift", None if axes is None else parse_ints("fftshift", "axes", (axes,)), x.ndim)
    shifts = tuple([-(x.shape[a] // 2) if back else x.shape[a] // 2 for a in axis_list])
    return roll(x, shifts, axis_list) if axis_list else x.copy()
