"""Random reductions over pairs, from a seed: what is reduced, how the operands lie, and what is done with the results.

Floats hold small whole numbers, so that the sums are exact, and all results have the same bits in whatever order they are
computed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.llvm import emit_contractions as emitted
from tenxor.codegen.llvm import panel_packing
from tenxor.dtypes import ALL_DTYPES, DType, boolean, complex64, complex128, float16, float32, float64, int8, int32, int64, uint8
from tenxor.lowering.cpu import schedule_contraction as planned
from tenxor.tensor import Tensor
from tests.machines import current, tuned, use

from .graphs import in_memory

View = Callable[[Tensor], Tensor]
PACKED = {"max_direct_extent": 0, "max_l1_column_bytes": 0, "max_direct_rows": 3, "max_direct_columns": 3}
SMALL = {
    "max_direct_extent": 0,
    "max_l1_column_bytes": 0,
    "max_direct_rows": 10,
    "max_direct_columns": 20,
    "block_rows": (8, 16),
    "block_columns": (16, 32),
    "packed_row_bytes": 64,
    "packed_column_bytes": 64,
}


def blocks(monkeypatch: pytest.MonkeyPatch, at_once: int = 8, **sizes: Any) -> None:
    """Other sizes of blocks, and of chunks of steps, for kernels planned and made from now on."""
    for module in (planned, emitted, panel_packing):
        monkeypatch.setattr(module, "STEPS_PER_CHUNK", at_once)
    use(monkeypatch, tuned(current(), blocks=sizes), unlike=f"\n{at_once} steps")


def integers(*shape: int, dtype: DType = float32, seed: int = 0) -> Tensor:
    """Return small integers, whose sums are exact in any order."""
    low = 0 if dtype.kind in ("uint", "bool") else -3
    rng = np.random.default_rng(seed)
    values = rng.integers(low, 2 if dtype is boolean else 4, shape)
    if dtype.is_complex:
        values = values + 1j * rng.integers(low, 4, shape)
    return Tensor._from_node(in_memory(values, dtype))


class Pairs:
    """A pending reduction over pairs, and its readers."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.kind = self.pick("matmul", "matmul", "matmul", "distance", "tropical", "logical", "reduced", "several")
        self.result = self.finished(getattr(self, self.kind)())

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    # What is reduced

    def sizes(self) -> tuple[int, int, int]:
        """Return rows, columns and steps."""
        return self.pick(4, 5, 7, 8, 12, 13, 24, 25), self.pick(8, 9, 15, 16, 17, 32, 33, 40), self.pick(4, 5, 8, 9, 17)

    def batch(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.pick(((), ()), ((), ()), ((3,), ()), ((), (2,)), ((2,), (2,)), ((1,), (3,)), ((2, 1), (3,)))

    def matmul(self) -> Tensor:
        rows, columns, steps = self.sizes()
        before, after = self.batch()
        dtype = self.pick(*(d for d in ALL_DTYPES if d is not boolean))
        a = self.operand((*before, rows, steps), dtype)
        if self.random.random() < 0.1:
            square = integers(columns, steps, dtype=dtype)
            return square @ square.T
        b = self.operand((*after, steps, columns), dtype)
        return self.factor(a) @ self.factor(b)

    def distance(self) -> Tensor:
        rows, columns, steps = self.sizes()
        dtype = self.pick(float32, float64, int32)
        a, b = self.operand((rows, steps), dtype), self.operand((columns, steps), dtype)
        difference = a[:, None] - b[None]
        return self.pick(tx.abs(difference), difference * difference).sum(axis=-1)

    def tropical(self) -> Tensor:
        rows, columns, steps = self.sizes()
        dtype = self.pick(float16, float32, float64, int8, uint8, int64)
        a, b = self.operand((rows, steps), dtype), self.operand((steps, columns), dtype)
        best = self.pick(tx.maximum, tx.minimum, tx.multiply if dtype.kind in ("int", "uint") else tx.add)
        return tx.contract(a, b, [(1, 0)], multiply=lambda x, y: x + y, add=best)

    def logical(self) -> Tensor:
        rows, columns, steps = self.sizes()
        left, other = self.pick((boolean, boolean), (int8, int8), (float64, float64), (boolean, boolean))
        a, b = self.operand((rows, steps), left), self.operand((steps, columns), other)
        return tx.contract(a, b, [(1, 0)], multiply=tx.logical_and, add=self.pick(tx.logical_or, tx.logical_and))

    def reduced(self) -> Tensor:
        """Return a user-defined reduction."""
        rows, columns, steps = self.sizes()
        dtype = self.pick(float16, float32, int64, uint8, complex64, complex128)
        a, b = self.operand((rows, steps), dtype), self.operand((columns, steps), dtype)
        if dtype.is_complex:
            sums = lambda x, y: x + y * 1
            return tx.contract(a, b, [(1, 1)], multiply=self.pick(None, lambda x, y: x - y * 1j), add=sums)
        add = self.pick(lambda x, y: x + y, lambda x, y: tx.maximum(x, y), lambda x, y: tx.where(x < y, x, y))
        return tx.contract(a, b, [(1, 1)], multiply=self.pick(None, lambda x, y: x - y), add=add)

    def several(self) -> Tensor:
        """Several axes on each side, and several that are summed over."""
        dtype = self.pick(float32, int32, float64, complex64)
        a = self.operand((self.pick(2, 3), self.pick(4, 5), self.pick(2, 4, 9), self.pick(2, 3, 5)), dtype)
        b = self.operand((a.shape[3], self.pick(2, 3), self.pick(8, 17), a.shape[2]), dtype)
        left, right = a[:, :, None, None, :, :], b.permute(1, 2, 3, 0)[None, None]
        axes = self.pick((4, 5), (5, 4), (4,), (5,))
        return self.pick(left * right, left - right).sum(axis=axes)

    # How the operands lie

    def operand(self, shape: tuple[int, ...], dtype: DType) -> Tensor:
        """A tensor of this shape, through some view."""
        moves = (
            "plain",
            "plain",
            "transposed",
            "sliced",
            "flipped",
            "broadcast",
            "gathered",
            "chained",
            "windows",
            "diagonal",
        )
        kind = self.pick(*moves)
        axis = self.random.randrange(len(shape))
        self.seed += 1

        def values(*sizes: int) -> Tensor:
            return integers(*sizes, dtype=dtype, seed=self.seed)

        if kind == "transposed":
            order = self.random.sample(range(len(shape)), len(shape))
            return values(*(shape[k] for k in order)).permute(*(order.index(k) for k in range(len(shape))))
        if kind == "sliced":
            step = self.pick(1, 2, 3, 4, 5, -1, -2, -3)
            wide = [n * abs(step) + 2 if k == axis else n for k, n in enumerate(shape)]
            cut = slice(1, 1 + shape[axis] * step, step) if step > 0 else slice(wide[axis] - 2, None, step)
            result = values(*wide)[(slice(None),) * axis + (cut,)]
            return result[(slice(None),) * axis + (slice(0, shape[axis]),)]
        if kind == "flipped":
            return values(*shape).flip(axis)
        if kind == "broadcast":
            return values(*(1 if k == axis else n for k, n in enumerate(shape))).broadcast_to(shape)
        if kind == "gathered":
            picks = [self.random.randrange(shape[axis] + 2) for _ in range(shape[axis])]
            wide = values(*(n + 2 * (k == axis) for k, n in enumerate(shape)))
            return wide.oindex[(slice(None),) * axis + (picks,)]
        if kind == "chained":
            count = int(np.prod(shape))
            return values(2, count // 2 + 3).T.reshape(-1)[self.pick(0, 1, 5) :][:count].reshape(shape)
        if kind == "windows" and axis + 1 < len(shape):
            wide = (*shape[:axis], shape[axis] + shape[-1] - 1, *shape[axis + 1 : -1])
            return values(*wide).windows(axis, shape[-1], 1)
        if kind == "diagonal" and axis + 1 < len(shape):
            others = [n for k, n in enumerate(shape) if k != axis]
            square = values(shape[axis] + 1, *others, shape[axis])
            return square[1:].diagonal(0, 0, len(shape)).moveaxis(-1, axis)
        return values(*shape)

    def factor(self, t: Tensor) -> Tensor:
        """Return an expression of one side alone."""
        kind = self.pick("plain", "plain", "scaled", "cast", "square", "both", "weighed", "numbered", "one")
        if kind == "scaled":
            return t * 2 + 1
        if kind == "cast":
            return t.conj() if t.dtype.is_complex else t.astype(int8).astype(t.dtype)
        if kind == "square":
            return t * t
        if kind == "both":
            return t + t[..., ::-1] * 2
        if kind == "weighed":
            return t * integers(t.shape[-1], dtype=t.dtype, seed=7)
        if kind == "numbered":
            return t + tx.arange(t.shape[-1], dtype=t.dtype)
        if kind == "one":
            return t * integers(dtype=t.dtype, seed=5)
        return t

    # What is done with the results

    def finished(self, t: Tensor) -> Tensor:
        ends = "row", "column", "both", "full", "cast", "scaled", "activated", "turned", "stored", "deep", "numbered"
        kind = self.pick("plain", *ends)
        if t.dtype is boolean:
            return ~t if kind == "scaled" else t.astype(float32) if kind == "cast" else t
        if kind == "row":
            return t + self.operand((t.shape[-2], 1), t.dtype)
        if kind == "column":
            return t * self.operand(t.shape[-1:], t.dtype)
        if kind == "both":
            return (t + integers(t.shape[-1], dtype=t.dtype)) * integers(t.shape[-2], 1, dtype=t.dtype)
        if kind == "full":
            return t - self.operand(t.shape, t.dtype)
        if kind == "cast":
            return t.astype(self.pick(*(d for d in ALL_DTYPES if d.is_complex or not t.dtype.is_complex)))
        if kind == "scaled":
            return t * 2 + 1
        if kind == "activated":
            return tx.where(t.real > 3, t, t * 3)
        if kind == "turned":
            return t.swapaxes(-1, -2) + integers(*t.swapaxes(-1, -2).shape, dtype=t.dtype)
        if kind == "stored":
            target = integers(*t.shape[:-1], 2 * t.shape[-1], dtype=t.dtype).realize()
            target[..., :: self.pick(2, -2)] = t
            return target
        if kind == "numbered":
            return t + tx.arange(t.shape[-1], dtype=t.dtype) * tx.arange(t.shape[-2], dtype=t.dtype)[:, None]
        if kind == "deep":
            most = t.conj() if t.dtype.is_complex else tx.maximum(t, 0)
            return most * integers(*t.shape, dtype=t.dtype) - t * integers(t.shape[-2], 1, dtype=t.dtype, seed=3)
        return t
