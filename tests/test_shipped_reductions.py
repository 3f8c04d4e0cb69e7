"""Test the kernels in the package for reductions, running reductions and products: any sizes and strides, with the planner's bits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.aot import build
from tenxor.dtypes import DType
from tenxor.graph.node import Node
from tenxor.layout import Layout
from tenxor.runtime import plan_disk_cache, shipped_op_plans
from tenxor.runtime.graph_signature import GraphSignature, capture_in_python
from tenxor.runtime.plan_execution import Plan
from tenxor.runtime.planner import make_plan
from tenxor.runtime.unfused_plans import make_unfused_plan
from tests.processes import python

pytestmark = pytest.mark.usefixtures("plain")
Array = np.ndarray[Any, Any]
Program = Callable[[], tx.Tensor]
# Results and reduced elements: few and many lanes, below and above the chunks of 8 rows, of 64 vectors and of 256 steps, and 256 columns
SIZES = ((3, 0), (1, 1), (4, 1), (2, 7), (9, 8), (8, 9), (1, 65), (31, 33), (257, 9), (2, 257), (3, 520), (40, 12))
# Steps between neighbouring results and between reduced elements, as functions of both sizes
STEPS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "rows": lambda m, n: (n, 1),
    "columns": lambda m, n: (1, m + 9),
    "apart": lambda m, n: (7 * n + 8, 7),
    "rows backwards": lambda m, n: (-n - 1, -1),
    "columns backwards": lambda m, n: (1, -m - 9),
    "the same row": lambda m, n: (0, 1),
    "the same element": lambda m, n: (1, 0),
}
MATRICES = ((2, 4, 16), (3, 2, 5), (4, 3, 9), (8, 8, 8), (9, 64, 33), (33, 65, 2), (2, 300, 2), (241, 5, 17), (12, 257, 7))


def values(dtype: DType, count: int, *, is_exact: bool = True) -> Array:
    """Return elements with extreme values; float sums and products are exact unless `is_exact` is false."""
    rng = np.random.default_rng(count)
    if dtype.is_complex:
        return np.stack([values(dtype.part, count + k, is_exact=is_exact)[:count] for k in (0, 2)], axis=-1).view(dtype.numpy)[..., 0]
    if dtype.is_float:
        x = rng.choice([-2.0, -1.0, -0.0, 0.0, 1.0, 4.0, 0.5], count) if is_exact else rng.normal(size=count)
        if count % 3 == 0:
            x[rng.random(count) < 0.01] = rng.choice([np.nan, np.inf, -np.inf])
        return x.astype(dtype.numpy)
    if dtype is tx.bool:
        return rng.random(count) < rng.choice([0.02, 0.5, 0.98])
    bounds = (0, 256) if dtype is tx.uint8 else (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1)
    return rng.integers(*bounds, count).astype(dtype.numpy)


def operand(dtype: DType, shape: tuple[int, int], steps: tuple[int, int], *, is_exact: bool = True) -> tx.Tensor:
    """Return a tensor of `shape` whose neighbours are `steps` elements apart in memory, from the end of memory on for negative steps."""
    moves = [(n - 1) * step for n, step in zip(shape, steps, strict=True) if n]
    first = -sum([move for move in moves if move < 0])
    memory = tx.asarray(values(dtype, first + 1 + sum([move for move in moves if move > 0]), is_exact=is_exact))
    return tx.Tensor(memory.storage, Layout(shape, steps, first), dtype)


def reduce(name: str, x: tx.Tensor) -> tx.Tensor:
    """Return the reduction or running reduction `name` of `x` along the last axis."""
    if name in build.OP_SCANS:
        return tx.cummax(x, 1)[0] if name == "cummax" else tx.cummin(x, 1)[0] if name == "cummin" else getattr(tx, name)(x, axis=1)
    result: tx.Tensor = getattr(tx, name)(x, axis=1)
    return result


def list_reductions(name: str, dtype: DType) -> Iterator[Program]:
    """Yield programs that reduce operands of several sizes and strides: for each dtype a third of the pairs, other ones for the next."""
    for k, (m, n) in enumerate(SIZES, start=build.OPERATION_DTYPES.index(dtype)):
        if n or name not in ("max", "min", "argmax", "argmin"):
            for title in list(STEPS)[k % 3 :: 3]:
                yield partial(reduce, name, operand(dtype, (m, n), STEPS[title](m, n)))


def list_products(dtype: DType) -> Iterator[Program]:
    """Yield programs that multiply matrices and vectors of several sizes and strides, or sum a product along an axis."""
    for k, (m, n) in enumerate(SIZES[1:]):
        titles = list(STEPS)[k % 2 :: 2]
        for left, right in pairwise(titles):
            x, y = operand(dtype, (m, n), STEPS[left](m, n)), operand(dtype, (m, n), STEPS[right](m, n))
            yield lambda x=x, y=y: (x * y).sum(axis=1)  # type: ignore[misc]
            yield lambda x=x, y=y: x @ y[-1]  # type: ignore[misc]
    for k, (m, n, columns) in enumerate(MATRICES):
        for left, right in list(zip(STEPS, reversed(STEPS), strict=True))[k % 3 :: 3]:
            a, b = operand(dtype, (m, n), STEPS[left](m, n)), operand(dtype, (n, columns), STEPS[right](n, columns))
            yield lambda a=a, b=b: a @ b  # type: ignore[misc]
            yield lambda a=a, b=b: b.T @ a.T  # type: ignore[misc]


def ship(there: dict[str, bytes], names: tuple[str, ...], dtype: DType) -> None:
    """Ship the kernels of reductions whose name and dtype are given."""
    for x in build._op_reductions():
        node = x.storage.node
        product = node.sources[0]
        source_dtype = product.dtype if isinstance(product, Node) else None
        if (
            getattr(node.op, "name", "").replace("cumulative_max", "cummax").replace("cumulative_min", "cummin") in names
            and source_dtype is dtype
        ):
            signature = capture_in_python([node])
            entry = shipped_op_plans.serialize_op_kernel(signature, make_plan(signature))
            assert entry is not None
            assert plan_disk_cache.serialize_plan(entry[2]) == plan_disk_cache.serialize_plan(make_plan(signature))
            there[entry[0]] = entry[1]
    shipped_op_plans._matches.clear()


def run_shipped(program: Program) -> Array | None:
    """Return the result of `program` by a shipped kernel; None if there is no plan."""
    result = program()
    signature = capture_in_python([result.storage.node])
    plan = shipped_op_plans.find_shipped_op_plan(signature, by_rows=True) if result.storage.node.buffer is None else None
    if plan is None:
        return None
    plan.run(signature)
    return result.numpy()


def run_planned(program: Program) -> Array:
    """Return the result of `program` by the planner's kernels."""
    result = program()
    signature = capture_in_python([result.storage.node])
    make_plan(signature).run(signature)
    return result.numpy()


def assert_same(actual: Array, expected: Array, label: object) -> None:
    """Raise an AssertionError unless the arrays have equal elements, with equal signs of zeros; all NaN are equal."""
    np.testing.assert_array_equal(actual, expected, str(label), strict=True)
    if actual.dtype.kind == "c":
        actual, expected = (np.stack([x.real, x.imag]) for x in (actual, expected))
    if actual.dtype.kind == "f":
        is_number = ~np.isnan(actual)
        np.testing.assert_array_equal(np.signbit(actual)[is_number], np.signbit(expected)[is_number], str(label))


CASES = [
    (name, dtype)
    for dtype in build.OPERATION_DTYPES
    for name in (
        *build.list_reduction_names(dtype),
        *(build.OP_SCANS if dtype in build.COMMON_DTYPES else ()),
    )
]
PRODUCT_DTYPES = (*build.DTYPES, *build.COMPLEX_DTYPES)
PRODUCT_NAMES = ("sum", "sum_in_width")


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    """The results of all programs by the interpreter, in a process of its own."""
    path = tmp_path_factory.mktemp("interpreted") / "results.npz"
    code = "import sys; from tests.test_shipped_reductions import store_results; store_results(sys.argv[1])"
    python("-c", code, str(path), env={**os.environ, "TENXOR_BACKEND": "interpreter", "PYTHONPATH": os.pathsep.join(sys.path)})
    with np.load(path) as results:
        return dict(results)


def store_results(path: str) -> None:
    """Write the results of all programs into the file `path`."""
    results = {f"{name} {dtype} {k}": f().numpy() for name, dtype in CASES for k, f in enumerate(list_reductions(name, dtype))}
    results |= {f"product {dtype} {k}": f().numpy() for dtype in PRODUCT_DTYPES for k, f in enumerate(list_products(dtype))}
    np.savez(Path(path), **results)


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda value: str(value))
def test_shipped_reduction_equals_the_interpreter(name: str, dtype: DType, there: dict[str, bytes], interpreted: dict[str, Array]) -> None:
    ship(there, (name,), dtype)
    count = 0
    for k, program in enumerate(list_reductions(name, dtype)):
        result = run_shipped(program)
        if result is not None:
            assert_same(result, interpreted[f"{name} {dtype} {k}"], (name, dtype, k))
            count += 1
    assert count > 0.7 * sum(1 for _ in list_reductions(name, dtype)), "a kernel must serve nearly every size and stride"


@pytest.mark.parametrize("dtype", PRODUCT_DTYPES, ids=str)
def test_shipped_product_equals_the_interpreter(dtype: DType, there: dict[str, bytes], interpreted: dict[str, Array]) -> None:
    ship(there, PRODUCT_NAMES, dtype)
    count = 0
    for k, program in enumerate(list_products(dtype)):
        result = run_shipped(program)
        if result is not None:
            assert_same(result, interpreted[f"product {dtype} {k}"], (dtype, k))
            count += 1
    assert count > 60


SUMS: dict[str, Callable[[tx.Tensor, tx.Tensor], tx.Tensor]] = {
    "sum of the last axis": lambda x, y: x.sum(axis=-1),
    "sum of the first axis": lambda x, y: x.sum(axis=0),
    "sum of all": lambda x, y: x.sum(),
    "product of all": lambda x, y: x.prod(),
    "sum of products": lambda x, y: (x * y).sum(axis=0),
    "dot product": lambda x, y: (x * y).sum(),
    "running sum": lambda x, y: tx.cumulative_sum(x, axis=0),
    "matrix product": lambda x, y: x @ y.T,
    "product of transposes": lambda x, y: x.T @ y,
    "products of stacks": lambda x, y: tx.stack([x, y, x]).realize() @ tx.stack([y, x, y]).realize().mT,
    "products of interleaved matrices": lambda x, y: (
        tx.stack([x, y], axis=2).realize().permute_dims((2, 1, 0)) @ tx.stack([y, x], axis=1).realize().permute_dims((1, 0, 2))
    ),
    "products of a stack and a matrix": lambda x, y: tx.stack([x, y], axis=1).realize().permute_dims((1, 0, 2)) @ y.T,
}
VIEWS: tuple[Callable[[tx.Tensor], tx.Tensor], ...] = (
    *(lambda x: x, lambda x: x.T, lambda x: x[1:, ::2], lambda x: x[::-1], lambda x: x[:, ::-1], lambda x: x[:, 1:-1]),
    *(lambda x: tx.broadcast_to(x[:1], x.shape), lambda x: tx.broadcast_to(x[:, :1], x.shape), lambda x: x[::3].T),
)


UNSHIPPED_COMPLEX = ("product of all", "running sum")


@pytest.mark.parametrize(
    ("title", "dtype"),
    [(title, dtype) for title in SUMS for dtype in (tx.float32, tx.float64, *(() if title in UNSHIPPED_COMPLEX else build.COMPLEX_DTYPES))],
    ids=str,
)
def test_shipped_sum_adds_in_the_order_of_the_planner(title: str, dtype: DType, there: dict[str, bytes]) -> None:
    for names in (("sum", "prod", "cumulative_sum"), PRODUCT_NAMES):
        ship(there, names, dtype)
    random, count = Random(title), 0
    for _ in range(40):
        m, n = random.choice((1, 2, 3, 5, 8, 17, 40, 130, 270)), random.choice((1, 2, 4, 7, 9, 33, 65, 257, 600))
        view = random.choice(VIEWS)
        x, y = (tx.asarray(values(dtype, m * n + k, is_exact=False)[k:].reshape(m, n)) for k in (0, 1))
        program = partial(SUMS[title], view(x), view(y))
        result = run_shipped(program)
        if result is not None:
            assert_same(result, run_planned(program), (title, dtype, m, n, view))
            count += 1
    assert count > 10


def test_reductions_that_the_planner_rewrites_have_no_shipped_plan(there: dict[str, bytes]) -> None:
    ship(there, ("sum", "max", "argmax"), tx.float64)
    large, short, windows = (tx.empty(n, dtype=tx.float64).realize() for n in (1 << 18, 1 << 16, 40))
    overlapping = tx.Tensor(windows.storage, Layout((30, 5), (1, 1)), tx.float64)
    assert run_shipped(lambda: short.reshape(-1, 8).sum(axis=1)) is None
    assert run_shipped(lambda: overlapping.sum(axis=1)) is None
    assert run_shipped(large.sum) is None
    assert run_shipped(lambda: short.reshape(-1, 64).argmax(axis=1)) is None
    assert run_shipped(lambda: overlapping.max(axis=1)) is not None, "the order of a maximum does not matter"
    assert run_shipped(lambda: large[1:].sum()) is not None


@pytest.mark.parametrize("shape", [(4, 300, 10), (5, 64, 33), (3, 2, 1000), (7, 50, 1)])
def test_columns_of_several_blocks_are_added_block_by_block(there: dict[str, bytes], shape: tuple[int, ...]) -> None:
    ship(there, ("sum", "prod"), tx.float64)
    x = tx.asarray(np.random.default_rng(4).normal(size=shape)).realize()
    for reduce in (x.sum, x.prod, x[:, ::2].sum, x[:, 1:].prod):
        program = lambda reduce=reduce: reduce(axis=(0, 1))
        result = run_shipped(program)
        assert result is not None
        assert_same(result, run_planned(program), (reduce.__name__, shape))


@pytest.mark.parametrize("dtype", (tx.float32, tx.int64, tx.bool, tx.uint8), ids=str)
def test_rows_that_are_not_joined_are_reduced_in_one_kernel(there: dict[str, bytes], dtype: DType) -> None:
    names = [name for name in ("max", "min", "any", "all") if name in build.list_reduction_names(dtype)]
    ship(there, tuple(names), dtype)
    for shape, axes in (((4, 30, 10), (0, 2)), ((5, 6, 7), (1, 2)), ((3, 2, 100), (0, 1)), ((2, 3, 4, 5), (0, 2))):
        elements = values(dtype, int(np.prod(shape))).reshape(shape)
        for name in names:
            for view in (lambda x: x, lambda x: x[:, ::2], lambda x: x[..., 1:]):
                result = run_shipped(partial(getattr(tx, name), view(tx.asarray(elements)), axis=axes))
                assert result is not None
                np.testing.assert_array_equal(result, getattr(np, name)(view(elements), axis=axes))


LARGE: dict[str, Callable[[tx.Tensor], tx.Tensor]] = {
    "sum of columns": lambda x: x.sum(axis=0),
    "sum of rows": lambda x: x.sum(axis=1),
    "product of all elements": lambda x: x[:300].prod(),
    "squares of columns": lambda x: ((x - 1) ** 2).sum(axis=0),
    "short rows": lambda x: x.reshape(-1, 5).sum(axis=1),
    "blocks of columns": lambda x: x.reshape(-1, 300, 10).sum(axis=(0, 1)),
    "maxima": lambda x: x.max(axis=0),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("shape", [(3000, 100), (500, 1200)])
def test_unfused_plans_rewrite_large_reductions_as_the_planner_does(there: dict[str, bytes], shape: tuple[int, int], name: str) -> None:
    ship(there, ("sum", "prod", "max"), tx.float64)
    for operation in build._operations():
        node = operation.storage.node
        if {source.dtype for source in node.sources} == {tx.float64} and str(node.op) in ("add", "subtract", "multiply", "square"):
            signature = capture_in_python([node])
            entry = shipped_op_plans.serialize_op_kernel(signature, make_plan(signature))
            assert entry is not None
            there[entry[0]] = entry[1]
    x = tx.asarray(np.random.default_rng(4).normal(size=shape)).realize()

    def find(part: GraphSignature) -> tuple[Plan, int] | None:
        plan = shipped_op_plans.find_shipped_op_plan(part, by_rows=True)
        return shipped_op_plans.find_temporary_plan(part) if plan is None else (plan, 0)

    def fail(part: GraphSignature) -> Plan:
        raise AssertionError(f"no kernel for {part.nodes[-1]}")

    result = LARGE[name](x)
    signature = capture_in_python([result.storage.node])
    plan = make_unfused_plan(signature, find, fail)
    assert plan is not None
    plan.run(signature)
    assert_same(result.numpy(), run_planned(lambda: LARGE[name](x)), name)


def test_kernel_whose_sizes_have_equal_values_is_not_shipped() -> None:
    square = tx.empty((5, 5), dtype=tx.float64).realize()
    signature = capture_in_python([(square @ tx.empty(5, dtype=tx.float64).realize()).storage.node])
    assert shipped_op_plans.serialize_op_kernel(signature, make_plan(signature)) is None
