"""Nested lists of numbers, compared with a reading of one element at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES
from tenxor.errors import ArgumentError, DTypeError, OutOfBounds, ShapeError
from tenxor.nn import functional as F
from tenxor.tensor import nested_lists

PLAIN = st.sampled_from([True, False, 0, 1, -1, 7, 2**53 + 1, -(2**63), 2**63 - 1, 0.5, -2.25, 1e300, 1j, 2 - 0.5j])
SCALARS = [np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64]
NESTED = st.sampled_from([list, tuple])


@st.composite
def nests(draw: st.DrawFn, leaves: Any) -> Any:
    shape = draw(st.lists(st.integers(0, 4), max_size=3))

    def build(sizes: list[int]) -> Any:
        return draw(NESTED)(build(sizes[1:]) for _ in range(sizes[0])) if sizes else draw(leaves)

    return build(shape)


def flat(data: Any) -> list[Any]:
    return [x for item in data for x in flat(item)] if isinstance(data, (list, tuple)) else [data]


def shape_of(data: Any) -> tuple[int, ...]:
    if not isinstance(data, (list, tuple)):
        return ()
    return (len(data), *(shape_of(data[0]) if data else ()))


@given(nests(PLAIN) | nests(st.sampled_from([1, 2, -9])) | nests(st.sampled_from([True, False])) | nests(st.floats()))
def test_asarray_of_nested_python_numbers_has_the_highest_dtype(data: Any) -> None:
    leaves = flat(data)
    kinds = {type(x) for x in leaves}
    dtype = {complex: "complex128", float: "float64", int: "int64", bool: "bool"}
    highest = next((dtype[kind] for kind in dtype if kind in kinds), "float64")
    result = tx.asarray(data)
    expected = np.empty(len(leaves), highest)
    for k, x in enumerate(leaves):
        expected[k] = x
    assert str(result.dtype) == highest
    assert result.shape == shape_of(data)
    np.testing.assert_array_equal(result.to_numpy().ravel(), expected)


@given(nests(st.tuples(st.sampled_from(SCALARS), st.integers(0, 100)).map(lambda x: x[0](x[1]))), st.data())
def test_asarray_of_numpy_scalars_promotes_their_dtypes(data: Any, more: st.DataObject) -> None:
    leaves = flat(data)
    dtypes = {tx.dtype(x.dtype) for x in leaves}
    if tx.uint64 in dtypes and any(d.kind == "int" for d in dtypes) and not any(d.is_float for d in dtypes):
        with pytest.raises(DTypeError, match="no common dtype"):
            tx.asarray(data)
    else:
        result = tx.asarray(data)
        assert result.dtype is (tx.result_type(*dtypes) if dtypes else tx.float64)
        assert flat(result.tolist()) == [x.item() for x in leaves]
    wanted = more.draw(st.sampled_from([d for d in ALL_DTYPES if d is not tx.bool]))
    assert flat(tx.asarray(data, dtype=wanted).tolist()) == [
        x for x in np.array([x.item() for x in leaves]).astype("float32" if wanted is tx.bfloat16 else wanted.numpy)
    ]


@pytest.mark.parametrize("wanted", [d for d in ALL_DTYPES if d is not tx.bool], ids=str)
@pytest.mark.parametrize("source", ALL_DTYPES, ids=str)
def test_asarray_converts_lists_of_tensors_to_any_dtype(source: tx.DType, wanted: tx.DType) -> None:
    rows = [tx.asarray([k % 2, 1, 0]).astype(source) for k in range(20)]
    if source.is_complex and not wanted.is_complex:
        with pytest.raises(DTypeError, match=r"asarray: complex128 as .* imaginary"):
            tx.asarray(rows, dtype=wanted)
        return
    result = tx.asarray([rows, rows], dtype=wanted)
    assert result.dtype is wanted
    assert result.tolist() == [[[k % 2, 1, 0] for k in range(20)]] * 2


def test_integers_in_listed_tensors_must_fit_the_requested_dtype() -> None:
    rows = [tx.asarray([1, 2]), tx.asarray([3, 300])] * 10
    assert tx.asarray(rows, dtype=tx.int16).tolist() == [[1, 2], [3, 300]] * 10
    with pytest.raises(OutOfBounds, match="asarray: Python integer 300 is out of range for int8"):
        tx.asarray(rows, dtype=tx.int8)
    with pytest.raises(OutOfBounds, match="asarray: Python integer 300 is out of range for int8"):
        tx.asarray([*rows, tx.asarray([0.5, 1.5])], dtype=tx.int8)
    with pytest.raises(OutOfBounds, match="asarray: Python integer -1 is out of range for uint8"):
        tx.asarray([tx.asarray([1, -1])] * 20, dtype=tx.uint8)
    big = [np.array([2**64 - 1], np.uint64), np.array([1], np.uint64)]
    assert tx.asarray(big).tolist() == [[2**64 - 1], [1]]
    with pytest.raises(OutOfBounds, match="18446744073709551615 is out of range for int64"):
        tx.asarray(big, dtype=tx.int64)
    assert tx.asarray(big, dtype=tx.bool).tolist() == [[True], [True]]
    assert tx.asarray(big, dtype=tx.complex128).tolist() == [[2.0**64], [1]]
    mixed = [np.array([1], np.uint64), np.array([-1], np.int8)]
    assert tx.asarray(mixed, dtype=tx.int32).tolist() == [[1], [-1]]
    with pytest.raises(DTypeError, match="no common dtype"):
        tx.asarray(mixed)


def test_listed_integers_are_rounded_to_float32_as_python_numbers() -> None:
    value = 2**53 + 2**29 + 1  # half a unit in the last place of float32, plus a bit that float64 drops
    for data in ([value], [np.int64(value)], [tx.asarray(value)], [tx.asarray([value])]):
        assert flat(tx.asarray(data, dtype=tx.float32).tolist()) == [float(np.float32(float(value)))]


def test_lists_may_mix_tensors_arrays_numbers_and_ranges() -> None:
    data = [tx.asarray([1, 2]), [3, 4.5], np.array([5, 6], np.int8), (np.float32(7), tx.asarray(8)), range(2)]
    result = tx.asarray(data)
    assert result.dtype is tx.float64
    assert result.tolist() == [[1, 2], [3, 4.5], [5, 6], [7, 8], [0, 1]]
    assert tx.asarray([[tx.ones(2), tx.zeros(2)], [tx.zeros(2), tx.ones(2)]]).shape == (2, 2, 2)
    first_matrix, second_matrix = (np.array([row]).view(np.matrix) for row in ([1, 2], [3, 4]))
    assert tx.asarray([first_matrix] * 3).tolist() == [[[1, 2]]] * 3
    assert tx.asarray([[first_matrix], [[[3, 4]]], [second_matrix]]).tolist() == [[[[1, 2]]], [[[3, 4]]], [[[3, 4]]]]


def test_integer_too_large_for_complex_raises() -> None:
    with pytest.raises(OutOfBounds, match="of 1329 bits is out of range for complex128"):
        tx.asarray([1j, 10**400])


def test_regular_lists_are_not_read_item_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested_lists, "_measure_nesting", None)
    monkeypatch.setattr(nested_lists, "to_number", None)
    rows = [tx.asarray([k, 1.5]) for k in range(1000)]
    assert tx.asarray(rows).shape == tx.asarray([r.to_numpy() for r in rows]).shape == (1000, 2)
    assert tx.asarray([rows[:500], rows[500:]], dtype=tx.float32).shape == (2, 500, 2)
    assert tx.asarray([r[0] for r in rows]).tolist() == list(range(1000))
    assert tx.asarray(np.arange(1000, dtype=np.int8).tolist()).shape == tx.asarray(range(1000)).shape == (1000,)
    assert tx.asarray([np.float32(1)] * 9 + [np.int8(2)]).dtype is tx.float32


def test_ragged_error_names_the_position_of_the_tensor() -> None:
    rows = [tx.zeros(3)] * 20
    with pytest.raises(ShapeError, match=r"asarray: ragged.*\[20\] is 2 items"):
        tx.asarray([*rows, tx.zeros(2)])
    with pytest.raises(ShapeError, match=r"asarray: ragged.*\[20\] is the number"):
        tx.asarray([*rows, tx.asarray(1.0)])


def test_lists_read_in_portions_give_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals are handled between two portions. Results and errors equal those of a single reading."""
    from tenxor.tensor import nested_lists

    monkeypatch.setattr(nested_lists, "MAX_CHUNK_ELEMENTS", 4)
    numbers = list(range(24))
    for obj in (numbers, tuple(numbers), range(24), [0.5 * k for k in numbers], [k % 2 == 0 for k in numbers], [1j * k for k in numbers]):
        assert tx.asarray(obj).tolist() == list(obj)
        for shape in ((24, 1), (1, 24), (2, 12), (12, 2), (4, 3, 2), (1, 1, 24)):
            rows = np.array(obj).reshape(shape).tolist()
            result = tx.asarray(rows)
            assert (result.tolist(), result.dtype.name) == (rows, np.array(obj).dtype.name)
    assert tx.asarray([np.float32(k) for k in numbers]).dtype is tx.float32
    assert tx.asarray([[]] * 9).shape == (9, 0)
    for wrong, error in (([*numbers, 0.5, "a"], TypeError), ([*numbers, 2**70], OverflowError), ([[0]] * 9 + [[0, 1]], ValueError)):
        with pytest.raises(error):
            tx.asarray(wrong)


@pytest.mark.parametrize("make", [tx.asarray, np.asarray])
@pytest.mark.parametrize("shape", [(0,), (0, 0), (0, 3), (2, 0), (2, 0, 3), (0, 2, 0)])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_rows_without_elements_keep_their_shape_and_dtype(make: Any, shape: tuple[int, ...], dtype: str) -> None:
    row = make(np.zeros(shape, dtype))
    for rows, outer in (([row] * 3, (3,)), ([[row, row]], (1, 2))):
        result = tx.asarray(rows)
        assert result.shape == (*outer, *shape) and result.dtype == dtype
        assert tx.asarray(rows, dtype="int16").dtype is tx.int16


def test_empty_rows_of_different_shapes_raise() -> None:
    for rows in ([tx.zeros((0, 2)), tx.zeros((0, 3))], [[], np.zeros((0, 3))], [tx.zeros(0), tx.zeros((0, 3))]):
        with pytest.raises(ShapeError):
            tx.asarray(rows)


def nest(depth: int, item: Any) -> list[Any]:
    for _ in range(depth):
        item = [item]
    return item  # type: ignore[no-any-return]


def containing_itself(*before: Any, times: int = 1, between: int = 0) -> list[Any]:
    result = list(before)
    result += [nest(between, result)] * times
    return result


class Mistaken(list[Any]):
    """A list whose length is not the number of its items."""

    def __init__(self, items: list[Any], length: int) -> None:
        super().__init__(items)
        self.length = length

    def __len__(self) -> int:
        return self.length


class Endless(list[Any]):
    """A list whose items never end."""

    def __iter__(self) -> Any:
        while True:
            yield 1.0


class ForeignArray:
    """An array of another library."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.ones(2)


TOO_DEEP = r"lists are nested in more than 64 levels, or a list contains itself; nested lists must have at most 64"


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (containing_itself(), ShapeError, TOO_DEEP),
        (containing_itself(times=2), ShapeError, TOO_DEEP),
        (containing_itself(between=3), ShapeError, TOO_DEEP),
        (containing_itself(1.0), ShapeError, "ragged"),
        ([containing_itself(), tx.ones(1)], ShapeError, TOO_DEEP),
        ([ForeignArray(), containing_itself()], ShapeError, TOO_DEEP),
        (nest(65, 1.0), ShapeError, TOO_DEEP),
        (nest(65, tx.ones(2)), ShapeError, TOO_DEEP),
        (nest(64, []), ShapeError, TOO_DEEP),
        (nest(100_000, np.float32(1)), ShapeError, TOO_DEEP),
        (range(10**13), MemoryError, r"there is no memory for 10000000000000 elements"),
        (Mistaken([1, 2], 10**13), MemoryError, r"there is no memory for 10000000000000 elements"),
        (Mistaken([1, 2], 3), ShapeError, "Mistaken has the length 3 and gives fewer items; its length must be"),
        ([[1, 2], Mistaken([1, 2, 3], 2)], ShapeError, r"\[1\] of type Mistaken has the length 2 and gives more items"),
        (Endless([1, 2]), ShapeError, "Endless has the length 2 and gives more items"),
        ([[1], {2: 3}], ShapeError, r"item \[0\] has 1 items but item \[1\] is \{2: 3\} of type dict"),
        ({k: k for k in range(1000)}, DTypeError, r"\{0: 0, 1: 1, .*\.\.\.\} of type dict is not a number"),
        ((k for k in range(3)), DTypeError, r"of type generator is not a number; .*use list\(x\)"),
    ],
)
def test_invalid_nested_lists_raise_at_the_call(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^asarray: .*{message}"):
        tx.asarray(data)


def test_lists_may_be_nested_in_64_levels() -> None:
    assert tx.asarray(nest(64, 1.5)).shape == (1,) * 64


def test_list_that_contains_itself_is_rejected_as_key_and_tree() -> None:
    data = containing_itself(times=2)
    with pytest.raises(ShapeError, match=f"^indexing: {TOO_DEEP}"):
        tx.ones(3)[data]
    with pytest.raises(ArgumentError, match="nested in more than 100 levels, or one contains itself"):
        tx.grad(tx.sum)(data)
    with pytest.raises(ArgumentError, match="nested in more than 100 levels, or one contains itself"):
        tx.vmap(tx.sum)(data)


def several_parts() -> dict[str, tuple[Any, str]]:
    """Return results that are named tuples of tensors, each with the name of its first field."""
    x = tx.asarray([[4, 1], [2, 3]])
    decompositions = {"qr": tx.linalg.qr(x * 1.0), "svd": tx.linalg.svd(x * 1.0), "eigh": tx.linalg.eigh(x * 1.0)}
    result = {"cummax": tx.cummax(x), "cummin": tx.cummin(x), "topk": tx.topk(x, 1), "mode": tx.mode(x), **decompositions}
    result["max_pool1d"] = tx.max_pool1d(x, 2, return_indices=True)
    result |= {"unique_counts": tx.unique_counts(x), "unique_inverse": tx.unique_inverse(x), "unique_all": tx.unique_all(x)}
    return {name: (record, record._fields[0]) for name, record in result.items()}


def test_named_tuple_results_are_rejected_where_a_tensor_is_expected() -> None:
    """Each call raises a TypeError that names the fields; they are never stacked."""
    x = tx.asarray([[4, 1], [2, 3]])
    calls: dict[str, Any] = {
        **{"asarray": tx.asarray, "sin": tx.sin, "sum": tx.sum, "sort": tx.sort, "fft": tx.fft.fft, "norm": tx.linalg.norm},
        **{"plus": lambda r: x + r, "from the right": lambda r: r + x, "in place": lambda r: x.copy().__iadd__(r)},
        **{"written": lambda r: x.copy().__setitem__(0, r), "where": lambda r: tx.where(x > 0, r, x), "list": lambda r: tx.asarray([r, r])},
        **{"beside a tensor": lambda r: tx.asarray([r[0], r]), "indices": lambda r: tx.take(x, r), "loss": lambda r: F.mse_loss(x, r)},
    }
    for name, (record, first_field) in several_parts().items():
        for call, function in calls.items():
            with pytest.raises(TypeError, match=rf"several parts, .*use \.{first_field}"):
                function(record)
                pytest.fail(f"{call} of {name}")


class Point(NamedTuple):
    x: float
    y: float


def test_named_tuples_of_numbers_are_rows() -> None:
    assert tx.asarray([Point(1.0, 2.0), Point(3.0, 4.0)]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert tx.sum(Point(1.0, 2.0)).item() == 3.0
