"""NumPy's scalars and arrays, lists, and all of Python's numbers as operands, keys, values and arguments `out`."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.errors import DTypeError, NegativeExponent, ShapeError, TenxorError
from tenxor.tensor import Tensor

pytestmark = [pytest.mark.usefixtures("on"), pytest.mark.usefixtures("afresh")]
NUMPY_TYPES = ("bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64", "complex64", "complex128")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "==": operator.eq,
    "<": operator.lt,
    "**": operator.pow,
    "//": operator.floordiv,
}
CALLS = 6  # of each expression: the first ones are recorded


@pytest.fixture
def left_to_python(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Return a function that begins to record, in the list that it returns, which methods of Python compute, convert or write."""

    def begin() -> list[str]:
        found = list[str]()
        for name in ("_compute", "_from_array"):
            own = vars(next(cls for cls in Tensor.__mro__ if name in vars(cls)))[name].__func__
            monkeypatch.setattr(Tensor, name, classmethod(lambda cls, *given, own=own, name=name: found.append(name) or own(cls, *given)))
        own_write = Tensor._write
        monkeypatch.setattr(Tensor, "_write", lambda x, *given, **named: found.append("_write") or own_write(x, *given, **named))
        return found

    return begin


def outcome(apply: Callable[[Any, Any], Any], x: Any, y: Any) -> tuple[object, ...]:
    """Return the dtype, shape and elements of the tensor `apply(x, y)`, or the type of the error that the call raises."""
    try:
        result = apply(x, y)
    except TenxorError as error:
        return (type(error),)
    return result.dtype, result.shape, result.to_numpy().tobytes()


@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("kind", NUMPY_TYPES)
def test_numpy_scalar_is_an_operand_of_its_own_dtype(kind: str, symbol: str) -> None:
    apply, number = OPERATORS[symbol], np.dtype(kind).type(3)
    for dtype in ("float64", "int64", "complex64"):
        x = tx.asarray(np.arange(1, 7).astype(dtype))
        array = tx.asarray(np.full(1, number))
        with fastpath.disabled():  # an array of one element has the same dtype, and is read from memory
            wanted = [outcome(apply, x, array), outcome(apply, array, x)]
        for _ in range(CALLS):
            assert [outcome(apply, x, number), outcome(apply, number, x)] == wanted


@pytest.mark.parametrize("symbol", ["+", "*", "==", "<"])
def test_numpy_scalars_run_no_python_from_the_second_call_on(symbol: str, left_to_python: Callable[[], list[str]]) -> None:
    apply, x = OPERATORS[symbol], tx.asarray(np.arange(5.0))
    apply(x, np.float64(2)).realize(), apply(np.float64(2), x).realize(), apply(x, np.arange(5.0)).realize()
    found = left_to_python()
    for number in (0.5, -1.0, 7.0):
        assert np.array_equal(apply(x, np.float64(number)).to_numpy(), apply(np.arange(5.0), number))
        assert np.array_equal(apply(np.float64(number), x).to_numpy(), apply(number, np.arange(5.0)))
        assert np.array_equal(apply(x, np.full(5, number)).to_numpy(), apply(np.arange(5.0), number))
    assert not found


@pytest.mark.parametrize("number", [True, False, 2j, 1.5 - 0.5j, 3, -0.0])
def test_each_kind_of_python_number_is_an_operand(number: complex) -> None:
    for array in (np.arange(1.0, 5.0), np.arange(1, 5), np.arange(1, 5).astype(np.float32)):
        x = tx.asarray(array)
        for _ in range(CALLS):
            for result, wanted in ((x * number, array * number), (number - x, number - array), (x == number, array == number)):
                assert np.array_equal(result.to_numpy(), wanted) and result.dtype == wanted.dtype


def test_booleans_and_complex_numbers_run_no_python_from_the_second_call_on(left_to_python: Callable[[], list[str]]) -> None:
    x = tx.asarray(np.arange(5.0))
    (x * True).realize(), (x * 2j).realize()
    found = left_to_python()
    assert (x * False).tolist() == [0.0] * 5
    assert (x * 3j).tolist() == [3j * k for k in range(5)]
    assert not found


def test_operand_array_may_change_after_the_operation() -> None:
    x, array, numbers = tx.asarray(np.arange(4.0)), np.ones(4), [1.0, 2.0, 3.0, 4.0]
    for k in range(CALLS):
        array[:], numbers[0] = k, float(k)
        results = x + array, array - x, x * numbers, tx.where(x > 1, array, 0.0)
        array[:], numbers[0] = -1, -1.0
        assert results[0].tolist() == [k + n for n in range(4)] and results[1].tolist() == [k - n for n in range(4)]
        assert results[2].tolist() == [0.0, 2.0, 6.0, 12.0] and results[3].tolist() == [0.0, 0.0, k, k]


def test_functions_accept_numbers_without_a_tensor() -> None:
    for _ in range(CALLS):
        for number in (2.0, 2, True, 1j, np.float32(2), np.int8(2)):
            result, wanted = tx.exp(number) if not isinstance(number, complex) else tx.negative(number), np.asarray(number)
            assert result.shape == () and result.dtype == (tx.exp(tx.asarray(wanted)) if wanted.dtype.kind != "c" else wanted).dtype
        assert tx.sqrt(np.float64(2)).item() == 2**0.5
        assert tx.negative(2**63 - 1).item() == 1 - 2**63


def test_negative_exponents_of_integers_raise_at_each_call() -> None:
    x = tx.asarray(np.arange(1, 4))
    for k in range(CALLS):
        assert (x ** np.int64(k)).tolist() == [n**k for n in (1, 2, 3)]
        with pytest.raises(NegativeExponent):
            x ** np.int64(-1)
    for k in range(CALLS):
        assert np.allclose((tx.asarray([1.0, 2.0]) ** np.float64(-k)).to_numpy(), [1.0, 2.0**-k])


def test_numpy_integers_and_arrays_as_keys_equal_numpy() -> None:
    array = np.arange(12.0).reshape(3, 4)
    x = tx.asarray(array)
    keys: tuple[Any, ...] = (
        *(np.int64(1), np.uint8(2), np.int8(-1), (np.int64(1), np.int32(2)), (1, np.uint64(3)), (np.int64(0), slice(1, None))),
        *(np.array([0, 2]), np.array([2, 0], np.uint8), array > 5, (slice(None), np.array([1, 1])), (np.array([0, 1]), np.array([2, 3]))),
        *((..., np.int16(1)), (None, np.int64(1)), np.array(1), np.array([True, False, True]), np.array([[0], [1]])),
    )
    for _ in range(CALLS):
        for key in keys:
            assert np.array_equal(x[key].to_numpy(), array[key])
        for key in (np.int64(3), (np.int64(0), np.int64(4)), np.array([0, 3])):
            with pytest.raises(IndexError):
                x[key].tolist()


def test_assignment_of_numpy_scalars_and_arrays_equals_numpy() -> None:
    array = np.arange(12.0).reshape(3, 4)
    x = tx.asarray(array.copy())
    values: tuple[tuple[Any, Any], ...] = (
        *(((0, 1), np.float64(7)), ((np.int64(0), np.int64(2)), np.float32(0.1)), (slice(0, 2), np.full((2, 4), 3.0))),
        *((1, np.arange(4)), (np.int64(2), [1.0, 2.0, 3.0, 4.0]), (..., np.float64(1)), (np.array([0, 2]), np.ones((2, 4)))),
    )
    for k in range(CALLS):
        for key, value in values:
            if isinstance(value, np.ndarray):
                value = value * k
            x[key] = value
            array[key] = value
            if isinstance(value, np.ndarray):
                value[...] = -1
            assert np.array_equal(x.to_numpy(), array)


def test_out_of_the_same_shape_and_dtype_is_written(left_to_python: Callable[[], list[str]]) -> None:
    x, y, out = (tx.asarray(np.arange(6.0) + k) for k in range(3))
    for _ in range(CALLS):
        assert tx.add(x, y, out=out) is out and tx.exp(x, out=out) is out and tx.where(x > 2, x, 0.0, out=out) is out
    totals = tx.zeros(2)
    for _ in range(CALLS):
        assert tx.sum(x.reshape(2, 3), axis=1, out=totals) is totals and totals.tolist() == [3.0, 12.0]
    found = left_to_python()
    assert tx.sum(y.reshape(2, 3), axis=1, out=totals) is totals and totals.tolist() == [6.0, 15.0]
    assert tx.add(x, y, out=out) is out and out.tolist() == [2.0 * k + 1 for k in range(6)]
    assert tx.add(out, x, out=out).tolist() == [3.0 * k + 1 for k in range(6)]
    assert not found


def test_out_of_another_shape_or_dtype_is_written_or_refused() -> None:
    x = tx.asarray(np.arange(3.0))
    matrix, floats, integers = tx.zeros((2, 3)), tx.zeros(3, dtype=tx.float32), tx.zeros(3, dtype=tx.int64)
    columns = tx.zeros((3, 2))
    for k in range(CALLS):
        assert tx.add(x, k, out=matrix).tolist() == [[k, k + 1, k + 2]] * 2
        assert tx.add(x, k, out=floats) is floats and floats.dtype == tx.float32 and floats.tolist() == [k, k + 1, k + 2]
        assert tx.add(x, k, out=columns[:, 1]).tolist() == [k, k + 1, k + 2] and columns[:, 0].tolist() == [0.0] * 3
        with pytest.raises(DTypeError):
            tx.add(x, k, out=integers)
        with pytest.raises(ShapeError):
            tx.add(x, k, out=tx.zeros(4))
        with pytest.raises(DTypeError):
            tx.add(x, k, out=np.zeros(3))
    assert integers.tolist() == [0, 0, 0]


def test_tensors_of_integers_are_indices() -> None:
    x, items = tx.asarray(np.arange(5)), list("abcde")
    for _ in range(CALLS):
        assert [items[x[k]] for k in range(5)] == items and list(range(x[3])) == [0, 1, 2] and operator.index(tx.asarray(7)) == 7
        assert operator.index(tx.asarray(np.uint64(2**64 - 1))) == 2**64 - 1
        for wrong in (tx.asarray(1.0), tx.asarray(True), x):
            with pytest.raises(TypeError):
                operator.index(wrong)


def test_element_with_a_node_still_converts_to_a_number() -> None:
    x = tx.asarray(np.arange(5.0))
    for _ in range(CALLS):
        element = x[3]
        assert element.storage.node is not None
        assert (float(element), int(element), bool(element), element.item(), element.tolist()) == (3.0, 3, True, 3.0, 3.0)
        assert (element + 1).item() == 4.0 and element.copy().item() == 3.0
        element += 1
        assert element.item() == 4.0 and x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_element_that_took_a_value_with_derivatives_is_written_with_them() -> None:
    def write(x: Any) -> Any:
        total = tx.zeros(2)
        total[0] += x[0]
        element = total[1]
        element += x[1] * 2.0
        total[1] = element
        return (total * tx.asarray([3.0, 5.0])).sum()

    x = tx.asarray(np.arange(1.0, 4.0))
    for _ in range(CALLS):
        assert tx.grad(write)(x).tolist() == [3.0, 10.0, 0.0]


def test_conversion_to_the_own_dtype_given_as_a_type_is_a_new_tensor() -> None:
    for array, kinds in ((np.arange(3.0), (float, np.float64)), (np.arange(3), (int, np.int64)), (np.array([True]), (bool, np.bool_))):
        x = tx.asarray(array.copy())
        for _ in range(CALLS):
            for kind in kinds:
                copy = x.astype(kind)
                assert copy is not x and copy.dtype is x.dtype
                copy[0] = 1
                assert np.array_equal(x.to_numpy(), array)
        assert x.astype(np.float32).dtype == tx.float32


@pytest.mark.parametrize("dtype", [None, "float64", "float32", "int64", "int8", "complex64", "float16"])
def test_asarray_converts_small_lists_as_numpy_does(dtype: str | None) -> None:
    rows: tuple[Any, ...] = ([1, 2, 3], (1, 2), [[1, 2], [3, 4]], range(4), (), [7], 5, 5.0, True)
    if dtype not in ("int64", "int8"):
        rows = (*rows, [1.5, 2.5], (0.1, 0.2, 0.3), [[0.1], [0.2]], [2**53 + 1, 2**60 + 1][: 2 if dtype != "float16" else 0])
    for _ in range(CALLS):
        for row in rows:
            result, wanted = tx.asarray(row, dtype=dtype and getattr(tx, dtype)), np.asarray(row, dtype=dtype)
            assert result.dtype == wanted.dtype and np.array_equal(result.to_numpy(), wanted), row


def test_asarray_converts_mixed_lists_and_elements_as_numpy_does(left_to_python: Callable[[], list[str]]) -> None:
    x, k, b = tx.asarray(np.arange(4.0) + 0.5), tx.asarray(np.arange(4)), tx.asarray(np.arange(4) > 1)
    rows: tuple[tuple[Any, Any], ...] = (
        *(([1, 2.5], [1, 2.5]), ([True, False], [True, False]), ([[True], [False]], [[True], [False]]), ([2.5, 1], [2.5, 1])),
        *(([x[0], x[1]], [0.5, 1.5]), ([x[0], 1], [0.5, 1.0]), ([k[2], k[3]], [2, 3]), ([k[1], 0.5], [1.0, 0.5])),
        *(([[x[0], 1.0], [2, x[3]]], [[0.5, 1.0], [2.0, 3.5]]), ([b[0], True], [False, True]), ([2**62 + 1, 0.5], [2.0**62, 0.5])),
    )
    for row, _ in rows:
        tx.asarray(row)
    found = left_to_python()
    for row, wanted in rows:
        result, array = tx.asarray(row), np.asarray(wanted)
        assert result.dtype == array.dtype and np.array_equal(result.to_numpy(), array), row
    assert not found
    for wrong in ([1.0, "x"], [[1.0], 2.0], [1.0, None], [1, 2**64]):
        for _ in range(2):
            with pytest.raises(TenxorError):
                tx.asarray(wrong)
    assert tx.asarray([2**70, 1.0]).tolist() == [2.0**70, 1.0]
    changed = [x[0], x[1]]
    copy = tx.asarray(changed)
    copy[0] = 9.0
    assert changed[0].item() == 0.5 and x[0].item() == 0.5


def test_asarray_of_equal_numbers_gives_independent_tensors() -> None:
    for _ in range(CALLS):
        x, y = tx.asarray(1.5), tx.asarray(1.5)
        x += 1
        y[...] = 7
        assert (x.item(), y.item(), tx.asarray(1.5).item()) == (2.5, 7.0, 1.5)
        with pytest.raises(TenxorError):
            tx.asarray(2**64)
        assert tx.grad(lambda t: t * t)(tx.asarray(3.0)).item() == 6.0


def test_conversions_of_numpy_values_keep_reference_counts() -> None:
    x, array, number, key, items = tx.asarray(np.arange(4.0)), np.ones(4), np.float64(2.5), np.int64(1), [1.0, 2.0, 3.0, 4.0]
    pair = (key, slice(None))
    matrix, strings = tx.zeros((2, 2)), ["a", "b", "c", "d"]
    values = array, number, key, items, pair, strings, array.dtype

    def run() -> None:
        x + array, x * number, number - x, x + items, x[key], matrix[pair], x + tuple(items)
        x[key], x[:], x[np.array([0, 1])] = number, array, 1.0
        tx.asarray([x[0], 1, 2.5]), tx.asarray([[True], [False]])
        tx.exp(number), tx.where(x > 1, array, number), tx.add(x, array, out=x), tx.asarray(items), np.add(x, array)
        for wrong in ("x", strings, array.reshape(2, 2).T[:1]):
            with suppress(TypeError, TenxorError):
                x + wrong, x[wrong]  # type: ignore[operator, index]

    for _ in range(3 * CALLS):
        run()
    before = [sys.getrefcount(v) for v in values]
    for _ in range(50):
        run()
    assert [sys.getrefcount(v) for v in values] == before
