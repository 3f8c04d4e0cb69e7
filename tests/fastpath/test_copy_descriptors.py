"""Gathers, concatenations and writes in machine code: NumPy is the oracle, for sizes and layouts at their limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.api import concatenation
from tenxor.errors import IndexOutOfRange, TenxorError
from tenxor.runtime.realize import compute_lock

TIMES = 3  # what is met for the first time takes the long way
DTYPES = (np.uint8, np.int16, np.float32, np.float64, np.complex128)
SIZES = (1, 63, 64, 65, 130)


def array_and_tensor(array: Any, work: Callable[[Any, Any], Any]) -> None:
    """Return an array and a tensor with the same elements, which receive the same operations."""
    assert fastpath.state == "on"
    for _ in range(TIMES):
        own, x = array.copy(), tx.asarray(array.copy()).realize()
        wanted, found = work(own, np.asarray), work(x, tx.asarray)
        assert np.array_equal(np.asarray(found), wanted) and np.asarray(found).shape == np.shape(wanted)
        assert np.array_equal(np.asarray(x), own)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_of_all_sizes_match_numpy(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for size in SIZES:
        for row in ((), (1,), (2,), (3, 5)):
            for chance in (0.0, 0.5, 1.0):
                array = (rng.normal(size=(size, *row)) * 50).astype(dtype)
                mask = rng.random(size) < chance

                def work(x: Any, made: Any, mask: Any = mask) -> Any:
                    key = made(mask)
                    found = x[key]
                    x[key] = found[::-1] + x[key]
                    return found

                array_and_tensor(array, work)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_with_long_runs_match_numpy(dtype: Any) -> None:
    """Neighbouring rows move together: within a word of 64 rows, up to its end, from its beginning, or as the whole word."""
    rng = np.random.default_rng(1)
    for _ in range(6):
        ends = np.sort(rng.choice(np.arange(1, 400), 9, replace=False))
        ends[rng.integers(9)] = 64 * rng.integers(1, 6)
        mask = (np.searchsorted(np.sort(ends), np.arange(400), side="right") % 2).astype(bool)
        for rows in (slice(None), slice(None, None, -1), slice(None, None, 2)):
            for row in ((), (3,)):
                array = (rng.normal(size=(800 if rows.step == 2 else 400, *row)) * 50).astype(dtype)

                def work(x: Any, made: Any, mask: Any = mask, rows: Any = rows) -> Any:
                    key, part = made(mask), x[rows]
                    found = part[key]
                    part[key] = found[::-1] + part[key]
                    return found

                array_and_tensor(array, work)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32])
def test_indices_of_all_dtypes_are_read_and_checked(kind: Any) -> None:
    array = np.arange(60.0).reshape(20, 3)
    indices = np.array([[3, 19], [0, 3]], kind)

    def work(x: Any, made: Any) -> Any:
        key = made(indices)
        x[key] = x[key] + 1.0
        return x[key]

    array_and_tensor(array, work)
    wrong = tx.asarray(np.array([0, 20], kind)).realize()
    x = tx.asarray(array)
    x[wrong % 20]
    for _ in range(TIMES):
        with pytest.raises(IndexOutOfRange):
            x[wrong]
        with pytest.raises(IndexOutOfRange):
            x[wrong] = 0.0
        with pytest.raises(IndexOutOfRange):
            x.index_add_(0, wrong, 1.0)
    assert np.array_equal(np.asarray(x), array)


def test_indexed_writes_are_seen_by_views_but_not_by_copies() -> None:
    """Copies that share memory until the write, and pending readers, keep the old values."""
    for _ in range(TIMES):
        x = tx.asarray(np.arange(12.0).reshape(4, 3)).realize()
        view, copied, pending = x[1:], x.copy(), x * 2.0
        x[[0, 3]] = x[[3, 0]]
        x.index_add_(0, tx.asarray([1, 1]), 10.0)
        x[tx.asarray([False, False, True, False])] = x[:1]
        assert x.tolist() == [[9.0, 10.0, 11.0], [23.0, 24.0, 25.0], [9.0, 10.0, 11.0], [0.0, 1.0, 2.0]]
        assert view.tolist() == x.tolist()[1:]
        assert copied.tolist() == np.arange(12.0).reshape(4, 3).tolist()
        assert pending.tolist() == (np.arange(12.0).reshape(4, 3) * 2).tolist()
        mask = tx.asarray([True, False, True])
        mask[mask] = tx.asarray([False, True])
        assert mask.tolist() == [False, False, True]


def test_externally_shared_memory_is_read_and_written_by_index() -> None:
    for _ in range(TIMES):
        array = np.arange(6.0)
        x = tx.asarray(array, copy=False)
        key = tx.asarray([1, 2]).realize()
        assert x[key].tolist() == [1.0, 2.0]
        array[1] = 7.0
        assert x[key].tolist() == [7.0, 2.0]
        x[key] = tx.asarray([5.0, 6.0])
        assert array.tolist() == [0.0, 5.0, 6.0, 3.0, 4.0, 5.0]


def test_roll_stack_and_concatenate_match_numpy() -> None:
    rng = np.random.default_rng(0)
    for shape in ((7,), (5, 6), (3, 1, 4), (2, 3, 4, 5)):
        array = rng.integers(0, 99, shape).astype(np.int32)
        for view in (lambda x: x, lambda x: x.T, lambda x: x[::-1], lambda x: x[..., ::2]):
            array_and_tensor(array, lambda x, made, view=view: (np if made is np.asarray else tx).roll(view(x), 2, 0))
            array_and_tensor(array, lambda x, made, view=view: (np if made is np.asarray else tx).stack([view(x), view(x)[::-1]], -1))
            array_and_tensor(
                array, lambda x, made, view=view: (np if made is np.asarray else tx).concatenate((view(x), view(x)[:1], view(x)), 0)
            )
    array_and_tensor(np.arange(30.0).reshape(5, 6), lambda x, made: (np if made is np.asarray else tx).roll(x, (1, -2), (0, 1)))


def test_axis_and_dim_given_together_raise_even_if_one_equals_the_default() -> None:
    """A default is distinguished from the same number given by the caller, although both have one recorded result."""
    x = tx.asarray(np.arange(6.0).reshape(2, 3))
    for _ in range(TIMES):
        assert tx.stack([x, x], dim=1).shape == (2, 2, 3)
        with pytest.raises(TenxorError, match="two names"):
            tx.stack([x, x], 0, dim=1)
        assert [t.shape for t in tx.split(x, 3, dim=1)] == [(2, 1)] * 3
        with pytest.raises(TenxorError, match="two names"):
            tx.split(x, 3, 0, dim=1)
        with pytest.raises(TenxorError):
            tx.roll(x, 1.0, 0)


def test_assignment_of_zero_elements_writes_nothing() -> None:
    def work(x: Any, made: Any) -> Any:
        for k in range(4):
            x[:, k + 1 :] -= x[:, k][:, None] * x[k, k + 1 :]
            x[:, 4:] = x[:, :0]
        return x

    array_and_tensor(np.arange(16.0).reshape(4, 4) / 8, work)


def test_0d_tensors_in_memory_are_operands_and_targets() -> None:
    """They act as numbers in operations, and are written to like any tensor."""
    for _ in range(TIMES):
        x, y = tx.asarray(np.array(2.5)).realize(), tx.asarray(np.arange(4.0))[2, ...]
        assert [(x + y).item(), (1.0 - x).item(), (x / 0.0).item(), abs(-x).item(), (x < y).item()] == [4.5, -1.5, np.inf, 2.5, False]
        n = tx.asarray(np.array(2**62)).realize()
        assert (n + n).item() == -(2**63) and (n + 1 > n).item() is True
        total = tx.zeros(()).realize()
        kept, seen = total.copy(), total.reshape(1)
        for k in range(3):
            total += x * float(k)
        assert (total.item(), kept.item(), seen.tolist()) == (7.5, 0.0, [7.5])
        w = tx.asarray(np.array(3.0)).requires_grad_()
        (w * w).backward()
        assert w.grad.item() == 6.0  # type: ignore[union-attr]


# Masks and indices as views: what lies beside their elements in memory is none of them.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "one element, repeated": lambda m: m[:1, 0],
    "one element of a matrix, repeated": lambda m: m[:1, :1],
    "a row, repeated": lambda m: m[:1],
    "a column, repeated": lambda m: m[:, :1],
    "every second": lambda m: m[:, ::2],
    "from the end": lambda m: m[::-1, ::-1],
    "columns as rows": lambda m: m[:7, :7].T,
}


@pytest.mark.parametrize("view", VIEWS)
def test_masks_and_indices_may_be_views(view: str) -> None:
    first = np.zeros((7, 14), dtype=bool)
    first[:, 1:] = True  # what is beside the first is not like it
    first[3, 2] = False
    for turned in (False, True):
        mask = ~first if turned else first
        ours, its = VIEWS[view](tx.asarray(mask).realize()), VIEWS[view](mask)
        shape = (7,) if its.ndim == 1 else (7, 7) if its.shape[-1] in (1, 7) else (7, 14)
        ours, its = ours.expand(shape), np.broadcast_to(its, shape)
        places, numbers = ours.astype(tx.int64), its.astype(np.int64)
        for _ in range(4):  # the first time, and as it was learnt
            a = np.arange(float(np.prod(shape))).reshape(shape)
            x = tx.asarray(a).realize()
            assert x[ours].tolist() == a[its].tolist()
            assert x[places].tolist() == a[numbers].tolist()
            x[ours] = 7.0
            a[its] = 7.0
            x[ours] += x[ours]
            a[its] += a[its]
            values = np.arange(float(its.sum()))
            assert x.tolist() == a.tolist()
            x[ours] = tx.asarray(values)
            a[its] = values
            assert x.tolist() == a.tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_every_index_is_checked_before_a_write(dtype: str, step: int) -> None:
    """Indices are checked several at a time: the wrong one may stand anywhere, and then nothing is written."""
    n = 100
    values = np.arange(float(n))
    for count in (1, 7, 8, 9, 24, 27):
        low = 0 if dtype.startswith("u") else -n
        right = np.random.default_rng(count).integers(low, n, abs(step) * count).astype(dtype)
        for wrong in (None, n, 127, low - 1):
            if wrong is not None and not np.iinfo(dtype).min <= wrong <= np.iinfo(dtype).max:
                continue
            for place in range(count if wrong is not None else 1):
                given = right.copy()
                if wrong is not None:
                    given[::step][place] = wrong
                mine, a = tx.asarray(values), values.copy()
                index, seen = tx.asarray(given)[::step], given[::step]
                if wrong is None:
                    for _ in range(3):
                        assert mine[index].tolist() == a[seen].tolist()
                        mine[index] = 5.0
                        a[seen] = 5.0
                        mine.index_add_(0, index, 1.0)
                        np.add.at(a, seen, 1.0)
                        assert mine.tolist() == a.tolist()
                    continue
                for act in (lambda x, i: x[i], lambda x, i: x.__setitem__(i, 0.0), lambda x, i: x.index_add_(0, i, 1.0)):
                    with pytest.raises(IndexError):
                        act(mine, index).tolist()
                assert mine.tolist() == values.tolist()


def test_fftshift_on_one_thread_is_joined_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.arange(200_000.0)
    x = tx.asarray(a).realize()
    tx.fft.fftshift(x)
    monkeypatch.setattr("tenxor.api.concatenation.copy_regions", lambda *_: pytest.fail("Python moves what is known"))
    assert np.array_equal(tx.fft.fftshift(x).numpy(), np.fft.fftshift(a))


@pytest.mark.parametrize("count", [1, 2])
def test_large_fftshift_is_eager_only_on_one_thread(count: int, threads: Callable[[int], None]) -> None:
    threads(count)
    a = np.arange(1_000_000.0)
    x = tx.asarray(a).realize()
    found = tx.fft.fftshift(x)
    assert (found.storage.node.buffer is None) is (count > 1)
    assert np.array_equal(found.numpy(), np.fft.fftshift(a))


def test_large_concat_on_one_thread_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of some megabytes are recorded, too. While another thread computes, Python takes over and waits."""
    monkeypatch.setattr(concatenation, "_concat", counted := Counted(concatenation._concat))
    before = tx.num_threads()
    tx.set_num_threads(1)
    try:
        a = np.random.default_rng(0).normal(size=(600, 500))
        x, y = tx.asarray(a).realize(), tx.asarray(a * 2).realize()
        for _ in range(3):
            assert np.array_equal(tx.concat([x, y], axis=1).to_numpy(), np.concatenate([a, a * 2], axis=1))
        known = counted.times
        for _ in range(3):
            assert np.array_equal(tx.concat([x, y], axis=1).to_numpy(), np.concatenate([a, a * 2], axis=1))
            assert np.array_equal(tx.roll(x, 7, 0).to_numpy(), np.roll(a, 7, 0))
        assert counted.times == known
        waiting, done = threading.Event(), list[Any]()

        def compute() -> None:
            with compute_lock:
                waiting.set()
                time.sleep(0.05)
                done.append("computed")

        other = threading.Thread(target=compute)
        other.start()
        waiting.wait()
        found = tx.concat([x, y], axis=1).to_numpy()
        assert done and np.array_equal(found, np.concatenate([a, a * 2], axis=1)) and counted.times == known + 1
        other.join()
    finally:
        tx.set_num_threads(before)


class Counted:
    """A function that counts its calls."""

    def __init__(self, own: Callable[..., Any]) -> None:
        self.own, self.times = own, 0

    def __call__(self, *args: Any) -> Any:
        self.times += 1
        return self.own(*args)
