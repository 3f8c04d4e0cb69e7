"""Register tiles of products: machine code and interpreter agree for all heights, widths and chunks, with masks and without.

Blocks and chunks are small here, so that the interpreter runs several of them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.llvm.emit_kernel import emit_kernel
from tenxor.target import Target
from tests.machines import current, tuned, use, vectors

from .pairs import PACKED, SMALL, blocks, integers
from .test_emit_contractions import VECTORS, kernel_of, normal, product
from .twins import emitted


def count_stores(t: tx.Tensor, target: Target) -> dict[str, int]:
    """Return the number of stores in the kernel of a tensor on a target, by vector length, or "masked"."""
    text = emit_kernel(kernel_of(t)[0], target)
    kinds = re.findall(r" store <(\d) x float>| store (float)|call void @llvm\.(masked)\.store", text)
    return dict(Counter((wide or masked or "1") for wide, _, masked in kinds))


class TestTiles:
    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_tiles_of_every_height_and_width_agree_on_both_back_ends(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        vectors(monkeypatch, nbytes)
        for rows, columns in zip([*range(4, 26), 37, 40], [*range(9, 34, 2), *range(8, 30, 2)], strict=True):
            a, b = integers(rows, 4, seed=rows), integers(4, columns, seed=columns)
            product(a @ b)

    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_partial_tiles_without_mask_registers_agree_on_both_back_ends(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, current()._replace(vector_bytes=nbytes, features=current().features - {"avx512f"}, register_count=16))
        for rows, columns in itertools.product((6, 13), (8, 16, 17, 31, 32, 33, 64)):
            a, b = integers(rows, 5, seed=rows), integers(5, columns, seed=columns)
            product(a @ b)
            product(a[:, 1:] @ b.T[:, 1:].T)

    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_product_tiles_with_masked_stores_agree_on_both_back_ends(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stores are masked as with AVX-512, also on processors without it."""
        monkeypatch.setattr(Target, "has_cheap_masked_store", True)
        vectors(monkeypatch, nbytes)
        for rows, columns in zip([*range(4, 26), 37, 40], [*range(9, 34, 2), *range(8, 30, 2)], strict=True):
            a, b, c = integers(rows, 5, seed=rows), integers(5, columns, seed=columns), integers(rows, columns, seed=3)
            product(a @ b)
            product(a @ b + c)
            product(a[:, 1:] @ b.T[:, 1:].T)

    def test_tiles_use_masks_only_with_avx512(self) -> None:
        a, b = normal(20, 20), normal(20, 20)
        assert Target(32).contraction_tile(1) == ((6, 4), 2)
        tile_rows = 6 + 4
        without, registers = Target(32), Target(32, frozenset({"avx512f"}))
        # 4 columns are one 4
        assert count_stores(a @ b, without) == {"8": tile_rows * (2 + 1), "4": tile_rows * (1 + 2), "2": tile_rows * 2, "1": tile_rows}
        assert count_stores(a @ b, registers) == {"8": tile_rows, "masked": tile_rows * 2}
        for addend in (normal(20), normal(20, 20, seed=2)):
            assert count_stores(a @ b + addend, without) == count_stores(a @ b, without)

    @pytest.mark.parametrize("nbytes", VECTORS)
    @pytest.mark.parametrize("dtype", [tx.float32, tx.float64, tx.float16, tx.int32, tx.complex64])
    def test_product_written_into_a_view_leaves_all_other_elements_unchanged(
        self, nbytes: int, dtype: tx.DType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use(monkeypatch, current()._replace(vector_bytes=nbytes, features=current().features - {"avx512f"}, register_count=16))
        for columns in (*range(1, 20), 31, 32, 33, 47):
            rows = columns % 8 + 1
            a, b = (integers(*shape, seed=columns).astype(dtype).realize() for shape in ((3, rows, 4), (3, 4, columns)))
            expected = np.einsum("bij,bjk->bik", a.to_numpy(), b.to_numpy())
            target = tx.full((3, rows + 2, columns + 4), 7, dtype=dtype)
            target[:, 1:-1, 2:-2] = a @ b
            assert np.array_equal(target.to_numpy()[:, 1:-1, 2:-2], expected)
            target[:, 1:-1, 2:-2] = 7
            assert tx.all(target == 7)

    @pytest.mark.usefixtures("plain")
    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_product_reuses_the_memory_of_its_addend(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        machine = current()._replace(vector_bytes=nbytes, features=current().features - {"avx512f"}, register_count=16)
        use(monkeypatch, tuned(machine, thread_limits={"min_donated_bytes": 0}))
        for rows, columns in itertools.product((2, 5, 40), (2, 3, 8, 9, 12, 17, 23, 40)):
            a, b = integers(rows, 4, seed=rows).realize(), integers(4, columns, seed=columns).realize()
            c = (integers(rows, columns, seed=3) * 2).realize()
            expected, memory = a.to_numpy() @ b.to_numpy() + c.to_numpy(), c.storage.node.buffer.address  # type: ignore[union-attr]
            c = a @ b + c
            c.realize()
            assert c.storage.node.buffer.address == memory  # type: ignore[union-attr]
            assert np.array_equal(c.to_numpy(), expected)

    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_tiles_of_accumulators_with_two_components_agree_on_both_back_ends(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        vectors(monkeypatch, nbytes)
        for rows, columns in zip(range(4, 17), range(8, 60, 4), strict=True):
            a, b = integers(rows, 5, seed=rows), integers(5, columns, seed=columns)
            contraction = product(tx.contract(a, b, [(1, 0)], add=lambda x, y: x + y))
            assert len(contraction.values) == 2

    @pytest.mark.parametrize("steps", [4, 7, 8, 9, 16, 17, 24, 31])
    @pytest.mark.parametrize("packed", [False, True])
    def test_products_summed_in_chunks_agree_on_both_back_ends(self, steps: int, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        blocks(monkeypatch, **(PACKED if packed else {}))
        a, b = integers(14, steps), integers(steps, 19)
        contraction = product(a @ b)
        assert contraction.has_single_chunk == (steps <= 8) and contraction.left.is_packed == contraction.right.is_packed == packed
        transposed = product(b.T @ a.T)  # what is across memory is turned in registers
        assert transposed.right.is_packed and transposed.left.is_packed == packed

    def test_products_in_blocks_of_rows_and_columns_agree_on_both_back_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        blocks(monkeypatch, **SMALL)
        for rows, columns in ((8, 16), (9, 17), (16, 32), (25, 50)):
            for steps in (4, 9):
                a, b = integers(rows, steps), integers(steps, columns)
                product(a @ b)
                product(tx.abs(a[:, None] - b.T[None]).sum(axis=-1))

    @pytest.mark.parametrize("shared", ["rows", "columns", "batches"])
    def test_products_may_be_cut_anywhere_between_threads(self, shared: str) -> None:
        rows, columns, batches = {"rows": (50, 9, 2), "columns": (7, 70, 2), "batches": (5, 9, 20)}[shared]
        a, b = normal(batches, rows, 6), normal(batches, 6, columns, seed=1)
        for t in (a @ b, a @ b + normal(columns), (a * 2) @ b):
            kernel, binding = kernel_of(t)
            axis = {"rows": kernel.contraction.left.axis, "columns": kernel.contraction.right.axis, "batches": -1}[shared]  # type: ignore[union-attr]
            assert kernel.contraction is not None and kernel.contraction.shared_axis == axis
            expected = emitted(t.storage.node, kernel, binding)
            for cuts in (range(1, binding.split_extent), (3,), (1, 2, binding.split_extent - 1)):
                assert emitted(t.storage.node, kernel, binding, cuts).tobytes() == expected.tobytes()
