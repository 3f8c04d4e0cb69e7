"""Single-pass fusion of two products of one matrix: the bits are those of two kernels, and the values those of the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES, DType, float32, float64
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import For, Kernel
from tenxor.lowering.lower import lower
from tenxor.runtime.planner import preview_kernels
from tenxor.tensor import Tensor
from tests.machines import current, tune, tuned, use

from .graphs import in_memory
from .twins import check

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

# A program on a matrix, a vector along its rows, and a vector along its columns.
Make = Callable[[Tensor, Tensor, Tensor], Tensor]
ONCE: dict[str, Make] = {
    "there and back": lambda x, v, y: x.T @ (x @ v),
    "from the left": lambda x, v, y: (x @ v) @ x,
    "less something": lambda x, v, y: x.T @ (x @ v - y),
    "and done with": lambda x, v, y: v - 0.5 * (x.T @ (x @ v - y)),
    "with a result that is read twice": lambda x, v, y: (lambda u: x.T @ (u * (u - y)))(x @ v),
    "of some rows": lambda x, v, y: x[::2].T @ (x[::2] @ v),
    "of rows backwards": lambda x, v, y: x[::-1].T @ (x[::-1] @ v),
    "of some columns": lambda x, v, y: x[:, 1:].T @ (x[:, 1:] @ v[1:]),
    "of what waits": lambda x, v, y: (x - v).T @ ((x - v) @ v),
    "of a vector that waits": lambda x, v, y: x.T @ (x @ (v + v)),
    "rows by their sums": lambda x, v, y: (x * x.sum(axis=1, keepdims=True)).sum(axis=0),
    "rows by their largest": lambda x, v, y: (x - x.max(axis=1, keepdims=True)).sum(axis=0),
    "the largest of rows": lambda x, v, y: (x * (x * v).sum(axis=1, keepdims=True)).max(axis=0),
}
FLOATS_ONLY: dict[str, Make] = {
    "logistic": lambda x, v, y: x.T @ (tx.sigmoid(x @ v) - y),
    "softened": lambda x, v, y: x.T @ (tx.exp(-tx.abs(x @ v)) / (1 + y * y)),
    "gradient": lambda x, v, y: tx.grad(lambda v: ((x @ v - y) ** 2).mean())(v),
    "gradient of logistic": lambda x, v, y: tx.grad(lambda v: (tx.softplus(x @ v) - y * (x @ v)).mean())(v),
}
TWICE: dict[str, Make] = {
    "of two matrices": lambda x, v, y: (x + 1).realize().T @ (x @ v),
    "of columns first": lambda x, v, y: x @ (x.T @ y),
    "of all rows": lambda x, v, y: x.T @ tx.softmax(x @ v),
    "for others, too": lambda x, v, y: (lambda u: x.T @ u + u.sum())(x @ v),
    "of other rows": lambda x, v, y: x.T @ (x @ v)[::-1],
    "of two results": lambda x, v, y: x.T @ ((x @ v) * x.sum(axis=1)),
    "of few columns": lambda x, v, y: x.T @ (x @ v.reshape(-1, 1).expand(-1, 3)),
}


def is_single_pass(kernel: Kernel) -> bool:
    """Return whether a kernel has a loop that reduces each row before it combines the rows."""
    return any(isinstance(s, For) and s.is_undivided for s in kernel.body)


def kernels_of(t: Tensor) -> list[Kernel]:
    return [kernel for _, kernel in preview_kernels([t.storage.node]) if kernel is not None]


def operands(rows: int, columns: int, dtype: DType, *, integers: bool = False) -> list[Tensor]:
    random = np.random.default_rng(rows * columns)
    shapes = ((rows, columns), (columns,), (rows,))
    arrays = [random.integers(-3, 4, shape) if integers else random.normal(size=shape) for shape in shapes]
    if dtype.is_complex:
        arrays = [x + 1j * random.integers(-3, 4, x.shape) for x in arrays]
    return [Tensor._from_node(in_memory(np.asarray(values), dtype)) for values in arrays]


def bits(t: Tensor) -> object:
    array = np.asarray(t)
    return array.shape, array.tobytes()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = tx.num_threads()
    tx.set_num_threads(1)
    yield
    tx.set_num_threads(before)


@pytest.fixture
def _any_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, single_pass={"min_matrix_bytes": 0})


SIZES = [(9, 6), (9, 65), (70, 257), (150, 6)]  # lanes run across rows of up to four elements, also without the first column


@pytest.mark.parametrize("nbytes", [0, 32, 64])
@pytest.mark.parametrize("name", [*ONCE, *FLOATS_ONLY])
def test_single_pass_has_the_bits_of_two_kernels(monkeypatch: pytest.MonkeyPatch, name: str, nbytes: int) -> None:
    nbytes = min(nbytes, current().vector_bytes)
    machine = current()._replace(vector_bytes=nbytes, register_count=32 if nbytes == 64 else 16)
    programs = ONCE | FLOATS_ONLY
    dtype = (float32, float64)[(list(programs).index(name) + (nbytes == 32)) % 2]  # each vector size has both
    for sizes in SIZES:
        results = []
        for matrix in (0, 1 << 40):
            use(monkeypatch, tuned(machine, single_pass={"min_matrix_bytes": matrix, "min_short_rows_bytes": matrix}))
            result = programs[name](*operands(*sizes, dtype))
            assert any(map(is_single_pass, kernels_of(result))) == (matrix == 0)
            results.append(bits(result))
        assert results[0] == results[1], (dtype, sizes)


@pytest.mark.usefixtures("_any_matrix")
@pytest.mark.parametrize(
    ("name", "dtype"), [(name, d) for name in ONCE for d in ALL_DTYPES if d.kind != "bool" and not (d.is_complex and "largest" in name)]
)
def test_single_pass_matches_the_interpreter(name: str, dtype: DType) -> None:
    """The operands are integers, whose sums are equal in any order."""
    for sizes in ((9, 33), (20, 5), (1, 7), (7, 1), *(() if "largest" in name else ((0, 5), (5, 0)))):
        check(ONCE[name](*operands(*sizes, dtype, integers=True)).storage.node)


@pytest.mark.usefixtures("_any_matrix")
class TestSelection:
    @pytest.mark.parametrize("name", ONCE)
    def test_single_pass_kernel_reads_each_row_once(self, name: str) -> None:
        (kernel,) = [kernel for kernel in kernels_of(ONCE[name](*operands(20, 33, float64))) if is_single_pass(kernel)]
        assert kernel.split_axis < 0 and "as a whole" in str(kernel) and "kept0" in str(kernel)

    @pytest.mark.parametrize("name", TWICE)
    def test_other_readers_or_another_matrix_prevent_a_single_pass(self, name: str) -> None:
        assert not any(map(is_single_pass, kernels_of(TWICE[name](*operands(20, 33, float64)))))

    def test_requested_intermediate_prevents_a_single_pass(self) -> None:
        x, v, _ = operands(20, 33, float64)
        u = x @ v
        kernels = preview_kernels([u.storage.node, (x.T @ u).storage.node])
        assert len(kernels) == 2 and not any(is_single_pass(kernel) for _, kernel in kernels if kernel)

    def test_two_products_of_a_matrix_below_the_single_pass_size_are_two_kernels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows, columns = 30, 20
        for matrix, once in ((rows * columns * 8, True), (rows * columns * 8 + 1, False)):
            tune(monkeypatch, single_pass={"min_matrix_bytes": matrix, "min_short_rows_bytes": matrix})
            x, v, _ = operands(rows, columns, float64)
            assert any(map(is_single_pass, kernels_of(x.T @ (x @ v)))) == once

    def test_rows_longer_than_max_row_bytes_prevent_a_single_pass(self) -> None:
        longest = current().single_pass.max_row_bytes // 8
        for columns, once in ((longest, True), (longest + 1, False)):
            x, v = tx.zeros((20, columns)).realize(), tx.zeros(columns).realize()
            assert any(map(is_single_pass, kernels_of(x.T @ (x @ v)))) == once

    def test_columns_shared_by_threads_prevent_a_single_pass(self, monkeypatch: pytest.MonkeyPatch) -> None:
        max_columns = current().thread_limits.min_block_columns
        for threads, columns, once in ((1, max_columns + 1, True), (2, max_columns, True), (2, max_columns + 1, False)):
            use(monkeypatch, tuned(current(), single_pass={"min_matrix_bytes": 0})._replace(threads=threads))
            tx.set_num_threads(threads)
            x, v = tx.zeros((20, columns)).realize(), tx.zeros(columns).realize()
            assert any(map(is_single_pass, kernels_of(x.T @ (x @ v)))) == once

    def test_vector_norm_of_a_single_pass_result_is_a_second_kernel(self) -> None:
        x, v, _ = operands(20, 33, float64)
        first, *others = kernels_of(tx.linalg.norm(x.T @ (x @ v)))
        assert is_single_pass(first) and len(others) == 1

    def test_single_pass_kernels_of_all_shapes_are_equal(self) -> None:
        kernels = {kernels_of(x.T @ (x @ v))[0] for x, v, _ in (operands(*sizes, float64) for sizes in ((20, 33), (9, 256), (100, 5)))}
        assert len(kernels) == 1


@pytest.mark.parametrize("rows", [8, 9, 700])
def test_work_of_a_single_pass_counts_each_row_once(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Each row is read once, not once per column."""
    tune(monkeypatch, single_pass={"min_matrix_bytes": 0})
    x, v, _ = operands(rows, 40, float64)
    root = (x.T @ (x @ v)).storage.node
    target = current()
    kernels = fuse(collect_pending([root]), [root], target)
    _, binding = lower(root, set(kernels), target)
    assert binding.work == rows * 40 + 40
