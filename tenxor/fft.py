"""Fourier transforms: the extension `fft` of the Python array API standard 2025.12, and NumPy's for two axes.

The transforms are NumPy's, on our memory, along one axis after the other; of long rows of real numbers half is found, and mirrored.
They compute in the precision of what they are given: float32 and complex64 in 32 bits, float64 and complex128 in 64. Integers and bools
become float64; float16 and bfloat16 are computed in float32, and stay so, as there are no narrower complex numbers.

`norm` says where results are divided by the number of elements `n`: "backward" by the inverse transforms, "forward" by the others,
"ortho" by both, by the root of `n`. `n` (or `s`, one for each axis) crops the axis to that many elements, or fills it up with zeros.
With `out` the result is written into that tensor, which is given back.
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
FEW = 1 << 9  # elements that NumPy transforms along all axes sooner than it is asked for each
FEW_REAL = 1 << 14  # the same of real numbers that become complex
LONG = 1 << 9  # elements along an axis of which half is found of real numbers, and mirrored, sooner than all of complex ones


# --- along one axis ---------------------------------------------------------------------------------------------------


@called_again
@spelled
def fft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """New complex tensor: the discrete Fourier transform along an axis, of which `n` elements are taken.

    Raises AxisError, ShapeError for no elements, and ArgumentError. (Array API 2025.12, `fft.fft`.)

    >>> import tenxor as tx
    >>> tx.fft.fft(tx.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
    [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """
    return into("fft", out, _along(computed(asarray(x)), "fft", n, axis, norm))


@called_again
@spelled
def ifft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """New complex tensor: the inverse of `fft` along an axis; errors as there. (Array API 2025.12, `fft.ifft`.)

    >>> import tenxor as tx
    >>> tx.fft.ifft(tx.asarray([10.0, -2 + 2j, -2.0, -2 - 2j])).tolist()
    [(1+0j), (2+0j), (3+0j), (4+0j)]
    """
    return into("ifft", out, _along(computed(asarray(x)), "ifft", n, axis, norm))


@called_again
@spelled
def rfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """New complex tensor: the first `n // 2 + 1` elements of the Fourier transform of real numbers; the others are their conjugates.

    Raises DTypeError for complex numbers, and errors as `fft`. (Array API 2025.12, `fft.rfft`.)

    >>> import tenxor as tx
    >>> tx.fft.rfft(tx.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
    [(10+0j), (-2+2j), (-2+0j)]
    """
    return into("rfft", out, _along(_real("rfft", x), "rfft", n, axis, norm))


@called_again
@spelled
def irfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """New real tensor: the inverse of `rfft`, of `n` elements along the axis, by default an even number, twice the size less 1.

    The imaginary part of the first element, and of the last for an even `n`, is not looked at. Errors as of `fft`.
    (Array API 2025.12, `fft.irfft`.)

    >>> import tenxor as tx
    >>> tx.fft.irfft(tx.asarray([10.0, -2 + 2j, -2.0])).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return into("irfft", out, _along(computed(asarray(x)), "irfft", n, axis, norm))


@called_again
@spelled
def hfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """New real tensor: the Fourier transform, of `n` elements along the axis, of a signal of which every later half
    is the conjugate of the given one.

    By default `n` is twice the size less 1. Errors as of `fft`. (Array API 2025.12, `fft.hfft`.)

    >>> import tenxor as tx
    >>> tx.fft.hfft(tx.asarray([1.0, 2.0, 3.0])).tolist()
    [8.0, -2.0, 0.0, -2.0]
    """
    return into("hfft", out, _along(computed(asarray(x)).conj(), "irfft", n, axis, TURNED[_norm("hfft", norm)], "hfft"))


@called_again
@spelled
def ihfft(
    x: Operand, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """New complex tensor: the inverse of `hfft`, the first `n // 2 + 1` elements. Raises DTypeError for complex
    numbers, and errors as `fft`.
    (Array API 2025.12, `fft.ihfft`.)

    >>> import tenxor as tx
    >>> tx.fft.ihfft(tx.asarray([8.0, -2.0, 0.0, -2.0])).tolist()
    [(1-0j), (2-0j), (3-0j)]
    """
    found: Tensor = _along(_real("ihfft", x), "rfft", n, axis, TURNED[_norm("ihfft", norm)], "ihfft").conj()
    return into("ihfft", out, found)


# --- along several axes -----------------------------------------------------------------------------------------------


@called_again
@spelled
def fftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """New complex tensor: the Fourier transform along several axes, by default all, or as many of the last as `s` has sizes.

    A size of -1 leaves an axis as it is. Raises AxisError, ShapeError and ArgumentError. (Array API 2025.12, `fft.fftn`.)

    >>> import tenxor as tx
    >>> tx.fft.fftn(tx.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return into("fftn", out, _along_all("fftn", "fft", computed(asarray(x)), s, axes, norm))


@called_again
@spelled
def ifftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """New complex tensor: the inverse of `fftn`; arguments and errors as there. (Array API 2025.12, `fft.ifftn`.)

    >>> import tenxor as tx
    >>> tx.fft.ifftn(tx.asarray([[10.0, -2.0], [-4.0, 0.0]])).tolist()
    [[(1+0j), (2+0j)], [(3+0j), (4+0j)]]
    """
    return into("ifftn", out, _along_all("ifftn", "ifft", computed(asarray(x)), s, axes, norm))


@called_again
@spelled
def rfftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """New complex tensor: the Fourier transform of real numbers along several axes, half of it along the last; as
    `rfft` there, and then as `fftn`.

    Raises DTypeError for complex numbers, and errors as `fftn`. (Array API 2025.12, `fft.rfftn`.)

    >>> import tenxor as tx
    >>> tx.fft.rfftn(tx.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    x = _real("rfftn", x)
    sizes, places = _sizes("rfftn", x, s, axes)
    if not places:
        raise ArgumentError("rfftn: give at least one axis, the one that is halved")
    names = ["rfft"] + ["fft"] * (len(places) - 1)  # as fftn goes; an axis may be named twice
    return into("rfftn", out, _in_steps("rfftn", x, list(zip(names, sizes[::-1], places[::-1], strict=True)), norm))


@called_again
@spelled
def irfftn(
    x: Operand, /, s: Sizes = None, axes: Axes = None, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """New real tensor: the inverse of `rfftn`; `s` is the shape of the result along the axes, by default twice the
    last size less 1, and the others as they are. Errors as of `fftn`. (Array API 2025.12, `fft.irfftn`.)

    >>> import tenxor as tx
    >>> tx.fft.irfftn(tx.asarray([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    found = computed(asarray(x))
    sizes, places = _sizes("irfftn", found, s, axes, halved=True)
    if not places:
        raise ArgumentError("irfftn: give at least one axis, the one that was halved")
    names = ["ifft"] * (len(places) - 1) + ["irfft"]
    return into("irfftn", out, _in_steps("irfftn", found, list(zip(names, sizes, places, strict=True)), norm))


@spelled
def fft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """New complex tensor: `fftn` along two axes, by default the last.

    >>> import tenxor as tx
    >>> tx.fft.fft2(tx.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return fftn(x, s, axes, norm, out=out)


@spelled
def ifft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """New complex tensor: `ifftn` along two axes, by default the last.

    >>> import tenxor as tx
    >>> tx.fft.ifft2(tx.asarray([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return ifftn(x, s, axes, norm, out=out)


@spelled
def rfft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """New complex tensor: `rfftn` along two axes, by default the last.

    >>> import tenxor as tx
    >>> tx.fft.rfft2(tx.ones((2, 3))).shape
    (2, 2)
    """
    return rfftn(x, s, axes, norm, out=out)


@spelled
def irfft2(
    x: Operand, /, s: Sizes = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *, dim: Axes = None, out: Tensor | None = None
) -> Tensor:
    """New real tensor: `irfftn` along two axes, by default the last.

    >>> import tenxor as tx
    >>> tx.fft.irfft2(tx.asarray([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return irfftn(x, s, axes, norm, out=out)


# --- frequencies ------------------------------------------------------------------------------------------------------


def fftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """New 1-D tensor, float64 unless a dtype is given: the frequencies of the `n` elements of `fft`, for samples that are `d` apart.

    Raises ArgumentError for no elements. (Array API 2025.12, `fft.fftfreq`.)

    >>> import tenxor as tx
    >>> tx.fft.fftfreq(5, d=0.2).tolist()
    [0.0, 1.0, 2.0, -2.0, -1.0]
    """
    count = _count("fftfreq", n)
    k = positions((count,))
    signed = Tensor._compute(OPS["where"], k > (count - 1) // 2, k - count, k)
    return _frequencies("fftfreq", signed, count, d, dtype, device)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """New 1-D tensor, float64 unless a dtype is given: the frequencies of the elements of `rfft` of `n` samples that are `d` apart.

    Raises ArgumentError for no elements. (Array API 2025.12, `fft.rfftfreq`.)

    >>> import tenxor as tx
    >>> tx.fft.rfftfreq(5, d=0.2).tolist()
    [0.0, 1.0, 2.0]
    """
    count = _count("rfftfreq", n)
    return _frequencies("rfftfreq", positions((count // 2 + 1,)), count, d, dtype, device)


def _count(op: str, n: int) -> int:
    count = checked_int(op, "n", n)
    if count < 1:
        raise ArgumentError(f"{op}: n is {count}; frequencies are those of 1 sample or more")
    return count


def _frequencies(op: str, k: Tensor, count: int, d: float, dtype: object, device: str | None) -> Tensor:
    found = DEFAULT_FLOAT if dtype is None else dtype_of(dtype)
    if not found.is_float:
        raise DTypeError(f"{op}: frequencies are real floats, not {found}")
    check(op, "d, the time between samples,", d, "float")
    if not d:
        raise ArgumentError(f"{op}: samples that are {d} apart have no frequencies")
    return asarray((k.astype(DEFAULT_FLOAT) / (count * float(d))).astype(found), device=device)


@spelled
def fftshift(x: Operand, /, axes: Axes = None, *, dim: Axes = None) -> Tensor:
    """New tensor: `x` with the frequency 0, which `fft` puts first, in the middle of the axes, by default all. Raises AxisError.
    (Array API 2025.12, `fft.fftshift`.)

    >>> import tenxor as tx
    >>> tx.fft.fftshift(tx.asarray([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _shifted("fftshift", x, axes, 0)


@spelled
def ifftshift(x: Operand, /, axes: Axes = None, *, dim: Axes = None) -> Tensor:
    """New tensor: the inverse of `fftshift`. Raises AxisError. (Array API 2025.12, `fft.ifftshift`.)

    >>> import tenxor as tx
    >>> tx.fft.ifftshift(tx.asarray([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    return _shifted("ifftshift", x, axes, 1)


def _shifted(op: str, x: Operand, axes: Axes, back: int) -> Tensor:
    x = asarray(x)
    places = axes_of(op, None if axes is None else ints(op, (axes,)), x.ndim)
    shifts = tuple([-(x.shape[a] // 2) if back else x.shape[a] // 2 for a in places])
    return roll(x, shifts, places) if places else x.copy()


# --- what they have in common -----------------------------------------------------------------------------------------


def _real(op: str, x: Any) -> Tensor:
    found = computed(asarray(x))
    if found.dtype.is_complex:
        other = op.replace("ihfft", "ifft").replace("rfft", "fft")
        raise DTypeError(f"{op}: takes real numbers, not {found.dtype}; use {other}, or tx.real(x)")
    return found


def _norm(op: str, norm: str | None) -> str:
    if norm is not None and not (isinstance(norm, str) and norm in TURNED):
        raise ArgumentError(f"{op}: norm is 'backward', 'ortho' or 'forward', not {described(norm)}")
    return norm or "backward"


def _along(x: Tensor, name: str, n: int | None, axis: int, norm: str | None, op: str | None = None) -> Tensor:
    """One transform along one axis, for the function `op`."""
    op = op or name
    norm = _norm(op, norm)
    place = axis_of(op, axis, x.ndim)
    size = x.shape[place]
    own = 2 * (size - 1) if name == "irfft" else size
    n = own if n is None else checked_int(op, "n", n)
    if n < 1:
        raise ShapeError(f"{op}: axis {place} of shape {x.shape} gives {n} elements to transform; there must be 1 or more")
    check_count(op, (n,))
    if name in ("fft", "ifft") and not x.dtype.is_complex:
        if n >= LONG:
            return _mirrored(x, name, n, place, norm, op)
        return _one_of_several(x.astype(complex_of(x.dtype)), name, n, place, norm, op)
    if not size:  # what fills it up begins here: NumPy's irfft reads an element that there is not
        x = concat([x, zeros([1 if k == place else m for k, m in enumerate(x.shape)], dtype=x.dtype)], axis=place)
    kept = n // 2 + 1 if name == "rfft" else n
    (found,) = hosted(name, x.moveaxis(place, -1), sizes={"k": kept}, n=n, norm=norm)
    return found.moveaxis(-1, place)


def _mirrored(x: Tensor, name: str, n: int, axis: int, norm: str, op: str) -> Tensor:
    """The transform of real numbers, of which the later half is the conjugate of the other, from the end on."""
    half = _one_of_several(x, "rfft", n, axis, norm if name == "fft" else TURNED[norm], op).moveaxis(axis, -1)
    rest = half[..., 1 : (n + 1) // 2].flip(-1)
    parts = [half, rest.conj()] if name == "fft" else [half.conj(), rest]
    return concat(parts, axis=-1).moveaxis(-1, axis)


@called_again
def _one_of_several(x: Tensor, name: str, n: int | None, axis: int, norm: str | None, op: str) -> Tensor:
    """The same, remembered by itself."""
    return _along(x, name, n, axis, norm, op)


def _along_all(op: str, name: str, x: Tensor, s: Sizes, axes: Axes, norm: str | None) -> Tensor:
    sizes, places = _sizes(op, x, s, axes)
    _norm(op, norm)
    return _in_steps(op, x, [(name, size, axis) for size, axis in zip(sizes[::-1], places[::-1], strict=True)], norm) if places else x + 0j


def _in_steps(op: str, x: Tensor, steps: Sequence[tuple[str, int, int]], norm: str | None) -> Tensor:
    """Transforms, by name, one after the other, each with a size along an axis."""
    sizes, places = [size for _, size, _ in steps], {axis for *_, axis in steps}
    few = FEW if x.dtype.is_complex or steps[0][0] == "rfft" else FEW_REAL
    if len(steps) == len(places) > 1 and 0 < min(sizes) <= max(sizes) < few:
        found = at_once(partial(_of_few, tuple(steps), _norm(op, norm)), x, few=few)
        if found is not None:
            return found[0]
    along = _one_of_several if len(steps) > 1 else _along
    for name, size, axis in steps:
        x = along(x, name, size, axis, norm, op)
    return x


def _of_few(steps: Sequence[tuple[str, int, int]], norm: str, x: Array) -> list[Array]:
    """The same by NumPy alone."""
    with np.errstate(all="ignore"):
        for name, size, axis in steps:
            x = getattr(np.fft, name)(x, size, axis, norm)
    return [np.ascontiguousarray(x)]


def _sizes(op: str, x: Tensor, s: Sizes, axes: Axes, halved: bool = False) -> tuple[list[int], list[int]]:
    """The size of each axis that is transformed, and the axes; one that was `halved` is the last."""
    given = None if s is None else ints(op, (s,))
    if axes is None:
        count = x.ndim if given is None else len(given)
        if count > x.ndim:
            raise ArgumentError(f"{op}: s has {count} sizes, and shape {x.shape} has {x.ndim} axes")
        places = list(range(x.ndim - count, x.ndim))
    else:
        places = [axis_of(op, a, x.ndim) for a in ints(op, (axes,))]
    own = [x.shape[a] for a in places]
    if halved and own:
        own[-1] = 2 * (own[-1] - 1)
    if given is None:
        return own, places
    if len(given) != len(places):
        raise ArgumentError(f"{op}: s has {len(given)} sizes for {len(places)} axes; it has one for each")
    return [mine if n == -1 else n for n, mine in zip(given, own, strict=True)], places


BACKWARD.update(COTANGENTS)
