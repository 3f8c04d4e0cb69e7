"""What the loops over columns and over rows are: blocks, rows of states, kept rows, prefetches and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pytest

import tenxor as tx
from tenxor.backend import backend
from tenxor.kernel.cpu.columns import STEPS
from tenxor.kernel.cpu.prefetch import REPEAT_FACTOR
from tenxor.kernel.fuse import fuse, pending
from tenxor.kernel.ir import For, Init, Keep, Kept, Kernel, Load, Prefetch, Statement, Store, expressions, walk
from tenxor.layout import Layout
from tenxor.plans.plan import planned
from tenxor.tensor import Tensor

from .helpers import TARGET

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

COLUMNS, SHORT, FEWER = TARGET.loops.columns, TARGET.loops.short_rows, TARGET.loops.narrow
LONGEST, MOST_KEPT = TARGET.loops.row, TARGET.loops.rows

S = TypeVar("S")


def ones(*shape: int, dtype: object = tx.float32) -> Tensor:
    return tx.ones(shape, dtype=dtype).realize()


def kernels_of(t: Tensor) -> list[Kernel]:
    return [kernel for _, kernel in planned([t.storage.node]) if kernel is not None]


def kernel_of(t: Tensor) -> Kernel:
    (kernel,) = kernels_of(t)
    return kernel


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    for s in body:
        yield s
        if isinstance(s, For):
            yield from statements(s.body)


def all_of(kernel: Kernel, kind: type[S]) -> list[S]:
    return [s for s in statements(kernel.body) if isinstance(s, kind)]


def blocks(kernel: Kernel) -> list[int]:
    return [s.block for s in all_of(kernel, For) if s.block]


class TestColumns:
    @pytest.mark.parametrize("name", ["sum", "max", "prod", "any", "argmax"])
    def test_a_reduction_of_columns_has_a_row_of_states(self, name: str) -> None:
        kernel = kernel_of(getattr(tx, name)(ones(STEPS + 1, 30), axis=0))
        (outer,) = kernel.body
        assert isinstance(outer, For) and outer.block == SHORT and kernel.shared >= 0
        assert [f.row for f in kernel.accumulators] == [outer.axis]
        assert blocks(kernel) == [SHORT, STEPS]

    def test_long_rows_have_long_blocks(self) -> None:
        assert blocks(kernel_of(ones(20, SHORT).sum(axis=0))) == [SHORT, STEPS]
        assert blocks(kernel_of(ones(20, SHORT + 1).sum(axis=0))) == [COLUMNS, STEPS]

    def test_a_few_rows_are_no_reason_for_blocks(self) -> None:
        kernel = kernel_of(ones(STEPS, 30).sum(axis=0))
        assert not blocks(kernel) and [f.row for f in kernel.accumulators] == [-1]

    def test_what_is_read_more_than_once_is_read_in_narrow_blocks(self) -> None:
        x = ones(20, 30)
        for t in (x - x.mean(axis=0), tx.softmax(x, axis=0), x.var(axis=0)):
            kernel = kernel_of(t)
            assert isinstance(kernel.body[0], For) and kernel.body[0].block == FEWER
            assert {f.row for f in kernel.accumulators} == {kernel.body[0].axis}

    def test_all_shapes_share_a_kernel(self) -> None:
        first = kernel_of(tx.log_softmax(ones(20, 30), axis=0))
        for shape in ((9, 5), (60, 4097), (1000, 255)):
            assert kernel_of(tx.log_softmax(ones(*shape), axis=0)) == first

    def test_a_middle_axis_is_one_of_columns(self) -> None:
        kernel = kernel_of(ones(3, 20, 30).sum(axis=1))
        assert blocks(kernel) == [SHORT, STEPS] and isinstance(kernel.body[0], For) and not kernel.body[0].block

    def test_what_is_the_same_for_a_column_is_computed_once(self) -> None:
        x, y = ones(20, 30), ones(30)
        kernel = kernel_of(tx.abs(x - tx.sqrt(y * y + 1)).sum(axis=0))
        (keep,) = all_of(kernel, Keep)
        (update,) = [e for e in expressions(kernel.body) if any(isinstance(part, Kept) for part in walk(e))]
        assert keep.size == SHORT and "sqrt" in repr(keep.value) and "sqrt" not in repr(update)
        assert not all_of(kernel_of((x - y).sum(axis=0)), Keep)  # one load is no work

    def test_a_reduction_inside_a_reduction_has_a_row_of_its_own(self) -> None:
        x = ones(30, 11, 20)
        kernel = kernel_of(tx.reduce(lambda a, e: a * 0.5 - e, x.sum(axis=1), axis=1, initial=0.0))
        (outer,) = kernel.body
        assert isinstance(outer, For) and outer.block and len(all_of(kernel, Init)) == 2
        assert [f.row for f in kernel.accumulators] == [outer.axis] * 2


class TestKeptRows:
    def test_softmax_keeps_its_exponentials(self) -> None:
        kernel = kernel_of(tx.softmax(ones(5, 40), axis=1))
        (keep,) = all_of(kernel, Keep)
        (store,) = all_of(kernel, Store)
        assert "exp" in repr(keep.value) and "exp" not in repr(store.value)

    @pytest.mark.parametrize(("length", "kept"), [(1, 0), (2, 1), (LONGEST, 1), (LONGEST + 1, 0)])
    def test_if_they_are_neither_too_long_nor_no_row(self, length: int, kept: int) -> None:
        assert len(all_of(kernel_of(tx.softmax(ones(3, length), axis=1)), Keep)) == kept

    @pytest.mark.parametrize("dtype", [tx.float32, tx.float64], ids=str)
    def test_no_more_of_them_than_the_stack_bears(self, dtype: tx.dtypes.DType) -> None:
        total = ones(2, 50, dtype=dtype)
        for _ in range(25):
            e = tx.rsqrt(ones(2, 50, dtype=dtype))
            total = total + e / e.sum(axis=1, keepdims=True)
        kernel = kernel_of(total)
        assert len(all_of(kernel, Keep)) == MOST_KEPT // (LONGEST * dtype.itemsize)

    def test_the_last_of_several_that_hold_one_another(self) -> None:
        x = ones(5, 40)
        e = tx.sin(tx.exp(x))
        (keep,) = all_of(kernel_of(e / e.sum(axis=1, keepdims=True)), Keep)
        assert "sin" in repr(keep.value)

    def test_beside_those_of_a_block(self) -> None:
        """A row that is kept for a whole axis, and one for each block of that axis."""
        x, y = ones(3, 40), ones(3, 12, 40)
        kernel = kernel_of(tx.softmax(x, axis=1) * tx.abs(y - tx.sqrt(x * x + 1)[:, None]).sum(axis=1))
        assert sorted((k.row, k.size) for k in all_of(kernel, Keep)) == [(0, LONGEST), (1, SHORT)]


LARGE = 1 << 21  # elements of 4 bytes: 8 MiB


class TestStreams:
    @staticmethod
    def streamed(t: Tensor) -> bool:
        (store,) = [s for s in all_of(kernels_of(t)[-1], Store)]
        return store.streamed

    def test_large_results_of_much_that_is_read(self) -> None:
        few, many = (tx.empty(n, dtype=tx.float32).realize() for n in (LARGE, 4 * LARGE))
        assert not self.streamed(few + 1)
        assert self.streamed(many + 1)
        assert self.streamed(tx.concat([few[:1]]) + tx.empty((4 * LARGE,), dtype=tx.float32).realize()[:1] + many)

    @pytest.mark.parametrize(("columns", "streamed"), [(1024, True), (1008, True), (1000, False), (1001, False)])
    def test_rows_that_begin_at_whole_lines(self, columns: int, streamed: bool) -> None:
        x = tx.empty((20_000, columns), dtype=tx.float32).realize()
        assert self.streamed(tx.softmax(x, axis=1)) == streamed
        assert self.streamed(x[:, ::-1] + x) == streamed
        assert self.streamed(x - x.mean(axis=0)) == streamed

    def test_no_writes_into_what_is_there(self) -> None:
        x, y = (tx.empty((4 * LARGE,), dtype=tx.float32).realize() for _ in range(2))
        x[::2] = y[::2] + 1
        assert not any(s.streamed for kernel in kernels_of(x) for s in all_of(kernel, Store))


class TestFetches:
    def test_the_next_row_while_one_is_worked_on(self) -> None:
        kernel = kernel_of(tx.softmax(tx.empty((20_000, 1024), dtype=tx.float32).realize(), axis=1))
        (prefetch,) = all_of(kernel, Prefetch)
        assert isinstance(kernel.body[0], For) and prefetch.axis == kernel.body[0].axis

    def test_the_next_row_while_one_is_reduced(self) -> None:
        x = tx.empty((40_000, 256), dtype=tx.float32).realize()
        for t, count in ((x.sum(axis=1), 1), (x.max(axis=1), 1), (x @ ones(256), 1), ((x * (x + 1)[::-1]).sum(axis=1), 2)):
            kernel = kernel_of(t)
            found = all_of(kernel, Prefetch)
            assert len(found) == count and isinstance(kernel.body[0], For)
            assert all(p.axis == kernel.body[0].axis for p in found)

    def test_whatever_their_number_was_before(self) -> None:
        kept = [tx.zeros((rows, 256), dtype=tx.float32).realize() for rows in (40_000, 41_000, 42_000)]
        for x in kept:  # the second time it is planned for all that would be planned alike
            tx.trunc(x).min(axis=1).realize()
        found = [k for k in backend().kernels if k.name == "trunc_min"]
        assert found and all(all_of(k, Prefetch) for k in found)

    def test_of_nothing_small(self) -> None:
        assert not all_of(kernel_of(tx.softmax(ones(200, 1024), axis=1)), Prefetch)
        assert not all_of(kernel_of(ones(200, 1024).sum(axis=1)), Prefetch)

    def test_of_no_long_rows_nor_very_short_ones(self) -> None:
        for shape in ((400, 40_000), (1 << 20, 10)):
            assert not all_of(kernel_of(tx.empty(shape, dtype=tx.float32).realize().max(axis=1)), Prefetch)

    def test_what_columns_read_is_not(self) -> None:
        kernel = kernel_of(tx.softmax(tx.empty((20_000, 1024), dtype=tx.float32).realize(), axis=0))
        assert not all_of(kernel, Prefetch)


@pytest.mark.parametrize(
    ("view", "how"),
    [
        (lambda x: x[:, ::-1], -1),
        (lambda x: x[:, ::2], 2),
        (lambda x: x[:, 1::3], 3),
        (lambda x: x[:, 2::4], 4),
        (lambda x: x[:, ::5], None),
        (lambda x: x[:, ::-2], None),
    ],
)
def test_steps_that_are_near_are_a_part_of_the_pattern(view: Callable[[Tensor], Tensor], how: int | None) -> None:
    kernel = kernel_of(view(ones(30, 203)) + 1)
    (load,) = [e for root in expressions(kernel.body) for e in walk(root) if isinstance(e, Load)]
    assert [t.value for t in load.address.terms if t.how == "near"] == ([how] if how else [])
    assert kernel_of(view(ones(7, 61)) + 2) == kernel


def test_a_kernel_among_many_is_planned_by_what_it_reads_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step reads the one before through three views, which are followed no further than to that."""
    over, count, steps = Layout.over, 0, 40

    def counted(self: Layout, base: Layout) -> Layout:
        nonlocal count
        count += 1
        return over(self, base)

    d = tx.ones((20, 20)).realize()
    for k in range(steps):
        d = tx.minimum(d, d[:, k % 20, None] + d[k % 20])
    order = pending([d.storage.node])
    monkeypatch.setattr(Layout, "over", counted)
    assert len(fuse(order, order[-1:], backend().target)) > 10
    assert count <= 10 * steps


class TestShortRows:
    """Of much that is reduced along its columns: a few of these are too little in a row for a processor to foresee what comes next."""

    LEAST, (SHORTEST, LONGEST) = TARGET.passes.least, TARGET.passes.short

    def read_first(self, t: Tensor) -> list[Prefetch]:
        found = [s for kernel in kernels_of(t) for s in all_of(kernel, Prefetch)]
        assert all(s.by_reading for s in found)
        return found

    def rows(self, row: int, nbytes: int, dtype: object = tx.float32) -> Tensor:
        """So many bytes in rows of so many."""
        itemsize = tx.empty(0, dtype=dtype).dtype.itemsize
        return tx.empty((nbytes // row, row // itemsize), dtype=dtype).realize()

    @pytest.mark.parametrize("dtype", [tx.float32, tx.float64, tx.int64])
    @pytest.mark.parametrize("name", ["sum", "max", "mean"])
    def test_are_read_before_as_they_lie(self, name: str, dtype: object) -> None:
        for row in (self.SHORTEST, self.LONGEST):
            assert len(self.read_first(getattr(tx, name)(self.rows(row, self.LEAST, dtype), axis=0))) == 1

    def test_a_few_at_a_time(self) -> None:
        kernel, _ = kernels_of(self.rows(self.LONGEST, self.LEAST).max(axis=0))
        (block,) = [s for s in all_of(kernel, For) if s.block == STEPS]
        first, then = block.body
        assert [s.by_reading for s in statements((first,)) if isinstance(s, Prefetch)] == [True]
        assert not any(isinstance(s, Prefetch) for s in statements((then,)))

    def test_of_which_there_is_enough_and_none_else(self) -> None:
        assert not self.read_first(self.rows(self.SHORTEST, self.LEAST // 2).max(axis=0))
        assert not self.read_first(self.rows(self.SHORTEST // 2, self.LEAST).max(axis=0))
        assert not self.read_first(self.rows(2 * self.LONGEST, self.LEAST).max(axis=0))
        assert not self.read_first(self.rows(self.SHORTEST, self.LEAST, tx.int8).max(axis=0))

    def test_of_more_where_they_are_taken_with_something_else(self) -> None:
        few, many = (self.rows(self.SHORTEST, times * self.LEAST) for times in (1, REPEAT_FACTOR))
        for x, count in ((few, 0), (many, 1)):
            assert len(self.read_first(ones(x.shape[0]) @ x)) == count

    def test_give_the_same(self) -> None:
        random = np.random.default_rng(0)
        for columns in (64, 65, 100, 127, 256):  # whole vectors, and some that are not
            x = random.integers(-9, 9, (self.LEAST // 256, columns)).astype(float)
            y, v = tx.asarray(x), random.integers(-9, 9, len(x)).astype(float)
            assert np.array_equal(np.asarray(y.sum(axis=0)), x.sum(axis=0))
            assert np.array_equal(np.asarray(y[::-1].max(axis=0)), x.max(axis=0))
            assert np.array_equal(np.asarray(tx.asarray(v) @ y[:, :-1]), v @ x[:, :-1])
