"""Rows reduced several at a time: the bits are those of single rows, and the values those of the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen import backend
from tenxor.dtypes import DType, float32, float64, int8, int64
from tenxor.lowering.ir import For, Kernel, iterate_statements
from tenxor.tensor import Tensor
from tests.lowering.helpers import kernel_of
from tests.machines import current, tuned, use

from .graphs import in_memory
from .twins import check

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

Program = Callable[[Tensor, Tensor, Tensor], Tensor]
STREAMED: dict[str, Program] = {
    "rows": lambda x, v, y: x.sum(axis=1),
    "squares of rows": lambda x, v, y: (x * x).sum(axis=1) - y,
    "two views": lambda x, v, y: (x[:, 1:] * x[:, :-1]).sum(axis=1),
    "the largest": lambda x, v, y: x.max(axis=1),
}
RUNNING: dict[str, Program] = {
    "sums": lambda x, v, y: x.cumsum(axis=1),
    "of what is made": lambda x, v, y: (x * v + y[:, None]).cumsum(axis=1),
    "of products": lambda x, v, y: x[:, 1:].cumprod(axis=1),
    "where indices say": lambda x, v, y: tx.take_along_axis(x, tx.argsort(x.realize(), axis=1), axis=1).cumsum(axis=1),
    "cummax": lambda x, v, y: tx.cummax(x[:, ::-1], axis=1).values,
}
REDUCED: dict[str, Program] = {
    "product": lambda x, v, y: x @ v,
    "with what is done then": lambda x, v, y: (x @ v) * 2 + y,
    "of a view": lambda x, v, y: x[::2, 1:] @ v[1:],
    "sums": lambda x, v, y: (x + v).sum(axis=1),
    "squares": lambda x, v, y: ((x - v) ** 2).sum(axis=1),
    "number of each row": lambda x, v, y: (x * (v + y[:, None])).sum(axis=1),
    "batch": lambda x, v, y: (tx.stack([x, x * 2]).realize() * v).sum(axis=2),
    **STREAMED,
    **{f"running {name}": make for name, make in RUNNING.items()},
}


def use_machine(monkeypatch: pytest.MonkeyPatch, nbytes: int, rows_at_a_time: int) -> None:
    """Use a machine with vectors of `nbytes` bytes and 32 registers, which reduces any rows `rows_at_a_time` at a time."""
    any_rows = dict.fromkeys(("min_long_row_bytes", "min_streamed_row_bytes", "min_wide_row_bytes"), 0)
    use(monkeypatch, tuned(current()._replace(vector_bytes=nbytes, register_count=32), loops={"jammed_rows": rows_at_a_time, **any_rows}))


def rows_at_a_time(kernel: Kernel) -> int:
    """Return the number of rows that a kernel reduces at a time."""
    return max(s.jam_factor for s in iterate_statements(kernel.body) if isinstance(s, For))


def operands(rows: int, columns: int, dtype: DType, *, integers: bool) -> list[Tensor]:
    random = np.random.default_rng(rows * columns)
    shapes = ((rows, columns), (columns,), (rows,))
    arrays = [random.integers(-3, 4, shape) if integers else random.normal(size=shape) * 9 for shape in shapes]
    return [Tensor._from_node(in_memory(np.asarray(values), dtype)) for values in arrays]


@pytest.mark.parametrize("nbytes", [0, 16, 32, 64])
@pytest.mark.parametrize("name", REDUCED)
def test_rows_reduced_together_have_the_bits_of_single_rows(monkeypatch: pytest.MonkeyPatch, name: str, nbytes: int) -> None:
    nbytes = min(nbytes, current().vector_bytes)
    for dtype in (float32, float64):
        for rows in (4, 5, 7, 8, 15):
            for columns in (6, 17, 64, 1061):  # lanes run across rows of fewer
                results = []
                for count in (1, 4):
                    use_machine(monkeypatch, nbytes, count)
                    pending = REDUCED[name](*operands(rows, columns, dtype, integers=False))
                    assert rows_at_a_time(kernel_of(pending)) == count
                    results.append(np.asarray(pending))
                assert np.array_equal(*(x.view(f"u{x.itemsize}") for x in results)), (dtype, rows, columns)


@pytest.mark.parametrize("dtype", [float32, float64, int64, int8])
@pytest.mark.parametrize("name", REDUCED)
def test_rows_reduced_together_match_the_interpreter(monkeypatch: pytest.MonkeyPatch, name: str, dtype: DType) -> None:
    use_machine(monkeypatch, current().vector_bytes, 4)
    for rows, columns in ((4, 33), (9, 65), (3, 70)):
        check(REDUCED[name](*operands(rows, columns, dtype, integers=True)).storage.node)


class TestSelection:
    """The kernels that reduce several rows at a time."""

    @pytest.fixture(autouse=True)
    def _wide(self, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, current()._replace(vector_bytes=64))

    @staticmethod
    def rows_at_a_time(make: Program, columns: int, rows: int = 8) -> int:
        shapes = (rows, columns), (columns,), (rows,)
        return rows_at_a_time(kernel_of(make(*(tx.zeros(shape, dtype=tx.float32).realize() for shape in shapes))))

    def test_long_rows_times_a_vector_are_reduced_together(self) -> None:
        longest = current().loops.min_long_row_bytes // 4
        assert self.rows_at_a_time(lambda x, v, y: x @ v, longest) == current().loops.jammed_rows
        assert self.rows_at_a_time(lambda x, v, y: x @ v, longest - 1) == 1

    @pytest.mark.parametrize("name", STREAMED)
    def test_rows_of_streamed_length_are_reduced_together_on_every_register_set(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for nbytes, registers in ((16, 16), (32, 16), (32, 32), (64, 32)):
            use(monkeypatch, current()._replace(vector_bytes=nbytes, register_count=registers))
            streamed = current().min_streamed_row_bytes // 4
            assert self.rows_at_a_time(STREAMED[name], streamed + 1, rows=20) == current().loops.jammed_rows
            assert self.rows_at_a_time(STREAMED[name], streamed - 1, rows=20) == 1

    def test_long_vectors_need_longer_rows_to_reduce_them_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loops = current().loops
        for nbytes, rows in ((16, loops.min_streamed_row_bytes), (32, loops.min_streamed_row_bytes), (64, loops.min_wide_row_bytes)):
            use(monkeypatch, current()._replace(vector_bytes=nbytes))
            lengths = loops.min_streamed_row_bytes // 2, loops.min_streamed_row_bytes, loops.min_wide_row_bytes
            counts = [self.rows_at_a_time(STREAMED["rows"], length // 4 + 1, rows=20) for length in lengths]
            assert counts == [1 if length < rows else 4 for length in lengths]

    @pytest.mark.parametrize("name", RUNNING)
    def test_scans_process_several_rows_together(self, name: str) -> None:
        for columns in (5, 100, current().min_streamed_row_bytes):
            assert self.rows_at_a_time(RUNNING[name], columns) == current().loops.jammed_rows

    def test_scans_along_columns_process_one_row_at_a_time(self) -> None:
        assert self.rows_at_a_time(lambda x, v, y: x.cumsum(axis=0), 100) == 1

    def test_threads_share_single_rows_of_a_kernel_that_reduces_four_together(self) -> None:
        x = tx.empty((64, current().min_streamed_row_bytes // 8), dtype=tx.float64).realize()
        kernel = kernel_of(x.sum(axis=1))
        assert (rows_at_a_time(kernel), kernel.choose_grain(current().thread_limits)) == (4, 1)  # rows can be shared one by one

    @pytest.mark.parametrize(
        "make",
        [
            lambda x, v, y: (x * v[::-1]).sum(axis=1),
            lambda x, v, y: tx.exp(x * v).sum(axis=1),
            lambda x, v, y: (x * v).argmax(axis=1),
            lambda x, v, y: x * v - (x * v).sum(axis=1)[:, None],
            lambda x, v, y: (x * v).sum(),
            lambda x, v, y: v @ v,
            lambda x, v, y: y @ x,
        ],
    )
    def test_reductions_unsuited_to_interleaving_take_rows_one_by_one(self, make: Program) -> None:
        assert self.rows_at_a_time(make, 9000) == 1

    @pytest.mark.parametrize("nbytes", [16, 32])
    def test_short_vectors_reduce_rows_of_any_length_together(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, current()._replace(vector_bytes=nbytes))
        for columns in (8, 9000):
            assert self.rows_at_a_time(lambda x, v, y: x @ v, columns) == current().loops.jammed_rows
        assert self.rows_at_a_time(lambda x, v, y: x.sum(axis=1), 8) == 1

    def test_kernel_text_shows_how_many_rows_run_abreast(self) -> None:
        kernel = kernel_of(tx.zeros((8, 9000)).realize() @ tx.zeros(9000).realize())
        assert "for i in 0..s0, 4 abreast:" in str(kernel)

    def test_generic_plan_chooses_the_kernel_by_row_length(self) -> None:
        def new_kernels(columns: int) -> list[Kernel]:
            x, v = tx.zeros((9, columns), dtype=tx.float32).realize(), tx.zeros(columns, dtype=tx.float32).realize()
            old_kernels = set(backend().kernels)
            tx.trunc(x * v).sum(axis=1).realize()
            return [kernel for kernel in backend().kernels if kernel not in old_kernels]

        kernels_by_length = [new_kernels(columns) for columns in (1000, 1100, 1200, 1300, 5000, 6000)]
        assert [rows_at_a_time(kernel) for kernels in kernels_by_length for kernel in kernels] == [1, 4]
