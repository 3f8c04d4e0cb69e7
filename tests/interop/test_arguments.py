"""NumPy functions on tensors: each optional argument, by position or keyword, gives what NumPy gives for arrays."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, DTypeError, ShapeError

P = inspect.Parameter
M = np.arange(12.0).reshape(3, 4) + 1
V, K = np.asarray([3.0, 1.0, 2.0, 5.0]), np.asarray([2, 0, 1, 3])
S = np.eye(3) * 3 + np.arange(9.0).reshape(3, 3) / 9
B = np.asarray([3, 7, 200, 255], np.uint8)
# What the arguments without defaults may be: the first of these that NumPy takes.
GIVEN: tuple[tuple[Any, ...], ...] = (
    *((M,), (V,), (S,), (K,), (B,), (M, M), (V, V), (S, S), (K, K), (M, 0.5), (V, 0.5), (V, 2), (M, 2), (M, K[:3]), (M, (0, 1)), (V, (0,))),
    *(([M, M],), ([V, V],), (M, 0, 1), (V, V, V), (V, V, 1), (K, (4, 4)), (M, 1, 1.0), (V, 1, 1.0), ((K, K), (4, 4)), ([V > 2], [V])),
    *((V, V, 1), (M, (4, 3)), (M, 1), (np.random.default_rng(0).random((4, 6, 8, 3)),), (np.eye(6).reshape(2, 3, 6), np.ones((2, 3)))),
)
# What is given for the others, if not their defaults.
VALUES: dict[str, Any] = {
    **{"axis": 0, "dtype": np.float64, "keepdims": True, "initial": 1.0, "where": True, "ddof": 1, "k": 1, "n": 2, "decimals": 1},
    **{"mode": "clip", "side": "right", "method": "lower", "ndmin": 2, "rtol": 1e-3, "atol": 1e-3, "bins": 3, "range": (0, 5)},
    **{"norm": "ortho", "return_index": True, "return_inverse": True, "return_counts": True, "invert": True, "nan": 1.0},
    **{"posinf": 2.0, "neginf": 3.0, "weights": None, "offset": 1, "minlength": 7, "edge_order": 2, "bias": True, "num": 3},
}
ANOTHER = {"convolve": {"mode": "same"}, "correlate": {"mode": "same"}, "pad": {"mode": "edge"}, "qr": {"mode": "r"}}  # of the same name
# Where results are not compared, and why.
OTHERWISE = {
    **dict.fromkeys(("array2string", "array_repr", "array_str"), "texts"),
    **dict.fromkeys(("may_share_memory", "shares_memory"), "the arrays share memory, the tensors do not"),
    **dict.fromkeys(("save", "savetxt", "savez", "savez_compressed"), "files"),
    **dict.fromkeys(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"), "write, and give nothing"),
    "empty_like": "no values",
    "lstsq": "NumPy leaves out residuals where there are none to tell",
}
# What gives only NumPy's arrays: objects, times; and what we have not.
HAVE_NOT = {"busday_count", "busday_offset", "is_busday", "datetime_as_string", "can_cast", "roll"}


def functions() -> Iterator[Any]:
    for module in (np, np.linalg, np.fft):
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if not hasattr(function, "_implementation") or name in HAVE_NOT:  # what `__array_function__` is asked for
                continue
            try:
                inspect.signature(function)
            except ValueError:
                continue
            yield pytest.param(function, id=f"{module.__name__}.{name}")


def as_tensors(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(map(as_tensors, x))
    return tx.asarray(x, copy=True) if isinstance(x, np.ndarray) else x


def assert_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            assert_same(ours, theirs)
        return
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12, atol=1e-12)


def numpy_result(function: Callable[..., Any], *args: Any) -> Any:
    """Return NumPy's result for arrays, or None if it refuses such arguments."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*copy.deepcopy(args))
    except Exception:
        return None


@pytest.mark.parametrize("function", list(functions()))
def test_numpy_functions_take_arguments_by_position_as_by_name(function: Any) -> None:
    every = inspect.signature(function).parameters.values()
    needed = [p for p in every if p.kind in (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD) and p.default is P.empty]
    others = [p for p in every if p.kind is P.POSITIONAL_OR_KEYWORD and p.default is not P.empty]
    given = next((args for args in GIVEN if len(args) == len(needed) and numpy_result(function, *args) is not None), None)
    if function.__name__ in OTHERWISE or not others:
        return
    assert given is not None
    if function is np.searchsorted:  # what is in no order has no places
        given = np.sort(given[0]), given[1]
    values: list[Any] = []
    for p in others:
        value = ANOTHER.get(function.__name__, VALUES).get(p.name, VALUES.get(p.name, p.default))
        wanted = numpy_result(function, *given, *values, value)
        if wanted is None:  # which does not go with these others
            value = p.default
            wanted = numpy_result(function, *given, *values, value)
        values.append(value)
        if wanted is None:
            return
        assert_same(function(*as_tensors(given), *values), wanted)
        assert_same(function(*as_tensors(given), **dict(zip([q.name for q in others], values, strict=False))), wanted)
        if p.default is np._NoValue:  # given explicitly it is no argument
            assert_same(function(*as_tensors(given), *values[:-1], np._NoValue), numpy_result(function, *given, *values[:-1]))


def test_np_std_and_np_var_of_tensors_accept_positional_options() -> None:
    t = tx.asarray(M)
    assert_same(np.std(t, 0, None, None, 1), np.std(M, 0, None, None, 1))
    out = tx.zeros(4)
    assert np.std(t, 0, None, out, 1) is out
    assert_same(out, np.std(M, 0, ddof=1))
    assert_same(np.var(t, 1, mean=np.mean(t, 1, keepdims=True)), np.var(M, 1))


def test_out_given_by_position_to_numpy_functions_is_written() -> None:
    t, out, row = tx.asarray(M), tx.zeros((3, 4)), tx.zeros(4)
    assert np.round(t / 3, 1, out) is out and out.tolist() == np.round(M / 3, 1).tolist()
    assert np.ptp(t, 0, row) is row and row.tolist() == np.ptp(M, 0).tolist()
    assert np.nansum(t, 0, None, row) is row and row.tolist() == M.sum(0).tolist()
    assert np.take(t, [5, -7], 1, tx.zeros((3, 2)), "wrap").tolist() == np.take(M, [5, -7], 1, mode="wrap").tolist()
    assert np.choose(tx.asarray([0, 1, 0, 1]), [t[0], t[1]], row) is row and row.tolist() == [1.0, 6.0, 3.0, 8.0]
    array = np.zeros(4)
    assert np.std(t, 0, None, array) is array and array.tolist() == np.std(M, 0).tolist()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own
def test_nan_functions_match_numpy() -> None:
    x = np.where(M % 5 == 0, np.nan, M)
    t, even = tx.asarray(x), M % 2 == 0
    for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd"):
        function = getattr(np, name)
        assert_same(function(t, axis=0, where=tx.asarray(even | (M == 3))), function(x, axis=0, where=even | (M == 3)))
    assert_same(np.nanmax(t, 0, None, True, 9.0), np.nanmax(x, 0, None, True, 9.0))
    assert_same(np.nanquantile(t, [0.2, 0.5], 1, method="lower"), np.nanquantile(x, [0.2, 0.5], 1, method="lower"))
    assert isinstance(np.nanpercentile(t, 30), tx.Tensor)


def test_np_linspace_full_like_and_cross_of_tensors_match_numpy() -> None:
    low, high = np.asarray([0.0, 1.0]), np.asarray([[2.0], [5.0]])
    for options in ({}, {"endpoint": False}, {"axis": -1}, {"retstep": True}):
        assert_same(np.linspace(tx.asarray(low), tx.asarray(high), 4, **options), np.linspace(low, high, 4, **options))
    assert_same(np.linspace(tx.asarray(low), 3, 1), np.linspace(low, 3, 1))
    assert_same(np.full_like(tx.asarray(M), tx.asarray(V)), np.full_like(M, V))
    a, b = np.moveaxis(np.arange(12.0).reshape(4, 3), -1, 0), np.arange(12.0).reshape(4, 3)[::-1] ** 2
    assert_same(np.cross(tx.asarray(a), tx.asarray(b), 0, 1, 0), np.cross(a, b, 0, 1, 0))


@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [np.float64, np.int16, np.bool_])
def test_unique_along_an_axis_matches_numpy(axis: int | None, dtype: Any) -> None:
    for seed, shape in enumerate([(6, 2, 2), (0, 2, 1), (5, 0, 2), (1, 1, 3), (9, 1, 1)]):
        x = np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)
        found, wanted = np.unique(tx.asarray(x), True, True, True, axis), np.unique(x, True, True, True, axis)
        assert found[0].dtype == x.dtype
        assert_same(found, wanted)
    assert np.unique(tx.asarray([[2, 1], [2, 1]]), axis=0, sorted=False).tolist() == [[2, 1]]


def test_cov_of_weighted_observations_matches_numpy() -> None:
    times, sizes = np.asarray([1, 4, 0, 2]), np.asarray([0.5, 1.0, 2.0, 0.25])
    for options in (
        *({"fweights": times}, {"aweights": sizes}, {"fweights": times, "aweights": sizes}, {"aweights": sizes, "ddof": 0}),
        *({"fweights": times, "bias": True}, {"dtype": np.float32}),
    ):
        given = {key: as_tensors(value) for key, value in options.items()}
        found = np.cov(tx.asarray(M), **given)
        np.testing.assert_allclose(np.asarray(found), np.cov(M, **options), rtol=1e-6)
        assert found.dtype == options.get("dtype", np.float64)
    assert_same(np.cov(tx.asarray(M), None, True, False, None, tx.asarray(times)), np.cov(M, fweights=times))
    assert np.corrcoef(tx.asarray(M), dtype=np.float32).dtype is tx.float32
    with pytest.raises(DTypeError, match="they must be integers, how often"):
        np.cov(tx.asarray(M), fweights=sizes)
    with pytest.raises(ArgumentError, match="aweights has a negative element"):
        np.cov(tx.asarray(M), aweights=-sizes)
    with pytest.raises(ShapeError, match=r"aweights has shape \(3,\); it must be \(4,\), one weight for each observation"):
        np.cov(tx.asarray(M), aweights=sizes[:3])


def test_missing_axis_raises_the_axis_error_of_numpy() -> None:
    for call in (lambda t: np.rot90(t, axes=(1, 1)), lambda t: np.flip(t, 2), lambda t: np.diff(t, axis=3), lambda t: tx.sum(t, axis=5)):
        with pytest.raises(np.exceptions.AxisError, match="ax"):
            call(tx.asarray(M))
    error = pickle.loads(pickle.dumps(AxisError("sum: axis 5 does not exist")))
    assert type(error) is AxisError and str(error) == "sum: axis 5 does not exist" and isinstance(error, (IndexError, ValueError))
    sent = AxisError.__new__(AxisError)  # as libraries that send errors between processes make it
    sent.args = error.args
    assert str(sent) == str(error)


def test_diag_and_triangle_indices_from_reject_other_shapes() -> None:
    for shape in ((3,), (2, 3), (2, 2, 3)):
        with pytest.raises(ShapeError, match=r"np\.diag_indices_from: shape .* has no single diagonal"):
            np.diag_indices_from(tx.zeros(shape))
    for function in (np.tril_indices_from, np.triu_indices_from):
        with pytest.raises(ShapeError, match=r"indices_from: an array of shape \(2, 2, 2\) is no matrix; it must have 2 axes"):
            function(tx.zeros((2, 2, 2)))
    assert_same(np.diag_indices_from(tx.zeros((2, 2, 2))), np.diag_indices_from(np.zeros((2, 2, 2))))


def test_gradients_pass_through_unique() -> None:
    x = tx.asarray([[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    (np.unique(x, axis=0) * tx.asarray([[1.0], [10.0]])).sum().backward()
    assert x.grad.tolist() == [[10.0, 10.0], [1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("weights_dtype", ["i1", "i4", "u8", "?", "f4", "c8"])
@pytest.mark.parametrize("dtype", ["i1", "i4", "u8", "?", "f4", "f8"])
def test_weighted_average_of_integers_does_not_overflow(dtype: str, weights_dtype: str) -> None:
    values, weights = np.ones(3, dtype), np.ones(3, weights_dtype)
    for array in (values, weights):
        if array.dtype.kind in "iu":
            array[:2] = np.iinfo(array.dtype).max // 2
    found = np.average(tx.asarray(values), weights=tx.asarray(weights), returned=True)
    for ours, theirs in zip(found, np.average(values, weights=weights, returned=True), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
