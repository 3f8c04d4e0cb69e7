"""Writes of any value through any view, pending or not, give the result of NumPy running line by line."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DTypeError, OutOfBounds, ReadOnlyError, ShapeError

DTYPES = ["bool", "uint8", "uint64", "int8", "int32", "int64", "float16", "float32", "float64"]


def assign(target: Any, key: Any, value: Any) -> None:
    target[key] = value


# Programs that run on tensors and on arrays


def swap(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x[0], x[1] = copy_of(x[1]), copy_of(x[0])
    return x


def swap_views(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x[0], x[1] = x[1], x[0]  # both right-hand sides are views: the second reads what the first wrote
    return x


def add_transpose(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x += x.T
    return x


def shift_right(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x[1:] = x[:-1]
    return x


def shift_left(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x[:-1] = x[1:]
    return x


def odd_rows_to_even(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x[::2] = x[1::2]
    return x


def reverse(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x[...] = x[::-1, ::-1]
    return x


def rotate(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    first = copy_of(x[0])
    x[:-1] = x[1:]
    x[-1] = first
    return x


def reader_before_write(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    doubled = x * 2
    x[0] = 0
    x[:, 1] = doubled[:, 2]
    return x + doubled


def row_over_column(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x[:, 0] = x[0]
    x[1] = x[:, 1]
    return x


def prefix_sums(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    for k in range(1, 4):
        x[k] += x[k - 1]
    return x


def normalise(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x -= x[0]
    x *= x[:, -1:]
    x //= 2
    return x


def through_a_chain(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    y = x.T
    y[1:3] += 10
    y.T[0] = y[:, 1]
    return x


def by_lists(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x[[0, 1]] = x[[1, 0]]
    x[:, [3, 0]] = x[:, [0, 3]] * 2
    x[x > 9] -= 9
    return x


def diagonal_by_diagonal(x: Any, copy_of: Callable[[Any], Any]) -> Any:
    x[[0, 1, 2, 3], [0, 1, 2, 3]] = x[0] + x[3]
    return x


PROGRAMS = [
    swap,
    swap_views,
    add_transpose,
    shift_right,
    shift_left,
    odd_rows_to_even,
    reverse,
    rotate,
    reader_before_write,
    row_over_column,
    prefix_sums,
    normalise,
    through_a_chain,
    by_lists,
    diagonal_by_diagonal,
]


@pytest.mark.parametrize("state", ["in memory", "pending", "exported", "shared", "copied", "transposed", "part"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_that_write_equal_numpy(program: Callable[..., Any], state: str) -> None:
    a = np.arange(16).reshape(4, 4)
    t = tx.arange(16).reshape(4, 4)
    shared: Any = None
    match state:
        case "in memory":
            t.realize()
        case "exported":
            shared = np.asarray(t)
        case "shared":
            shared = np.arange(16).reshape(4, 4)
            t = tx.asarray(shared, copy=False)
        case "copied":
            shared = t.copy()
        case "transposed":
            a, t = a.T.copy(), t.T
        case "part":
            t = tx.zeros((6, 8), dtype=tx.int64)[1:5, ::2]
            t[...] = tx.arange(16).reshape(4, 4)
    wanted = program(a, np.copy)
    result = program(t, lambda x: x.copy())
    assert result.tolist() == wanted.tolist()
    assert t.tolist() == a.tolist()
    if state == "copied":
        assert shared.tolist() == np.arange(16).reshape(4, 4).tolist()
    elif shared is not None:
        assert shared.tolist() == a.tolist()


# Casts


@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("key", [..., slice(1, None), [0, 2]], ids=["all", "part", "list"])
def test_assigned_tensor_is_cast_to_the_target_dtype(source: str, to: str, key: Any) -> None:
    values = np.array([0, 1, 100]).astype(source)
    a, t = np.zeros(3, to), tx.zeros(3, dtype=to)
    a[key] = values[key]
    t[key] = tx.asarray(values)[key]
    assert t.dtype is tx.dtype(to)
    assert t.tolist() == a.tolist()


@pytest.mark.parametrize("key", [0, slice(0, 1), [0], ...], ids=["element", "part", "list", "all"])
@pytest.mark.parametrize(
    ("dtype", "value", "held"),
    [
        ("int8", 1.9, 1),
        ("int8", -1.9, -1),
        ("int8", 1e9, 127),
        ("int8", float("nan"), 0),
        ("uint8", -3.0, 0),
        ("int64", True, 1),
        ("bool", 2, True),
        ("bool", 0.5, True),
        ("bool", 2**70, True),
        ("bool", 0.0, False),
        ("float32", 3, 3.0),
        ("float32", 1e300, float("inf")),
        ("float16", 70000, float("inf")),
        ("bfloat16", 1.00390625, 1.0),  # halfway, to even
        ("uint64", 2**64 - 1, 2**64 - 1),
    ],
)
def test_assigned_number_is_cast_to_the_target_dtype(dtype: str, value: Any, held: Any, key: Any) -> None:
    t = tx.zeros(1, dtype=dtype)
    t[key] = value
    assert t[0].item() == held
    pending = tx.zeros(1, dtype=dtype) * 1 if dtype != "bool" else ~tx.ones(1, dtype=dtype)
    pending[key] = value
    assert pending.tolist() == [held]


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
@pytest.mark.parametrize("value", [5, 2.75, -0.5, True, 0, 1e300, float("nan"), float("inf"), float("-inf")])
def test_element_and_slice_writes_store_the_same_number(dtype: str, value: Any) -> None:
    element, sliced = tx.ones(3, dtype=dtype).realize(), tx.ones(3, dtype=dtype).realize()
    element[1] = value
    sliced[1:2] = value
    assert str(element.tolist()) == str(sliced.tolist())


@pytest.mark.parametrize("key", [0, slice(0, 1), [0], ...], ids=["element", "part", "list", "all"])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int8", 128), ("int8", -129), ("uint8", -1), ("uint64", 2**64), ("int64", 2**63), ("float64", 10**400)],
)
def test_assigning_an_out_of_range_integer_raises_at_the_call(dtype: str, value: int, key: Any) -> None:
    for t in (tx.zeros(2, dtype=dtype), tx.zeros(2, dtype=dtype).realize()):
        with pytest.raises(OutOfBounds, match=dtype):
            t[key] = value
        assert t.tolist() == [0, 0]


@pytest.mark.parametrize("value", [np.float32(2.5), np.int8(2), np.array(2.5), [2.5], (2,), tx.asarray(2), tx.ones((1, 1)), np.bool_(True)])
def test_scalars_arrays_and_tensors_can_be_assigned_to_an_element(value: Any) -> None:
    t = tx.zeros(3)
    t[1] = value
    assert t[1].item() == np.asarray(value).item()


@pytest.mark.parametrize("value", ["a", None, 1j, object(), {}, ["a"], np.array(["a"]), np.array([1j])])
def test_assigning_a_non_number_raises(value: Any) -> None:
    t = tx.zeros(3)
    for key in (0, ..., [1]):
        with pytest.raises(DTypeError):
            t[key] = value
    assert t.tolist() == [0, 0, 0]


# Shapes


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1), (1, 1), (1, 2, 3), (1, 1, 1, 3)])
def test_assigned_values_broadcast_as_in_numpy(shape: tuple[int, ...]) -> None:
    value = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    a, t = np.zeros((2, 3)), tx.zeros((2, 3))
    a[...] = value
    t[...] = value
    assert t.tolist() == a.tolist()
    t[:, ::-1] = tx.asarray(value)
    a[:, ::-1] = value
    assert t.tolist() == a.tolist()


@pytest.mark.parametrize("shape", [(2,), (3, 1), (2, 2), (2, 2, 3), (0,), (3, 2)])
def test_assigning_values_that_do_not_broadcast_raises(shape: tuple[int, ...]) -> None:
    t = tx.zeros((2, 3))
    for key in (..., (slice(None), slice(None, None, -1)), [0, 1]):
        with pytest.raises(ShapeError) as caught:
            t[key] = tx.ones(shape)
        assert str(shape) in str(caught.value) and "(2, 3)" in str(caught.value)


def test_writes_to_empty_selections_change_nothing() -> None:
    t = tx.zeros((2, 3))
    t[5:] = 1
    t[5:] = tx.ones((0, 3))
    t[:, []] = 1
    t[t > 5] = 1
    t[[]] = tx.ones((0, 3))
    t[2:] += 1
    empty = tx.zeros(0)
    empty[...] = 1
    empty += 1
    assert t.tolist() == [[0, 0, 0], [0, 0, 0]]
    with pytest.raises(ShapeError):
        t[5:] = tx.ones(2)


# Views with repeated elements


READ_ONLY: dict[str, Callable[[tx.Tensor], tx.Tensor]] = {
    "expand": lambda t: t.expand((2, 4)),
    "windows": lambda t: t.windows(0, 2),
    "repeats": lambda t: t.oindex[[1, 1, 0]],
    "expand, reshaped": lambda t: t.expand((2, 4)).T.reshape(8),
    "meshgrid": lambda t: tx.meshgrid(t, t)[0],
}


@pytest.mark.parametrize("view", READ_ONLY.values(), ids=READ_ONLY.keys())
def test_view_with_repeated_elements_accepts_only_one_number(view: Callable[[tx.Tensor], tx.Tensor]) -> None:
    t = tx.arange(4)
    v = view(t)
    for bad in (
        lambda: assign(v, ..., tx.ones(v.shape)),
        lambda: assign(v, ..., np.ones(v.shape)),
        lambda: assign(v, ..., v),
        lambda: v.__iadd__(1),
        lambda: v.__imul__(v),
    ):
        with pytest.raises(ReadOnlyError, match=r"read-only.*copy"):
            bad()
    assert t.tolist() == [0, 1, 2, 3]
    for number in (5, np.int64(6), tx.asarray(7), tx.ones((1,) * v.ndim, dtype=tx.int64)):
        v[...] = number
        assert set(np.ravel(v.tolist())) == {int(number)}
    v.fill_(9)
    assert 9 in t.tolist()
    copied = v.copy()
    copied += 1
    assert 10 not in t.tolist()


# In place


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_in_place_operators_keep_dtype_and_storage(dtype: str) -> None:
    a = np.arange(1, 5).astype(dtype)
    t = tx.asarray(a)
    view = t[::2]
    original = t
    t += 3
    t *= tx.asarray([1, 2, 3, 4], dtype=dtype)
    t -= 1
    t //= 2
    t %= 7
    t **= 2
    a = (((a + 3) * np.array([1, 2, 3, 4]).astype(dtype) - 1) // 2 % 7) ** 2
    assert t is original
    assert t.dtype is tx.dtype(dtype)
    assert t.tolist() == a.tolist()
    assert view.tolist() == a[::2].tolist()


def test_in_place_bitwise_operators_equal_python() -> None:
    t = tx.asarray([0b1100, 0b1010])
    t &= 0b0110
    t |= 0b0001
    t ^= 0b1111
    t <<= 2
    t >>= 1
    assert t.tolist() == [(((x & 6 | 1) ^ 15) << 2) >> 1 for x in (12, 10)]


def test_in_place_matmul_writes_through_views() -> None:
    t = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
    view = t.T
    t @= tx.asarray([[0.0, 1.0], [1.0, 0.0]])
    assert t.tolist() == [[2, 1], [4, 3]]
    assert view.tolist() == [[2, 4], [1, 3]]
    with pytest.raises(ShapeError, match="in-place matmul"):
        t @= tx.ones((2, 1))


def in_place(name: str, t: tx.Tensor, value: Any) -> Any:
    return getattr(t, f"__{name}__")(value)


@pytest.mark.parametrize(
    ("dtype", "name", "value", "result"),
    [
        ("int64", "itruediv", 2, "float64"),
        ("int64", "iadd", 0.5, "float64"),
        ("uint8", "imul", np.float32(2), "float32"),
        ("int8", "ipow", 0.5, "float64"),
        ("bool", "iadd", 1, "int64"),
        ("bool", "imul", np.array([2]), "int64"),
        ("bool", "itruediv", True, "float64"),
    ],
)
def test_in_place_operator_raises_for_a_result_of_a_higher_kind(dtype: str, name: str, value: Any, result: str) -> None:
    t = tx.ones(3, dtype=dtype)
    with pytest.raises(DTypeError) as caught:
        in_place(name, t, value)
    for text in ("in-place", result, dtype, "use x = x"):
        assert text in str(caught.value)
    assert t.tolist() == [1, 1, 1]


def test_in_place_operator_keeps_a_narrower_dtype_of_the_same_kind() -> None:
    small, half = tx.asarray([100, 1], dtype=tx.int8), tx.ones(2, dtype=tx.float16)
    small += tx.asarray([100, 1])
    half += tx.asarray([1e-9, 1.0])
    assert (small.dtype, small.tolist()) == (tx.int8, [-56, 2])
    assert (half.dtype, half.tolist()) == (tx.float16, [1, 2])


@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (4,), (3, 1)])
def test_in_place_operator_raises_for_a_result_of_another_shape(shape: tuple[int, ...]) -> None:
    t = tx.zeros(3)
    with pytest.raises(ShapeError):
        t += tx.ones(shape)
    with pytest.raises(ShapeError):
        t **= tx.ones(shape)
    assert t.tolist() == [0, 0, 0]


def test_in_place_operator_with_a_non_number_raises_type_error() -> None:
    t = tx.zeros(3)
    with pytest.raises(TypeError):
        t += "a"
    with pytest.raises(TypeError):
        t **= None
    with pytest.raises(TypeError):
        t @= "a"
    t += [1, 2, 3]
    assert t.tolist() == [1, 2, 3]


# Copies


COPIES: dict[str, Callable[[tx.Tensor], tx.Tensor]] = {
    "copy": lambda t: t.copy(),
    "clone": lambda t: t.clone(),
    "asarray": lambda t: tx.asarray(t, copy=True),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "astype": lambda t: t.astype(t.dtype),
    "a copy of a copy": lambda t: t.copy().copy(),
    "positive": lambda t: +t,
}

WRITES: dict[str, Callable[[tx.Tensor], Any]] = {
    "an element": lambda t: assign(t, (0, 0), 99),
    "a row": lambda t: assign(t, 1, 99),
    "all": lambda t: assign(t, ..., 99),
    "in place": lambda t: t.__iadd__(1),
    "a column of a view": lambda t: assign(t.T, 1, 99),
    "an export": lambda t: np.asarray(t).fill(99),
    "a list": lambda t: assign(t, [0], 99),
    "fill_": lambda t: t.fill_(99),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES.keys())
@pytest.mark.parametrize("state", ["in memory", "pending", "view"])
def test_writes_to_a_copy_or_its_original_are_independent(
    state: str, make: Callable[[tx.Tensor], tx.Tensor], write: Callable[[tx.Tensor], Any]
) -> None:
    for write_original in (True, False):
        t = tx.arange(4).reshape(2, 2)
        if state == "in memory":
            t.realize()
        if state == "view":
            t = t[::-1].T
        before = t.tolist()
        copied = make(t)
        written, unwritten = (t, copied) if write_original else (copied, t)
        write(written)
        assert unwritten.tolist() == before
        assert written.tolist() != before
        write(unwritten)
        write(unwritten)
        assert copied.storage is not t.storage


def test_assigned_tensor_does_not_share_memory_with_the_target() -> None:
    a, b = tx.arange(3), tx.zeros(3, dtype=tx.int64)
    b[...] = a
    a[0] = 9
    b[1] = 8
    assert (a.tolist(), b.tolist()) == ([9, 1, 2], [0, 8, 2])


def test_write_through_one_view_is_seen_by_all_views() -> None:
    t = tx.zeros(6)
    rows, columns, back = t.reshape(2, 3), t.reshape(2, 3).T, t[::-1]
    rows += tx.asarray([[0, 1, 2], [3, 4, 5]])
    columns[2] *= 10
    assert back.tolist() == [50, 4, 3, 20, 1, 0]


def test_thousand_small_writes_to_a_pending_tensor_equal_numpy() -> None:
    a, t = np.zeros(50), tx.zeros(50) + 0
    for k in range(1000):
        start = k * 7 % 50
        a[start : start + 3] += k
        t[start : start + 3] += k
    assert t.tolist() == a.tolist()
