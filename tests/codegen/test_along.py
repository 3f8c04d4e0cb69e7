"""Products of few steps, whose results no near cache holds: written a few rows at a time, whole. That changes nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import DType, float32, float64
from tenxor.graph.reduction_limits import STEPS_PER_CHUNK
from tenxor.tensor import Tensor
from tests.machines import current, tune

from .pairs import integers
from .test_emit_contractions import kernel_of, normal
from .twins import check, emitted

Make = Callable[..., Tensor]
PRODUCTS: dict[str, Callable[[Make], Tensor]] = {
    "few steps": lambda m: m(70, 5) @ m(5, 130),
    "other rows": lambda m: m(5, 70).T @ m(5, 130),
    "other columns": lambda m: m(70, 5) @ m(130, 5).T,
    "one row more than a tile": lambda m: m(13, 7) @ m(7, 65),
    "more steps": lambda m: m(13, STEPS_PER_CHUNK) @ m(STEPS_PER_CHUNK, 70),
    "several": lambda m: m(3, 40, 6) @ m(3, 6, 90),
    "of all the same": lambda m: m(3, 40, 6) @ m(6, 90),
    "and more": lambda m: tx.relu(m(40, 6) @ m(6, 90) + m(90)),
    "and much more": lambda m: (lambda p: tx.where(p > 3, (p * 2 + 1) * p - 3, tx.abs(p) / 2 + p * p))(m(40, 6) @ m(6, 90)),
    "symmetric": lambda m: (lambda x: x @ x.T)(m(60, 40)),
    "results turned": lambda m: (m(40, 6) @ m(6, 90)).T.copy(),
    "distances": lambda m: ((m(50, 1, 4) - m(80, 4)) ** 2).sum(-1),
}


def rows_at_a_time(t: Tensor) -> int:
    """Return the rows in a block of the only product."""
    kernel, binding = kernel_of(t)
    assert kernel.contraction is not None
    rows: int = binding.sizes[kernel.contraction.left.block]
    return rows


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_computed_row_by_row_have_the_bits_of_blocked_products(name: str, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    packing = {"max_direct_extent": 0, "max_l1_column_bytes": 0, "max_direct_rows": 1, "max_direct_columns": 1} if packed else {}
    distinct = set()
    for along in ((0, 1 << 60), (1 << 60, 1 << 60)):
        tune(monkeypatch, blocks={"row_order_result_bytes": along, "min_result_row_bytes": 0, **packing})
        if name == "few steps":
            assert (rows_at_a_time(PRODUCTS[name](integers)) == current().contraction_tile(1).mr[0]) == (along[0] == 0)
        check(PRODUCTS[name](integers).storage.node)
        t = PRODUCTS[name](normal)
        distinct.add(emitted(t.storage.node, *kernel_of(t)).tobytes() if name != "results turned" else b"")
    assert len(distinct) == 1


@pytest.mark.parametrize("dtype", [float32, float64])
def test_products_with_results_beyond_the_second_cache_are_computed_row_by_row(dtype: DType) -> None:
    (low, high), row, itemsize = current().blocks.row_order_result_bytes, current().blocks.min_result_row_bytes, dtype.itemsize
    tile = current().contraction_tile(1).mr[0]

    def at_a_time(columns: int, nbytes: int, steps: int = 8) -> int:
        shapes = (-(-nbytes // (columns * itemsize)), steps), (steps, columns)
        left, right = (tx.empty(shape, dtype=dtype).realize() for shape in shapes)
        return rows_at_a_time(left @ right)

    columns = 2 * row // itemsize
    assert at_a_time(columns, low) == at_a_time(row // itemsize, low) == at_a_time(columns, low, STEPS_PER_CHUNK) == tile
    assert tile not in (at_a_time(columns, low // 2), at_a_time(row // itemsize - 1, low), at_a_time(columns, 2 * high))
    assert at_a_time(columns, low, STEPS_PER_CHUNK + 1) != tile


def test_large_products_row_by_row_match_numpy() -> None:
    columns, (min_bytes, _) = current().blocks.min_result_row_bytes // 2, current().blocks.row_order_result_bytes
    for rows in (min_bytes // (columns * 4) + 1, min_bytes // (columns * 4) + 6):
        for steps in (4, 33):
            a, b = integers(rows, steps), integers(steps, columns, seed=1)
            assert np.array_equal((a @ b).to_numpy(), a.to_numpy() @ b.to_numpy())
            assert np.array_equal(((a @ b) * 2 + 1).to_numpy(), (a.to_numpy() @ b.to_numpy()) * 2 + 1)
