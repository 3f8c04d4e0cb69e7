"""Updates that write over their own operands do not change other holders of the memory, or earlier results.

NumPy is the oracle, to the bit, as each operation rounds once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.fastpath import graph_launch, launch_records, node_launch, size_generic

from .parts import run

pytestmark = pytest.mark.usefixtures("on", "one_thread")
TIMES = 4  # the first are learnt from
N = 72  # so parts are much enough for it
RNG = np.random.default_rng(5)
A, V = RNG.normal(size=(N, N)), RNG.normal(size=N)


def _outer(a: Any) -> None:
    a[1:, 1:] -= a[1:, 0, None] * a[0, 1:]


def _scaled_outer(a: Any) -> None:
    a[1:, 1:] -= (a[1:, 0, None] * 0.5) * a[0, 1:]  # the column waits, and is little


def _reversed(a: Any) -> None:
    a[::-1, ::2] += a[:, 3, None] * a[2, ::2]  # the column and the row are written over


def _turned(a: Any) -> None:
    t = a.T
    t[2:, :-1] *= a[0, :-1] + a[:-2, 1, None]


def _column(a: Any) -> None:
    a[3:, 2] /= a[1, 1]


def _number(a: Any) -> None:
    a[1:-1, 1:-1] += 0.5


def _overlapping(a: Any) -> None:
    a[1:] += a[:-1]


def _stencil(a: Any) -> None:
    a[1:-1, 1:-1] += 0.2 * (a[:-2, 1:-1] + a[2:, 1:-1] - 2 * a[1:-1, 1:-1])


def _itself(a: Any) -> None:
    a[2:, 2:] *= a[2:, 2:]


def _row_of_itself(a: Any) -> None:
    a[1:, :] -= a[1]  # which is written over


def _masked(a: Any) -> None:
    part = a[1:, 2:]
    part[(part > 0) & (part < 1)] = 7.0


CHANGES: dict[str, Callable[[Any], None]] = {
    f.__name__.strip("_"): f
    for f in (_outer, _scaled_outer, _reversed, _turned, _column, _number, _overlapping, _stencil, _itself, _row_of_itself, _masked)
}
IN_PLACE = ("outer", "scaled_outer", "reversed", "turned", "number", "stencil", "masked")


def bits(x: Any) -> bytes:
    return (x.to_numpy() if isinstance(x, tx.Tensor) else x).tobytes()


def test_small_updates_are_not_done_in_place() -> None:
    """The analysis would take longer than the update."""
    launch_records.drop_records(), graph_launch.drop_graph_records()
    for _ in range(TIMES):
        t = tx.zeros((20, 20)) + 1.0
        _outer(t)
    assert not graph_launch.update_records


def count_in_place_updates() -> int:
    """Return how many updates are recorded as in place."""
    return sum(map(bool, graph_launch.update_records.values()))


@pytest.mark.parametrize("name", list(CHANGES))
def test_updates_equal_numpy(name: str) -> None:
    """Updates repeat on fresh memory, and on the same memory."""
    mine, right = tx.asarray(A), A.copy()
    for _ in range(TIMES):
        other, wanted = tx.asarray(A), A.copy()
        for t, a in ((other, wanted), (mine, right)):
            CHANGES[name](t)
            CHANGES[name](a)
            assert bits(t) == bits(a)


@pytest.mark.parametrize("name", IN_PLACE)
def test_update_is_one_kernel_in_place(name: str) -> None:
    launch_records.drop_records(), graph_launch.drop_graph_records()
    for _ in range(TIMES):
        t = tx.asarray(A)
        CHANGES[name](t)
    assert count_in_place_updates() == 1, graph_launch.update_records
    before = count_in_place_updates(), len(graph_launch.graph_records)
    where = t.node.buffer.address
    CHANGES[name](t)
    assert (count_in_place_updates(), len(graph_launch.graph_records)) == before
    assert t.node.buffer.address == where


def test_pending_operand_of_an_update_keeps_its_value() -> None:
    """The operand is pending while its own operands are overwritten."""
    for _ in range(TIMES):
        t, a = tx.asarray(A), A.copy()
        y, right = t[1:, 0, None] * t[0, 1:], a[1:, 0, None] * a[0, 1:]
        for _ in range(2):
            t[1:, 1:] -= y
            a[1:, 1:] -= right
        t[...] = 0
        assert bits(y) == bits(right)


def test_results_from_before_an_update_keep_their_values() -> None:
    """The results read the operand, the slice, or the whole tensor."""
    for _ in range(TIMES):
        t, a = tx.asarray(A), A.copy()
        y, right = t[1:, 0, None] * t[0, 1:], a[1:, 0, None] * a[0, 1:]
        held = [y + 1, t[2:] * 2, t + y[0, 0], t.sum(0)]
        wanted = [right + 1, a[2:] * 2, a + right[0, 0], a.sum(0)]
        t[1:, 1:] -= y
        a[1:, 1:] -= right
        assert bits(t) == bits(a)
        assert list(map(bits, held[:-1])) == list(map(bits, wanted[:-1]))
        np.testing.assert_allclose(held[-1].to_numpy(), wanted[-1], rtol=1e-12)


def test_every_view_sees_an_update() -> None:
    for _ in range(TIMES):
        t, a = tx.asarray(A), A.copy()
        views, right = (t.T, t[::-1], t.reshape(-1)), (a.T, a[::-1], a.reshape(-1))
        _outer(t)
        _outer(a)
        assert [bits(x) for x in views] == [bits(x) for x in right]


def test_equal_slices_of_tensors_of_many_sizes_are_updated() -> None:
    """The write covers the whole memory, whose size is not part of the slice's layout."""
    for n in (3_000, 3_010, 3_000, 3_100, 3_010, 3_000):
        for _ in range(TIMES):
            t, a = tx.zeros(n) + 1.0, np.ones(n)
            t[3:2_900] += t[0]
            a[3:2_900] += a[0]
            assert bits(t) == bits(a)


def test_updates_at_different_offsets_are_correct() -> None:
    """The offset of a slice is not part of the cache key."""
    t, a = tx.asarray(A), A.copy()
    for k in range(N - 3):
        for x in (t, a):
            x[k + 1 :, k + 1 :] -= x[k + 1 :, k, None] * 0.01 * x[k, k + 1 :]
        for x in (t, a):
            x[k, 2:5] *= x[k + 1, 4:7]
        assert bits(t) == bits(a)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32", "complex128", "bool"])
def test_updates_of_every_dtype_equal_numpy(dtype: str) -> None:
    for _ in range(TIMES):
        a = np.arange(N * N).reshape(N, N).astype(dtype)
        t = tx.asarray(a)
        for x in (t, a):
            if dtype == "bool":
                x[1:, 1:] &= x[0, 1:]
            else:
                x[1:, 1:] *= x[1:, 0, None] + x[0, 1:]
        assert bits(t) == bits(a)


@pytest.mark.parametrize("side", [30, 60, 300, 600])
def test_updates_of_large_slices_equal_numpy(side: int) -> None:
    """Some slices are larger than a memory block."""
    a = np.random.default_rng(1).normal(size=(side, side))
    t = tx.asarray(a)
    for _ in range(TIMES):
        for x in (t, a):
            _outer(x)
            _column(x)
        assert bits(t) == bits(a)


def test_updates_write_externally_shared_memory() -> None:
    for _ in range(TIMES):
        a = A.copy()
        t = tx.asarray(a, copy=False)
        right = A.copy()
        _outer(t)
        _outer(right)
        assert bits(a) == bits(right) == bits(t)
        shared = tx.asarray(A)
        seen = np.asarray(shared)
        _outer(shared)
        assert bits(seen) == bits(right)


def test_updates_may_read_elements_of_the_same_tensor() -> None:
    t, a = tx.asarray(A), A.copy()
    for k in range(1, 6):
        t[k:, k] /= t[k - 1, k]
        a[k:, k] /= a[k - 1, k]
        t[k, k:] -= t[0, 0] * t[k - 1, k:]
        a[k, k:] -= a[0, 0] * a[k - 1, k:]
        assert bits(t) == bits(a)


def test_gradients_pass_through_updates() -> None:
    x = tx.asarray(V).requires_grad_()
    for _ in range(TIMES):
        y = x * 1.0
        y[1:] *= y[0] * 1.0
        y.sum().backward()
        right = np.full(N, V[0])
        right[0] = 1.0 + V[1:].sum()
        np.testing.assert_allclose(x.grad.to_numpy(), right)
        x.grad = None
    t = tx.asarray(A)
    t[1:, 1:] -= x[1:, None] * x[1:]  # what is beside has a past
    t.sum().backward()
    np.testing.assert_allclose(x.grad.to_numpy()[1:], -2 * V[1:].sum() * np.ones(N - 1))


def test_repeated_updates_use_constant_memory() -> None:
    t = tx.asarray(np.random.default_rng(2).normal(size=(100, 100)) * 1e-2)
    for _ in range(TIMES):
        _outer(t)
    gc.collect()
    before = tx.memory().in_use
    for _ in range(200):
        _outer(t)
        _column(t)
    gc.collect()
    assert tx.memory().in_use <= before


def test_operand_read_by_python_during_an_update_keeps_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python may run while copies are made, and may compute the pending operand."""
    t, a = tx.asarray(A), A.copy()
    y, right = t[1:, 0, None] * t[0, 1:], a[1:, 0, None] * a[0, 1:]
    launch_records.drop_records(), graph_launch.drop_graph_records()
    size_generic._templates_by_signature.clear()
    own = node_launch.store_node_record
    seen = []

    def meanwhile(node: Any) -> None:
        own(node)
        seen.append(bits(y))

    from tenxor.fastpath import fast_path

    assert fast_path is not None
    names = fast_path.object_table.indices
    import ctypes

    table = (ctypes.c_void_p * len(names)).from_address(fast_path.library["objects"])
    kept = table[names["store_node_record"]]
    table[names["store_node_record"]] = id(meanwhile)
    try:
        t[1:, 1:] -= y
    finally:
        table[names["store_node_record"]] = kept
    a[1:, 1:] -= right
    assert bits(t) == bits(a) and bits(y) == bits(right)
    assert seen and all(x == bits(right) for x in seen)


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_random_update_programs_equal_numpy(first: int) -> None:
    """Programs update slices with operands of one or two storages, and hold many of the results."""
    for seed in range(first, first + 25):
        run(seed)


def test_most_random_programs_have_updates_in_place() -> None:
    launch_records.drop_records(), graph_launch.drop_graph_records()
    for seed in range(300, 320):
        run(seed)
    assert count_in_place_updates() >= 10
