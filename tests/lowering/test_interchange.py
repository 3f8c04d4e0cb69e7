"""The loops over columns and rows: blocks, rows of states, row buffers, prefetches and non-temporal stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen import backend
from tenxor.layout import Layout
from tenxor.lowering.cpu.interchange import ROWS_PER_CHUNK
from tenxor.lowering.cpu.prefetch_rows import REPEAT_FACTOR
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import For, Init, Kernel, Load, Prefetch, RowLoad, RowStore, Statement, Store, iterate_expressions, walk
from tenxor.runtime.planner import preview_kernels
from tenxor.tensor import Tensor
from tests.machines import tune

from .helpers import TARGET

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

BLOCK_COLUMNS, SHORT_ROW_COLUMNS, NARROW_COLUMNS = (
    TARGET.loops.block_columns,
    TARGET.loops.max_short_row_columns,
    TARGET.loops.reread_block_columns,
)
MAX_ROW_ELEMENTS, MAX_BUFFER_BYTES = TARGET.loops.max_row_buffer_elements, TARGET.loops.max_row_buffer_bytes

S = TypeVar("S")


def ones(*shape: int, dtype: object = tx.float32) -> Tensor:
    return tx.ones(shape, dtype=dtype).realize()


def kernels_of(t: Tensor) -> list[Kernel]:
    return [kernel for _, kernel in preview_kernels([t.storage.node]) if kernel is not None]


def kernel_of(t: Tensor) -> Kernel:
    (kernel,) = kernels_of(t)
    return kernel


def walk_statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    for s in body:
        yield s
        if isinstance(s, For):
            yield from walk_statements(s.body)


def statements_of(kernel: Kernel, kind: type[S]) -> list[S]:
    return [s for s in walk_statements(kernel.body) if isinstance(s, kind)]


def blocks(kernel: Kernel) -> list[int]:
    return [s.block for s in statements_of(kernel, For) if s.block]


class TestColumns:
    @pytest.mark.parametrize("name", ["sum", "max", "prod", "any", "argmax"])
    def test_column_reduction_keeps_a_row_of_accumulators(self, name: str) -> None:
        kernel = kernel_of(getattr(tx, name)(ones(ROWS_PER_CHUNK + 1, 30), axis=0))
        (outer,) = kernel.body
        assert isinstance(outer, For) and outer.block == SHORT_ROW_COLUMNS and kernel.shared_axis >= 0
        assert [f.row_axis for f in kernel.accumulators] == [outer.axis]
        assert blocks(kernel) == [SHORT_ROW_COLUMNS, ROWS_PER_CHUNK]

    def test_long_rows_use_wide_blocks(self) -> None:
        assert blocks(kernel_of(ones(20, SHORT_ROW_COLUMNS).sum(axis=0))) == [SHORT_ROW_COLUMNS, ROWS_PER_CHUNK]
        assert blocks(kernel_of(ones(20, SHORT_ROW_COLUMNS + 1).sum(axis=0))) == [BLOCK_COLUMNS, ROWS_PER_CHUNK]

    def test_reduction_of_few_rows_is_not_blocked(self) -> None:
        kernel = kernel_of(ones(ROWS_PER_CHUNK, 30).sum(axis=0))
        assert not blocks(kernel) and [f.row_axis for f in kernel.accumulators] == [-1]

    def test_columns_read_several_times_use_narrow_blocks(self) -> None:
        x = ones(20, 30)
        for t in (x - x.mean(axis=0), tx.softmax(x, axis=0), x.var(axis=0)):
            kernel = kernel_of(t)
            assert isinstance(kernel.body[0], For) and kernel.body[0].block == NARROW_COLUMNS
            assert {f.row_axis for f in kernel.accumulators} == {kernel.body[0].axis}

    def test_log_softmax_of_all_shapes_shares_a_kernel(self) -> None:
        first = kernel_of(tx.log_softmax(ones(20, 30), axis=0))
        for shape in ((9, 5), (60, 4097), (1000, 255)):
            assert kernel_of(tx.log_softmax(ones(*shape), axis=0)) == first

    def test_reduction_over_middle_axis_is_blocked_like_columns(self) -> None:
        kernel = kernel_of(ones(3, 20, 30).sum(axis=1))
        assert blocks(kernel) == [SHORT_ROW_COLUMNS, ROWS_PER_CHUNK] and isinstance(kernel.body[0], For) and not kernel.body[0].block

    def test_value_constant_along_a_column_is_computed_once(self) -> None:
        x, y = ones(20, 30), ones(30)
        kernel = kernel_of(tx.abs(x - tx.sqrt(y * y + 1)).sum(axis=0))
        (keep,) = statements_of(kernel, RowStore)
        (update,) = [e for e in iterate_expressions(kernel.body) if any(isinstance(subexpr, RowLoad) for subexpr in walk(e))]
        assert keep.size == SHORT_ROW_COLUMNS and "sqrt" in repr(keep.value) and "sqrt" not in repr(update)
        assert not statements_of(kernel_of((x - y).sum(axis=0)), RowStore)  # one load is no work

    def test_nested_reductions_keep_a_row_of_accumulators_each(self) -> None:
        x = ones(30, 11, 20)
        kernel = kernel_of(tx.reduce(lambda a, e: a * 0.5 - e, x.sum(axis=1), axis=1, initial=0.0))
        (outer,) = kernel.body
        assert isinstance(outer, For) and outer.block and len(statements_of(kernel, Init)) == 2
        assert [f.row_axis for f in kernel.accumulators] == [outer.axis] * 2


class TestRowBuffers:
    def test_softmax_buffers_its_exponentials(self) -> None:
        kernel = kernel_of(tx.softmax(ones(5, 40), axis=1))
        (keep,) = statements_of(kernel, RowStore)
        (store,) = statements_of(kernel, Store)
        assert "exp" in repr(keep.value) and "exp" not in repr(store.value)

    @pytest.mark.parametrize(("length", "count"), [(1, 0), (2, 1), (MAX_ROW_ELEMENTS, 1), (MAX_ROW_ELEMENTS + 1, 0)])
    def test_row_buffer_needs_two_elements_and_fits_the_limit(self, length: int, count: int) -> None:
        assert len(statements_of(kernel_of(tx.softmax(ones(3, length), axis=1)), RowStore)) == count

    @pytest.mark.parametrize("dtype", [tx.float32, tx.float64], ids=str)
    def test_row_buffers_do_not_exceed_the_stack_limit(self, dtype: tx.dtypes.DType, monkeypatch: pytest.MonkeyPatch) -> None:
        tune(monkeypatch, fusing={"max_repeated_in_passes": 1 << 30, "max_reductions": 100})
        total = ones(2, 50, dtype=dtype)
        for _ in range(25):
            e = tx.rsqrt(ones(2, 50, dtype=dtype))
            total = total + e / e.sum(axis=1, keepdims=True)
        kernel = kernel_of(total)
        assert len(statements_of(kernel, RowStore)) == MAX_BUFFER_BYTES // (MAX_ROW_ELEMENTS * dtype.itemsize)

    def test_outermost_of_nested_values_is_buffered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tune(monkeypatch, fusing={"max_repeated_in_passes": 1 << 30})
        x = ones(5, 40)
        e = tx.sin(tx.exp(x))
        (keep,) = statements_of(kernel_of(e / e.sum(axis=1, keepdims=True)), RowStore)
        assert "sin" in repr(keep.value)

    def test_buffers_of_whole_rows_and_of_blocks_coexist(self) -> None:
        """One buffer spans the whole axis, another each block of the axis."""
        x, y = ones(3, 40), ones(3, 12, 40)
        kernel = kernel_of(tx.softmax(x, axis=1) * tx.abs(y - tx.sqrt(x * x + 1)[:, None]).sum(axis=1))
        assert sorted((k.row_buffer, k.size) for k in statements_of(kernel, RowStore)) == [(0, MAX_ROW_ELEMENTS), (1, SHORT_ROW_COLUMNS)]


LARGE_ELEMENTS = 1 << 21  # elements of 4 bytes: 8 MiB


class TestNonTemporalStores:
    @staticmethod
    def streamed(t: Tensor) -> bool:
        (store,) = [s for s in statements_of(kernels_of(t)[-1], Store)]
        return store.is_nontemporal

    def test_stores_bypass_caches_if_the_kernel_touches_more_than_they_hold(self) -> None:
        few, many = (tx.empty(n, dtype=tx.float32).realize() for n in (LARGE_ELEMENTS, 4 * LARGE_ELEMENTS))
        assert not self.streamed(few + 1)
        assert self.streamed(many + 1)
        assert self.streamed(tx.concat([few[:1]]) + tx.empty((4 * LARGE_ELEMENTS,), dtype=tx.float32).realize()[:1] + many)

    @pytest.mark.parametrize(("columns", "streamed"), [(1024, True), (1008, True), (1000, False), (1001, False)])
    def test_rows_bypass_caches_only_if_they_begin_at_cache_lines(self, columns: int, streamed: bool) -> None:
        x = tx.empty((20_000, columns), dtype=tx.float32).realize()
        assert self.streamed(tx.softmax(x, axis=1)) == streamed
        assert self.streamed(x[:, ::-1] + x) == streamed
        assert self.streamed(x - x.mean(axis=0)) == streamed

    def test_writes_into_existing_tensors_do_not_bypass_caches(self) -> None:
        x, y = (tx.empty((4 * LARGE_ELEMENTS,), dtype=tx.float32).realize() for _ in range(2))
        x[::2] = y[::2] + 1
        assert not any(s.is_nontemporal for kernel in kernels_of(x) for s in statements_of(kernel, Store))


class TestPrefetches:
    def test_softmax_prefetches_the_next_row(self) -> None:
        kernel = kernel_of(tx.softmax(tx.empty((20_000, 1024), dtype=tx.float32).realize(), axis=1))
        (prefetch,) = statements_of(kernel, Prefetch)
        assert isinstance(kernel.body[0], For) and prefetch.axis == kernel.body[0].axis

    def test_row_reduction_prefetches_the_next_row(self) -> None:
        x = tx.empty((40_000, 256), dtype=tx.float32).realize()
        for t, count in ((x.sum(axis=1), 1), (x.max(axis=1), 1), (x @ ones(256), 1), ((x * (x + 1)[::-1]).sum(axis=1), 2)):
            kernel = kernel_of(t)
            prefetches = statements_of(kernel, Prefetch)
            assert len(prefetches) == count and isinstance(kernel.body[0], For)
            assert all(p.axis == kernel.body[0].axis for p in prefetches)

    def test_generic_plan_prefetches_for_any_row_count(self) -> None:
        matrices = [tx.zeros((rows, 256), dtype=tx.float32).realize() for rows in (40_000, 41_000, 42_000)]
        for x in matrices:  # the second call makes a generic plan
            tx.trunc(x).min(axis=1).realize()
        kernels = [k for k in backend().kernels if k.name == "trunc_min"]
        assert kernels and all(statements_of(k, Prefetch) for k in kernels)

    def test_small_matrices_are_not_prefetched(self) -> None:
        assert not statements_of(kernel_of(tx.softmax(ones(200, 1024), axis=1)), Prefetch)
        assert not statements_of(kernel_of(ones(200, 1024).sum(axis=1)), Prefetch)

    def test_very_long_or_short_rows_are_not_prefetched(self) -> None:
        for shape in ((400, 40_000), (1 << 20, 10)):
            assert not statements_of(kernel_of(tx.empty(shape, dtype=tx.float32).realize().max(axis=1)), Prefetch)

    def test_column_reductions_do_not_prefetch_rows(self) -> None:
        kernel = kernel_of(tx.softmax(tx.empty((20_000, 1024), dtype=tx.float32).realize(), axis=0))
        assert not statements_of(kernel, Prefetch)


@pytest.mark.parametrize(
    ("view", "step"),
    [
        (lambda x: x[:, ::-1], -1),
        (lambda x: x[:, ::2], 2),
        (lambda x: x[:, 1::3], 3),
        (lambda x: x[:, 2::4], 4),
        (lambda x: x[:, ::5], None),
        (lambda x: x[:, ::-2], None),
    ],
)
def test_small_steps_are_part_of_the_kernel(view: Callable[[Tensor], Tensor], step: int | None) -> None:
    kernel = kernel_of(view(ones(30, 203)) + 1)
    (load,) = [e for root in iterate_expressions(kernel.body) for e in walk(root) if isinstance(e, Load)]
    assert [t.value for t in load.address.terms if t.step_kind == "near"] == ([step] if step else [])
    assert kernel_of(view(ones(7, 61)) + 2) == kernel


def test_fusing_many_kernels_composes_few_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step reads the previous one through three views, which are composed no further than to that step."""
    over, count, steps = Layout.over, 0, 40

    def counted(self: Layout, base: Layout) -> Layout:
        nonlocal count
        count += 1
        return over(self, base)

    d = tx.ones((20, 20)).realize()
    for k in range(steps):
        d = tx.minimum(d, d[:, k % 20, None] + d[k % 20])
    order = collect_pending([d.storage.node])
    monkeypatch.setattr(Layout, "over", counted)
    assert len(fuse(order, order[-1:], backend().target)) > 10
    assert count <= 10 * steps


class TestShortRows:
    """Column reductions of large matrices with short rows. The processor itself does not foresee the next rows."""

    MIN_BYTES, (MIN_ROW_BYTES, MAX_ROW_BYTES) = TARGET.single_pass.min_short_rows_bytes, TARGET.single_pass.short_row_bytes

    def prefetches_of(self, t: Tensor) -> list[Prefetch]:
        prefetches = [s for kernel in kernels_of(t) for s in statements_of(kernel, Prefetch)]
        assert all(s.by_reading for s in prefetches)
        return prefetches

    def matrix(self, row: int, nbytes: int, dtype: object = tx.float32) -> Tensor:
        """Return an empty matrix of `nbytes` bytes with rows of `row` bytes."""
        itemsize = tx.empty(0, dtype=dtype).dtype.itemsize
        return tx.empty((nbytes // row, row // itemsize), dtype=dtype).realize()

    @pytest.mark.parametrize("dtype", [tx.float32, tx.float64, tx.int64])
    @pytest.mark.parametrize("name", ["sum", "max", "mean"])
    def test_short_rows_are_prefetched_by_reading(self, name: str, dtype: object) -> None:
        for row in (self.MIN_ROW_BYTES, self.MAX_ROW_BYTES):
            assert len(self.prefetches_of(getattr(tx, name)(self.matrix(row, self.MIN_BYTES, dtype), axis=0))) == 1

    def test_short_rows_are_prefetched_once_per_block(self) -> None:
        kernel, _ = kernels_of(self.matrix(self.MAX_ROW_BYTES, self.MIN_BYTES).max(axis=0))
        (block,) = [s for s in statements_of(kernel, For) if s.block == ROWS_PER_CHUNK]
        first, second = block.body
        assert [s.by_reading for s in walk_statements((first,)) if isinstance(s, Prefetch)] == [True]
        assert not any(isinstance(s, Prefetch) for s in walk_statements((second,)))

    def test_small_matrices_and_other_row_lengths_are_not_prefetched(self) -> None:
        assert not self.prefetches_of(self.matrix(self.MIN_ROW_BYTES, self.MIN_BYTES // 2).max(axis=0))
        assert not self.prefetches_of(self.matrix(self.MIN_ROW_BYTES // 2, self.MIN_BYTES).max(axis=0))
        assert not self.prefetches_of(self.matrix(2 * self.MAX_ROW_BYTES, self.MIN_BYTES).max(axis=0))
        assert not self.prefetches_of(self.matrix(self.MIN_ROW_BYTES, self.MIN_BYTES, tx.int8).max(axis=0))

    def test_vector_matrix_product_prefetches_only_larger_matrices(self) -> None:
        few, many = (self.matrix(self.MIN_ROW_BYTES, times * self.MIN_BYTES) for times in (1, REPEAT_FACTOR))
        for x, count in ((few, 0), (many, 1)):
            assert len(self.prefetches_of(ones(x.shape[0]) @ x)) == count

    def test_prefetched_short_rows_give_numpy_results(self) -> None:
        random = np.random.default_rng(0)
        for columns in (64, 65, 100, 127, 256):  # whole vectors, and some that are not
            x = random.integers(-9, 9, (self.MIN_BYTES // 256, columns)).astype(float)
            y, v = tx.asarray(x), random.integers(-9, 9, len(x)).astype(float)
            assert np.array_equal(np.asarray(y.sum(axis=0)), x.sum(axis=0))
            assert np.array_equal(np.asarray(y[::-1].max(axis=0)), x.max(axis=0))
            assert np.array_equal(np.asarray(tx.asarray(v) @ y[:, :-1]), v @ x[:, :-1])
