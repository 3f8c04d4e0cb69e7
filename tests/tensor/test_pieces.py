"""Many tensors and arrays made one: the same as NumPy makes of the same elements, whatever they are and wherever they lie."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenxor as tx
from tenxor import memory
from tenxor.dtypes import ALL
from tenxor.plans import plan
from tenxor.pool import pool
from tenxor.tensor import pieces

Array = np.ndarray[Any, Any]

# Each makes a tensor and an array of the shape asked for, with the elements of an array of that shape.
LYING: dict[str, Callable[[Array, tx.DType], tx.Tensor | Array]] = {
    "in order": lambda a, d: tensor(a, d),
    "within more": lambda a, d: tensor(np.stack([a, a, a]), d)[1],
    "backwards": lambda a, d: tensor(a[::-1], d)[::-1],
    "in other order": lambda a, d: tensor(a.T, d).T,
    "in steps": lambda a, d: tensor(np.repeat(a, 3, axis=-1), d)[..., ::3],
    "gathered": lambda a, d: tensor(a[[1, 0, *range(2, len(a))]] if len(a) > 1 else a, d).oindex[
        [1, 0, *range(2, len(a))] if len(a) > 1 else [0] * len(a)
    ],
    "a chain": lambda a, d: (
        tensor(a.reshape(-1, len(a) or 1), d).T.reshape(-1).reshape(a.shape[::-1]).T
        if a.size and a.ndim == 1
        else tensor(a, d)
    ),
    "pending": lambda a, d: tensor(a, d) if d is tx.bool else tensor(a, d) * 1,
    "written": lambda a, d: written(a, d),
    "an array": lambda a, d: tensor(a, d) if d is tx.bfloat16 else a.astype(d.numpy),
    "of another byte order": lambda a, d: tensor(a, d) if d is tx.bfloat16 else a.astype(d.numpy.newbyteorder(">")),
    "shared": lambda a, d: tensor(a, d) if d is tx.bfloat16 else tx.asarray(a.astype(d.numpy), copy=False),
}


def tensor(a: Array, dtype: tx.DType) -> tx.Tensor:
    return tx.asarray(np.ascontiguousarray(a), dtype=dtype).realize()


def written(a: Array, dtype: tx.DType) -> tx.Tensor:
    found = tx.empty(a.shape, dtype=dtype)
    found[...] = tensor(a, dtype)
    return found


@st.composite
def joins(draw: st.DrawFn) -> tuple[list[tx.Tensor | Array], list[Array], int | None]:
    """Pieces, the same as arrays, and an axis along which their sizes differ."""
    ndim = draw(st.integers(1, 3))
    axis = draw(st.integers(-ndim, ndim - 1) | st.none())
    shape = [draw(st.integers(1, 3)) for _ in range(ndim)]
    dtypes = draw(st.lists(st.sampled_from(ALL), min_size=1, max_size=2))
    ways = draw(st.lists(st.sampled_from(sorted(LYING)), min_size=1, max_size=3))
    count = draw(st.sampled_from([1, 2, 5, 17, 40, 300]))
    parts, arrays = [], []
    for k in range(count):
        own = list(shape)
        own[axis or 0] = draw(st.integers(0, 4)) if k < 5 else k % 3
        elements = (np.arange(np.prod(own)).reshape(own) + k) % 5
        dtype, way = dtypes[k % len(dtypes)], ways[k % len(ways)]
        if dtype is tx.bool:
            elements = elements % 2
        parts.append(LYING[way](elements, dtype))
        arrays.append(elements)
    return parts, arrays, axis


@given(joins())
def test_what_is_joined_is_what_numpy_joins(case: tuple[list[tx.Tensor | Array], list[Array], int | None]) -> None:
    parts, arrays, axis = case
    dtypes = {tx.asarray(p).dtype for p in parts}
    if tx.uint64 in dtypes and any(d.kind == "int" for d in dtypes):
        with pytest.raises(tx.errors.DTypeError, match="no common dtype"):
            tx.concat(parts, axis=axis)  # type: ignore[arg-type]
        return
    found = tx.concat(parts, axis=axis)  # type: ignore[arg-type]
    expected = np.concatenate(arrays, axis=axis)
    assert found.dtype is tx.result_type(*dtypes)
    assert found.shape == expected.shape and found.is_contiguous()
    assert found.tolist() == expected.tolist()
    same = [k for k, a in enumerate(arrays) if a.shape == arrays[0].shape]
    for place in range(-arrays[0].ndim - 1, arrays[0].ndim + 1):
        stacked = tx.stack([parts[k] for k in same], axis=place)  # type: ignore[misc]
        assert stacked.tolist() == np.stack([arrays[k] for k in same], axis=place).tolist()
    if arrays[0].size:
        listed = tx.asarray([parts[k] for k in same])
        assert listed.tolist() == np.stack([arrays[k] for k in same]).tolist()
        assert listed.dtype is tx.result_type(*(tx.asarray(parts[k]).dtype for k in same))


@pytest.mark.parametrize("one", ALL, ids=str)
def test_every_two_dtypes(one: tx.DType) -> None:
    for other in ALL:
        rows = [tx.asarray([0, 1, 1]).astype(one if k % 2 else other).realize() for k in range(20)]
        if {one.kind, other.kind} == {"int", "uint"} and tx.uint64 in (one, other):
            with pytest.raises(tx.errors.DTypeError, match="no common dtype"):
                tx.stack(rows)
            continue
        for found in (tx.stack(rows), tx.stack(rows, axis=1).T, tx.concat(rows).reshape(20, 3), tx.asarray(rows)):
            assert found.dtype is tx.result_type(one, other)
            assert found.tolist() == [[0, 1, 1]] * 20


@pytest.mark.parametrize("shape", [(3, 3), (2, 2), (3,), (1, 2, 3), (3, 2)])
def test_one_of_many_that_does_not_fit_is_named(shape: tuple[int, ...]) -> None:
    rows = [tx.zeros((2, 3)).realize()] * 20
    parts = [*rows, tx.zeros(shape).realize(), *rows]
    for join in (tx.stack, tx.concat):
        if join is tx.concat and shape == (3, 3):
            assert tx.concat(parts).shape == (83, 3)
            continue
        with pytest.raises(
            tx.errors.ShapeError, match=rf"{join.__name__}: tensor 20 has shape {re.escape(str(shape))}"
        ):
            join(parts)
    part_of_more = tx.asarray(np.arange(12.0).reshape(4, 3))[:, :2]  # its rows are as far apart as those of the others
    with pytest.raises(tx.errors.ShapeError, match="concat: tensor 20"):
        tx.concat([*rows, part_of_more])


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("axis", [0, -1])
def test_scalars_are_stacked(dtype: tx.DType, axis: int) -> None:
    row = tx.asarray([0, 1] * 20).astype(dtype)
    points = [*tx.unstack(row), *(row[k] for k in range(40))]
    assert tx.stack(points, axis=axis).tolist() == row.tolist() * 2
    assert tx.asarray([points]).tolist() == [row.tolist() * 2]
    assert tx.asarray(points).dtype is dtype


@pytest.mark.parametrize("count", [2, 40])
def test_what_was_joined_keeps_its_elements(count: int) -> None:
    mine = tx.arange(4.0).realize()
    theirs = np.arange(4.0)
    shared = tx.asarray(theirs, copy=False)
    for join in (tx.concat, tx.stack, tx.asarray):
        for piece in (mine, shared, theirs):
            found = join([piece] * count)  # type: ignore[operator]
            before = np.asarray(piece).tolist()
            mine[0] += 1
            theirs[0] += 1
            assert found.reshape(count, 4).tolist() == [before] * count
            found[...] = -1
            assert np.asarray(piece).tolist() == [before[0] + 1, *before[1:]]


def test_rows_of_one_tensor_are_read_before_it_is_written() -> None:
    t = tx.arange(60).reshape(30, 2).realize()
    t[...] = tx.stack(t.unstack()[::-1])
    assert t.tolist() == np.arange(60).reshape(30, 2)[::-1].tolist()


def test_new_counts_and_sizes_need_no_plan() -> None:
    plans = sys.modules["tenxor.realize"]._plans
    before = len(plans)
    for count in range(2, 60):
        rows = [tx.asarray(np.full(count, k, np.float32)) for k in range(count)]
        expected = np.arange(count, dtype=np.float32)[:, None].repeat(count, 1)
        for found in (tx.stack(rows), tx.concat(rows).reshape(count, count), tx.stack(rows, 1).T, tx.asarray(rows)):
            assert np.array_equal(found.to_numpy(), expected)
    assert len(plans) == before


@pytest.mark.parametrize("join", [tx.concat, tx.stack, tx.asarray])
def test_pending_pieces_that_are_alike_need_one_plan(
    join: Callable[[Any], tx.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    make = plan.make_plan
    monkeypatch.setattr(plan, "make_plan", lambda *given: made.append(1) or make(*given))
    base = [tx.asarray(np.full(3, k)) for k in range(50)]
    found = join([b * 17 - 4 for b in base])
    assert found.reshape(50, 3).tolist() == [[17 * k - 4] * 3 for k in range(50)]
    assert len(made) <= 1


@pytest.mark.large
def test_large_pieces_are_left_to_kernels() -> None:
    piece = tx.ones(pieces.LARGE // 8).realize()
    found = tx.stack([piece, piece])
    assert found.storage.node.buffer is None
    assert found.sum().item() == 2 * piece.size


@pytest.mark.large
def test_a_large_piece_without_strides_among_small_ones() -> None:
    array = np.arange(6.0 * pieces.SPARSE).reshape(3, -1)
    piece = tx.asarray(array).T.reshape(2, -1).reshape(-1)[::-1]
    expected = array.T.reshape(-1)[::-1]
    small = tx.zeros(2).realize()
    found = tx.concat([small] * 20 + [piece] + [small] * 20)
    assert np.array_equal(found.to_numpy(), np.concatenate([np.zeros(40), expected, np.zeros(40)]))
    pairs = [(piece + k, expected + k) for k in range(4)]
    views = [t.reshape(2, -1, 3).swapaxes(1, 2).reshape(-1) for t, _ in pairs]
    wanted = [a.reshape(2, -1, 3).swapaxes(1, 2).reshape(-1) for _, a in pairs]
    assert np.array_equal(tx.asarray(views).to_numpy(), np.stack(wanted))


@pytest.fixture
def _limited() -> Iterator[None]:
    pool.release(pool.pooled)
    yield
    tx.set_memory_limit(None)


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize(("name", "join"), [("concat", tx.concat), ("stack", tx.stack), ("asarray", tx.asarray)])
def test_out_of_memory_names_what_wanted_it(name: str, join: Callable[[Any], tx.Tensor]) -> None:
    rows = [tx.asarray(np.full(1000, float(k))) for k in range(100)]
    before = memory().in_use
    tx.set_memory_limit(before + 100_000)
    shape = r"\(100000,\)" if name == "concat" else r"\(100, 1000\)"
    with pytest.raises(MemoryError, match=rf"^{name}: no memory for {shape} float64, 800000 bytes"):
        join(rows)
    assert memory().in_use == before
    assert [r[0].item() for r in rows] == list(range(100))
    with pytest.raises(MemoryError, match=r"elements|no memory"):
        join([tx.zeros(1).expand(1 << 50)] * 1000)
