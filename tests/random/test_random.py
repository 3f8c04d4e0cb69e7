"""Random numbers: the published vectors, repeatable draws, and distributions that look as they should."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tenxor as tx
from tenxor.backend.llvm.compiler import counts
from tenxor.dtypes import uint64
from tenxor.node import Node, Scalar
from tenxor.ops import OPS
from tenxor.plan import planned
from tenxor.tensor import Tensor

# Known answers for philox4x32 with 10 rounds, from the Random123 distribution: counter, key, block.
VECTORS = (
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
)


def joined(words: str) -> list[int]:
    """32-bit words in pairs, the low one first."""
    w = [int(x, 16) for x in words.split()]
    return [low | high << 32 for low, high in zip(w[::2], w[1::2], strict=True)]


@pytest.mark.parametrize(("counter", "key", "block"), VECTORS)
def test_the_published_vectors(counter: str, key: str, block: str) -> None:
    (position, stream), (k,) = joined(counter), joined(key)
    for name, bits in zip(("random_bits", "random_bits_high"), joined(block), strict=True):
        sources = (Scalar(position, uint64), Scalar(stream, uint64), Scalar(k, uint64))
        drawn = Tensor.of(Node(OPS[name], (77,), uint64, sources, (None, None, None)))
        assert set(drawn.tolist()) == {bits}


def test_draws_repeat_and_do_not_overlap() -> None:
    a, b = tx.random.Generator(5), tx.random.Generator(5)
    first, second = a.uniform(1000).tolist(), a.uniform(1000).tolist()
    assert first == b.uniform(1000).tolist()
    assert second == b.uniform(1000).tolist()
    assert len({*first, *second}) == 2000
    assert tx.random.Generator(6).uniform(1000).tolist() != first


def test_the_same_numbers_in_another_process() -> None:
    code = "import tenxor as tx; print(tx.random.Generator(3).normal(4).tolist())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(tx.random.Generator(3).normal(4).tolist())


def test_the_same_numbers_however_many_threads_and_however_fused() -> None:
    before = tx.num_threads()
    try:
        drawn = []
        for threads in (1, 3):
            tx.set_num_threads(threads)
            drawn.append(tx.random.Generator(1).uniform(1 << 20).to_numpy())
    finally:
        tx.set_num_threads(before)
    assert np.array_equal(*drawn)
    part = tx.random.Generator(1).uniform(1 << 20)[5:100:7] * 1.0
    assert np.array_equal(part.to_numpy(), drawn[0][5:100:7])


def test_a_draw_is_fused_and_a_new_seed_compiles_nothing() -> None:
    total = tx.random.Generator(1).uniform(1000).sum()
    assert len(planned([total.storage.node])) == 1
    total.realize()
    before = counts()
    for k in range(5):
        tx.random.Generator(k).uniform(1000 + k).sum().realize()
    assert counts() == before


@pytest.mark.parametrize("dtype", [tx.float32, tx.float64])
def test_uniform_numbers_fill_their_range_evenly(dtype: tx.DType) -> None:
    x = tx.random.Generator(2).uniform(200_000, -1.0, 1.0, dtype=dtype).to_numpy()
    assert x.dtype == dtype.numpy
    assert x.min() >= -1
    assert x.max() < 1
    counted = np.histogram(x, 100, (-1, 1))[0]
    assert ((counted - 2000) ** 2 / 2000).sum() < 150  # chi-square of 99 degrees: 149 is its 99.9 %


def test_normal_numbers_have_the_moments_of_a_normal_distribution() -> None:
    x = tx.random.Generator(2).normal(400_000, 3.0, 2.0).to_numpy()
    z = (x - 3) / 2
    assert abs(z.mean()) < 0.01
    assert abs(z.var() - 1) < 0.01
    assert abs((z**3).mean()) < 0.03
    assert abs((z**4).mean() - 3) < 0.06


def test_integers_are_in_range_and_evenly_likely() -> None:
    x = tx.random.Generator(4).integers(-3, 4, 70_000).to_numpy()
    values, counted = np.unique(x, return_counts=True)
    assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert ((counted - 10_000) ** 2 / 10_000).sum() < 22.5  # chi-square of 6 degrees: 99.9 %
    assert set(tx.random.Generator(4).integers(0, 1, 100, endpoint=True).tolist()) == {0, 1}
    whole = tx.random.Generator(4).integers(-(2**63), 2**63, 1000).to_numpy()
    assert (whole < 0).any()
    assert (whole > 2**62).any()


def test_permutations() -> None:
    order = tx.random.Generator(9).permutation(1000).tolist()
    assert sorted(order) == list(range(1000))
    assert order != list(range(1000))
    rows = tx.arange(12).reshape(4, 3)
    mixed = tx.random.Generator(9).permutation(rows)
    assert sorted(mixed.tolist()) == rows.tolist()


@pytest.mark.parametrize(
    ("draw", "error", "says"),
    [
        (lambda g: g.uniform(3, 2.0, 1.0), tx.errors.ArgumentError, "low 2.0"),
        (lambda g: g.uniform(-1), tx.errors.ShapeError, "negative"),
        (lambda g: g.uniform(3, dtype=tx.int32), tx.errors.DTypeError, "int32"),
        (lambda g: g.integers(5, 5), tx.errors.ArgumentError, "below 5"),
        (lambda g: g.integers(0, 300, dtype=tx.uint8), tx.errors.ArgumentError, "uint8"),
        (lambda g: g.normal(3, std=-1.0), tx.errors.ArgumentError, "std"),
        (lambda g: tx.random.Generator(-1), tx.errors.ArgumentError, "seed"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(draw: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        draw(tx.random.Generator(0))  # type: ignore[operator]
