"""Machine code compared with the interpreter, kernel by kernel, on memory directly before a page without rights."""

from __future__ import annotations

from itertools import product
from math import inf, nan, prod
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.llvm.elementary import FUNCTIONS
from tenxor.codegen.llvm.emit_kernel import emit_kernel
from tenxor.dtypes import ALL_DTYPES, DType, bfloat16, boolean, float16, float32, float64, int16, int64, uint8
from tenxor.graph.node import Node
from tenxor.graph.reduction_limits import NEAR_STEPS
from tenxor.lowering.ir import Kernel, Store, iterate_expressions, iterate_statements, walk
from tenxor.ops import OPS
from tenxor.ops.expr import Const
from tenxor.ops.reductions import REDUCTIONS
from tenxor.runtime.planner import preview_kernels
from tenxor.target import Target
from tenxor.tensor import Tensor

from .graphs import Graph, in_memory
from .twins import Array, assert_same, check, content

FLOATS = [d for d in ALL_DTYPES if d.is_float]
ELEMENTARY = sorted(FUNCTIONS)
LENGTHS = range(71)  # from nothing to more than any step of several vectors
BOUND = {
    "float64": 3,
    "float32": 2,
    "float16": 1,
    "bfloat16": 1,
}  # units in the last place, half a unit of the oracle's in it


def tensor(values: Any, dtype: DType) -> Tensor:
    """Return a tensor in memory."""
    return Tensor._from_node(in_memory(np.asarray(values), dtype))


def agree(*tensors: Tensor, **options: Any) -> list[Kernel]:
    """Compute pending tensors by both back ends, which must agree, and return the kernels."""
    return check(*(t.storage.node for t in tensors), **options)


def order_of(x: Array) -> Array:
    """Return floats as integers in the same order: neighbours differ by 1."""
    bits = x.view(f"i{x.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.int64(np.iinfo(f"i{x.itemsize}").min) - bits, bits)


def within(dtype: DType) -> Any:
    """Return a comparison within the error bound of the elementary functions of this dtype."""

    def compare(actual: Array, expected: Array) -> None:
        shift = 16 if dtype is bfloat16 else 0  # it is stored as float32, whose last 16 bits are zeros
        assert np.array_equal(np.isnan(actual), np.isnan(expected))
        numbers = ~np.isnan(expected)
        errors = np.abs(order_of(actual[numbers]) - order_of(expected[numbers])) >> shift
        assert not errors.size or errors.max() <= BOUND[dtype.name], f"{errors.max()} units off"

    return compare


class TestRandomGraphs:
    @pytest.mark.parametrize("block", range(4))
    def test_random_graphs_of_any_dtype_agree_on_both_back_ends(self, block: int) -> None:
        kernels = []
        for seed in range(100 * block, 100 * block + 50):
            try:
                kernels += check(*Graph(seed).roots())
            except AssertionError as error:
                raise AssertionError(f"Graph({seed}): {error}") from None
        assert len(set(kernels)) > 60 and sum(k.contraction is not None for k in kernels) > 2


class TestTails:
    """All lengths, and so all masks, for each element size."""

    @pytest.mark.parametrize("dtype", [uint8, int16, float16, bfloat16, float32, int64, float64], ids=str)
    def test_tails_of_every_length_agree_on_both_back_ends(self, dtype: DType) -> None:
        rng = np.random.default_rng(5)
        for n in LENGTHS:
            x, y = (tensor(rng.integers(0, 50, n), dtype) for _ in range(2))
            agree(x + y, x[::-1] * y, tx.less(x, y), (x - y).sum(), x.astype(tx.float64) + 1)
            if n:
                agree(x.argmax(), tx.max(x), x.oindex[rng.permutation(n).tolist()] + y)
            target = tx.full((2 * n + 1,), 7, dtype=dtype)  # pending, and written in every way
            target[1::2] = x
            target[:n] = y
            agree(target)

    @pytest.mark.parametrize("dtype", [boolean, bfloat16, float32, int64], ids=str)
    def test_tails_of_rows_and_columns_agree_on_both_back_ends(self, dtype: DType) -> None:
        rng = np.random.default_rng(6)
        for n in LENGTHS:
            x = tensor(rng.integers(0, 2, (3, n)), dtype)
            agree(x.sum(axis=0), x.sum(axis=1), x.count_nonzero(axis=1), x.T.sum(axis=1))
            agree(tx.cumulative_sum(x, axis=1), tx.cumulative_sum(x, axis=0))
            agree(x.astype(float32) - x.sum(axis=1, keepdims=True))

    def test_kernels_read_operands_to_their_end_and_no_further(self) -> None:
        x = tensor(np.arange(4096), uint8)  # a full page, followed by a page without rights
        for start in range(4090, 4096):
            agree(x[start:] + 1, x[start - 64 :].sum(), x[start - 127 :][::-1] + 1, x[start - 3 :: 2] + 1)


def special_values(dtype: DType) -> list[Any]:
    if dtype is boolean:
        return [False, True]
    if dtype.is_float:
        numbers = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.0, 1e-3, inf, -inf, nan]
        info = np.finfo(np.float16 if dtype is float16 else dtype.compute_dtype.numpy)
        return [*numbers, 1.5, 100.25, -33.0, float(info.max), float(info.tiny), 1 / 3]
    if dtype.is_complex:
        return [
            0j,
            complex(0, -0.0),
            1 + 2j,
            -2.5 - 1e-3j,
            complex(inf, 1),
            complex(-inf, nan),
            complex(3, -inf),
            100.25 + 7j,
        ]
    low, high = int(dtype.lowest), int(dtype.highest)
    return [v for v in (low, low + 1, -7, -2, -1, 0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, high // 2, high) if low <= v]


class TestOperations:
    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    @pytest.mark.parametrize("name", [n for n in ELEMENTARY if OPS[n].arity == 1])
    def test_elementary_functions_agree_on_both_back_ends_within_their_bounds(self, name: str, dtype: DType) -> None:
        rng = np.random.default_rng(7)
        numbers = [
            rng.uniform(-1, 1, 90),
            rng.uniform(-9, 9, 90),
            10 ** rng.uniform(-4, 4, 90),
            -(10 ** rng.uniform(-7, 2, 90)),
        ]
        agree(Tensor._compute(OPS[name], tensor(np.concatenate(numbers), dtype)), compare=within(dtype))

    def test_scalars_of_every_dtype_are_kernel_arguments(self) -> None:
        for dtype in ALL_DTYPES:
            x = tensor(np.ones(9), dtype)
            for value in special_values(dtype):
                for kernel in agree(Tensor._compute(OPS["where"], x.astype(boolean), value, x)):
                    numbers = [e for root in iterate_expressions(kernel.body) for e in walk(root) if isinstance(e, Const)]
                    assert not numbers, f"{value} is part of the code\n{kernel}"


def close(actual: Array, expected: Array) -> None:
    assert np.allclose(actual, expected, rtol=1e-5 if actual.dtype == np.float32 else 1e-12, atol=1e-6, equal_nan=True)


class TestReductions:
    @pytest.mark.parametrize("name", sorted(REDUCTIONS))
    def test_reductions_over_all_axes_of_many_views_agree_on_both_back_ends(self, name: str) -> None:
        rng = np.random.default_rng(8)
        x = tensor(rng.integers(-3, 4, (5, 6, 7)), int64)
        f = tensor(rng.integers(-3, 4, (5, 6, 7)), float32)
        views = [
            x,
            x.permute_dims((2, 0, 1)),
            x[::-1, ::2, 3:],
            x.T.reshape(35, 6),
            x.oindex[[0, 0, 4], None, [5, 1]],
            f,
        ]
        for v in views:
            for chosen in product([True, False], repeat=v.ndim):
                axes = tuple(a for a, c in enumerate(chosen) if c)
                if axes and (len(axes) == 1 or not name.startswith("arg")):
                    axis = axes[0] if name.startswith("arg") else axes
                    agree(v._reduce(REDUCTIONS[name], name, axis, False))

    @pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
    def test_reductions_of_extreme_values_of_all_dtypes_agree_on_both_back_ends(self, dtype: DType) -> None:
        rng = np.random.default_rng(9)
        values = np.array(special_values(dtype), dtype.compute_dtype.numpy)
        if dtype.is_float or dtype.is_complex:  # their sums are exact
            values = values[np.abs(values.astype(np.complex128)) < 1e3]
            values = values[values == values.round()]
        x = tensor(rng.choice(values, (9, 37)), dtype)
        inexact = dtype.is_float or dtype.is_complex
        names = [n for n in REDUCTIONS if not (dtype is boolean or dtype.is_complex) or not REDUCTIONS[n].ordered]
        for name in names:
            if name != "prod" or not inexact:
                for axis in (0, 1):
                    agree(x._reduce(REDUCTIONS[name], name, axis, False))

    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_sums_round_within_the_error_bound(self, dtype: DType) -> None:
        rng = np.random.default_rng(10)
        eps = np.finfo(dtype.compute_dtype.numpy).eps
        for shape in ((3, 1000), (1000, 3), (2, 17)):
            numbers = rng.normal(size=shape)
            for axis in (0, 1):
                scale = np.abs(numbers).sum(axis=axis).max() * shape[axis] * eps
                unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype.name, 0.0)

                def near(actual: Array, expected: Array, scale: float = scale, unit: float = unit) -> None:
                    assert np.allclose(actual, expected, rtol=unit, atol=scale)

                agree(tensor(numbers, dtype).sum(axis=axis), compare=near)

    @pytest.mark.parametrize("name", ["argmax", "argmin"])
    def test_argmax_returns_first_of_equals_and_prefers_nan(self, name: str) -> None:
        rng = np.random.default_rng(11)
        for n in (1, 2, 15, 16, 17, 64, 65, 200):
            numbers = rng.integers(0, 3, (4, n)).astype(np.float64)
            numbers[1, n // 2 :] = nan
            numbers[2, n - 1] = nan
            numbers[3] = -inf if name == "argmax" else inf
            for dtype in FLOATS:
                x = tensor(numbers, dtype)
                result = x._reduce(REDUCTIONS[name], name, 1, False)
                agree(result, x.T._reduce(REDUCTIONS[name], name, 0, False))
                assert content(result.storage.node).tolist() == getattr(np, name)(numbers, axis=1).tolist()

    @pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
    def test_scans_of_views_agree_on_both_back_ends(self, name: str) -> None:
        rng = np.random.default_rng(12)
        for dtype in (uint8, int64, float16, float32):
            x = tensor(rng.integers(0, 3, (6, 35)), dtype)
            for v in (x, x.T, x[::-1, ::3], x.reshape(7, 30), x.oindex[[5, 5, 0]]):
                agree(v._cumulate(name, "scan", -1, None))

    def test_user_reductions_agree_on_both_back_ends(self) -> None:
        x = tensor(np.arange(1, 36).reshape(5, 7), int64)
        for axis in (0, 1, None):
            agree(tx.reduce(lambda acc, e: 3 * acc - e, x, axis=axis, initial=1))
            agree(tx.reduce(lambda acc, e: tx.maximum(acc, e), x.T, axis=axis))
            agree(tx.reduce(lambda acc, e: 3 * acc - e, x, axis=axis, initial=1) + x.sum(axis=axis))  # in one loop
        a, b = tensor(np.arange(15).reshape(3, 5), int64), tensor(np.arange(20).reshape(5, 4) % 7, int64)
        agree(a @ b, b.T @ a.T, tx.contract(a, b, [(1, 0)], lambda x, y: x + y, lambda x, y: tx.maximum(x, y)))
        agree(a.astype(float32) @ b.astype(float32), tx.contract(a, b, []))


class TestFusion:
    def test_fused_row_reductions_agree_on_both_back_ends(self) -> None:
        x = tensor(np.random.default_rng(13).integers(-8, 8, (5, 40)), float32)
        top = x.max(axis=1, keepdims=True)
        for y in (x - top, (x - top) / tx.maximum(x - top, -3).sum(axis=1, keepdims=True), x == top):
            assert len(agree(y)) == 1
        (kernel,) = agree(tx.exp(x - top) / tx.exp(x - top).sum(axis=1, keepdims=True), compare=close)
        assert len(kernel.accumulators) == 2

    def test_distances_read_float32_operands_once(self) -> None:
        rng = np.random.default_rng(14)
        a, b = tensor(rng.integers(0, 17, (6, 20)), float32), tensor(rng.integers(0, 17, (9, 20)), float32)
        (kernel,) = agree(((a[:, None] - b[None]) ** 2).sum(-1))
        assert sorted(o.dtype.name for o in kernel.operands) == ["float32"] * 3

    def test_views_of_computed_values_agree_on_both_back_ends(self) -> None:
        x = tensor(np.arange(60).reshape(3, 4, 5), int64)
        agree(((x + 1).T.reshape(12, 5)[::-1] * 2).reshape(60)[3:50:2] - 1)
        agree((x * 2).oindex[[2, 0], None, [4, 4, 1]] + (x - 1)[:2, :, :3])
        agree((x + x.sum(axis=0)).max(axis=(0, 2)) + (x.sum(axis=(0, 2)) - x[0, :, 0]))

    @pytest.mark.parametrize("rank", range(1, 7))
    def test_permuted_tensors_of_rank_1_to_6_agree_on_both_back_ends(self, rank: int) -> None:
        shape = (2, 3, 2, 3, 2, 3)[:rank]
        x = tensor(np.arange(prod(shape)).reshape(shape), int64)
        order = tuple(np.random.default_rng(rank).permutation(rank).tolist())
        y = x.permute_dims(order)
        inverse = tuple(np.argsort(order).tolist())
        agree(x + y.permute_dims(inverse)[::-1], x.T * 2, y.sum(axis=0), tx.cumulative_sum(y, axis=-1))

    def test_kernels_that_read_positions_agree_on_both_back_ends(self) -> None:
        i = tx.arange(30)
        agree(
            i.reshape(5, 6).T * 2 + 1,
            i.reshape(5, 6).oindex[[4, 0], [5, 5, 2]] + 0,
            i[::-3] * 1,
            i.reshape(5, 6).sum(axis=0),
        )
        agree(tx.eye(7), tx.linspace(0, 1, 9), tx.tril(tx.ones((5, 6))))


TARGETS = {
    "one element": lambda t: t[1, 2, 3, ...],
    "a row": lambda t: t[1, 2],
    "a column": lambda t: t[:, 0, 4],
    "a block": lambda t: t[1:, 1:3, 2:],
    "backwards": lambda t: t[::-1, :, ::-2],
    "a transpose": lambda t: t.T,
    "a transpose's reshape": lambda t: t.T.reshape(20, 3),
    "a chain": lambda t: t.T.reshape(6, 10)[::2, 1:9:3].reshape(3, 3),
    "gathered": lambda t: t.oindex[[2, 0], None, [4, 1, 0]],
    "a gathered chain": lambda t: t.T.reshape(60).oindex[[59, 0, 31, 7]],
    "a diagonal": lambda t: t[0, :, :4].diagonal(),
    "all": lambda t: t,
}


class TestStores:
    @pytest.mark.parametrize("dtype", [uint8, bfloat16, float32, int64], ids=str)
    @pytest.mark.parametrize("name", TARGETS)
    def test_stores_change_their_elements_and_no_other(self, name: str, dtype: DType) -> None:
        model = np.arange(60).reshape(3, 4, 5)
        t = tensor(model, dtype) + 0  # pending, so that the store is
        target = TARGETS[name](t)
        values = tensor(100 + np.arange(target.size).reshape(target.shape), dtype)
        target._write(values)
        agree(t)
        positions = TARGETS[name](tx.asarray(model)).to_numpy().reshape(-1)  # element n is n
        expected = np.arange(60)
        expected[positions] = 100 + np.arange(target.size)
        assert t.to_numpy().reshape(-1).tolist() == expected.tolist()

    def test_overlapping_stores_read_the_old_content(self) -> None:
        for write in (
            lambda t: t[1:]._write(t[:-1]),
            lambda t: t[:-1]._write(t[1:]),
            lambda t: t._write(t[::-1]),
            lambda t: t[::2]._write(t[:20] + t[20:]),
            lambda t: t.reshape(4, 10).T._write(t.reshape(10, 4)),
        ):
            t = tensor(np.arange(40), int64) + 0
            write(t)
            agree(t)

    def test_stores_through_views_of_another_dtype_agree_on_both_back_ends(self) -> None:
        t = tensor(np.arange(24), int64) + 0
        t.view(tx.uint8)[3::8] = 1
        t.view(tx.float32)[:4] = tensor([1.5, -2.0, 0.0, 4.0], float32)
        agree(t)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("dtype", [int16, float32, int64, tx.complex64, tx.complex128], ids=str)
@pytest.mark.parametrize("step", [-4, -3, -2, -1, 2, 3, 4])
def test_tail_of_a_strided_row_needs_no_gather(step: int, dtype: DType) -> None:
    for n in LENGTHS[2:]:
        x = tensor(np.arange((n - 1) * abs(step) + 1), dtype)
        (kernel,) = agree(x[::step] * x[::step])
        if step in NEAR_STEPS and dtype.part.itemsize >= 4:
            assert "masked.gather" not in emit_kernel(kernel, Target(32))


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("times", [2, 3, 4])
@pytest.mark.parametrize("length", [1, 3, 5, 8, 9, 40])
def test_few_repetitions_put_lanes_along_the_longer_loop(times: int, length: int) -> None:
    """Lanes along the few repetitions would be mostly idle."""
    x, y = tensor(np.arange(3 * length).reshape(3, length), float32), tensor(np.arange(3 * length * times).reshape(3, -1), float32)
    repeated = x.expand_dims(2).expand(3, length, times)
    (kernel,) = agree(y.reshape(3, length, times) * repeated)
    lanes = [axis for axis, properties in enumerate(kernel.axes) if properties.vector]
    steps = [t.step_kind for s in iterate_statements(kernel.body) if isinstance(s, Store) for t in s.address.terms if t.axis in lanes]
    assert steps == (["near"] if 3 * length >= 2 * times else ["unit"])


def test_sum_of_exp_emits_the_code_of_exp_three_times() -> None:
    x = tensor(np.ones(40), float32)
    kernels = [preview_kernels([t.storage.node])[0][1] for t in (tx.exp(x), tx.exp(x).sum())]
    texts = [emit_kernel(k, Target(32)) for k in kernels if k is not None]
    elementwise, reduced = (text.count("llvm.fma.v8f32") - 1 for text in texts)  # less the declaration
    assert reduced == 3 * elementwise  # steps of two vectors, and then single ones


def test_comparison_of_back_ends_detects_a_wrong_element() -> None:
    """`check` compares two independent results."""
    x = tensor(np.arange(40), int64)
    wrong: Node = (x + 1).storage.node
    with pytest.raises(AssertionError, match="element 3"):
        check(wrong, compare=lambda actual, expected: assert_same(actual + (np.arange(40) == 3), expected))
