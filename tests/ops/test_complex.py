"""Complex numbers: every operation on them beside NumPy's, and the elementary functions beside mpmath's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpc

import tenxor as tx
from tenxor.dtypes import DType, complex64, complex128, float32
from tenxor.errors import DTypeError
from tenxor.ops import OPS

from .values import VIEWS, Array, array, random, tensor

BOTH = pytest.mark.parametrize("dtype", [complex64, complex128], ids=str)
NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
ELEMENTARY = (
    *("sqrt", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", *NUMPY),
)
EXACT = ("add", "subtract", "multiply", "negative", "positive", "conj", "real", "imag", "square", "round")
TESTS = ("equal", "not_equal", "isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or", "logical_xor")
PARTS = (0.0, -0.0, 1.0, -1.5, 3.0, inf, -inf, nan)


def grid(parts: tuple[float, ...], dtype: DType = complex128) -> Array:
    """Return the complex numbers with all pairs of `parts`."""
    numbers = np.empty(len(parts) ** 2, dtype.numpy)
    numbers.real, numbers.imag = np.transpose(list(itertools.product(parts, parts)))
    return numbers


def numpy_function(name: str) -> Any:
    names = {"pow": "power", "abs": "absolute"}
    return getattr(np, NUMPY.get(name, names.get(name, name)))


def is_same(actual: Array, wanted: Array) -> Array:
    """Return where numbers have equal bits, or are both NaN."""
    return ((actual == wanted) & (np.signbit(actual) == np.signbit(wanted))) | (np.isnan(actual) & np.isnan(wanted))


def assert_same(actual: Array, wanted: Array, *label: Any) -> None:
    assert actual.dtype == wanted.dtype and actual.shape == wanted.shape, (*label, actual.dtype, wanted.dtype)
    if actual.dtype.kind != "c":
        assert (is_same(actual, wanted) if actual.dtype.kind == "f" else actual == wanted).all(), label
        return
    wrong = ~(is_same(actual.real, wanted.real) & is_same(actual.imag, wanted.imag))
    assert not wrong.any(), (*label, actual[wrong][:3], wanted[wrong][:3])


def assert_near(actual: Array, wanted: Array, ulps: float, *label: Any) -> None:
    """Check that numbers differ by at most `ulps` units in the last place of the magnitude."""
    assert actual.dtype == wanted.dtype and actual.shape == wanted.shape, (*label, actual.dtype, wanted.dtype)
    tolerance = ulps * np.finfo(actual.dtype).eps * abs(wanted) + np.finfo(actual.dtype).tiny
    assert (abs(actual - wanted) <= tolerance).all(), (*label, actual[abs(actual - wanted) > tolerance][:3])


# --- arithmetic -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", [*EXACT, *TESTS])
def test_exact_complex_operations_on_special_values_match_numpy(name: str, dtype: DType) -> None:
    op, values = OPS[name], np.concatenate([grid(PARTS, dtype), random(dtype, 33)])
    args = [x.ravel() for x in np.meshgrid(values, values)][: op.arity] if op.arity == 2 else [values]
    with np.errstate(all="ignore"):
        wanted = numpy_function(name)(*args)
        if name in ("multiply", "square"):  # which NumPy rounds less often
            (a, b), (c, d) = ((x.real, x.imag) for x in (args[0], args[-1]))
            wanted = np.empty(a.shape, dtype.numpy)
            wanted.real, wanted.imag = a * c - b * d, a * d + b * c
    assert_same(array(tx.Tensor._compute(op, *map(tensor, args))), wanted, name, dtype)
    for k in range(0, 64, 7):  # alone: the scalar code
        scalar = array(tx.Tensor._compute(op, *(tensor(x[k : k + 1].reshape(())) for x in args)))
        assert_same(scalar, np.asarray(wanted[k]), name, dtype, args[0][k])


@BOTH
def test_complex_operations_on_views_match_numpy(dtype: DType) -> None:
    x, y = random(dtype, 300), random(dtype, 300, 1)
    kinds = list(VIEWS)
    for k, kind in enumerate(kinds):
        for other_kind in (kinds[(k + 3) % len(kinds)], kinds[(k + 8) % len(kinds)]):
            a, b = VIEWS[kind](tensor(x)), VIEWS[other_kind](tensor(y))
            p, q = VIEWS[kind](x), VIEWS[other_kind](y)
            assert_same(array(a - b), p - q, kind, other_kind)
            assert_same(array(a.conj()), p.conj(), kind)
            assert_same(array(a.real), p.real, kind)
            assert_same(array(tx.imag(b)), q.imag, other_kind)
            assert_same(array(tx.where(a.real > 0, a, b)), np.where(p.real > 0, p, q), kind, other_kind)


@BOTH
def test_complex_operations_of_every_length_match_numpy(dtype: DType) -> None:
    x = random(dtype, 200)
    for n in (*range(36), 63, 64, 65, 127, 129, 200):
        assert_same(array(tensor(x)[:n] + tensor(x)[200 - n :]), x[:n] + x[200 - n :], n)
        assert_same(array(tensor(x)[:n].conj()[::-1]), x[:n].conj()[::-1], n)


@BOTH
def test_complex_abs_does_not_overflow(dtype: DType) -> None:
    info = np.finfo(dtype.numpy)
    x = np.array([info.max / 2 * (1 + 1j), info.tiny * (3 + 4j), 3e10 - 4e10j, 0], dtype.numpy)
    actual = array(abs(tensor(x)))
    assert actual.dtype == dtype.part.numpy
    np.testing.assert_allclose(actual, [info.max / np.sqrt(2), 5 * info.tiny, 5e10, 0], rtol=4 * info.eps)
    special = array(abs(tensor(np.array([complex(inf, nan), complex(nan, -inf), complex(nan, 1)], dtype.numpy))))
    assert special.tolist()[:2] == [inf, inf] and np.isnan(special[2])


# --- quotients --------------------------------------------------------------------------------------------------------


def exact_quotient(x: complex, y: complex) -> complex:
    with mp.workprec(200):
        return complex(mpc(x) / mpc(y))


@BOTH
def test_complex_division_does_not_overflow(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    low, high = (-1020, 1020) if dtype is complex128 else (-120, 120)
    size = np.ldexp(1.0, rng.integers(low, high, (4, 4000)))
    a, b, c, d = size * rng.uniform(0.5, 1, size.shape) * rng.choice([1, -1], size.shape)
    x, y = (p + 1j * q for p, q in ((a, b), (c, d)))
    x, y = x.astype(dtype.numpy), y.astype(dtype.numpy)
    with mp.workprec(200):
        wanted = [mpc(p) / mpc(q) for p, q in zip(x.tolist(), y.tolist(), strict=True)]
    info = np.finfo(dtype.numpy)
    in_range = np.array([info.tiny * 4 < abs(w) < info.max / 4 for w in wanted])
    wanted_numbers = np.array([complex(w) if k else 0 for w, k in zip(wanted, in_range, strict=True)])[in_range]
    assert in_range.sum() > 1000
    assert_near(array(tensor(x[in_range]) / tensor(y[in_range])), wanted_numbers.astype(dtype.numpy), 4, "divide")


@BOTH
def test_complex_division_with_zeros_and_infinities_follows_the_limits(dtype: DType) -> None:
    x_all = tx.asarray([1 + 1j, 2 - 1j, complex(inf, 1), complex(1, -inf)], dtype=dtype)
    assert (x_all[:2] / complex(inf, 3)).tolist() == (x_all[:2] / complex(3, -inf)).tolist() == [0, 0]
    for actual in (x_all[2:] / (2 + 1j)).tolist():
        assert inf in (abs(actual.real), abs(actual.imag))
    with np.errstate(all="ignore"):
        for x in (1 + 0j, 1 + 1j, 0j, -2j):
            wanted = np.array([x], dtype.numpy) / dtype.numpy.type(0)
            assert_same(array(tx.asarray([x], dtype=dtype) / 0), wanted, x)
    assert np.isnan((x_all / complex(nan, 1)).to_numpy()).all()
    assert (1 / tx.asarray([2j], dtype=dtype)).tolist() == [-0.5j] == tx.reciprocal(tx.asarray([2j], dtype=dtype)).tolist()


# --- elementary functions ---------------------------------------------------------------------------------------------

# By how many units in the last place of the larger part a function of complex128 may miss the exact result.
BOUND = {"sqrt": 4, "pow": 60, "exp2": 6, "tanh": 8, "tan": 8}
USUAL = 5


def samples(dtype: DType, size: int = 900) -> Array:
    """Return numbers of moderate magnitude, near the unit circle, near the axes, and tiny and large ones."""
    rng = np.random.default_rng(4)
    angle = rng.uniform(-np.pi, np.pi, size)
    sizes = [
        np.exp(rng.normal(size=size) * 2),
        1 + rng.normal(size=size) * 10.0 ** rng.integers(-15, 0, size),
        10.0 ** rng.uniform(-30, 30, size),
    ]
    groups = [s * np.exp(1j * angle) for s in sizes]
    groups.append(rng.normal(size=size) + 1j * 10.0 ** rng.uniform(-20, 0, size))
    groups.append(10.0 ** rng.uniform(-20, 0, size) + 1j * rng.normal(size=size) * 3)
    groups.append(rng.choice([1, -1], size) + (rng.normal(size=size) + 1j * rng.normal(size=size)) * 10.0 ** rng.integers(-12, 0, size))
    return np.concatenate(groups).astype(dtype.numpy)


_PRECISE: dict[str, Callable[[Any], Any]] = {
    "exp2": lambda z: mp.exp(z * mp.ln2),
    "expm1": lambda z: mp.exp(z) - 1,
    "log1p": lambda z: mp.log(1 + z),
    "log2": lambda z: mp.log(z) / mp.ln2,
    "log10": lambda z: mp.log(z) / mp.ln10,
}


def precise(name: str, values: Array) -> tuple[Array, Array]:
    """Return the rounded results of mpmath, and a mask of arguments and results within the range of floats."""
    function = _PRECISE.get(name) or getattr(mp, name)
    results, in_range = np.zeros(values.size, np.complex128), np.zeros(values.size, bool)
    with mp.workprec(400):
        for k, z in enumerate(values.tolist()):
            if name in ("exp", "exp2", "expm1", "sin", "cos", "sinh", "cosh", "tan", "tanh") and abs(z) > 300:
                continue
            w = function(mpc(z))
            in_range[k] = 1e-280 < abs(w) < 1e300
            results[k] = complex(w) if in_range[k] else 0
    return results, in_range


@pytest.mark.parametrize("name", ELEMENTARY)
def test_complex_elementary_functions_are_within_bounds(name: str) -> None:
    values = samples(complex128, 150)
    wanted, in_range = precise(name, values)
    assert in_range.sum() > 400
    actual = array(getattr(tx, name)(tensor(values)))
    assert_near(actual[in_range], wanted[in_range], BOUND.get(name, USUAL), name)


@pytest.mark.parametrize("name", ELEMENTARY)
def test_complex64_elementary_functions_are_within_one_unit_of_mpmath(name: str) -> None:
    values = samples(complex64, 150)
    wanted, in_range = precise(name, values)
    in_range &= (abs(wanted) < 1e37) & (abs(wanted) > 1e-36)
    actual = array(getattr(tx, name)(tensor(values)))[in_range]
    assert_near(actual, wanted[in_range].astype(np.complex64), 1, name)


@BOTH
@pytest.mark.parametrize("name", ELEMENTARY)
def test_complex_special_values_match_numpy(name: str, dtype: DType) -> None:
    """The reference is NumPy, which calls the C library. Signs of zeros and infinities are compared only where C99 defines them
    and the array API standard agrees: `expm1` of both zeros is 0 there.
    """
    values = grid(PARTS, dtype)
    with np.errstate(all="ignore"):
        wanted = numpy_function(name)(values)
    if name == "expm1":
        wanted.real[wanted.real == 0] = 0.0
    actual = array(getattr(tx, name)(tensor(values)))
    for k, z in enumerate(values.tolist()):
        if name in ("exp2", "expm1", "log1p", "log2", "log10") and not np.isfinite(z):
            continue  # C99 says nothing of them
        for f, w in ((actual[k].real, wanted[k].real), (actual[k].imag, wanted[k].imag)):
            is_equal = (np.isnan(f) and np.isnan(w)) or f == w or abs(f - w) <= 1e-6 * abs(wanted[k])
            assert is_equal, (name, z, actual[k], wanted[k])
            if np.isfinite(z) and not np.isnan(w):
                assert np.signbit(f) == np.signbit(w) or abs(w) > 0, (name, z, actual[k], wanted[k])


@BOTH
def test_complex_powers_are_within_bounds(dtype: DType) -> None:
    values = random(dtype, 200) * dtype.numpy.type(0.5) + dtype.numpy.type(0.1)
    eps = np.finfo(dtype.numpy).eps
    for n in (0, 1, 2, 3, 7, -1, -2, -5, 100, 0.5, 1.5, 2j, 0.3 - 1.1j):
        x, actual = values, array(tensor(values) ** n)
        with mp.workprec(200):
            wanted = np.array([complex(mpc(z) ** n) for z in x.tolist()])
        in_range = abs(wanted) < np.finfo(dtype.numpy).max / 4
        assert actual.dtype == x.dtype and in_range.sum() > 100
        actual, wanted, x = actual[in_range], wanted[in_range].astype(dtype.numpy), x[in_range]
        tolerance = (8 + 8 * abs(n) * abs(np.log(x.astype(np.complex128)))) * eps * abs(wanted) + np.finfo(dtype.numpy).tiny
        assert (abs(actual - wanted) <= tolerance).all(), n
    assert (tx.asarray([1 + 2j, 3 - 1j], dtype=dtype) ** tx.asarray([3, -2])).tolist()[0] == -11 - 2j
    zero = tx.asarray([0j], dtype=dtype)
    assert (zero**0).tolist() == [1] and (zero**2.5).tolist() == [0] and np.isnan((zero ** (-1 + 1j)).to_numpy()).all()


@BOTH
def test_complex_sign_is_the_unit_vector(dtype: DType) -> None:
    x = tx.asarray([3 - 4j, 0j, -2.0, 1j], dtype=dtype)
    np.testing.assert_allclose(tx.sign(x).to_numpy(), [0.6 - 0.8j, 0, -1, 1j], rtol=1e-6)


@BOTH
@pytest.mark.parametrize(
    "name",
    [
        *(
            "floor",
            "ceil",
            "trunc",
            "less",
            "greater_equal",
            "maximum",
            "minimum",
            "floor_divide",
            "remainder",
            "atan2",
        ),
        *("bitwise_and", "bitwise_invert", "hypot", "copysign", "signbit", "nextafter", "erf", "erfinv", "relu"),
    ],
)
def test_real_operations_reject_complex_dtypes(name: str, dtype: DType) -> None:
    x = tx.ones(3, dtype=dtype)
    with pytest.raises(DTypeError, match=rf"^{name}: does not accept {dtype}; it takes .* \(use it on tx.real\(x\)"):
        getattr(tx, name)(*[x] * OPS[name].arity)


# --- reductions -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("kind", VIEWS)
def test_complex_reductions_match_numpy(kind: str, dtype: DType) -> None:
    x = np.round(random(dtype, 300) * dtype.numpy.type(2))
    t, model_view = VIEWS[kind](tensor(x)), VIEWS[kind](x)
    for axis in (None, 0, 1):
        assert_same(array(t.sum(axis=axis) + 0), np.asarray(model_view.sum(axis=axis) + 0), kind, axis)
        assert t.count_nonzero(axis=axis).tolist() == np.count_nonzero(model_view, axis=axis).tolist()
        assert t.any(axis=axis).tolist() == model_view.any(axis=axis).tolist()
        assert t.all(axis=axis).tolist() == model_view.all(axis=axis).tolist()
        for name in ("mean", "var", "std"):
            actual, wanted = array(getattr(t, name)(axis=axis)), np.asarray(getattr(model_view, name)(axis=axis))
            assert actual.dtype == wanted.dtype == (dtype.numpy if name == "mean" else dtype.part.numpy)
            np.testing.assert_allclose(actual, wanted, rtol=1e-4 if dtype is complex64 else 1e-12, atol=1e-5)
    units = np.array([1, -1, 1j, -1j], dtype.numpy)[np.arange(300) % 4]
    unit_view, model = VIEWS[kind](tensor(units)), VIEWS[kind](units)
    for axis in (0, 1):
        assert (array(unit_view.prod(axis=axis)) == model.prod(axis=axis)).all()
        assert (array(unit_view.cumulative_prod(axis)) == np.cumprod(model, axis)).all()
        assert_same(array(t.cumulative_sum(axis) + 0), np.cumsum(model_view, axis) + 0, kind, axis)


@pytest.mark.large
@BOTH
def test_large_complex_reductions_match_numpy(dtype: DType) -> None:
    x = np.round(random(dtype, 1 << 19)).reshape(1 << 10, 1 << 9)
    for axis in (None, 0, 1):
        np.testing.assert_allclose(array(tensor(x).sum(axis=axis)), x.sum(axis=axis, dtype=np.complex128), rtol=1e-4, atol=1e-2)


@BOTH
def test_complex_sum_prod_and_mean_of_empty_and_infinite_input_are_exact(dtype: DType) -> None:
    empty = tx.zeros((0, 3), dtype=dtype)
    assert empty.sum(axis=0).tolist() == [0] * 3 and empty.prod().item() == 1 and empty.sum().dtype is dtype
    assert np.isnan(empty.mean(axis=0).to_numpy()).all()
    x = tx.asarray([complex(inf, 1), complex(1, nan)], dtype=dtype)
    assert x.sum().item().real == inf and np.isnan(x.sum().item().imag)
    assert x[:1].mean().item() == complex(inf, 1)  # parts are divided by themselves
    assert (-tx.zeros(3, dtype=dtype)).sum().item() == 0


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_ordered_reductions_reject_complex_dtypes(name: str) -> None:
    with pytest.raises(DTypeError, match=rf"^{name}: does not accept complex64, as complex numbers have no order; use it on tx.real"):
        getattr(tx, name)(tx.ones(3, dtype=complex64))


def test_reduce_accepts_user_functions_of_complex_numbers() -> None:
    x = np.round(random(complex128, 60) * 2).reshape(5, 12)
    t = tensor(x)
    wanted = np.zeros(5, complex)
    for k in range(12):
        wanted = wanted * 1j + x[:, k]
    assert tx.reduce(lambda s, z: s * 1j + z, t, axis=1, initial=0j).tolist() == wanted.tolist()
    assert tx.reduce(lambda s, z: s + z, t, axis=1).tolist() == x.sum(1).tolist()
    assert tx.reduce(lambda s, z: s + abs(z * 0.0 + 2j), t, axis=1, initial=0.0).tolist() == [24.0] * 5
    real = tx.asarray(x.real.copy())
    assert tx.map(lambda v: abs(3j * v / 3j), real).tolist() == np.abs(x.real).tolist()
    assert tx.map(lambda a, b: (a * b.conj()).real, t, t).tolist() == (x * x.conj()).real.tolist()
    assert tx.map(lambda a: tx.where(a.real > a.imag, a, 1j), t).tolist() == np.where(x.real > x.imag, x, 1j).tolist()


# --- products ---------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 4), (5, 9, 17), (13, 33, 40), (64, 200, 70), (3, 0, 2), (0, 4, 5)])
def test_complex_products_match_numpy(shape: tuple[int, int, int], dtype: DType) -> None:
    rows, steps, columns = shape
    x, y = (np.round(random(dtype, n, k) * 2) for k, n in enumerate((rows * steps, steps * columns)))
    x, y = x.reshape(rows, steps), y.reshape(steps, columns)
    a, b = tensor(x), tensor(y)
    assert_same(array(a @ b + 0), x @ y + 0, shape)
    assert_same(array(a.conj() @ b + 0), x.conj() @ y + 0, shape)
    assert (array(tensor(y.T.copy()).T[::-1].T @ b[::-1, ::-1]) == y.T[:, ::-1] @ y[::-1, ::-1]).all()
    assert (array(tx.einsum("ij,jk->ki", a, b)) == (x @ y).T).all()
    assert (array(tx.tensordot(a, b, axes=1)) == x @ y).all()
    assert (array(tx.outer(a.ravel()[:7], b.ravel()[:5])) == np.outer(x.ravel()[:7], y.ravel()[:5])).all()
    if rows == columns:
        assert (array(tx.vecdot(a, b.T)) == np.vecdot(x, y.T)).all()
    real = np.arange(rows * steps, dtype=np.float32).reshape(rows, steps)
    assert (array(tx.asarray(real) @ b) == real @ y).all() and (tx.asarray(real) @ b).dtype is dtype


def test_vecdot_conjugates_its_first_operand() -> None:
    a, b = tx.asarray([1 + 2j, 3j]), tx.asarray([1j, 2.0])
    assert tx.vecdot(a, b).item() == np.vdot(a.to_numpy(), b.to_numpy()) == (1 - 2j) * 1j - 6j
    assert tx.vecdot(tx.asarray([1.0, 2.0]), b).item() == 4 + 1j
    assert tx.dot(a, b).item() == (1 + 2j) * 1j + 6j


@pytest.mark.large
def test_complex_products_are_as_accurate_as_real_ones() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((40, 3000), (3000, 50)))
    for dtype in (np.complex64, np.complex128):
        a, b = x.astype(dtype), y.astype(dtype)
        actual = (tx.asarray(a) @ tx.asarray(b)).to_numpy().astype(np.clongdouble)
        wanted = a.astype(np.clongdouble) @ b.astype(np.clongdouble)
        size = abs(a.astype(np.complex128)) @ abs(b.astype(np.complex128))
        assert (abs(actual - wanted) / size / np.finfo(dtype).eps).max() < 3


def test_complex_convolutions_match_numpy() -> None:
    rng = np.random.default_rng(1)
    x, w = (np.round(rng.normal(size=s) * 2 + 2j * rng.normal(size=s)) for s in ((2, 3, 20), (4, 3, 5)))
    actual = tx.conv1d(tx.asarray(x), tx.asarray(w))
    windows = np.lib.stride_tricks.sliding_window_view(x, 5, axis=2)
    assert (actual.to_numpy() == np.einsum("ncxk,ock->nox", windows, w)).all()
    image, kernel = (np.round(rng.normal(size=s) + 1j * rng.normal(size=s)) for s in ((1, 2, 9, 9), (3, 2, 3, 3)))
    patches = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(2, 3))
    assert (tx.conv2d(tx.asarray(image), tx.asarray(kernel)).to_numpy() == np.einsum("ncxykl,ockl->noxy", patches, kernel)).all()
    cube = np.round(rng.normal(size=(1, 1, 5, 5, 5)) + 1j)
    assert (tx.conv3d(tx.asarray(cube), tx.ones((1, 1, 1, 1, 1)) * 1j).to_numpy() == cube * 1j).all()


def test_contract_accepts_user_functions_of_complex_numbers() -> None:
    x, y = (np.round(random(complex64, n, k)) for k, n in enumerate((60, 100)))
    a, b = tensor(x.reshape(6, 10)), tensor(y.reshape(10, 10))
    distances = abs(x.reshape(6, 10)[:, None] - y.reshape(10, 10).T[None]) ** 2
    squared = lambda p, q: (p - q).real * (p - q).real + (p - q).imag * (p - q).imag
    actual = tx.contract(a, b, [(1, 0)], multiply=squared)
    assert actual.dtype is float32
    np.testing.assert_allclose(actual.to_numpy(), distances.sum(-1), rtol=1e-5)


def test_explain_shows_real_and_imaginary_parts() -> None:
    a, b = (tx.ones((20, 20), dtype=complex64).realize() for _ in range(2))
    text = tx.explain(a @ b)
    assert "p0: complex64" in text and "left0[i, k] = packed p1[i*s4 + k].imag" in text
    assert "r0.1[i, j] = (r0.1 + ((left1 * right1) + (left0 * right0)))" in text
    assert "p0[i*s3 + j].imag = r0.1[j]" in text


@BOTH
def test_complex_logaddexp_matches_mpmath(dtype: DType) -> None:
    rng = np.random.default_rng(9)
    x, y = [(rng.normal(size=300) * scale + 1j * rng.normal(size=300) * 4).astype(dtype.numpy) for scale in (1, 30)]
    x[:3], y[:3] = [1000 + 1j, -1000, 3e4], [1000 - 1j, -1001 + 2j, -3e4j]
    with mp.workprec(4000):
        wanted = [complex(mp.log(mp.exp(mpc(complex(a))) + mp.exp(mpc(complex(b))))) for a, b in zip(x, y, strict=True)]
    for actual in (tx.logaddexp(tensor(x), tensor(y)), tx.logaddexp(tensor(y), tensor(x)), np.logaddexp(tensor(x), tensor(y))):
        tolerance = 8 * np.finfo(x.dtype).eps * np.maximum(abs(x), abs(y))
        assert actual.dtype is dtype and (abs(actual.numpy() - wanted) <= tolerance).all()
    infinite = np.asarray([-inf, -inf, inf, inf, nan], dtype.numpy)
    actual = tx.logaddexp(tensor(infinite), tensor(np.asarray([-inf, 2j, inf, 1, 1], dtype.numpy))).numpy()
    assert actual[:4].real.tolist() == [-inf, 0.0, inf, inf] and np.isnan(actual[4]) and actual.imag[:2].tolist() == [0.0, 2.0]
