"""Functions of one table at the sizes where the program changes its way, in each state of operands and fast path, beside NumPy.

Every integer constant of the package may be a threshold, of bytes or of elements. A case takes a function, a size just below, at or
just above one of them, and a state of its operands: in memory, pending, a view, or shared with NumPy. The function is then called by
Python's own methods, and several times by the fast path, and its result is read alone, or within another expression.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np

import tenxor as tx
from tenxor import fastpath
from tenxor.errors import TenxorError

Array = np.ndarray[Any, Any]
Random = random.Random

MAX_OPERAND_BYTES = 1 << 23  # of an operand; thresholds above are for long work
MAX_SLOW_ELEMENTS = 1 << 17  # of an operand of functions that take longer than a pass over memory
DTYPES = ("float64", "float32", "int64", "int32", "int16", "uint8", "bool", "complex128", "complex64", "float16")
FLOATS = ("float64", "float32")
REALS = ("float64", "float32", "int64", "int32", "uint8", "int16")
NUMBERS = (*REALS, "complex128", "complex64")
INTEGERS = ("int64", "int32", "uint8", "int16")


class Case(NamedTuple):
    """A function of the table. `call` takes the namespace, NumPy or Tenxor, and operands; `slow` ones take more than a pass over memory."""

    call: Callable[..., Any]
    dtypes: tuple[str, ...] = REALS
    operands: int = 1
    slow: bool = False
    batched: bool = False  # whether `vmap` of it is tried
    matrices: bool = False  # whether operands are square matrices
    least: int = 0  # elements of an operand that it needs


def _elementwise(name: str, dtypes: tuple[str, ...] = FLOATS, operands: int = 1) -> Case:
    return Case(lambda xp, *x: getattr(xp, name)(*x), dtypes, operands, batched=True)


def _along(name: str, dtypes: tuple[str, ...] = REALS, slow: bool = False, **named: Any) -> Case:
    """Return the case of a function that takes the last axis, and by turns the first."""

    def call(xp: Any, x: Any) -> Any:
        return getattr(xp, name)(x, axis=0 if x.shape[0] % 2 else -1, **named)

    return Case(call, dtypes, slow=slow)


def _of(call: Callable[..., Any], dtypes: tuple[str, ...] = REALS, operands: int = 1, **more: Any) -> Case:
    return Case(call, dtypes, operands, **more)


TABLE: dict[str, Case] = {
    **{
        name: _elementwise(name)
        for name in [
            "acos",
            "asin",
            "atan",
            "cos",
            "cosh",
            "exp",
            "expm1",
            "log1p",
            "sin",
            "sinh",
            "tan",
            "tanh",
            "asinh",
            "exp2",
        ]
    },
    **{name: _elementwise(name, NUMBERS) for name in ["abs", "negative", "positive", "square"]},
    **{name: _elementwise(name, REALS) for name in ["ceil", "floor", "trunc", "round", "sign", "isfinite", "isinf", "isnan"]},
    **{name: _elementwise(name, (*FLOATS, "complex128")) for name in ["conj", "real", "imag"]},
    **{name: _elementwise(name, FLOATS) for name in ["signbit", "reciprocal"]},
    **{name: _elementwise(name, INTEGERS) for name in ("bitwise_invert",)},
    **{name: _elementwise(name, NUMBERS, 2) for name in ["add", "subtract", "multiply", "equal", "not_equal"]},
    **{name: _elementwise(name, REALS, 2) for name in ["less", "less_equal", "greater", "greater_equal", "maximum", "minimum"]},
    **{name: _elementwise(name, FLOATS, 2) for name in ["divide", "atan2", "copysign", "hypot", "logaddexp", "nextafter"]},
    **{name: _elementwise(name, INTEGERS, 2) for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]},
    **{name: _elementwise(name, DTYPES, 2) for name in ["logical_and", "logical_or", "logical_xor"]},
    "logical_not": _elementwise("logical_not", DTYPES),
    "sqrt": _of(lambda xp, x: xp.sqrt(abs(x)), FLOATS, batched=True),
    "log": _of(lambda xp, x: xp.log(abs(x) + 1), FLOATS, batched=True),
    "log2": _of(lambda xp, x: xp.log2(abs(x) + 1), FLOATS),
    "log10": _of(lambda xp, x: xp.log10(abs(x) + 1), FLOATS),
    "acosh": _of(lambda xp, x: xp.acosh(abs(x) + 1), FLOATS),
    "atanh": _of(lambda xp, x: xp.atanh(x / 64), FLOATS),
    "pow": _of(lambda xp, x, y: xp.pow(abs(x) + 1, y), FLOATS, 2),
    "floor_divide": _of(lambda xp, x, y: xp.floor_divide(x, y * y + 1), ("float64", "int64", "int32"), 2),
    "remainder": _of(lambda xp, x, y: xp.remainder(x, y * y + 1), ("float64", "int64", "int32"), 2),
    "bitwise_left_shift": _of(lambda xp, x: xp.bitwise_left_shift(x, 2), INTEGERS),
    "bitwise_right_shift": _of(lambda xp, x: xp.bitwise_right_shift(x, 2), INTEGERS),
    "clip": _of(lambda xp, x: xp.clip(x, 3, 17), REALS, batched=True),
    "where": _of(lambda xp, x, y: xp.where(x > 3, x, y), NUMBERS[:6], 2, batched=True),
    "astype": _of(lambda xp, x: xp.astype(x, xp.float64), REALS),
    "sum": _along("sum", NUMBERS),
    "prod": _of(lambda xp, x: xp.prod(x[..., :5] % 3, axis=-1), ("int64", "float64")),
    "max": _along("max"),
    "min": _along("min"),
    "mean": _along("mean", FLOATS),
    "var": _along("var", FLOATS),
    "std": _along("std", FLOATS),
    "any": _along("any", DTYPES),
    "all": _along("all", DTYPES),
    "argmax": _along("argmax"),
    "argmin": _along("argmin"),
    "count_nonzero": _along("count_nonzero", DTYPES),
    "median": _of(lambda xp, x: xp.median(x, axis=-1), FLOATS, slow=True, least=1),
    "cumulative_sum": _along("cumulative_sum", ("int64", "float64")),
    "cumulative_prod": _of(lambda xp, x: xp.cumulative_prod(x % 2 * 2 - 1, axis=-1), ("int64", "float64")),
    "sort": _along("sort", slow=True),
    "argsort": _of(lambda xp, x: xp.argsort(x, axis=-1, **({"stable": True} if xp is tx else {"kind": "stable"})), slow=True),
    "diff": _along("diff"),
    "flip": _along("flip", DTYPES),
    "roll": _of(lambda xp, x: xp.roll(x, x.shape[-1] // 2 + 1, axis=-1), DTYPES),
    "roll the first": _of(lambda xp, x: xp.roll(x, 3, axis=0), DTYPES),
    "roll all": _of(lambda xp, x: xp.roll(x, -5), DTYPES),
    "fftshift": _of(lambda xp, x: xp.fft.fftshift(x, axes=x.ndim - 1), DTYPES),
    "ifftshift": _of(lambda xp, x: xp.fft.ifftshift(x), DTYPES),
    "fft": _of(lambda xp, x: xp.fft.fft(x), ("float64", "complex128"), slow=True, least=1),
    "rfft": _of(lambda xp, x: xp.fft.rfft(x), ("float64",), slow=True, least=1),
    "concat": _of(lambda xp, x, y: xp.concat([x, y, x], axis=x.ndim - 1), DTYPES, 2),
    "stack": _of(lambda xp, x, y: xp.stack([x, y], axis=1), DTYPES, 2),
    "unstack": _of(lambda xp, x: xp.unstack(x[:3])[-1], DTYPES, least=1),
    "tile": _of(lambda xp, x: xp.tile(x, 2), DTYPES),
    "repeat": _of(lambda xp, x: xp.repeat(x, 2, axis=-1), DTYPES),
    "pad": _of(lambda xp, x: xp.pad(x, 2), REALS),
    "expand_dims": _of(lambda xp, x: xp.expand_dims(x, axis=1), DTYPES),
    "squeeze": _of(lambda xp, x: xp.squeeze(x[None], axis=0), DTYPES),
    "broadcast_to": _of(lambda xp, x: xp.broadcast_to(x, (2, *x.shape)), DTYPES),
    "moveaxis": _of(lambda xp, x: xp.moveaxis(x, 0, -1), DTYPES),
    "permute_dims": _of(lambda xp, x: xp.permute_dims(x, tuple(range(x.ndim))[::-1]), DTYPES),
    "reshape": _of(lambda xp, x: xp.reshape(xp.permute_dims(x, tuple(range(x.ndim))[::-1]), (-1,)), DTYPES),
    "take": _of(lambda xp, x: xp.take(x, xp.asarray(np.arange(0, x.shape[0], 3)), axis=0), DTYPES),
    "take_along_axis": _of(lambda xp, x: xp.take_along_axis(x, xp.asarray(np.argsort(np.asarray(x), axis=-1)), axis=-1), slow=True),
    "indices": _of(lambda xp, x: x[xp.asarray(np.arange(x.shape[0]) // 2)], DTYPES),
    "mask": _of(lambda xp, x: x[x > 4], REALS),
    "nonzero": _of(lambda xp, x: xp.nonzero(x > 4)[0], REALS),
    "searchsorted": _of(lambda xp, x: xp.searchsorted(xp.sort(x.reshape(-1)), x.reshape(-1)[:100]), REALS, slow=True),
    "unique_values": _of(lambda xp, x: xp.sort(xp.unique_values(x)), slow=True),
    "unique_counts": _of(lambda xp, x: xp.unique_counts(x).counts, slow=True),
    "isin": _of(lambda xp, x: xp.isin(x, xp.asarray([2, 5, 7])), INTEGERS, slow=True),
    "tril": _of(lambda xp, x: xp.tril(x), REALS, matrices=True),
    "triu": _of(lambda xp, x: xp.triu(x, k=1), REALS, matrices=True),
    "diagonal": _of(lambda xp, x: xp.linalg.diagonal(x) + 1, REALS, matrices=True),
    "matmul": _of(lambda xp, x, y: xp.matmul(x, y), (*FLOATS, "int64"), 2, matrices=True, slow=True),
    "matrix times vector": _of(lambda xp, x, y: xp.matmul(x, y[0]), FLOATS, 2, matrices=True, least=1),
    "vecdot": _of(lambda xp, x, y: xp.vecdot(x, y), FLOATS, 2),
    "tensordot": _of(lambda xp, x, y: xp.tensordot(x, y, axes=x.ndim), FLOATS, 2),
    "outer sum": _of(lambda xp, x: xp.sum(x[..., None] * x[..., None, :5], axis=-1), FLOATS),
    "bincount": _of(lambda xp, x: xp.bincount(abs(x.reshape(-1)), minlength=3), ("int64", "uint8")),
    "standardized rows": _of(lambda xp, x: (x - xp.mean(x, axis=-1, keepdims=True)) / (xp.std(x, axis=-1, keepdims=True) + 1), FLOATS),
    "softmax": _of(
        lambda xp, x: xp.exp(x - xp.max(x, axis=-1, keepdims=True)) / (1 + xp.sum(xp.exp(x), axis=-1, keepdims=True)),
        FLOATS,
    ),
    "a write of a part": _of(lambda xp, x: _written(x), REALS),
    "an update of a part": _of(lambda xp, x: _updated(x), REALS),
    "a write of a mask": _of(lambda xp, x: _masked(x), REALS),
}


def _written(x: Any) -> Any:
    x = x.copy()
    x[1:] = x[:-1]
    return x


def _updated(x: Any) -> Any:
    x = x.copy()
    x[..., ::2] += x[..., -1:] * 2
    return x


def _masked(x: Any) -> Any:
    x = x.copy()
    x[x > 3] = 1
    return x


@cache
def thresholds() -> tuple[int, ...]:
    """Return all integer constants of the loaded modules of the package that may be a number of bytes or elements."""
    values = {
        value
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "tenxor" and module is not None
        for constant, value in vars(module).items()
        if constant.isupper() and type(value) is int and 4 <= value <= MAX_OPERAND_BYTES
    }
    assert {1 << 14, 1 << 19, 1 << 20, 1 << 23} <= values, "thresholds that are known to be in the package"
    return tuple(sorted(values))


def itemsize(dtype: str) -> int:
    """Return the bytes of an element."""
    return np.dtype(dtype).itemsize


def _size(rng: Random, case: Case, itemsize: int) -> int:
    """Return a number of elements: next to a threshold of bytes or of elements, or small."""
    if rng.random() < 0.25:
        return rng.choice((0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100))
    threshold = rng.choice(thresholds())
    size = threshold if rng.random() < 0.5 else threshold // itemsize
    most = MAX_SLOW_ELEMENTS if case.slow else MAX_OPERAND_BYTES // itemsize
    return max(0, min(size, most) + rng.choice((-1, 0, 0, 1)))


def _shape(rng: Random, size: int) -> tuple[int, ...]:
    """Return a shape of so many elements, or a few more, of one to four axes."""
    kind = rng.randrange(6)
    side = rng.choice((2, 3, 5, 8, 16, 17, 64, 100))
    if kind == 0 or size < 2:
        return (size,)
    if kind == 1:
        return (-(-size // side), side)
    if kind == 2:
        return (side, -(-size // side))
    if kind == 3:
        return (2, -(-size // (2 * side)), side)
    if kind == 4:
        return (3, 2, -(-size // 18), 3)
    return (isqrt(size), isqrt(size))


def _array(rng: Random, shape: tuple[int, ...], dtype: str) -> Array:
    """Return small integers, for floats with halves, so that most sums are exact in all dtypes."""
    numbers = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 20, shape)
    if dtype in FLOATS:
        return ((numbers - 10) / 2).astype(dtype) / (8 if rng.random() < 0.5 else 1)
    return numbers.astype(dtype)


def _tensor(rng: Random, array: Array) -> tx.Tensor:
    """Return the values of an array as a tensor in some state."""
    state = rng.randrange(6)
    if state == 0:
        return tx.asarray(array) + tx.zeros((), dtype=tx.asarray(array).dtype) if array.dtype != bool else tx.asarray(array) | False
    if state == 1:
        return tx.asarray(array, copy=False)
    if state == 2 and array.ndim:
        return tx.flip(tx.asarray(np.flip(array, axis=0).copy()).realize(), axis=0) if array.size else tx.asarray(array)
    if state == 3 and array.ndim > 1:
        return tx.asarray(np.ascontiguousarray(array.T)).T
    if state == 4 and array.ndim:
        return tx.asarray(np.concatenate([array[:1], array]))[1:] if len(array) else tx.asarray(array)
    return tx.asarray(array).realize()


def _is_close(found: Any, expected: Any) -> bool:
    expected = np.asarray(expected)
    if found.shape != expected.shape:
        return False
    if found.dtype.kind in "fc" and expected.dtype.kind in "fc":
        near = {2: 2e-2, 4: 1e-4, 8: 1e-9 if found.dtype.kind == "f" else 1e-4, 16: 1e-9}[found.dtype.itemsize]
        scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
        with np.errstate(all="ignore"):
            return bool(np.allclose(found, expected, rtol=near, atol=near * scale, equal_nan=True))
    return bool(np.array_equal(found, expected))


def check(seed: int) -> None:
    """Try one function of the table at one size."""
    rng = random.Random(seed)
    name = rng.choice(list(TABLE))
    case = TABLE[name]
    dtype = rng.choice(case.dtypes)
    try_at(rng, name, dtype, _size(rng, case, itemsize(dtype)))


def try_at(rng: Random, name: str, dtype: str, size: int, *, python: bool = True) -> None:
    """Call a function of operands of about `size` elements, in some states. Its values must be NumPy's each time.

    With `python` the first call leaves the fast path aside, which is for one thread at a time; without it there is but one call.
    """
    case = TABLE[name]
    size = max(size, case.least)
    shape = (isqrt(size), isqrt(size)) if case.matrices else _shape(rng, size)
    arrays = [_array(rng, shape, dtype) for _ in range(case.operands)]
    told = f"{name} of {shape} {dtype}"
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        try:
            expected = np.asarray(case.call(np, *arrays))
        except (ValueError, IndexError):  # NumPy refuses it, a maximum of no elements for one
            expected = None
    for turn in range(3 if python else 1):
        tensors = [_tensor(rng, array) for array in arrays]
        try:
            with fastpath.disabled() if python and turn == 0 else nullcontext():
                found = _read(rng, case.call(tx, *tensors), expected)
        except TenxorError as error:
            assert expected is None, f"{told}, turn {turn}: {error}"
            continue
        assert expected is not None, f"{told}, turn {turn}: NumPy refuses it"
        assert _is_close(found, expected), f"{told}, turn {turn}: other values"
    if python and case.batched and expected is not None and prod(shape) <= MAX_SLOW_ELEMENTS:
        found = tx.vmap(lambda *x: case.call(tx, *x))(*[tx.stack([tx.asarray(a)] * 2) for a in arrays]).to_numpy()
        assert all(_is_close(part, expected) for part in found), f"{told}: other values by vmap"


def _read(rng: Random, result: Any, expected: Array | None) -> Array:
    """Return the values of a result, which is read alone, or as part of another expression that leaves them as they are."""
    if rng.random() < 0.3 and result.dtype != tx.bool and expected is not None:
        return (result + result * 0).to_numpy() if np.isfinite(expected).all() else result.to_numpy()
    return result.to_numpy()
