"""Products of a matrix with itself: half of the result is computed, and all of it has the bits of a full product."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum
from random import Random

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES, DType, bfloat16, boolean, float16, float32, float64
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import Contraction
from tenxor.lowering.lower import lower
from tenxor.tensor import Tensor
from tests.machines import current, tune, vectors

from .graphs import in_memory
from .pairs import PACKED, SMALL, blocks, integers
from .twins import check, emitted

USES: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda t: t,
    "straight from registers": lambda t: t * 2 + 1,
    "row by row": lambda t: tx.maximum((t * 2 + 1) * 3 - 1, t) + t,
    "as another dtype": lambda t: t.astype(float16),
}


@pytest.fixture(autouse=True)
def _mirror_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, blocks={"min_mirrored_steps": 1})


def normal(*shape: int, dtype: DType = float32, seed: int = 0) -> Tensor:
    return Tensor._from_node(in_memory(np.random.default_rng(seed).normal(size=shape), dtype))


def copy_of(x: Tensor) -> Tensor:
    """Return a copy in other memory with the same layout."""
    return Tensor._from_node(in_memory(x.to_numpy(), x.dtype))


def products(t: Tensor) -> list[Contraction]:
    node = t.storage.node
    nodes = fuse(collect_pending([node]), [node], current())
    kernels = [lower(n, set(nodes), current())[0] for n in nodes]
    return [k.contraction for k in kernels if k.contraction is not None]


def is_symmetric(x: np.ndarray) -> bool:
    return np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(x.swapaxes(-1, -2)).tobytes()


class TestBothBackEnds:
    """Both back ends on small integers, whose sums are exact in any order, in small blocks."""

    @pytest.mark.parametrize("near", [64, 1 << 10])
    @pytest.mark.parametrize("nbytes", [16, 32, 64])
    @pytest.mark.parametrize("use", list(USES))
    def test_symmetric_products_around_block_sizes_agree_on_both_back_ends(
        self, use: str, nbytes: int, near: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blocks(monkeypatch, **SMALL, l2_working_bytes=near)
        vectors(monkeypatch, nbytes)
        for n, steps in ((9, 4), (17, 9), (34, 25), (41, 5)):
            x = integers(steps, n, seed=n)
            for t in (x.T @ x, (x + 1).T @ (x + 1)):
                check(USES[use](t).storage.node)

    def test_symmetric_products_of_every_dtype_agree_on_both_back_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        blocks(monkeypatch, **PACKED)
        vectors(monkeypatch, 16)
        for dtype in ALL_DTYPES:
            if dtype is not boolean:
                x = integers(2, 35, 9, dtype=dtype)
                for t in (x @ x.mT, x[:, ::-1, ::2] @ x[:, ::-1, ::2].mT):
                    assert any(p.symmetric_pairs for p in products(t)) == (not dtype.is_complex)
                    check(t.storage.node)

    def test_symmetric_products_may_be_cut_anywhere_between_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        vectors(monkeypatch, 16)
        x = normal(20, 70)
        for use in USES.values():
            node = use(x.T @ x).storage.node
            kernel, binding = lower(node, {node}, current())
            assert kernel.contraction is not None and kernel.contraction.symmetric_pairs and kernel.contraction.shared_axis >= 0
            wanted = emitted(node, kernel, binding).tobytes()
            for cuts in (range(1, binding.split_extent), (3,), (13, 40, binding.split_extent - 1)):
                assert emitted(node, kernel, binding, cuts).tobytes() == wanted


class TestBits:
    """The bits equal those of a full product, with a copy as the other operand."""

    @pytest.mark.parametrize("seed", range(25))
    def test_random_symmetric_product_has_the_bits_of_a_full_one(self, seed: int) -> None:
        draw = Random(seed)
        dtype = draw.choice([float32, float32, float64, float16, bfloat16])
        n, steps = draw.choice([1, 2, 31, 33, 64, 97, 130, 257]), draw.choice([1, 3, 17, 255, 256, 257, 513, 700, 2000])
        batch = draw.choice([(), (), (3,)])
        x = normal(*batch, steps, n, dtype=dtype, seed=seed)
        y = copy_of(x)
        transposed = draw.random() < 0.5
        if transposed:
            x, y = x.mT.copy().realize().mT, y.mT.copy().realize().mT
        if draw.random() < 0.3:
            x, y = x[..., ::-1, :], y[..., ::-1, :]
        use = USES[draw.choice(list(USES))]
        actual, wanted = use(x.mT @ x).to_numpy(), use(x.mT @ y).to_numpy()
        assert actual.tobytes() == wanted.tobytes() and is_symmetric(actual)

    @pytest.mark.parametrize("n", [65, 100, 240])
    def test_one_block_of_rows_and_several_of_columns_have_full_product_bits(self, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first block of columns needs only some of the rows; rows are packed once for all later blocks."""
        tune(monkeypatch, blocks={"l2_working_bytes": 1 << 18, "max_direct_extent": 0, "max_direct_columns": 16})
        for steps in (256, 500):
            x = normal(steps, n, dtype=float64).mT.copy().realize()
            actual, wanted = (x @ x.mT).to_numpy(), (x @ copy_of(x).mT).to_numpy()
            assert actual.tobytes() == wanted.tobytes() and is_symmetric(actual)
            assert abs(actual - x.to_numpy() @ x.to_numpy().T).max() < 1e-9

    @pytest.mark.parametrize("steps", [40, 1000, 40_000])
    def test_symmetric_bits_do_not_depend_on_the_number_of_threads(self, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
        tune(monkeypatch, thread_limits={"min_shared_work": 0, "max_unshared_contraction": 0})
        before, results = tx.num_threads(), set()
        try:
            for count in (1, 2, 3):
                tx.set_num_threads(count)
                x = normal(steps, 100)
                results.add((x.T @ x).to_numpy().tobytes())
                results.add((x.T @ copy_of(x)).to_numpy().tobytes())
        finally:
            tx.set_num_threads(before)
        assert len(results) == 1

    def test_long_symmetric_sums_are_near_exact_ones(self) -> None:
        for dtype, tolerance in ((float32, 2e-6), (float64, 3e-15)):
            x = normal(40_001, 48, dtype=dtype)
            a = x.to_numpy().astype(np.float64)
            actual = (x.T @ x).to_numpy()
            for i, j in ((0, 0), (0, 47), (47, 0), (13, 33), (33, 13), (31, 32)):
                wanted = fsum(a[:, i] * a[:, j])
                size = fsum(abs(a[:, i] * a[:, j]))
                assert abs(actual[i, j] - wanted) <= tolerance * size
            assert is_symmetric(actual)


@pytest.mark.usefixtures("plain")
class TestRuntimeSymmetry:
    """Equality of offsets and scalars, which the kernel checks at run time."""

    @pytest.mark.parametrize("symmetric_first", [False, True])
    def test_views_at_other_offsets_are_not_treated_as_symmetric(self, symmetric_first: bool) -> None:
        x = normal(30, 150)
        a = x.to_numpy().astype(np.float64)

        def close(i: int, j: int) -> None:
            actual = (x[:, i : i + 70].T @ x[:, j : j + 70]).to_numpy()
            assert np.allclose(actual, a[:, i : i + 70].T @ a[:, j : j + 70], atol=1e-4)

        for i, j in [(10, 10), (0, 80), (80, 0), (80, 80)][:: 1 if symmetric_first else -1]:
            close(i, j)

    @pytest.mark.parametrize("symmetric_first", [False, True])
    def test_different_scalars_are_not_treated_as_symmetric(self, symmetric_first: bool) -> None:
        x = normal(30, 70)
        a = x.to_numpy().astype(np.float64)
        for p, q in [(3.0, 3.0), (3.0, -2.0), (0.5, 0.5)][:: 1 if symmetric_first else -1]:
            actual = ((x + p).T @ (x + q)).to_numpy()
            assert np.allclose(actual, (a + p).T @ (a + q), atol=1e-3)

    def test_generic_plan_distinguishes_equal_from_different_operands(self) -> None:
        for shape in ((20, 70), (33, 64), (40, 129), (64, 64)):
            x, y = normal(*shape), normal(shape[0], 65, seed=1)
            for left, right in ((x, x), (x, y), (y, x), (y, y)):
                actual = (left.T @ right).to_numpy()
                assert np.allclose(actual, left.to_numpy().astype(np.float64).T @ right.to_numpy(), atol=1e-3)


class TestTargets:
    def test_symmetric_product_assigned_to_a_view_writes_only_the_view(self) -> None:
        x = normal(20, 70)
        wanted = (x.T @ copy_of(x)).to_numpy()
        for key in ((slice(5, 75), slice(3, 73)), (slice(5, 75), slice(72, 2, -1)), (slice(0, 140, 2), slice(3, 73))):
            target = tx.zeros((150, 80), dtype=float32) + 1
            target[key] = x.T @ x
            actual = target.to_numpy()
            assert actual[key].tobytes() == wanted.tobytes()
            assert (actual == 1).sum() == actual.size - wanted.size

    def test_symmetric_product_overwrites_its_operand(self) -> None:
        x = normal(70, 70)
        wanted = (x.T @ copy_of(x)).to_numpy()
        x = x + 0
        x[...] = x.T @ x
        assert x.to_numpy().tobytes() == wanted.tobytes()

    def test_large_symmetric_results_match_numpy(self) -> None:
        x = integers(40, 3000)
        a = x.to_numpy()
        assert np.array_equal((x.T @ x).to_numpy(), a.T @ a)
