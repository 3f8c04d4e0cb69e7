"""Complex numbers at and beyond the limits of floats, compared with mpmath and Annex G of C99."""

from __future__ import annotations

import cmath
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpc

import tenxor as tx
from tenxor.dtypes import DType, complex64, complex128

from .test_complex import BOTH, assert_near, assert_same
from .values import array, tensor

Complex = complex | int | float
NAN = complex(nan, nan)


def assert_special(actual: complex, wanted: complex, *label: Any) -> None:
    """Check that two numbers are equal, with equal signs of zeros, or both NaN."""
    assert_same(np.array([actual]), np.array([wanted]), *label)


# --- tangents ---------------------------------------------------------------------------------------------------------

TANH = {
    **{complex(a, b): NAN for a in (1e-30, 0.5, 21.0, 22.5, 30.0, 1e38) for b in (inf, nan)},
    complex(0.0, inf): complex(0.0, nan),
    complex(0.0, nan): complex(0.0, nan),
    complex(inf, inf): 1 + 0j,
    complex(inf, nan): 1 + 0j,
    complex(inf, 2.0): 1 + 0j,  # the sign of b, as the array API standard has it; C99 has that of sin(2 b)
    complex(inf, 1.0): 1 + 0j,
    complex(nan, 0.0): complex(nan, 0.0),
    complex(nan, 1.0): NAN,
    complex(nan, inf): NAN,
    complex(nan, nan): NAN,
    complex(30.0, 0.0): 1 + 0j,
}


@BOTH
@pytest.mark.parametrize("z", TANH, ids=str)
def test_complex_tan_and_tanh_special_values_follow_c99(z: complex, dtype: DType) -> None:
    """tanh is odd and turns conjugates into conjugates; tan(x) is -i tanh(ix)."""
    wanted = TANH[z]
    for argument, result in (
        (z, wanted),
        (z.conjugate(), wanted.conjugate()),
        (-z, -wanted),
    ):
        values = tx.asarray([argument] * 3, dtype=dtype)
        assert_special(tx.tanh(values).tolist()[1], result, "tanh", argument)
        rotated = tx.asarray([complex(argument.imag, -argument.real)] * 3, dtype=dtype)
        assert_special(tx.tan(rotated).tolist()[1], complex(result.imag, -result.real), "tan", argument)


# --- powers -----------------------------------------------------------------------------------------------------------

FAR_ANGLES = (1.0, 3.5, 1e3, 1e8, 2.0**52 + 1, 1e15, 1e16, 1e17, 3e18, 1e25)


@pytest.mark.parametrize("y", [*FAR_ANGLES, 1e30], ids=str)
def test_exp2_of_large_angles_matches_mpmath(y: float) -> None:
    values = np.array([complex(a, b) for a in (0.0, -3.25, 10.0) for b in (y, -y)])
    with mp.workprec(400):
        for dtype in (complex128, complex64):
            argument = values.astype(dtype.numpy)
            wanted = np.array([complex(mp.exp(mpc(z) * mp.ln2)) for z in argument.tolist()]).astype(dtype.numpy)
            assert_near(array(tx.exp2(tensor(argument))), wanted, 4, y)


@BOTH
def test_exp2_of_imaginary_numbers_has_magnitude_1(dtype: DType) -> None:
    largest = float(np.finfo(dtype.numpy).max)
    y = tx.asarray([complex(0, s * b) for b in (*FAR_ANGLES, 1e30, 1e36, largest) for s in (1, -1)], dtype=dtype)
    np.testing.assert_allclose(abs(tx.exp2(y).to_numpy()), 1, rtol=8 * np.finfo(dtype.numpy).eps)


@BOTH
def test_powers_with_large_imaginary_exponents_stay_within_bounds(dtype: DType) -> None:
    y = np.array([complex(0, s * b) for b in FAR_ANGLES for s in (1, -1)], dtype.numpy)
    eps = float(np.finfo(np.float64).eps)
    for base in (2.0, 10.0, 0.375):
        actual = array(base ** tensor(y)).astype(np.complex128)
        np.testing.assert_allclose(abs(actual), 1, rtol=8 * np.finfo(dtype.numpy).eps)
        with mp.workprec(400):
            wanted = np.array([complex(mp.exp(mpc(z) * mp.log(mp.mpf(base)))) for z in y.tolist()])
        tolerance = 4 * float(np.finfo(dtype.numpy).eps) + 4 * eps * abs(y.astype(np.complex128)) * abs(np.log(base))
        assert (abs(actual - wanted) <= tolerance).all(), base
    rotations = array(tx.expm1(tensor(y))).astype(np.complex128)
    with mp.workprec(400):
        wanted = np.array([complex(mp.expm1(mpc(z))) for z in y.tolist()])
    assert_near(rotations.astype(dtype.numpy), wanted.astype(dtype.numpy), 4, "expm1")


ZERO = (0j, complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0))


@BOTH
@pytest.mark.parametrize(
    ("exponent", "wanted"),
    [
        *((y, 0j) for y in (2 + 1j, 1e-30 - 7j, 1, 2, 0.5, 1000, 3 + 0j, complex(2, inf), complex(inf, 1), inf)),
        *((y, 1 + 0j) for y in (0, 0.0, 0j, complex(-0.0, 0.0), complex(0.0, -0.0))),
        *((y, NAN) for y in (1j, -2j, -1, -0.5, -1 + 1j, -2 - 3j, complex(nan, 0), complex(0, nan))),
    ],
    ids=str,
)
def test_complex_powers_of_zero_follow_c(exponent: Complex, wanted: complex, dtype: DType) -> None:
    zeros = tx.asarray(list(ZERO), dtype=dtype)
    for actual in (zeros**exponent, tx.pow(zeros, tx.asarray([exponent] * 4, dtype=dtype)), zeros.pow(exponent)):
        for value in actual.tolist():
            assert value == wanted or (cmath.isnan(wanted) and isnan(value.real) and isnan(value.imag)), exponent


INFINITE = (complex(inf, 0), complex(-inf, -0.0), complex(0, inf), complex(-2.5, -inf), complex(1, inf))


@BOTH
@pytest.mark.parametrize(
    ("exponent", "size"), [(-1, 0.0), (-2, 0.0), (-3, 0.0), (-0.5, 0.0), (0.5, inf), (1, inf), (2, inf), (1.5, inf), (0, 1.0)]
)
def test_complex_powers_of_infinite_numbers_have_the_size_of_the_limit(exponent: float, size: float, dtype: DType) -> None:
    values = tx.asarray(list(INFINITE), dtype=dtype)
    for actual in (values**exponent, tx.pow(values, tx.asarray([exponent] * len(INFINITE), dtype=dtype))):
        for base, value in zip(INFINITE, actual.tolist(), strict=True):
            assert abs(value) == size, (base, value)  # infinite if one part is, whatever the other part


def test_integer_powers_of_complex_numbers_do_not_overflow() -> None:
    large = 1e62 + 1e62j
    with mp.workprec(200):
        wanted = complex(mpc(large) ** -5)
    actual = (tx.asarray([large] * 3) ** -5).tolist()[1]
    assert abs(actual - wanted) < 1e-13 * abs(wanted) + 1e-323
    assert (tx.asarray([1e70 + 1e70j]) ** 5).tolist() == [complex(-inf, -inf)]
    assert (tx.asarray([1e-62j]) ** -4).tolist()[0] == pytest.approx(1e248)


# --- signs ------------------------------------------------------------------------------------------------------------


@BOTH
def test_complex_sign_of_zero_is_zero(dtype: DType) -> None:
    actual = array(tx.sign(tx.asarray(list(ZERO), dtype=dtype)))
    assert_same(actual, np.zeros(4, dtype.numpy))


@BOTH
def test_complex_sign_of_infinities_uses_the_infinite_part(dtype: DType) -> None:
    wanted = {
        complex(0.0, inf): 1j,
        complex(inf, 1.0): 1 + 0j,
        complex(-inf, -2.0): complex(-1.0, -0.0),
        complex(-0.0, -inf): complex(-0.0, -1.0),
        complex(inf, inf): NAN,
        complex(inf, nan): NAN,
        complex(nan, 1.0): NAN,
    }
    actual = tx.sign(tx.asarray(list(wanted), dtype=dtype)).tolist()
    for z, f in zip(wanted, actual, strict=True):
        assert_special(f, wanted[z], "sign", z)


@BOTH
def test_complex_sign_of_extreme_magnitudes_matches_mpmath(dtype: DType) -> None:
    info = np.finfo(dtype.numpy)
    magnitudes = (float(info.max), float(info.smallest_subnormal), float(info.tiny), 1.0, 3 * float(info.smallest_subnormal))
    values = np.array([complex(s * a, b) for a in magnitudes for b in (*magnitudes, 0.0) for s in (1, -1)], dtype.numpy)
    with mp.workprec(200):
        wanted = np.array([complex(mpc(z) / abs(mpc(z))) for z in values.tolist()]).astype(dtype.numpy)
    assert_near(array(tx.sign(tensor(values))), wanted, 2, "sign")


# --- the ends of the floats -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exp", "expm1", "sinh", "cosh", "sin", "cos"])
def test_exp_beyond_the_float_range_times_a_tiny_angle_is_finite(name: str) -> None:
    """e**1450 exceeds all floats, but its product with the smallest float is one."""
    exponents = (500.0, 709.5, 745.0, 1020.5, 1200.0, 1310.0, 1400.0, 1424.0, 1450.0)
    values = [complex(s * a, b) for a in exponents for b in (5e-324, 1e-310, 3e-300, 1e-250) for s in (1, -1)]
    if name in ("sin", "cos"):
        values = [complex(z.imag, z.real) for z in values]
    function = getattr(mp, name)
    with mp.workprec(3000):
        wanted = [function(mpc(z)) for z in values]
    checked = 0
    for z, actual, exact in zip(values, getattr(tx, name)(tx.asarray(values)).tolist(), wanted, strict=True):
        for got, exact_part in ((actual.real, exact.real), (actual.imag, exact.imag)):
            if abs(exact_part) > 1.7976931348623157e308:
                assert got == (inf if exact_part > 0 else -inf), (name, z, actual)
            else:
                checked += abs(exact_part) > 1e-250
                assert abs(got - exact_part) <= 1e-15 * abs(exact_part) + 2e-323, (name, z, actual)
    assert checked > 15
