"""Joins of many tensors and arrays equal NumPy's joins of the same elements, for every dtype and layout."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenxor as tx
from tenxor import memory
from tenxor.dtypes import ALL_DTYPES
from tenxor.memory.block_pool import pool
from tenxor.runtime import generic_plans
from tenxor.tensor import join_equal_pieces, join_pieces

Array = np.ndarray[Any, Any]

# Each function makes a tensor or an array with the elements of an array, stored in a different way.
PIECE_MAKERS: dict[str, Callable[[Array, tx.DType], tx.Tensor | Array]] = {
    "in order": lambda a, d: tensor(a, d),
    "within more": lambda a, d: tensor(np.stack([a, a, a]), d)[1],
    "backwards": lambda a, d: tensor(a[::-1], d)[::-1],
    "in other order": lambda a, d: tensor(a.T, d).T,
    "in steps": lambda a, d: tensor(np.repeat(a, 3, axis=-1), d)[..., ::3],
    "gathered": lambda a, d: tensor(a[[1, 0, *range(2, len(a))]] if len(a) > 1 else a, d).oindex[
        [1, 0, *range(2, len(a))] if len(a) > 1 else [0] * len(a)
    ],
    "a chain": lambda a, d: (
        tensor(a.reshape(-1, len(a) or 1), d).T.reshape(-1).reshape(a.shape[::-1]).T if a.size and a.ndim == 1 else tensor(a, d)
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
    result = tx.empty(a.shape, dtype=dtype)
    result[...] = tensor(a, dtype)
    return result


@st.composite
def joins(draw: st.DrawFn) -> tuple[list[tx.Tensor | Array], list[Array], int | None]:
    """Draw pieces, arrays with the same elements, and an axis along which their sizes differ."""
    ndim = draw(st.integers(1, 3))
    axis = draw(st.integers(-ndim, ndim - 1) | st.none())
    shape = [draw(st.integers(1, 3)) for _ in range(ndim)]
    dtypes = draw(st.lists(st.sampled_from(ALL_DTYPES), min_size=1, max_size=2))
    ways = draw(st.lists(st.sampled_from(sorted(PIECE_MAKERS)), min_size=1, max_size=3))
    count = draw(st.sampled_from([1, 2, 5, 17, 40, 300]))
    pieces, arrays = [], []
    for k in range(count):
        piece_shape = list(shape)
        piece_shape[axis or 0] = draw(st.integers(0, 4)) if k < 5 else k % 3
        elements = (np.arange(np.prod(piece_shape)).reshape(piece_shape) + k) % 5
        dtype, way = dtypes[k % len(dtypes)], ways[k % len(ways)]
        if dtype is tx.bool:
            elements = elements % 2
        pieces.append(PIECE_MAKERS[way](elements, dtype))
        arrays.append(elements)
    return pieces, arrays, axis


@given(joins())
def test_joins_of_any_pieces_equal_numpy(case: tuple[list[tx.Tensor | Array], list[Array], int | None]) -> None:
    pieces, arrays, axis = case
    dtypes = {tx.asarray(p).dtype for p in pieces}
    if tx.uint64 in dtypes and any(d.kind == "int" for d in dtypes):
        with pytest.raises(tx.errors.DTypeError, match="no common dtype"):
            tx.concat(pieces, axis=axis)  # type: ignore[arg-type]
        return
    result = tx.concat(pieces, axis=axis)  # type: ignore[arg-type]
    expected = np.concatenate(arrays, axis=axis)
    assert result.dtype is tx.result_type(*dtypes)
    assert result.shape == expected.shape and result.is_contiguous()
    assert result.tolist() == expected.tolist()
    same_shape = [k for k, a in enumerate(arrays) if a.shape == arrays[0].shape]
    for stack_axis in range(-arrays[0].ndim - 1, arrays[0].ndim + 1):
        stacked = tx.stack([pieces[k] for k in same_shape], axis=stack_axis)  # type: ignore[misc]
        assert stacked.tolist() == np.stack([arrays[k] for k in same_shape], axis=stack_axis).tolist()
    if arrays[0].size:
        listed = tx.asarray([pieces[k] for k in same_shape])
        assert listed.tolist() == np.stack([arrays[k] for k in same_shape]).tolist()
        assert listed.dtype is tx.result_type(*(tx.asarray(pieces[k]).dtype for k in same_shape))


@pytest.mark.parametrize("first", ALL_DTYPES, ids=str)
def test_joins_promote_every_pair_of_dtypes(first: tx.DType) -> None:
    for second in ALL_DTYPES:
        rows = [tx.asarray([0, 1, 1]).astype(first if k % 2 else second).realize() for k in range(20)]
        if {first.kind, second.kind} == {"int", "uint"} and tx.uint64 in (first, second):
            with pytest.raises(tx.errors.DTypeError, match="no common dtype"):
                tx.stack(rows)
            continue
        for result in (tx.stack(rows), tx.stack(rows, axis=1).T, tx.concat(rows).reshape(20, 3), tx.asarray(rows)):
            assert result.dtype is tx.result_type(first, second)
            assert result.tolist() == [[0, 1, 1]] * 20


@pytest.mark.parametrize("shape", [(3, 3), (2, 2), (3,), (1, 2, 3), (3, 2)])
def test_join_error_names_the_piece_that_does_not_fit(shape: tuple[int, ...]) -> None:
    rows = [tx.zeros((2, 3)).realize()] * 20
    tensors = [*rows, tx.zeros(shape).realize(), *rows]
    for join in (tx.stack, tx.concat):
        if join is tx.concat and shape == (3, 3):
            assert tx.concat(tensors).shape == (83, 3)
            continue
        with pytest.raises(tx.errors.ShapeError, match=rf"{join.__name__}: tensor 20 has shape {re.escape(str(shape))}"):
            join(tensors)
    part_of_more = tx.asarray(np.arange(12.0).reshape(4, 3))[:, :2]  # its row stride equals the row stride of the other pieces
    with pytest.raises(tx.errors.ShapeError, match="concat: tensor 20"):
        tx.concat([*rows, part_of_more])


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("axis", [0, -1])
def test_stack_of_scalars_of_every_dtype_keeps_their_values(dtype: tx.DType, axis: int) -> None:
    row = tx.asarray([0, 1] * 20).astype(dtype)
    points = [*tx.unstack(row), *(row[k] for k in range(40))]
    assert tx.stack(points, axis=axis).tolist() == row.tolist() * 2
    assert tx.asarray([points]).tolist() == [row.tolist() * 2]
    assert tx.asarray(points).dtype is dtype


@pytest.mark.parametrize("count", [2, 40])
def test_joined_tensor_is_independent_of_its_pieces(count: int) -> None:
    mine = tx.arange(4.0).realize()
    theirs = np.arange(4.0)
    shared = tx.asarray(theirs, copy=False)
    for join in (tx.concat, tx.stack, tx.asarray):
        for piece in (mine, shared, theirs):
            result = join([piece] * count)  # type: ignore[operator]
            before = np.asarray(piece).tolist()
            mine[0] += 1
            theirs[0] += 1
            assert result.reshape(count, 4).tolist() == [before] * count
            result[...] = -1
            assert np.asarray(piece).tolist() == [before[0] + 1, *before[1:]]


def test_stacked_rows_are_read_before_their_source_is_overwritten() -> None:
    t = tx.arange(60).reshape(30, 2).realize()
    t[...] = tx.stack(t.unstack()[::-1])
    assert t.tolist() == np.arange(60).reshape(30, 2)[::-1].tolist()


def test_joins_of_new_counts_and_sizes_need_no_plan() -> None:
    plans = sys.modules["tenxor.runtime.realize"]._plans
    before = len(plans)
    for count in range(2, 60):
        rows = [tx.asarray(np.full(count, k, np.float32)) for k in range(count)]
        expected = np.arange(count, dtype=np.float32)[:, None].repeat(count, 1)
        for result in (tx.stack(rows), tx.concat(rows).reshape(count, count), tx.stack(rows, 1).T, tx.asarray(rows)):
            assert np.array_equal(result.to_numpy(), expected)
    assert len(plans) == before


@pytest.mark.parametrize("join", [tx.concat, tx.stack, tx.asarray])
def test_equal_pending_pieces_share_one_plan(join: Callable[[Any], tx.Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    plan_calls = []
    make, lazy_functions = generic_plans.make_plan, sys.modules["tenxor.runtime.realize"].generic_plans
    monkeypatch.setattr(lazy_functions, "make_plan", lambda *arguments: plan_calls.append(1) or make(*arguments), raising=False)
    base = [tx.asarray(np.full(3, k)) for k in range(50)]
    result = join([b * 17 - 4 for b in base])
    assert result.reshape(50, 3).tolist() == [[17 * k - 4] * 3 for k in range(50)]
    assert len(plan_calls) <= 1


@pytest.mark.large
def test_large_pieces_are_joined_by_pending_kernels() -> None:
    piece = tx.ones(join_pieces.PARALLEL_COPY_BYTES // 8).realize()
    result = tx.stack([piece, piece])
    assert result.storage.node.buffer is None
    assert result.sum().item() == 2 * piece.size


@pytest.mark.large
def test_concat_of_a_large_gathered_piece_among_small_pieces_equals_numpy() -> None:
    array = np.arange(6.0 * join_pieces.MAX_OFFSET_READS).reshape(3, -1)
    piece = tx.asarray(array).T.reshape(2, -1).reshape(-1)[::-1]
    expected = array.T.reshape(-1)[::-1]
    small = tx.zeros(2).realize()
    result = tx.concat([small] * 20 + [piece] + [small] * 20)
    assert np.array_equal(result.to_numpy(), np.concatenate([np.zeros(40), expected, np.zeros(40)]))
    pairs = [(piece + k, expected + k) for k in range(4)]
    views = [t.reshape(2, -1, 3).swapaxes(1, 2).reshape(-1) for t, _ in pairs]
    wanted = [a.reshape(2, -1, 3).swapaxes(1, 2).reshape(-1) for _, a in pairs]
    assert np.array_equal(tx.asarray(views).to_numpy(), np.stack(wanted))


@pytest.fixture
def _memory_limit() -> Iterator[None]:
    pool.release(pool.pooled)
    yield
    tx.set_memory_limit(None)


@pytest.mark.usefixtures("_memory_limit")
@pytest.mark.parametrize(("name", "join"), [("concat", tx.concat), ("stack", tx.stack), ("asarray", tx.asarray)])
def test_out_of_memory_error_names_the_join(name: str, join: Callable[[Any], tx.Tensor]) -> None:
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


class TestEqualPieces:
    """Equal pieces are joined as bytes, without a look at each piece."""

    @pytest.fixture(autouse=True)
    def forbid_single_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise AssertionError("each piece was looked at")

        monkeypatch.setattr(join_pieces, "_as_arrays", fail)

    @pytest.mark.parametrize("way", ["in order", "backwards", "in other order", "in steps", "written", "an array", "shared"])
    @pytest.mark.parametrize("portion", [1 << 20, 1000])
    def test_joins_of_pieces_in_any_memory_order_equal_numpy(self, way: str, portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(join_equal_pieces, "CHUNK_BYTES", portion)
        for dtype in ALL_DTYPES:
            for shape in ((5,), (2, 3), (3, 1, 2)):
                highest = 2 if dtype is tx.bool else 7
                arrays = [(np.arange(prod(shape)).reshape(shape) + k) % highest for k in range(60)]
                tensors: Any = [PIECE_MAKERS[way](a, dtype) for a in arrays]
                if way != "an array":
                    tensors = [p.realize() for p in tensors]
                for axis in range(len(shape)):
                    result = tx.concat(tensors, axis=axis)
                    assert result.dtype is dtype and result.is_contiguous()
                    assert np.array_equal(result.to_numpy(), np.concatenate(arrays, axis))
                for axis in range(len(shape) + 1):
                    result = tx.stack(tensors, axis=axis)
                    assert result.dtype is dtype and result.is_contiguous()
                    assert np.array_equal(result.to_numpy(), np.stack(arrays, axis))
                assert np.array_equal(tx.concat(tensors, axis=None).to_numpy(), np.concatenate(arrays, None))
                nested = tx.asarray([tensors[:30], tensors[30:]])
                assert nested.dtype is dtype and nested.tolist() == np.stack(arrays).reshape(2, 30, *shape).tolist()
                wanted = tx.complex128 if dtype.is_complex else tx.float64
                assert tx.asarray(tensors, dtype=wanted).tolist() == np.stack(arrays).tolist()

    def test_joins_of_scalars_of_every_dtype_keep_values_and_dtype(self) -> None:
        for dtype in ALL_DTYPES:
            row = tx.asarray([0, 1, 1] * 10).astype(dtype).realize()
            separate = [tx.asarray(k % 3 > 0).astype(dtype).realize() for k in range(30)]
            for points in ([row[k] for k in range(30)], separate):
                assert tx.stack(points).tolist() == tx.asarray(points).tolist() == row.tolist()
                assert tx.stack(points).dtype is dtype
                assert tx.concat(points, axis=None).tolist() == row.tolist()
                assert all(t.storage.node is not None for t in points)
        zeros = [np.asarray(float(k)) for k in range(30)]
        assert tx.asarray(zeros).tolist() == tx.stack(zeros).tolist() == list(range(30))  # type: ignore[arg-type]

    def test_joins_of_rows_of_one_tensor_equal_numpy(self) -> None:
        x = np.arange(600.0).reshape(60, 10)
        t = tx.asarray(x).realize()
        for order in (range(60), range(59, -1, -1), [*range(30), *range(10), 7, 7, 8]):
            rows = [t[k] for k in order]
            assert np.array_equal(tx.stack(rows).to_numpy(), x[list(order)])
            assert np.array_equal(tx.concat(rows).to_numpy(), x[list(order)].ravel())
        several = [slice(k, k + 1 + k % 3) for k in range(0, 50, 2)]
        assert np.array_equal(tx.concat([t[k] for k in several]).to_numpy(), np.concatenate([x[k] for k in several]))

    @pytest.mark.parametrize("portion", [1 << 20, 1000])
    def test_joins_of_views_of_one_tensor_equal_numpy(self, portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(join_equal_pieces, "CHUNK_BYTES", portion)
        for dtype in ALL_DTYPES:
            x = np.arange(600).reshape(60, 10) % (2 if dtype is tx.bool else 100)
            t = tx.asarray(x).astype(dtype).realize()
            for view in (
                lambda a, k: a[k, ::-1],
                lambda a, k: a[::-1][:, k % 10],
                lambda a, k: a[k : k + 3, 2:5].T,
                lambda a, k: a[57 - k : 60 - k][::-1, ::-2],
                lambda a, k: a[k % 10 : 50 + k % 10 : 10, 9:],
                lambda a, _: a[59, 5:],
            ):
                views, arrays = [view(t, k) for k in range(57)], [view(x, k) for k in range(57)]
                for axis in range(arrays[0].ndim):
                    assert np.array_equal(tx.concat(views, axis=axis).to_numpy(), np.concatenate(arrays, axis))
                    assert np.array_equal(tx.stack(views, axis=axis).to_numpy(), np.stack(arrays, axis))
                assert tx.asarray(views).tolist() == np.stack(arrays).tolist()
                assert tx.asarray(views).dtype is dtype

    def test_concat_of_many_arrays_of_different_lengths_equals_numpy_or_raises(self) -> None:
        arrays = [np.arange(12.0).reshape(3, 4)[: 1 + k % 3, ::-1] + k for k in range(40)]
        for axis in (0, None):
            result = tx.concat(arrays, axis=axis)  # type: ignore[arg-type]
            assert result.is_contiguous() and np.array_equal(result.to_numpy(), np.concatenate(arrays, axis))
        turned = [a.T for a in arrays]
        assert np.array_equal(tx.concat(turned, axis=1).to_numpy(), np.concatenate(turned, 1))  # type: ignore[arg-type]
        for wrong in (np.zeros((2, 5)), np.zeros((1, 10)), np.zeros(4), np.zeros((1, 2, 4))):
            with pytest.raises(tx.errors.ShapeError, match="concat: tensor 40"):
                tx.concat([*arrays, wrong, wrong])  # type: ignore[list-item]

    def test_pieces_in_blocks_of_different_sizes_are_joined_exactly(self) -> None:
        arrays = [np.arange(12.0) + k for k in range(40)]
        tensors = [tx.asarray(np.concatenate([a, np.full(k % 3 * 8, -1.0)]))[:12] for k, a in enumerate(arrays)]
        tensors = [p if k % 2 else tx.asarray(a) for k, (p, a) in enumerate(zip(tensors, arrays, strict=True))]
        assert np.array_equal(tx.stack(tensors).to_numpy(), np.stack(arrays))
        assert np.array_equal(tx.asarray(tensors).to_numpy(), np.stack(arrays))


def test_joins_read_the_present_values_of_elements() -> None:
    row = tx.arange(30.0).realize()
    points = [row[k] for k in range(30)]
    points[3] += 100
    reinterpreted = [t.view(tx.int64) for t in points]
    points[4] *= 2
    assert tx.asarray(points).tolist() == [0, 1, 2, 103, 8, *range(5, 30)]
    assert tx.stack(reinterpreted).tolist() == np.array([0, 1, 2, 103, 8, *range(5, 30)], np.float64).view(np.int64).tolist()


def test_joins_of_equal_pieces_with_one_exception_equal_numpy() -> None:
    equal_pieces = [tx.asarray(np.arange(6.0) + k) for k in range(40)]
    exceptions = {
        "pending": lambda: tx.arange(6.0) * 2,
        "of another dtype": lambda: tx.asarray(np.arange(6, dtype=np.float32) * 2),
        "seen as another dtype": lambda: (tx.asarray(np.arange(6) * 2.0).view(tx.int64) + 0).view(tx.float64),
        "backwards": lambda: tx.asarray(np.arange(6.0)[::-1] * 2)[::-1],
        "of more": lambda: tx.asarray(np.arange(600.0) * 2)[:6],
        "an array": lambda: np.arange(6.0) * 2,
    }
    for make in exceptions.values():
        for position in (0, 1, 20, 40):
            mixed_pieces: Any = [*equal_pieces[:position], make(), *equal_pieces[position:]]
            expected = np.stack([np.asarray(p) for p in mixed_pieces])
            for result in (tx.stack(mixed_pieces), tx.stack(mixed_pieces, axis=1).T, tx.asarray(mixed_pieces), tx.concat(mixed_pieces)):
                assert np.array_equal(result.to_numpy().reshape(41, 6), expected)
    with pytest.raises(tx.errors.ShapeError, match="stack: tensor 20"):
        tx.stack([*map(np.asarray, equal_pieces[:20]), np.arange(5.0), np.arange(6.0)])  # type: ignore[list-item]
    ints = [np.arange(3)] * 20
    assert tx.stack([*ints, np.arange(3, dtype=np.uint8)]).dtype is tx.int64  # type: ignore[list-item]
    with pytest.raises(tx.errors.DTypeError, match="no common dtype"):
        tx.stack([*ints, np.arange(3, dtype=np.uint64)])  # type: ignore[list-item]
