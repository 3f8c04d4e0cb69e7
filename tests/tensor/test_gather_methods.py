"""Gathers in kernels: results equal NumPy's, gathers are fused with their readers, and wrong indices read no foreign memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tenxor as tx
from tenxor.errors import BadIndex, IndexOutOfRange
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.lower import lower
from tenxor.runtime.planner import preview_kernels
from tenxor.tensor.gather_methods import MAX_EAGER_INDEX_CHECKS
from tests.codegen.twins import check, emitted, flagged
from tests.machines import current

Array = np.ndarray[Any, Any]
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
MANY_INDICES = MAX_EAGER_INDEX_CHECKS + 1000


def table(*shape: int) -> tuple[tx.Tensor, Array]:
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape) / 8
    return tx.asarray(array), array


def close(result: Array, expected: Array) -> None:
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def kernels_of(t: tx.Tensor) -> list[str]:
    return [kernel.name for _, kernel in preview_kernels([t.node]) if kernel is not None]


# Comparison with NumPy


@st.composite
def indices(draw: st.DrawFn, size: int, shapes: Any) -> tuple[tx.Tensor, Array]:
    """Draw valid indices of an axis, of any integer dtype and layout, in memory or pending."""
    shape, dtype = draw(shapes), draw(st.sampled_from(INTEGERS))
    low = 0 if dtype[0] == "u" else -size
    array = np.random.default_rng(draw(st.integers(0, 99))).integers(low, size, shape).astype(dtype)
    t = tx.asarray(array)
    match draw(st.sampled_from(["plain", "reversed", "strided", "transposed", "broadcast", "pending", "chain"])):
        case "reversed":
            t, array = t.flip(), np.flip(array)
        case "strided" if array.ndim:
            t, array = t[..., ::2], array[..., ::2]
        case "transposed":
            t, array = t.T, array.T
        case "broadcast":
            t, array = t.expand((2, *array.shape)), np.broadcast_to(array, (2, *array.shape))
        case "pending":
            t = t + 0
        case "chain":
            t, array = t.T.reshape(-1), array.T.reshape(-1)
    return t, np.array(array)


SHAPES = st.lists(st.sampled_from([1, 2, 3, 17, 0]), min_size=1, max_size=2).map(tuple)


@settings(max_examples=300)
@given(st.data())
def test_gather_by_any_indices_from_any_view_equals_numpy(data: st.DataObject) -> None:
    t, a = table(4, 5, 3)
    t, a = data.draw(st.sampled_from([(t, a), (t.T, a.T), (t.flip(), np.flip(a)), (t[:, ::2], a[:, ::2]), (t + 0, a)]))
    axis = data.draw(st.integers(0, 2))
    i, numbers = data.draw(indices(a.shape[axis], SHAPES))
    key = (slice(None),) * axis
    if data.draw(st.booleans()):
        result, expected = t[(*key, i)], a[(*key, numbers)]
    else:
        result, expected = t.take(i, axis), np.take(a, numbers, axis)
    consumer: Callable[[Any, Any], Any] = data.draw(
        st.sampled_from(
            [
                lambda x, _: x,
                lambda x, _: x + 1,
                lambda x, _: x[..., ::-1],
                lambda x, lib: lib.exp(x) * x,
                lambda x, _: x.sum(),
                lambda x, _: x.sum(0),
                lambda x, _: x - x.sum(-1, keepdims=True),
            ]
        )
    )
    np.testing.assert_allclose(consumer(result, tx).to_numpy(), consumer(expected, np), rtol=1e-14)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_gather_accepts_every_integer_dtype(dtype: str) -> None:
    t, a = table(100)
    rng = np.random.default_rng(1)
    for count in (3, MANY_INDICES):
        numbers = rng.integers(0 if dtype[0] == "u" else -100, 100, count).astype(dtype)
        assert np.array_equal(t[tx.asarray(numbers)].to_numpy(), a[numbers])
        assert np.array_equal(t.take(numbers).to_numpy(), a[numbers])


@pytest.mark.large
@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 200])
def test_gather_kernels_of_both_back_ends_agree(count: int) -> None:
    t, _ = table(6, 40)
    rows, columns = (tx.asarray(np.random.default_rng(count).integers(-n, n, count)) for n in (6, 40))
    wide, bits = t.astype(tx.float32), t.astype(tx.uint8).realize()
    for result in (
        t[rows],
        t.T[columns],
        t[rows, columns],
        t[:, columns],
        bits[rows + 0, columns],
        wide[rows].sum(0),
        tx.softmax(wide[rows] * 2),
        tx.take_along_axis(t, rows[:, None] % 40, axis=1)[:, 0] if count == 6 else t[rows] + t[rows],
        tx.cumulative_sum(t[0][columns]),
        t[rows][:, columns],
        t.oindex[[3, 1, 0]][rows % 3],
    ):
        check(result.node, compare=close)


def test_several_index_arrays_place_their_axes_as_in_numpy() -> None:
    t, a = table(2, 3, 4, 5)
    i, j = np.array([[1], [-1]]), np.array([0, 2, -3])
    ours = tx.asarray(i), tx.asarray(j) + 0
    for key in (
        lambda i, j: (i, j),
        lambda i, j: (i, slice(None), j),
        lambda i, j: (slice(None), j, slice(1, 3), i),
        lambda i, j: (..., i, j),
        lambda i, j: (0, slice(None), None, j),
        lambda i, j: (slice(None), i, 1, j),
        lambda i, j: (True, i),
        lambda i, j: (i, [True, False, True], slice(None), 0),
    ):
        try:
            expected = a[key(i, j)]
        except IndexError:
            with pytest.raises(BadIndex):
                t[key(*ours)]
            continue
        assert np.array_equal(t[key(*ours)].to_numpy(), expected)


def test_gather_accepts_empty_indices_and_rejects_indices_into_empty_axes() -> None:
    t, a = table(3, 0, 2)
    no_indices = tx.zeros((0, 4), dtype=tx.int32)
    assert t[no_indices].shape == (0, 4, 0, 2) and t[:, no_indices].shape == (3, 0, 4, 2)
    assert t[tx.asarray([2, 0])].shape == (2, 0, 2)
    assert tx.take_along_axis(t, tx.zeros((3, 0, 2), dtype=tx.int64), axis=1).shape == (3, 0, 2)
    with pytest.raises(IndexOutOfRange, match=r"index 0 .* axis 1 of size 0"):
        t[:, tx.zeros(MANY_INDICES, dtype=tx.int64)]
    with pytest.raises(IndexOutOfRange, match=r"index 3 .* axis 0 of size 3"):
        t[tx.arange(2) + 2]
    assert t.take(tx.asarray(1), axis=0).shape == a[1].shape


def test_gather_by_a_0d_or_constant_index_equals_numpy() -> None:
    t, a = table(4, 3)
    assert np.array_equal(t.take(tx.asarray(-1), axis=0).to_numpy(), a[-1])
    assert t[tx.asarray(2)].storage is t.storage
    assert np.array_equal(t[tx.full((2, 2), 3)].to_numpy(), a[[[3, 3], [3, 3]]])


# Laziness


def test_pending_gather_ignores_later_writes() -> None:
    t, a = table(50)
    numbers = np.arange(MANY_INDICES) % 50
    i = tx.asarray(numbers)
    before, beyond = t[i] + 1, t[i + 0]
    t[7], i[0], i[1] = -1.0, 49, 999
    assert np.array_equal(before.to_numpy(), a[numbers] + 1)
    assert np.array_equal(beyond.to_numpy(), a[numbers])
    indices = np.arange(MANY_INDICES) % 50
    gathered = t[indices]
    indices[:] = 0
    assert np.array_equal(gathered.to_numpy(), t.to_numpy()[numbers])


def test_gather_reads_shared_indices_at_the_call() -> None:
    t, a = table(50)
    numbers = np.arange(MANY_INDICES) % 50
    gathered = t[tx.asarray(numbers, copy=False)]
    numbers[:] = 0
    assert np.array_equal(gathered.to_numpy(), a[np.arange(MANY_INDICES) % 50])
    numbers[5] = 50
    with pytest.raises(IndexOutOfRange, match="index 50 "):
        t[tx.asarray(numbers, copy=False)]


@pytest.mark.usefixtures("plain")
def test_gather_reuses_kernel_and_plan_for_new_indices() -> None:
    t, a = table(60)
    rng = np.random.default_rng(0)

    def doubled(count: int) -> None:
        numbers = rng.integers(-60, 60, count)
        assert np.array_equal((t[tx.asarray(numbers)] * 2).to_numpy(), a[numbers] * 2)

    doubled(11)
    doubled(MANY_INDICES)  # few may be read at once
    before = tx.compile_counts()
    for count in (11, 3, MANY_INDICES, 12):
        doubled(count)
    assert tx.compile_counts() == before


def test_gather_is_fused_into_its_reader() -> None:
    t, _ = table(40, 30)
    rows, columns = tx.asarray(np.arange(MANY_INDICES) % 40), tx.asarray(np.arange(40) % 30)
    for result in (
        t[rows] + 1,
        t[rows + 0].sum(axis=1),
        tx.softmax(t[rows]),
        t[tx.arange(40), columns].sum(),
        (t * 2)[columns, columns],
        tx.take_along_axis(t, columns[:, None], axis=1)[:, 0] - tx.logsumexp(t, axis=1),
        tx.take_along_axis(t, t.argmax(1, keepdims=True), axis=1),
    ):
        assert len(kernels_of(result)) == 1


@pytest.mark.usefixtures("plain")
def test_gather_with_several_readers_has_its_own_kernel() -> None:
    t, _ = table(1000)
    i = tx.asarray(np.arange(MANY_INDICES) % 1000)
    picked = t[i]
    assert kernels_of(picked - picked.mean())[0] == "gather"
    assert kernels_of(picked[::2] + 1)[0] == "gather"


@pytest.mark.large
@pytest.mark.parametrize("count", [1, 2, 3])
def test_gather_is_correct_on_any_number_of_threads(count: int, threads: Callable[[int], None]) -> None:
    threads(count)
    n = 1 << 20
    numbers = np.random.default_rng(3).integers(-n, n, n)
    a = np.arange(n, dtype=np.float32)
    t, i = tx.asarray(a), tx.asarray(numbers)
    assert np.array_equal((t[i] + 1).to_numpy(), a[numbers] + 1)
    i[n - 1] = n
    with pytest.raises(IndexOutOfRange, match=f"indexing: index {n} is out of range for axis 0 of size {n}"):
        (t[i] + 1).realize()


# Out of range

WRONG = {
    "past the end": ("int64", 50),
    "far past the end": ("int64", 2**63 - 1),
    "before the start": ("int64", -51),
    "the least of all": ("int64", -(2**63)),
    "a byte": ("uint8", 255),
    "a signed byte": ("int8", -128),
    "what is negative as a signed number": ("uint64", 2**64 - 1),
    "half of that": ("uint64", 2**63),
}


@pytest.mark.parametrize(("wrong", "count"), list(product(WRONG, (5, MANY_INDICES))))
def test_out_of_range_error_names_index_axis_and_size(wrong: str, count: int) -> None:
    t, _ = table(2, 50)
    dtype, bad = WRONG[wrong]
    numbers = np.zeros(count, dtype)
    numbers[count // 2] = bad
    i = tx.asarray(numbers)
    calls: dict[str, Callable[[], Any]] = {
        "indexing": lambda: t[:, i],
        "take": lambda: t.take(i, axis=1),
        "take_along_axis": lambda: tx.take_along_axis(t, i[None], axis=1),
    }
    for op, call in calls.items():
        message = rf"{op}: index {bad} is out of range for axis 1 of size 50"
        if count <= MAX_EAGER_INDEX_CHECKS:
            with pytest.raises(IndexOutOfRange, match=message):
                call()
        else:
            lazy = call()
            for _ in range(2):  # the error is raised for every evaluation
                with pytest.raises(IndexOutOfRange, match=message):
                    lazy.tolist()
            with pytest.raises(IndexOutOfRange, match=message):
                (lazy[:, :1] * 2).realize()
            with pytest.raises(IndexOutOfRange, match=message):
                lazy.sum().item()
    assert t[:, [0, 49]].shape == (2, 2)


def test_pending_out_of_range_indices_raise_at_evaluation() -> None:
    t, _ = table(4, 6)
    i = tx.asarray([0, 1, 2]) * 3
    with pytest.raises(IndexOutOfRange, match="indexing: index 6 is out of range for axis 1 of size 6"):
        t[1:3, i].sum().item()
    with pytest.raises(IndexOutOfRange, match="indexing: index -7 is out of range for axis 1 of size 6"):
        t[tx.asarray([1, 2, 0]), -i - 1].tolist()
    assert t[:, i - 1].shape == (4, 3)


def test_gather_kernels_never_read_outside_of_memory() -> None:
    t, _ = table(3, 33)
    for count in (1, 8, 70):
        numbers = np.random.default_rng(count).integers(-(2**62), 2**62, count)
        i, tall = tx.asarray(numbers) + 0, tx.asarray(numbers[:, None]) + 0
        for result in (
            t[0][i],
            t[:, i],
            t[i],
            tx.take_along_axis(t[:1], tall, axis=1) if count == 1 else t.T[i],
            t[i, i],
            t[0][i].sum(),
        ):
            root = result.node
            nodes = fuse(collect_pending([root]), [root], current())
            for node in nodes[:-1]:
                check(node)
            kernel, binding = lower(root, {root}, current())
            wanted, flag = flagged(root, kernel, binding)
            assert flag == 1
            assert emitted(root, kernel, binding, flag=flag).tobytes() == wanted.tobytes()


def test_failed_gather_leaves_the_target_unchanged() -> None:
    t, _ = table(9)
    i = tx.asarray(np.full(MANY_INDICES, 9))
    y = tx.arange(MANY_INDICES + 2).astype(tx.float64).realize()
    with pytest.raises(IndexOutOfRange):
        y[1:-1] = t[i]
    with pytest.raises(IndexOutOfRange):
        y[1:-1] += t[i] * 2
    assert np.array_equal(y.to_numpy(), np.arange(MANY_INDICES + 2))


def test_out_of_range_error_names_the_right_one_of_several_gathers() -> None:
    t, _ = table(3, 4)
    good, bad = tx.asarray(np.zeros(MANY_INDICES, int)), tx.asarray(np.full(MANY_INDICES, 3))
    with pytest.raises(IndexOutOfRange, match="index 3 is out of range for axis 0 of size 3"):
        (t[good, bad] + t[bad, good]).realize()
    assert (t[good, bad]).sum().item() == MANY_INDICES * t[0, 3].item()


# Reductions of reductions


@pytest.mark.large
def test_row_reductions_of_a_loss_share_a_parallel_kernel() -> None:
    x = tx.ones((600, 600), dtype=tx.float32).realize()
    target = tx.zeros(600, dtype=tx.int64).realize()
    loss = tx.mean(tx.logsumexp(x, axis=1) - x[tx.arange(600), target])
    assert [kernel.shared_axis >= 0 for _, kernel in preview_kernels([loss.node]) if kernel is not None] == [True, False]
    assert abs(loss.item() - np.log(600)) < 1e-5
    small = tx.ones((6, 6)).realize()
    assert len(kernels_of(tx.mean(tx.logsumexp(small, axis=1)))) == 2  # few, too: each loop has lanes


@pytest.mark.parametrize("shape", [(2, 0), (0,), (0, 3)])
def test_reversed_index_without_elements_selects_nothing(shape: tuple[int, ...]) -> None:
    index = tx.asarray(np.zeros(shape, np.int8)).realize().flip()
    array = np.arange(12).reshape(3, 4)
    t = tx.asarray(array).realize()
    assert t[index].shape == array[np.zeros(shape, int)].shape
    assert t[:, index].shape == array[:, np.zeros(shape, int)].shape
    t[index] = 7
    assert t.tolist() == array.tolist()
