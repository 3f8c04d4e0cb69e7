"""Transposed reads through tiles: machine code and interpreter agree for sizes around the tiles, without reads out of bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES, DType, bfloat16
from tenxor.lowering.cpu.vectorize import MIN_LANE_EXTENT
from tenxor.lowering.ir import For, Kernel, Statement, TileLoad
from tenxor.tensor import Tensor
from tests.machines import current

from .graphs import in_memory
from .twins import check

SIDES = (1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 100, 130)


def matrix(rows: int, columns: int, dtype: DType = tx.float32) -> Tensor:
    """Return a matrix of different values, as far as the dtype has them."""
    numbers = np.arange(rows * columns).reshape(rows, columns) * 37 % 251
    if dtype is bfloat16:
        return Tensor._from_node(in_memory((numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), dtype))
    return Tensor._from_node(in_memory(numbers.astype(dtype.numpy), dtype))


def count_tile_loads(kernel: Kernel) -> int:
    def count(body: tuple[Statement, ...]) -> int:
        return sum(count(s.body) if isinstance(s, For) else isinstance(s, TileLoad) for s in body)

    return count(kernel.body)


def only_kernel(t: Tensor) -> Kernel:
    """Return the only kernel of a pending tensor, after both back ends agree on it."""
    (kernel,) = check(t.storage.node)
    return kernel


@pytest.mark.parametrize("rows", SIDES)
def test_tiles_of_every_remaining_size_agree_on_both_back_ends(rows: int) -> None:
    for columns in SIDES:
        kernel = only_kernel(matrix(rows, columns).T + matrix(columns, rows))
        in_steps = 1 < rows <= MIN_LANE_EXTENT and columns >= 2 * rows  # lanes run along the longer loop, and write in steps
        is_near = columns <= MIN_LANE_EXTENT and columns * tx.float32.itemsize < current().vector_bytes  # vectors hold several steps
        assert count_tile_loads(kernel) == (rows > 1 and columns > 1 and not (in_steps or is_near))


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_transposes_of_every_dtype_agree_on_both_back_ends(dtype: DType) -> None:
    for rows, columns in ((5, 70), (67, 33)):
        t = matrix(rows, columns, dtype)
        assert count_tile_loads(only_kernel(t.T.copy())) == 1
        if dtype is not tx.bool:
            assert count_tile_loads(only_kernel(t.T + matrix(columns, rows, dtype))) == 1
        assert count_tile_loads(only_kernel(t.T.copy().astype(tx.complex128 if dtype.is_complex else tx.float64))) == 1


def test_transposes_of_strided_views_use_tiles() -> None:
    x = matrix(140, 90)
    for view in (x[3:, 5:], x[::3], x[::-1], x[20:100, 1:66]):
        assert count_tile_loads(only_kernel(view.T.copy())) == 1
    assert count_tile_loads(only_kernel(x[:, ::2].T.copy())) == 0  # no neighbours along any axis
    assert count_tile_loads(only_kernel(x.T[::-1].copy())) == 0


def test_permutations_of_three_axes_use_one_tile() -> None:
    t = matrix(10, 9 * 70).reshape(10, 9, 70)
    for order in ((2, 1, 0), (1, 2, 0), (2, 0, 1), (0, 2, 1)):
        assert count_tile_loads(only_kernel(t.permute(order).copy())) == 1


def test_number_of_tiles_per_kernel_is_bounded() -> None:
    rows = [matrix(40, 70) for _ in range(4)]
    total = rows[0].T + matrix(70, 40)
    for r in rows[1:]:
        total = total * 0.5 + r.T
    assert count_tile_loads(only_kernel(total)) == current().loops.max_transpose_tiles  # the others are gathered
    x = rows[0]
    assert count_tile_loads(only_kernel(x.T * (x.T + 1) + matrix(70, 40))) == 1  # one read is one tile


def test_write_through_a_transpose_matches_numpy() -> None:
    t = matrix(70, 40).realize()
    old = t.storage.node
    t.T[1:, 3:] = matrix(39, 67) * 2
    assert t.storage.node is not old
    wanted = (np.arange(70 * 40).reshape(70, 40) * 37 % 251).astype(np.float32)
    wanted.T[1:, 3:] = (np.arange(39 * 67).reshape(39, 67) * 37 % 251).astype(np.float32) * 2
    assert t.tolist() == wanted.tolist()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_transpose_matches_numpy_on_1_2_and_3_threads(threads: int) -> None:
    before = tx.num_threads()
    a: Any = np.random.default_rng(0).integers(0, 9, (1500, 1111))
    t = tx.asarray(a)
    tx.set_num_threads(threads)
    try:
        assert np.array_equal(t.T.copy().to_numpy(), a.T)
    finally:
        tx.set_num_threads(before)
