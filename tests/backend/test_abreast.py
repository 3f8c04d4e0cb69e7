"""Rows reduced several at a time: each gives the bits that it gives alone, and what the interpreter makes of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.backend import backend
from tenxor.dtypes import DType, float32, float64, int8, int64
from tenxor.kernel.ir import For, Kernel, statements
from tenxor.tensor import Tensor
from tests.kernel.helpers import kernel_of
from tests.machines import current, tuned, use

from .graphs import in_memory
from .twins import check

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

Make = Callable[[Tensor, Tensor, Tensor], Tensor]
STREAMED: dict[str, Make] = {
    "rows": lambda x, v, y: x.sum(axis=1),
    "squares of rows": lambda x, v, y: (x * x).sum(axis=1) - y,
    "two views": lambda x, v, y: (x[:, 1:] * x[:, :-1]).sum(axis=1),
    "the largest": lambda x, v, y: x.max(axis=1),
}
RUNNING: dict[str, Make] = {
    "sums": lambda x, v, y: x.cumsum(axis=1),
    "of what is made": lambda x, v, y: (x * v + y[:, None]).cumsum(axis=1),
    "of products": lambda x, v, y: x[:, 1:].cumprod(axis=1),
    "where indices say": lambda x, v, y: tx.take_along_axis(x, tx.argsort(x.realize(), axis=1), axis=1).cumsum(axis=1),
    "largest": lambda x, v, y: tx.cummax(x[:, ::-1], axis=1).values,
}
REDUCED: dict[str, Make] = {
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


def machine(monkeypatch: pytest.MonkeyPatch, nbytes: int, turns: int) -> None:
    """Vectors of so many bytes, registers for rows abreast, and any rows taken so many at a time."""
    any_rows = dict.fromkeys(("long_rows", "streamed", "apart"), 0)
    use(monkeypatch, tuned(current()._replace(vector_bytes=nbytes, registers=32), loops={"abreast": turns, **any_rows}))


def turns(kernel: Kernel) -> int:
    """How many turns of a loop of a kernel are abreast."""
    return max(s.abreast for s in statements(kernel.body) if isinstance(s, For))


def operands(rows: int, columns: int, dtype: DType, *, whole: bool) -> list[Tensor]:
    random = np.random.default_rng(rows * columns)
    shapes = ((rows, columns), (columns,), (rows,))
    made = [random.integers(-3, 4, shape) if whole else random.normal(size=shape) * 9 for shape in shapes]
    return [Tensor._of(in_memory(np.asarray(values), dtype)) for values in made]


@pytest.mark.parametrize("nbytes", [0, 16, 32, 64])
@pytest.mark.parametrize("name", REDUCED)
def test_each_row_has_the_bits_that_it_has_alone(monkeypatch: pytest.MonkeyPatch, name: str, nbytes: int) -> None:
    nbytes = min(nbytes, current().vector_bytes)
    for dtype in (float32, float64):
        for rows in (4, 5, 7, 8, 15):
            for columns in (5 if name.startswith("running") else 3, 17, 64, 1061):  # lanes run along rows of fewer
                found = []
                for count in (1, 4):
                    machine(monkeypatch, nbytes, count)
                    pending = REDUCED[name](*operands(rows, columns, dtype, whole=False))
                    assert turns(kernel_of(pending)) == count
                    found.append(np.asarray(pending))
                assert np.array_equal(*(x.view(f"u{x.itemsize}") for x in found)), (dtype, rows, columns)


@pytest.mark.parametrize("dtype", [float32, float64, int64, int8])
@pytest.mark.parametrize("name", REDUCED)
def test_as_the_interpreter_makes_them(monkeypatch: pytest.MonkeyPatch, name: str, dtype: DType) -> None:
    machine(monkeypatch, current().vector_bytes, 4)
    for rows, columns in ((4, 33), (9, 65), (3, 70)):
        check(REDUCED[name](*operands(rows, columns, dtype, whole=True)).storage.node)


class TestWhichAre:
    """Read off the kernels."""

    @pytest.fixture(autouse=True)
    def _wide(self, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, current()._replace(vector_bytes=64))

    @staticmethod
    def turns(make: Make, columns: int, rows: int = 8) -> int:
        shapes = (rows, columns), (columns,), (rows,)
        return turns(kernel_of(make(*(tx.zeros(shape, dtype=tx.float32).realize() for shape in shapes))))

    def test_long_rows_with_what_is_the_same_for_all(self) -> None:
        longest = current().loops.long_rows // 4
        assert self.turns(lambda x, v, y: x @ v, longest) == current().loops.abreast
        assert self.turns(lambda x, v, y: x @ v, longest - 1) == 1

    @pytest.mark.parametrize("name", STREAMED)
    def test_rows_from_memory_whatever_registers_there_are(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for nbytes, registers in ((16, 16), (32, 16), (32, 32), (64, 32)):
            use(monkeypatch, current()._replace(vector_bytes=nbytes, registers=registers))
            streamed = current().streamed // 4
            assert self.turns(STREAMED[name], streamed + 1, rows=20) == current().loops.abreast
            assert self.turns(STREAMED[name], streamed - 1, rows=20) == 1

    def test_where_vectors_are_long_rows_from_memory_are_far_apart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loops = current().loops
        for nbytes, rows in ((16, loops.streamed), (32, loops.streamed), (64, loops.apart)):
            use(monkeypatch, current()._replace(vector_bytes=nbytes))
            lengths = loops.streamed // 2, loops.streamed, loops.apart
            found = [self.turns(STREAMED["rows"], length // 4 + 1, rows=20) for length in lengths]
            assert found == [1 if length < rows else 4 for length in lengths]

    @pytest.mark.parametrize("name", RUNNING)
    def test_whatever_is_written_on_the_way_of_several_rows(self, name: str) -> None:
        for columns in (5, 100, current().streamed):
            assert self.turns(RUNNING[name], columns) == current().loops.abreast

    def test_what_runs_along_several_columns_has_lanes_instead(self) -> None:
        assert self.turns(lambda x, v, y: x.cumsum(axis=0), 100) == 1

    def test_the_blocks_of_a_large_sum_which_many_threads_may_have_one_by_one(self) -> None:
        x = tx.empty((64, current().streamed // 8), dtype=tx.float64).realize()
        kernel = kernel_of(x.sum(axis=1))
        assert (turns(kernel), kernel.grain(current().sharing)) == (4, 1)  # who has few more than one has streams in the others

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
    def test_no_others(self, make: Make) -> None:
        assert self.turns(make, 9000) == 1

    @pytest.mark.parametrize("nbytes", [16, 32])
    def test_rows_of_any_length_where_vectors_are_short(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, current()._replace(vector_bytes=nbytes))
        for columns in (8, 9000):
            assert self.turns(lambda x, v, y: x @ v, columns) == current().loops.abreast
        assert self.turns(lambda x, v, y: x.sum(axis=1), 8) == 1

    def test_what_is_read_says_so(self) -> None:
        kernel = kernel_of(tx.zeros((8, 9000)).realize() @ tx.zeros(9000).realize())
        assert "for i in 0..s0, 4 abreast:" in str(kernel)

    def test_whatever_lengths_were_before(self) -> None:
        def made_for(columns: int) -> list[Kernel]:
            x, v = tx.zeros((9, columns), dtype=tx.float32).realize(), tx.zeros(columns, dtype=tx.float32).realize()
            known = set(backend().kernels)
            tx.trunc(x * v).sum(axis=1).realize()
            return [kernel for kernel in backend().kernels if kernel not in known]

        made = [made_for(columns) for columns in (1000, 1100, 1200, 1300, 5000, 6000)]
        assert [turns(kernel) for kernels in made for kernel in kernels] == [1, 4]
