"""New tensors: from lists, numbers and arrays, from a rule, from another tensor's shape."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, OutOfBounds, ShapeError

DTYPES = ["bool", "uint8", "uint64", "int8", "int64", "float16", "float32", "float64"]


class Level(enum.IntEnum):
    HIGH = 3


def assert_same(tensor: tx.Tensor, expected: Any) -> None:
    expected = np.asarray(expected)
    assert tensor.dtype is tx.dtype(expected.dtype)
    assert tensor.shape == expected.shape
    assert tensor.tolist() == expected.tolist()


# From data


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (5, "int64"),
        (2.5, "float64"),
        (True, "bool"),
        ([], "float64"),
        ([[], []], "float64"),
        ([1, 2], "int64"),
        ((1, 2.5), "float64"),
        ([True, False], "bool"),
        ([True, 2], "int64"),
        ([True, 2.5], "float64"),
        (range(4), "int64"),
        ([range(3), (1, 2, 3)], "int64"),
        ([[[1]], [[2]]], "int64"),
        ([2**62, -(2**63)], "int64"),
        ([2**70, 1.5], "float64"),
        ([math.inf, -math.inf], "float64"),
        (np.float32(1.5), "float32"),
        (np.array(3, np.int8), "int8"),
        ([np.float32(1), np.float32(2)], "float32"),
        ([np.int8(1), np.uint8(2)], "int16"),
        ([np.float32(1), 2], "float64"),
        ([np.uint64(2**64 - 1)], "uint64"),
        ([np.array([1, 2], np.int8), np.array([3, 4], np.int8)], "int8"),
        ([np.array(1.5), np.array(2)], "float64"),
    ],
    ids=repr,
)
def test_asarray_infers_the_dtype_of_data(data: Any, dtype: str) -> None:
    t = tx.asarray(data)
    assert t.dtype is tx.dtype(dtype)
    assert_same(t, np.array(data, dtype))
    assert tx.array is tx.tensor is tx.asarray


def test_asarray_joins_lists_of_tensors() -> None:
    rows = [tx.ones(3, dtype=tx.float32), tx.zeros(3, dtype=tx.float32)]
    assert tx.asarray(rows).dtype is tx.float32
    assert tx.asarray(rows).tolist() == [[1, 1, 1], [0, 0, 0]]
    assert tx.asarray([tx.asarray(1), 2.5, np.int8(3)]).tolist() == [1, 2.5, 3]
    assert tx.asarray([tx.asarray([1, 2]), [3, 4], np.array([5, 6])]).tolist() == [[1, 2], [3, 4], [5, 6]]
    halves = tx.asarray([tx.asarray(1.5, dtype=tx.bfloat16)] * 2)
    assert (halves.dtype, halves.tolist()) == (tx.bfloat16, [1.5, 1.5])


def test_subclasses_of_int_and_float_are_scalars() -> None:
    assert tx.asarray([Level.HIGH, 1]).tolist() == [3, 1]
    assert tx.asarray(Level.HIGH).dtype is tx.int64
    assert tx.asarray([np.float64(2.5)]).dtype is tx.float64
    assert tx.full(2, Level.HIGH).tolist() == [3, 3]
    t = tx.ones(1, dtype=tx.int8)
    assert (t * Level.HIGH).dtype is (Level.HIGH * t).dtype is tx.int8
    t[0] = Level.HIGH
    t[...] = t + Level.HIGH
    assert t.tolist() == [6]


@pytest.mark.parametrize("dtype", DTYPES)
def test_asarray_converts_to_the_given_dtype(dtype: str) -> None:
    for data in ([0, 1, 2], [0.0, 1.0, 2.75], [True, False], 3, np.array([0, 1, 100]), np.array([0.5, 2.5])):
        assert_same(tx.asarray(data, dtype=dtype), np.array(data).astype(dtype))


def test_floats_into_integers_truncate_and_saturate_without_a_warning() -> None:
    values = [1e10, -1e10, math.nan, -3.7]
    for data in (values, np.array(values), np.array(values, np.float32)):
        assert tx.asarray(data, dtype=tx.int8).tolist() == [127, -128, 0, -3]
    for dtype in ("float16", "bfloat16", "float32"):
        assert tx.asarray([1e300], dtype=dtype).tolist() == tx.asarray(np.array([1e300]), dtype=dtype).tolist() == [math.inf]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("value", [300.7, -1.5, 128.0, -129.0, 1e30, -1e30, math.inf, -math.inf, math.nan, 0.99], ids=str)
def test_floats_become_the_nearest_integers_of_the_dtype_in_every_function(value: float, dtype: str) -> None:
    """Lists, numbers, arrays and assignments follow one rule: truncate, limit to the range, 0 for NaN."""
    limits = np.iinfo(dtype)
    whole = 0 if math.isnan(value) else limits.max if value == math.inf else limits.min if value == -math.inf else math.trunc(value)
    expected = max(limits.min, min(limits.max, whole))
    written, filled, part = tx.zeros(2, dtype=dtype), tx.zeros(2, dtype=dtype), tx.zeros((2, 1), dtype=dtype)
    written[0], part[0] = value, [value]
    results = [
        *(tx.asarray([value], dtype=dtype)[0], tx.asarray([value, 1], dtype=dtype)[0], tx.asarray(value, dtype=dtype)),
        *(tx.asarray(np.array([value]), dtype=dtype)[0], tx.asarray([value]).astype(dtype)[0], tx.dtype(dtype)(value)),
        *(tx.full(2, value, dtype=dtype)[1], tx.full_like(written, value)[1], written[0], filled.fill_(value)[1], part[0, 0]),
    ]
    assert [x.item() for x in results] == [expected] * len(results)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([1, 256], "uint8"),
        ([[1], [-1]], "uint64"),
        ([-129], "int8"),
        (128, "int8"),
        ([2**64], "uint64"),
        ([2**63], None),
        (2**63, None),
        ([10**400], "float64"),
        ([10**400, 0.5], None),
    ],
)
def test_asarray_of_an_integer_out_of_range_raises_out_of_bounds(data: Any, dtype: str | None) -> None:
    with pytest.raises(OutOfBounds, match="asarray: Python integer"):
        tx.asarray(data, dtype=dtype)


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        b"text",
        {},
        {1, 2},
        object(),
        (x for x in [1]),
        [None],
        [1, "2"],
        [[1, 2], [3, None]],
        [np.str_("3")],
        np.array(["a"]),
        np.array([1j], np.clongdouble),
        np.array([object()]),
        np.array(["2020-01-01"], "M8[D]"),
        np.zeros(2, dtype=[("x", "i4")]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_asarray_of_data_without_numbers_raises_dtype_error(data: Any) -> None:
    with pytest.raises(DTypeError):
        tx.asarray(data)
    if not isinstance(data, np.ndarray):
        with pytest.raises(DTypeError):
            tx.asarray(data, dtype=tx.float32)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([[1, 2], [3]], r"depth 1.*\[0\] has 2 items.*\[1\] is 1 item"),
        ([[1], [2, 3]], r"\[0\] has 1 item.*\[1\] is 2 items"),
        ([[1, 2], 3], r"\[1\] is the number 3"),
        ([1, [2]], r"\[0\] is the number 1.*\[1\] has 1 item"),
        ([[[1], [2]], [[3], [4, 5]]], r"depth 2.*\[1\]\[1\]"),
        ([[1, 2], []], r"\[1\]"),
        ([[], [1]], r"\[1\]"),
        ([np.zeros(2), np.zeros(3)], r"\[1\]"),
        ([tx.zeros(2), tx.zeros((2, 2))], r"\[1\]\[0\]"),
    ],
)
def test_asarray_of_a_ragged_list_names_the_position(data: Any, says: str) -> None:
    with pytest.raises(ShapeError, match=r"(?s)asarray: ragged.*" + says):
        tx.asarray(data)


@pytest.mark.parametrize("make", [np.asfortranarray, lambda a: a[::-1, ::2], lambda a: a.astype(">f8"), lambda a: a.T])
def test_asarray_of_a_strided_or_swapped_array_copies_its_elements(make: Callable[[Any], Any]) -> None:
    a = make(np.arange(12.0).reshape(3, 4))
    t = tx.asarray(a)
    assert_same(t, a.astype(float))
    assert t.is_contiguous()


# From a number


@pytest.mark.parametrize("shape", [(), 3, (3,), [2, 3], (2, 0), np.array([2, 3]), tx.asarray([2, 3]), (np.int8(2), 3), np.int64(4)])
def test_filled_tensors_take_every_form_of_shape(shape: Any) -> None:
    expected = tuple(np.ravel(np.asarray(shape)).astype(int))
    for t in (tx.zeros(shape), tx.ones(shape), tx.empty(shape), tx.full(shape, 7)):
        assert t.shape == expected
    assert tx.ones(shape).tolist() == np.ones(expected).tolist()


MAKERS: dict[str, Callable[..., tx.Tensor]] = {
    "zeros": tx.zeros,
    "ones": tx.ones,
    "empty": tx.empty,
    "full": lambda shape, **options: tx.full(shape, 1, **options),
}


@pytest.mark.parametrize("name", MAKERS)
def test_error_about_a_shape_or_device_names_the_function(name: str) -> None:
    make = MAKERS[name]
    for shape in (-1, (2, -1)):
        with pytest.raises(ShapeError, match=rf"^{name}:.*-1"):
            make(shape)
    for shape in (2.5, (2, 1.0), "ab", None, [[1, 2]]):
        with pytest.raises(ArgumentError, match=f"^{name}:"):
            make(shape)
    with pytest.raises(ArgumentError, match=rf"^{name}:.*gpu"):
        make(2, device="gpu")
    assert make(2, device="cpu").device == "cpu"


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16", np.dtype("f4"), np.int16, float, bool])
def test_filled_tensors_have_the_given_dtype(dtype: Any) -> None:
    for make, value in ((tx.zeros, 0), (tx.ones, 1)):
        t = make((2, 2), dtype=dtype)
        assert t.dtype is tx.dtype(dtype)
        assert t.tolist() == [[value, value]] * 2
    x = tx.ones((2, 1), dtype=dtype)
    for like, value in ((tx.zeros_like, 0), (tx.ones_like, 1)):
        assert (like(x).dtype, like(x).tolist()) == (x.dtype, [[value], [value]])
        assert like(x, dtype=tx.int8).dtype is tx.int8
    assert tx.full_like(x, 1).tolist() == [[1], [1]]
    assert (tx.empty_like(x).dtype, tx.empty_like(x).shape) == (x.dtype, x.shape)


def test_full_takes_the_dtype_of_its_value() -> None:
    for value, dtype in ((7, "int64"), (2.5, "float64"), (True, "bool"), (np.float32(1.5), "float32")):
        assert_same(tx.full((2,), value), np.full(2, value, dtype))
    assert tx.full((2,), tx.asarray(3, dtype=tx.int8)).dtype is tx.int8
    assert tx.full((2,), np.array(3, np.uint8)).dtype is tx.uint8
    assert tx.full((2,), 2, dtype=bool).tolist() == [True, True]
    assert tx.full((2,), 1.9, dtype=tx.int32).tolist() == [1, 1]
    assert tx.full((1,), 2**64 - 1, dtype=tx.uint64).tolist() == [2**64 - 1]
    assert tx.full((), 2**70, dtype=tx.float64).item() == 2.0**70


def test_full_refuses_values_that_are_no_scalar_or_out_of_range() -> None:
    for value, dtype in ((300, "uint8"), (2**63, None), (10**400, "float64")):
        with pytest.raises(OutOfBounds, match="full"):
            tx.full(2, value, dtype=dtype)
    for wrong in ("a", None, [1], np.zeros(2), tx.zeros(1)):
        with pytest.raises(DTypeError, match="full"):
            tx.full(2, wrong)
    with pytest.raises(OutOfBounds, match=r"full_like.*300"):
        tx.full_like(tx.zeros(1, dtype=tx.int8), 300)


def test_generated_tensors_are_writable_and_own_their_memory() -> None:
    for t in (tx.zeros(3), tx.full(3, 0.0), tx.zeros_like(tx.ones(3)), tx.arange(3) * 0.0, tx.linspace(0, 0, 3)):
        t[1] = 5
        assert t.tolist() == [0, 5, 0]


def test_like_functions_take_views_and_arrays() -> None:
    x = tx.arange(6).reshape(2, 3).T
    assert tx.zeros_like(x).shape == (3, 2)
    assert tx.zeros_like(x).is_contiguous()
    wide = tx.ones_like(tx.arange(3).expand((2, 3)))
    wide[0, 0] = 7
    assert wide.tolist() == [[7, 1, 1], [1, 1, 1]]
    assert tx.ones_like(np.zeros((2,), np.float32)).dtype is tx.float32


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**300], ids=lambda n: f"{n:.0e}")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128", "bool"])
def test_integers_beyond_64_bits_are_accepted_by_float_complex_and_bool_dtypes(number: int, dtype: str) -> None:
    with np.errstate(over="ignore"):
        expected = np.asarray(float(number)).astype(dtype)
    assert_same(tx.asarray(number, dtype=dtype), expected)
    assert_same(tx.asarray([[number], [1]], dtype=dtype), np.array([[expected], [1]], dtype))
    assert_same(tx.full(2, number, dtype=dtype), np.array([expected, expected]))
    assert_same(tx.full_like(tx.ones(2, dtype=dtype), number), np.array([expected, expected]))


def test_integers_out_of_range_of_a_dtype_raise_out_of_bounds() -> None:
    assert tx.asarray([2**64 - 1, 0], dtype=tx.uint64).tolist() == [2**64 - 1, 0]
    for make in (
        tx.asarray,
        lambda n, dtype=None: tx.asarray([n], dtype=dtype),
        lambda n, dtype: tx.full(2, n, dtype=dtype),
    ):
        for number, dtype in ((2**64, tx.uint64), (-1, tx.uint64), (2**63, tx.int64), (10**400, tx.complex128)):
            with pytest.raises(OutOfBounds, match="out of range"):
                make(number, dtype=dtype)
    with pytest.raises(OutOfBounds, match="1329 bits is out of range for complex128"):
        tx.asarray([1j, 10**400])


def test_asarray_keeps_all_digits_of_integers_listed_beside_floats() -> None:
    result = tx.asarray([2**53 + 1, 1.9, -1.9, True, 1e30, -tx.inf, tx.nan], dtype=tx.int64)
    assert result.tolist() == [2**53 + 1, 1, -1, 1, 2**63 - 1, -(2**63), 0]
    assert tx.asarray([2**64 - 1, -0.5, -7.0], dtype=tx.uint64).tolist() == [2**64 - 1, 0, 0]
    with pytest.raises(DTypeError, match="imaginary"):
        tx.asarray([1, 2j], dtype=tx.float32)


# Sequences


@pytest.mark.parametrize(
    "arguments",
    [
        (5,),
        (0,),
        (-3,),
        (2, 9),
        (9, 2),
        (2, 9, 3),
        (9, 2, -3),
        (2, 9, -1),
        (0, 10, 11),
        (-5, 5, 2),
        (5, -5, -4),
        (2.5,),
        (0, 1, 0.25),
        (1, 0, -0.5),
        (0.5, 3),
        (0.0, 5),
        (0, 1, 0.1),
        (0, 3, 1.0),
        (1, 2, -0.5),
        (True, 4),
        (np.int64(5),),
        (np.int8(1), np.float32(3)),
    ],
)
def test_arange_equals_that_of_numpy(arguments: tuple[Any, ...]) -> None:
    expected = np.arange(*[x.item() if isinstance(x, np.generic) else x for x in arguments])
    result = tx.arange(*arguments)
    assert result.dtype is tx.dtype(expected.dtype)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.to_numpy(), expected, rtol=1e-15)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "float16", "float32", "bfloat16", "float64"])
def test_arange_takes_a_dtype(dtype: str) -> None:
    assert tx.arange(3, 0, -1, dtype=dtype).tolist() == [3, 2, 1]
    assert tx.arange(3, dtype=dtype).dtype is tx.dtype(dtype)
    assert tx.arange(0.0, 3, dtype=dtype).tolist() == [0, 1, 2]


def test_arange_takes_tensors_and_keywords() -> None:
    assert tx.arange(tx.asarray(3)).tolist() == [0, 1, 2]
    assert tx.arange(tx.asarray(3)).dtype is tx.int64
    assert tx.arange(1, stop=7, step=2).tolist() == [1, 3, 5]
    assert tx.arange(2**62, 2**62 + 2).tolist() == [2**62, 2**62 + 1]


def test_arange_refuses_infinite_out_of_range_and_other_arguments() -> None:
    for arguments in ((math.inf,), (0, math.nan), (0, 1, 0), (0, 1, 0.0), (0.0, 1.0, math.nan)):
        with pytest.raises(ArgumentError, match="arange"):
            tx.arange(*arguments)
    for arguments, dtype in (
        ((250, 260), "uint8"),
        ((3, -3, -1), "uint8"),
        ((-129, 0), "int8"),
        ((2**63, 2**63 + 2), None),
    ):
        with pytest.raises(OutOfBounds, match=r"arange.*out of range"):
            tx.arange(*arguments, dtype=dtype)
    for wrong in ("a", None, 1j, [1]):
        with pytest.raises(DTypeError, match="arange"):
            tx.arange(wrong)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 50, 1001])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (-1, 1), (5, -2), (0.1, 0.3), (2, 2), (1e-3, 1e9)])
def test_linspace_equals_that_of_numpy_and_meets_its_ends(start: float, stop: float, count: int, endpoint: bool) -> None:
    expected = np.linspace(start, stop, count, endpoint=endpoint)
    result = tx.linspace(start, stop, count, endpoint=endpoint)
    assert result.dtype is tx.float64
    np.testing.assert_allclose(result.to_numpy(), expected, rtol=1e-15, atol=1e-15 * max(abs(start), abs(stop)))
    if count:
        assert result[0].item() == start
    if endpoint and count > 1:
        assert result[-1].item() == stop


@pytest.mark.parametrize(
    ("start", "stop", "count"),
    [
        *((0.0, 5e-324, 3), (0.0, 5e-323, 5), (5e-324, 1e-323, 4), (-5e-324, 5e-324, 5), (1e-310, 3e-310, 7)),
        *((0.0, 2.2e-308, 11), (-3e-308, 1e-320, 100), (0.0, 1e-300, 1000), (1e-280, 1e-280, 3)),
        *((-1.7e308, 1.7e308, 9), (1e308, -1e308, 5), (-1.7976931348623157e308, 1.7976931348623157e308, 1001)),
    ],
)
def test_linspace_of_extreme_floats_is_rounded_from_the_exact_values(start: float, stop: float, count: int) -> None:
    """This holds, too, where the step of NumPy has lost its digits or is infinite."""
    gap = Fraction(stop) - Fraction(start)
    expected = [float(Fraction(start) + gap * k / (count - 1)) for k in range(count)]
    largest = max(abs(start), abs(stop))
    tolerance = 2 * math.ulp(largest) if largest > 1e-309 else 0
    values = tx.linspace(start, stop, count).tolist()
    assert values[0] == start and values[-1] == stop
    assert all(abs(f - w) <= tolerance for f, w in zip(values, expected, strict=True))
    imaginary = tx.linspace(start * 1j, stop * 1j, count).tolist()
    assert [z.imag for z in imaginary] == values


def test_linspace_takes_a_dtype_and_refuses_a_wrong_count() -> None:
    assert tx.linspace(0, 1, 3, dtype=tx.float32).tolist() == [0, 0.5, 1]
    assert_same(tx.linspace(-1, 0, 4, dtype=tx.int64), np.linspace(-1, 0, 4, dtype=np.int64))
    assert_same(tx.linspace(0, 10, 4, dtype=tx.int8), np.linspace(0, 10, 4, dtype=np.int8))
    assert tx.linspace(np.float32(0), tx.asarray(1), np.int64(2)).tolist() == [0, 1]
    for wrong in (-1, 2.5, "a"):
        with pytest.raises(ArgumentError, match="linspace"):
            tx.linspace(0, 1, wrong)
    with pytest.raises(DTypeError, match="linspace"):
        tx.linspace("a", 1, 2)


# Matrices


@pytest.mark.parametrize("k", [-5, -2, -1, 0, 1, 2, 5])
@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (2, 4), (4, 2), (0, 3), (1, 1)])
def test_eye_tril_and_triu_equal_those_of_numpy(rows: int, columns: int, k: int) -> None:
    assert_same(tx.eye(rows, columns, k=k), np.eye(rows, columns, k))
    assert_same(tx.eye(rows, columns, k=k, dtype=tx.int8), np.eye(rows, columns, k, np.int8))
    a = np.arange(1, 1 + 2 * rows * columns).reshape(2, rows, columns)
    assert_same(tx.tril(tx.asarray(a), k=k), np.tril(a, k))
    assert_same(tx.triu(tx.asarray(a), k=k), np.triu(a, k))
    transposed = tx.asarray(a).permute(0, 2, 1)
    assert_same(tx.tril(transposed, k=k), np.tril(a.transpose(0, 2, 1), k))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tril_and_triu_keep_the_dtype(dtype: str) -> None:
    assert_same(tx.tril(tx.ones((2, 2), dtype=dtype)), np.tril(np.ones((2, 2), dtype)))
    assert_same(tx.triu(tx.ones((2, 2), dtype=dtype)), np.triu(np.ones((2, 2), dtype)))


def test_eye_tril_and_triu_refuse_wrong_shapes() -> None:
    assert tx.eye(2).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ShapeError, match=r"eye.*-1"):
        tx.eye(-1)
    with pytest.raises(ArgumentError, match="eye"):
        tx.eye(2.5)
    for triangle in (tx.tril, tx.triu):
        with pytest.raises(ShapeError, match=r"tri.*\(3,\).*matrix"):
            triangle(tx.ones(3))
    assert tx.tril([[1, 2], [3, 4]]).tolist() == [[1, 0], [3, 4]]


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sizes", [(), (3,), (3, 2), (2, 3, 4), (2, 0), (1, 1)])
def test_meshgrid_equals_that_of_numpy_and_returns_views(sizes: tuple[int, ...], indexing: str) -> None:
    lines = [np.arange(n) + 10 * k for k, n in enumerate(sizes)]
    expected = np.meshgrid(*lines, indexing=indexing)
    tensors = [tx.asarray(line) for line in lines]
    grids = tx.meshgrid(*tensors, indexing=indexing)
    assert len(grids) == len(expected)
    for ours, theirs, line in zip(grids, expected, tensors, strict=True):
        assert_same(ours, theirs)
        assert ours.storage is line.storage
    for sparse in (tx.meshgrid(*tensors, indexing=indexing, sparse=True), np.meshgrid(*tensors, indexing=indexing, sparse=True)):
        for ours, theirs in zip(sparse, np.meshgrid(*lines, indexing=indexing, sparse=True) if lines else (), strict=True):
            assert_same(ours, theirs)


def test_meshgrid_takes_lists_and_scalars_and_refuses_matrices() -> None:
    x, y = tx.meshgrid([1, 2], 5)
    assert (x.tolist(), y.tolist()) == ([[1, 2]], [[5, 5]])
    with pytest.raises(ArgumentError, match=r"indexing.*'zz'"):
        tx.meshgrid(tx.ones(2), indexing="zz")
    with pytest.raises(ShapeError, match=r"meshgrid.*array 1.*\(2, 2\)"):
        tx.meshgrid(tx.ones(2), tx.ones((2, 2)))


def test_astype_function_equals_the_method() -> None:
    t = tx.asarray([1.5, 2.5])
    assert tx.astype(t, tx.int8).tolist() == [1, 2]
    assert tx.astype(t, tx.float64, copy=False) is t
    with pytest.raises(ArgumentError, match=r"astype.*gpu"):
        tx.astype(t, tx.int8, device="gpu")


def test_eye_tril_and_triu_take_diagonals_far_outside_the_matrix() -> None:
    for k in (2, 100, 2**63, 2**80):
        assert tx.eye(2, k=k).tolist() == tx.eye(2, k=-k).tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert tx.tril(tx.ones((2, 2)), k=k).tolist() == tx.triu(tx.ones((2, 2)), k=-k).tolist() == [[1.0, 1.0]] * 2
        assert tx.triu(tx.ones((2, 2)), k=k).tolist() == tx.tril(tx.ones((2, 2)), k=-k).tolist() == [[0.0, 0.0]] * 2


def test_meshgrid_gives_a_tuple() -> None:
    assert type(tx.meshgrid(tx.arange(2), tx.arange(3))) is tuple
