"""Python's protocols: conversion, iteration, pickling, copying, text."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DTypeError, IndexOutOfRange, ShapeError

DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
DTYPES += ["float16", "bfloat16", "float32", "float64"]

VIEWS: dict[str, Callable[[], tx.Tensor]] = {
    "whole": lambda: tx.arange(12).reshape(3, 4),
    "pending": lambda: tx.arange(12).reshape(3, 4) * 2,
    "transposed": lambda: tx.arange(12).reshape(3, 4).T,
    "reversed": lambda: tx.arange(12)[::-1],
    "part": lambda: tx.arange(12).reshape(3, 4)[1:, ::2],
    "broadcast": lambda: tx.arange(4).expand((3, 4)),
    "windows": lambda: tx.arange(5).windows(0, 3),
    "gathered": lambda: tx.arange(12).reshape(3, 4).oindex[[0, 2, 1, 1]],
    "chain": lambda: tx.arange(12).reshape(3, 4).T.reshape(12),
    "0-d": lambda: tx.asarray(5),
    "0-d view": lambda: tx.arange(5)[3, ...],
    "an element": lambda: tx.arange(5)[3],
    "a pending element": lambda: (tx.arange(5) * 2)[3],
    "nothing": lambda: tx.zeros((0, 3)),
    "an empty part": lambda: tx.arange(5)[5:],
    "shared": lambda: tx.asarray(np.arange(10)[2:8:2], copy=False),
    "read-only": lambda: tx.asarray(np.frombuffer(b"abcd", np.uint8)),
    "five axes": lambda: tx.arange(32).reshape(2, 2, 2, 2, 2),
    "large": lambda: tx.arange(4000).reshape(40, 100),
}
views = pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS.keys())
dtypes = pytest.mark.parametrize("dtype", DTYPES)


# Numbers


def test_single_element_converts_to_python_numbers() -> None:
    assert (int(tx.asarray([3.7])), float(tx.asarray(2)), bool(tx.asarray([[0]]))) == (3, 2.0, False)
    assert complex(tx.asarray(1.5)) == 1.5
    assert math.sqrt(tx.asarray(16.0)) == 4
    assert [10, 20, 30][tx.asarray(1)] == 20
    assert list(range(tx.asarray(3, dtype=tx.uint8))) == [0, 1, 2]
    assert "abc"[tx.asarray(0) : tx.asarray(2)] == "ab"


@pytest.mark.parametrize("convert", [int, float, bool])
@pytest.mark.parametrize("shape", [(2,), (0,), (2, 3)])
def test_converting_several_elements_to_a_number_raises(convert: type, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError) as caught:
        convert(tx.zeros(shape))
    assert convert.__name__ in str(caught.value) and str(shape) in str(caught.value)


@pytest.mark.parametrize("index", [tx.asarray([1]), tx.asarray([[0, 1]]), tx.asarray(1.0), tx.asarray(True)])
def test_tensors_other_than_0d_integers_cannot_index_a_list(index: tx.Tensor) -> None:
    with pytest.raises(TypeError, match="index"):
        [10, 20, 30][index]


@dtypes
def test_item_returns_the_python_type_of_the_dtype(dtype: str) -> None:
    t = tx.asarray([[0, 1], [1, 0]], dtype=dtype)
    wanted = {"bool": bool, "uint": int, "int": int, "float": float}[t.dtype.kind]
    for result in (t[0, 1].item(), t.item(0, 1), t.item(-2, -1), t.T.item(1, 0), t.tolist()[0][1]):
        assert type(result) is wanted
        assert result == 1


def test_item_raises_unless_one_element_is_selected() -> None:
    t = tx.arange(6).reshape(2, 3)
    with pytest.raises(ShapeError, match=r"item.*\(2, 3\)"):
        t.item()
    for coords in ((2, 0), (0, -4), (0,), (0, 0, 0)):
        with pytest.raises(IndexOutOfRange):
            t.item(*coords)
    with pytest.raises(ShapeError, match=r"item.*\(0,\)"):
        tx.zeros(0).item()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_extreme_integers_convert_and_write_exactly(dtype: str) -> None:
    info = tx.iinfo(dtype)
    t = tx.asarray([info.min, info.max], dtype=dtype)
    assert t.tolist() == [info.min, info.max]
    assert (t[1].item(), int(t[0])) == (info.max, info.min)
    t[0] = info.max
    assert t.tolist() == [info.max, info.max]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_special_floats_convert_and_pickle_exactly(dtype: str) -> None:
    info = tx.finfo(dtype)
    values = [math.inf, -math.inf, -0.0, info.max, info.min, info.smallest_normal, 1 + info.eps]
    t = tx.asarray([*values, math.nan], dtype=dtype)
    assert t.tolist()[:-1] == values
    assert math.isnan(t[-1].item())
    assert math.copysign(1, t[2].item()) == -1
    assert pickle.loads(pickle.dumps(t)).tolist()[:-1] == values


# Containers


def test_len_and_iteration_go_over_the_first_axis() -> None:
    t = tx.arange(6).reshape(2, 3)
    assert len(t) == 2
    rows = list(t)
    rows[0][...] = 9
    assert t.tolist() == [[9, 9, 9], [3, 4, 5]]
    assert [row.tolist() for row in reversed(t)] == [[3, 4, 5], [9, 9, 9]]
    a, b, c = t[1]
    assert (a.item(), b.item(), c.item()) == (3, 4, 5)
    assert (len(tx.zeros((0, 3))), list(tx.zeros((0, 3)))) == (0, [])
    assert sum(t[1]).item() == 12
    assert max(t[1]).item() == 5
    assert [x.item() for x in sorted(tx.asarray([3, 1, 2]))] == [1, 2, 3]
    for call in (len, iter):
        with pytest.raises(TypeError, match="0-d"):
            call(tx.asarray(1))


def test_in_compares_with_the_elements() -> None:
    t = tx.asarray([[1.0, 2.0], [3.0, math.nan]])
    assert 2 in t and 2.0 in t and np.float32(3) in t and tx.asarray(1) in t and True in t
    assert 5 not in t and math.nan not in t
    assert "a" not in t and None not in t and {} not in t
    assert [1, 5] in t
    assert 1 not in tx.zeros(0)


def test_tensors_hash_by_identity() -> None:
    t, u = tx.arange(3), tx.arange(3)
    names = {t: "t", u: "u"}
    assert (names[t], names[u], len({t, u, t})) == ("t", "u", 2)


# Text


@views
def test_every_view_has_repr_str_and_html_with_dtype_and_shape(make: Callable[[], tx.Tensor]) -> None:
    t = make()
    for text in (repr(t), str(t), f"{t}", t.to_string(), t._repr_html_()):
        assert isinstance(text, str) and text
    assert str(t.dtype) in repr(t) and (str(t.shape) if t.shape else "Tensor(") in repr(t)
    assert repr(t.storage) and repr(t.layout) and repr(t.storage.node)


@dtypes
def test_every_dtype_has_a_repr(dtype: str) -> None:
    t = tx.asarray([[0, 1], [1, 0]], dtype=dtype)
    assert dtype in repr(t)
    assert str(t) and f"{t[0, 1]}"


def test_format_applies_to_a_single_element() -> None:
    assert f"{tx.asarray(2.567):.2f} {tx.asarray(3):05d} {tx.arange(3)[2]:>3}" == "2.57 00003   2"
    with pytest.raises(TypeError, match="one element"):
        format(tx.arange(3), ".2f")


# Pickles and copies


@views
def test_pickles_and_copies_are_independent_with_equal_elements(make: Callable[[], tx.Tensor]) -> None:
    for protocol in (2, 5):
        t = make()
        for copied in (pickle.loads(pickle.dumps(t, protocol)), copy.copy(t), copy.deepcopy([t])[0], t.clone()):
            assert type(copied) is tx.Tensor
            assert (copied.shape, copied.dtype) == (t.shape, t.dtype)
            assert copied.tolist() == t.tolist()
            assert copied.is_contiguous() and copied.storage.size == t.size
            copied[...] = 1
            assert t.tolist() == make().tolist()


@dtypes
def test_pickles_keep_the_dtype(dtype: str) -> None:
    t = tx.asarray([[1, 0], [0, 1]], dtype=dtype)[::-1]
    restored = pickle.loads(pickle.dumps(t))
    assert restored.dtype is t.dtype
    assert restored.tolist() == t.tolist()


# To NumPy


@views
def test_to_numpy_returns_a_new_writable_array(make: Callable[[], tx.Tensor]) -> None:
    t = make()
    a = t.to_numpy()
    assert (a.shape, a.tolist()) == (t.shape, t.tolist())
    assert a.flags.writeable
    a[...] = 77
    assert t.tolist() == make().tolist()


def test_numpy_functions_accept_tensors_as_arrays() -> None:
    t = tx.arange(6).reshape(2, 3)
    model = np.arange(6).reshape(2, 3)
    assert (np.shape(t), np.ndim(t), np.size(t)) == ((2, 3), 2, 6)
    np.testing.assert_array_equal(t, model)
    assert np.array_equal(np.concatenate([t, t]), np.concatenate([model, model]))
    assert np.array([t, t]).shape == (2, 2, 3)
    assert np.array([tx.asarray(1), tx.asarray(2)]).tolist() == [1, 2]
    a = np.zeros((2, 3), int)
    a[...] = t
    a[tx.asarray([0]), tx.asarray(1)] = tx.asarray(9)
    assert a.tolist() == [[0, 9, 2], [3, 4, 5]]
    assert a[tx.asarray([True, False])].tolist() == [[0, 9, 2]]
    with pytest.raises(DTypeError):
        tx.asarray(np.array([None]))


def test_asarray_copies_misaligned_read_only_memory() -> None:
    content = bytes(range(33))
    for a in (np.frombuffer(content[:32], np.float32)[1:], np.frombuffer(content, np.uint8)[1:].view(np.float32)):
        t = tx.asarray(a)
        assert t.to_numpy().tobytes() == a.tobytes()
        assert np.shares_memory(np.asarray(t), a) == a.flags.aligned


def test_export_does_not_change_a_reader_of_another_dtype() -> None:
    t = tx.arange(3).realize()
    reader = t.view(tx.uint8)[::8] + 1
    a = np.asarray(t)
    a[:] = 7
    assert (t.tolist(), reader.tolist()) == ([7, 7, 7], [1, 2, 3])


# NumPy's functions


def values(x: object) -> list[object]:
    result: list[object] = np.asarray(x).tolist()
    return result


def test_numpy_ufuncs_of_tensors_return_tensors() -> None:
    t, a = tx.asarray([-1, 2, 3]), np.asarray([4.0, 5.0, 6.0])
    for result, wanted in [
        (np.add(t, 1), [0, 3, 4]),
        (np.absolute(t), [1, 2, 3]),
        (np.power(t, 2), [1, 4, 9]),
        (np.subtract(a, t), [5.0, 3.0, 3.0]),
        (np.arctan2(t, 1.0), [math.atan2(v, 1.0) for v in (-1, 2, 3)]),
        (np.matmul(a, t), 24.0),
        (np.float64(2) * t, [-2.0, 4.0, 6.0]),
    ]:
        assert type(result) is tx.Tensor
        assert np.allclose(result, wanted, rtol=1e-15)


def test_in_place_operator_keeps_a_numpy_array() -> None:
    a = np.zeros(3)
    original = a
    a += tx.arange(3)
    assert a is original and type(a) is np.ndarray and a.tolist() == [0.0, 1.0, 2.0]


def test_copyto_writes_into_a_tensor() -> None:
    t = tx.arange(6).reshape(2, 3)
    np.copyto(t[:, 1], 9)
    assert t.tolist() == [[0, 9, 2], [3, 9, 5]]
    np.copyto(t.T.reshape(6)[:2], 1)  # this view has no strides, so NumPy cannot write through it
    assert t.tolist() == [[1, 9, 2], [1, 9, 5]]


def test_divmod_and_round_equal_python() -> None:
    t = tx.asarray([7, -7, 9])
    assert [values(part) for part in divmod(t, 4)] == [[1, -2, 2], [3, 1, 1]]
    assert [values(part) for part in divmod(20, t)] == [[2, -3, 2], [6, -1, 2]]
    assert values(round(t)) == [7, -7, 9]
    assert values(round(tx.asarray([1.234, -2.346, 0.5]), 2)) == [1.23, -2.35, 0.5]
    assert values(round(tx.asarray([0.5, 1.5, 2.5]))) == [0.0, 2.0, 2.0]
