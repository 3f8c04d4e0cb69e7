"""Tiles of products: machine code and interpreter agree at every height and width, in chunks of steps, with masks and without.

Blocks and chunks are made small here, so that the interpreter sees several of them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter

import numpy as np
import pytest

import tenxor as tx
from tenxor.backend.llvm.emit import emit
from tenxor.target import Target
from tests.machines import current, tuned, use, vectors

from .pairs import PACKED, SMALL, blocks, whole
from .test_products import VECTORS, kernel_of, normal, product
from .twins import emitted


def stores(t: tx.Tensor, target: Target) -> dict[str, int]:
    """How many stores the kernel of a tensor has of vectors of so many floats, and of masked ones, on a target."""
    text = emit(kernel_of(t)[0], target)
    kinds = re.findall(r" store <(\d) x float>| store (float)|call void @llvm\.(masked)\.store", text)
    return dict(Counter((wide or masked or "1") for wide, _, masked in kinds))


class TestTiles:
    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_every_height_and_width(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        vectors(monkeypatch, nbytes)
        for rows, columns in zip([*range(4, 26), 37, 40], [*range(9, 34, 2), *range(8, 30, 2)], strict=True):
            a, b = whole(rows, 4, seed=rows), whole(4, columns, seed=columns)
            product(a @ b)

    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_whole_ones_where_masks_are_no_registers(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, current()._replace(vector_bytes=nbytes, features=current().features - {"avx512f"}, registers=16))
        for rows, columns in itertools.product((6, 13), (8, 16, 17, 31, 32, 33, 64)):
            a, b = whole(rows, 5, seed=rows), whole(5, columns, seed=columns)
            product(a @ b)
            product(a[:, 1:] @ b.T[:, 1:].T)

    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_masked_ones_where_these_cost_nothing(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """As on processors with AVX-512, whether this one is or not."""
        monkeypatch.setattr(Target, "stores_under_masks", True)
        vectors(monkeypatch, nbytes)
        for rows, columns in zip([*range(4, 26), 37, 40], [*range(9, 34, 2), *range(8, 30, 2)], strict=True):
            a, b, c = whole(rows, 5, seed=rows), whole(5, columns, seed=columns), whole(rows, columns, seed=3)
            product(a @ b)
            product(a @ b + c)
            product(a[:, 1:] @ b.T[:, 1:].T)

    def test_there_are_no_masks_where_they_cost_much(self) -> None:
        a, b = normal(20, 20), normal(20, 20)
        assert Target(32).tile(1) == ((6, 4), 2)
        high = 6 + 4
        without, registers = Target(32), Target(32, frozenset({"avx512f"}))
        assert stores(a @ b, without) == {"8": high * (2 + 1), "4": high * (1 + 2), "2": high * 2, "1": high}  # 4 columns are one 4
        assert stores(a @ b, registers) == {"8": high, "masked": high * 2}
        for beside in (normal(20), normal(20, 20, seed=2)):
            assert stores(a @ b + beside, without) == stores(a @ b, without)

    @pytest.mark.parametrize("nbytes", VECTORS)
    @pytest.mark.parametrize("dtype", [tx.float32, tx.float64, tx.float16, tx.int32, tx.complex64])
    def test_nothing_beside_the_results_is_written(
        self, nbytes: int, dtype: tx.DType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use(monkeypatch, current()._replace(vector_bytes=nbytes, features=current().features - {"avx512f"}, registers=16))
        for columns in (*range(1, 20), 31, 32, 33, 47):
            rows = columns % 8 + 1
            a, b = (whole(*shape, seed=columns).astype(dtype).realize() for shape in ((3, rows, 4), (3, 4, columns)))
            expected = np.einsum("bij,bjk->bik", a.to_numpy(), b.to_numpy())
            around = tx.full((3, rows + 2, columns + 4), 7, dtype=dtype)
            around[:, 1:-1, 2:-2] = a @ b
            assert np.array_equal(around.to_numpy()[:, 1:-1, 2:-2], expected)
            around[:, 1:-1, 2:-2] = 7
            assert tx.all(around == 7)

    @pytest.mark.usefixtures("plain")
    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_a_result_takes_the_memory_of_what_is_added_to_it(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        machine = current()._replace(vector_bytes=nbytes, features=current().features - {"avx512f"}, registers=16)
        use(monkeypatch, tuned(machine, sharing={"in_place": 0}))
        for rows, columns in itertools.product((2, 5, 40), (2, 3, 8, 9, 12, 17, 23, 40)):
            a, b = whole(rows, 4, seed=rows).realize(), whole(4, columns, seed=columns).realize()
            c = (whole(rows, columns, seed=3) * 2).realize()
            expected, memory = a.to_numpy() @ b.to_numpy() + c.to_numpy(), c.storage.node.buffer.address  # type: ignore[union-attr]
            c = a @ b + c
            c.realize()
            assert c.storage.node.buffer.address == memory  # type: ignore[union-attr]
            assert np.array_equal(c.to_numpy(), expected)

    @pytest.mark.parametrize("nbytes", VECTORS)
    def test_of_two_states(self, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        vectors(monkeypatch, nbytes)
        for rows, columns in zip(range(4, 17), range(8, 60, 4), strict=True):
            a, b = whole(rows, 5, seed=rows), whole(5, columns, seed=columns)
            found = product(tx.contract(a, b, [(1, 0)], add=lambda x, y: x + y))
            assert len(found.values) == 2

    @pytest.mark.parametrize("steps", [4, 7, 8, 9, 16, 17, 24, 31])
    @pytest.mark.parametrize("packed", [False, True])
    def test_chunks_of_steps(self, steps: int, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        blocks(monkeypatch, **(PACKED if packed else {}))
        a, b = whole(14, steps), whole(steps, 19)
        found = product(a @ b)
        assert found.once == (steps <= 8) and found.left.packed == found.right.packed == packed
        turned = product(b.T @ a.T)  # what is across memory is turned in registers
        assert turned.right.packed and turned.left.packed == packed

    def test_blocks_of_rows_and_columns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        blocks(monkeypatch, **SMALL)
        for rows, columns in ((8, 16), (9, 17), (16, 32), (25, 50)):
            for steps in (4, 9):
                a, b = whole(rows, steps), whole(steps, columns)
                product(a @ b)
                product(tx.abs(a[:, None] - b.T[None]).sum(axis=-1))

    @pytest.mark.parametrize("shared", ["rows", "columns", "batches"])
    def test_what_threads_share_is_cut_anywhere(self, shared: str) -> None:
        rows, columns, batches = {"rows": (50, 9, 2), "columns": (7, 70, 2), "batches": (5, 9, 20)}[shared]
        a, b = normal(batches, rows, 6), normal(batches, 6, columns, seed=1)
        for t in (a @ b, a @ b + normal(columns), (a * 2) @ b):
            kernel, binding = kernel_of(t)
            axis = {"rows": kernel.product.left.axis, "columns": kernel.product.right.axis, "batches": -1}[shared]  # type: ignore[union-attr]
            assert kernel.product is not None and kernel.product.shared == axis
            once = emitted(t.storage.node, kernel, binding)
            for cuts in (range(1, binding.split), (3,), (1, 2, binding.split - 1)):
                assert emitted(t.storage.node, kernel, binding, cuts).tobytes() == once.tobytes()
