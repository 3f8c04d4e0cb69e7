"""Column reductions, split reductions and large results, compared with NumPy at sizes where their loops change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.lowering.cpu.interchange import ROWS_PER_CHUNK
from tenxor.target import Loops
from tenxor.tensor import Tensor

from .values import Array

pytestmark = pytest.mark.large
BLOCK_COLUMNS, NARROW_COLUMNS, MAX_ROW = Loops().block_columns, Loops().reread_block_columns, Loops().max_row_buffer_elements
FEW_COLUMNS = (2, 3, 4)
WIDTHS = (
    1,
    *FEW_COLUMNS,
    15,
    16,
    17,
    NARROW_COLUMNS - 1,
    NARROW_COLUMNS,
    NARROW_COLUMNS + 1,
    BLOCK_COLUMNS - 1,
    BLOCK_COLUMNS,
    BLOCK_COLUMNS + 1,
    2 * BLOCK_COLUMNS + 300,
)
HEIGHTS = (1, ROWS_PER_CHUNK - 1, ROWS_PER_CHUNK, ROWS_PER_CHUNK + 1, 2 * ROWS_PER_CHUNK, 100)


def integers(*shape: int, dtype: type = np.float32, seed: int = 0) -> Array:
    """Return small integers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def assert_equal(actual: Tensor, expected: Array) -> None:
    np.testing.assert_array_equal(actual.to_numpy(), expected)


@pytest.mark.parametrize("width", WIDTHS)
def test_column_reductions_around_block_sizes_match_numpy(width: int) -> None:
    for height in HEIGHTS:
        a = integers(height, width)
        x = tx.asarray(a)
        assert_equal(x.sum(axis=0), a.sum(axis=0))
        assert_equal(x.argmax(axis=0), a.argmax(axis=0))
        assert_equal(tx.abs(x - x.max(axis=0)).sum(axis=0), np.abs(a - a.max(axis=0)).sum(axis=0))
        assert_equal(x - x.min(axis=0), a - a.min(axis=0))


@pytest.mark.parametrize("width", [1, NARROW_COLUMNS + 1, BLOCK_COLUMNS + 1])
def test_softmax_and_moments_of_columns_match_numpy(width: int) -> None:
    a = normal(50, width)
    x, wide = tx.asarray(a), a.astype(np.float64)
    e = np.exp(wide - wide.max(axis=0))
    for actual, expected in (
        (tx.softmax(x, axis=0), e / e.sum(axis=0)),
        (tx.log_softmax(x, axis=0), np.log(e / e.sum(axis=0))),
        (x.var(axis=0), wide.var(axis=0)),
        ((x - x.mean(axis=0)) / x.std(axis=0), (wide - wide.mean(axis=0)) / wide.std(axis=0)),
    ):
        np.testing.assert_allclose(actual.to_numpy(), expected, rtol=2e-5, atol=2e-6)


def test_row_buffer_spans_several_blocks_of_columns() -> None:
    a, b = normal(3, BLOCK_COLUMNS + 900), normal(3, 12, BLOCK_COLUMNS + 900)
    x, y = tx.asarray(a), tx.asarray(b)
    e = np.exp(a.astype(np.float64) - a.max(axis=1, keepdims=True))
    actual = tx.softmax(x, axis=1) * tx.abs(y - tx.sqrt(x * x + 1)[:, None]).sum(axis=1)
    expected = e / e.sum(axis=1, keepdims=True) * np.abs(b - np.sqrt(a * a + 1)[:, None]).sum(axis=1)
    np.testing.assert_allclose(actual.to_numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, MAX_ROW - 1, MAX_ROW, MAX_ROW + 1])
def test_softmax_of_rows_of_every_length_matches_numpy(length: int) -> None:
    a = normal(3, length)
    e = np.exp(a.astype(np.float64) - a.max(axis=1, keepdims=True))
    actual = tx.softmax(tx.asarray(a), axis=1).to_numpy()
    np.testing.assert_allclose(actual, e / e.sum(axis=1, keepdims=True), rtol=2e-6, atol=0)


def test_many_row_buffers_do_not_exhaust_the_stack() -> None:
    a = integers(2, 50, dtype=np.float64)
    total, x = tx.zeros((2, 50)).realize(), [tx.asarray(a + k) for k in range(25)]
    for t in x:
        e = tx.exp(t)
        total = total + e / e.sum(axis=1, keepdims=True)
    e = np.exp(a)
    np.testing.assert_allclose(total.to_numpy(), 25 * e / e.sum(axis=1, keepdims=True), rtol=1e-12)


CONTEXTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "with what is done to it": lambda x, s: s * 2.0 / 2.0,
    "read by rows": lambda x, s: (x * 0.0 + s)[-1],
    "beside another reduction": lambda x, s: s + 0.0 * x.max(axis=0),
    "before another reduction": lambda x, s: s + 0.0 * tx.abs(x - s).sum(axis=0),
    "some of it": lambda x, s: s[:],
    "beside what is the same for a column": lambda x, s: s + 0.0 * tx.abs(x - tx.sqrt(s * s + 1)).sum(axis=0),
}


@pytest.mark.parametrize("height", [7, 8, 9, 100])
@pytest.mark.parametrize("name", CONTEXTS)
def test_column_sums_have_equal_bits_in_every_kernel(name: str, height: int) -> None:
    a = normal(height, 2 * BLOCK_COLUMNS)
    x = tx.asarray(a)
    expected = x.sum(axis=0).to_numpy()
    assert CONTEXTS[name](x, x.sum(axis=0)).to_numpy().tobytes() == expected.tobytes()
    for width in (5, NARROW_COLUMNS + 1, BLOCK_COLUMNS - 1):  # and of a part of the columns, below the sizes of blocks
        narrow = tx.asarray(np.ascontiguousarray(a[:, :width]))
        assert CONTEXTS[name](narrow, narrow.sum(axis=0)).to_numpy().tobytes() == expected[:width].tobytes()
    for width in FEW_COLUMNS:  # these have their lanes down the columns
        narrow = tx.asarray(np.ascontiguousarray(a[:, :width]))
        assert CONTEXTS[name](narrow, narrow.sum(axis=0)).to_numpy().tobytes() == narrow.sum(axis=0).to_numpy().tobytes()


@pytest.mark.parametrize("shape", [(300, 4097), (20_001, 65), (3, 101, 2049)])
def test_column_reduction_bits_do_not_depend_on_threads(shape: tuple[int, ...], threads: Callable[[int], None]) -> None:
    x = tx.asarray(normal(*shape))
    for compute in (
        lambda: x.sum(axis=-2),
        lambda: x.var(axis=-2),
        lambda: tx.softmax(x, axis=-2),
        lambda: tx.softmax(x, axis=-1),
    ):
        results = set()
        for count in (1, 2, 3, 7):
            threads(count)
            results.add(compute().to_numpy().tobytes())
        assert len(results) == 1


SPLIT_CASES = [
    ((1 << 18,), 0),
    (((1 << 18) + 5,), 0),
    ((90_001, 3), 0),
    ((40_003, 16), 0),
    ((3, 90_001), 1),
    ((4099, 65), 0),
    ((600, 513), 0),
    ((70, 64, 65), (0, 1)),
    ((5, 401, 3, 50), (1, 2)),
    ((30, 20, 500), (0, 2)),
]


@pytest.mark.parametrize(("shape", "axis"), SPLIT_CASES)
def test_reductions_split_into_parts_match_numpy(shape: tuple[int, ...], axis: int | tuple[int, ...]) -> None:
    a = integers(*shape)
    marks = np.zeros(shape, bool)
    marks.reshape(-1)[[0, -1, a.size // 3]] = True
    for step in (1, -1):
        x, b, m = tx.asarray(a)[::step], a[::step], marks[::step]
        assert_equal(x.sum(axis=axis), b.sum(axis=axis))
        assert_equal(x.max(axis=axis), b.max(axis=axis))
        assert_equal(tx.any(tx.asarray(marks)[::step], axis=axis), m.any(axis=axis))
        assert_equal(tx.prod(tx.where(tx.asarray(marks)[::step], -1.0, 1.0), axis=axis), np.where(m, -1.0, 1.0).prod(axis=axis))
    half = tx.asarray(a.astype(np.float16) * 0.5).sum(axis=axis)
    assert_equal(half, (a.sum(axis=axis, dtype=np.float64) * 0.5).astype(np.float16))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1])
def test_column_extrema_of_nan_signed_zeros_and_subnormals_match_reference(axis: int, dtype: type) -> None:
    rng = np.random.default_rng(3)
    tiny, info = float(np.finfo(dtype).smallest_subnormal), np.finfo(dtype)
    for values in (
        [np.nan, 1.0, -np.inf],
        [-np.nan, -1.0, np.inf],
        [0.0, -0.0],
        [tiny, -tiny, 0.0],
        [-tiny, -0.0],
        [np.inf, -np.inf],
        [-np.inf],
        [float(info.max), float(info.min)],
    ):
        a = rng.choice(np.array(values, dtype), (20, 70))
        a[:, 3], a[4] = values[-1], values[-1]
        for name, winner in (("max", 0.0), ("min", -0.0)):
            actual, expected = getattr(tx, name)(tx.asarray(a), axis=axis).to_numpy(), getattr(np, name)(a, axis=axis)
            np.testing.assert_array_equal(actual, expected)
            zeros, sign = expected == 0, np.signbit(winner)
            has_winner = ((a == 0) & (np.signbit(a) == sign)).any(axis=axis)  # a zero of the better sign
            np.testing.assert_array_equal(np.signbit(actual)[zeros], np.where(has_winner, sign, not sign)[zeros])


@pytest.mark.parametrize("shape", [(5_000_007,), (5000, 1008), (5000, 1001)])
def test_non_temporal_stores_write_every_element(shape: tuple[int, ...], threads: Callable[[int], None]) -> None:
    a = integers(*shape)
    expected = a[::-1] + a
    rows = expected - expected.max(axis=-1, keepdims=True)
    columns = expected - expected.min(axis=0)
    x = tx.asarray(a)
    for count in (1, 3):
        threads(count)
        t = (x[::-1] + x).realize()
        assert t.sum().item() == expected.sum(dtype=np.float64)  # read at once, by whoever is there
        for actual, wanted in (
            (t + 0, expected),
            (t - t.max(axis=-1, keepdims=True), rows),
            (t - t.min(axis=0), columns),
        ):
            assert np.array_equal(actual.to_numpy(), wanted)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_cumulative_reductions_of_permuted_tensors_match_numpy(order: tuple[int, ...]) -> None:
    a = integers(9, 40, 130, dtype=np.int64).transpose(order)
    x = tx.asarray(integers(9, 40, 130, dtype=np.int64)).permute(*order)
    for axis in range(3):
        for t, b in ((x, a), (x[::-1, :, ::3], a[::-1, :, ::3])):
            assert_equal(tx.cumulative_sum(t, axis=axis), np.cumsum(b, axis=axis))
            assert_equal(tx.cumulative_prod(t | 1, axis=axis), np.cumprod(b | 1, axis=axis))
            assert_equal(tx.cumulative_sum(t, axis=axis, dtype=tx.float32), np.cumsum(b, axis=axis, dtype=np.float32))
