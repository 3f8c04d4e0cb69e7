"""Searches, interpolation, histograms and set functions: machine code gives the bits of the Python functions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.graph.spec import DirectCallTemplate
from tenxor.native import generated_searches, host_execution
from tenxor.native.host_op_table import HOST_OPS

from .test_direct_calls import bytes_or_error

pytestmark = pytest.mark.usefixtures("on")
Array = np.ndarray[Any, Any]
DTYPES = ("float64", "float32", "float16", "int64", "int32", "int8", "uint64", "uint32", "uint8", "bool")
SIZES = (0, 1, 2, 7, 8, 31, 33, 64, 65, 200)
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1.0])
FAR = {"int64": 2**53 + np.arange(-2, 3), "uint64": np.array([2**64 - 1, 2**63, 2**53 + 1, 0, 1], np.uint64)}


def drawn(size: int, dtype: str, seed: int) -> Array:
    """Return numbers with many equal ones, and with special or large ones."""
    draw = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    found = draw.integers(0 if kind in "ub" else -20, 2 if kind == "b" else 20, size).astype(dtype)
    odd = ODD.astype(dtype) if kind == "f" else FAR.get(dtype, found)
    return np.where(draw.random(size) < 0.2, draw.choice(odd, size), found).astype(dtype) if len(odd) else found


def layouts_of(x: Array) -> list[tx.Tensor]:
    """Return the same numbers in other layouts: contiguous, strided, and reversed."""
    apart, back = np.repeat(x, 3), x[::-1].copy()
    return [tx.asarray(x).realize(), tx.asarray(apart).realize()[::3], tx.asarray(back).realize()[::-1]]


def assert_same_bits(make: Callable[[], Any]) -> Any:
    """Check that a result is the same three times, and without machine code."""
    found = [bytes_or_error(make) for _ in range(3)]
    with fastpath.disabled():
        assert found == [bytes_or_error(make)] * 3
    return found[0]


def known(x: tx.Tensor, name: str) -> bool:
    """Return whether generated code computes the calls of a function, rather than Python or NumPy."""
    templates = x.spec.call_templates.get(f"tenxor.api.{name}", {}).values()
    return any(isinstance(template, DirectCallTemplate) and bool(template.loop_bytecode) for template in templates)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_searchsorted_and_digitize_equal_numpy(dtype: str, right: bool) -> None:
    # Half of the pairs of sizes in the pattern of a chessboard: the other side takes the other half.
    pairs = [(edges, size) for k, edges in enumerate(SIZES[1:]) for size in (0, 1, 7, 40)[(k + right) % 2 :: 2]]
    for seed, (edges, size) in enumerate(pairs):
        bins, x = np.sort(drawn(edges, dtype, seed)), drawn(size, dtype, seed + 99)
        numbers = bins[~np.isnan(bins)] if bins.dtype.kind == "f" else bins
        for b, v in zip(layouts_of(bins), layouts_of(x)[::-1], strict=True):
            side = "right" if right else "left"
            (found,) = assert_same_bits(lambda b=b, v=v, side=side: tx.searchsorted(b, v, side))
            assert found[2] == np.searchsorted(bins, x, side).tobytes()
        for b in layouts_of(numbers):
            (found,) = assert_same_bits(lambda b=b, v=v: tx.digitize(v, b, right))
            assert len(numbers) == 0 or found[2] == np.digitize(x, numbers, right).tobytes()
            (found,) = assert_same_bits(lambda b=b, v=v: tx.digitize(v, b[::-1], right))
            assert len(numbers) == 0 or x.dtype == bool or found[2] == np.digitize(x, numbers[::-1], right).tobytes()


def test_digitize_with_unordered_edges_raises_after_ordered_ones() -> None:
    x = tx.asarray([0.5, 2.5]).realize()
    for bins in ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [3.0, 2.0, 1.0], [1.0, np.nan, 3.0], [1.0, 2.0, 2.0]):
        edges = tx.asarray(bins).realize()
        assert_same_bits(lambda edges=edges: tx.digitize(x, edges))
    assert known(x, "sorted_search.digitize")
    with pytest.raises(tx.errors.ArgumentError, match="not sorted"):
        tx.digitize(x, tx.asarray([3.0, 1.0, 2.0]).realize())


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "uint64", "bool"])
def test_searchsorted_of_numbers_matches_python_and_numpy(dtype: str) -> None:
    x = np.sort(drawn(30, dtype, 3))
    given = tx.asarray(x).realize()
    large = (2**53, 2**53 + 1, -(2**53) - 1, 2**24 + 1, 2**63 - 1, 2**64)
    for number in (3, 0.3, -0.0, 0, 7, 1e300, float("nan"), float("inf"), *large, -3, True, 1j):
        for side in ("left", "right"):
            assert_same_bits(lambda number=number, side=side: tx.searchsorted(given, number, side))
    for number in np.random.default_rng(1).random(100).tolist():  # more than there are constants of a program
        assert tx.searchsorted(given, number).item() == (np.searchsorted(x, np.float32(number) if dtype == "float32" else number))
    assert known(given, "sorted_search.searchsorted") is (dtype in ("float64", "float32", "int64"))


def points_of(size: int, seed: int) -> tuple[Array, Array, Array]:
    """Return numbers and points: some points equal, some values infinite, some negative zeros."""
    draw = np.random.default_rng(seed)
    points = np.sort(draw.integers(-5, 9, size) / 2.0)
    heights = np.where(draw.random(size) < 0.3, draw.choice(ODD, size), draw.normal(size=size))
    x = np.concatenate([draw.choice(points, 9), draw.uniform(-4, 6, 40), ODD, points[:1], points[-1:]])
    return x, points, heights


@pytest.mark.parametrize("ends", [(None, None), (-1.5, None), (None, 7), (0, float("nan"))])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 65, 300])
def test_interp_equals_numpy(size: int, ends: tuple[Any, Any]) -> None:
    for seed in range(4):
        x, points, heights = points_of(size, seed)
        wanted = np.interp(x, points, heights, *ends)
        for at, p, h in zip(layouts_of(x), layouts_of(points)[::-1], layouts_of(heights), strict=True):
            assert_same_bits(lambda at=at, p=p, h=h: tx.interp(at, p, h, *ends))
            found = tx.interp(at, p, h, *ends).numpy()
            if size > 1:  # of one point NumPy gives its height for NaN
                zeros = wanted == 0
                assert np.array_equal(found, wanted, equal_nan=True)
                assert np.array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))


OTHERS = (("float32",) * 3, ("int64", "float64", "float32"), ("uint64", "int64", "int8"), ("bool", "float16", "bool"))


@pytest.mark.parametrize("dtypes", OTHERS, ids=str)
def test_interp_of_other_dtypes_equals_numpy(dtypes: tuple[str, ...]) -> None:
    x, points, heights = drawn(40, dtypes[0], 1), np.unique(drawn(30, dtypes[1], 2)), drawn(30, dtypes[2], 3)
    points = points[~np.isnan(points)] if points.dtype.kind == "f" else points
    given = [tx.asarray(a).realize() for a in (x, points, heights[: len(points)])]
    wanted = np.interp(x, points, heights[: len(points)], 0.5)
    (found,) = assert_same_bits(lambda: tx.interp(*given, 0.5))
    assert found[1] is tx.float64 and np.array_equal(np.frombuffer(found[2]), wanted, equal_nan=True)
    assert_same_bits(lambda: tx.interp(*given, period=3.0))
    assert_same_bits(lambda: tx.interp(given[0], given[1], given[2] * 1j))


def test_interp_at_one_point_does_not_call_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(3)
    for size in (100, 900, 3000):
        points, heights = np.sort(draw.random(size)), draw.random(size)
        given = [tx.asarray(a).realize() for a in (points, heights)]
        for x in (0.25, 1, -3.0, np.inf):
            wanted = np.interp(x, points, heights)
            for _ in range(2):
                assert tx.interp(tx.asarray([float(x)]), *given).tolist() == [wanted] and tx.interp(x, *given).item() == wanted
            with monkeypatch.context() as patch:
                patch.setattr(np, "interp", None)
                assert tx.interp(tx.asarray([float(x)]), *given).tolist() == [wanted] and tx.interp(x, *given).item() == wanted


def test_interp_with_unordered_points_matches_python() -> None:
    x, points, heights = (tx.asarray(a).realize() for a in points_of(10, 1))
    tx.interp(x, points, heights)
    assert known(x, "conditional.interp")
    for other in (points.flip(0), points + tx.asarray([0.0] * 9 + [np.nan])):
        assert_same_bits(lambda other=other: tx.interp(x, other.realize(), heights))


def test_large_interp_and_searchsorted_run_in_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def noted(op: Any, *given: Any) -> bool:
        found = generated_searches.try_generated_code(op, *given)
        done.append(op.name if found else "")
        return found

    monkeypatch.setattr(host_execution, "try_generated_code", noted)
    draw = np.random.default_rng(2)
    x, points, heights = draw.random(70_001), np.sort(draw.random(300)), draw.random(300)
    given = [tx.asarray(a).realize() for a in (x, points, heights)]
    assert np.array_equal(tx.interp(*given).numpy(), np.interp(x, points, heights))
    assert np.array_equal(tx.searchsorted(given[1], given[0]).numpy(), np.searchsorted(points, x))
    assert np.array_equal(tx.searchsorted(given[1], given[0][::-1]).numpy(), np.searchsorted(points, x[::-1]))
    assert set(done) == {"interp", "searchsorted"}


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8", "uint64", "bool"])
def test_bincount_equals_numpy(dtype: str) -> None:
    for seed, (size, least) in enumerate(product(SIZES, (0, 5, 300))):
        x = np.abs(drawn(size, "int8", seed)).astype(dtype)
        weights = np.random.default_rng(seed).normal(size=size)
        wanted = np.bincount(x, minlength=least) if dtype != "uint64" else np.bincount(x.astype(np.int64), minlength=least)
        for k, given in enumerate(layouts_of(x), start=seed):
            (found,) = assert_same_bits(lambda given=given, least=least: tx.bincount(given, minlength=least))
            assert found[2] == wanted.tobytes()
            w = layouts_of(weights)[k % 3]  # with each layout of the numbers in turn
            (found,) = assert_same_bits(lambda given=given, w=w, least=least: tx.bincount(given, w, least))
            assert found[2] == np.bincount(x.astype(np.int64), weights, least).tobytes()


def test_bincount_of_negative_or_huge_values_raises_after_valid_ones() -> None:
    x = tx.asarray([3, 0, 3]).realize()
    assert [tx.bincount(x).tolist() for _ in range(2)] == [[1, 0, 0, 2]] * 2 and known(x, "histograms.bincount")
    with pytest.raises(tx.errors.ArgumentError, match="the smallest element is -1"):
        tx.bincount(tx.asarray([3, -1, 3]).realize())
    assert tx.bincount(tx.asarray([3, 0, 200_000]).realize()).shape == (200_001,)  # more than a block of machine code's
    with pytest.raises((MemoryError, tx.errors.TenxorError)):
        tx.bincount(tx.asarray([3, 0, 2**62]).realize())


def test_gradient_of_recorded_bincount_weights_is_correct() -> None:
    x, w = tx.asarray([1, 0, 1]).realize(), tx.asarray([0.5, 2.0, 3.0]).realize()
    for _ in range(3):
        tx.bincount(x, w)
        assert tx.grad(lambda w: (tx.bincount(x, w) * tx.asarray([1.0, 10.0])).sum())(w).tolist() == [10.0, 1.0, 10.0]


FINDERS: dict[str, tuple[Callable[[tx.Tensor], Any], Callable[[Array], Any]]] = {
    "unique_values": (tx.unique_values, lambda a: np.unique(a, equal_nan=False)),
    "unique_counts": (tx.unique_counts, np.unique_counts),
    "unique_inverse": (tx.unique_inverse, np.unique_inverse),
    "unique_all": (tx.unique_all, np.unique_all),
}


@pytest.mark.parametrize("dtype", [*DTYPES, "complex128"])
@pytest.mark.parametrize("name", FINDERS)
def test_unique_functions_equal_numpy(name: str, dtype: str) -> None:
    ours, theirs = FINDERS[name]
    for seed, size in enumerate((*SIZES, 1500, 3000)):
        x = drawn(size, dtype, seed)
        wanted = theirs(x)
        for given in layouts_of(x):
            found = assert_same_bits(lambda given=given: ours(given))
            for (_, _, bits), array in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
                has_nan = bool((x != x).any())  # of which NumPy does not say which is which
                assert has_nan or np.array_equal(np.frombuffer(bits, array.dtype), array.ravel())
    if dtype in ("float64", "int64", "int8"):
        plain = tx.asarray(np.array([3, 1, 3, 2], dtype)).realize()
        ours(plain)
        assert known(plain, f"unique_values.{name}") and type(ours(plain)) is type(ours(tx.asarray([1])))


@pytest.mark.parametrize("shape", [(), (3, 4), (2, 0, 3), (1, 1)], ids=str)
def test_search_functions_of_other_ranks_match_python(shape: tuple[int, ...]) -> None:
    x = tx.asarray(np.random.default_rng(3).integers(0, 5, shape)).realize()
    for ours, _ in FINDERS.values():
        assert_same_bits(lambda ours=ours: ours(x))
    assert_same_bits(lambda: tx.digitize(x, tx.asarray([1, 3])))
    assert_same_bits(lambda: tx.interp(x, [0.0, 1.0], [2.0, 3.0]))
    assert_same_bits(lambda: tx.searchsorted(tx.asarray([1, 3]), x))
    row = x.reshape(-1)[:1].expand((5,)) if x.size else x.reshape(-1)
    assert_same_bits(lambda: tx.bincount(row))
    assert_same_bits(lambda: tx.unique_inverse(row))


@pytest.mark.parametrize("low, high", [(0, 1500), (-(2**63), -(2**63) + 900), (2**63 - 1000, 2**63 - 1)])
def test_unique_of_integers_in_a_small_range_equals_numpy(low: int, high: int) -> None:
    x = np.random.default_rng(5).integers(low, high, 40_000, endpoint=True)
    for dtype, a in (("int64", x), ("uint64", x.astype(np.uint64) + np.uint64(2**63))):
        given = tx.asarray(a.astype(dtype)).realize().reshape((4, 10_000))
        wanted = np.unique_all(a.astype(dtype))
        assert np.array_equal(tx.unique_values(given).numpy(), wanted.values)
        counted, inverse = tx.unique_counts(given), tx.unique_inverse(given)
        assert np.array_equal(counted.values.numpy(), wanted.values) and np.array_equal(counted.counts.numpy(), wanted.counts)
        assert np.array_equal(inverse.inverse_indices.numpy().ravel(), wanted.inverse_indices.ravel())


def test_searchsorted_inside_vmap_and_unique_values_raises() -> None:
    rows = tx.asarray(np.sort(np.random.default_rng(1).random((3, 8)), axis=1)).realize()
    for _ in range(3):
        tx.searchsorted(rows[0], 0.5)
        found = tx.vmap(lambda row: tx.searchsorted(row, 0.5))(rows)
        assert found.tolist() == [np.searchsorted(row, 0.5) for row in rows.numpy()]
        with pytest.raises(tx.errors.TraceError):
            tx.vmap(tx.unique_values)(rows)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lexsort_equals_numpy(dtype: str) -> None:
    for size in SIZES[1:]:
        keys = [drawn(size, d, k) for k, d in enumerate((dtype, "int64", "float32", dtype, "int8"))]
        for count in (1, 2, 3, 4, 5):
            for lying in range(3):
                given = [layouts_of(key)[lying] for key in keys[:count]]
                (found,) = assert_same_bits(lambda given=given: tx.lexsort(given))
                assert found[2] == np.lexsort(keys[:count]).tobytes()
    x, y = (tx.asarray(drawn(12, "float64", k)).realize() for k in range(2))
    tx.lexsort([x, y])
    assert known(x, "sorting._lexsort_few_keys")


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int16", "uint8"])
@pytest.mark.parametrize("repeated", ["none", "few", "most", "all"])
def test_unique_values_of_any_count_of_repeats(dtype: str, repeated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted elements are compared several at a time: all of them may differ from the elements before, some, or none."""
    asked = list[bool]()
    each_once = host_execution.write_distinct
    monkeypatch.setattr(host_execution, "write_distinct", lambda *given: asked.append(each_once(*given)) or asked[-1])
    draw, kind = np.random.default_rng(7), np.dtype(dtype).kind
    for size in (*range(1, 20), 127, 128, 255, 40_001):
        places = draw.permutation(size)
        x = {"none": places, "few": np.maximum(places, 2), "most": places // max(size // 3, 1), "all": places * 0}[repeated]
        x = (x * 0.5 if kind == "f" else x).astype(dtype)
        wanted = sorted(set(x.tolist()))
        for given in layouts_of(x):
            (found,) = assert_same_bits(lambda given=given: tx.unique_values(given))
            assert np.frombuffer(found[2], dtype).tolist() == wanted
        asked.clear()
        (node,) = host_execution.run_host_op(
            HOST_OPS["unique_values"], [host_execution.HostOperand(given.node, given.layout, given.dtype)], {}, {}
        )
        assert tx.Tensor._from_node(node).tolist() == wanted and asked == [True]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_unique_values_keeps_every_nan_and_one_zero(dtype: str) -> None:
    for size in (9, 17, 30, 20_000):
        x = np.arange(size).astype(dtype) // 2
        x[[0, 3, 8, size // 2]] = -0.0, np.nan, np.nan, np.nan
        given = tx.asarray(x).realize()
        (found,) = assert_same_bits(lambda given=given: tx.unique_values(given))
        assert found[2] == np.unique(x, equal_nan=False).tobytes()


def test_unique_values_of_up_to_100000_floats_is_recorded() -> None:
    for size, is_known in ((100_000, True), (100_001, False)):
        x = tx.asarray(np.random.default_rng(size).random(size)).realize()
        assert_same_bits(lambda x=x: tx.unique_values(x))
        assert known(x, "unique_values.unique_values") is is_known


@pytest.mark.parametrize("size", [2**17 + 1, 2**18 + 3, 2**21])
def test_bincount_adds_weights_in_order(size: int) -> None:
    draw = np.random.default_rng(size)
    x, weights = draw.integers(0, 3, size), draw.normal(size=size)
    given = [tx.asarray(a).realize() for a in (x, weights)]
    (found,) = assert_same_bits(lambda: tx.bincount(*given))
    assert found[2] == np.bincount(x, weights).tobytes() and known(given[0], "histograms.bincount")


def test_bincount_with_complex_weights_equals_numpy() -> None:
    x, weights = drawn(64, "uint8", 3).astype("int64"), np.arange(64) * (1 - 2j)
    given = [tx.asarray(a).realize() for a in (x, weights)]
    for _ in range(3):
        found = tx.bincount(*given).numpy()
        assert np.array_equal(found, np.bincount(x, weights.real) + 1j * np.bincount(x, weights.imag))
