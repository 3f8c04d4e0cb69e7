"""Operators: with tensors, Python numbers, lists and NumPy on either side."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DTypeError, NegativeExponent, OutOfBounds, ShapeError
from tests.machines import tune

BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
BITS = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}


def assert_same(result: Any, wanted: Any) -> None:
    wanted = np.asarray(wanted)
    assert isinstance(result, tx.Tensor)
    assert result.dtype is tx.dtype(wanted.dtype)
    assert result.shape == wanted.shape
    np.testing.assert_allclose(result.to_numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("op", BINARY.values(), ids=BINARY.keys())
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float32", "float64"])
def test_operators_accept_tensors_arrays_numbers_and_lists_on_the_right(op: Callable[..., Any], dtype: str) -> None:
    a = np.array([[1, 2, 3], [4, 5, 6]], dtype)
    t = tx.asarray(a)
    b = np.array([3, 2, 1], dtype)
    assert_same(op(t, tx.asarray(b)), op(a, b))
    assert_same(op(t, b), op(a, b))
    assert_same(op(t, 2), op(a, 2))
    assert_same(op(t, np.float64(2)), op(a, np.float64(2)))
    assert_same(op(t, np.array(2, dtype)), op(a, np.array(2, dtype)))
    assert_same(op(t, [3, 2, 1]), op(a, [3, 2, 1]))
    assert_same(op(t, (2,)), op(a, (2,)))


@pytest.mark.parametrize("op", BINARY.values(), ids=BINARY.keys())
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float32", "float64"])
def test_operators_accept_arrays_numbers_and_lists_on_the_left(op: Callable[..., Any], dtype: str) -> None:
    a = np.array([[1, 2, 3], [4, 5, 6]], dtype)
    t = tx.asarray(a)
    b = np.array([3, 2, 1], dtype)
    assert_same(op(b, t), op(b, a))
    assert_same(op(2, t), op(2, a))
    assert_same(op(np.float32(2), t), op(np.float32(2), a))
    assert_same(op(np.array(2, dtype), t), op(np.array(2, dtype), a))
    assert_same(op([3, 2, 1], t), op([3, 2, 1], a))


@pytest.mark.parametrize("op", BITS.values(), ids=BITS.keys())
def test_bitwise_operators_equal_numpy(op: Callable[..., Any]) -> None:
    a, b = np.array([12, 10, 7], np.uint8), np.array([3, 1, 2], np.uint8)
    t, u = tx.asarray(a), tx.asarray(b)
    for result, wanted in (
        (op(t, u), op(a, b)),
        (op(t, b), op(a, b)),
        (op(a, u), op(a, b)),
        (op(t, 2), op(a, 2)),
        (op(2, u), op(2, b)),
        (op(np.uint8(9), u), op(np.uint8(9), b)),
        (op(t, [3, 1, 2]), op(a, [3, 1, 2])),
    ):
        assert_same(result, wanted)


def test_operators_on_bools_equal_numpy() -> None:
    a, b = np.array([True, True, False]), np.array([True, False, False])
    t, u = tx.asarray(a), tx.asarray(b)
    assert_same(t & u, a & b)
    assert_same(t | b, a | b)
    assert_same(np.bool_(True) ^ u, np.bool_(True) ^ b)
    assert_same(~t, ~a)
    assert_same(t + u, a + b)
    assert_same(t * u, a * b)
    assert_same(True & u, True & b)


def test_unary_operators_equal_numpy_and_return_new_storage() -> None:
    a = np.array([-2, 0, 3])
    t = tx.asarray(a)
    assert_same(-t, -a)
    assert_same(+t, +a)
    assert_same(abs(t), abs(a))
    assert_same(~t, ~a)
    assert (+t).storage is not t.storage


def test_matmul_accepts_arrays_and_lists_on_either_side() -> None:
    a = np.arange(6.0).reshape(2, 3)
    t = tx.asarray(a)
    assert_same(t @ a.T, a @ a.T)
    assert_same(a.T @ t, a.T @ a)
    assert_same([1.0, 2.0] @ t, [1.0, 2.0] @ a)
    assert_same(t @ [1, 2, 3], a @ [1, 2, 3])


# Weak numbers


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bfloat16", "float32"])
def test_python_numbers_take_the_dtype_of_the_tensor(dtype: str) -> None:
    t = tx.ones(2, dtype=dtype)
    assert (t + 1).dtype is (1 - t).dtype is (t * True).dtype is t.dtype
    assert (t + 1.5).dtype is (t.dtype if t.dtype.is_float else tx.float64)
    assert (t + np.float64(1)).dtype is tx.float64  # NumPy's scalars have a dtype


def test_bool_tensor_takes_the_dtype_of_a_python_number() -> None:
    t = tx.asarray([True, False])
    assert (t + 1).tolist() == [2, 1]
    assert (t + 1).dtype is tx.int64
    assert (t * 2.5).tolist() == [2.5, 0]


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("int8", 128), ("uint8", -1), ("int64", 2**63), ("uint64", 2**64), ("bool", 2**63), ("float64", 10**400)],
)
def test_integer_beyond_the_dtype_raises_at_the_call(dtype: str, number: int) -> None:
    t = tx.ones(2, dtype=dtype)
    for call in (lambda: t + number, lambda: number * t):
        with pytest.raises(OutOfBounds, match="out of range"):
            call()


def test_float_tensors_accept_large_python_integers() -> None:
    assert (tx.ones(1) * 2**70).tolist() == [2.0**70]
    assert (tx.ones(1, dtype=tx.float32) * 2**200).tolist() == [float("inf")]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("number", [300, -300, -1, 2**63, 2**64, -(2**63) - 1, 2**200, -(2**200)])
def test_comparison_with_any_python_integer_is_exact(dtype: str, number: int) -> None:
    info = tx.iinfo(dtype)
    values = [info.min, 0, 1, info.max]
    t = tx.asarray(values, dtype=dtype)
    for name in ("<", "<=", ">", ">=", "==", "!="):
        op = BINARY[name]
        assert op(t, number).tolist() == [op(v, number) for v in values]
        assert op(number, t).tolist() == [op(number, v) for v in values]


# Invalid operands


@pytest.mark.parametrize("operand", ["a", None, {}, object()], ids=lambda operand: type(operand).__name__)
def test_operators_with_non_numbers_raise_type_error(operand: Any) -> None:
    t = tx.ones(2)
    for op in (operator.add, operator.truediv, operator.lt, operator.matmul, operator.pow):
        with pytest.raises(TypeError):
            op(t, operand)
        with pytest.raises(TypeError):
            op(operand, t)
    assert (t == operand) is False
    assert (t != operand) is True


def test_operators_with_invalid_lists_raise() -> None:
    t = tx.ones(2)
    with pytest.raises(DTypeError, match=r"add.*'a'"):
        operator.add(t, ["a"])
    with pytest.raises(ShapeError, match=r"equal.*ragged"):
        t == [1, [2]]
    with pytest.raises(ShapeError, match=r"add.*\(2,\).*\(3,\)"):
        operator.add(t, [1, 2, 3])


def test_adding_int64_and_uint64_raises() -> None:
    with pytest.raises(DTypeError, match=r"add.*uint64.*int64"):
        tx.ones(1, dtype=tx.int64) + tx.ones(1, dtype=tx.uint64)


@pytest.mark.parametrize("op", [operator.and_, operator.lshift, operator.invert], ids=lambda f: f.__name__)
def test_bitwise_operators_on_floats_raise(op: Callable[..., Any]) -> None:
    t = tx.ones(2)
    with pytest.raises(DTypeError, match="float64"):
        op(t) if op is operator.invert else op(t, t)


def test_integer_powers_raise_only_for_negative_integer_exponents() -> None:
    with pytest.raises(DTypeError, match=r"pow.*-1"):
        tx.arange(3) ** -1
    assert (tx.asarray([2.0, 4.0]) ** -1).tolist() == [0.5, 0.25]
    assert (tx.asarray([4.0, 9.0]) ** 0.5).tolist() == [2, 3]
    assert (tx.asarray([4, 9]) ** 0.5).tolist() == [2, 3]
    assert (2 ** tx.asarray([1, 2, 3])).tolist() == [2, 4, 8]
    assert (tx.asarray([3]) ** 0).tolist() == [1]
    assert_same(tx.asarray([3], dtype=tx.int8) ** 2, np.array([9], np.int8))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "int64"])
@pytest.mark.parametrize("exponent", [-1, -2, -1000])
def test_negative_exponent_of_integers_raises_in_every_spelling(dtype: str, exponent: int) -> None:
    t = tx.ones(3, dtype=dtype)
    powers: tuple[Callable[[], Any], ...] = (
        lambda: t**exponent,
        lambda: t.pow(exponent),
        lambda: tx.pow(t, exponent),
        lambda: np.power(t, exponent),
        lambda: operator.ipow(t.copy(), exponent),
        lambda: tx.pow(1, exponent),
        lambda: tx.pow([1], exponent),
    )
    for power in powers:
        with pytest.raises(DTypeError, match=rf"^(in-place )?pow: \w+ to the negative power {exponent} is no integer; use a float"):
            power()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_negative_exponents_in_a_tensor_raise_for_integer_bases(dtype: str) -> None:
    """NumPy raises ValueError, too. Each call runs three times, so that the fast path replays it."""
    bases, exponent = tx.asarray([2, 1, 0], dtype=dtype), tx.asarray(-3, dtype="int8")
    exponents = tx.asarray([1, 0, -3], dtype="int8")
    powers: tuple[Callable[[], Any], ...] = (
        lambda: bases**exponents,
        lambda: bases.pow(exponents),
        lambda: np.power(bases, exponents),
        lambda: 2 ** exponents.astype(tx.int64),
        lambda: bases**exponent,
        lambda: (bases.expand((4, 3)) ** exponents)[:, :1],
        lambda: (bases**exponents).sum(),
        lambda: tx.where(exponents >= 0, bases**exponents, 0),
        lambda: operator.ipow(bases.astype(tx.int64), exponents),
    )
    for power in powers * 3:
        with pytest.raises(ValueError, match=r"^pow: int\d+ to the negative power -3 is no integer; use a float"):
            power().tolist()


def test_failed_integer_powers_leave_their_operands_and_raise_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, thread_limits={"min_donated_bytes": 1 << 10})
    for count in (3, 1 << 7):  # the larger result could be computed in the memory of its base
        x, y = tx.full(count, 2).realize(), tx.ones(count, dtype=tx.int64)
        y[count // 2] = -1
        power, base = x**y, x.copy()
        x *= 1
        for _ in range(2):
            with pytest.raises(NegativeExponent):
                power.tolist()
        assert base.tolist() == x.tolist() == [2] * count
        z = tx.full(count, 7).realize()
        with pytest.raises(NegativeExponent):
            z[: count - 1] = power[: count - 1]
            z.tolist()


def test_integer_powers_with_non_negative_exponents_equal_numpy() -> None:
    for base, exponent in (("int8", "int8"), ("uint8", "int16"), ("int64", "int64"), ("uint64", "uint64"), ("int32", "uint8")):
        x, y = np.asarray([[3], [0], [1], [2]], base), np.asarray([0, 1, 2, 5, 126], exponent)
        np.testing.assert_array_equal((tx.asarray(x) ** tx.asarray(y)).numpy(), x**y)
    largest = np.asarray([2**63 - 1])
    assert (tx.asarray([-1, 2]) ** tx.asarray(largest)).tolist() == [-1, 0]
    table, matrix = np.arange(12).reshape(3, 4) % 5, np.arange(8).reshape(4, 2)
    powers = tx.asarray(table) ** tx.asarray(table[::-1])
    np.testing.assert_array_equal((powers @ tx.asarray(matrix)).numpy(), (table ** table[::-1]) @ matrix)
    np.testing.assert_array_equal(powers[:, ::-1].cumsum(1).numpy(), np.cumsum((table ** table[::-1])[:, ::-1], 1))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.0, 0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32"])
def test_power_dtype_depends_only_on_the_kind_of_the_exponent(dtype: str, exponent: float) -> None:
    t = tx.ones(2, dtype=dtype)
    result = t**exponent
    assert result.dtype is tx.result_type(t, exponent)
    assert result.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "uint64"])
def test_round_of_integers_with_negative_digits_equals_python(dtype: str) -> None:
    info = tx.iinfo(tx.dtype(dtype))
    values = [x for x in (*range(-124, 125), 10**18 - 5, 5 * 10**17, 15 * 10**17 - 1) if info.min <= x <= info.max]
    for digits in (0, 2, -1, -2, -18, -30):
        result = round(tx.asarray(values, dtype=dtype), digits)
        assert result.dtype is tx.dtype(dtype)
        for x, y in zip(values, result.tolist(), strict=True):
            assert y == round(x, digits), (x, digits)


def test_operands_broadcast_as_in_numpy() -> None:
    a, b = np.arange(6).reshape(2, 3, 1), np.arange(70).reshape(7, 2, 1, 5)
    assert_same(tx.asarray(a) + tx.asarray(b), a + b)
    assert_same(tx.zeros((0, 3)) + tx.ones(3), np.zeros((0, 3)))
    assert_same(tx.asarray(2) + tx.asarray(3), np.asarray(5))
    x = tx.asarray([1, 2, 3])
    assert (x[:, None] * x).tolist() == [[1, 2, 3], [2, 4, 6], [3, 6, 9]]


# Methods


def test_clip_equals_numpy_and_returns_a_copy() -> None:
    a = np.array([-3, 0, 5])
    t = tx.asarray(a)
    assert_same(t.clip(-1, 2), a.clip(-1, 2))
    assert_same(t.clip(min=0), a.clip(0))
    assert_same(t.clamp(max=tx.asarray([0, -1, 3])), a.clip(max=np.array([0, -1, 3])))
    free = t.clip()
    free[0] = 9
    assert t[0].item() == -3


@pytest.mark.parametrize("source", ["bool", "uint8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("to", ["bool", "uint8", "int8", "int64", "float16", "float32", "float64"])
def test_astype_equals_numpy(source: str, to: str) -> None:
    a = np.array([0, 1, 1, 0] if source == "bool" else [0, 1, 100, 127], source)
    assert_same(tx.asarray(a).astype(to), a.astype(to))
    assert tx.asarray(a).astype("bfloat16").tolist() == a.astype(np.float32).tolist()


def test_astype_saturates_floats_and_copies_by_default() -> None:
    t = tx.asarray([1e10, -1e10, float("nan"), float("inf"), -2.9])
    assert t.astype(tx.int8).tolist() == [127, -128, 0, 127, -2]
    assert t.astype(tx.uint16).tolist() == [65535, 0, 0, 65535, 0]
    assert t.astype(tx.float64, copy=False) is t
    assert t.astype(tx.float64) is not t
    for wrong in ("flaot", np.clongdouble, object(), np.dtype("U3")):
        with pytest.raises(DTypeError, match="float32"):
            t.astype(wrong)


# Memory order of results


def test_elementwise_result_keeps_the_memory_order_of_its_operands() -> None:
    t = tx.asarray(np.arange(24.0)).reshape(2, 3, 4)
    permuted = t.permute(1, 2, 0)
    for result in (permuted + 1, permuted * permuted.copy().permute(2, 0, 1).copy().permute(1, 2, 0), permuted.exp(), permuted > 3):
        assert result.strides == (4, 1, 12)
    assert (permuted + tx.ones(2)).strides == (4, 1, 12)  # a broadcast operand does not affect the memory order
    assert permuted.astype(tx.float32).strides == (4, 1, 12)
    assert (permuted[::-1] - 1).strides == (4, 1, 12)
    assert_same(permuted[::-1] - 1, np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0)[::-1] - 1)


def test_elementwise_result_of_different_memory_orders_is_row_major() -> None:
    square = tx.asarray(np.arange(9.0)).reshape(3, 3)
    chain = tx.zeros((9, 2)).T.reshape(3, 6)[:, ::2]  # a view chain, which has no strides
    for result in (square + square.T, square.T + square, chain + square.T, square.T + chain):
        assert result.is_contiguous()
    assert (square.expand(2, 3, 3).permute(1, 2, 0) + 0).is_contiguous()
    assert (tx.ones((1, 6))[:, ::2] + 1).strides == (3, 1)  # an axis of size 1 stays where it is
    assert_same(square + square.T, np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T)


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_comparison_of_int64_with_uint64_is_exact(name: str) -> None:
    signed = [-(2**63), -1, 0, 5, 2**53 + 1, 2**63 - 1]
    unsigned = [0, 5, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
    a, b = tx.asarray(signed).expand_dims(1), tx.asarray(unsigned, dtype=tx.uint64)
    short = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
    compare = getattr(operator, short[name])
    assert getattr(tx, name)(a, b).tolist() == [[compare(x, y) for y in unsigned] for x in signed]
    assert compare(b, a).tolist() == [[compare(y, x) for y in unsigned] for x in signed]
    assert compare(a[1, 0], b[0]).item() is compare(-1, 0)


def test_clip_ignores_bounds_beyond_the_dtype_if_all_elements_fit() -> None:
    t = tx.asarray([0, 7, 255], dtype=tx.uint8)
    assert t.clip(-1, 300).tolist() == [0, 7, 255] and t.clip(-(10**30), 9).tolist() == [0, 7, 9]
    assert tx.clip(t, 3, 2**70).tolist() == [3, 7, 255]
    for bounds in ((256, None), (None, -1)):
        with pytest.raises(OutOfBounds, match="clip"):
            t.clip(*bounds)


def test_fill_writes_one_number_and_returns_none() -> None:
    t = tx.zeros((2, 3))
    assert t.fill(7) is None and t[:, 1].fill(1.5) is None
    assert t.tolist() == [[7.0, 1.5, 7.0]] * 2
