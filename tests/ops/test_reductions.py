"""Every reduction, of every dtype, over any axes, through every kind of view, against NumPy and Python's integers."""

from __future__ import annotations

import itertools
import warnings
from math import prod
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import DType, bfloat16, boolean, float16, float32, float64, int8, int64, uint8, uint64
from tenxor.errors import ArgumentError, AxisError, DTypeError, ShapeError
from tenxor.ops.reductions import REDUCTIONS
from tenxor.runtime.planner import preview_kernels

from .values import ELEMENT, FLOATS, INTEGERS, REAL, VIEWS, Array, array, assert_close, assert_identical, narrowed, random, tensor

Axes = int | tuple[int, ...] | None
NAMES = ("sum", "prod", "max", "min", "any", "all", "count_nonzero", "argmax", "argmin", "mean", "var", "std")
AVERAGES = ("mean", "var", "std")
LENGTHS = (*range(1, 36), 63, 64, 65, 127, 128, 129, 200, 255, 257, 300)


def accepts(name: str, dtype: DType) -> bool:
    return dtype is not boolean or name not in ("var", "std")


def wide_integer(dtype: DType) -> DType:
    """Return the dtype of sums of an integer dtype."""
    return uint64 if dtype.kind == "uint" else int64


def reference(name: str, x: Array, dtype: DType, axis: Axes, keepdims: bool = False) -> Array:
    """Return the reference result of a reduction; sums and averages of floats are computed in long double."""
    options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if name in ("argmax", "argmin"):
        order = x.astype(np.float32) if dtype is bfloat16 else x
        return np.asarray(getattr(np, name)(order, **options)).astype(np.int64)
    if name in ("any", "all"):
        return np.asarray(getattr(np, name)(x != 0, **options))
    if name == "count_nonzero":
        return np.asarray((x != 0).sum(dtype=np.int64, **options))
    if name in ("max", "min"):
        order = x.astype(np.float32) if dtype is bfloat16 else x
        return np.asarray(getattr(np, name)(order, **options)).astype(ELEMENT[dtype])
    if name in AVERAGES:
        result = dtype if dtype.is_float else float64
        return narrowed(np.asarray(getattr(np, name)(x.astype(np.longdouble), **options)), result)
    if dtype.is_float:
        return narrowed(np.asarray(getattr(np, name)(x.astype(np.longdouble), **options)), dtype)
    return np.asarray(getattr(np, name)(x.astype(wide_integer(dtype).numpy), dtype=wide_integer(dtype).numpy, **options))


def magnitude(name: str, x: Array, axis: Axes, keepdims: bool = False) -> Array:
    """Return the magnitude of the intermediate results, in which the error bound is expressed."""
    x = np.abs(x.astype(np.longdouble))
    options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if name in ("var", "std"):
        return np.asarray((x**2).mean(**options)) ** (0.5 if name == "std" else 1)
    return np.asarray(x.mean(**options) if name == "mean" else x.sum(**options) if name == "sum" else x.prod(**options))


def check(name: str, t: tx.Tensor, x: Array, axis: Axes, keepdims: bool = False, label: object = "") -> None:
    __tracebackhide__ = True
    dtype = t.dtype
    actual = array(getattr(t, name)(axis=axis, keepdims=keepdims))
    with np.errstate(all="ignore"):
        wanted = reference(name, x, dtype, axis, keepdims)
        label_parts = (name, dtype, x.shape, "axis", axis, label)
        if wanted.dtype.kind in "biu" or name in ("max", "min"):
            assert_identical(actual, wanted, *label_parts)
            return
        count = max(1, x.size // max(1, actual.size))
        ulps = 2 + count if name == "prod" else 3 + count**0.5
        scale = magnitude(name, x, axis, keepdims)
        if dtype.is_float and dtype.bits == 16:  # the state is a float32, so only the last rounding counts
            ulps, scale = 1, np.maximum(np.abs(wanted.astype(np.float64)), scale / 2**10)
        assert_close(actual, wanted, ulps, scale, *label_parts)


def samples(name: str, dtype: DType, size: int, seed: int = 0) -> Array:
    """Return elements whose products stay in range."""
    x = random(dtype, size, seed)
    if name == "prod" and dtype.is_float:
        rng = np.random.default_rng(seed)
        return narrowed(np.exp(rng.uniform(-1, 1, size) / 8) * rng.choice([-1, 1], size), dtype)
    if name in ("sum", *AVERAGES) and dtype is float16:
        return x / np.float16(8)
    if name in ("any", "all", "count_nonzero", "argmax", "argmin"):
        return x // x.dtype.type(32) if dtype.is_integer else x
    return x


@pytest.mark.parametrize("name", NAMES)
def test_reductions_of_every_dtype_and_length_match_reference(name: str) -> None:
    """The inputs are flat tensors with vectors and tails, and rows and columns of matrices."""
    for dtype in REAL:
        if not accepts(name, dtype):
            with pytest.raises(DTypeError, match=f"{name}: does not accept bool"):
                getattr(tx.ones(3, dtype=dtype), name)()
            continue
        x = samples(name, dtype, 3 * 300)
        t = tensor(x)
        for n in LENGTHS:
            check(name, t[:n], x[:n], None)
        for n in (1, 2, 7, 33, 100, 300):
            check(name, t[: 3 * n].reshape(3, n), x[: 3 * n].reshape(3, n), 1)
            check(name, t[: 3 * n].reshape(n, 3), x[: 3 * n].reshape(n, 3), 0)
            check(name, t[: 3 * n].reshape(3, n), x[: 3 * n].reshape(3, n), 0)


@pytest.mark.parametrize("name", NAMES)
def test_reductions_over_any_axes_match_reference(name: str) -> None:
    shape = (3, 5, 1, 7)
    subsets: list[Axes] = [None, *range(-4, 4)]
    if name not in ("argmax", "argmin"):
        subsets += [s for k in range(5) for s in itertools.combinations(range(4), k)]
        subsets += [(2, 0), (-1, 1)]
    for dtype in (float32, int64):
        x = samples(name, dtype, 105).reshape(shape)
        t = tensor(x)
        for axis in subsets:
            for keepdims in (False, True):
                check(name, t, x, axis, keepdims)


# The interpreter adds element by element, so the mean of many equal elements differs from the element.
@pytest.mark.parametrize("kind", [k if k != "one element" else pytest.param(k, marks=pytest.mark.large) for k in VIEWS])
def test_reductions_of_views_match_reference(kind: str) -> None:
    for k, name in enumerate(NAMES):
        dtype = [d for d in REAL if accepts(name, d)][(k + 5 * list(VIEWS).index(kind)) % 12]
        x = samples(name, dtype, 300)
        for axis in (None, 0, 1):
            check(name, VIEWS[kind](tensor(x)), VIEWS[kind](x), axis, label=kind)


@pytest.mark.parametrize("name", NAMES)
def test_reductions_of_empty_axes_give_the_identity_or_raise(name: str) -> None:
    for dtype in (float16, float64, uint8, int64):
        t, x = tx.zeros((3, 0, 2), dtype=dtype), np.zeros((3, 0, 2), ELEMENT[dtype])
        if REDUCTIONS[name].has_identity if name in REDUCTIONS else False:
            for axis in (None, 1, (0, 1)):
                check(name, t, x, axis)
        elif name not in AVERAGES:
            for axis in (None, 1):
                with pytest.raises(ShapeError, match=f"{name}: axis 1 of shape .* has size 0"):
                    getattr(t, name)(axis=axis)
        else:
            assert np.isnan(array(getattr(t, name)(axis=1))).all()
            assert getattr(t, name)(axis=1).shape == (3, 2)
        assert getattr(t, name)(axis=2).shape == (3, 0)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("argmax", "argmin")])
def test_reductions_of_one_element_and_over_no_axes_match_reference(name: str) -> None:
    for dtype in (bfloat16, float32, int8, boolean):
        if accepts(name, dtype):
            check(name, tx.asarray(1, dtype=dtype), np.ones((), ELEMENT[dtype]), None)
            check(name, tx.full((2, 3), 1, dtype=dtype), np.ones((2, 3), ELEMENT[dtype]), ())


# --- special values ---------------------------------------------------------------------------------------------------

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_reductions_propagate_nan_and_infinities(dtype: DType) -> None:
    for n in (1, 2, 5, 31, 64, 77, 300):
        for position in {0, n // 2, n - 1}:
            x = random(dtype, n)
            x[position] = NAN
            t = tensor(x)
            for name in ("sum", "prod", "max", "min", "mean", "var"):
                assert np.isnan(array(getattr(t, name)())), (name, n, position)
            assert t.argmax().item() == t.argmin().item() == position
            assert t.any().item() and t.count_nonzero().item() == np.count_nonzero(x.astype(np.float32))
        for value in (INF, -INF):
            t = tx.full((n,), value, dtype=dtype)
            assert t.max().item() == t.min().item() == value == t.sum().item() == t.mean().item()
            assert t.argmax().item() == t.argmin().item() == 0, (value, n)
            assert t.reshape(n, 1).argmax(0).tolist() == [0]


def test_max_and_min_order_signed_zeros() -> None:
    for dtype in FLOATS:
        for n in (2, 3, 40):
            x = np.zeros(n, ELEMENT[dtype])
            x[n // 2] = -0.0
            assert_identical(array(tensor(x).min()), np.array(-0.0, x.dtype), "min", dtype, n)
            assert_identical(array(tensor(x).max()), np.array(0.0, x.dtype), "max", dtype, n)
            assert tensor(x).argmax().item() == 0 == tensor(x).argmin().item()  # the zeros are equal
            assert not tensor(x).any().item()


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_argmax_and_argmin_return_first_of_equal_values(dtype: DType) -> None:
    """The equal values are at two positions: in one vector, in different vectors, and in the tail."""
    for n in (2, 9, 40, 150):
        x = np.ones(n, ELEMENT[dtype]) if dtype is not boolean else np.zeros(n, bool)
        high = x.copy()
        for a, b in ((0, n - 1), (n // 3, n // 2), (n - 2, n - 1), (1, 1)):
            high[:] = x
            high[[a, b]] = True if dtype is boolean else 3
            assert tensor(high).argmax().item() == min(a, b), (n, a, b)
            low = ~high if dtype is boolean else (4 - high).astype(high.dtype)
            assert tensor(low).argmin().item() == min(a, b), (n, a, b)
            columns = np.stack([high, x], axis=1)
            assert tensor(columns).argmax(axis=0).tolist() == [min(a, b), 0]
        assert tensor(x).argmax().item() == 0 == tensor(x).argmin().item()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_reductions_of_extreme_integers_are_exact_or_wrap(dtype: DType) -> None:
    low, high = int(dtype.lowest), int(dtype.highest)
    for n in (1, 20, 100):
        for value in (low, high):
            t = tx.full((n,), value, dtype=dtype)
            assert t.max().item() == value == t.min().item() and t.argmax().item() == 0 == t.argmin().item()
            exact = value * n
            bits = (exact + 2**63) % 2**64 - 2**63 if dtype.kind == "int" else exact % 2**64
            assert t.sum().item() == bits and t.sum().dtype is wide_integer(dtype)
            assert abs(t.mean().item() - value) <= abs(value) * 2**-50
            assert t.prod().item() == (pow(value, n) + (2**63 if low else 0)) % 2**64 - (2**63 if low else 0)


def test_sums_use_documented_dtypes() -> None:
    t = tx.asarray([200, 100], dtype=uint8)
    assert (t.sum().dtype, t.sum().item()) == (uint64, 300)
    assert (t.sum(dtype=uint8).dtype, t.sum(dtype=uint8).item()) == (uint8, 44)
    assert (t.sum(dtype=float32).dtype, t.sum(dtype=float32).item()) == (float32, 300.0)
    assert tx.asarray([True, True]).sum().dtype is int64 and tx.asarray([True, False]).mean().item() == 0.5
    assert tx.ones(3, dtype=float16).mean().dtype is float16 and tx.ones(3, dtype=int8).mean().dtype is float64
    ones = tx.ones(4000, dtype=float16)
    assert ones.sum().item() == 4000.0  # a float16 state would stop at 2048
    assert tx.ones(1000, dtype=bfloat16).sum().item() == 1000.0
    assert (tx.full((70000,), 1.0, dtype=float16).mean()).item() == 1.0  # the sum is beyond float16


# --- averages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["var", "std"])
def test_var_and_std_corrections_match_numpy(name: str) -> None:
    for dtype in FLOATS:
        x = random(dtype, 91).reshape(7, 13)
        for correction in (0, 1, 0.5, 2.0, 6):
            for axis in (None, 0, 1):
                actual = array(getattr(tensor(x), name)(axis=axis, correction=correction, keepdims=True))
                wanted = getattr(np, name)(x.astype(np.longdouble), axis=axis, ddof=correction, keepdims=True)
                assert_close(actual, narrowed(wanted, dtype), 1 if dtype.bits == 16 else 8, None, name, dtype, correction, axis)
    with np.errstate(all="ignore"):
        assert np.isnan(tx.asarray([1.0]).var(correction=1).item())
    shifted = tx.asarray(np.array([1e8, 1e8 + 1, 1e8 + 2]))
    assert abs(shifted.var().item() - 2 / 3) < 1e-7  # two passes: not the mean of squares less the square of the mean


# --- running ones -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_cumulative_reductions_match_numpy(name: str) -> None:
    for dtype in REAL:
        flat = samples(name, dtype, 3 * 7 * 45)
        result = dtype if dtype.is_float else wide_integer(dtype)
        for shape, axis in (
            ((3, 7, 45), 0),
            ((3, 7, 45), 1),
            ((3, 7, 45), -1),
            ((945,), 0),
            ((3, 315), 1),
            ((315, 3), 0),
        ):
            x = flat.reshape(shape)
            actual = array(getattr(tx, f"cumulative_{name}")(tensor(x), axis=axis))
            with np.errstate(all="ignore"):
                running = getattr(np, f"cum{name}")
                if not dtype.is_float:
                    assert_identical(actual, running(x.astype(result.numpy), axis=axis), name, dtype, axis)
                    continue
                wanted = narrowed(running(x.astype(np.longdouble), axis=axis), dtype)
                scale = running(np.abs(x.astype(np.longdouble)), axis=axis)
                if dtype.bits == 16:  # the state is a float32, so only the last rounding counts
                    scale = np.maximum(np.abs(wanted.astype(np.float64)), scale / 2**10)
                assert_close(actual, wanted, 1 if dtype.bits == 16 else 45, scale, name, dtype, shape, axis)


def test_cumulative_reductions_of_views_and_with_include_initial_match_numpy() -> None:
    x = random(int64, 300)
    for kind, view in VIEWS.items():
        for axis in (0, 1):
            assert_identical(array(view(tensor(x)).cumulative_sum(axis)), view(x).cumsum(axis), kind, axis)
    assert tx.cumulative_sum(tx.asarray([1, 2, 3]), include_initial=True).tolist() == [0, 1, 3, 6]
    assert tx.cumulative_prod(tx.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0, include_initial=True).tolist() == [
        [1, 1],
        [1, 2],
        [3, 8],
    ]
    assert tx.cumulative_sum(tx.zeros((3, 0)), axis=1).shape == (3, 0)
    assert tx.cumulative_sum(tx.zeros((0, 3)), axis=1).shape == (0, 3)
    assert tx.cumulative_sum(tx.asarray([200, 100], dtype=uint8), dtype=uint8).tolist() == [200, 44]


# --- accuracy ---------------------------------------------------------------------------------------------------------


@pytest.mark.large
def test_sums_of_ten_million_elements_are_accurate() -> None:
    """Partial sums form a fixed tree. One running float32 sum of ten million 0.1 would be wrong by per cents."""
    x = np.full(10_000_000, 0.1, np.float32) + np.arange(10_000_000, dtype=np.float32) % 7 * np.float32(1e-3)
    exact = x.astype(np.float64).sum()
    t = tx.asarray(x)
    assert abs(t.sum().item() - exact) < 1e-6 * exact
    assert abs(t.mean().item() - exact / x.size) < 1e-6 * exact / x.size
    for rows in (2, 40):
        wanted = x.reshape(rows, -1).sum(1, dtype=np.float64)
        np.testing.assert_allclose(t.reshape(rows, -1).sum(axis=1).to_numpy(), wanted, rtol=2e-6)
    pairs = x.reshape(-1, 2).sum(0, dtype=np.float64)
    np.testing.assert_allclose(t.reshape(-1, 2).sum(axis=0).to_numpy(), pairs, rtol=2e-6)
    columns = x.reshape(-1, 40).sum(0, dtype=np.float64)  # where NumPy is wrong by 2e-3
    np.testing.assert_allclose(t.reshape(-1, 40).sum(axis=0).to_numpy(), columns, rtol=1e-4)
    middle = x.reshape(100, 1000, 100).sum((0, 1), dtype=np.float64)
    np.testing.assert_allclose(t.reshape(100, 1000, 100).sum(axis=(0, 1)).to_numpy(), middle, rtol=1e-4)
    assert abs(t.var().item() - x.var(dtype=np.float64)) < 1e-5 * x.var(dtype=np.float64)


@pytest.mark.parametrize("correction", [3, 4])
def test_correction_beyond_the_count_gives_inf_or_nan(correction: float) -> None:
    assert tx.asarray([1.0, 2.0, 6.0]).var(correction=correction).item() == np.inf
    assert np.isnan(tx.asarray([2.0, 2.0, 2.0]).std(correction=correction).item())


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("correction", [0, 1, 2, 3, 4, 2.5])
def test_variance_with_any_correction_equals_numpy_and_has_a_gradient_only_below_the_count(
    name: str, count: int, correction: float
) -> None:
    x = np.array([1.0, 2.0, 6.0])[:count]
    t = tx.asarray(x).requires_grad_()
    result = getattr(tx, name)(t, correction=correction)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy tells of degrees of freedom
        np.testing.assert_allclose(result.item(), getattr(np, name)(x, ddof=correction), rtol=1e-14)
    result.backward()
    slope = 2 * (x - x.mean()) / (count - correction) if correction < count else np.full(count, np.nan)
    if name == "std" and count > 1:
        slope = slope / (2 * result.item())
    assert t.grad is not None
    np.testing.assert_allclose(t.grad.to_numpy(), slope, rtol=1e-13, atol=1e-15)


LARGE: dict[str, tuple[tuple[int, ...], Axes]] = {
    "all of a prime number": ((300_007,), None),
    "few rows": ((5, 60_013), 1),
    "few columns": ((60_013, 5), 0),
    "short axes": ((6,) * 7, None),
    "short axes but one": ((3,) * 6 + (400, 2), tuple(range(7))),
    "the middle": ((2, 500, 401, 3), (1, 2)),
}


@pytest.mark.large
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "count_nonzero"])
@pytest.mark.parametrize("case", LARGE)
def test_large_reductions_read_every_element(case: str, name: str) -> None:
    shape, axis = LARGE[case]
    odd = np.random.default_rng(5).integers(-2, 2, shape) * 2 + 1
    first_differs, last_differs = (np.ones(shape, np.int64) * 2 - 1 for _ in range(2))
    first_differs[(0,) * len(shape)], last_differs[(-1,) * len(shape)] = 0, 0
    for x in (odd, first_differs, last_differs, 1 - first_differs, 1 - last_differs, first_differs - 1, last_differs - 1):
        with np.errstate(over="ignore"):
            expected = getattr(np, name)(x, axis=axis)
        assert np.array_equal(getattr(tx, name)(tx.asarray(x), axis=axis).to_numpy(), expected)


@pytest.mark.large
@pytest.mark.parametrize("case", ["all of a prime number", "few columns"])
def test_operand_of_large_reduction_is_inlined(case: str) -> None:
    """Another kernel reduces the remainder that fills no block."""
    shape, axis = LARGE[case]
    x = tx.arange(prod(shape), dtype=float32).reshape(shape).realize() / prod(shape)
    kernels = preview_kernels([tx.exp(x * 2).sum(axis=axis).storage.node])
    assert 1 < len(kernels) == len([k for _, k in kernels if k is not None and k.accumulators])
    before = tx.memory(reset_peak=True).in_use
    actual = tx.exp(x * 2).sum(axis=axis).realize()
    assert tx.memory().peak - before < x.size
    np.testing.assert_allclose(array(actual), np.exp(array(x).astype(np.float64) * 2).sum(axis), rtol=1e-6)


@pytest.mark.large
def test_partial_float16_sums_may_exceed_float16() -> None:
    x = np.full(1 << 18, 100, np.float16)  # in any of 64 parts the sum would be infinite
    x[1 << 17 :] = -100
    x[-1] = -98
    assert tx.asarray(x).sum().item() == 2
    x = np.ones((1 << 18) + 5, np.float16)
    x[:40], x[-39:] = 2, 0.5
    assert tx.asarray(x).prod().item() == 2


@pytest.mark.large
def test_rounding_errors_of_equal_elements_do_not_accumulate() -> None:
    n = 4_000_000
    for t in (tx.full((n,), 0.1, dtype=float32), tx.full((20, n // 20), 0.1, dtype=float32)):
        element = float(np.float32(0.1))
        actual = t.sum(axis=-1).to_numpy().astype(np.float64) / t.shape[-1]
        np.testing.assert_allclose(actual, element, rtol=5e-6)


def test_reduction_keeps_the_memory_order_of_its_operand() -> None:
    values = np.arange(120, dtype=np.float32).reshape(4, 5, 6) % 17
    t, a = tensor(values).permute(2, 1, 0), values.transpose(2, 1, 0)
    for name in ("sum", "max", "mean", "argmax", "var"):
        actual = getattr(t, name)(axis=2)
        assert actual.strides == (1, 6), name
        np.testing.assert_allclose(array(actual), getattr(a, name)(axis=2), rtol=1e-6)
        reduced = getattr(t, name)(axis=0, keepdims=True)
        assert reduced.shape == (1, 5, 4) and reduced.strides[1:] == (1, 5), name
        np.testing.assert_allclose(array(reduced), getattr(a, name)(axis=0, keepdims=True), rtol=1e-6)
    assert tensor(values).sum(axis=1).is_contiguous() and tensor(values).sum(axis=1, keepdims=True).is_contiguous()
    assert t.sum().strides == () and t[:, :1].sum(axis=2).shape == (6, 1)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax_and_argmin_take_a_single_axis(name: str) -> None:
    x = tx.ones((2, 3, 4))
    for axis in ((0, 1), (0,), [0], ()):
        for call in (getattr(x, name), lambda axis: getattr(tx, name)(x, axis=axis), lambda axis: getattr(np, name)(x, axis=axis)):
            for _ in range(3):
                with pytest.raises(AxisError, match=f"{name}: an axis must be an integer, not "):
                    call(axis)
    assert getattr(x, name)(np.int64(-1)).shape == (2, 3)


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("dtype", [None, np.int64, np.float64])
def test_initial_of_integer_reductions_loses_its_fraction_as_in_numpy(name: str, dtype: Any) -> None:
    for values in ([1, 2], [-1, -2], [7]):
        for initial in (1.5, -1.5, np.float32(2.75), True, 3):
            wanted = getattr(np, name)(np.array(values), initial=initial, dtype=dtype)
            found = getattr(tx, name)(tx.asarray(values), initial=initial, dtype=dtype)
            assert found.item() == wanted and str(found.dtype) == str(wanted.dtype), (values, initial)
            as_tensor = getattr(tx, name)(tx.asarray(values), initial=tx.asarray(initial), dtype=dtype)
            assert as_tensor.item() == wanted, (values, initial)
    if dtype is not np.float64:
        for initial in (np.inf, np.float32("nan")):
            with pytest.raises(ArgumentError, match=f"{name}: initial is (inf|nan), which int64 cannot hold"):
                getattr(tx, name)(tx.asarray([1, 2]), initial=initial, dtype=dtype)


@pytest.mark.parametrize("name", ["var", "std"])
def test_correction_may_be_a_numpy_scalar(name: str) -> None:
    x = tx.asarray([1.0, 2.0, 6.0])
    for correction in (np.float32(1), np.int8(1), np.float64(0.5)):
        for _ in range(3):
            assert getattr(x, name)(correction=correction).item() == getattr(tx, name)(x, correction=float(correction)).item()
    for wrong in ("1", None, np.complex64(1), tx.asarray(1.0)):
        with pytest.raises(ArgumentError, match=f"{name}: correction must be a real number of Python or NumPy, not "):
            getattr(x, name)(correction=wrong)
        with pytest.raises(ArgumentError, match=f"{name}: correction must be a real number of Python or NumPy, not "):
            getattr(tx, name)(x, correction=wrong, where=x > 0)
