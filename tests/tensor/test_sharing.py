"""Memory shared with NumPy: each side sees the other's writes, and earlier results stay."""

from __future__ import annotations

import array
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError


def exported() -> tuple[tx.Tensor, Any]:
    t = tx.arange(6)
    return t, np.asarray(t)


def pinned(t: tx.Tensor) -> bool:
    buffer = t.storage.node.buffer
    assert buffer is not None
    return bool(buffer.externally_shared)


# Export: np.asarray(t)


def test_exported_array_and_tensor_see_each_others_writes() -> None:
    t, a = exported()
    a[0] = 10
    assert t.tolist() == [10, 1, 2, 3, 4, 5]
    t[5] = 50
    assert a.tolist() == [10, 1, 2, 3, 4, 50]


VIEWS: dict[str, Callable[[Any], Any]] = {
    "strided": lambda t: t[:, ::2],
    "reversed": lambda t: t[::-1, ::-1],
    "transposed": lambda t: t.T,
    "an offset": lambda t: t[1:, 2:],
    "a row": lambda t: t[1],
    "an element": lambda t: t[1, 2, ...],
    "nothing": lambda t: t[2:],
    "a new axis": lambda t: t[:, None],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_exported_view_shares_memory(view: Callable[[Any], Any]) -> None:
    t = tx.arange(8).reshape(2, 4)
    model = np.arange(8).reshape(2, 4)
    a = np.asarray(view(t))
    assert a.flags.writeable
    assert a.shape == view(model).shape
    np.testing.assert_array_equal(a, view(model))
    a[...] = -1
    view(model)[...] = -1
    assert t.tolist() == model.tolist()
    t *= 7
    np.testing.assert_array_equal(a, view(t).to_numpy())


@pytest.mark.parametrize("view", [lambda t: t.expand((2, 6)), lambda t: t.windows(0, 3)], ids=["expand", "windows"])
def test_numpy_export_of_a_view_with_repeated_elements_is_read_only(view: Callable[[tx.Tensor], tx.Tensor]) -> None:
    t = tx.arange(6)
    a = np.asarray(view(t))
    assert not a.flags.writeable
    t[0] = 9
    assert a[0, 0] == 9


WRITES: dict[str, Callable[[Any], Any]] = {
    "an element": lambda x: x.__setitem__(0, 7),
    "a part": lambda x: x.__setitem__(slice(1, 4), 7),
    "everything": lambda x: x.__setitem__(..., 7),
    "in place": lambda x: x.__iadd__(7),
    "in place through a view": lambda x: x[::2].__imul__(3),
    "what reads itself": lambda x: x.__setitem__(..., x * 2 + x[::-1]),
    "an overlap to the right": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "an overlap to the left": lambda x: x.__setitem__(slice(None, -1), x[1:]),
    "backwards": lambda x: x.__setitem__(slice(None), x[::-1]),
    "a list of indices": lambda x: x.__setitem__([5, 0, 5], np.array([1, 2, 3])),
    "a mask": lambda x: x.__setitem__(x > 2, -1),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_writes_change_exported_memory_at_once(write: Callable[[Any], Any]) -> None:
    t, a = exported()
    model = np.arange(6)
    write(t)
    write(model)
    assert a.tolist() == model.tolist()
    assert t.tolist() == model.tolist()
    assert np.shares_memory(a, np.asarray(t))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_pending_readers_keep_the_values_from_before_writes_to_an_export(write: Callable[[Any], Any]) -> None:
    t = tx.arange(6)
    before = t + 100
    a = np.asarray(t)
    while_shared = t + 200
    write(t)
    after_ours = t + 300
    written_values = a.tolist()
    a[...] = -1
    assert before.tolist() == list(range(100, 106))
    assert while_shared.tolist() == list(range(200, 206))
    assert after_ours.tolist() == [x + 300 for x in written_values]


def test_readers_of_shared_memory_ignore_later_writes_by_numpy() -> None:
    t, a = exported()
    reader, gathered, total, copied = t * 2, t[[1, 0]], t.sum(), t.copy()
    a[:] = -1
    assert reader.tolist() == [0, 2, 4, 6, 8, 10]
    assert (gathered.tolist(), total.item(), copied.tolist()) == ([1, 0], 15, [0, 1, 2, 3, 4, 5])


def test_export_evaluates_a_pending_tensor() -> None:
    t = tx.arange(3) + 1
    doubled = t * 2
    a = np.asarray(t)
    a[0] = 50
    assert doubled.tolist() == [2, 4, 6]
    assert t.tolist() == [50, 2, 3]


def test_export_of_a_copy_does_not_share_the_original() -> None:
    t = tx.arange(3)
    copied = t.copy()
    a = np.asarray(copied)
    a[0] = 9
    assert (t.tolist(), copied.tolist()) == ([0, 1, 2], [9, 1, 2])


def test_exported_array_outlives_the_tensor() -> None:
    t, a = exported()
    del t
    gc.collect()
    junk = [tx.full(6, -1).realize() for _ in range(20)]  # these tensors would reuse the memory if it were freed
    assert a.tolist() == [0, 1, 2, 3, 4, 5]
    del junk


def test_exports_of_views_share_one_memory() -> None:
    t = tx.arange(6).reshape(2, 3)
    a, b = np.asarray(t), np.asarray(t.T)
    a[0, 1] = 9
    assert b[1, 0] == 9 == t[0, 1].item()
    del a
    gc.collect()
    assert pinned(t)
    del b
    gc.collect()
    assert not pinned(t)


def test_numpy_asarray_copies_only_for_another_dtype() -> None:
    t = tx.arange(3)
    assert np.shares_memory(np.asarray(t, dtype=np.int64), np.asarray(t))
    converted = np.asarray(t, dtype=np.float32)
    assert converted.dtype == np.float32
    converted[0] = 9
    assert t.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, dtype=np.float32, copy=False)


def test_numpy_array_copies_a_tensor() -> None:
    t = tx.arange(3)
    a = np.array(t)
    a[0] = 9
    assert t.tolist() == [0, 1, 2]
    assert t.to_numpy().flags.writeable


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda t: t.oindex[[0, 0, 1]], "strides"),
        (lambda t: t.T.reshape(6), "strides"),
        (lambda t: t.astype(tx.bfloat16), "bfloat16"),
    ],
    ids=["gathered", "chain", "bfloat16"],
)
def test_export_without_strides_is_copied_or_refused(make: Callable[[tx.Tensor], tx.Tensor], why: str) -> None:
    t = make(tx.arange(6).reshape(2, 3))
    with pytest.raises(ValueError, match=why):
        np.asarray(t, copy=False)
    assert np.asarray(t).tolist() == t.tolist()


# Import: copy=False


def test_asarray_with_copy_false_shares_a_numpy_array() -> None:
    a = np.arange(6.0)
    t = tx.asarray(a, copy=False)
    reader = t + 1
    a[0] = 10
    t[5] = 50
    assert a.tolist() == t.tolist() == [10, 1, 2, 3, 4, 50]
    assert reader.tolist() == [1, 2, 3, 4, 5, 6]
    assert np.shares_memory(a, np.asarray(t))


ARRAYS: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
    "contiguous": lambda: np.arange(12.0).reshape(3, 4),
    "column-major": lambda: np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "strided": lambda: np.arange(48.0).reshape(6, 8)[::2, ::2],
    "reversed": lambda: np.arange(12.0).reshape(3, 4)[::-1, ::-1],
    "transposed part": lambda: np.arange(60.0).reshape(3, 4, 5)[1].T[1:, ::-2],
    "0-d": lambda: np.array(3.0),
    "nothing": lambda: np.zeros((0, 3)),
    "one of a kind": lambda: np.zeros((1, 1, 1)),
    "bool": lambda: np.array([True, False]),
    "uint8": lambda: np.arange(5, dtype=np.uint8),
    "float16": lambda: np.arange(5, dtype=np.float16)[::-1],
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS.keys())
def test_asarray_shares_arrays_with_any_strides(make: Callable[[], np.ndarray[Any, Any]]) -> None:
    a = make()
    t = tx.asarray(a, copy=False)
    np.testing.assert_array_equal(t.to_numpy(), a)
    t[...] = 1
    assert (a == 1).all()
    a[...] = 0
    assert t.tolist() == a.tolist()


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS.keys())
def test_asarray_copies_a_writable_array_by_default(make: Callable[[], np.ndarray[Any, Any]]) -> None:
    a = make()
    for t in (tx.asarray(a), tx.asarray(a, copy=True)):
        before = a.tolist()
        t[...] = 1
        assert a.tolist() == before


def test_two_tensors_over_one_array_see_each_others_writes() -> None:
    a = np.arange(6)
    low, high = tx.asarray(a[:4], copy=False), tx.asarray(a[2:], copy=False)
    low[2] = 20
    assert high.tolist() == [20, 3, 4, 5]
    reader = high * 10
    low += high
    assert a.tolist() == [20, 4, 24, 8, 4, 5]
    assert reader.tolist() == [200, 30, 40, 50]


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_overlapping_shared_memory_is_read_before_it_is_written(shift: int) -> None:
    for left, right in ((slice(None, -shift), slice(shift, None)), (slice(shift, None), slice(None, -shift))):
        a, model = np.arange(8), np.arange(8)
        target, source = tx.asarray(a[left], copy=False), tx.asarray(a[right], copy=False)
        target[...] = source
        model[left] = model[right].copy()
        assert a.tolist() == model.tolist()
        target[1:] = source[:-1]
        model[left][1:] = model[right][:-1].copy()
        assert a.tolist() == model.tolist()


def test_assignment_from_shared_memory_takes_the_present_values() -> None:
    a = np.arange(4)
    shared = tx.asarray(a, copy=False)
    whole_target, sliced_target = tx.zeros(4, dtype=tx.int64), tx.zeros(6, dtype=tx.int64)
    whole_target[...] = shared
    sliced_target[1:5] = shared
    a[:] = -1
    assert whole_target.tolist() == [0, 1, 2, 3]
    assert sliced_target.tolist() == [0, 0, 1, 2, 3, 0]


def test_tensor_keeps_a_shared_array_alive() -> None:
    t = tx.asarray(np.arange(1000.0)[::-1], copy=False)
    gc.collect()
    junk = [np.full(1000, -1.0) for _ in range(20)]
    assert t.sum().item() == 499500
    del junk


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: np.arange(3, dtype=">i4"), "byte order"),
        (lambda: np.zeros(33, np.uint8)[1:].view(np.float64), "multiple"),
        (lambda: np.zeros(4, dtype=[("x", "i4"), ("y", "i2")])["x"], "multiple"),
        (lambda: [1, 2, 3], "memory"),
        (lambda: 5, "memory"),
    ],
    ids=["byte order", "unaligned", "strides", "list", "number"],
)
def test_unshareable_objects_are_refused_with_copy_false_and_copied_otherwise(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        tx.asarray(make(), copy=False)
    assert tx.asarray(make()).tolist() == np.asarray(make()).tolist()
    assert tx.asarray(make(), copy=True).tolist() == np.asarray(make()).tolist()


def test_asarray_with_copy_false_refuses_another_dtype() -> None:
    with pytest.raises(ArgumentError, match="copy"):
        tx.asarray(np.arange(3), dtype=tx.float32, copy=False)
    with pytest.raises(ArgumentError, match="copy"):
        tx.asarray(tx.arange(3), dtype=tx.float32, copy=False)
    assert tx.asarray(np.arange(3), dtype=tx.int64, copy=False).tolist() == [0, 1, 2]


def test_asarray_returns_a_tensor_unchanged() -> None:
    t = tx.arange(3)
    assert tx.asarray(t) is t
    assert tx.asarray(t, copy=False) is t
    copied = tx.asarray(t, copy=True)
    copied[0] = 9
    assert t[0].item() == 0


# Read-only memory


def test_immutable_memory_is_shared_until_the_tensor_is_written() -> None:
    content = b"\x01\x02\x03\x04"
    a = np.frombuffer(content, np.uint8)
    t = tx.asarray(a)
    exported_array = np.asarray(t)
    assert np.shares_memory(a, exported_array)
    assert not exported_array.flags.writeable
    reader = t + 1
    t[0] = 9
    t[1:3] += 5
    assert t.tolist() == [9, 7, 8, 4]
    assert reader.tolist() == [2, 3, 4, 5]
    assert content == b"\x01\x02\x03\x04" and exported_array.tolist() == [1, 2, 3, 4]


def test_asarray_copies_a_read_only_view_of_writable_memory() -> None:
    base = np.arange(3)
    view = base[:]
    view.flags.writeable = False
    t = tx.asarray(view)
    base[0] = 9
    assert t.tolist() == [0, 1, 2]
    store = bytearray(3)
    hidden = np.frombuffer(store, np.uint8)
    hidden.flags.writeable = False
    t = tx.asarray(hidden)
    store[0] = 9
    assert t.tolist() == [0, 0, 0]
    source, export = exported()
    export.flags.writeable = False
    t = tx.asarray(export)
    source[0] = 9
    assert t.tolist() == [0, 1, 2, 3, 4, 5]


def hidden_writer(copy: bool | None) -> tuple[np.ndarray[Any, Any], tx.Tensor]:
    """Return a writable array, and a tensor over a read-only array of the same memory."""
    if copy is None:
        a = np.zeros(3)
        writer = a[:]
        a.flags.writeable = False
        return writer, tx.asarray(a)
    writer = np.zeros(3)
    view = writer[:]
    view.flags.writeable = False
    return writer, tx.asarray(view, copy=False)


@pytest.mark.parametrize("copy", [None, False])
def test_pending_readers_ignore_writes_through_another_view(copy: bool | None) -> None:
    writer, t = hidden_writer(copy)
    reader, total = t + 1, t.sum()
    writer[0] = 5
    assert (reader.tolist(), total.item()) == ([1, 1, 1], 0)
    assert t.tolist() == [5, 0, 0]


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_read_only_memory_is_never_written(write: Callable[[Any], Any], copy: bool | None) -> None:
    a = np.arange(6)
    view = a
    if copy is False:
        view = a[:]
    view.flags.writeable = False
    t = tx.asarray(view, copy=copy)
    shown = np.asarray(t)
    model = np.arange(6)
    write(t)
    write(model)
    assert t.tolist() == model.tolist()
    assert a.tolist() == shown.tolist() == list(range(6))


# Memory of other objects


def test_asarray_accepts_python_arrays_and_buffers() -> None:
    numbers = array.array("d", [1, 2, 3])
    t, shared = tx.asarray(numbers), tx.asarray(numbers, copy=False)
    numbers[0] = 9
    assert (t.tolist(), shared.tolist()) == ([1, 2, 3], [9, 2, 3])
    shared[1] = 7
    assert numbers[1] == 7
    assert tx.asarray(memoryview(b"ab")).tolist() == [97, 98]
    assert tx.asarray(bytearray(b"ab")).dtype is tx.uint8


def test_asarray_copies_the_result_of_array_protocol() -> None:
    class Columns:
        def __init__(self) -> None:
            self.data = np.arange(3.0)

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
            return self.data

    columns = Columns()
    t = tx.asarray(columns)
    columns.data[0] = 9
    assert t.tolist() == [0, 1, 2]


# DLPack


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"])
def test_dlpack_shares_memory_in_both_directions(dtype: str) -> None:
    t = tx.asarray([[1, 0, 1], [0, 1, 1]], dtype=dtype)
    a = np.from_dlpack(t.T[1:])
    assert a.tolist() == t.T[1:].tolist()
    a[...] = 0
    assert not t[:, 1:].any()
    b = np.ones((2, 3), dtype)
    u = tx.from_dlpack(b.T)
    u[0, 1] = 0
    b[0, 0] = 0
    assert u.tolist() == b.T.tolist()
    assert b.sum() == 4


def test_dlpack_export_keeps_memory_marked_as_shared() -> None:
    t = tx.arange(3)
    a = np.from_dlpack(t)
    reader = t + 1
    a[0] = 9
    assert reader.tolist() == [1, 2, 3]
    assert pinned(t)
    del a
    gc.collect()
    assert not pinned(t)


def test_dlpack_read_only_flags_and_copies() -> None:
    t = tx.arange(3)
    assert not np.from_dlpack(t.expand((2, 3))).flags.writeable
    copied = np.from_dlpack(t, copy=True)
    copied[0] = 9
    assert t.tolist() == [0, 1, 2]
    gathered = t.oindex[[2, 0, 1]]
    assert np.from_dlpack(gathered).tolist() == [2, 0, 1]
    with pytest.raises(BufferError, match="strides"):
        np.from_dlpack(gathered, copy=False)
    assert t.__dlpack_device__() == (1, 0)


def test_from_dlpack_copies_on_request_and_rejects_other_objects() -> None:
    a = np.zeros(2)
    t = tx.from_dlpack(a, copy=True)
    t[0] = 7
    assert a.tolist() == [0, 0]
    with pytest.raises(ArgumentError, match="list"):
        tx.from_dlpack([1, 2])
    with pytest.raises(ArgumentError, match="gpu"):
        tx.from_dlpack(a, device="gpu")
    read_only = np.zeros(2)
    read_only.flags.writeable = False
    u = tx.from_dlpack(read_only)
    u[0] = 1
    assert read_only.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", tx.dtypes.ALL_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
def test_conversion_to_numpy_returns_arrays_for_every_shape(dtype: tx.DType, shape: tuple[int, ...]) -> None:
    """Also for 0-d tensors, for which NumPy's operators return scalars."""
    t = tx.ones(shape, dtype=dtype)
    for result in (t.numpy(), np.asarray(t), np.array(t), np.asarray(t, dtype=np.complex128)):
        assert type(result) is np.ndarray and result.shape == shape and (result == 1).all()
