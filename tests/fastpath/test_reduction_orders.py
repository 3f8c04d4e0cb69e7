"""Small reductions are computed operation by operation where the order of the additions belongs to the reduction alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath import graph_launch

pytestmark = [pytest.mark.usefixtures("on"), pytest.mark.usefixtures("afresh")]
REDUCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum of a difference from a row": lambda x, row, m: (x - row).sum(),
    "sum of squares of a difference from a row": lambda x, row, m: ((x - row) ** 2).sum(),
    "maximum of a difference from a row": lambda x, row, m: (x - row).max(axis=0),
    "any of a comparison with a row": lambda x, row, m: (x > row).any(axis=1),
    "sum of integers": lambda x, row, m: ((x * 10).astype(m.int64) - (row * 10).astype(m.int64)).sum(axis=0),
    "sum over a matrix and its transpose": lambda x, row, m: (x[:7] + x[:7].T).sum(),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_small_reduction_of_a_broadcast_operand_needs_no_fused_kernel(name: str) -> None:
    reduce = REDUCTIONS[name]
    for seed in range(4):
        random = np.random.default_rng(seed)
        arrays = random.random((9, 7)) * 3 - 1, random.random(7)
        operands = [tx.asarray(a).realize() for a in arrays]
        result = reduce(*operands, tx).to_numpy()
        np.testing.assert_allclose(result, reduce(*arrays, np), rtol=1e-13)
        with fastpath.disabled():
            whole = reduce(*operands, tx).to_numpy()
        assert result.tobytes() == whole.tobytes()
    assert not len(graph_launch.graph_records)
