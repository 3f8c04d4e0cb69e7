"""Products: machine code and interpreter agree for all blocks, chunks and tiles, without accesses out of bounds.

Blocks and chunks are small here, so that the interpreter runs several of them. Products of full size are compared with
NumPy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import memory
from tenxor.codegen.llvm.emit_kernel import emit_kernel
from tenxor.dtypes import ALL_DTYPES, DType, bfloat16, boolean, decode_elements, float16, float32, float64, int64
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import Contraction, Kernel
from tenxor.lowering.lower import lower
from tenxor.target import Target
from tenxor.tensor import Tensor
from tests.machines import current, tune, vectors

from .graphs import in_memory
from .pairs import PACKED, SMALL, Pairs, blocks, integers
from .twins import Array, check, emitted, interpreted

VECTORS = (16, 32, 64)  # bytes


def product(t: Tensor) -> Contraction:
    """Return the only product among the kernels of a tensor, after both back ends agree on them."""
    (contraction,) = [k.contraction for k in check(t.storage.node) if k.contraction is not None]
    return contraction


def kernel_of(t: Tensor) -> tuple[Kernel, Any]:
    """Return the only kernel of a pending tensor, and its arguments."""
    node = t.storage.node
    (root,) = fuse(collect_pending([node]), [node], current())
    assert root is node
    return lower(node, {node}, current())


def normal(*shape: int, dtype: DType = float32, seed: int = 0) -> Tensor:
    return Tensor._from_node(in_memory(np.random.default_rng(seed).normal(size=shape), dtype))


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = tx.num_threads()
    tx.set_num_threads(count)
    try:
        yield
    finally:
        tx.set_num_threads(before)


class TestRandomProducts:
    """Random kinds of reductions, operands and readers, from seeds."""

    @pytest.mark.parametrize("seed", range(10))
    def test_random_products_agree_on_both_back_ends(self, seed: int) -> None:
        check(Pairs(seed).result.storage.node)

    @pytest.mark.parametrize("near", [64, 1 << 10])
    @pytest.mark.parametrize("nbytes", VECTORS)
    @pytest.mark.parametrize("seed", range(12))
    def test_random_products_in_small_blocks_agree_on_both_back_ends(
        self, seed: int, nbytes: int, near: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blocks(monkeypatch, **SMALL, l2_working_bytes=near)
        vectors(monkeypatch, nbytes)
        check(Pairs(100 * nbytes + seed).result.storage.node)

    @pytest.mark.parametrize("seed", range(10))
    def test_random_packed_products_agree_on_both_back_ends(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        blocks(monkeypatch, **PACKED, min_loops_per_thread=1)
        check(Pairs(1000 + seed).result.storage.node)

    def test_most_random_programs_contain_products(self) -> None:
        """Else the random tests would test little."""
        has_product = []
        for seed in range(60):
            node = Pairs(seed).result.storage.node
            nodes = fuse(collect_pending([node]), [node], current())
            has_product.append(any(lower(n, set(nodes), current())[0].contraction for n in nodes if n.op is not None and n.buffer is None))
        assert sum(has_product) > 35


class TestFewColumns:
    """Lanes run along the rows or another long axis; results and operands are strided."""

    @pytest.mark.parametrize("nbytes", VECTORS)
    @pytest.mark.parametrize("dtype", [float32, float64, float16, int64], ids=str)
    def test_products_with_few_columns_and_few_steps_agree_on_both_back_ends(
        self, dtype: DType, nbytes: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        vectors(monkeypatch, nbytes)
        for rows, columns, steps in [*product_of_sizes((9, 37), (2, 3, 4), (2, 3)), (70, 7, 4), (1, 3, 3), (3, 3, 3)]:
            a, b = integers(rows, steps, dtype=dtype), integers(steps, columns, dtype=dtype, seed=1)
            for t in (a @ b, a @ b.T.copy().T + 1, a[::-1] @ b[:, ::-1], b.T @ a.T):
                check(t.storage.node)
            batch, other_batch = integers(rows, 3, steps, dtype=dtype), integers(rows, steps, columns, dtype=dtype, seed=2)
            for t in (
                batch @ other_batch,
                batch @ b,
                other_batch.mT @ batch.mT,
                tx.abs(batch[:, :, None] - other_batch.mT[:, None]).sum(axis=-1),
            ):
                check(t.storage.node)

    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_products_with_few_columns_and_more_steps_agree_on_both_back_ends(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        vectors(monkeypatch, nbytes)
        for rows, columns, steps in product_of_sizes((16, 37), (4, 5, 7), (12, 16)):
            a, b = integers(rows, steps), integers(steps, columns, seed=1)
            for t in (a @ b, a @ b * integers(columns), (a.T.copy().T + integers(rows, 1)) @ b):
                product(t)
        product(integers(100, 4) @ integers(4, 4))

    def test_products_with_few_columns_have_the_same_bits_fused_with_readers_and_alone(self) -> None:
        for rows, columns, steps in ((50, 3, 3), (50, 4, 4), (50, 7, 30), (50, 4, 300), (3, 3, 3)):
            a, b = normal(rows, steps), normal(steps, columns, seed=1)
            expected, addend = (a @ b).to_numpy(), normal(columns, rows)
            assert (-(a @ b)).to_numpy().tobytes() == (-expected).tobytes()
            assert ((a @ b).T + addend).to_numpy().tobytes() == (expected.T + addend.to_numpy()).tobytes()
            assert (a @ b).max(axis=-1).to_numpy().tobytes() == expected.max(-1).tobytes()
            assert tx.stack([a @ b, a @ b]).to_numpy().tobytes() == np.stack([expected] * 2).tobytes()
            target = tx.zeros((rows, 9), dtype=float32) * 1
            target[:, 2 : 2 + columns] = a @ b
            assert target.to_numpy()[:, 2 : 2 + columns].tobytes() == expected.tobytes()


def product_of_sizes(*sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*sizes))


class TestNumbers:
    @pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if d.is_integer], ids=str)
    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_integer_products_wrap_exactly(self, dtype: DType, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        vectors(monkeypatch, nbytes)
        rng = np.random.default_rng(0)
        shapes = (13, 20), (20, 35)
        a, b = (rng.integers(dtype.lowest, dtype.highest, s, dtype.numpy, endpoint=True) for s in shapes)
        t = tx.asarray(a) @ tx.asarray(b)
        assert t.dtype is dtype and np.array_equal(t.to_numpy(), a @ b)
        product(tx.asarray(a) @ tx.asarray(b))

    @pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
    def test_narrow_floats_accumulate_in_float32(self, dtype: DType) -> None:
        a, b = normal(13, 300, dtype=dtype), normal(300, 35, dtype=dtype, seed=1)
        wide = (a.astype(float32) @ b.astype(float32)).astype(dtype)
        t = a @ b
        assert t.dtype is dtype and t.tolist() == wide.tolist()

    @pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if d is not boolean], ids=str)
    def test_products_of_every_dtype_agree_on_both_back_ends(self, dtype: DType) -> None:
        a, b = integers(13, 9, dtype=dtype), integers(9, 40, dtype=dtype, seed=1)
        product(a @ b)
        if dtype.is_complex:
            product(tx.contract(a, b, [(1, 0)], multiply=lambda x, y: x - y.conj()))
            product(tx.contract(a, b, [(1, 0)], multiply=lambda x, y: abs(x + 1j * y).round(), add=tx.maximum))
            return
        product(tx.contract(a, b, [(1, 0)], multiply=lambda x, y: x + y, add=tx.maximum))
        product(tx.contract(a, b, [(1, 0)], multiply=tx.minimum, add=tx.multiply))

    @pytest.mark.parametrize("dtype", [boolean, float16, float64], ids=str)
    def test_boolean_contractions_agree_on_both_back_ends(self, dtype: DType) -> None:
        a, b = integers(13, 9, dtype=dtype), integers(9, 140, dtype=dtype, seed=1)
        for add in (tx.logical_or, tx.logical_and):
            product(tx.contract(a, b, [(1, 0)], multiply=tx.logical_and, add=add))

    @pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64], ids=str)
    def test_products_of_nan_infinities_and_signed_zeros_agree_on_both_back_ends(self, dtype: DType) -> None:
        rng = np.random.default_rng(1)
        for values in ([np.nan, 1, -np.inf], [0.0, -0.0], [-0.0], [np.inf, -np.inf, 0]):
            a, b = (tensor(rng.choice(np.array(values), s), dtype) for s in ((7, 5), (5, 35)))
            product(a @ b)
            for add in (tx.maximum, tx.minimum):
                product(tx.contract(a, b, [(1, 0)], multiply=lambda x, y: x + y, add=add))

    @pytest.mark.parametrize("steps", [7, 256, 257, 1000, 16_384, 32_767, 32_768, 40_001])
    def test_error_bound_of_float32_products_does_not_grow_with_the_summed_axis(self, steps: int) -> None:
        """|error| <= c eps sum |a||b|: sums run in chunks, so c does not grow with their length."""
        a, b = (normal(*s, seed=k).to_numpy() for k, s in enumerate(((13, steps), (steps, 35))))
        assert error(a, b) < 2

    @pytest.mark.parametrize("steps", [1000, 100_000])
    def test_float32_products_bound_errors_of_steps_that_round_in_one_direction(self, steps: int) -> None:
        """Each step of a chunk rounds in the same direction; longer sums have more chunks, not longer ones."""
        a, b = np.full((4, steps), 0.1, np.float32), np.ones((steps, 8), np.float32)
        assert error(a, b) < 32

    def test_long_integer_products_are_exact(self) -> None:
        rng = np.random.default_rng(0)
        for steps in (1 << 15, (1 << 15) + 5, 50_000):
            for dtype in (np.int32, np.uint8, np.int64):
                a, b = (rng.integers(0, 100, s).astype(dtype) for s in ((5, steps), (steps, 9)))
                assert np.array_equal((tx.asarray(a) @ tx.asarray(b)).to_numpy(), a @ b)

    @pytest.mark.parametrize("shapes", [((5, 0), (0, 9)), ((0, 5), (5, 9)), ((5, 4), (4, 0)), ((0, 0), (0, 0))], ids=str)
    def test_products_with_axes_of_size_0_match_numpy(self, shapes: tuple[tuple[int, int], ...]) -> None:
        a, b = (np.ones(s, np.float32) for s in shapes)
        t = tx.asarray(a) @ tx.asarray(b)
        assert t.shape == (a @ b).shape and t.tolist() == (a @ b).tolist()

    def test_products_with_axes_of_size_1_match_numpy(self) -> None:
        for shapes in (
            ((5, 1), (1, 9)),
            ((1, 5), (5, 9)),
            ((9, 5), (5, 1)),
            ((1, 9, 1, 5), (5, 12)),
            ((12, 5), (1, 5, 9)),
        ):
            a, b = (integers(*s) for s in shapes)
            check((a @ b).storage.node)
            assert (a @ b).tolist() == (a.to_numpy() @ b.to_numpy()).tolist()


def tensor(values: Array, dtype: DType) -> Tensor:
    return Tensor._from_node(in_memory(values, dtype))


def error(a: Array, b: Array) -> float:
    """Return the largest error of a float32 product, in units of eps times the sum of the magnitudes."""
    actual = (tx.asarray(a) @ tx.asarray(b)).to_numpy().astype(np.float64)
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float((np.abs(actual - a @ b) / (np.abs(a) @ np.abs(b))).max() / np.finfo(np.float32).eps)


class TestUsesOfResults:
    """Readers of results, fused in registers or from a buffer."""

    def test_rows_of_an_operand_added_to_a_product_are_prefetched(self) -> None:
        """The work on results is long here. The rows of an operand with both axes are prefetched for each tile."""
        a, b, c = normal(100, 300), normal(300, 64), normal(100, 64)

        def prefetches(t: Tensor) -> int:
            kernel, _ = kernel_of(t)
            assert kernel.contraction is not None
            takes_columns_alike = Target(32, frozenset({"avx512f"}))
            return emit_kernel(kernel, takes_columns_alike).count("@llvm.prefetch")

        base_count = prefetches(tx.gelu(a @ b))
        assert prefetches(tx.gelu(a @ b + c[0])) == base_count  # a row that all share
        assert prefetches(tx.gelu(a @ b + c)) > base_count
        assert prefetches((a @ b) + c) == prefetches(a @ b)  # which is done from the registers

    @pytest.mark.parametrize("rows", [250, 1000, 3000])
    def test_batched_product_without_packed_operands_needs_no_scratch_memory(self, rows: int) -> None:
        """The results wait on the stack if neither operand is packed."""
        a, b = normal(rows, 8), normal(6, 8, 16, seed=1)
        kernel, binding = kernel_of(tx.tanh(a @ b))
        assert kernel.contraction is not None and kernel.contraction.left.block <= current().blocks.block_rows[1]
        assert not (kernel.contraction.left.is_packed or kernel.contraction.right.is_packed or binding.scratch_bytes)
        expected = np.tanh(a.to_numpy().astype(np.float64) @ b.to_numpy().astype(np.float64))
        np.testing.assert_allclose(tx.tanh(a @ b).to_numpy(), expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("steps", [5, 20])
    @pytest.mark.parametrize("rows", [13, 16, 24, 35])
    def test_row_operand_fused_with_a_product_is_not_read_past_its_end(
        self, rows: int, steps: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The last tile may extend beyond the last row; the operand ends directly before a page without rights."""
        blocks(monkeypatch)
        a, b, row = integers(rows, steps), integers(steps, 17), integers(rows, seed=2)
        assert product(a @ b + row[:, None]).has_single_chunk == (steps == 5)
        product(a @ b + row.oindex[list(range(rows))][:, None])
        product(a @ b * row[::-1, None])

    @pytest.mark.parametrize("steps", [5, 20])
    def test_products_fused_with_operands_of_every_layout_agree_on_both_back_ends(
        self, steps: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blocks(monkeypatch)
        a, b, c = integers(13, steps), integers(steps, 35), integers(35, 26, seed=3)
        for full in (
            c.T[::2],
            c[:, ::-2].T,
            c[:, 13:].T,
            c.T.reshape(910)[5:460].reshape(13, 35),
            c.T.oindex[[0, *range(12)]],
        ):
            product(a @ b - full)
        for column in (c[:, 0], c[::-1, 0], c.oindex[[3, *range(34)], 1], c[:1, 0].broadcast_to(35)):
            product((a @ b) * column)

    def test_products_fused_with_operands_of_every_dtype_agree_on_both_back_ends(self) -> None:
        a, b = integers(13, 5), integers(5, 35)
        for dtype in ALL_DTYPES:
            product(tx.where(a @ b > 0, (a @ b).astype(dtype), integers(13, 35, dtype=dtype)))

    def test_products_are_written_into_views_of_any_layout(self) -> None:
        a, b = integers(13, 6), integers(6, 35)
        wanted = a.to_numpy() @ b.to_numpy()
        for target, view in (
            ((26, 35), lambda t: t[::2]),
            ((26, 35), lambda t: t[::-2]),
            ((35, 13), lambda t: t.T),
            ((13, 70), lambda t: t[:, ::-2]),
            ((35, 26), lambda t: t.T[::2, ::-1]),
            ((13, 35, 2), lambda t: t[..., 1]),
        ):
            t = tx.zeros(target, dtype=float32).realize()
            view(t)[...] = a @ b
            check(t.storage.node)
            assert view(t).tolist() == wanted.tolist() and t.sum().item() == wanted.sum()

    def test_product_overwrites_its_own_operand(self) -> None:
        x, w = integers(16, 16), integers(16, 16, seed=1)
        before, by = x.to_numpy(), w.to_numpy()
        view = x.T
        x @= w
        product = (before[:, :, None] * by).sum(axis=1)  # exact: all are whole
        assert x.tolist() == product.tolist() and view.tolist() == product.T.tolist()
        x += x @ w
        assert x.tolist() == (before @ by + before @ by @ by).tolist()
        x[::2] = x[1::2] @ w
        assert x[::2].tolist() == ((before @ by + before @ by @ by)[1::2] @ by).tolist()

    def test_product_reuses_the_memory_of_an_unreferenced_operand(self) -> None:
        rng = np.random.default_rng(0)
        a, b, c = (rng.integers(-3, 4, s).astype(np.float32) for s in ((600, 50), (50, 500), (600, 500)))
        x, y, z = (tx.asarray(array) for array in (a, b, c))
        address = z.storage.node.buffer.address  # type: ignore[union-attr]
        z += x @ y
        z.realize()
        assert z.storage.node.buffer.address == address  # type: ignore[union-attr]
        assert np.array_equal(z.to_numpy(), c + a @ b)
        q = tx.asarray(rng.integers(-3, 4, (520, 520)).astype(np.float32))
        old = q.to_numpy()
        q += q @ q  # read elsewhere, too
        assert np.array_equal(q.to_numpy(), old + old @ old)

    def test_non_temporal_stores_begin_at_cache_lines_for_any_thread_split(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tune(monkeypatch, streams={"min_result_bytes": 1 << 12, "min_touched_bytes": 1 << 12})
        for t in (integers(8, 5) @ integers(5, 320), integers(320, 5) @ integers(5, 16), integers(20, 8, 5) @ integers(20, 5, 16)):
            kernel, binding = kernel_of(t)
            assert "stream" in str(kernel)
            grain = 3 * kernel.choose_grain(current().thread_limits)
            actual = emitted(t.storage.node, kernel, binding, range(grain, binding.split_extent, grain))
            assert np.array_equal(actual, interpreted(t.storage.node, kernel, binding))


USES: dict[str, Callable[[Tensor], Tensor]] = {
    "with all": lambda t: t + tx.zeros(t.shape, dtype=t.dtype).realize(),
    "with columns": lambda t: t * tx.ones(t.shape[-1], dtype=t.dtype).realize(),
    "with rows": lambda t: t * tx.ones((t.shape[-2], 1), dtype=t.dtype).realize(),
    "with the outermost": lambda t: t * tx.ones((t.shape[0],) + (1,) * (t.ndim - 1), dtype=t.dtype).realize(),
    "transposed": lambda t: (t.mT * tx.ones(t.mT.shape, dtype=t.dtype).realize()).mT,
    "flat": lambda t: (t.reshape(-1) * tx.ones(t.size, dtype=t.dtype).realize()).reshape(t.shape),
    "cast": lambda t: t.astype(float64).astype(t.dtype),
    "with a reduction": lambda t: tx.where(t.max(axis=-1, keepdims=True) < np.inf, t, 0),
    "repeated": lambda t: (t * tx.ones((3, *t.shape), dtype=t.dtype).realize())[1],
    "stored": lambda t: store_in_columns(t),
}


def store_in_columns(t: Tensor) -> Tensor:
    target = tx.zeros((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype).realize()
    target[..., ::2] = t
    return target[..., ::2]


PRODUCTS: dict[str, Callable[[], Tensor]] = {
    "plain": lambda: normal(30, 300) @ normal(300, 50),
    "merged rows": lambda: normal(3, 3, 300) @ normal(300, 50),  # of which no axis alone is long enough
    "merged columns": lambda: tx.contract(normal(5, 300), normal(300, 3, 3, seed=1), [(1, 0)]),
    "batches": lambda: normal(3, 9, 300) @ normal(3, 300, 20),
    "small": lambda: normal(3, 300) @ normal(300, 50),
    "transposed": lambda: normal(300, 30).T @ normal(50, 300).T,
    "split": lambda: (normal(12, 1, 300) * normal(1, 40, 300)).reshape(480, 300).sum(axis=1).reshape(12, 40),
    "distances": lambda: ((normal(30, 1, 300) - normal(50, 300)) ** 2).sum(axis=-1),
    "several": lambda: (normal(6, 1, 9, 40) * normal(10, 9, 40)).sum(axis=(2, 3)),
    "long": lambda: normal(9, 40_000) @ normal(40_000, 9),
}


class TestBits:
    """A sum has equal bits, whatever else its kernel computes and in any thread."""

    @pytest.mark.parametrize("use", list(USES))
    @pytest.mark.parametrize("name", list(PRODUCTS))
    def test_product_has_the_same_bits_fused_into_any_reader_and_alone(self, name: str, use: str) -> None:
        separate, fused = PRODUCTS[name](), USES[use](PRODUCTS[name]())
        assert fused.to_numpy().tobytes() == separate.to_numpy().tobytes()

    @pytest.mark.parametrize("shapes", [((700, 300), (300, 90)), ((40, 300), (300, 2000)), ((30, 60, 70), (30, 70, 80))], ids=str)
    def test_product_bits_do_not_depend_on_the_number_of_threads(
        self, shapes: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tune(monkeypatch, thread_limits={"min_shared_work": 0})
        results = set()
        for count in (1, 2, 3):
            with threads(count):
                a, b = (normal(*s, seed=k) for k, s in enumerate(shapes))
                results.add(((a @ b).to_numpy().tobytes(), tx.maximum(a @ b, 0).to_numpy().tobytes()))
        assert len(results) == 1

    def test_product_bits_do_not_depend_on_block_sizes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Block sizes and packing affect only the time."""
        results = {(normal(70, 300) @ normal(300, 90)).to_numpy().tobytes()}
        for sizes in (
            {"block_rows": (8, 16), "block_columns": (16, 32)},
            {"max_direct_extent": 0, "max_l1_column_bytes": 0, "max_direct_rows": 100},
            {"max_direct_extent": 0, "max_l1_column_bytes": 0, "max_direct_rows": 1, "max_direct_columns": 1},
        ):
            tune(monkeypatch, blocks={"packed_row_bytes": 64, "packed_column_bytes": 64, **sizes})
            t = normal(70, 300) @ normal(300, 90)
            results.add(emitted(t.storage.node, *kernel_of(t)).tobytes())
        assert len(results) == 1


class TestLargeProducts:
    """Products of full size, compared with NumPy. A page without rights follows each operand, the result and the scratch memory."""

    @pytest.mark.parametrize(
        ("rows", "columns", "steps"),
        [(250, 70, 801), (41, 97, 193), (490, 130, 2100), (97, 4200, 24), (40, 96, 400), (1000, 9, 60), (9, 1000, 60)],
    )
    def test_products_of_several_blocks_match_numpy(self, rows: int, columns: int, steps: int) -> None:
        a, b = integers(rows, steps), integers(steps, columns, seed=1)
        wanted = a.to_numpy().astype(np.float64) @ b.to_numpy().astype(np.float64)
        transposed = b.T.copy().realize().T
        for t in (a @ b, a @ transposed, (a + 0) @ b, a.astype(float64) @ b):
            kernel, binding = kernel_of(t)
            assert kernel.contraction is not None
            actual = emitted(t.storage.node, kernel, binding, sorted({binding.split_extent // 3, binding.split_extent // 2 + 1}))
            assert np.array_equal(decode_elements(actual, t.dtype).reshape(wanted.shape), wanted)

    def test_product_allocates_only_its_result_and_packed_operands(self) -> None:
        for dtype, shapes in (
            (float32, ((500, 600), (600, 700))),
            (float16, ((500, 600), (600, 700))),
            (int64, ((90, 6000), (6000, 80))),
        ):
            a, b = (integers(*s, dtype=dtype).realize() for s in shapes)
            (a @ b + 1).realize()  # plans hold memory of their own
            t = a @ b * 3
            _, binding = kernel_of(t)
            before = memory(reset_peak=True).in_use
            t.realize()
            wanted = t.size * dtype.itemsize + (binding.scratch_bytes + current().page_bytes) * tx.num_threads()
            assert memory().peak - before <= wanted * 9 // 8 + current().page_bytes  # the pool hands out round sizes
            assert binding.scratch_bytes <= (a.size + b.size + t.size) * dtype.compute_dtype.itemsize
