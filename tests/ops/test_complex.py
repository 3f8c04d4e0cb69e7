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
    """The complex numbers of all pairs of parts."""
    found = np.empty(len(parts) ** 2, dtype.numpy)
    found.real, found.imag = np.transpose(list(itertools.product(parts, parts)))
    return found


def of_numpy(name: str) -> Any:
    names = {"pow": "power", "abs": "absolute"}
    return getattr(np, NUMPY.get(name, names.get(name, name)))


def same(found: Array, wanted: Array) -> Array:
    """Where numbers have equal bits, all NaN being alike."""
    return ((found == wanted) & (np.signbit(found) == np.signbit(wanted))) | (np.isnan(found) & np.isnan(wanted))


def assert_same(found: Array, wanted: Array, *where: Any) -> None:
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (*where, found.dtype, wanted.dtype)
    if found.dtype.kind != "c":
        assert (same(found, wanted) if found.dtype.kind == "f" else found == wanted).all(), where
        return
    wrong = ~(same(found.real, wanted.real) & same(found.imag, wanted.imag))
    assert not wrong.any(), (*where, found[wrong][:3], wanted[wrong][:3])


def assert_near(found: Array, wanted: Array, ulps: float, *where: Any) -> None:
    """As near as so many units in the last place of the larger part."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (*where, found.dtype, wanted.dtype)
    room = ulps * np.finfo(found.dtype).eps * abs(wanted) + np.finfo(found.dtype).tiny
    assert (abs(found - wanted) <= room).all(), (*where, found[abs(found - wanted) > room][:3])


# --- arithmetic -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", [*EXACT, *TESTS])
def test_exact_operations_on_special_values(name: str, dtype: DType) -> None:
    op, values = OPS[name], np.concatenate([grid(PARTS, dtype), random(dtype, 33)])
    given = [x.ravel() for x in np.meshgrid(values, values)][: op.arity] if op.arity == 2 else [values]
    with np.errstate(all="ignore"):
        wanted = of_numpy(name)(*given)
        if name in ("multiply", "square"):  # which NumPy rounds less often
            (a, b), (c, d) = ((x.real, x.imag) for x in (given[0], given[-1]))
            wanted = np.empty(a.shape, dtype.numpy)
            wanted.real, wanted.imag = a * c - b * d, a * d + b * c
    assert_same(array(tx.Tensor._compute(op, *map(tensor, given))), wanted, name, dtype)
    for k in range(0, 64, 7):  # alone: the scalar code
        alone = array(tx.Tensor._compute(op, *(tensor(x[k : k + 1].reshape(())) for x in given)))
        assert_same(alone, np.asarray(wanted[k]), name, dtype, given[0][k])


@BOTH
def test_views_of_all_kinds(dtype: DType) -> None:
    x, y = random(dtype, 300), random(dtype, 300, 1)
    kinds = list(VIEWS)
    for k, kind in enumerate(kinds):
        for other in (kinds[(k + 3) % len(kinds)], kinds[(k + 8) % len(kinds)]):
            a, b = VIEWS[kind](tensor(x)), VIEWS[other](tensor(y))
            p, q = VIEWS[kind](x), VIEWS[other](y)
            assert_same(array(a - b), p - q, kind, other)
            assert_same(array(a.conj()), p.conj(), kind)
            assert_same(array(a.real), p.real, kind)
            assert_same(array(tx.imag(b)), q.imag, other)
            assert_same(array(tx.where(a.real > 0, a, b)), np.where(p.real > 0, p, q), kind, other)


@BOTH
def test_every_length(dtype: DType) -> None:
    x = random(dtype, 200)
    for n in (*range(36), 63, 64, 65, 127, 129, 200):
        assert_same(array(tensor(x)[:n] + tensor(x)[200 - n :]), x[:n] + x[200 - n :], n)
        assert_same(array(tensor(x)[:n].conj()[::-1]), x[:n].conj()[::-1], n)


@BOTH
def test_absolute_values_do_not_overflow(dtype: DType) -> None:
    info = np.finfo(dtype.numpy)
    x = np.array([info.max / 2 * (1 + 1j), info.tiny * (3 + 4j), 3e10 - 4e10j, 0], dtype.numpy)
    found = array(abs(tensor(x)))
    assert found.dtype == dtype.part.numpy
    np.testing.assert_allclose(found, [info.max / np.sqrt(2), 5 * info.tiny, 5e10, 0], rtol=4 * info.eps)
    special = array(abs(tensor(np.array([complex(inf, nan), complex(nan, -inf), complex(nan, 1)], dtype.numpy))))
    assert special.tolist()[:2] == [inf, inf] and np.isnan(special[2])


# --- quotients --------------------------------------------------------------------------------------------------------


def exact(x: complex, y: complex) -> complex:
    with mp.workprec(200):
        return complex(mpc(x) / mpc(y))


@BOTH
def test_quotients_do_not_overflow_on_the_way(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    low, high = (-1020, 1020) if dtype is complex128 else (-120, 120)
    size = np.ldexp(1.0, rng.integers(low, high, (4, 4000)))
    a, b, c, d = size * rng.uniform(0.5, 1, size.shape) * rng.choice([1, -1], size.shape)
    x, y = (p + 1j * q for p, q in ((a, b), (c, d)))
    x, y = x.astype(dtype.numpy), y.astype(dtype.numpy)
    with mp.workprec(200):
        wanted = [mpc(p) / mpc(q) for p, q in zip(x.tolist(), y.tolist(), strict=True)]
    info = np.finfo(dtype.numpy)
    kept = np.array([info.tiny * 4 < abs(w) < info.max / 4 for w in wanted])
    wanted_numbers = np.array([complex(w) if k else 0 for w, k in zip(wanted, kept, strict=True)])[kept]
    assert kept.sum() > 1000
    assert_near(array(tensor(x[kept]) / tensor(y[kept])), wanted_numbers.astype(dtype.numpy), 4, "divide")


@BOTH
def test_quotients_with_zeros_and_infinities(dtype: DType) -> None:
    one = tx.asarray([1 + 1j, 2 - 1j, complex(inf, 1), complex(1, -inf)], dtype=dtype)
    assert (one[:2] / complex(inf, 3)).tolist() == (one[:2] / complex(3, -inf)).tolist() == [0, 0]
    for found in (one[2:] / (2 + 1j)).tolist():
        assert inf in (abs(found.real), abs(found.imag))
    with np.errstate(all="ignore"):
        for x in (1 + 0j, 1 + 1j, 0j, -2j):
            wanted = np.array([x], dtype.numpy) / dtype.numpy.type(0)
            assert_same(array(tx.asarray([x], dtype=dtype) / 0), wanted, x)
    assert np.isnan((one / complex(nan, 1)).to_numpy()).all()
    assert (
        (1 / tx.asarray([2j], dtype=dtype)).tolist() == [-0.5j] == tx.reciprocal(tx.asarray([2j], dtype=dtype)).tolist()
    )


# --- elementary functions ---------------------------------------------------------------------------------------------

# By how many units in the last place of the larger part a function of complex128 may miss the exact result.
BOUND = {"sqrt": 4, "pow": 60, "exp2": 6, "tanh": 8, "tan": 8}
USUAL = 5


def samples(dtype: DType, size: int = 900) -> Array:
    """Numbers of ordinary size, near the unit circle, near the axes, tiny and large ones."""
    rng = np.random.default_rng(4)
    turn = rng.uniform(-np.pi, np.pi, size)
    sizes = [
        np.exp(rng.normal(size=size) * 2),
        1 + rng.normal(size=size) * 10.0 ** rng.integers(-15, 0, size),
        10.0 ** rng.uniform(-30, 30, size),
    ]
    parts = [s * np.exp(1j * turn) for s in sizes]
    parts.append(rng.normal(size=size) + 1j * 10.0 ** rng.uniform(-20, 0, size))
    parts.append(10.0 ** rng.uniform(-20, 0, size) + 1j * rng.normal(size=size) * 3)
    parts.append(
        rng.choice([1, -1], size)
        + (rng.normal(size=size) + 1j * rng.normal(size=size)) * 10.0 ** rng.integers(-12, 0, size)
    )
    return np.concatenate(parts).astype(dtype.numpy)


_PRECISE: dict[str, Callable[[Any], Any]] = {
    "exp2": lambda z: mp.exp(z * mp.ln2),
    "expm1": lambda z: mp.exp(z) - 1,
    "log1p": lambda z: mp.log(1 + z),
    "log2": lambda z: mp.log(z) / mp.ln2,
    "log10": lambda z: mp.log(z) / mp.ln10,
}


def precise(name: str, values: Array) -> tuple[Array, Array]:
    """The function by mpmath, rounded; and where neither argument nor result is beyond floats."""
    function = _PRECISE.get(name) or getattr(mp, name)
    found, kept = np.zeros(values.size, np.complex128), np.zeros(values.size, bool)
    with mp.workprec(400):
        for k, z in enumerate(values.tolist()):
            if name in ("exp", "exp2", "expm1", "sin", "cos", "sinh", "cosh", "tan", "tanh") and abs(z) > 300:
                continue
            w = function(mpc(z))
            kept[k] = 1e-280 < abs(w) < 1e300
            found[k] = complex(w) if kept[k] else 0
    return found, kept


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_are_near_exact_ones(name: str) -> None:
    values = samples(complex128, 150)
    wanted, kept = precise(name, values)
    assert kept.sum() > 400
    found = array(getattr(tx, name)(tensor(values)))
    assert_near(found[kept], wanted[kept], BOUND.get(name, USUAL), name)


@pytest.mark.parametrize("name", ELEMENTARY)
def test_single_ones_are_rounded_once(name: str) -> None:
    values = samples(complex64, 150)
    wanted, kept = precise(name, values)
    kept &= (abs(wanted) < 1e37) & (abs(wanted) > 1e-36)
    found = array(getattr(tx, name)(tensor(values)))[kept]
    assert_near(found, wanted[kept].astype(np.complex64), 1, name)


@BOTH
@pytest.mark.parametrize("name", ELEMENTARY)
def test_special_values(name: str, dtype: DType) -> None:
    """As NumPy has them, which asks C's library; the sign of a zero or infinity only where C99 says it, and the array API
    standard nothing else: `expm1` of both zeros is 0 there.
    """
    values = grid(PARTS, dtype)
    with np.errstate(all="ignore"):
        wanted = of_numpy(name)(values)
    if name == "expm1":
        wanted.real[wanted.real == 0] = 0.0
    found = array(getattr(tx, name)(tensor(values)))
    for k, z in enumerate(values.tolist()):
        if name in ("exp2", "expm1", "log1p", "log2", "log10") and not np.isfinite(z):
            continue  # C99 says nothing of them
        for f, w in ((found[k].real, wanted[k].real), (found[k].imag, wanted[k].imag)):
            alike = (np.isnan(f) and np.isnan(w)) or f == w or abs(f - w) <= 1e-6 * abs(wanted[k])
            assert alike, (name, z, found[k], wanted[k])
            if np.isfinite(z) and not np.isnan(w):
                assert np.signbit(f) == np.signbit(w) or abs(w) > 0, (name, z, found[k], wanted[k])


@BOTH
def test_powers(dtype: DType) -> None:
    values = random(dtype, 200) * dtype.numpy.type(0.5) + dtype.numpy.type(0.1)
    eps = np.finfo(dtype.numpy).eps
    for n in (0, 1, 2, 3, 7, -1, -2, -5, 100, 0.5, 1.5, 2j, 0.3 - 1.1j):
        x, found = values, array(tensor(values) ** n)
        with mp.workprec(200):
            wanted = np.array([complex(mpc(z) ** n) for z in x.tolist()])
        kept = abs(wanted) < np.finfo(dtype.numpy).max / 4
        assert found.dtype == x.dtype and kept.sum() > 100
        found, wanted, x = found[kept], wanted[kept].astype(dtype.numpy), x[kept]
        room = (8 + 8 * abs(n) * abs(np.log(x.astype(np.complex128)))) * eps * abs(wanted) + np.finfo(dtype.numpy).tiny
        assert (abs(found - wanted) <= room).all(), n
    assert (tx.asarray([1 + 2j, 3 - 1j], dtype=dtype) ** tx.asarray([3, -2])).tolist()[0] == -11 - 2j
    zero = tx.asarray([0j], dtype=dtype)
    assert (zero**0).tolist() == [1] and (zero**2.5).tolist() == [0] and np.isnan((zero ** (-1 + 1j)).to_numpy()).all()


@BOTH
def test_signs(dtype: DType) -> None:
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
def test_what_complex_numbers_have_not(name: str, dtype: DType) -> None:
    x = tx.ones(3, dtype=dtype)
    with pytest.raises(DTypeError, match=rf"^{name}: does not accept {dtype}; it takes .* \(use it on tx.real\(x\)"):
        getattr(tx, name)(*[x] * OPS[name].arity)


# --- reductions -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("kind", VIEWS)
def test_reductions(kind: str, dtype: DType) -> None:
    x = np.round(random(dtype, 300) * dtype.numpy.type(2))
    t, seen = VIEWS[kind](tensor(x)), VIEWS[kind](x)
    for axis in (None, 0, 1):
        assert_same(array(t.sum(axis=axis) + 0), np.asarray(seen.sum(axis=axis) + 0), kind, axis)
        assert t.count_nonzero(axis=axis).tolist() == np.count_nonzero(seen, axis=axis).tolist()
        assert t.any(axis=axis).tolist() == seen.any(axis=axis).tolist()
        assert t.all(axis=axis).tolist() == seen.all(axis=axis).tolist()
        for name in ("mean", "var", "std"):
            found, wanted = array(getattr(t, name)(axis=axis)), np.asarray(getattr(seen, name)(axis=axis))
            assert found.dtype == wanted.dtype == (dtype.numpy if name == "mean" else dtype.part.numpy)
            np.testing.assert_allclose(found, wanted, rtol=1e-4 if dtype is complex64 else 1e-12, atol=1e-5)
    units = np.array([1, -1, 1j, -1j], dtype.numpy)[np.arange(300) % 4]
    turned, model = VIEWS[kind](tensor(units)), VIEWS[kind](units)
    for axis in (0, 1):
        assert (array(turned.prod(axis=axis)) == model.prod(axis=axis)).all()
        assert (array(turned.cumulative_prod(axis)) == np.cumprod(model, axis)).all()
        assert_same(array(t.cumulative_sum(axis) + 0), np.cumsum(seen, axis) + 0, kind, axis)


@pytest.mark.large
@BOTH
def test_large_reductions_run_in_parts(dtype: DType) -> None:
    x = np.round(random(dtype, 1 << 19)).reshape(1 << 10, 1 << 9)
    for axis in (None, 0, 1):
        np.testing.assert_allclose(
            array(tensor(x).sum(axis=axis)), x.sum(axis=axis, dtype=np.complex128), rtol=1e-4, atol=1e-2
        )


@BOTH
def test_of_nothing_and_of_infinities(dtype: DType) -> None:
    none = tx.zeros((0, 3), dtype=dtype)
    assert none.sum(axis=0).tolist() == [0] * 3 and none.prod().item() == 1 and none.sum().dtype is dtype
    assert np.isnan(none.mean(axis=0).to_numpy()).all()
    x = tx.asarray([complex(inf, 1), complex(1, nan)], dtype=dtype)
    assert x.sum().item().real == inf and np.isnan(x.sum().item().imag)
    assert x[:1].mean().item() == complex(inf, 1)  # parts are divided by themselves
    assert (-tx.zeros(3, dtype=dtype)).sum().item() == 0


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_complex_numbers_have_no_order(name: str) -> None:
    with pytest.raises(
        DTypeError, match=rf"^{name}: does not accept complex64, as complex numbers have no order; use it on tx.real"
    ):
        getattr(tx, name)(tx.ones(3, dtype=complex64))


def test_reductions_of_one_s_own() -> None:
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
def test_products(shape: tuple[int, int, int], dtype: DType) -> None:
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


def test_vecdot_conjugates_the_first() -> None:
    a, b = tx.asarray([1 + 2j, 3j]), tx.asarray([1j, 2.0])
    assert tx.vecdot(a, b).item() == np.vdot(a.to_numpy(), b.to_numpy()) == (1 - 2j) * 1j - 6j
    assert tx.vecdot(tx.asarray([1.0, 2.0]), b).item() == 4 + 1j
    assert tx.dot(a, b).item() == (1 + 2j) * 1j + 6j


@pytest.mark.large
def test_products_are_as_exact_as_real_ones() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((40, 3000), (3000, 50)))
    for dtype in (np.complex64, np.complex128):
        a, b = x.astype(dtype), y.astype(dtype)
        found = (tx.asarray(a) @ tx.asarray(b)).to_numpy().astype(np.clongdouble)
        wanted = a.astype(np.clongdouble) @ b.astype(np.clongdouble)
        size = abs(a.astype(np.complex128)) @ abs(b.astype(np.complex128))
        assert (abs(found - wanted) / size / np.finfo(dtype).eps).max() < 3


def test_convolutions() -> None:
    rng = np.random.default_rng(1)
    x, w = (np.round(rng.normal(size=s) * 2 + 2j * rng.normal(size=s)) for s in ((2, 3, 20), (4, 3, 5)))
    found = tx.conv1d(tx.asarray(x), tx.asarray(w))
    windows = np.lib.stride_tricks.sliding_window_view(x, 5, axis=2)
    assert (found.to_numpy() == np.einsum("ncxk,ock->nox", windows, w)).all()
    image, kernel = (np.round(rng.normal(size=s) + 1j * rng.normal(size=s)) for s in ((1, 2, 9, 9), (3, 2, 3, 3)))
    seen = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(2, 3))
    assert (
        tx.conv2d(tx.asarray(image), tx.asarray(kernel)).to_numpy() == np.einsum("ncxykl,ockl->noxy", seen, kernel)
    ).all()
    cube = np.round(rng.normal(size=(1, 1, 5, 5, 5)) + 1j)
    assert (tx.conv3d(tx.asarray(cube), tx.ones((1, 1, 1, 1, 1)) * 1j).to_numpy() == cube * 1j).all()


def test_contraction_by_one_s_own_functions() -> None:
    x, y = (np.round(random(complex64, n, k)) for k, n in enumerate((60, 100)))
    a, b = tensor(x.reshape(6, 10)), tensor(y.reshape(10, 10))
    apart = abs(x.reshape(6, 10)[:, None] - y.reshape(10, 10).T[None]) ** 2
    squared = lambda p, q: (p - q).real * (p - q).real + (p - q).imag * (p - q).imag  # noqa: E731
    found = tx.contract(a, b, [(1, 0)], multiply=squared)
    assert found.dtype is float32
    np.testing.assert_allclose(found.to_numpy(), apart.sum(-1), rtol=1e-5)


def test_explained_as_it_is() -> None:
    a, b = (tx.ones((20, 20), dtype=complex64).realize() for _ in range(2))
    text = tx.explain(a @ b)
    assert "p0: complex64" in text and "left0[i, k] = packed p1[i*s4 + k].imag" in text
    assert "r0.1[i, j] = (r0.1 + ((left1 * right1) + (left0 * right0)))" in text
    assert "p0[i*s3 + j].imag = r0.1[j]" in text


@BOTH
def test_logaddexp_is_the_logarithm_of_the_sum_of_powers(dtype: DType) -> None:
    rng = np.random.default_rng(9)
    x, y = [(rng.normal(size=300) * scale + 1j * rng.normal(size=300) * 4).astype(dtype.numpy) for scale in (1, 30)]
    x[:3], y[:3] = [1000 + 1j, -1000, 3e4], [1000 - 1j, -1001 + 2j, -3e4j]
    with mp.workprec(4000):
        wanted = [complex(mp.log(mp.exp(mpc(complex(a))) + mp.exp(mpc(complex(b))))) for a, b in zip(x, y, strict=True)]
    for found in (tx.logaddexp(tensor(x), tensor(y)), tx.logaddexp(tensor(y), tensor(x)), np.logaddexp(tensor(x), tensor(y))):
        room = 8 * np.finfo(x.dtype).eps * np.maximum(abs(x), abs(y))
        assert found.dtype is dtype and (abs(found.numpy() - wanted) <= room).all()
    infinite = np.asarray([-inf, -inf, inf, inf, nan], dtype.numpy)
    found = tx.logaddexp(tensor(infinite), tensor(np.asarray([-inf, 2j, inf, 1, 1], dtype.numpy))).numpy()
    assert found[:4].real.tolist() == [-inf, 0.0, inf, inf] and np.isnan(found[4]) and found.imag[:2].tolist() == [0.0, 2.0]
