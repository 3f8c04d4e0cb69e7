"""Fusion changes no result: random programs computed lazily, operation by operation, and by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.dtypes import DType, boolean, float16, float32, float64, int32, int64, uint8
from tenxor.runtime.planner import preview_kernels

from .values import Array, array, assert_identical, random, tensor

pytestmark = pytest.mark.large
TensorAndArray = tuple[tx.Tensor, Array]
ROWS, COLUMNS = 9, 35  # a matrix whose rows end in a masked tail


class Program:
    """Random operations from a seed, applied to tensors and to arrays.

    With `eager` every tensor is realised as soon as it is made.
    """

    def __init__(self, seed: int, dtype: DType, *, eager: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype, self.eager = dtype, eager
        self.pool: list[TensorAndArray] = [self.input((ROWS, COLUMNS), k) for k in range(2)]
        self.pool += [self.input(s, 7) for s in ((COLUMNS,), (ROWS, 1), (COLUMNS, ROWS), ())]

    def input(self, shape: tuple[int, ...], k: int) -> TensorAndArray:
        size = int(np.prod(shape))
        x = random(self.dtype, size, k)
        x = (np.tanh(x) if self.dtype.is_float else x).reshape(shape)
        return tensor(x), x

    def run(self, steps: int) -> list[TensorAndArray]:
        makers: list[Callable[[], TensorAndArray | None]] = [
            *[self.arithmetic] * 5, *[self.function] * 2, *[self.view] * 3, *[self.reduction] * 2,
            self.choice, self.chosen, self.stored, self.cast,
        ]  # fmt: skip
        for _ in range(steps):
            pair = makers[self.rng.integers(len(makers))]()
            if pair is not None:
                t, x = pair
                assert t.shape == x.shape, (t.shape, x.shape)
                if self.eager:
                    t.realize()
                self.pool.append((t, x))
        return self.pool

    def pick(self) -> TensorAndArray:
        """Return a random pair, preferably a recent one."""
        position = len(self.pool) - 1 - int(self.rng.exponential(3))
        return self.pool[max(0, position)]

    def two(self) -> tuple[TensorAndArray, TensorAndArray] | None:
        """Two that broadcast together."""
        a = self.pick()
        for _ in range(5):
            b = self.pick()
            try:
                shape = np.broadcast_shapes(a[1].shape, b[1].shape)
            except ValueError:
                continue
            if np.prod(shape, dtype=int) <= 20_000:
                return (a, b) if self.rng.integers(2) else (b, a)
        return None

    # What a step may be

    def arithmetic(self) -> TensorAndArray | None:
        pair = self.two()
        if pair is None:
            return None
        (a, x), (b, y) = pair
        name = self.draw("add", "subtract", "multiply", "maximum", "minimum")
        return self.tamed(getattr(tx, name)(a, b), getattr(np, name)(x, y))

    def tamed(self, t: tx.Tensor, x: Array) -> TensorAndArray:
        """Floats kept below 4, so that nothing grows from step to step."""
        if not self.dtype.is_float:
            return t, x
        return tx.clip(t, -4.0, 4.0) * 0.75, (np.clip(x, -4, 4) * x.dtype.type(0.75)).astype(x.dtype)

    def function(self) -> TensorAndArray:
        t, x = self.pick()
        if self.dtype.is_float:
            name = self.draw("sin", "tanh", "floor", "abs", "negative")
            return getattr(tx, name)(t), getattr(np, name)(x)
        if self.rng.integers(2):
            return t // 3 - t % 7, x // x.dtype.type(3) - x % x.dtype.type(7)
        return t ^ (t >> 1), x ^ (x >> x.dtype.type(1))

    def view(self) -> TensorAndArray | None:
        t, x = self.pick()
        if x.ndim == 0:
            return t.expand(3), np.broadcast_to(x, (3,))
        axis = int(self.rng.integers(x.ndim))
        n = x.shape[axis]
        kind = self.draw("transpose", "flip", "slice", "flatten", "gather", "spread", "regroup")
        before = (slice(None),) * axis
        if kind == "transpose":
            return t.T, x.T
        if kind == "flip":
            return t.flip(axis), np.flip(x, axis)
        if kind == "slice":
            key = (*before, slice(int(self.rng.integers(0, max(1, n // 2))), None, int(self.draw(1, 2))))
            return t[key], x[key]
        if kind == "flatten":
            return t.reshape(-1), x.reshape(-1)
        if kind == "gather":
            index = self.rng.integers(0, n, n).tolist()
            return t.oindex[(*before, index)], np.take(x, index, axis)
        if kind == "spread":
            return (t.expand_dims(0).expand(2, *x.shape), np.broadcast_to(x, (2, *x.shape))) if x.ndim < 3 else None
        if x.ndim == 2:
            return t.T.reshape(t.shape), x.T.reshape(x.shape)
        return None

    def reduction(self) -> TensorAndArray | None:
        t, x = self.pick()
        if x.ndim == 0:
            return None
        axis = int(self.rng.integers(x.ndim)) if self.rng.integers(4) else None
        keepdims = bool(self.rng.integers(2))
        name = self.draw("max", "min", "sum", "mean", "argmax")
        if name == "mean" and not self.dtype.is_float:
            name = "sum"
        actual, wanted = (
            getattr(t, name)(axis=axis, keepdims=keepdims),
            np.asarray(getattr(x, name)(axis=axis, keepdims=keepdims)),
        )
        if name == "argmax" and self.dtype.is_float:
            return None  # which of two nearly equal ones is larger, rounding may decide
        actual, wanted = actual.astype(self.dtype), wanted.astype(x.dtype)
        return self.tamed(actual, wanted) if name in ("sum", "mean") else (actual, wanted)

    def choice(self) -> TensorAndArray | None:
        pair = self.two()
        if pair is None:
            return None
        (a, x), (b, y) = pair
        return tx.where(a > 0, a, b), np.where(x > 0, x, y)

    def chosen(self) -> TensorAndArray | None:
        """Some elements, by indices in memory or pending."""
        t, x = self.pick()
        if x.ndim == 0 or 0 in x.shape:
            return None
        axis = int(self.rng.integers(x.ndim))
        n = x.shape[axis]
        index = self.rng.integers(-n, n, int(self.draw(n, 2 * n, 3)))
        key, ours = (slice(None),) * axis, tx.asarray(index)
        if self.rng.integers(2):
            ours = -ours - 1
            index = -index - 1
        kind = self.draw("take", "key", "along", "two")
        if kind == "take":
            return t.take(ours, axis), np.take(x, index, axis)
        if kind == "two" and axis:
            first = index % x.shape[0]
            return t[(ours % x.shape[0], *key[1:], ours)], x[(first, *key[1:], index)]
        if kind == "along":
            wide = (*[1] * axis, index.size, *[1] * (x.ndim - axis - 1))
            indices = np.broadcast_to(index.reshape(wide), (*x.shape[:axis], index.size, *x.shape[axis + 1 :]))
            return tx.take_along_axis(t, ours.reshape(wide), axis), np.take_along_axis(x, indices, axis)
        return t[(*key, ours)], x[(*key, index)]

    def stored(self) -> TensorAndArray | None:
        """A copy, part of it written."""
        t, x = self.pick()
        if x.ndim != 2 or 0 in x.shape:
            return None
        t, x = t.copy(), x.copy()
        key = (slice(None, None, -1), slice(x.shape[1] // 3, None))
        kind = self.draw("number", "itself", "in place")
        if kind == "number":
            t[key], x[key] = 1, 1
        elif kind == "itself":
            t[:, 1:], x[:, 1:] = t[:, :-1], x[:, :-1].copy()
        else:
            t[key] *= t[key].max(axis=1, keepdims=True)
            x[key] *= x[key].max(axis=1, keepdims=True)
        return self.tamed(t, x)

    def cast(self) -> TensorAndArray:
        t, x = self.pick()
        if self.dtype.is_float:
            return t.astype(int64).astype(self.dtype), x.astype(np.int64).astype(x.dtype)
        return t.astype(boolean).astype(self.dtype), x.astype(bool).astype(x.dtype)

    def draw(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]


@pytest.mark.parametrize("seed", range(24))
def test_random_integer_programs_match_numpy(seed: int) -> None:
    dtype = (int64, int32, uint8)[seed % 3]
    with np.errstate(over="ignore"):
        lazy = Program(seed, dtype, eager=False).run(30)
        eager = Program(seed, dtype, eager=True).run(30)
    assert len(lazy) == len(eager) > 12
    for k, ((t, x), (u, _)) in enumerate(zip(reversed(lazy), reversed(eager), strict=True)):
        assert_identical(array(t), x, "program", seed, "result", -k - 1)
        assert_identical(array(u), x, "eager program", seed, "result", -k - 1)


@pytest.mark.parametrize("seed", range(100, 124))
def test_random_float_programs_match_eager_ones_and_numpy(seed: int) -> None:
    dtype = (float64, float32)[seed % 2]
    lazy = Program(seed, dtype, eager=False).run(30)
    eager = Program(seed, dtype, eager=True).run(30)
    assert len(lazy) == len(eager) > 12
    tolerance = 1e-4 if dtype is float32 else 1e-12
    for k, ((t, x), (u, _)) in enumerate(zip(reversed(lazy), reversed(eager), strict=True)):
        np.testing.assert_allclose(
            array(t), array(u), rtol=tolerance / 100, atol=tolerance / 100, err_msg=f"program {seed}, result {-k - 1}"
        )
        np.testing.assert_allclose(array(t), x, rtol=tolerance, atol=tolerance, err_msg=f"program {seed}, result {-k - 1}")


@pytest.mark.parametrize("seed", [200, 201, 202])
def test_results_do_not_depend_on_the_order_of_realization(seed: int) -> None:
    with np.errstate(over="ignore"):
        forwards, backwards = (Program(seed, int32, eager=False).run(25) for _ in range(2))
    forward_results = [array(t) for t, _ in forwards]
    backward_results = [array(t) for t, _ in reversed(backwards)][::-1]
    for a, b in zip(forward_results, backward_results, strict=True):
        assert_identical(a, b, seed)


def test_fused_elementwise_chains_round_each_step() -> None:
    """A product is rounded before an addition, never contracted to a fused multiply-add."""
    for dtype in (float16, float32, float64):
        x, y, z = (random(dtype, 1000, k) for k in range(3))
        fused = array(tensor(x) * tensor(y) + tensor(z) * tensor(x) - tensor(y))
        with np.errstate(over="ignore"):
            assert_identical(fused, x * y + z * x - y, dtype)


SUMMED: dict[str, Callable[[tx.Tensor, tx.Tensor], tx.Tensor]] = {
    "wider memory": lambda x, s: (s.astype(float64) + tensor(np.zeros(1))).astype(float32),
    "narrower memory": lambda x, s: s + tensor(np.zeros(1, np.uint8)),
    "a costly reduction in the same loop": lambda x, s: tx.where(tx.sin(tx.exp(x)).max(axis=1) < 9, s, 0),
    "a reduction over the rows again": lambda x, s: tx.where(((x - s[:, None]) ** 2).sum(axis=1) > 0, s, 0),
    "a vector in memory": lambda x, s: s + tensor(np.zeros(9, np.float32)),
    "every element": lambda x, s: (tx.exp(x) * 0 + s[:, None])[:, 0],
}


@pytest.mark.parametrize("name", SUMMED)
def test_sum_has_equal_bits_in_every_fused_kernel(name: str) -> None:
    x = tensor(random(float32, 9 * 5000).clip(-9, 9).reshape(9, 5000))
    actual = SUMMED[name](x, x.sum(axis=1))
    assert len(preview_kernels([actual.storage.node])) == 1
    assert_identical(array(actual), array(x.sum(axis=1)), name)


OTHER_REDUCTIONS: dict[str, Callable[[tx.Tensor], tx.Tensor]] = {
    "where the largest is": lambda x: x.argmax(1),
    "a count": lambda x: x.count_nonzero(1),
    "a wider sum": lambda x: x.astype(float64).sum(1),
    "an extreme": lambda x: x.max(1),
    "a reduction in order": lambda x: tx.reduce(lambda acc, e: acc * 0.5 - e, x, axis=1, initial=0.0),
    "a sum of columns": lambda x: x.sum(axis=0),
}


@pytest.mark.parametrize("name", OTHER_REDUCTIONS)
def test_sum_has_equal_bits_beside_another_reduction(name: str) -> None:
    x = tensor(random(float32, 300 * 300).clip(-9, 9).reshape(300, 300))
    other = (OTHER_REDUCTIONS[name](x) * 0).astype(float32)
    assert_identical(array(x.sum(axis=1) + other), array(x.sum(axis=1)), name)


Pair = Callable[[tx.Tensor, tx.Tensor], tuple[tx.Tensor, tx.Tensor]]


def store_transposed(value: tx.Tensor) -> tx.Tensor:
    target = tx.zeros(value.T.shape, dtype=float32).realize()
    target.T[...] = value
    return target.T


RECOMPUTED: dict[str, Pair] = {
    "a product and its transposed copy": lambda x, z: (r := x @ x, r.T.copy().realize().T),
    "a product and a sum across it": lambda x, z: (r := x @ x, (r.T + z).realize().T),
    "column sums in rows": lambda x, z: (s := x.sum(axis=0, keepdims=True), (s + z.T).realize()[:1]),
    "row sums of a transpose in rows": lambda x, z: (s := x.T.sum(axis=1, keepdims=True), (s + z).realize()[:, :1]),
    "row sums of a transpose, chosen": lambda x, z: (
        s := x.T.sum(axis=1, keepdims=True),
        tx.where(z == 0, s, 0.0).realize()[:, :1],
    ),
    "a product stored across": lambda x, z: (r := x @ x, store_transposed(r).realize()),
    "column sums of three axes, across": lambda x, z: (
        s := x.reshape(10, 20, 200).sum(axis=0),
        (s.T + z[:, :20]).realize().T,
    ),
    "one of many sums": lambda x, z: (
        s := x.sum(axis=0),
        (s[7, ...] + z[0]).realize()[0, ...].expand(200) - s[7, ...] + s,
    ),
    "means that are taken off": lambda x, z: (
        m := x.T.mean(axis=1, keepdims=True),
        (x.T * 0 + m).realize()[:, :1],
    ),
}


@pytest.mark.parametrize("name", RECOMPUTED)
def test_value_computed_in_two_kernels_has_equal_bits(name: str) -> None:
    x, z = tensor(random(float32, 40_000).clip(-9, 9).reshape(200, 200)), tensor(np.zeros((200, 200), np.float32))
    expected, actual = RECOMPUTED[name](x, z)
    assert_identical(array(actual), array(expected), name)


SCANNED: dict[str, Callable[[tx.Tensor], tx.Tensor]] = {
    "sums": lambda x: x.sum(axis=1),
    "sums of products": lambda x: (x * x).sum(axis=1) * 2,
    "means": lambda x: x.mean(axis=1) - 1,
    "all": lambda x: x.sum(keepdims=True),
}


@pytest.mark.parametrize("name", SCANNED)
def test_sum_fused_into_a_scan_has_equal_bits(name: str) -> None:
    x = tensor(random(float32, 300 * 70).clip(-9, 9).reshape(300, 70))
    with fastpath.disabled():
        for scan in (tx.cumulative_sum, tx.cumulative_prod):
            assert_identical(array(scan(SCANNED[name](x), axis=0)), array(scan(SCANNED[name](x).realize(), axis=0)), name)


# --- threads ----------------------------------------------------------------------------------------------------------


SIZE = 1 << 21
LARGE: dict[str, Callable[[tx.Tensor, tx.Tensor], tx.Tensor]] = {
    "elementwise": lambda a, b: (a * b + a) * (a - b),
    "transposed": lambda a, b: a.reshape(2048, -1).T + b.reshape(-1, 2048),
    "rows": lambda a, b: (a * b).reshape(2048, -1).sum(axis=1),
    "columns": lambda a, b: (a * b).reshape(2048, -1).sum(axis=0),
    "few columns": lambda a, b: (a - b).reshape(-1, 3).sum(axis=0),
    "all": lambda a, b: (a * b).sum(),
    "all, transposed": lambda a, b: (a.reshape(2048, -1).T * b.reshape(-1, 2048)).sum(),
    "middle": lambda a, b: (a + b).reshape(64, -1, 32).sum(axis=1),
    "outer": lambda a, b: (a + b).reshape(64, -1, 32).sum(axis=(0, 2)),
    "argmax": lambda a, b: (a * b).reshape(2048, -1).argmax(axis=1),
    "cumsum": lambda a, b: (a * b).reshape(2048, -1).cumulative_sum(axis=1),
    "normalised": lambda a, b: a.reshape(2048, -1) - (b.reshape(2048, -1) * 2).max(axis=1, keepdims=True),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [float32, float64, int64], ids=str)
@pytest.mark.parametrize("name", LARGE)
def test_bits_of_fused_programs_do_not_depend_on_the_number_of_threads(name: str, dtype: DType, threads: Callable[[int], None]) -> None:
    n = (SIZE // 6144 + 1) * 6144
    a, b = tensor(random(dtype, n)), tensor(random(dtype, n, 1))
    threads(1)
    expected = array(LARGE[name](a, b))
    for count in (2, 3):
        threads(count)
        assert_identical(array(LARGE[name](a, b)), expected, name, dtype, count, "threads")


@pytest.mark.usefixtures("plain")
def test_float16_sign_and_tanh_of_softplus_round_correctly() -> None:
    """LLVM merged two roundings to float16 into one, with a library function that does not exist here."""
    full = tx.asarray(np.full((2, 3), -1.5, np.float16))
    for x in (full, full[0], full[0, :1], full[0, 0]):
        results = tx.tanh(tx.softplus(x)), tx.copysign(x, tx.softplus(x))
        for t, wanted in zip(results, (0.1987, 1.5), strict=True):
            np.testing.assert_array_equal(t.to_numpy(), np.full(x.shape, wanted, np.float16))
