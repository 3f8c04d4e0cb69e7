"""Writes at indices, compared with NumPy's `ufunc.at` and assignment, which take values in the same order."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES, DType, bfloat16, boolean
from tenxor.errors import ArgumentError, BadIndex, DTypeError, IndexOutOfRange, ReadOnlyError, ShapeError
from tenxor.graph.node import Node, Scatter
from tenxor.memory.buffer import Buffer
from tenxor.runtime.planner import preview_kernels
from tenxor.tensor import Tensor

Array = np.ndarray[Any, Any]
UFUNCS: dict[str, Any] = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


def numbers(random: Random, shape: tuple[int, ...], dtype: DType = tx.float64) -> Array:
    """Return an array of small integers as NumPy stores them; bfloat16 becomes float32."""
    low = 0 if dtype.kind in ("uint", "bool") else -2
    kind = np.dtype(np.float32) if dtype is bfloat16 else dtype.numpy
    values = [random.randint(low, 1 if dtype is boolean else 2) for _ in range(int(np.prod(shape)))]
    result = np.array(values, np.float64).astype(kind).reshape(shape)
    return result * kind.type(1 + 1j) if dtype.is_complex else result


def tensor(values: Array, dtype: DType | None = None) -> Tensor:
    return tx.asarray(values, dtype=dtype, copy=True)


# Shapes of the memory, with functions that take a view of it
VIEWS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "whole": ((6, 4), lambda t: t),
    "reversed": ((6, 4), lambda t: t[::-1, ::-1]),
    "strided": ((12, 8), lambda t: t[1::2, ::2]),
    "transposed": ((4, 6), lambda t: t.T),
    "a row of a cube": ((2, 6, 4), lambda t: t[1]),
    "a diagonal": ((4, 6, 6), lambda t: t.diagonal(0, 1, 2).T),
    "a chain": ((4, 6), lambda t: t.T.reshape(24).reshape(4, 6).T.reshape(6, 4)),
}
KEYS: dict[str, Callable[[Random], Any]] = {
    "list": lambda r: [r.randrange(-6, 6) for _ in range(9)],
    "one": lambda r: [r.randrange(-6, 6)],
    "pairs": lambda r: ([r.randrange(-6, 6) for _ in range(30)], [r.randrange(-4, 4) for _ in range(30)]),
    "crossed": lambda r: ([[0], [r.randrange(6)], [0]], [r.randrange(4), 1, 1]),
    "columns": lambda r: (slice(1, None, 2), [r.randrange(-4, 4) for _ in range(7)]),
    "apart": lambda r: ([r.randrange(6), 2, 2], None, [3, 3, r.randrange(4)]),
    "with an int": lambda r: (r.randrange(6), [0, r.randrange(4), 0]),
    "mask of rows": lambda r: np.array([r.random() < 0.5 for _ in range(6)]),
    "mask": lambda r: np.array([r.random() < 0.5 for _ in range(24)]).reshape(6, 4),
    "nothing": lambda r: np.zeros((6, 4), bool),
    "no rows": lambda r: np.zeros(0, np.int64),
    "slices": lambda r: (slice(None, None, -2), slice(1, 3)),
    "element": lambda r: (r.randrange(6), -1),
    "all": lambda r: ...,
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("pending", [False, True])
def test_scatter_by_any_key_into_any_view_equals_numpy(view: str, key: str, pending: bool) -> None:
    random = Random(f"{view} {key}")
    shape, take_view = VIEWS[view]
    for method in ("set", *UFUNCS):
        index = KEYS[key](random)
        old = numbers(random, shape)
        flat_indices = take_view(np.arange(old.size).reshape(shape))
        view_elements, wanted = old.ravel()[flat_indices], old.copy()
        selected = view_elements[index]
        value = numbers(random, selected.shape if random.random() < 0.5 else selected.shape[-1:])
        t, v = tensor(old), tensor(value)
        if pending:
            t, v = t * 1, v * 1
        ours = tuple(tensor(np.asarray(k)) + 0 if type(k) is list else k for k in index) if type(index) is tuple else index
        before = t.copy()
        new = getattr(take_view(t).at[ours], method)(v)
        if method == "set":
            take_view(t)[ours] = v
            view_elements[index] = value
        else:
            ufunc = UFUNCS[method]
            ufunc.at(take_view(t), ours, v)
            ufunc.at(view_elements, index, np.broadcast_to(value, selected.shape))
        wanted.ravel()[flat_indices] = view_elements
        for result, expected in ((t, wanted), (before, old), (new, view_elements)):
            np.testing.assert_array_equal(result.to_numpy(), expected, method)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("kind", [d for d in ALL_DTYPES if d.is_integer], ids=str)
def test_scatter_supports_every_dtype_and_index_dtype(dtype: DType, kind: DType) -> None:
    random = Random(7)
    index = np.array([random.randrange(-9 if kind.kind == "int" else 0, 9) for _ in range(40)])
    for method, ufunc in UFUNCS.items():
        if dtype.is_complex and method in ("min", "max"):
            continue
        old, value = numbers(random, (9,), dtype), numbers(random, (40,), dtype)
        wanted = old.copy()
        ufunc.at(wanted, index, value)
        result = getattr(tensor(old, dtype).at[tensor(index, kind)], method)(tensor(value, dtype))
        assert result.dtype is dtype
        np.testing.assert_array_equal(result.to_numpy(), wanted, method)


def test_scattered_values_broadcast_and_must_fit_the_dtype() -> None:
    t = tx.zeros((3, 4), dtype=tx.int32)
    assert t.at[[0, 0]].add([1, 2, 3, 4]).tolist() == [[2, 4, 6, 8], [0] * 4, [0] * 4]
    assert t.at[[0, 0]].add(5)[0].tolist() == [10] * 4
    assert t.at[:, [1, 1]].add([[1], [2], [3]]).tolist() == [[0, 2, 0, 0], [0, 4, 0, 0], [0, 6, 0, 0]]
    assert tx.zeros(3).at[[1]].add(tx.asarray([7], dtype=tx.int8)).tolist() == [0, 7, 0]
    with pytest.raises(ShapeError, match=r"^at\.add: a value of shape \(3,\) does not broadcast to the shape \(2, 4\)"):
        t.at[[0, 1]].add([1, 2, 3])
    for value in (1.5, tx.ones(4), 1j):
        with pytest.raises(DTypeError, match=r"^at\.add: values of .* do not fit into int32"):
            t.at[[0]].add(value)
    with pytest.raises(DTypeError, match=r"^at\.max: .* complex numbers have no order"):
        tx.ones(3, dtype=tx.complex64).at[[0]].max(1)


def test_scatter_accepts_0d_and_empty_tensors() -> None:
    assert tx.asarray(3.0).at[...].add(2).item() == 5
    assert tx.asarray(3.0).at[()].set(2).item() == 2
    assert tx.zeros((0, 3)).at[[]].add(1).shape == (0, 3)
    assert tx.zeros(3).at[tx.zeros((0, 2), dtype=tx.int64)].add(tx.zeros((0, 2))).tolist() == [0, 0, 0]
    t = tx.zeros(3)
    t[[]] = 1
    assert t.tolist() == [0, 0, 0]
    with pytest.raises(IndexOutOfRange, match=r"^index_add: index 0 is out of range for axis 0 of size 0$"):
        tx.zeros((0, 3)).index_add(0, [0], tx.ones((1, 3)))


# PyTorch's names


def test_index_add_equals_numpy_add_at() -> None:
    x = tx.arange(12, dtype=tx.float64).reshape(3, 4)
    source = tx.ones((3, 2)) * tx.asarray([1.0, 10.0])
    wanted = x.to_numpy()
    np.add.at(wanted, (slice(None), [1, 1]), source.to_numpy())
    for result in (x.index_add(1, [1, 1], source), tx.index_add(x, dim=-1, index=tx.asarray([1, -3]), source=source)):
        np.testing.assert_array_equal(result.to_numpy(), wanted)
    assert tx.index_add(x, 0, [0], x[1], alpha=2)[0].tolist() == [8, 11, 14, 17]
    assert tx.index_add(x, 0, [0], 1, alpha=2)[0].tolist() == [2, 3, 4, 5]
    assert x.sum().item() == 66
    assert x.index_add_(0, [2, 2], 1, alpha=3) is x and x[2].tolist() == [14, 15, 16, 17]


def test_scatter_add_and_scatter_reduce_equal_numpy() -> None:
    random = Random(11)
    old, src = numbers(random, (5, 6)), numbers(random, (5, 9))
    index = np.array([random.randrange(-6, 6) for _ in range(45)]).reshape(5, 9)
    rows = np.arange(5)[:, None]
    for reduce, ufunc in (("sum", np.add), ("prod", np.multiply), ("amax", np.maximum), ("min", np.minimum)):
        for include in (True, False):
            wanted = old.copy()
            if not include:
                wanted[rows, index] = {"sum": 0, "prod": 1, "amax": -np.inf, "min": np.inf}[reduce]
            ufunc.at(wanted, (rows, index), src)
            x = tensor(old)
            result = tx.scatter_reduce(x, 1, index, src, reduce, include_self=include)
            np.testing.assert_array_equal(result.to_numpy(), wanted)
            assert x.scatter_reduce_(1, tensor(index), tensor(src), reduce, include_self=include) is x
            np.testing.assert_array_equal(x.to_numpy(), wanted)
    wanted = old.T.copy()
    np.add.at(wanted, (index.T, rows.T), src.T)
    np.testing.assert_array_equal(tx.scatter_add(tensor(old).T, 0, index.T, src.T).to_numpy(), wanted)
    x = tensor(old)
    assert x.scatter_add_(1, index, src) is x
    np.testing.assert_array_equal(x.to_numpy(), wanted.T)
    np.testing.assert_array_equal(tx.scatter_add(tensor(old), 1, [[2]] * 5, 1.0).to_numpy()[:, 2], old[:, 2] + 1)


@pytest.mark.parametrize("dtype", [tx.float64, tx.int32, tx.complex128], ids=str)
@pytest.mark.parametrize("include", [True, False])
def test_scatter_reduce_by_mean_divides_by_the_count(dtype: DType, include: bool) -> None:
    random = Random(12)
    old, src = numbers(random, (7,), dtype), numbers(random, (20,), dtype)
    index = [random.randrange(5) for _ in range(20)]
    wanted = []
    for k, x in enumerate(old):
        of = [*([x] if include or k not in index else []), *(v for v, i in zip(src, index, strict=True) if i == k)]
        total, count = sum(of), len(of)
        wanted.append(total // count if dtype.is_integer else total / count)
    result = tx.scatter_reduce(tensor(old), 0, index, src, "mean", include_self=include)
    assert result.dtype is dtype
    np.testing.assert_array_equal(result.to_numpy(), np.array(wanted, dtype.numpy))


def test_invalid_scatter_arguments_raise() -> None:
    x = tx.zeros((3, 4))
    with pytest.raises(ArgumentError, match=r"^index_add: takes an axis, indices along it and values"):
        tx.index_add(x, 0, [1])
    with pytest.raises(ArgumentError, match=r"^scatter_reduce: reduce must be one of sum, .* and mean, not 'median'"):
        tx.scatter_reduce(x, 0, [[0]], 1, "median")
    with pytest.raises(ShapeError, match=r"^scatter_add: index has shape \(1,\) and the tensor \(3, 4\)"):
        tx.scatter_add(x, 0, [1], 1)
    with pytest.raises(BadIndex, match=r"^index_add: indices must be integers, not float64"):
        tx.index_add(x, 0, [1.5], 1)
    with pytest.raises(DTypeError, match="there is no mean of bools"):
        tx.scatter_reduce(tx.zeros(3, dtype=tx.bool), 0, [0], True, "mean")


# Indices out of range


@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize("kind", [tx.int64, tx.uint64, tx.int16])
def test_nothing_is_written_if_an_index_is_out_of_range(count: int, kind: DType) -> None:
    index = np.zeros(count, np.int64)
    index[-1] = 9
    t = tx.arange(12, dtype=tx.float64).reshape(3, 4).realize()
    address = np.asarray(t).ctypes.data
    for write in (
        lambda: t.__setitem__(tensor(index, kind), 1),
        lambda: t.__setitem__((slice(None), tensor(index, kind) + 0), 1),
        lambda: t.index_add_(0, tensor(index, kind) + 0, 1),
        lambda: np.add.at(t.T, (0, tensor(index, kind)), 1),
    ):
        with pytest.raises(IndexOutOfRange, match=r"index 9 is out of range for axis [01] of size [34]$"):
            write()
        assert t.ravel().tolist() == list(range(12)) and np.asarray(t).ctypes.data == address


def test_pending_out_of_range_indices_raise_at_evaluation() -> None:
    x = tx.zeros(5)

    def bad() -> Tensor:
        return tx.arange(9) - 2

    for make in (lambda: tx.index_add(x, 0, bad(), 1), lambda: x.at[bad()].set(1), lambda: (x + 1).at[bad()].max(1)):
        result = make()
        for _ in range(2):
            with pytest.raises(IndexOutOfRange, match=r"index 5 is out of range for axis 0 of size 5$"):
                result.realize()
    y = x + 1
    y[bad()] = 3
    with pytest.raises(IndexOutOfRange, match=r"^assignment: index 5 "):
        y.tolist()
    assert x.tolist() == [0] * 5


# Overlapping reads and writes


def test_scatter_reads_old_values_of_its_own_target() -> None:
    for pending in (False, True):
        random = Random(3)
        old = numbers(random, (50,)) * 7 + np.arange(50)
        target_index, source_index = ([random.randrange(48) for _ in range(60)] for _ in range(2))

        def make_target(old: Array = old, pending: bool = pending) -> Tensor:
            t = tensor(old)
            return t + 0 if pending else t

        t, wanted = make_target(), old.copy()
        t[target_index] = t[source_index]
        wanted[target_index] = wanted[source_index]
        np.testing.assert_array_equal(t.to_numpy(), wanted)
        t, wanted = make_target(), old.copy()
        t[2:][target_index[:20]] = t[:20]
        wanted[2:][target_index[:20]] = wanted[:20].copy()
        np.testing.assert_array_equal(t.to_numpy(), wanted)
        t, wanted = make_target(), old.copy()
        t.index_add_(0, target_index, t[source_index] * 2)
        np.add.at(wanted, target_index, old[source_index] * 2)
        np.testing.assert_array_equal(t.to_numpy(), wanted)
        t, wanted = make_target(), old.copy()
        t.index_add_(0, np.arange(50), t)
        np.testing.assert_array_equal(t.to_numpy(), old * 2)
    i = tx.asarray([2, 0, 1, 1])
    i[i] = tx.asarray([7, 8, 9, 10])
    assert i.tolist() == [8, 10, 7, 1]
    i = tx.asarray([2, 0, 1, 1]) * 1
    i.index_add_(0, i, i)
    assert i.tolist() == [2 + 0, 0 + 1 + 1, 1 + 2, 1]


def test_scatter_writes_shared_memory_at_once() -> None:
    array = np.arange(6.0)
    t = tx.asarray(array, copy=False)
    values = tx.asarray(np.arange(6.0), copy=False)
    t[[0, 0, 5]] = values[:3]
    t.index_add_(0, [1, 1], 10)
    assert array.tolist() == [1, 21, 2, 3, 4, 2]
    t[t[:2].astype(tx.int64) % 6] = values[:2]
    new = t.at[[0]].add(5)
    array[0] = 100
    assert new[0].item() == 5 + 21 * 0 + 1 and t[0].item() == 100
    array.flags.writeable = False
    frozen = tx.asarray(np.frombuffer(bytes(16)), copy=False)
    frozen[[0]] = 3
    assert frozen.tolist() == [3, 0]


def test_scatter_reuses_memory_without_other_readers() -> None:
    t = tx.zeros(1000).realize()
    address = t.storage.node.buffer.address
    index = tx.arange(1000).realize()
    for _ in range(3):
        t.index_add_(0, index, 1)
        t[index] = t[index] + 1
        assert t.storage.node.buffer.address == address
    before = t.copy()
    t.index_add_(0, index, 1)
    assert before.sum().item() == 6000 and t.sum().item() == 7000


def test_functional_scatter_reuses_the_memory_of_a_dead_operand() -> None:
    old, indices = np.array([5.0, 1.0, 4.0, 0.0, 2.0, 3.0, 9.0]), np.array([0, 0, 1, 2, 3, 3, 1])
    for value in (lambda t: t, lambda t: t[::-1], lambda t: t[::-1] * 2 + 1):
        x = (tx.asarray(old) + 0).realize()
        memory, expected = x.storage.node.buffer.address, old.copy()
        np.add.at(expected, indices, value(old))
        x = x.at[tx.asarray(indices)].add(value(x))
        x.realize()
        assert x.storage.node.buffer.address == memory
        assert np.array_equal(x.to_numpy(), expected)
    indexed_by_itself = (tx.asarray([1, 2, 0, 0]) + 0).realize()
    indexed_by_itself = indexed_by_itself.at[indexed_by_itself].add(indexed_by_itself)
    assert indexed_by_itself.tolist() == [1, 3, 2, 0]


def test_scatter_plan_is_reused_for_views_at_other_offsets() -> None:
    values, indices = np.arange(24.0).reshape(6, 4), np.array([3, -1, 3, 0])
    x, expected, y, i = tx.zeros((6, 2, 7)).realize(), np.zeros((6, 2, 7)), tx.asarray(values), tx.asarray(indices)
    counts = []
    for k in range(6):
        x[k, k % 2][i] = y[k]
        expected[k, k % 2][indices] = values[k]
        x[k].T[k % 3 :][:5].index_add_(0, i, y[k, :, None])
        np.add.at(expected[k].T[k % 3 :][:5], indices, values[k, :, None])
        counts.append(len(sys.modules["tenxor.runtime.realize"]._plans))
    assert np.array_equal(x.to_numpy(), expected)
    assert counts[0] == counts[-1]


def test_pending_readers_keep_the_values_from_before_a_scatter() -> None:
    t = tx.zeros(5)
    pending = t + 1
    t.index_add_(0, [1, 1, 2], 1)
    later = t * 2
    t[[0, 1]] = 9
    assert pending.tolist() == [1] * 5 and later.tolist() == [0, 4, 2, 0, 0] and t.tolist() == [9, 9, 1, 0, 0]


def test_repeated_views_accept_accumulation_but_no_assignment() -> None:
    x = tx.zeros(4)
    rows = x.expand((3, 4))
    with pytest.raises(ReadOnlyError, match=r"^assignment: this view"):
        rows[[0, 1]] = tx.arange(4.0)
    rows[[0, 1]] = 2
    assert x.tolist() == [2] * 4
    rows.index_add_(0, [0, 2], tx.arange(4.0))
    assert x.tolist() == [2, 4, 6, 8]
    windows = tx.zeros(5)
    np.add.at(windows.windows(0, 3, 1), ..., tx.ones((3, 3)))
    assert windows.tolist() == [1, 2, 3, 2, 1]
    twice = tx.zeros(3)
    np.add.at(twice.oindex[[0, 0, 2]], ..., tx.asarray([1.0, 2.0, 4.0]))
    assert twice.tolist() == [3, 0, 4]


# Order and threads


@pytest.mark.large
@pytest.mark.parametrize("thread_count", [1, 2, 3])
def test_scatter_bits_equal_adding_in_order_on_any_thread_count(thread_count: int, threads: Callable[[int], None]) -> None:
    threads(thread_count)
    rng = np.random.default_rng(9)
    for shape, axis, count in (((700, 80), 0, 6000), ((40, 3000), 1, 9000), ((5000,), 0, 60_000)):
        x = rng.random(shape, dtype=np.float32)
        index = rng.integers(0, shape[axis], count)
        values = rng.random((*shape[:axis], count, *shape[axis + 1 :]), dtype=np.float32)
        wanted = x.copy()
        np.add.at(wanted, (slice(None),) * axis + (index,), values)
        result = tx.index_add(tensor(x), axis, index, tensor(values) * 1)
        assert result.to_numpy().tobytes() == wanted.tobytes()
        last_written = x.copy()
        last_written[(slice(None),) * axis + (index,)] = values
        t = tensor(x)
        t[(slice(None),) * axis + (tensor(index),)] = tensor(values)
        assert t.to_numpy().tobytes() == last_written.tobytes()


def test_hundreds_of_index_add_calls_on_a_pending_tensor_add_exactly() -> None:
    t = tx.zeros(4)
    for _ in range(300):
        t.index_add_(0, [1, 1, 3], 1)
    assert t.tolist() == [0, 600, 0, 300]


def test_missing_pytorch_methods_raise_with_advice() -> None:
    for name in ("index_put", "index_put_", "index_fill", "index_reduce"):
        with pytest.raises(AttributeError, match="use x"):
            getattr(tx.zeros(3), name)


@pytest.mark.large
def test_many_values_for_few_elements_are_reduced_in_parallel_parts(threads: Callable[[int], None]) -> None:
    """The sizes let threads share the parts and leave a remainder. The bits do not depend on the threads."""
    rng = np.random.default_rng(10)
    count = (1 << 18) + 5
    index, values = rng.integers(-7, 7, count), rng.integers(0, 3, count)
    columns = rng.integers(-9, 9, (60_001, 9))
    rows = rng.integers(0, 4, 60_001)
    result = []
    for thread_count in (1, 2, 3):
        threads(thread_count)
        i, v = tensor(index), tensor(values.astype(np.float32) * np.float32(0.1))
        sums = tx.ones(7, dtype=tx.float32).index_add(0, i, v)
        kernels = [kernel for _, kernel in preview_kernels([sums.storage.node]) if kernel is not None]
        assert any(kernel.shared_axis >= 0 for kernel in kernels if kernel.name == "scatter")
        result.append(sums.to_numpy().tobytes())
        wanted = np.bincount(index % 7, values * 0.1, 7) + 1
        np.testing.assert_allclose(sums.to_numpy(), wanted, 1e-5)
        both = tx.zeros((2, 7), dtype=tx.int16)
        both[1].index_add_(0, i * 1, 1)
        np.testing.assert_array_equal(both.to_numpy(), [[0] * 7, np.bincount(index % 7).astype(np.int16)])
        for method, ufunc in UFUNCS.items():
            exact = np.full((5, 9), 2, np.int64)
            ufunc.at(exact, rows, columns)
            t = tx.full((5, 9), 2).at[tensor(rows)]
            np.testing.assert_array_equal(getattr(t, method)(tensor(columns)).to_numpy(), exact)
        any_true = tx.zeros(3, dtype=tx.bool).at[tensor(index) % 2].add(tensor(values > 1))
        assert any_true.tolist() == [True, True, False]
    assert len(set(result)) == 1
    with pytest.raises(IndexOutOfRange, match=r"^index_add: index -?[67] is out of range for axis 0 of size 6"):
        tx.zeros(6).index_add(0, tensor(index), 1)


@pytest.mark.usefixtures("plain")
def test_interrupted_scatter_does_not_add_values_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    t = tx.zeros(5).realize()
    settle, raised = Node.set_buffer, []

    def interrupted(node: Node, buffer: Buffer) -> None:
        if type(node.op) is Scatter and not raised:
            raised.append(node)
            raise KeyboardInterrupt
        settle(node, buffer)

    monkeypatch.setattr(Node, "set_buffer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        t.index_add_(0, [1, 1, 4], 1)
    assert raised and t.tolist() == [0, 2, 0, 0, 1]


def test_huge_scatter_is_split_into_more_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals are handled between two parts, so no part may take long."""
    module = sys.modules["tenxor.tensor.indexed_write_methods"]
    for name, value in (
        ("MIN_FINE_SPLIT_VALUES", 1 << 12),
        ("MIN_SPLIT_VALUES", 1 << 12),
        ("MIN_VALUES_PER_ELEMENT", 1),
        ("FINE_SPLIT_PART_COUNT", 64),
    ):
        monkeypatch.setattr(module, name, value)
    numbers = np.random.default_rng(0)
    for count in (4097, 64 * 90, 9999):
        indices, values = numbers.integers(-7, 7, count), numbers.integers(0, 99, count)
        expected = np.arange(7)
        np.add.at(expected, indices, values)
        result = tx.arange(7).index_add(0, tx.asarray(indices), tx.asarray(values))
        assert result.tolist() == expected.tolist()
        assert tx.arange(7).at[indices].max(values).tolist() == [max([k, *values[indices % 7 == k]]) for k in range(7)]
