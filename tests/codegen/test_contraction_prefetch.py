"""Contractions prefetch the next matrices of a batch, and the next packed columns; the results stay the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.llvm.emit_kernel import emit_kernel
from tenxor.dtypes import DType, complex64, float16, float32, float64, int32, int64
from tenxor.target import Caches, Target
from tests.machines import tune, tuned, use, vectors

from .pairs import SMALL, blocks, integers
from .test_emit_contractions import VECTORS, kernel_of, normal, product


@pytest.mark.parametrize("dtype", [float32, float64, int64])
def test_batched_product_prefetches_the_next_matrices(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = integers(5, 29, 9, dtype=dtype), integers(5, 9, 40, dtype=dtype)
    cases = [(a, b), (a[::-1], b[:, :, 3:]), (a[:1].expand(5, 29, 9), b), (a[:, ::-1], b[::-1]), (a[[3, 0, 4, 1, 1]], b)]
    for left, right in cases:
        assert product(left @ right).prefetch_axis == -1
    tune(monkeypatch, blocks={"min_prefetch_batch_bytes": 0, "min_prefetch_panel_bytes": 0})
    for left, right in cases:
        result = left @ right
        assert product(result).prefetch_axis >= 0
        assert np.array_equal(result.to_numpy(), left.to_numpy() @ right.to_numpy())
    assert product(a[0] @ b[0]).prefetch_axis == -1
    assert product(a @ b[:, :, :2]).prefetch_axis == -1  # all of it is read in order


def test_batched_matrices_larger_than_the_near_cache_are_not_prefetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache would evict the matrices before their use."""
    a, b = integers(5, 29, 9), integers(5, 9, 40)
    nbytes = 4 * (29 * 9 + 9 * 40 + 29 * 40)
    for near, prefetches in ((nbytes, True), (nbytes - 1, False)):
        tune(monkeypatch, blocks={"min_prefetch_batch_bytes": 0, "min_prefetch_panel_bytes": 0, "l2_working_bytes": near})
        assert (product(a @ b).prefetch_axis >= 0) == prefetches


@pytest.mark.parametrize("dtype", [float16, float32, int32, complex64], ids=str)
@pytest.mark.parametrize("nbytes", [VECTORS[0], VECTORS[-1]])
def test_product_with_prefetched_panels_agrees_on_both_back_ends(dtype: DType, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums are as long as one or two iterations of four steps, or a step longer or shorter; the last tiles lack rows and columns."""
    vectors(monkeypatch, nbytes)
    blocks(monkeypatch, **{**SMALL, "prefetches_panels": 1})
    for steps in (4, 5, 7, 9):
        for rows, columns in ((11, 64), (25, 22)):
            a, b = integers(rows, steps, dtype=dtype), integers(steps, columns, dtype=dtype, seed=1)
            for result in (a @ b, (a @ b) * 2 + 1, a[::-1, ::-1] @ b[::-1, :]):
                assert product(result).prefetches_panels
            if not dtype.is_complex:  # work on the results that is too long for registers
                assert product(tx.maximum((a @ b) * 2 + 1, (a @ b) - 3) * 2 - (a @ b)).prefetches_panels


def test_prefetching_panels_changes_no_bit_of_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(777, 300), (100, 3000), (300, 513)]
    operands = [(normal(m, k), normal(k, n, seed=1)) for (m, k), n in zip(shapes, (517, 90, 1000), strict=True)]
    results = []
    for prefetches_panels in (0, 1):
        tune(monkeypatch, blocks={"prefetches_panels": prefetches_panels})
        results.append([(a @ b).to_numpy() for a, b in operands])
    for before, after in zip(*results, strict=True):
        assert np.array_equal(before, after)


def test_targets_prefetch_panels_if_avx512_and_a_second_cache_of_2_mib_are_there() -> None:
    """The last cache counts as distant behind a second cache of 2 MiB or more."""
    wide = Target(64, frozenset({"avx512f"}), 32)
    for l2_bytes, expected in ((1 << 19, 0), (1 << 20, 0), (1 << 21, 1), (1 << 22, 1)):
        target = wide.with_caches(Caches(l2_bytes=l2_bytes))
        assert target.blocks.prefetches_panels == expected
        assert target.settings.has_distant_last_level == expected
        assert wide.with_settings(target.settings).blocks == target.blocks
    assert Target(32, frozenset({"avx2"})).with_caches(Caches(l2_bytes=1 << 22)).blocks.prefetches_panels == 0


def test_loop_over_prefetched_panels_runs_four_steps_per_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair of rows needs three loads a step: an element in a register for both vectors of columns, and one for each vector."""
    a, b = normal(480, 300), normal(300, 640, seed=1)
    target = tuned(Target(64, frozenset({"avx512f"}), 32), blocks={"prefetches_panels": 1})
    use(monkeypatch, target)
    text = emit_kernel(kernel_of(a @ b)[0], target)
    bodies = re.findall(r"^[\w.]+:\n(?:  .*\n)*", text, re.MULTILINE)
    fused = [body.count("@llvm.fma.v16f32") for body in bodies]
    assert max(fused) == 4 * 12 * 2
    body = bodies[fused.index(max(fused))]
    assert body.count("@llvm.prefetch") == 1
    assert body.count('asm ""') == 3  # of the columns, and two of the rows
    assert len(re.findall(r"load float,", body)) == 4 * (6 * 2 + 6)
