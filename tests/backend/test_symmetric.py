"""Products of something with itself: half is computed, and all of it has the bits that it would have had."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum
from random import Random

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL, DType, bfloat16, boolean, float16, float32, float64
from tenxor.kernel.fuse import fuse, pending
from tenxor.kernel.ir import Product
from tenxor.kernel.lower import lower
from tenxor.tensor import Tensor
from tests.machines import current, tune, vectors

from .graphs import in_memory
from .pairs import PACKED, SMALL, blocks, whole
from .twins import check, emitted

USES: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda t: t,
    "straight from registers": lambda t: t * 2 + 1,
    "row by row": lambda t: tx.maximum((t * 2 + 1) * 3 - 1, t) + t,
    "as another dtype": lambda t: t.astype(float16),
}


@pytest.fixture(autouse=True)
def however_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, blocks={"mirrored": 1})


def normal(*shape: int, dtype: DType = float32, seed: int = 0) -> Tensor:
    return Tensor._of(in_memory(np.random.default_rng(seed).normal(size=shape), dtype))


def another(x: Tensor) -> Tensor:
    """The same elements in other memory, in the same places of it."""
    return Tensor._of(in_memory(x.to_numpy(), x.dtype))


def products(t: Tensor) -> list[Product]:
    node = t.storage.node
    nodes = fuse(pending([node]), [node], current())
    kernels = [lower(n, set(nodes), current())[0] for n in nodes]
    return [k.product for k in kernels if k.product is not None]


def is_symmetric(x: np.ndarray) -> bool:
    return np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(x.swapaxes(-1, -2)).tobytes()


class TestBothBackEnds:
    """Small whole numbers, whose sums are exact in any order, in blocks so small that the interpreter sees several."""

    @pytest.mark.parametrize("near", [64, 1 << 10])
    @pytest.mark.parametrize("nbytes", [16, 32, 64])
    @pytest.mark.parametrize("use", list(USES))
    def test_every_edge(self, use: str, nbytes: int, near: int, monkeypatch: pytest.MonkeyPatch) -> None:
        blocks(monkeypatch, **SMALL, near=near)
        vectors(monkeypatch, nbytes)
        for n, steps in ((9, 4), (17, 9), (34, 25), (41, 5)):
            x = whole(steps, n, seed=n)
            for t in (x.T @ x, (x + 1).T @ (x + 1)):
                check(USES[use](t).storage.node)

    def test_whatever_it_is_of(self, monkeypatch: pytest.MonkeyPatch) -> None:
        blocks(monkeypatch, **PACKED)
        vectors(monkeypatch, 16)
        for dtype in ALL:
            if dtype is not boolean:
                x = whole(2, 35, 9, dtype=dtype)
                for t in (x @ x.mT, x[:, ::-1, ::2] @ x[:, ::-1, ::2].mT):
                    assert any(p.twins for p in products(t)) == (not dtype.is_complex)
                    check(t.storage.node)

    def test_threads_may_cut_it_anywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        vectors(monkeypatch, 16)
        x = normal(20, 70)
        for use in USES.values():
            node = use(x.T @ x).storage.node
            kernel, binding = lower(node, {node}, current())
            assert kernel.product is not None and kernel.product.twins and kernel.product.shared >= 0
            wanted = emitted(node, kernel, binding).tobytes()
            for cuts in (range(1, binding.split), (3,), (13, 40, binding.split - 1)):
                assert emitted(node, kernel, binding, cuts).tobytes() == wanted


class TestBits:
    """They are those of all results computed one by one, as they are where the other operand is a copy."""

    @pytest.mark.parametrize("seed", range(25))
    def test_of_a_random_product(self, seed: int) -> None:
        draw = Random(seed)
        dtype = draw.choice([float32, float32, float64, float16, bfloat16])
        n, steps = draw.choice([1, 2, 31, 33, 64, 97, 130, 257]), draw.choice([1, 3, 17, 255, 256, 257, 513, 700, 2000])
        batch = draw.choice([(), (), (3,)])
        x = normal(*batch, steps, n, dtype=dtype, seed=seed)
        y = another(x)
        turned = draw.random() < 0.5
        if turned:
            x, y = x.mT.copy().realize().mT, y.mT.copy().realize().mT
        if draw.random() < 0.3:
            x, y = x[..., ::-1, :], y[..., ::-1, :]
        use = USES[draw.choice(list(USES))]
        found, wanted = use(x.mT @ x).to_numpy(), use(x.mT @ y).to_numpy()
        assert found.tobytes() == wanted.tobytes() and is_symmetric(found)

    @pytest.mark.parametrize("n", [65, 100, 240])
    def test_of_one_block_of_rows_with_several_of_columns(self, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first columns take only some of the rows, the others more, and rows are packed once for all columns else."""
        tune(monkeypatch, blocks={"near": 1 << 18, "few": 0, "direct_columns": 16})
        for steps in (256, 500):
            x = normal(steps, n, dtype=float64).mT.copy().realize()
            found, wanted = (x @ x.mT).to_numpy(), (x @ another(x).mT).to_numpy()
            assert found.tobytes() == wanted.tobytes() and is_symmetric(found)
            assert abs(found - x.to_numpy() @ x.to_numpy().T).max() < 1e-9

    @pytest.mark.parametrize("steps", [40, 1000, 40_000])
    def test_on_any_number_of_threads(self, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
        tune(monkeypatch, sharing={"share": 0, "alone": 0})
        before, found = tx.num_threads(), set()
        try:
            for count in (1, 2, 3):
                tx.set_num_threads(count)
                x = normal(steps, 100)
                found.add((x.T @ x).to_numpy().tobytes())
                found.add((x.T @ another(x)).to_numpy().tobytes())
        finally:
            tx.set_num_threads(before)
        assert len(found) == 1

    def test_long_sums_are_near_the_exact_ones(self) -> None:
        for dtype, most in ((float32, 2e-6), (float64, 3e-15)):
            x = normal(40_001, 48, dtype=dtype)
            a = x.to_numpy().astype(np.float64)
            found = (x.T @ x).to_numpy()
            for i, j in ((0, 0), (0, 47), (47, 0), (13, 33), (33, 13), (31, 32)):
                wanted = fsum(a[:, i] * a[:, j])
                size = fsum(abs(a[:, i] * a[:, j]))
                assert abs(found[i, j] - wanted) <= most * size
            assert is_symmetric(found)


@pytest.mark.usefixtures("plain")
class TestWhatAPatternDoesNotSay:
    """Where a view begins, and which number a scalar is: the kernel looks."""

    @pytest.mark.parametrize("first", [False, True])
    def test_other_columns_of_the_same_memory(self, first: bool) -> None:
        x = normal(30, 150)
        a = x.to_numpy().astype(np.float64)

        def close(i: int, j: int) -> None:
            found = (x[:, i : i + 70].T @ x[:, j : j + 70]).to_numpy()
            assert np.allclose(found, a[:, i : i + 70].T @ a[:, j : j + 70], atol=1e-4)

        for i, j in [(10, 10), (0, 80), (80, 0), (80, 80)][:: 1 if first else -1]:
            close(i, j)

    @pytest.mark.parametrize("first", [False, True])
    def test_other_factors(self, first: bool) -> None:
        x = normal(30, 70)
        a = x.to_numpy().astype(np.float64)
        for p, q in [(3.0, 3.0), (3.0, -2.0), (0.5, 0.5)][:: 1 if first else -1]:
            found = ((x + p).T @ (x + q)).to_numpy()
            assert np.allclose(found, (a + p).T @ (a + q), atol=1e-3)

    def test_sizes_that_were_not_square_before(self) -> None:
        for shape in ((20, 70), (33, 64), (40, 129), (64, 64)):
            x, y = normal(*shape), normal(shape[0], 65, seed=1)
            for one, other in ((x, x), (x, y), (y, x), (y, y)):
                found = (one.T @ other).to_numpy()
                assert np.allclose(found, one.to_numpy().astype(np.float64).T @ other.to_numpy(), atol=1e-3)


class TestWhereItGoes:
    def test_into_a_part_of_a_larger_one(self) -> None:
        x = normal(20, 70)
        wanted = (x.T @ another(x)).to_numpy()
        for place in ((slice(5, 75), slice(3, 73)), (slice(5, 75), slice(72, 2, -1)), (slice(0, 140, 2), slice(3, 73))):
            to = tx.zeros((150, 80), dtype=float32) + 1
            to[place] = x.T @ x
            found = to.to_numpy()
            assert found[place].tobytes() == wanted.tobytes()
            assert (found == 1).sum() == found.size - wanted.size

    def test_over_what_it_is_of(self) -> None:
        x = normal(70, 70)
        wanted = (x.T @ another(x)).to_numpy()
        x = x + 0
        x[...] = x.T @ x
        assert x.to_numpy().tobytes() == wanted.tobytes()

    def test_large_results_are_not_read_past_the_caches(self) -> None:
        x = whole(40, 3000)
        a = x.to_numpy()
        assert np.array_equal((x.T @ x).to_numpy(), a.T @ a)
