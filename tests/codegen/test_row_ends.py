"""The ends of rows: the last elements of vectorized loops, on processors with expensive masks."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.llvm.emit_kernel import emit_kernel
from tenxor.target import Target
from tests.machines import current, use

from .test_emit_contractions import kernel_of

NAMES = ["bool", "uint8", "int16", "float16", "float32", "float64", "complex64", "complex128"]
COLUMNS = [*range(1, 20), 31, 32, 33, 63, 65, 100]


@pytest.fixture(params=[16, 32])
def _without_masks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a processor with vectors of `param` bytes and expensive masked stores."""
    machine = current()
    use(monkeypatch, machine._replace(vector_bytes=request.param, features=machine.features - {"avx512f"}, register_count=16))


def numbers(*shape: int, dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 9, shape).astype(dtype)


@pytest.mark.usefixtures("_without_masks", "plain")
@pytest.mark.parametrize("name", NAMES)
class TestRows:
    def test_rows_of_any_length_match_numpy(self, name: str) -> None:
        for n in COLUMNS:
            a, row = numbers(5, n + 3, dtype=name), numbers(n, dtype=name, seed=1)
            x, y = tx.asarray(a)[:, 1 : n + 1], tx.asarray(row)
            assert np.array_equal((x + y).to_numpy(), a[:, 1 : n + 1] + row), n
            assert np.array_equal((x == y).to_numpy(), a[:, 1 : n + 1] == row), n

    def test_rows_of_few_columns_match_numpy(self, name: str) -> None:
        for n in (2, 3, 4):
            a, row = numbers(101, n, dtype=name), numbers(n, dtype=name, seed=1)
            assert np.array_equal((tx.asarray(a) + tx.asarray(row)).to_numpy(), a + row)

    def test_column_sums_and_their_readers_match_numpy(self, name: str) -> None:
        for n in COLUMNS:
            a = numbers(6, n, dtype=name)
            x = tx.asarray(a)
            assert np.array_equal(x.sum(0).to_numpy(), a.sum(0)), n
            assert np.array_equal((x.sum(0) * 2 + x[0]).to_numpy(), a.sum(0) * 2 + a[0]), n

    def test_row_reductions_match_numpy(self, name: str) -> None:
        for n in COLUMNS:
            a = numbers(6, n + 2, dtype=name)
            x, values = tx.asarray(a)[:, 1:-1], a[:, 1:-1]
            assert np.array_equal(x.sum(1).to_numpy(), values.sum(1)), n
            if not name.startswith("complex"):
                assert np.array_equal(x.max(1).to_numpy(), values.max(1)), n
                assert np.array_equal(tx.argmin(x, axis=1).to_numpy(), values.argmin(1)), n

    def test_in_place_update_of_columns_writes_no_element_beside_them(self, name: str) -> None:
        for n in COLUMNS:
            a, row = numbers(5, n + 4, dtype=name), numbers(n, dtype=name, seed=1)
            x = tx.asarray(a.copy())
            x[:, 2 : n + 2] += tx.asarray(row)
            a[:, 2 : n + 2] += row
            assert np.array_equal(x.to_numpy(), a), n

    def test_expensive_rows_match_numpy(self, name: str) -> None:
        """The code is too long to repeat for each remainder, so a mask is used and its lanes are stored by halves."""
        for n in COLUMNS:
            a, row = numbers(5, n + 3, dtype=name) != 0, numbers(n, dtype=name, seed=1) != 0
            x, y = tx.asarray(a.astype(name))[:, 1 : n + 1], tx.asarray(row.astype(name))
            values = a[:, 1 : n + 1].astype(int)
            actual, expected = x, values
            for _ in range(3):
                actual = tx.where(actual == y, x * y + actual, x)
                expected = np.where(expected == row, values * row + expected, values)
                if name == "bool":
                    expected = np.minimum(expected, 1)
            assert np.array_equal(actual.to_numpy(), expected.astype(name)), n


def test_cheap_kernels_use_no_masks_and_others_no_masked_stores() -> None:
    x, row = tx.asarray(np.ones((50, 30), np.float32)), tx.asarray(np.ones(30, np.float32))
    without, registers = Target(32), Target(32, frozenset({"avx512f"}))
    cheap, expensive = kernel_of(x + row)[0], kernel_of(tx.exp(x + row))[0]
    assert "masked" not in emit_kernel(cheap, without)
    assert "masked.load" in emit_kernel(expensive, without) and "masked.store" not in emit_kernel(expensive, without)
    assert all("masked.store" in emit_kernel(kernel, registers) for kernel in (cheap, expensive))
