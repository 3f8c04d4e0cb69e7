"""Operands that products pack, or read directly: windows in runs, and gathers."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import float16, float32, float64, int64
from tenxor.errors import IndexOutOfRange
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.tensor import Tensor
from tests.machines import current, use, vectors

from .graphs import in_memory
from .pairs import SMALL, blocks, integers
from .test_emit_contractions import VECTORS, kernel_of, product

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too


@pytest.mark.parametrize("nbytes", VECTORS)
@pytest.mark.parametrize(("width", "packed"), [(7, True), (13, True), (15, False), (18, False), (35, False)])
@pytest.mark.parametrize("masks", [False, True])  # as far as there are any
def test_convolution_reads_its_windows_in_runs_and_packs_only_short_ones(
    width: int, packed: bool, nbytes: int, masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors(monkeypatch, nbytes)
    if not masks:
        use(monkeypatch, current()._replace(features=current().features - {"avx512f"}))
    blocks(monkeypatch)
    weight = integers(5, 3, 2, 3, seed=1)
    for height in (2, 3, 5):
        result = product(tx.conv2d(integers(2, 3, height + 1, width + 2), weight))
        assert result.right.has_runs and result.right.is_packed == packed
    row = product(tx.conv1d(integers(12, 3, width + 2), weight[:, :, 0]))  # all images lie in one row
    assert row.right.has_runs
    for dtype in (float64, int64, float16):  # one lies otherwise than registers hold it
        product(tx.conv2d(integers(2, 3, 5, width + 2, dtype=dtype), weight.astype(dtype)))


@pytest.mark.parametrize("nbytes", VECTORS)
@pytest.mark.parametrize("seed", range(3))
def test_sum_of_two_window_products_reads_runs_and_agrees_on_both_back_ends(
    seed: int, nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operand has its own offsets for the steps of a panel across two runs."""
    vectors(monkeypatch, nbytes)
    blocks(monkeypatch)
    a, b = (integers(2, 4, 21 + seed, seed=2 * seed + k).windows(2, 2)[None] for k in range(2))
    p, q = (integers(4, 2, 2, seed=9 * seed + k)[:, :, None, None] for k in range(2))
    result = product((a * p + b * q).sum(axis=(1, 4)))
    assert result.right.has_runs and len(result.right.values) == 2


@pytest.mark.parametrize("nbytes", VECTORS)
def test_products_of_gathered_operands_agree_on_both_back_ends(nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors(monkeypatch, nbytes)
    blocks(monkeypatch, **SMALL)
    a, b = integers(25, 11), integers(11, 37, seed=1)
    rng = np.random.default_rng(0)
    rows, columns, steps = (in_memory(rng.integers(-n, n, m), int64) for n, m in ((25, 19), (37, 40), (11, 9)))
    i, j, k = map(Tensor._from_node, (rows, columns, steps))
    for t in (
        a[i] @ b,
        a @ b[:, j],
        a[:, k] @ b[k],
        a[i * 1] @ b[:, j] + 1,
        tx.abs(a[i][:, None] - b.T[None]).sum(-1),
    ):
        kernel, _ = kernel_of(t)
        assert kernel.contraction is not None
        product(t)
    few = a[i[:1]] @ b  # no product: each element would be fetched for all columns
    assert len(fuse(collect_pending([few.storage.node]), [few.storage.node], current())) == 2
    with pytest.raises(IndexOutOfRange, match=r"index 25 .* axis 0 .* size 25"):
        (a[tx.abs(i) + 25 - tx.abs(i)] @ b).realize()


def test_products_of_gathered_and_strided_windows_agree_on_both_back_ends() -> None:
    x = integers(3, 5, 40)
    picked = x.oindex[:, :, [0, 1, 2, 5, 6, 30, 31, 39, 4]]
    product(tx.einsum("oc,ncw->onw", integers(6, 5), picked[:, :, None].expand(3, 5, 4, 9).reshape(3, 5, 36)))
    product(tx.conv2d(integers(1, 3, 6, 20)[..., ::-1], integers(5, 3, 2, 2)))
    product(tx.conv2d(integers(1, 3, 6, 40)[..., ::2], integers(5, 3, 2, 2)))


@pytest.mark.parametrize("nbytes", VECTORS)
@pytest.mark.parametrize("width", [3, 4, 7, 12, 20])
def test_window_products_with_two_values_or_bool_results_agree_on_both_back_ends(
    width: int, nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two values per step need no shorter runs than one, and byte states have more lanes than the operands."""
    vectors(monkeypatch, nbytes)
    for dtype in (float64, float32):
        x, y = (integers(2, 4, width + 1, dtype=dtype, seed=k).windows(2, 2)[None] for k in range(2))
        p, q = (integers(4, 2, 2, dtype=dtype, seed=k)[:, :, None, None] for k in (2, 3))
        product((x * p + y * q).sum(axis=(1, 4)))
        assert product((x < p).any(axis=(1, 4))).right.has_runs
