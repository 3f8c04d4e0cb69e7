"""Scatters by both back ends, compared with NumPy's `ufunc.at` and assignment, which take values in the same order."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

from tenxor.dtypes import ALL_DTYPES, DType, boolean, decode_elements, float16, float32, float64, int64
from tenxor.graph.node import Node
from tenxor.layout import Layout
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.lower import lower
from tests.lowering.helpers import Array, cast, elementwise, scattered, value
from tests.machines import current, vectors

from . import twins
from .graphs import in_memory

NUMBERS = [d for d in ALL_DTYPES if d is not boolean]
JOINED: dict[str, Any] = {"prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or}
SHAPES = ((1,), (5,), (70,), (3, 4), (9, 1), (7, 33), (4, 70), (2, 3, 5), (3, 2, 17))


def combining_reductions(dtype: DType) -> list[str | None]:
    """Return the reductions that can combine elements of a dtype, and None, which keeps the last value."""
    if dtype is boolean:
        return [None, "any", "all", "max", "min"]
    return [None, "sum_in_width", "prod", *(() if dtype.is_complex else ("max", "min"))]


def small_integers(random: Random, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return small integers, so that nothing is rounded and products stay small."""
    low = 0 if dtype.kind in ("uint", "bool") else -2
    values = [random.randint(low, 1 if dtype is boolean else 2) for _ in range(prod(shape))]
    result = np.array(values, dtype.compute_dtype.numpy if dtype.is_float else dtype.numpy)
    if dtype.is_complex:
        result += np.array([1j * random.randint(-1, 1) for _ in values], dtype.numpy)
    return result.reshape(shape)


def expected(old: Array, key: Any, values: Array, name: str | None) -> Array:
    """Return NumPy's result."""
    result = old.copy()
    ufunc = {"sum_in_width": np.add, "all": np.logical_and, **JOINED}.get(name or "")
    if ufunc is None:
        result[key] = values
    else:
        with np.errstate(all="ignore"):
            ufunc.at(result, key, values)
    return result


class Case:
    """A random scatter along some axes, at indices that repeat and count from either end."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.dtype = random.choice(ALL_DTYPES)
        shape = random.choice(SHAPES)
        self.axes = sorted(random.sample(range(len(shape)), random.randint(1, min(2, len(shape)))))
        count = random.choice(((), (1,), (6,), (40,), (3, 5)))
        self.name = random.choice(combining_reductions(self.dtype))
        self.old = small_integers(random, shape, self.dtype)
        sizes = [shape[a] for a in self.axes]
        self.indices = [np.array([random.randrange(-n, n) for _ in range(prod(count))], np.int64).reshape(count) for n in sizes]
        other_sizes = [n for a, n in enumerate(shape) if a not in self.axes]
        full_shape = (*count, *other_sizes)
        values_shape = tuple([n if random.random() < 0.8 else 1 for n in full_shape])[random.choice((0, 0, len(count))) :]
        self.values = small_integers(random, values_shape, self.dtype)
        self.front = [*self.axes, *(a for a in range(len(shape)) if a not in self.axes)]

    def node(self) -> Node:
        random = self.random
        kinds = [d for d in ALL_DTYPES if d.kind == "int" and d.highest >= max(self.old.shape)]
        indices = [in_memory(i, random.choice(kinds)) for i in self.indices]
        if random.random() < 0.3:
            indices = [cast(i, int64) for i in indices]
        values = in_memory(self.values, self.dtype)
        if random.random() < 0.3 and self.dtype is not boolean:
            values = elementwise("multiply", values, in_memory(np.ones(()), self.dtype))
        return scattered(in_memory(self.old, self.dtype), self.axes, indices, values, self.name)

    def expected(self) -> Array:
        old = self.old.transpose(self.front)
        result = expected(old, tuple(self.indices), self.values, self.name)
        return result.transpose(np.argsort(self.front))


@pytest.mark.parametrize("block", range(8))
def test_scatters_match_numpy(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        case = Case(seed)
        node = case.node()
        twins.check(node)
        result = decode_elements(value(node), case.dtype).reshape(case.old.shape)
        np.testing.assert_array_equal(result, case.expected().astype(result.dtype), f"seed {seed}: {case.name}")


@pytest.mark.parametrize("nbytes", [16, 64])
def test_scatters_of_other_vector_lengths_agree_on_both_back_ends(nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors(monkeypatch, nbytes)
    for seed in range(1000, 1015):
        twins.check(Case(seed).node())


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_scattered_values_are_taken_in_order(dtype: DType) -> None:
    """Each of three elements receives a hundred values, many of them within one vector."""
    random = Random(3)
    index = np.array([random.randrange(-3, 3) for _ in range(300)])
    values = np.array([random.randint(0, 100) for _ in range(300)]).astype(dtype.compute_dtype.numpy)
    for name in (None, "sum_in_width"):
        node = scattered(in_memory(np.zeros(3), dtype), [0], [in_memory(index, int64)], in_memory(values, dtype), name)
        twins.check(node)
        wanted = expected(np.zeros(3, values.dtype if dtype.itemsize > 2 else np.float64), index, values, name)
        if not (name and dtype.itemsize <= 2):
            np.testing.assert_array_equal(decode_elements(value(node), dtype), wanted.astype(dtype.compute_dtype.numpy))


def test_scattered_narrow_floats_are_rounded_at_every_step() -> None:
    values = np.array([2048.0, *[1.0] * 9])
    node = scattered(
        in_memory(np.zeros(1), float16),
        [0],
        [in_memory(np.zeros(10), int64)],
        in_memory(values, float16),
        "sum_in_width",
    )
    twins.check(node)
    assert value(node)[0] == 2048.0  # to nearest even, each time


def test_scattered_max_and_min_propagate_nan_and_order_signed_zeros() -> None:
    old = np.array([0.0, -0.0, 1.0, np.nan])
    values = np.array([-0.0, 0.0, np.nan, 5.0])
    for name, wanted in (("max", [0.0, 0.0, np.nan, np.nan]), ("min", [-0.0, -0.0, np.nan, np.nan])):
        node = scattered(in_memory(old, float64), [0], [in_memory(np.arange(4), int64)], in_memory(values, float64), name)
        twins.check(node)
        np.testing.assert_array_equal(value(node), wanted)
        np.testing.assert_array_equal(np.signbit(value(node)[:2]), np.signbit(wanted[:2]))


@pytest.mark.parametrize("name", [None, "sum_in_width", "max"])
def test_scatter_bits_do_not_depend_on_threads(name: str | None) -> None:
    rng = np.random.default_rng(5)
    old, values = rng.random((50, 130)), rng.random((3000, 130))
    index = rng.integers(-50, 50, 3000)

    def build(columns: bool) -> Node:
        arrays = (old, values) if columns else (old.T, values.T)
        target_node, value_node = (in_memory(array, float32) for array in arrays)
        if columns:
            return scattered(target_node, [0], [in_memory(index, int64)], value_node, name)
        through = Layout.contiguous((130, 3000)).transpose()
        return scattered(target_node, [1], [in_memory(index, int64)], (value_node, through), name)

    for columns in (True, False):
        results = []
        for threads in (1, 3):
            node, target = build(columns), current().with_threads(threads)
            ((kernel, binding),) = [lower(n, {n}, target) for n in fuse(collect_pending([node]), [node], target)]
            assert (kernel.shared_axis >= 0) == (threads > 1 or not columns)
            results.append(twins.emitted(node, kernel, binding))
            if kernel.shared_axis >= 0:
                grain = kernel.choose_grain(target.thread_limits)
                cuts = [grain, 2 * grain]
                assert twins.emitted(node, kernel, binding, cuts).tobytes() == results[-1].tobytes()
        assert results[0].tobytes() == results[1].tobytes()
        wanted = expected(old.astype(np.float32), index, values.astype(np.float32), name)
        np.testing.assert_array_equal(results[0].reshape(wanted.shape if columns else wanted.T.shape), wanted if columns else wanted.T)
