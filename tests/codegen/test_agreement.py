"""Both back ends agree: every operation of the table, on every dtype that it accepts, on special values and in odd lengths.

The interpreter is the oracle; it shares no arithmetic with the emitter. Integers and exact operations agree to the bit,
elementary functions within two units in the last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenxor import dtypes
from tenxor.dtypes import DType, decode_elements, encode_elements
from tenxor.errors import DTypeError
from tenxor.graph.node import Node
from tenxor.layout import Layout
from tenxor.ops import OPS, Op
from tenxor.ops.reductions import REDUCTIONS
from tenxor.runtime.realize import realize
from tests.lowering.helpers import compute, elementwise, reduction, scan, tensor, value

INF, NAN = float("inf"), float("nan")
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -2.5,
    2.0,
    3.0,
    -3.0,
    7.25,
    1e-3,
    -1e-3,
    100.0,
    -88.5,
    INF,
    -INF,
    NAN,
    1e-40,
]
WIDE = [*FLOATS, 1e300, -1e300, 5e-324, 709.5, -745.0]
ELEMENTARY = {name for name, op in OPS.items() if op.cost >= 20 and "random" not in name} | {"tan", "rsqrt"}
INTERNAL = ("cast",)
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, -88.5, 20.0, INF, -INF, NAN, 1e-40]
FEW_PARTS = [0.0, -0.0, 1.0, -2.5, 7.0, INF, NAN]


def specials(dtype: DType) -> np.ndarray[Any, Any]:
    """Return special values of a dtype, as stored in memory."""
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.kind == "float":
        values = WIDE if dtype.bits == 64 else FLOATS
        with np.errstate(all="ignore"):
            return encode_elements(np.array(values, np.float64), dtype)
    if dtype.is_complex:
        return pairs_of(PARTS, dtype)
    low, high = int(dtype.lowest), int(dtype.highest)
    return np.array([low, low + 1, 0, 1, 2, 3, 7, 63, 64, 100, high - 1, high] + ([-1, -2, -7] if low else []), dtype.numpy)


def pairs_of(parts: list[float], dtype: DType) -> np.ndarray[Any, Any]:
    """Return the complex numbers with all pairs of `parts`."""
    grid = np.empty((len(parts), len(parts)), dtype.numpy)
    grid.real, grid.imag = np.meshgrid(parts, parts)
    return grid.ravel()


def accepts(op: Op, dtype: DType) -> bool:
    try:
        op.rule(op.name, (dtype,) * op.arity)
    except DTypeError:
        return False
    return True


CASES = [(op, d) for op in OPS.values() if op.name not in INTERNAL for d in dtypes.ALL_DTYPES if accepts(op, d)]


def operand_pairs(op: Op, dtype: DType) -> list[np.ndarray[Any, Any]]:
    """Return operands with all pairs of special values. Their number is no multiple of a vector length."""
    values = specials(dtype)
    if dtype.is_complex and op.arity > 1:
        values = pairs_of(FEW_PARTS, dtype)
    if op.arity == 1:
        return [np.resize(values, len(values) * 3 + 1)]
    x, y = (grid.ravel() for grid in np.meshgrid(values, values))
    if op.name == "pow" and dtype.kind == "int":
        y = np.maximum(y, 0)  # integers have no negative powers
    third = np.resize(values, x.size)
    return [x, y, third, third[::-1]][: op.arity]


def compute_twice(make: Any) -> tuple[Node, Node]:
    """Return two equal nodes, computed by LLVM and by the interpreter."""
    ours, oracle = make(), make()
    realize(ours)
    compute(oracle)
    return ours, oracle


def check_equal(ours: Node, oracle: Node, ulps: int) -> None:
    a, b = (decode_elements(value(n), n.dtype) for n in (ours, oracle))
    if ours.dtype.is_complex and ulps:
        check_near(a, b, ulps)
        return
    if ours.dtype.is_complex:
        np.testing.assert_array_equal(a.real, b.real)
        np.testing.assert_array_equal(a.imag, b.imag)
        return
    if ours.dtype.kind != "float":
        np.testing.assert_array_equal(a, b)
        return
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    a, b = np.where(np.isnan(a), 0, a), np.where(np.isnan(b), 0, b)
    np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
    steps = np.abs(order_of(a) - order_of(b)) >> (16 if ours.dtype is dtypes.bfloat16 else 0)
    worst = int(np.argmax(steps)) if steps.size else 0
    assert steps.size == 0 or steps.max() <= ulps, f"element {worst}: {a.flat[worst]!r} and {b.flat[worst]!r}"


def check_near(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], ulps: int) -> None:
    """Check that complex numbers differ by at most `ulps` units of the larger part, and that NaN parts agree."""
    with np.errstate(all="ignore"):
        magnitude = np.fmax(abs(b.real), abs(b.imag))
        tolerance = ulps * np.finfo(b.real.dtype).eps * np.where(np.isfinite(magnitude), magnitude, 1) + np.finfo(b.real.dtype).tiny
        for x, y in ((a.real, b.real), (a.imag, b.imag)):
            is_near = (abs(x - y) <= tolerance) | (x == y) | (np.isnan(x) & np.isnan(y))
            assert is_near.all(), f"{a[~is_near][:5]} and {b[~is_near][:5]}"


def order_of(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return floats as integers in the same order, so that neighbours differ by 1."""
    bits = np.abs(x).view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(np.signbit(x), -bits, bits)


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=[f"{op.name}-{d}" for op, d in CASES])
def test_back_ends_agree_on_every_operation_and_dtype(op: Op, dtype: DType) -> None:
    operands = operand_pairs(op, dtype)
    ulps = 0 if op.name not in ELEMENTARY and op.formula is None else 3 if op.formula else 2
    if dtype.is_complex and (op.name in ELEMENTARY or op.cost > 3):
        ulps = 500 if op.name == "pow" else 20
    check_equal(*compute_twice(lambda: elementwise(op.name, *(tensor(x, dtype) for x in operands))), ulps)


@pytest.mark.parametrize("target", dtypes.ALL_DTYPES, ids=str)
@pytest.mark.parametrize("source", dtypes.ALL_DTYPES, ids=str)
def test_back_ends_agree_on_every_cast(source: DType, target: DType) -> None:
    if source.is_complex and not (target.is_complex or target.kind == "bool"):
        return  # refused before there is a node
    values = np.resize(specials(source), 37 if not source.is_complex else 201)

    def make() -> Node:
        x = tensor(values, source)
        return Node.of(OPS["cast"], x.shape, target, (x,), (Layout.contiguous(x.shape),))

    check_equal(*compute_twice(make), 0)


@pytest.mark.parametrize("dtype", dtypes.ALL_DTYPES, ids=str)
@pytest.mark.parametrize("name", list(REDUCTIONS))
def test_back_ends_agree_on_every_reduction_and_dtype(name: str, dtype: DType) -> None:
    if REDUCTIONS[name].ordered and dtype.is_complex:
        with pytest.raises(DTypeError, match=f"^{name}: does not accept complex"):
            REDUCTIONS[name].check_dtype(name, dtype)
        return
    rng = np.random.default_rng(0)
    values = np.resize(rng.permutation(np.resize(specials(dtype), 77)), (7, 11))
    if dtype.kind == "float":  # their sums are exact in any order
        values = encode_elements(rng.integers(-4, 5, (7, 11)).astype(np.float64), dtype)
    if dtype.is_complex:
        values = (rng.integers(-4, 5, (7, 11)) + 1j * rng.integers(-4, 5, (7, 11))).astype(dtype.numpy)
    if name == "prod":
        values = encode_elements(np.where(rng.random((7, 11)) < 0.1, 2, 1).astype(np.float64), dtype)
    for axes in ((0,), (1,), (0, 1)):
        check_equal(*compute_twice(lambda axes=axes: reduction(name, tensor(values, dtype), axes)), 0)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "any", "all"])
def test_back_ends_agree_on_reductions_of_nan_and_infinities(name: str, dtype: DType) -> None:
    rng = np.random.default_rng(1)
    for choices in ([NAN, 1.0, -INF], [-INF], [INF, -INF, 0.0], [0.0, -0.0], [NAN]):
        values = rng.choice(np.array(choices, dtype.numpy), (5, 41))
        for axes in ((0,), (1,), (0, 1)):
            check_equal(*compute_twice(lambda axes=axes, values=values: reduction(name, tensor(values, dtype), axes)), 0)


@pytest.mark.parametrize("dtype", dtypes.ALL_DTYPES, ids=str)
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_back_ends_agree_on_scans_of_every_dtype(name: str, dtype: DType) -> None:
    ones = encode_elements(np.where(np.arange(5 * 23).reshape(5, 23) % 3 == 0, 2.0, 1.0), dtype)
    check_equal(*compute_twice(lambda: scan(name, tensor(ones, dtype))), 0)
    columns = Layout.contiguous((5, 23)).swapaxes(0, 1)
    check_equal(*compute_twice(lambda: scan(name, (tensor(ones, dtype), columns))), 0)


@pytest.mark.parametrize(
    "dtype",
    [
        dtypes.boolean,
        dtypes.int16,
        dtypes.float32,
        dtypes.float64,
        dtypes.bfloat16,
        dtypes.complex64,
        dtypes.complex128,
    ],
    ids=str,
)
def test_back_ends_agree_on_every_length_of_a_tail(dtype: DType) -> None:
    name = "multiply" if dtype.is_complex else "maximum"
    for length in range(1, 71):
        values = np.resize(specials(dtype)[:2], length)
        check_equal(*compute_twice(lambda values=values: elementwise(name, tensor(values, dtype), tensor(values[::-1].copy(), dtype))), 0)


VIEWS = {
    "reversed": lambda n: Layout((n, n), (-n, -1), n * n - 1),
    "transposed": lambda n: Layout((n, n), (1, n)),
    "broadcast rows": lambda n: Layout((n, n), (0, 1)),
    "broadcast columns": lambda n: Layout((n, n), (1, 0)),
    "every other": lambda n: Layout((n, n // 2), (n, 2)),
    "gathered": lambda n: Layout.contiguous((n, n)).oindex(([3, 0, 0, n - 1, 1], [2, 2, 0, n - 1, n - 3, 1])),
    "a chain": lambda n: Layout.contiguous((n, n)).swapaxes(0, 1).reshape((n * n,)).index((slice(3, None, 2),)),
    "windows": lambda n: Layout.contiguous((n, n)).windows(1, 4),
    "one element everywhere": lambda n: Layout((n, n), (0, 0), 5),
}


VIEW_DTYPES = [dtypes.boolean, dtypes.int8, dtypes.int64, dtypes.float16, dtypes.float32, dtypes.complex64, dtypes.complex128]


@pytest.mark.parametrize("dtype", VIEW_DTYPES, ids=str)
@pytest.mark.parametrize("view", list(VIEWS))
def test_back_ends_agree_on_every_kind_of_view(view: str, dtype: DType) -> None:
    n = 19
    values = np.resize(specials(dtype)[:12], (n, n))
    layout = VIEWS[view](n)
    op = "logical_or" if dtype.kind == "bool" else "subtract" if dtype.is_complex else "maximum"

    def make() -> Node:
        x = tensor(values, dtype)
        return elementwise(op, (x, layout), (x, layout.flip(0)))

    check_equal(*compute_twice(make), 0)
