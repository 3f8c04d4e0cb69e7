"""Elements of every dtype as NumPy arrays (`bfloat16` by ml_dtypes), in and out of tensors, and how to compare them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES, DType, bfloat16, float16, float32, float64

Array = np.ndarray[Any, Any]
ELEMENT: dict[DType, Any] = {d: np.dtype(ml_dtypes.bfloat16) if d is bfloat16 else d.numpy for d in ALL_DTYPES}
DTYPE = {element: d for d, element in ELEMENT.items()}
FLOATS = (float16, bfloat16, float32, float64)
INTEGERS = tuple(d for d in ALL_DTYPES if d.is_integer)
REAL = tuple(d for d in ALL_DTYPES if not d.is_complex)  # complex ones have tests of their own


def tensor(values: Array) -> tx.Tensor:
    """Return a new tensor with the elements of an array, bit for bit."""
    if DTYPE[values.dtype] is bfloat16:
        return tx.asarray(np.ascontiguousarray(values).view(np.uint16).reshape(values.shape)).view(bfloat16)
    return tx.asarray(values)


def array(t: tx.Tensor) -> Array:
    """Return a new array with the elements of a tensor."""
    return t.to_numpy().astype(ELEMENT[t.dtype], copy=False)


def narrowed(values: Array, dtype: DType) -> Array:
    """Return values rounded once to a float dtype."""
    with np.errstate(all="ignore"):
        if dtype is bfloat16 and values.dtype.itemsize > 4:  # ml_dtypes goes through float32 and would round twice
            rounded = values.astype(np.float32)
            cut = np.where(np.abs(rounded) > np.abs(values), np.nextafter(rounded, np.float32(0)), rounded)
            inexact = np.isfinite(values) & (rounded != values)
            bits = cut.view(np.uint32) | inexact.astype(np.uint32)
            return bits.view(np.float32).astype(ml_dtypes.bfloat16)
        return values.astype(ELEMENT[dtype])


# --- what to compute with ---------------------------------------------------------------------------------------------

ORDINARY = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 7.0, 0.1, np.pi, 10.0, 100.7, 1e-5, 87.5, 11.0, 700.0, 65504.0]


def specials(dtype: DType) -> Array:
    """Return zeros, units, halves, limits and their neighbours, infinities and NaN."""
    element = ELEMENT[dtype]
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.kind == "float":
        info = ml_dtypes.finfo(element)
        limits = [info.max, info.smallest_normal, info.smallest_subnormal, info.eps, 1 + info.eps, 1 - info.eps / 2]
        integers = [2.0**info.nmant - 0.5, 2.0**info.nmant, 2.0 ** (info.nmant + 1), 2.0 ** (info.nmant + 1) - 1]
        values = [*ORDINARY, *map(float, limits), *(w for w in integers if w <= info.max), np.inf, np.nan]
        with np.errstate(over="ignore"):
            return narrowed(np.array([s * v for v in values for s in (1, -1)]), dtype)
    low, high, n = int(dtype.lowest), int(dtype.highest), dtype.bits
    values = [low, low + 1, 0, 1, 2, 3, 5, 7, n - 1, n, n + 1, 100, high // 2, high // 2 + 1, high - 1, high]
    values += [-1, -2, -3, -7, -n] if low else []
    values += [2**53 + 1, 2**62 + 2**54 + 1] if n == 64 else []
    return np.array(values, element)


def random(dtype: DType, size: int, seed: int = 0) -> Array:
    """Return elements over the whole range of a dtype; floats are mostly of moderate magnitude."""
    rng = np.random.default_rng([seed, dtype.rank])
    if dtype.kind == "bool":
        return rng.integers(0, 2, size).astype(bool)
    if dtype.is_complex:
        components = random(dtype.part, 2 * size, seed)
        return components.view(dtype.numpy)
    if dtype.kind == "float":
        scale = 2.0 ** rng.integers(-4, 5, size)
        return narrowed(rng.normal(size=size) * scale, dtype)
    wide = rng.integers(int(dtype.lowest), int(dtype.highest), size, dtype.numpy, endpoint=True)
    return np.where(rng.random(size) < 0.5, wide, rng.integers(0, 100, size).astype(dtype.numpy))


def operands(dtypes: tuple[DType, ...]) -> list[Array]:
    """Return arrays with all pairs of special values, then random ones; no vector length divides their size."""
    grids = np.meshgrid(*map(specials, dtypes[:2]), indexing="ij")
    columns = [g.ravel() for g in grids]
    columns += [np.roll(np.resize(specials(d), columns[0].size), 5) for d in dtypes[2:]]
    tail = 77 + (13 - 77 - columns[0].size) % 64
    return [np.concatenate([c, random(d, tail, k)]) for k, (c, d) in enumerate(zip(columns, dtypes, strict=True))]


# --- comparing --------------------------------------------------------------------------------------------------------


def bits(values: Array) -> Array:
    """Return elements as integers, with one value for all NaN."""
    if values.dtype.kind in "biu":
        return values
    if values.dtype.kind == "c":
        return np.stack([bits(values.real.copy()), bits(values.imag.copy())], axis=-1)
    integer = np.dtype(f"i{values.dtype.itemsize}")
    return np.where(np.isnan(values), np.iinfo(integer).max, np.ascontiguousarray(values).view(integer).reshape(values.shape))


def assert_identical(actual: Array, expected: Array, *label: Any) -> None:
    """Check that arrays have equal bits, shapes and dtypes."""
    __tracebackhide__ = True
    assert actual.dtype == expected.dtype, (*label, actual.dtype, expected.dtype)
    assert actual.shape == expected.shape, (*label, actual.shape, expected.shape)
    _assert_all(bits(actual) == bits(expected), actual, expected, *label)


def assert_close(actual: Array, expected: Array, ulps: float, scale: Array | None = None, *label: Any) -> None:
    """Check that arrays differ by at most `ulps` units in the last place of `expected`, or of `scale` where it is larger."""
    __tracebackhide__ = True
    assert actual.dtype == expected.dtype, (*label, actual.dtype, expected.dtype)
    assert actual.shape == expected.shape, (*label, actual.shape, expected.shape)
    a, b = actual.astype(np.longdouble), expected.astype(np.longdouble)
    magnitude = np.abs(b) if scale is None else np.maximum(np.abs(b), np.abs(scale.astype(np.longdouble)))
    info = ml_dtypes.finfo(actual.dtype)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(magnitude)
        unit = np.maximum(np.ldexp(np.longdouble(1), exponent - info.nmant - 1), np.longdouble(info.smallest_subnormal))
        is_near = np.abs(a - b) <= ulps * unit
        finite = np.isfinite(b) & np.isfinite(a)
        overflow = (np.isinf(a) | np.isinf(b)) & (np.sign(a) == np.sign(b)) & (np.minimum(np.abs(a), np.abs(b)) >= info.max)
    same_sign = (np.signbit(a) == np.signbit(b)) | (magnitude > np.abs(b)) | (b != 0)
    _assert_all(np.where(finite, is_near & same_sign, (bits(actual) == bits(expected)) | overflow), actual, expected, *label)


def _assert_all(matches: Array, actual: Array, expected: Array, *label: Any) -> None:
    __tracebackhide__ = True
    if not matches.all():
        first = tuple(int(i) for i in np.argwhere(~matches)[0])[: actual.ndim]
        raise AssertionError(
            f"{' '.join(map(str, label))}: {int((~matches).sum())} of {matches.size} elements differ, first at {first}: "
            f"{actual[first]!r} instead of {expected[first]!r}"
        )


# --- every kind of view -----------------------------------------------------------------------------------------------

ROWS, COLUMNS = 11, 13
_SOME_ROWS = [3, 0, 7, 7, 1, 9, 2, 15, 4, 11, 6]
_SOME_COLUMNS = [5, 1, 0, 2, 2, 12, 3, 9, 8, 4, 11, 6, 10]


def _gathered_columns(x: Any) -> Any:
    rows = x[: 11 * 13].reshape(11, 13)
    return rows.oindex[:, _SOME_COLUMNS] if isinstance(x, tx.Tensor) else rows[:, _SOME_COLUMNS]


def _gathered(x: Any) -> Any:
    rows = x[: 16 * 13].reshape(16, 13)
    return rows.oindex[_SOME_ROWS, _SOME_COLUMNS] if isinstance(x, tx.Tensor) else rows[np.ix_(_SOME_ROWS, _SOME_COLUMNS)]


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    return x.expand(shape) if isinstance(x, tx.Tensor) else np.broadcast_to(x, shape)


def _windows(x: Any) -> Any:
    return x[:23].windows(0, 13) if isinstance(x, tx.Tensor) else np.lib.stride_tricks.sliding_window_view(x[:23], 13)


# Each makes a (11, 13) view of 300 elements, the same of a tensor and of an array.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x[:143].reshape(11, 13),
    "offset": lambda x: x[1:144].reshape(11, 13),
    "transposed": lambda x: x[:143].reshape(13, 11).T,
    "negative": lambda x: x[:143].reshape(11, 13)[::-1, ::-1],
    "strided": lambda x: x[:286].reshape(11, 26)[:, ::2],
    "narrow": lambda x: x[:220].reshape(11, 20)[:, 3:16],
    "one row": lambda x: _spread(x[:13], (11, 13)),
    "one column": lambda x: _spread(x[:11].reshape(11, 1), (11, 13)),
    "one element": lambda x: _spread(x[5:6].reshape(1, 1), (11, 13)),
    "gathered": _gathered,
    "gathered columns": _gathered_columns,
    "chained": lambda x: x[:143].reshape(13, 11).T.reshape(13, 11).T,
    "chained flat": lambda x: x[:143].reshape(13, 11).T.reshape(143)[::-1].reshape(11, 13),
    "windows": _windows,
}
