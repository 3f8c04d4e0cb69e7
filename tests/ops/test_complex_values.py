"""Complex numbers at the ends of the floats and beyond them, beside mpmath and what C99 says in its Annex G."""

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


def assert_special(found: complex, wanted: complex, *where: Any) -> None:
    """Equal, with the signs of zeros, all NaN being alike."""
    assert_same(np.array([found]), np.array([wanted]), *where)


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
def test_the_tangent_is_not_a_number_where_c99_says_so(z: complex, dtype: DType) -> None:
    """tanh is odd and turns conjugates into conjugates; tan(x) is -i tanh(ix)."""
    wanted = TANH[z]
    for given, result in (
        (z, wanted),
        (z.conjugate(), wanted.conjugate()),
        (-z, -wanted),
    ):
        values = tx.asarray([given] * 3, dtype=dtype)
        assert_special(tx.tanh(values).tolist()[1], result, "tanh", given)
        turned = tx.asarray([complex(given.imag, -given.real)] * 3, dtype=dtype)
        assert_special(tx.tan(turned).tolist()[1], complex(result.imag, -result.real), "tan", given)


# --- powers -----------------------------------------------------------------------------------------------------------

FAR = (1.0, 3.5, 1e3, 1e8, 2.0**52 + 1, 1e15, 1e16, 1e17, 3e18, 1e25)


@pytest.mark.parametrize("y", [*FAR, 1e30], ids=str)
def test_powers_of_2_turn_as_far_as_they_are_told(y: float) -> None:
    values = np.array([complex(a, b) for a in (0.0, -3.25, 10.0) for b in (y, -y)])
    with mp.workprec(400):
        for dtype in (complex128, complex64):
            given = values.astype(dtype.numpy)
            wanted = np.array([complex(mp.exp(mpc(z) * mp.ln2)) for z in given.tolist()]).astype(dtype.numpy)
            assert_near(array(tx.exp2(tensor(given))), wanted, 4, y)


@BOTH
def test_powers_of_2_have_the_magnitude_of_their_real_part(dtype: DType) -> None:
    largest = float(np.finfo(dtype.numpy).max)
    y = tx.asarray([complex(0, s * b) for b in (*FAR, 1e30, 1e36, largest) for s in (1, -1)], dtype=dtype)
    np.testing.assert_allclose(abs(tx.exp2(y).to_numpy()), 1, rtol=8 * np.finfo(dtype.numpy).eps)


@BOTH
def test_other_powers_keep_their_magnitude_and_turn_within_what_their_exponent_allows(dtype: DType) -> None:
    y = np.array([complex(0, s * b) for b in FAR for s in (1, -1)], dtype.numpy)
    eps = float(np.finfo(np.float64).eps)
    for base in (2.0, 10.0, 0.375):
        found = array(base ** tensor(y)).astype(np.complex128)
        np.testing.assert_allclose(abs(found), 1, rtol=8 * np.finfo(dtype.numpy).eps)
        with mp.workprec(400):
            wanted = np.array([complex(mp.exp(mpc(z) * mp.log(mp.mpf(base)))) for z in y.tolist()])
        room = 4 * float(np.finfo(dtype.numpy).eps) + 4 * eps * abs(y.astype(np.complex128)) * abs(np.log(base))
        assert (abs(found - wanted) <= room).all(), base
    turns = array(tx.expm1(tensor(y))).astype(np.complex128)
    with mp.workprec(400):
        wanted = np.array([complex(mp.expm1(mpc(z))) for z in y.tolist()])
    assert_near(turns.astype(dtype.numpy), wanted.astype(dtype.numpy), 4, "expm1")


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
def test_powers_of_zero(exponent: Complex, wanted: complex, dtype: DType) -> None:
    zeros = tx.asarray(list(ZERO), dtype=dtype)
    for found in (zeros**exponent, tx.pow(zeros, tx.asarray([exponent] * 4, dtype=dtype)), zeros.pow(exponent)):
        for value in found.tolist():
            assert value == wanted or (cmath.isnan(wanted) and isnan(value.real) and isnan(value.imag)), exponent


def test_whole_powers_do_not_overflow_on_the_way() -> None:
    large = 1e62 + 1e62j
    with mp.workprec(200):
        wanted = complex(mpc(large) ** -5)
    found = (tx.asarray([large] * 3) ** -5).tolist()[1]
    assert abs(found - wanted) < 1e-13 * abs(wanted) + 1e-323
    assert (tx.asarray([1e70 + 1e70j]) ** 5).tolist() == [complex(-inf, -inf)]
    assert (tx.asarray([1e-62j]) ** -4).tolist()[0] == pytest.approx(1e248)


# --- signs ------------------------------------------------------------------------------------------------------------


@BOTH
def test_the_sign_of_zero_is_zero(dtype: DType) -> None:
    found = array(tx.sign(tx.asarray(list(ZERO), dtype=dtype)))
    assert_same(found, np.zeros(4, dtype.numpy))


@BOTH
def test_signs_of_infinities_are_those_of_the_infinite_part(dtype: DType) -> None:
    wanted = {
        complex(0.0, inf): 1j,
        complex(inf, 1.0): 1 + 0j,
        complex(-inf, -2.0): complex(-1.0, -0.0),
        complex(-0.0, -inf): complex(-0.0, -1.0),
        complex(inf, inf): NAN,
        complex(inf, nan): NAN,
        complex(nan, 1.0): NAN,
    }
    found = tx.sign(tx.asarray(list(wanted), dtype=dtype)).tolist()
    for z, f in zip(wanted, found, strict=True):
        assert_special(f, wanted[z], "sign", z)


@BOTH
def test_signs_of_the_largest_and_the_smallest(dtype: DType) -> None:
    info = np.finfo(dtype.numpy)
    parts = (float(info.max), float(info.smallest_subnormal), float(info.tiny), 1.0, 3 * float(info.smallest_subnormal))
    values = np.array([complex(s * a, b) for a in parts for b in (*parts, 0.0) for s in (1, -1)], dtype.numpy)
    with mp.workprec(200):
        wanted = np.array([complex(mpc(z) / abs(mpc(z))) for z in values.tolist()]).astype(dtype.numpy)
    assert_near(array(tx.sign(tensor(values))), wanted, 2, "sign")


# --- the ends of the floats -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exp", "expm1", "sinh", "cosh", "sin", "cos"])
def test_powers_beyond_all_floats_are_brought_back_by_a_small_angle(name: str) -> None:
    """e**1450 is far from any float, but its product with the least number is one."""
    parts = (500.0, 709.5, 745.0, 1020.5, 1200.0, 1310.0, 1400.0, 1424.0, 1450.0)
    values = [complex(s * a, b) for a in parts for b in (5e-324, 1e-310, 3e-300, 1e-250) for s in (1, -1)]
    if name in ("sin", "cos"):
        values = [complex(z.imag, z.real) for z in values]
    function = getattr(mp, name)
    with mp.workprec(3000):
        wanted = [function(mpc(z)) for z in values]
    checked = 0
    for z, found, exact in zip(values, getattr(tx, name)(tx.asarray(values)).tolist(), wanted, strict=True):
        for got, part in ((found.real, exact.real), (found.imag, exact.imag)):
            if abs(part) > 1.7976931348623157e308:
                assert got == (inf if part > 0 else -inf), (name, z, found)
            else:
                checked += abs(part) > 1e-250
                assert abs(got - part) <= 1e-15 * abs(part) + 2e-323, (name, z, found)
    assert checked > 15
