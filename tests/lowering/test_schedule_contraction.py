"""Selection of reductions as products (contractions), packing of their operands, and fusion with their readers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import bfloat16, float16, float32, float64, int8
from tenxor.graph.node import STORE
from tenxor.graph.reduction_limits import MAX_SHORT_STEPS, MIN_CONTRACTION_SIZES, STEPS_PER_CHUNK
from tenxor.lowering import match_contraction, predict_contraction
from tenxor.lowering.ir import Contraction, Kernel, Store
from tenxor.lowering.lower import lower
from tenxor.runtime import plan_lowering
from tenxor.runtime.planner import preview_kernels
from tenxor.tensor import Tensor
from tests.machines import tuned

from .helpers import TARGET

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too


def ones(*shape: int, dtype: object = float32) -> Tensor:
    return tx.ones(shape, dtype=dtype).realize()


def kernels_of(*tensors: Tensor) -> list[Kernel]:
    return [kernel for _, kernel in preview_kernels([t.storage.node for t in tensors]) if kernel is not None]


def kernel_of(t: Tensor) -> Kernel:
    (kernel,) = kernels_of(t)
    return kernel


def product_of(t: Tensor) -> Contraction:
    """The product of the only kernel."""
    product = kernel_of(t).contraction
    assert product is not None
    return product


MAX_UNPACKED_ROWS, MAX_LINES, DIRECT_BYTES = (
    TARGET.blocks.max_direct_extent,
    TARGET.blocks.max_unpacked_lines,
    TARGET.blocks.max_direct_bytes,
)
CACHED_ROWS = 2 * DIRECT_BYTES // (4 * (MAX_LINES + 1))  # rows of so many steps that the second cache holds
DIRECT_ROWS, DIRECT_COLUMNS = TARGET.blocks.max_direct_rows, TARGET.blocks.max_direct_columns
A, B = ones(20, 30), ones(30, 50)
REDUCTIONS: dict[str, Callable[[], Tensor]] = {
    "matmul": lambda: A @ B,
    "integers": lambda: A.astype(int8).realize() @ B.astype(int8).realize(),
    "batches": lambda: ones(3, 1, 20, 30) @ ones(2, 30, 50),
    "distances": lambda: ((A[:, None] - B.T[None]) ** 2).sum(axis=-1),
    "tropical": lambda: tx.contract(A, B, [(1, 0)], multiply=lambda x, y: x + y, add=tx.maximum),
    "any": lambda: tx.contract(A > 0, B > 0, [(1, 0)], multiply=tx.logical_and, add=tx.logical_or),
    "the user's own": lambda: tx.contract(A, B, [(1, 0)], add=lambda x, y: tx.where(x < y, x, y)),
    "counts": lambda: (A[:, None] < B.T[None]).count_nonzero(axis=-1),
    "itself": lambda: A @ A.T,
    "several axes": lambda: (ones(20, 1, 5, 6) * ones(50, 5, 6)).sum(axis=(2, 3)),
}


class TestProductMatching:
    @pytest.mark.parametrize("name", list(REDUCTIONS))
    def test_reductions_over_pairs_become_products(self, name: str) -> None:
        kernels = kernels_of(REDUCTIONS[name]())
        assert kernels[-1].contraction is not None

    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_products_need_minimal_sizes(self, axis: int) -> None:
        sizes = list(MIN_CONTRACTION_SIZES)
        rows, columns, steps = sizes
        assert kernel_of(ones(rows, steps) @ ones(steps, columns)).contraction is not None
        sizes[axis] -= 1
        rows, columns, steps = sizes
        assert kernel_of(ones(rows, steps) @ ones(steps, columns)).contraction is None

    def test_other_reductions_do_not_become_products(self) -> None:
        x, mask = ones(20, 30), ones(20, 50, 30)
        for t in (
            x.sum(axis=1),
            mask.sum(axis=-1),
            (A[:, None] * B.T[None] * mask).sum(axis=-1),  # something depends on both
            (A[:, None] + ones(50)[None, :, None]).sum(axis=-1),  # the right side is the same at all steps
            (A[:, None] * B.T[None]).argmax(axis=-1),  # positions count
            A @ ones(30),
            (ones(20, 30) * ones(20, 30)).sum(axis=1),
        ):
            assert all(kernel.contraction is None for kernel in kernels_of(t))

    def test_rows_or_columns_of_several_short_axes_form_a_product(self) -> None:
        assert product_of(ones(2, 2, 9) @ ones(9, 8)).left.axis >= 0
        assert product_of(tx.contract(ones(4, 9), ones(9, 4, 2), [(1, 0)])).right.axis >= 0

    @pytest.mark.parametrize(
        ("columns", "along_rows", "swapped"),
        [(4, False, False), (2, False, False), (4, True, True), (2, True, True), (5, True, False)],
    )
    def test_few_columns_swap_sides_if_rows_are_strided_like_columns(self, columns: int, along_rows: bool, swapped: bool) -> None:
        left = ones(12, 100).T if along_rows else ones(100, 12)
        t = left @ ones(12, columns)
        kernel, binding = lower(t.storage.node, {t.storage.node}, TARGET)
        assert kernel.contraction is not None
        sides = [binding.sizes[kernel.axes[side.axis].extent] for side in (kernel.contraction.left, kernel.contraction.right)]
        assert sides == ([columns, 100] if swapped else [100, columns])

    def test_few_results_of_many_steps_are_no_product(self) -> None:
        assert kernel_of(ones(3, MAX_SHORT_STEPS) @ ones(MAX_SHORT_STEPS, 3)).contraction is not None
        assert kernel_of(ones(3, MAX_SHORT_STEPS + 1) @ ones(MAX_SHORT_STEPS + 1, 3)).contraction is None
        assert kernel_of(ones(5, 100) @ ones(100, 5)).contraction is not None
        for steps in (10, 100):  # lanes run along the steps
            assert kernel_of(ones(5, steps) @ ones(5, steps).T).contraction is None
        assert kernel_of(ones(8, 100) @ ones(8, 100).T).contraction is not None

    @pytest.mark.parametrize(
        "t",
        [
            lambda: ones(100, 3) @ ones(3, 3),
            lambda: ones(100, 3, 3) @ ones(100, 3, 3),
            lambda: ones(3, 3) @ ones(100, 3, 1),
            lambda: (ones(40, 1, 2) - ones(1, 50, 2)).sum(axis=-1),
        ],
    )
    def test_lanes_run_along_the_longest_axis_if_there_are_few_steps(self, t: Callable[[], Tensor]) -> None:
        """A row of three elements would use only three lanes."""
        node = t().storage.node
        kernel, binding = lower(node, {node}, TARGET)
        (lane,) = [axis for axis in kernel.axes if axis.vector]
        assert kernel.contraction is None and binding.sizes[lane.extent] == max(node.shape)

    def test_reshaped_rows_and_columns_still_form_a_product(self) -> None:
        flat = (ones(12, 1, 30) * ones(1, 40, 30)).reshape(480, 30).sum(axis=1)
        assert product_of(flat).left.axis != product_of(flat).right.axis


class TestOperandPacking:
    @pytest.mark.parametrize(
        ("steps", "rows"), [(MAX_LINES, 4000), (MAX_LINES + 1, 4000), (MAX_LINES + 1, CACHED_ROWS), (MAX_LINES + 1, CACHED_ROWS + 1)]
    )
    def test_rows_are_packed_if_many_steps_lie_in_separate_cache_lines(self, steps: int, rows: int) -> None:
        """The gradient of a weight has such rows. They stay unpacked if a cache holds all of them."""
        product = product_of(ones(steps, rows).T @ ones(steps, 100))
        assert product.left.is_packed == (steps > MAX_LINES and steps * rows * 4 > 2 * DIRECT_BYTES)
        assert not product_of(ones(rows, steps) @ ones(steps, 100)).left.is_packed

    @pytest.mark.parametrize("columns", [DIRECT_COLUMNS, DIRECT_COLUMNS + 1])
    @pytest.mark.parametrize("rows", [DIRECT_ROWS, DIRECT_ROWS + 1])
    def test_operands_are_packed_if_read_often(self, rows: int, columns: int) -> None:
        t = ones(rows, 30) @ ones(30, columns)
        product = lower(t.storage.node, {t.storage.node}, tuned(TARGET, blocks={"max_direct_extent": 0, "max_l1_column_bytes": 0}))[
            0
        ].contraction
        assert product is not None
        assert (product.left.is_packed, product.right.is_packed) == (columns > DIRECT_COLUMNS, rows > DIRECT_ROWS)

    @pytest.mark.parametrize(
        ("shapes", "packed"),
        [
            (((100, 100), (100, 100)), (False, False)),
            (((MAX_UNPACKED_ROWS, 150), (150, MAX_UNPACKED_ROWS)), (False, False)),
            (((MAX_UNPACKED_ROWS, 150), (150, MAX_UNPACKED_ROWS + 1)), (True, False)),
            (((MAX_UNPACKED_ROWS + 1, 150), (150, MAX_UNPACKED_ROWS)), (False, True)),
            (((MAX_UNPACKED_ROWS, 250), (250, MAX_UNPACKED_ROWS)), (False, True)),  # they are more than half of the second cache
            (((3000, 1000), (1000, 100)), (False, True)),  # however many rows there are
            (((100, 1024), (1024, 100)), (True, True)),  # rows would share a few places of the nearest cache
            (((1000, 100, 100), (1000, 100, 100)), (False, False)),  # the next is asked for meanwhile
            (((100, 250, 250), (100, 250, 250)), (True, True)),  # of which no near cache would hold all: memory is read in order
        ],
    )
    def test_small_operands_are_not_packed(self, shapes: tuple[tuple[int, ...], tuple[int, ...]], packed: tuple[bool, bool]) -> None:
        a, b = (ones(*shape) for shape in shapes)
        node = (a @ b).storage.node
        kernel, binding = lower(node, {node}, TARGET)
        assert kernel.contraction is not None
        assert (kernel.contraction.left.is_packed, kernel.contraction.right.is_packed) == packed
        assert (binding.scratch_bytes == 0) == (packed == (False, False))

    @pytest.mark.parametrize(("steps", "rows", "packed"), [(64, 256, True), (64, 512, True), (32, 256, False), (64, 250, False)])
    def test_rows_are_packed_if_their_steps_conflict_in_the_cache(self, steps: int, rows: int, packed: bool) -> None:
        assert product_of(ones(steps, rows).T @ ones(steps, 200)).left.is_packed == packed

    def test_operands_are_packed_if_strides_or_dtypes_do_not_fit_registers(self) -> None:
        def packed(t: Tensor) -> tuple[bool, bool]:
            product = product_of(t)
            return product.left.is_packed, product.right.is_packed

        assert packed(A @ B) == packed(A.T[:, :20].T @ B) == packed(A[::2] @ B) == (False, False)
        assert packed(A @ ones(50, 30).T) == (False, True)
        assert packed(A @ ones(30, 100)[:, ::2]) == (False, True)
        assert packed((A + 1) @ B) == (True, False)
        assert packed(A @ (B * 2)) == (False, True)
        for dtype in (float16, bfloat16, int8):
            assert packed(ones(20, 30, dtype=dtype) @ ones(30, 50, dtype=dtype)) == (True, True)
        products = ones(20, 1, 5, 6) * ones(50, 6, 5).permute(0, 2, 1)
        assert packed(products.sum(axis=(2, 3)))[1]

    def test_operand_computes_all_that_depends_on_it_alone(self) -> None:
        product = product_of((A * 2 + 1) @ (B * ones(50)))
        assert len(product.left.values) == len(product.right.values) == 1
        product = product_of(((A[:, None] - B.T[None]) ** 2).sum(axis=-1))
        assert [len(side.values) for side in (product.left, product.right)] == [1, 1]

    def test_products_of_all_shapes_share_a_kernel(self) -> None:
        first = kernel_of(A @ B)
        for rows, columns, steps in ((4, 8, 5), (40, 96, 192), (17, 33, 9), (150, 200, 100)):
            assert kernel_of(ones(rows, steps) @ ones(steps, columns)) == first
        large = kernel_of(ones(100, 300) @ ones(300, 200))
        assert large != first and kernel_of(ones(1000, 201) @ ones(201, 999)) != first


class TestFusionWithReaders:
    @pytest.mark.parametrize(
        "use",
        [
            lambda t: t + ones(50),
            lambda t: t + ones(20, 1),
            lambda t: t * ones(20, 50),
            lambda t: tx.maximum(t, 0) * 2,
            lambda t: t.astype(float64),
            lambda t: tx.tanh(t + ones(50)),
            lambda t: t + ones(50, 20).T,
            lambda t: t - 1,
        ],
    )
    def test_elementwise_work_fuses_into_the_product(self, use: Callable[[Tensor], Tensor]) -> None:
        (store,) = product_of(use(A @ B)).body
        assert isinstance(store, Store)

    def test_work_between_two_products_is_one_kernel(self) -> None:
        for t in (tx.softmax(A @ B) @ ones(50, 20), tx.softmax(ones(3, 20, 30) @ B) @ ones(3, 50, 20) + 1):
            assert [kernel.contraction is not None for kernel in kernels_of(t)] == [True, False, True]

    @pytest.mark.usefixtures("plain")
    def test_store_fuses_into_product_unless_it_overwrites_an_operand(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernels: list[Kernel] = []

        def lowered(*args: object) -> tuple[Kernel, object]:
            kernel_and_binding = lower(*args)  # type: ignore[arg-type]
            kernels.append(kernel_and_binding[0])
            return kernel_and_binding

        monkeypatch.setattr(plan_lowering, "lower", lowered)
        rows = tx.arange(600, dtype=tx.float32).reshape(20, 30).realize()
        out = tx.zeros((20, 106), dtype=tx.float32).realize()
        kernels.clear()
        out[:, 3:103:2] = rows @ B + 1
        assert [kernel.contraction is not None for kernel in kernels] == [True]
        assert np.array_equal(out.to_numpy()[:, 3:103:2], rows.to_numpy() @ B.to_numpy() + 1)
        assert out.to_numpy()[:, ::2].max() == 0 == out.to_numpy()[:, 103:].max()
        x = rows[:, :20].copy().realize()
        wanted = x.to_numpy() @ x.to_numpy()
        kernels.clear()
        x[:, ::-1] = x @ x
        assert [kernel.contraction is not None for kernel in kernels] == [True, False]
        assert np.array_equal(x.to_numpy()[:, ::-1], wanted)

    def test_product_has_a_single_chunk_up_to_the_limit_of_steps(self) -> None:
        assert product_of(ones(20, STEPS_PER_CHUNK) @ ones(STEPS_PER_CHUNK, 50) + 1).has_single_chunk
        assert not product_of(ones(20, STEPS_PER_CHUNK + 1) @ ones(STEPS_PER_CHUNK + 1, 50) + 1).has_single_chunk

    @pytest.mark.parametrize(
        "use",
        [
            lambda t: t.sum(axis=1),
            lambda t: tx.softmax(t, axis=1),
            lambda t: t - t.mean(axis=0),
            lambda t: t @ ones(50, 40),
            lambda t: t.cumulative_sum(axis=1),
            lambda t: t + A @ B.realize()[:, ::-1],
            lambda t: t + ones(3, 20, 50),
        ],
    )
    def test_product_with_other_readers_is_its_own_kernel(self, use: Callable[[Tensor], Tensor]) -> None:
        assert kernel_of(A @ B) in kernels_of(use(A @ B))

    @pytest.mark.parametrize(
        "use",
        [
            lambda t: t + ones(20, 7) @ ones(7, 50),
            lambda t: tx.tanh(ones(20, 7) @ ones(7, 50) + t + ones(50)),
            lambda t: tx.sigmoid(t) * (A @ ones(30, 50)),
            lambda t: t * ones(20, 90).sum(axis=1, keepdims=True),
            lambda t: t * ones(90).sum(),
        ],
    )
    def test_reader_of_two_kernels_fuses_into_a_product(self, use: Callable[[Tensor], Tensor]) -> None:
        first, last = kernels_of(use(A @ B))
        assert last.contraction is not None
        assert kernel_of(A @ B) in (first, last) or first.contraction is None

    def test_reader_does_not_fuse_if_a_softmax_would_be_computed_twice(self) -> None:
        """Both kernels would compute the exponentials of the softmax."""
        first, last = kernels_of((A @ B) * tx.softmax(ones(20, 50), axis=1))
        assert first == kernel_of(A @ B) and last.contraction is None

    @pytest.mark.parametrize(
        "view",
        [
            lambda t: t[0, 3:23, 5:55],
            lambda t: t[:20, 7, :50],
            lambda t: t[1, :20, 49::-1],
            lambda t: t[3].oindex[[*range(10), *range(19, 9, -1)], 0:50],
            lambda t: t[2, :50, :20].T,
            lambda t: t[2, :20, :100:2],
            lambda t: t[4].oindex[0:20, [*range(0, 50, 2), *range(1, 50, 2)]],
        ],
    )
    def test_product_is_written_directly_into_a_view(self, view: Callable[[Tensor], Tensor]) -> None:
        a, b = tx.arange(600).reshape(20, 30), tx.arange(1500).reshape(30, 50)
        target = tx.arange(20 * 60 * 120).reshape(20, 60, 120) * 1
        view(target)[...] = a @ b
        (kernel,) = [kernel for node, kernel in preview_kernels([target.storage.node]) if node.op is STORE and kernel is not None]
        assert kernel.contraction is not None
        other = tx.arange(20 * 60 * 120).reshape(20, 60, 120) * 1
        view(other)[...] = (a @ b).realize()
        assert target.tolist() == other.tolist() and view(target).tolist() == (a @ b).tolist()

    @pytest.mark.parametrize("shape", [(3, 3), (3, 3, 3)], ids=str)
    def test_product_with_rows_of_several_axes_is_its_own_kernel(self, shape: tuple[int, ...]) -> None:
        x = ones(*shape, 30)
        assert kernel_of(x @ B).contraction is not None
        assert kernel_of(x @ B) in kernels_of(tx.softmax(x @ B, axis=-1))

    def test_product_is_its_own_kernel_if_its_reader_splits_the_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Merged, the two axes have nine rows; apart, each has three, too few for a product."""
        for module in (match_contraction, predict_contraction):
            monkeypatch.setattr(module, "MIN_CONTRACTION_SIZES", (4, 4, 4))
        x = ones(3, 3, 30)
        first, second = kernels_of(x @ B + ones(3, 1, 50))
        assert first == kernel_of(x @ B) and first.contraction is not None and second.contraction is None


class TestThreads:
    def test_threads_share_rows_columns_or_outer_loops(self) -> None:
        for t, side in ((ones(80, 9) @ B[:9], "left"), (A @ ones(30, 80), "right")):
            kernel = kernel_of(t)
            assert kernel.contraction is not None and kernel.shared_axis == getattr(kernel.contraction, side).axis
        for threads in (1, 3):
            few, many = TARGET.blocks.min_loops_per_thread * threads - 1, TARGET.blocks.min_loops_per_thread * threads
            node, other = ((ones(n, 20, 30) @ ones(n, 30, 50)).storage.node for n in (few, many))
            assert lower(node, {node}, TARGET.with_threads(threads))[0].contraction.shared_axis >= 0  # type: ignore[union-attr]
            kernel, _ = lower(other, {other}, TARGET.with_threads(threads))
            assert kernel.contraction is not None and kernel.contraction.shared_axis == -1 and kernel.shared_axis == 0
            assert kernel.choose_grain(TARGET.thread_limits) == 1

    def test_thread_chunks_are_whole_tiles_or_cache_lines(self) -> None:
        assert kernel_of(ones(80, 9) @ B[:9]).choose_grain(TARGET.thread_limits) == TARGET.thread_limits.row_grain
        assert kernel_of(A @ ones(30, 80)).choose_grain(TARGET.thread_limits) == TARGET.thread_limits.step_grain


def test_product_has_blocks_of_steps_if_its_accumulators_exceed_the_cache() -> None:
    """The case is about as many steps as rows and columns, and more states than a near cache holds."""
    for rows, steps, columns, steps_first in (
        (1000, 1000, 1000, False),
        (700, 1100, 900, False),
        (500, 1000, 500, True),
        (1000, 2100, 1000, True),
        (60, 2000, 9000, True),
    ):
        node = (ones(rows, steps) @ ones(steps, columns)).storage.node
        kernel, _ = lower(node, {node}, TARGET)
        assert kernel.contraction is not None and kernel.contraction.has_step_blocks == steps_first


def test_steps_are_outermost_if_few_columns_reread_distant_rows() -> None:
    """The case is `x.T @ z` with an `x` larger than the second cache; a smaller `x` is read by panels."""
    for rows, steps_first in ((TARGET.blocks.l2_working_bytes // 400 + 1, True), (TARGET.blocks.l2_working_bytes // 400 * 9 // 10, False)):
        node = (ones(rows, 100).T @ ones(rows, 4)).storage.node
        kernel, _ = lower(node, {node}, TARGET)
        assert kernel.contraction is not None and not (kernel.contraction.left.is_packed or kernel.contraction.right.is_packed)
        assert kernel.contraction.has_step_blocks == steps_first


def test_blocks_fit_the_caches() -> None:
    for steps in (10, 500, 10_000):
        node = (ones(900, steps) @ ones(steps, 9000)).storage.node
        kernel, binding = lower(node, {node}, TARGET)
        assert kernel.contraction is not None
        rows, columns = (binding.sizes[side.block] for side in (kernel.contraction.left, kernel.contraction.right))
        assert kernel.contraction.has_step_blocks == (steps == 10_000)
        if kernel.contraction.has_step_blocks:
            near = 2 * TARGET.blocks.l2_working_bytes
            assert rows * columns * 4 <= TARGET.blocks.packed_row_bytes and max(rows, columns) * STEPS_PER_CHUNK * 4 <= near
            assert (
                -(-900 // rows) == 1
                and -(-9000 // columns) == 9
                and binding.scratch_bytes <= 2 * near + TARGET.blocks.packed_row_bytes + (1 << 19)
            )
            continue
        few = TARGET.contraction_tile(1).mr[0]
        for size, (least, most), nbytes in (
            (rows, (few, few) if steps == 10 else TARGET.blocks.block_rows, TARGET.blocks.packed_row_bytes),
            (columns, TARGET.blocks.block_columns, TARGET.blocks.packed_column_bytes),
        ):
            assert least <= size <= most and size % least == 0 and (size == least or size * steps * 4 <= nbytes)
        assert binding.scratch_bytes >= (rows + columns) * steps * 4


def test_product_kernel_prints_as_text() -> None:
    _, *lines = str(kernel_of((A + 1) @ B + ones(50))).splitlines()
    assert lines == [
        "  product for i in 0..s0, j in 0..s1, over k:",
        "    left0[i, k] = packed (p2[i*s4 + k] + c0)",
        "    right0[j, k] = p3[j + k*s6]",
        "    r0[i, j] = (r0 + (left0 * right0))",
        "    p0[i*s3 + j] = (r0[j] + p1[j])",
    ]


@pytest.mark.parametrize("swapped", [False, True])
def test_matmul_of_complex_and_real_keeps_the_products_with_imaginary_zero(swapped: bool) -> None:
    """Each product is rounded once, also with an imaginary part of 0. The result does not depend on when a matrix became complex."""
    x, y = ones(30, 30, dtype=tx.complex128), ones(30, 30, dtype=float64)
    product = product_of(y @ x if swapped else x @ y)
    value_counts = [len(side.values) for side in (product.left, product.right)]
    assert value_counts == ([1, 2] if swapped else [2, 1])
    assert "* 0.0" in str(product.values) or "0.0 *" in str(product.values)


def test_constant_matrix_is_an_ordinary_operand() -> None:
    *_, product = kernels_of(tx.full((20, 30), 0.5) @ B)
    assert product.contraction is not None
    (large,) = kernels_of(tx.full((2000, 3000), 0.5).sum(axis=1))  # but what is large, and read once, is never stored
    assert large.contraction is None


def test_positions_are_packed_operands_without_memory() -> None:
    counted = tx.arange(96).reshape((8, 12))
    product = kernel_of(counted @ counted.T).contraction
    assert product is not None and product.left.is_packed and product.right.is_packed
    rows = [range(12 * i, 12 * i + 12) for i in range(8)]
    assert (counted @ counted.T).tolist() == [[sum(map(int.__mul__, a, b)) for b in rows] for a in rows]
