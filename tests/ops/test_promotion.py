"""Which dtype results have: the array API's table, NumPy's for integers with floats, weak Python numbers."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES, DType, bfloat16, boolean, complex128, float16, float32, float64, int8, int64, uint8, uint64
from tenxor.errors import DTypeError, OutOfBounds, TenxorError

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = [d for d in ALL_DTYPES if d.is_integer]


def documented_promotion(a: DType, b: DType) -> str | None:
    """Return the name of the common dtype according to the documentation, or None without one."""
    names = {a.name, b.name}
    if len(names) == 1:
        return a.name
    if "bool" in names:
        return next(n for n in names if n != "bool")
    if names == {"float16", "bfloat16"}:
        return "float32"
    if bfloat16 in (a, b):  # as float16, which NumPy knows; bfloat16 where that gives float16
        partner = b if a is bfloat16 else a
        with_half = np.result_type(np.float16, partner.numpy).name
        return "bfloat16" if with_half == "float16" else with_half
    if {a.kind, b.kind} == {"int", "uint"}:
        unsigned, signed = (a, b) if a.kind == "uint" else (b, a)
        wide = next((n for n in SIGNED if int(n[3:]) > unsigned.bits and int(n[3:]) >= signed.bits), None)
        return wide
    return np.result_type(a.numpy, b.numpy).name


PAIRS = list(itertools.product(ALL_DTYPES, ALL_DTYPES))


def test_every_pair_of_dtypes_promotes_as_documented() -> None:
    for a, b in PAIRS:
        wanted = documented_promotion(a, b)
        if wanted is None:
            assert {a.kind, b.kind} == {"int", "uint"} and uint64 in (a, b)
            with pytest.raises(DTypeError, match=r"result_type: .* have no common dtype"):
                tx.result_type(a, b)
            with pytest.raises(DTypeError, match=rf"add: {a} and {b} have no common dtype .* choose one with astype"):
                tx.ones(2, dtype=a) + tx.ones(2, dtype=b)
        else:
            assert tx.result_type(a, b).name == wanted, (a, b)
            assert (tx.ones(2, dtype=a) + tx.ones(2, dtype=b)).dtype.name == wanted, (a, b)


def test_integers_promote_as_in_the_array_api_standard() -> None:
    for k, (s, u) in enumerate(zip(SIGNED, UNSIGNED, strict=True)):
        for j, other_dtype in enumerate(SIGNED):
            assert tx.result_type(s, other_dtype).name == SIGNED[max(k, j)]
            if k < 3:
                assert tx.result_type(u, other_dtype).name == SIGNED[max(k + 1, j)]
        for j, other_dtype in enumerate(UNSIGNED):
            assert tx.result_type(u, other_dtype).name == UNSIGNED[max(k, j)]


def test_mixed_operands_are_promoted_before_the_operation() -> None:
    assert (tx.asarray([200], dtype=uint8) + tx.asarray([-100], dtype=int8)).tolist() == [100]
    assert (tx.asarray([-1], dtype=int8) < tx.asarray([255], dtype=uint8)).tolist() == [True]
    assert (tx.asarray([2**31 - 1], dtype=tx.int32) + tx.asarray([0.0], dtype=float32)).tolist() == [2.0**31 - 1]
    assert (tx.asarray([True, False]) + tx.asarray([255, 255], dtype=uint8)).tolist() == [0, 255]
    assert (tx.asarray([1 + 2**-10], dtype=float16) * tx.asarray([1 + 2**-7], dtype=bfloat16)).tolist() == [(1 + 2**-10) * (1 + 2**-7)]


# --- Python numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_python_numbers_take_the_dtype_of_the_tensor(dtype: DType) -> None:
    t = tx.ones(2, dtype=dtype)
    of_int = int64 if dtype is boolean else dtype
    of_complex = dtype if dtype.is_complex else complex128
    of_float = dtype if dtype.is_float or dtype.is_complex else float64
    for number, wanted in ((True, dtype), (1, of_int), (1.5, of_float)):
        for result in (t + number, number + t, t * number, tx.where(t, number, t), tx.where(t, t, number)):
            assert result.dtype is wanted, (dtype, number)
        assert tx.result_type(dtype, number) is wanted
        assert (t != number).dtype is boolean and (number == t).dtype is boolean
    assert (t / 2).dtype is of_float and (1 / t).dtype is of_float and tx.exp(t).dtype is of_float
    if not dtype.is_complex:
        assert (t < 1).dtype is boolean and tx.maximum(t, 1.5).dtype is tx.copysign(t, 1).dtype is of_float
    assert (t + 1j).dtype is tx.result_type(dtype, 1j) is (tx.complex64 if dtype.bits <= 32 and dtype.is_float else of_complex)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_float_results_accept_any_python_number(dtype: DType) -> None:
    """`x / 1000` for an int8 tensor computes in float64, which holds 1000."""
    t = tx.ones(2, dtype=dtype)
    assert (t / 1000).tolist() == [0.001] * 2 and (-1 / t).tolist() == [-1.0] * 2
    assert tx.copysign(t, -1).tolist() == [-1.0] * 2 and tx.hypot(t * 0, -(2**70)).tolist() == [2.0**70] * 2


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_python_integers_out_of_range_raise_or_compare(dtype: DType) -> None:
    t = tx.ones(2, dtype=dtype)
    for number in (int(dtype.highest) + 1, int(dtype.lowest) - 1, 10**30):
        for attempt in (t.__add__, t.__rmul__, t.minimum, lambda n: tx.where(t, t, n)):
            with pytest.raises(OutOfBounds, match=f"Python integer {number} is out of range for {dtype}"):
                attempt(number)
        above = number > 0
        assert (t < number).tolist() == [above] * 2 and (number < t).tolist() == [not above] * 2
        assert (t == number).tolist() == [False] * 2 and (t != number).tolist() == [True] * 2
        assert (t >= number).tolist() == [not above] * 2 and (t > number).tolist() == [not above] * 2
    assert (t * int(dtype.highest)).tolist() == [dtype.highest] * 2
    assert (t + int(dtype.lowest)).tolist() == [int(dtype.lowest) + 1] * 2


def test_python_numbers_are_rounded_to_the_dtype() -> None:
    single = tx.asarray(np.array([0.1], np.float32))
    assert (single == 0.1).tolist() == [True]
    assert (single - 0.1).tolist() == [0.0]
    assert (tx.asarray([1.0], dtype=float16) + 70000).tolist() == [float("inf")]
    assert (tx.asarray([1], dtype=int8) < 0.5).tolist() == [False]
    assert (tx.asarray([1], dtype=int8) == 1.5).tolist() == [False]
    big = tx.asarray([2**63 - 1])
    assert (big + 0).tolist() == [2**63 - 1] and (big * True).tolist() == [2**63 - 1]


def test_numpy_scalars_promote_like_tensors() -> None:
    t = tx.ones(2, dtype=float32)
    assert (t + np.float64(1)).dtype is float64 and (np.float64(1) + t).dtype is float64
    assert (tx.ones(2, dtype=int8) + np.int64(300)).tolist() == [301, 301]


@pytest.mark.parametrize("signed", ["int8", "int16", "int32", "int64"])
def test_comparisons_of_signed_integers_with_uint64_are_exact(signed: str) -> None:
    """No integer dtype holds both operands, and float64 would round them; Python's integers are exact."""
    numbers, naturals = (
        np.asarray([-1, 0, 5, np.iinfo(signed).max], dtype=signed),
        np.asarray([0, 5, 127, 2**63, 2**64 - 1], dtype="uint64"),
    )
    x, y = tx.asarray(numbers[:, None]), tx.asarray(naturals)
    for name, compare in (("equal", operator.eq), ("not_equal", operator.ne), ("less", operator.lt), ("greater_equal", operator.ge)):
        expected = [[compare(a, b) for b in naturals.tolist()] for a in numbers.tolist()]
        assert getattr(tx, name)(x, y).tolist() == expected
        assert getattr(tx, name)(y, x).tolist() == [[compare(b, a) for b in naturals.tolist()] for a in numbers.tolist()]


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        *(("subtract", (boolean, boolean)), ("negative", (boolean,)), ("sign", (boolean,)), ("floor", (boolean,))),
        *(("bitwise_and", (float32, float32)), ("bitwise_invert", (float64,)), ("bitwise_left_shift", (boolean, boolean))),
        *(("bitwise_xor", (int64, float64)), ("signbit", (int64,)), ("maximum", (int64, uint64)), ("where", (int64, uint64))),
    ],
)  # fmt: skip
def test_unaccepted_dtypes_raise_dtype_error(name: str, dtypes: tuple[DType, ...]) -> None:
    operands: list[Any] = [tx.ones(2, dtype=d) for d in dtypes]
    if name == "where":
        operands = [tx.ones(2, dtype=boolean), *operands]
    with pytest.raises(DTypeError, match=f"^{name}: "):
        getattr(tx, name)(*operands)


def test_can_cast_means_promotion_to_the_target() -> None:
    for a, b in PAIRS:
        assert tx.can_cast(a, b) is (documented_promotion(a, b) == b.name), (a, b)


def test_in_place_operations_keep_the_dtype() -> None:
    t = tx.asarray([1, 2], dtype=float32)
    t += tx.asarray([0.5, 0.5], dtype=float64)
    assert t.dtype is float32 and t.tolist() == [1.5, 2.5]
    for attempt in (lambda: tx.asarray([1]).__iadd__(0.5), lambda: tx.asarray([True]).__iadd__(1)):
        with pytest.raises(TenxorError, match="in-place add"):
            attempt()
