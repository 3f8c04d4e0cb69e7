"""Column loops in blocks, row buffers and small steps: machine code and interpreter agree for sizes around each limit.

The blocks are made small here, so that the interpreter sees several of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES, DType, bfloat16, boolean, float16, float32, float64, int8, int64, uint16
from tenxor.lowering.cpu import interchange
from tenxor.lowering.ir import For, Kernel, RowStore, Statement
from tenxor.ops.reductions import REDUCTIONS
from tenxor.tensor import Tensor
from tests.machines import tune, vectors

from .graphs import in_memory
from .twins import Array, check

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

WIDE, NARROW = 128, 64  # columns in a block
ROWS = (1, 8, 9, 16, 17)
COLUMNS = (1, 64, 65, 127, 128, 129)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, loops={"block_columns": WIDE, "max_short_row_columns": NARROW, "reread_block_columns": NARROW})


def tensor(values: Any, dtype: DType = float32) -> Tensor:
    return Tensor._from_node(in_memory(np.asarray(values), dtype))


def integers(*shape: int, dtype: DType = float32, seed: int = 0) -> Tensor:
    """Return small integers, whose sums are exact in any order."""
    low = 0 if dtype.kind in ("uint", "bool") else -3
    return tensor(np.random.default_rng(seed).integers(low, 2 if dtype is boolean else 4, shape), dtype)


def close(actual: Array, expected: Array) -> None:
    assert np.allclose(actual, expected, rtol=2e-3 if actual.dtype == np.float16 else 1e-5, atol=1e-6, equal_nan=True)


def agree(*tensors: Tensor, **options: Any) -> list[Kernel]:
    return check(*(t.storage.node for t in tensors), **options)


def count_statements(kernel: Kernel, kind: type) -> int:
    """Return the number of statements of a kind."""

    def count(body: tuple[Statement, ...]) -> int:
        return sum(isinstance(s, kind) + (count(s.body) if isinstance(s, For) else 0) for s in body)

    return count(kernel.body)


def count_row_states(kernels: list[Kernel]) -> int:
    """Return the number of reductions with a row of states."""
    return sum(f.row_axis >= 0 for k in kernels for f in k.accumulators)


class TestColumns:
    @pytest.mark.parametrize("rows", ROWS)
    def test_column_reductions_of_sizes_around_the_block_agree_on_both_back_ends(self, rows: int) -> None:
        for n in COLUMNS:
            x = integers(rows, n, dtype=float64)
            kernels = agree(x.sum(axis=0), x - x.max(axis=0))
            assert bool(count_row_states(kernels)) == (rows > interchange.ROWS_PER_CHUNK and n > 1)

    @pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
    def test_column_reductions_of_every_dtype_agree_on_both_back_ends(self, dtype: DType) -> None:
        x = integers(19, 150, dtype=dtype)
        for name, r in REDUCTIONS.items():
            if name != "prod" and not (r.ordered and (dtype is boolean or dtype.is_complex)):
                assert count_row_states(agree(x._reduce(r, name, 0, False))) == 1

    @pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64], ids=str)
    def test_column_extrema_of_nan_infinities_and_signed_zeros_agree_on_both_back_ends(self, dtype: DType) -> None:
        rng = np.random.default_rng(1)
        for values in ([np.nan, 1, -np.inf], [0.0, -0.0], [-0.0], [np.inf, -np.inf, 0], [-np.inf], [-np.nan, -1]):
            x = tensor(rng.choice(np.array(values), (9, 129)), dtype)
            agree(x.max(axis=0), x.min(axis=0), x.argmax(axis=0), x.argmin(axis=0), x.any(axis=0))

    def test_dependent_column_reductions_agree_on_both_back_ends(self) -> None:
        x, y = integers(20, 150), integers(20, 150, seed=1)
        low, top = x.min(axis=0), x.max(axis=0)
        for t in (
            (x - low) * (top - low),
            tx.abs(x - top).sum(axis=0) + tx.abs(y * top - low).max(axis=0),
            tx.where(tx.abs(x - top).sum(axis=0) > 40, x, y - (x == low).count_nonzero(axis=0).astype(float32)),
        ):
            assert count_row_states(agree(t)) >= 2
        for t in (
            tx.softmax(x, axis=0),
            tx.log_softmax(x, axis=0),
            x.var(axis=0),
            (x - x.mean(axis=0)) / x.std(axis=0),
        ):
            assert count_row_states(agree(t, compare=close)) >= 1

    def test_reductions_over_middle_and_several_axes_agree_on_both_back_ends(self) -> None:
        x = integers(2, 10, 3, 65)
        for axes in ((1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
            agree(x.sum(axis=axes), x - x.max(axis=axes, keepdims=True))

    @pytest.mark.parametrize(
        "view",
        [
            lambda x: x[::-1],
            lambda x: x[:, ::-1],
            lambda x: x[:, ::2],
            lambda x: x[::3, ::3],
            lambda x: x[:, 2::4],
            lambda x: x[:, ::5],
            lambda x: x.oindex[[5, 0, 5, *range(17)], None],
            lambda x: x.oindex[None, [149, 0, 0, *range(70)]],
            lambda x: x[:1].broadcast_to((20, 150)),
            lambda x: x[:, :1].broadcast_to((20, 150)),
            lambda x: x.T.reshape(25, 120),
            lambda x: x.T.reshape(3000)[7:2407].reshape(20, 120),
        ],
    )
    def test_column_reductions_of_views_agree_on_both_back_ends(self, view: Callable[[Tensor], Tensor]) -> None:
        x = view(integers(20, 150))
        agree(x.sum(axis=0), x.max(axis=1), x - x.max(axis=0), x.argmin(axis=0))

    def test_user_column_reductions_agree_on_both_back_ends(self) -> None:
        x = integers(20, 150, dtype=int64)
        for t in (
            tx.reduce(lambda a, e: 3 * a - e, x, axis=0, initial=1),
            tx.reduce(lambda a, e: tx.maximum(a, e * 2), x, axis=0),
            tx.reduce(lambda a, e: 3 * a - e, x - x.sum(axis=0), axis=0, initial=1),
        ):
            assert count_row_states(agree(t)) >= 1

    def test_nested_column_reductions_agree_on_both_back_ends(self) -> None:
        """The inner reduction restarts at each step of the outer one, for each column of the block."""
        x = integers(11, 20, 150, dtype=int64).permute(2, 0, 1)
        t = tx.reduce(lambda a, e: 3 * a - e, x.sum(axis=1), axis=1, initial=1)
        assert count_row_states(agree(t)) == 2

    def test_nested_reduction_of_one_element_agrees_on_both_back_ends(self) -> None:
        """The inner reduction has no loop: it begins and ends in one step."""
        x, y = integers(150, 20, dtype=int64)[:, ::2], integers(10, 150, dtype=int64, seed=1)
        inner = tx.reduce(lambda a, e: tx.minimum(a, e * 2), x[:, :, None], axis=2)
        (kernel,) = agree(tx.reduce(lambda a, e: 3 * a - e, inner + y[:, ::-1].T, axis=1, initial=1))
        assert len(kernel.accumulators) == 2 and count_row_states([kernel]) == 1

    def test_softmax_times_a_column_reduction_is_one_kernel_with_two_kinds_of_buffers(self) -> None:
        """One buffer holds a whole row, the others hold the current block."""
        x, a = integers(3, 300), integers(3, 12, 300, seed=1)
        for t in (
            tx.softmax(x, axis=1) * a.sum(axis=1),
            tx.softmax(x, axis=1) * tx.abs(a - tx.sqrt(x * x + 1)[:, None]).sum(axis=1),
            tx.softmax(x, axis=1) * tx.abs(a - tx.sqrt(x * x + 1).astype(float64)[:, None]).sum(axis=1).astype(float32),
        ):
            (kernel,) = agree(t, compare=close)
            assert count_row_states([kernel]) == 1 and count_statements(kernel, RowStore)

    def test_value_constant_in_the_inner_loop_is_buffered_in_a_row(self) -> None:
        """The buffered value is also read outside of the innermost loop."""
        x, y = integers(5, 9), integers(7, 1, 150).broadcast_to((7, 80, 150))  # with fewer rows a broadcast operand is stored first
        (kernel,) = agree(tx.maximum(y, x.min()).sum(axis=(0, 1)))
        assert count_row_states([kernel]) == 1 and count_statements(kernel, RowStore) == 1


class TestReductionsInsideReductions:
    """Lanes run along one loop of the inner reduction and another of the outer one."""

    @pytest.mark.parametrize("shape", [(3, 5, 70), (2, 70, 33), (1, 9, 40), (3, 2, 200), (2, 3, 1)])
    def test_row_reductions_inside_others_agree_in_machine_code_and_interpreter(self, shape: tuple[int, int, int]) -> None:
        x, y = integers(*shape), integers(*shape[:2], 45, seed=1)
        for inner in (x.max(axis=-1, keepdims=True), y.sum(axis=-1, keepdims=True)):
            agree(tx.abs(x - inner).sum(axis=(1, 2)), (x * inner).max(axis=(1, 2)), (x - inner).count_nonzero())
        agree((x * y.sum(axis=-1, keepdims=True) - x.max(axis=-1, keepdims=True)).sum(axis=(1, 2)))

    def test_two_reductions_over_the_same_axes_agree_on_both_back_ends(self) -> None:
        x, y = integers(3, 9, 40), integers(3, 9, 25, seed=1)
        wide = tx.abs(x - y.max(axis=-1, keepdims=True))
        agree(wide.sum(axis=(1, 2)) - wide.max(axis=(1, 2)))


class TestRowBuffers:
    @pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64], ids=str)
    def test_kernels_with_row_buffers_agree_in_machine_code_and_interpreter(self, dtype: DType) -> None:
        for n in (1, 2, 15, 16, 17, 31, 33, 65):
            e = tx.exp2(integers(2, n, dtype=dtype))  # exact
            (kernel,) = agree(e / e.max(axis=1, keepdims=True))
            assert count_statements(kernel, RowStore) == (n > 1)

    def test_row_buffers_of_several_reductions_agree_on_both_back_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tune(monkeypatch, fusing={"max_repeated_in_passes": 1 << 30})
        x, y = integers(5, 70), integers(5, 70, seed=1)
        a, b = tx.exp2(x), tx.exp2(y).astype(float64)
        t = a / a.sum(axis=1, keepdims=True) - b / (b + a).max(axis=1, keepdims=True)
        (kernel,) = agree(t, compare=close)
        assert count_statements(kernel, RowStore) >= 2


class TestNearSteps:
    @pytest.mark.parametrize("dtype", [boolean, int8, uint16, bfloat16, float16, float32, int64, float64], ids=str)
    @pytest.mark.parametrize("step", [-1, 2, 3, 4])
    def test_rows_read_with_small_steps_are_not_read_past_their_last_element(self, step: int, dtype: DType) -> None:
        """The operands lie between pages without rights, so an access outside of them crashes."""
        for n in (1, 2, 16, 17, 65, 128, 257):
            flat = integers((n - 1) * abs(step) + 1, dtype=dtype, seed=n)  # the last element is read
            kernels = agree(tx.where(flat[::step].astype(boolean), 1, 0), flat[::step].count_nonzero())
            assert n == 1 or all(f"i*{step}]" in str(k) for k in kernels)

    @pytest.mark.parametrize("step", [-1, 2, 3, 4])
    def test_rows_read_with_small_steps_agree_on_both_back_ends(self, step: int) -> None:
        for n in (3, 70):
            x = integers(10, n * abs(step), seed=n)[:, ::step]
            agree(x.sum(axis=1), x.sum(axis=0), x - x.max(axis=1, keepdims=True), tx.cumulative_sum(x, axis=0))

    @pytest.mark.parametrize("vector_bytes", [16, 32, 64])
    def test_column_reductions_with_any_step_and_vector_length_agree_on_both_back_ends(
        self, vector_bytes: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        vectors(monkeypatch, vector_bytes)
        for dtype in (int8, float32, float64):
            x = integers(37, 40, dtype=dtype)
            for step in (-1, 2, 3, 4, 5, -3):
                agree(x[:, ::step].sum(axis=0), x[::step].T.sum(axis=0), x.T[::step].max(axis=0), x[:, ::step] + x[:, :1])
